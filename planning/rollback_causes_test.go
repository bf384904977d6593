package planning_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// lowering is a learned planner that from a time on wants one replica, and claims that
// nothing forbids it.
type lowering struct {
	planning.WorkloadPlanner
	from time.Time
}

func (l lowering) PlanWorkload(in planning.Input) (planning.Proposal, error) {
	p, err := l.WorkloadPlanner.PlanWorkload(in)
	if !in.Time.Before(l.from) {
		p.Scale.Replicas, p.NodeReplicas, p.Floor, p.Need = 1, 1, 1, 1
		p.Path, p.Binding, p.Reason = nil, api.BindingLearned, "the model asks for 1"
	}
	return p, err
}

// back runs cycles from when errors begin, and expects the replicas of before within a
// minute, until the hold is over.
func (w *world) back(l *load, burns time.Time, before int32) {
	w.t.Helper()
	var plan api.Plan
	for plan = w.cycle(); plan.Rollback == nil; plan = w.cycle() {
		if plan.Time.Sub(burns) > 5*time.Minute {
			w.t.Fatalf("not taken back: %+v", plan.Workloads[0].SLOs)
		}
	}
	w.t.Logf("taken back %v after the errors began: %s", plan.Time.Sub(burns), message(plan, planning.ReasonRolledBack))
	if after := plan.Time.Sub(burns); after > time.Minute || l.Replicas < before {
		w.t.Errorf("%v after the errors began: %d replicas, were %d", after, l.Replicas, before)
	}
	until := plan.Rollback.Until
	for w.now.Before(until) {
		if plan = w.cycle(); l.Replicas < before || plan.Rollback == nil {
			w.t.Fatalf("%d replicas at %v, out until %v", l.Replicas, w.now, until)
		}
	}
}

// TestRollbackOfALearnedPlan: what a model has asked for is taken back, and the model stays
// out until the hold is over.
func TestRollbackOfALearnedPlan(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	w.policy.Rollback.Hold = 20 * time.Minute
	turns := start.Add(20 * time.Minute)
	burns := turns.Add(10 * time.Minute)
	w.planner.Planners["rl"] = lowering{w.planner.Planners["horizontal"], turns}
	shop := w.add("shop", 12, 20, 2*time.Hour, constant(2000))
	shop.Planner = "rl"
	shop.objective(100, from(burns, 0.05))
	w.until(turns)
	before := shop.Replicas
	if plan := w.until(burns); shop.Replicas >= before {
		t.Fatalf("%d replicas of %d: the model has changed nothing: %s", shop.Replicas, before, plan.Workloads[0].Reason)
	}
	w.back(shop, burns, before)
}

// TestRollbackOfABound: a strategy lowered maxReplicas; its bound is taken back with the
// plan.
func TestRollbackOfABound(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	w.policy.Rollback.Hold = 20 * time.Minute
	turns := start.Add(20 * time.Minute)
	burns := turns.Add(time.Minute)
	shop := w.add("shop", 12, 20, 2*time.Hour, constant(2000))
	shop.objective(100, from(burns, 0.05))
	judge := shop.change
	shop.change = func(l *load, now time.Time) {
		judge(l, now)
		if now.Before(turns) {
			return
		}
		l.AuthorMax, l.MaxReplicas = 20, 3
	}
	w.until(turns)
	before := shop.Replicas
	w.until(burns)
	if shop.Replicas != 3 {
		t.Fatalf("%d replicas: the bound has no effect", shop.Replicas)
	}
	w.back(shop, burns, before)
}

// step is a model that asks for one replica fewer (0), as many (1) or one more (2), always.
func step(t *testing.T, action int) learned.Planner {
	t.Helper()
	net, err := rl.NewNetwork(rl.MLP(1, []int{4}, false, rl.ReLU, 3))
	if err != nil {
		t.Fatal(err)
	}
	clear(net.Params)
	net.Params[len(net.Params)-3+action] = 1 // the output's biases come last
	m := rl.Model{
		Environment: "test", Algorithm: "test", Policy: rl.Policy{Network: net, Actions: rl.Space{N: 3}},
		Inputs: []rl.Input{{Name: learned.InputCPU, Scale: 100}},
	}
	if err := learned.Check(m); err != nil {
		t.Fatal(err)
	}
	return learned.Planner{Models: map[string]rl.Model{"m": m}}
}

// TestRollbackOfAModel: a new version of a real model gives replicas up; they come back, and
// the model stays out until the hold is over. Then it decides again.
func TestRollbackOfAModel(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	w.policy.Rollback.Hold = 20 * time.Minute
	model := func(action int) {
		p := step(t, action)
		p.Floor = w.planner.Planners["horizontal"]
		w.planner.Planners[learned.Name] = p
	}
	model(1)
	turns := start.Add(20 * time.Minute)
	burns := turns.Add(8 * time.Minute)
	shop := w.add("shop", 12, 20, 2*time.Hour, constant(500))
	shop.Planner, shop.Model = learned.Name, "m"
	shop.objective(100, func(now time.Time) float64 {
		if !now.Before(burns) && now.Before(burns.Add(10*time.Minute)) {
			return 0.05
		}
		return 0
	})
	w.until(turns)
	before := shop.Replicas
	model(0)
	if plan := w.until(burns); shop.Replicas >= before || plan.Workloads[0].Binding == api.BindingHold {
		t.Fatalf("%d replicas of %d: the model has changed nothing: %s", shop.Replicas, before, plan.Workloads[0].Reason)
	}
	w.back(shop, burns, before)
	if plan := w.until(w.now.Add(20 * time.Minute)); plan.Rollback != nil || shop.Replicas >= before {
		t.Errorf("%d replicas, were %d: the model doesn't decide again after the hold: %s", shop.Replicas, before, plan.Workloads[0].Reason)
	}
}

// TestRollbackOfAStrategy: what a strategy did is taken back, and the strategy, whose rule
// goes on asking for it, stays out until the hold is over.
func TestRollbackOfAStrategy(t *testing.T) {
	both := costSaving()
	both.NodePools = []string{cheap, fast}
	rule := func(action string) string { return "rules: [{name: r, when: 'true', actions: [{" + action + "}]}]" }
	for name, c := range map[string]struct {
		policies      []api.Policy
		before, after string        // the strategy that holds before errors come of it, and then; empty for none
		burns         time.Duration // after that, and before five minutes of it are proven good
		wantMoved     bool
	}{
		"a move": {
			policies: []api.Policy{both}, before: rule("move: {pools: [" + fast + "]}"), after: rule("move: {pools: [" + cheap + "]}"),
			burns: time.Minute, wantMoved: true,
		},
		"a policy": {
			policies: []api.Policy{performance(), costSaving()}, after: rule("setPolicy: {policy: " + api.CostSaving + "}"),
			burns: time.Minute, wantMoved: true,
		},
		"a bound": {
			policies: []api.Policy{costSaving()}, after: rule("setBounds: {workload: shop, maxReplicas: 3}"), burns: time.Minute,
		},
		"replicas that it wants no more": {
			policies: []api.Policy{costSaving()}, before: rule("proposeReplicas: {workload: shop, replicas: '18'}"), burns: 8 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			turns := start.Add(20 * time.Minute)
			burns := turns.Add(c.burns)
			spec := api.PolicySpec{Default: c.policies[0].Name, Policies: map[string]api.Policy{}}
			for _, p := range c.policies {
				p.Rollback.Hold = 20 * time.Minute
				spec.Policies[p.Name] = p
			}
			w := newWorld(t, c.policies[0], nil)
			shop := w.add("shop", 12, 20, 2*time.Hour, constant(1000))
			shop.objective(100, from(burns, 0.05))
			var last []api.StrategyState
			w.steer = func(s api.Snapshot) (api.Policy, api.Snapshot) {
				text := c.before
				if !s.Time.Before(turns) {
					text = c.after
				}
				if text != "" {
					list, err := strategy.Parse([]byte("apiVersion: mash2.io/v1alpha1\nkind: Strategy\nmetadata: {name: s, namespace: web}\nspec:\n  " + text + "\n"))
					if err != nil {
						t.Fatal(err)
					}
					s.Context.Strategies, s.Context.LastStrategies = list, last
				}
				p, s, findings := strategy.Steer(spec, s, nil)
				if len(findings) > 0 {
					t.Fatal(findings)
				}
				last = p.Strategies
				return p, s
			}
			plan := w.until(turns)
			before, pools := shop.Replicas, plan.PoolsInUse()
			plan = w.until(burns)
			if moved := !slices.Equal(plan.PoolsInUse(), pools); moved != c.wantMoved || !moved && shop.Replicas >= before {
				t.Fatalf("%d replicas of %d, on %v after %v: the strategy has changed nothing", shop.Replicas, before, plan.PoolsInUse(), pools)
			}
			w.back(shop, burns, before)
			if got := w.lastPlan.PoolsInUse(); !slices.Equal(got, pools) {
				t.Errorf("on %v, was on %v", got, pools)
			}
		})
	}
}
