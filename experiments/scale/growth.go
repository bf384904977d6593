package main

import (
	"errors"
	"math"
	"os"
	"slices"

	"github.com/mash2-io/mash2/experiments/report"
)

// growth is how a step's processor time grows with the size: as nodes to the power of
// Exponent, by least squares of the logarithms.
type growth struct {
	Step     string  `json:"step"`
	Exponent float64 `json:"exponent"`
	From     int     `json:"fromNodes"`
	To       int     `json:"toNodes"`
}

// growsFrom is the least size, in nodes, that growth is told of: below, what takes as long
// at any size hides it.
const growsFrom = 1000

// grows tells how steps grow that were measured at two sizes or more.
func grows(lines []line) []growth {
	var out []growth
	for _, step := range stepsIn(lines) {
		x, y := points(lines, step)
		first := slices.IndexFunc(x, func(nodes float64) bool { return nodes >= growsFrom })
		if first < 0 || len(x)-first < 2 {
			continue
		}
		x, y = x[first:], y[first:]
		var meanX, meanY, xx, xy float64
		for i := range x {
			meanX, meanY = meanX+math.Log(x[i])/float64(len(x)), meanY+math.Log(y[i])/float64(len(x))
		}
		for i := range x {
			dx := math.Log(x[i]) - meanX
			xx, xy = xx+dx*dx, xy+dx*(math.Log(y[i])-meanY)
		}
		if xx > 0 {
			out = append(out, growth{step, xy / xx, int(x[0]), int(x[len(x)-1])})
		}
	}
	return out
}

// stepsIn lines, in their order.
func stepsIn(lines []line) (steps []string) {
	for _, l := range lines {
		if !slices.Contains(steps, l.Step) {
			steps = append(steps, l.Step)
		}
	}
	return steps
}

// points of a step: sizes in nodes, from the smallest on, and ratios.
func points(lines []line, step string) (x, y []float64) {
	of := slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.Step != step })
	slices.SortStableFunc(of, func(a, b line) int { return a.Nodes - b.Nodes })
	for _, l := range of {
		x, y = append(x, float64(l.Nodes)), append(y, l.Ratio)
	}
	return x, y
}

// drawGrowth writes what a node takes at each size, relative to the largest: of a step
// that grows as the size it is 1 throughout, of one that grows faster it rises.
func drawGrowth(file string, lines []line) (err error) {
	sheet := report.Sheet{}
	plans := report.Figure{Title: "Plans: processor time a node", XLabel: "nodes", YLabel: "relative to the largest"}
	actions := report.Figure{Title: "Actions: processor time a node", XLabel: "nodes", YLabel: "relative to the largest"}
	for _, step := range stepsIn(lines) {
		x, y := points(lines, step)
		last := len(x) - 1
		each := y[last] / x[last]
		for i := range y {
			y[i] /= x[i] * each
		}
		f := &plans
		if slices.Contains([]string{"sequence", "shrink", "switch"}, step) {
			f = &actions
		}
		f.Series = append(f.Series, report.Series{Name: step, X: x, Y: y, Color: len(f.Series) % report.Colors()})
	}
	for _, f := range []report.Figure{plans, actions} {
		if len(f.Series) > 0 {
			sheet.Figures = append(sheet.Figures, f)
		}
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return sheet.PNG(out)
}
