package sim

import (
	"slices"
	"time"
)

// labelSpot is GKE's, on the nodes of a spot pool.
const labelSpot = "cloud.google.com/gke-spot"

// Of Compute Engine: a spot machine is told half a minute before it goes, of which GKE's
// kubelets take 25 s to end pods; instance groups try to replace a machine once a minute.
const (
	spotNotice = 25 * time.Second
	spotRetry  = time.Minute
)

// spotMachines are those of a pool that its provider takes away.
type spotMachines struct {
	interruptions float64       // of each, per hour
	outage        time.Duration // on average
	dryUntil      map[string]time.Duration
}

// dry reports whether a zone has none of them now.
func (m *spotMachines) dry(now time.Duration, zone string) bool {
	return m != nil && now < m.dryUntil[zone]
}

// await draws when a Ready node is taken away.
func (c *Cluster) await(n *node) {
	m := n.pool.spot
	if m == nil || m.interruptions <= 0 {
		return
	}
	c.after(time.Duration(c.spotRNG.ExpFloat64()/m.interruptions*float64(time.Hour)), func() {
		if c.nodes[n.name] == n && !n.deleting {
			c.interrupt(n)
		}
	})
}

// interrupt takes a spot node away: its pods end gracefully within the notice, new ones
// are made at once, and the machine is replaced when there is another.
func (c *Cluster) interrupt(n *node) {
	p, m := n.pool, n.pool.spot
	c.interruptions = append(c.interruptions, c.now)
	n.deleting, n.cordoned, n.ready = true, true, false
	if m.outage > 0 {
		m.dryUntil[n.zone] = max(m.dryUntil[n.zone], c.now+time.Duration(c.spotRNG.ExpFloat64()*float64(m.outage)))
	}
	for _, q := range slices.Clone(n.pods) {
		q.ready = false
		c.delete(q)
	}
	zone := slices.Index(p.zones, n.zone)
	if !c.replaced {
		p.sizes[zone]--
	}
	c.after(spotNotice, func() {
		n.paid.Deleted = c.now
		c.traffic.LoseNode(n.name)
		c.gone(n)
		if c.replaced {
			// What the pool was told to have meanwhile decides.
			c.replace(p, zone)
		}
	})
}

// replace boots what a pool lacks in a zone, once there are machines.
func (c *Cluster) replace(p *pool, zone int) {
	have := int32(0)
	for _, n := range c.nodes {
		if n.pool == p && n.zone == p.zones[zone] && !n.deleting {
			have++
		}
	}
	if have >= p.sizes[zone] {
		return
	}
	if err := c.available(p, zone); err != nil {
		c.fails(p, err)
		c.after(spotRetry, func() { c.replace(p, zone) })
		return
	}
	p.failure = nil
	c.boot(p, p.zones[zone], false)
}
