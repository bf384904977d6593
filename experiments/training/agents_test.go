package training

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
)

// TestEightNames: what sets each of MARLISE's algorithms apart. How they learn is tested
// in planning/rl (TestTargets, TestDuelingAdvantages, TestClippedSlope, TestActorGradient).
func TestEightNames(t *testing.T) {
	v := &vertical.View{Limit: 200, Budget: 1000}
	for name, c := range map[string]struct {
		learner string
		// limit that an agent of 200 m in a budget of 1,000 m asks for: by the last
		// choice, or by 0.5.
		limit   float64
		outputs int
		dueling bool
	}{
		"ppo":    {"*rl.PPO", 225, 1, false},  // a change, up to 50 m
		"ippo":   {"*rl.PPO", 500, 1, false},  // a share of the budget, at once
		"dppo":   {"*rl.PPO", 225, 3, false},  // one of three moves
		"ddpg":   {"*rl.DDPG", 225, 1, false}, // a change
		"iddpg":  {"*rl.DDPG", 500, 1, false}, // a share
		"mdqn":   {"*rl.DQN", 225, 3, false},
		"dmdqn":  {"*rl.DQN", 225, 3, false},
		"ddmdqn": {"*rl.DQN", 225, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			of, err := vertical.AlgorithmByName(name)
			if err != nil {
				t.Fatal(err)
			}
			task, err := gym.For(gym.MarliseName, name)
			if err != nil {
				t.Fatal(err)
			}
			with, err := algorithmFor(name, task)
			if err != nil {
				t.Fatal(err)
			}
			learner, err := with.new(task, 2048, 1)
			if err != nil {
				t.Fatal(err)
			}
			p := learner.Policy()
			dueling := slices.ContainsFunc(p.Network.Architecture.Layers, func(l rl.Layer) bool { return l.Kind == rl.Dueling })
			if got := fmt.Sprintf("%T", learner); got != c.learner || p.Network.Outputs() != c.outputs || dueling != c.dueling {
				t.Errorf("%s with %d outputs, dueling %v", got, p.Network.Outputs(), dueling)
			}
			if got := of.Action.Limit(v, rl.Action{Discrete: 2, Continuous: []float32{0.5}}); got != c.limit {
				t.Errorf("asks for %g, want %g", got, c.limit)
			}
			if _, err := vertical.NewLearned(name, of.Action, p); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDoubleDiffers: mdqn and dmdqn differ in their targets only, and learn another
// network from the same seed.
func TestDoubleDiffers(t *testing.T) {
	learn := func(name string) []byte {
		task, err := gym.For(gym.MarliseName, name)
		if err != nil {
			t.Fatal(err)
		}
		with, err := algorithmFor(name, task)
		if err != nil {
			t.Fatal(err)
		}
		learner, err := with.new(task, 2000, 4)
		if err != nil {
			t.Fatal(err)
		}
		learner.Learn(2000)
		data, err := rl.Encode(rl.Model{Policy: learner.Policy()})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if bytes.Equal(learn("mdqn"), learn("dmdqn")) {
		t.Error("the same network")
	}
}

// TestEvaluateAgents: a model among the rules. What it says of promotion has its test and
// its figures.
// TestShippedModel: the file is the one that its card is of, and in worlds that it was not
// trained in it answers sooner than the rule that it corrects.
func TestShippedModel(t *testing.T) {
	data, text := vertical.ShippedModel()
	var card Card
	if err := json.Unmarshal(text, &card); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); card.Hash != hex.EncodeToString(sum[:]) || card.Seed == 0 || len(card.Limits) == 0 {
		t.Errorf("its card is of another model: %+v", card)
	}
	e, err := Evaluate(t.Context(), []string{"rule:threshold", "rule:proportional", "builtin:agents"}, "marlise", 400, 31, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(e.Why)
	if e.Promote == nil || !*e.Promote {
		t.Errorf("it is not better than the rule: %s", e.Why)
	}
	threshold, shipped := e.Models[0].Service, e.Models[2].Service
	if shipped.MeanSeconds > 0.6*threshold.MeanSeconds {
		t.Errorf("it answers in %.3f s, the threshold rule in %.3f s", shipped.MeanSeconds, threshold.MeanSeconds)
	}
	if low, high := shipped.ByPriority[0], shipped.ByPriority[2]; high.MeanSeconds >= low.MeanSeconds {
		t.Errorf("by priority %+v", shipped.ByPriority)
	}
	if _, err := Evaluate(t.Context(), []string{"builtin:other"}, "marlise", 2, 31, io.Discard); err == nil || !strings.Contains(err.Error(), "want builtin:agents") {
		t.Errorf("%v", err)
	}
}

func TestEvaluateAgents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	if _, err := Run(t.Context(), Options{Environment: "marlise", Algorithm: "ddpg", Steps: 300, Seed: 1, Out: dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	evaluate := func(count int, names ...string) (Evaluation, error) {
		return Evaluate(t.Context(), names, "marlise", count, 5, io.Discard)
	}
	e, err := evaluate(20, "rule:threshold", "rule:fixed", dir, filepath.Join(dir, ONNXFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Ranking) != 4 || e.Promote == nil || !strings.Contains(e.Why, "paired t-test at 97.5 %") {
		t.Errorf("%+v", e)
	}
	for _, m := range e.Models {
		s := m.Service
		if s == nil || s.MeanSeconds <= 0 || s.P95Seconds < s.MeanSeconds || s.Allocated <= 0 || s.Allocated > 1.01 || m.Interval == nil {
			t.Errorf("%+v, %+v", m, s)
		}
	}
	if a, b := e.Models[2], e.Models[3]; *a.Service != *b.Service {
		t.Errorf("the same policy as a model and as ONNX: %+v and %+v", a.Service, b.Service)
	}
	if e.Models[1].Service.Churn > 30 {
		t.Errorf("fixed limits move by %g m a minute", e.Models[1].Service.Churn)
	}
	for name, c := range map[string]struct {
		count int
		names []string
		want  string
	}{
		"no rule":     {5, []string{dir}, "add --model rule:spread"},
		"only rules":  {5, []string{"rule:threshold", "rule:fixed"}, "only rules"},
		"one episode": {1, []string{"rule:threshold", dir}, "one episode"},
	} {
		if e, err := evaluate(c.count, c.names...); err != nil || e.Promote != nil || !strings.Contains(e.Why, c.want) {
			t.Errorf("%s: %v, %+v", name, err, e)
		}
	}
	for _, names := range [][]string{{"rule:best"}, {dir, dir}, {"nowhere"}} {
		if _, err := evaluate(5, names...); err == nil {
			t.Errorf("%v were accepted", names)
		}
	}
}

// TestPromotion is by the test it names: the same model is promoted for a gain that is
// there each time, and not for one as large that comes and goes.
func TestPromotion(t *testing.T) {
	names := []string{"rule:threshold", "model"}
	steady := [][]float64{{0.3, 0.4, 0.5, 0.4, 0.3, 0.4}, {0.2, 0.29, 0.41, 0.3, 0.2, 0.3}}
	if promote, why := promotion(names, steady, 0); promote == nil || !*promote {
		t.Error(why)
	}
	wild := [][]float64{{0.3, 0.4, 0.5, 0.4, 0.3, 0.4}, {0.01, 0.9, 0.01, 0.7, 0.01, 0.07}}
	if promote, why := promotion(names, wild, 0); promote == nil || *promote {
		t.Error(why)
	}
}

// TestEvaluateReplicas: in the world of replicas the operator's planner and the floor are
// compared with a model in the same episodes, and what serves with fewer replicas is told.
func TestEvaluateReplicas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	enough := -1e9
	if _, err := Run(t.Context(), Options{Environment: "replicas", Algorithm: "dqn", Steps: 40, Seed: 1, StopAt: &enough, Out: dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	m, _, err := Load(dir)
	if err != nil || len(m.Inputs) != 3 || learned.Check(m) != nil {
		t.Fatalf("a model that the operator can't use: %+v, %v", m.Inputs, err)
	}
	e, err := Evaluate(t.Context(), []string{"rule:floor", "rule:plan", dir}, "replicas", 4, 5, io.Discard)
	if err != nil || len(e.Models) != 3 || len(e.Ranking) != 3 {
		t.Fatalf("%+v, %v", e, err)
	}
	for _, m := range e.Models {
		if r := m.Replicas; r == nil || r.Ready < 1 || r.Ready > 20 || r.Violating < 0 || r.Violating > 1 || m.Return >= 0 {
			t.Errorf("%+v %+v", m, m.Replicas)
		}
	}
	if _, err := Evaluate(t.Context(), []string{"rule:other"}, "replicas", 1, 5, io.Discard); err == nil || !strings.Contains(err.Error(), "rule:plan") {
		t.Errorf("%v", err)
	}
}

// TestTwentySeeds: by how much requests are answered sooner than by MARLISE's rule, with the 95 %
// interval over seeds.
func TestTwentySeeds(t *testing.T) {
	names := []string{"rule:threshold", "rule:threshold:60:30:100", "rule:spread", "builtin:agents"}
	less := make([][]float64, len(names))
	for seed := range uint64(20) {
		e, err := Evaluate(t.Context(), names, "marlise", 100, 101+seed, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range e.Models {
			less[i] = append(less[i], 1-m.Service.MeanSeconds/e.Models[0].Service.MeanSeconds)
		}
	}
	for i, name := range names[1:] {
		mean, deviation := stat.MeanStdDev(less[i+1], nil)
		half := distuv.StudentsT{Sigma: 1, Nu: 19}.Quantile(0.975) * deviation / math.Sqrt(20)
		t.Logf("%s: %.0f %% (%.0f to %.0f) less than rule:threshold", name, 100*mean, 100*(mean-half), 100*(mean+half))
		if name != names[1] && mean-half < 0.4 { // the aim is 40 % less
			t.Errorf("%s: %.0f to %.0f %% less", name, 100*(mean-half), 100*(mean+half))
		}
	}
}
