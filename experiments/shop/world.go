// Package shop is a simulated shop in which the best policy depends on the hour and on
// whether a campaign runs, and the comparison of a learning Strategic Agent with fixed
// choices there.
//
// # The shop
//
// A round is an hour. A policy runs at a target utilisation (COST_SAVING 0.8, BALANCED 0.65,
// PERFORMANCE 0.5). In the hour's busiest minute the load is the hour's mean times a burst
// factor: 0.9 at night, 1.1 by day (from 8), 1.5 in the evening (18 to 22), times 1.3 in a
// campaign, times a lognormal factor of deviation 0.08. So the utilisation there is ρ =
// target·burst, and the response time 1/(1−ρ) in units of an idle one, up to 20. Visitors
// leave as it goes from 5 to 20: none to all but a tenth. Reward is the margin as a part
// of what could be earned: 1 − left − 0.25/target, plus normal noise of deviation 0.03, cut to
// 0 to 1. A campaign runs on one day in five, for six hours from an hour that is drawn.
//
// The numbers are ours; nothing here is measured on a shop.
package shop

import (
	"math"
	"math/rand/v2"
)

// Policies of the shop.
var Policies = []string{"COST_SAVING", "BALANCED", "PERFORMANCE"}

var targets = []float64{0.8, 0.65, 0.5}

const (
	burstNoise, rewardNoise = 0.08, 0.03
	// costShare is what capacity for all visitors at utilisation 1 costs, as a part of what
	// they bring.
	costShare = 0.25
	slowest   = 20
	patience  = 5
	stubborn  = 0.1
)

// hour is what a round's context is made of.
type hour struct {
	of       int // day, 0 to 23
	campaign bool
}

// baseline is what the owner does: PERFORMANCE from 8 to 22, COST_SAVING at night.
func (h hour) baseline() int {
	if h.of >= 8 && h.of < 22 {
		return 2
	}
	return 0
}

// parts of the day that the learner tells apart, each with and without a campaign. They are
// three hours long, and their bounds are not the shop's.
const parts = 8

// context of indicators.
func (h hour) context() []float64 {
	x := make([]float64, 2*parts)
	i := h.of * parts / 24
	if h.campaign {
		i += parts
	}
	x[i] = 1
	return x
}

func (h hour) burst() float64 {
	b := 0.9
	switch {
	case h.of >= 18 && h.of < 22:
		b = 1.5
	case h.of >= 8 && h.of < 22:
		b = 1.1
	}
	if h.campaign {
		b *= 1.3
	}
	return b
}

// reward of a policy, with two standard normal draws.
func reward(h hour, policy int, burst, noise float64) float64 {
	rho := targets[policy] * h.burst() * math.Exp(burstNoise*burst)
	response := float64(slowest)
	if rho < 1-1.0/slowest {
		response = 1 / (1 - rho)
	}
	left := (1 - stubborn) * min(max((response-patience)/(slowest-patience), 0), 1)
	return min(max(1-left-costShare/targets[policy]+rewardNoise*noise, 0), 1)
}

// means of each policy's reward, by hour and campaign, over a grid of the noise.
func means() map[hour][]float64 {
	const points = 201
	out := map[hour][]float64{}
	for of := range 24 {
		for _, campaign := range []bool{false, true} {
			h := hour{of, campaign}
			m := make([]float64, len(Policies))
			for p := range m {
				sum, weight := 0.0, 0.0
				for i := range points {
					b := 8*float64(i)/(points-1) - 4
					for j := range points {
						n := 8*float64(j)/(points-1) - 4
						w := math.Exp(-(b*b + n*n) / 2)
						sum, weight = sum+w*reward(h, p, b, n), weight+w
					}
				}
				m[p] = sum / weight
			}
			out[h] = m
		}
	}
	return out
}

// hours of a number of days.
func hours(days int, rng *rand.Rand) []hour {
	out := make([]hour, 0, 24*days)
	for range days {
		from := 24
		if rng.IntN(5) == 0 {
			from = rng.IntN(19)
		}
		for of := range 24 {
			out = append(out, hour{of, of >= from && of < from+6})
		}
	}
	return out
}
