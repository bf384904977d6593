package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/forecast/forecasttest"
	"github.com/mash2-io/mash2/forecast/season"
)

// A model that goes on from a mark says at every later sample, to the bit, what it
// would say had it run through the whole history, with gaps or without.
func TestResumedIsTheWhole(t *testing.T) {
	const horizon = 12
	said := func(e Expert, h history, o int) []float64 {
		path := make([]float64, horizon)
		e.predictorOf(h, horizon).point(o-h.cut, path)
		return path
	}
	resumed := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(200, 5000).Draw(t, "n")
		period := rapid.IntRange(4, n/6).Draw(t, "period")
		load := forecasttest.Sampled(forecasttest.Sine(float64(period)*60, 100, 60), time.Minute, n, 0, 5, rapid.SampledFrom([]float64{0, 0.05}).Draw(t, "gaps"), rapid.Uint64().Draw(t, "seed"))
		seasons := []season.Season{{Period: float64(period)}}
		if rapid.Bool().Draw(t, "two seasons") && n > 12*period {
			seasons = append(seasons, season.Season{Period: float64(3 * period)})
		}
		h := newHistory(load.Values, seasons)
		h.from = n - 1
		at := rapid.IntRange(max(n/2, h.long()), n-2).Draw(t, "at")
		known := h.until(n * 2 / 3)
		known.from, known.logs = 0, new(history)
		var experts []Expert
		for _, k := range kinds(known, []float64{float64(period)}, horizon) {
			if k.name == "boosted" || k.name == "prophet" || k.name == "card" || k.name == "card-log" {
				continue // dear to learn, and do not recur
			}
			if e, ok := k.fit(known); ok {
				e.Name = k.name
				experts = append(experts, e)
			}
		}
		m := newPanel(h, experts, nil, horizon).marks(at)
		short := h.resumedAt(at + 1)
		o := rapid.IntRange(at+1, n-1).Draw(t, "origin")
		for i, e := range experts {
			short.mark = m.of[i]
			if short.mark != nil {
				resumed[e.Name]++
			}
			if diff := cmp.Diff(said(e, h, o), said(e, short, o)); diff != "" {
				t.Fatalf("%s from %d (-whole +resumed at %d):\n%s", e.Name, o, at, diff)
			}
		}
	})
	for _, name := range []string{"ets", "theta", "mstl", "mstl-log"} {
		if resumed[name] == 0 {
			t.Errorf("%s was never resumed", name)
		}
	}
}

// As the window slides a mixture goes on from its marks, and says what one says that
// runs through the window each time, but for what the window has lost.
func TestMarksAreMovedOn(t *testing.T) {
	const n, slides, horizon = 1500, 700, 24
	for name, period := range map[string]float64{"a short season": 30, "a long one": 360} {
		t.Run(name, func(t *testing.T) {
			long := forecasttest.Sampled(forecasttest.Sine(period*60, 100, 60), time.Minute, n+slides, 0, 5, 0.02, 3)
			f := Auto{Portfolio: true}
			s, err := f.Update(NewState("y"), windowOf(long, 0, n), horizon)
			if err != nil {
				t.Fatal(err)
			}
			if s.Model != MixtureName {
				t.Fatalf("the model is %s; the test is for a mixture", s.Model)
			}
			moved, sum, count := map[int]bool{}, 0.0, 0.0
			for i := 1; i <= slides; i++ {
				window := windowOf(long, i, n)
				if s, err = f.Update(s, window, horizon); err != nil {
					t.Fatal(err)
				}
				if s.marks == nil {
					t.Fatalf("after %d slides there are no marks", i)
				}
				moved[s.marks.at] = true
				if i%50 != 0 {
					continue
				}
				with, without := mixtureOf(s, window, horizon, true), mixtureOf(s, window, horizon, true)
				without.recent = nil
				a, b := make([]float64, horizon), make([]float64, horizon)
				with.point(n-1, a)
				without.point(n-1, b)
				if with.whole != nil {
					t.Errorf("after %d slides the whole window is run through for a forecast of its end", i)
				}
				for k := range a {
					sum += math.Abs(a[k]-b[k]) / s.Mixture.Unit
					count++
				}
			}
			t.Logf("moved on %d times; off by %.2g usual errors", len(moved), sum/count)
			if len(moved) < 2 {
				t.Errorf("marks were moved on %d times", len(moved))
			}
			if !(sum/count < 0.1) {
				t.Errorf("off by %v usual errors in the mean", sum/count)
			}
		})
	}
}

// Without logarithms of their own the extremes of logarithms are those of values.
func TestExtremesInLogs(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	y := make([]float64, 500)
	for i := range y {
		y[i] = math.Exp(10 * r.NormFloat64())
	}
	e := extremesOf(y, 100)
	lo, hi := math.Inf(1), math.Inf(-1)
	for o, v := range y {
		lo, hi = min(lo, v), max(hi, v)
		if o < 100 {
			continue
		}
		if l, h := e.at(o); l != lo || h != hi {
			t.Fatalf("at %d they are %v and %v, want %v and %v", o, l, h, lo, hi)
		}
		e.logs = true
		if l, h := e.at(o); l != logOf(lo) || h != logOf(hi) {
			t.Fatalf("of logarithms at %d they are %v and %v, want %v and %v", o, l, h, logOf(lo), logOf(hi))
		}
		e.logs = false
	}
}

// Windows of any kind, after one another: slid, grown, cut, gone back to. What was
// carried on from one to the next never makes a forecast unsound, and on the whole
// none that is further from what comes than that of a state without it.
func TestResumedOverAnyWindows(t *testing.T) {
	const horizon = 12
	used, with, without := 0, 0.0, 0.0
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.IntRange(8, 60).Draw(t, "period")
		load := forecasttest.Sine(float64(period)*60, 100, 60)
		long := forecasttest.Sampled(load, time.Minute, 1200, 0, 5, rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "gaps"), rapid.Uint64().Draw(t, "seed"))
		f := Auto{Portfolio: true}
		s := NewState("w")
		from, to := 0, 400
		said := func(s State) []float64 {
			fc, err := f.Forecast(s, windowOf(long, from, to-from), horizon, benchLevels)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range fc.Mean {
				if !(v >= 0 && v < 1000) {
					t.Fatalf("step %d is %v", k, v)
				}
			}
			return fc.Mean
		}
		for range rapid.IntRange(4, 12).Draw(t, "windows") {
			var err error
			if s, err = f.Update(s, windowOf(long, from, to-from), horizon); err != nil {
				t.Fatal(err)
			}
			if s.marks != nil {
				used++
			}
			bare := s
			bare.marks = nil
			a, b := said(s), said(bare)
			for k := range a {
				truth := load(float64(to+k) * 60)
				with += math.Abs(a[k] - truth)
				without += math.Abs(b[k] - truth)
			}
			switch rapid.IntRange(0, 9).Draw(t, "next") {
			case 0:
				from, to = max(0, from-200), max(300, to-200)
			case 1: // more of the past is known
				from, to = max(0, from-rapid.IntRange(1, 60).Draw(t, "before")), min(to+1, len(long.Values))
			case 2:
				from = min(from+100, to-250)
			default:
				step := rapid.IntRange(1, 90).Draw(t, "samples")
				to = min(to+step, len(long.Values))
				from = min(from+rapid.IntRange(0, step).Draw(t, "lost"), to-250)
			}
		}
	})
	t.Logf("with marks errors are %.4f of those without", with/without)
	if used == 0 || !(with < 1.02*without) {
		t.Errorf("%d states had marks; errors with them add up to %v, without to %v", used, with, without)
	}
}
