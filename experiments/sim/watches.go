package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/execution/kube"
)

// Ways in which a watch fails.
const (
	// lagging: what it tells is up to a minute and a half old, and taken to be current.
	lagging = 1 << iota
	// stalling: it tells nothing new for up to ten minutes. After provenFor that is known.
	stalling
	// resurrecting: it tells of objects that are gone as they were when they were last
	// there, and is taken to be current.
	resurrecting
	// lying: of some objects it tells what isn't so, or nothing, and is taken to be
	// current.
	lying

	everyWay = lying<<1 - 1
)

// Kinds of objects that are watched.
const (
	podWatch = iota
	nodeWatch
	budgetWatch
	watchKinds
)

const (
	longestLag = 90 * time.Second
	// provenFor is the operator's: how long a proof that a cache is current lasts.
	provenFor = 2 * time.Minute
	// remembered is how old a picture may be that somebody is still shown.
	remembered = 11 * time.Minute
)

// Watches that fail, beside other faults. The rest is for tests, which take the
// operator's guards away one by one.
type Watches struct {
	// ways of failing; 0 is none.
	ways int
	// longest is the longest lag, 0 is longestLag.
	longest time.Duration
	// late: the scheduler sees cordons some seconds late, and just when an empty node is
	// cordoned somebody deletes a pod of the Deployment, which comes back there.
	late bool
	// pods: only the watch of pods fails, most of the time; alone: and nothing else does.
	pods, alone bool
	// blind: nothing is looked at live before it is taken away. hasty: nodes need not bear
	// their cordon for a while. credulous: watches are always taken to be current.
	blind, hasty, credulous bool
}

// episode of a watch that fails.
type episode struct {
	kind, way int
	from, to  time.Duration
	lag       time.Duration
	seed      uint64
}

// picture is what was so at a time.
type picture struct {
	at      time.Duration
	pods    []api.Pod
	nodes   []api.Node
	budgets []api.DisruptionBudget
}

// watching are eyes whose watches fail.
type watching struct {
	*sensors
	Watches
	episodes []episode
	pictures []picture                 // oldest first
	written  [watchKinds]time.Duration // the operator's last write of each kind
}

// newWatching draws the episodes until an end.
func (r *run) newWatching() *watching {
	w := &watching{sensors: r.sensors, Watches: r.Faults.Watches}
	rng := rand.New(rand.NewPCG(r.Seed, 101))
	longest := w.longest
	if longest == 0 {
		longest = longestLag
	}
	var ways []int
	for way := 1; way < everyWay; way <<= 1 {
		if w.ways&way != 0 {
			ways = append(ways, way)
		}
	}
	for i := range (6 + rng.IntN(6)) * r.Faults.spells() {
		from := r.start + time.Duration(rng.Float64()*float64(r.Faults.Until))
		kind := rng.IntN(watchKinds)
		if w.pods {
			kind, from = podWatch, r.start+time.Duration((float64(i)+rng.Float64()/2)*float64(r.Faults.Until)/6)
		}
		w.episodes = append(w.episodes, episode{
			kind: kind, way: ways[rng.IntN(len(ways))], from: from,
			to:  min(from+time.Minute+time.Duration(rng.Float64()*float64(10*time.Minute)), r.start+r.Faults.Until),
			lag: time.Duration((0.2 + 0.8*rng.Float64()) * float64(longest)), seed: rng.Uint64(),
		})
	}
	r.c.every(r.start, 3*time.Second, func() bool { w.take(); return true })
	return w
}

// take keeps a picture of now.
func (w *watching) take() {
	var s api.Snapshot
	w.addNodes(&s)
	for _, b := range w.c.budgets {
		s.Budgets = append(s.Budgets, b.seen())
	}
	w.pictures = append(w.pictures, picture{w.c.now, s.Pods, s.Nodes, s.Budgets})
	for w.pictures[0].at < w.c.now-remembered {
		w.pictures = w.pictures[1:]
	}
}

// of a time is the last picture not after it, or the first there is.
func (w *watching) of(at time.Duration) picture {
	i, found := slices.BinarySearchFunc(w.pictures, at, func(p picture, at time.Duration) int { return int(p.at - at) })
	if !found {
		i = max(i-1, 0)
	}
	return w.pictures[i]
}

// failing is the episode that a watch is in; nil if it works.
func (w *watching) failing(kind int) *episode {
	for i := range w.episodes {
		if e := &w.episodes[i]; e.kind == kind && e.from <= w.c.now && w.c.now < e.to {
			return e
		}
	}
	return nil
}

// shown is the time that a watch's picture is of, if it is not of now.
func (e *episode) shown(now time.Duration) time.Duration {
	switch e.way {
	case lagging:
		return now - e.lag
	case stalling:
		return e.from
	}
	return now
}

// behind reports whether the operator's own last writes are missing from what it is
// shown: it holds its cycle then.
func (w *watching) behind() bool {
	for kind := range watchKinds {
		if e := w.failing(kind); e != nil && w.written[kind] > 0 && e.shown(w.c.now) < w.written[kind] {
			return true
		}
	}
	return false
}

// wrote notes an action that changes what is watched.
func (w *watching) wrote(a api.Action) {
	switch a.(type) {
	case api.CordonNode, api.UncordonNode, api.GiveUpMove:
		w.written[nodeWatch] = w.c.now
	case api.SetDeletionCost:
		w.written[podWatch] = w.c.now
	}
}

// Observe implements the loop's Observer.
func (w *watching) Observe(ctx context.Context) (api.Snapshot, error) {
	s, err := w.sensors.Observe(ctx)
	if err != nil {
		return s, err
	}
	w.take()
	for kind := range watchKinds {
		e := w.failing(kind)
		if e == nil {
			continue
		}
		old := w.of(e.shown(w.c.now))
		if e.way == resurrecting {
			old = w.of(w.c.now - remembered)
		}
		rng := rand.New(rand.NewPCG(e.seed, 3)) // the same lie throughout an episode
		switch kind {
		case podWatch:
			s.Pods = podsSeen(e.way, s.Pods, old.pods, rng)
			countReady(&s)
		case nodeWatch:
			s.Nodes = nodesSeen(e.way, s.Nodes, old.nodes)
		case budgetWatch:
			s.Budgets = budgetsSeen(e.way, s.Budgets, old.budgets)
		}
		stale := w.c.now - e.shown(w.c.now)
		if stale > provenFor && !w.credulous {
			s.Unproven = fmt.Sprintf("%s: not proven current for %v", [...]string{"Pod", "Node", "PodDisruptionBudget"}[kind], stale.Round(time.Second))
		}
	}
	if w.hasty {
		s.Nodes = slices.Clone(s.Nodes)
		for i := range s.Nodes {
			if n := &s.Nodes[i]; n.CordonedFor != "" {
				n.CordonedAt = n.CordonedAt.Add(-execution.Dwell)
			}
		}
	}
	return s, nil
}

// podsSeen are what a watch of pods tells that fails this way. A liar hides a quarter of
// the pods, and shows another one Ready.
func podsSeen(way int, now, old []api.Pod, rng *rand.Rand) []api.Pod {
	switch way {
	case lagging, stalling:
		return slices.Clone(old)
	case resurrecting:
		there := map[string]bool{}
		for _, p := range now {
			there[p.UID] = true
		}
		out := slices.Clone(now)
		for _, p := range old {
			if !there[p.UID] {
				out = append(out, p)
			}
		}
		return out
	}
	salt := rng.Uint64()
	var out []api.Pod
	for _, p := range now {
		switch of(p.UID, salt) % 4 {
		case 0:
			if p.Workload != (api.Key{}) {
				continue
			}
		case 1:
			if p.Node != "" && !p.Ready {
				p.Ready, p.Phase, p.Terminating, p.ReadyAt = true, "Running", false, p.Created
			}
		}
		out = append(out, p)
	}
	return out
}

// of is a number that a name has under a salt.
func of(name string, salt uint64) uint64 {
	for _, c := range []byte(name) {
		salt = (salt ^ uint64(c)) * 1099511628211
	}
	return salt >> 32
}

// nodesSeen are what a watch of nodes tells. A liar shows cordons as old ones.
func nodesSeen(way int, now, old []api.Node) []api.Node {
	switch way {
	case lagging, stalling:
		return slices.Clone(old)
	case resurrecting:
		there := map[string]bool{}
		for _, n := range now {
			there[n.Name] = true
		}
		out := slices.Clone(now)
		for _, n := range old {
			if !there[n.Name] {
				out = append(out, n)
			}
		}
		return out
	}
	out := slices.Clone(now)
	for i := range out {
		if out[i].CordonedFor != "" {
			out[i].CordonedAt = out[i].CordonedAt.Add(-time.Hour)
		}
	}
	return out
}

// budgetsSeen are what a watch of budgets tells. A liar, and who tells of budgets that are
// gone, shows them as if all pods were healthy.
func budgetsSeen(way int, now, old []api.DisruptionBudget) []api.DisruptionBudget {
	if way == lagging || way == stalling {
		return slices.Clone(old)
	}
	out := slices.Clone(now)
	for i := range out {
		out[i].Allowed = max(out[i].Allowed, 1)
		out[i].Healthy = max(out[i].Healthy, out[i].Desired+1)
	}
	return out
}

// countReady counts the Ready pods of workloads by what is seen.
func countReady(s *api.Snapshot) {
	ready := map[api.Key]int32{}
	for i := range s.Pods {
		if s.Pods[i].Ready {
			ready[s.Pods[i].Workload]++
		}
	}
	for i := range s.Workloads {
		s.Workloads[i].ReadyReplicas = ready[s.Workloads[i].Key]
	}
}

// looking are hands that look at what is so before they take something away, as
// package kube does (vacant.go, settled.go).
type looking struct {
	hands
	eyes *watching
}

// Apply implements the loop's Actuator.
func (l looking) Apply(ctx context.Context, a api.Action) error {
	if !l.eyes.blind {
		if err := l.look(a); err != nil {
			l.c.looked++
			return err
		}
	}
	if e, ok := a.(api.EvictPod); ok {
		l.c.harmBy(e)
	}
	err := l.hands.Apply(ctx, a)
	if err == nil {
		l.eyes.wrote(a)
		l.c.crossed(l.eyes, a)
	}
	return err
}

// unseenFor is how long the scheduler doesn't see a cordon that it is late for.
const unseenFor = 8 * time.Second

// crossed has a pod bound to an empty node that has just been cordoned.
func (c *Cluster) crossed(w *watching, action api.Action) {
	a, ok := action.(api.CordonNode)
	if !ok || !w.late || c.nodes[a.Node] == nil || len(c.nodes[a.Node].pods) > 0 {
		return
	}
	n, at := c.nodes[a.Node], c.now
	for _, set := range c.workloads {
		if set.stateful || len(set.pods) == 0 {
			continue
		}
		c.delete(set.pods[len(set.pods)-1])
		c.unaware = func(p *pod) *node {
			if p.workload != set || c.now > at+unseenFor || n.deleting || !p.shape.Requests.Fits(n.pool.allocatable.Minus(n.used)) {
				return nil
			}
			return n
		}
		return
	}
}

func (l looking) look(action api.Action) error {
	switch a := action.(type) {
	case api.RemoveNode:
		return l.c.vacant(a.Node)
	case api.ResizePool:
		for _, name := range strings.FieldsFunc(a.Nodes, func(r rune) bool { return r == ',' }) {
			if err := l.c.vacant(name); err != nil {
				return err
			}
		}
	case api.EvictPod:
		if why := l.c.unsettled(a); why != "" {
			return &api.NotTriedError{Reason: kube.ReasonNotSettled, Why: why}
		}
	}
	return nil
}

func (c *Cluster) vacant(name string) error {
	n := c.nodes[name]
	if n == nil {
		return nil
	}
	if !n.cordoned || n.cordonedFor == "" {
		return &api.NotTriedError{Reason: kube.ReasonNotVacant, Why: "node " + name + " does not bear the cordon of mash2 any more"}
	}
	if len(n.pods) > 0 {
		return &api.NotTriedError{Reason: kube.ReasonNotVacant, Why: fmt.Sprintf("%d pods are on node %s", len(n.pods), name)}
	}
	return nil
}

// unsettled says why a pod may not be evicted now; empty if it may.
func (c *Cluster) unsettled(a api.EvictPod) string {
	p := c.pods[a.UID]
	if p == nil || p.terminating || !p.ready {
		return ""
	}
	if n := c.nodes[a.Node]; a.Node != "" && n != nil && (!n.cordoned || n.cordonedFor == "") {
		return "it is Ready, and node " + a.Node + " does not bear the cordon of mash2"
	}
	return p.lacks()
}

// lacks says which other pod of a Ready one's controller is not Ready, or that there are
// too few; empty if there are enough.
func (p *pod) lacks() string {
	ready := int32(1)
	for _, q := range p.workload.pods {
		switch {
		case q == p:
		case q.terminating:
			return "pod " + q.name + " of the same controller is terminating"
		case !q.ready:
			return "pod " + q.name + " of the same controller is not Ready"
		default:
			ready++
		}
	}
	if p.workload.stateful && ready < p.workload.replicas {
		return fmt.Sprintf("%d of %d pods of its StatefulSet are Ready", ready, p.workload.replicas)
	}
	return ""
}

// harmBy counts an eviction of a Ready pod of a StatefulSet of which another is away.
func (c *Cluster) harmBy(a api.EvictPod) {
	if p := c.pods[a.UID]; p != nil && p.ready && !p.terminating && p.lacks() != "" {
		c.harm.evicted = append(c.harm.evicted, fmt.Sprintf("at %v the Ready pod %s was evicted: %s", c.now, p.name, p.lacks()))
	}
}

// harm is what no watch may cost, by what happened.
type harm struct{ died, evicted []string }
