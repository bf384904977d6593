package backtest

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/forecast/score"
)

// maxFans bounds how many series a report draws.
const maxFans = 12

// writeReport draws fans, calibration and scores into a folder.
func (r Result) writeReport(dir string) (string, error) {
	page := report.Page{
		Title: "Backtest",
		Intro: []string{fmt.Sprintf("The last %d stretches of %d steps of each series, each forecast from what was known before it.", r.Windows, r.Horizon)},
		Sections: []report.Section{
			{Title: "Scores", Tables: []report.Table{{Header: r.Header(), Rows: r.Rows(),
				Note: "WQL over 0.1 to 0.9; MASE relative to the seasonal last value; coverage is one-sided; peak under and over are of the highest quantile; ms of CPU per window."}}},
			{Title: "Calibration", Figures: []report.Figure{r.calibration()}},
		},
	}
	fans := report.Section{Title: "Fans"}
	for i, run := range r.runs {
		if i < maxFans*len(r.Mean) && run.model == r.runs[0].model {
			fans.Figures = append(fans.Figures, fan(run))
		}
	}
	page.Sections = append(page.Sections, fans)
	return report.WriteFolder(dir, page)
}

// calibration is the share of samples at or below each quantile, by model.
func (r Result) calibration() report.Figure {
	f := report.Figure{
		Title: "Calibration", XLabel: "quantile", YLabel: "share of samples at or below",
		Series: []report.Series{{Name: "ideal", X: []float64{0, 1}, Y: []float64{0, 1}, Color: 7, Dash: 1}},
		Note:   "On the diagonal a stated 0.9 is 0.9; below it the forecast promises too much.",
	}
	for i, m := range r.Mean {
		line := report.Series{Name: m.Model, Color: i % (report.Colors() - 1)}
		var actual []float64
		var rows [][]float64
		var levels []float64
		for _, run := range r.runs {
			if run.model != m.Model {
				continue
			}
			for _, w := range run.windows {
				levels = w.Forecast.Levels
				if rows == nil {
					rows = make([][]float64, len(levels))
				}
				actual = append(actual, w.Actual...)
				for k, q := range w.Forecast.Quantiles {
					rows[k] = append(rows[k], q...)
				}
			}
		}
		for k, q := range levels {
			line.X, line.Y = append(line.X, q), append(line.Y, score.Coverage(actual, rows[k]))
		}
		f.Series = append(f.Series, line)
	}
	return f
}

// fan shows what came, and the forecasts of the newest windows around it.
func fan(run run) report.Figure {
	const newest = 4 // windows, and as much before them
	windows := run.windows[max(0, len(run.windows)-newest):]
	s := run.input.Series
	hours := func(i int) float64 { return (time.Duration(i) * s.Step).Hours() }
	first := max(0, windows[0].Origin-newest*len(windows[0].Actual))
	actual := report.Series{Name: "actual", Color: 6}
	for i := first; i < len(s.Values); i++ {
		actual.X, actual.Y = append(actual.X, hours(i)), append(actual.Y, s.Values[i])
	}
	f := report.Figure{
		Title: filepath.Base(run.input.Name) + " by " + run.model, XLabel: "hours since the first sample", YLabel: "value",
		Note: "Each window is forecast from what lies before it.",
	}
	f.Series = append(f.Series, actual)
	levels := windows[0].Forecast.Levels
	for _, k := range []int{0, len(levels) / 2, len(levels) - 1} {
		line := report.Series{Name: "quantile " + LevelKey(levels[k]), Color: k * 3 % 6, Dash: 1}
		for _, w := range windows {
			for h, v := range w.Forecast.Quantiles[k] {
				line.X, line.Y = append(line.X, hours(w.Origin+1+h)), append(line.Y, v)
			}
		}
		f.Series = append(f.Series, line)
	}
	for _, w := range windows {
		f.Marks = append(f.Marks, report.Mark{X: hours(w.Origin)})
	}
	return f
}
