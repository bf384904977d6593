package margins

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
)

// rulePart is the rule that always takes the same part of the margins, rule:part:0.85.
const rulePart = "rule:part:"

// replicasAtPeak are the sizes that everything is evaluated at: what the recorded load takes
// at 1 ×, 20 × and 200 ×.
var replicasAtPeak = []int{8, 160, 1600}

// perNode is how many replicas of them are on a node.
const perNode = 8

// Evaluation compares models on the same workloads.
type Evaluation struct {
	Environment string  `json:"environment"`
	Seed        uint64  `json:"seed"`
	Workloads   int     `json:"workloads"`
	Models      []Score `json:"models"`
	// Ranking has the names of models, the cheapest first of those that violate no more than
	// the planner; the others behind them.
	Ranking []string `json:"ranking"`
	// Promote is whether the first is a model that is cheaper than the planner at every size,
	// with its whole interval, and violates no more.
	Promote bool   `json:"promote"`
	Why     string `json:"why"`
}

// Score of a model.
type Score struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	// Sizes by replicas at the peak.
	Sizes []SizeScore `json:"sizes"`
}

// SizeScore is of one size: means over workloads with their 95 % intervals by Student's t.
type SizeScore struct {
	Replicas int `json:"replicas"`
	// Cost of nodes beside the planner's own margins.
	Cost         float64     `json:"cost"`
	CostInterval *[2]float64 `json:"costInterval"`
	// Violating is the share of time in which demand was beyond what served, More by how much
	// it is above the planner's.
	Violating    float64     `json:"violating"`
	More         float64     `json:"more"`
	MoreInterval *[2]float64 `json:"moreInterval"`
	// Worst is the largest relative cost of one workload, WorstOf which one that is.
	Worst   float64 `json:"worst"`
	WorstOf string  `json:"worstOf"`
}

// MaxEpisodes bounds what can be asked for.
const MaxEpisodes = 100_000

// Evaluate plays the last day of workloads with each model, whose parts of the margins give way as
// in the operator where demand was beyond what served: as many drawn ones as there are
// episodes, or of each input so many recordings. The seed is of what is drawn.
func Evaluate(ctx context.Context, models, inputs []string, episodes int, seed uint64, progress io.Writer) (Evaluation, error) {
	out := Evaluation{Environment: Environment, Seed: seed}
	if episodes < 1 || episodes > MaxEpisodes {
		return out, training.Inputf("--episodes must be from 1 to %d, is %d", MaxEpisodes, episodes)
	}
	if len(models) == 0 {
		return out, training.Inputf("--model must name a folder, %s, or a rule such as %s0.85", simulation.Builtin, rulePart)
	}
	var minds []rivalOf
	for i, name := range models {
		if slices.Contains(models[:i], name) {
			return out, training.Inputf("--model: %s twice", name)
		}
		m, err := rival(name)
		if err != nil {
			return out, training.Inputf("--model: %w", err)
		}
		minds = append(minds, m)
	}
	seed ^= 1 << 63 // not what somebody is likely to have trained with
	var traces []trace
	var err error
	if len(inputs) == 0 {
		if traces, err = workloads(ctx, episodes, seed, progress); err != nil {
			return out, err
		}
	}
	for _, file := range inputs {
		got, err := recorded(file, episodes, rand.New(rand.NewPCG(seed, 47)))
		if err != nil {
			return out, training.Inputf("--input: %w", err)
		}
		traces = append(traces, got...)
	}
	if out.Workloads = len(traces); out.Workloads == 0 {
		return out, training.Inputf("--episodes: no margins are known of any workload that was drawn: ask for more")
	}
	for i, name := range models {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		s := Score{Name: name, Algorithm: minds[i].algorithm}
		for _, n := range replicasAtPeak {
			s.Sizes = append(s.Sizes, minds[i].score(traces, n))
			last := s.Sizes[len(s.Sizes)-1]
			fmt.Fprintf(progress, "%s with %d replicas: cost %.4f, violating %.4f %%\n", name, n, last.Cost, 100*last.Violating)
		}
		out.Models = append(out.Models, s)
	}
	out.rank()
	return out, nil
}

// rivalOf the planner's own margins: a network, or the same part of them always.
type rivalOf struct {
	algorithm string
	net       *rl.Network
	part      float64
}

func rival(name string) (rivalOf, error) {
	if text, ok := strings.CutPrefix(name, rulePart); ok {
		part, err := strconv.ParseFloat(text, 64)
		if err != nil || !(part > 0 && part <= 1) {
			return rivalOf{}, fmt.Errorf("%s: the part must be a number above 0 and at most 1", name)
		}
		return rivalOf{algorithm: "rule", part: part}, nil
	}
	var m rl.Model
	var err error
	switch {
	case name == simulation.Builtin:
		data, _ := learned.ShippedModel()
		m, err = rl.Decode(data)
	case strings.HasPrefix(name, "rule:") || strings.HasPrefix(name, "builtin:"):
		err = fmt.Errorf("there is no %s: want %s, a folder, or %sPART", name, simulation.Builtin, rulePart)
	default:
		m, _, err = training.Load(name)
	}
	if err == nil && m.Environment != Environment {
		err = fmt.Errorf("%s was trained in %s, not in %s", name, m.Environment, Environment)
	}
	if err == nil {
		err = learned.Check(m)
	}
	return rivalOf{algorithm: m.Algorithm, net: m.Policy.Network}, err
}

// score the last day of all traces.
func (r rivalOf) score(traces []trace, replicas int) SizeScore {
	results := make([]relative, len(traces))
	players := make([]*player, runtime.GOMAXPROCS(0))
	net := r.net
	if net == nil {
		net, _ = rl.NewNetwork(architecture()) // nobody asks it
	}
	for i := range players {
		players[i] = newPlayer(net)
	}
	parallel(len(players), len(traces), func(worker, i int) {
		p, t := players[worker], &traces[i]
		minutes := min(t.minutes(), longest)
		from, s := t.minutes()-minutes, t.sized(float64(replicas), perNode)
		before := p.e.play(t, s, from, p.ones[:minutes], false)
		var parts []float64
		if r.net != nil {
			parts = p.decide(t, s, from, minutes)
		} else {
			parts = slices.Repeat([]float64{r.part}, minutes)
		}
		got := p.e.play(t, s, from, parts, true)
		results[i] = relative{got.Cost / before.Cost, got.Violating, before.Violating}
	})
	out := SizeScore{Replicas: replicas}
	var costs, more []float64
	for i, x := range results {
		if x.cost > out.Worst {
			out.Worst, out.WorstOf = x.cost, traces[i].name
		}
		costs, more = append(costs, x.cost), append(more, x.violating-x.before)
		out.Violating += x.violating / float64(len(results))
	}
	out.Cost, out.CostInterval = training.MeanOf(costs)
	out.More, out.MoreInterval = training.MeanOf(more)
	return out
}

// rank the models.
func (e *Evaluation) rank() {
	cost := func(s Score) (sum float64) {
		for _, x := range s.Sizes {
			sum += x.Cost / float64(len(s.Sizes))
			if x.More > 0 {
				sum += 1000 // behind those that violate no more
			}
		}
		return sum
	}
	ranked := slices.Clone(e.Models)
	slices.SortStableFunc(ranked, func(a, b Score) int {
		switch x, y := cost(a), cost(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	for _, s := range ranked {
		e.Ranking = append(e.Ranking, s.Name)
	}
	best := ranked[0]
	e.Promote = best.Algorithm != "rule"
	for _, x := range best.Sizes {
		e.Promote = e.Promote && x.CostInterval != nil && x.CostInterval[1] < 1 && x.More <= 0
	}
	if e.Promote {
		e.Why = best.Name + " is cheaper than the planner's own margins at every size, with its whole interval, and violates no longer: try it by mash2 simulate --scaler mash2-rl"
	} else {
		e.Why = "no model is cheaper than the planner's own margins at every size, with its whole interval, at no more time in violation"
	}
}
