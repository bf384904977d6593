package autoscaler

import (
	"errors"
	"fmt"
	"time"
)

// Rules are the parameters that decide, under the names of Cluster Autoscaler's
// flags (config/autoscaling_options.go, FAQ.md).
type Rules struct {
	// ScanInterval is the pause between two scans; it is for the caller.
	ScanInterval time.Duration
	// ScaleDownDelayAfterAdd is how long after a growth no node is removed,
	// ScaleDownDelayAfterFailure how long after a drain that failed.
	ScaleDownDelayAfterAdd, ScaleDownDelayAfterFailure time.Duration
	// ScaleDownUnneededTime is how long a node must be unneeded before it is
	// removed, ScaleDownUnreadyTime the same of a node that is not Ready.
	ScaleDownUnneededTime, ScaleDownUnreadyTime time.Duration
	// UnremovableNodeRecheckTimeout is how long a node whose pods can't move is
	// not looked at again.
	UnremovableNodeRecheckTimeout time.Duration
	// ScaleDownUtilizationThreshold: nodes whose requests per allocatable, of CPU
	// or of memory, whichever is larger, reach it are needed.
	ScaleDownUtilizationThreshold float64
	// MaxScaleDownParallelism nodes are removed at once (max-empty-bulk-delete in
	// old releases), MaxDrainParallelism of them with pods to evict.
	MaxScaleDownParallelism, MaxDrainParallelism int
	// MaxNodeProvisionTime is how long an instance may take to become a Ready
	// node before it is given up.
	MaxNodeProvisionTime time.Duration
	// MaxNodesPerScaleUp bounds one growth.
	MaxNodesPerScaleUp int32
	// InitialNodeGroupBackoff is how long a group that failed to grow is left
	// alone; doubled at each further failure up to MaxNodeGroupBackoff, forgotten
	// after NodeGroupBackoffReset.
	InitialNodeGroupBackoff, MaxNodeGroupBackoff, NodeGroupBackoffReset time.Duration
}

// DefaultRules are the flags' defaults. GKE's balanced profile keeps them; its
// optimize-utilization profile removes nodes sooner, which a shorter
// ScaleDownUnneededTime and a higher ScaleDownUtilizationThreshold express.
func DefaultRules() Rules {
	return Rules{
		ScanInterval:           10 * time.Second,
		ScaleDownDelayAfterAdd: 10 * time.Minute, ScaleDownDelayAfterFailure: 3 * time.Minute,
		ScaleDownUnneededTime: 10 * time.Minute, ScaleDownUnreadyTime: 20 * time.Minute,
		UnremovableNodeRecheckTimeout: 5 * time.Minute,
		ScaleDownUtilizationThreshold: 0.5,
		MaxScaleDownParallelism:       10, MaxDrainParallelism: 1,
		MaxNodeProvisionTime: 15 * time.Minute, MaxNodesPerScaleUp: 1000,
		InitialNodeGroupBackoff: 5 * time.Minute, MaxNodeGroupBackoff: 30 * time.Minute, NodeGroupBackoffReset: 3 * time.Hour,
	}
}

// durations are all of them by name.
func (r *Rules) durations() map[string]*time.Duration {
	return map[string]*time.Duration{
		"ScanInterval": &r.ScanInterval, "ScaleDownDelayAfterAdd": &r.ScaleDownDelayAfterAdd,
		"ScaleDownDelayAfterFailure": &r.ScaleDownDelayAfterFailure, "ScaleDownUnneededTime": &r.ScaleDownUnneededTime,
		"ScaleDownUnreadyTime": &r.ScaleDownUnreadyTime, "UnremovableNodeRecheckTimeout": &r.UnremovableNodeRecheckTimeout,
		"MaxNodeProvisionTime": &r.MaxNodeProvisionTime, "InitialNodeGroupBackoff": &r.InitialNodeGroupBackoff,
		"MaxNodeGroupBackoff": &r.MaxNodeGroupBackoff, "NodeGroupBackoffReset": &r.NodeGroupBackoffReset,
	}
}

// WithDefaults has the default for whatever is zero.
func (r Rules) WithDefaults() Rules {
	defaults := DefaultRules()
	from := defaults.durations()
	for name, d := range r.durations() {
		if *d == 0 {
			*d = *from[name]
		}
	}
	if r.ScaleDownUtilizationThreshold == 0 {
		r.ScaleDownUtilizationThreshold = defaults.ScaleDownUtilizationThreshold
	}
	if r.MaxScaleDownParallelism == 0 {
		r.MaxScaleDownParallelism = defaults.MaxScaleDownParallelism
	}
	if r.MaxDrainParallelism == 0 {
		r.MaxDrainParallelism = defaults.MaxDrainParallelism
	}
	if r.MaxNodesPerScaleUp == 0 {
		r.MaxNodesPerScaleUp = defaults.MaxNodesPerScaleUp
	}
	return r
}

// Faster has every duration divided by speed.
func (r Rules) Faster(speed float64) Rules {
	for _, d := range r.durations() {
		*d = time.Duration(float64(*d) / speed)
	}
	return r
}

// Validate tells what can't be.
func (r Rules) Validate() error {
	var errs []error
	for name, d := range r.durations() {
		if *d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v, must not be negative", name, *d))
		}
	}
	if !(r.ScaleDownUtilizationThreshold >= 0) {
		errs = append(errs, fmt.Errorf("ScaleDownUtilizationThreshold is %v, must not be negative", r.ScaleDownUtilizationThreshold))
	}
	if r.MaxScaleDownParallelism < 0 || r.MaxDrainParallelism < 0 || r.MaxNodesPerScaleUp < 0 {
		errs = append(errs, errors.New("MaxScaleDownParallelism, MaxDrainParallelism and MaxNodesPerScaleUp must not be negative"))
	}
	return errors.Join(errs...)
}
