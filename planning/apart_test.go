package planning

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// where each workload is planned, by name.
func where(p api.Plan) map[string]string {
	out := map[string]string{}
	for _, w := range p.Workloads {
		for _, share := range w.Pools {
			out[w.Key.Name] += share.Pool
		}
	}
	return out
}

// A workload that is moved by itself is planned on its pools. The others stay on theirs,
// though all together would be cheaper; when it is free again it goes back to them.
func TestOneWorkloadApart(t *testing.T) {
	c := apart(t, nil)
	h, s, p := c.Hierarchy, c.s, c.p
	plan, m := h.Plan(s, p, Memory{})
	home := where(plan)["api"]
	if home == "" || where(plan)["web"] != home {
		t.Fatalf("planned on %v", where(plan))
	}
	other := map[string]string{"e2": "n2", "n2": "e2"}[home]
	step := func(only []string) map[string]string {
		s.Time = s.Time.Add(15 * time.Second)
		s.Workloads = slices.Clone(s.Workloads)
		s.Workloads[1].OnlyPools = only
		plan, m = h.Plan(s, p, m)
		return where(plan)
	}
	for range 500 { // longer than a better pool waits
		if diff := cmp.Diff(map[string]string{"api": home, "web": other}, step([]string{other})); diff != "" {
			t.Fatalf("moved (-want +got):\n%s", diff)
		}
	}
	if got := plan.PlacedOn(plan.Workloads[1]); got != other {
		t.Errorf("new pods prefer %q, want %s", got, other)
	}
	for range 100 {
		if diff := cmp.Diff(map[string]string{"api": home, "web": home}, step(nil)); diff != "" {
			t.Fatalf("free again (-want +got):\n%s", diff)
		}
	}
	if got := plan.PlacedOn(plan.Workloads[1]); got != "" {
		t.Errorf("new pods prefer %q where all are on one pool", got)
	}
	if m.Workloads[1].Apart != "" {
		t.Errorf("it is remembered to be on %s by itself", m.Workloads[1].Apart)
	}
}

// An operator that starts without a memory knows from the status where workloads are, also
// where most pods are those of the one that is apart.
func TestARestartLeavesOthersWhereTheyAre(t *testing.T) {
	for _, away := range []string{"e2", "n2"} {
		c := apart(t, nil)
		s := c.s
		home := map[string]string{"e2": "n2", "n2": "e2"}[away]
		for i, pool := range []string{home, away} {
			w := &s.Workloads[i]
			w.PlacedOn = pool
			s.Nodes = append(s.Nodes, api.Node{Name: pool, Pool: pool, Ready: true, Allocatable: api.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 100}})
			for n := range 1 + 5*i {
				s.Pods = append(s.Pods, api.Pod{Key: api.Key{Namespace: "shop", Name: fmt.Sprint(pool, n)}, Workload: w.Key, Node: pool, Shape: w.Shape, Ready: true, ControllerKind: "ReplicaSet"})
			}
		}
		s.Workloads[1].OnlyPools = []string{away}
		plan, _ := c.Hierarchy.Plan(s, c.p, Memory{})
		if diff := cmp.Diff(map[string]string{"api": home, "web": away}, where(plan)); diff != "" {
			t.Errorf("away on %s (-want +got):\n%s", away, diff)
		}
	}
}

// stays refuses every move to a pool.
type stays struct{ from string }

func (r stays) check(_ api.Snapshot, p api.Plan, _ api.Policy) *api.Refusal {
	return &api.Refusal{Pool: "elsewhere", Stay: r.from, Reason: "OutsideWindow"}
}

// While the way back of a workload that was moved by itself is refused it stays there by
// itself: the others are not planned to follow it.
func TestAWayBackThatIsRefused(t *testing.T) {
	c := apart(t, nil)
	h, s, p := c.Hierarchy, c.s, c.p
	plan, m := h.Plan(s, p, Memory{})
	home := where(plan)["api"]
	other := map[string]string{"e2": "n2", "n2": "e2"}[home]
	s.Workloads = slices.Clone(s.Workloads)
	s.Workloads[1].OnlyPools = []string{other}
	_, m = h.Plan(s, p, m)
	s.Workloads = slices.Clone(s.Workloads)
	s.Workloads[1].OnlyPools = nil
	s.Nodes = []api.Node{{Name: "n", Pool: other, Ready: true, Allocatable: api.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 100}}}
	s.Pods = []api.Pod{{Key: api.Key{Namespace: "shop", Name: "web-1"}, Workload: s.Workloads[1].Key, Node: "n", Shape: s.Workloads[1].Shape, Ready: true, ControllerKind: "ReplicaSet"}}
	h.Moves = stays{other}.check
	for _, open := range [][]string{{"e2", "n2"}, {home}} { // the policy may not allow it any more
		p.NodePools = open
		plan, after := h.Plan(s, p, m)
		if diff := cmp.Diff(map[string]string{"api": home, "web": other}, where(plan)); diff != "" {
			t.Errorf("with %v (-want +got):\n%s", open, diff)
		}
		if after.Workloads[1].Apart != other || plan.Nodes.Refusal == nil {
			t.Errorf("with %v it is remembered on %q, refused %v", open, after.Workloads[1].Apart, plan.Nodes.Refusal)
		}
	}
}

// TestRestrictedPlans: whatever strategies leave open, each workload's shares are on its
// pools only; a restriction to every pool, or to none that there is, is none to the byte.
func TestRestrictedPlans(t *testing.T) {
	names := []string{"a", "b", "c"}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := apart(t, nil)
		s, p := c.s, c.p
		s.Pools, s.Workloads = nil, nil
		for _, name := range names {
			s.Pools = append(s.Pools, api.Pool{
				Name: name, Price: 0.02 + 0.1*r.Float64(), CPUSpeed: 0.5 + r.Float64(), Zones: []string{"z"}, Sizes: []int32{r.Int32N(3)},
				Allocatable: api.Resources{MilliCPU: 1000 + r.Int64N(1000), Memory: 4 << 30, Pods: 100},
			})
		}
		p.NodePools, p.ManagedPools = names, names
		for i := range 1 + r.IntN(4) {
			w := api.Workload{
				Key: api.Key{Namespace: "shop", Name: fmt.Sprint("w", i)}, Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: 50, Replicas: 1, SpeedNow: 1,
				Usage: &api.Usage{At: s.Time, MilliCPU: 50 + 900*r.Float64(), Pods: 1},
				Shape: &api.PodShape{ID: fmt.Sprint(i), Requests: api.Resources{MilliCPU: 100, Memory: 1 << 20, Pods: 1}},
			}
			s.Workloads = append(s.Workloads, w)
		}
		free, m := c.Hierarchy.Plan(s, p, Memory{})
		all := s
		all.Workloads = slices.Clone(s.Workloads)
		for i := range all.Workloads {
			all.Workloads[i].OnlyPools = [][]string{names, {"gone"}}[i%2]
		}
		if same, other := c.Hierarchy.Plan(all, p, Memory{}); !reflect.DeepEqual(free, same) || m.Hash() != other.Hash() {
			t.Errorf("world %d: a restriction to what is open anyway changes the plan:\n%s", seed, cmp.Diff(free, same))
		}
		for cycle := range 4 {
			s.Time = s.Time.Add(15 * time.Second)
			s.Workloads = slices.Clone(s.Workloads)
			for i := range s.Workloads {
				s.Workloads[i].OnlyPools = nil
				if r.IntN(2) == 0 {
					first := r.IntN(3)
					s.Workloads[i].OnlyPools = slices.Sorted(slices.Values([]string{names[first], names[(first+r.IntN(2))%3]}))
					s.Workloads[i].OnlyPools = slices.Compact(s.Workloads[i].OnlyPools)
				}
			}
			var plan api.Plan
			plan, m = c.Hierarchy.Plan(s, p, m)
			shared := map[string]bool{} // pools of those that may be anywhere
			for i, w := range plan.Workloads {
				sum := int32(0)
				for _, share := range w.Pools {
					sum += share.Replicas
					if only := s.Workloads[i].OnlyPools; len(only) > 0 && !slices.Contains(only, share.Pool) {
						t.Errorf("world %d, cycle %d: %s is planned on %s, only %v are open", seed, cycle, w.Key, share.Pool, only)
					} else if len(only) == 0 {
						shared[share.Pool] = true
					}
				}
				if sum != w.Replicas {
					t.Errorf("world %d, cycle %d: shares of %s are %d of %d", seed, cycle, w.Key, sum, w.Replicas)
				}
			}
			if len(shared) > 1 {
				t.Errorf("world %d, cycle %d: those that may be anywhere are on %v", seed, cycle, shared)
			}
		}
	}
}
