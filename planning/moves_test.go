package planning_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

// counted counts what is asked of a forecaster, and fails for one series.
type counted struct {
	ahead
	updates, forecasts *int
	fails              string
}

func (c counted) Update(s forecast.State, series api.Series, n int) (forecast.State, error) {
	*c.updates++
	if c.fails != "" && len(series.Values) > 0 && series.Values[0] < 300 {
		return s, errors.New(c.fails)
	}
	return c.ahead.Update(s, series, n)
}

func (c counted) Forecast(s forecast.State, series api.Series, n int, levels []float64) (api.Forecast, error) {
	*c.forecasts++
	return c.ahead.Forecast(s, series, n, levels)
}

// While a move is refused, forecasts are made once a cycle, and the plan is that of
// a policy which has only the pool that workloads stay on.
func TestARefusedMovePredictsOnce(t *testing.T) {
	var updates, forecasts int
	f := counted{ahead: ahead{900}, updates: &updates, forecasts: &forecasts, fails: "no fit"}
	w := newWorld(t, costSaving(), f)
	for name, demand := range map[string]float64{"cart": 700, "shop": 400, "tiny": 100} {
		w.add(name, 5, 20, time.Hour, constant(demand))
	}
	for range 3 {
		w.cycle() // nodes are there
	}
	closed := performance()
	closed.Disruption.Closed = `["0 3 * * *"]`
	s := w.snapshot()

	free, _ := w.planner.Plan(s, closed, w.memory)
	if free.Nodes.Pool != fast {
		t.Fatalf("without a check workloads go to %q, want %s", free.Nodes.Pool, fast)
	}
	only := closed
	only.NodePools, only.MachineType = []string{cheap}, ""
	want, wantMemory := w.planner.Plan(s, only, w.memory)

	w.planner.Moves = execution.Preflight
	updates, forecasts = 0, 0
	got, gotMemory := w.planner.Plan(s, closed, w.memory)
	if updates != 3 || forecasts != 2 {
		t.Errorf("%d updates and %d forecasts of three workloads, one of which fails; want 3 and 2", updates, forecasts)
	}
	r := got.Nodes.Refusal
	if r == nil || r.Reason != execution.RefusedWindow || r.Pool != fast || r.Stay != cheap {
		t.Errorf("refused is %+v, want the window, %s and %s", r, fast, cheap)
	}
	want.Nodes.Refusal = r
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the plan is not that of the pool stayed on (-want +got):\n%s", diff)
	}
	if wantMemory.Hash() != gotMemory.Hash() {
		t.Error("what is remembered is not that of the pool stayed on")
	}
	if n := len(slices.DeleteFunc(slices.Clone(got.Findings), func(f api.Finding) bool { return f.Reason != "ForecastFailed" })); n != 1 {
		t.Errorf("the forecast that failed is told %d times", n)
	}
}

// A policy wants a pool that the provider refuses to grow at once, for want of quota: the pool
// that workloads are on follows demand meanwhile.
func TestAMoveWithoutQuotaDoesNotStarve(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	w.planner.Moves = execution.Preflight
	demand := 700.0
	w.add("shop", 5, 40, time.Hour, func(time.Time) float64 { return demand })
	for range 10 {
		w.cycle()
	}
	w.policy, w.nothing, demand = performance(), true, 2800
	asked, grown := 0, 0
	for range 120 { // half an hour
		s := w.snapshot()
		plan, memory := w.planner.Plan(s, w.policy, w.memory)
		actions, _ := execution.Sequence(s, plan, w.policy)
		w.carry(plan, memory)
		for _, a := range actions {
			switch a := a.(type) {
			case api.GiveUpMove:
				i := slices.IndexFunc(w.nodes, func(n api.Node) bool { return n.Name == a.Node })
				w.nodes[i].GaveUp, w.nodes[i].GaveUpAt = a.Pool, a.At
			case api.ResizePool:
				if a.Pool == cheap {
					grown++
					continue
				}
				asked++
				i := slices.IndexFunc(w.pools, func(p api.Pool) bool { return p.Name == fast })
				w.pools[i].Error = &api.PoolError{Kind: api.PoolQuota, Message: "Insufficient regional quota", At: s.Time}
			}
		}
	}
	if asked != 1 || grown == 0 {
		t.Errorf("in half an hour the pool without quota was asked for %d times, the other one %d times", asked, grown)
	}
}

// Where many nodes of a pool are not Ready the plan says that they are not replaced.
func TestNodesThatAreNotReplaced(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	w.add("shop", 5, 60, time.Hour, constant(6000))
	for range 10 {
		w.cycle()
	}
	s := w.snapshot()
	for i := range s.Nodes {
		s.Nodes[i].Ready, s.Nodes[i].Created = false, s.Time.Add(-time.Hour)
	}
	plan, _ := w.planner.Plan(s, w.policy, w.memory)
	if !found(plan, planning.ReasonPoolUnready) {
		t.Errorf("of %d nodes none is Ready, and nothing is said: %+v", len(s.Nodes), plan.Nodes.Pools)
	}
	for _, pp := range plan.Nodes.Pools {
		if pp.Nodes > pp.Current {
			t.Errorf("pool %s grows from %d to %d nodes", pp.Pool, pp.Current, pp.Nodes)
		}
	}
}
