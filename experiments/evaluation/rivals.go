package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/score"
)

// beside is one of mash2's targets beside a rival on a trace, means over the seeds that
// both have.
type beside struct {
	cost             float64 // relative to the rival's
	violating, rival float64 // shares of minutes
}

// besideRival is mash2 at each of its targets beside a rival, on the pools that the
// rival has; nil where the rival was not run.
func (r result) besideRival(rival, kind string) []beside {
	var out []beside
	for _, mine := range r.scalers() {
		if score.Kind(mine) != kind {
			continue
		}
		cost := r.per(mine, rival, "costUsd")
		if cost.Mean == nil {
			continue
		}
		b := beside{cost: *cost.Mean}
		n := 0.0
		for _, run := range r.Runs {
			if run.Scaler != rival || run.SLOViolationRatio == nil {
				continue
			}
			for _, own := range r.Runs {
				if own.Scaler == mine && own.Seed == run.Seed && own.SLOViolationRatio != nil {
					n++
					b.rival += *run.SLOViolationRatio
					b.violating += *own.SLOViolationRatio
				}
			}
		}
		if n > 0 {
			b.rival, b.violating = b.rival/n, b.violating/n
			out = append(out, b)
		}
	}
	return out
}

// atEqualService is the cheapest that violates no more than the rival.
func atEqualService(all []beside) (best beside, ok bool) {
	for _, b := range all {
		if b.violating <= b.rival+1e-9 && (!ok || b.cost < best.cost) {
			best, ok = b, true
		}
	}
	return best, ok
}

// atEqualCost is the one that violates the least of those that cost no more.
func atEqualCost(all []beside) (best beside, ok bool) {
	for _, b := range all {
		if b.cost <= 1+1e-9 && (!ok || b.violating < best.violating || b.violating == best.violating && b.cost < best.cost) {
			best, ok = b, true
		}
	}
	return best, ok
}

// rivals is the table of mash2 beside everybody else, at equal service and at equal cost.
func rivals(g group) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## At equal service and at equal cost: %s\n\n%s", g.title, rivalsText)
	b.WriteString("| rival | a mash2 violates no more | its node cost / the rival's | a mash2 costs no more | violating, % of minutes: the rival | that mash2 |\n|---|---|---|---|---|---|\n")
	var names []string
	for _, r := range g.results {
		for _, s := range r.scalers() {
			if _, ok := score.Rival(s); ok && !slices.Contains(names, s) {
				names = append(names, s)
			}
		}
	}
	for _, name := range names {
		kind, _ := score.Rival(name)
		var costs []float64
		traces, theirs, ours, cheaper := 0, 0.0, 0.0, 0
		for _, r := range g.results {
			all := r.besideRival(name, kind)
			if len(all) == 0 {
				continue
			}
			traces++
			if best, ok := atEqualService(all); ok {
				costs = append(costs, best.cost)
			}
			if best, ok := atEqualCost(all); ok {
				cheaper++
				theirs += best.rival
				ours += best.violating
			}
		}
		cost, rival, mine := "–", "–", "–"
		if len(costs) > 0 {
			cost = factor(geometric(costs))
		}
		if cheaper > 0 {
			n := float64(cheaper) / 100
			rival, mine = fmt.Sprintf("%.2f", theirs/n), fmt.Sprintf("%.2f", ours/n)
		}
		fmt.Fprintf(&b, "| %s | %d of %d | %s | %d of %d | %s | %s |\n", name, len(costs), traces, cost, cheaper, traces, rival, mine)
	}
	return b.String() + "\n"
}
