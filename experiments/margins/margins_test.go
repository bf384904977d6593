package margins

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/forecast"
)

// flat is a trace with the same factors all the time.
func flat(demand []float64, first int, pod, node, most float64) trace {
	t := trace{demand: demand, first: first, podLead: 6, nodeLead: 12}
	for range len(demand)/perMinute - first {
		t.pod, t.node, t.most = append(t.pod, pod), append(t.node, node), append(t.most, most)
	}
	return t
}

func always(part float64, minutes int) []float64 { return slices.Repeat([]float64{part}, minutes) }

// TestPlay: what capacity costs and where it lacks, by hand.
func TestPlay(t *testing.T) {
	steady := slices.Repeat([]float64{1000}, 100*perMinute)
	burst := slices.Clone(steady)
	for i := 60 * perMinute; i < 64*perMinute; i++ {
		burst[i] = 1800 // for four minutes: new nodes serve after three
	}
	for name, c := range map[string]struct {
		demand          []float64
		part            float64
		s               size
		cost, violating float64 // of 1,440 samples less those until all has settled
	}{
		"as much as may come":          {steady, 1, size{1, 1}, 3000, 0},
		"half of that":                 {steady, 0.5, size{1, 1}, 2000, 0},
		"never less than a tenth":      {steady, 0.01, size{1, 1}, 1100, 0},
		"whole nodes of ten replicas":  {steady, 1, size{125, 10}, 3750, 0},
		"a burst that margins are for": {burst, 1, size{1, 1}, -1, 0},
		// Nodes for 1,500 are there, replicas for 1,250: 1,800 is too much until new nodes serve.
		"a burst that they are too small for": {burst, 0.25, size{1, 1}, -1, 12.0 / (90*4 - 40)},
	} {
		tr := flat(c.demand, 10, 2, 3, 1e9)
		var e episode
		got := e.play(&tr, c.s, 0, always(c.part, tr.minutes()), false)
		if c.cost >= 0 && math.Abs(got.Cost-c.cost) > 1e-6*c.cost {
			t.Errorf("%s: costs %v, want %v", name, got.Cost, c.cost)
		}
		if math.Abs(got.Violating-c.violating) > 1e-9 {
			t.Errorf("%s: violating %v of the time, want %v", name, got.Violating, c.violating)
		}
	}
}

// TestPlayYields: parts that are too small give way to the whole margin after a minute in which
// demand was beyond what served; those that are not stay as they are, but for no more than all.
func TestPlayYields(t *testing.T) {
	demand := slices.Repeat([]float64{1000}, 100*perMinute)
	for i := 60 * perMinute; i < 68*perMinute; i++ {
		demand[i] = 2900 // within the margin of nodes, that of replicas is 2
	}
	tr := flat(demand, 10, 2, 3, 1e9)
	var e episode
	for _, c := range []struct {
		part          float64
		before, after float64
	}{{0.25, 0.25, 0.95}, {1, 1, 1}, {1.5, 1, 1}} {
		parts := always(c.part, tr.minutes())
		e.play(&tr, size{1, 1}, 0, parts, true)
		// Replicas and nodes for 2,900 serve three minutes after it was seen.
		early, late := parts[40], parts[len(parts)-1]
		if math.Abs(early-c.before) > 1e-9 || late < c.after-1e-9 || late > 1 || c.part >= 1 && late != 1 {
			t.Errorf("a part of %g is %g before, and %g after", c.part, early, late)
		}
	}
}

// TestSlopes: the derivatives are those of what was played, by finite differences.
func TestSlopes(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		tr := flat(drawn(rng, 400), 10, 1.5+rng.Float64(), 2+2*rng.Float64(), 1e9)
		s := size{replica: 1e-6, perNode: 1} // so small that all is smooth
		parts := make([]float64, tr.minutes())
		for m := range parts {
			parts[m] = 0.5 + rng.Float64()
		}
		var e episode
		e.play(&tr, s, 0, parts, false)
		slopeCost, slopeRisk := 0.0, 0.0
		along := make([]float64, len(parts))
		for m := range along {
			along[m] = rng.NormFloat64()
			slopeCost, slopeRisk = slopeCost+e.cost[m]*along[m], slopeRisk+e.risk[m]*along[m]
		}
		const h = 1e-6
		at := func(by float64) (cost, lacks float64) {
			moved := slices.Clone(parts)
			for m := range moved {
				moved[m] += by * along[m]
			}
			cost = e.play(&tr, s, 0, moved, false).Cost
			n, settled := len(e.nodes.is), max(tr.podLead, tr.nodeLead, hold)
			for i := settled; i < n; i++ {
				serves := math.Min(e.pods.is[i-tr.podLead], e.nodes.is[i-tr.nodeLead])
				lacks += soft * math.Log1p(math.Exp(math.Log(tr.demand[tr.first*perMinute-1+i]/serves)/soft)) / float64(n-settled)
			}
			return cost, lacks
		}
		upCost, upLacks := at(h)
		downCost, downLacks := at(-h)
		for name, c := range map[string][2]float64{"cost": {slopeCost, (upCost - downCost) / 2 / h}, "lacks": {slopeRisk, (upLacks - downLacks) / 2 / h}} {
			if math.Abs(c[0]-c[1]) > 1e-3*math.Max(math.Abs(c[1]), 1e-3) {
				t.Errorf("seed %d: the slope of %s is %v, by differences %v", seed, name, c[0], c[1])
			}
		}
	}
}

// TestRuleOfThePlanner: with the margins of a history, capacity that follows it by this world's
// rules lacks in no more of it than the objective leaves: they are the rules that margins are
// taken by.
func TestRuleOfThePlanner(t *testing.T) {
	tried := 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 19))
		demand := drawn(rng, 2000)
		series := api.Series{Start: epoch, Step: step, Values: demand}
		pod, known := forecast.GrowthOf(series, forecast.GrowthRule{Lead: 6 * step, Hold: 10 * time.Minute, Tolerance: tolerance}, objective)
		if !known || len(pod.Phases) > 0 {
			continue
		}
		tried++
		tr := flat(demand, 1, pod.Factor, 1e3, 1e12) // nodes are no limit
		var e episode
		got := e.play(&tr, size{replica: 1e-3, perNode: 1}, 0, always(1, tr.minutes()), false)
		if got.Violating > (1-objective)*1.05 {
			t.Errorf("seed %d: with a factor of %.2f it lacks %.3f %% of the time", seed, pod.Factor, 100*got.Violating)
		}
	}
	if tried < 5 {
		t.Errorf("only %d loads have margins without phases", tried)
	}
}

// TestTrain: a training ends, and the same one comes to the same model.
func TestTrain(t *testing.T) {
	var models [][]byte
	for range 2 {
		dir := t.TempDir()
		out, err := Train(t.Context(), Options{Steps: 5 * batch * window, Seed: 3, Out: dir, workloads: 12}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if out.Steps != 5*batch*window || out.Workloads < 8 || !(out.Cost > 0.5 && out.Cost < 2) || len(out.Curve) != 5 {
			t.Errorf("%+v", out)
		}
		if _, _, err := training.Load(dir); err != nil {
			t.Error(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, training.ModelFile))
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, data)
	}
	if !bytes.Equal(models[0], models[1]) {
		t.Error("two trainings by one seed differ")
	}
}

// TestRefuses: what can't be done is refused by name.
func TestRefuses(t *testing.T) {
	for says, o := range map[string]Options{
		"--steps must be":          {Steps: 1, Out: t.TempDir()},
		"--out must name":          {Steps: 1e6},
		"--input: ":                {Steps: 1e6, Out: t.TempDir(), Inputs: []string{"no such file"}, workloads: 1},
		"a pass of it takes 13m0s": {Steps: 1e6, Out: t.TempDir(), Inputs: []string{"heartbeat"}, workloads: 1},
	} {
		if _, err := Train(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	for says, models := range map[string][]string{
		"must name":                  nil,
		"twice":                      {"rule:part:1", "rule:part:1"},
		"the part must be":           {"rule:part:-1"},
		"above 0 and at most 1":      {"rule:part:1.5"},
		"there is no rule:plan":      {"rule:plan"},
		"no such file or directory":  {"nowhere"},
		"there is no builtin:agents": {"builtin:agents"},
	} {
		if _, err := Evaluate(t.Context(), models, nil, 3, 1, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", models, err, says)
		}
	}
}

// TestEvaluate: a part of the margins costs less and violates more, and all of them is the
// planner.
func TestEvaluate(t *testing.T) {
	out, err := Evaluate(t.Context(), []string{"rule:part:0.5", "rule:part:1", "builtin:margins"}, nil, 16, 7, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if out.Workloads < 10 || len(out.Models) != 3 || len(out.Ranking) != 3 {
		t.Fatalf("%+v", out)
	}
	for i, n := range replicasAtPeak {
		half, all, model := out.Models[0].Sizes[i], out.Models[1].Sizes[i], out.Models[2].Sizes[i]
		if half.Replicas != n || half.Cost >= all.Cost || half.Violating < all.Violating {
			t.Errorf("at %d replicas: %+v, %+v", n, half, all)
		}
		if all.Cost != 1 || all.More != 0 {
			t.Errorf("all of the margins is %+v beside the planner", all)
		}
		if model.CostInterval == nil || !(model.CostInterval[0] < model.Cost && model.Cost < model.CostInterval[1]) || model.Worst < model.Cost {
			t.Errorf("%+v", model)
		}
	}
	if again, err := Evaluate(t.Context(), []string{"builtin:margins"}, nil, 16, 7, io.Discard); err != nil || again.Models[0].Sizes[1].Cost != out.Models[2].Sizes[1].Cost {
		t.Errorf("the same evaluation again: %+v, %+v, %v", again.Models[0].Sizes[1], out.Models[2].Sizes[1], err)
	}
}
