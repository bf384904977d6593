package gkesim

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// spotNotice is what GKE's kubelets have of Compute Engine's notice of half a minute before a
// spot machine is stopped.
const spotNotice = 25 * time.Second

// Interrupt takes a spot machine away, by the name of its node: its pods are ended gracefully,
// DaemonSets' aside, which is what kubelets' graceful shutdown comes to for controllers; then
// machine and node are gone, and the instance group makes another when there is one. The
// node stays Ready until then. An error says that there is no such spot machine running.
func (s *Server) Interrupt(ctx context.Context, node string) error {
	s.mu.Lock()
	var inst *instance
	for _, p := range s.pools {
		for _, g := range p.groups {
			if found := g.find(node); found != nil && p.Spot && found.phase == running {
				inst = found
			}
		}
	}
	if inst == nil {
		s.mu.Unlock()
		return fmt.Errorf("%s is no spot machine that runs", node)
	}
	inst.phase = stopping
	// The group's target size stays as it is.
	next := s.newInstance(inst.group)
	s.after(spotNotice, func(ctx context.Context) {
		s.finish(ctx, inst)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.attempt(next)
	})
	s.mu.Unlock()

	pods, err := s.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return fmt.Errorf("listing the pods of %s: %w", node, err)
	}
	for _, pod := range pods.Items {
		if owner := metav1.GetControllerOf(&pod); owner == nil || owner.Kind == "DaemonSet" || pod.DeletionTimestamp != nil {
			continue
		}
		if err := s.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("ending the pods of %s: %w", node, err)
		}
	}
	return nil
}
