package choice

import (
	"fmt"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// stay goes back to present replicas if what is gained by leaving them is not
// worth its price, or what is saved not worth its loss, by the factor inertia.
// As gain and price are both counted with nodes as they really come, this keeps
// noise in demand from moving replicas to and fro across a boundary where both
// are equal. Where it is worth it for all together, each one for which it isn't by
// itself still stays, on the same nodes.
func (s *search) stay() bool {
	var could []int
	inertia := math.Inf(1)
	for i, it := range s.Items {
		if it.Inertia > 0 && it.Stay >= it.Lo && it.Stay <= it.Hi && it.Stay != s.best.Replicas[i] {
			could = append(could, i)
			inertia = min(inertia, it.Inertia)
		}
	}
	if len(could) == 0 || !s.best.Feasible() {
		return false
	}
	sol, ok := s.staying(could)
	if !ok {
		return false
	}
	benefit := func(u api.Utility) float64 {
		return s.Weights.Performance*u.Performance + s.Weights.Resilience*u.Resilience
	}
	gained := benefit(s.best.Utility) - benefit(sol.Utility)
	paid := s.Weights.Cost * (s.best.Utility.Cost - sol.Utility.Cost)
	if !worthLeaving(gained, paid, inertia) {
		s.took(sol)
		return true
	}
	could = slices.DeleteFunc(could, func(i int) bool {
		it := s.Items[i]
		r, on := s.best.Replicas[i], it.nodes(s.best.Nodes)
		paid := float64(r-it.Stay) * s.podPrice(it)
		gained := s.partOn(i, r, on) - s.partOn(i, it.Stay, on) + paid
		return worthLeaving(gained, paid, it.Inertia)
	})
	if len(could) == 0 {
		return false
	}
	if sol, ok = s.staying(could); !ok || !sol.sameNodes(s.best) {
		return false
	}
	s.took(sol)
	return true
}

// worthLeaving reports whether what is gained by leaving present replicas is worth what is
// paid for it, or, where that is less, what is saved worth what is lost.
func worthLeaving(gained, paid, inertia float64) bool {
	if paid >= 0 {
		return gained > inertia*paid+better
	}
	return -paid > inertia*-gained+better
}

// staying is the best solution with the present replicas of some items; false if it has
// no place for all.
func (s *search) staying(items []int) (Solution, bool) {
	replicas := slices.Clone(s.best.Replicas)
	for _, i := range items {
		replicas[i] = s.Items[i].Stay
	}
	sol, ok := s.evaluate(replicas, "replicas as they are")
	return sol, ok && sol.Feasible()
}

// took makes a solution the best in spite of its utility.
func (s *search) took(sol Solution) {
	best := s.best
	best.Note = stayedNote
	s.best = sol
	s.lose(best)
}

// stayedNote is what a plan says of the best one that it stayed in spite of.
const stayedNote = "highest utility, but by less than the tolerance for changing replicas"

// shown is how many neighbours are packed only to be shown, of those that promise anything: a
// cycle's time goes into packings.
const shown = 3

// neighbours evaluates the most promising neighbours of the best solution so
// that the plan can show what it was chosen over.
func (s *search) neighbours() {
	if s.keep == 0 {
		return
	}
	for p, at := range s.Places {
		if at.Zones == 0 {
			continue
		}
		on := ""
		if len(s.Places) > 1 {
			on = " on " + at.Pool
		}
		more := s.withNodes(s.best, p, at.Zones)
		more.Note = "+" + nodes(at.Zones) + on
		s.lose(more)
		if s.best.Nodes[p] >= at.Zones {
			fewer := s.withNodes(s.best, p, -at.Zones)
			fewer.Note = "−" + nodes(at.Zones) + on
			s.lose(fewer)
		}
	}
	moves := s.moves()
	for n, m := range moves {
		if n == min(s.keep, shown) || math.Abs(m.promise) <= worthPacking && s.budget < len(moves) {
			break
		}
		sol, ok := s.evaluate(m.apply(s.best.Replicas), m.note(s.Items))
		if !ok {
			break
		}
		s.lose(sol)
	}
	for i, it := range s.Items {
		if i == s.keep {
			break
		}
		for _, m := range []move{{up: i, down: -1}, {up: -1, down: i}} {
			replicas, limit := s.best.Replicas[i]+1, fmt.Sprintf("at most %d (%s)", it.Hi, it.HiBinding)
			if m.down >= 0 {
				replicas, limit = s.best.Replicas[i]-1, fmt.Sprintf("at least %d (%s)", it.Lo, it.LoBinding)
			}
			if replicas < 0 || replicas >= it.Lo && replicas <= it.Hi {
				continue
			}
			sol := Solution{Replicas: m.apply(s.best.Replicas), Nodes: s.best.Nodes, Note: m.note(s.Items)}
			sol.Utility = s.utility(s.Items, sol.Replicas, sol.Nodes)
			sol.Packing.Infeasible = fmt.Sprintf("%s must have %s", it.Key, limit)
			sol.Packing.Unplaced = 1
			s.lose(sol)
		}
	}
}

// nodes is a number of them: "1 node", "2 nodes".
func nodes(n int32) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
