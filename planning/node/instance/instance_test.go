package instance

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
)

func TestJSON(t *testing.T) {
	got, err := JSON([]byte(`{
  "pods": [
    {"name": "web", "count": 12, "cpu": "250m", "memory": "512Mi", "maxPerNode": 1, "maxPerZone": 4},
    {"name": "gpu", "count": 1, "cpu": 2, "resources": {"nvidia.com/gpu": 1, "ephemeral-storage": "1Gi"}, "nodeTypes": ["a"]}
  ],
  "nodeTypes": [
    {"name": "a", "cpu": "3920m", "memory": "13Gi", "maxPods": 110, "resources": {"nvidia.com/gpu": 2},
     "overhead": {"cpu": "200m", "memory": "1Gi", "pods": 6}, "price": 0.19, "max": 20, "zone": "z"},
    {"name": "b", "cpu": "1", "memory": "1Gi"}
  ],
  "existing": [{"type": "a", "count": 2, "stay": {"cpu": "500m"}, "keep": true}]
}`))
	if err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	gpu := map[string]int64{"nvidia.com/gpu": 2}
	want := node.Problem{
		Items: []node.Item{
			{Name: "web", Count: 12, MaxPerNode: 1, MaxPerZone: 4, Requests: api.Resources{MilliCPU: 250, Memory: gib / 2, Pods: 1}},
			{Name: "gpu", Count: 1, Types: []int{0, 2}, Requests: api.Resources{MilliCPU: 2000, EphemeralStorage: gib, Pods: 1, Extended: map[string]int64{"nvidia.com/gpu": 1}}},
		},
		Types: []node.Type{
			{Name: "a", Price: .19, Max: 18, Zone: "z", Capacity: api.Resources{MilliCPU: 3720, Memory: 12 * gib, Pods: 104, Extended: gpu}},
			{Name: "b", Max: node.Unlimited, Capacity: api.Resources{MilliCPU: 1000, Memory: gib, Pods: 1<<31 - 1}},
			{Name: "a (existing[0])", Max: 2, Zone: "z", Capacity: api.Resources{MilliCPU: 3220, Memory: 12 * gib, Pods: 104, Extended: gpu}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func TestWrongJSON(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                       {"", "line 1: "},
		"cut off":                     {"{\n\"pods\": [", "line 2: "},
		"no JSON":                     {"{\n\n\"pods\": x}", "line 3: "},
		"two values":                  {"{}\n{}", "line 2: not a packing problem: more than one value"},
		"an unknown field":            {"{\"pod\": []}", `unknown field "pod"`},
		"a count that is text":        {"{\"pods\": [\n{\"name\": \"a\", \"count\": \"many\"}]}", "line 2: not a packing problem: pods.count: string is no int64"},
		"a negative count":            {"{\"pods\": [\n{\"name\": \"a\",\n\"count\": -1}]}", "line 3: not a packing problem: pods[0].count: -1 is no count"},
		"an amount that is none":      {"{\"pods\": [{\"name\": \"a\", \"cpu\": \"fast\"}]}", "quantities must match"},
		"a negative amount":           {"{\"pods\": [{\"name\": \"a\",\n \"cpu\": \"-1\"}]}", "line 2: not a packing problem: pods[0].cpu: -1 is negative or too much"},
		"a type that does not exist":  {"{\"pods\": [{\"name\": \"a\",\n \"nodeTypes\": [\"x\"]}]}", `line 2: not a packing problem: pods[0].nodeTypes[0]: there is no node type "x"`},
		"an existing node of no type": {"{\"existing\": [{\"type\": \"x\"}]}", `existing[0].type: there is no node type "x"`},
		"no name":                     {"{\n\"nodeTypes\": [\n{}]}", "line 3: not a packing problem: nodeTypes[0].name"},
		"the same name again":         {"{\"pods\": [{\"name\": \"a\"},\n{\"name\": \"a\"}]}", "line 2: not a packing problem: pods[1].name"},
		"cpu among the resources":     {"{\"pods\": [{\"name\": \"a\", \"resources\": {\"cpu\": 1}}]}", "has a field of its own"},
		"a negative price":            {"{\"nodeTypes\": [{\"name\": \"a\", \"price\": -1}]}", "nodeTypes[0].price: -1 is negative"},
		"too many existing nodes":     {"{\"nodeTypes\": [{\"name\": \"a\", \"max\": 1}], \"existing\": [{\"type\": \"a\", \"count\": 2}]}", "more nodes than the max of a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := JSON([]byte(tc.text))
			if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

func TestVBP(t *testing.T) {
	got, err := VBP([]byte("2\n10 20\n2\n3 -1 4\n5 6 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	vector := func(a, b int64) api.Resources {
		return api.Resources{Extended: map[string]int64{"dimension-01": a, "dimension-02": b}}
	}
	want := node.Problem{
		Items: []node.Item{{Name: "item-1", Count: 4, Requests: vector(3, -1)}, {Name: "item-2", Count: 1, Requests: vector(5, 6)}},
		Types: []node.Type{{Name: "bin", Capacity: vector(10, 20), Price: 1, Max: node.Unlimited}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                 {"", "line 1: not a packing problem: the file ends before the number of dimensions"},
		"no dimensions":         {"0", "number of dimensions"},
		"a word":                {"1\n10\n1\nx 1", `line 4: not a packing problem: size of item 1: "x" is no integer`},
		"cut off":               {"1\n10\n2\n3 1\n", "line 4: not a packing problem: the file ends before the size of item 2"},
		"a negative capacity":   {"1 -1 0", "capacity"},
		"a negative count":      {"1 1 1 1 -1", "count of item 1"},
		"more than it says":     {"1 1 1 1 1\n7", `line 2: not a packing problem: "7" after the last item`},
		"more than can be held": {"1 1 1 1 999999999999", "more than 536870912 items"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := VBP([]byte(tc.text)); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

// Whatever is read is either refused as input or a valid problem.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"pods":[{"name":"a","count":3,"cpu":"1"}],"nodeTypes":[{"name":"n","cpu":"2","memory":"1Gi","price":1,"max":2}],"existing":[{"type":"n","count":1,"stay":{"cpu":"1"}}]}`,
		`{"pods":[{"name":"a","resources":{"x":"1e3"}}]}`, "2\n10 20\n2\n3 -1 4\n5 6 1\n", "{", "1 1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, read := range []func([]byte) (node.Problem, error){JSON, VBP} {
			p, err := read(text)
			if err != nil {
				if !errors.Is(err, ErrInput) {
					t.Fatal(err)
				}
				continue
			}
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
