package planning

import (
	"slices"

	"github.com/mash2-io/mash2/api"
)

// open are the indexes of the allowed pools that a strategy leaves open for a managed
// workload; all of them where none is left, as when a move is refused and workloads stay
// on a pool that it may not be moved to. Where the policy bounds what runs on spot machines
// none is open that would have all of a workload there.
func (c *cycle) open(workload int) []int {
	only := c.managed[workload].workload.OnlyPools
	var some, all []int
	for p := range c.pools {
		if c.keepsOff(&c.pools[p]) {
			continue
		}
		all = append(all, p)
		if slices.Contains(only, c.pools[p].Name) {
			some = append(some, p)
		}
	}
	if len(some) == 0 {
		return all
	}
	return some
}

// restricted reports whether a strategy keeps a managed workload off some allowed pool.
func (c *cycle) restricted(workload int) bool {
	return len(c.managed[workload].workload.OnlyPools) > 0 && len(c.open(workload)) < len(c.pools)
}

// moves reports whether a managed workload that is on a pool is moved by itself, there or
// back: then where it is says nothing of where all others should be.
func (c *cycle) moves(workload int, at string) bool {
	if !c.restricted(workload) {
		return c.managed[workload].memory.Apart != ""
	}
	return !slices.ContainsFunc(c.open(workload), func(p int) bool { return c.pools[p].Name == at })
}

// anyRestricted reports whether a strategy keeps some workload off some allowed pool.
func (c *cycle) anyRestricted() bool { return slices.ContainsFunc(c.indexes(), c.restricted) }

// apart are the assignments where some workload may not be on every allowed pool, nil
// where all may: for each pool all workloads that may be there on it, and the others on one
// more pool, of those that they may be on.
func (c *cycle) apart() []assignment {
	if !c.anyRestricted() {
		return nil
	}
	var out []assignment
	seen := map[string]bool{}
	for base := range c.pools {
		for other := range c.pools {
			if c.keepsOff(&c.pools[base]) || c.keepsOff(&c.pools[other]) {
				continue
			}
			at := make([]int, len(c.managed))
			for i := range c.managed {
				open := c.open(i)
				switch {
				case slices.Contains(open, base):
					at[i] = base
				case slices.Contains(open, other):
					at[i] = other
				default:
					at[i] = open[0]
				}
			}
			to := c.assigned(at)
			if name := to.name(); !seen[name] {
				seen[name] = true
				out = append(out, to)
			}
		}
	}
	return out
}

// indexes of the managed workloads.
func (c *cycle) indexes() []int {
	out := make([]int, len(c.managed))
	for i := range out {
		out[i] = i
	}
	return out
}

// assigned has each managed workload on one of the allowed pools, by index.
func (c *cycle) assigned(at []int) assignment {
	to := assignment{of: make([]int, len(at))}
	for p := range c.pools {
		if !slices.Contains(at, p) {
			continue
		}
		for i := range at {
			if at[i] == p {
				to.of[i] = len(to.pools)
			}
		}
		to.pools = append(to.pools, &c.pools[p])
	}
	return to
}

// together forgets where workloads were apart from the others once they have left.
func (c *cycle) together() {
	pool := map[string]string{}
	for i := range c.managed {
		mw := &c.managed[i]
		if mw.memory.Apart == "" || c.restricted(i) {
			continue
		}
		if len(pool) == 0 {
			for _, n := range c.s.Nodes {
				pool[n.Name] = n.Pool
			}
		}
		if !slices.ContainsFunc(mw.pods, func(p api.Pod) bool { return !p.Terminating && pool[p.Node] == mw.memory.Apart }) {
			mw.memory.Apart = ""
		}
	}
}

// staysOnly is the same cycle where workloads can't be moved from a pool. Those that went
// there by themselves stay there by themselves: the others are not made to follow.
func (c *cycle) staysOnly(pool string) *cycle {
	alone := func(i int) bool { return c.managed[i].memory.Apart == pool }
	if !slices.ContainsFunc(c.indexes(), alone) {
		return c.on(pool)
	}
	s, p := c.s, c.p
	s.Workloads = slices.Clone(s.Workloads)
	for i := range c.managed {
		for j := range s.Workloads {
			if alone(i) && s.Workloads[j].Key == c.managed[i].workload.Key {
				s.Workloads[j].OnlyPools = []string{pool}
			}
		}
	}
	if !slices.Contains(p.NodePools, pool) {
		// Nobody else is to be there.
		for j := range s.Workloads {
			if w := &s.Workloads[j]; len(w.OnlyPools) == 0 {
				w.OnlyPools = p.NodePools
			}
		}
		p.NodePools = append(slices.Clone(p.NodePools), pool)
	}
	return c.again(s, p, "")
}
