// Package scalingops is an offline pipeline from a workload's history to agents that may
// scale it, after BiScaler's RLOps pipeline: a regression of delay on CPU and requests, an
// environment to train in that takes its states from the history, one to evaluate in that
// is driven by the request rate alone, several agents by DQN, each made from the one
// before, and a ranking of them beside rules.
package scalingops

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/history"
)

// Row is one time of a history.
type Row struct {
	Time time.Time
	// CPU is the mean usage of one replica, millicores.
	CPU float64
	// Requests a second, of all replicas together.
	Requests float64
	// Delay is the mean delay of a request, milliseconds.
	Delay float64
	// Replicas that served.
	Replicas float64
}

// History in order of time.
type History []Row

// columns of a history's file, in any order. Others are ignored.
var columns = []string{"time", "cpu", "requests", "delay", "replicas"}

// MaxRows bounds a history: two months of half minutes.
const MaxRows = 200_000

// maxReplicas bounds those of a history and of an agent.
const maxReplicas = 10_000

// ErrHistory is what errors of a history's content are.
var ErrHistory = errors.New("unusable history")

// ReadCSV reads a history from CSV with a header: time (RFC 3339, or seconds since 1970),
// cpu (mean millicores of a replica), requests (a second, in all), delay (milliseconds),
// replicas. A row with an empty field is left out. Errors name line and column.
func ReadCSV(r io.Reader) (History, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: reading its header: %w", ErrHistory, err)
	}
	head[0] = strings.TrimPrefix(head[0], "\ufeff") // the mark that spreadsheets begin UTF-8 with
	at := make([]int, len(columns))
	for i, name := range columns {
		at[i] = slices.IndexFunc(head, func(h string) bool { return strings.EqualFold(strings.TrimSpace(h), name) })
		if at[i] < 0 {
			return nil, fmt.Errorf("%w: line 1: there is no column %q; needed are %s", ErrHistory, name, strings.Join(columns, ", "))
		}
	}
	var out History
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, out.validate()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrHistory, err)
		}
		if len(out) == MaxRows {
			return nil, fmt.Errorf("%w: more than %d rows", ErrHistory, MaxRows)
		}
		line, _ := in.FieldPos(0)
		row, empty, err := rowOf(fields, at)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrHistory, line, err)
		}
		if n := len(out); !empty && n > 0 && !row.Time.After(out[n-1].Time) {
			return nil, fmt.Errorf("%w: line %d: column time: %s is not after %s", ErrHistory, line, row.Time.Format(time.RFC3339), out[n-1].Time.Format(time.RFC3339))
		}
		if !empty {
			out = append(out, row)
		}
	}
}

// rowOf reads one line, whose columns are at these fields. It reports whether one is empty.
func rowOf(fields []string, at []int) (row Row, empty bool, err error) {
	for i, name := range columns {
		text := strings.TrimSpace(fields[at[i]])
		if text == "" {
			return Row{}, true, nil
		}
		if name == "time" {
			if row.Time, err = instant(text); err != nil {
				return Row{}, false, fmt.Errorf("column time: %w", err)
			}
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(v, 0) || v < 0 {
			return Row{}, false, fmt.Errorf("column %s: %q is no number of 0 or more", name, text)
		}
		if math.IsNaN(v) {
			return Row{}, true, nil // how a Prometheus writes what it doesn't know
		}
		*map[string]*float64{"cpu": &row.CPU, "requests": &row.Requests, "delay": &row.Delay, "replicas": &row.Replicas}[name] = v
	}
	if row.Replicas < 1 {
		return Row{}, true, nil // nobody served
	}
	return row, false, nil
}

func instant(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) < 1e11 {
		return time.UnixMilli(int64(seconds * 1000)).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is neither a time of RFC 3339 nor seconds since 1970", text)
	}
	return at.UTC(), nil
}

// minRows is a history's least length: a regression of three coefficients, and a part that
// is held out.
const minRows = 100

func (h History) validate() error {
	if len(h) < minRows {
		return fmt.Errorf("%w: %d usable rows, %d are needed", ErrHistory, len(h), minRows)
	}
	for _, r := range h {
		if r.Replicas > maxReplicas {
			return fmt.Errorf("%w: %g replicas at %s, %d are the most", ErrHistory, r.Replicas, r.Time.Format(time.RFC3339), maxReplicas)
		}
	}
	return nil
}

// Split sets the last share of a history aside for evaluation, at least one row of each.
func (h History) Split(share float64) (train, held History) {
	n := min(max(1, int(float64(len(h))*(1-share))), len(h)-1)
	return h[:n], h[n:]
}

func (h History) mean(of func(Row) float64) float64 {
	var sum float64
	for _, r := range h {
		sum += of(r)
	}
	return sum / float64(len(h))
}

// quantile of one measurement, 0–1.
func (h History) quantile(q float64, of func(Row) float64) float64 {
	all := make([]float64, len(h))
	for i, r := range h {
		all[i] = of(r)
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

func cpu(r Row) float64      { return r.CPU }
func requests(r Row) float64 { return r.Requests }
func delay(r Row) float64    { return r.Delay }
func replicas(r Row) float64 { return r.Replicas }

// Queries to a Prometheus that give a history's columns.
type Queries struct{ CPU, Requests, Delay, Replicas string }

// DefaultQueries of a Deployment that Istio's telemetry knows: cAdvisor's and
// kube-state-metrics' series beside it.
func DefaultQueries(workload api.Key) Queries {
	// What a ReplicaSet's hash and the end of its pods' names are made of tells them from pods
	// of other workloads whose names begin alike.
	const letters = "[bcdfghjklmnpqrstvwxz2456789]"
	pods := fmt.Sprintf(`namespace=%q,pod=~%q,container!=""`, workload.Namespace, regexp.QuoteMeta(workload.Name)+"-"+letters+"{6,10}-"+letters+"{5}")
	istio := fmt.Sprintf(`destination_workload_namespace=%q,destination_workload=%q,reporter="destination"`, workload.Namespace, workload.Name)
	return Queries{
		CPU:      fmt.Sprintf(`1000 * avg(sum by (pod) (rate(container_cpu_usage_seconds_total{%s}[2m])))`, pods),
		Requests: fmt.Sprintf(`sum(rate(istio_requests_total{%s}[2m]))`, istio),
		Delay: fmt.Sprintf(`sum(rate(istio_request_duration_milliseconds_sum{%s}[2m])) / sum(rate(istio_request_duration_milliseconds_count{%s}[2m]))`,
			istio, istio),
		Replicas: fmt.Sprintf(`sum(kube_deployment_status_replicas_available{namespace=%q,deployment=%q})`, workload.Namespace, workload.Name),
	}
}

// FromPrometheus asks the Prometheus at a URL for n steps up to end.
func FromPrometheus(ctx context.Context, url string, q Queries, end time.Time, n int, step time.Duration) (History, error) {
	type column struct {
		name, query string
		of          func(*Row) *float64
	}
	rows := map[time.Time]*Row{}
	seen := map[time.Time]int{}
	for _, c := range []column{
		{"cpu", q.CPU, func(r *Row) *float64 { return &r.CPU }},
		{"requests", q.Requests, func(r *Row) *float64 { return &r.Requests }},
		{"delay", q.Delay, func(r *Row) *float64 { return &r.Delay }},
		{"replicas", q.Replicas, func(r *Row) *float64 { return &r.Replicas }},
	} {
		series, err := history.Query(ctx, url, c.query, end, n, step)
		if err != nil {
			return nil, fmt.Errorf("%s, by %s: %w", c.name, c.query, err)
		}
		for i, v := range series.Values {
			if math.IsNaN(v) || v < 0 {
				continue
			}
			at := series.Start.Add(time.Duration(i) * series.Step)
			if rows[at] == nil {
				rows[at] = &Row{Time: at}
			}
			*c.of(rows[at]) = v
			seen[at]++
		}
	}
	var out History
	for at, r := range rows {
		if seen[at] == 4 && r.Replicas >= 1 {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b Row) int { return a.Time.Compare(b.Time) })
	return out, out.validate()
}
