// Package autoscaler has the decisions of Kubernetes' Cluster Autoscaler as a
// pure value: what one scan of a cluster grows, gives up and removes. The
// simulated GKE (experiments/gkesim) and the virtual-time cluster
// (experiments/sim) carry them out.
//
// It follows kubernetes/autoscaler's cluster-autoscaler: core/static_autoscaler.go
// (RunOnce), core/scaleup/orchestrator, estimator/binpacking_estimator.go,
// expander/waste, core/scaledown (eligibility, planner, unneeded, budgets) and
// utils/backoff. What a pod allows (drainability, priorities, node affinity) is
// read by the caller, which knows Kubernetes' objects.
//
// It leaves out resource limits of the whole cluster, GPUs, node
// auto-provisioning, and the limits on how many nodes are looked at in one scan,
// which begin to bind beyond some hundred nodes. Budgets of pods are seen as they
// are now, not as they will be after other removals.
//
// Times are durations since any common origin.
package autoscaler

import (
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2/api"
)

// View is the cluster as one scan sees it.
type View struct {
	// Groups are the node groups, those of a pool one after the other.
	Groups []Group
	// Nodes are all nodes, and instances of the groups that are not nodes yet, in
	// the order in which pods are tried on them.
	Nodes []Node
	// Pending are the pods that found no node and are worth one, in the order in
	// which they are placed.
	Pending []*Pod
	// Allowed tells whether the scheduler would let a pod on a node or a group's
	// template if it had room; nil allows all.
	Allowed func(*Pod, *Node) bool
}

// Group is a group of equal nodes, of one pool in one zone.
type Group struct {
	Name string // unique
	Pool string
	Zone string
	// On tells whether the group may be resized now: its pool is autoscaled and
	// nothing else changes it.
	On bool
	// Balanced pools spread their growth over zones that hold the same pods.
	Balanced bool
	// Size is the target size, what is on its way included. It stays within Min
	// and Max, and that of the whole pool within PoolMin and PoolMax if PoolMax
	// is positive, when Min and Max don't count.
	Size, Min, Max, PoolMin, PoolMax int32
	// Template is a fresh node, DaemonSets' pods in Used.
	Template Node
}

// Phase of an instance.
type Phase int

// The phases.
const (
	Running  Phase = iota // its node registered, or never will
	Coming                // created, not a node yet
	Refused               // could not be created
	Stopping              // being deleted
)

// Node is a node, or an instance that will be one.
type Node struct {
	Name string
	// Group is an index in View.Groups, negative for nodes of no group.
	Group int
	Phase Phase
	// Registered instances are nodes. Ready ones take pods.
	Registered, Ready bool
	// Booted instances were Ready before. Requested is when they were asked for.
	Booted    bool
	Requested time.Duration
	// Kept nodes must not be removed.
	Kept bool
	// Allocatable, Capacity, and Used by the pods on it. Of Capacity only CPU and
	// memory count.
	Allocatable, Capacity, Used api.Resources
	Pods                        []*Pod
}

// Pod is a pod; its address tells which.
type Pod struct {
	// Requests, with one pod slot.
	Requests api.Resources
	// Class numbers pods that View.Allowed takes for equal, from 1; 0 is for one that
	// may be like no other.
	Class int
	// Removal tells what its node's removal does to it.
	Removal Removal
}

// Removal of a node, as one of its pods takes it.
type Removal int

// The ways to take it.
const (
	Moves   Removal = iota // is evicted and needs another place
	Ignored                // goes with the node: DaemonSets' pods, static ones, expendable ones
	Forbids                // forbids it
)

// Decision of one scan.
type Decision struct {
	// GiveUp are instances that don't come, to be deleted.
	GiveUp []string
	// Grow has a group for each new node, in the order of their creation.
	Grow []int
	// Remove are nodes to be removed now.
	Remove []Removed
}

// Removed is a node to be removed, after its pods are evicted.
type Removed struct {
	Node  string
	Evict []*Pod
}

// Autoscaler is what Cluster Autoscaler remembers between two scans.
type Autoscaler struct {
	Rules Rules
	// Src decides between equally good growths.
	Src rand.Source

	grown, failed         bool
	lastAdd, lastFailure  time.Duration
	unneeded, unremovable map[string]time.Duration // node → since when, until when
	removing              map[string]bool          // node → whether pods are evicted
	backoffs              map[string]backoff       // by group
}

type backoff struct {
	until, failedAt, pause time.Duration
}

// Scan is one loop of Cluster Autoscaler. The view stays as it is.
func (a *Autoscaler) Scan(now time.Duration, v View) Decision {
	if a.unneeded == nil {
		a.unneeded, a.unremovable = map[string]time.Duration{}, map[string]time.Duration{}
		a.removing, a.backoffs = map[string]bool{}, map[string]backoff{}
	}
	s := &scan{Autoscaler: a, View: v, now: now}
	for _, g := range v.Groups {
		s.sizes = append(s.sizes, g.Size)
	}
	s.giveUp()
	s.lay()
	if s.scaleUp() {
		a.grown, a.lastAdd = true, now
		return s.Decision
	}
	s.scaleDown()
	return s.Decision
}

// Forget what is unneeded, as when no group is autoscaled any more.
func (a *Autoscaler) Forget() {
	clear(a.unneeded)
	clear(a.unremovable)
}

// RemovalEnded tells how the removal of a node ended: well, or with the node
// given back.
func (a *Autoscaler) RemovalEnded(now time.Duration, node string, ok bool) {
	delete(a.removing, node)
	delete(a.unneeded, node)
	if !ok {
		a.failed, a.lastFailure = true, now
	}
}

// Removing tells whether the removal of a node has begun and not ended.
func (a *Autoscaler) Removing(node string) bool {
	_, ok := a.removing[node]
	return ok
}

// GrowthFailed leaves a group alone for a while (utils/backoff,
// exponential_backoff.go). A failure while it is left alone changes nothing but
// the beginning of the pause.
func (a *Autoscaler) GrowthFailed(now time.Duration, group string) {
	if a.backoffs == nil {
		a.backoffs = map[string]backoff{}
	}
	b, known := a.backoffs[group]
	switch {
	case !known || now-b.failedAt > a.Rules.NodeGroupBackoffReset:
		b.pause = a.Rules.InitialNodeGroupBackoff
	case now > b.until:
		b.pause = min(2*b.pause, a.Rules.MaxNodeGroupBackoff)
	}
	b.failedAt, b.until = now, now+b.pause
	a.backoffs[group] = b
}

// scan is one scan at work.
type scan struct {
	*Autoscaler
	View
	Decision
	now   time.Duration
	sizes []int32 // target sizes by group, as this scan changes them
	given []bool  // nodes that are given up
	slots []*slot // the nodes, and those to come
}

// slot is a node on which placements are tried.
type slot struct {
	*Node
	used api.Resources
	// coming nodes are not Ready yet: pods may be meant for them, but none can
	// move there now.
	coming bool
	gone   bool
	// guests are pods that were placed here and are somewhere else in fact.
	guests []*Pod
	at     int // in the row that pods are placed in
}

// row of slots in which pods are placed, each on the first that takes it. As room only
// becomes less, what took no pod of a kind takes none of it later: thousands of pods that
// are alike would else each be tried on all nodes that are full.
type row struct {
	slots []*slot
	from  map[kind]int // the first slot that may take one more
}

// kind is what pods are alike in that slots take or don't.
type kind struct {
	class                             int
	milliCPU, memory, ephemeral, pods int64
}

func rowOf(slots []*slot) *row {
	for i, sl := range slots {
		sl.at = i
	}
	return &row{slots: slots, from: map[kind]int{}}
}

// opened notes that a slot has more room than before.
func (r *row) opened(sl *slot) {
	for k, from := range r.from {
		r.from[k] = min(from, sl.at)
	}
}

// giveUp takes back what was asked for and does not come: instances that can't
// be created, and those that don't become Ready nodes in time
// (deleteCreatedNodesWithErrors, removeOldUnregisteredNodes). Their groups are
// left alone for a while.
func (s *scan) giveUp() {
	failed := map[int]bool{}
	s.given = make([]bool, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Group < 0 || !s.Groups[n.Group].On || n.Phase == Stopping {
			continue
		}
		late := !n.Ready && !n.Booted && s.now-n.Requested > s.Rules.MaxNodeProvisionTime
		if n.Phase != Refused && !late {
			continue
		}
		s.GiveUp, s.given[i] = append(s.GiveUp, n.Name), true
		s.sizes[n.Group]--
		failed[n.Group] = true
	}
	for g := range s.Groups {
		if failed[g] {
			s.GrowthFailed(s.now, s.Groups[g].Name)
		}
	}
}

// lay lists the nodes as they are, then those that were asked for and are not
// Ready, as they will be (addUpcomingNodesToClusterSnapshot).
func (s *scan) lay() {
	slots := make([]slot, len(s.Nodes))
	var coming []*slot
	for i := range s.Nodes {
		n, sl := &s.Nodes[i], &slots[i]
		if s.given[i] {
			continue
		}
		if n.Group >= 0 && !n.Ready && (n.Phase == Coming || n.Phase == Running) && s.now-n.Requested <= s.Rules.MaxNodeProvisionTime {
			template := s.Groups[n.Group].Template
			template.Name, template.Group = n.Name, n.Group
			*sl = slot{Node: &template, used: template.Used, coming: true}
			coming = append(coming, sl)
			continue
		}
		if n.Registered {
			*sl = slot{Node: n, used: n.Used}
			s.slots = append(s.slots, sl)
		}
	}
	s.slots = append(s.slots, coming...)
}

// fits tells whether the scheduler would put a pod on a slot.
func (s *scan) fits(p *Pod, sl *slot) bool {
	return Room(sl.Allocatable, sl.used, p.Requests) && (s.Allowed == nil || s.Allowed(p, sl.Node))
}

// Room tells whether request fits beside used; resources that are not asked for
// don't count (the scheduler's NodeResourcesFit).
func Room(allocatable, used, request api.Resources) bool {
	short := func(all, used, more int64) bool { return more > 0 && used+more > all }
	if short(allocatable.MilliCPU, used.MilliCPU, request.MilliCPU) || short(allocatable.Memory, used.Memory, request.Memory) ||
		short(allocatable.EphemeralStorage, used.EphemeralStorage, request.EphemeralStorage) || short(allocatable.Pods, used.Pods, request.Pods) {
		return false
	}
	for name, more := range request.Extended {
		if short(allocatable.Extended[name], used.Extended[name], more) {
			return false
		}
	}
	return true
}

// place puts a pod on the first slot of a row that takes it, and returns it.
func (s *scan) place(r *row, p *Pod) *slot {
	q := p.Requests
	k, known := kind{p.Class, q.MilliCPU, q.Memory, q.EphemeralStorage, q.Pods}, p.Class != 0 && len(q.Extended) == 0
	from := 0
	if known {
		from = r.from[k]
	}
	for i, sl := range r.slots[from:] {
		if !sl.gone && (sl.coming || sl.Ready) && s.fits(p, sl) {
			sl.used = sl.used.Plus(p.Requests)
			sl.guests = append(sl.guests, p)
			if known {
				r.from[k] = from + i
			}
			return sl
		}
	}
	if known {
		r.from[k] = len(r.slots)
	}
	return nil
}

// take undoes the last placement on a slot.
func (r *row) take(sl *slot) {
	last := len(sl.guests) - 1
	sl.used = sl.used.Minus(sl.guests[last].Requests)
	sl.guests = sl.guests[:last]
	r.opened(sl)
}

// room is how many nodes a group may still grow by, slack how many it may shrink
// by.
func (s *scan) room(group int) int32 {
	g := &s.Groups[group]
	if g.PoolMax > 0 {
		return max(0, g.PoolMax-s.poolSize(g.Pool))
	}
	return max(0, g.Max-s.sizes[group])
}

func (s *scan) slack(group int) int32 {
	g := &s.Groups[group]
	if g.PoolMax > 0 {
		return max(0, s.poolSize(g.Pool)-g.PoolMin)
	}
	return max(0, s.sizes[group]-g.Min)
}

func (s *scan) poolSize(pool string) int32 {
	n := int32(0)
	for i := range s.Groups {
		if s.Groups[i].Pool == pool {
			n += s.sizes[i]
		}
	}
	return n
}
