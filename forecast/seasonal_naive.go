package forecast

import "github.com/mash2-io/mash2/api"

// SeasonalNaive is the seasonal naive method (Hyndman and Athanasopoulos,
// Forecasting: Principles and Practice, 3rd ed., §5.2), the reference that forecasts
// are measured against: ŷ(T+h) = y(T+h−m(k+1)), where m is the season in samples and
// k the whole part of (h−1)/m, so that the last season is repeated as it was. m is
// found on the series and need not be whole: between two samples it is read
// linearly. Without a season it is the last value.
type SeasonalNaive struct{}

// Name implements Forecaster.
func (SeasonalNaive) Name() string { return SeasonalNaiveName }

// Update implements Forecaster.
func (SeasonalNaive) Update(s State, series api.Series, horizon int) (State, error) {
	return Seasonal{lastCycle: true}.Update(s, series, horizon)
}

// Forecast implements Forecaster.
func (SeasonalNaive) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	return Seasonal{lastCycle: true}.Forecast(s, series, horizon, levels)
}
