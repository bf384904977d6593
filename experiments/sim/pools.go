package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// pool of identical nodes, as GKE has them: its size is per zone, and one
// operation runs at a time.
type pool struct {
	name, machineType string
	zones             []string
	sizes             []int32           // target by zone
	min, max          int32             // per zone; max 0 is unlimited
	labels            map[string]string // of every node
	allocatable       api.Resources
	capacity          api.Resources // CPU and memory
	overhead          api.Resources // of GKE's DaemonSets
	cores             float64       // that pods can use together
	vcpu              int64
	price             float64 // USD per node and hour
	speed             float64
	autoscaled        bool
	busyUntil         time.Duration
	resizedAt         time.Duration
	failure           *api.PoolError
	bootMedian        time.Duration // 0: that of all pools
	leads             demand.StartupLatencies
	asked             []time.Duration // of nodes that aren't Ready yet
	spot              *spotMachines   // nil: on demand
}

// Errors of a provider.
var (
	errBusy     = errors.New("an operation is in progress")
	errQuota    = errors.New("quota of vCPUs exceeded")
	errStockout = errors.New("the zone has no such machines now")
)

func (p *pool) nodes() int32 {
	var n int32
	for _, s := range p.sizes {
		n += s
	}
	return n
}

// boot creates an instance in a zone. Initial ones are Ready at once.
func (c *Cluster) boot(p *pool, zone string, initial bool) {
	c.serial++
	paid := &Lifetime{Pool: p.name, MachineType: p.machineType, Price: p.price, Requested: c.now, Deleted: -1}
	n := &node{
		name: fmt.Sprintf("gke-%s-%08d", p.name, c.serial), pool: p, zone: zone, paid: paid,
		used: p.overhead, readyAt: -1, created: c.now,
		labels: map[string]string{api.LabelNodePool: p.name, api.LabelZone: zone},
	}
	n.labels["kubernetes.io/hostname"] = n.name
	paid.Node = n.name
	c.ledger = append(c.ledger, paid)
	silent := func() bool { return !initial && c.silent != nil && c.silent(p) }
	mute := silent()
	var join func()
	join = func() {
		if n.deleting {
			return
		}
		if mute {
			// GKE creates a node again that didn't report for about ten minutes.
			mute = silent()
			c.after(10*time.Minute, join)
			return
		}
		n.ready, n.readyAt, n.created = true, c.now, c.now
		n.daemon = &api.Pod{
			Key: api.Key{Namespace: "kube-system", Name: "daemons-" + n.name}, UID: "d" + n.name,
			Shape: &api.PodShape{ID: "daemons-" + p.name, Requests: p.overhead}, Node: n.name, Phase: "Running", Ready: true,
			Created: c.time(), ReadyAt: c.time(), ControllerKind: "DaemonSet", ControllerName: "daemons", DaemonSet: true,
		}
		c.list(n)
		c.must(c.traffic.SetNode(queueing.Node{Name: n.name, Cores: p.cores, Speed: p.speed}))
		c.record.Node(c.now, record.Node{Name: n.name, Pool: p.name, Ready: true, MilliCPU: p.allocatable.MilliCPU, Memory: p.allocatable.Memory})
		c.record.Pod(c.now, record.Pod{ID: n.daemon.UID, Node: n.name, MilliCPU: p.overhead.MilliCPU, Memory: p.overhead.Memory})
		if !initial && len(p.asked) > 0 {
			p.leads.Add(c.now - p.asked[0])
			p.asked = p.asked[1:]
		}
		c.await(n)
		c.schedule()
	}
	if initial {
		join()
		return
	}
	p.asked = append(p.asked, c.now)
	c.list(n)
	params := c.params
	if p.bootMedian > 0 {
		params.BootMedian = p.bootMedian
	}
	c.after(c.params.Operation+params.boot(c.rng), join)
}

// resize sets a pool's size per zone; growing only, as GKE picks its own
// victims when it shrinks.
func (c *Cluster) resize(p *pool, perZone int32) error {
	if c.now < p.busyUntil {
		return errBusy
	}
	if p.max > 0 && perZone > p.max {
		return fmt.Errorf("size %d is more than %d per zone", perZone, p.max)
	}
	p.resizedAt = c.now
	for i, zone := range p.zones {
		for p.sizes[i] < perZone {
			if err := c.grow(p, i); err != nil {
				c.fails(p, err)
				return fmt.Errorf("zone %s: %w", zone, err)
			}
		}
		for p.sizes[i] > perZone {
			victim := c.victim(p, zone)
			if victim == nil {
				break
			}
			c.discard(victim)
		}
	}
	p.failure = nil
	p.busyUntil = c.now + c.params.Operation
	return nil
}

// fails notes why a pool can't have what it was asked for.
func (c *Cluster) fails(p *pool, err error) {
	kind := api.PoolQuota
	if errors.Is(err, errStockout) {
		kind = api.PoolStockout
	}
	p.failure = &api.PoolError{Kind: kind, Message: err.Error(), At: c.time()}
}

// grow adds one node in a zone.
func (c *Cluster) grow(p *pool, zone int) error {
	if err := c.available(p, zone); err != nil {
		return err
	}
	p.sizes[zone]++
	c.boot(p, p.zones[zone], false)
	return nil
}

// available tells why a zone has no machine for a pool.
func (c *Cluster) available(p *pool, zone int) error {
	if c.stockout[p.zones[zone]] || p.spot.dry(c.now, p.zones[zone]) {
		return errStockout
	}
	if c.quota > 0 {
		var used int64
		for _, q := range c.pools {
			used += int64(q.nodes()) * q.vcpu
		}
		if used+p.vcpu > c.quota {
			return errQuota
		}
	}
	return nil
}

// victim is a node that a shrinking pool loses: one that isn't Ready, else the
// youngest.
func (c *Cluster) victim(p *pool, zone string) *node {
	var best *node
	for _, n := range c.sorted {
		if n.pool != p || n.zone != zone || n.deleting {
			continue
		}
		if best == nil || cmp.Or(btoi(best.ready)-btoi(n.ready), cmp.Compare(n.created, best.created)) > 0 {
			best = n
		}
	}
	return best
}

// discard deletes an instance: its pool is smaller at once, the machine is
// paid until it has stopped, its pods go with it.
func (c *Cluster) discard(n *node) {
	if n.deleting {
		return
	}
	n.deleting, n.cordoned = true, true
	zone := slices.Index(n.pool.zones, n.zone)
	n.pool.sizes[zone]--
	if !n.ready {
		if len(n.pool.asked) > 0 {
			n.pool.asked = n.pool.asked[:len(n.pool.asked)-1]
		}
		c.unlist(n)
		n.paid.Deleted = c.now
		return
	}
	c.after(c.params.Stop, func() {
		n.paid.Deleted = c.now
		c.traffic.LoseNode(n.name)
		c.gone(n)
	})
}

// fail lets the Ready nodes of a pool that are there longest stop working at
// once: requests on them are answered by nobody, and the control plane learns of
// it when a heartbeat is missing. The provider replaces the machines then.
func (c *Cluster) fail(p *pool, count int) {
	var all []*node
	for _, n := range c.sorted {
		if n.pool == p && n.ready && !n.deleting {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b *node) int { return cmp.Compare(a.created, b.created) })
	for _, n := range all[:min(count, len(all))] {
		n.deleting, n.cordoned = true, true // nothing is bound to it any more
		n.paid.Deleted = c.now
		c.traffic.LoseNode(n.name)
		c.after(c.params.NodeGrace, func() {
			c.gone(n)
			c.boot(p, n.zone, false)
		})
	}
}

// gone is the end of a node in the cluster, and soon of its pods.
func (c *Cluster) gone(n *node) {
	n.ready = false
	c.record.NodeGone(c.now, n.name)
	c.record.PodGone(c.now, n.daemon.UID)
	c.unlist(n)
	for p, at := range c.nominated {
		if at == n {
			delete(c.nominated, p)
		}
	}
	for _, p := range slices.Clone(n.pods) {
		if p.ready && !p.terminating {
			c.harm.died = append(c.harm.died, fmt.Sprintf("at %v the Ready pod %s died with node %s", c.now, p.name, n.name))
		}
		p.terminating, p.ready = true, false
		c.observe(p)
	}
	c.after(c.params.PodGC, func() {
		for _, p := range slices.Clone(n.pods) {
			c.remove(p)
		}
	})
}

// list makes a node one of the cluster's, and unlist takes it away again. A list of nodes
// that somebody is going through stays as it is.
func (c *Cluster) list(n *node) {
	c.nodes[n.name] = n
	if i, there := slices.BinarySearchFunc(c.sorted, n, byName); !there {
		c.sorted = slices.Insert(slices.Clone(c.sorted), i, n)
	}
}

func (c *Cluster) unlist(n *node) {
	delete(c.nodes, n.name)
	c.sorted = slices.DeleteFunc(slices.Clone(c.sorted), func(o *node) bool { return o == n })
}

func byName(a, b *node) int { return cmp.Compare(a.name, b.name) }

// hold adds a pod to those of a node.
func (n *node) hold(p *pod) {
	i, _ := slices.BinarySearchFunc(n.pods, p, func(a, b *pod) int { return cmp.Compare(a.uid, b.uid) })
	n.pods = slices.Insert(n.pods, i, p)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// nodeOverhead is what GKE's DaemonSets ask of each node; see gkesim.
var nodeOverhead = api.Resources{MilliCPU: 223, Memory: 390 << 20, Pods: 5}

// addPool adds a pool of the scenario with its first nodes.
func (c *Cluster) addPool(s scenarios.Pool, autoscaled bool) error {
	p, err := c.newPool(s, autoscaled)
	if err != nil {
		return err
	}
	c.pools = append(c.pools, p)
	for i, zone := range p.zones {
		for range s.Nodes {
			p.sizes[i]++
			c.boot(p, zone, true)
		}
	}
	return nil
}

// priorStartup is what is assumed of boots with this median until some were seen.
func priorStartup(median time.Duration) api.StartupLatency {
	return api.StartupLatency{P50: median, P90: median * 3 / 2}
}

// newPool is a pool without nodes.
func (c *Cluster) newPool(s scenarios.Pool, autoscaled bool) (*pool, error) {
	machine, ok := gkesim.Machines[s.MachineType]
	priced, ok2 := gke.LookupMachineType(s.MachineType)
	if !ok || !ok2 {
		return nil, fmt.Errorf("pool %s: machine type %s is not known", s.Name, s.MachineType)
	}
	const disk = 100 // GiB, GKE's default
	list, all := machine.Allocatable(disk), machine.Capacity(disk)
	quantity := func(name corev1.ResourceName) int64 { q := list[name]; return q.Value() }
	cpu, allCPU, allMemory := list[corev1.ResourceCPU], all[corev1.ResourceCPU], all[corev1.ResourceMemory]
	speed, known := load.DefaultSpeeds()[s.MachineType]
	if !known {
		speed = 1
	}
	out := &pool{
		name: s.Name, machineType: s.MachineType, zones: s.Zones, sizes: make([]int32, len(s.Zones)),
		min: s.NodesPerZone.Min, max: s.NodesPerZone.Max, autoscaled: autoscaled,
		allocatable: api.Resources{
			MilliCPU: cpu.MilliValue(), Memory: quantity(corev1.ResourceMemory),
			EphemeralStorage: quantity(corev1.ResourceEphemeralStorage), Pods: quantity(corev1.ResourcePods),
		},
		labels:   map[string]string{api.LabelNodePool: s.Name},
		capacity: api.Resources{MilliCPU: allCPU.MilliValue(), Memory: allMemory.Value()},
		overhead: nodeOverhead, cores: float64(machine.VCPU), vcpu: machine.VCPU, price: priced.Price, speed: speed,
		leads: demand.StartupLatencies{Limit: c.params.StartupSamples}, bootMedian: s.BootMedian.Duration,
	}
	if m := s.Spot; m != nil {
		out.spot = &spotMachines{interruptions: m.InterruptionsPerHour, outage: m.Outage.Duration, dryUntil: map[string]time.Duration{}}
		out.price *= m.PriceRatio
		out.labels[labelSpot] = "true"
	}
	return out, nil
}
