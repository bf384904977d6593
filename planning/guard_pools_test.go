package planning

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// A pool that may not be resized stays as it is, and says what was wanted.
func TestKeepSize(t *testing.T) {
	wanted := api.PoolPlan{Pool: "p", SizePerZone: 4, Nodes: 12, Now: 3, Surplus: []string{"n1"}, Reason: "all nodes are needed"}
	kept := func(why string) api.PoolPlan {
		return api.PoolPlan{Pool: "p", SizePerZone: 2, Nodes: 5, Now: 2, Reason: "kept at 5 nodes: " + why + " (4 per zone are wanted)"}
	}
	pool := api.Pool{Name: "p", Zones: []string{"a", "b", "c"}, Sizes: []int32{2, 2, 1}}
	for name, c := range map[string]struct {
		change func(*api.Pool)
		want   api.PoolPlan
	}{
		"one that is ours to resize": {change: func(*api.Pool) {}, want: wanted},
		"one that the provider resizes": {
			change: func(p *api.Pool) { p.Autoscaled = true }, want: kept("the provider resizes this pool"),
		},
		"one that somebody else resizes": {
			change: func(p *api.Pool) { p.Autoscaled, p.AutoscaledBy = true, "cluster-autoscaler" },
			want:   kept("cluster-autoscaler resizes this pool"),
		},
		"one that is being upgraded": {
			change: func(p *api.Pool) { p.Hold = "an upgrade is running" }, want: kept("an upgrade is running"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, got := pool, wanted
			c.change(&p)
			Guard{Config: DefaultConfig()}.keepSize(&got, p)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A limit holds where pods are left without a place for it.
func TestLimitSize(t *testing.T) {
	wanted := api.PoolPlan{SizePerZone: 4, Nodes: 12, Now: 3, Reason: "all nodes are needed"}
	for name, c := range map[string]struct {
		max, least int32
		want       api.PoolPlan
	}{
		"none":               {max: -1, want: wanted},
		"as many":            {max: 12, want: wanted},
		"fewer":              {max: 9, want: api.PoolPlan{SizePerZone: 3, Nodes: 9, Now: 3, Reason: "limited to 9 nodes: money"}},
		"fewer than now":     {max: 6, want: api.PoolPlan{SizePerZone: 2, Nodes: 6, Now: 2, Reason: "limited to 6 nodes: money"}},
		"below the pool's":   {max: 3, least: 2, want: api.PoolPlan{SizePerZone: 2, Nodes: 6, Now: 2, Reason: "limited to 6 nodes: money"}},
		"none may be bought": {max: 0, want: api.PoolPlan{Reason: "limited to 0 nodes: money"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := wanted
			Guard{Config: DefaultConfig()}.limitSize(&got, api.Pool{Zones: []string{"a", "b", "c"}, MinPerZone: c.least}, c.max, "money")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// Of several limits on nodes the lowest binds, and of equal ones the first.
func TestMaxNodesOfSeveral(t *testing.T) {
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	pool := func(change func(*api.Pool)) api.Pool {
		p := api.Pool{Name: "p", Zones: []string{"a", "b"}, Sizes: []int32{3, 3}, Price: 0.1}
		change(&p)
		return p
	}
	failed := func(kind api.PoolErrorKind, ago time.Duration) *api.PoolError {
		return &api.PoolError{Kind: kind, Message: "no", At: now.Add(-ago)}
	}
	memory := DefaultConfig().PoolErrorMemory
	for name, c := range map[string]struct {
		pool       api.Pool
		policy     api.Policy
		want       int32
		wantReason string
	}{
		"the pool's is lower": {
			pool: pool(func(p *api.Pool) { p.MaxPerZone = 2 }), policy: api.Policy{Name: "P", MaxNodesPerPool: 10},
			want: 4, wantReason: "at most 2 nodes per zone",
		},
		"the policy's is lower": {
			pool: pool(func(p *api.Pool) { p.MaxPerZone = 5 }), policy: api.Policy{Name: "P", MaxNodesPerPool: 4},
			want: 4, wantReason: "policy P allows 4 nodes",
		},
		"equal ones": {
			pool: pool(func(p *api.Pool) { p.MaxPerZone = 2 }), policy: api.Policy{Name: "P", MaxNodesPerPool: 4},
			want: 4, wantReason: "at most 2 nodes per zone",
		},
		"none at all stays none": {
			pool: pool(func(p *api.Pool) { p.MaxPerZone = 5 }), policy: api.Policy{Name: "P", MaxNodesPerPool: 1, MaxHourlyCost: 9},
			want: 0, wantReason: "policy P allows 1 nodes",
		},
		"what is free can be had for no money": {
			pool: pool(func(p *api.Pool) { p.Price = 0 }), policy: api.Policy{Name: "P", MaxHourlyCost: 0.5}, want: -1,
		},
		"a quota that was hit": {
			pool: pool(func(p *api.Pool) { p.Error = failed(api.PoolQuota, time.Minute) }), want: 6, wantReason: "Quota: no",
		},
		"one that was hit just as long ago as is remembered": {
			pool: pool(func(p *api.Pool) { p.Error = failed(api.PoolStockout, memory) }), want: 6, wantReason: "Stockout: no",
		},
		"one that was hit longer ago": {
			pool: pool(func(p *api.Pool) { p.Error = failed(api.PoolStockout, memory+time.Second) }), want: -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := Guard{Config: DefaultConfig()}.MaxNodes(now, c.policy, c.pool, 0, true)
			if got != c.want || (reason == "") != (c.wantReason == "") || !strings.Contains(reason, c.wantReason) {
				t.Errorf("MaxNodes = %d, %q, want %d, %q", got, reason, c.want, c.wantReason)
			}
		})
	}
}

// What nodes are for, where a ramp, a held plan or a workload without replicas has
// a say.
func TestNodeReplicasOf(t *testing.T) {
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	at := func(ahead time.Duration, n int32) api.PathStep {
		return api.PathStep{At: now.Add(ahead), Scale: api.Scale{Replicas: n}, Need: float64(n)}
	}
	for name, c := range map[string]struct {
		change func(*Subject)
		asked  int32
		want   int32
	}{
		"what the planner wants nodes for": {
			asked: 2, change: func(s *Subject) {
				s.Proposal.NodeReplicas, s.Proposal.Path = 7, []api.PathStep{{At: now, Scale: api.Scale{Replicas: 2}}}
			}, want: 7,
		},
		"held, for what there is": {
			asked: 2, change: func(s *Subject) { s.Proposal.Held, s.Memory.Replicas = true, 5 }, want: 5,
		},
		"held, for what is asked for": {
			asked: 6, change: func(s *Subject) { s.Proposal.Held, s.Memory.Replicas = true, 5 }, want: 6,
		},
		"what a ramp asked for a moment ago, of those that nodes were planned for": {
			asked: 2, change: func(s *Subject) {
				s.Memory.NodeReplicas = 8
				s.Memory.Ramps = []Recommendation{{From: now.Add(-time.Minute), To: now.Add(-time.Minute), Capacity: 6}}
			}, want: 6,
		},
		"what a ramp asked for before the time of a node": {
			asked: 2, change: func(s *Subject) {
				s.Memory.NodeReplicas = 8
				s.Memory.Ramps = []Recommendation{{From: now.Add(-time.Hour), To: now.Add(-time.Hour), Capacity: 6}}
			}, want: 2,
		},
		"without replicas, what is foreseen": {
			asked: 0, change: func(s *Subject) {
				s.Workload.MinReplicas, s.Policy.ScaleToZero, s.Proposal.Activity = 0, true, api.Inactive
				s.Memory.Replicas, s.Proposal.Path = 0, []api.PathStep{at(0, 9), at(time.Minute, 3)}
			}, want: 3,
		},
		"nothing needed is nothing kept": {
			asked: 0, change: func(s *Subject) { s.Proposal.Path, s.Memory.NodeReplicas = []api.PathStep{at(0, 0)}, 1 }, want: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Subject{
				Time: now, Workload: api.Workload{MinReplicas: 1, MaxReplicas: 20}, Speed: 1, Trusted: true,
				Proposal: Proposal{Path: []api.PathStep{at(0, 2)}},
				Memory:   WorkloadMemory{Replicas: 2, NodeReplicas: 2},
				Windows:  Windows{Node: 2 * time.Minute, Trough: time.Minute, NodeTrough: 4 * time.Minute, Horizon: 10 * time.Minute},
			}
			c.change(&s)
			if got, _, _ := (Guard{Config: DefaultConfig()}).NodeReplicas(s, c.asked); got != c.want {
				t.Errorf("NodeReplicas = %d, want %d", got, c.want)
			}
		})
	}
}
