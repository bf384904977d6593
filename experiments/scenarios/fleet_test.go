package scenarios

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files that are compared")

// fleetTraces are the development traces, each from a day on that has a day of history.
var fleetTraces = []string{
	"csv: data:crane-dsp/input0.csv.gz, time: ts, column: value, from: 96h",
	"csv: data:crane-dsp/input1.csv.gz, time: ts, column: value, from: 96h",
	"csv: data:crane-dsp/input2.csv.gz, time: ts, column: value, from: 96h",
	"csv: data:crane-dsp/input4.csv.gz, time: ts, column: value, from: 96h",
	"csv: data:crane-dsp/input5.csv.gz, time: ts, column: value, from: 96h",
	"csv: data:crane-dsp/input8.csv.gz, time: ts, column: value, from: 96h",
	"csv: data:alibaba-containers/c_12104.csv.gz, step: 1m, column: CPU_USAGE_ACTUAL, from: 96h",
	"csv: data:wc98/requests_per_minute_first60d.csv.gz, step: 1m, from: 720h",
}

// fleetPeaks are requests per second at the peak: few large workloads, many small ones.
var fleetPeaks = []float64{500, 20, 100, 40, 300, 10, 150, 60, 200, 30}

// fleets that are drawn: whose requests are wrong or right, whose memory varies or not, and
// whose machines are spot ones, too, or not.
var fleets = []struct {
	name, about         string
	wrong, varies, spot bool
}{
	{"fleet", "requests that were guessed", true, false, false},
	{"fleet-right", "requests that fit", false, false, false},
	{"fleet-memory", "requests that were guessed and memory that varies", true, true, false},
	{"fleet-spot", "requests that fit", false, false, true},
}

// sixTypes are the pools of fleets without spot machines, twoTypes those of the one with them.
const (
	sixTypes = `pools:
  - {name: general, machineType: e2-standard-4, zones: [us-central1-a], nodes: 8, nodesPerZone: {min: 0, max: 120}}
  - {name: small, machineType: e2-medium, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 200}}
  - {name: medium, machineType: e2-standard-2, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 200}}
  - {name: fast, machineType: n2-standard-2, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 200}}
  - {name: fast-large, machineType: n2-standard-4, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 120}}
  - {name: fast-cpu, machineType: n2-highcpu-4, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 120}}
`
	twoTypes = `policy: {spot: {maxShare: 0.7, floor: 1}}
pools:
  - {name: general, machineType: e2-standard-4, zones: [us-central1-a], nodes: 8, nodesPerZone: {min: 0, max: 120}}
  - {name: fast, machineType: n2-standard-2, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 200}}
  - {name: general-spot, machineType: e2-standard-4, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 120}, spot: {priceRatio: 0.4, interruptionsPerHour: 0.05, outage: 5m}}
  - {name: fast-spot, machineType: n2-standard-2, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 200}, spot: {priceRatio: 0.4, interruptionsPerHour: 0.05, outage: 5m}}
`
)

// drawFleet is a fleet of fifty workloads. Where memory varies, limits are half as much again
// as requests instead of twice as much.
func drawFleet(name, about string, wrong, varies, spot bool) string {
	rng := rand.New(rand.NewPCG(2020, 11))
	limit, spread := 2.0, ""
	if varies {
		limit, spread = 1.5, ", spread: 0.2"
	}
	pools, types := sixTypes, "on six types of machines"
	if spot {
		pools, types = twoTypes, "on two types of machines that come as spot machines, too"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Fifty workloads in one cluster, %s, on the days of the development traces.
# Written by go test ./experiments/scenarios -run TestFleets -update, which tells how it is drawn.
#
# How far requests are from what is used follows Datadog's container report of 2020: 49 %% of
# containers use less than 30 %% of the CPU that they request, 45 %% less than 30 %% of the
# memory. Log-normal with these, and a deviation of 0.8, which is an assumption. Requests that
# fit are the CPU that four replicas need at the peak, from 50 to 400 millicores, and a fifth
# more memory than a replica uses.
name: %s
description: Fifty workloads with %s, on a day each of recorded load, %s.
base: heartbeat
noise: {deviation: 0.05, correlation: 1m}
warmup: {passes: 1}
workload: {replicas: {min: 2, max: 40}}
%sstartVUs: 0
`, about, name, about, types, pools)
	services, users := "services:\n", "users:\n"
	for i := range 50 {
		peak := fleetPeaks[i%len(fleetPeaks)]
		// 3 ms of CPU each, on cores of half n2's speed.
		need := 1000 * peak * 0.003 / 0.5 / 0.8 / 4
		cpu := math.Min(math.Max(need, 50), 400)
		memory := math.Min(math.Max(200*math.Exp(0.6*rng.NormFloat64()), 48), 700) // MiB, of an idle replica
		request := 1.2 * memory
		usedCPU, usedMemory := 0.305*math.Exp(0.8*rng.NormFloat64()), 0.332*math.Exp(0.8*rng.NormFloat64())
		if wrong {
			cpu = math.Min(math.Max(cpu*0.8/usedCPU, 50), 1500)
			request = math.Min(math.Max(memory/usedMemory, 1.1*memory), 2048)
		}
		cpu = 10 * math.Round(cpu/10)
		services += fmt.Sprintf("  - {name: w%02d, cpu: {request: %.0fm, limit: %.0fm}, memory: {request: %.0fMi, limit: %.0fMi, base: %.0fMi, perRequest: 64Ki%s}}\n",
			i, cpu, 2*cpu, math.Ceil(request), math.Ceil(limit*math.Ceil(request)), math.Floor(memory), spread)
		users += fmt.Sprintf("  - {name: u%02d, request: {service: w%02d}, arrivals: {%s, length: 24h, peakRPS: %g}}\n", i, i, fleetTraces[i%len(fleetTraces)], peak)
	}
	return b.String() + services + users
}

// TestFleets: the files are what is drawn.
func TestFleets(t *testing.T) {
	for _, f := range fleets {
		file, want := f.name+".yaml", drawFleet(f.name, f.about, f.wrong, f.varies, f.spot)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != want {
			t.Errorf("%s is not what is drawn (%v): go test ./experiments/scenarios -run TestFleets -update", file, err)
		}
	}
	// The distribution that it says it is of.
	rng := rand.New(rand.NewPCG(1, 1))
	low := 0
	for range 100_000 {
		if 0.305*math.Exp(0.8*rng.NormFloat64()) < 0.3 {
			low++
		}
	}
	if math.Abs(float64(low)/100_000-0.49) > 0.01 {
		t.Errorf("%d of 100,000 use less than 30 %% of what they request, want 49 %%", low)
	}
}
