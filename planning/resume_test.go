package planning_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/sizing"
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

// TestResumedLearning: what strategies have learned is kept at any age, as is the spec of one that
// can't be used as it is; whether their rules were on is not.
func TestResumedLearning(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := api.Key{Namespace: "shop", Name: "s"}
	broken := api.Key{Namespace: "shop", Name: "t"}
	learned := &api.Learning{Of: "x", Learned: 700, Arms: []api.LearnedArm{{Policy: "A", Gram: []float64{700}, Sum: []float64{350}, Rounds: 700}}}
	m := planning.Memory{Strategies: []api.StrategyState{
		{Key: api.Key{Namespace: "shop", Name: "ruled"}, Rules: []api.RuleState{{Name: "r", On: true}}},
		{Key: key, Rules: []api.RuleState{{Name: "r", On: true}}, Learning: learned, Spec: "{}"},
		{Key: broken, Rules: []api.RuleState{{Name: "r", On: true}}, Spec: "{}", Stays: true},
	}}
	for _, age := range []time.Duration{-time.Hour, 2 * time.Hour, 30 * 24 * time.Hour} {
		want := []api.StrategyState{{Key: key, Learning: learned}, {Key: broken, Spec: "{}", Stays: true}}
		if diff := cmp.Diff(want, m.Resumed(now.Add(-age), now).Strategies); diff != "" {
			t.Errorf("%v: %s", age, diff)
		}
	}
	if got := m.Resumed(now.Add(-time.Minute), now).Strategies; len(got) != 3 {
		t.Errorf("%+v", got)
	}
}

// TestResumedSizes: what containers were chosen to request, and why, is kept at any age; a workload of which
// nothing else is known is one that nothing is known of.
func TestResumedSizes(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sizes := &sizing.Memory{Template: now.Add(-3 * time.Hour), Kills: []sizing.Kill{{Name: "web", At: now.Add(-3 * time.Hour), Limit: 1 << 30}}}
	key := api.Key{Namespace: "shop", Name: "web"}
	m := planning.Memory{Workloads: []planning.WorkloadMemory{
		{Key: api.Key{Namespace: "shop", Name: "api"}, Replicas: 3, Planned: 3},
		{Key: key, Replicas: 7, Planned: 9, NodeReplicas: 9, Sizing: sizes},
	}}
	for _, age := range []time.Duration{2 * time.Hour, 7 * 24 * time.Hour} {
		want := []planning.WorkloadMemory{{Key: key, Sizing: sizes, SizesOnly: true}}
		if diff := cmp.Diff(want, m.Resumed(now.Add(-age), now).Workloads); diff != "" {
			t.Errorf("%v: %s", age, diff)
		}
	}
	if got := m.Resumed(now.Add(time.Hour), now).Workloads; len(got) > 0 {
		t.Errorf("of the future: %+v", got)
	}

	f, err := forecast.ByName(forecast.QuickName)
	if err != nil {
		t.Fatal(err)
	}
	w := large(t, 2, 30*time.Minute, forecast.Guarded(f))
	s := w.snapshot()
	digest := func(m planning.Memory) (string, planning.Memory) {
		plan, next := w.planner.Plan(s, w.policy, m)
		text, err := record.Digest(w.policy, plan, nil)
		if err != nil {
			t.Fatal(err)
		}
		return text, next
	}
	want, _ := digest(planning.Memory{})
	var old planning.Memory
	for _, workload := range s.Workloads {
		old.Workloads = append(old.Workloads, planning.WorkloadMemory{Key: workload.Key, Replicas: 70, Planned: 90, NodeReplicas: 90, Sizing: sizes})
	}
	got, next := digest(old.Resumed(now.Add(-2*time.Hour), now))
	if got != want {
		t.Error("with sizes alone it plans otherwise than with nothing")
	}
	for _, left := range next.Workloads {
		if left.SizesOnly {
			t.Errorf("%s has sizes only after a cycle", left.Key)
		}
	}
}

// TestAwayIsNoReasonToGiveUp: while nothing was planned nobody knows what was asked for. What runs stays for the
// usual time after the first reading, and the time away is no part of a cooldown.
func TestAwayIsNoReasonToGiveUp(t *testing.T) {
	for name, c := range map[string]struct {
		world func(w *world) *load
		least time.Duration // that replicas stay after the first cycle
		to    int32         // and then become
	}{
		"less demand": {
			func(w *world) *load {
				return w.add("web", 8, 20, 0, func(now time.Time) float64 {
					if now.Sub(start) < 10*time.Minute {
						return 600
					}
					return 60
				})
			}, config().Stabilization, 1,
		},
		"a queue that is empty": {
			func(w *world) *load {
				w.policy = zeroable(w.policy)
				return w.consumer(1, 0, burst(0, 4*time.Minute, 10))
			}, 3 * time.Minute, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, costSaving(), nil)
			l := c.world(w)
			for w.now.Sub(start) < 5*time.Minute {
				w.cycle()
			}
			w.now = w.now.Add(20 * time.Minute)
			began, before := w.now, l.Replicas
			for w.now.Sub(began) < c.least {
				if w.cycle(); l.Replicas < before {
					t.Fatalf("%d instead of %d replicas %v after the first cycle: %s", l.Replicas, before, w.now.Add(-w.period).Sub(began), w.lastPlan.Workloads[0].Reason)
				}
			}
			for w.now.Sub(began) < 2*config().NodeStabilization {
				w.cycle()
			}
			if l.Replicas != c.to {
				t.Errorf("%d replicas in the end, want %d: %s", l.Replicas, c.to, w.lastPlan.Workloads[0].Reason)
			}
		})
	}
}
