package bandit

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

var policies = []string{"COST_SAVING", "BALANCED", "PERFORMANCE"}

// world has a mean reward for each policy in each of two parts of the day.
var world = map[string][2]float64{"COST_SAVING": {0.8, 0.2}, "BALANCED": {0.6, 0.5}, "PERFORMANCE": {0.3, 0.9}}

// play rounds with the baseline BALANCED and return the state, how often each was chosen in
// the last tenth, and the smallest ratio of what was earned to what the baseline would have, by means.
func play(t *testing.T, c Config, rounds int, seed uint64) (s State, last map[string]int, worst float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	last, worst = map[string]int{}, 1.0
	mine, theirs := 0.0, 0.0
	for i := range rounds {
		part := i % 2
		context := []float64{float64(1 - part), float64(part)}
		choice, err := Choose(c, s, context, "BALANCED")
		if err != nil {
			t.Fatal(err)
		}
		mean := world[choice.Policy][part]
		reward := min(max(mean+0.1*rng.NormFloat64(), 0), 1)
		if s, err = Learn(c, s, context, choice.Policy, "BALANCED", reward); err != nil {
			t.Fatal(err)
		}
		mine, theirs = mine+mean, theirs+world["BALANCED"][part]
		worst = min(worst, mine/theirs)
		if i >= rounds*9/10 {
			last[fmt.Sprint(part, choice.Policy)]++
		}
	}
	return s, last, worst
}

func config() Config {
	c := Default(policies, 2, 0.1)
	c.Act = true
	return c
}

// TestLearns: after enough rounds the best policy of each part of the day is chosen, and the
// loss on the way stays within what the owner allows. Without the bound it does not: the
// test would see it.
func TestLearns(t *testing.T) {
	for seed := range uint64(5) {
		_, last, worst := play(t, config(), 2000, seed)
		if last["0COST_SAVING"] < 95 || last["1PERFORMANCE"] < 95 {
			t.Errorf("seed %d: chosen at last %v", seed, last)
		}
		if worst < 0.9 {
			t.Errorf("seed %d: %.3f of the baseline's reward, 0.9 is allowed", seed, worst)
		}
		c := config()
		c.Free = true
		if _, _, free := play(t, c, 2000, seed); free >= 0.9 {
			t.Errorf("seed %d: without the bound %.3f of the baseline's reward: the test shows nothing", seed, free)
		}
	}
}

// TestRecommends: without the right to act the baseline holds in every round, and the learner
// still says what it would do where the bound allows it.
func TestRecommends(t *testing.T) {
	c := config()
	c.Act = false
	s, last, worst := play(t, c, 500, 3)
	if len(last) != 2 || last["0BALANCED"] != 25 || last["1BALANCED"] != 25 || worst != 1 {
		t.Errorf("%v, %g", last, worst)
	}
	got, err := Choose(c, s, []float64{1, 0}, "BALANCED")
	if err != nil {
		t.Fatal(err)
	}
	if got.Policy != "BALANCED" || got.Recommended == "BALANCED" || !strings.Contains(got.Why, "not allowed") {
		t.Errorf("%+v", got)
	}
}

// TestFirstRound: nothing is known, so the worst case is a loss, and the baseline is kept.
func TestFirstRound(t *testing.T) {
	got, err := Choose(config(), State{}, []float64{1, 0}, "COST_SAVING")
	if err != nil || got.Policy != "COST_SAVING" || len(got.Options) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestEstimates against ridge regression by hand: with indicators, the estimate is the sum of
// rewards divided by rounds + λ, and the width β ÷ √(rounds + λ).
func TestEstimates(t *testing.T) {
	c, s := config(), State{}
	c.Ridge = 1
	var err error
	for range 9 {
		if s, err = Learn(c, s, []float64{0, 1}, "BALANCED", "BALANCED", 0.5); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Choose(c, s, []float64{0, 1}, "BALANCED")
	if err != nil {
		t.Fatal(err)
	}
	// Alone: β = 0.1·√(2 ln(2·3·2/0.05) + ln 10) + 1, which is less than that of all together:
	// 0.1·√(2 ln 40 + ln 10) + √6.
	beta := 0.1*math.Sqrt(2*math.Log(240)+math.Log(10)) + 1
	o := got.Options[1]
	if math.Abs(o.Expected-0.45) > 1e-12 || math.Abs(o.Upper-0.45-beta/math.Sqrt(10)) > 1e-12 || o.Rounds != 9 {
		t.Errorf("%+v, want 0.45 ± %g", o, beta/math.Sqrt(10))
	}
	// One context between the coordinates, and only the ellipsoid is known to hold. BALANCED's
	// matrix is then [2 1; 1 11] with the determinant 21, its inverse has 2/21 there.
	if s, err = Learn(c, s, []float64{1, 1}, "BALANCED", "BALANCED", 0.5); err != nil {
		t.Fatal(err)
	}
	if got, err = Choose(c, s, []float64{0, 1}, "BALANCED"); err != nil {
		t.Fatal(err)
	}
	beta = 0.1*math.Sqrt(2*math.Log(40)+math.Log(21)) + math.Sqrt(6)
	if o = got.Options[1]; math.Abs(o.Upper-o.Expected-beta*math.Sqrt(2.0/21)) > 1e-9 {
		t.Errorf("%+v, want ± %g", o, beta*math.Sqrt(2.0/21))
	}
}

// TestStateGoesToJSONAndBack: a learner that starts again goes on as the one before.
func TestStateGoesToJSONAndBack(t *testing.T) {
	s, _, _ := play(t, config(), 300, 9)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again State
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	a, err := Choose(config(), s, []float64{1, 0}, "BALANCED")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Choose(config(), again, []float64{1, 0}, "BALANCED"); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%+v, then %+v, %v", a, b, err)
	}
}

// TestLeavesInputsAlone: a state that was learned from is the same afterwards.
func TestLeavesInputsAlone(t *testing.T) {
	s, _, _ := play(t, config(), 50, 2)
	before, _ := json.Marshal(s)
	if _, err := Learn(config(), s, []float64{1, 0}, "PERFORMANCE", "BALANCED", 0.3); err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(s); string(after) != string(before) {
		t.Errorf("%s, then %s", before, after)
	}
}

func TestRefuses(t *testing.T) {
	learn := func(c Config, s State, x []float64, policy string, reward float64) error {
		got, err := Learn(c, s, x, policy, "BALANCED", reward)
		if err != nil && !reflect.DeepEqual(got, s) {
			t.Errorf("%v, and something was learned", err)
		}
		return err
	}
	with := func(change func(c *Config)) Config { c := config(); change(&c); return c }
	ok := []float64{1, 0}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a reward above 1":        {learn(config(), State{}, ok, "BALANCED", 1.01), "reward"},
		"a reward of NaN":         {learn(config(), State{}, ok, "BALANCED", math.NaN()), "reward"},
		"a policy of nobody":      {learn(config(), State{}, ok, "FAST", 0.5), `"FAST"`},
		"half a context":          {learn(config(), State{}, ok[:1], "BALANCED", 0.5), "context: 1"},
		"a context of NaN":        {learn(config(), State{}, []float64{1, math.NaN()}, "BALANCED", 0.5), "context[1]"},
		"a state of another size": {learn(config(), State{Arms: map[string]Arm{"BALANCED": {Gram: []float64{1}, Sum: []float64{1}}}}, ok, "BALANCED", 0.5), "arms.BALANCED"},
		"a sum of another size":   {learn(config(), State{Kept: map[string][]float64{"BALANCED": {1}}}, ok, "BALANCED", 0.5), "BALANCED has a sum"},
		"no policies":             {learn(with(func(c *Config) { c.Policies = nil }), State{}, ok, "BALANCED", 0.5), "policies"},
		"a policy twice":          {learn(with(func(c *Config) { c.Policies = []string{"a", "a"} }), State{}, ok, "a", 0.5), "policies[1]"},
		"alpha":                   {learn(with(func(c *Config) { c.Alpha = 1 }), State{}, ok, "BALANCED", 0.5), "alpha"},
		"delta":                   {learn(with(func(c *Config) { c.Delta = 0 }), State{}, ok, "BALANCED", 0.5), "delta"},
		"noise":                   {learn(with(func(c *Config) { c.Noise = math.NaN() }), State{}, ok, "BALANCED", 0.5), "noise"},
		"size":                    {learn(with(func(c *Config) { c.Size = 0 }), State{}, ok, "BALANCED", 0.5), "size"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if got, err := Choose(config(), State{}, ok, "FAST"); err == nil || got.Policy != "FAST" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFirstTrial: how many rounds of a baseline that earns 0.6 pay for the first trial of
// another policy, as docs/how-to/strategies.md says.
func TestFirstTrial(t *testing.T) {
	for _, c := range []struct {
		parts        int
		noise, alpha float64
		want         int
	}{
		{1, 0.05, 0.05, 109}, {1, 0.2, 0.05, 279}, {1, 0.5, 0.05, 646}, {1, 0.05, 0.1, 55}, {1, 0.2, 0.1, 145}, {1, 0.5, 0.1, 344}, {1, 0.05, 0.2, 28}, {1, 0.2, 0.2, 77}, {1, 0.5, 0.2, 188},
		{4, 0.05, 0.05, 124}, {4, 0.2, 0.05, 332}, {4, 0.5, 0.05, 800}, {4, 0.05, 0.1, 64}, {4, 0.2, 0.1, 176}, {4, 0.5, 0.1, 440}, {4, 0.05, 0.2, 36}, {4, 0.2, 0.2, 96}, {4, 0.5, 0.2, 252},
		{8, 0.05, 0.05, 136}, {8, 0.2, 0.05, 368}, {8, 0.5, 0.05, 912}, {8, 0.05, 0.1, 72}, {8, 0.2, 0.1, 200}, {8, 0.5, 0.1, 512}, {8, 0.05, 0.2, 40}, {8, 0.2, 0.2, 112}, {8, 0.5, 0.2, 304},
	} {
		config := Default([]string{"A", "B"}, c.parts, c.noise)
		config.Alpha, config.Act = c.alpha, true
		var s State
		for n := 0; ; n++ {
			x := make([]float64, c.parts)
			x[n%c.parts] = 1
			// Whole days are counted, of one round for each part.
			if n%c.parts == 0 {
				choice, err := Choose(config, s, x, "A")
				if err != nil {
					t.Fatal(err)
				}
				if choice.Policy == "B" || n > 2*c.want {
					if n != c.want {
						t.Errorf("%d parts, noise %g, alpha %g: after %d rounds, want %d", c.parts, c.noise, c.alpha, n, c.want)
					}
					break
				}
			}
			var err error
			if s, err = Learn(config, s, x, "A", "A", 0.6); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d parts, noise %g, alpha %g: after %d rounds", c.parts, c.noise, c.alpha, c.want)
	}
}

// TestCount: a round without a reward teaches nothing, takes from the budget, and costs as
// much as its part; one that kept the baseline changes nothing.
func TestCount(t *testing.T) {
	c := Default([]string{"A", "B"}, 1, 0.05)
	var s State
	for range 200 {
		var err error
		if s, err = Learn(c, s, []float64{1}, "A", "A", 0.6); err != nil {
			t.Fatal(err)
		}
	}
	budget := func(s State) float64 {
		choice, err := Choose(c, s, []float64{1}, "A")
		if err != nil {
			t.Fatal(err)
		}
		return choice.Budget
	}
	whole, err := Count(c, s, []float64{1}, "B", "A")
	if err != nil {
		t.Fatal(err)
	}
	half, err := Count(c, s, []float64{0.5}, "B", "A")
	if err != nil {
		t.Fatal(err)
	}
	if before := budget(s); !(budget(whole) < budget(half) && budget(half) < before) || whole.Arms["B"].Rounds != 0 || whole.Left["B"][0] != 1 || s.Left["B"] != nil {
		t.Errorf("budget %g, after half a round %g, after one %g", before, budget(half), budget(whole))
	}
	if kept, err := Count(c, s, []float64{1}, "A", "A"); err != nil || kept.Kept["A"][0] != 200 {
		t.Errorf("%+v %v", kept, err)
	}
	for _, wrong := range []string{"C", ""} {
		if _, err := Count(c, s, []float64{1}, wrong, "A"); err == nil {
			t.Errorf("%q was counted", wrong)
		}
	}
	if _, err := Count(c, s, []float64{1, 1}, "B", "A"); err == nil {
		t.Error("a context of another size was counted")
	}
}

// TestExcept: a policy that must not be named is not, and is known all the same.
func TestExcept(t *testing.T) {
	c := Default([]string{"A", "B", "C"}, 1, 0.05)
	c.Act, c.Except, c.Free = true, []string{"B"}, true
	choice, err := Choose(c, State{}, []float64{1}, "A")
	if err != nil || choice.Policy == "B" || len(choice.Options) != 3 {
		t.Errorf("%+v %v", choice, err)
	}
}
