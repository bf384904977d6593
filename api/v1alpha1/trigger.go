package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Trigger is a demand input, with the words of a HorizontalPodAutoscaler's
// metrics and of KEDA's triggers.
//
// +kubebuilder:validation:XValidation:rule="has(self.external) == (self.type == 'External') && has(self.object) == (self.type == 'Object') && has(self.pods) == (self.type == 'Pods') && has(self.resource) == (self.type == 'Resource') && has(self.prometheus) == (self.type == 'Prometheus') && has(self.cron) == (self.type == 'Cron')",message="must have the one field of external, object, pods, resource, prometheus and cron that type names",fieldPath=".type"
// +kubebuilder:validation:XValidation:rule="self.type == 'Cron' ? !has(self.target) : has(self.target)",message="is required, except with type Cron",fieldPath=".target"
// +kubebuilder:validation:XValidation:rule="!has(self.target) || self.type == 'Resource' || !has(self.target.averageUtilization)",message="averageUtilization is for type Resource",fieldPath=".target"
// +kubebuilder:validation:XValidation:rule="!has(self.target) || !(self.type in ['Resource','Pods']) || !has(self.target.value)",message="value is not for types Resource and Pods: use averageValue",fieldPath=".target"
// +kubebuilder:validation:XValidation:rule="!has(self.activationThreshold) || self.type in ['External','Object','Prometheus']",message="is for types External, Object and Prometheus",fieldPath=".activationThreshold"
type Trigger struct {
	// name tells the trigger from the workload's others.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// type is the kind of trigger.
	// +required
	Type TriggerType `json:"type"`
	// external is a metric of external.metrics.k8s.io in the workload's
	// namespace: what KEDA and other adapters serve. The sum of all its values
	// counts.
	// +optional
	External *MetricTrigger `json:"external,omitempty"`
	// object is a metric of custom.metrics.k8s.io that describes one object in
	// the workload's namespace.
	// +optional
	Object *ObjectTrigger `json:"object,omitempty"`
	// pods is a metric of custom.metrics.k8s.io of each of the workload's pods.
	// +optional
	Pods *MetricTrigger `json:"pods,omitempty"`
	// resource is what metrics.k8s.io says of the workload's pods.
	// +optional
	Resource *ResourceTrigger `json:"resource,omitempty"`
	// prometheus is a query to the Prometheus that mash2 reads.
	// +optional
	Prometheus *PrometheusTrigger `json:"prometheus,omitempty"`
	// cron asks for a number of replicas at certain times.
	// +optional
	Cron *CronTrigger `json:"cron,omitempty"`
	// target is what one replica is for.
	// +optional
	Target *TriggerTarget `json:"target,omitempty"`
	// activationThreshold: more than this is active, which takes the first
	// replica with minReplicas 0. It is compared with the metric itself, as in
	// KEDA. Default: 0.
	// +optional
	ActivationThreshold *resource.Quantity `json:"activationThreshold,omitempty"`
}

// TriggerType is a kind of trigger.
//
// +kubebuilder:validation:Enum=External;Object;Pods;Resource;Prometheus;Cron
type TriggerType string

// The kinds of triggers.
const (
	TriggerExternal   TriggerType = "External"
	TriggerObject     TriggerType = "Object"
	TriggerPods       TriggerType = "Pods"
	TriggerResource   TriggerType = "Resource"
	TriggerPrometheus TriggerType = "Prometheus"
	TriggerCron       TriggerType = "Cron"
)

// MetricTrigger names a metric.
type MetricTrigger struct {
	// metric by its name and, optionally, a selector.
	// +required
	Metric autoscalingv2.MetricIdentifier `json:"metric"`
}

// ObjectTrigger names a metric of an object.
type ObjectTrigger struct {
	// describedObject is what the metric describes.
	// +required
	DescribedObject autoscalingv2.CrossVersionObjectReference `json:"describedObject"`
	// metric by its name and, optionally, a selector.
	// +required
	Metric autoscalingv2.MetricIdentifier `json:"metric"`
}

// ResourceTrigger names a resource of the workload's pods.
type ResourceTrigger struct {
	// name of the resource.
	// +required
	// +kubebuilder:validation:Enum=cpu;memory
	Name string `json:"name"`
	// container whose usage counts; all of them if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
}

// PrometheusTrigger is a query.
type PrometheusTrigger struct {
	// query in PromQL that gives one series, or a scalar. It sees the series of
	// the workload's namespace and no others. What gives no series counts as
	// missing; where that means 0, add `or vector(0)`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`
}

// CronTrigger asks for replicas from the times of one expression to those of
// another.
type CronTrigger struct {
	// timeZone is an IANA name; UTC if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	TimeZone string `json:"timeZone,omitempty"`
	// start and end are cron expressions of five fields.
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=200
	Start string `json:"start"`
	// end of the time.
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=200
	End string `json:"end"`
	// replicas that are asked for.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Replicas int32 `json:"replicas"`
}

// TriggerTarget is what one replica is for: exactly one of the fields.
//
// +kubebuilder:validation:XValidation:rule="(has(self.averageValue) ? 1 : 0) + (has(self.value) ? 1 : 0) + (has(self.averageUtilization) ? 1 : 0) == 1",message="must have one of averageValue, value and averageUtilization"
type TriggerTarget struct {
	// averageValue is how much of the metric one replica is for.
	// +optional
	AverageValue *resource.Quantity `json:"averageValue,omitempty"`
	// value that the metric should have, for what more replicas make smaller,
	// such as a latency: replicas change by the ratio of the metric to it.
	// +optional
	Value *resource.Quantity `json:"value,omitempty"`
	// averageUtilization is the usage in percent of the requests.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	AverageUtilization *int32 `json:"averageUtilization,omitempty"`
}

// TriggerStatus is what was seen of a trigger. Numbers that are not whole are
// strings, as the API conventions ask.
type TriggerStatus struct {
	// name of the trigger.
	// +required
	Name string `json:"name"`
	// value of the metric; absent while it is missing.
	// +optional
	Value string `json:"value,omitempty"`
	// replicas that it asks for now.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// active is true while it asks for a first replica.
	// +optional
	Active bool `json:"active,omitempty"`
	// message says why the metric is missing.
	// +optional
	Message string `json:"message,omitempty"`
}
