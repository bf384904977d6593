// Command verdict judges mash2 beside calibrated rivals on recorded load, at several
// sizes and in fleets:
//
//	go run ./experiments/verdict --calibrate        # on the development traces; writes calibrated.json
//	go run ./experiments/verdict --out out/verdict  # tables, fronts, marks
//	go run ./experiments/verdict --ablation         # what each term of the utility does
//	go run ./experiments/verdict --shocks           # what the policies are worth where something happens
//	go run ./experiments/verdict --foresight        # what knowing the load some time ahead would be worth
//	go run ./experiments/verdict --pools            # mash2 on any pool, beside mash2 on each alone
//	go run ./experiments/verdict --learned          # the model of margins that comes with the program, beside the planner
//
// Rivals are chosen on the development traces alone and frozen in a file; see
// docs/benchmarks/verdict.md. Tables and one JSON line a mark go to stdout, progress to stderr.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
)

// fleets is the set of fleets, beside those of single traces.
const fleets = "fleets"

// options of the command.
type options struct {
	traces, out, keep string
	calibrated        string
	sizes, fleetSizes []float64
	sets, only        []string
	seeds, workers    int
	fronts, alone     bool
	progress, tables  io.Writer
}

func main() {
	o := options{progress: os.Stderr, tables: os.Stdout}
	fleet := flag.String("fleet-sizes", "1", "sizes of --sizes at which fleets are judged")
	sizes := flag.String("sizes", "1,20,200", "sizes: what load, replicas and pools are multiplied by")
	sets := flag.String("set", "development,held-out,"+fleets, "sets of loads to judge")
	only := flag.String("traces", "", "names of the traces, or fleets; empty for all of a set")
	flag.StringVar(&o.traces, "folder", "experiments/traces", "folder of folders of scenario files")
	flag.StringVar(&o.out, "out", "out/verdict", "folder for figures.json and the fronts")
	flag.StringVar(&o.keep, "keep", "", "file to add each run's figures to, and to take those of before from: who was interrupted goes on, with the same program")
	flag.StringVar(&o.calibrated, "calibrated", "experiments/verdict/calibrated.json", "file with the frozen rivals by size")
	flag.IntVar(&o.seeds, "seeds", 1, "number of seeds, from 1 on")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "runs at a time")
	flag.BoolVar(&o.fronts, "fronts", true, "run the frozen rivals at every target as well, at sizes below 100")
	flag.BoolVar(&o.alone, "rivals", false, "run the rivals alone: tables, no marks")
	calibrate := flag.Bool("calibrate", false, "choose the rivals on the development traces and freeze them")
	ablation := flag.Bool("ablation", false, "tell what each term of the utility does, instead of judging")
	learned := flag.Bool("learned", false, "compare the model of margins that comes with the program with the planner, instead of judging")
	apart := flag.Bool("pools", false, "compare mash2 on any pool with mash2 on each pool alone, instead of judging")
	surprised := flag.Bool("shocks", false, "tell what the policies and the rivals are worth where the load surges or nodes fail, instead of judging")
	told := flag.Bool("foresight", false, "tell what mash2 would cost and keep if it knew the load for some time ahead, instead of judging")
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(sim.GCPercent)
	}
	o.sets, o.only = split(*sets), split(*only)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := func() error {
		for name, list := range map[string]struct {
			text string
			to   *[]float64
		}{"sizes": {*sizes, &o.sizes}, "fleet-sizes": {*fleet, &o.fleetSizes}} {
			for _, text := range split(list.text) {
				x, err := strconv.ParseFloat(text, 64)
				if err != nil || !(x > 0) {
					return fmt.Errorf("--%s: %q is not a positive number", name, text)
				}
				*list.to = append(*list.to, x)
			}
		}
		if flag.NArg() > 0 || o.seeds < 1 || len(o.sizes) == 0 {
			return errors.New("no arguments are taken, and at least one seed and one size are needed")
		}
		if *calibrate {
			return o.calibrate(ctx)
		}
		if *ablation {
			return o.ablate(ctx)
		}
		if *surprised {
			return o.shock(ctx)
		}
		if *told {
			return o.foretell(ctx)
		}
		if *apart {
			return o.comparePools(ctx)
		}
		if *learned {
			return o.compareLearned(ctx)
		}
		return o.judge(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func split(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

// frozen are the chosen rivals by size, as in the file.
type frozen map[string][]config

// frozen are the rivals in the file.
func (o options) frozen() (frozen, error) {
	text, err := os.ReadFile(filepath.Clean(o.calibrated))
	if err != nil {
		return nil, fmt.Errorf("the frozen rivals (--calibrate makes them): %w", err)
	}
	var out frozen
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", o.calibrated, err)
	}
	return out, nil
}

// at are the rivals of a size: those of the largest size that is no larger.
func (f frozen) at(size float64) []config {
	var best []config
	most := 0.0
	for text, rivals := range f {
		if x, err := strconv.ParseFloat(text, 64); err == nil && x <= size && x > most {
			best, most = rivals, x
		}
	}
	return best
}

func (o options) jobs(of load, configs []config) []job {
	var out []job
	for i := range o.seeds {
		for _, c := range configs {
			out = append(out, job{of, c, uint64(1 + i)})
		}
	}
	return out
}

// calibrate chooses each kind of rival on each pool by runs on the development traces: at the
// first size of every window at every target, at further ones of the windows of the size before
// and the defaults. A size that has been frozen already begins with what was chosen then. From there
// it goes on to whatever near is better, until nothing is.
func (o options) calibrate(ctx context.Context) error {
	objective := score.ObjectiveOf(api.CostSaving)
	chosen, err := o.frozen()
	if errors.Is(err, fs.ErrNotExist) {
		chosen, err = frozen{}, nil
	}
	if err != nil {
		return err
	}
	var before []config
	for _, size := range o.sizes {
		name := strconv.FormatFloat(size, 'g', -1, 64)
		all, err := loads(o.traces, "development", []float64{size}, o.only)
		if err != nil || len(all) == 0 {
			return errors.Join(err, errors.New("no development traces"))
		}
		var groups [][]config
		for i, kind := range kinds(poolsOf(all[0])) {
			switch {
			case i < len(chosen[name]):
				groups = append(groups, chosen[name][i:i+1])
			case i < len(before):
				groups = append(groups, append(swept(kind), swept(before[i])...))
			default:
				var group []config
				for _, w := range windows(kind) {
					group = append(group, swept(w)...)
				}
				groups = append(groups, group)
			}
		}
		best, err := o.climb(ctx, all, groups, objective)
		if err != nil {
			return err
		}
		for _, c := range best {
			fmt.Fprintf(o.tables, "%g×: %s\n", size, c)
		}
		chosen[name], before = best, best
	}
	return write(filepath.Dir(o.calibrated), filepath.Base(o.calibrated), func(w io.Writer) error { return indented(w, chosen) })
}

// climb is the best of each group and of what is near to it, and to that.
func (o options) climb(ctx context.Context, all []load, groups [][]config, objective float64) ([]config, error) {
	var figures results
	ran := map[config]bool{}
	best := make([]config, len(groups))
	for {
		var jobs []job
		for _, group := range groups {
			for _, c := range group {
				if ran[c] {
					continue
				}
				ran[c] = true
				for _, l := range all {
					jobs = append(jobs, o.jobs(l, []config{c})...)
				}
			}
		}
		if len(jobs) == 0 {
			return best, nil
		}
		more, err := o.run(ctx, jobs)
		if err != nil {
			return nil, err
		}
		figures = append(figures, more...)
		for i, group := range groups {
			c, ok := choose(figures, group, objective)
			if !ok {
				return nil, fmt.Errorf("nothing was run of %s", group[0])
			}
			best[i], groups[i] = c, slices.Concat(group, near(c))
		}
	}
}

func indented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func poolsOf(l load) []string {
	var out []string
	for _, p := range l.scenario.Pools {
		out = append(out, p.Name)
	}
	return out
}

// judge runs everybody and prints tables and marks.
func (o options) judge(ctx context.Context) error {
	chosen, err := o.frozen()
	if err != nil {
		return err
	}
	var marks []mark
	var all []figure
	for _, size := range o.sizes {
		rivals := chosen.at(size)
		if len(rivals) == 0 {
			return fmt.Errorf("%s has no rivals for size %g", o.calibrated, size)
		}
		for _, set := range o.sets {
			if set == fleets && !slices.Contains(o.fleetSizes, size) {
				continue
			}
			s, err := o.section(ctx, set, size, rivals)
			if err != nil {
				return err
			}
			all, marks = append(all, s.results...), append(marks, s.marks...)
			if _, err := io.WriteString(o.tables, s.text); err != nil {
				return err
			}
			if s.front != nil {
				name := fmt.Sprintf("front-%s-%g.png", set, size)
				if err := write(o.out, name, s.front.PNG); err != nil {
					return err
				}
				fmt.Fprintf(o.tables, "front: %s\n\n", filepath.Join(o.out, name))
			}
		}
	}
	if err := write(o.out, "figures.json", func(w io.Writer) error { return indented(w, all) }); err != nil {
		return err
	}
	line := json.NewEncoder(o.tables)
	for _, m := range marks {
		if err := line.Encode(m); err != nil {
			return err
		}
	}
	return nil
}
