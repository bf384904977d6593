package replay

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestBalance: cost is each plan until the next, and short is what was decided a startup
// latency before against the demand that came.
func TestBalance(t *testing.T) {
	start := time.Date(2026, 3, 9, 14, 0, 0, 0, time.UTC)
	a, b := api.Key{Namespace: "n", Name: "a"}, api.Key{Namespace: "n", Name: "b"}
	type cycle struct {
		demand            [2]float64 // of a and b, millicores
		recorded, decided [2]int32
		hourly            [2]float64
	}
	run := func(lead time.Duration, cycles ...cycle) Balance {
		var s scales
		for i, c := range cycles {
			at := start.Add(time.Duration(i) * time.Minute)
			snapshot := api.Snapshot{Time: at, PodStartup: api.StartupLatency{P90: lead}}
			plan := func(n [2]int32, hourly float64) api.Plan {
				p := api.Plan{Nodes: api.NodePlan{HourlyCost: hourly}}
				for k, key := range []api.Key{a, b} {
					p.Workloads = append(p.Workloads, api.WorkloadPlan{Key: key, Scale: api.Scale{Replicas: n[k]}, Request: 500})
				}
				return p
			}
			for k, key := range []api.Key{a, b} {
				snapshot.Workloads = append(snapshot.Workloads, api.Workload{
					Key: key, SpeedNow: 1, Demand: api.Series{Start: at, Step: time.Minute, Values: []float64{c.demand[k]}},
				})
			}
			s.add(snapshot, plan(c.recorded, c.hourly[0]), plan(c.decided, c.hourly[1]))
		}
		return s.balance()
	}
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
	calm := cycle{[2]float64{700, 700}, [2]int32{2, 2}, [2]int32{2, 2}, [2]float64{6, 12}}
	got := run(0, calm, calm, calm)
	if !near(got.Cost.Recorded, 0.2) || !near(got.Cost.Decided, 0.4) || got.Short != (Weighed{}) || !near(got.Judged, 4) || got.Worst != nil {
		t.Errorf("calm: %+v", got)
	}
	// One replica of a is too few for 700 millicores, from the next minute on.
	fewer := cycle{[2]float64{700, 700}, [2]int32{2, 2}, [2]int32{1, 2}, [2]float64{6, 6}}
	got = run(30*time.Second, fewer, fewer, fewer, fewer)
	if !near(got.Short.Decided, 3) || got.Short.Recorded != 0 || got.Worst == nil || got.Worst.Workload != "n/a" || !got.Worst.At.Equal(start.Add(time.Minute)) ||
		!near(got.Worst.Needs, 1.75) || got.Worst.Decided != 1 {
		t.Errorf("fewer: %+v %+v", got, got.Worst)
	}
	// What is decided when demand is seen comes a startup latency too late for it.
	burst := cycle{[2]float64{2300, 700}, [2]int32{6, 2}, [2]int32{6, 2}, [2]float64{6, 6}}
	if got = run(90*time.Second, calm, calm, burst, burst, burst, burst); !near(got.Short.Decided, 2) || !near(got.Short.Recorded, 2) || got.Worst != nil {
		t.Errorf("a burst: %+v", got)
	}
	// Both short is no worse; the one that is more short is named.
	both := cycle{[2]float64{2300, 2300}, [2]int32{2, 2}, [2]int32{6, 1}, [2]float64{6, 6}}
	if got = run(0, both, both); !near(got.Short.Recorded, 2) || !near(got.Short.Decided, 1) || got.Worst != nil {
		t.Errorf("both: %+v %+v", got, got.Worst)
	}
	// One measurement after a time without records tells of five minutes, not of all of it.
	gap := func(at time.Duration, hourly float64) (api.Snapshot, api.Plan) {
		return api.Snapshot{Time: start.Add(at), Workloads: []api.Workload{{Key: a, SpeedNow: 1, Demand: api.Series{Start: start.Add(at), Step: time.Minute, Values: []float64{2300}}}}},
			api.Plan{Nodes: api.NodePlan{HourlyCost: hourly}, Workloads: []api.WorkloadPlan{{Key: a, Scale: api.Scale{Replicas: 2}, Request: 500}}}
	}
	var s scales
	for _, at := range []time.Duration{0, 10 * time.Hour} {
		snapshot, plan := gap(at, 6)
		s.add(snapshot, plan, plan)
	}
	if got = s.balance(); !near(got.Short.Recorded, 5) || !near(got.Short.Decided, 5) || !near(got.Cost.Recorded, 60) {
		t.Errorf("after a time without records: %+v", got)
	}
}
