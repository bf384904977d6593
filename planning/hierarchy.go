package planning

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// DefaultPlanner is the planner of workloads that name none.
const DefaultPlanner = "horizontal"

// Hierarchy chooses one plan for all workloads and nodes.
type Hierarchy struct {
	Config Config
	// Planners by the name that workloads ask for; DefaultPlanner must be there.
	Planners map[string]WorkloadPlanner
	// Nodes packs pods; nil plans replicas only.
	Nodes NodePlanner
	// Forecaster of demand; nil plans by the reactive floor only.
	Forecaster forecast.Forecaster
	// Moves is asked whether workloads can be moved to the pool that was chosen;
	// nil takes it that they can.
	Moves MoveCheck
	// Panicked is told of a panic about one workload, with its stack, for the log; nil for
	// nobody.
	Panicked func(what string, workload api.Key, value any, stack []byte)
}

// Plan chooses the plan for a snapshot under a policy. It doesn't fail: what
// can't be planned is held, with a reason and a finding.
func (h Hierarchy) Plan(s api.Snapshot, p api.Policy, m Memory) (api.Plan, Memory) {
	c := newCycle(h, s, p, m, "")
	// 1. Predict demand, once per workload.
	c.predict()
	c.tell()
	// 2. Choose what containers request, where they ask for it.
	c.size()
	// 3. The best plan.
	plan := c.decide()
	// 4. The best one where workloads are, when they can't be moved now.
	if h.Moves != nil {
		if r := h.Moves(s, plan, p); r != nil && r.Stay != "" && r.Stay != r.Pool {
			c = c.staysOnly(r.Stay)
			plan = c.decide()
			plan.Nodes.Refusal = r
		}
	}
	// 5. What agents of running pods may do until the next plan.
	c.envelopes(plan.Workloads)
	if c.packed != nil {
		c.memory.packings = c.packed()
	}
	return plan, c.memory
}

// decide chooses a plan for what is predicted, and what to remember of it.
func (c *cycle) decide() api.Plan {
	// For each assignment of workloads to pools the best plan, and of these the best.
	candidates := c.candidates()
	chosen := c.choose(candidates)
	c.arrive(candidates, chosen)
	return c.compose(candidates, chosen)
}

// on is the same cycle, with the same predictions, under the policy but for its
// pools: workloads stay on this one.
func (c *cycle) on(pool string) *cycle {
	p := c.p
	p.NodePools, p.MachineType = []string{pool}, ""
	return c.again(c.s, p, pool)
}

// again is the same cycle, with the same predictions, for another policy.
func (c *cycle) again(s api.Snapshot, p api.Policy, pool string) *cycle {
	out := newCycle(c.Hierarchy, s, p, c.before, pool)
	for i := range out.managed { // the same ones in the same order
		from, to := &c.managed[i], &out.managed[i]
		to.forecast, to.trusted, to.note, to.skill, to.outlooks = from.forecast, from.trusted, from.note, from.skill, from.outlooks
		to.memory.Margins = from.memory.Margins
		to.sizing, to.memory.Sizing, to.workload.Shape, to.resizeTo = from.sizing, from.memory.Sizing, from.workload.Shape, from.resizeTo
	}
	out.memory.forecasts, out.memory.Together, out.common = c.memory.forecasts, c.memory.Together, c.common
	out.findings = append(out.findings, c.predicted...)
	return out
}

// cycle is the state of one Plan.
type cycle struct {
	Hierarchy
	guard Guard
	// planNodes is the NodePlanner's, prepared for this snapshot if it can be.
	planNodes PlanNodes
	packed    func() api.WarmStart // what its next cycle is to know; nil if nothing
	s         api.Snapshot
	p         api.Policy
	before    Memory
	memory    Memory // the next one
	managed   []managed
	pools     []api.Pool // allowed ones, in order of name
	findings  []api.Finding
	predicted []api.Finding    // those of them that tell of predictions
	staysOn   string           // the pool that workloads can't be moved from; empty if they can
	nodesOff  string           // why nodes are not planned although the policy names pools
	steady    map[string]bool  // nodes that stay and are no spot machines; see offSpot
	ready     map[string]int32 // nodes of pools that are Ready and not cordoned; see withReserve
	search    api.Search
	fits      int // left of the work that fits may take
	firsts    int // the same of first fits, a number
	// leastRequest is the least CPU that a pod requests, millicores; see burst.
	leastRequest int64
	// common is how much of what workloads grow by they grow at the same time.
	common sharing
	// untried is what workloads are to have at least for which mash2 acts without a plan of
	// its own: see trials.
	untried map[api.Key]*KeptScale
}

// managed is a workload to plan.
type managed struct {
	workload api.Workload // with Replicas less a migration's surge
	replicas int32        // spec.replicas as observed
	pods     []api.Pod
	memory   WorkloadMemory
	forecast *api.Forecast
	trusted  bool
	note     string             // about the forecast
	skill    *api.ForecastSkill // of it, in use or not
	outlooks []Outlook          // one for each trigger
	slos     []api.SLOPlan
	whys     []string // of slos, as told
	doubt    string   // why nothing may be given up, by its SLOs; empty if it may
	sizing   *api.SizingPlan
	resizeTo int64 // millicores that replicas there are being resized to; 0 if they aren't
	trial    *api.CanaryPlan
	joined   bool // its mode is Canary, whatever is made of it
}

func newCycle(h Hierarchy, s api.Snapshot, p api.Policy, m Memory, stay string) *cycle {
	var read []Standing
	s.Pools, read = standing(m.Standing, s.Time, s.Pools)
	c := &cycle{
		Hierarchy: h, guard: Guard{Config: h.Config}, s: s, p: p, before: m, leastRequest: leastRequest(s), staysOn: stay,
		common: alone,
		memory: Memory{
			Policy: p.Name, Weights: p.Weights, Signals: p.Signals, Strategies: p.Strategies,
			Together: m.Together, Standing: read, forecasts: maps.Clone(m.forecasts),
		},
	}
	if h.Nodes != nil {
		c.planNodes = h.Nodes.PlanNodes
	}
	if nodes, ok := h.Nodes.(NodePreparer); ok {
		c.planNodes, c.packed = nodes.Prepare(m.packings)
	}
	c.memory.Pools = watchPools(m, s, p)
	c.memory.found(m, s, h.Config.NodeStabilization)
	migrating := map[string]bool{} // nodes being left
	for _, n := range s.Nodes {
		if n.CordonedFor != "" { // surged for, whether the pool is left or only shrinks
			migrating[n.Name] = true
		}
	}
	pods := map[api.Key][]api.Pod{}
	for _, pod := range s.Pods {
		if pod.Workload != (api.Key{}) {
			pods[pod.Workload] = append(pods[pod.Workload], pod)
		}
	}
	for _, w := range s.Workloads {
		if w.Mode == api.ModeOff {
			continue
		}
		mw := managed{workload: w, replicas: w.Replicas, pods: pods[w.Key]}
		remembered, known := m.workload(w.Key)
		surging := slices.ContainsFunc(mw.pods, func(pod api.Pod) bool {
			return !pod.Terminating && migrating[pod.Node]
		})
		planned := remembered.Planned
		if !known {
			planned = w.PlannedReplicas // by who ran before
		}
		if surging && planned > 0 {
			// A migration holds more replicas for a while than were planned:
			// they are not what the workload asked for.
			mw.workload.Replicas = min(w.Replicas, planned)
		}
		mw.memory = remembered.observe(s.Time, mw.workload.Replicas, known).read(w.Usage)
		if !known {
			// As the HPA does at its start: what runs counts as recommended.
			mw.memory = mw.memory.recommend(s.Time, float64(mw.workload.Replicas)*positive(w.SpeedNow))
			mw.memory.NodeReplicas = mw.workload.Replicas
		}
		c.managed = append(c.managed, mw)
	}
	slices.SortStableFunc(c.managed, func(a, b managed) int {
		if a.workload.Key.Less(b.workload.Key) {
			return -1
		}
		return boolToInt(b.workload.Key.Less(a.workload.Key))
	})
	c.trials()
	c.watch()
	c.allow()
	c.together()
	c.margins()
	return c
}

// allow finds the pools the policy allows.
func (c *cycle) allow() {
	if len(c.p.NodePools) == 0 {
		return
	}
	if c.Nodes == nil {
		c.nodesOff = "there is no node planner"
		return
	}
	for _, pool := range c.s.Pools {
		if slices.Contains(c.p.NodePools, pool.Name) && (c.p.MachineType == "" || c.p.MachineType == pool.MachineType) {
			zones := int32(max(1, len(pool.Zones)))
			pool.MinPerZone = max(pool.MinPerZone, (c.p.MinNodesPerPool+zones-1)/zones, c.keptSize(pool))
			c.pools = append(c.pools, pool)
		}
	}
	slices.SortFunc(c.pools, func(a, b api.Pool) int { return cmp.Compare(a.Name, b.Name) })
	c.warnOfSpot()
	if len(c.pools) == 0 {
		c.nodesOff = fmt.Sprintf("none of the pools %q that policy %s allows exists", c.p.NodePools, c.p.Name)
		if c.p.MachineType != "" {
			c.nodesOff += " with machine type " + c.p.MachineType
		}
		c.find(api.Warning, api.NodePlanningAgent, "NoAllowedPool", api.NamedPolicyRef(c.p.Name), c.nodesOff)
	}
}

func (c *cycle) find(severity api.FindingSeverity, agent api.Agent, reason string, object api.ObjectRef, message string) {
	c.findings = append(c.findings, api.Finding{
		Severity: severity, Agent: agent, Reason: reason, Object: object, Message: message,
	})
}

// After a start nothing is fitted, and until it is the reactive floor plans. So then a cycle
// fits more than FitWork: a coldShare-th of what is left, but no more than mostCold times
// FitWork, nor than so many whole ones of shorter histories, which take nearly as long. Five
// thousand workloads are fitted after eighteen cycles so, within five minutes.
const (
	coldShare = 3
	mostCold  = 8
)

// cold is the work that fitting everything would take that was never fitted.
func (c *cycle) cold() int {
	work := 0
	add := func(key api.Key, series api.Series, fresh bool) {
		if fresh && c.memory.forecasts[key].Fits == 0 {
			work += min(fitWhole, len(series.Values))
		}
	}
	for _, mw := range c.managed {
		w := mw.workload
		if usesCPU(w) {
			add(w.Key, w.Demand, !w.DemandStale && c.s.Metrics.Reachable)
		}
		for _, t := range w.Triggers {
			if t.Known == nil {
				add(ofTrigger(w.Key, t.Name), t.History, t.Missing == "")
			}
		}
	}
	return work
}

// ofTrigger is the key of a trigger's forecast: no workload has a name with a space.
func ofTrigger(of api.Key, trigger string) api.Key {
	return api.Key{Namespace: of.Namespace, Name: of.Name + " " + trigger}
}

// predict fills in the forecasts.
func (c *cycle) predict() {
	if c.Forecaster == nil {
		return
	}
	said := len(c.findings)
	states := make(map[api.Key]forecast.State, len(c.managed))
	c.fits = max(c.Config.FitWork, min(c.cold()/coldShare, mostCold*c.Config.FitWork))
	c.firsts = max(1, mostCold*c.Config.FitWork/fitWhole)
	for i := range c.managed {
		// Begun elsewhere in each cycle, about where the budget of the last one
		// ended, so that everybody's turn comes before anybody's second one.
		turn := c.s.Time.UnixNano() / int64(c.Config.CyclePeriod) * int64(max(1, c.Config.FitWork/fitWhole))
		mw := &c.managed[(int64(i)+turn%int64(len(c.managed))+int64(len(c.managed)))%int64(len(c.managed))]
		w := mw.workload
		if usesCPU(w) {
			o := c.outlook(states, w.Key, w.Key, w.Demand, !w.DemandStale && c.s.Metrics.Reachable)
			mw.forecast, mw.trusted, mw.note, mw.skill = o.Forecast, o.Trusted, o.Note, o.Skill
		} else if state, ok := c.memory.forecasts[w.Key]; ok {
			states[w.Key] = state
		}
		for _, s := range w.Triggers {
			if s.Known != nil {
				mw.outlooks = append(mw.outlooks, Outlook{Forecast: s.Known, Trusted: true})
				continue
			}
			o := c.outlook(states, ofTrigger(w.Key, s.Name), w.Key, s.History, s.Missing == "")
			mw.outlooks = append(mw.outlooks, o)
			if mw.skill == nil { // of the first trigger where CPU is none
				mw.skill = o.Skill
			}
		}
	}
	c.memory.forecasts = states
	c.predicted = c.findings[said:]
}

// outlook is the forecast of one series and what it may be used for; its state
// is kept under a key among the next ones.
func (c *cycle) outlook(states map[api.Key]forecast.State, key, workload api.Key, series api.Series, fresh bool) Outlook {
	state, ok := c.memory.forecasts[key]
	if !ok {
		state = forecast.NewState(key.String())
	}
	state.Level = c.p.Quantile
	states[key] = state
	if !fresh || len(series.Values) == 0 || series.Step <= 0 {
		return Outlook{Note: "no fresh history"}
	}
	late := max(0, c.s.Time.Sub(series.End()))
	steps := int((c.Config.Horizon+late)/series.Step) + 1
	var f api.Forecast
	var err error
	if failure := c.attempt("the forecaster", workload, func() {
		if due := state.Due(series, steps); !due || c.fits > 0 && (state.Fits > 0 || c.firsts > 0) {
			if due {
				c.fits -= min(fitWhole, len(series.Values)) + state.Folded(series)
				c.firsts -= boolToInt(state.Fits == 0)
			}
			state, err = c.Forecaster.Update(state, series, steps)
		}
		if err == nil {
			states[key] = state
			f, err = c.Forecaster.Forecast(state, series, steps, levels(c.p.Quantile))
		}
	}); failure != "" {
		return Outlook{Note: failure}
	}
	if err == nil {
		return trust(f, c.Config)
	}
	c.find(api.Warning, api.WorkloadPlanningAgent, "ForecastFailed", api.WorkloadRef(workload), err.Error())
	return Outlook{Note: err.Error()}
}

// LeastCoverage and MostCoverage are how often the 90 % interval of a forecast that may
// lower replicas held, beyond two standard errors of what was seen. Of one that held less
// often it isn't known how much more than said may come, and one that held more often says
// too much.
const LeastCoverage, MostCoverage = 0.85, 0.95

// trust decides what a forecast may be used for.
func trust(f api.Forecast, c Config) Outlook {
	skill := &api.ForecastSkill{Model: f.Model, LastValue: known(f.Skill), Seasonal: known(f.SeasonalSkill), Trust: api.TrustNone}
	if f.Coverage != nil {
		skill.Coverage = &f.Coverage.Share
	}
	switch {
	case math.IsNaN(f.Skill):
		return Outlook{Note: "forecast not used: too little history to know its skill", Skill: skill}
	case f.Skill <= c.MinSkillUp:
		has, least := toldApart(f.Skill, c.MinSkillUp)
		return Outlook{Note: fmt.Sprintf("forecast not used: its skill is %s, not above %s", has, least), Skill: skill}
	}
	skill.Trust = api.TrustUp
	if v := f.Coverage; v.TooSeldom(LeastCoverage) || v.TooOften(MostCoverage) {
		return Outlook{Forecast: &f, Skill: skill, Note: fmt.Sprintf(
			"forecast may not lower replicas: %.0f %% of what came was within its interval of 90 %%, not %.0f–%.0f %%",
			100*v.Share, 100*LeastCoverage, 100*MostCoverage)}
	}
	if f.Skill >= c.MinSkill {
		skill.Trust = api.TrustFull
		return Outlook{Forecast: &f, Trusted: true, Skill: skill}
	}
	has, least := toldApart(f.Skill, c.MinSkill)
	return Outlook{Forecast: &f, Skill: skill, Note: fmt.Sprintf("forecast may not lower replicas: its skill is %s, not %s", has, least)}
}

// toldApart writes two numbers with two digits after the point, or as many as it takes to
// tell them apart.
func toldApart(a, b float64) (string, string) {
	for digits := 2; ; digits++ {
		x, y := strconv.FormatFloat(a, 'f', digits, 64), strconv.FormatFloat(b, 'f', digits, 64)
		if x != y || a == b || digits > 15 {
			return x, y
		}
	}
}

// looksAhead tells whether trusted forecasts see every demand input.
func (mw *managed) looksAhead() bool {
	return (mw.trusted || !usesCPU(mw.workload)) &&
		!slices.ContainsFunc(mw.outlooks, func(o Outlook) bool { return !o.Trusted }) &&
		(mw.trusted || len(mw.outlooks) > 0)
}

// waits reports whether a workload is held that is otherwise acted on: it has a
// target and pods of its own.
func (mw *managed) waits() bool {
	w := mw.workload
	return w.Mode == api.ModeFull && w.HoldReason != api.ReasonDuplicateTarget && len(mw.pods) > 0
}

// live is how many pods it has that stay.
func (mw *managed) live() int32 {
	var n int32
	for i := range mw.pods {
		if !mw.pods[i].Terminating {
			n++
		}
	}
	return n
}

// known is a number, nil for NaN.
func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// levels of the forecasts asked for: what people look at, and the policy's.
func levels(q float64) []float64 {
	out := []float64{0.1, 0.5, 0.9, 0.95}
	if q > 0 && q < 1 && !slices.Contains(out, q) {
		out = append(out, q)
	}
	slices.Sort(out)
	return out
}

func positive(x float64) float64 {
	if x > 0 {
		return x
	}
	return 1
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
