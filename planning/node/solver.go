package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Solver packs a Problem. It is deterministic, apart from one that is cut off
// by a time limit and says so in the Packing.
type Solver interface {
	// Name by which it is asked for.
	Name() string
	// Solve returns a packing that passes Problem.Check. Pods that can't be
	// placed are Unplaced, which is no error; a problem that is not valid is.
	Solve(Problem, api.Budget) (Packing, error)
}

// ErrNoSolver is wrapped by the error for a solver that this build lacks or
// that does not exist.
var ErrNoSolver = errors.New("no such solver in this build")

// Auto lets the problem choose the solver: FFD, and the ILP where the build has
// it, FFD is not proven optimal and there are at most autoPods pods.
const Auto = "auto"

// autoPods is the size up to which the assignment ILP was always solved within
// milliseconds (7 ms at 20 pods; at 40 some take a minute).
const autoPods = 20

// Limits bound the ILP.
type Limits struct {
	// Time after which it is cut off, in whole seconds, rounded up. Zero takes
	// DefaultLimits.
	Time time.Duration
	// Variables above which it is not tried. Zero takes DefaultLimits.
	Variables int
}

// DefaultLimits keep a planning cycle short.
var DefaultLimits = Limits{Time: 2 * time.Second, Variables: 2000}

func (l Limits) withDefaults() Limits {
	if l.Time <= 0 {
		l.Time = DefaultLimits.Time
	}
	if l.Variables <= 0 {
		l.Variables = DefaultLimits.Variables
	}
	return l
}

// Solvers are the names NewSolver knows in this build.
func Solvers() []string {
	names := []string{Auto, FFD{}.Name()}
	if haveILP {
		names = append(names, ilpName)
	}
	return names
}

const ilpName = "ilp"

// NewSolver returns a solver by name: "ffd", "ilp" or "auto", which is also
// meant by an empty name. The error wraps ErrNoSolver.
func NewSolver(name string, limits Limits) (Solver, error) {
	switch name {
	case "", Auto:
		return auto{limits.withDefaults()}, nil
	case FFD{}.Name():
		return FFD{}, nil
	case ilpName:
		return newILP(limits.withDefaults())
	}
	return nil, fmt.Errorf("solver %q: %w (it has %q)", name, ErrNoSolver, Solvers())
}

type auto struct{ limits Limits }

func (auto) Name() string { return Auto }

func (a auto) Solve(p Problem, b api.Budget) (Packing, error) {
	k, err := FFD{}.Solve(p, b)
	if err != nil || k.Optimal || !haveILP {
		return k, err
	}
	var pods int64
	for _, it := range p.Items {
		pods += int64(it.Count)
	}
	if pods > autoPods || slices.ContainsFunc(k.Unplaced, func(n int32) bool { return n > 0 }) {
		return k, nil
	}
	ilp, err := newILP(a.limits)
	if err != nil {
		return Packing{}, err
	}
	return ilp.Solve(p, b)
}
