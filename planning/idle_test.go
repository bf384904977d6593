package planning

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
)

// TestIdle: replicas may be used more where others on their nodes leave something idle, and never
// more than what is their own in any case; not where all are used alike, where nobody knows what
// others use, or where their limits forbid it.
func TestIdle(t *testing.T) {
	pool := api.Pool{
		Name: "two", Zones: []string{"a"}, Sizes: []int32{9}, Allocatable: api.Resources{MilliCPU: 1930, Memory: 1 << 40, Pods: 110}, Cores: 2000, CPUSpeed: 1,
	}
	shape := &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 200, Pods: 1}, LimitCPU: 400}
	other := &api.PodShape{ID: "o", Requests: api.Resources{MilliCPU: 200, Pods: 1}}
	// One replica can use 222m in any case. Workload i uses so many millicores, with a twentieth of
	// noise.
	fleet := func(milli ...float64) api.Snapshot {
		s := api.Snapshot{Time: marginNow, Metrics: api.SourceHealth{Reachable: true}, Pools: []api.Pool{pool}}
		for i := range 9 {
			s.Nodes = append(s.Nodes, api.Node{Name: fmt.Sprint("n", i), Pool: "two", Ready: true})
		}
		for i, m := range milli {
			d := api.Series{Start: marginNow.Add(-48 * time.Hour), Step: time.Minute}
			for k := range 48 * 60 {
				d.Values = append(d.Values, m*(1+0.05*math.Sin(float64(k*(i+7)))))
			}
			d.Values[len(d.Values)-1] = m
			s.Workloads = append(s.Workloads, api.Workload{
				Key: api.Key{Namespace: "shop", Name: string(rune('a' + i))}, Mode: api.ModeFull, MinReplicas: 2, MaxReplicas: 20, Replicas: 2, ReadyReplicas: 2,
				Shape: shape, SpeedNow: 1, Demand: d,
			})
		}
		return s
	}
	of := func(s api.Snapshot) float64 {
		p := api.Policy{Objective: 0.999, Burst: true, NodePools: []string{"two"}}
		c := newCycle(Hierarchy{Config: DefaultConfig()}, s, p, Memory{}, "")
		c.pools = c.s.Pools
		by := c.sharingOn(&c.pools[0], func(int) bool { return true })
		mw := &c.managed[0]
		if m := c.marginsOn(mw, &c.pools[0], by); m.Saturation() > 1+1e-9 || m.Saturation() < choice.Saturation {
			t.Errorf("replicas may use %g of what is their own", m.Saturation())
		}
		return by.idle
	}
	change := func(s api.Snapshot, f func(i int, w *api.Workload)) api.Snapshot {
		for i := range s.Workloads {
			f(i, &s.Workloads[i])
		}
		return s
	}
	with := func(s api.Snapshot, n int) api.Snapshot {
		for i := range n {
			s.Pods = append(s.Pods, api.Pod{Key: api.Key{Namespace: "other", Name: fmt.Sprint(i)}, Shape: other, Node: s.Nodes[i%9].Name, Phase: "Running"})
		}
		return s
	}
	running := func(s api.Snapshot) api.Snapshot {
		for i, w := range s.Workloads {
			for k := range 2 {
				s.Pods = append(s.Pods, api.Pod{Key: api.Key{Namespace: "shop", Name: fmt.Sprint(w.Key.Name, k)}, Workload: w.Key, Shape: shape, Node: s.Nodes[(i+k)%9].Name, Phase: "Running"})
			}
		}
		return s
	}
	const all = 1 / choice.Saturation
	idlers := []float64{800, 1000, 20, 20, 20, 20, 20, 20}
	for name, c := range map[string]struct {
		s        api.Snapshot
		from, to float64
	}{
		"most have their fewest":        {fleet(idlers...), all, all},
		"all are used as much":          {fleet(1027, 1027, 1027, 1027), 1, 1.02}, // 1130m with the least margin, of 6 × 189m
		"the last replica of each":      {fleet(550, 550, 550, 550, 550, 550), 1.01, 1.1},
		"alone":                         {fleet(550), 1, 1},
		"others that nobody plans":      {with(fleet(idlers...), 40), 1, 1.1},
		"those that do nothing are two": {change(fleet(idlers...), func(_ int, w *api.Workload) { w.MinReplicas = 1 }), 1.05, all - 0.01},
		"nobody knows what they do": {running(change(fleet(idlers...), func(i int, w *api.Workload) {
			w.DemandStale = i > 1
		})), 1, 1.1},
	} {
		if got := of(c.s); got < c.from-1e-9 || got > c.to+1e-9 {
			t.Errorf("%s: %g times as much, want %g to %g", name, got, c.from, c.to)
		}
	}
	// Without a pod of those that do nothing only what rounding leaves is idle, which is worth no pod.
	none := of(change(fleet(idlers...), func(i int, w *api.Workload) {
		if w.MinReplicas = 0; i > 1 {
			w.Demand.Values = make([]float64, len(w.Demand.Values))
		}
	}))
	if n := choice.Ceil(880/(188.9*none)) + choice.Ceil(1100/(188.9*none)); n != 5+6 {
		t.Errorf("with nobody else there are %d replicas, used %g times as much", n, none)
	}
	// What a trusted forecast says is foreseen, too, within what there ever was: those with their
	// fewest replicas won't leave them idle. One that isn't trusted says nothing.
	for _, trusted := range []bool{true, false} {
		p := api.Policy{Objective: 0.999, Burst: true, NodePools: []string{"two"}, Quantile: 0.9}
		c := newCycle(Hierarchy{Config: DefaultConfig()}, fleet(idlers...), p, Memory{}, "")
		c.pools = c.s.Pools
		for i := range c.managed {
			mw := &c.managed[i]
			mw.memory.Margins.Told, mw.memory.Margins.Most, mw.trusted = 1.1, 400, trusted
			mw.forecast = &api.Forecast{Start: marginNow, Step: time.Minute, Mean: []float64{350}, Levels: []float64{0.9}, Quantiles: [][]float64{{360}}}
		}
		if got, free := c.sharingOn(&c.pools[0], func(int) bool { return true }).idle, all; trusted == (got == free) {
			t.Errorf("forecasts trusted %v: %g times as much", trusted, got)
		}
	}
	// With no more replicas than may be, each is used more than it should, and leaves nothing.
	full := of(change(fleet(idlers...), func(i int, w *api.Workload) {
		if i < 2 {
			w.MaxReplicas = 3
		}
	}))
	if full >= all {
		t.Errorf("beside workloads with too few replicas: %g times as much", full)
	}
	limited := fleet(idlers...)
	small := *shape
	small.LimitCPU = 200
	limited.Workloads[0].Shape = &small
	p := api.Policy{Objective: 0.999, Burst: true, NodePools: []string{"two"}}
	c := newCycle(Hierarchy{Config: DefaultConfig()}, limited, p, Memory{}, "")
	c.pools = c.s.Pools
	by := c.sharingOn(&c.pools[0], func(int) bool { return true })
	for i, want := range []float64{choice.Saturation, choice.Saturation * by.idle} {
		if got := c.marginsOn(&c.managed[i], &c.pools[0], by).Saturation(); math.Abs(got-want) > 1e-9 {
			t.Errorf("workload %d may use %g of what is its own, want %g", i, got, want)
		}
	}
}

// TestSaturates compares with all draws of a machine's pods one by one.
func TestSaturates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const cores, room = 1000.0, 3 * 200.0
		kinds := rapid.IntRange(1, 4).Draw(t, "kinds")
		var all []used
		var each, share []float64
		pods := 0.0
		for range kinds {
			// Whole bins, which are not rounded.
			u := used{request: 200, each: float64(rapid.IntRange(0, 120).Draw(t, "use")) * cores * choice.Saturation / idleBins, there: int32(rapid.IntRange(1, 5).Draw(t, "pods"))}
			all, each, share, pods = append(all, u), append(each, math.Round(u.each/(cores*choice.Saturation)*idleBins)), append(share, float64(u.there)), pods+float64(u.there)
		}
		want := 0.0
		for a := range kinds {
			for b := range kinds {
				for k := range kinds {
					if each[a]+each[b]+each[k] >= idleBins {
						want += share[a] * share[b] * share[k] / (pods * pods * pods)
					}
				}
			}
		}
		if got := saturates(all, 1, cores, room); math.Abs(got-want) > 1e-6 {
			t.Fatalf("%g of machines are saturated, want %g", got, want)
		}
	})
}
