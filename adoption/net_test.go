package adoption

import (
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// A safety net is no other autoscaler: it is not adopted, taken over or
// compared with, and it goes before the other one comes back.
func TestSafetyNet(t *testing.T) {
	b := newBed(t, true, hpa(), adopted(t), target())
	if err := b.adoption.SafetyNet(t.Context(), web, time.Minute); err == nil || !strings.Contains(err.Error(), "is in Shadow") {
		t.Errorf("beside somebody who scales: %v", err)
	}
	if err := b.adoption.TakeOver(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{time.Minute, 10 * time.Minute} { // the second is a change
		if err := b.adoption.SafetyNet(t.Context(), web, after); err != nil {
			t.Fatal(err)
		}
	}
	nets := func() []autoscalingv2.HorizontalPodAutoscaler {
		t.Helper()
		all, err := b.adoption.hpas(t.Context(), web.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := nets()
	if len(all) != 1 {
		t.Fatalf("%d HPAs", len(all))
	}
	net := all[0].Spec
	if *net.MinReplicas != 2 || net.MaxReplicas != 7 || *net.Metrics[0].Resource.Target.AverageUtilization != 90 ||
		*net.Behavior.ScaleUp.StabilizationWindowSeconds != 600 || *net.Behavior.ScaleDown.SelectPolicy != autoscalingv2.DisabledPolicySelect {
		t.Errorf("net %+v", net)
	}
	if found, err := b.adoption.Find(t.Context(), nil); err != nil || len(found) != 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, ok, err := b.adoption.Desired(t.Context(), b.workload()); ok || err != nil {
		t.Errorf("it is compared with: %v", err)
	}
	if err := b.adoption.TakeOver(t.Context(), web); err != nil || len(nets()) != 1 {
		t.Errorf("taken over again: %v, %d HPAs", err, len(nets()))
	}
	if err := b.adoption.Release(t.Context(), web, false); err != nil {
		t.Fatal(err)
	}
	if all := nets(); len(all) != 1 || isNet(&all[0]) {
		t.Errorf("after the release: %+v", all)
	}
}

// A net is ten points above what the workload asks for, and within what
// requests allow.
func TestSafetyNetTarget(t *testing.T) {
	for target, want := range map[int32]int32{0: 90, 40: 50, 95: 100, 100: 100} {
		w := &v1alpha1.ManagedWorkload{Spec: v1alpha1.ManagedWorkloadSpec{MaxReplicas: 3}}
		if target > 0 {
			w.Spec.TargetUtilizationPercent = ptr.To(target)
		}
		if got := *netOf(w, time.Minute).Spec.Metrics[0].Resource.Target.AverageUtilization; got != want {
			t.Errorf("of %d: %d, want %d", target, got, want)
		}
	}
}
