package planning

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

var marginNow = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestBurst(t *testing.T) {
	shape := func(request, limit int64) *api.PodShape {
		return &api.PodShape{Requests: api.Resources{MilliCPU: request}, LimitCPU: limit}
	}
	pool := func(allocatable, cores int64) *api.Pool {
		return &api.Pool{Allocatable: api.Resources{MilliCPU: allocatable}, Cores: cores}
	}
	overhead := func(p *api.Pool, milli int64) *api.Pool {
		p.Overhead.MilliCPU = milli
		return p
	}
	using := func(p *api.Pool, milli float64) *api.Pool {
		p.StandingUsage = &milli
		return p
	}
	for name, c := range map[string]struct {
		shape *api.PodShape
		pool  *api.Pool
		least int64
		want  float64
	}{
		"cores that may not be requested, shared by request": {shape(200, 0), pool(1800, 2000), 0, 2000. / 1800},
		"nothing like it has room for the rest":              {shape(200, 0), pool(1900, 2000), 200, 2000. / 1800},
		"smaller pods have":                                  {shape(200, 0), pool(1900, 2000), 60, 2000. / 1860},
		"DaemonSets use what they request":                   {shape(200, 0), overhead(pool(1900, 2000), 300), 200, 1700. / 1600},
		"DaemonSets were seen to use less":                   {shape(200, 0), using(overhead(pool(1900, 2000), 300), 100), 200, 1900. / 1600},
		"DaemonSets were seen to use more":                   {shape(200, 0), using(overhead(pool(1900, 2000), 300), 400), 200, 1700. / 1600},
		"its limit confines it":                              {shape(200, 240), pool(940, 2000), 0, 1.2},
		"the limit is beyond its share":                      {shape(200, 1000), pool(940, 2000), 0, 2000. / 800},
		"a limit as requested":                               {shape(200, 200), pool(940, 2000), 0, 1},
		"cores that are not known":                           {shape(200, 400), pool(940, 0), 0, 1},
		"no request":                                         {shape(0, 400), pool(940, 2000), 0, 1},
		"more than a machine has":                            {shape(2000, 4000), pool(940, 2000), 0, 1},
		"no shape":                                           {nil, pool(940, 2000), 0, 1},
		"no pool":                                            {shape(200, 400), nil, 0, 1},
	} {
		if got := burst(c.shape, c.pool, c.least); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Daemons' requests and limits of nobody are not what a machine is filled with.
func TestLeastRequest(t *testing.T) {
	pod := func(milli int64, daemon bool) api.Pod {
		return api.Pod{Shape: &api.PodShape{Requests: api.Resources{MilliCPU: milli}}, DaemonSet: daemon}
	}
	s := api.Snapshot{Pods: []api.Pod{pod(10, true), pod(0, false), pod(90, false), {}}, Workloads: []api.Workload{{Shape: pod(200, false).Shape}, {}}}
	if got := leastRequest(s); got != 90 {
		t.Errorf("%d, want 90", got)
	}
	if got := leastRequest(api.Snapshot{}); got != 0 {
		t.Errorf("of nothing %d", got)
	}
}

// One start in a hundred is later than what an objective waits for, not one in ten.
func TestRareStartup(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const sigma = 0.3
	got := rare(api.StartupLatency{P50: 60 * time.Second, P90: time.Duration(60 * float64(time.Second) * math.Exp(1.2816*sigma))})
	late := 0
	for range 100_000 {
		if 60*math.Exp(sigma*r.NormFloat64()) > got.P90.Seconds() {
			late++
		}
	}
	if late < 900 || late > 1100 {
		t.Errorf("%d of 100,000 starts are later than %v", late, got.P90)
	}
	for _, l := range []api.StartupLatency{{}, {P90: time.Minute}, {P50: time.Minute, P90: time.Minute}} {
		if got := rare(l); got != l {
			t.Errorf("%+v became %+v", l, got)
		}
	}
}

func TestMarginsBound(t *testing.T) {
	m := Margins{Pod: forecast.Growth{Factor: 2}, Node: forecast.Growth{Factor: 3}, Most: 500}
	for name, c := range map[string]struct {
		demand, now, nodes float64
	}{
		"by the factors":                        {100, 200, 300},
		"no more than it ever was, and a tenth": {240, 480, 500},
		"but a tenth more than there is":        {480, 528, 528},
		"none":                                  {0, 0, 0},
	} {
		if now, nodes := m.Pods(c.demand, marginNow), m.Nodes(c.demand, marginNow); math.Abs(now-c.now) > 1e-9 || math.Abs(nodes-c.nodes) > 1e-9 {
			t.Errorf("%s: %v and %v, want %v and %v", name, now, nodes, c.now, c.nodes)
		}
	}
	if !m.Beyond(460) || m.Beyond(450) {
		t.Error("beyond what there was is what comes within a tenth of Most")
	}
}

// bursts are a day of demand with a burst of a minute each 31 minutes.
func bursts() api.Series {
	day := api.Series{Start: marginNow.Add(-24 * time.Hour), Step: 15 * time.Second}
	for i := range 24 * 60 * 4 {
		v := 100.
		if i/4%31 == 30 {
			v = 250
		}
		day.Values = append(day.Values, v)
	}
	return day
}

// A cycle takes margins once, counts what pods burst by where they are and where they may
// go, and forgets both with a policy that states no objective.
func TestCyclesTakeMargins(t *testing.T) {
	slow := api.Pool{Name: "slow", Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: api.Resources{MilliCPU: 1000}, Cores: 2000, CPUSpeed: 0.5}
	fast := api.Pool{Name: "fast", Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: api.Resources{MilliCPU: 1900}, Cores: 2000, CPUSpeed: 1}
	shape := &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 200, Pods: 1}, LimitCPU: 300}
	key := api.Key{Namespace: "shop", Name: "web"}
	s := api.Snapshot{
		Time: marginNow, Metrics: api.SourceHealth{Reachable: true}, Pools: []api.Pool{fast, slow},
		Nodes: []api.Node{{Name: "n", Pool: "slow", Zone: "a", Ready: true, Allocatable: slow.Allocatable}},
		Pods:  []api.Pod{{Key: api.Key{Namespace: "shop", Name: "web-1"}, Workload: key, Node: "n", Shape: shape, Ready: true}},
		Workloads: []api.Workload{{
			Key: key, Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: 9, Replicas: 1, ReadyReplicas: 1, Shape: shape, SpeedNow: 0.5, Demand: bursts(),
		}},
	}
	h := Hierarchy{Config: DefaultConfig()}
	h.Config.Stabilization, h.Config.NodeStabilization = 0, 0
	for name, c := range map[string]struct {
		policy           api.Policy
		known            bool
		now, slow, swift float64
	}{
		"an objective, and bursts":     {api.Policy{Objective: 0.99, Burst: true}, true, 0.75, 0.75, 1 * 2000. / 1800},
		"an objective within requests": {api.Policy{Objective: 0.99}, true, 0.5, 0.5, 1},
		"no objective":                 {api.Policy{Burst: true}, false, 0.5, 0.5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.policy.NodePools = []string{"slow", "fast"}
			before := Memory{Workloads: []WorkloadMemory{{Key: key, Replicas: 1, Margins: Margins{Objective: 0.5, Pod: forecast.Growth{Factor: 9}, Node: forecast.Growth{Factor: 9}}}}}
			got := newCycle(h, s, c.policy, before, "")
			mw := &got.managed[0]
			if m := mw.memory.Margins; m.Known() != c.known || c.known && m.Pod.Factor != 2.5 {
				t.Fatalf("margins %+v", m)
			}
			for what, v := range map[string][2]float64{
				"where it is": {mw.workload.SpeedNow, c.now}, "on the slow pool": {got.speed(mw, &slow), c.slow}, "on the fast one": {got.speed(mw, &fast), c.swift},
			} {
				if math.Abs(v[0]-v[1]) > 1e-9 {
					t.Errorf("a core %s does %v, want %v", what, v[0], v[1])
				}
			}
			mw.memory.Margins.Told = 3
			if there := got.on("slow"); there.managed[0].memory.Margins.Told != 3 {
				t.Error("what this cycle knows is not what it knows on one pool")
			}
		})
	}
}

// Replicas are held as long as their nodes, and where nobody plans nodes as an HPA holds
// them; by a configuration that holds them for longer, for that long.
func TestReplicasAreHeldWithTheirNodes(t *testing.T) {
	for _, c := range []struct {
		nodes       bool
		pods, holds time.Duration
	}{
		{true, 5 * time.Minute, 10 * time.Minute}, {false, 5 * time.Minute, 5 * time.Minute},
		{true, time.Hour, time.Hour}, {false, time.Hour, time.Hour},
	} {
		of := cycle{Hierarchy: Hierarchy{Config: DefaultConfig()}}
		of.Config.Stabilization = c.pods
		if c.nodes {
			of.pools = []api.Pool{{Name: "e2"}}
		}
		if got := of.longestWindows(of.s.PodStartup).PodHold; got != c.holds {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// No cycle reads more of history than there is time for: who waits longest comes first.
func TestMarginsAreTakenWithinABudget(t *testing.T) {
	s := api.Snapshot{Time: marginNow, Metrics: api.SourceHealth{Reachable: true}}
	var before Memory
	demand := bursts()
	n := 3*marginWork/(marginReads*len(demand.Values)) + 1
	for i := range n {
		w := api.Workload{Key: api.Key{Namespace: "shop", Name: fmt.Sprintf("web-%05d", i)}, Mode: api.ModeFull, Replicas: 1, SpeedNow: 1, Demand: demand}
		s.Workloads = append(s.Workloads, w)
	}
	p, h := api.Policy{Objective: 0.99}, Hierarchy{Config: DefaultConfig()}
	for cycle := range 4 {
		c := newCycle(h, s, p, before, "")
		before.Workloads = nil
		taken, first := 0, 0
		for i := range c.managed {
			m := c.managed[i].memory
			if m.Margins.At.Equal(s.Time) {
				taken++
			}
			if !m.Margins.At.IsZero() {
				first++
			}
			before.Workloads = append(before.Workloads, m)
		}
		if most := marginWork / (marginReads * len(demand.Values)); taken > most {
			t.Errorf("cycle %d takes %d, more than %d", cycle, taken, most)
		}
		if cycle == 3 && first != n {
			t.Errorf("%d of %d have margins after %d cycles", first, n, cycle+1)
		}
		s.Time = s.Time.Add(15 * time.Second)
	}
}

func TestMarginsAreTaken(t *testing.T) {
	day := bursts()
	windows := DefaultConfig().windows(api.StartupLatency{P90: 30 * time.Second}, api.StartupLatency{P90: 2 * time.Minute})
	windows.PodHold, windows.NodeHold = 0, 0
	before := Margins{At: marginNow.Add(-time.Minute), Objective: 0.99, Pod: forecast.Growth{Factor: 7}, Node: forecast.Growth{Factor: 8}, Most: 9, Told: 2, Yield: Yield{Share: 0.5}}
	for name, c := range map[string]struct {
		before Margins
		change func(*api.Workload, *api.Policy)
		want   Margins
	}{
		"of the history": {want: Margins{At: marginNow, Objective: 0.99, Pod: forecast.Growth{Factor: 2.5}, Node: forecast.Growth{Factor: 2.5}, Most: 275}},
		"of one that is too short for the objective": {
			change: func(_ *api.Workload, p *api.Policy) { p.Objective = 0.9999 },
			want:   Margins{At: marginNow, Objective: 0.9999},
		},
		"of replicas that stay as long as their author says": {
			change: func(w *api.Workload, _ *api.Policy) {
				w.Behavior.ScaleDown.WindowStated, w.Behavior.ScaleDown.StabilizationWindow = true, 24*time.Hour
			},
			want: Margins{At: marginNow, Objective: 0.99, Pod: forecast.Growth{Factor: 1}, Node: forecast.Growth{Factor: 2.5}, Most: 275},
		},
		"a while ago": {before: before, want: before},
		"a while ago by another objective": {
			before: before, change: func(_ *api.Workload, p *api.Policy) { p.Objective = 0.98 },
			want: Margins{At: marginNow, Objective: 0.98, Pod: forecast.Growth{Factor: 2.5}, Node: forecast.Growth{Factor: 2.5}, Most: 275, Told: 2, Yield: Yield{Share: 0.5}},
		},
		"too long ago": {
			before: Margins{At: marginNow.Add(-time.Hour), Objective: 0.99, Pod: forecast.Growth{Factor: 7}, Told: 2},
			want:   Margins{At: marginNow, Objective: 0.99, Pod: forecast.Growth{Factor: 2.5}, Node: forecast.Growth{Factor: 2.5}, Most: 275, Told: 2},
		},
		"none without an objective":              {before: before, change: func(_ *api.Workload, p *api.Policy) { p.Objective = 0 }},
		"none for who states a target":           {before: before, change: func(w *api.Workload, _ *api.Policy) { w.TargetUtilization = 0.7 }},
		"none where CPU is no measure of demand": {before: before, change: func(w *api.Workload, _ *api.Policy) { w.Triggers, w.IgnoreCPU = []api.Trigger{{}}, true }},
		"none where there was demand after none at all": {
			change: func(w *api.Workload, _ *api.Policy) {
				w.Demand.Values = append([]float64(nil), w.Demand.Values...)
				for i := range w.Demand.Values {
					if w.Demand.Values[i] < 200 {
						w.Demand.Values[i] = 0
					}
				}
			},
			want: Margins{At: marginNow, Objective: 0.99},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := api.Workload{Key: api.Key{Namespace: "shop", Name: "web"}, Replicas: 2, Demand: day}, api.Policy{Objective: 0.99}
			if c.change != nil {
				c.change(&w, &p)
			}
			got := c.before
			if due, none := got.due(w, p, marginNow); none {
				got = Margins{}
			} else if due {
				got = got.taken(w, p, marginNow, windows)
			}
			if math.Abs(got.Most-c.want.Most) < 1e-6 {
				got.Most = c.want.Most
			}
			if got.At != c.want.At || got.Objective != c.want.Objective || got.Pod.Factor != c.want.Pod.Factor || got.Node.Factor != c.want.Node.Factor || got.Most != c.want.Most || got.Told != c.want.Told || got.Yield.Share != c.want.Yield.Share {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// The factor of forecasts comes to where they cover the objective's share of times, though
// they say far too little, or far too much.
func TestForecastsAreCorrectedByWhatCame(t *testing.T) {
	const objective = 0.99
	for name, said := range map[string]float64{"too little": 60, "too much": 900, "about right": 110} {
		m := Margins{Objective: objective, Pod: forecast.Growth{Factor: 1}, Node: forecast.Growth{Factor: 1}, Most: 1e6}
		now, missed, n := marginNow, 0, 20_000
		for i := range n {
			// A triangle of 80 to 120, for which 120/said covers everything.
			demand := 100 + 20*math.Abs(float64(i%41)/20-1)
			f := &api.Forecast{Start: now, Step: time.Hour, Levels: []float64{0.9}, Quantiles: [][]float64{{said}}}
			if len(m.Due) > 0 && !m.Due[0].At.After(now) && demand > said*m.Told && i > n/2 {
				missed++
			}
			m = m.compared(now, demand, api.Series{}).says(f, 0.9, now, time.Minute)
			now = now.Add(time.Minute)
		}
		share := 1 - 2*float64(missed)/float64(n)
		if share < objective-0.005 {
			t.Errorf("%s: %.4f of times were covered, want %v", name, share, objective)
		}
		if m.Told < 1.1 || name == "too little" && (m.Told < 1.9 || m.Told > 3) || name == "too much" && m.Told > 1.101 {
			t.Errorf("%s: the factor is %v", name, m.Told)
		}
		if len(m.Due) > 2 {
			t.Errorf("%s: %d times are due", name, len(m.Due))
		}
	}
}

// What was due while demand was not known is compared with what history has of then, or with
// nothing: not all of it with the one sample of now.
func TestWhatWasDueInAGapIsComparedWithThen(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		history []float64 // of the ten minutes before now, one each
		misses  float64
	}{
		"history is lost":          {nil, 1},
		"all of it is a gap":       {[]float64{nan, nan, nan, nan, nan, nan, nan, nan, nan, nan}, 1},
		"it was read afterwards":   {[]float64{50, 50, 50, 50, 50, 50, 50, 50, 50, 50}, 1},
		"some of it was too much":  {[]float64{nan, nan, nan, 300, 300, nan, nan, nan, nan, nan}, 3},
		"its samples are the same": {[]float64{300, 300, 300, 300, 300, 300, 300, 300, 300, 300}, 10},
	} {
		m := Margins{Objective: 0.99, Told: 1.25}
		for i := range 10 {
			m.Due = append(m.Due, Said{At: marginNow.Add(time.Duration(i-9) * time.Minute), Demand: 100})
		}
		got := m.compared(marginNow, 300, api.Series{Start: marginNow.Add(-9 * time.Minute), Step: time.Minute, Values: c.history})
		judged := 1.
		for i := 0; i+1 < len(c.history); i++ {
			if !math.IsNaN(c.history[i]) {
				judged++
			}
		}
		want := 1.25 * math.Exp(toldRate*(c.misses-judged*(1-m.Objective)))
		if math.Abs(got.Told-want) > 1e-9 && c.misses < 10 || got.Told > 10 || len(got.Due) > 0 {
			t.Errorf("%s: the factor is %v with %d due, want %v", name, got.Told, len(got.Due), want)
		}
	}
}
