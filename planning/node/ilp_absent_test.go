//go:build !lpsolve

package node

import (
	"errors"
	"slices"
	"testing"

	"github.com/mash2-io/mash2/api"
)

func TestSolversWithoutLPSolve(t *testing.T) {
	if !slices.Equal(Solvers(), []string{"auto", "ffd"}) {
		t.Errorf("solvers are %q", Solvers())
	}
	if _, err := New(Config{Solver: "ilp"}); !errors.Is(err, ErrNoSolver) {
		t.Errorf("error is %v, want ErrNoSolver", err)
	}
}

// Auto needs no C library: the optimum, proven, where FFD misses it, and within 1 %
// of the bound where many shapes meet several types.
func TestAutoPacksWithoutLPSolve(t *testing.T) {
	few := Problem{
		Items: []Item{
			{Name: "twelve", Count: 2, Requests: api.Resources{MilliCPU: 12}},
			{Name: "nine", Count: 4, Requests: api.Resources{MilliCPU: 9}},
		},
		Types: []Type{{Name: "node", Capacity: api.Resources{MilliCPU: 30}, Price: 1, Max: Unlimited}},
	}
	many := large(40, 2000)
	many.Types = append(many.Types,
		Type{Name: "small", Price: .2, Capacity: api.Resources{MilliCPU: 3920, Memory: 28 * gib, Pods: 110}, Max: Unlimited},
		Type{Name: "double", Price: .79, Capacity: api.Resources{MilliCPU: 15890, Memory: 58 * gib, Pods: 110}, Max: Unlimited},
	)
	for name, tc := range map[string]struct {
		problem Problem
		gap     float64
	}{"few": {few, 0}, "many": {many, 0.01}} {
		for _, solver := range []string{"", "auto"} {
			s, err := NewSolver(solver, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			k, err := s.Solve(tc.problem, api.Budget{Iterations: 5000})
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.problem.Check(k); err != nil || leftOver(k) > 0 {
				t.Errorf("%s: %v, %d left over", name, err, leftOver(k))
			}
			ffd, err := FFD{}.Solve(tc.problem, api.Budget{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s costs %v, FFD %v, at least %v", name, k.Solver, k.Cost, ffd.Cost, k.LowerBound)
			if k.Solver != columnsName || k.Fallback != "" || k.Cost >= ffd.Cost || k.Cost > k.LowerBound*(1+tc.gap)+1e-9 {
				t.Errorf("%s: by %s (%s) %v, FFD %v, at least %v", name, k.Solver, k.Fallback, k.Cost, ffd.Cost, k.LowerBound)
			}
		}
	}
}

// A planner that is told nothing of solvers plans by auto: 400+300+300 twice, two
// nodes where FFD takes 400+400, 300·3, 300.
func TestPlannerWithoutLPSolve(t *testing.T) {
	w := newWorld()
	w.workload("twelve", shapeOf(400), 0, 2)
	w.workload("nine", shapeOf(300), 0, 4)
	needed := map[string]int32{}
	for _, solver := range []string{"", "ffd"} {
		plan := w.planBy(t, solver)
		i := slices.IndexFunc(plan.Pools, func(p api.PoolPlan) bool { return p.Pool == "slow" })
		needed[plan.Solver] = plan.Pools[i].Needed
	}
	if needed[columnsName] != 2 || needed["ffd"] != 3 {
		t.Errorf("nodes needed are %v", needed)
	}
}
