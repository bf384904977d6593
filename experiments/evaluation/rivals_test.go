package main

import (
	"strings"
	"testing"
)

func TestRivals(t *testing.T) {
	// hpa: mash2:60 serves as well for 1.2 times the money, mash2 costs half and serves
	// worse. On the other trace mash2 is better in both, on the seed that both have.
	a := trace1("a", of("mash2", 1, 5, 0.02, 20), of("mash2:60", 1, 12, 0.01, 20), of("hpa", 1, 10, 0.01, 20), of("karpenter", 1, 8, 0, 20), of("mash2-any", 1, 4, 0.03, 20))
	b := trace1("b", of("mash2", 1, 9, 0, 20), of("mash2", 2, 99, 0.5, 20), of("hpa", 1, 12, 0.01, 20), of("clairvoyant", 1, 1, 0, 20))
	text := rivals(group{"development", []result{a, b}})
	for _, want := range []string{
		"## At equal service and at equal cost: development",
		"| hpa | 2 of 2 | 0.95 (0.05 to 18.79) | 2 of 2 | 1.00 | 1.00 |",
		"| karpenter | 0 of 1 | – | 1 of 1 | 0.00 | 3.00 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	for _, not := range []string{"| clairvoyant", "| mash2", "| oracle"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is no rival:\n%s", not, text)
		}
	}
}
