package sim

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// timed is a planner that adds up the time it takes.
type timed struct {
	mash2.Planner
	took *time.Duration
}

func (p timed) Plan(s api.Snapshot, policy api.Policy, m planning.Memory) (api.Plan, planning.Memory) {
	begun := time.Now()
	defer func() { *p.took += time.Since(begun) }()
	return p.Planner.Plan(s, policy, m)
}

// cpuTime of this process so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// week20 is a week by the minute of twenty workloads, each with load of its own.
const week20 = `name: week-20
base: week
copies: 20
arrivals: {csv: "data:crane-dsp/input2.csv.gz", time: ts, column: value, length: 168h, peakRPS: 200}
warmup: {passes: 0}
pools:
  - {name: mas-h2-staging-pool, machineType: e2-medium, zones: [us-central1-a], nodes: 2, nodesPerZone: {min: 0, max: 200}}
  - {name: performance-pool, machineType: n2-standard-2, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 100}}
`

// BenchmarkSpeed tells how many seconds of scenario time pass in one of CPU time,
// of one core as much as of several, with the whole loop in it, garbage collection
// included; how many seconds of CPU time it took, and which part of the time went
// by in the planner.
func BenchmarkSpeed(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(GCPercent)) // as mash2 simulate does
	week := filepath.Join(b.TempDir(), "week20.yaml")
	if err := os.WriteFile(week, []byte(week20), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, test := range []struct {
		name, scenario string
		fidelity       Fidelity
		scaler         string
		passes         int
	}{
		{"heartbeat-fluid-mash2", "heartbeat", Fluid, "mash2", 30},
		{"heartbeat-fluid-hpa", "heartbeat", Fluid, "hpa", 30},
		{"heartbeat-request-mash2", "heartbeat", PerRequest, "mash2", 10},
		{"heartbeat-request-hpa", "heartbeat", PerRequest, "hpa", 10},
		{"train-ticket-fluid-mash2", "train-ticket", Fluid, "mash2", 10},
		{"train-ticket-request-mash2", "train-ticket", PerRequest, "mash2", 3},
		{"week-of-20-fluid-mash2", week, Fluid, "mash2", 1},
		{"week-of-20-fluid-hpa", week, Fluid, "hpa", 1},
	} {
		b.Run(test.name, func(b *testing.B) {
			s := loadScenario(b, test.scenario)
			var simulated float64
			var cpu, wall, planned time.Duration
			for b.Loop() {
				begun, start := time.Now(), cpuTime(b)
				r, err := Run(b.Context(), Options{
					Scenario: s, Scaler: test.scaler, Seed: 1, Fidelity: test.fidelity, Passes: test.passes,
					Wrap: func(h planning.Hierarchy) mash2.Planner { return timed{h, &planned} },
				})
				if err != nil {
					b.Fatal(err)
				}
				cpu, wall = cpu+cpuTime(b)-start, wall+time.Since(begun)
				simulated += r.Workloads[0].Measured.SimulatedSeconds
			}
			b.ReportMetric(simulated/cpu.Seconds(), "×real-time")
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s")
			b.ReportMetric(100*planned.Seconds()/wall.Seconds(), "%planner")
		})
	}
}
