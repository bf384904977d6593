// Package mash2 is a hierarchical multi-agent autoscaler for Kubernetes: it
// takes a business intent, forecasts demand, plans pods and nodes together and
// carries the plan out safely.
//
// One cycle is a straight corridor that data walks once:
//
//	Observer ─Snapshot─▶ strategic.Decide ─Policy─▶ Hierarchy.Plan ─Plan─▶ execution.Sequence ─[]Action─▶ Actuator
//	 (I/O)                  (pure)                (pure; Memory in, out)      (pure)                  (I/O)
//	                                └──────── Cycle: the whole walk as one record ────────┘
//
// The rooms along it are the packages api (the language), sensing, strategic,
// forecast, planning and execution; Loop in this package walks the corridor.
// The architecture follows MAS-H² (Hamzeh et al.): a Strategic Agent, Workload
// and Node Planning Agents, Horizontal and Node Scaling Agents in one process
// with a strict order.
package mash2
