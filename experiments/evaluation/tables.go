package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/score"
)

// result is what is needed of what mash2 simulate -o json prints.
type result struct {
	Scenario string      `json:"scenario"`
	Runs     []score.Run `json:"runs"`
}

// figure of one scaler on one trace.
type figure struct {
	cost      float64 // relative to the bound
	violating float64 // share of minutes
}

// read reads a trace's figures, those of further seeds beside them: for NAME.json
// those of NAME.seed*.json.
func read(file string) (result, error) {
	r, err := readOne(file)
	if err != nil {
		return r, err
	}
	more, err := filepath.Glob(strings.TrimSuffix(file, ".json") + ".seed*.json")
	if err != nil {
		return r, err
	}
	slices.Sort(more)
	for _, f := range more {
		other, err := readOne(f)
		if err != nil {
			return r, err
		}
		if other.Scenario != r.Scenario {
			return r, fmt.Errorf("%s is of %s, not %s", f, other.Scenario, r.Scenario)
		}
		r.Runs = append(r.Runs, other.Runs...)
	}
	for _, run := range r.Runs {
		if _, ok := r.bound(run.Seed); !ok {
			return r, fmt.Errorf("%s: the oracle is missing for seed %d, to which costs are relative", file, run.Seed)
		}
	}
	if len(r.Runs) == 0 {
		return r, fmt.Errorf("%s: the oracle is missing, to which costs are relative", file)
	}
	return r, nil
}

func readOne(file string) (result, error) {
	var r result
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// bound is the oracle's cost with a seed, USD.
func (r result) bound(seed uint64) (float64, bool) {
	for _, run := range r.Runs {
		if run.Bound && run.Seed == seed {
			return run.CostUSD, run.CostUSD > 0
		}
	}
	return 0, false
}

// scalers in the order of the runs, without the oracle.
func (r result) scalers() []string {
	var out []string
	for _, run := range r.Runs {
		if !run.Bound && !slices.Contains(out, run.Scaler) {
			out = append(out, run.Scaler)
		}
	}
	return out
}

// of is a scaler's figure, means over seeds; false when it was not run.
func (r result) of(scaler string) (figure, bool) {
	var f figure
	n := 0
	for _, run := range r.Runs {
		if run.Scaler != scaler || run.Bound {
			continue
		}
		n++
		bound, _ := r.bound(run.Seed)
		f.cost += run.CostUSD / bound
		if run.SLOViolationRatio != nil {
			f.violating += *run.SLOViolationRatio
		}
	}
	f.cost /= float64(n)
	f.violating /= float64(n)
	return f, n > 0
}

func section(b *strings.Builder, title string, results []result, of int) {
	fmt.Fprintf(b, "## %s\n\n", title)
	if len(results) < of {
		fmt.Fprintf(b, "Of %d of the %d traces.\n\n", len(results), of)
	}
	var scalers []string
	for _, r := range results {
		for _, s := range r.scalers() {
			if !slices.Contains(scalers, s) {
				scalers = append(scalers, s)
			}
		}
	}
	row := func(cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	head := func(cells ...string) {
		row(cells...)
		fmt.Fprintf(b, "|%s\n", strings.Repeat("---|", len(cells)))
	}
	head(append([]string{"scaler"}, namesOf(results)...)...)
	for _, s := range scalers {
		cells := []string{s}
		for _, r := range results {
			text := ""
			if f, ok := r.of(s); ok {
				text = fmt.Sprintf("%.2f · %.1f", f.cost, 100*f.violating)
			}
			cells = append(cells, text)
		}
		row(cells...)
	}
	b.WriteString("\n")
	head("scaler", "cost, geometric mean", "violating, mean %", "worst, %", "traces at 0.5 % or less")
	for _, s := range scalers {
		row(append([]string{s}, overall(results, s)...)...)
	}
	if partly(results, scalers) {
		b.WriteString("\nA scaler that was not run on every trace has means over those it was run on, which are\nnot to be compared with the others'.\n")
	}
	b.WriteString("\nAgainst the HPA at any of its targets:\n\n")
	head("trace", "mash2", "cheapest HPA that violates no more", "mash2's cost relative to it", "targets that are cheaper and violate less")
	for _, r := range results {
		row(append([]string{r.Scenario}, r.againstHPA()...)...)
	}
	b.WriteString("\n")
}

// partly tells whether a scaler is missing on a trace.
func partly(results []result, scalers []string) bool {
	for _, r := range results {
		for _, s := range scalers {
			if _, ok := r.of(s); !ok {
				return true
			}
		}
	}
	return false
}

func namesOf(results []result) []string {
	var out []string
	for _, r := range results {
		out = append(out, r.Scenario)
	}
	return out
}

// overall sums up a scaler over traces.
func overall(results []result, scaler string) []string {
	var logs, violating, worst float64
	n, good := 0, 0
	for _, r := range results {
		f, ok := r.of(scaler)
		if !ok {
			continue
		}
		n++
		logs += math.Log(f.cost)
		violating += f.violating
		worst = max(worst, f.violating)
		if f.violating <= 0.005 {
			good++
		}
	}
	return []string{
		fmt.Sprintf("%.2f", math.Exp(logs/float64(n))), fmt.Sprintf("%.2f", 100*violating/float64(n)),
		fmt.Sprintf("%.1f", 100*worst), fmt.Sprintf("%d of %d", good, n),
	}
}

// againstHPA compares mash2 with the HPA at each target on one trace.
func (r result) againstHPA() []string {
	mine, ok := r.of("mash2")
	if !ok {
		return []string{"", "", "", ""}
	}
	best := ""
	var cheapest figure
	for _, s := range r.scalers() {
		f, _ := r.of(s)
		if score.Kind(s) != "hpa" {
			continue
		}
		if f.violating <= mine.violating+1e-9 && (best == "" || f.cost < cheapest.cost) {
			best, cheapest = s, f
		}
	}
	dominating := r.dominating("mash2")
	out := []string{fmt.Sprintf("%.2f · %.1f", mine.cost, 100*mine.violating), "none is as good", "–", "none"}
	if best != "" {
		out[1] = fmt.Sprintf("%s, %.2f · %.1f", best, cheapest.cost, 100*cheapest.violating)
		out[2] = fmt.Sprintf("%+.0f %%", 100*(mine.cost/cheapest.cost-1))
	}
	if len(dominating) > 0 {
		out[3] = strings.Join(dominating, ", ")
	}
	return out
}
