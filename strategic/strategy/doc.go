// Package strategy decides what users' own strategies want: sensors, rules and choices in
// CEL, actions. It is pure: readings and the state of the last cycle go in, actions with
// reasons and the next state come out, the same each time.
//
// A strategy acts within what a person allowed: it chooses among defined policies and among
// the pools of the policy in force, narrows the bounds of workloads in its own namespace,
// and asks for replicas within them. A person's choice comes before it, and the Guard after.
package strategy
