package planning

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
)

// choose returns the index of the candidate to take, −1 if there is none.
//
// Workloads stay on the pools they are on until staying has cost as much as a
// move would: the rule for renting or buying that is never more than twice as
// dear as knowing the future (Karlin et al. 1988, "Competitive snoopy caching").
// A change of policy, or a pool that can't hold what another can, is no time to wait.
func (c *cycle) choose(candidates []candidate) int {
	best := bestBut(candidates, -1)
	if best < 0 || len(candidates[best].to.pools) == 0 {
		return best
	}
	if c.before.Policy != "" && (c.before.Policy != c.p.Name || c.before.Weights != c.p.Weights) {
		return best // a new policy chooses afresh
	}
	stay := c.staying(candidates)
	if stay < 0 || choice.Places(candidates[best].result.Best, candidates[stay].result.Best) < 0 {
		return best
	}
	if c.anyRestricted() {
		// Who is moved by itself takes nobody along: two pools cost more than one, and the
		// others would follow.
		return stay
	}
	other := bestBut(candidates, stay)
	if other < 0 {
		return best
	}
	k := &candidates[other]
	if choice.Places(k.result.Best, candidates[stay].result.Best) > 0 {
		// What it would cost says nothing: it has no place for all that have one now.
		c.memory.Better = c.before.Better
		c.memory.Better.At = c.s.Time
		return best
	}
	gain := k.result.Best.Utility.Total - candidates[stay].result.Best.Utility.Total
	regret := 0.0
	if before := c.before.Better; !before.At.IsZero() {
		// Wherever it was better: which of many is best may change with the load, and what
		// is lost without any of them adds up.
		since := min(max(c.s.Time.Sub(before.At), 0), 4*c.Config.CyclePeriod)
		regret = max(0, before.Regret+(gain-c.Config.SwitchMargin)*since.Seconds())
	}
	c.memory.Better = Better{Assignment: k.to.name(), Regret: regret, At: c.s.Time}
	price := c.movePrice(k)
	switch {
	case best == stay:
		return best
	case gain <= c.Config.SwitchMargin:
		k.note = fmt.Sprintf("better by %.4f, less than the margin of %.4f for moving", gain, c.Config.SwitchMargin)
		return stay
	case regret < price:
		k.note = fmt.Sprintf("better by %.4f; a move waits until staying has cost what it would: %.0f %% of it so far", gain, 100*regret/price)
		return stay
	}
	c.memory.Better = Better{}
	return best
}

// movePrice is what U loses by paying for two sets of nodes while pods move to a
// candidate's, times seconds. Where workloads stay on their pools, and only go to spot
// machines besides or leave these, or some of them go to another one, it is for the nodes
// that aren't there yet.
func (c *cycle) movePrice(k *candidate) float64 {
	var takes time.Duration
	hourly := 0.0
	home := c.home()
	stays := !slices.ContainsFunc(c.indexes(), func(i int) bool {
		at, known := home[c.managed[i].workload.Key]
		return known && k.to.pool(i).Name != at
	})
	for p, pool := range k.to.pools {
		w := c.Config.windows(c.s.PodStartup, pool.NodeStartup)
		takes = max(takes, w.Node+2*w.Pod) // nodes boot, pods start there, pods stop here
		nodes := k.result.Best.Nodes[p]
		if stays || c.mixes() {
			nodes = max(nodes-pool.Nodes(), 0)
		}
		hourly += float64(nodes) * pool.Price
	}
	return c.p.Weights.Cost * hourly / k.problem.Reference * takes.Seconds()
}

// bestBut is the index of the best candidate other than one, −1 without one that could be
// planned.
func bestBut(candidates []candidate, other int) int {
	best := -1
	for i := range candidates {
		if i != other && candidates[i].err == nil && (best < 0 || choice.Ranks(candidates[i].result.Best, candidates[best].result.Best) < 0) {
			best = i
		}
	}
	return best
}

// staying is the index of the candidate that leaves workloads where they are, −1
// without one that could be planned, or if that isn't known.
func (c *cycle) staying(candidates []candidate) int {
	home := c.home()
	if len(home) == 0 {
		return -1
	}
	best := -1
	for i := range candidates {
		if k := &candidates[i]; k.err == nil && c.stays(k, home) &&
			(best < 0 || c.anyRestricted() && choice.Ranks(k.result.Best, candidates[best].result.Best) < 0) {
			best = i
		}
	}
	return best
}

// stays reports whether a candidate leaves workloads where they are, but for those that
// are moved by themselves.
func (c *cycle) stays(k *candidate, home map[api.Key]string) bool {
	stay := 0
	for i := range c.managed {
		at, known := home[c.managed[i].workload.Key]
		if !known || c.moves(i, at) {
			continue
		}
		spot := ""
		if p := k.to.spotPool(i); p != nil {
			spot = p.Name
		}
		before := c.managed[i].memory.Spot
		if k.to.pool(i).Name != at || spot != before && c.spottable(i, c.pool(cmp.Or(spot, before))) {
			return false
		}
		stay++
	}
	return stay > 0
}

// home are the pools that workloads are on: those last chosen, or else, for all of
// them, the one where most of their pods are.
func (c *cycle) home() map[api.Key]string {
	home := map[api.Key]string{}
	for i := range c.managed {
		// What new pods are seen to prefer is the plan of who ran before.
		if mw := &c.managed[i]; mw.memory.Pool != "" || mw.workload.PlacedOn != "" {
			home[mw.workload.Key] = cmp.Or(mw.memory.Pool, mw.workload.PlacedOn)
		}
	}
	if len(home) > 0 {
		return home
	}
	pool := make(map[string]string, len(c.s.Nodes))
	for _, n := range c.s.Nodes {
		pool[n.Name] = n.Pool
	}
	count := map[string]int{}
	for _, mw := range c.managed {
		if mw.workload.Mode != api.ModeFull {
			continue
		}
		for _, pod := range mw.pods {
			if name := pool[pod.Node]; name != "" && !pod.Terminating {
				count[name]++
			}
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if best == "" || count[name] > count[best] {
			best = name
		}
	}
	if best != "" {
		for i := range c.managed {
			home[c.managed[i].workload.Key] = best
		}
	}
	return home
}
