package shop

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
	"github.com/mash2-io/mash2/strategic/bandit"
)

// Environment is the name that commands take.
const Environment = "shop"

const (
	// days of an episode.
	days = 365
	// MaxEpisodes bounds what can be asked for.
	MaxEpisodes = 1000
)

// stages, in days, at which regret is stated.
var stages = []int{30, 90, 180, days}

// Evaluation compares a learner with fixed choices over the same years.
type Evaluation struct {
	Environment string `json:"environment"`
	Seed        uint64 `json:"seed"`
	Episodes    int    `json:"episodes"`
	Days        int    `json:"days"`
	// Alpha is the part of the baseline's reward that exploring may cost.
	Alpha   float64  `json:"alpha"`
	Models  []Score  `json:"models"`
	Ranking []string `json:"ranking"`
	// Promote is whether the conservative learner earned more than the owner's schedule, with
	// its whole interval, and never fell below the bound.
	Promote *bool  `json:"promote"`
	Why     string `json:"why"`
}

// Score of one way to choose.
type Score struct {
	Name string `json:"name"`
	// Return is the mean reward of an hour, 0–1, by the world's means; Interval its 95 %
	// interval over episodes, null for a single one.
	Return   float64     `json:"return"`
	Interval *[2]float64 `json:"interval"`
	// Regret against the oracle, and against the best fixed schedule, after some days: rewards
	// lost per hour, with the interval. Below 0 is gained.
	AgainstOracle   []Regret `json:"againstOracle"`
	AgainstSchedule []Regret `json:"againstBestSchedule"`
	// Gain over the owner's schedule per hour, over the whole episode.
	Gain Regret `json:"gainOverOwner"`
	// Worst is the smallest share of the owner's schedule's reward that was earned until any
	// hour of any episode. Below is how many episodes fell below 1 − Alpha of it, once a day
	// has gone.
	Worst float64 `json:"worstShare"`
	Below int     `json:"episodesBelowBound"`
}

// Regret per hour after some days.
type Regret struct {
	Days     int         `json:"days"`
	Mean     float64     `json:"mean"`
	Interval *[2]float64 `json:"interval"`
}

// chooser names a policy for an hour and hears what became of it.
type chooser interface {
	choose(h hour) (int, error)
	hear(h hour, policy int, reward float64) error
}

type fixed func(h hour) int

func (f fixed) choose(h hour) (int, error)    { return f(h), nil }
func (f fixed) hear(hour, int, float64) error { return nil }

type learner struct {
	config bandit.Config
	state  bandit.State
}

func (l *learner) choose(h hour) (int, error) {
	c, err := bandit.Choose(l.config, l.state, h.context(), Policies[h.baseline()])
	return slices.Index(Policies, c.Policy), err
}

func (l *learner) hear(h hour, policy int, reward float64) (err error) {
	l.state, err = bandit.Learn(l.config, l.state, h.context(), Policies[policy], Policies[h.baseline()], reward)
	return err
}

// config of the learner. What it is told about the noise is not the shop's own figure: within
// a part of the day rewards differ by more than their noise.
func config() bandit.Config {
	c := bandit.Default(Policies, 2*parts, 0.15)
	c.Act = true
	return c
}

// names of the ways to choose, in the order of choosers.
const owner, conservative = "owner's schedule", "conservative bandit"

func choosers(m map[hour][]float64, chance float64) (names []string, all []func() chooser) {
	still := func(name string, f fixed) {
		names, all = append(names, name), append(all, func() chooser { return f })
	}
	learn := func(name string, c bandit.Config) {
		names, all = append(names, name), append(all, func() chooser { return &learner{config: c} })
	}
	still("oracle", func(h hour) int { return largest(m[h]) })
	still("best fixed schedule", func(h hour) int { return largest(expected(m, h.of, chance)) })
	still(owner, hour.baseline)
	sums := make([]float64, len(Policies))
	for of := range 24 {
		for p, v := range expected(m, of, chance) {
			sums[p] += v
		}
	}
	best := largest(sums)
	still("best fixed policy", func(hour) int { return best })
	c := config()
	learn(conservative, c)
	c.Free = true
	learn("LinUCB without the bound", c)
	return names, all
}

// expected rewards in an hour of the day, with a campaign by chance.
func expected(m map[hour][]float64, of int, chance float64) []float64 {
	out := make([]float64, len(Policies))
	// A campaign lasts six hours from one of 0 to 18.
	starts := min(of, 18) - max(of-5, 0) + 1
	running := chance * float64(starts) / 19
	for p := range out {
		out[p] = (1-running)*m[hour{of, false}][p] + running*m[hour{of, true}][p]
	}
	return out
}

func largest(x []float64) int { return slices.Index(x, slices.Max(x)) }

// path is what a chooser earned, and others with it, by the world's means, until each hour.
type path struct{ mine, oracle, schedule, owner []float64 }

// Evaluate plays episodes. Errors wrap training.ErrInput where what was asked for can't be
// done.
func Evaluate(ctx context.Context, episodes int, seed uint64, progress io.Writer) (Evaluation, error) {
	out := Evaluation{Environment: Environment, Seed: seed, Episodes: episodes, Days: days, Alpha: config().Alpha}
	if episodes < 1 || episodes > MaxEpisodes {
		return out, training.Inputf("--episodes must be from 1 to %d, is %d", MaxEpisodes, episodes)
	}
	m := means()
	names, all := choosers(m, 0.2)
	paths := make([][]path, len(all))
	for e := range episodes {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		hours := hours(days, rand.New(rand.NewPCG(seed, uint64(2*e))))
		for i, make := range all {
			p, err := play(m, hours, make(), rand.New(rand.NewPCG(seed, uint64(2*e+1))))
			if err != nil {
				return out, fmt.Errorf("%s: %w", names[i], err)
			}
			paths[i] = append(paths[i], p)
		}
		// What was fixed before is earned by the same means: the first three choosers.
		for i := range all {
			p := &paths[i][e]
			p.oracle, p.schedule, p.owner = paths[0][e].mine, paths[1][e].mine, paths[2][e].mine
		}
		fmt.Fprintf(progress, "episode %d of %d\n", e+1, episodes)
	}
	for i, name := range names {
		out.Models = append(out.Models, scoreOf(name, paths[i], out.Alpha))
	}
	ranked := slices.Clone(out.Models)
	slices.SortStableFunc(ranked, func(a, b Score) int { return cmp.Compare(b.Return, a.Return) })
	for _, s := range ranked {
		out.Ranking = append(out.Ranking, s.Name)
	}
	mine := out.Models[slices.Index(names, conservative)]
	promote := mine.Gain.Interval != nil && mine.Gain.Interval[0] > 0 && mine.Below == 0
	out.Promote = &promote
	out.Why = fmt.Sprintf("the %s earns %.4f an hour more than the %s; %d of %d episodes fell below %g of its reward",
		conservative, mine.Gain.Mean, owner, mine.Below, episodes, 1-out.Alpha)
	return out, nil
}

// play an episode. All choosers meet the same noise.
func play(m map[hour][]float64, hours []hour, c chooser, rng *rand.Rand) (path, error) {
	out := path{mine: make([]float64, len(hours))}
	sum := 0.0
	for i, h := range hours {
		burst, noise := rng.NormFloat64(), rng.NormFloat64()
		policy, err := c.choose(h)
		if err != nil {
			return out, err
		}
		if err := c.hear(h, policy, reward(h, policy, burst, noise)); err != nil {
			return out, err
		}
		sum += m[h][policy]
		out.mine[i] = sum
	}
	return out, nil
}

func scoreOf(name string, paths []path, alpha float64) Score {
	s := Score{Name: name, Worst: math.Inf(1)}
	per := func(until int, of func(p path) []float64) []float64 {
		var out []float64
		for _, p := range paths {
			at := 24*until - 1
			out = append(out, (of(p)[at]-p.mine[at])/float64(at+1))
		}
		return out
	}
	var returns []float64
	for _, p := range paths {
		returns = append(returns, p.mine[len(p.mine)-1]/float64(len(p.mine)))
		below := false
		for i := range p.mine {
			share := p.mine[i] / p.owner[i]
			if i >= 24 {
				s.Worst = min(s.Worst, share)
				below = below || share < 1-alpha
			}
		}
		if below {
			s.Below++
		}
	}
	s.Return, s.Interval = interval(returns)
	for _, d := range stages {
		r := Regret{Days: d}
		r.Mean, r.Interval = interval(per(d, func(p path) []float64 { return p.oracle }))
		s.AgainstOracle = append(s.AgainstOracle, r)
		r.Mean, r.Interval = interval(per(d, func(p path) []float64 { return p.schedule }))
		s.AgainstSchedule = append(s.AgainstSchedule, r)
	}
	lost := per(days, func(p path) []float64 { return p.owner })
	for i := range lost {
		lost[i] = -lost[i]
	}
	s.Gain.Days = days
	s.Gain.Mean, s.Gain.Interval = interval(lost)
	return s
}

// interval of 95 % of a mean, by Student's t; nil for one value.
func interval(x []float64) (mean float64, out *[2]float64) {
	mean, deviation := stat.MeanStdDev(x, nil)
	if len(x) < 2 {
		return x[0], nil
	}
	half := distuv.StudentsT{Sigma: 1, Nu: float64(len(x) - 1)}.Quantile(0.975) * deviation / math.Sqrt(float64(len(x)))
	return mean, &[2]float64{mean - half, mean + half}
}
