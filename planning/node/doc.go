// Package node plans nodes: how many of which pool hold all pods (MAS-H²'s
// Node Planning Agent, eq. 4).
//
// # Packing
//
// A Problem states items (identical pods, counted) and types (identical nodes);
// a Solver turns it into a Packing. FFD is first fit decreasing over shapes; ILP
// is the paper's assignment problem, in builds with the tag lpsolve.
//
// # From pods to pools
//
// The Planner looks at every pod, by pool:
//
//   - A managed workload counts with its planned replicas: NodeReplicas for the
//     size, Replicas for what is needed now. A plan in shadow counts with the
//     replicas it has.
//   - Every other pod on a node of a managed pool counts as it is, and so does a
//     pending pod that a managed pool could take.
//   - DaemonSet and static pods are no items: they take from each node.
//   - Pods on nodes of pools that mash2 does not manage are left out, and so are
//     pending pods that only such nodes accept.
//
// A pod belongs to the pools that the policy names, if one of them accepts it
// and an empty node of it is large enough; else to the other managed pools, if
// one of those does. Pods that belong to the policy's pools but run in another
// managed pool are to move. Pods that must not be moved (bare pods, pods that
// an annotation or local storage holds) stay, and so does their node.
//
// A pod whose volumes are in some zones belongs to those zones of its pools: the
// zone grows for it when it is full, and its node is given up only for room in the
// same zones. A zone that can't grow leaves the pod Unplaced, and the plan says so.
//
// # Size
//
// Packing from scratch tells what would be possible, not what is: pods do not
// move by themselves. So the size is found from the placement as it is.
//
// Growing: new pods, pods to be moved and pending pods go into the free space of
// the pool's nodes, and what is left over is packed onto new nodes by the
// solver. Pods beyond the planned replicas are taken to leave from the emptiest
// nodes.
//
// Shrinking: the size per zone goes down by one when each zone that has too many
// nodes can give one up, whose pods fit into the free space of the Ready nodes
// that remain. Nodes already cordoned to be removed come first, then those with
// the fewest pods. Nodes given up are the plan's Surplus. A node with a pod that
// must not be moved is never given up.
//
// A pool has the same number of nodes in each of its zones: what is needed is
// rounded up to that. A node that someone else has cordoned counts in its pool's
// size with its pods on it, and offers no room; so does a node that has not
// become Ready in twice the time its pool's nodes need, except that its pods
// are taken to need another place. Where more than three of a pool's nodes and more
// than 45 % of them have not, others would not either: pods keep their places there, and
// the plan tells of the nodes as Unready.
package node
