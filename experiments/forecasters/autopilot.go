package forecasters

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// Autopilot is the moving window recommender of Google's Autopilot (Rzadca et
// al., EuroSys 2020, §3.2.2): percentiles of what was seen, a sample's weight
// halving with every 12 hours and growing with its load, with a safety margin.
// It is a baseline: the same value for every step.
type Autopilot struct{}

// AutopilotName is the name of Autopilot.
const AutopilotName = "autopilot"

const (
	autopilotHalfLife = 12 * time.Hour // of CPU
	autopilotMargin   = 0.10           // the least of "10–15 %", at 0.9 and above
	autopilotHold     = time.Hour      // recommendations hold for as long
)

// Name implements forecast.Forecaster.
func (Autopilot) Name() string { return AutopilotName }

// Update implements forecast.Forecaster. There is nothing to learn.
func (Autopilot) Update(s forecast.State, series api.Series, horizon int) (forecast.State, error) {
	return forecast.Naive{}.Update(s, series, horizon)
}

// Forecast implements forecast.Forecaster.
func (Autopilot) Forecast(s forecast.State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if err := forecast.Check(s, series, horizon, levels); err != nil {
		return api.Forecast{}, err
	}
	f := api.Forecast{
		Model: AutopilotName, Start: series.End().Add(series.Step), Step: series.Step,
		Levels: slices.Clone(levels), Quantiles: make([][]float64, len(levels)), PeakQuantiles: make([]float64, len(levels)),
		Skill: math.NaN(),
	}
	y := series.Values
	f.Mean = flat(decayedMean(y, series.Step), horizon)
	// The largest recommendation of the last hour, at its ends and between.
	for back := range 3 {
		end := len(y) - back*int(autopilotHold/2/series.Step)
		if end < 1 || back > 0 && end == len(y) {
			continue
		}
		for i, v := range decayedPercentiles(y[:end], series.Step, levels) {
			if levels[i] >= 0.9 {
				v *= 1 + autopilotMargin
			}
			f.PeakQuantiles[i] = max(f.PeakQuantiles[i], v)
		}
	}
	for i := range levels {
		if i > 0 {
			f.PeakQuantiles[i] = max(f.PeakQuantiles[i], f.PeakQuantiles[i-1])
		}
		f.Quantiles[i] = flat(f.PeakQuantiles[i], horizon)
	}
	return f, nil
}

func flat(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func decay(age int, step time.Duration) float64 {
	return math.Exp2(-float64(age) * step.Hours() / autopilotHalfLife.Hours())
}

func decayedMean(y []float64, step time.Duration) float64 {
	sum, weight := 0.0, 0.0
	for t, v := range y {
		if w := decay(len(y)-1-t, step); !math.IsNaN(v) && w > 1e-12 {
			sum += w * v
			weight += w
		}
	}
	if weight == 0 {
		last, _, _ := api.Series{Values: y}.Last()
		return last
	}
	return sum / weight
}

// decayedPercentiles are of the load-adjusted histogram: a value counts as much
// as it is large, so that a percentile is a share of the load, not of time.
func decayedPercentiles(y []float64, step time.Duration, levels []float64) []float64 {
	type sample struct{ v, w float64 }
	var samples []sample
	total := 0.0
	for t, v := range y {
		if w := decay(len(y)-1-t, step); !math.IsNaN(v) && w > 1e-9 {
			samples = append(samples, sample{v, w * v})
			total += w * v
		}
	}
	out := make([]float64, len(levels))
	if total == 0 {
		return out
	}
	slices.SortFunc(samples, func(a, b sample) int { return cmp.Compare(a.v, b.v) })
	i, cum := 0, samples[0].w
	for k, q := range levels {
		for i < len(samples)-1 && cum < q*total {
			i++
			cum += samples[i].w
		}
		out[k] = samples[i].v
	}
	return out
}
