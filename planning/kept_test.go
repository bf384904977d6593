package planning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
)

// TestKept: a leader that starts with what was kept of a memory knows at once what
// forecasts are worth, and what was needed before; one that starts without doesn't.
func TestKept(t *testing.T) {
	f, err := forecast.ByName(forecast.QuickName)
	if err != nil {
		t.Fatal(err)
	}
	w := large(t, 8, 30*time.Minute, forecast.Guarded(f))
	for range 40 {
		w.cycle()
	}
	codec, err := record.NewCodec[planning.Kept]("")
	if err != nil {
		t.Fatal(err)
	}
	s := w.snapshot()
	b, err := codec.Encode(w.memory.Kept(), s.Time)
	if err != nil {
		t.Fatal(err)
	}
	k, at, err := codec.Decode(b)
	if err != nil || !at.Equal(s.Time) {
		t.Fatal(at, err)
	}
	restored := k.Restored().Resumed(at, s.Time)
	if restored.Hash() != w.memory.Hash() {
		t.Error("what is no cache is not the same")
	}
	if again, err := codec.Encode(restored.Kept(), s.Time); err != nil || string(again) != string(b) {
		t.Error("what is kept of it is not the same")
	}
	trust := func(m planning.Memory) (out map[api.Trust]int) {
		out = map[api.Trust]int{}
		plan, _ := w.planner.Plan(s, w.policy, m)
		for _, p := range plan.Workloads {
			if p.Skill != nil {
				out[p.Skill.Trust]++
			}
		}
		return out
	}
	with, without, before := trust(restored), trust(planning.Memory{}), trust(w.memory)
	t.Logf("%d bytes; trust of the leader before %v, of one with what was kept %v, without %v", len(b), before, with, without)
	if fmt.Sprint(with) != fmt.Sprint(before) {
		t.Errorf("trust %v, want those of the leader before, %v", with, before)
	}
}

// BenchmarkKept is how many bytes what is kept takes, and how long it takes to encode.
func BenchmarkKept(b *testing.B) {
	for _, workloads := range []int{100, 1000} {
		b.Run(fmt.Sprintf("workloads=%d", workloads), func(b *testing.B) {
			w := newLogged(b, workloads, true)
			for range 20 {
				w.cycle()
			}
			codec, err := record.NewCodec[planning.Kept]("")
			if err != nil {
				b.Fatal(err)
			}
			var kept []byte
			for b.Loop() {
				if kept, err = codec.Encode(w.memory.Kept(), w.now); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(kept)), "B")
			b.ReportMetric(float64(len(kept))/float64(workloads), "B/workload")
		})
	}
}

// TestSignalsAreRemembered: what signals and strategies were is in the memory after a plan and in what is
// kept of it for the next process.
func TestSignalsAreRemembered(t *testing.T) {
	w := newWorld(t, performance(), nil)
	w.policy.Signals = []api.SignalState{{Name: "spend", On: true, Since: start, Reason: "it is"}}
	w.policy.Strategies = []api.StrategyState{{Key: api.Key{Namespace: "shop", Name: "s"}, Choice: &api.Choice{Candidate: "edge", Gain: 0.1}}}
	w.cycle()
	restored := w.memory.Kept().Restored().Resumed(w.now, w.now.Add(time.Hour))
	if len(restored.Signals) != 1 || restored.Signals[0] != w.policy.Signals[0] {
		t.Errorf("signals %+v", restored.Signals)
	}
	if len(restored.Strategies) != 1 || restored.Strategies[0].Choice.Gain != 0.1 {
		t.Errorf("strategies %+v", restored.Strategies)
	}
}
