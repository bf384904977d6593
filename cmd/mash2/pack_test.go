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
	"github.com/mash2-io/mash2/planning/node/instance"
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

// Pods without a place are a failure, and what was packed is printed all the same.
func TestPack(t *testing.T) {
	gap := 0.0
	for name, tc := range map[string]struct {
		text string
		code int
		want instance.Packed
	}{
		"all placed": {
			text: `{"pods":[{"name":"a","count":2,"cpu":"1"}],"nodeTypes":[{"name":"n","cpu":"1","memory":"1Gi","maxPods":10,"price":0.5}]}`,
			want: instance.Packed{
				Nodes:       []instance.Nodes{{Type: "n", Count: 2}},
				Assignments: []instance.Assignment{{Type: "n", Count: 2, Pods: map[string]int32{"a": 1}}},
				Unplaced:    []instance.Pods{}, Cost: 1, LowerBound: 1, Gap: &gap, Optimal: true, Solver: "ffd",
			},
		},
		"pods without a place": {
			code: cli.ExitFailed,
			text: `{"pods":[{"name":"a","count":3,"cpu":"1"}],"nodeTypes":[{"name":"n","cpu":"1","memory":"1Gi","max":2}]}`,
			want: instance.Packed{
				Nodes:       []instance.Nodes{{Type: "n", Count: 2}},
				Assignments: []instance.Assignment{{Type: "n", Count: 2, Pods: map[string]int32{"a": 1}}},
				Unplaced:    []instance.Pods{{Name: "a", Count: 1}}, Solver: "ffd",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := packCommand(t, "p.json", tc.text, "-o", "json")
			if code != tc.code || (code == 0) != (stderr == "") {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			var got instance.Packed
			d := json.NewDecoder(strings.NewReader(stdout))
			d.DisallowUnknownFields()
			if err := d.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(instance.Packed{}, "Seconds")); diff != "" {
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
