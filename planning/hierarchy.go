package planning

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

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
			switch {
			case c.p.Spot != nil:
				c = c.staysWhere(r.Stay, plan.PoolsInUse())
			case c.spread():
				c = c.staysSpread()
			default:
				c = c.staysOnly(r.Stay)
			}
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
	out.memory.forecasts, out.memory.Together, out.common, out.strangers = c.memory.forecasts, c.memory.Together, c.common, c.strangers
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
	predicted []api.Finding // those of them that tell of predictions
	// staysOn is the pool that workloads can't be moved from, or eachOnItsOwn; empty if they can.
	staysOn string
	// putBack are the pools that workloads are taken back to, where these are several.
	putBack  map[api.Key]string
	nodesOff string            // why nodes are not planned although the policy names pools
	steady   map[string]string // pools of the nodes that stay and are no spot machines; see offSpot
	ready    map[string]int32  // nodes of pools that are Ready and not cordoned; see withReserve
	search   api.Search
	fits     int // left of the work that fits may take
	firsts   int // the same of first fits, a number
	// leastRequest is the least CPU that a pod requests, millicores; see burst.
	leastRequest int64
	// requested is the CPU that all pods request which are not on every node, millicores, and 0
	// before anybody asked; see alone.
	requested int64
	// common is how much of what workloads grow by they grow at the same time.
	common sharing
	// strangers are pods of which mash2 plans nothing, by the pool of their nodes.
	strangers map[string]strange
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
	pods := byWorkload(s.Pods)
	c.managed = make([]managed, 0, len(s.Workloads))
	for _, w := range s.Workloads {
		if w.Mode == api.ModeOff {
			continue
		}
		mw := managed{workload: w, replicas: w.Replicas, pods: pods[w.Key]}
		remembered, known := m.workload(w.Key)
		known, remembered.SizesOnly = known && !remembered.SizesOnly, false
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
		} else {
			mw.memory = mw.memory.resumed(s.Time, mw.workload.Replicas, positive(w.SpeedNow), h.Config)
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
	if c.p.Spot != nil {
		c.ready = map[string]int32{}
		for _, n := range c.s.Nodes {
			if n.Ready && !n.Cordoned {
				c.ready[n.Pool]++
			}
		}
	}
	c.warnOfSpot()
	c.warnOfMixing()
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

// byWorkload groups pods, those of none left out. Pods that come one after the other, as
// nearly all do in order of name, are not copied.
func byWorkload(pods []api.Pod) map[api.Key][]api.Pod {
	out := map[api.Key][]api.Pod{}
	for from := 0; from < len(pods); {
		key, to := pods[from].Workload, from+1
		for to < len(pods) && pods[to].Workload == key {
			to++
		}
		if key != (api.Key{}) {
			if of, ok := out[key]; ok {
				out[key] = append(of, pods[from:to]...)
			} else {
				out[key] = pods[from:to:to] // to append to it copies
			}
		}
		from = to
	}
	return out
}
