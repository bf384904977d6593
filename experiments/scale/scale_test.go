package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
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
	if ok, err := run(&out, options{sizes: "10,20", podsPerNode: 30, runs: 2, calibrate: file}); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	ranges := func() (most map[string]float64) {
		text, err := os.ReadFile(file)
		if err := errors.Join(err, json.Unmarshal(text, &most)); err != nil {
			t.Fatal(err)
		}
		return most
	}
	once := ranges()
	once["10/sequence"] = 1e9
	text, _ := json.Marshal(once)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := run(io.Discard, options{sizes: "10", podsPerNode: 30, runs: 2, steps: "sequence", calibrate: file}); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if most := ranges(); most["10/sequence"] != 1e9 || len(most) != len(once) || len(most) != 22 {
		t.Errorf("what the file had is not kept: %v", most)
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
}

// Fewer workloads than nodes have more replicas, of which all nodes have as many.
func TestShapes(t *testing.T) {
	var out bytes.Buffer
	if ok, err := run(&out, options{sizes: "260", podsPerNode: 10, workloads: 20, runs: 1, steps: "sequence"}); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	var l line
	if err := json.Unmarshal(out.Bytes(), &l); err != nil || l.Nodes != 260 || l.Pods != 2600 || l.Workloads != 20 {
		t.Errorf("%+v, %v", l, err)
	}
	on := map[string]int{}
	for _, p := range steady(size{260, 10, 20}, false).snapshot.Pods {
		on[p.Node]++
	}
	for node, pods := range on {
		if pods != 10 || len(on) != 260 {
			t.Fatalf("%d nodes have pods; %s has %d", len(on), node, pods)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, bad := range []struct {
		of  func(o *options)
		say string
	}{
		{func(o *options) { o.steps = "plan,none" }, "--steps"},
		{func(o *options) { o.sizes = "" }, "--nodes"},
		{func(o *options) { o.sizes = "9" }, "--nodes"},
		{func(o *options) { o.sizes = "many" }, "--nodes"},
		{func(o *options) { o.sizes = "10," }, "--nodes"},
		{func(o *options) { o.runs = 0 }, "--runs"},
		{func(o *options) { o.podsPerNode = 0 }, "--pods-per-node"},
		{func(o *options) { o.workloads = 3 }, "--workloads"},
		{func(o *options) { o.workloads = -10 }, "--workloads"},
		{func(o *options) { o.workloads, o.calibrate = 5, "ranges.json" }, "--calibrate"},
	} {
		o := options{sizes: "10", podsPerNode: 30, runs: 1, steps: "sequence"}
		bad.of(&o)
		if _, err := run(io.Discard, o); err == nil || !strings.Contains(err.Error(), bad.say) {
			t.Errorf("%+v: %v", o, err)
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

// A step beyond its range is measured again, and only that one.
func TestRepeat(t *testing.T) {
	lines := []line{{Nodes: 10, Step: "sequence", Ratio: 1e9}, {Nodes: 10, Step: "shrink", Ratio: 1e8}}
	if err := repeat(lines, size{10, 30, 10}, 2, map[string]float64{"10/sequence": 1, "10/shrink": 1e9}); err != nil {
		t.Fatal(err)
	}
	if got := lines[0]; got.Ratio <= 0 || got.Ratio > 1e6 || got.P50Ms <= 0 || got.Step != "sequence" {
		t.Errorf("measured again: %+v", got)
	}
	if got := lines[1].Ratio; got != 1e8 {
		t.Errorf("within its range, and measured again: %v", got)
	}
}

func TestGrowth(t *testing.T) {
	var lines []line
	for _, nodes := range []int{5000, 100, 1000, 2500} {
		n := float64(nodes)
		lines = append(lines, line{Nodes: nodes, Step: "plan", Ratio: 3 * n}, line{Nodes: nodes, Step: "switch", Ratio: math.Pow(n, 1.5)})
	}
	lines = append(lines, line{Nodes: 1000, Step: "once", Ratio: 1})
	got := grows(lines)
	for i := range got {
		got[i].Exponent = math.Round(1e6*got[i].Exponent) / 1e6
	}
	if diff := cmp.Diff([]growth{{"plan", 1, 1000, 5000}, {"switch", 1.5, 1000, 5000}}, got); diff != "" {
		t.Errorf("growth (-want +got):\n%s", diff)
	}
	file := filepath.Join(t.TempDir(), "growth.png")
	if err := drawGrowth(file, lines); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := png.Decode(in); err != nil {
		t.Error(err)
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
			w := steady(size{20, 30, 20}, false)
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
