package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

func duration(d time.Duration) scenarios.Duration { return scenarios.Duration{Duration: d} }

func quantity(t *testing.T, text string) scenarios.Quantity {
	t.Helper()
	var q scenarios.Quantity
	if err := q.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return q
}

// resized is a level load on pods that are throttled until, in minute 5, their
// limit is raised in place, for five minutes.
func resized(t *testing.T) scenarios.Scenario {
	s := loadScenario(t, "noise")
	s.Noise = nil
	s.Stages = []scenarios.Stage{{Duration: 15 * time.Minute, Target: 250}}
	s.Workload.CPU = scenarios.CPU{Request: quantity(t, "100m"), Limit: quantity(t, "200m")}
	s.Workload.Replicas = scenarios.Bounds{Min: 8, Max: 8}
	s.Pools[0].Nodes = 6
	s.Events = []scenarios.Event{{
		At: duration(5 * time.Minute), For: duration(5 * time.Minute),
		Resize: &scenarios.CPU{Request: quantity(t, "250m"), Limit: quantity(t, "1")},
	}}
	return s
}

// A raised limit ends the throttling without a restart, in both fidelities alike,
// and the old one brings it back.
func TestResizeInPlace(t *testing.T) {
	s := resized(t)
	var p95, cores [2][3]float64
	for i, fidelity := range []Fidelity{Fluid, PerRequest} {
		r := simulate(t, Options{Scenario: s, Scaler: "hpa", Seed: 1, Fidelity: fidelity, Passes: 1})
		w := r.Workloads[0]
		var n [3]float64
		for _, b := range w.Buckets {
			phase := int(b.Start / 300)
			if math.Mod(b.Start, 300) < 60 || b.P95Ms == nil {
				continue // the turns
			}
			p95[i][phase] += *b.P95Ms
			cores[i][phase] += b.CPUCores
			n[phase]++
		}
		for phase := range n {
			p95[i][phase] /= n[phase]
			cores[i][phase] /= n[phase]
		}
		t.Logf("%s: p95 %.0f ms, CPU %.2f cores before, while and after the limit is raised", fidelity, p95[i], cores[i])
		if !(p95[i][1] < p95[i][0]/3 && p95[i][1] < p95[i][2]/3) {
			t.Errorf("%s: p95 %.0f ms, want far less while the limit is raised", fidelity, p95[i])
		}
		if !(cores[i][1] > 1.02*cores[i][0]) {
			t.Errorf("%s: %.2f cores, want more while the limit is raised", fidelity, cores[i])
		}
		if pods := w.Steps[len(w.Steps)-1]; pods.Ready != 8 || w.Measured.MinReadyPods != 8 {
			t.Errorf("%s: %+v, least Ready %d: pods were restarted", fidelity, pods, w.Measured.MinReadyPods)
		}
		for _, b := range w.Buckets {
			want := 0.8
			if b.Start >= 310 && b.Start < 590 {
				want = 2
			}
			if at := math.Mod(b.Start, 300); at >= 10 && at < 280 && math.Abs(b.ReadyCores-want) > 1e-9 {
				t.Errorf("%s: %v requested cores at %v s, want %v", fidelity, b.ReadyCores, b.Start, want)
			}
		}
	}
	for phase := range 3 {
		if d := cores[0][phase]/cores[1][phase] - 1; math.Abs(d) > 0.05 {
			t.Errorf("phase %d: CPU is %.2f cores fluid and %.2f per request", phase, cores[0][phase], cores[1][phase])
		}
		if d := p95[0][phase]/p95[1][phase] - 1; math.Abs(d) > 0.25 {
			t.Errorf("phase %d: p95 is %.0f ms fluid and %.0f per request", phase, p95[0][phase], p95[1][phase])
		}
	}
}

// oneNode is a cluster of one e2-medium that has room for cpu millicores of pods.
func oneNode(t *testing.T, traffic traffic) (*Cluster, *node, int64) {
	t.Helper()
	c := newCluster(DefaultParams(), 1, traffic)
	c.record = record.New("mash2/web", "mash2/pause")
	if err := c.addPool(scenarios.Pool{Name: "p", MachineType: "e2-medium", Zones: []string{"a"}, Nodes: 1, NodesPerZone: scenarios.Bounds{Max: 3}}, false); err != nil {
		t.Fatal(err)
	}
	n := c.sorted[0]
	return c, n, n.pool.allocatable.MilliCPU - n.used.MilliCPU
}

// deploy adds a workload without load.
func deploy(t *testing.T, c *Cluster, name string, milliCPU int64, replicas, priority int32) *workload {
	t.Helper()
	s := loadScenario(t, "heartbeat")
	d := s.Deployments()[0]
	d.Name, d.Priority = name, priority
	w := workloadOf(s, d)
	w.request, w.limit = float64(milliCPU)/1000, 0
	w.shape = &api.PodShape{ID: name, Requests: api.Resources{MilliCPU: milliCPU, Memory: 1 << 20, Pods: 1}}
	c.workloads = append(c.workloads, w)
	if err := c.traffic.AddStream(queueing.Stream{Name: w.stream, Work: s.Request.CPU, Think: s.ThinkTime, Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	c.scale(w, replicas)
	c.run(c.now + time.Minute)
	return w
}

// The kubelet grants what fits, defers what doesn't, and never what the node could
// not give; the scheduler counts with the larger of old and new.
func TestResizesAreGranted(t *testing.T) {
	for _, fidelity := range []Fidelity{Fluid, PerRequest} {
		var traffic traffic = newFluid(1)
		if fidelity == PerRequest {
			traffic = queueing.New(1)
		}
		c, n, free := oneNode(t, traffic)
		w := deploy(t, c, "web", free/3, 2, 0)
		pods := w.pods
		a, b := pods[0], pods[1]
		size := func(p *pod) float64 {
			state, ok := c.traffic.PodState(p.uid)
			if !ok {
				t.Fatal("the pod is gone")
			}
			return state.Request
		}
		shape := func(milli int64) (*api.PodShape, float64) {
			return &api.PodShape{ID: "x", Requests: api.Resources{MilliCPU: milli, Memory: 1 << 20, Pods: 1}}, float64(milli) / 1000
		}
		used := func() int64 { return n.used.MilliCPU - n.pool.overhead.MilliCPU }
		resize := func(p *pod, milli int64) {
			s, cores := shape(milli)
			c.resizePod(p, s, cores, 0)
		}

		before := size(a)
		resize(a, free/2)
		if size(a) != before || used() != free/3+free/2 {
			t.Errorf("%s: at once the cgroup has %v cores, %d m are taken", fidelity, size(a), used())
		}
		c.run(c.now + time.Second)
		if want := float64(free/2) / 1000; size(a) != want {
			t.Errorf("%s: %v cores after a second, want %v", fidelity, size(a), want)
		}
		resize(b, free*2/3) // more than there is beside a
		c.run(c.now + time.Minute)
		if size(b) != before || b.allocated.MilliCPU != free/3 || used() != free/2+free*2/3 {
			t.Errorf("%s: deferred: %v cores, granted %d m, %d m taken", fidelity, size(b), b.allocated.MilliCPU, used())
		}
		resize(a, free/4) // makes room for b
		c.run(c.now + 2*time.Second)
		if want := float64(free*2/3) / 1000; size(b) != want || used() != free/4+free*2/3 {
			t.Errorf("%s: %v cores after room was made, want %v; %d m taken", fidelity, size(b), want, used())
		}
		resize(a, n.pool.allocatable.MilliCPU+1) // never
		c.run(c.now + time.Minute)
		if used() != free/4+free*2/3 {
			t.Errorf("%s: an infeasible resize takes %d m", fidelity, used()-free*2/3)
		}
		c.delete(a)
		c.run(c.now + time.Minute)
		if got := n.used.MilliCPU; got != n.pool.overhead.MilliCPU+b.held().MilliCPU+heldOf(c, w, b) {
			t.Errorf("%s: %d m taken in the end", fidelity, got)
		}
	}
}

// heldOf is what the pods of a workload but one hold.
func heldOf(c *Cluster, w *workload, but *pod) int64 {
	var out int64
	for _, p := range w.pods {
		if p != but && p.node != nil {
			out += p.held().MilliCPU
		}
	}
	return out
}

// A pod that finds no room ends pods of lower priority, no more than it takes, and
// gets their place, though others wait for longer.
func TestPreemption(t *testing.T) {
	c, n, free := oneNode(t, newFluid(1))
	pause := deploy(t, c, "pause", free/4, 4, -5)
	other := deploy(t, c, "other", free/4, 1, -5) // waits for room
	if len(n.pods) != 4 || other.pods[0].node != nil {
		t.Fatalf("%d pods on the node", len(n.pods))
	}
	web := deploy(t, c, "web", free/2, 1, 0)
	p := web.pods[0]
	if p.node != n || !p.ready || len(n.pods) != 3 {
		t.Errorf("web is on %v, Ready %v, beside %d", p.node, p.ready, len(n.pods)-1)
	}
	if len(c.nominated) != 0 {
		t.Errorf("%d pods still wait for victims", len(c.nominated))
	}
	var left, waiting int
	for _, q := range slices.Concat(pause.pods, other.pods) {
		if q.node == n {
			left++
		} else {
			waiting++
		}
	}
	if left != 2 || waiting != 3 {
		t.Errorf("%d of low priority stay and %d wait, want 2 and 3", left, waiting)
	}
	// Equals do not preempt each other, and what would not help is spared.
	deploy(t, c, "equal", free/2, 1, -5)
	deploy(t, c, "huge", free+1, 1, 100)
	if p.terminating || len(n.pods) != 3 {
		t.Error("pods were ended in vain")
	}
}

// Of several nodes the one loses pods whose victims matter least.
func TestPreemptionChoosesTheNode(t *testing.T) {
	of := func(priority int32, scheduled time.Duration) *pod {
		return &pod{workload: &workload{priority: priority}, scheduled: scheduled}
	}
	for name, test := range map[string]struct{ better, worse []*pod }{
		"by the highest priority": {[]*pod{of(1, 0), of(1, 0), of(1, 0)}, []*pod{of(2, 0)}},
		"by the sum":              {[]*pod{of(2, 0), of(0, 0)}, []*pod{of(2, 0), of(1, 0)}},
		"by the number":           {[]*pod{of(2, 0)}, []*pod{of(2, 0), of(math.MinInt32, 0)}},
		"the younger":             {[]*pod{of(2, time.Hour)}, []*pod{of(2, time.Minute)}},
		"nobody":                  {nil, []*pod{of(-10, 0)}},
	} {
		if !lesser(test.better, test.worse) || lesser(test.worse, test.better) {
			t.Errorf("%s: the wrong node loses its pods", name)
		}
	}
}

// Pods that wait for others to leave are no reason for a node, those that had to
// leave are, expendable ones never.
func TestAutoscalerSeesPriorities(t *testing.T) {
	for name, test := range map[string]struct {
		priority int32
		nodes    int
	}{"pause pods get a new node": {-10, 2}, "expendable ones don't": {-11, 1}} {
		t.Run(name, func(t *testing.T) {
			c, n, free := oneNode(t, newFluid(1))
			n.pool.autoscaled = true
			deploy(t, c, "pause", free/2, 2, test.priority)
			a := newScaler(c)
			c.every(c.now, a.Rules.ScanInterval, func() bool { a.scan(); return true })
			deploy(t, c, "web", free/2, 2, 0)
			c.run(c.now + 5*time.Minute)
			if len(c.nodes) != test.nodes {
				t.Errorf("%d nodes, want %d", len(c.nodes), test.nodes)
			}
		})
	}
}
