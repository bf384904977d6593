package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/planning/canary"
	"github.com/mash2-io/mash2/strategic"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// Trial compares candidates with what scales a workload now, on that workload's records:
// demand does not depend on who scales, so what was asked for then is asked for again from
// each of them, with the same random numbers. In errors fields have the names of mash2
// evaluate's flags.
type Trial struct {
	History
	World
	// Policy of mash2, in force all the time; that of the records' end, if it is a built-in one, where
	// none is given and there is no PoliciesFile.
	Policy       string
	PoliciesFile string
	// Incumbent is a rule, and Candidates are rules, or models of replicas that plan for
	// mash2. A rule is rule:SCALER with a scaler of sim.ParseScaler.
	Incumbent  string
	Candidates []string
	// Block is what is compared as one: a day, or a whole number of what demand repeats after.
	// The first is history that everybody has seen.
	Block time.Duration
	// Delta bounds the probability that any candidate is promoted that is no better.
	Delta float64
	// Pods judges by what pods request, not by nodes: for those that share nodes with others.
	Pods  bool
	Seed  uint64
	Given func(flag string) bool
}

// rulePrefix of what is no model.
const rulePrefix = "rule:"

// Verdict of a Trial.
type Verdict struct {
	History HistorySummary `json:"history"`
	// Blocks that are compared, of so many seconds.
	Blocks int `json:"blocks"`
	// LeftOut of them are no evidence, as demand is not known: in the records pods used about
	// all that they may for more than a hundredth of the block, or more than a tenth of it is
	// missing.
	LeftOut      int     `json:"leftOut"`
	BlockSeconds float64 `json:"blockSeconds"`
	Policy       string  `json:"policy"`
	// Objective is the share of minutes that are to be within the SLO.
	Objective float64 `json:"objective"`
	Incumbent string  `json:"incumbent"`
	Delta     float64 `json:"delta"`
	// Cost says what is compared: nodes or pods.
	Cost string `json:"cost"`
	// Models are the incumbent and the candidates, in that order.
	Models []Judged `json:"models"`
	// Ranking has the names of those that keep the SLO first, and of these the cheapest.
	Ranking []string `json:"ranking"`
	// Promote is whether any candidate is to replace the incumbent; Why has the numbers.
	Promote bool   `json:"promote"`
	Why     string `json:"why"`
	// RecordsError is how far the simulation of mash2 is from what it planned in the records; nil
	// where that can't be told.
	RecordsError *RecordsError `json:"recordsError,omitempty"`
	Assumptions  []Assumption  `json:"assumptions"`
	KnownError   KnownError    `json:"knownError"`
}

// Judged is one of them.
type Judged struct {
	Name string `json:"name"`
	// CostUSD of all blocks, SLOViolationMinutes and their share of all minutes.
	CostUSD             float64 `json:"costUsd"`
	SLOViolationMinutes int     `json:"sloViolationMinutes"`
	SLOViolationRatio   float64 `json:"sloViolationRatio"`
	MeanReplicas        float64 `json:"meanReplicas"`
	ScaleActions        int     `json:"scaleActions"`
	// Keeps is whether it keeps the objective, or violates no more than the incumbent.
	Keeps bool `json:"keeps"`
	// Gain is by how much less it costs than the incumbent, relative to the dearer of the
	// two, the mean over blocks; nil of the incumbent. Wealth is that of canary.Gain, and
	// Needed what it must reach. Promoted where it does and Keeps.
	Gain     *score.Interval `json:"gain"`
	Wealth   *float64        `json:"wealth"`
	Needed   float64         `json:"needed,omitempty"`
	Promoted bool            `json:"promoted"`
}

// Validate reports the first option that can't be used.
func (o *Trial) Validate() error {
	switch {
	case len(o.Candidates) == 0:
		return errors.New("--model must name what is to be compared: a model, or a rule such as rule:hpa:70")
	case o.Workload == "":
		return errors.New("--workload must name a ManagedWorkload of --records, NAMESPACE/NAME")
	case !(o.Delta > 0 && o.Delta < 1):
		return fmt.Errorf("--delta must be between 0 and 1, is %g", o.Delta)
	case o.Block < 10*time.Minute || o.Block%time.Minute != 0:
		return fmt.Errorf("--block must be 10m or more, in whole minutes, is %v", o.Block)
	}
	for i, name := range append([]string{o.Incumbent}, o.Candidates...) {
		flag := "--model"
		if i == 0 {
			flag = "--incumbent"
		} else if name == o.Incumbent {
			return fmt.Errorf("--model: %s is the incumbent", name)
		} else if slices.Contains(o.Candidates[:i-1], name) {
			return fmt.Errorf("--model: %s twice", name)
		}
		scaler, rule := strings.CutPrefix(name, rulePrefix)
		switch {
		case rule:
			if _, _, err := sim.ParseScaler(scaler); err != nil {
				return fmt.Errorf("%s: %s: %w", flag, name, err)
			}
			if scaler == sim.Mash2RL {
				return fmt.Errorf("%s: %s: name the model itself", flag, name)
			}
		case i == 0:
			return fmt.Errorf("--incumbent must be a rule such as rule:mash2 or rule:hpa:80, is %q", name)
		default:
			if _, err := simulation.ReadModel(name); err != nil {
				return err
			}
		}
	}
	h := o.history()
	if err := h.validate(); err != nil {
		return err
	}
	return o.World.validate()
}

// history is as many blocks as there are records of, if not too many; the newest is the stretch
// and those before are passes of warm-up.
func (o *Trial) history() History {
	h := o.History
	h.From, h.Warm = o.Block.String(), min(int(60*24*time.Hour/o.Block)-1, 100)
	return h
}

// Run replays everybody and judges.
func (o *Trial) Run(ctx context.Context, progress io.Writer) (Verdict, error) {
	out := Verdict{BlockSeconds: o.Block.Seconds(), Incumbent: o.Incumbent, Delta: o.Delta, Cost: "nodes"}
	if o.Pods {
		out.Cost = "pods"
	}
	w := Options{History: o.history(), World: o.World, Policies: []string{o.Policy}, PoliciesFile: o.PoliciesFile, Given: o.Given}
	dir, err := os.MkdirTemp("", "mash2-evaluate-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to do about it
	s, world, policies, _, err := w.load(ctx, dir, progress)
	if err != nil {
		return out, err
	}
	h := world.history
	// How many passes there are is told as Blocks.
	h.notes = slices.DeleteFunc(h.notes, func(note string) bool { return strings.HasPrefix(note, shortHistory) })
	if last := len(h.recorded.Policies) - 1; !o.Given("policy") && o.PoliciesFile == "" && last >= 0 {
		was := h.recorded.Policies[last]
		if _, known := strategic.Defaults()[was]; known {
			o.Policy = was
		} else {
			h.notes = append(h.notes, fmt.Sprintf("the records end under policy %s, which is not built in: this is %s; --policies-file and --policy say another", was, o.Policy))
		}
	}
	out.Policy = o.Policy
	if out.Objective, err = objectiveOf(o.Policy, policies); err != nil {
		return out, err
	}
	if out.Blocks = h.warm; out.Blocks < 2 {
		return out, inputf("--records %s has %d whole blocks of %v: at least 3 are needed, the first for history; --block takes shorter ones", o.Records, h.warm+1, o.Block)
	}
	unknown := h.unknown(out.Blocks)
	for _, is := range unknown {
		if is {
			out.LeftOut++
		}
	}
	if out.LeftOut == out.Blocks {
		return out, inputf("--records %s: in all %d blocks pods used about all that they may for more than %g %% of the time, or more than %g %% of the time is missing: what they would have used, and so what another scaler would cost, is not known; give them more replicas or larger limits first",
			o.Records, out.Blocks, 100*fullMost, 100*missingMost)
	}
	out.History, out.Assumptions = h.summary(), world.assumptions
	if out.KnownError, err = readKnownError(); err != nil {
		return out, err
	}
	names := append([]string{o.Incumbent}, o.Candidates...)
	runs := make([][]score.Run, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	begun := time.Now()
	for i, name := range names {
		group.Go(func() error {
			var err error
			if runs[i], err = o.replay(ctx, s, policies, name); err != nil {
				return fmt.Errorf("simulating %s: %w", name, err)
			}
			fmt.Fprintf(progress, "%s: %d blocks of %v replayed, after %v\n", name, out.Blocks, o.Block, time.Since(begun).Round(time.Second))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return out, err
	}
	out.judge(names, runs, unknown)
	out.RecordsError = o.recordsError(h.recorded, names, runs)
	return out, nil
}

// unknown tells of each block from the second on whether its demand is not known.
func (h cpuHistory) unknown(blocks int) []bool {
	out := make([]bool, blocks)
	for i := range out {
		out[i] = h.fullShare(1+i) > fullMost || h.share(h.missing, 1+i) > missingMost
	}
	return out
}

// fullMost is the largest share of a block in which pods may have used all that they may, and
// missingMost that of which there may be no value, for its demand to be known.
const (
	fullMost    = 0.01
	missingMost = 0.1
)

// objectiveOf a policy in policies.yaml's text, which was read before, or of a built-in one. One
// that states none is judged by COST_SAVING's.
func objectiveOf(policy, text string) (float64, error) {
	if text != "" {
		spec, err := configmap.Parse(map[string]string{configmap.KeyPolicy: policy, configmap.KeyPolicies: text}, nil)
		if err != nil {
			return 0, err
		}
		if objective := spec.Policies[policy].Objective; objective > 0 {
			return objective, nil
		}
	}
	return score.ObjectiveOf(policy), nil
}

// replay is one of them, by blocks from the second on.
func (o *Trial) replay(ctx context.Context, s scenarios.Scenario, policies, name string) ([]score.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.Policy.Initial = o.Policy
	w := simulation.World{Scenario: s, Passes: 1, Policies: policies}
	scaler, rule := strings.CutPrefix(name, rulePrefix)
	if !rule {
		var err error
		if w.Model, err = simulation.ReadModel(name); err != nil {
			return nil, input(err)
		}
		scaler = sim.Mash2RL
		if policies == "" && o.Incumbent != rulePrefix+sim.Mash2Any {
			// Only the model is to differ: it has the pools that mash2 has without a file.
			w.Policies = fmt.Sprintf(`{"policies": {%q: {"nodePools": [%q]}, %q: {"nodePools": [%q]}}}`,
				api.CostSaving, s.Pools[0].Name, api.Performance, s.Pools[len(s.Pools)-1].Name)
		}
	}
	outcome, err := w.Run(ctx, scaler, sim.Fluid, o.Seed, false)
	if err != nil {
		return nil, err
	}
	var out []score.Run
	for block := 1; block <= s.Warmup.Passes; block++ {
		r, err := outcome.RunOfPass(block)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// recordsError is of the newest block, where mash2 as it was is one of those replayed.
func (o *Trial) recordsError(did *Recorded, names []string, runs [][]score.Run) *RecordsError {
	i := slices.Index(names, rulePrefix+sim.Mash2)
	if did == nil || i < 0 || len(did.Policies) != 1 || did.Policies[0] != o.Policy || did.PlannedReplicas <= 0 {
		return nil
	}
	newest := runs[i][len(runs[i])-1]
	if newest.MeanReplicas == nil {
		return nil
	}
	return &RecordsError{Policy: o.Policy, Planned: did.PlannedReplicas, Simulated: *newest.MeanReplicas, Error: *newest.MeanReplicas/did.PlannedReplicas - 1}
}

// judge fills Models, Ranking, Promote and Why from the blocks of each whose demand is known.
func (v *Verdict) judge(names []string, runs [][]score.Run, unknown []bool) {
	for i, name := range names {
		j := Judged{Name: name}
		var minutes, replicas float64
		var gain canary.Gain
		var gains []float64
		for block, r := range runs[i] {
			if unknown[block] {
				continue
			}
			mine := v.cost(r)
			j.CostUSD += mine
			j.SLOViolationMinutes += r.SLOViolationMinutes
			j.ScaleActions += r.ScaleActions
			minutes += r.SimulatedSeconds / 60
			if r.MeanReplicas != nil {
				replicas += *r.MeanReplicas
			}
			if theirs := v.cost(runs[0][block]); i > 0 && math.Max(mine, theirs) > 0 {
				by := (theirs - mine) / math.Max(mine, theirs)
				gain, gains = gain.Add(by), append(gains, by)
			}
		}
		j.MeanReplicas, j.SLOViolationRatio = replicas/float64(v.known()), float64(j.SLOViolationMinutes)/minutes
		j.Keeps = j.SLOViolationRatio <= 1-v.Objective || i > 0 && j.SLOViolationMinutes <= v.Models[0].SLOViolationMinutes
		if i > 0 {
			// One of several is promoted by mistake as rarely as a single one.
			j.Gain, j.Wealth, j.Needed = new(score.IntervalOf(gains)), new(gain.Wealth()), float64(len(names)-1)/v.Delta
			j.Promoted = j.Keeps && *j.Wealth >= j.Needed && j.CostUSD < v.Models[0].CostUSD
		}
		v.Models = append(v.Models, j)
	}
	ranked := slices.Clone(v.Models)
	slices.SortStableFunc(ranked, func(a, b Judged) int {
		if a.Keeps != b.Keeps {
			if a.Keeps {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.CostUSD, b.CostUSD)
	})
	best := -1
	for _, m := range ranked {
		v.Ranking = append(v.Ranking, m.Name)
		if i := slices.Index(names, m.Name); m.Promoted && best < 0 {
			best = i
		}
	}
	v.Promote = best >= 0
	v.Why = v.why(best)
}

// known is the number of blocks that are evidence.
func (v *Verdict) known() int { return v.Blocks - v.LeftOut }

// cost is what a block is judged by.
func (v *Verdict) cost(r score.Run) float64 {
	if v.Cost == "pods" {
		return r.PodCostUSD
	}
	return r.CostUSD
}

// why says what is promoted, or what the cheapest candidate lacks.
func (v *Verdict) why(best int) string {
	if best >= 0 {
		m := v.Models[best]
		return fmt.Sprintf("%s costs %s of %s less than %s over %d blocks, and keeps the SLO as well: evidence %s of the %.0f that a chance of %g per trial allows",
			m.Name, m.Gain.Text(Less), v.Cost, v.Incumbent, v.known(), Evidence(*m.Wealth), m.Needed, v.Delta)
	}
	cheapest := v.Models[1]
	for _, m := range v.Models[2:] {
		if m.CostUSD < cheapest.CostUSD {
			cheapest = m
		}
	}
	switch {
	case cheapest.CostUSD >= v.Models[0].CostUSD:
		return fmt.Sprintf("none costs less than %s", v.Incumbent)
	case !cheapest.Keeps:
		return fmt.Sprintf("%s, the cheapest, violates the SLO in %d minutes, %s in %d; the objective leaves %.1f",
			cheapest.Name, cheapest.SLOViolationMinutes, v.Incumbent, v.Models[0].SLOViolationMinutes, (1-v.Objective)*float64(v.known())*v.BlockSeconds/60)
	}
	return fmt.Sprintf("%s, the cheapest, costs %s less, which is not proven: evidence %s of %.0f after %d blocks; more records may", cheapest.Name,
		cheapest.Gain.Text(Less), Evidence(*cheapest.Wealth), cheapest.Needed, v.known())
}

// Less is how a gain is written.
var Less = score.Metric{Format: "%.1f %%", Scale: 100}

// Evidence is a wealth for people.
func Evidence(x float64) string {
	if x >= 1000 || x < 0.01 {
		return fmt.Sprintf("%.0e", x)
	}
	return fmt.Sprintf("%.2g", x)
}
