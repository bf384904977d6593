// Package vertical plans the fast loop: once a second or so, one agent per pod proposes
// how much CPU its pod should have, and the CPU of all of them stays within one shared
// budget.
//
// The state, the actions and the threshold rule are those of MARLISE (Prodanov et al.
// 2025, arXiv 2507.07671; sensorlab/agent-edgeautoscaling). What differs from its
// published code:
//
//   - Priorities arbitrate. What agents ask for is shared by weighted max-min fairness,
//     instead of first come, first served. See [Share].
//   - A budget that is cut is taken back at once. There it only refused increases.
//   - Proposals pass the same bounds whoever made them: floor, ceiling, largest step,
//     shortest time between two writes of a pod, and the budget.
//
// Memory follows by a rule, within a budget of its own: see [WorkingSets].
//
// [Memory.Tick] and [WorkingSets.Decide] are pure functions of an [Input] and what they know
// of the ones before: no clock, no I/O. They propose; the loop in operator/agents carries it
// out.
package vertical
