package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/history"
)

// matchers of the selector, without the braces that some write around them.
func (o *History) matchers() string {
	s := strings.TrimSpace(o.Selector)
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		s = strings.TrimSuffix(inner, "}")
	}
	return strings.Trim(strings.TrimSpace(s), ",")
}

// usageQuery is the cores that the selected pods use. As in sensing: containers
// only, each once, however many scrapers there are.
func (o *History) usageQuery(step time.Duration) string {
	if o.Query != "" {
		return o.Query
	}
	window := o.RateWindow
	if window == 0 {
		window = max(2*time.Minute, step)
	}
	return fmt.Sprintf(`sum(max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",cpu=~"total|",%s}[%s])))`,
		o.matchers(), model.Duration(window))
}

// shapeQuery is the most that a selected pod requests or has as a limit, by
// kube-state-metrics.
func (o *History) shapeQuery(what, resource string) string {
	return fmt.Sprintf(`max(sum by (namespace, pod) (max by (namespace, pod, container) (kube_pod_container_resource_%s{resource=%q,%s})))`,
		what, resource, o.matchers())
}

// ask reads cores at each step in [begin, end), in as many queries as it takes.
func (o *History) ask(ctx context.Context, begin, end time.Time, step time.Duration, progress io.Writer) (cpuHistory, error) {
	client, err := promapi.NewClient(promapi.Config{Address: o.PrometheusURL, RoundTripper: o.Transport})
	if err != nil {
		return cpuHistory{}, inputf("--prometheus %s: %v", o.PrometheusURL, err)
	}
	prom := promv1.NewAPI(client)
	query := o.usageQuery(step)
	h := cpuHistory{source: query, url: o.PrometheusURL}
	n := int(end.Sub(begin) / step)
	const most = 500_000
	if n > most {
		return h, inputf("%d steps of %v are more than %d: set a longer --step", n, step, most)
	}
	h.series = api.Series{Start: begin, Step: step, Values: make([]float64, n)}
	for i := range h.series.Values {
		h.series.Values[i] = math.NaN()
	}
	found := false
	for first, size := 0, cmp.Or(o.pointsPerQuery, 5000); first < n; {
		size = min(size, n-first)
		values, err := o.slice(ctx, prom, query, begin.Add(time.Duration(first)*step), size, step)
		if err != nil && tooMuch(ctx, err) && size > 20 {
			size /= 2
			continue
		}
		if err != nil {
			return h, err
		}
		for _, v := range values {
			if i := int(v.Timestamp.Time().Sub(begin) / step); i >= first && i < first+size && !math.IsInf(float64(v.Value), 0) {
				h.series.Values[i], found = float64(v.Value), true
			}
		}
		first += size
		fmt.Fprintf(progress, "%d of %d samples read from Prometheus\n", first, n)
	}
	if !found {
		return h, inputf("%s has nothing from %s to %s for %s", o.PrometheusURL, begin.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339), query)
	}
	if o.Selector != "" {
		h.shape = o.askShape(ctx, prom, end)
	}
	return h, nil
}

// slice asks for size steps from at on.
func (o *History) slice(ctx context.Context, prom promv1.API, query string, at time.Time, size int, step time.Duration) ([]model.SamplePair, error) {
	ctx, cancel := context.WithTimeout(ctx, o.patience())
	defer cancel()
	value, _, err := prom.QueryRange(ctx, query, promv1.Range{Start: at, End: at.Add(time.Duration(size-1) * step), Step: step})
	if err != nil {
		err = fmt.Errorf("asking Prometheus at %s for %d samples from %s: %w", o.PrometheusURL, size, at.UTC().Format(time.RFC3339), err)
		var refused *promv1.Error
		if errors.As(err, &refused) && refused.Type == promv1.ErrBadData {
			return nil, input(err) // the query itself
		}
		return nil, err
	}
	matrix, ok := value.(model.Matrix)
	if !ok || len(matrix) > 1 {
		return nil, inputf("--query must give one series, %s gives %s", query, history.Describe(value))
	}
	if len(matrix) == 0 {
		return nil, nil
	}
	return matrix[0].Values, nil
}

// tooMuch tells whether fewer samples at once may succeed.
func tooMuch(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var e *promv1.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Type {
	case promv1.ErrTimeout, promv1.ErrExec:
		return true
	case promv1.ErrBadData:
		return strings.Contains(e.Msg, "exceeded maximum resolution")
	}
	return strings.Contains(e.Detail, `"errorType":"timeout"`) // of status 503
}

// askShape reads requests and limits as they were last; what can't be had stays 0.
func (o *History) askShape(ctx context.Context, prom promv1.API, end time.Time) podShape {
	ask := func(what, resource string) float64 {
		ctx, cancel := context.WithTimeout(ctx, o.patience())
		defer cancel()
		value, _, err := prom.Query(ctx, o.shapeQuery(what, resource), end.Add(-time.Second))
		vector, ok := value.(model.Vector)
		if err != nil || !ok || len(vector) != 1 || !(vector[0].Value > 0) || math.IsInf(float64(vector[0].Value), 0) {
			return 0
		}
		return float64(vector[0].Value)
	}
	s := podShape{cpuRequest: ask("requests", "cpu"), memoryRequest: ask("requests", "memory")}
	if s.cpuRequest > 0 {
		s.cpuLimit = ask("limits", "cpu")
	}
	if s.memoryRequest > 0 {
		s.memoryLimit = ask("limits", "memory")
	}
	return s
}
