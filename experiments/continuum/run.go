package continuum

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/strategic/model"
	"github.com/mash2-io/mash2/strategic/model/forest"
)

// Environment is the name that commands take.
const Environment = "edge-cloud"

// MaxEpisodes bounds what can be asked for.
const MaxEpisodes = 1000

// learned is how many other days the models learn from.
const learned = 5

// Evaluation compares rules on the same days.
type Evaluation struct {
	Environment string `json:"environment"`
	Seed        uint64 `json:"seed"`
	Episodes    int    `json:"episodes"`
	// SLA of the prediction time, in milliseconds.
	SLA float64 `json:"slaMillis"`
	// Paper is what the paper measured: its prediction time against that of the cloud only,
	// on its own nodes, in one run of each. It is no target.
	Paper   float64  `json:"paperAgainstCloud"`
	Models  []Score  `json:"models"`
	Ranking []string `json:"ranking"`
	// Promote is whether the priced rule by the forest has a better performance per cost than
	// either node alone and the naive rule, each with the whole interval.
	Promote *bool  `json:"promote"`
	Why     string `json:"why"`
}

// Mean over episodes with its 95 % interval, by Student's t; null for a single episode.
type Mean struct {
	Mean     float64     `json:"mean"`
	Interval *[2]float64 `json:"interval"`
}

// Score of a rule.
type Score struct {
	Name string `json:"name"`
	// Return is the mean of performance per cost, 1 ÷ (seconds · price of an hour).
	Return   float64     `json:"return"`
	Interval *[2]float64 `json:"interval"`
	// Time is the mean prediction time in milliseconds.
	Time Mean `json:"timeMillis"`
	// AgainstCloud and AgainstEdge are the change of the mean prediction time against that
	// node only, of the same days: −0.1 is a tenth less.
	AgainstCloud Mean `json:"againstCloud"`
	AgainstEdge  Mean `json:"againstEdge"`
	// Cost of a day, in hours of the cloud node.
	Cost Mean `json:"cost"`
	// Moves a day.
	Moves Mean `json:"moves"`
	// Broken is the share of minutes above the SLA, Nowhere how many decisions a day found
	// no node that meets it: then nothing is done.
	Broken  Mean `json:"slaBroken"`
	Nowhere Mean `json:"nowhere"`
}

// Evaluate runs all rules on as many days. Errors wrap training.ErrInput where what was
// asked for can't be done.
func Evaluate(ctx context.Context, episodes int, seed uint64, progress io.Writer) (Evaluation, error) {
	out := Evaluation{Environment: Environment, Seed: seed, Episodes: episodes, SLA: 1000 * sla, Paper: -0.119}
	if episodes < 1 || episodes > MaxEpisodes {
		return out, training.Inputf("--episodes must be from 1 to %d, is %d", MaxEpisodes, episodes)
	}
	trees, lines, err := learn(seed)
	if err != nil {
		return out, err
	}
	all := rules(trees, lines)
	results := make([][]result, len(all))
	for e := range episodes {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		w := newWorld(rand.New(rand.NewPCG(seed, uint64(e))))
		for i, r := range all {
			got, err := r.run(w)
			if err != nil {
				return out, fmt.Errorf("%s: %w", r.name, err)
			}
			results[i] = append(results[i], got)
		}
		fmt.Fprintf(progress, "day %d of %d\n", e+1, episodes)
	}
	for i, r := range all {
		out.Models = append(out.Models, scoreOf(r.name, results[i], results[cloud], results[edge]))
	}
	ranked := slices.Clone(out.Models)
	slices.SortStableFunc(ranked, func(a, b Score) int { return cmp.Compare(b.Return, a.Return) })
	for _, s := range ranked {
		out.Ranking = append(out.Ranking, s.Name)
	}
	promote, why := true, "the priced rule's performance per cost, against"
	for _, i := range []int{cloud, edge, 2} {
		m := meanOf(results[3], func(j int, r result) float64 { return (r.worth - results[i][j].worth) / 60 })
		promote = promote && m.Interval != nil && m.Interval[0] > 0
		why += fmt.Sprintf(" %s: %+.2f", all[i].name, m.Mean)
		if m.Interval != nil {
			why += fmt.Sprintf(" (%.2f … %.2f)", m.Interval[0], m.Interval[1])
		}
		why += ";"
	}
	out.Promote, out.Why = &promote, why[:len(why)-1]
	return out, nil
}

// learn a forest and a line for each node, from days of their own, on which nothing is
// judged.
func learn(seed uint64) (trees, lines [places]model.Model, err error) {
	for p := range places {
		var x [][]float64
		var y []float64
		for d := range learned {
			w := newWorld(rand.New(rand.NewPCG(seed, uint64(1<<32+d))))
			for minute := window; minute+ahead <= day; minute += every {
				x, y = append(x, w.row(p, minute)), append(y, w.truth(p, minute))
			}
		}
		c := forest.Default()
		c.Trees, c.Seed = 100, seed
		f, err := forest.Train(c, features(), x, y)
		if err != nil {
			return trees, lines, err
		}
		l, err := model.FitLinear(features(), x, y)
		if err != nil {
			return trees, lines, err
		}
		trees[p], lines[p] = f.Forest, l
	}
	return trees, lines, nil
}

func scoreOf(name string, mine, cloud, edge []result) Score {
	worth := meanOf(mine, func(_ int, r result) float64 { return r.worth / 60 })
	return Score{
		Name: name, Return: worth.Mean, Interval: worth.Interval,
		Time:         meanOf(mine, func(_ int, r result) float64 { return 1000 * r.time }),
		AgainstCloud: meanOf(mine, func(i int, r result) float64 { return r.time/cloud[i].time - 1 }),
		AgainstEdge:  meanOf(mine, func(i int, r result) float64 { return r.time/edge[i].time - 1 }),
		Cost:         meanOf(mine, func(_ int, r result) float64 { return r.cost }),
		Moves:        meanOf(mine, func(_ int, r result) float64 { return float64(r.moves) }),
		Broken:       meanOf(mine, func(_ int, r result) float64 { return r.broken }),
		Nowhere:      meanOf(mine, func(_ int, r result) float64 { return float64(r.none) }),
	}
}

func meanOf(r []result, of func(i int, r result) float64) Mean {
	x := make([]float64, len(r))
	for i := range r {
		x[i] = of(i, r[i])
	}
	return MeanOf(x)
}

// MeanOf some values, one at least, with its interval.
func MeanOf(x []float64) Mean {
	mean, deviation := stat.MeanStdDev(x, nil)
	if len(x) < 2 {
		return Mean{Mean: x[0]}
	}
	half := distuv.StudentsT{Sigma: 1, Nu: float64(len(x) - 1)}.Quantile(0.975) * deviation / math.Sqrt(float64(len(x)))
	return Mean{mean, &[2]float64{mean - half, mean + half}}
}
