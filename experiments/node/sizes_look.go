package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/experiments/report"
)

// sizedSeen is a run of -sizes, as it is kept.
type sizedSeen struct {
	Made     time.Time         `json:"made"`
	Versions versions          `json:"versions"`
	Planned  map[string]string `json:"planned"` // status.sizing.reason by workload
	Moments  []moment          `json:"moments"`
	Samples  []sizedSample     `json:"samples"`
	K6       k6Summary         `json:"k6"`
	Latency  []latency         `json:"latency"`
	Events   []string          `json:"events"`
	Restarts int32             `json:"restarts"` // of all containers, before one was to be killed
}

// moment is when something was done, or was seen first.
type moment struct {
	Seconds float64 `json:"seconds"`
	What    string  `json:"what"`
}

// sizedSample is what there was at one moment, by workload.
type sizedSample struct {
	Seconds float64                `json:"seconds"`
	Of      map[string]sizedPodsOf `json:"of"`
}

// sizedPodsOf are a workload's pods, all of them together.
type sizedPodsOf struct {
	Pods  int `json:"pods"`
	Ready int `json:"ready"`
	// CPU and Memory are what the kubelet says that it gives them: requests, cores and MiB.
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memoryMiB"`
	// Quota is what the kernel lets them use, cores, and Used what they use.
	Quota float64 `json:"quota"`
	Used  float64 `json:"used"`
	// Said is what the kubelet says of resizes that it has not carried out, of each pod.
	Said []string `json:"said,omitempty"`
}

// latency of a workload's requests in some seconds.
type latency struct {
	Workload string  `json:"workload"`
	Seconds  float64 `json:"seconds"` // the middle
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	P95      float64 `json:"p95Ms"`
}

// watchSized samples until ctx ends. What can't be read at a moment is missing then: the API
// server and the kernel may differ about a pod that goes.
func (n *realNode) watchSized(ctx context.Context, begin time.Time) (out []sizedSample) {
	const every = 2 * time.Second
	used := map[string]time.Duration{}
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return out
		case <-time.After(every):
		}
		now := time.Now()
		elapsed := now.Sub(last)
		last = now
		s := sizedSample{Seconds: now.Sub(begin).Seconds(), Of: map[string]sizedPodsOf{}}
		for _, g := range guesses() {
			pods, err := n.podsOfGuess(ctx, g)
			if err != nil {
				continue
			}
			var of sizedPodsOf
			for i := range pods {
				p := &pods[i]
				is, err := readPod(cgroupRoot, p.UID)
				if err != nil || p.Status.Phase != corev1.PodRunning || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].Resources == nil {
					continue
				}
				given := p.Status.ContainerStatuses[0].Resources.Requests
				of.Pods++
				if podReady(p) == nil {
					of.Ready++
				}
				for _, c := range p.Status.Conditions {
					if (c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress) && c.Status == corev1.ConditionTrue {
						of.Said = append(of.Said, strings.Trim(fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message), ": "))
					}
				}
				of.CPU += float64(given.Cpu().MilliValue()) / 1000
				of.Memory += float64(given.Memory().Value()) / (1 << 20)
				of.Quota += is.cores()
				if was, known := used[p.Name]; known {
					of.Used += max(0, (is.Used-was).Seconds()/elapsed.Seconds())
				}
				used[p.Name] = is.Used
			}
			s.Of[g.Name] = of
		}
		out = append(out, s)
	}
}

// latencyOver is how many seconds are looked at together.
const latencyOver = 10

// latencies reads k6's records in CSV: of each workload, whose scenarios have its place in
// names, the requests by seconds since begin.
func latencies(records io.Reader, begin time.Time, names []string) ([]latency, error) {
	r := csv.NewReader(records)
	r.FieldsPerRecord = -1 // a metric without a tag leaves it out at the end
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("k6's records: %w", err)
	}
	column := map[string]int{}
	for i, name := range head {
		column[name] = i
	}
	for _, name := range []string{"metric_name", "timestamp", "metric_value", "scenario", "status"} {
		if _, ok := column[name]; !ok {
			return nil, fmt.Errorf("k6's records have no column %s", name)
		}
	}
	type key struct{ workload, part int }
	took := map[key][]float64{}
	failed := map[key]int{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("k6's records: %w", err)
		}
		if row[column["metric_name"]] != "http_req_duration" {
			continue
		}
		at, err := strconv.ParseFloat(row[column["timestamp"]], 64)
		if err != nil {
			return nil, fmt.Errorf("k6's records: timestamp %q", row[column["timestamp"]])
		}
		ms, err := strconv.ParseFloat(row[column["metric_value"]], 64)
		if err != nil {
			return nil, fmt.Errorf("k6's records: value %q", row[column["metric_value"]])
		}
		place, err := strconv.Atoi(strings.TrimPrefix(row[column["scenario"]], "pod"))
		if err != nil || place < 0 || place >= len(names) {
			return nil, fmt.Errorf("k6's records: scenario %q", row[column["scenario"]])
		}
		k := key{place, int(at-float64(begin.Unix())) / latencyOver}
		took[k] = append(took[k], ms)
		if row[column["status"]] != "200" {
			failed[k]++
		}
	}
	var out []latency
	for k, all := range took {
		slices.Sort(all)
		out = append(out, latency{
			Workload: names[k.workload], Seconds: latencyOver * (float64(k.part) + 0.5), Requests: len(all), Failed: failed[k],
			P95: all[min(len(all)-1, len(all)*95/100)],
		})
	}
	slices.SortFunc(out, func(a, b latency) int {
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Seconds, b.Seconds))
	})
	return out, nil
}

// sizesFile is what -sizes leaves in the folder for results.
const sizesFile = "sizes.json"

func keepSizes(o options, seen sizedSeen) error {
	data, err := json.MarshalIndent(seen, "", "  ")
	return errors.Join(err, os.WriteFile(filepath.Join(o.Out, sizesFile), data, 0o644))
}

// figure draws a value of each workload, given and used.
func (s sizedSeen) figure(title, unit string, given, used func(sizedPodsOf) float64) report.Figure {
	f := report.Figure{Title: title, XLabel: "s", YLabel: unit}
	for color, g := range guesses() {
		line := report.Series{Name: g.Name, Color: color}
		below := report.Series{Name: g.Name + ", used", Color: color, Dash: 1}
		for _, one := range s.Samples {
			line.X, line.Y = append(line.X, one.Seconds), append(line.Y, given(one.Of[g.Name]))
			if used != nil {
				below.X, below.Y = append(below.X, one.Seconds), append(below.Y, used(one.Of[g.Name]))
			}
		}
		f.Series = append(f.Series, line)
		if used != nil {
			f.Series = append(f.Series, below)
		}
	}
	return f
}

// latencyFigure draws how long requests took.
func (s sizedSeen) latencyFigure() report.Figure {
	f := report.Figure{Title: "p95 of requests while pods are sized", XLabel: "s", YLabel: "ms"}
	for color, g := range guesses() {
		if !g.Users {
			continue
		}
		line := report.Series{Name: g.Name, Color: color}
		for _, l := range s.Latency {
			if l.Workload == g.Name {
				line.X, line.Y = append(line.X, l.Seconds), append(line.Y, l.P95)
			}
		}
		f.Series = append(f.Series, line)
	}
	return f
}

// table has at each moment how many pods are Ready, their CPU as they request, use and may use
// it, and their memory.
func (s sizedSeen) table() string {
	var b strings.Builder
	b.WriteString("| s | |")
	rule := "|--:|---|"
	for _, g := range guesses() {
		fmt.Fprintf(&b, " %s |", g.Name)
		rule += "---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, m := range append(slices.Clone(s.Moments), moment{s.Samples[len(s.Samples)-1].Seconds, "the end"}) {
		i := slices.IndexFunc(s.Samples, func(one sizedSample) bool { return one.Seconds >= m.Seconds })
		if i < 0 {
			i = len(s.Samples) - 1
		}
		fmt.Fprintf(&b, "| %.0f | %s |", m.Seconds, m.What)
		for _, g := range guesses() {
			of := s.Samples[i].Of[g.Name]
			fmt.Fprintf(&b, " %d of %d; %.2f, %.2f, %.2f; %.0f |", of.Ready, of.Pods, of.CPU, of.Used, of.Quota, of.Memory)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// said has what the kubelet said of resizes, and from when to when.
func (s sizedSeen) said() string {
	type key struct{ workload, text string }
	var order []key
	first, last := map[key]float64{}, map[key]float64{}
	for _, one := range s.Samples {
		for _, g := range guesses() {
			for _, text := range one.Of[g.Name].Said {
				k := key{g.Name, text}
				if _, known := first[k]; !known {
					first[k], order = one.Seconds, append(order, k)
				}
				last[k] = one.Seconds
			}
		}
	}
	var b strings.Builder
	b.WriteString("| pods of | first seen, s | last seen, s | condition |\n|---|--:|--:|---|\n")
	for _, k := range order {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %s |\n", k.workload, first[k], last[k], k.text)
	}
	return b.String()
}

// worst is the largest p95 of a workload between two moments, ms, and its failed requests, as
// cells of a table; dashes where the moments are too near.
func (s sizedSeen) worst(workload string, from, to float64) string {
	p95, requests, failed := 0.0, 0, 0
	for _, l := range s.Latency {
		if l.Workload == workload && l.Seconds >= from && l.Seconds <= to {
			p95, requests, failed = max(p95, l.P95), requests+l.Requests, failed+l.Failed
		}
	}
	if requests == 0 {
		return " – | – |"
	}
	return fmt.Sprintf(" %.0f | %d |", p95, failed)
}

// latencyTable has each workload's requests between the moments.
func (s sizedSeen) latencyTable() string {
	var b strings.Builder
	b.WriteString("| from | to |")
	rule := "|---|---|"
	for _, g := range guesses() {
		if g.Users {
			fmt.Fprintf(&b, " %s: worst p95 of %d s, ms | failed |", g.Name, latencyOver)
			rule += "--:|--:|"
		}
	}
	b.WriteString("\n" + rule + "\n")
	moments := append([]moment{{0, "the beginning"}}, s.Moments...)
	moments = append(moments, moment{s.Samples[len(s.Samples)-1].Seconds, "the end"})
	for i := range moments[1:] {
		fmt.Fprintf(&b, "| %s | %s |", moments[i].What, moments[i+1].What)
		for _, g := range guesses() {
			if g.Users {
				b.WriteString(s.worst(g.Name, moments[i].Seconds, moments[i+1].Seconds))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// sizesText is docs/benchmarks/node-sizes.md but for its figures.
//
//go:embed sizes.md.tmpl
var sizesText string

var sizesTemplate = template.Must(template.New("sizes").Parse(sizesText))

// writeSizes prints the outcome and, where a page is asked for, writes that.
func writeSizes(o options) error {
	data, err := os.ReadFile(filepath.Join(o.Out, sizesFile))
	if err != nil {
		return err
	}
	var seen sizedSeen
	if err := json.Unmarshal(data, &seen); err != nil {
		return err
	}
	fmt.Printf("\n%s\n%s\n%s\n%d restarts of containers\n", seen.table(), seen.said(), seen.latencyTable(), seen.Restarts)
	if o.Page == "" {
		return nil
	}
	folder := filepath.Dir(o.Page)
	errs := []error{}
	for name, f := range map[string]report.Figure{
		"node-sizes-cpu.png": seen.figure("CPU requests of running pods, and what they use", "cores",
			func(p sizedPodsOf) float64 { return p.CPU }, func(p sizedPodsOf) float64 { return p.Used }),
		"node-sizes-quota.png":   seen.figure("What the kernel lets pods use", "cores", func(p sizedPodsOf) float64 { return p.Quota }, nil),
		"node-sizes-latency.png": seen.latencyFigure(),
	} {
		var picture bytes.Buffer
		errs = append(errs, f.PNG(&picture), os.WriteFile(filepath.Join(folder, name), picture.Bytes(), 0o644))
	}
	var page bytes.Buffer
	errs = append(errs, sizesTemplate.Execute(&page, map[string]any{
		"S": seen, "Table": seen.table(), "Latency": seen.latencyTable(), "Said": seen.said(), "Date": seen.Made.Format(time.DateOnly), "Guesses": guesses(),
		"Past": fmt.Sprintf("%.0f days", sizedPast.Hours()/24), "Rate": sizedRate, "Milliseconds": 1000 * sizedCPU,
		"Failed": 100 * seen.K6.FailedRatio,
	}))
	return errors.Join(append(errs, os.WriteFile(o.Page, page.Bytes(), 0o644))...)
}
