package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/scalingops"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/experiments/whatif"
)

// trained is the folder of a model after a few steps.
func trained(t *testing.T, environment, algorithm string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	var out training.Result
	if progress := call(t, &out, "train", "--environment", environment, "--algorithm", algorithm, "--steps", "600", "--seed", "3", "--out", dir, "-o", "json"); progress != "" {
		t.Errorf("progress %q, which is for terminals", progress)
	}
	last := out.Curve[len(out.Curve)-1]
	if out.Algorithm != algorithm || out.Environment != environment || out.Steps > 600 || out.Steps < 256 || out.Seconds <= 0 || last.Step != out.Steps {
		t.Errorf("%+v", out)
	}
	text, err := os.ReadFile(out.Card)
	if err != nil {
		t.Fatal(err)
	}
	var card training.Card
	if err := json.Unmarshal(text, &card); err != nil {
		t.Fatal(err)
	}
	best := out.Curve[0].Return
	for _, p := range out.Curve {
		best = max(best, p.Return)
	}
	if card.Algorithm != algorithm || card.Environment != environment || card.Seed != 3 || card.Steps != out.Steps || card.Return != best || len(card.Hash) != 64 || card.Parameters == 0 {
		t.Errorf("%+v, the best return is %g", card, best)
	}
	return dir
}

// TestTrainAndEvaluate each algorithm, in brief.
func TestTrainAndEvaluate(t *testing.T) {
	for environment, algorithms := range map[string][]string{
		"cartpole": {"dqn", "double-dqn", "dueling-dqn", "ppo"},
		"pendulum": {"ddpg", "td3"},
	} {
		args := []string{"evaluate", "--environment", environment, "--episodes", "5", "--seed", "12", "-o", "json"}
		for _, a := range algorithms {
			args = append(args, "--model", trained(t, environment, a))
		}
		var got, again training.Evaluation
		call(t, &got, args...)
		call(t, &again, args...)
		if len(got.Models) != len(algorithms) || len(got.Ranking) != len(algorithms) {
			t.Fatalf("%+v", got)
		}
		returns := map[string]float64{}
		for i, m := range got.Models {
			returns[m.Name] = m.Return
			if m.Algorithm != algorithms[i] || m.Episodes != 5 || m.Interval == nil || m.Interval[0] > m.Return || m.Interval[1] < m.Return {
				t.Errorf("%+v", m)
			}
			if m.Return != again.Models[i].Return {
				t.Errorf("%s: return %g, then %g with the same seed", m.Algorithm, m.Return, again.Models[i].Return)
			}
		}
		for i, name := range got.Ranking[1:] {
			if returns[name] > returns[got.Ranking[i]] {
				t.Errorf("ranking %v of returns %v", got.Ranking, returns)
			}
		}
	}
}

// TestEvaluateUndefined: a single episode has no interval, and nothing to be promoted
// over is null.
func TestEvaluateUndefined(t *testing.T) {
	var got map[string]any
	call(t, &got, "evaluate", "--model", trained(t, "cartpole", "dqn"), "--environment", "cartpole", "--episodes", "1", "-o", "json")
	if v, ok := got["promote"]; !ok || v != nil {
		t.Errorf("promote %v", v)
	}
	if v, ok := got["models"].([]any)[0].(map[string]any)["interval"]; !ok || v != nil {
		t.Errorf("interval %v", v)
	}
}

func TestTrainRefuses(t *testing.T) {
	dir := trained(t, "cartpole", "dqn")
	file := filepath.Join(dir, training.ModelFile)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// other is a copy of the model with its file changed.
	other := func(change func([]byte) []byte) string {
		out := t.TempDir()
		card, err := os.ReadFile(filepath.Join(dir, training.CardFile))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{training.CardFile: card, training.ModelFile: change(bytes.Clone(data))} {
			if err := os.WriteFile(filepath.Join(out, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	train := func(environment, algorithm, steps, out string) []string {
		return []string{"train", "--environment", environment, "--algorithm", algorithm, "--steps", steps, "--out", out}
	}
	evaluate := func(model, environment, episodes string) []string {
		return []string{"evaluate", "--model", model, "--environment", environment, "--episodes", episodes}
	}
	for name, c := range map[string]struct {
		args []string
		want []string // in the message
	}{
		"no environment":              {[]string{"train", "--algorithm", "dqn", "--out", dir}, []string{"--environment", "cartpole, pendulum"}},
		"unknown environment":         {train("atari", "dqn", "10", dir), []string{"--environment", "atari", "cartpole, pendulum"}},
		"unknown algorithm":           {train("cartpole", "sarsa", "10", dir), []string{"--algorithm", "sarsa", "dqn, double-dqn, dueling-dqn, ppo, ddpg, td3"}},
		"algorithm that doesn't fit":  {train("pendulum", "dqn", "10", dir), []string{"--algorithm", "dqn", "ppo, ddpg, td3"}},
		"no steps":                    {train("cartpole", "dqn", "0", dir), []string{"--steps", "0"}},
		"less than a rollout":         {train("cartpole", "ppo", "255", dir), []string{"--steps", "256", "255"}},
		"steps that are no number":    {train("cartpole", "dqn", "many", dir), []string{"--steps"}},
		"no folder":                   {train("cartpole", "dqn", "10", ""), []string{"--out"}},
		"a folder that is a file":     {train("cartpole", "dqn", "10", file), []string{"--out", file}},
		"no model":                    {[]string{"evaluate", "--environment", "cartpole"}, []string{"--model"}},
		"a model that isn't there":    {evaluate(filepath.Join(dir, "none"), "cartpole", "1"), []string{"--model", filepath.Join(dir, "none", training.ModelFile)}},
		"no episodes":                 {evaluate(dir, "cartpole", "0"), []string{"--episodes", "0"}},
		"another environment's model": {evaluate(dir, "pendulum", "1"), []string{"--model", dir, "cartpole", "pendulum"}},
		"a torn model":                {evaluate(other(func(b []byte) []byte { return b[:len(b)/2] }), "cartpole", "1"), []string{training.ModelFile, "torn"}},
		"a model of another version": {
			evaluate(other(func(b []byte) []byte { b[8]++; return b }), "cartpole", "1"), []string{training.ModelFile, "version 2", "reads 1"},
		},
		"a file for cartpole":      {append(train("cartpole", "dqn", "600", dir), "--input", "a.csv"), []string{"--input", "cartpole"}},
		"steps of a forest":        {[]string{"train", "--environment", "qos", "--input", "a.csv", "--steps", "5", "--out", dir}, []string{"--steps", "qos"}},
		"a forest without a file":  {[]string{"train", "--environment", "qos", "--out", dir}, []string{"--input"}},
		"a file that is not there": {[]string{"train", "--environment", "qos", "--input", "none.csv", "--out", dir}, []string{"--input", "none.csv"}},
		"a model for the shop":     {evaluate(dir, "shop", "1"), []string{"--model", "shop"}},
		"no days":                  {[]string{"evaluate", "--environment", "edge-cloud", "--episodes", "0"}, []string{"--episodes", "0"}},
		"the same model twice":     {append(evaluate(dir, "cartpole", "1"), "--model", dir), []string{"--model", "twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), c.args, &stdout, &stderr); code != cli.ExitUsage || stdout.Len() > 0 {
				t.Errorf("exit %d, printed %s", code, stdout.String())
			}
			for _, want := range c.want {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("message %q without %q", stderr.String(), want)
				}
			}
		})
	}
}

// scalingHistory is a CSV of a service whose delay follows from CPU and requests.
func scalingHistory(t *testing.T, rows int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("time,cpu,requests,delay,replicas\n")
	pods := 3.0
	for i := range rows {
		rate := 80 + 60*math.Sin(float64(i)/40)
		usage := rate * 4 / pods * (1 + 0.1*math.Sin(float64(i*i)))
		fmt.Fprintf(&b, "%d,%g,%g,%g,%g\n", 1_785_000_000+30*i, usage, rate, 20+0.5*usage+0.2*rate+4*math.Sin(float64(7*i)), pods)
		if i%5 == 0 {
			pods = min(max(math.Ceil(rate*4/130), 1), 6)
		}
	}
	path := filepath.Join(t.TempDir(), "history.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTrainScalingOps: from a history to ranked candidates, each a model, and a report.
func TestTrainScalingOps(t *testing.T) {
	input, dir := scalingHistory(t, 600), filepath.Join(t.TempDir(), "agents")
	var out scalingops.Result
	call(t, &out, "train", "--environment", "scaling-ops", "--input", input, "--steps", "1500", "--candidate-weights", "1,0.1", "--out", dir, "-o", "json")
	if out.Environment != "scaling-ops" || len(out.Candidates) != 2 || len(out.Ranking) != 2 || out.Fit.R2 < 0.5 || out.Rows != 600 || out.Seconds <= 0 {
		t.Errorf("%+v", out)
	}
	for _, c := range out.Candidates {
		if _, _, err := training.Load(c.Model); err != nil {
			t.Error(err)
		}
		if c.Score.Interval == nil || c.Pods.Mean < 1 {
			t.Errorf("%+v", c)
		}
	}
	if _, err := os.Stat(out.Report); err != nil {
		t.Error(err)
	}
	var onward scalingops.Result
	call(t, &onward, "train", "--environment", "scaling-ops", "--input", input, "--steps", "1000", "--candidate-weights", "1", "--from", out.Candidates[1].Model, "--out", dir+"-2", "-o", "json")
	if onward.InUse == nil || onward.InUse.Pods.Mean != out.Candidates[1].Pods.Mean || onward.Candidates[0].DerivedFrom != scalingops.InUse || onward.Why == "" {
		t.Errorf("%+v", onward)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no model to go on from": {[]string{"--environment", "scaling-ops", "--out", dir, "--input", input, "--from", "nowhere"}, "--from: "},
		"no history":             {[]string{"--environment", "scaling-ops", "--out", dir}, "needs one of --input and --from-prometheus"},
		"two":                    {[]string{"--environment", "scaling-ops", "--out", dir, "--input", input, "--from-prometheus", "http://x"}, "needs one of"},
		"no file":                {[]string{"--environment", "scaling-ops", "--out", dir, "--input", "nowhere.csv"}, "--input: open nowhere.csv"},
		"too short":              {[]string{"--environment", "scaling-ops", "--out", dir, "--input", scalingHistory(t, 20)}, "20 usable rows"},
		"no workload":            {[]string{"--environment", "scaling-ops", "--out", dir, "--from-prometheus", "http://x"}, "--workload NAMESPACE/NAME"},
		"another learner":        {[]string{"--environment", "scaling-ops", "--out", dir, "--input", input, "--algorithm", "ppo"}, `learns by dqn, not "ppo"`},
		"no folder":              {[]string{"--environment", "scaling-ops", "--input", input}, "--out must name a folder"},
		"stop":                   {[]string{"--environment", "scaling-ops", "--out", dir, "--input", input, "--stop-at", "3"}, "has no --stop-at"},
		"impossible":             {[]string{"--environment", "scaling-ops", "--out", dir, "--input", input, "--sla", "0"}, "the SLA must be above 0"},
		"of another world":       {[]string{"--environment", "cartpole", "--algorithm", "dqn", "--out", dir, "--sla", "100"}, "--sla is for --environment scaling-ops"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"train"}, c.args...), &stdout, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%s: exit code %d, %s; want %q", name, code, stderr.String(), c.says)
		}
	}
}

// TestEvaluateRules: the environments that compare rules give whole JSON, with intervals and a verdict.
func TestEvaluateRules(t *testing.T) {
	var got struct {
		Models []struct {
			Name     string
			Return   float64
			Interval *[2]float64
		}
		Ranking []string
		Promote *bool
		Why     string
	}
	call(t, &got, "evaluate", "--environment", "edge-cloud", "--episodes", "2", "-o", "json")
	if len(got.Models) != 6 || len(got.Ranking) != 6 || got.Promote == nil || got.Why == "" {
		t.Fatalf("%+v", got)
	}
	for _, m := range got.Models {
		if m.Interval == nil || m.Interval[0] > m.Return || m.Interval[1] < m.Return {
			t.Errorf("%+v", m)
		}
	}
}

// TestEvaluateRecords: a model that was trained on a history is compared with rules on an
// operator's records, and flags of the other environments are refused.
func TestEvaluateRecords(t *testing.T) {
	agents, records := filepath.Join(t.TempDir(), "agents"), filepath.Join(t.TempDir(), "records")
	call(t, new(map[string]any), "train", "--environment", "scaling-ops", "--input", scalingHistory(t, 600), "--steps", "1500", "--candidate-weights", "1", "--out", agents, "-o", "json")
	call(t, new(map[string]any), "simulate", "--scenario", "heartbeat", "--warm-passes", "3", "--scaler", "mash2", "--records", records, "-o", "json")
	var got whatif.Verdict
	model := filepath.Join(agents, "candidate-1")
	call(t, &got, "evaluate", "--records", records, "--workload", "mash2/web", "--model", model, "--model", "rule:hpa:70", "--block", "10m", "-o", "json")
	if got.Blocks < 2 || len(got.Models) != 3 || got.Models[1].Name != model || got.Models[1].Gain == nil || got.Models[1].Needed != 40 || got.Incumbent != "rule:mash2" || got.Why == "" {
		t.Errorf("%+v", got)
	}
	for says, args := range map[string][]string{
		"--records has no --environment": {"--records", records, "--environment", "cartpole"},
		"--delta goes with --records":    {"--environment", "cartpole", "--delta", "0.1"},
		"--slo-p95 goes with --records":  {"--environment", "cartpole", "--slo-p95", "1s"},
		"--workload must name":           {"--records", records, "--model", "rule:hpa"},
		"--environment must name one of": {"--model", "d"},
		"at least 3 are needed":          {"--records", records, "--model", "rule:hpa", "--workload", "mash2/web"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"evaluate"}, args...), &stdout, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), says) {
			t.Errorf("%v: exit code %d, %s; want %q", args, code, stderr.String(), says)
		}
	}
}

// TestTrainKilled: the same command after a SIGKILL goes on, and comes to the model that an
// uninterrupted one comes to.
func TestTrainKilled(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := func(out string) []string {
		return []string{"train", "--environment", "cartpole", "--algorithm", "dqn", "--steps", "6000", "--seed", "3", "--out", out}
	}
	whole, killed := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "killed")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args(whole), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	c := exec.CommandContext(t.Context(), program, args(killed)...)
	c.Env = append(os.Environ(), envProgram+"=1")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for path := filepath.Join(killed, training.CheckpointFile); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		}
		if _, err := os.Stat(filepath.Join(killed, training.ModelFile)); err == nil {
			t.Fatal("it ended without a checkpoint")
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Skip("it had ended before it was killed")
	}
	var resumed training.Result
	if call(t, &resumed, append(args(killed), "-o", "json")...); resumed.ResumedFrom == 0 || resumed.Steps != 6000 {
		t.Fatalf("%+v", resumed)
	}
	var models [2][]byte
	for i, dir := range []string{whole, killed} {
		if models[i], err = os.ReadFile(filepath.Join(dir, training.ModelFile)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(models[0], models[1]) {
		t.Error("another model than without the kill")
	}
}
