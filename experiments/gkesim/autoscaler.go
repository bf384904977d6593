package gkesim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/container/apiv1/containerpb"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoscalerConfig are the parameters of Cluster Autoscaler that the server
// knows, under the names of its flags and with their defaults (cluster-autoscaler
// FAQ.md and config/autoscaling_options.go). GKE's balanced profile keeps them;
// its optimize-utilization profile removes nodes sooner, which a shorter
// ScaleDownUnneededTime and a higher ScaleDownUtilizationThreshold express.
// Durations are scenario time.
type AutoscalerConfig struct {
	// ScanInterval is the pause between two looks at the cluster. Default 10 s.
	ScanInterval time.Duration
	// ScaleDownDelayAfterAdd is how long after a growth no node is removed.
	// Default 10 min.
	ScaleDownDelayAfterAdd time.Duration
	// ScaleDownDelayAfterFailure is how long after a failed drain no node is
	// removed. Default 3 min.
	ScaleDownDelayAfterFailure time.Duration
	// ScaleDownUnneededTime is how long a node must be unneeded before it is
	// removed, ScaleDownUnreadyTime the same for a node that is not Ready.
	// Default 10 min and 20 min.
	ScaleDownUnneededTime, ScaleDownUnreadyTime time.Duration
	// ScaleDownUtilizationThreshold: nodes whose requests per allocatable, of CPU
	// or of memory, whichever is larger, reach it are needed. Default 0.5.
	ScaleDownUtilizationThreshold float64
	// MaxScaleDownParallelism is the number of empty nodes removed at once,
	// MaxDrainParallelism that of nodes drained at once. Default 10 and 1.
	MaxScaleDownParallelism, MaxDrainParallelism int
	// MaxNodeProvisionTime is how long an instance may take to become a Ready
	// node before it is given up. Default 15 min.
	MaxNodeProvisionTime time.Duration
	// NodeDeleteDelayAfterTaint is the pause between tainting a node and evicting
	// from it. Default 5 s.
	NodeDeleteDelayAfterTaint time.Duration
	// MaxPodEvictionTime is how long evictions that a budget refuses are retried.
	// Default 2 min.
	MaxPodEvictionTime time.Duration
	// MaxGracefulTermination bounds the termination grace of evicted pods.
	// Default 10 min.
	MaxGracefulTermination time.Duration
	// InitialNodeGroupBackoff is how long a group that failed to grow is left
	// alone; doubled at each further failure up to MaxNodeGroupBackoff, forgotten
	// after NodeGroupBackoffReset. Default 5 min, 30 min, 3 h.
	InitialNodeGroupBackoff, MaxNodeGroupBackoff, NodeGroupBackoffReset time.Duration
	// ExpendablePodsPriorityCutoff: pods of a lower priority neither grow the
	// pool nor keep a node. Default −10.
	ExpendablePodsPriorityCutoff int32
}

func (c AutoscalerConfig) withDefaults() AutoscalerConfig {
	def(&c.ScanInterval, 10*time.Second)
	def(&c.ScaleDownDelayAfterAdd, 10*time.Minute)
	def(&c.ScaleDownDelayAfterFailure, 3*time.Minute)
	def(&c.ScaleDownUnneededTime, 10*time.Minute)
	def(&c.ScaleDownUnreadyTime, 20*time.Minute)
	def(&c.ScaleDownUtilizationThreshold, 0.5)
	def(&c.MaxScaleDownParallelism, 10)
	def(&c.MaxDrainParallelism, 1)
	def(&c.MaxNodeProvisionTime, 15*time.Minute)
	def(&c.NodeDeleteDelayAfterTaint, 5*time.Second)
	def(&c.MaxPodEvictionTime, 2*time.Minute)
	def(&c.MaxGracefulTermination, 10*time.Minute)
	def(&c.InitialNodeGroupBackoff, 5*time.Minute)
	def(&c.MaxNodeGroupBackoff, 30*time.Minute)
	def(&c.NodeGroupBackoffReset, 3*time.Hour)
	def(&c.ExpendablePodsPriorityCutoff, -10)
	return c
}

func (c AutoscalerConfig) validate() error {
	var errs []error
	for field, d := range map[string]time.Duration{
		"ScanInterval": c.ScanInterval, "ScaleDownDelayAfterAdd": c.ScaleDownDelayAfterAdd,
		"ScaleDownDelayAfterFailure": c.ScaleDownDelayAfterFailure, "ScaleDownUnneededTime": c.ScaleDownUnneededTime,
		"ScaleDownUnreadyTime": c.ScaleDownUnreadyTime, "MaxNodeProvisionTime": c.MaxNodeProvisionTime,
		"NodeDeleteDelayAfterTaint": c.NodeDeleteDelayAfterTaint, "MaxPodEvictionTime": c.MaxPodEvictionTime,
		"MaxGracefulTermination": c.MaxGracefulTermination, "InitialNodeGroupBackoff": c.InitialNodeGroupBackoff,
		"MaxNodeGroupBackoff": c.MaxNodeGroupBackoff, "NodeGroupBackoffReset": c.NodeGroupBackoffReset,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v, must not be negative", field, d))
		}
	}
	if !(c.ScaleDownUtilizationThreshold >= 0) {
		errs = append(errs, fmt.Errorf("ScaleDownUtilizationThreshold is %v, must not be negative", c.ScaleDownUtilizationThreshold))
	}
	if c.MaxScaleDownParallelism < 0 || c.MaxDrainParallelism < 0 {
		errs = append(errs, errors.New("MaxScaleDownParallelism and MaxDrainParallelism must not be negative"))
	}
	return errors.Join(errs...)
}

// autoscaler is what Cluster Autoscaler remembers between two scans.
type autoscaler struct {
	lastAdd, lastFailure time.Time
	unneeded             map[string]time.Time // node → since when
	drains               map[string]*drain    // by node
}

// world is the cluster as one scan sees it.
type world struct {
	snapshot
	pending    []*corev1.Pod // found no node
	budgets    []policyv1.PodDisruptionBudget
	daemons    []*corev1.Pod // one pod of each DaemonSet
	registered map[string]*corev1.Node
}

// scan is one loop of Cluster Autoscaler.
func (s *Server) scan(ctx context.Context) {
	defer s.after(s.cfg.Autoscaler.ScanInterval, s.scan)
	s.mu.Lock()
	on := slices.ContainsFunc(s.pools, func(p *pool) bool { return p.autoscaling.GetEnabled() })
	if !on {
		clear(s.scaler.unneeded)
	}
	s.mu.Unlock()
	if !on {
		return
	}
	w, err := s.look(ctx)
	if err != nil {
		return // the API server is away: the next scan looks again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUpInstances(w)
	if s.scaleUp(w) {
		return
	}
	s.scaleDown(w)
}

// look reads the world from the API server.
func (s *Server) look(ctx context.Context) (*world, error) {
	cached := metav1.ListOptions{ResourceVersion: "0"} // the API server's cache is fresh enough
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	pods, err := s.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	budgets, err := s.kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("listing budgets: %w", err)
	}
	daemons, err := s.kube.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("listing DaemonSets: %w", err)
	}
	w := &world{budgets: budgets.Items, registered: map[string]*corev1.Node{}}
	for i := range daemons.Items {
		ds := &daemons.Items[i]
		w.daemons = append(w.daemons, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name, Labels: ds.Spec.Template.Labels},
			Spec:       ds.Spec.Template.Spec,
		})
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range nodes.Items {
		node := &nodes.Items[i]
		w.registered[node.Name] = node
		w.nodes = append(w.nodes, newSimNode(node))
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case pod.Spec.NodeName != "":
			if n := w.find(pod.Spec.NodeName); n != nil {
				n.add(pod)
			}
		case unschedulable(pod) && priority(pod) >= s.cfg.Autoscaler.ExpendablePodsPriorityCutoff:
			w.pending = append(w.pending, pod)
		}
	}
	return w, nil
}

// giveUpInstances takes back what was asked for and does not come: instances
// that can't be created, and those that don't become Ready nodes in time. Their
// groups are left alone for a while. s.mu is held.
func (s *Server) giveUpInstances(w *world) {
	now := s.cfg.Clock.Now()
	for _, p := range s.pools {
		if !p.autoscaling.GetEnabled() || p.op != nil {
			continue
		}
		for _, g := range p.groups {
			failed := false
			for _, inst := range slices.Clone(g.instances) {
				node := w.registered[inst.name]
				late := inst.phase != stopping && (node == nil || !ready(node)) && inst.paid != nil && inst.paid.Booted.IsZero() &&
					now.Sub(inst.paid.Requested) > s.real(s.cfg.Autoscaler.MaxNodeProvisionTime)
				if inst.phase == refused || late {
					s.remove(inst)
					failed = true
				}
			}
			if failed {
				s.backOff(g, now)
			}
		}
	}
}

// backOff leaves g alone. s.mu is held.
func (s *Server) backOff(g *group, now time.Time) {
	c := s.cfg.Autoscaler
	if g.backoff == 0 || now.Sub(g.failedAt) > s.real(c.NodeGroupBackoffReset) {
		g.backoff = c.InitialNodeGroupBackoff
	} else if now.After(g.backoffUntil) {
		g.backoff = min(2*g.backoff, c.MaxNodeGroupBackoff)
	}
	g.failedAt, g.backoffUntil = now, now.Add(s.real(g.backoff))
}

// room is how many nodes g may still grow by, slack how many it may shrink by,
// under the bounds of its pool, per zone or in total.
func (g *group) room() int32 {
	a := g.pool.autoscaling
	if a.GetTotalMaxNodeCount() > 0 {
		return max(0, a.GetTotalMaxNodeCount()-g.pool.target())
	}
	return max(0, a.GetMaxNodeCount()-g.target())
}

func (g *group) slack() int32 {
	a := g.pool.autoscaling
	if a.GetTotalMaxNodeCount() > 0 {
		return max(0, g.pool.target()-a.GetTotalMinNodeCount())
	}
	return max(0, g.target()-a.GetMinNodeCount())
}

// target is the target size over all zones.
func (p *pool) target() int32 {
	n := int32(0)
	for _, g := range p.groups {
		n += g.target()
	}
	return n
}

// balanced tells whether growth is spread over the zones of p.
func (p *pool) balanced() bool {
	return p.autoscaling.GetLocationPolicy() != containerpb.NodePoolAutoscaling_ANY
}
