package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/backtest"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/forecast"
)

func newBacktest() *cobra.Command {
	var o seriesFlags
	var models []string
	var windows int
	var dir string
	cmd := &cobra.Command{
		Use:   "backtest",
		Short: "Scores forecast models on the last part of a series",
		Long: `Forecasts the last stretches of a series, each from the data before it, and scores
the models by the actual values. Stretches do not overlap, and models are fitted
again before each one.

  mash2 backtest --input requests.csv.gz --horizon 1h --windows 24 --models auto,seasonal-naive --report out`,
		Args: cli.NoArgs,
	}
	o.add(cmd, []float64{0.5, 0.9, 0.95})
	f := cmd.Flags()
	f.IntVar(&windows, "windows", 10, "number of stretches")
	f.StringSliceVar(&models, "models", []string{forecast.AutoName, forecast.SeasonalNaiveName, forecast.NaiveName},
		"models to compare, or all; one of "+strings.Join(forecasters.Names(), ", "))
	f.StringVar(&dir, "report", "", "folder for an HTML report and its figures as PNG")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		if windows < 1 {
			return cli.Usagef("--windows must be 1 or more, is %d", windows)
		}
		if len(models) == 1 && models[0] == "all" {
			models = forecasters.Names()
		}
		levels, err := o.levels()
		if err != nil {
			return err
		}
		if len(models) == 0 {
			return cli.Usagef("--models must name at least one")
		}
		run := backtest.Options{Windows: windows, Levels: levels, Report: dir}
		for _, name := range models {
			f, err := forecasters.ByName(name)
			if err != nil {
				return cli.Usage(fmt.Errorf("--models: %w", err))
			}
			run.Models = append(run.Models, f)
		}
		all, err := o.read(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		inputs := make([]backtest.Input, len(all))
		for i, in := range all {
			horizon, err := o.horizon(in.series.Step)
			if err != nil {
				return err
			}
			inputs[i] = backtest.Input{Name: in.name, Series: in.series, Horizon: horizon}
		}
		out, err := run.Run(inputs, cli.ProgressTo(cmd.ErrOrStderr()))
		if err != nil {
			return asInput(err)
		}
		return show(out, backtestText(out))
	}
	return cmd
}

// backtestText is what is printed for people.
func backtestText(r backtest.Result) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{r.Header()}, r.Rows()...) {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	_ = t.Flush() // into memory
	fmt.Fprintf(&b, "%s windows of %d steps", strconv.Itoa(r.Windows), r.Horizon)
	if r.Report != "" {
		fmt.Fprintf(&b, "; report in %s", r.Report)
	}
	return b.String()
}
