// Command evaluation makes one page of what mash2 simulate printed for recorded
// load, the traces for development and those held out apart:
//
//	go run ./experiments/evaluation --traces experiments/traces --out docs/benchmarks/evaluation.md out/traces
//
// A trace is a scenario file in a folder of --traces, its figures the file of the
// same name in that folder of the results. With --results it makes the page of all
// results instead, which judges the marks:
//
//	go run ./experiments/evaluation --results --out docs/benchmarks/results.md --sim out/sim --real out/experiments out/traces
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	out := flag.String("out", "docs/benchmarks/evaluation.md", "page to write")
	traces := flag.String("traces", "experiments/traces", "folder of folders of scenario files")
	all := flag.Bool("results", false, "make the page of all results instead")
	var in inputs
	flag.StringVar(&in.simulations, "sim", "", "folder of what experiments-sim printed")
	flag.StringVar(&in.real, "real", "", "folder of what experiments recorded")
	flag.StringVar(&in.sawtooth, "sawtooth", "", "what mash2 simulate printed of the sawtooth from its third tooth on")
	flag.StringVar(&in.convergence, "convergence", "", "what go test -json printed of the tests of convergence")
	flag.StringVar(&in.k6, "k6", "", "what k6 printed")
	flag.StringVar(&in.version, "version", "dev", "of the operator that was run on recorded load")
	flag.Parse()
	make := func() error { return evaluate(*traces, flag.Args(), *out) }
	if *all {
		make = func() error {
			if flag.NArg() != 1 {
				return errors.New("one folder of results is needed")
			}
			in.traces, in.measured = *traces, flag.Arg(0)
			return results(in, *out)
		}
	}
	if err := make(); err != nil {
		fmt.Fprintln(os.Stderr, "evaluation:", err)
		os.Exit(1)
	}
}

// sets are the folders, in the order of the page.
var sets = []struct{ folder, title string }{
	{"development", "Development"},
	{"held-out", "Held out"},
}

// trace is one scenario of recorded load.
type trace struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Arrivals    struct {
		CSV    string `json:"csv"`
		From   string `json:"from"`
		Length string `json:"length"`
	} `json:"arrivals"`
}

func evaluate(traces string, args []string, out string) error {
	if len(args) != 1 {
		return errors.New("one folder of results is needed")
	}
	var b strings.Builder
	listed := map[string][]trace{}
	var everything []result
	for _, set := range sets {
		all, err := tracesIn(filepath.Join(traces, set.folder))
		if err != nil {
			return err
		}
		listed[set.folder] = all
		list(&b, set.title, all)
	}
	b.WriteString(reading)
	for _, set := range sets {
		var found []result
		for _, t := range listed[set.folder] {
			r, err := read(filepath.Join(args[0], set.folder, t.Name+".json"))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if r.Scenario != t.Name {
				return fmt.Errorf("%s.json is of %s", t.Name, r.Scenario)
			}
			found = append(found, r)
		}
		if len(found) == 0 {
			return fmt.Errorf("no results in %s", filepath.Join(args[0], set.folder))
		}
		section(&b, set.title, found, len(listed[set.folder]))
		everything = append(everything, found...)
	}
	head := fmt.Sprintf(introduction, tracesCommand(everything))
	return os.WriteFile(out, []byte(head+b.String()), 0o644)
}

// tracesCommand is what makes the figures of traces: with the seeds besides the first
// that all of them have.
func tracesCommand(all []result) string {
	count := map[uint64]int{}
	for _, r := range all {
		seeds := map[uint64]bool{}
		for _, run := range r.Runs {
			seeds[run.Seed] = true
		}
		for s := range seeds {
			count[s]++
		}
	}
	var more []string
	for _, s := range slices.Sorted(maps.Keys(count)) {
		if count[s] == len(all) && s != 1 {
			more = append(more, fmt.Sprint(s))
		}
	}
	if len(more) == 0 {
		return "make experiments-traces"
	}
	return "make experiments-traces TRACE_SEEDS='" + strings.Join(more, " ") + "'"
}

// tracesIn reads the scenario files of a folder, in the order of their names.
func tracesIn(folder string) ([]trace, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("there are no scenarios in %s", folder), err)
	}
	slices.Sort(files)
	var out []trace
	for _, file := range files {
		data, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, err
		}
		var t trace
		if err := yaml.Unmarshal(data, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if t.Name+".yaml" != filepath.Base(file) {
			return nil, fmt.Errorf("%s: its name is %q", file, t.Name)
		}
		out = append(out, t)
	}
	return out, nil
}

func list(b *strings.Builder, title string, all []trace) {
	fmt.Fprintf(b, "### %s\n\n| trace | what is replayed | file |\n|---|---|---|\n", title)
	for _, t := range all {
		file := strings.TrimPrefix(t.Arrivals.CSV, "data:")
		if file == "" {
			file = "that of its base"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", t.Name, t.Description, file)
	}
	b.WriteString("\n")
}

const introduction = `# Recorded load

Made by ` + "`%s`" + `, which runs ` + "`mash2 simulate`" + ` in the fluid fidelity on
a day of each trace. The scalers are those of [simulation.md](simulation.md).

## The traces

Each trace is a scenario file in ` + "`experiments/traces`" + `, with the cluster, workload and noise of the scenario
` + "`day`" + ` and its load scaled to a peak of 500 requests per second. Every scaler has seen the two days before the
measured day. The measured day is the fifth of the trace, whatever it contains. There are two exceptions: World
Cup 98 has the day of the scenario ` + "`day`" + `, and of Autothrottle's hours the second half is measured after the
first. A series of CPU usage counts as load in proportion to it. The files are in the folder that ` + "`MASH2_DATA`" + `
names. Your own trace is one more such file:

` + "```yaml" + `
name: my-service
base: day
arrivals: {csv: my-service.csv, time: ts, column: value, from: 96h, length: 24h, peakRPS: 500}
warmup: {passes: 2}
` + "```" + `

The split is by origin. The development traces are those that the project's scenarios and tests read before the
split: Crane's, World Cup 98 and Alibaba's container. All others that are long enough are held out. No parameter
of a planner, a policy, the Guard or the simulator is chosen by a run on a held-out trace; these runs are only
reported. The statistical comparison of forecasting models (` + "`experiments/forecasting`" + `) reports errors on series of
both kinds, and defaults of models are chosen on development series only.

`

const reading = `## How to read the figures

A cell has two figures: the cost of nodes relative to the bound ` + "`oracle`" + `, and the share of minutes in violation of
the SLO, in percent. The bound is for fractional nodes of the machine type with the cheapest cores, fully used, with
pods confined by limits and not by requests. A scaler that sizes by requests can't reach 1: replicas at 80 % of their
requests that fill nodes of the first pool cost 2.9 times the bound. ` + "`clairvoyant`" + `, the operator on any pool with
perfect forecasts, is nearer to what can be reached. Compare scalers with each other.

Figures are means over seeds: one by default, more with ` + "`TRACE_SEEDS`" + `, and with ` + "`SHORT_TRACE_SEEDS`" + ` for half an hour's
load, where few decisions make costs differ much between seeds. Differences below a few percent do not matter.
[results.md](results.md) has means over traces with their intervals.

`
