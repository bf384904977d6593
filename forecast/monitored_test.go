package forecast

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// liar forecasts by Auto until a time, then something else, and goes on to claim
// a skill of 0.9.
type liar struct {
	Auto
	from time.Time
	say  func(v float64, h int) float64
}

func (l liar) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	f, err := l.Auto.Forecast(s, series, horizon, levels)
	f.Skill = 0.9
	if err != nil || series.End().Before(l.from) {
		return f, err
	}
	for h := range f.Mean {
		f.Mean[h] = l.say(f.Mean[h], h)
		for _, q := range f.Quantiles {
			q[h] = l.say(q[h], h)
		}
	}
	for i, p := range f.PeakQuantiles {
		f.PeakQuantiles[i] = l.say(p, 0)
	}
	return f, err
}

// TestLiarsAreFoundOut: within one horizon of turning wrong, mostly sooner, a
// forecaster has no skill any more, whatever it claims; one that is right keeps
// it, and one that comes to its senses gets it back. All are guarded as the
// operator's is.
func TestLiarsAreFoundOut(t *testing.T) {
	const (
		horizon = 40
		turn    = 400
		within  = horizon
	)
	long := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 900, 0.03, 3, 0.01, 1)
	at := func(i int) time.Time { return long.Start.Add(time.Duration(i) * long.Step) }
	for name, tc := range map[string]struct {
		say    func(v float64, h int) float64
		demote bool
	}{
		"right":                    {func(v float64, _ int) float64 { return v }, false},
		"zero":                     {func(float64, int) float64 { return 0 }, true},
		"a million times":          {func(v float64, _ int) float64 { return 1e6 * v }, true},
		"shifted by half a period": {func(_ float64, h int) float64 { return forecasttest.Heartbeat(float64(h) * 15) }, true},
		"three times":              {func(v float64, _ int) float64 { return 3 * v }, true},
		"not a number":             {func(float64, int) float64 { return math.NaN() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := Guarded(liar{from: at(turn), say: tc.say})
			s := NewState(name)
			lost, worst := -1, math.Inf(1)
			for n := 350; n < turn+200; n++ {
				next, got := said(t, f, s, windowOf(long, 0, n), horizon, []float64{0.5, 0.95})
				s = next
				if n < turn && n > 360 && !(got.Skill > 0.5) {
					t.Fatalf("sample %d: skill %.2f while it was right", n, got.Skill)
				}
				if n > turn {
					worst = min(worst, got.Skill)
				}
				if n > turn && got.Skill <= 0 && lost < 0 {
					lost = n - turn
				}
				for _, p := range got.PeakQuantiles {
					if !(p <= 1200) { // twice the highest of 400 and noise, some to spare
						t.Fatalf("sample %d: the peak is said to be %v", n, p)
					}
				}
			}
			if tc.demote != (lost >= 0) || lost > within {
				t.Errorf("lost its skill after %d samples, the least was %.2f; demoted is to be %v", lost, worst, tc.demote)
			}
			t.Logf("lost after %d samples, least skill %.2f", lost, worst)
			if !tc.demote {
				if seasonal := s.Record.SeasonalSkill(); !(seasonal > -1) {
					t.Errorf("skill against the season %.2f", seasonal)
				}
				return
			}
			f = Guarded(Auto{}) // it comes to its senses
			back := -1
			for n := turn + 200; n < 890; n++ {
				next, got := said(t, f, s, windowOf(long, 0, n), horizon, []float64{0.5})
				s = next
				if got.Skill > 0.2 {
					back = n - turn - 200
					break
				}
			}
			if back < 0 {
				t.Error("never trusted again")
			}
			t.Logf("trusted again after %d samples", back)
		})
	}
}

// bent forecasts by Auto, and changes its quantiles at and above, or below, some level.
type bent struct {
	Auto
	low, high float64 // of the levels that are changed
	times     float64
}

func (b bent) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	f, err := b.Auto.Forecast(s, series, horizon, levels)
	for i, q := range f.Levels {
		if q >= b.low && q <= b.high {
			for h := range f.Mean {
				f.Quantiles[i][h] = max(0, f.Mean[h]+b.times*(f.Quantiles[i][h]-f.Mean[h]))
			}
		}
	}
	return f, err
}

// Each part of what trust goes by finds out what the others don't: the interval of 90 %,
// and the loss at the quantile that is planned by, whichever that is.
func TestEachPartFindsOut(t *testing.T) {
	const horizon = 40
	long := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 2400, 0.1, 3, 0, 1)
	for name, tc := range map[string]struct {
		f               Forecaster
		level           float64
		skilled         bool // at the end
		seldom, tooMany bool
	}{
		"as it is":                    {f: Auto{}, skilled: true},
		"as it is, planned by 0.97":   {f: Auto{}, level: 0.97, skilled: true},
		"nothing comes below":         {f: bent{Auto{}, 0, 0.3, 3}, skilled: true, tooMany: false},
		"low quantiles at the middle": {f: bent{Auto{}, 0, 0.3, 0}, skilled: true, seldom: true},
		"the highest at the middle":   {f: bent{Auto{}, 0.93, 0.96, 0}, skilled: true, seldom: true},
		"an interval thrice as wide":  {f: bent{Auto{}, 0, 1, 3}, skilled: true, tooMany: true},
		"0.97 at the middle":          {f: bent{Auto{}, 0.96, 1, 0}, level: 0.97},
		"0.97 at the middle, unused":  {f: bent{Auto{}, 0.96, 1, 0}, skilled: true},
		"0.9 at the middle":           {f: bent{Auto{}, 0.89, 0.91, 0}},
		"0.9 at the middle, unused":   {f: bent{Auto{}, 0.89, 0.91, 0}, level: 0.97, skilled: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := Guarded(tc.f)
			s := NewState(name)
			s.Level = tc.level
			var got api.Forecast
			for n := 1200; n < len(long.Values); n++ {
				s, got = said(t, f, s, windowOf(long, n-1200, 1200), horizon, []float64{0.5, 0.9})
			}
			if (got.Skill >= 0.1) != tc.skilled {
				t.Errorf("its skill is %.2f, skilled is to be %v", got.Skill, tc.skilled)
			}
			if got.Coverage == nil {
				t.Fatal("its coverage is not known")
			}
			t.Logf("skill %.2f, coverage %+v", got.Skill, *got.Coverage)
			if got.Coverage.TooSeldom(0.85) != tc.seldom || got.Coverage.TooOften(0.95) != tc.tooMany {
				t.Errorf("its interval holds for %+v; too seldom is to be %v, too often %v", *got.Coverage, tc.seldom, tc.tooMany)
			}
		})
	}
}

// A change of the quantile that is planned by leaves the skill, and begins to count anew
// what comes above.
func TestAnotherQuantile(t *testing.T) {
	series := byTheMinute(0, 1, 2, 3, 4, 5, 6)
	w := Monitored{scripted{skill: 0.5, fits: 1}}
	s, err := w.Update(State{}, series, 16)
	if err != nil {
		t.Fatal(err)
	}
	s.Record.Above, s.Record.Counted, s.Record.Loss, s.Record.Judged = 3, 6, 7, 8
	s.Level = 0.97
	next, err := w.Update(s, series, 16)
	if err != nil {
		t.Fatal(err)
	}
	r := next.Record
	if r.Above != 0 || r.Counted != 0 || r.Level != 0.97 || r.Loss != 7 || r.Judged != 8 || len(r.Promises) != 8 {
		t.Errorf("the account goes on with %+v", r)
	}
	same, err := w.Update(next, series, 16)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, same.Record); diff != "" {
		t.Errorf("an update for the same quantile changes it:\n%s", diff)
	}
}

// claimant forecasts by Auto, but says what its skill is, and every value so many
// times as large.
type claimant struct {
	Auto
	say func(at time.Time) (skill, times float64)
}

func (c claimant) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	f, err := c.Auto.Forecast(s, series, horizon, levels)
	var times float64
	f.Skill, times = c.say(series.End())
	for h := range f.Mean {
		f.Mean[h] *= times
		for _, q := range f.Quantiles {
			q[h] *= times
		}
	}
	return f, err
}

// A season that repeats itself to the letter is the best case there is: it is trusted,
// although its quantiles are one, and off by what arithmetic and fitting leave.
func TestAnExactSeasonIsTrusted(t *testing.T) {
	const period, horizon, n = 120, 60, 1440
	for name, at := range map[string]func(i int) float64{
		"a sine":         func(i int) float64 { return math.Round(500 + 300*math.Sin(2*math.Pi*float64(i)/period)) },
		"a sawtooth":     func(i int) float64 { return float64(10 * (i % period)) },
		"on and off":     func(i int) float64 { return float64(1000 * (i % period / 80)) },
		"some pods' CPU": func(i int) float64 { return 0.1 + 0.6*float64(i%period/80) },
	} {
		t.Run(name, func(t *testing.T) {
			series := api.Series{Start: time.Unix(0, 0).UTC(), Step: 15 * time.Second}
			for i := range n {
				series.Values = append(series.Values, at(i))
			}
			f, s, full, all := Guarded(Auto{}), NewState(name), 0, 0
			for i := range n {
				known := windowOf(series, 0, i+1)
				var err error
				if s, err = f.Update(s, known, horizon); err != nil {
					t.Fatal(err)
				}
				if i < 6*period {
					continue
				}
				got, err := f.Forecast(s, known, horizon, []float64{0.9})
				if err != nil {
					t.Fatal(err)
				}
				if all++; got.Skill >= 0.1 && !got.Coverage.TooSeldom(0.85) && !got.Coverage.TooOften(0.95) {
					full++
				}
			}
			if full < all*95/100 {
				t.Errorf("trusted %d times of %d", full, all)
			}
		})
	}
}

// TestTheThirdToothIsForeseen: nobody foresees the first two teeth, and who claims
// nothing about them is not found out by them. The season is used as soon as it is
// seen.
func TestTheThirdToothIsForeseen(t *testing.T) {
	const horizon, idle, tooth = 61, 8, 40
	teeth := func(seconds float64) float64 {
		sample := seconds/15 - idle
		if sample < 0 {
			return 0
		}
		switch at := math.Mod(sample, tooth); {
		case at < 16:
			return 100 + 1500*at/16
		case at < 20:
			return 100 + 1500*(20-at)/4
		}
		return 100
	}
	for seed := range uint64(8) {
		long := forecasttest.Sampled(teeth, 15*time.Second, idle+3*tooth, 0.03, 3, 0, 0)
		for i, noise := 0, forecasttest.Sampled(func(float64) float64 { return 1 }, 15*time.Second, len(long.Values), 0.03, 0, 0, seed); i < len(long.Values); i++ {
			long.Values[i] *= noise.Values[i]
		}
		f := Guarded(Auto{})
		s := NewState("teeth")
		claimed := false
		for n := idle; n < len(long.Values) && !claimed; n++ {
			next, got := said(t, f, s, windowOf(long, 0, n), horizon, []float64{0.5, 0.9})
			s = next
			if claimed = s.Skill != nil && *s.Skill > 0.8; claimed && !(got.Skill > 0.1) {
				t.Errorf("seed %d: a skill of %.2f is claimed at sample %d, and %.2f believed", seed, *s.Skill, n, got.Skill)
			}
		}
		if !claimed {
			t.Errorf("seed %d: the season was not seen in three teeth", seed)
		}
	}
}

// TestSilenceBuysNothing: a forecaster that was found out stays on probation although it
// claims nothing of its wrong words for a while, and one that begins to lie is found
// out as soon as ever.
func TestSilenceBuysNothing(t *testing.T) {
	const horizon, begin, quiet, claims = 40, 350, 430, 520
	long := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, claims+2*horizon, 0.03, 3, 0, 1)
	at := func(n int) time.Time { return long.Start.Add(time.Duration(n-1) * long.Step) }
	for name, first := range map[string]float64{"found out": 0.9, "silent": math.NaN()} {
		within := horizon
		if first > 0 {
			within = 0
		}
		f := Guarded(claimant{say: func(end time.Time) (skill, times float64) {
			switch {
			case end.Before(at(quiet)):
				return first, 3
			case end.Before(at(claims)):
				return math.NaN(), 3
			}
			return 0.9, 3
		}})
		s := NewState(name)
		lost := -1
		for n := begin; n < len(long.Values); n++ {
			next, got := said(t, f, s, windowOf(long, 0, n), horizon, []float64{0.5})
			s = next
			if n == quiet && (s.Record.Probation > 0) != (first > 0) {
				t.Errorf("%s: on probation for %d more after the first part", name, s.Record.Probation)
			}
			if n >= claims && lost < 0 && got.Skill <= 0 {
				lost = n - claims
			}
		}
		t.Logf("%s: no skill after %d samples", name, lost)
		if lost < 0 || lost > within {
			t.Errorf("%s: no skill after %d samples", name, lost)
		}
	}
}

// The state is a value: an update of a monitored forecaster leaves the one before
// as it was.
func TestMonitoredStateIsAValue(t *testing.T) {
	long := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 300, 0.03, 3, 0, 1)
	past := long
	past.Values = long.Values[:250]
	f := Monitored{Auto{}}
	s, err := f.Update(NewState("x"), past, 20)
	if err != nil {
		t.Fatal(err)
	}
	before := *s.Record
	promises := append([]Promise(nil), before.Promises...)
	for n := 251; n < 300; n++ {
		past.Values = long.Values[:n]
		if _, err := f.Update(s, past, 20); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, *s.Record); diff != "" {
		t.Errorf("the record was written to:\n%s", diff)
	}
	if diff := cmp.Diff(promises, s.Record.Promises); diff != "" {
		t.Errorf("promises were written to:\n%s", diff)
	}
}

// TestMonitoredWaitsForTheHorizon: after a start what is due first is of the next
// few steps, where the last value is as good as any. A forecaster that is good
// over the horizon keeps its skill meanwhile, but for bad luck.
func TestMonitoredWaitsForTheHorizon(t *testing.T) {
	const horizon, start, seeds = 63, 1500, 8
	lost, runs := 0, 0
	for name, signal := range map[string]forecasttest.Signal{"half an hour": forecasttest.Sine(1800, 100, 60), "13 minutes": forecasttest.Sine(780, 100, 60)} {
		for seed := range uint64(seeds) {
			runs++
			if after := distrusted(t, forecasttest.Sampled(signal, 15*time.Second, start+2*horizon, 0.05, 0, 0, seed), start, horizon); after >= 0 {
				t.Logf("%s, seed %d: distrusted after %d samples", name, seed, after)
				lost++
			}
		}
	}
	if lost > runs/8 {
		t.Errorf("%d of %d good forecasters were distrusted", lost, runs)
	}
}

// distrusted is how many samples after the first start of them a forecaster has
// little skill left, -1 if it never has.
func distrusted(t *testing.T, long api.Series, start, horizon int) int {
	t.Helper()
	w := Monitored{Forecaster: Auto{}}
	s := NewState("started")
	for n := start; n < len(long.Values); n++ {
		past := long
		past.Values = long.Values[:n]
		var err error
		if s, err = w.Update(s, past, horizon); err != nil {
			t.Fatal(err)
		}
		f, err := w.Forecast(s, past, horizon, []float64{0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		if f.Skill < 0.2 {
			return n - start
		}
	}
	return -1
}

// said is a state after a window, and what is said then.
func said(t *testing.T, f Forecaster, s State, window api.Series, horizon int, levels []float64) (State, api.Forecast) {
	t.Helper()
	s, err := f.Update(s, window, horizon)
	if err != nil {
		t.Fatal(err)
	}
	fc, err := f.Forecast(s, window, horizon, levels)
	if err != nil {
		t.Fatal(err)
	}
	return s, fc
}
