// Command envelope measures the operator at a stated size: the real process
// against a real control plane, simulated GKE pools, pods whose containers
// nobody runs, and a real Prometheus that scrapes a series for each of them.
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
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/mash2-io/mash2/api"
)

func main() {
	var s size
	flag.IntVar(&s.Workloads, "workloads", 1000, "ManagedWorkloads, each with a Deployment")
	flag.IntVar(&s.Nodes, "nodes", 1000, "nodes of the pool")
	flag.IntVar(&s.Pods, "pods", 10_000, "pods of all workloads")
	flag.IntVar(&s.Cycles, "cycles", 20, "cycles to measure after the first")
	operator := flag.String("operator", "bin/mash2", "the program to measure")
	output := flag.String("o", "text", "text or json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, *operator, *output, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "envelope:", err)
		os.Exit(1)
	}
}

// size of the world.
type size struct {
	Workloads int `json:"workloads"`
	Nodes     int `json:"nodes"`
	Pods      int `json:"pods"`
	Cycles    int `json:"cycles"`
}

// result of a run. Durations are in seconds, memory in MiB.
type result struct {
	size
	Steps []step `json:"steps"`
	// FirstCycle is the whole of the first cycle, which reads all history.
	FirstCycle float64 `json:"firstCycleSeconds"`
	// StartToCycle is from the start of the process to the end of its first
	// complete cycle.
	StartToCycle float64 `json:"startToCycleSeconds"`
	// CPUPerCycle is the process's CPU time over the measured cycles.
	CPUPerCycle float64 `json:"cpuSecondsPerCycle"`
	RSS         float64 `json:"rssMiB"`
	PeakRSS     float64 `json:"peakRSSMiB"`
	Actions     int     `json:"actions"`
	Held        int     `json:"heldCycles"`
}

type step struct {
	Name string  `json:"step"`
	P50  float64 `json:"p50Seconds"`
	P95  float64 `json:"p95Seconds"`
	Max  float64 `json:"maxSeconds"`
}

func run(ctx context.Context, s size, operator, output string, stdout, stderr io.Writer) error {
	if s.Workloads < 1 || s.Nodes < 3 || s.Pods < s.Workloads || s.Cycles < 1 {
		return fmt.Errorf("at least one workload, three nodes, a pod for each workload and a cycle are needed: %+v", s)
	}
	w, err := start(ctx, s, stderr)
	if err != nil {
		return err
	}
	r, err := w.measure(ctx, operator, stderr)
	if err := errors.Join(err, w.stop()); err != nil {
		return err
	}
	if output == "json" {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.print(stdout)
}

// measure runs the operator for the cycles asked for.
func (w *world) measure(ctx context.Context, operator string, stderr io.Writer) (result, error) {
	r := result{size: w.size}
	log, err := os.Create(filepath.Join(w.dir, "operator.log"))
	if err != nil {
		return r, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, operator, w.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("starting the operator: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var cycles []api.Cycle
	var cpu time.Duration // up to the end of the first cycle
	said := 0
	for len(cycles) <= w.Cycles {
		select {
		case err := <-ended:
			return r, fmt.Errorf("the operator ended: %w: %s", err, tail(log.Name()))
		case <-time.After(500 * time.Millisecond):
		}
		if cycles, err = readCycles(w.cycleLog()); err != nil {
			return r, err
		}
		if len(cycles) > 0 && cpu == 0 {
			r.StartToCycle = time.Since(started).Seconds()
			if cpu, err = cpuTime(cmd.Process.Pid); err != nil {
				return r, err
			}
		}
		if len(cycles) > said {
			said = len(cycles)
			fmt.Fprintf(stderr, "cycle %d of %d: %.2f s\n", said, w.Cycles+1, total(cycles[said-1]))
		}
	}
	after, err := cpuTime(cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	if r.RSS, r.PeakRSS, err = memory(cmd.Process.Pid); err != nil {
		return r, err
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		return r, fmt.Errorf("the operator ended badly: %w", err)
	}
	r.CPUPerCycle = (after - cpu).Seconds() / float64(len(cycles)-1)
	r.FirstCycle = total(cycles[0])
	r.summarise(cycles[1:])
	return r, nil
}

func (r *result) summarise(cycles []api.Cycle) {
	durations := map[string][]float64{}
	var names []string
	for _, c := range cycles {
		for _, s := range c.Steps {
			if durations[s.Step] == nil {
				names = append(names, s.Step)
			}
			durations[s.Step] = append(durations[s.Step], s.Duration.Seconds())
		}
		durations["whole"] = append(durations["whole"], total(c))
		for _, o := range c.Outcomes {
			if o.Error == "" && o.Skipped == "" {
				r.Actions++
			}
		}
		if c.Error != "" {
			r.Held++
		}
	}
	for _, name := range append(names, "whole") {
		d := durations[name]
		slices.Sort(d)
		at := func(q float64) float64 { return d[min(int(q*float64(len(d))), len(d)-1)] }
		r.Steps = append(r.Steps, step{name, at(0.5), at(0.95), d[len(d)-1]})
	}
}

func (r result) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%d ManagedWorkloads, %d nodes, %d pods; %d cycles after the first\n", r.Workloads, r.Nodes, r.Pods, r.Cycles)
	fmt.Fprintln(t, "step\tp50 s\tp95 s\tmax s\t")
	for _, s := range r.Steps {
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t\n", s.Name, s.P50, s.P95, s.Max)
	}
	fmt.Fprintf(t, "first cycle %.2f s, %.1f s after the start of the process\n", r.FirstCycle, r.StartToCycle)
	fmt.Fprintf(t, "CPU %.2f s per cycle; RSS %.0f MiB, at most %.0f MiB; %d actions, %d cycles held\n",
		r.CPUPerCycle, r.RSS, r.PeakRSS, r.Actions, r.Held)
	return t.Flush()
}

func total(c api.Cycle) float64 {
	var d time.Duration
	for _, s := range c.Steps {
		d += s.Duration
	}
	return d.Seconds()
}

// readCycles reads the records written so far; a last line that is still being
// written is left out.
func readCycles(path string) ([]api.Cycle, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []api.Cycle
	for line := range strings.Lines(string(data)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var c api.Cycle
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// cpuTime is what a process has used, of user and system.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, i := range []int{11, 12} { // utime, stime: proc(5), counted from the state
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const perSecond = 100 // USER_HZ
	return time.Duration(ticks) * time.Second / perSecond, nil
}

// memory is the resident set now and at most, MiB.
func memory(pid int) (now, peak float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			now = kib / 1024
		case "VmHWM:":
			peak = kib / 1024
		}
	}
	return now, peak, nil
}

func tail(path string) string {
	data, _ := os.ReadFile(path)
	return string(data[max(0, len(data)-2000):])
}
