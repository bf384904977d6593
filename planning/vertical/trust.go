package vertical

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// TrialConfig says how a learned planner earns the right to act, and loses it.
type TrialConfig struct {
	// Block is the number of readings that one planner acts for, Settle how many of its
	// first ones don't count, because they, or the limits, are still those of the other.
	Block, Settle int
	// Alpha is the probability, at most, that a planner which is no better than the rule
	// is ever trusted.
	Alpha float64
	// Blocks is how many a trusted planner acts for before the rule has one again, which
	// it is watched by.
	Blocks int
	// Doubt is the evidence by which trust ends: a planner that is no worse is demoted
	// once in Doubt comparisons or less often.
	Doubt float64
}

// DefaultTrial needs at least 2·8 blocks of 30 readings: eight minutes with one a second, two
// hours with one in 15 seconds.
func DefaultTrial() TrialConfig {
	return TrialConfig{Block: 30, Settle: 10, Alpha: 0.05, Blocks: 4, Doubt: 100}
}

// Validate returns an error that names a field which makes no sense.
func (c TrialConfig) Validate() error {
	if c.Block < 1 || c.Settle < 0 || c.Settle >= c.Block || c.Blocks < 1 || !(c.Alpha > 0 && c.Alpha < 1) || !(c.Doubt > 1) {
		return fmt.Errorf("trial %+v: want blocks longer than what settles, alpha between 0 and 1 and doubt above 1", c)
	}
	return nil
}

// Trial compares a learned planner with a rule on the workload itself. Both
// act in turn, in pairs of blocks of random order (a switchback experiment), and each
// pair gives a difference of costs D, from -1 to 1, positive where the learned one was
// better.
//
// The test is sequential, by betting (Waudby-Smith and Ramdas 2024, "Estimating means of
// bounded random variables by betting"): wealth starts at 1 and is multiplied by
// 1 + λ·D, λ depending on earlier pairs only. If the learned planner is no better, D has
// no positive mean given the past, and by Ville's inequality the wealth ever reaches
// 1/Alpha with a probability of Alpha at most, however long one looks. It is trusted then.
//
// Once trusted it goes on being compared, with one block of the rule in Blocks + 1. The
// same bet on the opposite, which starts again whenever it falls below 1 (an e-detector:
// Shin, Ramdas and Rinaldo 2023), demotes it at Doubt, and a new trial begins.
//
// What it can't see: an effect that lasts beyond Settle readings is counted for the wrong
// planner.
type Trial struct {
	config  TrialConfig
	rng     *rand.Rand
	trusted bool

	order   []bool // of the blocks of this comparison: true is the learned one's
	block   int
	reading int // of the block
	sums    [2]float64
	counts  [2]float64
	wealth  float64
	mean    float64 // of what was seen, with a prior of one pair at 0
	square  float64
	pairs   float64
	demoted int
}

// NewTrial begins one. The seed decides the order of blocks.
func NewTrial(c TrialConfig, seed uint64) *Trial {
	t := &Trial{config: c, rng: rand.New(rand.NewPCG(seed, 11))}
	t.restart()
	return t
}

func (t *Trial) restart() {
	t.wealth, t.mean, t.square, t.pairs = 1, 0, 0.25, 1
	t.arrange()
}

// arrange the blocks of the next comparison.
func (t *Trial) arrange() {
	n := 2
	if t.trusted {
		n = t.config.Blocks + 1
	}
	t.order = t.order[:0]
	rule := t.rng.IntN(n)
	for i := range n {
		t.order = append(t.order, i != rule)
	}
	t.block, t.reading, t.sums, t.counts = 0, 0, [2]float64{}, [2]float64{}
}

// Trusted reports whether the learned planner has been better, and not worse since.
func (t *Trial) Trusted() bool { return t.trusted }

// Demoted is how often trust was lost.
func (t *Trial) Demoted() int { return t.demoted }

// Learned reports whether the learned planner acts from this reading on. It is asked once on
// each: a reading that is as old as another planner's block says nothing of this one. cost is
// that of the time that was read, from 0 to 1; NaN if nobody knows.
func (t *Trial) Learned(cost float64) bool {
	if t.reading > t.config.Settle && cost >= 0 {
		i := 0
		if t.order[t.block] {
			i = 1
		}
		t.sums[i] += min(cost, 1)
		t.counts[i]++
	}
	if t.reading == t.config.Block {
		t.reading = 0
		if t.block++; t.block == len(t.order) {
			t.compare()
		}
	}
	t.reading++
	return t.order[t.block]
}

// compare the blocks that are over.
func (t *Trial) compare() {
	if t.counts[0] > 0 && t.counts[1] > 0 {
		d := t.sums[0]/t.counts[0] - t.sums[1]/t.counts[1]
		if t.trusted {
			d = -d
		}
		t.wealth *= 1 + t.bet()*d
		if t.pairs++; t.trusted {
			t.pairs = min(t.pairs, memoryOfWatch) // the world may change: forget what was long ago
		}
		t.mean += (d - t.mean) / t.pairs
		t.square += (d*d - t.square) / t.pairs
		if t.trusted {
			t.wealth = max(t.wealth, 1)
		}
	}
	switch {
	case !t.trusted && t.wealth >= 1/t.config.Alpha:
		t.trusted = true
		t.restart()
	case t.trusted && t.wealth >= t.config.Doubt:
		t.trusted = false
		t.demoted++
		t.restart()
	default:
		t.arrange()
	}
}

// memoryOfWatch is how many comparisons back a bet against a trusted planner looks.
const memoryOfWatch = 5

// bet is λ: about what would have made wealth grow fastest so far, at most a half.
func (t *Trial) bet() float64 {
	const most, least = 0.5, 0.05
	return min(max(t.mean/max(t.square, 1e-9), least), most)
}

// Cost of a moment, 0–1, by what a cluster shows: how far utilisation is above 60 % of
// limits (at 100 % and above it is 1), weighed by priority, over pods with a reading. NaN
// without one. Response times would be better; a cluster shows none.
func Cost(pods []Pod) float64 {
	var sum, weights float64
	for i := range pods {
		p := &pods[i]
		if p.At.IsZero() || p.Limit <= 0 || !(p.Usage >= 0) {
			continue
		}
		over := (p.Usage/float64(p.Limit) - 0.6) / 0.4
		w := weight(p.Priority)
		sum += w * min(max(over, 0), 1)
		weights += w
	}
	if weights == 0 {
		return math.NaN()
	}
	return sum / weights
}
