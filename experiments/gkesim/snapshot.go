package gkesim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// amounts are resources as integers: millicores of CPU, whole units of the rest.
type amounts map[corev1.ResourceName]int64

func amountsOf(list corev1.ResourceList) amounts {
	out := make(amounts, len(list))
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[name] = q.MilliValue()
		} else {
			out[name] = q.Value()
		}
	}
	return out
}

// requestsOf is what the scheduler reserves for pod, the pod's own slot included.
func requestsOf(pod *corev1.Pod) amounts {
	out := amountsOf(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true}))
	out[corev1.ResourcePods] = 1
	return out
}

// snapshot is a set of nodes with their pods to try placements on.
type snapshot struct {
	nodes []*simNode
}

type simNode struct {
	node *corev1.Node
	used amounts
	pods []*corev1.Pod
	// coming nodes are not Ready yet: pods may be meant for them, but none can
	// move there now.
	coming bool
}

func newSimNode(node *corev1.Node) *simNode { return &simNode{node: node, used: amounts{}} }

func (s *snapshot) find(name string) *simNode {
	i := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.node.Name == name })
	if i < 0 {
		return nil
	}
	return s.nodes[i]
}

func (n *simNode) add(pod *corev1.Pod) {
	for name, v := range requestsOf(pod) {
		n.used[name] += v
	}
	n.pods = append(n.pods, pod)
}

func (n *simNode) clone() *simNode {
	c := &simNode{node: n.node, used: make(amounts, len(n.used)), pods: slices.Clone(n.pods), coming: n.coming}
	for name, v := range n.used {
		c.used[name] = v
	}
	return c
}

// fits tells whether the scheduler would put pod on n.
func (n *simNode) fits(pod *corev1.Pod) bool {
	if n.node.Spec.Unschedulable && !tolerated(pod, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return false
	}
	for i := range n.node.Spec.Taints {
		taint := &n.node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(pod, taint) {
			return false
		}
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n.node); err != nil || !ok {
		return false
	}
	allocatable := amountsOf(n.node.Status.Allocatable)
	for name, v := range requestsOf(pod) {
		if v > 0 && n.used[name]+v > allocatable[name] {
			return false
		}
	}
	return true
}

func tolerated(pod *corev1.Pod, taint *corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, false)
}

// utilization is the larger of the requested shares of CPU and memory.
func (n *simNode) utilization() float64 {
	allocatable := amountsOf(n.node.Status.Allocatable)
	u := 0.0
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if allocatable[name] > 0 {
			u = max(u, float64(n.used[name])/float64(allocatable[name]))
		}
	}
	return u
}

// ready tells whether node takes pods: it is Ready and the node lifecycle
// controller has noticed.
func ready(node *corev1.Node) bool {
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }) {
		return false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// unschedulable tells whether the scheduler found no node for pod.
func unschedulable(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || ownedByDaemonSet(pod) {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}

func priority(pod *corev1.Pod) int32 { return schedulinghelpers.PodPriority(pod) }

func ownedByDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}
