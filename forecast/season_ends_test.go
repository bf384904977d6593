package forecast

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// With few seasons known, hardly a residual path has been observed at leads beyond one of
// them. That the newest sample is off tells little of what comes at other phases: there
// the mean lies between the quantiles at 0.05 and 0.95 all the same.
func TestTheLastResidualIsOfItsOwnPhase(t *testing.T) {
	const (
		step, horizon = 15 * time.Second, 80
		period        = 52 // samples of a Heartbeat
	)
	levels := []float64{0.05, 0.5, 0.95}
	for _, model := range []string{SeasonalName, QuickName, AutoName} {
		for off, last := range map[string]float64{"a dip": 0, "a spike": 800} {
			t.Run(model+", "+off, func(t *testing.T) {
				var outside, leads int
				var worst string
				for seasons := 2; seasons <= 3; seasons++ {
					for end := seasons*period + 5; end < (seasons+1)*period; end += 7 {
						series := forecasttest.Sampled(forecasttest.Heartbeat, step, end, 0.05, 3, 0, 0)
						series.Values[end-1] = last
						f, err := Predict(mustByName(t, model), series, horizon, levels)
						if err != nil {
							t.Fatal(err)
						}
						for h := period + 4; h < horizon; h++ { // the newest sample's phase is over
							leads++
							if low, high := f.Quantiles[0][h], f.Quantiles[2][h]; f.Mean[h] < low-1 || f.Mean[h] > high+1 {
								outside++
								worst = fmt.Sprintf("%d samples, %d ahead by %s: mean %.0f, quantiles %.0f to %.0f", end, h+1, f.Model, f.Mean[h], low, high)
							}
						}
					}
				}
				if 50*outside > leads {
					t.Errorf("the mean is outside at %d of %d leads, such as %s", outside, leads, worst)
				}
			})
		}
	}
}

func TestCompleteResiduals(t *testing.T) {
	nan := math.NaN()
	tests := map[string]struct {
		y, path, want []float64
		period        int
	}{
		"all is observed":                          {y: []float64{9, 1, 2, 3}, path: []float64{0, 0, 0}, want: []float64{1, 2, 3}, period: 2},
		"without a period the last goes on":        {y: []float64{9, 1, 2}, path: []float64{0, 0, 0, 0, 0, 0, 0, 0}, want: []float64{1, 2, 2 * math.Sqrt(1.5), 2 * math.Sqrt(2), 2 * math.Sqrt(2.5), 2 * math.Sqrt(3), 2 * math.Sqrt(3.5), 4}},
		"with one, that of the phase":              {y: []float64{9, 1, 2}, path: []float64{0, 0, 0, 0, 0, 0, 0, 0}, want: []float64{1, 2, math.Sqrt(1.5), 2 * math.Sqrt(2), math.Sqrt(2.5), 2 * math.Sqrt(3), math.Sqrt(3.5), 4}, period: 2},
		"less than a period is observed":           {y: []float64{9, 1, 2}, path: []float64{0, 0, 0, 0, 0, 0, 0, 0}, want: []float64{1, 2, 2 * math.Sqrt(1.5), math.Sqrt(2), 2 * math.Sqrt(2.5), 2 * math.Sqrt(3), math.Sqrt(3.5), 4}, period: 3},
		"a gap takes the one before, at any phase": {y: []float64{9, nan, 2, nan, 5}, path: []float64{0, 0, 0, 0, 0}, want: []float64{2, 2, 2, 5, 2 * math.Sqrt(1.25)}, period: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if !completeResiduals(tc.y, 0, tc.path, tc.period, observedShare) {
				t.Fatal("too little was observed")
			}
			if diff := cmp.Diff(tc.want, tc.path); diff != "" {
				t.Errorf("residuals (-want +got):\n%s", diff)
			}
		})
	}
	for name, y := range map[string][]float64{"nothing": {9}, "a third": {9, nan, 1, nan}} {
		if completeResiduals(y, 0, make([]float64, 4), 2, observedShare) {
			t.Errorf("%s was observed and that is enough", name)
		}
	}
}
