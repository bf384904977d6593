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

// both is to be on pool 0 and on spot machines.
var both = wish{replicas: 3, off: 1, spot: true}

var splitExplorations = []struct {
	name string
	splitRules
	all bool
}{
	{"on and off spot machines, from wherever pods are", splitRules{
		wishes: []wish{both}, begin: both, nodes: 2, anywhere: true, wayward: true,
	}, false},
	{"and an event within a sequence", splitRules{
		wishes: []wish{both}, begin: both, nodes: 2, anywhere: true, stale: 1, prompt: true,
	}, false},
	{"a planner that wants other replicas, or all off spot machines", splitRules{
		wishes: []wish{{replicas: 2, off: 1, spot: true}, {replicas: 1, off: 1, spot: true}, {replicas: 2, off: 2, spot: true}}, begin: wish{replicas: 2, off: 1, spot: true}, nodes: 1, turns: true,
	}, false},
	{"from a pool to another one and spot machines", splitRules{
		wishes: []wish{{base: 1, replicas: 2, off: 1, spot: true}}, begin: wish{replicas: 2, off: 2}, nodes: 1,
	}, false},
	{"and back at any time", splitRules{
		wishes: []wish{{base: 1, replicas: 2, off: 1, spot: true}, {replicas: 2, off: 2}}, begin: wish{replicas: 2, off: 2}, nodes: 1, turns: true,
	}, false},
	{"from spot machines and a pool to another pool and these spot machines", splitRules{
		wishes: []wish{{base: 1, replicas: 2, off: 1, spot: true}}, begin: wish{replicas: 2, off: 1, spot: true}, nodes: 1,
	}, false},
	{"from spot machines and a pool to the pool alone", splitRules{
		wishes: []wish{{replicas: 2, off: 2}}, begin: wish{replicas: 2, off: 1, spot: true}, nodes: 1,
	}, false},
	{"on a pool and spot machines where another workload is on the other pool", splitRules{
		wishes: []wish{{base: 1, replicas: 2, off: 1, spot: true}}, begin: wish{replicas: 2, off: 1, spot: true}, nodes: 2, mixed: true,
	}, false},
}

// TestExploreSpot goes through every state that a workload with replicas on and off spot
// machines can come to.
func TestExploreSpot(t *testing.T) {
	for _, e := range splitExplorations {
		if e.all && !*exploreAll {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			e.guards, e.floor = everyGuard, 1
			began := time.Now()
			g, wrong := checkSplit(e.splitRules)
			t.Logf("%d states, %d moves, %.1f s; %v", g.states.len(), len(g.to), time.Since(began).Seconds(), g.happened)
			if wrong != "" {
				t.Error(wrong)
			}
		})
	}
}
