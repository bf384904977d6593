package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CanaryStatus is what is known of the trial that a workload in mode Canary is in.
type CanaryStatus struct {
	// phase of the trial: Waiting, Baseline, Running, Promoted or Stopped.
	// +required
	Phase string `json:"phase"`
	// role of the workload: Canary, Control, or None where it is neither.
	// +required
	Role string `json:"role"`
	// with is the name of the ManagedWorkload it is compared with.
	// +optional
	With string `json:"with,omitempty"`
	// acts is true while mash2 acts for the workload by a plan of its own.
	// +required
	Acts bool `json:"acts"`
	// since is when the phase began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}
