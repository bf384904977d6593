package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/score"
)

// horizons are how far ahead mash2 is told the load: from about what a pod takes to some times
// what a node takes.
var horizons = []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute}

// toldOf is mash2 that is told the load so far ahead.
func toldOf(ahead time.Duration) config {
	c := judged
	if c.Foresight = ahead; ahead > 0 {
		c.Name = fmt.Sprintf("%s, told %v ahead", c.Kind, ahead)
	}
	return c
}

// foretell tells which information is missing where a mark is not met: the same planner, told
// the load some time ahead. The last row, the clairvoyant, knows all of it.
func (o options) foretell(ctx context.Context) error {
	frozen, err := o.frozen()
	if err != nil {
		return err
	}
	found := false
	for _, size := range o.sizes {
		for _, set := range o.sets {
			if set == fleets {
				continue
			}
			all, err := loads(o.traces, set, []float64{size}, o.only)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				continue
			}
			found = true
			var tellers []config
			for _, ahead := range horizons {
				tellers = append(tellers, toldOf(ahead))
			}
			tellers = append(tellers, clairvoyant)
			rivals := append(defaults(poolsOf(all[0])), frozen.at(size)...)
			var jobs []job
			for _, l := range all {
				jobs = append(jobs, o.jobs(l, append(rivals, tellers...))...)
			}
			figures, err := o.run(ctx, jobs)
			if err != nil {
				return err
			}
			if err := results(figures).foretold(o.tables, set, size, tellers, rivals); err != nil {
				return err
			}
		}
	}
	if !found {
		return errors.New("no traces")
	}
	return nil
}

// foretold writes the marks of each of those who are told.
func (r results) foretold(w io.Writer, set string, size float64, tellers, rivals []config) error {
	var names []string
	for _, c := range rivals {
		names = append(names, c.String())
	}
	fmt.Fprintf(w, "## %s at %g×\n\n", set, size)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "told\tviolating, %")
	for i, c := range tellers {
		marks := judge(r, size, set, c.String(), clairvoyant.String(), names, score.ObjectiveOf(api.CostSaving))
		if i == 0 {
			for _, m := range marks {
				fmt.Fprintf(t, "\t%s", m.Mark)
			}
			fmt.Fprintln(t)
		}
		sum := 0.0
		for _, trace := range r.traces() {
			_, violating, _ := r.mean(trace, c.String())
			sum += 100 * violating
		}
		fmt.Fprintf(t, "%s\t%.3f", c, sum/float64(len(r.traces())))
		for _, m := range marks {
			if m.Figure == nil {
				fmt.Fprint(t, "\t–")
			} else {
				fmt.Fprintf(t, "\t%.4g", *m.Figure)
			}
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
