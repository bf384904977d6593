package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/mash2-io/mash2/experiments/load/exposition"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/load/record"
)

// trackedPod is a pod of a loaded workload.
type trackedPod struct {
	pod         *corev1.Pod // newest report
	workload    string
	modelled    bool // the model knows it
	ready       bool // the endpoints were told it is
	terminating bool
}

type trackedNode struct {
	labels map[string]string
}

// stripManagedFields keeps the caches small.
func stripManagedFields(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// watch follows pods, nodes and the workloads' Deployments until the context
// ends. It returns when all there were at first have been taken in.
func (d *Driver) watch(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(stripManagedFields))
	deployments, err := handle(factory.Apps().V1().Deployments().Informer(), d.deploymentChanged, d.deploymentDeleted)
	if err != nil {
		return err
	}
	nodes, err := handle(factory.Core().V1().Nodes().Informer(), d.nodeChanged, d.nodeDeleted)
	if err != nil {
		return err
	}
	pods, err := handle(factory.Core().V1().Pods().Informer(), d.podChanged, d.podDeleted)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	d.group.Go(func() error {
		<-ctx.Done()
		factory.Shutdown()
		return nil
	})
	if !cache.WaitForCacheSync(ctx.Done(), deployments.HasSynced, nodes.HasSynced, pods.HasSynced) {
		return errors.New("watching the cluster: stopped before the caches were filled")
	}
	return nil
}

func handle[T runtime.Object](informer cache.SharedIndexInformer, changed func(o T, initial bool), deleted func(T)) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if t, ok := o.(T); ok {
				changed(t, initial)
			}
		},
		UpdateFunc: func(_, o any) {
			if t, ok := o.(T); ok {
				changed(t, false)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if t, ok := o.(T); ok {
				deleted(t)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching the cluster: %w", err)
	}
	return registration, nil
}

func (d *Driver) deploymentChanged(o *appsv1.Deployment, _ bool) {
	d.replicas(o, replicasOf(o))
}

func (d *Driver) deploymentDeleted(o *appsv1.Deployment) { d.replicas(o, 0) }

func (d *Driver) replicas(o *appsv1.Deployment, n int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recorder.Replicas(d.advance(time.Now()), o.Namespace+"/"+o.Name, n)
}

func replicasOf(o *appsv1.Deployment) int32 {
	if o.Spec.Replicas == nil {
		return 1
	}
	return *o.Spec.Replicas
}

func (d *Driver) nodeChanged(o *corev1.Node, _ bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.advance(time.Now())
	ready := false
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = c.Status == corev1.ConditionTrue
		}
	}
	d.recorder.Node(at, record.Node{
		Name: o.Name, Pool: o.Labels[d.cfg.PoolLabel], Ready: ready,
		MilliCPU: o.Status.Allocatable.Cpu().MilliValue(),
		Memory:   o.Status.Allocatable.Memory().Value(),
	})
	cores := o.Status.Capacity.Cpu().AsApproximateFloat64()
	if cores <= 0 {
		return // it has not reported its capacity yet
	}
	speed, known := d.cfg.Speeds[o.Labels[corev1.LabelInstanceTypeStable]]
	if !known {
		speed = 1
	}
	d.fail(d.model.SetNode(queueing.Node{Name: o.Name, Cores: cores, Speed: speed}))
	_, known = d.nodes[o.Name]
	d.nodes[o.Name] = &trackedNode{labels: o.Labels}
	if !known { // pods may have been reported before
		for _, t := range d.pods {
			if t.pod.Spec.NodeName == o.Name {
				d.follow(t, false)
			}
		}
	}
}

// nodeDeleted: the machine is gone, and with it everything that ran there.
func (d *Driver) nodeDeleted(o *corev1.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recorder.NodeGone(d.advance(time.Now()), o.Name)
	d.model.LoseNode(o.Name)
	delete(d.nodes, o.Name)
}

func (d *Driver) podChanged(o *corev1.Pod, initial bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.advance(time.Now())
	id := string(o.UID)
	if o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed {
		d.gone(at, id)
		return
	}
	workload := d.workloadOf(o)
	requests := resourcehelper.PodRequests(o, resourcehelper.PodResourcesOptions{UseStatusResources: true})
	d.recorder.Pod(at, record.Pod{
		ID: id, Workload: workload, Node: o.Spec.NodeName,
		Pending:  o.Status.Phase == corev1.PodPending,
		Ready:    isReady(o) && o.DeletionTimestamp == nil,
		MilliCPU: requests.Cpu().MilliValue(),
		Memory:   requests.Memory().Value(),
	})
	if workload == "" {
		return
	}
	t := d.pods[id]
	if t == nil {
		t = &trackedPod{workload: workload}
		d.pods[id] = t
	}
	t.pod = o
	d.follow(t, initial)
}

func (d *Driver) podDeleted(o *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone(d.advance(time.Now()), string(o.UID))
}

func (d *Driver) gone(at time.Duration, id string) {
	d.recorder.PodGone(at, id)
	d.model.RemovePod(id, d.propagated())
	delete(d.pods, id)
}

// propagated is when a change that happens now reaches the proxies.
func (d *Driver) propagated() time.Duration {
	delay := d.cfg.Scenario.EndpointPropagation.Sample(d.rng)
	return d.model.Now() + time.Duration(max(delay, 0)*float64(time.Second))
}

// follow tells the model what has become of a pod. Pods that were Ready before
// the driver came have been endpoints since.
func (d *Driver) follow(t *trackedPod, initial bool) {
	o, id := t.pod, string(t.pod.UID)
	if o.Status.Phase != corev1.PodRunning || len(o.Spec.Containers) == 0 {
		return
	}
	request, limit := cpuOf(o)
	if !t.modelled {
		if _, known := d.nodes[o.Spec.NodeName]; !known {
			return // nodeChanged comes back to it
		}
		if err := d.model.AddPod(queueing.Pod{ID: id, Stream: t.workload, Node: o.Spec.NodeName, Request: request, Limit: limit}); err != nil {
			d.fail(err)
			return
		}
		t.modelled = true
	}
	d.model.ResizePod(id, request, limit)

	ready := isReady(o) && o.DeletionTimestamp == nil
	switch {
	case ready && !t.ready && initial:
		d.model.Join(id, d.model.Now())
	case ready && !t.ready:
		d.model.Join(id, d.propagated())
	case !ready && t.ready:
		d.model.Leave(id, d.propagated())
	}
	t.ready = ready
	if o.DeletionTimestamp != nil && !t.terminating {
		t.terminating = true
		grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
		if s := o.DeletionGracePeriodSeconds; s != nil {
			grace = *s
		}
		now := d.model.Now()
		kill := now + time.Duration(grace)*time.Second
		d.model.Close(id, min(now+preStop(o), kill))
		d.model.Kill(id, kill)
	}
}

// preStop is how long the first container's preStop hook sleeps. Without one a
// well-behaved server stops accepting as soon as it is told to terminate.
func preStop(o *corev1.Pod) time.Duration {
	hooks := o.Spec.Containers[0].Lifecycle
	if hooks == nil || hooks.PreStop == nil || hooks.PreStop.Sleep == nil {
		return 0
	}
	return time.Duration(hooks.PreStop.Sleep.Seconds) * time.Second
}

// cpuOf is the request and limit in force of the first container, in cores; no
// limit is 0.
func cpuOf(o *corev1.Pod) (request, limit float64) {
	c := o.Spec.Containers[0]
	resources := c.Resources
	for _, s := range o.Status.ContainerStatuses {
		if s.Name == c.Name && s.Resources != nil {
			resources = *s.Resources
		}
	}
	return resources.Requests.Cpu().AsApproximateFloat64(), resources.Limits.Cpu().AsApproximateFloat64()
}

func (d *Driver) workloadOf(o *corev1.Pod) string {
	for i, w := range d.cfg.Workloads {
		if w.Namespace == o.Namespace && d.selectors[i].Matches(labels.Set(o.Labels)) {
			return w.key()
		}
	}
	return ""
}

func isReady(o *corev1.Pod) bool {
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// containers are the workloads' running containers, for exposition.
func (d *Driver) containers() []exposition.Container {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advance(time.Now())
	memory := d.cfg.Scenario.Workload.Memory
	out := make([]exposition.Container, 0, len(d.pods))
	for id, t := range d.pods {
		s, ok := d.model.PodState(id)
		if _, reachable := d.nodes[s.Node]; !ok || !reachable {
			continue
		}
		c := t.pod.Spec.Containers[0]
		started := t.pod.CreationTimestamp.Time
		for _, status := range t.pod.Status.ContainerStatuses {
			if status.Name == c.Name && status.State.Running != nil {
				started = status.State.Running.StartedAt.Time
			}
		}
		out = append(out, exposition.Container{
			Namespace: t.pod.Namespace, Pod: t.pod.Name, UID: id, Labels: t.pod.Labels,
			Name: c.Name, Image: c.Image, Node: t.pod.Spec.NodeName, Started: started,
			CPU:              s.Usage / d.cfg.Speed,
			Periods:          float64(s.Periods) / d.cfg.Speed,
			ThrottledPeriods: float64(s.ThrottledPeriods) / d.cfg.Speed,
			ThrottledSeconds: s.Throttled.Seconds() / d.cfg.Speed,
			Memory:           memory.Base.Value() + int64(s.InFlight)*memory.PerRequest.Value(),
		})
	}
	return out
}

func (d *Driver) nodeList() []exposition.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]exposition.Node, 0, len(d.nodes))
	for name, n := range d.nodes {
		out = append(out, exposition.Node{Name: name, Labels: n.labels})
	}
	return out
}
