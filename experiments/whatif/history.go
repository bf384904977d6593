package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/forecast/seriesfile"
)

// History says where the CPU usage of a workload is read from, and which stretch of
// it counts. In errors fields have the names of mash2 whatif's flags.
type History struct {
	// PrometheusURL is asked, through Transport unless that is nil; or else Trace, a
	// CSV[.gz] file, is read.
	PrometheusURL string
	Transport     http.RoundTripper
	Trace         string
	// Records of an operator, a folder, are read instead: those of one Workload,
	// NAMESPACE/NAME, or of all in a Namespace, or of all.
	Records, Workload, Namespace string

	// Selector has label matchers of the workload's pods; or else Query is PromQL
	// that gives the cores used.
	Selector, Query string
	// RateWindow of the rate under each sample; 0 is two minutes or a step.
	RateWindow time.Duration
	// Time and Value are columns of the trace, Delimiter is between them.
	Time, Value, Delimiter string
	NoHeader               bool
	// Scale is cores per unit of the values; or else PeakCores is what the highest
	// of them is. LoadFactor multiplies the demand.
	Scale, PeakCores, LoadFactor float64
	// From and To are times, or durations before now or the trace's end.
	From, To string
	// Step between samples; 0 is a minute of Prometheus, that of the rows of a trace.
	Step time.Duration
	// Warm is how many times the stretch's length before it every scaler has seen.
	Warm int

	pointsPerQuery    int              // of Prometheus; 0 is 5000
	now               func() time.Time // nil is time.Now
	timeoutOfOneQuery time.Duration    // 0 is a minute
}

func (o *History) validate() error {
	switch {
	case o.Records != "" && (o.PrometheusURL != "" || o.Trace != ""):
		return errors.New("either --records or --prometheus or --trace")
	case o.Records == "" && o.Workload+o.Namespace != "":
		return errors.New("--workload and --namespace are of --records")
	case o.Workload != "" && o.Namespace != "":
		return errors.New("either --workload or --namespace")
	case o.PrometheusURL == "" && o.Trace == "" && o.Records == "":
		return errors.New("--prometheus must name a server, or --trace a file, or --records a folder")
	case o.PrometheusURL != "" && o.Trace != "":
		return errors.New("either --prometheus or --trace")
	case o.PrometheusURL != "" && (o.Selector == "") == (o.Query == ""):
		return errors.New("--prometheus needs a --selector or a --query, one of them")
	case o.PrometheusURL == "" && (o.Selector != "" || o.Query != ""):
		return errors.New("--selector and --query need a --prometheus")
	case o.Warm < 0 || o.Warm > 100:
		return fmt.Errorf("--warm-passes must be 0 to 100, is %d", o.Warm)
	case o.Step < 0 || o.Step > 0 && o.Step < 10*time.Second:
		return fmt.Errorf("--step must be 10s or more, is %v", o.Step)
	case o.RateWindow < 0:
		return fmt.Errorf("--rate-window must not be negative, is %v", o.RateWindow)
	case !(o.Scale > 0 && o.Scale <= 1e6):
		return fmt.Errorf("--scale must be above 0 and at most 1e6, is %v", o.Scale)
	case !(o.PeakCores >= 0 && o.PeakCores <= 1e5):
		return fmt.Errorf("--peak-cores must be above 0 and at most 1e5, is %v", o.PeakCores)
	case o.PeakCores > 0 && o.Scale != 1:
		return errors.New("either --scale or --peak-cores")
	case !(o.LoadFactor > 0 && o.LoadFactor <= 1000):
		return fmt.Errorf("--load-factor must be above 0 and at most 1000, is %v", o.LoadFactor)
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
	// full tells of each sample whether pods used about all that they may: what they would
	// have used is not known then. Nil where there is no limit to tell it by.
	full []bool
	// missing tells of each sample whether it had no value, and takes the one before.
	missing []bool
	// recorded and the bounds of the workload's replicas are of records; nil and 0
	// otherwise.
	recorded *Recorded
	bounds   [2]int32
	// pools are those of records, none where a machine type is not known here, and boot the
	// median of how long their nodes took, 0 where none was measured.
	pools []scenarios.Pool
	boot  time.Duration
}

// podShape is what kube-state-metrics, or records, tell of a pod, 0 for what it doesn't:
// cores and bytes.
type podShape struct{ cpuRequest, cpuLimit, memoryRequest, memoryLimit float64 }

// HistorySummary is the part of it that is printed.
type HistorySummary struct {
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

func (h cpuHistory) summary() HistorySummary {
	s := HistorySummary{
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
func (o *History) read(ctx context.Context, given func(string) bool, progress io.Writer) (cpuHistory, error) {
	if o.Trace != "" {
		return o.readTrace(given)
	}
	if o.Records != "" {
		return o.readRecords(ctx, given)
	}
	step := o.Step
	if step == 0 {
		step = time.Minute
	}
	now := o.clock().Truncate(step)
	from, to, err := o.stretch(now, step)
	if err != nil {
		return cpuHistory{}, input(err)
	}
	if to.After(now) {
		return cpuHistory{}, inputf("--to %s lies ahead", o.To)
	}
	h, err := o.ask(ctx, from.Add(-time.Duration(o.Warm)*to.Sub(from)), to, step, progress)
	if err != nil {
		return h, err
	}
	return h, o.cut(&h, from, to)
}

// readTrace reads the history from a file.
func (o *History) readTrace(given func(string) bool) (cpuHistory, error) {
	delimiter := strings.ReplaceAll(o.Delimiter, `\t`, "\t")
	if utf8.RuneCountInString(delimiter) != 1 || strings.ContainsAny(delimiter, "\"\r\n\uFFFD") {
		return cpuHistory{}, inputf("--delimiter must be one character, not a quote or a line end, is %q", o.Delimiter)
	}
	mark, _ := utf8.DecodeRuneInString(delimiter)
	got, err := seriesfile.Open(o.Trace, strings.NewReader(""), seriesfile.Options{
		Name: o.Trace, Time: o.Time, Value: o.Value, Step: o.Step, Delimiter: mark, NoHeader: o.NoHeader,
	})
	if err != nil {
		return cpuHistory{}, input(err)
	}
	h := cpuHistory{source: o.Trace, series: got.Series}
	if note := got.Remarks(); note != "" {
		h.notes = append(h.notes, note)
	}
	step := h.series.Step
	if step < 10*time.Second {
		return h, inputf("%s: a sample every %v is more than can be replayed; --step 10s or more averages them", o.Trace, step)
	}
	end := h.series.Start.Add(time.Duration(len(h.series.Values)) * step)
	from, to, err := o.stretch(end, step)
	if err != nil {
		return h, input(err)
	}
	if first := h.series.Start; from.Before(first) {
		if given("from") || !to.After(first) {
			return h, inputf("--from %s is before %s, where %s begins", o.From, first.Format(time.RFC3339), o.Trace)
		}
		from = first.Add((to.Sub(first) % time.Minute))
	}
	if to.After(end) {
		return h, inputf("--to %s is after %s, where %s ends", o.To, end.Format(time.RFC3339), o.Trace)
	}
	return h, o.cut(&h, from, to)
}

// stretch is what --from and --to say, from before to, whole minutes and steps
// apart.
func (o *History) stretch(end time.Time, step time.Duration) (from, to time.Time, err error) {
	if to, err = moment("--to", o.To, end); err != nil {
		return from, to, err
	}
	if from, err = moment("--from", o.From, end); err != nil {
		return from, to, err
	}
	if !from.Before(to) {
		return from, to, fmt.Errorf("--from %s is not before --to %s", o.From, o.To)
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
		return from, to, fmt.Errorf("--from %s to --to %s is %v, too short to tell anything: at least 5m and two steps of %v", o.From, o.To, to.Sub(from), step)
	case whole > most/time.Duration(o.Warm+1):
		return from, to, fmt.Errorf("--from %s to --to %s with --warm-passes %d is longer than %v", o.From, o.To, o.Warm, most)
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

// shortHistory begins the note of a history that has fewer passes than were asked for.
const shortHistory = "there is history "

// cut keeps what the window and its warm-up need, fills gaps and scales.
func (o *History) cut(h *cpuHistory, from, to time.Time) error {
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
		return inputf("%s: nothing is known of the first half of the time from %s to %s", h.source, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	per := int(window / step)
	// A twentieth of the first pass may be missing: a rate begins late.
	h.warm = min(o.Warm, begin/per, max(0, (begin-known+per/20)/per))
	if h.warm < o.Warm {
		h.notes = append(h.notes, fmt.Sprintf(shortHistory+"for %d of %d passes of warm-up", h.warm, o.Warm))
	}
	if h.warm == 0 {
		h.notes = append(h.notes, "nobody has seen any history: the first minutes are a cold start, from the least replicas, for every scaler alike")
	}
	out := make([]float64, 0, (h.warm+1)*per)
	h.missing = make([]bool, 0, cap(out))
	last, gaps := values[known], 0
	for i := known; i <= begin-h.warm*per; i++ {
		if !math.IsNaN(values[i]) {
			last = values[i]
		}
	}
	for i := begin - h.warm*per; i < end; i++ {
		v := values[i]
		h.missing = append(h.missing, math.IsNaN(v))
		if math.IsNaN(v) {
			v = last
			if i >= begin {
				gaps++
			}
		}
		if v < 0 || math.IsInf(v, 0) {
			return inputf("%s: %g at %s is no use of CPU", h.source, v, h.series.Start.Add(time.Duration(i)*step).UTC().Format(time.RFC3339))
		}
		last = v
		out = append(out, v)
	}
	h.gaps = float64(gaps) / float64(per)
	if h.gaps > 0.5 {
		return inputf("%s: %.0f %% of the samples from %s to %s are missing", h.source, 100*h.gaps, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	factor := o.Scale
	if o.PeakCores > 0 {
		highest := 0.0
		for _, v := range out {
			highest = max(highest, v)
		}
		factor = o.PeakCores / highest
	}
	highest := 0.0
	for i := range out {
		out[i] *= factor * o.LoadFactor
		highest = max(highest, out[i])
	}
	if !(highest > 0) || math.IsInf(highest, 0) {
		return inputf("%s: no CPU was used from %s to %s", h.source, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	h.series = api.Series{Start: from.Add(-time.Duration(h.warm) * window), Step: step, Values: out}
	h.from, h.to = from, to
	if h.full != nil {
		h.full = h.full[begin-h.warm*per : end]
	}
	return nil
}

// fullShare of the samples of one pass; 0 where it can't be told.
func (h cpuHistory) fullShare(pass int) float64 { return h.share(h.full, pass) }

// share of the samples of one pass of which something is so; 0 where nobody knows.
func (h cpuHistory) share(so []bool, pass int) float64 {
	if so == nil {
		return 0
	}
	per := len(so) / (h.warm + 1)
	n := 0
	for _, is := range so[pass*per : (pass+1)*per] {
		if is {
			n++
		}
	}
	return float64(n) / float64(per)
}

func (o *History) clock() time.Time {
	if o.now == nil {
		return time.Now()
	}
	return o.now()
}

// patience with one query.
func (o *History) patience() time.Duration { return cmp.Or(o.timeoutOfOneQuery, time.Minute) }
