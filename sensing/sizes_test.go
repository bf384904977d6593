package sensing

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// TestResizing: how far a kubelet is with a resize is what it says of it, and before it says
// anything whether it has read the spec.
func TestResizing(t *testing.T) {
	pending := func(reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: "said"}
	}
	progress := func(reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: reason, Message: "said"}
	}
	for name, c := range map[string]struct {
		generation, read int64
		conditions       []corev1.PodCondition
		want             api.ResizeState
	}{
		"nothing to do":                          {generation: 2, read: 2},
		"not read by a kubelet that is down":     {generation: 3, read: 2, want: api.ResizeInProgress},
		"a kubelet that does not say":            {generation: 3},
		"under way":                              {generation: 3, read: 3, conditions: []corev1.PodCondition{progress("")}, want: api.ResizeInProgress},
		"refused for now":                        {generation: 3, read: 3, conditions: []corev1.PodCondition{progress(corev1.PodReasonError)}, want: api.ResizeError},
		"no room":                                {generation: 3, read: 3, conditions: []corev1.PodCondition{pending(corev1.PodReasonDeferred)}, want: api.ResizeDeferred},
		"never":                                  {generation: 3, read: 3, conditions: []corev1.PodCondition{pending(corev1.PodReasonInfeasible)}, want: api.ResizeInfeasible},
		"no room for the next, the last goes on": {generation: 4, read: 4, conditions: []corev1.PodCondition{progress(""), pending(corev1.PodReasonDeferred)}, want: api.ResizeDeferred},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: c.generation}, Status: corev1.PodStatus{ObservedGeneration: c.read, Conditions: c.conditions}}
			if state, message := resizing(pod); state != c.want || (message != "") != (c.want != "") {
				t.Errorf("%q %q, want %q", state, message, c.want)
			}
		})
	}
}

// TestHeld: of a pod whose resize is infeasible it is known what its kubelet gives it.
func TestHeld(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 0)
	d, mw, pod := deployment("web", 1, "1"), managed("web"), podOn("web", 0, "node-1", epoch.Add(-time.Hour))
	mw.Spec.Sizing = &v1alpha1.Sizing{Mode: v1alpha1.SizingInPlace}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}, Limits: corev1.ResourceList{"cpu": resource.MustParse("3")},
	}}}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "static",
	})
	w.put(d, mw, pod)
	_, s := w.workload("web")
	want := api.ContainerSize{Name: "main", Requests: api.Amounts{MilliCPU: 2000, Memory: 1 << 30}, Limits: api.Amounts{MilliCPU: 3000}}
	if is, ok := s.Pods[0].Held.Container("main"); !ok || is != want {
		t.Errorf("it holds %+v", s.Pods[0].Held)
	}
}

// TestStuckLimits: a memory limit that a kubelet does not lower is known with the container.
func TestStuckLimits(t *testing.T) {
	for name, c := range map[string]struct {
		reason  string // of PodResizeInProgress
		spec    string // the limit that it is to have
		replied string // the limit that it has
		want    int64
	}{
		"more is used":          {corev1.PodReasonError, "512Mi", "1Gi", 1 << 30},
		"under way":             {"", "512Mi", "1Gi", 0},
		"an error of something": {corev1.PodReasonError, "1Gi", "1Gi", 0},
		"a larger one":          {corev1.PodReasonError, "2Gi", "1Gi", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 0)
			d, mw, pod := deployment("web", 1, "1"), managed("web"), podOn("web", 0, "node-1", epoch.Add(-time.Hour))
			mw.Spec.Sizing = &v1alpha1.Sizing{Mode: v1alpha1.SizingInPlace}
			memory := func(of string) *corev1.ResourceRequirements {
				return &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse(of)}}
			}
			pod.Spec.Containers[0].Resources.Limits = memory(c.spec).Limits
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Resources: memory(c.replied)}}
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: c.reason, Message: "cannot decrease memory limits",
			})
			w.put(d, mw, pod)
			if got, _ := w.workload("web"); got.Sizing.Containers[0].MemoryStuck != c.want {
				t.Errorf("stuck at %d, want %d", got.Sizing.Containers[0].MemoryStuck, c.want)
			}
		})
	}
}

// TestSizesAgainstPrometheus: what containers use is read from a real Prometheus with the
// series that a real cAdvisor has: the most of any replica of the workload, those that are
// gone included, and of nobody else; a gap begins anew.
func TestSizesAgainstPrometheus(t *testing.T) {
	const every = time.Minute
	end := time.Now().Add(-3 * time.Hour).Truncate(10 * time.Minute)
	start := end.Add(-40 * time.Hour)
	pod := func(name, container string) string {
		return fmt.Sprintf(`namespace=%q,pod=%q,node="node-1",container=%q`, ns, name, container)
	}
	const now, before = "web-5d4f8c7b9-bbbbx", "web-77b6bdc9f-zzzzx"
	var cpu, memory, resident strings.Builder
	gauge := func(labels string, from, to time.Time, mebibytes float64) {
		for at := from; !at.After(to); at = at.Add(every) {
			fmt.Fprintf(&memory, "container_memory_working_set_bytes{%s} %.0f %d\n", labels, mebibytes*(1<<20), at.Unix())
			fmt.Fprintf(&resident, "container_memory_rss{%s} %.0f %d\n", labels, 0.6*mebibytes*(1<<20), at.Unix())
		}
	}
	gap := end.Add(-30 * time.Hour)
	gauge(pod(before, "main"), start, gap, 200)
	gauge(pod(before, "main"), gap.Add(time.Hour), end.Add(-20*time.Hour), 500)
	gauge(pod(now, "main"), end.Add(-20*time.Hour), end, 300)
	gauge(pod(now, "sidecar"), start, end, 50)
	gauge(pod(now, ""), start, end, 900)
	gauge(pod(now, "POD"), start, end, 900)
	gauge(pod("web-2-5d4f8c7b9-bbbbx", "main"), start, end, 900)
	gauge(pod("web-0", "main"), start, end, 900)
	gauge(strings.Replace(pod(now, "main"), ns, "another", 1), start, end, 900)
	counter(&cpu, pod(before, "main"), start, end.Add(-20*time.Hour), every, 0.4)
	counter(&cpu, pod(now, "main"), end.Add(-20*time.Hour), end, every, 0.2)
	counter(&cpu, pod(now, "sidecar"), start, end, every, 0.05)
	counter(&cpu, pod(now, "main")+`,cpu="cpu00"`, start, end, every, 0.9)
	prom, err := cluster.StartPrometheus(t.Context(), cluster.PrometheusOptions{History: strings.NewReader(
		"# TYPE container_cpu_usage_seconds counter\n" + cpu.String() + "# TYPE container_memory_working_set_bytes gauge\n" + memory.String() +
			"# TYPE container_memory_rss gauge\n" + resident.String() + "# EOF\n")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prom.Stop() })
	w := newWorld(t, func(c *Config) {
		c.PrometheusURL, c.QueryTimeout, c.RateWindow = prom.URL, 30*time.Second, 4*time.Minute
	})
	w.clock.SetTime(end)
	w.shop("web", 0)
	w.usage = nil
	d := deployment("web", 1, "1")
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar"})
	mw := managed("web")
	mw.Spec.Sizing = &v1alpha1.Sizing{Mode: v1alpha1.SizingInPlace}
	w.put(d, mw, podOn("web", 0, "node-1", start))

	var got *api.Sizing
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // a real program answers, in the background
		x, _ := w.workload("web")
		if got = x.Sizing; got == nil {
			t.Fatal("no sizing")
		}
		if !got.Containers[0].Until.IsZero() && end.Sub(got.Containers[0].Until) < 20*time.Minute || time.Now().After(deadline) {
			break
		}
	}
	main, sidecar := got.Containers[0], got.Containers[1]
	if main.MemoryPeak != 500<<20 || sidecar.MemoryPeak != 50<<20 {
		t.Errorf("memory: main %d, sidecar %d", main.MemoryPeak, sidecar.MemoryPeak)
	}
	if main.MemoryResident != 300<<20 || sidecar.MemoryResident != 30<<20 {
		t.Errorf("memory without files: main %d, sidecar %d", main.MemoryResident, sidecar.MemoryResident)
	}
	// 18 hours of 500 MiB in two days: a quarter of the parts is as high as it comes.
	if main.MemoryTail < 500<<20 || sidecar.MemoryTail != 50<<20 || main.MemoryKnown < 40*time.Hour || sidecar.MemoryKnown < main.MemoryKnown {
		t.Errorf("memory may reach %d, of %s; the sidecar's %d, of %s", main.MemoryTail, main.MemoryKnown, sidecar.MemoryTail, sidecar.MemoryKnown)
	}
	if near := func(is int64, want float64) bool { return math.Abs(float64(is)-want) <= 0.1*want }; !near(main.CPUPeak, 400) || !near(main.CPUMean, 300) || !near(sidecar.CPUPeak, 50) {
		t.Errorf("CPU: main %dm at most, %dm on average, sidecar %dm", main.CPUPeak, main.CPUMean, sidecar.CPUPeak)
	}
	if since := gap.Add(time.Hour); main.Since.Before(since.Add(-10*time.Minute)) || main.Since.After(since.Add(20*time.Minute)) {
		t.Errorf("known since %s, want about %s", main.Since, since)
	}
	if sidecar.Since.After(start.Add(20 * time.Minute)) {
		t.Errorf("the sidecar is known since %s, want about %s", sidecar.Since, start)
	}

	// What metrics.k8s.io says now counts before Prometheus is asked again, and afterwards.
	key := api.Key{Namespace: ns, Name: podOn("web", 0, "node-1", start).Name}
	for _, c := range []struct{ now, want int64 }{{700 << 20, 700 << 20}, {100 << 20, 700 << 20}, {math.MaxInt64, 700 << 20}, {650 << 20, 700 << 20}} {
		w.clock.Step(w.cfg.UsageInterval)
		w.usage, w.memory = map[api.Key]int64{key: 200}, map[api.Key]int64{key: c.now}
		x, _ := w.workload("web")
		if is := x.Sizing.Containers; is[0].MemoryPeak != c.want || is[1].MemoryPeak != sidecar.MemoryPeak || !is[0].Until.Equal(main.Until) {
			t.Errorf("with %d bytes now memory is %d, known until %s; the sidecar's %d", c.now, is[0].MemoryPeak, is[0].Until, is[1].MemoryPeak)
		}
	}
}

// TestSizing is what a ManagedWorkload, its template, its pods and its status together say.
// TestSizesAsWritten: pods that state resources as a whole, by their template or since, are
// sized by nobody, and what the API server says to new pods is known.
func TestSizesAsWritten(t *testing.T) {
	whole := &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}
	for name, c := range map[string]struct {
		change  func(*appsv1.Deployment, *corev1.Pod)
		whole   bool
		refused string
	}{
		"neither":         {change: func(*appsv1.Deployment, *corev1.Pod) {}},
		"by its template": {change: func(d *appsv1.Deployment, _ *corev1.Pod) { d.Spec.Template.Spec.Resources = whole }, whole: true},
		"by a webhook":    {change: func(_ *appsv1.Deployment, p *corev1.Pod) { p.Spec.Resources = whole }, whole: true},
		"of nothing": {change: func(d *appsv1.Deployment, _ *corev1.Pod) {
			d.Spec.Template.Spec.Resources = &corev1.ResourceRequirements{}
		}},
		"refused": {change: func(d *appsv1.Deployment, _ *corev1.Pod) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "no"}}
		}, refused: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 0)
			d, mw, pod := deployment("web", 1, "1"), managed("web"), podOn("web", 0, "node-1", epoch.Add(-time.Hour))
			mw.Spec.Sizing = &v1alpha1.Sizing{Mode: v1alpha1.SizingInPlace}
			c.change(d, pod)
			w.put(d, mw, pod)
			got, _ := w.workload("web")
			if got.Sizing == nil || (got.Sizing.AsWritten != "") != c.whole || got.Sizing.Refused != c.refused {
				t.Errorf("sizing is %+v", got.Sizing)
			}
		})
	}
}

func TestSizing(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 0)
	d := deployment("web", 1, "1")
	c := &d.Spec.Template.Spec.Containers[0]
	c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	mw := managed("web")
	cpu := resource.MustParse("50m")
	mw.Spec.Sizing = &v1alpha1.Sizing{Containers: []v1alpha1.ContainerSizing{{
		Name: c.Name, MinAllowed: v1alpha1.ContainerAmounts{CPU: &cpu}, Resources: []v1alpha1.SizedResource{"cpu"},
	}}}
	chosen := metav1.NewTime(epoch.Add(-2 * time.Hour))
	mw.Status.Sizing = &v1alpha1.SizingStatus{Since: &chosen, Containers: []v1alpha1.ContainerSizingStatus{{
		Name: c.Name, Requests: v1alpha1.ContainerAmounts{CPU: &cpu}, TemplateLimits: v1alpha1.ContainerAmounts{CPU: &cpu},
	}}}
	pod := podOn("web", 0, "node-1", epoch.Add(-time.Hour))
	pod.Spec.Containers[0].Resources = *c.Resources.DeepCopy()
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "proxy", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}},
		{Name: "unpack", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": resource.MustParse("512Mi")}}},
	}
	killed := metav1.NewTime(epoch.Add(-time.Minute))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: c.Name, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: killed}},
	}}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: "Node didn't have enough resource",
	})
	w.put(d, mw, pod)
	got, s := w.workload("web")
	want := &api.Sizing{
		Mode: api.SizingRecommendOnly, Limits: api.LimitsKeep,
		Containers: []api.ContainerUse{{
			Name: c.Name, Requests: api.Amounts{MilliCPU: 1000, Memory: 1 << 30}, Limits: api.Amounts{Memory: 1 << 30},
			Least: api.Amounts{MilliCPU: 50}, FixedMemory: true, RestartMemory: true, OOMKilled: killed.Time, OOMLimit: 1 << 30,
		}},
		Beside: api.Amounts{MilliCPU: 100}, Least: api.Amounts{MilliCPU: 100, Memory: 512 << 20},
		Planned: []api.ContainerPlan{{Name: c.Name, Requests: api.Amounts{MilliCPU: 50}, TemplateLimits: api.Amounts{MilliCPU: 50}}}, PlannedSince: chosen.Time,
	}
	if d := cmp.Diff(want, got.Sizing); d != "" {
		t.Errorf("sizing (-want +got):\n%s", d)
	}
	is := s.Pods[0]
	if size, ok := is.Size.Container(c.Name); !ok || size.Requests.Memory != 1<<30 || is.Resize != api.ResizeDeferred || is.ResizeMessage == "" {
		t.Errorf("pod has size %+v, resize %q %q", is.Size, is.Resize, is.ResizeMessage)
	}
	if is.Held != nil {
		t.Errorf("it holds %+v", is.Held)
	}
	if r := got.Sizing.Pod(api.Amounts{MilliCPU: 50, Memory: 100 << 20}); r.MilliCPU != 150 || r.Memory != 512<<20 {
		t.Errorf("a smaller pod would request %v", r)
	}

	// It is killed again and again: a kubelet gives it nothing while it does not run.
	status := &pod.Status.ContainerStatuses[0]
	for _, c := range []struct {
		restarts int32
		state    corev1.ContainerState
		want     bool
	}{
		{0, corev1.ContainerState{}, false},
		{2, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, true},
		{2, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, false},
		{2, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error"}}, false}, // since
	} {
		status.RestartCount, status.State = c.restarts, c.state
		w.put(pod)
		if _, s = w.workload("web"); s.Pods[0].KilledAgain != c.want || s.Pods[0].Resized {
			t.Errorf("after %d restarts, %+v: killed again %v, resized %v", c.restarts, c.state, s.Pods[0].KilledAgain, s.Pods[0].Resized)
		}
	}

	// mash2 has resized it before, and since.
	for before, want := range map[time.Duration]bool{time.Second: false, -time.Second: true} {
		at := metav1.NewTime(killed.Add(-before))
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: api.FieldManager, Subresource: "resize", Time: &at}}
		w.put(pod)
		if got, _ = w.workload("web"); got.Sizing.Containers[0].OOMResized != want {
			t.Errorf("resized %v before it was killed, resized since: %v", before, !want)
		}
		if _, s = w.workload("web"); !s.Pods[0].Resized {
			t.Errorf("it is not resized: %+v", s.Pods[0])
		}
	}

	// What it was found to need since is what it requests: its limit may be a multiple of that.
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("600Mi")
	after := metav1.NewTime(killed.Add(time.Second))
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: api.FieldManager, Subresource: "resize", Time: &after}}
	w.put(pod)
	if got, _ = w.workload("web"); !got.Sizing.Containers[0].OOMResized || got.Sizing.Containers[0].OOMLimit != 600<<20 {
		t.Errorf("killed, and resized since: %+v", got.Sizing.Containers[0])
	}

	// Without a limit it was killed at what its author requests, whoever resized it.
	delete(pod.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory)
	since := metav1.NewTime(killed.Add(time.Second))
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: api.FieldManager, Subresource: "resize", Time: &since}}
	w.put(pod)
	if got, _ = w.workload("web"); got.Sizing.Containers[0].OOMResized || got.Sizing.Containers[0].OOMLimit != 1<<30 {
		t.Errorf("killed without a limit: %+v", got.Sizing.Containers[0])
	}

	// Turned off, it is known as long as a pod has less than its author wrote.
	mw.Spec.Sizing.Mode = v1alpha1.SizingOff
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("10m")
	w.put(mw, pod)
	if got, s = w.workload("web"); got.Sizing == nil || got.Sizing.Mode != api.SizingOff || got.Sizing.Beside != want.Beside || got.Sizing.Least != want.Least || !s.Pods[0].Sized || s.Pods[0].Size == nil {
		t.Errorf("turned off, with a pod that mash2 made smaller: %+v, %+v", got.Sizing, s.Pods[0])
	}
	now := metav1.NewTime(epoch)
	pod.DeletionTimestamp = &now
	w.put(pod)
	if got, _ = w.workload("web"); got.Sizing != nil {
		t.Errorf("its last pod goes: %+v", got.Sizing)
	}
	pod.DeletionTimestamp = nil
	w.put(pod)
	mw.Spec.Vertical = &v1alpha1.Vertical{}
	w.put(mw)
	if got, _ = w.workload("web"); got.Sizing == nil || got.Sizing.Mode != api.SizingOff || got.Agents == nil {
		t.Errorf("its agents made it smaller, and may be stopped: %+v", got)
	}
	mw.Spec.Vertical = nil
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	w.put(mw, pod) // of memory a change would restart it
	if got, _ = w.workload("web"); got.Sizing != nil {
		t.Errorf("turned off, and all is given back: %+v", got.Sizing)
	}

	// A person resizes it: it is theirs.
	mw.Spec.Sizing.Mode = v1alpha1.SizingInPlace
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-edit", Subresource: "resize"}}
	w.put(mw, pod)
	_, s = w.workload("web")
	if s.Pods[0].Size != nil {
		t.Error("a pod that somebody else resized has a size")
	}
	found := false
	for _, f := range s.Findings {
		found = found || f.Reason == api.ReasonConflict && strings.Contains(f.Message, "kubectl-edit")
	}
	if !found {
		t.Errorf("findings %v", s.Findings)
	}
}

// TestGuaranteed: a template's pods are Guaranteed if all of its containers request what they are limited to.
func TestGuaranteed(t *testing.T) {
	of := func(cpu, memory, cpuLimit, memoryLimit string) corev1.Container {
		list := func(cpu, memory string) corev1.ResourceList {
			out := corev1.ResourceList{}
			if cpu != "" {
				out[corev1.ResourceCPU] = resource.MustParse(cpu)
			}
			if memory != "" {
				out[corev1.ResourceMemory] = resource.MustParse(memory)
			}
			return out
		}
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(cpu, memory), Limits: list(cpuLimit, memoryLimit)}}
	}
	full := of("1", "1Gi", "1", "1Gi")
	for name, c := range map[string]struct {
		init, containers []corev1.Container
		want             bool
	}{
		"all":                       {[]corev1.Container{full}, []corev1.Container{full, full}, true},
		"limits without requests":   {nil, []corev1.Container{of("", "", "1", "1Gi")}, true},
		"no limit of CPU":           {nil, []corev1.Container{of("1", "1Gi", "", "1Gi")}, false},
		"a limit above":             {nil, []corev1.Container{full, of("1", "1Gi", "2", "1Gi")}, false},
		"nothing":                   {nil, []corev1.Container{of("", "", "", "")}, false},
		"an init container without": {[]corev1.Container{of("1", "", "", "")}, []corev1.Container{full}, false},
	} {
		if got := guaranteed(corev1.PodSpec{InitContainers: c.init, Containers: c.containers}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
