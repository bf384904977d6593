package sizing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// cpu chooses the CPU requests.
func (c *chooser) cpu() {
	have, authors := requests(c.now).MilliCPU, c.template().MilliCPU
	switch {
	case c.in.FixedCPU != "":
		c.cpuWhy = c.in.FixedCPU
		return
	case authors <= 0 || !(c.in.Headroom > 0) || !(c.in.Speed > 0) || c.in.Most < 1:
		return
	case !slices.ContainsFunc(c.in.Sizing.Containers, controlled):
		return
	}
	// 1. Demand that the most replicas can't take: more for each, at once.
	perPod := func(demand float64) float64 { return c.needs(demand) / (c.in.Speed * float64(c.in.Most)) }
	if now, _, ok := c.in.Demand.Last(); ok && !c.in.Stale && perPod(now) > float64(have) {
		c.assign(perPod(now*peakMargin), fmt.Sprintf("cpu: %.2f cores now do not fit into %d replicas", now/1000, c.in.Most))
		return
	}
	// 2. What costs the least, looked at now and then.
	if !c.m.Slow.IsZero() || c.in.Time.Sub(c.m.Looked) < c.Look {
		return
	}
	demand := c.past()
	if wait := c.unproven(demand); wait != "" {
		c.cpuWhy = "CPU requests stay: " + wait
		return
	}
	c.m.Looked = c.in.Time
	peak := math.Max(slices.Max(demand.values), c.in.Forecast)
	least := perPod(peak * peakMargin)
	best := c.cheapest(demand, least, authors)
	// What costs no less may leave more to others.
	now := c.choice(demand, have)
	saves := math.Max(1-best.cost/now.cost, 0)
	if best.cost <= now.cost*(1+1e-9) {
		saves = math.Max(saves, 1-best.shared/now.shared)
	}
	switch {
	case float64(have) < least:
		c.assign(math.Max(float64(best.request), least), fmt.Sprintf("cpu: the peak of %.2f cores must fit into %d replicas", peak/1000, c.in.Most))
	case math.Abs(float64(best.request-have)) < c.Deadband*float64(have) || !(saves >= c.Worth): // nor where costs are no numbers
	case !c.m.Saved.IsZero() && c.in.Time.Sub(c.m.Saved) < c.Settle:
		c.cpuWhy = fmt.Sprintf("a CPU request of %dm would cost %.0f %% less; the last change was at %s", best.request, 100*saves, c.m.Saved.UTC().Format(time.RFC3339))
	default:
		c.m.Saved = c.in.Time
		c.assign(float64(best.request), fmt.Sprintf("cpu: %d to %d replicas of it cost the least over %s%s", c.in.Least, c.in.Most, demand.of.Round(time.Hour), c.byMachines()))
	}
}

// controlled reports whether a container's CPU request may be chosen.
func controlled(u api.ContainerUse) bool { return !u.FixedCPU && u.Requests.MilliCPU > 0 }

// past is demand that is known.
type past struct {
	values []float64     // the largest of every sample, without gaps
	shares []float64     // what each counts for in a mean; they sum up to 1
	of     time.Duration // how long it is of, gaps left out
	end    time.Time
}

// past reads the history at a coarse step, what is known at the coarser step of before
// included.
func (c *chooser) past() past {
	var out past
	var all float64
	take := func(s api.Series, until time.Time) {
		if s.Step <= 0 {
			return
		}
		each := max(1, int(sample/s.Step))
		for i := 0; i < len(s.Values); i += each {
			at := s.Start.Add(time.Duration(i) * s.Step)
			if !until.IsZero() && !at.Before(until) {
				return
			}
			most, n := 0.0, 0.0
			for _, v := range s.Values[i:min(i+each, len(s.Values))] {
				if v >= 0 && !math.IsInf(v, 0) {
					most, n = math.Max(most, v), n+1
				}
			}
			if n > 0 && !at.Before(c.m.Template) {
				out.values = append(out.values, most)
				share := n * s.Step.Seconds() * math.Exp2(-float64(c.in.Time.Sub(at))/float64(c.HalfLife))
				out.shares, all = append(out.shares, share), all+share
				out.of += time.Duration(n) * s.Step
				out.end = at.Add(time.Duration(each) * s.Step)
			}
		}
	}
	if c.in.Demand.Past != nil {
		take(*c.in.Demand.Past, c.in.Demand.Start)
	}
	take(c.in.Demand, time.Time{})
	for i := range out.shares {
		out.shares[i] /= all
	}
	return out
}

// unproven is why CPU requests can't be chosen by what is known; empty if they can.
func (c *chooser) unproven(p past) string {
	switch {
	case len(p.values) == 0 || c.in.Stale:
		return "demand is not known"
	case p.of < c.Evidence:
		return fmt.Sprintf("demand is known for %s of the %s that it takes", p.of.Round(time.Minute), c.Evidence)
	}
	for _, u := range c.in.Sizing.Containers {
		if !controlled(u) {
			continue
		}
		if why := c.proven(u, c.Evidence); why != "" {
			return u.Name + ": " + why
		}
	}
	return ""
}

// needs is what replicas request in all for some demand, reference millicores.
func (c *chooser) needs(demand float64) float64 {
	need := demand * c.in.Headroom
	if c.in.Ceiling > 0 {
		need = math.Max(math.Min(need, c.in.Ceiling), demand*c.in.LeastHeadroom)
	}
	return need
}

// costOf is what replicas of a request cost on average over some demand, USD per hour: what they
// request by the prices of that, and as far as the workload is alone, the machines that it takes.
func (c *chooser) costOf(demand past, request, memory int64) float64 {
	shared := c.shared(demand, request, memory)
	if c.in.Alone <= 0 {
		return shared
	}
	machines, ok := c.machines(demand, request, memory)
	if !ok {
		return shared
	}
	return (1-c.in.Alone)*shared + c.in.Alone*machines
}

// shared is what they request, where others use what they leave of machines.
func (c *chooser) shared(demand past, request, memory int64) float64 {
	return c.in.Prices.of(float64(request), float64(memory)) * c.mean(demand, c.in.Speed, request, 1)
}

// mean is how many machines replicas of a request take on average over some demand, so many on
// each.
func (c *chooser) mean(demand past, speed float64, request, each int64) (mean float64) {
	supply := speed * float64(request)
	least, most := float64(max(c.in.Least, 1)), float64(c.in.Most)
	for i, d := range demand.values {
		replicas := math.Min(math.Max(math.Ceil(c.needs(d)/supply-1e-9), least), most)
		mean += demand.shares[i] * math.Ceil(replicas/float64(each))
	}
	return mean
}

// machines is what the machines cost that replicas of a request take, of the kind that is the
// cheapest for them, without anybody else on them: USD per hour.
func (c *chooser) machines(demand past, request, memory int64) (cost float64, ok bool) {
	pod := c.in.Sizing.Pod(api.Amounts{MilliCPU: request, Memory: memory})
	cost = math.Inf(1)
	for _, m := range c.in.Machines {
		if m.Price <= 0 || m.Speed <= 0 || pod.MilliCPU <= 0 {
			continue
		}
		each := m.Room.MilliCPU / pod.MilliCPU
		if pod.Memory > 0 {
			each = min(each, m.Room.Memory/pod.Memory)
		}
		if each > 0 {
			cost = math.Min(cost, m.Price*c.mean(demand, m.Speed, request, each))
		}
	}
	return cost, !math.IsInf(cost, 1)
}

// byMachines says why whole machines were counted, where that is a good part of the cost.
func (c *chooser) byMachines() string {
	if c.in.Alone < 0.1 || !slices.ContainsFunc(c.in.Machines, func(m Machine) bool { return m.Price > 0 }) {
		return ""
	}
	return fmt.Sprintf(", by whole machines, as %.0f %% of what pods request is its own", 100*c.in.Alone)
}

// requestsTried are the requests of a replica that are compared, millicores, the largest first: so
// many between one and twice of it, and those that fill a machine where it is alone on some.
func (c *chooser) requestsTried(largest, least float64) []float64 {
	least = math.Max(least, cpuStep)
	out := []float64{largest}
	for i := 1; ; i++ {
		r := largest * math.Exp2(-float64(i)/finer)
		if r < least {
			break
		}
		out = append(out, r)
	}
	if c.in.Alone <= 0 {
		return out
	}
	rounding := int64(cpuStep * (len(c.in.Sizing.Containers) - 1)) // each container's share is rounded up
	for _, m := range c.in.Machines {
		for each := int64(1); ; each++ {
			r := (m.Room.MilliCPU/each - c.in.Sizing.Beside.MilliCPU - rounding) / cpuStep * cpuStep
			if float64(r) < least {
				break
			}
			if float64(r) <= largest {
				out = append(out, float64(r))
			}
		}
	}
	slices.SortFunc(out, func(a, b float64) int { return cmp.Compare(b, a) })
	return out
}

// choice is a request of a replica, millicores, with what it costs, and what it would cost if others
// were everywhere, both as of costOf.
type choice struct {
	request      int64
	cost, shared float64
}

func (c *chooser) choice(demand past, request int64) choice {
	memory := requests(c.now).Memory
	return choice{request, c.costOf(demand, request, memory), c.shared(demand, request, memory)}
}

// cheapest is the request that costs the least. Of those that are as good within a part of what a
// change must be worth, one that leaves the most of machines to others, and of those the largest:
// fewer and larger pods have more to lend one another.
func (c *chooser) cheapest(demand past, least float64, authors int64) choice {
	var all []choice
	cost, shared := math.Inf(1), math.Inf(1)
	for _, r := range c.requestsTried(math.Max(float64(authors), least), least) {
		request := sum(c.split(r))
		if n := len(all); n > 0 && all[n-1].request <= request {
			continue // bounds leave nothing larger, or nothing smaller
		}
		k := c.choice(demand, request)
		all = append(all, k)
		cost = math.Min(cost, k.cost)
	}
	as := func(cost float64) float64 { return cost * (1 + c.Worth/2) }
	for _, k := range all {
		if k.cost <= as(cost) {
			shared = math.Min(shared, k.shared)
		}
	}
	at := slices.IndexFunc(all, func(k choice) bool { return k.cost <= as(cost) && k.shared <= as(shared) })
	return all[max(at, 0)]
}

// split divides a replica's CPU request among its containers by what they use, or by what
// their author thought where that isn't known. No container gets less than what it must
// have.
func (c *chooser) split(request float64) []int64 {
	containers := c.in.Sizing.Containers
	out := make([]int64, len(containers))
	known := true
	for _, u := range containers {
		known = known && (!controlled(u) || u.CPUMean > 0)
	}
	var all, fixed float64
	weight := func(u api.ContainerUse) float64 {
		if known {
			return float64(u.CPUMean)
		}
		return float64(u.Requests.MilliCPU)
	}
	for _, u := range containers {
		if controlled(u) {
			all += weight(u)
		} else {
			fixed += float64(u.Requests.MilliCPU)
		}
	}
	for i, u := range containers {
		if !controlled(u) {
			out[i] = u.Requests.MilliCPU
			continue
		}
		floor := int64(leastCPU)
		if c.lowersCPULimit(u) {
			floor = max(floor, u.CPUPeak)
		}
		share := roundUp(math.Max(request-fixed, 0)*weight(u)/all, cpuStep)
		lower, upper := c.allowed(u)
		out[i] = within(max(share, floor), lower.MilliCPU, upper.MilliCPU)
	}
	return out
}

func sum(of []int64) (total int64) {
	for _, v := range of {
		total += v
	}
	return total
}

// assign gives a replica so much CPU.
func (c *chooser) assign(request float64, why string) {
	for i, milli := range c.split(request) {
		plan := &c.now[i]
		if milli == plan.Requests.MilliCPU {
			continue
		}
		plan.Requests.MilliCPU = milli
		if plan.Requests.Memory != c.was[i].Requests.Memory {
			plan.Reason += "; " + why
		} else {
			plan.Reason = why
		}
	}
}

// money is what the sizes cost beside the author's, where demand of the past is known.
func (c *chooser) money() {
	if c.in.Time.Sub(c.m.Priced) < c.Look {
		return
	}
	c.m.Priced = c.in.Time
	authors, have := c.template(), requests(c.now)
	if !(c.in.Headroom > 0) || !(c.in.Speed > 0) || c.in.Most < 1 || authors.MilliCPU <= 0 || have.MilliCPU <= 0 {
		return
	}
	demand := c.past()
	if len(demand.values) == 0 {
		return
	}
	c.m.Cost = c.costOf(demand, authors.MilliCPU, authors.Memory)
	c.m.Saving = c.m.Cost - c.costOf(demand, have.MilliCPU, have.Memory)
}
