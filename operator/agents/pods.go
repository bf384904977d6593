package agents

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/vertical"
)

// Pod is one that takes part.
type Pod struct {
	vertical.Pod
	Key       api.Key
	Container string
	// Request is what the container requests, millicores.
	Request int64
	// Together: request and limit are one number, and stay so.
	Together bool
	// Memory of it, and MemoryStays, why its memory can't be changed; empty if it can.
	Memory         vertical.Pod
	MemoryRequest  int64 // bytes
	MemoryTogether bool
	MemoryStays    string
}

// Takes reports what part a pod takes: the container of that name, or its only one if the
// name is empty. An error says why it takes none.
//
// A request that equals its limit moves with it, as MARLISE has both; one that is lower
// stays, and the limit stays above it: were both equal, the request would move from then on.
func Takes(pod *corev1.Pod, container string) (Pod, error) {
	out := Pod{Key: api.Key{Namespace: pod.Namespace, Name: pod.Name}, Pod: vertical.Pod{ID: string(pod.UID), Priority: 1}}
	switch {
	case pod.DeletionTimestamp != nil:
		return out, fmt.Errorf("it is being deleted")
	case pod.Status.Phase != corev1.PodRunning:
		return out, fmt.Errorf("it is %s, not Running", pod.Status.Phase)
	case container == "" && len(pod.Spec.Containers) > 1:
		return out, fmt.Errorf("it has %d containers: name one", len(pod.Spec.Containers))
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return container == "" || c.Name == container })
	if i < 0 {
		return out, fmt.Errorf("it has no container %q", container)
	}
	c := &pod.Spec.Containers[i]
	request, hasRequest := c.Resources.Requests[corev1.ResourceCPU]
	limit, hasLimit := c.Resources.Limits[corev1.ResourceCPU]
	if !hasRequest || !hasLimit {
		return out, fmt.Errorf("container %s needs a request and a limit of CPU", c.Name)
	}
	for _, p := range c.ResizePolicy {
		if p.ResourceName == corev1.ResourceCPU && p.RestartPolicy != corev1.NotRequired {
			return out, fmt.Errorf("container %s is restarted by a resize of CPU (its resizePolicy)", c.Name)
		}
	}
	out.Container, out.Request, out.Limit = c.Name, request.MilliValue(), limit.MilliValue()
	out.Together = request.Cmp(limit) == 0
	out.Held = held(pod, c.Name, corev1.ResourceCPU, out.Limit)
	out.takesMemory(pod, c)
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodResizePending && condition.Reason == corev1.PodReasonInfeasible {
			return out, fmt.Errorf("%w: %s", errInfeasible, condition.Message)
		}
	}
	return out, nil
}

// takesMemory says what part the container's memory can take.
func (p *Pod) takesMemory(pod *corev1.Pod, c *corev1.Container) {
	request, hasRequest := c.Resources.Requests[corev1.ResourceMemory]
	limit, hasLimit := c.Resources.Limits[corev1.ResourceMemory]
	p.Memory = vertical.Pod{ID: p.ID, Limit: limit.Value(), Held: held(pod, c.Name, corev1.ResourceMemory, limit.Value())}
	if !hasRequest || !hasLimit {
		p.MemoryStays = fmt.Sprintf("container %s has no request and limit of memory", c.Name)
		return
	}
	for _, policy := range c.ResizePolicy {
		if policy.ResourceName == corev1.ResourceMemory && policy.RestartPolicy != corev1.NotRequired {
			p.MemoryStays = fmt.Sprintf("container %s is restarted by a resize of memory (its resizePolicy)", c.Name)
			return
		}
	}
	p.MemoryRequest, p.MemoryTogether = request.Value(), request.Cmp(limit) == 0
	p.Memory.Killed = killed(pod, c.Name)
	if !p.MemoryTogether {
		p.Memory.Floor = p.MemoryRequest + vertical.MiB
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodResizeInProgress && condition.Status == corev1.ConditionTrue && condition.Reason == corev1.PodReasonError {
			p.Memory.Stuck = p.Memory.Held > p.Memory.Limit
		}
	}
}

// killed is when the container was ended last because it lacked memory.
func killed(pod *corev1.Pod, container string) time.Time {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if s.Name == container && ended != nil && ended.Reason == oomKilled {
				return ended.FinishedAt.Time
			}
		}
	}
	return time.Time{}
}

// oomKilled is the kubelet's word for it.
const oomKilled = "OOMKilled"

// held is the limit that the node gives the container, as its status says; what the spec
// says where the status says nothing.
func held(pod *corev1.Pod, container string, of corev1.ResourceName, limit int64) int64 {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.Name != container || s.Resources == nil {
			continue
		}
		q := s.Resources.Limits[of]
		v := q.Value()
		if of == corev1.ResourceCPU {
			v = q.MilliValue()
		}
		if v > 0 {
			return v
		}
	}
	return limit
}

// action that makes a decision true.
func (p *Pod) action(d vertical.Decision) api.ResizePod {
	a := api.ResizePod{
		Pod: p.Key, UID: p.ID, Container: p.Container, Limits: api.Amounts{MilliCPU: d.To},
		From: api.Amounts{MilliCPU: p.Request}, To: api.Amounts{MilliCPU: p.Request}, Reason: fmt.Sprintf("limit %dm → %dm (%s)", d.From, d.To, d.Binding),
	}
	if p.Together {
		a.To.MilliCPU = d.To
	}
	return a
}

// memoryAction makes a decision about memory true.
func (p *Pod) memoryAction(d vertical.Decision) api.ResizePod {
	a := api.ResizePod{
		Pod: p.Key, UID: p.ID, Container: p.Container, Limits: api.Amounts{Memory: d.To},
		From: api.Amounts{Memory: p.MemoryRequest}, To: api.Amounts{Memory: p.MemoryRequest},
		Reason: fmt.Sprintf("memory limit %s → %s (%s)", quantity(d.From), quantity(d.To), d.Binding),
	}
	if p.MemoryTogether {
		a.To.Memory = d.To
	}
	return a
}

// quantity of bytes as kubectl writes it.
func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// floor of a pod's limit, millicores: above a request that stays.
func (p *Pod) floor() int64 {
	if p.Together {
		return 0
	}
	return p.Request + 1
}
