package sensing

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestCanary: in mode Canary somebody else's claim to the replicas is no hold, but said; and
// whether they were handed over to mash2.
func TestCanary(t *testing.T) {
	const owned = `{"f:spec":{"f:replicas":{}}}`
	for name, c := range map[string]struct {
		change     func(*world, *v1alpha1.ManagedWorkload, *appsv1.Deployment)
		contested  string
		handedOver bool
		hold       string
	}{
		"nobody's": {func(*world, *v1alpha1.ManagedWorkload, *appsv1.Deployment) {}, "", false, ""},
		"an HPA's": {func(w *world, _ *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) { w.put(hpaOf("web")) }, "HorizontalPodAutoscaler web-hpa", false, ""},
		"handed over": {func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
			mw.Annotations = map[string]string{api.AnnotationHandedOver: "true"}
		}, "", true, ""},
		"handed over, and the HPA is there yet": {func(w *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
			mw.Annotations = map[string]string{api.AnnotationHandedOver: "true"}
			w.put(hpaOf("web"))
		}, "HorizontalPodAutoscaler web-hpa", true, ""},
		"mash2's since it was in Full": {func(_ *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
			mw.Status.TakenOver = d.UID
			d.ManagedFields = []metav1.ManagedFieldsEntry{entry("mash2", "scale", owned, epoch)}
		}, "", true, ""},
		"mash2's of another target": {func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
			mw.Status.TakenOver = "another"
		}, "", false, ""},
		"taken back by hand": {func(_ *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
			mw.Status.TakenOver = d.UID
			d.ManagedFields = []metav1.ManagedFieldsEntry{entry("argocd", "", owned, epoch)}
		}, "to Canary again when status.observedGeneration has followed", true, ""},
		"an HPA's, and can't be planned": {func(w *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
			w.put(hpaOf("web"))
			mw.Spec.MaxReplicas = 0
		}, "HorizontalPodAutoscaler web-hpa", false, HoldInvalidBounds},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			mw, d := managed("web"), deployment("web", 2, "100m")
			mw.Spec.Mode = v1alpha1.ModeCanary
			c.change(w, mw, d)
			w.put(mw, d)
			got, _ := w.workload("web")
			if got.HoldReason != c.hold || got.HandedOver != c.handedOver || !strings.Contains(got.Contested, c.contested) || (got.Contested == "") != (c.contested == "") {
				t.Errorf("held %q: %s; handed over %v; contested: %s", got.HoldReason, got.Hold, got.HandedOver, got.Contested)
			}
		})
	}
	for text, want := range map[string]time.Time{"": {}, "now": {}, "2026-08-03T12:00:00Z": time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)} {
		mw := managed("web")
		mw.Annotations = map[string]string{api.AnnotationCanaryRestarted: text}
		if got := workloadRecordOf(mw, Config{}).workload.CanaryRestarted; !got.Equal(want) {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// hpaOf is a HorizontalPodAutoscaler of a Deployment.
func hpaOf(name string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-hpa"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: kindDeployment, Name: name}},
	}
}
