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
		"all that its node could burn":            {expect: []Pod{old}, samples: []sample{{old, 8000}}, want: 8000, cover: Coverage{Seen: 1, Expected: 1}},
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
		"as much more as may be by chance":     {expect: []Pod{old, started}, samples: []sample{{old, 100}, {started, 67.5}}, want: 167.5, cover: Coverage{Seen: 1, Expected: 1}},
		"all have just started, one is gone":   {samples: []sample{{gone, 50}, {started, 1000}}, want: nan},
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

// What a pod uses in the window in which its containers were started again is what it served before,
// and what it takes to start: no more than others serve, or than demand was.
func TestStartedAgain(t *testing.T) {
	g := Grid{15 * time.Second}
	again := Pod{Starting: noon.Add(20 * time.Second), Again: true} // 40 s ago
	for name, c := range map[string]struct {
		settled float64 // what another pod uses; 0 for none
		pod     Pod
		uses    float64
		want    float64
	}{
		"alone":                        {0, again, 4000, 300},
		"alone, with less":             {0, again, 200, 200},
		"beside another":               {100, again, 4000, 200},
		"beside another, with as much": {100, again, 110, 210},
		"before that":                  {0, Pod{Starting: noon.Add(2 * time.Minute), Again: true}, 4000, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHistory(100, 1)
			h.Set(g.At(noon.Add(-time.Minute)), 300)
			f := NewFolding(g, time.Minute, g.At(noon), g.At(noon))
			if c.settled > 0 {
				p := Pod{Ready: true, ReadyAt: noon.Add(-time.Hour)}
				f.Expect(p)
				f.Add(p, f.To, c.settled, c.settled)
			}
			f.Add(c.pod, f.To, c.uses, c.uses)
			f.Store(h)
			if got, at, ok := h.Series(g).Last(); !ok || !at.Equal(noon) || got != c.want {
				t.Errorf("demand %v at %s, want %v", got, at, c.want)
			}
		})
	}
}

// A pod that became Ready when no other was settled is compared with those that are settled now, by
// the time for which it served.
func TestNobodyWasSettled(t *testing.T) {
	g := Grid{15 * time.Second}
	h := NewHistory(100, 1)
	first := Pod{Ready: true, New: true, ReadyAt: noon.Add(-time.Minute)}
	second := Pod{Ready: true, New: true, ReadyAt: noon.Add(-30 * time.Second)}
	for _, at := range []time.Duration{-30 * time.Second, 0} {
		f := NewFolding(g, time.Minute, g.At(noon.Add(at)), g.At(noon.Add(at)))
		f.Expect(first)
		f.Add(first, f.To, 200, 200)
		if at == 0 {
			f.Expect(second)
			f.Add(second, f.To, 5000, 5000)
		}
		f.Store(h)
	}
	if got, _, _ := h.Series(g).Last(); got != 300 {
		t.Errorf("demand %v, want 200 and half of that", got)
	}
}

// What can't be usage, in either unit, is a gap.
func TestUsableInBothUnits(t *testing.T) {
	g := Grid{15 * time.Second}
	for _, bad := range []float64{nan, math.Inf(1), -1} {
		for _, c := range [][2]float64{{bad, 5}, {5, bad}} {
			f, h := NewFolding(g, time.Minute, 0, 1), NewHistory(10, 1)
			f.Add(Pod{}, 0, c[0], c[1])
			f.Add(Pod{}, 1, 7, 7)
			f.Store(h)
			if s := h.Series(g); len(s.Values) != 1 || s.Values[0] != 7 {
				t.Errorf("%v: %v", c, s.Values)
			}
			sums := NewFolding(g, time.Minute, 0, 1)
			sums.AddSum(0, c[0], c[1], 0)
			sums.AddSum(1, 7, 7, 0)
			sums.Sums(func(step int64, sum float64) {
				if step != 1 || sum != 7 {
					t.Errorf("%v: step %d is %v", c, step, sum)
				}
			})
		}
	}
}

// One pod's reading that can't be told in reference units is missing, and others stand for it.
func TestNoReference(t *testing.T) {
	g := Grid{15 * time.Second}
	f, h := NewFolding(g, time.Minute, 0, 0), NewHistory(10, 1)
	old := Pod{Ready: true, ReadyAt: g.Time(-100)}
	for _, reference := range []float64{100, nan} {
		f.Expect(old)
		f.Add(old, 0, 100, reference)
	}
	f.Store(h)
	if got, _, _ := h.Series(g).Last(); got != 200 {
		t.Errorf("demand %v, want 200", got)
	}
	var b Beyond
	b.note(9000, 2000)
	b.note(9000, 1000)
	b.note(8000, 500)
	if b != (Beyond{Pods: 3, Reads: 9000, Most: 2000}) {
		t.Errorf("%+v", b)
	}
}

// Sums of some pods add up, what lies between two is a straight line, and what is cut off is not
// known.
func TestSums(t *testing.T) {
	g := Grid{15 * time.Second}
	for name, c := range map[string]struct {
		most float64
		cut  int64
		want map[int64]float64
	}{
		"all":                          {0, 8, map[int64]float64{0: 300, 1: 375, 2: 450, 3: 525, 4: 600, 5: 525, 6: 450, 7: 375, 8: 300}},
		"as much as can be burnt":      {600, 8, map[int64]float64{0: 300, 1: 375, 2: 450, 3: 525, 4: 600, 5: 525, 6: 450, 7: 375, 8: 300}},
		"more than can be":             {599, 8, map[int64]float64{0: 300, 8: 300}},
		"cut":                          {0, 5, map[int64]float64{0: 300, 1: 375, 2: 450, 3: 525, 4: 600, 5: 525}},
		"cut at the last that is read": {0, 0, map[int64]float64{0: 300}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFolding(g, time.Minute, 0, 8)
			f.AddSum(0, 100, 100, c.most)
			f.AddSum(0, 200, 200, c.most)
			f.AddSum(4, 600, 600, c.most)
			f.AddSum(8, 300, 300, c.most)
			f.Interpolate(4)
			if c.cut < 8 {
				f.Cut(c.cut)
			}
			got := map[int64]float64{}
			f.Sums(func(step int64, sum float64) { got[step] = sum })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("sums (-want +got):\n%s", diff)
			}
		})
	}
	for v, want := range map[float64]bool{math.MaxFloat64: true, math.Inf(1): false} {
		f := NewFolding(g, time.Minute, 0, 3)
		f.AddSum(0, v, 5, 0)
		f.AddSum(0, 5, 5, 0)
		f.Interpolate(4) // there is nothing to go on to
		known := false
		f.Sums(func(int64, float64) { known = true })
		if known != want {
			t.Errorf("beside %v, where nothing is known of what can be burnt: known %v", v, known)
		}
	}
}
