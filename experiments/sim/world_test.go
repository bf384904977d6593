package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/placement"
)

// Pods are spread over zones, then over nodes, also where one node has more room.
func TestSpread(t *testing.T) {
	c := testCluster(1)
	if err := c.addPool(scenarios.Pool{
		Name: "p", MachineType: "n2-standard-2", Zones: []string{"a", "b", "c"}, Nodes: 2, NodesPerZone: scenarios.Bounds{Max: 3},
	}, false); err != nil {
		t.Fatal(err)
	}
	deploy(t, c, "other", 300, 1, 0) // one node has less room
	w := deploy(t, c, "web", 200, 12, 0)
	zones, nodes := map[string]int{}, map[string]int{}
	for _, p := range w.pods {
		if p.node == nil {
			t.Fatalf("%s has no node", p.name)
		}
		zones[p.node.zone]++
		nodes[p.node.name]++
	}
	for zone, n := range zones {
		if n != 4 {
			t.Errorf("%d pods in zone %s, want 4 of 12: %v", n, zone, zones)
		}
	}
	for node, n := range nodes {
		if n > 3 {
			t.Errorf("%d pods on %s: %v", n, node, nodes)
		}
	}
	if len(nodes) != 6 {
		t.Errorf("pods on %d nodes", len(nodes))
	}
}

// What spreading is measured against doesn't depend on the order in which pods are
// counted.
func TestCopiesHaveNoOrder(t *testing.T) {
	c := testCluster(1)
	if err := c.addPool(scenarios.Pool{
		Name: "p", MachineType: "n2-standard-2", Zones: []string{"a"}, Nodes: 2, NodesPerZone: scenarios.Bounds{Max: 2},
	}, false); err != nil {
		t.Fatal(err)
	}
	w := deploy(t, c, "web", 100, 5, 0)
	for range 100 {
		// Three on one node and two on the other, five in the zone.
		if count := newPass(c).copiesOf(w); !slices.Equal(count.zones, []int{5}) || count.highest() != 3+5 {
			t.Fatalf("%d pods by zone, at most %d; want 5 in one, and 8", count.zones, count.highest())
		}
	}
}

// The simulated scheduler lets a pod onto a node when placement says that it fits
// there, whatever the node holds.
func TestFitsAsPlacementDoes(t *testing.T) {
	fitted, asked := 0, 0
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := testCluster(seed)
		for _, name := range []string{"p", "q"} {
			if err := c.addPool(scenarios.Pool{
				Name: name, MachineType: "n2-standard-2", Zones: []string{"a", "b"}, Nodes: 2, NodesPerZone: scenarios.Bounds{Max: 2},
			}, false); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			w := deploy(t, c, fmt.Sprint("w", i), 100+r.Int64N(900), 0, 0)
			if r.IntN(2) == 0 {
				w.shape.NodeSelector = map[string]string{api.LabelNodePool: "q"}
			}
			c.scale(w, r.Int32N(6))
			c.run(c.now + time.Minute)
		}
		for _, p := range c.pods {
			for _, n := range c.sorted {
				node := &api.Node{Name: n.name, Pool: n.pool.name, Zone: n.zone, Labels: n.labels, Allocatable: n.pool.allocatable}
				here := []*api.Pod{{Shape: &api.PodShape{Requests: n.pool.overhead}, DaemonSet: true}}
				for _, q := range n.pods {
					here = append(here, &api.Pod{Shape: q.shape})
				}
				space := placement.SpaceOf(node, here, api.Resources{})
				want := space.Place(placement.Pods{Shape: p.shape}, 1) == 1
				if got := c.fits(p, n); got != want {
					t.Errorf("cluster %d: the scheduler says %v of %s on %s, placement %v", seed, got, p.name, n.name, want)
				}
				asked++
				if want {
					fitted++
				}
			}
		}
	}
	if fitted < asked/20 || fitted > asked*19/20 {
		t.Errorf("%d of %d fit: the question is too easy", fitted, asked)
	}
}

// A pod starts, becomes Ready and ends after delays within their ranges, and only
// a Ready one is asked.
func TestLifeOfAPod(t *testing.T) {
	c, _, free := oneNode(t, newFluid(1))
	p := c.params
	begin := c.now
	w := deploy(t, c, "web", free/4, 2, 0)
	for _, pod := range w.pods {
		bound, started, ready := pod.scheduled-pod.created, pod.started-pod.scheduled, pod.readyAt-pod.started
		if pod.created-begin < p.Controller.Min || pod.created-begin > p.Controller.Max || bound < p.Binding.Min || bound > p.Binding.Max+p.Controller.Max {
			t.Errorf("created after %v, bound after %v", pod.created-begin, bound)
		}
		if started < p.Startup.Min || started > p.Startup.Max || ready < p.Readiness.Min || ready > p.Readiness.Max {
			t.Errorf("started after %v, Ready after %v", started, ready)
		}
	}
	c.scale(w, 1)
	down := c.now
	var ended time.Duration
	c.ended = func(*pod) { ended = c.now - down }
	c.run(c.now + time.Minute)
	if ended < p.Termination.Min || ended > p.Termination.Max+p.Controller.Max || len(w.pods) != 1 {
		t.Errorf("ended after %v, %d left", ended, len(w.pods))
	}
}

// A machine is paid from its request until it has stopped.
func TestMachinesArePaid(t *testing.T) {
	c, n, _ := oneNode(t, newFluid(1))
	if err := c.resize(n.pool, 2); err != nil {
		t.Fatal(err)
	}
	asked := c.now
	c.run(c.now + 5*time.Minute)
	second := c.ledger[1]
	if second.Requested != asked || second.Deleted >= 0 || !c.nodes[second.Node].ready {
		t.Fatalf("%+v", second)
	}
	c.discard(c.nodes[second.Node])
	off := c.now
	c.run(c.now + time.Minute)
	if second.Deleted != off+c.params.Stop || len(c.nodes) != 1 {
		t.Errorf("deleted at %v, want %v after %v", second.Deleted, c.params.Stop, off)
	}
	// One that has not booted yet costs no more from then on.
	if err := c.resize(n.pool, 2); err != nil {
		t.Fatal(err)
	}
	c.run(c.now + 10*time.Second)
	third := c.ledger[2]
	c.discard(c.nodes[third.Node])
	if third.Deleted != c.now {
		t.Errorf("deleted at %v, want %v", third.Deleted, c.now)
	}
}

// Open load from a CSV, whose requests come whatever becomes of those before, in
// both fidelities: alike while there is capacity, and when there isn't.
func TestOpenLoadAgrees(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var csv strings.Builder
	csv.WriteString("at,requests\n")
	for i := range 21 {
		fmt.Fprintf(&csv, "%d,%.1f\n", 60*i, 200+150*math.Sin(float64(i)/3)) // per second, by the minute
	}
	write("load.csv", csv.String())
	for name, test := range map[string]struct {
		replicas                   int32
		requests, cpu, failed, p50 float64 // tolerances; of failed absolute
		fails                      bool
	}{
		"enough":  {15, 0.01, 0.02, 0.001, 0.15, false},
		"too few": {3, 0.02, 0.02, 0.01, 0.15, true},
	} {
		s, err := scenarios.Load(write("open.yaml", fmt.Sprintf("name: open\nbase: heartbeat\narrivals: {csv: load.csv, time: at, column: requests, length: 20m}\nworkload: {replicas: {min: %d, max: %d}}\n"+
			"pools: [{name: p, machineType: e2-medium, zones: [a], nodes: 6, nodesPerZone: {min: 0, max: 8}}]\n", test.replicas, test.replicas)))
		if err != nil {
			t.Fatal(err)
		}
		var requests, cpu, failed, p50 [2]float64
		for i, fidelity := range []Fidelity{Fluid, PerRequest} {
			m := simulate(t, Options{Scenario: s, Scaler: "hpa", Seed: 1, Fidelity: fidelity, Passes: 1}).Workloads[0].Measured
			requests[i], cpu[i], failed[i], p50[i] = float64(m.Requests), m.ReferenceCPUSeconds, float64(m.Failed)/float64(m.Requests), *m.P50Ms
		}
		t.Logf("%s: fluid and per request: %.0f requests, CPU %.0f s, failed %.3f, p50 %.1f ms", name, requests, cpu, failed, p50)
		if math.Abs(requests[0]/requests[1]-1) > test.requests || math.Abs(cpu[0]/cpu[1]-1) > test.cpu ||
			math.Abs(failed[0]-failed[1]) > test.failed || math.Abs(p50[0]/p50[1]-1) > test.p50 || test.fails != (failed[1] > 0.1) {
			t.Errorf("%s: the two are too far apart", name)
		}
	}
}
