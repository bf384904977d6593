package sim

import (
	"math"
	"slices"
)

// cover is what it costs to hold pods on machines of several pools, as a linear
// programme with pods and nodes in fractions, so that no mixture of pools costs less:
//
//	minimize   Σ pⱼ·nⱼ over nodes n ≥ 0 and shares x ≥ 0 of services on pools
//	subject to Σⱼ xᵢⱼ = 1 for each service i,
//	           Σᵢ xᵢⱼ·cpuᵢ ≤ nⱼ·CPUⱼ,  Σᵢ xᵢⱼ·memoryᵢ ≤ nⱼ·memoryⱼ for each pool j,
//	           xᵢⱼ = 0 where a pod of i does not fit on a node of j.
//
// It is solved by its dual: a share θⱼ of a node's price is charged for its CPU and
// 1−θⱼ for its memory, and each service goes where it is cheapest. What that costs is
// a bound for any θ in [0, 1], whether or not the best was found.
type cover struct {
	// cpu and memory are what a service's pods cost on a pool, USD per hour, if its
	// nodes are paid for CPU alone or for memory alone; by service and pool. They are
	// infinite where a pod does not fit.
	cpu, memory [][]float64
}

// add notes what a service costs on the next pool.
func (c cover) add(service int, cpu, memory float64) {
	c.cpu[service], c.memory[service] = append(c.cpu[service], cpu), append(c.memory[service], memory)
}

// fits reports whether a service fits on any pool.
func (c cover) fits(service int) bool {
	return slices.ContainsFunc(c.cpu[service], func(cost float64) bool { return !math.IsInf(cost, 1) })
}

// pools is how many pools there are.
func (c cover) pools() int {
	if len(c.cpu) == 0 {
		return 0
	}
	return len(c.cpu[0])
}

// at is the bound with these shares of prices for CPU, USD per hour.
func (c cover) at(theta []float64) float64 {
	total := 0.0
	for i := range c.cpu {
		cheapest := math.Inf(1)
		for j, share := range theta {
			if cost := c.cpu[i][j]; !math.IsInf(cost, 1) {
				cheapest = min(cheapest, share*cost+(1-share)*c.memory[i][j])
			}
		}
		total += cheapest
	}
	return total
}

// least is the least cost of all services, USD per hour; infinite if one of them fits
// nowhere.
func (c cover) least() float64 {
	services, pools := len(c.cpu), c.pools()
	// The variables are what each service costs, then each pool's share for CPU.
	var rows [][]float64
	var limits []float64
	for i := range c.cpu {
		for j, cost := range c.cpu[i] {
			if math.IsInf(cost, 1) {
				continue
			}
			row := make([]float64, services+pools)
			row[i], row[services+j] = 1, c.memory[i][j]-cost
			rows, limits = append(rows, row), append(limits, c.memory[i][j])
		}
	}
	for j := range pools {
		row := make([]float64, services+pools)
		row[services+j] = 1
		rows, limits = append(rows, row), append(limits, 1)
	}
	values := make([]float64, services+pools)
	for i := range services {
		values[i] = 1
	}
	theta := maximize(rows, limits, values)[services:]
	for j := range theta {
		theta[j] = max(0, min(1, theta[j]))
	}
	return c.at(theta)
}

// maximize finds the x ≥ 0 of the highest values·x with rows·x ≤ limits, all of which
// are at least 0, by the simplex method with Bland's rule. It is x so far where x is
// unbounded or takes too long. Gonum's lp.Simplex was tried, and goes round for ever
// with some of eight services and five pools.
func maximize(rows [][]float64, limits, values []float64) []float64 {
	const tolerance = 1e-11
	m, n := len(rows), len(values)
	// The tableau has the columns of variables that are 0, which are swapped for those
	// of rows; the last row is the gain of each.
	table := make([][]float64, m+1)
	basic, zero := make([]int, m), make([]int, n) // variables; slacks from n on
	for i := range rows {
		table[i], basic[i] = append(append([]float64(nil), rows[i]...), limits[i]), n+i
	}
	table[m] = append(append([]float64(nil), values...), 0)
	for j := range zero {
		zero[j] = j
	}
	for range 100 * (m + n) {
		enter, leave := -1, -1
		for j := range zero {
			if table[m][j] > tolerance && (enter < 0 || zero[j] < zero[enter]) {
				enter = j
			}
		}
		if enter < 0 {
			break
		}
		for i := range basic {
			if table[i][enter] <= tolerance {
				continue
			}
			if leave < 0 {
				leave = i
				continue
			}
			step, best := table[i][n]/table[i][enter], table[leave][n]/table[leave][enter]
			if step < best || step == best && basic[i] < basic[leave] {
				leave = i
			}
		}
		if leave < 0 {
			break
		}
		pivot(table, leave, enter)
		basic[leave], zero[enter] = zero[enter], basic[leave]
	}
	x := make([]float64, n)
	for i, b := range basic {
		if b < n {
			x[b] = table[i][n]
		}
	}
	return x
}

// pivot swaps the variable of a column for that of a row.
func pivot(table [][]float64, row, column int) {
	by := 1 / table[row][column]
	for j := range table[row] {
		table[row][j] *= by
	}
	table[row][column] = by
	for i := range table {
		factor := table[i][column]
		if i == row || factor == 0 {
			continue
		}
		for j := range table[i] {
			table[i][j] -= factor * table[row][j]
		}
		table[i][column] = -factor * by
	}
}
