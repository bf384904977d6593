package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/forecast"
)

// backtestScore is of one model on one series, or its mean over series.
type backtestScore struct {
	Input string   `json:"input,omitempty"`
	Model string   `json:"model"`
	SMAPE *float64 `json:"smape"`
	MASE  *float64 `json:"mase"`
	// WQL is over 0.1 … 0.9.
	WQL      *float64            `json:"wql"`
	Pinball  map[string]*float64 `json:"pinball"`
	Coverage map[string]*float64 `json:"coverage"`
	// PeakUnderRatio is the share of windows whose peak was above its forecast
	// quantile, the highest one; PeakUnder is by quantile.
	PeakUnderRatio *float64            `json:"peakUnderRatio"`
	PeakUnder      map[string]*float64 `json:"peakUnder"`
	// PeakOver is how far, in the mean and relative to the peak that came, the
	// highest quantile of the peak was above it where it was above.
	PeakOver *float64 `json:"peakOverRatio"`
	// FitMillis is CPU time per window, fitting and forecasting.
	FitMillis *float64 `json:"fitMillis"`
}

type backtestResult struct {
	Horizon int             `json:"horizon"`
	Windows int             `json:"windows"`
	Series  []backtestScore `json:"series"`
	Mean    []backtestScore `json:"mean"`
	Report  string          `json:"report,omitempty"`

	runs   []backtestRun
	levels []float64
}

// backtestRun is one model over the windows of one series.
type backtestRun struct {
	input   named
	model   string
	windows []forecast.Window
}

// wqlLevels are those of the weighted quantile loss.
var wqlLevels = []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}

func newBacktest() *cobra.Command {
	var o seriesFlags
	var models []string
	var windows int
	var dir string
	cmd := &cobra.Command{
		Use:   "backtest",
		Short: "Scores forecast models on the end of a series",
		Long: `Forecasts the last stretches of a series, none of which overlap, each from what
was known before it, and scores models by what came. Models are fitted anew
before each stretch.

  mash2 backtest --input requests.csv.gz --horizon 1h --windows 24 --models auto,seasonal-naive --report out`,
		Args: cli.NoArgs,
	}
	o.add(cmd, []float64{0.5, 0.9, 0.95})
	f := cmd.Flags()
	f.IntVar(&windows, "windows", 10, "number of stretches")
	f.StringSliceVar(&models, "models", []string{forecast.AutoName, forecast.SeasonalNaiveName, forecast.NaiveName},
		"models to compare, of "+strings.Join(forecast.Names(), ", ")+"; all for all of them")
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
			models = forecast.Names()
		}
		levels, err := o.levels()
		if err != nil {
			return err
		}
		if len(models) == 0 {
			return cli.Usagef("--models must name at least one")
		}
		forecasters := make([]forecast.Forecaster, len(models))
		for i, name := range models {
			if forecasters[i], err = forecast.ByName(name); err != nil {
				return cli.Usage(fmt.Errorf("--models: %w", err))
			}
		}
		inputs, err := o.read(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		out := backtestResult{Windows: windows, levels: levels, Series: []backtestScore{}}
		progress := cli.ProgressTo(cmd.ErrOrStderr())
		for _, in := range inputs {
			horizon, err := o.horizon(in.series.Step)
			if err != nil {
				return err
			}
			out.Horizon = horizon
			if err := out.run(in, forecasters, horizon, progress); err != nil {
				return err
			}
		}
		out.Mean = meanScores(out.Series, models)
		if dir != "" {
			if out.Report, err = out.writeReport(dir); err != nil {
				return err
			}
		}
		return show(out, out.text())
	}
	return cmd
}

// run backtests every model on one series.
func (r *backtestResult) run(in named, models []forecast.Forecaster, horizon int, progress io.Writer) error {
	asked := slices.Concat(wqlLevels, r.levels)
	slices.Sort(asked)
	asked = slices.Compact(asked)
	period := 0
	for _, f := range models {
		begun := cpuTime()
		got, err := forecast.Backtest(f, in.series, horizon, r.Windows, asked)
		if err != nil {
			return inputError(in.name, err)
		}
		millis := (cpuTime() - begun).Seconds() * 1000 / float64(r.Windows)
		if period == 0 {
			period = forecast.SeasonOf(in.series.Values[:got[0].Origin+1], horizon)
		}
		s := newBacktestScore(forecast.Evaluate(in.series, got, period), asked, r.levels)
		s.Input, s.Model, s.FitMillis = in.name, f.Name(), defined(millis)
		s.PeakOver = defined(peakOver(got, slices.Index(asked, r.levels[len(r.levels)-1])))
		r.Series = append(r.Series, s)
		r.runs = append(r.runs, backtestRun{in, f.Name(), got})
		fmt.Fprintf(progress, "%s %s: %.1f ms per window\n", in.name, f.Name(), millis)
	}
	return nil
}

func newBacktestScore(e forecast.Score, asked, levels []float64) backtestScore {
	s := backtestScore{
		SMAPE: defined(e.SMAPE), MASE: defined(e.MASE), WQL: defined(e.WQL),
		Pinball: map[string]*float64{}, Coverage: map[string]*float64{}, PeakUnder: map[string]*float64{},
	}
	for _, q := range levels {
		i := slices.Index(asked, q)
		s.Pinball[levelKey(q)], s.Coverage[levelKey(q)] = defined(e.Pinball[i]), defined(e.Coverage[i])
		s.PeakUnder[levelKey(q)] = defined(e.PeakUnder[i])
		s.PeakUnderRatio = defined(e.PeakUnder[i])
	}
	return s
}

// peakOver is the mean excess of the peaks' forecasts over the peaks.
func peakOver(windows []forecast.Window, level int) float64 {
	sum, n := 0.0, 0
	for _, w := range windows {
		peak := 0.0
		for _, v := range w.Actual {
			if v > peak { // not for a gap
				peak = v
			}
		}
		if peak > 0 {
			sum += max(0, w.Forecast.PeakQuantiles[level]-peak) / peak
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// meanScores averages what is defined, by model.
func meanScores(series []backtestScore, models []string) []backtestScore {
	out := make([]backtestScore, 0, len(models))
	for _, m := range models {
		mean := func(of func(backtestScore) *float64) *float64 {
			sum, n := 0.0, 0
			for _, s := range series {
				if v := of(s); s.Model == m && v != nil {
					sum += *v
					n++
				}
			}
			if n == 0 {
				return nil
			}
			return defined(sum / float64(n))
		}
		byLevel := func(of func(backtestScore) map[string]*float64) map[string]*float64 {
			levels := map[string]*float64{}
			for _, s := range series {
				for q := range of(s) {
					levels[q] = mean(func(s backtestScore) *float64 { return of(s)[q] })
				}
			}
			return levels
		}
		out = append(out, backtestScore{
			Model:          m,
			SMAPE:          mean(func(s backtestScore) *float64 { return s.SMAPE }),
			MASE:           mean(func(s backtestScore) *float64 { return s.MASE }),
			WQL:            mean(func(s backtestScore) *float64 { return s.WQL }),
			Pinball:        byLevel(func(s backtestScore) map[string]*float64 { return s.Pinball }),
			Coverage:       byLevel(func(s backtestScore) map[string]*float64 { return s.Coverage }),
			PeakUnder:      byLevel(func(s backtestScore) map[string]*float64 { return s.PeakUnder }),
			PeakUnderRatio: mean(func(s backtestScore) *float64 { return s.PeakUnderRatio }),
			PeakOver:       mean(func(s backtestScore) *float64 { return s.PeakOver }),
			FitMillis:      mean(func(s backtestScore) *float64 { return s.FitMillis }),
		})
	}
	return out
}

// cpuTime of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (r backtestResult) header() []string {
	out := []string{"input", "model", "sMAPE", "MASE", "WQL"}
	for _, q := range r.levels {
		out = append(out, "pinball "+levelKey(q))
	}
	for _, q := range r.levels {
		out = append(out, "coverage "+levelKey(q))
	}
	return append(out, "peak under", "peak over", "ms")
}

func (r backtestResult) row(s backtestScore) []string {
	cell := func(v *float64, format string) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf(format, *v)
	}
	name := s.Input
	if name == "" {
		name = "mean"
	}
	out := []string{name, s.Model, cell(s.SMAPE, "%.2f"), cell(s.MASE, "%.3f"), cell(s.WQL, "%.4f")}
	for _, q := range r.levels {
		out = append(out, cell(s.Pinball[levelKey(q)], "%.4g"))
	}
	for _, q := range r.levels {
		out = append(out, cell(s.Coverage[levelKey(q)], "%.3f"))
	}
	return append(out, cell(s.PeakUnderRatio, "%.2f"), cell(s.PeakOver, "%.2f"), cell(s.FitMillis, "%.1f"))
}

func (r backtestResult) rows() [][]string {
	var out [][]string
	for _, s := range r.Series {
		out = append(out, r.row(s))
	}
	if len(r.Series) > len(r.Mean) {
		for _, s := range r.Mean {
			out = append(out, r.row(s))
		}
	}
	return out
}

func (r backtestResult) text() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{r.header()}, r.rows()...) {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	_ = t.Flush() // into memory
	fmt.Fprintf(&b, "%s windows of %d steps", strconv.Itoa(r.Windows), r.Horizon)
	if r.Report != "" {
		fmt.Fprintf(&b, "; report in %s", r.Report)
	}
	return b.String()
}
