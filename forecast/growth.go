package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Growth is by what factor demand must be thought to grow within a lead for as much of it
// to be covered as an objective says, a share of minutes in (0, 1): had there been room for
// this factor times the largest demand of the time hold before, all of a minute's demand a
// lead later would have fitted in that share of the series' minutes. It is the split
// conformal quantile (Lei et al. 2018, §2) of each minute's largest such ratio, so that it
// holds whatever forecasts are worth, for as long as demand goes on as it did. It is 1 or
// more, +Inf where there was demand after none. Where the history is too short for the
// quantile to be among its minutes, about 1/(1−objective) of them, it is not known.
func Growth(series api.Series, lead, hold time.Duration, objective float64) (factor float64, known bool) {
	if series.Step <= 0 || !(objective > 0 && objective < 1) {
		return 0, false
	}
	v := series.Values
	ahead, back := int((lead+series.Step-1)/series.Step), int(hold/series.Step)
	// largest are so many of the ratios, from the least on: all that the quantile may be.
	limit := int(float64(len(v))*(1-objective)) + 2
	largest, n := make([]float64, 0, limit+1), 0
	count := func(ratio float64) {
		if math.IsNaN(ratio) {
			return // a gap
		}
		n++
		if len(largest) == limit && ratio <= largest[0] {
			return
		}
		at, _ := slices.BinarySearch(largest, ratio)
		if largest = slices.Insert(largest, at, ratio); len(largest) > limit {
			largest = slices.Delete(largest, 0, 1)
		}
	}
	// held are the samples that may be the largest of the time before, from the largest on.
	held := make([]int, 0, back+1)
	minute, worst := int64(math.MinInt64), math.NaN()
	for i, x := range v {
		if !math.IsNaN(x) {
			for len(held) > 0 && v[held[len(held)-1]] <= x {
				held = held[:len(held)-1]
			}
			held = append(held, i)
		}
		if len(held) > 0 && held[0] < i-back {
			held = held[1:]
		}
		if i+ahead >= len(v) {
			break
		}
		if m := minuteOf(series, i+ahead); m != minute {
			count(worst)
			minute, worst = m, math.NaN()
		}
		if len(held) == 0 || math.IsNaN(v[i+ahead]) {
			continue
		}
		later, most, ratio := v[i+ahead], v[held[0]], 0.0
		switch {
		case most > 0:
			ratio = later / most
		case later > 0:
			ratio = math.Inf(1)
		}
		if !(worst >= ratio) {
			worst = ratio
		}
	}
	count(worst)
	const whole = 1e-9 // keeps a whole product whole
	over := n - int(math.Ceil(float64(n+1)*objective-whole))
	if over < 0 || over >= len(largest) {
		return 0, false
	}
	return math.Max(largest[len(largest)-1-over], 1), true
}

// minuteOf is the minute of a sample: where samples are further apart each is one.
func minuteOf(series api.Series, i int) int64 {
	return series.Start.Add(durationOf(i, series)).UnixNano() / int64(time.Minute)
}
