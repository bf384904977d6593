package planning_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

func TestTheWeightsChooseThePool(t *testing.T) {
	for name, c := range map[string]struct {
		weights  api.Weights
		wantPool string
	}{
		// One e2-medium has room for 2 replicas of half speed and costs a third
		// of an n2-standard-2, which has room for 6 of full speed: per unit of
		// work n2 is cheaper, but the least that can be bought of it is dearer.
		"when only cost counts and little is needed": {api.Weights{Cost: 1}, cheap},
		"when only performance counts":               {api.Weights{Performance: 1}, fast},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, either(c.weights), nil)
			w.add("shop", 1, 4, time.Minute, constant(60))
			p := w.cycle()
			if p.Nodes.Pool != c.wantPool {
				t.Errorf("pods are planned on %s, want %s: %+v", p.Nodes.Pool, c.wantPool, p.Candidates)
			}
			for _, other := range []string{cheap, fast} {
				k, ok := lost(p, other)
				if other != c.wantPool && (!ok || k.Infeasible != "" || k.Utility.Total > p.Utility.Total) {
					t.Errorf("pool %s lost by %+v (found: %v) against %+v", other, k, ok, p.Utility)
				}
			}
		})
	}
}

func TestWorkloadsStayOnTheirPoolUnlessAnotherIsBetterByTheMargin(t *testing.T) {
	w := newWorld(t, either(api.Weights{Cost: 1}), nil)
	w.planner.Config.SwitchMargin = 10
	w.add("shop", 1, 4, time.Minute, constant(60))
	w.home(fast)
	p := w.cycle()
	if p.Nodes.Pool != fast {
		t.Fatalf("pods move to %s", p.Nodes.Pool)
	}
	if k, ok := lost(p, cheap); !ok || k.Utility.Total <= p.Utility.Total || !strings.Contains(k.Note, "margin") {
		t.Errorf("the better pool is not among those that lost: %+v", p.Candidates)
	}
	w.planner.Config.SwitchMargin = 0
	begun, lost := w.now, 0.0
	for p := w.cycle(); p.Nodes.Pool == fast; p = w.cycle() {
		lost = w.memory.Better.Regret
		if w.now.Sub(begun) > time.Hour {
			t.Fatal("without a margin pods stay for ever")
		}
	}
	if took := w.now.Sub(begun); took < 2*time.Minute || lost <= 0 {
		t.Errorf("pods moved after %v, staying had cost %v", took, lost)
	}
	// A new policy chooses afresh.
	w.planner.Config.SwitchMargin = 10
	w.policy.Weights = api.Weights{Performance: 1}
	if p := w.cycle(); p.Nodes.Pool != fast {
		t.Errorf("after a change of weights pods stay on %s", p.Nodes.Pool)
	}
}

// Pools are compared by what they need once pods are there: otherwise the pool of
// slow machines looks half as dear from a fast one as it is.
func TestPodsMoveToTheCheaperPoolOnceAndStay(t *testing.T) {
	w := newWorld(t, either(api.Weights{Cost: 1}), nil)
	w.add("shop", 7, 40, time.Minute, constant(600)) // 7 on 4 cheap nodes, or 4 on one fast node
	w.loads[0].SpeedNow = 0.5
	w.home(cheap)
	at, moves := cheap, 0
	for range 4 * 240 {
		if p := w.cycle(); p.Nodes.Pool != at {
			at = p.Nodes.Pool
			moves++
		}
	}
	if at != fast || moves != 1 {
		t.Errorf("after %d moves pods are on %s; want one to %s", moves, at, fast)
	}
}

// What ran on slow machines while it moved is no reason to keep as many replicas
// on fast ones.
func TestReplicasOfSlowMachinesAreNotKeptOnFastOnes(t *testing.T) {
	w := newWorld(t, performance(), nil)
	w.policy.Weights = api.Weights{Cost: 1}                // buys nothing on top
	l := w.add("shop", 12, 40, time.Minute, constant(900)) // 6 on the fast ones
	l.SpeedNow = 0.5                                       // still on the slow ones
	s := w.snapshot()
	s.Workloads[0].SpeedNow, s.Workloads[0].Replicas = 0.5, 12
	p, memory := w.planner.Plan(s, w.policy, planning.Memory{})
	if got := p.Workloads[0].Replicas; got < 12 {
		t.Fatalf("on the slow machines %d replicas: %s", got, p.Workloads[0].Reason)
	}
	s.Time = s.Time.Add(time.Minute)
	s.Workloads[0].SpeedNow = 1
	p, _ = w.planner.Plan(s, w.policy, memory)
	if got := p.Workloads[0].Replicas; got > 7 {
		t.Errorf("on the fast ones %d replicas: %s", got, p.Workloads[0].Reason)
	}
}

func TestWithoutMemoryPodsAreAtHomeWhereTheyRun(t *testing.T) {
	w := newWorld(t, either(api.Weights{Cost: 1}), nil)
	w.planner.Config.SwitchMargin = 10
	w.add("shop", 2, 4, time.Minute, constant(60))
	w.resize(api.PoolPlan{Pool: fast, SizePerZone: 1})
	w.lastPlan.Nodes.Pool = fast
	w.settle()
	if p := w.cycle(); p.Nodes.Pool != fast {
		t.Errorf("pods move to %s", p.Nodes.Pool)
	}
}

// Where it fits neither here nor there, a workload is no reason for others to move at once.
func TestAMoveWaitsBesidePodsThatFitNowhere(t *testing.T) {
	w := newWorld(t, either(api.Weights{Performance: 0.5, Cost: 0.5}), nil)
	w.pools[0].Price, w.pools[0].CPUSpeed = 0.03, 1
	w.add("shop", 6, 60, time.Hour, constant(1500))
	w.load("other", 1, 2, time.Hour, constant(100)).Shape = shape("other", 10000, 128)
	w.settle()
	w.home(fast)
	begun := w.now
	for p := w.cycle(); p.Nodes.Pool == fast; p = w.cycle() {
		if w.now.Sub(begun) > time.Hour {
			t.Fatal("pods stay for ever on the dearer pool")
		}
	}
	if took := w.now.Sub(begun); took < 2*time.Minute {
		t.Errorf("pods moved after %v", took)
	}
}
