package shop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic/bandit"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// learning is a Strategy that learns what the shop's learner does: rounds of an hour, eight
// parts of the day, with and without a campaign.
func learning(t *testing.T) api.Strategy {
	t.Helper()
	var b strings.Builder
	b.WriteString(`apiVersion: mash2.io/v1alpha1
kind: Strategy
metadata: {name: shop, namespace: shop}
spec:
  sensors:
    - {name: earned, prometheus: {query: earned}}
    - {name: campaign, prometheus: {query: campaign}}
  learn:
    policies: [` + strings.Join(Policies, ", ") + `]
    round: 1h
    reward: earned
    noisePercent: 15
    maxLossPercent: 10
    act: true
    context:
`)
	for i := range 2 * parts {
		fmt.Fprintf(&b, "      part%02d: 'hour / 3 == %d && campaign == %d.0 ? 1.0 : 0.0'\n", i, i%parts, i/parts)
	}
	list, err := strategy.Parse([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// owners is the owner's schedule as a policy file has it.
func owners() api.PolicySpec {
	spec := api.PolicySpec{Default: Policies[0], Policies: map[string]api.Policy{}, Schedule: []api.ScheduleEntry{
		{Cron: "0 8 * * *", Policy: Policies[2]}, {Cron: "0 22 * * *", Policy: Policies[0]},
	}}
	for _, p := range Policies {
		spec.Policies[p] = api.Policy{Name: p}
	}
	return spec
}

// TestThroughStrategies plays the shop through what the operator decides by: the policy in
// force in each hour is the one that the library would have chosen, and what was earned by
// the world's means never falls below the bound, also where some rewards can't be read.
func TestThroughStrategies(t *testing.T) {
	for _, missing := range []float64{0, 0.3} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("missing=%g/seed=%d", missing, seed), func(t *testing.T) { throughStrategies(t, missing, seed) })
		}
	}
}

func throughStrategies(t *testing.T, missing float64, seed uint64) {
	const played = 150 // days
	of, spec, m := learning(t), owners(), means()
	direct := &learner{config: config()}
	rng := rand.New(rand.NewPCG(seed, 1))
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	var last []api.StrategyState
	mine, owner, left, lost, earned := 0.0, 0.0, 0, 0, math.NaN()
	look := func(h hour) string {
		campaign := 0.0
		if h.campaign {
			campaign = 1
		}
		s := of
		s.Readings = []api.SensorReading{{Sensor: "earned", Value: earned, At: now}, {Sensor: "campaign", Value: campaign, At: now}}
		policy, _, findings := strategy.Steer(spec, api.Snapshot{Time: now, Context: api.Context{Strategies: []api.Strategy{s}, LastStrategies: last}}, nil)
		if len(findings) > 0 && !math.IsNaN(earned) {
			t.Fatalf("seed %d, %v: %v", seed, now, findings)
		}
		last = policy.Strategies
		return policy.Name
	}
	for i, h := range hours(played, rand.New(rand.NewPCG(seed, 0))) {
		want, err := direct.choose(h)
		if err != nil {
			t.Fatal(err)
		}
		got := look(h)
		if got != Policies[want] {
			t.Fatalf("seed %d, hour %d: %s in force, the library chooses %s", seed, i, got, Policies[want])
		}
		now = now.Add(30 * time.Minute)
		if still := look(h); still != got {
			t.Fatalf("seed %d, hour %d: %s, and in the midst of the round %s", seed, i, got, still)
		}
		now = now.Add(30 * time.Minute)
		earned = reward(h, want, rng.NormFloat64(), rng.NormFloat64())
		if rng.Float64() < missing {
			earned = math.NaN()
			lost++
			direct.state, err = bandit.Count(direct.config, direct.state, h.context(), got, Policies[h.baseline()])
		} else {
			err = direct.hear(h, want, earned)
		}
		if err != nil {
			t.Fatal(err)
		}
		if want != h.baseline() {
			left++
		}
		mine, owner = mine+m[h][slices.Index(Policies, got)], owner+m[h][h.baseline()]
		if i >= 24 && mine < 0.9*owner {
			t.Errorf("seed %d, hour %d: %.4g was earned of the schedule's %.4g", seed, i, mine, owner)
		}
	}
	if l := last[0].Learning; l.Learned+l.Discarded != 24*played-1 || l.Discarded > lost || l.Discarded < lost-1 || left < 100 {
		t.Errorf("seed %d: learned of %d rounds and not of %d, %d were lost; left the schedule in %d", seed, l.Learned, l.Discarded, lost, left)
	}
	t.Logf("seed %d: in %d days %.4g was earned, %.4g by the schedule, which was left in %d hours", seed, played, mine, owner, left)
}
