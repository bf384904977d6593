package planning

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// assignment says which pool each workload is planned on.
type assignment struct {
	// pools in use, in order of name; none where nodes are not planned.
	pools []*api.Pool
	// of are the indexes among them of the pools of each managed workload.
	of []int
	// spot is, of each, the index of the pool of spot machines that it may have replicas on
	// as well, −1 without; nil where none has one.
	spot []int
}

// assignments are those that are compared: for each allowed pool all workloads on
// it, but for those that may not be there, or the one without pools.
func (c *cycle) assignments() []assignment {
	if len(c.pools) == 0 {
		return []assignment{{}}
	}
	if c.staysOn == eachOnItsOwn || c.putBack != nil {
		at := c.homes(0)
		return []assignment{c.besides(at, c.spotsNow(at, at))}
	}
	if out := c.apart(); out != nil {
		return out
	}
	var out []assignment
	for i := range c.pools {
		if !c.keepsOff(&c.pools[i]) {
			out = append(out, assignment{pools: []*api.Pool{&c.pools[i]}, of: make([]int, len(c.managed))})
		}
	}
	return append(out, c.besideSpot()...)
}

// pool of a managed workload; nil where nodes are not planned.
func (a assignment) pool(workload int) *api.Pool {
	if len(a.pools) == 0 {
		return nil
	}
	return a.pools[a.of[workload]]
}

// uses is the index of a pool among those in use, −1 for one that isn't.
func (a assignment) uses(pool string) int {
	return slices.IndexFunc(a.pools, func(p *api.Pool) bool { return p.Name == pool })
}

// name tells one assignment from another, and a person where workloads are: the
// name of the pool where there is one.
func (a assignment) name() string {
	names := make([]string, len(a.pools))
	for i, p := range a.pools {
		names[i] = p.Name
	}
	name := strings.Join(names, " + ")
	if len(a.pools) > 1 {
		h := fnv.New32a()
		for _, i := range a.of {
			_, _ = h.Write([]byte{byte(i), byte(i >> 8)})
		}
		for _, i := range a.spot {
			_, _ = h.Write([]byte{byte(i), byte(i >> 8)})
		}
		name += fmt.Sprintf(" (%08x)", h.Sum32())
	}
	return name
}

// shares are where so many replicas of a managed workload run, in order of name; nil where
// nodes are not planned.
func (a assignment) shares(workload int, replicas int32, bounds *api.Spot) []api.PoolShare {
	pool, spot := a.pool(workload), a.spotPool(workload)
	if pool == nil {
		return nil
	}
	off := replicas
	if spot != nil {
		off = bounds.Off(replicas)
	}
	var out []api.PoolShare
	if off > 0 || spot == nil || replicas == 0 {
		out = append(out, api.PoolShare{Pool: pool.Name, Replicas: off})
	}
	if replicas > off {
		out = append(out, api.PoolShare{Pool: spot.Name, Replicas: replicas - off})
	}
	slices.SortFunc(out, func(x, y api.PoolShare) int { return cmp.Compare(x.Pool, y.Pool) })
	return out
}

// only is the pool that a managed workload may be planned on, where others are open.
func (a assignment) only(workload int) []string {
	if len(a.pools) < 2 {
		return nil
	}
	if spot := a.spotPool(workload); spot != nil {
		return []string{a.pool(workload).Name, spot.Name}
	}
	return []string{a.pool(workload).Name}
}

// anyAstray reports whether pods are on a pool of an assignment that is none of their workload's.
func (c *cycle) anyAstray(k *candidate) bool {
	if len(k.to.pools) < 2 {
		return false
	}
	in := make(map[string]string, len(c.s.Nodes))
	for _, n := range c.s.Nodes {
		if k.to.uses(n.Pool) >= 0 {
			in[n.Name] = n.Pool
		}
	}
	for _, at := range k.index {
		own := k.to.only(at)
		for i := range c.managed[at].pods {
			p := &c.managed[at].pods[i]
			if pool := in[p.Node]; pool != "" && !p.Terminating && !slices.Contains(own, pool) {
				return true
			}
		}
	}
	return false
}

// bounds are what the pools that may be sized are sized within: those in use to so
// many nodes at most, negative for no limit but their own; all others that are
// managed are emptied.
func (c *cycle) bounds(a assignment, maxNodes []int32) []api.PoolBounds {
	var out []api.PoolBounds
	for i := range c.s.Pools {
		pool := &c.s.Pools[i]
		b := api.PoolBounds{Pool: pool.Name, MinPerZone: pool.MinPerZone, MaxPerZone: api.Unlimited}
		if pool.MaxPerZone > 0 {
			b.MaxPerZone = pool.MaxPerZone
		}
		at := a.uses(pool.Name)
		switch {
		case at >= 0:
			zones := int32(max(1, len(pool.Zones)))
			b.Open, b.MinPerZone = true, a.pools[at].MinPerZone // with the policy's
			if most := maxNodes[at]; most >= 0 {
				// What is kept for nothing goes first where there is a limit.
				b.MinPerZone = max(pool.MinPerZone, min(b.MinPerZone, most/zones))
				b.MaxPerZone = max(b.MinPerZone, most/zones)
			}
		case !slices.Contains(c.p.ManagedPools, pool.Name):
			continue
		}
		out = append(out, b)
	}
	return out
}
