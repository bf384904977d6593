package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Learn names a policy in each round and hears what it earned. It leaves the policy that
// would be in force without it, the baseline, only as far as the loss is bounded.
//
// +kubebuilder:validation:XValidation:rule="duration(self.round) >= duration('1m') && duration(self.round) <= duration('744h')",message="round must be from 1m to 744h"
type Learn struct {
	// policies that it may name. The baseline must be one of them.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Policies []string `json:"policies"`
	// round is how long a policy is tried, from 1m to 744h. Rounds begin at midnight of
	// timeZone and at each multiple of it after that.
	// +required
	Round metav1.Duration `json:"round"`
	// context is what the best policy depends on: numbers in CEL from 0 to 1, by name, as
	// of a round's start. One of them at least must be above 0.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Context map[string]Expression `json:"context"`
	// reward of a round in CEL, from 0 to 1, the larger the better, as of its end.
	// +required
	Reward Expression `json:"reward"`
	// noisePercent is how much rewards of the same policy and context differ: their standard
	// deviation, in hundredths. 50 holds for any rewards from 0 to 1; less learns faster.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	NoisePercent *int32 `json:"noisePercent,omitempty"`
	// maxLossPercent of what the baseline would have earned may be lost by trying others,
	// over all rounds.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxLossPercent *int32 `json:"maxLossPercent,omitempty"`
	// act puts the policy in force. Without it, it is only recommended.
	// +optional
	Act bool `json:"act,omitempty"`
}
