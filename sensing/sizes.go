package sensing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// sizingSpec is what a ManagedWorkload says of the sizes of containers.
type sizingSpec struct {
	mode    api.SizingMode
	limits  api.SizingLimits
	bounds  map[string]v1alpha1.ContainerSizing
	planned []api.ContainerPlan
	since   time.Time // it was chosen; zero if that is not known
	// cpuAsWritten is until when CPU is to be requested as written.
	cpuAsWritten time.Time
	// memoryAsWritten is the same of memory.
	memoryAsWritten time.Time
}

// sizingOf returns nil where no sizes are to be chosen.
func sizingOf(w *v1alpha1.ManagedWorkload) *sizingSpec {
	in := w.Spec.Sizing
	if in == nil || in.Mode == v1alpha1.SizingOff {
		return nil
	}
	out := &sizingSpec{mode: api.SizingMode(in.Mode), limits: api.SizingLimits(in.Limits), bounds: map[string]v1alpha1.ContainerSizing{}}
	if out.mode == "" {
		out.mode = api.SizingRecommendOnly
	}
	if out.limits == "" {
		out.limits = api.LimitsKeep
	}
	for _, c := range in.Containers {
		out.bounds[c.Name] = c
	}
	if s := w.Status.Sizing; s != nil {
		if s.CPUAsWrittenUntil != nil {
			out.cpuAsWritten = s.CPUAsWrittenUntil.Time
		}
		if s.MemoryAsWrittenUntil != nil {
			out.memoryAsWritten = s.MemoryAsWrittenUntil.Time
		}
		if s.Since != nil {
			out.since = s.Since.Time
		}
		for _, c := range s.Containers {
			out.planned = append(out.planned, api.ContainerPlan{
				Name: c.Name, Requests: amountsOf(c.Requests), Limits: amountsOf(c.Limits), Template: amountsOf(c.Template), TemplateLimits: amountsOf(c.TemplateLimits), Reason: c.Reason,
			})
		}
	}
	return out
}

func amountsOf(a v1alpha1.ContainerAmounts) (out api.Amounts) {
	if a.CPU != nil {
		out.MilliCPU = a.CPU.MilliValue()
	}
	if a.Memory != nil {
		out.Memory = a.Memory.Value()
	}
	return out
}

// containersOf are containers of a template as their author wrote them.
func containersOf(containers []corev1.Container) (out []api.ContainerUse) {
	for i := range containers {
		c := &containers[i]
		u := api.ContainerUse{Name: shared(c.Name), Requests: listed(c.Resources.Requests), Limits: listed(c.Resources.Limits)}
		// As the API server does: a limit without a request is both.
		if u.Requests.MilliCPU == 0 {
			u.Requests.MilliCPU = u.Limits.MilliCPU
		}
		if u.Requests.Memory == 0 {
			u.Requests.Memory = u.Limits.Memory
		}
		for _, p := range c.ResizePolicy {
			restarts := p.RestartPolicy == corev1.RestartContainer
			u.RestartCPU = u.RestartCPU || restarts && p.ResourceName == corev1.ResourceCPU
			u.RestartMemory = u.RestartMemory || restarts && p.ResourceName == corev1.ResourceMemory
		}
		out = append(out, u)
	}
	return out
}

// guaranteed tells whether a template's pods have that quality of service.
func guaranteed(spec corev1.PodSpec) bool {
	return !slices.ContainsFunc(containersOf(slices.Concat(spec.InitContainers, spec.Containers)), func(u api.ContainerUse) bool {
		return u.Requests != u.Limits || u.Limits.MilliCPU == 0 || u.Limits.Memory == 0
	})
}

// asWhole tells whether a pod states resources as a whole (KEP-2837), beside those of its
// containers.
func asWhole(spec corev1.PodSpec) bool {
	return spec.Resources != nil && len(spec.Resources.Requests)+len(spec.Resources.Limits) > 0
}

func listed(list corev1.ResourceList) api.Amounts {
	return api.Amounts{MilliCPU: list.Cpu().MilliValue(), Memory: list.Memory().Value()}
}

// podSize is what is kept of the sizes of a pod's containers.
type podSize struct {
	size *api.PodSize
	// requests of the pod besides those containers, and whatever they request.
	beside, least api.Amounts
	resize        api.ResizeState
	message       string
	// held is the size that an infeasible resize leaves.
	held *api.PodSize
	// by is who else resized it last; empty if nobody did. ours tells that mash2 did, or gave it
	// a size as it was admitted.
	by   string
	ours bool
	// whole tells that the pod requests resources as a whole.
	whole bool
	kills []containerKill
	// killedAgain tells that one of them had been started again before, and does not run now.
	killedAgain bool
	// stuck are memory limits that the kubelet does not lower.
	stuck []containerLimit
}

// containerLimit is the memory limit that the kubelet gives a container, bytes.
type containerLimit struct {
	container string
	limit     int64
}

// containerKill is a container that was killed for its memory.
type containerKill struct {
	container string
	at        time.Time
	limit     int64 // of now, or what it requests now if it was resized
	resized   bool  // since: it was killed with another limit
}

// resizing is how far a pod's kubelet is with what it asks for, and what the kubelet says of it.
// A spec that the kubelet has not read is on the way: it may be down, and reads it when it is
// back. Kubelets before Kubernetes 1.34 don't say what they read.
func resizing(pod *corev1.Pod) (state api.ResizeState, message string) {
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue:
			return api.ResizeState(c.Reason), c.Message
		case c.Type == corev1.PodResizeInProgress && c.Status == corev1.ConditionTrue:
			state, message = api.ResizeInProgress, c.Message
			if c.Reason == corev1.PodReasonError {
				state = api.ResizeError
			}
		}
	}
	if read := pod.Status.ObservedGeneration; state == "" && read > 0 && read < pod.Generation {
		return api.ResizeInProgress, "its kubelet has not read its spec yet"
	}
	return state, message
}

// heldSize is the size that a pod's kubelet gives it; nil where it does not say so of each container.
func heldSize(pod *corev1.Pod) *api.PodSize {
	var out api.PodSize
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		at := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == name })
		if at < 0 || pod.Status.ContainerStatuses[at].Resources == nil {
			return nil
		}
		is := pod.Status.ContainerStatuses[at].Resources
		out.Containers = append(out.Containers, api.ContainerSize{Name: shared(name), Requests: listed(is.Requests), Limits: listed(is.Limits)})
	}
	return &out
}

func (s *shapes) podSize(pod *corev1.Pod) podSize {
	out := podSize{whole: asWhole(pod.Spec)}
	var containers api.Amounts
	size := api.PodSize{Containers: make([]api.ContainerSize, len(pod.Spec.Containers))}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		is := api.ContainerSize{Name: shared(c.Name), Requests: listed(c.Resources.Requests), Limits: listed(c.Resources.Limits)}
		containers.MilliCPU, containers.Memory = containers.MilliCPU+is.Requests.MilliCPU, containers.Memory+is.Requests.Memory
		size.Containers[i] = is
	}
	out.size = s.sized(size)
	// The rest is what the pod requests when these containers ask for nothing.
	bare := pod.DeepCopy()
	for i := range bare.Spec.Containers {
		bare.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
	}
	least := listed(resource.PodRequests(bare, resource.PodResourcesOptions{}))
	whole := listed(resource.PodRequests(pod, resource.PodResourcesOptions{}))
	out.least = least
	// Where init containers ask for more than all of it, nothing is told of the sidecars:
	// they are part of the least.
	if whole != least {
		out.beside = api.Amounts{MilliCPU: max(0, whole.MilliCPU-containers.MilliCPU), Memory: max(0, whole.Memory-containers.Memory)}
	}
	if out.resize, out.message = resizing(pod); out.resize == api.ResizeInfeasible {
		out.held = heldSize(pod)
	}
	var resized time.Time
	for _, e := range pod.ManagedFields {
		if e.Subresource != "resize" {
			continue
		}
		if e.Time != nil && e.Time.After(resized) {
			resized = e.Time.Time
		}
		if e.Manager == api.FieldManager {
			out.ours = true
		} else {
			out.by = shared(e.Manager)
		}
	}
	out.ours = (out.ours || pod.Annotations[api.AnnotationSizedBy] != "") && out.by == ""
	for _, c := range pod.Status.ContainerStatuses {
		if is, ok := size.Container(c.Name); ok && out.resize == api.ResizeError && c.Resources != nil {
			if limit := c.Resources.Limits.Memory().Value(); is.Limits.Memory > 0 && limit > is.Limits.Memory {
				out.stuck = append(out.stuck, containerLimit{is.Name, limit})
			}
		}
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if is, ok := size.Container(c.Name); ok && t != nil && t.Reason == "OOMKilled" {
				k := containerKill{is.Name, t.FinishedAt.Time, is.Limits.Memory, resized.After(t.FinishedAt.Time)}
				if k.resized && k.limit > 0 && is.Requests.Memory > 0 {
					k.limit = is.Requests.Memory // its limit may be more than it was found to need
				}
				out.kills = append(out.kills, k)
				last := c.State.Terminated == nil || t == c.State.Terminated
				out.killedAgain = out.killedAgain || last && c.State.Running == nil && c.RestartCount > 0
			}
		}
	}
	return out
}

// sized returns the shared value of a size.
func (s *shapes) sized(size api.PodSize) *api.PodSize {
	text, err := json.Marshal(size.Containers)
	if err != nil { // impossible: strings and integers only
		return &size
	}
	sum := sha256.Sum256(text)
	size.ID = hex.EncodeToString(sum[:8])
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.sizes[size.ID]; ok {
		return known
	}
	s.sizes[size.ID] = &size
	return &size
}

// keepSizes forgets the sizes that no pod has any more, once they are the most.
func (s *shapes) keepSizes(used map[*api.PodSize]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sizes) <= 2*len(used)+64 {
		return
	}
	for id, size := range s.sizes {
		if !used[size] {
			delete(s.sizes, id)
		}
	}
}

// sizing joins what a ManagedWorkload says of sizes with its target, its pods and what
// they use.
func (o *Observer) sizing(now time.Time, r *workloadRecord, v *view) *api.Sizing {
	spec, t := r.sizing, v.targets[r.target]
	if t == nil || v.first(r.target) != r {
		return nil
	}
	members := v.members(r.target)
	if spec == nil {
		// Pods that mash2 made smaller get back what their author wrote.
		out := &api.Sizing{Mode: api.SizingOff, Containers: slices.Clone(t.containers), Admits: o.cfg.SizesAtAdmission, Quota: quotaRoom(v.quotas[r.target.namespace])}
		if !slices.ContainsFunc(members, func(p *podRecord) bool { return p.size.ours && !p.pod.Terminating && out.Less(p.size.size) }) {
			return nil
		}
		newest := newestOf(members)
		out.Beside, out.Least = newest.size.beside, newest.size.least
		return out
	}
	out := &api.Sizing{
		Mode: spec.mode, Limits: spec.limits, Planned: spec.planned, PlannedSince: spec.since, Admits: o.cfg.SizesAtAdmission,
		Containers: slices.Clone(t.containers), Guaranteed: t.guaranteed, CPUAsWrittenUntil: spec.cpuAsWritten, MemoryAsWrittenUntil: spec.memoryAsWritten, Quota: quotaRoom(v.quotas[r.target.namespace]),
	}
	whole := t.whole
	if newest := newestOf(members); newest != nil {
		out.Beside, out.Least = newest.size.beside, newest.size.least
		whole = whole || newest.size.whole
	}
	if whole {
		out.AsWritten = "its pods state resources as a whole (spec.resources), which what containers request must not exceed"
	}
	out.Refused, out.Slow = o.refusal(t, members), o.slow(now, t, spec.planned, members)
	out.Crowded = v.crowded(members)
	for _, vertical := range v.verticals[r.target] {
		if vertical.mode != verticalOff {
			out.Hold = "VerticalPodAutoscaler " + vertical.key.Name + " sets what its containers request"
		}
	}
	o.sizes.look(r.target, o.usageOf(now, members))
	o.sizes.fill(r.target, out.Containers)
	v.withinRanges(r.target.namespace, out)
	for i := range out.Containers {
		u := &out.Containers[i]
		if b, ok := spec.bounds[u.Name]; ok {
			u.Least, u.Most = amountsOf(b.MinAllowed), amountsOf(b.MaxAllowed)
			if len(b.Resources) > 0 {
				u.FixedCPU = !slices.Contains(b.Resources, v1alpha1.SizedResource(corev1.ResourceCPU))
				u.FixedMemory = !slices.Contains(b.Resources, v1alpha1.SizedResource(corev1.ResourceMemory))
			}
		}
		for _, p := range members {
			for _, stuck := range p.size.stuck {
				if stuck.container == u.Name {
					u.MemoryStuck = max(u.MemoryStuck, stuck.limit)
				}
			}
			for _, k := range p.size.kills {
				if k.container != u.Name || k.at.Before(u.OOMKilled) {
					continue
				}
				u.OOMKilled, u.OOMLimit, u.OOMResized = k.at, k.limit, k.resized
				if u.OOMLimit == 0 { // killed as the node was full
					u.OOMLimit, u.OOMResized = u.Requests.Memory, false // its author's, as it was
				}
			}
		}
	}
	return out
}

// usageOf are the readings of metrics.k8s.io of these pods, without old ones.
func (o *Observer) usageOf(now time.Time, members []*podRecord) []podUsage {
	out := make([]podUsage, 0, len(members))
	for _, p := range members {
		m, ok := o.usage.reading(p.key)
		if age := now.Sub(m.at); ok && age <= o.cfg.UsageStaleAfter && age >= -o.cfg.UsageStaleAfter && !m.at.Before(p.pod.Created) {
			out = append(out, m)
		}
	}
	return out
}

// foreignResizes tell of pods that somebody else resized: mash2 leaves them alone.
func foreignResizes(w api.Workload, members []*podRecord) (out []api.Finding) {
	if w.Sizing == nil || w.Sizing.Mode != api.SizingInPlace {
		return nil
	}
	for _, p := range members {
		if p.size.by != "" && !p.pod.Terminating {
			out = append(out, api.Finding{
				Severity: api.Warning, Agent: api.VerticalScalingAgent, Reason: api.ReasonConflict, Object: api.WorkloadRef(w.Key),
				Message: "pod " + p.key.Name + " was resized by " + p.size.by + ": mash2 does not resize it until it is replaced",
			})
			break // one of them is enough to look for
		}
	}
	return out
}
