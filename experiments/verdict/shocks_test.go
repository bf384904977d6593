package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// A shock leaves the load as it is but for its events, which a scenario of a day takes.
func TestShocked(t *testing.T) {
	pools := []scenarios.Pool{{Name: "a"}, {Name: "b"}}
	before := load{scenario: scenarios.Scenario{Pools: pools, Events: []scenarios.Event{{LoadFactor: 1.1}}}}
	for _, s := range shocks {
		events := s.events(pools)
		if (len(events) == 0) != (s.name == "none") {
			t.Errorf("%s: %d events", s.name, len(events))
		}
		minutes := map[time.Duration]bool{}
		for _, e := range events {
			if e.At.Duration <= 0 || e.At.Duration+e.For.Duration > 24*time.Hour || e.LoadFactor == 0 && (e.FailNodes == 0 || e.Pool == "") {
				t.Errorf("%s: %+v", s.name, e)
			}
			if e.LoadFactor > 0 && minutes[e.At.Duration%time.Hour] {
				t.Errorf("%s: two surges at one minute of the hour: %v", s.name, e.At)
			}
			minutes[e.At.Duration%time.Hour] = true
		}
		after := shocked(before, api.Performance, events)
		if after.scenario.Policy.Initial != api.Performance || len(after.scenario.Events) != 1+len(events) || after.scenario.Events[0].LoadFactor != 1.1 {
			t.Errorf("%s: %+v", s.name, after.scenario)
		}
	}
	if len(before.scenario.Events) != 1 || before.scenario.Policy.Initial != "" {
		t.Errorf("the load itself has changed: %+v", before.scenario)
	}
}

func TestShockTable(t *testing.T) {
	of := func(shock, scaler string, cost float64, violated int) figure {
		return figure{Scaler: shock + "\t" + scaler, Cost: cost, Minutes: 1000, Violated: violated, P95Ms: cost, P99Ms: 2 * cost}
	}
	var out strings.Builder
	err := shockTable(&out, 20, []figure{
		of("load × 2", "hpa:50", 8, 4), of("none", "mash2, COST_SAVING", 1, 0), of("none", "mash2, COST_SAVING", 4, 1),
		of("load × 2", "hpa:50", 2, 16), of("load × 2", "mash2, COST_SAVING", 4, 3), of("load × 2", "mash2, COST_SAVING", 4, 2),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"what happens, at 20× scaler cost minutes in violation of minutes p95, ms p99 at most, ms",
		"none mash2, COST_SAVING 1.00 1 0.05 % 1–4 8",
		"load × 2 mash2, COST_SAVING 2.00 5 0.25 % 4–4 8",
		"load × 2 hpa:50 2.00 20 1.00 % 2–8 16",
	}
	var got []string
	for line := range strings.Lines(strings.TrimSpace(out.String())) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := shockTable(&out, 1, []figure{of("none", "hpa:50", 1, 1)}); err == nil {
		t.Error("nobody to compare with, and no error")
	}
}
