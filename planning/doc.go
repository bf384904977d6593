// Package planning chooses one plan per cycle for all managed workloads and
// their nodes together: the plan that maximises the policy's utility (MAS-H²,
// eq. 1 and 2) among all that are feasible.
//
// # The choice
//
// A candidate is an assignment of workloads to pools, replicas for every workload, and
// nodes. The assignments that are compared are all workloads on one of the allowed
// pools; what is said below of a pool holds for each of several. A candidate is
// feasible when every workload has what its WorkloadPlanner says it needs and
// what the Guard lets it have, when the NodePlanner places all pods, and when
// the policy's limits on nodes and money hold. Of these the plan is
//
//	argmax  U = w_perf·Performance − w_cost·Cost + w_res·Resilience
//
// Package planning/choice has the terms of U and the search.
//
// Workloads stay on the pool they are on unless another is better by a margin
// or the policy changed.
package planning
