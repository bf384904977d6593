package serve

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Status writes what a cycle saw and planned into the status of each
// ManagedWorkload, and tells actions and findings as Events.
type Status struct {
	// Client reads ManagedWorkloads from a cache and writes their status.
	Client client.Client
	// Events records Events; nil records none.
	Events events.EventRecorder
	// Policy names the policy ConfigMap, on which findings without a workload
	// are told.
	Policy types.NamespacedName
	// Refresh is how often a status that did not change is confirmed, each
	// workload's in a cycle of its own choice, so that a thousand of them are
	// not all written in the same one. Where there are very many it is less often,
	// but for those that KEDA scales, which asks how old a plan is.
	Refresh time.Duration
	// Period of cycles: the next one waits until statuses are written, or given up. One writes
	// for what is left of its period, at most a half and at least an eighth of it. What is left
	// then is written by the next one, which begins there. 0 is as long as it takes.
	Period time.Duration
	Logger *slog.Logger
	// Now is the time that cycles are measured by; nil is the real one.
	Now func() time.Time

	said  map[api.Finding]bool
	turns turns
}

// managed are the ManagedWorkloads that there are.
type managed map[api.Key]*v1alpha1.ManagedWorkload

// Report implements mash2.Reporter. A status that can't be written is logged
// and tried again in the next cycle.
func (s *Status) Report(ctx context.Context, c api.Cycle) {
	var list v1alpha1.ManagedWorkloadList
	if err := s.Client.List(ctx, &list); err != nil {
		s.Logger.Error("listing ManagedWorkloads for their status", "error", err)
		return
	}
	objects := make(managed, len(list.Items))
	for i := range list.Items {
		o := &list.Items[i]
		objects[api.Key{Namespace: o.Namespace, Name: o.Name}] = o
	}
	if c.Error == "" {
		s.write(ctx, c, objects)
	}
	s.tell(c, objects)
}

func (s *Status) write(ctx context.Context, c api.Cycle, objects managed) {
	seen := make(map[api.Key]api.WorkloadStatus, len(c.Workloads))
	for _, w := range c.Workloads {
		seen[w.Key] = w
	}
	var all []write
	put := func(key api.Key, o *v1alpha1.ManagedWorkload, want v1alpha1.ManagedWorkloadStatus) {
		if s.due(key, s.refresh(o, len(objects)), o.Status, want, c.Time) {
			patch := client.MergeFrom(o.DeepCopy())
			o.Status = want
			all = append(all, write{key.String(), o, patch})
		}
	}
	for _, plan := range c.Plan.Workloads {
		if o := objects[plan.Key]; o != nil && !newer(o, c) { // else it was deleted meanwhile
			want := statusOf(c, plan, seen[plan.Key], o.Status)
			if o.Spec.Actuator == v1alpha1.ActuatorKEDA && seen[plan.Key].Mode == api.ModeFull {
				keepPlanned(&want, o.Status)
			}
			put(plan.Key, o, want)
		}
	}
	for key, w := range seen {
		if o := objects[key]; o != nil && w.Mode == api.ModeOff && !newer(o, c) {
			put(key, o, statusOff(c, w, o.Status))
		}
	}
	s.turns.put(ctx, writing{s.Client, s.Logger, s.Period, s.Now}, c.Time, all)
}

// newer reports whether an object was made after a cycle looked, or in that second: what was
// planned then may be of another object that had its name.
func newer(o *v1alpha1.ManagedWorkload, c api.Cycle) bool {
	return o.CreationTimestamp.Add(time.Second).After(c.Time)
}

// statusOff is the status of a workload that is not planned: as it was left, but for
// what it is now.
func statusOff(c api.Cycle, seen api.WorkloadStatus, old v1alpha1.ManagedWorkloadStatus) v1alpha1.ManagedWorkloadStatus {
	now := metav1.NewTime(c.Time)
	status := *old.DeepCopy()
	status.ObservedGeneration, status.LastCycleTime, status.TakenOver = seen.Generation, &now, ""
	status.Reason = "spec.mode is Off: it is not planned"
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: seen.Generation,
		Reason: string(api.ModeOff), Message: status.Reason, LastTransitionTime: now,
	}
	if seen.HoldReason != "" {
		ready.Reason, ready.Message = camel(seen.HoldReason), cut(seen.Hold, 32768)
	} else {
		status.CurrentReplicas, status.ReadyReplicas = &seen.Replicas, &seen.ReadyReplicas
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	meta.SetStatusCondition(&status.Conditions, policyAccepted(c, seen.Generation))
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionMovable)
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionPromoted)
	status.Canary, status.Vertical, status.Placement = nil, nil, nil
	if s := status.Sizing; s != nil && api.SizingMode(s.Mode).Acts() {
		s.Mode = v1alpha1.SizingRecommendOnly // admission gives new pods what acts
	}
	return status
}

// due reports whether want differs from old in more than its time, or old was
// written before the workload's latest turn, or by a clock that was ahead.
func (s *Status) due(key api.Key, refresh time.Duration, old, want v1alpha1.ManagedWorkloadStatus, now time.Time) bool {
	if old.LastCycleTime == nil || turn(key, refresh, now).After(old.LastCycleTime.Time) || old.LastCycleTime.After(now) {
		return true
	}
	want.LastCycleTime = old.LastCycleTime
	// The sentence and the figures of a forecast and of triggers move with every
	// sample; they alone are not worth a write.
	want.Reason, want.Forecast = old.Reason, old.Forecast
	if want.Sizing != nil && old.Sizing != nil {
		sizing := *want.Sizing
		sizing.Reason, sizing.HourlySaving = old.Sizing.Reason, old.Sizing.HourlySaving
		want.Sizing = &sizing
	}
	// Agents decide every second: what they do is confirmed with the rest.
	if want.Vertical != nil && old.Vertical != nil {
		vertical := *old.Vertical
		vertical.Envelope = want.Vertical.Envelope
		if !sameWords(vertical.Message, want.Vertical.Message) {
			vertical.Message = want.Vertical.Message
		}
		want.Vertical = &vertical
	}
	want.Triggers = slices.Clone(want.Triggers)
	for i := range want.Triggers {
		if t := &want.Triggers[i]; i < len(old.Triggers) && old.Triggers[i].Name == t.Name &&
			sameWords(old.Triggers[i].Message, t.Message) && old.Triggers[i].Active == t.Active {
			*t = old.Triggers[i]
		}
	}
	for i := range want.Conditions {
		if o := meta.FindStatusCondition(old.Conditions, want.Conditions[i].Type); o != nil &&
			o.Status == want.Conditions[i].Status && o.Reason == want.Conditions[i].Reason && alike(want.Conditions[i], o.Message) {
			want.Conditions[i].Message = o.Message
		}
	}
	return !equality.Semantic.DeepEqual(old, want)
}

const (
	// oftenConfirmed is how many workloads' statuses are confirmed once in a Refresh: of ten
	// a second, with a Refresh of a minute, etcd keeps a version each.
	oftenConfirmed = 600
	// seldom is the most Refreshes until a status is confirmed.
	seldom = 5
)

// refresh is how often the status of one of so many workloads is confirmed.
func (s *Status) refresh(w *v1alpha1.ManagedWorkload, workloads int) time.Duration {
	if w.Spec.Actuator == v1alpha1.ActuatorKEDA {
		return s.Refresh
	}
	return max(s.Refresh, min(s.Refresh*time.Duration(workloads)/oftenConfirmed, seldom*s.Refresh))
}

// turn is the latest time, not after now, at which a workload's status is to be
// confirmed: once in every refresh, at an offset that depends on its name.
func turn(key api.Key, refresh time.Duration, now time.Time) time.Time {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.String()))
	offset := time.Duration(float64(h.Sum32()) / (1 << 32) * float64(refresh))
	return now.Add(-offset).Truncate(refresh).Add(offset)
}

// statusOf is the status of a workload that is planned.
func statusOf(c api.Cycle, plan api.WorkloadPlan, seen api.WorkloadStatus, old v1alpha1.ManagedWorkloadStatus) v1alpha1.ManagedWorkloadStatus {
	now := metav1.NewTime(c.Time)
	status := v1alpha1.ManagedWorkloadStatus{
		ObservedGeneration: seen.Generation,
		Conditions:         append([]metav1.Condition(nil), old.Conditions...),
		CurrentReplicas:    &seen.Replicas,
		ReadyReplicas:      &seen.ReadyReplicas,
		PlannedReplicas:    &plan.Replicas,
		Forecast:           forecastOf(plan),
		Triggers:           triggersOf(plan),
		SLOs:               slosOf(plan),
		Sizing:             sizingOf(plan.Sizing),
		Vertical:           verticalOf(plan.Agents),
		Canary:             canaryOf(plan),
		Policy:             c.Policy.Name,
		Reason:             plan.Reason,
		LastCycleTime:      &now,
	}
	// Whoever sets Full again asks for the replicas anew.
	if seen.Mode == api.ModeFull || seen.Mode == api.ModeCanary {
		status.TakenOver = old.TakenOver
	}
	for _, share := range plan.Pools {
		status.NodePools = append(status.NodePools, v1alpha1.NodePoolShare{Name: share.Pool, Replicas: share.Replicas})
	}
	if len(plan.Pools) == 1 {
		status.NodePool = plan.Pools[0].Pool
	}
	if pool := c.Plan.PlacedOn(plan); pool != "" {
		status.Placement = &v1alpha1.Placement{NodePool: pool, Since: &now}
		if o := old.Placement; o != nil && o.NodePool == pool && o.Since != nil {
			status.Placement.Since = o.Since
		}
	}
	meta.SetStatusCondition(&status.Conditions, ready(c, plan, seen))
	meta.SetStatusCondition(&status.Conditions, policyAccepted(c, seen.Generation))
	if promoted, known := promoted(plan, seen, now); known {
		meta.SetStatusCondition(&status.Conditions, promoted)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionPromoted)
	}
	if movable, known := movable(c, plan, seen); known {
		meta.SetStatusCondition(&status.Conditions, movable)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionMovable)
	}
	return status
}

// keepPlanned keeps what was planned for somebody else to carry out while data are missing.
// The plan then keeps the replicas that its cycle saw. They may have been raised since, as
// was planned before, and must not go down again. With another spec that plan means nothing.
func keepPlanned(want *v1alpha1.ManagedWorkloadStatus, old v1alpha1.ManagedWorkloadStatus) {
	ready := meta.FindStatusCondition(want.Conditions, v1alpha1.ConditionReady)
	if ready.Status == metav1.ConditionTrue || !api.PlanStands(ready.Reason) {
		return
	}
	if p := old.PlannedReplicas; p != nil && old.ObservedGeneration == want.ObservedGeneration && *p > *want.PlannedReplicas {
		want.PlannedReplicas = p
	}
}

// sizingOf is what is chosen for a workload's containers. What doesn't act, whatever its
// author asked for, is a recommendation: admission gives new pods what acts.
func sizingOf(plan *api.SizingPlan) *v1alpha1.SizingStatus {
	if plan == nil {
		return nil
	}
	status := &v1alpha1.SizingStatus{
		Mode: v1alpha1.SizingMode(plan.Mode), Reason: cut(plan.Reason, 1024),
		HourlySaving: strconv.FormatFloat(plan.Saving, 'f', 4, 64),
	}
	if plan.Mode.Acts() && !plan.Acts() {
		status.Mode = v1alpha1.SizingRecommendOnly
	}
	if !plan.Since.IsZero() {
		since := metav1.NewTime(plan.Since)
		status.Since = &since
	}
	if !plan.CPUAsWrittenUntil.IsZero() {
		until := metav1.NewTime(plan.CPUAsWrittenUntil)
		status.CPUAsWrittenUntil = &until
	}
	if !plan.MemoryAsWrittenUntil.IsZero() {
		until := metav1.NewTime(plan.MemoryAsWrittenUntil)
		status.MemoryAsWrittenUntil = &until
	}
	for _, c := range plan.Containers {
		status.Containers = append(status.Containers, v1alpha1.ContainerSizingStatus{
			Name: c.Name, Requests: amounts(c.Requests), Limits: amounts(c.Limits), Template: amounts(c.Template), TemplateLimits: amounts(c.TemplateLimits), Reason: cut(c.Reason, 256),
		})
	}
	return status
}

func amounts(a api.Amounts) (out v1alpha1.ContainerAmounts) {
	if a.MilliCPU > 0 {
		out.CPU = resource.NewMilliQuantity(a.MilliCPU, resource.DecimalSI)
	}
	if a.Memory > 0 {
		out.Memory = resource.NewQuantity(a.Memory, resource.BinarySI)
	}
	return out
}

// slosOf are the verdicts on a workload's objectives.
func slosOf(plan api.WorkloadPlan) (out []v1alpha1.SLOStatus) {
	for _, s := range plan.SLOs {
		out = append(out, v1alpha1.SLOStatus{Name: s.Name, Verdict: string(s.Verdict)})
	}
	return out
}

// forecastOf is what is forecast for a workload, and what it is worth, used or not;
// nil where nothing is.
func forecastOf(plan api.WorkloadPlan) *v1alpha1.ForecastStatus {
	var status *v1alpha1.ForecastStatus
	if f := plan.Forecast; f != nil {
		status = &v1alpha1.ForecastStatus{Model: f.Model}
		if plan.PeakDemand >= 0 {
			status.Peak = strconv.FormatFloat(plan.PeakDemand/1000, 'f', 2, 64)
		}
		if len(f.Seasons) > 0 {
			status.Season = &metav1.Duration{Duration: f.Seasons[0].Round(100 * time.Millisecond)}
		}
	}
	k := plan.Skill
	if k == nil {
		return status
	}
	if status == nil {
		status = &v1alpha1.ForecastStatus{Model: k.Model}
	}
	status.Trust, status.Licence = string(k.Trust), string(k.Trust)
	if k.LastValue != nil {
		status.Skill = strconv.FormatFloat(*k.LastValue, 'f', 2, 64)
	}
	if k.Seasonal != nil {
		status.SeasonalSkill = strconv.FormatFloat(*k.Seasonal, 'f', 2, 64)
	}
	if k.Coverage != nil {
		status.Coverage = strconv.FormatFloat(*k.Coverage, 'f', 2, 64)
	}
	return status
}

// cut bounds a text to a number of bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-3], "") + "..."
}

// camel makes a condition reason of a binding constraint: scaleUpRate →
// ScaleUpRate.
func camel(s string) string {
	if s == "" {
		return "Planned"
	}
	s = strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, s)
	if s == "" {
		return "Planned"
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// tell records an Event for every action that changed something or failed, and for every
// finding that is new.
func (s *Status) tell(c api.Cycle, objects managed) {
	var told []api.Finding
	told, s.said = news(c, s.said)
	for _, f := range told {
		s.event(objects, f.Object, string(f.Severity), f.Reason, "Plan", f.Message)
	}
	for _, o := range c.Outcomes {
		switch {
		case o.Error != "":
			s.event(objects, o.Object, corev1.EventTypeWarning, o.Kind+"Failed", o.Kind, fmt.Sprintf("%s: %s", o.Action, o.Error))
		case o.Skipped == "":
			s.event(objects, o.Object, corev1.EventTypeNormal, o.Kind, o.Kind, o.Action)
		}
	}
}

func (s *Status) event(objects managed, object api.ObjectRef, kind, reason, action, message string) {
	if s.Events == nil {
		return
	}
	var about runtime.Object
	name := object.Key.Name
	switch o, known := objects[object.Key]; {
	case known && object.Kind == api.KindWorkload:
		about = o
	case object.Kind == api.KindNode:
		about = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	case object.Kind == api.KindStrategy:
		about = &v1alpha1.Strategy{ObjectMeta: metav1.ObjectMeta{Namespace: object.Key.Namespace, Name: name}}
	case object.Kind == api.KindPod:
		about = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: object.Key.Namespace, Name: name}}
	default: // pools, the policy, the cycle itself
		about = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Policy.Namespace, Name: s.Policy.Name}}
		if object != (api.ObjectRef{}) && object != api.PolicyRef && object != api.CycleRef {
			message = object.String() + ": " + message
		}
	}
	message = cut(message, 1024) // what an Event's note may have
	// The recorder counts a second Event that differs in nothing but its note as the
	// first one again, whose note stays.
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(message))
	action = fmt.Sprintf("%s-%08x", action, hash.Sum32())
	s.Events.Eventf(about, nil, kind, camel(reason), action, "%s", message)
}
