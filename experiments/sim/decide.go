package sim

import (
	"maps"
	"slices"
	"sync"

	"github.com/mash2-io/mash2/planning"
)

// decides has Decide asked in place of the planner of workloads.
func (r *run) decides(h *planning.Hierarchy) {
	h.Planners = maps.Clone(h.Planners)
	h.Planners[planning.DefaultPlanner] = &decider{run: r, base: h.Planners[planning.DefaultPlanner]}
}

// decider asks Decide, of one workload at a time.
type decider struct {
	*run
	base   planning.WorkloadPlanner
	asking sync.Mutex
}

// PlanWorkload implements planning.WorkloadPlanner.
func (d *decider) PlanWorkload(in planning.Input) (planning.Proposal, error) {
	base, err := d.base.PlanWorkload(in)
	i := slices.IndexFunc(d.c.workloads, func(w *workload) bool { return w.key == in.Workload.Key })
	if err != nil || base.Held || i < 0 {
		return base, err
	}
	d.asking.Lock()
	defer d.asking.Unlock()
	seen, err := d.c.traffic.(*counting).seen(d.c.workloads[i].stream)
	if err != nil {
		return base, err
	}
	return d.Decide(in, base, seen), nil
}
