package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// ticks are labels at whole multiples of 1, 2 or 5 times a power of ten, about so
// many, with a small one in the middle between two.
type ticks struct{ about int }

// Ticks implements plot.Ticker.
func (t ticks) Ticks(low, high float64) []plot.Tick {
	if !(high > low) || math.IsInf(high-low, 0) {
		return []plot.Tick{{Value: low, Label: strconv.FormatFloat(low, 'g', 6, 64)}}
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(t.about))))
	for _, by := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step <= float64(t.about) {
			break
		}
		step *= by
	}
	var out []plot.Tick
	for n := math.Ceil(low/step - 1e-9); n*step <= high+step*1e-9; n++ {
		// The label is rounded to what the step can tell apart.
		if n == 0 {
			n = 0 // not minus zero
		}
		label := strconv.FormatFloat(n*step, 'f', max(0, int(math.Ceil(-math.Log10(step)-1e-9))), 64)
		out = append(out, plot.Tick{Value: n * step, Label: label})
		if half := (n + 0.5) * step; half < high {
			out = append(out, plot.Tick{Value: half})
		}
	}
	return out
}

// thin keeps the first, the lowest, the highest and the last point of each of
// most/4 stretches of the axis, so that a thinned line covers the same ground and
// what is level over more than a stretch stays level. Points must be in order of
// X, else all are kept.
func thin(points plotter.XYs, most int) plotter.XYs {
	if len(points) <= most || !slices.IsSortedFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) }) {
		return points
	}
	bins := most / 4
	begin, width := points[0].X, (points[len(points)-1].X-points[0].X)/float64(bins)
	if width <= 0 {
		return points
	}
	var out plotter.XYs
	for first, bin := 0, 1; first < len(points); bin++ {
		last := first
		for last < len(points) && (bin == bins || points[last].X < begin+width*float64(bin)) {
			last++
		}
		if last == first {
			continue
		}
		low, high := first, first
		for i := first; i < last; i++ {
			if points[i].Y < points[low].Y {
				low = i
			}
			if points[i].Y > points[high].Y {
				high = i
			}
		}
		keep := []int{first, min(low, high), max(low, high), last - 1}
		for _, i := range slices.Compact(keep) {
			out = append(out, points[i])
		}
		first = last
	}
	return out
}

// every keeps at most so many points, evenly.
func every(points plotter.XYs, most int) plotter.XYs {
	if len(points) <= most {
		return points
	}
	out := make(plotter.XYs, most)
	for i := range out {
		out[i] = points[i*len(points)/most]
	}
	return out
}
