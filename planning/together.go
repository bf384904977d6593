package planning

import (
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
)

// The pods of a node don't all need their margins at once: what one workload leaves of its
// own another one can use, as cores that are short are shared by request and a pod may use
// what is idle up to its limit. So nodes have room for what all may grow by together,
// instead of for the sum of what each may grow by.
//
// How much is together is measured on the sum of their demand, in the same way as on each
// one's: eᵢ is what workload i may grow by, and E what the sum may. Were all growth at the same
// time, E would be S = Σeᵢ; were it independent and alike, Q = √Σeᵢ² (the square-root rule of
// staffing, Halfin and Whitt 1981). The share of variance that is common is
//
//	ρ = (E² − Q²) / (S² − Q²), within 0 and 1,
//
// and of a node, on which workload i has a part qᵢ of what its pods grow by in all, the share
// of Σqᵢ that is to be there is
//
//	κ = √( ρ + (1−ρ)·Σqᵢ²/(Σqᵢ)² ).
//
// A workload alone has κ = 1. On a node with as much of each of n workloads it is at least 1/√n,
// so that there is room for the whole growth of any one of them.

// sharing is κ, until new replicas serve and until they do on new nodes, and λ, of what is idle
// (see idleOn); 1 for no sharing.
type sharing struct{ pods, nodes, idle float64 }

// alone is a workload that shares with nobody.
var alone = sharing{1, 1, 1}

// Sharing is what a workload's margins have in common with those of others on its nodes. The
// zero value is of one that is alone.
type Sharing struct {
	// Pods and Nodes are the shares, 0–1, of what demand may grow by that replicas must have
	// of their own, until new ones serve and until they do on new nodes: κ.
	Pods  float64 `json:"pods,omitempty"`
	Nodes float64 `json:"nodes,omitempty"`
	// Confined is what a replica can use in any case, as a share of what it can while others
	// leave it idle, 0–1.
	Confined float64 `json:"confined,omitempty"`
	// Idle is how many times as much replicas may be used as where nothing is idle on their
	// nodes, 1 or more: λ.
	Idle float64 `json:"idle,omitempty"`
}

// shared returns margins with what the pods of a node have in common, where a replica can
// use so many times its request as long as others leave it idle, and guaranteed times in any case.
func (m Margins) shared(by sharing, guaranteed, most float64) Margins {
	if !m.Known() || by == alone || !(guaranteed > 0) || !(most > guaranteed) {
		return m
	}
	idle := math.Min(by.idle, most/guaranteed)
	m.Sharing = Sharing{Pods: by.pods, Nodes: by.nodes, Confined: guaranteed * idle / most, Idle: idle}
	return m
}

// Saturation is the share of what replicas can use in any case that they may be planned to use.
func (m Margins) Saturation() float64 {
	return choice.Saturation * math.Max(m.Sharing.Idle, 1)
}

// Alone returns margins that share nothing.
func (m Margins) Alone() Margins {
	m.Sharing = Sharing{}
	return m
}

// Foreseen is what demand that is expected, and may be so much more, takes of what replicas
// have of their own: until new ones serve, or until they do on new nodes.
func (m Margins) Foreseen(expected, most float64, nodes bool) float64 {
	own := m.Sharing.Pods
	if nodes {
		own = m.Sharing.Nodes
	}
	if m.Sharing == (Sharing{}) || most <= expected {
		return most
	}
	return math.Max(expected+(most-expected)*own, most*m.Sharing.Confined)
}

// shares reports whether a workload's pods leave to others on their nodes what they don't
// use, and can use what others leave.
func (c *cycle) shares(mw *managed) bool {
	return c.p.Burst && mw.memory.Margins.Known() && mw.workload.Mode == api.ModeFull && mw.workload.Hold == "" && !mw.workload.DemandStale
}

// growth is what a workload's demand may grow by, reference millicores.
func (c *cycle) growth(mw *managed) sharing {
	now, _, ok := mw.workload.Demand.Last()
	if !ok || !(now > 0) {
		return sharing{}
	}
	m := mw.memory.Margins
	return sharing{pods: m.Pods(now, c.s.Time) - now, nodes: m.Nodes(now, c.s.Time) - now}
}

// measureCommon measures how much of what workloads grow by they grow at the same time, and
// finds whom they share nodes with, by the pools that these are in.
func (c *cycle) measureCommon(windows Windows, pools map[string]*api.Pool) {
	var all []*managed
	for i := range c.managed {
		if mw := &c.managed[i]; c.shares(mw) {
			all = append(all, mw)
		}
	}
	if len(all) < 2 {
		c.memory.Together = Margins{}
		return
	}
	c.findStrangers(pools)
	m := c.memory.Together
	sum := api.Workload{}
	if again, _ := m.due(sum, c.p, c.s.Time); again {
		sum.Demand = sumOf(all)
		m = m.taken(sum, c.p, c.s.Time, windows)
	}
	c.memory.Together = m
	if !m.Known() {
		return
	}
	var now float64
	var s, q sharing
	for _, mw := range all {
		d, _, _ := mw.workload.Demand.Last()
		e := c.growth(mw)
		now += math.Max(d, 0)
		s.pods, s.nodes = s.pods+e.pods, s.nodes+e.nodes
		q.pods, q.nodes = q.pods+e.pods*e.pods, q.nodes+e.nodes*e.nodes
	}
	c.common = sharing{common(m.Pods(now, c.s.Time)-now, s.pods, q.pods), common(m.Nodes(now, c.s.Time)-now, s.nodes, q.nodes), 1}
}

// common is ρ, of what a sum grows by, the sum of growths, and that of their squares.
func common(e, s, q2 float64) float64 {
	const apart = 1.001 // one workload has next to all growth otherwise
	if !(s*s > apart*q2) {
		return 1
	}
	return math.Min(math.Max((e*e-q2)/(s*s-q2), 0), 1)
}

// sumOf demand of all, over the time of the longest one, in its steps: a gap has the value before
// it, and what is older than a series its first one.
func sumOf(all []*managed) api.Series {
	longest := all[0].workload.Demand
	for _, mw := range all {
		if d := mw.workload.Demand; len(d.Values) > len(longest.Values) {
			longest = d
		}
	}
	out := api.Series{Start: longest.Start, Step: longest.Step, Values: make([]float64, len(longest.Values))}
	for _, mw := range all {
		d := mw.workload.Demand
		if d.Step != out.Step || len(d.Values) == 0 {
			continue
		}
		behind := int(math.Round(float64(d.Start.Sub(out.Start)) / float64(d.Step)))
		last := 0.0
		for _, v := range d.Values {
			if finite(v) {
				last = v
				break
			}
		}
		for i := range out.Values {
			if j := i - behind; j >= 0 && j < len(d.Values) && finite(d.Values[j]) {
				last = d.Values[j]
			}
			out.Values[i] += last
		}
	}
	return out
}

// windows of a pool. Where nodes are not planned, nobody knows when they go: replicas are
// held for no longer than an HPA holds them.
func (c *cycle) windows(pod, node api.StartupLatency) Windows {
	w := c.Config.windows(pod, node)
	if len(c.pools) == 0 {
		w.PodHold = c.Config.Stabilization
	}
	return w
}

// knownStartups is how many of its own pods' startups tell how long a workload takes. With
// fewer it takes no less than others do.
const knownStartups = 10

// podStartup is how long a workload's pods take to be Ready.
func (c *cycle) podStartup(w *api.Workload) api.StartupLatency {
	own, all := w.PodStartup, c.s.PodStartup
	switch {
	case own.Samples == 0:
		return all
	case own.Samples < knownStartups:
		own.P50, own.P90 = max(own.P50, all.P50), max(own.P90, all.P90)
	}
	return own
}

// longestWindows are those of the pool that is allowed whose nodes take longest, for pods
// that take so long to start.
func (c *cycle) longestWindows(pod api.StartupLatency) Windows {
	var boot api.StartupLatency
	for i := range c.pools {
		if p := c.pools[i].NodeStartup; p.P90 > boot.P90 {
			boot = p
		}
	}
	return c.windows(pod, boot)
}

// sharingOn is κ and λ of the workloads that are on a pool, as on says.
func (c *cycle) sharingOn(pool *api.Pool, on func(i int) bool) sharing {
	if pool == nil || pool.Cores <= 0 {
		return alone
	}
	room := float64(pool.Allocatable.MilliCPU - pool.Overhead.MilliCPU)
	var requested float64
	sharers := 0
	for i := range c.managed {
		if mw := &c.managed[i]; on(i) && c.shares(mw) && mw.workload.Shape != nil {
			requested += float64(max(mw.workload.Replicas, 1)) * float64(mw.workload.Shape.Requests.MilliCPU)
			sharers++
		}
	}
	if !(room > 0) || !(requested > 0) || sharers < 2 {
		return alone
	}
	machines := math.Ceil(requested / room)
	var s, q sharing
	for i := range c.managed {
		mw := &c.managed[i]
		if !on(i) || !c.shares(mw) {
			continue
		}
		e := c.growth(mw)
		// Of fewer pods than there are machines each has more of its growth.
		times := machines / math.Min(math.Max(float64(mw.workload.Replicas), 1), machines)
		s.pods, s.nodes = s.pods+e.pods, s.nodes+e.nodes
		q.pods, q.nodes = q.pods+times*e.pods*e.pods, q.nodes+times*e.nodes*e.nodes
	}
	by := sharing{kappa(c.common.pods, s.pods, q.pods), kappa(c.common.nodes, s.nodes, q.nodes), 1}
	by.idle = c.idleOn(pool, by, on)
	return by
}

// kappa is κ, of ρ, the sum of growths and that of their squares as they are on a node.
func kappa(rho, s, q2 float64) float64 {
	if !(s > 0) {
		return 1
	}
	return math.Sqrt(rho + (1-rho)*math.Min(q2/(s*s), 1))
}

// most is how many times what it requests a replica can use while others leave it idle.
func most(shape *api.PodShape, pool *api.Pool) float64 {
	if pool == nil || shape == nil || shape.Requests.MilliCPU <= 0 {
		return 1
	}
	out := podCores(pool) / float64(shape.Requests.MilliCPU)
	if shape.LimitCPU > 0 {
		out = math.Min(out, float64(shape.LimitCPU)/float64(shape.Requests.MilliCPU))
	}
	return out
}

// marginsOn are a workload's margins on a pool whose pods share by so much.
func (c *cycle) marginsOn(mw *managed, pool *api.Pool, by sharing) Margins {
	m := mw.memory.Margins
	if !c.shares(mw) {
		return m
	}
	return m.shared(by, burst(mw.workload.Shape, pool, c.leastRequest), most(mw.workload.Shape, pool))
}

// factor is by what replicas must be thought to be too few until new ones serve, of what they
// have of their own.
func (m Margins) factor(now time.Time) float64 {
	f := math.Max(m.counted(m.Pod.At(now)), leastMargin)
	return math.Max(m.Foreseen(1, f, false), leastMargin)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
