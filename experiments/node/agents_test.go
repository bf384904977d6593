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
