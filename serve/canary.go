package serve

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// canaryOf is the trial that a workload is in; nil where there is none.
func canaryOf(plan api.WorkloadPlan) *v1alpha1.CanaryStatus {
	p := plan.Canary
	if p == nil {
		return nil
	}
	since := metav1.NewTime(p.Since).Rfc3339Copy()
	return &v1alpha1.CanaryStatus{Phase: string(p.Phase), Role: string(p.Role), With: p.With, Acts: p.Acts, Since: &since}
}

// promoted is the Promoted condition; it is false where the mode is not Canary.
func promoted(plan api.WorkloadPlan, seen api.WorkloadStatus, now metav1.Time) (metav1.Condition, bool) {
	p := plan.Canary
	if p == nil || seen.Mode != api.ModeCanary {
		return metav1.Condition{}, false
	}
	c := metav1.Condition{
		Type: v1alpha1.ConditionPromoted, Status: metav1.ConditionUnknown, ObservedGeneration: seen.Generation,
		Reason: camel(string(p.Phase)), Message: cut(p.Waits, 32768), LastTransitionTime: now,
	}
	switch p.Phase {
	case api.CanaryPromoted:
		c.Status = metav1.ConditionTrue
	case api.CanaryStopped:
		c.Status = metav1.ConditionFalse
	}
	return c, true
}
