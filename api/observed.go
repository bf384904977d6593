package api

// Observed is what a Cycle keeps of its snapshot: pools, which of them the policies may
// touch, and workloads.
func Observed(s Snapshot, p Policy) ([]PoolStatus, []WorkloadStatus) {
	managed := make(map[string]bool, len(p.ManagedPools))
	for _, name := range p.ManagedPools {
		managed[name] = true
	}
	ready := make(map[string]int32, len(s.Pools))
	for _, n := range s.Nodes {
		if n.Ready {
			ready[n.Pool]++
		}
	}
	pools := make([]PoolStatus, 0, len(s.Pools))
	for _, pool := range s.Pools {
		pools = append(pools, PoolStatus{
			Name: pool.Name, MachineType: pool.MachineType,
			TargetNodes: pool.Nodes(), ReadyNodes: ready[pool.Name],
			HourlyCost: float64(pool.Nodes()) * pool.Price,
			Managed:    managed[pool.Name], Hold: pool.Hold,
		})
	}
	workloads := make([]WorkloadStatus, 0, len(s.Workloads))
	for _, w := range s.Workloads {
		demand := -1.0
		if v, _, ok := w.Demand.Last(); ok {
			demand = v
		} else if w.Usage != nil {
			demand = w.Usage.MilliCPU
		}
		workloads = append(workloads, WorkloadStatus{
			Key: w.Key, Mode: w.Mode, Generation: w.Generation,
			Replicas: w.Replicas, ReadyReplicas: w.ReadyReplicas,
			Demand: demand, DemandStale: w.DemandStale,
			Hold: w.Hold, HoldReason: w.HoldReason,
		})
	}
	return pools, workloads
}
