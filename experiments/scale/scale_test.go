package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "ranges.json")
	if ok, err := run(&out, "10,20", "", 2, file); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	var got []string
	for lines := json.NewDecoder(&out); lines.More(); {
		var l map[string]any
		if err := lines.Decode(&l); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"nodes", "pods", "workloads", "p50Ms", "p99Ms", "rssMiB", "ratio"} {
			if v, ok := l[key].(float64); !ok || v <= 0 {
				t.Errorf("%s is %v in %v", key, l[key], l)
			}
		}
		got = append(got, l["step"].(string))
	}
	steps := []string{"plan", "falling", "cold", "plan switch", "plan move", "plan spot", "plan zones", "sequence", "shrink", "switch", "plan sized"}
	if diff := cmp.Diff(append(steps, steps...), got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if _, err := run(&out, "10", "plan,none", 1, ""); err == nil || !strings.Contains(err.Error(), "--steps") {
		t.Errorf("an unknown step: %v", err)
	}
	for _, bad := range []string{"", "9", "many", "10,"} {
		if _, err := run(&out, bad, "", 1, ""); err == nil || !strings.Contains(err.Error(), "--nodes") {
			t.Errorf("--nodes %q: %v", bad, err)
		}
	}
}

func TestLeaves(t *testing.T) {
	most := map[string]float64{"100/plan": 2}
	for ratio, want := range map[float64]int{1: 0, 2: 0, 2.29: 0, 2.31: 1} {
		if got := leaves([]line{{Nodes: 100, Step: "plan", Ratio: ratio}, {Nodes: 300, Step: "plan", Ratio: 9}}, most); len(got) != want {
			t.Errorf("a ratio of %v: %v", ratio, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	times := []time.Duration{4, 1, 3, 2}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := quantile(times, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

// Every step of the sizes that are run by default has a range.
func TestRanges(t *testing.T) {
	var most map[string]float64
	if err := json.Unmarshal(calibrated, &most); err != nil {
		t.Fatal(err)
	}
	for _, nodes := range []string{"100", "300", "1000"} {
		for _, step := range []string{"plan", "falling", "cold", "plan switch", "plan move", "plan spot", "plan zones", "sequence", "shrink", "switch", "plan sized"} {
			if most[nodes+"/"+step] <= 0 {
				t.Errorf("%s nodes, %s: has no range", nodes, step)
			}
		}
	}
}

// What is planned on several processors is what is planned on one, from the first cycle
// on: states, findings and packings, too.
func TestPlansAreTheSameOnAnyNumberOfProcessors(t *testing.T) {
	for _, forecaster := range []string{forecast.QuickName, forecast.AutoName} {
		config := core.DefaultConfig()
		config.Forecaster = forecaster
		hierarchy, err := config.Hierarchy()
		if err != nil {
			t.Fatal(err)
		}
		plans := func(processors int) (out []string) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			w := steady(20, false)
			w.loads[3][9] = -1 // refused: a finding
			memory := planning.Memory{}
			for later := range 4 {
				var plan api.Plan
				plan, memory = hierarchy.Plan(w.at(later), w.policy, memory)
				text, err := json.Marshal(plan)
				if err != nil {
					t.Fatal(err)
				}
				kept, err := json.Marshal(memory)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, string(text), string(kept))
			}
			return out
		}
		one := plans(1)
		for range 3 {
			if diff := cmp.Diff(one, plans(4)); diff != "" {
				t.Fatalf("%s: on one processor and on four (-one +four):\n%s", forecaster, diff)
			}
		}
		if !strings.Contains(one[0], "ForecastFailed") {
			t.Error("there is no finding to keep in order")
		}
	}
}
