package execution

import (
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

func TestPlaceFillsNodesAndKeepsToLimits(t *testing.T) {
	node := func(name string) *api.Node { return &api.Node{Name: name} }
	cases := map[string]struct {
		free  []api.Resources
		shape api.PodShape
		n     int32
		want  int32
	}{
		"as many as CPU allows":                   {free: []api.Resources{{MilliCPU: 1000, Pods: 10}, {MilliCPU: 500, Pods: 10}}, shape: api.PodShape{Requests: api.Resources{MilliCPU: 300, Pods: 1}}, n: 9, want: 4},
		"as many as pod slots allow":              {free: []api.Resources{{MilliCPU: 1000, Pods: 2}}, shape: api.PodShape{Requests: api.Resources{MilliCPU: 10, Pods: 1}}, n: 9, want: 2},
		"no more than asked":                      {free: []api.Resources{{MilliCPU: 1000, Pods: 10}}, shape: api.PodShape{Requests: api.Resources{MilliCPU: 10, Pods: 1}}, n: 3, want: 3},
		"none when none is asked":                 {free: []api.Resources{{MilliCPU: 1000, Pods: 10}}, shape: api.PodShape{Requests: api.Resources{Pods: 1}}, n: -1, want: 0},
		"one per node":                            {free: []api.Resources{{Pods: 9}, {Pods: 9}}, shape: api.PodShape{ID: "x", Requests: api.Resources{Pods: 1}, MaxPerNode: 1}, n: 9, want: 2},
		"an overcommitted resource not asked for": {free: []api.Resources{{MilliCPU: 100, Memory: -1, Pods: 9}}, shape: api.PodShape{Requests: api.Resources{MilliCPU: 50, Pods: 1}}, n: 9, want: 2},
		"an extended resource that isn't there":   {free: []api.Resources{{MilliCPU: 100, Pods: 9}}, shape: api.PodShape{Requests: api.Resources{Pods: 1, Extended: map[string]int64{"gpu": 1}}}, n: 1, want: 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var r room
			for i, free := range c.free {
				r.spaces = append(r.spaces, placement.Space{Node: node(string(rune('a' + i))), Free: free})
			}
			if got := r.place(placement.Pods{Shape: &c.shape}, c.n, ""); got != c.want {
				t.Errorf("placed %d, want %d", got, c.want)
			}
			if again := r.place(placement.Pods{Shape: &c.shape}, c.n, ""); c.want < c.n && again != 0 {
				t.Errorf("placed %d more where nothing was left", again)
			}
		})
	}
}
