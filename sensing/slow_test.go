package sensing

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestSlow: a pod that does not become Ready as mash2's CPU limit holds it is found, and no
// other one.
func TestSlow(t *testing.T) {
	cpu := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
	}
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment, *v1alpha1.ManagedWorkload, *corev1.Pod)
		used   int64 // millicores
		slow   bool
	}{
		"held by its limit":        {used: 248, slow: true},
		"throttled":                {used: 210, slow: true},
		"waits for something else": {used: 20},
		"Ready": {used: 248, change: func(_ *appsv1.Deployment, _ *v1alpha1.ManagedWorkload, p *corev1.Pod) {
			ready(p, corev1.ConditionTrue, time.Hour)
		}},
		"not for long": {used: 248, change: func(_ *appsv1.Deployment, _ *v1alpha1.ManagedWorkload, p *corev1.Pod) {
			ready(p, corev1.ConditionFalse, time.Minute)
		}},
		"going": {used: 248, change: func(_ *appsv1.Deployment, _ *v1alpha1.ManagedWorkload, p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: epoch}, []string{"a/b"}
		}},
		"with the limit as written": {used: 990, change: func(_ *appsv1.Deployment, _ *v1alpha1.ManagedWorkload, p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = cpu("1")
		}},
		"lowered by somebody else": {used: 248, change: func(_ *appsv1.Deployment, m *v1alpha1.ManagedWorkload, _ *corev1.Pod) { m.Status.Sizing = nil }},
		"by an author without limits": {used: 248, change: func(d *appsv1.Deployment, _ *v1alpha1.ManagedWorkload, _ *corev1.Pod) {
			d.Spec.Template.Spec.Containers[0].Resources.Limits = nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 0)
			d, mw, pod := deployment("web", 1, "1"), managed("web"), podOn("web", 0, "node-1", epoch.Add(-time.Hour))
			d.Spec.Template.Spec.Containers[0].Resources.Limits = cpu("1")
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: cpu("250m"), Limits: cpu("250m")}
			ready(pod, corev1.ConditionFalse, 10*time.Minute)
			small := resource.MustParse("250m")
			mw.Spec.Sizing = &v1alpha1.Sizing{Mode: v1alpha1.SizingInPlace}
			mw.Status.Sizing = &v1alpha1.SizingStatus{Containers: []v1alpha1.ContainerSizingStatus{{
				Name: "main", Requests: v1alpha1.ContainerAmounts{CPU: &small}, Limits: v1alpha1.ContainerAmounts{CPU: &small},
			}}}
			if c.change != nil {
				c.change(d, mw, pod)
			}
			w.put(d, mw, pod)
			w.usage = map[api.Key]int64{{Namespace: ns, Name: pod.Name}: c.used}
			got, s := w.workload("web")
			if got.Sizing == nil || (got.Sizing.Slow != "") != c.slow {
				t.Fatalf("sizing is %+v", got.Sizing)
			}
			said := false
			for _, f := range s.Findings {
				said = said || f.Reason == ReasonCPULimitTooLow && strings.Contains(f.Message, pod.Name)
			}
			if said != c.slow {
				t.Errorf("findings %v", s.Findings)
			}
		})
	}
}

// ready sets since when a pod is Ready or not.
func ready(p *corev1.Pod, is corev1.ConditionStatus, ago time.Duration) {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status, c.LastTransitionTime = is, metav1.NewTime(epoch.Add(-ago))
		}
	}
}

// Since when a pod has not been Ready is what its condition says, and since it was made if that
// says nothing.
func TestUnreadySince(t *testing.T) {
	changed := epoch.Add(time.Minute)
	for name, c := range map[string]struct {
		conditions []corev1.PodCondition
		want       time.Time
	}{
		"not Ready": {[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(changed)}}, changed},
		"Ready":     {[]corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(changed)}}, time.Time{}},
		"not told":  {nil, epoch},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOn("web", 1, "node-1", epoch)
			p.CreationTimestamp, p.Status.Conditions = metav1.NewTime(epoch), c.conditions
			if got := newShapes().podRecord(p).pod.UnreadySince; !got.Equal(c.want) {
				t.Errorf("since %v, want %v", got, c.want)
			}
		})
	}
}
