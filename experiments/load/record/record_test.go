package record

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

const s = time.Second

func TestALifeIsSummedUp(t *testing.T) {
	r := New("web")
	r.Node(0, Node{Name: "n", Pool: "p", Ready: false, MilliCPU: 1000, Memory: 4 * gib})
	r.Replicas(0, "web", 1)
	r.Pod(10*s, Pod{ID: "a", Workload: "web", Pending: true, MilliCPU: 500, Memory: gib})
	r.Node(15*s, Node{Name: "n", Pool: "p", Ready: true, MilliCPU: 1000, Memory: 4 * gib})
	r.Pod(20*s, Pod{ID: "a", Workload: "web", Node: "n", Pending: true, MilliCPU: 500, Memory: gib})
	r.Pod(22*s, Pod{ID: "a", Workload: "web", Node: "n", MilliCPU: 500, Memory: gib})
	r.Pod(25*s, Pod{ID: "a", Workload: "web", Node: "n", Ready: true, MilliCPU: 500, Memory: gib})
	r.Replicas(50*s, "web", 0)
	r.Pod(51*s, Pod{ID: "a", Workload: "web", Node: "n", MilliCPU: 500, Memory: gib})
	r.PodGone(56*s, "a")
	r.NodeGone(90*s, "n")
	got := r.Take(100 * s)
	want := Interval{
		To: 100 * s,
		Workloads: map[string]WorkloadInterval{"web": {
			ReplicaSeconds: 50, ReadySeconds: 26, PendingSeconds: 12, UnscheduledSeconds: 10,
			PodSeconds: 36, RequestSeconds: 18, ReadyCPUSeconds: 13, MemoryGiBSeconds: 36,
			MaxReplicas: 1, ScaleActions: 1, PodStarts: 1,
		}},
		Pools: map[string]PoolInterval{"p": {
			NodeSeconds: 90, ReadyNodeSeconds: 75, AllocatableCPUSeconds: 90, RequestedCPUSeconds: 18,
			AllocatableMemGiBSecond: 360, RequestedMemGiBSecond: 36, MaxNodes: 1,
		}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("interval (-want +got):\n%s", diff)
	}
	if e := got.Pools["p"].PackingEfficiency(); e != 0.2 {
		t.Errorf("packing efficiency = %v, want 0.2", e)
	}
	wantSteps := []WorkloadStep{
		{At: 0, Replicas: 1},
		{At: 10 * s, Replicas: 1, Pending: 1, Unscheduled: 1},
		{At: 20 * s, Replicas: 1, Pending: 1, Pods: 1},
		{At: 22 * s, Replicas: 1, Pods: 1},
		{At: 25 * s, Replicas: 1, Ready: 1, Pods: 1},
		{At: 50 * s, Ready: 1, Pods: 1},
		{At: 51 * s, Pods: 1},
		{At: 56 * s},
	}
	if diff := cmp.Diff(wantSteps, r.Workload("web")); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	wantPools := map[string][]PoolStep{"p": {{At: 0, Nodes: 1}, {At: 15 * s, Nodes: 1, Ready: 1}, {At: 90 * s}}}
	if diff := cmp.Diff(wantPools, r.Pools()); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

func TestTheLeastReadyIsNotMissed(t *testing.T) {
	r := New("web")
	pod := func(id string, ready bool) Pod { return Pod{ID: id, Workload: "web", Node: "n", Ready: ready} }
	r.Pod(0, pod("a", true))
	r.Pod(0, pod("b", true))
	r.Take(5 * s)
	// Down and up again at one moment.
	r.Pod(10*s, pod("a", false))
	r.Pod(10*s, pod("b", false))
	r.Pod(10*s, pod("b", true))
	if got := r.Take(20 * s).Workloads["web"].MinReady; got != 0 {
		t.Errorf("least Ready = %d, want 0", got)
	}
	if got := r.Take(30 * s).Workloads["web"].MinReady; got != 1 {
		t.Errorf("least Ready of the next interval = %d, want 1", got)
	}
	for name, test := range map[string]struct {
		from, to time.Duration
		want     int32
	}{
		"before the dip":    {5 * s, 9 * s, 2},
		"with the dip":      {5 * s, 10 * s, 0},
		"after the dip":     {11 * s, 20 * s, 1},
		"from the dip on":   {10 * s, 20 * s, 1},
		"before everything": {-2 * s, -1 * s, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := MinReady(r.Workload("web"), test.from, test.to); got != test.want {
				t.Errorf("MinReady = %d, want %d", got, test.want)
			}
		})
	}
}

// However a life is cut into intervals, they add up to the whole; and nothing
// is left when everything is gone.
func TestIntervalsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, cut := New("web"), New("web")
		var sum WorkloadInterval
		var pools PoolInterval
		at := time.Duration(0)
		for range rapid.IntRange(0, 40).Draw(t, "reports") {
			at += time.Duration(rapid.IntRange(0, 5).Draw(t, "wait")) * s
			id := fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "id"))
			op := rapid.IntRange(0, 5).Draw(t, "op")
			flag := rapid.Bool().Draw(t, "flag")
			n := int64(rapid.IntRange(1, 4).Draw(t, "n"))
			for _, r := range []*Recorder{whole, cut} {
				switch op {
				case 0:
					r.Pod(at, Pod{ID: id, Workload: "web", Pending: true, MilliCPU: n, Memory: n})
				case 1:
					r.Pod(at, Pod{ID: id, Workload: "web", Node: id, Ready: flag, MilliCPU: n, Memory: n})
				case 2:
					r.PodGone(at, id)
				case 3:
					r.Node(at, Node{Name: id, Pool: "p", Ready: flag, MilliCPU: n, Memory: n})
				case 4:
					r.NodeGone(at, id)
				case 5:
					r.Replicas(at, "web", int32(n))
				}
			}
			if flag {
				i := cut.Take(at)
				sum = sum.Plus(i.Workloads["web"])
				pools = pools.Plus(i.Pools["p"])
			}
		}
		i, last := whole.Take(at+s), cut.Take(at+s)
		sum, pools = sum.Plus(last.Workloads["web"]), pools.Plus(last.Pools["p"])
		if diff := cmp.Diff(i.Workloads["web"], sum, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
			t.Fatalf("workload, whole and parts:\n%s", diff)
		}
		if diff := cmp.Diff(i.Pools["p"], pools, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
			t.Fatalf("pool, whole and parts:\n%s", diff)
		}
		for id := range 4 {
			whole.PodGone(at+s, fmt.Sprint(id))
			whole.NodeGone(at+s, fmt.Sprint(id))
		}
		w := whole.workloads["web"]
		state := w.state
		state.At, state.Replicas = 0, 0
		if state != (WorkloadStep{}) || w.cpu != 0 || w.memory != 0 || w.readyCPU != 0 {
			t.Fatalf("left over: %+v", w)
		}
		if p := whole.pools["p"]; p != nil && (p.state.Nodes != 0 || p.cpu != 0 || p.usedCPU != 0 || p.usedMemory != 0) {
			t.Fatalf("left over: %+v", p)
		}
	})
}
