package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// deploymentsOf are the scenario's services, or the copies of its workload.
func deploymentsOf(s scenarios.Scenario) []scenarios.Service {
	if s.Copies <= 1 {
		return s.Deployments()
	}
	var out []scenarios.Service
	for i := range s.Copies {
		d := s.Deployments()[0]
		d.Name = fmt.Sprintf("%s-%02d", d.Name, i)
		out = append(out, d)
	}
	return out
}

func streamOf(service string) string { return "mash2/" + service }

// workloadOf is one of the scenario's Deployments.
func workloadOf(s scenarios.Scenario, d scenarios.Service) *workload {
	requests := api.Resources{MilliCPU: d.CPU.Request.MilliValue(), Memory: d.Memory.Request.Value(), Pods: 1}
	w := &workload{
		key: api.Key{Namespace: "mash2", Name: d.Name}, stream: streamOf(d.Name),
		shape:   &api.PodShape{ID: d.Name, Requests: requests, LimitCPU: d.CPU.Limit.MilliValue()},
		request: d.CPU.Request.AsApproximateFloat64(), limit: d.CPU.Limit.AsApproximateFloat64(),
		priority: d.Priority, min: d.Replicas.Min, max: d.Replicas.Max, target: d.TargetUtilization,
		preStop: d.PreStop.Duration, grace: d.TerminationGrace.Duration,
	}
	w.memoryBase, w.memoryPerRequest = float64(d.Memory.Base.Value()), float64(d.Memory.PerRequest.Value())
	w.memoryLimit, w.memorySpread = float64(d.Memory.Limit.Value()), d.Memory.Spread
	if w.memoryCorrelation = d.Memory.Correlation.Duration; w.memoryCorrelation == 0 {
		w.memoryCorrelation = defaultCorrelation
	}
	w.startup, w.base = d.StartupCPU.Seconds(), d.CPU.Base.AsApproximateFloat64()
	if w.grace == 0 {
		w.grace = 30 * time.Second // Kubernetes' default
	}
	propagation := s.EndpointPropagation
	w.propagation = func(rng *rand.Rand) time.Duration {
		return time.Duration(propagation.Sample(rng) * float64(time.Second))
	}
	return w
}

// addTraffic adds services, and who asks them.
func (r *run) addTraffic() error {
	s, t := r.Scenario, r.c.traffic
	if s.Single() {
		for _, w := range r.c.workloads {
			if err := t.AddStream(queueing.Stream{
				Name: w.stream, Work: r.work(s.Deployments()[0].Name, s.Request.CPU), Think: s.ThinkTime, Timeout: s.Request.Timeout.Duration,
			}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, w := range r.c.workloads {
		if err := t.AddStream(queueing.Stream{Name: w.stream}); err != nil {
			return err
		}
	}
	for _, u := range s.UserTypes() {
		if err := t.AddSource(queueing.Source{
			Name: u.Name, Think: u.ThinkTime, Timeout: u.Timeout.Duration, Request: r.call(u.Request),
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) call(c scenarios.Call) queueing.Call {
	out := queueing.Call{
		Stream: streamOf(c.Service), Work: r.work(c.Service, c.Work), Probability: c.Probability, Times: c.Times, Parallel: c.Parallel, Optional: c.Optional,
	}
	for _, below := range c.Calls {
		out.Calls = append(out.Calls, r.call(below))
	}
	return out
}

// startTraffic lets users and arrivals come.
func (r *run) startTraffic() error {
	c, s := r.c, r.Scenario
	passes := r.WarmupPasses + r.Passes
	start := func(name string, load scenarios.Traffic) error {
		if load.Open() {
			return c.traffic.StartArrivals(name, begun{load, r.Skipped})
		}
		return c.traffic.StartUsers(name, begun{load, r.Skipped})
	}
	if !s.Single() {
		for i, u := range s.UserTypes() {
			if err := start(u.Name, s.TrafficOf(i, passes, r.Seed)); err != nil {
				return err
			}
		}
		return nil
	}
	for i, w := range c.workloads {
		load := s.Traffic(passes, r.Seed+uint64(i)<<32)
		load.Shift = time.Duration(i) * s.PassDuration() / time.Duration(len(c.workloads))
		if err := start(w.stream, load); err != nil {
			return err
		}
	}
	return nil
}

// begun is load that has been coming for a while.
type begun struct {
	scenarios.Traffic
	since time.Duration
}

// RPS implements queueing.Arrivals.
func (b begun) RPS(at time.Duration) float64 { return b.Traffic.RPS(at + b.since) }

// MaxRPS implements queueing.Arrivals.
func (b begun) MaxRPS(at time.Duration) float64 { return b.Traffic.MaxRPS(at + b.since) }

// VUs implements queueing.Ramp.
func (b begun) VUs(at time.Duration) int { return b.Traffic.VUs(at + b.since) }

// Next implements queueing.Ramp.
func (b begun) Next(at time.Duration) (time.Duration, bool) {
	next, ok := b.Traffic.Next(at + b.since)
	return next - b.since, ok
}

// work is that of a visit, which events change.
func (r *run) work(service string, d scenarios.Distribution) workFactor {
	if r.factors[service] == nil {
		one := 1.0
		r.factors[service] = &one
	}
	return workFactor{d, r.factors[service]}
}

// workFactor is the work of a visit, which events change.
type workFactor struct {
	scenarios.Distribution
	factor *float64
}

// Sample implements queueing.Sampler.
func (w workFactor) Sample(rng *rand.Rand) float64 { return *w.factor * w.Distribution.Sample(rng) }

// MeanSeconds implements Mean.
func (w workFactor) MeanSeconds() float64 { return *w.factor * w.Distribution.MeanSeconds() }

// events switches the scenario's events on and off.
func (r *run) events() {
	c, s := r.c, r.Scenario
	pass := s.PassDuration()
	quota := c.quota
	for n := range r.WarmupPasses + r.Passes {
		begin := r.start + time.Duration(n)*pass
		for _, e := range s.Events {
			length := e.For.Duration
			if length == 0 || e.At.Duration+length > pass {
				length = pass - e.At.Duration
			}
			apply := func(on bool) {
				at := e.At.Duration
				if !on {
					at += length
				}
				for service, factor := range r.factors {
					*factor = s.WorkFactor(service, at%pass)
				}
				if e.MetricsOutage {
					c.scrapeDown = on
				}
				if e.MetricsFactor > 0 {
					c.scrapeSees = 1
					if on {
						c.scrapeSees = e.MetricsFactor
					}
				}
				if e.Resize != nil {
					r.resize(e, on)
				}
				for _, zone := range e.Stockout {
					c.stockout[zone] = on
				}
				if e.QuotaVCPU != nil {
					c.quota = quota
					if on {
						c.quota = *e.QuotaVCPU
					}
				}
			}
			c.at(begin+e.At.Duration, func() {
				apply(true)
				for _, p := range c.pools {
					if p.name == e.Pool {
						c.fail(p, e.FailNodes)
					}
				}
			})
			c.at(begin+e.At.Duration+length, func() { apply(false) })
		}
	}
}

// resize carries out an event's resize in place, or takes it back.
func (r *run) resize(e scenarios.Event, on bool) {
	for i, d := range deploymentsOf(r.Scenario) {
		cpu := d.CPU
		if on {
			cpu = *e.Resize
		}
		if e.Service == "" || e.Service == d.Name {
			r.c.resizeWorkload(r.c.workloads[i], cpu.Request.AsApproximateFloat64(), cpu.Limit.AsApproximateFloat64(), r.c.workloads[i].shape.Requests.Memory)
		}
	}
}

// peakDemands is the highest demand of each Deployment within a pass without
// noise, reference cores.
func peakDemands(s scenarios.Scenario) []float64 {
	deployments := deploymentsOf(s)
	out := make([]float64, len(deployments))
	pass := s.PassDuration()
	quiet := s
	quiet.Noise = nil
	step := max(time.Second, pass/5000)
	for at := time.Duration(0); at < pass; at += step {
		now := demands(quiet, 1, 0, at, 0)
		for i, d := range deployments {
			name := d.Name
			if s.Copies > 1 {
				name = s.Deployments()[0].Name // all have the same peak, at other times
			}
			out[i] = max(out[i], now[name])
		}
	}
	return out
}

// demands is what each service is asked at a time, in reference cores, if
// requests take delay on top of their work.
func demands(s scenarios.Scenario, passes int, seed uint64, at, delay time.Duration) map[string]float64 {
	out := map[string]float64{}
	for i, u := range s.UserTypes() {
		t := s.TrafficOf(i, passes, seed)
		work := u.MeanWork()
		rate := t.RPS(at)
		if !t.Open() {
			whole := 0.0
			for _, w := range work {
				whole += w
			}
			rate = float64(t.VUs(at)) / (u.ThinkTime.MeanSeconds() + max(whole, delay.Seconds()))
		}
		for service, w := range work {
			out[service] += rate * w * s.WorkFactor(service, at%s.PassDuration())
		}
	}
	return out
}
