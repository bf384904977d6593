package planning

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/canary"
)

// Reasons of findings about objectives.
const (
	ReasonRolledBack      = "RolledBack"      // the plan was taken back
	ReasonRollbackEnded   = "RollbackEnded"   // plans are made again
	ReasonSLOBurning      = "SLOBurning"      // and no plan to take back is the cause
	ReasonSLOInconclusive = "SLOInconclusive" // nothing is made smaller meanwhile
)

// DefaultRollbackHold is how long mash2 stays out where a policy says nothing else.
const DefaultRollbackHold = time.Hour

// maxPast is how many states of a workload are remembered.
const maxPast = 64

// PastScale is what a workload ran from a time on.
type PastScale struct {
	From     time.Time `json:"from"`
	Replicas int32     `json:"replicas"`
	Pool     string    `json:"pool,omitempty"`
	// Containers are the sizes that were planned; nil where they are the author's.
	Containers []api.ContainerPlan `json:"containers,omitempty"`
}

// PastSize is the size of a pool from a time on.
type PastSize struct {
	From    time.Time `json:"from"`
	PerZone int32     `json:"perZone"`
}

// RolledBack is the plan that was taken back to.
type RolledBack struct {
	api.Rollback
	// Scales of all workloads then, or what ran when it was taken back where that is
	// more, in order of key.
	Scales []KeptScale `json:"scales"`
	// Pools and their sizes then, in order of name.
	Pools []PoolSize `json:"pools,omitempty"`
}

// KeptScale is how many replicas a workload is to have, at least, and where; and of which
// size, nil for what is chosen.
type KeptScale struct {
	Key        api.Key             `json:"key"`
	Replicas   int32               `json:"replicas"`
	Pool       string              `json:"pool,omitempty"`
	Containers []api.ContainerPlan `json:"containers,omitempty"`
}

// at is the newest of some states from no later than a time, or else the oldest that is
// known; ok is false if none is.
func at[T any](states []T, t time.Time, from func(T) time.Time) (state T, ok bool) {
	for _, s := range slices.Backward(states) {
		if !from(s).After(t) {
			return s, true
		}
	}
	if len(states) > 0 {
		return states[0], true
	}
	return state, false
}

// trim drops what was before the state that ruled at a time, and the oldest of too many.
func trim[T any](states []T, since time.Time, from func(T) time.Time) []T {
	drop := max(0, len(states)-maxPast)
	for drop+1 < len(states) && !from(states[drop+1]).After(since) {
		drop++
	}
	return states[drop:len(states):len(states)]
}

func (s PastScale) from() time.Time { return s.From }
func (s PastSize) from() time.Time  { return s.From }

// Turned reports whether a rollback began or ended since an earlier memory, or a trial came
// to another phase.
func (m Memory) Turned(before Memory) bool {
	if !slices.EqualFunc(m.Trials, before.Trials, func(a, b canary.Trial) bool { return a.Group == b.Group && a.Phase == b.Phase }) {
		return true
	}
	if m.Rollback == nil || before.Rollback == nil {
		return m.Rollback != before.Rollback
	}
	return !m.Rollback.At.Equal(before.Rollback.At)
}

// watch reads the objectives of workloads, remembers what runs, and takes the plan back
// when one burns since something was given up.
//
// What ran while an objective was kept is known from its readings (see SLOMemory.Proven).
// When it burns, all workloads and pools go back to that time as one, if in the
// workload's own namespace something has fewer replicas than then, or runs elsewhere:
// else no plan can be the cause. Nobody gets less than what runs. From then on mash2 stays
// out: nothing but the reactive floor adds to it, until the time is over or a person ends
// it.
func (c *cycle) watch() {
	watched := slices.ContainsFunc(c.managed, func(mw managed) bool { return len(mw.workload.SLOs) > 0 })
	before := c.before.Rollback
	if !watched && before == nil {
		return
	}
	over := before != nil && c.over(before.Rollback)
	if over {
		before = nil
	}
	c.pastSizes()
	for i := range c.managed {
		mw := &c.managed[i]
		mw.past(c.s.Time, c.Config.SLOPast)
		if over { // what was proven is of the time before
			mw.memory.SLOs = nil
		}
		mw.objectives(c.s.Time, c.Config)
	}
	if c.memory.Rollback = before; before == nil && !over {
		c.takeBack()
	}
	c.tellObjectives()
	if back := c.memory.Rollback; back != nil {
		c.restorePools(*back)
		c.restoreBounds()
	}
}

// restoreBounds takes back what strategies have lowered: it may be why there are too few.
func (c *cycle) restoreBounds() {
	for i := range c.managed {
		if w := &c.managed[i].workload; w.AuthorMax > w.MaxReplicas {
			w.MaxReplicas = w.AuthorMax
		}
	}
}

// over tells whether a rollback has ended, and says so.
func (c *cycle) over(r api.Rollback) bool {
	by := ""
	const skew = time.Minute // of clocks; a time further ahead would end every rollback to come
	switch ended := c.p.Rollback.Ended; {
	case !ended.Before(r.At) && !ended.After(c.s.Time.Add(skew)):
		by = "a person ended it"
	case !c.s.Time.Before(r.Until):
		by = fmt.Sprintf("its time is over, %v", r.Until.Sub(r.At))
	default:
		return false
	}
	c.find(api.Normal, api.WorkloadPlanningAgent, ReasonRollbackEnded, api.WorkloadRef(r.Workload),
		fmt.Sprintf("plans are made again after the rollback of %s: %s", r.At.UTC().Format(time.RFC3339), by))
	return true
}

// past notes what runs.
func (mw *managed) past(now time.Time, keep time.Duration) {
	m := &mw.memory
	is := PastScale{From: now, Replicas: m.Replicas, Pool: m.Pool, Containers: mw.runs()}
	switch n := len(m.Past); {
	case n == 0 || m.Past[n-1].Replicas != is.Replicas || m.Past[n-1].Pool != is.Pool && m.Past[n-1].Pool != "" ||
		!slices.Equal(m.Past[n-1].Containers, is.Containers):
		m.Past = append(slices.Clone(m.Past), is)
	case m.Past[n-1].Pool != is.Pool:
		m.Past = slices.Clone(m.Past)
		m.Past[n-1].Pool = is.Pool // where it has been isn't known before its first plan
	}
	m.Past = trim(m.Past, now.Add(-keep), PastScale.from)
}

// pastSizes notes how large the pools are.
func (c *cycle) pastSizes() {
	for i := range c.memory.Pools {
		m := &c.memory.Pools[i]
		at := slices.IndexFunc(c.s.Pools, func(p api.Pool) bool { return p.Name == m.Pool })
		if at < 0 {
			continue
		}
		size := largest(c.s.Pools[at].Sizes)
		if n := len(m.Past); n == 0 || m.Past[n-1].PerZone != size {
			m.Past = append(slices.Clone(m.Past), PastSize{c.s.Time, size})
		}
		m.Past = trim(m.Past, c.s.Time.Add(-c.Config.SLOPast), PastSize.from)
	}
}

// objectives judges those of a workload.
func (mw *managed) objectives(now time.Time, c Config) {
	var kept []SLOMemory
	for _, s := range mw.workload.SLOs {
		var m SLOMemory
		if i := slices.IndexFunc(mw.memory.SLOs, func(m SLOMemory) bool { return m.Name == s.Name }); i >= 0 {
			m = mw.memory.SLOs[i]
		}
		m, plan := c.judge(m, s, now)
		kept, mw.slos, mw.whys = append(kept, m), append(mw.slos, plan.SLOPlan), append(mw.whys, plan.why)
		if plan.Verdict != api.SLOGood && mw.doubt == "" {
			mw.doubt = fmt.Sprintf("SLO %s is not known to be kept: %s", s.Name, plan.Reason)
			if plan.Verdict == api.SLOBurning {
				mw.doubt = fmt.Sprintf("SLO %s burns: %s", s.Name, plan.Reason)
			}
		}
	}
	mw.memory.SLOs = kept
}

// adds says more of an objective.
func (mw *managed) adds(slo int, text string) {
	mw.slos[slo].Reason += text
	mw.whys[slo] += text
}

// takeBack takes the plan back if an objective burns for which it may be the cause.
func (c *cycle) takeBack() {
	var back *RolledBack
	for i := range c.managed {
		mw := &c.managed[i]
		key := mw.workload.Key
		if mw.workload.Mode != api.ModeFull || c.untried[key] != nil ||
			!mw.running() && len(c.p.Rollback.Namespaces) > 0 && !slices.Contains(c.p.Rollback.Namespaces, key.Namespace) {
			continue
		}
		for j := range mw.slos {
			slo := &mw.slos[j]
			switch {
			case slo.Verdict != api.SLOBurning:
				continue
			case slo.Proven.IsZero():
				mw.adds(j, "; no plan is known that kept it")
				continue
			case c.alsoBurns(key) != "":
				mw.adds(j, fmt.Sprintf("; its control %s burns as well: no plan is the cause", c.alsoBurns(key)))
				continue
			}
			r, why := c.planAt(slo.Proven, key.Namespace)
			if why != "" && c.stopCanary(mw, r, slo.Reason+"; "+why) {
				continue
			}
			if why == "" {
				mw.adds(j, fmt.Sprintf("; nothing in namespace %s has less than at %s, when it was kept: no plan is the cause",
					key.Namespace, slo.Proven.UTC().Format(time.RFC3339)))
				continue
			}
			if back == nil || slo.Proven.Before(back.To) {
				hold := c.p.Rollback.Hold
				if hold <= 0 {
					hold = DefaultRollbackHold
				}
				r.Rollback = api.Rollback{
					At: c.s.Time, Until: c.s.Time.Add(hold), To: slo.Proven, Workload: key, SLO: slo.Name,
					Reason: slo.Reason + "; " + why, Restored: r.Restored,
				}
				back = &r
			}
		}
	}
	c.memory.Rollback = back
}

// planAt is what ran at a time, or now where that is more. Why names what has less since
// in a namespace; it is empty if nothing has.
func (c *cycle) planAt(t time.Time, namespace string) (r RolledBack, why string) {
	for i := range c.managed {
		mw := &c.managed[i]
		m := mw.memory
		is := KeptScale{Key: m.Key, Replicas: m.Replicas, Pool: m.Pool}
		then, known := at(m.Past, t, PastScale.from)
		if mw.workload.Mode != api.ModeFull {
			continue
		}
		if !known {
			r.Scales = append(r.Scales, is)
			continue
		}
		moved := then.Pool != "" && is.Pool != "" && then.Pool != is.Pool
		if then.Containers == nil {
			then.Containers = mw.authors()
		}
		smaller := smallerThan(then.Containers, mw.runs())
		if fewer := then.Replicas > is.Replicas; fewer || moved || smaller != "" {
			r.Restored++
			if why == "" && m.Key.Namespace == namespace {
				why = fmt.Sprintf("%s has %d replicas instead of the %d it had then", m.Key, is.Replicas, then.Replicas)
				switch {
				case !fewer && smaller != "":
					why = fmt.Sprintf("%s has a smaller container than then: %s", m.Key, smaller)
				case moved:
					why = fmt.Sprintf("%s is moved from pool %s to %s since", m.Key, then.Pool, is.Pool)
				}
			}
		}
		if is.Replicas = max(is.Replicas, then.Replicas); moved {
			is.Pool = then.Pool
		}
		if smaller != "" {
			is.Containers = then.Containers
		}
		r.Scales = append(r.Scales, is)
	}
	for _, m := range c.memory.Pools {
		if then, known := at(m.Past, t, PastSize.from); known {
			r.Pools = append(r.Pools, PoolSize{m.Pool, then.PerZone})
		}
	}
	return r, why
}

// restorePools allows the pools that workloads are taken back to, and no others.
func (c *cycle) restorePools(r RolledBack) {
	var names []string
	for _, k := range r.Scales {
		if k.Pool != "" && !slices.Contains(names, k.Pool) && slices.Contains(c.p.ManagedPools, k.Pool) {
			names = append(names, k.Pool)
		}
	}
	if len(names) == 0 || len(c.p.NodePools) == 0 {
		return
	}
	slices.Sort(names)
	if stays := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n != c.staysOn }); len(stays) > 0 {
		names = stays
	} else if c.staysOn != "" {
		return
	}
	c.p.NodePools, c.p.MachineType = names, ""
	if c.p.MixPools && len(names) > 1 {
		c.putBack = map[api.Key]string{}
		for _, k := range r.Scales {
			c.putBack[k.Key] = k.Pool
		}
	}
}

// tellObjectives says what people should know of objectives and of a rollback.
func (c *cycle) tellObjectives() {
	back := c.memory.Rollback
	if back != nil {
		r := back.Rollback
		c.find(api.Warning, api.WorkloadPlanningAgent, ReasonRolledBack, api.WorkloadRef(r.Workload), fmt.Sprintf(
			"the whole plan is back to that of %s, as SLO %s burnt at %s: %s. Nothing is made smaller or moved before %s, or until the policy ConfigMap has the annotation %s with a time after %s",
			r.To.UTC().Format(time.RFC3339), r.SLO, r.At.UTC().Format(time.RFC3339), r.Reason, r.Until.UTC().Format(time.RFC3339),
			api.AnnotationRollbackEnded, r.At.UTC().Format(time.RFC3339)))
	}
	for i := range c.managed {
		mw := &c.managed[i]
		for j, slo := range mw.slos {
			severity, reason := api.Normal, ReasonSLOInconclusive
			switch slo.Verdict {
			case api.SLOGood:
				continue
			case api.SLOBurning:
				severity, reason = api.Warning, ReasonSLOBurning
			}
			c.find(severity, api.WorkloadPlanningAgent, reason, api.WorkloadRef(mw.workload.Key),
				fmt.Sprintf("SLO %s: %s; nothing of it is made smaller meanwhile", slo.Name, mw.whys[j]))
		}
	}
}

// rollback is that of the plan.
func (c *cycle) rollback() *api.Rollback {
	if c.memory.Rollback == nil {
		return nil
	}
	r := c.memory.Rollback.Rollback
	return &r
}

// keptSize is the size per zone that a pool is to have at least while the plan is taken
// back.
func (c *cycle) keptSize(pool api.Pool) int32 {
	if c.memory.Rollback == nil {
		return 0
	}
	for _, p := range c.memory.Rollback.Pools {
		if p.Pool == pool.Name && (pool.MaxPerZone <= 0 || p.PerZone <= pool.MaxPerZone) {
			return p.PerZone
		}
	}
	return 0
}

// kept is what a workload is to have while the plan is taken back, or while a trial allows
// it no plan of its own; nil if it is planned.
func (c *cycle) kept(key api.Key) *KeptScale {
	if c.memory.Rollback == nil {
		return c.untried[key]
	}
	scales := c.memory.Rollback.Scales
	i, found := slices.BinarySearchFunc(scales, key, func(k KeptScale, key api.Key) int {
		return cmp.Or(cmp.Compare(k.Key.Namespace, key.Namespace), cmp.Compare(k.Key.Name, key.Name))
	})
	if !found {
		return nil
	}
	return &scales[i]
}
