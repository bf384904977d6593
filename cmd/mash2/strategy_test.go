package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/execution/webhook"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// mash2Command runs mash2 and returns its exit code, output and what it complained of.
func mash2Command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	code = run(t.Context(), args, &out, &complaints)
	return code, out.String(), complaints.String()
}

func TestStrategyCheck(t *testing.T) {
	if code, out, err := mash2Command(t, "strategy", "check", "../../docs/examples/edge-or-cloud.yaml", "-o", "json"); code != 0 || out != "{\"strategies\":[\"shop/edge-or-cloud\"]}\n" {
		t.Errorf("the example: %d %q %q", code, out, err)
	}
	file := filepath.Join(t.TempDir(), "wrong.yaml")
	text := "apiVersion: mash2.io/v1alpha1\nkind: Strategy\nmetadata: {name: s}\nspec:\n  rules: [{name: r, when: load > 5, actions: [{setPolicy: {policy: P}}]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, err := mash2Command(t, "strategy", "check", file); code != 2 || !strings.Contains(err, "spec.rules[0].when: ERROR") {
		t.Errorf("a sensor that there isn't: %d %q", code, err)
	}
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(policies, []byte("policies:\n  COST_SAVING: {nodePools: [a]}\n  PERFORMANCE: {nodePools: [a]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sensor := "  sensors: [{name: load, prometheus: {query: '%s'}, when: {interval: {every: 1m}}}]\n"
	for want, text := range map[string]string{
		"shop/s: spec.sensors[0].prometheus.query: ": fmt.Sprintf(sensor, "sum(rate(x[5m)") + "  rules: [{name: r, when: load > 5, actions: [{setPolicy: {policy: PERFORMANCE}}]}]\n",
		"shop/s: spec.rules[0].actions[0].setPolicy.policy: there is no policy \"FAST\": want one of COST_SAVING, PERFORMANCE": fmt.Sprintf(sensor, "sum(x)") + "  rules: [{name: r, when: load > 5, actions: [{setPolicy: {policy: FAST}}]}]\n",
	} {
		if err := os.WriteFile(file, []byte("apiVersion: mash2.io/v1alpha1\nkind: Strategy\nmetadata: {name: s, namespace: shop}\nspec:\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out, err := mash2Command(t, "strategy", "check", file, "--policies-file", policies); code != 2 || !strings.Contains(err, want) {
			t.Errorf("%d %q %q, want %q", code, out, err, want)
		}
	}
	for _, args := range [][]string{{"check"}, {"check", "no-such-file"}, {"chekc"}, {"run"}, {"run", "--file", file, "--inputs", file}} {
		if code, _, err := mash2Command(t, append([]string{"strategy"}, args...)...); code != 2 || err == "" {
			t.Errorf("%v: %d %q", args, code, err)
		}
	}
}

// TestStrategyRun: the example on recorded inputs moves once, with a reason, and gives the
// same bytes each time.
func TestStrategyRun(t *testing.T) {
	args := []string{"strategy", "run", "--file", "../../docs/examples/edge-or-cloud.yaml", "--inputs", "../../docs/examples/edge-or-cloud.jsonl"}
	misspelt := filepath.Join(t.TempDir(), "inputs.jsonl")
	if err := os.WriteFile(misspelt, []byte(`{"time":"2026-03-02T09:00:00Z","policy":"COST_SAVING","sensors":{"cloudLatensy":0.13}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, err := mash2Command(t, append(args[:4:4], "--inputs", misspelt)...); code != 2 || !strings.Contains(err, `no strategy has a sensor "cloudLatensy": want cloudLatency, `) {
		t.Errorf("a misspelt sensor: %d %q", code, err)
	}
	code, first, complaint := mash2Command(t, append(args, "-o", "json")...)
	if code != 0 {
		t.Fatalf("%d: %s", code, complaint)
	}
	if _, again, _ := mash2Command(t, append(args, "-o", "json")...); again != first {
		t.Error("two runs differ")
	}
	var v struct {
		Steps []struct {
			Actions []struct {
				Pools  []string
				Reason string
			}
		}
	}
	if err := json.Unmarshal([]byte(first), &v); err != nil {
		t.Fatal(err)
	}
	pools, moves := "", -1
	for _, s := range v.Steps {
		if now := fmt.Sprint(s.Actions[0].Pools); now != pools {
			pools = now
			moves++
		}
		if s.Actions[0].Reason == "" {
			t.Error("an action without a reason")
		}
	}
	if moves != 1 || pools != "[edge-pool]" {
		t.Errorf("%d moves, at last to %s", moves, pools)
	}
	// The two moments of the move, and those from which on a sensor can't be read and can.
	if _, text, _ := mash2Command(t, args...); strings.Count(text, "shop/edge-or-cloud, choose: pools") != 4 || strings.Count(text, "edgeLatency has no value: it could not be read") != 1 {
		t.Errorf("for people: %s", text)
	}
}

// TestStrategyRunLearns: what learns gives the same bytes each time, recommends, and says so;
// the page has what it is told.
func TestStrategyRunLearns(t *testing.T) {
	const example = "../../docs/examples/learn-policy"
	args := []string{"strategy", "run", "--file", example + ".yaml", "--inputs", example + ".jsonl"}
	code, first, complaint := mash2Command(t, append(args, "-o", "json")...)
	if code != 0 {
		t.Fatalf("%d: %s", code, complaint)
	}
	if _, again, _ := mash2Command(t, append(args, "-o", "json")...); again != first {
		t.Error("two runs differ")
	}
	if !strings.Contains(first, `"recommended":"PERFORMANCE"`) || strings.Contains(first, `"acts":true`) {
		t.Error("it recommends nothing, or acts")
	}
	if _, text, _ := mash2Command(t, args...); !strings.Contains(text, "learn: policy COST_SAVING; not done: it is a recommendation") {
		t.Errorf("for people: %s", text)
	}
	page, err := os.ReadFile("../../docs/how-to/strategies.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(example + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, learn, _ := strings.Cut(string(text), "  learn:\n")
	for line := range strings.Lines(learn) {
		if !strings.Contains(string(page), strings.TrimSpace(line)) {
			t.Errorf("docs/how-to/strategies.md has no line %q", line)
		}
	}
}

// ruled is a Strategy of the testbed's namespace whose one rule is always on.
func ruled(name, action string) string {
	return fmt.Sprintf("apiVersion: mash2.io/v1alpha1\nkind: Strategy\nmetadata: {name: %s, namespace: %s}\nspec: {rules: [{name: always, when: 'true', actions: [%s]}]}\n",
		name, testbed.Mash2, action)
}

// visitors is a host that strategies ask for a number and call.
type visitors struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []http.Header
	bodies []string
}

func newVisitors(t *testing.T) *visitors {
	v := &visitors{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(rw, `{"visitors": [35]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.calls, v.bodies = append(v.calls, r.Header), append(v.bodies, string(body))
	}))
	t.Cleanup(v.Close)
	return v
}

// installStrategies adds a signal that is off, a Strategy that asks for what there is
// anyway, and one that reads a Service and a host and calls it. It returns the chart's
// values and arguments for them.
func (w *world) installStrategies(host *visitors) (values string, args []string) {
	w.t.Helper()
	w.apply(fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: doors, namespace: %s}\nspec: {ports: [{port: 7}]}\n", testbed.Mash2))
	w.apply(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {campaign: 'off'}\n", api.SignalsConfigMap, testbed.Namespace))
	var policy corev1.ConfigMap
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}, &policy); err != nil {
		w.t.Fatal(err)
	}
	policy.Data["policies.yaml"] += "\nsignals: [{name: campaign, configMapKey: campaign, equals: 'on', policy: " + api.Performance + "}]\n"
	w.update(&policy)
	w.apply(ruled("asks", "{proposeReplicas: {workload: "+testbed.WorkloadName+", replicas: '1'}}"))
	w.apply(reading("reads", host.URL))
	allowed := testbed.Mash2 + "/" + strings.TrimPrefix(host.URL, "http://")
	key := filepath.Join(w.t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(webhookKey), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return "strategies.sensorHosts={" + allowed + "},strategies.webhookHosts={" + allowed + "}," +
		"strategies.readableResources[0].apiGroup=,strategies.readableResources[0].resources={services}", []string{"--webhook-key-file=" + key}
}

const webhookKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// reading is a Strategy that is on where it reads 35 visitors of a host, and a Service of
// port 7.
func reading(name, host string) string {
	return fmt.Sprintf(`apiVersion: mash2.io/v1alpha1
kind: Strategy
metadata: {name: %s, namespace: %s}
spec:
  sensors:
    - {name: visitors, http: {url: %s/today, jsonPath: "{.visitors[0]}"}}
    - {name: doors, object: {resource: services, name: doors, jsonPath: "{.spec.ports[0].port}"}}
  rules: [{name: crowd, when: visitors / doors == 5.0, actions: [{proposeReplicas: {workload: %s, replicas: '1'}}, {callWebhook: {url: %s/hook}}]}]
`, name, testbed.Mash2, host, testbed.WorkloadName, host)
}

// testStrategies: the Strategy's status says what came of it, the signal was read, and only
// who may do what a strategy does may write one.
func testStrategies(t *testing.T, w *world, host *visitors) {
	for name, active := range map[string]string{"asks": "always", "reads": "crowd"} {
		w.eventually("the status of Strategy "+name, func() string {
			var s v1alpha1.Strategy
			if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: name}, &s); err != nil {
				return err.Error()
			}
			if ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue || s.Status.Active != active {
				return fmt.Sprintf("%+v", s.Status)
			}
			return ""
		})
	}
	w.eventually("the call of the webhook", func() string {
		host.mu.Lock()
		defer host.mu.Unlock()
		if len(host.calls) == 0 {
			return "none"
		}
		return ""
	})
	// Called once, however many cycles the rule has been on.
	host.mu.Lock()
	calls, bodies := host.calls, host.bodies
	host.mu.Unlock()
	key, err := webhook.ParseKey(webhookKey)
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 || !strings.Contains(bodies[0], `"rule":"crowd","reason":"\"visitors / doors == 5.0\" is true`) ||
		calls[0].Get("webhook-signature") != webhook.Sign(key, calls[0].Get("webhook-id"), calls[0].Get("webhook-timestamp"), bodies[0]) {
		t.Errorf("%d calls: %v, %v", len(calls), calls, bodies)
	}
	w.eventually("the signal to be read", func() string { return w.lastFinds("SignalUnreadable", false) })
	const author = "bob"
	for _, args := range [][]string{
		{"create", "role", "strategist", "-n", testbed.Mash2, "--verb=create,get,patch", "--resource=strategies.mash2.io"},
		{"create", "rolebinding", "strategist", "-n", testbed.Mash2, "--role=strategist", "--user=" + author},
	} {
		if out, err := w.Cluster.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	apply := func(text string) string {
		file := filepath.Join(t.TempDir(), "strategy.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Cluster.Kubectl(t.Context(), "apply", "--as="+author, "-f", file); err != nil {
			return err.Error()
		}
		return ""
	}
	try := func(name, action string) string { return apply(ruled(name, action)) }
	const bounds = "{setBounds: {workload: " + testbed.WorkloadName + ", minReplicas: 1}}"
	const oneMove = "{move: {pools: [a], workload: " + testbed.WorkloadName + "}}"
	choice := "apiVersion: mash2.io/v1alpha1\nkind: Strategy\nmetadata: {name: bobs, namespace: " + testbed.Mash2 +
		"}\nspec: {mode: Shadow, choose: {workload: " + testbed.WorkloadName + ", score: '1', candidates: [{name: a, pools: [a]}, {name: b, pools: [b]}]}}\n"
	if got, want := apply(choice), "may not patch the ManagedWorkload that it names"; !strings.Contains(got, want) {
		t.Errorf("%q, want it refused with %q", got, want)
	}
	for action, want := range map[string]string{
		"{setPolicy: {policy: " + api.Performance + "}}": "may not patch the policy",
		"{move: {pools: [a]}}":                           "may not patch the policy",
		oneMove:                                          "may not patch every ManagedWorkload that move names",
		bounds:                                           "may not patch every ManagedWorkload that setBounds names",
		"{proposeReplicas: {workload: x, replicas: '1'}}": "may not patch every ManagedWorkload that proposeReplicas names",
	} {
		if got := try("bobs", action); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want it refused with %q", action, got, want)
		}
	}
	learns := func(act bool) string {
		return fmt.Sprintf("apiVersion: mash2.io/v1alpha1\nkind: Strategy\nmetadata: {name: bobs, namespace: %s}\n"+
			"spec: {learn: {policies: [A, B], round: 1h, context: {always: '1.0'}, reward: '0.5', act: %v}}\n", testbed.Mash2, act)
	}
	if got := apply(learns(true)); !strings.Contains(got, "may not patch the policy") {
		t.Errorf("learn with act: %q, want it refused", got)
	}
	if got := apply(learns(false)); got != "" {
		t.Errorf("learn that recommends: %q, want it admitted", got)
	}
	// A rule of somebody's who may set the policy: to trigger it takes the same right.
	boss := strings.Replace(ruled("boss", "{setPolicy: {policy: "+api.Performance+"}}"), "spec: {", "spec: {mode: Shadow, ", 1)
	file := filepath.Join(t.TempDir(), "boss.yaml")
	if err := os.WriteFile(file, []byte(boss), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := w.Cluster.Kubectl(t.Context(), "apply", "-f", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for annotation, want := range map[string]string{api.AnnotationTriggered + `={"rule/r":"2026-01-01T00:00:00Z"}`: "may not patch the policy", "note=mine": ""} {
		_, err := w.Cluster.Kubectl(t.Context(), "annotate", "strategies.mash2.io", "boss", "-n", testbed.Mash2, "--as="+author, annotation)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("annotate %s: %v, want %q", annotation, err, want)
		}
	}
	if out, err := w.Cluster.Kubectl(t.Context(), "delete", "-f", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	spy := strings.Replace(reading("bobs", "http://127.0.0.1"), "{proposeReplicas: {workload: "+testbed.WorkloadName+", replicas: '1'}}, ", "", 1)
	for text, want := range map[string]string{
		spy: "may not get every object that a sensor reads",
		strings.Replace(spy, "resource: services", "resource: secrets", 1): "no numbers of secrets",
	} {
		if got := apply(text); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want it refused with %q", text, got, want)
		}
	}
	for _, args := range [][]string{
		{"create", "role", "bounds", "-n", testbed.Mash2, "--verb=patch", "--resource=managedworkloads.mash2.io", "--resource-name=" + testbed.WorkloadName},
		{"create", "rolebinding", "bounds", "-n", testbed.Mash2, "--role=bounds", "--user=" + author},
	} {
		if out, err := w.Cluster.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	w.eventually("who may patch the ManagedWorkload to be let in", func() string { return try("bobs", bounds) })
	for name, got := range map[string]string{"a choice": apply(choice), "a move": try("bobs", oneMove), "bounds": try("bobs", bounds)} {
		if got != "" {
			t.Errorf("%s for one workload by who may patch it: %s", name, got)
		}
	}
}

// TestStrategiesPage: what the page shows of the example is what the command prints, and its
// strategy is the example's.
func TestStrategiesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/strategies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := mash2Command(t, "strategy", "run", "--file", "../../docs/examples/edge-or-cloud.yaml", "--inputs", "../../docs/examples/edge-or-cloud.jsonl")
	for line := range strings.Lines(text) {
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/how-to/strategies.md has no line %q", line)
		}
	}
	example, err := os.ReadFile("../../docs/examples/edge-or-cloud.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, spec, _ := strings.Cut(string(example), "spec:\n")
	for line := range strings.Lines(spec) {
		code, _, _ := strings.Cut(line, " #")
		if !strings.Contains(string(page), strings.TrimRight(code, " \n")) {
			t.Errorf("docs/how-to/strategies.md has no line %q", line)
		}
	}
}
