package planning

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

// problem is the choice under one assignment.
type problem struct {
	terms
	items []item
	// fixedCost is USD/h of nodes that no choice here changes.
	fixedCost float64
	// maxNodes each place may have and why, negative for no limit.
	maxNodes []int32
	limit    []string
	// maxCost of all nodes where there are several places, USD/h; 0 for no limit.
	maxCost float64
	// pack places all pods, with nodes for at least these replicas. Nil where
	// there are no pools.
	pack func(nodeReplicas []int32) (packing, error)
}

// packing is what the NodePlanner made of a vector of replicas.
type packing struct {
	nodes      []int32 // of each place
	plan       api.NodePlan
	infeasible string
	unplaced   int32
}

// solution is a point of the search.
type solution struct {
	replicas []int32
	nodes    []int32 // of each place, not to be written to
	packing  packing
	utility  api.Utility
	note     string
}

// sameNodes reports whether two solutions are on as many nodes.
func (s solution) sameNodes(o solution) bool { return slices.Equal(s.nodes, o.nodes) }

func (s solution) feasible() bool { return s.packing.infeasible == "" }

// ranks orders solutions: feasible first, then fewer pods without a place, then
// higher utility, then lower cost, so that equals don't depend on their order.
func ranks(a, b solution) int {
	if c := cmp.Compare(a.packing.unplaced*boolean(!a.feasible()), b.packing.unplaced*boolean(!b.feasible())); c != 0 {
		return c
	}
	if c := cmp.Compare(boolean(!a.feasible()), boolean(!b.feasible())); c != 0 {
		return c
	}
	// In steps, not by difference: what differs by less than a step from the next would
	// make an order that runs in a circle, and the climb with it.
	steps := func(u float64) float64 { return math.Round(u / better) }
	return cmp.Or(
		cmp.Compare(steps(b.utility.Total), steps(a.utility.Total)),
		cmp.Compare(steps(a.utility.Cost), steps(b.utility.Cost)),
		slices.Compare(a.replicas, b.replicas),
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
	problem
	budget   int // packings left
	packings int
	memo     map[string]packing
	best     solution
	losers   []solution
	keep     int // how many losers
	// packed are what enumeration has packed: the least of everything, and last.
	packed []packed
	err    error
}

// packed is a vector and the nodes of each place that its pods take.
type packed struct{ replicas, nodes []int32 }

// result of a search.
type result struct {
	best                 solution
	losers               []solution // in order of rank
	packings             int
	complete, exhaustive bool
	// stayed is true when the best plan of all did not pay enough for leaving
	// what there is.
	stayed bool
}

// enumerable is how many replica vectors are few enough to look at all.
const enumerable = 20_000

// solve looks for the best solution. It returns an error only when nothing
// could be packed at all.
func (p problem) solve(budget, keep int) (result, error) {
	s := &search{problem: p, budget: max(budget, 1), memo: map[string]packing{}, keep: keep}
	s.start()
	if s.err != nil {
		return result{}, s.err
	}
	r := result{}
	if s.count() <= enumerable {
		r.exhaustive = s.enumerate()
		r.complete = r.exhaustive
	}
	if !r.exhaustive {
		r.complete = s.climb()
	}
	r.stayed = s.stay()
	s.neighbours()
	r.best, r.packings = s.best, s.packings
	r.losers = s.ranked()
	for i := range r.losers {
		// Not only the best of all was left for staying.
		if l := &r.losers[i]; r.stayed && ranks(*l, r.best) < 0 && l.note != stayedNote {
			l.note = strings.TrimPrefix(l.note+"; better by less than the tolerance for changing replicas", "; ")
		}
	}
	return r, nil
}

// start evaluates the separable optimum for nodes at several fractions of their
// linear price (a node that is there anyway is free, one that has to be added
// is not), and the least of everything in case none of these is feasible.
func (s *search) start() {
	least := make([]int32, len(s.items))
	for i, it := range s.items {
		least[i] = it.lo
	}
	for n, factor := range []float64{1, 0.5, 0} {
		replicas := make([]int32, len(s.items))
		for i, it := range s.items {
			replicas[i] = s.terms.best(it, it.lo, it.hi, factor, 1)
		}
		sol, ok := s.evaluate(replicas, "separable optimum")
		if !ok {
			return
		}
		s.offer(sol, n == 0)
		if s.pack == nil {
			return // without nodes the separable optimum is the optimum
		}
	}
	if !s.best.feasible() {
		if sol, ok := s.evaluate(least, "least replicas"); ok {
			s.offer(sol, false)
		}
	}
}

// offer takes a solution as the best or as a loser.
func (s *search) offer(sol solution, first bool) bool {
	if first {
		s.best = sol
		return true
	}
	if slices.Equal(sol.replicas, s.best.replicas) && sol.sameNodes(s.best) {
		return false
	}
	if ranks(sol, s.best) < 0 {
		s.lose(s.best)
		s.best = sol
		return true
	}
	s.lose(sol)
	return false
}

func (s *search) lose(sol solution) {
	if s.keep == 0 {
		return
	}
	s.losers = append(s.losers, sol)
	if len(s.losers) >= 8*s.keep+64 {
		s.losers = s.ranked()
	}
}

// ranked returns the best of the losers, without doubles.
func (s *search) ranked() []solution {
	slices.SortStableFunc(s.losers, ranks)
	out := s.losers[:0]
	for _, l := range s.losers {
		same := func(o solution) bool { return o.sameNodes(l) && slices.Equal(o.replicas, l.replicas) }
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
func (s *search) evaluate(replicas []int32, note string) (solution, bool) {
	sol := solution{replicas: replicas, nodes: make([]int32, len(s.places)), note: note}
	if s.pack != nil {
		nodeReplicas := make([]int32, len(replicas))
		for i, it := range s.items {
			nodeReplicas[i] = max(replicas[i], it.nodeMin)
		}
		key := vectorKey(nodeReplicas)
		pk, known := s.memo[key]
		if !known {
			if s.budget <= 0 {
				return solution{}, false
			}
			s.budget--
			s.packings++
			var err error
			if pk, err = s.pack(nodeReplicas); err != nil {
				s.err = err
				return solution{}, false
			}
			s.memo[key] = pk
		}
		sol.packing = pk
		sol.nodes = pk.nodes
	}
	sol.utility = s.utility(s.items, replicas, sol.nodes)
	if sol.feasible() && s.planned() {
		for p := range s.places {
			for {
				more := s.withNodes(sol, p, s.places[p].zones)
				if !more.feasible() || more.utility.Total <= sol.utility.Total+better {
					break
				}
				sol = more
			}
		}
	}
	return sol, true
}

// withNodes is a solution with so many more nodes of a place, or fewer.
func (s *search) withNodes(sol solution, at int, more int32) solution {
	sol.nodes = slices.Clone(sol.nodes)
	sol.nodes[at] += more
	sol.utility = s.utility(s.items, sol.replicas, sol.nodes)
	switch {
	case sol.nodes[at] < sol.packing.nodes[at]:
		sol.packing.infeasible = fmt.Sprintf("the pods need %d nodes", sol.packing.nodes[at])
		sol.packing.unplaced = 1
	case s.maxNodes[at] >= 0 && sol.nodes[at] > s.maxNodes[at]:
		sol.packing.infeasible = s.limit[at]
	case s.dear(sol.nodes) != "":
		sol.packing.infeasible = s.dear(sol.nodes)
	}
	return sol
}

// cost of all nodes, USD/h.
func (p problem) cost(nodes []int32) float64 {
	cost := p.fixedCost
	for i, at := range p.places {
		if at.zones > 0 {
			cost += float64(nodes[i]) * at.price
		}
	}
	return cost
}

// dear says that nodes of several places cost too much together; empty if they don't.
func (p problem) dear(nodes []int32) string {
	if p.maxCost <= 0 || p.cost(nodes) <= p.maxCost+epsilon {
		return ""
	}
	return fmt.Sprintf("the policy allows $%.2f/h", p.maxCost)
}

// fewest is a lower bound on the nodes of a place that a vector needs: what its
// resources add up to, one by one, rounded to zones, and no fewer than a vector took
// that asks for no more of anything.
func (s *search) fewest(replicas []int32, at int) int32 {
	var sums [len(item{}.shares)]float64
	for i, it := range s.items {
		if it.place != at {
			continue
		}
		for r, share := range it.shares {
			sums[r] += float64(max(replicas[i], it.nodeMin)) * share
		}
	}
	n, zones := ceil(slices.Max(sums[:])), s.places[at].zones
	n = (n + zones - 1) / zones * zones
	for _, k := range s.packed {
		if k.nodes[at] > n && noMore(k.replicas, replicas) {
			n = k.nodes[at]
		}
	}
	return n
}

// noMore reports whether a vector asks for no more of anything than another.
func noMore(a, b []int32) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// hope is an upper bound on the total utility of a vector: as if it needed the
// fewest nodes and were as resilient as on many.
func (s *search) hope(replicas []int32) float64 {
	total := -s.leastCost(replicas)
	for i := range s.items {
		total += s.part(i, replicas[i])
	}
	return total
}

// leastCost is what the fewest nodes for a vector take from U.
func (s *search) leastCost(replicas []int32) (sum float64) {
	if !s.planned() {
		return 0
	}
	for p := range s.places {
		sum += s.nodeCost(p, s.fewest(replicas, p))
	}
	return sum
}

// nodeCost is what nodes of a place take from U.
func (s *search) nodeCost(at int, nodes int32) float64 {
	return s.weights.Cost * float64(nodes) * s.places[at].price / s.reference / 2
}

// part is the most that one item can contribute to U, nodes aside.
func (s *search) part(i int, replicas int32) float64 {
	it := s.items[i]
	at := &s.places[it.place]
	return s.weights.Performance*it.weight*at.speedRatio*it.responsiveness(1, replicas) +
		s.weights.Resilience*it.weight*at.survival(replicas, math.MaxInt32) -
		float64(replicas)*s.podPrice(it)
}

// count is the number of vectors, or more than enumerable.
func (s *search) count() int {
	n := 1
	for _, it := range s.items {
		if n *= int(it.hi-it.lo) + 1; n > enumerable || n <= 0 {
			return enumerable + 1
		}
	}
	return n
}

// enumerate looks at every vector that could beat the best one. It is false
// when the budget was spent first.
func (s *search) enumerate() bool {
	if s.pack == nil {
		return true
	}
	replicas := make([]int32, len(s.items))
	for i, it := range s.items {
		replicas[i] = it.lo
	}
	for {
		if !s.best.feasible() || s.hope(replicas) > s.best.utility.Total-better {
			sol, ok := s.evaluate(slices.Clone(replicas), "")
			if !ok {
				return false
			}
			s.offer(sol, false)
			if sol.feasible() && sol.packing.nodes != nil {
				// A packing of more is also one of less.
				s.packed = append(s.packed[:min(1, len(s.packed))], packed{sol.replicas, sol.packing.nodes})
			}
		}
		i := 0
		for ; i < len(replicas); i++ {
			if replicas[i]++; replicas[i] <= s.items[i].hi {
				break
			}
			replicas[i] = s.items[i].lo
		}
		if i == len(replicas) {
			return true
		}
	}
}

// move is a step to a neighbour.
type move struct {
	up, down int // item, −1 for none
	hope     float64
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

func (m move) note(items []item) string {
	switch {
	case m.down < 0:
		return fmt.Sprintf("%s +1 replica", items[m.up].key)
	case m.up < 0:
		return fmt.Sprintf("%s −1 replica", items[m.down].key)
	}
	return fmt.Sprintf("%s +1 replica, %s −1", items[m.up].key, items[m.down].key)
}

// exchanges are tried between the items of a problem no larger than this.
const exchanges = 12

// climb moves to better neighbours until there is none. It is false when the
// budget was spent first.
func (s *search) climb() bool {
	if s.pack == nil {
		return true
	}
	for {
		improved := false
		for _, m := range s.moves() {
			if m.hope <= s.best.utility.Total+better && s.best.feasible() {
				break // in order of hope: the rest can't either
			}
			sol, ok := s.evaluate(m.apply(s.best.replicas), m.note(s.items))
			if !ok {
				return false
			}
			if s.offer(sol, false) {
				improved = true
				break
			}
		}
		if !improved {
			return true
		}
	}
}

// moves from the best solution, the most promising first.
func (s *search) moves() []move {
	var up, down []int
	for i, it := range s.items {
		if s.best.replicas[i] < it.hi {
			up = append(up, i)
		}
		if s.best.replicas[i] > it.lo {
			down = append(down, i)
		}
	}
	// Hope for a neighbour: that of the best solution, with the parts of the
	// items that change exchanged. A packing of one replica more is also one of
	// those without it, so that it takes no fewer nodes than they do; the nodes
	// of a neighbour with fewer of something are bounded once for all, by what
	// is asked for with every item one replica smaller.
	least := slices.Clone(s.best.replicas)
	var base float64
	for i := range least {
		base += s.part(i, least[i])
		least[i]--
	}
	asMany, fewer := base, base-s.leastCost(least)
	for p, n := range s.best.packing.nodes {
		asMany -= s.nodeCost(p, n)
	}
	var moves []move
	add := func(m move) {
		m.hope = asMany
		if m.down >= 0 {
			m.hope = fewer
		}
		if m.up >= 0 {
			r := s.best.replicas[m.up]
			m.hope += s.part(m.up, r+1) - s.part(m.up, r)
		}
		if m.down >= 0 {
			r := s.best.replicas[m.down]
			m.hope += s.part(m.down, r-1) - s.part(m.down, r)
		}
		moves = append(moves, m)
	}
	for _, i := range up {
		add(move{up: i, down: -1})
	}
	for _, i := range down {
		add(move{up: -1, down: i})
	}
	if len(s.items) <= exchanges {
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
