// Package horizontal plans the replicas of one workload from forecasts of its
// demand (MAS-H², eq. 3), never below what the HorizontalPodAutoscaler of
// Kubernetes would ask for now, or leave within its tolerance where a trusted
// forecast says that this passes before a node would come.
//
// Demand is CPU usage in reference millicores. A replica that requests r
// millicores on a pool of speed s supplies r·s of them at 100 % of its request.
// A target utilisation u leaves a margin for what can't be foreseen; a quantile
// of the forecast is such a margin too. So that they are not added up, u holds
// for the expected demand d̄(t), with the tolerance τ that a
// HorizontalPodAutoscaler has around it, and the quantile d_q(t) must fit into
// requests, as in the paper's eq. 3:
//
//	R(t) = max( ⌈ d̄(t) / (r·s·u·(1+τ)) ⌉, ⌈ d_q(t) / (r·s) ⌉ )
//
// With u = 1, τ = 0 and a forecast without error both are eq. 3. Where replicas
// differ in their requests, R is the least number whose requests add up to as
// much, counting those there from the smallest on and every further one with
// what new pods get.
//
// Once usage is beyond the tolerance, an HPA's rule asks for as many replicas as
// are at u again, and where demand has passed by the time that their nodes are
// there, that is of no use to anybody: they were pending at the peak. Of demand
// that is expected to have fallen by then there are as many, within the tolerance,
// as the quantile won't ask more than: min(d̄(t)·(1+τ), d_q(t)) instead of d̄(t).
//
// Of usage that no forecast in use knows a ramp that stands out from the scatter of
// before is taken to go on for as long as it has lasted (see ramp): pods and nodes are
// asked for then, not when usage is there. It is no part of the floor.
//
// A trigger (a queue's length, say) has a target T per replica instead, which is
// what a replica does at the utilisation u: r·s·u becomes T and r·s becomes T/u.
// Of several inputs the largest R counts at every time, as in an HPA.
package horizontal

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/choice"
)

// epsilon keeps a quotient that is whole up to rounding from being rounded up.
const epsilon = 1e-9

// Planner is the horizontal planner. Its zero value can be used.
type Planner struct {
	// Tolerance replaces planning.DefaultTolerance as the relative deviation
	// that the reactive floor ignores where a workload states none.
	Tolerance float64
}

var _ planning.WorkloadPlanner = Planner{}

// part is what one demand input asks for.
type part struct {
	floor    floor
	replicas int32 // now, of floor and forecast
	nodes    int32
	need     float64
	path     []api.PathStep
	forecast *api.Forecast
	// peak of the input over the horizon, in its own unit; -1 if not known.
	peak float64
	// doubt is not empty where this input is not known well enough to have fewer
	// replicas than there are, and says why.
	doubt   string
	binding api.Binding
	reason  string
	// ramp is true of what is asked for only if a ramp goes on.
	ramp bool
	// active steps of a trigger's forecast, and when they begin; nil without one.
	active []activeStep
}

// PlanWorkload returns the least replicas that cover the forecasts' quantile
// and the reactive floor. It is Held when there is nothing to plan by.
func (p Planner) PlanWorkload(in planning.Input) (planning.Proposal, error) {
	w := in.Workload
	plan := planning.Proposal{
		Key:          w.Key,
		Scale:        api.Scale{Replicas: w.Replicas},
		NodeReplicas: w.Replicas,
		Demand:       -1,
		PeakDemand:   -1,
		FloorSource:  "none",
	}
	u := utilization(in)
	switch {
	case w.Hold != "":
		return hold(plan, w, w.Hold), nil
	case !(u > 0) || math.IsInf(u, 0):
		return hold(plan, w, fmt.Sprintf("target utilisation must be positive, is %v", u)), nil
	}

	// 1. What each input asks for.
	var parts []part
	if in.UsesCPU() {
		c, problem := cpuSupply(in)
		if problem != "" {
			return hold(plan, w, problem), nil
		}
		plan.Request = c.near.mean(w.Replicas)
		cpu := p.cpu(&plan, in, c)
		parts = append(parts, cpu)
		if ramp, ok := p.ramp(in, c, cpu); ok {
			parts = append(parts, ramp)
		}
	} else if w.Shape != nil {
		plan.Request = max(w.Shape.Requests.MilliCPU, 0)
	}
	for i := range w.Triggers {
		out, ok := p.trigger(&plan, in, i)
		if ok {
			parts = append(parts, out)
		}
	}
	plan.Activity = activity(in)

	// 2. The most of it.
	for _, part := range parts {
		if part.floor.source != "none" && (plan.FloorSource == "none" || part.floor.replicas > plan.Floor) {
			plan.Floor, plan.FloorSource = part.floor.replicas, part.floor.source
		}
	}
	if plan.FloorSource == "none" {
		plan.Unknown = true
		return hold(plan, w, "no demand is known: "+unknown(in, parts)), nil
	}
	p.merge(&plan, in, parts)
	return plan, nil
}

// cpu is what CPU usage asks for.
func (p Planner) cpu(plan *planning.Proposal, in planning.Input, c supply) part {
	w := in.Workload
	out := part{floor: p.cpuFloor(in, c), peak: -1}
	demand, fresh := freshDemand(in)
	if fresh {
		plan.Demand = demand
	} else if w.Usage != nil && finite(w.Usage.MilliCPU) {
		plan.Demand = w.Usage.MilliCPU
	}
	out.peak = plan.Demand
	if fresh && in.Trusted && !c.margins.Known() {
		out.floor = p.passing(out.floor, in, c, in.Forecast)
	}
	out.react(in)
	if fresh && c.margins.Known() && !in.Trusted {
		out.nodes = max(out.nodes, choice.Ceil(c.covering(c.later, c.margins.Nodes(demand, in.Time), in.Speed)))
	}
	if fresh {
		if in.Forecast != nil {
			p.predict(&out, in, c, in.Forecast, func(replicas int32, mean, high float64, at string, speed float64) string {
				if c.margins.Known() {
					return fmt.Sprintf("forecast peak %s at %s, %s at q=%.2f, for %.4g %% of time to be covered needs %d × %s%s",
						cores(mean), at, cores(high), in.Policy.Quantile, 100*in.Policy.Objective, replicas, c.near, c.each(speed))
				}
				return fmt.Sprintf("forecast peak %s at %s, %s at q=%.2f, needs %d × %s: %s%s",
					cores(mean), at, cores(high), in.Policy.Quantile, replicas, c.near, p.countedFor(w, c), onSpeed(speed))
			})
		}
	} else {
		out.doubt = staleness(in)
	}
	plan.PeakDemand = out.peak
	plan.Forecast = out.forecast
	return out
}

// countedFor says what replicas that are ahead of demand are counted for.
func (p Planner) countedFor(w api.Workload, c supply) string {
	return fmt.Sprintf("expected usage within %.0f %% of %.0f %%, the quantile at 100 %%", 100*p.tolerance(w), 100*c.utilization)
}

// react is the reactive part: now and, for want of better, for ever.
func (o *part) react(in planning.Input) {
	o.need, o.replicas, o.nodes = o.floor.need, o.floor.replicas, o.floor.replicas
	o.path = []api.PathStep{{At: in.Time, Scale: api.Scale{Replicas: o.floor.replicas}, Need: o.floor.need}}
	o.binding, o.reason = api.BindingFloor, o.floor.reason
	if o.floor.source == "trigger" {
		o.binding = api.BindingTrigger
	}
}

// floor is what the reactive rule asks for now.
type floor struct {
	replicas int32
	need     float64 // before rounding
	source   string
	reason   string
}

// cpuFloor takes the larger of what the two sources ask for.
func (p Planner) cpuFloor(in planning.Input, c supply) floor {
	w := in.Workload
	// The HPA measures usage where it happens, so the speed is that of the
	// machines the pods are on.
	speed := speedNow(in)
	tolerance, silent := p.tolerance(w), silent(in)
	best := floor{source: "none"}
	consider := func(usage float64, source string) {
		if c.margins.Known() {
			best = p.covered(best, in, c, usage, source)
			return
		}
		need := c.atTarget(c.near, usage, speed)
		n := hpaReplicas(need, w.Replicas, w.Replicas, tolerance)
		var counted int32
		if n < w.Replicas && silent > 0 { // each as if it used all that it requests
			counted = silent
			n = min(hpaReplicas(need+float64(silent)/c.utilization, w.Replicas, w.Replicas, tolerance), w.Replicas)
		}
		if best.source != "none" && n <= best.replicas {
			best.need = math.Max(best.need, need)
			return
		}
		best = floor{
			replicas: n, need: math.Max(best.need, need), source: source,
			reason: fmt.Sprintf("usage %s now needs %d × %s at %.0f %%%s%s (%s)",
				cores(usage), n, c.near, 100*c.utilization, onSpeed(speed), ofSilent(counted), source),
		}
	}
	if d, ok := freshDemand(in); ok {
		consider(d, "prometheus")
	}
	if u := w.Usage; u != nil && finite(u.MilliCPU) && u.MilliCPU >= 0 && u.Pods > 0 {
		consider(u.MilliCPU, "metrics.k8s.io")
	}
	return best
}

// covered is the floor where margins keep an objective: the larger of best and what covers
// all that usage may become until replicas asked for now serve. Where a trusted forecast
// says that it will be less by then, that counts. Within the tolerance replicas stay: the
// margins of what demand did know that, a forecast doesn't.
func (p Planner) covered(best floor, in planning.Input, c supply, usage float64, source string) floor {
	w := in.Workload
	bound, told := c.margins.Pods(usage, in.Time), in.Trusted && in.Forecast != nil
	if told {
		until := in.Time.Add(in.Windows.Node + in.Windows.Late) // nodes asked for now are there
		most := c.margins.Told * planning.Reach(in.Forecast, in.Policy.Quantile, in.Time, until)
		bound = math.Max(math.Min(bound, most), planning.Margins{}.Pods(usage, in.Time))
	}
	need := c.covering(c.near, bound, speedNow(in))
	n := p.near(need, w, !told)
	var counted int32
	if n < w.Replicas {
		if counted = silent(in); counted > 0 {
			n = min(p.near(need+float64(counted), w, !told), w.Replicas)
		}
	}
	if best.source != "none" && n <= best.replicas {
		best.need = math.Max(best.need, need)
		return best
	}
	becomes, shared := cores(bound), ""
	if whole := c.margins.Alone().Pods(usage, in.Time); !told && whole > bound {
		becomes, shared = cores(whole), fmt.Sprintf(" (%s must be their own, the rest is what others on their nodes leave idle)", cores(bound))
	}
	return floor{
		replicas: n, need: math.Max(best.need, need), source: source,
		reason: fmt.Sprintf("usage %s now may be %s once new replicas serve%s, for %.4g %% of time to be covered, and needs %d × %s%s%s (%s)",
			cores(usage), becomes, shared, 100*in.Policy.Objective, n, c.near, c.each(speedNow(in)), ofSilent(counted), source),
	}
}

// silent is how many pods run and are not Ready, for longer than a start takes: they crash or are cut off,
// and what the others use says nothing of what they would. The HPA counts pods without a reading as if
// they used all that they request before replicas go down, and leaves replicas as they are where that turns
// the direction round (pkg/controller/podautoscaler/replica_calculator.go, missingPods).
func silent(in planning.Input) (n int32) {
	for i := range in.Pods {
		p := &in.Pods[i]
		if !p.Ready && !p.Terminating && p.Phase != "Pending" && !p.Created.IsZero() && in.Time.Sub(p.Created) > 2*in.Windows.Pod {
			n++
		}
	}
	return n
}

// ofSilent says that pods are counted that tell nothing.
func ofSilent(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", with as much for each of the %d pods that run and are not Ready", n)
}

// onSpeed says on what machines replicas are counted, where usage as it is told, that of
// machines of speed 1, would not explain their number.
func onSpeed(speed float64) string {
	if math.Abs(speed-1) < 0.005 {
		return ""
	}
	return fmt.Sprintf(" on machines of speed %.2f", speed)
}

// near is what is needed in whole replicas, or the present ones where that differs by no
// more than the tolerance. Where there must be no fewer than are needed, only down.
func (p Planner) near(need float64, w api.Workload, either bool) int32 {
	if !either && need > float64(w.Replicas) {
		return choice.Ceil(need)
	}
	return hpaReplicas(need, w.Replicas, w.Replicas, p.tolerance(w))
}

// passing is the floor of demand that a trusted forecast expects to have fallen by
// the time that nodes would be there which are asked for now: replicas that wait for
// them were pending at its peak and are of no use afterwards. So it is raised by no
// more than brings usage back within the tolerance, where an HPA would leave it as
// well, instead of to the target. Demand that is beyond the policy's quantile by more
// than the tolerance is not what the forecast speaks of.
func (p Planner) passing(f floor, in planning.Input, c supply, expected *api.Forecast) floor {
	tolerance := p.tolerance(in.Workload)
	least := max(choice.Ceil(f.need/(1+tolerance)), in.Workload.Replicas)
	if f.replicas <= least || expected == nil || expected.Step <= 0 || !usable(expected.Mean) {
		return f
	}
	now := max(0, int(in.Time.Sub(expected.Start)/expected.Step))
	if now >= len(expected.Mean) || !passes(expected, now, in.Windows.Node, tolerance) {
		return f
	}
	high := 0.0
	for i, v := range expected.Quantile(in.Policy.Quantile) {
		if i >= now && !expected.Start.Add(time.Duration(i)*expected.Step).After(in.Time.Add(in.Windows.Pod)) {
			high = math.Max(high, v)
		}
	}
	if f.need > c.atTarget(c.near, high, speedNow(in))*(1+tolerance) {
		return f
	}
	f.reason += fmt.Sprintf("; %d are within the tolerance, and demand is expected to have passed before a node for more would be there", least)
	f.replicas = least
	return f
}

// tolerance is the relative deviation from the target that is accepted.
func (p Planner) tolerance(w api.Workload) float64 {
	for _, t := range []float64{w.Behavior.Tolerance, p.Tolerance} {
		if t > 0 {
			return t
		}
	}
	return planning.DefaultTolerance
}

// hpaReplicas is the recommendation of Kubernetes' HPA
// (pkg/controller/podautoscaler/replica_calculator.go) where so many replicas,
// not whole, would be at the target: no change while their ratio to the counted
// ones, those that the metric is of, is within the tolerance. Pods without a
// reading of CPU count as idle, as they do there when the others ask for more.
func hpaReplicas(need float64, counted, current int32, tolerance float64) int32 {
	if counted > 0 && math.Abs(need/float64(counted)-1) <= tolerance+epsilon {
		return current
	}
	return choice.Ceil(need)
}

// freshDemand returns the newest demand, if it is recent enough to act on.
func freshDemand(in planning.Input) (float64, bool) {
	if in.Workload.DemandStale || !in.Metrics.Reachable {
		return 0, false
	}
	v, _, ok := in.Workload.Demand.Last()
	return v, ok && finite(v) && v >= 0
}

func staleness(in planning.Input) string {
	switch {
	case !in.Metrics.Reachable && in.Metrics.Error != "":
		return "Prometheus is unreachable (" + in.Metrics.Error + ")"
	case !in.Metrics.Reachable:
		return "Prometheus is unreachable"
	case in.Workload.DemandStale:
		return "demand is stale"
	default:
		return "there are no samples of it"
	}
}

func speedNow(in planning.Input) float64 {
	if s := in.Workload.SpeedNow; s > 0 && finite(s) {
		return s
	}
	return 1
}

func hold(plan planning.Proposal, w api.Workload, reason string) planning.Proposal {
	plan.Held, plan.Binding = true, api.BindingHold
	plan.Reason = fmt.Sprintf("held at %d: %s", w.Replicas, reason)
	plan.Replicas, plan.NodeReplicas = w.Replicas, w.Replicas
	plan.Floor, plan.FloorSource = min(plan.Floor, w.Replicas), "none"
	return plan
}

func cores(milli float64) string { return fmt.Sprintf("%.2f cores", milli/1000) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func usable(xs []float64) bool {
	for _, x := range xs {
		if !finite(x) {
			return false
		}
	}
	return true
}
