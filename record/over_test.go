package record

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

var start = time.Date(2026, 3, 9, 14, 0, 0, 0, time.UTC)

// storyOf records one cycle a minute as told.
func storyOf(t *testing.T, cycles int, tell func(minute int, c *api.Cycle, price *float64)) *Log {
	t.Helper()
	dir := t.TempDir()
	w, err := NewWriter(Config{Dir: dir, Program: "test", KeyEvery: 7})
	if err != nil {
		t.Fatal(err)
	}
	web, db := api.Key{Namespace: "shop", Name: "web"}, api.Key{Namespace: "shop", Name: "db"}
	for m := range cycles {
		c := api.Cycle{ID: uint64(m + 1), Time: start.Add(time.Duration(m) * time.Minute), Policy: api.Policy{Name: api.CostSaving}}
		c.Plan.Workloads = []api.WorkloadPlan{{Key: db, Scale: api.Scale{Replicas: 3}}, {Key: web, Scale: api.Scale{Replicas: 10}, Binding: api.BindingForecast, Reason: "the peak"}}
		c.Plan.Nodes.Pools = []api.PoolPlan{{Pool: "n2", Nodes: 4, Reason: "room"}}
		c.Policy.ManagedPools = []string{"n2"}
		price := 1.2
		tell(m, &c, &price)
		s := api.Snapshot{Time: c.Time, Pools: []api.Pool{{Name: "n2", Sizes: []int32{1}, Price: price}, {Name: "other", Sizes: []int32{1}, Price: 9}}}
		if notes := w.Record(api.Record{Cycle: c, Snapshot: s, Memory: planning.Memory{}}); len(notes) > 0 {
			t.Fatal(notes)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOver(t *testing.T) {
	conflict := api.Finding{Severity: api.Warning, Reason: "Conflict", Object: api.WorkloadRef(api.Key{Namespace: "shop", Name: "db"}), Message: "an HPA"}
	l := storyOf(t, 40, func(m int, c *api.Cycle, price *float64) {
		web := &c.Plan.Workloads[1]
		switch {
		case m >= 20:
			web.Replicas, c.Policy.Name, c.Policy.Reason = 25, api.Performance, "set by hand"
			c.Plan.Nodes.Pools[0].Nodes = 9
			*price = 2.7
		case m >= 10:
			web.Replicas, web.Binding, web.Reason = 40, api.BindingFloor, "usage rose"
		}
		if m < 15 {
			c.Findings = []api.Finding{conflict}
		}
		if m == 12 {
			c.Outcomes = []api.Outcome{{Object: api.WorkloadRef(web.Key), Action: "scale", Error: "no"}}
		}
		if m == 30 {
			*c = api.Cycle{ID: c.ID, Time: c.Time, Error: "no picture"}
		}
	})
	at := func(minute float64) time.Time { return start.Add(time.Duration(minute * float64(time.Minute))) }

	a, err := l.Over(Question{}, at(5), at(35))
	if err != nil {
		t.Fatal(err)
	}
	if a.Cycles != 31 || a.Held != 1 || !a.From.Equal(at(5)) || !a.To.Equal(at(35)) || strings.Join(a.Policies, " ") != "COST_SAVING PERFORMANCE" {
		t.Errorf("%+v", a)
	}
	want := Course{Object: api.WorkloadRef(api.Key{Namespace: "shop", Name: "web"}), From: 10, To: 25, Least: 10, Most: 40, Steps: 2}
	if len(a.Workloads) != 1 || a.Workloads[0] != want || len(a.Pools) != 1 || a.Pools[0] != (Course{Object: api.PoolRef("n2"), From: 4, To: 9, Least: 4, Most: 9, Steps: 1}) {
		t.Errorf("workloads %+v, pools %+v", a.Workloads, a.Pools)
	}
	// 15 minutes at 1.2 and 15 at 2.7 USD/h.
	if math.Abs(a.Spent-(1.2+2.7)/4) > 1e-9 || a.HourlyFrom != 1.2 || a.HourlyTo != 2.7 {
		t.Errorf("money: %+v", a)
	}
	kinds := map[string]int{}
	for _, k := range a.Changes {
		kinds[k.Kind]++
	}
	if kinds[ReplicasChanged] != 2 || kinds[PoolChanged] != 1 || kinds[PolicyChanged] != 1 || kinds[ActionFailed] != 1 || kinds[CycleHeld] != 1 || kinds[FindingAppeared] != 0 {
		t.Errorf("%v: %+v", kinds, a.Changes)
	}
	if len(a.Gone) != 1 || a.Gone[0].Reason != "Conflict" {
		t.Errorf("gone: %+v", a.Gone)
	}

	// What was before is not told, wherever the keyframe is.
	for from := range 39 {
		a, err := l.Over(Question{}, at(float64(from)-0.5), at(39))
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range a.Changes {
			if k.Time.Before(at(float64(from) - 0.5)) {
				t.Errorf("from %d: %+v", from, k)
			}
		}
		if a.Cycles != 40-from {
			t.Errorf("from %d: %d cycles", from, a.Cycles)
		}
	}

	a, err = l.Over(Question{Workload: "shop/db"}, at(0), at(39))
	if err != nil || len(a.Workloads)+len(a.Pools) != 0 || len(a.Unchanged) != 1 || a.Unchanged[0].To != 3 {
		t.Errorf("of one that didn't change: %+v, %v", a, err)
	}
	for _, k := range a.Changes {
		if strings.Contains(k.Object.String(), "web") || k.Kind == PoolChanged {
			t.Errorf("of another: %+v", k)
		}
	}
	if a, err = l.Over(Question{Pool: "n2"}, at(0), at(39)); err != nil || len(a.Pools) != 1 || len(a.Workloads) != 0 {
		t.Errorf("of a pool: %+v, %v", a, err)
	}
	for _, c := range []struct {
		q        Question
		from, to time.Time
		says     string
	}{
		{Question{}, at(100), at(200), "no cycle was recorded"},
		{Question{Workload: "shop/nobody"}, at(0), at(39), "planned shop/nobody"},
		{Question{Pool: "none"}, at(0), at(39), "planned pool none"},
	} {
		if _, err := l.Over(c.q, c.from, c.to); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.q, err)
		}
	}
}

// The size in force when the time begins is what a change in its first cycle is from, on
// both sides of a keyframe and of a cycle that decided nothing.
func TestOverBeginsWithWhatWasInForce(t *testing.T) {
	const change = 10
	unreachable := api.Finding{Severity: api.Warning, Reason: "PrometheusUnreachable", Object: api.ParseRef("prometheus"), Message: "connection refused"}
	l := storyOf(t, 30, func(m int, c *api.Cycle, _ *float64) {
		web := &c.Plan.Workloads[1]
		web.Demand, web.Binding, web.Reason = 1000, api.BindingFloor, "usage is 1 core"
		if m >= change {
			web.Replicas, web.Demand, web.Reason = 40, 4000, "usage is 4 cores"
		}
		c.Plan.Nodes.Pools[0].Current = 4
		if m == change+5 || m == change+6 {
			c.Findings = []api.Finding{unreachable}
		}
		if m == change-1 {
			*c = api.Cycle{ID: c.ID, Time: c.Time, Error: "no picture"}
		}
	})
	web := api.WorkloadRef(api.Key{Namespace: "shop", Name: "web"})
	for minute, want := range map[int]Course{
		change - 3: {Object: web, From: 10, To: 40, Least: 10, Most: 40, Steps: 1, DemandFrom: 1000, DemandTo: 4000},
		change - 1: {Object: web, From: 10, To: 40, Least: 10, Most: 40, Steps: 1, DemandFrom: 1000, DemandTo: 4000},
		change:     {Object: web, From: 10, To: 40, Least: 10, Most: 40, Steps: 1, DemandFrom: 1000, DemandTo: 4000},
	} {
		a, err := l.Over(Question{}, start.Add(time.Duration(minute)*time.Minute-time.Second), start.Add(time.Hour))
		if err != nil || len(a.Workloads) != 1 || a.Workloads[0] != want {
			t.Errorf("from minute %d: %+v, %v", minute, a.Workloads, err)
		}
		if spent := 1.2 * float64(29-minute) / 60; a.HourlyFrom != 1.2 || math.Abs(a.Spent-spent) > 1e-9 {
			t.Errorf("from minute %d: %v USD/h, and %v USD in all, want 1.2 and %v", minute, a.HourlyFrom, a.Spent, spent)
		}
	}
	a, err := l.Over(Question{Workload: "shop/web"}, start.Add(change*time.Minute), start.Add(time.Hour))
	if err != nil || len(a.Workloads) != 1 || a.Workloads[0].Why != "floor: usage is 4 cores" {
		t.Errorf("asked for by name: %+v, %v", a.Workloads, err)
	}
	for _, q := range []Question{{Workload: "shop/web"}, {Pool: "n2"}, {}} {
		a, err := l.Over(q, start, start.Add(time.Hour))
		n := 0
		for _, k := range a.Changes {
			if k.Object == unreachable.Object {
				n++
			}
		}
		if err != nil || n != 1 {
			t.Errorf("%+v: what is about all workloads is told %d times, %v", q, n, err)
		}
	}
	a, err = l.Over(Question{Pool: "n2"}, start, start.Add(time.Hour))
	if err != nil || len(a.Unchanged) != 1 || a.Unchanged[0].Why != "4 nodes are there; room" {
		t.Errorf("a pool asked for: %+v, %v", a.Unchanged, err)
	}
}

// What bound replicas is not said twice, and a pool's reason says what it is compared with.
func TestReasonsOfChanges(t *testing.T) {
	for want, w := range map[string]api.WorkloadPlan{
		"forecast peak 1 core":     {Binding: api.BindingForecast, Reason: "forecast peak 1 core"},
		"stabilization: kept at 3": {Binding: api.BindingStabilization, Reason: "kept at 3"},
	} {
		if got := replicasWhy(w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, p := range map[string]api.PoolPlan{
		"10 nodes are there; 1 node can be emptied": {Nodes: 9, Current: 10, Reason: "1 node can be emptied"},
		"1 node is there; all nodes are needed":     {Nodes: 1, Current: 1, Reason: "all nodes are needed"},
	} {
		if got := nodesWhy(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A long story is cut, and says by how much.
func TestOverIsBounded(t *testing.T) {
	l := storyOf(t, 1200, func(m int, c *api.Cycle, _ *float64) { c.Plan.Workloads[1].Replicas = int32(10 + m%2) })
	a, err := l.Over(Question{}, start, start.Add(1e6*time.Hour))
	if err != nil || len(a.Changes) != mostListed || a.Left != 1199-mostListed {
		t.Errorf("%d listed, %d left, %v", len(a.Changes), a.Left, err)
	}
}
