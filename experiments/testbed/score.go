package testbed

import (
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/score"
)

// Outcomes are what every scaler did so far, in scenario time.
func (t *Testbed) Outcomes(r load.Results, cycles []api.Cycle) ([]score.Outcome, error) {
	begin, ok := t.Load.WallTime(0)
	if !ok {
		return nil, fmt.Errorf("the load has not begun")
	}
	seconds := func(at time.Time) float64 { return at.Sub(begin).Seconds() * r.Speed }
	var out []score.Outcome
	for _, w := range r.Workloads {
		o := score.Outcome{
			Scaler: w.Namespace, Seed: r.Seed, PassSeconds: r.PassSeconds, WarmupPasses: r.WarmupPasses, Passes: r.Passes,
			WallSeconds: float64(r.WarmupPasses+r.Passes) * r.PassSeconds / r.Speed,
			Workloads:   []load.WorkloadResult{w},
		}
		pools := t.poolsOf(w.Namespace)
		for _, p := range r.Pools {
			if slices.Contains(pools, p.Name) {
				o.Pools = append(o.Pools, p)
			}
		}
		for _, l := range t.GKE.Ledger() {
			if !slices.Contains(pools, l.Pool) {
				continue
			}
			n := score.Node{Pool: l.Pool, MachineType: l.MachineType, Requested: seconds(l.Requested)}
			if !l.Deleted.IsZero() {
				deleted := seconds(l.Deleted)
				n.Deleted = &deleted
			}
			o.Nodes = append(o.Nodes, n)
		}
		if w.Namespace == Karpenter {
			lives, err := t.karpenter.lives(seconds)
			if err != nil {
				return nil, err
			}
			o.Nodes = append(o.Nodes, lives...)
		}
		if w.Namespace == Mash2 {
			o.Plans = score.PlansOf(cycles, t.Load.ScenarioTime)
		}
		out = append(out, o)
	}
	return out, nil
}

// poolsOf are the pools whose nodes a scaler pays for.
func (t *Testbed) poolsOf(scaler string) []string {
	switch scaler {
	case Baseline:
		return []string{BaselinePool}
	case Karpenter:
		return []string{Karpenter}
	}
	var pools []string
	for _, p := range t.options.Scenario.Pools {
		pools = append(pools, p.Name)
	}
	return pools
}
