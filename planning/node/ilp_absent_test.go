//go:build !lpsolve

package node

import (
	"errors"
	"slices"
	"testing"
)

func TestSolversWithoutLPSolve(t *testing.T) {
	if !slices.Equal(Solvers(), []string{"auto", "ffd"}) {
		t.Errorf("solvers are %q", Solvers())
	}
	if _, err := New(Config{Solver: "ilp"}); !errors.Is(err, ErrNoSolver) {
		t.Errorf("error is %v, want ErrNoSolver", err)
	}
}
