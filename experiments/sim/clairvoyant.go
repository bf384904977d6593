package sim

import (
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

// foresightStep is how finely what will be asked is looked at.
const foresightStep = 5 * time.Second

// foresight is a forecaster that knows the load to come: what the operator could
// do if its forecasts were right. It knows the mean of what is random.
type foresight struct {
	// demand of a workload in reference cores at a time since Epoch, by the ID of
	// its forecast's state.
	demand map[uint64]func(time.Duration) float64
	window time.Duration // over which demand is measured
}

func newForesight(s scenarios.Scenario, p Params, workloads []*workload, passes int, seed uint64, start time.Duration) foresight {
	f := foresight{demand: map[uint64]func(time.Duration) float64{}, window: p.RateWindow}
	askers := askersOf(s, passes, seed)
	pass := s.PassDuration()
	end := time.Duration(passes)*pass - time.Second
	for i, w := range workloads {
		service := w.key.Name
		if s.Single() {
			service = s.Deployments()[0].Name
		}
		known := map[int64]float64{} // the same times are asked for again and again
		f.demand[forecast.NewState(w.key.String()).ID] = func(at time.Duration) float64 {
			if at -= start; at < 0 {
				return 0
			}
			step := int64(min(at, end) / foresightStep)
			if sum, ok := known[step]; ok {
				return sum
			}
			at = time.Duration(step) * foresightStep
			sum := 0.0
			for _, a := range askers {
				if work := a.work[service]; work > 0 && (!s.Single() || a.copy == i) {
					answer := 0.0 // at the speed of the reference, without waiting
					for _, each := range a.work {
						answer += each
					}
					sum += a.rate(at, answer) * work * s.WorkFactor(service, at%pass)
				}
			}
			known[step] = sum
			return sum
		}
	}
	return f
}

// Name implements forecast.Forecaster.
func (foresight) Name() string { return Clairvoyant }

// Update implements forecast.Forecaster.
func (foresight) Update(s forecast.State, _ api.Series, _ int) (forecast.State, error) { return s, nil }

// Forecast implements forecast.Forecaster: what will be measured.
func (f foresight) Forecast(s forecast.State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	out := api.Forecast{
		Model: f.Name(), Start: series.End().Add(series.Step), Step: series.Step,
		Mean: make([]float64, horizon), Levels: levels, Skill: 1, SeasonalSkill: 1,
	}
	demand := f.demand[s.ID]
	peak := 0.0
	for h := range out.Mean {
		at := out.Start.Add(time.Duration(h) * out.Step).Sub(Epoch)
		n := 0
		for back := time.Duration(0); back < f.window; back += foresightStep {
			out.Mean[h] += 1000 * demand(at-back)
			n++
		}
		out.Mean[h] /= float64(n)
		peak = max(peak, out.Mean[h])
	}
	for range levels {
		out.Quantiles = append(out.Quantiles, out.Mean)
		out.PeakQuantiles = append(out.PeakQuantiles, peak)
	}
	return out, nil
}

// foretold forecasts are right up to some time ahead. Beyond it they are the operator's own
// where those are trusted; else it goes on as it is then.
type foretold struct {
	forecast.Forecaster // the operator's own
	known               foresight
	ahead               time.Duration
}

// Forecast implements forecast.Forecaster.
func (f foretold) Forecast(s forecast.State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	out, err := f.Forecaster.Forecast(s, series, horizon, levels)
	if err != nil {
		return out, err
	}
	n := min(horizon, int(f.ahead/series.Step))
	right, err := f.known.Forecast(s, series, n, levels)
	if err != nil || n == 0 {
		return out, err
	}
	trusted := out.Skill >= planning.DefaultConfig().MinSkill
	mend := func(row []float64) []float64 {
		row = slices.Clone(row)
		copy(row, right.Mean)
		for i := n; i < len(row) && !trusted; i++ {
			row[i] = right.Mean[n-1]
		}
		return row
	}
	out.Mean, out.Quantiles, out.PeakQuantiles = mend(out.Mean), slices.Clone(out.Quantiles), slices.Clone(out.PeakQuantiles)
	for i := range out.Quantiles {
		out.Quantiles[i] = mend(out.Quantiles[i])
	}
	for i := range out.PeakQuantiles {
		out.PeakQuantiles[i] = slices.Max(out.Quantiles[i])
	}
	out.Skill, out.SeasonalSkill, out.Coverage = 1, 1, nil
	return out, nil
}
