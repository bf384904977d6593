package season

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/forecast/forecasttest"
)

func TestFind(t *testing.T) {
	const step = 15 * time.Second
	tests := map[string]struct {
		f                        forecasttest.Signal
		step                     time.Duration
		n                        int
		relative, absolute, gaps float64
		// want are periods that must be among those found, within tolerance
		// samples.
		want      []time.Duration
		tolerance float64
	}{
		"heartbeat, ten cycles: the beat and the super-period": {
			f: forecasttest.Heartbeat, step: step, n: 520, relative: 0.05, absolute: 5,
			want: []time.Duration{4 * time.Minute, 13 * time.Minute}, tolerance: 0.1,
		},
		"heartbeat, barely two cycles": {
			f: forecasttest.Heartbeat, step: step, n: 110, relative: 0.05, absolute: 5,
			want: []time.Duration{13 * time.Minute}, tolerance: 0.5,
		},
		"heartbeat with a tenth of the samples missing": {
			f: forecasttest.Heartbeat, step: step, n: 520, relative: 0.05, absolute: 5, gaps: 0.1,
			want: []time.Duration{4 * time.Minute, 13 * time.Minute}, tolerance: 0.2,
		},
		"3:20 is 13⅓ samples": {
			f: forecasttest.Square(200), step: step, n: 400, absolute: 10,
			want: []time.Duration{200 * time.Second}, tolerance: 0.05,
		},
		"3:20 after five cycles": {
			f: forecasttest.Square(200), step: step, n: 67, absolute: 10,
			want: []time.Duration{200 * time.Second}, tolerance: 0.3,
		},
		"heartbeat ten times as fast": {
			f: func(s float64) float64 { return forecasttest.Heartbeat(10 * s) }, step: 1500 * time.Millisecond, n: 400,
			relative: 0.05, absolute: 5,
			want: []time.Duration{24 * time.Second, 78 * time.Second}, tolerance: 0.1,
		},
		"a day in minutes, four days, noise half the amplitude, gaps": {
			f: forecasttest.Sine(86400, 100, 50), step: time.Minute, n: 4 * 1440, absolute: 25, gaps: 0.05,
			want: []time.Duration{24 * time.Hour}, tolerance: 15,
		},
		"a day in hours with a trend": {
			f:    func(s float64) float64 { return 100 + s/3600 + 30*math.Sin(2*math.Pi*s/86400) },
			step: time.Hour, n: 14 * 24, absolute: 5,
			want: []time.Duration{24 * time.Hour}, tolerance: 0.2,
		},
		"less than two cycles": {
			f: forecasttest.Sine(86400, 100, 50), step: time.Minute, n: 1.9 * 1440, absolute: 5,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				series := forecasttest.Sampled(tc.f, tc.step, tc.n, tc.relative, tc.absolute, tc.gaps, seed)
				got := Find(series.Values)
				for _, want := range tc.want {
					w := float64(want) / float64(tc.step)
					if !slices.ContainsFunc(got, func(s Season) bool { return math.Abs(s.Period-w) <= tc.tolerance }) {
						t.Errorf("seed %d: no period of %.2f samples in %v", seed, w, got)
					}
				}
				if len(tc.want) == 0 && len(got) > 0 {
					t.Errorf("seed %d: found %v", seed, got)
				}
			}
		})
	}
}

// TestNoSeasonInNoise holds the rate of false positives. Rare bursts are the
// hardest: two or three of them in a history do repeat themselves.
func TestNoSeasonInNoise(t *testing.T) {
	const seeds = 200
	for name, noise := range forecasttest.Noises {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{30, 120, 400, 1500} {
				found := 0
				for seed := range uint64(seeds) {
					if len(Find(noise(rand.New(rand.NewPCG(seed, 3)), n))) > 0 {
						found++
					}
				}
				if rate := float64(found) / seeds; rate > 0.04 {
					t.Errorf("%d samples: a season in %.1f %% of the series", n, 100*rate)
				}
			}
		})
	}
}

func TestFindTakesAnything(t *testing.T) {
	nan := math.NaN()
	for name, values := range map[string][]float64{
		"nothing":       nil,
		"one":           {1},
		"all gaps":      slices.Repeat([]float64{nan}, 100),
		"a constant":    slices.Repeat([]float64{7}, 100),
		"one jump":      append(make([]float64, 50), slices.Repeat([]float64{1}, 50)...),
		"one spike":     append(append(make([]float64, 50), 1e9), make([]float64, 50)...),
		"every 2nd gap": slices.Repeat([]float64{1, nan}, 50),
	} {
		if got := Find(values); len(got) > 0 {
			t.Errorf("%s: found %v", name, got)
		}
	}
}
