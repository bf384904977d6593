package sensing

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// verticals are the objects of the Vertical Pod Autoscaler, which need not be
// installed.
var verticals = schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}

// Modes in which a VerticalPodAutoscaler changes nothing, and the one that it
// has when it doesn't say.
const (
	verticalOff     = "Off"
	verticalDefault = "Recreate"
	everyContainer  = "*"
)

// verticalRecord is what the cache keeps of a VerticalPodAutoscaler.
type verticalRecord struct {
	identity
	target targetID
	mode   string
	// cpu tells by container whether its CPU request is changed, and under
	// everyContainer what holds for the rest; memory is the same of memory.
	cpu, memory map[string]bool
	// recommended requests by container.
	recommended map[string]api.Resources
}

// verticalSpec is what is read of a VerticalPodAutoscaler's spec.
type verticalSpec struct {
	TargetRef struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"targetRef"`
	UpdatePolicy struct {
		UpdateMode string `json:"updateMode"`
	} `json:"updatePolicy"`
	ResourcePolicy struct {
		ContainerPolicies []struct {
			ContainerName       string   `json:"containerName"`
			Mode                string   `json:"mode"`
			ControlledResources []string `json:"controlledResources"`
		} `json:"containerPolicies"`
	} `json:"resourcePolicy"`
}

// verticalStatus is what is read of its status: what it has in mind for new pods.
type verticalStatus struct {
	Recommendation struct {
		ContainerRecommendations []struct {
			ContainerName string         `json:"containerName"`
			Target        map[string]any `json:"target"`
		} `json:"containerRecommendations"`
	} `json:"recommendation"`
}

// amounts are the quantities of a target, which whoever may write a
// VerticalPodAutoscaler wrote; nothing where one of them is none.
func amounts(target map[string]any) (api.Resources, bool) {
	list := corev1.ResourceList{}
	for name, value := range target {
		q, err := v1alpha1.ParseQuantity(fmt.Sprint(value))
		if err != nil {
			return api.Resources{}, false
		}
		list[corev1.ResourceName(name)] = q
	}
	return resourcesOf(list), true
}

// verticalRecordOf: what can't be read counts as changing everything of the
// target, as far as that can be read.
func verticalRecordOf(o *unstructured.Unstructured) *verticalRecord {
	r := &verticalRecord{
		identity: identify(o), cpu: map[string]bool{everyContainer: true}, memory: map[string]bool{everyContainer: true},
		recommended: map[string]api.Resources{},
	}
	var status verticalStatus
	said, _, _ := unstructured.NestedMap(o.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(said, &status); err == nil {
		for _, c := range status.Recommendation.ContainerRecommendations {
			if target, ok := amounts(c.Target); ok {
				r.recommended[c.ContainerName] = target
			}
		}
	}
	var spec verticalSpec
	fields, _, _ := unstructured.NestedMap(o.Object, "spec")
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec)
	r.target = targetID{r.key.Namespace, spec.TargetRef.Kind, spec.TargetRef.Name}
	r.mode = cmp.Or(spec.UpdatePolicy.UpdateMode, verticalDefault)
	if err != nil {
		return r
	}
	for _, p := range spec.ResourcePolicy.ContainerPolicies {
		name, all := cmp.Or(p.ContainerName, everyContainer), len(p.ControlledResources) == 0
		changes := func(resource corev1.ResourceName) bool {
			return p.Mode != verticalOff && (all || slices.Contains(p.ControlledResources, string(resource)))
		}
		r.cpu[name], r.memory[name] = changes(corev1.ResourceCPU), changes(corev1.ResourceMemory)
	}
	return r
}

// changesCPU reports whether it changes the CPU request of one of these
// containers.
func (r *verticalRecord) changesCPU(containers map[string]api.Resources) bool {
	for name := range containers {
		if r.changes(r.cpu, name) {
			return true
		}
	}
	return false
}

// changes reports whether a container's request of a resource is changed.
func (r *verticalRecord) changes(resource map[string]bool, container string) bool {
	changes, named := resource[container]
	return r.mode != verticalOff && (changes || !named && resource[everyContainer])
}

// next is a replica's shape when this autoscaler has had its way with a new pod:
// the template's requests with what it recommends in place of those that it
// changes. Without a recommendation it is left as it is.
func (r *verticalRecord) next(t *targetRecord, shape *api.PodShape) *api.PodShape {
	var cpu, memory int64
	changed := false
	for name, has := range t.requests {
		want, ok := r.recommended[name]
		if !ok {
			continue
		}
		if r.changes(r.cpu, name) && want.MilliCPU > 0 {
			cpu += want.MilliCPU - has.MilliCPU
			changed = true
		}
		if r.changes(r.memory, name) && want.Memory > 0 {
			memory += want.Memory - has.Memory
			changed = true
		}
	}
	if !changed {
		return shape
	}
	out := *shape
	out.Requests.MilliCPU = max(t.template.Requests.MilliCPU+cpu, 0)
	out.Requests.Memory = max(t.template.Requests.Memory+memory, 0)
	if out.Requests.Equal(shape.Requests) {
		return shape
	}
	out.ID = shapeID(out)
	return &out
}

// fights says why a VerticalPodAutoscaler and mash2 can't both act on a target;
// empty if they can.
//
// A VerticalPodAutoscaler sets the request of a pod to its usage times a factor
// f above 1. Replicas are demand over request and target utilisation u, so that
// from R replicas come R/(u·f) at its next change, and so on up or down to a
// bound: the two would answer the same usage twice. What it does to memory alone,
// or only proposes (mode Off), is read anew from the pods in each cycle and
// planned with.
func (r *verticalRecord) fights(t *targetRecord) string {
	if !r.changesCPU(t.requests) {
		return ""
	}
	return fmt.Sprintf("VerticalPodAutoscaler %s (mode %s) sets the CPU requests of %s %s from the same usage that its replicas follow; "+
		"set its updateMode to Off, or its controlledResources to [memory], or spec.countRequests of the ManagedWorkload to Template", r.key.Name, r.mode, t.id.kind, t.id.name)
}

// autoscalerSilence is how long the Cluster Autoscaler may say nothing before it
// counts as gone: its own liveness check allows its loop as much
// (--max-inactivity).
const autoscalerSilence = 10 * time.Minute

// Marks of node autoscalers on nodes and on the Cluster Autoscaler's status.
const (
	taintToBeDeleted     = "ToBeDeletedByClusterAutoscaler"
	labelKarpenterPool   = "karpenter.sh/nodepool"
	kindKarpenterClaim   = "NodeClaim"
	annotationLastUpdate = "cluster-autoscaler.kubernetes.io/last-updated"
	// formatLastUpdate is the annotation's, which is a Time's String.
	formatLastUpdate = "2006-01-02 15:04:05.999999999 -0700 MST"
)

// statusRecord is what the cache keeps of the Cluster Autoscaler's status
// ConfigMap.
type statusRecord struct {
	identity
	updated time.Time // zero if it isn't told
	groups  []string  // node groups as their cloud names them
}

// groupName finds a node group in the status of Cluster Autoscalers before 1.30,
// which is text.
var groupName = regexp.MustCompile(`(?m)^\s+Name:\s+(\S+)\s*$`)

func statusRecordOf(o *corev1.ConfigMap) *statusRecord {
	r := &statusRecord{identity: identify(o)}
	said, _, _ := strings.Cut(o.Annotations[annotationLastUpdate], " m=") // a Time's String may have the monotonic clock
	if at, err := time.Parse(formatLastUpdate, said); err == nil {
		r.updated = at
	}
	text := o.Data["status"]
	var status struct {
		NodeGroups []struct {
			Name string `json:"name"`
		} `json:"nodeGroups"`
	}
	if err := yaml.Unmarshal([]byte(text), &status); err == nil && len(status.NodeGroups) > 0 {
		for _, g := range status.NodeGroups {
			r.groups = append(r.groups, g.Name)
		}
		return r
	}
	for _, m := range groupName.FindAllStringSubmatch(text, -1) {
		r.groups = append(r.groups, m[1])
	}
	return r
}

// resizes names the node group that is this pool; empty if none is, or the
// autoscaler has been silent for too long. A group is a pool when the last part
// of its name is the pool's, or when it is a Compute Engine group after which
// the pool's nodes are named.
func (r *statusRecord) resizes(now time.Time, pool string, nodes []*nodeRecord) string {
	if now.Sub(r.updated) > autoscalerSilence {
		return ""
	}
	for _, group := range r.groups {
		name := path.Base(group)
		instances, isGroup := strings.CutSuffix(name, "-grp")
		if name == pool || isGroup && slices.ContainsFunc(nodes, func(n *nodeRecord) bool {
			return n.node.Pool == pool && strings.HasPrefix(n.node.Name, instances+"-")
		}) {
			return group
		}
	}
	return ""
}

// nodeScaler is a foreign autoscaler that a node bears the mark of.
type nodeScaler struct {
	name string
	// at is when the mark was made; zero if it lasts as long as the node.
	at time.Time
}

// nodeScalerOf reads a node's marks; the zero value if it bears none.
func nodeScalerOf(n *corev1.Node) nodeScaler {
	if pool, ok := n.Labels[labelKarpenterPool]; ok {
		return nodeScaler{name: "Karpenter (NodePool " + pool + ")"}
	}
	if i := slices.IndexFunc(n.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == kindKarpenterClaim }); i >= 0 {
		return nodeScaler{name: "Karpenter (NodeClaim " + n.OwnerReferences[i].Name + ")"}
	}
	for _, t := range n.Spec.Taints {
		if t.Key != taintToBeDeleted {
			continue
		}
		s := nodeScaler{name: "Cluster Autoscaler (taint " + t.Key + ")"}
		if at, err := strconv.ParseInt(t.Value, 10, 64); err == nil {
			s.at = time.Unix(at, 0)
		}
		return s
	}
	return nodeScaler{}
}

// leaveForeign marks the pools that somebody else resizes, with the name of who
// does: by the provider's own word, by the Cluster Autoscaler's status, or by the
// marks that a node autoscaler leaves on nodes.
func leaveForeign(now time.Time, pools []api.Pool, nodes []*nodeRecord, statuses []*statusRecord) {
	for i := range pools {
		p := &pools[i]
		for _, s := range statuses {
			if group := s.resizes(now, p.Name, nodes); group != "" {
				p.Autoscaled, p.AutoscaledBy = true, "Cluster Autoscaler (node group "+group+")"
			}
		}
		for _, n := range nodes {
			by := n.scaler
			if n.node.Pool != p.Name || by.name == "" || !by.at.IsZero() && now.Sub(by.at) > autoscalerSilence {
				continue
			}
			p.Autoscaled, p.AutoscaledBy = true, cmp.Or(p.AutoscaledBy, by.name+" on node "+n.node.Name)
			break
		}
		if p.Autoscaled && p.AutoscaledBy == "" {
			p.AutoscaledBy = "its provider's autoscaling"
		}
	}
}
