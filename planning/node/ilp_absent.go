//go:build !lpsolve

package node

import "fmt"

const haveILP = false

func newILP(Limits) (Solver, error) {
	return nil, fmt.Errorf("solver %q: %w: build with -tags lpsolve", ilpName, ErrNoSolver)
}
