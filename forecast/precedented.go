package forecast

import (
	"math"

	"github.com/mash2-io/mash2/api"
)

// Precedented lets no quantile be beyond what was ever seen for longer ahead than the
// history bears out. A young history needs this: a season seen twice has residuals of
// where it was thought to be, which added to a peak come to demand that there never
// was. What the mean is said to reach is not doubted.
type Precedented struct {
	Forecaster
}

// Forecast implements Forecaster.
func (p Precedented) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	f, err := p.Forecaster.Forecast(s, series, horizon, levels)
	if err != nil {
		return f, err
	}
	seen := precedentOf(series)
	for k, q := range f.Levels {
		steps, limit := seen.steps(q), seen.top
		for j, mean := range f.Mean[:min(steps, len(f.Mean))] {
			limit = max(limit, mean)
			f.Quantiles[k][j] = min(f.Quantiles[k][j], limit)
		}
		if len(f.Mean) <= steps {
			f.PeakQuantiles[k] = min(f.PeakQuantiles[k], limit)
		}
	}
	return f, nil
}

// precedent is how much a history has seen: its largest value, of a coarser past too,
// how many samples that are no gaps, and how many, gaps included, that are newer than
// the largest.
type precedent struct {
	top            float64
	samples, since int
}

func precedentOf(series api.Series) precedent {
	p := precedent{top: math.Inf(-1)}
	for _, v := range series.Values {
		p.since++
		if math.IsNaN(v) {
			continue
		}
		p.samples++
		if v >= p.top {
			p.top, p.since = v, 0
		}
	}
	if series.Past != nil {
		for _, v := range series.Past.Values {
			if v > p.top { // not for a gap
				p.top, p.since = v, len(series.Values)
			}
		}
	}
	return p
}

// steps is for how many steps ahead quantile q is no more than top. Of n samples and j
// that come, in any order alike, the largest is among the j with the chance j/(n+j):
// records get rare (Rényi 1962; Arnold, Balakrishnan and Nagaraja 1998, Records, §2).
// So these are j ≤ n·(1−q)/q. Where a record was set within the last j samples demand
// may be growing, and the order is not any.
func (p precedent) steps(q float64) int {
	const whole = 1e-9 // keeps a whole quotient whole
	return min(p.since, int(float64(p.samples)*(1-q)/q+whole))
}
