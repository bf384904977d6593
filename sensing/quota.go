package sensing

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/mash2-io/mash2/api"
)

// quotaRecord is what the cache keeps of a ResourceQuota: how much of what pods
// ask for may still be asked for in its namespace.
type quotaRecord struct {
	identity
	// left by resource: millicores, bytes, pods.
	left map[corev1.ResourceName]int64
}

func quotaRecordOf(q *corev1.ResourceQuota) *quotaRecord {
	r := &quotaRecord{identity: identify(q), left: map[corev1.ResourceName]int64{}}
	if !coversReplicas(q.Spec) {
		return r
	}
	for name, hard := range q.Status.Hard {
		used := q.Status.Used[name]
		switch name {
		case corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU:
			r.left[name] = hard.MilliValue() - used.MilliValue()
		case corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory, corev1.ResourcePods, "count/pods":
			r.left[name] = hard.Value() - used.Value()
		}
	}
	return r
}

// coversReplicas tells whether a quota counts the pods that mash2 adds: pods
// with requests and without a deadline. Quotas by priority class, and of scopes
// to come, are left to admission.
func coversReplicas(q corev1.ResourceQuotaSpec) bool {
	if q.ScopeSelector != nil && len(q.ScopeSelector.MatchExpressions) > 0 {
		return false
	}
	return !slices.ContainsFunc(q.Scopes, func(s corev1.ResourceQuotaScope) bool {
		return s != corev1.ResourceQuotaScopeNotBestEffort && s != corev1.ResourceQuotaScopeNotTerminating
	})
}

// limitsOf are the limits of a pod: millicores and bytes.
func limitsOf(pod *corev1.Pod) (milliCPU, memory int64) {
	limits := resource.PodLimits(pod, resource.PodResourcesOptions{})
	return limits.Cpu().MilliValue(), limits.Memory().Value()
}

// copies that a quota still has room for, and what runs out first.
func (q *quotaRecord) copies(requests api.Resources, limitCPU, limitMemory int64) (n int64, of corev1.ResourceName) {
	n = -1
	for name, left := range q.left {
		var each int64
		switch name {
		case corev1.ResourceCPU, corev1.ResourceRequestsCPU:
			each = requests.MilliCPU
		case corev1.ResourceMemory, corev1.ResourceRequestsMemory:
			each = requests.Memory
		case corev1.ResourceLimitsCPU:
			each = limitCPU
		case corev1.ResourceLimitsMemory:
			each = limitMemory
		default: // pods
			each = 1
		}
		if each <= 0 {
			continue
		}
		if room := max(left, 0) / each; n < 0 || room < n || room == n && name < of {
			n, of = room, name
		}
	}
	return n, of
}

// withinQuota lowers a workload's maximum to what the quotas of its namespace
// have room for, and says so. It never takes replicas away: those that are asked
// for may be on their way, and counted already.
func withinQuota(w *api.Workload, t *targetRecord, members []*podRecord, quotas []*quotaRecord) (api.Finding, bool) {
	limitCPU, limitMemory := t.limitCPU, t.limitMemory
	if newest := newestOf(members); newest != nil && !t.rollingOut {
		limitCPU, limitMemory = newest.limitCPU, newest.limitMemory
	}
	author, found := w.MaxReplicas, api.Finding{}
	for _, q := range quotas {
		room, of := q.copies(w.Shape.Requests, limitCPU, limitMemory)
		if room < 0 {
			continue
		}
		most := max(int64(len(members))+room, int64(w.Replicas), 1)
		if n := int32(min(most, math.MaxInt32)); w.QuotaReplicas == 0 || n < w.QuotaReplicas {
			w.QuotaReplicas = n
		}
		if most < int64(w.MaxReplicas) {
			w.MaxReplicas = int32(most)
			w.MinReplicas = min(w.MinReplicas, w.MaxReplicas)
			found = api.Finding{
				Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonQuota, Object: api.WorkloadRef(w.Key),
				Message: fmt.Sprintf("spec.maxReplicas: %s of ResourceQuota %s has no room for %d replicas", of, q.key.Name, author),
			}
		}
	}
	return found, found.Reason != ""
}

// quotaRoom is what all quotas of a namespace have room for; nil without one that counts what pods
// ask for.
func quotaRoom(quotas []*quotaRecord) *api.QuotaRoom {
	const unbounded = math.MaxInt64
	out := api.QuotaRoom{Requests: api.Amounts{MilliCPU: unbounded, Memory: unbounded}, Limits: api.Amounts{MilliCPU: unbounded, Memory: unbounded}}
	var names []string
	for _, q := range quotas {
		bounds := false
		for name, left := range q.left {
			var of *int64
			switch name {
			case corev1.ResourceCPU, corev1.ResourceRequestsCPU:
				of = &out.Requests.MilliCPU
			case corev1.ResourceMemory, corev1.ResourceRequestsMemory:
				of = &out.Requests.Memory
			case corev1.ResourceLimitsCPU:
				of = &out.Limits.MilliCPU
			case corev1.ResourceLimitsMemory:
				of = &out.Limits.Memory
			default:
				continue
			}
			*of, bounds = min(*of, max(left, 0)), true
		}
		if bounds {
			names = append(names, q.key.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	out.Quotas = strings.Join(names, ", ")
	return &out
}

// newestOf is the newest pod that stays; nil if there is none.
func newestOf(members []*podRecord) *podRecord {
	var newest *podRecord
	for _, p := range members {
		if !p.pod.Terminating && (newest == nil || p.pod.Created.After(newest.pod.Created)) {
			newest = p
		}
	}
	return newest
}
