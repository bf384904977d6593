// Package gkesim is a Google Kubernetes Engine that fits beside a local control
// plane: what a user of GKE sees of it, in front of nodes that kwok keeps alive.
//
// A Server speaks the part of google.container.v1.ClusterManager that reads and
// resizes node pools (gRPC, plain text) and the part of the Compute Engine REST
// API that reads and shrinks their instance groups. The unmodified clients of
// cloud.google.com/go/container and cloud.google.com/go/compute call them with
// option.WithEndpoint and option.WithoutAuthentication.
//
// # What it does as GKE does
//
//   - A pool's size is per zone: SetNodePoolSize(n) on a pool of three zones
//     gives 3n nodes. InitialNodeCount never changes; the current size is the
//     target size of the pool's instance groups.
//   - Calls that change something return an operation that goes PENDING →
//     RUNNING → DONE. One operation runs per pool, or one on the whole cluster;
//     a second is refused with FailedPrecondition and reason
//     CLUSTER_ALREADY_HAS_OPERATION.
//   - Nodes come after a boot delay (see Config.BootMedian), with GKE's names,
//     labels, provider ids, allocatable (see Machine) and DaemonSets.
//   - A shrink by SetNodePoolSize picks its own victims. deleteInstances takes
//     exactly the instances that were named and lowers the target size.
//   - A deleted instance takes its node and the pods on it along, without
//     eviction: the instance stops, then the node object is deleted, then the
//     pods bound to it (pod garbage collection).
//   - Stockouts and exceeded quota end the operation in an error, leave the
//     target size as asked and the pool RUNNING_WITH_ERROR with a condition; the
//     instance group goes on trying.
//   - A spot machine is taken away when Server.Interrupt says so.
//   - A pool with autoscaling on is resized by the server, by the rules of
//     Cluster Autoscaler (see AutoscalerConfig).
//
// # What it leaves out
//
// Creating, upgrading and repairing pools (an operation that only occupies a
// pool or the cluster can be started by Server.Occupy), node auto-provisioning,
// Autopilot, surge upgrades, GKE's kube-system Deployments. The
// autoscaler's simulation of the scheduler knows resources, node selectors,
// required node affinity, taints and pod counts, not inter-pod affinity,
// topology spread, host ports and volumes.
//
// # Time
//
// Every duration of the configuration is scenario time and is divided by
// Config.Speed; the clock is injected.
package gkesim
