package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/score"
	"github.com/mash2-io/mash2/forecast/season"
)

// Auto chooses among the last value, the level and, when there is a season, the
// seasonal model: whichever had the least pinball loss at recent origins. A
// simpler model is kept unless the next is better by more than luck.
type Auto struct {
	// Portfolio weighs a mixture of all models against the choice. A refit
	// then takes tens of milliseconds, and a forecast about one: it is for
	// forecasts that are made once, or seldom.
	Portfolio bool
}

// Name implements Forecaster.
func (m Auto) Name() string {
	if m.Portfolio {
		return AutoName
	}
	return QuickName
}

// Update implements Forecaster. The skill in the returned state is measured by
// a rolling backtest inside the history, with parameters fitted before its
// first origin when the history reaches that far; only the length of the season
// is taken from all of it.
func (m Auto) Update(s State, series api.Series, horizon int) (State, error) {
	if err := Check(s, series, horizon, nil); err != nil {
		return s, err
	}
	if s.Due(series, horizon) {
		s = s.keptFactors(m.refit(s, series, horizon))
	}
	if s.Long != nil { // which is what forecasts
		s.kept = kept{}
		return s, nil
	}
	series = s.withoutFreak(series)
	if s.Mixture != nil {
		return s.playedOn(series, horizon), nil
	}
	s.kept = s.kept.renewed(s.ID, series, horizon, func() (predictor, []float64) {
		_, p, y := s.predictor(series, horizon, false)
		return p, y
	})
	return s.heeded(series, horizon, func() (predictor, []float64) {
		_, p, y := s.predictor(series, horizon, s.kept.of(series, horizon))
		return p, y
	}), nil
}

// playedOn settles the rounds of the mixture that are over, and begins the one that
// is due.
func (s State) playedOn(series api.Series, horizon int) State {
	fresh := s.play == nil
	if fresh {
		s.play = newPlay(*s.Mixture)
	}
	s = s.settled(series)
	var m *mixture
	made := func() *mixture {
		if m == nil {
			m = mixtureOf(s, series, horizon, !fresh)
		}
		return m
	}
	steady := horizon
	if s.Seasonal != nil {
		steady = (&seasonalPredictor{fit: *s.Seasonal}).steady()
	}
	s.kept = s.kept.renewedAligned(s.ID, series, horizon, steady, func() predictor { return made() })
	if s.roundOf(series, horizon) {
		s = s.begun(made(), series, horizon)
	}
	if m != nil && len(m.used) > 0 {
		s.said = s.said.with(m.used, m.shift)
	}
	if m != nil {
		s = s.movedOn(m, series, horizon)
	}
	return s
}

func (m Auto) refit(s State, series api.Series, horizon int) State {
	next := s.fitted(series, horizon)
	series = State{}.withoutFreak(series)
	series.Values = withoutOutage(series.Values)
	y := series.Values
	next.Model = NaiveName
	next.Alpha = 1
	if m.Portfolio {
		next.Growth = portfolioGrowth
	}

	seasons, before := s.remembered(season.Find(y), len(y), series.Step)
	period, seasonal := choosePeriod(y, seasons, before, horizon)
	if seasonal {
		next.Seasons = listSeasons(seasons, period)
		fit := fitSeasonal(y, period, horizon)
		next.Seasonal = &fit
	}

	origins := skillOrigins(len(y), period, horizon)
	if len(origins) < minSkillOrigins || period == 0 && origins[len(origins)-1]-origins[0] < horizon { // of the same samples
		next.tryYoung(y, horizon)
		return next
	}
	past := origins[0] + 1                                // what was known at the first origin
	told := pathLosses(lastValue{y}, y, origins, horizon) // of the best so far
	reference := told.mean()
	next.Model = NaiveName
	best := reference

	alpha := fitAlpha(y, past-1, horizon)
	if alpha < 1 {
		if t := pathLosses(newSmoothed(y, alpha), y, origins, horizon); t.mean() < best*(1-margin) {
			told, best, next.Model = t, t.mean(), LevelName
			next.Alpha = fitAlpha(y, len(y)-1, horizon)
		}
	}
	if seasonal {
		fit := *next.Seasonal
		if float64(past) >= 2*period+float64(horizon) {
			fit = fitSeasonal(y[:past], period, horizon)
		}
		better := margin
		if before > 0 {
			better = -margin // it was believed before, and stays until it is clearly worse
		}
		if t := pathLosses(newSeasonalPredictor(y, fit), y, origins, horizon); t.mean() < best*(1-better) {
			told, best, next.Model = t, t.mean(), SeasonalName
		}
	}
	if len(y) <= analogSpan {
		if fit, t := tryAnalogs(y, past, origins, horizon); t.mean() < best*(1-analogMargin) {
			told, best, next.Model, next.Analog = t, t.mean(), AnalogName, fit
		}
	}
	if m.Portfolio {
		best = tryMixture(&next, s.Mixture, series, seasons, period, origins, horizon, told)
	}
	if reference > 0 && !math.IsInf(reference, 1) {
		skill := 1 - best/reference
		next.Skill, next.Reference = &skill, reference
	}
	return next
}

// remembered is what was found, and the season that s forecast by if it was not
// among that: one that is hard to see is found in one window and not in the next.
// It stays a candidate for as long as a forecast by it is chosen. Before is the
// period of it, or of what it was found as now; 0 without one.
func (s State) remembered(found []season.Season, samples int, step time.Duration) (seasons []season.Season, before float64) {
	if s.Seasonal == nil || s.Step != step || s.Model != SeasonalName && s.Model != MixtureName {
		return found, 0
	}
	before = s.Seasonal.Period
	for _, f := range found {
		if math.Abs(f.Period-before) < season.Distinct*before/2 {
			return found, f.Period
		}
	}
	if 2*before > float64(samples) {
		return found, 0
	}
	lost := season.Season{Period: before}
	for _, listed := range s.Seasons {
		if listed.Period == before {
			lost = listed
		}
	}
	seasons = append(slices.Clone(found), lost)
	slices.SortFunc(seasons, func(a, b season.Season) int { return cmp.Compare(a.Period, b.Period) })
	return seasons, before
}

// tryYoung lets the method of analogues forecast a history that is too short to
// see whole horizons in it, if it is better than the last value by far in what
// can be seen: a pattern that came back a few times is followed although there
// is no season yet, or no more since its phase jumped.
func (s *State) tryYoung(y []float64, horizon int) {
	const (
		youngest = 24
		byFar    = 0.6 // of the last value's loss
	)
	if len(y) < youngest {
		return
	}
	origins := skillOrigins(len(y), 0, min(horizon, len(y)/4))
	if len(origins) < minSkillOrigins {
		return
	}
	reference := pathLoss(lastValue{y}, y, origins, horizon)
	fit, told := tryAnalogs(y, origins[0]+1, origins, horizon)
	if skill := 1 - told.mean()/reference; skill >= byFar {
		s.Model, s.Analog, s.Skill, s.Reference = AnalogName, fit, &skill, reference
	}
}

// tryAnalogs fits the method of analogues and returns its losses at the origins
// with the parameters of before them.
func tryAnalogs(y []float64, past int, origins []int, horizon int) (*AnalogFit, losses) {
	h := history{}.filled(y)
	then := learn(analogs{}, h.until(past), horizon)
	if then == nil { // too short to choose
		then = []float64{analogWindow, 0}
	}
	// What was chosen before the origins serves: these are choices of two, not
	// coefficients that more samples make sharper.
	fit := &AnalogFit{Params: then}
	p := &calibratedAnalogs{analogs{}.predictor(h, horizon, then).(*analogState), 1, 1}
	var told losses
	fit.Up, fit.Down, told = calibrate(p, y, origins, horizon)
	return fit, told
}

// tryMixture makes the mixture the model of next unless the best single model had
// less loss at the origins by more than the standard error of the difference: of
// few origins the better one is a matter of luck, and a mixture is then the safer
// choice (the one-standard-error rule of Breiman et al. 1984, of losses in pairs).
// It returns the mean loss of what is chosen.
func tryMixture(next *State, last *MixtureFit, series api.Series, seasons []season.Season, period float64, origins []int, horizon int, single losses) float64 {
	h := newHistory(series.Values, seasons)
	fit, before, said := fitMixture(h, last, period, origins, horizon)
	if len(fit.Experts) == 0 {
		return single.mean()
	}
	phases := next.Seasonal
	then := newMixture(h, before, phases, horizon)
	mixed := then.calibrate(said, origins, horizon)
	if mixed.clearlyWorse(single) {
		return single.mean()
	}
	fit.Up, fit.Down, fit.Start = then.up, then.down, series.Start
	next.Model, next.Mixture = MixtureName, &fit
	return mixed.mean()
}

// Forecast implements Forecaster.
func (Auto) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if err := Check(s, series, horizon, levels); err != nil {
		return api.Forecast{}, err
	}
	series = s.withoutFreak(series)
	if !s.usable(series) {
		y := series.Values
		return predict(NaiveName, lastValue{y}, y, State{}, series, horizon, levels), nil
	}
	name, p, y := s.predictor(series, horizon, s.kept.of(series, horizon))
	if name != SeasonalName && name != MixtureName {
		s.Seasons = nil // what was found, but not used
	}
	return predict(name, p, y, s, series, horizon, levels), nil
}

// predictor is that of the model chosen, over the end of series that it reads;
// prepared for one point path, or for many.
func (s State) predictor(series api.Series, horizon int, once bool) (name string, p predictor, y []float64) {
	y = series.Values
	switch {
	case s.Model == MixtureName && s.Mixture != nil:
		return MixtureName, mixtureOf(s, series, horizon, once), y
	case s.Model == SeasonalName && s.Seasonal != nil:
		y = s.Seasonal.tail(y, horizon)
		if once || s.Seasonal.Level == LevelAsWas { // no means are asked for
			return SeasonalName, s.scaled(newSeasonalPredictorOnce(y, *s.Seasonal)), y
		}
		return SeasonalName, s.scaled(newSeasonalPredictor(y, *s.Seasonal)), y
	case s.Model == AnalogName && s.Analog != nil:
		y = s.Analog.tail(y)
		return AnalogName, s.Analog.predictorOf(y), y
	case s.Model == LevelName && s.Alpha > 0 && once:
		return LevelName, s.scaled(newSmoothedLast(y, s.Alpha)), y
	case s.Model == LevelName && s.Alpha > 0:
		return LevelName, s.scaled(newSmoothedOnce(y, s.Alpha)), y
	}
	return NaiveName, s.scaled(lastValue{y}), y
}

// The backtest that measures skill.
const (
	maxSkillOrigins = 17 // prime, see fitOrigins
	minSkillOrigins = 4
	// margin is by how much, relative, a model must beat a simpler one: about
	// what a few overlapping origins cannot tell from nothing.
	margin = 0.03
	// analogMargin is that of the method of analogues, which chooses among many
	// pasts.
	analogMargin = 0.15
)

// skillLevels are the quantiles that a model's own backtest measures skill at: the
// middle, and one like those that capacity is planned by.
var skillLevels = []float64{0.5, usualLevel}

// skillOrigins spreads origins over the newest part of the history: a season,
// several horizons, and an eighth of it all, so that neither one phase nor one
// mood decides. Every forecast is fully observed where the history allows it.
func skillOrigins(n int, period float64, horizon int) []int {
	hi := n - 1 - horizon
	lo := max(1, n/4)
	if period > 0 {
		// One cycle must lie before the first origin to forecast from, and
		// a little of one to take residuals from.
		lo = int(math.Ceil(1.1 * period))
		if hi < lo+minSkillOrigins {
			hi = n - 1 - min(horizon, int(period/4)+1)
		}
	}
	span := max(int(math.Ceil(period)), 4*horizon, n/8)
	lo = max(lo, hi-span)
	if hi < lo {
		return nil
	}
	count := min(maxSkillOrigins, hi-lo+1)
	out := make([]int, 0, count)
	for i := range count {
		o := lo
		if count > 1 {
			o += (hi - lo) * i / (count - 1)
		}
		out = append(out, o)
	}
	return out
}

// losses of forecasts from one origin after the other, NaN where nothing came.
type losses []float64

// mean of what came, infinite without any.
func (l losses) mean() float64 {
	sum, n := 0.0, 0
	for _, v := range l {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}

// clearlyWorse tells whether l is above other by more than the standard error of
// their mean difference, or is not known.
func (l losses) clearlyWorse(other losses) bool {
	var more []float64
	for i, v := range l {
		if d := v - other[i]; !math.IsNaN(d) {
			more = append(more, d)
		}
	}
	if len(more) < 2 {
		return !(l.mean() <= other.mean())
	}
	mean, deviation := stat.MeanStdDev(more, nil)
	return !(mean <= stat.StdErr(deviation, float64(len(more))))
}

// pathLosses are the mean pinball losses over skillLevels of p's forecasts from
// origins.
func pathLosses(p predictor, y []float64, origins []int, horizon int) losses {
	out := make(losses, len(origins))
	for i, o := range origins {
		out[i] = distribute(p, y, o, horizon, skillLevels).loss(y[o+1 : min(len(y), o+1+horizon)])
	}
	return out
}

// pathLoss is their mean.
func pathLoss(p predictor, y []float64, origins []int, horizon int) float64 {
	return pathLosses(p, y, origins, horizon).mean()
}

// loss is the mean pinball loss of quantiles at skillLevels, NaN without any
// actual value.
func (d distribution) loss(actual []float64) float64 {
	sum := 0.0
	for i, q := range skillLevels {
		sum += score.Pinball(actual, d.quantiles[i], q) / float64(len(skillLevels))
	}
	return sum
}
