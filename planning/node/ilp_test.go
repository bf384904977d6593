//go:build lpsolve

package node

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// The ILP finds the optimum that trying everything finds, but for what lp_solve
// loses in its tolerances: about one of 20,000 of these problems.
func TestILPIsOptimal(t *testing.T) {
	checks, wrong := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		checks++
		p := problems(6).Draw(t, "problem")
		ffd, err := FFD{}.Solve(p, api.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		k, err := ilp{Limits{Time: 5 * time.Second, Variables: 500}}.Solve(p, api.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(k); err != nil {
			t.Fatalf("%v\n%+v", err, k)
		}
		if better(ffd, k) {
			t.Fatalf("%d left over, cost %v; FFD has %d, %v", leftOver(k), k.Cost, leftOver(ffd), ffd.Cost)
		}
		if best := cheapest(p); k.Solver == ilpName && leftOver(k) == 0 && k.Complete && free(p) == 0 && math.Abs(k.Cost-best) > 1e-6 {
			if wrong++; k.Cost < best || wrong > 1+checks/2000 {
				t.Fatalf("cost %v, the optimum is %v; %d of %d wrong\n%+v", k.Cost, best, wrong, checks, k)
			}
		}
	})
	t.Logf("%d of %d optima missed by lp_solve", wrong, checks)
}

// Requests of a few bytes are below lp_solve's tolerances: told of them it once
// called five nodes optimal here, where FFD has four.
func TestILPTinyRequests(t *testing.T) {
	p := Problem{
		Items: []Item{
			{Name: "nothing", Count: 2, Requests: api.Resources{Pods: 1}, Types: []int{0}},
			{Name: "bytes", Count: 4, Requests: api.Resources{Memory: 10, Pods: 1}},
		},
		Types: []Type{
			{Name: "one", Capacity: api.Resources{MilliCPU: 500, Memory: 3 << 30, Pods: 1}, Price: 0.02, Max: Unlimited},
			{Name: "two", Capacity: api.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 2}, Price: 0.02, Max: 3},
		},
	}
	k, err := ilp{Limits{Time: 5 * time.Second, Variables: 500}}.Solve(p, api.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	if k.Solver != ilpName || !k.Optimal || math.Abs(k.Cost-0.08) > 1e-9 {
		t.Errorf("%+v, want 0.08 by the ILP itself", k)
	}
}

// free counts types without a price.
func free(p Problem) (n int) {
	for _, t := range p.Types {
		if t.Price == 0 {
			n++
		}
	}
	return n
}

// FFD needs one node more than necessary here.
func TestILPBeatsFFD(t *testing.T) {
	// 12+9+9 fills a node, twice; FFD pairs the 12s and then the 9s.
	p := Problem{
		Items: []Item{
			{Name: "twelve", Count: 2, Requests: api.Resources{MilliCPU: 12}},
			{Name: "nine", Count: 4, Requests: api.Resources{MilliCPU: 9}},
		},
		Types: []Type{{Name: "node", Capacity: api.Resources{MilliCPU: 30}, Price: 1, Max: Unlimited}},
	}
	ffd, err := FFD{}.Solve(p, api.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range map[string]string{"ilp": ilpName, "auto": columnsName} {
		s, err := NewSolver(name, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		k, err := s.Solve(p, api.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		if ffd.Cost != 3 || k.Cost != 2 || !k.Optimal || !k.Complete || k.Solver != found || k.Fallback != "" {
			t.Errorf("FFD %v, %s %+v; want 3 and an optimal 2", ffd.Cost, name, k)
		}
	}
}

func TestILPFallsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		problem Problem
		limits  Limits
		want    string
	}{
		"a problem that is too large": {
			problem: large(100, 1000),
			limits:  Limits{Time: time.Second, Variables: 500},
			want:    "variables, limit 500",
		},
		"too few nodes": {
			problem: Problem{
				Items: []Item{{Count: 3, Requests: api.Resources{MilliCPU: 10}}},
				Types: []Type{{Capacity: api.Resources{MilliCPU: 10}, Price: 1, Max: 2}},
			},
			limits: Limits{Time: time.Second, Variables: 500},
			want:   "not all pods can be placed",
		},
		"no nodes": {
			problem: Problem{
				Items: []Item{{Count: 3, Requests: api.Resources{MilliCPU: 10}}},
				Types: []Type{{Capacity: api.Resources{MilliCPU: 10}, Price: 1, Max: 0}},
			},
			limits: Limits{Time: time.Second, Variables: 500},
			want:   "no nodes to pack onto",
		},
		"nothing to gain": {
			problem: Problem{
				Items: []Item{{Count: 300, Requests: api.Resources{MilliCPU: 10}}},
				Types: []Type{{Capacity: api.Resources{MilliCPU: 10}, Price: 1, Max: Unlimited}},
			},
			limits: Limits{Time: time.Second, Variables: 1000},
			want:   "FFD's packing is optimal already",
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := ilp{tc.limits}.Solve(tc.problem, api.Budget{})
			if err != nil {
				t.Fatal(err)
			}
			if k.Solver != "ffd" || !strings.Contains(k.Fallback, tc.want) {
				t.Errorf("solver %s, fallback %q; want ffd because of %q", k.Solver, k.Fallback, tc.want)
			}
			if err := tc.problem.Check(k); err != nil {
				t.Error(err)
			}
		})
	}
}

// A problem beyond what the ILP does in a second ends all the same, with a
// packing that is valid and no worse than FFD's.
func TestILPIsCutOff(t *testing.T) {
	// Thirds and halves of a node with a little less than the odd pod of room:
	// many packings that are equally bad.
	p := Problem{Types: []Type{{Name: "node", Capacity: api.Resources{MilliCPU: 1000}, Price: 1, Max: Unlimited}}}
	for n := range int64(30) {
		p.Items = append(p.Items, Item{Name: fmt.Sprint(n), Count: 2, Requests: api.Resources{MilliCPU: 251 + 7*n}})
	}
	ffd, err := FFD{}.Solve(p, api.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := ilp{Limits{Time: time.Second, Variables: 100_000}}.Solve(p, api.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(k); err != nil {
		t.Error(err)
	}
	if k.Complete && k.Solver == "ilp" {
		t.Log("it was solved: the test no longer tests what it is for")
	}
	if k.Cost > ffd.Cost || k.Solver == "ffd" && k.Fallback == "" {
		t.Errorf("%+v; FFD's cost is %v", k, ffd.Cost)
	}
}

func TestSolversWithLPSolve(t *testing.T) {
	if !slices.Equal(Solvers(), []string{"auto", "ffd", "ilp"}) {
		t.Errorf("solvers are %q", Solvers())
	}
}

// A planner asked for the ILP says that the ILP planned.
func TestPlannerByILP(t *testing.T) {
	w := newWorld()
	w.workload("twelve", shapeOf(400), 0, 2)
	w.workload("nine", shapeOf(300), 0, 4)
	p, err := New(Config{Solver: "ilp"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.PlanNodes(w.input())
	if err != nil {
		t.Fatal(err)
	}
	// 400+300+300 twice: two nodes where FFD takes 400+400, 300·3, 300.
	i := slices.IndexFunc(plan.Pools, func(p api.PoolPlan) bool { return p.Pool == "slow" })
	if plan.Solver != "ilp" || plan.Fallback != "" || !plan.Complete || plan.Pools[i].Needed != 2 || plan.Pools[i].SizePerZone != 1 {
		t.Errorf("plan is %+v", plan)
	}
}
