package sensing

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/api"
)

// rangeRecord is what the cache keeps of a LimitRange: what the API server lets containers,
// and all of a pod together, request and be limited to (plugin/pkg/admission/limitranger).
type rangeRecord struct {
	identity
	container, pod api.AmountRange
}

func rangeRecordOf(l *corev1.LimitRange) *rangeRecord {
	r := &rangeRecord{identity: identify(l)}
	for _, item := range l.Spec.Limits {
		is := api.AmountRange{
			Least: listed(item.Min), Most: listed(item.Max),
			CPURatio:    item.MaxLimitRequestRatio.Cpu().AsApproximateFloat64(),
			MemoryRatio: item.MaxLimitRequestRatio.Memory().AsApproximateFloat64(),
		}
		switch item.Type {
		case corev1.LimitTypeContainer:
			r.container = both(r.container, is)
		case corev1.LimitTypePod:
			r.pod = both(r.pod, is)
		}
	}
	return r
}

// both is what two ranges allow.
func both(a, b api.AmountRange) api.AmountRange {
	a.Least = api.Amounts{MilliCPU: max(a.Least.MilliCPU, b.Least.MilliCPU), Memory: max(a.Least.Memory, b.Least.Memory)}
	a.Most = api.Amounts{MilliCPU: lower(a.Most.MilliCPU, b.Most.MilliCPU), Memory: lower(a.Most.Memory, b.Most.Memory)}
	a.CPURatio, a.MemoryRatio = lower(a.CPURatio, b.CPURatio), lower(a.MemoryRatio, b.MemoryRatio)
	return a
}

// lower of two bounds, of which 0 is none.
func lower[T int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// withinRanges notes what the LimitRanges of a namespace allow the containers of a workload.
// What holds for a pod is shared out as its author shared out what they request.
func (v *view) withinRanges(namespace string, s *api.Sizing) {
	var container, pod api.AmountRange
	var names []string
	for _, r := range v.ranges[namespace] {
		if r.container != (api.AmountRange{}) || r.pod != (api.AmountRange{}) {
			container, pod, names = both(container, r.container), both(pod, r.pod), append(names, r.key.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	var all api.Amounts
	for _, u := range s.Containers {
		all = api.Amounts{MilliCPU: all.MilliCPU + u.Requests.MilliCPU, Memory: all.Memory + u.Requests.Memory}
	}
	for i := range s.Containers {
		u := &s.Containers[i]
		share := func(of, request, all int64, round func(float64) float64) int64 {
			return int64(round(float64(of) * float64(request) / math.Max(float64(all), 1)))
		}
		// What the pod's other containers leave of its most may be nothing, which is a bound, too.
		left := func(most, beside, request, all int64) int64 {
			if most == 0 {
				return 0
			}
			return max(share(most-beside, request, all, math.Floor), 1)
		}
		own := api.AmountRange{CPURatio: pod.CPURatio, MemoryRatio: pod.MemoryRatio}
		own.Least.MilliCPU = share(pod.Least.MilliCPU, u.Requests.MilliCPU, all.MilliCPU, math.Ceil)
		own.Least.Memory = share(pod.Least.Memory, u.Requests.Memory, all.Memory, math.Ceil)
		own.Most.MilliCPU = left(pod.Most.MilliCPU, s.Beside.MilliCPU, u.Requests.MilliCPU, all.MilliCPU)
		own.Most.Memory = left(pod.Most.Memory, s.Beside.Memory, u.Requests.Memory, all.Memory)
		u.Range = both(container, own)
		u.Range.Names = strings.Join(names, ", ")
	}
}
