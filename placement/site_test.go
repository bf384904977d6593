package placement

import (
	"testing"

	"github.com/mash2-io/mash2/api"
)

func TestAdmits(t *testing.T) {
	here := Site{
		Name:   "n1",
		Labels: map[string]string{"arch": "arm64", "cores": "8", "odd": "eight", api.LabelZone: "a"},
		Taints: []api.Taint{{Key: "spot", Value: "yes", Effect: "NoSchedule"}, {Key: "busy", Effect: "PreferNoSchedule"}},
	}
	spot := []api.Toleration{{Key: "spot", Operator: "Exists"}}
	label := func(key, op string, values ...string) api.NodeTerm {
		return api.NodeTerm{Labels: []api.NodeRequirement{{Key: key, Operator: op, Values: values}}}
	}
	name := func(op string, values ...string) api.NodeTerm {
		return api.NodeTerm{Names: []api.NodeRequirement{{Key: nodeName, Operator: op, Values: values}}}
	}
	for text, tc := range map[string]struct {
		selector    map[string]string
		terms       []api.NodeTerm
		tolerations []api.Toleration
		want        bool
	}{
		"no wishes, but a taint":              {want: false},
		"no wishes":                           {tolerations: spot, want: true},
		"a selector that matches":             {selector: map[string]string{"arch": "arm64"}, tolerations: spot, want: true},
		"a selector with another value":       {selector: map[string]string{"arch": "amd64"}, tolerations: spot},
		"a selector for an absent label":      {selector: map[string]string{"gpu": ""}, tolerations: spot},
		"In":                                  {terms: []api.NodeTerm{label("arch", "In", "amd64", "arm64")}, tolerations: spot, want: true},
		"In, another value":                   {terms: []api.NodeTerm{label("arch", "In", "amd64")}, tolerations: spot},
		"In, absent":                          {terms: []api.NodeTerm{label("gpu", "In", "")}, tolerations: spot},
		"NotIn":                               {terms: []api.NodeTerm{label("arch", "NotIn", "amd64")}, tolerations: spot, want: true},
		"NotIn, that value":                   {terms: []api.NodeTerm{label("arch", "NotIn", "arm64")}, tolerations: spot},
		"NotIn, absent":                       {terms: []api.NodeTerm{label("gpu", "NotIn", "yes")}, tolerations: spot, want: true},
		"Exists":                              {terms: []api.NodeTerm{label("arch", "Exists")}, tolerations: spot, want: true},
		"Exists, absent":                      {terms: []api.NodeTerm{label("gpu", "Exists")}, tolerations: spot},
		"DoesNotExist":                        {terms: []api.NodeTerm{label("gpu", "DoesNotExist")}, tolerations: spot, want: true},
		"DoesNotExist, present":               {terms: []api.NodeTerm{label("arch", "DoesNotExist")}, tolerations: spot},
		"Gt":                                  {terms: []api.NodeTerm{label("cores", "Gt", "7")}, tolerations: spot, want: true},
		"Gt, equal":                           {terms: []api.NodeTerm{label("cores", "Gt", "8")}, tolerations: spot},
		"Lt":                                  {terms: []api.NodeTerm{label("cores", "Lt", "9")}, tolerations: spot, want: true},
		"Lt, equal":                           {terms: []api.NodeTerm{label("cores", "Lt", "8")}, tolerations: spot},
		"Gt on a word":                        {terms: []api.NodeTerm{label("odd", "Gt", "1")}, tolerations: spot},
		"Gt than a word":                      {terms: []api.NodeTerm{label("cores", "Gt", "one")}, tolerations: spot},
		"Lt, absent":                          {terms: []api.NodeTerm{label("gpu", "Lt", "1")}, tolerations: spot},
		"an operator that does not exist":     {terms: []api.NodeTerm{label("arch", "Like", "arm64")}, tolerations: spot},
		"one of two terms":                    {terms: []api.NodeTerm{label("gpu", "Exists"), label("arch", "Exists")}, tolerations: spot, want: true},
		"one of two requirements of a term":   {terms: []api.NodeTerm{{Labels: []api.NodeRequirement{{Key: "arch", Operator: "Exists"}, {Key: "gpu", Operator: "Exists"}}}}, tolerations: spot},
		"an empty term matches nothing":       {terms: []api.NodeTerm{{}}, tolerations: spot},
		"affinity without a term":             {terms: []api.NodeTerm{}, tolerations: spot},
		"an empty term beside one":            {terms: []api.NodeTerm{{}, label("arch", "Exists")}, tolerations: spot, want: true},
		"NotIn of nothing is no requirement":  {terms: []api.NodeTerm{label("arch", "NotIn")}, tolerations: spot},
		"Exists with a value is none":         {terms: []api.NodeTerm{label("arch", "Exists", "arm64")}, tolerations: spot},
		"two names are none":                  {terms: []api.NodeTerm{name("In", "n1", "n2")}, tolerations: spot},
		"the node by name":                    {terms: []api.NodeTerm{name("In", "n1")}, tolerations: spot, want: true},
		"another node by name":                {terms: []api.NodeTerm{name("In", "n2")}, tolerations: spot},
		"any node but one":                    {terms: []api.NodeTerm{name("NotIn", "n2")}, tolerations: spot, want: true},
		"selector and affinity":               {selector: map[string]string{"gpu": "yes"}, terms: []api.NodeTerm{label("arch", "Exists")}, tolerations: spot},
		"toleration by value":                 {tolerations: []api.Toleration{{Key: "spot", Value: "yes", Effect: "NoSchedule"}}, want: true},
		"toleration of another value":         {tolerations: []api.Toleration{{Key: "spot", Operator: "Equal", Value: "no"}}},
		"toleration of another effect":        {tolerations: []api.Toleration{{Key: "spot", Operator: "Exists", Effect: "NoExecute"}}},
		"toleration of everything":            {tolerations: []api.Toleration{{Operator: "Exists"}}, want: true},
		"toleration of no key is no wildcard": {tolerations: []api.Toleration{{Operator: "Equal"}}},
	} {
		t.Run(text, func(t *testing.T) {
			shape := &api.PodShape{NodeSelector: tc.selector, Affinity: tc.terms, Tolerations: tc.tolerations}
			if got := here.Admits(shape); got != tc.want {
				t.Errorf("Admits is %v, want %v", got, tc.want)
			}
		})
	}
}

// A node that does not exist yet has a name, but none that is known.
func TestNodesToComeHaveUnknownNames(t *testing.T) {
	term := func(op string) *api.PodShape {
		return &api.PodShape{Affinity: []api.NodeTerm{{Names: []api.NodeRequirement{{Key: nodeName, Operator: op, Values: []string{"n1"}}}}}}
	}
	if (Site{}).Admits(term("In")) {
		t.Error("a node to come is taken for n1")
	}
	if !(Site{}).Admits(term("NotIn")) {
		t.Error("a node to come is taken for n1, which is excluded")
	}
}

// A pod of which nothing is known asks for nothing, and tolerates nothing.
func TestNoShape(t *testing.T) {
	if !(Site{}).Admits(nil) || (Site{Taints: []api.Taint{{Key: "k", Effect: "NoExecute"}}}).Admits(nil) {
		t.Error("a pod without a shape asks for something, or tolerates a taint")
	}
}

// Nobody knows where a pod fits under a rule that its shape doesn't hold, or that is about
// others than its copies; a workload whose new pods come first may try.
func TestUnsure(t *testing.T) {
	shape, ours := &api.PodShape{Unheeded: "host ports"}, api.Key{Name: "web"}
	for name, c := range map[string]struct {
		pod  api.Pod
		want string
	}{
		"no rule":                   {},
		"of its shape":              {api.Pod{Shape: shape, ControllerKind: "StatefulSet"}, "host ports"},
		"about others":              {api.Pod{Shape: &api.PodShape{}, Unheeded: "anti-affinity", Workload: ours, ControllerKind: "StatefulSet"}, "anti-affinity"},
		"about others, of nobody's": {api.Pod{Unheeded: "anti-affinity", ControllerKind: "ReplicaSet"}, "anti-affinity"},
		"of a workload that surges": {api.Pod{Shape: shape, Unheeded: "anti-affinity", Workload: ours, ControllerKind: "ReplicaSet"}, ""},
	} {
		if got := Unsure(&c.pod); got != c.want {
			t.Errorf("%s: unsure for %q, want %q", name, got, c.want)
		}
	}
}
