package margins

import (
	"math"
	"math/rand/v2"
	"time"
)

// epoch of drawn loads: a midnight in UTC.
var epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// drawn is a load of its own of so many minutes, in reference millicores by the step: a daily
// curve of a few harmonics, what holds for hours, noise that is remembered for minutes,
// bursts that come at random or by the clock, and steps to another level. What of it there
// is, and how strong, differs from load to load.
func drawn(rng *rand.Rand, minutes int) []float64 {
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	chance := func(p float64) bool { return rng.Float64() < p }
	level := between(200, 20_000)
	logs := make([]float64, minutes)

	if chance(0.8) { // a day
		depth := between(0.1, 1.2)
		for h := 1; h <= 1+rng.IntN(4); h++ {
			a, shift := depth/float64(h)*rng.NormFloat64(), 2*math.Pi*rng.Float64()
			for i := range logs {
				logs[i] += a * math.Sin(2*math.Pi*float64(h*i)/1440+shift)
			}
		}
	}
	walk := func(deviation, remembered float64) { // an Ornstein-Uhlenbeck process
		keep := math.Exp(-1 / remembered)
		kick, x := deviation*math.Sqrt(1-keep*keep), deviation*rng.NormFloat64()
		for i := range logs {
			logs[i] += x
			x = keep*x + kick*rng.NormFloat64()
		}
	}
	walk(between(0.02, 0.4), between(120, 1440))
	walk(between(0.01, 0.25), between(1, 30))
	if chance(0.3) { // another level
		for range 1 + rng.IntN(4) {
			by := 0.8 * rng.NormFloat64()
			for i := rng.IntN(minutes); i < minutes; i++ {
				logs[i] += by
			}
		}
	}
	adds := make([]float64, minutes)
	burst := func(at int, height, rise, fall float64) {
		for i := max(0, at); i < min(minutes, at+int(8*(rise+fall))+1); i++ {
			x := float64(i - at)
			adds[i] += height * (1 - math.Exp(-x/rise)) * math.Exp(-x/fall)
		}
	}
	if chance(0.5) { // by the clock
		for range 1 + rng.IntN(3) {
			every := []int{5, 10, 15, 30, 60, 60, 120, 180, 240, 360, 720, 1440}[rng.IntN(12)]
			height, rise, fall, miss := between(0.1, 3), between(0.3, 5), between(0.5, 15), 0.3*rng.Float64()
			for at := rng.IntN(every); at < minutes; at += every {
				if !chance(miss) {
					burst(at+int(rng.NormFloat64()), height*math.Exp(0.3*rng.NormFloat64()), rise, fall)
				}
			}
		}
	}
	if chance(0.6) { // at random, in some hours of the day more than in others
		aDay, peak, height := between(0.5, 60), rng.IntN(1440), between(0.2, 4)
		rise, fall := between(0.3, 10), between(1, 60)
		focus := rng.Float64()
		for i := range minutes {
			rate := aDay / 1440 * (1 + focus*math.Cos(2*math.Pi*float64(i-peak)/1440))
			if chance(rate) {
				burst(i, height*math.Exp(0.5*rng.NormFloat64()), rise, fall)
			}
		}
	}
	byMinute := make([]float64, minutes)
	for i := range byMinute {
		byMinute[i] = level * (math.Exp(logs[i]) + adds[i])
	}
	return shown(rng, byMinute, between(0.002, 0.1))
}

// shown is what the operator sees of load by the minute: between two minutes it changes
// steadily, has noise, and each sample is the mean of the minute before.
func shown(rng *rand.Rand, byMinute []float64, noise float64) []float64 {
	n := len(byMinute) * perMinute
	raw := make([]float64, n)
	for i := range raw {
		m, w := i/perMinute, float64(i%perMinute)/float64(perMinute)
		next := byMinute[min(m+1, len(byMinute)-1)]
		raw[i] = (byMinute[m]*(1-w) + next*w) * math.Max(0, 1+noise*rng.NormFloat64())
	}
	out := make([]float64, n)
	var sum float64
	for i, v := range raw {
		sum += v
		if i >= perMinute {
			sum -= raw[i-perMinute]
		}
		out[i] = math.Max(sum, 0) / float64(min(i+1, perMinute))
	}
	return out
}
