package execution_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

// TestDivision: what is done to such a workload at the edges of what TestOnAndOffSpot has.
func TestDivision(t *testing.T) {
	limits := func(w spotWorld) {
		w.p.Disruption.MoveTimeout, w.p.Disruption.RetryAfter = 30*time.Minute, 30*time.Minute
	}
	unready := func(ago time.Duration, pods ...*api.Pod) {
		for _, p := range pods {
			p.Ready, p.Created = false, spotNow.Add(-ago)
		}
	}
	// home has all of web planned off spot machines, and another workload on these.
	home := func(w spotWorld, replicas int32) {
		w.wants(replicas, replicas)
		w.plan.Pools, w.plan.Prefers = w.plan.Pools[1:], ""
		w.others()
		w.web.PlacedOn = "steady"
	}
	for name, c := range map[string]struct {
		steady, spot int
		change       func(spotWorld)
		want, told   string
	}{
		"a StatefulSet off spot machines has no turns": {
			steady: 2, spot: 2, change: func(w spotWorld) {
				w.leaves(2, false)
				for _, p := range allPods(w.s) {
					p.ControllerKind = "StatefulSet"
				}
			},
			want: "evict shop/web-old-1 from old-1: its node is being drained",
		},
		"what is on spot machines to be left counts for nothing off them, and moves in the same step": {
			steady: 1, spot: 3, change: func(w spotWorld) { w.leaves(2, true); w.web.PlacedOn = "steady" }, want: "web 6→9", told: "TooManyOnSpot",
		},
		"pods made exactly ten minutes ago are not new": {
			steady: 2, spot: 7, change: func(w spotWorld) {
				w.wants(9, 3)
				w.web.Replicas, w.web.PlacedOn = 9, "steady"
				w.s.Pods[8].Created = spotNow.Add(-10 * time.Minute)
			},
			want: "web 9→10", told: "TooManyOnSpot",
		},
		"it rests when it has been tried for exactly half an hour": {
			steady: 1, spot: 5, change: func(w spotWorld) { w.web.PlacedOn, w.web.PlacedSince = "steady", spotNow.Add(-30*time.Minute) },
		},
		"but not where new pods have preferred the other pool for so long": {
			steady: 1, spot: 5, change: func(w spotWorld) { w.web.PlacedSince = spotNow.Add(-40 * time.Minute) }, told: "MigrationWaitsForPods",
		},
		"one that went elsewhere before new pods preferred the pool tells nothing": {
			steady: 1, spot: 6, change: func(w spotWorld) {
				w.web.PlacedOn, w.web.PlacedSince, w.web.Replicas = "steady", spotNow.Add(-30*time.Second), 7
				w.s.Pods[6].Created = spotNow.Add(-time.Minute)
			},
			want: "cost of spot-6", told: "TooManyOnSpot",
		},
		"nor one that did so five minutes ago": {
			steady: 1, spot: 5, change: func(w spotWorld) {
				w.web.PlacedOn = "steady"
				w.s.Pods[5].Created = spotNow.Add(-5 * time.Minute)
			},
			want: "web 6→7", told: "TooManyOnSpot",
		},
		"of too many on spot machines all go in one step": {
			steady: 1, spot: 7, change: func(w spotWorld) { w.web.PlacedOn = "steady" }, want: "cost of spot-1, cost of spot-2", told: "TooManyOnSpot",
		},
		"and go when they are marked": {
			steady: 3, spot: 7, change: func(w spotWorld) {
				w.wants(8, 4)
				w.web.PlacedOn, w.p.Spot.Floor = "steady", 1
				mark(allPods(w.s)[3:5]...)
			},
			want: "web 10→8", told: "TooManyOnSpot",
		},
		"one off spot machines that has been starting for exactly the time of a move may still": {
			steady: 1, spot: 3, change: func(w spotWorld) {
				limits(w)
				w.wants(4, 1)
				w.p.Spot.Floor = 1
				unready(30*time.Minute, allPods(w.s)[0])
				w.astray(1)
			},
			told: "ShrinkWaitsForPods",
		},
		"and one that goes bears its cost until it is gone": {
			steady: 2, spot: 4, change: func(w spotWorld) { w.wants(5, 2); mark(allPods(w.s)[5]) }, want: "web 6→5",
		},

		"so does one on a node that is emptied": {
			steady: 2, spot: 4, change: func(w spotWorld) {
				w.p.Spot.Floor = 1
				node := w.s.Nodes[1]
				node.Name, node.Cordoned, node.CordonedFor, node.CordonedAt = "spot-2", true, api.CordonShrink, spotNow
				w.s.Nodes, w.s.Pools[0].Sizes[0], w.all.Nodes.Pools[0].Surplus = append(w.s.Nodes, node), 2, []string{"spot-2"}
				w.web.Replicas++
				mark(w.pods("spot-2", 1)...)
			},
			want: "web 7→6",
		},
		"and one on a node that has to be left and bears no cordon yet": {
			steady: 2, spot: 3, change: func(w spotWorld) {
				w.p.Spot.Floor = 1
				w.leave("ReplicaSet", false)
				w.wants(4, 3)
				mark(&w.s.Pods[5])
			},
			want: "cordon old-1 for migration: workloads move from pool old to spot + steady, web 6→4",
		},
		"one of a workload that is none any more does not": {
			steady: 2, spot: 4, change: func(w spotWorld) {
				gone := w.pods("spot-1", 1)[0]
				gone.Workload.Name = "gone"
				mark(gone)
			},
			want: "no cost of spot-6",
		},

		// A workload off spot machines, with pods astray.
		"while it is not moved, as many of those astray as are too many go": {
			steady: 4, change: func(w spotWorld) { home(w, 4); w.astray(2); w.web.PlacedSince = spotNow.Add(-40 * time.Minute) },
			want: "cost of other-4, cost of other-5", told: "MoveRefused",
		},
		"when they are marked": {
			steady: 4, change: func(w spotWorld) {
				home(w, 4)
				mark(w.astray(2)...)
				w.web.PlacedSince = spotNow.Add(-40 * time.Minute)
			},
			want: "web 6→4", told: "MoveRefused",
		},
		"those that are not Ready first": {
			steady: 4, change: func(w spotWorld) {
				home(w, 5)
				unready(time.Minute, allPods(w.s)[0])
				w.astray(2)
				w.web.PlacedSince = spotNow.Add(-40 * time.Minute)
			},
			want: "cost of steady-0", told: "MoveRefused",
		},
		"those that bear their cost before other ones that are not": {
			steady: 4, change: func(w spotWorld) {
				home(w, 5)
				unready(time.Minute, allPods(w.s)[:2]...)
				mark(allPods(w.s)[1])
				w.astray(2)
				w.web.PlacedSince = spotNow.Add(-40 * time.Minute)
			},
			want: "web 6→5", told: "MoveRefused",
		},
		"and none that the floor needs, whose cost is taken back": {
			steady: 3, change: func(w spotWorld) {
				home(w, 2)
				unready(time.Minute, allPods(w.s)...)
				mark(w.astray(2)...)
				w.web.PlacedSince = spotNow.Add(-40 * time.Minute)
			},
			want: "cost of steady-0, cost of steady-1, cost of steady-2, no cost of other-3, no cost of other-4", told: "MoveRefused",
		},
		"of more than the floor needs the others": {
			steady: 3, change: func(w spotWorld) {
				home(w, 2)
				unready(time.Minute, allPods(w.s)...)
				w.astray(4)
				w.web.PlacedSince = spotNow.Add(-40 * time.Minute)
			},
			want: "cost of other-3, cost of other-4, cost of steady-0, cost of steady-1, cost of steady-2", told: "MoveRefused",
		},
		"what is as wanted stays": {
			steady: 4, change: func(w spotWorld) { home(w, 6); w.astray(2); w.web.PlacedSince = spotNow.Add(-40 * time.Minute) }, told: "MoveRefused",
		},

		// The floor.
		"as many may go as leave the floor": {
			steady: 6, change: func(w spotWorld) { home(w, 2) }, want: "web 6→2",
		},
		"where fewer than the floor are there, none of them goes": {
			steady: 3, change: func(w spotWorld) { home(w, 2); unready(time.Minute, allPods(w.s)[1:]...) },
			want: "cost of steady-1", told: "ShrinkWaitsForPods",
		},
		"a pod that is going counts for nothing": {
			steady: 4, change: func(w spotWorld) {
				home(w, 3)
				w.s.Pods[0].Terminating = true
				w.web.Replicas = 4
			},
			want: "web 4→3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSpotWorld(c.steady, c.spot)
			c.change(w)
			checkSpot(t, w, c.want, c.told)
		})
	}
}

// TestGuardsOfSpot: what is done without each of the guards of such workloads, and not with it.
func TestGuardsOfSpot(t *testing.T) {
	for guard, c := range map[string]struct {
		steady, spot int
		change       func(spotWorld)
		without      string
	}{
		"floor": {steady: 3, change: func(w spotWorld) {
			w.wants(2, 2)
			w.plan.Pools, w.plan.Prefers = w.plan.Pools[1:], ""
			w.others()
			w.s.Pods[1].Ready, w.s.Pods[2].Ready = false, false
		}, without: "scale"},
		"pending":  {steady: 2, spot: 5, change: func(w spotWorld) { w.wants(7, 2); mark(allPods(w.s)[2]); w.web.Replicas = 6 }, without: "clear"},
		"replaced": {steady: 1, spot: 3, change: func(w spotWorld) { w.wants(4, 2); w.astray(1) }, without: "other-4"},
	} {
		t.Run(guard, func(t *testing.T) {
			w := newSpotWorld(c.steady, c.spot)
			c.change(w)
			with, _ := execution.Sequence(*w.s, *w.all, *w.p)
			without, _ := execution.Without(t, guard, *w.s, *w.all, *w.p)
			if does := fmt.Sprint(without); !strings.Contains(does, c.without) || strings.Contains(fmt.Sprint(with), c.without) {
				t.Errorf("with it %v, without it %v", with, without)
			}
		})
	}
}
