package gkesim

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	annotationSafeToEvict       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationSafeVolumes       = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
	annotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	taintToBeDeleted            = "ToBeDeletedByClusterAutoscaler"
)

// candidate is a node that is not needed.
type candidate struct {
	*simNode
	inst  *instance
	moved []*corev1.Pod // the pods that have to go elsewhere
}

// scaleDown keeps the list of unneeded nodes and removes those that have been
// unneeded for long enough. s.mu is held.
func (s *Server) scaleDown(w *world) {
	c, now := s.cfg.Autoscaler, s.cfg.Clock.Now()
	found := s.unneeded(w)
	names := map[string]bool{}
	for _, n := range found {
		names[n.node.Name] = true
		if _, ok := s.scaler.unneeded[n.node.Name]; !ok {
			s.scaler.unneeded[n.node.Name] = now
		}
	}
	for name := range s.scaler.unneeded {
		if !names[name] {
			delete(s.scaler.unneeded, name)
		}
	}
	cooling := !s.scaler.lastAdd.IsZero() && now.Before(s.scaler.lastAdd.Add(s.real(c.ScaleDownDelayAfterAdd))) ||
		!s.scaler.lastFailure.IsZero() && now.Before(s.scaler.lastFailure.Add(s.real(c.ScaleDownDelayAfterFailure)))
	if cooling {
		return
	}
	removed, leaving := 0, map[*group]int32{}
	for name := range s.scaler.drains {
		if inst := s.instance(name); inst != nil {
			leaving[inst.group]++
		}
	}
	for _, n := range found {
		wait := c.ScaleDownUnneededTime
		if !ready(n.node) {
			wait = c.ScaleDownUnreadyTime
		}
		g := n.inst.group
		// The nodes being drained still count towards the target.
		pending := leaving[g]
		if g.pool.autoscaling.GetTotalMaxNodeCount() > 0 {
			pending = 0
			for _, peer := range g.pool.groups {
				pending += leaving[peer]
			}
		}
		if now.Sub(s.scaler.unneeded[n.node.Name]) < s.real(wait) || g.slack() <= pending {
			continue
		}
		if len(n.moved) == 0 {
			if removed++; removed > c.MaxScaleDownParallelism {
				continue
			}
		} else if len(s.scaler.drains) >= c.MaxDrainParallelism {
			continue
		}
		s.beginDrain(n, now)
		leaving[g]++
	}
}

// unneeded returns the nodes that are little used and whose pods all fit
// elsewhere, each given that those before it are gone. Nodes without pods to
// move come first, then those that were unneeded before. s.mu is held.
func (s *Server) unneeded(w *world) []candidate {
	var out, candidates []candidate
	for _, n := range w.nodes {
		inst := s.instance(n.node.Name)
		if n.coming || inst == nil || inst.phase != running || s.scaler.drains[n.node.Name] != nil {
			continue
		}
		p := inst.group.pool
		if !p.autoscaling.GetEnabled() || p.op != nil || s.clusterOp != nil || inst.group.slack() == 0 ||
			n.node.Annotations[annotationScaleDownDisabled] == "true" ||
			ready(n.node) && n.utilization() >= s.cfg.Autoscaler.ScaleDownUtilizationThreshold {
			continue
		}
		moved, err := s.movable(n, w.budgets)
		if err != nil {
			continue
		}
		candidates = append(candidates, candidate{simNode: n, inst: inst, moved: moved})
	}
	rank := func(c candidate) int {
		_, before := s.scaler.unneeded[c.node.Name]
		switch {
		case len(c.moved) == 0:
			return 0
		case before:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(rank(a), rank(b)) })

	// Pods go to nodes that are there: not to those on the way, nor to those
	// being drained, which carry the taint or are about to.
	var rest []*simNode
	for _, n := range w.nodes {
		if !n.coming && s.scaler.drains[n.node.Name] == nil {
			rest = append(rest, n.clone())
		}
	}
	for _, c := range candidates {
		trial := make([]*simNode, 0, len(rest))
		var self *simNode
		for _, n := range rest {
			if n.node.Name == c.node.Name {
				self = n
				continue
			}
			trial = append(trial, n.clone())
		}
		// What earlier candidates put here has to move on too.
		pods := slices.Clone(c.moved)
		pods = append(pods, self.pods[len(c.pods):]...)
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !place(trial, pod) }) {
			continue
		}
		rest = trial
		out = append(out, c)
	}
	return out
}

// movable returns the pods of n that have to be evicted before n is removed, or
// why one of them forbids it (Cluster Autoscaler's drainability rules).
func (s *Server) movable(n *simNode, budgets []policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, pod := range n.pods {
		safe := pod.Annotations[annotationSafeToEvict]
		matching := budgetsOf(pod, budgets)
		switch {
		case pod.Annotations[corev1.MirrorPodAnnotationKey] != "", ownedByDaemonSet(pod),
			priority(pod) < s.cfg.Autoscaler.ExpendablePodsPriorityCutoff:
			continue
		case safe == "true":
		case metav1.GetControllerOf(pod) == nil:
			return nil, fmt.Errorf("pod %s/%s has no controller", pod.Namespace, pod.Name)
		case pod.Namespace == metav1.NamespaceSystem && len(matching) == 0:
			return nil, fmt.Errorf("pod %s/%s is a system pod without a budget", pod.Namespace, pod.Name)
		case localStorage(pod) != "":
			return nil, fmt.Errorf("pod %s/%s has local storage %s", pod.Namespace, pod.Name, localStorage(pod))
		case safe == "false":
			return nil, fmt.Errorf("pod %s/%s is not safe to evict", pod.Namespace, pod.Name)
		}
		for _, b := range matching {
			if b.Status.DisruptionsAllowed < 1 {
				return nil, fmt.Errorf("pod %s/%s: budget %s is used up", pod.Namespace, pod.Name, b.Name)
			}
		}
		out = append(out, pod)
	}
	return out, nil
}

func budgetsOf(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) []policyv1.PodDisruptionBudget {
	var out []policyv1.PodDisruptionBudget
	for _, b := range budgets {
		if b.Namespace != pod.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, b)
		}
	}
	return out
}

// localStorage is the name of a volume of pod whose contents live on the node,
// or empty.
func localStorage(pod *corev1.Pod) string {
	safe := splitList(pod.Annotations[annotationSafeVolumes])
	for _, v := range pod.Spec.Volumes {
		onNode := v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
		if onNode && !slices.Contains(safe, v.Name) {
			return v.Name
		}
	}
	return ""
}

// instance finds an instance by its name. s.mu is held.
func (s *Server) instance(name string) *instance {
	for _, p := range s.pools {
		for _, g := range p.groups {
			if inst := g.find(name); inst != nil {
				return inst
			}
		}
	}
	return nil
}
