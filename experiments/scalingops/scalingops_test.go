package scalingops

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/planning/rl"
)

// TestFit finds the coefficients that a history was made with, and its quality.
func TestFit(t *testing.T) {
	h := drawn(2000, 3)
	f, err := FitDelay(h, 0)
	if err != nil {
		t.Fatal(err)
	}
	// CPU varies little, as replicas follow the load: its coefficient is known to 0.02.
	if math.Abs(f.PerCPU-0.5) > 0.06 || math.Abs(f.PerRequest-0.2) > 0.03 || math.Abs(f.Intercept-20) > 6 {
		t.Errorf("%+v, want 20 + 0.5 × CPU + 0.2 × requests", f)
	}
	if f.R2 < 0.8 || f.R2 > 1 || f.Adjusted > f.R2 || f.P > 1e-6 {
		t.Errorf("R² %g, adjusted %g, p %g", f.R2, f.Adjusted, f.P)
	}
	// The intercept that is left out comes back on average.
	if math.Abs(f.Bias) > 5 || f.Alpha <= 1 {
		t.Errorf("alpha %g, on average %g ms off", f.Alpha, f.Bias)
	}
	published, err := FitDelay(h, PublishedAlpha)
	if err != nil || published.Alpha != 0.4 || published.Error <= f.Error || published.Bias >= 0 {
		t.Errorf("%+v, %v; want it to be worse than what fits best", published, err)
	}
	if got, want := published.Delay(100, 50), 0.4*(published.PerCPU*100+published.PerRequest*50); math.Abs(got-want) > 1e-9 {
		t.Errorf("a delay of %g, want %g", got, want)
	}
	if got := published.Delay(-1000, 0); got != 0 {
		t.Errorf("a delay of %g", got)
	}
}

// TestFitIsRefused where there is nothing to learn from.
func TestFitIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *Row, random *rand.Rand)
		says   string
	}{
		"a delay of its own":            {func(r *Row, random *rand.Rand) { r.Delay = 100 + 30*random.NormFloat64() }, "explain"},
		"a delay that is always alike":  {func(r *Row, _ *rand.Rand) { r.Delay = 80 }, "explain"},
		"CPU that follows from request": {func(r *Row, _ *rand.Rand) { r.CPU = 4 * r.Requests }, "don't vary, or one follows from the other"},
		"CPU that never changes":        {func(r *Row, _ *rand.Rand) { r.CPU = 100 }, "don't vary"},
		"CPU that all but follows":      {func(r *Row, random *rand.Rand) { r.CPU = 4*r.Requests + 0.02*random.NormFloat64() }, "can't be told"},
		"CPU that does nothing":         {func(r *Row, random *rand.Rand) { r.Delay = 20 + 0.5*r.Requests + 5*random.NormFloat64() }, "can't be told"},
		"replicas that do harm":         {func(r *Row, _ *rand.Rand) { r.Delay = 500 - r.CPU + 0.1*r.Requests }, "more replicas would only ever do harm"},
	} {
		h, random := drawn(500, 4), rand.New(rand.NewPCG(4, 4))
		for i := range h {
			c.change(&h[i], random)
		}
		f, err := FitDelay(h, 0)
		if !errors.Is(err, ErrHistory) || !strings.Contains(err.Error(), c.says) || f.Rows != 500 {
			t.Errorf("%s: %v, %+v; want %q", name, err, f, c.says)
		}
		if _, _, err := Train(t.Context(), h, DefaultOptions(), io.Discard); !errors.Is(err, ErrHistory) {
			t.Errorf("%s: trained: %v", name, err)
		}
	}
}

// TestFitOfRowsThatAreAlike: what wanders by itself hardly ever counts as explained, however many
// rows there are of it.
func TestFitOfRowsThatAreAlike(t *testing.T) {
	fitted := 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 9))
		var h History
		var at [3]float64
		for i := range 500 {
			for k := range at {
				at[k] = 0.97*at[k] + random.NormFloat64()
			}
			h = append(h, Row{Time: epoch.Add(time.Duration(i) * 30 * time.Second), CPU: 100 + 5*at[0], Requests: 80 + 4*at[1], Delay: 100 + 5*at[2], Replicas: 3})
		}
		if f, err := FitDelay(h, 0); err == nil {
			fitted++
		} else if f.Independent > 100 {
			t.Errorf("seed %d: as good as %.0f rows", seed, f.Independent)
		}
	}
	if fitted > 5 {
		t.Errorf("%d of 100 delays that have nothing to do with CPU and requests are explained by them", fitted)
	}
}

// small is a world of figures that can be followed by hand.
func small() World {
	return World{
		Fit: Fit{PerCPU: 2, PerRequest: 0.5, Alpha: 0.4}, SLA: 250, Least: 1, Most: 10,
		Inputs: []rl.Input{{Name: InputCPU, Scale: 200}, {Name: InputRequests, Scale: 100}, {Name: InputReplicas, Scale: 10}},
		CPU:    100, Requests: 60, Replicas: 3, FullCPU: 200,
	}
}

// TestReward: eq. 1 and 2.
func TestReward(t *testing.T) {
	w := small()
	for _, c := range []struct {
		cpu, delay float64
		replicas   int
		saving     float64
		want       float64
	}{
		{100, 0, 2, 1, 0.5 + 1 - 0.6},
		{100, 125, 2, 1, 0.5 + 1/1.5 - 0.6},
		{100, 249.999, 2, 1, 0.5 + 0.5 - 0.6},
		{100, 250, 2, 1, 0.5 - 2 - 0.6},
		{900, 1000, 1, 1, 1 - 2 - 0.3},
		{100, 125, 2, 0, 1 / 1.5},
		{100, 125, 2, 0.1, 1/1.5 + 0.1*(0.5-0.6)},
	} {
		if got := w.Reward(c.cpu, c.delay, c.replicas, c.saving); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("%+v: %g", c, got)
		}
	}
}

// TestTraining: eq. 4 and 5; work is neither made nor lost, and bounds hold.
func TestTraining(t *testing.T) {
	w := small()
	e := &Training{World: w, Rows: History{{CPU: 120, Requests: 70, Delay: 1, Replicas: 3}}, Saving: 1}
	random := rand.New(rand.NewPCG(1, 1))
	for episode := range 200 {
		e.Reset(random)
		if as := e.at.replicas == 3; episode%2 == 1 && !as {
			t.Fatalf("episode %d begins with %d replicas", episode, e.at.replicas)
		}
		for step := range trainSteps {
			before := e.at
			action := random.IntN(3)
			out, reward, terminated, truncated := e.Step(rl.Action{Discrete: action})
			if want := min(max(before.replicas+action-1, 1), 10); e.at.replicas != want {
				t.Fatalf("%d replicas after action %d with %d", e.at.replicas, action, before.replicas)
			}
			if got := e.at.cpu * float64(e.at.replicas); math.Abs(got-360) > 1e-6 || e.at.requests != 70 {
				t.Fatalf("CPU %g of %d replicas, %g requests", e.at.cpu, e.at.replicas, e.at.requests)
			}
			if want := w.Reward(e.at.cpu, 0.4*(2*e.at.cpu+35), e.at.replicas, 1); math.Abs(reward-want) > 1e-9 {
				t.Fatalf("reward %g, want %g", reward, want)
			}
			if terminated || truncated != (step == trainSteps-1) {
				t.Fatalf("step %d: %v, %v", step, terminated, truncated)
			}
			if out[2] != float32(e.at.replicas)/10 {
				t.Fatalf("observed %v", out)
			}
		}
	}
}

// TestLoad: eq. 6 to 8.
func TestLoad(t *testing.T) {
	w := small() // 20 requests a second and replica, 100 millicores
	for _, c := range []struct {
		rate           float64
		replicas       int
		cpu, served, u float64
	}{
		{60, 3, 100, 60, 0},
		{120, 3, 200, 60, 0.5},
		{120, 6, 100, 120, 0},
		{30, 3, 50, 30, 0},
		{0, 1, 0, 0, 0},
	} {
		s, unserved := w.load(c.rate, c.replicas)
		if math.Abs(s.cpu-c.cpu) > 1e-9 || math.Abs(s.requests-c.served) > 1e-9 || math.Abs(unserved-c.u) > 1e-9 || s.replicas != c.replicas {
			t.Errorf("%g requests, %d replicas: %+v, %g not served", c.rate, c.replicas, s, unserved)
		}
	}
}

// TestEvaluate: what sits at a bound is said to, and the HPA's rule follows the load.
func TestEvaluate(t *testing.T) {
	w, held := small(), drawn(600, 5)
	least, most := w.evaluate(still(1), held, 1), w.evaluate(still(10), held, 1)
	rule := w.evaluate(&hpa{target: 100, window: 10}, held, 1)
	for name, o := range map[string]Outcome{"least": least, "most": most} {
		if !o.Boundary || o.AtBoundary < sits || o.Episodes != episodes {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if rule.Boundary || rule.Pods.Mean <= least.Pods.Mean || rule.Pods.Mean >= most.Pods.Mean || rule.Delay.Mean >= least.Delay.Mean {
		t.Errorf("the HPA: %+v", rule)
	}
	if i := rule.Pods.Interval; i == nil || i[0] > rule.Pods.Mean || i[1] < rule.Pods.Mean {
		t.Errorf("interval %v of %g", i, rule.Pods.Mean)
	}
	if !above(least.delays, rule.delays) || above(rule.delays, least.delays) || above(rule.delays, rule.delays) {
		t.Error("what is slower is not told")
	}
}

// TestRanking: nobody is ranked first for a trade that was not asked for.
func TestRanking(t *testing.T) {
	candidate := func(name string, pods, score float64, change func(*Candidate)) Candidate {
		c := Candidate{Name: name, Outcome: Outcome{Pods: Figure{Mean: pods}, Score: Figure{Mean: score}}}
		if change != nil {
			change(&c)
		}
		return c
	}
	all := []Candidate{
		candidate("bound", 1, 9, func(c *Candidate) { c.Boundary = true }),
		candidate("late", 2, 8, func(c *Candidate) { c.LaterThanHPA = true }),
		candidate("slow", 3, 7, func(c *Candidate) { c.SlowerThanHPA = true }),
		candidate("dear", 5, 2, nil), candidate("good", 4, 1, nil),
	}
	if got := ranking(all, false); !slices.Equal(got, []string{"good", "dear", "slow", "late", "bound"}) {
		t.Errorf("%v", got)
	}
	if got := ranking(all, true); !slices.Equal(got, []string{"slow", "dear", "good", "late", "bound"}) {
		t.Errorf("with a weight that was stated: %v", got)
	}
	front := []Candidate{{Outcome: Outcome{Pods: Figure{Mean: 2}, Delay: Figure{Mean: 50}}}, {Outcome: Outcome{Pods: Figure{Mean: 3}, Delay: Figure{Mean: 60}}}}
	rules := []Candidate{{Outcome: Outcome{Pods: Figure{Mean: 4}, Delay: Figure{Mean: 40}}}}
	mark(front, rules)
	if !front[0].Front || front[1].Front || !rules[0].Front {
		t.Errorf("front %v %v %v", front[0].Front, front[1].Front, rules[0].Front)
	}
}

// TestTrain: candidates come one from the other, learn to leave the bounds, save more the
// more saving weighs, and are models that can be read again. The same seed gives the same.
func TestTrain(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds of CPU")
	}
	o := DefaultOptions()
	o.Steps, o.Savings = 8_000, []float64{1, 0.1}
	h := drawn(1500, 6)
	got, w, err := Train(t.Context(), h, o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	first, second := got.Candidates[0], got.Candidates[1]
	if len(got.Candidates) != 2 || first.DerivedFrom != "" || second.DerivedFrom != first.Name || len(got.Rules) != 3 || got.Rules[0].Name != "rule:hpa" || got.HeldOut != 450 {
		t.Fatalf("%+v", got)
	}
	least, most := got.Rules[1], got.Rules[2]
	if second.Boundary || first.Score.Mean <= math.Max(least.Score.Mean, most.Score.Mean) {
		t.Errorf("learned nothing: %+v, %+v beside %+v, %+v", first.Outcome, second.Outcome, least.Outcome, most.Outcome)
	}
	if first.Pods.Mean >= second.Pods.Mean || first.Delay.Mean <= second.Delay.Mean {
		t.Errorf("saving weighs 1: %.2f pods, %.0f ms; 0.1: %.2f pods, %.0f ms", first.Pods.Mean, first.Delay.Mean, second.Pods.Mean, second.Delay.Mean)
	}
	again, _, err := Train(t.Context(), h, o, io.Discard)
	if err != nil || again.Candidates[1].Pods.Mean != second.Pods.Mean {
		t.Errorf("the same seed: %v, %v pods, %v before", err, again.Candidates[1].Pods.Mean, second.Pods.Mean)
	}
	dir := t.TempDir()
	if err := got.Write(dir, w, o, "test", "mash2 train"); err != nil {
		t.Fatal(err)
	}
	m, card, err := training.Load(filepath.Join(dir, "candidate-2"))
	if err != nil || m.Environment != Environment || len(m.Inputs) != 3 || m.Inputs[0].Name != InputCPU || len(card.Limits) != 3 {
		t.Errorf("%+v, %v", m.Inputs, err)
	}
	page, err := os.ReadFile(got.Report)
	for _, want := range []string{"candidate-2", "rule:hpa", "R² ", "sits at a bound"} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%v: the report has no %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Train(ctx, h, o, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLearnsOn: candidates begin with the model in use, see the world by its scales, and take
// its place only if they are better by more than chance.
func TestLearnsOn(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds of CPU")
	}
	o := DefaultOptions()
	o.Steps, o.Savings = 4_000, []float64{1}
	first, w, err := Train(t.Context(), drawn(1500, 6), o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if first.InUse != nil || first.Adopt != "" || first.Why != "" {
		t.Errorf("nothing was in use: %+v", first)
	}
	used := rl.Model{Environment: Environment, Policy: first.Candidates[0].policy, Inputs: w.Inputs}
	later := drawn(1500, 7)
	for i := range later {
		later[i].CPU *= 1.3 // a release that costs more
	}
	o.From = &used
	next, seen, err := Train(t.Context(), later, o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if next.InUse == nil || next.Candidates[0].DerivedFrom != InUse || next.Why == "" {
		t.Fatalf("%+v", next)
	}
	t.Logf("in use %.2f pods, %.0f ms; learned on %.2f pods, %.0f ms: %s", next.InUse.Pods.Mean, next.InUse.Delay.Mean,
		next.Candidates[0].Pods.Mean, next.Candidates[0].Delay.Mean, next.Why)
	for i, in := range seen.Inputs {
		if in.Scale != w.Inputs[i].Scale {
			t.Errorf("%s is seen by the scale %g, it was learned by %g", in.Name, in.Scale, w.Inputs[i].Scale)
		}
	}
	if seen.Inputs[1].Millicores == w.Inputs[1].Millicores {
		t.Error("what a request takes is as it was")
	}
	// Where the network is the same in the same world, it does the same.
	same, _, err := Train(t.Context(), later, func() Options { o := o; o.Steps = 1000; return o }(), io.Discard)
	if err != nil || same.InUse.Pods.Mean != next.InUse.Pods.Mean {
		t.Errorf("%v: the model in use takes %v pods, and %v", err, same.InUse.Pods, next.InUse.Pods)
	}
	dir := t.TempDir()
	if err := next.Write(dir, seen, o, "test", "mash2 train"); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(next.Report)
	if err != nil || !strings.Contains(string(page), InUse) || !strings.Contains(string(page), "They learned on from the model in use.") {
		t.Errorf("%v: the report doesn't tell of the model in use", err)
	}
	for name, change := range map[string]func(*rl.Model){
		"of another world": func(m *rl.Model) { m.Environment = "cartpole" },
		"sees less":        func(m *rl.Model) { m.Inputs = m.Inputs[:2] },
		"sees something":   func(m *rl.Model) { m.Inputs = []rl.Input{{Name: "x"}, {Name: "y"}, {Name: "z"}} },
		"does more":        func(m *rl.Model) { m.Policy.Actions = rl.Space{N: 5} },
	} {
		bad := used
		change(&bad)
		o.From = &bad
		if _, _, err := Train(t.Context(), later, o, io.Discard); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v, want %v", name, err, ErrOptions)
		}
	}
}

// Which candidate takes the place of what is in use.
func TestAdopt(t *testing.T) {
	outcome := func(pods, delay, late, score float64) Outcome {
		o := Outcome{Pods: Figure{Mean: pods}, Score: Figure{Mean: score}}
		for _, by := range []float64{0.9, 1, 1.1, 1} {
			o.pods, o.delays, o.late, o.scores = append(o.pods, pods*by), append(o.delays, delay*by), append(o.late, late*by), append(o.scores, score*by)
		}
		return o
	}
	for name, tc := range map[string]struct {
		candidate Outcome
		stated    bool
		adopted   bool
	}{
		"fewer pods, as fast":              {candidate: outcome(3, 100, 0.01, 1), adopted: true},
		"fewer pods, slower":               {candidate: outcome(3, 120, 0.01, 1)},
		"fewer pods, late more often":      {candidate: outcome(3, 100, 0.02, 1)},
		"as many pods, faster":             {candidate: outcome(4, 80, 0.01, 1)},
		"a higher score that counts":       {candidate: outcome(4, 120, 0.01, 2), stated: true, adopted: true},
		"a higher score that doesn't":      {candidate: outcome(4, 120, 0.01, 2)},
		"a higher score, late more often":  {candidate: outcome(4, 100, 0.02, 2), stated: true},
		"the same":                         {candidate: outcome(4, 100, 0.01, 1)},
		"fewer pods, by sitting at bounds": {candidate: func() Outcome { o := outcome(1, 100, 0.01, 1); o.Boundary = true; return o }()},
	} {
		t.Run(name, func(t *testing.T) {
			r := Result{
				InUse: &Candidate{Name: InUse, Outcome: outcome(4, 100, 0.01, 1)}, Ranking: []string{"a"},
				Candidates: []Candidate{{Name: "a", Outcome: tc.candidate}},
			}
			adopt, why := r.adopt(tc.stated)
			if (adopt == "a") != tc.adopted || why == "" || adopt == "" && !strings.Contains(why, "keep it") {
				t.Errorf("adopted %q: %s", adopt, why)
			}
		})
	}
}

// TestOptions that can't be meant are refused.
func TestOptions(t *testing.T) {
	for says, change := range map[string]func(*Options){
		"steps":                  func(o *Options) { o.Steps = 10 },
		"weights of saving":      func(o *Options) { o.Savings = nil },
		"a weight of saving":     func(o *Options) { o.Savings = []float64{1, math.NaN()} },
		"the SLA":                func(o *Options) { o.SLA = 0 },
		"replicas":               func(o *Options) { o.Least, o.Most = 5, 5 },
		"alpha":                  func(o *Options) { o.Alpha = 1.5 },
		"the request":            func(o *Options) { o.Request = -1 },
		"the share that is held": func(o *Options) { o.Held = 1 },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if err := DefaultOptions().Validate(); err != nil {
		t.Error(err)
	}
	// Of a short history a large or a small share leaves too little.
	for _, held := range []float64{0.001, 0.99} {
		o := DefaultOptions()
		o.Held = held
		if _, _, err := Train(t.Context(), drawn(120, 1), o, io.Discard); !errors.Is(err, ErrOptions) {
			t.Errorf("%g of 120 rows held out: %v", held, err)
		}
	}
}
