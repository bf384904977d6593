package vertical

import (
	"cmp"
	"math"
	"slices"
)

// Claim is what one pod may get of a budget, millicores.
type Claim struct {
	// Least is what it gets in any case, Most what it asked for.
	Least, Most int64
	// Weight is its priority, above 0.
	Weight float64
}

// Share divides a budget by weighted max-min fairness (Bertsekas and Gallager 1992,
// §6.5.2, with weights): each claim gets level × Weight, but no less than Least and no
// more than Most, and the level is the highest that the budget allows. So nobody can get
// more without somebody getting less who has no more per weight already. Whole
// millicores: what rounding leaves goes to the claims that rounding cut most.
//
// The sum is at most the budget unless the sum of all Least is above it; then everybody
// gets Least, and ok is false. got is written and returned; it has a place for each claim.
func Share(budget int64, claims []Claim, got []int64) (_ []int64, ok bool) {
	var least, most int64
	for i, c := range claims {
		got[i] = max(c.Least, c.Most)
		least += c.Least
		most += got[i]
	}
	if most <= budget {
		return got, true
	}
	if least >= budget {
		for i, c := range claims {
			got[i] = c.Least
		}
		return got, least == budget
	}
	// The sum is piecewise linear in the level, with a kink where a claim leaves Least
	// and one where it reaches Most. Walk up from kink to kink.
	type kink struct{ level, slope float64 }
	kinks := make([]kink, 0, 2*len(claims))
	for _, c := range claims {
		if c.Most > c.Least {
			kinks = append(kinks, kink{float64(c.Least) / c.Weight, c.Weight}, kink{float64(c.Most) / c.Weight, -c.Weight})
		}
	}
	slices.SortFunc(kinks, func(a, b kink) int { return cmp.Compare(a.level, b.level) })
	level, slope, left := 0.0, 0.0, float64(budget-least)
	for _, k := range kinks {
		up := slope * (k.level - level)
		if up >= left {
			break
		}
		left -= up
		level, slope = k.level, slope+k.slope
	}
	if slope > 0 {
		level += left / slope
	}
	// Whole millicores, rounded down, and the rest one by one.
	rest := budget
	for i, c := range claims {
		v := level * c.Weight
		got[i] = max(c.Least, min(c.Most, int64(math.Floor(v))))
		rest -= got[i]
	}
	if rest <= 0 {
		return got, takeBack(-rest, claims, got)
	}
	order := make([]int, 0, len(claims))
	for i, c := range claims {
		if got[i] < c.Most {
			order = append(order, i)
		}
	}
	cut := func(i int) float64 { return level*claims[i].Weight - float64(got[i]) }
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(cut(b), cut(a)), cmp.Compare(claims[b].Weight, claims[a].Weight))
	})
	for _, i := range order {
		if rest == 0 {
			break
		}
		got[i]++
		rest--
	}
	return got, true
}

// takeBack lowers what floating point has given too much of, at most a few millicores.
func takeBack(over int64, claims []Claim, got []int64) bool {
	for i := len(got) - 1; i >= 0 && over > 0; i-- {
		d := min(over, got[i]-claims[i].Least)
		got[i] -= d
		over -= d
	}
	return over <= 0
}
