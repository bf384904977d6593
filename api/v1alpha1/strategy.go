package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Strategy is a rule of its author's own: what to look at, when, and what to do about it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:path=strategies,singular=strategy,scope=Namespaced
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Strategy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the author wants.
	// +required
	Spec StrategySpec `json:"spec"`
	// status is what mash2 made of it in its last cycle.
	// +optional
	Status StrategyStatus `json:"status,omitempty"`
}

// StrategyList is a list of Strategies.
//
// +kubebuilder:object:root=true
type StrategyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Strategy `json:"items"`
}

// StrategySpec is what the author of a Strategy wants.
//
// +kubebuilder:validation:XValidation:rule="has(self.rules) && size(self.rules) > 0 || has(self.choose) || has(self.learn) || has(self.outputs) && size(self.outputs) > 0",message="needs rules, choose, learn or outputs"
type StrategySpec struct {
	// mode says how far mash2 goes: Off reads nothing, Shadow decides and shows, Full acts.
	// +optional
	// +kubebuilder:default=Full
	Mode Mode `json:"mode,omitempty"`
	// priority of the strategy. Where two want different things of the same, the one with
	// the larger number wins; of equals the one that comes first by namespace and name.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`
	// timeZone of hour, minute and weekday in expressions: an IANA name; UTC if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// sensors are what is looked at. Expressions know each by its name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Sensors []Sensor `json:"sensors,omitempty"`
	// rules turn on and off, and act while they are on.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Rules []Rule `json:"rules,omitempty"`
	// choose moves to the best of several candidates, if moving is worth it.
	// +optional
	Choose *Choose `json:"choose,omitempty"`
	// learn finds out which policy earns most in which context.
	// +optional
	Learn *Learn `json:"learn,omitempty"`
	// outputs are numbers in CEL, by name, that sensors of other strategies read.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Outputs map[string]Expression `json:"outputs,omitempty"`
}

// Expression in CEL. It knows the sensors by name, now, hour, minute, weekday (0 is Sunday)
// and policy, and may cost 10,000 units.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=2048
type Expression string

// Sensor is one thing that is looked at.
//
// +kubebuilder:validation:XValidation:rule="(has(self.prometheus) ? 1 : 0) + (has(self.http) ? 1 : 0) + (has(self.object) ? 1 : 0) + (has(self.strategy) ? 1 : 0) == 1",message="must have one of prometheus, http, object and strategy"
type Sensor struct {
	// name by which expressions know it.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][A-Za-z0-9]*$`
	Name string `json:"name"`
	// prometheus is a query, which sees the series of the strategy's namespace and no others.
	// +optional
	Prometheus *PrometheusTrigger `json:"prometheus,omitempty"`
	// http is a number in an answer in JSON, of a host that mash2's owner allowed.
	// +optional
	HTTP *HTTPSource `json:"http,omitempty"`
	// object is a number in a Kubernetes object of the strategy's namespace.
	// +optional
	Object *ObjectSource `json:"object,omitempty"`
	// strategy is an output of another strategy in the same namespace, as of the last cycle.
	// +optional
	Strategy *StrategyOutput `json:"strategy,omitempty"`
	// when it is read. Absent: in every cycle.
	// +optional
	When *When `json:"when,omitempty"`
	// staleAfter is the age from which a reading counts no more. Default: three times the
	// interval that it is read at, a minute at least; with date or cron, never.
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// HTTPSource is asked with GET, without credentials; redirects are not followed.
type HTTPSource struct {
	// url of scheme http or https. mash2's owner must have allowed its host.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@]+([/?][^#]*)?$`
	URL string `json:"url"`
	// jsonPath of the number in the answer, such as {.price.perHour}.
	// +required
	JSONPath JSONPath `json:"jsonPath"`
}

// ObjectSource is read with mash2's rights. Its author must have the right to get it, too.
//
// +kubebuilder:validation:XValidation:rule="self.resource != 'secrets'",message="no numbers of secrets: use a ConfigMap"
type ObjectSource struct {
	// group of the resource; empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// version of the resource.
	// +optional
	// +kubebuilder:default=v1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`
	// resource in its plural, such as configmaps.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z][-a-z0-9]*$`
	Resource string `json:"resource"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// jsonPath of the number, such as {.data.visitors}.
	// +required
	JSONPath JSONPath `json:"jsonPath"`
}

// JSONPath as kubectl knows it, without recursive descent, range and unions. What it finds must be
// one number, also as text such as 500m, or true (1) or false (0).
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type JSONPath string

// StrategyOutput names an output.
type StrategyOutput struct {
	// name of the other strategy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// output of it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Output string `json:"output"`
}

// When says at what times a sensor is read.
//
// +kubebuilder:validation:XValidation:rule="(has(self.interval) ? 1 : 0) + (has(self.date) ? 1 : 0) + (has(self.cron) ? 1 : 0) + (has(self.allOf) ? 1 : 0) + (has(self.anyOf) ? 1 : 0) == 1",message="must have one of interval, date, cron, allOf and anyOf"
type When struct {
	At `json:",inline"`
	// allOf: when each of them has come since the last reading.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	AllOf []At `json:"allOf,omitempty"`
	// anyOf: when one of them comes.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	AnyOf []At `json:"anyOf,omitempty"`
}

// At is one kind of time.
type At struct {
	// interval: again and again.
	// +optional
	Interval *Interval `json:"interval,omitempty"`
	// date: once.
	// +optional
	Date *metav1.Time `json:"date,omitempty"`
	// cron: at the times of an expression.
	// +optional
	Cron *Cron `json:"cron,omitempty"`
}

// Interval is from reading to reading.
//
// +kubebuilder:validation:XValidation:rule="(!has(self.start) || self.start.getFullYear() >= 1970 && self.start.getFullYear() < 2200) && (!has(self.end) || self.end.getFullYear() >= 1970 && self.end.getFullYear() < 2200)",message="start and end must be in the years 1970 to 2199"
type Interval struct {
	// every is how long, a second at least.
	// +required
	Every metav1.Duration `json:"every"`
	// jitter delays each reading by less than this, so that many sensors don't ask at once.
	// +optional
	Jitter metav1.Duration `json:"jitter,omitempty,omitzero"`
	// start is from when on it is read, in the years 1970 to 2199.
	// +optional
	Start *metav1.Time `json:"start,omitempty"`
	// end is until when it is read, in the years 1970 to 2199.
	// +optional
	End *metav1.Time `json:"end,omitempty"`
}

// Cron is an expression of five fields.
type Cron struct {
	// schedule of five fields.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`
	// timeZone is an IANA name; UTC if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// Rule acts while it is on.
type Rule struct {
	// name of the rule.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// when turns it on: CEL that gives true or false.
	// +required
	When Expression `json:"when"`
	// until turns it off again. Default: as soon as when is false.
	// +optional
	Until Expression `json:"until,omitempty"`
	// for is how long when, or until, must be true without a break.
	// +optional
	For metav1.Duration `json:"for,omitempty,omitzero"`
	// minStay is how long the rule stays on, and then off, at least.
	// +optional
	MinStay metav1.Duration `json:"minStay,omitempty,omitzero"`
	// actions while it is on.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Actions []StrategyAction `json:"actions"`
}

// StrategyAction is what a rule does.
//
// +kubebuilder:validation:XValidation:rule="(has(self.setPolicy) ? 1 : 0) + (has(self.move) ? 1 : 0) + (has(self.setBounds) ? 1 : 0) + (has(self.proposeReplicas) ? 1 : 0) + (has(self.callWebhook) ? 1 : 0) == 1",message="must have one of setPolicy, move, setBounds, proposeReplicas and callWebhook"
type StrategyAction struct {
	// setPolicy puts a policy in force, before signals and the schedule.
	// +optional
	SetPolicy *SetPolicy `json:"setPolicy,omitempty"`
	// move leaves only some of the policy's node pools open, for all workloads or for one.
	// +optional
	Move *Move `json:"move,omitempty"`
	// setBounds narrows the bounds of a ManagedWorkload.
	// +optional
	SetBounds *SetBounds `json:"setBounds,omitempty"`
	// proposeReplicas asks for replicas at least, within the bounds of a ManagedWorkload.
	// +optional
	ProposeReplicas *ProposeReplicas `json:"proposeReplicas,omitempty"`
	// callWebhook posts once each time that the rule turns on.
	// +optional
	CallWebhook *CallWebhook `json:"callWebhook,omitempty"`
}

// CallWebhook names who is told.
type CallWebhook struct {
	// url of scheme http or https. mash2's owner must have allowed its host.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@]+([/?][^#]*)?$`
	URL string `json:"url"`
}

// SetPolicy names a policy.
type SetPolicy struct {
	// policy of the policy ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy"`
}

// Move names the pools that stay open.
type Move struct {
	// pools of those that the policy allows.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Pools []string `json:"pools"`
	// workload is a ManagedWorkload in the strategy's namespace that alone is moved. Absent:
	// all workloads are.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Workload string `json:"workload,omitempty"`
}

// SetBounds of replicas.
//
// +kubebuilder:validation:XValidation:rule="has(self.minReplicas) || has(self.maxReplicas)",message="needs minReplicas or maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="minReplicas must not be larger than maxReplicas"
type SetBounds struct {
	// workload is a ManagedWorkload in the strategy's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Workload string `json:"workload"`
	// minReplicas, within the workload's own bounds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// maxReplicas, within the workload's own bounds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
}

// ProposeReplicas at least.
type ProposeReplicas struct {
	// workload is a ManagedWorkload in the strategy's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Workload string `json:"workload"`
	// replicas in CEL; what is between two whole numbers counts as the larger one.
	// +required
	Replicas Expression `json:"replicas"`
}

// Choose moves to the best of several candidates.
type Choose struct {
	// workload is a ManagedWorkload in the strategy's namespace that alone is moved. Absent:
	// all workloads are.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Workload string `json:"workload,omitempty"`
	// candidates to choose from; the first is where it begins.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=8
	Candidates []Candidate `json:"candidates"`
	// model predicts a number of each candidate from its features: predicted in score and
	// require.
	// +optional
	Model *ModelRef `json:"model,omitempty"`
	// score of a candidate in CEL, above 0, the larger the better. The candidate's features
	// are in c, such as c.latency.
	// +required
	Score Expression `json:"score"`
	// require is what a candidate must meet to be moved to: CEL that gives true or false.
	// +optional
	Require Expression `json:"require,omitempty"`
	// marginPercent by which a score must be above the present one to count as better.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MarginPercent *int32 `json:"marginPercent,omitempty"`
	// payback is the price of a move: for how long something twice as good must have been
	// there, something half as much better for twice as long.
	// +optional
	Payback metav1.Duration `json:"payback,omitempty,omitzero"`
	// minStay is the least time between two moves.
	// +optional
	MinStay metav1.Duration `json:"minStay,omitempty,omitzero"`
}

// Candidate is a place to be.
type Candidate struct {
	// name of the candidate.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// pools that are open while it is chosen, of those that the policy allows.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Pools []string `json:"pools"`
	// features are numbers in CEL, by name.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Features map[string]Expression `json:"features,omitempty"`
}

// ModelRef names a model.
type ModelRef struct {
	// name of the model; it reads the candidates' features by their names.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// StrategyStatus is what mash2 made of a Strategy.
type StrategyStatus struct {
	// observedGeneration is the generation of the spec that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// active names the rules that are on, the candidate chosen and the policy learned.
	// +optional
	Active string `json:"active,omitempty"`
	// reason says why.
	// +optional
	Reason string `json:"reason,omitempty"`
	// conditions of the Strategy: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
