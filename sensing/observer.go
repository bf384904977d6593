package sensing

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
	"github.com/mash2-io/mash2/parallel"
)

// Observer makes snapshots. It is safe for concurrent use; snapshots are made
// one at a time.
type Observer struct {
	cfg       Config
	caches    *caches
	watermark watermark

	mu       sync.Mutex // one Observe at a time; guards what is below
	demand   *demandSource
	usage    *usageSource
	readings *readings
	sizes    *sizeReadings
	signals  *signals
	// strategies of users.
	strategies *strategies
	pools      poolSource
	speeds     *speeds
	pods       *podStartups
	boots      *nodeStartups
	starting   starting
	short      shortages
	judge      demand.Judge[targetID]
	scaled     scalings
	current    *currency
	// background is the context given to Start: what reads history in the
	// background outlives the cycle that began it.
	background context.Context
}

// New makes an Observer; it talks to nobody yet.
func New(cfg Config) (*Observer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	caches, err := newCaches(cfg)
	if err != nil {
		return nil, err
	}
	source, err := newDemand(cfg)
	if err != nil {
		return nil, err
	}
	usage, err := newUsageSource(cfg)
	if err != nil {
		return nil, err
	}
	triggers, err := newReadings(cfg, source.prom)
	if err != nil {
		return nil, err
	}
	sources, err := newSources(cfg)
	if err != nil {
		return nil, err
	}
	signals, err := newSignals(cfg, triggers)
	if err != nil {
		return nil, err
	}
	current, err := newCurrency(cfg.REST)
	if err != nil {
		return nil, err
	}
	return &Observer{
		sizes:      newSizeReadings(cfg, source.prom),
		current:    current,
		readings:   triggers,
		signals:    signals,
		strategies: &strategies{cfg: cfg, readings: triggers, sources: sources, known: map[sensorID]*sensorState{}},
		cfg:        cfg,
		caches:     caches,
		demand:     source,
		usage:      usage,
		pools:      poolSource{reader: cfg.Pools, timeout: cfg.PoolsTimeout},
		speeds:     newSpeeds(cfg.History),
		pods:       newPodStartups(cfg.StartupSamples),
		boots:      newNodeStartups(cfg.StartupSamples),
		starting:   starting{},
		short:      newShortages(),
		judge:      demand.NewJudge[targetID](cfg.rules()),
		scaled:     scalings{},

		background: context.Background(),
	}, nil
}

// Start fills the caches and returns when they are filled; they are kept until
// ctx ends. The error names the caches that could not be filled in time.
func (o *Observer) Start(ctx context.Context) error {
	o.mu.Lock()
	o.background = ctx
	o.mu.Unlock()
	o.current.begin(o.cfg.Clock.Now())
	return o.caches.start(ctx, o.cfg.SyncTimeout)
}

// Observe makes a snapshot of now. It fails with [ErrCacheBehind] when the
// caches don't contain our own last writes in time, and when ctx ends; any
// other failure is part of the snapshot.
func (o *Observer) Observe(ctx context.Context) (api.Snapshot, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	// 1. The caches, not older than our own writes.
	if err := o.watermark.wait(ctx, o.caches, o.cfg.Clock, o.cfg.CacheWait, o.cfg.CachePoll); err != nil {
		return api.Snapshot{}, err
	}
	now := o.cfg.Clock.Now()
	s := api.Snapshot{Time: now}
	versions := o.current.versions(o.caches)
	v := o.caches.view()
	namespaces := v.namespaces()
	failures := o.caches.failures()

	// 2. The other sources, side by side. None of them can fail the cycle.
	var (
		group        parallel.Group // what panics beside is this cycle's, not the process' end
		fresh        newest
		poolFindings []api.Finding
	)
	group.Go(func() { s.Unproven = o.current.observe(ctx, now, o.caches, versions, failures) })
	group.Go(func() { s.Pools, poolFindings = o.pools.read(ctx) })
	group.Go(func() { fresh = o.demand.fetch(ctx, now, namespaces, v) })
	group.Go(func() { o.usage.read(ctx, now, namespaces, v) })
	group.Go(func() { o.readings.read(ctx, o.background, now, v) })
	group.Go(func() { s.Context.Signals = o.signals.read(ctx, o.background, now) })
	group.Go(func() {
		s.Context.Strategies = o.strategies.observe(ctx, o.background, now, records[*strategyRecord](o.caches, kindStrategy))
	})
	group.Wait()
	s.Context.PlacesPods = o.cfg.PlacesAtAdmission
	if err := ctx.Err(); err != nil {
		return api.Snapshot{}, fmt.Errorf("observing: %w", err)
	}

	o.starting.leave(now, s.Pools, v.nodes)

	// 3. What was measured, by target and in reference millicores.
	o.speeds.learn(now, v.nodes, s.Pools)
	var usage map[targetID]*api.Usage
	var standing map[string]float64
	v.measure(o.speeds)
	group.Go(func() {
		usage = o.usage.fold(now, v)
		standing = o.usage.standing(now, v)
		o.pods.learn(v)
	})
	o.demand.fold(now, fresh, v, o.speeds)
	group.Wait()
	o.waitForHistory(ctx, v)
	o.sizes.read(o.background, now, v)
	o.boots.learn(now, s.Pools, v.nodes)
	o.short.date(now, s.Pools, v.nodes)
	o.scaled.learn(now, v)

	// 4. The snapshot.
	if f, ok := holdForeign(o.cfg.Pools, s.Pools, v.nodes); ok {
		poolFindings = append(poolFindings, f)
	}
	poolFindings = append(poolFindings, holdUnlabelled(o.cfg.Pools, s.Pools, v.nodes)...)
	s.Findings = append(s.Findings, poolFindings...)
	s.Findings = append(s.Findings, watchFindings(failures)...)
	if f, ok := crowdedFinding(crowdedNodes(v.nodes)); ok {
		s.Findings = append(s.Findings, f)
	}
	s.Findings = append(s.Findings, o.sourceFindings(fresh)...)
	o.addWorkloads(&s, v, usage)
	o.addPods(&s, v)
	for _, n := range v.nodes {
		s.Nodes = append(s.Nodes, n.node)
	}
	overheads := newOverheads(v.daemons, v.pods, v.nodes)
	leaveForeign(now, s.Pools, v.nodes, records[*statusRecord](o.caches, kindAutoscalerStatus))
	for i, p := range s.Pools {
		s.Pools[i] = describePool(p, v.nodes, overheads)
		if used, ok := standing[p.Name]; ok {
			s.Pools[i].StandingUsage = &used
		}
		s.Pools[i].NodeStartup = o.boots.lead(p.Name, o.cfg.NodeStartup)
	}
	s.PodStartup = o.pods.all.Latency(o.cfg.PodStartup)
	s.Metrics, s.ResourceMetrics = o.demand.health, o.usage.health
	if f, ok := speedFinding(o.speeds.unknown, ""); ok {
		s.Findings = append(s.Findings, f)
	}
	return s, nil
}

// waitForHistory lets the background read, and gives it a moment.
func (o *Observer) waitForHistory(ctx context.Context, v *view) {
	if !o.demand.health.Reachable {
		return
	}
	done := o.demand.readOn(o.background, v.seriesOfInterest(), o.speeds)
	if done == nil || o.cfg.BackfillWait == 0 {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-o.cfg.Clock.After(o.cfg.BackfillWait):
	}
}

// addWorkloads adds the workloads, with their demand and what is wrong with it.
func (o *Observer) addWorkloads(s *api.Snapshot, v *view, usage map[targetID]*api.Usage) {
	var disagree demand.Disagreements
	known := map[targetID]bool{}
	for _, r := range v.workloads {
		if v.first(r.target) == r {
			known[r.target] = true
		}
		s.Workloads = append(s.Workloads, o.attempt(r, v, func() api.Workload { return o.look(s, r, v, usage, &disagree) }))
	}
	o.judge.Forget(known)
	s.Findings = append(s.Findings, o.judge.Findings(s.Time, disagree, len(known))...)
}

// attempt looks at one workload. If that panics it is held, and the others are looked at
// all the same.
func (o *Observer) attempt(r *workloadRecord, v *view, look func() api.Workload) (w api.Workload) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if o.cfg.Panicked != nil {
			o.cfg.Panicked("sensing", r.key, value, debug.Stack())
		}
		w = r.workload
		w.HoldReason, w.Hold = HoldPanicked, fmt.Sprintf("sensing panicked: %v", value)
		w.DemandStale = true
		if t := v.targets[r.target]; t != nil {
			w.Replicas = t.replicas
		}
	}()
	return look()
}

// look returns one workload with its demand; what is wrong with that are findings of the
// snapshot.
func (o *Observer) look(s *api.Snapshot, r *workloadRecord, v *view, usage map[targetID]*api.Usage, disagree *demand.Disagreements) api.Workload {
	w := observeWorkload(r, v)
	w.PodStartup = o.pods.lead(r.target)
	if w.HoldReason == "" && v.runs(r.target, o.cfg.Self) {
		w.HoldReason, w.Hold = HoldOwnDeployment, "spec.targetRef: mash2 runs in this Deployment and does not scale itself"
	}
	if at := o.scaled[r.target].changed; at.After(w.LastScaled) {
		w.LastScaled = at
	}
	in := demand.Input{Now: s.Time}
	in.Demand, in.Coverage = o.demand.series(r.target)
	w.Demand, w.DemandStale = in.Demand, o.judge.Fresh(in).Stale()
	if v.first(r.target) == r {
		if t := v.targets[r.target]; t != nil && w.HoldReason == "" {
			if f, ok := withinQuota(&w, t, v.members(r.target), v.quotas[r.key.Namespace]); ok {
				s.Findings = append(s.Findings, f)
			}
			if f, ok := refusedFinding(w, t, o.refusal(t, v.members(r.target))); ok && w.Mode != api.ModeOff {
				s.Findings = append(s.Findings, f)
			}
			if f, ok := unscaledFinding(w, v.byKEDA[r.target]); ok {
				s.Findings = append(s.Findings, f)
			}
		}
		w.Usage = usage[r.target]
		if w.HoldReason == "" && w.Mode != api.ModeOff {
			w.Triggers = o.readings.of(s.Time, r, v, w, o.usage)
			if f, ok := missingFinding(w); ok {
				s.Findings = append(s.Findings, f)
			}
			w.SLOs = o.readings.objectives(r, v)
		}
		if w.Mode != api.ModeOff {
			w.Sizing = o.sizing(s.Time, r, v)
			if f, ok := slowFinding(w); ok {
				s.Findings = append(s.Findings, f)
			}
			w.Agents = o.agents(r, v)
			s.Findings = append(s.Findings, foreignResizes(w, v.members(r.target))...)
		}
		if len(w.Triggers) > 0 && (w.IgnoreCPU || w.Replicas == 0) {
			in.Ignored = true
		}
		in.Usage = w.Usage
		verdict := o.judge.Verdict(r.target, in)
		w.DemandStale = verdict.Stale()
		s.Findings = append(s.Findings, o.staleFindings(w, v.targets[r.target], in, verdict)...)
		disagree.Add(w.Key, verdict.Disagreement)
	}
	return w
}

// staleFindings say why a workload's demand can't be acted on. While Prometheus
// doesn't answer at all, that is said once and not for every workload.
func (o *Observer) staleFindings(w api.Workload, t *targetRecord, in demand.Input, v demand.Verdict) []api.Finding {
	if in.Ignored || w.HoldReason != "" || w.Mode == api.ModeOff || !o.demand.health.Reachable {
		return nil
	}
	var out []api.Finding
	if f, ok := v.Finding(w.Key, in, o.cfg.CPUMetric); ok {
		if t != nil && t.paused {
			f.Reason = ReasonTargetPaused
			f.Message = fmt.Sprintf("spec.targetRef: Deployment %s is paused, and its pods have no fresh sample of %s; kubectl rollout resume ends the pause", w.Target.Name, o.cfg.CPUMetric)
		}
		out = append(out, f)
	}
	if f, ok := in.Coverage.Beyond.Finding(w.Key); ok {
		out = append(out, f)
	}
	return out
}

// addPods adds the pods, with the workload they belong to and what they are
// bound to, and the budgets, and lets go of shapes that no pod has any more.
func (o *Observer) addPods(s *api.Snapshot, v *view) {
	s.Pods = make([]api.Pod, len(v.pods))
	used, sizes := map[*api.PodShape]bool{}, map[*api.PodSize]bool{}
	var last *podRecord
	ties, kin := o.caches.ties(), v.kin()
	for _, b := range o.caches.budgetsInOrder() {
		s.Budgets = append(s.Budgets, b.budget)
	}
	for i, p := range v.pods {
		s.Pods[i] = p.pod
		ties.add(p, &s.Pods[i])
		s.Pods[i].Unheeded = kin.unheeded(p)
		if last == nil || last.pod.Shape != p.pod.Shape || last.size.size != p.size.size { // neighbours are mostly alike
			used[p.pod.Shape], sizes[p.size.size] = true, true
		}
		last = p
		if of := v.ofPod[i]; of != nil {
			s.Pods[i].Workload = of.first.key
			if (of.first.sizing != nil || p.size.ours) && p.size.by == "" {
				s.Pods[i].Size, s.Pods[i].Resize, s.Pods[i].ResizeMessage, s.Pods[i].Held = p.size.size, p.size.resize, p.size.message, p.size.held
				s.Pods[i].Sized, s.Pods[i].Resized, s.Pods[i].KilledAgain = p.size.ours, p.resized, p.size.killedAgain
			}
		}
	}
	for _, t := range v.targets {
		used[t.template] = true
	}
	o.caches.shapes.keep(used)
	o.caches.shapes.keepSizes(sizes)
}

// watchFindings tell which caches may be out of date.
func watchFindings(failures map[string]error) []api.Finding {
	var out []api.Finding
	for _, kind := range slices.Sorted(maps.Keys(failures)) {
		out = append(out, api.Finding{
			Severity: api.Warning, Reason: ReasonWatchFailing, Object: api.ObjectRef{Kind: "cache", Key: api.Key{Name: kind}}, Message: failures[kind].Error(),
		})
	}
	return out
}

// sourceFindings tell how the sources of measurements are.
func (o *Observer) sourceFindings(fresh newest) []api.Finding {
	var out []api.Finding
	add := func(reason, source, message string) {
		out = append(out, api.Finding{
			Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: reason, Object: api.ObjectRef{Kind: source}, Message: message,
		})
	}
	if e := o.demand.health.Error; e != "" {
		add(ReasonPrometheusUnreachable, "prometheus", e)
	}
	if w := fresh.warnings; len(w) > 0 {
		add(ReasonPrometheusWarning, "prometheus", strings.Join(w, "; "))
	}
	if e := o.usage.health.Error; e != "" {
		add(ReasonMetricsAPIUnreachable, "metrics.k8s.io", e)
	} else if e := o.usage.forbidden; e != "" {
		out = append(out, api.Finding{
			Severity: api.Normal, Agent: api.NodePlanningAgent, Reason: ReasonNodeUsageUnread, Object: api.ObjectRef{Kind: "metrics.k8s.io"},
			Message: "mash2 may not read what nodes use, so all that DaemonSets request is left to them: " + e,
		})
	}
	out = append(out, o.demand.backfill.findings(o.cfg.Step)...)
	return append(out, o.demand.past.findings()...)
}

// speedFinding names nodes whose cores had to be taken for reference ones.
func speedFinding(unknown map[string]bool, which string) (api.Finding, bool) {
	names := slices.Sorted(maps.Keys(unknown))
	if len(names) == 0 {
		return api.Finding{}, false
	}
	const most = 5
	return api.Finding{
		Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonUnknownNodeSpeed, Object: api.ObjectRef{Kind: "nodes"},
		Message: fmt.Sprintf("the pools of %d nodes %sare unknown, so their cores count as reference cores: %s",
			len(names), which, strings.Join(names[:min(len(names), most)], ", ")),
	}, true
}
