package training

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/planning/vertical"
)

// confidence of a promotion, over all models that are compared.
const confidence = 0.95

// evaluateAgents plays MARLISE's world with each model deciding for all pods.
func evaluateAgents(ctx context.Context, out Evaluation, names []string, count int, progress io.Writer) (Evaluation, error) {
	planners := make([]vertical.Planner, len(names))
	algorithms := make([]string, len(names))
	rule := -1 // the best of those that change limits
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return out, Inputf("--model: %s twice", name)
		}
		var err error
		if planners[i], algorithms[i], err = agentsPlanner(name); err != nil {
			return out, Inputf("--model: %w", err)
		}
	}
	times := make([][]float64, len(names))
	for i, p := range planners {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		played, service := gym.PlayMarlise(p, count, out.Seed)
		returns := make([]float64, count)
		times[i] = make([]float64, count)
		for e, x := range played {
			returns[e], times[i][e] = x.Return, x.MeanSeconds
		}
		s := Score{Name: names[i], Environment: gym.MarliseName, Algorithm: algorithms[i], Episodes: count, Service: &service}
		if s.Return, s.Interval = MeanOf(returns); math.IsNaN(s.Return) {
			return out, fmt.Errorf("--model: the return of %s is not a number", names[i])
		}
		out.Models = append(out.Models, s)
		if changes := algorithms[i] == "rule" && p != vertical.Planner(vertical.Fixed{}); changes && (rule < 0 || stat.Mean(times[i], nil) < stat.Mean(times[rule], nil)) {
			rule = i
		}
		fmt.Fprintf(progress, "%s: mean return %.1f, mean response time %.3f s in %d episodes\n", names[i], s.Return, service.MeanSeconds, count)
	}
	out.Ranking = ranking(out.Models)
	out.Promote, out.Why = promotion(names, times, rule)
	return out, nil
}

// promotion of the model with the lowest mean response time: by a one-sided paired t-test
// of episodes' mean response times against a rule's, the best one's if there are several,
// corrected by Bonferroni for the number of models.
func promotion(names []string, times [][]float64, rule int) (*bool, string) {
	if rule < 0 {
		return nil, "no rule to compare with: add --model rule:spread"
	}
	count := len(times[rule])
	if count < 2 {
		return nil, "one episode has no interval"
	}
	models := 0
	best := -1
	for i := range names {
		if strings.HasPrefix(names[i], "rule:") {
			continue
		}
		if models++; best < 0 || stat.Mean(times[i], nil) < stat.Mean(times[best], nil) {
			best = i
		}
	}
	if best < 0 {
		return nil, "there are only rules"
	}
	gain := make([]float64, count)
	for e := range gain {
		gain[e] = times[rule][e] - times[best][e]
	}
	m, deviation := stat.MeanStdDev(gain, nil)
	level := 1 - (1-confidence)/float64(models)
	half := distuv.StudentsT{Sigma: 1, Nu: float64(count - 1)}.Quantile(level) * deviation / math.Sqrt(float64(count))
	promote := m-half > 0
	was := stat.Mean(times[rule], nil)
	return &promote, fmt.Sprintf("%s answers %+.1f ms sooner (negative: later) than %s (%+.1f %% of %.1f ms, mean of episodes); the lower bound is %+.1f ms by a paired t-test at %.1f %%, one-sided, over %d episodes",
		names[best], 1000*m, names[rule], 100*m/max(was, 1e-9), 1000*was, 1000*(m-half), 100*level, count)
}

// agentsPlanner is a rule by name, or a model.
func agentsPlanner(name string) (vertical.Planner, string, error) {
	if strings.HasPrefix(name, "rule:") {
		r, err := vertical.RuleByName(strings.TrimPrefix(name, "rule:"))
		return r, "rule", err
	}
	m, err := open(name, gym.MarliseName, vertical.Changes.Space())
	if err != nil {
		return nil, "", err
	}
	if m.Environment != gym.MarliseName {
		return nil, "", fmt.Errorf("%s was trained in %s, not in %s", name, m.Environment, gym.MarliseName)
	}
	p, err := vertical.NewLearned(name, vertical.ActionOf(m.Algorithm), m.Policy)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return p, m.Algorithm, nil
}
