package forecast

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// TestSpreadIsKeptForAWhile: residual paths are taken anew after a quarter of
// the horizon at the latest, by different states at different times; what is
// forecast in between are distributions all the same.
func TestSpreadIsKeptForAWhile(t *testing.T) {
	const horizon, n = 64, 600
	long := forecasttest.Sampled(forecasttest.Sine(86400, 100, 50), 15*time.Second, n+100, 0, 10, 0.02, 1)
	renewed := map[int]int{} // by sample
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		s := NewState(name)
		var last *spread
		since := 0
		for end := n; end < n+100; end++ {
			past := long
			past.Values = long.Values[:end]
			var err error
			if s, err = (Auto{}).Update(s, past, horizon); err != nil {
				t.Fatal(err)
			}
			if s.kept.spread == nil {
				t.Fatalf("%s: no spread of model %q", name, s.Model)
			}
			if s.kept.spread != last {
				last, since = s.kept.spread, 0
				if end > n {
					renewed[end]++
				}
			} else if since++; since >= horizon/keptFor {
				t.Fatalf("%s: a spread is %d samples old", name, since)
			}
			f, err := Auto{}.Forecast(s, past, horizon, []float64{0.1, 0.5, 0.9})
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range f.Quantiles {
				for h, v := range row {
					if v > f.PeakQuantiles[i] || i > 0 && v < f.Quantiles[i-1][h] {
						t.Fatalf("%s: at %d, step %d: quantile %d is %v, peak %v", name, end, h, i, v, f.PeakQuantiles[i])
					}
				}
			}
		}
	}
	if len(renewed) < 60 {
		t.Errorf("spreads were taken anew at %d of 99 samples only: all at once", len(renewed))
	}
}
