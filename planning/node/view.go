package node

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// view is the part of a snapshot that planning nodes looks at.
type view struct {
	snapshot api.Snapshot
	bounds   []api.PoolBounds
	dims     dimensions
	pools    []pool // managed, in order of name
	types    []nodeType
	items    []podItem
	byKey    map[itemKey]int
	demands  []api.NodeDemand
	astray   bool        // see api.NodeInput
	loads    []workload  // in the order of demands
	nodes    []*resident // of managed pools, in order of name
	// unready are, by pool, its lost nodes where these are too many to be replaced.
	unready map[int]int32
	// others are pods of no plan without a place in a pool they belong to.
	others map[int]int32 // item → count
	// outside are the Ready nodes of no managed pool, and welcome tells per
	// item whether one of them accepts it.
	outside []placement.Site
	welcome map[int]bool
	// seated is the last pod that was given a place, where the next one is mostly alike.
	seated struct {
		shape      *api.PodShape
		load, item int
	}
}

type pool struct {
	api.Pool
	target bool     // open for pods
	zones  []string // at least one
	// least and most of its nodes per zone; most Unlimited for no bound.
	least, most int32
}

// nodeType is a pool, or one zone of it when some pod can tell zones apart.
type nodeType struct {
	pool, zone int // zone −1: any
	site       placement.Site
	capacity   []int64
}

type itemKey struct {
	shape    string
	pointer  *api.PodShape // for shapes without an ID
	workload api.Key       // for shapes with bounds on copies, which are per workload
	zone     string        // of copies that are spread over zones
	bound    string        // zones that volumes bind a pod to
	pools    string        // those that its workload may be planned on, of several
}

// podItem is a shape with where its pods belong.
type podItem struct {
	of   api.ObjectRef // a workload or pod that it is of
	name string        // of that
	zone string        // that its pods run in, where they are spread over zones
	// bound are the zones that the pods' volumes can be reached from; nil for any.
	bound []string
	// copy is the item whose pods are copies of these, wherever they may run; off the item
	// of those that are kept off spot machines, −1 where none need be.
	copy, off int
	shape     *api.PodShape
	requests  []int64
	types     []int // empty: no managed pool takes it
	target    bool  // types are of the policy's pools
	refused   string
}

// workload is a planned workload.
type workload struct {
	demand    api.NodeDemand
	replicas  int32         // as they are
	item      int           // −1: left out
	bound     map[int]int32 // pods without a place by item, of those that volumes bind to zones
	spread    []int         // items by zone, where copies are spread over zones
	zones     []string
	elsewhere int32 // pods on nodes that are not ours to plan
	live      int32 // pods not terminating
	rolling   bool
}

// resident is a node of a managed pool with the pods that stay on it.
type resident struct {
	node *api.Node
	pool int
	zone int // −1: a zone the pool does not have
	site placement.Site
	free []int64
	pods []tenant
	// usable: new pods may come here. ready: they could today.
	usable, ready bool
	// movable: neither it nor a pod on it forbids removing it.
	movable bool
	// lost: not Ready for too long to be waited for.
	lost bool
	// fixed: cordoned by someone else.
	fixed bool
	// index in order of name.
	index int
	// host is where it is among the hosts of a layout, −1 if it is none.
	host int
	// removed: given up by a layout; barred: beyond its pool's bounds, see layout.bar.
	removed, barred bool
}

// tenant is a pod on a node.
type tenant struct{ item, workload int } // workload −1: of none

func newView(in api.NodeInput) (*view, error) {
	s := in.Snapshot
	v := &view{snapshot: s, bounds: in.Bounds, demands: in.Demands, astray: in.Astray, byKey: map[itemKey]int{}, others: map[int]int32{}, welcome: map[int]bool{}}
	if err := v.addPools(); err != nil {
		return nil, err
	}
	shapes, known := Problem{}, map[*api.PodShape]bool{nil: true}
	var last *api.PodShape
	ask := func(shape *api.PodShape) {
		if shape != last && !known[shape] {
			known[shape] = true
			shapes.Items = append(shapes.Items, Item{Requests: shape.Requests})
		}
		last = shape
	}
	for i := range s.Pods {
		ask(s.Pods[i].Shape)
	}
	for i := range s.Workloads {
		ask(s.Workloads[i].Shape)
	}
	v.dims = dimensionsOf(shapes)
	v.addNodes()
	v.addTypes()
	v.addWorkloads()
	v.addPods()
	return v, nil
}

// with is the view for other scales of the same workloads and other bounds of the
// same pools, of the same snapshot otherwise; nil if the view does not serve for that.
func (v *view) with(in api.NodeInput) (*view, error) {
	samePool := func(a, b api.PoolBounds) bool { return a.Pool == b.Pool && a.Open == b.Open }
	sameDemand := func(a, b api.NodeDemand) bool {
		return a.Key == b.Key && slices.Equal(a.Pools, b.Pools) && (a.Spot == nil) == (b.Spot == nil) && reflect.DeepEqual(a.Containers, b.Containers)
	}
	if v.astray != in.Astray || !slices.EqualFunc(v.bounds, in.Bounds, samePool) || !slices.EqualFunc(v.demands, in.Demands, sameDemand) {
		return nil, nil
	}
	other := *v
	other.snapshot, other.bounds, other.demands, other.pools = in.Snapshot, in.Bounds, in.Demands, nil
	if err := other.addPools(); err != nil {
		return nil, err
	}
	other.loads = slices.Clone(v.loads)
	next := 0
	for i := range other.loads {
		for in.Demands[next].Key != other.loads[i].demand.Key {
			next++ // of a workload that is left out
		}
		other.loads[i].demand = in.Demands[next]
		next++
	}
	return &other, nil
}

func (v *view) addPools() error {
	for _, b := range v.bounds {
		i := slices.IndexFunc(v.snapshot.Pools, func(p api.Pool) bool { return p.Name == b.Pool })
		if i < 0 {
			return fmt.Errorf("%w: there is no pool %q", ErrPool, b.Pool)
		}
		p := v.snapshot.Pools[i]
		one := pool{Pool: p, target: b.Open, zones: p.Zones, least: b.MinPerZone, most: b.MaxPerZone}
		if len(one.zones) == 0 {
			one.zones = []string{""}
		}
		if one.target && (p.Allocatable.MilliCPU <= 0 || p.Allocatable.Memory <= 0 || p.Allocatable.Pods <= 0) {
			return fmt.Errorf("%w: allocatable of a node of pool %s is not known: %s", ErrPool, p.Name, p.Allocatable)
		}
		if !(p.Price >= 0) || math.IsInf(p.Price, 1) {
			return fmt.Errorf("%w: the price of a node of pool %s is %v USD/h", ErrPool, p.Name, p.Price)
		}
		v.pools = append(v.pools, one)
	}
	slices.SortFunc(v.pools, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

func (v *view) poolIndex(name string) int {
	return slices.IndexFunc(v.pools, func(p pool) bool { return p.Name == name })
}

func (v *view) addTypes() {
	split := slices.ContainsFunc(v.snapshot.Pods, func(p api.Pod) bool {
		return p.Shape != nil && (p.Zones != nil && !p.Terminating || placement.TellsZones(p.Shape) || placement.Spreads(p.Shape))
	}) ||
		slices.ContainsFunc(v.snapshot.Workloads, func(w api.Workload) bool {
			return w.Shape != nil && (placement.TellsZones(w.Shape) || placement.Spreads(w.Shape))
		})
	for i, p := range v.pools {
		t := nodeType{
			pool: i, zone: -1,
			site:     placement.Site{Labels: v.labels(i), Taints: p.Taints},
			capacity: v.dims.vector(p.Allocatable.Minus(p.Overhead)),
		}
		for _, r := range v.nodes {
			if r.pool == i && !r.node.Ready {
				r.site.Labels = t.site.Labels
			}
		}
		if !split || len(p.zones) == 1 {
			if len(p.zones) == 1 {
				t.site.Zone = p.zones[0]
			}
			v.types = append(v.types, t)
			continue
		}
		for z, name := range p.zones {
			t.zone, t.site.Zone = z, name
			v.types = append(v.types, t)
		}
	}
}

// labelHostname is different on every node.
const labelHostname = "kubernetes.io/hostname"

// labels of a node that pool p would add: those the provider tells of, and
// those on which all its Ready nodes agree.
func (v *view) labels(p int) map[string]string {
	var common map[string]string
	for _, r := range v.nodes {
		switch {
		case r.pool != p || !r.node.Ready:
		case common == nil:
			common = maps.Clone(r.node.Labels)
			delete(common, labelHostname)
			for _, key := range placement.ZoneKeys {
				delete(common, key)
			}
		default:
			maps.DeleteFunc(common, func(k, want string) bool { return r.node.Labels[k] != want })
		}
	}
	if common == nil {
		common = map[string]string{}
	}
	common[api.LabelNodePool] = v.pools[p].Name
	maps.Copy(common, v.pools[p].Labels)
	return common
}

func (v *view) addNodes() {
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		p := v.poolIndex(n.Pool)
		if p < 0 {
			if n.Ready && !n.Cordoned {
				at := placement.SiteOf(n)
				at.Zone = n.Zone
				v.outside = append(v.outside, at)
			}
			continue
		}
		at := &v.pools[p]
		r := &resident{
			node: n, pool: p, zone: slices.Index(at.zones, at.ZoneOf(n)),
			site:    placement.SiteOf(n),
			free:    v.dims.vector(n.Allocatable),
			movable: n.DoNotDisrupt == "",
			fixed:   n.Cordoned && n.CordonedFor == "",
		}
		if len(at.Zones) == 0 {
			r.zone = 0
		}
		r.ready = n.Ready && !r.fixed // a cordon of ours is taken back when the node is kept
		r.usable = r.ready
		if !n.Ready {
			// It is booting: it will be like the pool's nodes, whatever it
			// reports now (addTypes gives it their labels).
			r.lost = v.lost(n, at)
			r.usable = !r.fixed && !r.lost
			r.site.Taints = at.Taints
			if n.Zone != "" {
				r.site.Zone = n.Zone
			}
			r.free = v.dims.vector(at.Allocatable)
		}
		v.nodes = append(v.nodes, r)
	}
	slices.SortFunc(v.nodes, func(a, b *resident) int { return cmp.Compare(a.node.Name, b.node.Name) })
	for i, r := range v.nodes {
		r.index = i
	}
	v.keepLost()
}

// Cluster Autoscaler's limits of the nodes that are not Ready, beyond which it scales nothing.
const (
	mostUnready      = 3
	mostUnreadyShare = 0.45
)

// keepLost takes the lost nodes of a pool for booting ones where they are so many that
// others in their place would not become Ready either: a broken image, network or API.
func (v *view) keepLost() {
	lost, all := map[int]int32{}, map[int]int32{}
	for _, r := range v.nodes {
		all[r.pool]++
		if r.lost {
			lost[r.pool]++
		}
	}
	v.unready = map[int]int32{}
	for p, n := range lost {
		if float64(n) > max(mostUnready, mostUnreadyShare*float64(all[p])) {
			v.unready[p] = n
		}
	}
	for _, r := range v.nodes {
		if r.lost && v.unready[r.pool] > 0 {
			r.usable = !r.fixed
		}
	}
}

// lost reports whether a node that is not Ready can't be waited for any more: since it was
// made, or was Ready.
func (v *view) lost(n *api.Node, p *pool) bool {
	lead, since := 2*p.NodeStartup.P90, n.Created
	if n.UnreadyAt.After(since) {
		since = n.UnreadyAt
	}
	return lead > 0 && !since.IsZero() && v.snapshot.Time.Sub(since) > lead
}

func (v *view) addWorkloads() {
	byKey := make(map[api.Key]*api.Workload, len(v.snapshot.Workloads))
	for i := range v.snapshot.Workloads {
		byKey[v.snapshot.Workloads[i].Key] = &v.snapshot.Workloads[i]
	}
	for _, demand := range v.demands {
		w, ok := byKey[demand.Key]
		if !ok || w.Shape == nil {
			continue // nothing is known of its pods; those it has count as they are
		}
		load := workload{demand: demand, replicas: w.Replicas, rolling: w.RollingOut}
		shape := sized(w.Shape, demand.Scale)
		load.item = v.item(shape, demand.Key, api.WorkloadRef(demand.Key), "", nil, demand.Pools)
		v.keepOff(demand, load.item, shape)
		load.spread, load.zones = v.spreadItems(shape, demand.Key, load.item, demand.Pools)
		v.loads = append(v.loads, load)
	}
}

// sized is a shape with the requests of a scale, where that states any.
func sized(shape *api.PodShape, scale api.Scale) *api.PodShape {
	requests, ok := scale.Requests()
	if !ok {
		return shape
	}
	other := *shape
	other.ID, other.Requests = fmt.Sprintf("%s with %s", shape.ID, requests), requests
	return &other
}

// item is the index of a shape's item, in a zone if that isn't empty, of pods that
// their volumes bind to some zones unless these are nil, on some of the open pools
// unless these are none; a new one gets the name of who it is of.
func (v *view) item(shape *api.PodShape, owner api.Key, of api.ObjectRef, zone string, bound, pools []string) int {
	key := itemKey{shape: shape.ID, zone: zone, pools: strings.Join(pools, " ")}
	if bound != nil {
		key.bound = "in " + strings.Join(bound, " ")
	}
	if shape.ID == "" {
		key.pointer = shape
	}
	if shape.MaxPerNode > 0 || placement.Spreads(shape) {
		key.workload = owner
	}
	if i, ok := v.byKey[key]; ok {
		return i
	}
	it := podItem{of: of, name: of.Key.String(), zone: zone, bound: bound, shape: shape, requests: v.dims.vector(shape.Requests), copy: len(v.items), off: -1}
	if zone != "" || bound != nil {
		it.copy = v.item(shape, owner, of, "", nil, pools)
	}
	accepted, large, zoned := false, false, false
	for _, target := range []bool{true, false} {
		for t, typ := range v.types {
			if v.pools[typ.pool].target != target || target && len(pools) > 0 && !slices.Contains(pools, v.pools[typ.pool].Name) || zone != "" && typ.site.Zone != zone || !typ.site.Admits(shape) {
				continue
			}
			if !placement.InZones(bound, typ.site.Zone) {
				zoned = true
				continue
			}
			accepted = true
			if copies(it.requests, typ.capacity) == 0 {
				large = true
				continue
			}
			it.types = append(it.types, t)
		}
		if len(it.types) > 0 {
			it.target = target
			break
		}
	}
	switch {
	case large && len(it.types) == 0:
		it.refused = fmt.Sprintf("%s is more than an empty node of a managed pool has", shape.Requests)
	case !accepted && zoned:
		it.refused = fmt.Sprintf("its volumes are in zone %s, where no managed pool that takes it has nodes", cmp.Or(strings.Join(bound, ", "), "(none that all have)"))
	case !accepted:
		it.refused = "node selector, node affinity or taints keep it off every managed pool"
	}
	v.items = append(v.items, it)
	v.byKey[key] = len(v.items) - 1
	return len(v.items) - 1
}
