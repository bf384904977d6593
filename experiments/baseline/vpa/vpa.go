// Package vpa is the VerticalPodAutoscaler: its recommender's own code (module
// k8s.io/autoscaler/vertical-pod-autoscaler) with the defaults of its flags, and the rule by
// which its updater changes a pod.
package vpa

import (
	"math"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
)

// Interval of the recommender and of the updater: --recommender-interval, --updater-interval.
const Interval = time.Minute

// The updater's flags --pod-lifetime-update-threshold and --pod-update-threshold.
const (
	podLifetime = 12 * time.Hour
	minChange   = 0.1
)

// config are the defaults of the recommender's flags.
var config = logic.RecommendationConfig{
	SafetyMarginFraction: 0.15, PodMinCPUMillicores: 25, PodMinMemoryMb: 250,
	TargetCPUPercentile: 0.9, LowerBoundCPUPercentile: 0.5, UpperBoundCPUPercentile: 0.95, ConfidenceIntervalCPU: 24 * time.Hour,
	TargetMemoryPercentile: 0.9, LowerBoundMemoryPercentile: 0.5, UpperBoundMemoryPercentile: 0.95, ConfidenceIntervalMemory: 24 * time.Hour,
}

// Size of a pod's one container: cores and bytes.
type Size struct{ CPU, Memory float64 }

// Controls are the resources that a VPA object names in controlledResources.
type Controls struct{ CPU, Memory bool }

// VPA is one object with a workload of one container. It is for one goroutine.
type VPA struct {
	controls Controls
	state    *model.AggregateContainerState
	pods     map[string]*model.ContainerState
}

// New makes one in mode InPlaceOrRecreate.
func New(c Controls) *VPA {
	return &VPA{controls: c, state: model.NewAggregateContainerState(), pods: map[string]*model.ContainerState{}}
}

// Observe a pod's usage over the interval that began at a time, which must grow.
func (v *VPA) Observe(pod string, at time.Time, usage Size) {
	s := v.pods[pod]
	if s == nil {
		s = model.NewContainerState(nil, v.state)
		v.pods[pod] = s
	}
	s.AddSample(&model.ContainerUsageSample{MeasureStart: at, Usage: model.CPUAmountFromCores(usage.CPU), Resource: model.ResourceCPU})
	s.AddSample(&model.ContainerUsageSample{MeasureStart: at, Usage: model.MemoryAmountFromBytes(usage.Memory), Resource: model.ResourceMemory})
}

// Killed is told of a pod whose container was ended for its memory, at a limit of so many bytes.
func (v *VPA) Killed(pod string, at time.Time, limit float64) {
	if s := v.pods[pod]; s != nil {
		_ = s.RecordOOM(at, model.MemoryAmountFromBytes(limit)) // fails for what is long ago only
	}
}

// Forget a pod that is gone.
func (v *VPA) Forget(pod string) { delete(v.pods, pod) }

// Recommendation of the recommender; what is not controlled is 0.
type Recommendation struct{ Target, Lower, Upper Size }

// Recommend returns what pods are to request, and false while nothing was observed.
func (v *VPA) Recommend() (Recommendation, bool) {
	if v.state.TotalSamplesCount == 0 {
		return Recommendation{}, false
	}
	all := logic.CreatePodResourceRecommender(config).GetRecommendedPodResources(model.ContainerNameToAggregateStateMap{"main": v.state})["main"]
	size := func(r model.Resources) (s Size) {
		if v.controls.CPU {
			s.CPU = model.CoresFromCPUAmount(r[model.ResourceCPU])
		}
		if v.controls.Memory {
			s.Memory = model.BytesFromMemoryAmount(r[model.ResourceMemory])
		}
		return s
	}
	return Recommendation{size(all.Target), size(all.LowerBound), size(all.UpperBound)}, true
}

// Apply is a recommendation to a pod that requests so much: what it is to request.
func (r Recommendation) Apply(now Size) Size {
	if r.Target.CPU > 0 {
		now.CPU = r.Target.CPU
	}
	if r.Target.Memory > 0 {
		now.Memory = r.Target.Memory
	}
	return now
}

// Updates reports whether the updater changes a pod (updater/priority): one whose request is
// outside the recommended range at once, another one once it is 12 h old and what it requests
// differs by a tenth.
func (r Recommendation) Updates(request Size, age time.Duration) bool {
	outside, diff := false, 0.0
	for _, x := range [][4]float64{{request.CPU, r.Target.CPU, r.Lower.CPU, r.Upper.CPU}, {request.Memory, r.Target.Memory, r.Lower.Memory, r.Upper.Memory}} {
		if x[1] == 0 {
			continue
		}
		outside = outside || x[0] < x[2] || x[0] > x[3]
		diff += math.Abs(x[0]-x[1]) / math.Max(x[0], 1e-3)
	}
	return outside || age >= podLifetime && diff >= minChange
}
