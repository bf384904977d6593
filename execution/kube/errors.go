package kube

import (
	"errors"
	"fmt"
	"regexp"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
)

var (
	// ErrDisruptionBudget means: a PodDisruptionBudget doesn't allow the eviction now.
	ErrDisruptionBudget = errors.New("the disruption budget does not allow it now")
	// ErrForeignCordon means: the node's cordon is somebody else's, and is left alone.
	ErrForeignCordon = errors.New("node is cordoned by somebody else")
)

// ConflictError tells that another field manager owns a target's replicas.
type ConflictError struct {
	Workload api.Key
	Target   api.TargetRef
	Manager  string // as it is in managedFields
}

// Error names the manager.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("replicas of %s %s/%s are owned by %q", e.Target.Kind, e.Workload.Namespace, e.Target.Name, e.Manager)
}

// nobody is what the API server calls the manager of fields that no entry of managedFields
// owns: replicas are, after a release.
const nobody = "before-first-apply"

var quotedManager = regexp.MustCompile(`conflict with "([^"]*)"`)

// conflictingManager reads the owner out of a refused server-side apply. Other
// conflicts, such as a changed resource version, are not meant.
func conflictingManager(err error) (string, bool) {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return "", false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		if m := quotedManager.FindStringSubmatch(cause.Message); m != nil {
			return m[1], true
		}
		return cause.Message, true
	}
	return "", false
}

// overBudget tells a refusal by a PodDisruptionBudget from the API server's own
// throttling, which has the same code.
func overBudget(err error) bool {
	return apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}
