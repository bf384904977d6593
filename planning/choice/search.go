package choice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// better is by how much a utility must exceed another to count as higher:
// above the noise of summation.
const better = 1e-9

// Problem is the choice under one assignment.
type Problem struct {
	Terms
	Items []Item
	// FixedCost is USD/h of nodes that no choice here changes.
	FixedCost float64
	// MaxNodes each place may have and why, negative for no limit.
	MaxNodes []int32
	Limit    []string
	// MaxCost of all nodes where there are several places, USD/h; 0 for no limit.
	MaxCost float64
	// Pack places all pods, with nodes for at least these replicas. Nil where
	// there are no pools.
	Pack func(nodeReplicas []int32) (Packing, error)
}

// Packing is what the NodePlanner made of a vector of replicas.
type Packing struct {
	Nodes []int32 // of each place
	Plan  api.NodePlan
	// Infeasible says why it may not be; empty if it may.
	Infeasible string
	Unplaced   int32 // pods
	// Limited says which limit of nodes or money it is beyond, or leaves pods without a place
	// that more nodes would take; empty if none does. Short is how many pods these are.
	Limited string
	Short   int32
}

// Solution is a point of the search.
type Solution struct {
	Replicas []int32
	Nodes    []int32 // of each place, not to be written to
	Packing  Packing
	Utility  api.Utility
	// Note says how it was found, or why it was left.
	Note string
}

// sameNodes reports whether two solutions are on as many nodes.
func (s Solution) sameNodes(o Solution) bool { return slices.Equal(s.Nodes, o.Nodes) }

// Feasible reports whether everything has a place within the limits.
func (s Solution) Feasible() bool { return s.Packing.Infeasible == "" }

// Places orders solutions by what has no place in them: fewer pods first, then those within
// the limits.
func Places(a, b Solution) int {
	return cmp.Or(
		cmp.Compare(a.Packing.Unplaced*boolean(!a.Feasible()), b.Packing.Unplaced*boolean(!b.Feasible())),
		cmp.Compare(boolean(!a.Feasible()), boolean(!b.Feasible())),
	)
}

// Ranks orders solutions: fewer pods without a place first, then feasible ones, then
// higher utility, then lower cost, so that equals don't depend on their order.
func Ranks(a, b Solution) int {
	if c := Places(a, b); c != 0 {
		return c
	}
	// In steps, not by difference: what differs by less than a step from the next would
	// make an order that runs in a circle, and the climb with it.
	steps := func(u float64) float64 { return math.Round(u / better) }
	return cmp.Or(
		cmp.Compare(steps(b.Utility.Total), steps(a.Utility.Total)),
		cmp.Compare(steps(a.Utility.Cost), steps(b.Utility.Cost)),
		slices.Compare(a.Replicas, b.Replicas),
	)
}

func boolean(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// search is one run over a problem.
type search struct {
	Problem
	budget   int // packings left
	packings int
	memo     map[string]Packing
	best     Solution
	losers   []Solution
	keep     int // how many losers
	// packed are what enumeration has packed: the least of everything, and last.
	packed []packed
	err    error
}

// packed is a vector and the nodes of each place that its pods take.
type packed struct{ replicas, nodes []int32 }

// Result of a search.
type Result struct {
	Best     Solution
	Losers   []Solution // in order of rank
	Packings int        // used of the budget
	// Complete is true when no neighbour of the best is better, and Exhaustive when every
	// vector of replicas was looked at or ruled out by a bound.
	Complete, Exhaustive bool
	// stayed is true when the best plan of all did not pay enough for leaving
	// what there is.
	stayed bool
}

// enumerable is how many replica vectors are few enough to look at all.
const enumerable = 20_000

// worthPacking is what a neighbour must promise over the best plan, in U, to be packed where
// not all neighbours can be. On thousands of nodes one replica promises less, and a packing
// takes a good part of a second.
const worthPacking = 5e-4

// Solve looks for the best solution within a budget of packings, and keeps so many of the
// others. It returns an error only when nothing could be packed at all.
func (p Problem) Solve(budget, keep int) (Result, error) {
	s := &search{Problem: p, budget: max(budget, 1), memo: map[string]Packing{}, keep: keep}
	s.start()
	if s.err != nil {
		return Result{}, s.err
	}
	r := Result{}
	if s.count() <= enumerable {
		r.Exhaustive = s.enumerate()
		r.Complete = r.Exhaustive
	}
	if !r.Exhaustive {
		r.Complete = s.climb()
	}
	r.stayed = s.stay()
	s.neighbours()
	r.Best, r.Packings = s.best, s.packings
	r.Losers = s.ranked()
	for i := range r.Losers {
		// Not only the best of all was left for staying.
		if l := &r.Losers[i]; r.stayed && Ranks(*l, r.Best) < 0 && l.Note != stayedNote {
			l.Note = strings.TrimPrefix(l.Note+"; better by less than the tolerance for changing replicas", "; ")
		}
	}
	return r, nil
}

// start evaluates the separable optimum for nodes at several fractions of their
// linear price (a node that is there anyway is free, one that has to be added
// is not), and the least of everything in case none of these is feasible.
func (s *search) start() {
	least := make([]int32, len(s.Items))
	for i, it := range s.Items {
		least[i] = it.Lo
	}
	for n, factor := range []float64{1, 0.5, 0} {
		replicas := make([]int32, len(s.Items))
		for i, it := range s.Items {
			replicas[i] = s.Terms.Best(it, it.Lo, it.Hi, factor, 1)
		}
		sol, ok := s.evaluate(replicas, "best if nodes came in parts")
		if !ok {
			return
		}
		s.offer(sol, n == 0)
		if s.Pack == nil {
			return // without nodes the separable optimum is the optimum
		}
	}
	if !s.best.Feasible() {
		if sol, ok := s.evaluate(least, "least replicas"); ok {
			s.offer(sol, false)
		}
	}
}

// offer takes a solution as the best or as a loser.
func (s *search) offer(sol Solution, first bool) bool {
	if first {
		s.best = sol
		return true
	}
	if slices.Equal(sol.Replicas, s.best.Replicas) && sol.sameNodes(s.best) {
		return false
	}
	if Ranks(sol, s.best) < 0 {
		s.lose(s.best)
		s.best = sol
		return true
	}
	s.lose(sol)
	return false
}

func (s *search) lose(sol Solution) {
	if s.keep == 0 {
		return
	}
	s.losers = append(s.losers, sol)
	if len(s.losers) >= 8*s.keep+64 {
		s.losers = s.ranked()
	}
}

// ranked returns the best of the losers, without doubles.
func (s *search) ranked() []Solution {
	slices.SortStableFunc(s.losers, Ranks)
	out := s.losers[:0]
	for _, l := range s.losers {
		same := func(o Solution) bool { return o.sameNodes(l) && slices.Equal(o.Replicas, l.Replicas) }
		if same(s.best) || slices.ContainsFunc(out, same) {
			continue
		}
		if out = append(out, l); len(out) == s.keep {
			break
		}
	}
	return out
}

// evaluate packs a vector and adds nodes while that pays. It is false when the
// budget is spent or packing failed.
func (s *search) evaluate(replicas []int32, note string) (Solution, bool) {
	sol := Solution{Replicas: replicas, Nodes: make([]int32, len(s.Places)), Note: note}
	if s.Pack != nil {
		nodeReplicas := make([]int32, len(replicas))
		for i, it := range s.Items {
			nodeReplicas[i] = max(replicas[i], it.NodeMin)
		}
		key := vectorKey(nodeReplicas)
		pk, known := s.memo[key]
		if !known {
			if s.budget <= 0 {
				return Solution{}, false
			}
			s.budget--
			s.packings++
			var err error
			if pk, err = s.Pack(nodeReplicas); err != nil {
				s.err = err
				return Solution{}, false
			}
			s.memo[key] = pk
		}
		sol.Packing = pk
		sol.Nodes = pk.Nodes
	}
	sol.Utility = s.utility(s.Items, replicas, sol.Nodes)
	if sol.Feasible() && s.planned() {
		for p := range s.Places {
			for {
				more := s.withNodes(sol, p, s.Places[p].Zones)
				if !more.Feasible() || more.Utility.Total <= sol.Utility.Total+better {
					break
				}
				sol = more
			}
		}
	}
	return sol, true
}

// withNodes is a solution with so many more nodes of a place, or fewer.
func (s *search) withNodes(sol Solution, at int, more int32) Solution {
	sol.Nodes = slices.Clone(sol.Nodes)
	sol.Nodes[at] += more
	sol.Utility = s.utility(s.Items, sol.Replicas, sol.Nodes)
	switch {
	case sol.Nodes[at] < sol.Packing.Nodes[at]:
		sol.Packing.Infeasible = "the pods need " + nodes(sol.Packing.Nodes[at])
		sol.Packing.Unplaced = 1
	case s.MaxNodes[at] >= 0 && sol.Nodes[at] > s.MaxNodes[at]:
		sol.Packing.Infeasible = s.Limit[at]
	case s.TooDear(sol.Nodes) != "":
		sol.Packing.Infeasible = s.TooDear(sol.Nodes)
	}
	return sol
}

// Cost of all nodes, USD/h.
func (p Problem) Cost(nodes []int32) float64 {
	cost := p.FixedCost
	for i, at := range p.Places {
		if at.Zones > 0 {
			cost += float64(nodes[i]) * at.Price
		}
	}
	return cost
}

// TooDear says that nodes of several places cost too much together; empty if they don't.
func (p Problem) TooDear(nodes []int32) string {
	if p.MaxCost <= 0 || p.Cost(nodes) <= p.MaxCost+Epsilon {
		return ""
	}
	return fmt.Sprintf("the policy allows $%.2f/h", p.MaxCost)
}

// count is the number of vectors, or more than enumerable.
func (s *search) count() int {
	n := 1
	for _, it := range s.Items {
		if n *= int(it.Hi-it.Lo) + 1; n > enumerable || n <= 0 {
			return enumerable + 1
		}
	}
	return n
}

// enumerate looks at every vector that could beat the best one. It is false
// when the budget was spent first.
func (s *search) enumerate() bool {
	if s.Pack == nil {
		return true
	}
	replicas := make([]int32, len(s.Items))
	for i, it := range s.Items {
		replicas[i] = it.Lo
	}
	for {
		switch {
		case s.best.Feasible() && s.ceiling(replicas) < s.best.Utility.Total-2*better:
			// Nor can one that has no less of anything. All that come before the item after
			// the first above its least are such.
			for i, it := range s.Items {
				last := replicas[i] > it.Lo
				if replicas[i] = it.Hi; last {
					break
				}
			}
		case !s.best.Feasible() || s.hope(replicas) > s.best.Utility.Total-better:
			sol, ok := s.evaluate(slices.Clone(replicas), "")
			if !ok {
				return false
			}
			s.offer(sol, false)
			if sol.Feasible() && sol.Packing.Nodes != nil {
				// A packing of more is also one of less.
				s.packed = append(s.packed[:min(1, len(s.packed))], packed{sol.Replicas, sol.Packing.Nodes})
			}
		}
		if !s.advance(replicas) {
			return true
		}
	}
}

// advance makes the next vector of one, the first item's number changing fastest; false
// after the last.
func (s *search) advance(replicas []int32) bool {
	for i, it := range s.Items {
		if replicas[i]++; replicas[i] <= it.Hi {
			return true
		}
		replicas[i] = it.Lo
	}
	return false
}

// move is a step to a neighbour.
type move struct {
	up, down int // item, −1 for none
	hope     float64
	// promise is about how much U gains at most: a replica less saves no more than the node
	// that would hold it by itself.
	promise float64
}

func (m move) apply(replicas []int32) []int32 {
	out := slices.Clone(replicas)
	if m.up >= 0 {
		out[m.up]++
	}
	if m.down >= 0 {
		out[m.down]--
	}
	return out
}

func (m move) note(items []Item) string {
	switch {
	case m.down < 0:
		return fmt.Sprintf("%s +1 replica", items[m.up].Key)
	case m.up < 0:
		return fmt.Sprintf("%s −1 replica", items[m.down].Key)
	}
	return fmt.Sprintf("%s +1 replica, %s −1", items[m.up].Key, items[m.down].Key)
}

// exchanges are tried between the items of a problem no larger than this.
const exchanges = 12

// climb moves to better neighbours until there is none. It is false when the
// budget was spent first, or some promised less than a packing is worth.
func (s *search) climb() bool {
	if s.Pack == nil {
		return true
	}
	for {
		improved, skipped := false, false
		moves := s.moves()
		for _, m := range moves {
			if m.hope <= s.best.Utility.Total+better && s.best.Feasible() {
				break // in order of hope: the rest can't either
			}
			if s.best.Feasible() && m.promise <= worthPacking && s.budget < len(moves) {
				skipped = true
				continue
			}
			sol, ok := s.evaluate(m.apply(s.best.Replicas), m.note(s.Items))
			if !ok {
				return false
			}
			if s.offer(sol, false) {
				improved = true
				break
			}
		}
		if !improved {
			return !skipped
		}
	}
}

// moves from the best solution, the most promising first.
func (s *search) moves() []move {
	var up, down []int
	for i, it := range s.Items {
		if s.best.Replicas[i] < it.Hi {
			up = append(up, i)
		}
		if s.best.Replicas[i] > it.Lo {
			down = append(down, i)
		}
	}
	// Hope for a neighbour: that of the best solution, with the parts of the
	// items that change exchanged. A packing of one replica more is also one of
	// those without it, so that it takes no fewer nodes than they do; the nodes
	// of a neighbour with fewer of something are bounded once for all, by what
	// is asked for with every item one replica smaller.
	least := slices.Clone(s.best.Replicas)
	var base float64
	for i := range least {
		base += s.part(i, least[i])
		least[i]--
	}
	asMany, fewer := base, base-s.leastCost(least)
	for p, n := range s.best.Packing.Nodes {
		asMany -= s.nodeCost(p, n)
	}
	var moves []move
	add := func(m move) {
		m.hope = asMany
		if m.down >= 0 {
			m.hope, m.promise = fewer, s.ownNode(s.Items[m.down])
		}
		change := func(i int, by int32) {
			r, on := s.best.Replicas[i], s.Items[i].nodes(s.best.Nodes)
			onMany, onThese := s.part(i, r+by)-s.part(i, r), s.partOn(i, r+by, on)-s.partOn(i, r, on)
			m.hope += onMany
			m.promise += max(onMany, onThese)
		}
		if m.up >= 0 {
			change(m.up, 1)
		}
		if m.down >= 0 {
			change(m.down, -1)
		}
		moves = append(moves, m)
	}
	for _, i := range up {
		add(move{up: i, down: -1})
	}
	for _, i := range down {
		add(move{up: -1, down: i})
	}
	if len(s.Items) <= exchanges {
		for _, i := range up {
			for _, j := range down {
				if i != j {
					add(move{up: i, down: j})
				}
			}
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int { return cmp.Compare(b.hope, a.hope) })
	return moves
}

func vectorKey(v []int32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24))
	}
	return string(b)
}
