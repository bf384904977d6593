package serve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// ready is the Ready condition of a workload that is planned.
func ready(c api.Cycle, plan api.WorkloadPlan, seen api.WorkloadStatus) metav1.Condition {
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: seen.Generation,
		Reason: camel(string(plan.Binding)), Message: plan.Reason, LastTransitionTime: metav1.NewTime(c.Time),
	}
	not := func(reason, message string) {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reason, message
	}
	refused := refusedPods(c, plan.Key)
	switch {
	case seen.HoldReason != "":
		not(camel(seen.HoldReason), plan.Reason)
	case plan.Held:
		not(whyHeld(c, plan), plan.Reason)
	case c.Paused:
		not("Paused", "every write is stopped: by mash2 pause or the annotation "+api.AnnotationPaused+" of the policy ConfigMap, which mash2 resume takes back, or until a new leader can read the pause (BrakeUnreadable)")
	case refused != "":
		not(api.ReasonPodsRefused, refused+"; the plan stays: "+plan.Reason)
	case seen.DemandStale:
		not(whyStale(c, plan.Key), "demand is too old to scale down on; the reactive floor is kept: "+plan.Reason)
	case missing(plan.Triggers):
		not(api.ReasonTriggerMissing, "a trigger can't be read, and replicas don't go down: "+plan.Reason)
	}
	for _, o := range c.Outcomes {
		if o.Error != "" && o.Object == api.WorkloadRef(plan.Key) {
			not(camel(o.Kind+"Failed"), o.Action+": "+o.Error)
			break
		}
	}
	ready.Message = cut(ready.Message, 32768) // what the API server takes
	return ready
}

// whyHeld is the reason of what was found wrong with a workload that is held.
func whyHeld(c api.Cycle, plan api.WorkloadPlan) string {
	for _, f := range c.Findings {
		if f.Object == api.WorkloadRef(plan.Key) && f.Severity == api.Warning {
			return camel(f.Reason)
		}
	}
	return camel(string(plan.Binding))
}

// whyStale tells demand that is old from that of a target which somebody paused.
func whyStale(c api.Cycle, key api.Key) string {
	for _, f := range c.Findings {
		if f.Reason == api.ReasonTargetPaused && f.Object == api.WorkloadRef(key) {
			return f.Reason
		}
	}
	return api.ReasonDemandStale
}

// movable is the Movable condition; it is false where nodes are not managed.
func movable(c api.Cycle, plan api.WorkloadPlan, seen api.WorkloadStatus) (metav1.Condition, bool) {
	by, conflict := poolConflict(c)
	if len(plan.Pools) == 0 && !conflict {
		return metav1.Condition{}, false
	}
	var pools []string
	for _, share := range plan.Pools {
		pools = append(pools, share.Pool)
	}
	movable := metav1.Condition{
		Type: v1alpha1.ConditionMovable, Status: metav1.ConditionTrue, ObservedGeneration: seen.Generation, LastTransitionTime: metav1.NewTime(c.Time),
		Reason: "NothingForbidsIt", Message: "its pods are on pool " + strings.Join(pools, ", ") + " or move there",
	}
	not := func(reason, message string) {
		movable.Status, movable.Reason, movable.Message = metav1.ConditionFalse, reason, message
	}
	if r := c.Plan.Nodes.Refusal; r != nil {
		not(camel(r.Reason), fmt.Sprintf("it stays on pool %s instead of %s: %s", r.Stay, r.Pool, r.Message))
	}
	switch {
	case conflict:
		not(api.ReasonConflict, cut(by, 32768))
	case plan.Shadow:
		not("NotActedOn", "its pods stay on the nodes that they are on: it is in Shadow")
	case seen.HoldReason != "":
		not("NotActedOn", "its pods stay on the nodes that they are on: "+cut(seen.Hold, 30000))
	}
	return movable, true
}

// refusedPods is what was said to the pods that a workload's target can't have;
// empty if there is none.
func refusedPods(c api.Cycle, key api.Key) string {
	for _, f := range c.Findings {
		if f.Reason == api.ReasonPodsRefused && f.Object == api.WorkloadRef(key) {
			return f.Message
		}
	}
	return ""
}

// poolConflict names the pools that somebody else resizes, and who does.
func poolConflict(c api.Cycle) (string, bool) {
	var said []string
	for _, f := range c.Findings {
		if f.Reason == api.ReasonConflict && f.Object.Kind == api.KindPool {
			said = append(said, f.Object.String()+": "+f.Message)
		}
	}
	return strings.Join(said, "; "), len(said) > 0
}

// triggersOf is what was seen of the triggers.
func triggersOf(plan api.WorkloadPlan) []v1alpha1.TriggerStatus {
	var out []v1alpha1.TriggerStatus
	for _, s := range plan.Triggers {
		t := v1alpha1.TriggerStatus{Name: s.Name, Active: s.Active, Message: cut(s.Missing, 1024)}
		if s.Missing == "" {
			t.Value = strconv.FormatFloat(s.Value, 'g', 6, 64)
			t.Replicas = &s.Replicas
		}
		out = append(out, t)
	}
	return out
}

// missing tells whether a trigger can't be read.
func missing(triggers []api.TriggerPlan) bool {
	return slices.ContainsFunc(triggers, func(s api.TriggerPlan) bool { return s.Missing != "" })
}

// policyAccepted tells the author of a workload what is wrong with the policy
// that it is planned by. What can't be read or kept for a while is not wrong with it.
func policyAccepted(c api.Cycle, generation int64) metav1.Condition {
	accepted := metav1.Condition{
		Type: v1alpha1.ConditionPolicyAccepted, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: "Accepted", Message: c.Policy.Reason, LastTransitionTime: metav1.NewTime(c.Time),
	}
	for _, f := range c.Findings {
		if f.Object == api.PolicyRef && slices.Contains(ofPolicies, f.Reason) {
			accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, camel(f.Reason), cut(f.Message, 32768)
			break
		}
	}
	return accepted
}
