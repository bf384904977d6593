package forecast

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/api"
)

var near = cmpopts.EquateApprox(1e-9, 1e-9)

// TestSeasonalNaive: ŷ(T+h) = y(T+h−m(k+1)) with the whole part k of (h−1)/m, of
// Hyndman and Athanasopoulos, §5.2, m being what is found: no whole number, so that k
// is the number of seasons that h is beyond. The last season differs from those
// before it, and is what is repeated.
func TestSeasonalNaive(t *testing.T) {
	const season, horizon = 12, 25
	series := api.Series{Start: time.Unix(0, 0), Step: time.Minute}
	for i := range 10 * season {
		series.Values = append(series.Values, 100+50*math.Sin(2*math.Pi*float64(i)/season))
		if i >= 9*season {
			series.Values[i] += float64(i % 3)
		}
	}
	s, err := SeasonalNaive{}.Update(State{}, series, horizon)
	if err != nil {
		t.Fatal(err)
	}
	m := s.Seasonal.Period
	if math.Abs(m-season) > 0.01 {
		t.Fatalf("a season of %v", m)
	}
	want := make([]float64, horizon)
	for i := range want {
		h := float64(i + 1)
		k := math.Ceil(h/m) - 1
		at, part := math.Modf(float64(len(series.Values)-1) + h - m*(k+1))
		want[i] = series.Values[int(at)]
		if part > 0 {
			want[i] += part * (series.Values[int(at)+1] - want[i])
		}
	}
	got, err := SeasonalNaive{}.Forecast(s, series, horizon, []float64{0.5})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Mean, near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
