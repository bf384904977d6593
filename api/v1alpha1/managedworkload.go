package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ManagedWorkload puts one workload under mash2's management.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:path=managedworkloads,singular=managedworkload,shortName=mw,scope=Namespaced,categories=all
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentReplicas`
// +kubebuilder:printcolumn:name="Planned",type=integer,JSONPath=`.status.plannedReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Skill",type=string,JSONPath=`.status.forecast.skill`
// +kubebuilder:printcolumn:name="Canary",type=string,JSONPath=`.status.canary.phase`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.status.policy`,priority=1
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.status.nodePool`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedWorkload struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the author wants.
	// +required
	Spec ManagedWorkloadSpec `json:"spec"`
	// status is what mash2 saw and planned in its last cycle.
	// +optional
	Status ManagedWorkloadStatus `json:"status,omitempty"`
}

// ManagedWorkloadList is a list of ManagedWorkloads.
//
// +kubebuilder:object:root=true
type ManagedWorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ManagedWorkload `json:"items"`
}

// ManagedWorkloadSpec is what the author of a ManagedWorkload wants.
//
// +kubebuilder:validation:XValidation:rule="(has(self.planner) && self.planner == 'rl') == has(self.model)",message="is for planner rl, which needs one",fieldPath=".model"
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must not be larger than maxReplicas",fieldPath=".minReplicas"
// +kubebuilder:validation:XValidation:rule="self.minReplicas > 0 || has(self.triggers) && self.triggers.exists(t, t.type in ['External','Object','Prometheus','Cron'])",message="0 needs a trigger of type External, Object, Prometheus or Cron, which can ask for the first replica",fieldPath=".minReplicas"
// +kubebuilder:validation:XValidation:rule="self.metric.type != 'None' || has(self.triggers) && size(self.triggers) > 0",message="None needs triggers",fieldPath=".metric.type"
// +kubebuilder:validation:XValidation:rule="!has(self.vertical) || has(self.countRequests) && self.countRequests == 'Template'",message="must be Template with vertical: agents change what pods request, and replicas would follow",fieldPath=".countRequests"
// +kubebuilder:validation:XValidation:rule="!has(self.vertical) || !has(self.sizing) || self.sizing.mode in ['Off','RecommendOnly']",message="must be Off or RecommendOnly with vertical: both would resize pods",fieldPath=".sizing"
type ManagedWorkloadSpec struct {
	// targetRef names what is scaled, in the same namespace. It can't be
	// changed: a ManagedWorkload for another target is another object.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef can't be changed: create another ManagedWorkload"
	TargetRef TargetRef `json:"targetRef"`

	// minReplicas is the least number of replicas; a policy may ask for more.
	// With 0 there are none while no trigger is active, where the policy's
	// scaleToZero allows it. Like maxReplicas it holds while no demand is known, too,
	// as an HPA's does.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the largest number of replicas. While pods move to other nodes
	// there may be a quarter more for a while, rounded up and at least one, and never
	// more than a ResourceQuota has room for.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxReplicas int32 `json:"maxReplicas"`

	// planner is the workload planner. With rl the model that model names asks for replicas,
	// never fewer than the reactive rule does, and within all limits; or it says what part
	// of its margin the workload needs.
	// +optional
	// +kubebuilder:default=horizontal
	Planner Planner `json:"planner,omitempty"`

	// model is the name of a learned model that the operator has, for planner rl. margins
	// comes with it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Model string `json:"model,omitempty"`

	// mode says how far mash2 goes: Off does not plan, Shadow plans and shows
	// but never writes, Canary acts for a share of the namespace's workloads in this
	// mode, and for all of them once those are proven to be no worse, Full acts.
	// +optional
	// +kubebuilder:default=Full
	Mode Mode `json:"mode,omitempty"`

	// actuator is who writes the target's replicas. KEDA: mash2 plans and never writes
	// them; a ScaledObject of KEDA asks mash2's external scaler for the planned number,
	// and the HorizontalPodAutoscaler that KEDA makes writes it.
	// +optional
	// +kubebuilder:default=mash2
	Actuator Actuator `json:"actuator,omitempty"`

	// metric is what demand is read from, besides triggers.
	// +optional
	// +kubebuilder:default={type: CPU}
	Metric Metric `json:"metric,omitempty,omitzero"`

	// triggers are further demand inputs: what they are, divided by their target
	// for one replica. At every time the input that asks for the most replicas
	// decides. While one can't be read, replicas don't go down.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Triggers []Trigger `json:"triggers,omitempty"`

	// slos are service level objectives of the workload. While one is not known to be
	// kept, replicas don't go down; when one burns since something was given up, the
	// whole plan is taken back.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	SLOs []SLO `json:"slos,omitempty"`

	// sizing says how far mash2 goes with what the workload's containers request. Absent:
	// nothing is chosen.
	// +optional
	Sizing *Sizing `json:"sizing,omitempty"`

	// vertical gives each running pod an agent that moves CPU between them. Absent: none.
	// +optional
	Vertical *Vertical `json:"vertical,omitempty"`

	// cooldownSeconds is how long no trigger must have been active before the
	// last replicas go, with minReplicas 0.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	CooldownSeconds *int32 `json:"cooldownSeconds,omitempty"`

	// countRequests says which CPU requests replicas are counted by. Pods: those
	// that the pods have. Template: those of the target's pod template, whatever
	// the pods have; with it a VerticalPodAutoscaler may set the pods' CPU
	// requests, which is a Conflict otherwise, because replicas and requests
	// would chase one another.
	// +optional
	// +kubebuilder:default=Pods
	CountRequests CountRequests `json:"countRequests,omitempty"`

	// targetUtilizationPercent is the planned expected usage of the metric, in
	// percent of the replicas' requests. It overrides the policy's target.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	TargetUtilizationPercent *int32 `json:"targetUtilizationPercent,omitempty"`

	// behavior limits how fast replicas change, with the meaning and the
	// defaults of spec.behavior of a HorizontalPodAutoscaler.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleUp) || !has(self.scaleUp.stabilizationWindowSeconds) || (self.scaleUp.stabilizationWindowSeconds >= 0 && self.scaleUp.stabilizationWindowSeconds <= 3600)",message="must be between 0 and 3600",fieldPath=".scaleUp.stabilizationWindowSeconds"
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleDown) || !has(self.scaleDown.stabilizationWindowSeconds) || (self.scaleDown.stabilizationWindowSeconds >= 0 && self.scaleDown.stabilizationWindowSeconds <= 3600)",message="must be between 0 and 3600",fieldPath=".scaleDown.stabilizationWindowSeconds"
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleUp) || !has(self.scaleUp.selectPolicy) || self.scaleUp.selectPolicy in ['Max','Min','Disabled']",message="must be Max, Min or Disabled",fieldPath=".scaleUp.selectPolicy"
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleDown) || !has(self.scaleDown.selectPolicy) || self.scaleDown.selectPolicy in ['Max','Min','Disabled']",message="must be Max, Min or Disabled",fieldPath=".scaleDown.selectPolicy"
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleUp) || !has(self.scaleUp.policies) || (size(self.scaleUp.policies) <= 16 && self.scaleUp.policies.all(p, p.type in ['Pods','Percent'] && p.value > 0 && p.periodSeconds > 0 && p.periodSeconds <= 1800))",message="at most 16 policies, each of type Pods or Percent, with a value above 0 and periodSeconds between 1 and 1800",fieldPath=".scaleUp.policies"
	// +kubebuilder:validation:XValidation:rule="!has(self.scaleDown) || !has(self.scaleDown.policies) || (size(self.scaleDown.policies) <= 16 && self.scaleDown.policies.all(p, p.type in ['Pods','Percent'] && p.value > 0 && p.periodSeconds > 0 && p.periodSeconds <= 1800))",message="at most 16 policies, each of type Pods or Percent, with a value above 0 and periodSeconds between 1 and 1800",fieldPath=".scaleDown.policies"
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// TargetRef names an object with a scale subresource.
type TargetRef struct {
	// apiVersion of the target, such as apps/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9][a-z0-9]*$`
	APIVersion string `json:"apiVersion"`
	// kind of the target, such as Deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*$`
	Kind string `json:"kind"`
	// name of the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Planner names a workload planner.
//
// +kubebuilder:validation:Enum=horizontal;rl
type Planner string

// The planners: by forecasts and the reactive rule, or by a model that was learned.
const (
	PlannerHorizontal Planner = "horizontal"
	PlannerLearned    Planner = "rl"
)

// Mode says how far mash2 goes for a workload.
//
// +kubebuilder:validation:Enum=Off;Shadow;Canary;Full
type Mode string

// The modes; the same words as in package api.
const (
	ModeOff    Mode = "Off"
	ModeShadow Mode = "Shadow"
	ModeCanary Mode = "Canary"
	ModeFull   Mode = "Full"
)

// Actuator is who writes a target's replicas.
//
// +kubebuilder:validation:Enum=mash2;KEDA
type Actuator string

// The actuators; the same words as in package api.
const (
	ActuatorMash2 Actuator = "mash2"
	ActuatorKEDA  Actuator = "KEDA"
)

// CountRequests says which CPU requests replicas are counted by.
//
// +kubebuilder:validation:Enum=Pods;Template
type CountRequests string

// The requests that replicas can be counted by.
const (
	CountPods     CountRequests = "Pods"
	CountTemplate CountRequests = "Template"
)

// Metric is what demand is read from.
type Metric struct {
	// type is the kind of metric. CPU is the CPU usage of all the workload's
	// pods together; None leaves demand to the triggers.
	// +optional
	// +kubebuilder:default=CPU
	Type MetricType `json:"type,omitempty"`
}

// MetricType is a kind of metric.
//
// +kubebuilder:validation:Enum=CPU;None
type MetricType string

// Kinds of metrics: the CPU usage of a workload's pods, or nothing of it.
const (
	MetricCPU  MetricType = "CPU"
	MetricNone MetricType = "None"
)

// ConditionReady is True while mash2 plans the workload from fresh data; its
// reason names the constraint that decided the plan, or why there is none.
const ConditionReady = "Ready"

// ConditionMovable is False while workloads are not moved to the node pool that
// the policy wants; its reason and message say what forbids it, with names. It
// is absent where nodes are not managed. The reason Conflict is a pool that
// somebody else resizes.
const ConditionMovable = "Movable"

// ConditionPolicyAccepted is False while the policy ConfigMap can't be used as
// it is, and says which field; the last good policy stays in force.
const ConditionPolicyAccepted = "PolicyAccepted"

// ConditionPromoted is of workloads in mode Canary: True once their trial is passed,
// False after it was stopped, and Unknown before either; its message says what the trial
// waits for, or why it ended.
const ConditionPromoted = "Promoted"

// NodePoolShare is how many of a workload's replicas should run on a node pool.
type NodePoolShare struct {
	// name of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// replicas that should run there.
	// +required
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
}

// Placement is the node pool that new pods of a workload prefer.
type Placement struct {
	// nodePool that they prefer.
	// +required
	// +kubebuilder:validation:MinLength=1
	NodePool string `json:"nodePool"`
	// since is when they began to.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// ManagedWorkloadStatus is what mash2 saw and planned in its last cycle.
type ManagedWorkloadStatus struct {
	// observedGeneration is the generation of the spec that was planned.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions; Ready is True while the workload is planned from fresh data,
	// PolicyAccepted while the policy ConfigMap can be used as it is.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// currentReplicas is spec.replicas of the target as seen.
	// +optional
	CurrentReplicas *int32 `json:"currentReplicas,omitempty"`
	// readyReplicas are the target's pods that are Ready and not terminating.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
	// plannedReplicas are wanted now. Where KEDA scales, they don't go down while data are
	// missing.
	// +optional
	PlannedReplicas *int32 `json:"plannedReplicas,omitempty"`
	// forecast that the plan was made with; absent when it is reactive.
	// +optional
	Forecast *ForecastStatus `json:"forecast,omitempty"`
	// triggers, in the order of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	Triggers []TriggerStatus `json:"triggers,omitempty"`
	// slos, in the order of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	SLOs []SLOStatus `json:"slos,omitempty"`
	// canary is the trial of the namespace's workloads in mode Canary; absent where there
	// is none.
	// +optional
	Canary *CanaryStatus `json:"canary,omitempty"`
	// sizing is what is chosen for the workload's containers; absent where nothing is.
	// +optional
	Sizing *SizingStatus `json:"sizing,omitempty"`
	// vertical is what the agents of the workload's pods do; absent where there are none.
	// +optional
	Vertical *VerticalStatus `json:"vertical,omitempty"`
	// policy that was active.
	// +optional
	Policy string `json:"policy,omitempty"`
	// nodePools that the planned replicas should run on, with how many on each;
	// absent when nodes are not managed.
	// +optional
	// +listType=map
	// +listMapKey=name
	NodePools []NodePoolShare `json:"nodePools,omitempty"`
	// nodePool is the same where there is one pool. Deprecated: read nodePools; it
	// goes with the next version of this API.
	// +optional
	NodePool string `json:"nodePool,omitempty"`
	// placement is the node pool that new pods prefer, which an admission policy gives them;
	// absent where all workloads are on one pool.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
	// reason says in a sentence why this many replicas are planned.
	// +optional
	Reason string `json:"reason,omitempty"`
	// takenOver is the UID of the target whose replicas mash2 has taken over from
	// whoever set them before; from then on somebody else's claim to them is a
	// Conflict. Absent before the first scaling, and while the mode is not Full.
	// +optional
	TakenOver types.UID `json:"takenOver,omitempty"`
	// lastCycleTime is when the status last changed in anything but time, or
	// was confirmed.
	// +optional
	LastCycleTime *metav1.Time `json:"lastCycleTime,omitempty"`
}

// ForecastStatus sums a forecast up. Numbers that are not whole are strings,
// as the API conventions ask.
type ForecastStatus struct {
	// model that forecasts.
	// +optional
	Model string `json:"model,omitempty"`
	// peak demand over the horizon at the policy's quantile, in cores of the
	// reference machine, such as "1.85".
	// +optional
	Peak string `json:"peak,omitempty"`
	// season is the main period that was found, such as 5m0s or 24h0m0s.
	// +optional
	Season *metav1.Duration `json:"season,omitempty"`
	// skill is 1 − loss/loss of the last value over recent forecasts, such as
	// "0.84": 1 is perfect, 0 no better than the last value. Absent until there
	// were enough of them. It is shown of a forecast that may not act, too.
	// +optional
	Skill string `json:"skill,omitempty"`
	// seasonalSkill is 1 − error/error of what was a season before; absent
	// without a season.
	// +optional
	SeasonalSkill string `json:"seasonalSkill,omitempty"`
	// coverage is the share of what came, such as "0.91", that was within the 90 %
	// interval of its forecast; absent until there was enough.
	// +optional
	Coverage string `json:"coverage,omitempty"`
	// trust is what the forecast may do: none, up (raise replicas) or full
	// (lower them as well).
	// +optional
	Trust string `json:"trust,omitempty"`
	// licence is the same. Deprecated: read trust; it goes with the next version of
	// this API.
	// +optional
	Licence string `json:"licence,omitempty"`
}
