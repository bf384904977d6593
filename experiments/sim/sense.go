package sim

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/sensing"
)

// sensors are the operator's eyes: what Prometheus and metrics-server have
// read, and the Observer that makes snapshots of it. What becomes of the samples is
// package demand's, as in the operator.
type sensors struct {
	c           *Cluster
	workload    []*watched
	podStartups demand.StartupLatencies
	lastOK      time.Duration
	grid        demand.Grid
	covered     int64 // newest step that was folded
	behavior    api.Behavior
	target      float64         // of workloads that state one, 0–1; 0 for the policy's
	pools       map[string]bool // that mash2 may see; nil for all
	model       string          // that workloads are planned by; empty for the horizontal planner
	judge       demand.Judge[api.Key]
	sized       bool // sizes of containers are chosen
	agents      *Agents
	canary      bool // workloads are in mode Canary
	strategies  []api.Strategy
	places      bool      // new pods go where their status says
	unsorted    []api.Pod // of the last snapshot, for its room
}

func newSensors(c *Cluster, behavior api.Behavior) *sensors {
	return &sensors{
		c: c, behavior: behavior, podStartups: demand.StartupLatencies{Limit: c.params.StartupSamples}, covered: math.MinInt64,
		grid: demand.Grid{Step: c.params.Step}, judge: demand.NewJudge[api.Key](c.params.rules()),
	}
}

// watched is a workload's demand.
type watched struct {
	*workload
	history  *demand.History // nil before the first sample
	coverage demand.Coverage // by the newest step
	usage    *api.Usage
	startups demand.StartupLatencies
	gone     []*ghost // pods that ended within the rate window
	slo      *sloSensor
	sizes    *sizer // nil where the operator doesn't choose sizes
}

// started measures how long a pod took.
func (s *sensors) started(p *pod) {
	took := p.readyAt - p.scheduled
	s.podStartups.Add(took)
	for _, w := range s.workload {
		if w.workload == p.workload {
			w.startups.Add(took)
		}
	}
}

// ghost is a pod that is gone while a rate may still reach back to it.
type ghost struct {
	scrapes []point
	node    *pool // that its node was of
	pod     demand.Pod
}

// scrape is Prometheus' look at every running container.
func (s *sensors) scrape() {
	if s.c.scrapeDown {
		return
	}
	for _, w := range s.workload {
		w.slo.scrape(s.c, w.stream)
	}
	keep := s.c.now - s.c.params.RateWindow - 2*s.c.params.ScrapeInterval
	for p := range s.c.running() {
		state, ok := s.c.traffic.PodState(p.uid)
		if !ok {
			continue
		}
		// A counter whose rate is a share of the true one.
		p.scraped += (state.Usage - p.scrapedOf) * s.c.scrapeSees
		p.scrapedOf = state.Usage
		p.scrapes = append(p.scrapes, point{s.c.now, p.scraped})
		drop := 0
		for drop < len(p.scrapes) && p.scrapes[drop].at < keep {
			drop++
		}
		p.scrapes = slices.Delete(p.scrapes, 0, drop)
	}
	for _, w := range s.workload {
		w.sizes.scrape(s.c, w.workload)
	}
}

// remember keeps what was scraped of a pod that ends.
func (s *sensors) remember(p *pod) {
	if p.node == nil || len(p.scrapes) == 0 {
		return
	}
	of := p.folded(s.c.params.RateWindow)
	of.Ready = false
	for _, w := range s.workload {
		if w.workload == p.workload {
			w.gone = append(w.gone, &ghost{p.scrapes, p.node.pool, of})
		}
	}
}

// read is metrics-server's look.
func (s *sensors) read() {
	for p := range s.c.running() {
		if state, ok := s.c.traffic.PodState(p.uid); ok {
			p.reads[0], p.reads[1] = p.reads[1], point{s.c.now, state.Usage}
			p.nreads++
		}
	}
}

// usageOf is what metrics.k8s.io serves of a pod, in cores: the mean rate
// between the last two readings; of one that was read once the mean since its
// start, if it is old enough.
func (c *Cluster) usageOf(p *pod) (cores float64, at time.Duration, window time.Duration, ok bool) {
	last := p.reads[1]
	switch {
	case p.phase != running || p.nreads == 0 || p.terminating:
		return 0, 0, 0, false
	case p.nreads == 1:
		window = last.at - p.started
		if window < c.params.FreshAge {
			return 0, 0, 0, false
		}
		return last.value / window.Seconds(), last.at, window, true
	}
	window = last.at - p.reads[0].at
	return (last.value - p.reads[0].value) / window.Seconds(), last.at, window, true
}

// rate is PromQL's rate() over a window that ends at t, in units per second,
// with its extrapolation to the ends of the window (promql/functions.go,
// extrapolatedRate).
func rate(scrapes []point, t, window time.Duration) (float64, bool) {
	from := 0
	for from < len(scrapes) && scrapes[from].at <= t-window {
		from++
	}
	to := from
	for to < len(scrapes) && scrapes[to].at <= t {
		to++
	}
	in := scrapes[from:to]
	if len(in) < 2 {
		return 0, false
	}
	first, last := in[0], in[len(in)-1]
	increase := last.value - first.value
	sampled := (last.at - first.at).Seconds()
	toStart, toEnd := (first.at - (t - window)).Seconds(), (t - last.at).Seconds()
	between := sampled / float64(len(in)-1)
	limit := between * 1.1
	if toStart >= limit {
		toStart = between / 2
	}
	if increase > 0 && first.value >= 0 {
		toStart = min(toStart, sampled*first.value/increase) // a counter begins at 0
	}
	if toEnd >= limit {
		toEnd = between / 2
	}
	return increase * (sampled + toStart + toEnd) / sampled / window.Seconds(), true
}

// Observe implements the loop's Observer.
func (s *sensors) Observe(context.Context) (api.Snapshot, error) {
	c := s.c
	s.fold()
	for _, w := range s.workload {
		w.read(c)
	}
	snapshot := api.Snapshot{
		Time: c.time(), PodStartup: s.podStartups.Latency(c.params.PodStartup),
		Metrics:         api.SourceHealth{Reachable: !c.scrapeDown, LastOK: Epoch.Add(s.lastOK)},
		ResourceMetrics: api.SourceHealth{Reachable: true, LastOK: c.time()},
	}
	snapshot.Context.Strategies, snapshot.Context.PlacesPods = s.strategies, s.places
	if c.scrapeDown {
		snapshot.Metrics.Error = "connection refused"
		snapshot.Findings = append(snapshot.Findings, api.Finding{
			Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: sensing.ReasonPrometheusUnreachable, Object: api.ObjectRef{Kind: "prometheus"}, Message: "connection refused",
		})
	}
	var disagree demand.Disagreements
	for _, w := range s.workload {
		out := s.observe(w)
		in := demand.Input{Now: snapshot.Time, Demand: out.Demand, Coverage: w.coverage, Usage: out.Usage}
		verdict := s.judge.Verdict(out.Key, in)
		out.DemandStale = verdict.Stale()
		if f, ok := verdict.Finding(out.Key, in, ""); ok && !c.scrapeDown {
			snapshot.Findings = append(snapshot.Findings, f)
		}
		if f, ok := w.coverage.Beyond.Finding(out.Key); ok && !c.scrapeDown {
			snapshot.Findings = append(snapshot.Findings, f)
		}
		disagree.Add(out.Key, verdict.Disagreement)
		snapshot.Workloads = append(snapshot.Workloads, out)
	}
	snapshot.Findings = append(snapshot.Findings, s.judge.Findings(snapshot.Time, disagree, len(s.workload))...)
	for _, p := range c.pools {
		if s.pools == nil || s.pools[p.name] {
			snapshot.Pools = append(snapshot.Pools, s.pool(p))
		}
	}
	s.addNodes(&snapshot)
	for _, b := range c.budgets {
		snapshot.Budgets = append(snapshot.Budgets, b.seen())
	}
	slices.SortFunc(snapshot.Workloads, func(a, b api.Workload) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	slices.SortFunc(snapshot.Pools, func(a, b api.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return snapshot, nil
}

// fold adds the steps that became complete to the histories.
func (s *sensors) fold() {
	c := s.c
	if c.scrapeDown {
		return
	}
	s.lastOK = c.now
	newest := s.grid.At(c.time().Add(-c.params.EvaluationDelay))
	from := max(s.covered+1, newest-int64(c.params.History/c.params.Step)+1)
	if from <= newest {
		for _, w := range s.workload {
			w.fold(c.params, s.grid, from, newest)
		}
		s.covered = newest
	}
	for _, w := range s.workload {
		w.gone = slices.DeleteFunc(w.gone, func(g *ghost) bool {
			return g.scrapes[len(g.scrapes)-1].at < c.now-c.params.RateWindow-c.params.EvaluationDelay-c.params.Step
		})
	}
}

// fold adds some steps to a workload's demand: the rates of all its pods, as
// Prometheus answers the operator's query.
func (w *watched) fold(p Params, g demand.Grid, from, to int64) {
	f := demand.NewFolding(g, p.RateWindow, from, to)
	add := func(of demand.Pod, scrapes []point, speed float64) {
		for step := from; step <= to; step++ {
			if v, ok := rate(scrapes, g.Time(step).Sub(Epoch), p.RateWindow); ok {
				f.Add(of, step, 1000*v, 1000*v*speed)
			}
		}
	}
	for _, pod := range w.pods {
		if pod.node == nil {
			continue
		}
		of := pod.folded(p.RateWindow)
		f.Expect(of)
		add(of, pod.scrapes, pod.node.pool.speed)
	}
	for _, gone := range w.gone {
		add(gone.pod, gone.scrapes, gone.node.speed)
	}
	if w.history == nil {
		window := int(p.History / p.Step)
		w.history = demand.NewHistory(window, window/8)
	}
	w.coverage = f.Store(w.history)
}

// folded is what is known of a pod for samples that are means over a window. Its limit may have
// been changed in place.
func (p *pod) folded(window time.Duration) demand.Pod {
	out := demand.Pod{
		Ready: p.ready && !p.terminating, Limit: int64(math.Round(1000 * p.limit)),
		Most: demand.Burnable(0, p.node.pool.allocatable.MilliCPU), New: true,
	}
	switch {
	case p.ready:
		out.ReadyAt = Epoch.Add(p.readyAt)
	case p.backoff > 0:
		out.Starting, out.Again = Epoch.Add(p.killed+window), true
	default:
		out.Starting = Epoch.Add(p.created)
	}
	return out
}

// read sums what metrics.k8s.io has of a workload.
func (w *watched) read(c *Cluster) {
	var read demand.Readings
	for _, p := range w.pods {
		cores, at, window, ok := c.usageOf(p)
		if !ok || c.now-at > c.params.UsageStaleAfter {
			continue
		}
		read.Add(p.folded(window), Epoch.Add(at), window, 1000*cores*p.node.pool.speed)
	}
	w.usage = read.Usage()
}

func (s *sensors) observe(w *watched) api.Workload {
	c := s.c
	out := api.Workload{
		Key: w.key, UID: w.key.String(), Generation: 1, Mode: api.ModeFull, Planner: "horizontal",
		Target:      api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: w.key.Name},
		MinReplicas: w.min, MaxReplicas: w.max, Behavior: s.behavior, TargetUtilization: s.target,
		Replicas: w.replicas, PlannedReplicas: w.planned, Shape: w.shape, Usage: w.usage, SpeedNow: 1,
		LastScaled: Epoch.Add(w.lastScaled), LastScaledBy: api.FieldManager,
	}
	if s.places && w.placed != "" {
		out.PlacedOn, out.PlacedSince = w.placed, Epoch.Add(w.placedSince)
	}
	out.PodStartup = w.startups.Latency(api.StartupLatency{})
	if s.model != "" {
		out.Planner, out.Model = learned.Name, s.model
	}
	var speed float64
	for _, p := range w.pods {
		if p.ready && !p.terminating {
			out.ReadyReplicas++
			speed += p.node.pool.speed
		}
	}
	if w.stateful {
		out.Target.Kind = statefulSet
	}
	if out.ReadyReplicas > 0 {
		out.SpeedNow = speed / float64(out.ReadyReplicas)
	}
	if s.canary {
		out.Mode, out.HandedOver = api.ModeCanary, true
		if contested(slices.IndexFunc(c.workloads, func(o *workload) bool { return o == w.workload })) {
			out.Contested, out.HandedOver = "its HorizontalPodAutoscaler scales it", false
		}
	}
	out.SLOs = w.slo.read(c)
	out.Sizing = w.sizes.sizing()
	if out.Agents = s.agents.bounds(w.workload); out.Agents != nil {
		out.Basis = w.shape.Requests.MilliCPU // countRequests: Template
	}
	out.Demand = api.Series{Step: c.params.Step}
	if w.history != nil {
		out.Demand = w.history.Series(s.grid)
	}
	return out
}

func (s *sensors) pool(p *pool) api.Pool {
	prior := s.c.params.NodeStartup
	if p.bootMedian > 0 {
		prior = priorStartup(p.bootMedian)
	}
	out := api.Pool{
		Name: p.name, MachineType: p.machineType, Zones: p.zones, Sizes: slices.Clone(p.sizes),
		MinPerZone: p.min, MaxPerZone: p.max, Autoscaled: p.autoscaled, Error: p.failure,
		Allocatable: p.allocatable, Cores: int64(p.cores * 1000), Overhead: p.overhead, Labels: map[string]string{api.LabelNodePool: p.name},
		Price: p.price, CPUSpeed: p.speed, NodeStartup: p.leads.Latency(prior),
		ResizedAt: Epoch.Add(p.resizedAt),
	}
	if p.spot != nil {
		out.Spot, out.Interruptions = true, p.spot.interruptions
		maps.Copy(out.Labels, p.labels)
	}
	if s.c.now < p.busyUntil {
		out.Hold = "an operation is in progress"
	}
	for _, n := range s.c.sorted {
		if n.pool == p && n.deleting {
			out.Deleting = append(out.Deleting, n.name)
		}
		if n.pool == p && n.ready {
			out.StandingUsage = new(float64) // here DaemonSets request, and use nothing
		}
	}
	return out
}

func (s *sensors) addNodes(out *api.Snapshot) {
	visible := func(n *node) bool { return s.pools == nil || s.pools[n.pool.name] }
	pods := s.unsorted[:0]
	for _, n := range s.c.sorted {
		if !n.ready || !visible(n) {
			continue
		}
		out.Nodes = append(out.Nodes, api.Node{
			Name: n.name, Pool: n.pool.name, Zone: n.zone, ProviderID: "gce://sim/" + n.zone + "/" + n.name, Labels: n.labels,
			Allocatable: n.pool.allocatable, Ready: true, Cordoned: n.cordoned, CordonedFor: n.cordonedFor,
			CordonedAt: Epoch.Add(n.cordonedAt), GaveUp: n.gaveUp, GaveUpAt: Epoch.Add(n.gaveUpAt),
			Created: Epoch.Add(n.created), ReadyAt: Epoch.Add(n.readyAt),
		})
		pods = append(pods, *n.daemon)
	}
	for _, p := range s.c.all() {
		pod := api.Pod{
			Key: api.Key{Namespace: p.workload.key.Namespace, Name: p.name}, UID: p.uid, Shape: p.shape, Phase: "Pending",
			Ready: p.ready && !p.terminating, Created: Epoch.Add(p.created), Workload: p.workload.key,
			ControllerKind: "ReplicaSet", ControllerName: p.workload.key.Name, Terminating: p.terminating, Unschedulable: p.unschedul,
			DeletionCost: p.deletionCost, DeletionCostOurs: p.costOurs, Budgets: s.c.budgetsOf(p.workload),
		}
		if p.workload.stateful {
			pod.ControllerKind = statefulSet
		}
		if p.node != nil {
			pod.Node = p.node.name
		}
		if s.sized {
			pod.Size = sizeOf(p)
			if p.node != nil && !sameSize(p.allocated, p.shape.Requests) {
				pod.Resize = api.ResizeDeferred
			}
		}
		if !p.pending() {
			pod.Phase = "Running"
		}
		if pod.Ready {
			pod.ReadyAt = Epoch.Add(p.readyAt)
		}
		pods = append(pods, pod)
	}
	s.unsorted = pods
	order := make([]*api.Pod, len(pods)) // a pod is long to move
	for i := range pods {
		order[i] = &pods[i]
	}
	slices.SortFunc(order, func(a, b *api.Pod) int {
		if c := cmp.Compare(a.Key.Namespace, b.Key.Namespace); c != 0 {
			return c
		}
		return cmp.Compare(a.Key.Name, b.Key.Name)
	})
	out.Pods = make([]api.Pod, len(order))
	for i, p := range order {
		out.Pods[i] = *p
	}
}
