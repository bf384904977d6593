package mash2

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/strategic"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// remembering is a planner whose memory is that of signals and strategies alone.
type remembering struct{}

func (remembering) Plan(_ api.Snapshot, p api.Policy, _ planning.Memory) (api.Plan, planning.Memory) {
	return api.Plan{}, planning.Memory{Signals: p.Signals, Strategies: p.Strategies}
}

// TestSignalsInTheLoop: a signal that was on and can't be read any more holds its policy, in
// the loop and when its record is decided again.
func TestSignalsInTheLoop(t *testing.T) {
	signal := api.Signal{Name: "campaign", Key: "campaign", Compare: api.CompareEquals, Text: "on", Policy: api.Performance}
	w := two()
	w.spec = api.PolicySpec{Policies: strategic.Defaults(), Signals: []api.Signal{signal}}
	loop := w.loop()
	loop.Planner = remembering{}
	kept := &keeping{}
	loop.Recorder = kept
	reading := api.SignalReading{Name: signal.Name, Source: signal.Source(), Text: "on", At: time.Now()}
	for i, missing := range []string{"", "it is away"} {
		reading.Missing = missing
		w.snapshot.Context.Signals = []api.SignalReading{reading}
		c, err := loop.RunOnce(t.Context())
		if err != nil || c.Policy.Name != api.Performance || c.Policy.Source != api.SourceSignal {
			t.Fatalf("cycle %d: %s by %s: %v", i, c.Policy.Name, c.Policy.Source, err)
		}
		said := false
		for _, f := range c.Findings {
			said = said || f.Reason == "SignalUnreadable"
		}
		if said != (missing != "") {
			t.Errorf("cycle %d: said %v", i, said)
		}
		r := kept.records[i]
		again := Decider{Planner: remembering{}}.Decide(r.Snapshot, r.Spec, r.Memory.(planning.Memory))
		if again.Policy.Name != c.Policy.Name || again.Policy.Reason != c.Policy.Reason {
			t.Errorf("decided again: %s, %s", again.Policy.Name, again.Policy.Reason)
		}
	}
}

type keeping struct{ records []api.Record }

func (k *keeping) Record(r api.Record) []api.Finding {
	k.records = append(k.records, r)
	return nil
}

// TestStrategiesInTheLoop: a strategy's policy is in force in the loop, its state outlives
// the cycle, and its record is decided again to the same.
func TestStrategiesInTheLoop(t *testing.T) {
	s := api.Strategy{Key: api.Key{Namespace: "shop", Name: "s"}, Spec: `{"sensors":[{"name":"load","prometheus":{"query":"sum(load)"}}],
		"rules":[{"name":"r","when":"load > 5","actions":[{"setPolicy":{"policy":"PERFORMANCE"}},{"setBounds":{"workload":"a","maxReplicas":2}}]}]}`}
	w := two()
	w.spec = api.PolicySpec{Policies: strategic.Defaults()}
	loop := w.loop()
	loop.Planner = remembering{}
	kept := &keeping{}
	loop.Recorder = kept
	for i, missing := range []string{"", "it is away"} {
		s.Readings = []api.SensorReading{{Sensor: "load", Value: 6, At: time.Now(), Missing: missing}}
		w.snapshot.Context.Strategies = []api.Strategy{s}
		c, err := loop.RunOnce(t.Context())
		if err != nil || c.Policy.Name != api.Performance || c.Policy.Source != api.SourceStrategy {
			t.Fatalf("cycle %d: %s by %s: %v", i, c.Policy.Name, c.Policy.Source, err)
		}
		r := kept.records[i]
		if got := r.Snapshot.Workloads[0].MaxReplicas; got != 9 {
			t.Errorf("the record has a steered snapshot: at most %d replicas", got)
		}
		again := Decider{Planner: remembering{}}.Decide(r.Snapshot, r.Spec, r.Memory.(planning.Memory))
		if again.Policy.Reason != c.Policy.Reason || len(again.Policy.StrategyActions) != 2 {
			t.Errorf("decided again: %s, %+v", again.Policy.Reason, again.Policy.StrategyActions)
		}
	}
}

// twice is a model that predicts twice the latency of a candidate.
type twice struct{}

func (twice) Features() []string                   { return []string{"latency"} }
func (twice) Predict(x []float64) (float64, error) { return 2 * x[0], nil }

// TestModelsOfStrategiesInTheLoop: a choice asks the loop's model, its record is decided
// again to the same with that model, and without one nothing is chosen and that is said.
func TestModelsOfStrategiesInTheLoop(t *testing.T) {
	s := api.Strategy{Key: api.Key{Namespace: "shop", Name: "s"}, Spec: `{"choose":{"model":{"name":"qos"},"score":"1.0 / predicted","require":"predicted <= 1.0","candidates":[
		{"name":"edge","pools":["edge"],"features":{"latency":"0.9"}},{"name":"cloud","pools":["cloud"],"features":{"latency":"0.2"}}]}}`}
	for name, c := range map[string]struct {
		models map[string]strategy.Model
		want   string
	}{
		"with the model": {map[string]strategy.Model{"qos": twice{}}, "cloud"},
		"without":        {nil, "edge"},
	} {
		w := two()
		policy := strategic.Defaults()[api.CostSaving]
		policy.NodePools = []string{"edge", "cloud"}
		w.spec = api.PolicySpec{Default: api.CostSaving, Policies: map[string]api.Policy{api.CostSaving: policy}}
		w.snapshot.Context.Strategies = []api.Strategy{s}
		loop := w.loop()
		loop.Planner, loop.Models = remembering{}, c.models
		kept := &keeping{}
		loop.Recorder = kept
		cycle, err := loop.RunOnce(t.Context())
		if err != nil || len(cycle.Policy.NodePools) != 1 || cycle.Policy.NodePools[0] != c.want {
			t.Errorf("%s: %v on %v, want %s", name, err, cycle.Policy.NodePools, c.want)
		}
		r := kept.records[0]
		again := Decider{Planner: remembering{}, Models: c.models}.Decide(r.Snapshot, r.Spec, r.Memory.(planning.Memory))
		if len(again.Policy.StrategyActions) != 1 || again.Policy.StrategyActions[0].Reason != cycle.Policy.StrategyActions[0].Reason {
			t.Errorf("%s: decided again: %+v", name, again.Policy.StrategyActions)
		}
		said := false
		for _, f := range cycle.Findings {
			said = said || f.Reason == "StrategyHolds" && strings.Contains(f.Message, `there is no model "qos"`)
		}
		if said != (c.models == nil) {
			t.Errorf("%s: said %v: %v", name, said, cycle.Findings)
		}
	}
}

// shelf keeps a memory as a checkpoint does: its JSON.
type shelf struct {
	text []byte
	at   time.Time
}

func (s *shelf) Load() (planning.Memory, time.Time, []api.Finding, error) {
	var m planning.Memory
	if s.text == nil {
		return m, time.Time{}, nil, nil
	}
	err := json.Unmarshal(s.text, &m)
	return m, s.at, nil, err
}

func (s *shelf) Save(m planning.Memory, at time.Time, _ bool) []api.Finding {
	s.text, _ = json.Marshal(m)
	s.at = at
	return nil
}

// clocked is a world at a time of its own.
type clocked struct {
	*world
	now time.Time
}

func (c *clocked) Observe(context.Context) (api.Snapshot, error) {
	s := c.snapshot
	s.Time = c.now
	return s, nil
}

// TestLearningInTheLoop: what a strategy learns outlives cycles and processes, also one that
// was away for longer than other memory is kept; every record is decided again to the same
// bytes; and the better policy comes into force.
func TestLearningInTheLoop(t *testing.T) {
	s := api.Strategy{Key: api.Key{Namespace: "shop", Name: "s"}, Spec: `{"sensors":[{"name":"earned","prometheus":{"query":"x"}}],
		"learn":{"policies":["COST_SAVING","PERFORMANCE"],"round":"1h","context":{"always":"1.0"},"reward":"earned","noisePercent":5,"maxLossPercent":20,"act":true}}`}
	w := &clocked{world: two(), now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	w.spec = api.PolicySpec{Policies: strategic.Defaults()}
	kept, states := &keeping{}, &shelf{}
	start := func() *Loop {
		loop := w.loop()
		loop.Observer, loop.Planner, loop.Recorder, loop.Checkpoints = w, remembering{}, kept, states
		return loop
	}
	loop, policy, done := start(), api.CostSaving, 0
	for i := range 4 * 150 {
		if i%97 == 50 { // within a round
			loop = start()
		}
		if i == 200 {
			loop, w.now = start(), w.now.Add(7*24*time.Hour)
		}
		s.Readings = []api.SensorReading{{Sensor: "earned", Value: map[string]float64{api.CostSaving: 0.3, api.Performance: 0.8}[policy], At: w.now}}
		w.snapshot.Context.Strategies = []api.Strategy{s}
		c, err := loop.RunOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if policy = c.Policy.Name; policy == api.Performance {
			done++
		}
		r := kept.records[i]
		again := Decider{Planner: remembering{}}.Decide(r.Snapshot, r.Spec, r.Memory.(planning.Memory))
		want, _ := json.Marshal(c.Policy)
		if got, _ := json.Marshal(again.Policy); string(got) != string(want) {
			t.Fatalf("cycle %d: decided again\n%s\nwant\n%s", i, got, want)
		}
		w.now = w.now.Add(15 * time.Minute)
	}
	last := kept.records[len(kept.records)-1].Cycle.Policy
	if l := last.Strategies[0].Learning; l.Learned < 145 || l.Learned+l.Discarded != 149 || l.Discarded != 1 || policy != api.Performance || done < 4*50 {
		t.Errorf("%s in force, %d cycles of PERFORMANCE: %+v", policy, done, l)
	}
}
