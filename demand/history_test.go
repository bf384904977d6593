package demand

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestHistory(t *testing.T) {
	nan := math.NaN()
	type sample struct {
		step int64
		v    float64
	}
	tests := map[string]struct {
		window    int
		samples   []sample
		wantStart int64
		want      []float64
	}{
		"nothing in, nothing out":                          {window: 4},
		"samples in order":                                 {window: 4, samples: []sample{{100, 1}, {101, 2}}, wantStart: 100, want: []float64{1, 2}},
		"a step that was left out is a gap":                {window: 4, samples: []sample{{100, 1}, {102, 3}}, wantStart: 100, want: []float64{1, nan, 3}},
		"NaN, infinite and negative samples are gaps":      {window: 6, samples: []sample{{100, 1}, {101, nan}, {102, math.Inf(1)}, {103, -1}, {104, 0}}, wantStart: 100, want: []float64{1, nan, nan, nan, 0}},
		"only the window is kept":                          {window: 2, samples: []sample{{100, 1}, {101, 2}, {102, 3}, {103, 4}, {104, 5}}, wantStart: 103, want: []float64{4, 5}},
		"a backfill goes before":                           {window: 4, samples: []sample{{103, 4}, {101, 2}, {102, 3}}, wantStart: 101, want: []float64{2, 3, 4}},
		"a sample older than the window is ignored":        {window: 2, samples: []sample{{103, 4}, {101, 2}, {102, 3}}, wantStart: 102, want: []float64{3, 4}},
		"a late sample fills its gap":                      {window: 4, samples: []sample{{100, 1}, {102, 3}, {101, 2}}, wantStart: 100, want: []float64{1, 2, 3}},
		"an outage longer than the window leaves only now": {window: 3, samples: []sample{{100, 1}, {1000, 2}}, wantStart: 1000, want: []float64{2}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := Grid{time.Second}
			h := NewHistory(tt.window, 1)
			for _, s := range tt.samples {
				h.Set(s.step, s.v)
			}
			got := h.Series(g)
			if diff := cmp.Diff(tt.want, trimGaps(got.Values), cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if len(tt.want) > 0 && len(got.Values) == len(tt.want) && !got.Start.Equal(g.Time(tt.wantStart)) {
				t.Errorf("start = %v, want %v", got.Start, g.Time(tt.wantStart))
			}
		})
	}
}

// trimGaps drops leading gaps, which say no more than an earlier start.
func trimGaps(v []float64) []float64 {
	for len(v) > 0 && math.IsNaN(v[0]) {
		v = v[1:]
	}
	return v
}

// Whatever is written, in whatever order, a history equals the plain map of its
// samples cut to the window, and nothing handed out ever changes.
func TestHistoryAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Grid{time.Second}
		window := rapid.IntRange(1, 12).Draw(t, "window")
		h := NewHistory(window, rapid.IntRange(1, 6).Draw(t, "slack"))
		want := map[int64]float64{}
		newest := int64(math.MinInt64)
		type given struct{ now, then []float64 }
		var handedOut []given
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			step := int64(1000 + rapid.IntRange(0, 40).Draw(t, "step"))
			v := float64(rapid.IntRange(0, 5).Draw(t, "v"))
			h.Set(step, v)
			if newest == math.MinInt64 || step > newest-int64(window) {
				want[step] = v
				newest = max(newest, step)
			}
			if rapid.Bool().Draw(t, "publish") {
				s := h.Series(g)
				handedOut = append(handedOut, given{s.Values, append([]float64(nil), s.Values...)})
			}
		}
		s := h.Series(g)
		if len(s.Values) > window {
			t.Fatalf("%d values in a window of %d", len(s.Values), window)
		}
		got := map[int64]float64{}
		for i, v := range s.Values {
			if !math.IsNaN(v) {
				got[g.At(s.Start)+int64(i)] = v
			}
		}
		for step := range want {
			if step <= newest-int64(window) {
				delete(want, step)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("samples (-want +got):\n%s", diff)
		}
		for _, o := range handedOut {
			if diff := cmp.Diff(o.then, o.now, cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("a series that was handed out has changed (-then +now):\n%s", diff)
			}
		}
	})
}
