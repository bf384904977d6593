package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/experiments/whatif"
)

// whatifCommand runs mash2 whatif and returns what it printed.
func whatifCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"whatif"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// waves are two hours of CPU usage, by the minute, between 0.5 and 2.5 cores,
// with a gap.
func waves(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("time,cores\n")
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range 120 {
		if i == 100 {
			continue
		}
		fmt.Fprintf(&b, "%s,%.4f\n", start.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), 1.5-math.Cos(2*math.Pi*float64(i)/30))
	}
	file := filepath.Join(t.TempDir(), "waves.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func decodeWhatif(t *testing.T, stdout string) whatif.Result {
	t.Helper()
	var out whatif.Result
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if decoder.More() {
		t.Error("more than one object on stdout")
	}
	return out
}

func TestWhatifOfATrace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "report")
	code, stdout, stderr := whatifCommand(t, "--trace", waves(t), "--from", "1h", "--rival", "hpa:60,hpa:80,keda-rps,phpa,karpenter,static,oracle",
		"--request-cpu", "5ms", "--seeds", "2", "--report", dir, "-o", "json")
	if code != 0 || stderr != "" { // progress is for terminals
		t.Fatalf("exit %d: %s", code, stderr)
	}
	out := decodeWhatif(t, stdout)
	h := out.History
	if h.From != "2026-03-01T01:00:00Z" || h.To != "2026-03-01T02:00:00Z" || h.Samples != 60 || h.WarmPasses != 1 || h.Step != 60 {
		t.Errorf("history %+v", h)
	}
	if math.Abs(h.GapRatio-1./60) > 1e-9 || math.Abs(h.MeanCores-1.5) > 0.02 || math.Abs(h.PeakCores-2.5) > 0.01 {
		t.Errorf("history %+v", h)
	}
	var names []string
	for _, s := range out.Summary {
		names = append(names, s.Scaler)
	}
	if diff := cmp.Diff([]string{"mash2 COST_SAVING", "mash2 PERFORMANCE", "hpa:60", "hpa:80", "keda-rps", "phpa", "karpenter", "static", "oracle"}, names); diff != "" {
		t.Errorf("scalers (-want +got):\n%s", diff)
	}
	if len(out.Runs) != 18 {
		t.Errorf("%d runs of 9 scalers with 2 seeds", len(out.Runs))
	}
	bound := out.Runs[8].CostUSD
	for _, r := range out.Runs {
		if r.Bound {
			continue
		}
		// What was used is what is asked for: 1.5 cores for an hour, at 5 ms.
		if want := 1.5 * 3600 / 0.005; math.Abs(float64(r.Requests)/want-1) > 0.02 {
			t.Errorf("%s: %d requests, want about %.0f", r.Scaler, r.Requests, want)
		}
		if r.SLOViolationMinutes == 0 && r.CostUSD < bound {
			t.Errorf("%s costs %v, less than the bound %v", r.Scaler, r.CostUSD, bound)
		}
		if (r.Policy != "") != strings.HasPrefix(r.Scaler, "mash2 ") || r.NodeHours <= 0 {
			t.Errorf("run %+v", r)
		}
	}
	// PERFORMANCE has other machines.
	if a, b := out.Summary[0].Mean("costUsd"), out.Summary[1].Mean("costUsd"); a == b {
		t.Errorf("both policies cost %v", a)
	}
	if out.Summary[0].CostUSD30Days < 700*out.Summary[0].Mean("costUsd") {
		t.Errorf("30 days cost %v, an hour %v", out.Summary[0].CostUSD30Days, out.Summary[0].Mean("costUsd"))
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Cost and quality", "Known error of the simulation", "CPU limit of a pod", "History", "What mash2 did under PERFORMANCE", "mash2 simulate --scenario"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	// The scenario beside the report is the one that was simulated.
	code, stdout, stderr = simulateCommand(t, "--scenario", out.ScenarioFile, "--scaler", "hpa:60", "-o", "json")
	if code != 0 {
		t.Fatal(stderr)
	}
	var again simulation.Result
	if err := json.Unmarshal([]byte(stdout), &again); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(out.Runs, func(r whatif.Run) bool { return r.Scaler == "hpa:60" && r.Seed == 1 })
	first, second := out.Runs[i].Run, again.Runs[0]
	first.WallSeconds, second.WallSeconds = 0, 0
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("mash2 simulate makes something else of the scenario:\n%s", diff)
	}
}

// A gate exits with 1 and a sentence where a policy exceeds it, and prints the
// result all the same.
func TestWhatifGate(t *testing.T) {
	base := []string{"--trace", waves(t), "--from", "1h", "--rival", "", "--policy", "COST_SAVING", "-o", "json"}
	for name, test := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"passed":   {[]string{"--max-cost", "10", "--max-violation", "1"}, 0, nil},
		"too dear": {[]string{"--max-cost", "0.001"}, cli.ExitFailed, []string{"COST_SAVING: its nodes cost 0.", "more than the 0.0010 of --max-cost"}},
		"violated, not dear": {[]string{"--max-cost", "10", "--max-violation", "0", "--slo-p95", "1ms"}, cli.ExitFailed,
			[]string{"minutes (60.0) are in violation of the SLO, more than the 0 of --max-violation"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := whatifCommand(t, append(slices.Clone(base), test.args...)...)
			out := decodeWhatif(t, stdout)
			if code != test.code || out.Gate == nil || out.Gate.Passed != (test.code == 0) || len(out.Gate.Exceeded) > 1 {
				t.Errorf("exit %d, gate %+v, stderr %s", code, out.Gate, stderr)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr %q without %q", stderr, want)
				}
			}
			if len(out.Runs) != 1 {
				t.Errorf("%d runs", len(out.Runs))
			}
		})
	}
}

func TestWhatifText(t *testing.T) {
	code, stdout, stderr := whatifCommand(t, "--trace", waves(t), "--from", "40m", "--warm-passes", "3", "--rival", "hpa:50,hpa:80", "--policy", "COST_SAVING", "--max-cost", "5")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{
		"40 samples, 1m0s apart", "and 2 times as long before it", "note: there is history for 2 of 3 passes of warm-up", "SLO violated, min", "of 30 days, $", "hpa:50",
		"COST_SAVING: ", "CPU request of a pod: 200m (assumed; --cpu-request)", "known error of the simulation (heartbeat", whatif.KnownErrorCommand, "gate: passed",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
}

// A user's own policies, with pools of their names.
func TestWhatifOwnPolicies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte("policies:\n  NIGHT: {nodePools: [cheap], minReplicas: 1, targetUtilization: 0.9}\n  COST_SAVING: {nodePools: [lost]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--trace", waves(t), "--from", "30m", "--rival", "", "--pool", "cheap=e2-standard-4", "--policies-file", file, "-o", "json"}
	code, stdout, stderr := whatifCommand(t, append(slices.Clone(args), "--policy", "NIGHT")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	if out := decodeWhatif(t, stdout); out.Runs[0].Policy != "NIGHT" || out.Runs[0].MeanReplicas == nil || *out.Runs[0].MeanReplicas < 3 {
		t.Errorf("%+v", out.Runs)
	}
	if code, _, stderr = whatifCommand(t, append(args, "--policy", "COST_SAVING")...); code != cli.ExitUsage || !strings.Contains(stderr, `names node pool "lost", which is none of --pool`) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestWhatifRefuses(t *testing.T) {
	trace := waves(t)
	negative := filepath.Join(t.TempDir(), "negative.csv")
	if err := os.WriteFile(negative, []byte("time,cores\n0,1\n60,2\n120,-1\n180,1\n240,1\n300,1\n360,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no source":           {nil, "--prometheus must name a server, or --trace a file"},
		"both sources":        {[]string{"--trace", trace, "--prometheus", "http://x", "--query", "x"}, "either --prometheus or --trace"},
		"no selector":         {[]string{"--prometheus", "http://x"}, "needs a --selector or a --query"},
		"a selector alone":    {[]string{"--trace", trace, "--selector", `pod="x"`}, "need a --prometheus"},
		"no such file":        {[]string{"--trace", "nowhere.csv"}, "nowhere.csv"},
		"an unknown policy":   {[]string{"--trace", trace, "--policy", "THRIFT"}, "--policy THRIFT"},
		"a policy twice":      {[]string{"--trace", trace, "--policy", "PERFORMANCE,PERFORMANCE"}, "names PERFORMANCE twice"},
		"an unknown rival":    {[]string{"--trace", trace, "--rival", "magic"}, `--rival: scaler "magic"`},
		"an unknown machine":  {[]string{"--trace", trace, "--pool", "abacus-1"}, `machine type "abacus-1" is not known`},
		"an end before":       {[]string{"--trace", trace, "--from", "10m", "--to", "20m"}, "is not before --to 20m"},
		"before the trace":    {[]string{"--trace", trace, "--from", "2026-02-01T00:00:00Z"}, "where " + trace + " begins"},
		"no time":             {[]string{"--trace", trace, "--from", "yesterday"}, `--from "yesterday" is neither a time`},
		"too short":           {[]string{"--trace", trace, "--from", "2m"}, "too short to tell anything"},
		"a negative use":      {[]string{"--trace", negative}, "negative.csv:4"},
		"a share above all":   {[]string{"--trace", trace, "--max-violation", "2"}, "--max-violation must be between 0 and 1"},
		"a bad quantity":      {[]string{"--trace", trace, "--cpu-request", "much"}, `--cpu-request "much" is not a quantity`},
		"a limit too low":     {[]string{"--trace", trace, "--cpu-request", "1", "--cpu-limit", "500m"}, "workload.cpu.limit: must not be below the request"},
		"a column not here":   {[]string{"--trace", trace, "--value", "memory"}, `no column "memory"`},
		"percent as cores":    {[]string{"--trace", trace, "--scale", "10000"}, "more than can be simulated"},
		"no Prometheus there": {[]string{"--prometheus", "ftp://", "--selector", "a="}, "Prometheus"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := whatifCommand(t, test.args...)
			want := cli.ExitUsage
			if name == "no Prometheus there" {
				want = cli.ExitFailed
			}
			if code != want || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exit %d, stdout %q, stderr %q, want %q", code, stdout, stderr, test.want)
			}
		})
	}
}
