package canary

import "math"

// stakes are what gamblers bet on a gain, per unit of it: each is best for gains of about
// its inverse.
var stakes = [...]float64{8, 16, 32, 64}

// Gain is a gambler who bets against: each value, given those before, is symmetric about 0 or
// about something less. So are the differences of two that nothing tells apart, whatever
// their spread and their tails, and however the spread changes.
//
// A stake λ is multiplied by 2/(1+exp(−2λx)) = exp(λx)/cosh(λx) for a value x. If x is
// symmetric about 0 that is 1 on average, and it rises in x, so it is 1 at most where x tends
// to be less. Wealth, the mean over the stakes, is then a nonnegative supermartingale: it
// ever reaches 1/δ with a probability of δ at most, however often one looks (Ville). (The
// test of symmetry of Ramdas, Ruf, Larsson and Koolen, "Admissible anytime-valid sequential
// inference must rely on nonnegative martingales", 2020, with the self-normalised exponential of
// de la Peña, "A general class of exponential inequalities for martingales and ratios",
// Ann. Probab. 27 (1999), sharpened from exp(−λ²x²/2) to 1/cosh(λx).)
//
// What it does not rule out: values that are nearly always a little above 0 and rarely far
// below, with a mean of 0. No test can from few values, unless it is told how far below they
// may be. The zero value has not bet yet. It is a value: Add returns another one.
type Gain struct {
	// Count of values, and their sum.
	Count int     `json:"count,omitempty"`
	Sum   float64 `json:"sum,omitempty"`
	// Logs of what each stake has made of 1.
	Logs [len(stakes)]float64 `json:"logs"`
}

// Add returns what is left after a value. One that is not a number proves nothing.
func (g Gain) Add(x float64) Gain {
	if !known(x) {
		return g
	}
	g.Count++
	g.Sum += x
	for i, l := range stakes {
		// log 2 − log(1+exp(−2λx)), without overflow.
		z := -2 * l * x
		g.Logs[i] += math.Ln2 - math.Max(z, 0) - math.Log1p(math.Exp(-math.Abs(z)))
	}
	return g
}

// Wealth of a gambler who began with 1.
func (g Gain) Wealth() float64 {
	var sum float64
	for _, l := range g.Logs {
		sum += math.Exp(l)
	}
	return sum / float64(len(g.Logs))
}

// Mean of the values, 0 of none.
func (g Gain) Mean() float64 { return g.Sum / float64(max(g.Count, 1)) }
