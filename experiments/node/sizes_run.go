package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/mash2-io/mash2/experiments/cluster"
)

// sizedRun is one run of -sizes.
type sizedRun struct {
	*realNode
	o          options
	say        func(string, ...any)
	begin      time.Time
	prometheus *cluster.Prometheus
	operator   *daemon // it is killed on purpose
	seen       *sizedSeen
}

// sizing lets mash2 size running pods of a Deployment and of a StatefulSet under load, while
// what may go wrong does.
func (n *realNode) sizing(ctx context.Context, o options, say func(string, ...any)) (sizedSeen, error) {
	out := sizedSeen{Made: time.Now().UTC()}
	var err error
	if out.Versions, err = n.versions(ctx); err != nil {
		return out, err
	}
	say("workloads whose requests were guessed")
	if err := n.deploySized(ctx); err != nil {
		return out, err
	}
	r := &sizedRun{realNode: n, o: o, say: say, seen: &out}
	if err := r.waitPods(ctx, "all pods", everyPod(podReady)); err != nil {
		return out, err
	}
	say("metrics-server, and a Prometheus that knows %v of these workloads", sizedPast)
	if r.prometheus, err = n.startMetrics(ctx, o, strings.NewReader(sizedHistory(time.Now()))); err != nil {
		return out, err
	}
	users, err := n.sizedUsers(ctx, o)
	if err != nil {
		return out, err
	}
	r.begin = time.Now()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	samples := make(chan []sizedSample, 1)
	go func() { samples <- n.watchSized(watched, r.begin) }()
	r.pause(ctx, calm)
	for _, step := range []func(context.Context) error{r.lower, r.files, r.renew, r.slowStart, r.grow, r.kill, r.crowd, r.refuse, r.rollOut, r.crowded, r.back} {
		if err = step(ctx); err != nil {
			break
		}
	}
	// What was seen before a failure says why it failed.
	stop()
	out.Samples = <-samples
	if err := errors.Join(err, n.sizedEvents(ctx, &out)); err != nil {
		return out, err
	}
	if out.K6, out.Latency, err = users.end(r.begin); err != nil {
		return out, err
	}
	return out, out.check()
}

// moment keeps when something was done or seen.
func (r *sizedRun) moment(format string, args ...any) {
	m := moment{Seconds: time.Since(r.begin).Seconds(), What: fmt.Sprintf(format, args...)}
	r.seen.Moments = append(r.seen.Moments, m)
	r.say("%4.0f s: %s", m.Seconds, m.What)
}

func (r *sizedRun) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// until waits for what the run is to come to.
func (r *sizedRun) until(ctx context.Context, what string, ready func(context.Context) error) error {
	daemons := slices.Clone(r.daemons) // others after a restart of the kubelet
	if r.operator != nil {
		daemons = append(daemons, r.operator)
	}
	return waitFor(ctx, 10*time.Minute, what, daemons, ready)
}

// waitPods waits until the pods of every workload are as look wants them.
func (r *sizedRun) waitPods(ctx context.Context, what string, look func(guess, []corev1.Pod) error) error {
	return r.until(ctx, what, func(ctx context.Context) error { return r.sizedPods(ctx, look) })
}

// untilPod waits until a pod, which must stay the same, is as look wants it.
func (r *sizedRun) untilPod(ctx context.Context, pod *corev1.Pod, what string, look func(*corev1.Pod) error) error {
	return r.until(ctx, what, func(ctx context.Context) error {
		is, err := r.client.CoreV1().Pods(sizedSpace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if is.UID != pod.UID || is.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s is gone", pod.Name)
		}
		*pod = *is
		return look(pod)
	})
}

// start starts mash2.
func (r *sizedRun) start(name string) (err error) {
	if r.operator, err = r.startSizing(r.o, r.prometheus.URL, name); err == nil {
		r.moment("mash2 was started%s", map[bool]string{true: " again"}[name != "first"])
	}
	return err
}

// lower lets mash2 make pods smaller, kills the kubelet in the midst, and lets a pod that is
// still to be made smaller hold more than it is to have.
func (r *sizedRun) lower(ctx context.Context) error {
	if err := r.start("first"); err != nil {
		return err
	}
	db := guesses()[1]
	var of []corev1.Pod
	waiting := func() (out []corev1.Pod) {
		for _, p := range of {
			if unsized(db, []corev1.Pod{p}) == nil {
				out = append(out, p)
			}
		}
		return out
	}
	look := func(ctx context.Context) (err error) {
		of, err = r.podsOfGuess(ctx, db)
		return err
	}
	err := r.until(ctx, "the first resize", func(ctx context.Context) error {
		if err := look(ctx); err != nil {
			return err
		}
		if len(waiting()) == len(of) {
			return errors.New("all pods are to be as their template says")
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = r.restartKubelet(ctx, r.o, func() error {
		r.pause(ctx, withoutKubelet)
		return look(ctx)
	})
	if err != nil {
		return err
	}
	left := waiting()
	r.moment("the kubelet was killed as the first pod was to be resized, and started again after %v; %d of %d pods of db are still to be resized",
		withoutKubelet, len(left), len(of))
	if len(left) != 1 {
		return fmt.Errorf("%d pods of db were to be smaller with nobody who makes them so", len(of)-len(left))
	}
	i := slices.IndexFunc(of, func(p corev1.Pod) bool { return p.Name != left[0].Name })
	holds := of[i].Spec.Containers[0].Resources.Limits.Memory().Value() + more
	if err := hold(ctx, left[0], holds); err != nil {
		return err
	}
	r.moment("the other one holds %d MiB, %d more than the limit of the first", holds>>20, more>>20)
	if err := r.waitPods(ctx, "all pods to be smaller", smaller); err != nil {
		return err
	}
	r.moment("all pods had been resized in place")
	r.seen.Planned, err = r.plannedSizes(ctx)
	return errors.Join(err, hold(ctx, left[0], 0))
}

// files lets a pod read a file again and again: the kernel keeps it as if the pod needed it.
func (r *sizedRun) files(ctx context.Context) error {
	g := guesses()[3]
	pods, err := r.podsOfGuess(ctx, g)
	if err != nil {
		return err
	}
	pod := &pods[0]
	for range 3 {
		if err := tell(ctx, *pod, "X-Read-File", "1"); err != nil {
			return err
		}
	}
	var used *resource.Quantity
	err = r.until(ctx, "the working set", func(ctx context.Context) (err error) {
		if used, err = r.workingSet(ctx, pod.Name); err == nil && used.Value() < written/2 {
			err = fmt.Errorf("pod %s takes %s", pod.Name, used)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.moment("the pod of files has read its file three times, and has a working set of %d MiB by metrics.k8s.io", used.Value()>>20)
	r.pause(ctx, calm)
	return r.untilPod(ctx, pod, "the size of the pod that reads", func(p *corev1.Pod) error {
		if is := p.Spec.Containers[0].Resources.Limits.Memory(); !is.Equal(*g.Limits.Memory()) {
			return fmt.Errorf("its memory limit is to be %s", is)
		}
		return nil
	})
}

// workingSet of a pod by metrics.k8s.io.
func (r *sizedRun) workingSet(ctx context.Context, pod string) (*resource.Quantity, error) {
	data, err := r.client.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces", sizedSpace, "pods", pod).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var m metricsv1beta1.PodMetrics
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if len(m.Containers) == 0 {
		return nil, fmt.Errorf("nothing is known of pod %s", pod)
	}
	return m.Containers[0].Usage.Memory(), nil
}

// renew kills mash2, deletes pods, and sees new ones of the planned size.
func (r *sizedRun) renew(ctx context.Context) error {
	// Pods that are deleted are not there to be counted later.
	if restarts, err := r.sizedRestarts(ctx); err != nil || restarts > 0 {
		return errors.Join(err, fmt.Errorf("%d restarts of containers", restarts))
	}
	_ = r.operator.cmd.Process.Kill()
	<-r.operator.done
	r.operator = nil
	r.moment("mash2 was killed, and a pod of web and that of slow deleted")
	for _, name := range []string{"web", "slow"} {
		if err := r.renewSized(ctx, name); err != nil {
			return err
		}
	}
	err := r.waitPods(ctx, "new pods of the planned size without mash2", func(g guess, pods []corev1.Pod) error {
		return errors.Join(smallerSpec(g, pods), when(g.Users, everyPod(podReady))(g, pods))
	})
	if err != nil {
		return err
	}
	r.moment("the new pods have the planned size, that of web is Ready")
	r.pause(ctx, calm)
	return nil
}

// slowPod is the only pod of the workload that starts slowly.
func (r *sizedRun) slowPod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := r.podsOfGuess(ctx, guess{Name: "slow"})
	if err != nil || len(pods) == 0 {
		return nil, errors.Join(err, errors.New("slow has no pod"))
	}
	return &pods[0], nil
}

// slowStart starts mash2 again, which finds a pod that starts slowly under its lowered limit.
func (r *sizedRun) slowStart(ctx context.Context) error {
	if err := r.start("second"); err != nil {
		return err
	}
	if err := r.waitPods(ctx, "the slow pod's CPU", asWritten); err != nil {
		return err
	}
	r.moment("the pod of slow, which is not Ready, has the CPU that its author wrote")
	if err := r.waitPods(ctx, "the slow pod", everyPod(podReady)); err != nil {
		return err
	}
	r.moment("the pod of slow is Ready")
	r.pause(ctx, calm)
	var err error
	r.seen.Restarts, err = r.sizedRestarts(ctx)
	return err
}

// grow lets the only pod of a workload take more memory little by little, beyond the limit that
// mash2 left it.
func (r *sizedRun) grow(ctx context.Context) error {
	pod, err := r.slowPod(ctx)
	if err != nil {
		return err
	}
	before, restarts := *pod.Status.ContainerStatuses[0].Resources.Limits.Memory(), pod.Status.ContainerStatuses[0].RestartCount
	const step, every = 1 << 20, 15 * time.Second
	holds := before.Value() / 2
	for ; holds <= before.Value()+2*step; holds += step {
		if err := hold(ctx, *pod, holds); err != nil {
			return fmt.Errorf("pod %s with %d MiB: %w", pod.Name, holds>>20, err)
		}
		r.pause(ctx, every)
	}
	return r.untilPod(ctx, pod, "the pod that grew", func(p *corev1.Pod) error {
		s := p.Status.ContainerStatuses[0]
		if s.RestartCount != restarts {
			return errors.New("it was restarted")
		}
		r.moment("the only pod of slow has taken %d MiB, one more every %v; its limit, which was %s, is %s", holds>>20, every, &before, s.Resources.Limits.Memory())
		return hold(ctx, *p, 0)
	})
}

// kill lets the only pod of a workload need more memory than mash2 left it, until the kernel
// kills it, and returns when it holds as much without being killed again.
func (r *sizedRun) kill(ctx context.Context) error {
	pod, err := r.slowPod(ctx)
	if err != nil {
		return err
	}
	before := pod.Status.ContainerStatuses[0].Resources.Limits.Memory()
	holds := before.Value() + more
	if hold(ctx, *pod, holds) == nil {
		return fmt.Errorf("pod %s holds %d MiB with a limit of %s", pod.Name, holds>>20, before)
	}
	err = r.untilPod(ctx, pod, "the kill", func(p *corev1.Pod) error {
		if last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.Reason != "OOMKilled" {
			return fmt.Errorf("its last end is %+v", last)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.moment("the only pod of slow held %d MiB, more than its limit of %s, and was killed", holds>>20, before)
	err = r.untilPod(ctx, pod, "more memory", func(p *corev1.Pod) error {
		if is := p.Status.ContainerStatuses[0].Resources; is == nil || is.Limits.Memory().Cmp(*before) <= 0 {
			return errors.New("its limit is as before")
		}
		return nil
	})
	if err != nil {
		return err
	}
	after := pod.Status.ContainerStatuses[0].Resources.Limits.Memory()
	r.moment("its limit is %s, in place", after)
	if err := r.untilPod(ctx, pod, "the pod that was killed", podReady); err != nil {
		return err
	}
	if err := hold(ctx, *pod, holds); err != nil {
		return fmt.Errorf("with %s: %w", after, err)
	}
	r.moment("it is Ready and holds as much")
	r.pause(ctx, calm) // one kill raises it once
	return r.untilPod(ctx, pod, "the pod's size", func(p *corev1.Pod) error {
		if is := p.Status.ContainerStatuses[0].Resources.Limits.Memory(); !is.Equal(*after) {
			return fmt.Errorf("a minute later its limit is %s, not %s", is, after)
		}
		return nil
	})
}
