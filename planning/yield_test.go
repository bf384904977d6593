package planning

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Whatever a model says, and whatever demand does within its margins, no more minutes lack than
// the objective allows and the few by which it is found out.
func TestYieldKeepsTheObjective(t *testing.T) {
	const objective, factor, lead = 0.99, 2.0, 3 // minutes
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			jump, says := 0.3*r.Float64(), 0.25+r.Float64()
			now, demand, missed, n := marginNow, 100.0, 0, 5000
			var y Yield
			var before, supply []float64 // what demand was, and what was planned then
			for range n {
				// What it comes to is within the margin of what it was, as a history says that it is.
				before = append(before, demand)
				if demand = 100 + 50*r.Float64(); r.Float64() < jump {
					demand = factor * slices.Min(before[max(0, len(before)-lead-2):]) * 0.999
				}
				lacks := len(supply) > lead && demand > slices.Min(supply[len(supply)-lead:])
				if lacks {
					missed++
				}
				y = y.seen(now, lacks, objective)
				supply = append(supply, Margins{Part: y.Part(says)}.counted(factor)*demand)
				now = now.Add(time.Minute)
			}
			if most := (1-objective)*float64(n) + mostYield/yieldRate; float64(missed) > most {
				t.Errorf("%d of %d minutes lacked, of a model that says %.2f where %.0f %% jump: %g may", missed, n, says, 100*jump, most)
			}
		})
	}
}

// After one minute in which too little served nothing is left of a model's say, and it is back in a
// time that the objective says; no more than the whole margin is ever taken.
func TestYieldIsOverAfterATime(t *testing.T) {
	y := Yield{}.After(true, 0.99)
	if y.Share < 0.98 || y.Part(0.25) < 0.97 || y.Part(1.5) != 1 {
		t.Fatalf("after a minute in which too little served: %+v, %g", y, y.Part(0.25))
	}
	minutes := 0
	for ; y.Share > 0; minutes++ {
		y = y.After(false, 0.99)
	}
	if minutes < 90 || minutes > 110 || y.Part(0.25) != 0.25 {
		t.Errorf("over after %d minutes: part %g", minutes, y.Part(0.25))
	}
	for part, want := range map[float64]float64{0: 0, -1: -1, 0.25: 0.5, 1: 1, 1.5: 1, math.Inf(1): 1} {
		if got := (Yield{Share: 0.5}).Part(part); got != want {
			t.Errorf("part %g became %g, want %g", part, got, want)
		}
	}
	if got := (Yield{}).Part(math.NaN()); !math.IsNaN(got) {
		t.Errorf("no number became %g", got)
	}
}

// taker is a planner that takes a part of margins, for as many replicas as it is told.
type taker struct{ part, demand float64 }

func (p taker) PlanWorkload(in Input) (Proposal, error) {
	part := in.Margins.Yield.Part(p.part)
	return Proposal{
		Key: in.Workload.Key, Scale: api.Scale{Replicas: in.Workload.Replicas}, NodeReplicas: in.Workload.Replicas, Floor: 1, FloorSource: "prometheus",
		Demand: p.demand, PeakDemand: p.demand, Request: 200, Need: 1, Binding: api.BindingFloor, Reason: "test", Part: part,
	}, nil
}

// Cycles learn from a model that too little served: not at the workload's bound, nor where nothing was
// taken or others decide what serves.
func TestCyclesYield(t *testing.T) {
	key := api.Key{Namespace: "shop", Name: "web"}
	shape := &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 200, Pods: 1}}
	type world struct {
		demand, part float64
		model        string
		most, ready  int32
		mode         api.Mode
	}
	usual := world{demand: 600, part: 0.3, model: "margins", most: 99, ready: 4, mode: api.ModeFull}
	for name, c := range map[string]struct {
		change func(*world)
		yields bool
	}{
		"beyond what serves":            {func(w *world) { w.demand = 700 }, true},
		"within it":                     {func(*world) {}, false},
		"replicas that are not Ready":   {func(w *world) { w.ready = 3 }, true},
		"demand that is not known":      {func(w *world) { w.demand = -1 }, false},
		"at its bound":                  {func(w *world) { w.demand, w.most = 700, 4 }, false},
		"without a part":                {func(w *world) { w.demand, w.part = 700, 0 }, false},
		"without a model":               {func(w *world) { w.demand, w.part, w.model = 700, 0, "" }, false},
		"in Shadow, beyond what serves": {func(w *world) { w.demand, w.mode = 700, api.ModeShadow }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := usual
			c.change(&w)
			h := Hierarchy{Config: DefaultConfig(), Planners: map[string]WorkloadPlanner{DefaultPlanner: taker{w.part, w.demand}}}
			memory := Memory{Workloads: []WorkloadMemory{{Key: key, Replicas: 4, Margins: Margins{Yield: Yield{Share: 0.1}}}}}
			s := api.Snapshot{Metrics: api.SourceHealth{Reachable: true}, Workloads: []api.Workload{{
				Key: key, Mode: w.mode, MinReplicas: 1, MaxReplicas: w.most, Replicas: 4, ReadyReplicas: w.ready, Shape: shape, SpeedNow: 1,
				Demand: bursts(), Model: w.model,
			}}}
			for i := range 20 {
				s.Time = marginNow.Add(time.Duration(i) * 15 * time.Second)
				_, memory = h.Plan(s, api.Policy{Name: "P", Objective: 0.99}, memory)
			}
			share := memory.Workloads[0].Margins.Yield.Share
			if c.yields != (share > 1) || !c.yields && share > 0.1 || (w.model == "") != (share == 0) {
				t.Errorf("yields %g of the way", share)
			}
		})
	}
}
