package forecast_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// Largest is a forecaster of your own: what comes is the largest value there was. It
// learns nothing, so that its state is the one it gets.
type Largest struct{}

var _ forecast.Forecaster = Largest{}

// Name implements forecast.Forecaster.
func (Largest) Name() string { return "largest" }

// Update implements forecast.Forecaster.
func (Largest) Update(s forecast.State, _ api.Series, _ int) (forecast.State, error) { return s, nil }

// Forecast implements forecast.Forecaster.
func (Largest) Forecast(_ forecast.State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if len(series.Values) == 0 {
		return api.Forecast{}, forecast.ErrNoHistory
	}
	most := slices.Max(series.Values)
	f := api.Forecast{
		Model: "largest", Step: series.Step, Start: series.Start.Add(time.Duration(len(series.Values)) * series.Step),
		Mean: slices.Repeat([]float64{most}, horizon), Levels: levels,
	}
	for range levels {
		f.Quantiles = append(f.Quantiles, f.Mean)
		f.PeakQuantiles = append(f.PeakQuantiles, most)
	}
	return f, nil
}

func ExampleForecaster() {
	series := api.Series{Start: time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC), Step: time.Minute}
	for i := range 240 { // four hours with a peak each hour, millicores
		series.Values = append(series.Values, float64(100+900*(i%60/50)))
	}
	known, err := forecast.ByName("quick")
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range []forecast.Forecaster{known, Largest{}} {
		state, err := f.Update(forecast.State{}, series, 60)
		if err != nil {
			fmt.Println(err)
		}
		next, err := f.Forecast(state, series, 60, []float64{0.5, 0.9})
		if err != nil {
			fmt.Println(err)
		}
		// In half an hour there is no peak, in 55 minutes there is.
		fmt.Printf("%s: %.0f then %.0f millicores\n", f.Name(), next.Mean[30], next.Mean[55])
	}
	// Output:
	// quick: 100 then 1000 millicores
	// largest: 1000 then 1000 millicores
}
