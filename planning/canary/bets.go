package canary

import (
	"math"
	"slices"
)

// fractions are the constant bets of a gambler, as parts of the largest that can't ruin
// them.
var fractions = [...]float64{0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95}

const (
	// epoch is after how many bets a gambler begins once more beside what runs.
	epoch = 60
	// maxEpochs are kept. The wealth of older ones counts no longer, which errs on the
	// side of proving less.
	maxEpochs = 48
)

// Bets is a gambler who bets against: the values have a mean of 0 at most, given what came
// before. The zero value has not bet yet. It is a value: Bet returns another one.
type Bets struct {
	// Count of bets.
	Count int `json:"count,omitempty"`
	// Epochs still counted, oldest first, of which First is the number of the oldest.
	First  int     `json:"first,omitempty"`
	Epochs []Stake `json:"epochs,omitempty"`
}

// Stake is the logarithm of what each of the constant bets has made of 1.
type Stake []float64

// weight of an epoch's stake, the first being 0: all together they are 1.
func weight(n int) float64 { return 1 / (float64(n+1) * float64(n+2)) }

// Bet returns what is left after a value, which must be -least or more. With again the
// gambler begins once more every hour of bets; else there is one stake.
func (b Bets) Bet(value, least float64, again bool) Bets {
	out := Bets{Count: b.Count + 1, First: b.First, Epochs: slices.Clone(b.Epochs)}
	if len(out.Epochs) == 0 || again && b.Count%epoch == 0 {
		out.Epochs = append(out.Epochs, make(Stake, len(fractions)))
	}
	if drop := len(out.Epochs) - maxEpochs; drop > 0 {
		out.First, out.Epochs = out.First+drop, out.Epochs[drop:]
	}
	for i, stake := range out.Epochs {
		stake = slices.Clone(stake)
		for g, f := range fractions {
			stake[g] += math.Log1p(f * value / least)
		}
		out.Epochs[i] = stake
	}
	return out
}

// Wealth of a gambler who began with 1; again as it was for Bet.
func (b Bets) Wealth(again bool) float64 {
	if b.Count == 0 {
		return 1
	}
	var sum float64
	for i, stake := range b.Epochs {
		var mean float64
		for _, s := range stake {
			mean += math.Exp(s) / float64(len(stake))
		}
		if !again {
			return mean
		}
		sum += weight(b.First+i) * mean
	}
	// What is for epochs to come: the rest of the weights.
	return sum + 1/float64(b.First+len(b.Epochs)+1)
}
