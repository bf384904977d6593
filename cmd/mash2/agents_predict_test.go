package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/qos"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/strategic/model"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// modelsFolder has a model that reads this machine's load and CPU, and one that reads what no
// node measures.
func modelsFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, m := range map[string]*model.Linear{
		"load": {Names: []string{agents.NodeLoad1, agents.NodeMem + "_last"}, Coefficients: []float64{1, 0}, Intercept: 100},
		"moon": {Names: []string{"moon_phase"}, Coefficients: []float64{1}},
	} {
		data, err := model.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAgentsPredict: the command reads this machine and serves a model's answer, which a
// strategy's jsonPath finds. It asks no API server: there is none.
func TestAgentsPredict(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("this machine has no /proc/stat")
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "nowhere"))
	address := freeAddress(t)
	var stdout, stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), []string{"agents", "--node", "edge-1", "--models", modelsFolder(t), "--predict", "load,moon", "--predict-address", address, "--for", "4s", "-o", "json"}, &stdout, &stderr)
	}()
	value := 0.0
	for begin := time.Now(); value == 0 && time.Since(begin) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get("http://" + address + agents.PredictionPath + "load")
		if err != nil {
			continue
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			continue
		}
		var object any
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatal(err)
		}
		if value, err = strategy.Number(object, "{.value}"); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	if code := <-done; code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	if value < 100 || value > 10000 {
		t.Errorf("a load of %g", value-100)
	}
	var sum struct{ Answers []agents.Answer }
	if err := json.Unmarshal(stdout.Bytes(), &sum); err != nil {
		t.Fatal(err)
	}
	if len(sum.Answers) != 2 || sum.Answers[0].Value == nil || sum.Answers[1].Missing != "moon_phase: it is not measured on the node" {
		t.Errorf("%s", stdout.String())
	}
}

// TestAgentsPredictRefuses what is not set, before anything is read.
func TestAgentsPredictRefuses(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	dir := modelsFolder(t)
	with := func(args ...string) []string {
		return append([]string{"agents", "--predict", "load", "--for", "1s", "--predict-address", "127.0.0.1:0"}, args...)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no node":               {with("--models", dir), "--node"},
		"no models":             {with("--node", "n"), "--models"},
		"no such folder":        {with("--node", "n", "--models", filepath.Join(dir, "x")), "--models"},
		"no such model":         {with("--node", "n", "--models", dir, "--predict", "qos"), "it has load, moon"},
		"seldom":                {with("--node", "n", "--models", dir, "--action_interval", "60"), "interval"},
		"an application, alone": {with("--node", "n", "--models", dir, "--application", "shop"), "--application"},
		"beside resizing":       {with("--node", "n", "--models", dir, "--selector", "a in"), "--selector"},
		"the node's own names":  {with("--node", "n", "--models", dir, "--application", "node=app=shop"), "--application"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), c.args, &stdout, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("exit %d: %s", code, stderr.String())
			}
		})
	}
}

// TestFeaturesBesideTheData: a node makes the features by which mash2 train made the model: the
// same names, over the same window, from as large a part of it.
func TestFeaturesBesideTheData(t *testing.T) {
	measured := map[string]bool{}
	for _, m := range agents.NodeMetrics() {
		measured[m] = true
	}
	for _, m := range []string{"pipelines_server" + agents.ApplicationCPU, "pipelines_server" + agents.ApplicationMem} {
		measured[m] = true // with --application pipelines_server=…
	}
	for _, f := range qos.Features() {
		if m := strings.TrimSuffix(strings.TrimSuffix(f, "_mean"), "_last"); !measured[m] {
			t.Errorf("%s can't be measured on a node", f)
		}
	}
	if qos.Window != agents.FeatureWindow {
		t.Errorf("models are trained on %v, nodes look back %v", qos.Window, agents.FeatureWindow)
	}
	if qos.Share != agents.FeatureShare {
		t.Errorf("models are trained on %v of a window, nodes want %v", qos.Share, agents.FeatureShare)
	}
}
