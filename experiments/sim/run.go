package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/learned"
)

// Fidelity of what happens to requests.
type Fidelity string

// The fidelities.
const (
	PerRequest Fidelity = "request"
	Fluid      Fidelity = "fluid"
)

// GCPercent is for a program that simulates to set: nearly all that a cycle
// allocates is garbage after it.
const GCPercent = 200

// Options of a run.
type Options struct {
	Scenario scenarios.Scenario
	// Scaler is one of the kinds in this package, such as Mash2 or HPA, and its
	// parameter if it has one; see ParseScaler.
	Scaler   string
	Seed     uint64
	Fidelity Fidelity
	// WarmupPasses of the scenario come before the measured Passes; 0 passes
	// takes the scenario's.
	WarmupPasses, Passes int
	// Skipped is how much of the warm-up, from its beginning, is left out: of use for
	// scalers without a memory of days. The load begins as it is then.
	Skipped time.Duration
	// Switches of the policy at scenario times from the first pass on; they go
	// before the scenario's own, which begin anew in each pass.
	Switches []scenarios.Switch
	// Foresight is how far ahead mash2's forecasts are right, as if somebody told it; 0 leaves
	// them as they are.
	Foresight time.Duration
	// Policies is policies.yaml of the policy ConfigMap; without it COST_SAVING has
	// the scenario's first pool and PERFORMANCE the last.
	Policies string
	// Params of the world; nil for the default.
	Params *Params
	// Operator configures mash2; nil for the operator's defaults. Its cycles are
	// Params.Cycle apart, and it carries out one action after the other.
	Operator *core.Config
	// Wrap is for tests that stand between the loop and the planners; nil for none.
	Wrap func(planning.Hierarchy) mash2.Planner
	// Record makes what keeps mash2's records, for its configuration; nil keeps none.
	// Those of the clairvoyant are not kept: what it foresees is in none.
	Record func(core.Config) (mash2.Recorder, error)
	// Behavior is the default behaviour of mash2's workloads.
	Behavior api.Behavior
	// Faults of the operator and its cluster beside the scenario's.
	Faults Faults
	// SLO of mash2's workloads: the share of their requests that are to be answered, and
	// which fail besides.
	SLO SLO
	// Canary has mash2's workloads in mode Canary. Each has a stock HPA at first; every
	// second one was handed over from it to mash2.
	Canary bool
	// Tuning of the rivals' rules; the zero value has their defaults.
	Tuning Tuning
	// Strategies of users, of what isn't read. With them new pods prefer the pool that their
	// workload is planned on, as on a cluster whose admission sees to that.
	Strategies []api.Strategy
	// Report gets every cycle of mash2; nil for none.
	Report func(api.Cycle)
	// Decide is asked about each workload of mash2's in each cycle, with what its planner
	// proposes and what requests saw since it was asked last; nil for nobody. What it
	// returns is bounded as any proposal.
	Decide func(planning.Input, planning.Proposal, queueing.Window) planning.Proposal

	// Agents of the pods of mash2's workloads; nil for none.
	Agents *Agents

	// Steering is what scaler Steered decides by.
	Steering Steering

	prepare func(*Cluster) // before there are nodes and pods
	inspect func(*Cluster) // at the end
}

// Run simulates one scaler.
func Run(ctx context.Context, o Options) (Result, error) {
	p := DefaultParams()
	if o.Params != nil {
		p = *o.Params
	}
	if err := p.validate(); err != nil {
		return Result{}, err
	}
	if o.Passes == 0 {
		o.Passes = max(1, o.Scenario.Repeat)
	}
	var t traffic
	switch o.Fidelity {
	case PerRequest:
		t = queueing.New(o.Seed)
	case Fluid, "":
		t = newFluid(o.Seed)
	default:
		return Result{}, fmt.Errorf("fidelity %q is neither %s nor %s", o.Fidelity, PerRequest, Fluid)
	}
	if kind, _, _ := kindOf(o.Scaler); kind == KEDARPS || kind == KEDAVPA || kind == Steered || o.SLO.Objective > 0 || o.Decide != nil {
		t = newCounting(t)
	}
	c := newCluster(p, o.Seed, t)
	var names []string
	var loads []load.Workload
	for _, d := range deploymentsOf(o.Scenario) {
		w := workloadOf(o.Scenario, d)
		c.workloads = append(c.workloads, w)
		names = append(names, w.key.String())
		loads = append(loads, load.Workload{Namespace: w.key.Namespace, Name: w.key.Name})
	}
	c.record = record.New(names...)
	if o.prepare != nil {
		o.prepare(c)
	}
	if d := o.Scenario.BootMedian.Duration; d > 0 {
		c.params.BootMedian = d
		c.params.NodeStartup = priorStartup(d)
	}
	collector := load.NewCollector(load.Config{
		Scenario: o.Scenario, Seed: o.Seed, WarmupPasses: o.WarmupPasses, Passes: o.Passes,
		Workloads: loads,
	})
	r := &run{Options: o, c: c, collector: collector, factors: map[string]*float64{}, policies: map[string]api.PolicySpec{}}
	if err := r.addTraffic(); err != nil {
		return Result{}, err
	}
	if err := r.begin(ctx); err != nil {
		return Result{}, err
	}
	result, err := r.measure(ctx)
	if o.inspect != nil {
		o.inspect(c)
	}
	return result, err
}

// run is one simulation.
type run struct {
	Options
	c         *Cluster
	sensors   *sensors
	watching  *watching // nil: no watch fails
	collector *load.Collector
	start     time.Duration       // of scenario time
	factors   map[string]*float64 // of the work of a visit, by service
	policies  map[string]api.PolicySpec
	rollbacks []api.Rollback
	acts      map[api.Key]bool // workloads in a trial that mash2 acts for
	fast      map[api.Key]*fastLoop
	cycles    int
	err       error
}

// begin sets up the scaler, lets the first replicas become Ready and starts the
// load.
func (r *run) begin(ctx context.Context) error {
	c, s := r.c, r.Scenario
	kind, parameter, err := kindOf(r.Scaler)
	if err != nil {
		return err
	}
	if len(s.Pools) == 0 {
		return fmt.Errorf("scenario %s has no pools", s.Name)
	}
	if ownPools(kind) {
		for _, p := range s.Pools {
			if err := c.addPool(p, false); err != nil {
				return err
			}
		}
	} else {
		// One general-purpose pool, with the same machines, bounds and first
		// nodes as the one that mash2 starts on.
		if err := c.addPool(s.Pools[0], true); err != nil {
			return err
		}
		for _, w := range c.workloads {
			w.shape.NodeSelector = map[string]string{api.LabelNodePool: s.Pools[0].Name}
		}
	}
	r.sensors = newSensors(c, r.Behavior)
	switch {
	case kind == Mash2Agents:
		r.Agents = growing(cmp.Or(parameter, 200) / 100)
		if !slices.ContainsFunc(c.workloads, func(w *workload) bool { return w.limit > 0 }) {
			return fmt.Errorf("scaler %s: no pod of scenario %s has a limit of CPU that could grow: state cpu.limit", kind, s.Name)
		}
	case operated(kind):
		r.sensors.target = parameter / 100
	}
	r.sensors.sized = sizes(kind)
	if kind == Mash2RL {
		models := r.config().Models
		if len(models) > 1 {
			return fmt.Errorf("scaler %s needs one model, there are %d", kind, len(models))
		}
		r.sensors.model = learned.Shipped
		for name := range models {
			r.sensors.model = name
		}
	}
	for _, w := range c.workloads {
		seen := &watched{workload: w, startups: demand.StartupLatencies{Limit: c.params.StartupSamples}, slo: r.SLO.sensor(func() bool { return r.acts[w.key] })}
		if r.sensors.sized {
			seen.sizes = newSizer(w)
		}
		r.sensors.workload = append(r.sensors.workload, seen)
	}
	r.sensors.canary, r.sensors.strategies, r.sensors.agents = r.Canary, r.Strategies, r.Agents
	r.sensors.places = len(r.Strategies) > 0 || mixes(kind) || slices.ContainsFunc(s.Pools, func(p scenarios.Pool) bool { return p.Spot != nil })
	c.ended = r.sensors.remember
	c.becameReady = r.sensors.started
	for _, w := range c.workloads {
		c.scale(w, w.min)
	}
	c.watchMemory()
	const quiet = 2 * time.Minute // as an experiment takes to get there
	forever := func(do func()) func() bool { return func() bool { do(); return true } }
	c.every(c.phase(c.params.ScrapeInterval), c.params.ScrapeInterval, forever(r.sensors.scrape))
	c.every(c.phase(c.params.Resolution), c.params.Resolution, forever(r.sensors.read))
	c.run(quiet)
	if r.Skipped < 0 || r.Skipped > time.Duration(r.WarmupPasses)*s.PassDuration() {
		return fmt.Errorf("%v of a warm-up of %d passes can't be left out", r.Skipped, r.WarmupPasses)
	}
	r.start = c.now - r.Skipped
	for _, w := range r.sensors.workload {
		if w.slo != nil {
			w.slo.start = r.start
		}
	}

	switch {
	case operated(kind):
		for i, w := range c.workloads {
			if r.Canary && contested(i) {
				r.hpa(w, int32(w.target*100+0.5))
			}
		}
		if err := r.operator(ctx, kind == Clairvoyant); err != nil {
			return err
		}
	case kind == Steered:
		if r.Steering.Decide == nil || r.Steering.Every <= 0 {
			return fmt.Errorf("scaler %s has nobody who decides", kind)
		}
		if err := r.steer(); err != nil {
			return err
		}
		r.scaleNodes()
	case kind == Static:
		if err := r.static(); err != nil {
			return err
		}
	default:
		r.rival(kind, parameter)
	}
	r.events()
	return r.startTraffic()
}

// config of mash2 in this world: that of the operator, in a world of one thread
// whose sensors and cycles have the delays of Params.
func (r *run) config() core.Config {
	cfg := core.DefaultConfig()
	if r.Options.Operator != nil {
		cfg = *r.Options.Operator
	}
	p := r.c.params
	cfg.Planning.CyclePeriod = p.Cycle
	cfg.Planning.MetricDelay = core.MetricDelay(p.Step, p.RateWindow)
	cfg.Planning.Averaging = p.RateWindow
	cfg.Parallel = 1
	return cfg
}

// operator runs mash2's loop; the clairvoyant one knows the demand to come.
func (r *run) operator(ctx context.Context, clairvoyant bool) error {
	c, cfg := r.c, r.config()
	phase := c.phase(c.params.Cycle)
	hierarchy, err := cfg.Hierarchy()
	if err != nil {
		return err
	}
	if clairvoyant || r.Foresight > 0 {
		known := newForesight(r.Scenario, c.params, c.workloads, r.WarmupPasses+r.Passes, r.Seed, r.start)
		if clairvoyant {
			hierarchy.Forecaster = known
		} else {
			hierarchy.Forecaster = foretold{hierarchy.Forecaster, known, r.Foresight}
		}
	}
	if r.Decide != nil {
		r.decides(&hierarchy)
	}
	var recorder mash2.Recorder
	if r.Record != nil && !clairvoyant {
		if recorder, err = r.Record(cfg); err != nil {
			return err
		}
	}
	var planner mash2.Planner = hierarchy
	if r.Wrap != nil {
		planner = r.Wrap(hierarchy)
	}
	var loop *mash2.Loop
	var observer mash2.Observer = r.sensors
	if r.Faults.Watches.ways != 0 {
		r.watching = r.newWatching()
		observer = r.watching
	}
	begin := func(a mash2.Actuator) {
		loop = cfg.Loop(planner, core.Ports{Observer: observer, Policies: r, Actuator: a, Reporter: r, Recorder: recorder})
	}
	begin(hands{c})
	alive := func() bool { return true }
	if r.Faults.Until > 0 {
		alive = r.mortal(begin)
	}
	cycle := func() {
		if !alive() {
			return
		}
		if _, err := loop.RunOnce(ctx); err != nil && r.err == nil {
			r.err = err
		}
		r.cycles++
	}
	c.every(c.now+phase, c.params.Cycle, func() bool { cycle(); return true })
	r.agents()
	// A changed policy wakes the loop.
	pass := r.Scenario.PassDuration()
	for n := range r.WarmupPasses + r.Passes {
		begin := r.start + time.Duration(n)*pass
		for _, s := range r.Scenario.Policy.Switches {
			c.at(begin+s.At.Duration+time.Second, cycle)
		}
	}
	for _, s := range r.Switches {
		c.at(r.start+s.At.Duration+time.Second, cycle)
	}
	return nil
}

// Report implements mash2.Reporter.
func (r *run) Report(_ context.Context, cycle api.Cycle) {
	for _, p := range cycle.Plan.Workloads {
		for _, w := range r.c.workloads {
			if p.Key == w.key {
				w.planned = p.Replicas
				if l := r.fast[p.Key]; l != nil {
					l.plan = p.Agents
				}
				if pool := cycle.Plan.PlacedOn(p); pool != w.placed {
					w.placed, w.placedSince = pool, r.c.now
				}
			}
		}
		if p.Canary != nil {
			if r.acts == nil {
				r.acts = map[api.Key]bool{}
			}
			r.acts[p.Key] = p.Canary.Acts
		}
	}
	r.c.admit(cycle.Plan.Workloads)
	if back := cycle.Plan.Rollback; back != nil && (len(r.rollbacks) == 0 || !r.rollbacks[len(r.rollbacks)-1].At.Equal(back.At)) {
		r.rollbacks = append(r.rollbacks, *back)
	}
	if r.Options.Report != nil {
		r.Options.Report(cycle)
	}
}

// measure runs all passes.
func (r *run) measure(ctx context.Context) (Result, error) {
	c := r.c
	pass := r.Scenario.PassDuration()
	end := time.Duration(r.WarmupPasses+r.Passes) * pass
	// What came before scenario time is nobody's result.
	c.record.Take(c.now)
	for _, w := range c.workloads {
		if _, err := c.traffic.TakeWindow(w.stream); err != nil {
			return Result{}, err
		}
	}
	for at := r.collector.Next(); ; at = r.collector.Next() {
		c.run(max(c.now, r.start+at))
		if r.err != nil {
			return Result{}, r.err
		}
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		if err := r.collector.Close(at, c.traffic, c.record.Take(c.now)); err != nil {
			return Result{}, err
		}
		if at >= end {
			break
		}
	}
	out := Result{Results: r.collector.Results(c.record), Start: r.start, Cycles: r.cycles, Rollbacks: r.rollbacks}
	for _, at := range c.resizes {
		out.Resizes = append(out.Resizes, at-r.start)
	}
	for _, at := range c.oomKills {
		out.OOMKills = append(out.OOMKills, at-r.start)
	}
	for _, l := range c.ledger {
		out.Ledger = append(out.Ledger, *l)
	}
	paid := func(from, to time.Duration) (hours, usd float64) {
		for _, l := range out.Ledger {
			end := to
			if l.Deleted >= 0 {
				end = min(to, l.Deleted)
			}
			if d := end - max(from, l.Requested); d > 0 {
				hours += d.Hours()
				usd += d.Hours() * l.Price
			}
		}
		return hours, usd
	}
	for n := range r.WarmupPasses + r.Passes {
		from := r.start + time.Duration(n)*pass
		hours, usd := paid(from, from+pass)
		out.NodeHours, out.CostUSD = append(out.NodeHours, hours), append(out.CostUSD, usd)
	}
	return out, nil
}
