package planning

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// halfHourly are bursts a little more than half an hour apart, and a larger one long ago.
func halfHourly() api.Series {
	day := bursts()
	day.Values[10] = 900
	return day
}

// What comes again every half hour is kept until it does, once there are margins: not by the
// first ones, nor for who states a window, nor where nodes are not planned.
func TestHoldIsChosen(t *testing.T) {
	for name, c := range map[string]struct {
		stated, alone bool
		demand        api.Series
		want          time.Duration // after the second margins
	}{
		"bursts come again":          {demand: halfHourly(), want: 30 * time.Minute},
		"nothing comes":              {demand: api.Series{Start: marginNow.Add(-24 * time.Hour), Step: time.Minute, Values: flat(24*60, 100)}, want: 10 * time.Minute},
		"the author states a window": {demand: halfHourly(), stated: true},
		"no nodes are planned":       {demand: halfHourly(), alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := api.Workload{Key: api.Key{Namespace: "shop", Name: "web"}, Mode: api.ModeFull, Replicas: 2, SpeedNow: 1, Demand: c.demand}
			w.Behavior.ScaleDown.WindowStated, w.Behavior.ScaleDown.StabilizationWindow = c.stated, 5*time.Minute
			s := api.Snapshot{Time: marginNow, Metrics: api.SourceHealth{Reachable: true}, Workloads: []api.Workload{w}}
			if !c.alone {
				s.Pools = []api.Pool{{Name: "e2", Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: api.Resources{MilliCPU: 1000}}}
			}
			h, p := Hierarchy{Config: DefaultConfig(), Nodes: struct{ NodePlanner }{}}, api.Policy{Objective: 0.99, NodePools: []string{"e2"}}
			after := func(before Margins, past time.Duration) Margins {
				s.Time = s.Time.Add(past)
				of := newCycle(h, s, p, Memory{Workloads: []WorkloadMemory{{Key: w.Key, Margins: before}}}, "")
				return of.managed[0].memory.Margins
			}
			first := after(Margins{}, 0)
			if !first.Known() || first.Hold != 0 {
				t.Fatalf("the first: %+v", first)
			}
			second := after(first, marginsFor)
			if second.Hold != c.want {
				t.Fatalf("held for %v, want %v", second.Hold, c.want)
			}
			if c.want > 10*time.Minute && !(second.Node.Factor < first.Node.Factor) {
				t.Errorf("what is kept need not be foreseen: %v, and %v before", second.Node.Factor, first.Node.Factor)
			}
			if third := after(second, marginsFor); third.Hold != c.want || third.HeldAt != second.HeldAt {
				t.Errorf("chosen anew within the hour: %+v", third)
			}
			if fourth := after(second, holdFor); fourth.HeldAt != second.HeldAt && fourth.HeldAt != s.Time {
				t.Errorf("an hour later: %+v", fourth)
			} else if c.want > 0 && fourth.HeldAt != s.Time {
				t.Error("not chosen anew after an hour")
			}
		})
	}
}

// A window that is stated afterwards counts from then on, for nodes too. What another policy
// needed is kept for no longer than ever, for as long as any hold.
func TestHoldIsForgotten(t *testing.T) {
	windows := DefaultConfig().windows(api.StartupLatency{P90: 30 * time.Second}, api.StartupLatency{P90: 2 * time.Minute})
	before := Margins{Objective: 0.99, Pod: forecast.Growth{Factor: 2}, Hold: time.Hour, HeldAt: marginNow.Add(-holdFor)}
	for name, c := range map[string]struct {
		stated    bool
		objective float64
		hold      time.Duration
		at        time.Time
	}{
		"nothing has changed": {objective: 0.99, hold: time.Hour, at: before.HeldAt},
		"a stated window":     {objective: 0.99, stated: true},
		"another objective":   {objective: 0.98, at: marginNow},
	} {
		w, p := api.Workload{Demand: halfHourly()}, api.Policy{Objective: c.objective}
		w.Behavior.ScaleDown.WindowStated = c.stated
		if again := before.holds(w, p, marginNow, windows); again != (name == "nothing has changed") {
			t.Errorf("%s: chosen anew: %v", name, again)
		}
		if got := before.taken(w, p, marginNow, windows); !got.Known() || got.Hold != c.hold || got.HeldAt != c.at {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func flat(n int, v float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}
