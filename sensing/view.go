package sensing

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// view is one consistent look at the caches, indexed.
type view struct {
	pods      []*podRecord // in order of key
	podByKey  map[api.Key]*podRecord
	nodes     []*nodeRecord // in order of name
	daemons   []*daemonRecord
	owners    map[api.Key]*ownerRecord // ReplicaSets
	targets   map[targetID]*targetRecord
	scalers   map[targetID][]string          // names of HPAs, in order
	byKEDA    map[targetID][]string          // names of those that KEDA made, in order
	nets      map[targetID]bool              // targets with a safety net
	verticals map[targetID][]*verticalRecord // in order of name
	quotas    map[string][]*quotaRecord      // by namespace, in order of name
	slos      map[sloID]*sloRecord           // of others' resources
	workloads []*workloadRecord              // in order of key
	// byTarget has the oldest ManagedWorkload of each target.
	byTarget map[targetID]*workloadRecord
	members  map[targetID][]*podRecord // pods of each target in byTarget
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
		slos:      map[sloID]*sloRecord{},
		byTarget:  map[targetID]*workloadRecord{},
		members:   map[targetID][]*podRecord{},
	}
	v.leaveParked()
	slices.SortFunc(v.pods, func(a, b *podRecord) int { return compareKeys(a.key, b.key) })
	slices.SortFunc(v.nodes, func(a, b *nodeRecord) int { return cmp.Compare(a.key.Name, b.key.Name) })
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
	for _, w := range v.workloads {
		if w.target == (targetID{}) {
			continue
		}
		if first, ok := v.byTarget[w.target]; !ok || older(w, first) {
			v.byTarget[w.target] = w
		}
	}
	v.podByKey = make(map[api.Key]*podRecord, len(v.pods))
	for _, p := range v.pods {
		v.podByKey[p.key] = p
		if id, ok := v.targetOf(p); ok {
			v.members[id] = append(v.members[id], p)
		}
	}
	return v
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

// older tells which of two ManagedWorkloads was there first; created in the
// same second, by name.
func older(a, b *workloadRecord) bool {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key.Name, b.key.Name)) < 0
}

// targetOf follows the owners of a pod to a managed target.
func (v *view) targetOf(p *podRecord) (targetID, bool) {
	id := targetID{p.key.Namespace, p.pod.ControllerKind, p.pod.ControllerName}
	if id.kind == kindReplicaSet {
		rs, ok := v.owners[api.Key{Namespace: p.key.Namespace, Name: p.pod.ControllerName}]
		if !ok {
			return targetID{}, false
		}
		id.kind, id.name = rs.ownerKind, rs.ownerName
	}
	_, ok := v.byTarget[id]
	return id, ok
}

// runs reports whether a pod belongs to a managed target.
func (v *view) runs(id targetID, pod api.Key) bool {
	p := v.podByKey[pod]
	if p == nil || pod.Name == "" {
		return false
	}
	of, ok := v.targetOf(p)
	return ok && of == id
}

// namespaces with managed targets, in order.
func (v *view) namespaces() []string {
	set := map[string]bool{}
	for id := range v.byTarget {
		set[id.namespace] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// seriesOfInterest is about how many series of the CPU metric there are in the
// namespaces with managed targets.
func (v *view) seriesOfInterest() int {
	set := map[string]bool{}
	for id := range v.byTarget {
		set[id.namespace] = true
	}
	n := 0
	for _, p := range v.pods {
		if set[p.key.Namespace] {
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
