package execution

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// simpleMissing is missing as one reads it: all pods are looked at, and every node in
// turn is asked for room.
func simpleMissing(v *view, gone map[string]bool, onTarget bool) string {
	var spaces []placement.Space
	for _, sp := range v.spaces {
		if !gone[sp.Node.Name] {
			spaces = append(spaces, sp.Clone())
		}
	}
	place := func(pods placement.Pods, n int32, pool string) (placed int32) {
		for i := range spaces {
			if pool == "" || spaces[i].Node.Pool == pool {
				placed += spaces[i].Place(pods, n-placed)
			}
		}
		return placed
	}
	for _, p := range v.pending {
		if !v.acting[p.Workload] {
			place(placement.PodsOf(p), 1, "")
		}
	}
	stays := func(p *api.Pod) bool { return p.Node != "" && (!gone[p.Node] || v.blocker(p) != "") }
	for _, w := range v.wants(gone, stays) {
		pool := ""
		if home := v.home(w.pods.Workload); onTarget && w.replicas && siteIn(home).Admits(w.pods.Shape) {
			pool = home.Name
		}
		if placed := place(w.pods, w.count, pool); placed < w.count {
			return w.lacking(w.count - placed)
		}
	}
	return ""
}

// simpleSpared takes one node after the other out, and computes everything anew for each.
func simpleSpared(v *view, gone map[string]bool, nodes []*api.Node) (spared []string) {
	gone = maps.Clone(gone)
	for _, n := range nodes {
		gone[n.Name] = true
		if simpleMissing(v, gone, false) != "" {
			delete(gone, n.Name)
			continue
		}
		spared = append(spared, n.Name)
	}
	return spared
}

// randomView is a small cluster in which room is scarce: two pools in two zones, some
// nodes cordoned, tainted or not Ready, workloads that grow, shrink or are held, pods of
// nobody's workload, pending and terminating ones, limits of copies, volumes.
func randomView(r *rand.Rand) (*view, []*api.Node) {
	chance := func(p float64) bool { return r.Float64() < p }
	zones := []string{"a", "b"}
	s := api.Snapshot{}
	policy := api.Policy{NodePools: []string{"fast"}, ManagedPools: []string{"cheap", "fast"}}
	var plan api.Plan
	full := api.Resources{MilliCPU: 4000, Memory: 8000, Pods: int64(6 + r.IntN(6))}
	for _, name := range []string{"fast", "cheap"} {
		n := r.IntN(12)
		pool := api.Pool{Name: name, Zones: zones, Sizes: []int32{int32(n), int32(n)}, Allocatable: full, Overhead: api.Resources{MilliCPU: int64(r.IntN(2)) * 100}}
		for i := range n {
			node := api.Node{
				Name: fmt.Sprintf("%s-%02d", name, i), Pool: name, Zone: zones[r.IntN(2)], Ready: !chance(0.05), Allocatable: full,
				Labels: map[string]string{"pool": name},
			}
			if chance(0.1) {
				node.Cordoned, node.CordonedFor = true, []string{"", api.CordonShrink, api.CordonMigration}[r.IntN(3)]
			}
			if chance(0.1) {
				node.Taints = []api.Taint{{Key: "special", Effect: "NoSchedule"}}
			}
			if chance(0.1) {
				node.Allocatable.Extended = map[string]int64{"gpu": 2}
			}
			s.Nodes = append(s.Nodes, node)
		}
		s.Pools = append(s.Pools, pool)
		plan.Nodes.Pools = append(plan.Nodes.Pools, api.PoolPlan{Pool: name})
	}
	shape := func(id string) *api.PodShape {
		sh := &api.PodShape{ID: id, Requests: api.Resources{MilliCPU: int64(100 * (1 + r.IntN(18))), Memory: int64(100 * r.IntN(30)), Pods: 1}}
		switch r.IntN(10) {
		case 0:
			sh.MaxPerNode = int32(1 + r.IntN(2))
		case 1:
			sh.Requests.Extended = map[string]int64{"gpu": 1}
		case 2:
			sh.Tolerations = []api.Toleration{{Key: "special", Operator: "Exists"}}
		case 3:
			sh.NodeSelector = map[string]string{"pool": "fast"}
		}
		return sh
	}
	pod := func(name string, key api.Key, sh *api.PodShape, kind string) {
		p := api.Pod{
			Key: api.Key{Namespace: "shop", Name: name}, Workload: key, Shape: sh, Phase: "Running",
			Ready: chance(0.9), ControllerKind: kind, ControllerName: key.Name, Terminating: chance(0.05),
		}
		if len(s.Nodes) > 0 && !chance(0.07) {
			p.Node = s.Nodes[r.IntN(len(s.Nodes))].Name
		}
		if chance(0.05) {
			p.Zones = zones[:1]
		}
		if chance(0.03) {
			p.DoNotDisrupt = "an annotation"
		}
		s.Pods = append(s.Pods, p)
	}
	for w := range r.IntN(10) {
		key := api.Key{Namespace: "shop", Name: fmt.Sprintf("web%d", w)}
		sh, n := shape(key.Name), r.IntN(8)
		if chance(0.1) {
			sh = nil
		}
		s.Workloads = append(s.Workloads, api.Workload{Key: key, Mode: api.ModeFull, Replicas: int32(n), MaxReplicas: 20, Shape: sh})
		wp := api.WorkloadPlan{Key: key, Scale: api.Scale{Replicas: int32(max(0, n+r.IntN(4)-2))}, Held: chance(0.1)}
		wp.Pools = []api.PoolShare{{Pool: []string{"fast", "fast", "cheap"}[r.IntN(3)], Replicas: wp.Replicas}}
		plan.Workloads = append(plan.Workloads, wp)
		for i := range n {
			pod(fmt.Sprintf("%s-%d", key.Name, i), key, sh, replicaSet)
		}
	}
	for i := range r.IntN(8) {
		pod(fmt.Sprintf("dns-%d", i), api.Key{}, shape("dns"), []string{replicaSet, ""}[boolRank(chance(0.2))])
		s.Pods[len(s.Pods)-1].DaemonSet = chance(0.2)
	}
	v, _ := newView(s, plan, policy, everyGuard)
	var surplus []*api.Node
	for i := range v.snapshot.Nodes {
		if n := &v.snapshot.Nodes[i]; n.Pool == "fast" && !v.leaving[n.Name] && chance(0.6) {
			surplus = append(surplus, n)
		}
	}
	return v, surplus
}

// What is computed by looking at the nodes that go alone is what looking at everything
// comes to, to the letter.
func TestMissingIsWhatTheSimpleOneSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lacks, total := 0, 4000
	for i := range total {
		v, surplus := randomView(r)
		gone := maps.Clone(v.leaving)
		for _, n := range surplus {
			if r.IntN(2) == 0 {
				gone[n.Name] = true
			}
		}
		for _, onTarget := range []bool{false, true} {
			want := simpleMissing(v, gone, onTarget)
			if got := v.missing(gone, onTarget); got != want {
				t.Fatalf("cluster %d, on the target %v: %q is missing, want %q", i, onTarget, got, want)
			}
			if want != "" {
				lacks++
			}
		}
	}
	if lacks < total/5 || lacks > 2*total*4/5 {
		t.Errorf("of %d questions %d lack something: the clusters are too alike", 2*total, lacks)
	}
}

// Nodes taken out one by one are those that computing everything for each would spare.
// Only where first fit holds more after a node has gone than before may they differ: then
// they still are nodes that the others can do without.
func TestSparedNodesAreWhatTheSimpleOneSays(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	differ, some, all, total := 0, 0, 0, 4000
	for i := range total {
		v, surplus := randomView(r)
		nodes, why := v.spared(v.leaving, surplus)
		var got []string
		gone := maps.Clone(v.leaving)
		for _, n := range nodes {
			got = append(got, n.Name)
			gone[n.Name] = true
		}
		want := simpleSpared(v, v.leaving, surplus)
		if missing := simpleMissing(v, gone, false); len(got) > 0 && missing != "" {
			t.Fatalf("cluster %d: %v are spared, and %s is missing", i, got, missing)
		}
		for _, n := range surplus {
			if slices.Contains(got, n.Name) == (why[n.Name] != "") {
				t.Fatalf("cluster %d: of %s it is said %q, and %v are spared", i, n.Name, why[n.Name], got)
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			differ++
			t.Logf("cluster %d (-simple +spared):\n%s", i, diff)
		}
		if len(got) > 0 {
			some++
		}
		if len(got) == len(surplus) {
			all++
		}
	}
	t.Logf("%d of %d differ; some nodes are spared in %d, all of them in %d", differ, total, some, all)
	if differ > total/200 {
		t.Errorf("%d of %d differ", differ, total)
	}
	if some == all || some < total/10 {
		t.Errorf("some nodes are spared in %d, all of them in %d: the clusters are too alike", some, all)
	}
}

// A packing that could not do without a node is as it was.
func TestPackingIsAsItWasAfterARefusal(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	refusals := 0
	for i := range 2000 {
		v, surplus := randomView(r)
		p := v.pack(v.leaving)
		for _, n := range surplus {
			p.room.place(placement.Pods{}, 0, "")
			before := p.room.clone()
			promised := fmt.Sprint(p.promised, p.lack, p.space)
			if p.without(n.Name) == "" {
				continue
			}
			refusals++
			if !gocmp.Equal(before.spaces, p.room.spaces, gocmp.Comparer(sameSpace)) || !slices.Equal(before.most, p.room.most) && before.most != nil {
				t.Fatalf("cluster %d: the room changes with %s, which is refused", i, n.Name)
			}
			if now := fmt.Sprint(p.promised, p.lack, p.space); now != promised {
				t.Fatalf("cluster %d: what is promised changes with %s, which is refused:\n%s\n%s", i, n.Name, promised, now)
			}
		}
	}
	if refusals < 100 {
		t.Errorf("only %d refusals", refusals)
	}
}

func sameSpace(a, b placement.Space) bool {
	return a.Node == b.Node && gocmp.Equal(a.Free, b.Free)
}
