package planning_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// objective gives a workload an SLO of 99.9 %, of which the test says how many events a
// second there are and what share of them is bad.
func (l *load) objective(rate float64, bad func(time.Time) float64) {
	const window = 45 * time.Second
	l.change = func(l *load, now time.Time) {
		total, wrong := 0.0, 0.0
		for s := range int(window.Seconds()) {
			total += rate
			wrong += rate * bad(now.Add(-time.Duration(s)*time.Second))
		}
		l.SLOs = []api.SLO{{Name: "availability", Objective: 0.999, At: now, Window: window, Total: total, Bad: wrong}}
	}
}

// from is a share of bad events from a time on.
func from(t time.Time, share float64) func(time.Time) float64 {
	return func(now time.Time) float64 {
		if now.Before(t) {
			return 0
		}
		return share
	}
}

// falling is demand that halves at a time.
func falling(t time.Time, to float64) func(time.Time) float64 {
	return func(now time.Time) float64 {
		if now.Before(t) {
			return 2000
		}
		return to
	}
}

// until runs cycles up to a time and returns the last plan.
func (w *world) until(t time.Time) (plan api.Plan) {
	for w.now.Before(t) {
		plan = w.cycle()
	}
	return plan
}

func message(p api.Plan, reason string) string {
	for _, f := range p.Findings {
		if f.Reason == reason {
			return f.Message
		}
	}
	return ""
}

// TestRollback: replicas go, 5 % of requests fail of 99.9 % that must not, and within a
// minute everything is as it was, the bystander and the nodes too; until the hold is over.
func TestRollback(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	w.policy.Rollback.Hold = 30 * time.Minute
	falls := start.Add(20 * time.Minute)
	burns := falls.Add(7 * time.Minute) // just after replicas went
	shop := w.add("shop", 12, 20, 2*time.Hour, falling(falls, 500))
	other := w.add("other", 12, 20, 2*time.Hour, falling(falls, 500))
	ends := burns.Add(10 * time.Minute)
	shop.objective(100, func(now time.Time) float64 {
		if now.Before(burns) || now.After(ends) {
			return 0
		}
		return 0.05
	})
	plan := w.until(falls)
	before, others, nodes := shop.Replicas, other.Replicas, plan.Nodes.Pools[0].Nodes
	w.until(burns)
	if shop.Replicas >= before || other.Replicas >= others {
		t.Fatalf("%d and %d replicas of %d and %d: nothing was given up", shop.Replicas, other.Replicas, before, others)
	}
	for plan = w.cycle(); plan.Rollback == nil; plan = w.cycle() {
		if plan.Time.Sub(burns) > 5*time.Minute {
			t.Fatalf("not taken back: %+v", plan.Workloads[1].SLOs)
		}
	}
	t.Logf("taken back %v after the errors began: %s", plan.Time.Sub(burns), message(plan, planning.ReasonRolledBack))
	if after := plan.Time.Sub(burns); after > time.Minute {
		t.Errorf("taken back after %v", after)
	}
	if shop.Replicas != before || other.Replicas != others {
		t.Errorf("%d and %d replicas, were %d and %d", shop.Replicas, other.Replicas, before, others)
	}
	if got := w.lastPlan.Nodes.Pools[0].Nodes; got < nodes {
		t.Errorf("%d nodes, were %d", got, nodes)
	}
	wp := plan.Workloads[1]
	if wp.Binding != api.BindingRollback || !strings.Contains(wp.Reason, "taken back") {
		t.Errorf("%s: %s", wp.Binding, wp.Reason)
	}
	back := *plan.Rollback
	for w.now.Before(back.Until) {
		plan = w.cycle()
		if shop.Replicas < before || plan.Rollback == nil || message(plan, planning.ReasonRolledBack) == "" {
			t.Fatalf("%v after the rollback: %d replicas, %+v", w.now.Sub(back.At), shop.Replicas, plan.Rollback)
		}
	}
	if plan = w.cycle(); plan.Rollback != nil || !strings.Contains(message(plan, planning.ReasonRollbackEnded), "30m0s") {
		t.Errorf("it goes on after its time: %v", plan.Findings)
	}
	if w.until(w.now.Add(30 * time.Minute)); shop.Replicas >= before {
		t.Errorf("%d replicas half an hour after the end", shop.Replicas)
	}
}

// TestRollbackOfAMove: a switch of policy that moved the workload is taken back as well.
func TestRollbackOfAMove(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	moves := start.Add(20 * time.Minute)
	burns := moves.Add(time.Minute)
	shop := w.add("shop", 12, 20, 2*time.Hour, constant(1500))
	shop.objective(100, from(burns, 0.05))
	w.until(moves)
	before := shop.Replicas
	w.policy = performance()
	w.until(burns)
	if got := w.lastPlan.PoolsInUse(); !slices.Equal(got, []string{fast}) {
		t.Fatalf("planned on %v", got)
	}
	plan := w.until(burns.Add(time.Minute))
	if plan.Rollback == nil {
		t.Fatalf("not taken back: %+v", plan.Workloads[0].SLOs)
	}
	if got := plan.PoolsInUse(); !slices.Equal(got, []string{cheap}) || shop.Replicas < before {
		t.Errorf("%d replicas on %v, were %d on %s", shop.Replicas, got, before, cheap)
	}
	w.policy.Rollback.Ended = w.now.Add(24 * time.Hour)
	if plan = w.cycle(); plan.Rollback == nil {
		t.Error("a time of tomorrow ended it")
	}
	w.policy.Rollback.Ended = plan.Rollback.At.Add(time.Second)
	plan = w.until(w.now.Add(2 * time.Minute))
	if got := plan.PoolsInUse(); plan.Rollback != nil || !slices.Equal(got, []string{fast}) {
		t.Errorf("a person ended it: on %v, %+v", got, plan.Rollback)
	}
}

// TestNoRollback: what no plan can have caused, what nobody knows, and whose SLOs don't
// count, takes nothing back; nothing of the workload is given up either.
func TestNoRollback(t *testing.T) {
	falls := start.Add(20 * time.Minute)
	for name, c := range map[string]struct {
		rate    float64
		bad     func(time.Time) float64
		change  func(*api.SLO, time.Time)
		policy  func(*api.Policy)
		falls   time.Time
		keeps   bool // the replicas
		finding string
		says    string
	}{
		"nothing was given up": {
			rate: 100, bad: from(falls, 0.05), falls: falls.Add(24 * time.Hour), keeps: true,
			finding: planning.ReasonSLOBurning, says: "no plan is the cause",
		},
		"never proven": {
			rate: 100, bad: from(start, 0.05), falls: falls, keeps: true,
			finding: planning.ReasonSLOBurning, says: "no plan is known that kept it",
		},
		"thin": {
			rate: 0.05, bad: from(falls, 0.05), falls: falls, keeps: true,
			finding: planning.ReasonSLOInconclusive, says: "too few events to tell",
		},
		"missing": {
			rate: 100, bad: from(falls, 0), falls: falls, keeps: true,
			change: func(s *api.SLO, now time.Time) {
				if now.After(falls) {
					s.Missing = "the query gives no recent sample"
				}
			},
			finding: planning.ReasonSLOInconclusive, says: "the query gives no recent sample",
		},
		"old": {
			rate: 100, bad: from(falls, 0), falls: falls, keeps: true,
			change: func(s *api.SLO, now time.Time) {
				if now.After(falls) {
					s.At = falls
				}
			},
			finding: planning.ReasonSLOInconclusive, says: "old",
		},
		"a blip": {
			rate: 100, bad: func(now time.Time) float64 {
				if d := now.Sub(falls.Add(7 * time.Minute)); d > 0 && d <= 3*time.Second {
					return 1
				}
				return 0
			}, falls: falls,
		},
		"some bad ones": {rate: 100, bad: from(start, 0.0009), falls: falls},
		"another namespace's": {
			rate: 100, bad: from(falls.Add(7*time.Minute), 0.05), falls: falls,
			policy:  func(p *api.Policy) { p.Rollback.Namespaces = []string{"pay"} },
			finding: planning.ReasonSLOBurning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, costSaving(), nil)
			if c.policy != nil {
				c.policy(&w.policy)
			}
			shop := w.add("shop", 12, 20, 2*time.Hour, falling(c.falls, 500))
			shop.objective(c.rate, c.bad)
			if reading := shop.change; c.change != nil {
				shop.change = func(l *load, now time.Time) {
					reading(l, now)
					c.change(&l.SLOs[0], now)
				}
			}
			w.until(falls)
			before := shop.Replicas
			said, events := "", map[string]bool{}
			for w.now.Before(falls.Add(20 * time.Minute)) {
				plan := w.cycle()
				if plan.Rollback != nil {
					t.Fatalf("taken back after %v: %+v", plan.Time.Sub(falls), plan.Rollback)
				}
				said = max(said, message(plan, c.finding))
				for _, f := range plan.Findings {
					events[f.Message] = true
				}
			}
			if len(events) > 8 {
				t.Errorf("%d Events in 20 minutes: %v", len(events), slices.Sorted(maps.Keys(events)))
			}
			if kept := shop.Replicas == before; kept != c.keeps {
				t.Errorf("%d replicas, were %d", shop.Replicas, before)
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("said %q, not %q", said, c.says)
			}
		})
	}
}

// TestGuardKeeps: what is taken back is neither emptied nor limited below the floor, nor
// beyond what the author allows.
func TestGuardKeeps(t *testing.T) {
	for name, c := range map[string]struct {
		kept, floor, most int32
		activity          api.Activity
		want              int32
	}{
		"as it was":          {kept: 6, floor: 2, most: 10, want: 6},
		"the floor is more":  {kept: 6, floor: 8, most: 10, want: 8},
		"the author's most":  {kept: 6, floor: 2, most: 5, want: 5},
		"nothing asks of it": {kept: 1, most: 10, activity: api.Inactive, want: 1},
		"there was none":     {kept: 0, most: 10, activity: api.Inactive, want: 0},
	} {
		w := api.Workload{MaxReplicas: c.most, Cooldown: time.Minute}
		asked := planning.Proposal{Scale: api.Scale{Replicas: 2}, Floor: c.floor, Activity: c.activity, Path: []api.PathStep{{At: start}}}
		if c.activity == "" {
			w.MinReplicas = 1
		}
		r := planning.Guard{Config: planning.DefaultConfig()}.Range(planning.Subject{
			Time: start, Workload: w, Policy: api.Policy{ScaleToZero: true}, Proposal: asked, Speed: 1,
			Memory: planning.WorkloadMemory{IdleSince: start.Add(-time.Hour)}, Kept: &planning.KeptScale{Replicas: c.kept},
		})
		if r.Lo.Replicas != c.want || r.Hi.Replicas != c.want {
			t.Errorf("%s: %d to %d, want %d", name, r.Lo.Replicas, r.Hi.Replicas, c.want)
		}
	}
}

// TestRollbackSurvives: whoever leads next goes on with a rollback, not beyond its time.
func TestRollbackSurvives(t *testing.T) {
	back := &planning.RolledBack{Rollback: api.Rollback{At: start, Until: start.Add(time.Hour)}}
	for _, c := range []struct {
		kept, now time.Duration
		want      bool
	}{
		{time.Minute, 2 * time.Minute, true},
		{time.Minute, 30 * time.Minute, true},
		{time.Minute, 59 * time.Minute, true},
		{time.Minute, time.Hour, false},
		{time.Minute, 90 * time.Minute, false},
		{time.Minute, -time.Minute, false},
	} {
		m := planning.Memory{Rollback: back}
		if got := m.Resumed(start.Add(c.kept), start.Add(c.now)).Rollback != nil; got != c.want {
			t.Errorf("resumed after %v: %v", c.now, got)
		}
	}
}

// TestRollbackProperties: whatever demand and errors do, a workload whose SLO isn't
// known to be kept has nothing taken, and while the plan is taken back nobody has less
// than what was kept, nor more than its author allows.
func TestRollbackProperties(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			w := newWorld(t, costSaving(), nil)
			w.policy.Rollback.Hold = 20 * time.Minute
			steps := func(most float64, sometimes float64) func(time.Time) float64 {
				values := make([]float64, 64)
				for i := range values {
					if r.Float64() < sometimes {
						values[i] = most * r.Float64()
					}
				}
				return func(t time.Time) float64 {
					return values[(int(t.Sub(start)/(5*time.Minute))%64+64)%64]
				}
			}
			for i := range 3 {
				l := w.add(fmt.Sprintf("w%d", i), 4, 12, time.Hour, steps(2000, 1))
				if i < 2 {
					l.objective([]float64{0.1, 3, 100}[r.IntN(3)], steps(0.1, 0.2))
				}
			}
			rollbacks := 0
			var last *api.Rollback
			for range 4 * 60 * 3 {
				before := map[string]int32{}
				for _, l := range w.loads {
					before[l.Key.Name] = l.Replicas
				}
				plan := w.cycle()
				if plan.Rollback != nil && (last == nil || !last.At.Equal(plan.Rollback.At)) {
					rollbacks++
				}
				last = plan.Rollback
				for _, wp := range plan.Workloads {
					doubt := slices.ContainsFunc(wp.SLOs, func(s api.SLOPlan) bool { return s.Verdict != api.SLOGood })
					if wp.Replicas > 12 || wp.Replicas < 1 {
						t.Fatalf("%s has %d replicas", wp.Key, wp.Replicas)
					}
					if doubt && wp.Replicas < before[wp.Key.Name] {
						t.Fatalf("%s has %d replicas of %d: %s", wp.Key, wp.Replicas, before[wp.Key.Name], wp.Reason)
					}
					if back := w.memory.Rollback; back != nil {
						for _, k := range back.Scales {
							if k.Key == wp.Key && wp.Replicas < k.Replicas {
								t.Fatalf("%s has %d replicas, taken back to %d: %s", wp.Key, wp.Replicas, k.Replicas, wp.Reason)
							}
						}
					}
				}
			}
			t.Logf("%d rollbacks in 3 hours", rollbacks)
		})
	}
}

// TestRollbackByAnotherLeader: who leads next takes the plan back to no fewer replicas than who led
// before, though less of what ran was kept.
func TestRollbackByAnotherLeader(t *testing.T) {
	restored := func(another bool) int32 {
		w := newWorld(t, costSaving(), nil)
		falls := start.Add(20 * time.Minute)
		burns := falls.Add(10 * time.Minute)
		shop := w.add("shop", 20, 40, 2*time.Hour, falling(falls, 400))
		shop.Behavior.ScaleDown = api.ScalingRules{Policies: []api.ScalingPolicy{{Type: "Pods", Value: 1, Period: 15 * time.Second}}, WindowStated: true}
		shop.objective(100, from(burns, 0.05))
		w.until(falls)
		for before := shop.Replicas; w.now.Before(burns) && shop.Replicas > before-12; {
			w.cycle()
		}
		shop.objective(100, from(w.now, 0.05))
		if another {
			w.memory = w.memory.Kept().Restored().Resumed(w.now, w.now.Add(15*time.Second))
		}
		w.until(w.now.Add(2 * time.Minute))
		if w.lastPlan.Rollback == nil {
			t.Fatalf("not taken back: %d replicas", shop.Replicas)
		}
		return shop.Replicas
	}
	if before, after := restored(false), restored(true); after < before {
		t.Errorf("%d replicas, %d by who led before", after, before)
	}
}
