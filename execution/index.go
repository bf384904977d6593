package execution

import "github.com/mash2-io/mash2/api"

// index finds the pods of each node and of each workload, in their order. It is the most of the
// work of a cycle in which nothing is done: a pod is looked for once, by its node, as those
// of a workload mostly come one after the other.
func (v *view) index() {
	pods := v.snapshot.Pods
	all, counts := make([]*api.Pod, len(pods)), make([]int32, 0, len(v.nodes))
	places, placeOf := make([]int32, len(pods)), make(map[string]int32, len(v.nodes)) // of nodes, those that are not shown, too
	var run api.Key                                                                   // the workload of the pods from here on
	from := 0
	var bound, unbound int32
	end := func(to int) {
		if run == (api.Key{}) || from == to {
			return
		}
		if of, ok := v.podsOf[run]; ok {
			v.podsOf[run] = append(of, all[from:to]...)
		} else {
			v.podsOf[run] = all[from:to:to] // to append to it copies
		}
		v.bound[run] += bound
		v.unbound[run] += unbound
	}
	for i := range pods {
		pod := &pods[i]
		all[i] = pod
		if pod.Workload != run {
			end(i)
			run, from, bound, unbound = pod.Workload, i, 0, 0
		}
		switch {
		case pod.Node != "":
			at, ok := placeOf[pod.Node]
			if !ok {
				at = int32(len(counts))
				placeOf[pod.Node], counts = at, append(counts, 0)
			}
			places[i] = at
			counts[at]++
		case !pod.Terminating && (!pod.Gated || pod.Workload != (api.Key{})):
			v.pending = append(v.pending, pod)
		}
		switch {
		case pod.Terminating:
		case pod.Node != "":
			bound++
		default:
			unbound++
		}
	}
	end(len(pods))
	on, room := make([][]*api.Pod, len(counts)), make([]*api.Pod, len(pods))
	for at, n := range counts {
		on[at], room = room[:0:n], room[n:]
	}
	for i, pod := range all {
		if pod.Node != "" {
			on[places[i]] = append(on[places[i]], pod)
		}
	}
	v.podsOn = make(map[string][]*api.Pod, len(on))
	for node, at := range placeOf {
		v.podsOn[node] = on[at]
	}
}
