package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
	"github.com/mash2-io/mash2/forecast/score"
	"github.com/mash2-io/mash2/forecast/season"
)

// Folding a history as it comes, in pieces that overlap, is the same as folding it
// at once, which is the mean of what lies in each bin; and no fold changes one that
// was there before.
func TestFoldIsIncremental(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]time.Duration{15 * time.Second, 20 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute}).Draw(t, "step")
		n := rapid.IntRange(1, 600).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		start := time.Unix(0, 0).UTC().Add(time.Duration(r.IntN(1000)) * step)
		series := api.Series{Start: start, Step: step, Values: forecasttest.Generate(n, func() float64 {
			if r.Float64() < 0.2 {
				return math.NaN()
			}
			return r.Float64()
		})}
		whole := Fold{}.Add(series)
		var f, before Fold
		var kept Bins
		for i := 0; i < n; {
			i += 1 + r.IntN(50)
			part := series
			from := max(0, i-100)
			part.Start, part.Values = series.Start.Add(durationOf(from, series)), series.Values[from:min(n, i)]
			before = f
			kept = before.Tens
			kept.Means = slices.Clone(kept.Means)
			f = f.Add(part)
			if diff := cmp.Diff(kept, before.Tens, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("a fold was written to:\n%s", diff)
			}
		}
		if diff := cmp.Diff(whole, f, cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmpopts.EquateApprox(1e-6, 1e-12)); diff != "" {
			t.Fatalf("(-at once +in pieces):\n%s", diff)
		}
		for k, mean := range whole.Tens.Means {
			sum, count := 0.0, 0
			for i, v := range series.Values {
				at := series.Start.Add(durationOf(i, series))
				if from := whole.Tens.Start.Add(time.Duration(k) * 10 * time.Minute); !at.Before(from) && at.Before(from.Add(10*time.Minute)) && !math.IsNaN(v) {
					sum += v
					count++
				}
			}
			if want := sum / float64(count); !(math.Abs(float64(mean)-want) < 1e-6) && (count > 0 || !math.IsNaN(float64(mean))) {
				t.Fatalf("bin %d is %v, want %v", k, mean, want)
			}
		}
	})
}

// month is 28 days of a day's and a week's season, at a step, with a share of gaps
// and an outage of most of a day.
func month(step time.Duration, gaps float64) api.Series {
	r := rand.New(rand.NewPCG(3, 3))
	s := api.Series{Start: time.Unix(0, 0).UTC(), Step: step}
	for i := range int(28 * 24 * time.Hour / step) {
		at := time.Duration(i) * step
		v := 300 + 200*math.Sin(2*math.Pi*at.Hours()/24)
		if day := int(at.Hours()/24) % 7; day >= 5 {
			v *= 0.4
		}
		v *= 1 + 0.05*r.NormFloat64()
		if r.Float64() < gaps || at > 400*time.Hour && at < 420*time.Hour {
			v = math.NaN()
		}
		s.Values = append(s.Values, v)
	}
	return s
}

// A fold is small, keeps what it says it keeps, and in it the day and the week are
// found, gaps or not.
func TestFoldFindsDayAndWeek(t *testing.T) {
	series := month(time.Minute, 0.1)
	f := Fold{}.Add(series)
	if len(f.Tens.Means) < foldTens-1 {
		t.Fatalf("%d times ten minutes", len(f.Tens.Means))
	}
	if size := 4 * cap(f.Tens.Means); size > 18<<10 {
		t.Errorf("%d KiB", size>>10)
	}
	tens := f.Tens.values()
	if got, want := newHistory(tens, season.Find(tens)).periods, []int{144, 1008}; !slices.Equal(got, want) {
		t.Errorf("periods of ten minutes %v, want a day and a week, %v", got, want)
	}
}

// A history that is found later, from a longer memory elsewhere, is put before what
// is there.
func TestFoldTakesThePast(t *testing.T) {
	series := month(10*time.Minute, 0)
	recent := series
	recent.Start, recent.Values = series.Start.Add(durationOf(3000, series)), series.Values[3000:]
	got := Fold{}.Add(recent).Add(series)
	if diff := cmp.Diff(Fold{}.Add(series).Tens, got.Tens, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A coarser past that comes with a later series is put before what was folded, once,
// makes one refit due, and in it the week is found that two days cannot tell.
func TestAPastThatComesLaterIsFolded(t *testing.T) {
	const horizon = 120
	whole := month(time.Minute, 0.02)
	monday := int(21 * 24 * time.Hour / whole.Step)
	window := func(n int) api.Series {
		s := whole
		s.Start, s.Values = whole.Start.Add(durationOf(n-2880, whole)), whole.Values[n-2880:n:n]
		return s
	}
	f := Guarded(Auto{})
	update := func(s State, series api.Series) State {
		t.Helper()
		next, err := f.Update(s, series, horizon)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	alone := update(NewState("week"), window(monday))
	if alone.Long != nil {
		t.Fatal("a week is known of two days")
	}
	want := Fold{}.Add(api.Series{Start: whole.Start, Step: whole.Step, Values: whole.Values[:monday+1]}).Tens
	// As it is read: whole bins, into the first of those that are there already.
	past := api.Series{Start: want.Start, Step: want.Width, Values: want.values()[:monday/10-2880/10+2]}
	next := window(monday + 1)
	next.Past = &past
	if !alone.Due(next, horizon) {
		t.Fatal("no refit is due")
	}
	s := update(alone, next)
	if diff := cmp.Diff(want, s.Fold.Tens, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Fatalf("(-folded as it came +read later):\n%s", diff)
	}
	if s.Long == nil || math.Abs(s.Long.Seasonal.Period-1008) > 1 {
		t.Errorf("what was learnt of it is %+v, want a week", s.Long)
	}
	if s.Fits != alone.Fits+1 {
		t.Errorf("%d refits", s.Fits-alone.Fits)
	}
	later := window(monday + 2)
	later.Past = &past
	if s.Due(later, horizon) {
		t.Error("a refit is due again")
	}
	if again := update(s, later); len(again.Fold.Tens.Means) != len(s.Fold.Tens.Means) || again.Fits != s.Fits {
		t.Errorf("folded again: %d bins after %d", len(again.Fold.Tens.Means), len(s.Fold.Tens.Means))
	}
	if size := 4 * cap(s.Fold.Tens.Means); size > 18<<10 {
		t.Errorf("a fold of %d KiB", size>>10)
	}
}

// TestLongSeason: two days of history end with the weekend. They have never seen a
// Monday; the fold has seen four.
func TestLongSeason(t *testing.T) {
	const horizon = 120
	whole := month(time.Minute, 0.02)
	monday := int(21 * 24 * time.Hour / whole.Step)
	f := Long{Auto{}}
	fold := Fold{}.Add(api.Series{Start: whole.Start, Step: whole.Step, Values: whole.Values[:monday-2880]})
	s := NewState("week")
	s.Fold = &fold
	var long, short float64
	used, kepts := 0, 0
	for n := monday - 100; n < monday+14*60; n += 20 {
		past := whole
		past.Start, past.Values = whole.Start.Add(durationOf(n-2880, whole)), whole.Values[n-2880:n:n]
		var err error
		if s, err = f.Update(s, past, horizon); err != nil {
			t.Fatal(err)
		}
		got, err := f.Forecast(s, past, horizon, []float64{0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := Predict(Auto{}, past, horizon, []float64{0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		if got.Model == LongName {
			used++
			// What is kept of the spread is its own, not that of the model inside.
			if fresh := s; s.keptLong.at.Equal(past.End()) {
				kepts++
				fresh.kept, fresh.keptLong = kept{}, kept{}
				again, err := f.Forecast(fresh, past, horizon, []float64{0.5, 0.9})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(again, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-6, 1e-6)); diff != "" {
					t.Fatalf("sample %d (-fresh +kept):\n%s", n, diff)
				}
			}
		}
		actual := whole.Values[n : n+horizon]
		long, short = long+score.Pinball(actual, got.Quantiles[1], 0.9), short+score.Pinball(actual, plain.Quantiles[1], 0.9)
	}
	t.Logf("pinball(0.9) on Monday %.1f by the fold (in use %d times), %.1f by two days alone", long, used, short)
	if kepts == 0 {
		t.Error("no spread was kept")
	}
	if !(long < 0.7*short) {
		t.Errorf("pinball(0.9) on Monday %.1f by the fold, %.1f by two days alone", long, short)
	}
}

// Nothing after an origin changes what the long season says there.
func TestLongDoesNotLookAhead(t *testing.T) {
	const horizon, o = 60, 2000
	whole := month(time.Minute, 0.02)
	n := len(whole.Values)
	past := whole
	past.Start, past.Values = whole.Start.Add(durationOf(n-2880, whole)), whole.Values[n-2880:]
	fit := LongFit{Seasonal: SeasonalFit{Period: 144, Cycles: 5, Level: LevelShifted, Recent: 2, Gain: []float64{0.5}}, Hold: 30, Up: 1, Down: 1}
	said := func(change bool) []float64 {
		w, p := whole, past
		if change {
			w.Values = slices.Clone(whole.Values)
			for i := n - 2880 + o + 1; i < n; i++ {
				w.Values[i] = 1e6
			}
			p.Values = w.Values[n-2880:]
		}
		dst := make([]float64, horizon)
		newLongPredictor(Fold{}.Add(w).Tens, fit, p).point(o, dst)
		return dst
	}
	if diff := cmp.Diff(said(false), said(true)); diff != "" {
		t.Errorf("what comes after changes what was said:\n%s", diff)
	}
}

// A refit that reads four weeks beside the samples counts them: known ones, or a
// past that is handed in, once.
func TestFoldedCountsBins(t *testing.T) {
	series := api.Series{Start: time.Unix(0, 0).UTC().Add(28 * 24 * time.Hour), Step: time.Minute, Values: forecasttest.Generate(600, func() float64 { return 1 })}
	if n := NewState("a").Folded(series); n != 0 {
		t.Errorf("%d bins of nothing", n)
	}
	series.Past = &api.Series{Start: series.Start.Add(-1000 * FoldStep), Step: FoldStep, Values: forecasttest.Generate(1000, func() float64 { return 1 })}
	if n := NewState("a").Folded(series); n != 1000 {
		t.Errorf("%d bins of a past of 1000", n)
	}
	s, err := Guarded(Auto{}).Update(NewState("a"), series, 20)
	if err != nil {
		t.Fatal(err)
	}
	if n, want := s.Folded(series), len(s.Fold.Tens.Means); n != want || n < 1000 || n > 1060 {
		t.Errorf("%d bins of a fold of %d, which should be of 1000 and a few", n, want)
	}
}
