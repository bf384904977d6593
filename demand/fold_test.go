package demand

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// One step of a workload whose pods have been Ready for long.
func TestFolding(t *testing.T) {
	type sample struct {
		pod Pod
		v   float64 // measured and reference
	}
	old := Pod{Ready: true, ReadyAt: noon.Add(-time.Hour), Most: 8000}
	limited := old
	limited.Limit = 1000
	young := Pod{Ready: true, ReadyAt: noon.Add(-30 * time.Second), Most: 8000}
	gone := Pod{Most: 8000}
	huge := func(p Pod) sample { return sample{p, 1e300} }
	for name, c := range map[string]struct {
		expect  []Pod
		samples []sample
		want    float64 // NaN for a gap
		bound   bool
		cover   Coverage
	}{
		"no pod is a gap": {want: nan},
		"all pods":        {expect: []Pod{old, old}, samples: []sample{{old, 100}, {old, 300}}, want: 400, cover: Coverage{Seen: 2, Expected: 2}},
		"one is missing, the other stands for it": {expect: []Pod{old, old}, samples: []sample{{old, 100}}, want: 200, cover: Coverage{Seen: 1, Expected: 2}},
		"most are missing":                        {expect: []Pod{old, old, old}, samples: []sample{{old, 100}}, want: nan, cover: Coverage{Seen: 1, Expected: 3}},
		"a young pod is not missed":               {expect: []Pod{old, young}, samples: []sample{{old, 100}}, want: 100, cover: Coverage{Seen: 1, Expected: 1}},
		"a pod that is gone counts":               {expect: []Pod{old}, samples: []sample{{old, 100}, {gone, 50}}, want: 150, cover: Coverage{Seen: 1, Expected: 1}},
		"NaN, infinite and negative are missing":  {expect: []Pod{old, old, old, old, old, old}, samples: []sample{{old, nan}, {old, math.Inf(1)}, {old, -1}, {old, 1}, {old, 1}, {old, 1}}, want: 6, cover: Coverage{Seen: 3, Expected: 6}},
		"half at their limits is a bound":         {expect: []Pod{limited, old}, samples: []sample{{limited, 950}, {old, 10}}, want: 960, bound: true, cover: Coverage{Seen: 2, Expected: 2}},
		"below the limit is none":                 {expect: []Pod{limited}, samples: []sample{{limited, 949}}, want: 949, cover: Coverage{Seen: 1, Expected: 1}},
		"beyond what its node could burn, alone":  {expect: []Pod{old}, samples: []sample{huge(old)}, want: nan, cover: Coverage{Expected: 1, Beyond: Beyond{Pods: 1, Reads: 1e300, Most: 8000}}},
		"beyond, the other stands for it":         {expect: []Pod{old, old}, samples: []sample{{old, 100}, huge(old)}, want: 200, cover: Coverage{Seen: 1, Expected: 2, Beyond: Beyond{Pods: 1, Reads: 1e300, Most: 8000}}},
		"beyond, of a pod that is gone":           {expect: []Pod{old}, samples: []sample{{old, 100}, huge(gone)}, want: 200, cover: Coverage{Seen: 1, Expected: 2, Beyond: Beyond{Pods: 1, Reads: 1e300, Most: 8000}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := Grid{15 * time.Second}
			step := g.At(noon)
			f, h := NewFolding(g, time.Minute, step, step), NewHistory(10, 1)
			for _, p := range c.expect {
				f.Expect(p)
			}
			for _, s := range c.samples {
				f.Add(s.pod, step, s.v, s.v)
			}
			cover := f.Store(h)
			got, _, ok := h.Series(g).Last()
			if !ok {
				got = nan
			}
			if math.IsNaN(got) != math.IsNaN(c.want) || ok && math.Abs(got-c.want) > 1e-9 {
				t.Errorf("sample = %v, want %v", got, c.want)
			}
			if bound := h.Series(g).Bound(noon); bound != c.bound {
				t.Errorf("bound %v, want %v", bound, c.bound)
			}
			if diff := cmp.Diff(c.cover, cover); diff != "" {
				t.Errorf("coverage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBurnable(t *testing.T) {
	for name, c := range map[string]struct {
		limit, node int64
		want        float64
	}{
		"four times the limit":           {1000, 16000, 4000},
		"twice its node without a limit": {0, 16000, 32000},
		"nothing known":                  {0, 0, 8_192_000},
	} {
		if got := Burnable(c.limit, c.node); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// One sum of the past that is beyond what could be burnt is a gap of its step, and no
// sample is made of it; whatever comes in, what goes out can be burnt.
func TestSumsBeyond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Grid{15 * time.Second}
		const stride, most = 4, 1000.0
		f, h := NewFolding(g, time.Minute, 0, 16), NewHistory(100, 1)
		beyond := map[int64]bool{}
		for step := int64(0); step <= 16; step += stride {
			for range rapid.IntRange(1, 3).Draw(t, "streams") {
				v := rapid.OneOf(rapid.Float64Range(0, most), rapid.Just(1e300), rapid.Just(math.Inf(1)), rapid.Just(1001.0)).Draw(t, "v")
				beyond[step] = beyond[step] || v > most
				f.AddSum(step, v, v, most)
			}
		}
		f.Interpolate(stride)
		f.Store(h)
		s := h.Series(g)
		known := map[int64]bool{}
		for i, v := range s.Values {
			if !math.IsNaN(v) {
				known[g.At(s.Start)+int64(i)] = true
				if v > 3*most {
					t.Fatalf("step %d: %v", i, v)
				}
			}
		}
		for step := int64(0); step <= 16; step++ {
			lo, hi := step-step%stride, min(step-step%stride+stride, 16)
			want := !beyond[lo] && (step == lo || !beyond[hi])
			if known[step] != want {
				t.Fatalf("step %d is known: %v, want %v", step, known[step], want)
			}
		}
	})
}

func TestStartups(t *testing.T) {
	l := StartupLatencies{Limit: 10}
	for i := -1; i < 20; i++ { // the newest ten are 10…19 s
		l.Add(time.Duration(i) * time.Second)
	}
	if got := l.Latency(lead(1, 2, 0)); got != lead(14, 18, 10) {
		t.Errorf("lead = %+v", got)
	}
	if got := (&StartupLatencies{Limit: 10}).Latency(lead(1, 2, 5)); got != lead(1, 2, 0) {
		t.Errorf("without measurements = %+v", got)
	}
}

func lead(p50, p90 time.Duration, samples int) api.StartupLatency {
	return api.StartupLatency{P50: p50 * time.Second, P90: p90 * time.Second, Samples: samples}
}
