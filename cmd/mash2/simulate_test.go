package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/demo"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/simulation"
)

// simulateCommand runs mash2 simulate and returns what it printed.
func simulateCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"simulate"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// short is a scenario of three minutes in a file, with a trace beside it.
func short(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("load.csv", "when,rps\n0,20\n60,200\n120,100\n")
	return write("short.yaml", "name: short\nbase: heartbeat\narrivals: {csv: load.csv, time: when, column: rps}\nslo: {p95Ms: 300, failedRatio: 0.05}\n")
}

func TestSimulate(t *testing.T) {
	file, report := short(t), filepath.Join(t.TempDir(), "report")
	code, stdout, stderr := simulateCommand(t, "--scenario", file, "--scaler", "mash2,hpa,hpa:50,static,oracle", "--seed", "3", "--seeds", "2", "--report", report, "-o", "json")
	if code != 0 || stderr != "" { // progress is for terminals
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var out simulation.Result
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	if decoder.More() {
		t.Error("more than one object on stdout")
	}
	if out.Scenario != "short" || out.Seed != 3 || len(out.Runs) != 10 || len(out.Summary) != 5 {
		t.Fatalf("scenario %s, seed %d, %d runs, %d summaries", out.Scenario, out.Seed, len(out.Runs), len(out.Summary))
	}
	for i, r := range out.Runs {
		if want := []string{"mash2", "hpa", "hpa:50", "static", "oracle"}[i%5]; r.Scaler != want || r.Seed != 3+uint64(i/5) {
			t.Errorf("run %d is of %s with seed %d", i, r.Scaler, r.Seed)
		}
		if r.Bound {
			if r.CostUSD <= 0 {
				t.Errorf("the bound is %v", r.CostUSD)
			}
			for _, other := range out.Runs[i-4 : i] {
				if other.SLOViolationMinutes == 0 && other.CostUSD < r.CostUSD {
					t.Errorf("%s costs %v without a violation, less than the bound %v", other.Scaler, other.CostUSD, r.CostUSD)
				}
			}
			continue
		}
		// 20 to 200 to 100 and on: 110 per second in the mean of two minutes, 100 in the third.
		if r.Requests < 14_000 || r.Requests > 22_000 {
			t.Errorf("%s had %d requests", r.Scaler, r.Requests)
		}
		if r.SimulatedSeconds != 180 || r.MaxReplicas < 2 || r.CostUSD <= 0 || r.P95Ms == nil || r.PackingEfficiency == nil {
			t.Errorf("run = %+v", r)
		}
	}
	page, err := os.ReadFile(filepath.Join(report, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Cost and quality", "Infrastructure by pool", "Pair plots", "What mash2 did", "--seeds 2"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	for _, name := range []string{"replicas.png", "cost-and-quality.png"} {
		if _, err := os.Stat(filepath.Join(report, name)); err != nil {
			t.Error(err)
		}
	}
	// The same command prints the same, but for the time it took.
	_, again, _ := simulateCommand(t, "--scenario", file, "--scaler", "mash2,hpa,hpa:50,static,oracle", "--seed", "3", "--seeds", "2", "-o", "json")
	var second simulation.Result
	if err := json.Unmarshal([]byte(again), &second); err != nil {
		t.Fatal(err)
	}
	for _, runs := range [][]score.Run{out.Runs, second.Runs} {
		for i := range runs {
			runs[i].WallSeconds = 0
		}
	}
	if diff := cmp.Diff(out.Runs, second.Runs); diff != "" {
		t.Errorf("a second run differs:\n%s", diff)
	}
}

func TestSimulateKeys(t *testing.T) {
	_, stdout, _ := simulateCommand(t, "--scenario", short(t), "--scaler", "static", "-o", "json")
	var out map[string]any
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	keys := func(v any) []string {
		var names []string
		for name := range v.(map[string]any) {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff([]string{"fidelity", "runs", "scenario", "seed", "summary"}, keys(out)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	want := strings.Fields("costUsd failedRatio failedRequests maxReplicas meanCpuUtilization meanReplicas minReadyPods nodeHours objective objectiveKept oomKills p50Ms p95Ms p99Ms packingEfficiency pass " +
		"peakCpuUtilization pendingPodSeconds phase podCostUsd podStarts requests resizes scaleActions scaler seed simulatedSeconds sloViolationMinutes sloViolationRatio unscheduledStretchSeconds wallSeconds")
	if diff := cmp.Diff(want, keys(out["runs"].([]any)[0])); diff != "" {
		t.Errorf("keys of a run (-want +got):\n%s", diff)
	}
}

// At twenty times the load and bounds there are twenty times the requests, replicas
// and nodes; the objective is judged as at any size.
func TestSimulateScale(t *testing.T) {
	runs := map[string]score.Run{}
	for _, scale := range []string{"1", "20"} {
		code, stdout, stderr := simulateCommand(t, "--scenario", short(t), "--scaler", "static", "--scale", scale, "-o", "json")
		if code != 0 {
			t.Fatal(stderr)
		}
		var out simulation.Result
		if err := json.Unmarshal([]byte(stdout), &out); err != nil {
			t.Fatal(err)
		}
		runs[scale] = out.Runs[0]
		r := out.Runs[0]
		if r.Objective == nil || *r.Objective != 0.999 || r.ObjectiveKept == nil || *r.ObjectiveKept != (r.SLOViolationMinutes == 0) {
			t.Errorf("scale %s: objective %v, kept %v with %d minutes in violation", scale, r.Objective, r.ObjectiveKept, r.SLOViolationMinutes)
		}
	}
	one, twenty := runs["1"], runs["20"]
	for name, of := range map[string]func(score.Run) float64{
		"requests": func(r score.Run) float64 { return float64(r.Requests) },
		"replicas": func(r score.Run) float64 { return float64(r.MaxReplicas) },
		"cost":     func(r score.Run) float64 { return r.CostUSD },
	} {
		// A whole pod and a whole node are much at 1×.
		if ratio := of(twenty) / of(one); ratio < 10 || ratio > 21 || name == "requests" && ratio < 19 {
			t.Errorf("%s: %g times as much", name, ratio)
		}
	}
}

func TestSimulateTable(t *testing.T) {
	code, stdout, _ := simulateCommand(t, "--scenario", short(t), "--scaler", "mash2,hpa:80,hpa:30", "--trace", filepath.Join(filepath.Dir(short(t)), "load.csv"))
	if code != 0 {
		t.Fatal("failed")
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 5 || !strings.Contains(lines[0], "SLO violated, min") || !strings.HasPrefix(strings.TrimSpace(lines[3]), "hpa:30") || !strings.HasPrefix(lines[4], "at equal SLO: ") {
		t.Errorf("table:\n%s", stdout)
	}
}

// Both fidelities are run, compared and drawn beside each other.
func TestSimulateBothFidelities(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := simulateCommand(t, "--scenario", short(t), "--scaler", "static,oracle,hpa", "--seeds", "2", "--fidelity", "fluid,request", "--report", dir, "-o", "json")
	if code != 0 {
		t.Fatal(stderr)
	}
	var out simulation.Result
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range out.Fidelities {
		seen[a.Scaler+" "+a.Name] = true
		if a.Scaler == "static" && a.Name == "CPU" && (a.Error == nil || *a.Error == 0 || *a.Error > 0.1 || *a.Error < -0.1 || a.Distance == nil) {
			t.Errorf("%+v", a)
		}
	}
	for _, want := range []string{"static replicas", "static p95", "hpa CPU", "hpa node cost", "hpa pending time"} {
		if !seen[want] {
			t.Errorf("%s is not compared", want)
		}
	}
	if len(out.Runs) != 6 || out.Fidelity != "fluid,request" {
		t.Errorf("%d runs, fidelity %s", len(out.Runs), out.Fidelity)
	}
	for _, name := range []string{"replicas", "cpu-utilisation", "response-time-95th-percentile"} {
		if _, err := os.Stat(filepath.Join(dir, name+"-both-fidelities.png")); err != nil {
			t.Error(err)
		}
	}
}

// What mash2 demo printed serves as a recording as well: its passes are compared
// phase by phase, with the switch where demo makes it.
func TestSimulateAgainstWhatDemoPrinted(t *testing.T) {
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	w := simulation.World{Scenario: s, Passes: 3, Switches: []scenarios.Switch{simulation.AddedSwitch(s, 2)}}
	printed := demo.Result{Scenario: s.Name}
	for _, scaler := range []string{"mash2", "hpa"} {
		o, err := w.Run(t.Context(), scaler, sim.Fluid, 5, false)
		if err != nil {
			t.Fatal(err)
		}
		for pass := range 3 {
			r, err := o.RunOfPass(pass)
			if err != nil {
				t.Fatal(err)
			}
			if pass == 2 {
				r.Phase = score.Switch
			}
			printed.Runs = append(printed.Runs, r)
		}
	}
	data, err := json.Marshal(printed)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "printed.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := simulateCommand(t, "--against", file, "--seed", "5", "--report", t.TempDir(), "-o", "json")
	if code != 0 {
		t.Fatal(stderr)
	}
	var out simulation.Result
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	phases := map[string]int{}
	for _, d := range out.Against {
		phases[d.Scaler+" "+d.Phase]++
		if d.Error != nil && *d.Error != 0 {
			t.Errorf("%s %s %s: error %v", d.Scaler, d.Phase, d.Name, *d.Error)
		}
	}
	if len(phases) != 6 || phases["mash2 switch"] != 7 {
		t.Errorf("compared: %v", phases)
	}
}

// Bad flags and input exit with 2 and name what is wrong.
func TestSimulateRefuses(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("name: broken\nbase: heartbeat\nstages: [\"1m:x\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown scenario":        {[]string{"--scenario", "tsunami"}, `unknown scenario "tsunami"`},
		"a mistake in a file":        {[]string{"--scenario", broken}, broken + `:3: stages[0]: "1m:x": target "x" is not a number of virtual users`},
		"an unknown scaler":          {[]string{"--scaler", "vpa"}, `scaler "vpa" is none of`},
		"a target beyond all":        {[]string{"--scaler", "hpa:0"}, `scaler "hpa:0": the parameter must be a number from 1 to 400`},
		"a scaler twice":             {[]string{"--scaler", "hpa,hpa"}, "--scaler names hpa twice"},
		"a scale of nothing":         {[]string{"--scale", "0"}, "--scale must be a positive number, is 0"},
		"a negative scale":           {[]string{"--scale", "-2"}, "--scale must be a positive number, is -2"},
		"a scale beyond all":         {[]string{"--scale", "1000"}, "heartbeat.yaml: stages[0]: 400 times 1000 is beyond 100000"},
		"no seeds":                   {[]string{"--seeds", "0"}, "--seeds must be 1 or more"},
		"an unknown fidelity":        {[]string{"--fidelity", "high"}, `--fidelity must be fluid or request`},
		"one fidelity twice":         {[]string{"--fidelity", "fluid,fluid"}, `--fidelity must be fluid or request, or one after the other`},
		"an unknown output":          {[]string{"--scenario", short(t), "--scaler", "static", "-o", "xml"}, "--output must be text or json"},
		"a trace for stages":         {[]string{"--trace", "x.csv"}, "there are none that x.csv could replace"},
		"no recording":               {[]string{"--against", broken + "x"}, "reading the recording"},
		"what is no recording":       {[]string{"--against", broken}, "invalid character"},
		"a flag that does not exist": {[]string{"--scenarios", "x"}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := simulateCommand(t, test.args...)
			if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exit %d, stdout %q, stderr %q, want %q", code, stdout, stderr, test.want)
			}
		})
	}
}

// A simulation compared with a recording of itself has no error: passes, the
// switch of the policy and all series are the same on both sides.
func TestSimulateAgainstItself(t *testing.T) {
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	recording := score.Recording{Scenario: s.Name, Speed: 10, Seed: 5, Switches: []score.Event{{At: s.PassDuration().Seconds() + 90, Name: "PERFORMANCE"}}}
	w := simulation.World{Scenario: s, Passes: 2}
	for _, e := range recording.Switches {
		w.Switches = append(w.Switches, simulation.SwitchAt(e))
	}
	for _, scaler := range []string{"mash2", "hpa"} {
		o, err := w.Run(t.Context(), scaler, sim.Fluid, 5, false)
		if err != nil {
			t.Fatal(err)
		}
		recording.Outcomes = append(recording.Outcomes, o)
	}
	file, dir := filepath.Join(t.TempDir(), score.RecordingFile), t.TempDir()
	if err := recording.Write(file); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := simulateCommand(t, "--against", file, "--seed", "5", "--report", dir, "-o", "json")
	if code != 0 {
		t.Fatal(stderr)
	}
	var out simulation.Result
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Against) < 16 {
		t.Errorf("%d figures compared", len(out.Against))
	}
	for _, d := range out.Against {
		if d.Error != nil && *d.Error != 0 || d.Distance != nil && *d.Distance != 0 {
			t.Errorf("%s %s: error %v, distance %v", d.Scaler, d.Name, d.Error, d.Distance)
		}
	}
	// It was a run with a switch: the other pool was used.
	used := slices.ContainsFunc(recording.Outcomes[0].Nodes, func(n score.Node) bool { return n.Pool == "performance-pool" })
	if !used {
		t.Error("the policy never switched")
	}
	// Another seed differs.
	_, stdout, _ = simulateCommand(t, "--against", file, "--seed", "6", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(out.Against, func(d score.Difference) bool { return d.Distance != nil && *d.Distance > 0 }) {
		t.Error("another seed is the same")
	}
}
