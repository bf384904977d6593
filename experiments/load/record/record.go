// Package record keeps what happened to workloads and pools in an experiment:
// every change of replicas, Ready and pending pods and nodes as it is reported,
// not sampled, and the integrals over time that costs and waiting are made of.
//
// It is pure: times are those of the reports, scenario time by convention.
// Reports must come in order of time; one that is older than the newest counts
// as if it came then.
package record

import (
	"maps"
	"slices"
	"time"
)

// Pod is what counts of a pod.
type Pod struct {
	ID string // a UID
	// Workload it belongs to, empty for a pod of nobody's.
	Workload string
	Node     string // empty while not scheduled
	Pending  bool   // phase Pending: not scheduled, or not started yet
	// Ready and not terminating: what a Service counts as serving.
	Ready    bool
	MilliCPU int64 // requested millicores
	Memory   int64 // requested bytes
}

// Node is what counts of a node.
type Node struct {
	Name     string
	Pool     string
	Ready    bool
	MilliCPU int64 // allocatable millicores
	Memory   int64 // allocatable bytes
}

// WorkloadStep is the state of a workload from a time on.
type WorkloadStep struct {
	At          time.Duration `json:"at"`
	Replicas    int32         `json:"replicas"` // spec.replicas
	Ready       int32         `json:"ready"`
	Pending     int32         `json:"pending"`
	Unscheduled int32         `json:"unscheduled"` // of those pending, without a node
	Pods        int32         `json:"pods"`        // with a node, until they are gone
}

// PoolStep is the state of a pool from a time on.
type PoolStep struct {
	At    time.Duration `json:"at"`
	Nodes int32         `json:"nodes"`
	Ready int32         `json:"ready"`
}

// Interval sums up the time between two calls of Take. Integrals are in the
// unit × seconds.
type Interval struct {
	From, To  time.Duration
	Workloads map[string]WorkloadInterval
	Pools     map[string]PoolInterval
}

// WorkloadInterval sums up a workload.
type WorkloadInterval struct {
	ReplicaSeconds     float64 `json:"replicaSeconds"`
	ReadySeconds       float64 `json:"readySeconds"`
	PendingSeconds     float64 `json:"pendingSeconds"`
	UnscheduledSeconds float64 `json:"unscheduledSeconds"`
	PodSeconds         float64 `json:"podSeconds"`       // of pods that have a node
	RequestSeconds     float64 `json:"requestSeconds"`   // requested core seconds of pods that have a node
	ReadyCPUSeconds    float64 `json:"readyCPUSeconds"`  // requested core seconds of Ready pods
	MemoryGiBSeconds   float64 `json:"memoryGiBSeconds"` // requested, of pods that have a node
	MinReady           int32   `json:"minReady"`
	MaxReplicas        int32   `json:"maxReplicas"`
	ScaleActions       int     `json:"scaleActions"` // changes of spec.replicas
	PodStarts          int     `json:"podStarts"`    // pods that were made
}

// Plus joins two intervals of one workload.
func (w WorkloadInterval) Plus(o WorkloadInterval) WorkloadInterval {
	return WorkloadInterval{
		ReplicaSeconds:     w.ReplicaSeconds + o.ReplicaSeconds,
		ReadySeconds:       w.ReadySeconds + o.ReadySeconds,
		PendingSeconds:     w.PendingSeconds + o.PendingSeconds,
		UnscheduledSeconds: w.UnscheduledSeconds + o.UnscheduledSeconds,
		PodSeconds:         w.PodSeconds + o.PodSeconds,
		RequestSeconds:     w.RequestSeconds + o.RequestSeconds,
		ReadyCPUSeconds:    w.ReadyCPUSeconds + o.ReadyCPUSeconds,
		MemoryGiBSeconds:   w.MemoryGiBSeconds + o.MemoryGiBSeconds,
		MinReady:           min(w.MinReady, o.MinReady),
		MaxReplicas:        max(w.MaxReplicas, o.MaxReplicas),
		ScaleActions:       w.ScaleActions + o.ScaleActions,
		PodStarts:          w.PodStarts + o.PodStarts,
	}
}

// PoolInterval sums up a pool. Requested counts all pods on its nodes,
// DaemonSets' too.
type PoolInterval struct {
	NodeSeconds             float64 `json:"nodeSeconds"` // of Node objects; a machine exists a little longer
	ReadyNodeSeconds        float64 `json:"readyNodeSeconds"`
	AllocatableCPUSeconds   float64 `json:"allocatableCPUSeconds"` // cores × s
	RequestedCPUSeconds     float64 `json:"requestedCPUSeconds"`
	AllocatableMemGiBSecond float64 `json:"allocatableMemGiBSeconds"`
	RequestedMemGiBSecond   float64 `json:"requestedMemGiBSeconds"`
	MaxNodes                int32   `json:"maxNodes"`
}

// Plus joins two intervals of one pool.
func (p PoolInterval) Plus(o PoolInterval) PoolInterval {
	return PoolInterval{
		NodeSeconds:             p.NodeSeconds + o.NodeSeconds,
		ReadyNodeSeconds:        p.ReadyNodeSeconds + o.ReadyNodeSeconds,
		AllocatableCPUSeconds:   p.AllocatableCPUSeconds + o.AllocatableCPUSeconds,
		RequestedCPUSeconds:     p.RequestedCPUSeconds + o.RequestedCPUSeconds,
		AllocatableMemGiBSecond: p.AllocatableMemGiBSecond + o.AllocatableMemGiBSecond,
		RequestedMemGiBSecond:   p.RequestedMemGiBSecond + o.RequestedMemGiBSecond,
		MaxNodes:                max(p.MaxNodes, o.MaxNodes),
	}
}

// PackingEfficiency is requested over allocatable of the resource that is
// requested most, 0–1; 0 without nodes.
func (p PoolInterval) PackingEfficiency() float64 {
	if p.AllocatableCPUSeconds <= 0 || p.AllocatableMemGiBSecond <= 0 {
		return 0
	}
	return max(p.RequestedCPUSeconds/p.AllocatableCPUSeconds, p.RequestedMemGiBSecond/p.AllocatableMemGiBSecond)
}

// Recorder takes reports and sums them up. It is not safe for concurrent use.
type Recorder struct {
	now       time.Duration
	from      time.Duration // of the interval
	pods      map[string]Pod
	onNode    map[string]asked // by the name of a node, known or not
	nodes     map[string]Node
	workloads map[string]*workload
	pools     map[string]*pool
}

// asked is what pods request.
type asked struct{ cpu, memory int64 }

type workload struct {
	state    WorkloadStep
	cpu      int64 // requested by pods with a node
	readyCPU int64
	memory   int64
	steps    []WorkloadStep
	sum      WorkloadInterval
}

type pool struct {
	state               PoolStep
	cpu, memory         int64 // allocatable
	usedCPU, usedMemory int64
	steps               []PoolStep
	sum                 PoolInterval
}

// New returns a recorder of these workloads, all at 0 at time 0.
func New(workloads ...string) *Recorder {
	r := &Recorder{
		pods:      map[string]Pod{},
		onNode:    map[string]asked{},
		nodes:     map[string]Node{},
		workloads: map[string]*workload{},
		pools:     map[string]*pool{},
	}
	for _, name := range workloads {
		r.workloads[name] = &workload{}
	}
	return r
}

// Replicas reports the spec.replicas of a workload. An unknown one is ignored.
func (r *Recorder) Replicas(at time.Duration, name string, n int32) {
	r.advance(at)
	w := r.workloads[name]
	if w == nil || w.state.Replicas == n {
		return
	}
	if len(w.steps) > 0 { // the first report is no action
		w.sum.ScaleActions++
	}
	w.state.Replicas = n
	r.step(w)
}

// Pod reports a pod as it is now.
func (r *Recorder) Pod(at time.Duration, p Pod) {
	r.advance(at)
	old, known := r.pods[p.ID]
	if known && old == p {
		return
	}
	if known {
		r.count(old, -1)
	} else if w := r.workloads[p.Workload]; w != nil {
		w.sum.PodStarts++
	}
	r.pods[p.ID] = p
	r.count(p, +1)
	r.stepOf(old.Workload)
	if p.Workload != old.Workload {
		r.stepOf(p.Workload)
	}
}

// PodGone reports that a pod does not exist, or is finished.
func (r *Recorder) PodGone(at time.Duration, id string) {
	r.advance(at)
	if old, known := r.pods[id]; known {
		r.count(old, -1)
		delete(r.pods, id)
		r.stepOf(old.Workload)
	}
}

// Node reports a node as it is now.
func (r *Recorder) Node(at time.Duration, n Node) {
	r.NodeGone(at, n.Name)
	p := r.pools[n.Pool]
	if p == nil {
		p = &pool{}
		r.pools[n.Pool] = p
	}
	r.nodes[n.Name] = n
	p.add(n, +1)
	p.usedCPU += r.onNode[n.Name].cpu
	p.usedMemory += r.onNode[n.Name].memory
	p.step(r.now)
}

// NodeGone reports that a node does not exist.
func (r *Recorder) NodeGone(at time.Duration, name string) {
	r.advance(at)
	old, known := r.nodes[name]
	if !known {
		return
	}
	p := r.pools[old.Pool]
	p.add(old, -1)
	p.usedCPU -= r.onNode[name].cpu
	p.usedMemory -= r.onNode[name].memory
	delete(r.nodes, name)
	p.step(r.now)
}

func (p *pool) add(n Node, sign int32) {
	p.state.Nodes += sign
	if n.Ready {
		p.state.Ready += sign
	}
	p.cpu += int64(sign) * n.MilliCPU
	p.memory += int64(sign) * n.Memory
	p.sum.MaxNodes = max(p.sum.MaxNodes, p.state.Nodes)
}

// count adds a pod to its workload and to its node's pool, or takes it away.
func (r *Recorder) count(p Pod, sign int32) {
	cpu, memory := int64(sign)*p.MilliCPU, int64(sign)*p.Memory
	if p.Node != "" {
		sum := r.onNode[p.Node]
		if sum = (asked{sum.cpu + cpu, sum.memory + memory}); sum == (asked{}) {
			delete(r.onNode, p.Node)
		} else {
			r.onNode[p.Node] = sum
		}
	}
	if n, known := r.nodes[p.Node]; known {
		pool := r.pools[n.Pool]
		pool.usedCPU += cpu
		pool.usedMemory += memory
	}
	w := r.workloads[p.Workload]
	if w == nil {
		return
	}
	if p.Pending {
		w.state.Pending += sign
	}
	switch {
	case p.Node != "":
		w.state.Pods += sign
		w.cpu += cpu
		w.memory += memory
	case p.Pending:
		w.state.Unscheduled += sign
	}
	if p.Ready {
		w.state.Ready += sign
		w.readyCPU += cpu
	}
}

func (r *Recorder) stepOf(name string) {
	if w := r.workloads[name]; w != nil {
		r.step(w)
	}
}

func (r *Recorder) step(w *workload) {
	w.state.At = r.now
	w.sum.MinReady = min(w.sum.MinReady, w.state.Ready)
	w.sum.MaxReplicas = max(w.sum.MaxReplicas, w.state.Replicas)
	if n := len(w.steps); n > 0 {
		same := w.steps[n-1]
		same.At = r.now
		if same == w.state {
			return
		}
	}
	w.steps = append(w.steps, w.state)
}

func (p *pool) step(now time.Duration) {
	p.state.At = now
	// A node that is reported again is gone and back at the same moment.
	if n := len(p.steps); n > 0 && p.steps[n-1].At == now {
		p.steps = p.steps[:n-1]
	}
	if n := len(p.steps); n > 0 && p.steps[n-1].Nodes == p.state.Nodes && p.steps[n-1].Ready == p.state.Ready {
		return
	}
	p.steps = append(p.steps, p.state)
}

const gib = 1 << 30

// advance adds the time since the newest report to the integrals.
func (r *Recorder) advance(to time.Duration) {
	dt := (to - r.now).Seconds()
	if dt <= 0 {
		return
	}
	r.now = to
	for _, w := range r.workloads {
		w.sum.ReplicaSeconds += dt * float64(w.state.Replicas)
		w.sum.ReadySeconds += dt * float64(w.state.Ready)
		w.sum.PendingSeconds += dt * float64(w.state.Pending)
		w.sum.UnscheduledSeconds += dt * float64(w.state.Unscheduled)
		w.sum.PodSeconds += dt * float64(w.state.Pods)
		w.sum.RequestSeconds += dt * float64(w.cpu) / 1000
		w.sum.ReadyCPUSeconds += dt * float64(w.readyCPU) / 1000
		w.sum.MemoryGiBSeconds += dt * float64(w.memory) / gib
	}
	for _, p := range r.pools {
		p.sum.NodeSeconds += dt * float64(p.state.Nodes)
		p.sum.ReadyNodeSeconds += dt * float64(p.state.Ready)
		p.sum.AllocatableCPUSeconds += dt * float64(p.cpu) / 1000
		p.sum.RequestedCPUSeconds += dt * float64(p.usedCPU) / 1000
		p.sum.AllocatableMemGiBSecond += dt * float64(p.memory) / gib
		p.sum.RequestedMemGiBSecond += dt * float64(p.usedMemory) / gib
	}
}

// Take sums up the time since the last Take, up to now.
func (r *Recorder) Take(now time.Duration) Interval {
	r.advance(now)
	i := Interval{From: r.from, To: r.now, Workloads: map[string]WorkloadInterval{}, Pools: map[string]PoolInterval{}}
	r.from = r.now
	for name, w := range r.workloads {
		i.Workloads[name] = w.sum
		w.sum = WorkloadInterval{MinReady: w.state.Ready, MaxReplicas: w.state.Replicas}
	}
	for name, p := range r.pools {
		i.Pools[name] = p.sum
		p.sum = PoolInterval{MaxNodes: p.state.Nodes}
	}
	return i
}

// Now returns the state of a workload; false if it is unknown.
func (r *Recorder) Now(name string) (WorkloadStep, bool) {
	w := r.workloads[name]
	if w == nil {
		return WorkloadStep{}, false
	}
	return w.state, true
}

// Workload returns every change of a workload so far.
func (r *Recorder) Workload(name string) []WorkloadStep {
	if w := r.workloads[name]; w != nil {
		return slices.Clone(w.steps)
	}
	return nil
}

// Pools returns every change of every pool so far, by name; nodes of no pool
// are under the empty name.
func (r *Recorder) Pools() map[string][]PoolStep {
	out := make(map[string][]PoolStep, len(r.pools))
	for name, p := range r.pools {
		out[name] = slices.Clone(p.steps)
	}
	return out
}

// PoolNames are the pools seen so far, sorted.
func (r *Recorder) PoolNames() []string { return slices.Sorted(maps.Keys(r.pools)) }

// MinReady is the least number of Ready pods at any moment of [from, to], by
// the steps of a workload.
func MinReady(steps []WorkloadStep, from, to time.Duration) int32 {
	least, before := int32(-1), int32(0)
	for _, s := range steps {
		switch {
		case s.At <= from:
			before = s.Ready
		case s.At <= to && (least < 0 || s.Ready < least):
			least = s.Ready
		}
	}
	if least < 0 {
		return before
	}
	return min(least, before)
}
