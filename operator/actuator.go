package operator

import (
	"context"
	"fmt"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kube"
	"github.com/mash2-io/mash2/execution/provider"
	"github.com/mash2-io/mash2/execution/webhook"
)

// actuator sends each action to the port it is for.
type actuator struct {
	pods  *kube.Actuator
	nodes provider.Provider // nil without one
	calls *webhook.Sender
}

// Apply implements mash2.Actuator.
func (a actuator) Apply(ctx context.Context, action api.Action) error {
	switch action.(type) {
	case api.ResizePool, api.RemoveNode:
		if a.nodes == nil {
			return fmt.Errorf("no provider is configured that could %s", action)
		}
		if err := a.pods.Vacant(ctx, action); err != nil {
			return err
		}
		return a.nodes.Apply(ctx, action)
	case api.CallWebhook:
		return a.calls.Apply(ctx, action)
	case api.ScaleWorkload, api.ResizePod:
		return a.pods.Apply(ctx, action)
	default: // moves of pods between nodes
		evict, ok := action.(api.EvictPod)
		moves := !ok || !evict.Unready
		if _, ok := a.nodes.(provider.ReadOnly); ok && moves {
			return a.nodes.Apply(ctx, action)
		}
		return a.pods.Apply(ctx, action)
	}
}
