package vpa

import (
	"fmt"
	"math"
	"testing"
	"time"

	upstream "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
)

// TestDefaults are those of the recommender's flags.
func TestDefaults(t *testing.T) {
	d := upstream.DefaultRecommenderConfig()
	if d.MetricsFetcherInterval != Interval {
		t.Errorf("every %v", d.MetricsFetcherInterval)
	}
	want := logic.RecommendationConfig{
		SafetyMarginFraction: d.SafetyMarginFraction, PodMinCPUMillicores: d.PodMinCPUMillicores, PodMinMemoryMb: d.PodMinMemoryMb,
		TargetCPUPercentile: d.TargetCPUPercentile, LowerBoundCPUPercentile: d.LowerBoundCPUPercentile, UpperBoundCPUPercentile: d.UpperBoundCPUPercentile, ConfidenceIntervalCPU: d.ConfidenceIntervalCPU,
		TargetMemoryPercentile: d.TargetMemoryPercentile, LowerBoundMemoryPercentile: d.LowerBoundMemoryPercentile, UpperBoundMemoryPercentile: d.UpperBoundMemoryPercentile, ConfidenceIntervalMemory: d.ConfidenceIntervalMemory,
	}
	if config != want {
		t.Errorf("%+v, the flags' defaults are %+v", config, want)
	}
}

// TestRecommend: the 90th percentile and 15 % for CPU, the peak for memory, and at least 250 MiB.
func TestRecommend(t *testing.T) {
	v := New(Controls{CPU: true, Memory: true})
	if _, ok := v.Recommend(); ok {
		t.Error("it recommends before it has seen anything")
	}
	begin := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for minute := range 24 * 60 {
		for pod := range 3 {
			cpu := 0.1
			if minute%10 == 0 { // a tenth of the time
				cpu = 0.4
			}
			v.Observe(fmt.Sprint(pod), begin.Add(time.Duration(minute)*time.Minute), Size{cpu, 400 << 20})
		}
	}
	r, ok := v.Recommend()
	// Histogram buckets grow by 5 %.
	if !ok || r.Target.CPU < 0.1*1.15 || r.Target.CPU > 0.5 || math.Abs(r.Target.Memory/(400<<20*1.15)-1) > 0.08 {
		t.Errorf("%+v", r)
	}
	if r.Lower.CPU > r.Target.CPU || r.Upper.CPU < r.Target.CPU {
		t.Errorf("the range is %+v", r)
	}
	memory := New(Controls{Memory: true})
	memory.Observe("a", begin, Size{0.1, 10 << 20})
	if r, _ := memory.Recommend(); r.Target != (Size{0, 250 << 20}) {
		t.Errorf("a small pod: %+v", r)
	}
}

// TestUpdates is the updater's rule.
func TestUpdates(t *testing.T) {
	r := Recommendation{Target: Size{0.2, 0}, Lower: Size{0.1, 0}, Upper: Size{0.3, 0}}
	for name, c := range map[string]struct {
		request float64
		age     time.Duration
		want    bool
	}{
		"above the range":     {0.31, 0, true},
		"below":               {0.09, 0, true},
		"young, within":       {0.25, time.Hour, false},
		"old, within":         {0.25, 12 * time.Hour, true},
		"old, nearly as much": {0.21, 24 * time.Hour, false},
	} {
		if got := r.Updates(Size{c.request, 5}, c.age); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := r.Apply(Size{0.5, 7}); got != (Size{0.2, 7}) {
		t.Errorf("%+v: memory is not controlled", got)
	}
}
