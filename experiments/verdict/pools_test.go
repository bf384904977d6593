package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// The cheapest pool counts once whatever it violates, and once only where it violates no
// more than mash2 on any.
func TestPoolsApart(t *testing.T) {
	of := func(trace, scaler string, cost float64, violated int) figure {
		return figure{Trace: trace, Scaler: scaler, Seed: 1, Cost: cost, Violated: violated, Minutes: 1000}
	}
	a, b := alone("a").String(), alone("b").String()
	r := results{
		of("one", judged.String(), 2, 1), of("one", a, 4, 0), of("one", b, 1, 2),
		of("two", judged.String(), 3, 0), of("two", a, 2, 0), of("two", b, 1, 0),
		of("three", judged.String(), 1, 0), of("three", a, 1, 1), of("three", b, 2, 5),
	}
	var out bytes.Buffer
	if err := r.pools(&out, "held-out", 20, []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	var got struct {
		Traces         int
		Worst          float64
		WorstTrace     string
		NoMore         float64 `json:"besideCheapestThatViolatesNoMore"`
		BesideCheapest float64
	}
	if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if got.Traces != 3 || got.Worst != 3 || got.WorstTrace != "two" || !near(got.NoMore, math.Sqrt(0.5*3)) || !near(got.BesideCheapest, math.Cbrt(2*3)) {
		t.Errorf("%+v of\n%s", got, text)
	}
	if rows := strings.Count(text, "\n"); rows != 9 || !strings.Contains(text, "–") {
		t.Errorf("%d rows of\n%s", rows, text)
	}
}
