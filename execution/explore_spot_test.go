package execution

import (
	"testing"
	"time"
)

// checkSplit explores and returns the first counterexample.
func checkSplit(r splitRules) (*graph, string) {
	g, wrong := explore(r)
	if wrong != "" {
		return g, wrong
	}
	for _, l := range []struct {
		life
		enough rest
	}{
		{life{"everything comes in the end", always | boots | ready0 | ready1}, resting},
		{life{"nothing gets Ready on spot machines", always | boots | ready0}, settled},
		{life{"nothing gets Ready off spot machines", always | boots | ready1}, settled},
	} {
		if wrong := g.stuck(l.classes, l.enough); wrong != "" {
			return g, l.name + ":\n" + wrong
		}
	}
	return g, ""
}

// What the planner may want of two replicas, and of three.
var (
	onlyBase   = wish{replicas: 2, off: 2}
	spotBeside = wish{replicas: 2, off: 1, spot: true}
	otherBase  = wish{base: 1, replicas: 2, off: 1, spot: true}
	ofThree    = wish{replicas: 3, off: 1, spot: true}
	otherThree = wish{base: 1, replicas: 3, off: 1, spot: true}
)

// splitExploration is a world with spot machines; all is true for one that only `make explore`
// goes through.
type splitExploration struct {
	name string
	splitRules
	all bool
}

// TestExploreSpot goes through every state that a workload with replicas on and off spot
// machines can come to, by moves to another pool, machines that are taken away, planners that
// want something else, and operators that die between any two actions. No pod is deleted by
// which fewer than are wanted are Ready, or fewer than the floor off spot machines once so many
// were; no Ready pod dies with its node unless that is taken away; and from everywhere a way
// leads to where the planner wants them.
func TestExploreSpot(t *testing.T) {
	exploreSpot(t, []splitExploration{
		{"a planner that wants other replicas, or all off spot machines", splitRules{
			begin: spotBeside, wishes: []wish{spotBeside, {replicas: 1, off: 1, spot: true}, {replicas: 2, off: 2, spot: true}}, nodes: 1, turns: true,
		}, false},
		{"from spot machines", splitRules{begin: spotBeside, wishes: []wish{onlyBase}, nodes: 1}, false},
		{"to another pool where another workload stays", splitRules{begin: spotBeside, wishes: []wish{otherBase}, nodes: 2, mixed: true, wayward: true}, false},
		{"to another pool where another workload stays, and an event within a sequence", splitRules{begin: spotBeside, wishes: []wish{otherBase}, nodes: 2, mixed: true, stale: 1, prompt: true}, false},
	})
}

// TestExploreSpotFurther does so in worlds of more states.
func TestExploreSpotFurther(t *testing.T) {
	exploreSpot(t, []splitExploration{
		{"on and off spot machines, from wherever pods are", splitRules{begin: ofThree, wishes: []wish{ofThree}, nodes: 2, anywhere: true, wayward: true}, false},
		{"and an event within a sequence", splitRules{begin: ofThree, wishes: []wish{ofThree}, nodes: 2, anywhere: true, stale: 1, prompt: true}, false},
		{"to another pool and spot machines", splitRules{begin: onlyBase, wishes: []wish{otherBase}, nodes: 1, calm: true}, false},
		{"to another pool and spot machines, of which some are taken away", splitRules{begin: onlyBase, wishes: []wish{otherBase}, nodes: 1}, true},
		{"from spot machines and back at any time", splitRules{begin: spotBeside, wishes: []wish{onlyBase, spotBeside}, nodes: 1, turns: true}, false},
		{"to another pool where another workload stays, and back at any time", splitRules{begin: spotBeside, wishes: []wish{otherBase, spotBeside}, nodes: 1, mixed: true, turns: true}, false},
		{"three pods to another pool where another workload stays", splitRules{begin: ofThree, wishes: []wish{otherThree}, nodes: 2, mixed: true}, true},
	})
}

func exploreSpot(t *testing.T, worlds []splitExploration) {
	for _, e := range worlds {
		if e.all && !*exploreAll {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			e.guards, e.floor = everyGuard, 1
			began := time.Now()
			g, wrong := checkSplit(e.splitRules)
			t.Logf("%d states, %d moves, %.1f s; what is scaled down waits in %d states, moves are refused in %d",
				g.states.len(), len(g.to), time.Since(began).Seconds(), g.happened["ShrinkWaitsForPods"], g.happened["MoveRefused"])
			if wrong != "" {
				t.Error(wrong)
			}
			if g.happened["ShrinkWaitsForPods"] == 0 {
				t.Error("nothing is ever held up")
			}
		})
	}
}
