package choice

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
func (p *Problem) byResources(lumpy bool) {
	p.Pack = func(n []int32) (Packing, error) {
		s := search{Problem: *p}
		s.Items = slices.Clone(p.Items)
		if lumpy {
			n = slices.Clone(n)
			for i := range n {
				n[i] += n[i] % 2
				s.Items[i].NodeMin += s.Items[i].NodeMin % 2
			}
		}
		var out Packing
		for at, place := range p.Places {
			nodes := s.fewest(n, at)
			if most := p.MaxNodes[at]; most >= 0 && nodes > most {
				out.Infeasible, out.Unplaced = p.Limit[at], out.Unplaced+nodes-most
				nodes = most / place.Zones * place.Zones
			}
			out.Nodes = append(out.Nodes, nodes)
		}
		return out, nil
	}
}

// small draws a problem on one pool or two whose every vector can be looked at.
func small(t *rapid.T) Problem {
	p := Problem{
		Terms: Terms{
			Weights: api.Weights{
				Performance: rapid.Float64Range(0, 1).Draw(t, "performance"),
				Cost:        rapid.Float64Range(0, 1).Draw(t, "cost"),
				Resilience:  rapid.Float64Range(0, 1).Draw(t, "resilience"),
			},
		},
	}
	for range rapid.IntRange(1, 2).Draw(t, "places") {
		at := Place{
			SpeedRatio: rapid.Float64Range(0.2, 1).Draw(t, "speed"),
			Price:      rapid.Float64Range(0.01, 1).Draw(t, "price"),
			Zones:      rapid.Int32Range(1, 3).Draw(t, "zones"),
		}
		most, why := int32(-1), ""
		if rapid.Bool().Draw(t, "limited") {
			most, why = rapid.Int32Range(1, 12).Draw(t, "maxNodes")*at.Zones, "limit"
		}
		p.Places, p.MaxNodes, p.Limit = append(p.Places, at), append(p.MaxNodes, most), append(p.Limit, why)
	}
	n := rapid.IntRange(1, 3).Draw(t, "items")
	var weights float64
	for i := range n {
		it := Item{Key: api.Key{Name: fmt.Sprint(i)}, Place: rapid.IntRange(0, len(p.Places)-1).Draw(t, "place")}
		it.Lo = rapid.Int32Range(0, 4).Draw(t, "lo")
		it.Hi = it.Lo + rapid.Int32Range(0, 6).Draw(t, "span")
		it.NodeMin = rapid.Int32Range(0, it.Hi+2).Draw(t, "nodeMin")
		it.Load = rapid.Float64Range(0, float64(it.Hi)).Draw(t, "load")
		it.Weight = rapid.Float64Range(0.01, 1).Draw(t, "weight")
		if rapid.Bool().Draw(t, "growth is known") {
			it.Tail = rapid.Float64Range(1, 60).Draw(t, "tail")
		}
		weights += it.Weight
		for r := range it.Shares {
			it.Shares[r] = rapid.Float64Range(0.01, 0.6).Draw(t, "share")
		}
		it.Share = slices.Max(it.Shares[:])
		p.Items = append(p.Items, it)
	}
	p.Reference = 0.01
	for i := range p.Items {
		p.Items[i].Weight /= weights
		p.Reference += 2 * p.Items[i].Load * p.Items[i].Share * p.Places[p.Items[i].Place].Price
	}
	p.byResources(rapid.Bool().Draw(t, "lumpy"))
	return p
}

// bruteForce is the dumb way: every vector on every number of nodes.
func bruteForce(p Problem) (best Solution, found bool) {
	s := search{Problem: p, budget: 1 << 30, memo: map[string]Packing{}}
	replicas := make([]int32, len(p.Items))
	var walk func(i int)
	walk = func(i int) {
		if i < len(p.Items) {
			for r := p.Items[i].Lo; r <= p.Items[i].Hi; r++ {
				replicas[i] = r
				walk(i + 1)
			}
			return
		}
		n := make([]int32, len(replicas))
		for j := range n {
			n[j] = max(replicas[j], p.Items[j].NodeMin)
		}
		pk, err := p.Pack(n)
		if err != nil || pk.Infeasible != "" {
			return
		}
		base := Solution{Replicas: slices.Clone(replicas), Nodes: pk.Nodes, Packing: pk}
		var add func(sol Solution, at int)
		add = func(sol Solution, at int) {
			if at == len(p.Places) {
				if sol.Feasible() && (!found || Ranks(sol, best) < 0) {
					best, found = sol, true
				}
				return
			}
			for rounds := range int32(31) {
				add(s.withNodes(sol, at, rounds*p.Places[at].Zones), at+1)
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
		got, err := p.Solve(5000, 4)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Exhaustive || !got.Complete {
			t.Fatalf("exhaustive %v, complete %v with a large budget", got.Exhaustive, got.Complete)
		}
		if got.Best.Feasible() != feasible {
			t.Fatalf("feasible %v, want %v", got.Best.Feasible(), feasible)
		}
		if feasible && want.Utility.Total-got.Best.Utility.Total > 1e-6 {
			t.Fatalf("U = %v by %v on %d nodes; brute force has %v by %v on %d", got.Best.Utility.Total,
				got.Best.Replicas, got.Best.Nodes, want.Utility.Total, want.Replicas, want.Nodes)
		}
	})
}

// An order that runs in a circle would let the climb run in one: utilities a little
// apart are equal one by one, and the first and the last are not.
// TestCeiling: it is no lower than hope, and more of anything doesn't raise it, with items that
// may be on spot machines, too.
func TestCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := search{Problem: small(t)}
		for i := range s.Items {
			if other := 1 - s.Items[i].Place; len(s.Places) > 1 && rapid.Bool().Draw(t, "on spot machines") {
				spot := &Spot{Spot: api.Spot{MaxShare: rapid.Float64Range(0.01, 1).Draw(t, "maxShare"), Floor: rapid.Int32Range(0, 3).Draw(t, "floor")}, Place: other}
				for r := range spot.Shares {
					spot.Shares[r] = rapid.Float64Range(0.01, 0.6).Draw(t, "spot share")
				}
				spot.Share = slices.Max(spot.Shares[:])
				s.Items[i].Spot = spot
			}
		}
		v := make([]int32, len(s.Items))
		for i, it := range s.Items {
			v[i] = rapid.Int32Range(it.Lo, it.Hi).Draw(t, "replicas")
		}
		above := s.ceiling(v)
		if hope := s.hope(v); hope > above+1e-12 {
			t.Fatalf("hope %v is above the ceiling of %v", hope, above)
		}
		more := rapid.IntRange(0, len(v)-1).Draw(t, "more")
		v[more]++
		if next := s.ceiling(v); next > above+1e-12 {
			t.Fatalf("one more of item %d raises the ceiling from %v to %v", more, above, next)
		}
	})
}

func TestRanksAreAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s [3]Solution
		for i := range s {
			s[i].Replicas = []int32{rapid.Int32Range(0, 3).Draw(t, "replicas")}
			s[i].Utility.Total = better / 4 * float64(rapid.IntRange(0, 12).Draw(t, "utility"))
			s[i].Utility.Cost = better / 4 * float64(rapid.IntRange(0, 12).Draw(t, "cost"))
		}
		if a, b, c := s[0], s[1], s[2]; Ranks(a, b) <= 0 && Ranks(b, c) <= 0 && Ranks(a, c) > 0 {
			t.Fatalf("%+v is not after %+v, nor that after %+v, but the first is after the last", a, b, c)
		}
	})
}

// The local search alone, as large problems get it: no neighbour may be
// better, and the gap to the true optimum is what its neighbourhood leaves.
func TestNoNeighbourOfALocalOptimumIsBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		s := &search{Problem: p, budget: 5000, memo: map[string]Packing{}, keep: 4}
		s.start()
		if s.err != nil || !s.climb() {
			t.Fatalf("the search did not complete: %v", s.err)
		}
		if !s.best.Feasible() {
			return
		}
		for i, it := range p.Items {
			for _, d := range []int32{-1, 1} {
				n := slices.Clone(s.best.Replicas)
				if n[i] += d; n[i] < it.Lo || n[i] > it.Hi {
					continue
				}
				sol, ok := s.evaluate(n, "")
				if ok && sol.Feasible() && sol.Utility.Total > s.best.Utility.Total+1e-6 {
					t.Fatalf("%v on %d nodes has U = %v, its neighbour %v on %d has %v", s.best.Replicas,
						s.best.Nodes, s.best.Utility.Total, n, sol.Nodes, sol.Utility.Total)
				}
			}
		}
		for at, place := range p.Places {
			for _, more := range []int32{-place.Zones, place.Zones} {
				if sol := s.withNodes(s.best, at, more); sol.Feasible() && sol.Utility.Total > s.best.Utility.Total+1e-6 {
					t.Fatalf("%d nodes have U = %v, %d have %v", s.best.Nodes, s.best.Utility.Total, sol.Nodes, sol.Utility.Total)
				}
			}
		}
	})
}

func TestRaisingTheWeightOfCostNeverRaisesCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		before, err := p.Solve(5000, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.Weights.Cost += rapid.Float64Range(0.01, 2).Draw(t, "more")
		after, err := p.Solve(5000, 0)
		if err != nil {
			t.Fatal(err)
		}
		if before.Best.Feasible() && after.Best.Utility.Cost > before.Best.Utility.Cost+1e-6 {
			t.Fatalf("cost rose from %v to %v", before.Best.Utility.Cost, after.Best.Utility.Cost)
		}
	})
}

func TestUtilityIsConcaveInReplicasFromTheLoadOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		it := p.Items[0]
		on := p.Places[it.Place]
		at := func(r int32) float64 {
			n := float64(max(r, it.NodeMin)) * it.Share // linear nodes
			u := p.Weights.Performance*it.Weight*on.SpeedRatio*it.responsiveness(1, r) -
				p.Weights.Cost*(float64(r)*it.Share+n)*on.Price/p.Reference/2
			if r > 0 { // of enough nodes, zones aside
				u += p.Weights.Resilience * it.Weight * (1 - 1/float64(r)) * 2 / 3
			}
			return u
		}
		from := max(Ceil(it.Load), 1)
		if it.Tail > 0 {
			from = max(Ceil(it.Load/Saturation), 1)
		}
		for r := from + 1; r < from+40; r++ {
			if up, down := at(r+1)-at(r), at(r)-at(r-1); up > down+1e-9 {
				t.Fatalf("at %d replicas one more gains %v, the one before gained %v", r, up, down)
			}
		}
		best := p.Best(it, from, from+40, 1, 1)
		for r := from; r <= from+40; r++ {
			if at(r) > at(best)+1e-9 {
				t.Fatalf("best says %d with %v, %d has %v", best, at(best), r, at(r))
			}
		}
	})
}

// Performance is what users feel: the share of time that is served in time.
func TestResponsiveness(t *testing.T) {
	known := Item{Load: 8.5, Tail: GrowthTail(1.5, 0.999)}
	for name, c := range map[string]struct {
		item     Item
		demand   float64
		replicas int32
		want     float64
	}{
		"demand that saturates is late half of the time": {known, 1, 10, 0.5},
		"room for what the objective is about keeps it":  {known, 1, 15, 0.999},
		"twice the demand needs twice the replicas":      {known, 2, 30, 0.999},
		"far too few serve nothing in time":              {known, 1, 2, 0},
		"none":                                           {known, 1, 0, 0},
		"nothing known of growth, half used":             {Item{Load: 5}, 1, 10, 0.5},
		"nothing known of growth, full":                  {Item{Load: 5}, 2, 10, 0},
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
	slow := Place{Pool: "slow", SpeedRatio: 0.5, Price: 0.4, Zones: 1}
	fast := Place{Pool: "fast", SpeedRatio: 1, Price: 1, Zones: 3}
	best := func(w api.Weights, load float64, at Place) (Result, float64) {
		p := Problem{Terms: Terms{Weights: w, Places: []Place{at}, Reference: 10}, MaxNodes: []int32{-1}, Limit: []string{""}}
		it := Item{Key: api.Key{Name: "web"}, Lo: 1, Hi: 30, Load: load, Tail: GrowthTail(3, 0.999), Weight: 1, Share: 0.25}
		it.Shares = [3]float64{0.25, 0.1, 0.01}
		p.Items = append(p.Items, it)
		p.byResources(false)
		r, err := p.Solve(1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		return r, r.Best.Utility.Total
	}
	chosen := func(w api.Weights, load float64) (string, Solution) {
		a, ua := best(w, load, slow)
		b, ub := best(w, load, fast)
		if ua >= ub {
			return "slow", a.Best
		}
		return "fast", b.Best
	}
	pool, with := chosen(all, 4)
	if pool != "fast" {
		t.Fatalf("chosen is %s", pool)
	}
	if pool, got := chosen(api.Weights{Cost: all.Cost, Resilience: all.Resilience}, 4); pool == "fast" && got.Replicas[0] >= with.Replicas[0] {
		t.Errorf("without performance: %d replicas on %s as well", got.Replicas[0], pool)
	}
	if _, got := chosen(api.Weights{Performance: all.Performance, Resilience: all.Resilience}, 4); got.Nodes[0] <= with.Nodes[0] {
		t.Errorf("without cost: %d nodes, with it %d", got.Nodes[0], with.Nodes[0])
	}
	_, with = chosen(all, 0.2)
	if _, got := chosen(api.Weights{Performance: all.Performance, Cost: all.Cost}, 0.2); got.Replicas[0] >= with.Replicas[0] {
		t.Errorf("without resilience: %d replicas, with it %d", got.Replicas[0], with.Replicas[0])
	}
}

func TestBudgetIsHeldAndSaid(t *testing.T) {
	p := Problem{
		Terms:    Terms{Weights: api.Weights{Performance: 1, Cost: 0.3}, Places: []Place{{SpeedRatio: 1, Price: 1, Zones: 1}}, Reference: 100},
		MaxNodes: []int32{-1}, Limit: []string{""},
	}
	for i := range 40 {
		p.Items = append(p.Items, Item{
			Key: api.Key{Name: fmt.Sprint(i)}, Lo: 1, Hi: 20, Load: float64(i%5) + 0.5, Weight: 1. / 40,
			Share: 0.3, Shares: [3]float64{0.3, 0.1, 0.01},
		})
	}
	p.byResources(true)
	got, err := p.Solve(12, 4)
	if err != nil {
		t.Fatal(err)
	}
	if got.Complete || got.Exhaustive || got.Packings > 12 {
		t.Errorf("complete %v, exhaustive %v after %d packings of 12", got.Complete, got.Exhaustive, got.Packings)
	}
	if !got.Best.Feasible() {
		t.Errorf("no feasible plan was found: %s", got.Best.Packing.Infeasible)
	}
}

func TestCeil(t *testing.T) {
	for x, want := range map[float64]int32{
		-1: 0, 0: 0, 1: 1, 1.2: 2, 2 + Epsilon/2: 2, math.Inf(1): math.MaxInt32 / 4, math.MaxInt32 / 4: math.MaxInt32 / 4,
	} {
		if got := Ceil(x); got != want {
			t.Errorf("Ceil(%v) = %d, want %d", x, got, want)
		}
	}
	if got := Ceil(math.NaN()); got != 0 {
		t.Errorf("Ceil(NaN) = %d", got)
	}
}

// What a neighbour promises is about what it gains at most: with a packing by what resources
// add up to, no neighbour of the best gains more.
func TestNeighboursGainNoMoreThanTheyPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t)
		p.byResources(false)
		s := &search{Problem: p, budget: 1 << 30, memo: map[string]Packing{}}
		s.start()
		s.climb()
		if s.err != nil || !s.best.Feasible() {
			return
		}
		replicas := slices.Clone(s.best.Replicas)
		for i := range replicas { // from anywhere, not from where no neighbour is better
			replicas[i] = rapid.Int32Range(p.Items[i].Lo, p.Items[i].Hi).Draw(t, "replicas")
		}
		from, ok := s.evaluate(replicas, "")
		if !ok || !from.Feasible() {
			return
		}
		s.best = from
		for _, m := range s.moves() {
			to, ok := s.evaluate(m.apply(replicas), "")
			if !ok || !to.Feasible() {
				continue
			}
			if gain := to.Utility.Total - from.Utility.Total; gain > m.promise+1e-9 {
				t.Fatalf("from %v on %v nodes %+d %+d gains %v on %v, promised %v", replicas, from.Nodes, m.up, m.down, gain, to.Nodes, m.promise)
			}
		}
	})
}
