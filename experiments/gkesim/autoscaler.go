package gkesim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
)

// AutoscalerConfig are the parameters of Cluster Autoscaler that the server
// knows: those that decide, and those of a drain under the names of its flags.
// What is zero has Cluster Autoscaler's default. Durations are scenario time.
type AutoscalerConfig struct {
	autoscaler.Rules
	// NodeDeleteDelayAfterTaint is the pause between tainting a node and evicting
	// from it. Default 5 s.
	NodeDeleteDelayAfterTaint time.Duration
	// MaxPodEvictionTime is how long evictions that a budget refuses are retried.
	// Default 2 min.
	MaxPodEvictionTime time.Duration
	// MaxGracefulTermination bounds the termination grace of evicted pods.
	// Default 10 min.
	MaxGracefulTermination time.Duration
	// ExpendablePodsPriorityCutoff: pods of a lower priority neither grow the
	// pool nor keep a node. Default −10.
	ExpendablePodsPriorityCutoff int32
}

func (c AutoscalerConfig) withDefaults() AutoscalerConfig {
	c.Rules = c.Rules.WithDefaults()
	def(&c.NodeDeleteDelayAfterTaint, 5*time.Second)
	def(&c.MaxPodEvictionTime, 2*time.Minute)
	def(&c.MaxGracefulTermination, 10*time.Minute)
	def(&c.ExpendablePodsPriorityCutoff, -10)
	return c
}

func (c AutoscalerConfig) validate() error {
	errs := []error{c.Rules.Validate()}
	for field, d := range map[string]time.Duration{
		"NodeDeleteDelayAfterTaint": c.NodeDeleteDelayAfterTaint, "MaxPodEvictionTime": c.MaxPodEvictionTime,
		"MaxGracefulTermination": c.MaxGracefulTermination,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v, must not be negative", field, d))
		}
	}
	return errors.Join(errs...)
}

// world is the cluster as one scan sees it.
type world struct {
	nodes   []*simNode    // sorted by name
	pending []*corev1.Pod // found no node
	budgets []policyv1.PodDisruptionBudget
	daemons []*corev1.Pod // one pod of each DaemonSet
}

// scan is one loop of Cluster Autoscaler.
func (s *Server) scan(ctx context.Context) {
	defer s.after(s.cfg.Autoscaler.ScanInterval, s.scan)
	s.mu.Lock()
	on := slices.ContainsFunc(s.pools, func(p *pool) bool { return p.autoscaling.GetEnabled() })
	if !on {
		s.scaler.Forget()
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
	v := s.view(w)
	d := s.scaler.Scan(s.sinceBegun(s.cfg.Clock.Now()), v.View)
	for _, name := range d.GiveUp {
		s.remove(s.instance(name))
	}
	for _, n := range d.Grow {
		g := v.groups[n]
		s.resize(g, g.target()+1)
	}
	for _, r := range d.Remove {
		var pods []*corev1.Pod
		for _, p := range r.Evict {
			pods = append(pods, v.pods[p])
		}
		s.beginDrain(s.instance(r.Node), pods)
	}
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
	w := &world{budgets: budgets.Items}
	for i := range daemons.Items {
		ds := &daemons.Items[i]
		w.daemons = append(w.daemons, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name, Labels: ds.Spec.Template.Labels},
			Spec:       ds.Spec.Template.Spec,
		})
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range nodes.Items {
		w.nodes = append(w.nodes, newSimNode(&nodes.Items[i]))
	}
	byName := map[string]*simNode{}
	for _, n := range w.nodes {
		byName[n.node.Name] = n
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		case pod.Spec.NodeName != "":
			if n := byName[pod.Spec.NodeName]; n != nil {
				n.add(pod)
			}
		case unschedulable(pod) && priority(pod) >= s.cfg.Autoscaler.ExpendablePodsPriorityCutoff:
			w.pending = append(w.pending, pod)
		}
	}
	return w, nil
}
