package gkesim

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// maxEstimate is Cluster Autoscaler's --max-nodes-per-scaleup.
const maxEstimate = 1000

// growth is one way to make room: n nodes like those of group, spread over
// peers, the zones of its pool that hold the same pods.
type growth struct {
	group *group
	peers []*group
	n     int32
	waste float64
}

// scaleUp grows one pool if pods wait for nodes that would hold them, and tells
// whether it did. s.mu is held.
func (s *Server) scaleUp(w *world) bool {
	s.addComing(w)
	waiting := w.withoutRoom(w.pending)
	if len(waiting) == 0 {
		return false
	}
	var best []growth // those of the least waste
	for _, p := range s.pools {
		if !p.autoscaling.GetEnabled() || p.op != nil || s.clusterOp != nil {
			continue
		}
		for _, option := range s.options(w, p, waiting) {
			switch {
			case len(best) > 0 && option.waste > best[0].waste:
			case len(best) > 0 && option.waste == best[0].waste:
				best = append(best, option)
			default:
				best = []growth{option}
			}
		}
	}
	if len(best) == 0 {
		return false
	}
	return s.grow(best[s.rng.IntN(len(best))])
}

// options are the ways in which p can hold waiting pods. s.mu is held.
func (s *Server) options(w *world, p *pool, waiting []*corev1.Pod) []growth {
	now := s.cfg.Clock.Now()
	type fit struct {
		group    *group
		template *simNode
		pods     []*corev1.Pod
	}
	var fits []fit
	for _, g := range p.groups {
		if g.room() == 0 || now.Before(g.backoffUntil) {
			continue
		}
		f := fit{group: g, template: s.template(w, g)}
		for _, pod := range waiting {
			if f.template.fits(pod) {
				f.pods = append(f.pods, pod)
			}
		}
		if len(f.pods) > 0 {
			fits = append(fits, f)
		}
	}
	var out []growth
	for _, f := range fits {
		option := growth{group: f.group, peers: []*group{f.group}}
		room := f.group.room()
		if p.balanced() {
			for _, other := range fits {
				if other.group == f.group || !containsAll(other.pods, f.pods) {
					continue
				}
				option.peers = append(option.peers, other.group)
				if p.autoscaling.GetTotalMaxNodeCount() == 0 { // else room is the pool's
					room += other.group.room()
				}
			}
		}
		option.n, option.waste = estimate(f.template, f.pods, min(room, maxEstimate))
		out = append(out, option)
	}
	return out
}

func containsAll(pods, wanted []*corev1.Pod) bool {
	return !slices.ContainsFunc(wanted, func(pod *corev1.Pod) bool { return !slices.Contains(pods, pod) })
}

// grow adds the nodes of option one by one, each to the smallest of its zones
// that has room, and tells whether it added any. s.mu is held.
func (s *Server) grow(option growth) bool {
	grown := false
	for range option.n {
		peers := slices.DeleteFunc(slices.Clone(option.peers), func(g *group) bool { return g.room() == 0 })
		if len(peers) == 0 {
			break
		}
		g := slices.MinFunc(peers, func(a, b *group) int {
			return cmp.Or(cmp.Compare(a.target(), b.target()), cmp.Compare(a.zone, b.zone))
		})
		s.resize(g, g.target()+1)
		grown = true
	}
	if grown {
		s.scaler.lastAdd = s.cfg.Clock.Now()
	}
	return grown
}

// addComing adds the nodes that were asked for and are not Ready to the world,
// as they will be. s.mu is held.
func (s *Server) addComing(w *world) {
	now := s.cfg.Clock.Now()
	for _, p := range s.pools {
		for _, g := range p.groups {
			for _, inst := range g.instances {
				if inst.phase == stopping || inst.phase == refused {
					continue
				}
				if node := w.registered[inst.name]; node != nil && ready(node) {
					continue
				}
				if now.Sub(inst.paid.Requested) > s.real(s.cfg.Autoscaler.MaxNodeProvisionTime) {
					continue // broken, not coming
				}
				n := s.template(w, g)
				n.coming = true
				if old := w.find(inst.name); old != nil {
					w.nodes = slices.DeleteFunc(w.nodes, func(n *simNode) bool { return n == old })
				}
				w.nodes = append(w.nodes, n)
			}
		}
	}
}

// template is a fresh node of g with the pods of the DaemonSets that go there.
func (s *Server) template(w *world, g *group) *simNode {
	n := newSimNode(s.node(g, g.base+"-template", ""))
	for _, pod := range w.daemons {
		if n.fits(pod) {
			n.add(pod)
		}
	}
	return n
}

// withoutRoom returns the pods that fit on no node of the world, after those
// before them have taken their places.
func (w *world) withoutRoom(pods []*corev1.Pod) []*corev1.Pod {
	trial := make([]*simNode, len(w.nodes))
	for i, n := range w.nodes {
		trial[i] = n.clone()
	}
	var out []*corev1.Pod
	for _, pod := range pods {
		if !place(trial, pod) {
			out = append(out, pod)
		}
	}
	return out
}

// place puts pod on the first node that takes it.
func place(nodes []*simNode, pod *corev1.Pod) bool {
	for _, n := range nodes {
		if (n.coming || ready(n.node)) && n.fits(pod) {
			n.add(pod)
			return true
		}
	}
	return false
}

// estimate is Cluster Autoscaler's binpacking estimator: pods in the order of
// falling size, first fit, on at most limit new nodes like template. Its waste
// is that of the least-waste expander: the mean of the shares of CPU and memory
// that stay free.
func estimate(template *simNode, pods []*corev1.Pod, limit int32) (n int32, waste float64) {
	allocatable := amountsOf(template.node.Status.Allocatable)
	score := func(pod *corev1.Pod) float64 {
		r, sum := requestsOf(pod), 0.0
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if allocatable[name] > 0 {
				sum += float64(r[name]) / float64(allocatable[name])
			}
		}
		return sum
	}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *corev1.Pod) int { return cmp.Compare(score(b), score(a)) })
	var nodes []*simNode
	held := amounts{}
	for _, pod := range sorted {
		i := slices.IndexFunc(nodes, func(n *simNode) bool { return n.fits(pod) })
		if i < 0 {
			if int32(len(nodes)) >= limit || !template.fits(pod) {
				continue
			}
			nodes = append(nodes, template.clone())
			i = len(nodes) - 1
		}
		nodes[i].add(pod)
		for name, v := range requestsOf(pod) {
			held[name] += v
		}
	}
	if len(nodes) == 0 {
		return 0, 0
	}
	free := func(name corev1.ResourceName) float64 {
		total := float64(allocatable[name]) * float64(len(nodes))
		if total <= 0 {
			return 0
		}
		return (total - float64(held[name])) / total
	}
	return int32(len(nodes)), (free(corev1.ResourceCPU) + free(corev1.ResourceMemory)) / 2
}
