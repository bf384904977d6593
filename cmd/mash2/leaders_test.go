package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
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
		// To this very thread, which takes it before it goes on: another one might be woken
		// for it, and this one act meanwhile.
		runtime.LockOSThread()
		_, _, _ = syscall.Syscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
		runtime.UnlockOSThread()
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

// TestTakeOver: a leader is killed. The next one, as on another node with no folder of its,
// begins with what the first one remembered, which it has read from ConfigMaps. One that
// isn't told where they are begins with nothing.
func TestTakeOver(t *testing.T) {
	w := newWorld(t, testbed.Options{Speed: 10, Scenario: scenario(t, 150, scenarios.Stage{Duration: 10 * time.Hour, Target: 150})})
	state := []string{"--leader-elect", "--state-configmap", "mash2-state"}
	old := w.launch(nil, state...)
	w.Load.Begin()
	first := w.until("a plan", func(c api.Cycle) bool { return len(c.Plan.Workloads) == 1 })
	// The state is saved once a minute.
	w.until("one after the state was saved", func(c api.Cycle) bool { return c.Time.After(first.Time.Add(65 * time.Second)) })
	old.Kill()
	killed := time.Now()
	// begins is the memory that an operator begins with.
	begins := func(args ...string) planning.Memory {
		dir := t.TempDir()
		o := w.launch(nil, append(args, "--records", dir)...)
		w.cyclesAfter(time.Now(), 3)
		w.stop(o)
		log, err := record.Open(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range log.Records(time.Time{}) {
			m, ok := e.Memory.(planning.Memory)
			if err != nil || !ok {
				t.Fatalf("the first record has a %T, error %v", e.Memory, err)
			}
			return m
		}
		t.Fatal("there are no records")
		return planning.Memory{}
	}
	known := begins(state...)
	if len(known.Workloads) != 1 || len(known.Workloads[0].Recommendations) == 0 || !known.Workloads[0].Recommendations[0].From.Before(killed) {
		t.Errorf("the next leader remembers %+v", known.Workloads)
	}
	if unknown := begins("--leader-elect"); len(unknown.Workloads) != 0 {
		t.Errorf("one that has read nothing remembers %+v", unknown.Workloads)
	}
}
