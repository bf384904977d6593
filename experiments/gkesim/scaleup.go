package gkesim

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// maxEstimate is Cluster Autoscaler's --max-nodes-per-scaleup.
const maxEstimate = 1000

// growth is one way to make room: n nodes of a group.
type growth struct {
	group *group
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
	now := s.cfg.Clock.Now()
	var best []growth // those of the least waste
	for _, p := range s.pools {
		if !p.autoscaling.GetEnabled() || p.op != nil || s.clusterOp != nil {
			continue
		}
		for _, g := range p.groups {
			room := int32(0)
			switch {
			case now.Before(g.backoffUntil):
			case p.balanced():
				for _, peer := range s.growable(p) {
					room += peer.room()
				}
				if p.autoscaling.GetTotalMaxNodeCount() > 0 {
					room = g.room() // counted once, it is the pool's
				}
			default:
				room = g.room()
			}
			option := estimate(s.template(w, g), waiting, min(room, maxEstimate))
			if option.n == 0 {
				continue
			}
			option.group = g
			if len(best) > 0 && option.waste > best[0].waste {
				continue
			}
			if len(best) > 0 && option.waste < best[0].waste {
				best = best[:0]
			}
			best = append(best, option)
		}
	}
	if len(best) == 0 {
		return false
	}
	chosen := best[s.rng.IntN(len(best))]
	grown := false
	for range chosen.n {
		g := chosen.group
		if g.pool.balanced() {
			// Zone by zone, the smallest first.
			peers := slices.DeleteFunc(s.growable(g.pool), func(g *group) bool { return g.room() == 0 })
			if len(peers) == 0 {
				break
			}
			g = slices.MinFunc(peers, func(a, b *group) int { return cmp.Compare(a.target(), b.target()) })
		}
		if g.room() == 0 {
			break
		}
		s.resize(g, g.target()+1)
		grown = true
	}
	if grown {
		s.scaler.lastAdd = now
	}
	return grown
}

// growable are the zones of p that are not left alone. s.mu is held.
func (s *Server) growable(p *pool) []*group {
	now := s.cfg.Clock.Now()
	return slices.DeleteFunc(slices.Clone(p.groups), func(g *group) bool { return now.Before(g.backoffUntil) })
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
func estimate(template *simNode, pods []*corev1.Pod, limit int32) growth {
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
		return growth{}
	}
	waste := func(name corev1.ResourceName) float64 {
		total := float64(allocatable[name]) * float64(len(nodes))
		if total <= 0 {
			return 0
		}
		return (total - float64(held[name])) / total
	}
	return growth{n: int32(len(nodes)), waste: (waste(corev1.ResourceCPU) + waste(corev1.ResourceMemory)) / 2}
}
