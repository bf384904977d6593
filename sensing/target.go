package sensing

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Kinds that can be scaled, and the one between a Deployment and its pods.
const (
	kindDeployment  = "Deployment"
	kindStatefulSet = "StatefulSet"
	kindReplicaSet  = "ReplicaSet"
)

// targetID names something that is scaled.
type targetID struct{ namespace, kind, name string }

// targetRecord is what the cache keeps of a Deployment or StatefulSet.
type targetRecord struct {
	identity
	id         targetID
	replicas   int32
	rollingOut bool
	paused     bool // a Deployment whose controller rolls nothing out
	template   *api.PodShape
	scaling    scalingFields
	uid        types.UID
	// notedBefore is the annotation by which the version before noted a take-over;
	// read for one version more.
	notedBefore bool
	// requests of the template's containers by their names, and the selector of
	// its pods; nil if that can't be read.
	requests map[string]api.Resources
	selector labels.Selector
	// limits of a pod of the template: millicores and bytes.
	limitCPU, limitMemory int64
	// containers of the template as its author wrote them.
	containers []api.ContainerUse
	// guaranteed tells that its containers, init containers too, request all that they are limited to, and
	// whole that its pods state resources as a whole.
	guaranteed, whole bool
	// available pods of a StatefulSet: its controller makes the next one only then. firstOrdinal is
	// the number of its first pod.
	available, firstOrdinal int32
	// refusal is why its newest pods were not let in; empty if they were. Only a
	// Deployment tells.
	refusal string
}

func (s *shapes) deploymentRecord(d *appsv1.Deployment) *targetRecord {
	pod := podOf(d.Namespace, &d.Spec.Template)
	r := &targetRecord{
		identity:   identify(d),
		id:         targetID{d.Namespace, kindDeployment, d.Name},
		replicas:   replicasOf(d.Spec.Replicas),
		rollingOut: unseen(d.Generation, d.Status.ObservedGeneration) || d.Status.Replicas > d.Status.UpdatedReplicas,
		paused:     d.Spec.Paused,
		template:   s.of(pod),
		scaling:    scalingFieldsOf(d.ManagedFields),
		uid:        d.UID,

		notedBefore: hasOldNote(d),
		requests:    requestsOf(pod),
		selector:    selectorOf(d.Spec.Selector),
		refusal:     refusalIn(d.Status.Conditions),
	}
	r.limitCPU, r.limitMemory = limitsOf(pod)
	r.containers, r.guaranteed, r.whole = containersOf(pod.Spec.Containers), guaranteed(pod.Spec), asWhole(pod.Spec)
	return r
}

func (s *shapes) statefulSetRecord(d *appsv1.StatefulSet) *targetRecord {
	pod := podOf(d.Namespace, &d.Spec.Template)
	r := &targetRecord{
		identity:   identify(d),
		id:         targetID{d.Namespace, kindStatefulSet, d.Name},
		replicas:   replicasOf(d.Spec.Replicas),
		rollingOut: statefulSetRollsOut(d),
		template:   s.of(pod),
		scaling:    scalingFieldsOf(d.ManagedFields),
		uid:        d.UID,

		notedBefore: hasOldNote(d),
		requests:    requestsOf(pod),
		selector:    selectorOf(d.Spec.Selector),
		available:   d.Status.AvailableReplicas,
	}
	if of := d.Spec.Ordinals; of != nil {
		r.firstOrdinal = of.Start
	}
	r.limitCPU, r.limitMemory = limitsOf(pod)
	r.containers, r.guaranteed, r.whole = containersOf(pod.Spec.Containers), guaranteed(pod.Spec), asWhole(pod.Spec)
	return r
}

// unseen reports whether a controller has not seen the newest spec, of which its status tells nothing: the
// template may be another one. Of what it has never seen there are no pods.
func unseen(generation, observed int64) bool { return observed > 0 && observed < generation }

// statefulSetRollsOut reports whether pods of another revision than the newest are left, or may be. With
// OnDelete the current revision never becomes the newest.
func statefulSetRollsOut(d *appsv1.StatefulSet) bool {
	is := d.Status
	return unseen(d.Generation, is.ObservedGeneration) ||
		is.UpdateRevision != "" && is.CurrentRevision != is.UpdateRevision && is.UpdatedReplicas < is.Replicas
}

func requestsOf(pod *corev1.Pod) map[string]api.Resources {
	out := make(map[string]api.Resources, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		out[shared(c.Name)] = resourcesOf(c.Resources.Requests)
	}
	return out
}

func selectorOf(s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil
	}
	return selector
}

func replicasOf(r *int32) int32 {
	if r == nil {
		return 1
	}
	return *r
}

func hasOldNote(o metav1.Object) bool {
	_, ok := o.GetAnnotations()[api.AnnotationTakenOver]
	return ok
}

// scalingFields is what managedFields tell about spec.replicas.
type scalingFields struct {
	managers []string  // that own the field, in order of name
	last     time.Time // zero if it isn't told
	lastBy   string
}

// scalingFieldsOf finds who owns spec.replicas and who wrote it last.
//
// An apply of the scale subresource leaves an entry without a time. Who has one
// wrote last all the same: whoever changes the value afterwards takes the field
// away. The time of an entry of an update of the scale subresource is that of
// its manager's last scaling; that of another entry may also be of another
// field, so it counts only while there is none of the former.
func scalingFieldsOf(entries []metav1.ManagedFieldsEntry) scalingFields {
	const (
		other = iota
		updated
		applied
	)
	var f scalingFields
	best := -1
	for _, e := range entries {
		if !ownsReplicas(e.FieldsV1) {
			continue
		}
		f.managers = append(f.managers, e.Manager)
		kind, at := other, time.Time{}
		if e.Time != nil {
			at = e.Time.Time
		}
		if e.Subresource == "scale" {
			kind = updated
			if e.Operation == metav1.ManagedFieldsOperationApply {
				kind = applied
			}
		}
		if kind > best || (kind == best && at.After(f.last)) {
			f.last, f.lastBy, best = at, e.Manager, kind
		}
	}
	slices.Sort(f.managers)
	f.managers = slices.Compact(f.managers)
	return f
}

func ownsReplicas(fields *metav1.FieldsV1) bool {
	if fields == nil {
		return false
	}
	var set struct {
		Spec struct {
			Replicas *struct{} `json:"f:replicas"`
		} `json:"f:spec"`
	}
	return json.Unmarshal(fields.GetRawBytes(), &set) == nil && set.Spec.Replicas != nil
}

// foreignWriter is a manager that has taken spec.replicas from mash2 after
// mash2 took it over; empty if there is none. noted is the UID of the target that the
// ManagedWorkload says was taken over; net tells that the target has a safety net,
// which may have taken it.
func (t *targetRecord) foreignWriter(noted types.UID, net bool) string {
	taken := t.notedBefore || noted != "" && noted == t.uid
	if !taken || len(t.scaling.managers) == 0 || slices.Contains(t.scaling.managers, api.FieldManager) {
		return ""
	}
	if net && t.scaling.lastBy == hpaManager {
		return "" // while there was no operator
	}
	return t.scaling.lastBy
}

// scalerRecord is what the cache keeps of a HorizontalPodAutoscaler.
type scalerRecord struct {
	identity
	target targetID
	// net is true for a safety net, which never lowers replicas.
	net bool
	// keda is true for one that KEDA made for a ScaledObject.
	keda bool
}

func scalerRecordOf(h *autoscalingv2.HorizontalPodAutoscaler) *scalerRecord {
	ref := h.Spec.ScaleTargetRef
	return &scalerRecord{identity: identify(h), target: targetID{h.Namespace, ref.Kind, ref.Name}, net: isSafetyNet(h), keda: isOfKEDA(h)}
}

// isOfKEDA reports whether an HPA belongs to a ScaledObject.
func isOfKEDA(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return slices.ContainsFunc(h.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "ScaledObject" && strings.HasPrefix(o.APIVersion, "keda.sh/")
	})
}

// hpaManager is the field manager under which the HorizontalPodAutoscaler's
// controller scales.
const hpaManager = "kube-controller-manager"

// isSafetyNet believes the label only of an HPA that may not lower replicas and
// waits before it raises them.
func isSafetyNet(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	b := h.Spec.Behavior
	if h.Labels[api.LabelSafetyNet] != "true" || b == nil || b.ScaleDown == nil || b.ScaleUp == nil {
		return false
	}
	down, up := b.ScaleDown.SelectPolicy, b.ScaleUp.StabilizationWindowSeconds
	return down != nil && *down == autoscalingv2.DisabledPolicySelect && up != nil && *up > 0
}

// workloadRecord is what the cache keeps of a ManagedWorkload.
type workloadRecord struct {
	identity
	created  time.Time
	workload api.Workload // what its spec says
	target   targetID
	triggers []trigger
	slos     []objective
	sizing   *sizingSpec // nil where no sizes are to be chosen
	agents   *api.Agents // what the spec says of agents; nil without
	// byTemplate: replicas are counted by the template's requests.
	byTemplate bool
	takenOver  types.UID // of the target; empty if none was
	handedOver bool      // see api.AnnotationHandedOver
}

// defaultCooldown is the CRD's, and KEDA's.
const defaultCooldown = 5 * time.Minute

func workloadRecordOf(w *v1alpha1.ManagedWorkload, cfg Config) *workloadRecord {
	r := &workloadRecord{identity: identify(w), created: w.CreationTimestamp.Time, takenOver: w.Status.TakenOver}
	r.target = targetID{w.Namespace, w.Spec.TargetRef.Kind, w.Spec.TargetRef.Name}
	r.workload = api.Workload{
		Key:         r.key,
		UID:         string(w.UID),
		Generation:  w.Generation,
		Target:      api.TargetRef{APIVersion: w.Spec.TargetRef.APIVersion, Kind: w.Spec.TargetRef.Kind, Name: w.Spec.TargetRef.Name},
		Mode:        api.Mode(w.Spec.Mode),
		Planner:     string(w.Spec.Planner),
		Model:       w.Spec.Model,
		MinReplicas: 1,
		MaxReplicas: w.Spec.MaxReplicas,
		Behavior:    behaviorOf(w.Spec.Behavior, cfg.Behavior),
		SpeedNow:    1,
	}
	if r.workload.Mode == "" {
		r.workload.Mode = api.ModeFull
	}
	if r.workload.Planner == "" {
		r.workload.Planner = string(v1alpha1.PlannerHorizontal)
	}
	if w.Spec.Actuator == v1alpha1.ActuatorKEDA {
		r.workload.Actuator = api.ActuatorKEDA
	}
	if p := w.Spec.MinReplicas; p != nil {
		r.workload.MinReplicas = *p
	}
	r.handedOver = w.Annotations[api.AnnotationHandedOver] != ""
	// What is no time is none: a trial that nobody meant to end goes on.
	r.workload.CanaryRestarted, _ = time.Parse(time.RFC3339, w.Annotations[api.AnnotationCanaryRestarted])
	r.byTemplate = w.Spec.CountRequests == v1alpha1.CountTemplate
	r.workload.IgnoreCPU = w.Spec.Metric.Type == v1alpha1.MetricNone
	r.workload.Cooldown = defaultCooldown
	if p := w.Spec.CooldownSeconds; p != nil {
		r.workload.Cooldown = time.Duration(*p) * time.Second
	}
	var err error
	if r.triggers, err = triggersOf(w, cfg); err != nil {
		r.workload.HoldReason, r.workload.Hold = HoldInvalidTrigger, err.Error()
	}
	r.slos = objectivesOf(w)
	r.sizing = sizingOf(w)
	r.agents = agentsOf(w)
	if p := w.Status.PlannedReplicas; p != nil {
		r.workload.PlannedReplicas = *p
	}
	if p := w.Status.Placement; p != nil && cfg.PlacesAtAdmission {
		r.workload.PlacedOn = p.NodePool
		if p.Since != nil {
			r.workload.PlacedSince = p.Since.Time
		}
	}
	if p := w.Spec.TargetUtilizationPercent; p != nil {
		r.workload.TargetUtilization = float64(*p) / 100
	}
	return r
}

// unreadableWorkload stands for a ManagedWorkload that is not as its definition
// says; it is held.
func unreadableWorkload(o metav1.Object, err error) *workloadRecord {
	r := &workloadRecord{identity: identify(o), created: o.GetCreationTimestamp().Time}
	r.workload = api.Workload{
		Key: r.key, UID: string(o.GetUID()), Generation: o.GetGeneration(), Mode: api.ModeOff, SpeedNow: 1,
		HoldReason: HoldInvalidSpec, Hold: "the object can't be read: " + err.Error(),
	}
	return r
}

// behaviorOf fills what a behaviour leaves open from the default, field by
// field as the HPA does. Of two tolerances the smaller one is taken: it follows
// the load more closely.
func behaviorOf(in *autoscalingv2.HorizontalPodAutoscalerBehavior, def api.Behavior) api.Behavior {
	if in == nil {
		return def
	}
	out := api.Behavior{
		ScaleUp:   rulesOf(in.ScaleUp, def.ScaleUp),
		ScaleDown: rulesOf(in.ScaleDown, def.ScaleDown),
		Tolerance: def.Tolerance,
	}
	given := false
	for _, rules := range []*autoscalingv2.HPAScalingRules{in.ScaleUp, in.ScaleDown} {
		if rules == nil || rules.Tolerance == nil {
			continue
		}
		t := rules.Tolerance.AsApproximateFloat64()
		if !given || t < out.Tolerance {
			out.Tolerance, given = t, true
		}
	}
	return out
}

func rulesOf(in *autoscalingv2.HPAScalingRules, out api.ScalingRules) api.ScalingRules {
	if in == nil {
		return out
	}
	if s := in.StabilizationWindowSeconds; s != nil {
		out.StabilizationWindow, out.WindowStated = time.Duration(*s)*time.Second, true
	}
	if in.SelectPolicy != nil {
		out.SelectPolicy = string(*in.SelectPolicy)
	}
	if len(in.Policies) > 0 {
		out.Policies = make([]api.ScalingPolicy, len(in.Policies))
		for i, p := range in.Policies {
			out.Policies[i] = api.ScalingPolicy{
				Type:   string(p.Type),
				Value:  p.Value,
				Period: time.Duration(p.PeriodSeconds) * time.Second,
			}
		}
	}
	return out
}

// daemonRecordOf keeps of a DaemonSet's template what chooses its nodes,
// together with the tolerations that the DaemonSet controller adds.
func (s *shapes) daemonRecordOf(d *appsv1.DaemonSet) *daemonRecord {
	full := podOf(d.Namespace, &d.Spec.Template)
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: full.Spec.NodeSelector,
		Tolerations:  daemonTolerations(&full.Spec),
	}}
	if a := full.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: a.NodeAffinity}
	}
	return &daemonRecord{identity: identify(d), pod: pod, requests: s.of(full).Requests}
}

// daemonTolerations are those of the template and those that the DaemonSet
// controller gives each of its pods.
func daemonTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	out := slices.Clone(spec.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return out
}
