package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SizingMode says how far mash2 goes with the requests of a workload's containers.
type SizingMode string

// The modes of sizing.
const (
	SizingOff           SizingMode = "Off"
	SizingRecommendOnly SizingMode = "RecommendOnly" // shown, never written
	SizingInitialOnly   SizingMode = "InitialOnly"   // new pods get it when they are admitted
	SizingInPlace       SizingMode = "InPlace"       // and running pods are resized
)

// Acts reports whether pods get the sizes that are planned.
func (m SizingMode) Acts() bool { return m == SizingInitialOnly || m == SizingInPlace }

// SizingLimits says what becomes of limits when requests change.
type SizingLimits string

// What becomes of limits. Either way Guaranteed pods stay Guaranteed.
const (
	LimitsKeep  SizingLimits = "Keep"  // they are raised where they must be, and lowered in Guaranteed pods only
	LimitsRatio SizingLimits = "Ratio" // they keep their ratio to requests
)

// Sizing is what the sizes of a workload's containers are chosen by.
type Sizing struct {
	Mode   SizingMode
	Limits SizingLimits
	// Containers of the target's template, in its order.
	Containers []ContainerUse
	// Guaranteed tells that every container of the template, init containers too, requests all the CPU and
	// memory that it is limited to: its pods have that quality of service, which can't change.
	Guaranteed bool `json:",omitempty"`
	// Beside is what a pod requests besides these containers, sidecars and overhead, and
	// Least what it requests whatever they do, for its init containers.
	Beside, Least Amounts
	// Admits is true where the cluster gives new pods their planned size when they are
	// admitted. Where it doesn't they begin as their template says.
	Admits bool
	// Planned is what the last published plan wanted, and PlannedSince when that was chosen; nil
	// and zero if none is known. They outlive the operator.
	Planned      []ContainerPlan
	PlannedSince time.Time `json:",omitzero"`
	// Quota is what the ResourceQuotas of its namespace still have room for; nil if there are none.
	Quota *QuotaRoom `json:",omitempty"`
	// Hold is not empty when sizes must not be changed, and says why.
	Hold string
	// AsWritten is not empty where pods must request what their author wrote, and says why.
	AsWritten string `json:",omitempty"`
	// Refused is why the API server lets no new pods in; empty if it does, or if that is
	// not known.
	Refused string `json:",omitempty"`
	// Slow is which pod does not become Ready as it uses all of a CPU limit that is less
	// than its author's; empty if none is known.
	Slow string `json:",omitempty"`
	// Crowded is which node of its pods is short of memory; empty if none is.
	Crowded string `json:",omitempty"`
	// CPUAsWrittenUntil and MemoryAsWrittenUntil are what the last published plan says of both.
	CPUAsWrittenUntil    time.Time `json:",omitzero"`
	MemoryAsWrittenUntil time.Time `json:",omitzero"`
}

// Pod is what a pod requests whose containers request so much by the scheduler's rules.
func (s Sizing) Pod(containers Amounts) Resources {
	return Resources{
		MilliCPU: max(s.Beside.MilliCPU+containers.MilliCPU, s.Least.MilliCPU),
		Memory:   max(s.Beside.Memory+containers.Memory, s.Least.Memory),
		Pods:     1,
	}
}

// Authors are its containers as their author wrote them.
func (s Sizing) Authors(reason string) []ContainerPlan {
	out := make([]ContainerPlan, len(s.Containers))
	for i, u := range s.Containers {
		out[i] = ContainerPlan{Name: u.Name, Requests: u.Requests, Limits: u.Limits, Template: u.Requests, TemplateLimits: u.Limits, Reason: reason}
	}
	return out
}

// Less reports whether a size asks for less than their author wrote, of what may be changed
// without a restart.
func (s Sizing) Less(size *PodSize) bool {
	return slices.ContainsFunc(s.Containers, func(u ContainerUse) bool {
		is, ok := size.Container(u.Name)
		less := func(restarts bool, is, written int64) bool { return !restarts && is > 0 && is < written }
		return ok && (less(u.RestartCPU, is.Requests.MilliCPU, u.Requests.MilliCPU) || less(u.RestartCPU, is.Limits.MilliCPU, u.Limits.MilliCPU) ||
			less(u.RestartMemory, is.Requests.Memory, u.Requests.Memory) || less(u.RestartMemory, is.Limits.Memory, u.Limits.Memory))
	})
}

// QuotaRoom is what the pods of a namespace may still ask for in all: math.MaxInt64 of what
// nothing bounds.
type QuotaRoom struct {
	// Quotas are the names of the ResourceQuotas.
	Quotas           string
	Requests, Limits Amounts
}

// Amounts are CPU and memory of a container.
type Amounts struct {
	MilliCPU int64 `json:"milliCPU,omitempty"` // millicores
	Memory   int64 `json:"memory,omitempty"`   // bytes
}

// String is as kubectl shows them: cpu 250m, memory 128Mi.
func (a Amounts) String() string {
	var parts []string
	if a.MilliCPU != 0 {
		parts = append(parts, fmt.Sprintf("cpu %dm", a.MilliCPU))
	}
	if a.Memory != 0 {
		parts = append(parts, "memory "+Bytes(a.Memory))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// Bytes is an amount of memory for people: 128Mi, or bytes where that isn't whole.
func Bytes(n int64) string {
	switch {
	case n != 0 && n%(1<<30) == 0:
		return fmt.Sprintf("%dGi", n>>30)
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dMi", n>>20)
	}
	return fmt.Sprintf("%d", n)
}

// Resources are the same as a vector.
func (a Amounts) Resources() Resources { return Resources{MilliCPU: a.MilliCPU, Memory: a.Memory} }

// ContainerUse is what is known of one container of a workload's replicas.
type ContainerUse struct {
	Name string
	// Requests and Limits are its author's, those of the template; 0 for none.
	Requests, Limits Amounts
	// Least and Most bound what it may request; 0 for no bound. FixedCPU and
	// FixedMemory are left as they are.
	Least, Most           Amounts
	FixedCPU, FixedMemory bool
	// Range is what the LimitRanges of its namespace allow.
	Range AmountRange `json:",omitzero"`
	// RestartCPU and RestartMemory: a change restarts the container.
	RestartCPU, RestartMemory bool

	// Since and Until are from when to when its usage is known without a gap; zero if
	// it isn't.
	Since, Until time.Time
	// MemoryPeak is the largest working set of one replica in that time, bytes.
	MemoryPeak int64
	// MemoryResident is the same without files that the kernel keeps; 0 if that is not known.
	MemoryResident int64 `json:",omitempty"`
	// MemoryTail is what that isn't expected to exceed within the next day but with a
	// probability of 1 in 100,000, by how its maxima of two hours varied, and MemoryKnown
	// in how much time in all these are known, gaps left out; 0 if too little.
	MemoryTail  int64         `json:",omitempty"`
	MemoryKnown time.Duration `json:",omitempty"`
	// CPUPeak is the largest CPU usage of one replica in that time, and CPUMean the mean
	// of all replicas together; millicores.
	CPUPeak, CPUMean int64
	// OOMKilled is when the kernel last killed it for its memory in a pod that there is,
	// with a limit of OOMLimit bytes, or a request of that where it has no limit; zero if
	// that isn't known to have happened.
	OOMKilled time.Time
	OOMLimit  int64
	// OOMResized tells that the pod was resized since: OOMLimit is what it requests since then.
	OOMResized bool `json:",omitempty"`
	// MemoryStuck is the largest memory limit that a kubelet does not lower as it is to: the
	// container uses more, files that the kernel keeps for it included; 0 if there is none.
	MemoryStuck int64 `json:",omitempty"`
}

// AmountRange is what LimitRanges allow a container.
type AmountRange struct {
	// Names of the LimitRanges; empty for none.
	Names string
	// Least that it must request, and Most that its request and its limit may be; 0 for no
	// bound.
	Least, Most Amounts
	// CPURatio and MemoryRatio are the most that its limit may be of its request; 0 for no
	// bound.
	CPURatio, MemoryRatio float64
}

// ContainerPlan is the size that one container of a workload is to have.
type ContainerPlan struct {
	Name string `json:"name"`
	// Requests and Limits to have, 0 for none.
	Requests Amounts `json:"requests"`
	Limits   Amounts `json:"limits,omitzero"`
	// Template is what its author requests: the plan is for pods that ask for this.
	Template Amounts `json:"template"`
	// TemplateLimits are the limits that its author wrote.
	TemplateLimits Amounts `json:"templateLimits,omitzero"`
	// Reason says what decided.
	Reason string `json:"reason,omitempty"`
}

// SizingPlan is what a plan makes of the sizes of a workload's containers.
type SizingPlan struct {
	Mode SizingMode `json:"mode"`
	// Containers in the template's order. They are what replicas are counted by, and
	// what pods get, where the mode acts.
	Containers []ContainerPlan `json:"containers"`
	// Saving is by how much less the workload's requests cost by the pools' prices, on
	// average over the days that are known, USD/h; negative if they cost more.
	Saving float64 `json:"saving"`
	// Cost is what they cost as their author wrote them, USD/h.
	Cost float64 `json:"cost"`
	// Since is when these sizes were chosen.
	Since time.Time `json:"since,omitzero"`
	// CPUAsWrittenUntil is until when CPU requests are no less than their author's, as pods
	// did not become Ready with less; zero if they may be.
	CPUAsWrittenUntil time.Time `json:"cpuAsWrittenUntil,omitzero"`
	// MemoryAsWrittenUntil is until when memory requests are no less than their author's, as a node
	// of its pods was short of memory; zero if none was.
	MemoryAsWrittenUntil time.Time `json:"memoryAsWrittenUntil,omitzero"`
	// Reason says why they are as they are, in a sentence.
	Reason string `json:"reason"`
	// Hold is not empty while sizes are not changed, and says why.
	Hold string `json:"hold,omitempty"`
}

// Acts reports whether pods get these sizes.
func (p *SizingPlan) Acts() bool { return p != nil && p.Mode.Acts() && p.Hold == "" }

// PodSize is what the containers of a pod ask for. Pods of one size share one value.
type PodSize struct {
	// ID is a hash over all other fields.
	ID         string
	Containers []ContainerSize
}

// ContainerSize is what one container of a pod asks for.
type ContainerSize struct {
	Name             string
	Requests, Limits Amounts
}

// Container returns the size of a container by its name.
func (s *PodSize) Container(name string) (ContainerSize, bool) {
	if s == nil {
		return ContainerSize{}, false
	}
	i := slices.IndexFunc(s.Containers, func(c ContainerSize) bool { return c.Name == name })
	if i < 0 {
		return ContainerSize{}, false
	}
	return s.Containers[i], true
}

// ResizeState is how far a kubelet is with the size that a pod asks for.
type ResizeState string

// The states; empty is done.
const (
	ResizeDeferred   ResizeState = "Deferred"   // there is no room now
	ResizeInfeasible ResizeState = "Infeasible" // there will never be on this node
	ResizeInProgress ResizeState = "InProgress"
	ResizeError      ResizeState = "Error" // the kubelet tries again
)
