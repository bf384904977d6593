package execution_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

// TestGather: what is done to a workload that is to be on another pool than the others, by
// what is seen.
func TestGather(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	web, db := api.Key{Namespace: "shop", Name: "web"}, api.Key{Namespace: "shop", Name: "db"}
	shape := &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 500, Memory: 1 << 20, Pods: 1}}
	type world struct {
		s    *api.Snapshot
		web  *api.Workload
		plan *api.Plan
		p    *api.Policy
		pod  func(name, node string) *api.Pod
		// protect keeps all pods of web from being moved.
		protect func()
		// wants is how many replicas of web are planned.
		wants func(int32)
	}
	for name, c := range map[string]struct {
		change func(world)
		want   string // actions
		told   string
	}{
		"new pods are made beside those that stay": {want: "web 2→4"},
		"not before new pods are seen to prefer the pool": {
			change: func(w world) { w.web.PlacedOn = "" }, told: "MigrationWaitsForPods",
		},
		"nor before admission can have seen it": {
			change: func(w world) { w.web.PlacedSince = now.Add(-3 * time.Second) }, told: "MigrationWaitsForPods",
		},
		"nor while they prefer another one": {change: func(w world) { w.web.PlacedOn = "cloud" }, told: "MigrationWaitsForPods"},
		"nor without room there": {
			change: func(w world) { w.s.Nodes[1].Ready = false }, told: "MigrationWaitsForNodes",
		},
		"as many as there is room for": {
			change: func(w world) { w.s.Nodes[1].Allocatable.MilliCPU = 600 }, want: "web 2→3",
		},
		"nor outside maintenance windows": {
			change: func(w world) { w.p.Disruption.Closed = "until tomorrow" }, told: "MoveRefused",
		},
		"nor during a rollout":    {change: func(w world) { w.web.RollingOut = true }, told: "MigrationWaitsForRollout"},
		"nor after half an hour":  {change: func(w world) { w.web.PlacedSince = now.Add(-40 * time.Minute) }, told: "MoveRefused"},
		"but again after an hour": {change: func(w world) { w.web.PlacedSince = now.Add(-65 * time.Minute) }, want: "web 2→4"},
		"not while a new pod has just gone elsewhere": {
			change: func(w world) { w.s.Pods[0].Created = now.Add(-time.Minute) }, told: "MigrationWaitsForPods",
		},
		"one made before admission saw it tells nothing": {
			change: func(w world) {
				w.web.PlacedSince, w.s.Pods[0].Created = now.Add(-time.Minute), now.Add(-57*time.Second)
			}, want: "web 2→4",
		},
		"those that a move has brought are waited for": {
			change: func(w world) {
				w.web.Replicas = 4
				waits := w.pod("web-3", "edge-1")
				waits.Ready, waits.Created = false, now.Add(-time.Minute)
				w.pod("web-4", "edge-1")
			},
			told: "MigrationWaitsForPods",
		},
		"then the others are marked": {
			change: func(w world) { w.web.Replicas = 4; w.pod("web-3", "edge-1"); w.pod("web-4", "edge-1") },
			want:   "cost of web-1, cost of web-2",
		},
		"and go": {
			change: func(w world) {
				w.web.Replicas = 4
				w.pod("web-3", "edge-1")
				w.pod("web-4", "edge-1")
				for i := range w.s.Pods[:2] {
					w.s.Pods[i].DeletionCost, w.s.Pods[i].DeletionCostOurs = -1000, true
				}
			},
			want: "web 4→2",
		},
		"what was made in vain goes": {
			change: func(w world) {
				w.web.Replicas, w.web.PlacedSince = 4, now.Add(-40*time.Minute)
				w.pod("web-3", "edge-1").Ready = false
				w.pod("web-4", "edge-1").Ready = false
				for i := range w.s.Pods[:2] {
					w.s.Pods[i].DeletionCost, w.s.Pods[i].DeletionCostOurs = -1000, true
				}
			},
			want: "web 4→2", told: "MoveRefused",
		},
		"growth waits for room there": {
			change: func(w world) {
				w.s.Nodes[1].Ready, w.web.Replicas, w.plan.Workloads[1].Floor = false, 1, 1
				w.s.Pods[1].Workload = api.Key{}
			},
			told: "MigrationWaitsForNodes",
		},
		"but not while it rests": {
			change: func(w world) {
				w.s.Nodes[1].Ready, w.web.Replicas, w.plan.Workloads[1].Floor = false, 1, 1
				w.s.Pods[1].Workload, w.web.PlacedSince = api.Key{}, now.Add(-40*time.Minute)
			},
			want: "web 1→2", told: "MoveRefused",
		},
		"protected pods stay, and it is said": {
			change: func(w world) {
				for i := range w.s.Pods[:2] {
					w.s.Pods[i].DoNotDisrupt = "safe-to-evict"
				}
			},
			told: "MoveRefused",
		},
		"three of them by name": {
			change: func(w world) { w.pod("web-3", "cloud-1"); w.protect() }, told: "web-3 (safe-to-evict forbids eviction)\n",
		},
		"of more than that how many": {
			change: func(w world) { w.pod("web-3", "cloud-1"); w.pod("web-4", "cloud-1"); w.protect() }, told: "and 1 more\n",
		},
		"who is in Shadow is left alone": {change: func(w world) { w.web.Mode, w.plan.Workloads[1].Shadow = api.ModeShadow, true }},
		"all on one pool are none astray": {
			change: func(w world) { w.plan.Workloads[1].Pools[0].Pool = "cloud" },
			want:   "cordon edge-1 for migration: workloads move from pool edge to cloud",
		},
		"those on a pool that is left go first": {
			change: func(w world) {
				w.s.Pools = append(w.s.Pools, api.Pool{Name: "old", Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: w.s.Pools[0].Allocatable})
				w.s.Nodes = append(w.s.Nodes, api.Node{
					Name: "old-1", Pool: "old", Zone: "a", Ready: true, Cordoned: true, CordonedFor: api.CordonMigration,
					CordonedAt: now.Add(-time.Minute), Allocatable: w.s.Pools[0].Allocatable,
				})
				w.plan.Nodes.Pools = append(w.plan.Nodes.Pools, api.PoolPlan{Pool: "old"})
				w.p.ManagedPools = append(w.p.ManagedPools, "old")
				w.s.Pods[1].Node, w.web.PlacedOn = "old-1", ""
			},
			want: "web 2→3",
		},
		"what waits for new pods to prefer the pool grows": {
			change: func(w world) { w.web.PlacedOn = ""; w.wants(3) }, want: "web 2→3", told: "MigrationWaitsForPods",
		},
		"and shrinks": {change: func(w world) { w.web.PlacedOn = ""; w.wants(1) }, want: "web 2→1", told: "MigrationWaitsForPods"},
		"what waits for admission grows": {
			change: func(w world) { w.web.PlacedSince = now.Add(-3 * time.Second); w.wants(3) }, want: "web 2→3", told: "MigrationWaitsForPods",
		},
		"and shrinks, too": {
			change: func(w world) { w.web.PlacedSince = now.Add(-3 * time.Second); w.wants(1) }, want: "web 2→1", told: "MigrationWaitsForPods",
		},
		"what waits for a rollout grows": {
			change: func(w world) { w.web.RollingOut = true; w.wants(3) }, want: "web 2→3", told: "MigrationWaitsForRollout",
		},
		"what waits for a window grows": {
			change: func(w world) { w.p.Disruption.Closed = "until tomorrow"; w.wants(3) }, want: "web 2→3", told: "MoveRefused",
		},
		"what waits since a new pod went elsewhere grows": {
			change: func(w world) { w.s.Pods[0].Created = now.Add(-time.Minute); w.wants(3) }, want: "web 2→3", told: "MigrationWaitsForPods",
		},
		"a move that has begun ends outside windows": {
			change: func(w world) {
				w.p.Disruption.Closed, w.web.Replicas = "until tomorrow", 4
				w.pod("web-3", "edge-1")
				w.pod("web-4", "edge-1")
			},
			want: "cost of web-1, cost of web-2",
		},
		"nothing else is done to the rest": {change: func(w world) { w.s.Nodes[0].Cordoned = true }, want: "web 2→4"},
	} {
		t.Run(name, func(t *testing.T) {
			s := api.Snapshot{Time: now}
			for i, pool := range []string{"cloud", "edge"} {
				s.Pools = append(s.Pools, api.Pool{Name: pool, Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: api.Resources{MilliCPU: 4000, Memory: 1 << 30, Pods: 50}})
				s.Nodes = append(s.Nodes, api.Node{Name: pool + "-1", Pool: pool, Zone: "a", Ready: true, Allocatable: s.Pools[i].Allocatable})
			}
			for _, key := range []api.Key{db, web} {
				s.Workloads = append(s.Workloads, api.Workload{Key: key, Mode: api.ModeFull, Target: api.TargetRef{Kind: "Deployment", Name: key.Name}, MinReplicas: 1, MaxReplicas: 20, Replicas: 2, Shape: shape})
			}
			s.Workloads[0].PlacedOn, s.Workloads[0].PlacedSince = "cloud", now.Add(-10*time.Minute)
			s.Workloads[1].PlacedOn, s.Workloads[1].PlacedSince = "edge", now.Add(-10*time.Minute)
			pod := func(of api.Key) func(name, node string) *api.Pod {
				return func(name, node string) *api.Pod {
					s.Pods = append(s.Pods, api.Pod{
						Key: api.Key{Namespace: "shop", Name: name}, UID: name, Workload: of, Node: node, Phase: "Running", Ready: true, Shape: shape,
						ControllerKind: "ReplicaSet", ControllerName: of.Name, Created: now.Add(-time.Hour),
					})
					return &s.Pods[len(s.Pods)-1]
				}
			}
			for _, n := range []string{"web-1", "web-2"} {
				pod(web)(n, "cloud-1")
			}
			for _, n := range []string{"db-1", "db-2"} {
				pod(db)(n, "cloud-1")
			}
			plan := api.Plan{Time: now, Nodes: api.NodePlan{Pools: []api.PoolPlan{{Pool: "cloud", SizePerZone: 1, Nodes: 1}, {Pool: "edge", SizePerZone: 1, Nodes: 1}}}}
			for i, key := range []api.Key{db, web} {
				plan.Workloads = append(plan.Workloads, api.WorkloadPlan{Key: key, Scale: api.Scale{Replicas: 2}, NodeReplicas: 2, Floor: 1, Pools: on([]string{"cloud", "edge"}[i], 2)})
			}
			p := api.Policy{NodePools: []string{"cloud", "edge"}, ManagedPools: []string{"cloud", "edge"}}
			if c.change != nil {
				c.change(world{&s, &s.Workloads[1], &plan, &p, pod(web), func() {
					for i := range s.Pods {
						if s.Pods[i].Workload == web {
							s.Pods[i].DoNotDisrupt = "safe-to-evict"
						}
					}
				}, func(n int32) {
					plan.Workloads[1].Replicas, plan.Workloads[1].NodeReplicas, plan.Workloads[1].Pools = n, n, on("edge", n)
				}})
			}
			actions, findings := execution.Sequence(s, plan, p)
			var got []string
			for _, a := range actions {
				switch a := a.(type) {
				case api.ScaleWorkload:
					got = append(got, fmt.Sprintf("%s %d→%d", a.Workload.Name, a.From, a.To))
				case api.SetDeletionCost:
					got = append(got, "cost of "+a.Pod.Name)
				default:
					got = append(got, a.String())
				}
			}
			told := ""
			for _, f := range findings {
				told += f.Reason + " " + f.Message + "\n"
			}
			if text := strings.Join(got, ", "); text != c.want || !strings.Contains(told, c.told) || c.told == "" && told != "" {
				t.Errorf("%q, told %v; want %q, %q", text, findings, c.want, c.told)
			}
		})
	}
}
