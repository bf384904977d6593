package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// steady is a load that the least replicas carry on either pool, so that
// nothing but the switch moves anything.
func steady(t *testing.T) testbed.Options {
	t.Helper()
	const users = 120
	s := scenario(t, users, scenarios.Stage{Duration: 10 * time.Hour, Target: users})
	s.Workload.Replicas = scenarios.Bounds{Min: 6, Max: 15}
	return testbed.Options{Scenario: s, Speed: 15}
}

// TestPolicySwitch: a switch of the policy moves a workload under load from one
// pool to the other without a failed request.
func TestPolicySwitch(t *testing.T) {
	w := newWorld(t, steady(t))
	o := w.operator()
	w.Load.Begin()
	w.cyclesAfter(time.Now(), 5)
	ready := w.deployment(testbed.Mash2).Status.ReadyReplicas

	w.mash2("policy", "set", api.Performance)
	w.eventually("the move to the other pool", func() string { return w.notMovedTo(api.Performance) })
	last := w.cyclesAfter(time.Now(), 3)
	if got := last[len(last)-1].Policy.Name; got != api.Performance {
		t.Errorf("policy in force is %s, want %s", got, api.Performance)
	}
	w.served(min(ready, w.replicas(testbed.Mash2)))
	w.stop(o)
}

// TestPolicySwitchKilled: the same switch by an operator that is killed before
// and after each of its actions.
func TestPolicySwitchKilled(t *testing.T) {
	options := steady(t)
	w := newWorld(t, options)
	o := w.operator()
	w.Load.Begin()
	w.cyclesAfter(time.Now(), 5)
	ready := w.deployment(testbed.Mash2).Status.ReadyReplicas
	w.stop(o)

	w.mash2("policy", "set", api.Performance)
	kills, limit := 0, time.Now().Add(8*time.Minute)
	for moved := false; !moved; {
		when := []string{"before", "after"}[kills%2]
		o := w.launch([]string{fmt.Sprintf("%s=1:%s", envKill, when)})
		for alive := true; alive && !moved; {
			select {
			case <-o.Done():
				if !sigkilled(o.Err()) {
					t.Fatalf("the operator ended by itself: %v", o.Err())
				}
				kills++
				alive = false
			case <-time.After(200 * time.Millisecond):
				moved = w.notMovedTo(api.Performance) == ""
			}
			if time.Now().After(limit) {
				t.Fatalf("after %d kills: %s", kills, w.notMovedTo(api.Performance))
			}
		}
		o.Kill()
	}
	hits := w.kills()
	for action, h := range hits {
		t.Logf("killed %d× before and %d× after: %s", h[0], h[1], action)
	}
	t.Logf("killed %d times", kills)
	if kills < 10 {
		t.Errorf("killed only %d times: a switch has more actions than that", kills)
	}

	o = w.operator()
	for _, c := range w.cyclesAfter(time.Now(), 5) {
		for _, out := range c.Outcomes {
			// Trimming the new pool to what pods need is no part of the switch.
			if !strings.Contains(out.Object, w.PoolOf(api.Performance)) {
				t.Errorf("something was left to do: %s", out.Action)
			}
		}
	}
	w.eventually("the move to have lasted", func() string { return w.notMovedTo(api.Performance) })
	// A surge is old and new pods side by side. An operator that starts in the
	// midst of one must not take it for what is wanted and surge on top of it:
	// the load is steady, so what is wanted is near the least number throughout.
	wanted, most := w.replicas(testbed.Mash2), w.result().Measured.MaxReplicas
	t.Logf("%d replicas before, at most %d, %d in the end", ready, most, wanted)
	if least := options.Scenario.Workload.Replicas.Min; wanted > least+least/2 {
		t.Errorf("%d replicas in the end, %d are enough for this load", wanted, least)
	}
	if most > ready+wanted {
		t.Errorf("%d replicas at most; old and new together are %d + %d", most, ready, wanted)
	}
	w.served(min(ready, w.replicas(testbed.Mash2)))
	w.stop(o)
}

// kills counts the SIGKILLs before and after each action.
func (w *world) kills() map[string][2]int {
	w.t.Helper()
	log, err := os.ReadFile(w.OperatorLog())
	if err != nil {
		w.t.Fatal(err)
	}
	hits := map[string][2]int{}
	for line := range strings.Lines(string(log)) {
		if rest, ok := strings.CutPrefix(line, killed); ok {
			when, action, _ := strings.Cut(rest, ": ")
			action, _, _ = strings.Cut(action, ": ") // without its reason
			h := hits[action]
			if when == "before" {
				h[0]++
			} else {
				h[1]++
			}
			hits[action] = h
		}
	}
	return hits
}

// sigkilled tells whether a process ended by SIGKILL.
func sigkilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
