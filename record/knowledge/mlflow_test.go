package knowledge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// tracking is a server as MLflow's documentation describes its REST API: its fields, its
// limits (1 MB; 1,000 metrics, 100 parameters, 100 tags a batch), and its errors. A metric
// that is logged twice is there twice.
type tracking struct {
	experiments []string
	runs        []*trackedRun
	calls       int
	// failAt is the call that answers 500; 0 for none.
	failAt int
}

type trackedRun struct {
	experiment, name, status string
	end                      int64
	tags, params             map[string]string
	metrics                  []MLflowMetric
}

var mlflowKey = regexp.MustCompile(`^[/\w.\- ]+$`)

func (s *tracking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls++
	refuse := func(status int, code, format string, args ...any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error_code": code, "message": fmt.Sprintf(format, args...)})
	}
	if s.calls == s.failAt {
		refuse(500, "INTERNAL_ERROR", "the disk is full")
		return
	}
	data, _ := io.ReadAll(r.Body)
	if len(data) > 1<<20 {
		refuse(400, "BAD_REQUEST", "larger than 1 MB")
		return
	}
	read := func(v any) bool {
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			refuse(400, "INVALID_PARAMETER_VALUE", "%v", err)
			return false
		}
		return true
	}
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	run := func(id string) *trackedRun {
		var n int
		if _, err := fmt.Sscanf(id, "run%d", &n); err != nil || n >= len(s.runs) {
			refuse(404, "RESOURCE_DOES_NOT_EXIST", "no run %s", id)
			return nil
		}
		return s.runs[n]
	}
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/") {
	case "GET experiments/get-by-name":
		i := slices.Index(s.experiments, r.URL.Query().Get("experiment_name"))
		if i < 0 {
			refuse(404, "RESOURCE_DOES_NOT_EXIST", "no such experiment")
			return
		}
		answer(map[string]any{"experiment": map[string]any{"experiment_id": fmt.Sprint(i), "lifecycle_stage": "active"}})
	case "POST experiments/create":
		var in struct {
			Name string `json:"name"`
		}
		if !read(&in) {
			return
		}
		if in.Name == "" || slices.Contains(s.experiments, in.Name) {
			refuse(400, "RESOURCE_ALREADY_EXISTS", "%s", in.Name)
			return
		}
		s.experiments = append(s.experiments, in.Name)
		answer(map[string]any{"experiment_id": fmt.Sprint(len(s.experiments) - 1)})
	case "POST runs/search":
		var in struct {
			Experiments []string `json:"experiment_ids"`
			Filter      string   `json:"filter"`
			Most        int      `json:"max_results"`
		}
		if !read(&in) {
			return
		}
		m := regexp.MustCompile("^tags.`([^`]+)` = '([^']*)'$").FindStringSubmatch(in.Filter)
		if m == nil {
			refuse(400, "INVALID_PARAMETER_VALUE", "filter %s", in.Filter)
			return
		}
		var found []any
		for i, r := range s.runs {
			if slices.Contains(in.Experiments, r.experiment) && r.tags[m[1]] == m[2] && len(found) < in.Most {
				info := map[string]any{"run_id": fmt.Sprintf("run%d", i)}
				if r.end > 0 {
					info["end_time"] = r.end
				}
				found = append(found, map[string]any{"info": info})
			}
		}
		answer(map[string]any{"runs": found})
	case "POST runs/create":
		var in MLflowCreate
		if !read(&in) {
			return
		}
		r := &trackedRun{experiment: in.Experiment, name: in.Name, tags: map[string]string{}, params: map[string]string{}}
		for _, t := range in.Tags {
			r.tags[t.Key] = t.Value
			if len(t.Key) > 250 || len(t.Value) > 5000 {
				refuse(400, "INVALID_PARAMETER_VALUE", "tag %s", t.Key)
				return
			}
		}
		s.runs = append(s.runs, r)
		answer(map[string]any{"run": map[string]any{"info": map[string]any{"run_id": fmt.Sprintf("run%d", len(s.runs)-1)}}})
	case "POST runs/log-batch":
		var in MLflowBatch
		if !read(&in) {
			return
		}
		r := run(in.Run)
		if r == nil {
			return
		}
		if len(in.Metrics) > 1000 || len(in.Params) > 100 || len(in.Tags) > 100 || len(in.Metrics)+len(in.Params)+len(in.Tags) > 1000 {
			refuse(400, "INVALID_PARAMETER_VALUE", "A batch logging request can contain at most 1000 metrics. Got %d", len(in.Metrics))
			return
		}
		for _, p := range in.Params {
			if was, there := r.params[p.Key]; there && was != p.Value || !mlflowKey.MatchString(p.Key) {
				refuse(400, "INVALID_PARAMETER_VALUE", "param %s", p.Key)
				return
			}
			r.params[p.Key] = p.Value
		}
		for _, m := range in.Metrics {
			if !mlflowKey.MatchString(m.Key) {
				refuse(400, "INVALID_PARAMETER_VALUE", "metric %s", m.Key)
				return
			}
		}
		r.metrics = append(r.metrics, in.Metrics...)
		answer(struct{}{})
	case "POST runs/update":
		var in struct {
			Run    string `json:"run_id"`
			Status string `json:"status"`
			End    int64  `json:"end_time"`
		}
		if !read(&in) {
			return
		}
		if r := run(in.Run); r != nil {
			r.status, r.end = in.Status, in.End
			answer(struct{}{})
		}
	default:
		refuse(404, "ENDPOINT_NOT_FOUND", "%s %s", r.Method, r.URL.Path)
	}
}

// TestMLflow: everything arrives once, however often it is exported, also after an export
// that broke off between two runs.
func TestMLflow(t *testing.T) {
	var all []Entry
	for i := range 2500 {
		e := reading(i, float64(i))
		e.Name = "latency/p95 (s)"
		all = append(all, e)
	}
	trained := Entry{Kind: KindRun, Time: start, About: About{Kind: "model", Name: "qos"}, Name: "train", Text: "best of 3", Params: map[string]string{}, Metrics: map[string]float64{"error%": 0.1}}
	for i := range 150 {
		trained.Params[fmt.Sprintf("p%03d", i)] = "v"
	}
	all = append(all, trained)
	server := &tracking{}
	h := httptest.NewServer(server)
	defer h.Close()
	m := MLflow{URL: h.URL + "/", Client: h.Client()}
	push := func(entries []Entry) (int, error) {
		return m.Push(context.Background(), MLflowRuns(entries), func(int) {})
	}
	check := func(readings int) {
		t.Helper()
		if len(server.experiments) != 2 {
			t.Errorf("experiments: %q", server.experiments)
		}
		days, values := 0, map[int64]float64{}
		for _, r := range server.runs {
			if r.status != "FINISHED" {
				t.Errorf("%+v", r)
			}
			if r.name == "train" {
				if len(r.params) != 150 || len(r.metrics) != 1 || r.metrics[0].Key != "error_" || r.tags["mlflow.note.content"] != "best of 3" || r.tags["mash2.kind"] != "run" {
					t.Errorf("%+v", r)
				}
				continue
			}
			days++
			for _, v := range r.metrics {
				if _, twice := values[v.Timestamp]; twice || v.Key != "latency/p95 _s_" {
					t.Fatalf("%+v", v)
				}
				values[v.Timestamp] = v.Value
			}
		}
		if len(values) != readings || days != 3 || values[start.Add(time.Minute).UnixMilli()] != 1 {
			t.Errorf("%d values in %d days", len(values), days)
		}
	}
	if n, err := push(all[:2000]); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if n, err := push(all); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	check(2500)
	if n, err := push(all); err != nil || n != 0 {
		t.Fatal(n, err)
	}
	check(2500)
	server.failAt = server.calls + 2
	if _, err := push(all); err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR: the disk is full") {
		t.Errorf("%v", err)
	}
	if _, err := push(all); err != nil {
		t.Fatal(err)
	}
	check(2500)
	h.Config.Handler = http.NotFoundHandler()
	if _, err := push(all); err == nil || !strings.Contains(err.Error(), "MLflow answers 404") {
		t.Errorf("%v", err)
	}
}
