package forecast

import (
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

// minute is the time of sample i of byTheMinute's.
func minute(i int) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(i) * time.Minute) }

func byTheMinute(from int, values ...float64) api.Series {
	return api.Series{Start: minute(from), Step: time.Minute, Values: values}
}

var nearly = cmp.Options{cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateNaNs()}

// What one result adds to the account, by hand: pinball losses at 0.5 and 0.9 of what
// came, which is 100 at minute 1.
func TestWhatAResultCounts(t *testing.T) {
	season := func(v float64) *float64 { return &v }
	nan := math.NaN()
	for name, tc := range map[string]struct {
		before    Record
		promise   Promise // Last is {80, 120}, of a loss of 10 + 2, where it is not given
		gap       bool
		censored  bool
		reference float64
		want      Record
	}{
		"a good word": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}}, // 5 + 1
			want:    Record{Loss: 6, Reference: 12, Scored: 1, Counted: 1},
		},
		"what was there fades by a 24th, coverage by a 96th": {
			before:  Record{Loss: 24, Reference: 48, Scored: 12, Above: 4.8, Counted: 9.6, Error: 24, Cycle: 48, Cycles: 12},
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Cycle: season(70)},
			want:    Record{Loss: 29, Reference: 58, Scored: 12.5, Above: 4.75, Counted: 10.5, Error: 33, Cycle: 76, Cycles: 12.5},
		},
		"above the high quantile": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 99}}, // 5 + 0.9
			want:    Record{Loss: 5.9, Reference: 12, Scored: 1, Above: 1, Counted: 1},
		},
		"at the high quantile": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 100}},
			want:    Record{Loss: 5, Reference: 12, Scored: 1, Counted: 1},
		},
		"above it by less than matters": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 99.95}}, // 5 + 0.045
			want:    Record{Loss: 5.045, Reference: 12, Scored: 1, Counted: 1},
		},
		"beside a narrow interval by less than matters": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Interval: [2]float64{100.05, 100.05}, Weight: 0.25},
			want:    Record{Loss: 6, Reference: 12, Scored: 1, Counted: 1, Inside: 0.225, Judged: 0.25},
		},
		"beside it by more": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Interval: [2]float64{99.8, 99.8}, Weight: 0.25},
			want:    Record{Loss: 6, Reference: 12, Scored: 1, Counted: 1, Judged: 0.25},
		},
		"within the interval": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Interval: [2]float64{100, 110.1}, Weight: 0.25},
			want:    Record{Loss: 6, Reference: 12, Scored: 1, Counted: 1, Inside: 0.25, Judged: 0.25},
		},
		"within a narrow one, which proves nothing": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Interval: [2]float64{91, 101}, Weight: 0.25},
			want:    Record{Loss: 6, Reference: 12, Scored: 1, Counted: 1, Inside: 0.225, Judged: 0.25},
		},
		"below the interval": {
			before:  Record{Inside: 192, Judged: 384},
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Interval: [2]float64{101, 110}, Weight: 0.5},
			want:    Record{Loss: 6, Reference: 12, Scored: 1, Counted: 1, Inside: 191.75, Judged: 384},
		},
		"above it": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Interval: [2]float64{10, 99}, Weight: 0.5},
			want:    Record{Loss: 6, Reference: 12, Scored: 1, Counted: 1, Judged: 0.5},
		},
		"an interval that is none": {
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Interval: [2]float64{nan, nan}, Weight: 0.5},
			want:    Record{Loss: 6, Reference: 12, Scored: 1, Counted: 1, Judged: 0.5},
		},
		"planned by another quantile": {
			before:  Record{Level: 0.99},
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}}, // 5 + 0.1
			want:    Record{Loss: 5.1, Reference: 10.2, Scored: 1, Counted: 1, Level: 0.99},
		},
		"not yet due": {
			promise: Promise{At: minute(2), Own: [2]float64{90, 99}},
			want:    Record{Promises: []Promise{{At: minute(2), Own: [2]float64{90, 99}, Last: [2]float64{80, 120}}}},
		},
		"lost in front of the history": {promise: Promise{At: minute(-1), Own: [2]float64{90, 99}}},
		"a gap":                        {promise: Promise{At: minute(1), Own: [2]float64{90, 99}}, gap: true},
		"the first sample": {
			promise: Promise{At: minute(0), Own: [2]float64{0, 0}, Last: [2]float64{0, 1}},
			want:    Record{Reference: 0.1, Scored: 1, Counted: 1},
		},
		"what was cut off may have been more": {
			promise:  Promise{At: minute(1), Own: [2]float64{150, 200}, Cycle: season(70)},
			censored: true,
			want:     Record{Reference: 10, Scored: 1, Counted: 1},
		},
		"a wild word is off by all there is": {
			promise: Promise{At: minute(1), Own: [2]float64{1e9, 1e9}, Cycle: season(70)},
			want:    Record{Loss: 240, Reference: 12, Scored: 1, Counted: 1, Probation: 24, Error: 240, Cycle: 30, Cycles: 1},
		},
		"as far as what came is above the last value's": {
			promise: Promise{At: minute(1), Own: [2]float64{1e9, 1e9}, Last: [2]float64{80, 90}, Cycle: season(70)}, // 10 + 9
			want:    Record{Loss: 200, Reference: 19, Scored: 1, Counted: 1, Probation: 24, Error: 200, Cycle: 30, Cycles: 1},
		},
		"no number is as wild": {
			promise: Promise{At: minute(1), Own: [2]float64{nan, nan}, Cycle: season(70)},
			want:    Record{Loss: 240, Reference: 12, Scored: 1, Above: 1, Counted: 1, Probation: 24, Error: 240, Cycle: 30, Cycles: 1},
		},
		"a silent word counts as the last value's": {
			promise: Promise{At: minute(1), Own: [2]float64{1e9, 1e9}, Silent: true},
			want:    Record{Loss: 12, Reference: 12, Scored: 1, Counted: 1},
		},
		"silence doesn't end probation": {
			before:  Record{Probation: 5},
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Silent: true},
			want:    Record{Loss: 12, Reference: 12, Scored: 1, Counted: 1, Probation: 5},
		},
		"silence doesn't begin it": {
			before:  Record{Loss: 2400, Reference: 24, Scored: 12},
			promise: Promise{At: minute(1), Own: [2]float64{90, 110}, Silent: true},
			want:    Record{Loss: 2312, Reference: 35, Scored: 12.5, Counted: 1},
		},
		// 1 − 60/(12 + 4·12) is no skill.
		"no skill begins probation": {
			promise: Promise{At: minute(1), Own: [2]float64{220, 100}},
			want:    Record{Loss: 60, Reference: 12, Scored: 1, Counted: 1, Probation: 24},
		},
		"and begins it anew": {
			before:  Record{Probation: 5},
			promise: Promise{At: minute(1), Own: [2]float64{220, 100}},
			want:    Record{Loss: 60, Reference: 12, Scored: 1, Counted: 1, Probation: 24},
		},
		"hardly any skill doesn't": {
			promise: Promise{At: minute(1), Own: [2]float64{219, 100}},
			want:    Record{Loss: 59.5, Reference: 12, Scored: 1, Counted: 1},
		},
		"nor does a loss that is small beside the usual": {
			promise:   Promise{At: minute(1), Own: [2]float64{220, 100}},
			reference: 100,
			want:      Record{Loss: 60, Reference: 12, Scored: 1, Counted: 1},
		},
		"a skill above 0.2 shortens probation": {
			before:  Record{Probation: 5},
			promise: Promise{At: minute(1), Own: [2]float64{194, 100}}, // 1 − 47/60
			want:    Record{Loss: 47, Reference: 12, Scored: 1, Counted: 1, Probation: 4},
		},
		"one below doesn't": {
			before:  Record{Probation: 5},
			promise: Promise{At: minute(1), Own: [2]float64{198, 100}}, // 1 − 49/60
			want:    Record{Loss: 49, Reference: 12, Scored: 1, Counted: 1, Probation: 5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			series := byTheMinute(0, 0, 100)
			if tc.gap {
				series.Values[1] = nan
			}
			if tc.censored {
				series.Censored = []api.Span{{From: minute(1), To: minute(1)}}
			}
			if tc.promise.Last == [2]float64{} {
				tc.promise.Last = [2]float64{80, 120}
			}
			tc.before.Promises = []Promise{tc.promise}
			got := tc.before.settled(series, tc.reference)
			if diff := cmp.Diff(tc.want, got, nearly, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What an account makes of a claim to skill, by hand.
func TestWhatAClaimIsWorth(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		account         Record
		said, reference float64
		want            float64
	}{
		"believed while nothing is known":     {Record{Loss: 1000, Reference: 1, Scored: 0.99, Probation: 3}, 0.9, 0, 0.9},
		"no claim is none":                    {Record{Loss: 6, Reference: 12, Scored: 1}, nan, 0, nan},
		"one result weighs against four":      {Record{Loss: 6, Reference: 12, Scored: 1}, 0.8, 0, 0.74},          // 1 − (6 + 4·0.2·12)/(12 + 4·12)
		"of whole horizons":                   {Record{Loss: 6, Reference: 12, Scored: 1}, 0.8, 30, 1 - 54.0/252}, // 2·30 each
		"no more than is said":                {Record{Reference: 12, Scored: 1}, 0.8, 0, 0.8},
		"none on probation":                   {Record{Reference: 12, Scored: 1, Probation: 1}, 0.9, 0, 0},
		"less than none is less on probation": {Record{Reference: 12, Scored: 1, Probation: 1}, -0.5, 0, -0.5},
		"the high quantile doesn't hold":      {Record{Reference: 12, Scored: 1, Above: 10, Counted: 24}, 0.9, 0, 0.25 - 12.4/48},
		"it just holds":                       {Record{Reference: 12, Scored: 1, Above: 9.5, Counted: 24}, 0.9, 0, 0.9},
		"three above of six are no proof":     {Record{Reference: 12, Scored: 1, Above: 3, Counted: 6}, 0.9, 0, 0.9},
		"at 0.97 two of six are no proof":     {Record{Level: 0.97, Reference: 12, Scored: 1, Above: 2, Counted: 6}, 0.9, 0, 0.9},
		"at 0.97 six of six are":              {Record{Level: 0.97, Reference: 12, Scored: 1, Above: 6, Counted: 6}, 0.9, 0, 0.18 - 6.72/30},
		"six of six are":                      {Record{Reference: 12, Scored: 1, Above: 6, Counted: 6}, 0.9, 0, 0.25 - 8.4/30},
		"the last value was right throughout": {Record{Loss: 1, Scored: 1}, 0.9, 0, 0},
		"and so was this":                     {Record{Scored: 1}, 0.9, 0, 0.9},
		"less than none stays less":           {Record{Loss: 1, Scored: 1}, -0.5, 0, -0.5},
		"outdone by the season before":        {Record{Reference: 12, Scored: 1, Error: 80, Cycle: 40, Cycles: 8}, 0.9, 0, -1},
		"but not proven":                      {Record{Reference: 12, Scored: 1, Error: 80, Cycle: 40, Cycles: 7.9}, 0.9, 0, 0.9},
		"but not clearly":                     {Record{Reference: 12, Scored: 1, Error: 57, Cycle: 40, Cycles: 8}, 0.9, 0, 0.9}, // 1.2·5 + 0.1·12 = 7.2 each
		"just not clearly":                    {Record{Scored: 1, Error: 48, Cycle: 40, Cycles: 8}, 0.9, 0, 0.9},
		"it holds to the letter":              {Record{Reference: 12, Scored: 1, Above: 9.6, Counted: 24}, 0.9, 0, 0.9},
		"clearly":                             {Record{Reference: 12, Scored: 1, Error: 58, Cycle: 40, Cycles: 8}, 0.9, 0, -0.45},
		"but it doesn't matter":               {Record{Reference: 12, Scored: 1, Error: 80, Cycle: 40, Cycles: 8}, 0.9, 30, 0.9}, // 6 + 0.1·60
		"less than none although not outdone": {Record{Loss: 100, Reference: 12, Scored: 1}, 0.9, 0, 1 - 104.8/60},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.account.skill(tc.said, tc.reference), nearly); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSkillAgainstTheSeason(t *testing.T) {
	for name, tc := range map[string]struct {
		account Record
		want    float64
	}{
		"half as far off":      {Record{Error: 5, Cycle: 10, Cycles: 1}, 0.5},
		"twice as far off":     {Record{Error: 20, Cycle: 10, Cycles: 3}, -1},
		"of nothing":           {Record{Error: 5, Cycle: 10, Cycles: 0.9}, math.NaN()},
		"the season was right": {Record{Error: 5, Cycles: 3}, math.NaN()},
	} {
		if diff := cmp.Diff(tc.want, tc.account.SeasonalSkill(), nearly); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The largest value is looked for in what is new, after a refit in all.
func TestTheLargestIsLookedFor(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		series api.Series
		fits   int
		want   float64
	}{
		"what was looked at is not again": {byTheMinute(0, 9, 9, 3), 2, 5},
		"what is new is":                  {byTheMinute(0, 9, 9, 7), 2, 7},
		"all after a refit":               {byTheMinute(0, 4, 3, 3), 3, 4},
		"all after an absence":            {byTheMinute(2, 4, 3, nan), 2, 4},
		"not what was seen last":          {byTheMinute(1, 9, 3), 2, 5},
		"nothing is new":                  {byTheMinute(0, 9), 2, 5},
	} {
		got := Record{Top: 5, Seen: minute(1), Fits: 2}.looked(State{Fits: tc.fits}, tc.series)
		want := Record{Top: tc.want, Seen: tc.series.End(), Fits: tc.fits}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// scripted says 10, at most 20, with a skill, and a season of four samples.
type scripted struct {
	skill float64
	fits  int
}

func (scripted) Name() string { return "scripted" }

func (f scripted) Update(s State, series api.Series, horizon int) (State, error) {
	s.Step, s.Fits, s.Seasons = series.Step, f.fits, []season.Season{{Period: 2}, {Period: 4}}
	return s, nil
}

func (f scripted) Forecast(_ State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	out := api.Forecast{Start: series.End().Add(series.Step), Step: series.Step, Levels: levels, Skill: f.skill}
	for range horizon {
		out.Mean = append(out.Mean, 10)
	}
	for range levels {
		out.Quantiles = append(out.Quantiles, append([]float64(nil), out.Mean...))
		out.PeakQuantiles = append(out.PeakQuantiles, 20)
	}
	for i, q := range levels {
		for h := range horizon {
			if q > 0.5 {
				out.Quantiles[i][h] = 20
			}
		}
	}
	return out, nil
}

// Of which samples something is noted, how often, and with what.
func TestWhatIsNoted(t *testing.T) {
	const horizon = 16 // noted every other sample
	series := byTheMinute(0, 1, 2, 3, 4, math.NaN(), 6)
	w := Monitored{scripted{skill: 0.5, fits: 1}}
	s, err := w.Update(State{}, series, horizon)
	if err != nil {
		t.Fatal(err)
	}
	last, err := Predict(Naive{}, series, horizon, skillLevels)
	if err != nil {
		t.Fatal(err)
	}
	if s.Record.Top != 6 {
		t.Errorf("the largest value seen is %v", s.Record.Top)
	}
	var at []int
	var cycles []float64
	for _, p := range s.Record.Promises {
		h := int(p.At.Sub(last.Start) / series.Step)
		if want := [2]float64{last.Quantiles[0][h], last.Quantiles[1][h]}; !cmp.Equal(want, p.Last, cmpopts.EquateApprox(1e-5, 0)) {
			t.Errorf("the last value is noted to have said %v, not %v", p.Last, want)
		}
		at = append(at, int(p.At.Sub(series.End())/series.Step))
		if p.Own != [2]float64{10, 20} || p.Interval != [2]float64{10, 20} || p.Weight != 1.0/8 || p.Silent {
			t.Errorf("noted %+v", p)
		}
		if p.Cycle != nil {
			cycles = append(cycles, *p.Cycle)
		}
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 7, 10, 14}, at); diff != "" {
		t.Errorf("steps ahead that are noted (-want +got):\n%s", diff)
	}
	// Four samples before steps 1 to 4 were 3, 4, a gap and 6; further ones are not a season ahead.
	if diff := cmp.Diff([]float64{3, 4, 6}, cycles); diff != "" {
		t.Errorf("a season before (-want +got):\n%s", diff)
	}

	// A history of just a season, one that is shorter, and one of a state without a record.
	for n, want := range map[int][]float64{4: {1, 2, 3, 4}, 3: {1, 2, 3}} {
		short := byTheMinute(0, series.Values[:n]...)
		s, err := w.Update(State{Step: time.Minute}, short, horizon)
		if err != nil {
			t.Fatal(err)
		}
		var cycles []float64
		for _, p := range s.Record.Promises {
			if p.Cycle != nil {
				cycles = append(cycles, *p.Cycle)
			}
		}
		if diff := cmp.Diff(want, cycles); diff != "" {
			t.Errorf("a season before, of %d samples (-want +got):\n%s", n, diff)
		}
	}
	// What the last value's spread was is not looked for each time.
	many := forecasttest.Sampled(forecasttest.Heartbeat, time.Minute, 300, 0.05, 3, 0, 1)
	if s, err := w.Update(State{}, many, horizon); err != nil || !s.keptLast.of(many, horizon) {
		t.Errorf("the spread of the last value is not kept, error %v", err)
	}

	for name, tc := range map[string]struct {
		skill     float64
		probation int
		series    api.Series
		made      time.Time
		promises  int
		silent    bool
	}{
		"not at the next sample":           {0.5, 0, byTheMinute(0, 1, 2, 3, 4, 5, 6, 7), minute(5), 7, false},
		"at the one after":                 {0.5, 0, byTheMinute(0, 1, 2, 3, 4, 5, 6, 7, 8), minute(7), 6 + 8, false},
		"where time went back":             {0.5, 0, byTheMinute(0, 1, 2, 3, 4), minute(3), 8 + 8, false},
		"without a claim to skill silent":  {0, 0, byTheMinute(0, 1, 2, 3, 4, 5, 6, 7, 8), minute(7), 6 + 8, true},
		"not on probation":                 {0, 5, byTheMinute(0, 1, 2, 3, 4, 5, 6, 7, 8), minute(7), 6 + 8, false},
		"silent where skill is not known":  {math.NaN(), 0, byTheMinute(0, 1, 2, 3, 4, 5, 6, 7, 8), minute(7), 6 + 8, true},
		"of a history of another step new": {0.5, 5, api.Series{Start: minute(0), Step: time.Second, Values: []float64{1, 2, 3}}, minute(0).Add(2 * time.Second), 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := *s.Record
			r.Probation, r.Reference, r.Scored = tc.probation, 1e6, 1
			before := s
			before.Record = &r
			next, err := Monitored{scripted{skill: tc.skill, fits: 1}}.Update(before, tc.series, horizon)
			if err != nil {
				t.Fatal(err)
			}
			last := next.Record.Promises[len(next.Record.Promises)-1]
			if !next.Record.Made.Equal(tc.made) || len(next.Record.Promises) != tc.promises || last.Silent != tc.silent {
				t.Errorf("made %v, %d promises, silent %v; want %v, %d, %v", next.Record.Made, len(next.Record.Promises), last.Silent, tc.made, tc.promises, tc.silent)
			}
			if fresh := tc.series.Step != s.Step; fresh != (next.Record.Scored == 0) {
				t.Errorf("%v results are counted of a history of step %v", next.Record.Scored, tc.series.Step)
			}
		})
	}
}

// wordy says what it is told to.
type wordy struct {
	scripted
	mean, quantile, peak float64
}

func (f wordy) Forecast(State, api.Series, int, []float64) (api.Forecast, error) {
	return api.Forecast{Mean: []float64{f.mean}, Quantiles: [][]float64{{f.quantile}}, PeakQuantiles: []float64{f.peak}, Skill: 0.9}, nil
}

// failing has a forecast, and an error.
type failing struct{ wordy }

func (f failing) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	out, _ := f.wordy.Forecast(s, series, horizon, levels)
	return out, ErrNoHistory
}

// No word is beyond twice what was ever seen, and none is no number.
func TestWordsAreBounded(t *testing.T) {
	series := byTheMinute(0, 3, 50, 4)
	if _, err := (Monitored{failing{}}).Forecast(State{Record: &Record{}}, series, 1, []float64{0.5}); !errors.Is(err, ErrNoHistory) {
		t.Errorf("error %v, want %v", err, ErrNoHistory)
	}
	for _, tc := range []struct{ said, want float64 }{{99, 99}, {100, 100}, {101, 100}, {math.Inf(1), 100}, {math.NaN(), 100}, {0, 0}} {
		for _, f := range []wordy{{mean: tc.said}, {quantile: tc.said}, {peak: tc.said}} {
			got, err := Monitored{f}.Forecast(State{Record: &Record{}}, series, 1, []float64{0.5})
			if err != nil {
				t.Fatal(err)
			}
			if v := got.Mean[0] + got.Quantiles[0][0] + got.PeakQuantiles[0]; v != tc.want {
				t.Errorf("said %+v, which is let pass as %v, want %v", f, v, tc.want)
			}
		}
		got, err := Monitored{wordy{mean: tc.said}}.Forecast(State{}, series, 1, []float64{0.5})
		if err != nil || !cmp.Equal(got.Mean[0], tc.said, nearly) || got.Skill != 0.9 {
			t.Errorf("without a record %v became %v, skill %v, error %v", tc.said, got.Mean[0], got.Skill, err)
		}
	}
}

// What is known of the interval's coverage, and when it is too little or too much.
func TestCoverage(t *testing.T) {
	for name, tc := range map[string]struct {
		record          Record
		want            *api.Coverage
		seldom, tooMany bool
	}{
		"nothing":                {Record{}, nil, false, false},
		"too few":                {Record{Inside: 2, Judged: 11}, nil, false, false},
		"a dozen that held":      {Record{Inside: 12, Judged: 12}, &api.Coverage{Share: 1, Error: math.Sqrt(0.875 * 0.125 / 16)}, false, false},
		"sixty that held":        {Record{Inside: 60, Judged: 60}, &api.Coverage{Share: 1, Error: math.Sqrt(62.0 / 64 * 2 / 64 / 64)}, false, true},
		"half of a dozen":        {Record{Inside: 6, Judged: 12}, &api.Coverage{Share: 0.5, Error: math.Sqrt(0.25 / 16)}, true, false},
		"as often as it is to":   {Record{Inside: 90, Judged: 100}, &api.Coverage{Share: 0.9, Error: math.Sqrt(92.0 / 104 * 12 / 104 / 104)}, false, false},
		"too seldom, in a few":   {Record{Inside: 16, Judged: 20}, &api.Coverage{Share: 0.8, Error: math.Sqrt(18.0 / 24 * 6 / 24 / 24)}, false, false},
		"too seldom, in all":     {Record{Inside: 304, Judged: 380}, &api.Coverage{Share: 0.8, Error: math.Sqrt(306.0 / 384 * 78 / 384 / 384)}, true, false},
		"a little below, of 100": {Record{Inside: 84, Judged: 100}, &api.Coverage{Share: 0.84, Error: math.Sqrt(86.0 / 104 * 18 / 104 / 104)}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.record.coverage()
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.TooSeldom(0.85) != tc.seldom || got.TooOften(0.95) != tc.tooMany {
				t.Errorf("too seldom %v, too often %v", got.TooSeldom(0.85), got.TooOften(0.95))
			}
		})
	}
}
