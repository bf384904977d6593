package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// upOptions are the flags of "localkube up". A zero duration leaves the
// component's own default in place.
type upOptions struct {
	dir          string // where everything lives
	removeDir    bool   // remove dir when stopping
	exitOnEOF    bool   // stop when standard input closes
	readyTimeout time.Duration
	verbosity    int
	apiQPS       int

	hpaSyncPeriod             time.Duration
	hpaDownscaleStabilization time.Duration
	hpaCPUInitialization      time.Duration
	hpaInitialReadinessDelay  time.Duration

	kwokConfig []string // files or directories with kwok's documents; none: no kwok

	apiserverArgs         []string
	controllerManagerArgs []string
	schedulerArgs         []string
}

func (o *upOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.dir, "dir", "", "directory for data, keys, logs and the kubeconfig; one cluster each (required)")
	flags.BoolVar(&o.removeDir, "remove-dir", false, "remove --dir when stopping")
	flags.BoolVar(&o.exitOnEOF, "exit-on-eof", false, "stop when standard input closes, as it does when the parent dies")
	flags.DurationVar(&o.readyTimeout, "ready-timeout", 2*time.Minute, "how long each component may take to become ready")
	flags.IntVarP(&o.verbosity, "v", "v", 0, "log verbosity of the Kubernetes components")
	flags.IntVar(&o.apiQPS, "api-qps", 200, "requests per second that the controller-manager and the scheduler may send; the burst is twice that")
	flags.DurationVar(&o.hpaSyncPeriod, "hpa-sync-period", 0, "HPA: period of its loop (0: stock, 15s)")
	flags.DurationVar(&o.hpaDownscaleStabilization, "hpa-downscale-stabilization", 0, "HPA: downscale stabilisation window (0: stock, 5m)")
	flags.DurationVar(&o.hpaCPUInitialization, "hpa-cpu-initialization-period", 0, "HPA: period after a pod's start when its CPU samples may be skipped (0: stock, 5m)")
	flags.DurationVar(&o.hpaInitialReadinessDelay, "hpa-initial-readiness-delay", 0, "HPA: period after a pod's start when readiness changes count as initial readiness (0: stock, 30s)")
	flags.StringArrayVar(&o.kwokConfig, "kwok-config", nil, "file, or directory of *.yaml, with kwok's documents (repeatable); without it kwok isn't started")
	flags.StringArrayVar(&o.apiserverArgs, "apiserver-arg", nil, "further argument for kube-apiserver (repeatable)")
	flags.StringArrayVar(&o.controllerManagerArgs, "controller-manager-arg", nil, "further argument for kube-controller-manager (repeatable)")
	flags.StringArrayVar(&o.schedulerArgs, "scheduler-arg", nil, "further argument for kube-scheduler (repeatable)")
}

// upStatus is the line that "localkube up" prints once the cluster is ready.
type upStatus struct {
	Kubeconfig string         `json:"kubeconfig"` // of a cluster administrator
	Server     string         `json:"server"`
	Dir        string         `json:"dir"`
	Logs       string         `json:"logs"`
	PID        int            `json:"pid"` // of "localkube up" itself
	PIDs       map[string]int `json:"pids"`
	Ports      map[string]int `json:"ports"`
}

// runUp is "localkube up": a cluster in the foreground, until a signal or the
// end of standard input.
func runUp() int {
	var o upOptions
	flags := pflag.NewFlagSet(upName, pflag.ContinueOnError)
	o.addFlags(flags)
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "localkube up:", err)
		return 2
	case o.dir == "" || flags.NArg() > 0:
		fmt.Fprintln(os.Stderr, "localkube up: --dir is required, and there are no further arguments")
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if o.exitOnEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	if err := up(ctx, o); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "localkube up:", err)
		return 1
	}
	return 0
}

// up starts the cluster, prints its status and waits for ctx to end. All
// components have exited when it returns.
func up(ctx context.Context, o upOptions) (err error) {
	runtime.LockOSThread() // see supervisor

	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	unlock, err := lockDir(o.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if o.removeDir {
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	var ports portLease
	defer ports.release()

	c, err := newCluster(o, &ports)
	if err != nil {
		return err
	}
	// The apiserver may hold on for a minute to watches that nobody reads
	// any more; nothing here is worth waiting for.
	const grace = 3 * time.Second
	defer c.stop(grace)
	if err := c.startAll(ctx); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(c.status()); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case died := <-c.died:
		return died.failure()
	}
}

// lockName is the file that marks a directory as a cluster's, and is locked
// while one uses it.
const lockName = "localkube.lock"

// lockDir makes dir and makes sure that one cluster uses it. What an earlier
// cluster left there is removed; what looks like it but isn't is refused.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock := filepath.Join(dir, lockName)
	_, err = os.Stat(lock)
	ours := err == nil
	for _, name := range ownNames {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && !ours {
			return nil, fmt.Errorf("%s holds %q, and no %s says that a cluster made it", dir, name, lockName)
		}
	}
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another cluster: %w", dir, err)
	}
	for _, name := range ownNames {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return func() { _ = f.Close() }, nil
}

// ownNames are what a cluster puts into its directory.
var ownNames = []string{"etcd", "pki", "logs", "work", "kubeconfig"}

// kwokDocuments lists the files that --kwok-config names.
func kwokDocuments(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("--kwok-config: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("--kwok-config: no *.yaml in %s", path)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	return files, nil
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
