package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PredictionPath is where a model's answer is, as JSON.
const PredictionPath = "/predictions/"

// Handler serves answers and nothing else: PredictionPath and a model's name, which a
// strategy's sensor reads, and /metrics for Prometheus. An answer without a value has the
// status 503. /healthz says that the process runs.
func (p *Predictor) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PredictionPath+"{model}", func(w http.ResponseWriter, r *http.Request) {
		a, ok := p.Answer(r.PathValue("model"))
		if !ok {
			http.Error(w, "there is no such model", http.StatusNotFound)
			return
		}
		status := http.StatusOK
		if a.Value == nil {
			status = http.StatusServiceUnavailable
		}
		a.At = a.At.UTC().Truncate(time.Millisecond)
		data, err := json.Marshal(a)
		if err != nil { // a number that is none, which Answer never has
			http.Error(w, "the answer can't be written", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = w.Write(append(data, '\n'))
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, p.metrics())
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	return mux
}

// label of a metric, as Prometheus' text format has it.
var label = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// metrics in Prometheus' text format. A model whose answer is missing has no value.
func (p *Predictor) metrics() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var values, times, missing strings.Builder
	for _, name := range p.order {
		labels := fmt.Sprintf(`{node="%s",model="%s"}`, label.Replace(p.o.Node), label.Replace(name))
		if a, _ := p.answer(name); a.Value != nil {
			fmt.Fprintf(&values, "mash2_node_prediction%s %s\n", labels, strconv.FormatFloat(*a.Value, 'g', -1, 64))
			fmt.Fprintf(&times, "mash2_node_prediction_timestamp_seconds%s %.3f\n", labels, float64(a.At.UnixMilli())/1000)
		}
	}
	keys := slices.SortedFunc(maps.Keys(p.missing), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		fmt.Fprintf(&missing, "mash2_node_prediction_missing_total{node=\"%s\",model=\"%s\",reason=\"%s\"} %d\n", label.Replace(p.o.Node), label.Replace(k[0]), k[1], p.missing[k])
	}
	const head = "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n"
	return fmt.Sprintf(head, "mash2_node_prediction", "What a model predicts from this node's metrics; absent while it is missing.", "gauge") + values.String() +
		fmt.Sprintf(head, "mash2_node_prediction_timestamp_seconds", "Time of the readings that the prediction is from.", "gauge") + times.String() +
		fmt.Sprintf(head, "mash2_node_prediction_missing_total", "Intervals without a prediction, by reason: window, feature or model.", "counter") + missing.String()
}
