package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
)

// config is a scaler as its owner has set it up, on one pool or on all.
type config struct {
	Kind string `json:"kind"`
	// Pool by name; empty for all of the scenario's.
	Pool string `json:"pool,omitempty"`
	// Target utilisation, percent.
	Target int `json:"target,omitempty"`
	// Tuning in whole seconds and a share; 0 is the default.
	Stabilization int     `json:"stabilizationSeconds,omitempty"`
	Unneeded      int     `json:"unneededSeconds,omitempty"`
	Threshold     float64 `json:"threshold,omitempty"`
	Consolidate   int     `json:"consolidateAfterSeconds,omitempty"`
	// Foresight is how far ahead mash2 is told the load.
	Foresight time.Duration `json:"-"`
	// Policies is policies.yaml of mash2, empty for the scenario's, and Name what it is then
	// called.
	Policies string `json:"-"`
	Name     string `json:"-"`
}

// String is the name in tables: hpa:80 s60 u180 t0.85 @pool.
func (c config) String() string {
	if c.Name != "" {
		return c.Name
	}
	name := c.Kind
	if c.Target > 0 {
		name += fmt.Sprintf(":%d", c.Target)
	}
	for _, part := range []struct {
		letter string
		value  float64
	}{{"s", float64(c.Stabilization)}, {"u", float64(c.Unneeded)}, {"t", c.Threshold}, {"c", float64(c.Consolidate)}} {
		if part.value != 0 {
			name += fmt.Sprintf(" %s%g", part.letter, part.value)
		}
	}
	if c.Pool != "" {
		name += " @" + c.Pool
	}
	return name
}

// own reports whether the scaler is the operator's loop.
func (c config) own() bool {
	return slices.Contains([]string{sim.Mash2, sim.Mash2Any, sim.Mash2RL, sim.Clairvoyant}, c.Kind)
}

// scaler is what sim calls it.
func (c config) scaler() string {
	if c.Target > 0 {
		return fmt.Sprintf("%s:%d", c.Kind, c.Target)
	}
	return c.Kind
}

func (c config) tuning() sim.Tuning {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	return sim.Tuning{
		DownscaleStabilization: seconds(c.Stabilization), Unneeded: seconds(c.Unneeded), Threshold: c.Threshold,
		ConsolidateAfter: seconds(c.Consolidate),
	}
}

// on is the scenario with the pool of the config alone, which begins with as many
// nodes as the first does.
func (c config) on(s scenarios.Scenario) (scenarios.Scenario, error) {
	if c.Pool == "" {
		return s, nil
	}
	for _, p := range s.Pools {
		if p.Name == c.Pool {
			first := s.Pools[0].Nodes
			if most := p.NodesPerZone.Max; most > 0 {
				first = min(first, most)
			}
			p.Nodes = max(p.Nodes, first)
			s.Pools = []scenarios.Pool{p}
			return s, nil
		}
	}
	return s, fmt.Errorf("scenario %s has no pool %s", s.Name, c.Pool)
}

// What is judged, and the yardstick.
var (
	judged      = config{Kind: sim.Mash2Any}
	onePool     = config{Kind: sim.Mash2}
	clairvoyant = config{Kind: sim.Clairvoyant}
	withModel   = config{Kind: sim.Mash2RL} // the one that comes with the program
)

// targets of a sweep, percent of requests: pods may burst.
var targets = []int{30, 40, 50, 60, 70, 80, 90, 100, 120, 140}

// defaults are the rivals as they come, at the usual target, on each pool.
func defaults(pools []string) []config {
	var out []config
	for _, p := range pools {
		out = append(out, config{Kind: sim.HPA, Target: 80, Pool: p}, config{Kind: sim.Karpenter, Target: 80, Pool: p})
	}
	return append(out, config{Kind: sim.Karpenter, Target: 80})
}

// kinds are the groups of which each has one frozen config: a rival on each pool, and
// Karpenter also on all.
func kinds(pools []string) []config {
	var out []config
	for _, p := range pools {
		out = append(out, config{Kind: sim.HPA, Pool: p}, config{Kind: sim.Karpenter, Pool: p})
	}
	return append(out, config{Kind: sim.Karpenter})
}

// windows are the settings beside the target that an owner tries for a kind, the
// defaults first.
func windows(kind config) []config {
	var out []config
	for _, stabilization := range []int{0, 60} {
		k := kind
		k.Stabilization = stabilization
		if kind.Kind == sim.Karpenter {
			for _, consolidate := range []int{0, 30, 300} {
				k.Consolidate = consolidate
				out = append(out, k)
			}
			continue
		}
		for _, unneeded := range []int{0, 180} {
			for _, threshold := range []float64{0, 0.85} {
				k.Unneeded, k.Threshold = unneeded, threshold
				out = append(out, k)
			}
		}
	}
	return out
}

// swept is a config at all targets.
func swept(c config) []config {
	var out []config
	for _, t := range targets {
		c.Target = t
		out = append(out, c)
	}
	return out
}

// near are what an owner would try beside a config: all windows at its target, and its own at the
// targets around, beyond those of a sweep as well, so that no choice is at an edge of what was tried.
func near(c config) []config {
	kind := c
	kind.Stabilization, kind.Unneeded, kind.Threshold, kind.Consolidate = 0, 0, 0, 0
	out := append(windows(kind), c)
	step := 10
	if c.Target > 100 {
		step = 20
	}
	for _, t := range []int{c.Target - 10, c.Target + step} {
		if t > 0 {
			c.Target = t
			out = append(out, c)
		}
	}
	return out
}
