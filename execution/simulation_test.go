package execution_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

// Three partial views, each from its own moment.

func (w *world) seePods(s *api.Snapshot) {
	s.Pods = nil
	for _, p := range w.pods {
		s.Pods = append(s.Pods, p.Pod)
	}
	slices.SortFunc(s.Pods, func(a, b api.Pod) int { return strings.Compare(a.Key.Name, b.Key.Name) })
}

func (w *world) seeNodes(s *api.Snapshot) {
	s.Nodes, s.Pools = nil, nil
	for _, n := range w.nodes {
		s.Nodes = append(s.Nodes, n.Node)
	}
	for _, pool := range w.pools {
		p := api.Pool{
			Name: pool.name, Zones: pool.zones, Sizes: slices.Clone(pool.sizes),
			Labels:      map[string]string{api.LabelNodePool: pool.name},
			Allocatable: api.Resources{MilliCPU: nodePods*podCPU + 100, Pods: 10},
		}
		if pool.busy > 0 {
			p.Hold = "an operation is in flight"
		}
		for _, n := range w.nodes {
			if w.tells && n.deleting && n.Pool == pool.name {
				p.Deleting = append(p.Deleting, n.Name)
			}
		}
		s.Pools = append(s.Pools, p)
	}
}

func (w *world) seeWorkloads(s *api.Snapshot) {
	s.Workloads = nil
	for _, o := range w.owners {
		if o.workload != (api.Key{}) {
			s.Workloads = append(s.Workloads, api.Workload{
				Key: o.workload, Mode: api.ModeFull, Replicas: o.replicas, MinReplicas: 1, MaxReplicas: o.most, QuotaReplicas: o.quota, Shape: shape,
			})
		}
	}
}

// observe returns a snapshot no part of which is older than the last write.
func (w *world) observe() api.Snapshot {
	s := api.Snapshot{Time: time.Unix(0, 0)}
	parts := []func(*api.Snapshot){w.seePods, w.seeNodes, w.seeWorkloads}
	w.rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	for _, see := range parts {
		w.events(w.rng.IntN(4))
		see(&s)
	}
	return s
}

func (w *world) events(n int) {
	for range n {
		w.event()
	}
}

// planFor is the plan of a perfect packer: nodes enough for all pods, surplus
// the nodes with fewest pods.
func (w *world) planFor(s api.Snapshot, target string) api.Plan {
	var plan api.Plan
	var pods int32
	for _, o := range w.owners {
		if o.workload == (api.Key{}) {
			pods += o.replicas
			continue
		}
		pods += o.wanted
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{
			Key: o.workload, Scale: api.Scale{Replicas: o.wanted}, Pools: on(target, o.wanted), NodeReplicas: o.wanted, Floor: o.wanted / 2, Reason: "demand",
		})
	}
	for i, pool := range s.Pools {
		pp := api.PoolPlan{Pool: pool.Name}
		zones := int32(len(pool.Zones))
		if pool.Name == target {
			nodes := (pods + nodePods - 1) / nodePods
			pp.SizePerZone = (nodes + zones - 1) / zones
			pp.Nodes = pp.SizePerZone * zones
			for z, zone := range pool.Zones {
				pp.Surplus = append(pp.Surplus, surplus(s, pool.Name, zone, int(s.Pools[i].Sizes[z]-pp.SizePerZone), w.rng)...)
			}
		}
		plan.Nodes.Pools = append(plan.Nodes.Pools, pp)
	}
	return plan
}

func surplus(s api.Snapshot, pool, zone string, n int, rng *rand.Rand) []string {
	if n <= 0 {
		return nil
	}
	load := map[string]int{}
	for _, p := range s.Pods {
		load[p.Node]++
	}
	var names []string
	for _, node := range s.Nodes {
		if node.Pool == pool && node.Zone == zone {
			names = append(names, node.Name)
		}
	}
	// Equal nodes in any order: a planner may hesitate between them.
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(load[a], load[b]) })
	return names[:min(n, len(names))]
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), tells: seed%2 == 0}
	zones := []string{"a", "b"}[:1+w.rng.IntN(2)]
	for _, name := range []string{"cheap", "fast"} {
		w.pools = append(w.pools, &simPool{name: name, zones: zones, sizes: make([]int32, len(zones))})
	}
	kinds := []string{"ReplicaSet", "ReplicaSet"}
	if w.rng.IntN(2) == 0 {
		kinds[1] = "StatefulSet"
	}
	var pods int32
	for i, kind := range kinds {
		n := 1 + w.rng.Int32N(6)
		w.owners = append(w.owners, &simOwner{
			kind: kind, name: fmt.Sprintf("web%d", i), workload: api.Key{Namespace: "shop", Name: fmt.Sprintf("web%d", i)}, replicas: n, wanted: n, most: 20,
		})
		pods += n
	}
	w.owners = append(w.owners, &simOwner{kind: "ReplicaSet", name: "other", replicas: 2})
	pods += 2
	per := (pods+nodePods-1)/nodePods + 1
	for i := range w.pools[0].sizes {
		w.pools[0].sizes[i] = (per + int32(len(zones)) - 1) / int32(len(zones))
	}
	w.events(400)
	w.ratchet()
	return w
}

func (w *world) settled(target string) string {
	for _, o := range w.owners {
		if o.workload != (api.Key{}) && (o.replicas != o.wanted || w.ready(o) != o.wanted) {
			return fmt.Sprintf("%s: %d replicas, %d Ready, %d wanted", o.name, o.replicas, w.ready(o), o.wanted)
		}
	}
	for _, p := range w.pods {
		if n := w.node(p.Node); n == nil || n.Pool != target {
			return "pod " + p.Key.Name + " is not on " + target
		}
		if p.DeletionCostOurs {
			return "pod " + p.Key.Name + " still bears a deletion cost"
		}
	}
	for _, n := range w.nodes {
		if n.Pool != target {
			return "node " + n.Name + " is still there"
		}
		if n.Cordoned {
			return "node " + n.Name + " is still cordoned"
		}
	}
	return ""
}

func (w *world) cycle(target string, crashes bool) (acted int) {
	s := w.observe()
	plan := w.planFor(s, target)
	actions, findings := execution.Sequence(s, plan, api.Policy{NodePools: []string{target}, ManagedPools: []string{"cheap", "fast"}})
	w.findings = findings
	for _, a := range actions {
		w.events(w.rng.IntN(3))
		switch {
		case crashes && w.rng.IntN(12) == 0:
			w.logf("killed before %s", a)
			return len(actions)
		case crashes && w.rng.IntN(12) == 0:
			w.logf("failed: %s", a)
			continue
		}
		w.apply(a)
	}
	return len(actions)
}

// TestSwitchInAnyOrderOfEvents switches policies, changes demand and kills the
// operator at random, and then lets it finish: never fewer Ready pods than
// promised, and in the end everything is on the pool wanted last, and quiet.
func TestSwitchInAnyOrderOfEvents(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		if !t.Run("", func(t *testing.T) { newWorld(t, seed).live() }) {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestASurgeIsBounded has maxima of what is wanted at most, and quotas: whatever happens in
// any order, no scaling asks for more than the maximum and a quarter of it, at least one
// more, nor for more than a quota has room for; and a move still ends.
func TestASurgeIsBounded(t *testing.T) {
	above, atQuota := 0, 0
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		for _, o := range w.owners {
			o.most = max(o.wanted, 1+w.rng.Int32N(8))
			if w.rng.IntN(2) == 0 {
				o.quota = o.most + 1
			}
		}
		w.scaled = func(o *simOwner, a api.ScaleWorkload) {
			bound := o.most + max(1, int32(math.Ceil(float64(o.most)/4)))
			if o.quota > 0 {
				bound = min(bound, o.quota)
			}
			if a.To > max(bound, a.From) {
				w.fail("%s: a maximum of %d and a quota of %d bear %d", a, o.most, o.quota, bound)
			}
			if a.To > o.most && a.To > a.From {
				above++
				if a.To == o.quota {
					atQuota++
				}
			}
		}
		w.live()
	}
	t.Logf("%d scalings went above a maximum, %d of them as far as a quota has room", above, atQuota)
	if above == 0 || above == atQuota || atQuota == 0 {
		t.Error("not every bound was met")
	}
}

// live has it all happen, and then waits until all is as wanted.
func (w *world) live() {
	target := "fast"
	for range 10 + w.rng.IntN(60) {
		switch w.rng.IntN(25) {
		case 0, 1:
			target = []string{"cheap", "fast"}[w.rng.IntN(2)]
			w.logf("policy wants %s", target)
		case 2, 3:
			o := w.owners[w.rng.IntN(2)]
			o.wanted = 1 + w.rng.Int32N(min(8, o.most))
			w.logf("%s wants %d", o.name, o.wanted)
		}
		w.ratchet()
		w.cycle(target, true)
		w.events(w.rng.IntN(12))
	}
	w.logf("policy and demand settle on %s", target)
	quiet := 0
	for range 600 {
		w.ratchet()
		if w.cycle(target, false) == 0 && w.settled(target) == "" {
			quiet++
		} else {
			quiet = 0
		}
		if quiet == 5 {
			return
		}
		w.events(w.rng.IntN(12))
	}
	for _, f := range w.findings {
		w.logf("finding: %s", f)
	}
	for _, n := range w.nodes {
		w.logf("%s Ready=%v cordoned=%v %s: %d pods", n.Name, n.Ready, n.Cordoned, n.CordonedFor, len(w.podsOn(n.Name)))
	}
	w.fail("not settled: %s", w.settled(target))
}
