package sensing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// holdInput is all that the checks of a workload look at.
type holdInput struct {
	r *workloadRecord
	w api.Workload // as gathered
	// t is the target, nil if it is not there; first is the oldest ManagedWorkload of
	// it.
	t     *targetRecord
	first *workloadRecord
	// scalers are the names of HorizontalPodAutoscalers of the target, verticals its
	// VerticalPodAutoscalers, foreign who else has set its replicas; empty for nobody.
	scalers   []string
	verticals []*verticalRecord
	foreign   string
}

// full reports whether mash2 would write, or might.
func (in holdInput) full() bool { return in.w.Mode == api.ModeFull || in.w.Mode == api.ModeCanary }

// supported reports whether the target is of a kind that can be scaled.
func (in holdInput) supported() bool {
	return strings.HasPrefix(in.w.Target.APIVersion, "apps/") &&
		(in.w.Target.Kind == kindDeployment || in.w.Target.Kind == kindStatefulSet)
}

// holdCheck returns the reason of a hold and what its message says; no reason where
// there is nothing to hold.
type holdCheck struct {
	name string
	why  func(in holdInput) (reason, message string)
}

// holdChecks in their order: the first reason holds the workload. What makes others
// meaningless comes first: what can't be read, a target that is not there, somebody
// else who writes; then what the author stated; then what the target lacks.
var holdChecks = []holdCheck{
	{"spec can be read", unreadable},
	{"kind is supported", unsupported},
	{"target exists", targetMissing},
	{"target is nobody else's", duplicate},
	{"no other horizontal scaler", scaledByOthers},
	{"no vertical scaler that fights", verticalFights},
	{"replicas are not taken over", takenOver},
	{"bounds can be", impossibleBounds},
	{"something to plan by", nothingToPlanBy},
	{"target utilisation can be", impossibleUtilization},
	{"minimum is below the maximum", contradictoryBounds},
	{"target is switched on", switchedOff},
	{"pods ask for CPU", noRequests},
}

func unreadable(in holdInput) (reason, message string) { return in.w.HoldReason, in.w.Hold }

func unsupported(in holdInput) (reason, message string) {
	if in.supported() {
		return "", ""
	}
	return HoldUnsupportedTarget, fmt.Sprintf("spec.targetRef: a %s of %s can't be scaled: only Deployments and StatefulSets of apps/v1 can",
		in.w.Target.Kind, in.w.Target.APIVersion)
}

func targetMissing(in holdInput) (reason, message string) {
	if in.t != nil {
		return "", ""
	}
	return HoldTargetMissing, fmt.Sprintf("spec.targetRef.name: %s %s doesn't exist", in.w.Target.Kind, in.w.Target.Name)
}

func duplicate(in holdInput) (reason, message string) {
	if in.first == in.r {
		return "", ""
	}
	return HoldDuplicateTarget, fmt.Sprintf("spec.targetRef: ManagedWorkload %s has the same target and is older", in.first.key.Name)
}

func scaledByOthers(in holdInput) (reason, message string) {
	if in.full() && in.w.Actuator == api.ActuatorKEDA && in.w.SafetyNet != "" {
		return HoldConflict, fmt.Sprintf("spec.actuator: KEDA scales %s %s, and its safety net would too: delete the safety net", in.w.Target.Kind, in.w.Target.Name)
	}
	if len(in.scalers) == 0 || !in.full() {
		return "", ""
	}
	return HoldConflict, fmt.Sprintf("HorizontalPodAutoscaler %s scales %s %s as well",
		strings.Join(in.scalers, ", "), in.w.Target.Kind, in.w.Target.Name)
}

// unscaledFinding tells that nobody carries the plan out: KEDA should, and has no HPA.
func unscaledFinding(w api.Workload, byKEDA []string) (api.Finding, bool) {
	if w.Mode != api.ModeFull || w.Actuator != api.ActuatorKEDA || len(byKEDA) > 0 {
		return api.Finding{}, false
	}
	return api.Finding{
		Severity: api.Warning, Agent: api.HorizontalScalingAgent, Reason: ReasonNoScaledObject, Object: api.WorkloadRef(w.Key),
		Message: fmt.Sprintf("spec.actuator: KEDA should scale %s %s, but has created no HorizontalPodAutoscaler for it: replicas stay until a ScaledObject names it",
			w.Target.Kind, w.Target.Name),
	}, true
}

func verticalFights(in holdInput) (reason, message string) {
	if !in.full() || in.w.Basis != 0 {
		return "", ""
	}
	for _, vertical := range in.verticals {
		if why := vertical.fights(in.t); why != "" {
			return HoldConflict, why
		}
	}
	return "", ""
}

func takenOver(in holdInput) (reason, message string) {
	if in.foreign == "" || !in.full() {
		return "", ""
	}
	give := fmt.Sprintf("to give them back to mash2, set spec.mode to Shadow, and to %s again when status.observedGeneration has followed", in.w.Mode)
	if in.t.notedBefore {
		give = "remove its annotation " + api.AnnotationTakenOver + "; " + give
	}
	return HoldConflict, fmt.Sprintf("%s has set the replicas of %s %s; %s", in.foreign, in.w.Target.Kind, in.w.Target.Name, give)
}

func impossibleBounds(in holdInput) (reason, message string) {
	switch w := in.w; {
	case w.MaxReplicas < 1:
		return HoldInvalidBounds, fmt.Sprintf("spec.maxReplicas: must be 1 or more, is %d", w.MaxReplicas)
	case w.MinReplicas < 0:
		return HoldInvalidBounds, fmt.Sprintf("spec.minReplicas: must be 0 or more, is %d", w.MinReplicas)
	case w.MinReplicas == 0 && !slices.ContainsFunc(in.r.triggers, trigger.activates):
		return HoldInvalidBounds, "spec.minReplicas: 0 needs a trigger of type External, Object, Prometheus or Cron, which can ask for the first replica"
	}
	return "", ""
}

func nothingToPlanBy(in holdInput) (reason, message string) {
	if in.w.IgnoreCPU && len(in.r.triggers) == 0 {
		return HoldInvalidTrigger, "spec.metric.type: None needs triggers"
	}
	return "", ""
}

func impossibleUtilization(in holdInput) (reason, message string) {
	if u := in.w.TargetUtilization; u < 0 || u > 1 {
		return HoldInvalidBounds, fmt.Sprintf("spec.targetUtilizationPercent: must be from 1 to 100, is %g", 100*u)
	}
	return "", ""
}

func contradictoryBounds(in holdInput) (reason, message string) {
	if in.w.MinReplicas > in.w.MaxReplicas {
		return HoldInvalidBounds, fmt.Sprintf("spec.minReplicas: %d is larger than maxReplicas %d", in.w.MinReplicas, in.w.MaxReplicas)
	}
	return "", ""
}

func switchedOff(in holdInput) (reason, message string) {
	if in.w.Replicas == 0 && in.w.MinReplicas > 0 {
		return HoldScaledToZero, fmt.Sprintf("%s %s has 0 replicas; scale it to 1 or more to have it managed", in.w.Target.Kind, in.w.Target.Name)
	}
	return "", ""
}

func noRequests(in holdInput) (reason, message string) {
	if w := in.w; !w.IgnoreCPU && (w.Shape.Requests.MilliCPU <= 0 || in.r.byTemplate && w.Basis <= 0) {
		return HoldNoRequests, fmt.Sprintf("spec.targetRef: the pods of %s %s request no CPU (resources.requests.cpu of their containers), so utilisation is undefined",
			w.Target.Kind, w.Target.Name)
	}
	return "", ""
}
