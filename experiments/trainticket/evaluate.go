package trainticket

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
	"github.com/mash2-io/mash2/planning/vertical"
)

// Evaluation compares ways to scale the chain over the same episodes.
type Evaluation struct {
	Environment string `json:"environment"`
	Seed        uint64 `json:"seed"`
	Episodes    int    `json:"episodes"`
	// Profile makes load of the machines of a file; null without one.
	Profile *Profile `json:"profile,omitempty"`
	Models  []Score  `json:"models"`
	Ranking []string `json:"ranking"`
	// Promote is whether the best model serves better than every rule at no more cores, or as
	// well at fewer; null without a model and a rule.
	Promote *bool  `json:"promote"`
	Why     string `json:"why"`
}

// Figure is a mean over episodes with its 95 % interval by Student's t, null for one episode.
type Figure struct {
	Mean     float64     `json:"mean"`
	Interval *[2]float64 `json:"interval"`
}

// Score of one way to scale.
type Score struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	// Return is DRPC's R_qos of each bucket of the measured pass, by its p99, on average: from
	// 0 to 1.
	Return   float64     `json:"return"`
	Interval *[2]float64 `json:"interval"`
	// FailedRatio of requests, and their latencies, milliseconds.
	FailedRatio Figure `json:"failedRatio"`
	P50Ms       Figure `json:"p50Ms"`
	P95Ms       Figure `json:"p95Ms"`
	P99Ms       Figure `json:"p99Ms"`
	// Cores that Ready pods request, Replicas that are wanted, and changes of replicas, of all
	// services together.
	Cores        Figure `json:"cores"`
	Replicas     Figure `json:"replicas"`
	ScaleActions Figure `json:"scaleActions"`
	// CostUSD of the machines, an hour.
	CostUSD Figure `json:"costUSD"`
	// LeftOut is the share of optional visits that were left out (brownout); null where nobody
	// can.
	LeftOut *Figure `json:"leftOut"`
	// Retrain is the share of episodes in which the notifier asked for teaching; null for
	// rules.
	Retrain *float64 `json:"retrain"`

	failed, cores, qos []float64
}

// The rules, by the names that --model takes.
const (
	ruleHPA          = "rule:hpa"
	ruleFIRM         = "rule:firm"
	ruleCoScal       = "rule:coscal"
	rulePlan         = "rule:plan"
	ruleAgents       = "rule:agents"
	ruleJoint        = "rule:joint"
	rulePredictive   = "rule:predictive"
	ruleProportional = "rule:proportional"
)

// Rules that can be compared with.
func Rules() []string {
	return []string{ruleHPA, ruleFIRM, ruleCoScal, rulePlan, ruleAgents, ruleJoint, rulePredictive, ruleProportional}
}

// Builtin is the model that comes with the program.
const Builtin = "builtin:drpc"

// MaxEpisodes bounds what can be asked for.
const MaxEpisodes = 10_000

// OtherEnvironment is the same application with another call graph.
const OtherEnvironment = Environment + "-changed"

// NodesEnvironment is the same application on machines of which there are as many as its scaler
// asks for. It is for comparing, not for learning in.
const NodesEnvironment = Environment + "-nodes"

// Environments by name in which can be learned.
func Environments() []string { return []string{Environment, OtherEnvironment} }

func changedOf(environment string) Changed {
	switch environment {
	case OtherEnvironment:
		return OtherGraph
	case NodesEnvironment:
		return ScaledNodes
	}
	return AsTrained
}

// competitor is what plays: a decider for each episode, or a scaler of the simulator.
type competitor struct {
	algorithm string
	scaler    string
	agents    *sim.Agents // beside the scaler; nil for none
	tuning    sim.Tuning
	begin     func() (decider, error)
	model     bool
}

// competitorOf a name that --model takes: a rule, the model that comes with the program, or a
// folder. Rules may have settings behind their names, in percent but for times and millicores:
// rule:hpa:TARGET:MINUTES, whose minutes are those that Cluster Autoscaler leaves a node that is
// used by less than 85 %, instead of its defaults, rule:firm:NEAR:TARGET:SLACK, rule:proportional:TARGET,
// rule:joint:TARGET:MILLICORES, rule:predictive:TARGET:MILLICORES, rule:agents:SECONDS:FLOOR.
func competitorOf(name string) (competitor, error) {
	if !strings.HasPrefix(name, "rule:") {
		m, err := open(name)
		if err != nil {
			return competitor{}, err
		}
		return competitor{algorithm: m.Card.Algorithm, model: true, begin: func() (decider, error) { return newStudents(m.Students, m.Card.start()) }}, nil
	}
	unknown := fmt.Errorf("unknown rule %q: want %s, or with settings rule:hpa:TARGET:MINUTES, rule:firm:NEAR:TARGET:SLACK, rule:proportional:TARGET, rule:joint:TARGET:MILLICORES, rule:predictive:TARGET:MILLICORES, rule:agents:SECONDS:FLOOR", name, strings.Join(Rules(), ", "))
	parts := strings.Split(name, ":")
	var set []float64
	for _, text := range parts[2:] {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0 && v <= 500) {
			return competitor{}, unknown
		}
		set = append(set, v)
	}
	rule := func(begin func() (decider, error)) competitor { return competitor{algorithm: "rule", begin: begin} }
	switch kind := strings.Join(parts[:2], ":"); {
	case kind == ruleHPA && len(set) <= 2:
		c := competitor{algorithm: "rule"}
		if len(set) == 2 {
			c.tuning = sim.Tuning{Unneeded: time.Duration(set[1] * float64(time.Minute)), Threshold: 0.85}
		}
		c.scaler = fmt.Sprintf("%s:%.0f", sim.HPA, append(set, 75)[0])
		return c, nil
	case kind == ruleProportional && len(set) <= 1:
		set = append(set, 75)
		return rule(func() (decider, error) { return &proportional{target: set[0] / 100}, nil }), nil
	case kind == rulePlan && len(set) == 0:
		return competitor{algorithm: "rule", scaler: sim.Mash2}, nil
	case kind == ruleAgents && (len(set) == 0 || len(set) == 2):
		c := competitor{algorithm: "rule", scaler: sim.Mash2, agents: agentsOf(0, startCPU)}
		if len(set) == 2 {
			c.agents = agentsOf(set[0], int64(set[1]))
		}
		return c, nil
	case (kind == ruleJoint || kind == rulePredictive) && (len(set) == 0 || len(set) == 2):
		return rule(func() (decider, error) {
			j := newJoint()
			j.ahead = kind == rulePredictive
			if len(set) == 2 {
				j.target, j.usual = set[0]/100, int64(set[1])
			}
			return j, nil
		}), nil
	case kind == ruleFIRM && (len(set) == 0 || len(set) == 3):
		s, err := application()
		return rule(func() (decider, error) {
			f := newFIRM(s)
			if len(set) == 3 {
				f.near, f.target, f.slack = set[0]/100, set[1]/100, set[2]/100
			}
			return f, nil
		}), err
	case kind == ruleCoScal && len(set) == 0:
		q, err := shippedTable()
		c := rule(func() (decider, error) { return &coscal{q: q}, nil })
		c.algorithm = "q-learning"
		return c, err
	}
	return competitor{}, unknown
}

// agentsOf each service: those of spec.vertical, by its rule proportional, with a budget that a
// service reaches only at the most that anybody may use. They read usage every so many seconds
// on the nodes, or, at 0, as metrics-server does. No pod has less than the floor, millicores.
func agentsOf(seconds float64, floor int64) *sim.Agents {
	return &sim.Agents{
		Rule: vertical.DefaultProportional(), MilliCPU: mostReplicas * mostCPU, Floor: floor, Ceiling: mostCPU,
		Every: time.Duration(seconds * float64(time.Second)),
	}
}

// Evaluate plays episodes with models and rules, all from the same starts. With the name of a
// file of machines' utilisation the load follows these. Errors wrap training.ErrInput where
// what was asked for can't be done.
func Evaluate(ctx context.Context, names []string, environment, file string, episodes int, seed uint64, progress io.Writer) (Evaluation, error) {
	out := Evaluation{Environment: environment, Seed: seed, Episodes: episodes}
	if episodes < 1 || episodes > MaxEpisodes {
		return out, training.Inputf("--episodes must be from 1 to %d, is %d", MaxEpisodes, episodes)
	}
	if len(names) == 0 {
		return out, training.Inputf("--model must name a rule (%s), %s or a folder", strings.Join(Rules(), ", "), Builtin)
	}
	var by *machines
	if file != "" {
		var err error
		if by, err = machinesOf(ctx, file, changedOf(environment), seed); err != nil {
			return out, err
		}
		out.Profile = by.profile
		fmt.Fprintf(progress, "profiled: up to %.0f requests a second at %.0f %% of the hosts; off by %.1f a second, a straight line by %.1f\n",
			by.profile.MostRequests, 100*by.profile.Most, by.profile.RMSE, by.profile.LineRMSE)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return out, training.Inputf("--model: %s twice", name)
		}
		c, err := competitorOf(name)
		if err != nil {
			return out, training.Inputf("--model: %w", err)
		}
		s, err := c.score(ctx, name, changedOf(environment), by, episodes, seed)
		if err != nil {
			return out, err
		}
		out.Models = append(out.Models, s)
		fmt.Fprintf(progress, "%s: %.4f %% of requests failed, p99 %.0f ms, %.1f cores\n", name, 100*s.FailedRatio.Mean, s.P99Ms.Mean, s.Cores.Mean)
	}
	ranked := slices.Clone(out.Models)
	slices.SortStableFunc(ranked, func(a, b Score) int { return cmp.Compare(b.Return, a.Return) })
	for _, s := range ranked {
		out.Ranking = append(out.Ranking, s.Name)
	}
	out.Promote, out.Why = promotion(out.Models)
	return out, nil
}

// play one episode.
func (c competitor) play(ctx context.Context, name string, seed uint64, changed Changed, by *machines, after func(*view)) (sim.Result, error) {
	if c.begin != nil {
		d, err := c.begin()
		if err != nil {
			return sim.Result{}, err
		}
		return play(ctx, d, name, seed, changed, by, after)
	}
	o, err := episode(seed, changed, by)
	if err != nil {
		return sim.Result{}, err
	}
	o.Scaler, o.Agents, o.Tuning = c.scaler, c.agents, c.tuning
	return run(ctx, o, name)
}

// score plays the episodes of one competitor.
func (c competitor) score(ctx context.Context, name string, changed Changed, by *machines, episodes int, seed uint64) (Score, error) {
	s := Score{Name: name, Algorithm: c.algorithm}
	var p50, p95, p99, replicas, actions, cost, leftOut []float64
	retrain := 0.0
	for e := range episodes {
		notifier := drpc.Notifier{Threshold: drpc.Threshold, Window: drpc.Window}
		asked, decided := false, 0
		var optional, left float64
		r, err := c.play(ctx, name, seed+uint64(e), changed, by, func(v *view) {
			for i, sv := range v.services {
				if sv.Optional {
					optional, left = optional+sv.Visits+v.skipped[i], left+v.skipped[i]
				}
			}
			if decided++; decided > settling {
				asked = notifier.Note(v.told()) || asked
			}
		})
		if err != nil {
			return s, err
		}
		if asked {
			retrain++
		}
		leftOut = append(leftOut, left/math.Max(optional, 1))
		entry := r.Workloads[slices.IndexFunc(r.Workloads, func(w load.WorkloadResult) bool { return w.Measured.Requests > 0 })]
		m := entry.Measured
		s.failed = append(s.failed, *m.FailedRatio)
		p50, p95, p99 = append(p50, *m.P50Ms), append(p95, *m.P95Ms), append(p99, *m.P99Ms)
		cost = append(cost, r.CostUSD[len(r.CostUSD)-1]/passLength.Hours())
		var cores, n, changes, qos, buckets float64
		for _, w := range r.Workloads {
			cores += w.Measured.ReadyCPUSeconds / w.Measured.SimulatedSeconds
			n += *w.Measured.MeanReplicas
			changes += float64(w.Measured.ScaleActions)
		}
		for _, b := range entry.Buckets {
			if !b.Warmup && b.P99Ms != nil {
				qos, buckets = qos+drpc.QoS(*b.P99Ms/1000, tolerated), buckets+1
			}
		}
		s.cores, replicas, actions, s.qos = append(s.cores, cores), append(replicas, n), append(actions, changes), append(s.qos, qos/math.Max(buckets, 1))
	}
	returns := figure(s.qos)
	s.Return, s.Interval = returns.Mean, returns.Interval
	s.FailedRatio, s.P50Ms, s.P95Ms, s.P99Ms = figure(s.failed), figure(p50), figure(p95), figure(p99)
	s.Cores, s.Replicas, s.ScaleActions, s.CostUSD = figure(s.cores), figure(replicas), figure(actions), figure(cost)
	if c.begin != nil {
		f := figure(leftOut)
		s.LeftOut = &f
	}
	if c.model {
		share := retrain / float64(episodes)
		s.Retrain = &share
	}
	return s, nil
}

// figure of some numbers.
func figure(x []float64) Figure {
	m, deviation := stat.MeanStdDev(x, nil)
	if len(x) < 2 {
		return Figure{Mean: m}
	}
	half := distuv.StudentsT{Sigma: 1, Nu: float64(len(x) - 1)}.Quantile(0.975) * deviation / math.Sqrt(float64(len(x)))
	return Figure{m, &[2]float64{m - half, m + half}}
}

// promotion of the best model: where against every rule it is better at no more cores, or as
// good at fewer, by paired t-tests, corrected for the number of rules.
func promotion(models []Score) (*bool, string) {
	best := -1
	for i, s := range models {
		if s.Retrain != nil && (best < 0 || s.Return > models[best].Return) {
			best = i
		}
	}
	if best < 0 || len(models) < 2 || len(models[best].qos) < 2 {
		return nil, "one model, one rule and two episodes at least are needed to compare"
	}
	m := models[best]
	var rules []Score
	for _, s := range models {
		if s.Retrain == nil {
			rules = append(rules, s)
		}
	}
	promote := len(rules) > 0
	var says []string
	for _, s := range rules {
		gain, fewer := make([]float64, len(m.qos)), make([]float64, len(m.qos))
		for e := range gain {
			gain[e], fewer[e] = m.qos[e]-s.qos[e], s.cores[e]-m.cores[e]
		}
		g, f := figure(gain), figure(fewer)
		level := 1 - 0.05/float64(len(rules))
		mean, deviation := stat.MeanStdDev(gain, nil)
		low := mean - distuv.StudentsT{Sigma: 1, Nu: float64(len(gain) - 1)}.Quantile(level)*deviation/math.Sqrt(float64(len(gain)))
		better := low > 0 && f.Interval[1] >= 0
		cheaper := f.Interval[0] > 0 && g.Interval[1] >= 0
		promote = promote && (better || cheaper)
		says = append(says, fmt.Sprintf("%s: %+.4f of R_qos (%+.4f … %+.4f), %+.1f cores (%+.1f … %+.1f)", s.Name, g.Mean, g.Interval[0], g.Interval[1], -f.Mean, -f.Interval[1], -f.Interval[0]))
	}
	return &promote, m.Name + " against " + strings.Join(says, "; ")
}
