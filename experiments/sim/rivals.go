package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline"
	"github.com/mash2-io/mash2/experiments/baseline/rightsizing"
	"github.com/mash2-io/mash2/experiments/baseline/vpa"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

const hpaSync = 15 * time.Second // --horizontal-pod-autoscaler-sync-period

// Tuning is what an owner may set of a rival beside its target. What is 0 is the
// default.
type Tuning struct {
	// DownscaleStabilization of the HPA: --horizontal-pod-autoscaler-downscale-stabilization.
	DownscaleStabilization time.Duration
	// Tolerance of the HPA: --horizontal-pod-autoscaler-tolerance.
	Tolerance float64
	// Unneeded and Threshold of Cluster Autoscaler: --scale-down-unneeded-time, which
	// the delay after a growth follows down, and --scale-down-utilization-threshold.
	Unneeded  time.Duration
	Threshold float64
	// ConsolidateAfter of Karpenter's NodePool.
	ConsolidateAfter time.Duration
}

// rival starts one of the scalers that mash2 is compared with.
func (r *run) rival(kind string, parameter float64) {
	c := r.c
	target := int32(r.Scenario.Workload.TargetUtilization*100 + 0.5)
	if parameter > 0 && slices.Contains([]string{HPA, PHPA, Karpenter, HPAVPA, KarpenterVPA, Attune, Autopilot}, kind) {
		target = int32(parameter)
	}
	for _, w := range c.workloads {
		switch kind {
		case KEDARPS, KEDAVPA:
			threshold := parameter
			if threshold == 0 {
				threshold = rpsOf(r.Scenario, w, c.pools[0].speed) * w.target
			}
			r.keda(w, baseline.NewKEDA(threshold, w.min, w.max))
		case PHPA:
			p := baseline.NewPHPA(target, w.min, w.max, r.Scenario.PassDuration())
			r.pods(w, baseline.PHPASync, p.Reconcile)
		default:
			r.hpa(w, target)
		}
		switch kind {
		case HPAVPA, KarpenterVPA:
			r.sized(w, recommender{vpa.New(vpa.Controls{Memory: true})}, vpa.Interval)
		case KEDAVPA:
			r.sized(w, recommender{vpa.New(vpa.Controls{CPU: true, Memory: true})}, vpa.Interval)
		case Attune:
			r.sized(w, windows{&rightsizing.Attune{}}, time.Minute)
		case Autopilot:
			r.sized(w, windows{&rightsizing.Autopilot{}}, time.Minute)
		}
	}
	if slices.Contains([]string{Karpenter, KarpenterVPA, Attune, Autopilot}, kind) {
		c.startKarpenter(r.Tuning)
		return
	}
	if kind == HPAOverprovisioned {
		if parameter == 0 {
			parameter = 20
		}
		c.overprovision(baseline.Placeholders(parameter))
	}
	r.scaleNodes()
}

// scaleNodes runs Cluster Autoscaler.
func (r *run) scaleNodes() {
	c := r.c
	a := newScaler(c)
	if t := r.Tuning.Unneeded; t > 0 {
		a.Rules.ScaleDownUnneededTime, a.Rules.ScaleDownDelayAfterAdd = t, min(a.Rules.ScaleDownDelayAfterAdd, t)
	}
	a.Rules.ScaleDownUtilizationThreshold = cmp.Or(r.Tuning.Threshold, a.Rules.ScaleDownUtilizationThreshold)
	c.every(c.now+c.phase(a.Rules.ScanInterval), a.Rules.ScanInterval, func() bool { a.scan(); return true })
}

// hpa runs a HorizontalPodAutoscaler of one workload, target in percent.
func (r *run) hpa(w *workload, target int32) {
	h := baseline.Default(target, w.min, w.max)
	h.DownscaleStabilization = cmp.Or(r.Tuning.DownscaleStabilization, h.DownscaleStabilization)
	h.Tolerance = cmp.Or(r.Tuning.Tolerance, h.Tolerance)
	r.pods(w, hpaSync, h.Reconcile)
}

// contested reports whether a workload of a trial still has its HPA, by its number.
func contested(i int) bool { return i%2 == 0 }

// phase is a random beginning of something periodic.
func (c *Cluster) phase(period time.Duration) time.Duration {
	return time.Duration(c.rng.Float64() * float64(period))
}

// pods runs rules that decide by what the pods of a workload use.
func (r *run) pods(w *workload, sync time.Duration, reconcile func(time.Duration, int32, []baseline.Pod) (int32, error)) {
	c := r.c
	c.every(c.now+c.phase(sync), sync, func() bool {
		var pods []baseline.Pod
		for _, p := range w.pods {
			b := baseline.Pod{
				Request: p.shape.Requests.MilliCPU, Pending: p.pending(), Deleted: p.terminating, Ready: p.ready,
				HasStarted: p.node != nil, Started: p.scheduled, ReadyChanged: p.readyAt,
			}
			if !p.ready {
				b.ReadyChanged = p.scheduled
			}
			if cores, at, window, ok := c.usageOf(p); ok {
				b.HasMetric, b.Usage, b.MetricAt, b.Window = true, int64(cores*1000+0.5), at, window
			}
			pods = append(pods, b)
		}
		if n, err := reconcile(c.now, w.replicas, pods); err == nil {
			c.scale(w, n)
		}
		return true
	})
}

// keda runs a ScaledObject's rules for one workload, on sum(rate(requests[1m])), the
// window that the operator asks for as well. Prometheus counts requests that ended.
func (r *run) keda(w *workload, k baseline.KEDA) {
	c := r.c
	counted := c.traffic.(*counting)
	var scrapes []point
	c.every(c.now+c.phase(c.params.ScrapeInterval), c.params.ScrapeInterval, func() bool {
		if c.scrapeDown {
			return true
		}
		scrapes = append(scrapes, point{c.now, counted.ended(w.stream)})
		if len(scrapes) > int(2*c.params.RateWindow/c.params.ScrapeInterval)+2 {
			scrapes = slices.Delete(scrapes, 0, 1)
		}
		return true
	})
	c.every(c.now+c.phase(hpaSync), hpaSync, func() bool {
		rps, ok := rate(scrapes, c.now, c.params.RateWindow)
		if !ok {
			rps = math.NaN()
		}
		observed := int32(0)
		for _, p := range w.pods {
			if !p.terminating {
				observed++
			}
		}
		if n, err := k.Reconcile(c.now, w.replicas, observed, rps); err == nil {
			c.scale(w, n)
		}
		return true
	})
}

// rpsOf is how many requests, or visits, per second keep the CPU request of a
// workload's pod busy on machines of this speed, by the mean work that the
// scenario's users bring, without its events.
func rpsOf(s scenarios.Scenario, w *workload, speed float64) float64 {
	name := w.key.Name
	if s.Copies > 1 {
		name = s.Deployments()[0].Name
	}
	var visits, work float64
	var walk func(scenarios.Call, float64)
	walk = func(c scenarios.Call, times float64) {
		times *= c.Probability * float64(c.Times)
		if c.Service == name {
			visits, work = visits+times, work+times*c.Work.MeanSeconds()
		}
		for _, below := range c.Calls {
			walk(below, times)
		}
	}
	for i, u := range s.UserTypes() {
		// Users weigh as much as they ask for at most.
		walk(u.Request, s.TrafficOf(i, 1, 0).Peak())
	}
	if visits == 0 || work == 0 {
		return math.Inf(1) // nobody asks this workload
	}
	return w.request * speed * visits / work
}

// counting is traffic that also tells how many requests have ended. It holds what
// it took for that until it is asked for.
type counting struct {
	traffic
	held  map[string]queueing.Window
	since map[string]queueing.Window // seen was asked last
	total map[string]float64
	// failed are those of them that were not answered.
	failed map[string]float64
}

func newCounting(t traffic) *counting {
	return &counting{traffic: t, held: map[string]queueing.Window{}, since: map[string]queueing.Window{}, total: map[string]float64{}, failed: map[string]float64{}}
}

// ended is the number of a stream's requests that have ended, well or not.
func (t *counting) ended(stream string) float64 {
	if err := t.take(stream); err != nil {
		return math.NaN()
	}
	return t.total[stream]
}

func (t *counting) take(stream string) error {
	w, err := t.traffic.TakeWindow(stream)
	if err != nil {
		return err
	}
	held := t.held[stream]
	held.Add(w)
	t.held[stream] = held
	since := t.since[stream]
	since.Add(w)
	t.since[stream] = since
	t.total[stream] += float64(w.Ended())
	t.failed[stream] += float64(w.Ended() - w.Succeeded)
	return nil
}

// seen is what became of a stream's requests since it was asked last.
func (t *counting) seen(stream string) (queueing.Window, error) {
	if err := t.take(stream); err != nil {
		return queueing.Window{}, err
	}
	w := t.since[stream]
	delete(t.since, stream)
	return w, nil
}

// TakeWindow implements traffic.
func (t *counting) TakeWindow(stream string) (queueing.Window, error) {
	if err := t.take(stream); err != nil {
		return queueing.Window{}, err
	}
	w := t.held[stream]
	delete(t.held, stream)
	return w, nil
}

// overprovision keeps placeholders in proportion to the cluster, which is looked at
// every ten seconds (--poll-period-seconds).
func (c *Cluster) overprovision(p baseline.Proportional) {
	const poll = 10 * time.Second
	requests := api.Resources{MilliCPU: baseline.PlaceholderMilliCPU, Pods: 1}
	c.placeholders = &workload{
		key: api.Key{Namespace: "overprovisioning", Name: "placeholders"},
		shape: &api.PodShape{
			ID: "placeholders", Requests: requests, NodeSelector: map[string]string{api.LabelNodePool: c.pools[0].name},
		},
		request:     float64(requests.MilliCPU) / 1000,
		priority:    baseline.PlaceholderPriority,
		propagation: func(*rand.Rand) time.Duration { return 0 },
	}
	c.every(c.now+c.phase(poll), poll, func() bool {
		var cores int64
		for _, n := range c.nodes {
			if n.readyAt >= 0 && !n.cordoned {
				cores += n.pool.allocatable.MilliCPU
			}
		}
		c.scale(c.placeholders, p.Replicas(cores))
		return true
	})
}

// static sets as many replicas as the scenario's peak needs at the target, and
// the nodes that hold them.
func (r *run) static() error {
	c, s := r.c, r.Scenario
	p := c.pools[0]
	peaks := peakDemands(s)
	replicas := make([]int32, len(c.workloads))
	var cpu, memory int64
	for i, w := range c.workloads {
		n := int32(peaks[i]/(w.request*p.speed*w.target)) + 1
		replicas[i] = min(max(n, w.min), w.max)
		cpu += int64(replicas[i]) * w.shape.Requests.MilliCPU
		memory += int64(replicas[i]) * w.shape.Requests.Memory
	}
	free := p.allocatable.Minus(p.overhead)
	largest := slices.MaxFunc(c.workloads, func(a, b *workload) int {
		return cmp.Compare(a.shape.Requests.MilliCPU, b.shape.Requests.MilliCPU)
	}).shape.Requests
	if largest.MilliCPU > free.MilliCPU || largest.Memory > free.Memory {
		return fmt.Errorf("a pod does not fit on %s", p.machineType)
	}
	// Whole pods: what one of the largest leaves of a node is not counted on.
	zones := int64(len(p.zones))
	up := func(a, b int64) int64 { return (a + b - 1) / b }
	usable := free.MilliCPU / largest.MilliCPU * largest.MilliCPU
	perZone := int32(up(max(up(cpu, usable), up(memory, free.Memory/largest.Memory*largest.Memory)), zones))
	if p.max > 0 {
		perZone = min(perZone, p.max)
	}
	if err := c.resize(p, max(perZone, p.sizes[0])); err != nil {
		return err
	}
	for i, w := range c.workloads {
		c.scale(w, replicas[i])
	}
	c.run(c.now + 5*time.Minute)
	r.start = c.now - r.Skipped
	return nil
}
