// Package sensing is the corridor's entrance: it turns a cluster, its
// Prometheus and its node-pool provider into one [api.Snapshot].
//
// Three kinds of sources meet here:
//
//   - shared informers over pods, nodes, controllers and ManagedWorkloads. What
//     a cycle doesn't need is dropped before it is stored: the caches hold small
//     records, not API objects, and all pods of a template share one shape;
//   - Prometheus, for the history of demand, by range queries over all
//     workloads at once: a short one per cycle for the newest steps, and slices
//     in the background, newest first, for what lies further back;
//   - metrics.k8s.io, the second opinion and the one left when Prometheus is
//     down.
//
// Nothing that a source does may bring a cycle down. A source that can't be
// reached, answers late, too much or nonsense shows in the Snapshot as a stale
// workload, a [api.SourceHealth] and a [api.Finding]; a gap is NaN, never zero.
// The one thing [Observer.Observe] refuses to do is to return a picture older
// than our own last writes: then it returns [ErrCacheBehind].
package sensing
