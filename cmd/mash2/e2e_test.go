package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/planning/node"
)

// TestEndToEnd: from a real API server to real resizes, and all that a user
// sees of it.
func TestEndToEnd(t *testing.T) {
	solver := "ffd"
	if slices.Contains(node.Solvers(), "ilp") {
		solver = "ilp"
	}
	w := newWorld(t, testbed.Options{
		Scenario: scenario(t, 10,
			scenarios.Stage{Duration: time.Minute, Target: 10},
			scenarios.Stage{Duration: 3 * time.Minute, Target: 300},
			scenarios.Stage{Duration: 10 * time.Hour, Target: 300},
		),
		Speed: 12, Baseline: true,
	})
	least, pool := w.replicas(testbed.Mash2), w.PoolOf(api.CostSaving)
	first := w.instances(pool)
	metrics, health := freeAddress(t), freeAddress(t)
	o := w.operator("--solver", solver, "--metrics-bind-address", metrics, "--metrics-insecure", "--health-probe-bind-address", health)
	w.Load.Begin()
	w.eventually("the workload and its pool to grow", func() string {
		ready, now := w.deployment(testbed.Mash2).Status.ReadyReplicas, w.instances(pool)
		if ready < least+4 || now <= first {
			return fmt.Sprintf("%d → %d Ready replicas, %d → %d nodes", least, ready, first, now)
		}
		return ""
	})

	t.Run("scale subresource", func(t *testing.T) {
		w := w.in(t)
		i := slices.IndexFunc(w.deployment(testbed.Mash2).ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == api.FieldManager && f.Subresource == "scale" && f.Operation == metav1.ManagedFieldsOperationApply
		})
		if i < 0 {
			t.Errorf("%s has not applied to the scale subresource: %v", api.FieldManager, w.deployment(testbed.Mash2).ManagedFields)
		}
	})
	t.Run("plan", func(t *testing.T) {
		w := w.in(t)
		w.until("a packing by "+solver, func(c api.Cycle) bool { return c.Plan.Nodes.Solver == solver })
		w.until("candidates that lost", func(c api.Cycle) bool { return len(c.Plan.Candidates) > 0 })
	})
	t.Run("status", func(t *testing.T) { testStatus(t, w.in(t), least) })
	t.Run("events", func(t *testing.T) {
		w := w.in(t)
		w.eventually("an Event of a scaling on the ManagedWorkload", func() string {
			var list corev1.EventList
			if err := w.Client.List(t.Context(), &list, client.InNamespace(testbed.Mash2)); err != nil {
				return err.Error()
			}
			for _, e := range list.Items {
				if e.InvolvedObject.Kind == "ManagedWorkload" && e.InvolvedObject.Name == testbed.WorkloadName && strings.Contains(e.Message, "scale") {
					return ""
				}
			}
			return fmt.Sprintf("not among %d Events", len(list.Items))
		})
	})
	t.Run("metrics", func(t *testing.T) {
		body := get(t, "http://"+metrics+"/metrics")
		for _, name := range []string{"mash2_workload_replicas{", "mash2_cycle_step_duration_seconds_bucket{", "mash2_pool_cost_usd_per_hour{"} {
			if !strings.Contains(body, "\n"+name) {
				t.Errorf("/metrics does not serve %s", name)
			}
		}
	})
	t.Run("health", func(t *testing.T) {
		get(t, "http://"+health+"/healthz")
		get(t, "http://"+health+"/readyz")
	})
	t.Run("pools of nobody", func(t *testing.T) { testUnnamedPool(t, w.in(t)) })
	t.Run("commands", func(t *testing.T) { testCommands(t, w.in(t), solver) })
	w.stop(o)
	t.Logf("%d → %d replicas, %d → %d nodes, packed by %s", least, w.replicas(testbed.Mash2), first, w.instances(pool), solver)
}

// testStatus: what kubectl shows.
func testStatus(t *testing.T, w *world, least int32) {
	w.eventually("the status", func() string {
		mw := &v1alpha1.ManagedWorkload{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.WorkloadName}, mw); err != nil {
			return err.Error()
		}
		s := mw.Status
		ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		switch {
		case ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != mw.Generation || s.ObservedGeneration != mw.Generation:
			return fmt.Sprintf("not Ready at generation %d: %+v", mw.Generation, s)
		case s.CurrentReplicas == nil || *s.CurrentReplicas <= least || s.PlannedReplicas == nil || *s.PlannedReplicas <= least:
			return fmt.Sprintf("replicas are not told: %+v", s)
		case s.Policy != api.CostSaving || s.NodePool != w.PoolOf(api.CostSaving) || s.Reason == "":
			return fmt.Sprintf("intent is not told: %+v", s)
		}
		return ""
	})
	out, err := w.Cluster.Kubectl(t.Context(), "get", "mw", "-n", testbed.Mash2)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 {
		t.Fatalf("kubectl get mw prints\n%s", out)
	}
	row := strings.Fields(lines[1])
	for i, column := range strings.Fields(lines[0]) {
		if i >= len(row) {
			break
		}
		_, err := strconv.Atoi(row[i])
		switch column {
		case "TARGET":
			if row[i] != testbed.WorkloadName {
				t.Errorf("TARGET is %q, want %q", row[i], testbed.WorkloadName)
			}
		case "CURRENT", "PLANNED":
			if err != nil {
				t.Errorf("%s is %q, not a number", column, row[i])
			}
		}
	}
	for _, column := range []string{"TARGET", "CURRENT", "PLANNED"} {
		if !slices.Contains(strings.Fields(lines[0]), column) {
			t.Errorf("kubectl get mw has no column %s:\n%s", column, out)
		}
	}
}

// testUnnamedPool: mash2 leaves alone the pool that no policy names.
func testUnnamedPool(t *testing.T, w *world) {
	theirs := map[string]bool{"pool " + testbed.BaselinePool: true}
	for _, l := range w.GKE.Ledger() {
		if l.Pool == testbed.BaselinePool {
			theirs["node "+l.Node] = true
		}
	}
	if len(theirs) < 2 {
		t.Fatal("the pool has no nodes")
	}
	seen := false
	for _, c := range w.records() {
		for _, p := range c.Pools {
			if p.Name == testbed.BaselinePool {
				seen = true
				if p.Managed {
					t.Errorf("cycle %d manages pool %s", c.ID, p.Name)
				}
			}
		}
		for _, out := range c.Outcomes {
			if theirs[out.Object.String()] {
				t.Errorf("cycle %d: %s", c.ID, out.Action)
			}
		}
	}
	if !seen {
		t.Errorf("no cycle has seen pool %s", testbed.BaselinePool)
	}
	var nodes corev1.NodeList
	if err := w.Client.List(t.Context(), &nodes, client.MatchingLabels{api.LabelNodePool: testbed.BaselinePool}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if _, ours := n.Annotations[api.AnnotationCordonedFor]; ours {
			t.Errorf("node %s of pool %s is cordoned", n.Name, testbed.BaselinePool)
		}
	}
}

// testCommands: the small commands' JSON.
func testCommands(t *testing.T, w *world, solver string) {
	var policy struct {
		Active   string
		Policies []string
		Paused   bool
	}
	if err := json.Unmarshal([]byte(w.mash2("policy", "get", "-o", "json")), &policy); err != nil {
		t.Fatal(err)
	}
	if policy.Active != api.CostSaving || policy.Paused || !slices.Contains(policy.Policies, api.Performance) {
		t.Errorf("policy get: %+v", policy)
	}
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"version", "-o", "json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("version: exit code %d: %s", code, stderr.String())
	}
	var version struct {
		Version string
		Solvers []string
	}
	if err := json.Unmarshal([]byte(stdout.String()), &version); err != nil {
		t.Fatal(err)
	}
	if version.Version == "" || !slices.Contains(version.Solvers, solver) {
		t.Errorf("version: %+v", version)
	}
}

// instances is how many machines a pool has.
func (w *world) instances(pool string) int {
	n := 0
	for _, l := range w.GKE.Ledger() {
		if l.Pool == pool && l.Deleted.IsZero() {
			n++
		}
	}
	return n
}

// get returns the body of a page that must be there.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s %v", url, resp.Status, body, err)
	}
	return string(body)
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// TestLearnsAnotherPeriod: nothing states a scenario's period: a load of
// another one is learnt by the same binary.
func TestLearnsAnotherPeriod(t *testing.T) {
	const period, speed = 200 * time.Second, 20
	w := newWorld(t, testbed.Options{
		Scenario: scenario(t, 20,
			scenarios.Stage{Duration: 10 * time.Second, Target: 200},
			scenarios.Stage{Duration: 80 * time.Second, Target: 200},
			scenarios.Stage{Duration: 10 * time.Second, Target: 20},
			scenarios.Stage{Duration: 100 * time.Second, Target: 20},
		),
		Speed: speed, Passes: 100,
	})
	o := w.operator()
	w.Load.Begin()
	want := period.Seconds() / speed
	c := w.until("a forecast with the period of the load", func(c api.Cycle) bool {
		if len(c.Plan.Workloads) == 0 || c.Plan.Workloads[0].Forecast == nil {
			return false
		}
		return slices.ContainsFunc(c.Plan.Workloads[0].Forecast.Seasons, func(s time.Duration) bool {
			return s.Seconds() > 0.95*want && s.Seconds() < 1.05*want
		})
	})
	f := c.Plan.Workloads[0].Forecast
	t.Logf("after %.1f periods: %s with seasons %v, the load's is %.4gs",
		w.Load.ScenarioTime(c.Time).Seconds()/period.Seconds(), f.Model, f.Seasons, want)
	w.stop(o)
}
