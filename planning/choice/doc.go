// Package choice finds the replicas and nodes that maximise a policy's utility under one
// assignment of workloads to pools (MAS-H², eq. 1 and 2).
//
// # The utility
//
//	U = w_perf·Performance − w_cost·Cost + w_res·Resilience
//
// with three terms without a unit, each about 0–1:
//
// Performance is the share of time in which requests are served in time, and how fast
// the machines are relative to the fastest managed pool. For workload i with expected
// demand dᵢ (reference millicores, mean over the window the decision is for), request
// rᵢ and Rᵢ replicas on a pool of speed s, the utilisation is ρᵢ = dᵢ/(rᵢ·s·Rᵢ), and
//
//	Performance = Σ aᵢ · (s/s_fastest) · (1 − ½·(ρᵢ/0.85)^θᵢ),   aᵢ = dᵢ/Σd
//
// From a utilisation of 0.85 on answers come late (Saturation). θ is the exponent of a
// Pareto distribution of what demand grows by until new replicas serve: it grows at all
// half of the time, and by more than the margin in a share of 1 − objective
// (planning.Margins). Until that is known, and for policies that state no objective, it is 1 − ρᵢ instead of the
// bracket: under processor sharing a request takes S/(1−ρ) on average, S being its time on
// an idle machine. Both rise with every replica, by less and less.
//
// Cost is money per hour relative to a reference. Nodes are what is paid; but
// when a node is there anyway, a replica on it is not free, for it takes room
// that something else will want. So half of it is the price of the planned
// nodes and half the pods' dominant share of them:
//
//	Cost = ½ · (nodes·price + Σ Rᵢ·shareᵢ·price) / reference
//
// The reference is the price, on the managed pool where it is highest, of
// running every workload at 50 % utilisation at its expected peak of the horizon
// with no fewer than its minimum of replicas, and of one node per zone at least.
// It depends on demand but not on the policy's weights or on the plan. With it
// the weights have a meaning of their own: where utility decides (and nothing
// binds) and growth is not known, a workload alone on a pool that is the fastest and
// dearest runs at a utilisation of √(w_cost / 2·w_perf) at its peak, however large that is.
//
// Resilience is the mean share of its capacity that a workload keeps when one
// replica, one node, one zone is lost, its replicas being spread over n nodes
// and z zones as evenly as they can be:
//
//	Resilience = Σ aᵢ · ⅓((1−1/Rᵢ) + (1−1/min(n,Rᵢ)) + (1−1/min(z,n,Rᵢ)))
//
// Without pools there are no nodes to plan; then Cost counts requested CPU
// alone and Resilience replicas alone.
//
// # The search
//
// For a linear node price and enough nodes U is a sum of concave functions of
// single Rᵢ, each with one maximum (with the zones' part of Resilience left out). From
// there the true node count enters, through the NodePlanner. When the feasible plans are
// few, all are looked at, except those that a bound rules out; else a local search goes on until no neighbour (one
// replica more or less, one workload's replica in exchange for another's, one
// round of nodes more) scores higher, or until its budget of packings is spent,
// which the plan then says.
package choice
