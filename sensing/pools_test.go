package sensing

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
)

func daemonSet(name, cpu string, change func(*corev1.PodSpec)) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: appsv1.DaemonSetSpec{Template: template(cpu)}}
	if change != nil {
		change(&d.Spec.Template.Spec)
	}
	return d
}

func TestPoolOverhead(t *testing.T) {
	gpuOnly := func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"gpu": "true"} }
	tests := map[string]struct {
		daemons []*appsv1.DaemonSet
		pool    api.Pool
		live    bool             // the pool has a Ready node
		running map[string]int64 // DaemonSets' pods on it, by name, in millicores
		mirror  int64            // static pod on another pool's node, in millicores
		control bool             // that is a node of the control plane
		want    int64
	}{
		"an empty pool by the DaemonSets that would run there": {
			daemons: []*appsv1.DaemonSet{daemonSet("a", "100m", nil), daemonSet("gpu", "500m", gpuOnly)},
			want:    100,
		},
		"a selector that the pool's labels satisfy": {
			daemons: []*appsv1.DaemonSet{daemonSet("gpu", "500m", gpuOnly)},
			pool:    api.Pool{Labels: map[string]string{"gpu": "true"}}, want: 500,
		},
		"a required affinity that they don't": {
			daemons: []*appsv1.DaemonSet{daemonSet("gpu", "500m", func(s *corev1.PodSpec) {
				s.Affinity = requireNodes(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: "Exists"}}})
			})},
			want: 0,
		},
		"a taint keeps off who doesn't tolerate it": {
			daemons: []*appsv1.DaemonSet{
				daemonSet("a", "100m", nil),
				daemonSet("b", "30m", func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Operator: "Exists"}} }),
			},
			pool: api.Pool{Taints: []api.Taint{{Key: "spot", Value: "true", Effect: "NoSchedule"}}}, want: 30,
		},
		"a taint of a node's start keeps off nobody for long": {
			daemons: []*appsv1.DaemonSet{daemonSet("a", "100m", nil)},
			pool:    api.Pool{Taints: []api.Taint{{Key: "node.cilium.io/agent-not-ready", Value: "true", Effect: "NoExecute"}}}, want: 100,
		},
		"a preference keeps nobody off": {
			daemons: []*appsv1.DaemonSet{daemonSet("a", "100m", nil)},
			pool:    api.Pool{Taints: []api.Taint{{Key: "spot", Effect: "PreferNoSchedule"}}}, want: 100,
		},
		"every DaemonSet tolerates a node under pressure": {
			daemons: []*appsv1.DaemonSet{daemonSet("a", "100m", nil)},
			pool:    api.Pool{Taints: []api.Taint{{Key: corev1.TaintNodeDiskPressure, Effect: "NoSchedule"}}}, want: 100,
		},
		"static pods as on the cluster's other nodes": {
			daemons: []*appsv1.DaemonSet{daemonSet("a", "100m", nil)}, mirror: 70, want: 170,
		},
		"but not as those of the control plane": {
			daemons: []*appsv1.DaemonSet{daemonSet("a", "100m", nil)}, mirror: 650, control: true, want: 100,
		},
		"what was seen on a live node": {
			daemons: []*appsv1.DaemonSet{daemonSet("a", "100m", nil)}, live: true, running: map[string]int64{"a": 150}, mirror: 70, want: 150,
		},
		"a fresh node whose DaemonSets don't run yet": {
			daemons: []*appsv1.DaemonSet{daemonSet("a", "100m", nil)}, live: true, want: 100,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			for _, d := range tt.daemons {
				w.put(d)
			}
			tt.pool.Name = "e2"
			w.pools = []api.Pool{tt.pool}
			if tt.live {
				w.put(node("node-1", "e2"))
			}
			for name, cpu := range tt.running {
				p := podOn(name, 1, "node-1", epoch)
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: name, Controller: ptr.To(true)}}
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}
				w.put(p)
			}
			if tt.mirror > 0 {
				p := podOn("kube-proxy", 1, "node-2", epoch)
				p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(tt.mirror, resource.DecimalSI)}
				other := node("node-2", "n2")
				if tt.control {
					other.Labels[labelControlPlane] = ""
				}
				w.put(other, p)
			}
			if got := w.observe().Pools[0].Overhead.MilliCPU; got != tt.want {
				t.Errorf("overhead = %dm, want %dm", got, tt.want)
			}
		})
	}
}

// TestStandingUsage: what nodes use beside pods that are placed one by one, as three of four
// of a pool's nodes; not known without readings of nodes.
func TestStandingUsage(t *testing.T) {
	w := newWorld(t, nil)
	w.nodeUsage = nil
	w.shop("web", 2)        // on node-1, 400m each
	w.usage[w.agent()] = 60 // a DaemonSet's pod there
	w.put(node("node-2", "e2"), node("node-3", "e2"), node("node-4", "e2"), node("node-5", "e2"), node("node-6", "n2"))
	w.pools = append(w.pools, api.Pool{Name: "n2"}, api.Pool{Name: "empty"})
	read := func() (out []float64) {
		w.clock.Step(time.Minute)
		s := w.observe()
		if told := len(findings(s, ReasonNodeUsageUnread)) == 1; told != (w.nodeUsage == nil) {
			t.Errorf("readings %v: told %v", w.nodeUsage, s.Findings)
		}
		for _, p := range s.Pools {
			if p.StandingUsage == nil {
				out = append(out, -1)
			} else {
				out = append(out, *p.StandingUsage)
			}
		}
		return out
	}
	if diff := cmp.Diff([]float64{-1, -1, -1}, read()); diff != "" {
		t.Errorf("without readings (-want +got):\n%s", diff)
	}
	w.nodeUsage = map[string]int64{"node-1": 950, "node-2": 90, "node-3": 100, "node-4": 110, "node-5": 700, "node-6": 30, "node-7": 1}
	if diff := cmp.Diff([]float64{150, -1, 30}, read(), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.nodeUsage = nil
	if diff := cmp.Diff([]float64{-1, -1, -1}, read()); diff != "" {
		t.Errorf("once they can't be read (-want +got):\n%s", diff)
	}
}

// agent puts a DaemonSet's pod on node-1.
func (w *world) agent() api.Key {
	p := podOn("agent", 1, "node-1", epoch.Add(-time.Hour))
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: ptr.To(true)}}
	w.put(p)
	return api.Key{Namespace: ns, Name: p.Name}
}

func TestPoolAllocatable(t *testing.T) {
	w := newWorld(t, nil)
	told := api.Resources{MilliCPU: 940, Memory: 1 << 30, Pods: 110}
	w.pools = []api.Pool{{Name: "e2", Allocatable: told}, {Name: "n2", Allocatable: told}}
	small, unready := node("node-2", "e2"), node("node-3", "e2")
	small.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("900m")
	unready.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1m")
	unready.Status.Conditions = nil
	w.put(node("node-1", "e2"), small, unready)
	s := w.observe()
	want := api.Resources{MilliCPU: 900, Memory: 6 << 30, Pods: 110}
	if diff := cmp.Diff(want, s.Pools[0].Allocatable); diff != "" {
		t.Errorf("of a pool with nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(told, s.Pools[1].Allocatable); diff != "" {
		t.Errorf("of a pool without (-want +got):\n%s", diff)
	}
}

// What a further node of a pool has of devices is what most of its nodes have: one whose device
// plugin is away does not take the device from the pool, nor does one node give it to all.
func TestPoolDevices(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []string // amounts, empty for none
		want  int64
	}{
		"all":                      {nodes: []string{"2", "1", "2"}, want: 1},
		"a plugin is away":         {nodes: []string{"1", "0", "1"}, want: 1},
		"it has never been there":  {nodes: []string{"1", "", "1"}, want: 1},
		"half of them":             {nodes: []string{"1", "0"}},
		"one of several":           {nodes: []string{"1", "", ""}},
		"none, whatever was told":  {nodes: []string{"", ""}},
		"an empty pool as is told": {want: 8},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.pools = []api.Pool{{Name: "e2", Allocatable: api.Resources{Extended: map[string]int64{"example.com/gpu": 8}}}}
			for i, amount := range c.nodes {
				n := node(fmt.Sprintf("node-%d", i), "e2")
				if amount != "" {
					n.Status.Allocatable["example.com/gpu"] = resource.MustParse(amount)
				}
				w.put(n)
			}
			if got := w.observe().Pools[0].Allocatable.Extended["example.com/gpu"]; got != c.want {
				t.Errorf("a further node has %d, want %d", got, c.want)
			}
		})
	}
}

// The taints of a pool are those that its Ready nodes share, whatever its provider says.
func TestPoolTaints(t *testing.T) {
	dedicated := corev1.Taint{Key: "dedicated", Value: "others", Effect: corev1.TaintEffectNoSchedule}
	startup := corev1.Taint{Key: "example.com/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}
	pressure := corev1.Taint{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule}
	type taints = []corev1.Taint
	tests := map[string]struct {
		told  taints
		nodes []taints
		want  taints
	}{
		"of an empty pool the provider's":                {told: taints{dedicated}, want: taints{dedicated}},
		"but for those of its nodes' start":              {told: taints{startup, dedicated}, want: taints{dedicated}},
		"nor those of a node's start":                    {told: taints{startup}, nodes: []taints{{startup}}},
		"those that the provider doesn't tell of":        {nodes: []taints{{dedicated}, {dedicated}}, want: taints{dedicated}},
		"not those that are taken off later":             {told: taints{startup, dedicated}, nodes: []taints{{dedicated}}, want: taints{dedicated}},
		"not those of one node":                          {nodes: []taints{{dedicated}, nil}},
		"nor of the only node, which may be its own":     {nodes: []taints{{dedicated}}},
		"nor a state in which all nodes are":             {nodes: []taints{{pressure}, {pressure}}},
		"a taint with another value is another one":      {nodes: []taints{{dedicated}, {{Key: "dedicated", Effect: dedicated.Effect}}}},
		"what the provider tells of, as on the only one": {told: taints{dedicated}, nodes: []taints{{dedicated, pressure}}, want: taints{dedicated}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.pools = []api.Pool{{Name: "e2", Taints: taintsOf(tt.told)}}
			for i, of := range tt.nodes {
				n := node(fmt.Sprintf("node-%d", i), "e2")
				n.Spec.Taints = append(of, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
				w.put(n)
			}
			booting := node("node-9", "e2")
			booting.Status.Conditions = nil
			w.put(booting)
			if diff := cmp.Diff(taintsOf(tt.want), w.observe().Pools[0].Taints); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A pool that can't be read in full is held by who tells of it, and all others are as they are.
func TestOnePoolThatCannotBeRead(t *testing.T) {
	s := &poolSource{timeout: time.Second, reader: onePoolUnread{}}
	pools, found := s.read(t.Context())
	if len(pools) != 2 || pools[0].Hold != "price: must be above 0" || pools[1].Hold != "" {
		t.Errorf("pools %+v", pools)
	}
	if len(found) != 1 || found[0].Reason != ReasonPoolsUnreadable || found[0].Message != "price: must be above 0" {
		t.Errorf("findings %v", found)
	}
}

type onePoolUnread struct{}

func (onePoolUnread) Pools(context.Context) ([]api.Pool, error) {
	return []api.Pool{{Name: "a", Hold: "price: must be above 0"}, {Name: "b"}}, errors.New("price: must be above 0")
}

func TestPoolsThatCannotBeRead(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	w.observe()
	w.poolsErr = errors.New("deadline exceeded")
	got, s := w.workload("web")
	if len(s.Pools) != 1 || s.Pools[0].Hold == "" || len(findings(s, ReasonPoolsUnreadable)) != 1 {
		t.Errorf("pools = %+v, findings = %v; want the last ones, held", s.Pools, s.Findings)
	}
	if got.SpeedNow != 0.5 {
		t.Errorf("speed = %v, want 0.5", got.SpeedNow)
	}
	w.poolsErr = nil
	if s := w.observe(); s.Pools[0].Hold != "" || len(s.Findings) > 0 {
		t.Errorf("afterwards: pools = %+v, findings = %v", s.Pools, s.Findings)
	}
}

// A provider that was configured for another cluster, whose pools have the same
// names: none of them may be touched.
func TestPoolsOfAnotherCluster(t *testing.T) {
	const here, there = "gce://shop/a/gke-shop-e2-0a1b2c3d-aaaa", "gce://shop/a/gke-other-e2-99999999-aaaa"
	for name, c := range map[string]struct {
		owned    map[string]bool
		change   func(*corev1.Node)
		wantHold bool
	}{
		"ours":                       {owned: map[string]bool{here: true}},
		"another's":                  {owned: map[string]bool{there: true}, wantHold: true},
		"of which there are no more": {wantHold: true},
		"without a Ready node there is nothing to compare": {change: func(n *corev1.Node) { n.Status.Conditions = nil }},
		"without provider ids neither":                     {change: func(n *corev1.Node) { n.Spec.ProviderID = "" }},
		"nodes of no pool say nothing":                     {change: func(n *corev1.Node) { n.Labels = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 1)
			w.owned = c.owned
			n := node("node-1", "e2")
			n.Spec.ProviderID = here
			if c.change != nil {
				c.change(n)
			}
			w.put(n)
			s := w.observe()
			if got := s.Pools[0].Hold != ""; got != c.wantHold {
				t.Errorf("hold %q, want one: %v", s.Pools[0].Hold, c.wantHold)
			}
			if f := findings(s, ReasonOtherCluster); (len(f) == 1) != c.wantHold {
				t.Errorf("findings %v", s.Findings)
			}
			if w.pools[0].Hold != "" {
				t.Error("the provider's own answer was written to")
			}
		})
	}
}

// A node of a pool that doesn't bear its label: the pool is held, as what runs there is not
// seen to be on it.
func TestPoolsOfNodesWithoutTheirLabel(t *testing.T) {
	const first, second = "docker:////first", "docker:////second"
	for name, c := range map[string]struct {
		change   func(*corev1.Node)
		wantHold bool
	}{
		"no label":                      {change: func(n *corev1.Node) { n.Labels = nil }, wantHold: true},
		"that of another pool":          {change: func(n *corev1.Node) { n.Labels[api.LabelNodePool] = "n2" }, wantHold: true},
		"its label":                     {change: func(*corev1.Node) {}},
		"a node that is still to boot":  {change: func(n *corev1.Node) { n.Labels, n.Status.Conditions = nil, nil }},
		"a node of no pool":             {change: func(n *corev1.Node) { n.Labels, n.Spec.ProviderID = nil, "docker:////third" }},
		"one whose machine isn't known": {change: func(n *corev1.Node) { n.Labels, n.Spec.ProviderID = nil, "" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 1)
			w.owned = map[string]bool{first: true, second: true}
			good, n := node("node-1", "e2"), node("node-2", "e2")
			good.Spec.ProviderID, n.Spec.ProviderID = first, second
			c.change(n)
			w.put(good, n)
			s := w.observe()
			if got := s.Pools[0].Hold != ""; got != c.wantHold {
				t.Errorf("hold %q, want one: %v", s.Pools[0].Hold, c.wantHold)
			}
			if f := findings(s, ReasonNodesUnlabelled); (len(f) == 1) != c.wantHold {
				t.Errorf("findings %v", s.Findings)
			}
		})
	}
}

func TestSpeeds(t *testing.T) {
	s := newSpeeds(time.Hour)
	n := nodeRecordOf(node("node-1", "e2"), api.LabelNodePool)
	s.learn(epoch, []*nodeRecord{n}, []api.Pool{{Name: "e2", CPUSpeed: 0.5}, {Name: "e2-big", CPUSpeed: 0.75}, {Name: "n2", CPUSpeed: 1}})
	tests := map[string]struct {
		node    string
		want    float64
		unknown bool
	}{
		"a live node":                            {"node-1", 0.5, false},
		"a GKE node never seen":                  {"gke-demo-e2-0a1b2c3d-abcd", 0.5, false},
		"its instance group":                     {"gke-demo-e2-0a1b2c3d", 0.5, false},
		"of the pool with the longer name":       {"gke-demo-e2-big-0a1b2c3d-abcd", 0.75, false},
		"of a pool that nobody knows":            {"gke-demo-x9-0a1b2c3d-abcd", 1, true},
		"another provider's":                     {"ip-10-0-0-1", 1, true},
		"a name that merely contains the pool's": {"my-e2-node", 1, true},
		"none":                                   {"", 1, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clear(s.unknown)
			if got := s.of(tt.node); got != tt.want || (len(s.unknown) > 0) != tt.unknown {
				t.Errorf("speed = %v, unknown = %v; want %v, %v", got, s.unknown, tt.want, tt.unknown)
			}
		})
	}
	s.learn(epoch.Add(30*time.Minute), nil, nil)
	if got := s.of("node-1"); got != 0.5 {
		t.Errorf("speed of a dead node = %v, want 0.5", got)
	}
	s.learn(epoch.Add(2*time.Hour), nil, nil)
	if len(s.poolOf) != 0 {
		t.Errorf("nodes are remembered for ever: %v", s.poolOf)
	}
}

func TestPodStartup(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.StartupSamples = 10 })
	if got := w.observe().PodStartup; got != w.cfg.PodStartup {
		t.Errorf("without pods = %+v, want the prior", got)
	}
	w.shop("web", 0)
	for i := range 20 { // Ready i+1 seconds after they were bound, one after the other
		p := podOn("web", i, "node-1", epoch)
		p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(epoch.Add(time.Duration(i+1) * time.Second))
		w.put(p)
	}
	restarted := podOn("web", 30, "node-1", epoch)
	restarted.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
	restarted.Status.Conditions[1].LastTransitionTime = metav1.NewTime(epoch.Add(time.Hour))
	w.put(restarted)
	// The newest ten took 11…20 s.
	want := api.StartupLatency{P50: 15 * time.Second, P90: 19 * time.Second, Samples: 10}
	for range 2 { // each is counted once
		if got := w.observe().PodStartup; got != want {
			t.Errorf("lead = %+v, want %+v", got, want)
		}
	}

	// Each workload has that of its own pods, also once it has none any more.
	w.shop("slow", 0)
	p := podOn("slow", 0, "node-1", epoch)
	p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(epoch.Add(2 * time.Minute))
	w.put(p)
	w.shop("none", 0)
	for i := range 2 {
		for name, want := range map[string]api.StartupLatency{
			"web": want, "slow": {P50: 2 * time.Minute, P90: 2 * time.Minute, Samples: 1}, "none": {},
		} {
			if got, _ := w.workload(name); got.PodStartup != want {
				t.Errorf("%s takes %+v, want %+v", name, got.PodStartup, want)
			}
		}
		if i == 0 {
			if err := w.caches.informers[kindPod].GetStore().Delete(newShapes().podRecord(p)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestBootStartup(t *testing.T) {
	b := newNodeStartups(10)
	prior := api.StartupLatency{P50: time.Minute, P90: 2 * time.Minute}
	var nodes []*nodeRecord
	ready := func(name string, at time.Time) {
		n := node(name, "e2")
		n.CreationTimestamp = metav1.NewTime(at.Add(-10 * time.Second))
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(at)
		nodes = append(nodes, nodeRecordOf(n, api.LabelNodePool))
	}
	size := func(n int32) []api.Pool { return []api.Pool{{Name: "e2", Sizes: []int32{n}}} }
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }

	ready("old-1", at(-100))
	b.learn(at(0), size(1), nodes)
	if got := b.lead("e2", prior); got != prior {
		t.Errorf("before any growth = %+v, want the prior", got)
	}
	b.learn(at(15), size(3), nodes) // two asked for after the look at 0 s
	ready("new-1", at(70))
	b.learn(at(75), size(3), nodes)
	ready("new-2", at(90))
	b.learn(at(105), size(3), nodes)
	want := api.StartupLatency{P50: 70 * time.Second, P90: 90 * time.Second, Samples: 2}
	if got := b.lead("e2", prior); got != want {
		t.Errorf("after two nodes = %+v, want %+v", got, want)
	}
	// A node that was asked for and given up again; one that fails and
	// recovers; one repaired under the same name. None answers a growth.
	b.learn(at(120), size(4), nodes)
	b.learn(at(135), size(3), nodes)
	nodes[1].node.Ready = false
	b.learn(at(150), size(3), nodes)
	nodes[1].node.Ready, nodes[1].node.ReadyAt = true, at(160)
	b.learn(at(165), size(3), nodes)
	nodes = nodes[:2]
	ready("new-2", at(300))
	b.learn(at(315), size(3), nodes)
	if got := b.lead("e2", prior); got != want {
		t.Errorf("after changes that are no growth = %+v, want %+v", got, want)
	}
}

// TestRecoveredPodsAreNoStarts: a new leader meets pods that have run for three days, of which some were not Ready
// for a moment an hour ago.
func TestRecoveredPodsAreNoStarts(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 0)
	bound := epoch.Add(-72 * time.Hour)
	for i := range 40 {
		p := podOn("web", i, "node-1", bound) // Ready 20 s after it was bound
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(bound.Add(5 * time.Second))}}}}
		if i < 8 { // its node's kubelet was away for a minute
			p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(epoch.Add(-time.Hour))
		}
		w.put(p)
	}
	got, s := w.workload("web")
	if got.PodStartup.P90 > time.Minute || s.PodStartup.P90 > time.Minute {
		t.Errorf("web takes %v, all take %v (P90) to start; every pod took 20 s", got.PodStartup.P90, s.PodStartup.P90)
	}
}
