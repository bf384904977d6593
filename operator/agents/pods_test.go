package agents

import (
	"fmt"
	"math"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/vertical"
)

func TestTakes(t *testing.T) {
	make := func(change func(*corev1.Pod)) *corev1.Pod {
		cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: cpu.DeepCopy(), Limits: cpu.DeepCopy()}}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	for name, c := range map[string]struct {
		pod       *corev1.Pod
		container string
		want      Pod
		refused   string
	}{
		"request and limit are one": {make(nil), "", Pod{Request: 200, Together: true, Pod: vertical.Pod{Limit: 200, Held: 200}}, ""},
		"a lower request stays": {make(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("80m")
		}), "main", Pod{Request: 80, Pod: vertical.Pod{Limit: 200, Held: 200}}, ""},
		"a resize is under way": {make(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Resources: &corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
			}}}
		}), "", Pod{Request: 200, Together: true, Pod: vertical.Pod{Limit: 200, Held: 500}}, ""},
		"no limit":          {make(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }), "", Pod{}, "needs a request and a limit"},
		"it is pending":     {make(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), "", Pod{}, "Pending"},
		"it is going":       {make(func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }), "", Pod{}, "being deleted"},
		"no such container": {make(nil), "side", Pod{}, `no container "side"`},
		"two containers":    {make(func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "side"}) }), "", Pod{}, "name one"},
		"a resize restarts it": {make(func(p *corev1.Pod) {
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}), "", Pod{}, "restarted"},
		"an infeasible resize": {make(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "too large"}}
		}), "", Pod{}, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Takes(c.pod, c.container)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || got.Request != c.want.Request || got.Together != c.want.Together || got.Limit != c.want.Limit || got.Held != c.want.Held || got.Container != "main" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestRefusal: a running pod that takes no part has its limits all the same: what its node gives
// it, or what its spec says where that is more and not refused.
func TestRefusal(t *testing.T) {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	for name, c := range map[string]struct {
		change    func(*corev1.Pod)
		container string
		want      Refused
		back      string // what is written
	}{
		"it is going":         {func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }, "", Refused{CPU: 700, Memory: 90 << 20, Ending: true}, ""},
		"it has not begun":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, "", Refused{}, ""},
		"two containers":      {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) }, "", Refused{CPU: 1400, Memory: 180 << 20}, ""},
		"another container":   {func(*corev1.Pod) {}, "side", Refused{}, ""},
		"a limit, no request": {func(p *corev1.Pod) { delete(p.Spec.Containers[0].Resources.Requests, corev1.ResourceCPU) }, "", Refused{CPU: 700, Memory: 90 << 20}, ""},
		"its node refuses a resize": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "too large"}}
		}, "", Refused{CPU: 300, Memory: 80 << 20}, "300m of 300m, 80Mi of 80Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts("700m", "90Mi"), Limits: amounts("700m", "90Mi")}}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
					{Name: "main", Resources: &corev1.ResourceRequirements{Limits: amounts("300m", "80Mi")}},
				}},
			}
			c.change(p)
			takes, err := Takes(p, c.container)
			if err == nil {
				t.Fatal("it takes part")
			}
			got := refusal(p, c.container, takes, err)
			if got.CPU != c.want.CPU || got.Memory != c.want.Memory || got.Ending != c.want.Ending || got.Why != err.Error() {
				t.Errorf("%+v", got)
			}
			var writes []string
			for _, a := range back([]Refused{got}) {
				r := a.(api.ResizePod)
				if r.Limits.MilliCPU > 0 {
					writes = append(writes, fmt.Sprintf("%dm of %dm", r.To.MilliCPU, r.Limits.MilliCPU))
				} else {
					writes = append(writes, quantity(r.To.Memory)+" of "+quantity(r.Limits.Memory))
				}
			}
			if got := strings.Join(writes, ", "); got != c.back {
				t.Errorf("writes %q, want %q", got, c.back)
			}
		})
	}
}

// TestTakesMemory: memory needs a request and a limit of its own, and no restart.
func TestTakesMemory(t *testing.T) {
	of := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		if memory != "" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	finished := metav1.NewTime(start)
	for name, c := range map[string]struct {
		request, limit string
		change         func(*corev1.Pod)
		want           vertical.Pod
		together       bool
		stays          string
	}{
		"request and limit are one": {request: "128Mi", limit: "128Mi", want: vertical.Pod{Limit: 128 << 20, Held: 128 << 20}, together: true},
		"a lower request stays":     {request: "64Mi", limit: "128Mi", want: vertical.Pod{Limit: 128 << 20, Held: 128 << 20, Floor: 65 << 20}},
		"no limit":                  {request: "64Mi", stays: "no request and limit of memory"},
		"a resize restarts it": {request: "64Mi", limit: "64Mi", stays: "restarted", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
		}},
		"a resize is under way, after a kill": {request: "128Mi", limit: "128Mi", together: true, want: vertical.Pod{Limit: 128 << 20, Held: 100 << 20, Killed: start}, change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "main", Resources: &corev1.ResourceRequirements{Limits: of("1", "100Mi")},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: finished}},
			}}
		}},
		"its node does not lower the limit": {request: "128Mi", limit: "128Mi", together: true, want: vertical.Pod{Limit: 128 << 20, Held: 200 << 20, Stuck: true}, change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Resources: &corev1.ResourceRequirements{Limits: of("1", "200Mi")}}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError}}
		}},
		"another end is no kill": {request: "128Mi", limit: "128Mi", together: true, want: vertical.Pod{Limit: 128 << 20, Held: 128 << 20}, change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name:                 "main",
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", FinishedAt: finished}},
			}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{
				Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: of("1", c.request), Limits: of("1", c.limit)}}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			if c.change != nil {
				c.change(p)
			}
			got, err := Takes(p, "")
			if err != nil {
				t.Fatal(err)
			}
			if c.stays != "" {
				if !strings.Contains(got.MemoryStays, c.stays) {
					t.Errorf("%q", got.MemoryStays)
				}
				return
			}
			if got.Memory != c.want || got.MemoryTogether != c.together || got.MemoryStays != "" {
				t.Errorf("%+v, together %v, %q; want %+v", got.Memory, got.MemoryTogether, got.MemoryStays, c.want)
			}
		})
	}
}

// TestCgroups: both versions, both drivers; a rate needs two readings.
func TestCgroups(t *testing.T) {
	const uid = "0d1e-22"
	for name, file := range map[string]string{
		"v2, cgroupfs":                "kubepods/burstable/pod0d1e-22/cpu.stat",
		"v2, systemd":                 "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0d1e_22.slice/cpu.stat",
		"v2, systemd, guaranteed":     "kubepods.slice/kubepods-pod0d1e_22.slice/cpu.stat",
		"v1":                          "cpuacct/kubepods/pod0d1e-22/cpuacct.usage",
		"v1, controllers in one tree": "cpu,cpuacct/kubepods/besteffort/pod0d1e-22/cpuacct.usage",
	} {
		t.Run(name, func(t *testing.T) {
			text := func(used time.Duration) *fstest.MapFile {
				if strings.HasPrefix(name, "v1") {
					return &fstest.MapFile{Data: []byte(fmt.Sprintf("%d\n", used.Nanoseconds()))}
				}
				return &fstest.MapFile{Data: []byte(fmt.Sprintf("usage_usec %d\nuser_usec 1\n", used.Microseconds()))}
			}
			files := fstest.MapFS{file: text(10 * time.Second)}
			folder, usage, stat := path.Dir(file), "memory.current", "anon 1\ninactive_file 800\nactive_file 1300\n"
			if strings.HasPrefix(name, "v1") {
				folder = path.Join("memory", strings.SplitN(folder, "/", 2)[1])
				usage, stat = "memory.usage_in_bytes", "inactive_file 7\nactive_file 9\ntotal_inactive_file 800\ntotal_active_file 1300\n"
			}
			files[path.Join(folder, usage)] = &fstest.MapFile{Data: []byte("5000\n")}
			files[path.Join(folder, "memory.stat")] = &fstest.MapFile{Data: []byte(stat)}
			now := start
			c := &Cgroups{FS: files, Now: func() time.Time { return now }}
			pods := []Pod{{Pod: vertical.Pod{ID: uid}}}
			if got, err := c.Read(t.Context(), pods); err != nil || len(got) != 0 {
				t.Fatalf("%v, %v", got, err)
			}
			now = now.Add(2 * time.Second)
			files[file] = text(10*time.Second + 500*time.Millisecond)
			if got, err := c.Read(t.Context(), pods); err != nil || math.Abs(got[uid].MilliCPU-250) > 0.01 || got[uid].Memory != 4200 || got[uid].Files != 1300 || !got[uid].At.Equal(now) {
				t.Errorf("%v, %v", got, err)
			}
			delete(files, path.Join(folder, "memory.stat"))
			now = now.Add(time.Second)
			if got, err := c.Read(t.Context(), pods); err != nil || got[uid].MilliCPU != 0 || !math.IsNaN(got[uid].Memory) {
				t.Errorf("without memory: %v, %v", got, err)
			}
			now = now.Add(time.Second)
			files[file] = text(time.Second) // another container's counter
			if got, err := c.Read(t.Context(), pods); err != nil || len(got) != 0 {
				t.Errorf("backwards: %v, %v", got, err)
			}
		})
	}
	c := &Cgroups{FS: fstest.MapFS{}, Now: time.Now}
	if _, err := c.Read(t.Context(), []Pod{{Pod: vertical.Pod{ID: uid}}}); err == nil {
		t.Error("no error without a cgroup")
	}
}

// TestCgroupsBelowTheKubelets: its --cgroup-root is a path with both drivers, as in kind; the
// name of its slice does as well.
func TestCgroupsBelowTheKubelets(t *testing.T) {
	for name, c := range map[string]struct {
		roots []string
		dir   string
	}{
		"cgroupfs":                   {[]string{"/kubelet", "kubelet", "kubelet/"}, "kubelet/kubepods/burstable/pod1-2"},
		"systemd, as in kind":        {[]string{"/kubelet", "kubelet", "/kubelet.slice"}, "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod1_2.slice"},
		"systemd, guaranteed":        {[]string{"/kubelet"}, "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1_2.slice"},
		"systemd, two levels":        {[]string{"/a-b/c", "a_b.slice/a_b-c.slice"}, "a_b.slice/a_b-c.slice/a_b-c-kubepods.slice/a_b-c-kubepods-pod1_2.slice"},
		"systemd, root":              {[]string{"/", ""}, "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice"},
		"systemd, below a container": {[]string{"docker/abc"}, "docker/abc/kubepods.slice/kubepods-pod1_2.slice"},
	} {
		files := fstest.MapFS{path.Join(c.dir, "cpu.stat"): {Data: []byte("usage_usec 7\n")}}
		for _, root := range c.roots {
			if used, err := (&Cgroups{FS: files, Root: root}).used("1-2"); used != 7*time.Microsecond || err != nil {
				t.Errorf("%s, root %q: %v, %v", name, root, used, err)
			}
		}
	}
}

func FuzzUsageUsec(f *testing.F) {
	f.Add([]byte("usage_usec 12\n"))
	f.Add([]byte("nr_periods 1\nusage_usec 99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if used, err := usageUsec(text); err == nil && used < 0 {
			t.Errorf("%v", used)
		}
	})
}

func TestMetricsAPI(t *testing.T) {
	pods := []Pod{{Pod: vertical.Pod{ID: "1"}, Key: api.Key{Namespace: "shop", Name: "a"}, Container: "main"}, {Pod: vertical.Pod{ID: "2"}, Key: api.Key{Namespace: "shop", Name: "b"}, Container: "main"}}
	got, err := usages([]byte(`{"items":[{"metadata":{"name":"a","namespace":"shop"},"timestamp":"2026-05-04T12:00:00Z","window":"15s",
		"containers":[{"name":"side","usage":{"cpu":"9"}},{"name":"main","usage":{"cpu":"123456789n"}}]}]}`), pods)
	if err != nil || len(got) != 1 || math.Abs(got["1"].MilliCPU-123.456789) > 1e-6 || !got["1"].At.Equal(start) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := usages([]byte("<html>"), pods); err == nil {
		t.Error("no error")
	}
}
