package execution

import (
	"maps"

	"github.com/mash2-io/mash2/api"
)

// packing is a room in which all that is wanted without some nodes has its place. It
// is computed once; further nodes are then taken out one by one, which looks only at
// the pods on them and at what has been promised there.
type packing struct {
	*view
	room room
	// space of each node that is in the room.
	space map[string]int
	// lack is how many more replicas of a workload are wanted than pods of it stay;
	// negative if fewer are.
	lack map[api.Key]int32
	// promised is what each space is to take.
	promised [][]want
	// missing names what has no place; empty if all has.
	missing string
}

// pack places what is wanted without the given nodes, as missing does.
func (v *view) pack(gone map[string]bool) *packing {
	p := &packing{view: v, room: v.spacesWithout(gone), lack: make(map[api.Key]int32, len(v.acting))}
	p.space, p.promised = make(map[string]int, len(p.room.spaces)), make([][]want, len(p.room.spaces))
	for i, sp := range p.room.spaces {
		p.space[sp.Node.Name] = i
	}
	for _, pod := range v.pending {
		if w := onePod(pod); !v.acting[pod.Workload] {
			p.room.put(w.pods, 1, "", func(space int, n int32) { p.promise(w, space, n) })
		}
	}
	v.planned(func(w *api.Workload, wp *api.WorkloadPlan) { p.lack[w.Key] = wp.Replicas - v.bound[w.Key] })
	for name := range gone {
		for _, pod := range v.podsOn[name] {
			if v.leaves(pod) {
				p.lack[pod.Workload]++
			}
		}
	}
	p.missing = v.unplaced(v.wantsWithout(gone), &p.room, false, p.promise)
	return p
}

func (p *packing) promise(w want, space int, n int32) {
	w.count = n
	p.promised[space] = append(p.promised[space], w)
}

// without takes a node out, if its pods and what was promised there find other places,
// and names what finds none otherwise: nothing is changed then. What it places elsewhere
// is sorted by size among itself only, so that it may fail where pack succeeds.
func (p *packing) without(node string) (missing string) {
	if p.missing != "" {
		return p.missing
	}
	var own, others []want
	leave := map[api.Key]int32{}
	for _, pod := range p.podsOn[node] {
		if p.leaves(pod) {
			leave[pod.Workload]++
		}
	}
	for key, n := range leave {
		if more := max(p.lack[key]+n, 0) - max(p.lack[key], 0); more > 0 {
			own = append(own, replicasOf(p.workloads[key], more))
		}
	}
	others = p.strangersOn(node)
	space, open := p.space[node]
	if open {
		for _, w := range p.promised[space] {
			if w.replicas {
				own = append(own, w)
			} else {
				others = append(others, w)
			}
		}
		p.room.close(space)
	}
	type put struct {
		want
		space int
	}
	var puts []put
	missing = p.unplaced(p.inOrder(own, others), &p.room, false, func(w want, space int, n int32) {
		w.count = n
		puts = append(puts, put{w, space})
	})
	if missing != "" {
		for _, put := range puts {
			p.room.remove(put.space, put.pods, put.count)
		}
		if open {
			p.room.set(space, amountOf(p.room.spaces[space].Free))
		}
		return missing
	}
	for _, put := range puts {
		p.promised[put.space] = append(p.promised[put.space], put.want)
	}
	for key, n := range leave {
		p.lack[key] += n
	}
	delete(p.space, node)
	return ""
}

// secondOpinions is how many times in a cycle all that is wanted is packed anew because
// the pods of a node find no place beside those of the nodes before it, or because what
// was placed node by node doesn't fit when it is packed at once. It bounds the work; what
// is beyond waits for a cycle in which others are settled.
const secondOpinions = 8

// spared are the nodes, of these in their order, that the others can do without beside
// gone; why names what has no place without each of those that are not. They are the ones
// that packing anew without each node in turn comes to, but for what secondOpinions bounds.
func (v *view) spared(gone map[string]bool, nodes []*api.Node) (spared []*api.Node, why map[string]string) {
	gone, why = maps.Clone(gone), map[string]string{}
	again := secondOpinions
	p, proven := v.pack(gone), 0 // how many of spared fit when packed at once
	for i := 0; ; i++ {
		if i == len(nodes) {
			// The next cycle packs at once, and takes back what then doesn't fit.
			fit, missing := v.fitting(gone, spared, proven)
			if fit == len(spared) {
				return spared, why
			}
			over := spared[fit]
			for i = len(nodes) - 1; nodes[i] != over; i-- {
				delete(gone, nodes[i].Name)
				delete(why, nodes[i].Name)
			}
			delete(gone, over.Name)
			why[over.Name], spared, proven = missing, spared[:fit], fit
			if again--; again < 0 {
				for _, n := range nodes[i:] {
					why[n.Name] = missing
				}
				return spared, why
			}
			p = v.pack(gone)
			continue
		}
		n := nodes[i]
		missing := p.without(n.Name)
		gone[n.Name] = true
		if missing != "" && again > 0 {
			again--
			whole := v.pack(gone)
			if missing = whole.missing; missing == "" {
				p, proven = whole, len(spared)+1
			}
		}
		if missing != "" {
			delete(gone, n.Name)
			why[n.Name] = missing
			continue
		}
		spared = append(spared, n)
	}
}

// fitting is how many of the spared nodes, all of which are gone, the others can do
// without when what is wanted is packed at once, and what is missing without one more.
// The first proven ones are known to be among them.
func (v *view) fitting(gone map[string]bool, spared []*api.Node, proven int) (fit int, missing string) {
	without := func(n int) string {
		fewer := maps.Clone(gone)
		for _, n := range spared[n:] {
			delete(fewer, n.Name)
		}
		return v.missing(fewer, false)
	}
	fit, beyond := proven, len(spared)+1
	for n := len(spared); fit < beyond-1; n = (fit + beyond) / 2 {
		if m := without(n); m == "" {
			fit = n
		} else {
			beyond, missing = n, m
		}
	}
	return fit, missing
}
