package adoption

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Report says how far mash2's plans in Shadow agree with the autoscalers that
// act.
type Report struct {
	// Seconds for which was looked.
	Seconds   float64      `json:"seconds"`
	Workloads []ReportLine `json:"workloads"`
}

// ReportLine is one workload of a Report.
type ReportLine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	From      string `json:"from"` // KIND/NAME of the autoscaler
	Mode      string `json:"mode"`
	Ready     string `json:"ready"` // reason of the condition
	// Agreement is null where the two could not be compared once.
	*Agreement
}

// Watch looks at adopted workloads every so often for a time, once if that is
// shorter: at those named in only, at all that were adopted if it is empty. When
// ctx ends it returns what it has seen. The first look must succeed. Later ones that fail are
// left out, and told by Warn: one that does takes nothing of a day away.
func (a Adoption) Watch(ctx context.Context, only []types.NamespacedName, during, every time.Duration) (Report, error) {
	started := time.Now()
	sums := map[types.NamespacedName]*Agreement{}
	var last *Report
	for {
		r, err := a.look(ctx, only, sums)
		switch {
		case err == nil:
			last = &r
		case last == nil:
			return r, err
		case ctx.Err() == nil:
			a.warn("a comparison is left out: %v", err)
		}
		last.Seconds = time.Since(started).Seconds()
		if time.Since(started)+every > during {
			return *last, nil
		}
		select {
		case <-ctx.Done():
			return *last, nil
		case <-time.After(every):
		}
	}
}

// look compares once, and adds to what was seen before.
func (a Adoption) look(ctx context.Context, only []types.NamespacedName, sums map[types.NamespacedName]*Agreement) (Report, error) {
	r := Report{Workloads: []ReportLine{}}
	var list v1alpha1.ManagedWorkloadList
	if err := a.Client.List(ctx, &list); err != nil {
		return r, fmt.Errorf("listing ManagedWorkloads: %w", err)
	}
	for i := range list.Items {
		w := &list.Items[i]
		key := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
		if len(only) > 0 && !slices.Contains(only, key) || len(only) == 0 && w.Annotations[AnnotationFrom] == "" {
			continue
		}
		line := ReportLine{Namespace: w.Namespace, Name: w.Name, From: w.Annotations[AnnotationFrom], Mode: string(w.Spec.Mode)}
		for _, c := range w.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady {
				line.Ready = c.Reason
			}
		}
		desired, ok, err := a.Desired(ctx, w)
		if err != nil {
			return r, err
		}
		if ok && w.Status.PlannedReplicas != nil {
			if sums[key] == nil {
				sums[key] = &Agreement{}
			}
			sums[key].Add(*w.Status.PlannedReplicas, desired)
		}
		line.Agreement = sums[key]
		r.Workloads = append(r.Workloads, line)
	}
	for _, key := range only {
		if !slices.ContainsFunc(list.Items, func(w v1alpha1.ManagedWorkload) bool { return client.ObjectKeyFromObject(&w) == key }) {
			return r, fmt.Errorf("there is no ManagedWorkload %s", key)
		}
	}
	return r, nil
}
