package planning

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// byResources packs by what resources add up to, whole rounds of zones. A lumpy one
// wastes what pods leave free of pairs. As of any packing, more pods never take fewer
// nodes.
func (p *problem) byResources(lumpy bool) {
	p.pack = func(n []int32) (packing, error) {
		s := search{problem: *p}
		s.items = slices.Clone(p.items)
		if lumpy {
			n = slices.Clone(n)
			for i := range n {
				n[i] += n[i] % 2
				s.items[i].nodeMin += s.items[i].nodeMin % 2
			}
		}
		var out packing
		for at, place := range p.places {
			nodes := s.fewest(n, at)
			if most := p.maxNodes[at]; most >= 0 && nodes > most {
				out.infeasible, out.unplaced = p.limit[at], out.unplaced+nodes-most
				nodes = most / place.zones * place.zones
			}
			out.nodes = append(out.nodes, nodes)
		}
		return out, nil
	}
}

// small draws a problem on one pool or two whose every vector can be looked at.
func small(t *rapid.T) problem {
	p := problem{
		terms: terms{
			weights: api.Weights{
				Performance: rapid.Float64Range(0, 1).Draw(t, "performance"),
				Cost:        rapid.Float64Range(0, 1).Draw(t, "cost"),
				Resilience:  rapid.Float64Range(0, 1).Draw(t, "resilience"),
			},
		},
	}
	for range rapid.IntRange(1, 2).Draw(t, "places") {
		at := place{
			speedRatio: rapid.Float64Range(0.2, 1).Draw(t, "speed"),
			price:      rapid.Float64Range(0.01, 1).Draw(t, "price"),
			zones:      rapid.Int32Range(1, 3).Draw(t, "zones"),
		}
		most, why := int32(-1), ""
		if rapid.Bool().Draw(t, "limited") {
			most, why = rapid.Int32Range(1, 12).Draw(t, "maxNodes")*at.zones, "limit"
		}
		p.places, p.maxNodes, p.limit = append(p.places, at), append(p.maxNodes, most), append(p.limit, why)
	}
	n := rapid.IntRange(1, 3).Draw(t, "items")
	var weights float64
	for i := range n {
		it := item{key: api.Key{Name: fmt.Sprint(i)}, place: rapid.IntRange(0, len(p.places)-1).Draw(t, "place")}
		it.lo = rapid.Int32Range(0, 4).Draw(t, "lo")
		it.hi = it.lo + rapid.Int32Range(0, 6).Draw(t, "span")
		it.nodeMin = rapid.Int32Range(0, it.hi+2).Draw(t, "nodeMin")
		it.load = rapid.Float64Range(0, float64(it.hi)).Draw(t, "load")
		it.weight = rapid.Float64Range(0.01, 1).Draw(t, "weight")
		if rapid.Bool().Draw(t, "growth is known") {
			it.tail = rapid.Float64Range(1, 60).Draw(t, "tail")
		}
		weights += it.weight
		for r := range it.shares {
			it.shares[r] = rapid.Float64Range(0.01, 0.6).Draw(t, "share")
		}
		it.share = slices.Max(it.shares[:])
		p.items = append(p.items, it)
	}
	p.reference = 0.01
	for i := range p.items {
		p.items[i].weight /= weights
		p.reference += 2 * p.items[i].load * p.items[i].share * p.places[p.items[i].place].price
	}
	p.byResources(rapid.Bool().Draw(t, "lumpy"))
	return p
}

// bruteForce is the dumb way: every vector on every number of nodes.
func bruteForce(p problem) (best solution, found bool) {
	s := search{problem: p, budget: 1 << 30, memo: map[string]packing{}}
	replicas := make([]int32, len(p.items))
	var walk func(i int)
	walk = func(i int) {
		if i < len(p.items) {
			for r := p.items[i].lo; r <= p.items[i].hi; r++ {
				replicas[i] = r
				walk(i + 1)
			}
			return
		}
		n := make([]int32, len(replicas))
		for j := range n {
			n[j] = max(replicas[j], p.items[j].nodeMin)
		}
		pk, err := p.pack(n)
		if err != nil || pk.infeasible != "" {
			return
		}
		base := solution{replicas: slices.Clone(replicas), nodes: pk.nodes, packing: pk}
		var add func(sol solution, at int)
		add = func(sol solution, at int) {
			if at == len(p.places) {
				if sol.feasible() && (!found || ranks(sol, best) < 0) {
					best, found = sol, true
				}
				return
			}
			for rounds := range int32(31) {
				add(s.withNodes(sol, at, rounds*p.places[at].zones), at+1)
			}
		}
		add(base, 0)
	}
	walk(0)
	return best, found
}

func TestSmallProblemsAreSolvedLikeByBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		want, feasible := bruteForce(p)
		got, err := p.solve(5000, 4)
		if err != nil {
			t.Fatal(err)
		}
		if !got.exhaustive || !got.complete {
			t.Fatalf("exhaustive %v, complete %v with a large budget", got.exhaustive, got.complete)
		}
		if got.best.feasible() != feasible {
			t.Fatalf("feasible %v, want %v", got.best.feasible(), feasible)
		}
		if feasible && want.utility.Total-got.best.utility.Total > 1e-6 {
			t.Fatalf("U = %v by %v on %d nodes; brute force has %v by %v on %d", got.best.utility.Total,
				got.best.replicas, got.best.nodes, want.utility.Total, want.replicas, want.nodes)
		}
	})
}

// An order that runs in a circle would let the climb run in one: utilities a little
// apart are equal one by one, and the first and the last are not.
func TestRanksAreAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s [3]solution
		for i := range s {
			s[i].replicas = []int32{rapid.Int32Range(0, 3).Draw(t, "replicas")}
			s[i].utility.Total = better / 4 * float64(rapid.IntRange(0, 12).Draw(t, "utility"))
			s[i].utility.Cost = better / 4 * float64(rapid.IntRange(0, 12).Draw(t, "cost"))
		}
		if a, b, c := s[0], s[1], s[2]; ranks(a, b) <= 0 && ranks(b, c) <= 0 && ranks(a, c) > 0 {
			t.Fatalf("%+v is not after %+v, nor that after %+v, but the first is after the last", a, b, c)
		}
	})
}

// The local search alone, as large problems get it: no neighbour may be
// better, and the gap to the true optimum is what its neighbourhood leaves.
func TestNoNeighbourOfALocalOptimumIsBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		s := &search{problem: p, budget: 5000, memo: map[string]packing{}, keep: 4}
		s.start()
		if s.err != nil || !s.climb() {
			t.Fatalf("the search did not complete: %v", s.err)
		}
		if !s.best.feasible() {
			return
		}
		for i, it := range p.items {
			for _, d := range []int32{-1, 1} {
				n := slices.Clone(s.best.replicas)
				if n[i] += d; n[i] < it.lo || n[i] > it.hi {
					continue
				}
				sol, ok := s.evaluate(n, "")
				if ok && sol.feasible() && sol.utility.Total > s.best.utility.Total+1e-6 {
					t.Fatalf("%v on %d nodes has U = %v, its neighbour %v on %d has %v", s.best.replicas,
						s.best.nodes, s.best.utility.Total, n, sol.nodes, sol.utility.Total)
				}
			}
		}
		for at, place := range p.places {
			for _, more := range []int32{-place.zones, place.zones} {
				if sol := s.withNodes(s.best, at, more); sol.feasible() && sol.utility.Total > s.best.utility.Total+1e-6 {
					t.Fatalf("%d nodes have U = %v, %d have %v", s.best.nodes, s.best.utility.Total, sol.nodes, sol.utility.Total)
				}
			}
		}
	})
}

func TestRaisingTheWeightOfCostNeverRaisesCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		before, err := p.solve(5000, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.weights.Cost += rapid.Float64Range(0.01, 2).Draw(t, "more")
		after, err := p.solve(5000, 0)
		if err != nil {
			t.Fatal(err)
		}
		if before.best.feasible() && after.best.utility.Cost > before.best.utility.Cost+1e-6 {
			t.Fatalf("cost rose from %v to %v", before.best.utility.Cost, after.best.utility.Cost)
		}
	})
}

func TestUtilityIsConcaveInReplicasFromTheLoadOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		it := p.items[0]
		on := p.places[it.place]
		at := func(r int32) float64 {
			n := float64(max(r, it.nodeMin)) * it.share // linear nodes
			u := p.weights.Performance*it.weight*on.speedRatio*it.responsiveness(1, r) -
				p.weights.Cost*(float64(r)*it.share+n)*on.price/p.reference/2
			if r > 0 { // of enough nodes, zones aside
				u += p.weights.Resilience * it.weight * (1 - 1/float64(r)) * 2 / 3
			}
			return u
		}
		from := max(ceil(it.load), 1)
		if it.tail > 0 {
			from = max(ceil(it.load/Saturation), 1)
		}
		for r := from + 1; r < from+40; r++ {
			if up, down := at(r+1)-at(r), at(r)-at(r-1); up > down+1e-9 {
				t.Fatalf("at %d replicas one more gains %v, the one before gained %v", r, up, down)
			}
		}
		best := p.best(it, from, from+40, 1, 1)
		for r := from; r <= from+40; r++ {
			if at(r) > at(best)+1e-9 {
				t.Fatalf("best says %d with %v, %d has %v", best, at(best), r, at(r))
			}
		}
	})
}

// Performance is what users feel: the share of time that is served in time.
func TestResponsiveness(t *testing.T) {
	known := item{load: 8.5, tail: growthTail(1.5, 0.999)}
	for name, c := range map[string]struct {
		item     item
		demand   float64
		replicas int32
		want     float64
	}{
		"demand that saturates is late half of the time": {known, 1, 10, 0.5},
		"room for what the objective is about keeps it":  {known, 1, 15, 0.999},
		"twice the demand needs twice the replicas":      {known, 2, 30, 0.999},
		"far too few serve nothing in time":              {known, 1, 2, 0},
		"none":                                           {known, 1, 0, 0},
		"nothing known of growth, half used":             {item{load: 5}, 1, 10, 0.5},
		"nothing known of growth, full":                  {item{load: 5}, 2, 10, 0},
	} {
		if got := c.item.responsiveness(c.demand, c.replicas); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Each term of the utility decides something: without it another plan is best.
func TestEachTermDecides(t *testing.T) {
	all := api.Weights{Performance: 1, Cost: 0.2, Resilience: 0.2}
	// A slow pool of one zone, and one of three zones that is fast and dear.
	slow := place{pool: "slow", speedRatio: 0.5, price: 0.4, zones: 1}
	fast := place{pool: "fast", speedRatio: 1, price: 1, zones: 3}
	best := func(w api.Weights, load float64, at place) (result, float64) {
		p := problem{terms: terms{weights: w, places: []place{at}, reference: 10}, maxNodes: []int32{-1}, limit: []string{""}}
		it := item{key: api.Key{Name: "web"}, lo: 1, hi: 30, load: load, tail: growthTail(3, 0.999), weight: 1, share: 0.25}
		it.shares = [3]float64{0.25, 0.1, 0.01}
		p.items = append(p.items, it)
		p.byResources(false)
		r, err := p.solve(1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		return r, r.best.utility.Total
	}
	chosen := func(w api.Weights, load float64) (string, solution) {
		a, ua := best(w, load, slow)
		b, ub := best(w, load, fast)
		if ua >= ub {
			return "slow", a.best
		}
		return "fast", b.best
	}
	pool, with := chosen(all, 4)
	if pool != "fast" {
		t.Fatalf("chosen is %s", pool)
	}
	if pool, got := chosen(api.Weights{Cost: all.Cost, Resilience: all.Resilience}, 4); pool == "fast" && got.replicas[0] >= with.replicas[0] {
		t.Errorf("without performance: %d replicas on %s as well", got.replicas[0], pool)
	}
	if _, got := chosen(api.Weights{Performance: all.Performance, Resilience: all.Resilience}, 4); got.nodes[0] <= with.nodes[0] {
		t.Errorf("without cost: %d nodes, with it %d", got.nodes[0], with.nodes[0])
	}
	_, with = chosen(all, 0.2)
	if _, got := chosen(api.Weights{Performance: all.Performance, Cost: all.Cost}, 0.2); got.replicas[0] >= with.replicas[0] {
		t.Errorf("without resilience: %d replicas, with it %d", got.replicas[0], with.replicas[0])
	}
}

func TestBudgetIsHeldAndSaid(t *testing.T) {
	p := problem{
		terms:    terms{weights: api.Weights{Performance: 1, Cost: 0.3}, places: []place{{speedRatio: 1, price: 1, zones: 1}}, reference: 100},
		maxNodes: []int32{-1}, limit: []string{""},
	}
	for i := range 40 {
		p.items = append(p.items, item{
			key: api.Key{Name: fmt.Sprint(i)}, lo: 1, hi: 20, load: float64(i%5) + 0.5, weight: 1. / 40,
			share: 0.3, shares: [3]float64{0.3, 0.1, 0.01},
		})
	}
	p.byResources(true)
	got, err := p.solve(12, 4)
	if err != nil {
		t.Fatal(err)
	}
	if got.complete || got.exhaustive || got.packings > 12 {
		t.Errorf("complete %v, exhaustive %v after %d packings of 12", got.complete, got.exhaustive, got.packings)
	}
	if !got.best.feasible() {
		t.Errorf("no feasible plan was found: %s", got.best.packing.infeasible)
	}
}
