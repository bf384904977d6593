package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// TestTheClairvoyantIsRight: what it says of a time is what is measured then, but
// for the chance in requests.
func TestTheClairvoyantIsRight(t *testing.T) {
	for _, name := range []string{"heartbeat", "sawtooth"} {
		t.Run(name, func(t *testing.T) {
			said := map[time.Time]map[time.Duration]float64{} // by lead
			leads := []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute}
			off, last, all := 0.0, 0.0, 0.0
			before := map[time.Time]float64{}
			_, err := Run(t.Context(), Options{
				Scenario: loadScenario(t, name), Scaler: Clairvoyant + ":60", Seed: 1, Fidelity: Fluid, Passes: 1,
				Report: func(c api.Cycle) {
					w := c.Plan.Workloads[0]
					if w.Forecast == nil || w.Demand < 0 {
						return
					}
					now := w.Forecast.Start.Add(-w.Forecast.Step)
					for lead, v := range said[now] {
						off += math.Abs(v - w.Demand)
						last += math.Abs(before[now.Add(-lead)] - w.Demand)
						all += w.Demand
					}
					before[now] = w.Demand
					for _, lead := range leads {
						at := now.Add(lead)
						if said[at] == nil {
							said[at] = map[time.Duration]float64{}
						}
						said[at][lead] = w.Forecast.Mean[lead/w.Forecast.Step-1]
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("off by %.1f %% of demand; the last value by %.1f %%", 100*off/all, 100*last/all)
			if !(off < 0.1*all) || !(off < last/3) {
				t.Errorf("off by %.1f %% of demand, the last value by %.1f %%", 100*off/all, 100*last/all)
			}
		})
	}
}

// ownForecast is a forecaster that says one thing.
type ownForecast struct {
	forecast.Forecaster
	skill float64
}

func (f ownForecast) Forecast(_ forecast.State, s api.Series, horizon int, levels []float64) (api.Forecast, error) {
	row := make([]float64, horizon)
	for i := range row {
		row[i] = 7000
	}
	out := api.Forecast{Start: s.End().Add(s.Step), Step: s.Step, Mean: row, Levels: levels, Skill: f.skill, SeasonalSkill: f.skill}
	for range levels {
		out.Quantiles, out.PeakQuantiles = append(out.Quantiles, row), append(out.PeakQuantiles, 9000)
	}
	return out, nil
}

// Forecasts that were told are right as far as they were, and beyond that they are the operator's
// own, if that is trusted.
func TestForetold(t *testing.T) {
	state := forecast.NewState("shop/web")
	known := foresight{window: foresightStep, demand: map[uint64]func(time.Duration) float64{
		state.ID: func(at time.Duration) float64 { return at.Minutes() },
	}}
	series := api.Series{Start: Epoch, Step: time.Minute, Values: []float64{0}} // so that step h is of minute h + 1
	levels := []float64{0.5, 0.9}
	for name, c := range map[string]struct {
		skill  float64
		beyond float64
		peak   float64
	}{"trusted": {0.5, 7000, 7000}, "not trusted": {-1, 2000, 2000}, "not known": {math.NaN(), 2000, 2000}} {
		own := ownForecast{skill: c.skill}
		got, err := foretold{own, known, 2 * time.Minute}.Forecast(state, series, 4, levels)
		if err != nil {
			t.Fatal(err)
		}
		want := []float64{1000, 2000, c.beyond, c.beyond}
		if !slices.Equal(got.Mean, want) || !slices.Equal(got.Quantiles[1], want) || got.PeakQuantiles[1] != c.peak || got.Skill != 1 {
			t.Errorf("%s: %+v, want %v", name, got, want)
		}
		if whole, _ := own.Forecast(state, series, 4, levels); whole.Mean[0] != 7000 {
			t.Errorf("%s: the operator's own forecast has changed", name)
		}
		if none, err := (foretold{own, known, time.Second}).Forecast(state, series, 4, levels); err != nil || none.Mean[0] != 7000 {
			t.Errorf("%s: told less than a step ahead it is %v (%v)", name, none.Mean, err)
		}
	}
}
