// Package strategy decides what users' own strategies want: sensors, rules and choices in
// CEL, actions. It is pure: readings and the state of the last cycle go in, actions with
// reasons and the next state come out, the same each time.
//
// What learns names a policy in each round and hears what the round earned (see
// strategic/bandit). It learns of the policy that was in force, and counts what its own
// choice may have lost, whether or not anything could be learned of the round.
//
// A strategy acts within what a person allowed: it chooses among defined policies and among
// the pools of the policy in force, narrows the bounds of workloads in its own namespace,
// and asks for replicas within them. A person's choice comes before it, and the Guard after.
package strategy
