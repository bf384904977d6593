package horizontal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/plannertest"
)

// Spare is a planner of your own: it keeps one replica more than another planner wants.
// It is written by wrapping: what it does not care about stays as it is.
type Spare struct{ planning.WorkloadPlanner }

// PlanWorkload implements planning.WorkloadPlanner.
func (s Spare) PlanWorkload(in planning.Input) (planning.Proposal, error) {
	p, err := s.WorkloadPlanner.PlanWorkload(in)
	if err != nil || p.Held {
		return p, err
	}
	p.Replicas++
	p.NodeReplicas++
	p.Reason += "; one to spare"
	return p, nil
}

// Every planner passes the conformance suite: never below the reactive floor, monotone,
// deterministic, never down without fresh demand.
func TestSpare(t *testing.T) { plannertest.Test(t, Spare{horizontal.Planner{}}) }

func ExamplePlanner() {
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	step := 15 * time.Second
	in := planning.Input{
		Time: now,
		Workload: api.Workload{
			Key: api.Key{Namespace: "shop", Name: "web"}, Replicas: 2, ReadyReplicas: 2, MinReplicas: 1, MaxReplicas: 10,
			Shape:  &api.PodShape{Requests: api.Resources{MilliCPU: 500}},
			Demand: api.Series{Start: now.Add(-step), Step: step, Values: []float64{1500, 1500}}, // millicores
		},
		Policy:  api.Policy{Name: api.CostSaving, Quantile: 0.9, TargetUtilization: 0.75},
		Speed:   1,
		Metrics: api.SourceHealth{Reachable: true, LastOK: now},
	}
	for _, planner := range []planning.WorkloadPlanner{horizontal.Planner{}, Spare{horizontal.Planner{}}} {
		p, err := planner.PlanWorkload(in)
		fmt.Println(p.Replicas, p.Binding, err)
	}
	// Output:
	// 4 floor <nil>
	// 5 floor <nil>
}
