package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Growth is by what factor demand must be thought to grow until what is asked for now
// serves, for an objective to be kept. The zero value is of nothing known.
type Growth struct {
	// Factor at any time.
	Factor float64 `json:"factor,omitempty"`
	// Phases are further factors by the minute of a period that begins with the hour, in
	// UTC: growthStep to the power of each. None where they would save nothing.
	Phases []byte `json:"phases,omitempty"`
	// Lead is the time until what is asked for serves.
	Lead time.Duration `json:"lead,omitempty"`
}

// growthStep is the ratio of two neighbouring factors of Growth.Phases.
const growthStep = 1.02

// At is the factor at a time, 1 or more: the largest of until what is asked for then
// serves.
func (g Growth) At(now time.Time) float64 {
	most := byte(0)
	if n := int64(len(g.Phases)); n > 0 {
		first, last := now.Unix()/60, now.Add(g.Lead).Unix()/60
		for m := first; m <= last; m++ {
			most = max(most, g.Phases[((m%n)+n)%n])
		}
	}
	return math.Max(1, g.Factor*math.Pow(growthStep, float64(most)))
}

// GrowthRule is how capacity follows what is needed.
type GrowthRule struct {
	// Lead is until capacity serves that is asked for.
	Lead time.Duration
	// Hold is how long capacity stays that was needed.
	Hold time.Duration
	// Tolerance is the relative difference from what is needed that changes nothing.
	Tolerance float64
}

// Periods by whose minutes growth may differ: of jobs that begin by the clock, which is
// what recorded loads show most. What differs by the day is for forecasts.
var growthPeriods = []int{0, 30, 60}

const (
	// growthAround is how many minutes before and after count as the same phase.
	growthAround = 1
	// growthGain is by how much phases must be cheaper than none in the past.
	growthGain = 0.03
	// growthLearns is the first share of the history of which phases are only learnt.
	growthLearns = 0.25
)

// GrowthOf is by what factor demand must be thought to grow for as much of it to be
// covered as an objective says, a share of minutes in (0, 1): had capacity followed this
// factor times demand by the rule, all of a minute's demand would have fitted in that share
// of the series' minutes. It is the split conformal quantile (Lei et al. 2018, §2) of each
// minute's largest ratio of demand to what the rule had without the factor, so that it
// holds whatever forecasts are worth, for as long as demand goes on as it did.
//
// Where it is cheaper, phases of an hour or half an hour have factors of their own, each the
// largest growth so far at the same minute; the quantile is then of ratios to what they had
// said before, after Romano et al. 2019, "Conformalized quantile regression". Chosen is what
// would have cost least.
//
// The factor is +Inf where there was demand after none, but for the first of all. Where the
// history is too short for the quantile to be among its minutes, about 1/(1−objective) of
// them, it is not known.
func GrowthOf(series api.Series, rule GrowthRule, objective float64) (g Growth, known bool) {
	g, _, known = growthOf(series, rule, objective)
	return g, known
}

// growthOf is GrowthOf, and what would have been had of capacity with it, in the mean.
func growthOf(series api.Series, rule GrowthRule, objective float64) (g Growth, paid float64, known bool) {
	if series.Step <= 0 || !(objective > 0 && objective < 1) {
		return Growth{}, 0, false
	}
	least := math.Inf(1)
	for _, minutes := range growthPeriods {
		f := follower{series: series, rule: rule, start: series.Start.UnixNano(), period: minutes}
		factor, ok := f.run(objective)
		if !ok {
			continue
		}
		if !known {
			paid = f.cost(factor)
			g, known, least = Growth{Factor: factor, Lead: rule.Lead}, true, paid*(1-growthGain)
		} else if cost := f.cost(factor); cost < least {
			g, paid, least = Growth{Factor: factor, Phases: f.phases(), Lead: rule.Lead}, cost, cost
		}
	}
	return g, paid, known
}

// HoldOf is for how long a rule had best hold what was needed, of some lengths of time: the
// first by which, with the growth that then keeps the objective, capacity would have cost least,
// changes included. Load that comes again before it is forgotten needs no growth. It is the first of
// all where growth is not known by one of them.
func HoldOf(series api.Series, rule GrowthRule, holds []time.Duration, objective float64) time.Duration {
	best, least := holds[0], math.Inf(1)
	for _, hold := range holds {
		rule.Hold = hold
		g, paid, known := growthOf(series, rule, objective)
		if !known || math.IsInf(g.Factor, 1) {
			return holds[0]
		}
		if paid < least {
			best, least = hold, paid
		}
	}
	return best
}

// follower is capacity that follows a series by a rule, and by phases if it has a period.
type follower struct {
	series api.Series
	rule   GrowthRule
	start  int64 // of the series, nanoseconds since the epoch
	period int   // minutes; 0 for none
	// seen is the largest growth so far by phase, around it with its neighbours; grew
	// counts its changes.
	seen, around []float64
	grew         int
	// need of each sample, and the capacity that follows it, both without the factor; NaN
	// if not known.
	need, followed []float64
	top            float64 // of the series
}

// minute of a sample, since the epoch: where samples are further apart each is one.
func (f *follower) minute(i int) int64 {
	return (f.start + int64(i)*int64(f.series.Step)) / int64(time.Minute)
}

// phase of a minute.
func (f *follower) phase(minute int64) int {
	n := int64(f.period)
	return int(((minute % n) + n) % n)
}

// learn counts that demand grew by a ratio until a minute.
func (f *follower) learn(minute int64, ratio float64) {
	at := f.phase(minute)
	if !(ratio > f.seen[at]) {
		return
	}
	f.seen[at], f.grew = ratio, f.grew+1
	for d := -growthAround; d <= growthAround; d++ {
		near := &f.around[((at+d)%f.period+f.period)%f.period]
		*near = math.Max(*near, ratio)
	}
}

// grows is the largest growth so far from a minute until another.
func (f *follower) grows(from, to int64) float64 {
	most := 1.0
	for m := from; m <= to && m < from+int64(f.period); m++ {
		most = math.Max(most, f.around[f.phase(m)])
	}
	return most
}

// run follows the series and returns the factor that keeps the objective.
func (f *follower) run(objective float64) (factor float64, known bool) {
	worst := &worstRatios{limit: int(float64(len(f.series.Values))*(1-objective)) + 2}
	if f.period > 0 {
		f.seen, f.around = make([]float64, f.period), make([]float64, f.period)
	}
	f.followed, f.need = make([]float64, len(f.series.Values)), make([]float64, len(f.series.Values))
	f.follow(worst)
	factor, known = worst.quantile(objective)
	if f.period == 0 {
		factor = math.Max(factor, 1)
	}
	return factor, known
}

// follow is capacity that follows the series. With somebody to count them it learns
// phases and scores what they said before, without it goes by all that is learnt.
func (f *follower) follow(worst *worstRatios) {
	v, step := f.series.Values, f.series.Step
	ahead, back := int((f.rule.Lead+step-1)/step), int(f.rule.Hold/step)
	var held window
	has, begins := math.NaN(), len(v)
	var ratio float64 // by which demand grows until a minute, as known by grew changes
	until, grew := int64(math.MinInt64), -1
	for i, x := range v {
		if begins == len(v) && !(x > 0) {
			x = math.NaN() // of before there was any demand nothing is to be learnt
		} else if begins == len(v) {
			begins = i
		}
		f.need[i] = x
		if !math.IsNaN(x) {
			f.top = math.Max(f.top, x)
			if f.period > 0 {
				if worst != nil && i >= ahead && v[i-ahead] > 0 {
					f.learn(f.minute(i), x/v[i-ahead])
				}
				if end := f.minute(i + ahead); end != until || grew != f.grew {
					ratio, until, grew = f.grows(f.minute(i), end), end, f.grew
				}
				f.need[i] = x * ratio
			}
			held.add(f.need, i)
		}
		if most := held.most(f.need, i-back); f.need[i] > has*(1+f.rule.Tolerance) || math.IsNaN(has) {
			has = f.need[i]
		} else if most < has*(1-f.rule.Tolerance) {
			has = most
		}
		f.followed[i] = has
		// What was asked for at the first demand of all could serve no sooner.
		if worst == nil || i < begins+ahead || i+ahead >= len(v) || f.period > 0 && i < f.learnt() {
			continue
		}
		later := v[i+ahead]
		switch {
		case math.IsNaN(has):
			later = math.NaN()
		case has > 0:
			later /= has
		case later > 0:
			later = math.Inf(1)
		}
		worst.count(f.minute(i+ahead), later)
	}
}

// learnt is the first sample that counts where there are phases.
func (f *follower) learnt() int { return int(growthLearns * float64(len(f.series.Values))) }

// cost is the mean of what a factor would have had of the past that counts, had all been
// known that is now, and no more than the largest demand. What is added counts once more for
// the time until it serves: this is the price of changes.
func (f *follower) cost(factor float64) float64 {
	if f.period > 0 {
		f.follow(nil)
	}
	ahead, before := float64(f.rule.Lead)/float64(f.series.Step), math.NaN()
	sum, n := 0.0, 0
	for _, has := range f.followed[f.learnt():] {
		if math.IsNaN(has) {
			continue
		}
		has = math.Min(has*factor, f.top)
		if sum, n = sum+has, n+1; has > before {
			sum += ahead * (has - before)
		}
		before = has
	}
	return sum / float64(n)
}

// phases as Growth has them, rounded up.
func (f *follower) phases() []byte {
	out := make([]byte, f.period)
	for i, ratio := range f.around {
		if ratio > 1 {
			out[i] = byte(math.Min(math.Ceil(math.Log(ratio)/math.Log(growthStep)), math.MaxUint8))
		}
	}
	return out
}

// window holds the samples that may be the largest of the time before, from the largest on.
type window []int

// add takes sample i in.
func (w *window) add(v []float64, i int) {
	for len(*w) > 0 && v[(*w)[len(*w)-1]] <= v[i] {
		*w = (*w)[:len(*w)-1]
	}
	*w = append(*w, i)
}

// most is the largest from a sample on; NaN if there is none.
func (w *window) most(v []float64, from int) float64 {
	for len(*w) > 1 && (*w)[0] < from {
		*w = (*w)[1:]
	}
	if len(*w) == 0 {
		return math.NaN()
	}
	return v[(*w)[0]]
}

// worstRatios are the largest ratios of minutes.
type worstRatios struct {
	limit   int // how many of them
	largest []float64
	n       int
	minute  int64
	worst   float64 // of the minute
	begun   bool
}

// count takes a ratio of a minute. NaN is a gap, of which nothing is known: the minute
// counts as what was seen of it, and one of gaps alone not at all. Minutes come in order.
func (w *worstRatios) count(minute int64, ratio float64) {
	if !w.begun || minute != w.minute {
		w.close()
		w.minute, w.worst, w.begun = minute, math.NaN(), true
	}
	if ratio > w.worst || math.IsNaN(w.worst) {
		w.worst = ratio
	}
}

// close counts the minute.
func (w *worstRatios) close() {
	if !w.begun || math.IsNaN(w.worst) {
		return
	}
	w.n++
	if len(w.largest) == w.limit && w.worst <= w.largest[0] {
		return
	}
	at, _ := slices.BinarySearch(w.largest, w.worst)
	if w.largest = slices.Insert(w.largest, at, w.worst); len(w.largest) > w.limit {
		w.largest = slices.Delete(w.largest, 0, 1)
	}
}

// quantile is the conformal one.
func (w *worstRatios) quantile(objective float64) (ratio float64, known bool) {
	w.close()
	const whole = 1e-9 // keeps a whole product whole
	over := w.n - int(math.Ceil(float64(w.n+1)*objective-whole))
	if over < 0 || over >= len(w.largest) {
		return 0, false
	}
	return w.largest[len(w.largest)-1-over], true
}
