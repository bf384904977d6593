package load

import (
	"cmp"
	"math"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Results of an experiment so far. Times count from Begin, in scenario time.
// What is undefined, such as a latency without requests, is null.
type Results struct {
	Scenario     string           `json:"scenario"`
	Seed         uint64           `json:"seed"`
	Speed        float64          `json:"speed"`
	PassSeconds  float64          `json:"passSeconds"`
	WarmupPasses int              `json:"warmupPasses"`
	Passes       int              `json:"passes"` // measured
	SLO          scenarios.SLO    `json:"slo"`
	Workloads    []WorkloadResult `json:"workloads"`
	Pools        []PoolResult     `json:"pools"` // in order of name
}

// WorkloadResult is how one workload fared.
type WorkloadResult struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Measured joins the measured passes.
	Measured Summary `json:"measured"`
	// ByPass has every pass that began, the warm-up's first.
	ByPass  []PassSummary `json:"byPass"`
	Buckets []Bucket      `json:"buckets"`
	// Steps are all changes of replicas and pods.
	Steps []record.WorkloadStep `json:"steps"`
}

// PassSummary is a Summary of one pass.
type PassSummary struct {
	Pass   int  `json:"pass"` // from 0, warm-up passes included
	Warmup bool `json:"warmup"`
	Summary
}

// Summary of a workload over some time.
type Summary struct {
	SimulatedSeconds float64 `json:"simulatedSeconds"`

	Requests    uint64   `json:"requests"` // that ended
	Failed      uint64   `json:"failed"`
	Refused     uint64   `json:"refused"`
	Reset       uint64   `json:"reset"`
	TimedOut    uint64   `json:"timedOut"`
	FailedRatio *float64 `json:"failedRatio"`
	// Latency of requests that succeeded or timed out.
	P50Ms *float64 `json:"p50Ms"`
	P95Ms *float64 `json:"p95Ms"`
	P99Ms *float64 `json:"p99Ms"`

	// SLOViolationMinutes had p95 or failed ratio beyond the SLO; minutes
	// without traffic are left out of the ratio.
	SLOViolationMinutes int      `json:"sloViolationMinutes"`
	SLOViolationRatio   *float64 `json:"sloViolationRatio"`
	// Minutes had traffic; Violating are those beyond the SLO, counted from the
	// beginning of the first of these passes.
	Minutes   int   `json:"-"`
	Violating []int `json:"-"`

	// CPUSeconds are core seconds of the nodes' cores, ReferenceCPUSeconds of
	// the reference machine's.
	CPUSeconds          float64 `json:"cpuSeconds"`
	ReferenceCPUSeconds float64 `json:"referenceCpuSeconds"`
	// Utilisation is relative to the requests of Ready pods; the peak is that
	// of a bucket.
	MeanCPUUtilization *float64 `json:"meanCpuUtilization"`
	PeakCPUUtilization *float64 `json:"peakCpuUtilization"`

	MaxReplicas       int32    `json:"maxReplicas"`
	MeanReplicas      *float64 `json:"meanReplicas"`
	MinReadyPods      int32    `json:"minReadyPods"` // at any moment
	PendingPodSeconds float64  `json:"pendingPodSeconds"`
	ScaleActions      int      `json:"scaleActions"`
	PodStarts         int      `json:"podStarts"`
	PodCostUSD        float64  `json:"podCostUsd"`

	record.WorkloadInterval `json:"totals"`
}

// Bucket is a stretch of a workload's time series.
type Bucket struct {
	Start       float64  `json:"start"`   // s
	Seconds     float64  `json:"seconds"` // its length
	Pass        int      `json:"pass"`
	Warmup      bool     `json:"warmup"`
	VUs         int      `json:"vus"` // at the end
	RPS         float64  `json:"rps"` // requests that ended
	Requests    uint64   `json:"requests"`
	Failed      uint64   `json:"failed"`
	P50Ms       *float64 `json:"p50Ms"`
	P95Ms       *float64 `json:"p95Ms"`
	P99Ms       *float64 `json:"p99Ms"`
	CPUCores    float64  `json:"cpuCores"`
	Utilization *float64 `json:"utilization"`
	Replicas    float64  `json:"replicas"` // mean
	ReadyPods   float64  `json:"readyPods"`
	ReadyCores  float64  `json:"readyCores"` // requested by Ready pods
	// PendingPodSeconds in the bucket.
	PendingPodSeconds float64 `json:"pendingPodSeconds"`
	PodCostUSD        float64 `json:"podCostUsd"`
}

// PoolResult is what became of the nodes of a pool; the name is empty for nodes
// of none.
type PoolResult struct {
	Name              string              `json:"name"`
	Measured          record.PoolInterval `json:"measured"`
	PackingEfficiency *float64            `json:"packingEfficiency"` // measured passes
	Steps             []record.PoolStep   `json:"steps"`
	Buckets           []PoolBucket        `json:"buckets"`
}

// PoolBucket is a stretch of a pool's time series, means over it.
type PoolBucket struct {
	Start            float64 `json:"start"`   // s
	Seconds          float64 `json:"seconds"` // its length
	ReadyNodes       float64 `json:"readyNodes"`
	AllocatableCores float64 `json:"allocatableCores"` // of Ready nodes
	// PackingEfficiency as record.PoolInterval has it; 0 without nodes.
	PackingEfficiency float64 `json:"packingEfficiency"`
}

// Results are those up to now; a bucket counts when it has ended.
func (d *Driver) Results() Results {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advance(time.Now())
	return d.collector.Results(d.recorder)
}

// Model is what results are collected from: a queueing model, per request or
// fluid.
type Model interface {
	TakeWindow(stream string) (queueing.Window, error)
	StreamState(stream string) (queueing.StreamState, error)
}

// Collector collects the statistics of stretches of time that never cross the
// end of a pass.
type Collector struct {
	cfg       Config
	pass, end time.Duration
	from      time.Duration // of the open bucket
	workloads []collected   // by workload
	pools     map[string]record.PoolInterval
	nodes     map[string][]PoolBucket
	usage     []float64 // at the beginning of the open bucket, by workload
	work      []float64
}

// collected is what is known of a workload. Distributions of latency are kept
// for the open minute and for passes only: one of every bucket of a week would
// be gigabytes.
type collected struct {
	buckets []bucket
	passes  []queueing.Window // every pass that began
	minutes []minute          // that ended
	open    minute
	window  queueing.Window // of the open minute
}

type bucket struct {
	from, to      time.Duration
	pass          int
	users         int
	counts        queueing.Counts
	p50, p95, p99 float64 // ms; NaN without requests
	interval      record.WorkloadInterval
	usage         float64
	work          float64
}

// minute of a pass.
type minute struct {
	pass, index      int
	traffic, violate bool
}

// add takes the window of a bucket that began at a time of a pass.
func (c *collected) add(pass int, at time.Duration, w queueing.Window, slo scenarios.SLO) {
	for len(c.passes) <= pass {
		c.passes = append(c.passes, queueing.Window{})
	}
	c.passes[pass].Add(w)
	if index := int(at / time.Minute); pass != c.open.pass || index != c.open.index {
		c.minutes = append(c.minutes, judge(c.open, c.window, slo))
		c.open, c.window = minute{pass: pass, index: index}, queueing.Window{Latency: c.window.Latency.Cleared()}
	}
	c.window.Add(w)
}

func judge(m minute, w queueing.Window, slo scenarios.SLO) minute {
	if w.Ended() == 0 {
		return m
	}
	p95 := quantile(w.Latency, 0.95)
	m.traffic = true
	m.violate = p95 > slo.P95Ms || float64(w.Failed())/float64(w.Ended()) > slo.FailedRatio
	return m
}

// NewCollector collects from time 0 on. Of the configuration it needs the
// scenario, the workloads and the passes.
func NewCollector(cfg Config) *Collector {
	cfg.setDefaults()
	pass := cfg.Scenario.PassDuration()
	return &Collector{
		cfg: cfg, pass: pass, end: time.Duration(cfg.WarmupPasses+cfg.Passes) * pass,
		workloads: make([]collected, len(cfg.Workloads)),
		pools:     map[string]record.PoolInterval{},
		nodes:     map[string][]PoolBucket{},
		usage:     make([]float64, len(cfg.Workloads)),
		work:      make([]float64, len(cfg.Workloads)),
	}
}

// Next is when the open bucket ends. Buckets and minutes count from the
// beginning of the pass.
func (b *Collector) Next() time.Duration {
	begin := b.from / b.pass * b.pass
	return min(b.from+b.cfg.Bucket-(b.from-begin)%b.cfg.Bucket, begin+b.pass)
}

// Close ends the open bucket at time at, to which the model was advanced.
func (b *Collector) Close(at time.Duration, m Model, interval record.Interval) error {
	pass := int(b.from / b.pass)
	for i, w := range b.cfg.Workloads {
		window, err := m.TakeWindow(w.key())
		if err != nil {
			return err
		}
		state, err := m.StreamState(w.key())
		if err != nil {
			return err
		}
		c := &b.workloads[i]
		c.buckets = append(c.buckets, bucket{
			from: b.from, to: at, pass: pass,
			users: state.Users, counts: window.Counts, interval: interval.Workloads[w.key()],
			p50: quantile(window.Latency, 0.5), p95: quantile(window.Latency, 0.95), p99: quantile(window.Latency, 0.99),
			usage: state.Usage - b.usage[i], work: state.Work - b.work[i],
		})
		c.add(pass, b.from%b.pass, window, b.cfg.Scenario.SLO)
		b.usage[i], b.work[i] = state.Usage, state.Work
	}
	if pass >= b.cfg.WarmupPasses {
		for name, p := range interval.Pools {
			b.pools[name] = b.pools[name].Plus(p)
		}
	}
	seconds := (at - b.from).Seconds()
	for name, p := range interval.Pools {
		b.nodes[name] = append(b.nodes[name], PoolBucket{
			Start: b.from.Seconds(), Seconds: seconds, ReadyNodes: p.ReadyNodeSeconds / seconds,
			AllocatableCores: p.AllocatableCPUSeconds / seconds, PackingEfficiency: p.PackingEfficiency(),
		})
	}
	b.from = at
	return nil
}

// Results are those up to the last Close.
func (b *Collector) Results(r *record.Recorder) Results {
	out := Results{
		Scenario: b.cfg.Scenario.Name, Seed: b.cfg.Seed, Speed: b.cfg.Speed,
		PassSeconds: b.pass.Seconds(), WarmupPasses: b.cfg.WarmupPasses, Passes: b.cfg.Passes,
		SLO: b.cfg.Scenario.SLO,
	}
	for i, w := range b.cfg.Workloads {
		result := WorkloadResult{Namespace: w.Namespace, Name: w.Name, Steps: r.Workload(w.key())}
		c := &b.workloads[i]
		for pass := range c.passes {
			result.ByPass = append(result.ByPass, PassSummary{
				Pass: pass, Warmup: pass < b.cfg.WarmupPasses, Summary: b.summarize(c, pass, pass+1),
			})
		}
		result.Measured = b.summarize(c, b.cfg.WarmupPasses, len(c.passes))
		for _, x := range c.buckets {
			result.Buckets = append(result.Buckets, b.export(x))
		}
		out.Workloads = append(out.Workloads, result)
	}
	steps := r.Pools()
	for _, name := range r.PoolNames() {
		p := PoolResult{Name: name, Measured: b.pools[name], Steps: steps[name], Buckets: b.nodes[name]}
		if p.Measured.AllocatableCPUSeconds > 0 {
			e := p.Measured.PackingEfficiency()
			p.PackingEfficiency = &e
		}
		out.Pools = append(out.Pools, p)
	}
	return out
}

// summarize joins the passes [from, to).
func (b *Collector) summarize(c *collected, from, to int) Summary {
	var s Summary
	within := func(pass int) bool { return pass >= from && pass < to }
	var peak *float64
	for _, x := range c.buckets {
		if !within(x.pass) {
			continue
		}
		if s.SimulatedSeconds == 0 {
			s.WorkloadInterval = x.interval
		} else {
			s.WorkloadInterval = s.WorkloadInterval.Plus(x.interval)
		}
		s.SimulatedSeconds += (x.to - x.from).Seconds()
		s.CPUSeconds += x.usage
		s.ReferenceCPUSeconds += x.work
		if u := ratio(x.usage, x.interval.ReadyCPUSeconds); u != nil && (peak == nil || *u > *peak) {
			peak = u
		}
	}
	if s.SimulatedSeconds == 0 {
		return s
	}
	traffic := 0
	count := func(m minute) {
		if within(m.pass) && m.traffic {
			traffic++
			if m.violate {
				s.SLOViolationMinutes++
				s.Violating = append(s.Violating, (m.pass-from)*int(math.Ceil(b.pass.Minutes()))+m.index)
			}
		}
	}
	for _, m := range c.minutes {
		count(m)
	}
	count(judge(c.open, c.window, b.cfg.Scenario.SLO))
	var window queueing.Window
	for pass := from; pass < to; pass++ {
		window.Add(c.passes[pass])
	}
	s.Minutes = traffic
	s.SLOViolationRatio = ratio(float64(s.SLOViolationMinutes), float64(traffic))
	s.Requests, s.Failed = window.Ended(), window.Failed()
	s.Refused, s.Reset, s.TimedOut = window.Refused, window.Reset, window.TimedOut
	s.FailedRatio = ratio(float64(s.Failed), float64(s.Requests))
	s.P50Ms, s.P95Ms, s.P99Ms = known(quantile(window.Latency, 0.5)), known(quantile(window.Latency, 0.95)), known(quantile(window.Latency, 0.99))
	s.MeanCPUUtilization = ratio(s.CPUSeconds, s.WorkloadInterval.ReadyCPUSeconds)
	s.PeakCPUUtilization = peak
	s.MaxReplicas = s.WorkloadInterval.MaxReplicas
	s.MinReadyPods = s.WorkloadInterval.MinReady
	s.MeanReplicas = ratio(s.WorkloadInterval.ReplicaSeconds, s.SimulatedSeconds)
	s.PendingPodSeconds = s.WorkloadInterval.PendingSeconds
	s.ScaleActions, s.PodStarts = s.WorkloadInterval.ScaleActions, s.WorkloadInterval.PodStarts
	s.PodCostUSD = b.podCost(s.WorkloadInterval)
	return s
}

func (b *Collector) podCost(i record.WorkloadInterval) float64 {
	return (i.RequestSeconds*b.cfg.PodPrices.CPUHour + i.MemoryGiBSeconds*b.cfg.PodPrices.MemoryGiBHour) / time.Hour.Seconds()
}

func (b *Collector) export(x bucket) Bucket {
	seconds := (x.to - x.from).Seconds()
	return Bucket{
		Start: x.from.Seconds(), Seconds: seconds,
		Pass: x.pass, Warmup: x.pass < b.cfg.WarmupPasses,
		VUs: x.users, RPS: float64(x.counts.Ended()) / seconds,
		Requests: x.counts.Ended(), Failed: x.counts.Failed(),
		P50Ms: known(x.p50), P95Ms: known(x.p95), P99Ms: known(x.p99),
		CPUCores: x.usage / seconds, Utilization: ratio(x.usage, x.interval.ReadyCPUSeconds),
		Replicas: x.interval.ReplicaSeconds / seconds, ReadyPods: x.interval.ReadySeconds / seconds, ReadyCores: x.interval.ReadyCPUSeconds / seconds,
		PendingPodSeconds: x.interval.PendingSeconds, PodCostUSD: b.podCost(x.interval),
	}
}

// ratio is nil when the whole is not positive.
func ratio(part, whole float64) *float64 {
	if cmp.Compare(whole, 0) <= 0 {
		return nil
	}
	r := part / whole
	return &r
}

// quantile in ms, NaN when nothing was recorded.
func quantile(h queueing.Histogram, q float64) float64 {
	d, ok := h.Quantile(q)
	if !ok {
		return math.NaN()
	}
	return float64(d) / float64(time.Millisecond)
}

// known is nil for NaN.
func known(x float64) *float64 {
	if math.IsNaN(x) {
		return nil
	}
	return &x
}
