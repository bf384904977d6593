package forecast

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
	"github.com/mash2-io/mash2/forecast/season"
)

// restarted is the state of a process that begins anew with what was kept of s, as
// JSON; size is how many bytes that is.
func restarted(t *testing.T, s State) (fresh State, size int) {
	t.Helper()
	kept, err := json.Marshal(s.Trust())
	if err != nil {
		t.Fatal(err)
	}
	var trust Trust
	if err := json.Unmarshal(kept, &trust); err != nil {
		t.Fatal(err)
	}
	if fresh, err = (State{ID: s.ID}).WithTrust(trust); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Trust(), fresh.Trust(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("trust isn't kept until the first update (-before +after):\n%s", diff)
	}
	return fresh, len(kept)
}

// trust that a skill earns under the planner's defaults.
func trust(skill float64) string {
	switch {
	case math.IsNaN(skill) || skill <= 0:
		return "none"
	case skill < 0.1:
		return "up"
	}
	return "full"
}

// TestARestartKeepsTrust: one that was found out is not believed after a restart, one
// that is right is, at once and later. Who has no trust kept believes the liar.
func TestARestartKeepsTrust(t *testing.T) {
	const horizon, begin, turn, restart, end = 40, 350, 400, 440, 480
	long := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 900, 0.03, 3, 0.01, 1)
	at := func(i int) time.Time { return long.Start.Add(time.Duration(i) * long.Step) }
	for name, tc := range map[string]struct {
		times float64
		// what is kept of trust decides with it and without, at once.
		want, without string
	}{
		"right":          {1, "full", "full"},
		"three times":    {3, "none", "full"},
		"nothing at all": {0, "none", "full"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Guarded(liar{from: at(turn), say: func(v float64, _ int) float64 { return tc.times * v }})
			s := NewState(name)
			var got api.Forecast
			for n := begin; n < restart; n++ {
				s, got = said(t, f, s, windowOf(long, 0, n), horizon, []float64{0.5, 0.9})
			}
			if trust(got.Skill) != tc.want {
				t.Fatalf("the trust is %s before the restart, want %s", trust(got.Skill), tc.want)
			}
			before := *s.Record
			fresh, _ := restarted(t, s)
			if got, err := f.Forecast(fresh, windowOf(long, 0, restart), horizon, []float64{0.5, 0.9}); err != nil {
				t.Error(err)
			} else if got.Model != NaiveName {
				t.Errorf("before the first update it forecasts by %s, want %s", got.Model, NaiveName)
			}
			if _, got := said(t, f, NewState(name), windowOf(long, 0, restart), horizon, []float64{0.5, 0.9}); trust(got.Skill) != tc.without {
				t.Errorf("without trust the trust is %s, want %s: the test shows nothing", trust(got.Skill), tc.without)
			}
			for n := restart; n < end; n++ {
				fresh, got = said(t, f, fresh, windowOf(long, 0, n), horizon, []float64{0.5, 0.9})
				if trust(got.Skill) != tc.want {
					t.Fatalf("the trust is %s (skill %.2f) %d samples after the restart, want %s", trust(got.Skill), got.Skill, n-restart, tc.want)
				}
			}
			if before.Probation > 0 && fresh.Record.Probation == 0 {
				t.Error("probation ended while it went on lying")
			}
		})
	}
}

// A restart is as a refit: model, season, experts, weights and skill are the same, for
// series of many kinds, also where a season is too hard to see for one that knows
// nothing of it.
func TestARestartIsAsARefit(t *testing.T) {
	const horizon = 24
	mostly, largest := 0, 0
	for name, load := range map[string]forecasttest.Signal{
		"heartbeat": forecasttest.Heartbeat, "a hard season": forecasttest.Sine(140*60, 100, 12), "a plain season": forecasttest.Sine(3600, 100, 60),
		"none": func(float64) float64 { return 100 },
	} {
		for _, f := range []Auto{{}, {Portfolio: true}} {
			for seed := range uint64(3) {
				long := forecasttest.Sampled(load, time.Minute, 1400, 0.03, 10, 0.01, seed)
				s := NewState(name)
				g := Guarded(f)
				for n := 700; n <= 1400; n += 20 {
					var err error
					if s, err = g.Update(s, windowOf(long, n-700, 700), horizon); err != nil {
						t.Fatal(err)
					}
				}
				fresh, size := restarted(t, s)
				largest = max(largest, size)
				series := windowOf(long, 700, 700)
				want, got := f.refit(s, series, horizon), f.refit(fresh, series, horizon)
				none := f.refit(NewState(name), series, horizon)
				want.Fits = got.Fits
				ignored := cmpopts.IgnoreUnexported(State{})
				if diff := cmp.Diff(want, got, ignored); diff != "" {
					t.Errorf("%s, %s, seed %d: a restart differs from a refit (-refit +restart):\n%s", f.Name(), name, seed, diff)
				}
				if !cmp.Equal(want, none, ignored) {
					mostly++
				}
			}
		}
	}
	t.Logf("without trust %d of 24 differ; %d bytes at most", mostly, largest)
	if mostly == 0 {
		t.Error("without trust nothing differs: the test shows nothing")
	}
	if largest > 2<<10 {
		t.Errorf("%d bytes, want 2 KiB at most", largest)
	}
}

// What is kept, part by part.
func TestWhatTrustHolds(t *testing.T) {
	s := NewState("z")
	s.Fits, s.Step, s.Model, s.Up, s.Down = 3, time.Minute, MixtureName, 1.5, 0.5
	s.Seasons, s.Seasonal = []season.Season{{Period: 12, Strength: 0.3}, {Period: 24, Strength: 0.6}, {Period: 48, Strength: 0.4}}, &SeasonalFit{Period: 24, Cycles: 4, Gain: []float64{1}}
	s.Mixture = &MixtureFit{Unit: 3, Start: minute(1), Up: 2, Down: 3, Experts: []Expert{
		{Name: NaiveName, Weight: 0.25}, {Name: SeasonalName, Weight: 0.5, Seasonal: &SeasonalFit{Period: 24, Cycles: 4}}, {Name: "ets", Weight: 0.25, Params: []float64{1}},
	}}
	s.Record = &Record{
		Promises: make([]Promise, 2), Made: minute(4), Loss: 1, Reference: 2, Scored: 3, Above: 4, Counted: 5,
		Probation: 6, Error: 7, Cycle: 8, Cycles: 9, Top: 10, Seen: minute(5), Fits: 11,
		Level: 0.97, Inside: 12, Judged: 13,
	}
	want := Trust{
		Step: time.Minute, Model: MixtureName, Up: 1.5, Down: 0.5, Season: &season.Season{Period: 24, Strength: 0.6},
		Weights: []Weight{{NaiveName, 0, 0.25}, {SeasonalName, 24, 0.5}, {"ets", 0, 0.25}},
		Record:  &Record{Loss: 1, Reference: 2, Scored: 3, Above: 4, Counted: 5, Probation: 6, Error: 7, Cycle: 8, Cycles: 9, Level: 0.97, Inside: 12, Judged: 13},
	}
	if diff := cmp.Diff(want, s.Trust()); diff != "" {
		t.Errorf("trust (-want +got):\n%s", diff)
	}
	fresh, err := NewState("z").WithTrust(want)
	if err != nil {
		t.Fatal(err)
	}
	back := NewState("z")
	back.Step, back.Model, back.Up, back.Down, back.Record = want.Step, want.Model, want.Up, want.Down, want.Record
	back.Seasons, back.Seasonal = []season.Season{{Period: 24, Strength: 0.6}}, &SeasonalFit{Period: 24, Cycles: 1}
	back.Mixture = &MixtureFit{Up: 1, Down: 1, Experts: []Expert{
		{Name: NaiveName, Weight: 0.25}, {Name: SeasonalName, Weight: 0.5, Seasonal: &SeasonalFit{Period: 24, Cycles: 1}}, {Name: "ets", Weight: 0.25},
	}}
	ignored := cmpopts.IgnoreUnexported(State{})
	if diff := cmp.Diff(back, fresh, ignored); diff != "" {
		t.Errorf("with trust (-want +got):\n%s", diff)
	}
	if fresh.Record == want.Record {
		t.Error("the state holds the caller's record")
	}
	// None takes it away again.
	none, err := fresh.WithTrust(Trust{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(NewState("z"), none, ignored); diff != "" {
		t.Errorf("without trust (-want +got):\n%s", diff)
	}
}

func TestBadTrustIsRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	fitted, err := Auto{}.Update(NewState("z"), forecasttest.Sampled(forecasttest.Heartbeat, time.Minute, 100, 0, 0, 0, 1), 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fitted.WithTrust(Trust{}); !errors.Is(err, ErrBadTrust) {
		t.Errorf("a state that was fitted: error %v, want %v", err, ErrBadTrust)
	}
	for name, trust := range map[string]Trust{
		"a step back":              {Step: -1},
		"a factor that is none":    {Up: nan, Down: 1},
		"a factor below bounds":    {Up: 0.39, Down: 1},
		"a factor beyond bounds":   {Up: 1, Down: 5},
		"one factor":               {Up: 1},
		"a season of one sample":   {Season: &season.Season{Period: 1}},
		"a season that never ends": {Season: &season.Season{Period: inf}},
		"a season of no strength":  {Season: &season.Season{Period: 9, Strength: nan}},
		"a weight above one":       {Weights: []Weight{{Expert: "ets", Weight: 1.5}}},
		"a weight that is none":    {Weights: []Weight{{Expert: "ets", Weight: nan}}},
		"a weight below zero":      {Weights: []Weight{{Expert: "ets", Weight: -0.1}}},
		"a period that never ends": {Weights: []Weight{{Expert: "ets", Period: inf}}},
		"too many weights":         {Weights: make([]Weight, mostWeights+1)},
		"promises":                 {Record: &Record{Promises: make([]Promise, 1)}},
		"a loss below zero":        {Record: &Record{Loss: -1}},
		"a reference that is none": {Record: &Record{Reference: nan}},
		"an infinite error":        {Record: &Record{Error: inf}},
		"a cycle below zero":       {Record: &Record{Cycle: -1}},
		"too many results":         {Record: &Record{Scored: 25}},
		"fewer than none":          {Record: &Record{Scored: -1}},
		"too many seasons seen":    {Record: &Record{Cycles: 25}},
		"fewer seasons than none":  {Record: &Record{Cycles: -1}},
		"more above than results":  {Record: &Record{Above: 2, Counted: 1}},
		"fewer above than none":    {Record: &Record{Above: -1, Counted: 1}},
		"too many counted":         {Record: &Record{Counted: 97}},
		"more within than judged":  {Record: &Record{Inside: 2, Judged: 1}},
		"fewer within than none":   {Record: &Record{Inside: -1, Judged: 1}},
		"too many judged":          {Record: &Record{Judged: 385}},
		"judged, but not a number": {Record: &Record{Judged: nan}},
		"a quantile of one":        {Record: &Record{Level: 1}},
		"a quantile that is none":  {Record: &Record{Level: nan}},
		"probation below zero":     {Record: &Record{Probation: -1}},
		"probation without end":    {Record: &Record{Probation: probation + 1}},
	} {
		s := NewState("z")
		got, err := s.WithTrust(trust)
		if !errors.Is(err, ErrBadTrust) {
			t.Errorf("%s: error %v, want %v", name, err, ErrBadTrust)
		}
		if diff := cmp.Diff(s, got, cmpopts.IgnoreUnexported(State{})); diff != "" {
			t.Errorf("%s: the state has changed:\n%s", name, diff)
		}
	}
	for name, trust := range map[string]Trust{
		"none":             {},
		"at every bound":   {Up: leastFactor, Down: mostFactor, Record: &Record{Scored: 24, Cycles: 24, Counted: 96, Above: 96, Inside: 384, Judged: 384, Level: 0.99, Probation: probation}},
		"a certain choice": {Weights: []Weight{{Expert: NaiveName, Weight: 1}, {Expert: LevelName}}},
		"nothing counted":  {Record: &Record{}},
		"all that can be said": {
			Season: &season.Season{Period: math.MaxInt32}, Weights: make([]Weight, mostWeights),
			Record: &Record{Loss: math.MaxFloat64, Reference: math.MaxFloat64, Error: math.MaxFloat64, Cycle: math.MaxFloat64},
		},
	} {
		if _, err := NewState("z").WithTrust(trust); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzTrust: whatever is read as a checkpoint is refused or serves: forecasts from it
// are numbers, and what is kept of it next is accepted.
func FuzzTrust(f *testing.F) {
	long := forecasttest.Sampled(forecasttest.Heartbeat, time.Minute, 160, 0.03, 3, 0.01, 1)
	long.Censored = []api.Span{{From: long.Start.Add(100 * time.Minute), To: long.Start.Add(110 * time.Minute)}}
	for _, forecaster := range []Auto{{}, {Portfolio: true}} {
		s, err := Guarded(forecaster).Update(NewState("z"), long, 12)
		if err != nil {
			f.Fatal(err)
		}
		kept, err := json.Marshal(s.Trust())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kept)
	}
	f.Add([]byte(`{"step":60000000000,"record":{"loss":1e308,"reference":1e308,"scored":24,"probation":3},"model":"long","season":{"period":1e9},"weights":[{"expert":"?","weight":1,"period":1e300}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var trust Trust
		if json.Unmarshal(data, &trust) != nil {
			return
		}
		s, err := NewState("z").WithTrust(trust)
		if err != nil {
			if !errors.Is(err, ErrBadTrust) {
				t.Error(err)
			}
			return
		}
		g := Guarded(Auto{Portfolio: true})
		for n := 150; n <= 160; n += 5 {
			var got api.Forecast
			s, got = said(t, g, s, windowOf(long, 0, n), 12, []float64{0.5, 0.9})
			for _, v := range append(append([]float64{}, got.Mean...), got.PeakQuantiles...) {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Fatalf("forecast %v", v)
				}
			}
			if _, err := NewState("z").WithTrust(s.Trust()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
