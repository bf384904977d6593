package rest

import (
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// mostNodes are listed of one pool: a picture of more can't be read.
const mostNodes = 400

// Packing is which pods are on which node.
type Packing struct {
	Cycle uint64     `json:"cycle"`
	Pools []PoolPods `json:"pools"`
	// Pending are pods without a node, by owner.
	Pending []Share `json:"pending"`
}

// PoolPods are the nodes of one pool, in order of name; at most 400.
type PoolPods struct {
	Pool string `json:"pool"` // empty for nodes of no pool
	// Nodes there are in all.
	Total int        `json:"total"`
	Nodes []NodePods `json:"nodes"`
}

// NodePods is what is on a node.
type NodePods struct {
	Name     string `json:"name"`
	Zone     string `json:"zone,omitempty"`
	Ready    bool   `json:"ready"`
	Cordoned bool   `json:"cordoned,omitempty"`
	// For says what mash2 cordoned it for.
	For      string  `json:"for,omitempty"`
	MilliCPU int64   `json:"milliCPU"` // allocatable
	Memory   int64   `json:"memory"`   // allocatable, bytes
	Shares   []Share `json:"shares"`   // of what it runs, largest first
}

// Share is what pods of one owner request together.
type Share struct {
	// Workload is a ManagedWorkload; empty for pods of nobody's, which are summed up.
	Workload string `json:"workload,omitempty"`
	Pods     int    `json:"pods"`
	Unready  int    `json:"unready,omitempty"`
	MilliCPU int64  `json:"milliCPU"`
	Memory   int64  `json:"memory"` // bytes
}

// packing is the picture of who runs where; only for viewers of nodes.
func (s *Store) packing(pool string) Packing {
	s.mu.RLock()
	snapshot, cycle := s.last.Snapshot, s.last.Cycle.ID
	s.mu.RUnlock()
	out := Packing{Cycle: cycle, Pools: []PoolPods{}, Pending: []Share{}}
	index := map[string]int{}
	shown := map[string]*NodePods{}
	for _, n := range snapshot.Nodes {
		if pool != "" && n.Pool != pool {
			continue
		}
		i, ok := index[n.Pool]
		if !ok {
			i = len(out.Pools)
			index[n.Pool] = i
			out.Pools = append(out.Pools, PoolPods{Pool: n.Pool})
		}
		p := &out.Pools[i]
		if p.Total++; p.Total > mostNodes {
			continue
		}
		p.Nodes = append(p.Nodes, NodePods{
			Name: n.Name, Zone: n.Zone, Ready: n.Ready, Cordoned: n.Cordoned, For: n.CordonedFor,
			MilliCPU: n.Allocatable.MilliCPU, Memory: n.Allocatable.Memory, Shares: []Share{},
		})
	}
	for i := range out.Pools {
		for j := range out.Pools[i].Nodes {
			n := &out.Pools[i].Nodes[j]
			shown[n.Name] = n
		}
	}
	for _, p := range snapshot.Pods {
		if p.Node == "" {
			out.Pending = addShare(out.Pending, p)
		} else if n := shown[p.Node]; n != nil {
			n.Shares = addShare(n.Shares, p)
		}
	}
	for _, n := range shown {
		sortShares(n.Shares)
	}
	sortShares(out.Pending)
	slices.SortFunc(out.Pools, func(a, b PoolPods) int { return strings.Compare(a.Pool, b.Pool) })
	return out
}

func addShare(all []Share, p api.Pod) []Share {
	name := ""
	if p.Workload != (api.Key{}) {
		name = p.Workload.String()
	}
	i := slices.IndexFunc(all, func(s Share) bool { return s.Workload == name })
	if i < 0 {
		i = len(all)
		all = append(all, Share{Workload: name})
	}
	all[i].Pods++
	if !p.Ready {
		all[i].Unready++
	}
	if p.Shape != nil {
		all[i].MilliCPU += p.Shape.Requests.MilliCPU
		all[i].Memory += p.Shape.Requests.Memory
	}
	return all
}

func sortShares(all []Share) {
	slices.SortFunc(all, func(a, b Share) int {
		if a.MilliCPU != b.MilliCPU {
			return int(b.MilliCPU - a.MilliCPU)
		}
		return strings.Compare(a.Workload, b.Workload)
	})
}
