package baseline

import (
	"math"
	"time"
)

// KEDA is a ScaledObject of KEDA with one trigger, as far as it decides between the
// least and the most replicas: the HPA that KEDA creates for it, with one metric of
// type External and a target of type AverageValue (kedacore/keda,
// pkg/scaling/resolver and controllers/keda/hpa.go; the calculation is
// GetExternalPerPodMetricReplicas in Kubernetes' replica_calculator.go).
//
// The trigger's value is asked for at every sync of the HPA: KEDA's adapter asks
// Prometheus then, unless useCachedMetrics is set. pollingInterval (30 s) and
// cooldownPeriod (300 s) are those of the way from no replicas to one and back, and
// decide nothing where minReplicaCount is one or more, as in every scenario here
// (keda.sh/docs, ScaledObject specification).
type KEDA struct {
	HPA
	// Threshold is the trigger's: what one replica is to have of the metric, in the
	// metric's unit.
	Threshold float64
}

// NewKEDA has the controller's defaults; KEDA sets no behavior of its own.
func NewKEDA(threshold float64, lowest, highest int32) KEDA {
	return KEDA{HPA: Default(0, lowest, highest), Threshold: threshold}
}

// Reconcile is one sync with current replicas in the spec and observed ones in the
// status. The metric is the trigger's value; a NaN is one that could not be had,
// with which nothing changes and ErrNoMetrics is returned.
func (k *KEDA) Reconcile(now time.Duration, current, observed int32, metric float64) (int32, error) {
	return k.reconcile(now, current, func() (int32, error) {
		if math.IsNaN(metric) || observed == 0 {
			return 0, ErrNoMetrics
		}
		if k.tolerated(metric / (k.Threshold * float64(observed))) {
			return observed, nil
		}
		return atMost32(math.Ceil(metric / k.Threshold)), nil
	})
}

// atMost32 is x as replicas, however large or small.
func atMost32(x float64) int32 {
	return int32(min(max(x, math.MinInt32), math.MaxInt32))
}
