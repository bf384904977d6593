package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// Environment of a test binary that is executed as the program.
const (
	envProgram = "MASH2_TEST_AS_PROGRAM"
	// ofImage as its value is the program of the image.
	ofImage = "image"
	// envKill is "N:before" or "N:after": the operator kills itself by SIGKILL
	// right before or right after its N-th action. "each" is before the first
	// action that none was killed before, or after the first that none was killed
	// after, by what envKilled says.
	envKill = "MASH2_TEST_KILL"
	// With "frozen" it stops itself by SIGSTOP before its first action.
	// envKilled has a line for each "before DEED" and "after DEED" there was.
	envKilled = "MASH2_TEST_KILLED"
)

// TestMain is mash2 itself where the environment says so: the operators under
// test are this binary.
func TestMain(m *testing.M) {
	if os.Getenv(envProgram) == "" {
		os.Exit(m.Run())
	}
	program := program()
	if os.Getenv(envProgram) == ofImage {
		program.Commands = nil // as of cmd/mash2-operator
	}
	if plan := os.Getenv(envKill); plan != "" {
		wrap, err := suicidal(plan)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(cli.ExitUsage)
		}
		program.WrapActuator = wrap
	}
	program.Main()
}

// run executes one command line of this program and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return program().Run(ctx, args, stdout, stderr)
}

// world is an experiment with the operators that tests start on it.
type world struct {
	*testbed.Testbed
	t *testing.T
}

// newWorld starts an experiment that ends with the test.
func newWorld(t *testing.T, o testbed.Options) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a whole cluster")
	}
	o.Dir = t.TempDir()
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Passes == 0 {
		o.Passes = 1
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // the control plane may have to be built
	defer cancel()
	bed, err := testbed.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{bed, t}
	t.Cleanup(func() {
		if t.Failed() {
			w.dump()
		}
		if err := bed.Stop(); err != nil {
			t.Errorf("stopping the experiment: %v", err)
		}
	})
	return w
}

// in is the same world for a subtest.
func (w *world) in(t *testing.T) *world { return &world{w.Testbed, t} }

// scenario is Heartbeat's workload under another load: start users at once,
// then the stages.
func scenario(t *testing.T, start int, stages ...scenarios.Stage) scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	s.Name, s.StartVUs, s.Stages = t.Name(), &start, stages
	return s
}

// operator starts this binary as the operator and waits for its first cycle.
func (w *world) operator(extra ...string) *testbed.Operator {
	w.t.Helper()
	from := time.Now()
	o := w.launch(nil, extra...)
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.WaitLeading(ctx, o, from); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// launch starts this binary as the operator.
func (w *world) launch(env []string, extra ...string) *testbed.Operator {
	w.t.Helper()
	program, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	args := append([]string{"--leader-elect=false", "--verbose"}, extra...)
	o, err := w.StartOperator(program, append(env, envProgram+"=1"), args...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(o.Kill)
	return o
}

// stop ends an operator as Kubernetes does.
func (w *world) stop(o *testbed.Operator) {
	w.t.Helper()
	if err := o.Stop(); err != nil {
		w.t.Errorf("the operator ended: %v", err)
	}
}

// mash2 runs a command line on the experiment's cluster and returns what it
// printed.
func (w *world) mash2(args ...string) string {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	args = append(args, "--kubeconfig", w.Cluster.Kubeconfig)
	if code := run(w.t.Context(), args, &stdout, &stderr); code != 0 {
		w.t.Fatalf("mash2 %s: exit code %d: %s", strings.Join(args, " "), code, stderr.String())
	}
	return stdout.String()
}

// records are the cycles so far.
func (w *world) records() []api.Cycle {
	w.t.Helper()
	cycles, err := w.Cycles()
	if err != nil {
		w.t.Fatal(err)
	}
	return cycles
}

// cyclesAfter waits for n cycles that started after from, and returns all those.
func (w *world) cyclesAfter(from time.Time, n int) []api.Cycle {
	w.t.Helper()
	var after []api.Cycle
	w.eventually("further cycles", func() string {
		after = after[:0]
		for _, c := range w.records() {
			if c.Time.After(from) {
				after = append(after, c)
			}
		}
		if len(after) < n {
			return fmt.Sprintf("%d of %d", len(after), n)
		}
		return ""
	})
	return after
}

// patience is the limit of every wait, generous because a machine may have much
// else to do: it only says when to give up.
const patience = 5 * time.Minute

// eventually polls until missing returns "".
func (w *world) eventually(what string, missing func() string) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		left := missing()
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("waiting for %s: %s", what, left)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatalf("waiting for %s: %v", what, w.t.Context().Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// until waits for a cycle for which ok holds, and returns it.
func (w *world) until(what string, ok func(api.Cycle) bool) api.Cycle {
	w.t.Helper()
	var found api.Cycle
	w.eventually(what, func() string {
		for _, c := range w.records() {
			if ok(c) {
				found = c
				return ""
			}
		}
		return "no such cycle yet"
	})
	return found
}

// deployment is the workload of a scaler.
func (w *world) deployment(scaler string) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: scaler, Name: testbed.WorkloadName}, d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) replicas(scaler string) int32 {
	w.t.Helper()
	return *w.deployment(scaler).Spec.Replicas
}

// result is how a workload of mash2's fared since the load began.
func (w *world) result(name string) load.WorkloadResult {
	w.t.Helper()
	for _, r := range w.Load.Results().Workloads {
		if r.Namespace == testbed.Mash2 && r.Name == name {
			return r
		}
	}
	w.t.Fatalf("there are no results of mash2's workload %s", name)
	return load.WorkloadResult{}
}

// served fails the test unless no request to the Deployment has failed and never
// fewer than least of its pods were Ready since the load began.
func (w *world) served(least int32) {
	w.t.Helper()
	w.servedBy(testbed.WorkloadName, least)
}

// servedBy is served for a workload by name.
func (w *world) servedBy(name string, least int32) {
	w.t.Helper()
	r := w.result(name).Measured
	w.t.Logf("%s, %.0f s of scenario time: %d requests, %d failed, least Ready pods %d", name, r.SimulatedSeconds, r.Requests, r.Failed, r.MinReadyPods)
	if r.Requests == 0 {
		w.t.Error("there were no requests")
	}
	if r.Failed != 0 {
		w.t.Errorf("%d of %d requests failed: %d refused, %d reset, %d timed out", r.Failed, r.Requests, r.Refused, r.Reset, r.TimedOut)
	}
	if r.MinReadyPods < least {
		w.t.Errorf("only %d pods were Ready at some moment, want at least %d", r.MinReadyPods, least)
	}
}

// notMovedTo says what keeps the workload from running on this policy's pool
// alone, with nothing left behind; "" if it does.
func (w *world) notMovedTo(policy string) string {
	w.t.Helper()
	pool := w.PoolOf(policy)
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := w.Client.List(w.t.Context(), &nodes); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Client.List(w.t.Context(), &pods, client.InNamespace(testbed.Mash2)); err != nil {
		w.t.Fatal(err)
	}
	on := map[string]string{}
	for _, n := range nodes.Items {
		on[n.Name] = n.Labels[api.LabelNodePool]
		if _, ours := n.Annotations[api.AnnotationCordonedFor]; ours {
			return "node " + n.Name + " is cordoned"
		}
	}
	for _, l := range w.GKE.Ledger() {
		if l.Deleted.IsZero() && l.Pool != pool {
			return fmt.Sprintf("pool %s still has an instance", l.Pool)
		}
	}
	if len(pods.Items) == 0 {
		return "there are no pods"
	}
	for _, p := range pods.Items {
		if on[p.Spec.NodeName] != pool {
			return fmt.Sprintf("pod %s is on pool %q", p.Name, on[p.Spec.NodeName])
		}
		if _, ours := p.Annotations[api.AnnotationDeletionCostSet]; ours {
			return "pod " + p.Name + " has a deletion cost"
		}
	}
	return ""
}

// dump prints what a failure is understood from.
func (w *world) dump() {
	w.t.Logf("the operator's log ends with:\n%s", testbed.Tail(w.OperatorLog(), 60))
	cycles, err := w.Cycles()
	if err != nil {
		w.t.Logf("the cycle log: %v", err)
	}
	for _, c := range cycles[max(0, len(cycles)-8):] {
		line := fmt.Sprintf("cycle %d at %v: policy %s", c.ID, w.Load.ScenarioTime(c.Time).Round(time.Second), c.Policy.Name)
		for _, p := range c.Plan.Workloads {
			line += fmt.Sprintf("\n  %s %d → %d (%s): %s", p.Key, p.Current, p.Replicas, p.Binding, p.Reason)
		}
		for _, p := range c.Plan.Nodes.Pools {
			line += fmt.Sprintf("\n  pool %s %d → %d: %s", p.Pool, p.Current, p.Nodes, p.Reason)
		}
		for _, o := range c.Outcomes {
			line += fmt.Sprintf("\n  %s %s%s", o.Action, o.Skipped, o.Error)
		}
		for _, f := range c.Findings {
			line += "\n  " + f.String()
		}
		w.t.Log(line + c.Error)
	}
}
