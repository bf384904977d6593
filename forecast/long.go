package forecast

import (
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/season"
)

// Long remembers more than the history it is given: it keeps a Fold of it, and
// where a season of the fold, a day or a week, forecasts better than the
// forecaster inside did, it is what is said. What the season says in bins of ten
// minutes is read at the samples' times and set to what was seen since the last
// whole bin, which counts the less the further ahead.
type Long struct {
	Forecaster
}

// LongFit is what was learnt of a fold.
type LongFit struct {
	Seasonal SeasonalFit `json:"seasonal"` // in bins of ten minutes
	// Hold is after how many samples the newest deviation counts for 1/e.
	Hold float64 `json:"hold"`
	// Up and Down are as in MixtureFit.
	Up   float64 `json:"up"`
	Down float64 `json:"down"`
	// Skill over the last value; Fits and Bins tell when this was learnt.
	Skill float64 `json:"skill"`
	Fits  int     `json:"fits"`
	Bins  int     `json:"bins"`
}

// LongName is the model of a forecast by a season that the history itself is too
// short for.
const LongName = "long"

// holds that are tried, in bins.
var holds = []float64{0, 1, 6, 36}

// Update implements Forecaster.
func (l Long) Update(s State, series api.Series, horizon int) (State, error) {
	next, err := l.Forecaster.Update(s, series, horizon)
	if err != nil {
		return s, err
	}
	fold := Fold{}
	if s.Fold != nil {
		fold = *s.Fold
	}
	fold = fold.Add(series)
	next.Fold, next.Long = &fold, s.Long
	if next.Fits != s.Fits { // with the refits of the forecaster inside
		next.Long = fitLong(fold.Tens, next, series, horizon)
	}
	if next.Long == nil {
		next.keptLong = kept{}
		return next, nil
	}
	next.keptLong = next.keptLong.renewed(next.ID, series, horizon, func() (predictor, []float64) {
		return newLongPredictor(fold.Tens, *next.Long, series), series.Values
	})
	return next, nil
}

// fitLong learns the season of bins if it is longer than series can tell and
// better at past origins of it than what s, which was learnt of series, says of
// itself; nil if not.
func fitLong(bins Bins, s State, series api.Series, horizon int) *LongFit {
	y := series.Values
	coarse := int(math.Ceil(float64(horizon)*float64(series.Step)/float64(bins.Width))) + 1
	means := bins.values()
	period, ok := choosePeriod(means, season.Find(means), 0, coarse)
	// Twice within the history is seen in the history itself, and more sharply.
	if !ok || period <= float64(coarse)+1 || period*float64(bins.Width) < float64(len(y))*float64(series.Step)/4 {
		return nil
	}
	shown := 0.0
	if s.Seasonal != nil {
		shown = s.Seasonal.Period
	}
	origins := skillOrigins(len(y), shown, horizon)
	if len(origins) < minSkillOrigins {
		return nil
	}
	reference := pathLoss(lastValue{y}, y, origins, horizon)
	if !(reference > 0) || math.IsInf(reference, 1) {
		return nil
	}
	// Parameters are of before the first origin where the fold reaches that far.
	first := series.Start.Add(durationOf(origins[0], series))
	known := means[:max(0, min(len(means), bins.over(first)))]
	then := SeasonalFit{Period: period, Cycles: 1}
	if float64(len(known)) > 2*period+float64(coarse) {
		then = fitSeasonal(known, period, coarse)
	}
	best := &LongFit{}
	least := math.Inf(1)
	for _, hold := range holds {
		fit := LongFit{Seasonal: then, Hold: hold * float64(bins.Width) / float64(series.Step), Up: 1, Down: 1}
		if e := pathError(newLongPredictor(bins, fit, series), y, origins, horizon); e < least {
			best, least = &fit, e
		}
	}
	if math.IsInf(least, 1) {
		return nil
	}
	var told losses
	best.Up, best.Down, told = calibrate(newLongPredictor(bins, *best, series), y, origins, horizon)
	best.Skill = 1 - told.mean()/reference
	other := 0.0
	if s.Skill != nil {
		other = *s.Skill
	}
	if !(1-best.Skill < (1-other)*(1-margin)) {
		return nil
	}
	best.Seasonal = fitSeasonal(means, period, coarse)
	best.Fits, best.Bins = s.Fits, len(bins.Means)
	return best
}

// Folded is how many bins a refit reads beside series: those of the long memory,
// and those of a past that is not yet part of it.
func (s State) Folded(series api.Series) int {
	n := 0
	if s.Fold != nil {
		n = len(s.Fold.Tens.Means)
	}
	if past := series.Past; past != nil && (s.Fold == nil || !past.Start.Equal(s.Fold.PastFrom)) {
		n += len(past.Values)
	}
	return min(n, foldTens)
}

// over is how many bins are over at a time.
func (b Bins) over(at time.Time) int { return int(at.Sub(b.Start) / b.Width) }

// Forecast implements Forecaster.
func (l Long) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if s.Long == nil || s.Fold == nil || !s.usable(series) {
		return l.Forecaster.Forecast(s, series, horizon, levels)
	}
	if err := Check(s, series, horizon, levels); err != nil {
		return api.Forecast{}, err
	}
	s.Skill, s.kept = &s.Long.Skill, s.keptLong
	width := s.Fold.Tens.Width
	s.Seasons = []season.Season{{Period: s.Long.Seasonal.Period * float64(width) / float64(series.Step)}}
	return predict(LongName, newLongPredictor(s.Fold.Tens, *s.Long, series), series.Values, s, series, horizon, levels), nil
}

// longPredictor reads the season of bins at the samples of a series.
type longPredictor struct {
	plainAnalogues
	bins   Bins
	means  []float64 // of bins
	season *seasonalPredictor
	fit    LongFit
	series api.Series
	path   []float64
}

func newLongPredictor(bins Bins, fit LongFit, series api.Series) *longPredictor {
	means := bins.values()
	return &longPredictor{
		plainAnalogues: plainAnalogues{series.Values}, bins: bins, means: means, fit: fit, series: series,
		season: newSeasonalPredictor(means, fit.Seasonal),
	}
}

// steady: origins that lie evenly tell the same of one sample as of the next.
func (p *longPredictor) steady() int { return max(1, int(p.bins.Width/p.series.Step)) }

func (p *longPredictor) spread() (up, down float64) { return p.fit.Up, p.fit.Down }

// point reads bins that were over at sample o, and samples up to it, only.
func (p *longPredictor) point(o int, dst []float64) {
	now := p.series.Start.Add(durationOf(o, p.series))
	// Bin i is the last that is over.
	i := min(p.bins.over(now), len(p.means)) - 1
	if i < 0 || float64(i) < p.fit.Seasonal.Period {
		lastValue{p.series.Values}.point(o, dst)
		return
	}
	end := now.Add(durationOf(len(dst), p.series))
	steps := int(math.Ceil(float64(end.Sub(p.bins.Start))/float64(p.bins.Width))) - i + 1
	if cap(p.path) < steps {
		p.path = make([]float64, steps)
	}
	path := p.path[:steps]
	p.season.point(i, path)
	// The middle of the first bin that is not over is 0, a bin is 1, a sample apart.
	zero := float64(p.series.Start.Sub(p.bins.Start))/float64(p.bins.Width) - 0.5 - float64(i+1)
	apart := float64(p.series.Step) / float64(p.bins.Width)
	// at is what the season says of a sample after bin i.
	at := func(sample int) float64 {
		x := zero + float64(sample)*apart
		if x < 0 {
			was := p.means[i]
			if math.IsNaN(was) {
				return path[0]
			}
			return was + (path[0]-was)*(1+x)
		}
		k := min(int(x), steps-2)
		return path[k] + (path[k+1]-path[k])*min(1, x-float64(k))
	}
	deviation, n := 0.0, 0
	open := p.bins.Start.Add(time.Duration(i+1) * p.bins.Width).Sub(p.series.Start)
	for k := o; k >= 0 && durationOf(k, p.series) >= open && n < 40; k-- {
		if v := p.series.Values[k]; !math.IsNaN(v) {
			deviation += v - at(k)
			n++
		}
	}
	if n > 0 {
		deviation /= float64(n)
	}
	fades := 0.0
	if p.fit.Hold > 0 {
		fades = math.Exp(-1 / p.fit.Hold)
	} else {
		deviation = 0
	}
	for h := range dst {
		v := at(o+1+h) + deviation
		deviation *= fades
		if math.IsNaN(v) {
			v = 0
		}
		dst[h] = max(0, v)
	}
}
