package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/backtest"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/forecast"
)

// forecastResult is what mash2 forecast -o json prints.
type forecastResult struct {
	Input string  `json:"input"`
	Model string  `json:"model"`
	Step  float64 `json:"step"` // seconds
	// Season lists the periods found, in steps.
	Season     []float64            `json:"season"`
	Skill      *float64             `json:"skill"`
	Timestamps []string             `json:"timestamps"`
	Mean       []float64            `json:"mean"`
	Quantiles  map[string][]float64 `json:"quantiles"`
	Peak       map[string]float64   `json:"peak"`
}

func newForecast() *cobra.Command {
	var o seriesFlags
	var modelName string
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Forecasts a series: mean, quantiles, and the peak within the horizon",
		Long: `Forecasts a series from a file or from Prometheus. The file has a header, a
timestamp (RFC 3339, 2006-01-02 15:04:05 or unix seconds) and a value; flags
describe other shapes. Gaps stay gaps, rows may be in any order, and the last row
of a repeated timestamp counts.

  mash2 forecast --input requests.csv.gz --horizon 24h
  mash2 forecast --prometheus http://localhost:9090 --query 'sum(rate(http_requests_total[1m]))' --horizon 1h`,
		Args: cli.NoArgs,
	}
	o.add(cmd, []float64{0.1, 0.5, 0.9, 0.95})
	cmd.Flags().StringVar(&modelName, "model", forecast.AutoName, "one of "+strings.Join(forecasters.Names(), ", "))
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		f, err := forecasters.ByName(modelName)
		if err != nil {
			return cli.Usage(fmt.Errorf("--model: %w", err))
		}
		levels, err := o.levels()
		if err != nil {
			return err
		}
		if len(o.inputs) > 1 {
			return cli.Usagef("--input names %d files: one at a time", len(o.inputs))
		}
		all, err := o.read(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		s := all[0]
		horizon, err := o.horizon(s.series.Step)
		if err != nil {
			return err
		}
		got, err := forecast.Predict(f, s.series, horizon, levels)
		if err != nil {
			return asInput(fmt.Errorf("%s: %w", s.name, err))
		}
		out := newForecastResult(s.name, got)
		return show(out, out.text(got))
	}
	return cmd
}

// asInput tells an error about what was read from one of the program.
func asInput(err error) error {
	for _, of := range []error{forecast.ErrNoHistory, forecast.ErrBadSample, forecast.ErrBadRequest} {
		if errors.Is(err, of) {
			return cli.Usage(err)
		}
	}
	return err
}

func newForecastResult(name string, f api.Forecast) forecastResult {
	out := forecastResult{
		Input: name, Model: f.Model, Step: f.Step.Seconds(), Season: []float64{}, Skill: score.Finite(f.Skill),
		Mean: f.Mean, Quantiles: map[string][]float64{}, Peak: map[string]float64{},
	}
	for _, s := range f.Seasons {
		out.Season = append(out.Season, float64(s)/float64(f.Step))
	}
	for h := range f.Mean {
		out.Timestamps = append(out.Timestamps, f.Start.Add(time.Duration(h)*f.Step).UTC().Format(time.RFC3339))
	}
	for i, q := range f.Levels {
		out.Quantiles[backtest.LevelKey(q)], out.Peak[backtest.LevelKey(q)] = f.Quantiles[i], f.PeakQuantiles[i]
	}
	return out
}

func (r forecastResult) text(f api.Forecast) string {
	var b strings.Builder
	fmt.Fprintf(&b, "model %s, step %v", r.Model, f.Step)
	for _, s := range f.Seasons {
		fmt.Fprintf(&b, ", season %v", s.Round(time.Second))
	}
	if r.Skill != nil {
		fmt.Fprintf(&b, ", skill %.2f", *r.Skill)
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := []string{"time", "mean"}
	for _, q := range f.Levels {
		header = append(header, backtest.LevelKey(q))
	}
	fmt.Fprintln(t, strings.Join(header, "\t")+"\t")
	for h, at := range r.Timestamps {
		cells := []string{at, number(f.Mean[h])}
		for i := range f.Levels {
			cells = append(cells, number(f.Quantiles[i][h]))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	cells := []string{"peak", ""}
	for _, p := range f.PeakQuantiles {
		cells = append(cells, number(p))
	}
	fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	_ = t.Flush() // into memory
	return strings.TrimRight(b.String(), "\n")
}

func number(x float64) string { return fmt.Sprintf("%.5g", x) }
