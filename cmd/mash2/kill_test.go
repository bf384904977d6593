package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
)

func suicidal(plan string) (func(mash2.Actuator) mash2.Actuator, error) {
	if plan == "each" {
		had := map[string]bool{}
		for line := range strings.Lines(os.Getenv(envKilled)) {
			had[strings.TrimSuffix(line, "\n")] = true
		}
		return func(next mash2.Actuator) mash2.Actuator { return &thorough{next: next, had: had} }, nil
	}
	if plan == "frozen" {
		return func(next mash2.Actuator) mash2.Actuator { return &frozen{next: next} }, nil
	}
	count, when, _ := strings.Cut(plan, ":")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || when != "before" && when != "after" {
		return nil, fmt.Errorf("%s=%q is neither N:before, N:after, each nor frozen", envKill, plan)
	}
	return func(next mash2.Actuator) mash2.Actuator {
		return &suicide{next: next, left: n, before: when == "before"}
	}, nil
}

// suicide is an Actuator that ends the process at its n-th action.
type suicide struct {
	next   mash2.Actuator
	mu     sync.Mutex // actions are carried out several at once
	left   int
	before bool
}

// Apply implements mash2.Actuator.
func (s *suicide) Apply(ctx context.Context, a api.Action) error {
	s.mu.Lock()
	s.left--
	last := s.left == 0
	s.mu.Unlock()
	if last && s.before {
		die("before", a)
	}
	err := s.next.Apply(ctx, a)
	if last {
		die("after", a)
	}
	return err
}

// thorough is an Actuator that ends the process before every deed once, so that it
// has to come again, and then once after it has succeeded.
type thorough struct {
	next mash2.Actuator
	mu   sync.Mutex      // one after the other, to know what was done at the end
	had  map[string]bool // "before DEED", "after DEED"
}

// Apply implements mash2.Actuator.
func (s *thorough) Apply(ctx context.Context, a api.Action) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.had["before "+deed(a.String())] {
		die("before", a)
	}
	err := s.next.Apply(ctx, a)
	if err == nil && !s.had["after "+deed(a.String())] {
		die("after", a)
	}
	return err
}

var fromTo = regexp.MustCompile(`(\d+) → (\d+)( per zone)?`)

// deed is what an action does to which object, without its amount and reason.
func deed(action string) string {
	action, _, _ = strings.Cut(action, ": ")
	action, _, _ = strings.Cut(action, " = ")
	return fromTo.ReplaceAllStringFunc(action, func(s string) string {
		m := fromTo.FindStringSubmatch(s)
		from, _ := strconv.Atoi(m[1]) // digits
		to, _ := strconv.Atoi(m[2])
		if to > from {
			return "up"
		}
		return "down"
	})
}

// killed begins the line that an operator leaves in its log when it kills
// itself.
const killed = "SIGKILL "

func die(when string, a api.Action) {
	fmt.Fprintf(os.Stderr, "%s%s: %s\n", killed, when, a)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal has come
}

// kills counts the SIGKILLs before and after each deed.
func (w *world) kills() map[string][2]int {
	w.t.Helper()
	log, err := os.ReadFile(w.OperatorLog())
	if err != nil {
		w.t.Fatal(err)
	}
	hits := map[string][2]int{}
	for line := range strings.Lines(string(log)) {
		if rest, ok := strings.CutPrefix(line, killed); ok {
			when, action, _ := strings.Cut(strings.TrimSpace(rest), ": ")
			h := hits[deed(action)]
			if when == "before" {
				h[0]++
			} else {
				h[1]++
			}
			hits[deed(action)] = h
		}
	}
	return hits
}

// killEach is the environment of an operator that kills itself before or after a
// deed that none was killed at in this way.
func (w *world) killEach() []string {
	w.t.Helper()
	var had []string
	for name, h := range w.kills() {
		if h[0] > 0 {
			had = append(had, "before "+name)
		}
		if h[1] > 0 {
			had = append(had, "after "+name)
		}
	}
	return []string{envKill + "=each", envKilled + "=" + strings.Join(had, "\n")}
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

func TestDeed(t *testing.T) {
	key := api.Key{Namespace: "shop", Name: "web-1"}
	for want, a := range map[string]api.Action{
		"scale shop/web-1 up":         api.ScaleWorkload{Workload: key, From: 9, To: 12, Reason: "3 → 2: so"},
		"scale shop/web-1 down":       api.ScaleWorkload{Workload: key, From: 12, To: 9, Reason: "x"},
		"resize pool fast up":         api.ResizePool{Pool: "fast", To: 1, Reason: "x"},
		"resize pool fast down":       api.ResizePool{Pool: "fast", From: 1, Reason: "x"},
		"cordon n for migration":      api.CordonNode{Node: "n", For: api.CordonMigration, Reason: "x"},
		"deletion cost of shop/web-1": api.SetDeletionCost{Pod: key, Cost: -1000, Reason: "x"},
		"evict shop/web-1 from n":     api.EvictPod{Pod: key, Node: "n", Reason: "x"},
		"remove node n of pool fast":  api.RemoveNode{Node: "n", Pool: "fast", Reason: "x"},
	} {
		if got := deed(a.String()); got != want {
			t.Errorf("%q is %q, want %q", a, got, want)
		}
	}
}
