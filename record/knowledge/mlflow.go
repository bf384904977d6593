package knowledge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MLflowRun is a run of MLflow with what is logged to it, in the terms of its REST API,
// version 2.0. Values of sensors are one run a day and object, other entries one run each.
type MLflowRun struct {
	// Experiment by name: the object that it is about.
	Experiment string `json:"experiment"`
	// Create is the body of runs/create, without the experiment's id.
	Create MLflowCreate `json:"create"`
	// Log has the bodies of runs/log-batch, without the run's id.
	Log []MLflowBatch `json:"log"`
	// EndTime of the run, milliseconds since 1970.
	EndTime int64 `json:"endTime"`
}

// MLflowCreate is the body of runs/create.
type MLflowCreate struct {
	Experiment string         `json:"experiment_id,omitempty"`
	Name       string         `json:"run_name"`
	StartTime  int64          `json:"start_time"` // milliseconds since 1970
	Tags       []MLflowString `json:"tags"`
}

// MLflowBatch is the body of runs/log-batch.
type MLflowBatch struct {
	Run     string         `json:"run_id,omitempty"`
	Metrics []MLflowMetric `json:"metrics,omitempty"`
	Params  []MLflowString `json:"params,omitempty"`
	Tags    []MLflowString `json:"tags,omitempty"`
}

// MLflowMetric is a value at a time.
type MLflowMetric struct {
	Key       string  `json:"key"`
	Value     float64 `json:"value"`
	Timestamp int64   `json:"timestamp"` // milliseconds since 1970
	Step      int64   `json:"step"`
}

// MLflowString is a parameter or a tag.
type MLflowString struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Limits of MLflow's REST API.
const (
	mostMetrics = 1000
	mostStrings = 100
	mostKey     = 250
	mostValue   = 5000
)

// tagKey identifies a run, so that a second export finds it.
const tagKey = "mash2.key"

// MLflowRuns are the runs of entries, in order of experiment and time.
func MLflowRuns(entries []Entry) []MLflowRun {
	days := map[string]*MLflowRun{}
	var out []*MLflowRun
	for _, e := range entries {
		experiment := "mash2 " + e.About.String()
		at := e.Time.UnixMilli()
		if e.Kind == KindReading {
			day := e.Time.UTC().Format(time.DateOnly)
			id := experiment + " " + day
			r := days[id]
			if r == nil {
				r = newRun(experiment, "sensors "+day, "reading "+day, at)
				days[id] = r
				out = append(out, r)
			}
			r.EndTime = max(r.EndTime, at)
			if e.Value != nil {
				r.metric(MLflowMetric{Key: mlflowName(e.Name), Value: *e.Value, Timestamp: at})
			}
			continue
		}
		r := newRun(experiment, e.Name, fmt.Sprintf("%s %s %x", e.Kind, e.Name, key(e)), at)
		r.Create.Tags = append(r.Create.Tags, MLflowString{"mash2.kind", string(e.Kind)})
		if e.Text != "" {
			r.Create.Tags = append(r.Create.Tags, MLflowString{"mlflow.note.content", cut(e.Text, mostValue)})
		}
		for _, name := range slices.Sorted(maps.Keys(e.Params)) {
			r.param(MLflowString{mlflowName(name), cut(e.Params[name], mostValue)})
		}
		for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
			r.metric(MLflowMetric{Key: mlflowName(name), Value: e.Metrics[name], Timestamp: at})
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b *MLflowRun) int {
		return cmp.Or(strings.Compare(a.Experiment, b.Experiment), cmp.Compare(a.Create.StartTime, b.Create.StartTime))
	})
	runs := make([]MLflowRun, len(out))
	for i, r := range out {
		runs[i] = *r
	}
	return runs
}

func newRun(experiment, name, key string, at int64) *MLflowRun {
	return &MLflowRun{Experiment: experiment, EndTime: at, Create: MLflowCreate{Name: name, StartTime: at, Tags: []MLflowString{{tagKey, key}}}}
}

// batch is the last one, or a new one when that is full.
func (r *MLflowRun) batch(full func(MLflowBatch) bool) *MLflowBatch {
	if n := len(r.Log); n == 0 || full(r.Log[n-1]) {
		r.Log = append(r.Log, MLflowBatch{})
	}
	return &r.Log[len(r.Log)-1]
}

func (r *MLflowRun) metric(m MLflowMetric) {
	b := r.batch(func(b MLflowBatch) bool { return len(b.Metrics)+len(b.Params) >= mostMetrics })
	b.Metrics = append(b.Metrics, m)
}

func (r *MLflowRun) param(p MLflowString) {
	b := r.batch(func(b MLflowBatch) bool { return len(b.Params) >= mostStrings })
	b.Params = append(b.Params, p)
}

// mlflowName has the characters that MLflow allows in the name of a metric or parameter.
func mlflowName(name string) string {
	return cut(strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-. /", r)) {
			return r
		}
		return '_'
	}, name), mostKey)
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// MLflow is a tracking server.
type MLflow struct {
	// URL of the server, such as http://127.0.0.1:5000.
	URL string
	// Token, if not empty, is sent as a bearer token.
	Token  string
	Client *http.Client
}

// Push writes runs to the server. A run that is there already gets only what it lacks: who
// exports twice has nothing twice. It returns how many runs were new. Done is told after
// each run.
func (m MLflow) Push(ctx context.Context, runs []MLflowRun, done func(i int)) (created int, err error) {
	ids := map[string]string{}
	for i, r := range runs {
		id, ok := ids[r.Experiment]
		if !ok {
			if id, err = m.experiment(ctx, r.Experiment); err != nil {
				return created, fmt.Errorf("experiment %q: %w", r.Experiment, err)
			}
			ids[r.Experiment] = id
		}
		isNew, err := m.run(ctx, id, r)
		if err != nil {
			return created, fmt.Errorf("run %q of experiment %q: %w", r.Create.Name, r.Experiment, err)
		}
		if isNew {
			created++
		}
		done(i)
	}
	return created, nil
}

// experiment is the id of one by its name; it is made if it is not there.
func (m MLflow) experiment(ctx context.Context, name string) (string, error) {
	var there struct {
		Experiment struct {
			ID    string `json:"experiment_id"`
			Stage string `json:"lifecycle_stage"`
		} `json:"experiment"`
	}
	err := m.call(ctx, http.MethodGet, "experiments/get-by-name?"+url.Values{"experiment_name": {name}}.Encode(), nil, &there)
	if err == nil {
		if there.Experiment.Stage == "deleted" {
			return "", fmt.Errorf("it is deleted; restore it, or remove it for good")
		}
		return there.Experiment.ID, nil
	}
	if e := (*mlflowError)(nil); !errors.As(err, &e) || e.Code != "RESOURCE_DOES_NOT_EXIST" {
		return "", err
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	err = m.call(ctx, http.MethodPost, "experiments/create", struct {
		Name string `json:"name"`
	}{name}, &made)
	return made.ID, err
}

func (m MLflow) run(ctx context.Context, experiment string, r MLflowRun) (isNew bool, err error) {
	var found struct {
		Runs []struct {
			Info struct {
				ID  string      `json:"run_id"`
				End json.Number `json:"end_time"` // some servers write a text
			} `json:"info"`
		} `json:"runs"`
	}
	key := r.Create.Tags[0].Value
	if err := m.call(ctx, http.MethodPost, "runs/search", struct {
		Experiments []string `json:"experiment_ids"`
		Filter      string   `json:"filter"`
		Most        int      `json:"max_results"`
	}{[]string{experiment}, fmt.Sprintf("tags.`%s` = %s", tagKey, mlflowQuote(key)), 1}, &found); err != nil {
		return false, err
	}
	id, known := "", int64(0)
	if len(found.Runs) > 0 {
		// A metric that is logged twice is there twice. A run without an end was cut short,
		// and gets all of its metrics again.
		id = found.Runs[0].Info.ID
		if known, _ = found.Runs[0].Info.End.Int64(); known >= r.EndTime {
			return false, nil
		}
	} else {
		var made struct {
			Run struct {
				Info struct {
					ID string `json:"run_id"`
				} `json:"info"`
			} `json:"run"`
		}
		create := r.Create
		create.Experiment = experiment
		if err := m.call(ctx, http.MethodPost, "runs/create", create, &made); err != nil {
			return false, err
		}
		id, isNew = made.Run.Info.ID, true
	}
	for _, b := range r.Log {
		b.Run, b.Metrics = id, slices.DeleteFunc(slices.Clone(b.Metrics), func(m MLflowMetric) bool { return m.Timestamp <= known })
		if err := m.call(ctx, http.MethodPost, "runs/log-batch", b, nil); err != nil {
			return isNew, err
		}
	}
	return isNew, m.call(ctx, http.MethodPost, "runs/update", struct {
		Run    string `json:"run_id"`
		Status string `json:"status"`
		End    int64  `json:"end_time"`
	}{id, "FINISHED", r.EndTime}, nil)
}

// mlflowQuote is a string of MLflow's filters, which know no escapes.
func mlflowQuote(text string) string {
	if strings.Contains(text, "'") {
		return `"` + strings.ReplaceAll(text, `"`, "_") + `"`
	}
	return "'" + text + "'"
}

// mlflowError is what the server answers.
type mlflowError struct {
	Status  int    `json:"-"`
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

// Error says what the server said.
func (e *mlflowError) Error() string {
	if e.Code == "" {
		return "MLflow answers " + strconv.Itoa(e.Status)
	}
	return fmt.Sprintf("MLflow answers %s: %s", e.Code, e.Message)
}

func (m MLflow) call(ctx context.Context, method, path string, body, answer any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(m.URL, "/")+"/api/2.0/mlflow/"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if m.Token != "" {
		r.Header.Set("Authorization", "Bearer "+m.Token)
	}
	w, err := m.Client.Do(r)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	data, err := io.ReadAll(io.LimitReader(w.Body, 1<<20))
	if err != nil {
		return err
	}
	if w.StatusCode != http.StatusOK {
		e := &mlflowError{Status: w.StatusCode}
		_ = json.Unmarshal(data, e) // a proxy's answer is none
		return e
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}
