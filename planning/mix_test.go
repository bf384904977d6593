package planning

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// likely is a mixture problem as they come: workloads whose memory for their cores differs, on
// types of machines that differ in that, too.
func likely(rng *rand.Rand, pools, loads int) ([]mixPool, []mixLoad) {
	var ps []mixPool
	var rooms [][2]float64
	for range pools {
		cores, each := math.Exp2(float64(rng.IntN(4))), math.Exp2(float64(rng.IntN(4))) // GiB for a core
		rooms = append(rooms, [2]float64{cores, cores * each})
		p := mixPool{price: cores*0.022 + cores*each*0.003, round: float64(1 + 2*rng.IntN(2)), most: math.Inf(1)}
		if rng.IntN(4) == 0 {
			p.most = p.round * float64(2+rng.IntN(8))
		}
		if rng.IntN(4) == 0 {
			p.least = p.round
		}
		ps = append(ps, p)
	}
	var ls []mixLoad
	for range loads {
		cores := math.Exp(rng.NormFloat64())
		memory := cores * 4 * math.Exp(0.8*rng.NormFloat64())
		l := mixLoad{takes: make([]resources, pools), home: rng.IntN(pools+1) - 1}
		for p, room := range rooms {
			if p > 0 && p != l.home && rng.IntN(8) == 0 {
				continue
			}
			l.takes[p] = resources{cores / room[0], memory / room[1], 0.01}
		}
		ls = append(ls, l)
	}
	return ps, ls
}

func costOf(pools []mixPool, loads []mixLoad, at []int) float64 {
	full := make([]resources, len(pools))
	for i, p := range at {
		full[p] = full[p].plus(loads[i].takes[p], 1)
	}
	return mixCost(pools, loads, at, full)
}

// TestMix: who needs much memory for its cores is where memory is cheap, the others where
// cores are; but not for less than a pool of its own costs.
func TestMix(t *testing.T) {
	// Nodes of four cores: one with a GiB for each, one with eight.
	cpu, memory := mixPool{price: 0.1, round: 1, most: math.Inf(1)}, mixPool{price: 0.18, round: 1, most: math.Inf(1)}
	of := func(cores, gib float64, home int) mixLoad {
		return mixLoad{takes: []resources{{cores / 4, gib / 4, 0.01}, {cores / 4, gib / 32, 0.01}}, home: home}
	}
	limited := cpu
	limited.most = 3
	costly := cpu
	costly.round = 9
	only := of(10, 5, 1)
	only.takes[0] = resources{}
	for name, c := range map[string]struct {
		pools []mixPool
		loads []mixLoad
		want  []int
	}{
		"each where it is cheap":           {[]mixPool{cpu, memory}, []mixLoad{of(10, 5, -1), of(5, 40, -1), of(12, 9, -1)}, []int{0, 1, 0}},
		"from one pool":                    {[]mixPool{cpu, memory}, []mixLoad{of(10, 5, 1), of(5, 40, 1), of(12, 9, 1)}, []int{0, 1, 0}},
		"too little for a pool":            {[]mixPool{cpu, memory}, []mixLoad{of(1, 0.5, -1), of(20, 160, -1)}, []int{1, 1}},
		"a round of nodes is too much":     {[]mixPool{costly, memory}, []mixLoad{of(10, 5, -1), of(5, 40, -1)}, []int{1, 1}},
		"no more than a pool may have":     {[]mixPool{limited, memory}, []mixLoad{of(10, 5, -1), of(5, 40, -1), of(11, 9, -1)}, []int{1, 1, 0}},
		"one that may not be there":        {[]mixPool{cpu, memory}, []mixLoad{only, of(5, 40, -1), of(12, 9, -1)}, []int{1, 1, 0}},
		"no workload":                      {[]mixPool{cpu, memory}, nil, []int{}},
		"where it is, if that is the same": {[]mixPool{cpu, cpu}, []mixLoad{of(10, 5, 1), of(5, 2, 1)}, []int{1, 1}},
	} {
		if got := mix(c.pools, c.loads); !slices.Equal(got, c.want) {
			t.Errorf("%s: on %v, want %v", name, got, c.want)
		}
	}
}

// TestMixIsNearTheBest: on small problems against all assignments there are. It is never
// dearer than all on one pool, by what it counts.
func TestMixIsNearTheBest(t *testing.T) {
	var worst, sum float64
	const worlds = 400
	for seed := range uint64(worlds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		pools, loads := likely(rng, 3, 7)
		for i := range loads {
			loads[i].home = -1 // what staying is worth is no cost
		}
		at := mix(pools, loads)
		got := costOf(pools, loads, at)
		best := math.Inf(1)
		try := make([]int, len(loads))
		var all func(i int)
		all = func(i int) {
			if i == len(loads) {
				best = min(best, costOf(pools, loads, try))
				return
			}
			for p := range pools {
				if loads[i].may(p) {
					try[i] = p
					all(i + 1)
				}
			}
		}
		all(0)
		for p := range pools {
			for i := range try {
				try[i] = p
			}
			if alone := costOf(pools, loads, try); alone < got*(1-1e-9) && !slices.ContainsFunc(loads, func(l mixLoad) bool { return !l.may(p) }) {
				t.Errorf("world %d: %v costs %g, all on pool %d %g", seed, at, got, p, alone)
			}
		}
		for i, p := range at {
			if !loads[i].may(p) {
				t.Errorf("world %d: workload %d is on pool %d, where it may not be", seed, i, p)
			}
		}
		gap := got/best - 1
		if gap > 0.1 {
			t.Logf("world %d: %g best %g at %v %+v", seed, got, best, at, pools)
		}
		sum, worst = sum+gap, max(worst, gap)
	}
	t.Logf("%.2f %% above the best on average, %.1f %% at most", 100*sum/worlds, 100*worst)
	if sum/worlds > 0.01 || worst > 0.25 {
		t.Errorf("%.2f %% above the best on average, %.1f %% at most", 100*sum/worlds, 100*worst)
	}
}

// BenchmarkMix is how long a mixture of 5,000 workloads on six pools takes to find.
func BenchmarkMix(b *testing.B) {
	pools, loads := likely(rand.New(rand.NewPCG(1, 1)), 6, 5000)
	for b.Loop() {
		mix(pools, loads)
	}
}
