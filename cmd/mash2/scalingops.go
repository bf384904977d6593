package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/scalingops"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/experiments/training"
)

// scalingOpsFlags are those of mash2 train --environment scaling-ops.
type scalingOpsFlags struct {
	scalingops.Options
	input, prometheus, workload string
	past, step                  time.Duration
	saving                      float64
	queries                     scalingops.Queries
}

// scalingOnly are the flags that other environments don't take.
var scalingOnly = []string{
	"from-prometheus", "workload", "past", "sample-step", "cpu-query", "requests-query", "delay-query", "replicas-query",
	"sla", "saving-weight", "candidate-weights", "min-replicas", "max-replicas", "alpha", "cpu-request", "held-out",
}

func (o *scalingOpsFlags) register(cmd *cobra.Command) {
	o.Options = scalingops.DefaultOptions()
	f := cmd.Flags()
	f.StringVar(&o.prometheus, "from-prometheus", "", "scaling-ops: URL of a Prometheus with the history, instead of --input")
	f.StringVar(&o.workload, "workload", "", "scaling-ops: NAMESPACE/NAME of the Deployment in Prometheus, with Istio's telemetry")
	f.DurationVar(&o.past, "past", 7*24*time.Hour, "scaling-ops: length of the history in Prometheus")
	f.DurationVar(&o.step, "sample-step", time.Minute, "scaling-ops: time between samples of the history")
	f.StringVar(&o.queries.CPU, "cpu-query", "", "scaling-ops: PromQL for the mean millicores of a replica (default: cAdvisor's)")
	f.StringVar(&o.queries.Requests, "requests-query", "", "scaling-ops: PromQL for requests a second (default: Istio's)")
	f.StringVar(&o.queries.Delay, "delay-query", "", "scaling-ops: PromQL for the mean delay in ms (default: Istio's)")
	f.StringVar(&o.queries.Replicas, "replicas-query", "", "scaling-ops: PromQL for the replicas that serve (default: kube-state-metrics')")
	f.Float64Var(&o.SLA, "sla", o.SLA, "scaling-ops: a step with at least this delay in ms is late")
	f.Float64Var(&o.saving, "saving-weight", 1, "scaling-ops: weight of few, busy replicas against delay in the score; if given, candidates are ranked by that score; otherwise candidates slower than the HPA rank last")
	f.Float64SliceVar(&o.Savings, "candidate-weights", o.Savings, "scaling-ops: weights of saving in training, one for each candidate; each candidate starts from the one before")
	f.IntVar(&o.Least, "min-replicas", o.Least, "scaling-ops: minimum replicas")
	f.IntVar(&o.Most, "max-replicas", 0, "scaling-ops: maximum replicas (default: 1.5 times the highest number in the history)")
	f.Float64Var(&o.Alpha, "alpha", 0, "scaling-ops: share of the delay in the environments that the regression gives, 0.4 in the paper (default: what fits best)")
	f.Float64Var(&o.Request, "cpu-request", 0, "scaling-ops: CPU request of a replica in millicores; rule:hpa has a target of 70 % of it (default: the target is the history's mean usage)")
	f.Float64Var(&o.Held, "held-out", o.Held, "scaling-ops: share of the history, at its end, on which candidates are ranked")
}

// refuse flags that were given for another environment.
func (o *scalingOpsFlags) refuse(cmd *cobra.Command, environment string) error {
	for _, name := range scalingOnly {
		if cmd.Flags().Changed(name) {
			return cli.Usagef("--%s is for --environment %s, not %s", name, scalingops.Environment, environment)
		}
	}
	return nil
}

// history reads what is asked for.
func (o *scalingOpsFlags) history(cmd *cobra.Command) (scalingops.History, error) {
	switch {
	case (o.input == "") == (o.prometheus == ""):
		return nil, cli.Usagef("--environment %s needs one of --input and --from-prometheus", scalingops.Environment)
	case o.input != "":
		file, err := os.Open(o.input)
		if err != nil {
			return nil, cli.Usagef("--input: %w", err)
		}
		defer func() { _ = file.Close() }() // only read
		h, err := scalingops.ReadCSV(file)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", o.input, err)
		}
		return h, nil
	case o.step < time.Second || o.past < o.step:
		return nil, cli.Usagef("--sample-step must be 1s or more and --past no less, are %v and %v", o.step, o.past)
	case o.past/o.step > scalingops.MaxRows:
		return nil, cli.Usagef("--past has more than %d steps of --sample-step", scalingops.MaxRows)
	}
	q := o.queries
	if namespace, name, ok := strings.Cut(o.workload, "/"); ok && namespace != "" && name != "" {
		def := scalingops.DefaultQueries(api.Key{Namespace: namespace, Name: name})
		for _, c := range []struct{ given, def *string }{{&q.CPU, &def.CPU}, {&q.Requests, &def.Requests}, {&q.Delay, &def.Delay}, {&q.Replicas, &def.Replicas}} {
			if *c.given == "" {
				*c.given = *c.def
			}
		}
	}
	if q.CPU == "" || q.Requests == "" || q.Delay == "" || q.Replicas == "" {
		return nil, cli.Usagef("--from-prometheus needs --workload NAMESPACE/NAME, or all of --cpu-query, --requests-query, --delay-query and --replicas-query")
	}
	return scalingops.FromPrometheus(cmd.Context(), o.prometheus, q, time.Now(), int(o.past/o.step), o.step)
}

// run is the pipeline: the history, the candidates, their models and the report.
func (o *scalingOpsFlags) run(cmd *cobra.Command, algorithm, from, out string, show func(any, string) error) error {
	if algorithm != "" && algorithm != "dqn" {
		return cli.Usagef("--algorithm: %s learns by dqn, not %q", scalingops.Environment, algorithm)
	}
	if out == "" {
		return cli.Usagef("--out must name a folder")
	}
	if cmd.Flags().Changed("saving-weight") {
		o.Saving = &o.saving
	}
	if from != "" {
		m, _, err := training.Load(from)
		if err != nil {
			return cli.Usagef("--from: %w", err)
		}
		o.From = &m
	}
	h, err := o.history(cmd)
	if err != nil {
		return asScalingOps(err)
	}
	result, world, err := scalingops.Train(cmd.Context(), h, o.Options, cli.ProgressTo(cmd.ErrOrStderr()))
	if err != nil {
		return asScalingOps(err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return cli.Usagef("--out: %w", err)
	}
	source := "--input " + o.input
	if o.input == "" {
		source = "--from-prometheus " + o.prometheus
	}
	command := fmt.Sprintf("mash2 train --environment %s %s --steps %d --seed %d --sla %g", scalingops.Environment, source, o.Steps, o.Seed, o.SLA)
	if o.Saving != nil {
		command += fmt.Sprintf(" --saving-weight %g", *o.Saving)
	}
	if from != "" {
		command += " --from " + from
	}
	if err := result.Write(out, world, o.Options, cli.Version(), command); err != nil {
		return err
	}
	var text strings.Builder
	scalingOpsText(&text, &result)
	return show(result, strings.TrimRight(text.String(), "\n"))
}

// scalingOpsText is the table and where the rest is.
func scalingOpsText(w io.Writer, r *scalingops.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header, rows := r.Table()
	fmt.Fprintln(t, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // into memory
	if r.Why != "" {
		fmt.Fprintln(w, r.Why)
	}
	fmt.Fprintf(w, "%d steps in %.1f s; report: %s\n", r.Steps, r.Seconds, r.Report)
}

// asScalingOps marks errors of what was asked for.
func asScalingOps(err error) error {
	if errors.Is(err, scalingops.ErrHistory) || errors.Is(err, scalingops.ErrOptions) || errors.Is(err, simulation.ErrInput) {
		return cli.Usage(err)
	}
	return err
}
