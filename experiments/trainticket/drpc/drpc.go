// Package drpc scales the services of a chain together: "DRPC: Distributed Reinforcement
// Learning Approach for Scalable Resource Provisioning in Container-based Clusters" (Bai et
// al. 2024). A teacher that sees the whole application learns by TD3; each Deployment has a
// student of 643 parameters that imitates it and decides from what it sees itself.
//
// Here are the parts that decide: what an action does to a size ([Bounds.Apply]), what it is
// worth ([Reward]), the students, and when teaching is due again ([Notifier]). The package is
// pure.
package drpc

import (
	"fmt"
	"math"
)

// Size is what one Deployment has.
type Size struct {
	Replicas int32
	// MilliCPU and Memory, bytes, are what each replica requests.
	MilliCPU, Memory int64
}

// Action is what a policy says of one Deployment, each from -1 to 1: how CPU, memory and
// replicas are to change, in steps.
type Action struct{ CPU, Memory, Replicas float64 }

// deadZone is how large an output must be to change anything (Algorithm 2).
const deadZone = 0.5

// move is an output as a number of steps: 0 within the dead zone, else from -1 to 1. A number
// that is none changes nothing.
func move(output float64) float64 {
	if !(math.Abs(output) > deadZone) || math.IsInf(output, 0) {
		return 0
	}
	return math.Min(math.Max(output, -1), 1)
}

// Bounds of a Deployment's size.
type Bounds struct {
	// Least and Most of each; Most.Replicas counts for replicas. Least.Replicas is the
	// author's minimum.
	Least, Most Size
	// Step is by how much an output of 1 changes a size.
	Step Size
	// Optional Deployments may have no replica (brownout); others always have one at least.
	Optional bool
}

// Validate returns an error for bounds that nothing is within.
func (b Bounds) Validate() error {
	switch {
	case b.Least.Replicas < 0 || b.Most.Replicas < max(b.Least.Replicas, 1):
		return fmt.Errorf("from %d to %d replicas", b.Least.Replicas, b.Most.Replicas)
	case b.Least.MilliCPU < 1 || b.Most.MilliCPU < b.Least.MilliCPU:
		return fmt.Errorf("from %dm to %dm of CPU", b.Least.MilliCPU, b.Most.MilliCPU)
	case b.Least.Memory < 1 || b.Most.Memory < b.Least.Memory:
		return fmt.Errorf("from %d to %d bytes of memory", b.Least.Memory, b.Most.Memory)
	case b.Step.Replicas < 0 || b.Step.MilliCPU < 0 || b.Step.Memory < 0:
		return fmt.Errorf("steps of %+v", b.Step)
	}
	return nil
}

// Apply is what a Deployment has after an action: Algorithm 2 of the paper. What it says of
// replicas below none contradicts its text; here the text counts: an optional Deployment may
// have none, any other never has fewer than one, nor than the author's minimum. workingSet is
// the memory that a replica uses, bytes: requests don't go below it.
func (b Bounds) Apply(at Size, a Action, workingSet int64) Size {
	least := max(b.Least.Replicas, 1)
	if b.Optional {
		least = 0
	}
	by := func(now, step int64, output float64) int64 {
		return now + int64(math.Round(move(output)*float64(step)))
	}
	memory := max(b.Least.Memory, min(workingSet, b.Most.Memory))
	return Size{
		Replicas: int32(min(max(by(int64(at.Replicas), int64(b.Step.Replicas), math.Round(move(a.Replicas))), int64(least)), int64(b.Most.Replicas))),
		MilliCPU: min(max(by(at.MilliCPU, b.Step.MilliCPU, a.CPU), b.Least.MilliCPU), b.Most.MilliCPU),
		Memory:   min(max(by(at.Memory, b.Step.Memory, a.Memory), memory), b.Most.Memory),
	}
}

// QoS is what a response time is worth (eq. 1): 1 up to the longest that is tolerated, then
// falling to 0. Both are in the same unit.
func QoS(response, most float64) float64 {
	if !(response > most) { // not known: nobody waited
		return 1
	}
	d := (response - most) / most
	return math.Exp(-d * d)
}

// Used is how much of a resource is used, and how much would be ideal: shares of what is
// requested.
type Used struct{ Is, Ideal float64 }

// Use is 1 where every resource is used as is ideal, and more on either side (eq. 2): the mean
// of the cubed distances. The paper's two lines differ only in the sign that keeps the cube
// positive. Use beyond the double of a request counts as that.
func Use(resources ...Used) float64 {
	if len(resources) == 0 {
		return 1
	}
	var sum float64
	for _, u := range resources {
		d := math.Abs(math.Min(u.Is, 2) - u.Ideal)
		sum += d * d * d
	}
	return sum/float64(len(resources)) + 1
}

// Reward of an action (eq. 3), from 0 to 1.
func Reward(response, most float64, resources ...Used) float64 {
	return QoS(response, most) / Use(resources...)
}

// Notifier tells when the students have to be taught again (Algorithm 4): when the mean of the
// last rewards is below a threshold. The zero value never does.
type Notifier struct {
	// Threshold that the mean falls below, over Window rewards.
	Threshold float64
	Window    int

	rewards []float64 // a ring
	next    int
}

// Default threshold and window. The code of the paper has 0.9 of the last 10, and its reward
// settles at 0.7: that would always teach.
const (
	Threshold = 0.6
	Window    = 10
)

// Note keeps a reward, and reports whether teaching is due.
func (n *Notifier) Note(reward float64) bool {
	if n.Window < 1 {
		return false
	}
	if math.IsNaN(reward) {
		reward = 0
	}
	if len(n.rewards) < n.Window {
		n.rewards = append(n.rewards, reward)
	} else {
		n.rewards[n.next] = reward
	}
	n.next = (n.next + 1) % n.Window
	if len(n.rewards) < n.Window {
		return false
	}
	var sum float64
	for _, r := range n.rewards {
		sum += r
	}
	return sum/float64(n.Window) < n.Threshold
}

// Forget the rewards: after teaching, what came before says nothing of the students.
func (n *Notifier) Forget() { n.rewards, n.next = nil, 0 }
