// Package demand is what mash2 understands by the demand of a workload: how raw
// samples of CPU usage become an [api.Series], and whether the newest part of it can
// be acted on.
//
// Samples of pods lie on a [Grid] and are folded into sums of their workload
// ([Folding]): pods without a sample are taken to be like the others while these are
// at least half, usage at a CPU limit is a lower bound, what no pod could burn is
// a gap, and what pods take to start is no demand ([Readings] are the same of a second source). A [History] keeps the sums and hands them out. A [Judge] says whether they
// are fresh and plausible. [StartupLatencies] are the times that new pods and nodes take.
//
// It is pure: time comes in as a value. Package sensing and the simulator both use it,
// so that simulations run on the rules of the product. Usage is in millicores;
// reference millicores are those times the speed of the node's cores.
package demand
