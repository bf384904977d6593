package forecast

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/forecast/season"
)

// ErrBadTrust means that a Trust holds what no State ever came to.
var ErrBadTrust = errors.New("bad trust")

// Trust is the part of a State that history doesn't give back: what came of the
// forecaster's words, and the model, season and weights that a refit prefers to new
// ones because they served. With it a restart is no more than a refit: without it,
// who was found out is believed again, and a season that is hard to see is lost.
// It is some hundred bytes as JSON. Its zero value is that of a State without any.
//
// Promises that are not yet due are left out: what was said before a restart counts
// up to the last sample before it.
type Trust struct {
	// Step of the series. A series with another is not judged by this.
	Step time.Duration `json:"step,omitempty"`
	// Record is without promises and without the largest value, which is looked for
	// again; nil without a Record.
	Record *Record `json:"record,omitempty"`
	// Model that forecasts, and Up and Down, its factors; see State.
	Model string  `json:"model,omitempty"`
	Up    float64 `json:"up,omitempty"`
	Down  float64 `json:"down,omitempty"`
	// Season that it forecasts by; nil without one.
	Season *season.Season `json:"season,omitempty"`
	// Weights of a mixture's experts.
	Weights []Weight `json:"weights,omitempty"`
}

// Weight is the share of one expert in a mixture.
type Weight struct {
	Expert string  `json:"expert"`
	Period float64 `json:"period,omitempty"` // samples; 0 of an expert that is not of the seasonal kind
	Weight float64 `json:"weight"`           // 0–1
}

// Trust returns what must be kept of s so that a restart loses no trust, and gives
// none that wasn't earned.
func (s State) Trust() Trust {
	t := Trust{Step: s.Step, Model: s.Model, Up: s.Up, Down: s.Down}
	if s.Record != nil {
		r := *s.Record
		r.Promises, r.Made = nil, time.Time{}
		r.Top, r.Seen, r.Fits = 0, time.Time{}, 0
		t.Record = &r
	}
	if s.Seasonal != nil {
		t.Season = &season.Season{Period: s.Seasonal.Period}
		for _, listed := range s.Seasons {
			if listed.Period == s.Seasonal.Period {
				*t.Season = listed
			}
		}
	}
	if s.Mixture != nil {
		for _, e := range s.Mixture.Experts {
			w := Weight{Expert: e.Name, Weight: e.Weight}
			if e.Seasonal != nil {
				w.Period = e.Seasonal.Period
			}
			t.Weights = append(t.Weights, w)
		}
	}
	return t
}

// WithTrust returns s, which was never fitted (see NewState), with what was kept of
// the State before a restart: the first Update is then as a refit of that. The error
// wraps ErrBadTrust and comes with s as it was.
func (s State) WithTrust(t Trust) (State, error) {
	if err := t.check(); err != nil {
		return s, err
	}
	if s.Fits > 0 {
		return s, fmt.Errorf("%w: the state was fitted since the restart and knows better", ErrBadTrust)
	}
	s.Step, s.Model, s.Up, s.Down = t.Step, t.Model, t.Up, t.Down
	s.Record, s.Seasonal, s.Seasons, s.Mixture = nil, nil, nil, nil
	if t.Record != nil {
		r := *t.Record
		s.Record = &r
	}
	if t.Season != nil {
		s.Seasonal, s.Seasons = &SeasonalFit{Period: t.Season.Period, Cycles: 1}, []season.Season{*t.Season}
	}
	if len(t.Weights) > 0 {
		s.Mixture = &MixtureFit{Up: 1, Down: 1}
		for _, w := range t.Weights {
			e := Expert{Name: w.Expert, Weight: w.Weight}
			if w.Period > 0 {
				e.Seasonal = &SeasonalFit{Period: w.Period, Cycles: 1}
			}
			s.Mixture.Experts = append(s.Mixture.Experts, e)
		}
	}
	return s, nil
}

// mostWeights is more than there are experts.
const mostWeights = 64

// check refuses what no State gives: numbers that are none, or out of range.
func (t Trust) check() error {
	amount := func(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }
	factor := func(v float64) bool { return v == 0 || v >= leastFactor && v <= mostFactor }
	// Counts fade: n grows to no more than 1/fading, and what is of them is no more.
	const scored, counted = 1 / fading, 4 / fading
	switch {
	case t.Step < 0:
		return fmt.Errorf("%w: step %v, want it positive", ErrBadTrust, t.Step)
	case !factor(t.Up) || !factor(t.Down) || (t.Up == 0) != (t.Down == 0):
		return fmt.Errorf("%w: factors %v and %v, want %v to %v", ErrBadTrust, t.Up, t.Down, leastFactor, mostFactor)
	case t.Season != nil && !(t.Season.Period > 1 && t.Season.Period <= math.MaxInt32 && amount(t.Season.Strength)):
		return fmt.Errorf("%w: a season of %v samples and strength %v", ErrBadTrust, t.Season.Period, t.Season.Strength)
	case len(t.Weights) > mostWeights:
		return fmt.Errorf("%w: %d weights, want %d at most", ErrBadTrust, len(t.Weights), mostWeights)
	case slices.ContainsFunc(t.Weights, func(w Weight) bool {
		return !(w.Weight >= 0 && w.Weight <= 1) || !amount(w.Period)
	}):
		return fmt.Errorf("%w: weights %v, want them in [0, 1]", ErrBadTrust, t.Weights)
	}
	r := t.Record
	if r == nil {
		return nil
	}
	switch {
	case len(r.Promises) > 0:
		return fmt.Errorf("%w: it holds promises", ErrBadTrust)
	case !amount(r.Loss) || !amount(r.Reference) || !amount(r.Error) || !amount(r.Cycle):
		return fmt.Errorf("%w: losses %v, %v, %v and %v, want them 0 or more", ErrBadTrust, r.Loss, r.Reference, r.Error, r.Cycle)
	case !(r.Scored >= 0 && r.Scored <= scored && r.Cycles >= 0 && r.Cycles <= scored):
		return fmt.Errorf("%w: %v and %v results, want at most %v", ErrBadTrust, r.Scored, r.Cycles, scored)
	case !(r.Counted <= counted && r.Above >= 0 && r.Above <= r.Counted):
		return fmt.Errorf("%w: %v above of %v results, want at most %v", ErrBadTrust, r.Above, r.Counted, counted)
	case !(r.Judged >= 0 && r.Judged <= judged && r.Inside >= 0 && r.Inside <= r.Judged):
		return fmt.Errorf("%w: %v within the interval of %v forecasts, want at most %v", ErrBadTrust, r.Inside, r.Judged, judged)
	case !(r.Level >= 0 && r.Level < 1):
		return fmt.Errorf("%w: judged at the quantile %v, want it in [0, 1)", ErrBadTrust, r.Level)
	case r.Probation < 0 || r.Probation > probation:
		return fmt.Errorf("%w: probation for %d results, want at most %d", ErrBadTrust, r.Probation, probation)
	}
	return nil
}
