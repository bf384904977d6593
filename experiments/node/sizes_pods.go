package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sizedPods looks at the pods of each workload that are not being deleted.
func (n *realNode) sizedPods(ctx context.Context, look func(guess, []corev1.Pod) error) error {
	for _, g := range guesses() {
		pods, err := n.podsOfGuess(ctx, g)
		if err == nil && len(pods) < int(g.Replicas) {
			err = fmt.Errorf("%s has %d pods", g.Name, len(pods))
		}
		if err == nil {
			err = look(g, pods)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *realNode) podsOfGuess(ctx context.Context, g guess) ([]corev1.Pod, error) {
	list, err := n.client.CoreV1().Pods(sizedSpace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + g.Name})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

func everyPod(look func(*corev1.Pod) error) func(guess, []corev1.Pod) error {
	return func(_ guess, pods []corev1.Pod) error {
		for i := range pods {
			if err := look(&pods[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

func when(is bool, look func(guess, []corev1.Pod) error) func(guess, []corev1.Pod) error {
	if is {
		return look
	}
	return func(guess, []corev1.Pod) error { return nil }
}

// smaller says which pod's kubelet has not given it less than its template says; of memory less
// than it can.
func smaller(g guess, pods []corev1.Pod) error {
	for _, p := range pods {
		s := p.Status.ContainerStatuses
		if len(s) == 0 || s[0].Resources == nil || !g.less(s[0].Resources.Requests) {
			return fmt.Errorf("pod %s has the size of its template", p.Name)
		}
	}
	return nil
}

// less reports whether a pod requests less than its template, of memory where no files keep it.
func (g guess) less(is corev1.ResourceList) bool {
	cpu, memory := is.Cpu().Cmp(*g.Requests.Cpu()), is.Memory().Cmp(*g.Requests.Memory())
	return cpu < 0 && (memory < 0 || g.Files && memory == 0)
}

// unsized says which pod is to be smaller than its template says.
func unsized(g guess, pods []corev1.Pod) error {
	for _, p := range pods {
		if p.Spec.Containers[0].Resources.Requests.Cpu().Cmp(*g.Requests.Cpu()) < 0 {
			return fmt.Errorf("pod %s is to be smaller", p.Name)
		}
	}
	return nil
}

// asWritten says which pod that starts slowly has not the CPU that its author wrote.
func asWritten(g guess, pods []corev1.Pod) error {
	for _, p := range pods {
		if s := p.Status.ContainerStatuses; g.Start > 0 && (len(s) == 0 || s[0].Resources == nil || !s[0].Resources.Limits.Cpu().Equal(*g.Limits.Cpu())) {
			return fmt.Errorf("pod %s has less CPU than its author wrote", p.Name)
		}
	}
	return nil
}

// noLess says which pod's kubelet gives it less than its author wrote.
func noLess(g guess, pods []corev1.Pod) error {
	for _, p := range pods {
		s := p.Status.ContainerStatuses
		if len(s) == 0 || s[0].Resources == nil {
			return fmt.Errorf("pod %s has no status", p.Name)
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			for _, amounts := range [][2]corev1.ResourceList{{s[0].Resources.Requests, g.Requests}, {s[0].Resources.Limits, g.Limits}} {
				if is, written := amounts[0][name], amounts[1][name]; is.Cmp(written) < 0 {
					return fmt.Errorf("pod %s has %s of %s, its author wrote %s", p.Name, &is, name, &written)
				}
			}
		}
	}
	return nil
}

// smallerSpec is smaller for what is asked of the kubelet.
func smallerSpec(g guess, pods []corev1.Pod) error {
	for _, p := range pods {
		if !g.less(p.Spec.Containers[0].Resources.Requests) {
			return fmt.Errorf("pod %s was made as its template says", p.Name)
		}
	}
	return nil
}

// renewSized deletes a pod of a workload.
func (n *realNode) renewSized(ctx context.Context, name string) error {
	pods, err := n.podsOfGuess(ctx, guess{Name: name})
	if err != nil {
		return err
	}
	return n.client.CoreV1().Pods(sizedSpace).Delete(ctx, pods[0].Name, metav1.DeleteOptions{})
}

// sizedRestarts of all containers.
func (n *realNode) sizedRestarts(ctx context.Context) (restarts int32, err error) {
	err = n.sizedPods(ctx, func(_ guess, pods []corev1.Pod) error {
		for _, p := range pods {
			restarts += p.Status.ContainerStatuses[0].RestartCount
		}
		return nil
	})
	return restarts, err
}
