package horizontal

import (
	"fmt"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// supply is what replicas give of one demand input.
type supply struct {
	// utilization is the share of a replica that expected demand may take, 0–1.
	utilization float64
	// target is what of a trigger one replica is for at that utilisation; 0 for
	// CPU, of which replicas supply their requests.
	target float64
	// near are the CPU requests that hold until replicas asked for now are
	// Ready, later those afterwards.
	near, later fleet
	// margins keep the policy's objective, where they are known.
	margins planning.Margins
}

// covering returns the replicas, before rounding up, that so much demand saturates no
// more than an objective allows. Speed is of the machines.
func (c supply) covering(f fleet, demand, speed float64) float64 {
	return f.replicas(demand / (speed * c.margins.Saturation()))
}

// each says what of demand a replica more is planned to serve where an objective is kept:
// its request with what it may use beyond, on machines of that speed, saturated by no more
// than is allowed.
func (c supply) each(speed float64) string {
	of := func(saturation float64) float64 { return math.Floor(float64(c.near.next) * speed * saturation) }
	with, without := of(c.margins.Saturation()), of(c.margins.Alone().Saturation())
	if with > without {
		return fmt.Sprintf(", one for %.0fm instead of %.0fm, as others on their nodes leave some idle", with, without)
	}
	return fmt.Sprintf(", one for %.0fm", with)
}

// atTarget returns the replicas, before rounding up, that demand takes no more
// than the utilisation of; full those that it fits into at all. Speed is of the
// machines.
func (c supply) atTarget(f fleet, demand, speed float64) float64 {
	if c.target > 0 {
		return demand / c.target
	}
	return f.replicas(demand / (speed * c.utilization))
}

func (c supply) full(f fleet, demand, speed float64) float64 {
	if c.target > 0 {
		return demand * c.utilization / c.target
	}
	return f.replicas(demand / speed)
}

// fleet is what replicas request of CPU: those there, least first, because
// nobody knows which of them would go, and every further one.
type fleet struct {
	there []int64 // millicores
	next  int64   // millicores
}

// replicas, before rounding up, whose requests add up to so many millicores.
func (f fleet) replicas(milli float64) float64 {
	for i, r := range f.there {
		if milli <= float64(r) {
			return float64(i) + math.Max(milli, 0)/float64(r)
		}
		milli -= float64(r)
	}
	return float64(len(f.there)) + milli/float64(f.next)
}

// mean request of the first n replicas.
func (f fleet) mean(n int32) int64 {
	if n <= 0 || len(f.there) == 0 {
		return f.next
	}
	var sum int64
	for i := range int(n) {
		if i < len(f.there) {
			sum += f.there[i]
		} else {
			sum += f.next
		}
	}
	return sum / int64(n)
}

// String names the requests: 250m, or 250–500m.
func (f fleet) String() string {
	if len(f.there) == 0 {
		return fmt.Sprintf("%dm", f.next)
	}
	least, most := min(f.there[0], f.next), max(f.there[len(f.there)-1], f.next)
	return fmt.Sprintf("%d–%dm", least, most)
}

// cpuSupply returns what a replica supplies of CPU, or why that isn't known.
func cpuSupply(in planning.Input) (supply, string) {
	w := in.Workload
	c := supply{utilization: utilization(in)}
	switch {
	case w.Shape == nil || w.Shape.Requests.MilliCPU <= 0:
		return supply{}, "its pods request no CPU, so utilisation has no meaning"
	case !(in.Speed > 0) || math.IsInf(in.Speed, 0):
		return supply{}, fmt.Sprintf("the speed of the pool must be positive, is %v", in.Speed)
	}
	c.near, c.later = fleets(w, in.Pods, in.ResizeTo)
	c.margins = in.Margins
	return c, ""
}

// utilization that is planned for: the workload's, else the policy's.
func utilization(in planning.Input) float64 {
	if u := in.Workload.TargetUtilization; u > 0 {
		return u
	}
	return in.Policy.TargetUtilization
}

// fleets are the requests of a workload's replicas soon and later. Pods that
// were resized in place, or that are older than what new ones get, keep their
// own requests. While a rollout replaces them each will have the next one's, and while
// they are resized (to resizeTo millicores; 0: they aren't) each will have that;
// until then it supplies no more than the smaller of both.
func fleets(w api.Workload, pods []api.Pod, resizeTo int64) (near, later fleet) {
	if w.Basis > 0 {
		f := fleet{next: w.Basis}
		return f, f
	}
	next := w.Shape.Requests.MilliCPU
	if resizeTo > 0 {
		next = min(next, resizeTo)
	}
	var there []int64
	differs := false
	for _, p := range pods {
		if p.Terminating || p.Shape == nil || p.Shape.Requests.MilliCPU <= 0 {
			continue
		}
		r := p.Shape.Requests.MilliCPU
		if w.RollingOut {
			r = min(r, next)
		}
		if resizeTo > 0 {
			r = min(r, resizeTo)
		}
		differs = differs || r != next
		there = append(there, r)
	}
	near = fleet{next: next}
	if differs {
		slices.Sort(there)
		near.there = there
	}
	if w.RollingOut {
		return near, fleet{next: next}
	}
	return near, near
}
