package main

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// TestRunsAreKept: what one program has run it does not run again, unless the load, the scaler or the seed is another.
func TestRunsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "runs.jsonl")
	keep := func() *keeper {
		k, err := openKeeper(file)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	made := job{load{"development", "crane-1", 1, scenarios.Scenario{
		Name: "crane-1", Repeat: 1, Arrivals: scenarios.ArrivalsOf(100, nil), Users: []scenarios.UserType{{Name: "u", Arrivals: scenarios.ArrivalsOf(100, nil)}},
	}}, config{Kind: "hpa", Target: 80}, 1}
	want := figure{Trace: "crane-1", Scaler: "hpa:80", Seed: 1, Cost: 3, Violating: [][]int{{1, 2}}}
	k := keep()
	of, err := k.of(made)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.add(of, want); err != nil {
		t.Fatal(err)
	}
	// The program was killed while it wrote.
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"of":"0`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := keep().add("another", want); err != nil {
		t.Fatal(err)
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel() // a run fails
	k = keep()
	if got, err := k.run(gone, made); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("what is kept is %+v, %v; want %+v", got, err, want)
	}
	if len(k.known) != 2 {
		t.Errorf("%d figures are known, want 2", len(k.known))
	}
	for name, change := range map[string]func(*job){
		"seed":                   func(j *job) { j.seed = 2 },
		"scaler":                 func(j *job) { j.config.Target = 90 },
		"size":                   func(j *job) { j.load.size = 20 },
		"scenario":               func(j *job) { j.load.scenario.Repeat = 2 },
		"trace in the same file": func(j *job) { j.load.scenario.Arrivals = scenarios.ArrivalsOf(200, nil) },
		"trace of users in the same file": func(j *job) {
			j.load.scenario.Users = []scenarios.UserType{{Name: "u", Arrivals: scenarios.ArrivalsOf(200, nil)}}
		},
	} {
		other := made
		change(&other)
		if key, err := k.of(other); err != nil || key == of {
			t.Errorf("with another %s a run is known by the same, %v", name, err)
		}
	}
	k.program = "another"
	if key, _ := k.of(made); key == of {
		t.Error("of another program a run is known by the same")
	}
}
