package sim

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/baseline/karpenter"
)

// provisioner carries out what Karpenter's rules decide.
type provisioner struct {
	c        *Cluster
	settings karpenter.Settings
	batch    karpenter.Batch
	timer    bool
	// unavailable zones of a pool, until when.
	unavailable map[zoned]time.Duration
	// pods of each node as they were last seen, and since when.
	seen map[*node]seen
	stay []*pod // for use within look
	// deciding is a command that waits to be looked at again.
	deciding bool
}

type seen struct {
	pods  []*pod
	since time.Duration
}

// startKarpenter runs Karpenter for all pools: a pool is a machine type that its
// NodePool allows.
func (c *Cluster) startKarpenter(t Tuning) {
	k := &provisioner{c: c, settings: karpenter.DefaultSettings(), unavailable: map[zoned]time.Duration{}, seen: map[*node]seen{}}
	k.settings.ConsolidateAfter = cmp.Or(t.ConsolidateAfter, k.settings.ConsolidateAfter)
	c.unschedulable = func(*pod) { k.trigger() }
	c.replaced = false // its machines are in no instance group
	period := k.settings.PollingPeriod
	c.every(c.now+c.phase(period), period, func() bool {
		// What could not be helped is tried again.
		if len(k.pending()) > 0 {
			k.trigger()
		}
		k.look()
		k.disrupt()
		return true
	})
}

// trigger begins a batch, or lets it wait for more.
func (k *provisioner) trigger() {
	k.batch.Trigger(k.c.now)
	if !k.timer {
		k.timer = true
		k.wait()
	}
}

func (k *provisioner) wait() {
	due, _ := k.batch.Due(k.settings)
	k.c.at(due, func() {
		if later, open := k.batch.Due(k.settings); open && later > k.c.now {
			k.wait()
			return
		}
		k.timer = false
		k.batch.Close()
		for _, t := range karpenter.Provision(k.view()) {
			k.launch(t)
		}
	})
}

// launch asks for a machine of a type in its least used zone that has any, and
// returns the name of its node; empty when there is none.
func (k *provisioner) launch(t int) string {
	c, p := k.c, k.c.pools[t]
	zones := make([]int, len(p.zones))
	for i := range zones {
		zones[i] = i
	}
	slices.SortStableFunc(zones, func(a, b int) int { return int(p.sizes[a] - p.sizes[b]) })
	for _, zone := range zones {
		if k.room(p, zone) == 0 {
			continue
		}
		switch err := c.grow(p, zone); {
		case err == nil:
			return c.ledger[len(c.ledger)-1].Node
		case errors.Is(err, errStockout), errors.Is(err, errQuota):
			k.unavailable[zoned{p, zone}] = c.now + k.settings.UnavailableOfferingsTTL
		}
	}
	return ""
}

// room is how many more nodes a pool may have in a zone, as far as is known.
func (k *provisioner) room(p *pool, zone int) int32 {
	switch {
	case k.c.now < k.unavailable[zoned{p, zone}]:
		return 0
	case p.max == 0:
		return math.MaxInt32 / int32(len(p.zones)) // a sum of them is one still
	default:
		return max(0, p.max-p.sizes[zone])
	}
}

func (k *provisioner) pending() []*pod {
	var out []*pod
	for _, p := range k.c.waiting() {
		if p.unschedul && k.c.nominated[p] == nil {
			out = append(out, p)
		}
	}
	return out
}

// view is the cluster as the rules take it.
func (k *provisioner) view() karpenter.View {
	c := k.c
	var v karpenter.View
	index := map[*pool]int{}
	for i, p := range c.pools {
		index[p] = i
		t := karpenter.Type{Name: p.machineType, Price: p.price, Allocatable: p.allocatable, Overhead: p.overhead}
		for zone := range p.zones {
			t.Room += k.room(p, zone)
		}
		v.Types = append(v.Types, t)
	}
	for _, n := range c.sorted {
		node := karpenter.Node{
			Name: n.name, Type: index[n.pool], Ready: n.ready, Deleting: n.deleting || n.cordoned,
			Changed: max(n.readyAt, k.seen[n].since), Used: n.used,
		}
		for _, p := range n.pods {
			if !p.terminating {
				node.Pods = append(node.Pods, &karpenter.Pod{Requests: p.held()})
			}
		}
		v.Nodes = append(v.Nodes, node)
	}
	for _, p := range k.pending() {
		v.Pending = append(v.Pending, &karpenter.Pod{Requests: p.shape.Requests})
	}
	return v
}

// look notes on which nodes pods came or went since the last look.
func (k *provisioner) look() {
	for n := range k.seen {
		if k.c.nodes[n.name] != n {
			delete(k.seen, n)
		}
	}
	for _, n := range k.c.nodes {
		stay := k.stay[:0]
		for _, p := range n.pods {
			if !p.terminating {
				stay = append(stay, p)
			}
		}
		if !slices.Equal(stay, k.seen[n].pods) {
			k.seen[n] = seen{slices.Clone(stay), k.c.now}
		}
		k.stay = stay
	}
}

// disrupt decides on a command, unless one is being thought over, and carries it out
// if it still holds a while later.
func (k *provisioner) disrupt() {
	if k.deciding {
		return
	}
	command, ok := karpenter.Consolidate(k.c.now, k.view(), k.settings)
	if !ok {
		return
	}
	k.deciding = true
	k.c.after(k.settings.ConsolidationTTL, func() {
		k.deciding = false
		k.look()
		if karpenter.Holds(k.c.now, k.view(), k.settings, command) {
			k.carryOut(command)
		}
	})
}

// carryOut taints the nodes, waits for what replaces them, and drains them.
func (k *provisioner) carryOut(command karpenter.Command) {
	c := k.c
	var nodes []*node
	for _, name := range command.Remove {
		n := c.nodes[name]
		n.cordoned = true
		nodes = append(nodes, n)
	}
	var replacements []string
	for _, t := range command.Launch {
		name := k.launch(t)
		if name == "" { // there is none: all stays as it is
			for _, n := range nodes {
				n.cordoned = false
			}
			c.schedule()
			return
		}
		replacements = append(replacements, name)
	}
	c.every(c.now, time.Second, func() bool {
		for _, name := range replacements {
			if n := c.nodes[name]; n != nil && !n.ready {
				return true
			}
		}
		for _, n := range nodes {
			k.drain(n)
		}
		return false
	})
}

// drain evicts a node's pods and deletes it when they are gone.
func (k *provisioner) drain(n *node) {
	for _, p := range slices.Clone(n.pods) {
		k.c.delete(p)
	}
	k.c.every(k.c.now, time.Second, func() bool {
		if len(n.pods) > 0 {
			return true
		}
		k.c.discard(n)
		return false
	})
}
