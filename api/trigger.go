package api

import "time"

// Trigger is a demand input besides CPU usage: a metric with a target for each
// replica, as a HorizontalPodAutoscaler's metrics and KEDA's triggers have it.
// The demand is its total divided by the target, in replicas' worth of work,
// whatever machines they run on.
type Trigger struct {
	// Name tells it from the workload's others: "queue".
	Name string
	// Target is what one replica is for, in the metric's own unit; positive.
	Target float64
	// Ratio is true when Value is what the replicas there are make of the
	// demand (a latency, a fill level: the HPA's target type Value): then the
	// total is Value × replicas. Otherwise Value is the total itself.
	Ratio bool
	// Value now, in the metric's own unit: finite and not negative.
	Value float64
	// Pods is of how many Ready pods Value is the sum; 0 where it is not of
	// pods.
	Pods int32
	// At is when it was read; zero if never.
	At time.Time
	// Missing is not empty when there is no value to act on, and says why. Then
	// replicas never go down, nor to zero.
	Missing string
	// Activates is true when the metric has a meaning without any pods, so that
	// more than Activation of it asks for the first one.
	Activates  bool
	Activation float64
	// History of the total, in the metric's own unit.
	History Series
	// Known is what the total will be where that is no guess (a schedule); nil
	// where it has to be forecast from History.
	Known *Forecast
}

// Total of the metric over all replicas, of which so many are Ready. With none
// a ratio counts as seen by one.
func (s Trigger) Total(ready int32) float64 {
	if s.Ratio {
		return s.Value * float64(max(ready, 1))
	}
	return s.Value
}

// Active tells whether a value asks for at least one replica.
func (s Trigger) Active(value float64) bool { return s.Activates && value > s.Activation }

// Activity tells whether a workload that may have no replicas is asked for.
type Activity string

// Activities; empty for a workload that always has replicas.
const (
	Active   Activity = "active"
	Inactive Activity = "inactive"
	// ActivityUnknown: no trigger is active, but not all of them are known.
	ActivityUnknown Activity = "unknown"
)

// TriggerPlan is what a trigger asks for.
type TriggerPlan struct {
	Name string `json:"name"`
	// Value now, -1 if missing; Missing says why.
	Value   float64 `json:"value"`
	Missing string  `json:"missing,omitempty"`
	Target  float64 `json:"target"`
	// Replicas that it asks for now, as the HPA would.
	Replicas int32 `json:"replicas"`
	Active   bool  `json:"active,omitempty"`
	// Load is what is expected of it over the pod startup latency and PeakLoad over the
	// horizon, in replicas in use at 100 % of their requests.
	Load     float64 `json:"load"`
	PeakLoad float64 `json:"peakLoad"`
	// Forecast of its total; nil when there is none to use.
	Forecast *Forecast `json:"forecast,omitempty"`
}
