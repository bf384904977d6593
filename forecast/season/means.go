package season

import "math"

// Means gives means over any range of a series with gaps in constant time, from
// every stride-th sample.
type Means struct {
	stride int
	sums   []partial
}

type partial struct {
	sum   float64
	count int
}

// NewMeans sums values, NaN at gaps, up once.
func NewMeans(values []float64, stride int) Means {
	p := Means{stride, make([]partial, (len(values)+stride-1)/stride+1)}
	var s partial
	for i, at := 0, 0; at < len(values); i, at = i+1, at+stride {
		if v := values[at]; !math.IsNaN(v) {
			s.sum += v
			s.count++
		}
		p.sums[i+1] = s
	}
	return p
}

// Of is the mean of values[from:to] and how many of them are not gaps.
func (p Means) Of(from, to int) (float64, int) {
	a, b := p.sums[p.index(from)], p.sums[p.index(to)]
	n := b.count - a.count
	if n == 0 {
		return math.NaN(), 0
	}
	return (b.sum - a.sum) / float64(n), n * p.stride
}

// index is the number of samples read that lie before at.
func (p Means) index(at int) int { return (at + p.stride - 1) / p.stride }
