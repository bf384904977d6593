package forecast

import (
	"fmt"
	"math"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/season"
)

// Single forecasts by one model of the portfolio alone, calibrated at past
// origins like the mixture. A history that is not for the model (too short, or
// without the season it needs) is forecast by the last value.
type Single struct {
	// Model is a name that Names lists.
	Model string
}

// Name implements Forecaster.
func (m Single) Name() string { return m.Model }

// Update implements Forecaster.
func (m Single) Update(s State, series api.Series, horizon int) (State, error) {
	if err := Check(s, series, horizon, nil); err != nil {
		return s, err
	}
	if !s.Due(series, horizon) {
		return s, nil
	}
	next := s.fitted(series, horizon)
	next.Model = m.Model
	series = State{}.withoutFreak(series)
	series.Values = withoutOutage(series.Values)
	r := recipeOf(m.Model)
	if r == nil {
		return s, fmt.Errorf("%w %q", ErrUnknownModel, m.Model)
	}
	y := series.Values
	seasons := season.Find(y)
	h := newHistory(y, seasons)
	params := learn(r, h, horizon)
	if params == nil {
		return next, nil
	}
	period, seasonal := choosePeriod(y, seasons, 0, horizon)
	if seasonal {
		next.Seasons = listSeasons(seasons, period)
		next.Seasonal = &SeasonalFit{Period: period, Cycles: 1}
	}
	fit := MixtureFit{
		Experts: []Expert{{Name: m.Model, Weight: 1, Params: params}}, Periods: h.periods, Start: series.Start, Up: 1, Down: 1,
	}
	if origins := skillOrigins(len(y), period, horizon); len(origins) >= minSkillOrigins {
		if then := learn(r, h.until(origins[0]+1), horizon); then != nil {
			past := fit
			past.Experts = []Expert{{Name: m.Model, Weight: 1, Params: then}}
			p := newMixture(h, past, next.Seasonal, horizon)
			loss := p.calibrate(nil, origins, horizon).mean()
			fit.Up, fit.Down = p.up, p.down
			if skill := 1 - loss/pathLoss(lastValue{y}, y, origins, horizon); !math.IsNaN(skill) && !math.IsInf(skill, 0) {
				next.Skill = &skill
			}
		}
	}
	next.Mixture = &fit
	return next, nil
}

// Forecast implements Forecaster.
func (m Single) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if err := Check(s, series, horizon, levels); err != nil {
		return api.Forecast{}, err
	}
	series = s.withoutFreak(series)
	y := series.Values
	if !s.usable(series) || s.Mixture == nil {
		return predict(m.Model, lastValue{y}, y, State{Skill: s.Skill}, series, horizon, levels), nil
	}
	return predict(m.Model, mixtureOf(s, series, horizon, false), y, s, series, horizon, levels), nil
}

func recipeOf(name string) recipe {
	for _, r := range recipes() {
		if r.name() == name {
			return r
		}
	}
	return nil
}
