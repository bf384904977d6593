package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Vertical gives each running pod of the workload an agent, which moves CPU between the
// pods in place, and memory where it has a budget. Nothing is written but the resize subresource of pods.
type Vertical struct {
	// run starts and stops the agents. Stopped, limits stay as they are.
	// +optional
	// +kubebuilder:default=true
	Run *bool `json:"run,omitempty"`
	// cpu is what the CPU limits of all pods may be together, such as 2 or 1500m. Absent:
	// what the planned replicas would have by the target's pod template.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][+-]?[0-9]{3}') || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// minCPU is the least limit of a pod.
	// +optional
	// +kubebuilder:default="50m"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][+-]?[0-9]{3}') || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	MinCPU *resource.Quantity `json:"minCPU,omitempty"`
	// maxCPU is the largest limit of a pod. Absent: the whole budget, but no more than the
	// largest node has.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][+-]?[0-9]{3}') || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	MaxCPU *resource.Quantity `json:"maxCPU,omitempty"`
	// memory is what the memory limits of all pods may be together, such as 2Gi. Limits then
	// follow working sets: they rise at once, and fall when less was used for five minutes.
	// Needs Kubernetes 1.34, as older ones lower no memory limit in place. Absent: memory stays.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][+-]?[0-9]{3}') || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// minMemory is the least memory limit of a pod.
	// +optional
	// +kubebuilder:default="64Mi"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][+-]?[0-9]{3}') || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	MinMemory *resource.Quantity `json:"minMemory,omitempty"`
	// maxMemory is the largest memory limit of a pod. Absent: the whole budget, but no more
	// than the largest node has.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][+-]?[0-9]{3}') || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	MaxMemory *resource.Quantity `json:"maxMemory,omitempty"`
	// intervalSeconds between decisions. An agent decides once on each reading of usage,
	// which metrics.k8s.io renews every 10 to 60 seconds.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
	// container that is resized; needed where pods have several.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`
	// model is the name of a learned model that the operator has, or of a rule: proportional
	// aims at a usage of 60 % of each limit, threshold is MARLISE's. Absent: spread, which
	// aims at 80 % and gives out the rest of the budget. A model decides
	// once it was better than that rule, in a simulation of these pods and then here.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Model string `json:"model,omitempty"`
	// priorities of pods that don't have the full one, such as those of a StatefulSet: where
	// CPU is short, pods share it by them.
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=256
	Priorities []PodPriority `json:"priorities,omitempty"`
}

// PodPriority is the weight of a pod.
type PodPriority struct {
	// pod by its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`
	// percent of the full priority.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent"`
}

// VerticalStatus is what agents may use, and what they did last.
type VerticalStatus struct {
	// envelope that the plan gives the agents.
	// +optional
	Envelope *VerticalEnvelope `json:"envelope,omitempty"`
	// decides names the rule or the algorithm that decided last.
	// +optional
	Decides string `json:"decides,omitempty"`
	// pods that take part, in order of name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Pods []AgentStatus `json:"pods,omitempty"`
	// message says why nothing is changed, or which pods take no part.
	// +optional
	Message string `json:"message,omitempty"`
	// time of the last decision.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// VerticalEnvelope is what the agents of a workload may use.
type VerticalEnvelope struct {
	// cpu that all limits may be together.
	CPU resource.Quantity `json:"cpu"`
	// minCPU and maxCPU bound each pod's limit.
	MinCPU resource.Quantity `json:"minCPU"`
	MaxCPU resource.Quantity `json:"maxCPU"`
	// memory that all limits may be together; absent where memory stays.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// AgentStatus is a pod with an agent.
type AgentStatus struct {
	// name of the pod.
	// +required
	Name string `json:"name"`
	// limit of CPU that it has.
	Limit resource.Quantity `json:"limit"`
	// memory is its limit of memory; absent where that stays.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}
