package forecast

import (
	"math"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/season"
)

// Seasonal repeats the season it finds: the median of what followed the same
// phase in recent cycles, set to the present level, plus the part of the newest
// deviation that past deviations teach to expect. Without a season it forecasts
// by the last value.
type Seasonal struct {
	// lastCycle repeats the last cycle as it was, and learns nothing else: see
	// SeasonalNaive.
	lastCycle bool
}

// Name implements Forecaster.
func (m Seasonal) Name() string {
	if m.lastCycle {
		return SeasonalNaiveName
	}
	return SeasonalName
}

// Update implements Forecaster.
func (m Seasonal) Update(s State, series api.Series, horizon int) (State, error) {
	if err := Check(s, series, horizon, nil); err != nil {
		return s, err
	}
	if !s.Due(series, horizon) {
		return s, nil
	}
	next := s.fitted(series, horizon)
	next.Model = m.Name()
	seasons := season.Find(series.Values)
	if period, ok := choosePeriod(series.Values, seasons, 0, horizon); ok {
		fit := SeasonalFit{Period: period, Cycles: 1}
		if !m.lastCycle {
			fit = fitSeasonal(series.Values, period, horizon)
		}
		next.Seasonal = &fit
		next.Seasons = listSeasons(seasons, period)
		next.Skill = m.skill(series.Values, fit, horizon)
	}
	return next, nil
}

// skill over the last value at past origins, with parameters of before the first
// where the history reaches that far; nil where there are too few.
func (m Seasonal) skill(y []float64, fit SeasonalFit, horizon int) *float64 {
	origins := skillOrigins(len(y), fit.Period, horizon)
	if len(origins) < minSkillOrigins {
		return nil
	}
	if past := origins[0] + 1; !m.lastCycle && float64(past) >= 2*fit.Period+float64(horizon) {
		fit = fitSeasonal(y[:past], fit.Period, horizon)
	}
	reference := pathLoss(lastValue{y}, y, origins, horizon)
	skill := 1 - pathLoss(newSeasonalPredictor(y, fit), y, origins, horizon)/reference
	if !(reference > 0) || math.IsNaN(skill) || math.IsInf(skill, 0) {
		return nil
	}
	return &skill
}

// Forecast implements Forecaster.
func (m Seasonal) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if err := Check(s, series, horizon, levels); err != nil {
		return api.Forecast{}, err
	}
	if !s.usable(series) || s.Seasonal == nil {
		return predict(m.Name(), lastValue{series.Values}, series.Values, State{}, series, horizon, levels), nil
	}
	y := s.Seasonal.tail(series.Values, horizon)
	return predict(m.Name(), newSeasonalPredictor(y, *s.Seasonal), y, s, series, horizon, levels), nil
}

// LevelMode says how earlier cycles are set to the present level.
type LevelMode string

// The modes.
const (
	LevelAsWas    LevelMode = ""         // not at all
	LevelShifted  LevelMode = "shifted"  // by the difference of the means of a season
	LevelRescaled LevelMode = "rescaled" // by the ratio of the means of a season
)

// SeasonalFit holds the parameters of the seasonal model.
type SeasonalFit struct {
	Period float64 `json:"period"` // samples, need not be whole
	Cycles int     `json:"cycles"` // how many earlier cycles the median is over
	// Level is how earlier cycles are set to the present level.
	Level LevelMode `json:"level,omitempty"`
	// Recent is over how many of the newest samples the deviation from the
	// profile is averaged; Gain is the share of it expected at each lead.
	Recent int       `json:"recent,omitempty"`
	Gain   []float64 `json:"gain,omitempty"`
}

// tail is the part of y that a forecast at its end reads.
func (f SeasonalFit) tail(y []float64, horizon int) []float64 {
	// The oldest residual path, the cycles it is made from, and the season
	// that tells the level of the oldest of them.
	need := float64(residualCycles+f.Cycles+3+emptyCycles)*f.Period + 2*float64(horizon)
	return y[max(0, len(y)-int(need)):]
}

// seasonalPredictor is the seasonal model over one history. It keeps scratch
// space and is for one goroutine.
type seasonalPredictor struct {
	y      []float64
	stride int
	sums   *season.Means // nil where one path is all that is asked for
	fit    SeasonalFit
	back   []cycle // by how many cycles back; set by setLevels for an origin
	// terms and rows are scratch space of profile and profiles.
	terms []float64
	rows  []float64
}

// cycle says how to read the k-th cycle back: at sample t it was
// (1−frac)·y[t+offset] + frac·y[t+offset+1], and shift and scale set that to
// the level at the origin.
type cycle struct {
	offset       int
	frac         float64
	shift, scale float64
}

// emptyCycles is how many seasons of no more than almostNothing of the present
// level are passed over for older ones.
const (
	emptyCycles   = 4
	almostNothing = 0.02
)

// levelSamples is about how many samples of a season its mean is taken from: of
// a long one not all are needed.
const levelSamples = 512

func newSeasonalPredictor(y []float64, fit SeasonalFit) *seasonalPredictor {
	stride := strideOf(fit.Period)
	sums := season.NewMeans(y, stride)
	p := &seasonalPredictor{stride: stride, sums: &sums}
	return p.over(y, fit)
}

func strideOf(period float64) int {
	if period > 2*levelSamples {
		return int(period / levelSamples)
	}
	return 1
}

// newSeasonalPredictorOnce is for one path: it prepares nothing.
func newSeasonalPredictorOnce(y []float64, fit SeasonalFit) *seasonalPredictor {
	p := &seasonalPredictor{stride: strideOf(fit.Period)}
	return p.over(y, fit)
}

// with returns p with other parameters, over the same history.
func (p *seasonalPredictor) with(fit SeasonalFit) *seasonalPredictor { return p.over(p.y, fit) }

func (p *seasonalPredictor) over(y []float64, fit SeasonalFit) *seasonalPredictor {
	return &seasonalPredictor{y: y, stride: p.stride, sums: p.sums, fit: fit, terms: make([]float64, 0, fit.Cycles)}
}

// steady: phases that are taken for alike.
func (p *seasonalPredictor) steady() int { return max(1, int(phaseWidth*p.fit.Period)) }

func (p *seasonalPredictor) period() float64 { return p.fit.Period }

func (p *seasonalPredictor) point(o int, dst []float64) {
	p.setLevels(o, len(dst))
	deviation := p.deviation(o)
	p.profiles(o, o+1, dst)
	last := math.NaN()
	for h, v := range dst {
		if math.IsNaN(v) { // a gap in every cycle: hold
			if math.IsNaN(last) {
				p.holdLast(o, &last)
			}
			v = last
		}
		last = v
		if n := len(p.fit.Gain); n > 0 {
			v += p.fit.Gain[min(h, n-1)] * deviation
		}
		dst[h] = v
	}
}

// profiles writes profile(o, from), profile(o, from+1) …: cycle after cycle, so
// that neighbours in memory are read together.
func (p *seasonalPredictor) profiles(o, from int, dst []float64) {
	if cap(p.rows) < p.fit.Cycles*len(dst) {
		p.rows = make([]float64, p.fit.Cycles*len(dst))
	}
	for len(dst) > 0 {
		// As many samples as reach into the same number of periods.
		first := p.cyclesAhead(from - o)
		n := 1
		for n < len(dst) && p.cyclesAhead(from+n-o) == first {
			n++
		}
		p.segment(o, from, first, dst[:n])
		from, dst = from+n, dst[n:]
	}
}

// segment writes the profiles of samples whose cycles begin with back[first].
func (p *seasonalPredictor) segment(o, from, first int, dst []float64) {
	n := len(dst)
	cycles := p.back[first:min(len(p.back), first+p.fit.Cycles)]
	used := 0
	for _, c := range cycles {
		i := from + c.offset
		if i+n <= 0 { // before the history
			continue
		}
		row := p.rows[used*n : (used+1)*n]
		used++
		switch {
		case i < 0 || i+n > o:
			for h := range row {
				row[h] = p.at(i+h, c.frac, o)*c.scale + c.shift
			}
		case c.frac < 1e-6:
			for h, v := range p.y[i : i+n] {
				row[h] = v*c.scale + c.shift
			}
		default:
			y := p.y[i : i+n+1]
			for h := range row {
				row[h] = (y[h]+c.frac*(y[h+1]-y[h]))*c.scale + c.shift
			}
		}
	}
	rows := p.rows[:used*n]
	for h := range dst {
		var v float64
		switch used {
		case 1:
			v = rows[h]
		case 2:
			v = (rows[h] + rows[n+h]) / 2
		case 3:
			a, b, c := rows[h], rows[n+h], rows[2*n+h]
			v = max(min(a, b), min(max(a, b), c))
		case 4:
			a, b, c, d := rows[h], rows[n+h], rows[2*n+h], rows[3*n+h]
			v = (max(min(a, b), min(c, d)) + min(max(a, b), max(c, d))) / 2
		case 5:
			v = medianOf5(rows[h], rows[n+h], rows[2*n+h], rows[3*n+h], rows[4*n+h])
		default:
			v = math.NaN()
		}
		if math.IsNaN(v) {
			v = p.profile(o, from+h)
		}
		dst[h] = v
	}
}

// medianOf5 is NaN when one of them is.
func medianOf5(a, b, c, d, e float64) float64 {
	lo := max(min(a, b), min(c, d))
	hi := min(max(a, b), max(c, d))
	return max(min(lo, hi), min(max(lo, hi), e))
}

// holdLast sets v to the newest value known at o, 0 if none.
func (p *seasonalPredictor) holdLast(o int, v *float64) {
	var one [1]float64
	lastValue{p.y}.point(o, one[:])
	*v = one[0]
}

// setLevels computes, for every cycle that may be looked at from o, how it is
// set to the level at o: by comparing the season that ends at o with that which
// ends k cycles earlier, or with as much of it as there is.
func (p *seasonalPredictor) setLevels(o, horizon int) {
	cycles := p.fit.Cycles + p.cyclesAhead(horizon)
	p.back = p.back[:0]
	period := int(math.Round(p.fit.Period))
	var is float64
	n, compared, empty := 0, 0, 0
	for k := 0; len(p.back) < cycles; k++ {
		distance := float64(k) * p.fit.Period
		whole := math.Ceil(distance - 1e-6)
		c := cycle{offset: -int(whole), frac: max(0, whole-distance), scale: 1}
		then := o - int(math.Round(distance))
		window := min(period, then+1)
		if p.fit.Level != LevelAsWas && k > 0 && 8*window >= period && window > 0 {
			was, m := p.mean(then-window+1, then+1)
			if window != compared {
				is, n = p.mean(o-window+1, o+1)
				compared = window
			}
			// A season of next to nothing, an outage, tells nothing of the shape.
			if window == period && was < almostNothing*is && empty < emptyCycles {
				empty++
				continue
			}
			switch {
			case 2*m < window || 2*n < window: // gaps
			case p.fit.Level == LevelShifted:
				c.shift = is - was
			case was > 0:
				// Beyond a few times its level a cycle tells little of what
				// will be; a ratio over almost nothing tells nothing.
				c.scale = max(0.2, min(5, is/was))
			}
		}
		p.back = append(p.back, c)
	}
}

// mean of y[from:to], of every stride-th sample, and how many are not gaps.
func (p *seasonalPredictor) mean(from, to int) (float64, int) {
	if p.sums != nil {
		return p.sums.Of(from, to)
	}
	stride := p.stride
	sum, n := 0.0, 0
	for i := (from + stride - 1) / stride * stride; i < to; i += stride {
		if v := p.y[i]; !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return math.NaN(), 0
	}
	return sum / float64(n), n * stride
}

// cyclesAhead is how many periods a lead reaches into, at least 1.
func (p *seasonalPredictor) cyclesAhead(lead int) int {
	if float64(lead) <= p.fit.Period {
		return 1
	}
	// The tolerance keeps a lead of exactly k periods from counting as k+1.
	return int(math.Ceil(float64(lead)/p.fit.Period - 1e-9))
}

// profile is the median over cycles, at the level of o, of what was at the
// phase of sample t, of which nothing after o is read. NaN when nothing was.
func (p *seasonalPredictor) profile(o, t int) float64 {
	p.terms = p.terms[:0]
	first := p.cyclesAhead(t - o)
	for _, c := range p.back[first:min(len(p.back), first+p.fit.Cycles)] {
		if v := p.at(t+c.offset, c.frac, o); !math.IsNaN(v) {
			p.terms = append(p.terms, v*c.scale+c.shift)
		}
	}
	return median(p.terms)
}

// at reads y a fraction after sample i, linearly; the nearer sample where the
// other is a gap. It reads nothing after limit.
func (p *seasonalPredictor) at(i int, frac float64, limit int) float64 {
	if i < 0 {
		return math.NaN()
	}
	a := p.y[min(i, limit)]
	if frac < 1e-6 || i >= limit {
		return a
	}
	b := p.y[i+1]
	switch {
	case math.IsNaN(a) && frac >= 0.5:
		return b
	case math.IsNaN(b) && frac <= 0.5:
		return a
	}
	return a + frac*(b-a)
}

// deviation is the mean difference of the newest samples from the profile.
func (p *seasonalPredictor) deviation(o int) float64 {
	if len(p.fit.Gain) == 0 {
		return 0
	}
	sum, n := 0.0, 0
	from := max(0, o-p.fit.Recent+1)
	recent := make([]float64, o+1-from)
	p.profiles(o, from, recent)
	for i, v := range recent {
		if e := p.y[from+i] - v; !math.IsNaN(e) {
			sum += e
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// How the seasonal model chooses the origins whose residual paths it uses.
const (
	// residualCycles bounds how many cycles back they are taken from.
	residualCycles = 8
	// phaseWidth is the least standard deviation of the phase weights, as a
	// share of the period.
	phaseWidth = 0.02
	// phasePaths is about how many paths are wanted in all: with few cycles
	// more neighbouring phases stand in.
	phasePaths = 40
)

// spacing of analogous origins within a cycle.
func (p *seasonalPredictor) spacing() int {
	return max(1, int(math.Round(0.75*phaseWidth*p.fit.Period)))
}

// analogues are origins at the phase of o and its neighbours, one cycle back,
// two, …: a ramp has other residuals than a plateau. The neighbours also say
// what a ramp some samples early or late does.
func (p *seasonalPredictor) analogues(o, horizon int) []analogue {
	period := p.fit.Period
	cycles := min(residualCycles, int(float64(o+1)/period)-1)
	if cycles < 1 {
		return nil
	}
	spacing := float64(p.spacing())
	sigma := max(1, phaseWidth*period, spacing*phasePaths/float64(4*cycles))
	reach := int(2 * sigma / spacing)
	out := make([]analogue, 0, cycles*(2*reach+1))
	for k := 1; k <= cycles; k++ {
		centre := int(math.Round(float64(o) - float64(k)*period))
		for j := -reach; j <= reach; j++ {
			d := float64(j) * spacing
			origin := centre + int(d)
			if math.Abs(d) > period/2 || origin >= o || float64(origin) < period {
				continue
			}
			out = append(out, analogue{origin, math.Exp(-d * d / (2 * sigma * sigma))})
		}
	}
	return out
}
