package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/strategic"
)

// terms of the utility that an ablation leaves out, one after the other.
var terms = []struct {
	name    string
	without func(*api.Weights)
}{
	{"", func(*api.Weights) {}},
	{"performance", func(w *api.Weights) { w.Performance = 0 }},
	{"cost", func(w *api.Weights) { w.Cost = 0 }},
	{"resilience", func(w *api.Weights) { w.Resilience = 0 }},
}

// ablated is mash2 on any pool under a policy without a term of its utility, on a scenario.
func ablated(s scenarios.Scenario, policy, term string) (config, scenarios.Scenario, error) {
	var weights api.Weights
	for _, p := range strategic.Defaults() {
		if p.Name == policy {
			weights = p.Weights
		}
	}
	for _, t := range terms {
		if t.name == term {
			t.without(&weights)
		}
	}
	var pools []string
	for _, p := range s.Pools {
		pools = append(pools, p.Name)
	}
	text, err := json.Marshal(map[string]any{"policies": map[string]any{policy: map[string]any{
		"nodePools": pools,
		"weights":   map[string]float64{"performance": weights.Performance, "cost": weights.Cost, "resilience": weights.Resilience},
	}}}) // JSON is YAML
	s.Policy.Initial, s.Policy.Switches = policy, nil
	c := judged
	c.Policies, c.Name = string(text), policy
	if term != "" {
		c.Name += " without " + term
	}
	return c, s, err
}

// ablate tells what each term of the utility does, on every trace.
func (o options) ablate(ctx context.Context) error {
	var jobs []job
	for _, set := range o.sets {
		if set == fleets {
			continue
		}
		all, err := loads(o.traces, set, o.sizes, o.only)
		if err != nil {
			return err
		}
		for _, l := range all {
			for _, policy := range []string{api.CostSaving, api.Performance} {
				for _, term := range terms {
					changed := l
					var c config
					if c, changed.scenario, err = ablated(l.scenario, policy, term.name); err != nil {
						return err
					}
					jobs = append(jobs, o.jobs(changed, []config{c})...)
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
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "trace\tsize\tpolicy\tseed\tUSD\tminutes in violation\tp95, ms\tp99, ms\tmean replicas\tscalings")
	for i, j := range jobs {
		f := figures[i]
		fmt.Fprintf(t, "%s\t%g×\t%s\t%d\t%.3f\t%d\t%.1f\t%.1f\t%.1f\t%d\n", f.Trace, f.Size, j.config, f.Seed, f.Cost, f.Violated, f.P95Ms, f.P99Ms, f.Replicas, f.Scalings)
	}
	_ = t.Flush() // into memory
	_, err = fmt.Fprint(o.tables, b.String())
	return err
}
