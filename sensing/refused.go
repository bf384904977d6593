package sensing

import (
	"cmp"
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/api"
)

// podNamed begins what the API server says of one pod.
var podNamed = regexp.MustCompile(`^[Pp]ods? "[^"]*" is `)

// refusalIn is what the API server has said to a Deployment's newest pods, when it
// doesn't let them in; empty if it does. The pod's name is left out, which is
// another one at each attempt.
func refusalIn(conditions []appsv1.DeploymentCondition) string {
	for _, c := range conditions {
		if c.Type != appsv1.DeploymentReplicaFailure || c.Status != corev1.ConditionTrue {
			continue
		}
		return cmp.Or(podNamed.ReplaceAllString(c.Message, ""), c.Reason)
	}
	return ""
}

// refusedFinding says that a target can't have the pods it asks for. Nothing is
// planned differently for it: the plan says what demand takes, not what is let
// in, and each change of replicas makes the ReplicaSet try again at once.
func refusedFinding(w api.Workload, t *targetRecord) (api.Finding, bool) {
	if t.refusal == "" {
		return api.Finding{}, false
	}
	return api.Finding{
		Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonPodsRefused, Object: api.WorkloadRef(w.Key),
		Message: "spec.targetRef: the API server refuses pods of " + t.id.kind + " " + t.id.name + ": " + t.refusal,
	}, true
}
