package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/training"
)

// compareLearned tells what the model of margins that comes with the program makes of the
// planner's plans: the same loads with the same seeds, with the model and without. Without it
// the model takes the margins as they are, so this is also the model beside its own
// beginning.
func (o options) compareLearned(ctx context.Context) error {
	rivals, err := o.frozen()
	if err != nil {
		return err
	}
	return o.each(func(set string, size float64) (results, error) {
		r, err := o.learnedOn(ctx, set, size, rivals.at(size))
		if err != nil || len(r) == 0 {
			return r, err
		}
		return r, r.learned(o.tables, set, size)
	})
}

// each compares on each set at each size; it is an error if there are no loads at all.
func (o options) each(compare func(set string, size float64) (results, error)) error {
	found := false
	for _, set := range o.sets {
		sizes := o.sizes
		if set == fleets {
			sizes = o.fleetSizes
		}
		for _, size := range sizes {
			r, err := compare(set, size)
			if err != nil {
				return err
			}
			found = found || len(r) > 0
		}
	}
	if !found {
		return errors.New("no loads")
	}
	return nil
}

// loadsOf a set at a size.
func (o options) loadsOf(set string, size float64) ([]load, error) {
	if set == fleets {
		return fleetsOf(o.traces, size, o.only)
	}
	return loads(o.traces, set, []float64{size}, o.only)
}

// learnedOn runs the planner with the model and without, the clairvoyant, and the HPA as it is
// calibrated on each pool.
func (o options) learnedOn(ctx context.Context, set string, size float64, rivals []config) (results, error) {
	all, err := o.loadsOf(set, size)
	if err != nil {
		return nil, err
	}
	configs := []config{judged, withModel, clairvoyant}
	for _, c := range rivals {
		if c.Kind == sim.HPA {
			configs = append(configs, c)
		}
	}
	var jobs []job
	for _, l := range all {
		jobs = append(jobs, o.jobs(l, configs)...)
	}
	return o.run(ctx, jobs)
}

// learned writes the comparison: each trace, and a line of JSON of all.
func (r results) learned(w io.Writer, set string, size float64) error {
	fmt.Fprintf(w, "## %s at %s×\n\n", set, strconv.FormatFloat(size, 'g', -1, 64))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "trace\tcost with the model / without\tviolating, % of minutes\twithout\tscalings\twithout\tclairvoyant / planner")
	var ratios, more []float64 // by trace: seeds of one are no loads of their own
	pairs, worst := 0, 0.0
	dearer, cheaper := 0, 0               // traces: by more than 2 % in the mean; by more than chance
	var model, planner, best, hpa float64 // in costs of the clairvoyant
	for _, trace := range r.traces() {
		with, without := r.of(trace, withModel.String()), r.of(trace, judged.String())
		var here, moreHere []float64
		var scalings, before float64
		for seed, f := range with {
			p, ok := without[seed]
			if !ok || !(p.Cost > 0) {
				continue
			}
			here = append(here, math.Log(f.Cost/p.Cost))
			moreHere = append(moreHere, float64(f.Violated)/float64(max(1, f.Minutes))-float64(p.Violated)/float64(max(1, p.Minutes)))
			scalings, before = scalings+float64(f.Scalings), before+float64(p.Scalings)
		}
		if len(here) == 0 {
			continue
		}
		pairs += len(here)
		mean, ofSeeds := training.MeanOf(here)
		violates, _ := training.MeanOf(moreHere)
		ratios, more = append(ratios, mean), append(more, violates)
		worst = max(worst, math.Exp(mean))
		relative := strconv.FormatFloat(math.Exp(mean), 'f', 3, 64)
		if ofSeeds != nil {
			relative += fmt.Sprintf(" (%.3f–%.3f)", math.Exp(ofSeeds[0]), math.Exp(ofSeeds[1]))
			if ofSeeds[1] < 0 {
				cheaper++
			}
		}
		if math.Exp(mean) > 1.02 {
			dearer++
		}
		cost, violating, _ := r.mean(trace, withModel.String())
		own, violatingBefore, _ := r.mean(trace, judged.String())
		yard, _, _ := r.mean(trace, clairvoyant.String())
		n := float64(len(here))
		fmt.Fprintf(t, "%s\t%s\t%.3f\t%.3f\t%.0f\t%.0f\t%.2f\n", trace, relative, 100*violating, 100*violatingBefore, scalings/n, before/n, yard/own)
		least := math.Inf(1)
		for _, s := range r.scalers() {
			if s == withModel.String() || s == judged.String() || s == clairvoyant.String() {
				continue
			}
			if c, _, ok := r.mean(trace, s); ok {
				least = min(least, c)
			}
		}
		model, planner, best, hpa = model+cost/yard, planner+own/yard, best+1, hpa+least/yard
	}
	if err := t.Flush(); err != nil {
		return err
	}
	mean, interval := training.MeanOf(ratios)
	extra, extraInterval := training.MeanOf(more)
	line := map[string]any{
		"set": set, "size": size, "pairs": pairs, "cost": math.Exp(mean), "worst": worst, "moreViolating": extra,
		"traces": len(ratios), "tracesDearer": dearer, "tracesCheaper": cheaper,
		// How much of what lies between the calibrated HPA and the clairvoyant each has saved.
		"gapClosedByPlanner": (hpa - planner) / (hpa - best), "gapClosedByModel": (hpa - model) / (hpa - best),
	}
	if interval != nil {
		line["costInterval"] = [2]float64{math.Exp(interval[0]), math.Exp(interval[1])}
		line["moreViolatingInterval"] = *extraInterval
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s\n\n", text)
	return err
}
