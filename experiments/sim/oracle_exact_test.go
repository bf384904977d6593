package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// USD per hour of the machines below, and the cores of them that pods may request.
const (
	highcpu4, highcpu4Free         = 0.09894, 3.920 - 0.223 // 4 cores
	highmem2, highmem2Free         = 0.09040, 1.930 - 0.223 // 2 cores
	medium                         = 0.03351                // 2 cores at half the speed
	highmem2Memory, highcpu4Memory = 13870792704 - 408944640, 2949255168 - 408944640
)

// arriving is a scenario with arrivals along stages, "10m:100" to 100 per second within ten
// minutes, from the first one's rate on. Its requests take 20 ms of a core.
func arriving(t *testing.T, lines, pools string, stages ...string) scenarios.Scenario {
	t.Helper()
	if !strings.Contains(lines, "stages:") {
		lines += "\nstages: [\"30m:1\"]"
	}
	s, err := scenarios.Parse("open.yaml", []byte("name: open\nrepeat: 1\nthinkTime: {distribution: constant, mean: 1s}\n"+
		"request: {cpu: {distribution: constant, mean: 20ms}, timeout: 2s}\nslo: {p95Ms: 400, failedRatio: 0.02}\n"+lines+"\npools:\n"+pools))
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) > 0 {
		var all []scenarios.Stage
		for _, text := range stages {
			var stage scenarios.Stage
			if err := stage.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			all = append(all, stage)
		}
		s.StartVUs, s.Stages, s.Arrivals = nil, nil, scenarios.ArrivalsOf(float64(all[0].Target), all)
	}
	return s
}

func poolOf(machine string) string {
	return fmt.Sprintf("  - {name: %s, machineType: %s, zones: [a], nodes: 1, nodesPerZone: {min: 0, max: 30}}\n", strings.TrimPrefix(machine, "e2-"), machine)
}

func workloadLines(replicas int, cpu, memory string) string {
	return fmt.Sprintf("workload: {cpu: {%s}, memory: {request: %s}, replicas: {min: %d, max: 40}, targetUtilization: 0.8}", cpu, memory, replicas)
}

// The bound of small scenarios, by hand: it is as high as what it rests on allows, and
// no higher. Each figure is dollars per hour of what is needed, times hours.
func TestOracleByHand(t *testing.T) {
	const served = 0.98                                // of the requests
	small := workloadLines(1, "request: 100m", "64Mi") // whose replicas cost little
	two := "workload: {cpu: {request: 500m, limit: 1}, memory: {request: 64Mi}, replicas: {min: 1, max: 40}, targetUtilization: 0.8}\nservices:\n" +
		"  - {name: x, work: {distribution: constant, mean: 10ms}}\n  - {name: y, work: {distribution: constant, mean: 30ms}}\n" +
		"users:\n  - {name: u, share: 1, request: {service: x, calls: [{service: y, probability: 0.5}]}}"
	paid := DefaultParams().LeastPaid(arriving(t, small, poolOf("e2-highcpu-4"))).Hours()
	level := func(rps float64) float64 { return highcpu4 * rps * 0.02 * served / 4 }
	replica := highcpu4 * 0.1 / highcpu4Free // that small has at least
	for sentence, test := range map[string]struct {
		lines, pools string
		stages       []string
		want         float64
	}{
		"cores serve what arrives": {small, poolOf("e2-highcpu-4"), []string{"30m:100"}, level(100) / 2},
		"who waits for answers asks less": {"startVUs: 100\nstages: [\"30m:100\"]\n" + small, poolOf("e2-highcpu-4"),
			nil, level(100/(1+0.95*0.4+0.05*2)) / 2},
		"slow cores serve less":       {small, poolOf("e2-medium"), []string{"30m:100"}, medium * 100 * 0.02 * served / (2 * 0.5) / 2},
		"the cheaper pool counts":     {small, poolOf("e2-highmem-2") + poolOf("e2-highcpu-4"), []string{"30m:100"}, level(100) / 2},
		"in whatever order":           {small, poolOf("e2-highcpu-4") + poolOf("e2-highmem-2"), []string{"30m:100"}, level(100) / 2},
		"limits let two pods do less": {workloadLines(1, "request: 1500m, limit: 1500m", "64Mi"), poolOf("e2-highcpu-4"), []string{"30m:100"}, highcpu4 * 2 * served / 3 / 2},
		"limits beyond the cores":     {workloadLines(1, "request: 1500m, limit: 3500m", "64Mi"), poolOf("e2-highcpu-4"), []string{"30m:100"}, level(100) / 2},
		"memory lets one pod fit":     {workloadLines(1, "request: 500m, limit: 1", "2Gi"), poolOf("e2-highcpu-4"), []string{"30m:200"}, highcpu4 * 4 * served / 1 / 2},
		"the least replicas' cores":   {workloadLines(10, "request: 900m", "64Mi"), poolOf("e2-highcpu-4"), []string{"30m:10"}, highcpu4 * 9 / highcpu4Free / 2},
		"the least replicas' memory":  {workloadLines(10, "request: 100m", "1Gi"), poolOf("e2-highcpu-4"), []string{"30m:10"}, highcpu4 * 10 * (1 << 30) / highcpu4Memory / 2},
		"where they fit":              {workloadLines(4, "request: 100m", "11Gi"), poolOf("e2-highcpu-4") + poolOf("e2-highmem-2"), []string{"30m:10"}, highmem2 * 4 * (11 << 30) / highmem2Memory / 2},
		"of two pools the cheaper":    {workloadLines(10, "request: 900m", "64Mi"), poolOf("e2-highmem-2") + poolOf("e2-highcpu-4"), []string{"30m:10"}, highcpu4 * 9 / highcpu4Free / 2},
		"every copy": {"copies: 3\n" + workloadLines(4, "request: 900m", "64Mi"), poolOf("e2-highcpu-4"), []string{"30m:10"},
			highcpu4 * 3 * 4 * 0.9 / highcpu4Free / 2},
		"and its load": {"copies: 3\n" + small, poolOf("e2-highcpu-4"), []string{"30m:100"}, 3 * level(100) / 2},
		"two services, in fractions of pods": {two, poolOf("e2-highcpu-4"), []string{"30m:100"},
			highcpu4 * 100 * (0.010 + 0.5*0.030) * served / 4 / 2},
		"the limits of two services": {strings.Replace(two, "limit: 1", "limit: 500m", 1), poolOf("e2-highcpu-4"), []string{"30m:100"},
			highcpu4 * 100 * (0.010 + 0.5*0.030) * served / highcpu4Free / 2},
		"the least replicas of two services": {strings.Replace(two, "min: 1", "min: 10", 1), poolOf("e2-highcpu-4"), []string{"30m:1"},
			highcpu4 * 2 * 10 * 0.5 / highcpu4Free / 2},
		"more work for ten minutes": {"events: [{at: 10m, for: 10m, workFactor: 2}]\n" + small, poolOf("e2-highcpu-4"), []string{"30m:100"},
			level(100)*(20+2*10)/60 + level(100)*paid},
		"smaller requests for a while": {"events: [{at: 10m, for: 1m, resize: {request: 300m, limit: 900m}}]\n" + workloadLines(10, "request: 900m, limit: 900m", "64Mi"), poolOf("e2-highcpu-4"), []string{"30m:10"},
			highcpu4 * 3 / highcpu4Free / 2},
		"larger limits for a while": {"events: [{at: 10m, for: 1m, resize: {request: 1500m, limit: 1600m}}]\n" + workloadLines(1, "request: 1500m, limit: 1500m", "64Mi"), poolOf("e2-highcpu-4"), []string{"30m:100"},
			highcpu4 * 2 * served / (1.6 * highcpu4Free / 1.5) / 2},
		"no limits for a while": {"events: [{at: 10m, for: 1m, resize: {request: 1500m}}]\n" + workloadLines(1, "request: 1500m, limit: 1500m", "64Mi"), poolOf("e2-highcpu-4"), []string{"30m:100"},
			level(100) / 2},
		"limits that come are no longer none": {"events: [{at: 10m, for: 1m, resize: {request: 1500m, limit: 1500m}}]\n" + workloadLines(1, "request: 1500m", "64Mi"), poolOf("e2-highcpu-4"), []string{"30m:100"}, level(100) / 2},
		"smaller requests of one service": {"events: [{at: 10m, for: 1m, service: y, resize: {request: 100m, limit: 1}}]\n" +
			strings.NewReplacer("min: 1", "min: 10", "name: y,", "name: y, cpu: {request: 300m, limit: 1},").Replace(two), poolOf("e2-highcpu-4"), []string{"30m:1"},
			highcpu4 * 10 * (0.5 + 0.1) / highcpu4Free / 2},
		"services that several kinds of users ask": {strings.Replace(two, "name: u, share: 1,", "name: v, share: 0.4, request: {service: x, calls: [{service: y}]}}\n  - {name: u, share: 0.6,", 1), poolOf("e2-highcpu-4"), []string{"30m:100"},
			highcpu4 * (40*0.040 + 60*0.025) * served / 4 / 2},
		"copies are not busy at once": {"copies: 2\n" + small, poolOf("e2-highcpu-4"), []string{"899s:200", "1s:0", "899s:0", "1s:200"}, level(200) / 2},
		"one minute's load is not the next one's": {small, poolOf("e2-highcpu-4"), []string{"59s:0", "1s:1000", "59s:1000", "1s:0", "2m:0"},
			level(1000)*2/60 + replica*2/60},
		"what comes boots and stops": {small, poolOf("e2-highcpu-4"), []string{"10m:100", "1s:200", "19m59s:200"},
			level(100)*30/60 + level(100)*(20.0/60+paid)},
		"or waits, if that is less": {small, poolOf("e2-highcpu-4"), []string{"1m:100", "1s:200", "28m59s:200"},
			level(100)*30/60 + level(100)*30/60},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := arriving(t, test.lines, test.pools, test.stages...)
			got, err := Oracle(s, DefaultParams(), 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			// A ramp of a second is not of hand's precision, nor are layers.
			if len(got) != 2 || !(math.Abs(got[0]/test.want-1) <= 0.005) {
				t.Errorf("$%v, want $%.6f of each pass", got, test.want)
			}
		})
	}
}

// What one node is good for, by hand.
func TestMachinesByHand(t *testing.T) {
	pools := poolOf("e2-highcpu-4") + poolOf("e2-medium")
	cpu := Machine{Pool: "highcpu-4", Price: highcpu4, Most: 30}
	slow := Machine{Pool: "medium", Price: medium, Most: 30}
	with := func(m Machine, capacity float64, pods int64) Machine {
		m.Capacity, m.Pods = capacity, pods
		return m
	}
	for sentence, test := range map[string]struct {
		workload string
		want     []Machine
	}{
		"cores":                    {workloadLines(1, "request: 300m", "64Mi"), []Machine{with(cpu, 4, 12), with(slow, 1, 2)}},
		"what limits let it do":    {workloadLines(1, "request: 300m, limit: 300m", "64Mi"), []Machine{with(cpu, 3.6, 12), with(slow, 0.3, 2)}},
		"memory for fewer":         {workloadLines(1, "request: 300m, limit: 600m", "1Gi"), []Machine{with(cpu, 1.2, 2), with(slow, 0.6, 2)}},
		"no more pods than it may": {workloadLines(1, "request: 10m", "1Mi"), []Machine{with(cpu, 4, 105), with(slow, 1, 71)}},
		"a pool that holds none":   {workloadLines(1, "request: 1", "64Mi"), []Machine{with(cpu, 4, 3)}},
	} {
		got, err := MachinesOf(arriving(t, test.workload, pools))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got, cmpopts.EquateApprox(1e-3, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
	if _, err := MachinesOf(arriving(t, workloadLines(1, "request: 5", "64Mi"), pools)); err == nil || !strings.Contains(err.Error(), "no pool can hold") {
		t.Errorf("pods that fit nowhere: %v", err)
	}
	apart := "workload: {cpu: {request: 500m}, memory: {request: 64Mi}, replicas: {min: 1, max: 40}, targetUtilization: 0.8}\nservices:\n" +
		"  - {name: x, %s: {request: %s}, work: {distribution: constant, mean: 10ms}}\n  - {name: y, work: {distribution: constant, mean: 30ms}}\n" +
		"users:\n  - {name: u, share: 1, request: {service: x, calls: [{service: y}]}}"
	for resource, size := range map[string]string{"cpu": "400m", "cpu ": "500m, limit: 1", "memory": "65Mi"} {
		if _, err := MachinesOf(arriving(t, fmt.Sprintf(apart, strings.TrimSpace(resource), size), pools)); err == nil || !strings.Contains(err.Error(), "one size only") {
			t.Errorf("one with %s %s and one without: %v", resource, size, err)
		}
	}
	if _, err := MachinesOf(arriving(t, fmt.Sprintf(apart, "cpu", "500m"), pools)); err != nil {
		t.Errorf("two of one size: %v", err)
	}
}
