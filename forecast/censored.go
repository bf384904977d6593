package forecast

import (
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// Uncensored reads usage at a limit for what it is: a lower bound of demand
// (Tobin 1958). Each such sample is replaced by its expectation given that it was
// at least what was seen, E[Y | Y ≥ c] = μ + σ·φ(z)/(1−Φ(z)) with z = (c−μ)/σ, the
// imputation of Buckley and James (1979). μ is what was at the same phase of
// seasons that were not cut off or, without any, the last free values continued
// along their slope, damped; σ grows with the root of the time since the last
// free value. So the forecaster inside learns no ceiling as a peak.
type Uncensored struct {
	Forecaster
}

// Update implements Forecaster.
func (u Uncensored) Update(s State, series api.Series, horizon int) (State, error) {
	read := s.imputed(series)
	next, err := u.Forecaster.Update(s, read, horizon)
	if err == nil {
		next.read = reading{}
		if len(series.Censored) > 0 && len(series.Values) > 0 {
			next.read = reading{of: series, as: read}
		}
	}
	return next, err
}

// reading is what a series was read as: forecasts are made of the same.
type reading struct{ of, as api.Series }

// is tells whether a series is the one that was read: the same memory, which is
// never written to again, and the same stretches cut off.
func (r reading) is(series api.Series) bool {
	return len(r.of.Values) > 0 && len(r.of.Values) == len(series.Values) && &r.of.Values[0] == &series.Values[0] &&
		r.of.Start.Equal(series.Start) && r.of.Step == series.Step && slices.Equal(r.of.Censored, series.Censored)
}

// Forecast implements Forecaster.
func (u Uncensored) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	return u.Forecaster.Forecast(s, s.imputed(series), horizon, levels)
}

const (
	// beyond is how many times what was seen a cut-off sample may be taken for.
	beyond = 2.0
	// damping of the slope along which the last free values are continued.
	damping = 0.85
	// leastSpread of what a cut-off sample may have been, relative.
	leastSpread = 0.05
)

// imputed is series with every censored sample replaced by what it stands for.
// It writes to nothing that series refers to.
func (s State) imputed(series api.Series) api.Series {
	if len(series.Censored) == 0 || len(series.Values) == 0 || series.Step <= 0 {
		return series
	}
	if s.read.is(series) {
		return s.read.as
	}
	bound, first := make([]bool, len(series.Values)), len(series.Values)
	for _, span := range series.Censored {
		from := max(0, int((span.From.Sub(series.Start)+series.Step-1)/series.Step))
		for i := from; i < len(bound) && !series.Start.Add(durationOf(i, series)).After(span.To); i++ {
			bound[i] = true
			first = min(first, i)
		}
	}
	period := 0
	if n := len(s.Seasons); n > 0 {
		period = int(math.Round(s.Seasons[n-1].Period))
	}
	y := slices.Clone(series.Values)
	change := typicalChange(y, bound)
	for i := first; i < len(y); i++ {
		if !bound[i] || math.IsNaN(y[i]) {
			continue
		}
		end := i
		for end < len(y) && (bound[end] || math.IsNaN(y[end])) {
			end++
		}
		level, slope := before(y, i)
		for k := i; k < end; k++ {
			c := series.Values[k]
			slope *= damping
			level += slope
			if math.IsNaN(c) {
				continue
			}
			mu, spread := max(level, c), change*math.Sqrt(float64(k-i+1))
			if v, ok := freePhase(series.Values, bound, k, period); ok {
				mu, spread = v, change
			}
			y[k] = min(beyond*c, max(c, aboveBound(mu, max(spread, leastSpread*c), c)))
		}
		i = end
	}
	series.Values, series.Censored = y, nil
	return series
}

// before is the last free value before sample i and the slope towards it.
func before(y []float64, i int) (level, slope float64) {
	var last [2]float64
	n := 0
	for k := i - 1; k >= 0 && n < 2 && k >= i-8; k-- {
		if !math.IsNaN(y[k]) {
			last[n] = y[k]
			n++
		}
	}
	if n == 0 {
		return y[i], 0
	}
	if n == 2 {
		slope = max(0, last[0]-last[1])
	}
	return last[0], slope
}

// freePhase is the median of what was at the phase of sample k in up to five
// seasons around it that were not cut off there.
func freePhase(y []float64, bound []bool, k, period int) (float64, bool) {
	if period < 2 {
		return 0, false
	}
	terms := make([]float64, 0, 5)
	for cycle := 1; len(terms) < cap(terms) && (k-cycle*period >= 0 || k+cycle*period < len(y)); cycle++ {
		for _, at := range [2]int{k - cycle*period, k + cycle*period} {
			if at >= 0 && at < len(y) && !bound[at] && !math.IsNaN(y[at]) && len(terms) < cap(terms) {
				terms = append(terms, y[at])
			}
		}
	}
	// Free because demand was low then tells nothing of when it was high.
	v := median(terms)
	return v, len(terms) > 0 && v >= y[k]
}

// typicalChange is the root mean square of changes between free neighbours, of
// the newest thousand samples.
func typicalChange(y []float64, bound []bool) float64 {
	const enough = 1024
	sum, n := 0.0, 0
	for i := max(1, len(y)-enough); i < len(y); i++ {
		if d := y[i] - y[i-1]; !bound[i] && !bound[i-1] && !math.IsNaN(d) {
			sum += d * d
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return math.Sqrt(sum / float64(n))
}

// aboveBound is E[Y | Y ≥ c] of a normal Y.
func aboveBound(mu, sigma, c float64) float64 {
	if !(sigma > 0) {
		return max(mu, c)
	}
	z := (c - mu) / sigma
	// Mills' ratio; far out its first terms, where 1−Φ is next to nothing.
	mills := z + 1/max(z, 1)
	if z < 6 {
		mills = math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / (0.5 * math.Erfc(z/math.Sqrt2))
	}
	return mu + sigma*mills
}
