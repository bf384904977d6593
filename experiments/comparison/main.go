// Command comparison makes one document of what mash2 simulate printed for
// several scenarios:
//
//	go run ./experiments/comparison --out docs out/sim/heartbeat.json …
//
// It judges mash2 by the HPA at equal service: the cheapest of its targets that
// violates the SLO in no more minutes. With --simulator it makes the page that says
// what the simulation is worth:
//
//	go run ./experiments/comparison --simulator --out docs out/simulator/*.json out/simulator/speed.txt
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
)

func main() {
	out := flag.String("out", "docs/benchmarks", "folder to write simulation.md and its pictures into")
	simulator := flag.Bool("simulator", false, "make simulator.md, on what the simulation is worth, instead")
	flag.Parse()
	page := compare
	if *simulator {
		page = validate
	}
	if err := page(flag.Args(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "comparison:", err)
		os.Exit(1)
	}
}

// simulation is what is needed of what mash2 simulate -o json prints.
type simulation struct {
	Scenario string          `json:"scenario"`
	Seed     uint64          `json:"seed"`
	Fidelity string          `json:"fidelity"`
	Runs     []score.Run     `json:"runs"`
	Summary  []score.Summary `json:"-"`
	// Of simulator.md.
	Against    []score.Difference `json:"against"`
	Fidelities []score.Agreement  `json:"fidelities"`
}

// seeds is how many were simulated.
func (s simulation) seeds() int {
	seeds := map[uint64]bool{}
	for _, r := range s.Runs {
		seeds[r.Seed] = true
	}
	return len(seeds)
}

func read(file string) (simulation, error) {
	var s simulation
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	if s.Scenario == "" || len(s.Runs) == 0 {
		return s, fmt.Errorf("%s: not what mash2 simulate -o json prints", file)
	}
	s.Summary = score.Summarize(s.Runs)
	return s, nil
}

func compare(files []string, out string) error {
	if len(files) == 0 {
		return errors.New("no files to compare")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var all []simulation
	for _, file := range files {
		s, err := read(file)
		if err != nil {
			return err
		}
		all = append(all, s)
		if err := pareto(s, filepath.Join(out, picture(s))); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "simulation.md"), []byte(document(all)), 0o644)
}

func picture(s simulation) string { return "simulation-" + s.Scenario + ".png" }

func pareto(s simulation, file string) error {
	f := score.Pareto(s.Summary)
	f.Title = s.Scenario + ": cost and quality"
	out, err := os.Create(filepath.Clean(file))
	if err != nil {
		return err
	}
	return errors.Join(f.PNG(out), out.Close())
}

func document(all []simulation) string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("## At equal service\n\n" + equal)
	b.WriteString("| scenario | mash2: violated, min | node cost, $ | equal HPA | violated, min | node cost, $ | mash2's nodes | mash2's pods | bound, $ |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range all {
		b.WriteString(equalRow(s))
	}
	b.WriteString("\n## At any target\n\n" + anyTarget)
	b.WriteString(rivals(all, atEqualService))
	b.WriteString("## At equal cost\n\n" + sameCost)
	b.WriteString(rivals(all, atEqualCost))
	for _, s := range all {
		section(&b, s)
	}
	return b.String()
}

// equalRow compares mash2 with the HPA at equal service.
func equalRow(s simulation) string {
	minutes, cost := score.MetricNamed("sloViolationMinutes"), score.MetricNamed("costUsd")
	var of score.Summary
	var swept []score.Summary
	bound := "–"
	for _, sum := range s.Summary {
		switch {
		case sum.Scaler == "mash2":
			of = sum
		case score.Kind(sum.Scaler) == "hpa":
			swept = append(swept, sum)
		case sum.Bound:
			bound = sum.Metrics[cost.Name].Text(cost)
		}
	}
	if of.Scaler == "" {
		return ""
	}
	row := []string{s.Scenario, of.Metrics[minutes.Name].Text(minutes), of.Metrics[cost.Name].Text(cost)}
	if best, ok := score.AtEqualSLO(of, swept); ok {
		row = append(row, best.Scaler, best.Metrics[minutes.Name].Text(minutes), best.Metrics[cost.Name].Text(cost),
			score.Relative(s.Runs, of.Scaler, best.Scaler, cost).Text(score.Percent),
			score.Relative(s.Runs, of.Scaler, best.Scaler, score.MetricNamed("podCostUsd")).Text(score.Percent))
	} else {
		row = append(row, "none is as good", "–", "–", "–", "–")
	}
	return "| " + strings.Join(append(row, bound), " | ") + " |\n"
}

// rivals compares mash2's sweep with each rival: one row of cells for a scenario, from
// the rival's summary and those of mash2 at its targets.
func rivals(all []simulation, cell func(s simulation, rival score.Summary, mine []score.Summary) string) string {
	var names []string
	for _, s := range all {
		for _, sum := range s.Summary {
			if _, ok := score.Rival(sum.Scaler); ok && !slices.Contains(names, sum.Scaler) {
				names = append(names, sum.Scaler)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| scenario | %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)+1))
	for _, s := range all {
		row := []string{s.Scenario}
		for _, name := range names {
			text := ""
			for _, sum := range s.Summary {
				if sum.Scaler != name {
					continue
				}
				kind, _ := score.Rival(name)
				var mine []score.Summary
				for _, m := range s.Summary {
					if score.Kind(m.Scaler) == kind {
						mine = append(mine, m)
					}
				}
				text = cell(s, sum, mine)
			}
			row = append(row, text)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String() + "\n"
}

// atEqualService is what the cheapest mash2 that serves as well costs more.
func atEqualService(s simulation, rival score.Summary, mine []score.Summary) string {
	best, ok := score.AtEqualSLO(rival, mine)
	if !ok {
		return "none is as good"
	}
	return score.Relative(s.Runs, best.Scaler, rival.Scaler, score.MetricNamed("costUsd")).Text(score.Percent) + " (" + best.Scaler + ")"
}

// atEqualCost is in how many minutes the best mash2 that costs no more violates the
// SLO, after the rival's.
func atEqualCost(_ simulation, rival score.Summary, mine []score.Summary) string {
	const minutes = "sloViolationMinutes"
	best, ok := score.AtEqualCost(rival, mine)
	if !ok {
		return fmt.Sprintf("%.1f → all cost more", rival.Mean(minutes))
	}
	return fmt.Sprintf("%.1f → %.1f (%s)", rival.Mean(minutes), best.Mean(minutes), best.Scaler)
}

func section(b *strings.Builder, s simulation) {
	fmt.Fprintf(b, "## %s\n\n", s.Scenario)
	if described, err := scenarios.Describe(s.Scenario); err == nil {
		fmt.Fprintf(b, "%s\n\n", described)
	}
	fmt.Fprintf(b, "Fidelity %s, %d seeds from %d on.\n\n", s.Fidelity, s.seeds(), s.Seed)
	header := []string{"scaler"}
	for _, m := range score.Columns() {
		header = append(header, m.Title)
	}
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, sum := range s.Summary {
		row := []string{sum.Scaler}
		for _, m := range score.Columns() {
			row = append(row, sum.Metrics[m.Name].Text(m))
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	fmt.Fprintf(b, "\n![%s](%s)\n\n", s.Scenario, picture(s))
}

const introduction = `# Scalers in virtual time

Made by ` + "`make experiments-sim`" + `, which runs ` + "`mash2 simulate`" + ` for each scenario and
leaves reports with all figures in ` + "`out/sim`" + `.

Every scaler has its own simulated cluster, with the same load, the same bounds of replicas and nodes, and
the same warm-up. Rivals have their authors' settings, with the HPA at 80 %.

| scaler | what it is |
|---|---|
| ` + "`hpa`" + `, ` + "`hpa:60`" + ` | the rules of the stock HPA and Cluster Autoscaler, at 80 %; the same at 60 % |
| ` + "`hpa-overprovisioned`" + ` | the same with pause pods of low priority that keep 20 % of the cluster free, as in Cluster Autoscaler's FAQ |
| ` + "`keda-rps`" + ` | a ScaledObject of KEDA on requests per second, at 80 % of what a replica's CPU request can serve |
| ` + "`phpa`" + ` | the Predictive Horizontal Pod Autoscaler with the settings of its examples; its season is a pass |
| ` + "`karpenter`" + ` | the HPA with Karpenter's provisioning and consolidation (after 1 m, 10 % of nodes at once) over all machine types of the scenario; the other HPAs have only the first pool |
| ` + "`mash2`" + ` | mash2 under COST_SAVING, with only the first pool |
| ` + "`mash2-any`" + ` | mash2 with every pool |
| ` + "`mash2-rl`" + ` | mash2-any with planner rl for every workload, by one policy that PPO learned in the environment replicas (200,000 steps), and for none of the scenarios |
| ` + "`clairvoyant`" + ` | mash2-any with perfect forecasts: what better forecasts could gain |
| ` + "`static`" + ` | sized for the scenario's peak, which it knows |
| ` + "`oracle`" + ` | a bound: no scaler that keeps its minimum replicas on nodes, never violates the SLO and leaves requests as they are can cost less, with any mixture of pools. Nothing was run at it |

Figures are means over seeds; ± is half the 95 % interval of the mean by Student's t. In a violating minute
the p95 or the share of failed requests exceeds the scenario's SLO. Node cost counts from boot request to
deletion. [simulator.md](simulator.md) has the accuracy of the simulation.

`

const anyTarget = `Both sides are run at several targets. For each rival, and each target of the HPA, the table has the node
cost of the cheapest mash2 that violates the SLO in no more minutes on average, relative to the rival. A
negative figure is money saved at the same or better service. "None is as good" means that the rival serves
better than mash2 at every target. Karpenter, which has all pools, is compared with mash2-any.

`

const sameCost = `The minutes in which each rival violates the SLO, and those of the best mash2 whose nodes cost no more on
average. Of equally good ones the cheapest counts.

`

const equal = `The table has the cheapest target of the HPA that violates the SLO in no more minutes on average than mash2,
and the cost of mash2 relative to it, seed by seed. Below zero mash2 is cheaper. If no target is as good,
there is no comparison.

`
