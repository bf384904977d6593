package canary

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

var start = time.Date(2026, 8, 3, 0, 0, 0, 0, time.UTC)

// fleet is a made-up namespace of pairs: every workload has its own rate of events and its
// own share of bad ones, both with the time of day, bad minutes that all share and some
// that are its own.
type fleet struct {
	src     *rand.Rand
	members []Member
	rate    []float64 // events a minute at noon
	bad     []float64 // share at noon
	ends    []int     // of its own bad minutes
	storm   int       // the end of bad minutes of all
	cost    []float64 // requested over used
	own     float64   // how likely own bad minutes begin in a minute
}

func newFleet(seed uint64, workloads int, least, most, own float64) *fleet {
	f := &fleet{src: rand.New(rand.NewPCG(seed, 7)), own: own}
	for i := range workloads {
		f.members = append(f.members, Member{Key: api.Key{Namespace: "shop", Name: fmt.Sprintf("w%02d", i)}, Joined: true, Replicas: 5})
		f.rate = append(f.rate, least*math.Pow(most/least, f.src.Float64()))
		f.bad = append(f.bad, 0.001*f.src.Float64()*0.6)
		f.ends, f.cost = append(f.ends, 0), append(f.cost, 1.5)
	}
	return f
}

// poisson by its normal approximation where that is good.
func poisson(src *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*src.NormFloat64()))
	}
	limit, p, n := math.Exp(-mean), 1.0, -1.0
	for p > limit {
		p *= src.Float64()
		n++
	}
	return n
}

// minute is what everybody's readings are of one, with so many more error budgets for some.
func (f *fleet) minute(n int, worse func(api.Key) float64) (time.Time, []Member) {
	now := start.Add(time.Duration(n) * time.Minute)
	day := 0.6 + 0.4*math.Sin(2*math.Pi*float64(n)/1440)
	if f.src.Float64() < 1.0/600 {
		f.storm = n + 1 + f.src.IntN(20)
	}
	for i := range f.members {
		if f.src.Float64() < f.own {
			f.ends[i] = n + 1 + f.src.IntN(3)
		}
		share := f.bad[i]*day + 0.001*worse(f.members[i].Key)
		if n < f.storm {
			share += 0.05
		}
		if n < f.ends[i] {
			share += 0.02
		}
		total := poisson(f.src, f.rate[i]*day)
		m := &f.members[i]
		r := Reading{At: now, Window: time.Minute, Total: total, Bad: min(total, poisson(f.src, total*share))}
		if len(m.Objectives) == 0 {
			m.Objectives = []Objective{{Target: 0.999}}
		}
		o := &m.Objectives[0]
		o.Readings = append(o.Readings[max(0, len(o.Readings)-40):], r)
		used := f.rate[i] * day
		m.Requested = used * f.cost[i]
		m.Demand = api.Series{Start: now, Step: time.Minute, Values: []float64{used}}
	}
	return now, f.members
}

// run tries a trial out for some hours after its baseline.
func (f *fleet) run(rules Rules, hours int, worse float64) (trial Trial, took time.Duration) {
	for n := range 60 * (hours + 2) {
		now, members := f.minute(n, func(k api.Key) float64 {
			if trial.Phase == api.CanaryRunning && isCanary(trial, k) {
				return worse
			}
			return 0
		})
		before := trial.Since
		trial = trial.Step(now, members, rules)
		if trial.Phase == api.CanaryStopped || trial.Phase == api.CanaryPromoted {
			return trial, now.Sub(before)
		}
	}
	return trial, 0
}

// TestNulls: of a thousand trials of canaries that are as good as their controls, over a
// day and more each, with bad minutes that all have, few are stopped: no more than alpha.
// Bad minutes that only one workload has are counted apart: they are no fault of mash2's,
// and a canary has them as often as a control.
func TestNulls(t *testing.T) {
	trials := 1000
	if testing.Short() {
		trials = 100
	}
	for name, c := range map[string]struct{ least, most, own, worse float64 }{
		"many events":              {2000, 20000, 0, 0},
		"few events":               {80, 800, 0, 0},
		"bad minutes of their own": {2000, 20000, 1.0 / 1440, 0},
		"as bad as they may be":    {2000, 20000, 0, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := Rules{Block: time.Minute, CanaryPolicy: api.CanaryPolicy{Share: 0.5}}
			stopped, promoted := 0, 0
			for i := range trials {
				trial, _ := newFleet(uint64(i), 6, c.least, c.most, c.own).run(rules, 26, c.worse)
				switch trial.Phase {
				case api.CanaryStopped:
					stopped++
				case api.CanaryPromoted:
					promoted++
				}
			}
			t.Logf("of %d canaries that are no worse %d were stopped, %d promoted within 26 hours", trials, stopped, promoted)
			// Alpha, and three standard deviations of a count of that.
			alpha := rules.Defaulted().Alpha
			if limit := alpha*float64(trials) + 3*math.Sqrt(alpha*float64(trials)); float64(stopped) > limit {
				t.Errorf("%d stopped, at most %.0f may be", stopped, limit)
			} else if c.worse > 0 && float64(promoted) > limit {
				t.Errorf("%d promoted, at most %.0f may be", promoted, limit)
			}
		})
	}
}

// TestWorse: canaries that are worse by twice the objective's budget are found, nearly all,
// and none is promoted. Ones that lose 5 % of their requests are found within minutes.
func TestWorse(t *testing.T) {
	trials := 200
	if testing.Short() {
		trials = 20
	}
	for name, c := range map[string]struct {
		worse  float64
		hours  int
		within time.Duration // half of them
	}{
		"2 error budgets":  {2, 26, 3 * time.Hour},
		"50 error budgets": {50, 2, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := Rules{Block: time.Minute, CanaryPolicy: api.CanaryPolicy{Share: 0.5}}
			var took []time.Duration
			promoted := 0
			for i := range trials {
				trial, after := newFleet(uint64(i), 6, 2000, 20000, 0).run(rules, c.hours, c.worse)
				switch trial.Phase {
				case api.CanaryStopped:
					took = append(took, after)
				case api.CanaryPromoted:
					promoted++
				}
			}
			half := quantile(took, 0.5)
			t.Logf("of %d canaries worse by %g error budgets %d were stopped, half of them within %v, 9 of 10 within %v; %d were promoted",
				trials, c.worse, len(took), half, quantile(took, 0.9), promoted)
			if len(took) < trials*9/10 || promoted > 0 || half > c.within {
				t.Errorf("%d stopped, %d promoted, half within %v", len(took), promoted, half)
			}
		})
	}
}

func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return math.MaxInt64
	}
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}

func isCanary(t Trial, key api.Key) bool {
	return slices.ContainsFunc(t.Pairs, func(p Pair) bool { return p.counts() && p.Canary.Key == key })
}
