package baseline

import (
	"math"
	"time"
)

// PHPA is the Predictive Horizontal Pod Autoscaler
// (jthomperoo/predictive-horizontal-pod-autoscaler v0.13): what the HPA calculates is
// remembered, models of that history predict it, and the largest of what was
// calculated and predicted is wanted (decisionType maximum), within the bounds and
// after the HPA's behaviour rules
// (internal/controllers/predictivehorizontalpodautoscaler_controller.go).
//
// Both of the project's models are in use, Holt-Winters and linear regression.
// Holt-Winters is that of statsmodels with fixed coefficients, additive in trend and
// season, one sync ahead (algorithms/holt_winters/holt_winters.py). Its states begin
// by statsmodels' heuristic method; the project's default goes on to fit them by
// least squares, which coefficients of 0.9 forget within a few syncs (level, trend)
// and within a season or two (season).
type PHPA struct {
	HPA
	// Alpha, Beta and Gamma smooth level, trend and season, 0–1.
	Alpha, Beta, Gamma float64
	// SeasonalPeriods is the length of a season in syncs, StoredSeasons how many are
	// kept.
	SeasonalPeriods, StoredSeasons int
	// LookAhead of the linear model, which is of the last HistorySize values.
	LookAhead   time.Duration
	HistorySize int

	past   []float64 // for Holt-Winters
	fit    *holtWinters
	recent []recommendation // for the linear model
}

// PHPASync is the sync period of the project's Holt-Winters example.
const PHPASync = 20 * time.Second

// NewPHPA has the settings of the project's examples: simple-holt-winters
// (α = β = γ = 0.9, four stored seasons, additive, downscale stabilization 30 s, a
// sync every 20 s) and simple-linear (six values, 10 s ahead). The target and the
// season are what their user knows of the workload; the season is counted in syncs,
// 2 at least.
func NewPHPA(target, lowest, highest int32, season time.Duration) PHPA {
	h := Default(target, lowest, highest)
	// The API's own defaults of behavior, with the example's window.
	h.Behavior = &Behavior{
		ScaleUp:   Rules{Policies: []Policy{{Value: 4, Period: 15 * time.Second}, {Percent: true, Value: 100, Period: 15 * time.Second}}},
		ScaleDown: Rules{Stabilization: 30 * time.Second, Policies: []Policy{{Percent: true, Value: 100, Period: 15 * time.Second}}},
	}
	return PHPA{
		HPA: h, Alpha: 0.9, Beta: 0.9, Gamma: 0.9,
		SeasonalPeriods: max(2, int(math.Round(float64(season)/float64(PHPASync)))), StoredSeasons: 4,
		LookAhead: 10 * time.Second, HistorySize: 6,
	}
}

// Reconcile is one sync: the replicas wanted with current ones. The error is
// ErrNoMetrics, with current replicas within the bounds; nothing is remembered then.
func (p *PHPA) Reconcile(now time.Duration, current int32, pods []Pod) (int32, error) {
	return p.reconcile(now, current, func() (int32, error) {
		calculated, err := p.calculate(now, current, pods)
		if err != nil {
			return 0, err
		}
		wanted := max(calculated, p.seasonal(calculated), p.linear(now, calculated))
		return min(max(wanted, p.Min), p.Max), nil
	})
}

// seasonal notes a value and returns the prediction of Holt-Winters, 0 while there
// are too few values: statsmodels needs 10 + 2·⌊season/2⌋, which four seasons of less
// than four syncs never are.
func (p *PHPA) seasonal(calculated int32) int32 {
	m := p.SeasonalPeriods
	p.past = append(p.past, float64(calculated))
	n := len(p.past)
	var out int32
	if n >= 10+2*(m/2) {
		if p.fit == nil || n%m == 0 || n <= p.least()*m { // there is more to begin from
			p.fit = p.fitted(p.past)
		} else {
			p.fit.add(p.past[n-1])
		}
		out = atMost32(ceil(p.fit.next()))
	}
	if over := n/m - p.StoredSeasons; over > 0 { // whole seasons go
		p.past = append([]float64(nil), p.past[over*m:]...)
		p.fit = nil
	}
	return out
}

// least is how many seasons it takes to begin from: those that give ten averages.
func (p *PHPA) least() int {
	return (10 + 2*(p.SeasonalPeriods/2) + p.SeasonalPeriods - 1) / p.SeasonalPeriods
}

// linear notes a value and returns what a line through the last ones predicts
// (algorithms/linear_regression/linear_regression.py).
func (p *PHPA) linear(now time.Duration, calculated int32) int32 {
	p.recent = append(p.recent, recommendation{now, calculated})
	var x, y, xx, xy float64
	n := float64(len(p.recent))
	for _, r := range p.recent {
		t := (r.at - now - p.LookAhead).Seconds() // 0 is what is sought
		v := float64(r.replicas)
		x, y, xx, xy = x+t, y+v, xx+t*t, xy+t*v
	}
	at := y / n
	if spread := xx - x*x/n; spread > 0 {
		at -= (xy - x*y/n) / spread * x / n
	}
	if over := len(p.recent) - p.HistorySize; over >= 0 {
		p.recent = p.recent[over:]
	}
	return atMost32(ceil(at))
}

// ceil is the least whole number that is not below x but for rounding.
func ceil(x float64) float64 { return math.Ceil(x - 1e-9*max(1, math.Abs(x))) }

// holtWinters is the state of additive exponential smoothing with a season.
type holtWinters struct {
	alpha, beta, gamma float64
	level, trend       float64
	season             []float64
	n                  int // values so far
}

// add takes the next value: the recursion of statsmodels' ExponentialSmoothing.
func (h *holtWinters) add(y float64) {
	s := &h.season[h.n%len(h.season)]
	before := h.level + h.trend
	level := h.alpha*(y-*s) + (1-h.alpha)*before
	trend := h.beta*(level-h.level) + (1-h.beta)*h.trend
	*s = h.gamma*(y-before) + (1-h.gamma)**s
	h.level, h.trend = level, trend
	h.n++
}

// next is the forecast of the next value.
func (h *holtWinters) next() float64 {
	return h.level + h.trend + h.season[h.n%len(h.season)]
}

// fitted goes through values, at least 10 + 2·⌊season/2⌋ of them, from states found
// by the heuristic of Hyndman et al., Forecasting with Exponential Smoothing (2008),
// 2.6.1, as statsmodels has it: the season from what a centred moving average leaves
// of the first five cycles at most, level and trend from a line through its first
// ten values.
func (p *PHPA) fitted(values []float64) *holtWinters {
	m := p.SeasonalPeriods
	first := values[:min(len(values), max(p.least(), min(5, len(values)/m))*m)]
	// The moving average of an even season has half of a value at both ends.
	half := m / 2
	smooth := make([]float64, 0, len(first))
	sum := 0.0
	for i, v := range first {
		sum += v
		if i < 2*half {
			continue
		}
		if m%2 == 0 {
			smooth = append(smooth, (sum-(first[i]+first[i-m])/2)/float64(m))
		} else {
			smooth = append(smooth, sum/float64(m))
		}
		sum -= first[i-2*half]
	}
	season, count := make([]float64, m), make([]float64, m)
	for i, v := range smooth {
		at := i + half
		season[at%m] += first[at] - v
		count[at%m]++
	}
	mean := 0.0
	for i := range season {
		if count[i] > 0 {
			season[i] /= count[i]
		}
		mean += season[i] / float64(m)
	}
	for i := range season {
		season[i] -= mean
	}
	ten := smooth[:min(10, len(smooth))]
	var x, y, xx, xy float64
	for i, v := range ten {
		t := float64(i + 1)
		x, y, xx, xy = x+t, y+v, xx+t*t, xy+t*v
	}
	n := float64(len(ten))
	h := &holtWinters{alpha: p.Alpha, beta: p.Beta, gamma: p.Gamma, season: season}
	if spread := xx - x*x/n; spread > 0 {
		h.trend = (xy - x*y/n) / spread
	}
	h.level = y/n - h.trend*x/n
	for _, v := range values {
		h.add(v)
	}
	return h
}
