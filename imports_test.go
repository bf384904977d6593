package mash2

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// anything may be imported by the laboratory and by what builds images. A name that
// ends in /... is a package and all that are below it.
var anything = room{ours: []string{".", "..."}, outside: []string{""}}

// rooms are keyed by the folder from the root.
var rooms = map[string]room{
	".":                       {ours: []string{"api", "strategic", "strategic/strategy", "planning", "parallel", "execution"}},
	"api":                     {},
	"api/v1alpha1":            {ours: []string{"api"}, outside: []string{"k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/controller-runtime/pkg/scheme"}},
	"record/knowledge":        {ours: []string{"api", "record"}, outside: []string{"go.etcd.io/bbolt", "k8s.io/utils/clock"}},
	"record":                  {ours: []string{"api", "record/delta"}, outside: []string{"github.com/klauspost/compress/zstd"}},
	"record/delta":            {},
	"record/delta/filltest":   {},
	"placement":               {ours: []string{"api"}},
	"demand":                  {ours: []string{"api"}},
	"strategic":               {ours: []string{"api"}, outside: []string{"github.com/robfig/cron"}},
	"strategic/configmap":     {ours: []string{"api", "strategic"}, outside: kubeClients},
	"strategic/model":         {outside: gonum},
	"strategic/model/forest":  {ours: []string{"strategic/model"}},
	"strategic/model/foreign": {ours: []string{"strategic/model"}},
	"strategic/model/dense":   {ours: []string{"planning/rl", "planning/rl/onnx", "strategic/model"}},
	"strategic/bandit":        {outside: gonum},
	"strategic/strategy": {
		ours:    []string{"api", "api/v1alpha1", "placement", "strategic", "strategic/bandit", "strategic/strategy/when"},
		outside: []string{"github.com/google/cel-go", "k8s.io/apimachinery/pkg/api/resource", "k8s.io/client-go/util/jsonpath", "sigs.k8s.io/json", "sigs.k8s.io/yaml"},
	},
	"strategic/strategy/when":     {ours: []string{"api/v1alpha1", "strategic"}, outside: []string{"github.com/robfig/cron"}},
	"sensing":                     {ours: []string{"api", "api/v1alpha1", "demand", "parallel", "strategic/strategy", "strategic/strategy/when", "sensing/promql", "sensing/slo"}, outside: append([]string{"github.com/go-json-experiment/json", "github.com/prometheus/", "github.com/robfig/cron", "golang.org/x/sync", "google.golang.org/protobuf"}, kubeClients...)},
	"sensing/promql":              {ours: []string{"api"}, outside: []string{"github.com/prometheus/"}},
	"sensing/slo":                 {ours: []string{"sensing/promql"}, outside: []string{"github.com/prometheus/", "sigs.k8s.io/yaml"}},
	"forecast":                    {ours: []string{"api", "demand", "forecast/gru", "forecast/score", "forecast/season"}, outside: gonum},
	"forecast/gru":                {},
	"forecast/score":              {},
	"forecast/season":             {},
	"forecast/forecasttest":       {ours: []string{"api"}},
	"forecast/seriesfile":         {ours: []string{"api"}},
	"planning":                    {ours: []string{"api", "forecast", "placement", "planning/canary", "planning/choice", "parallel", "planning/sizing", "record/delta"}, outside: []string{"github.com/fxamacker/cbor"}},
	"planning/canary":             {ours: []string{"api"}},
	"planning/choice":             {ours: []string{"api"}},
	"parallel":                    {},
	"planning/horizontal":         {ours: []string{"api", "planning", "planning/choice", "forecast"}, outside: gonum},
	"planning/rl":                 {outside: gonum},
	"planning/learned":            {ours: []string{"api", "planning", "planning/rl"}},
	"planning/vertical":           {ours: []string{"planning/rl"}},
	"planning/vertical/rehearsal": {ours: []string{"planning/vertical"}, outside: gonum},
	"planning/sizing":             {ours: []string{"api"}},
	"planning/rl/onnx":            {ours: []string{"planning/rl"}, outside: []string{"google.golang.org/protobuf/encoding/protowire"}},
	"planning/plannertest":        {ours: []string{"api", "planning"}, outside: []string{"github.com/google/go-cmp"}},
	"planning/node":               {ours: []string{"api", "placement", "planning/node/packing", "parallel", "record/delta"}, outside: append([]string{"github.com/draffensperger/golp"}, gonum...)},
	"planning/node/packing":       {},
	"planning/node/instance": {
		ours: []string{"api", "planning/node"}, outside: []string{"k8s.io/apimachinery/pkg/api/resource"},
	},
	"execution":            {ours: []string{"api", "placement"}},
	"execution/kube":       {ours: []string{"api", "execution"}, outside: kubeClients},
	"execution/webhook":    {ours: []string{"api"}, outside: []string{"k8s.io/utils/clock"}},
	"execution/gke":        {ours: []string{"api", "execution/provider"}, outside: googleClient},
	"execution/kind":       {ours: []string{"api", "execution/provider"}, outside: kubeClients},
	"execution/clusterapi": {ours: []string{"api", "execution/provider"}, outside: kubeClients},
	"execution/provider":   {ours: []string{"api"}, outside: []string{"k8s.io/apimachinery/pkg/api/errors"}},
	"execution/provider/providertest": {
		ours: []string{"api", "execution/provider"}, outside: []string{"github.com/google/go-cmp"},
	},
	"operator/core":   {ours: []string{".", "api", "execution", "forecast", "planning", "planning/horizontal", "planning/learned", "planning/node", "planning/rl", "record", "strategic/model", "strategic/model/dense", "strategic/strategy"}},
	"operator/agents": {ours: []string{"api", "planning/rl", "planning/vertical", "planning/vertical/rehearsal"}, outside: kubeClients},
	"operator/replay": {ours: []string{".", "api", "forecast", "operator/core", "planning", "record", "strategic"}},
	"operator": {
		ours: []string{
			".", "api", "api/v1alpha1", "execution/clusterapi", "execution/gke", "execution/kind", "execution/kube",
			"execution/provider", "execution/webhook", "operator/agents", "operator/core", "operator/replay", "planning", "record", "record/knowledge", "sensing", "serve", "serve/external", "serve/rest", "serve/web", "strategic/configmap",
		},
		outside: kubeClients,
	},
	// Flags and printing. Of the rooms behind the operator they know the configurations
	// and the names that flags take.
	"cmd/cli": {
		ours: []string{
			".", "adoption", "api", "api/v1alpha1", "execution/clusterapi", "execution/gke", "execution/kube", "execution/webhook", "forecast", "operator", "operator/agents", "operator/core",
			"operator/replay", "planning/node", "planning/vertical", "record", "record/knowledge", "sensing", "sensing/promql", "serve/rest", "serve/web", "strategic", "strategic/configmap", "strategic/model", "strategic/model/dense", "strategic/model/foreign", "strategic/strategy", "strategic/strategy/when",
		},
		outside: append([]string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/go-logr/logr"}, kubeClients...),
	},
	"cmd/mash2-operator": {ours: []string{"cmd/cli"}},
	"cmd/mash2": {
		ours: []string{
			"api", "cmd/cli", "execution/provider", "experiments/backtest", "experiments/continuum", "experiments/demo", "experiments/forecasters", "experiments/gym", "experiments/history", "experiments/margins", "experiments/qos", "experiments/scalingops", "experiments/scenarios",
			"experiments/score", "experiments/shop", "experiments/sim", "experiments/simulation", "experiments/training", "experiments/trainticket", "experiments/whatif", "forecast", "forecast/seriesfile", "planning/node", "planning/node/instance",
		},
		outside: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
	},
	"experiments/...": anything,
	"container/...":   anything,
	"adoption":        {ours: []string{"api", "api/v1alpha1"}, outside: append([]string{"golang.org/x/sync"}, kubeClients...)},
	// What others see and call: the API asks Kubernetes who may see what, the page has no
	// data of its own.
	"serve/rest": {
		ours: []string{"api", "api/v1alpha1", "record", "record/knowledge", "strategic", "strategic/configmap", "strategic/strategy", "strategic/strategy/when"}, outside: append([]string{"golang.org/x/time/rate"}, kubeClients...),
	},
	"serve/web": {},
	// KEDA asks it what is planned.
	"serve/external": {
		ours: []string{"api", "api/v1alpha1", "serve/external/externalscaler"}, outside: append([]string{"google.golang.org/grpc"}, kubeClients...),
	},
	"serve/external/externalscaler": {outside: []string{"google.golang.org/grpc", "google.golang.org/protobuf"}},
	"serve":                         {ours: []string{"api", "api/v1alpha1"}, outside: append([]string{"github.com/prometheus/", "github.com/go-logr/logr"}, kubeClients...)},
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
		name, row, ok := rowOf(dir)
		if !ok {
			t.Errorf("%s: package has no row in the table of rooms", dir)
			return nil
		}
		seen[name] = true
		names, err := importsOf(path)
		if err != nil {
			return err
		}
		for _, name := range names {
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

// importsOf a Go file.
func importsOf(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

// rowOf a package in the table: its own, or that of a folder above it.
func rowOf(dir string) (name string, row room, ok bool) {
	if row, ok := rooms[dir]; ok {
		return dir, row, true
	}
	for name, row := range rooms {
		if matches(name, dir) {
			return name, row, true
		}
	}
	return "", room{}, false
}

// matches reports whether a pattern is of a package.
func matches(pattern, dir string) bool {
	below, wild := strings.CutSuffix(pattern, "...")
	return pattern == dir || wild && strings.HasPrefix(dir+"/", below)
}

// TestOnlyPeoplesCommandKnowsTheLaboratory: no product room imports experiments.
func TestOnlyPeoplesCommandKnowsTheLaboratory(t *testing.T) {
	for dir, row := range rooms {
		lab := slices.ContainsFunc(row.ours, func(p string) bool { return p == "..." || strings.HasPrefix(p, "experiments/") })
		if may := dir == "cmd/mash2" || dir == "experiments/..." || dir == "container/..."; lab && !may {
			t.Errorf("%s may import experiments", dir)
		}
	}
}

// TestImageHasNoLaboratory: what the image's program links, as far as it is ours,
// is product rooms only. It follows the imports of the program that make program
// builds, which is what the Containerfile calls.
func TestImageHasNoLaboratory(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	containerfile, err := os.ReadFile("container/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	built := regexp.MustCompile(`-o \$\(PROGRAM\) \./(\S+)`).FindAllSubmatch(makefile, -1)
	if n := len(regexp.MustCompile(`make program`).FindAll(containerfile, -1)); n == 0 || len(built) != n {
		t.Fatalf("the Containerfile makes %d programs, the Makefile %d", n, len(built))
	}
	for _, m := range built {
		linked := linkedBy(t, string(m[1]))
		if len(linked) < 20 {
			t.Errorf("%s links only %d packages of ours", m[1], len(linked))
		}
		for dir := range linked {
			if dir == "experiments" || strings.HasPrefix(dir, "experiments/") {
				t.Errorf("%s links %s", m[1], dir)
			}
		}
	}
}

// linkedBy are the packages of ours that a program links, whatever the build tags.
func linkedBy(t *testing.T, program string) map[string]bool {
	t.Helper()
	linked := map[string]bool{program: true}
	for next := []string{program}; len(next) > 0; {
		dir := next[0]
		next = next[1:]
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d Go files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			names, err := importsOf(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				own, ours := strings.CutPrefix(name, module)
				if own = cmp.Or(strings.TrimPrefix(own, "/"), "."); ours && !linked[own] {
					linked[own] = true
					next = append(next, own)
				}
			}
		}
	}
	return linked
}

func refused(row room, name string) string {
	if own, ok := strings.CutPrefix(name, module); ok {
		own = cmp.Or(strings.TrimPrefix(own, "/"), ".")
		if !slices.ContainsFunc(row.ours, func(p string) bool { return matches(p, own) }) {
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
		"the operator must not know the laboratory":   {"operator", module + "/experiments/sim", true},
		"the image's program knows its commands only": {"cmd/mash2-operator", module + "/planning", true},
		"the people's command may know simulations":   {"cmd/mash2", module + "/experiments/simulation", false},
		"the people's command doesn't plan itself":    {"cmd/mash2", module + "/planning", true},
		"the people's command doesn't ask Prometheus": {"cmd/mash2", "github.com/prometheus/client_golang/api", true},
		"the cloud provider must not know Kubernetes": {"execution/gke", "k8s.io/api/core/v1", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(rooms[c.dir], c.path) != ""; got != c.want {
				t.Errorf("refused(%s, %s) = %v, want %v", c.dir, c.path, got, c.want)
			}
		})
	}
}
