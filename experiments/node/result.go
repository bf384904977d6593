package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/sensing"
)

// result is a run, as it is kept.
type result struct {
	Options  options  `json:"options"`
	Versions versions `json:"versions"`
	Pod      onePod   `json:"pod"`
	Passes   []pass   `json:"passes"`
	Samples  []sample `json:"samples"`
	// Rescales of the HPA, and scalings that mash2 carried out, as they say themselves.
	HPARescales  []string `json:"hpaRescales"`
	Mash2Actions []string `json:"mash2Actions"`
	// Restarts of containers, of the pods that there were at the end.
	Restarts int32 `json:"restarts"`
	// Recorded is how many workloads the recording rules of the chart know.
	Recorded int       `json:"recorded"`
	Made     time.Time `json:"made"`
	Began    time.Time `json:"began"` // the load
}

type versions struct {
	Kubelet     string  `json:"kubelet"`
	Runtime     string  `json:"runtime"`
	Runc        string  `json:"runc"`
	Kernel      string  `json:"kernel"`
	CPUs        int64   `json:"cpus"`
	Load        string  `json:"loadAverage"` // of the last minutes before
	Allocatable float64 `json:"allocatableCores"`
}

// keep reads what the scalers say they did, and what the recording rules know.
func (n *realNode) keep(ctx context.Context, cycles, prometheus string, r *result) error {
	var err error
	if r.Recorded, err = recorded(ctx, prometheus); err != nil {
		return err
	}
	for _, scaler := range r.Options.scalers() {
		pods, err := n.client.CoreV1().Pods(scaler).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			for _, c := range p.Status.ContainerStatuses {
				r.Restarts += c.RestartCount
			}
		}
	}
	events, err := n.cluster.Kubectl(ctx, "-n", hpa, "get", "events", "--field-selector", "reason=SuccessfulRescale", "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
	if err != nil {
		return err
	}
	if events = strings.TrimSpace(events); events != "" {
		r.HPARescales = strings.Split(events, "\n")
	}
	data, err := os.ReadFile(cycles)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		var c api.Cycle
		if err := json.Unmarshal(line, &c); err != nil {
			break // the last one is being written
		}
		for _, out := range c.Outcomes {
			if out.Error == "" && out.Skipped == "" {
				r.Mash2Actions = append(r.Mash2Actions, fmt.Sprintf("%4.0f s  %s", c.Time.Sub(r.Began).Seconds(), out.Action))
			}
		}
	}
	return nil
}

// recorded counts the workloads whose usage the chart's rules have recorded.
func recorded(ctx context.Context, prometheus string) (int, error) {
	c, err := promapi.NewClient(promapi.Config{Address: prometheus})
	if err != nil {
		return 0, err
	}
	v, _, err := promv1.NewAPI(c).Query(ctx, "count(group by (namespace, mash2_owner) ("+sensing.DefaultConfig().RecordedUsage+"))", time.Now())
	if err != nil {
		return 0, fmt.Errorf("asking for recorded usage: %w", err)
	}
	if v, ok := v.(model.Vector); ok && len(v) == 1 {
		return int(v[0].Value), nil
	}
	return 0, nil
}

// figures of one scaler over one pass, from the samples.
type figures struct {
	pass
	MeanReplicas, MeanCores, PeakCores, Utilization float64
	MaxReplicas                                     int32
	Throttled                                       float64 // share of periods
	MeanLimits                                      float64 // of all pods together, cores
	Resized                                         int     // pods whose limit was seen to change
}

func (r result) figuresOf(p pass, request float64) figures {
	f := figures{pass: p}
	var replicas, cores, limits, seconds float64
	var throttled, periods int64
	last := p.Begin
	for _, s := range r.Samples {
		if s.Seconds <= p.Begin || s.Seconds > p.End {
			continue
		}
		one, d := s.Of[p.Scaler], s.Seconds-last
		last = s.Seconds
		replicas += float64(one.Replicas) * d
		cores += one.Cores * d
		limits += one.Quota * d
		f.Resized += one.Resized
		seconds += d
		f.MaxReplicas, f.PeakCores = max(f.MaxReplicas, one.Replicas), max(f.PeakCores, one.Cores)
		throttled += one.Throttled
		periods += one.Periods
	}
	if seconds > 0 {
		f.MeanReplicas, f.MeanCores, f.MeanLimits = replicas/seconds, cores/seconds, limits/seconds
		f.Utilization = cores / (replicas * request)
	}
	if periods > 0 {
		f.Throttled = float64(throttled) / float64(periods)
	}
	return f
}

// table is the outcome, a row for each scaler and pass.
func (r result) table(request float64) string {
	var b strings.Builder
	b.WriteString("| scaler | pass | requests | failed | p95 ms | p99 ms | SLO of the pass | replicas, mean | most | cores, mean | most | used of requests | throttled periods | limits, mean | resized in place |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	passes := slices.Clone(r.Passes)
	slices.SortFunc(passes, func(a, b pass) int { return cmp.Or(cmp.Compare(a.Pass, b.Pass), cmp.Compare(a.Scaler, b.Scaler)) })
	for _, p := range passes {
		f := r.figuresOf(p, request)
		met := "met"
		if !p.SLOMet {
			met = "not met"
		}
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.2f %% | %.0f | %.0f | %s | %.1f | %d | %.2f | %.2f | %.0f %% | %.0f %% | %.2f | %d |\n",
			p.Scaler, p.Pass, p.Summary.Requests, 100*p.Summary.FailedRatio, p.Summary.P95, p.Summary.P99, met,
			f.MeanReplicas, f.MaxReplicas, f.MeanCores, f.PeakCores, 100*f.Utilization, 100*f.Throttled, f.MeanLimits, f.Resized)
	}
	return b.String()
}

// timeline has a row for every so many seconds.
func (r result) timeline(every float64) string {
	var b strings.Builder
	b.WriteString("| s | users each |")
	rule := "|--:|--:|"
	for _, scaler := range r.Options.scalers() {
		b.WriteString(" " + scaler + ": replicas | Ready | cores | limits |")
		rule += "--:|--:|--:|--:|"
	}
	b.WriteString("\n" + rule + "\n")
	next := 0.0
	for _, s := range r.Samples {
		if s.Seconds < next {
			continue
		}
		next += every
		users := 0
		for _, of := range s.Of {
			users = max(users, of.Users)
		}
		fmt.Fprintf(&b, "| %.0f | %d |", s.Seconds, users)
		for _, scaler := range r.Options.scalers() {
			of := s.Of[scaler]
			fmt.Fprintf(&b, " %d | %d | %.2f | %.2f |", of.Replicas, of.Ready, of.Cores, of.Quota)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// chart draws replicas over time.
func (r result) chart() report.Figure {
	f := report.Figure{Title: "Replicas on a real node", XLabel: "s", YLabel: "replicas"}
	for color, scaler := range r.Options.scalers() {
		line := report.Series{Name: scaler, Color: color}
		ready := report.Series{Name: scaler + ", Ready", Color: color, Dash: 1}
		for _, s := range r.Samples {
			line.X, line.Y = append(line.X, s.Seconds), append(line.Y, float64(s.Of[scaler].Replicas))
			ready.X, ready.Y = append(ready.X, s.Seconds), append(ready.Y, float64(s.Of[scaler].Ready))
		}
		f.Series = append(f.Series, line, ready)
	}
	return f
}

// checkTable is how the machine compares with what it was.
func checkTable(checks []check) string {
	var b strings.Builder
	b.WriteString("| what | there were | after the run |\n|---|--:|---|\n")
	for _, c := range checks {
		verdict := "as before"
		if len(c.Difference) > 0 {
			verdict = strings.Join(c.Difference, "; ")
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", c.What, c.Compared, verdict)
	}
	return b.String()
}

// writePage prints the outcome and, where a page is asked for, writes that.
func writePage(o options, checks []check) error {
	data, err := os.ReadFile(filepath.Join(o.Out, resultFile))
	if err != nil {
		return err
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	request, err := requestCores(r.Options.Scale)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n%s", r.table(request), r.timeline(30))
	fmt.Printf("\n%d restarts of containers\n", r.Restarts)
	if o.Page == "" {
		return nil
	}
	k6 := map[string]string{}
	for _, scaler := range r.Options.scalers() {
		text, err := os.ReadFile(filepath.Join(o.Out, fmt.Sprintf("k6-%s-%d.txt", scaler, r.Options.Passes)))
		if err != nil {
			return err
		}
		k6[scaler] = indented(string(text))
	}
	var picture bytes.Buffer
	if err := r.chart().PNG(&picture); err != nil {
		return err
	}
	const pictureName = "node-replicas.png"
	var page bytes.Buffer
	err = pageTemplate.Execute(&page, map[string]any{
		"R": r, "Table": r.table(request), "Timeline": r.timeline(60), "Checks": checkTable(checks), "K6": k6,
		"Request": 1000 * request, "Picture": pictureName, "Date": r.Made.Format(time.DateOnly),
	})
	return errors.Join(err,
		os.WriteFile(o.Page, page.Bytes(), 0o644),
		os.WriteFile(filepath.Join(filepath.Dir(o.Page), pictureName), picture.Bytes(), 0o644))
}

// indented is k6's summary as a block of code. Around it are log lines, one for
// each request that failed.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "time=") {
			b.WriteString("    " + strings.TrimRight(line, " \n") + "\n")
		}
	}
	return "    " + strings.TrimSpace(strings.ReplaceAll(b.String(), "    \n", "\n"))
}

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// requestCores is what one replica requests.
func requestCores(scale float64) (float64, error) {
	s, err := scenarios.Load(scenario)
	if err != nil {
		return 0, err
	}
	return float64((options{Scale: scale}).deployment("", s).Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()) / 1000, nil
}
