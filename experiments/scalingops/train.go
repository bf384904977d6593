package scalingops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/planning/rl"
)

// Environment is the name of models that are trained here.
const Environment = "scaling-ops"

// Options of the pipeline.
type Options struct {
	// Steps of training of each candidate.
	Steps int
	Seed  uint64
	// Savings are what few, busy replicas weigh against delay in training, one candidate
	// each, in the order in which they are made: each begins with what the one before has
	// learned.
	Savings []float64
	// Saving is the same in the score. Nil is the paper's 1, and then no candidate that is
	// slower than the HPA is ranked before one that isn't: nobody has asked for that trade.
	Saving *float64
	// SLA in milliseconds.
	SLA float64
	// Least and Most replicas; with Most 0 half as many again as the history has at most.
	Least, Most int
	// Alpha of the fit; 0 for what fits best.
	Alpha float64
	// Request of one replica, millicores, of which the rival HPA aims at 70 %; with 0 it
	// aims at the history's mean usage.
	Request float64
	// Held is the share of the history, its end, that candidates are ranked on.
	Held float64
	// From is the model in use, from which the first candidate learns on; nil to begin anew.
	From *rl.Model
}

// DefaultOptions train from the paper's weight to ever cheaper replicas.
func DefaultOptions() Options {
	return Options{
		Steps: 30_000, Seed: 1, Savings: []float64{1, 0.4, 0.2, 0.1, 0.05, 0.025},
		SLA: 250, Least: 1, Held: 0.3,
	}
}

// saving is that of the score.
func (o Options) saving() float64 {
	if o.Saving == nil {
		return 1
	}
	return *o.Saving
}

// ErrOptions is what errors of Options are.
var ErrOptions = errors.New("bad option")

// Validate reports the first option that can't be used.
func (o Options) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Steps < 1000 || o.Steps > 10_000_000:
		return bad("steps must be from 1000 to 10000000, are %d", o.Steps)
	case len(o.Savings) == 0 || len(o.Savings) > 20:
		return bad("there must be 1 to 20 weights of saving, are %d", len(o.Savings))
	case !(o.SLA > 0) || math.IsInf(o.SLA, 0):
		return bad("the SLA must be above 0 ms, is %g", o.SLA)
	case o.Least < 1 || o.Most != 0 && o.Most <= o.Least || o.Least >= maxReplicas || o.Most > maxReplicas:
		return bad("replicas must be from 1 to %d, and more at most than at least, are %d to %d", maxReplicas, o.Least, o.Most)
	case !(o.Alpha >= 0 && o.Alpha <= 1):
		return bad("alpha must be from 0 to 1, is %g", o.Alpha)
	case !(o.Request >= 0) || math.IsInf(o.Request, 0):
		return bad("the request must be 0 or more millicores, is %g", o.Request)
	case !(o.Held > 0 && o.Held < 1):
		return bad("the share that is held out must be between 0 and 1, is %g", o.Held)
	}
	for _, w := range append(slices.Clone(o.Savings), o.saving()) {
		if !(w >= 0) || w > 10 {
			return bad("a weight of saving must be from 0 to 10, is %g", w)
		}
	}
	return nil
}

// Candidate is an agent that was trained, or a rule beside them.
type Candidate struct {
	Name string `json:"name"`
	// DerivedFrom is the candidate whose network it began with, or InUse; empty for the first
	// of those that began anew.
	DerivedFrom string `json:"derivedFrom,omitempty"`
	// Saving is what few, busy replicas weighed in training; null for a rule.
	Saving *float64 `json:"saving"`
	// Model is its folder; empty for a rule.
	Model string `json:"model,omitempty"`
	Outcome
	// LaterThanHPA: more steps are late than under rule:hpa, by more than chance;
	// SlowerThanHPA: the delay is higher.
	LaterThanHPA  bool `json:"laterThanHPA"`
	SlowerThanHPA bool `json:"slowerThanHPA"`
	// Front: nobody else has both a lower mean delay and fewer pods.
	Front bool `json:"front"`

	policy rl.Policy
}

// Result of the pipeline.
type Result struct {
	Environment string  `json:"environment"`
	Algorithm   string  `json:"algorithm"`
	Steps       int     `json:"steps"` // of all candidates together
	Seconds     float64 `json:"seconds"`
	Rows        int     `json:"rows"`
	HeldOut     int     `json:"heldOut"`
	From        string  `json:"from"`
	To          string  `json:"to"`
	Fit         Fit     `json:"fit"`
	SLA         float64 `json:"sla"`
	Least       int     `json:"minReplicas"`
	Most        int     `json:"maxReplicas"`
	// Candidates in the order in which they were trained, Rules beside them.
	Candidates []Candidate `json:"candidates"`
	Rules      []Candidate `json:"rules"`
	// Ranking of the candidates: who sits at a bound last; before them who is late more
	// often than the HPA; before them, if no weight of saving was stated, who is slower. Of
	// each group the fewest pods first, or the highest score where a weight was stated.
	Ranking []string `json:"ranking"`
	// InUse is the model that candidates learned on from, Adopt the candidate to use instead,
	// empty for none, and Why; null and empty where they began anew.
	InUse  *Candidate `json:"inUse,omitempty"`
	Adopt  string     `json:"adopt,omitempty"`
	Why    string     `json:"why,omitempty"`
	Report string     `json:"report"`
}

// leastTrained is with how few rows the regression of three coefficients is made.
const leastTrained = 30

// Train fits, trains and ranks. The Result has the fit even where that is refused.
func Train(ctx context.Context, h History, o Options, progress io.Writer) (Result, World, error) {
	out := Result{Environment: Environment, Algorithm: "dqn", Rows: len(h), SLA: o.SLA, Candidates: []Candidate{}, Rules: []Candidate{}}
	if err := o.Validate(); err != nil {
		return out, World{}, err
	}
	if err := h.validate(); err != nil {
		return out, World{}, err
	}
	began := time.Now()
	train, held := h.Split(o.Held)
	if len(train) < leastTrained || len(held) < leastEpisode {
		return out, World{}, fmt.Errorf("%w: with a share of %g held out, %d rows are left to train on and %d to rank by; %d and %d are needed", ErrOptions, o.Held, len(train), len(held), leastTrained, leastEpisode)
	}
	out.HeldOut, out.From, out.To = len(held), h[0].Time.Format(time.RFC3339), h[len(h)-1].Time.Format(time.RFC3339)
	fit, err := FitDelay(train, o.Alpha)
	out.Fit = fit
	fmt.Fprintf(progress, "delay = %.1f + %.4g × CPU + %.4g × requests, R² %.2f over %d rows; the environments have %.2f of it without the first term, %.0f ms off\n",
		fit.Intercept, fit.PerCPU, fit.PerRequest, fit.R2, fit.Rows, fit.Alpha, fit.Error)
	if err != nil {
		return out, World{}, err
	}
	if o.Most == 0 {
		o.Most = min(max(o.Least+1, int(math.Ceil(1.5*h.quantile(1, replicas)))), maxReplicas)
	}
	out.Least, out.Most = o.Least, o.Most
	w := NewWorld(train, fit, o.SLA, o.Least, o.Most)
	var before *rl.Network
	if o.From != nil {
		if w, err = w.onward(*o.From); err != nil {
			return out, w, err
		}
		before = o.From.Policy.Network
	}
	out.Rules = w.rules(held, o)
	reference := out.Rules[0].Outcome
	if o.From != nil {
		out.InUse = &Candidate{Name: InUse, Outcome: w.evaluate(&agent{actor: o.From.Policy.NewActor()}, held, o.saving())}
		out.InUse.compare(reference)
	}
	for i, saving := range o.Savings {
		c := Candidate{Name: fmt.Sprintf("candidate-%d", i+1), Saving: &saving}
		if i > 0 {
			c.DerivedFrom = out.Candidates[i-1].Name
		} else if o.From != nil {
			c.DerivedFrom = InUse
		}
		if c.policy, err = w.learn(ctx, train, saving, before, o, uint64(i)); err != nil {
			return out, w, err
		}
		before = c.policy.Network
		c.Outcome = w.evaluate(&agent{actor: c.policy.NewActor()}, held, o.saving())
		c.compare(reference)
		out.Candidates = append(out.Candidates, c)
		out.Steps += o.Steps
		fmt.Fprintf(progress, "%s, saving weighs %g: %.2f pods, %.0f ms, %.1f %% late, score %.2f\n",
			c.Name, saving, c.Pods.Mean, c.Delay.Mean, 100*c.Late.Mean, c.Score.Mean)
	}
	for i := range out.Rules {
		out.Rules[i].compare(reference)
	}
	mark(out.Candidates, out.Rules)
	out.Ranking = ranking(out.Candidates, o.Saving != nil)
	if out.InUse != nil {
		out.Adopt, out.Why = out.adopt(o.Saving != nil)
	}
	out.Seconds = time.Since(began).Seconds()
	return out, w, nil
}

// learn trains one candidate by DQN, from a network if there is one.
func (w World) learn(ctx context.Context, rows History, saving float64, from *rl.Network, o Options, part uint64) (rl.Policy, error) {
	c := rl.DefaultDQN(o.Steps)
	c.Seed, c.Hidden, c.Batch, c.From = o.Seed+part, []int{32, 32}, 64, from
	c.Optimiser.Rate, c.Start, c.TargetEvery, c.Gamma = 1e-3, 500, 250, 0.9
	if from != nil {
		c.Explore = rl.Schedule{From: 0.3, To: 0.05, Steps: max(1, o.Steps/5)} // it knows something already
	}
	learner, err := rl.NewDQN(c, w.Spec(), &Training{World: w, Rows: rows, Saving: saving})
	if err != nil {
		return rl.Policy{}, err
	}
	const pieces = 20
	for range pieces {
		if err := ctx.Err(); err != nil {
			return rl.Policy{}, err
		}
		learner.Learn(max(1, o.Steps/pieces))
	}
	return learner.Policy(), nil
}

// rules beside the candidates, the HPA first.
func (w World) rules(held History, o Options) []Candidate {
	target := w.CPU
	if o.Request > 0 {
		target = 0.7 * o.Request
	}
	step := held[len(held)-1].Time.Sub(held[0].Time) / time.Duration(max(1, len(held)-1))
	window := 1
	if step > 0 {
		window = max(1, int((5*time.Minute+step-1)/step))
	}
	rule := func(name string, d decider) Candidate {
		return Candidate{Name: name, Outcome: w.evaluate(d, held, o.saving())}
	}
	return []Candidate{rule("rule:hpa", &hpa{target: target, window: window}), rule("rule:least", still(w.Least)), rule("rule:most", still(w.Most))}
}

// mark the front of delay and pods over all.
func mark(parts ...[]Candidate) {
	for _, part := range parts {
		for i := range part {
			c := &part[i]
			c.Front = true
			for _, others := range parts {
				for _, o := range others {
					fewer, faster := o.Pods.Mean <= c.Pods.Mean, o.Delay.Mean <= c.Delay.Mean
					if fewer && faster && (o.Pods.Mean < c.Pods.Mean || o.Delay.Mean < c.Delay.Mean) {
						c.Front = false
					}
				}
			}
		}
	}
}

// compare a candidate with the HPA's rule.
func (c *Candidate) compare(hpa Outcome) {
	c.LaterThanHPA, c.SlowerThanHPA = above(c.late, hpa.late), above(c.delays, hpa.delays)
}

// ranking of candidates by name.
func ranking(candidates []Candidate, stated bool) []string {
	ranked := slices.Clone(candidates)
	group := func(c Candidate) int {
		switch {
		case c.Boundary:
			return 3
		case c.LaterThanHPA:
			return 2
		case c.SlowerThanHPA && !stated:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ranked, func(a, b Candidate) int {
		by := cmp.Compare(a.Pods.Mean, b.Pods.Mean)
		if stated {
			by = cmp.Compare(b.Score.Mean, a.Score.Mean)
		}
		return cmp.Or(cmp.Compare(group(a), group(b)), by)
	})
	var out []string
	for _, c := range ranked {
		out = append(out, c.Name)
	}
	return out
}
