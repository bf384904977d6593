package sensing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
)

func container(cpu, memory string) corev1.Container {
	c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	if cpu != "" {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return c
}

func sidecar(cpu, memory string) corev1.Container {
	c := container(cpu, memory)
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

func antiAffinity(topology string, term corev1.PodAffinityTerm) *corev1.Affinity {
	term.TopologyKey = topology
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
	}}
}

func requireNodes(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func TestShape(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	const gi = 1 << 30
	tests := map[string]struct {
		pod  corev1.Pod
		want api.PodShape
	}{
		"containers add up": {
			pod:  corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("100m", "1Gi"), container("250m", "")}}},
			want: api.PodShape{Requests: api.Resources{MilliCPU: 350, Memory: gi, Pods: 1}},
		},
		"an init container counts where it is larger": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{container("50m", "3Gi"), container("400m", "")},
				Containers:     []corev1.Container{container("100m", "1Gi")},
			}},
			want: api.PodShape{Requests: api.Resources{MilliCPU: 400, Memory: 3 * gi, Pods: 1}},
		},
		"a sidecar runs beside containers and beside later init containers": {
			// CPU: containers 100+sidecar 50 = 150; init 200 after the
			// sidecar = 250. Memory: 1+1 = 2.
			pod: corev1.Pod{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{sidecar("50m", "1Gi"), container("200m", "")},
				Containers:     []corev1.Container{container("100m", "1Gi")},
			}},
			want: api.PodShape{Requests: api.Resources{MilliCPU: 250, Memory: 2 * gi, Pods: 1}},
		},
		"a runtime's overhead is on top": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{container("100m", "")},
				Overhead:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			}},
			want: api.PodShape{Requests: api.Resources{MilliCPU: 120, Memory: gi, Pods: 1}},
		},
		"extended resources by name, without those of nothing": {
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				"nvidia.com/gpu": resource.MustParse("2"), "example.com/none": resource.MustParse("0"),
			}}}}}},
			want: api.PodShape{Requests: api.Resources{Pods: 1, Extended: map[string]int64{"nvidia.com/gpu": 2}}},
		},
		"half a millicore is rounded up": {
			pod:  corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("100500u", "")}}},
			want: api.PodShape{Requests: api.Resources{MilliCPU: 101, Pods: 1}},
		},
		"affinity and tolerations, in an order of their own": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"disk": "ssd"},
				Affinity: requireNodes(
					corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: "zone", Operator: "In", Values: []string{"b", "a"}}, {Key: "arch", Operator: "Exists"},
					}},
					corev1.NodeSelectorTerm{},
				),
				Tolerations: []corev1.Toleration{
					{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)},
					{Key: "spot", Operator: "Equal", Value: "true", Effect: "NoSchedule"},
					{Key: "gpu", Operator: "Exists"},
				},
			}},
			want: api.PodShape{
				Requests:     api.Resources{Pods: 1},
				NodeSelector: map[string]string{"disk": "ssd"},
				Affinity: []api.NodeTerm{{Labels: []api.NodeRequirement{
					{Key: "arch", Operator: "Exists"}, {Key: "zone", Operator: "In", Values: []string{"a", "b"}},
				}}},
				Tolerations: []api.Toleration{
					{Key: "gpu", Operator: "Exists"}, {Key: "spot", Operator: "Equal", Value: "true", Effect: "NoSchedule"},
				},
			},
		},
		"a term that matches nothing is not one that matches all": {
			pod:  corev1.Pod{Spec: corev1.PodSpec{Affinity: requireNodes(corev1.NodeSelectorTerm{})}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, Affinity: []api.NodeTerm{}},
		},
		"a DaemonSet's pin to its node is not part of the shape": {
			pod: corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
				Spec: corev1.PodSpec{Affinity: requireNodes(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: "In", Values: []string{"node-1"}},
				}})},
			},
			want: api.PodShape{Requests: api.Resources{Pods: 1}},
		},
		"another pod's pin is": {
			pod: corev1.Pod{Spec: corev1.PodSpec{Affinity: requireNodes(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: "In", Values: []string{"node-1"}},
			}})}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, Affinity: []api.NodeTerm{{
				Names: []api.NodeRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"node-1"}}},
			}}},
		},
		"a host port is for one": {
			pod:  corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}, {HostPort: 443}}}}}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, MaxPerNode: 1, Unheeded: "host ports"},
		},
		"a host port of a sidecar is for one": {
			pod: corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{
				{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{HostPort: 443}}},
			}}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, MaxPerNode: 1, Unheeded: "host ports"},
		},
		"a host port of an init container is for none": {
			pod:  corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "init", Ports: []corev1.ContainerPort{{HostPort: 443}}}}}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}},
		},
		"anti-affinity to its own kind is for one": {
			pod: corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Affinity: antiAffinity(corev1.LabelHostname, corev1.PodAffinityTerm{LabelSelector: web})},
			},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, MaxPerNode: 1},
		},
		"anti-affinity to its own kind over zones is for one in each": {
			pod: corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Affinity: antiAffinity(corev1.LabelTopologyZone, corev1.PodAffinityTerm{LabelSelector: web})},
			},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, MaxPerZone: 1},
		},
		"the strictest spread over zones that must be kept counts": {
			pod: corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
					{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 3, LabelSelector: web},
					{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 2, LabelSelector: web},
					{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 1, LabelSelector: web},
					{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1, LabelSelector: web},
					{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
				}},
			},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, ZoneSkew: 2, Unheeded: "topology spread over kubernetes.io/hostname"},
		},
		"anti-affinity to others or in other namespaces is not": {
			pod: corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
						{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
						{TopologyKey: corev1.LabelHostname, LabelSelector: web, Namespaces: []string{"other"}},
						{TopologyKey: corev1.LabelHostname, LabelSelector: nil},
					},
				}}},
			},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, Unheeded: "required anti-affinity to other pods than its copies"},
		},
		"anti-affinity to no pods is none": {
			pod:  corev1.Pod{Spec: corev1.PodSpec{Affinity: antiAffinity(corev1.LabelHostname, corev1.PodAffinityTerm{})}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}},
		},
		"affinity to pods is not held": {
			pod: corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: web}},
			}}}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, Unheeded: "required affinity to pods"},
		},
		"a preference is no rule": {
			pod: corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: web}}},
			}}}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}},
		},
		"resource claims are not held": {
			pod:  corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}}},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, Unheeded: "resource claims"},
		},
		"topology spread is not a limit per node": {
			pod: corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: web,
				}}},
			},
			want: api.PodShape{Requests: api.Resources{Pods: 1}, Unheeded: "topology spread over kubernetes.io/hostname"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := shapeOf(&tt.pod)
			if got.ID == "" || got.ID != shapeOf(tt.pod.DeepCopy()).ID {
				t.Errorf("ID %q is not that of an equal pod", got.ID)
			}
			got.ID = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("shape (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShapesAreShared(t *testing.T) {
	s := newShapes()
	pods := func(cpu string) *corev1.Pod { return &corev1.Pod{Spec: template(cpu).Spec} }
	a, b, c := s.of(pods("100m")), s.of(pods("0.1")), s.of(pods("200m"))
	if a != b {
		t.Error("equal pods have two shapes")
	}
	if a == c || a.ID == c.ID {
		t.Error("different pods have one shape")
	}
	for i := range 200 {
		s.of(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"n": string(rune('0' + i))}}})
	}
	s.keep(map[*api.PodShape]bool{a: true})
	if len(s.byID) != 1 || s.of(pods("100m")) != a {
		t.Errorf("%d shapes kept, want the one in use", len(s.byID))
	}
}

func TestDoNotDisrupt(t *testing.T) {
	emptyDir := corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	shm := corev1.Volume{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
	host := corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}
	tests := map[string]struct {
		annotations map[string]string
		volumes     []corev1.Volume
		want        string
	}{
		"nothing forbids it":                   {},
		"Karpenter's annotation":               {annotations: map[string]string{karpenterDoNotDisrupt: "true"}, want: "annotation karpenter.sh/do-not-disrupt"},
		"the Cluster Autoscaler's annotation":  {annotations: map[string]string{safeToEvict: "false"}, want: "annotation cluster-autoscaler.kubernetes.io/safe-to-evict"},
		"local storage":                        {volumes: []corev1.Volume{shm, emptyDir}, want: "local storage tmp"},
		"a host path":                          {volumes: []corev1.Volume{host}, want: "local storage host"},
		"memory is not storage":                {volumes: []corev1.Volume{shm}},
		"local storage that may be lost":       {annotations: map[string]string{safeToEvict: "true"}, volumes: []corev1.Volume{emptyDir}},
		"only the other volume may be lost":    {annotations: map[string]string{safeToEvictLocalVolumes: "host, x"}, volumes: []corev1.Volume{host, emptyDir}, want: "local storage tmp"},
		"each volume may be lost, by its name": {annotations: map[string]string{safeToEvictLocalVolumes: "host,tmp"}, volumes: []corev1.Volume{host, emptyDir}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}, Spec: corev1.PodSpec{Volumes: tt.volumes}}
			if got := doNotDisrupt(p); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestGated: the scheduler does not look at a pod before all its gates are gone.
func TestGated(t *testing.T) {
	for gate, want := range map[string]bool{"kueue.x-k8s.io/admission": true, "": false} {
		p := podOn("job", 1, "", epoch)
		p.Status = corev1.PodStatus{Phase: corev1.PodPending}
		if gate != "" {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
		}
		if got := newShapes().podRecord(p).pod; got.Gated != want || got.Unschedulable {
			t.Errorf("gate %q: gated %v, unschedulable %v", gate, got.Gated, got.Unschedulable)
		}
	}
}
