package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Resources is a vector of amounts. The zero value is nothing of anything.
type Resources struct {
	MilliCPU         int64 `json:"milliCPU,omitempty"`         // millicores
	Memory           int64 `json:"memory,omitempty"`           // bytes
	EphemeralStorage int64 `json:"ephemeralStorage,omitempty"` // bytes
	Pods             int64 `json:"pods,omitempty"`             // pod slots: 1 for a pod, the maximum for a node
	// Extended holds every other resource by name, in its own base unit; nil
	// when there is none. It is shared between copies: never write to it.
	Extended map[string]int64 `json:"extended,omitempty"`
}

// Plus returns r + o.
func (r Resources) Plus(o Resources) Resources { return r.combine(o, 1) }

// Minus returns r − o; components may become negative.
func (r Resources) Minus(o Resources) Resources { return r.combine(o, -1) }

// Times returns r taken n times.
func (r Resources) Times(n int64) Resources {
	return Resources{}.combine(r, n)
}

func (r Resources) combine(o Resources, n int64) Resources {
	out := Resources{
		MilliCPU:         r.MilliCPU + n*o.MilliCPU,
		Memory:           r.Memory + n*o.Memory,
		EphemeralStorage: r.EphemeralStorage + n*o.EphemeralStorage,
		Pods:             r.Pods + n*o.Pods,
		Extended:         r.Extended,
	}
	if len(o.Extended) > 0 {
		out.Extended = maps.Clone(r.Extended)
		if out.Extended == nil {
			out.Extended = make(map[string]int64, len(o.Extended))
		}
		for k, v := range o.Extended {
			out.Extended[k] += n * v
		}
	}
	return out
}

// Max returns the component-wise maximum.
func (r Resources) Max(o Resources) Resources {
	out := Resources{
		MilliCPU:         max(r.MilliCPU, o.MilliCPU),
		Memory:           max(r.Memory, o.Memory),
		EphemeralStorage: max(r.EphemeralStorage, o.EphemeralStorage),
		Pods:             max(r.Pods, o.Pods),
		Extended:         r.Extended,
	}
	if len(o.Extended) > 0 {
		out.Extended = maps.Clone(r.Extended)
		if out.Extended == nil {
			out.Extended = make(map[string]int64, len(o.Extended))
		}
		for k, v := range o.Extended {
			out.Extended[k] = max(out.Extended[k], v)
		}
	}
	return out
}

// Fits reports whether r fits into free: every component of which r asks for
// something is available. A component r does not ask for may be negative in
// free, as it is for the scheduler.
func (r Resources) Fits(free Resources) bool {
	ok := func(want, have int64) bool { return want <= 0 || want <= have }
	if !ok(r.MilliCPU, free.MilliCPU) || !ok(r.Memory, free.Memory) ||
		!ok(r.EphemeralStorage, free.EphemeralStorage) || !ok(r.Pods, free.Pods) {
		return false
	}
	for k, v := range r.Extended {
		if !ok(v, free.Extended[k]) {
			return false
		}
	}
	return true
}

// Equal compares all components; an absent extended resource equals zero.
func (r Resources) Equal(o Resources) bool {
	if r.MilliCPU != o.MilliCPU || r.Memory != o.Memory ||
		r.EphemeralStorage != o.EphemeralStorage || r.Pods != o.Pods {
		return false
	}
	for k, v := range r.Extended {
		if o.Extended[k] != v {
			return false
		}
	}
	for k, v := range o.Extended {
		if r.Extended[k] != v {
			return false
		}
	}
	return true
}

// DominantShare is the largest share of any component of capacity that r takes,
// 0 for nothing; a component that capacity lacks counts as +Inf-like 1e9.
func (r Resources) DominantShare(capacity Resources) float64 {
	var share float64
	part := func(want, have int64) {
		switch {
		case want <= 0:
		case have <= 0:
			share = max(share, 1e9)
		default:
			share = max(share, float64(want)/float64(have))
		}
	}
	part(r.MilliCPU, capacity.MilliCPU)
	part(r.Memory, capacity.Memory)
	part(r.EphemeralStorage, capacity.EphemeralStorage)
	part(r.Pods, capacity.Pods)
	for k, v := range r.Extended {
		part(v, capacity.Extended[k])
	}
	return share
}

// String prints the non-zero components in a fixed order.
func (r Resources) String() string {
	var b strings.Builder
	add := func(name string, v int64, unit string) {
		if v == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d%s", name, v, unit)
	}
	add("cpu", r.MilliCPU, "m")
	add("memory", r.Memory, "")
	add("ephemeral-storage", r.EphemeralStorage, "")
	add("pods", r.Pods, "")
	for _, k := range slices.Sorted(maps.Keys(r.Extended)) {
		add(k, r.Extended[k], "")
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}
