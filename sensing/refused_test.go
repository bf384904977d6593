package sensing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Pods that are not let in are said, and change nothing of what is planned from.
// What the API server really says is in TestControlPlane.
func TestRefusedPods(t *testing.T) {
	failure := func(status corev1.ConditionStatus, message string) []appsv1.DeploymentCondition {
		return []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Message: "Deployment has minimum availability."},
			{Type: appsv1.DeploymentReplicaFailure, Status: status, Reason: "FailedCreate", Message: message},
		}
	}
	const before = "spec.targetRef: the API server refuses pods of Deployment web: "
	for name, c := range map[string]struct {
		conditions []appsv1.DeploymentCondition
		mode       v1alpha1.Mode
		want       string
	}{
		"all is well": {conditions: failure(corev1.ConditionFalse, "was refused once")},
		"a LimitRange, without the pod's name": {
			conditions: failure(corev1.ConditionTrue, `pods "web-5d4f8c7b9-bbbbx" is forbidden: maximum cpu usage per Container is 50m, but request is 100m`),
			want:       before + "forbidden: maximum cpu usage per Container is 50m, but request is 100m",
		},
		"a LimitRange, by the limit it has put into the pod": {
			conditions: failure(corev1.ConditionTrue, `Pod "web-5d4f8c7b9-bbbbx" is invalid: spec.containers[0].resources.requests: Invalid value: "100m": must be less than or equal to cpu limit of 50m`),
			want:       before + `invalid: spec.containers[0].resources.requests: Invalid value: "100m": must be less than or equal to cpu limit of 50m`,
		},
		"a quota": {
			conditions: failure(corev1.ConditionTrue, `pods "web-5d4f8c7b9-bbbbx" is forbidden: exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3`),
			want:       before + "forbidden: exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3",
		},
		"a webhook": {
			conditions: failure(corev1.ConditionTrue, `admission webhook "no.example.com" denied the request: "x" is bad`),
			want:       before + `admission webhook "no.example.com" denied the request: "x" is bad`,
		},
		"too long": {
			conditions: failure(corev1.ConditionTrue, strings.Repeat("é", 600)),
			want:       before + strings.Repeat("é", 500) + "…",
		},
		"no message":                   {conditions: failure(corev1.ConditionTrue, ""), want: before + "FailedCreate"},
		"a workload that is Off":       {conditions: failure(corev1.ConditionTrue, "no"), mode: v1alpha1.ModeOff},
		"a workload in Shadow, too":    {conditions: failure(corev1.ConditionTrue, "no"), mode: v1alpha1.ModeShadow, want: before + "no"},
		"nothing is known of its pods": {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 3)
			mw := managed("web")
			mw.Spec.Mode = c.mode
			d := deployment("web", 3, "100m")
			*d.Spec.Replicas = 7 // of which three were let in
			d.Status.Conditions = c.conditions
			w.put(mw, d)
			got, s := w.workload("web")
			if got.HoldReason != "" || got.MaxReplicas != 10 || got.MinReplicas != 1 || got.Replicas != 7 || got.ReadyReplicas != 3 {
				t.Errorf("workload %+v", got)
			}
			f := findings(s, ReasonPodsRefused)
			if c.want == "" && len(f) > 0 || c.want != "" && (len(f) != 1 || f[0].Message != c.want || f[0].Object != api.ParseRef("workload shop/web") || f[0].Severity != api.Warning) {
				t.Errorf("findings %v, want %q", f, c.want)
			}
		})
	}
}

// TestRefusedStatefulSet: a StatefulSet's pods that its controller should make and doesn't
// count as refused after some readings; those that it waits for don't.
func TestRefusedStatefulSet(t *testing.T) {
	for name, c := range map[string]struct {
		have   int
		change func(newest *corev1.Pod)
		young  bool
		want   bool
	}{
		"all are there":                     {have: 3},
		"one is missing":                    {have: 2, want: true},
		"none is there":                     {want: true},
		"another is to be Ready for longer": {have: 2, young: true},
		"another is not Ready":              {have: 2, change: func(p *corev1.Pod) { p.Status.Conditions = nil }},
		"another is just deleted":           {have: 2, change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 0)
			mw := managed("db")
			mw.Spec.TargetRef.Kind = kindStatefulSet
			mw.Spec.Sizing = &v1alpha1.Sizing{}
			d := deployment("db", 3, "100m")
			available := c.have
			if c.young {
				available--
			}
			w.put(mw, &appsv1.StatefulSet{
				ObjectMeta: d.ObjectMeta, Spec: appsv1.StatefulSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
				Status: appsv1.StatefulSetStatus{AvailableReplicas: int32(available)},
			})
			for i := range c.have {
				p := podOn("db", i, "node-1", epoch.Add(-time.Hour))
				p.Name = fmt.Sprintf("db-%d", i)
				p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = kindStatefulSet, "db"
				if c.change != nil && i == c.have-1 {
					c.change(p)
				}
				w.put(p)
			}
			for i := range shortFor {
				got, s := w.workload("db")
				last := i == shortFor-1
				if n := len(findings(s, ReasonPodsRefused)); (n > 0) != (c.want && last) || (got.Sizing.Refused != "") != (c.want && last) {
					t.Errorf("reading %d: %d findings, %q", i+1, n, got.Sizing.Refused)
				}
			}
		})
	}
}
