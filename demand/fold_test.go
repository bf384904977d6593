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
	starting := Pod{Starting: noon.Add(-time.Minute), Most: 8000}
	restarted := Pod{Starting: noon.Add(time.Second), Most: 8000}
	started := young
	started.New = true
	going := started
	going.Ready = false
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
		"what a pod takes to start is no demand":  {expect: []Pod{old}, samples: []sample{{old, 100}, {starting, 1000}}, want: 100, cover: Coverage{Seen: 1, Expected: 1}},
		"only pods that start are a gap":          {samples: []sample{{starting, 1000}}, want: nan},
		"what it served before it died is":        {expect: []Pod{old}, samples: []sample{{old, 100}, {restarted, 80}}, want: 180, cover: Coverage{Seen: 1, Expected: 1}},
		// Ready for half of the window, in which it served no more than half of what others did.
		"a pod that has just started counts as others": {expect: []Pod{old, started}, samples: []sample{{old, 100}, {started, 1000}}, want: 150, cover: Coverage{Seen: 1, Expected: 1}},
		"and goes":                             {expect: []Pod{old}, samples: []sample{{old, 100}, {going, 1000}}, want: 150, cover: Coverage{Seen: 1, Expected: 1}},
		"what it does use, if it is no more":   {expect: []Pod{old, started}, samples: []sample{{old, 100}, {started, 30}}, want: 130, cover: Coverage{Seen: 1, Expected: 1}},
		"all have just started":                {expect: []Pod{started}, samples: []sample{{started, 1000}}, want: nan},
		"one that recovers served all it used": {expect: []Pod{old, young}, samples: []sample{{old, 100}, {young, 1000}}, want: 1100, cover: Coverage{Seen: 1, Expected: 1}},
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

// Pods come to others and take their share of the requests, each after it took any amount of CPU
// to start. Demand is what all served, whatever that amount, at every step of the window.
func TestStartingIsNoDemand(t *testing.T) {
	const window, every = 60.0, 15.0
	g := Grid{15 * time.Second}
	rapid.Check(t, func(t *rapid.T) {
		settled, come := rapid.IntRange(1, 20).Draw(t, "settled"), rapid.IntRange(1, 20).Draw(t, "come")
		total := rapid.Float64Range(100, 100_000).Draw(t, "demand")
		joined := float64(rapid.IntRange(0, 14).Draw(t, "joined")) // seconds after a step
		startup := rapid.Float64Range(0, 100_000).Draw(t, "startup")
		h := NewHistory(100, 1)
		// Millicore seconds of a pod over (from, to]: alone before the others join at 0.
		share := func(from, to float64, n int) float64 {
			return total / float64(n) * max(0, to-from)
		}
		for at := -2 * window; at < 3*window; at += every {
			f := NewFolding(g, time.Minute, g.At(noon.Add(time.Duration(at)*time.Second)), g.At(noon.Add(time.Duration(at)*time.Second)))
			from := at - window
			old := share(from, min(at, joined), settled) + share(max(from, joined), at, settled+come)
			for range settled {
				p := Pod{Ready: true, ReadyAt: noon.Add(-time.Hour), New: true}
				f.Expect(p)
				f.Add(p, f.To, old/window, old/window)
			}
			for i := range come {
				p := Pod{Ready: at >= joined, New: at >= joined}
				if p.Ready {
					p.ReadyAt = noon.Add(time.Duration(joined) * time.Second)
				} else {
					p.Starting = noon.Add(-time.Hour)
				}
				own := share(max(from, joined), at, settled+come)
				if began := joined - 20; at > began && from < joined { // it starts for twenty seconds
					own += startup * float64(i+1) / float64(come) * max(0, min(at, joined)-max(from, began)) / 20
				}
				f.Expect(p)
				f.Add(p, f.To, own/window, own/window)
			}
			f.Store(h)
			got, _, ok := h.Series(g).Last()
			// By so much may a pod be above its share before it is taken to be starting.
			most := total*clearlyMore + float64(come)*noiseMilliCPU
			if !ok || got < total*(1-1e-6) || got > most*(1+1e-6) {
				t.Fatalf("%v s: demand %v (%v), want %v to %v", at, got, ok, total, most)
			}
		}
	})
}

// Where all pods have just started, demand is what it was, or less if that is what they use.
func TestAllHaveJustStarted(t *testing.T) {
	g := Grid{15 * time.Second}
	for name, c := range map[string]struct {
		uses float64
		ago  time.Duration // since demand was known to be 300
		want float64
	}{
		"they start":       {4000, 15 * time.Second, 300},
		"they use less":    {200, 15 * time.Second, 200},
		"a while ago":      {4000, 5 * time.Minute, 300},
		"too long ago":     {4000, 6 * time.Minute, nan},
		"less, but so too": {200, 6 * time.Minute, nan},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHistory(100, 1)
			h.Set(g.At(noon.Add(-c.ago)), 300)
			f := NewFolding(g, time.Minute, g.At(noon), g.At(noon))
			f.Add(Pod{Ready: true, New: true, ReadyAt: noon.Add(-20 * time.Second)}, f.To, c.uses, c.uses)
			f.Store(h)
			got, at, _ := h.Series(g).Last()
			if !at.Equal(noon) {
				got = nan
			}
			if math.IsNaN(got) != math.IsNaN(c.want) || !math.IsNaN(got) && got != c.want {
				t.Errorf("demand %v, want %v", got, c.want)
			}
		})
	}
}
