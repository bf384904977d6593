package execution

import (
	"testing"

	"github.com/mash2-io/mash2/api"
)

func TestAdmitsByTheSchedulersHardRules(t *testing.T) {
	labels := map[string]string{"tier": "fast", "cores": "8"}
	affinity := func(key, operator string, values ...string) *api.PodShape {
		return &api.PodShape{Affinity: []api.NodeTerm{{Labels: []api.NodeRequirement{{Key: key, Operator: operator, Values: values}}}}}
	}
	fast := api.Taint{Key: "tier", Value: "fast", Effect: noSchedule}
	cases := map[string]struct {
		shape  *api.PodShape
		taints []api.Taint
		want   bool
	}{
		"no shape asks for nothing":           {want: true},
		"no shape tolerates nothing":          {taints: []api.Taint{fast}},
		"a selector that matches":             {shape: &api.PodShape{NodeSelector: map[string]string{"tier": "fast"}}, want: true},
		"a selector with another value":       {shape: &api.PodShape{NodeSelector: map[string]string{"tier": "slow"}}},
		"a selector of an absent empty label": {shape: &api.PodShape{NodeSelector: map[string]string{"zone": ""}}},
		"In":                                  {shape: affinity("tier", "In", "slow", "fast"), want: true},
		"NotIn of an absent label":            {shape: affinity("zone", "NotIn", "a"), want: true},
		"NotIn":                               {shape: affinity("tier", "NotIn", "fast")},
		"Exists":                              {shape: affinity("tier", "Exists"), want: true},
		"DoesNotExist":                        {shape: affinity("tier", "DoesNotExist")},
		"Gt":                                  {shape: affinity("cores", "Gt", "4"), want: true},
		"Gt is strict":                        {shape: affinity("cores", "Gt", "8")},
		"Lt":                                  {shape: affinity("cores", "Lt", "16"), want: true},
		"Gt of what is no number":             {shape: affinity("tier", "Gt", "4")},
		"an unknown operator matches nothing": {shape: affinity("tier", "Like", "fast")},
		"an empty term matches nothing":       {shape: &api.PodShape{Affinity: []api.NodeTerm{{}}}},
		"affinity without terms matches none": {shape: &api.PodShape{Affinity: []api.NodeTerm{}}},
		"one term of two is enough":           {shape: &api.PodShape{Affinity: []api.NodeTerm{{}, affinity("tier", "Exists").Affinity[0]}}, want: true},
		"by name":                             {shape: &api.PodShape{Affinity: []api.NodeTerm{{Names: []api.NodeRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}}}}, want: true},
		"a tolerated taint":                   {shape: &api.PodShape{Tolerations: []api.Toleration{{Key: "tier", Value: "fast"}}}, taints: []api.Taint{fast}, want: true},
		"a taint of another value":            {shape: &api.PodShape{Tolerations: []api.Toleration{{Key: "tier", Value: "slow"}}}, taints: []api.Taint{fast}},
		"a toleration of another effect":      {shape: &api.PodShape{Tolerations: []api.Toleration{{Key: "tier", Operator: "Exists", Effect: noExecute}}}, taints: []api.Taint{fast}},
		"a toleration of everything":          {shape: &api.PodShape{Tolerations: []api.Toleration{{Operator: "Exists"}}}, taints: []api.Taint{fast}, want: true},
		"a taint that only discourages":       {shape: &api.PodShape{}, taints: []api.Taint{{Key: "x", Effect: "PreferNoSchedule"}}, want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := admits(c.shape, "n1", labels, c.taints); got != c.want {
				t.Errorf("admits = %v, want %v", got, c.want)
			}
		})
	}
}

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
				r.spaces = append(r.spaces, space{node: node(string(rune('a' + i))), free: free})
			}
			if got := r.place(&c.shape, c.n, nil); got != c.want {
				t.Errorf("placed %d, want %d", got, c.want)
			}
			if again := r.place(&c.shape, c.n, nil); c.want < c.n && again != 0 {
				t.Errorf("placed %d more where nothing was left", again)
			}
		})
	}
}
