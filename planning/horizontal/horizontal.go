// Package horizontal plans the replicas of one workload from a forecast of its
// demand (MAS-H², eq. 3), never below what the HorizontalPodAutoscaler of
// Kubernetes would ask for now.
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
// With u = 1, τ = 0 and a forecast without error both are eq. 3.
package horizontal

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// epsilon keeps a quotient that is whole up to rounding from being rounded up.
const epsilon = 1e-9

// maxReplicas bounds what a plan may say before the Guard applies the author's
// bound; it keeps absurd demand inside an int32.
const maxReplicas = math.MaxInt32 / 4

// Planner is the horizontal planner. Its zero value can be used.
type Planner struct {
	// Tolerance replaces planning.DefaultTolerance as the relative deviation
	// that the reactive floor ignores where a workload states none.
	Tolerance float64
}

var _ planning.WorkloadPlanner = Planner{}

// capacity is what one replica supplies at the target utilisation.
type capacity struct {
	request     int64   // millicores
	utilization float64 // 0–1
}

// at returns reference millicores of one replica on a machine of this speed.
func (c capacity) at(speed float64) float64 {
	return float64(c.request) * speed * c.utilization
}

// PlanWorkload returns the least replicas that cover the forecast's quantile
// and the reactive floor. It is Held when there is nothing to plan by.
func (p Planner) PlanWorkload(in planning.Input) (api.WorkloadPlan, error) {
	w := in.Workload
	plan := api.WorkloadPlan{
		Key:          w.Key,
		Shadow:       w.Mode == api.ModeShadow,
		Current:      w.Replicas,
		Replicas:     w.Replicas,
		NodeReplicas: w.Replicas,
		Demand:       -1,
		PeakDemand:   -1,
		FloorSource:  "none",
	}
	c, problem := replicaCapacity(in)
	if problem != "" {
		return hold(plan, problem), nil
	}
	plan.Request = c.request

	floor := p.floor(in, c)
	plan.Floor, plan.FloorSource = floor.replicas, floor.source
	demand, fresh := freshDemand(in)
	if fresh {
		plan.Demand = demand
	} else if w.Usage != nil && finite(w.Usage.MilliCPU) {
		plan.Demand = w.Usage.MilliCPU
	}
	if floor.source == "none" {
		return hold(plan, "no demand is known: "+staleness(in)), nil
	}

	// The reactive part: now and, for want of better, for ever.
	plan.Need = floor.need
	plan.Replicas, plan.NodeReplicas = floor.replicas, floor.replicas
	plan.Path = []api.PathStep{{At: in.Time, Replicas: floor.replicas, Need: floor.need}}
	plan.PeakDemand = plan.Demand
	plan.Binding, plan.Reason = "floor", floor.reason
	if !fresh {
		if w.Replicas > plan.Replicas {
			plan.Replicas, plan.Binding = w.Replicas, "stale"
			plan.Reason = fmt.Sprintf("kept at %d: %s; %s", w.Replicas, staleness(in), floor.reason)
		}
		plan.NodeReplicas = plan.Replicas
		plan.Path[0].Replicas = plan.Replicas
		return plan, nil
	}
	if in.Forecast == nil {
		return plan, nil
	}
	p.predict(&plan, in, c, floor)
	return plan, nil
}

// predict raises the plan to the forecast's path.
func (p Planner) predict(plan *api.WorkloadPlan, in planning.Input, c capacity, floor floor) {
	f := in.Forecast
	quantile := f.Quantile(in.Policy.Quantile)
	if len(quantile) == 0 || f.Step <= 0 || len(f.Mean) != len(quantile) || !usable(quantile) || !usable(f.Mean) {
		plan.Reason += "; the forecast has no usable quantiles"
		return
	}
	tolerance := p.tolerance(in.Workload)
	// want is what a step needs, at the target and in whole replicas.
	want := func(mean, quantile, speed float64) (need float64, replicas int32) {
		full := float64(c.request) * speed
		expected, high := mean/(full*c.utilization), quantile/full
		return math.Max(expected, high), max(ceil(expected/(1+tolerance)), ceil(high))
	}
	// Replicas needed now run where the pods are now: until they have moved to
	// a faster pool, the slower one's speed counts.
	slower := math.Min(in.Speed, speedNow(in))

	var (
		path     []api.PathStep
		need     float64
		replicas int32
		needAt   time.Time
		needMean float64
		needHigh float64
		nodes    = floor.replicas
	)
	for i, d := range quantile {
		at := f.Start.Add(time.Duration(i) * f.Step)
		if i+1 < len(quantile) && !at.Add(f.Step).After(in.Time) {
			continue // wholly in the past
		}
		if at.Before(in.Time) {
			at = in.Time
		}
		ahead := at.Sub(in.Time)
		if ahead > in.Windows.Horizon && len(path) > 0 {
			break
		}
		d, mean := math.Max(d, 0), math.Max(f.Mean[i], 0)
		step := api.PathStep{At: at}
		step.Need, step.Replicas = want(mean, d, in.Speed)
		if ahead <= in.Windows.Pod || len(path) == 0 {
			step.Need, step.Replicas = want(mean, d, slower)
			if step.Replicas > replicas || needAt.IsZero() {
				replicas, needAt, needMean, needHigh = step.Replicas, at, mean, d
			}
			need = math.Max(need, step.Need)
		}
		if ahead <= in.Windows.Node {
			nodes = max(nodes, step.Replicas)
		}
		plan.PeakDemand = math.Max(plan.PeakDemand, d)
		if n := len(path); n > 0 && path[n-1].Replicas == step.Replicas {
			path[n-1].Need = math.Max(path[n-1].Need, step.Need)
		} else {
			path = append(path, step)
		}
	}
	// The quantile of the whole horizon's maximum is above the maximum of the
	// steps' quantiles; nodes that must last the whole horizon are sized by it.
	if peak := f.Peak(in.Policy.Quantile); !math.IsNaN(peak) && peak > plan.PeakDemand {
		plan.PeakDemand = peak
		if end := f.Start.Add(time.Duration(len(quantile)) * f.Step); !in.Time.Add(in.Windows.Node).Before(end) {
			_, most := want(0, peak, in.Speed)
			nodes = max(nodes, most)
		}
	}
	if path[0].At.After(in.Time) {
		path[0].At = in.Time
	}

	plan.Forecast = f
	plan.Path = path
	if replicas >= floor.replicas {
		plan.Replicas, plan.Binding = replicas, "forecast"
		plan.Reason = fmt.Sprintf("forecast peak %s at %s, %s at q=%.2f, needs %d × %dm: expected usage at %.0f %%, the quantile at 100 %%",
			cores(needMean), needAt.UTC().Format(time.TimeOnly), cores(needHigh), in.Policy.Quantile,
			replicas, c.request, 100*c.utilization)
		if slower != 1 {
			plan.Reason += fmt.Sprintf(" on machines of speed %.2f", slower)
		}
	} else {
		plan.Reason += fmt.Sprintf("; forecast (q=%.2f) needs %d", in.Policy.Quantile, replicas)
	}
	plan.Need = math.Max(plan.Need, need)
	plan.NodeReplicas = max(nodes, plan.Replicas)
}

// floor is what the reactive rule asks for now.
type floor struct {
	replicas int32
	need     float64 // before rounding
	source   string
	reason   string
}

// floor takes the larger of what the two sources ask for.
func (p Planner) floor(in planning.Input, c capacity) floor {
	w := in.Workload
	// The HPA measures usage where it happens, so the speed is that of the
	// machines the pods are on.
	supply := c.at(speedNow(in))
	tolerance := p.tolerance(w)
	best := floor{source: "none"}
	consider := func(usage float64, source string) {
		n := hpaReplicas(usage, supply, w.Replicas, tolerance)
		if best.source != "none" && n <= best.replicas {
			best.need = math.Max(best.need, usage/supply)
			return
		}
		best = floor{
			replicas: n, need: math.Max(best.need, usage/supply), source: source,
			reason: fmt.Sprintf("usage %s now needs %d × %dm at %.0f %% (%s)",
				cores(usage), n, c.request, 100*c.utilization, source),
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

// tolerance is the relative deviation from the target that is accepted.
func (p Planner) tolerance(w api.Workload) float64 {
	for _, t := range []float64{w.Behavior.Tolerance, p.Tolerance} {
		if t > 0 {
			return t
		}
	}
	return planning.DefaultTolerance
}

// hpaReplicas is the recommendation of Kubernetes' HPA for a CPU utilisation
// target (pkg/controller/podautoscaler/replica_calculator.go): no change while
// the ratio of usage to target is within the tolerance. Pods without a reading
// count as idle, as they do there when the others ask for more; when the others
// ask for fewer the HPA counts them as busy, which is not needed here: without
// fresh demand from the first source replicas never go down.
func hpaReplicas(usage, supply float64, current int32, tolerance float64) int32 {
	need := usage / supply
	if current > 0 && math.Abs(need/float64(current)-1) <= tolerance+epsilon {
		return current
	}
	return ceil(need)
}

// replicaCapacity returns what a replica supplies, or why that isn't known.
func replicaCapacity(in planning.Input) (capacity, string) {
	w := in.Workload
	u := w.TargetUtilization
	if u <= 0 {
		u = in.Policy.TargetUtilization
	}
	switch {
	case w.Hold != "":
		return capacity{}, w.Hold
	case w.Shape == nil || w.Shape.Requests.MilliCPU <= 0:
		return capacity{}, "its pods request no CPU, so utilisation has no meaning"
	case !(u > 0) || math.IsInf(u, 0):
		return capacity{}, fmt.Sprintf("target utilisation must be positive, is %v", u)
	case !(in.Speed > 0) || math.IsInf(in.Speed, 0):
		return capacity{}, fmt.Sprintf("the speed of the pool must be positive, is %v", in.Speed)
	}
	return capacity{request: w.Shape.Requests.MilliCPU, utilization: u}, ""
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

func hold(plan api.WorkloadPlan, reason string) api.WorkloadPlan {
	plan.Held, plan.Binding = true, "hold"
	plan.Reason = fmt.Sprintf("held at %d: %s", plan.Current, reason)
	plan.Replicas, plan.NodeReplicas = plan.Current, plan.Current
	plan.Floor, plan.FloorSource = min(plan.Floor, plan.Current), "none"
	return plan
}

func ceil(x float64) int32 {
	switch {
	case !(x > 0):
		return 0
	case x >= maxReplicas:
		return maxReplicas
	}
	return int32(math.Ceil(x - epsilon))
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
