package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/provider"
)

// Rack is a provider of your own: one pool of machines that are switched on and off. A
// real one asks an API, says the errors of package provider, and passes providertest.Run.
type Rack struct{ on, most int32 }

var _ provider.Provider = (*Rack)(nil)

// Pools implements provider.Provider.
func (r *Rack) Pools(context.Context) ([]api.Pool, error) {
	return []api.Pool{{
		Name: "rack", MachineType: "blade", Zones: []string{"cellar"}, Sizes: []int32{r.on}, MaxPerZone: r.most,
		Allocatable: api.Resources{MilliCPU: 7800, Memory: 30 << 30, Pods: 110}, Price: 0.12, CPUSpeed: 1,
	}}, nil
}

// Apply implements provider.Provider.
func (r *Rack) Apply(_ context.Context, a api.Action) error {
	switch a := a.(type) {
	case api.ResizePool:
		if a.Pool != "rack" {
			return fmt.Errorf("pool %s: %w", a.Pool, provider.ErrNotFound)
		}
		if a.To > r.most {
			return fmt.Errorf("%d machines: %w", a.To, provider.ErrStockout)
		}
		r.on = a.To // asking twice is once
		return nil
	default:
		return fmt.Errorf("%s: %w", a, provider.ErrUnsupported)
	}
}

// Owns implements provider.Provider.
func (r *Rack) Owns(pool, providerID string) bool {
	return pool == "rack" && strings.HasPrefix(providerID, "rack://")
}

func ExampleProvider() {
	ctx := context.Background()
	rack := &Rack{on: 2, most: 4}
	fmt.Println(rack.Apply(ctx, api.ResizePool{Pool: "rack", From: 2, To: 3}))
	pools, _ := rack.Pools(ctx)
	fmt.Println(pools[0].Name, pools[0].Sizes)
	err := rack.Apply(ctx, api.ResizePool{Pool: "rack", From: 3, To: 9})
	fmt.Println(errors.Is(err, provider.ErrStockout))
	// mash2 looks first, and changes nothing:
	fmt.Println(errors.Is(provider.ReadOnly{Provider: rack}.Apply(ctx, api.ResizePool{Pool: "rack", To: 1}), provider.ErrReadOnly))
	// Output:
	// <nil>
	// rack [3]
	// true
	// true
}
