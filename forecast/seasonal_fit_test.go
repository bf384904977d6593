package forecast

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/forecast/forecasttest"
	"github.com/mash2-io/mash2/forecast/season"
)

func TestChoosePeriod(t *testing.T) {
	const step = 15 * time.Second
	tests := map[string]struct {
		f    forecasttest.Signal
		n    int
		want time.Duration
	}{
		"heartbeat needs the super-period":             {f: forecasttest.Heartbeat, n: 400, want: 13 * time.Minute},
		"of a plain period its multiples earn nothing": {f: forecasttest.Sine(240, 200, 100), n: 400, want: 4 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				y := forecasttest.Sampled(tc.f, step, tc.n, 0.03, 3, 0, seed).Values
				got, ok := choosePeriod(y, season.Find(y), 0, 20)
				if want := float64(tc.want) / float64(step); !ok || math.Abs(got-want) > 0.3 {
					t.Errorf("seed %d: period %.2f, want %.2f", seed, got, want)
				}
			}
		})
	}
}
