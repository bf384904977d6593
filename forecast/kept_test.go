package forecast

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// After demand fell to a fiftieth the quantiles of what knows a level only shrink
// with it within a horizon, and do not stay as wide as they were; where it falls by
// half, as days do, they stay.
func TestQuantilesShrinkWithDemand(t *testing.T) {
	const n, horizon, low = 1500, 40, 60
	for name, tc := range map[string]struct {
		left        float64 // of demand
		most, least float64 // of the 0.9 quantile's distance before the fall
	}{
		"to a fiftieth": {0.02, 0.12, 0.02},
		"to a half":     {0.5, 1.2, 0.5},
		"not at all":    {1, 1.2, 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			s := forecasttest.Sampled(func(float64) float64 { return 100 }, time.Minute, n, 0, 20, 0, 6)
			wide := func(values []float64) float64 {
				of := s
				of.Values = values
				got, err := Predict(Naive{}, of, horizon, []float64{0.5, 0.9})
				if err != nil {
					t.Fatal(err)
				}
				sum := 0.0
				for h, q := range got.Quantiles[1] {
					sum += (q - got.Mean[h]) / horizon
				}
				return sum
			}
			// The last sample is the mean: its own noise is not in question.
			before := append([]float64(nil), s.Values...)
			before[n-1] = 100
			fallen := append([]float64(nil), before...)
			for i := n - low; i < n; i++ {
				fallen[i] *= tc.left
			}
			got := wide(fallen) / wide(before)
			if got > tc.most || got < tc.least {
				t.Errorf("the 0.9 quantile is %.3f as far above the mean as before, want %v to %v", got, tc.least, tc.most)
			}
		})
	}
}

// A season that is hard to see is found in one window and not in the next. Once a
// forecast by it was chosen it stays for as long as it is no worse, so that what is
// said does not change from refit to refit.
func TestSeasonIsKept(t *testing.T) {
	const n, horizon, windows, stride = 700, 24, 40, 30
	changes := func(remember bool) (changed, seasonal int) {
		for seed := uint64(1); seed <= 2; seed++ {
			long := forecasttest.Sampled(forecasttest.Sine(140*60, 100, 12), time.Minute, n+windows*stride, 0, 13, 0, seed)
			s, was := NewState("z"), false
			for i := range windows {
				if !remember {
					s = NewState("z")
				}
				window := windowOf(long, i*stride, n)
				s = Auto{}.refit(s, window, horizon)
				is := s.Model == SeasonalName
				if i > 0 && is != was {
					changed++
				}
				if is {
					seasonal++
				}
				was = is
			}
		}
		return changed, seasonal
	}
	without, _ := changes(false)
	with, seasonal := changes(true)
	t.Logf("%d changes with a memory, %d without; seasonal in %d of %d", with, without, seasonal, 2*windows)
	if without < 8 {
		t.Fatalf("%d changes without a memory: the season is not hard to see", without)
	}
	if 2*with > without {
		t.Errorf("%d changes with a memory, %d without; want half of them or less", with, without)
	}
	// What ends is given up all the same.
	long := forecasttest.Sampled(forecasttest.Sine(140*60, 100, 60), time.Minute, 3*n, 0, 5, 0, 9)
	flat := forecasttest.Sampled(func(float64) float64 { return 100 }, time.Minute, 3*n, 0, 5, 0, 10)
	copy(long.Values[n:], flat.Values[n:])
	s := Auto{}.refit(NewState("z"), windowOf(long, 0, n), horizon)
	if s.Model != SeasonalName {
		t.Fatalf("the model is %s where the season is plain", s.Model)
	}
	for i := stride; i <= 2*n; i += stride {
		s = Auto{}.refit(s, windowOf(long, i, n), horizon)
	}
	if s.Model == SeasonalName {
		t.Error("the season is kept after it ended")
	}
}
