package node

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// Wherever the planner puts a pod, on a node that is there or on one to be bought,
// placement lets it: so do execution and the simulated scheduler, which ask it.
func TestPlannedPlacesAreReal(t *testing.T) {
	placed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := worlds().Draw(t, "world")
		v, err := newView(w.input())
		if err != nil {
			t.Fatal(err)
		}
		l := v.begin(v.size, false)
		if err := l.finish(func(p Problem) (Packing, error) { return FFD{}.Solve(p, api.Budget{}) }, api.Budget{Iterations: 1000}); err != nil {
			t.Fatal(err)
		}
		for i, r := range l.nodes {
			if r.removed || !r.node.Ready {
				continue // of a booting node only its pool's labels are known
			}
			before := map[int]int32{}
			for _, tenant := range v.nodes[i].pods {
				before[tenant.item]++
			}
			came, free := map[int]int32{}, slices.Clone(v.nodes[i].free)
			for _, tenant := range v.nodes[i].pods {
				take(free, v.items[tenant.item].requests, -1)
			}
			for _, tenant := range r.pods { // those that stay, and those that come
				if before[tenant.item] > 0 {
					before[tenant.item]--
					take(free, v.items[tenant.item].requests, 1)
				} else {
					came[tenant.item]++
				}
			}
			space := placement.Space{Node: r.node, Free: api.Resources{MilliCPU: free[0], Memory: free[1], EphemeralStorage: free[2], Pods: free[3]}}
			for item, n := range came {
				it := v.items[item]
				if got := space.Place(v.podsOf(it), n); got != n {
					t.Fatalf("%s: %d of %s are planned for it, placement takes %d", r.node.Name, n, it.name, got)
				}
				placed += int(n)
			}
		}
		// New nodes, each with what it is bought for.
		needed := map[int]int32{}
		for _, load := range l.packing.Loads {
			typ := v.types[load.Type]
			at := v.pools[typ.pool]
			node := &api.Node{Name: fmt.Sprintf("new-%d", load.Type), Pool: at.Name, Zone: typ.site.Zone, Labels: typ.site.Labels, Taints: typ.site.Taints, Allocatable: at.Allocatable}
			if node.Zone != "" {
				node.Labels = map[string]string{api.LabelZone: node.Zone}
				for k, v := range typ.site.Labels {
					node.Labels[k] = v
				}
			}
			// Copies that exclude one another may be packed together as they are
			// different items: then there is a node more.
			spaces := []placement.Space{placement.SpaceOf(node, nil, at.Overhead)}
			for _, share := range load.Pods {
				it := v.items[l.packed[share.Item]]
				left := share.Count
				for i := 0; left > 0; i++ {
					if i == len(spaces) {
						if it.shape.MaxPerNode == 0 {
							t.Fatalf("a new node of %s: %d of %s are packed onto it, %d too many", at.Name, share.Count, it.name, left)
						}
						spaces = append(spaces, placement.SpaceOf(node, nil, at.Overhead))
					}
					left -= spaces[i].Place(v.podsOf(it), left)
					if i > 20 {
						t.Fatalf("a new node of %s: %s is packed onto it, placement never takes it", at.Name, it.name)
					}
				}
				placed += int(share.Count)
			}
			needed[typ.pool] += int32(len(spaces)) * load.Nodes
		}
		for p, n := range needed {
			if pl := l.pools[p]; pl.fresh < n && v.pools[p].most == Unlimited {
				t.Fatalf("%d nodes of %s are bought, the pods need %d", pl.fresh, v.pools[p].Name, n)
			}
		}
	})
	if placed < 100 {
		t.Errorf("only %d pods were placed", placed)
	}
}

// podsOf are the pods of an item as placement takes them.
func (v *view) podsOf(it podItem) placement.Pods {
	p := placement.Pods{Shape: it.shape, Zones: it.bound}
	for key, i := range v.byKey {
		if i == it.copy {
			p.Workload = key.workload
		}
	}
	if it.zone != "" {
		p.Zones = []string{it.zone}
	}
	return p
}
