// Package rehearsal plays agents in a simulation of the pods that they would have. [Node] is
// the simulation, second by second; the environment that agents learn in is the same one, with
// everything drawn at random. [Of] calibrates it to a workload by what was read there, and
// compares a planner with a rule in it before the planner may touch a pod.
package rehearsal

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2/planning/vertical"
)

// Loss is how long a request that fails counts, seconds: MARLISE's figure. Work that is older
// is given up.
const Loss = 2.0

// epoch of the simulation's time, which nobody sees.
var epoch = time.Unix(0, 0).UTC()

// Node is pods that share a budget of one node's CPU, with the bounds and the arbitration of
// package vertical. It is for one goroutine.
type Node struct {
	// Rng draws noise, gaps and delays.
	Rng *rand.Rand
	// Cores of the node.
	Cores    float64
	Envelope vertical.Envelope
	Config   vertical.Config
	// Pods, and what became of their requests.
	Pods   []vertical.Pod
	States []State
	// Work of a request, core-seconds.
	Work float64
	// Noise of readings, relative, and Gaps, the chance that there is none.
	Noise, Gaps float64
	// Every so many seconds there is a reading, the mean since the one before; 0 for each.
	Every int
	// Slow is the chance that a resize takes another second.
	Slow float64
	// Moved is by how many millicores limits moved in the last decision, Written how many.
	Moved   int64
	Written int
	// Second that it is.
	Second int

	memory vertical.Memory
}

// State of a pod's requests in the last second.
type State struct {
	// Rate of requests per second, and Response, their mean time in seconds, at most [Loss].
	Rate, Response float64
	// Backlog is core-seconds of work that wait.
	Backlog float64
	// Utilisation of the limit now and a second ago.
	Utilisation, Before float64

	used float64 // core-seconds since the last reading
}

// Input is what planners decide on.
func (n *Node) Input() vertical.Input {
	return vertical.Input{Time: epoch.Add(time.Duration(n.Second) * time.Second), Envelope: n.Envelope, Pods: n.Pods}
}

// Observation is what the agent of a pod sees; nil before its first reading.
func (n *Node) Observation(id string) []float32 { return n.memory.Observation(id) }

// Join adds a pod.
func (n *Node) Join(p vertical.Pod) {
	n.Pods, n.States = append(n.Pods, p), append(n.States, State{})
}

// Leave takes a pod away, and what waited for it.
func (n *Node) Leave(i int) {
	n.Pods, n.States = append(n.Pods[:i], n.Pods[i+1:]...), append(n.States[:i], n.States[i+1:]...)
}

// Decide by a planner and carry it out.
func (n *Node) Decide(p vertical.Planner) {
	out := n.memory.Decide(n.Config, p, n.Input())
	n.Moved, n.Written = 0, 0
	for i, d := range out.Decisions {
		n.Pods[i].Limit = d.To
		n.Moved += max(d.To-d.From, d.From-d.To)
		if d.To != d.From {
			n.Written++
		}
	}
}

// Advance by a second with so many requests expected of each pod: what is answered, and what
// is seen of it. Requests come by a compound Poisson process with exponential work.
func (n *Node) Advance(expected func(i int) float64) {
	n.Second++
	now := n.Input().Time
	for i := range n.Pods {
		p, s := &n.Pods[i], &n.States[i]
		if p.Held != p.Limit && (n.Slow == 0 || n.Rng.Float64() >= n.Slow) {
			p.Held = p.Limit
		}
		mean := expected(i)
		s.Rate = max(0, mean+math.Sqrt(2*mean)*n.Rng.NormFloat64())
		used := s.serve(mean, float64(p.Held)/1000, n.Cores, n.Work)
		s.used += used
		if every := max(1, n.Every); n.Second%every == 0 {
			if n.Rng.Float64() >= n.Gaps {
				p.Usage, p.At = max(0, 1000*s.used/float64(every)*(1+n.Noise*n.Rng.NormFloat64())), now
			}
			s.used = 0
		}
		s.Before, s.Utilisation = s.Utilisation, 1000*used/float64(p.Held)
	}
	n.memory.Observe(n.Config, n.Input())
}

// serve a second's requests with so many of the node's cores, and return the cores that were
// used. Where load is less than capacity the response time is the stationary one; what does
// not get done waits, for at most Loss.
func (s *State) serve(mean, cores, node, work float64) float64 {
	asked := s.Backlog + s.Rate*work
	used := min(asked, cores)
	base, share, throttled := vertical.Response(mean, work, cores, node)
	r := base + share*throttled
	if math.IsInf(base, 1) {
		r = work / min(1, cores)
	}
	s.Backlog = min(asked-used, Loss*cores)
	s.Response = min(r+s.Backlog/cores, Loss)
	return used
}
