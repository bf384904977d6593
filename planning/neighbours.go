package planning

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
// are equal.
func (s *search) stay() bool {
	inertia := math.Inf(1)
	replicas := slices.Clone(s.best.replicas)
	for i, it := range s.items {
		if it.inertia > 0 && it.stay >= it.lo && it.stay <= it.hi && it.stay != replicas[i] {
			replicas[i] = it.stay
			inertia = min(inertia, it.inertia)
		}
	}
	if math.IsInf(inertia, 1) || !s.best.feasible() {
		return false
	}
	sol, ok := s.evaluate(replicas, "replicas as they are")
	if !ok || !sol.feasible() {
		return false
	}
	benefit := func(u api.Utility) float64 {
		return s.weights.Performance*u.Performance + s.weights.Resilience*u.Resilience
	}
	gained := benefit(s.best.utility) - benefit(sol.utility)
	paid := s.weights.Cost * (s.best.utility.Cost - sol.utility.Cost)
	switch {
	case paid >= 0 && gained > inertia*paid+better, paid < 0 && -paid > inertia*-gained+better:
		return false
	}
	best := s.best
	best.note = stayedNote
	s.best = sol
	s.lose(best)
	return true
}

// stayedNote is what a plan says of the best one that it stayed in spite of.
const stayedNote = "highest utility, but by less than the tolerance for changing replicas"

// shown is how many neighbours are packed only to be shown: a cycle's time goes
// into packings.
const shown = 3

// neighbours evaluates the most promising neighbours of the best solution so
// that the plan can show what it was chosen over.
func (s *search) neighbours() {
	if s.keep == 0 {
		return
	}
	for p, at := range s.places {
		if at.zones == 0 {
			continue
		}
		on := ""
		if len(s.places) > 1 {
			on = " on " + at.pool
		}
		more := s.withNodes(s.best, p, at.zones)
		more.note = fmt.Sprintf("+%d nodes%s", at.zones, on)
		s.lose(more)
		if s.best.nodes[p] >= at.zones {
			fewer := s.withNodes(s.best, p, -at.zones)
			fewer.note = fmt.Sprintf("−%d nodes%s", at.zones, on)
			s.lose(fewer)
		}
	}
	for n, m := range s.moves() {
		if n == min(s.keep, shown) {
			break
		}
		sol, ok := s.evaluate(m.apply(s.best.replicas), m.note(s.items))
		if !ok {
			break
		}
		s.lose(sol)
	}
	for i, it := range s.items {
		if i == s.keep {
			break
		}
		for _, m := range []move{{up: i, down: -1}, {up: -1, down: i}} {
			replicas, bound, binding := s.best.replicas[i]+1, it.hi, it.hiBinding
			if m.down >= 0 {
				replicas, bound, binding = s.best.replicas[i]-1, it.lo, it.loBinding
			}
			if replicas < 0 || replicas >= it.lo && replicas <= it.hi {
				continue
			}
			sol := solution{replicas: m.apply(s.best.replicas), nodes: s.best.nodes, note: m.note(s.items)}
			sol.utility = s.utility(s.items, sol.replicas, sol.nodes)
			sol.packing.infeasible = fmt.Sprintf("%s: %d is beyond %d (%s)", it.key, replicas, bound, binding)
			sol.packing.unplaced = 1
			s.lose(sol)
		}
	}
}
