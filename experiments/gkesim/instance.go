package gkesim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/container/apiv1/containerpb"
	"google.golang.org/genproto/googleapis/rpc/code"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
)

// group is a managed instance group: the instances of a pool in one zone.
type group struct {
	pool      *pool
	zone      string
	base      string // of instance names
	name      string
	instances []*instance // in order of creation, those being deleted included
}

type phase int

const (
	refused      phase = iota // creation failed; tried again
	provisioning              // created, its node is not there yet
	running                   // its node registered, or never will
	stopping                  // being deleted
)

// instance is a virtual machine of a group.
type instance struct {
	group   *group
	name    string
	id      uint64
	address string
	phase   phase
	created time.Time // of the entry in the group
	failure *failure  // of the last attempt to create it
	// silent instances run, but their node never registers.
	silent bool
	paid   *Lifetime // nil until creation succeeded
}

// failure is why an instance could not be created.
type failure struct {
	code      containerpb.StatusCondition_Code
	canonical code.Code
	reason    string // Compute Engine's code
	message   string
}

// target is the target size of the group.
func (g *group) target() int32 {
	n := int32(0)
	for _, inst := range g.instances {
		if inst.phase != stopping {
			n++
		}
	}
	return n
}

func (g *group) find(name string) *instance {
	i := slices.IndexFunc(g.instances, func(inst *instance) bool { return inst.name == name })
	if i < 0 {
		return nil
	}
	return g.instances[i]
}

// newInstance adds an instance to g, not yet created. s.mu is held.
func (s *Server) newInstance(g *group) *instance {
	const letters = "bcdfghjklmnpqrstvwxz0123456789"
	name := ""
	for name == "" || s.names[name] {
		suffix := make([]byte, 4)
		for i := range suffix {
			suffix[i] = letters[s.rng.IntN(len(letters))]
		}
		name = g.base + "-" + string(suffix)
	}
	s.names[name] = true
	inst := &instance{group: g, name: name, id: s.nextID(), address: s.nextAddress(), phase: refused, created: s.cfg.Clock.Now()}
	g.instances = append(g.instances, inst)
	return inst
}

// nextAddress hands out the addresses of a subnet. s.mu is held.
func (s *Server) nextAddress() string {
	if s.cfg.NodeAddress != "" {
		return s.cfg.NodeAddress
	}
	s.addresses++
	n := s.addresses + 1 // .0 is the network, .1 the gateway
	return fmt.Sprintf("10.%d.%d.%d", 128+(n>>16)&0x7f, (n>>8)&0xff, n&0xff)
}

// resize brings the target size of g to n. Growing creates instances; shrinking
// takes those that failed first, then those still booting, then any. s.mu is
// held.
func (s *Server) resize(g *group, n int32) (created, removed []*instance) {
	for g.target() < n {
		inst := s.newInstance(g)
		s.attempt(inst)
		created = append(created, inst)
	}
	if excess := int(g.target() - n); excess > 0 {
		var victims []*instance
		for _, inst := range g.instances {
			if inst.phase != stopping {
				victims = append(victims, inst)
			}
		}
		s.rng.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		slices.SortStableFunc(victims, func(a, b *instance) int { return int(a.phase) - int(b.phase) })
		removed = victims[:excess]
		for _, inst := range removed {
			s.remove(inst)
		}
	}
	return created, removed
}

// attempt tries to create inst, and plans its boot or the next attempt. s.mu is
// held.
func (s *Server) attempt(inst *instance) {
	if inst.phase != refused || inst.group.find(inst.name) != inst {
		return
	}
	if inst.failure = s.refusal(inst); inst.failure != nil {
		s.after(s.cfg.RetryInterval, func(context.Context) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.attempt(inst)
		})
		return
	}
	inst.phase = provisioning
	s.recordRequest(inst, s.cfg.Clock.Now())
	delay := s.sample(s.cfg.BootMedian)
	if f := s.takeFault(faultSite{kind: SlowBoot, pool: inst.group.pool.Name, zone: inst.group.zone}); f != nil {
		delay += f.Delay
	}
	inst.silent = s.takeFault(faultSite{kind: NeverRegisters, pool: inst.group.pool.Name, zone: inst.group.zone}) != nil
	s.after(delay, func(ctx context.Context) { s.boot(ctx, inst) })
}

// refusal is why Compute Engine does not create inst now, or nil. s.mu is held.
func (s *Server) refusal(inst *instance) *failure {
	g := inst.group
	site := faultSite{pool: g.pool.Name, zone: g.zone}
	site.kind = Stockout
	if s.takeFault(site) != nil {
		return &failure{
			code: containerpb.StatusCondition_GCE_STOCKOUT, canonical: code.Code_RESOURCE_EXHAUSTED,
			reason: "ZONE_RESOURCE_POOL_EXHAUSTED",
			message: fmt.Sprintf("Instance '%s' creation failed: The zone 'projects/%s/zones/%s' does not have enough resources available to fulfill the request.  Try a different zone, or try again later.",
				inst.name, s.cfg.Project, g.zone),
		}
	}
	limit, used := s.cfg.CPUQuota, int64(0)
	for _, p := range s.pools {
		for _, g := range p.groups {
			for _, other := range g.instances {
				if other.phase != refused {
					used += p.machine.VCPU
				}
			}
		}
	}
	site.kind = Quota
	if s.takeFault(site) != nil {
		limit = max(1, used)
	}
	if limit > 0 && used+g.pool.machine.VCPU > limit {
		return &failure{
			code: containerpb.StatusCondition_GCE_QUOTA_EXCEEDED, canonical: code.Code_RESOURCE_EXHAUSTED,
			reason:  "QUOTA_EXCEEDED",
			message: fmt.Sprintf("Instance '%s' creation failed: Quota 'CPUS' exceeded.  Limit: %d.0 in region %s.", inst.name, limit, region(g.zone)),
		}
	}
	return nil
}

// boot registers the node of inst.
func (s *Server) boot(ctx context.Context, inst *instance) {
	s.mu.Lock()
	due := inst.phase == provisioning
	if due && inst.silent {
		inst.phase = running
		due = false
	}
	s.mu.Unlock()
	if !due {
		return
	}
	if err := s.createNode(ctx, inst); err != nil {
		// The API server is away; the kubelet would go on trying.
		s.after(time.Second, func(ctx context.Context) { s.boot(ctx, inst) })
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if inst.phase == provisioning {
		s.recordBoot(inst, s.cfg.Clock.Now())
	}
}

// remove begins the deletion of inst. s.mu is held.
func (s *Server) remove(inst *instance) {
	switch inst.phase {
	case stopping:
		return
	case refused: // there is nothing to stop
		inst.phase = stopping
		s.forget(inst)
		return
	}
	inst.phase = stopping
	s.after(s.sample(s.cfg.StopMedian), func(ctx context.Context) { s.finish(ctx, inst) })
}

// finish ends the deletion of inst: what the node lifecycle controller does when
// the machine is gone.
func (s *Server) finish(ctx context.Context, inst *instance) {
	err := s.kube.CoreV1().Nodes().Delete(ctx, inst.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.after(time.Second, func(ctx context.Context) { s.finish(ctx, inst) })
		return
	}
	s.mu.Lock()
	inst.paid.Deleted = s.cfg.Clock.Now()
	s.forget(inst)
	s.mu.Unlock()
	s.after(s.cfg.PodGCDelay, func(ctx context.Context) { s.collectPods(ctx, inst.name) })
}

// forget takes inst out of its group. s.mu is held.
func (s *Server) forget(inst *instance) {
	inst.group.instances = slices.DeleteFunc(inst.group.instances, func(other *instance) bool { return other == inst })
}

// collectPods deletes the pods that were bound to a node which is gone.
func (s *Server) collectPods(ctx context.Context, node string) {
	again := func() { s.after(time.Second, func(ctx context.Context) { s.collectPods(ctx, node) }) }
	pods, err := s.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		again()
		return
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != node {
			continue
		}
		err := s.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0),
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			again()
			return
		}
	}
}

// recordRequest begins the paid time of inst. s.mu is held.
func (s *Server) recordRequest(inst *instance, at time.Time) {
	p := inst.group.pool
	inst.paid = &Lifetime{Pool: p.Name, MachineType: p.MachineType, Zone: inst.group.zone, Node: inst.name, Requested: at}
	s.ledger = append(s.ledger, inst.paid)
}

// recordBoot marks inst as registered. s.mu is held.
func (s *Server) recordBoot(inst *instance, at time.Time) {
	inst.phase = running
	inst.paid.Booted = at
}
