package score

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestScores(t *testing.T) {
	nan := math.NaN()
	tests := map[string]struct{ got, want float64 }{
		// (0.9·2 + 0.1·3)/2
		"pinball weighs under-forecasts by q":   {Pinball([]float64{10, 5}, []float64{8, 8}, 0.9), 1.05},
		"pinball leaves gaps out":               {Pinball([]float64{10, nan}, []float64{8, 8}, 0.9), 1.8},
		"pinball of nothing":                    {Pinball([]float64{nan}, []float64{8}, 0.9), nan},
		"pinball of what is not forecast":       {Pinball([]float64{10, 9}, []float64{8, nan}, 0.9), nan},
		"MASE of what is not forecast":          {MASE([]float64{7, 8}, []float64{nan, 8}, []float64{1, 2, 3}, 1), nan},
		"MASE leaves gaps of history out":       {MASE([]float64{7}, []float64{5}, []float64{1, 2, nan, 9, 8}, 1), 2},
		"what is not forecast is not covered":   {Coverage([]float64{1, 2}, []float64{2, nan}), 0.5},
		"sMAPE of 200·1/3 and a hit":            {SMAPE([]float64{2, 4}, []float64{1, 4}), 100.0 / 3},
		"sMAPE of zero against zero":            {SMAPE([]float64{0}, []float64{0}), 0},
		"MASE: error 2 at a scale of 1":         {MASE([]float64{7}, []float64{5}, []float64{1, 2, 3}, 1), 2},
		"MASE by the season, 2 at a scale of 4": {MASE([]float64{7}, []float64{5}, []float64{1, 9, 5, 13}, 2), 0.5},
		"MASE when history repeats itself":      {MASE([]float64{7}, []float64{5}, []float64{1, 1}, 1), nan},
		"MASE when history is shorter":          {MASE([]float64{7}, []float64{5}, []float64{1, 2}, 2), nan},
		"coverage counts equality":              {Coverage([]float64{1, 2, 3, 4}, []float64{2, 2, 2, 2}), 0.5},
		"peaks above the forecast":              {PeakUnderRatio([]float64{1, 3, 5, 7}, []float64{2, 2, 6, 6}), 0.5},
		// 2·(0.5·2 + 0.5·2)/20 at 0.5; at 0.9 2·(0.9·2+0.1·2)/20; their mean
		"WQL over two levels": {WQL([]float64{10, 10}, [][]float64{{8, 12}, {8, 12}}, []float64{0.5, 0.9}), 0.2},
		"WQL of zeros":        {WQL([]float64{0}, [][]float64{{1}}, []float64{0.5}), nan},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got, cmpopts.EquateApprox(0, 1e-12), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
