package main

import (
	"strings"
	"testing"
	"time"
)

// Who is told nothing is who is judged, and everybody has a row with every mark.
func TestForetoldTable(t *testing.T) {
	if toldOf(0) != judged {
		t.Errorf("told nothing: %+v", toldOf(0))
	}
	told := toldOf(5 * time.Minute)
	if told.scaler() != judged.scaler() || !told.own() || told.String() == judged.String() {
		t.Errorf("told: %+v", told)
	}
	rival := config{Kind: "hpa", Target: 80, Pool: "a"}
	of := func(c config, cost float64, violating ...int) figure {
		return figure{Trace: "day", Scaler: c.String(), Seed: 1, Cost: cost, Minutes: 1000, Violated: len(violating), Violating: [][]int{violating}, Scalings: 10}
	}
	r := results{of(judged, 3, 1, 2), of(told, 1.5, 1), of(clairvoyant, 1, 1), of(rival, 2, 2, 3)}
	var out strings.Builder
	if err := r.foretold(&out, "development", 1, []config{judged, told, clairvoyant}, []config{rival}); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, judged.Kind) || strings.HasPrefix(line, clairvoyant.Kind) {
			rows = append(rows, strings.Join(strings.Fields(line), " "))
		}
	}
	// Violating, apart from the clairvoyant, beside the rival and on the worst day, beside the
	// clairvoyant, rivals that dominate, scalings.
	want := []string{
		"mash2-any 0.200 0.001 1.5 1.5 3 1 1",
		"mash2-any, told 5m0s ahead 0.100 0 – – 1.5 0 1",
		"clairvoyant 0.100 0 – – 1 0 1",
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s\nof\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"), out.String())
	}
}
