package sensing

import (
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// agentsOf is what a ManagedWorkload says of the agents of its pods; nil without.
func agentsOf(w *v1alpha1.ManagedWorkload) *api.Agents {
	in := w.Spec.Vertical
	if in == nil {
		return nil
	}
	// The defaults are the CRD's.
	out := &api.Agents{Floor: 50, Interval: time.Second, Container: in.Container, Model: in.Model}
	if in.Run != nil {
		out.Stopped = !*in.Run
	}
	if in.CPU != nil {
		out.MilliCPU = in.CPU.MilliValue()
	}
	if in.MinCPU != nil {
		out.Floor = in.MinCPU.MilliValue()
	}
	if in.MaxCPU != nil {
		out.Ceiling = in.MaxCPU.MilliValue()
	}
	if in.Memory != nil {
		out.Memory = &api.MemoryBounds{Budget: in.Memory.Value(), Least: 64 << 20}
		if in.MinMemory != nil {
			out.Memory.Least = in.MinMemory.Value()
		}
		if in.MaxMemory != nil {
			out.Memory.Most = in.MaxMemory.Value()
		}
	}
	if in.IntervalSeconds != nil {
		out.Interval = time.Duration(*in.IntervalSeconds) * time.Second
	}
	for _, p := range in.Priorities {
		if out.Priorities == nil {
			out.Priorities = map[string]float64{}
		}
		out.Priorities[p.Pod] = float64(p.Percent) / 100
	}
	return out
}

// agents of a workload's pods with what is known of its target and of the fast loop.
func (o *Observer) agents(r *workloadRecord, v *view) *api.Agents {
	if r.agents == nil {
		return nil
	}
	out := *r.agents
	if t := v.targets[r.target]; t != nil && t.selector != nil {
		out.Selector = t.selector.String()
		out.Target = api.TargetRef{APIVersion: "apps/v1", Kind: r.target.kind, Name: r.target.name}
		for _, c := range t.containers {
			if c.Name == out.Container || out.Container == "" && len(t.containers) == 1 {
				out.Template = c.Limits.MilliCPU
			}
		}
	}
	if o.cfg.Agents != nil {
		out.State = o.cfg.Agents(r.key)
	}
	return &out
}
