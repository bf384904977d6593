package main

import (
	"errors"
	"math"
	"slices"
)

// parameters are those of the service model that the data can tell.
type parameters struct {
	Offered   float64 // requests per second
	Base      float64 // ms: what an answer takes without waiting for the busiest service
	Variation float64 // of a request's work
	// Work is the busiest service's CPU time per request, in seconds of one of
	// its units: at most its units over the rate it still kept up with.
	Work float64
}

// accuracy of predictions: the median of |ln(predicted/observed)|, as a ratio
// minus one, and the bias, the median of predicted/observed minus one.
type accuracy struct {
	n                          int
	mean, meanBias, p99, p99Bi float64
}

// split puts rows of even hours into one part and of odd ones into the other.
func split(all []observation) (train, test []observation) {
	if len(all) == 0 {
		return nil, nil
	}
	begin := all[0].start
	for _, o := range all {
		if int((o.start-begin)/3600)%2 == 0 {
			train = append(train, o)
		} else {
			test = append(test, o)
		}
	}
	return train, test
}

// offeredRate is the constant rate of the load generator: the highest that was
// answered, which is the same in the whole upper half of runs that kept up.
func offeredRate(all []observation) (float64, error) {
	var rates []float64
	for _, o := range all {
		rates = append(rates, o.load/window)
	}
	if len(rates) == 0 {
		return 0, errors.New("no rows")
	}
	slices.Sort(rates)
	return rates[int(0.999*float64(len(rates)-1))], nil
}

// saturated are the runs that were visibly too much for the application, but not
// broken: between 90 % and 99.9 % of what was offered was answered.
func saturated(all []observation, offered float64) []observation {
	var out []observation
	for _, o := range all {
		if s := o.load / (offered * window); s >= 0.9 && s <= 0.999 {
			out = append(out, o)
		}
	}
	return out
}

// answeredBelow are the rows of which a smaller share was answered.
func answeredBelow(rows []observation, offered, share float64) []observation {
	return slices.DeleteFunc(slices.Clone(rows), func(o observation) bool { return o.load/(offered*window) >= share })
}

// fit finds the base latency and the variation of work with the least sum of
// absolute logarithmic errors of mean and p99.
func fit(rows []observation, offered float64, curves map[float64]curve) (parameters, error) {
	if len(rows) == 0 {
		return parameters{}, errors.New("no saturated runs to fit")
	}
	best, least := parameters{Offered: offered}, math.Inf(1)
	variations := make([]float64, 0, len(curves))
	for v := range curves {
		variations = append(variations, v)
	}
	slices.Sort(variations)
	for _, v := range variations {
		for base := 0.0; base <= 150; base += 5 {
			loss := 0.0
			for _, o := range rows {
				p := curves[v].at(o.load / (offered * window))
				loss += math.Abs(math.Log((base+p.mean)/o.mean)) + math.Abs(math.Log((base+p.p99)/o.p99))
			}
			if loss < least {
				least, best.Base, best.Variation = loss, base, v
			}
		}
	}
	return best, nil
}

// judge compares predictions with rows.
func judge(rows []observation, offered, base float64, predict func(served float64) point) accuracy {
	var a accuracy
	var mean, p99, meanBias, p99Bias []float64
	for _, o := range rows {
		p := predict(o.load / (offered * window))
		m, q := math.Log((base+p.mean)/o.mean), math.Log((base+p.p99)/o.p99)
		mean, p99 = append(mean, math.Abs(m)), append(p99, math.Abs(q))
		meanBias, p99Bias = append(meanBias, m), append(p99Bias, q)
	}
	a.n = len(rows)
	a.mean, a.p99 = math.Expm1(median(mean)), math.Expm1(median(p99))
	a.meanBias, a.p99Bi = math.Expm1(median(meanBias)), math.Expm1(median(p99Bias))
	return a
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
