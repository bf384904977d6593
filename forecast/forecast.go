package forecast

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/season"
)

// Errors a caller can branch on.
var (
	// ErrNoHistory: the series has no sample that is not a gap.
	ErrNoHistory = errors.New("no history")
	// ErrBadSample: a sample is negative, infinite or beyond maxSample. Demand
	// is none of these.
	ErrBadSample = errors.New("bad sample")
	// ErrBadRequest: the step, horizon or quantile levels make no sense.
	ErrBadRequest = errors.New("bad request")
	// ErrUnknownModel: there is no forecaster of that name.
	ErrUnknownModel = errors.New("unknown forecast model")
)

// Forecaster is one way to predict a series.
type Forecaster interface {
	// Name is the name by which ByName finds it.
	Name() string
	// Update returns the state after series, for forecasts of up to horizon
	// steps. It returns s itself when no refit is due. Series is the whole
	// history that is kept; it may have lost samples at its front and gained
	// some at its end since the last Update.
	Update(s State, series api.Series, horizon int) (State, error)
	// Forecast predicts horizon steps after the end of series, with quantiles
	// at levels (increasing, in (0, 1)). A State that was never updated, or was
	// for another step, forecasts by the last value.
	Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error)
}

// State is what a Forecaster has learnt of one series. It is a value: Update
// returns a new one and never writes to what the old one refers to. Losing it
// costs one Update.
type State struct {
	// ID spreads refits: states of different ID are due at different times.
	ID uint64 `json:"id,omitempty"`
	// Fits counts the refits so far; 0 is a state that was never fitted.
	Fits int `json:"fits,omitempty"`
	// FittedTo is the end of the series at the last refit, Samples its length,
	// Step its step and Horizon the horizon it was for.
	FittedTo time.Time     `json:"fittedTo,omitzero"`
	Samples  int           `json:"samples,omitempty"`
	Step     time.Duration `json:"step,omitempty"`
	Horizon  int           `json:"horizon,omitempty"`
	// PastFrom is the start of the coarser past known at the last refit, the zero
	// time without one.
	PastFrom time.Time `json:"pastFrom,omitzero"`

	// Level is the quantile that is planned by, in (0, 1), at which Monitored judges
	// what was said; 0 is usualLevel.
	Level float64 `json:"level,omitempty"`

	// Growth is by which part of its length the history must grow until the next
	// refit; 0 is the usual one.
	Growth int `json:"growth,omitempty"`

	// Top and Second are the largest two values at the last refit.
	Top    float64 `json:"top,omitempty"`
	Second float64 `json:"second,omitempty"`

	// Model names the model chosen.
	Model string `json:"model,omitempty"`
	// Seasons found, shortest first. The model in Seasonal uses one of them.
	Seasons []season.Season `json:"seasons,omitempty"`
	// Seasonal holds the seasonal model's parameters; nil without a season.
	Seasonal *SeasonalFit `json:"seasonal,omitempty"`
	// Alpha is the smoothing factor of the level model, in (0, 1].
	Alpha float64 `json:"alpha,omitempty"`
	// Up and Down are as in MixtureFit, of the last value, the level or the season
	// alone; 0 is 1.
	Up   float64 `json:"up,omitempty"`
	Down float64 `json:"down,omitempty"`
	// Analog holds the parameters of the method of analogues, nil without.
	Analog *AnalogFit `json:"analog,omitempty"`
	// Mixture holds the experts of a mixture; nil where one model forecasts.
	Mixture *MixtureFit `json:"mixture,omitempty"`
	// Record is kept by Monitored; nil without.
	Record *Record `json:"record,omitempty"`
	// Fold and Long are kept by Long: the long memory, which is rebuilt from
	// history, and what was learnt of it; nil without.
	Fold *Fold    `json:"-"`
	Long *LongFit `json:"long,omitempty"`
	// Spreads of the model of Auto, of that of Long, and of the last value.
	kept, keptLong, keptLast kept
	play                     *play   // of the mixture's experts
	said                     paths   // of the mixture
	marks                    *marks  // of its experts
	read                     reading `delta:"-"` // kept by Uncensored, of the very memory of a series
	words                    []word  // of one model alone, not due yet, oldest first
	// Skill of the chosen model against the last value; nil until there were
	// enough origins to tell.
	Skill *float64 `json:"skill,omitempty"`
	// Reference is the loss of the last value that Skill is relative to, a
	// mean over the steps of whole horizons; 0 without a Skill.
	Reference float64 `json:"reference,omitempty"`
}

// usualLevel is the quantile that COST_SAVING plans by.
const usualLevel = 0.9

func (s State) level() float64 {
	if s.Level > 0 {
		return s.Level
	}
	return usualLevel
}

// NewState is the state of a series nothing is known of. The name (of a
// workload, say) only spreads refits.
func NewState(name string) State {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	return State{ID: h.Sum64()}
}

// Refits come after the history has grown by 1/growth of its length, give or take
// a quarter by ID, but not more often than every refitMin samples: a young history
// is cheap to refit and changes much, an old one neither. What a refit costs grows
// with the history, so that its share of a cycle does not. One of the portfolio is
// dear, and seldom: in between its weights follow what comes (rounds.go), but the
// shape of a season does not, so it waits for a week at most, however far apart
// samples are. Where Monitored found out that what was learnt is not true, it is learnt
// anew in a quarter of that time.
const (
	refitGrowth     = 8
	portfolioGrowth = 1
	portfolioWait   = 7 * 24 * time.Hour
	soonerFold      = 4
	refitMin        = 4
)

// Due tells whether Update would refit.
func (s State) Due(series api.Series, horizon int) bool {
	// A horizon that varies a little (late samples) is no reason to refit:
	// parameters of the last lead serve for some more.
	if !s.usable(series) || horizon > s.Horizon+max(1, s.Horizon/4) {
		return true
	}
	// A past that was read since, as after a start, is more than what was fitted.
	if 2*(len(series.Values)-s.Samples) > max(4*refitMin, s.Samples) {
		return true
	}
	if series.Past != nil && !series.Past.Start.Equal(s.PastFrom) {
		return true
	}
	fresh := int(series.End().Sub(s.FittedTo) / series.Step)
	if fresh < 0 { // the clock of the source went back
		return true
	}
	growth, longest := refitGrowth, math.MaxInt
	if s.Growth > 0 {
		growth, longest = s.Growth, int(portfolioWait/s.Step)
	}
	if s.Skill != nil && *s.Skill > 0 && s.Record != nil && s.Record.Probation > 0 {
		growth *= soonerFold
	}
	wait := float64(max(refitMin, min(s.Samples/growth, longest)))
	// Splitmix's finaliser: a different share for every fit of every series.
	x := s.ID + uint64(s.Fits)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	share := float64(x>>11) / (1 << 53)
	return float64(fresh) >= wait*(0.75+0.5*share)
}

// fitted returns s stamped as fitted to series.
func (s State) fitted(series api.Series, horizon int) State {
	next := State{
		ID: s.ID, Fits: s.Fits + 1,
		FittedTo: series.End(), Samples: len(series.Values), Step: series.Step, Horizon: horizon,
	}
	if series.Past != nil {
		next.PastFrom = series.Past.Start
	}
	next.Top, next.Second = highest(series.Values)
	return next
}

// usable tells whether what s holds may be applied to series.
func (s State) usable(series api.Series) bool {
	return s.Fits > 0 && s.Step == series.Step && (s.Mixture == nil || s.Mixture.reads(series))
}

// Names of the forecasters.
const (
	AutoName          = "auto"
	QuickName         = "quick"
	NaiveName         = "naive"
	LevelName         = "level"
	SeasonalName      = "seasonal"
	SeasonalNaiveName = "seasonal-naive"
	AnalogName        = "analog"
)

// Names lists the forecasters ByName knows.
func Names() []string {
	names := []string{AutoName, QuickName, SeasonalName, SeasonalNaiveName, LevelName, NaiveName}
	for _, r := range recipes() {
		names = append(names, r.name())
	}
	return names
}

// ByName returns the forecaster of that name, or an error wrapping
// ErrUnknownModel.
func ByName(name string) (Forecaster, error) {
	switch name {
	case AutoName:
		return Auto{Portfolio: true}, nil
	case QuickName:
		return Auto{}, nil
	case SeasonalName:
		return Seasonal{}, nil
	case SeasonalNaiveName:
		return SeasonalNaive{}, nil
	case LevelName:
		return Level{}, nil
	case NaiveName:
		return Naive{}, nil
	}
	if recipeOf(name) != nil {
		return Single{Model: name}, nil
	}
	return nil, fmt.Errorf("%w %q (have %q)", ErrUnknownModel, name, Names())
}

// Guarded is f as a planner may use it: with a long memory, with usage at a limit
// read as a lower bound, with no word beyond what there is precedent for, and monitored,
// so that it acts only while it earns that.
func Guarded(f Forecaster) Forecaster {
	return Monitored{Uncensored{Precedented{Long{f}}}}
}

// Predict fits f to series and forecasts it, for callers that keep no State.
func Predict(f Forecaster, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	s, err := f.Update(State{}, series, horizon)
	if err != nil {
		return api.Forecast{}, err
	}
	return f.Forecast(s, series, horizon, levels)
}

// maxSample is beyond any demand in any unit, and small enough that sums of
// fourth powers don't overflow.
const maxSample = 1e60

// Check refuses what no forecaster can work with. Of a series that s was fitted to only
// what came since is looked at.
func Check(s State, series api.Series, horizon int, levels []float64) error {
	if series.Step <= 0 {
		return fmt.Errorf("%w: step %v, want more than 0", ErrBadRequest, series.Step)
	}
	if horizon < 1 {
		return fmt.Errorf("%w: horizon %d, want at least 1", ErrBadRequest, horizon)
	}
	for i, q := range levels {
		if !(q > 0 && q < 1) {
			return fmt.Errorf("%w: quantile level %v, want it in (0, 1)", ErrBadRequest, q)
		}
		if i > 0 && q <= levels[i-1] {
			return fmt.Errorf("%w: quantile levels %v, want them increasing", ErrBadRequest, levels)
		}
	}
	// What was there at the last refit was looked at then.
	from := 0
	if s.usable(series) && !series.Start.After(s.FittedTo) {
		from = min(len(series.Values), int(s.FittedTo.Sub(series.Start)/series.Step)+1)
	}
	known := from
	for i, v := range series.Values[from:] {
		switch {
		case math.IsNaN(v):
		case v < 0 || v > maxSample:
			return fmt.Errorf("%w: %v at sample %d", ErrBadSample, v, from+i)
		default:
			known = -1
		}
	}
	for known > 0 && math.IsNaN(series.Values[known-1]) {
		known--
	}
	if known == 0 {
		return fmt.Errorf("%w: %d samples, all of them gaps", ErrNoHistory, len(series.Values))
	}
	return nil
}

// predict makes the forecast of p, a predictor over y, after the end of series;
// y is series' values or an end of them.
func predict(name string, p predictor, y []float64, s State, series api.Series, horizon int, levels []float64) api.Forecast {
	var d distribution
	if len(levels) > 0 && s.kept.of(series, horizon) {
		mean := make([]float64, horizon)
		p.point(len(y)-1, mean)
		d = s.kept.around(mean, levels, series)
	} else {
		d = distribute(p, y, len(y)-1, horizon, levels)
	}
	f := api.Forecast{
		Model: name,
		Start: series.End().Add(series.Step), Step: series.Step,
		Mean:   d.mean,
		Levels: append([]float64(nil), levels...), Quantiles: d.quantiles, PeakQuantiles: d.peak,
		Skill: math.NaN(), SeasonalSkill: math.NaN(),
	}
	if s.Skill != nil {
		f.Skill = *s.Skill
	}
	for _, season := range s.Seasons {
		f.Seasons = append(f.Seasons, time.Duration(math.Round(season.Period*float64(series.Step))))
	}
	return f
}
