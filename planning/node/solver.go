package node

import (
	"errors"
	"fmt"
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

// Auto is column generation, unless FFD's packing is proven optimal. It is in
// every build.
const Auto = "auto"

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
		return Columns{}, nil
	case FFD{}.Name():
		return FFD{}, nil
	case ilpName:
		return newILP(limits.withDefaults())
	}
	return nil, fmt.Errorf("solver %q: %w (it has %q)", name, ErrNoSolver, Solvers())
}
