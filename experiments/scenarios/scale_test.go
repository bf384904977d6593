package scenarios

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Of every built-in scenario of virtual users, users and bounds are multiplied and
// nothing else changes.
func TestScaleMultiplies(t *testing.T) {
	for _, name := range Names() {
		one, err := Load(name)
		if err != nil {
			if strings.Contains(err.Error(), DataEnv) {
				continue // a trace that is not here
			}
			t.Fatal(err)
		}
		twenty, err := LoadWith(name, Changes{Warmup: -1, Scale: 20})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := twenty.Peak(), 20*one.Peak(); math.Abs(got-want) > 0.01*want { // shares of users are rounded
			t.Errorf("%s: peak %g, want %g", name, got, want)
		}
		if got, want := twenty.Workload.Replicas, (Bounds{20 * one.Workload.Replicas.Min, 20 * one.Workload.Replicas.Max}); got != want {
			t.Errorf("%s: replicas %v, want %v", name, got, want)
		}
		for i, d := range one.Services {
			if got, want := twenty.Services[i].Replicas, (Bounds{20 * d.Replicas.Min, 20 * d.Replicas.Max}); got != want {
				t.Errorf("%s: replicas of %s %v, want %v", name, d.Name, got, want)
			}
		}
		for i, p := range one.Pools {
			q := twenty.Pools[i]
			if q.Nodes != 20*p.Nodes || q.NodesPerZone != (Bounds{20 * p.NodesPerZone.Min, 20 * p.NodesPerZone.Max}) {
				t.Errorf("%s: pool %+v becomes %+v", name, p, q)
			}
			// All else of a pool is as it was.
			q.Nodes, q.NodesPerZone = p.Nodes, p.NodesPerZone
			if diff := cmp.Diff(p, q); diff != "" {
				t.Errorf("%s: a pool differs:\n%s", name, diff)
			}
		}
		// One pod and one request are what they were.
		w := twenty.Workload
		w.Replicas = one.Workload.Replicas
		quantities := cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
		if diff := cmp.Diff(one.Workload, w, quantities); diff != "" {
			t.Errorf("%s: the workload differs:\n%s", name, diff)
		}
		if diff := cmp.Diff([]any{one.Request, one.SLO, one.Noise, one.Warmup, one.PassDuration()},
			[]any{twenty.Request, twenty.SLO, twenty.Noise, twenty.Warmup, twenty.PassDuration()}); diff != "" {
			t.Errorf("%s differs:\n%s", name, diff)
		}
	}
}

func TestScaleOfOneIsNothing(t *testing.T) {
	for _, by := range []float64{0, 1} {
		one, err := Load("heartbeat")
		if err != nil {
			t.Fatal(err)
		}
		same, err := LoadWith("heartbeat", Changes{Warmup: -1, Scale: by})
		if err != nil {
			t.Fatal(err)
		}
		quantities := cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
		if diff := cmp.Diff(one, same, quantities); diff != "" {
			t.Errorf("scale %g:\n%s", by, diff)
		}
	}
}

// Arrivals by peak, by factor and with neither, types of users with load of their
// own, and events that count.
func TestScaleOfEverythingElse(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("load.csv", "when,rps\n0,20\n60,200\n120,100\n")
	for sentence, test := range map[string]struct {
		arrivals string
		want     float64 // at 60 s, times 3
	}{
		"by peak":      {"{csv: load.csv, time: when, column: rps, peakRPS: 400}", 1200},
		"by a factor":  {"{csv: load.csv, time: when, column: rps, scale: 0.5}", 300},
		"with neither": {"{csv: load.csv, time: when, column: rps}", 600},
	} {
		file := write("of.yaml", "name: of\nbase: heartbeat\narrivals: "+test.arrivals+"\n")
		s, err := LoadWith(file, Changes{Warmup: -1, Scale: 3})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Traffic(1, 1).RPS(time.Minute); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: %g requests per second, want %g", sentence, got, test.want)
		}
	}
	file := write("events.yaml", `name: events
base: heartbeat
workload: {replicas: {min: 1, max: 5}}
users:
  - {name: one, startVUs: 3, stages: ["1m:10", "4m:0"], request: {service: web}}
  - {name: two, arrivals: {csv: load.csv, time: when, column: rps}, request: {service: web}}
events:
  - {at: 1m, quotaVCPU: 8}
  - {at: 2m, failNodes: 3, pool: p}
pools: [{name: p, machineType: e2-medium, zones: [a], nodes: 3, nodesPerZone: {min: 1, max: 0}}]
stages: []
`)
	for by, want := range map[float64][]int64{
		2:    {6, 20, 0, 2, 10, 16, 6, 6, 2, 0},
		0.25: {1, 3, 0, 1, 1, 2, 1, 1, 1, 0}, // at least 1 of what there was
	} {
		s, err := LoadWith(file, Changes{Warmup: -1, Scale: by})
		if err != nil {
			t.Fatal(err)
		}
		p, b, u := s.Pools[0], s.Workload.Replicas, s.Users[0]
		got := []int64{int64(*u.StartVUs), int64(u.Stages[0].Target), int64(u.Stages[1].Target), int64(b.Min), int64(b.Max), *s.Events[0].QuotaVCPU, int64(s.Events[1].FailNodes),
			int64(p.Nodes), int64(p.NodesPerZone.Min), int64(p.NodesPerZone.Max)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("scale %g (-want +got):\n%s", by, diff)
		}
		if got, want := s.TrafficOf(1, 1, 1).RPS(time.Minute), 200*by; math.Abs(got-want) > 1e-9 {
			t.Errorf("scale %g: %g arrivals per second, want %g", by, got, want)
		}
	}
}

func TestScaleRefuses(t *testing.T) {
	for by, want := range map[float64]string{
		-1:          "scale must be a positive number, is -1",
		math.Inf(1): "scale must be a positive number",
		math.NaN():  "scale must be a positive number",
		1000:        "stages[0]: 400 times 1000 is beyond 100000", // Ramp's products would overflow
	} {
		if _, err := LoadWith("heartbeat", Changes{Warmup: -1, Scale: by}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("scale %g: %v", by, err)
		}
	}
}
