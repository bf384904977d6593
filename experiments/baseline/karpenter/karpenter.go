// Package karpenter has the decisions of Karpenter as pure values: which machines
// are launched for pending pods, and which nodes are removed or replaced by a
// cheaper one. The virtual-time cluster (experiments/sim) carries them out.
//
// It follows kubernetes-sigs/karpenter at v1: provisioning/batcher.go and
// scheduling/{scheduler,queue,nodeclaim}.go for launches, disruption/{controller,
// emptiness,multinodeconsolidation,singlenodeconsolidation,consolidation,validation}.go
// and apis/v1/nodepool.go (budgets) for the rest, with one NodePool of on-demand
// machines, consolidationPolicy WhenEmptyOrUnderutilized.
//
// It leaves out drift and expiry, spot machines, topology constraints, budgets of
// pods, and the feature-gated ways to consolidate. Like Karpenter it knows prices
// and requests, and nothing of how fast a machine is.
//
// Times are durations since any common origin.
package karpenter

import (
	"cmp"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
)

// Settings that decide, under Karpenter's names.
type Settings struct {
	// BatchIdleDuration and BatchMaxDuration: pods that become pending are waited for
	// until none came for the first, at most for the second.
	BatchIdleDuration, BatchMaxDuration time.Duration
	// ConsolidateAfter is how long no pod may have come to or gone from a node before
	// it is consolidated.
	ConsolidateAfter time.Duration
	// Budget is the share of nodes that may be disrupted at once, rounded up.
	Budget float64
	// PollingPeriod of the disruption controller; ConsolidationTTL is from a decision
	// to consolidate until it is looked at again and carried out.
	PollingPeriod, ConsolidationTTL time.Duration
	// UnavailableOfferingsTTL is how long machines that could not be had are not
	// asked for again (aws/karpenter-provider-aws, pkg/cache).
	UnavailableOfferingsTTL time.Duration
}

// DefaultSettings are Karpenter's defaults (--batch-idle-duration 1 s,
// --batch-max-duration 10 s, budgets 10 %), and consolidateAfter 1 m, which the
// NodePool of its getting-started guide has.
func DefaultSettings() Settings {
	return Settings{
		BatchIdleDuration: time.Second, BatchMaxDuration: 10 * time.Second,
		ConsolidateAfter: time.Minute, Budget: 0.1,
		PollingPeriod: 10 * time.Second, ConsolidationTTL: 15 * time.Second,
		UnavailableOfferingsTTL: 3 * time.Minute,
	}
}

// View is the cluster as one decision sees it.
type View struct {
	// Types of machines that are allowed.
	Types []Type
	// Nodes, those on their way included, in order of their names.
	Nodes []Node
	// Pending are the pods that found no node and wait for none to be made free.
	Pending []*Pod
}

// Type of machine.
type Type struct {
	Name string
	// Price in USD per hour.
	Price float64
	// Allocatable, and what DaemonSets take of it on every node.
	Allocatable, Overhead api.Resources
	// Room is how many more nodes of it there may be; 0 when none can be had now.
	Room int32
}

// Node is a node or one that will be.
type Node struct {
	Name string
	// Type is an index in View.Types.
	Type int
	// Ready nodes are initialized: they take pods.
	Ready bool
	// Deleting nodes are on their way out and take none.
	Deleting bool
	// Changed is when the node became Ready or a pod last came or went.
	Changed time.Duration
	// Used by the pods on it, DaemonSets' included.
	Used api.Resources
	// Pods that would have to go elsewhere.
	Pods []*Pod
}

// Pod is a pod; its address tells which.
type Pod struct{ Requests api.Resources }

// Batch collects pods that become pending (provisioning/batcher.go).
type Batch struct {
	open        bool
	first, last time.Duration
}

// Trigger notes that a pod became pending.
func (b *Batch) Trigger(now time.Duration) {
	if !b.open {
		b.open, b.first = true, now
	}
	b.last = now
}

// Due is when the batch is full unless another pod comes before; false when it is
// empty.
func (b *Batch) Due(s Settings) (time.Duration, bool) {
	return min(b.last+s.BatchIdleDuration, b.first+s.BatchMaxDuration), b.open
}

// Close empties the batch.
func (b *Batch) Close() { b.open = false }

// Provision returns the types of the machines to launch for the pending pods and for
// those of nodes on their way out, in the order in which they are launched, each the
// cheapest that holds what it is for.
func Provision(v View) []int {
	s := newScheduling(v)
	s.solve(slices.Concat(v.Pending, s.leaving), func(*Pod, outcome) bool { return true })
	return s.launches()
}

// leaving are the pods on nodes that are on their way out.
func leaving(v View) []*Pod {
	var out []*Pod
	for i := range v.Nodes {
		if v.Nodes[i].Deleting {
			out = append(out, v.Nodes[i].Pods...)
		}
	}
	return out
}

// claim is a machine to come, whose type is open among those that hold its pods.
type claim struct {
	options []int // indices of View.Types
	asked   api.Resources
	pods    int
}

// scheduling simulates the scheduler, again and again from what there is.
type scheduling struct {
	types   []Type
	room    []int32 // of each type, if every claim took it
	nodes   []place // that take pods, those that are Ready first
	without []*Node // of them, those that are thought to be gone
	claims  []claim
	// open are the nodes that may have room for what was asked for last, the first full of
	// which have none left: nodes only fill up. Those of opens have it before anything is
	// placed.
	open   []int
	full   int
	last   api.Resources
	opens  []open
	filled []int // nodes that something was placed on
	// leaving are the pods on nodes that are on their way out.
	leaving []*Pod
}

// open are the nodes that have room for a request.
type open struct {
	requests api.Resources
	nodes    []int
}

type place struct {
	node  *Node
	used  api.Resources
	fresh bool // not Ready yet
}

func newScheduling(v View) *scheduling {
	s := &scheduling{types: v.Types, nodes: make([]place, 0, len(v.Nodes)), room: make([]int32, len(v.Types)), leaving: leaving(v)}
	for _, fresh := range []bool{false, true} {
		for i := range v.Nodes {
			n := &v.Nodes[i]
			if !n.Deleting && n.Ready != fresh {
				s.nodes = append(s.nodes, place{node: n, used: n.Used, fresh: fresh})
			}
		}
	}
	s.begin(nil)
	return s
}

// begin anew, without some nodes.
func (s *scheduling) begin(without []*Node) {
	for t := range s.types {
		s.room[t] = s.types[t].Room
	}
	for _, i := range s.filled {
		s.nodes[i].used = s.nodes[i].node.Used
	}
	s.without, s.claims, s.filled = without, nil, s.filled[:0]
	s.open, s.full, s.last = s.openTo(api.Resources{}), 0, api.Resources{}
}

// openTo are the nodes that have room for a request before anything is placed.
func (s *scheduling) openTo(requests api.Resources) []int {
	for _, known := range s.opens {
		if known.requests.Equal(requests) {
			return known.nodes
		}
	}
	var nodes []int
	for i, at := range s.nodes {
		if autoscaler.Room(s.types[at.node.Type].Allocatable, at.node.Used, requests) {
			nodes = append(nodes, i)
		}
	}
	s.opens = append(s.opens, open{requests, nodes})
	return nodes
}

// outcome of a pod in a simulation.
type outcome int

const (
	placed  outcome = iota
	waiting         // on a node that isn't Ready yet
	nowhere
)

// solve places pods, the largest first: on nodes, else on claims, those with the
// fewest pods first, else on a new claim. It ends as soon as goOn, which is asked after
// each pod, says no.
func (s *scheduling) solve(pods []*Pod, goOn func(*Pod, outcome) bool) {
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(b.Requests.MilliCPU, a.Requests.MilliCPU), cmp.Compare(b.Requests.Memory, a.Requests.Memory))
	})
	for _, p := range sorted {
		if !goOn(p, s.add(p)) {
			return
		}
	}
}

func (s *scheduling) add(p *Pod) outcome {
	if !p.Requests.Equal(s.last) {
		s.open, s.full, s.last = s.openTo(p.Requests), 0, p.Requests
	}
	for ; s.full < len(s.open); s.full++ {
		i := s.open[s.full]
		at := &s.nodes[i]
		if autoscaler.Room(s.types[at.node.Type].Allocatable, at.used, p.Requests) && !slices.Contains(s.without, at.node) {
			at.used = at.used.Plus(p.Requests)
			s.filled = append(s.filled, i)
			if at.fresh {
				return waiting
			}
			return placed
		}
	}
	slices.SortStableFunc(s.claims, func(a, b claim) int { return cmp.Compare(a.pods, b.pods) })
	for i := range s.claims {
		c := &s.claims[i]
		if options := s.holding(c.options, c.asked, p); len(options) > 0 {
			c.options, c.asked, c.pods = options, c.asked.Plus(p.Requests), c.pods+1
			return placed
		}
	}
	var all []int
	for t := range s.types {
		if s.room[t] > 0 {
			all = append(all, t)
		}
	}
	options := s.holding(all, api.Resources{}, p)
	if len(options) == 0 {
		return nowhere
	}
	// Limits are kept whichever type is launched.
	for _, t := range options {
		s.room[t]--
	}
	s.claims = append(s.claims, claim{options: options, asked: p.Requests, pods: 1})
	return placed
}

// holding are the types that hold one pod more than what was asked of them.
func (s *scheduling) holding(types []int, asked api.Resources, p *Pod) []int {
	var out []int
	for _, t := range types {
		if autoscaler.Room(s.types[t].Allocatable, s.types[t].Overhead.Plus(asked), p.Requests) {
			out = append(out, t)
		}
	}
	return out
}

func (s *scheduling) launches() []int {
	var out []int
	for _, c := range s.claims {
		out = append(out, s.cheapest(c.options))
	}
	return out
}

func (s *scheduling) cheapest(types []int) int {
	return slices.MinFunc(types, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.types[a].Price, s.types[b].Price), cmp.Compare(a, b))
	})
}
