package sensing

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mash2-io/mash2/api"
)

// identity is what a cache needs to know of a record: it stands in for the
// metadata of the API object that the record was made from.
type identity struct {
	key             api.Key
	resourceVersion string
}

// GetObjectMeta lets client-go's stores find a record's key.
func (i identity) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.key.Namespace, Name: i.key.Name, ResourceVersion: i.resourceVersion}
}

func identify(o metav1.Object) identity {
	return identity{
		key:             api.Key{Namespace: shared(o.GetNamespace()), Name: o.GetName()},
		resourceVersion: o.GetResourceVersion(),
	}
}

// shared returns the one copy of a string that many records repeat.
func shared(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

// longestStart is how long after its start a pod may become Ready for the first time. One that
// does so later is taken to have recovered.
const longestStart = 10 * time.Minute

// noStart is how long after its start a pod that became Ready then has surely recovered: some take long to
// load what they serve.
const noStart = time.Hour

// statusLag is how long after a container started a kubelet may note that the one before it has
// ended: it looks once a second.
const statusLag = 5 * time.Second

// podRecord is what the cache keeps of a pod: the pod as a snapshot shows it,
// but for its workload, and what leads and demand are computed from.
type podRecord struct {
	identity
	pod         api.Pod
	scheduledAt time.Time // zero while it is not
	restarted   bool      // a container was started again
	ran         bool      // a container has ended, and may have served before
	// starting is from when on it has not been Ready, in seconds since the epoch, where it hasn't
	// been since its containers started; 0 where it has. started tells that it is Ready since it had
	// started, not since it recovered, and recovered that it surely has.
	starting   int64
	started    bool
	recovered  bool
	unready    int64 // from when on it is not Ready, in seconds since the epoch; 0 if it is
	resized    bool  // its requests were changed since it was made
	containers int32
	labels     labelSet
	claims     []string
	counts     []unique.Handle[counted] // see kin
	// limits of all containers: millicores and bytes.
	limitCPU, limitMemory int64
	size                  podSize
	slot                  int32 // in the order of pods, see podOrder
}

func (s *shapes) podRecord(pod *corev1.Pod) *podRecord {
	r := &podRecord{
		identity:   identify(pod),
		containers: int32(len(pod.Spec.Containers) + len(pod.Spec.InitContainers)),
		labels:     labelSetOf(pod.Labels),
		claims:     claimsOf(pod),
		counts:     countedBy(pod),
	}
	r.limitCPU, r.limitMemory = limitsOf(pod)
	r.size = s.podSize(pod)
	r.pod = api.Pod{
		Key:           r.key,
		UID:           string(pod.UID),
		Shape:         s.of(pod),
		Node:          shared(pod.Spec.NodeName),
		Phase:         shared(string(pod.Status.Phase)),
		Created:       pod.CreationTimestamp.Time,
		Terminating:   pod.DeletionTimestamp != nil,
		DoNotDisrupt:  doNotDisrupt(pod),
		DaemonSet:     controlledBy(pod, "DaemonSet"),
		Mirror:        pod.Annotations[corev1.MirrorPodAnnotationKey] != "",
		Unschedulable: false,
		Gated:         len(pod.Spec.SchedulingGates) > 0,
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		r.pod.ControllerKind, r.pod.ControllerName = shared(owner.Kind), shared(owner.Name)
	}
	changed := r.pod.Created // whether it is Ready
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			changed = c.LastTransitionTime.Time
		}
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			r.pod.Ready, r.pod.ReadyAt = true, c.LastTransitionTime.Time
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue:
			r.scheduledAt = c.LastTransitionTime.Time
		case c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable:
			r.pod.Unschedulable = true
		}
	}
	var begun time.Time // its newest container
	for _, c := range pod.Status.ContainerStatuses {
		r.restarted = r.restarted || c.RestartCount > 0
		r.ran = r.ran || c.RestartCount > 0 || c.State.Terminated != nil
		if c.State.Running != nil && c.State.Running.StartedAt.After(begun) {
			begun = c.State.Running.StartedAt.Time
		}
	}
	if !r.pod.Ready {
		r.unready, r.pod.UnreadySince = changed.Unix(), changed
	}
	switch {
	case r.pod.Ready:
		r.started = !begun.IsZero() && changed.Sub(begun) < longestStart
		r.recovered = !begun.IsZero() && changed.Sub(begun) > noStart
	case !changed.After(begun.Add(statusLag)) || begun.IsZero() && !r.ran:
		r.starting = changed.Unix()
	}
	r.resized = slices.ContainsFunc(pod.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "resize" })
	if cost, err := strconv.ParseInt(pod.Annotations[api.AnnotationPodDeletionCost], 10, 32); err == nil {
		r.pod.DeletionCost = int32(cost)
		_, r.pod.DeletionCostOurs = pod.Annotations[api.AnnotationDeletionCostSet]
	}
	return r
}

// Annotations by which users forbid or allow to move a pod, or to remove a node: Karpenter's
// is for both.
const (
	scaleDownDisabled       = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	safeToEvict             = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	safeToEvictLocalVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
	karpenterDoNotDisrupt   = "karpenter.sh/do-not-disrupt"
)

// doNotDisrupt names what forbids moving a pod, by the rules that users know
// from the Cluster Autoscaler and Karpenter; empty if nothing does.
func doNotDisrupt(pod *corev1.Pod) string {
	if pod.Annotations[karpenterDoNotDisrupt] == "true" {
		return "annotation " + karpenterDoNotDisrupt
	}
	switch pod.Annotations[safeToEvict] {
	case "false":
		return "annotation " + safeToEvict
	case "true":
		return ""
	}
	if controlledBy(pod, "DaemonSet") || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return ""
	}
	spared := strings.Split(pod.Annotations[safeToEvictLocalVolumes], ",")
	for _, v := range pod.Spec.Volumes {
		memory := v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory
		if v.HostPath == nil && (v.EmptyDir == nil || memory) {
			continue
		}
		allowed := false
		for _, name := range spared {
			allowed = allowed || strings.TrimSpace(name) == v.Name
		}
		if !allowed {
			return "local storage " + v.Name
		}
	}
	return ""
}

// nodeRecord is what the cache keeps of a node.
type nodeRecord struct {
	identity
	node api.Node
	// parked: it takes no part, as if it were not there.
	parked bool
	// scaler is the foreign autoscaler whose mark it bears.
	scaler nodeScaler
	// cores are its CPU capacity, millicores.
	cores int64
}

func nodeRecordOf(n *corev1.Node, poolLabel string) *nodeRecord {
	r := &nodeRecord{identity: identify(n), scaler: nodeScalerOf(n)}
	r.cores = n.Status.Capacity.Cpu().MilliValue()
	r.node = api.Node{
		Name:        n.Name,
		Pool:        n.Labels[poolLabel],
		Zone:        n.Labels[api.LabelZone],
		ProviderID:  n.Spec.ProviderID,
		Labels:      n.Labels,
		Taints:      taintsOf(n.Spec.Taints),
		Allocatable: resourcesOf(n.Status.Allocatable),
		Cordoned:    n.Spec.Unschedulable,
		Created:     n.CreationTimestamp.Time,
	}
	for _, key := range []string{scaleDownDisabled, karpenterDoNotDisrupt} {
		if n.Annotations[key] == "true" {
			r.node.DoNotDisrupt = "annotation " + key
			break
		}
	}
	if r.node.Cordoned {
		r.node.CordonedFor = n.Annotations[api.AnnotationCordonedFor]
		r.node.CordonedAt = timeOf(n.Annotations[api.AnnotationCordonedAt])
	}
	r.node.Lifted = !r.node.Cordoned && n.Annotations[api.AnnotationCordonedFor] != ""
	if pool, at, ok := strings.Cut(n.Annotations[api.AnnotationGaveUp], " "); ok {
		r.node.GaveUp, r.node.GaveUpAt = pool, timeOf(at)
	}
	r.parked = r.node.Cordoned && n.Annotations[api.AnnotationParked] != ""
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			r.node.Ready, r.node.ReadyAt = true, c.LastTransitionTime.Time
		default:
			r.node.UnreadyAt = c.LastTransitionTime.Time
		}
		r.node.MemoryPressure = r.node.MemoryPressure || c.Type == corev1.NodeMemoryPressure && c.Status == corev1.ConditionTrue
	}
	return r
}

// timeOf reads an annotation of ours; zero if there is none.
func timeOf(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// taintsOf leaves out the taint of a cordon, which the snapshot has as a field.
func taintsOf(in []corev1.Taint) []api.Taint {
	var out []api.Taint
	for _, t := range in {
		if t.Key != corev1.TaintNodeUnschedulable {
			out = append(out, api.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return out
}

// ownerRecord is what the cache keeps of a ReplicaSet: whose it is.
type ownerRecord struct {
	identity
	ownerKind, ownerName string
}

func ownerRecordOf(o metav1.Object) *ownerRecord {
	r := &ownerRecord{identity: identify(o)}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		r.ownerKind, r.ownerName = shared(owner.Kind), shared(owner.Name)
	}
	return r
}

// daemonRecord is what the cache keeps of a DaemonSet: a pod of it as far as
// the choice of nodes depends on it, and what it takes.
type daemonRecord struct {
	identity
	pod      *corev1.Pod
	requests api.Resources
}

// podOf makes a template into the pod that a controller would create.
func podOf(namespace string, t *corev1.PodTemplateSpec) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: t.Labels, Annotations: t.Annotations, UID: types.UID("")},
		Spec:       t.Spec,
	}
}
