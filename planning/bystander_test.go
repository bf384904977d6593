package planning_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// bystanders are ManagedWorkloads that mash2 may not act on, each made of a
// workload that it does act on.
var bystanders = map[string]func(api.Workload) api.Workload{
	"a duplicate": func(w api.Workload) api.Workload {
		w.HoldReason, w.Hold = api.ReasonDuplicateTarget, "another one has the same target and is older"
		w.Demand = api.Series{}
		return w
	},
	"a duplicate in Shadow": func(w api.Workload) api.Workload {
		w.Mode = api.ModeShadow
		w.HoldReason, w.Hold = api.ReasonDuplicateTarget, "another one has the same target and is older"
		return w
	},
	"one in Shadow": func(w api.Workload) api.Workload {
		w.Mode, w.Target.Name = api.ModeShadow, w.Target.Name+"-shown"
		return w
	},
	"one in Off": func(w api.Workload) api.Workload {
		w.Mode, w.Target.Name = api.ModeOff, w.Target.Name+"-off"
		return w
	},
	"one without a target": func(w api.Workload) api.Workload {
		w.HoldReason, w.Hold, w.Shape, w.Target.Name = "TargetMissing", "it doesn't exist", nil, w.Target.Name+"-missing"
		return w
	},
	"one that is held": func(w api.Workload) api.Workload {
		w.HoldReason, w.Hold, w.Target.Name = api.ReasonConflict, "an HPA scales it as well", w.Target.Name+"-held"
		return w
	},
	"one with an unknown planner": func(w api.Workload) api.Workload {
		w.Planner, w.Target.Name = "magic", w.Target.Name+"-magic"
		return w
	},
}

// standBy adds bystanders to a snapshot: the objects, and none of their pods.
func standBy(s api.Snapshot, kind string, n int, least, replicas int32) api.Snapshot {
	s.Workloads = slices.Clone(s.Workloads)
	for i := range n {
		w := bystanders[kind](s.Workloads[0])
		w.Key.Name = fmt.Sprintf("zz-bystander-%d", i)
		w.MinReplicas, w.MaxReplicas = least, max(least, 1000)
		w.Replicas, w.PlannedReplicas = replicas, replicas
		s.Workloads = append(s.Workloads, w)
	}
	return s
}

func sizes(p api.Plan) []api.PoolPlan {
	out := slices.Clone(p.Nodes.Pools)
	for i := range out {
		out[i].Reason = ""
	}
	return out
}

// Objects that mash2 may not act on change nothing that is bought, whatever
// they say and however many there are.
func TestBystandersBuyNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policy := rapid.SampledFrom([]api.Policy{costSaving(), performance(), either(api.Weights{Performance: 0.5, Cost: 0.5})}).Draw(rt, "policy")
		empty := func() *world { return newWorld(t, policy, nil) }
		plain, crowded := empty(), empty()
		for i := range rapid.IntRange(1, 3).Draw(rt, "workloads") {
			replicas := rapid.Int32Range(1, 8).Draw(rt, "replicas")
			demand := rapid.Float64Range(20, 3000).Draw(rt, "demand")
			for _, w := range []*world{plain, crowded} {
				w.add(fmt.Sprintf("shop-%d", i), replicas, 20, 3*time.Minute, constant(demand))
			}
		}
		kind := rapid.SampledFrom([]string{
			"a duplicate", "a duplicate in Shadow", "one in Shadow", "one in Off", "one without a target",
			"one that is held", "one with an unknown planner",
		}).Draw(rt, "kind")
		n := rapid.IntRange(1, 6).Draw(rt, "n")
		least := rapid.Int32Range(0, 1000).Draw(rt, "minReplicas")
		replicas := rapid.Int32Range(0, 40).Draw(rt, "replicas of bystanders")
		plain.cycle()
		crowded.cycle()
		for range 3 {
			s := plain.snapshot()
			want, memory := plain.planner.Plan(s, policy, plain.memory)
			plain.memory = memory
			got, memory := crowded.planner.Plan(standBy(crowded.snapshot(), kind, n, least, replicas), policy, crowded.memory)
			crowded.memory = memory
			if diff := cmp.Diff(sizes(want), sizes(got)); diff != "" {
				rt.Fatalf("%d times %s: nodes without (-) and with them (+):\n%s", n, kind, diff)
			}
			if diff := cmp.Diff(want.Workloads, got.Workloads[:len(want.Workloads)]); diff != "" {
				rt.Fatalf("%d times %s: workloads without (-) and with them (+):\n%s", n, kind, diff)
			}
			for _, w := range got.Workloads[len(want.Workloads):] {
				if w.NodeReplicas != 0 && !w.Shadow {
					rt.Fatalf("%s asks for the nodes of %d pods that there aren't: %s", kind, w.NodeReplicas, w.Reason)
				}
			}
			plain.now, crowded.now = plain.now.Add(plain.period), crowded.now.Add(crowded.period)
		}
	})
}

// The pods of a workload that isn't acted on have their places all the same.
func TestBystandersKeepTheirPlaces(t *testing.T) {
	for kind, change := range bystanders {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, costSaving(), nil)
			w.add("shop", 2, 20, time.Minute, constant(100))
			other := w.add("other", 9, 20, time.Minute, constant(100))
			s := w.snapshot()
			at := slices.IndexFunc(s.Workloads, func(w api.Workload) bool { return w.Key == other.Key })
			s.Workloads[at] = change(s.Workloads[at])
			plan, _ := w.planner.Plan(s, w.policy, w.memory)
			// 9 pods of 250m and at least one of shop; a node has 740m for pods.
			if nodes := pool(t, plan, cheap).Nodes; nodes < 4 {
				t.Errorf("%d nodes for 10 pods, two a node", nodes)
			}
		})
	}
}
