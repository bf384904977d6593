package strategy

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestLearns: the better policy is put in force, after rounds in which the baseline earned
// what it may cost to try it; and the state says what it expects.
func TestLearns(t *testing.T) {
	k := trying(t, learnSpec)
	if k.learning().Learned < 3 || k.policy.Name != "B" || k.policy.Source != api.SourceStrategy {
		t.Errorf("after %d rounds %s by %s", k.learning().Learned, k.policy.Name, k.policy.Source)
	}
	k.rounds(100)
	l := k.learning()
	if k.policy.Name != "B" || l.Round.Expected < 0.75 || l.Round.Lower > 0.8 || l.Round.Upper < 0.8 || l.Budget <= 0 {
		t.Errorf("%s: %+v", k.policy.Name, l.Round)
	}
	for _, part := range []string{"B may earn more than A: a reward of 0.80 (", "against a reward of 0.30 (", "learned from ", "rounds, not from 0; a reward of ", " may be lost"} {
		if !strings.Contains(l.Reason, part) {
			t.Errorf("reason %q has no %q", l.Reason, part)
		}
	}
	if len(k.said) > 0 {
		t.Errorf("%v", k.said)
	}
}

// TestRecommendsFirst: without act the recommendation is there, and nothing is done. Then it
// learns of the baseline only.
func TestRecommendsFirst(t *testing.T) {
	for name, spec := range map[string]string{
		"act is false":        strings.Replace(learnSpec, "act: true", "act: false", 1),
		"mode is Shadow":      strings.Replace(learnSpec, "mode: Full", "mode: Shadow", 1),
		"both":                strings.NewReplacer("act: true", "act: false", "mode: Full", "mode: Shadow").Replace(learnSpec),
		"act is not there":    strings.Replace(learnSpec, "\n  act: true", "", 1),
		"another comes first": learnSpec,
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t, spec)
			if name == "another comes first" {
				k.strategies = append(k.strategies, parse(t, "first", "priority: 1\nrules: [{name: r, when: 'true', actions: [{setPolicy: {policy: A}}]}]"))
			}
			k.look(0)
			k.rounds(150)
			l := k.learning()
			if l.Round == nil || l.Round.Recommended != "B" || k.policy.Name != "A" || k.arm("B").Rounds != 0 || k.arm("A").Rounds != l.Learned || l.Learned < 140 || k.arm("A").Instead != nil {
				t.Errorf("%s: %+v", k.policy.Name, l)
			}
			at := slices.IndexFunc(k.policy.StrategyActions, func(a api.StrategyAction) bool { return a.Rule == learning })
			if at < 0 || k.policy.StrategyActions[at].NotDone == "" {
				t.Errorf("%+v", k.policy.StrategyActions)
			}
		})
	}
}

// TestRoundIsLearned of which policy, and counted against what, whatever happens in it.
func TestRoundIsLearned(t *testing.T) {
	half := 30 * time.Minute
	manual := func(k *keeper, policy string) { k.spec.Manual = policy }
	for name, c := range map[string]struct {
		during func(k *keeper) // in the round's middle
		after  func(k *keeper) // before its end
		learns string          // policy that it learned of; empty for none
		last   string
		told   string // reason of a finding after it
		counts float64
	}{
		"nothing happens":              {learns: "B", last: "earned 0.80 with B", counts: 1},
		"a policy by hand, from there": {during: func(k *keeper) { manual(k, "C") }, last: "without it A would have been in force, and from", counts: 0.75},
		"the same policy by hand":      {during: func(k *keeper) { manual(k, "B") }, last: "without it A would have been in force", counts: 0.75},
		"another strategy wins": {during: func(k *keeper) {
			k.strategies = append(k.strategies, parse(k.t, "first", "priority: 1\nrules: [{name: r, when: 'true', actions: [{setPolicy: {policy: A}}]}]"))
		}, last: "without it A would have been in force|B was in force, and from", counts: 0.75},
		"a lower strategy changes the baseline": {during: func(k *keeper) {
			k.strategies = append(k.strategies, parse(k.t, "later", "priority: -1\nrules: [{name: r, when: 'true', actions: [{setPolicy: {policy: B}}]}]"))
		}, last: "without it A would have been in force, and from", counts: 0.75},
		"a lower strategy names no policy there is": {during: func(k *keeper) {
			k.strategies = append(k.strategies, parse(k.t, "later", "priority: -1\nrules: [{name: r, when: 'true', actions: [{setPolicy: {policy: Z}}]}]"))
		}, learns: "B", last: "earned 0.80 with B", counts: 1},
		"the schedule moves on": {during: func(k *keeper) { k.spec.Default = "C" }, last: "without it A would have been in force, and from", counts: 0.75},
		"mode Shadow": {during: func(k *keeper) {
			k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "mode: Full", "mode: Shadow", 1))
		}, last: "B was in force, and from", counts: 0.75},
		"mode Off": {during: func(k *keeper) {
			k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "mode: Full", "mode: 'Off'", 1))
		}, last: "the strategy was turned off", counts: 0.75},
		"act is taken back": {during: func(k *keeper) {
			k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "act: true", "act: false", 1))
		}, last: "B was in force, and from", counts: 0.75},
		"it can't be used for a while": {during: func(k *keeper) { k.strategies[0].Spec = "{" },
			after: func(k *keeper) { k.strategies[0] = parse(k.t, "s", learnSpec) }, learns: "B", last: "earned 0.80 with B", counts: 1},
		"it can't be used and is off for a while": {during: func(k *keeper) { k.strategies[0].Spec = `{"mode":"Off","rules":1}` },
			after: func(k *keeper) { k.strategies[0] = parse(k.t, "s", learnSpec) }, last: "it could not be used at", counts: 0.75},
		"mash2 is paused":           {during: func(k *keeper) { k.spec.Paused = true }, after: func(k *keeper) { k.spec.Paused = false }, last: "mash2 was paused at", counts: 1},
		"the policy is gone":        {during: func(k *keeper) { delete(k.spec.Policies, "B") }, last: "there is no policy B any more", counts: 0.75},
		"no reward":                 {after: func(k *keeper) { k.earned = func(string) float64 { return math.NaN() } }, last: "reward: earned has no value: Prometheus doesn't answer", told: "RoundNotLearned", counts: 1},
		"a reward above 1":          {after: func(k *keeper) { k.earned = func(string) float64 { return 1.5 } }, last: "reward: it is 1.5, and must be from 0 to 1", told: "RoundNotLearned", counts: 1},
		"a reward below 0":          {after: func(k *keeper) { k.earned = func(string) float64 { return -0.1 } }, last: "reward: it is -0.1", told: "RoundNotLearned", counts: 1},
		"the clock goes back":       {during: func(k *keeper) { k.now = k.now.Add(-30 * time.Minute) }, last: "the clock went back", counts: 0.5},
		"nobody looks":              {during: func(k *keeper) { k.now = k.now.Add(45 * time.Minute) }, last: "nobody looked from", counts: 1},
		"nobody looks when it ends": {during: func(k *keeper) { k.now = k.now.Add(5 * time.Minute) }, after: func(k *keeper) { k.now = k.now.Add(13 * time.Minute) }, last: "nobody looked when it ended", counts: 1},
		"the operator dies":         {after: func(k *keeper) { k.now = k.now.Add(100 * time.Hour) }, last: "nobody looked from", counts: 1},
		"a short restart":           {during: func(k *keeper) { k.now = k.now.Add(10 * time.Minute) }, after: func(k *keeper) { k.now = k.now.Add(-10 * time.Minute) }, learns: "B", last: "earned 0.80 with B", counts: 1},
		"the reward is another": {during: func(k *keeper) {
			k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "reward: earned", "reward: earned / 2.0", 1))
		}, last: "it begins anew"},
		"the query is another": {during: func(k *keeper) {
			k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "query: margin", "query: margins", 1))
		}, last: "it begins anew"},
		"the context is another": {during: func(k *keeper) { k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "always", "ever", 1)) }, last: "it begins anew"},
		"other limits": {during: func(k *keeper) {
			k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "noisePercent: 5", "noisePercent: 6", 1))
		}, learns: "B", last: "earned 0.80 with B", counts: 1},
		"the policies are others":   {during: func(k *keeper) { k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "[A, B]", "[C, A]", 1)) }, last: "the policies are others"},
		"the policies are shuffled": {during: func(k *keeper) { k.strategies[0] = parse(k.t, "s", strings.Replace(learnSpec, "[A, B]", "[B, A]", 1)) }, learns: "B", last: "earned 0.80 with B", counts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			k := trying(t, learnSpec)
			before := *k.learning()
			a, b := k.arm("A"), k.arm("B")
			k.look(half / 2)
			if c.during != nil {
				k.look(half / 2)
				c.during(k)
			} else {
				k.look(half / 2)
			}
			k.look(half / 2)
			if c.after != nil {
				c.after(k)
			}
			k.look(half / 2)
			l := k.learning()
			ok := false
			for part := range strings.SplitSeq(c.last, "|") {
				ok = ok || strings.Contains(l.Last, part)
			}
			if !ok {
				t.Errorf("said %q, want %q", l.Last, c.last)
			}
			told := ""
			for _, f := range k.said {
				if f.Reason != "StrategyNotDone" && f.Reason != "StrategiesContradict" && f.Reason != "StrategyHolds" {
					told += f.Reason
				}
			}
			if told != c.told {
				t.Errorf("told %v, want %q", k.said, c.told)
			}
			if strings.HasPrefix(c.last, "it begins anew") {
				if l.Learned != 0 || len(k.arm("A").Gram) > 0 {
					t.Errorf("it remembers: %+v", l)
				}
				return
			}
			if strings.HasPrefix(c.last, "the policies") {
				if got := k.arm("A"); got.Rounds != a.Rounds || got.Kept != nil || got.Instead != nil || k.arm("B").Rounds != 0 || l.Budget != 0 {
					t.Errorf("%+v", l)
				}
				return
			}
			learned := ""
			if k.arm("A").Rounds > a.Rounds {
				learned += "A"
			}
			if k.arm("B").Rounds > b.Rounds {
				learned += "B"
			}
			if learned != c.learns || l.Learned-before.Learned != len(c.learns) || l.Discarded-before.Discarded != 1-len(c.learns) {
				t.Errorf("learned of %q, want %q: %+v", learned, c.learns, l)
			}
			counted := first(k.arm("B").Left) - first(b.Left)
			if against := first(k.arm("A").Instead) - first(a.Instead); math.Abs(counted-c.counts) > 1e-9 || math.Abs(against-c.counts) > 1e-9 {
				t.Errorf("%g of a round counts, and %g against the baseline; want %g", counted, against, c.counts)
			}
		})
	}
}

func first(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	return x[0]
}

// TestRoundDoesNotBegin where its context or baseline can't be used: the baseline stays, and
// it is said.
func TestRoundDoesNotBegin(t *testing.T) {
	for name, c := range map[string]struct {
		spec, want string
		change     func(k *keeper)
	}{
		"a context that is missing": {strings.Replace(learnSpec, "'1.0'", "earned", 1), "context.always: earned has no value", func(k *keeper) { k.earned = func(string) float64 { return math.NaN() } }},
		"above 1":                   {strings.Replace(learnSpec, "'1.0'", "earned * 5.0", 1), "context.always is 1.5, and must be from 0 to 1", func(*keeper) {}},
		"all 0":                     {strings.Replace(learnSpec, "'1.0'", "'0.0'", 1), "all of it is 0", func(*keeper) {}},
		"divided by 0":              {strings.Replace(learnSpec, "'1.0'", "'1 / 0 > 0 ? 1.0 : 0.0'", 1), "division by zero", func(*keeper) {}},
		"a baseline of no arm":      {learnSpec, "without it C is in force, which is none of them", func(k *keeper) { k.spec.Default = "C" }},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t, c.spec)
			k.earned = func(string) float64 { return 0.3 }
			c.change(k)
			k.look(0)
			if len(k.said) != 1 || k.said[0].Reason != "StrategyHolds" || !strings.Contains(k.said[0].Message, c.want) || !strings.Contains(k.learning().Reason, c.want) {
				t.Errorf("%v, %q; want %q", k.said, k.learning().Reason, c.want)
			}
			if k.learning().Round != nil || len(k.policy.StrategyActions) > 0 {
				t.Errorf("%+v", k.learning())
			}
		})
	}
	// In the midst of one it waits.
	k := newKeeper(t, learnSpec)
	k.look(20 * time.Minute)
	if k.learning().Round != nil || !strings.Contains(k.learning().Reason, "next round, which begins at 2026-03-02T10:00:00Z") || len(k.said) > 0 {
		t.Errorf("%+v %v", k.learning(), k.said)
	}
	k.look(40 * time.Minute)
	if r := k.learning().Round; r == nil || !r.Until.Equal(begin.Add(2*time.Hour)) {
		t.Errorf("%+v", k.learning())
	}
}

// TestRoundsOfAZone begin at its midnight.
func TestRoundsOfAZone(t *testing.T) {
	spec := strings.Replace("timeZone: Asia/Kolkata\n"+learnSpec, "round: 1h", "round: 12h", 1)
	k := newKeeper(t, spec)
	k.look(9*time.Hour + 30*time.Minute) // 18:30 UTC is midnight there
	if r := k.learning().Round; r == nil || !r.Since.Equal(k.now) || !r.Until.Equal(k.now.Add(12*time.Hour)) {
		t.Errorf("%+v", k.learning())
	}
}

// TestLearnsOfWhatIsInForce: a policy that a person sets for whole rounds teaches as any
// other, and costs the learner nothing.
func TestLearnsOfWhatIsInForce(t *testing.T) {
	k := newKeeper(t, learnSpec)
	k.spec.Manual = "B"
	k.look(0)
	k.rounds(5)
	if k.arm("B").Rounds != 5 || k.arm("A").Rounds != 0 || k.arm("B").Left != nil || first(k.arm("B").Kept) != 5 {
		t.Errorf("%+v", k.learning())
	}
}

// TestOffKeepsWhatWasLearned, and goes on with it.
func TestOffKeepsWhatWasLearned(t *testing.T) {
	k := newKeeper(t, learnSpec)
	k.look(0)
	k.rounds(5)
	on := k.strategies[0]
	k.strategies[0] = parse(t, "s", strings.Replace(learnSpec, "mode: Full", "mode: 'Off'", 1))
	k.rounds(5)
	if l := k.learning(); l.Learned != 5 || l.Round != nil || !strings.HasPrefix(l.Reason, "mode is Off") || len(k.policy.StrategyActions) > 0 {
		t.Errorf("%+v", l)
	}
	k.strategies[0] = on
	k.rounds(3)
	if l := k.learning(); l.Learned < 7 || k.arm("A").Rounds != l.Learned {
		t.Errorf("%+v", l)
	}
}

// TestNamesOnlyItsPolicies: whatever rewards, baselines and contexts there are, no other is
// ever named, nothing is done unless it may act, and its state stays finite.
func TestNamesOnlyItsPolicies(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		act := seed%2 == 0
		spec := strings.Replace(learnSpec, "{always: '1.0'}", "{a: 'hour < 12 ? 1.0 : 0.0', b: 'hour >= 12 ? 1.0 : 0.0', c: earned}", 1)
		spec = strings.Replace(spec, "act: true", fmt.Sprintf("act: %v", act), 1)
		k := newKeeper(t, spec)
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 2, 1e300, 0, 1}
		k.earned = func(string) float64 {
			if r.IntN(6) == 0 {
				return odd[r.IntN(len(odd))]
			}
			return r.Float64()
		}
		for range 300 {
			k.spec.Default = []string{"A", "A", "A", "A", "B", "C"}[r.IntN(6)*r.IntN(2)]
			if r.IntN(20) == 0 {
				k.now = k.now.Add(time.Duration(r.IntN(4000)-2000) * time.Second)
			}
			k.look(15 * time.Minute)
			for _, a := range k.policy.StrategyActions {
				if a.Policy != "A" && a.Policy != "B" || !act && a.NotDone == "" {
					t.Fatalf("seed %d: %+v", seed, a)
				}
			}
			if !act && k.policy.Name != k.spec.Default {
				t.Fatalf("seed %d: %s is in force", seed, k.policy.Name)
			}
		}
	}
}

// TestPolicyThatThereIsNot is told, and never named; the rest goes on.
func TestPolicyThatThereIsNot(t *testing.T) {
	k := newKeeper(t, strings.Replace(learnSpec, "[A, B]", "[A, Z, B]", 1))
	k.look(0)
	for range 300 {
		k.rounds(1)
		if len(k.said) != 1 || k.said[0].Reason != "StrategyNotDone" || !strings.Contains(k.said[0].Message, "there is no policy Z") {
			t.Fatalf("%v", k.said)
		}
		for _, a := range k.policy.StrategyActions {
			if a.Policy == "Z" {
				t.Fatalf("%+v", a)
			}
		}
	}
	if k.policy.Name != "B" || k.arm("Z").Rounds != 0 {
		t.Errorf("%s: %+v", k.policy.Name, k.learning())
	}
}

// TestTwoLearners: the one of lower precedence is the baseline of the other, which wins; both
// know what was in force, and neither holds the other up.
func TestTwoLearners(t *testing.T) {
	k := newKeeper(t, learnSpec)
	k.strategies = append(k.strategies, parse(t, "z", strings.Replace(learnSpec, "query: margin", "query: other", 1)))
	k.look(0)
	k.rounds(200)
	if k.policy.Name != "B" {
		t.Errorf("%s is in force", k.policy.Name)
	}
	for _, s := range k.last {
		if l := s.Learning; l.Learned < 190 || l.Arms[1].Rounds < 50 {
			t.Errorf("%s: %+v", s.Key, l)
		}
	}
}

// TestLearningReplays: the same inputs give the same bytes.
func TestLearningReplays(t *testing.T) {
	run := func() string {
		var b strings.Builder
		k := newKeeper(t, learnSpec)
		r := rand.New(rand.NewPCG(1, 1))
		k.earned = func(policy string) float64 { return map[string]float64{"A": 0.3, "B": 0.7}[policy] + 0.1*r.Float64() }
		for range 400 {
			k.look(15 * time.Minute)
			text, err := json.Marshal([]any{k.policy, k.said})
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
		return b.String()
	}
	if first := run(); first != run() || !strings.Contains(first, `"policy":"B"`) {
		t.Error("two runs differ, or nothing is chosen")
	}
}

// TestParseRefusesLearning that can't be used, by the field's path.
func TestParseRefusesLearning(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"one policy":               {"[A, B]", "[A]", "spec.learn.policies: must have 2 to 8 entries, has 1"},
		"too many":                 {"[A, B]", "[A, B, C, D, E, F, G, H, I]", "spec.learn.policies: must have 2 to 8 entries, has 9"},
		"a policy twice":           {"[A, B]", "[A, A]", "spec.learn.policies[1]"},
		"a policy without a name":  {"[A, B]", "['', A]", "spec.learn.policies[0]"},
		"a short round":            {"round: 1h", "round: 10s", "spec.learn.round: must be from 1m0s"},
		"a round of nothing":       {"round: 1h", "round: 0s", "spec.learn.round"},
		"an endless round":         {"round: 1h", "round: 1000h", "spec.learn.round"},
		"no context":               {"{always: '1.0'}", "{}", "spec.learn.context: must have 1 to 16 entries, has 0"},
		"a context of words":       {"'1.0'", "policy", "spec.learn.context.always: must give a number"},
		"a context of nobody":      {"'1.0'", "nobody", "spec.learn.context.always: ERROR"},
		"a name of a context":      {"always:", "Al-ways:", "spec.learn.context: \"Al-ways\" must begin with a small letter"},
		"no reward":                {"reward: earned", "reward: ''", "spec.learn.reward: is required"},
		"a reward that is a truth": {"reward: earned", "reward: earned > 1", "spec.learn.reward: must give a number"},
		"no noise at all":          {"noisePercent: 5", "noisePercent: 0", "spec.learn.noisePercent: must be from 1 to 50, is 0"},
		"all may be lost":          {"maxLossPercent: 20", "maxLossPercent: 100", "spec.learn.maxLossPercent: must be from 1 to 50, is 100"},
		"a field that there isn't": {"act: true", "acts: true", `unknown field "spec.learn.acts"`},
		"a rule of the same name":  {"mode: Full", "rules: [{name: learn, when: 'true', actions: [{setPolicy: {policy: P}}]}]", `spec.rules[0].name: "learn" has a meaning of its own`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := strings.Replace(learnSpec, c.from, c.to, 1)
			if _, err := Parse([]byte(document("s", spec))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestDamagedLearning: a state of other sizes or of no numbers names nothing and breaks
// nothing.
func TestDamagedLearning(t *testing.T) {
	for name, damage := range map[string]func(l *api.Learning){
		"a matrix of another size":    func(l *api.Learning) { l.Arms[0].Gram = []float64{1, 2} },
		"no sum":                      func(l *api.Learning) { l.Arms[0].Sum = nil },
		"a matrix that can't be":      func(l *api.Learning) { l.Arms[0].Gram = []float64{-5} },
		"an account of another size":  func(l *api.Learning) { l.Arms[1].Left = []float64{1, 2, 3} },
		"a context of another size":   func(l *api.Learning) { l.Round.Context = nil },
		"a round of another's policy": func(l *api.Learning) { l.Round.Recommended, l.Round.Baseline = "X", "Y" },
		"no arms":                     func(l *api.Learning) { l.Arms = nil },
		"numbers that are none": func(l *api.Learning) {
			l.Arms[0].Gram, l.Arms[0].Sum, l.Arms[0].Kept = []float64{math.NaN()}, []float64{math.Inf(1)}, []float64{math.NaN()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := trying(t, learnSpec)
			damage(k.learning())
			for range 20 {
				k.now = k.now.Add(15 * time.Minute)
				s := k.strategies[0]
				s.Readings = []api.SensorReading{{Sensor: "earned", Value: 0.5, At: k.now}}
				policy, _, _ := Steer(k.spec, api.Snapshot{Time: k.now, Context: api.Context{Strategies: []api.Strategy{s}, LastStrategies: k.last}}, nil)
				if k.last = policy.Strategies; policy.Name != "A" && policy.Name != "B" {
					t.Fatal(policy.Name)
				}
			}
		})
	}
}
