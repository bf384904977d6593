package strategy

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/examples/learn-policy.jsonl anew")

// recordedShop is twenty days of the example's shop, a line each three hours. PERFORMANCE is in force
// on days of work and COST_SAVING at the weekend and every third day. In the evening visitors leave
// what is slow; at night nobody needs what is fast.
func recordedShop(days int) []byte {
	r := rand.New(rand.NewPCG(7, 7))
	zone, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, zone)
	var b strings.Builder
	conversion, spend := 0.0, 0.0
	round := func(v, to float64) float64 { return math.Round(v/to) * to }
	for range 8*days + 1 {
		if at.Hour()%6 == 0 {
			// The round that ends here is of the policy that was in force in it.
			began := at.Add(-time.Hour)
			fast, evening := recordedPolicy(began) == "PERFORMANCE", began.Hour() >= 18
			conversion, spend = 0.030, 8
			if fast {
				spend = 14
			}
			if !fast && evening {
				conversion = 0.015
			}
			conversion, spend = round(conversion+0.001*r.NormFloat64(), 1e-4), round(spend+0.3*r.NormFloat64(), 1e-2)
		}
		line, err := json.Marshal(map[string]any{"time": at.UTC(), "policy": recordedPolicy(at), "sensors": map[string]float64{"conversion": conversion, "spend": spend}})
		if err != nil {
			panic(err)
		}
		b.Write(append(line, '\n'))
		at = at.Add(3 * time.Hour)
	}
	return []byte(b.String())
}

func recordedPolicy(at time.Time) string {
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday || at.YearDay()%3 == 0 {
		return "COST_SAVING"
	}
	return "PERFORMANCE"
}

// TestLearnExample: the inputs of the example are what is described here; on them it comes to
// recommend saving at night and performance in the evening, and never acts.
func TestLearnExample(t *testing.T) {
	const file = "../../docs/examples/learn-policy"
	inputs := recordedShop(28)
	if *update {
		if err := os.WriteFile(file+".jsonl", inputs, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file + ".jsonl")
	if err != nil || string(got) != string(inputs) {
		t.Fatalf("%v: %s.jsonl is not made by this test: run it with -update", err, file)
	}
	text, err := os.ReadFile(file + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	list, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := Steps(strings.NewReader(string(got)))
	if err != nil {
		t.Fatal(err)
	}
	last := map[int]string{}
	results := Run(list, steps, nil)
	for _, r := range results {
		if len(r.Findings) > 0 {
			t.Errorf("%v: %v", r.Time, r.Findings)
		}
		for _, a := range r.Actions {
			if a.NotDone == "" {
				t.Errorf("%+v", a)
			}
		}
		l := r.States[0].Learning
		if l.Round == nil {
			t.Fatalf("%v: %+v", r.Time, l)
		}
		last[l.Round.Since.In(time.FixedZone("", 7200)).Hour()] = l.Round.Recommended
		t.Log(r.Time, l.Round.Baseline, l.Round.Recommended, l.Reason, l.Last)
	}
	if last[0] != "COST_SAVING" || last[18] != "PERFORMANCE" {
		t.Errorf("recommended by the hour: %v", last)
	}
}
