// Package baseline has the rules that mash2 is compared with, as pure values:
// what the HorizontalPodAutoscaler of Kubernetes decides from the same picture,
// and what is built upon it: a ScaledObject of KEDA, the Predictive Horizontal Pod
// Autoscaler, and placeholders that grow with the cluster. Node autoscalers are in
// packages of their own.
package baseline

import (
	"errors"
	"math"
	"time"
)

// HPA is the HorizontalPodAutoscaler of autoscaling/v2 with one metric, the CPU
// utilisation of the pods' requests (pkg/controller/podautoscaler of
// kubernetes/kubernetes: replica_calculator.go, horizontal.go). It carries what
// the controller remembers from one sync to the next.
type HPA struct {
	// Target utilisation in percent of the request.
	Target int32
	// Min and Max replicas.
	Min, Max int32
	// Tolerance is the relative deviation of utilisation from the target that
	// changes nothing; --horizontal-pod-autoscaler-tolerance, 0.1.
	Tolerance float64
	// DownscaleStabilization, CPUInitialization and InitialReadiness are the
	// controller's flags of these names: 5 min, 5 min, 30 s.
	DownscaleStabilization, CPUInitialization, InitialReadiness time.Duration
	// Behavior limits changes; nil is the controller's way without one.
	Behavior *Behavior

	recommendations []recommendation
	ups, downs      []scaling
}

// Default has the controller's defaults.
func Default(target, lowest, highest int32) HPA {
	return HPA{
		Target: target, Min: lowest, Max: highest, Tolerance: 0.1,
		DownscaleStabilization: 5 * time.Minute, CPUInitialization: 5 * time.Minute, InitialReadiness: 30 * time.Second,
	}
}

// Pod is what the controller knows of one pod. Times are since any common
// origin.
type Pod struct {
	// Request in millicores.
	Request int64
	// Pending pods have not started; deleted ones are ignored.
	Pending, Deleted bool
	Ready            bool
	// Started is status.startTime, ReadyChanged the last transition of the
	// Ready condition. HasStarted is false while there is no startTime.
	Started, ReadyChanged time.Duration
	HasStarted            bool
	// Metric of metrics.k8s.io; HasMetric is false if there is none.
	HasMetric bool
	Usage     int64 // millicores
	MetricAt  time.Duration
	Window    time.Duration
}

// Behavior is spec.behavior.
type Behavior struct{ ScaleUp, ScaleDown Rules }

// Rules of one direction.
type Rules struct {
	Stabilization time.Duration
	Policies      []Policy
	// Select is Max (also when empty), Min or Disabled.
	Select string
}

// Policy allows a change of Value pods or percent per Period.
type Policy struct {
	Percent bool
	Value   int32
	Period  time.Duration
}

type recommendation struct {
	at       time.Duration
	replicas int32
}

type scaling struct {
	at     time.Duration
	change int32 // positive
}

// ErrNoMetrics is returned when no pod has a reading: nothing is changed then.
var ErrNoMetrics = errors.New("no pod has metrics")

// Reconcile is one sync: the replicas wanted with current ones. The error is
// ErrNoMetrics, with current replicas within the bounds.
func (h *HPA) Reconcile(now time.Duration, current int32, pods []Pod) (int32, error) {
	return h.reconcile(now, current, func() (int32, error) { return h.calculate(now, current, pods) })
}

// reconcile is one sync of a controller that calculates in its own way.
func (h *HPA) reconcile(now time.Duration, current int32, calculate func() (int32, error)) (int32, error) {
	if len(h.recommendations) == 0 { // recordInitialRecommendation
		h.recommendations = append(h.recommendations, recommendation{now, current})
	}
	switch {
	case current == 0:
		return 0, nil // scaled to zero by hand: autoscaling is off
	case current > h.Max:
		return h.scaled(now, current, h.Max), nil
	case current < h.Min:
		return h.scaled(now, current, h.Min), nil
	}
	desired, err := calculate()
	if err != nil {
		return current, err
	}
	if h.Behavior == nil {
		desired = h.limitByRules(current, h.stabilize(now, desired))
	} else {
		desired = h.limitByBehavior(now, current, h.stabilizeByBehavior(now, current, desired))
	}
	return h.scaled(now, current, desired), nil
}

// scaled notes a change (storeScaleEvent).
func (h *HPA) scaled(now time.Duration, current, desired int32) int32 {
	if h.Behavior == nil {
		return desired
	}
	switch {
	case desired > current:
		h.ups = append(prune(h.ups, now, longest(h.Behavior.ScaleUp)), scaling{now, desired - current})
	case desired < current:
		h.downs = append(prune(h.downs, now, longest(h.Behavior.ScaleDown)), scaling{now, current - desired})
	}
	return desired
}

func longest(r Rules) time.Duration {
	var d time.Duration
	for _, p := range r.Policies {
		d = max(d, p.Period)
	}
	return d
}

func prune(events []scaling, now, keep time.Duration) []scaling {
	for len(events) > 0 && events[0].at < now-keep {
		events = events[1:]
	}
	return events
}

// calculate is ReplicaCalculator.GetResourceReplicas.
func (h *HPA) calculate(now time.Duration, current int32, pods []Pod) (int32, error) {
	type sample struct{ usage, request int64 }
	var measured []sample
	var unready, missing []int64 // requests
	for _, p := range pods {
		switch {
		case p.Deleted:
		case p.Pending:
			unready = append(unready, p.Request)
		case !p.HasMetric:
			missing = append(missing, p.Request)
		case h.unready(now, p):
			unready = append(unready, p.Request)
		default:
			measured = append(measured, sample{p.Usage, p.Request})
		}
	}
	if len(measured) == 0 {
		return 0, ErrNoMetrics
	}
	ready := len(measured)
	ratio := func() float64 {
		var usage, request int64
		for _, m := range measured {
			usage += m.usage
			request += m.request
		}
		return float64(int32(usage*100/request)) / float64(h.Target)
	}
	usage := ratio()
	upWithUnready := len(unready) > 0 && usage > 1
	if !upWithUnready && len(missing) == 0 {
		if h.tolerated(usage) {
			return current, nil
		}
		return int32(math.Ceil(usage * float64(ready))), nil
	}
	for _, request := range missing {
		switch {
		case usage < 1:
			fallback := int64(max(100, h.Target))
			measured = append(measured, sample{request * fallback / 100, request})
		case usage > 1:
			measured = append(measured, sample{0, request})
		}
	}
	if upWithUnready {
		for _, request := range unready {
			measured = append(measured, sample{0, request})
		}
	}
	again := ratio()
	if h.tolerated(again) || usage < 1 && again > 1 || usage > 1 && again < 1 {
		return current, nil
	}
	desired := int32(math.Ceil(again * float64(len(measured))))
	if again < 1 && desired > current || again > 1 && desired < current {
		return current, nil
	}
	return desired, nil
}

// unready tells whether a pod's reading is set aside (groupPods).
func (h *HPA) unready(now time.Duration, p Pod) bool {
	switch {
	case !p.HasStarted:
		return true
	case p.Started+h.CPUInitialization > now:
		return !p.Ready || p.MetricAt < p.ReadyChanged+p.Window
	default:
		return !p.Ready && p.Started+h.InitialReadiness > p.ReadyChanged
	}
}

func (h *HPA) tolerated(ratio float64) bool {
	return 1-h.Tolerance <= ratio && ratio <= 1+h.Tolerance
}

// stabilize is stabilizeRecommendation: the highest of the window.
func (h *HPA) stabilize(now time.Duration, desired int32) int32 {
	highest := desired
	keep := h.recommendations[:0]
	for _, r := range h.recommendations {
		if r.at > now-h.DownscaleStabilization {
			highest = max(highest, r.replicas)
			keep = append(keep, r)
		}
	}
	h.recommendations = append(keep, recommendation{now, desired})
	return highest
}

// limitByRules is convertDesiredReplicasWithRules: at most double, or four.
func (h *HPA) limitByRules(current, desired int32) int32 {
	most := min(h.Max, max(2*current, 4))
	return min(max(desired, h.Min), most)
}

// stabilizeByBehavior is stabilizeRecommendationWithBehaviors.
func (h *HPA) stabilizeByBehavior(now time.Duration, current, desired int32) int32 {
	up, down := desired, desired
	upSince, downSince := now-h.Behavior.ScaleUp.Stabilization, now-h.Behavior.ScaleDown.Stabilization
	keep := h.recommendations[:0]
	for _, r := range h.recommendations {
		if r.at > upSince {
			up = min(up, r.replicas)
		}
		if r.at > downSince {
			down = max(down, r.replicas)
		}
		if r.at > min(upSince, downSince) {
			keep = append(keep, r)
		}
	}
	h.recommendations = append(keep, recommendation{now, desired})
	out := current
	if out < up {
		out = up
	}
	if out > down {
		out = down
	}
	return out
}

// limitByBehavior is convertDesiredReplicasWithBehaviorRate.
func (h *HPA) limitByBehavior(now time.Duration, current, desired int32) int32 {
	switch {
	case desired > current:
		limit := max(h.upLimit(now, current), current)
		return min(desired, min(h.Max, limit))
	case desired < current:
		limit := min(h.downLimit(now, current), current)
		return max(desired, max(h.Min, limit))
	}
	return desired
}

// upLimit is calculateScaleUpLimitWithScalingRules.
func (h *HPA) upLimit(now time.Duration, current int32) int32 {
	rules := h.Behavior.ScaleUp
	if rules.Select == "Disabled" {
		return current
	}
	result := int32(math.MinInt32)
	pick := func(a, b int32) int32 { return max(a, b) }
	if rules.Select == "Min" {
		result, pick = math.MaxInt32, func(a, b int32) int32 { return min(a, b) }
	}
	for _, p := range rules.Policies {
		start := current - changed(h.ups, now, p.Period) + changed(h.downs, now, p.Period)
		proposed := start + p.Value
		if p.Percent {
			proposed = int32(math.Ceil(float64(start) * (1 + float64(p.Value)/100)))
		}
		result = pick(result, proposed)
	}
	return result
}

// downLimit is calculateScaleDownLimitWithBehaviors.
func (h *HPA) downLimit(now time.Duration, current int32) int32 {
	rules := h.Behavior.ScaleDown
	if rules.Select == "Disabled" {
		return current
	}
	result := int32(math.MaxInt32)
	pick := func(a, b int32) int32 { return min(a, b) }
	if rules.Select == "Min" {
		result, pick = math.MinInt32, func(a, b int32) int32 { return max(a, b) }
	}
	for _, p := range rules.Policies {
		start := current - changed(h.ups, now, p.Period) + changed(h.downs, now, p.Period)
		proposed := start - p.Value
		if p.Percent {
			proposed = int32(float64(start) * (1 - float64(p.Value)/100))
		}
		result = pick(result, proposed)
	}
	return result
}

// changed sums the changes of a period (getReplicasChangePerPeriod).
func changed(events []scaling, now, period time.Duration) int32 {
	var n int32
	for _, e := range events {
		if e.at > now-period {
			n += e.change
		}
	}
	return n
}
