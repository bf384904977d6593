package packing

import (
	"math"
	"slices"
)

// Tolerances of the master's simplex. Demands are pods, costs are scaled so
// that the dearest bin costs one.
const (
	costTol  = 1e-9 // a reduced cost above −costTol is none
	pivotTol = 1e-8 // a smaller pivot is refused
	feasTol  = 1e-7 // a basic variable above −feasTol is not negative

	// Relative perturbations: of costs against stalling of the dual method, of
	// right-hand sides against stalling of the primal one.
	costShift = 1e-5
	rhsShift  = 1e-4

	refactorAfter = 100 // replacements after which the basis is factorised afresh
	refreshUpTo   = 50  // replacements up to which its factors are exact enough to prove an optimum
)

// master is the linear program over the columns found so far,
//
//	minimise   Σ_p c_p·x_p
//	subject to Σ_p a_ip·x_p ≥ demand_i      for every item i
//	           Σ_p b_kp·x_p ≤ limit_k       for every limit k
//	           x ≥ 0
//
// solved by the revised simplex method on a factorised basis. New columns
// start from the last basis by the primal method; new right-hand sides (a dive's
// residual demands) keep the basis dual feasible and start by the dual method.
//
// Against cycling on degenerate vertices, right-hand sides and costs are
// perturbed by different tiny amounts. Bounds do not depend on it: any duals
// prove one, against the true costs and demands.
type master struct {
	rows   int
	covers int // the first rows are ≥, the rest ≤
	cols   []column
	start  []int32 // of each column's entries, and their end
	index  []int32 // rows of entries
	value  []float64
	d, w   []float64 // reduced costs and weights (devex) of the columns, while solving
	rhs    []float64 // as asked for
	shift  []float64 // perturbation of rhs

	inv   basisInverse
	basis []int32   // column per position
	at    []int32   // position per column, −1 for nonbasic
	x     []float64 // of the basis
	y     []float64 // duals

	dir, row []float64 // direction of a column; row of the inverse
	scratch  []float64
	pivots   int
	leftOver float64    // cost of a pod left over
	saved    []*[]int32 // bases to come back to
	seed     uint64
	tol      float64 // reduced costs above −tol are none
}

// column of the master. The first rows columns are the rows' own: a pod left
// over (in rows of items) or an unused limit; then come the surpluses of the
// items' rows; then patterns.
type column struct {
	cost    float64
	entries []entry
	pattern *Pattern // nil for the rows' own
	barred  bool     // holds more of an item than is left of it
	mark    uint64   // of the pattern
}

type entry struct {
	row   int32
	value float64
}

// newMaster starts with every pod left over, at the given cost each.
func newMaster(demand, limits []float64, leftOver float64) *master {
	n := len(demand) + len(limits)
	m := &master{seed: 88172645463325252, start: []int32{0}, leftOver: leftOver,
		tol: costTol, rows: n, covers: len(demand), rhs: slices.Concat(demand, limits), shift: make([]float64, n),
		basis: make([]int32, n), x: make([]float64, n), y: make([]float64, n),
		dir: make([]float64, n), row: make([]float64, n), scratch: make([]float64, n),
	}
	for i := range n {
		cost := 0.0
		if i < m.covers {
			cost = leftOver
		}
		m.add(column{cost: cost, entries: []entry{{int32(i), 1}}})
		m.basis[i], m.at[i] = int32(i), int32(i)
		m.shift[i] = rhsShift * (1 + m.random())
	}
	for i := range m.covers {
		m.add(column{entries: []entry{{int32(i), -1}}})
	}
	m.refactor()
	return m
}

func (m *master) add(c column) {
	c.cost += (c.cost + 0.01) * costShift * m.random()
	m.cols = append(m.cols, c)
	for _, e := range c.entries {
		m.index, m.value = append(m.index, e.row), append(m.value, e.value)
	}
	m.start = append(m.start, int32(len(m.index)))
	m.at = append(m.at, -1)
}

// random is a number below 1, the same ones in every run (xorshift).
func (m *master) random() float64 {
	m.seed ^= m.seed << 13
	m.seed ^= m.seed >> 7
	m.seed ^= m.seed << 17
	return float64(m.seed>>40) / (1 << 24)
}

// resetX computes x from the right-hand side.
func (m *master) resetX() {
	for i := range m.scratch {
		m.scratch[i] = m.rhs[i] + m.shift[i]
	}
	m.inv.ftran(m.scratch, m.x)
}

// values are x without the perturbation, by position.
func (m *master) values() []float64 {
	copy(m.scratch, m.rhs)
	m.inv.ftran(m.scratch, m.dir)
	return m.dir
}

// resetY computes y from the costs.
func (m *master) resetY() {
	for i, j := range m.basis {
		m.scratch[i] = m.cols[j].cost
	}
	m.inv.btran(m.scratch, m.y)
}

func (m *master) reduced(j int) float64 { return m.cols[j].cost - m.times(m.y, j) }

// times is the product of a vector over the rows with column j.
func (m *master) times(v []float64, j int) float64 {
	s := 0.0
	a, b := m.start[j], m.start[j+1]
	value := m.value[a:b]
	for k, row := range m.index[a:b] {
		s += v[row] * value[k]
	}
	return s
}

// direction of column j: the basis' inverse times it.
func (m *master) direction(j int) []float64 {
	clear(m.scratch)
	for _, e := range m.cols[j].entries {
		m.scratch[e.row] = e.value
	}
	m.inv.ftran(m.scratch, m.dir)
	return m.dir
}

// inverseRow is row r of the basis' inverse.
func (m *master) inverseRow(r int) []float64 {
	clear(m.scratch)
	m.scratch[r] = 1
	m.inv.btran(m.scratch, m.row)
	return m.row
}

// enter makes column j basic at position r; dir is its direction, row the row
// of the inverse and d the reduced cost.
func (m *master) enter(j, r int, dir, row []float64, d float64) {
	pivot := dir[r]
	for i, v := range row {
		m.y[i] += d / pivot * v
	}
	step := m.x[r] / pivot
	for i, v := range dir {
		m.x[i] -= v * step
	}
	m.x[r] = step
	m.at[m.basis[r]] = -1
	m.basis[r], m.at[j] = int32(j), int32(r)
	m.inv.replace(r, dir)
	m.inv.work += int64(4 * m.rows)
	m.pivots++
	if len(m.inv.etas) >= refactorAfter {
		m.refactor()
	}
}

// refactor factorises the basis afresh. Columns that depend on others give way
// to rows' own.
func (m *master) refactor() {
	positions, rows := m.inv.factorise(m.rows, func(at int) []entry { return m.cols[m.basis[at]].entries })
	if len(positions) > 0 {
		for n, at := range positions {
			m.at[m.basis[at]] = -1
			m.basis[at] = rows[n]
		}
		for i, j := range m.basis {
			m.at[j] = int32(i)
		}
		m.inv.factorise(m.rows, func(at int) []entry { return m.cols[m.basis[at]].entries })
	}
	m.resetX()
	m.resetY()
}

// refresh computes x and y anew, so that what updates have rounded is forgotten.
func (m *master) refresh() {
	if len(m.inv.etas) > refreshUpTo {
		m.refactor()
		return
	}
	m.resetX()
	m.resetY()
}

// look computes all reduced costs and starts the weights afresh.
func (m *master) look() {
	m.d, m.w = resize(m.d, len(m.cols)), resize(m.w, len(m.cols))
	for j := range m.cols {
		m.d[j], m.w[j] = 0, 1
		if m.at[j] < 0 {
			m.d[j] = m.reduced(j)
		}
	}
	m.inv.work += int64(2*len(m.cols) + len(m.index))
}

// primal improves the basis until no column does; false when the work reached
// its limit first. Columns enter by devex pricing (Forrest and Goldfarb 1992).
func (m *master) primal(limit int64) bool {
	m.look()
	fresh := true
	for {
		enter, rank := -1, 0.0
		for j, d := range m.d {
			if d < -m.tol && d*d > rank*m.w[j] {
				enter, rank = j, d*d/m.w[j]
			}
		}
		if enter < 0 {
			if fresh {
				return true
			}
			m.refresh() // look again with exact duals
			m.look()
			fresh = true
			continue
		}
		if m.inv.work > limit {
			return false
		}
		dir := m.direction(enter)
		d := m.reduced(enter)
		r := -1
		if d < -m.tol {
			r = m.leaving(dir)
		}
		if r < 0 { // no pivot is large enough, or its reduced cost was stale
			m.d[enter] = 0
			continue
		}
		fresh = false
		row := m.inverseRow(r)
		m.update(enter, int(m.basis[r]), d, dir[r], row)
		m.enter(enter, r, dir, row, d)
	}
}

// update carries reduced costs and weights over a pivot.
func (m *master) update(enter, leave int, d, pivot float64, row []float64) {
	f, wq := d/pivot, m.w[enter]/(pivot*pivot)
	for j := range m.cols {
		if m.at[j] >= 0 {
			continue
		}
		if a := m.times(row, j); a != 0 {
			m.d[j] -= f * a
			m.w[j] = max(m.w[j], a*a*wq)
		}
	}
	m.d[enter] = 0
	m.d[leave], m.w[leave] = -f, max(wq, 1)
	m.inv.work += int64(2*len(m.cols) + len(m.index))
}

// leaving is the row that blocks a direction first; among rows that block
// within the tolerance, the one with the largest pivot (Harris).
func (m *master) leaving(dir []float64) int {
	bound := math.Inf(1)
	for i, v := range dir {
		if v > pivotTol {
			bound = min(bound, (max(m.x[i], 0)+feasTol)/v)
		}
	}
	best, most := -1, 0.0
	for i, v := range dir {
		if v > pivotTol && max(m.x[i], 0)/v <= bound && v > most {
			best, most = i, v
		}
	}
	return best
}

// dual makes x nonnegative again after the right-hand side changed; false when
// the work reached its limit or no pivot helps.
func (m *master) dual(limit int64) bool {
	looked := false
	for {
		r, least := -1, -feasTol
		for i, v := range m.x {
			if v < least {
				r, least = i, v
			}
		}
		if r < 0 {
			return true
		}
		if m.inv.work > limit {
			return false
		}
		if !looked {
			m.look()
			looked = true
		}
		row := m.inverseRow(r)
		best, bestRatio, bestPivot := -1, math.Inf(1), 0.0
		for j := range m.cols {
			if m.at[j] >= 0 {
				continue
			}
			a := m.times(row, j)
			if a >= -pivotTol {
				continue
			}
			ratio := max(m.d[j], 0) / -a
			if ratio < bestRatio-costTol || ratio < bestRatio+costTol && -a > bestPivot {
				best, bestRatio, bestPivot = j, min(ratio, bestRatio), -a
			}
		}
		if best < 0 {
			return false
		}
		dir := m.direction(best)
		if dir[r] > -pivotTol {
			return false
		}
		d := m.reduced(best)
		m.update(best, int(m.basis[r]), d, dir[r], row)
		m.enter(best, r, dir, row, d)
	}
}

// solve brings the basis to the optimum over the columns there are.
func (m *master) solve(limit int64) bool {
	if !m.dual(limit) && m.inv.work > limit {
		return false
	}
	return m.primal(limit)
}

// reset leaves every pod over.
func (m *master) reset() {
	own := make([]int32, m.rows)
	for i := range own {
		own[i] = int32(i)
	}
	m.restore(own)
}

// bar makes columns that hold more than is left too dear to use, and those that do
// not as dear as they are.
func (m *master) bar() {
	touched := false
	for j := 2 * m.covers; j < len(m.cols); j++ {
		c := &m.cols[j]
		if c.pattern == nil {
			continue
		}
		over := false
		for _, e := range c.entries {
			if int(e.row) < m.covers && e.value > m.rhs[e.row]+0.5 {
				over = true
				break
			}
		}
		if over == c.barred {
			continue
		}
		if c.barred = over; over {
			c.cost += barFee
		} else {
			c.cost -= barFee
		}
		touched = touched || m.at[j] >= 0
	}
	m.inv.work += int64(len(m.index) / 2)
	if touched {
		m.resetY()
	}
}

// barFee is more than any pattern could save.
const barFee = 10

// prune drops patterns when there are more than most: those outside the basis that
// are farthest from entering it, until about so many are kept. Looking at all of
// them is most of what a pivot costs. It returns the marks of those that are gone.
func (m *master) prune(most, keep int) (gone []uint64) {
	own := m.rows + m.covers
	if len(m.cols)-own <= max(most, keep) {
		return nil
	}
	m.look()
	d := slices.Clone(m.d[own:])
	slices.Sort(d)
	limit := d[keep]
	cols := m.cols
	m.cols, m.at = nil, nil
	m.start, m.index, m.value = []int32{0}, m.index[:0], m.value[:0]
	place := make([]int32, len(cols))
	basic := make([]bool, len(cols))
	for _, j := range m.basis {
		basic[j] = true
	}
	for _, b := range m.saved {
		for _, j := range *b {
			basic[j] = true
		}
	}
	for j, c := range cols {
		if j >= own && !basic[j] && m.d[j] > limit {
			gone = append(gone, c.mark)
			continue
		}
		place[j] = int32(len(m.cols))
		m.cols = append(m.cols, c)
		for _, e := range c.entries {
			m.index, m.value = append(m.index, e.row), append(m.value, e.value)
		}
		m.start = append(m.start, int32(len(m.index)))
		m.at = append(m.at, -1)
	}
	for i, j := range m.basis {
		m.basis[i] = place[j]
		m.at[place[j]] = int32(i)
	}
	for _, b := range m.saved {
		for i, j := range *b {
			(*b)[i] = place[j]
		}
	}
	m.inv.work += int64(len(m.index) + 20*len(cols))
	return gone
}

// save keeps the basis to come back to, until forget is called.
func (m *master) save() *[]int32 {
	b := slices.Clone(m.basis)
	m.saved = append(m.saved, &b)
	return &b
}

// forget ends what the last save began.
func (m *master) forget() { m.saved = m.saved[:len(m.saved)-1] }

// setRHS changes the right-hand side and keeps the basis.
func (m *master) setRHS(rhs []float64) {
	copy(m.rhs, rhs)
	m.resetX()
}

// objective is the value of the basis without the perturbation: Σ y·rhs.
func (m *master) objective() float64 {
	z := 0.0
	for i, v := range m.rhs {
		z += m.y[i] * v
	}
	return z
}

// restore returns to a basis.
func (m *master) restore(basis []int32) {
	for _, j := range m.basis {
		m.at[j] = -1
	}
	copy(m.basis, basis)
	for i, j := range m.basis {
		m.at[j] = int32(i)
	}
	m.refactor()
}
