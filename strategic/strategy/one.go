package strategy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// onePools are the pools that a move of one workload leaves open for it, of those that the
// policy and a move of all leave open, in the policy's order; why is not empty if it can't
// be done, and says so. What can't be done to its end is not begun: its pods would be in
// two places, or in the wrong one.
func onePools(s api.Snapshot, p api.Policy, w *api.Workload, pools []string) (open []string, why string) {
	for _, name := range p.NodePools {
		if slices.Contains(pools, name) {
			open = append(open, name)
		}
	}
	switch {
	case len(open) == 0:
		return nil, fmt.Sprintf("none of them is open under policy %s, which leaves %s", p.Name, listed(p.NodePools))
	case len(open) == len(p.NodePools):
		return open, "" // all that are open: it is no more restricted than the others
	case !s.Context.PlacesPods:
		return nil, "new pods can't be sent to a pool of their workload's here: it takes Kubernetes 1.36 and the chart's value strategies.placement"
	case w.Mode != api.ModeFull:
		// What is only shown, or may be, opens no pool: nodes would be bought for nobody.
		return nil, fmt.Sprintf("its mode is %s, not Full", w.Mode)
	case w.HoldReason == api.ReasonDuplicateTarget:
		return nil, w.Hold
	case w.Actuator == api.ActuatorKEDA:
		return nil, "KEDA scales it, and a move takes more replicas for a while"
	case w.Target.Kind != "Deployment":
		return nil, fmt.Sprintf("its target is a %s: only the pods of a Deployment can be made on one pool before they end on another", w.Target.Kind)
	}
	fits := slices.DeleteFunc(slices.Clone(open), func(name string) bool { return refused(s, p, w, name) != "" })
	if len(fits) == 0 {
		return nil, refused(s, p, w, open[0])
	}
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Workload == w.Key && !pod.Terminating && pod.DoNotDisrupt != "" && !on(s, pod, fits) {
			return nil, fmt.Sprintf("pod %s: %s forbids moving it", pod.Key, pod.DoNotDisrupt)
		}
	}
	return fits, ""
}

// on reports whether a pod is on a node of one of these pools.
func on(s api.Snapshot, pod *api.Pod, pools []string) bool {
	return slices.ContainsFunc(s.Nodes, func(n api.Node) bool { return n.Name == pod.Node && slices.Contains(pools, n.Pool) })
}

// refused is why a workload's pods can't run on a pool; empty if they can.
func refused(s api.Snapshot, p api.Policy, w *api.Workload, name string) string {
	i := slices.IndexFunc(s.Pools, func(pool api.Pool) bool { return pool.Name == name })
	if i < 0 {
		return fmt.Sprintf("there is no pool %s", name)
	}
	pool := &s.Pools[i]
	if p.MachineType != "" && p.MachineType != pool.MachineType {
		return fmt.Sprintf("policy %s allows machine type %s only, and pool %s has %s", p.Name, p.MachineType, name, pool.MachineType)
	}
	if w.Shape == nil {
		return ""
	}
	if !admits(s, pool, w.Shape) {
		return fmt.Sprintf("node selector, node affinity or taints keep its pods off pool %s", name)
	}
	if room := pool.Allocatable.Minus(pool.Overhead); pool.Allocatable.MilliCPU > 0 && !w.Shape.Requests.Fits(room) {
		return fmt.Sprintf("a pod of it requests %s, which is more than an empty node of pool %s has", w.Shape.Requests, name)
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Workload == w.Key && !pod.Terminating && pod.Zones != nil && len(pool.Zones) > 0 &&
			!slices.ContainsFunc(pool.Zones, func(zone string) bool { return slices.Contains(pod.Zones, zone) }) {
			return fmt.Sprintf("volumes of pod %s are in zone %s, where pool %s has no nodes", pod.Key, listed(pod.Zones), name)
		}
	}
	return ""
}

// admits reports whether a node of a pool takes pods of a shape: one that there is, or one
// like those that the provider tells of.
func admits(s api.Snapshot, pool *api.Pool, shape *api.PodShape) bool {
	if (placement.Site{Labels: pool.Labels, Taints: pool.Taints}).Admits(shape) {
		return true
	}
	return slices.ContainsFunc(s.Nodes, func(n api.Node) bool {
		return n.Pool == pool.Name && (placement.Site{Name: n.Name, Labels: n.Labels, Taints: n.Taints}).Admits(shape)
	})
}

// listed names several things, or none.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
