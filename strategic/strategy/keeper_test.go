package strategy

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

const learnSpec = `mode: Full
sensors: [{name: earned, prometheus: {query: margin}}]
learn:
  policies: [A, B]
  round: 1h
  context: {always: '1.0'}
  reward: earned
  noisePercent: 5
  maxLossPercent: 20
  act: true`

// keeper runs a cluster's strategies by a clock, through Steer.
type keeper struct {
	t          testing.TB
	now        time.Time
	spec       api.PolicySpec
	strategies []api.Strategy
	last       []api.StrategyState
	// earned is what the sensor reads under a policy; NaN can't be read.
	earned func(policy string) float64
	policy api.Policy
	said   []api.Finding
}

// newKeeper of the default policy A, at nine o'clock.
func newKeeper(t testing.TB, spec string) *keeper {
	return &keeper{
		t: t, now: begin,
		spec:       api.PolicySpec{Default: "A", Policies: map[string]api.Policy{"A": {Name: "A"}, "B": {Name: "B"}, "C": {Name: "C"}}},
		strategies: []api.Strategy{parse(t, "s", spec)},
		earned:     func(policy string) float64 { return map[string]float64{"A": 0.3, "B": 0.8, "C": 0.5}[policy] },
	}
}

// look is a cycle after some time.
func (k *keeper) look(after time.Duration) {
	k.t.Helper()
	k.now = k.now.Add(after)
	r := api.SensorReading{Sensor: "earned", Value: k.earned(k.policy.Name), At: k.now}
	if math.IsNaN(r.Value) {
		r.Missing = "Prometheus doesn't answer"
	}
	list := slices.Clone(k.strategies)
	for i := range list {
		list[i].Readings = []api.SensorReading{r}
	}
	before, err := json.Marshal(k.last)
	if err != nil {
		k.t.Fatal(err)
	}
	k.policy, _, k.said = Steer(k.spec, api.Snapshot{Time: k.now, Context: api.Context{Strategies: list, LastStrategies: k.last}}, nil)
	if after, _ := json.Marshal(k.last); string(after) != string(before) {
		k.t.Fatal("the state of the last cycle was changed")
	}
	// As a record and a checkpoint keep it.
	text, err := json.Marshal(k.policy.Strategies)
	if err != nil {
		k.t.Fatal(err)
	}
	k.last = nil
	if err := json.Unmarshal(text, &k.last); err != nil {
		k.t.Fatal(err)
	}
}

// rounds go by, each looked at four times.
func (k *keeper) rounds(n int) {
	k.t.Helper()
	for range 4 * n {
		k.look(15 * time.Minute)
	}
}

func (k *keeper) learning() *api.Learning {
	k.t.Helper()
	for _, s := range k.last {
		if s.Key.Name == "s" && s.Learning != nil {
			return s.Learning
		}
	}
	k.t.Fatalf("nothing is learned: %+v", k.last)
	return nil
}

func (k *keeper) arm(policy string) api.LearnedArm {
	for _, a := range k.learning().Arms {
		if a.Policy == policy {
			return a
		}
	}
	return api.LearnedArm{}
}

// trying is a keeper whose strategy is in a round in which it chose B.
func trying(t testing.TB, spec string) *keeper {
	t.Helper()
	k := newKeeper(t, spec)
	k.look(0)
	for range 500 {
		k.rounds(1)
		if r := k.learning().Round; r != nil && r.Recommended == "B" {
			return k
		}
	}
	t.Fatalf("B is never tried: %+v", k.learning())
	return nil
}
