package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
)

const (
	history = 48 * time.Hour
	period  = time.Minute
	// after is how many samples there are of the time to come.
	after = 120
)

var now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// size of a cluster.
type size struct {
	nodes, podsPerNode, workloads int
}

// replicas of each workload.
func (s size) replicas() int { return s.podsPerNode * s.nodes / s.workloads }

// world is a cluster at a time and what is asked of it then and later.
type world struct {
	snapshot api.Snapshot
	policy   api.Policy
	loads    [][]float64 // by workload, from the beginning of its history on
}

// at is the cluster some samples later, with the same pods and nodes and newer histories.
func (w world) at(later int) api.Snapshot {
	s := w.snapshot
	s.Time = s.Time.Add(time.Duration(later) * period)
	s.Metrics.LastOK, s.ResourceMetrics.LastOK = s.Time, s.Time
	s.Workloads = slices.Clone(s.Workloads)
	for i := range s.Workloads {
		d := &s.Workloads[i].Demand
		d.Start, d.Values = d.Start.Add(time.Duration(later)*period), w.loads[i][later:][:len(d.Values)]
	}
	return s
}

// falling is the same world, but that load falls from now on, to the half within an hour.
func (w world) falling() world {
	loads := make([][]float64, len(w.loads))
	for i, load := range w.loads {
		loads[i] = slices.Clone(load)
		for k := range after {
			loads[i][len(load)-after+k] *= 1 - 0.5*min(1, float64(k+1)/60)
		}
	}
	w.loads = loads
	return w
}

// steady is a cluster whose load as a whole stays: one pool of nodes, and workloads of as many
// Ready pods each, each in its own phase of the day. Their pods have one of seven requests;
// sized ones have as many requests as there are workloads, as where mash2 chooses them.
func steady(of size, sized bool) world {
	nodes, replicas := of.nodes, of.replicas()
	allocatable := api.Resources{MilliCPU: 400 * int64(of.podsPerNode), Memory: int64(of.podsPerNode+2) << 30, Pods: 110}
	s := api.Snapshot{Time: now, Metrics: api.SourceHealth{Reachable: true, LastOK: now}, ResourceMetrics: api.SourceHealth{Reachable: true, LastOK: now}}
	s.Pools = []api.Pool{pool("fast", int32(nodes), allocatable), pool("cheap", 0, allocatable)}
	for i := range nodes {
		s.Nodes = append(s.Nodes, node("fast", i, allocatable))
	}
	loads := make([][]float64, of.workloads)
	for w := range of.workloads {
		key := api.Key{Namespace: "shop", Name: fmt.Sprintf("web%05d", w)}
		shape := &api.PodShape{ID: key.Name, Requests: api.Resources{MilliCPU: 200 + int64(w%7)*45, Memory: 256 << 20, Pods: 1}}
		if sized {
			shape.Requests.MilliCPU, shape.Requests.Memory = 200+int64(w*7919%271), shape.Requests.Memory+int64(w)<<12
		}
		loads[w] = loadOf(w, 0.6*float64(replicas)*float64(shape.Requests.MilliCPU))
		s.Workloads = append(s.Workloads, api.Workload{
			Key: key, Mode: api.ModeFull, Planner: "horizontal", Target: api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: key.Name},
			MinReplicas: 1, MaxReplicas: int32(2 * replicas), Replicas: int32(replicas), ReadyReplicas: int32(replicas), PlannedReplicas: int32(replicas),
			Shape: shape, SpeedNow: 1, Behavior: behavior(),
			Demand: api.Series{Start: now.Add(-history), Step: period, Values: loads[w][:history/period]},
		})
		for i := range replicas {
			s.Pods = append(s.Pods, api.Pod{
				Key: api.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", key.Name, i)}, UID: fmt.Sprintf("%s-%d", key.Name, i), Workload: key, Shape: shape,
				Node: s.Nodes[(w*7*(nodes/of.workloads)+i*31)%nodes].Name, Phase: "Running", Ready: true, ControllerKind: "ReplicaSet", ControllerName: key.Name,
				Created: now.Add(-history), ReadyAt: now.Add(-history),
			})
		}
	}
	policy := strategic.Defaults()[api.Performance]
	policy.NodePools, policy.ManagedPools = []string{"fast"}, []string{"cheap", "fast"}
	return world{s, policy, loads}
}

func pool(name string, size int32, allocatable api.Resources) api.Pool {
	return api.Pool{
		Name: name, MachineType: name, Zones: []string{"a"}, Sizes: []int32{size}, Allocatable: allocatable, Cores: allocatable.MilliCPU,
		Labels: map[string]string{api.LabelNodePool: name}, Price: 0.5, CPUSpeed: 1,
	}
}

func node(pool string, i int, allocatable api.Resources) api.Node {
	name := fmt.Sprintf("%s-%d", pool, i)
	return api.Node{
		Name: name, Pool: pool, Zone: "a", Ready: true, ProviderID: "gce://p/a/" + name, Allocatable: allocatable,
		Labels: map[string]string{"kubernetes.io/hostname": name, api.LabelNodePool: pool}, Created: now.Add(-history), ReadyAt: now.Add(-history),
	}
}

// loadOf a workload, in millicores: a wave of a day in its own phase, which every tenth
// workload has within the hour as well, and a twentieth of noise, which no two times are
// without.
func loadOf(w int, level float64) []float64 {
	out := make([]float64, int(history/period)+after)
	chance := rand.New(rand.NewPCG(uint64(w), 0))
	day, hour := float64(24*time.Hour/period), float64(time.Hour/period)
	for i := range out {
		wave := 0.3 * math.Sin(2*math.Pi*(float64(i)/day+float64(w%97)/97))
		if w%10 == 0 {
			wave += 0.2 * math.Sin(2*math.Pi*float64(i)/hour)
		}
		out[i] = level * max(0, 1+wave+0.05*chance.NormFloat64())
	}
	return out
}

func behavior() api.Behavior {
	return api.Behavior{Tolerance: 0.1}
}

// shrinking is the same cluster with a plan that calls every tenth node surplus.
func shrinking(s api.Snapshot) (api.Snapshot, api.Plan) {
	keep := int32(len(s.Nodes) - len(s.Nodes)/10)
	p := api.PoolPlan{Pool: "fast", SizePerZone: keep, Nodes: keep}
	for i := 0; i < len(s.Nodes); i += 10 {
		p.Surplus = append(p.Surplus, s.Nodes[i].Name)
	}
	s.Workloads = slices.Clone(s.Workloads)
	return s, planOf(s, "fast", p)
}

// switching is a move from the pool fast to cheap under way: all old nodes are cordoned,
// and half of the pods are on the new ones.
func switching(s api.Snapshot) (api.Snapshot, api.Plan, api.Policy) {
	n := len(s.Nodes)
	s.Nodes, s.Pods, s.Pools = slices.Clone(s.Nodes), slices.Clone(s.Pods), slices.Clone(s.Pools)
	for i := range n {
		s.Nodes[i].Cordoned, s.Nodes[i].CordonedFor, s.Nodes[i].CordonedAt = true, api.CordonMigration, now.Add(-time.Minute)
		s.Nodes = append(s.Nodes, node("cheap", i, s.Pools[1].Allocatable))
	}
	s.Pools[1].Sizes = []int32{int32(n)}
	for i := range s.Pods {
		if i%2 == 0 {
			s.Pods[i].Node = s.Nodes[n+i/2%n].Name
		}
	}
	policy := strategic.Defaults()[api.CostSaving]
	policy.NodePools, policy.ManagedPools = []string{"cheap"}, []string{"cheap", "fast"}
	return s, planOf(s, "cheap", api.PoolPlan{Pool: "cheap", SizePerZone: int32(n), Nodes: int32(n)}, api.PoolPlan{Pool: "fast"}), policy
}

// spot is the cluster with half of its pods on as many spot machines as hold them, and a
// policy that lets half of each workload's replicas be there.
func (w world) spot() world {
	s, n := w.snapshot, len(w.snapshot.Nodes)
	s.Nodes, s.Pods, s.Pools = slices.Clone(s.Nodes), slices.Clone(s.Pods), slices.Clone(s.Pools)
	for i := range n / 2 {
		s.Nodes = append(s.Nodes, node("cheap", i, s.Pools[1].Allocatable))
	}
	for i := range s.Pods {
		if i%2 == 0 {
			s.Pods[i].Node = s.Nodes[n+i/2%(n/2)].Name
		}
	}
	s.Pools[1].Sizes, s.Pools[1].Spot, s.Pools[1].Price = []int32{int32(n / 2)}, true, 0.2
	w.snapshot = s
	w.policy.NodePools, w.policy.Spot = []string{"cheap", "fast"}, &api.Spot{MaxShare: 0.5, Floor: 2}
	return w
}

// zonal is the cluster in three zones, over which the copies of each workload must be spread,
// and a tenth of which is missing.
func (w world) zonal() world {
	s, zones := w.snapshot, []string{"a", "b", "c"}
	s.Nodes, s.Pools, s.Workloads = slices.Clone(s.Nodes), slices.Clone(s.Pools), slices.Clone(s.Workloads)
	for i := range s.Pools {
		each := s.Pools[i].Sizes[0] / int32(len(zones))
		s.Pools[i].Zones, s.Pools[i].Sizes = zones, []int32{each, each, each}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Zone = zones[i%len(zones)]
		n.Labels = maps.Clone(n.Labels)
		n.Labels[api.LabelZone] = n.Zone
	}
	shapes := map[api.Key]*api.PodShape{}
	for i := range s.Workloads {
		shape := *s.Workloads[i].Shape
		shape.ZoneSkew = 1
		s.Workloads[i].Shape, shapes[s.Workloads[i].Key] = &shape, &shape
	}
	s.Pods = nil
	for i, p := range w.snapshot.Pods {
		if i%10 > 0 {
			p.Shape = shapes[p.Workload]
			s.Pods = append(s.Pods, p)
		}
	}
	w.snapshot = s
	return w
}

// planOf keeps all replicas, on a pool.
func planOf(s api.Snapshot, on string, pools ...api.PoolPlan) api.Plan {
	plan := api.Plan{Nodes: api.NodePlan{Pools: pools}}
	for _, w := range s.Workloads {
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{
			Key: w.Key, Scale: api.Scale{Replicas: w.Replicas}, Pools: []api.PoolShare{{Pool: on, Replicas: w.Replicas}},
		})
	}
	return plan
}
