package sensing

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// view is one consistent look at the caches, indexed; podAt is good until the next one.
type view struct {
	pods      []*podRecord // in order of key
	podAt     podIndex
	ofPod     []*managedTarget // that each of pods belongs to; nil if to none
	nodes     []*nodeRecord    // in order of name
	daemons   []*daemonRecord
	owners    map[api.Key]*ownerRecord // ReplicaSets
	targets   map[targetID]*targetRecord
	scalers   map[targetID][]string          // names of HPAs, in order
	byKEDA    map[targetID][]string          // names of those that KEDA made, in order
	nets      map[targetID]bool              // targets with a safety net
	verticals map[targetID][]*verticalRecord // in order of name
	quotas    map[string][]*quotaRecord      // by namespace, in order of name
	ranges    map[string][]*rangeRecord      // the same
	slos      map[sloID]*sloRecord           // of others' resources
	workloads []*workloadRecord              // in order of key
	managed   map[targetID]*managedTarget
	speeds    []float64       // of each of pods, see measure
	short     map[string]bool // names of nodes that are short of memory
}

// managedTarget is a target that a ManagedWorkload names.
type managedTarget struct {
	id    targetID
	index int             // among all managed ones of a view
	first *workloadRecord // the oldest that names it
	pods  []*podRecord    // in order of key
}

func (c *caches) view() *view {
	v := &view{
		pods:      records[*podRecord](c, kindPod),
		nodes:     records[*nodeRecord](c, kindNode),
		daemons:   records[*daemonRecord](c, kindDaemonSet),
		workloads: records[*workloadRecord](c, kindManagedWorkload),
		owners:    map[api.Key]*ownerRecord{},
		targets:   map[targetID]*targetRecord{},
		scalers:   map[targetID][]string{},
		byKEDA:    map[targetID][]string{},
		nets:      map[targetID]bool{},
		verticals: map[targetID][]*verticalRecord{},
		quotas:    map[string][]*quotaRecord{},
		ranges:    map[string][]*rangeRecord{},
		slos:      map[sloID]*sloRecord{},
		managed:   map[targetID]*managedTarget{},
	}
	v.leaveParked()
	v.podAt = c.order.sort(v.pods)
	slices.SortFunc(v.nodes, func(a, b *nodeRecord) int { return cmp.Compare(a.key.Name, b.key.Name) })
	for _, name := range crowdedNodes(v.nodes) {
		if v.short == nil {
			v.short = map[string]bool{}
		}
		v.short[name] = true
	}
	slices.SortFunc(v.daemons, func(a, b *daemonRecord) int { return compareKeys(a.key, b.key) })
	slices.SortFunc(v.workloads, func(a, b *workloadRecord) int { return compareKeys(a.key, b.key) })
	for _, r := range records[*ownerRecord](c, kindReplicaSet) {
		v.owners[r.key] = r
	}
	for _, kind := range []string{kindDeployment, kindStatefulSet} {
		for _, r := range records[*targetRecord](c, kind) {
			v.targets[r.id] = r
		}
	}
	for _, r := range records[*scalerRecord](c, kindScaler) {
		switch {
		case r.net:
			v.nets[r.target] = true
		case r.keda:
			v.byKEDA[r.target] = append(v.byKEDA[r.target], r.key.Name)
		default:
			v.scalers[r.target] = append(v.scalers[r.target], r.key.Name)
		}
	}
	for _, of := range []map[targetID][]string{v.scalers, v.byKEDA} {
		for _, names := range of {
			slices.Sort(names)
		}
	}
	for _, r := range records[*verticalRecord](c, kindVertical) {
		v.verticals[r.target] = append(v.verticals[r.target], r)
	}
	for _, of := range v.verticals {
		slices.SortFunc(of, func(a, b *verticalRecord) int { return compareKeys(a.key, b.key) })
	}
	for _, kind := range []string{kindSloth, kindPyrra, kindOpenSLO} {
		for _, r := range records[*sloRecord](c, kind) {
			v.slos[sloID{kind, r.key}] = r
		}
	}
	for _, r := range records[*quotaRecord](c, kindQuota) {
		v.quotas[r.key.Namespace] = append(v.quotas[r.key.Namespace], r)
	}
	for _, quotas := range v.quotas {
		slices.SortFunc(quotas, func(a, b *quotaRecord) int { return compareKeys(a.key, b.key) })
	}
	for _, r := range records[*rangeRecord](c, kindRange) {
		v.ranges[r.key.Namespace] = append(v.ranges[r.key.Namespace], r)
	}
	for _, ranges := range v.ranges {
		slices.SortFunc(ranges, func(a, b *rangeRecord) int { return compareKeys(a.key, b.key) })
	}
	for _, w := range v.workloads {
		if w.target == (targetID{}) {
			continue
		}
		if m := v.managed[w.target]; m == nil {
			v.managed[w.target] = &managedTarget{id: w.target, index: len(v.managed), first: w}
		} else if older(w, m.first) {
			m.first = w
		}
	}
	v.own()
	return v
}

// own finds the managed target of each pod.
func (v *view) own() {
	v.ofPod = make([]*managedTarget, len(v.pods))
	count := make([]int, len(v.managed))
	for i, p := range v.pods {
		// The pods of a ReplicaSet are beside each other.
		if i > 0 && sameOwner(p, v.pods[i-1]) {
			v.ofPod[i] = v.ofPod[i-1]
		} else {
			v.ofPod[i] = v.targetOf(p)
		}
		if of := v.ofPod[i]; of != nil {
			count[of.index]++
		}
	}
	for i, p := range v.pods {
		if of := v.ofPod[i]; of != nil {
			if of.pods == nil {
				of.pods = make([]*podRecord, 0, count[of.index])
			}
			of.pods = append(of.pods, p)
		}
	}
}

// measure notes how fast the cores of each managed pod's node are.
func (v *view) measure(sp *speeds) {
	v.speeds = make([]float64, len(v.pods))
	known := map[string]float64{}
	for i, p := range v.pods {
		if v.ofPod[i] == nil || p.pod.Node == "" {
			v.speeds[i] = 1
			continue
		}
		speed, ok := known[p.pod.Node]
		if !ok {
			speed = sp.of(p.pod.Node)
			known[p.pod.Node] = speed
		}
		v.speeds[i] = speed
	}
}

func sameOwner(a, b *podRecord) bool {
	return a.pod.ControllerName == b.pod.ControllerName && a.pod.ControllerKind == b.pod.ControllerKind && a.key.Namespace == b.key.Namespace
}

// leaveParked leaves out the nodes that are parked, and what belongs to them.
func (v *view) leaveParked() {
	parked := map[string]bool{}
	v.nodes = slices.DeleteFunc(v.nodes, func(n *nodeRecord) bool {
		if n.parked {
			parked[n.node.Name] = true
		}
		return n.parked
	})
	if len(parked) == 0 {
		return
	}
	v.pods = slices.DeleteFunc(v.pods, func(p *podRecord) bool {
		return parked[p.pod.Node] && (p.pod.DaemonSet || p.pod.Mirror)
	})
}

func compareKeys(a, b api.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// podOrder is the pods' order by key. Most pods are there the next time, and then it is much
// less work than sorting them anew: each has a slot for as long as it is there.
type podOrder struct {
	slots   map[api.Key]int32
	keys    []api.Key    // by slot
	records []*podRecord // by slot, the last
	order   []int32      // slots, by key
	free    []int32      // slots of nobody
}

// podIndex finds pods by key.
type podIndex struct {
	slots map[api.Key]int32
	place []int32 // by slot, −1 of nobody's
}

// of is where a pod is in the view's order.
func (x podIndex) of(key api.Key) (int32, bool) {
	slot, ok := x.slots[key]
	if !ok {
		return 0, false
	}
	return x.place[slot], true
}

// find is the same by an answer's text, negative if there is none.
func (x podIndex) find(namespace, name []byte) (int32, bool) {
	// A key of strings that are made for a look into a map takes no memory.
	slot, ok := x.slots[api.Key{Namespace: string(namespace), Name: string(name)}]
	if !ok {
		return -1, false
	}
	return x.place[slot], true
}

// sort puts pods in order, and returns where each is.
func (o *podOrder) sort(pods []*podRecord) podIndex {
	if o.slots == nil {
		o.slots = make(map[api.Key]int32, len(pods))
	}
	there := make([]*podRecord, len(o.keys)) // by slot
	var fresh []*podRecord
	for _, p := range pods {
		slot := p.slot
		if known := int(slot) < len(o.records) && o.records[slot] == p; !known {
			var ok bool
			if slot, ok = o.slots[p.key]; !ok {
				fresh = append(fresh, p)
				continue
			}
		}
		there[slot] = p
	}
	kept := o.order[:0]
	for _, slot := range o.order {
		if there[slot] == nil {
			delete(o.slots, o.keys[slot])
			o.free = append(o.free, slot)
		} else {
			kept = append(kept, slot)
		}
	}
	slices.SortFunc(fresh, func(a, b *podRecord) int { return compareKeys(a.key, b.key) })
	order := make([]int32, 0, len(pods))
	for _, p := range fresh {
		n, _ := slices.BinarySearchFunc(kept, p.key, func(slot int32, key api.Key) int { return compareKeys(o.keys[slot], key) })
		order, kept = append(order, kept[:n]...), kept[n:]
		slot := int32(len(o.keys))
		if free := len(o.free); free > 0 {
			slot, o.free = o.free[free-1], o.free[:free-1]
			o.keys[slot], there[slot] = p.key, p
		} else {
			o.keys, there = append(o.keys, p.key), append(there, p)
		}
		o.slots[p.key] = slot
		order = append(order, slot)
	}
	o.order, o.records = append(order, kept...), there
	at := podIndex{o.slots, make([]int32, len(o.keys))}
	for _, slot := range o.free {
		at.place[slot] = -1
	}
	for i, slot := range o.order {
		p := there[slot]
		p.slot = slot
		pods[i], at.place[slot] = p, int32(i)
	}
	return at
}

// older tells which of two ManagedWorkloads was there first; created in the
// same second, by name.
func older(a, b *workloadRecord) bool {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key.Name, b.key.Name)) < 0
}

// targetOf follows the owners of a pod to a managed target, nil if there is none.
func (v *view) targetOf(p *podRecord) *managedTarget {
	id := targetID{p.key.Namespace, p.pod.ControllerKind, p.pod.ControllerName}
	if id.kind == kindReplicaSet {
		rs, ok := v.owners[api.Key{Namespace: p.key.Namespace, Name: p.pod.ControllerName}]
		if !ok {
			return nil
		}
		id.kind, id.name = rs.ownerKind, rs.ownerName
	}
	return v.managed[id]
}

// still tells whether a pod of an earlier view of the same order is in this one.
func (v *view) still(p *podRecord) bool {
	at := v.podAt.place[p.slot]
	return at >= 0 && v.pods[at].key == p.key
}

// runs reports whether a pod belongs to a managed target.
func (v *view) runs(id targetID, pod api.Key) bool {
	i, ok := v.podAt.of(pod)
	return ok && v.ofPod[i] != nil && v.ofPod[i].id == id
}

// first is the oldest ManagedWorkload that names a target, nil if none does.
func (v *view) first(id targetID) *workloadRecord {
	if m := v.managed[id]; m != nil {
		return m.first
	}
	return nil
}

// members are the pods of a managed target, in order of key.
func (v *view) members(id targetID) []*podRecord {
	if m := v.managed[id]; m != nil {
		return m.pods
	}
	return nil
}

// namespaces with managed targets, in order.
func (v *view) namespaces() []string {
	set := map[string]bool{}
	for id := range v.managed {
		set[id.namespace] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// seriesOfInterest is about how many series of the CPU metric there are in the
// namespaces with managed targets.
func (v *view) seriesOfInterest() int {
	set := map[string]bool{}
	for id := range v.managed {
		set[id.namespace] = true
	}
	n, of, counts := 0, "", false
	for _, p := range v.pods {
		if p.key.Namespace != of {
			of, counts = p.key.Namespace, set[p.key.Namespace]
		}
		if counts {
			n += int(p.containers)
		}
	}
	return n
}

// replicasOf a target, 0 if it is not there.
func (v *view) replicasOf(id targetID) int32 {
	if t := v.targets[id]; t != nil {
		return t.replicas
	}
	return 0
}
