package planning

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/sizing"
)

// DefaultTolerance is the HPA's: the relative deviation that changes nothing.
const DefaultTolerance = 0.1

// Config of a Hierarchy. A run at n times the speed divides every duration by n.
type Config struct {
	// CyclePeriod is the time between two cycles: what is not asked for now
	// can be asked for one period later.
	CyclePeriod time.Duration
	// MetricDelay is how old demand is when a cycle sees it: scrape interval
	// plus half the averaging window.
	MetricDelay time.Duration
	// Averaging is the window that a sample of demand is a mean of: it shows in full, and
	// on average half of it, that much later.
	Averaging time.Duration
	// Horizon of the forecast and the path. Windows that are longer than it
	// are cut, so it should exceed NodeTrough plus twice a node's boot time.
	Horizon time.Duration
	// Trough is how much longer than the pod startup latency replicas must be out of use,
	// by a trusted forecast, before they are given up: a trough shorter than
	// that isn't worth stopping and starting pods for.
	Trough time.Duration
	// NodeTrough is the same for nodes, on top of twice the node startup latency: a node
	// given up for less would be paid for booting all the while.
	NodeTrough time.Duration
	// Stabilization is the window of the past whose largest recommendation
	// holds replicas up where no trusted forecast looks ahead instead and the
	// workload states none; with an objective they stay for NodeStabilization if that is
	// longer, with their nodes. The HPA's default is 300 s.
	Stabilization time.Duration
	// TrustedStabilization replaces Stabilization while a trusted forecast looks ahead and no
	// margins keep an objective: it only irons out the forecast's own changes of mind.
	TrustedStabilization time.Duration
	// NodeStabilization is how long nodes must have been of no use before they
	// are given up where no trusted forecast looks ahead, and how long those
	// found at the start stay: what they were there for isn't known. With an objective they may stay
	// for up to six times as long (see Margins.Hold). It is
	// Cluster Autoscaler's --scale-down-unneeded-time, 10 minutes. While demand
	// keeps falling, and falls weren't made up for at once before, it is no longer
	// than Windows.NodeTrough (see declining).
	NodeStabilization time.Duration
	// PoolErrorMemory is how long a quota or stockout error keeps a pool from
	// being considered beyond its present size while there are other pools.
	PoolErrorMemory time.Duration
	// SLOProving is how long a plan must have run with an SLO kept to count as one that
	// keeps it: what bites later is not told from what came with demand. SLOPast is how
	// far back readings of SLOs, and what ran, are remembered.
	SLOProving time.Duration
	SLOPast    time.Duration

	// CanaryBlock is for how long bad events are counted together in a trial.
	CanaryBlock time.Duration

	// MinSkill trusts a forecast to lower replicas: its skill over the last
	// value must be known and no less.
	MinSkill float64
	// MinSkillUp is the skill that a forecast must exceed to raise replicas.
	// The reference itself, the last value, has skill 0: its wide quantiles
	// would buy capacity without knowing anything. Until a forecast has shown
	// that it knows more, the reactive floor decides, as an HPA would.
	MinSkillUp float64
	// FitWork is the work budget of a cycle's refits of forecasts, in samples of
	// history, of which a refit counts no more than fitWhole: longer ones are
	// read in part. Bins of the long memory count as much, all of them. What is left
	// due is refitted in the cycles after; until its first fit a workload is planned
	// by the reactive floor. While much was never fitted, as after a start, a cycle does
	// more: see coldShare.
	FitWork int
	// Tolerance is the relative deviation of need from replicas that changes
	// nothing, where a workload states none.
	Tolerance float64
	// SwitchMargin is how much more utility another allowed pool must have
	// before workloads move to it, unless the policy changed. The terms of the
	// utility are about 0–1 each, so 0.02 is two percent of a whole term.
	SwitchMargin float64
	// Packings is the budget of the search: how many times one cycle may ask
	// the NodePlanner. In large clusters it is fewer, so that packings times
	// (pods + nodes) stay within PackingWork.
	Packings    int
	PackingWork int
	// Solver is the budget of each packing.
	Solver api.Budget
	// Candidates is how many losing candidates a plan shows, per pool.
	Candidates int
	// Sizing of containers, where workloads ask for it.
	Sizing sizing.Config
}

// DefaultConfig is for real time: cycles every 15 s.
func DefaultConfig() Config {
	return Config{
		CyclePeriod:          15 * time.Second,
		MetricDelay:          15 * time.Second,
		Averaging:            time.Minute,
		Horizon:              15 * time.Minute,
		Trough:               15 * time.Second,
		NodeTrough:           time.Minute,
		Stabilization:        5 * time.Minute,
		TrustedStabilization: 30 * time.Second,
		NodeStabilization:    10 * time.Minute,
		PoolErrorMemory:      10 * time.Minute,
		SLOProving:           5 * time.Minute,
		SLOPast:              time.Hour,
		CanaryBlock:          time.Minute,
		MinSkill:             0.1,
		MinSkillUp:           0,
		FitWork:              75_000,
		Tolerance:            DefaultTolerance,
		SwitchMargin:         0.02,
		Packings:             200,
		PackingWork:          250_000,
		Candidates:           8,
		Sizing:               sizing.DefaultConfig(),
	}
}

// fitWhole is the most samples that a refit counts.
const fitWhole = 1500

// Scaled returns c for a run at speed times real time.
func (c Config) Scaled(speed float64) Config {
	for _, d := range []*time.Duration{
		&c.CyclePeriod, &c.MetricDelay, &c.Averaging, &c.Horizon, &c.Trough, &c.NodeTrough,
		&c.Stabilization, &c.TrustedStabilization, &c.NodeStabilization, &c.PoolErrorMemory,
		&c.SLOProving, &c.SLOPast, &c.CanaryBlock,
	} {
		*d = time.Duration(float64(*d) / speed)
	}
	c.Sizing = c.Sizing.Scaled(speed)
	return c
}

// Validate reports the first field that can't be used.
func (c Config) Validate() error {
	for _, f := range []struct {
		name string
		bad  bool
		want string
		is   any
	}{
		{"CyclePeriod", c.CyclePeriod <= 0, "positive", c.CyclePeriod},
		{"MetricDelay", c.MetricDelay < 0, "0 or more", c.MetricDelay},
		{"Averaging", c.Averaging < 0, "0 or more", c.Averaging},
		{"Horizon", c.Horizon < c.CyclePeriod, "CyclePeriod or more", c.Horizon},
		{"Trough", c.Trough < 0, "0 or more", c.Trough},
		{"NodeTrough", c.NodeTrough < 0, "0 or more", c.NodeTrough},
		{"Stabilization", c.Stabilization < 0, "0 or more", c.Stabilization},
		{"TrustedStabilization", c.TrustedStabilization < 0, "0 or more", c.TrustedStabilization},
		{"NodeStabilization", c.NodeStabilization < 0, "0 or more", c.NodeStabilization},
		{"PoolErrorMemory", c.PoolErrorMemory < 0, "0 or more", c.PoolErrorMemory},
		{"SLOProving", c.SLOProving < 0, "0 or more", c.SLOProving},
		{"SLOPast", c.SLOPast < c.SLOProving, "SLOProving or more", c.SLOPast},
		{"CanaryBlock", c.CanaryBlock <= 0, "positive", c.CanaryBlock},
		{"MinSkill", !(c.MinSkill <= 1), "1 or less", c.MinSkill},
		{"MinSkillUp", !(c.MinSkillUp <= c.MinSkill), "MinSkill or less", c.MinSkillUp},
		{"FitWork", c.FitWork < 1, "1 or more", c.FitWork},
		{"Tolerance", !(c.Tolerance >= 0 && c.Tolerance < 1), "in [0, 1)", c.Tolerance},
		{"SwitchMargin", !(c.SwitchMargin >= 0), "0 or more", c.SwitchMargin},
		{"Packings", c.Packings < 1, "1 or more", c.Packings},
		{"PackingWork", c.PackingWork < 1, "1 or more", c.PackingWork},
		{"Solver.Iterations", c.Solver.Iterations < 0, "0 or more", c.Solver.Iterations},
		{"Candidates", c.Candidates < 0, "0 or more", c.Candidates},
	} {
		if f.bad {
			return fmt.Errorf("planning config: %s must be %s, is %v", f.name, f.want, f.is)
		}
	}
	return nil
}

// rare is the startup latency that one in a hundred is longer than, of a log-normal one
// with these quantiles: what keeps an objective waits for fewer late ones than a tenth.
func rare(l api.StartupLatency) api.StartupLatency {
	const z90, z99 = 1.2816, 2.3263
	if l.P50 > 0 && l.P90 > l.P50 {
		l.P90 = time.Duration(float64(l.P50) * math.Pow(float64(l.P90)/float64(l.P50), z99/z90))
	}
	return l
}

// windows of the path, given the measured leads.
func (c Config) windows(pod, node api.StartupLatency) Windows {
	late := c.CyclePeriod + c.MetricDelay
	w := Windows{
		Pod:     pod.P90 + late,
		Horizon: c.Horizon,
		PodHold: max(c.Stabilization, c.NodeStabilization), NodeHold: c.NodeStabilization, Late: c.Averaging / 2,
		Tolerance: c.Tolerance,
	}
	// Nodes must be there before the pods that need them are asked for.
	w.Node = node.P90 + w.Pod
	w.Trough = w.Pod + c.Trough
	w.NodeTrough = w.Node + node.P90 + c.NodeTrough
	for _, d := range []*time.Duration{&w.Pod, &w.Node, &w.Trough, &w.NodeTrough} {
		*d = min(*d, c.Horizon)
	}
	return w
}
