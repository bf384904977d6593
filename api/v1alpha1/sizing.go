package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sizing says how far mash2 goes with what the workload's containers request.
type Sizing struct {
	// mode says how far mash2 goes. Off chooses nothing, RecommendOnly shows in the
	// status what would be chosen and what it would save, InitialOnly gives it to new
	// pods when they are admitted, and InPlace resizes running pods as well, without a
	// restart. The target's pod template is never written. Without spec.mode Full nothing
	// but the recommendation happens.
	// +optional
	// +kubebuilder:default=RecommendOnly
	Mode SizingMode `json:"mode,omitempty"`
	// limits says what becomes of limits. Keep raises them where a request needs it and
	// lowers none; Ratio keeps their ratio to the requests. In Guaranteed pods limits are
	// what is requested either way, as their quality of service depends on it.
	// +optional
	// +kubebuilder:default=Keep
	Limits SizingLimits `json:"limits,omitempty"`
	// containers bound what is chosen for some of them. Others, and sidecars that a
	// webhook adds, are bounded by nothing but what is known of them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Containers []ContainerSizing `json:"containers,omitempty"`
}

// SizingMode says how far mash2 goes with the requests of containers.
//
// +kubebuilder:validation:Enum=Off;RecommendOnly;InitialOnly;InPlace
type SizingMode string

// The modes of sizing; the same words as in package api.
const (
	SizingOff           SizingMode = "Off"
	SizingRecommendOnly SizingMode = "RecommendOnly"
	SizingInitialOnly   SizingMode = "InitialOnly"
	SizingInPlace       SizingMode = "InPlace"
)

// SizingLimits says what becomes of limits when requests change.
//
// +kubebuilder:validation:Enum=Keep;Ratio
type SizingLimits string

// What becomes of limits.
const (
	LimitsKeep  SizingLimits = "Keep"
	LimitsRatio SizingLimits = "Ratio"
)

// ContainerAmounts are amounts of a container's resources.
type ContainerAmounts struct {
	// cpu in cores, such as 250m.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// memory in bytes, such as 128Mi.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// ContainerSizing bounds what is chosen for one container.
type ContainerSizing struct {
	// name of the container.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// minAllowed is the least that it may request, of cpu and memory.
	// +optional
	MinAllowed ContainerAmounts `json:"minAllowed,omitempty,omitzero"`
	// maxAllowed is the most that it may request.
	// +optional
	MaxAllowed ContainerAmounts `json:"maxAllowed,omitempty,omitzero"`
	// resources that are chosen; the others are left as the template has them.
	// +optional
	// +listType=set
	// +kubebuilder:default={cpu,memory}
	// +kubebuilder:validation:MaxItems=2
	Resources []SizedResource `json:"resources,omitempty"`
}

// SizedResource is a resource whose request is chosen.
//
// +kubebuilder:validation:Enum=cpu;memory
type SizedResource string

// SizingStatus is what is chosen for the workload's containers.
type SizingStatus struct {
	// mode that is in force: what spec.sizing asks for, as far as nothing stands against
	// it. New pods are given these sizes while it is InitialOnly or InPlace.
	// +optional
	Mode SizingMode `json:"mode,omitempty"`
	// containers with what they should request.
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerSizingStatus `json:"containers,omitempty"`
	// hourlySaving is by how much less the workload's requests cost than its author's,
	// by the pools' prices and the days that are known, in USD per hour, such as "0.12";
	// negative where they cost more.
	// +optional
	HourlySaving string `json:"hourlySaving,omitempty"`
	// since is when these sizes were chosen.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// cpuAsWrittenUntil is until when no container requests less CPU than its author wrote,
	// as a pod with a lower CPU limit did not become Ready.
	// +optional
	CPUAsWrittenUntil *metav1.Time `json:"cpuAsWrittenUntil,omitempty"`
	// memoryAsWrittenUntil is until when no container requests less memory than its author
	// wrote, as a node of its pods was short of memory.
	// +optional
	MemoryAsWrittenUntil *metav1.Time `json:"memoryAsWrittenUntil,omitempty"`
	// reason says why they are as they are, or why they are not changed.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// ContainerSizingStatus is what is chosen for one container.
type ContainerSizingStatus struct {
	// name of the container.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// requests that it should have.
	// +optional
	Requests ContainerAmounts `json:"requests,omitempty,omitzero"`
	// limits that it should have, where it has any.
	// +optional
	Limits ContainerAmounts `json:"limits,omitempty,omitzero"`
	// template is what the target's pod template requests: a pod that requests something
	// else is left as it is.
	// +optional
	Template ContainerAmounts `json:"template,omitempty,omitzero"`
	// templateLimits are the limits of the target's pod template: a pod with others, or
	// without one of them, is left as it is.
	// +optional
	TemplateLimits ContainerAmounts `json:"templateLimits,omitempty,omitzero"`
	// reason says what decided.
	// +optional
	Reason string `json:"reason,omitempty"`
}
