package forecast_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// minutes is a series of four samples a minute.
func minutes(values ...float64) api.Series {
	s := api.Series{Start: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), Step: 15 * time.Second}
	for _, v := range values {
		s.Values = append(s.Values, v, v, v, v)
	}
	return s
}

// levels are n minutes at a level, of which every k-th is at another one.
func levels(n, k int, level, other float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = level
		if i%k == k-1 {
			out[i] = other
		}
	}
	return out
}

func TestGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		series    api.Series
		lead      time.Duration
		hold      time.Duration
		objective float64
		want      float64
		unknown   bool
	}{
		"level":                                  {minutes(levels(200, 200, 100, 100)...), time.Minute, 0, 0.99, 1, false},
		"peaks in more minutes than may be late": {minutes(levels(200, 20, 100, 300)...), time.Minute, 0, 0.99, 3, false},
		"peaks in fewer":                         {minutes(levels(400, 200, 100, 300)...), time.Minute, 0, 0.99, 1, false},
		"a peak that is held until the next":     {minutes(levels(200, 20, 100, 300)...), time.Minute, 25 * time.Minute, 0.9, 1, false},
		"what falls":                             {minutes(levels(200, 20, 100, 10)...), time.Minute, 5 * time.Minute, 0.99, 1, false},
		"demand after none":                      {minutes(levels(200, 20, 0, 10)...), time.Minute, 0, 0.99, math.Inf(1), false},
		"too short to tell":                      {minutes(levels(90, 90, 100, 100)...), time.Minute, 0, 0.99, 0, true},
		"just long enough":                       {minutes(levels(101, 101, 100, 100)...), time.Minute, 0, 0.99, 1, false},
		"gaps only":                              {minutes(levels(200, 1, 0, math.NaN())...), time.Minute, 0, 0.99, 0, true},
		"no objective":                           {minutes(levels(200, 200, 100, 100)...), time.Minute, 0, 0, 0, true},
		"nothing":                                {api.Series{}, time.Minute, 0, 0.99, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := forecast.Growth(c.series, c.lead, c.hold, c.objective)
			if got != c.want || known == c.unknown {
				t.Errorf("%v, known %v; want %v, known %v", got, known, c.want, !c.unknown)
			}
		})
	}
}

// Of what comes the objective's share is covered, on demand with noise, bursts at random
// and gaps, whatever their size: that is the promise. Half of each series is what is
// known, the other half what comes.
func TestGrowthCovers(t *testing.T) {
	const objective, lead, n = 0.99, 3 * time.Minute, 40_000
	for name, size := range map[string]float64{"one pod's": 1, "three hundred pods'": 300} {
		r := rand.New(rand.NewPCG(7, 9))
		missed, minutes := 0, 0
		for range 10 {
			s := api.Series{Start: time.Unix(0, 0), Step: 15 * time.Second}
			burst := 0
			for i := range n {
				if burst--; r.IntN(700) == 0 {
					burst = 8 + r.IntN(20)
				}
				v := size * (2 + math.Sin(float64(i)/900)) * math.Exp(0.05*r.NormFloat64())
				if burst > 0 {
					v *= 3
				}
				if r.IntN(50) == 0 {
					v = math.NaN()
				}
				s.Values = append(s.Values, v)
			}
			past := s
			past.Values = s.Values[:n/2]
			factor, known := forecast.Growth(past, lead, 0, objective)
			if !known {
				t.Fatal("not known")
			}
			ahead := int(lead / s.Step)
			for i := n / 2; i+4 <= n; i += 4 {
				late := false
				for k := i; k < i+4; k++ {
					late = late || s.Values[k] > factor*s.Values[k-ahead]
				}
				minutes++
				if late {
					missed++
				}
			}
		}
		// Bursts come together in minutes: the share's own deviation is about a tenth of it.
		if share := 1 - float64(missed)/float64(minutes); share < objective-0.003 || share > objective+0.003 {
			t.Errorf("%s demand: %.4f of minutes were covered, want about %v", name, share, objective)
		}
	}
}

// Two days of samples: what a workload costs every five minutes.
func BenchmarkGrowth(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	s := api.Series{Start: time.Unix(0, 0), Step: 15 * time.Second}
	for i := range 48 * 240 {
		s.Values = append(s.Values, (2+math.Sin(float64(i)/900))*math.Exp(0.05*r.NormFloat64()))
	}
	for b.Loop() {
		if _, known := forecast.Growth(s, 3*time.Minute, 10*time.Minute, 0.999); !known {
			b.Fatal("not known")
		}
	}
}
