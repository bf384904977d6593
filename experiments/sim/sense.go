package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/sensing"
)

// sensors are the operator's eyes: what Prometheus and metrics-server have
// read, and the Observer that makes snapshots of it. They follow package
// sensing: the same grid, rate, coverage and staleness.
type sensors struct {
	c        *Cluster
	workload []*watched
	podLeads leads
	lastOK   time.Duration
	covered  int64
	behavior api.Behavior
	target   float64         // of workloads that state one, 0–1; 0 for the policy's
	pools    map[string]bool // that mash2 may see; nil for all
	doubts   sensing.Plausibility[api.Key]
}

func newSensors(c *Cluster, behavior api.Behavior) *sensors {
	return &sensors{
		c: c, behavior: behavior, podLeads: leads{limit: c.params.LeadSamples}, covered: -1,
		doubts: sensing.NewPlausibility[api.Key](c.params.plausibility()),
	}
}

// watched is a workload's demand.
type watched struct {
	*workload
	values   []float64  // by step of the grid, reference millicores; NaN for gaps
	first    int64      // step of values[0]
	bounds   []api.Span // steps at which half of the pods were at their limits
	low      bool       // too few of the Ready pods were seen at the newest step
	seen     int        // of the Ready pods at the newest step
	expected int        // of them to be seen
	usage    *api.Usage
	gone     []*ghost // pods that ended within the rate window
}

// ghost is a pod that is gone while a rate may still reach back to it.
type ghost struct {
	scrapes []point
	speed   float64
}

// scrape is Prometheus' look at every running container.
func (s *sensors) scrape() {
	if s.c.scrapeDown {
		return
	}
	keep := s.c.now - s.c.params.RateWindow - 2*s.c.params.ScrapeInterval
	for _, p := range s.c.pods {
		if p.phase != running {
			continue
		}
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
}

// remember keeps what was scraped of a pod that ends.
func (s *sensors) remember(p *pod) {
	if p.node == nil || len(p.scrapes) == 0 {
		return
	}
	for _, w := range s.workload {
		if w.workload == p.workload {
			w.gone = append(w.gone, &ghost{p.scrapes, p.node.pool.speed})
		}
	}
}

// read is metrics-server's look.
func (s *sensors) read() {
	for _, p := range s.c.pods {
		if p.phase != running {
			continue
		}
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
		Time: c.time(), PodLead: s.podLeads.lead(c.params.PodLead),
		Metrics:         api.SourceHealth{Reachable: !c.scrapeDown, LastOK: Epoch.Add(s.lastOK)},
		ResourceMetrics: api.SourceHealth{Reachable: true, LastOK: c.time()},
	}
	if c.scrapeDown {
		snapshot.Metrics.Error = "connection refused"
		snapshot.Findings = append(snapshot.Findings, api.Finding{
			Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: sensing.ReasonPrometheusUnreachable, Object: "prometheus", Message: "connection refused",
		})
	}
	var doubts []sensing.Doubt
	for _, w := range s.workload {
		out := s.observe(w)
		if !out.DemandStale {
			verdict := s.doubts.Judge(snapshot.Time, out.Key, out.Demand, out.Usage)
			if verdict.Disagree {
				doubts = append(doubts, sensing.Doubt{Key: out.Key, Since: verdict.Since})
			}
			out.DemandStale = verdict.Doubted
		} else if f, ok := s.staleFinding(w, out); ok {
			snapshot.Findings = append(snapshot.Findings, f)
		}
		snapshot.Workloads = append(snapshot.Workloads, out)
	}
	snapshot.Findings = append(snapshot.Findings, c.params.plausibility().Findings(snapshot.Time, doubts, len(s.workload))...)
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
	newest := int64((c.now - c.params.EvaluationDelay) / c.params.Step)
	limit := int(c.params.History / c.params.Step)
	for step := max(s.covered+1, newest-int64(limit)+1); step <= newest; step++ {
		t := time.Duration(step) * c.params.Step
		for _, w := range s.workload {
			w.fold(c, step, t, limit)
		}
	}
	s.covered = max(s.covered, newest)
	for _, w := range s.workload {
		w.gone = slices.DeleteFunc(w.gone, func(g *ghost) bool {
			return g.scrapes[len(g.scrapes)-1].at < c.now-c.params.RateWindow-c.params.EvaluationDelay-c.params.Step
		})
	}
}

// fold is one step of a workload's demand: the rates of all its pods in
// reference millicores. Ready pods without one are taken to be like the others,
// if these are at least half; else the step is a gap.
func (w *watched) fold(c *Cluster, step int64, t time.Duration, limit int) {
	var sum, ready float64
	var pods, seen, expected, capped int
	for _, p := range w.pods {
		if p.node == nil {
			continue
		}
		must := p.ready && !p.terminating && t >= p.readyAt+c.params.RateWindow
		if must {
			expected++
		}
		v, ok := rate(p.scrapes, t, c.params.RateWindow)
		if !ok {
			continue
		}
		v *= 1000 * p.node.pool.speed
		sum += v
		pods++
		if p.limit > 0 && v >= 0.95*1000*p.limit*p.node.pool.speed {
			capped++
		}
		if must {
			ready += v
			seen++
		}
	}
	for _, g := range w.gone {
		if v, ok := rate(g.scrapes, t, c.params.RateWindow); ok {
			sum += v * 1000 * g.speed
			pods++
		}
	}
	value := math.NaN()
	missing := expected - seen
	switch {
	case pods == 0:
	case missing <= 0:
		value = sum
	case seen > 0 && 2*seen >= expected:
		value = sum + ready/float64(seen)*float64(missing)
	}
	w.low = expected > 0 && float64(seen) < c.params.MinCoverage*float64(expected)
	w.seen, w.expected = seen, expected
	if len(w.values) == 0 {
		w.first = step
	}
	for next := w.first + int64(len(w.values)); next < step; next++ {
		w.values = append(w.values, math.NaN())
	}
	w.values = append(w.values, value)
	if at := Epoch.Add(t); capped > 0 && 2*capped >= pods {
		if n := len(w.bounds); n > 0 && w.bounds[n-1].To.Equal(at.Add(-c.params.Step)) {
			w.bounds = append(slices.Clone(w.bounds[:n-1]), api.Span{From: w.bounds[n-1].From, To: at}) // snapshots keep the old ones
		} else {
			w.bounds = append(w.bounds[:n:n], api.Span{From: at, To: at})
		}
		for w.bounds[0].To.Before(at.Add(-c.params.History)) {
			w.bounds = w.bounds[1:]
		}
	}
	if over := len(w.values) - limit; over > limit/8 {
		w.values = append([]float64(nil), w.values[over:]...) // snapshots keep the old ones
		w.first += int64(over)
	}
}

// read sums what metrics.k8s.io has of a workload.
func (w *watched) read(c *Cluster) {
	w.usage = nil
	for _, p := range w.pods {
		cores, at, window, ok := c.usageOf(p)
		if !ok || c.now-at > c.params.UsageStaleAfter {
			continue
		}
		if w.usage == nil {
			w.usage = &api.Usage{}
		}
		w.usage.MilliCPU += 1000 * cores * p.node.pool.speed
		w.usage.Pods++
		if t := Epoch.Add(at); t.After(w.usage.At) {
			w.usage.At, w.usage.Window = t, window
		}
	}
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
	n := min(len(w.values), int(c.params.History/c.params.Step))
	from := len(w.values) - n
	out.Demand = api.Series{
		Start: Epoch.Add(time.Duration(w.first+int64(from)) * c.params.Step), Step: c.params.Step,
		Values: w.values[from:len(w.values):len(w.values)], Censored: w.bounds,
	}
	_, at, ok := out.Demand.Last()
	out.DemandStale = !ok || c.time().Sub(at) > c.params.StaleAfter || w.low || w.gaps(c) > 0.5
	return out
}

// gaps is the share of gaps in the steps that ended within twice the age from
// which demand is stale.
func (w *watched) gaps(c *Cluster) float64 {
	newest := int64((c.now - c.params.EvaluationDelay) / c.params.Step)
	from := max(w.first, newest-2*int64(c.params.StaleAfter/c.params.Step))
	var gaps, steps float64
	for step := from; step < newest; step++ {
		i := step - w.first
		if i >= int64(len(w.values)) || math.IsNaN(w.values[i]) {
			gaps++
		}
		steps++
	}
	return gaps / max(steps, 1)
}

// staleFinding says why a workload's demand can't be acted on; nothing more
// while Prometheus does not answer at all.
func (s *sensors) staleFinding(w *watched, out api.Workload) (api.Finding, bool) {
	f := api.Finding{Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Object: "workload " + w.key.String()}
	if w.low {
		f.Reason, f.Message = sensing.ReasonDemandPartial, fmt.Sprintf("only %d of %d Ready pods have a sample", w.seen, w.expected)
		return f, !s.c.scrapeDown
	}
	f.Reason, f.Message = sensing.ReasonDemandStale, "there is no sample"
	if _, at, ok := out.Demand.Last(); ok {
		f.Message = "the newest sample is of " + at.Format(time.RFC3339)
	}
	return f, !s.c.scrapeDown
}

func (s *sensors) pool(p *pool) api.Pool {
	prior := s.c.params.BootLead
	if p.bootMedian > 0 {
		prior = priorLead(p.bootMedian)
	}
	out := api.Pool{
		Name: p.name, MachineType: p.machineType, Zones: p.zones, Sizes: slices.Clone(p.sizes),
		MinPerZone: p.min, MaxPerZone: p.max, Autoscaled: p.autoscaled, Error: p.failure,
		Allocatable: p.allocatable, Overhead: p.overhead, Labels: map[string]string{api.LabelNodePool: p.name},
		Price: p.price, CPUSpeed: p.speed, BootLead: p.leads.lead(prior),
		ResizedAt: Epoch.Add(p.resizedAt),
	}
	if s.c.now < p.busyUntil {
		out.Hold = "an operation is in progress"
	}
	for _, n := range s.c.sortedNodes() {
		if n.pool == p && n.deleting {
			out.Deleting = append(out.Deleting, n.name)
		}
	}
	return out
}

func (s *sensors) addNodes(out *api.Snapshot) {
	visible := func(n *node) bool { return s.pools == nil || s.pools[n.pool.name] }
	for _, n := range s.c.sortedNodes() {
		if !n.ready || !visible(n) {
			continue
		}
		out.Nodes = append(out.Nodes, api.Node{
			Name: n.name, Pool: n.pool.name, Zone: n.zone, ProviderID: "gce://sim/" + n.zone + "/" + n.name, Labels: n.labels,
			Allocatable: n.pool.allocatable, Ready: true, Cordoned: n.cordoned, CordonedFor: n.cordonedFor,
			CordonedAt: Epoch.Add(n.cordonedAt), GaveUp: n.gaveUp, GaveUpAt: Epoch.Add(n.gaveUpAt),
			Created: Epoch.Add(n.created), ReadyAt: Epoch.Add(n.readyAt),
		})
		out.Pods = append(out.Pods, *n.daemon)
	}
	for _, p := range s.c.pods {
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
		if p.phase == running {
			pod.Phase = "Running"
		}
		if pod.Ready {
			pod.ReadyAt = Epoch.Add(p.readyAt)
		}
		out.Pods = append(out.Pods, pod)
	}
	order := make([]*api.Pod, len(out.Pods)) // a pod is long to move
	for i := range out.Pods {
		order[i] = &out.Pods[i]
	}
	slices.SortFunc(order, func(a, b *api.Pod) int {
		if c := cmp.Compare(a.Key.Namespace, b.Key.Namespace); c != 0 {
			return c
		}
		return cmp.Compare(a.Key.Name, b.Key.Name)
	})
	sorted := make([]api.Pod, len(order))
	for i, p := range order {
		sorted[i] = *p
	}
	out.Pods = sorted
}
