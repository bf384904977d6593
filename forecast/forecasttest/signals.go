// Package forecasttest makes demand for tests of forecasts: with seasons, and with none.
package forecasttest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Signal is a demand, in millicores, at a number of seconds.
type Signal func(seconds float64) float64

// Heartbeat is three beats of 4:00 (half a minute up, two minutes high, half a
// minute down, a minute low), then a minute of nothing; 13:00 in all.
func Heartbeat(seconds float64) float64 {
	u := math.Mod(seconds, 780)
	if u >= 720 {
		return 0
	}
	switch v := math.Mod(u, 240); {
	case v < 30:
		return 10 + 390*v/30
	case v < 150:
		return 400
	case v < 180:
		return 400 - 390*(v-150)/30
	}
	return 10
}

// Square is high for two fifths of a period in seconds.
func Square(period float64) Signal {
	return func(s float64) float64 {
		if math.Mod(s, period) < 0.4*period {
			return 300
		}
		return 100
	}
}

// Sine of a period in seconds; level and amplitude in millicores.
func Sine(period, level, amplitude float64) Signal {
	return func(s float64) float64 { return level + amplitude*math.Sin(2*math.Pi*s/period) }
}

// Sampled is n samples of f from a phase that depends on seed, with relative
// and absolute noise and a share of gaps.
func Sampled(f Signal, step time.Duration, n int, relative, absolute, gaps float64, seed uint64) api.Series {
	r := rand.New(rand.NewPCG(seed, 1))
	values := make([]float64, n)
	for i := range values {
		v := f(float64(i)*step.Seconds() + float64(seed)*37)
		values[i] = max(0, v*(1+relative*r.NormFloat64())+absolute*r.NormFloat64())
		if r.Float64() < gaps {
			values[i] = math.NaN()
		}
	}
	return api.Series{Start: time.Unix(0, 0).UTC(), Step: step, Values: values}
}

// Noises have no season.
var Noises = map[string]func(r *rand.Rand, n int) []float64{
	"white noise": func(r *rand.Rand, n int) []float64 {
		return Generate(n, func() float64 { return r.NormFloat64() })
	},
	"random walk": func(r *rand.Rand, n int) []float64 {
		v := 0.0
		return Generate(n, func() float64 { v += r.NormFloat64(); return v })
	},
	"AR(1)": func(r *rand.Rand, n int) []float64 {
		v := 0.0
		return Generate(n, func() float64 { v = 0.9*v + r.NormFloat64(); return v })
	},
	"smooth walk": func(r *rand.Rand, n int) []float64 {
		v, slope := 0.0, 0.0
		return Generate(n, func() float64 { slope = 0.9*slope + r.NormFloat64(); v += slope; return v })
	},
	"rare bursts": func(r *rand.Rand, n int) []float64 {
		return Generate(n, func() float64 {
			if r.Float64() < 0.02 {
				return 50 + r.NormFloat64()
			}
			return r.NormFloat64()
		})
	},
	"jumping level": func(r *rand.Rand, n int) []float64 {
		v := 0.0
		return Generate(n, func() float64 {
			if r.Float64() < 0.05 {
				v = 100 * r.Float64()
			}
			return v + r.NormFloat64()
		})
	},
	"heavy tails": func(r *rand.Rand, n int) []float64 {
		return Generate(n, func() float64 { return r.NormFloat64() / math.Sqrt(r.ExpFloat64()) })
	},
}

// Generate is n values of f.
func Generate(n int, f func() float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = f()
	}
	return out
}
