package execution_test

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestOnAndOffSpot: what is done to a workload of which two replicas of six are to be off
// spot machines, by what is seen.
func TestOnAndOffSpot(t *testing.T) {
	for name, c := range map[string]struct {
		steady, spot int // pods
		change       func(spotWorld)
		want, told   string
	}{
		"as planned":                      {steady: 2, spot: 4},
		"more off spot machines are fine": {steady: 4, spot: 2},
		"while a pool is left, it is left as without spot machines, when its nodes are cordoned": {
			steady: 2, spot: 3, change: func(w spotWorld) { w.leave("ReplicaSet", false); w.wants(4, 2) },
			want: "cordon old-1 for migration: workloads move from pool old to spot + steady, cost of web-old",
		},
		"by one eviction after the other of what can't surge": {
			steady: 2, spot: 3, change: func(w spotWorld) { w.leave("StatefulSet", true) }, want: "evict shop/web-old from old-1: its node is being drained",
		},
		"of those on nodes to be left as many are made off spot machines as are missing there": {
			steady: 0, spot: 2, change: func(w spotWorld) { w.leaves(4, false); w.web.PlacedOn = "steady" }, want: "web 6→8",
		},
		"then the rest of those to be left on spot machines": {
			steady: 2, spot: 2, change: func(w spotWorld) { w.leaves(2, false) }, want: "web 6→8",
		},
		"not while new pods prefer a pool where enough are": {
			steady: 2, spot: 2, change: func(w spotWorld) { w.leaves(2, false); w.web.PlacedOn = "steady" }, told: "MigrationWaitsForPods",
		},
		"nor while some have no node": {
			steady: 1, spot: 2, change: func(w spotWorld) {
				w.leaves(3, false)
				w.web.PlacedOn = "steady"
				waits := w.pods("", 1)[0]
				waits.Ready, waits.Created = false, spotNow.Add(-time.Minute)
			},
			told: "MigrationWaitsForPods",
		},
		"but it grows meanwhile": {
			steady: 2, spot: 2, change: func(w spotWorld) { w.leaves(2, false); w.web.PlacedOn = "steady"; w.wants(9, 2) },
			want: "web 6→9", told: "MigrationWaitsForPods",
		},
		"and while the scheduler finds none": {
			steady: 1, spot: 2, change: func(w spotWorld) {
				w.leaves(3, false)
				w.web.PlacedOn = "steady"
				waits := w.pods("", 1)[0]
				waits.Ready, waits.Unschedulable, waits.Created = false, true, spotNow.Add(-time.Minute)
				w.wants(9, 2)
			},
			want: "web 6→9", told: "the scheduler finds no node for 1 of its pods",
		},
		"and while some have no node": {
			steady: 1, spot: 2, change: func(w spotWorld) {
				w.leaves(3, false)
				w.web.PlacedOn = "steady"
				waits := w.pods("", 1)[0]
				waits.Ready, waits.Created = false, spotNow.Add(-time.Minute)
				w.wants(9, 2)
			},
			want: "web 6→9", told: "MigrationWaitsForPods",
		},
		"as many go as others were made for": {
			steady: 2, spot: 2, change: func(w spotWorld) { w.leaves(4, false) }, want: "cost of web-old, cost of web-old-1",
		},
		"when they are marked": {
			steady: 2, spot: 2, change: func(w spotWorld) { mark(w.leaves(4, false)[:2]...) }, want: "web 8→6",
		},
		"one whose turn it is not loses its mark": {
			steady: 2, spot: 2, change: func(w spotWorld) { mark(w.leaves(4, false)[:3]...) }, want: "no cost of web-old-2",
		},
		"those off spot machines count for the floor until others are there": {
			steady: 0, spot: 4, change: func(w spotWorld) { mark(w.leaves(4, false)[:2]...) }, want: "web 8→6",
		},
		"but not one fewer": {
			steady: 0, spot: 4, change: func(w spotWorld) { mark(w.leaves(3, false)[:1]...); w.wants(5, 2) }, want: "cost of spot-0",
		},
		"growth": {
			steady: 2, spot: 4, change: func(w spotWorld) { w.wants(9, 3) }, want: "web 6→9",
		},
		"of fewer the surplus on spot machines is marked": {
			steady: 2, spot: 4, change: func(w spotWorld) { w.wants(4, 2) }, want: "cost of spot-2, cost of spot-3",
		},
		"and goes": {
			steady: 2, spot: 4, change: func(w spotWorld) { w.wants(4, 2); mark(allPods(w.s)[2:4]...) }, want: "web 6→4",
		},
		"not while others are not Ready, which would go first": {
			steady: 2, spot: 4, change: func(w spotWorld) {
				w.wants(4, 2)
				mark(allPods(w.s)[2:4]...)
				w.s.Pods[0].Ready, w.s.Pods[0].Created = false, spotNow.Add(-time.Minute)
			},
			told: "ShrinkWaitsForPods",
		},
		"where too many are off spot machines these go": {
			steady: 4, spot: 2, change: func(w spotWorld) { w.wants(4, 2) }, want: "cost of steady-0, cost of steady-1",
		},
		"of both": {
			steady: 4, spot: 4, change: func(w spotWorld) { w.web.Replicas = 8; w.wants(4, 2) },
			want: "cost of spot-4, cost of spot-5, cost of steady-0, cost of steady-1",
		},
		"the floor is missing: new pods first have to prefer the other pool": {
			steady: 1, spot: 5, told: "MigrationWaitsForPods",
		},
		"then one is made there": {
			steady: 1, spot: 5, change: func(w spotWorld) { w.web.PlacedOn = "steady" }, want: "web 6→7", told: "TooManyOnSpot",
		},
		"no other one while it starts": {
			steady: 1, spot: 5, change: func(w spotWorld) {
				w.web.PlacedOn, w.web.Replicas = "steady", 7
				waits := w.pods("", 1)[0]
				waits.Ready, waits.Created = false, spotNow.Add(-time.Minute)
			},
			told: "ShrinkWaitsForPods",
		},
		"when it is Ready one on a spot machine goes": {
			steady: 2, spot: 5, change: func(w spotWorld) { w.web.PlacedOn, w.web.Replicas = "steady", 7 }, want: "cost of spot-2",
		},
		"one that went elsewhere keeps others from being made": {
			steady: 1, spot: 6, change: func(w spotWorld) {
				w.web.PlacedOn, w.web.Replicas = "steady", 7
				w.s.Pods[6].Created = spotNow.Add(-time.Minute)
			},
			told: "MigrationWaitsForPods",
		},
		"and after half an hour it rests": {
			steady: 1, spot: 5, change: func(w spotWorld) { w.web.PlacedOn, w.web.PlacedSince = "steady", spotNow.Add(-40*time.Minute) },
		},
		"a share that is exceeded by new pods waits": {
			steady: 2, spot: 7, change: func(w spotWorld) {
				w.web.Replicas, w.web.PlacedOn = 9, "steady"
				w.wants(9, 3)
				w.s.Pods[8].Created = spotNow.Add(-6 * time.Minute)
			},
		},
		"and then is made up for": {
			steady: 2, spot: 7, change: func(w spotWorld) {
				w.web.Replicas, w.web.PlacedOn = 9, "steady"
				w.wants(9, 3)
			},
			want: "web 9→10", told: "TooManyOnSpot",
		},
		"where all are to be off spot machines the ones on these go first": {
			steady: 2, spot: 1, change: func(w spotWorld) {
				w.wants(2, 2)
				w.plan.Pools = w.plan.Pools[1:]
				w.others()
			},
			want: "cost of spot-2",
		},
		"and are replaced before": {
			steady: 1, spot: 1, change: func(w spotWorld) {
				w.wants(2, 2)
				w.plan.Pools, w.web.PlacedOn = w.plan.Pools[1:], "steady"
				w.others()
			},
			want: "web 2→3", told: "TooManyOnSpot",
		},
		"what is off spot machines stays until others are, and what is too much on them goes": {
			steady: 2, spot: 6, change: func(w spotWorld) {
				// One of two nodes off spot machines is being emptied, and what was made for its
				// pods went to spot machines, as it did for half an hour.
				w.s.Nodes = append(w.s.Nodes, w.s.Nodes[0])
				w.s.Nodes[0].Cordoned, w.s.Nodes[0].CordonedFor, w.s.Nodes[0].CordonedAt = true, api.CordonShrink, spotNow
				w.s.Nodes[2].Name, w.s.Pools[1].Sizes[0], w.all.Nodes.Pools[1].Surplus = "steady-2", 2, []string{"steady-1"}
				w.web.PlacedOn, w.web.PlacedSince = "steady", spotNow.Add(-40*time.Minute)
				mark(allPods(w.s)[:2]...)
			},
			want: "cost of spot-2, cost of spot-3, no cost of steady-0, no cost of steady-1",
		},
		"a rollout grows": {
			steady: 1, spot: 5, change: func(w spotWorld) { w.web.RollingOut, w.web.PlacedOn = true, "steady"; w.wants(9, 2) }, want: "web 6→9",
		},
		"a rollout is left alone": {
			steady: 1, spot: 5, change: func(w spotWorld) { w.web.RollingOut, w.web.PlacedOn = true, "steady"; w.wants(5, 2) },
		},
		"a policy without bounds has no part in it": {
			steady: 1, spot: 5, change: func(w spotWorld) { w.p.Spot = nil },
		},
		"what is astray on a pool of others is made where too few are": {
			steady: 1, spot: 4, change: func(w spotWorld) { w.astray(1); w.web.PlacedOn = "steady" }, want: "web 6→7",
		},
		"and no more of it than are too few": {
			steady: 1, spot: 2, change: func(w spotWorld) { w.astray(3); w.web.PlacedOn = "steady" }, want: "web 6→7",
		},
		"the others on spot machines": {
			steady: 2, spot: 2, change: func(w spotWorld) { w.astray(2) }, want: "web 6→8",
		},
		"not while new pods would go where enough are": {
			steady: 2, spot: 3, change: func(w spotWorld) { w.astray(1); w.web.PlacedOn = "steady" },
		},
		"nor before admission sees it": {
			steady: 2, spot: 3, change: func(w spotWorld) { w.astray(1); w.web.PlacedSince = spotNow.Add(-3 * time.Second) },
		},
		"nor when it has been tried for half an hour": {
			steady: 2, spot: 3, change: func(w spotWorld) { w.astray(1); w.web.PlacedSince = spotNow.Add(-40 * time.Minute) }, told: "MoveRefused",
		},
		"nor outside maintenance windows": {
			steady: 2, spot: 3, change: func(w spotWorld) { w.astray(1); w.p.Disruption.Closed = "until tomorrow" },
		},
		"nor while a new one has just gone astray": {
			steady: 2, spot: 3, change: func(w spotWorld) { w.astray(1)[0].Created = spotNow.Add(-time.Minute) }, told: "MigrationWaitsForPods",
		},
		"the one made for it is waited for": {
			steady: 1, spot: 4, change: func(w spotWorld) {
				w.astray(1)
				waits := w.pods("steady-1", 1)[0]
				waits.Ready, waits.Created = false, spotNow.Add(-time.Minute)
				w.web.Replicas = 7
			},
			told: "ShrinkWaitsForPods",
		},
		"then it is marked": {
			steady: 2, spot: 4, change: func(w spotWorld) { w.astray(1) }, want: "cost of other-6",
		},
		"and keeps its mark, and goes, before the next one is made": {
			steady: 2, spot: 3, change: func(w spotWorld) { mark(w.astray(2)[0]); w.web.Replicas = 7 }, want: "web 7→6",
		},
		"of fewer what is astray goes first": {
			steady: 2, spot: 4, change: func(w spotWorld) { w.astray(2) }, want: "cost of other-6, cost of other-7",
		},
		"and of that what is on spot machines, however old": {
			steady: 0, spot: 2, change: func(w spotWorld) {
				for _, p := range w.astray(3) {
					p.Created = spotNow.Add(-30 * time.Minute)
				}
				room := w.s.Pools[0].Allocatable
				w.s.Pools = append(w.s.Pools, api.Pool{Name: "otherspot", Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: room, Spot: true})
				w.s.Nodes = append(w.s.Nodes, api.Node{Name: "otherspot-1", Pool: "otherspot", Zone: "a", Ready: true, Allocatable: room})
				w.all.Nodes.Pools = append(w.all.Nodes.Pools, api.PoolPlan{Pool: "otherspot", SizePerZone: 1, Nodes: 1})
				w.all.Workloads = append(w.all.Workloads, api.WorkloadPlan{Key: api.Key{Namespace: "shop", Name: "zoo"}, Pools: []api.PoolShare{{Pool: "otherspot", Replicas: 1}}})
				w.p.NodePools, w.p.ManagedPools = append(w.p.NodePools, "otherspot"), append(w.p.ManagedPools, "otherspot")
				w.web.Replicas += 3
				w.pods("otherspot-1", 3)
			},
			want: "cost of otherspot-5, cost of otherspot-6",
		},
		"also while it is not moved": {
			steady: 2, spot: 4, change: func(w spotWorld) { w.astray(1); w.web.PlacedOn = "" }, want: "cost of other-6",
		},
		"of those off spot machines none before others are there": {
			steady: 0, spot: 4, change: func(w spotWorld) {
				w.wants(5, 2)
				mark(w.astray(3)[:2]...)
				w.web.PlacedOn = ""
			},
			want: "cost of spot-0, no cost of other-5",
		},
		"one of those astray that is not to go any more loses its mark": {
			steady: 0, spot: 4, change: func(w spotWorld) {
				mark(w.astray(3)...)
				w.web.PlacedOn = ""
			},
			want: "no cost of other-5, no cost of other-6",
		},
		"of fewer one without a node goes first": {
			steady: 2, spot: 4, change: func(w spotWorld) { w.pods("", 1)[0].Ready = false; w.web.Replicas = 7 }, want: "cost of -6",
		},
		"not one that is to be off spot machines": {
			steady: 1, spot: 5, change: func(w spotWorld) {
				waits := w.pods("", 1)[0]
				waits.Ready, waits.Created = false, spotNow.Add(-time.Minute)
				w.web.Replicas, w.web.PlacedOn = 7, "steady"
			},
			told: "ShrinkWaitsForPods",
		},
		"then one that has not become Ready in the time of a move, off spot machines too": {
			steady: 3, spot: 4, change: func(w spotWorld) { w.s.Pods[2].Ready = false }, want: "cost of steady-2",
		},
		"but not one that served until a moment ago": {
			steady: 2, spot: 5, change: func(w spotWorld) {
				w.s.Pods[1].Ready, w.s.Pods[1].UnreadySince = false, spotNow.Add(-10*time.Second)
			},
			told: "ShrinkWaitsForPods",
		},
		"before one astray that nothing is there for": {
			steady: 1, spot: 3, change: func(w spotWorld) {
				w.wants(4, 1)
				w.s.Pods[0].Ready, w.p.Spot.Floor = false, 1
				w.astray(1)
			},
			want: "cost of steady-0",
		},
		"while a ReplicaSet has still to delete one, its cost stays": {
			steady: 2, spot: 5, change: func(w spotWorld) { mark(allPods(w.s)[2:3]...); w.web.Replicas = 6 },
		},
		"and no other one is marked": {
			steady: 2, spot: 5, change: func(w spotWorld) { mark(allPods(w.s)[2:3]...); w.web.Replicas = 6; w.wants(5, 2) },
		},
		"where all are to be off spot machines, others than these are marked when the floor could be taken": {
			steady: 4, spot: 0, change: func(w spotWorld) {
				w.wants(2, 2)
				w.plan.Pools, w.plan.Prefers = w.plan.Pools[1:], ""
				w.others()
				for _, p := range allPods(w.s)[2:] {
					p.Ready, p.Created = false, spotNow.Add(-time.Minute)
				}
			},
			want: "cost of steady-2, cost of steady-3", told: "ShrinkWaitsForPods",
		},
		"and go when they are": {
			steady: 4, spot: 0, change: func(w spotWorld) {
				w.wants(2, 2)
				w.plan.Pools, w.plan.Prefers = w.plan.Pools[1:], ""
				w.others()
				for _, p := range allPods(w.s)[2:] {
					p.Ready, p.Created = false, spotNow.Add(-time.Minute)
				}
				mark(allPods(w.s)[2:]...)
			},
			want: "web 4→2",
		},
		"one of a StatefulSet goes as it does": {
			steady: 4, spot: 0, change: func(w spotWorld) {
				w.wants(3, 3)
				w.plan.Pools, w.plan.Prefers = w.plan.Pools[1:], ""
				w.others()
				for _, p := range allPods(w.s) {
					p.ControllerKind = "StatefulSet"
				}
			},
			want: "web 4→3",
		},
		"a pod that may not be moved stays astray": {
			steady: 2, spot: 3, change: func(w spotWorld) { w.astray(1)[0].DoNotDisrupt = "mash2.io/do-not-disrupt" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSpotWorld(c.steady, c.spot)
			if c.change != nil {
				c.change(w)
			}
			checkSpot(t, w, c.want, c.told)
		})
	}
}
