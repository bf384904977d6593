package node

import (
	"cmp"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node/packing"
)

// FFD packs by First Fit Decreasing: shapes in decreasing order of dominant
// share, each put into the first open nodes with room, as many copies at once
// as fit: see packing.FirstFit. It takes shapes × nodes steps however many pods
// there are.
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
	pods []Share
}

func (c compiled) ffd() Packing {
	found := packing.FirstFit(c.vectors())
	k := Packing{Solver: FFD{}.Name(), Unplaced: found.Unplaced, Complete: true, Iterations: int(found.Work)}
	for _, l := range found.Loads {
		load := Load{Type: l.Bin, Nodes: l.Bins}
		for _, s := range l.Shares {
			load.Pods = append(load.Pods, Share(s))
		}
		k.Loads = append(k.Loads, load)
	}
	c.account(&k)
	return k
}

func (c compiled) full(t int, opened []int32) bool {
	return c.Types[t].Max != Unlimited && opened[t] >= c.Types[t].Max
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
	}
	c.account(k)
}

// account fills in cost, bound and optimality.
func (c compiled) account(k *Packing) {
	k.Cost = 0
	for _, l := range k.Loads {
		k.Cost += float64(l.Nodes) * c.Types[l.Type].Price
	}
	k.LowerBound = min(c.lowerBound(k.Unplaced), k.Cost)
	k.Optimal = k.Optimal || sum(k.Unplaced) == 0 && k.Cost <= k.LowerBound
}
