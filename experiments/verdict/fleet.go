package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// fleetSizes are the numbers of workloads of the fleets.
var fleetSizes = []int{20, 50}

// fleetsOf are fleets in one cluster: workload i has the load of the development traces'
// i-th day in turn, its peak a share of the trace's that repeats every seven workloads,
// 100 to 500 requests per second. Warm ones have the days before as history, cold ones
// none. Of only, if there are any, are the names of those that are wanted.
func fleetsOf(folder string, size float64, only []string) ([]load, error) {
	days, err := loads(folder, "development", []float64{1}, nil)
	if err != nil {
		return nil, err
	}
	var out []load
	for _, n := range fleetSizes {
		for _, warm := range []int{0, 2} {
			l := load{set: fleets, name: fmt.Sprintf("fleet-%d-%s", n, map[int]string{0: "cold", 2: "warm"}[warm]), size: size}
			if len(only) > 0 && !slices.Contains(only, l.name) {
				continue
			}
			if l.scenario, err = fleet(l.name, n, warm, size, days); err != nil {
				return nil, err
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// fleet writes the scenario as a user would and loads it.
func fleet(name string, n, warm int, size float64, days []load) (scenarios.Scenario, error) {
	var services, users strings.Builder
	i := 0
	for used := 0; used < n; i++ {
		day := days[i%len(days)].scenario
		a := day.Arrivals
		if a == nil || day.PassDuration() != 24*time.Hour || a.From.Duration < 2*24*time.Hour {
			if i > 1000 {
				return scenarios.Scenario{}, fmt.Errorf("no trace of a day for %s", name)
			}
			continue
		}
		when := fmt.Sprintf("step: %v", a.Step)
		if a.Time != "" {
			when = "time: " + a.Time
		}
		if a.Column != "" {
			when += ", column: " + a.Column
		}
		csv := a.CSV
		fmt.Fprintf(&services, "  - {name: w%02d}\n", used)
		fmt.Fprintf(&users, "  - {name: u%02d, request: {service: w%02d}, arrivals: {csv: %q, %s, from: %v, length: 24h, peakRPS: %g}}\n",
			used, used, csv, when, a.From.Duration, []float64{500, 300, 100, 400, 200, 350, 150}[used%7])
		used++
	}
	text := fmt.Sprintf(`name: %s
base: heartbeat
noise: {deviation: 0.05, correlation: 1m}
warmup: {passes: %d}
workload: {replicas: {min: 2, max: 40}}
pools:
  - {name: mas-h2-staging-pool, machineType: e2-medium, zones: [us-central1-a], nodes: %d, nodesPerZone: {min: 0, max: %d}}
  - {name: performance-pool, machineType: n2-standard-2, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: %d}}
startVUs: 0
services:
%susers:
%s`, name, warm, 2*n, 30*n, 12*n, services.String(), users.String())
	folder, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return scenarios.Scenario{}, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // of the system's temporary folder
	file := filepath.Join(folder, name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return scenarios.Scenario{}, err
	}
	return scenarios.LoadWith(file, scenarios.Changes{Warmup: -1, Scale: size})
}
