package sensing

import (
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// Reasons of findings, for Events and conditions.
const (
	ReasonPrometheusUnreachable = "PrometheusUnreachable"
	ReasonPrometheusWarning     = "PrometheusWarning"
	ReasonMetricsAPIUnreachable = "ResourceMetricsUnreachable"
	ReasonNodeUsageUnread       = "NodeUsageUnread"
	ReasonCPULimitTooLow        = "CPULimitTooLow"
	ReasonNodeMemoryPressure    = "NodeMemoryPressure"
	ReasonPoolsUnreadable       = "PoolsUnreadable"
	ReasonWatchFailing          = "WatchFailing"
	ReasonDemandStale           = demand.ReasonStale
	ReasonDemandPartial         = demand.ReasonPartial
	ReasonImplausible           = demand.ReasonImplausible
	ReasonBackfilling           = "Backfilling"
	ReasonBackfillIncomplete    = "BackfillIncomplete"
	ReasonReadingPast           = "ReadingPast"
	ReasonUnknownNodeSpeed      = "UnknownNodeSpeed"
	ReasonQuota                 = "QuotaLimits"
	ReasonOtherCluster          = "PoolsOfAnotherCluster"
	ReasonNodesUnlabelled       = "PoolNodesUnlabelled"
	ReasonTriggerMissing        = api.ReasonTriggerMissing
	ReasonPodsRefused           = api.ReasonPodsRefused
	ReasonTargetPaused          = api.ReasonTargetPaused
	// ReasonNoScaledObject: KEDA should scale the target, and no HPA of KEDA's does.
	ReasonNoScaledObject = "NoScaledObject"
)

// Reasons why a workload is held.
const (
	// HoldInvalidSpec: the ManagedWorkload can't be read.
	HoldInvalidSpec = "InvalidSpec"
	// HoldUnsupportedTarget: the target is of a kind that can't be scaled.
	HoldUnsupportedTarget = "UnsupportedTarget"
	// HoldTargetMissing: the target doesn't exist.
	HoldTargetMissing = "TargetMissing"
	// HoldDuplicateTarget: an older ManagedWorkload has the same target.
	HoldDuplicateTarget = api.ReasonDuplicateTarget
	// HoldOwnDeployment: the target is what the operator itself runs in.
	HoldOwnDeployment = "OwnDeployment"
	// HoldConflict: somebody else scales the target, or sets the CPU requests
	// that its replicas are computed from.
	HoldConflict = api.ReasonConflict
	// HoldInvalidBounds: minReplicas, maxReplicas or targetUtilizationPercent
	// can't be.
	HoldInvalidBounds = "InvalidBounds"
	// HoldInvalidTrigger: a trigger can't be used as it is.
	HoldInvalidTrigger = "InvalidTrigger"
	// HoldNoRequests: the target's pods ask for no CPU.
	HoldNoRequests = "NoRequests"
	// HoldScaledToZero: the target has 0 replicas although it should have some:
	// somebody switched it off, as with an HPA.
	HoldScaledToZero = api.ReasonScaledToZero
	// HoldPanicked: looking at it panicked, which is a defect of mash2's.
	HoldPanicked = "SensingPanicked"
)
