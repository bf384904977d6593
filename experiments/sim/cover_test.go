package sim

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Of one pool the cover is what CPU or memory costs, whichever is more.
func TestCoverOfOnePool(t *testing.T) {
	c := cover{cpu: [][]float64{{3}, {1}}, memory: [][]float64{{1}, {2}}}
	if got := c.least(); got != 4 {
		t.Errorf("%v, want 4", got)
	}
	c.memory[1][0] = 5
	if got := c.least(); got != 6 {
		t.Errorf("%v, want 6", got)
	}
}

// Of two pools it is the cheapest of all ways to share services out, to a grid's width.
func TestCoverIsTheCheapestMixture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const services, grid = 3, 20
		cost := rapid.Map(rapid.IntRange(0, 40), func(n int) float64 { return float64(n) / 4 })
		var c cover
		highest := 0.0
		for i := range services {
			var cpu, memory []float64
			for range 2 {
				cpu, memory = append(cpu, cost.Draw(t, "cpu")), append(memory, cost.Draw(t, "memory"))
			}
			if j := rapid.IntRange(0, 5).Draw(t, "fits not"); j < 2 {
				cpu[j], memory[j] = math.Inf(1), math.Inf(1)
			}
			c.cpu, c.memory = append(c.cpu, cpu), append(c.memory, memory)
			for j := range cpu {
				if !math.IsInf(cpu[j], 1) {
					highest = max(highest, cpu[j], memory[j])
				}
			}
			if !c.fits(i) {
				t.Fatal("fits nowhere")
			}
		}
		best := math.Inf(1)
		var walk func(i int, cpu, memory [2]float64)
		walk = func(i int, cpu, memory [2]float64) {
			if i == services {
				best = min(best, max(cpu[0], memory[0])+max(cpu[1], memory[1]))
				return
			}
			for n := range grid + 1 {
				nextCPU, nextMemory, fits := cpu, memory, true
				for j, share := range [2]float64{float64(n) / grid, 1 - float64(n)/grid} {
					if share == 0 {
						continue
					}
					fits = fits && !math.IsInf(c.cpu[i][j], 1)
					nextCPU[j] += share * c.cpu[i][j]
					nextMemory[j] += share * c.memory[i][j]
				}
				if fits {
					walk(i+1, nextCPU, nextMemory)
				}
			}
		}
		walk(0, [2]float64{}, [2]float64{})
		got := c.least()
		if !(got <= best+1e-9 && got >= best-services*2*highest/grid) {
			t.Errorf("%v, the cheapest mixture of a grid costs %v", got, best)
		}
		// The duals' optimum, found otherwise, is no more.
		for a := range grid + 1 {
			for b := range grid + 1 {
				if at := c.at([]float64{float64(a) / grid, float64(b) / grid}); at > got+1e-6 {
					t.Errorf("%v, but prices bound it by %v", got, at)
				}
			}
		}
	})
}

// TestCoverOfManyPools: no other shares of prices bound it higher, as prices of CPU and memory go up and down for
// each of many services and pools.
func TestCoverOfManyPools(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 400 {
		services, pools := 1+r.IntN(50), 1+r.IntN(6)
		c := cover{cpu: make([][]float64, services), memory: make([][]float64, services)}
		for i := range services {
			for range pools {
				c.add(i, float64(r.IntN(41))/4, float64(r.IntN(41))/4)
			}
		}
		got, theta := c.least(), make([]float64, pools)
		for range 2000 {
			for j := range theta {
				theta[j] = r.Float64()
			}
			if bound := c.at(theta); bound > got*(1+1e-9) {
				t.Fatalf("cover %d of %d services and %d pools: %v, but %v bound it by %v", n, services, pools, got, theta, bound)
			}
		}
	}
}
