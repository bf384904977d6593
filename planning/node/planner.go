package node

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/parallel"
)

// Config of a Planner.
type Config struct {
	// Solver that packs: one of Solvers(); empty means "auto".
	Solver string
	// Limits of the ILP.
	Limits Limits
}

// Iterations of the solver where no budget is stated. A cycle asks for up to two
// hundred sizes, and those of a plan are packed once: the more the larger the
// problem, as small ones that a thousand steps don't prove optimal are mostly
// such that no bound tells.
const (
	sizeIterations = 5
	leastEffort    = 10
	mostEffort     = 200  // a twentieth of a second
	perEffort      = 1000 // items × pods for one more
)

func effort(p Problem, b api.Budget) api.Budget {
	if b.SizesOnly {
		b.Iterations = sizeIterations
		return b
	}
	pods := int64(0)
	for _, it := range p.Items {
		pods += int64(it.Count)
	}
	b.Iterations = int(min(mostEffort, leastEffort+pods*int64(len(p.Items))/perEffort))
	return b
}

// Planner plans nodes. It holds no state: one value may be used concurrently.
type Planner struct{ solver Solver }

// New returns a planner, or an error wrapping ErrNoSolver.
func New(c Config) (*Planner, error) {
	solver, err := NewSolver(c.Solver, c.Limits)
	if err != nil {
		return nil, err
	}
	return &Planner{solver: solver}, nil
}

// ErrPool is wrapped by the errors for pools that can't be planned for.
var ErrPool = errors.New("pool can't be planned")

// PlanNodes sizes every pool that has bounds: see the package comment for the rules.
// Without an open pool nodes are not planned and the plan is empty.
//
// The pods of open pools and those that can move there are packed onto these. The
// error wraps ErrPool when there are bounds of a pool that the snapshot lacks, or of
// an open one whose allocatable is not known.
//
// Budget.Iterations bounds how many nodes are tried for removal, and the solver; 0
// means ten thousand nodes, and for the solver up to a twentieth of a second or so,
// a thousandth if Budget.SizesOnly.
func (p *Planner) PlanNodes(in api.NodeInput) (api.NodePlan, error) {
	plan, _ := p.Prepare(nil)
	return plan(in)
}

// plan what a view shows.
func (p *Planner) plan(v *view, b api.Budget, k *known) (api.NodePlan, error) {
	asked, solver := b, p.solver
	if b.Iterations <= 0 {
		b.Iterations = 10_000
	}
	solveOf := func(what string) solveFunc {
		return func(p Problem) (Packing, error) {
			return inParts(p, func(p Problem) (Packing, error) {
				if asked.Iterations <= 0 {
					return k.solve(what, solver, p, effort(p, asked))
				}
				return k.solve(what, solver, p, asked)
			})
		}
	}
	// Levels often ask the same: a problem is solved once.
	solve := memoised(solveOf(rest))
	if b.SizesOnly {
		size, err := v.layOutBest(v.size, solve, b)
		if err != nil {
			return api.NodePlan{}, fmt.Errorf("planning nodes: %w", err)
		}
		return v.report(Problem{}, Packing{}, size, size), nil
	}
	whole := v.problem(v.all(v.size))
	var ideal Packing
	var size, now *layout
	var errs [2]error
	parallel.Each(2, func(i int) {
		if i == 1 {
			ideal, errs[i] = solveOf(anew)(whole)
			return
		}
		if size, errs[i] = v.layOutBest(v.size, solve, b); errs[i] == nil {
			if now = size; !v.sameLevels() {
				now, errs[i] = v.layOutBest(v.now, solve, b)
			}
		}
	})
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return api.NodePlan{}, fmt.Errorf("planning nodes: %w", err)
	}
	return v.report(whole, ideal, size, now), nil
}

// What is packed: pods without room on the nodes there are, and all pods onto new nodes.
const (
	rest = "rest"
	anew = "anew"
)

// layOutBest is the layout with the solver's packing, unless that with FFD's
// costs less: sizes are for all zones of a pool alike, which no packing knows of.
// Where there are spot machines it is the cheaper one of using free space elsewhere
// for what may run on them, and of leaving that.
func (v *view) layOutBest(of level, solve solveFunc, b api.Budget) (*layout, error) {
	var best *layout
	ways := []bool{false}
	if slices.ContainsFunc(v.loads, func(w workload) bool { return w.split(v) }) {
		ways = []bool{true, false}
	}
	for _, apart := range ways {
		first := v.begin(of, apart)
		both := []*layout{first}
		if len(first.left) > 0 {
			both = append(both, first.again())
		}
		errs := make([]error, len(both))
		parallel.Each(len(both), func(i int) {
			by := solve
			if i > 0 {
				by = func(p Problem) (Packing, error) { return FFD{}.Solve(p, b) }
			}
			errs[i] = both[i].finish(by, b)
		})
		if errs[0] != nil {
			return nil, errs[0]
		}
		best = cheaper(best, first)
		if first.packing.Solver != columnsName {
			continue
		}
		if errs[1] != nil {
			return nil, errs[1]
		}
		best = cheaper(best, both[1])
	}
	return best, nil
}

// cheaper is the layout with fewer pods left over, then of lower cost; the first one of
// equals, and the second where there is none.
func cheaper(first, second *layout) *layout {
	if first == nil {
		return second
	}
	if x, y := first.leftOver(), second.leftOver(); y < x || y == x && second.price() < first.price() {
		return second
	}
	return first
}

// Prepare implements planning.NodePreparer: what plans of one snapshot have in
// common is looked at once.
//
// The patterns of this cycle's packings are where those of the next one start
// from: after returns them, before are those that it returned the last time,
// nil if there are none. What is planned is as good without, at more work.
func (p *Planner) Prepare(before api.WarmStart) (plan PlanFunc, after func() api.WarmStart) {
	k := &known{}
	if b, ok := before.(WarmStart); ok {
		k.before = b
	}
	var views []*view
	plan = func(in api.NodeInput) (api.NodePlan, error) {
		if !slices.ContainsFunc(in.Bounds, func(b api.PoolBounds) bool { return b.Open }) {
			return api.NodePlan{Complete: true}, nil
		}
		var v *view
		var err error
		for _, seen := range views {
			if v, err = seen.with(in); v != nil || err != nil {
				break
			}
		}
		if v == nil && err == nil {
			if v, err = newView(in); err == nil {
				views = append(views, v)
			}
		}
		if err != nil {
			return api.NodePlan{}, fmt.Errorf("planning nodes: %w", err)
		}
		return p.plan(v, in.Budget, k)
	}
	return plan, k.after
}

// PlanFunc is the type of PlanNodes.
type PlanFunc = func(api.NodeInput) (api.NodePlan, error)

type solveFunc func(Problem) (Packing, error)

func memoised(solve solveFunc) solveFunc {
	type entry struct {
		problem Problem
		packing Packing
	}
	var seen []entry
	return func(p Problem) (Packing, error) {
		for _, e := range seen {
			if reflect.DeepEqual(e.problem, p) {
				return e.packing, nil
			}
		}
		k, err := solve(p)
		if err == nil {
			seen = append(seen, entry{p, k})
		}
		return k, err
	}
}
