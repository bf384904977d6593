package sensing

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/api"
)

// podNamed begins what the API server says of one pod.
var podNamed = regexp.MustCompile(`^[Pp]ods? "[^"]*" is `)

// longestRefusal is how many bytes of it are shown: a webhook may say any number.
const longestRefusal = 1000

// refusalIn is what the API server has said to a Deployment's newest pods, when it
// doesn't let them in; empty if it does. The pod's name is left out, which is
// another one at each attempt.
func refusalIn(conditions []appsv1.DeploymentCondition) string {
	for _, c := range conditions {
		if c.Type != appsv1.DeploymentReplicaFailure || c.Status != corev1.ConditionTrue {
			continue
		}
		words := cmp.Or(podNamed.ReplaceAllString(c.Message, ""), c.Reason)
		if len(words) > longestRefusal {
			words = strings.ToValidUTF8(words[:longestRefusal], "") + "…"
		}
		return words
	}
	return ""
}

// shortFor is how many readings a StatefulSet must be without pods that nothing waits for
// until they count as refused.
const shortFor = 8

// isShort reports whether a StatefulSet's controller should make a pod and there is none: all
// that there are are available, and one is missing. A StatefulSet has no condition that says so.
func isShort(t *targetRecord, members []*podRecord) bool {
	if t.id.kind != kindStatefulSet || len(members) >= int(t.replicas) || len(members) > int(t.available) {
		return false
	}
	return !slices.ContainsFunc(members, func(p *podRecord) bool { return !countsAsReady(p) })
}

// refusal is why a target's new pods are not let in; empty if they are.
func (o *Observer) refusal(t *targetRecord, members []*podRecord) string {
	if t.refusal == "" && o.scaled[t.id].short >= shortFor {
		return fmt.Sprintf("its controller makes no more than %d of %d; resources that are not allowed may be why: see the Events in kubectl describe statefulset -n %s %s",
			len(members), t.replicas, t.id.namespace, t.id.name)
	}
	return t.refusal
}

// refusedFinding says that a target can't have the pods it asks for. Nothing is
// planned differently for it but sizes: the plan says what demand takes, not what is
// let in, and each change of replicas makes the ReplicaSet try again at once.
func refusedFinding(w api.Workload, t *targetRecord, refusal string) (api.Finding, bool) {
	if refusal == "" {
		return api.Finding{}, false
	}
	what := "the API server refuses pods of"
	if t.refusal == "" {
		what = "there are no new pods of" // for a reason that only its Events tell
	}
	return api.Finding{
		Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonPodsRefused, Object: api.WorkloadRef(w.Key),
		Message: "spec.targetRef: " + what + " " + t.id.kind + " " + t.id.name + ": " + refusal,
	}, true
}
