// Package cluster starts a real Kubernetes control plane on this machine, and
// what experiments and tests need around it.
//
// [Start] builds the nested module experiments/localkube once (etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok in
// one program) and runs it. Every call is a cluster of its own, with its own
// directory, keys and free loopback ports, so several run side by side. There
// are no kubelets: kwok plays the nodes that carry the annotation
// [FakeNodeAnnotation], and the pods on them, with sampled delays ([Delays]).
//
// A cluster doesn't outlive the process that started it, however that ends.
// It needs Linux.
package cluster
