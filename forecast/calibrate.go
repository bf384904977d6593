package forecast

import (
	"math"
	"slices"
)

// calibrate finds the factors by which residuals above and below must be
// multiplied for the 0.9 and 0.1 quantiles from origins to have covered what
// they said: split conformal prediction with the ratio to the model's own spread
// as its score (Lei et al. 2018, §5). A handful of origins that overlap are few
// observations, so factors are drawn to 1. M's own
// factors are 1 meanwhile. The losses are those at the origins, with the factors. With
// said, paths origin after origin, factors are then taken from the errors of these,
// not of m's own: m is still compared with others by what all of them are compared by.
func (m *mixture) calibrate(said []float64, origins []int, horizon int) (told losses) {
	m.up, m.down, told = calibrateBy(m, said, m.raw, origins, horizon)
	return told
}

func calibrate(m predictor, y []float64, origins []int, horizon int) (up, down float64, told losses) {
	return calibrateBy(m, nil, y, origins, horizon)
}

func calibrateBy(m predictor, said, y []float64, origins []int, horizon int) (up, down float64, told losses) {
	levels := []float64{0.1, 0.5, 0.9}
	made := make([]distribution, len(origins))
	var above, below, aboveSaid, belowSaid []float64
	for i, o := range origins {
		made[i] = distribute(m, y, o, horizon, levels)
		d := made[i]
		for k := range min(horizon, len(y)-1-o) {
			e := y[o+1+k] - d.mean[k]
			if math.IsNaN(e) {
				continue
			}
			over, under := d.quantiles[2][k]-d.mean[k], d.mean[k]-d.quantiles[0][k]
			above, below = append(above, ratio(e, over)), append(below, ratio(-e, under))
			if said != nil {
				e = y[o+1+k] - said[i*horizon+k]
				aboveSaid, belowSaid = append(aboveSaid, ratio(e, over)), append(belowSaid, ratio(-e, under))
			}
		}
	}
	// Origins closer than a horizon tell of the same stretch.
	span := float64(origins[len(origins)-1]-origins[0]) / float64(horizon)
	independent := min(float64(len(origins)), span+1)
	// Of few scores the conformal quantile is a higher one: at five or fewer
	// the 0.95 one, which is as far as they reach.
	level := 0.9 + 0.05*min(1, 5/independent)
	factor := func(ratios []float64) float64 {
		if len(ratios) == 0 {
			return 1
		}
		slices.Sort(ratios)
		f := ratios[min(len(ratios)-1, int(level*float64(len(ratios))))]
		f = max(0.4, min(4, f))
		return math.Pow(f, independent/(independent+2))
	}
	up, down = factor(above), factor(below)
	told = make(losses, len(origins))
	for i, o := range origins {
		d := made[i]
		for k, mean := range d.mean {
			for _, q := range d.quantiles {
				if e := q[k] - mean; e > 0 {
					q[k] = mean + up*e
				} else {
					q[k] = max(0, mean+down*e)
				}
			}
		}
		made[i].quantiles = [][]float64{d.quantiles[1], d.quantiles[2]} // skillLevels
		actual := y[o+1 : min(len(y), o+1+horizon)]
		told[i] = made[i].loss(actual)
	}
	if said != nil {
		up, down = factor(aboveSaid), factor(belowSaid)
	}
	return up, down, told
}

func ratio(e, spread float64) float64 {
	switch {
	case e <= 0:
		return 0
	case !(spread > e/4): // none, or next to none
		return 4
	}
	return e / spread
}
