package forecast

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// cut is what a limit leaves to see of demand, from sample `from` on.
func cut(demand api.Series, limit float64, from int) api.Series {
	seen := demand
	seen.Values = slices.Clone(demand.Values)
	for i := from; i < len(seen.Values); i++ {
		if seen.Values[i] < limit {
			continue
		}
		seen.Values[i] = limit
		at := demand.Start.Add(durationOf(i, demand))
		if n := len(seen.Censored); n > 0 && seen.Censored[n-1].To.Equal(at.Add(-demand.Step)) {
			seen.Censored[n-1].To = at
		} else {
			seen.Censored = append(seen.Censored, api.Span{From: at, To: at})
		}
	}
	return seen
}

// TestCensoredDemand: usage is cut off at a limit at every peak. The forecast of
// the peak is not the limit, and it is the nearer to the truth the more was seen
// of demand before there was a limit.
func TestCensoredDemand(t *testing.T) {
	const period, horizon, limit, n = 60, 60, 700, 12 * 60
	demand := forecasttest.Sampled(forecasttest.Sine(900, 500, 450), 15*time.Second, n+horizon, 0.02, 2, 0, 0)
	truth := slices.Max(demand.Values[n:])
	for name, tc := range map[string]struct {
		from  int     // the limit is there from here on
		least float64 // share of the way from the limit to the true peak
	}{
		"a limit from the beginning":     {0, 0.15},
		"a limit for the last half":      {n / 2, 0.5},
		"a limit for the last two peaks": {n - 2*period, 0.7},
	} {
		t.Run(name, func(t *testing.T) {
			past := demand
			past.Values = demand.Values[:n]
			seen := cut(past, limit, tc.from)
			blind := seen
			blind.Censored = nil
			levels := []float64{0.5, 0.9}
			plain, err := Predict(Auto{}, blind, horizon, levels)
			if err != nil {
				t.Fatal(err)
			}
			f := Uncensored{Auto{}}
			s, err := f.Update(NewState("x"), seen, horizon)
			if err != nil {
				t.Fatal(err)
			}
			// By then its season is known, by which cut-off samples are told more of.
			s.Fits = 0
			if s, err = f.Update(s, seen, horizon); err != nil {
				t.Fatal(err)
			}
			got, err := f.Forecast(s, seen, horizon, levels)
			if err != nil {
				t.Fatal(err)
			}
			reached := (got.PeakQuantiles[1] - limit) / (truth - limit)
			t.Logf("peak said %.0f, by one who takes usage for demand %.0f, true %.0f: %.2f of the way", got.PeakQuantiles[1], plain.PeakQuantiles[1], truth, reached)
			if reached < tc.least || got.PeakQuantiles[1] > 1.35*truth {
				t.Errorf("the peak is said to be %.0f, want at least %.2f of the way from the limit %d to %.0f, and not far beyond", got.PeakQuantiles[1], tc.least, limit, truth)
			}
		})
	}
}

// A forecast above what was seen at a limit was not wrong: its trust stays.
func TestBoundsAreNoEvidenceAgainst(t *testing.T) {
	const period, horizon = 40, 20
	demand := forecasttest.Sampled(forecasttest.Square(600), 15*time.Second, 14*period, 0.03, 2, 0, 1)
	seen := cut(demand, 220, 10*period)
	skill := map[bool]float64{}
	for _, told := range []bool{true, false} {
		s := seen
		if !told {
			s.Censored = nil
		}
		// The forecaster goes on to say what was true before the limit.
		f := Monitored{liar{say: func(v float64, _ int) float64 {
			if v > 150 {
				return 300
			}
			return v
		}}}
		state := NewState("x")
		for n := 9 * period; n < len(s.Values); n++ {
			past := s
			past.Values = s.Values[:n]
			var err error
			if state, err = f.Update(state, past, horizon); err != nil {
				t.Fatal(err)
			}
		}
		skill[told] = state.Record.skill(0.9, state.Reference)
	}
	t.Logf("skill with bounds told apart %.2f, taken for demand %.2f", skill[true], skill[false])
	if !(skill[true] > skill[false]) || !(skill[true] > 0.1) {
		t.Errorf("skill with bounds told apart %.2f, taken for demand %.2f", skill[true], skill[false])
	}
}

// E[Y | Y ≥ c] against numbers by quadrature, and its limits.
func TestAboveBound(t *testing.T) {
	for _, tc := range [][4]float64{ // mu, sigma, c, want
		{0, 1, 0, math.Sqrt(2 / math.Pi)},
		{0, 1, -20, 0},
		{10, 2, 4, 10.0088636}, // z = −3: φ/(1−Φ) = 0.0044318/0.9986501
		{0, 1, 8, 8.125},
		{5, 0, 3, 5},
		{5, 0, 7, 7},
	} {
		if got := aboveBound(tc[0], tc[1], tc[2]); math.Abs(got-tc[3]) > 2e-3 {
			t.Errorf("E[N(%v, %v²) ≥ %v] = %v, want %v", tc[0], tc[1], tc[2], got, tc[3])
		}
	}
}
