package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/score"
)

// section is a set of loads at a size.
type section struct {
	results results
	marks   []mark
	text    string
	front   *report.Figure
}

// section runs everybody on a set at a size.
func (o options) section(ctx context.Context, set string, size float64, rivals []config) (section, error) {
	all, err := o.loadsOf(set, size)
	if err != nil || len(all) == 0 {
		return section{}, err
	}
	counted := slices.Clone(rivals)
	for _, d := range defaults(poolsOf(all[0])) {
		if !slices.Contains(counted, d) {
			counted = append(counted, d)
		}
	}
	configs := slices.Clone(counted)
	if !o.alone {
		configs = append([]config{judged, onePool, clairvoyant}, configs...)
	}
	if o.fronts && size < 100 {
		for _, r := range rivals {
			for _, c := range swept(r) {
				if !slices.Contains(configs, c) {
					configs = append(configs, c)
				}
			}
		}
	}
	var jobs []job
	bounds := map[string]float64{}
	for _, l := range all {
		jobs = append(jobs, o.jobs(l, configs)...)
		for i := range o.seeds {
			b, err := l.lowest(uint64(1 + i))
			if err != nil {
				return section{}, err
			}
			bounds[l.name] += b / float64(o.seeds)
		}
	}
	figures, err := o.run(ctx, jobs)
	if err != nil {
		return section{}, err
	}
	s := section{results: figures}
	if o.fronts && set == fleets {
		// Rivals were chosen on single traces. In fleets each counts with the target, too, that its owner
		// would have kept after trying all of them on these very fleets.
		for _, r := range rivals {
			if c, ok := choose(figures, swept(r), score.ObjectiveOf(api.CostSaving)); ok && !slices.Contains(counted, c) {
				counted = append(counted, c)
			}
		}
	}
	var names []string
	for _, c := range counted {
		names = append(names, c.String())
	}
	if !o.alone {
		s.marks = judge(s.results, size, set, judged.String(), clairvoyant.String(), names, score.ObjectiveOf(api.CostSaving))
	}
	s.text = s.results.tables(fmt.Sprintf("%s at %g×", set, size), bounds, names)
	front := s.results.front(fmt.Sprintf("%s at %g×", set, size), bounds)
	s.front = &front
	return s, nil
}

// means of a scaler over traces.
type means struct {
	cost             float64 // relative to another's, geometric
	violating, worst float64 // shares
	scalings, starts float64 // of replicas, and of pods
	traces           int
}

// over is a scaler's means over the traces, with its cost relative to another's.
func (r results) over(scaler string, to func(trace string) float64) (m means) {
	var factors []float64
	for _, t := range r.traces() {
		c, v, ok := r.mean(t, scaler)
		if !ok || !(to(t) > 0) {
			continue
		}
		m.traces++
		factors, m.violating, m.worst = append(factors, c/to(t)), m.violating+v, max(m.worst, v)
		all := r.of(t, scaler)
		for _, f := range all {
			m.scalings += float64(f.Scalings) / float64(len(all))
			m.starts += float64(f.Starts) / float64(len(all))
		}
	}
	n := float64(m.traces)
	m.cost, m.violating, m.scalings, m.starts = geometric(factors), m.violating/n, m.scalings/n, m.starts/n
	return m
}

// tables for people.
func (r results) tables(title string, bounds map[string]float64, rivals []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", title)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scaler\tcost / bound\tcost / clairvoyant's\tviolating, %\tworst trace, %\tscalings\tpods started\ttraces\tcounts as rival")
	best := func(trace string) float64 { c, _, _ := r.mean(trace, clairvoyant.String()); return c }
	for _, s := range r.scalers() {
		m, toBest := r.over(s, func(trace string) float64 { return bounds[trace] }), r.over(s, best).cost
		counts := ""
		if slices.Contains(rivals, s) {
			counts = "yes"
		}
		beside := "–" // nobody ran the clairvoyant
		if !math.IsNaN(toBest) {
			beside = strconv.FormatFloat(toBest, 'f', 3, 64)
		}
		fmt.Fprintf(t, "%s\t%.3f\t%s\t%.3f\t%.2f\t%.0f\t%.0f\t%d\t%s\n", s, m.cost, beside, 100*m.violating, 100*m.worst, m.scalings, m.starts, m.traces, counts)
	}
	_ = t.Flush() // into memory
	fmt.Fprintln(&b)
	if !slices.Contains(r.scalers(), judged.String()) {
		return b.String()
	}
	t = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "trace\tbound, $\tclairvoyant / bound\t%s / bound\tviolating, %%\tapart, %%\tcheapest rival at no more violations\tcost / its\tbest rival at no more money\tviolating, %%\n", judged)
	for _, trace := range r.traces() {
		mine, violating, _ := r.mean(trace, judged.String())
		apart, _ := r.apart(trace, judged.String(), clairvoyant.String())
		equal, relative := r.atEqualViolations(trace, judged.String(), rivals)
		money, theirs := r.atEqualMoney(trace, judged.String(), rivals)
		fmt.Fprintf(t, "%s\t%.4f\t%.3f\t%.3f\t%.3f\t%.3f\t%s\t%.3f\t%s\t%.3f\n", trace, bounds[trace], best(trace)/bounds[trace], mine/bounds[trace],
			100*violating, 100*apart, cmp.Or(equal, "none"), relative, cmp.Or(money, "none"), 100*theirs)
	}
	_ = t.Flush()
	return b.String() + "\n"
}

// legend is a scaler's line in a figure, and its point there.
func legend(scaler string) (group, target string) {
	name, pool, onPool := strings.Cut(scaler, " @")
	words := strings.Fields(name)
	kind, target, _ := strings.Cut(words[0], ":")
	if len(words) > 1 {
		kind += ", tuned"
	}
	if onPool {
		kind += ", " + strings.TrimSuffix(pool, "-pool")
	}
	return kind, target
}

// front draws cost against violations, the points of a kind on a pool joined.
func (r results) front(title string, bounds map[string]float64) report.Figure {
	f := report.Figure{
		Title: "Cost and violations: " + title, XLabel: "node cost / bound, geometric mean over traces", YLabel: "minutes in violation, %",
		Note: "Lower and further to the left is better. A line is one rival on one pool, by its target.",
	}
	kinds := map[string]int{}
	for _, s := range r.scalers() {
		m := r.over(s, func(trace string) float64 { return bounds[trace] })
		if math.IsNaN(m.cost) {
			continue
		}
		group, target := legend(s)
		i, ok := kinds[group]
		if !ok {
			if len(f.Series) == report.Colors() {
				continue // what can't be told apart
			}
			i = len(f.Series)
			kinds[group] = i
			f.Series = append(f.Series, report.Series{Name: group, Color: i})
		}
		line := &f.Series[i]
		line.X, line.Y, line.Labels = append(line.X, m.cost), append(line.Y, 100*m.violating), append(line.Labels, target)
	}
	for i := range f.Series {
		s := &f.Series[i]
		order := make([]int, len(s.X))
		for k := range order {
			order[k] = k
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.X[a], s.X[b]) })
		var x, y []float64
		var labels []string
		for _, k := range order {
			x, y, labels = append(x, s.X[k]), append(y, s.Y[k]), append(labels, s.Labels[k])
		}
		s.X, s.Y, s.Labels = x, y, labels
	}
	return f
}
