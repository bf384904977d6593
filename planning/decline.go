package planning

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
)

// declineParts is in how many parts of a window demand must have fallen. Seven means (of
// these and of the part before) that don't depend on each other come in this order with
// the chance 1/7! = 1/5040; those of a random walk fall six times with about 1/64.
const declineParts = 6

// declining tells whether demand has kept falling for a window: the mean of each of its
// parts is below that of the part before. Unless it climbs faster than it fell, it isn't
// back before as much time has gone by. Nor did it use to be: of the times that it had
// fallen like this, in all of the history, it came back by half, or more, within the
// window after in a share of no more than 1 − q. One that never fell so before is not
// expected to.
func declining(d api.Series, window time.Duration, q float64) bool {
	if d.Step <= 0 {
		return false
	}
	v := d.Values
	each, ahead := int(max(1, (window+declineParts*d.Step-1)/(declineParts*d.Step))), int(max(1, window/d.Step))
	n := len(v) - each + 1 // parts, one from each sample on
	if n <= declineParts*each {
		return false
	}
	sum := func(i int) float64 {
		s := 0.0
		for _, x := range v[i : i+each] {
			s += x
		}
		return s
	}
	for i := n - 1; i > n-1-declineParts*each; i -= each {
		if !(sum(i) < sum(i-each)) { // nor with a gap
			return false
		}
	}
	sums, fell := make([]float64, n), make([]int, n)
	for i := range n {
		if sums[i] = sum(i); i >= each && sums[i] < sums[i-each] {
			fell[i] = fell[i-each] + 1
		}
	}
	falls, back := 0, 0
	for i := range n - ahead {
		after := v[i+each:][:ahead]
		if fell[i] < declineParts || slices.ContainsFunc(after, math.IsNaN) {
			continue
		}
		falls++
		if half := sums[i-declineParts/2*each] / float64(each); slices.Max(after) >= half {
			back++
		}
	}
	return float64(back) <= (1-q)*float64(falls)+choice.Epsilon
}
