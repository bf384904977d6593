package planning_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

func resizedByOther(p api.Plan) []api.Finding {
	return slices.DeleteFunc(slices.Clone(p.Findings), func(f api.Finding) bool { return f.Reason != planning.ReasonResizedByOther })
}

// steady is a world at rest whose pool has a node or more.
func steady(t *testing.T) (*world, *load, func() *api.Pool, func(api.Plan) api.PoolPlan) {
	t.Helper()
	w := newWorld(t, performance(), nil)
	l := w.add("web", 4, 40, time.Hour, constant(600))
	for range 8 * 60 { // two hours: whatever is kept for a while is given up
		if plan := w.cycle(); len(resizedByOther(plan)) > 0 {
			t.Fatalf("at %s, with nobody else there: %+v", w.now, resizedByOther(plan))
		}
	}
	pool := func() *api.Pool {
		return &w.pools[slices.IndexFunc(w.pools, func(p api.Pool) bool { return p.Name == fast })]
	}
	planned := func(p api.Plan) api.PoolPlan {
		return p.Nodes.Pools[slices.IndexFunc(p.Nodes.Pools, func(pp api.PoolPlan) bool { return pp.Pool == fast })]
	}
	return w, l, pool, planned
}

// person resizes a pool of the world.
func (w *world) person(pool string, perZone int32) {
	w.resize(api.PoolPlan{Pool: pool, SizePerZone: perZone})
	w.settle()
}

func TestAPoolThatAPersonGrewIsNotShrunk(t *testing.T) {
	w, _, pool, planned := steady(t)
	before := pool().Sizes[0]
	w.person(fast, before+3)
	began := w.now
	var said string
	for w.now.Sub(began) < 30*time.Minute {
		plan := w.cycle()
		findings := resizedByOther(plan)
		if len(findings) != 1 || findings[0].Object != api.PoolRef(fast) || findings[0].Severity != api.Warning {
			t.Fatalf("after %v: %+v", w.now.Sub(began), findings)
		}
		if said == "" {
			said = findings[0].Message
		}
		if findings[0].Message != said {
			t.Fatalf("it is told in other words: %s\nand before: %s", findings[0].Message, said)
		}
		if pp := planned(plan); pp.SizePerZone != before+3 || len(pp.Surplus) > 0 || pp.Nodes != before+3 {
			t.Fatalf("after %v: %d nodes per zone, %d nodes, surplus %v, want %d", w.now.Sub(began), pp.SizePerZone, pp.Nodes, pp.Surplus, before+3)
		}
	}
	for range 60 {
		if plan := w.cycle(); len(resizedByOther(plan)) > 0 {
			t.Fatalf("after %v: %+v", w.now.Sub(began), resizedByOther(plan))
		}
	}
	if got := pool().Sizes[0]; got != before {
		t.Errorf("%d nodes per zone after the hold, want %d again", got, before)
	}
}

// One zone of several that somebody grew stays, and the others don't follow it.
func TestAZoneThatAPersonGrewIsNotShrunk(t *testing.T) {
	w := newWorld(t, performance(), nil)
	w.pools = pools(2)
	w.add("web", 8, 40, time.Hour, constant(1200))
	for range 4 * 60 {
		w.cycle()
	}
	pool := &w.pools[slices.IndexFunc(w.pools, func(p api.Pool) bool { return p.Name == fast })]
	before := pool.Sizes[0]
	pool.Sizes = []int32{before + 3, before}
	w.nothing = true
	plan := w.cycle()
	pp := plan.Nodes.Pools[slices.IndexFunc(plan.Nodes.Pools, func(pp api.PoolPlan) bool { return pp.Pool == fast })]
	if len(resizedByOther(plan)) != 1 || len(pp.Surplus) > 0 || pp.SizePerZone != before {
		t.Errorf("%d nodes per zone, surplus %v, want %d and none: %+v", pp.SizePerZone, pp.Surplus, before, resizedByOther(plan))
	}
}

// An operator that is killed finds the hold again, and what it had asked for.
func TestAKilledOperatorFindsWhoResizedAPool(t *testing.T) {
	w, _, pool, planned := steady(t)
	before := pool().Sizes[0]
	kept, at := w.memory, w.now
	w.person(fast, before+3)
	w.memory = kept.Resumed(at, w.now)
	if plan := w.cycle(); len(resizedByOther(plan)) != 1 || planned(plan).SizePerZone != before+3 {
		t.Fatalf("not found by who starts now: %+v", resizedByOther(plan))
	}
	kept, at = w.memory, w.now
	w.now = w.now.Add(10 * time.Minute)
	w.memory = kept.Resumed(at, w.now)
	if plan := w.cycle(); len(resizedByOther(plan)) != 1 || planned(plan).SizePerZone != before+3 {
		t.Fatalf("forgotten by who starts now: %+v", resizedByOther(plan))
	}
	// What is too old may have been followed by resizes of another operator of ours.
	kept, at = w.memory, w.now
	w.now = w.now.Add(20 * time.Minute)
	w.person(fast, before+5)
	w.memory = kept.Resumed(at, w.now)
	if plan := w.cycle(); len(resizedByOther(plan)) > 0 {
		t.Fatalf("taken for somebody else's by who knows nothing of the last quarter of an hour: %+v", resizedByOther(plan))
	}
}

func TestGrowthGoesOnInAPoolThatAPersonResized(t *testing.T) {
	for name, by := range map[string]int32{"grown": 1, "shrunk": -1} {
		t.Run(name, func(t *testing.T) {
			w, l, pool, planned := steady(t)
			before := pool().Sizes[0]
			w.person(fast, before+by)
			if plan := w.cycle(); len(resizedByOther(plan)) != 1 || planned(plan).SizePerZone < before {
				t.Fatalf("%d nodes per zone where %d were: %+v", planned(plan).SizePerZone, before, resizedByOther(plan))
			}
			l.demand = constant(6000)
			for range 40 {
				w.cycle()
			}
			if got := pool().Sizes[0]; got <= before+1 {
				t.Errorf("%d nodes per zone under ten times the demand", got)
			}
		})
	}
}

func TestANewPolicyEndsTheHold(t *testing.T) {
	w, _, pool, _ := steady(t)
	w.person(fast, pool().Sizes[0]+3)
	if plan := w.cycle(); len(resizedByOther(plan)) != 1 {
		t.Fatal("not found")
	}
	w.policy.Name = "NIGHT"
	if plan := w.cycle(); len(resizedByOther(plan)) > 0 {
		t.Errorf("still held: %+v", resizedByOther(plan))
	}
}

// What mash2 does itself, or a provider, is nobody else's resize.
func TestOwnResizesAreNobodyElses(t *testing.T) {
	t.Run("demand that comes and goes, and a policy that changes pools", func(t *testing.T) {
		w, l, _, _ := steady(t)
		for round := range 6 {
			l.demand = constant([]float64{600, 6000, 300, 9000, 1200, 100}[round])
			w.policy = []api.Policy{performance(), costSaving()}[round/2%2]
			for range 4 * 40 {
				if plan := w.cycle(); len(resizedByOther(plan)) > 0 {
					t.Fatalf("round %d: %+v", round, resizedByOther(plan))
				}
			}
		}
	})
	for name, change := range map[string]func(*api.Pool){
		"the provider's own autoscaler": func(p *api.Pool) { p.Autoscaled = true },
		"a resize that failed":          func(p *api.Pool) { p.Error = &api.PoolError{Kind: api.PoolStockout, At: start} },
		"a size for the time of a hold": func(p *api.Pool) { p.Hold = "UPGRADE NODES is RUNNING" },
	} {
		t.Run(name, func(t *testing.T) {
			w, _, pool, _ := steady(t)
			before := pool().Sizes[0]
			w.person(fast, before+1)
			change(pool())
			if plan := w.cycle(); len(resizedByOther(plan)) > 0 {
				t.Errorf("%+v", resizedByOther(plan))
			}
		})
	}
	t.Run("a resize that is not seen at once", func(t *testing.T) {
		w, l, pool, planned := steady(t)
		before := pool().Sizes[0]
		w.nothing = true
		l.demand = constant(3000)
		want := planned(w.cycle()).SizePerZone
		l.demand = constant(600)
		for range 20 {
			w.cycle()
		}
		if want <= before {
			t.Fatalf("%d nodes per zone are asked for, there are %d", want, before)
		}
		w.person(fast, want)
		if plan := w.cycle(); len(resizedByOther(plan)) > 0 {
			t.Errorf("%+v", resizedByOther(plan))
		}
	})
	t.Run("but what is left when a hold ends is", func(t *testing.T) {
		w, _, pool, _ := steady(t)
		w.person(fast, pool().Sizes[0]+2)
		pool().Hold = "SET NODE POOL SIZE is RUNNING"
		w.nothing = true
		w.cycle()
		pool().Hold = ""
		if got := resizedByOther(w.cycle()); len(got) != 1 || !strings.Contains(got[0].Message, "somebody else resized it") {
			t.Errorf("%+v", got)
		}
	})
}
