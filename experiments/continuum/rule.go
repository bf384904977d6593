package continuum

import (
	"fmt"

	"github.com/mash2-io/mash2/strategic/model"
)

// sla is the prediction time that must be met, in seconds.
const sla = 0.2

// forecast is what a rule decides by: each node's prediction time, in seconds.
type forecast func(w world, place, minute int) (float64, error)

// rule says where the application is to be, and whether no node meets the SLA.
type rule struct {
	name string
	// stays names the node that is never left; -1 for none.
	stays int
	from  forecast
	// margin is by what part performance per cost has to be better elsewhere: the price of a
	// move, spread over the stay that pays for it. 0 is the paper's rule.
	margin float64
	// stay is the least number of minutes between moves.
	stay int
}

// decide where to be. Performance is 1 ÷ prediction time, and per cost it is divided by the
// minute's price. Where the present node breaks the SLA and another meets it, the application
// moves at once.
func (r rule) decide(w world, at, minute, since int) (to int, none bool, err error) {
	if r.stays >= 0 {
		return r.stays, false, nil
	}
	var took, worth [places]float64
	for p := range places {
		if took[p], err = r.from(w, p, minute); err != nil {
			return at, false, fmt.Errorf("minute %d: %w", minute, err)
		}
		worth[p] = 1 / (took[p] * price(p, minute))
	}
	other := 1 - at
	switch {
	case took[at] > sla && took[other] > sla:
		return at, true, nil
	case took[other] > sla:
		return at, false, nil
	case took[at] > sla:
		return other, false, nil
	case since < r.stay:
		return at, false, nil
	case worth[other] > worth[at]*(1+r.margin):
		return other, false, nil
	}
	return at, false, nil
}

// byModel predicts with a model for each node.
func byModel(m [places]model.Model) forecast {
	return func(w world, place, minute int) (float64, error) { return m[place].Predict(w.row(place, minute)) }
}

// byTruth knows the future.
func byTruth(w world, place, minute int) (float64, error) { return w.truth(place, minute), nil }

// priced margin: two minutes are paid twice and one is slow, over a stay of half an hour,
// both ways.
const (
	stay   = 15
	margin = 2 * (moving + cold*(coldFactor-1)) / 30
)

func rules(forest, linear [places]model.Model) []rule {
	return []rule{
		{name: "cloud only", stays: cloud},
		{name: "edge only", stays: edge},
		{name: "naive rule, forest", stays: -1, from: byModel(forest)},
		{name: "priced rule, forest", stays: -1, from: byModel(forest), margin: margin, stay: stay},
		{name: "priced rule, linear", stays: -1, from: byModel(linear), margin: margin, stay: stay},
		{name: "priced rule, truth", stays: -1, from: byTruth, margin: margin, stay: stay},
	}
}

// result of a rule on a day.
type result struct {
	// time is the mean prediction time in seconds, cost that of the day, worth the mean of
	// performance per cost.
	time, cost, worth float64
	moves             int
	// broken is the share of minutes above the SLA, none the number of decisions at which no
	// node met it.
	broken float64
	none   int
}

// run a rule through a day. The application starts on the cloud.
func (r rule) run(w world) (result, error) { return r.between(w, 0, day) }

// between runs it from a minute to another.
func (r rule) between(w world, from, until int) (result, error) {
	var out result
	minutes := float64(until - from)
	at, to, left, slow, since := cloud, cloud, 0, 0, day
	if r.stays >= 0 {
		at, to = r.stays, r.stays
	}
	for minute := from; minute < until; minute++ {
		if minute >= window && minute%every == 0 && left == 0 {
			next, none, err := r.decide(w, at, minute, since)
			if err != nil {
				return out, err
			}
			if none {
				out.none++
			}
			if next != at {
				to, left = next, moving
				out.moves++
			}
		}
		paid := price(at, minute)
		if left > 0 {
			paid += price(to, minute)
		}
		took := w.took[at][minute]
		if slow > 0 {
			took *= coldFactor
			slow--
		}
		out.time += took / minutes
		out.cost += paid
		out.worth += 1 / (took * paid) / minutes
		if took > sla {
			out.broken += 1.0 / minutes
		}
		since++
		if left > 0 {
			if left--; left == 0 {
				at, slow, since = to, cold, 0
			}
		}
	}
	return out, nil
}
