package execution

import (
	"testing"

	"github.com/mash2-io/mash2/api"
)

// guardNames are the guards as scenes name them.
var guardNames = map[string]guards{
	"budgets": guardBudgets, "room": guardRoom, "shut": guardShut, "ready": guardReady, "marked": guardMarked, "empty": guardEmpty,
	"all-empty": guardAllEmpty, "one-by-one": guardOneByOne, "together": guardTogether, "release": guardRelease, "costs": guardCosts,
	"dying": guardDying, "allowed": guardAllowed, "settled": guardSettled, "picked": guardPicked, "shrink-room": guardShrinkRoom,
	"uncordoned": guardUncordoned, "stray": guardStray, "twice": guardTwice, "emptying": guardEmptying, "kept": guardKept, "proven": guardProven,
	"floor": guardFloor, "pending": guardPending, "replaced": guardReplaced,
}

// Without is Sequence without one of its guards.
func Without(t *testing.T, guard string, s api.Snapshot, p api.Plan, policy api.Policy) ([]api.Action, []api.Finding) {
	t.Helper()
	g, ok := guardNames[guard]
	if !ok {
		t.Fatalf("there is no guard %q", guard)
	}
	return sequence(s, p, policy, everyGuard&^g)
}
