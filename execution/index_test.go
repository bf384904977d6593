package execution

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// What is found of pods in one pass is what is found of each by itself, whatever their order.
func TestPodsAreFoundAsOneByOne(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s api.Snapshot
		for i := range r.IntN(4) {
			s.Nodes = append(s.Nodes, api.Node{Name: fmt.Sprint("n", i)})
		}
		for i := range r.IntN(40) {
			p := api.Pod{Key: api.Key{Namespace: "shop", Name: fmt.Sprint("p", i)}, Terminating: r.IntN(4) == 0, Gated: r.IntN(4) == 0}
			if w := r.IntN(4); w > 0 {
				p.Workload = api.Key{Namespace: "shop", Name: fmt.Sprint("w", w)}
			}
			if n := r.IntN(6); n > 0 { // some of them are not shown
				p.Node = fmt.Sprint("n", n-1)
			}
			s.Pods = append(s.Pods, p)
			if r.IntN(2) == 0 && i > 0 { // of one workload
				s.Pods[i].Workload = s.Pods[i-1].Workload
			}
		}
		wantOn, wantOf := map[string][]*api.Pod{}, map[api.Key][]*api.Pod{}
		wantBound, wantUnbound := map[api.Key]int32{}, map[api.Key]int32{}
		var wantPending []*api.Pod
		for i := range s.Pods {
			p := &s.Pods[i]
			mine := p.Workload != api.Key{}
			if p.Node != "" {
				wantOn[p.Node] = append(wantOn[p.Node], p)
			}
			if mine {
				wantOf[p.Workload] = append(wantOf[p.Workload], p)
			}
			if p.Node == "" && !p.Terminating && (mine || !p.Gated) {
				wantPending = append(wantPending, p)
			}
			if mine && !p.Terminating && p.Node != "" {
				wantBound[p.Workload]++
			}
			if mine && !p.Terminating && p.Node == "" {
				wantUnbound[p.Workload]++
			}
		}
		v, _ := newView(s, api.Plan{}, api.Policy{}, guards(0))
		for _, c := range []struct {
			what      string
			want, got any
		}{{"by node", wantOn, v.podsOn}, {"by workload", wantOf, v.podsOf}, {"pending", wantPending, v.pending}} {
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Fatalf("seed %d, %s (-want +got):\n%s", seed, c.what, diff)
			}
		}
		for key := range wantOf {
			if v.bound[key] != wantBound[key] || v.unbound[key] != wantUnbound[key] {
				t.Fatalf("seed %d, %s: %d bound and %d unbound, want %d and %d", seed, key, v.bound[key], v.unbound[key], wantBound[key], wantUnbound[key])
			}
		}
	}
}
