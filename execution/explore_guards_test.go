package execution

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestEveryGuardIsNeeded takes the guards away one by one: each time there is a
// way to break a promise, in a world in which all of them together keep it, as
// TestExplore has it. The ways are kept in testdata to be read; run with -update
// to record them again.
func TestEveryGuardIsNeeded(t *testing.T) {
	const file = "testdata/counterexamples.md"
	var out strings.Builder
	out.WriteString("What goes wrong without each guard of a move, as the exploration finds it: the shortest way there, with two pods of each workload (or one, and two of nobody's) on two nodes of each pool. Where pods may begin in every arrangement, the one that it begins with comes first. The last three are of a workload on and off spot machines, of two or three pods.\n")
	for _, c := range []struct {
		name  string
		guard guards
		rules
		split *splitRules // the world with spot machines instead
	}{
		{"a pod whose budget can never allow it is not moved, and nothing is cordoned for it", guardBudgets, rules{forbidden: true}, nil},
		{"no eviction is asked for that a budget doesn't allow now", guardAllowed, rules{lags: true}, nil},
		{"nothing is cordoned before the Ready nodes of the target hold all that must move", guardRoom, rules{}, nil},
		{"nothing is cordoned before all that is to be uncordoned is", guardUncordoned, rules{}, nil},
		{"nothing surges while its new pods could land on a node being left", guardShut, rules{}, nil},
		{"a surge asks for twice the wanted pods at most", guardTwice, rules{turns: true}, nil},
		{"old pods stay until as many as wanted are Ready elsewhere", guardReady, rules{}, nil},
		{"a surge ends only when all pods that are to go are seen to bear their cost", guardMarked, rules{}, nil},
		{"a node is removed only when nothing is on it", guardEmpty, rules{surplus: true, anywhere: true}, nil},
		{"a pool is resized down only when all of its nodes are empty", guardAllEmpty, rules{}, nil},
		{"a pool of which the provider picks the nodes is resized down only when all that it may pick are empty", guardPicked, rules{surplus: true, anywhere: true, denies: true}, nil},
		{"what can't surge loses a pod only while all others are Ready", guardOneByOne, rules{loose: true}, nil},
		{"of nobody's pods one goes only while the others of its controller are Ready", guardSettled, rules{pods: 1, dns: 2, loose: true}, nil},
		{"the nodes of the old pool are kept until every workload has left it", guardTogether, rules{}, nil},
		{"cordons that nothing calls for any more are taken back", guardRelease, rules{}, nil},
		{"deletion costs of pods that stay are taken back", guardCosts, rules{}, nil},
		{"a node that is being deleted is no room and not uncordoned", guardDying, rules{lingers: true}, nil},
		{"a node that is being deleted is cordoned, and nothing surges before", guardStray, rules{lingers: true}, nil},
		{"a surplus node is cordoned only when the others can hold what is on it", guardShrinkRoom, rules{surplus: true, anywhere: true, kubectl: true}, nil},
		{"a move that takes too long is given up", guardOverdue, rules{}, nil},
		{"a move that was given up is not tried again at once", guardGaveUp, rules{}, nil},
		{"emptying a surplus node is given up when it takes too long", guardEmptying, rules{surplus: true, anywhere: true}, nil},
		{"emptying a surplus node that was given up is not tried again at once", guardKept, rules{surplus: true, anywhere: true}, nil},
		{"nothing is taken away while pods are not proven to be as they are seen", guardProven, rules{stalls: true}, nil},
		{"a node goes only when the API server has nothing on it", guardVacant, rules{stalls: true}, nil},
		{"a Ready pod is evicted only while the API server has the others Ready", guardLook, rules{stalls: true, loose: true}, nil},
		{"nothing is scaled down by which fewer Ready pods than the floor could be left off spot machines", guardFloor, rules{}, &splitRules{begin: spotBeside, wishes: []wish{onlyBase}}},
		{"costs stay as they are while a ReplicaSet has still to delete pods", guardPending, rules{}, &splitRules{begin: ofThree, wishes: []wish{ofThree}, anywhere: true}},
		{"pods off spot machines that have to move go as others are made off them", guardReplaced, rules{}, &splitRules{begin: spotBeside, wishes: []wish{otherBase}, mixed: true, wayward: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pods, c.nodes, c.guards = cmp.Or(c.pods, 2), 2, everyGuard&^c.guard
			explored := func() (*graph, string) { return check(c.rules) }
			if c.split != nil {
				c.split.nodes, c.split.floor, c.split.guards = 2, 1, c.guards
				explored = func() (*graph, string) { return checkSplit(*c.split) }
			}
			found, wrong := explored()
			if wrong == "" {
				t.Fatalf("in %d states nothing goes wrong without it", found.states.len())
			}
			fmt.Fprintf(&out, "\n## Without: %s\n\nFound after %d states.\n\n```\n%s\n```\n", c.name, found.states.len(), strings.TrimSpace(wrong))
		})
	}
	if t.Failed() {
		return
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(recorded), out.String()); diff != "" {
		t.Errorf("counterexamples (-recorded +found):\n%s", diff)
	}
}
