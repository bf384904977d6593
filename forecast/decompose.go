package forecast

import "github.com/mash2-io/mash2/forecast/season"

// indices of seasons: what each phase is above the level, additively, or of it,
// as a ratio. Of several seasons each is taken from what the shorter ones leave
// (Bandara, Hyndman and Bergmeir 2021, with means of recent cycles for loess).
type indices struct {
	ratio   bool
	periods []int
	values  [][]float64 // by period, then by phase: sample t has phase t mod period
}

// newIndices learns seasons from the newest cycles of y, a cycle's weight
// falling by fade with each one before the newest.
func newIndices(y []float64, periods []int, ratio bool, fade float64) indices {
	x := indices{ratio: ratio}
	rest := append([]float64(nil), y...)
	for _, m := range periods {
		if 2*m > len(y) {
			continue
		}
		level := centred(rest, m)
		sum, weight := make([]float64, m), make([]float64, m)
		w := 1.0
		for t := len(y) - 1; t >= 0; t-- {
			if (len(y)-1-t)%m == 0 && t < len(y)-1 {
				w *= fade
			}
			if w < 1e-6 {
				break
			}
			v := rest[t] - level[t]
			if ratio {
				if !(level[t] > 0) {
					continue
				}
				v = rest[t] / level[t]
			}
			sum[t%m] += w * v
			weight[t%m] += w
		}
		// A few cycles of a long season are few observations of each phase:
		// what they say beyond the shorter seasons is believed in part.
		trust := 1.0
		if len(x.periods) > 0 {
			cycles := float64(len(y)) / float64(m)
			trust = cycles / (cycles + 1)
		}
		mean := 0.0
		for k := range sum {
			switch {
			case weight[k] == 0 && ratio:
				sum[k] = 1
			case weight[k] > 0:
				sum[k] /= weight[k]
			}
			mean += sum[k] / float64(m)
		}
		for k := range sum {
			if ratio && mean > 0 {
				sum[k] = max(0.01, 1+trust*(sum[k]/mean-1))
			} else if !ratio {
				sum[k] = trust * (sum[k] - mean)
			}
		}
		x.periods = append(x.periods, m)
		x.values = append(x.values, sum)
		for t := range rest {
			if ratio {
				rest[t] /= sum[t%m]
			} else {
				rest[t] -= sum[t%m]
			}
		}
	}
	return x
}

// centred is the mean over a season around each sample, cut at the ends.
func centred(y []float64, m int) []float64 {
	sums := season.NewMeans(y, 1)
	out := make([]float64, len(y))
	for t := range y {
		from, to := max(0, t-m/2), min(len(y), t-m/2+m)
		if t-m/2 < 0 { // at the ends the nearest whole season
			from, to = 0, min(m, len(y))
		} else if to-from < m {
			from = max(0, to-m)
		}
		out[t], _ = sums.Of(from, to)
	}
	return out
}

// remove takes the seasons out of the value at t, restore puts them in.
func (x indices) remove(t int, v float64) float64 {
	for i, m := range x.periods {
		if x.ratio {
			v /= x.values[i][t%m]
		} else {
			v -= x.values[i][t%m]
		}
	}
	return v
}

func (x indices) restore(t int, v float64) float64 {
	for i, m := range x.periods {
		if x.ratio {
			v *= x.values[i][t%m]
		} else {
			v += x.values[i][t%m]
		}
	}
	return v
}

// encode appends the indices to parameters; phases count from the first sample
// of the history they were learnt from (history.shift).
func (x indices) encode(params []float64) []float64 {
	ratio := 0.0
	if x.ratio {
		ratio = 1
	}
	params = append(params, ratio, float64(len(x.periods)))
	for i, m := range x.periods {
		params = append(append(params, float64(m)), x.values[i]...)
	}
	return params
}

// decodeIndices reads what encode wrote.
func decodeIndices(params []float64) indices {
	x := indices{ratio: params[0] == 1}
	n := int(params[1])
	params = params[2:]
	for range n {
		m := int(params[0])
		x.periods = append(x.periods, m)
		x.values = append(x.values, params[1:1+m])
		params = params[1+m:]
	}
	return x
}
