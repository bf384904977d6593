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

// relative size below which an element is no pivot: stability against fill.
const markowitzTol = 0.1

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
	active := make([][]entry, n) // rows; entry.row is the position
	inCol := make([][]int32, n)  // rows that may have an element there
	colCount := make([]int, n)
	for at := range n {
		for _, e := range columns(at) {
			active[e.row] = append(active[e.row], entry{int32(at), e.value})
			inCol[at] = append(inCol[at], e.row)
			colCount[at]++
		}
	}
	rowDone, colDone := make([]bool, n), make([]bool, n)
	where := make([]int32, n) // position → index+1 in the row in hand
	// Columns by count, lazily: a heap would cost more than it saves here.
	singles := make([]int32, 0, n)
	for at := range n {
		if colCount[at] == 1 {
			singles = append(singles, int32(at))
		}
	}
	value := func(row, at int32) (float64, bool) {
		for _, e := range active[row] {
			if e.row == at {
				return e.value, true
			}
		}
		return 0, false
	}
	rest := make([]int32, n)
	for at := range rest {
		rest[at] = int32(at)
	}
	for {
		at, row, best := int32(-1), int32(-1), math.MaxInt
		consider := func(c int32) {
			most := 0.0
			for _, r := range inCol[c] {
				if !rowDone[r] {
					if v, ok := value(r, c); ok {
						most = max(most, math.Abs(v))
					}
				}
			}
			if most < 1e-9 {
				return
			}
			for _, r := range inCol[c] {
				if rowDone[r] {
					continue
				}
				if v, ok := value(r, c); ok && math.Abs(v) >= markowitzTol*most {
					if cost := (len(active[r]) - 1) * (colCount[c] - 1); cost < best {
						at, row, best = c, r, cost
					}
				}
			}
		}
		for len(singles) > 0 && best > 0 {
			c := singles[len(singles)-1]
			singles = singles[:len(singles)-1]
			if !colDone[c] && colCount[c] == 1 {
				consider(c)
			}
		}
		if at < 0 {
			// The few columns with the fewest elements.
			least, seen := math.MaxInt, 0
			keep := rest[:0]
			for _, c := range rest {
				if colDone[c] {
					continue
				}
				keep = append(keep, c)
				if colCount[c] > 0 {
					least = min(least, colCount[c])
				}
			}
			rest = keep
			b.work += int64(len(rest))
			for _, c := range rest {
				if colCount[c] > 0 && colCount[c] <= least+1 {
					consider(c)
					if seen++; seen >= 4 && at >= 0 || best == 0 {
						break
					}
				}
			}
			for _, c := range rest {
				if at >= 0 {
					break
				}
				consider(c)
			}
		}
		if at < 0 {
			break
		}
		p, _ := value(row, at)
		rowDone[row], colDone[at] = true, true
		var up []entry
		for _, e := range active[row] {
			colCount[e.row]--
			if e.row != at {
				up = append(up, e)
			}
			if colCount[e.row] == 1 && !colDone[e.row] {
				singles = append(singles, e.row)
			}
		}
		var low []entry
		for _, r := range inCol[at] {
			if rowDone[r] {
				continue
			}
			v, ok := value(r, at)
			if !ok {
				continue
			}
			f := v / p
			low = append(low, entry{r, f})
			list := active[r]
			for k, e := range list {
				where[e.row] = int32(k + 1)
			}
			for _, e := range up {
				if k := where[e.row]; k > 0 {
					list[k-1].value -= f * e.value
				} else {
					list = append(list, entry{e.row, -f * e.value})
					inCol[e.row] = append(inCol[e.row], r)
					colCount[e.row]++
				}
			}
			for _, e := range list {
				where[e.row] = 0
			}
			kept := list[:0]
			for _, e := range list {
				switch {
				case e.row == at:
				case math.Abs(e.value) < 1e-13:
					if colCount[e.row]--; colCount[e.row] == 1 {
						singles = append(singles, e.row)
					}
				default:
					kept = append(kept, e)
				}
			}
			active[r] = kept
			b.work += int64(4 * (len(kept) + len(up)))
		}
		b.pivotRow, b.pivotAt, b.pivot = append(b.pivotRow, row), append(b.pivotAt, at), append(b.pivot, p)
		b.lower, b.upper = append(b.lower, low), append(b.upper, up)
		b.work += int64(16 + 4*len(up))
	}
	for at := range n {
		if colDone[at] {
			continue
		}
		for r := range n {
			if !rowDone[r] {
				rowDone[r] = true
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
