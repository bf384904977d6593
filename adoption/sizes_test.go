package adoption

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mash2-io/mash2/api"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func podOf(uid string, requests, limits corev1.ResourceList, policy ...corev1.ContainerResizePolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}, ResizePolicy: policy}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// TestAsWritten: what was made less is given back, what became more stays, and nothing is restarted.
func TestAsWritten(t *testing.T) {
	restart := corev1.ContainerResizePolicy{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}
	written := podOf("", amounts("200m", "128Mi"), amounts("400m", "256Mi")).Spec.Containers
	for name, c := range map[string]struct {
		pod              *corev1.Pod
		requests, limits corev1.ResourceList
	}{
		"less becomes what it was": {podOf("", amounts("50m", "32Mi"), amounts("100m", "64Mi")), amounts("200m", "128Mi"), amounts("400m", "256Mi")},
		"more stays":               {podOf("", amounts("50m", "1Gi"), amounts("100m", "2Gi")), amounts("200m", "1Gi"), amounts("400m", "2Gi")},
		"nobody is restarted":      {podOf("", amounts("50m", "32Mi"), amounts("100m", "64Mi"), restart), amounts("200m", "32Mi"), amounts("400m", "64Mi")},
		"no limit is added":        {podOf("", amounts("50m", "32Mi"), nil), amounts("200m", "128Mi"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := asWritten(c.pod, written).Spec.Containers[0].Resources
			if !sameAmounts(got.Requests, c.requests) || !sameAmounts(got.Limits, c.limits) || len(got.Limits) != len(c.limits) {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestNoRoomForAsWritten: on a full node a pod gets back its limits, unless it is Guaranteed.
func TestNoRoomForAsWritten(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: amounts("1", "1Gi")}}
	want := podOf("a", amounts("600m", "128Mi"), amounts("1", "256Mi"))
	over := podOf("b", amounts("500m", "128Mi"), nil)
	done := podOf("c", amounts("1", "1Gi"), nil)
	done.Status.Phase = corev1.PodSucceeded
	self := podOf("a", amounts("100m", "32Mi"), nil)
	if !roomFor(node, []corev1.Pod{*self, *done}, want) {
		t.Error("no room beside a pod that has ended")
	}
	if roomFor(node, []corev1.Pod{*self, *over}, want) {
		t.Error("room for 1100m of 1000m")
	}
	is := podOf("a", amounts("100m", "32Mi"), amounts("200m", "64Mi"))
	if got := limitsOf(is, want).Spec.Containers[0].Resources; !sameAmounts(got.Requests, amounts("100m", "32Mi")) || !sameAmounts(got.Limits, amounts("1", "256Mi")) {
		t.Errorf("%v", got)
	}
	is.Status.QOSClass = corev1.PodQOSGuaranteed
	if got := limitsOf(is, want).Spec.Containers[0].Resources; !sameAmounts(got.Limits, amounts("200m", "64Mi")) {
		t.Errorf("a Guaranteed pod gets %v", got)
	}
}

func TestSizedByMash2(t *testing.T) {
	resized := func(manager string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "resize"}}}}
	}
	admitted := resized("vpa-updater")
	admitted.Annotations = map[string]string{api.AnnotationSizedBy: "web"}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"nobody":                        {&corev1.Pod{}, false},
		"in place":                      {resized(api.FieldManager), true},
		"agents on their own":           {resized(api.AgentsManager), true},
		"somebody else":                 {resized("kubectl-edit"), false},
		"admitted, and resized by them": {admitted, false},
		"admitted":                      {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: admitted.Annotations}}, true},
	} {
		if got := sizedByMash2(c.pod); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
