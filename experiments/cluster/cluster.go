package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options says what kind of cluster to start. The zero value is a cluster in
// real time with the stock defaults of every component.
type Options struct {
	// Dir is the cluster's directory (keys, data, logs). Empty: a temporary
	// one, removed by Stop.
	Dir string

	// Delays are the pods' start-up, readiness and termination delays. The
	// zero value means DefaultDelays.
	Delays Delays

	// Speed divides the delays: at 10, an hour of the scenario takes six
	// minutes. 0 means 1. The HPA's windows are set on their own, below.
	Speed float64

	// HPA holds the stock HPA's windows; zero fields keep its defaults.
	HPA HPAWindows

	// APIQPS is how many requests per second the controller-manager and the
	// scheduler may send. 0 means localkube's default, 200.
	APIQPS int

	// APIServerArgs, ControllerManagerArgs and SchedulerArgs are further
	// command-line arguments of the components, "--name=value" each.
	APIServerArgs, ControllerManagerArgs, SchedulerArgs []string

	// Verbosity is the components' log level, -v.
	Verbosity int

	// CacheDir is where the built program is kept. Empty: .cache/bin in the
	// repository.
	CacheDir string

	// Progress gets a line now and then while the program is being built.
	// Nil: nothing is said.
	Progress io.Writer
}

// HPAWindows are the stock HorizontalPodAutoscaler's durations that are flags
// of the controller-manager, by the flags' names, in wall-clock time. Zero
// keeps the flag's default.
type HPAWindows struct {
	SyncPeriod              time.Duration // --horizontal-pod-autoscaler-sync-period, 15 s
	DownscaleStabilization  time.Duration // --horizontal-pod-autoscaler-downscale-stabilization, 5 min
	CPUInitializationPeriod time.Duration // --horizontal-pod-autoscaler-cpu-initialization-period, 5 min
	InitialReadinessDelay   time.Duration // --horizontal-pod-autoscaler-initial-readiness-delay, 30 s
}

// StockHPAWindows returns Kubernetes' defaults divided by speed, for runs in
// which time passes faster. At speed 1 they are the defaults.
func StockHPAWindows(speed float64) HPAWindows {
	return HPAWindows{
		SyncPeriod:              scale(15*time.Second, speed),
		DownscaleStabilization:  scale(5*time.Minute, speed),
		CPUInitializationPeriod: scale(5*time.Minute, speed),
		InitialReadinessDelay:   scale(30*time.Second, speed),
	}
}

func (o Options) validate() error {
	if o.Speed < 0 {
		return fmt.Errorf("speed %v is negative", o.Speed)
	}
	if o.APIQPS < 0 {
		return fmt.Errorf("API QPS %d is negative", o.APIQPS)
	}
	return o.Delays.validate()
}

// Cluster is a running control plane.
type Cluster struct {
	// Kubeconfig is the path of a cluster administrator's kubeconfig.
	Kubeconfig string
	// Dir is the cluster's directory; logs are in its subdirectory logs.
	Dir string
	// PIDs holds the process id of each component: etcd, kube-apiserver,
	// kube-controller-manager, kube-scheduler, kwok.
	PIDs map[string]int
	// Ports holds each component's port on 127.0.0.1.
	Ports map[string]int

	binary  string
	rest    *rest.Config
	cmd     *exec.Cmd
	stdin   io.Closer
	done    chan struct{} // closed when localkube has exited
	exitErr error         // valid once done is closed
	stopped sync.Once
	stopErr error
}

// Start starts a cluster and returns when it is ready, in a few seconds once
// the program is built. The context is for starting only; Stop ends the
// cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Delays == (Delays{}) {
		o.Delays = DefaultDelays()
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("cluster options: %w", err)
	}
	binary, err := Binary(ctx, o.CacheDir, o.Progress)
	if err != nil {
		return nil, err
	}
	temporary := o.Dir == ""
	if temporary {
		if o.Dir, err = os.MkdirTemp("", "localkube-"); err != nil {
			return nil, err
		}
	} else if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	c, err := start(ctx, binary, o, temporary)
	if err != nil && temporary {
		err = errors.Join(err, os.RemoveAll(o.Dir))
	}
	if err != nil {
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	return c, nil
}

func start(ctx context.Context, binary string, o Options, removeDir bool) (*Cluster, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	stages := filepath.Join(o.Dir, "kwok.yaml")
	if err := os.WriteFile(stages, []byte(o.Delays.Stages(o.Speed)), 0o644); err != nil {
		return nil, err
	}
	c := &Cluster{binary: binary, done: make(chan struct{})}
	c.cmd = exec.Command(binary, o.args(stages, removeDir)...)
	// Nobody else's interrupt: the cluster lives until Stop, or until this
	// process ends and with it the pipe to localkube's standard input.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = time.Second
	var stderr strings.Builder
	c.cmd.Stderr = &stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, status, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdout.Close() }()
	c.stdin = stdin
	c.cmd.Stdout = status
	err = c.cmd.Start()
	_ = status.Close()
	if err != nil {
		return nil, err
	}
	go func() {
		c.exitErr = c.cmd.Wait()
		if text := strings.TrimSpace(stderr.String()); text != "" {
			c.exitErr = errors.New(text)
		}
		close(c.done)
	}()

	line := make(chan []byte, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadBytes('\n')
		line <- text
	}()
	select {
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), c.Stop())
	case text := <-line:
		if len(text) == 0 { // it has given up
			<-c.done
			return nil, c.exitErr
		}
		if err := c.ready(text); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// ready takes over what localkube prints once the cluster is ready.
func (c *Cluster) ready(line []byte) error {
	var status struct {
		Kubeconfig string         `json:"kubeconfig"`
		Dir        string         `json:"dir"`
		PIDs       map[string]int `json:"pids"`
		Ports      map[string]int `json:"ports"`
	}
	if err := json.Unmarshal(line, &status); err != nil {
		return fmt.Errorf("reading localkube's status %q: %w", line, err)
	}
	c.Kubeconfig, c.Dir, c.PIDs, c.Ports = status.Kubeconfig, status.Dir, status.PIDs, status.Ports
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// The client side must not be the bottleneck of an experiment.
	config.QPS, config.Burst = 500, 1000
	c.rest = config
	return nil
}

func (o Options) args(stages string, removeDir bool) []string {
	args := []string{"up", "--exit-on-eof", "--dir", o.Dir, "--kwok-config", stages}
	if removeDir {
		args = append(args, "--remove-dir")
	}
	for flag, window := range map[string]time.Duration{
		"--hpa-sync-period":               o.HPA.SyncPeriod,
		"--hpa-downscale-stabilization":   o.HPA.DownscaleStabilization,
		"--hpa-cpu-initialization-period": o.HPA.CPUInitializationPeriod,
		"--hpa-initial-readiness-delay":   o.HPA.InitialReadinessDelay,
	} {
		if window > 0 {
			args = append(args, flag, window.String())
		}
	}
	for flag, number := range map[string]int{"--api-qps": o.APIQPS, "--v": o.Verbosity} {
		if number > 0 {
			args = append(args, flag, strconv.Itoa(number))
		}
	}
	for flag, values := range map[string][]string{
		"--apiserver-arg":          o.APIServerArgs,
		"--controller-manager-arg": o.ControllerManagerArgs,
		"--scheduler-arg":          o.SchedulerArgs,
	} {
		for _, value := range values {
			args = append(args, flag, value)
		}
	}
	return args
}

// RESTConfig returns a copy of an administrator's client configuration with a
// rate limit of 500 requests per second.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Program is the path of localkube's program, which is kubectl too when its first
// argument is that.
func (c *Cluster) Program() string { return c.binary }

// Kubectl runs kubectl as an administrator and returns its standard output.
// The error holds what it said on standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig}, args...)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// HelmEnv overrides where helm's program is.
const HelmEnv = "MASH2_HELM"

// Helm runs helm as an administrator and returns its standard output. The
// program is the one in .cache/bin of the repository, which the Makefile puts
// there.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	program := os.Getenv(HelmEnv)
	if program == "" {
		root, err := repositoryRoot()
		if err != nil {
			return "", err
		}
		program = filepath.Join(root, ".cache", "bin", "helm")
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no helm at %s: run make helm", program)
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Signal sends a signal to one component. SIGSTOP and SIGCONT make an outage
// that passes; a component that exits takes the cluster with it.
func (c *Cluster) Signal(component string, signal syscall.Signal) error {
	pid, ok := c.PIDs[component]
	if !ok {
		return fmt.Errorf("no component %q", component)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("sending %v to %s: %w", signal, component, err)
	}
	return nil
}

// KillComponent kills one component (SIGKILL), which ends the whole cluster;
// Done tells when, and Stop returns why.
func (c *Cluster) KillComponent(component string) error {
	return c.Signal(component, syscall.SIGKILL)
}

// Done is closed when the cluster has ended, by Stop or by itself.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Stop ends the cluster and waits until all its processes have. It removes a
// temporary directory. If the cluster had ended by itself, the error says
// which component died and the end of its log. Calling it again is harmless.
func (c *Cluster) Stop() error {
	// Each of the five components gets three seconds in localkube.
	const grace = 20 * time.Second
	c.stopped.Do(func() {
		_ = c.stdin.Close() // fails if localkube has exited, which is fine
		select {
		case <-c.done:
			c.stopErr = c.exitErr
		case <-time.After(grace):
			_ = c.cmd.Process.Kill() // its children die with it
			<-c.done
			c.stopErr = fmt.Errorf("localkube did not stop within %v and was killed", grace)
		}
	})
	return c.stopErr
}

// ForTest starts a cluster that ends with the test, which fails if the
// cluster can't be started or dies before. Each option changes the Options;
// without any they are the zero value.
func ForTest(t testing.TB, options ...func(*Options)) *Cluster {
	t.Helper()
	o := Options{Progress: testWriter{t}}
	for _, option := range options {
		option(&o)
	}
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("starting a cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("the cluster ended with: %v", err)
		}
	})
	return c
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
