package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/mash2-io/mash2/api"
)

// hands are the operator's: the loop's Actuator.
type hands struct{ c *Cluster }

// Apply implements the loop's Actuator.
func (h hands) Apply(_ context.Context, action api.Action) error {
	c := h.c
	switch a := action.(type) {
	case api.ScaleWorkload:
		for _, w := range c.workloads {
			if w.key == a.Workload {
				c.after(c.params.Reaction, func() { c.scale(w, a.To) })
				return nil
			}
		}
		return fmt.Errorf("there is no workload %s", a.Workload)
	case api.ResizePool:
		for _, p := range c.pools {
			if p.name == a.Pool {
				return c.resize(p, a.To)
			}
		}
		return fmt.Errorf("there is no pool %s", a.Pool)
	case api.RemoveNode:
		if n := c.nodes[a.Node]; n != nil {
			c.discard(n)
		}
	case api.CordonNode:
		if n := c.nodes[a.Node]; n != nil && !n.deleting {
			n.cordoned, n.cordonedFor, n.cordonedAt = true, a.For, c.now
		}
	case api.UncordonNode:
		if n := c.nodes[a.Node]; n != nil && !n.deleting {
			n.cordoned, n.cordonedFor = false, ""
			c.schedule()
		}
	case api.GiveUpMove:
		if n := c.nodes[a.Node]; n != nil {
			n.gaveUp, n.gaveUpAt = a.Pool, c.now
		}
	case api.EvictPod:
		if p := c.pods[a.UID]; p != nil {
			serving := p.ready && !p.terminating
			err := c.evict(p)
			switch {
			case errors.Is(err, errBudget):
				c.overBudget++
			case err == nil && serving:
				c.evicted++
			}
			return err
		}
	case api.SetDeletionCost:
		if p := c.pods[a.UID]; p != nil {
			p.deletionCost, p.costOurs = a.Cost, true
			if a.Clear {
				p.deletionCost, p.costOurs = 0, false
			}
		}
	case api.ResizePod:
		c.resizeOne(a)
	default:
		return fmt.Errorf("sim: can't %s", action.Kind())
	}
	return nil
}
