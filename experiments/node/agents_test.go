package main

import (
	"math"
	"strings"
	"testing"
)

// TestAgainst: differences are of the same seed, as shares of the other's mean.
func TestAgainst(t *testing.T) {
	at := func(decides string, seed uint64, mean float64) turn {
		return turn{Decides: decides, Seed: seed, K6: k6Summary{Mean: mean}}
	}
	turns := []turn{at("threshold", 1, 100), at("threshold", 2, 400), at("rule", 2, 200), at("rule", 1, 50), at(none, 1, 300), at(none, 2, 400)}
	if got := against(turns, "rule", "threshold"); got != [3]float64{-0.5, -0.5, -0.5} {
		t.Errorf("always half: %v", got)
	}
	// +200 % and 0: the mean is +100 %, its deviation 141 points; t(1) is 12.7.
	if got := against(turns, none, "threshold"); got[0] != 1 || math.Abs(got[2]-1-12.706) > 0.01 {
		t.Errorf("%v", got)
	}
	c := compared{Turns: turns, Against: map[string][3]float64{"rule": {-0.5, -0.6, -0.4}}}
	if text := c.table([]string{"rule"}); !strings.Contains(text, "| rule | 125 |") || !strings.Contains(text, "-50 % (-60 to -40)") {
		t.Errorf("%s", text)
	}
}

// TestStages: the same rates of a pod for the whole turn, but for the one that is added; all
// of them within the budget.
func TestStages(t *testing.T) {
	for seed := range uint64(20) {
		for _, o := range []options{{}, {Scaling: true}} {
			pods := stages(o, seed)
			if want := map[bool]int{false: agentPods, true: agentPods + 1}[o.Scaling]; len(pods) != want {
				t.Fatalf("%d pods", len(pods))
			}
			var most float64
			for i, p := range pods {
				seconds, rate := 0, 0.0
				for _, s := range p {
					seconds, rate = seconds+s.Seconds, max(rate, s.Rate)
				}
				if seconds != splits*splitSeconds {
					t.Errorf("pod %d has a load for %d s", i, seconds)
				}
				most += rate
			}
			if added := pods[len(pods)-1]; o.Scaling && (most*cpuSeconds*1000 > 0.62*agentBudget || added[0].Rate != 0 || added[2].Rate != 0) {
				t.Errorf("%v requests a second, the added pod %v", most, added)
			}
		}
	}
}
