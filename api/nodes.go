package api

// Unlimited is the MaxPerZone of PoolBounds without one.
const Unlimited int32 = -1

// ZoneOf is the zone of a pool whose size counts a node of it. A pool of one zone counts all its
// nodes: a cloud need not label them with the name that its API has for the zone, and a pool
// for which none is named has nodes in any.
func (p *Pool) ZoneOf(n *Node) string {
	if len(p.Zones) == 1 {
		return p.Zones[0]
	}
	return n.Zone
}

// NodeInput is what nodes are planned from: who needs a place, and which pools may be
// sized within which bounds.
type NodeInput struct {
	Snapshot Snapshot
	// Demands of the workloads that are planned. The pods of all others count as
	// they are.
	Demands []NodeDemand
	// Bounds of the pools that are to be sized. All other pools are as they are.
	Bounds []PoolBounds
	Budget Budget
	// Astray pods, which are on an open pool that is none of their workload's, hold their
	// place there, as they do until others serve in their stead. False: they have moved.
	Astray bool
}

// NodeDemand is what nodes must hold of one workload.
type NodeDemand struct {
	Key Key
	// Scale that runs now.
	Scale
	// NodeReplicas of this size are to have a place when the nodes that are asked
	// for now are there.
	NodeReplicas int32
	// Pools that new replicas may be planned on; empty for every open one.
	Pools []string
	// Spot keeps some of the replicas off pools of spot machines. Nil: they may all run on
	// any of Pools.
	Spot *Spot
	// Shadow workloads keep the replicas that they have.
	Shadow bool
}

// PoolBounds are what one pool may be sized to.
type PoolBounds struct {
	Pool string
	// MinPerZone and MaxPerZone of what is planned; MaxPerZone may be Unlimited.
	MinPerZone, MaxPerZone int32
	// Open pools take pods; the others are to be emptied.
	Open bool
}

// WarmStart is what a node planner left of one cycle for the next, where it finds the
// same plans with less work. It is a value, never written to again, and means
// something to the planner only that made it.
type WarmStart interface{ WarmStart() }
