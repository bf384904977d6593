package main

import (
	"io"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/forecast"
)

// carriedOrigins of each series and horizon: a forecast of a state that is carried
// on takes little, and coverage needs many.
const carriedOrigins = 96

// carried scores every model as the operator runs one: a state that is updated at
// every sample of the last third of a series.
func (o options) carried(w io.Writer) error {
	return o.scoreTraces(w, "a state carried on", carriedOrigins, o.carry)
}

func (o options) carry(s api.Series, name string, ahead time.Duration) (cell, error) {
	f, err := forecasters.ByName(name)
	if err != nil {
		return cell{}, err
	}
	var state forecast.State
	next := len(s.Values) * 2 / 3
	return o.rollBy(s, ahead, carriedOrigins, func(past api.Series, horizon int) (api.Forecast, error) {
		for end := int(past.End().Sub(s.Start) / s.Step); next <= end; next++ {
			if state, err = f.Update(state, upTo(s, next), horizon); err != nil {
				return api.Forecast{}, err
			}
		}
		return f.Forecast(state, past, horizon, traceLevels)
	})
}

// choosesNot tells those of one model from those that choose for themselves.
func choosesNot(name string) bool { return name != forecast.AutoName && name != forecast.QuickName }
