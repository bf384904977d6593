package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/cluster"
)

// Figures differ from run to run, and so does what decided; other words don't.
var varies = regexp.MustCompile(`[-+]?\d[\d.:,]*|\b(?i:floor|stabilization|tolerance|utility|forecast|stale|demandstale|hold|ramp|rate|minreplicas|maxreplicas)\b`)

// tutorial is the cluster of docs/tutorial/first-steps.md with a shell on it.
type tutorial struct {
	t   *testing.T
	dir string
}

// newTutorial starts it as a reader does, by the program, until the test ends.
func newTutorial(t *testing.T) tutorial {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	w := tutorial{t, t.TempDir()}
	helm := cmp.Or(os.Getenv(cluster.HelmEnv), filepath.Join(root, ".cache", "bin", "helm"))
	links := map[string]string{filepath.Join("bin", "helm"): helm}
	for _, name := range []string{"charts", "docs", "experiments"} {
		links[name] = filepath.Join(root, name)
	}
	if err := os.Mkdir(filepath.Join(w.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, "demo", "--tutorial", "--report", filepath.Join(w.dir, "out", "tutorial"))
	c.Env = append(os.Environ(), envProgram+"=1")
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(said); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("Ctrl-C: %v", err)
		}
		for range lines {
		}
		if err := c.Wait(); err != nil {
			t.Errorf("the tutorial ended: %v", err)
		}
	})
	timeout := time.After(15 * time.Minute) // the control plane may have to be built
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatal("the tutorial ended before its cluster was ready")
			}
			if strings.HasPrefix(line, "The page: ") {
				go func() {
					for range lines {
					}
				}()
				return w
			}
		case <-timeout:
			t.Fatal("the tutorial's cluster did not become ready")
		}
	}
}

// shell runs a command line as in the reader's second terminal, and returns all it says.
func (w tutorial) shell(ctx context.Context, command string) (string, error) {
	c := exec.CommandContext(ctx, "sh", "-c", ". out/tutorial/env\n"+command)
	c.Dir = w.dir
	c.Env = append(os.Environ(), envProgram+"=1", "PATH="+filepath.Join(w.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	c.WaitDelay = 10 * time.Second
	out, err := c.CombinedOutput()
	return string(out), err
}

// follow runs a page's command and compares what it says with what the page shows.
func (w tutorial) follow(c example) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(w.t.Context(), cmp.Or(c.wait, 4*time.Minute))
		out, err := w.shell(ctx, c.command)
		interrupted := c.wait > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded)
		cancel()
		if err != nil && !interrupted || out == "" && !interrupted {
			w.t.Fatalf("%s: %s: %v, it said\n%s", c.where, c.command, err, out)
		}
		w.t.Logf("%s\n%s", c.command, out)
		shown := slices.Clone(c.shown)
		for i := range shown {
			shown[i] = varies.ReplaceAllString(shown[i], "0")
		}
		missing := lacks(varies.ReplaceAllString(out, "0"), shown)
		if missing == "" {
			return
		}
		// A status may not be there yet.
		if !strings.HasPrefix(c.command, "kubectl get") || time.Now().After(deadline) {
			w.t.Fatalf("%s: %s does not say %q, but\n%s", c.where, c.command, missing, out)
		}
		time.Sleep(time.Second)
	}
}

// shopObjects are what pages have in the reader's namespace.
const shopObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - {name: app, image: registry.example/app:1, resources: {requests: {cpu: 50m}, limits: {cpu: 50m}}}
---
apiVersion: mash2.io/v1alpha1
kind: ManagedWorkload
metadata: {name: web, namespace: shop}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 4
  mode: Shadow
  sizing: {mode: RecommendOnly}
---
apiVersion: v1
kind: Node
metadata: {name: kind-worker}
---
apiVersion: v1
kind: Node
metadata: {name: kind-worker2}
---
apiVersion: v1
kind: Node
metadata: {name: kind-worker3}
---
apiVersion: v1
kind: Node
metadata: {name: kind-worker4}
`

// TestDocsOnACluster follows the tutorial from its first command to its last, and then every
// other page's commands for a cluster, on the same one.
func TestDocsOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a whole cluster")
	}
	pages := pagesOf(t, "../..")
	const first = "docs/tutorial/first-steps.md"
	names := []string{first}
	for path, p := range pages {
		if path != first && len(examplesOf(t, p, true)) > 0 {
			names = append(names, path)
		}
	}
	slices.Sort(names[1:])
	w := newTutorial(t)
	ran := 0
	for i, name := range names {
		if i == 1 {
			if err := os.WriteFile(filepath.Join(w.dir, "shop.yaml"), []byte(shopObjects), 0o644); err != nil {
				t.Fatal(err)
			}
			w.follow(example{where: "the test", command: "kubectl apply -f shop.yaml"})
		}
		t.Run(name, func(t *testing.T) {
			w := tutorial{t, w.dir}
			commands := examplesOf(t, pages[name], true)
			text := ""
			for _, c := range commands {
				text += c.command + "\n"
			}
			// A page that installs mash2 finds a cluster without it, one that
			// changes values finds it there.
			if strings.Contains(text, "helm install") {
				w.follow(example{where: "the test", command: "helm uninstall mash2 -n mash2-here --no-hooks --ignore-not-found"})
			} else if strings.Contains(text, "helm ") {
				w.follow(example{where: "the test", command: "helm status mash2 -n mash2-here || helm install mash2 charts/mash2 -n mash2-here --create-namespace --set prometheus.url=http://prometheus.monitoring:9090"})
			}
			for _, c := range commands {
				w.follow(c)
				ran++
			}
		})
	}
	t.Logf("%d commands of %d pages were run", ran, len(names))
	if ran < 30 {
		t.Errorf("only %d commands were run", ran)
	}
}
