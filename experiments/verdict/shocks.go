package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// shocks are what nobody could foresee: what a policy that costs more is to buy.
var shocks = []struct {
	name   string
	events func(pools []scenarios.Pool) []scenarios.Event
}{
	{"none", func([]scenarios.Pool) []scenarios.Event { return nil }},
	{"load × 1.5", surges(1.5)},
	{"load × 2", surges(2)},
	{"load × 3", surges(3)},
	{"two nodes fail", failures(2)},
}

// surges are eight a day for six minutes each, so far apart that they are of no minute of
// the hour.
func surges(factor float64) func([]scenarios.Pool) []scenarios.Event {
	return func([]scenarios.Pool) (out []scenarios.Event) {
		for at := 100 * time.Minute; at < 23*time.Hour; at += 173 * time.Minute {
			out = append(out, scenarios.Event{At: scenarios.Duration{Duration: at}, For: scenarios.Duration{Duration: 6 * time.Minute}, LoadFactor: factor})
		}
		return out
	}
}

// failures are of so many nodes of each pool, every other hour.
func failures(nodes int) func([]scenarios.Pool) []scenarios.Event {
	return func(pools []scenarios.Pool) (out []scenarios.Event) {
		for at := time.Hour; at < 23*time.Hour; at += 2 * time.Hour {
			for _, p := range pools {
				out = append(out, scenarios.Event{At: scenarios.Duration{Duration: at}, FailNodes: nodes, Pool: p.Name})
			}
		}
		return out
	}
}

// shocked is a load to which something happens.
func shocked(l load, policy string, events []scenarios.Event) load {
	l.scenario.Policy.Initial, l.scenario.Policy.Switches = policy, nil
	l.scenario.Events = append(slices.Clone(l.scenario.Events), events...)
	return l
}

// shock tells what both policies and the frozen rivals are worth where something happens
// that nobody could foresee.
func (o options) shock(ctx context.Context) error {
	rivals, err := o.frozen()
	if err != nil {
		return err
	}
	for _, size := range o.sizes {
		var jobs []job
		for _, set := range o.sets {
			if set == fleets {
				continue
			}
			all, err := loads(o.traces, set, []float64{size}, o.only)
			if err != nil {
				return err
			}
			for _, l := range all {
				for _, s := range shocks {
					events := s.events(l.scenario.Pools)
					add := func(policy, name string, c config) {
						c.Name = s.name + "\t" + name
						jobs = append(jobs, o.jobs(shocked(l, policy, events), []config{c})...)
					}
					for _, policy := range []string{api.CostSaving, api.Performance} {
						add(policy, "mash2, "+policy, judged)
					}
					for _, c := range rivals.at(size) {
						add(api.CostSaving, c.String(), c)
					}
				}
			}
		}
		if len(jobs) == 0 {
			return errors.New("no traces")
		}
		figures, err := o.run(ctx, jobs)
		if err != nil {
			return err
		}
		if err := shockTable(o.tables, size, figures); err != nil {
			return err
		}
	}
	return nil
}

// shockTable prints sums and means over loads and seeds, relative in cost to COST_SAVING
// where nothing happens.
func shockTable(w io.Writer, size float64, figures []figure) error {
	type sum struct {
		logCost              float64
		n, minutes, violated int
		least95, most95      float64
		most99               float64
	}
	sums := map[string]*sum{}
	var order []string
	for _, f := range figures {
		s := sums[f.Scaler]
		if s == nil {
			s = &sum{least95: math.Inf(1)}
			sums[f.Scaler], order = s, append(order, f.Scaler)
		}
		s.logCost += math.Log(f.Cost)
		s.n++
		s.minutes, s.violated = s.minutes+f.Minutes, s.violated+f.Violated
		s.least95, s.most95, s.most99 = min(s.least95, f.P95Ms), max(s.most95, f.P95Ms), max(s.most99, f.P99Ms)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(shockOf(a)-shockOf(b), -cmp.Compare(a, b)) })
	base, ok := sums[shocks[0].name+"\tmash2, "+api.CostSaving]
	if !ok {
		return errors.New("nobody to compare with")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nwhat happens, at %g×\tscaler\tcost\tminutes in violation\tof minutes\tp95, ms\tp99 at most, ms\n", size)
	for _, row := range order {
		s := sums[row]
		fmt.Fprintf(t, "%s\t%.2f\t%d\t%.2f %%\t%.0f–%.0f\t%.0f\n", row, math.Exp(s.logCost/float64(s.n)-base.logCost/float64(base.n)),
			s.violated, 100*float64(s.violated)/float64(s.minutes), s.least95, s.most95, s.most99)
	}
	return t.Flush()
}

// shockOf is the place of a row's shock in their list.
func shockOf(row string) int {
	name, _, _ := strings.Cut(row, "\t")
	for i, s := range shocks {
		if s.name == name {
			return i
		}
	}
	return len(shocks)
}
