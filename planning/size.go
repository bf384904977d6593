package planning

import (
	"fmt"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/sizing"
)

// size chooses what the containers of workloads request, where they ask for it. What is
// chosen and acts is what replicas and nodes are planned for from here on: requests and
// replicas are one plan.
func (c *cycle) size() {
	prices := c.prices()
	shared := map[string]sharing{} // by pool
	for i := range c.pools {
		pool := &c.pools[i]
		shared[pool.Name] = c.sharingOn(pool, func(i int) bool { return c.managed[i].memory.Pool == pool.Name })
	}
	for i := range c.managed {
		mw := &c.managed[i]
		w := &mw.workload
		if w.Sizing == nil || len(w.Sizing.Containers) == 0 {
			mw.memory.Sizing = nil
			continue
		}
		if w.Sizing.Mode == api.SizingOff && w.Agents != nil && c.untried[w.Key] == nil {
			mw.memory.Sizing = nil // what is less than written is their agents' affair
			continue
		}
		if w.Sizing.Mode == api.SizingOff {
			plan := api.SizingPlan{
				Mode: api.SizingOff, Containers: w.Sizing.Authors("as its author wrote it"),
				Reason: "sizing is off: running pods get back what their author wrote",
			}
			if w.Agents != nil {
				plan.Reason = "the trial does not let mash2 act: running pods get back what their author wrote"
			}
			mw.sizing, mw.memory.Sizing = &plan, nil
			mw.apply(plan)
			continue
		}
		var before sizing.Memory
		if mw.memory.Sizing != nil {
			before = *mw.memory.Sizing
		}
		var plan api.SizingPlan
		var next sizing.Memory
		if failure := c.attempt("the sizing of containers", w.Key, func() {
			plan, next = sizing.Planner{Config: c.Config.Sizing}.Plan(c.sizingInput(mw, prices, shared), before)
		}); failure != "" {
			continue // requests stay as they are
		}
		// What a trial allows no plan of its own has its author's sizes: running pods get them back.
		if (w.Mode != api.ModeFull || c.untried[w.Key] != nil) && plan.Mode.Acts() {
			plan.Mode = api.SizingRecommendOnly
		}
		next.Acted = plan.Acts()
		mw.sizing, mw.memory.Sizing = &plan, &next
		mw.apply(plan)
	}
}

// sizingInput is what the sizes of a workload are chosen by.
func (c *cycle) sizingInput(mw *managed, prices sizing.Prices, shared map[string]sharing) sizing.Input {
	w := mw.workload
	in := sizing.Input{
		Time: c.s.Time, Sizing: *w.Sizing, Demand: w.Demand, Stale: w.DemandStale || !c.s.Metrics.Reachable,
		Least: max(w.MinReplicas, c.p.MinReplicas, 1), Most: w.MaxReplicas,
		Machines: c.machines(mw), Alone: c.alone(mw), Speed: positive(w.SpeedNow), Prices: prices,
		Doubt: mw.doubt,
	}
	in.Headroom, in.LeastHeadroom, in.Ceiling = c.headroom(mw, shared)
	if w.QuotaReplicas > 0 {
		in.Most = min(in.Most, w.QuotaReplicas)
	}
	if pool := c.poolNamed(mw.memory.Pool); pool != nil {
		in.Speed = c.speed(mw, pool)
	}
	if f := mw.forecast; f != nil {
		for _, v := range f.Quantile(c.p.Quantile) {
			if !math.IsInf(v, 0) && v > in.Forecast {
				in.Forecast = v
			}
		}
	}
	// New pods begin as those that go: who watches the rollout sees pods of one size, and what is
	// too little is noticed.
	if w.RollingOut && in.Doubt == "" {
		in.Doubt = "its pods are being replaced"
	}
	switch {
	case w.Hold != "":
		in.Sizing.Hold = w.Hold
	case w.Basis > 0:
		in.FixedCPU = "CPU requests stay: spec.countRequests counts replicas by the template's, or a VerticalPodAutoscaler sets them"
	case !usesCPU(w) || len(w.Triggers) > 0:
		in.FixedCPU = "CPU requests stay: replicas follow triggers"
	}
	if kept := c.kept(w.Key); kept != nil {
		in.Kept = kept.Containers
	}
	return in
}

// headroom is by how much the requests of all replicas together exceed demand of now, as
// replicas are planned, and by how much at least where that would be more than a ceiling.
func (c *cycle) headroom(mw *managed, shared map[string]sharing) (headroom, least, ceiling float64) {
	if m := mw.memory.Margins; m.Known() {
		by, ok := shared[mw.memory.Pool]
		if !ok {
			by = alone
		}
		m = c.marginsOn(mw, c.poolNamed(mw.memory.Pool), by)
		saturation := m.Saturation()
		return math.Max(m.Foreseen(1, m.Pod.Factor, false), leastMargin) / saturation, leastMargin / saturation, m.Most / saturation
	}
	target := mw.workload.TargetUtilization
	if target <= 0 {
		target = c.p.TargetUtilization
	}
	return 1 / target, 0, 0
}

func (c *cycle) poolNamed(name string) *api.Pool {
	if i := slices.IndexFunc(c.s.Pools, func(p api.Pool) bool { return p.Name == name }); i >= 0 {
		return &c.s.Pools[i]
	}
	return nil
}

// machines are one of each pool that the policy allows, or of all pools, or each node where there
// are no pools, as fast as a workload's pods are on them. Spot machines have no price: which replicas
// may be there is not asked here.
func (c *cycle) machines(mw *managed) (out []sizing.Machine) {
	see := func(room api.Resources, price, speed float64) {
		is := sizing.Machine{Room: api.Amounts{MilliCPU: room.MilliCPU, Memory: room.Memory}, Price: price, Speed: speed}
		if room.MilliCPU > 0 && !slices.Contains(out, is) {
			out = append(out, is)
		}
	}
	pools := c.s.Pools
	if len(c.pools) > 0 {
		pools = c.pools
	}
	for i := range pools {
		p := &pools[i]
		price := p.Price
		if p.Spot {
			price = 0
		}
		see(p.Allocatable.Minus(p.Overhead), price, c.speed(mw, p))
	}
	if len(pools) == 0 {
		for i := range c.s.Nodes {
			see(c.s.Nodes[i].Allocatable, 0, 1)
		}
	}
	return out
}

// alone is the share that a workload's pods have of the CPU that all pods request which are not on
// every node.
func (c *cycle) alone(mw *managed) float64 {
	if c.requested == 0 {
		for i := range c.s.Pods {
			if p := &c.s.Pods[i]; !p.DaemonSet && !p.Mirror && p.Shape != nil {
				c.requested += p.Shape.Requests.MilliCPU
			}
		}
	}
	var own int64
	for i := range mw.pods {
		if shape := mw.pods[i].Shape; shape != nil {
			own += shape.Requests.MilliCPU
		}
	}
	return float64(own) / float64(max(c.requested, own, 1))
}

// largestPod is the most that some machine has of each for a workload's pod, zero if none is known.
func (c *cycle) largestPod(mw *managed) (most api.Amounts) {
	for _, m := range c.machines(mw) {
		most.MilliCPU, most.Memory = max(most.MilliCPU, m.Room.MilliCPU), max(most.Memory, m.Room.Memory)
	}
	return most
}

// prices are what requests cost on the pools that the policy allows, or on all of them.
// What a machine costs is divided among its cores and its memory as Google's list prices
// are.
func (c *cycle) prices() sizing.Prices {
	pools := c.s.Pools
	if len(c.pools) > 0 {
		pools = c.pools
	}
	var sum sizing.Prices
	n := 0.0
	for _, p := range pools {
		cores, gib := float64(p.Allocatable.MilliCPU)/1000, float64(p.Allocatable.Memory)/(1<<30)
		if p.Price <= 0 || cores <= 0 {
			continue
		}
		each := p.Price / (cores*sizing.CPUToMemory + gib)
		sum.Core, sum.GiB, n = sum.Core+each*sizing.CPUToMemory, sum.GiB+each, n+1
	}
	if n == 0 {
		return sizing.DefaultPrices
	}
	return sizing.Prices{Core: sum.Core / n, GiB: sum.GiB / n}
}

// apply makes the size that acts the one that replicas and nodes are planned for. A copy of
// the workload is changed, not the snapshot.
func (mw *managed) apply(plan api.SizingPlan) {
	w := &mw.workload
	if w.Shape == nil {
		return
	}
	var template, planned api.Amounts
	var limits int64
	for i, u := range w.Sizing.Containers {
		template.MilliCPU, template.Memory = template.MilliCPU+u.Requests.MilliCPU, template.Memory+u.Requests.Memory
		p := plan.Containers[i]
		planned.MilliCPU, planned.Memory = planned.MilliCPU+p.Requests.MilliCPU, planned.Memory+p.Requests.Memory
		limits += p.Limits.MilliCPU - u.Limits.MilliCPU
	}
	next := template // new pods are as their template says
	if plan.Acts() && w.Sizing.Admits {
		next = planned
	}
	shape := *w.Shape
	pod := w.Sizing.Pod(next)
	shape.Requests.MilliCPU, shape.Requests.Memory = pod.MilliCPU, pod.Memory
	if shape.LimitCPU > 0 && plan.Acts() && w.Sizing.Admits {
		shape.LimitCPU += limits
	}
	if is := w.Shape.Requests; pod.MilliCPU != is.MilliCPU || pod.Memory != is.Memory || shape.LimitCPU != w.Shape.LimitCPU {
		shape.ID = fmt.Sprintf("%s %s", shape.ID, next)
		w.Shape = &shape
	}
	if plan.Acts() && plan.Mode == api.SizingInPlace && slices.ContainsFunc(w.Sizing.Containers, resizable) {
		mw.resizeTo = w.Sizing.Pod(planned).MilliCPU
	}
}

// resizable reports whether the CPU of a container that runs may be changed.
func resizable(u api.ContainerUse) bool { return !u.RestartCPU && !u.FixedCPU }

// runs are the sizes that pods were last given; nil where nobody is asked to choose any.
func (mw *managed) runs() []api.ContainerPlan {
	if m := mw.memory.Sizing; m != nil && m.Acted {
		return m.Containers
	}
	return mw.authors()
}

// authors are the sizes of the template; nil where nobody is asked to choose any.
func (mw *managed) authors() (out []api.ContainerPlan) {
	if mw.workload.Sizing == nil {
		return nil
	}
	for _, u := range mw.workload.Sizing.Containers {
		out = append(out, api.ContainerPlan{Name: u.Name, Requests: u.Requests, Limits: u.Limits, Template: u.Requests, TemplateLimits: u.Limits})
	}
	return out
}

// smallerThan names a container that requests less than it did; empty if none does.
func smallerThan(then, now []api.ContainerPlan) string {
	for _, t := range then {
		i := slices.IndexFunc(now, func(p api.ContainerPlan) bool { return p.Name == t.Name && p.Template == t.Template })
		if i >= 0 && (now[i].Requests.MilliCPU < t.Requests.MilliCPU || now[i].Requests.Memory < t.Requests.Memory) {
			return fmt.Sprintf("%s requests %s instead of %s", t.Name, now[i].Requests, t.Requests)
		}
	}
	return ""
}

// scaleOf is how a plan states a size.
func scaleOf(plan *api.SizingPlan) (out []api.ContainerResources) {
	for _, p := range plan.Containers {
		out = append(out, api.ContainerResources{Name: p.Name, Requests: p.Requests.Resources()})
	}
	slices.SortFunc(out, func(a, b api.ContainerResources) int {
		if a.Name < b.Name {
			return -1
		}
		return boolToInt(a.Name > b.Name)
	})
	return out
}
