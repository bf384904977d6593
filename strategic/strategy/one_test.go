package strategy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
)

// TestOneWorkload: a move of one workload restricts that one only, within the pools that are
// open for all, and what can't be done says why and restricts nothing.
func TestOneWorkload(t *testing.T) {
	spec := api.PolicySpec{Default: "A", Policies: map[string]api.Policy{
		"A": {Name: "A", NodePools: []string{"edge", "cloud", "gold"}}, "B": {Name: "B", NodePools: []string{"cloud"}},
	}}
	const web = "{move: {pools: [edge], workload: web}}"
	type world struct {
		s   *api.Snapshot
		web *api.Workload
	}
	pool := func(s *api.Snapshot, name string) *api.Pool {
		return &s.Pools[slices.IndexFunc(s.Pools, func(p api.Pool) bool { return p.Name == name })]
	}
	for name, c := range map[string]struct {
		actions string
		change  func(world)
		want    string // the policy's pools, those of web and of db
		told    string
	}{
		"one workload":                      {actions: web, want: "[edge cloud gold] [edge] []"},
		"each its own":                      {actions: web + ", {move: {pools: [gold, cloud], workload: db}}", want: "[edge cloud gold] [edge] [cloud gold]"},
		"within a move of all":              {actions: "{move: {pools: [cloud, edge]}}, " + web, want: "[edge cloud] [edge] []"},
		"whatever their order":              {actions: web + ", {move: {pools: [cloud, edge]}}", want: "[edge cloud] [edge] []"},
		"a move of all leaves none":         {actions: "{move: {pools: [cloud]}}, " + web, want: "[cloud] [] []", told: "shop/web on pools edge: none of them is open under policy A, which leaves cloud"},
		"a move of all leaves nothing else": {actions: "{move: {pools: [edge]}}, " + web, want: "[edge] [] []"},
		"a policy that allows none":         {actions: "{setPolicy: {policy: B}}, " + web, want: "[cloud] [] []", told: "none of them is open under policy B"},
		"every open pool":                   {actions: "{move: {pools: [cloud, edge, gold], workload: web}}", want: "[edge cloud gold] [] []"},
		"of nobody":                         {actions: "{move: {pools: [edge], workload: shop}}", want: "[edge cloud gold] [] []", told: "there is no such ManagedWorkload"},
		"two that contradict": {
			actions: web + ", {move: {pools: [cloud], workload: web}}", want: "[edge cloud gold] [edge] []", told: "comes before it and wants shop/web on pools edge",
		},
		"a cluster that can't place": {
			actions: web, change: func(w world) { w.s.Context.PlacesPods = false }, want: "[edge cloud gold] [] []", told: "it takes Kubernetes 1.36",
		},
		"one that can't, and needn't": {
			actions: "{move: {pools: [edge]}}, " + web, change: func(w world) { w.s.Context.PlacesPods = false }, want: "[edge] [] []",
		},
		"off":        {actions: web, change: func(w world) { w.web.Mode = api.ModeOff }, want: "[edge cloud gold] [] []", told: "its mode is Off"},
		"shown only": {actions: web, change: func(w world) { w.web.Mode = api.ModeShadow }, want: "[edge cloud gold] [] []", told: "its mode is Shadow"},
		"another one's target": {
			actions: web, change: func(w world) { w.web.HoldReason, w.web.Hold = api.ReasonDuplicateTarget, "shop/old has it" }, want: "[edge cloud gold] [] []", told: "shop/old has it",
		},
		"KEDA":          {actions: web, change: func(w world) { w.web.Actuator = api.ActuatorKEDA }, want: "[edge cloud gold] [] []", told: "KEDA scales it"},
		"a StatefulSet": {actions: web, change: func(w world) { w.web.Target.Kind = "StatefulSet" }, want: "[edge cloud gold] [] []", told: "its target is a StatefulSet"},
		"its selector": {
			actions: web, change: func(w world) { w.web.Shape.NodeSelector = map[string]string{"site": "cloud"} }, want: "[edge cloud gold] [] []", told: "keep its pods off pool edge",
		},
		"a selector that nodes there meet": {
			actions: web, want: "[edge cloud gold] [edge] []",
			change: func(w world) {
				w.web.Shape.NodeSelector = map[string]string{"site": "edge"}
				w.s.Nodes = append(w.s.Nodes, api.Node{Name: "e", Pool: "edge", Labels: map[string]string{"site": "edge"}})
			},
		},
		"taints": {
			actions: web, change: func(w world) { pool(w.s, "edge").Taints = []api.Taint{{Key: "edge", Effect: "NoSchedule"}} }, want: "[edge cloud gold] [] []", told: "keep its pods off pool edge",
		},
		"too large": {
			actions: web, change: func(w world) { w.web.Shape.Requests.MilliCPU = 9000 }, want: "[edge cloud gold] [] []", told: "more than an empty node of pool edge has",
		},
		"too large for one of them": {
			actions: "{move: {pools: [edge, gold], workload: web}}", want: "[edge cloud gold] [gold] []",
			change: func(w world) { pool(w.s, "edge").Allocatable.MilliCPU = 100 },
		},
		"a pool that is gone": {
			actions: web, change: func(w world) { pool(w.s, "edge").Name = "other" }, want: "[edge cloud gold] [] []", told: "there is no pool edge",
		},
		"a protected pod": {
			actions: web, want: "[edge cloud gold] [] []", told: "pod shop/web-1: safe-to-evict forbids moving it",
			change: func(w world) { w.s.Pods[0].DoNotDisrupt = "safe-to-evict" },
		},
		"volumes elsewhere": {
			actions: web, want: "[edge cloud gold] [] []", told: "volumes of pod shop/web-1 are in zone b",
			change: func(w world) { w.s.Pods[0].Zones = []string{"b"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := api.Snapshot{
				Time: begin, Context: api.Context{PlacesPods: true, Strategies: []api.Strategy{parse(t, "s", "rules: [{name: r, when: 'true', actions: ["+c.actions+"]}]")}},
				Pods:  []api.Pod{{Key: api.Key{Namespace: "shop", Name: "web-1"}, Workload: api.Key{Namespace: "shop", Name: "web"}, Node: "c"}},
				Nodes: []api.Node{{Name: "c", Pool: "cloud"}},
			}
			for _, p := range []string{"cloud", "edge", "gold"} {
				s.Pools = append(s.Pools, api.Pool{Name: p, Zones: []string{"a"}, Allocatable: api.Resources{MilliCPU: 2000, Memory: 8 << 30, Pods: 100}})
			}
			for _, key := range []api.Key{{Namespace: "other", Name: "web"}, {Namespace: "shop", Name: "db"}, {Namespace: "shop", Name: "web"}} {
				s.Workloads = append(s.Workloads, api.Workload{
					Key: key, Mode: api.ModeFull, Target: api.TargetRef{Kind: "Deployment"}, MaxReplicas: 9,
					Shape: &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}},
				})
			}
			if c.change != nil {
				c.change(world{&s, &s.Workloads[2]})
			}
			p, after, findings := Steer(spec, s, nil)
			got := fmt.Sprintf("%v %v %v", p.NodePools, after.Workloads[2].OnlyPools, after.Workloads[1].OnlyPools)
			notDone := ""
			for _, a := range p.StrategyActions {
				notDone += a.NotDone
			}
			if got != c.want || (c.told == "") != (len(findings) == 0 && notDone == "") || len(findings) > 0 && !strings.Contains(findings[0].Message, c.told) {
				t.Errorf("%s, told %v; want %s, told %q", got, findings, c.want, c.told)
			}
			if len(after.Workloads[0].OnlyPools) > 0 || len(s.Workloads[2].OnlyPools) > 0 {
				t.Error("another namespace's workload or its input was changed")
			}
		})
	}
}

// TestChooseForOne: a choice that names a workload moves that one.
func TestChooseForOne(t *testing.T) {
	s := example(t, func(text string) string { return strings.Replace(text, "choose:\n", "choose:\n    workload: web\n", 1) })
	for _, r := range Run([]api.Strategy{s}, latencies(1, 1, constant(0.4), constant(0.1))[:1], nil) {
		if len(r.Actions) != 1 || r.Actions[0].Workload != (api.Key{Namespace: s.Key.Namespace, Name: "web"}) || r.Actions[0].What() != "shop/web on pools edge-pool" {
			t.Errorf("%+v", r.Actions)
		}
	}
}

// TestMovesOfDifferentWorkloads don't contradict one another, nor a move of all; of one
// workload the larger priority wins.
func TestMovesOfDifferentWorkloads(t *testing.T) {
	of := func(name string, priority int, move string) api.Strategy {
		return parse(t, name, fmt.Sprintf("priority: %d\nrules: [{name: r, when: 'true', actions: [{move: {%s}}]}]", priority, move))
	}
	for name, c := range map[string]struct {
		strategies []api.Strategy
		done       string
		told       int
	}{
		"two workloads":          {[]api.Strategy{of("a", 0, "pools: [p], workload: web"), of("b", 0, "pools: [q], workload: db")}, "shop/web on pools p; shop/db on pools q; ", 0},
		"one and all":            {[]api.Strategy{of("a", 0, "pools: [p], workload: web"), of("b", 0, "pools: [q, p]")}, "shop/web on pools p; pools q, p; ", 0},
		"one workload, twice":    {[]api.Strategy{of("a", 0, "pools: [p], workload: web"), of("b", 1, "pools: [q], workload: web")}, "shop/web on pools q; ", 1},
		"one workload, the same": {[]api.Strategy{of("a", 0, "pools: [p], workload: web"), of("b", 1, "pools: [p], workload: web")}, "shop/web on pools p; ", 0},
	} {
		r := Run(c.strategies, steps(1, 0), nil)[0]
		done := ""
		for _, a := range r.Actions {
			if a.NotDone == "" {
				done += a.What() + "; "
			}
		}
		if done != c.done || len(r.Findings) != c.told {
			t.Errorf("%s: %s, told %q; want %s and %d", name, done, r.Findings, c.done, c.told)
		}
	}
}

// TestParseRefusesMoves: a workload that can't be is named by its path.
func TestParseRefusesMoves(t *testing.T) {
	long := strings.Repeat("w", 254)
	for name, c := range map[string]struct{ spec, want string }{
		"a move of no name":    {"rules: [{name: r, when: 'true', actions: [{move: {pools: [a], workload: " + long + "}}]}]", "spec.rules[0].actions[0].move.workload: must have at most 253"},
		"a move of a list":     {"rules: [{name: r, when: 'true', actions: [{move: {pools: [a], workload: [w]}}]}]", "workload: must be a string"},
		"a move without pools": {"rules: [{name: r, when: 'true', actions: [{move: {workload: w}}]}]", "spec.rules[0].actions[0].move.pools: is required"},
		"a choice of no name":  {"choose: {workload: " + long + ", candidates: [{name: a, pools: [p]}, {name: b, pools: [q]}], score: '1'}", "spec.choose.workload: must have at most 253"},
	} {
		if _, err := Parse([]byte(document("s", c.spec))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
