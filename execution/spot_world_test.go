package execution_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

// spotWorld is a workload "web" of which two replicas of six are to be off spot machines, in a
// cluster with a node of each kind.
type spotWorld struct {
	s    *api.Snapshot
	web  *api.Workload
	plan *api.WorkloadPlan
	all  *api.Plan
	p    *api.Policy
}

var (
	spotNow   = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	spotShape = &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 500, Memory: 1 << 20, Pods: 1}}
)

func newSpotWorld(steady, spot int) spotWorld {
	s := &api.Snapshot{Time: spotNow}
	key := api.Key{Namespace: "shop", Name: "web"}
	for i, pool := range []string{"spot", "steady"} {
		s.Pools = append(s.Pools, api.Pool{
			Name: pool, Zones: []string{"a"}, Sizes: []int32{1}, Spot: pool == "spot", Labels: map[string]string{}, Price: 0.1,
			Allocatable: api.Resources{MilliCPU: 8000, Memory: 1 << 30, Pods: 50},
		})
		s.Nodes = append([]api.Node{{Name: pool + "-1", Pool: pool, Zone: "a", Ready: true, Allocatable: s.Pools[i].Allocatable}}, s.Nodes...)
	}
	s.Workloads = []api.Workload{{
		Key: key, Mode: api.ModeFull, Target: api.TargetRef{Kind: "Deployment", Name: "web"}, MinReplicas: 1, MaxReplicas: 40,
		Replicas: int32(steady + spot), Shape: spotShape, PlacedOn: "spot", PlacedSince: spotNow.Add(-20 * time.Minute),
	}}
	s.Pods = make([]api.Pod, 0, 100) // pointers to them stay good
	plan := &api.Plan{
		Time: spotNow, Nodes: api.NodePlan{Pools: []api.PoolPlan{{Pool: "spot", SizePerZone: 1, Nodes: 1}, {Pool: "steady", SizePerZone: 1, Nodes: 1}}},
		Workloads: []api.WorkloadPlan{{Key: key, Scale: api.Scale{Replicas: 6}, NodeReplicas: 6, Floor: 1, Prefers: "spot"}},
	}
	p := &api.Policy{NodePools: []string{"spot", "steady"}, ManagedPools: []string{"spot", "steady"}, Spot: &api.Spot{MaxShare: 0.7, Floor: 2}}
	w := spotWorld{s, &s.Workloads[0], &plan.Workloads[0], plan, p}
	w.pods("steady-1", steady)
	w.pods("spot-1", spot)
	w.wants(6, 2)
	return w
}

// pods has so many Ready pods more of web on a node; none of them where it is empty.
func (w spotWorld) pods(node string, n int) (out []*api.Pod) {
	for range n {
		pool, _, _ := strings.Cut(node, "-")
		name := fmt.Sprintf("%s-%d", pool, len(w.s.Pods))
		w.s.Pods = append(w.s.Pods, api.Pod{
			Key: api.Key{Namespace: "shop", Name: name}, UID: name, Workload: w.web.Key, Node: node, Phase: "Running", Ready: true, Shape: spotShape,
			ControllerKind: "ReplicaSet", ControllerName: "web", Created: spotNow.Add(-time.Hour),
		})
		out = append(out, &w.s.Pods[len(w.s.Pods)-1])
	}
	return out
}

// others has another workload planned on spot machines.
func (w spotWorld) others() {
	w.all.Workloads = append(w.all.Workloads, api.WorkloadPlan{Key: api.Key{Namespace: "shop", Name: "zoo"}, Pools: []api.PoolShare{{Pool: "spot", Replicas: 1}}})
}

// astray has another workload planned on a third pool, and so many pods of web there.
func (w spotWorld) astray(n int) []*api.Pod {
	room := w.s.Pools[0].Allocatable
	w.s.Pools = append(w.s.Pools, api.Pool{Name: "other", Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: room})
	w.s.Nodes = append(w.s.Nodes, api.Node{Name: "other-1", Pool: "other", Zone: "a", Ready: true, Allocatable: room})
	w.all.Nodes.Pools = append(w.all.Nodes.Pools, api.PoolPlan{Pool: "other", SizePerZone: 1, Nodes: 1})
	w.all.Workloads = append(w.all.Workloads, api.WorkloadPlan{Key: api.Key{Namespace: "shop", Name: "db"}, Pools: []api.PoolShare{{Pool: "other", Replicas: 1}}})
	w.p.NodePools, w.p.ManagedPools = append(w.p.NodePools, "other"), append(w.p.ManagedPools, "other")
	w.web.Replicas += int32(n)
	return w.pods("other-1", n)
}

// wants so many replicas, of which so many off spot machines.
func (w spotWorld) wants(replicas, off int32) {
	w.plan.Replicas, w.plan.NodeReplicas = replicas, replicas
	w.plan.Pools = []api.PoolShare{{Pool: "spot", Replicas: replicas - off}, {Pool: "steady", Replicas: off}}
}

// leave has another pod of web on a pool that is to be left, whose node bears its cordon or not.
func (w spotWorld) leave(kind string, cordoned bool) {
	room := w.s.Pools[0].Allocatable
	w.s.Pools = append(w.s.Pools, api.Pool{Name: "old", Zones: []string{"a"}, Sizes: []int32{1}, Allocatable: room})
	node := api.Node{Name: "old-1", Pool: "old", Zone: "a", Ready: true, Allocatable: room}
	if cordoned {
		node.Cordoned, node.CordonedFor, node.CordonedAt = true, api.CordonMigration, spotNow.Add(-time.Minute)
	}
	w.s.Nodes = append(w.s.Nodes, node)
	w.all.Nodes.Pools = append(w.all.Nodes.Pools, api.PoolPlan{Pool: "old"})
	w.p.ManagedPools = append(w.p.ManagedPools, "old")
	pod := w.pods("old-1", 1)[0]
	pod.Key.Name, pod.ControllerKind = "web-old", kind
	w.web.Replicas++
}

// leaves has so many pods of web more on a pool that is to be left, whose node bears its cordon.
func (w spotWorld) leaves(n int, spot bool) []*api.Pod {
	w.leave("ReplicaSet", true)
	w.s.Pools[len(w.s.Pools)-1].Spot = spot
	w.web.Replicas += int32(n - 1)
	out := []*api.Pod{&w.s.Pods[len(w.s.Pods)-1]}
	for i, p := range w.pods("old-1", n-1) {
		p.Key.Name = fmt.Sprintf("web-old-%d", i+1)
		out = append(out, p)
	}
	return out
}

// mark gives pods our deletion cost.
func mark(pods ...*api.Pod) {
	for _, p := range pods {
		p.DeletionCost, p.DeletionCostOurs = -1000, true
	}
}

func allPods(s *api.Snapshot) (out []*api.Pod) {
	for i := range s.Pods {
		out = append(out, &s.Pods[i])
	}
	return out
}

// checkSpot compares what is done in a world, and one thing that is said of it.
func checkSpot(t *testing.T, w spotWorld, want, told string) {
	t.Helper()
	actions, findings := execution.Sequence(*w.s, *w.all, *w.p)
	var got []string
	for _, a := range actions {
		switch a := a.(type) {
		case api.ScaleWorkload:
			got = append(got, fmt.Sprintf("%s %d→%d", a.Workload.Name, a.From, a.To))
		case api.SetDeletionCost:
			verb := "cost of "
			if a.Clear {
				verb = "no cost of "
			}
			got = append(got, verb+a.Pod.Name)
		default:
			got = append(got, a.String())
		}
	}
	slices.Sort(got)
	said := ""
	for _, f := range findings {
		said += f.Reason + " " + f.Message + "\n"
	}
	if text := strings.Join(got, ", "); text != want || !strings.Contains(said, told) || told == "" && said != "" {
		t.Errorf("%q, told %v; want %q, %q", text, findings, want, told)
	}
}
