package packing

import "math"

// Tolerances of the relaxation.
const (
	relaxGain = 1e-9  // what a variable must gain to enter, as a share of its value
	relaxStep = 1e-11 // of a direction that limits the step
)

// relax solves the linear relaxation by the simplex method for bounded
// variables, with one row per dimension, and leaves its duals in lambda and its
// value in root. The value is that of the duals, so that it bounds whether or
// not the method came to its end.
func (k *knapsack) relax(values []float64, most []int32) {
	r := k.relaxation(values, most)
	for range 50 + 20*r.d {
		r.price()
		enter := r.entering()
		k.work += int64(len(r.vars) * r.d)
		if enter < 0 {
			break
		}
		r.direct(enter)
		step, leave, toMost := r.ratio(enter)
		if math.IsInf(step, 1) {
			break // unbounded: an item that takes nothing
		}
		for i := range r.d {
			r.x[i] -= step * r.dir[i]
		}
		if leave < 0 {
			r.state[enter] = 1 - r.state[enter]
			continue
		}
		r.replace(enter, leave, step, toMost)
	}
	r.conclude()
}

// States of a variable.
const (
	atZero int8 = iota
	atMost
	basic
)

// variable of the relaxation.
type variable struct {
	n     int32 // position in items; −1−x the slack of dimension x
	value float64
	most  float64
}

// relaxation is the simplex method at work.
type relaxation struct {
	k     *knapsack
	d     int // dimensions
	vars  []variable
	state []int8 // of each variable
	// basis has the variable of each row, x its value, inv the inverse of their columns.
	basis  []int
	x, inv []float64
	y      []float64 // duals
	dir    []float64 // in which the basis moves
}

// relaxation begins with the slacks.
func (k *knapsack) relaxation(values []float64, most []int32) *relaxation {
	d := k.dims()
	r := &relaxation{
		k: k, d: d, vars: make([]variable, 0, len(k.order)+d), basis: make([]int, d), x: make([]float64, d),
		inv: make([]float64, d*d), y: make([]float64, d), dir: make([]float64, d),
	}
	for _, n := range k.order {
		r.vars = append(r.vars, variable{n, values[k.items[n]], float64(most[k.items[n]])})
	}
	for x := range d {
		r.vars = append(r.vars, variable{int32(-1 - x), 0, math.Inf(1)})
	}
	r.state = make([]int8, len(r.vars))
	for i := range d {
		r.inv[i*d+i] = 1
		r.basis[i] = len(k.order) + i
		r.state[r.basis[i]] = basic
		if k.capacity[i] > 0 {
			r.x[i] = 1
		}
	}
	return r
}

// column is what a variable takes of a dimension.
func (r *relaxation) column(v variable, x int) float64 {
	if v.n >= 0 {
		return r.k.norm[v.n][x]
	}
	if int(-1-v.n) == x {
		return 1
	}
	return 0
}

// price sets the duals of the basis.
func (r *relaxation) price() {
	clear(r.y)
	for i, b := range r.basis {
		for j := range r.d {
			r.y[j] += r.vars[b].value * r.inv[i*r.d+j]
		}
	}
}

// entering is the variable that gains most relative to its value, −1 if none gains.
func (r *relaxation) entering() int {
	enter, rank := -1, 0.0
	for j, v := range r.vars {
		if r.state[j] == basic || v.most == 0 {
			continue
		}
		gain, scale := v.value, v.value+1e-12
		for i := range r.d {
			gain -= r.y[i] * r.column(v, i)
		}
		if r.state[j] == atMost {
			gain = -gain
		}
		if v.n < 0 {
			scale = 1
		}
		if gain > relaxGain*scale && gain/scale > rank {
			enter, rank = j, gain/scale
		}
	}
	return enter
}

// sign is that of the change of a variable that enters.
func (r *relaxation) sign(enter int) float64 {
	if r.state[enter] == atMost {
		return -1
	}
	return 1
}

// direct sets the direction in which the basis moves as a variable enters.
func (r *relaxation) direct(enter int) {
	sign := r.sign(enter)
	for i := range r.d {
		r.dir[i] = 0
		for j := range r.d {
			r.dir[i] += r.inv[i*r.d+j] * r.column(r.vars[enter], j)
		}
		r.dir[i] *= sign
	}
}

// ratio is how far a variable that enters can go, and the row that then leaves, at its
// most or at zero; −1 where the variable comes to its own other end.
func (r *relaxation) ratio(enter int) (step float64, leave int, toMost bool) {
	step, leave = r.vars[enter].most, -1
	for i, dir := range r.dir {
		most := r.vars[r.basis[i]].most
		switch {
		case dir > relaxStep && max(r.x[i], 0)/dir < step:
			step, leave, toMost = max(r.x[i], 0)/dir, i, false
		case dir < -relaxStep && (most-r.x[i])/-dir < step:
			step, leave, toMost = max(most-r.x[i], 0)/-dir, i, true
		}
	}
	return step, leave, toMost
}

// replace puts a variable that has gone a step into the row of one that leaves.
func (r *relaxation) replace(enter, leave int, step float64, toMost bool) {
	now := step
	if r.state[enter] == atMost {
		now = r.vars[enter].most - step
	}
	old := r.basis[leave]
	r.state[old] = atZero
	if toMost {
		r.state[old] = atMost
	}
	sign, d := r.sign(enter), r.d
	pivot := r.dir[leave] * sign
	for j := range d {
		r.inv[leave*d+j] /= pivot
	}
	for i := range d {
		if f := r.dir[i] * sign; i != leave && f != 0 {
			for j := range d {
				r.inv[i*d+j] -= f * r.inv[leave*d+j]
			}
		}
	}
	r.basis[leave], r.x[leave], r.state[enter] = enter, now, basic
}

// conclude leaves the duals and the bound that they prove.
func (r *relaxation) conclude() {
	k := r.k
	k.lambda = resize(k.lambda, r.d)
	k.root = 0
	for i := range r.d {
		k.lambda[i] = max(r.y[i], 0)
		if k.capacity[i] > 0 {
			k.root += k.lambda[i]
		}
	}
	for _, v := range r.vars[:len(k.order)] {
		gain := v.value
		for i := range r.d {
			gain -= k.lambda[i] * r.column(v, i)
		}
		if gain > 0 {
			k.root += gain * v.most
		}
	}
}
