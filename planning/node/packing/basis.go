package packing

import "math"

// basisInverse is the factorised inverse of a square sparse matrix: LU with
// Markowitz's choice of pivots, followed by the product form of the column
// replacements since. Positions are columns of the matrix.
type basisInverse struct {
	n int
	// One step of the elimination each: pivot row and position, the multiples
	// of that row taken from others (L), and what is left in it (U).
	pivotRow, pivotAt []int32
	pivot             []float64
	lower, upper      [][]entry

	etas []eta

	work int64
	buf  []float64
}

// eta replaces the column at a position by one with this direction.
type eta struct {
	at      int32
	pivot   float64
	entries []entry // the direction elsewhere
}

// What is no pivot.
const (
	markowitzTol = 0.1  // relative size below which: stability against fill
	noPivot      = 1e-9 // size of a column's largest element below which it depends on others
	noElement    = 1e-13
	// pivotColumns is how many columns with fewest elements are looked at for a pivot.
	pivotColumns = 4
)

// factorise inverts the matrix with these columns. It returns the positions of
// columns that depend on others and, parallel, rows left without a pivot; those
// positions hold unit columns of these rows afterwards.
func (b *basisInverse) factorise(n int, columns func(at int) []entry) (positions, rows []int32) {
	b.n = n
	b.pivotRow, b.pivotAt, b.pivot = b.pivotRow[:0], b.pivotAt[:0], b.pivot[:0]
	b.lower, b.upper, b.etas = b.lower[:0], b.upper[:0], b.etas[:0]
	if len(b.buf) < n {
		b.buf = make([]float64, n)
	}
	e := b.eliminate(n, columns)
	for e.choose() {
		up := e.takeRow()
		low := e.takeColumn(up)
		b.pivotRow, b.pivotAt, b.pivot = append(b.pivotRow, e.row), append(b.pivotAt, e.at), append(b.pivot, e.pivot)
		b.lower, b.upper = append(b.lower, low), append(b.upper, up)
		b.work += int64(16 + 4*len(up))
	}
	return e.left()
}

// elimination is the matrix that is left while pivots are chosen.
type elimination struct {
	b        *basisInverse
	active   [][]entry // rows; entry.row is the position
	inCol    [][]int32 // rows that may have an element there
	colCount []int
	rowDone  []bool
	colDone  []bool
	where    []int32 // position → index+1 in the row in hand
	// Columns by count, lazily: a heap would cost more than it saves here.
	singles []int32 // those that had one element
	rest    []int32 // those that may not be done
	// at and row are those of the pivot, −1 without one; cost bounds its fill.
	at, row int32
	cost    int
	pivot   float64
}

// eliminate begins with the whole matrix.
func (b *basisInverse) eliminate(n int, columns func(at int) []entry) *elimination {
	e := &elimination{
		b: b, active: make([][]entry, n), inCol: make([][]int32, n), colCount: make([]int, n),
		rowDone: make([]bool, n), colDone: make([]bool, n), where: make([]int32, n),
		singles: make([]int32, 0, n), rest: make([]int32, n),
	}
	for at := range n {
		for _, x := range columns(at) {
			e.active[x.row] = append(e.active[x.row], entry{int32(at), x.value})
			e.inCol[at] = append(e.inCol[at], x.row)
			e.colCount[at]++
		}
	}
	for at := range n {
		if e.colCount[at] == 1 {
			e.singles = append(e.singles, int32(at))
		}
		e.rest[at] = int32(at)
	}
	return e
}

// value of an element, if there is one.
func (e *elimination) value(row, at int32) (float64, bool) {
	for _, x := range e.active[row] {
		if x.row == at {
			return x.value, true
		}
	}
	return 0, false
}

// consider takes the element of a column that is large enough and makes least fill
// for the pivot, if it makes less than the one at hand.
func (e *elimination) consider(c int32) {
	most := 0.0
	for _, r := range e.inCol[c] {
		if !e.rowDone[r] {
			if v, ok := e.value(r, c); ok {
				most = max(most, math.Abs(v))
			}
		}
	}
	if most < noPivot {
		return
	}
	for _, r := range e.inCol[c] {
		if e.rowDone[r] {
			continue
		}
		if v, ok := e.value(r, c); ok && math.Abs(v) >= markowitzTol*most {
			if cost := (len(e.active[r]) - 1) * (e.colCount[c] - 1); cost < e.cost {
				e.at, e.row, e.cost = c, r, cost
			}
		}
	}
}

// choose reports whether there is a pivot: of a column with a single element, or else of
// the few columns with the fewest, or else of any.
func (e *elimination) choose() bool {
	e.at, e.row, e.cost = -1, -1, math.MaxInt
	for len(e.singles) > 0 && e.cost > 0 {
		c := e.singles[len(e.singles)-1]
		e.singles = e.singles[:len(e.singles)-1]
		if !e.colDone[c] && e.colCount[c] == 1 {
			e.consider(c)
		}
	}
	if e.at < 0 {
		e.chooseShort()
	}
	if e.at < 0 {
		return false
	}
	e.pivot, _ = e.value(e.row, e.at)
	return true
}

// chooseShort looks for the pivot in columns with few elements first.
func (e *elimination) chooseShort() {
	least, seen := math.MaxInt, 0
	keep := e.rest[:0]
	for _, c := range e.rest {
		if e.colDone[c] {
			continue
		}
		keep = append(keep, c)
		if e.colCount[c] > 0 {
			least = min(least, e.colCount[c])
		}
	}
	e.rest = keep
	e.b.work += int64(len(e.rest))
	for _, c := range e.rest {
		if e.colCount[c] > 0 && e.colCount[c] <= least+1 {
			e.consider(c)
			if seen++; seen >= pivotColumns && e.at >= 0 || e.cost == 0 {
				break
			}
		}
	}
	for _, c := range e.rest {
		if e.at >= 0 {
			break
		}
		e.consider(c)
	}
}

// takeRow takes the pivot's row and column out and returns the rest of the row.
func (e *elimination) takeRow() (up []entry) {
	e.rowDone[e.row], e.colDone[e.at] = true, true
	for _, x := range e.active[e.row] {
		e.colCount[x.row]--
		if x.row != e.at {
			up = append(up, x)
		}
		if e.colCount[x.row] == 1 && !e.colDone[x.row] {
			e.singles = append(e.singles, x.row)
		}
	}
	return up
}

// takeColumn subtracts multiples of the pivot's row, the rest of which is up, from the
// others with an element in its column, and returns the multiples.
func (e *elimination) takeColumn(up []entry) (low []entry) {
	for _, r := range e.inCol[e.at] {
		if e.rowDone[r] {
			continue
		}
		v, ok := e.value(r, e.at)
		if !ok {
			continue
		}
		f := v / e.pivot
		low = append(low, entry{r, f})
		e.subtract(r, f, up)
		e.b.work += int64(4 * (len(e.active[r]) + len(up)))
	}
	return low
}

// subtract takes f times up from a row, whose element in the pivot's column goes.
func (e *elimination) subtract(r int32, f float64, up []entry) {
	list := e.active[r]
	for k, x := range list {
		e.where[x.row] = int32(k + 1)
	}
	for _, x := range up {
		if k := e.where[x.row]; k > 0 {
			list[k-1].value -= f * x.value
		} else {
			list = append(list, entry{x.row, -f * x.value})
			e.inCol[x.row] = append(e.inCol[x.row], r)
			e.colCount[x.row]++
		}
	}
	for _, x := range list {
		e.where[x.row] = 0
	}
	kept := list[:0]
	for _, x := range list {
		switch {
		case x.row == e.at:
		case math.Abs(x.value) < noElement:
			if e.colCount[x.row]--; e.colCount[x.row] == 1 {
				e.singles = append(e.singles, x.row)
			}
		default:
			kept = append(kept, x)
		}
	}
	e.active[r] = kept
}

// left are the positions without a pivot and, parallel, rows without one.
func (e *elimination) left() (positions, rows []int32) {
	for at, done := range e.colDone {
		if done {
			continue
		}
		for r := range e.rowDone {
			if !e.rowDone[r] {
				e.rowDone[r] = true
				positions, rows = append(positions, int32(at)), append(rows, int32(r))
				break
			}
		}
	}
	return positions, rows
}

// ftran solves B·x = a: a is by row and destroyed, x by position.
func (b *basisInverse) ftran(a, x []float64) {
	for k, p := range b.pivotRow {
		v := a[p]
		if v == 0 {
			continue
		}
		for _, e := range b.lower[k] {
			a[e.row] -= e.value * v
		}
		b.work += int64(len(b.lower[k]))
	}
	for k := len(b.pivot) - 1; k >= 0; k-- {
		v := a[b.pivotRow[k]]
		for _, e := range b.upper[k] {
			v -= e.value * x[e.row]
		}
		x[b.pivotAt[k]] = v / b.pivot[k]
		b.work += int64(2 + len(b.upper[k]))
	}
	for i := range b.etas {
		e := &b.etas[i]
		v := x[e.at]
		if v == 0 {
			continue
		}
		v /= e.pivot
		x[e.at] = v
		for _, d := range e.entries {
			x[d.row] -= d.value * v
		}
		b.work += int64(len(e.entries))
	}
}

// btran solves yᵀ·B = cᵀ: c is by position and destroyed, y by row.
func (b *basisInverse) btran(c, y []float64) {
	for i := len(b.etas) - 1; i >= 0; i-- {
		e := &b.etas[i]
		v := c[e.at]
		for _, d := range e.entries {
			v -= d.value * c[d.row]
		}
		c[e.at] = v / e.pivot
		b.work += int64(len(e.entries))
	}
	for k, at := range b.pivotAt {
		v := c[at]
		if v == 0 {
			y[b.pivotRow[k]] = 0
			continue
		}
		v /= b.pivot[k]
		y[b.pivotRow[k]] = v
		for _, e := range b.upper[k] {
			c[e.row] -= e.value * v
		}
		b.work += int64(2 + len(b.upper[k]))
	}
	for k := len(b.pivot) - 1; k >= 0; k-- {
		v := y[b.pivotRow[k]]
		for _, e := range b.lower[k] {
			v -= e.value * y[e.row]
		}
		y[b.pivotRow[k]] = v
		b.work += int64(1 + len(b.lower[k]))
	}
}

// replace puts a column with this direction at a position.
func (b *basisInverse) replace(at int, direction []float64) {
	e := eta{at: int32(at), pivot: direction[at]}
	for i, v := range direction {
		if v != 0 && i != at && math.Abs(v) > 1e-14 {
			e.entries = append(e.entries, entry{int32(i), v})
		}
	}
	b.etas = append(b.etas, e)
}
