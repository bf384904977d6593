package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/forecast/seriesfile"
)

// historyFlags say where the CPU usage of a workload is read from.
type historyFlags struct {
	prom              cli.PrometheusFlags
	selector, query   string
	rateWindow        time.Duration
	trace             string
	time, value       string
	delimiter         string
	noHeader          bool
	scale, peak       float64
	from, to          string
	step              time.Duration
	warm              int
	loadFactor        float64
	pointsPerQuery    int // of Prometheus; a test asks for fewer
	now               func() time.Time
	timeoutOfOneQuery time.Duration
}

func (o *historyFlags) register(cmd *cobra.Command) {
	o.pointsPerQuery, o.now, o.timeoutOfOneQuery = 5000, time.Now, time.Minute
	f := cmd.Flags()
	f.StringVar(&o.prom.URL, "prometheus", "", "base URL of the Prometheus to ask")
	f.StringVar(&o.prom.TokenFile, "prometheus-bearer-token-file", "", "file with a bearer token for Prometheus")
	f.StringVar(&o.prom.CAFile, "prometheus-ca-file", "", "file with the certificates of the authority that signed Prometheus' own; those of the system if empty")
	f.StringArrayVar(&o.prom.Headers, "prometheus-header", nil, "header of each request to Prometheus, such as 'X-Scope-OrgID: team'; may be repeated")
	f.StringVar(&o.selector, "selector", "", `label matchers of the workload's pods in cAdvisor's series, such as 'namespace="shop",pod=~"web-.+"'`)
	f.StringVar(&o.query, "query", "", "PromQL that gives the cores used as one series, instead of --selector")
	f.DurationVar(&o.rateWindow, "rate-window", 0, "window of the rate under each sample (default: 2m, or the step if that is longer)")
	f.StringVar(&o.trace, "trace", "", "CSV[.gz] file to read instead of Prometheus")
	f.StringVar(&o.time, "time", "", "column of timestamps in the trace, by name or by number from 0")
	f.StringVar(&o.value, "value", "", "column of cores in the trace, by name or by number from 0")
	f.StringVar(&o.delimiter, "delimiter", ",", `character between fields of the trace; \t is a tab`)
	f.BoolVar(&o.noHeader, "no-header", false, "the trace's first row is data")
	f.Float64Var(&o.scale, "scale", 1, "cores per unit of the values, such as 0.04 for percent of four cores")
	f.Float64Var(&o.peak, "peak-cores", 0, "scale the values so that their highest is so many cores")
	f.StringVar(&o.from, "from", "24h", "where the stretch begins: RFC 3339, or a duration before now or before the trace's end")
	f.StringVar(&o.to, "to", "0s", "where it ends, likewise")
	f.DurationVar(&o.step, "step", 0, "time between samples (default: 1m of Prometheus, that of the rows of a trace)")
	f.IntVar(&o.warm, "warm-passes", 1, "how many times the stretch's length before it every scaler has seen")
	f.Float64Var(&o.loadFactor, "load-factor", 1, "multiplies the demand: what if there were twice as much?")
}

func (o *historyFlags) validate() error {
	switch {
	case o.prom.URL == "" && o.trace == "":
		return errors.New("--prometheus must name a server, or --trace a file")
	case o.prom.URL != "" && o.trace != "":
		return errors.New("either --prometheus or --trace")
	case o.prom.URL != "" && (o.selector == "") == (o.query == ""):
		return errors.New("--prometheus needs a --selector or a --query, one of them")
	case o.prom.URL == "" && (o.selector != "" || o.query != ""):
		return errors.New("--selector and --query need a --prometheus")
	case o.warm < 0 || o.warm > 100:
		return fmt.Errorf("--warm-passes must be 0 to 100, is %d", o.warm)
	case o.step < 0 || o.step > 0 && o.step < 10*time.Second:
		return fmt.Errorf("--step must be 10s or more, is %v", o.step)
	case o.rateWindow < 0:
		return fmt.Errorf("--rate-window must not be negative, is %v", o.rateWindow)
	case !(o.scale > 0 && o.scale <= 1e6):
		return fmt.Errorf("--scale must be above 0 and at most 1e6, is %v", o.scale)
	case !(o.peak >= 0 && o.peak <= 1e5):
		return fmt.Errorf("--peak-cores must be above 0 and at most 1e5, is %v", o.peak)
	case o.peak > 0 && o.scale != 1:
		return errors.New("either --scale or --peak-cores")
	case !(o.loadFactor > 0 && o.loadFactor <= 1000):
		return fmt.Errorf("--load-factor must be above 0 and at most 1000, is %v", o.loadFactor)
	}
	if o.prom.URL != "" {
		return o.prom.Validate()
	}
	return nil
}

// cpuHistory is the CPU that a workload has used.
type cpuHistory struct {
	source string // for people: a file or a query
	url    string // of Prometheus, else empty
	// series of cores, from warm whole windows before from up to to, without gaps.
	series   api.Series
	from, to time.Time
	warm     int
	notes    []string
	gaps     float64 // share of samples in the window that were filled in
	shape    podShape
}

// podShape is what kube-state-metrics tells of a pod, 0 for what it doesn't:
// cores and bytes.
type podShape struct{ cpuRequest, cpuLimit, memoryRequest, memoryLimit float64 }

// historySummary is the part of it that is printed.
type historySummary struct {
	Source     string `json:"source"`
	Prometheus string `json:"prometheus,omitempty"`
	From       string `json:"from"`
	To         string `json:"to"`
	// Step in seconds; GapRatio of the samples between From and To had no value
	// and take the one before.
	Step       float64 `json:"step"`
	Samples    int     `json:"samples"`
	GapRatio   float64 `json:"gapRatio"`
	MeanCores  float64 `json:"meanCores"`
	PeakCores  float64 `json:"peakCores"`
	WarmPasses int     `json:"warmPasses"`
	// Notes on what isn't as asked for.
	Notes []string `json:"notes,omitempty"`
}

// window of the series, from From on.
func (h cpuHistory) window() []float64 {
	return h.series.Values[len(h.series.Values)-int(h.to.Sub(h.from)/h.series.Step):]
}

func (h cpuHistory) summary() historySummary {
	s := historySummary{
		Source: h.source, Prometheus: h.url, From: h.from.UTC().Format(time.RFC3339), To: h.to.UTC().Format(time.RFC3339),
		Step: h.series.Step.Seconds(), Samples: len(h.window()), GapRatio: h.gaps, WarmPasses: h.warm, Notes: h.notes,
	}
	for _, v := range h.window() {
		s.MeanCores += v / float64(len(h.window()))
		s.PeakCores = max(s.PeakCores, v)
	}
	return s
}

// read gets the history from where it is and makes a window and passes of
// warm-up of it.
func (o *historyFlags) read(ctx context.Context, given func(string) bool, progress io.Writer) (cpuHistory, error) {
	if o.trace != "" {
		return o.readTrace(given)
	}
	step := o.step
	if step == 0 {
		step = time.Minute
	}
	now := o.now().Truncate(step)
	from, to, err := o.stretch(now, step)
	if err != nil {
		return cpuHistory{}, cli.Usage(err)
	}
	if to.After(now) {
		return cpuHistory{}, cli.Usagef("--to %s lies ahead", o.to)
	}
	h, err := o.ask(ctx, from.Add(-time.Duration(o.warm)*to.Sub(from)), to, step, progress)
	if err != nil {
		return h, err
	}
	return h, o.cut(&h, from, to)
}

// readTrace reads the history from a file.
func (o *historyFlags) readTrace(given func(string) bool) (cpuHistory, error) {
	delimiter := strings.ReplaceAll(o.delimiter, `\t`, "\t")
	if utf8.RuneCountInString(delimiter) != 1 || strings.ContainsAny(delimiter, "\"\r\n\uFFFD") {
		return cpuHistory{}, cli.Usagef("--delimiter must be one character, not a quote or a line end, is %q", o.delimiter)
	}
	mark, _ := utf8.DecodeRuneInString(delimiter)
	got, err := readFile(o.trace, strings.NewReader(""), seriesfile.Options{
		Name: o.trace, Time: o.time, Value: o.value, Step: o.step, Delimiter: mark, NoHeader: o.noHeader,
	})
	if err != nil {
		return cpuHistory{}, cli.Usage(err)
	}
	h := cpuHistory{source: o.trace, series: got.Series}
	if note := remarks(got); note != "" {
		h.notes = append(h.notes, note)
	}
	step := h.series.Step
	if step < 10*time.Second {
		return h, cli.Usagef("%s: a sample every %v is more than can be replayed; --step 10s or more averages them", o.trace, step)
	}
	end := h.series.Start.Add(time.Duration(len(h.series.Values)) * step)
	from, to, err := o.stretch(end, step)
	if err != nil {
		return h, cli.Usage(err)
	}
	if first := h.series.Start; from.Before(first) {
		if given("from") || !to.After(first) {
			return h, cli.Usagef("--from %s is before %s, where %s begins", o.from, first.Format(time.RFC3339), o.trace)
		}
		from = first.Add((to.Sub(first) % time.Minute))
	}
	if to.After(end) {
		return h, cli.Usagef("--to %s is after %s, where %s ends", o.to, end.Format(time.RFC3339), o.trace)
	}
	return h, o.cut(&h, from, to)
}

// stretch is what --from and --to say, from before to, whole minutes and steps
// apart.
func (o *historyFlags) stretch(end time.Time, step time.Duration) (from, to time.Time, err error) {
	if to, err = moment("--to", o.to, end); err != nil {
		return from, to, err
	}
	if from, err = moment("--from", o.from, end); err != nil {
		return from, to, err
	}
	if !from.Before(to) {
		return from, to, fmt.Errorf("--from %s is not before --to %s", o.from, o.to)
	}
	unit := max(step, time.Minute)
	for unit%step != 0 || unit%time.Minute != 0 {
		if unit += step; unit > 24*time.Hour {
			return from, to, fmt.Errorf("a step of %v does not go with whole minutes: set --step", step)
		}
	}
	whole := to.Sub(from) / unit * unit
	const most = 60 * 24 * time.Hour
	switch {
	case whole < 2*step || whole < 5*time.Minute:
		return from, to, fmt.Errorf("--from %s to --to %s is %v, too short to tell anything: at least 5m and two steps of %v", o.from, o.to, to.Sub(from), step)
	case whole > most/time.Duration(o.warm+1):
		return from, to, fmt.Errorf("--from %s to --to %s with --warm-passes %d is longer than %v", o.from, o.to, o.warm, most)
	}
	return to.Add(-whole), to, nil
}

// moment is a time, or a duration before end.
func moment(flag, text string, end time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if n, ok := strings.CutSuffix(text, "d"); ok {
		if d, err := strconv.ParseUint(n, 10, 16); err == nil {
			return end.Add(-time.Duration(d) * 24 * time.Hour), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%s %q is neither a time such as 2026-11-20T00:00:00Z nor a duration such as 48h or 7d", flag, text)
	}
	return end.Add(-d), nil
}

// cut keeps what the window and its warm-up need, fills gaps and scales.
func (o *historyFlags) cut(h *cpuHistory, from, to time.Time) error {
	step := h.series.Step
	at := func(t time.Time) int { return int(t.Sub(h.series.Start) / step) }
	values := h.series.Values
	known := 0 // the first sample with a value
	for known < len(values) && math.IsNaN(values[known]) {
		known++
	}
	end := min(at(to), len(values))
	begin := end - int(to.Sub(from)/step)
	window := to.Sub(from)
	if begin < 0 || known > begin+(end-begin)/2 {
		return cli.Usagef("%s: nothing is known of the first half of the time from %s to %s", h.source, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	per := int(window / step)
	// A twentieth of the first pass may be missing: a rate begins late.
	h.warm = min(o.warm, begin/per, max(0, (begin-known+per/20)/per))
	if h.warm < o.warm {
		h.notes = append(h.notes, fmt.Sprintf("there is history for %d of %d passes of warm-up", h.warm, o.warm))
	}
	if h.warm == 0 {
		h.notes = append(h.notes, "nobody has seen any history: the first minutes are a cold start, from the least replicas, for every scaler alike")
	}
	out := make([]float64, 0, (h.warm+1)*per)
	last, gaps := values[known], 0
	for i := known; i <= begin-h.warm*per; i++ {
		if !math.IsNaN(values[i]) {
			last = values[i]
		}
	}
	for i := begin - h.warm*per; i < end; i++ {
		v := values[i]
		if math.IsNaN(v) {
			v = last
			if i >= begin {
				gaps++
			}
		}
		if v < 0 || math.IsInf(v, 0) {
			return cli.Usagef("%s: %g at %s is no use of CPU", h.source, v, h.series.Start.Add(time.Duration(i)*step).UTC().Format(time.RFC3339))
		}
		last = v
		out = append(out, v)
	}
	h.gaps = float64(gaps) / float64(per)
	if h.gaps > 0.5 {
		return cli.Usagef("%s: %.0f %% of the samples from %s to %s are missing", h.source, 100*h.gaps, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	factor := o.scale
	if o.peak > 0 {
		highest := 0.0
		for _, v := range out {
			highest = max(highest, v)
		}
		factor = o.peak / highest
	}
	highest := 0.0
	for i := range out {
		out[i] *= factor * o.loadFactor
		highest = max(highest, out[i])
	}
	if !(highest > 0) || math.IsInf(highest, 0) {
		return cli.Usagef("%s: no CPU was used from %s to %s", h.source, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	h.series = api.Series{Start: from.Add(-time.Duration(h.warm) * window), Step: step, Values: out}
	h.from, h.to = from, to
	return nil
}
