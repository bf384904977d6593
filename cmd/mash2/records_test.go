package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"

	"github.com/mash2-io/mash2/cmd/cli"
)

// command runs mash2 and returns what it printed.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// recordedRun is a folder with the records of a simulated run of three minutes.
func recordedRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "records")
	if code, _, stderr := simulateCommand(t, "--scenario", short(t), "--scaler", "mash2", "--records", dir); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	return dir
}

// TestReplayCommand: without a change the same bytes; with one what would have been
// decided, and no failure; what can't be used is an error of who asks.
func TestReplayCommand(t *testing.T) {
	dir, files := recordedRun(t), t.TempDir()
	policies := func(name, text string) string {
		file := filepath.Join(files, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const pools = "nodePools: [mas-h2-staging-pool, performance-pool]"
	more := policies("more.yaml", "policies:\n  COST_SAVING: {minReplicas: 9, "+pools+"}\n")
	for name, c := range map[string]struct {
		args       []string
		wantCode   int
		wantStdout []string
		wantStderr []string
	}{
		"nothing is changed": {nil, 0, []string{"cycles from 20", "give the same bytes."}, nil},
		"the planner that it was": {
			[]string{"--planner", "horizontal"}, 0, []string{"give the same bytes."}, nil,
		},
		"another policy": {
			[]string{"--policies-file", more}, 0,
			[]string{"cycles differ, from 20", "First: cycle 1, 20", "policy: minReplicas 1 → 9", "workload mash2/web: replicas ", "binding minReplicas → policyMinReplicas", "more; -o json lists them"}, nil,
		},
		"the end of it": {[]string{"--from", "2026-01-05T00:01:00Z", "--to", "2026-01-05T00:30:00Z"}, 0, []string{"give the same bytes."}, nil},
		"a time of no cycle": {
			[]string{"--from", "2030-01-01T00:00:00Z"}, 1, nil, []string{"no cycle was recorded in that time"},
		},
		"a time that is none": {[]string{"--from", "yesterday"}, 2, nil, []string{"--from must be a time such as", "yesterday"}},
		"no such planner":     {[]string{"--planner", "vertical"}, 2, nil, []string{`--planner: there is no such planner: "vertical"; there is horizontal`}},
		"a field that no policy has": {
			[]string{"--policies-file", policies("field.yaml", "policies:\n  COST_SAVING: {least: 9}\n")}, 2, nil, []string{"--policies-file: ", "least"},
		},
		"no such file": {[]string{"--policies-file", filepath.Join(files, "none.yaml")}, 2, nil, []string{"--policies-file: ", "none.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := command(t, append([]string{"replay", "--records", dir}, c.args...)...)
			if code != c.wantCode {
				t.Errorf("exit %d, want %d: %s", code, c.wantCode, stderr)
			}
			for _, want := range c.wantStdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %q on stdout:\n%s", want, stdout)
				}
			}
			for _, want := range c.wantStderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q on stderr:\n%s", want, stderr)
				}
			}
		})
	}
	t.Run("JSON", func(t *testing.T) {
		code, stdout, stderr := command(t, "replay", "--records", dir, "--policies-file", more, "-o", "json")
		var out replay.Result
		if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != 0 {
			t.Fatalf("exit %d, %v: %s", code, err, stderr)
		}
		if out.Cycles == 0 || out.Identical == out.Cycles || out.First == nil || out.First.Cycle != 1 || len(out.Differences) != replay.DefaultDifferences {
			t.Errorf("%d of %d identical, %d differences, first %+v", out.Identical, out.Cycles, len(out.Differences), out.First)
		}
	})
	t.Run("no records", func(t *testing.T) {
		for _, args := range [][]string{{"replay"}, {"replay", "--records", files}, {"explain"}, {"explain", "--records", files}} {
			if code, _, stderr := command(t, args...); code != 2 || !strings.Contains(stderr, "--records") {
				t.Errorf("%v: exit %d: %s", args, code, stderr)
			}
		}
	})
}

// TestExplainCommand: what bound a decision, what it was made from and what lost, of
// the records alone.
func TestExplainCommand(t *testing.T) {
	dir := recordedRun(t)
	code, stdout, stderr := command(t, "explain", "--records", dir)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"replicas of 1 workload on ", "mash2/web", "Policy: ", "Plans considered", "chosen"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	explained := func(args ...string) (out record.Explanation) {
		t.Helper()
		code, stdout, stderr := command(t, append([]string{"explain", "--records", dir, "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != 0 {
			t.Fatalf("exit %d, %v: %s", code, err, stderr)
		}
		return out
	}
	all := explained()
	web := explained("--workload", "mash2/web")
	switch {
	case web.Cycle != all.Cycle || web.Binding == "" || web.Reason == "" || web.Decided == nil || web.Observed == nil || web.Workload != "mash2/web":
		t.Errorf("%+v", web)
	case web.Decided.Replicas != all.Workloads[0].Replicas || int64(web.Decided.Replicas) != all.Chosen.Replicas:
		t.Errorf("%d replicas, %d of all", web.Decided.Replicas, all.Chosen.Replicas)
	case len(web.Decided.Path) == 0 || len(all.Candidates) == 0:
		t.Errorf("path %v, candidates %v", web.Decided.Path, all.Candidates)
	}
	if _, text, _ := command(t, "explain", "--records", dir, "--workload", "mash2/web"); !strings.Contains(text, "millicores a replica; needs ") || !strings.Contains(text, web.Reason) {
		t.Errorf("the workload is explained as\n%s", text)
	}
	// A cycle in the middle is the one in force at that time.
	at := all.Time.Add(-80 * time.Second).UTC().Format(time.RFC3339)
	if before := explained("--at", at); before.Cycle >= all.Cycle || before.Cycle == 0 || before.Time.After(all.Time.Add(-80*time.Second)) {
		t.Errorf("at %s it was cycle %d of %v", at, before.Cycle, before.Time)
	}
	if pool := explained("--node-pool", all.Chosen.Pool); pool.Pool == nil || pool.Pool.Nodes != all.Chosen.Nodes {
		t.Errorf("pool %+v, chosen %+v", pool.Pool, all.Chosen)
	}
	for name, args := range map[string][]string{
		"planned no workload mash2/none; it knows mash2/web": {"--workload", "mash2/none"},
		"planned no pool none; it knows ":                    {"--node-pool", "none"},
		"--at must be a time such as":                        {"--at", "noon"},
	} {
		if code, _, stderr := command(t, append([]string{"explain", "--records", dir}, args...)...); code != 2 || !strings.Contains(stderr, name) {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
}

// TestReplayOfARival: a run planned by a forecaster of the laboratory is replayed too,
// and the operator's own program says what it lacks.
func TestReplayOfARival(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	if code, _, stderr := simulateCommand(t, "--scenario", short(t), "--scaler", "mash2", "--forecaster", "dsp", "--records", dir); code != 0 {
		t.Fatal(stderr)
	}
	if code, stdout, stderr := command(t, "replay", "--records", dir); code != 0 || !strings.Contains(stdout, "give the same bytes.") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	var stdout, stderr bytes.Buffer
	if code := (cli.Program{}).Run(t.Context(), []string{"replay", "--records", dir}, &stdout, &stderr); code == 0 || !strings.Contains(stderr.String(), `unknown forecast model "dsp"`) {
		t.Errorf("the operator's program: exit %d: %s", code, stderr.String())
	}
}

// TestEveryOwnScalerIsRecorded: a person can ask why of each of them, and each replays to the same bytes.
func TestEveryOwnScalerIsRecorded(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "records"), short(t)
	scalers := []string{"mash2", "mash2-any", "mash2-sized", "mash2-mixed", "mash2-joint", "mash2-agents", "mash2-rl"}
	if code, _, stderr := simulateCommand(t, "--scenario", file, "--scaler", strings.Join(scalers, ",")+",hpa,clairvoyant", "--records", dir); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	there, err := os.ReadDir(dir)
	if err != nil || len(there) != len(scalers) {
		t.Errorf("%d folders, %v", len(there), err)
	}
	for _, s := range scalers {
		records := filepath.Join(dir, s+"-seed-1")
		if code, stdout, stderr := command(t, "replay", "--records", records); code != 0 || !strings.Contains(stdout, "give the same bytes.") {
			t.Errorf("%s: exit %d: %s%s", s, code, stdout, stderr)
		}
		if code, stdout, stderr := command(t, "explain", "--records", records); code != 0 || !strings.Contains(stdout, "mash2/web") {
			t.Errorf("%s: exit %d: %s%s", s, code, stdout, stderr)
		}
	}
	if code, _, stderr := simulateCommand(t, "--scenario", file, "--scaler", "hpa,clairvoyant", "--records", filepath.Join(t.TempDir(), "none")); code != 2 || !strings.Contains(stderr, "--scaler names none of them") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
