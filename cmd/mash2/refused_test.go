package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// testRefused: more replicas are wanted than a ResourceQuota has room for, and
// then pods that a LimitRange forbids. Each is said by name, in an Event and where
// nothing else is planned in the condition; nothing is taken away, and mash2 goes
// on when it is gone.
func (w *world) testRefused() {
	w.t.Helper()
	const more = 3
	wanted := w.replicas(testbed.Mash2) + more
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(wanted-1), resource.DecimalSI)}},
	}
	w.create(quota)
	w.setMinimum(wanted)
	w.eventually("the Event for the quota", func() string { return w.event("QuotaLimits", "pods of ResourceQuota team has no room for") })
	if now := w.replicas(testbed.Mash2); now >= wanted {
		w.t.Errorf("%d replicas in a quota of %d pods", now, wanted-1)
	}
	w.drop(quota)
	w.eventually("as many as are wanted, without the quota", func() string { return w.fewer(wanted) })

	// The least size of a pod: what is there stays, nothing more is let in.
	limits := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "small"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypePod, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
		}}},
	}
	w.create(limits)
	const said = "maximum cpu usage per Pod is 10m"
	w.eventually("the condition for the LimitRange", func() string {
		// The API server keeps LimitRanges in a cache: what comes too early is let in.
		if ready := w.deployment(testbed.Mash2).Status.ReadyReplicas; ready >= wanted {
			wanted = ready + 1
			w.setMinimum(wanted)
		}
		return w.condition(metav1.ConditionFalse, "PodsRefused", said)
	})
	w.eventually("the Event for the LimitRange", func() string { return w.event("PodsRefused", said) })
	for _, c := range w.cyclesAfter(time.Now(), 3) {
		if p := c.Plan.Workloads[0]; c.Error != "" || p.Held || p.Replicas < wanted {
			w.t.Errorf("cycle %d has %d replicas (held %v), the last good plan %d: %s", c.ID, p.Replicas, p.Held, wanted, c.Error)
		}
	}
	w.drop(limits)
	w.eventually("mash2 to go on without the LimitRange", func() string {
		if left := w.fewer(wanted); left != "" {
			return left
		}
		return w.condition(metav1.ConditionTrue, "", "")
	})
	w.setMinimum(2)
}

// TestRefusedStatefulSet: a StatefulSet has no condition that tells of refused pods. That one is
// missing is said all the same, with where to look, nothing is taken away, and it is over when the
// pod is there again.
func TestRefusedStatefulSet(t *testing.T) {
	const replicas = 2
	w := newWorld(t, testbed.Options{Scenario: scenario(t, 10, scenarios.Stage{Duration: 10 * time.Hour, Target: 10}), Speed: 10, StatefulReplicas: replicas})
	o := w.operator()
	w.Load.Begin()
	set := client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.StatefulName}
	said := func(status metav1.ConditionStatus, message string) string {
		var mw v1alpha1.ManagedWorkload
		if err := w.Client.Get(t.Context(), set, &mw); err != nil {
			return err.Error()
		}
		ready := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != status || !strings.Contains(ready.Message, message) {
			return fmt.Sprintf("it is %+v", ready)
		}
		return ""
	}
	ready := func() (n int32) {
		var s appsv1.StatefulSet
		if err := w.Client.Get(t.Context(), set, &s); err != nil {
			t.Fatal(err)
		}
		return s.Status.ReadyReplicas
	}
	complete := func() string {
		if n := ready(); n < replicas {
			return fmt.Sprintf("%d are Ready", n)
		}
		return said(metav1.ConditionTrue, "")
	}
	w.eventually("all of its pods", complete)
	limits := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "small"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypePod, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")},
		}}},
	}
	w.create(limits)
	last := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: fmt.Sprintf("%s-%d", testbed.StatefulName, replicas-1)}}
	deleted := time.Time{}
	w.eventually("the condition of the StatefulSet's ManagedWorkload", func() string {
		// The API server keeps LimitRanges in a cache: what comes too early is let in.
		if ready() == replicas && time.Since(deleted) > 10*time.Second {
			if err := w.Client.Delete(t.Context(), last.DeepCopy()); err != nil {
				return err.Error()
			}
			deleted = time.Now()
		}
		return said(metav1.ConditionFalse, "kubectl describe statefulset -n "+testbed.Mash2+" "+testbed.StatefulName)
	})
	var s appsv1.StatefulSet
	if err := w.Client.Get(t.Context(), set, &s); err != nil {
		t.Fatal(err)
	}
	if *s.Spec.Replicas != replicas {
		t.Errorf("%d replicas, were %d", *s.Spec.Replicas, replicas)
	}
	w.drop(limits)
	w.eventually("its pod without the LimitRange", complete)
	w.stop(o)
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.Client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) drop(o client.Object) {
	w.t.Helper()
	if err := w.Client.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// setMinimum of the ManagedWorkload's replicas.
func (w *world) setMinimum(replicas int32) {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: testbed.WorkloadName}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"minReplicas":%d}}`, replicas))
	if err := w.Client.Patch(w.t.Context(), mw, patch); err != nil {
		w.t.Fatal(err)
	}
}

// fewer says that fewer pods than this are Ready; "" if they aren't.
func (w *world) fewer(replicas int32) string {
	w.t.Helper()
	if ready := w.deployment(testbed.Mash2).Status.ReadyReplicas; ready < replicas {
		return fmt.Sprintf("%d of %d pods are Ready", ready, replicas)
	}
	return ""
}

// event says that the ManagedWorkload has no Event of this reason with these
// words; "" if it has.
func (w *world) event(reason, words string) string {
	w.t.Helper()
	var events corev1.EventList
	if err := w.Client.List(w.t.Context(), &events, client.InNamespace(testbed.Mash2)); err != nil {
		w.t.Fatal(err)
	}
	var seen []string
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "ManagedWorkload" && e.Reason == reason {
			if strings.Contains(e.Message, words) {
				return ""
			}
			seen = append(seen, e.Message)
		}
	}
	return fmt.Sprintf("Events %s: %q", reason, seen)
}
