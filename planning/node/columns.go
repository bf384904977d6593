package node

import (
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node/packing"
)

// Columns packs by column generation: see package packing. It never does worse
// than FFD, whose packing it starts from.
type Columns struct{}

// columnsName is the Solver of packings that column generation found.
const columnsName = "columns"

const (
	// stepsPerIteration of a budget: about a quarter of a millisecond.
	stepsPerIteration = 100_000
	// defaultIterations is the budget when none is given: a few seconds at most.
	defaultIterations = 20_000
	// goodEnough is the relative gap at which the search ends.
	goodEnough = 1e-4
)

// Name is "auto".
func (Columns) Name() string { return Auto }

// Solve packs p within b.Iterations, each of a hundred thousand elementary
// steps; 0 takes twenty thousand. The same problem and budget give the same
// packing on any machine of one architecture.
func (s Columns) Solve(p Problem, b api.Budget) (Packing, error) {
	k, _, err := s.SolveFrom(p, b, Patterns{})
	return k, err
}

// Patterns of a packing problem, by the names of its items and types: what
// nodes may hold, and what a pod of each item is worth. A similar problem is
// solved faster from them. The zero value has none.
type Patterns struct {
	list  []namedPattern
	worth map[string]float64
}

type namedPattern struct {
	typ  string
	pods map[string]int32
	// nodes of the packing that hold this; 0 of a pattern that may come in useful.
	nodes int32
}

// SolveFrom is Solve that starts from patterns of a similar problem, and
// returns those of this one. Patterns that no longer fit lose pods. A packing that
// violates the problem is never returned: FFD's is, with Fallback saying why.
func (Columns) SolveFrom(p Problem, b api.Budget, from Patterns) (Packing, Patterns, error) {
	if err := p.Validate(); err != nil {
		return Packing{}, from, err
	}
	c := compile(p)
	ffd := c.ffd()
	if ffd.Optimal || len(p.Types) == 0 {
		return ffd, from, nil
	}
	if b.Iterations <= 0 {
		b.Iterations = defaultIterations
	}
	unplaceable := make([]int32, len(p.Items))
	for i := range p.Items {
		if !c.runs(i) {
			unplaceable[i] = p.Items[i].Count
		}
	}
	alike := c.classes(unplaceable)
	used, patterns, worth := alike.known(from)
	found := packing.Solve(&alike.Problem, packing.Settings{
		Work: int64(b.Iterations) * stepsPerIteration, Gap: goodEnough, Loads: used, Patterns: patterns, Worth: worth,
	})
	k := Packing{Solver: columnsName, Complete: found.Complete, Iterations: ffd.Iterations + int(found.Work/stepsPerIteration)}
	var nodes []open
	nodes, k.Unplaced = alike.members(found)
	c.finish(&k, nodes)
	if err := p.Check(k); err != nil {
		ffd.Fallback = columnsName + ": packing refused: " + err.Error()
		return ffd, Patterns{}, nil //nolint:nilerr // Fallback says it
	}
	if !c.free() && sum(k.Unplaced) == sum(unplaceable) {
		k.bound(found.Bound)
	}
	if !better(k, ffd) {
		if sum(ffd.Unplaced) == sum(k.Unplaced) {
			ffd.bound(k.LowerBound)
		}
		ffd.Complete, ffd.Iterations = k.Complete, k.Iterations
		return ffd, alike.named(found), nil
	}
	return k, alike.named(found), nil
}

// bound raises the lower bound to one that is proven.
func (p *Packing) bound(proven float64) {
	p.LowerBound = min(max(p.LowerBound, proven), p.Cost)
	p.Optimal = p.Optimal || sum(p.Unplaced) == 0 && p.Cost <= p.LowerBound*(1+1e-12)
}

// better compares packings: fewer pods unplaced, then lower cost beyond what sums
// are rounded by.
func better(a, b Packing) bool {
	if x, y := sum(a.Unplaced), sum(b.Unplaced); x != y {
		return x < y
	}
	return a.Cost < b.Cost*(1-1e-12)
}

func sum(counts []int32) (n int64) {
	for _, c := range counts {
		n += int64(c)
	}
	return n
}
