//go:build lpsolve

package node

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/draffensperger/golp"

	"github.com/mash2-io/mash2/api"
)

const haveILP = true

// ilp solves the assignment problem of the MAS-H² paper (eq. 4):
//
//	minimise   Σ_n c_n·y_n
//	subject to Σ_n x_pn = 1                for every pod p
//	           Σ_p r_pd·x_pn ≤ R_nd·y_n    for every node n and resource d
//
// with y_n whether node n is used. Identical pods are added up: x_pn is an
// integer per item instead of a bit per pod, which is the same problem without
// its symmetry between them. Nodes of one type are used in order, and no more
// of them are offered than a packing cheaper than FFD's could use.
//
// What it calls optimal is lp_solve's word, which in about one of 20,000 small
// problems is wrong by a node. It is never dearer than FFD's.
//
// It is a formulation for small instances: beyond its limits, and when it is
// cut off without a better packing, FFD's packing is returned with Fallback
// saying so.
type ilp struct{ limits Limits }

// quickColumns is a size up to which lp_solve takes milliseconds. Above it, a
// packing that is proven optimal by its bound is not proven again.
const quickColumns = 250

// leastShare is the share of a node below which lp_solve is not told what a pod
// asks for: its own tolerances are 1e-9 for values and 1e-7 for integers.
const leastShare = 1e-6

func newILP(l Limits) (Solver, error) { return ilp{l}, nil }

// Name is "ilp".
func (ilp) Name() string { return ilpName }

// Solve packs p. lp_solve offers no bound on its iterations, so the budget does
// not bind it: the limits do.
func (s ilp) Solve(p Problem, _ api.Budget) (Packing, error) {
	if err := p.Validate(); err != nil {
		return Packing{}, err
	}
	c := compile(p)
	ffd := c.ffd()
	fallback := func(format string, args ...any) (Packing, error) {
		ffd.Fallback = ilpName + ": " + fmt.Sprintf(format, args...)
		return ffd, nil
	}

	m := c.model(ffd)
	switch {
	case len(m.items) == 0:
		ffd.Solver = ilpName // nothing to decide
		return ffd, nil
	case m.unbounded:
		return fallback("pods left over with no bound on the nodes")
	case m.columns() > s.limits.Variables:
		return fallback("%d variables, limit %d", m.columns(), s.limits.Variables)
	case len(m.nodes) == 0:
		return fallback("no nodes to pack onto")
	case ffd.Optimal && m.columns() > quickColumns:
		return fallback("FFD's packing is optimal already")
	}
	solution, x := m.solve(s.limits.Time)
	switch solution {
	case golp.OPTIMAL, golp.SUBOPTIMAL:
	case golp.INFEASIBLE:
		return fallback("not all pods can be placed")
	case golp.TIMEOUT:
		return fallback("no packing within %s", s.limits.Time)
	default:
		return fallback("lp_solve: %s", solution)
	}

	k := Packing{Solver: ilpName, Unplaced: slices.Clone(m.unplaced), Complete: solution != golp.SUBOPTIMAL}
	k.Optimal = k.Complete
	c.finish(&k, m.read(x))
	if err := p.Check(k); err != nil { // a rounding error of lp_solve's
		return fallback("packing refused: %v", err)
	}
	switch {
	case !k.Complete && !better(k, ffd):
		return fallback("nothing better within %s", s.limits.Time)
	case better(ffd, k): // its tolerances again: what it calls optimal is not
		return fallback("lp_solve found a cost of %v, FFD %v", k.Cost, ffd.Cost)
	}
	return k, nil
}

// model is the integer program: columns x of items × nodes, then y of nodes.
type model struct {
	compiled
	items     []int   // that fit some type
	nodes     []int   // type of each node offered, in order of type
	unplaced  []int32 // what fits no type
	unbounded bool    // the number of nodes to offer is not known
}

func (c compiled) model(ffd Packing) model {
	m := model{compiled: c, unplaced: make([]int32, len(c.Items))}
	leftover := false
	pods := int64(0)
	for i, it := range c.Items {
		switch {
		case it.Count == 0:
		case !slices.Contains(c.allowed[i], true):
			m.unplaced[i] = it.Count
		default:
			m.items = append(m.items, i)
			pods += int64(it.Count)
			leftover = leftover || ffd.Unplaced[i] > 0
		}
	}
	cost := 0.0 // of FFD's packing, in the prices that decide
	for _, l := range ffd.Loads {
		cost += float64(l.Nodes) * c.price(l.Type)
	}
	for t, typ := range c.Types {
		offer := pods
		if !leftover && c.price(t) > 0 {
			offer = min(offer, int64(math.Floor(cost/c.price(t)+1e-9)))
		}
		if typ.Max != Unlimited {
			offer = min(offer, int64(typ.Max))
		} else if leftover {
			m.unbounded = true
		}
		// A model much too large is not built: its size alone is told.
		offer = min(offer, 1<<16)
		m.nodes = slices.Grow(m.nodes, int(offer))
		for range offer {
			m.nodes = append(m.nodes, t)
		}
	}
	return m
}

func (m model) columns() int     { return (len(m.items) + 1) * len(m.nodes) }
func (m model) x(row, n int) int { return row*len(m.nodes) + n }
func (m model) y(n int) int      { return len(m.items)*len(m.nodes) + n }
func (m model) most(i, t int) int64 {
	n := min(copies(m.requests[i], m.capacity[t]), int64(m.Items[i].Count))
	if per := m.Items[i].MaxPerNode; per > 0 {
		n = min(n, int64(per))
	}
	return n
}

func (m model) solve(limit time.Duration) (golp.SolutionType, []float64) {
	lp := golp.NewLP(0, m.columns())
	lp.SetTimeout(max(1, int(math.Ceil(limit.Seconds()))))
	objective := make([]float64, m.columns())
	var all []golp.Entry
	for n, t := range m.nodes {
		objective[m.y(n)] = m.price(t)
		if m.price(t) > 0 {
			all = append(all, golp.Entry{Col: m.y(n), Val: m.price(t)})
		}
		lp.SetBinary(m.y(n), true)
		for row, i := range m.items {
			lp.SetInt(m.x(row, n), true)
			bound := 0.0
			if m.allowed[i][t] {
				bound = float64(m.most(i, t))
			}
			lp.SetBounds(m.x(row, n), 0, bound)
		}
	}
	lp.SetObjFn(objective)

	// AddConstraintSparse always returns nil, and panics on an empty row.
	add := func(row []golp.Entry, kind golp.ConstraintType, right float64) {
		if len(row) > 0 {
			_ = lp.AddConstraintSparse(row, kind, right)
		}
	}
	for row, i := range m.items {
		var every []golp.Entry
		for n, t := range m.nodes {
			if m.allowed[i][t] {
				every = append(every, golp.Entry{Col: m.x(row, n), Val: 1})
			}
		}
		add(every, golp.EQ, float64(m.Items[i].Count))
	}
	for n, t := range m.nodes {
		for d := range m.capacity[t] {
			var used []golp.Entry
			for row, i := range m.items {
				// As shares of the node: bytes beside millicores would be
				// beyond lp_solve's tolerances, and so are the least of shares:
				// without them an optimum that passes Check is one all the same.
				share := float64(m.requests[i][d]) / float64(m.capacity[t][d])
				if share > leastShare && m.allowed[i][t] {
					used = append(used, golp.Entry{Col: m.x(row, n), Val: share})
				}
			}
			if len(used) > 0 {
				add(append(used, golp.Entry{Col: m.y(n), Val: -1}), golp.LE, 0)
			}
		}
		for row, i := range m.items { // pods that ask for nothing need a node too
			if m.allowed[i][t] {
				add([]golp.Entry{{Col: m.x(row, n), Val: 1}, {Col: m.y(n), Val: -float64(m.most(i, t))}}, golp.LE, 0)
			}
		}
		if n > 0 && m.nodes[n-1] == t {
			add([]golp.Entry{{Col: m.y(n - 1), Val: 1}, {Col: m.y(n), Val: -1}}, golp.GE, 0)
		}
	}
	if bound := m.lowerBound(m.unplaced); bound > 0 {
		add(all, golp.GE, bound*(1-1e-9))
	}
	solution := lp.Solve()
	return solution, lp.Variables()
}

// read turns a solution into nodes.
func (m model) read(x []float64) []open {
	var nodes []open
	for n, t := range m.nodes {
		var pods []Share
		for row, i := range m.items {
			if count := int32(math.Round(x[m.x(row, n)])); count > 0 {
				pods = append(pods, Share{Item: i, Count: count})
			}
		}
		if len(pods) > 0 {
			nodes = append(nodes, open{typ: t, pods: pods})
		}
	}
	return nodes
}
