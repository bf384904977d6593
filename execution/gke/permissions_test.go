package gke_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// needs is the permission that Google asks for, by the call that the provider makes.
var needs = map[string]string{
	"containers.GetCluster":       "container.clusters.get",
	"containers.ListOperations":   "container.operations.list",
	"containers.SetNodePoolSize":  "container.clusters.update",
	"groups.Get":                  "compute.instanceGroupManagers.get",
	"groups.ListManagedInstances": "compute.instanceGroupManagers.get",
	"groups.DeleteInstances":      "compute.instanceGroupManagers.update",
}

// viewer is what of these roles/container.clusterViewer holds.
const viewer = "container.clusters.get"

// TestPermissionsAreDocumented: the role that the pages have users make holds what the
// provider's calls need, and nothing else.
func TestPermissionsAreDocumented(t *testing.T) {
	call := regexp.MustCompile(`\bp\.((?:containers|groups)\.[A-Z]\w*)\(`)
	calls := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range call.FindAllStringSubmatch(read(t, file), -1) {
			calls[m[1]] = true
		}
	}
	delete(calls, "containers.Close")
	delete(calls, "groups.Close")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(needs)), slices.Sorted(maps.Keys(calls))); diff != "" {
		t.Errorf("calls (-known +made):\n%s", diff)
	}
	role := slices.DeleteFunc(slices.Sorted(maps.Values(needs)), func(p string) bool { return p == viewer })
	role = slices.Compact(role)
	permission := regexp.MustCompile(`\b(?:container|compute)\.[a-z]\w*\.[a-z]\w*\b`)
	for _, page := range []string{"docs/how-to/gke.md", "charts/mash2/values-gke.yaml"} {
		named := permission.FindAllString(read(t, filepath.Join("../..", page)), -1)
		slices.Sort(named)
		if diff := cmp.Diff(role, slices.Compact(named)); diff != "" {
			t.Errorf("%s (-needed +named):\n%s", page, diff)
		}
	}
	for _, page := range []string{"docs/explanation/moving.md", "docs/reference/security.md", "docs/reference/events.md", "SECURITY.md"} {
		for _, named := range permission.FindAllString(read(t, filepath.Join("../..", page)), -1) {
			if !slices.Contains(role, named) {
				t.Errorf("%s names %s, which the role does not hold", page, named)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
