package planning

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning/canary"
	"github.com/mash2-io/mash2/planning/choice"
	"github.com/mash2-io/mash2/planning/sizing"
	"github.com/mash2-io/mash2/record/delta"
)

// Memory is what a Hierarchy carries from one cycle to the next. It is a value:
// Plan never writes to the one it is given. Its JSON form is a checkpoint; the
// zero Memory is that of a first start. Where a migration stands is not in it.
type Memory struct {
	// Policy and Weights that the last plan was made for: when they change, a
	// pool is left without the margin that otherwise holds workloads there.
	Policy  string      `json:"policy,omitempty"`
	Weights api.Weights `json:"weights,omitzero"`
	// Better is where workloads may be moved to.
	Better Better `json:"better,omitzero"`
	// Found are the sizes per zone of pools in the first cycle, in order of
	// name, and Start is its time.
	Found []PoolSize `json:"found,omitempty"`
	Start time.Time  `json:"start,omitzero"`
	// Pools that are managed, in order of name.
	Pools []PoolMemory `json:"pools,omitempty"`
	// Workloads in order of key.
	Workloads []WorkloadMemory `json:"workloads,omitempty"`
	// Together are margins of the demand of all workloads that share nodes: see sharing.
	Together Margins `json:"together,omitzero"`
	// Standing is what pools' StandingUsage was, in order of their names.
	Standing []Standing `json:"standing,omitempty"`
	// Signals are what each signal of the policy was in the last cycle.
	Signals []api.SignalState `json:"signals,omitempty"`
	// Strategies are what each strategy was in the last cycle.
	Strategies []api.StrategyState `json:"strategies,omitempty"`
	// Rollback is not nil while the plan is one that was taken back to.
	Rollback *RolledBack `json:"rollback,omitempty"`
	// Trials of workloads in mode Canary, in order of group.
	Trials []canary.Trial `json:"trials,omitempty"`

	// forecasts is a cache that the next cycles rebuild from history.
	forecasts map[api.Key]forecast.State
	// packings are the NodePreparer's cache.
	packings api.WarmStart
}

// Better is the best other assignment to pools than the present one: the name of the pool
// where all workloads are on one. Regret is what U lost by not being there, or on those that
// were the best before, up to a time, times seconds.
type Better struct {
	Assignment string    `json:"assignment"`
	Regret     float64   `json:"regret"`
	At         time.Time `json:"at"`
}

// PoolSize is a pool's size per zone.
type PoolSize struct {
	Pool    string `json:"pool"`
	PerZone int32  `json:"perZone"`
}

// found notes the pools of the first cycle and forgets them when nobody will
// ask any more.
func (m *Memory) found(before Memory, s api.Snapshot, window time.Duration) {
	m.Start, m.Found = before.Start, before.Found
	switch {
	case m.Start.IsZero():
		m.Start = s.Time
		for _, p := range s.Pools {
			m.Found = append(m.Found, PoolSize{Pool: p.Name, PerZone: largest(p.Sizes)})
		}
		slices.SortFunc(m.Found, func(a, b PoolSize) int { return strings.Compare(a.Pool, b.Pool) })
	case s.Time.Sub(m.Start) > window:
		m.Found = nil
	}
}

// WorkloadMemory is what is remembered of one workload.
type WorkloadMemory struct {
	Key api.Key `json:"key"`
	// Replicas that the workload had in the last cycle, without those that a
	// migration added for a while.
	Replicas int32 `json:"replicas"`
	// Planned replicas and those that nodes were planned for.
	Planned      int32 `json:"planned"`
	NodeReplicas int32 `json:"nodeReplicas"`
	// Pool that it was last planned on; empty if none was.
	Pool string `json:"pool,omitempty"`
	// Spot is the pool of spot machines that some of its replicas were planned on besides;
	// empty if none was.
	Spot string `json:"spot,omitempty"`
	// Apart is the pool that it was last planned on as a strategy leaves it no other one of
	// the policy's, until its pods have left that pool; empty if none is.
	Apart string `json:"apart,omitempty"`
	// Recommendations before stabilisation, oldest first.
	Recommendations []Recommendation `json:"recommendations,omitempty"`
	// Ramps are those with what a ramp of demand asked for besides, were it to go
	// on, of cycles in which one did. They hold nothing for as long as the others.
	Ramps []Recommendation `json:"ramps,omitempty"`
	// Readings are the newest two of metrics.k8s.io, oldest first.
	Readings []api.Usage `json:"readings,omitempty"`
	// Scalings seen, oldest first.
	Scalings []Scaling `json:"scalings,omitempty"`
	// Margins that keep the policy's objective.
	Margins Margins `json:"margins,omitzero"`
	// Request of a replica that NodeReplicas and Recommendations count,
	// millicores; 0 if not known.
	Request int64 `json:"request,omitempty"`
	// Sizing of its containers; nil where that is its author's.
	Sizing *sizing.Memory `json:"sizing,omitempty"`
	// SizesOnly tells that nothing but Sizing is known: the rest was too old as the operator began.
	SizesOnly bool `json:"sizesOnly,omitempty"`
	// IdleSince is from when on no trigger of a workload that may have no
	// replicas has been active; zero while one is, or may be.
	IdleSince time.Time `json:"idleSince,omitzero"`
	// SLOs in the author's order, and Past, what ran, oldest first: both only while some
	// workload has SLOs.
	SLOs []SLOMemory `json:"slos,omitempty"`
	Past []PastScale `json:"past,omitempty"`
}

// Recommendation that held from a first to a last cycle, in replicas of a
// machine of speed 1, so that it keeps its meaning on another pool.
type Recommendation struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Capacity float64   `json:"capacity"`
}

// Scaling is a change of replicas.
type Scaling struct {
	At     time.Time `json:"at"`
	Change int32     `json:"change"`
}

// canonical writes a memory the same way each time, and quickly.
var canonical = func() cbor.EncMode {
	mode, err := cbor.EncOptions{Time: cbor.TimeUnixDynamic}.EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// A log of records keeps all of a memory, caches included: replay gives the same
// bytes only from the same state.
func init() { delta.Register("planning.Memory", Memory{}) }

// Hash tells one memory from another, caches aside: it is what a Cycle records.
func (m Memory) Hash() string {
	b, err := canonical.Marshal(m)
	if err != nil {
		panic(err) // a type that CBOR has no form for
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// workload returns what is remembered of key, and whether anything is.
func (m Memory) workload(key api.Key) (WorkloadMemory, bool) {
	i, ok := slices.BinarySearchFunc(m.Workloads, key, func(w WorkloadMemory, k api.Key) int {
		switch {
		case w.Key.Less(k):
			return -1
		case k.Less(w.Key):
			return 1
		}
		return 0
	})
	if !ok {
		return WorkloadMemory{Key: key}, false
	}
	return m.Workloads[i], true
}

// observe returns w with the replicas seen now, noting the change.
func (w WorkloadMemory) observe(now time.Time, replicas int32, known bool) WorkloadMemory {
	if known && replicas != w.Replicas {
		w.Scalings = append(slices.Clone(w.Scalings), Scaling{At: now, Change: replicas - w.Replicas})
	}
	w.Replicas = replicas
	return w
}

// read returns w with a reading of metrics.k8s.io, if it is a new one that can be
// used.
func (w WorkloadMemory) read(u *api.Usage) WorkloadMemory {
	n := len(w.Readings)
	if u == nil || math.IsNaN(u.MilliCPU) || math.IsInf(u.MilliCPU, 0) || n > 0 && !u.At.After(w.Readings[n-1].At) {
		return w
	}
	w.Readings = append(slices.Clone(w.Readings[max(0, n-1):]), *u)
	return w
}

// counted returns w for replicas as a proposal counts them: as many of another
// request as were worth the same, so that what was needed of small ones is no
// reason to keep large ones. Triggers count replicas whatever they request.
func (w WorkloadMemory) counted(asked Proposal) WorkloadMemory {
	if asked.Request <= 0 || len(asked.Triggers) > 0 {
		return w
	}
	if w.Request > 0 && w.Request != asked.Request {
		ratio := float64(w.Request) / float64(asked.Request)
		w.NodeReplicas = choice.Ceil(float64(w.NodeReplicas) * ratio)
		w.Recommendations = slices.Clone(w.Recommendations)
		for i := range w.Recommendations {
			w.Recommendations[i].Capacity *= ratio
		}
		w.Ramps = slices.Clone(w.Ramps)
		for i := range w.Ramps {
			w.Ramps[i].Capacity *= ratio
		}
	}
	w.Request = asked.Request
	return w
}

// idle returns w with what is known of its triggers now.
func (w WorkloadMemory) idle(now time.Time, a api.Activity) WorkloadMemory {
	switch {
	case a != api.Inactive:
		w.IdleSince = time.Time{}
	case w.IdleSince.IsZero():
		w.IdleSince = now
	}
	return w
}

// recommend returns w with one more recommendation.
func (w WorkloadMemory) recommend(now time.Time, capacity float64) WorkloadMemory {
	w.Recommendations = recommended(w.Recommendations, now, capacity)
	return w
}

// recommended is a list with one more recommendation.
func recommended(list []Recommendation, now time.Time, capacity float64) []Recommendation {
	list = slices.Clone(list)
	if n := len(list); n > 0 && list[n-1].Capacity == capacity {
		list[n-1].To = now
		return list
	}
	return append(list, Recommendation{From: now, To: now, Capacity: capacity})
}

// forget returns w without what lies before a time.
func (w WorkloadMemory) forget(before time.Time) WorkloadMemory {
	keep := 0
	for keep < len(w.Recommendations) && w.Recommendations[keep].To.Before(before) {
		keep++
	}
	w.Recommendations = w.Recommendations[keep:len(w.Recommendations):len(w.Recommendations)]
	keep = 0
	for keep < len(w.Ramps) && w.Ramps[keep].To.Before(before) {
		keep++
	}
	w.Ramps = w.Ramps[keep:len(w.Ramps):len(w.Ramps)]
	keep = 0
	for keep < len(w.Scalings) && w.Scalings[keep].At.Before(before) {
		keep++
	}
	w.Scalings = w.Scalings[keep:len(w.Scalings):len(w.Scalings)]
	return w
}

// span returns the least and the largest recommendation since a time.
func (w WorkloadMemory) span(since time.Time) (least, largest float64, ok bool) {
	return span(w.Recommendations, since)
}

// last is until when a recommendation was the newest one.
func (w WorkloadMemory) last(capacity float64) time.Time {
	var to time.Time
	for _, r := range w.Recommendations {
		if r.Capacity == capacity && r.To.After(to) {
			to = r.To
		}
	}
	return to
}

// span returns the same of any recommendations.
func span(list []Recommendation, since time.Time) (least, largest float64, ok bool) {
	for _, r := range list {
		if r.To.Before(since) {
			continue
		}
		if !ok {
			least, largest, ok = r.Capacity, r.Capacity, true
			continue
		}
		least, largest = min(least, r.Capacity), max(largest, r.Capacity)
	}
	return least, largest, ok
}

// changed sums the replicas added and removed since a time, both positive.
func (w WorkloadMemory) changed(since time.Time) (added, removed int32) {
	for _, s := range w.Scalings {
		switch {
		case !s.At.After(since):
		case s.Change > 0:
			added += s.Change
		default:
			removed -= s.Change
		}
	}
	return added, removed
}
