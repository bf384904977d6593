package bound

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestCover(t *testing.T) {
	small, large := Machine{Price: 3, Capacity: 2, Pods: 4}, Machine{Price: 10, Capacity: 10, Pods: 20}
	for sentence, test := range map[string]struct {
		machines []Machine
		demand   float64
		pods     int64
		want     float64
	}{
		"nothing needs nothing":                  {[]Machine{small}, 0, 0, 0},
		"whole machines":                         {[]Machine{small}, 2.1, 0, 6},
		"exactly two":                            {[]Machine{small}, 4, 0, 6},
		"the least pods need machines as well":   {[]Machine{small}, 0.1, 5, 6},
		"a small one is enough":                  {[]Machine{small, large}, 1.5, 0, 3},
		"three small are cheaper than a large":   {[]Machine{small, large}, 6, 0, 9},
		"a large one is cheaper than four small": {[]Machine{small, large}, 7, 0, 10},
		"one of each":                            {[]Machine{small, large}, 12, 0, 13},
		"a thousand of the cheapest":             {[]Machine{small, large}, 10_000, 0, 10_000},
		"and a bit":                              {[]Machine{small, large}, 10_001, 0, 10_003},
		"in whatever order":                      {[]Machine{large, small}, 10_001, 0, 10_003},
	} {
		if got := Cover(test.machines, test.demand, test.pods); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", sentence, got, test.want)
		}
	}
	if !math.IsInf(Cover(nil, 1, 0), 1) {
		t.Error("of no machines")
	}
}

// cheapestCover is the cheapest of all numbers of machines, tried one by one.
func cheapestCover(machines []Machine, demand float64, pods int64) float64 {
	if demand <= 1e-9 && pods <= 0 {
		return 0
	}
	if len(machines) == 0 {
		return math.Inf(1)
	}
	m, best := machines[0], math.Inf(1)
	for n := 0; ; n++ {
		best = min(best, float64(n)*m.Price+cheapestCover(machines[1:], demand-float64(n)*m.Capacity, pods-int64(n)*m.Pods))
		if float64(n)*m.Capacity >= demand-1e-9 && int64(n)*m.Pods >= pods {
			return best
		}
	}
}

// Beside all numbers of up to three types, where demand, pods or both ask for machines.
func TestCoverIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var machines []Machine
		for range 1 + r.IntN(3) {
			machines = append(machines, Machine{Price: float64(1+r.IntN(30)) / 4, Capacity: float64(1+r.IntN(30)) / 4, Pods: int64(1 + r.IntN(12))})
		}
		demand, pods := float64(r.IntN(100))/4, int64(r.IntN(40))
		if got, want := Cover(machines, demand, pods), cheapestCover(machines, demand, pods); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v for %g and %d pods: %g, want %g", machines, demand, pods, got, want)
		}
	}
}

// Many machines that are dearer by capacity are of use where they hold many pods.
func TestCoverOfManyPods(t *testing.T) {
	machines := []Machine{{Price: 1, Capacity: 10, Pods: 1}, {Price: 1.1, Capacity: 10, Pods: 100}}
	if got, want := Cover(machines, 5000, 100_000), 1100.; math.Abs(got-want) > 1e-9 {
		t.Errorf("%g, want %g", got, want)
	}
}

// By hand, in minutes; a machine costs 60 USD per hour, 1 per minute, and its boot and
// stop 2.
func TestCheapest(t *testing.T) {
	for sentence, test := range map[string]struct {
		needs []float64
		want  float64
	}{
		"one all the time":                      {[]float64{60, 60, 60}, 3},
		"a second for a minute comes and goes":  {[]float64{60, 60, 60, 60, 120, 60}, 6 + 1 + 2},
		"it is kept for a minute between":       {[]float64{120, 60, 120}, 3 + 2 + 1},
		"and comes anew after five":             {[]float64{120, 60, 60, 60, 60, 60, 120}, 7 + 2 + 2},
		"it waits from the beginning, idle":     {[]float64{60, 120}, 2 + 1 + 1},
		"two come at once":                      {[]float64{0, 0, 0, 120}, 2 + 4},
		"nothing":                               {[]float64{0, 0}, 0},
		"dearer and cheaper machines, by value": {[]float64{60, 60, 60, 90, 90}, 5 + 1 + 1},
	} {
		if got := Cheapest(test.needs, time.Minute, 2*time.Minute); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", sentence, got, test.want)
		}
	}
}

// Beside all whole numbers of machines of one type, tried one by one.
func TestCheapestIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n, paid := 1+r.IntN(7), float64(r.IntN(4))
		needs := make([]float64, n)
		for i := range needs {
			needs[i] = float64(r.IntN(4))
		}
		best := math.Inf(1)
		var try func(i int, last, sum float64)
		try = func(i int, last, sum float64) {
			if i == n {
				best = min(best, sum)
				return
			}
			for x := needs[i]; x <= 3; x++ {
				rise := max(0, x-last)
				if i == 0 {
					rise = 0
				}
				try(i+1, x, sum+x+paid*rise)
			}
		}
		try(0, 0, 0)
		got := Cheapest(needs, time.Hour, time.Duration(paid)*time.Hour)
		if math.Abs(got-best) > 1e-9 {
			t.Fatalf("%v, %g paid beside: %g, want %g", needs, paid, got, best)
		}
	}
}
