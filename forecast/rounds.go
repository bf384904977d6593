package forecast

import (
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// play is the aggregation of a mixture's experts as it goes on between refits,
// which are seldom: every few samples, a round, it is noted what each expert says
// and what the mixture makes of it. When the round is over its losses move the
// weights (boa, forgetting), and how often the quantiles held moves the factors
// of the residuals: adaptive conformal inference (Gibbs and Candès 2021), on the
// logarithm of the factor, so that it acts alike on every series. Plays are
// values: the next one writes to nothing that the last refers to.
type play struct {
	experts *boa
	rounds  []round // not over yet, oldest first
}

// round is what was said at one sample of the next horizon.
type round struct {
	at        int         // counted from the first sample that parameters were learnt from
	said      [][]float64 // by expert
	low, high []float64   // the mixture's quantiles at 0.1 and 0.9; empty where none were kept
}

const (
	// roundsApart: there is a round every horizon over this.
	roundsApart = 2
	// forgotten is the share of all regrets that a round takes away: after a
	// change another expert leads within a few.
	forgotten = 1.0 / 24
	// leastPrior is what an expert that counted for nothing begins with.
	leastPrior = 0.02
	// loud is the largest regret of a round, in losses that were usual.
	loud = 3
	// adaptive is by how much a round moves the logarithm of a factor for each
	// miss more than were to be expected, relative to the number of steps.
	adaptive = 0.4
)

// Bounds of the factors of residuals.
const leastFactor, mostFactor = 0.4, 4.0

// roundOf tells whether a round begins at the end of series. Different states
// begin theirs at different samples.
func (s State) roundOf(series api.Series, horizon int) bool {
	stride := int64(max(1, horizon/roundsApart))
	return (series.End().UnixNano()/int64(series.Step)+int64(s.ID%uint64(stride)))%stride == 0
}

// settled is s after the rounds that are over by the end of series.
func (s State) settled(series api.Series) State {
	if s.play == nil || len(s.play.rounds) == 0 {
		return s
	}
	shift := int(series.Start.Sub(s.Mixture.Start) / series.Step)
	left := s.play.rounds
	for len(left) > 0 && left[0].at-shift+len(left[0].said[0]) < len(series.Values) {
		if from := left[0].at - shift + 1; from > 0 {
			s = s.learnt(left[0], series.Values[from:from+len(left[0].said[0])])
		}
		left = left[1:]
	}
	s.play = &play{s.play.experts, left}
	return s
}

// learnt is s after a round and what came.
func (s State) learnt(r round, actual []float64) State {
	b := s.play.experts.clone()
	regret := make([]float64, len(r.said))
	if !b.regrets(r.said, actual, max(s.Mixture.Unit, 1e-300), regret) {
		return s
	}
	// A round beyond all that was usual counts as one of loud losses, no more:
	// rates, which fall with the largest regret so far, would be near nothing after.
	top := 0.0
	for _, v := range regret {
		top = max(top, math.Abs(v))
	}
	if top > loud {
		for j := range regret {
			regret[j] *= loud / top
		}
	}
	b.learn(regret)
	fit := *s.Mixture
	fit.Experts = slices.Clone(fit.Experts)
	for i := range fit.Experts {
		fit.Experts[i].Weight = b.weights[i]
	}
	fit.Up = adapted(fit.Up, r.high, actual, func(v, q float64) bool { return v > q })
	fit.Down = adapted(fit.Down, r.low, actual, func(v, q float64) bool { return v < q })
	s.Mixture, s.play = &fit, &play{b, s.play.rounds}
	return s
}

// adapted is the factor after as many values missed the quantile as did; a tenth
// of them should.
func adapted(factor float64, quantile, actual []float64, missed func(v, q float64) bool) float64 {
	misses, n := 0.0, 0.0
	for k, q := range quantile {
		if v := actual[k]; !math.IsNaN(v) {
			n++
			if missed(v, q) {
				misses++
			}
		}
	}
	if n == 0 {
		return factor
	}
	return max(leastFactor, min(mostFactor, factor*math.Exp(adaptive*(misses/n-0.1))))
}

// begun is s with the round that begins at the end of series; m is its mixture.
func (s State) begun(m *mixture, series api.Series, horizon int) State {
	next := play{rounds: slices.Clone(s.play.rounds), experts: s.play.experts}
	o := len(series.Values) - 1
	r := round{at: o + m.shift, said: make([][]float64, len(m.weights))}
	m.parallel(o, func(i int, path []float64) { r.said[i] = slices.Clone(path) }, horizon)
	if s.kept.of(series, horizon) {
		mean := make([]float64, horizon)
		for i, path := range r.said {
			for k, v := range path {
				mean[k] += m.weights[i] * v
			}
		}
		d := s.kept.around(mean, []float64{0.1, 0.9}, series)
		r.low, r.high = d.quantiles[0], d.quantiles[1]
	}
	next.rounds = append(next.rounds, r)
	s.play = &next
	return s
}

// newPlay begins with the weights that a refit chose.
func newPlay(fit MixtureFit) *play {
	prior, sum := make([]float64, len(fit.Experts)), 0.0
	for i, e := range fit.Experts {
		prior[i] = max(e.Weight, leastPrior)
		sum += prior[i]
	}
	for i := range prior {
		prior[i] /= sum
	}
	return &play{experts: newBOA(prior, forgotten)}
}
