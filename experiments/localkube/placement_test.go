package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

var updatePlacements = flag.Bool("update-placements", false, "draw the cases again, and let the scheduler answer them")

// placements are cases that sensing's own test answers with package placement.
const placements = "../../sensing/testdata/scheduler.json"

// A placementCase is a pod, nodes with pods on them, and where the scheduler would let
// the pod run.
type placementCase struct {
	Nodes []*corev1.Node `json:"nodes"`
	Pods  []*corev1.Pod  `json:"pods,omitempty"`
	Pod   *corev1.Pod    `json:"pod"`
	Fits  []string       `json:"fits"`
}

// TestPlacements asks the plugins of kube-scheduler, in its default profile, where each
// pod may run, and holds the recorded answers to that.
func TestPlacements(t *testing.T) {
	metrics.Register()
	var cases []placementCase
	if *updatePlacements {
		cases = drawPlacements(rand.New(rand.NewPCG(1, 2)), 100)
	} else {
		b, err := os.ReadFile(placements)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &cases); err != nil {
			t.Fatal(err)
		}
	}
	some, all := 0, 0
	for i := range cases {
		c := &cases[i]
		fits := schedulable(t, c)
		some, all = some+len(fits), all+len(c.Nodes)
		if *updatePlacements {
			c.Fits = fits
		} else if fmt.Sprint(fits) != fmt.Sprint(c.Fits) {
			t.Errorf("case %d: the scheduler lets the pod run on %v, recorded are %v", i, fits, c.Fits)
		}
	}
	if len(cases) < 100 || some < all/10 || some > all*9/10 {
		t.Errorf("%d cases in which %d of %d nodes fit show little", len(cases), some, all)
	}
	if *updatePlacements {
		var out bytes.Buffer
		out.WriteString("[\n")
		for i, c := range cases {
			out.Write(brief(t, c))
			if i < len(cases)-1 {
				out.WriteString(",")
			}
			out.WriteString("\n")
		}
		out.WriteString("]\n")
		if err := os.WriteFile(placements, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// brief is a case without what is empty.
func brief(t *testing.T, c placementCase) []byte {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for _, o := range append(all["nodes"].([]any), all["pod"]) {
		status := o.(map[string]any)["status"].(map[string]any)
		delete(status, "nodeInfo")
		delete(status, "daemonEndpoints")
	}
	if b, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return b
}

// schedulable are the nodes that every filter of the scheduler lets the pod run on.
func schedulable(t *testing.T, c *placementCase) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	config, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	// Claims of devices ask a cluster for drivers; no case has any.
	points := config.Profiles[0].Plugins
	points.MultiPoint.Enabled = slices.DeleteFunc(points.MultiPoint.Enabled, func(p schedulerapi.Plugin) bool { return p.Name == names.DynamicResources })
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	snapshot := cache.NewSnapshot(c.Pods, c.Nodes)
	profile, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), &config.Profiles[0],
		runtime.WithClientSet(client), runtime.WithInformerFactory(factory), runtime.WithSnapshotSharedLister(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	state := framework.NewCycleState()
	fits := []string{}
	before, status, _ := profile.RunPreFilterPlugins(ctx, state, c.Pod)
	if !status.IsSuccess() {
		return fits
	}
	for _, n := range c.Nodes {
		if before != nil && !before.AllNodes() && !before.NodeNames.Has(n.Name) {
			continue
		}
		info, err := snapshot.Get(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		if profile.RunFilterPlugins(ctx, state, c.Pod, info).IsSuccess() {
			fits = append(fits, n.Name)
		}
	}
	return fits
}

// drawPlacements draws pods under the rules that package placement holds: resources,
// selectors, affinity, taints, cordons, host ports and anti-affinity to own copies.
func drawPlacements(r *rand.Rand, n int) []placementCase {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	quantity := func(milli int) resource.Quantity { return *resource.NewMilliQuantity(int64(milli), resource.DecimalSI) }
	var out []placementCase
	for range n {
		var c placementCase
		for i := range 4 {
			name := fmt.Sprintf("n%d", i)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: pick("a", "b"), "disk": pick("ssd", "hdd"),
			}}}
			if r.IntN(3) == 0 {
				node.Labels["rank"] = pick("1", "5", "x")
			}
			for range r.IntN(2) {
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
					Key: pick("spot", "gpu"), Value: pick("", "yes"), Effect: corev1.TaintEffect(pick("NoSchedule", "NoExecute", "PreferNoSchedule")),
				})
			}
			node.Spec.Unschedulable = r.IntN(6) == 0
			node.Status.Allocatable = corev1.ResourceList{
				corev1.ResourceCPU: quantity(500 + 250*r.IntN(4)), corev1.ResourceMemory: resource.MustParse(pick("512Mi", "1Gi")),
				corev1.ResourcePods: resource.MustParse(pick("2", "10")),
			}
			if r.IntN(4) == 0 {
				node.Status.Allocatable["example.com/gpu"] = resource.MustParse("2")
			}
			c.Nodes = append(c.Nodes, node)
		}
		template := drawPod(r)
		c.Pod = template.DeepCopy()
		c.Pod.Name = "new"
		for i := range r.IntN(6) {
			pod := drawPod(r)
			if r.IntN(2) == 0 {
				pod = template.DeepCopy() // a copy
			} else { // of somebody else, under no rule about others
				pod.Labels, pod.Spec.Affinity = map[string]string{"app": "other"}, nil
				pod.Spec.Containers[0].Ports = nil
			}
			pod.Name, pod.Spec.NodeName = fmt.Sprintf("p%d", i), c.Nodes[r.IntN(4)].Name
			c.Pods = append(c.Pods, pod)
		}
		out = append(out, c)
	}
	return out
}

func drawPod(r *rand.Rand) *corev1.Pod {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}}}
	container := corev1.Container{Name: "app"}
	container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick("0", "100m", "250m", "600m"))}
	if r.IntN(2) == 0 {
		container.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(pick("128Mi", "600Mi"))
	}
	if r.IntN(8) == 0 {
		container.Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	}
	pod.Spec.Containers = []corev1.Container{container}
	if r.IntN(4) == 0 {
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick("50m", "700m"))},
		}}}
	}
	if r.IntN(4) == 0 {
		pod.Spec.NodeSelector = map[string]string{"disk": pick("ssd", "hdd")}
	}
	requirement := func() corev1.NodeSelectorRequirement {
		q := corev1.NodeSelectorRequirement{Key: pick("disk", "rank", corev1.LabelTopologyZone), Operator: corev1.NodeSelectorOperator(pick("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))}
		switch q.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			q.Values = []string{pick("ssd", "a", "1"), pick("hdd", "b", "5")}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			q.Values = []string{pick("2", "5")}
		}
		return q
	}
	if r.IntN(2) == 0 {
		var terms []corev1.NodeSelectorTerm
		for range 1 + r.IntN(2) {
			var term corev1.NodeSelectorTerm
			for range r.IntN(3) { // of none: it matches nothing
				term.MatchExpressions = append(term.MatchExpressions, requirement())
			}
			if r.IntN(6) == 0 {
				term.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{pick("n0", "n1")}}}
			}
			terms = append(terms, term)
		}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	for range r.IntN(3) {
		toleration := corev1.Toleration{Key: pick("spot", "gpu", ""), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(pick("", "NoSchedule", "NoExecute"))}
		if toleration.Key != "" && r.IntN(2) == 0 {
			toleration.Operator, toleration.Value = corev1.TolerationOpEqual, pick("", "yes")
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
	}
	switch r.IntN(6) {
	case 0:
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: corev1.ProtocolTCP}}
	case 1:
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{}
		}
		pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}}
	}
	return pod
}
