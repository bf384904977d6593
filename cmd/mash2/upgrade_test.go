package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// envOld names this package's test binary of an earlier version, and the folder
// of its chart; make test-upgrade builds both.
const (
	envOldProgram = "MASH2_TEST_OLD_PROGRAM"
	envOldChart   = "MASH2_TEST_OLD_CHART"
)

// TestUpgradeAndBack: in the midst of a move, under load, an earlier version with
// its CRD, this one with its own, the earlier one again and so on take turns,
// each killed after one action. The move comes to its end, no request is lost,
// and nothing that was written of the ManagedWorkload's spec.
func TestUpgradeAndBack(t *testing.T) {
	old, chart := os.Getenv(envOldProgram), os.Getenv(envOldChart)
	if old == "" || chart == "" {
		t.Skip("there is no earlier version here: make test-upgrade builds one")
	}
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	crds := func(chart string) string { return filepath.Join(chart, "crds") }
	w := newWorld(t, steady(t))
	replaced := func(folder string) {
		if out, err := w.Cluster.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-f", folder); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	spec := func() v1alpha1.ManagedWorkloadSpec {
		mw := &v1alpha1.ManagedWorkload{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.WorkloadName}, mw); err != nil {
			t.Fatal(err)
		}
		return mw.Spec
	}
	start := func(program string, env ...string) *testbed.Operator {
		o, err := w.StartOperator(program, append(env, envProgram+"=1"), "--leader-elect=false", "--verbose")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(o.Kill)
		return o
	}

	replaced(crds(chart))
	from := time.Now()
	o := start(old)
	w.Load.Begin()
	w.cyclesAfter(from, 5)
	w.stop(o)
	ready, before := w.deployment(testbed.Mash2).Status.ReadyReplicas, spec()
	w.mash2("policy", "set", api.Performance)

	turns, limit := 0, time.Now().Add(3*patience)
	for moved := false; !moved; {
		program := old
		if turns%2 == 1 {
			program = this
		}
		if turns == 1 {
			replaced(crds(chartFolder)) // helm takes CRDs neither up nor back: this is by hand
		}
		o := start(program, envKill+"=1:after")
		for alive := true; alive && !moved; {
			select {
			case <-o.Done():
				if !sigkilled(o.Err()) {
					t.Fatalf("turn %d: the operator ended by itself: %v", turns, o.Err())
				}
				turns++
				alive = false
			case <-time.After(200 * time.Millisecond):
				moved = w.notMovedTo(api.Performance) == ""
			}
			if time.Now().After(limit) {
				t.Fatalf("after %d turns: %s", turns, w.notMovedTo(api.Performance))
			}
		}
		o.Kill()
	}
	for action := range w.kills() {
		t.Logf("a version ended after: %s", action)
	}
	if turns < 5 {
		t.Errorf("only %d turns: a move has more actions than that", turns)
	}
	// A later version's CRD has defaults for what an earlier one does not know.
	unwritten := cmp.FilterPath(func(p cmp.Path) bool {
		field, ok := p.Last().(cmp.StructField)
		if !ok {
			return false
		}
		was, _ := field.Values()
		return was.IsZero()
	}, cmp.Ignore())
	if diff := cmp.Diff(before, spec(), unwritten); diff != "" {
		t.Errorf("the spec has changed (-before +after):\n%s", diff)
	}
	for _, program := range []string{this, old} { // both rest
		from := time.Now()
		o := start(program)
		for _, c := range w.cyclesAfter(from, 3) {
			for _, out := range c.Outcomes {
				if out.Kind != "ResizePool" && out.Kind != "RemoveNode" && out.Kind != "ScaleWorkload" {
					t.Errorf("something was left to do: %s", out.Action)
				}
			}
		}
		w.stop(o)
	}
	w.eventually("the move to have lasted", func() string { return w.notMovedTo(api.Performance) })
	if least, now := int32(6), w.replicas(testbed.Mash2); now > least+least/2 {
		t.Errorf("%d replicas in the end, %d are enough for this load", now, least)
	}
	t.Logf("%d turns of two versions", turns)
	w.served(min(ready, w.replicas(testbed.Mash2)))
}
