package sim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// set is a cluster of a StatefulSet of three Ready pods under a budget that lets
// one be away.
func set(t *testing.T) (*Cluster, *workload) {
	t.Helper()
	c := newCluster(DefaultParams(), 1, newFluid(1))
	c.record = record.New("mash2/db")
	if err := c.addPool(scenarios.Pool{Name: "p", MachineType: "n2-standard-2", Zones: []string{"a"}, Nodes: 1, NodesPerZone: scenarios.Bounds{Max: 3}}, false); err != nil {
		t.Fatal(err)
	}
	w := deploy(t, c, "db", 100, 0, 0)
	w.stateful = true
	c.addBudget("db", 1, w)
	c.scale(w, 3)
	c.run(c.now + 2*time.Minute)
	if got := readyNames(w); !slices.Equal(got, []string{"db-0", "db-1", "db-2"}) {
		t.Fatalf("Ready are %v", got)
	}
	return c, w
}

func readyNames(w *workload) []string {
	var out []string
	for _, p := range w.pods {
		if p.ready && !p.terminating {
			out = append(out, p.name)
		}
	}
	slices.Sort(out)
	return out
}

func named(t *testing.T, w *workload, name string) *pod {
	t.Helper()
	i := slices.IndexFunc(w.pods, func(p *pod) bool { return p.name == name })
	if i < 0 {
		t.Fatalf("there is no pod %s", name)
	}
	return w.pods[i]
}

// Pods of a StatefulSet are made one after the other, each when those before it are
// Ready, come back under their name when the old one is gone, and go from the highest
// ordinal on.
func TestStatefulSet(t *testing.T) {
	c, w := set(t)
	for i := 1; i < len(w.pods); i++ {
		if before, p := w.pods[i-1], w.pods[i]; p.created < before.readyAt {
			t.Errorf("%s was made at %v, %s Ready at %v", p.name, p.created, before.name, before.readyAt)
		}
	}
	old := named(t, w, "db-1")
	c.delete(old)
	gone := time.Duration(-1)
	c.ended = func(p *pod) { gone = c.now }
	c.run(c.now + time.Minute)
	if p := named(t, w, "db-1"); p == old || p.created < gone || gone < 0 || len(w.pods) != 3 {
		t.Errorf("the new db-1 is of %v, the old one ended at %v", p.created, gone)
	}
	// One that gets not Ready keeps those after it from being made.
	c.stuck = func(*node) bool { return true }
	c.delete(named(t, w, "db-0"))
	c.delete(named(t, w, "db-2"))
	c.run(c.now + 5*time.Minute)
	if got := readyNames(w); !slices.Equal(got, []string{"db-1"}) || len(w.pods) != 2 {
		t.Errorf("Ready are %v of %d pods", got, len(w.pods))
	}
	c.stuck = nil
	c.delete(named(t, w, "db-0"))
	c.run(c.now + time.Minute)
	c.scale(w, 1)
	c.run(c.now + 20*time.Second)
	if got := readyNames(w); !slices.Equal(got, []string{"db-0"}) {
		t.Errorf("Ready are %v after scaling down to 1", got)
	}
}

// The Eviction API refuses what the budget does not allow, also before the disruption
// controller has seen the last eviction; pods that serve nobody may go while as many
// others as desired are healthy, and those that don't run always.
func TestEvictionsAreRefused(t *testing.T) {
	c, w := set(t)
	if err := c.evict(named(t, w, "db-2")); err != nil {
		t.Fatal(err)
	}
	if err := c.evict(named(t, w, "db-1")); !errors.Is(err, errBudget) {
		t.Errorf("a second one at once: %v", err)
	}
	c.stuck = func(*node) bool { return true }
	c.run(c.now + time.Minute)
	if b := c.budgets[0]; b.healthy != 2 || b.desired != 2 || b.allowed != 0 {
		t.Errorf("the budget says %+v", b)
	}
	if err := c.evict(named(t, w, "db-1")); !errors.Is(err, errBudget) {
		t.Errorf("while one is away: %v", err)
	}
	if p := named(t, w, "db-2"); p.ready || p.phase != running {
		t.Fatalf("db-2 is %+v", p)
	} else {
		c.budgets[0].healthy = 1
		if err := c.evict(p); !errors.Is(err, errBudget) {
			t.Errorf("one that is not Ready, with too few healthy: %v", err)
		}
		c.budgets[0].healthy = 2
		if err := c.evict(p); err != nil {
			t.Errorf("one that is not Ready: %v", err)
		}
	}
	c.stuck = nil
	c.run(c.now + time.Minute)
	if err := c.evict(named(t, w, "db-1")); err != nil {
		t.Errorf("with all Ready again: %v", err)
	}
	c.addBudget("second", 1, w)
	if err := c.evict(named(t, w, "db-0")); err == nil {
		t.Error("with two budgets it was evicted")
	}
}
