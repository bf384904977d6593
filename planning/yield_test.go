package planning

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Whatever a model says, and whatever demand does within its margins, no more minutes lack than
// the objective allows and the few by which it is found out.
func TestYieldKeepsTheObjective(t *testing.T) {
	const objective, factor, lead = 0.99, 2.0, 3 * time.Minute
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			jump, says := 0.3*r.Float64(), 0.25+r.Float64()
			now, demand, missed, n := marginNow, 100.0, 0, 5000
			var y Yield
			var before []float64
			for range n {
				before = append(before, demand)
				// What it comes to is within the margin of what it was, as a history says that it is.
				if demand = 100 + 50*r.Float64(); r.Float64() < jump {
					least := math.Inf(1)
					for _, v := range before[max(0, len(before)-5):] {
						least = min(least, v)
					}
					demand = factor * least * 0.999
				}
				if serves, ok := y.serves(now, lead, lead); ok && demand > serves {
					missed++
				}
				y = y.seen(now, demand, objective, lead, lead)
				part := Margins{Part: y.Part(says)}
				supply := part.counted(factor) * demand
				y = y.planned(PlannedSupply{At: now, Pods: supply, Nodes: supply}, lead)
				now = now.Add(time.Minute)
			}
			if most := (1-objective)*float64(n) + mostYield/yieldRate + 1; float64(missed) > most {
				t.Errorf("%d of %d minutes lacked, of a model that says %.2f where %.0f %% jump: %g may", missed, n, says, 100*jump, most)
			}
			if len(y.Planned) > 5 {
				t.Errorf("%d plans are remembered", len(y.Planned))
			}
		})
	}
}

// A model that is never short keeps its word, and gets it back in a time that the objective says.
func TestYieldIsOverAfterATime(t *testing.T) {
	y := Yield{}
	for range 4 {
		y = y.After(true, 0.99)
	}
	if y.Share < 0.98 || y.Part(0.25) < 0.97 || y.Part(1.5) != 1.5 {
		t.Fatalf("after four minutes beyond the plan: %+v, %g", y, y.Part(0.25))
	}
	minutes := 0
	for ; y.Share > 0; minutes++ {
		y = y.After(false, 0.99)
	}
	if minutes < 350 || minutes > 450 || y.Part(0.25) != 0.25 {
		t.Errorf("over after %d minutes: part %g", minutes, y.Part(0.25))
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if got := (Yield{Share: 0.5}).Part(bad); got != bad && !math.IsNaN(bad) {
			t.Errorf("part %g became %g", bad, got)
		}
	}
}

// What serves is the least that was planned since what begins to serve now was.
func TestWhatServes(t *testing.T) {
	at := func(minutes float64) time.Time { return marginNow.Add(time.Duration(minutes * float64(time.Minute))) }
	y := Yield{}
	for _, p := range []PlannedSupply{{at(0), 100, 150}, {at(2), 300, 300}, {at(3), 200, 250}, {at(3.1), 190, 400}, {at(6), 500, 500}} {
		y = y.planned(p, 6*time.Minute)
	}
	for _, c := range []struct {
		at, pods, nodes float64 // minutes
		want            float64 // 0: not known
	}{
		{6, 1, 1, 190}, {6, 4, 4, 190}, {6, 5, 5, 100}, {6, 1, 6, 150}, {8, 2, 2, 500}, {3, 2, 1, 100}, {6, 7, 1, 0}, {6, 1, 7, 0}, {-1, 1, 1, 0},
	} {
		got, ok := y.serves(at(c.at), time.Duration(c.pods*float64(time.Minute)), time.Duration(c.nodes*float64(time.Minute)))
		if ok != (c.want > 0) || ok && got != c.want {
			t.Errorf("after %g minutes, %g and %g until they serve: %g, %v; want %g", c.at, c.pods, c.nodes, got, ok, c.want)
		}
	}
	// Demand that is not known is no miss, nor is what nobody planned for yet.
	for _, demand := range []float64{-1, math.NaN(), 90} {
		if y.seen(at(6), demand, 0.99, 5*time.Minute, time.Minute).Missed {
			t.Errorf("%g is beyond 100", demand)
		}
	}
	if !y.seen(at(6), 101, 0.99, 5*time.Minute, time.Minute).seen(at(6.1), 1, 0.99, 5*time.Minute, time.Minute).Missed && !y.Since.IsZero() {
		t.Error("101 is within 100")
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

// Cycles remember what was planned with a model, and learn from it: not at the workload's bound,
// nor where nothing was taken.
func TestCyclesYield(t *testing.T) {
	key := api.Key{Namespace: "shop", Name: "web"}
	shape := &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 200, Pods: 1}}
	for name, c := range map[string]struct {
		demand, part float64
		model        string
		most         int32
		yields       bool
	}{
		"beyond what was planned": {900, 0.3, "margins", 99, true},
		"within it":               {600, 0.3, "margins", 99, false},
		"at its bound":            {900, 0.3, "margins", 4, false},
		"without a part":          {900, 0, "margins", 99, false},
		"without a model":         {900, 0, "", 99, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := Hierarchy{Config: DefaultConfig(), Planners: map[string]WorkloadPlanner{DefaultPlanner: taker{c.part, c.demand}}}
			memory := Memory{Workloads: []WorkloadMemory{{Key: key, Replicas: 4, Margins: Margins{Yield: Yield{Share: 0.1}}}}}
			s := api.Snapshot{Metrics: api.SourceHealth{Reachable: true}, Workloads: []api.Workload{{
				Key: key, Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: c.most, Replicas: 4, ReadyReplicas: 4, Shape: shape, SpeedNow: 1,
				Demand: bursts(), Model: c.model,
			}}}
			for i := range 80 {
				s.Time = marginNow.Add(time.Duration(i) * 15 * time.Second)
				_, memory = h.Plan(s, api.Policy{Name: "P", Objective: 0.99}, memory)
			}
			y := memory.Workloads[0].Margins.Yield
			switch {
			case c.model == "" && (y.Share != 0 || len(y.Planned) > 0):
				t.Errorf("without a model: %+v", y)
			case c.yields && y.Share < 1, !c.yields && y.Share > 0.1:
				t.Errorf("yields %+v", y)
			case c.part == 0 && len(y.Planned) > 0:
				t.Errorf("nothing was taken: %+v", y)
			}
		})
	}
}
