package whatif

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/simulation"
)

// TestJudge: who is promoted, and why nobody is.
func TestJudge(t *testing.T) {
	// Days of a scaler that cost so much, with minutes in violation on the first.
	of := func(usd float64, minutes int, days int) (out []score.Run) {
		for day := range days {
			r := score.Run{CostUSD: usd * (1 + 0.2*math.Sin(float64(day))), PodCostUSD: 1, SimulatedSeconds: 86400}
			if day == 0 {
				r.SLOViolationMinutes = minutes
			}
			out = append(out, r)
		}
		return out
	}
	within := 14 * 1440 / 1000 // that 99.9 % leave of two weeks
	for name, c := range map[string]struct {
		runs    [][]score.Run
		pods    bool
		unknown int    // the first so many blocks
		promote string // the first of the ranking; empty for nobody
		says    string
	}{
		"cheaper":                       {runs: [][]score.Run{of(10, 0, 14), of(9.5, 0, 14)}, promote: "b", says: "b costs 5.0 % ± 0.0 % of nodes less than a over 14 blocks"},
		"too few days":                  {runs: [][]score.Run{of(10, 0, 4), of(9.5, 0, 4)}, says: "not proven: evidence"},
		"alike":                         {runs: [][]score.Run{of(10, 0, 14), of(10, 0, 14)}, says: "none costs less than a"},
		"dearer":                        {runs: [][]score.Run{of(10, 0, 14), of(11, 0, 14)}, says: "none costs less than a"},
		"cheaper, and violates":         {runs: [][]score.Run{of(10, 0, 14), of(5, within+1, 14)}, says: "violates the SLO in 21 minutes, a in 0; the objective leaves 20.2"},
		"within the objective":          {runs: [][]score.Run{of(10, 0, 14), of(9, within, 14)}, promote: "b", says: "b costs"},
		"no worse than what is":         {runs: [][]score.Run{of(10, 90, 14), of(9, 90, 14)}, promote: "b", says: "b costs"},
		"the cheapest of several":       {runs: [][]score.Run{of(10, 0, 14), of(9.5, 0, 14), of(9, 0, 14), of(8, 300, 14)}, promote: "c", says: "c costs 10.0 %"},
		"of several not as easily":      {runs: append([][]score.Run{of(10, 0, 7), of(9.5, 0, 7)}, slices.Repeat([][]score.Run{of(12, 0, 7)}, 9)...), says: "of 200 after"},
		"cheaper in what is known":      {runs: [][]score.Run{append(of(5, 90, 6), of(10, 0, 14)...), append(of(10, 0, 6), of(9.5, 0, 14)...)}, unknown: 6, promote: "b", says: "b costs 5.0 % ± 0.0 % of nodes less than a over 14 blocks"},
		"cheaper in what is not":        {runs: [][]score.Run{append(of(10, 0, 14), of(10, 0, 4)...), append(of(5, 0, 14), of(10, 0, 4)...)}, unknown: 14, says: "none costs less than a"},
		"a day whose cost is not known": {runs: [][]score.Run{of(10, 0, 14), append(of(9, 0, 13), of(math.NaN(), 0, 1)...)}, says: "not proven"},
		"a day that costs no end":       {runs: [][]score.Run{of(10, 0, 14), append(of(9, 0, 13), of(math.Inf(1), 0, 1)...)}, says: "none costs less"},
		"pods":                          {runs: [][]score.Run{of(10, 0, 14), of(9, 0, 14)}, pods: true, says: "none costs less"},
	} {
		t.Run(name, func(t *testing.T) {
			names := strings.Split("abcdefghijk", "")[:len(c.runs)]
			v := Verdict{Objective: 0.999, Incumbent: "a", Delta: 0.05, Cost: "nodes", Blocks: len(c.runs[0]), BlockSeconds: 86400}
			if c.pods {
				v.Cost = "pods"
			}
			unknown := make([]bool, v.Blocks)
			for i := range c.unknown {
				unknown[i] = true
			}
			v.LeftOut = c.unknown
			v.judge(names, c.runs, unknown)
			if v.Promote != (c.promote != "") || c.promote != "" && v.Ranking[0] != c.promote || !strings.Contains(v.Why, c.says) {
				t.Errorf("promote %v, %v: %s", v.Promote, v.Ranking, v.Why)
			}
			if v.Models[0].Gain != nil || v.Models[0].Promoted || len(v.Ranking) != len(names) {
				t.Errorf("the incumbent: %+v", v.Models[0])
			}
		})
	}
}

// TestPromotionOfNulls: in the simulator, of 1,000 candidates that nothing tells from the
// incumbent no more than δ are promoted by what they cost, and of 1,000 that are 5 % cheaper at least 900. A
// candidate's block, of two hours or so, is that of the HPA with one random seed, the incumbent's with another.
func TestPromotionOfNulls(t *testing.T) {
	const candidates, blocks, passes, seeds, delta = 1000, 14, 10, 12, 0.05
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	var bank [][]score.Run
	for seed := range uint64(seeds) {
		w := simulation.World{Scenario: s, Passes: blocks * passes}
		o, err := w.Run(t.Context(), "hpa:80", sim.Fluid, seed+1, false)
		if err != nil {
			t.Fatal(err)
		}
		var runs []score.Run
		for pass := range blocks * passes {
			r, err := o.RunOfPass(s.Warmup.Passes + pass)
			if err != nil {
				t.Fatal(err)
			}
			if pass%passes == 0 {
				runs = append(runs, score.Run{})
			}
			runs[len(runs)-1].CostUSD += r.CostUSD
			runs[len(runs)-1].SimulatedSeconds += r.SimulatedSeconds
		}
		bank = append(bank, runs)
	}
	promoted := map[float64]int{}
	var spread []float64
	for _, factor := range []float64{1, 0.95} {
		for i := range uint64(candidates) {
			src := rand.New(rand.NewPCG(i, 25))
			var both [2][]score.Run
			for block := range blocks {
				pair := src.Perm(seeds)
				for j := range both {
					r := bank[pair[j]][block]
					if j == 1 {
						r.CostUSD *= factor
					}
					both[j] = append(both[j], r)
				}
				spread = append(spread, both[1][block].CostUSD/both[0][block].CostUSD/factor-1)
			}
			v := Verdict{Objective: 0.999, Incumbent: "a", Delta: delta, Cost: "nodes", Blocks: blocks}
			if v.judge([]string{"a", "b"}, both[:], make([]bool, blocks)); v.Promote {
				promoted[factor]++
			}
		}
	}
	deviation := 0.0
	for _, x := range spread {
		deviation += x * x / float64(len(spread))
	}
	t.Logf("blocks differ by %.1f %%: of %d candidates that are no better %d promoted, of those 5 %% cheaper %d", 100*math.Sqrt(deviation), candidates, promoted[1], promoted[0.95])
	if limit := delta*candidates + 3*math.Sqrt(delta*candidates); float64(promoted[1]) > limit || promoted[0.95] < 900 {
		t.Errorf("at most %.0f of those that are no better may be promoted, at least 900 of those 5 %% cheaper", limit)
	}
}

// TestObjectiveOf: a policy of the user's own is judged by its own objective.
func TestObjectiveOf(t *testing.T) {
	const own = "policies:\n  OURS: {nodePools: [a], objective: 0.99}\n  BARE: {nodePools: [a], objective: 0}\n"
	for name, c := range map[string]struct {
		policy, text string
		want         float64
	}{
		"its own":  {"OURS", own, 0.99},
		"none":     {"BARE", own, score.ObjectiveOf("COST_SAVING")},
		"built in": {"PERFORMANCE", "", score.ObjectiveOf("PERFORMANCE")},
	} {
		if got, err := objectiveOf(c.policy, c.text); err != nil || got != c.want {
			t.Errorf("%s: %g, %v, want %g", name, got, err, c.want)
		}
	}
}

// TestTrial: on records of a simulation everybody is replayed in the same blocks, as mash2
// whatif replays the newest of them, and what can't be told is refused.
func TestTrial(t *testing.T) {
	dir := recordsOf(t, 1, 4)
	trial := func(change func(*Trial)) Trial {
		o := Trial{
			History: History{Records: dir, Workload: "mash2/web", To: "0s", Scale: 1, LoadFactor: 1, Delimiter: ","},
			World: World{
				RequestCPU: 3 * time.Millisecond, Timeout: 5 * time.Second, SLOP95: 200 * time.Millisecond, SLOFailed: 0.01, CPURequest: "100m",
				MemoryRequest: "64Mi", MinReplicas: 1, PoolNames: []string{"e2-standard-2"}, Boot: 75 * time.Second,
			},
			Policy: "COST_SAVING", Incumbent: "rule:mash2", Candidates: []string{"rule:hpa:70", "rule:hpa:80", "rule:static"},
			Block: 10 * time.Minute, Delta: 0.05, Seed: 1, Given: func(string) bool { return false },
		}
		change(&o)
		return o
	}
	o := trial(func(*Trial) {})
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	v, err := o.Run(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if v.Blocks < 2 || len(v.Models) != 4 || len(v.Ranking) != 4 || v.Models[1].Needed != 60 || v.Cost != "nodes" || len(v.Assumptions) == 0 || v.KnownError.Command == "" {
		t.Errorf("%+v", v)
	}
	for _, m := range v.Models {
		if !(m.CostUSD > 0) || !(m.MeanReplicas > 0) || m.Keeps != (m.SLOViolationRatio <= 1-v.Objective || m.SLOViolationMinutes <= v.Models[0].SLOViolationMinutes) {
			t.Errorf("%+v", m)
		}
	}
	if r := v.LeftOut; r != 0 {
		t.Errorf("%d blocks are left out of records in which pods had what they asked for", r)
	}
	if v.Policy != "PERFORMANCE" || v.Objective != score.ObjectiveOf("PERFORMANCE") {
		t.Errorf("under %s, the records end under PERFORMANCE", v.Policy)
	}
	// A model has the pools of who it is to replace: one that says nothing, as there are no margins
	// yet, does what mash2 does.
	same := trial(func(o *Trial) { o.Candidates = []string{"builtin:margins"} })
	same.PoolNames = []string{"e2-standard-2", "n2-standard-2"}
	same.Given = func(flag string) bool { return flag == "pool" }
	if v, err := same.Run(t.Context(), io.Discard); err != nil || v.Models[0].CostUSD != v.Models[1].CostUSD || v.Models[0].ScaleActions != v.Models[1].ScaleActions {
		t.Errorf("%+v (%v)", v.Models, err)
	}
	asked := trial(func(o *Trial) { o.Given = func(flag string) bool { return flag == "policy" } })
	if err := asked.Validate(); err != nil {
		t.Fatal(err)
	}
	if v, err := asked.Run(t.Context(), io.Discard); err != nil || v.Policy != "COST_SAVING" {
		t.Errorf("under %s, COST_SAVING was asked for (%v)", v.Policy, err)
	}
	again, err := o.Run(t.Context(), io.Discard)
	if err != nil || again.Why != v.Why || again.Models[1].CostUSD != v.Models[1].CostUSD {
		t.Errorf("another time: %s (%v)", again.Why, err)
	}
	// The whole stretch as whatif replays it: the same blocks one after the other.
	w := Options{History: o.history(), World: o.World, Policies: []string{"COST_SAVING"}, Rivals: []string{"hpa:70"}, Seed: 1, Seeds: 1, Given: o.Given}
	w.Warm = 1
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	newest, err := w.Run(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if newest.History.To != v.History.To || newest.History.From != v.History.From || newest.History.Samples != v.History.Samples {
		t.Errorf("the newest block is %+v, of whatif %+v", v.History, newest.History)
	}

	for name, c := range map[string]struct {
		change func(*Trial)
		says   string
	}{
		"no candidate":       {func(o *Trial) { o.Candidates = nil }, "--model must name"},
		"twice":              {func(o *Trial) { o.Candidates = []string{"rule:hpa", "rule:hpa"} }, "twice"},
		"the incumbent":      {func(o *Trial) { o.Candidates = []string{"rule:mash2"} }, "is the incumbent"},
		"no scaler":          {func(o *Trial) { o.Candidates = []string{"rule:best"} }, "best"},
		"no rule":            {func(o *Trial) { o.Incumbent = "model" }, "--incumbent must be a rule"},
		"a rule of models":   {func(o *Trial) { o.Candidates = []string{"rule:mash2-rl"} }, "name the model itself"},
		"no model":           {func(o *Trial) { o.Candidates = []string{dir + "/none"} }, "--model"},
		"certain":            {func(o *Trial) { o.Delta = 0 }, "--delta"},
		"too short a block":  {func(o *Trial) { o.Block = time.Minute }, "--block"},
		"too few records":    {func(o *Trial) { o.Block = 2 * time.Hour }, "--block takes shorter ones"},
		"no such workload":   {func(o *Trial) { o.Workload = "mash2/nobody" }, "tell nothing of its demand"},
		"no workload at all": {func(o *Trial) { o.Workload = "" }, "--workload must name"},
	} {
		t.Run(name, func(t *testing.T) {
			o := trial(c.change)
			err := o.Validate()
			if err == nil {
				if _, err = o.Run(t.Context(), io.Discard); !errors.Is(err, simulation.ErrInput) {
					t.Errorf("%v is no error of what was asked for", err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want it to say %q", err, c.says)
			}
		})
	}
}

// TestFullPods: where pods used all that they may, what they would have used is not known.
// Such blocks are no evidence, and without others nothing is judged.
func TestFullPods(t *testing.T) {
	few := func(s *scenarios.Scenario) { s.Workload.Replicas.Max = 2 }
	o := Trial{
		History: History{Records: recordsOf(t, 1, 4, few), Workload: "mash2/web", To: "0s", Scale: 1, LoadFactor: 1, Delimiter: ","},
		World: World{
			RequestCPU: 3 * time.Millisecond, Timeout: 5 * time.Second, SLOP95: 200 * time.Millisecond, SLOFailed: 0.01, CPURequest: "100m",
			MemoryRequest: "64Mi", MinReplicas: 1, PoolNames: []string{"e2-standard-2"}, Boot: 75 * time.Second,
		},
		Policy: "COST_SAVING", Incumbent: "rule:mash2", Candidates: []string{"rule:hpa:70"},
		Block: 10 * time.Minute, Delta: 0.05, Seed: 1, Given: func(string) bool { return false },
	}
	if _, err := o.Run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "blocks pods used about all that they may") {
		t.Errorf("%v", err)
	}
}

// TestMissingBlocks: what was filled in because there are no records of it is no evidence.
func TestMissingBlocks(t *testing.T) {
	const per, passes = 20, 6
	values := slices.Repeat([]float64{1, 2}, per*passes/2)
	missing := func(pass, n int) {
		for i := range n {
			values[pass*per+per/2+i-n/2] = math.NaN()
		}
	}
	missing(1, 2) // a tenth
	missing(2, 3)
	missing(4, per)
	missing(5, 6)
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	h := cpuHistory{series: api.Series{Start: start, Step: time.Minute, Values: values}}
	o := History{Warm: passes - 1, Scale: 1, LoadFactor: 1}
	if err := o.cut(&h, start.Add((passes-1)*per*time.Minute), start.Add(passes*per*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, want := h.unknown(passes-1), []bool{false, true, false, true, true}; !slices.Equal(got, want) {
		t.Errorf("not known: %v, want %v", got, want)
	}
}

// TestMostUsed: the limits of Ready pods on machines of their speed, where there are any.
func TestMostUsed(t *testing.T) {
	for name, c := range map[string]struct {
		w    api.Workload
		want float64
	}{
		"limited":        {api.Workload{Shape: &api.PodShape{LimitCPU: 200}, ReadyReplicas: 3, SpeedNow: 0.5}, 300},
		"no limit":       {api.Workload{Shape: &api.PodShape{}, ReadyReplicas: 3, SpeedNow: 1}, 0},
		"none is Ready":  {api.Workload{Shape: &api.PodShape{LimitCPU: 200}, SpeedNow: 1}, 0},
		"nothing is yet": {api.Workload{}, 0},
		"two of three have grown": {api.Workload{Shape: &api.PodShape{LimitCPU: 200}, ReadyReplicas: 3, SpeedNow: 0.5, Agents: &api.Agents{
			State: &api.AgentsState{Pods: []api.AgentState{{Pod: "a", Limit: 500}, {Pod: "b", Limit: 300}}},
		}}, 500},
		"one that is not Ready has grown": {api.Workload{Shape: &api.PodShape{LimitCPU: 200}, ReadyReplicas: 1, SpeedNow: 1, Agents: &api.Agents{
			State: &api.AgentsState{Pods: []api.AgentState{{Pod: "a", Limit: 500}, {Pod: "b", Limit: 300}}},
		}}, 800},
		"what agents gave is not known": {api.Workload{Shape: &api.PodShape{LimitCPU: 200}, ReadyReplicas: 3, SpeedNow: 1, Agents: &api.Agents{}}, 0},
		"others have no limit": {api.Workload{Shape: &api.PodShape{}, ReadyReplicas: 2, SpeedNow: 1, Agents: &api.Agents{
			State: &api.AgentsState{Pods: []api.AgentState{{Pod: "a", Limit: 500}}},
		}}, 0},
	} {
		if got := mostUsed(c.w); got != c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}
