package execution

// guards are the conditions that keep a sequence from doing harm, by name. All
// of them hold but in the exploration, which takes them away one by one and has
// to find what each of them is for.
type guards uint32

const (
	// guardBudgets: a pod whose disruption budget can never allow it is not moved,
	// and nothing is cordoned that would have to move it.
	guardBudgets guards = 1 << iota
	// guardRoom: nothing is cordoned before the Ready nodes of the target can hold
	// all that has to move.
	guardRoom
	// guardShut: nothing surges while its new pods could land on a node being left.
	guardShut
	// guardReady: the old pods of a workload stay until as many as wanted are Ready
	// elsewhere.
	guardReady
	// guardMarked: a surge ends only when all pods that are to go are seen to bear
	// their cost.
	guardMarked
	// guardEmpty: a node is removed only when nothing is on it.
	guardEmpty
	// guardAllEmpty: a pool is resized down only when all of its nodes are empty.
	guardAllEmpty
	// guardOneByOne: a workload that can't surge loses a pod only while all others
	// are Ready.
	guardOneByOne
	// guardTogether: the nodes of a pool being left are kept until every workload
	// has left it, so that there is a way back.
	guardTogether
	// guardRelease: cordons that nothing calls for any more are taken back.
	guardRelease
	// guardCosts: deletion costs of pods that stay are taken back.
	guardCosts
	// guardDying: a node that is being deleted is no room and not uncordoned.
	guardDying
	// guardOverdue: a move that takes too long is given up.
	guardOverdue
	// guardGaveUp: a move that was given up is not tried again at once.
	guardGaveUp
	// guardAllowed: no eviction is asked for that a budget doesn't allow now.
	guardAllowed
	// guardSettled: of the pods of nobody's workload one goes only while the others
	// of its controller are Ready.
	guardSettled
	// guardPicked: a pool of which the provider picks the nodes is resized down only
	// when all that it may pick are empty.
	guardPicked
	// guardShrinkRoom: a surplus node is cordoned only when the others can hold what
	// is on it, and as long as they can.
	guardShrinkRoom
	// guardUncordoned: nothing is cordoned before all that is to be uncordoned is.
	guardUncordoned
	// guardStray: a node that is being deleted is cordoned, and nothing surges before.
	guardStray
	// guardTwice: a surge asks for twice the wanted pods at most.
	guardTwice
	// guardEmptying: emptying a surplus node is given up when it takes too long.
	guardEmptying
	// guardKept: a surplus node of which that was given up is not tried again at once.
	guardKept
	// guardFloor: nothing is scaled down by which fewer Ready pods than the policy's floor
	// could be left off spot machines.
	guardFloor
	// guardPending: deletion costs stay as they are while a ReplicaSet has still to delete
	// pods.
	guardPending
	// guardReplaced: pods off spot machines that have to move go only as others are made off
	// them.
	guardReplaced

	// guardProven: nothing is taken away while pods, nodes or budgets are not proven to
	// be as they are seen.
	guardProven
	// guardVacant: before a node goes, the API server is asked whether it is empty still.
	// The actuator does that, not Sequence; and so it does
	// guardLook: before a Ready pod is evicted, whether the others of its controller are.
	guardVacant
	guardLook

	everyGuard = guardLook<<1 - 1
)

// holds reports whether a guard is in force.
func (g guards) holds(one guards) bool { return g&one != 0 }
