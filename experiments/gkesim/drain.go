package gkesim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// drain is the removal of one node by the autoscaler: taint, evict, wait for the
// pods to end, delete the instance.
type drain struct {
	inst    *instance
	pods    []*leaver
	started time.Time     // of the evictions
	grace   time.Duration // the longest of the pods', on the clock
}

// leaver is a pod that has to be gone before the node goes.
type leaver struct {
	*corev1.Pod
	grace         int64 // seconds
	evicted, gone bool
}

const (
	// drainPoll and evictionRetry are Cluster Autoscaler's: how often it looks
	// whether pods are gone, and how long it waits after a refused eviction.
	drainPoll     = 5 * time.Second
	evictionRetry = 10 * time.Second
	// evictionHeadroom is how long beyond their grace pods may take to end.
	evictionHeadroom = 30 * time.Second
)

// beginDrain starts the removal of the node of inst, after that of pods. s.mu is
// held.
func (s *Server) beginDrain(inst *instance, pods []*corev1.Pod) {
	d, now := &drain{inst: inst}, s.cfg.Clock.Now()
	longest := int64(s.real(s.cfg.Autoscaler.MaxGracefulTermination) / time.Second)
	for _, pod := range pods {
		grace := min(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds), longest)
		d.pods = append(d.pods, &leaver{Pod: pod, grace: grace})
		d.grace = max(d.grace, time.Duration(grace)*time.Second)
	}
	s.after(0, func(ctx context.Context) {
		if err := s.taint(ctx, d.inst.name, now); err != nil {
			s.endDrain(ctx, d, false)
			return
		}
		if len(d.pods) == 0 {
			s.endDrain(ctx, d, true)
			return
		}
		s.after(s.cfg.Autoscaler.NodeDeleteDelayAfterTaint, func(ctx context.Context) {
			d.started = s.cfg.Clock.Now()
			s.drainStep(ctx, d)
		})
	})
}

// drainStep evicts what is not evicted yet, and ends the drain when all is gone
// or it takes too long.
func (s *Server) drainStep(ctx context.Context, d *drain) {
	c := s.cfg.Autoscaler
	spent := s.cfg.Clock.Now().Sub(d.started)
	pause, refused, left := drainPoll, false, 0
	for _, pod := range d.pods {
		if !pod.evicted {
			err := s.evict(ctx, pod)
			pod.evicted = err == nil
			pod.gone = apierrors.IsNotFound(err) || apierrors.IsConflict(err)
		}
		if !pod.gone {
			current, err := s.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			pod.gone = apierrors.IsNotFound(err) || err == nil && current.UID != pod.UID
		}
		if pod.gone {
			pod.evicted = true
			continue
		}
		left++
		if !pod.evicted {
			refused, pause = true, evictionRetry
		}
	}
	limit := s.real(c.MaxPodEvictionTime)
	if !refused {
		limit += d.grace + s.real(evictionHeadroom)
	}
	switch {
	case left == 0:
		s.endDrain(ctx, d, true)
	case spent >= limit:
		s.endDrain(ctx, d, false)
	default:
		s.after(pause, func(ctx context.Context) { s.drainStep(ctx, d) })
	}
}

// evict asks for the eviction of pod.
func (s *Server) evict(ctx context.Context, pod *leaver) error {
	return s.kube.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: &pod.grace,
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		},
	})
}

// endDrain deletes the instance, or gives the node back.
func (s *Server) endDrain(ctx context.Context, d *drain, ok bool) {
	if !ok {
		// If the API server is away the taint stays, as Cluster Autoscaler's
		// would until its next start.
		_ = s.untaint(ctx, d.inst.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scaler.RemovalEnded(s.sinceBegun(s.cfg.Clock.Now()), d.inst.name, ok)
	if ok {
		s.remove(d.inst)
	}
}

// taint keeps the scheduler off a node that is about to be removed.
func (s *Server) taint(ctx context.Context, name string, now time.Time) error {
	return s.editTaints(ctx, name, func(taints []corev1.Taint) []corev1.Taint {
		return append(taints, corev1.Taint{
			Key: taintToBeDeleted, Value: strconv.FormatInt(now.Unix(), 10), Effect: corev1.TaintEffectNoSchedule,
		})
	})
}

func (s *Server) untaint(ctx context.Context, name string) error {
	return s.editTaints(ctx, name, func(taints []corev1.Taint) []corev1.Taint { return taints })
}

// editTaints rewrites the taints of a node; edit gets them without the one of
// the autoscaler.
func (s *Server) editTaints(ctx context.Context, name string, edit func([]corev1.Taint) []corev1.Taint) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = edit(slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintToBeDeleted }))
		_, err = s.kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("tainting node %s: %w", name, err)
	}
	return nil
}

// splitList splits a comma-separated annotation.
func splitList(value string) []string {
	var out []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
