package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// runner starts the operators that are measured.
type runner struct {
	program  string
	profiles string // directory, or empty
	// takesOver measures a failover too.
	takesOver bool
	memory    int // MiB, 0 for no limit
	progress  io.Writer
}

// observation is a cycle as seen from outside its process.
type observation struct {
	api.Cycle
	bytes   int           // of the record
	arrived time.Time     // when the record was found in the log
	cpu     time.Duration // of the process by then, user and system
	memory  memory
}

// report is how long the cycle's reporters took, the writing of statuses above
// all: from the end of the last step until the record, which is written last,
// was found.
func (o observation) report() time.Duration {
	d := o.arrived.Sub(o.Time)
	for _, s := range o.Steps {
		d -= s.Duration
	}
	return max(d, 0)
}

// measure runs an operator for a first cycle and the number asked for.
func (r runner) measure(ctx context.Context, w *world, mode v1alpha1.Mode) (measurement, error) {
	name := strings.ToLower(string(mode))
	log, err := os.Create(filepath.Join(w.dir, name+".log"))
	if err != nil {
		return measurement{}, err
	}
	defer log.Close()
	records := filepath.Join(w.dir, name+".jsonl")
	args := append(w.arguments(records), "--leader-elect=false")
	profiler := "0"
	if r.profiles != "" {
		if profiler, err = freeAddress(ctx); err != nil {
			return measurement{}, err
		}
		args = append(args, "--profiling", "--metrics-insecure")
	}
	started := time.Now()
	cmd, ended, err := r.start(log, append(args, "--metrics-bind-address", profiler)...)
	if err != nil {
		return measurement{}, err
	}
	cycles, err := r.follow(ctx, records, cmd.Process.Pid, w.Cycles+1, ended, func() {
		if r.profiles != "" {
			go r.profileCPU(ctx, profiler, name, time.Duration(w.Cycles)*w.scaled(15*time.Second))
		}
	})
	if err == nil && r.profiles != "" {
		err = r.profile(ctx, profiler, "heap", filepath.Join(r.profiles, name+".heap.pprof"))
	}
	if err := errors.Join(err, end(cmd, ended, log.Name())); err != nil {
		return measurement{}, err
	}
	return summarise(mode, cycles, started), nil
}

// arguments of an operator that writes its cycles to a file.
func (w *world) arguments(records string) []string {
	return []string{
		"operator", "--kubeconfig", w.cluster.Kubeconfig, "--namespace", namespace, "--policy-configmap", configMap,
		"--speed", strconv.FormatFloat(w.Speed, 'g', -1, 64), "--prometheus-url", w.prometheus.URL,
		"--step", w.scaled(w.Step).String(), "--stale-after", w.scaled(3 * w.Step).String(),
		"--history", max(w.scaled(w.History), w.scaled(defaultHistory)).String(),
		"--provider", "gke", "--gke-project", "envelope", "--gke-location", "us-central1", "--gke-cluster", "envelope",
		"--gke-endpoint", w.gke.Endpoint(), "--gke-compute-endpoint", w.gke.ComputeEndpoint(),
		"--health-probe-bind-address", "0", "--cycle-log", records,
	}
}

// start an operator; what is received is how it ended.
func (r runner) start(log io.Writer, args ...string) (*exec.Cmd, chan error, error) {
	cmd := exec.Command(r.program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if r.memory > 0 {
		cmd.Env = append(os.Environ(), fmt.Sprintf("MASH2_MEMORY_LIMIT=%d", r.memory<<20))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the operator: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd, ended, nil
}

// end an operator as Kubernetes does.
func end(cmd *exec.Cmd, ended chan error, log string) error {
	_ = cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("the operator ended: %w: %s", err, tail(log))
		}
		return nil
	case <-time.After(30 * time.Second):
		return errors.Join(errors.New("the operator did not end within 30 s of SIGTERM"), cmd.Process.Kill())
	}
}

// follow observes n cycles; after the first it calls warm.
func (r runner) follow(ctx context.Context, path string, pid, n int, ended chan error, warm func()) ([]observation, error) {
	return r.until(ctx, path, pid, ended, func(out []observation) bool {
		if len(out) == 1 {
			warm()
		}
		return len(out) == n
	})
}

// until observes cycles until enough says so, which is asked after each.
func (r runner) until(ctx context.Context, path string, pid int, ended chan error, enough func([]observation) bool) ([]observation, error) {
	const poll = 10 * time.Millisecond
	var out []observation
	var read int64
	var rest []byte
	for {
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case err := <-ended:
			ended <- err
			return out, errors.New("the operator has gone")
		case <-time.After(poll):
		}
		more, err := readFrom(path, read)
		if err != nil {
			return out, err
		}
		read += int64(len(more))
		rest = append(rest, more...)
		for {
			line, after, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			rest = after
			o := observation{bytes: len(line), arrived: time.Now()}
			if o.cpu, err = cpuTime(pid); err != nil {
				return out, err
			}
			if o.memory, err = memoryOf(pid); err != nil {
				return out, err
			}
			if err := json.Unmarshal(line, &o.Cycle); err != nil {
				return out, fmt.Errorf("reading the cycle log: %w", err)
			}
			out = append(out, o)
			fmt.Fprintf(r.progress, "%s cycle %d: %v, report %v, %d actions, %d findings, CPU %.2f s, RSS %.0f MiB\n",
				o.arrived.Format(time.TimeOnly), len(out), o.Steps, o.report().Round(time.Millisecond),
				len(o.Outcomes), len(o.Findings), o.cpu.Seconds(), o.memory.rss)
			if enough(out) {
				return out, nil
			}
		}
	}
}

// readFrom returns what a file has from an offset on; nothing if it isn't there.
func readFrom(path string, offset int64) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
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

// memory of a process in MiB.
type memory struct {
	rss       float64 // resident, the program's own pages included
	peak      float64 // the most that was resident
	anonymous float64 // resident without files: heap and stacks
}

func memoryOf(pid int) (memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	var m memory
	into := map[string]*float64{"VmRSS:": &m.rss, "VmHWM:": &m.peak, "RssAnon:": &m.anonymous}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 || into[f[0]] == nil {
			continue
		}
		kib, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return memory{}, err
		}
		*into[f[0]] = kib / 1024
	}
	return m, nil
}

// profileCPU writes a CPU profile of the cycles that follow.
func (r runner) profileCPU(ctx context.Context, address, name string, d time.Duration) {
	what := fmt.Sprintf("profile?seconds=%d", max(1, int(d.Seconds())-2))
	if err := r.profile(ctx, address, what, filepath.Join(r.profiles, name+".cpu.pprof")); err != nil {
		fmt.Fprintln(r.progress, "no CPU profile:", err)
	}
}

func (r runner) profile(ctx context.Context, address, what, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/"+what, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s", resp.Status)
	}
	if err := os.MkdirAll(r.profiles, 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, resp.Body)
	return errors.Join(err, file.Close())
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func tail(path string) string {
	data, _ := os.ReadFile(path)
	return string(data[max(0, len(data)-2000):])
}
