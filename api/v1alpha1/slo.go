package v1alpha1

// SLO is a service level objective, from where its author has it: another resource, a
// document of OpenSLO, or PromQL.
//
// +kubebuilder:validation:XValidation:rule="(has(self.ref) ? 1 : 0) + (has(self.openSLO) ? 1 : 0) + (has(self.prometheus) ? 1 : 0) == 1",message="must have one of ref, openSLO and prometheus"
type SLO struct {
	// name tells the objective from the workload's others.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// ref names a resource in the workload's namespace that has the objective.
	// +optional
	Ref *SLORef `json:"ref,omitempty"`
	// openSLO is an SLO of OpenSLO v1 with a ratioMetric of Prometheus, as YAML or JSON.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	OpenSLO string `json:"openSLO,omitempty"`
	// prometheus are an objective and queries.
	// +optional
	Prometheus *PrometheusSLO `json:"prometheus,omitempty"`
}

// SLOKind is a kind of resource with objectives.
//
// +kubebuilder:validation:Enum=PrometheusServiceLevel;ServiceLevelObjective;SLO
type SLOKind string

// The kinds: Sloth's (sloth.slok.dev/v1), Pyrra's (pyrra.dev/v1alpha1) and OpenSLO's
// (openslo.com/v1).
const (
	SLOSloth   SLOKind = "PrometheusServiceLevel"
	SLOPyrra   SLOKind = "ServiceLevelObjective"
	SLOOpenSLO SLOKind = "SLO"
)

// SLORef names a resource with objectives.
//
// +kubebuilder:validation:XValidation:rule="has(self.slo) == (self.kind == 'PrometheusServiceLevel')",message="names one of the objectives of a PrometheusServiceLevel, and is for those only",fieldPath=".slo"
type SLORef struct {
	// kind is PrometheusServiceLevel (Sloth), ServiceLevelObjective (Pyrra) or SLO
	// (OpenSLO).
	// +required
	Kind SLOKind `json:"kind"`
	// name of the resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// slo is the name of one of its objectives.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SLO string `json:"slo,omitempty"`
}

// PrometheusSLO is an objective in PromQL. The queries see the series of the workload's
// namespace and no others; each gives one series. Their ranges are written
// [{{.window}}], as in Sloth.
type PrometheusSLO struct {
	// objective is the share of events that must be good, in percent, such as "99.9".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}(\.[0-9]+)?$`
	Objective string `json:"objective"`
	// errorQuery gives the rate of bad events. Where there may be no series of them and
	// the metric is not that of totalQuery, add `or vector(0)`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	ErrorQuery string `json:"errorQuery"`
	// totalQuery gives the rate of all events.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	TotalQuery string `json:"totalQuery"`
}

// SLOStatus is what was seen of an objective.
type SLOStatus struct {
	// name of the objective.
	// +required
	Name string `json:"name"`
	// verdict is Good, Burning or Inconclusive. What is not proven is inconclusive.
	// +optional
	Verdict string `json:"verdict,omitempty"`
}
