package planning_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
)

// TestRestart: an operator that is restarted between two cycles decides what it would
// have decided without, while one that starts without its memory doesn't: it has lost
// stabilisation and what forecasts are worth.
func TestRestart(t *testing.T) {
	f, err := forecast.ByName(forecast.QuickName)
	if err != nil {
		t.Fatal(err)
	}
	run := func(restart func(planning.Memory, time.Time) planning.Memory) (plans []string) {
		w := large(t, 8, 30*time.Minute, forecast.Guarded(f))
		for i := range 24 {
			w.cycle()
			if i == 15 {
				w.memory = restart(w.memory, w.snapshot().Time)
			}
			if i >= 15 {
				s := w.snapshot()
				plan, _ := w.planner.Plan(s, w.policy, w.memory)
				digest, err := record.Digest(w.policy, plan, nil)
				if err != nil {
					t.Fatal(err)
				}
				plans = append(plans, digest)
			}
		}
		return plans
	}
	want := run(func(m planning.Memory, _ time.Time) planning.Memory { return m })
	dir := t.TempDir()
	got := run(func(m planning.Memory, now time.Time) planning.Memory {
		c, err := record.NewCheckpoints[planning.Memory](dir, "")
		if err != nil {
			t.Fatal(err)
		}
		if notes := c.Save(m, now, false); len(notes) > 0 {
			t.Fatal(notes)
		}
		next, kept, notes, _ := c.Load()
		if len(notes) > 0 {
			t.Fatal(notes)
		}
		return next.Resumed(kept, now)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a restart with a checkpoint decides otherwise:\n%s", diff)
	}
	lost := run(func(planning.Memory, time.Time) planning.Memory { return planning.Memory{} })
	if cmp.Equal(want, lost) {
		t.Error("nothing was lost without a checkpoint: the test shows nothing")
	}
}

// TestResumed: what is too old is left out.
func TestResumed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := planning.Memory{Policy: "P", Start: now.Add(-time.Hour), Workloads: []planning.WorkloadMemory{{IdleSince: now, Readings: nil}}}
	for name, c := range map[string]struct {
		age  time.Duration
		want planning.Memory
	}{
		"a cycle old":      {15 * time.Second, m},
		"ten minutes old":  {10 * time.Minute, m},
		"two hours old":    {2 * time.Hour, planning.Memory{}},
		"of last week":     {7 * 24 * time.Hour, planning.Memory{}},
		"of the future":    {-time.Hour, planning.Memory{}},
		"a second too new": {-time.Second, m},
	} {
		t.Run(name, func(t *testing.T) {
			got := m.Resumed(now.Add(-c.age), now)
			if got.Hash() != c.want.Hash() {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestResumedLearning: what strategies have learned is kept at any age, and whether their
// rules were on is not.
func TestResumedLearning(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := api.Key{Namespace: "shop", Name: "s"}
	learned := &api.Learning{Of: "x", Learned: 700, Arms: []api.LearnedArm{{Policy: "A", Gram: []float64{700}, Sum: []float64{350}, Rounds: 700}}}
	m := planning.Memory{Strategies: []api.StrategyState{
		{Key: api.Key{Namespace: "shop", Name: "ruled"}, Rules: []api.RuleState{{Name: "r", On: true}}},
		{Key: key, Rules: []api.RuleState{{Name: "r", On: true}}, Learning: learned},
	}}
	for _, age := range []time.Duration{-time.Hour, 2 * time.Hour, 30 * 24 * time.Hour} {
		want := []api.StrategyState{{Key: key, Learning: learned}}
		if diff := cmp.Diff(want, m.Resumed(now.Add(-age), now).Strategies); diff != "" {
			t.Errorf("%v: %s", age, diff)
		}
	}
	if got := m.Resumed(now.Add(-time.Minute), now).Strategies; len(got) != 2 {
		t.Errorf("%+v", got)
	}
}
