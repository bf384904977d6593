package planning_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/node"
)

const (
	cheap = "mas-h2-staging-pool" // e2-medium
	fast  = "performance-pool"    // n2-standard-2
)

var start = time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)

// world is a cluster that does at once what a plan says: nodes boot and pods
// start within a cycle. Demand is what the test says it is.
type world struct {
	t        testing.TB
	now      time.Time
	period   time.Duration
	pools    []api.Pool
	loads    []*load
	nodes    []api.Node
	pods     []api.Pod
	policy   api.Policy
	steer    func(api.Snapshot) (api.Policy, api.Snapshot) // nil where policy is in force
	planner  planning.Hierarchy
	memory   planning.Memory
	names    int
	prom     bool // Prometheus answers
	nothing  bool // nothing that is planned is carried out
	lastPlan api.Plan
	texts    map[string]string
	daemons  map[string]*api.PodShape
}

// load is a workload with its demand.
type load struct {
	api.Workload
	demand func(time.Time) float64
	// change is called before each look, if there is one.
	change func(*load, time.Time)
	// there is the shape of the pods that there are; nil for that of new ones.
	there *api.PodShape
}

func pools(zones int) []api.Pool {
	var names []string
	for z := range zones {
		names = append(names, fmt.Sprintf("europe-west1-%c", 'b'+z))
	}
	lead := api.StartupLatency{P50: 50 * time.Second, P90: 75 * time.Second, Samples: 10}
	return []api.Pool{
		{
			Name: cheap, MachineType: "e2-medium", Zones: names, Sizes: make([]int32, zones),
			Allocatable: api.Resources{MilliCPU: 940, Memory: 2800 << 20, Pods: 110},
			Overhead:    api.Resources{MilliCPU: 200, Memory: 300 << 20, Pods: 5},
			Price:       0.0335, CPUSpeed: 0.5, NodeStartup: lead,
		},
		{
			Name: fast, MachineType: "n2-standard-2", Zones: names, Sizes: make([]int32, zones),
			Allocatable: api.Resources{MilliCPU: 1930, Memory: 5900 << 20, Pods: 110},
			Overhead:    api.Resources{MilliCPU: 200, Memory: 300 << 20, Pods: 5},
			Price:       0.0971, CPUSpeed: 1, NodeStartup: lead,
		},
	}
}

func costSaving() api.Policy {
	return api.Policy{
		Name: api.CostSaving, Weights: api.Weights{Performance: 0.2, Cost: 0.8},
		NodePools: []string{cheap}, ManagedPools: []string{cheap, fast},
		MinReplicas: 1, Quantile: 0.8, TargetUtilization: 0.7,
	}
}

func performance() api.Policy {
	return api.Policy{
		Name: api.Performance, Weights: api.Weights{Performance: 0.8, Cost: 0.2},
		NodePools: []string{fast}, ManagedPools: []string{cheap, fast},
		MinReplicas: 2, Quantile: 0.95, TargetUtilization: 0.6,
	}
}

func config() planning.Config { return planning.DefaultConfig() }

func hierarchy(t testing.TB, f forecast.Forecaster) planning.Hierarchy {
	t.Helper()
	nodes, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return planning.Hierarchy{
		Config:     config(),
		Planners:   map[string]planning.WorkloadPlanner{"horizontal": horizontal.Planner{}},
		Nodes:      nodes,
		Forecaster: f,
	}
}

func newWorld(t testing.TB, p api.Policy, f forecast.Forecaster) *world {
	return &world{
		t: t, now: start, period: 15 * time.Second, pools: pools(1), policy: p,
		planner: hierarchy(t, f), prom: true,
	}
}

// home makes a pool the one that workloads were last planned on.
func (w *world) home(pool string) {
	allowed := w.policy.NodePools
	w.policy.NodePools = []string{pool}
	w.cycle()
	w.policy.NodePools = allowed
}

func shape(id string, cpu, memory int64) *api.PodShape {
	return &api.PodShape{ID: id, Requests: api.Resources{MilliCPU: cpu, Memory: memory << 20, Pods: 1}}
}

// add adds a workload of 250m replicas, with a history that goes back, and
// starts its pods.
func (w *world) add(name string, replicas, most int32, history time.Duration, demand func(time.Time) float64) *load {
	l := w.load(name, replicas, most, history, demand)
	w.settle()
	return l
}

// load adds a workload whose pods settle later.
func (w *world) load(name string, replicas, most int32, history time.Duration, demand func(time.Time) float64) *load {
	l := &load{demand: demand}
	l.Workload = api.Workload{
		Key:    api.Key{Namespace: "web", Name: name},
		Target: api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
		Mode:   api.ModeFull, Planner: "horizontal", MinReplicas: 1, MaxReplicas: most,
		Replicas: replicas, ReadyReplicas: replicas, SpeedNow: 1,
		Shape: shape(name, 250, 128),
	}
	n := int(history / w.period)
	l.Demand = api.Series{Start: w.now.Add(-time.Duration(n) * w.period), Step: w.period}
	for i := range n {
		l.Demand.Values = append(l.Demand.Values, demand(l.Demand.Start.Add(time.Duration(i)*w.period)))
	}
	w.loads = append(w.loads, l)
	return l
}

// settle places all pods, on the policy's first pool, booting what is missing.
func (w *world) settle() {
	w.pods = nil
	target := w.policy.NodePools
	if w.lastPlan.Nodes.Pool != "" {
		target = []string{w.lastPlan.Nodes.Pool}
	}
	pool := &w.pools[max(0, slices.IndexFunc(w.pools, func(p api.Pool) bool { return len(target) > 0 && p.Name == target[0] }))]
	free := map[string]api.Resources{}
	var here []string
	for _, n := range w.nodes {
		if n.Pool == pool.Name {
			free[n.Name] = n.Allocatable.Minus(pool.Overhead)
			here = append(here, n.Name)
		}
	}
	for _, n := range w.nodes {
		at := w.pools[slices.IndexFunc(w.pools, func(p api.Pool) bool { return p.Name == n.Pool })]
		w.pods = append(w.pods, api.Pod{
			Key: api.Key{Namespace: "kube-system", Name: w.text("ds-%s", n.Name)}, Node: n.Name, Phase: "Running", Ready: true,
			Shape: w.daemon(n.Pool, at.Overhead), ControllerKind: "DaemonSet", DaemonSet: true,
		})
	}
	for _, l := range w.loads {
		l.SpeedNow = pool.CPUSpeed
		l.ReadyReplicas = l.Replicas
		shape := l.Shape
		if l.there != nil {
			shape = l.there
		}
		for i := range l.Replicas {
			on := ""
			for _, name := range here {
				if shape.Requests.Fits(free[name]) {
					free[name] = free[name].Minus(shape.Requests)
					on = name
					break
				}
			}
			w.pods = append(w.pods, api.Pod{
				Key: api.Key{Namespace: l.Key.Namespace, Name: w.text("%s-%d", l.Key.Name, i)}, UID: w.text("%d", i),
				Shape: shape, Node: on, Phase: map[bool]string{true: "Pending", false: "Running"}[on == ""],
				Ready: on != "", Workload: l.Key, ControllerKind: "ReplicaSet", ControllerName: l.Key.Name,
				Unschedulable: on == "",
			})
		}
	}
}

// text is formatted once: what sensing knows of a pod is the same memory in each cycle.
func (w *world) text(format string, args ...any) string {
	s := fmt.Sprintf(format, args...)
	if known, ok := w.texts[s]; ok {
		return known
	}
	if w.texts == nil {
		w.texts = map[string]string{}
	}
	w.texts[s] = s
	return s
}

// daemon is the shape of what runs on each node of a pool.
func (w *world) daemon(pool string, requests api.Resources) *api.PodShape {
	if known, ok := w.daemons[pool]; ok {
		return known
	}
	if w.daemons == nil {
		w.daemons = map[string]*api.PodShape{}
	}
	w.daemons[pool] = &api.PodShape{ID: w.text("ds-%s", pool), Requests: requests}
	return w.daemons[pool]
}

func (w *world) snapshot() api.Snapshot {
	s := api.Snapshot{
		Time: w.now, Pods: w.pods, Nodes: w.nodes, Pools: w.pools,
		PodStartup:      api.StartupLatency{P50: 4 * time.Second, P90: 8 * time.Second, Samples: 20},
		Metrics:         api.SourceHealth{Reachable: w.prom, LastOK: w.now},
		ResourceMetrics: api.SourceHealth{Reachable: true, LastOK: w.now},
	}
	for _, l := range w.loads {
		if l.change != nil {
			l.change(l, w.now)
		}
		l.Demand.Values = append(slices.Clone(l.Demand.Values), l.demand(w.now))
		l.DemandStale = !w.prom
		s.Workloads = append(s.Workloads, l.Workload)
	}
	slices.SortFunc(s.Workloads, func(a, b api.Workload) int {
		if a.Key.Less(b.Key) {
			return -1
		}
		return 1
	})
	return s
}

// cycle observes, plans and carries the plan out.
func (w *world) cycle() api.Plan {
	w.t.Helper()
	s, p := w.snapshot(), w.policy
	if w.steer != nil {
		p, s = w.steer(s)
	}
	plan, memory := w.planner.Plan(s, p, w.memory)
	w.carry(plan, memory)
	return plan
}

// carry carries a plan out.
func (w *world) carry(plan api.Plan, memory planning.Memory) {
	w.memory, w.lastPlan = memory, plan
	w.now = w.now.Add(w.period)
	if w.nothing {
		return
	}
	for _, wp := range plan.Workloads {
		for _, l := range w.loads {
			if l.Key == wp.Key && !wp.Shadow {
				l.Replicas = wp.Replicas
			}
		}
	}
	for _, pp := range plan.Nodes.Pools {
		w.resize(pp)
	}
	w.settle()
}

func (w *world) resize(pp api.PoolPlan) {
	pool := &w.pools[slices.IndexFunc(w.pools, func(p api.Pool) bool { return p.Name == pp.Pool })]
	// Clone: the snapshot before shares what it points at.
	pool.Sizes = slices.Clone(pool.Sizes)
	byZone := map[string][]api.Node{}
	var rest []api.Node
	for _, n := range w.nodes {
		if n.Pool == pool.Name {
			byZone[n.Zone] = append(byZone[n.Zone], n)
		} else {
			rest = append(rest, n)
		}
	}
	for i, zone := range pool.Zones {
		pool.Sizes[i] = pp.SizePerZone
		for len(byZone[zone]) < int(pp.SizePerZone) {
			w.names++
			byZone[zone] = append(byZone[zone], api.Node{
				Name: fmt.Sprintf("%s-%04d", pool.Name, w.names), Pool: pool.Name, Zone: zone,
				Allocatable: pool.Allocatable, Ready: true, Created: w.now, ReadyAt: w.now,
			})
		}
		// Surplus nodes go first.
		slices.SortStableFunc(byZone[zone], func(a, b api.Node) int {
			return boolean(slices.Contains(pp.Surplus, a.Name)) - boolean(slices.Contains(pp.Surplus, b.Name))
		})
		byZone[zone] = byZone[zone][:pp.SizePerZone]
	}
	for _, zone := range slices.Sorted(maps.Keys(byZone)) {
		rest = append(rest, byZone[zone]...)
	}
	slices.SortFunc(rest, func(a, b api.Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	w.nodes = rest
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

func constant(v float64) func(time.Time) float64 {
	return func(time.Time) float64 { return v }
}

// noisy is a demand with noise of a relative amplitude that has no period.
func noisy(v, amplitude float64) func(time.Time) float64 {
	return func(t time.Time) float64 {
		x := math.Sin(float64(t.Unix())*12.9898) * 43758.5453
		return v * (1 + amplitude*(2*(x-math.Floor(x))-1))
	}
}

// heartbeat is the paper's load as demand in reference millicores, repeated.
func heartbeat(t time.Time) float64 {
	const period = 240 * time.Second
	s := t.Sub(start) % period
	if s < 0 {
		s += period
	}
	switch x := s.Seconds(); {
	case x < 30:
		return 30 + x/30*1200
	case x < 150:
		return 1230
	case x < 180:
		return 1230 - (x-150)/30*1200
	default:
		return 30
	}
}

func state(p api.Plan) string {
	var out string
	for _, w := range p.Workloads {
		out += fmt.Sprintf("%s=%d ", w.Key.Name, w.Replicas)
	}
	for _, pp := range p.Nodes.Pools {
		out += fmt.Sprintf("%s=%d ", pp.Pool, pp.Nodes)
	}
	return out
}
