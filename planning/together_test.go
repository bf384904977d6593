package planning

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// TestKappa: what grows at once shares nothing, what grows apart by the square root of how many
// there are, and a node with fewer of them less.
func TestKappa(t *testing.T) {
	for name, c := range map[string]struct{ e, s, q2, onNode, rho, kappa float64 }{
		"all at once":              {e: 10, s: 10, q2: 10, onNode: 10, rho: 1, kappa: 1},
		"apart, ten of each":       {e: math.Sqrt(10), s: 10, q2: 10, onNode: 10, rho: 0, kappa: math.Sqrt(0.1)},
		"apart, on nodes of four":  {e: math.Sqrt(10), s: 10, q2: 10, onNode: 25, rho: 0, kappa: 0.5},
		"half of it common":        {e: math.Sqrt(55), s: 10, q2: 10, onNode: 10, rho: 0.5, kappa: math.Sqrt(0.55)},
		"less than apart":          {e: 0, s: 10, q2: 10, onNode: 10, rho: 0, kappa: math.Sqrt(0.1)},
		"more than all together":   {e: 50, s: 10, q2: 10, onNode: 10, rho: 1, kappa: 1},
		"one workload":             {e: 3, s: 3, q2: 9, onNode: 9, rho: 1, kappa: 1},
		"one that is next to all":  {e: 1, s: 3, q2: 8.999, onNode: 8.999, rho: 1, kappa: 1},
		"none grows":               {rho: 1, kappa: 1},
		"fewer pods than machines": {e: math.Sqrt(10), s: 10, q2: 10, onNode: 1000, rho: 0, kappa: 1},
	} {
		rho := common(c.e, c.s, c.q2)
		if math.Abs(rho-c.rho) > 1e-9 || math.Abs(kappa(rho, c.s, c.onNode)-c.kappa) > 1e-9 {
			t.Errorf("%s: ρ %g, want %g; κ %g, want %g", name, rho, c.rho, kappa(rho, c.s, c.onNode), c.kappa)
		}
	}
}

// TestForeseen: replicas always have what is expected, never more than all of it, and what
// they may use while others leave it idle reaches all of it.
func TestForeseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Margins{Pod: forecast.Growth{Factor: rapid.Float64Range(1, 10).Draw(t, "factor")}, Most: 1e6}
		expected := rapid.Float64Range(1, 1000).Draw(t, "expected")
		all := m.Pods(expected, marginNow)
		guaranteed, limit := rapid.Float64Range(1, 2).Draw(t, "guaranteed"), rapid.Float64Range(1, 4).Draw(t, "limit")
		by := sharing{rapid.Float64Range(0.01, 1).Draw(t, "own"), 1, 1}
		own := m.shared(by, guaranteed, limit).Pods(expected, marginNow)
		if own > all+1e-9 || own < expected*leastMargin-1e-9 {
			t.Fatalf("%g of %g, %g are expected", own, all, expected)
		}
		if limit > guaranteed && own/guaranteed*limit < all-1e-9 {
			t.Fatalf("%g of their own, and %g times that at their limit, are less than %g", own, limit/guaranteed, all)
		}
		if limit <= guaranteed && own != all {
			t.Fatalf("%g of %g where nothing more can be used than what is their own", own, all)
		}
	})
}

// TestSumOf: series of other lengths and with gaps add up at the same times.
func TestSumOf(t *testing.T) {
	at := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	of := func(minute int, values ...float64) *managed {
		return &managed{workload: api.Workload{Demand: api.Series{Start: at.Add(time.Duration(minute) * time.Minute), Step: time.Minute, Values: values}}}
	}
	other := of(0, 1000, 1000)
	other.workload.Demand.Step = time.Hour
	got := sumOf([]*managed{of(2, 5, 6), of(0, 1, math.NaN(), 3, 4), of(-1, 100, 10, 20), other, of(3, math.NaN())})
	want := []float64{5 + 1 + 10, 5 + 1 + 20, 5 + 3 + 20, 6 + 4 + 20}
	if !got.Start.Equal(at) || got.Step != time.Minute || len(got.Values) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got.Values[i] != want[i] {
			t.Errorf("%v, want %v", got.Values, want)
			break
		}
	}
}

// TestSharing: workloads that grow at different times have less of their own on the nodes
// they share, those that grow at the same time all of it; so has one that is alone, that mash2 only
// watches, or whose policy counts on requests.
func TestSharing(t *testing.T) {
	pool := api.Pool{
		Name: "big", Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: api.Resources{MilliCPU: 7900, Memory: 1 << 40, Pods: 110}, Cores: 8000, CPUSpeed: 1,
	}
	shape := &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 200, Pods: 1}, LimitCPU: 800}
	// Every workload doubles for five minutes in two hours, apart minutes after the one before.
	fleet := func(n, apart int, change func(*api.Workload)) api.Snapshot {
		s := api.Snapshot{Time: marginNow, Metrics: api.SourceHealth{Reachable: true}, Pools: []api.Pool{pool}}
		for i := range n {
			d := api.Series{Start: marginNow.Add(-48 * time.Hour), Step: time.Minute}
			for m := range 48 * 60 {
				v := 100.0
				if at := (m - i*apart + 7200) % 137; at < 5 {
					v = 300
				}
				d.Values = append(d.Values, v)
			}
			w := api.Workload{
				Key: api.Key{Namespace: "shop", Name: string(rune('a' + i))}, Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: 9, Replicas: 2, ReadyReplicas: 2,
				Shape: shape, SpeedNow: 1, Demand: d,
			}
			change(&w)
			s.Workloads = append(s.Workloads, w)
		}
		return s
	}
	h := Hierarchy{Config: DefaultConfig()}
	on := func(s api.Snapshot, p api.Policy) sharing {
		p.NodePools = []string{"big"}
		c := newCycle(h, s, p, Memory{}, "")
		c.pools = c.s.Pools
		return c.sharingOn(&c.pools[0], func(int) bool { return true })
	}
	as := func(*api.Workload) {}
	burst := api.Policy{Objective: 0.999, Burst: true}
	if k := on(fleet(9, 15, as), burst); !(k.pods > 0.3 && k.pods < 0.6 && k.nodes > 0.3 && k.nodes < 0.6) {
		t.Errorf("apart: %+v, want about a third", k)
	}
	if few, many := on(fleet(3, 15, as), burst), on(fleet(9, 15, as), burst); !(few.pods > many.pods) {
		t.Errorf("three have %g of their own, nine %g", few.pods, many.pods)
	}
	for name, s := range map[string]api.Snapshot{
		"at the same time": fleet(9, 0, as),
		"alone":            fleet(1, 15, as),
		"only watched":     fleet(9, 15, func(w *api.Workload) { w.Mode = api.ModeShadow }),
		"held":             fleet(9, 15, func(w *api.Workload) { w.Hold = "for a reason" }),
		"stale":            fleet(9, 15, func(w *api.Workload) { w.DemandStale = true }),
	} {
		if k := on(s, burst); k.pods < 0.95 || k.nodes < 0.95 {
			t.Errorf("%s: %+v, want all of it", name, k)
		}
	}
	if k := on(fleet(9, 15, as), api.Policy{Objective: 0.999}); k != alone {
		t.Errorf("within requests: %+v", k)
	}
	if k := on(fleet(9, 15, as), api.Policy{Burst: true}); k != alone {
		t.Errorf("no objective: %+v", k)
	}
	c := newCycle(h, fleet(9, 15, as), burst, Memory{}, "")
	mw := &c.managed[0]
	before, after := mw.memory.Margins.Pods(100, marginNow), c.marginsOn(mw, &pool, sharing{0.5, 0.5, 1}).Pods(100, marginNow)
	if want := 100 + (before-100)/2; before < 250 || math.Abs(after-want) > 1e-9 {
		t.Errorf("a workload is to have %g of its own of %g, want %g", after, before, want)
	}
	if again := newCycle(h, fleet(9, 15, as), burst, Memory{Together: c.memory.Together}, ""); !again.memory.Together.At.Equal(c.memory.Together.At) || again.on("big").common != again.common {
		t.Error("what is common is not what it was")
	}
}
