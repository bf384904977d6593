package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kube"
)

func testEvict(b *bed, ns string) {
	pod := b.guardedPod(ns)
	evict := api.EvictPod{Pod: api.Key{Namespace: ns, Name: "a"}, UID: string(pod.UID)}
	if err := b.actuator.Apply(b.Context(), evict); !errors.Is(err, kube.ErrDisruptionBudget) {
		b.Fatalf("error = %v, want ErrDisruptionBudget", err)
	}
	if err := b.client.PolicyV1().PodDisruptionBudgets(ns).Delete(b.Context(), "web", metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.eventually("the pod to be evicted", func(ctx context.Context) (bool, error) {
		err := b.actuator.Apply(ctx, evict)
		if errors.Is(err, kube.ErrDisruptionBudget) {
			return false, nil
		}
		return err == nil, err
	})
	pod, err := b.client.CoreV1().Pods(ns).Get(b.Context(), "a", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && pod.DeletionTimestamp == nil {
		b.Errorf("the pod lives on: %v", err)
	}
	b.apply(evict)
}

func testEvictionBackoff(b *bed, ns string, cfg *rest.Config) {
	now := clocktesting.NewFakeClock(time.Unix(0, 0))
	actuator, err := kube.New(cfg, kube.Options{EvictionBackoff: 10 * time.Second, Clock: now})
	if err != nil {
		b.Fatal(err)
	}
	pod := b.guardedPod(ns)
	evict := api.EvictPod{Pod: api.Key{Namespace: ns, Name: "a"}, UID: string(pod.UID)}
	var asked []time.Duration
	for range 160 {
		err := actuator.Apply(b.Context(), evict)
		var left *api.NotTriedError
		switch {
		case errors.Is(err, kube.ErrDisruptionBudget):
			asked = append(asked, now.Since(time.Unix(0, 0)))
		case !errors.As(err, &left):
			b.Fatalf("error = %v", err)
		}
		now.Step(5 * time.Second)
	}
	if want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second, 630 * time.Second}; !slices.Equal(asked, want) {
		b.Errorf("asked for after %v, want %v", asked, want)
	}
	// Another pod is not kept waiting, nor this one when it is its turn.
	if err := b.client.PolicyV1().PodDisruptionBudgets(ns).Delete(b.Context(), "web", metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	other := b.pod(ns, "b")
	now.Step(5 * time.Minute)
	for _, e := range []api.EvictPod{{Pod: api.Key{Namespace: ns, Name: "b"}, UID: string(other.UID)}, evict} {
		b.eventually("the eviction", func(ctx context.Context) (bool, error) {
			err := actuator.Apply(ctx, e)
			if errors.Is(err, kube.ErrDisruptionBudget) { // deleted, and not yet everywhere
				now.Step(10 * time.Minute)
				return false, nil
			}
			return err == nil, err
		})
	}
}

// Where others write a budget at the same time, the API server gives up after some tries and
// answers with a conflict, as it does where the UID is another pod's.
func testEvictionConflict(b *bed, ns string, cfg *rest.Config) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return conflicts{next} })
	actuator, err := kube.New(cfg, kube.Options{})
	if err != nil {
		b.Fatal(err)
	}
	pod := b.pod(ns, "a")
	evict := api.EvictPod{Pod: api.Key{Namespace: ns, Name: "a"}, UID: string(pod.UID)}
	if err := actuator.Apply(b.Context(), evict); !apierrors.IsConflict(err) {
		b.Errorf("the pod is there, and the error is %v", err)
	}
	if err := b.client.CoreV1().Pods(ns).Delete(b.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		b.Fatal(err)
	}
	if err := actuator.Apply(b.Context(), evict); err != nil {
		b.Errorf("the pod is gone: %v", err)
	}
	b.pod(ns, "a")
	if err := actuator.Apply(b.Context(), evict); err != nil {
		b.Errorf("another pod has its name: %v", err)
	}
}

// conflicts answers evictions as the API server does when it gives up.
type conflicts struct{ http.RoundTripper }

func (c conflicts) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/eviction") {
		return c.RoundTripper.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusConflict)
	status := apierrors.NewConflict(policyv1.Resource("poddisruptionbudgets"), "web", errors.New("the object has been modified")).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	if err := json.NewEncoder(w).Encode(status); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// A budget that lets what is not Ready always go is asked for just that.
func testEvictUnhealthy(b *bed, ns string) {
	pod := b.guardedPod(ns)
	status := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	if _, err := b.client.CoreV1().Pods(ns).Patch(b.Context(), "a", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		b.Fatal(err)
	}
	// What isn't Ready may go while the status still counts it as healthy.
	b.eventually("the budget to count it no more", func(ctx context.Context) (bool, error) {
		pdb, err := b.client.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && pdb.Status.CurrentHealthy == 0, err
	})
	evict := api.EvictPod{Pod: api.Key{Namespace: ns, Name: "a"}, UID: string(pod.UID)}
	if err := b.actuator.Apply(b.Context(), evict); !errors.Is(err, kube.ErrDisruptionBudget) {
		b.Fatalf("the only pod, not Ready, is evicted under a budget that wants one healthy: %v", err)
	}
	policy := []byte(`{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}`)
	if _, err := b.client.PolicyV1().PodDisruptionBudgets(ns).Patch(b.Context(), "web", types.MergePatchType, policy, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	b.eventually("the eviction", func(ctx context.Context) (bool, error) {
		err := b.actuator.Apply(ctx, evict)
		if errors.Is(err, kube.ErrDisruptionBudget) { // written, and not yet seen
			return false, nil
		}
		return err == nil, err
	})
}

// guardedPod is Ready pod a of a namespace, which a budget does not let go.
func (b *bed) guardedPod(ns string) *corev1.Pod {
	b.Helper()
	_, err := b.client.PolicyV1().PodDisruptionBudgets(ns).Create(b.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	pod := b.pod(ns, "a")
	status := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	if _, err := b.client.CoreV1().Pods(ns).Patch(b.Context(), "a", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		b.Fatal(err)
	}
	// The budget is honoured once its controller has seen the pod.
	b.eventually("the budget to count the pod", func(ctx context.Context) (bool, error) {
		pdb, err := b.client.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && pdb.Status.CurrentHealthy == 1, err
	})
	return pod
}
