package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// fillerName is a pod that takes the room of others.
const fillerName = "filler"

// fill puts a pod on the node that leaves less CPU than another one wants, whom the node has not
// given it yet. The scheduler, who knows of both, is not asked.
func (r *sizedRun) fill(ctx context.Context, wanted int64) error {
	node, err := r.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := r.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
	if err != nil {
		return err
	}
	free := node.Status.Allocatable.Cpu().MilliValue()
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			if s.Resources != nil {
				free -= s.Resources.Requests.Cpu().MilliValue()
			}
		}
	}
	spec := podSpec(corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(free-wanted/2, resource.DecimalSI)}, nil)
	spec.NodeName = nodeName
	_, err = r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fillerName}, Spec: spec}, metav1.CreateOptions{})
	return err
}

// resizeIs tells whether a resize is pending for this reason.
func resizeIs(reason string) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("no resize of %s is %s", p.Name, reason)
	}
}

// crowd has mash2 want more CPU for db while the kubelet is down, and puts a pod where that would
// be. The kubelet has no room then, until that pod goes.
func (r *sizedRun) crowd(ctx context.Context) error {
	least := resource.MustParse("120m")
	var pods []corev1.Pod
	look := func(each func(*corev1.Pod) error) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			if pods, err = r.podsOfGuess(ctx, guesses()[1]); err != nil {
				return err
			}
			return everyPod(each)(guess{}, pods)
		}
	}
	err := r.restartKubelet(ctx, r.o, func() error {
		if err := r.atLeast(ctx, least); err != nil {
			return err
		}
		err := r.until(ctx, "mash2 to want more CPU for db", look(func(p *corev1.Pod) error {
			if is := p.Spec.Containers[0].Resources.Requests.Cpu(); is.Cmp(least) < 0 {
				return fmt.Errorf("pod %s is to have %s", p.Name, is)
			}
			return nil
		}))
		if err != nil {
			return err
		}
		return r.fill(ctx, least.MilliValue()-pods[0].Status.ContainerStatuses[0].Resources.Requests.Cpu().MilliValue())
	})
	if err != nil {
		return err
	}
	r.moment("while the kubelet was down, db was to have %s of CPU at least, and another pod took the room for that", &least)
	deferred := look(resizeIs(corev1.PodReasonDeferred))
	if err := r.until(ctx, "the kubelet to find no room", deferred); err != nil {
		return err
	}
	r.moment("the kubelet says of each pod of db that there is no room now")
	was := slices.Clone(pods)
	r.pause(ctx, calm)
	if err := deferred(ctx); err != nil {
		return err
	}
	if err := same(was, pods); err != nil {
		return err
	}
	if err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, fillerName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	r.moment("a minute later nothing was asked for again, and nobody evicted; the other pod went by itself")
	if err := r.until(ctx, "db's sizes", look(has(least))); err != nil {
		return err
	}
	r.moment("the pods of db have it")
	return nil
}

// atLeast has mash2 request so much CPU for db.
func (r *sizedRun) atLeast(ctx context.Context, cpu resource.Quantity) error {
	var w v1alpha1.ManagedWorkload
	if err := r.typed.Get(ctx, client.ObjectKey{Namespace: sizedSpace, Name: guesses()[1].Name}, &w); err != nil {
		return err
	}
	before := w.DeepCopy()
	w.Spec.Sizing.Containers = []v1alpha1.ContainerSizing{{Name: "web", MinAllowed: v1alpha1.ContainerAmounts{CPU: &cpu}}}
	return r.typed.Patch(ctx, &w, client.MergeFrom(before))
}

// has tells whether a Ready pod is given so much CPU.
func has(least resource.Quantity) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		if is := p.Status.ContainerStatuses[0].Resources; is == nil || is.Requests.Cpu().Cmp(least) < 0 {
			return errors.New("pod " + p.Name + " has less")
		}
		return podReady(p)
	}
}

// same is an error where pods are others, or were written to.
func same(was, is []corev1.Pod) error {
	for i := range was {
		if i >= len(is) || is[i].UID != was[i].UID || is[i].Generation != was[i].Generation {
			return fmt.Errorf("pod %s is another one, or was asked for again", was[i].Name)
		}
	}
	return nil
}

// refuse restarts the kubelet with a CPU manager that lets no Guaranteed pod be resized, has
// mash2 want that, and then lets it.
func (r *sizedRun) refuse(ctx context.Context) error {
	if err := r.restartKubelet(ctx, r.o, func() error { return setCPUManager(r.o, cpuManagerStatic) }); err != nil {
		return err
	}
	db := guesses()[1]
	least := resource.MustParse("150m")
	if err := r.atLeast(ctx, least); err != nil {
		return err
	}
	r.moment("the kubelet was restarted with the static CPU manager, and db is to have %s of CPU at least", &least)
	var pods []corev1.Pod
	refused := func(ctx context.Context) (err error) {
		if pods, err = r.podsOfGuess(ctx, db); err != nil {
			return err
		}
		return everyPod(resizeIs(corev1.PodReasonInfeasible))(db, pods)
	}
	if err := r.until(ctx, "the kubelet to refuse db's sizes", refused); err != nil {
		return err
	}
	r.moment("the kubelet says of each of its pods that this will never be")
	was := slices.Clone(pods)
	r.pause(ctx, calm)
	if err := refused(ctx); err != nil {
		return err
	}
	if err := same(was, pods); err != nil {
		return err
	}
	r.moment("a minute later nothing was asked for again, and nobody evicted")
	if err := r.restartKubelet(ctx, r.o, func() error { return setCPUManager(r.o, cpuManagerNone) }); err != nil {
		return err
	}
	r.moment("the kubelet was restarted without that CPU manager")
	err := r.until(ctx, "db's sizes", func(ctx context.Context) (err error) {
		if pods, err = r.podsOfGuess(ctx, db); err != nil {
			return err
		}
		return everyPod(has(least))(db, pods)
	})
	if err != nil {
		return err
	}
	r.moment("the pods of db have it")
	r.pause(ctx, calm)
	return nil
}

// rollOut lets db have a version that needs more memory to start than its pods were left, and less than
// its author wrote. A StatefulSet's rollout waits for its first pod for ever.
func (r *sizedRun) rollOut(ctx context.Context) error {
	db := guesses()[1]
	object := metav1.ObjectMeta{Namespace: sizedSpace, Name: db.Name}
	pods, err := r.podsOfGuess(ctx, db)
	if err != nil {
		return err
	}
	limit, small := db.Limits.Memory(), pods[0].Spec.Containers[0].Resources.Limits.Memory()
	if small.Cmp(*limit) >= 0 {
		return fmt.Errorf("db's pods have a limit of %s", small)
	}
	holds := (limit.Value() + small.Value()) / 2
	patch := fmt.Sprintf(`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--memory-bytes=%d"}]`, holds)
	set, err := r.client.AppsV1().StatefulSets(sizedSpace).Patch(ctx, object.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	r.moment("db is rolled out with a version that holds %d MiB from its start; its pods have a limit of %s, its author's is %s", holds>>20, small, limit)
	kills, seen := int32(0), false
	err = r.until(ctx, "the rollout of db", func(ctx context.Context) error {
		pods, err := r.podsOfGuess(ctx, db)
		if err != nil {
			return err
		}
		for _, p := range pods {
			for _, s := range p.Status.ContainerStatuses {
				if last := s.LastTerminationState.Terminated; last == nil || last.Reason != "OOMKilled" {
					continue
				}
				if !seen {
					r.moment("%s was killed with a limit of %s", p.Name, s.Resources.Limits.Memory())
				}
				kills, seen = max(kills, s.RestartCount), true
			}
		}
		is, err := r.client.AppsV1().StatefulSets(sizedSpace).Get(ctx, object.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := is.Status; s.ObservedGeneration < set.Generation || s.CurrentRevision != s.UpdateRevision || s.ReadyReplicas < s.Replicas {
			return fmt.Errorf("%d of %d replicas are of the new version, %d Ready", s.UpdatedReplicas, s.Replicas, s.ReadyReplicas)
		}
		return everyPod(func(p *corev1.Pod) error {
			if has := p.Status.ContainerStatuses[0].Resources.Limits.Memory(); has.Cmp(*limit) < 0 {
				return fmt.Errorf("pod %s has a limit of %s", p.Name, has)
			}
			return nil
		})(db, pods)
	})
	if err != nil {
		return err
	}
	r.moment("all pods of db are of the new version and Ready, with the memory that its author wrote; restarts of one pod: %d", kills)
	r.pause(ctx, calm)
	return nil
}

// crowded has the kubelet say that the node is short of memory, for which all pods there get what was
// written, and then no longer.
func (r *sizedRun) crowded(ctx context.Context) error {
	short := func(want corev1.ConditionStatus) func(context.Context) error {
		return func(ctx context.Context) error {
			node, err := r.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeMemoryPressure && c.Status == want {
					return nil
				}
			}
			return fmt.Errorf("%s is not %s", corev1.NodeMemoryPressure, want)
		}
	}
	restart := func(is bool, want corev1.ConditionStatus) error {
		if err := r.restartKubelet(ctx, r.o, func() error { return setShort(r.o, is) }); err != nil {
			return err
		}
		return r.until(ctx, "the node's condition", short(want))
	}
	if err := restart(true, corev1.ConditionTrue); err != nil {
		return err
	}
	r.moment("the kubelet says that the node is short of memory")
	written := func(g guess, pods []corev1.Pod) error {
		return everyPod(func(p *corev1.Pod) error {
			if is := p.Status.ContainerStatuses[0].Resources; is == nil || is.Requests.Memory().Cmp(*g.Requests.Memory()) < 0 {
				return fmt.Errorf("pod %s has less memory than its author wrote", p.Name)
			}
			return nil
		})(g, pods)
	}
	if err := r.waitPods(ctx, "memory as written", written); err != nil {
		return err
	}
	r.moment("all pods there have at least the memory that their authors wrote")
	if err := restart(false, corev1.ConditionFalse); err != nil {
		return err
	}
	r.pause(ctx, calm)
	if err := r.sizedPods(ctx, written); err != nil {
		return err
	}
	r.moment("it no longer does; a minute later they still have it")
	return nil
}

// back turns sizing off, after which nobody raises what pods have less of than their author wrote.
func (r *sizedRun) back(ctx context.Context) error {
	restarts, err := r.sizedRestarts(ctx)
	if err != nil {
		return err
	}
	for _, g := range guesses() {
		var w v1alpha1.ManagedWorkload
		if err := r.typed.Get(ctx, client.ObjectKey{Namespace: sizedSpace, Name: g.Name}, &w); err != nil {
			return err
		}
		before := w.DeepCopy()
		w.Spec.Sizing.Mode = v1alpha1.SizingOff
		if err := r.typed.Patch(ctx, &w, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	r.moment("sizing was turned off for all")
	if err := r.waitPods(ctx, "pods as written", noLess); err != nil {
		return err
	}
	is, err := r.sizedRestarts(ctx)
	if err == nil && is != restarts {
		err = fmt.Errorf("%d containers were restarted as they got back what was written", is-restarts)
	}
	if err != nil {
		return err
	}
	r.moment("no running pod has less than its author wrote, by its kubelet, and none was restarted for it")
	r.pause(ctx, calm)
	return nil
}
