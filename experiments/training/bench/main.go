// Command bench trains every algorithm on the standard tasks with several seeds, and
// prints how many of them reach the mark, beside what others published:
//
//	go run ./experiments/training/bench --seeds 5 --out out/bench-rl
//
// The table is Markdown on standard output, progress goes to standard error, and the
// folder gets a page with the learning curves, figures as PNG and one JSON file of all
// that was measured.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/planning/rl"
)

// contest is one algorithm on one task.
type contest struct {
	environment, algorithm string
	steps                  int
	// mark is the least mean return of 100 greedy episodes.
	mark float64
	// published is what others reach, and with how many steps.
	published string
}

// The published figures: Stable-Baselines3's zoo (benchmark.md, one run each) and
// CleanRL's documentation (three seeds, returns while training).
var contests = []contest{
	{"cartpole", "dqn", 100_000, 475, "SB3 500 ± 0 (50k); CleanRL 489 ± 16 (500k)"},
	{"cartpole", "double-dqn", 100_000, 475, "–"},
	{"cartpole", "dueling-dqn", 100_000, 475, "–"},
	{"cartpole", "ppo", 100_000, 475, "SB3 500 ± 0 (100k); CleanRL 490 ± 6 (500k)"},
	{"pendulum", "ddpg", 20_000, -200, "SB3 −152 ± 94 (20k)"},
	{"pendulum", "td3", 20_000, -200, "SB3 −152 ± 90 (20k)"},
	{"pendulum", "ppo", 200_000, -200, "SB3 −172 ± 104 (100k)"},
}

// outcome of one seed.
type outcome struct {
	Environment string           `json:"environment"`
	Algorithm   string           `json:"algorithm"`
	Seed        uint64           `json:"seed"`
	Steps       int              `json:"steps"`
	Seconds     float64          `json:"seconds"`
	Return      float64          `json:"return"`
	Interval    *[2]float64      `json:"interval"`
	Reached     bool             `json:"reached"`
	Curve       []training.Point `json:"curve"`
}

const episodes = 100

func main() {
	seeds := flag.Int("seeds", 5, "seeds of each, from 11 on")
	out := flag.String("out", "out/bench-rl", "folder for the page, the figures and the JSON")
	only := flag.String("only", "", "environments or algorithms to keep, separated by commas; all if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *seeds, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, seeds int, dir, only string) error {
	if seeds < 1 {
		return errors.New("--seeds must be 1 or more")
	}
	temporary, err := os.MkdirTemp("", "bench-rl-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	var all []outcome
	var rows [][]string
	var figures []report.Figure
	for _, c := range contests {
		if only != "" && !slices.Contains(strings.Split(only, ","), c.environment) && !slices.Contains(strings.Split(only, ","), c.algorithm) {
			continue
		}
		figure := report.Figure{
			Title: c.algorithm + " on " + c.environment, XLabel: "steps", YLabel: "mean return of greedy episodes", Small: true,
		}
		var of []outcome
		for i := range seeds {
			o, err := c.run(ctx, uint64(11+i), temporary)
			if err != nil {
				return fmt.Errorf("%s on %s, seed %d: %w", c.algorithm, c.environment, 11+i, err)
			}
			of = append(of, o)
			line := report.Series{Name: fmt.Sprintf("seed %d", o.Seed), Color: i % report.Colors()}
			for _, p := range o.Curve {
				line.X, line.Y = append(line.X, float64(p.Step)), append(line.Y, p.Return)
			}
			figure.Series = append(figure.Series, line)
		}
		all, figures, rows = append(all, of...), append(figures, figure), append(rows, c.row(of))
	}
	if len(all) == 0 {
		return fmt.Errorf("--only %s keeps nothing", only)
	}
	header := []string{"task", "algorithm", "steps", "mark", "reached", "return by seed", "first at the mark, step", "seconds, median", "published"}
	speed := speeds()
	markdown(os.Stdout, header, rows)
	fmt.Println()
	for _, s := range speed {
		fmt.Println("-", s)
	}
	page := report.Page{
		Title: "Learning the standard tasks",
		Intro: []string{fmt.Sprintf("go run ./experiments/training/bench --seeds %d. The return is the mean of %d greedy episodes on starts that training never saw, of the best policy by its own evaluations.", seeds, episodes)},
		Sections: []report.Section{
			{Title: "Who reaches the mark", Tables: []report.Table{{Header: header, Rows: rows}}, Text: speed},
			{Title: "Learning curves", Grid: figures, Legend: legend(seeds)},
		},
	}
	path, err := report.WriteFolder(dir, page)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "curves:", path)
	return os.WriteFile(filepath.Join(dir, "results.json"), append(text, '\n'), 0o644)
}

func legend(seeds int) (out []string) {
	for i := range min(seeds, report.Colors()) {
		out = append(out, fmt.Sprintf("seed %d", 11+i))
	}
	return out
}

// run trains with one seed and evaluates with another.
func (c contest) run(ctx context.Context, seed uint64, dir string) (outcome, error) {
	dir = filepath.Join(dir, fmt.Sprintf("%s-%s-%d", c.environment, c.algorithm, seed))
	r, err := training.Run(ctx, training.Options{Environment: c.environment, Algorithm: c.algorithm, Steps: c.steps, Seed: seed, Out: dir}, io.Discard)
	if err != nil {
		return outcome{}, err
	}
	e, err := training.Evaluate(ctx, []string{dir}, c.environment, episodes, 1000+seed, io.Discard)
	if err != nil {
		return outcome{}, err
	}
	m := e.Models[0]
	fmt.Fprintf(os.Stderr, "%s on %s, seed %d: %.1f after %d steps, %.1f s\n", c.algorithm, c.environment, seed, m.Return, r.Steps, r.Seconds)
	return outcome{
		Environment: c.environment, Algorithm: c.algorithm, Seed: seed, Steps: r.Steps, Seconds: r.Seconds,
		Return: m.Return, Interval: m.Interval, Reached: m.Return >= c.mark, Curve: r.Curve,
	}, nil
}

func (c contest) row(of []outcome) []string {
	reached := 0
	var returns, first []string
	var seconds []float64
	for _, o := range of {
		if o.Reached {
			reached++
		}
		returns = append(returns, fmt.Sprintf("%.0f", o.Return))
		at := slices.IndexFunc(o.Curve, func(p training.Point) bool { return p.Return >= c.mark })
		if at < 0 {
			first = append(first, "never")
		} else {
			first = append(first, fmt.Sprint(o.Curve[at].Step))
		}
		seconds = append(seconds, o.Seconds)
	}
	slices.Sort(seconds)
	return []string{
		c.environment, c.algorithm, fmt.Sprint(of[0].Steps), fmt.Sprintf("%.0f", c.mark), fmt.Sprintf("%d of %d", reached, len(of)),
		strings.Join(returns, ", "), strings.Join(first, ", "), fmt.Sprintf("%.1f", seconds[len(seconds)/2]), c.published,
	}
}

func markdown(w io.Writer, header []string, rows [][]string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
}

// speeds are of one decision by networks of two sizes, and of CartPole.
func speeds() []string {
	var out []string
	for _, n := range []struct {
		name string
		arch rl.Architecture
	}{
		{"DRPC's student", rl.Architecture{Inputs: 5, Layers: []rl.Layer{
			{Kind: rl.Dense, Outputs: 20}, {Kind: rl.LayerNorm}, {Kind: rl.ReLU}, {Kind: rl.Dense, Outputs: 20}, {Kind: rl.Dense, Outputs: 3}, {Kind: rl.Tanh},
		}}},
		{"MARLISE's DQN, 42-64-128-64-3", rl.MLP(42, []int{64, 128, 64}, false, rl.ReLU, 3)},
	} {
		net, err := rl.NewNetwork(n.arch)
		if err != nil {
			panic(err) // these are fixed
		}
		net.InitKaiming(rand.New(rand.NewPCG(1, 1)))
		actor := rl.Policy{Network: net, Actions: rl.Space{N: net.Outputs()}}.NewActor()
		x := make([]float32, n.arch.Inputs)
		for i := range x {
			x[i] = float32(i%7) / 7
		}
		r := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				actor.Act(x)
			}
		})
		out = append(out, fmt.Sprintf("One decision of %s (%d parameters): %.2f µs, %d allocations.",
			n.name, len(net.Params), float64(r.T.Nanoseconds())/float64(r.N)/1000, r.AllocsPerOp()))
	}
	task, err := gym.ByName("cartpole")
	if err != nil {
		panic(err)
	}
	env, rng, steps := task.New(), rand.New(rand.NewPCG(1, 1)), 0
	env.Reset(rng)
	began := time.Now()
	for ; time.Since(began) < time.Second; steps += 1000 {
		for i := range 1000 {
			if _, _, over, cut := env.Step(rl.Action{Discrete: i & 1}); over || cut {
				env.Reset(rng)
			}
		}
	}
	return append(out, fmt.Sprintf("CartPole-v1: %.1f million steps a second on one core.", float64(steps)/time.Since(began).Seconds()/1e6))
}
