package node

import (
	"cmp"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// FFD packs by First Fit Decreasing: shapes in decreasing order of dominant
// share, each put into the first open nodes with room, as many copies at once
// as fit. It takes shapes × nodes steps however many pods there are.
//
// A new node is of the type on which one pod of the shape costs least when the
// node is filled with it; equally cheap types take turns, so that zones stay
// level. In the end every node becomes the cheapest type that holds its pods.
type FFD struct{}

// Name is "ffd".
func (FFD) Name() string { return "ffd" }

// Solve packs p in one pass; the budget does not bind it.
func (FFD) Solve(p Problem, _ api.Budget) (Packing, error) {
	if err := p.Validate(); err != nil {
		return Packing{}, err
	}
	return compile(p).ffd(), nil
}

// open is a node being filled.
type open struct {
	typ  int
	free []int64
	pods []Share
}

func (c compiled) ffd() Packing {
	k := Packing{Solver: FFD{}.Name(), Unplaced: make([]int32, len(c.Items)), Complete: true}
	var nodes []open
	opened := make([]int32, len(c.Types))
	for _, i := range c.largestFirst() {
		left := c.Items[i].Count
		put := func(n *open) {
			fit := min(copies(c.requests[i], n.free), int64(left))
			if most := c.Items[i].MaxPerNode; most > 0 {
				fit = min(fit, int64(most))
			}
			if fit > 0 {
				take(n.free, c.requests[i], fit)
				n.pods = append(n.pods, Share{Item: i, Count: int32(fit)})
				left -= int32(fit)
			}
		}
		for n := range nodes {
			if left == 0 {
				break
			}
			k.Iterations++
			if c.allowed[i][nodes[n].typ] {
				put(&nodes[n])
			}
		}
		for left > 0 {
			k.Iterations++
			t := c.typeFor(i, left, opened)
			if t < 0 {
				break
			}
			opened[t]++
			nodes = append(nodes, open{typ: t, free: slices.Clone(c.capacity[t])})
			put(&nodes[len(nodes)-1])
		}
		k.Unplaced[i] = left
	}
	c.downsize(nodes, opened)
	c.finish(&k, nodes)
	return k
}

// typeFor is the type to open for an item of which left pods remain; −1 when
// there is none.
func (c compiled) typeFor(i int, left int32, opened []int32) int {
	best, bestCost := -1, 0.0
	for t, ok := range c.allowed[i] {
		if !ok || c.full(t, opened) {
			continue
		}
		fit := copies(c.requests[i], c.capacity[t])
		if most := int64(c.Items[i].MaxPerNode); most > 0 {
			fit = min(fit, most)
		}
		cost := c.price(t) / float64(min(fit, int64(left)))
		if best < 0 || cost < bestCost || cost == bestCost && opened[t] < opened[best] {
			best, bestCost = t, cost
		}
	}
	return best
}

func (c compiled) full(t int, opened []int32) bool {
	return c.Types[t].Max != Unlimited && opened[t] >= c.Types[t].Max
}

// downsize turns every node into the cheapest type that holds its pods.
func (c compiled) downsize(nodes []open, opened []int32) {
	for n := range nodes {
		from := nodes[n].typ
		used := slices.Clone(c.capacity[from])
		take(used, nodes[n].free, 1)
		best := from
		for t := range c.Types {
			if c.price(t) >= c.price(best) || c.full(t, opened) || copies(used, c.capacity[t]) == 0 ||
				slices.ContainsFunc(nodes[n].pods, func(s Share) bool { return !c.allowed[s.Item][t] }) {
				continue
			}
			best = t
		}
		if best != from {
			opened[from]--
			opened[best]++
			nodes[n].typ = best
		}
	}
}

// finish groups equal nodes and fills in what follows from them.
func (c compiled) finish(k *Packing, nodes []open) {
	for n := range nodes {
		slices.SortFunc(nodes[n].pods, func(a, b Share) int { return cmp.Compare(a.Item, b.Item) })
	}
	compare := func(a, b open) int {
		return cmp.Or(
			cmp.Compare(a.typ, b.typ),
			slices.CompareFunc(a.pods, b.pods, func(x, y Share) int {
				return cmp.Or(cmp.Compare(x.Item, y.Item), -cmp.Compare(x.Count, y.Count))
			}),
		)
	}
	slices.SortStableFunc(nodes, compare)
	for n := range nodes {
		if n > 0 && compare(nodes[n-1], nodes[n]) == 0 {
			k.Loads[len(k.Loads)-1].Nodes++
		} else {
			k.Loads = append(k.Loads, Load{Type: nodes[n].typ, Nodes: 1, Pods: nodes[n].pods})
		}
		k.Cost += c.Types[nodes[n].typ].Price
	}
	k.LowerBound = min(c.lowerBound(k.Unplaced), k.Cost)
	k.Optimal = k.Optimal || !slices.ContainsFunc(k.Unplaced, func(n int32) bool { return n > 0 }) && k.Cost <= k.LowerBound
}
