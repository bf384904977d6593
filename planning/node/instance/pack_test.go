package instance

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/planning/node"
)

func TestPack(t *testing.T) {
	gap := 0.0
	for name, tc := range map[string]struct {
		file, text string
		want       Packed
	}{
		"JSON": {
			file: "p.json",
			text: `{"pods":[{"name":"twelve","count":2,"cpu":"120m"},{"name":"nine","count":4,"cpu":"90m"}],
				"nodeTypes":[{"name":"n","cpu":"300m","memory":"1Gi","maxPods":10,"price":0.5}]}`,
			want: Packed{
				Nodes:       []Nodes{{"n", 2}},
				Assignments: []Assignment{{"n", 2, map[string]int32{"twelve": 1, "nine": 2}}},
				Unplaced:    []Pods{}, Cost: 1, LowerBound: 1, Gap: &gap, Optimal: true, Solver: "columns",
			},
		},
		"VBP": {
			file: "p.vbp",
			text: "1\n30\n2\n12 2\n9 4\n",
			want: Packed{
				Nodes:       []Nodes{{"bin", 2}},
				Assignments: []Assignment{{"bin", 2, map[string]int32{"item-1": 1, "item-2": 2}}},
				Unplaced:    []Pods{}, Cost: 2, LowerBound: 2, Gap: &gap, Optimal: true, Solver: "columns",
			},
		},
		"pods without a place": {
			file: "p.json",
			text: `{"pods":[{"name":"a","count":3,"cpu":"1"}],"nodeTypes":[{"name":"n","cpu":"1","memory":"1Gi","max":2}]}`,
			want: Packed{
				Nodes:       []Nodes{{"n", 2}},
				Assignments: []Assignment{{"n", 2, map[string]int32{"a": 1}}},
				Unplaced:    []Pods{{"a", 1}}, Solver: "ffd",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), tc.file)
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := Read(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Pack(p, node.Auto, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(Packed{}, "Seconds")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
