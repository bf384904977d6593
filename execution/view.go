package execution

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// view is a snapshot and a plan, indexed and classified once.
type view struct {
	snapshot   api.Snapshot
	plan       api.Plan
	disruption api.Disruption
	bounds     *api.Spot // of the policy; nil without
	guards     guards
	budgets    budgets

	// pools that may be touched: in the plan, named by a policy, present, and
	// not resized by somebody else.
	pools []managedPool
	// targets are the pools that the plan puts workloads on, in order of name; none
	// when nodes are left alone. In homes are those of workloads that have one only.
	targets []string
	homes   map[api.Key]string
	// divided are those that the plan has on and off spot machines.
	divided map[api.Key]sides
	// frozen is true when nodes are managed but some target can't be seen or planned
	// now: nothing about nodes changes, in neither direction.
	frozen bool
	// lockstep is true when growth waits for nodes of ours.
	lockstep bool

	nodes  map[string]*api.Node
	podsOn map[string][]*api.Pod // by node, terminating ones too
	podsOf map[api.Key][]*api.Pod
	// bound is how many pods of a workload have a node and are not terminating, unbound how many
	// have none.
	bound, unbound map[api.Key]int32
	// workloads that the snapshot shows, by key.
	workloads map[api.Key]*api.Workload
	acting    map[api.Key]bool  // workloads that may be written to
	wanted    map[api.Key]int32 // replicas of those
	// resizing are the workloads whose running pods may be resized, which those are that KEDA scales, too,
	// and growing those of which pods may become larger, though they or their plans are held.
	resizing, growing map[api.Key]bool
	// guarded are the workloads whose pods nobody moves: held and shadow ones, and staying, those
	// that are acted for as far as a trial allows: replicas follow the reactive rule.
	guarded map[api.Key]string
	staying map[api.Key]bool

	// old nodes belong to managed pools other than the targets.
	old map[string]bool
	// leaving nodes bear a cordon and are to be emptied: old ones, and those
	// of the targets that these are being shrunk by.
	leaving map[string]bool
	// dying nodes are being deleted by the provider.
	dying map[string]bool
	// shrink are the nodes that their pool gives up, cordoned or not yet.
	shrink map[string]bool

	// spaces are the nodes that can take pods, before anything is placed.
	spaces []placement.Space
	// pending pods have no node yet; of nobody's workload only those that the scheduler looks at.
	pending []*api.Pod
}

// managedPool is a pool that may be touched, with what is planned for it.
type managedPool struct {
	*api.Pool
	plan  *api.PoolPlan
	nodes []*api.Node // in order of name
}

// newView indexes a snapshot under a plan.
func newView(s api.Snapshot, p api.Plan, policy api.Policy, g guards) (*view, []api.Finding) {
	v := &view{
		snapshot: s, plan: p, disruption: Defaults(policy.Disruption), bounds: policy.Spot, guards: g, budgets: newBudgets(s),
		wanted:    make(map[api.Key]int32, len(p.Workloads)),
		homes:     make(map[api.Key]string, len(p.Workloads)),
		divided:   map[api.Key]sides{},
		nodes:     make(map[string]*api.Node, len(s.Nodes)),
		podsOf:    make(map[api.Key][]*api.Pod, len(s.Workloads)),
		bound:     make(map[api.Key]int32, len(s.Workloads)),
		unbound:   map[api.Key]int32{},
		workloads: make(map[api.Key]*api.Workload, len(s.Workloads)),
		acting:    make(map[api.Key]bool, len(p.Workloads)),
		resizing:  make(map[api.Key]bool, len(p.Workloads)),
		growing:   map[api.Key]bool{},
		guarded:   map[api.Key]string{},
		staying:   map[api.Key]bool{},
		old:       map[string]bool{},
		leaving:   map[string]bool{},
		dying:     map[string]bool{},
		shrink:    map[string]bool{},
	}
	for i := range s.Nodes {
		v.nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	v.index()
	v.classifyWorkloads()
	findings := v.classifyPools(policy)
	for _, pool := range s.Pools {
		for _, name := range pool.Deleting {
			v.dying[name] = g.holds(guardDying)
		}
	}
	for _, mp := range v.pools {
		v.classifyNodes(mp)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Ready && !n.Cordoned && !v.dying[n.Name] {
			v.spaces = append(v.spaces, placement.SpaceOf(n, v.podsOn[n.Name], v.overhead(n.Pool)))
		}
	}
	// The targets' nodes come first, and the fuller ones before the emptier,
	// so that first fit leaves whole nodes free.
	slices.SortStableFunc(v.spaces, func(a, b placement.Space) int {
		rank := func(sp placement.Space) int {
			if v.isTarget(sp.Node.Pool) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Free.MilliCPU, b.Free.MilliCPU))
	})
	return v, findings
}

func (v *view) classifyWorkloads() {
	for i := range v.snapshot.Workloads {
		w := &v.snapshot.Workloads[i]
		v.workloads[w.Key] = w
		switch {
		case w.Mode == api.ModeShadow:
			v.guarded[w.Key] = "its workload is in Shadow"
		case w.Hold != "" && (w.Mode == api.ModeFull || w.Mode == api.ModeCanary):
			v.guarded[w.Key] = "its workload is held: " + w.Hold
		case w.Mode == api.ModeFull && w.Actuator == api.ActuatorKEDA:
			v.guarded[w.Key] = "KEDA scales its workload"
		}
	}
	for i := range v.plan.Workloads {
		wp := &v.plan.Workloads[i]
		if v.bounds != nil && wp.Prefers != "" {
			v.divided[wp.Key] = v.sidesOf(wp)
		} else if len(wp.Pools) == 1 && wp.Prefers == "" {
			v.homes[wp.Key] = wp.Pools[0].Pool
		}
		w, ok := v.workloads[wp.Key]
		switch {
		case ok && w.Mode == api.ModeFull && v.guarded[wp.Key] != "" && !wp.Shadow: // held, or KEDA scales it
			held := w.Hold != "" || wp.Held
			v.resizing[wp.Key], v.growing[wp.Key] = !held, held
		case !ok || w.Mode == api.ModeOff || v.guarded[wp.Key] != "":
		case wp.Shadow:
			v.guarded[wp.Key] = "its workload is in Shadow"
		case wp.Held:
			v.guarded[wp.Key] = "its workload is held: " + wp.Reason
			v.growing[wp.Key] = true
		default:
			v.acting[wp.Key], v.resizing[wp.Key], v.wanted[wp.Key] = true, true, wp.Replicas
			if wp.Canary != nil && !wp.Canary.Acts {
				v.staying[wp.Key], v.guarded[wp.Key] = true, "a trial allows its workload no plan of its own"
			}
		}
	}
	// A workload in Full, or a canary, that the plan doesn't speak of is left alone too.
	for _, w := range v.snapshot.Workloads {
		if (w.Mode == api.ModeFull || w.Mode == api.ModeCanary) && !v.acting[w.Key] && v.guarded[w.Key] == "" {
			v.guarded[w.Key] = "its workload is not in the plan"
		}
	}
}

// classifyPools finds the pools that may be touched. Nodes are left alone
// altogether when no workload is in Full: Shadow never writes. One that is refused,
// as another one has its target, doesn't count.
func (v *view) classifyPools(policy api.Policy) []api.Finding {
	tried := map[api.Key]bool{} // canaries that are acted for
	for i := range v.plan.Workloads {
		tried[v.plan.Workloads[i].Key] = !v.plan.Workloads[i].Shadow
	}
	full := func(w api.Workload) bool {
		return (w.Mode == api.ModeFull || w.Mode == api.ModeCanary && tried[w.Key]) && w.HoldReason != api.ReasonDuplicateTarget
	}
	if len(policy.NodePools) == 0 || !slices.ContainsFunc(v.snapshot.Workloads, full) {
		return nil
	}
	var findings []api.Finding
	wanted := v.plan.PoolsInUse()
	unseen := slices.Clone(wanted)
	seen := func(pool string) {
		unseen = slices.DeleteFunc(unseen, func(name string) bool { return name == pool })
	}
	for i := range v.plan.Nodes.Pools {
		pp := &v.plan.Nodes.Pools[i]
		j := slices.IndexFunc(v.snapshot.Pools, func(p api.Pool) bool { return p.Name == pp.Pool })
		switch {
		case !slices.Contains(policy.ManagedPools, pp.Pool):
			findings = append(findings, warn(api.NodeScalingAgent, "PoolNotManaged", api.PoolRef(pp.Pool),
				"the plan uses this pool, but no policy names it: mash2 does not change it"))
			seen(pp.Pool)
			continue
		case j < 0:
			findings = append(findings, warn(api.NodeScalingAgent, "PoolMissing", api.PoolRef(pp.Pool),
				"the provider does not list this pool"))
			continue
		case v.snapshot.Pools[j].Autoscaled:
			findings = append(findings, warn(api.NodeScalingAgent, api.ReasonConflict, api.PoolRef(pp.Pool),
				cmp.Or(v.snapshot.Pools[j].AutoscaledBy, "its provider")+" resizes it, so mash2 does not"))
			seen(pp.Pool)
			continue
		}
		mp := managedPool{Pool: &v.snapshot.Pools[j], plan: pp}
		for k := range v.snapshot.Nodes {
			if v.snapshot.Nodes[k].Pool == pp.Pool {
				mp.nodes = append(mp.nodes, &v.snapshot.Nodes[k])
			}
		}
		v.pools = append(v.pools, mp)
		if slices.Contains(wanted, pp.Pool) {
			v.targets = append(v.targets, pp.Pool)
			seen(pp.Pool)
		}
	}
	slices.Sort(v.targets)
	v.frozen = len(wanted) == 0 || len(unseen) > 0
	v.lockstep = len(v.targets) > 0 || v.frozen
	switch {
	case v.frozen:
		v.pools, v.targets = nil, nil
		for i := range v.snapshot.Nodes {
			if n := &v.snapshot.Nodes[i]; n.Cordoned && n.CordonedFor != "" {
				v.old[n.Name], v.leaving[n.Name] = true, true
			}
		}
		findings = append(findings, warn(api.NodeScalingAgent, "NodesHeld", api.PolicyRef,
			"no target pool is visible or planned in this cycle: no node is changed"))
	case len(v.targets) == 0:
		// Without a target the plan can't be carried out on any pool.
		v.pools = nil
	}
	return findings
}

// classifyNodes sorts the nodes of a managed pool.
func (v *view) classifyNodes(mp managedPool) {
	for i, zone := range mp.Zones {
		if i < len(mp.Sizes) {
			v.presumeDying(mp, zone, mp.Sizes[i])
		}
	}
	if !v.isTarget(mp.Name) {
		for _, n := range mp.nodes {
			v.old[n.Name] = true
			if n.Cordoned {
				v.leaving[n.Name] = true
			}
		}
		return
	}
	for i, zone := range mp.Zones {
		if i < len(mp.Sizes) {
			v.chooseShrink(mp, zone, mp.Sizes[i])
		}
	}
	for name := range v.shrink {
		if n := v.nodes[name]; n.Cordoned {
			v.leaving[name] = true
		}
	}
	for _, n := range mp.nodes {
		if v.dying[n.Name] {
			v.leaving[n.Name] = true
		}
	}
}

// presumeDying marks empty nodes of ours beyond the zone's size as being
// deleted, for providers that don't tell which ones are.
func (v *view) presumeDying(mp managedPool, zone string, size int32) {
	excess := -size
	var empty []*api.Node
	for _, n := range mp.nodes {
		if mp.ZoneOf(n) != zone || v.dying[n.Name] {
			continue
		}
		excess++
		if n.CordonedFor != "" && v.empty(n.Name) {
			empty = append(empty, n)
		}
	}
	slices.SortStableFunc(empty, func(a, b *api.Node) int {
		return cmp.Compare(boolRank(a.Ready), boolRank(b.Ready))
	})
	for _, n := range empty[:min(len(empty), int(max(excess, 0)))] {
		v.dying[n.Name] = v.guards.holds(guardDying)
	}
}

// chooseShrink picks the nodes of a zone that the pool gives up: as many as the
// plan calls surplus and the zone has too many. Nodes that already bear the
// cordon go first, so that a plan that hesitates between equal nodes doesn't
// make them take turns.
func (v *view) chooseShrink(mp managedPool, zone string, size int32) {
	var seen, named int32
	var candidates []*api.Node
	surplus := make(map[string]bool, len(mp.plan.Surplus))
	for _, name := range mp.plan.Surplus {
		surplus[name] = true
	}
	for _, n := range mp.nodes {
		if mp.ZoneOf(n) != zone || v.dying[n.Name] {
			continue
		}
		seen++
		if n.Cordoned && n.CordonedFor == "" || n.DoNotDisrupt != "" {
			continue // somebody else's affair
		}
		if surplus[n.Name] {
			named++
		}
		if v.gaveUpEmptying(n) {
			continue // another one that is being emptied may go in its place
		}
		if surplus[n.Name] || n.CordonedFor == api.CordonShrink && len(v.blockers(n.Name)) == 0 {
			candidates = append(candidates, n)
		}
	}
	slices.SortStableFunc(candidates, func(a, b *api.Node) int {
		return cmp.Or(
			cmp.Compare(boolRank(a.CordonedFor != api.CordonShrink), boolRank(b.CordonedFor != api.CordonShrink)),
			cmp.Compare(boolRank(!surplus[a.Name]), boolRank(!surplus[b.Name])))
	})
	give := min(named, seen-mp.plan.SizePerZone, size-mp.plan.SizePerZone)
	for _, n := range candidates[:min(len(candidates), int(max(give, 0)))] {
		v.shrink[n.Name] = true
	}
}

// gaveUpEmptying reports whether emptying a surplus node took too long, which is
// noted on it with its own pool's name, not long ago.
func (v *view) gaveUpEmptying(n *api.Node) bool {
	return v.guards.holds(guardKept) && n.GaveUp == n.Pool && n.GaveUp != "" && v.snapshot.Time.Sub(n.GaveUpAt) < v.disruption.RetryAfter
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// overhead is what DaemonSets and static pods take of a fresh node of a pool.
func (v *view) overhead(pool string) api.Resources {
	for i := range v.snapshot.Pools {
		if v.snapshot.Pools[i].Name == pool {
			return v.snapshot.Pools[i].Overhead
		}
	}
	return api.Resources{}
}

// empty reports whether only DaemonSet and static pods are on a node. A pod
// that is terminating still is there.
func (v *view) empty(node string) bool {
	return !slices.ContainsFunc(v.podsOn[node], func(p *api.Pod) bool { return !p.DaemonSet && !p.Mirror })
}

// blocker says why a pod can't be moved by mash2; empty if it can.
func (v *view) blocker(p *api.Pod) string { return v.blockerOf(p, v.guarded[p.Workload]) }

// blockerOf is the same for a pod whose workload is guarded for a reason; empty if it isn't.
func (v *view) blockerOf(p *api.Pod, guarded string) string {
	switch {
	case p.DaemonSet || p.Mirror || p.Terminating:
		return ""
	case p.DoNotDisrupt != "":
		return p.DoNotDisrupt + " forbids eviction"
	case p.Workload != (api.Key{}) && guarded != "":
		return guarded
	case p.ControllerKind == "":
		return "no controller would recreate it"
	case placement.Unsure(p) != "":
		return "mash2 can't tell where its " + placement.Unsure(p) + " would let it run"
	}
	return v.forbids(p)
}

// blockers are the pods of a node that mash2 may not move.
func (v *view) blockers(node string) []*api.Pod {
	var out []*api.Pod
	for _, p := range v.podsOn[node] {
		if v.blocker(p) != "" {
			out = append(out, p)
		}
	}
	return out
}

// movable reports whether a pod has to leave its node before the node can go,
// and may.
func (v *view) movable(p *api.Pod) bool {
	return !p.DaemonSet && !p.Mirror && !p.Terminating && v.blocker(p) == ""
}

// live is how many pods of a workload are not terminating.
func (v *view) live(workload api.Key) int32 { return v.bound[workload] + v.unbound[workload] }

// planned are the workload plans that may be acted on, in their order, each
// with its workload.
func (v *view) planned(do func(*api.Workload, *api.WorkloadPlan)) {
	for i := range v.plan.Workloads {
		if wp := &v.plan.Workloads[i]; v.acting[wp.Key] {
			do(v.workloads[wp.Key], wp)
		}
	}
}

// moved reports whether pods of a workload are to be where the plan has them.
func (v *view) moved(workload api.Key) bool { return v.acting[workload] && !v.staying[workload] }

// isTarget reports whether the plan puts workloads on a pool.
func (v *view) isTarget(pool string) bool { return pool != "" && slices.Contains(v.targets, pool) }

// into names the pools that workloads are moved to.
func (v *view) into() string { return strings.Join(v.targets, " + ") }

// home is the pool that a workload is to run on; the zero one for anywhere.
func (v *view) home(workload api.Key) api.Pool {
	if name := v.homes[workload]; v.isTarget(name) {
		return v.pool(name)
	}
	return api.Pool{}
}

// pool of a name; the zero one if there is none.
func (v *view) pool(name string) api.Pool {
	for i := range v.snapshot.Pools {
		if v.snapshot.Pools[i].Name == name {
			return v.snapshot.Pools[i]
		}
	}
	return api.Pool{}
}

// roomWithout is the free space of all nodes but the given ones, with the
// pending pods placed, except those of the given workloads. Old nodes that are
// not cordoned are room, unless given.
func (v *view) roomWithout(gone map[string]bool, except map[api.Key]bool) room {
	r := v.spacesWithout(gone)
	for _, p := range v.pending {
		if !except[p.Workload] {
			r.place(placement.PodsOf(p), 1, "")
		}
	}
	return r
}

// spacesWithout is the free space of all nodes but the given ones.
func (v *view) spacesWithout(gone map[string]bool) room {
	r := room{spaces: make([]placement.Space, 0, len(v.spaces))}
	for _, sp := range v.spaces {
		if !gone[sp.Node.Name] {
			r.spaces = append(r.spaces, sp.Clone())
		}
	}
	return r
}
