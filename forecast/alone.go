package forecast

import (
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// word is what one model alone said at a sample: its quantiles at 0.1 and 0.9 of
// the next horizon.
type word struct {
	at        time.Time
	low, high []float64
}

// heeded is s, of one model alone, after its words that came due by the end of
// series, and with its next one if a round begins there: how often its quantiles
// held moves the factors of its residuals, as those of a mixture do (rounds.go).
// The method of analogues is calibrated whenever it is fitted, and left as it is.
// Made is the predictor and what it reads.
func (s State) heeded(series api.Series, horizon int, made func() (predictor, []float64)) State {
	if s.Model == AnalogName {
		s.words = nil
		return s
	}
	if s.Up == 0 || s.Down == 0 {
		s.Up, s.Down = 1, 1
	}
	left := s.words
	for ; len(left) > 0; left = left[1:] {
		w := left[0]
		from := int(w.at.Sub(series.Start)/series.Step) + 1
		to := from + len(w.high)
		if to > len(series.Values) {
			break
		}
		if from >= 0 {
			actual := series.Values[from:to]
			s.Up = adapted(s.Up, w.high, actual, func(v, q float64) bool { return v > q })
			s.Down = adapted(s.Down, w.low, actual, func(v, q float64) bool { return v < q })
		}
	}
	s.words = left
	if !s.roundOf(series, horizon) {
		return s
	}
	levels := []float64{0.1, 0.9}
	p, y := made()
	var d distribution
	if s.kept.of(series, horizon) {
		mean := make([]float64, horizon)
		p.point(len(y)-1, mean)
		d = s.kept.around(mean, levels, series)
	} else {
		d = distribute(p, y, len(y)-1, horizon, levels)
	}
	s.words = append(slices.Clone(left), word{series.End(), d.quantiles[0], d.quantiles[1]})
	return s
}

// keptFactors is next, a refit of s, with the factors that s came to where the same
// model was chosen again: what it is learnt from is mostly the same, and so is how
// far it is off.
func (s State) keptFactors(next State) State {
	if next.Model == s.Model && next.Step == s.Step && next.Mixture == nil {
		next.Up, next.Down, next.words = s.Up, s.Down, s.words
	}
	return next
}

// scaled is the predictor of one model alone with the factors of its residuals.
type scaled struct {
	predictor
	up, down float64
}

func (p scaled) spread() (up, down float64) { return p.up, p.down }

func (p scaled) period() float64 {
	if of, ok := p.predictor.(phased); ok {
		return of.period()
	}
	return 0
}

// scaledLevel is scaled, of a model that knows a level only.
type scaledLevel struct{ scaled }

func (scaledLevel) levelled() {}

func (s State) scaled(p predictor) predictor {
	if s.Up == 0 || s.Down == 0 {
		return p
	}
	q := scaled{p, s.Up, s.Down}
	if _, ok := p.(levelled); ok {
		return scaledLevel{q}
	}
	return q
}
