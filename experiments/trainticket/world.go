// Package trainticket has the chain that DRPC was evaluated on, in the simulator: the forty
// services and four types of users of the scenario train-ticket, whose load rises from 200 to
// 800 requests a second within a minute, on a cluster of a fixed size. Teachers and students
// of package drpc learn and decide in it, beside the rivals of the paper: a
// HorizontalPodAutoscaler, a scaler of the critical path after FIRM, a table of Q-values
// after CoScal, and mash2's own plan.
package trainticket

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
)

// Environment is the name that commands take.
const Environment = "train-ticket"

// The world. What a rival may use, all may use: replicas and requests have the same bounds
// for everybody.
const (
	// every is the time between two decisions of those who see without delay.
	every = 5 * time.Second
	// mostReplicas of a service are never too few, also at startCPU: a rival that leaves sizes
	// alone has room for the same. usualReplicas are what learners see as 1. Requests begin at
	// startCPU and startMemory. The limit of CPU is what is requested, as DRPC's testbed writes
	// what it allocates into cpu.max.
	mostReplicas                 = 40
	usualReplicas                = 15
	startCPU, leastCPU, mostCPU  = 200, 100, 500 // millicores
	startMemory, leastMemory     = 96 << 20, 64 << 20
	mostMemory                   = 256 << 20
	memoryBase, memoryPerRequest = 48 << 20, 256 << 10
	cpuStep, memoryStep          = 50, 10 << 20
	// tolerated is the response time up to which a user is content: DRPC's 400 ms. timeout is
	// when users give up.
	tolerated = 0.4 // s, at p99
	timeout   = 2 * time.Second
	// idealCPU and idealMemory are utilisations of requests.
	idealCPU, idealMemory = 0.6, 0.75
	nodes, nodeCores      = 5, 8
	passLength            = 10 * time.Minute
)

// Changed is what differs from what was trained on.
type Changed int

// The application as it is; with another call graph: what staff and travellers ask for is
// most of what is asked, and orders are read twice as often; and on half as large machines that
// are scaled with it.
const (
	AsTrained Changed = iota
	OtherGraph
	ScaledNodes
)

// An hour comes before what is measured where nodes are scaled: forecasts and margins need it.
const warmups, longWarmups = 1, 6

// world draws an episode: passes of ten minutes, of which the last one is measured. Each
// has two surges, one from 200 to 800 requests a second within a minute, or the load of machines
// where these are not nil.
func world(rng *rand.Rand, changed Changed, by *machines) (scenarios.Scenario, error) {
	s, err := scenarios.Load(Environment)
	if err != nil {
		return s, err
	}
	around := func(level, by float64) int { return int(level * (1 - by + 2*by*rng.Float64())) }
	base := around(200, 0.1)
	first, second := around(800, 0.05), around(600, 0.25)
	held := func(shortest, longest time.Duration) time.Duration {
		return shortest + time.Duration(rng.Float64()*float64(longest-shortest))
	}
	stage := func(d time.Duration, to int) scenarios.Stage { return scenarios.Stage{Duration: d, Target: to} }
	stages := []scenarios.Stage{
		stage(held(time.Minute, 2*time.Minute), base), stage(time.Minute, first), stage(held(time.Minute, 150*time.Second), first),
		stage(held(30*time.Second, 90*time.Second), base), stage(held(time.Minute, 2*time.Minute), base),
		stage(held(30*time.Second, 90*time.Second), second),
	}
	rest := passLength
	for _, of := range stages {
		rest -= of.Duration
	}
	stages = append(stages, stage(rest/2, second), stage(rest-rest/2, base))
	s.StartVUs, s.Stages, s.Arrivals = nil, nil, scenarios.ArrivalsOf(float64(base), stages)
	if by != nil {
		s.Arrivals = by.arrivals(rng)
	}
	shares := []float64{0.6, 0.25, 0.1, 0.05}
	if changed == OtherGraph {
		shares = []float64{0.25, 0.25, 0.3, 0.2}
	}
	var sum float64
	for i := range shares {
		shares[i] *= math.Exp(0.2 * rng.NormFloat64())
		sum += shares[i]
	}
	s.Users = slices.Clone(s.Users)
	for i := range s.Users {
		u := &s.Users[i]
		u.Share = shares[i] / sum
		u.Timeout = scenarios.Duration{Duration: timeout}
		if changed == OtherGraph {
			u.Request = twice(u.Request)
		}
	}
	quantity := func(milli int64) scenarios.Quantity {
		return scenarios.Quantity{Quantity: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
	}
	bytes := func(n int64) scenarios.Quantity {
		return scenarios.Quantity{Quantity: *resource.NewQuantity(n, resource.BinarySI)}
	}
	s.Services = slices.Clone(s.Services)
	for i := range s.Services {
		w := &s.Services[i].Workload
		w.CPU = scenarios.CPU{Request: quantity(startCPU), Limit: quantity(startCPU)}
		w.Memory = scenarios.Memory{Request: bytes(startMemory), Limit: bytes(mostMemory), Base: bytes(memoryBase), PerRequest: bytes(memoryPerRequest)}
		w.Replicas = scenarios.Bounds{Min: 1, Max: mostReplicas}
	}
	s.SLO = scenarios.SLO{P95Ms: 1000 * tolerated, FailedRatio: 0.01}
	s.Pools = []scenarios.Pool{{
		Name: "workers", MachineType: "e2-standard-8", Zones: []string{"us-central1-a"}, Nodes: nodes, NodesPerZone: scenarios.Bounds{Min: nodes, Max: nodes},
	}}
	if changed == ScaledNodes {
		s.Pools[0].MachineType, s.Pools[0].Nodes, s.Pools[0].NodesPerZone = "e2-standard-4", 2*nodes, scenarios.Bounds{Min: 1, Max: 4 * nodes}
	}
	return s, nil
}

// twice has orders read twice.
func twice(c scenarios.Call) scenarios.Call {
	if c.Service == "order" {
		c.Times *= 2
	}
	c.Calls = slices.Clone(c.Calls)
	for i := range c.Calls {
		c.Calls[i] = twice(c.Calls[i])
	}
	return c
}

// decider decides for all services each time it is asked.
type decider interface {
	decide(*view) []sim.Size
}

// view is what there is to see at a decision.
type view struct {
	services []sim.Service
	// Of the users' requests since the last decision: how many a second, p99 in seconds, and
	// the share that failed.
	requests, p99, failed float64
	// local is what each service sees of itself; level is its rate, smoothed, and before the
	// same a decision before.
	local         []drpc.Local
	level, before []float64
	// skipped is the rate of visits that were left out as the service had no replica, each
	// service's by what a request asked of it before.
	skipped []float64
	each    []float64 // visits of a request, as last seen
	soon    *predictor
	asked   []peak    // replicas, by learners
	idle    []float64 // seconds that a visit takes on an idle pod
}

// startup of a service's process: Train Ticket's are Java programs with Spring Boot.
var startup = sim.Range{Min: 15 * time.Second, Max: 35 * time.Second}

// bounds of a service's size.
func boundsOf(s sim.Service) drpc.Bounds {
	return drpc.Bounds{
		Least:    drpc.Size{Replicas: s.Min, MilliCPU: leastCPU, Memory: leastMemory},
		Most:     drpc.Size{Replicas: s.Max, MilliCPU: mostCPU, Memory: mostMemory},
		Step:     drpc.Size{Replicas: 1, MilliCPU: cpuStep, Memory: memoryStep},
		Optional: s.Optional,
	}
}

// newView of so many services, of which nothing has been seen.
func newView(services int) (*view, error) {
	soon, err := newPredictor(services)
	return &view{soon: soon}, err
}

// update the view by what is seen now. most is what each
// service has at most.
func (v *view) update(services []sim.Service, w queueing.Window, most typical) {
	n := len(services)
	if v.local == nil {
		v.asked = make([]peak, n)
		v.local, v.level, v.before, v.skipped, v.each = make([]drpc.Local, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	}
	v.services, v.idle = services, most.idle
	ended := float64(w.Ended())
	v.requests, v.p99, v.failed = ended/every.Seconds(), 0, 0
	if ended > 0 {
		if d, ok := w.Latency.Quantile(0.99); ok {
			v.p99 = d.Seconds()
		}
		v.failed = float64(w.Failed()) / ended
	}
	for i, s := range services {
		rate := s.Visits
		v.skipped[i] = 0
		if s.Optional && s.Ready == 0 {
			rate = v.each[i] * v.requests
			v.skipped[i] = rate
		} else if v.requests > 0 {
			v.each[i] = rate / v.requests
		}
		const smoothing = 0.7
		v.before[i] = v.level[i]
		v.level[i] += smoothing * (rate - v.level[i])
		l := drpc.Local{Replicas: float64(s.Replicas) / usualReplicas, Requests: rate / most.rate[i]}
		if s.Ready > 0 {
			l.CPU = s.Used / (float64(s.Ready) * float64(s.MilliCPU) / 1000)
			l.Memory = s.WorkingSet / float64(s.Size.Memory)
		}
		l.Predicted = v.soon.see(i, l)
		v.local[i] = l
	}
}

// typical of the services in the world as it is trained: visits a second at 800 requests a
// second, and the seconds of a visit on an idle pod.
type typical struct{ rate, idle []float64 }

func typicalOf() (typical, error) {
	s, err := scenarios.Load(Environment)
	if err != nil {
		return typical{}, err
	}
	index := map[string]int{}
	out := typical{make([]float64, len(s.Services)), make([]float64, len(s.Services))}
	for i, v := range s.Services {
		index[v.Name] = i
		out.idle[i] = v.Work.MeanSeconds()
	}
	var walk func(c scenarios.Call, times float64)
	walk = func(c scenarios.Call, times float64) {
		times *= c.Probability * float64(c.Times)
		out.rate[index[c.Service]] += times
		for _, below := range c.Calls {
			walk(below, times)
		}
	}
	for _, u := range s.Users {
		walk(u.Request, 800*u.Share)
	}
	return out, nil
}

// episode by its seed, with nobody who scales yet.
func episode(seed uint64, changed Changed, by *machines) (sim.Options, error) {
	s, err := world(rand.New(rand.NewPCG(seed, 71)), changed, by)
	params := sim.DefaultParams()
	params.Startup = startup
	o := sim.Options{Scenario: s, Seed: seed, WarmupPasses: warmups, Passes: 1, Params: &params}
	if changed == ScaledNodes {
		o.WarmupPasses = longWarmups
	}
	return o, err
}

// play runs an episode with a decider, who has this name in errors. after is told what each
// decision saw, before it is made; nil for nobody.
func play(ctx context.Context, d decider, name string, seed uint64, changed Changed, by *machines, after func(*view)) (sim.Result, error) {
	o, err := episode(seed, changed, by)
	if err != nil {
		return sim.Result{}, err
	}
	most, err := typicalOf()
	if err != nil {
		return sim.Result{}, err
	}
	v, err := newView(len(most.rate))
	if err != nil {
		return sim.Result{}, err
	}
	o.Scaler = sim.Steered
	o.Steering = sim.Steering{Every: every, Decide: func(_ time.Duration, services []sim.Service, w queueing.Window) []sim.Size {
		v.update(services, w, most)
		if after != nil {
			after(v)
		}
		return d.decide(v)
	}}
	return run(ctx, o, name)
}

// run an episode.
func run(ctx context.Context, o sim.Options, name string) (sim.Result, error) {
	out, err := sim.Run(ctx, o)
	if err != nil {
		return out, fmt.Errorf("%s in %s: %w", name, Environment, err)
	}
	return out, nil
}
