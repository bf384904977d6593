package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// helperEnv makes the test program start a cluster and a Prometheus, tell
// their process ids and wait to be killed.
const helperEnv = "MASH2_CLUSTER_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		if err := helper(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

type helperStatus struct {
	Dir  string
	PIDs []int
}

func helper() error {
	c, err := Start(context.Background(), Options{})
	if err != nil {
		return err
	}
	p, err := StartPrometheus(context.Background(), PrometheusOptions{Dir: filepath.Join(os.Getenv(helperEnv), "prometheus")})
	if err != nil {
		return err
	}
	pids := append(slices.Collect(maps.Values(c.PIDs)), c.cmd.Process.Pid, p.process.cmd.Process.Pid)
	if err := json.NewEncoder(os.Stdout).Encode(helperStatus{Dir: c.Dir, PIDs: pids}); err != nil {
		return err
	}
	select {}
}

func TestKillingTheParentLeavesNothingBehind(t *testing.T) {
	// Built here, so that the helper needn't.
	if _, err := Binary(t.Context(), "", testWriter{t}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	var status helperStatus
	if err := json.Unmarshal(line, &status); err != nil {
		t.Fatalf("the helper said %q: %v, %v", line, readErr, err)
	}
	if len(status.PIDs) != 7 { // five components, localkube up, Prometheus
		t.Errorf("the helper has %d processes, want 7", len(status.PIDs))
	}
	for _, pid := range status.PIDs {
		if !running(pid) {
			t.Errorf("process %d isn't running", pid)
		}
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	eventually(t, "all processes to end", func(context.Context) bool {
		return !slices.ContainsFunc(status.PIDs, running)
	})
	if _, err := os.Stat(status.Dir); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
}

func TestSideBySide(t *testing.T) {
	a, b := ForTest(t), ForTest(t)
	createNodes(t, newClient(t, a), "only-in-a")
	nodes, err := newClient(t, b).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 0 {
		t.Errorf("the other cluster has %d nodes, want 0", len(nodes.Items))
	}
	out, err := a.Kubectl(t.Context(), "get", "nodes", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if want := "node/only-in-a"; strings.TrimSpace(out) != want {
		t.Errorf("kubectl get nodes says %q, want %q", out, want)
	}
	if _, err := a.Kubectl(t.Context(), "get", "nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("kubectl get nonsense: error %v, want one with kubectl's own words", err)
	}

	pids := append(slices.Collect(maps.Values(a.PIDs)), a.cmd.Process.Pid)
	dir := a.Dir
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(pids, running); i >= 0 {
		t.Errorf("process %d runs after Stop", pids[i])
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
	if _, err := newClient(t, b).Discovery().ServerVersion(); err != nil {
		t.Errorf("stopping one cluster has hurt the other: %v", err)
	}
}

func TestADeadComponentEndsTheClusterAndIsNamed(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	pids := slices.Collect(maps.Values(c.PIDs))
	if err := c.KillComponent("nothing"); err == nil {
		t.Error("a component that doesn't exist was killed")
	}
	if err := c.KillComponent("kube-scheduler"); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if i := slices.IndexFunc(pids, running); i >= 0 {
		t.Errorf("process %d is still running", pids[i])
	}
	err = c.Stop()
	if err == nil || !strings.Contains(err.Error(), "kube-scheduler died (signal: killed)") {
		t.Errorf("Stop says %v, want who died", err)
	}
}

func TestKillingLocalkubeKillsItsComponents(t *testing.T) {
	c, err := Start(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	eventually(t, "all components to end", func(context.Context) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(c.PIDs)), running)
	})
	if err := c.Stop(); err == nil {
		t.Error("Stop doesn't mention that localkube was killed")
	}
}

func TestStartFailsWithAReason(t *testing.T) {
	dir := t.TempDir()
	inUse := ForTest(t, func(o *Options) { o.Dir = dir })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx     context.Context
		options Options
		want    string
	}{
		"a flag that the API server doesn't know": {
			options: Options{APIServerArgs: []string{"--no-such-flag=1"}},
			want:    "unknown flag: --no-such-flag",
		},
		"a controller-manager that dies": {
			options: Options{ControllerManagerArgs: []string{"--concurrent-horizontal-pod-autoscaler-syncs=0"}},
			want:    "kube-controller-manager died",
		},
		"a directory in use": {
			options: Options{Dir: inUse.Dir},
			want:    "in use by another cluster",
		},
		"a negative speed": {
			options: Options{Speed: -1},
			want:    "speed -1 is negative",
		},
		"delays that are no range": {
			options: Options{Delays: Delays{Startup: Range{Min: 2, Max: 1}}},
			want:    "startup delay",
		},
		"a context that has ended": {
			ctx:  cancelled,
			want: "context canceled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := test.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			c, err := Start(ctx, test.options)
			if err == nil {
				_ = c.Stop()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want it to contain %q", err, test.want)
			}
		})
	}
	if _, err := newClient(t, inUse).Discovery().ServerVersion(); err != nil {
		t.Errorf("the cluster whose directory was wanted: %v", err)
	}
}

func TestAPausedAPIServerComesBack(t *testing.T) {
	c := ForTest(t)
	if err := c.Signal("kube-apiserver", syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	config := c.RESTConfig()
	config.Timeout = 1e9 // it would wait for ever
	if _, err := clientFor(t, config).Discovery().ServerVersion(); err == nil {
		t.Error("a paused API server answers")
	}
	if err := c.Signal("kube-apiserver", syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(t, c).Discovery().ServerVersion(); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// running tells whether a process exists and isn't a zombie that nobody has
// waited for.
func running(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// "pid (name) state …", where the name may hold anything.
	_, rest, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	return !strings.HasPrefix(rest, "Z")
}
