package vertical

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// trial runs one for so many ticks on costs that are the rule's plus effect while the
// learned planner acts, and drift that has nothing to do with either. It returns the tick
// at which it was first trusted and at which trust was first lost, -1 for never.
func trial(seed uint64, ticks int, effect func(tick int) float64) (trusted, lost int) {
	c := DefaultTrial()
	t := NewTrial(c, seed)
	rng := rand.New(rand.NewPCG(seed, 99))
	trusted, lost = -1, -1
	drift, learned := 0.0, false
	for i := range ticks {
		drift = 0.98*drift + 0.05*rng.NormFloat64()
		cost := 0.4 + drift
		if learned {
			cost += effect(i)
		}
		was := t.Trusted()
		learned = t.Learned(min(max(cost, 0), 1))
		if now := t.Trusted(); now && !was && trusted < 0 {
			trusted = i
		} else if was && !now && lost < 0 {
			lost = i
		}
	}
	return trusted, lost
}

// TestNullIsNotTrusted: a policy that is no better than the rule is trusted at most as
// often as Alpha says, over a day of ticks at one a second.
func TestNullIsNotTrusted(t *testing.T) {
	const runs, day = 400, 86_400
	if testing.Short() {
		t.Skip("seconds of CPU")
	}
	for name, effect := range map[string]float64{"the same as the rule": 0, "a little worse": 0.02} {
		promoted := 0
		for seed := range uint64(runs) {
			if at, _ := trial(seed, day, func(int) float64 { return effect }); at >= 0 {
				promoted++
			}
		}
		// Three standard errors of a share of 5 %.
		share, most := float64(promoted)/runs, 0.05+3*math.Sqrt(0.05*0.95/runs)
		t.Logf("%s: trusted in %.1f %% of %d days", name, 100*share, runs)
		if share > most {
			t.Errorf("%s: trusted in %.1f %% of days, want at most %.1f %%", name, 100*share, 100*most)
		}
	}
}

// TestBetterIsTrusted, and demoted when the world changes: the figures are those that
// docs/how-to/agents.md states.
func TestBetterIsTrusted(t *testing.T) {
	const runs, change = 200, 20_000
	var trusted, late, lost, slow int
	for seed := range uint64(runs) {
		at, end := trial(seed, change+20_000, func(tick int) float64 {
			if tick < change {
				return -0.2
			}
			return 0.2
		})
		if at >= 0 && at < change {
			trusted++
			late = max(late, at)
		}
		if end >= change {
			lost++
			slow = max(slow, end-change)
		}
	}
	t.Logf("20 points better: trusted in %d of %d, at the latest after %d ticks; 20 points worse then: demoted in %d, at the latest after %d ticks", trusted, runs, late, lost, slow)
	if trusted < runs*95/100 || lost < runs*95/100 {
		t.Errorf("trusted %d, demoted %d of %d", trusted, lost, runs)
	}
}

func TestCost(t *testing.T) {
	now := time.Unix(1, 0)
	pods := []Pod{{Limit: 100, Usage: 80, Priority: 1, At: now}, {Limit: 100, Usage: 20, Priority: 0.5, At: now}, {Limit: 100, Usage: 100, Priority: 1}}
	if got := Cost(pods); math.Abs(got-1.0/3) > 1e-9 { // (1·0.5 + 0.5·0)/1.5
		t.Errorf("%g", got)
	}
	if !math.IsNaN(Cost(nil)) {
		t.Error("a cost of nothing")
	}
	if DefaultTrial().Validate() != nil || (TrialConfig{Block: 1, Settle: 1}).Validate() == nil {
		t.Error("validation")
	}
}
