package mash2

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mash2-io/mash2"

// room is one row of the architecture: which packages of ours a package may
// import and, of the world outside the standard library, which prefixes.
type room struct {
	ours    []string
	outside []string
}

var (
	kubeClients  = []string{"k8s.io/", "sigs.k8s.io/"}
	googleClient = []string{"cloud.google.com/go/container", "cloud.google.com/go/compute", "google.golang.org/", "github.com/googleapis/"}
	gonum        = []string{"gonum.org/v1/gonum"}
)

// rooms are keyed by the folder from the root. What is below
// experiments/, cmd/ and container/ may import anything.
var rooms = map[string]room{
	".":                     {ours: []string{"api", "strategic", "planning", "execution"}},
	"api":                   {},
	"api/v1alpha1":          {ours: []string{"api"}, outside: []string{"k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/controller-runtime/pkg/scheme"}},
	"record":                {ours: []string{"api", "record/delta"}, outside: []string{"github.com/klauspost/compress/zstd"}},
	"record/delta":          {},
	"record/delta/filltest": {},
	"strategic":             {ours: []string{"api"}, outside: []string{"github.com/robfig/cron"}},
	"strategic/configmap":   {ours: []string{"api", "strategic"}, outside: kubeClients},
	"sensing":               {ours: []string{"api", "api/v1alpha1"}, outside: append([]string{"github.com/prometheus/", "github.com/robfig/cron", "golang.org/x/sync"}, kubeClients...)},
	"forecast":              {ours: []string{"api", "forecast/gru"}, outside: gonum},
	"forecast/gru":          {},
	"forecast/seriesfile":   {ours: []string{"api"}},
	"planning":              {ours: []string{"api", "forecast", "record/delta"}, outside: []string{"github.com/fxamacker/cbor"}},
	"planning/horizontal":   {ours: []string{"api", "planning", "forecast"}, outside: gonum},
	"planning/plannertest":  {ours: []string{"api", "planning"}, outside: []string{"github.com/google/go-cmp"}},
	"planning/node":         {ours: []string{"api", "planning/node/packing", "record/delta"}, outside: append([]string{"github.com/draffensperger/golp"}, gonum...)},
	"planning/node/packing": {},
	"planning/node/instance": {
		ours: []string{"api", "planning/node"}, outside: []string{"k8s.io/apimachinery/pkg/api/resource"},
	},
	"execution":            {ours: []string{"api"}},
	"execution/kube":       {ours: []string{"api", "execution"}, outside: kubeClients},
	"execution/gke":        {ours: []string{"api", "execution/provider"}, outside: googleClient},
	"execution/kind":       {ours: []string{"api", "execution/provider"}, outside: kubeClients},
	"execution/clusterapi": {ours: []string{"api", "execution/provider"}, outside: kubeClients},
	"execution/provider":   {ours: []string{"api"}, outside: []string{"k8s.io/apimachinery/pkg/api/errors"}},
	"execution/provider/providertest": {
		ours: []string{"api", "execution/provider"}, outside: []string{"github.com/google/go-cmp"},
	},
	"operator/core": {ours: []string{".", "api", "forecast", "planning", "planning/horizontal", "planning/node"}},
	"adoption":      {ours: []string{"api", "api/v1alpha1"}, outside: kubeClients},
	"serve":         {ours: []string{"api", "api/v1alpha1"}, outside: append([]string{"github.com/prometheus/", "github.com/go-logr/logr"}, kubeClients...)},
}

// TestImports holds the table of rooms: a package imports only what its row
// allows, and every package has a row. It parses the sources itself, so that
// go test's cache sees a change.
func TestImports(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "out") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if free(dir) {
			return nil
		}
		row, ok := rooms[dir]
		if !ok {
			t.Errorf("%s: package has no row in the table of rooms", dir)
			return nil
		}
		seen[dir] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if why := refused(row, name); why != "" {
				t.Errorf("%s imports %s: %s", path, name, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range rooms {
		if !seen[dir] {
			t.Errorf("the table of rooms names %s, which has no Go file", dir)
		}
	}
}

func free(dir string) bool {
	top, _, _ := strings.Cut(dir, "/")
	return top == "experiments" || top == "cmd" || top == "container"
}

func refused(row room, name string) string {
	if own, ok := strings.CutPrefix(name, module); ok {
		own = cmp.Or(strings.TrimPrefix(own, "/"), ".")
		if !slices.Contains(row.ours, own) {
			return "not among the rooms it may know"
		}
		return ""
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return "" // standard library, and "C"
	}
	if !slices.ContainsFunc(row.outside, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return "not among the outside modules it may use"
	}
	return ""
}

// TestImportsRefuses shows that the check can fail.
func TestImportsRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		dir, path string
		want      bool
	}{
		"planning must not reach for a client":        {"planning", "k8s.io/client-go/kubernetes", true},
		"execution must not know planning":            {"execution", module + "/planning", true},
		"a pure room may use the standard library":    {"planning", "math", false},
		"the node planner may use golp":               {"planning/node", "github.com/draffensperger/golp", false},
		"forecast must not know planning":             {"forecast", module + "/planning", true},
		"the loop may know strategic":                 {".", module + "/strategic", false},
		"the loop must not know sensing":              {".", module + "/sensing", true},
		"the cloud provider must not know Kubernetes": {"execution/gke", "k8s.io/api/core/v1", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(rooms[c.dir], c.path) != ""; got != c.want {
				t.Errorf("refused(%s, %s) = %v, want %v", c.dir, c.path, got, c.want)
			}
		})
	}
}
