package sizing

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// TestDownsizes: in 100,000 times that less memory was requested, of three replicas each whose
// working sets vary, none was killed in the day after it while limits stay. Where limits
// follow requests, next to none is of working sets that vary by up to 30 %.
func TestDownsizes(t *testing.T) {
	downsizes := map[api.SizingLimits]int{api.LimitsKeep: 100_000, api.LimitsRatio: 20_000}
	if testing.Short() {
		downsizes = map[api.SizingLimits]int{api.LimitsKeep: 2000, api.LimitsRatio: 2000}
	}
	const replicas, step = 3, 15 * time.Minute
	const day, part = int(24 * time.Hour / step), int(2 * time.Hour / step)
	for _, mode := range []api.SizingLimits{api.LimitsKeep, api.LimitsRatio} {
		for _, spread := range []float64{0.05, 0.1, 0.3} {
			if mode == api.LimitsKeep && spread < 0.3 {
				continue // the widest says it all
			}
			rng := rand.New(rand.NewPCG(23, uint64(1000*spread)))
			few := api.Series{Start: now, Step: time.Hour, Values: []float64{100, 100}}
			kills, lowered := 0, 0
			days := 1
			if mode == api.LimitsRatio {
				days = 7
			}
			for lowered < downsizes[mode] {
				// A working set is log-normal around a base and correlated over minutes to hours;
				// the author's limit is from just above what it comes to, up to six times it.
				base := math.Exp(math.Log(50*mib) + rng.Float64()*math.Log(40))
				keeps := math.Exp(-float64(step) / float64(time.Duration(10+rng.IntN(230))*time.Minute))
				limit := base * math.Exp(spread*6) * (1 + 4*rng.Float64())
				u := api.ContainerUse{
					Name: "web", Requests: api.Amounts{MilliCPU: 500, Memory: int64(limit)}, Limits: api.Amounts{MilliCPU: 1000, Memory: int64(limit)},
					Since: now, CPUPeak: 200, CPUMean: 100,
				}
				if mode == api.LimitsKeep {
					u.Requests.Memory = int64(limit * 0.9)
				}
				var at [replicas]float64
				for i := range at {
					at[i] = rng.NormFloat64()
				}
				var m Memory
				has, begin := u.Requests.Memory, now
				var maxima []float64
				for range days + 2 {
					before := lowered
					var p api.SizingPlan
					in := Input{
						Time: begin, Sizing: api.Sizing{Mode: api.SizingInPlace, Limits: mode, Containers: []api.ContainerUse{u}, Admits: true},
						Demand: few, Least: 2, Most: 20, Headroom: 1.4, Speed: 1, Prices: DefaultPrices, FixedCPU: "this is about memory",
					}
					if p, m = plan(t, in, m); p.Containers[0].Requests.Memory < has {
						lowered++
					}
					has = p.Containers[0].Requests.Memory
					top := p.Containers[0].Limits.Memory
					for n := range day {
						if n%part == 0 {
							maxima = append(maxima, 0)
						}
						for i := range at {
							at[i] = keeps*at[i] + math.Sqrt(1-keeps*keeps)*rng.NormFloat64()
							w := int64(base * math.Exp(spread*at[i]))
							u.MemoryPeak = max(u.MemoryPeak, w)
							maxima[len(maxima)-1] = max(maxima[len(maxima)-1], float64(w))
							if w > top && lowered > before {
								kills++
								u.OOMKilled, u.OOMLimit, top = begin, top, math.MaxInt64 // once
							}
						}
					}
					begin = begin.Add(24 * time.Hour)
					u.Until = begin
					u.MemoryTail = int64(demand.ReturnLevel(maxima, day/part, 1e-5))
					u.MemoryKnown = time.Duration(len(maxima)*part) * step
				}
			}
			t.Logf("limits %s, working sets vary by %g %%: %d kills in the days after %d downsizes", mode, 100*spread, kills, lowered)
			switch share := float64(kills) / float64(lowered); {
			case mode == api.LimitsKeep && kills > 0:
				t.Errorf("%d kills although limits stay", kills)
			case share > 0.0005:
				t.Errorf("%g of downsizes end in a kill", share)
			}
		}
	}
}
