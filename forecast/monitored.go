package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Monitored keeps account of what came of a forecaster's words, and takes its
// skill back when they were not true. What a forecaster says of its own skill is
// learnt from the past; after a change of regime, or from one that is simply
// wrong, it is worth nothing. Every few samples some of its quantiles are noted,
// beside those of the last value; as they come due both losses are added up, old
// ones fading. The skill of a forecast is then no more than what was seen. How
// often its 90 % interval holds is counted as well, for who asks. Nor
// may any forecast be beyond a multiple of what was ever seen, so that a wild one
// is bounded while it is being found out.
//
// Who claims no skill can't be found out: nobody foresees a season before it came
// back. What was said meanwhile counts as the last value's, which a claim to skill
// must outweigh.
type Monitored struct {
	Forecaster
}

// Record is what came of a forecaster's words on one series.
type Record struct {
	// Promises are not yet due, oldest first; Made is when the newest were.
	Promises []Promise `json:"promises,omitempty"`
	Made     time.Time `json:"made,omitzero"`
	// Loss and Reference are the pinball losses of the forecaster and of the
	// last value, Error and Cycle the absolute errors of its median and of what
	// was a season before; Scored and Cycles are how many of them. All fade.
	Loss      float64 `json:"loss"`
	Reference float64 `json:"reference"`
	Scored    float64 `json:"scored"`
	// Above counts what came above the forecaster's high quantile, of Counted
	// results. These fade more slowly.
	Above   float64 `json:"above"`
	Counted float64 `json:"counted"`
	// Level is the high quantile's, 0 for usualLevel; see State.
	Level float64 `json:"level,omitempty"`
	// Inside counts what came within the 90 % interval, of Judged forecasts: the
	// results of one forecast count as one, as they tell of the same. These fade
	// most slowly.
	Inside float64 `json:"inside,omitempty"`
	Judged float64 `json:"judged,omitempty"`
	// Probation is how many more good results it takes to trust a forecaster
	// again that was found out.
	Probation int     `json:"probation,omitempty"`
	Error     float64 `json:"error"`
	Cycle     float64 `json:"cycle"`
	Cycles    float64 `json:"cycles"`
	// Top is the largest value seen; Seen is the time up to which it was looked
	// for, Fits the refit since when.
	Top  float64   `json:"top"`
	Seen time.Time `json:"seen,omitzero"`
	Fits int       `json:"fits"`
}

// Promise is what was said of one time: the median and the quantile that is planned by,
// by the forecaster and by the last value, and what was a season before.
type Promise struct {
	At        time.Time `json:"at"`
	Own, Last [2]float64
	// Interval is the forecaster's of 90 %, Weight the part of its forecast that
	// this promise is.
	Interval [2]float64 `json:"interval,omitzero"`
	Weight   float64    `json:"weight,omitempty"`
	Cycle    *float64   `json:"cycle,omitempty"`
	// Silent is true of what was said without a claim to any skill by a forecaster
	// that is not on probation: one that is has to show what it is worth.
	Silent bool `json:"silent,omitempty"`
}

// interval is that of 90 %.
var interval = [2]float64{0.05, 0.95}

const (
	// fading is the share of the account that one more result takes away: a
	// forecaster that turns wrong is found out within a few rounds.
	fading = 1.0 / 24
	// claimed is how many results what the forecaster says of itself counts as.
	claimed = 4
	// covered is how many results, as many above the high quantile as should be, are
	// put before those seen: at 0.9 three of the first six are no proof, six of six are.
	covered = 24
	// tooOften is how much larger than it should be the share of results above the
	// high quantile may be, before a forecaster is not to be relied on.
	tooOften = 0.15
	// judged is how many forecasts the coverage of the interval is counted over: at
	// so many its standard error is 1.5 %, and two of them tell 85 % from 90.
	judged = 384.0
	// narrow is the width of an interval, as a part of what came, below which
	// nobody would gain by a narrower one.
	narrow = 0.1
	// slight is by which part of what came it may be beyond a quantile and still count as
	// within: see atMost.
	slight = 1e-3
	// probation is the number of results that a forecaster which was found out
	// must go through with a skill of trusted or more.
	probation = 24
	trusted   = 0.2
	// wild is by how much a forecast may exceed all that was seen.
	wild = 2.0
)

// Update implements Forecaster.
func (m Monitored) Update(s State, series api.Series, horizon int) (State, error) {
	next, err := m.Forecaster.Update(s, series, horizon)
	if err != nil {
		return s, err
	}
	next.Level = s.Level // which a refit leaves out
	var r Record
	if s.Record != nil && s.Step == series.Step {
		r = s.Record.settled(series, s.Reference)
	}
	if r.level() != s.level() {
		// What was said at another quantile is not judged at this one.
		r.Promises, r.Made, r.Above, r.Counted = nil, time.Time{}, 0, 0
		r.Level = s.Level
	}
	r = r.looked(next, series)
	stride := time.Duration(max(1, horizon/8)) * series.Step
	if end := series.End(); !end.Before(r.Made.Add(stride)) || end.Before(r.Made) {
		next.keptLast = next.keptLast.renewed(next.ID, series, horizon, func() (predictor, []float64) {
			return lastValue{series.Values}, series.Values
		})
		if r, err = m.promise(r, next, series, horizon); err != nil {
			return s, err
		}
	}
	next.Record = &r
	return next, nil
}

// promise notes what is said now of some samples to come: the next few, by which
// the wild are known at once, and some further ones.
func (m Monitored) promise(r Record, s State, series api.Series, horizon int) (Record, error) {
	levels, at := accountLevels(s.level())
	own, err := m.Forecaster.Forecast(s, series, horizon, levels)
	if err != nil {
		return r, err
	}
	// How far off the last value is changes little from one time to the next.
	naive := s
	naive.kept = s.keptLast
	last, err := Naive{}.Forecast(naive, series, horizon, []float64{0.5, s.level()})
	if err != nil {
		return r, err
	}
	period := 0.0
	if len(s.Seasons) > 0 {
		period = s.Seasons[len(s.Seasons)-1].Period
	}
	promises := append([]Promise(nil), r.Promises...)
	silent := r.Probation == 0 && !(own.Skill > 0)
	begin := len(promises)
	for h := 0; h < horizon; h = max(h+1, h*3/2) {
		p := Promise{At: own.Start.Add(time.Duration(h) * own.Step), Silent: silent}
		p.Own = [2]float64{own.Quantiles[at.median][h], own.Quantiles[at.high][h]}
		p.Last = [2]float64{last.Quantiles[0][h], last.Quantiles[1][h]}
		if !silent {
			p.Interval = [2]float64{own.Quantiles[at.lower][h], own.Quantiles[at.upper][h]}
		}
		if at := len(series.Values) + h - int(math.Round(period)); period >= float64(h+1) && at >= 0 && !math.IsNaN(series.Values[at]) {
			v := series.Values[at]
			p.Cycle = &v
		}
		promises = append(promises, p)
	}
	if !silent {
		for i := begin; i < len(promises); i++ {
			promises[i].Weight = 1 / float64(len(promises)-begin)
		}
	}
	r.Promises, r.Made = promises, series.End()
	return r, nil
}

// settled is the record after what became due by the end of series; reference is
// the last value's usual loss, see State.
func (r Record) settled(series api.Series, reference float64) Record {
	left := make([]Promise, 0, len(r.Promises))
	end := series.End()
	for _, p := range r.Promises {
		at := int(p.At.Sub(series.Start) / series.Step)
		if p.At.After(end) {
			left = append(left, p)
			continue
		}
		if at < 0 || at >= len(series.Values) || math.IsNaN(series.Values[at]) {
			continue
		}
		actual, bound := series.Values[at], series.Bound(p.At)
		own, last := 0.0, 0.0
		for i, q := range [2]float64{0.5, r.level()} {
			low := q - 1
			if bound {
				low = 0 // no less than this: more may have been right
			}
			own += max(q*(actual-p.Own[i]), low*(actual-p.Own[i]))
			last += max(q*(actual-p.Last[i]), low*(actual-p.Last[i]))
		}
		// One word, however wild, counts as one that is off by all there is:
		// else the account would never be even again.
		if most := 2 * max(actual, p.Last[1]); !(own <= most) { // nor NaN
			own = most
		}
		if p.Silent {
			own = last // or a wider spread of the same would count against it
		}
		r.Loss = (1-fading)*r.Loss + own
		r.Reference = (1-fading)*r.Reference + last
		r.Scored = (1-fading)*r.Scored + 1
		r.Above *= 1 - fading/4
		r.Counted = (1-fading/4)*r.Counted + 1
		if !atMost(actual, p.Own[1]) {
			r.Above++
		}
		r = r.judge(p, actual, bound)
		switch seen := r.seen(1, reference); {
		case p.Silent: // there is nothing to find out
		case seen <= 0:
			r.Probation = probation
		case seen > trusted && r.Probation > 0:
			r.Probation--
		}
		if p.Cycle != nil && !bound {
			off := math.Abs(actual - p.Own[0])
			if most := 2 * max(actual, p.Last[1]); !(off <= most) {
				off = most
			}
			r.Error = (1-fading)*r.Error + off
			r.Cycle = (1-fading)*r.Cycle + math.Abs(actual-*p.Cycle)
			r.Cycles = (1-fading)*r.Cycles + 1
		}
	}
	r.Promises = left
	return r
}

// atMost tells whether what came is within a quantile, or beyond it by no more than
// matters: of a season that repeats itself to the letter all quantiles are one, which is
// off by what arithmetic and fitting leave, on either side, and each second result would
// be a miss. No number of replicas hangs on a thousandth: an HPA's tolerance is a
// hundred of them. It is false of NaN.
func atMost(actual, quantile float64) bool { return actual*(1-slight) <= quantile }

// judge is the record with one more result of the interval. Of a lower bound it is known
// only that it came above the interval. An interval that is narrow counts as one that
// holds as often as it should: no evidence against it.
func (r Record) judge(p Promise, actual float64, bound bool) Record {
	low, high := p.Interval[0], p.Interval[1]
	if bound && atMost(actual, high) || p.Weight == 0 {
		return r
	}
	inside := 0.0
	switch within := low <= actual*(1+slight) && atMost(actual, high); { // not with NaN
	case within && high-low <= narrow*actual:
		inside = interval[1] - interval[0]
	case within:
		inside = 1
	}
	keep := 1 - p.Weight/judged
	r.Inside = keep*r.Inside + p.Weight*inside
	r.Judged = keep*r.Judged + p.Weight
	return r
}

// accountLevels are the quantiles asked for: the interval's, the median and high, and
// where each is.
func accountLevels(high float64) (levels []float64, at struct{ lower, median, high, upper int }) {
	levels = append(levels, interval[0], 0.5, high, interval[1])
	slices.Sort(levels)
	levels = slices.Compact(levels)
	at.lower, at.median, at.high, at.upper = slices.Index(levels, interval[0]), slices.Index(levels, 0.5), slices.Index(levels, high), slices.Index(levels, interval[1])
	return levels, at
}

// coverage of the 90 % interval, nil until enough forecasts were judged.
func (r Record) coverage() *api.Coverage {
	const enough = 12
	if r.Judged < enough {
		return nil
	}
	// The error as if two more had held and two had not (Agresti and Coull 1998): of few
	// results, all of which held, it isn't 0.
	n := r.Judged + 4
	share := (r.Inside + 2) / n
	return &api.Coverage{Share: r.Inside / r.Judged, Error: math.Sqrt(share * (1 - share) / n)}
}

func (r Record) level() float64 {
	if r.Level > 0 {
		return r.Level
	}
	return usualLevel
}

// looked is the record after looking for the largest value of series: in what is
// new or, after a refit, in all of it.
func (r Record) looked(s State, series api.Series) Record {
	from := 0
	if r.Fits == s.Fits && !series.Start.After(r.Seen) {
		from = min(len(series.Values), int(r.Seen.Sub(series.Start)/series.Step)+1)
	} else {
		r.Top = 0
	}
	for _, v := range series.Values[from:] {
		if v > r.Top { // not for a gap
			r.Top = v
		}
	}
	r.Seen, r.Fits = series.End(), s.Fits
	return r
}

// skill is no more than what a forecaster says of itself, nor than was seen.
func (r Record) skill(said, reference float64) float64 {
	if r.Scored < 1 || math.IsNaN(said) {
		return said
	}
	if r.Probation > 0 {
		said = min(said, 0)
	}
	if r.outdone(reference) {
		said = min(said, r.SeasonalSkill())
	}
	return min(said, r.seen(said, reference))
}

// outdone tells whether the last season, repeated, was clearly the better
// forecast: by more than a fifth, and by more than matters beside the last
// value's loss, since where a season repeats itself to the letter next to
// nothing is many times nothing.
func (r Record) outdone(reference float64) bool {
	const enough, clearly, matters = 8, 1.2, 0.1
	return r.Cycles >= enough && r.Error/r.Cycles > clearly*r.Cycle/r.Cycles+matters*r.usual(reference)
}

// usual is the last value's loss over a horizon: as seen, or what the model was
// fitted by, of which r has the sum over two levels. What is due first is of
// the next few steps, where the last value is hard to beat and little is lost by
// anybody.
func (r Record) usual(reference float64) float64 {
	return max(r.Reference/r.Scored, reference*float64(len(skillLevels)))
}

// seen is 1 − loss/loss of the last value over recent results, what was said
// counting as a few of them over whole horizons. It is below zero where the high
// quantile did not hold.
func (r Record) seen(said, reference float64) float64 {
	// Capacity is planned by the high quantile. One that is passed by often is
	// wrong, however much better than the last value it is on the whole.
	rightly := 1 - r.level()
	if above := (r.Above + covered*rightly) / (r.Counted + covered); above > tooOften+rightly+1e-9 {
		said = min(said, tooOften+rightly-above)
	}
	each := r.Reference / r.Scored
	if !(each > 0) { // the last value was right throughout
		if r.Loss > 0 {
			return min(said, 0)
		}
		return said
	}
	each = r.usual(reference)
	return min(said, 1-(r.Loss+claimed*(1-said)*each)/(r.Reference+claimed*each))
}

// SeasonalSkill is 1 − error/error of what was a season before, over recent
// forecasts; NaN before there were any, or without a season.
func (r Record) SeasonalSkill() float64 {
	if r.Cycles < 1 || !(r.Cycle > 0) {
		return math.NaN()
	}
	return 1 - r.Error/r.Cycle
}

// Forecast implements Forecaster.
func (m Monitored) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	f, err := m.Forecaster.Forecast(s, series, horizon, levels)
	if err != nil || s.Record == nil {
		return f, err
	}
	r := s.Record.looked(s, series)
	f.Skill, f.SeasonalSkill, f.Coverage = r.skill(f.Skill, s.Reference), r.SeasonalSkill(), r.coverage()
	limit := wild * r.Top
	clamp := func(xs []float64) {
		for i, x := range xs {
			if !(x <= limit) { // nor NaN
				xs[i] = limit
			}
		}
	}
	clamp(f.Mean)
	clamp(f.PeakQuantiles)
	for _, q := range f.Quantiles {
		clamp(q)
	}
	return f, nil
}
