package api

import (
	"fmt"
	"strings"
	"time"
)

// Snapshot is everything one cycle knows of the world. Pure code reads time
// from it and from nowhere else.
type Snapshot struct {
	Time      time.Time
	Workloads []Workload         // in order of key
	Pods      []Pod              // every pod that is not finished, in order of namespace, name
	Nodes     []Node             // in order of name
	Pools     []Pool             // in order of name; empty when there is no provider
	Budgets   []DisruptionBudget // PodDisruptionBudgets, in order of key
	// PodStartup is how long a new replica takes from the scale call to Ready
	// when a node has room; measured over all workloads.
	PodStartup StartupLatency
	// Metrics tells how the demand source is.
	Metrics SourceHealth
	// ResourceMetrics tells how metrics.k8s.io is.
	ResourceMetrics SourceHealth
	// Unproven is not empty while pods, nodes or budgets may not be as the snapshot
	// has them, and says which and why: then nothing is done that can't be undone.
	Unproven string
	// Context is what the policy is chosen by, besides the time.
	Context Context `json:",omitzero"`
	// Findings are what the sensors noticed that somebody should know.
	Findings []Finding
}

// SourceHealth is the state of a source of measurements.
type SourceHealth struct {
	Reachable bool
	LastOK    time.Time // last successful answer; zero if never
	Error     string    // of the last failure; empty when it answered last
}

// StartupLatency is measured: how long something new takes to become Ready, with its sample count.
type StartupLatency struct {
	P50, P90 time.Duration
	// Samples behind the figures; with 0 they are the configured prior.
	Samples int
}

// Mode says how far mash2 goes for a workload.
type Mode string

// The modes.
const (
	ModeOff    Mode = "Off"    // not planned
	ModeShadow Mode = "Shadow" // planned and shown, never written
	// ModeCanary: one of those that are tried; whether it is acted for is in its plan.
	ModeCanary Mode = "Canary"
	ModeFull   Mode = "Full"
)

// Actuator is who writes a workload's replicas.
type Actuator string

// ActuatorKEDA is KEDA, which asks for the plan. The empty Actuator is mash2.
const ActuatorKEDA Actuator = "KEDA"

// TargetRef is what a ManagedWorkload scales, in its own namespace.
type TargetRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// Workload is a ManagedWorkload together with what it points at.
type Workload struct {
	Key        Key // of the ManagedWorkload
	UID        string
	Generation int64
	Target     TargetRef
	Mode       Mode
	Planner    string // "horizontal" or "rl"
	// Model is the name of the model that planner rl decides by.
	Model string `json:",omitempty"`
	// Actuator is who writes its replicas.
	Actuator Actuator `json:",omitempty"`
	// MinReplicas and MaxReplicas are the author's bounds. With a minimum of 0
	// some trigger Activates.
	MinReplicas, MaxReplicas int32
	// AuthorMax is the author's MaxReplicas where a strategy has lowered it; 0 where none has.
	AuthorMax int32 `json:",omitempty"`
	// OnlyPools are those of the policy's pools that a strategy leaves open for this
	// workload, in the policy's order; nil for all of them.
	OnlyPools []string `json:",omitempty"`
	// PlacedOn is the pool that its new pods are seen to prefer, by its status, and
	// PlacedSince since when; empty where they prefer none.
	PlacedOn    string    `json:",omitempty"`
	PlacedSince time.Time `json:",omitzero"`
	// QuotaReplicas is how many replicas the quotas of its namespace have room for,
	// with those there are; 0 without a quota that counts them.
	QuotaReplicas int32
	// Cooldown is how long no trigger must have been active before the last
	// replica goes.
	Cooldown time.Duration
	Behavior Behavior
	// TargetUtilization overrides the policy's when positive.
	TargetUtilization float64

	// Replicas is spec.replicas of the target now, ReadyReplicas those of its
	// pods that are Ready and not terminating.
	Replicas, ReadyReplicas int32
	// PlannedReplicas is what the last published plan wanted; 0 if none is
	// known. It outlives the operator, and so tells the replicas wanted from
	// those that a migration added for a while.
	PlannedReplicas int32
	// Shape is what the next replica asks of a node. Those there are may differ:
	// see their pods.
	Shape *PodShape
	// Basis is the request, millicores, by which replicas are counted instead of
	// their own, because somebody who looks at their usage sets that (a
	// VerticalPodAutoscaler): planned from it, replicas and requests would chase
	// one another. 0: their own.
	Basis int64
	// RollingOut is true while the target is replacing its pods.
	RollingOut bool
	// FirstOrdinal is the number of a StatefulSet's first pod (spec.ordinals.start).
	FirstOrdinal int32 `json:",omitempty"`
	// Sizing is what the sizes of its containers are chosen by; nil where they are its
	// author's.
	Sizing *Sizing `json:",omitempty"`

	// Agents of its pods, as its author wants them; nil without.
	Agents *Agents `json:",omitempty"`

	// Demand is CPU usage of all pods together in *reference* millicores:
	// measured millicores × the CPUSpeed of the node they ran on, so that it
	// does not change when pods move to another machine type.
	Demand Series
	// DemandStale is true when the newest sample of Demand is too old, or the
	// newest part is too full of gaps, to act on. Then replicas never go down.
	DemandStale bool
	// IgnoreCPU is true when CPU usage is no demand input of this workload.
	IgnoreCPU bool
	// Triggers are the other demand inputs, in the author's order; the largest
	// demand counts.
	Triggers []Trigger
	// SLOs are the objectives that its author named, in order.
	SLOs []SLO
	// Usage is the CPU usage in reference millicores from metrics.k8s.io, the
	// second source of Demand. Nil when it has nothing fresh for this workload.
	Usage *Usage
	// SpeedNow is the mean CPUSpeed of the nodes the ready pods run on, 1 if
	// not known.
	SpeedNow float64
	// PodStartup is the Snapshot's of this workload's own pods; without samples, nothing is known.
	PodStartup StartupLatency `json:",omitzero"`

	// LastScaled is when spec.replicas last changed, and by whom.
	LastScaled   time.Time
	LastScaledBy string
	// SafetyNet is the field manager of the workload's safety net; empty without
	// one. Replicas that it has set are taken back without a question.
	SafetyNet string
	// Hold is not empty when this workload must not be acted on, and says why:
	// a conflict, a missing target, a target without requests.
	Hold       string
	HoldReason string // CamelCase, for conditions and Events

	// Contested is, of a workload in mode Canary, who else sets its replicas; empty for
	// nobody. Then mash2 doesn't act for it.
	Contested string `json:",omitempty"`
	// HandedOver is true, of one in mode Canary, when its replicas are mash2's: nobody
	// else would change them.
	HandedOver bool `json:",omitempty"`
	// CanaryRestarted is when a person asked for another trial; zero for never.
	CanaryRestarted time.Time `json:",omitzero"`
}

// Usage is a reading of metrics.k8s.io for a workload.
type Usage struct {
	At       time.Time     // newest window end
	Window   time.Duration // the averaging window
	MilliCPU float64       // reference millicores, over the pods counted
	Pods     int32         // pods that had a reading
}

// Behavior limits the change of replicas, with the meaning that users know
// from autoscaling/v2's spec.behavior.
type Behavior struct {
	ScaleUp, ScaleDown ScalingRules
	// Tolerance is the relative deviation of wanted from current replicas that
	// is ignored, 0–1.
	Tolerance float64
}

// ScalingRules of one direction.
type ScalingRules struct {
	// StabilizationWindow: the most conservative recommendation of this window
	// is taken.
	StabilizationWindow time.Duration
	Policies            []ScalingPolicy // none: unlimited
	SelectPolicy        string          // Max (default), Min or Disabled
	// WindowStated is true when the author stated StabilizationWindow, so that
	// 0 means none instead of the default. A window above 0 counts as stated.
	WindowStated bool
}

// ScalingPolicy allows Value pods or percent of change per Period.
type ScalingPolicy struct {
	Type   string // Pods or Percent
	Value  int32
	Period time.Duration
}

// PodShape is what placing a pod depends on. Pods of one template share one
// PodShape value; equal shapes have equal IDs.
type PodShape struct {
	// ID is a hash over all other fields.
	ID string
	// Requests by the scheduler's rules: max(sum of containers and sidecars,
	// init containers) + overhead; Pods is 1.
	Requests Resources
	// LimitCPU is what one pod may use at most, millicores; 0 without a limit.
	LimitCPU     int64
	NodeSelector map[string]string
	// Affinity is requiredDuringScheduling node affinity: a node must match
	// one of the terms, each term's requirements all. Nil matches every node.
	Affinity    []NodeTerm
	Tolerations []Toleration
	// HostPorts and pod anti-affinity as far as they limit copies: the maximum of
	// copies of this shape on one node, 0 unlimited.
	MaxPerNode int32
	// MaxPerZone is the same of one zone. ZoneSkew is by how many the copies in two
	// zones may differ, by topology spread that must be kept; 0 unlimited.
	MaxPerZone int32
	ZoneSkew   int32
	// Unheeded names a rule of the scheduler that the pod is under and that the
	// fields above don't hold; empty if there is none.
	Unheeded string `json:",omitempty"`
}

// NodeTerm is one nodeSelectorTerm.
type NodeTerm struct {
	Labels []NodeRequirement
	Names  []NodeRequirement // matchFields on metadata.name
}

// NodeRequirement is a label requirement: In, NotIn, Exists, DoesNotExist, Gt, Lt.
type NodeRequirement struct {
	Key      string
	Operator string
	Values   []string
}

// Toleration of a taint, as in core/v1; an empty Operator means Equal.
type Toleration struct {
	Key, Operator, Value, Effect string
}

// Taint on a node, as in core/v1.
type Taint struct {
	Key, Value, Effect string
}

// Pod is what the cycle knows of a pod.
type Pod struct {
	Key     Key
	UID     string
	Shape   *PodShape
	Node    string // empty while pending
	Phase   string // Pending or Running
	Ready   bool
	Created time.Time
	ReadyAt time.Time // zero if not Ready
	// UnreadySince is since when it has not been Ready; zero if it is, or that is not known.
	UnreadySince time.Time `json:",omitzero"`
	// Workload is the key of the ManagedWorkload it belongs to, zero if none.
	Workload Key
	// ControllerKind and ControllerName of the controlling owner; empty for a
	// bare pod.
	ControllerKind, ControllerName string
	DaemonSet                      bool
	Mirror                         bool // static pod
	Terminating                    bool
	Unschedulable                  bool // the scheduler found no node
	// Gated tells that a scheduling gate holds it back: the scheduler does not look at it.
	Gated bool `json:",omitempty"`
	// DeletionCost is the pod-deletion-cost annotation, 0 if absent;
	// DeletionCostOurs tells that mash2 set it.
	DeletionCost     int32
	DeletionCostOurs bool
	// DoNotDisrupt is not empty when an annotation or local storage forbids
	// moving it; it names what.
	DoNotDisrupt string
	// Unheeded names a rule of the scheduler that its shape holds for its copies only, while
	// there are other pods that the rule is about, too; empty if there is none.
	Unheeded string `json:",omitempty"`
	// Budgets are the names of the PodDisruptionBudgets of its namespace that
	// select it, in order.
	Budgets []string
	// Zones that its volumes can be reached from, in order; nil when none of
	// them is bound to a zone. Empty but not nil: there is no such zone.
	Zones []string
	// Size is what its containers ask for, Resize how far its kubelet is with that, and
	// ResizeMessage what the kubelet says; nil and empty where its workload's sizes are
	// its author's.
	Size          *PodSize    `json:",omitempty"`
	Resize        ResizeState `json:",omitempty"`
	ResizeMessage string      `json:",omitempty"`
	// Held is the size that its kubelet gives it, where that is never to be what it asks for.
	Held *PodSize `json:",omitempty"`
	// Sized tells that mash2 gave it another size than its template's, when it was admitted or
	// since, and nobody else has resized it.
	Sized bool `json:",omitempty"`
	// Resized tells that it asks for other amounts than when it was made.
	Resized bool `json:",omitempty"`
	// KilledAgain tells that a container of it, which had been started again before, was killed for
	// its memory and does not run now.
	KilledAgain bool `json:",omitempty"`
}

// DisruptionBudget is a PodDisruptionBudget and what its controller says of it.
type DisruptionBudget struct {
	Key Key
	// MinAvailable and MaxUnavailable as their author wrote them; at most one
	// is there.
	MinAvailable, MaxUnavailable *Amount
	// Healthy pods now, Desired ones at least, and how many evictions are
	// Allowed now, all as in the status. Stale is true while the status is of
	// another spec or missing; evictions are refused meanwhile.
	Healthy, Desired, Allowed int32
	Stale                     bool
	// UnhealthyAlways is unhealthyPodEvictionPolicy AlwaysAllow: pods that run and
	// are not Ready may go whatever the status says.
	UnhealthyAlways bool
}

// Amount of pods, or percent of them.
type Amount struct {
	Value   int32
	Percent bool
}

// String is as in a manifest: 3 or 50%.
func (a Amount) String() string {
	if a.Percent {
		return fmt.Sprintf("%d%%", a.Value)
	}
	return fmt.Sprint(a.Value)
}

// String is the budget's name with what it says.
func (b DisruptionBudget) String() string {
	switch {
	case b.MaxUnavailable != nil:
		return fmt.Sprintf("%s (maxUnavailable %s)", b.Key, b.MaxUnavailable)
	case b.MinAvailable != nil:
		return fmt.Sprintf("%s (minAvailable %s)", b.Key, b.MinAvailable)
	}
	return b.Key.String()
}

// Node is what the cycle knows of a node.
type Node struct {
	Name        string
	Pool        string // name of its pool, empty if none
	Zone        string
	ProviderID  string
	Labels      map[string]string
	Taints      []Taint // without the unschedulable taint of a cordon
	Allocatable Resources
	Ready       bool
	// MemoryPressure tells that its kubelet evicts pods, as the machine is short of memory.
	MemoryPressure bool `json:",omitempty"`
	Cordoned       bool
	// CordonedFor is the value of AnnotationCordonedFor; empty if the cordon is
	// not ours.
	CordonedFor string
	// CordonedAt is when mash2 cordoned it; zero if not told.
	CordonedAt time.Time
	// DoNotDisrupt names the annotation that forbids removing it; empty if there is none.
	DoNotDisrupt string `json:",omitempty"`
	// Lifted tells that mash2 once cordoned it, as its annotations say, and that somebody
	// else has taken that cordon back.
	Lifted bool `json:",omitempty"`
	// GaveUp is the pool that a move from this node was given up to, and
	// GaveUpAt when; empty if none was.
	GaveUp   string
	GaveUpAt time.Time
	Created  time.Time
	ReadyAt  time.Time
	// UnreadyAt is since when it is not Ready; zero if it is, or if that isn't told.
	UnreadyAt time.Time `json:",omitzero"`
}

// Pool is a set of identical nodes that can be resized.
type Pool struct {
	Name        string
	MachineType string
	// Zones the pool spans, in order of name; its size is per zone.
	Zones []string
	// Sizes is the target size per zone that the provider holds, parallel to
	// Zones: what was asked for, booted or not.
	Sizes []int32
	// MinPerZone and MaxPerZone bound what may be asked for; MaxPerZone 0 is
	// unlimited.
	MinPerZone, MaxPerZone int32
	// Autoscaled is true when somebody else resizes the pool, such as the provider
	// itself: then mash2 does not.
	Autoscaled bool
	// AutoscaledBy names who resizes it where that is somebody else; empty where
	// nobody does.
	AutoscaledBy string
	// Hold is not empty when the pool may not be resized now and says why:
	// an operation in flight, an upgrade, a repair.
	Hold string
	// Error is the last failure of a resize: quota, stockout; empty if none.
	Error *PoolError
	// ResizedAt is when the newest resize began, at the earliest, or since when a node is
	// missing that the pool has had since then; zero if not told.
	ResizedAt time.Time
	// Allocatable of one fresh node, and Overhead: what DaemonSets and static
	// pods take of it.
	Allocatable, Overhead Resources
	// Cores of one node that pods can use together, millicores: its capacity, of which
	// Allocatable may be requested. 0 if not known.
	Cores int64
	// StandingUsage is the CPU that three of four of its Ready nodes use no more than
	// beside the pods that are placed one by one: what DaemonSets, static pods and the
	// kubelet use, millicores. Nil if not read.
	StandingUsage *float64
	Labels        map[string]string
	Taints        []Taint
	Price         float64 // USD per node and hour
	// Spot machines may be taken away by their provider at any time, each this often:
	// Interruptions per node and hour.
	Spot          bool    `json:",omitempty"`
	Interruptions float64 `json:",omitempty"`
	// CPUSpeed is the work one core does per second relative to a core of the
	// reference machine (n2).
	CPUSpeed float64
	// NodeStartup is how long a node takes from the resize call to Ready; measured.
	NodeStartup StartupLatency
	// ResizeOnly is true when the provider lets mash2 resize the pool but not
	// remove a node of its choice: then the provider chooses which ones go.
	ResizeOnly bool
	// Deleting names the nodes whose instances the provider is deleting, in
	// order of name: they may still be Ready, and hold nothing for long.
	Deleting []string
}

// Nodes is the target size over all zones.
func (p Pool) Nodes() int32 {
	var n int32
	for _, s := range p.Sizes {
		n += s
	}
	return n
}

// PoolErrorKind classifies why a pool can't have the size asked for.
type PoolErrorKind string

// Kinds of pool errors.
const (
	PoolQuota    PoolErrorKind = "Quota"
	PoolStockout PoolErrorKind = "Stockout"
	PoolOther    PoolErrorKind = "Error"
)

// PoolError is a failed resize as the provider reported it.
type PoolError struct {
	Kind    PoolErrorKind
	Message string
	At      time.Time
}

// FindingSeverity orders findings.
type FindingSeverity string

// Severities; they map to Kubernetes Event types.
const (
	Normal  FindingSeverity = "Normal"
	Warning FindingSeverity = "Warning"
)

// ReasonConflict of a finding: somebody else writes what mash2 would write, and
// mash2 doesn't.
const ReasonConflict = "Conflict"

// ReasonTargetPaused of a finding: a Deployment is paused, and what is missing of it
// may be missing therefore.
const ReasonTargetPaused = "TargetPaused"

// ReasonDuplicateTarget of a hold: an older ManagedWorkload has the same target. One
// that is held so has no pods of its own.
const ReasonDuplicateTarget = "DuplicateTarget"

// ReasonScaledToZero of a hold: the target has 0 replicas, as somebody switched it off, for
// good or for the night.
const ReasonScaledToZero = "ScaledToZero"

// ReasonPodsRefused of a finding: pods of a workload's target are not let in, by a
// LimitRange, a ResourceQuota, a pod security standard or a webhook.
const ReasonPodsRefused = "PodsRefused"

// Reasons of a Ready that is false while data are missing.
const (
	ReasonDemandStale    = "DemandStale"
	ReasonTriggerMissing = "TriggerMissing"
)

// PlanStands reports whether a plan is to be carried out although Ready is false for such a
// reason: it may raise replicas and does not lower them.
func PlanStands(reason string) bool {
	switch reason {
	case ReasonDemandStale, ReasonTriggerMissing, ReasonTargetPaused, ReasonPodsRefused:
		return true
	}
	return false
}

// Finding is something the user should see: an Event, a condition, a log line.
type Finding struct {
	Severity FindingSeverity `json:"severity"`
	Agent    Agent           `json:"agent,omitempty"`
	Reason   string          `json:"reason"` // CamelCase
	Object   ObjectRef       `json:"object,omitzero"`
	Message  string          `json:"message"`
}

// String is "Reason object: message".
func (f Finding) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s", f.Reason, f.Object, f.Message))
}
