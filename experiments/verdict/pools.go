package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/mash2-io/mash2/experiments/training"
)

// comparePools tells what mash2 that may use any pool costs beside mash2 that has one of
// them alone: who may choose should not pay more than who was given what is best.
func (o options) comparePools(ctx context.Context) error {
	return o.each(func(set string, size float64) (results, error) {
		all, err := o.loadsOf(set, size)
		if err != nil || len(all) == 0 {
			return nil, err
		}
		var jobs []job
		pools := poolsOf(all[0])
		for _, l := range all {
			configs := []config{judged}
			for _, p := range pools {
				configs = append(configs, alone(p))
			}
			jobs = append(jobs, o.jobs(l, configs)...)
		}
		figures, err := o.run(ctx, jobs)
		if err != nil {
			return nil, err
		}
		r := results(figures)
		return r, r.pools(o.tables, set, size, pools)
	})
}

// alone is mash2 on one pool.
func alone(pool string) config { return config{Kind: judged.Kind, Pool: pool} }

// pools writes the comparison: each trace, and a line of JSON of all.
func (r results) pools(w io.Writer, set string, size float64, pools []string) error {
	fmt.Fprintf(w, "## %s at %s×\n\n", set, strconv.FormatFloat(size, 'g', -1, 64))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"trace", "any: $", "violating, %"}
	for _, p := range pools {
		head = append(head, p+": $", "violating, %")
	}
	fmt.Fprintln(t, strings.Join(append(head, "any / cheapest that violates no more", "any / cheapest"), "\t"))
	var kept, cheapest []float64 // logarithms of ratios, by trace
	worst, of := 0.0, ""
	for _, trace := range r.traces() {
		cost, violating, ok := r.mean(trace, judged.String())
		if !ok || !(cost > 0) {
			continue
		}
		cells := []string{trace, fmt.Sprintf("%.2f", cost), fmt.Sprintf("%.3f", 100*violating)}
		least, leastKept := math.Inf(1), math.Inf(1)
		for _, p := range pools {
			c, v, ok := r.mean(trace, alone(p).String())
			if !ok {
				cells = append(cells, "–", "–")
				continue
			}
			cells = append(cells, fmt.Sprintf("%.2f", c), fmt.Sprintf("%.3f", 100*v))
			if least = min(least, c); v <= violating {
				leastKept = min(leastKept, c)
			}
		}
		none := "–"
		if !math.IsInf(leastKept, 1) {
			ratio := cost / leastKept
			kept, none = append(kept, math.Log(ratio)), fmt.Sprintf("%.2f", ratio)
			if ratio > worst {
				worst, of = ratio, trace
			}
		}
		if math.IsInf(least, 1) {
			continue
		}
		cheapest = append(cheapest, math.Log(cost/least))
		fmt.Fprintln(t, strings.Join(append(cells, none, fmt.Sprintf("%.2f", cost/least)), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	line := map[string]any{"set": set, "size": size, "traces": len(cheapest), "worst": worst, "worstTrace": of}
	for name, logs := range map[string][]float64{"besideCheapestThatViolatesNoMore": kept, "besideCheapest": cheapest} {
		if len(logs) > 0 {
			mean, _ := training.MeanOf(logs)
			line[name] = math.Exp(mean)
		}
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s\n\n", text)
	return err
}
