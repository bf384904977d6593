package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/planning"
)

// TestCanary: on a real control plane, a workload in mode Canary is left alone while its
// HPA is there, tried beside another one in Shadow after the HPA was handed over, promoted,
// tried again at a person's word, and stopped when 5 % of its requests fail and none of the
// other's. A restart without a disk knows of it.
func TestCanary(t *testing.T) {
	const users, speed = 40, 6.0
	s := scenario(t, users, scenarios.Stage{Duration: 10 * time.Hour, Target: users})
	s.Workload.Replicas = scenarios.Bounds{Min: 2, Max: 15}
	services := map[string]*shopfront{}
	var jobs []cluster.ScrapeJob
	for _, name := range []string{testbed.WorkloadName, testbed.StatefulName} {
		f := &shopfront{rate: 200 * speed, at: time.Now()}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: f, ReadHeaderTimeout: time.Second}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
		services[name] = f
		jobs = append(jobs, cluster.ScrapeJob{
			Name: "service-" + name, Targets: []string{listener.Addr().String()},
			Labels: map[string]string{"namespace": testbed.Mash2, "service": name},
		})
	}
	w := newWorld(t, testbed.Options{Scenario: s, Speed: speed, Scrape: jobs})
	w.statefulSet()
	patch := func(name string, do func(*v1alpha1.ManagedWorkload)) {
		t.Helper()
		mw := w.managed(name)
		old := mw.DeepCopy()
		do(mw)
		if err := w.Client.Patch(t.Context(), mw, client.MergeFrom(old)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]v1alpha1.Mode{testbed.WorkloadName: v1alpha1.ModeCanary, testbed.StatefulName: v1alpha1.ModeShadow} {
		patch(name, func(mw *v1alpha1.ManagedWorkload) {
			mw.Spec.Mode = mode
			query := `sum(rate(http_request_duration_seconds_count{service="` + name + `"%s}[{{.window}}]))`
			mw.Spec.SLOs = []v1alpha1.SLO{{Name: "availability", Prometheus: &v1alpha1.PrometheusSLO{
				Objective: "99.9", ErrorQuery: fmt.Sprintf(query, `,code=~"5.."`), TotalQuery: fmt.Sprintf(query, ""),
			}}}
		})
	}
	theirs := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "theirs"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: testbed.WorkloadName},
			MinReplicas:    ptr.To[int32](6), MaxReplicas: 15,
		},
	}
	if err := w.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	// Blocks are a sixth of a minute here; a trial's times are those of the wall.
	var cm corev1.ConfigMap
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}, &cm); err != nil {
		t.Fatal(err)
	}
	cm.Data["policies.yaml"] = strings.Replace(cm.Data["policies.yaml"], api.CostSaving+":",
		api.CostSaving+":\n    canary: {baseline: 1m, soak: 1m, worseBy: 5, dearerBy: 10, alpha: 0.5}", 1)
	if err := w.Client.Update(t.Context(), &cm); err != nil {
		t.Fatal(err)
	}
	const state = "--state-configmap=mash2-state" // as if the next leader were on another node
	o := w.operator(state)
	w.Load.Begin()
	phase := func(want api.CanaryPhase, words string) func() string {
		return func() string {
			mw := w.managed(testbed.WorkloadName)
			c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionPromoted)
			if mw.Status.Canary == nil || c == nil || mw.Status.Canary.Phase != string(want) || !strings.Contains(c.Message, words) {
				return fmt.Sprintf("%+v, %+v", mw.Status.Canary, c)
			}
			return ""
		}
	}
	w.eventually("it to wait for the HPA", phase(api.CanaryWaiting, "HorizontalPodAutoscaler theirs"))
	// Taken over before, the baseline would have as few replicas as the trial, and what they
	// cost beside their control's would be noise.
	w.eventually("the HPA's replicas", func() string {
		if n := w.replicas(testbed.Mash2); n != *theirs.Spec.MinReplicas {
			return fmt.Sprintf("%d replicas", n)
		}
		return ""
	})
	w.mash2("adopt", "take-over", testbed.Mash2+"/"+testbed.WorkloadName)
	if mode := w.managed(testbed.WorkloadName).Spec.Mode; mode != v1alpha1.ModeCanary {
		t.Errorf("mode %s after the take-over", mode)
	}
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the HPA is there: %v", err)
	}
	w.eventually("the baseline", phase(api.CanaryBaseline, ""))
	w.eventually("the trial", phase(api.CanaryRunning, ""))
	if out, err := w.Cluster.Kubectl(t.Context(), "get", "mw", "-n", testbed.Mash2); err != nil || !strings.Contains(out, "Running") {
		t.Errorf("kubectl get mw: %v: %s", err, out)
	}
	w.eventually("the promotion", phase(api.CanaryPromoted, "canaries are no worse"))
	w.eventually("its Event", func() string { return w.event(planning.ReasonCanaryPromoted, "canaries are no worse") })
	if c := w.managed(testbed.WorkloadName).Status.Canary; !c.Acts || c.With != testbed.StatefulName {
		t.Errorf("promoted: %+v", c)
	}

	again := func() {
		patch(testbed.WorkloadName, func(mw *v1alpha1.ManagedWorkload) {
			mw.Annotations[api.AnnotationCanaryRestarted] = time.Now().Add(time.Second).UTC().Format(time.RFC3339)
		})
	}
	again()
	w.eventually("another trial", phase(api.CanaryRunning, ""))
	failed := services[testbed.WorkloadName].fail(0.05)
	w.eventually("the end of the trial", phase(api.CanaryStopped, "canar"))
	took := time.Duration(float64(time.Since(failed)) * speed)
	t.Logf("stopped %v after the errors began (at %g times real time)", took.Round(time.Second), speed)
	w.eventually("its Event", func() string { return w.event(planning.ReasonCanaryStopped, "the trial was stopped") })
	services[testbed.WorkloadName].fail(0)
	w.stop(o)
	o = w.operator(state)
	for _, c := range w.cyclesAfter(time.Now(), 12) {
		for _, p := range c.Plan.Workloads {
			if p.Key.Name == testbed.WorkloadName && (p.Canary == nil || p.Canary.Phase != api.CanaryStopped || p.Canary.Acts || p.Shadow) {
				t.Fatalf("cycle %d after a restart: %+v", c.ID, p.Canary)
			}
			if p.Key.Name == testbed.StatefulName && !p.Shadow {
				t.Fatalf("the control is written to")
			}
		}
	}
	if n, before := w.replicas(testbed.Mash2), w.beforeTrial(testbed.WorkloadName); n < before {
		t.Errorf("%d replicas, there were %d before the trial", n, before)
	}
	w.stop(o)
}

// beforeTrial is how many replicas a workload had when its last trial began to run, without
// what a move to another pool, which makes new pods first, added to those planned before.
func (w *world) beforeTrial(name string) (replicas int32) {
	w.t.Helper()
	cycles, err := w.Cycles()
	if err != nil {
		w.t.Fatal(err)
	}
	running, planned := false, int32(0)
	for _, c := range cycles {
		for _, p := range c.Plan.Workloads {
			if p.Key.Name != name {
				continue
			}
			now := p.Canary != nil && p.Canary.Phase == api.CanaryRunning
			if now && !running {
				replicas = min(p.Current, planned)
			}
			running, planned = now, p.Replicas
		}
	}
	if replicas == 0 {
		w.t.Fatalf("no trial of %s ran", name)
	}
	return replicas
}

// managed is a ManagedWorkload of mash2's namespace.
func (w *world) managed(name string) *v1alpha1.ManagedWorkload {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: name}, mw); err != nil {
		w.t.Fatal(err)
	}
	return mw
}
