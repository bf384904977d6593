package baseline

// Proportional is the linear mode of the cluster-proportional-autoscaler: replicas
// in proportion to the cluster's schedulable cores
// (kubernetes-sigs/cluster-proportional-autoscaler, pkg/autoscaler/controller/
// linearcontroller). Cluster Autoscaler's FAQ, "How can I configure overprovisioning
// with Cluster Autoscaler?", uses it to keep a share of a cluster free: placeholders
// of 200m and priority −10, one for each core, are 20 % of it.
type Proportional struct {
	// CoresPerReplica is how many cores one replica is for; positive.
	CoresPerReplica float64
}

// PlaceholderMilliCPU is what one placeholder of the FAQ's example asks for;
// PlaceholderPriority is its priority, the lowest for which Cluster Autoscaler adds
// nodes.
const (
	PlaceholderMilliCPU = 200
	PlaceholderPriority = -10
)

// Placeholders are those that keep a share of the cluster's CPU free, in percent.
func Placeholders(percent float64) Proportional {
	return Proportional{CoresPerReplica: PlaceholderMilliCPU / (10 * percent)}
}

// Replicas for the sum of the schedulable nodes' allocatable CPU, millicores. The
// autoscaler knows whole cores, rounded up.
func (p Proportional) Replicas(milliCPU int64) int32 {
	cores := float64((milliCPU + 999) / 1000)
	// A quotient that is whole but for its last bit is whole.
	return int32(ceil(cores / p.CoresPerReplica))
}
