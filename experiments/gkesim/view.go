package gkesim

import (
	"slices"
	"time"

	"cloud.google.com/go/container/apiv1/containerpb"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
)

const (
	annotationSafeToEvict       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationSafeVolumes       = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
	annotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	taintToBeDeleted            = "ToBeDeletedByClusterAutoscaler"
)

// view is a world as the autoscaler takes it, with what its values stand for.
type view struct {
	autoscaler.View
	groups  []*group
	pods    map[*autoscaler.Pod]*corev1.Pod
	objects map[*group]*corev1.Node // templates
	nodes   map[string]*corev1.Node
}

// view translates what was read from the API server, and what the server knows
// of its pools. s.mu is held.
func (s *Server) view(w *world) *view {
	v := &view{pods: map[*autoscaler.Pod]*corev1.Pod{}, objects: map[*group]*corev1.Node{}, nodes: map[string]*corev1.Node{}}
	index := map[*group]int{}
	for _, p := range s.pools {
		for _, g := range p.groups {
			index[g] = len(v.groups)
			template := s.template(w, g)
			v.groups, v.objects[g] = append(v.groups, g), template.node
			described := p.autoscaled(g, s.clusterOp == nil, template)
			described.Template.Group = index[g]
			v.Groups = append(v.Groups, described)
		}
	}
	for _, n := range w.nodes {
		node := n.view()
		v.nodes[node.Name] = n.node
		node.Group, node.Phase, node.Registered, node.Ready = -1, autoscaler.Running, true, ready(n.node)
		if inst := s.instance(node.Name); inst != nil {
			s.describe(&node, inst, index[inst.group])
		}
		node.Kept = n.node.Annotations[annotationScaleDownDisabled] == "true"
		for _, pod := range n.pods {
			node.Pods = append(node.Pods, v.pod(pod, s.removal(pod, w.budgets)))
		}
		v.Nodes = append(v.Nodes, node)
	}
	for i, g := range v.groups {
		for _, inst := range g.instances {
			if v.nodes[inst.name] == nil {
				node := autoscaler.Node{Name: inst.name}
				s.describe(&node, inst, i)
				v.Nodes = append(v.Nodes, node)
			}
		}
	}
	for _, pod := range w.pending {
		v.Pending = append(v.Pending, v.pod(pod, autoscaler.Moves))
	}
	v.Allowed = func(p *autoscaler.Pod, n *autoscaler.Node) bool {
		object := v.nodes[n.Name]
		if object == nil || !n.Registered { // a template, or what will be like one
			object = v.objects[v.groups[n.Group]]
		}
		return allows(object, v.pods[p])
	}
	return v
}

// autoscaled is a group as the autoscaler takes it; free tells that nothing
// occupies the whole cluster.
func (p *pool) autoscaled(g *group, free bool, template *simNode) autoscaler.Group {
	a := p.autoscaling
	out := autoscaler.Group{
		Name: g.name, Pool: p.Name, Zone: g.zone, On: a.GetEnabled() && p.op == nil && free,
		Balanced: a.GetLocationPolicy() != containerpb.NodePoolAutoscaling_ANY,
		Size:     g.target(), Min: a.GetMinNodeCount(), Max: a.GetMaxNodeCount(),
		PoolMin: a.GetTotalMinNodeCount(), PoolMax: a.GetTotalMaxNodeCount(), Template: template.view(),
	}
	return out
}

// describe adds what is known of a node's instance.
func (s *Server) describe(n *autoscaler.Node, inst *instance, group int) {
	n.Group = group
	n.Phase = map[phase]autoscaler.Phase{
		refused: autoscaler.Refused, provisioning: autoscaler.Coming, running: autoscaler.Running, stopping: autoscaler.Stopping,
	}[inst.phase]
	if inst.paid != nil {
		n.Requested, n.Booted = s.sinceBegun(inst.paid.Requested), !inst.paid.Booted.IsZero()
	}
}

func (s *Server) sinceBegun(t time.Time) time.Duration { return t.Sub(s.begun) }

func (v *view) pod(pod *corev1.Pod, removal autoscaler.Removal) *autoscaler.Pod {
	p := &autoscaler.Pod{Requests: requestsOf(pod), Removal: removal}
	v.pods[p] = pod
	return p
}

// template is a fresh node of g with the pods of the DaemonSets that go there.
func (s *Server) template(w *world, g *group) *simNode {
	n := newSimNode(s.node(g, g.base+"-template", ""))
	for _, pod := range w.daemons {
		if n.fits(pod) {
			n.add(pod)
		}
	}
	return n
}

// removal is what the removal of its node does to pod (simulator/drainability
// and utils/drain of Cluster Autoscaler).
func (s *Server) removal(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) autoscaler.Removal {
	safe := pod.Annotations[annotationSafeToEvict]
	matching := budgetsOf(pod, budgets)
	switch {
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "", ownedByDaemonSet(pod),
		priority(pod) < s.cfg.Autoscaler.ExpendablePodsPriorityCutoff:
		return autoscaler.Ignored
	case safe == "true":
	case metav1.GetControllerOf(pod) == nil, pod.Namespace == metav1.NamespaceSystem && len(matching) == 0,
		localStorage(pod) != "", safe == "false":
		return autoscaler.Forbids
	}
	if slices.ContainsFunc(matching, func(b policyv1.PodDisruptionBudget) bool { return b.Status.DisruptionsAllowed < 1 }) {
		return autoscaler.Forbids
	}
	return autoscaler.Moves
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
