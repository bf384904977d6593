package gkesim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
)

func resourcesOf(list corev1.ResourceList) api.Resources {
	var out api.Resources
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			out.MilliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			out.Memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			out.EphemeralStorage = q.Value()
		case corev1.ResourcePods:
			out.Pods = q.Value()
		default:
			if out.Extended == nil {
				out.Extended = map[string]int64{}
			}
			out.Extended[string(name)] = q.Value()
		}
	}
	return out
}

// requestsOf is what the scheduler reserves for pod, the pod's own slot included.
func requestsOf(pod *corev1.Pod) api.Resources {
	out := resourcesOf(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true}))
	out.Pods = 1
	return out
}

// simNode is a node with its pods.
type simNode struct {
	node *corev1.Node
	used api.Resources
	pods []*corev1.Pod
}

func newSimNode(node *corev1.Node) *simNode { return &simNode{node: node} }

func (n *simNode) add(pod *corev1.Pod) {
	n.used = n.used.Plus(requestsOf(pod))
	n.pods = append(n.pods, pod)
}

// view is the node without its pods.
func (n *simNode) view() autoscaler.Node {
	return autoscaler.Node{
		Name: n.node.Name, Allocatable: resourcesOf(n.node.Status.Allocatable), Capacity: resourcesOf(n.node.Status.Capacity), Used: n.used,
	}
}

// fits tells whether the scheduler would put pod on n.
func (n *simNode) fits(pod *corev1.Pod) bool {
	return allows(n.node, pod) && autoscaler.Room(resourcesOf(n.node.Status.Allocatable), n.used, requestsOf(pod))
}

// allows tells whether the scheduler would put pod on node if it had room.
func allows(node *corev1.Node, pod *corev1.Pod) bool {
	if node.Spec.Unschedulable && !tolerated(pod, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return false
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(pod, taint) {
			return false
		}
	}
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && ok
}

func tolerated(pod *corev1.Pod, taint *corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, taint, false)
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
