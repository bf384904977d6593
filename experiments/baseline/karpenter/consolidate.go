package karpenter

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Command is one disruption: nodes to be removed, and the types of the machines that
// must be Ready before, one at most.
type Command struct {
	Remove []string
	Launch []int
}

// Consolidate decides what is disrupted: of the three methods, in Karpenter's order,
// the first that finds something. It has to be decided anew after ConsolidationTTL,
// with Holds, before it is carried out.
func Consolidate(now time.Duration, v View, s Settings) (Command, bool) {
	allowed := budget(v, s)
	if allowed <= 0 {
		return Command{}, false
	}
	candidates := candidatesOf(now, v, s)
	if empty := emptyOf(candidates); len(empty) > 0 {
		return Command{Remove: names(empty[:min(allowed, len(empty))])}, true
	}
	sim := newScheduling(v)
	if c, ok := several(v, sim, candidates[:min(allowed, len(candidates), 100)]); ok {
		return c, true
	}
	for _, n := range candidates {
		if c, ok := consolidation(v, sim, []*Node{n}); ok {
			return c, true
		}
	}
	return Command{}, false
}

// Holds tells whether a command is still right: its nodes may be disrupted, as many
// at once, and their pods still have where to go without a dearer machine than the
// command launches.
func Holds(now time.Duration, v View, s Settings, c Command) bool {
	if len(c.Remove) > budget(v, s) {
		return false
	}
	var found []*Node
	for _, n := range candidatesOf(now, v, s) {
		if slices.Contains(c.Remove, n.Name) {
			found = append(found, n)
		}
	}
	if len(found) < len(c.Remove) {
		return false
	}
	if len(emptyOf(found)) == len(found) && len(c.Launch) == 0 {
		return true
	}
	again, ok := consolidation(v, newScheduling(v), found)
	if !ok || len(again.Launch) > len(c.Launch) {
		return false
	}
	for i, t := range again.Launch {
		if v.Types[t].Price > v.Types[c.Launch[i]].Price {
			return false
		}
	}
	return len(again.Launch) == len(c.Launch)
}

// budget is how many nodes may be disrupted now: a share of those there are, less
// those that are leaving.
func budget(v View, s Settings) int {
	all, gone := 0, 0
	for _, n := range v.Nodes {
		switch {
		case n.Deleting:
			all, gone = all+1, gone+1
		case n.Ready:
			all++
		}
	}
	return int(math.Ceil(s.Budget*float64(all)-1e-9)) - gone
}

// candidatesOf are the nodes that may be consolidated, those whose disruption costs
// least first: with the fewest pods, all pods being worth the same.
func candidatesOf(now time.Duration, v View, s Settings) []*Node {
	var out []*Node
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Ready && !n.Deleting && now-n.Changed >= s.ConsolidateAfter {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b *Node) int { return cmp.Compare(len(a.Pods), len(b.Pods)) })
	return out
}

func emptyOf(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if len(n.Pods) == 0 {
			out = append(out, n)
		}
	}
	return out
}

func names(nodes []*Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return out
}

// several seeks the longest beginning of candidates, two at least, that can be
// consolidated at once, by bisection as Karpenter does (firstNConsolidationOption).
func several(v View, sim *scheduling, candidates []*Node) (Command, bool) {
	var best Command
	found := false
	for low, high := 1, len(candidates)-1; low <= high; {
		middle := (low + high) / 2
		c, ok := consolidation(v, sim, candidates[:middle+1])
		if ok {
			best, found, low = c, true, middle+1
		} else {
			high = middle - 1
		}
	}
	return best, found
}

// differing leaves the types that may replace several nodes at once: where one of
// them is of a type that would do, only cheaper ones, for keeping that node and
// deleting the others does as well (filterOutSameType).
func differing(v View, options []int, candidates []*Node) []int {
	limit := math.Inf(1)
	for _, n := range candidates {
		if slices.Contains(options, n.Type) {
			limit = min(limit, v.Types[n.Type].Price)
		}
	}
	return cheaper(v, options, limit)
}

func cheaper(v View, types []int, than float64) []int {
	var out []int
	for _, t := range types {
		if v.Types[t].Price < than {
			out = append(out, t)
		}
	}
	return out
}

// consolidation removes nodes if their pods fit on the others, or on these and one
// machine that is cheaper than they are together (computeConsolidation).
func consolidation(v View, s *scheduling, candidates []*Node) (Command, bool) {
	price := 0.0
	pods, own := slices.Clone(v.Pending), map[*Pod]bool{}
	for _, n := range candidates {
		price += v.Types[n.Type].Price
		pods = append(pods, n.Pods...)
		for _, p := range n.Pods {
			own[p] = true
		}
	}
	s.begin(candidates)
	possible := true
	s.solve(append(pods, s.leaving...), func(p *Pod, is outcome) bool {
		possible = len(s.claims) < 2 && (is == placed || !own[p])
		return possible
	})
	if !possible {
		return Command{}, false
	}
	c := Command{Remove: names(candidates)}
	if len(s.claims) == 1 {
		options := cheaper(v, s.claims[0].options, price)
		if len(candidates) > 1 {
			options = differing(v, options, candidates)
		}
		if len(options) == 0 {
			return Command{}, false
		}
		c.Launch = []int{s.cheapest(options)}
	}
	return c, true
}
