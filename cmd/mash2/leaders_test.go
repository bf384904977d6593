package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// frozen is an Actuator that stops its process before the first action, and goes on
// with it when somebody thaws it.
type frozen struct {
	next mash2.Actuator
	once sync.Once
}

// What a frozen operator leaves in its log.
const (
	froze  = "SIGSTOP before: "
	thawed = "SIGCONT: "
)

// Apply implements mash2.Actuator.
func (f *frozen) Apply(ctx context.Context, a api.Action) error {
	first := false
	f.once.Do(func() {
		first = true
		fmt.Fprintf(os.Stderr, "%s%s\n", froze, a)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	})
	err := f.next.Apply(ctx, a)
	if first {
		fmt.Fprintf(os.Stderr, "%s%v\n", thawed, err)
	}
	return err
}

// TestTwoLeaders: a leader that is frozen right before it acts, and thawed when another
// one has long led, does nothing any more, and ends.
func TestTwoLeaders(t *testing.T) {
	w := newWorld(t, testbed.Options{Scenario: scenario(t, 200, scenarios.Stage{Duration: 10 * time.Hour, Target: 200}), Speed: 10})
	old := w.launch([]string{envKill + "=frozen"}, "--leader-elect", "--cycle-log", filepath.Join(w.Dir, "old.jsonl"))
	w.Load.Begin()
	said := func(prefix string) string {
		log, err := os.ReadFile(w.OperatorLog())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimSpace(rest)
			}
		}
		return ""
	}
	w.eventually("the first leader's first action", func() string {
		if said(froze) == "" {
			return "none yet"
		}
		return ""
	})
	next := w.launch(nil, "--leader-elect")
	w.until("the next leader acts", func(c api.Cycle) bool {
		for _, o := range c.Outcomes {
			if o.Error == "" && o.Skipped == "" {
				return true
			}
		}
		return false
	})
	if err := old.Thaw(); err != nil {
		t.Fatal(err)
	}
	w.eventually("the end of the one that was frozen", func() string {
		select {
		case <-old.Done():
			return ""
		default:
			return "it goes on"
		}
	})
	if got := said(thawed); !strings.Contains(got, "leads, not this process") && !strings.Contains(got, "context canceled") {
		t.Errorf("when it was thawed, its action ended with %q: another one led", got)
	}
	w.stop(next)
}

// TestTakeOver: a leader is killed while it keeps replicas that were needed a short time
// ago. The next one, on another node and with no folder of its, keeps them as well: it
// has read from ConfigMaps what the first one knew. One that has not read them doesn't.
func TestTakeOver(t *testing.T) {
	w := newWorld(t, testbed.Options{Speed: 10, Scenario: scenario(t, 200,
		scenarios.Stage{Duration: 3 * time.Minute, Target: 200},
		scenarios.Stage{Duration: 30 * time.Second, Target: 20},
		scenarios.Stage{Duration: 10 * time.Hour, Target: 20})})
	kept := func(c api.Cycle) bool {
		return len(c.Plan.Workloads) == 1 && c.Plan.Workloads[0].Binding == api.BindingStabilization && c.Plan.Workloads[0].Replicas > c.Plan.Workloads[0].Floor+1
	}
	stabilization := []string{"--leader-elect", "--downscale-stabilization", "2h"}
	state := append([]string{"--state-configmap", "mash2-state"}, stabilization...)
	old := w.launch(nil, state...)
	w.Load.Begin()
	first := w.until("replicas are kept", kept)
	// The state is saved once a minute.
	last := w.until("they are after the state was saved", func(c api.Cycle) bool { return kept(c) && c.Time.After(first.Time.Add(70*time.Second)) })
	old.Kill()
	killed := time.Now()
	next := w.launch(nil, state...)
	planned := 0
	for _, c := range w.cyclesAfter(killed, 5) {
		if len(c.Plan.Workloads) == 0 {
			continue
		}
		planned++
		if p := c.Plan.Workloads[0]; !kept(c) || p.Replicas != last.Plan.Workloads[0].Replicas {
			t.Errorf("the next leader plans %d replicas (%s: %s), the one before kept %d", p.Replicas, p.Binding, p.Reason, last.Plan.Workloads[0].Replicas)
		}
	}
	t.Logf("%d replicas are kept, by each of %d plans of the next leader", last.Plan.Workloads[0].Replicas, planned)
	if planned == 0 {
		t.Error("the next leader has planned nothing")
	}
	w.stop(next)
	stopped := time.Now()
	forgetful := w.launch(nil, stabilization...)
	w.until("a leader that knows of nothing gives replicas up", func(c api.Cycle) bool {
		return c.Time.After(stopped) && len(c.Plan.Workloads) == 1 && c.Plan.Workloads[0].Replicas < last.Plan.Workloads[0].Replicas
	})
	w.stop(forgetful)
}
