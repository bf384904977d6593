package main

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/sensing/slo"
)

// installSLOs defines the objects of Sloth, Pyrra and OpenSLO, as far as mash2 reads them.
func (w *world) installSLOs() {
	w.t.Helper()
	for _, c := range []struct{ group, version, kind string }{
		{slo.GroupSloth, "v1", slo.KindSloth}, {slo.GroupPyrra, "v1alpha1", slo.KindPyrra}, {slo.GroupOpenSLO, "v1", slo.KindOpenSLO},
	} {
		singular := strings.ToLower(c.kind)
		w.apply(fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[2]ss, singular: %[2]s}
  versions:
    - name: %[4]s
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, c.group, singular, c.kind, c.version))
		if out, err := w.Cluster.Kubectl(w.t.Context(), "wait", "--for=condition=Established", "crd/"+singular+"s."+c.group, "--timeout=60s"); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
	}
}

// shopfront counts requests as a service that serves them would: so many a second of the
// world's time, of which a share fails.
type shopfront struct {
	mu     sync.Mutex
	rate   float64
	bad    float64 // share
	at     time.Time
	counts [2]float64 // good, bad
}

func (f *shopfront) count() (good, bad float64) {
	now := time.Now()
	n := f.rate * now.Sub(f.at).Seconds()
	f.at = now
	f.counts[0] += n * (1 - f.bad)
	f.counts[1] += n * f.bad
	return f.counts[0], f.counts[1]
}

// fail makes a share of the requests fail from now on.
func (f *shopfront) fail(share float64) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count()
	f.bad = share
	return time.Now()
}

func (f *shopfront) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	good, bad := f.count()
	fmt.Fprintln(w, "# TYPE http_request_duration_seconds histogram")
	for code, n := range map[string]float64{"200": good, "503": bad} {
		fmt.Fprintf(w, "http_request_duration_seconds_bucket{le=\"+Inf\",code=%q} %d\n", code, int(math.Floor(n)))
		fmt.Fprintf(w, "http_request_duration_seconds_sum{code=%q} 0\n", code)
		fmt.Fprintf(w, "http_request_duration_seconds_count{code=%q} %d\n", code, int(math.Floor(n)))
	}
}

// TestRollback: on a real control plane, a workload with the objective that Sloth
// publishes is given less by a person's slip, 5 % of its requests fail, and within a
// minute its replicas are back. Then mash2 stays out, a restart included, until a person
// ends it. MASH2_ROLLBACK_SPEED=1 runs it in real time.
func TestRollback(t *testing.T) {
	const users = 40
	s := scenario(t, users, scenarios.Stage{Duration: 10 * time.Hour, Target: users})
	s.Workload.Replicas = scenarios.Bounds{Min: 6, Max: 15}
	speed := 6.0
	if text := os.Getenv("MASH2_ROLLBACK_SPEED"); text != "" {
		var err error
		if speed, err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatal(err)
		}
	}
	service := &shopfront{rate: 200 * speed, at: time.Now()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: service, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	w := newWorld(t, testbed.Options{Scenario: s, Speed: speed, Scrape: []cluster.ScrapeJob{{
		Name: "myservice", Targets: []string{listener.Addr().String()}, Labels: map[string]string{"namespace": testbed.Mash2},
	}}})
	w.installSLOs()
	published, err := os.ReadFile("../../sensing/slo/testdata/sloth-getting-started.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.apply(strings.Replace(string(published), "namespace: monitoring", "namespace: "+testbed.Mash2, 1))
	change := func(do func(*v1alpha1.ManagedWorkloadSpec)) {
		t.Helper()
		var mw v1alpha1.ManagedWorkload
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.WorkloadName}, &mw); err != nil {
			t.Fatal(err)
		}
		old := mw.DeepCopy()
		do(&mw.Spec)
		if err := w.Client.Patch(t.Context(), &mw, client.MergeFrom(old)); err != nil {
			t.Fatal(err)
		}
	}
	change(func(spec *v1alpha1.ManagedWorkloadSpec) {
		spec.SLOs = []v1alpha1.SLO{{Name: "availability", Ref: &v1alpha1.SLORef{
			Kind: v1alpha1.SLOSloth, Name: "sloth-slo-my-service", SLO: "requests-availability",
		}}}
		spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](0)},
		}
	})
	const state = "--state-configmap=mash2-state" // as if the next leader were on another node
	o := w.operator(state)
	w.Load.Begin()
	verdict := func() string {
		cycles := w.records()
		if len(cycles) == 0 || len(cycles[len(cycles)-1].Plan.Workloads) == 0 || len(cycles[len(cycles)-1].Plan.Workloads[0].SLOs) == 0 {
			return "no cycle"
		}
		return fmt.Sprintf("%+v", cycles[len(cycles)-1].Plan.Workloads[0].SLOs[0])
	}
	w.eventually("the objective to be proven", func() string {
		if v := verdict(); !strings.Contains(v, "Verdict:Good") {
			return v
		}
		return ""
	})
	before := w.replicas(testbed.Mash2)
	change(func(spec *v1alpha1.ManagedWorkloadSpec) { spec.MinReplicas = ptr.To[int32](2) })
	w.eventually("fewer replicas", func() string {
		if n := w.replicas(testbed.Mash2); n >= before {
			return fmt.Sprintf("%d replicas; %s", n, verdict())
		}
		return ""
	})
	fewer := w.replicas(testbed.Mash2)
	failed := service.fail(0.05)
	scenarioTime := w.Load.ScenarioTime(failed)
	w.eventually("the rollback", func() string {
		if n := w.replicas(testbed.Mash2); n < before {
			return fmt.Sprintf("%d replicas; %s", n, verdict())
		}
		return ""
	})
	took := time.Duration(float64(time.Since(failed)) * speed)
	t.Logf("from %d to %d replicas; %v after the errors began they were %d again (at %g times real time)", before, fewer, took.Round(time.Second), w.replicas(testbed.Mash2), speed)
	// What a busy machine adds is not mash2's: cycles that come late, and looking.
	late := w.latest(scenarioTime)
	if limit := time.Minute + late + 2*time.Duration(float64(time.Second)*(speed-1)); took > limit {
		t.Errorf("taken back after %v, more than %v (cycles came %v late)", took, limit, late)
	}
	service.fail(0)
	w.eventually("the Event", func() string { return w.event(planning.ReasonRolledBack, "the whole plan is back to that of") })

	w.stop(o)
	o = w.operator(state)
	for _, c := range w.cyclesAfter(time.Now(), 12) {
		if c.Plan.Rollback == nil {
			t.Fatalf("cycle %d after a restart goes on: %+v", c.ID, c.Plan.Workloads[0])
		}
	}
	if n := w.replicas(testbed.Mash2); n != before {
		t.Errorf("%d replicas, %d were kept", n, before)
	}
	ended := time.Now().UTC().Format(time.RFC3339)
	if out, err := w.Cluster.Kubectl(t.Context(), "annotate", "configmap", "-n", testbed.Namespace, testbed.PolicyConfigMap, api.AnnotationRollbackEnded+"="+ended); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.eventually("mash2 to go on", func() string {
		if n := w.replicas(testbed.Mash2); n >= before {
			return fmt.Sprintf("%d replicas; %s", n, verdict())
		}
		return ""
	})
	w.stop(o)
}
