// Package provider is the seam to whoever owns nodes: what each provider of
// node pools does, which errors it tells apart, and what holds for all of them.
// Package providertest has the suite that every provider passes.
package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/mash2-io/mash2/api"
)

// Provider reads and resizes node pools. Its methods may be called
// concurrently.
type Provider interface {
	// Pools returns every pool in order of name, with the sizes that were asked
	// for, whether they are there yet or not. Errors: ErrPermission, ErrNotFound
	// (the cluster), ErrUnavailable, ErrUnsupported; any other beside pools is of some
	// that can't be read in full, which are held.
	Pools(ctx context.Context) ([]api.Pool, error)
	// Apply carries out ResizePool and RemoveNode, idempotently, and refuses
	// every other action. It returns once the change is accepted; what becomes of
	// it is seen in Pools. Errors: those below.
	Apply(ctx context.Context, a api.Action) error
	// Owns tells whether the machine behind a node's provider id is one of a
	// pool, as far as the last reading of pools knows. It makes no call.
	Owns(pool, providerID string) bool
}

// Errors of providers, to be told apart by errors.Is. An error is one of them at
// most.
var (
	// ErrNotFound means: there is no such cluster, pool or node.
	ErrNotFound = errors.New("not found")
	// ErrQuota means: a quota doesn't allow it.
	ErrQuota = errors.New("quota exceeded")
	// ErrStockout means: there are no such machines now.
	ErrStockout = errors.New("zone has no capacity")
	// ErrBusy means: another operation is running on the pool or the cluster. The
	// same call may succeed in a later cycle.
	ErrBusy = errors.New("another operation is in progress")
	// ErrPermission means: the credentials don't allow it.
	ErrPermission = errors.New("permission denied")
	// ErrUnavailable means: the API did not answer, or not in time, or asked to be
	// called less often. Whether a change took effect is not known.
	ErrUnavailable = errors.New("API unavailable")
	// ErrUnsupported means: nodes of this cluster can't be managed so.
	ErrUnsupported = errors.New("not supported")
	// ErrReadOnly means: mash2 was told to leave nodes alone.
	ErrReadOnly = errors.New("node pools are read-only")
)

// Sentinels are all of the errors above.
func Sentinels() []error {
	return []error{ErrNotFound, ErrQuota, ErrStockout, ErrBusy, ErrPermission, ErrUnavailable, ErrUnsupported, ErrReadOnly}
}

// ReadOnly shows the pools of another provider and changes nothing: each pool is
// held, and every action refused with ErrReadOnly. Replicas are planned as ever,
// nodes for information only.
type ReadOnly struct{ Provider }

// Pools are the other's, held.
func (r ReadOnly) Pools(ctx context.Context) ([]api.Pool, error) {
	pools, err := r.Provider.Pools(ctx)
	for i := range pools {
		pools[i].Hold = ErrReadOnly.Error()
	}
	return pools, err
}

// Apply refuses.
func (r ReadOnly) Apply(_ context.Context, a api.Action) error {
	return fmt.Errorf("%s: %w", a, ErrReadOnly)
}
