// Command node runs an experiment on a real node: containerd, runc and a kubelet
// on this machine, joined to the embedded control plane, with pods that spend real
// CPU under real k6. The stock HPA scales one Deployment and mash2 another.
//
//	make e2e-node
//
// It needs root, and changes the machine while it runs: settings of the kernel, a
// bridge, cgroups. What there was is written down first, put back at the end, or
// at the next start where a run was killed, and compared: docs/benchmarks/node.md has it.
// Linux with cgroup v1.
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
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/planning/vertical"
)

// options of a run.
type options struct {
	Work string // folder of the run, removed at its end
	Logs string // folder of the logs, below Out
	Out  string // folder of what stays
	Page string // the page of results; empty: none is written

	OnlyNode  bool    // a node and a pod, no scalers
	Predict   bool    // a node and models that are asked on it, no scalers
	Move      bool    // a node and what moves CPU between its pods, no scalers
	Grow      bool    // mash2 with agents that let pods grow, instead of the stock HPA
	Memory    bool    // a node and memory limits that follow working sets, no scalers
	Sizes     bool    // a node and requests that were guessed, with mash2
	Seeds     int     // of Move
	Minds     string  // of Move, with commas; empty for all
	Scaling   bool    // Move with a pod that is added and taken away, not with a load that moves
	VPA       bool    // Move with the VerticalPodAutoscaler as well
	VPADir    string  // its programs and its CRD
	Agents    string  // a model that Move tries as well, a folder or builtin:agents; empty for none
	Scale     float64 // of users and of the pods' CPU and memory
	TimeScale float64 // of the load's durations
	Passes    int     // of the load
	// StartUp is how long pods are not asked whether they are Ready: what a larger program
	// would take.
	StartUp time.Duration

	// Programs.
	Pause, Target, Mash2, K6, MetricsServer, Agent string
	// Model is a file with a trained model that is asked as well; empty for none.
	Model string
}

func main() {
	if len(os.Args) == 3 && (os.Args[1] == roleInit || os.Args[1] == roleWork) {
		var o options
		if err := json.Unmarshal([]byte(os.Args[2]), &o); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(2)
		}
		if os.Args[1] == roleInit {
			os.Exit(runInit(os.Args[2:]))
		}
		if err := work(context.Background(), o); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	tools := ".cache/bin"
	flag.StringVar(&o.Out, "out", "out/node", "folder for the result and the logs")
	flag.StringVar(&o.Page, "page", "", "page to write the result to; empty: none")
	flag.BoolVar(&o.OnlyNode, "only-node", false, "bring the node up, run a pod, resize it, and end")
	flag.BoolVar(&o.Predict, "prediction", false, "bring the node up, let models predict on it before and under load, print what was seen as JSON, and end")
	flag.StringVar(&o.Minds, "minds", "", "with -agents: only these, with commas; threshold is what others are compared with")
	flag.BoolVar(&o.Scaling, "scaling", false, "with -agents: add a pod and take it away, instead of moving the load")
	flag.BoolVar(&o.VPA, "vpa", false, "with -agents: compare with the VerticalPodAutoscaler too")
	flag.StringVar(&o.VPADir, "vpa-dir", filepath.Join(tools, "vpa"), "folder of its recommender, its updater and its CRD")
	flag.BoolVar(&o.Memory, "memory", false, "bring the node up, let memory limits of running pods follow what they use, print what was seen as JSON, and end")
	flag.BoolVar(&o.Sizes, "sizes", false, "bring the node up, let mash2 size running pods under k6, kill it, start it again, and end")
	flag.BoolVar(&o.Move, "agents", false, "bring the node up, compare what moves CPU between running pods under k6, print it as JSON, and end")
	flag.BoolVar(&o.Grow, "grow", false, "compare mash2 with mash2 whose pods grow in place, instead of with the stock HPA")
	flag.IntVar(&o.Seeds, "seeds", 4, "seeds of -agents: a minute each for all that are compared")
	flag.StringVar(&o.Agents, "agents-model", agents.Builtin+vertical.Shipped, "model that -agents compares as well, builtin:agents or a folder of mash2 train --environment marlise; empty: none")
	flag.StringVar(&o.Model, "model", "", "model.json of mash2 train --environment qos that -prediction asks as well; empty: none")
	flag.StringVar(&o.Agent, "agent", "out/node/mash2", "program of the agent and of the operator for -prediction: cmd/mash2-operator, without C")
	flag.Float64Var(&o.Scale, "scale", 0.25, "of users and of the size of pods, against the scenario")
	flag.Float64Var(&o.TimeScale, "time-scale", 1, "of the durations of the load, against the scenario; everything else is in real time")
	flag.DurationVar(&o.StartUp, "start-up", 0, "of pods, whole seconds: how long they are not asked whether they are Ready")
	flag.IntVar(&o.Passes, "passes", 2, "how often the scenario runs, one after another")
	flag.StringVar(&o.Pause, "pause", "out/node/pause", "program of the pause image: experiments/node/pause, without C")
	flag.StringVar(&o.Target, "target", "out/node/target", "program of the pods' image: experiments/k6/target, without C")
	flag.StringVar(&o.Mash2, "mash2", "bin/mash2", "program of the operator")
	flag.StringVar(&o.K6, "k6", filepath.Join(tools, "k6"), "program of k6")
	flag.StringVar(&o.MetricsServer, "metrics-server", filepath.Join(tools, "metrics-server"), "program of metrics-server")
	flag.Parse()
	if !(o.Scale > 0 && o.Scale <= 1) || !(o.TimeScale > 0) || o.Passes < 1 || o.Seeds < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "node: -scale must be above 0 and at most 1, -time-scale above 0, -passes and -seeds 1 or more, and there are no arguments")
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

// recordFolder has the record of the machine while a run lasts. As sysctls,
// cgroups and links, it does not outlive a reboot where /run is in memory.
const recordFolder = "/run/mash2-node"

// run is the outermost role.
func run(o options) error {
	// The child dies with the thread that started it.
	runtime.LockOSThread()
	if err := o.complete(); err != nil {
		return err
	}
	lock, err := lockRecord()
	if err != nil {
		return err
	}
	defer lock.Close()
	record := filepath.Join(recordFolder, "before.json")
	if err := recoverRun(record, os.Stderr); err != nil {
		return fmt.Errorf("cleaning up after an earlier run: %w", err)
	}
	if err := unshared(); err != nil {
		return err
	}
	if o.Work, err = os.MkdirTemp("", "mash2-node-"); err != nil {
		return err
	}
	before, err := look(o.Work)
	if err != nil {
		return err
	}
	data, err := json.Marshal(before)
	if err := errors.Join(err, os.WriteFile(record, data, 0o600)); err != nil {
		return err
	}
	runErr := runInside(lock, o)
	checks, err := endRun(record, before, os.Stderr)
	if err := errors.Join(runErr, err); err != nil || o.OnlyNode || o.Predict || o.Move || o.Memory {
		return err
	}
	if o.Sizes {
		return writeSizes(o)
	}
	return writePage(o, checks)
}

// complete makes paths absolute and finds what is missing.
func (o *options) complete() error {
	if os.Getuid() != 0 {
		return errors.New("root is needed, for cgroups, mounts and a bridge")
	}
	programs := []*string{&o.Pause, &o.Target, &o.Mash2, &o.K6, &o.MetricsServer}
	switch {
	case o.Predict:
		programs = []*string{&o.Pause, &o.Target, &o.Agent}
	case o.Memory:
		programs = []*string{&o.Pause, &o.Target, &o.Mash2}
	case o.Move:
		programs = []*string{&o.Pause, &o.Target, &o.Mash2, &o.K6}
		if o.VPA {
			programs = append(programs, &o.MetricsServer, &o.VPADir)
		}
		if o.Agents != "" && !strings.HasPrefix(o.Agents, agents.Builtin) {
			programs = append(programs, &o.Agents)
		}
	case o.OnlyNode:
		programs = programs[:2]
	}
	var errs []error
	for _, path := range append(programs, &o.Out) {
		var err error
		*path, err = filepath.Abs(*path)
		errs = append(errs, err)
	}
	for _, p := range programs {
		if _, err := os.Stat(*p); err != nil {
			errs = append(errs, fmt.Errorf("%w: run make e2e-node", err))
		}
	}
	for _, name := range []string{"containerd", "ctr", "runc", "ip", "/usr/lib/cni/bridge", "/usr/lib/cni/host-local"} {
		if _, err := exec.LookPath(name); err != nil {
			errs = append(errs, fmt.Errorf("%w: install containerd, runc, containernetworking-plugins and iproute2", err))
		}
	}
	_, err := cgroupRoots(cgroupRoot)
	o.Logs = filepath.Join(o.Out, "logs")
	return errors.Join(append(errs, err, visible(".", os.TempDir(), o.Out), os.MkdirAll(o.Logs, 0o755))...)
}

// lockRecord makes sure that one run is on the machine. The lock is held by what
// is left of a killed run until the kernel has ended all of it.
func lockRecord() (*os.File, error) {
	if err := os.MkdirAll(recordFolder, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(recordFolder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	const patience = 10 * time.Second
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return lock, nil
		}
		if time.Since(begin) > patience {
			return nil, errors.Join(fmt.Errorf("another run is on this machine: %s: %w", lock.Name(), err), lock.Close())
		}
	}
}

// unshared refuses a machine with a container runtime or a kubelet: the kernel's
// settings are theirs too.
func unshared() error {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	for _, path := range names {
		data, err := os.ReadFile(path)
		name := strings.TrimSpace(string(data))
		if err == nil && slices.Contains([]string{"containerd", "dockerd", "crio", "kubelet", "k3s"}, name) {
			return fmt.Errorf("%s runs on this machine (process %s), and what this changes would be its business too: stop it first",
				name, filepath.Base(filepath.Dir(path)))
		}
	}
	return nil
}

// recoverRun cleans up what a run left that could not do so itself.
func recoverRun(record string, progress io.Writer) error {
	data, err := os.ReadFile(record)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var before machine
	if err := errors.Join(err, json.Unmarshal(data, &before)); err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	fmt.Fprintln(progress, "an earlier run was killed: cleaning up after it")
	_, err = endRun(record, before, progress)
	return err
}

// runInside runs the work in namespaces of its own until it is done or somebody
// interrupts.
func runInside(lock *os.File, o options) error {
	arguments, err := json.Marshal(o)
	if err != nil {
		return err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(interrupts)
	cmd, err := startInit(lock, []string{string(arguments)})
	if err != nil {
		return fmt.Errorf("starting namespaces: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
	case s := <-interrupts:
		_ = cmd.Process.Kill() // and with it everything in there
		err = fmt.Errorf("ended by %v: %w", s, <-done)
	}
	if err != nil {
		err = fmt.Errorf("%w; logs are in %s", err, o.Logs)
	}
	return err
}

// endRun restores the machine and says how it compares with what it was. The
// record goes when it is as before.
func endRun(record string, before machine, progress io.Writer) ([]check, error) {
	restored := before.restore()
	after, err := look(before.Work)
	if err := errors.Join(restored, err); err != nil {
		return nil, err
	}
	checks, different := compare(before, after), 0
	for _, c := range checks {
		verdict := "as before"
		if len(c.Difference) > 0 {
			verdict = "NOT as before"
			different++
		}
		fmt.Fprintf(progress, "%-32s %5d  %s\n", c.What, c.Compared, verdict)
		for _, d := range c.Difference {
			fmt.Fprintln(progress, "    "+d)
		}
	}
	if err := os.Remove(record); err != nil {
		return nil, err
	}
	if different > 0 {
		return checks, errors.New("the machine is not as it was before; what differs is above")
	}
	return checks, nil
}
