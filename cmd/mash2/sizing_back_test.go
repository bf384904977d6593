package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// TestSizesAreGivenBack: running pods that mash2 made smaller, in place or as they were admitted, get back
// what their author wrote when sizing is turned off, and by mash2 release.
func TestSizesAreGivenBack(t *testing.T) {
	w, key, template := sizedWorld(t)
	o := w.operator("--sizes-at-admission")
	w.Load.Begin()
	each := func(look func(*corev1.Pod, corev1.ResourceList) string) func() string {
		return func() string {
			var list corev1.PodList
			if err := w.Client.List(t.Context(), &list, client.InNamespace(key.Namespace)); err != nil {
				return err.Error()
			}
			for i := range list.Items {
				p := &list.Items[i]
				if p.DeletionTimestamp != nil || !strings.HasPrefix(p.Name, testbed.WorkloadName) {
					continue
				}
				if why := look(p, p.Spec.Containers[0].Resources.Requests); why != "" {
					return p.Name + " " + why
				}
			}
			return ""
		}
	}
	smaller := each(func(_ *corev1.Pod, is corev1.ResourceList) string {
		if is.Cpu().Cmp(*template.Cpu()) >= 0 || is.Memory().Cmp(*template.Memory()) >= 0 {
			return fmt.Sprintf("requests %v", is)
		}
		return ""
	})
	written := each(func(_ *corev1.Pod, is corev1.ResourceList) string {
		if !is.Cpu().Equal(*template.Cpu()) || !is.Memory().Equal(*template.Memory()) {
			return fmt.Sprintf("requests %v", is)
		}
		return ""
	})
	w.eventually("pods to be smaller", smaller)
	// One that is made smaller by admission alone.
	var victim string
	each(func(p *corev1.Pod, _ corev1.ResourceList) string {
		victim = p.Name
		return "it"
	})()
	if err := w.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: victim}}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a pod that says who made it smaller", func() string {
		if each(func(p *corev1.Pod, _ corev1.ResourceList) string {
			if p.Annotations[api.AnnotationSizedBy] == key.Name {
				return "says it"
			}
			return ""
		})() == "" {
			return "there is none"
		}
		return smaller()
	})
	w.sizingMode(key, v1alpha1.SizingOff)
	w.eventually("pods to be as written", written)
	w.eventually("nothing to be said of sizes", func() string {
		var mw v1alpha1.ManagedWorkload
		if err := w.Client.Get(t.Context(), key, &mw); err != nil {
			return err.Error()
		}
		if mw.Status.Sizing != nil {
			return mw.Status.Sizing.Reason
		}
		return ""
	})

	w.sizingMode(key, v1alpha1.SizingInPlace)
	w.eventually("pods to be smaller again", smaller)
	o.Kill()
	// A quota that is full keeps nobody from being released, only that pod from growing.
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "full"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("1m")}},
	}
	w.create(quota)
	w.eventually("the quota to be counted", func() string {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
			return err.Error()
		}
		if len(quota.Status.Used) == 0 {
			return "it isn't"
		}
		return ""
	})
	w.mash2("release", "--operator-gone", "--patience", "1s", key.String())
	if why := smaller(); why != "" {
		t.Errorf("with a full quota %s", why)
	}
	if err := w.Client.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	w.eventually("pods as written after the release", func() string {
		w.mash2("release", "--operator-gone", "--patience", "1s", key.String())
		return written()
	})
	var mw v1alpha1.ManagedWorkload
	if err := w.Client.Get(t.Context(), key, &mw); err != nil || mw.Status.Sizing != nil {
		t.Errorf("new pods would still get sizes: %v, %+v", err, mw.Status.Sizing)
	}
}
