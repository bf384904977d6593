package sensing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
)

// Of whose cordon a node bears, mash2's note on it tells only while it is cordoned; afterwards
// that the note was left behind.
func TestNotesOfCordons(t *testing.T) {
	for name, c := range map[string]struct {
		cordoned, noted bool
		wantFor         string
		wantLifted      bool
	}{
		"not cordoned":          {},
		"by mash2":              {cordoned: true, noted: true, wantFor: api.CordonShrink},
		"by a person":           {cordoned: true},
		"uncordoned since then": {noted: true, wantLifted: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("node-1", "e2")
			n.Spec.Unschedulable = c.cordoned
			if c.noted {
				n.Annotations = map[string]string{api.AnnotationCordonedFor: api.CordonShrink, api.AnnotationCordonedAt: epoch.Format(time.RFC3339)}
			}
			got := nodeRecordOf(n, api.LabelNodePool).node
			if got.CordonedFor != c.wantFor || got.CordonedAt.IsZero() != (c.wantFor == "") || got.Lifted != c.wantLifted {
				t.Errorf("cordoned for %q at %v, lifted %v; want for %q, lifted %v", got.CordonedFor, got.CordonedAt, got.Lifted, c.wantFor, c.wantLifted)
			}
		})
	}
}

func TestSinceWhenANodeIsNotReady(t *testing.T) {
	since := epoch.Add(-time.Minute)
	for status, want := range map[corev1.ConditionStatus]time.Time{
		corev1.ConditionTrue: {}, corev1.ConditionFalse: since, corev1.ConditionUnknown: since,
	} {
		n := node("node-1", "e2")
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(since)
		got := nodeRecordOf(n, api.LabelNodePool).node
		if !got.UnreadyAt.Equal(want) || got.Ready != want.IsZero() {
			t.Errorf("%s: not Ready since %v, want %v", status, got.UnreadyAt, want)
		}
	}
}

// A node that has just come and takes no pods yet counts as one that boots: by a taint of its start, or
// without a device that the others of its pool have.
func TestNodesThatStart(t *testing.T) {
	const gpu = corev1.ResourceName("example.com/gpu")
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
	}
	device := func(amount string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable[gpu] = resource.MustParse(amount) }
	}
	type changes = []func(*corev1.Node)
	tests := map[string]struct {
		age     time.Duration
		fresh   changes
		others  []changes // of its pool, an hour old
		told    api.Pool
		pending bool // it counts as not Ready
	}{
		"without taints":                         {others: []changes{nil}},
		"an agent's taint":                       {fresh: changes{taint("node.cilium.io/agent-not-ready", corev1.TaintEffectNoExecute)}, pending: true},
		"for too long":                           {age: 11 * time.Minute, fresh: changes{taint("node.cilium.io/agent-not-ready", corev1.TaintEffectNoExecute)}},
		"the node controller's":                  {fresh: changes{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)}, pending: true},
		"under pressure":                         {fresh: changes{taint(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)}, others: []changes{nil}},
		"one that keeps no pod off":              {fresh: changes{taint("example.com/starting", corev1.TaintEffectPreferNoSchedule)}, others: []changes{nil}},
		"one that another node does not bear":    {fresh: changes{taint("example.com/starting", corev1.TaintEffectNoSchedule)}, others: []changes{nil}, pending: true},
		"one that all bear":                      {fresh: changes{taint("dedicated", corev1.TaintEffectNoSchedule)}, others: []changes{{taint("dedicated", corev1.TaintEffectNoSchedule)}}},
		"of the only node, which may be its own": {fresh: changes{taint("dedicated", corev1.TaintEffectNoSchedule)}},
		"one that the provider tells of": {
			fresh: changes{taint("dedicated", corev1.TaintEffectNoSchedule)}, others: []changes{nil},
			told: api.Pool{Taints: []api.Taint{{Key: "dedicated", Effect: "NoSchedule"}}},
		},
		"without the device of the others":     {others: []changes{{device("1")}, {device("1")}}, pending: true},
		"with none of it registered":           {fresh: changes{device("0")}, others: []changes{{device("1")}}, pending: true},
		"with the device":                      {fresh: changes{device("1")}, others: []changes{{device("2")}}},
		"a device of one node of several":      {others: []changes{{device("1")}, nil}},
		"a device that the provider tells of":  {told: api.Pool{Allocatable: api.Resources{Extended: map[string]int64{string(gpu): 1}}}, pending: true},
		"a node of no pool that anybody knows": {fresh: changes{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)}, told: api.Pool{Name: "n2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			if tt.told.Name == "" {
				tt.told.Name = "e2"
			}
			w.pools = []api.Pool{tt.told}
			for i, of := range append([]changes{tt.fresh}, tt.others...) {
				n := node(fmt.Sprintf("node-%d", i), "e2")
				if i == 0 {
					n.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-time.Minute - tt.age))
				}
				for _, change := range of {
					change(n)
				}
				w.put(n)
			}
			nodes := w.observe().Nodes
			if got := !nodes[0].Ready; got != tt.pending {
				t.Errorf("starting: %v, want %v", got, tt.pending)
			}
			for _, n := range nodes[1:] {
				if !n.Ready {
					t.Errorf("%s is old, and not Ready", n.Name)
				}
			}
		})
	}
}

// A node is Ready from when it is seen to take pods, which is how long it takes to start.
func TestSinceWhenANodeThatStartedIsReady(t *testing.T) {
	n := node("node-1", "e2")
	n.CreationTimestamp, n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(epoch), metav1.NewTime(epoch.Add(30*time.Second))
	n.Spec.Taints = []corev1.Taint{{Key: "node.cilium.io/agent-not-ready", Effect: corev1.TaintEffectNoExecute}}
	tainted := nodeRecordOf(n, api.LabelNodePool)
	n.Spec.Taints = nil
	s, pools := starting{}, []api.Pool{{Name: "e2"}}
	for i, c := range []struct {
		is    *nodeRecord
		ready time.Time
	}{
		{tainted, time.Time{}}, {tainted, time.Time{}}, {nodeRecordOf(n, api.LabelNodePool), epoch.Add(3 * time.Minute)}, {nodeRecordOf(n, api.LabelNodePool), epoch.Add(30 * time.Second)},
	} {
		nodes := []*nodeRecord{c.is}
		s.leave(epoch.Add(time.Duration(i+1)*time.Minute), pools, nodes)
		if got := nodes[0].node; got.Ready == c.ready.IsZero() || !got.ReadyAt.Equal(c.ready) {
			t.Errorf("look %d: Ready %v since %v, want since %v", i+1, got.Ready, got.ReadyAt, c.ready)
		}
	}
	if s.leave(epoch.Add(5*time.Minute), pools, nil); len(s) > 0 {
		t.Errorf("nodes that are gone are remembered: %v", s)
	}
}

// A parked node is not there, nor is what belongs to it; what has stayed on it
// is.
func TestParkedNodes(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	parked := node("node-2", "e2")
	parked.Spec.Unschedulable = true
	parked.Annotations = map[string]string{api.AnnotationParked: "true"}
	byHand := node("node-3", "e2") // uncordoned since
	byHand.Annotations = parked.Annotations
	daemon, left := podOn("agent", 1, "node-2", epoch), podOn("web", 2, "node-2", epoch)
	daemon.OwnerReferences[0].Kind = kindDaemonSet
	w.put(parked, byHand, daemon, left)
	s := w.observe()
	var nodes []string
	for _, n := range s.Nodes {
		nodes = append(nodes, n.Name)
	}
	if diff := cmp.Diff([]string{"node-1", "node-3"}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if len(s.Pods) != 2 || s.Pods[0].DaemonSet || s.Pods[1].DaemonSet {
		t.Errorf("%d pods, want the two of web: %+v", len(s.Pods), s.Pods)
	}
}

// What Cluster Autoscaler or Karpenter may not remove mash2 may not either.
func TestNodesThatMayNotBeRemoved(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{scaleDownDisabled, "true", "annotation cluster-autoscaler.kubernetes.io/scale-down-disabled"},
		{karpenterDoNotDisrupt, "true", "annotation karpenter.sh/do-not-disrupt"},
		{scaleDownDisabled, "false", ""},
		{safeToEvict, "false", ""},
	} {
		n := node("node-1", "e2")
		n.Annotations = map[string]string{c.key: c.value}
		if got := nodeRecordOf(n, api.LabelNodePool).node.DoNotDisrupt; got != c.want {
			t.Errorf("%s=%s: %q, want %q", c.key, c.value, got, c.want)
		}
	}
}

// The only zone of a pool is called as its Ready nodes are labelled, if they are alike.
func TestZoneOfAPool(t *testing.T) {
	for name, tt := range map[string]struct {
		told, labelled, want []string
	}{
		"as the provider calls it, without nodes": {told: []string{"1"}, want: []string{"1"}},
		"as nodes are labelled":                   {told: []string{"1"}, labelled: []string{"eastus-1", "eastus-1"}, want: []string{"eastus-1"}},
		"where the provider names none":           {told: []string{""}, labelled: []string{"eu-1a"}, want: []string{"eu-1a"}},
		"not of nodes in several":                 {told: []string{""}, labelled: []string{"eu-1a", "eu-1b"}, want: []string{""}},
		"nor of nodes without the label":          {told: []string{"1"}, labelled: []string{""}, want: []string{"1"}},
		"of several zones as the provider says":   {told: []string{"a", "b"}, labelled: []string{"b"}, want: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.pools = []api.Pool{{Name: "e2", Zones: slices.Clone(tt.told)}}
			for i, zone := range tt.labelled {
				n := node(fmt.Sprintf("node-%d", i), "e2")
				if zone != "" {
					n.Labels[api.LabelZone] = zone
				}
				w.put(n)
			}
			if got := w.observe().Pools[0].Zones; !slices.Equal(got, tt.want) {
				t.Errorf("zones %q, want %q", got, tt.want)
			}
			if !slices.Equal(w.pools[0].Zones, tt.told) {
				t.Errorf("what the provider told has become %q", w.pools[0].Zones)
			}
		})
	}
}

// A pool is of spot machines if the labels that its Ready nodes share say so, whatever its provider
// leaves out.
func TestSpotByNodes(t *testing.T) {
	spot, rate := api.LabelSpot, api.LabelInterruptions
	type labels = map[string]string
	for name, tt := range map[string]struct {
		told  api.Pool
		nodes []labels
		spot  bool
		rate  float64
		hold  string
	}{
		"no label":                       {nodes: []labels{nil}},
		"mash2's":                        {nodes: []labels{{spot: "true"}, {spot: "true"}}, spot: true, rate: api.DefaultInterruptions},
		"Karpenter's, with a rate":       {nodes: []labels{{"karpenter.sh/capacity-type": "spot", rate: "0.1"}}, spot: true, rate: 0.1},
		"not of some nodes":              {nodes: []labels{{spot: "true"}, nil}},
		"the provider knows better":      {told: api.Pool{Labels: labels{spot: "false"}}, nodes: []labels{{"karpenter.sh/capacity-type": "spot"}}},
		"and its rate counts":            {told: api.Pool{Labels: labels{rate: "0.3"}}, nodes: []labels{{spot: "true", rate: "0.1"}}, spot: true, rate: 0.3},
		"which has told already":         {told: api.Pool{Spot: true, Interruptions: 0.5}, nodes: []labels{{spot: "true"}}, spot: true, rate: 0.5},
		"no nodes":                       {},
		"a value that can't be used":     {nodes: []labels{{spot: "yes"}}, hold: "must be true or false"},
		"nor such a rate, and it's spot": {nodes: []labels{{spot: "true", rate: "often"}}, spot: true, rate: api.DefaultInterruptions, hold: rate},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			tt.told.Name = "e2"
			w.pools = []api.Pool{tt.told}
			for i, more := range tt.nodes {
				n := node(fmt.Sprintf("node-%d", i), "e2")
				maps.Copy(n.Labels, more)
				w.put(n)
			}
			got := w.observe().Pools[0]
			if got.Spot != tt.spot || got.Interruptions != tt.rate || (got.Hold == "") != (tt.hold == "") || !strings.Contains(got.Hold, tt.hold) {
				t.Errorf("spot %v, %g interruptions an hour, held for %q; want %v, %g, %q", got.Spot, got.Interruptions, got.Hold, tt.spot, tt.rate, tt.hold)
			}
		})
	}
}
