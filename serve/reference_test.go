package serve

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md anew")

// described is a registry that keeps what it is told of each metric.
type described struct {
	prometheus.Registerer
	rows map[string]string
}

func (d described) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 100)
	c.Describe(ch)
	close(ch)
	kind := "gauge"
	switch c.(type) {
	case *prometheus.HistogramVec:
		kind = "histogram"
	case *prometheus.CounterVec:
		kind = "counter"
	}
	for desc := range ch {
		q := regexp.MustCompile(`fqName: "([^"]+)", help: "(.*)", constLabels: \{\}, variableLabels: \{([^}]*)\}`).FindStringSubmatch(desc.String())
		if q == nil {
			return fmt.Errorf("%s can't be read", desc)
		}
		labels := strings.ReplaceAll(q[3], ",", ", ")
		d.rows[q[1]] = fmt.Sprintf("| `%s` | %s | %s | %s |\n", q[1], kind, labels, strings.ReplaceAll(q[2], "|", "\\|"))
	}
	return nil
}

// TestReferenceOfMetrics: docs/reference/metrics.md has every metric, as it is registered.
func TestReferenceOfMetrics(t *testing.T) {
	const page = "../docs/reference/metrics.md"
	d := described{rows: map[string]string{}}
	if _, err := NewMetrics(d); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nGenerated from the program by `make reference`. The operator serves them on\n" +
		"`--metrics-bind-address`, over TLS, to whoever may `get` the non-resource URL `/metrics`.\n" +
		"Those of Go and of the process are there as well.\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(d.rows)) {
		b.WriteString(d.rows[name])
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != b.String() || len(d.rows) < 20 {
		t.Errorf("docs/reference/metrics.md:1: not what the program registers (%d metrics): run make reference", len(d.rows))
	}
}
