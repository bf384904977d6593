// Package backtest scores forecast models on the ends of series.
package backtest

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/forecast"
)

// Input is a series and how far it is to be forecast.
type Input struct {
	Name    string
	Series  api.Series
	Horizon int // steps
}

// Options of a backtest.
type Options struct {
	// Models to compare; each is fitted anew before each stretch.
	Models []forecast.Forecaster
	// Windows is the number of stretches at the end of each series, which don't overlap.
	Windows int
	// Levels of the quantiles that are shown, increasing; at least one.
	Levels []float64
	// Report is a folder for a page and its figures; none if empty.
	Report string
}

// Score is of one model on one series, or its mean over series.
type Score struct {
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

// Result is what mash2 backtest prints as JSON.
type Result struct {
	Horizon int     `json:"horizon"`
	Windows int     `json:"windows"`
	Series  []Score `json:"series"`
	Mean    []Score `json:"mean"`
	Report  string  `json:"report,omitempty"`

	runs   []run
	levels []float64
}

// run is one model over the windows of one series.
type run struct {
	input   Input
	model   string
	windows []forecast.Window
}

// wqlLevels are those of the weighted quantile loss.
var wqlLevels = []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}

// Run scores every model on every series. Errors name the input that they are of.
func (o Options) Run(inputs []Input, progress io.Writer) (Result, error) {
	out := Result{Windows: o.Windows, levels: o.Levels, Series: []Score{}}
	for _, in := range inputs {
		out.Horizon = in.Horizon
		if err := out.run(in, o.Models, progress); err != nil {
			return out, fmt.Errorf("%s: %w", in.Name, err)
		}
	}
	out.Mean = meanScores(out.Series, o.Models)
	if o.Report != "" {
		var err error
		if out.Report, err = out.writeReport(o.Report); err != nil {
			return out, err
		}
	}
	return out, nil
}

// run backtests every model on one series.
func (r *Result) run(in Input, models []forecast.Forecaster, progress io.Writer) error {
	asked := slices.Concat(wqlLevels, r.levels)
	slices.Sort(asked)
	asked = slices.Compact(asked)
	period := 0
	for _, f := range models {
		begun := cpuTime()
		got, err := forecast.Backtest(f, in.Series, in.Horizon, r.Windows, asked)
		if err != nil {
			return err
		}
		millis := (cpuTime() - begun).Seconds() * 1000 / float64(r.Windows)
		if period == 0 {
			period = forecast.SeasonOf(in.Series.Values[:got[0].Origin+1], in.Horizon)
		}
		s := newScore(forecast.Evaluate(in.Series, got, period), asked, r.levels)
		s.Input, s.Model, s.FitMillis = in.Name, f.Name(), score.Finite(millis)
		s.PeakOver = score.Finite(peakOver(got, slices.Index(asked, r.levels[len(r.levels)-1])))
		r.Series = append(r.Series, s)
		r.runs = append(r.runs, run{in, f.Name(), got})
		fmt.Fprintf(progress, "%s %s: %.1f ms per window\n", in.Name, f.Name(), millis)
	}
	return nil
}

func newScore(e forecast.Score, asked, levels []float64) Score {
	s := Score{
		SMAPE: score.Finite(e.SMAPE), MASE: score.Finite(e.MASE), WQL: score.Finite(e.WQL),
		Pinball: map[string]*float64{}, Coverage: map[string]*float64{}, PeakUnder: map[string]*float64{},
	}
	for _, q := range levels {
		i := slices.Index(asked, q)
		s.Pinball[LevelKey(q)], s.Coverage[LevelKey(q)] = score.Finite(e.Pinball[i]), score.Finite(e.Coverage[i])
		s.PeakUnder[LevelKey(q)] = score.Finite(e.PeakUnder[i])
		s.PeakUnderRatio = score.Finite(e.PeakUnder[i])
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
func meanScores(series []Score, models []forecast.Forecaster) []Score {
	out := make([]Score, 0, len(models))
	for _, f := range models {
		m := f.Name()
		mean := func(of func(Score) *float64) *float64 {
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
			return score.Finite(sum / float64(n))
		}
		byLevel := func(of func(Score) map[string]*float64) map[string]*float64 {
			levels := map[string]*float64{}
			for _, s := range series {
				for q := range of(s) {
					levels[q] = mean(func(s Score) *float64 { return of(s)[q] })
				}
			}
			return levels
		}
		out = append(out, Score{
			Model:          m,
			SMAPE:          mean(func(s Score) *float64 { return s.SMAPE }),
			MASE:           mean(func(s Score) *float64 { return s.MASE }),
			WQL:            mean(func(s Score) *float64 { return s.WQL }),
			Pinball:        byLevel(func(s Score) map[string]*float64 { return s.Pinball }),
			Coverage:       byLevel(func(s Score) map[string]*float64 { return s.Coverage }),
			PeakUnder:      byLevel(func(s Score) map[string]*float64 { return s.PeakUnder }),
			PeakUnderRatio: mean(func(s Score) *float64 { return s.PeakUnderRatio }),
			PeakOver:       mean(func(s Score) *float64 { return s.PeakOver }),
			FitMillis:      mean(func(s Score) *float64 { return s.FitMillis }),
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

// Header of the table of scores.
func (r Result) Header() []string {
	out := []string{"input", "model", "sMAPE", "MASE", "WQL"}
	for _, q := range r.levels {
		out = append(out, "pinball "+LevelKey(q))
	}
	for _, q := range r.levels {
		out = append(out, "coverage "+LevelKey(q))
	}
	return append(out, "peak under", "peak over", "ms")
}

func (r Result) row(s Score) []string {
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
		out = append(out, cell(s.Pinball[LevelKey(q)], "%.4g"))
	}
	for _, q := range r.levels {
		out = append(out, cell(s.Coverage[LevelKey(q)], "%.3f"))
	}
	return append(out, cell(s.PeakUnderRatio, "%.2f"), cell(s.PeakOver, "%.2f"), cell(s.FitMillis, "%.1f"))
}

// Rows of the table of scores: of each series, and the means of several.
func (r Result) Rows() [][]string {
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

// LevelKey is a quantile as a key of JSON.
func LevelKey(q float64) string { return strconv.FormatFloat(q, 'g', -1, 64) }
