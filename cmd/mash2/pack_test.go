package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/cmd/cli"
)

// packCommand runs mash2 pack on a file with this text.
func packCommand(t *testing.T, name, text string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"pack", "--input", file}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestPack(t *testing.T) {
	gap := 0.0
	for name, tc := range map[string]struct {
		file, text string
		code       int
		want       packed
	}{
		"JSON": {
			file: "p.json",
			text: `{"pods":[{"name":"twelve","count":2,"cpu":"120m"},{"name":"nine","count":4,"cpu":"90m"}],
				"nodeTypes":[{"name":"n","cpu":"300m","memory":"1Gi","maxPods":10,"price":0.5}]}`,
			want: packed{
				Nodes:       []packedNodes{{"n", 2}},
				Assignments: []packedAssignment{{"n", 2, map[string]int32{"twelve": 1, "nine": 2}}},
				Unplaced:    []packedPods{}, Cost: 1, LowerBound: 1, Gap: &gap, Optimal: true, Solver: "columns",
			},
		},
		"VBP": {
			file: "p.vbp",
			text: "1\n30\n2\n12 2\n9 4\n",
			want: packed{
				Nodes:       []packedNodes{{"bin", 2}},
				Assignments: []packedAssignment{{"bin", 2, map[string]int32{"item-1": 1, "item-2": 2}}},
				Unplaced:    []packedPods{}, Cost: 2, LowerBound: 2, Gap: &gap, Optimal: true, Solver: "columns",
			},
		},
		"pods without a place": {
			file: "p.json", code: cli.ExitFailed,
			text: `{"pods":[{"name":"a","count":3,"cpu":"1"}],"nodeTypes":[{"name":"n","cpu":"1","memory":"1Gi","max":2}]}`,
			want: packed{
				Nodes:       []packedNodes{{"n", 2}},
				Assignments: []packedAssignment{{"n", 2, map[string]int32{"a": 1}}},
				Unplaced:    []packedPods{{"a", 1}}, Solver: "ffd",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := packCommand(t, tc.file, tc.text, "-o", "json")
			if code != tc.code || (code == 0) != (stderr == "") {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			var got packed
			d := json.NewDecoder(strings.NewReader(stdout))
			d.DisallowUnknownFields()
			if err := d.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(packed{}, "Seconds")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPackIsForPeopleToo(t *testing.T) {
	code, stdout, stderr := packCommand(t, "p.vbp", "1\n30\n2\n12 2\n9 4\n")
	if code != 0 || !strings.Contains(stdout, "2      bin") || !strings.Contains(stdout, "cost 2, at least 2: optimal (columns, ") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

func TestPackRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want string
		args       []string
	}{
		"input that is none":  {"{\n\"pods\": 1}", "p.json: line 2: not a packing problem: pods: number is no", nil},
		"an unknown solver":   {"{}", `--solver "magic" is not in this build`, []string{"--solver", "magic"}},
		"no time":             {"{}", "--time-limit must be above 0", []string{"--time-limit", "0s"}},
		"an unknown output":   {"{}", "--output must be text or json", []string{"-o", "xml"}},
		"a file that is gone": {"{}", "no such file", []string{"--input", "nowhere.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := packCommand(t, "p.json", tc.text, tc.args...)
			if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit %d, %q, want %q", code, stderr, tc.want)
			}
		})
	}
}
