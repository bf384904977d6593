package gkesim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// autoscaledConfig has one pool of n2-standard-2 in two zones, 1 to 3 each.
func autoscaledConfig() Config {
	cfg := testConfig()
	cfg.Pools = []Pool{{
		Name: "pool", MachineType: "n2-standard-2", Zones: []string{"us-central1-a", "us-central1-b"},
		Size: 1, Autoscaling: true, MinPerZone: 1, MaxPerZone: 3,
	}}
	return cfg
}

// addPods creates n pods of a ReplicaSet which request cpu each.
func (b *bed) addPods(prefix string, n int, cpu string, edit ...func(*corev1.Pod)) {
	b.Helper()
	for i := range n {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprintf("%s-%d", prefix, i), UID: types.UID(fmt.Sprintf("%s-%d", prefix, i)),
				Labels:          map[string]string{"app": prefix},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: prefix, Controller: ptr.To(true)}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}}},
		}
		for _, e := range edit {
			e(pod)
		}
		if _, err := b.kube.CoreV1().Pods(pod.Namespace).Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.schedule()
}

// schedule is the scheduler: it binds pods that fit, in the order of their
// names, and marks the others.
func (b *bed) schedule() {
	b.Helper()
	ctx := context.Background()
	w, err := b.s.look(ctx)
	if err != nil {
		b.Fatal(err)
	}
	pods, err := b.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != "" {
			continue
		}
		known := unschedulable(pod)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		for _, n := range w.nodes {
			if n.fits(pod) {
				n.add(pod)
				pod.Spec.NodeName = n.node.Name
				pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
				break
			}
		}
		if known && pod.Spec.NodeName == "" {
			continue
		}
		if _, err := b.kube.CoreV1().Pods(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// live lets time pass with a scheduler at work.
func (b *bed) live(d time.Duration) {
	for end := b.clock.Now().Add(d); b.clock.Now().Before(end); {
		b.advance(time.Second)
		b.schedule()
	}
}

func (b *bed) deletePods(prefix string, n int) {
	b.Helper()
	for i := range n {
		if err := b.kube.CoreV1().Pods("shop").Delete(context.Background(), fmt.Sprintf("%s-%d", prefix, i), metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPoolGrowsForPodsThatFindNoNode(t *testing.T) {
	tests := map[string]struct {
		edit func(*Config)
		pods int
		cpu  string
		pod  func(*corev1.Pod)
		want map[string]int32
	}{
		// 1930m hold one pod of 1000m: 4 pods, 4 nodes.
		"spread over the zones": {pods: 4, cpu: "1000m", want: map[string]int32{"us-central1-a": 2, "us-central1-b": 2}},
		"not beyond the maximum": {
			pods: 20, cpu: "1000m", want: map[string]int32{"us-central1-a": 3, "us-central1-b": 3},
		},
		"not for what fits already": {pods: 2, cpu: "1000m", want: map[string]int32{"us-central1-a": 1, "us-central1-b": 1}},
		// 1930m would hold it, but for the DaemonSets.
		"not for pods larger than what the DaemonSets leave of a node": {
			pods: 4, cpu: "1800m", want: map[string]int32{"us-central1-a": 1, "us-central1-b": 1},
		},
		"in the zone that a pod asks for": {
			pods: 3, cpu: "1000m",
			pod: func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "us-central1-b"}
			},
			want: map[string]int32{"us-central1-a": 1, "us-central1-b": 3},
		},
		"not for pods that do not tolerate its taints": {
			edit: func(c *Config) {
				c.Pools[0].Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			},
			pods: 4, cpu: "1000m", want: map[string]int32{"us-central1-a": 1, "us-central1-b": 1},
		},
		"not for pods of a priority below the cutoff": {
			pods: 4, cpu: "1000m", pod: func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](-11) },
			want: map[string]int32{"us-central1-a": 1, "us-central1-b": 1},
		},
		"not where autoscaling is off": {
			edit: func(c *Config) { c.Pools[0].Autoscaling = false },
			pods: 4, cpu: "1000m", want: map[string]int32{"us-central1-a": 1, "us-central1-b": 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := autoscaledConfig()
			if tt.edit != nil {
				tt.edit(&cfg)
			}
			b := newBed(t, cfg)
			b.addPods("web", tt.pods, tt.cpu, func(p *corev1.Pod) {
				if tt.pod != nil {
					tt.pod(p)
				}
			})
			b.live(5 * time.Minute)
			if diff := cmp.Diff(tt.want, targetSizes(t, b.igm, b.s, "pool")); diff != "" {
				t.Errorf("target sizes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGrowthTakesThePoolOfLeastWaste(t *testing.T) {
	cfg := autoscaledConfig()
	zones := []string{"us-central1-a"}
	cfg.Pools = []Pool{
		{Name: "large", MachineType: "n2-standard-16", Zones: zones, Autoscaling: true, MaxPerZone: 5},
		{Name: "small", MachineType: "n2-standard-2", Zones: zones, Autoscaling: true, MaxPerZone: 5},
	}
	b := newBed(t, cfg)
	b.addPods("web", 1, "1500m")
	b.live(3 * time.Minute)
	if l, s := len(b.nodes("large")), len(b.nodes("small")); l != 0 || s != 1 {
		t.Errorf("%d large and %d small nodes, want 0 and 1", l, s)
	}
}

func TestStockoutLetsTheAutoscalerTryTheOtherZone(t *testing.T) {
	b := newBed(t, autoscaledConfig())
	b.s.Fail(Fault{Kind: Stockout, Zone: "us-central1-a"})
	b.addPods("web", 3, "1000m")
	b.live(4 * time.Minute)
	want := map[string]int32{"us-central1-a": 1, "us-central1-b": 2}
	if diff := cmp.Diff(want, targetSizes(t, b.igm, b.s, "pool")); diff != "" {
		t.Errorf("target sizes (-want +got):\n%s", diff)
	}
}

func TestInstancesThatNeverBecomeNodesAreGivenUp(t *testing.T) {
	b := newBed(t, autoscaledConfig())
	b.s.Fail(Fault{Kind: NeverRegisters, Times: 1})
	b.addPods("web", 3, "1000m")
	b.live(14 * time.Minute)
	if got := len(b.nodes("pool")); got != 2 {
		t.Errorf("after 14 min %d nodes, want the first 2", got)
	}
	b.live(5 * time.Minute)
	if got := len(b.nodes("pool")); got != 3 {
		t.Errorf("after 19 min %d nodes, want 3", got)
	}
}

func TestUnneededNodesGoAfterTenMinutes(t *testing.T) {
	b := newBed(t, autoscaledConfig())
	b.addPods("web", 6, "1000m")
	b.live(15 * time.Minute) // past the delay after the growth
	if got := len(b.nodes("pool")); got != 6 {
		t.Fatalf("%d nodes, want 6", got)
	}
	b.deletePods("web", 6)
	b.live(9 * time.Minute)
	if got := len(b.nodes("pool")); got != 6 {
		t.Errorf("after 9 min of idleness %d nodes, want 6", got)
	}
	b.live(3 * time.Minute)
	want := map[string]int32{"us-central1-a": 1, "us-central1-b": 1}
	if diff := cmp.Diff(want, targetSizes(t, b.igm, b.s, "pool")); diff != "" {
		t.Errorf("after 12 min of idleness, target sizes (-want +got):\n%s", diff)
	}
	if got := len(b.nodes("pool")); got != 2 {
		t.Errorf("after 12 min of idleness %d nodes, want 2", got)
	}
}

// Four nodes with a pod of 400m each (utilisation 400/1930 = 0.21): the pods of
// two fit on the others, so that two nodes are drained, one after the other,
// unless something forbids it.
func TestLittleUsedNodesAreDrainedUnlessSomethingForbidsIt(t *testing.T) {
	tests := map[string]struct {
		pod       func(*corev1.Pod)
		edit      func(*bed)
		wantNodes int
	}{
		"pods of a ReplicaSet move": {wantNodes: 2},
		"bare pods stay":            {pod: func(p *corev1.Pod) { p.OwnerReferences = nil }, wantNodes: 4},
		"bare pods that are safe to evict move": {
			pod: func(p *corev1.Pod) {
				p.OwnerReferences = nil
				p.Annotations = map[string]string{annotationSafeToEvict: "true"}
			},
			wantNodes: 2,
		},
		"pods that are not safe to evict stay": {
			pod:       func(p *corev1.Pod) { p.Annotations = map[string]string{annotationSafeToEvict: "false"} },
			wantNodes: 4,
		},
		"pods with local storage stay": {
			pod: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			},
			wantNodes: 4,
		},
		"pods whose local storage may be lost move": {
			pod: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
				p.Annotations = map[string]string{annotationSafeVolumes: "cache, scratch"}
			},
			wantNodes: 2,
		},
		"pods whose budget is used up stay": {
			edit: func(b *bed) {
				budget := &policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
					Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(4)), Selector: &metav1.LabelSelector{}},
				}
				if _, err := b.kube.PolicyV1().PodDisruptionBudgets("shop").Create(context.Background(), budget, metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			},
			wantNodes: 4,
		},
		"nodes that are annotated stay": {
			edit: func(b *bed) {
				for _, n := range b.nodes("pool") {
					n.Annotations[annotationScaleDownDisabled] = "true"
					if _, err := b.kube.CoreV1().Nodes().Update(context.Background(), &n, metav1.UpdateOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			},
			wantNodes: 4,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := autoscaledConfig()
			cfg.Pools[0].Size = 2
			b := newBed(t, cfg)
			nodes := names(b.nodes("pool"))
			next := 0
			b.addPods("web", 4, "400m", func(p *corev1.Pod) {
				p.Spec.NodeName = nodes[next]
				next++
				if tt.pod != nil {
					tt.pod(p)
				}
			})
			if tt.edit != nil {
				tt.edit(b)
			}
			// What the ReplicaSet controller does: evicted pods come again.
			for range 60 {
				b.live(30 * time.Second)
				for i := range 4 {
					name := fmt.Sprintf("web-%d", i)
					if _, err := b.kube.CoreV1().Pods("shop").Get(context.Background(), name, metav1.GetOptions{}); err == nil {
						continue
					}
					b.addPods("again-"+name, 1, "400m", func(p *corev1.Pod) { p.Name = name })
				}
			}
			if got := len(b.nodes("pool")); got != tt.wantNodes {
				t.Errorf("%d nodes, want %d", got, tt.wantNodes)
			}
			pods, _ := b.kube.CoreV1().Pods("shop").List(context.Background(), metav1.ListOptions{})
			for _, p := range pods.Items {
				if p.Spec.NodeName == "" {
					t.Errorf("pod %s has no node", p.Name)
				}
			}
		})
	}
}

func TestWellUsedNodesStay(t *testing.T) {
	cfg := autoscaledConfig()
	cfg.Pools[0].Size = 2
	b := newBed(t, cfg)
	nodes, next := names(b.nodes("pool")), 0
	// 1000/1930 = 0.52
	b.addPods("web", 4, "1000m", func(p *corev1.Pod) { p.Spec.NodeName = nodes[next]; next++ })
	b.live(20 * time.Minute)
	if got := len(b.nodes("pool")); got != 4 {
		t.Errorf("%d nodes, want 4", got)
	}
}

func TestRefusedEvictionsGiveTheNodeBack(t *testing.T) {
	cfg := autoscaledConfig()
	cfg.Pools[0].Size = 2
	b := newBed(t, cfg)
	nodes, next := names(b.nodes("pool")), 0
	b.addPods("web", 4, "400m", func(p *corev1.Pod) { p.Spec.NodeName = nodes[next]; next++ })
	refuse := true
	b.refuseEvictions(&refuse)
	b.live(11 * time.Minute)
	tainted := 0
	for _, n := range b.nodes("pool") {
		for _, taint := range n.Spec.Taints {
			if taint.Key == taintToBeDeleted {
				tainted++
			}
		}
	}
	if tainted != 1 {
		t.Errorf("while evictions are refused %d nodes are tainted, want 1", tainted)
	}
	b.live(2 * time.Minute)
	for _, n := range b.nodes("pool") {
		if len(n.Spec.Taints) != 0 {
			t.Errorf("after two minutes node %s still has taints %v", n.Name, n.Spec.Taints)
		}
	}
	if got := len(b.nodes("pool")); got != 4 {
		t.Errorf("%d nodes, want 4", got)
	}
}
