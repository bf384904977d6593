// Command envelope measures the operator at a stated size: the real process
// against a real control plane, simulated GKE pools, kwok's nodes and pods, and
// a real Prometheus with a past and a series for every pod. The same world is
// measured twice, first with every workload in Shadow, then in Full.
//
// It prints the time of each step of a cycle, CPU and memory.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

func main() {
	s := size{}
	var r runner
	flag.IntVar(&s.Workloads, "workloads", 1000, "ManagedWorkloads, each with a Deployment")
	flag.IntVar(&s.Nodes, "nodes", 1000, "nodes of the pool, a multiple of its four zones")
	flag.IntVar(&s.Pods, "pods", 10_000, "pods of all workloads; GKE's own DaemonSets come on top, five a node")
	flag.IntVar(&s.Cycles, "cycles", 20, "cycles to measure in each mode, after the first; 0 for no steady cycles at all")
	flag.Float64Var(&s.Speed, "speed", 1, "divides every duration: periods, scrapes, boots, pod starts, the load's period")
	flag.DurationVar(&s.History, "history", 12*time.Hour, "how much past Prometheus has, before --speed; 0 for none")
	flag.DurationVar(&s.Step, "step", 15*time.Second, "sample step of mash2's demand, before --speed")
	flag.IntVar(&r.memory, "memory", 0, "MiB that the operator is told to keep within, as the chart tells it of its container's limit; 0 for no limit")
	flag.StringVar(&r.program, "operator", "bin/mash2", "the program to measure")
	flag.StringVar(&r.profiles, "profiles", "", "directory for a CPU and a heap profile of each mode; none if empty")
	flag.BoolVar(&r.takesOver, "failover", false, "at the end kill a leader, and measure the next one")
	output := flag.String("o", "text", "text or json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r.progress = os.Stderr
	if err := run(ctx, s, r, *output, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "envelope:", err)
		stop()
		os.Exit(1)
	}
}

// size of the world, and of what is measured in it.
type size struct {
	Workloads int     `json:"workloads"`
	Nodes     int     `json:"nodes"`
	Pods      int     `json:"pods"` // of the workloads
	Cycles    int     `json:"cycles"`
	Speed     float64 `json:"speed"`
	// History is how much past Prometheus has, before division by Speed.
	History time.Duration `json:"-"`
	// Step between the samples of a history, likewise.
	Step time.Duration `json:"-"`
}

func (s size) validate() error {
	switch {
	case s.Nodes < len(zones) || s.Nodes%len(zones) != 0:
		return fmt.Errorf("--nodes must be a multiple of %d, is %d", len(zones), s.Nodes)
	case s.Workloads < 1 || s.Pods < 2*s.Workloads:
		return fmt.Errorf("at least one workload and two pods for each are needed, not %d with %d", s.Workloads, s.Pods)
	case s.Pods > 10*s.Nodes:
		return fmt.Errorf("%d nodes have room for %d pods, not %d", s.Nodes, 10*s.Nodes, s.Pods)
	case s.Cycles < 0:
		return fmt.Errorf("--cycles must be 0 or more, is %d", s.Cycles)
	case s.Step < 15*time.Second:
		return fmt.Errorf("--step must be 15s or more, as often as Prometheus scrapes, is %v", s.Step)
	case !(s.Speed > 0) || s.History < 0:
		return fmt.Errorf("--speed must be above 0 and --history not negative, are %g and %v", s.Speed, s.History)
	}
	return nil
}

// scaled is a duration of the world on the wall.
func (s size) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.Speed).Round(time.Millisecond)
}

// run sets the world up, measures both modes and prints.
func run(ctx context.Context, s size, r runner, output string, stdout io.Writer) (err error) {
	if err := s.validate(); err != nil {
		return err
	}
	if output != "text" && output != "json" {
		return fmt.Errorf("-o must be text or json, not %q", output)
	}
	w, err := start(ctx, s, r.progress)
	defer func() { err = errors.Join(err, w.stop()) }()
	if err != nil {
		return err
	}
	result := result{size: s, HistorySeconds: s.History.Seconds(), StepSeconds: s.Step.Seconds()}
	var modes []v1alpha1.Mode
	if s.Cycles > 0 {
		modes = []v1alpha1.Mode{v1alpha1.ModeShadow, v1alpha1.ModeFull}
	}
	for _, mode := range modes {
		if err := w.setMode(ctx, mode); err != nil {
			return err
		}
		m, err := r.measure(ctx, w, mode)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", mode, err)
		}
		result.Runs = append(result.Runs, m)
	}
	if r.takesOver {
		if err := w.setMode(ctx, v1alpha1.ModeFull); err != nil {
			return err
		}
		f, err := r.failover(ctx, w)
		if err != nil {
			return fmt.Errorf("measuring a failover: %w", err)
		}
		result.Failover = &f
	}
	if output == "json" {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(result)
	}
	return result.print(stdout)
}
