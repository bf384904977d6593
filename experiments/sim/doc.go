// Package sim is a cluster in virtual time: a deterministic discrete-event
// simulation that stands where Kubernetes, Prometheus and GKE stand for the
// operator's loop. The very same Loop, planners and Sequence run in it, through
// the same two ports; the stock HPA's rules and Cluster Autoscaler's run in it
// as well.
//
// What happens to requests is the model of package queueing, the one that the
// experiments on a real control plane use, or its fluid counterpart in this
// package. Around it are, with their delays: Deployments and the ReplicaSet
// controller's order of removal, the scheduler's fit and scoring, pods that
// start, become Ready and terminate, node pools with zones, boots and quotas,
// scrapes, rate windows, metrics-server's windows, and the API's latency.
// [Params] names each figure with its source.
//
// Times are durations since the start of the simulation; the wall clock plays
// no part. The same options give the same bytes.
package sim
