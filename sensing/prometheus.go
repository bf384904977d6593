package sensing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// errNull is an answer whose series are not all there.
var errNull = &promv1.Error{Type: promv1.ErrBadResponse, Msg: "the answer has a series that is null"}

// errPanicked is an answer that breaks its reader.
var errPanicked = errors.New("panicked")

// errTooLarge is an answer beyond Config.MaxResponseBytes.
var errTooLarge = errors.New("the answer is larger than allowed")

// prometheus asks for CPU usage over ranges.
type prometheus struct {
	api  promv1.API
	cfg  Config
	grid demand.Grid
	// means: samples are means over RateWindow, of recorded series as well.
	means bool
}

// coarse asks for means over longer steps.
func (p *prometheus) coarse(step time.Duration) *prometheus {
	out := *p
	out.cfg.Step, out.cfg.RateWindow, out.grid, out.means = step, step, demand.Grid{Step: step}, true
	return &out
}

func newPrometheus(cfg Config) (*prometheus, error) {
	transport := cfg.PrometheusTransport
	if transport == nil {
		transport = promapi.DefaultRoundTripper
	}
	client, err := promapi.NewClient(promapi.Config{
		Address:      cfg.PrometheusURL,
		RoundTripper: readingTransport{limitedTransport{transport, cfg.MaxResponseBytes}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the Prometheus client: %w", err)
	}
	return &prometheus{api: promv1.NewAPI(client), cfg: cfg, grid: demand.Grid{Step: cfg.Step}}, nil
}

// limitedTransport makes a body that is too large an error while it is read.
type limitedTransport struct {
	http.RoundTripper
	limit int64
}

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &limitedBody{resp.Body, t.limit}
	return resp, nil
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// Exactly the limit is still allowed: only a further byte is not.
		var one [1]byte
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// selector of the metric: containers only (the pod's own cgroup and the pause
// container are left out, they would count twice), whole CPUs only, and the
// namespaces of interest while they are few enough to name.
func (p *prometheus) selector(namespaces []string, more ...string) string {
	matchers := []string{`container!=""`, `container!="POD"`, `cpu=~"total|"`}
	if p.cfg.Matchers != "" {
		matchers = append(matchers, p.cfg.Matchers)
	}
	return p.cfg.CPUMetric + "{" + strings.Join(append(append(matchers, within(namespaces)...), more...), ",") + "}"
}

// within is the matcher of some namespaces while they are few enough to name.
func within(namespaces []string) []string {
	const most = 200
	n := len(namespaces)
	if n == 0 || n > most {
		return nil
	}
	quoted := make([]string, n)
	for i, ns := range namespaces {
		quoted[i] = regexp.QuoteMeta(ns)
	}
	return []string{fmt.Sprintf("namespace=~%q", strings.Join(quoted, "|"))}
}

// usage is cores used per container. The maximum over whatever else tells
// series apart (two scrapers, a container's id or image) counts each once.
func (p *prometheus) usage(namespaces []string, more ...string) string {
	return fmt.Sprintf("max by (namespace, pod, container, %s) (rate(%s[%s]))",
		p.cfg.NodeLabel, p.selector(namespaces, more...), model.Duration(p.cfg.RateWindow))
}

// newestQuery is cores per pod and node, of the pods that a matcher leaves.
func (p *prometheus) newestQuery(namespaces []string, pods ...string) string {
	return fmt.Sprintf("sum by (namespace, pod, %s) (%s)", p.cfg.NodeLabel, p.usage(namespaces, pods...))
}

// Labels that historyQuery makes.
const (
	labelOwner = "mash2_owner" // kind/name
	labelNodes = "mash2_nodes" // a node, or a GKE instance group
)

// Forms of pod names. The letters are those Kubernetes makes suffixes from;
// the hash of a ReplicaSet is shorter than six of them once in 4,000 times. A
// Deployment with a name longer than 46 letters has pods with another form:
// its history begins when it is first seen.
const (
	podOfDeployment  = `(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}`
	podOfStatefulSet = `(.+)-[0-9]+`
	nodeOfGKE        = `(gke-.+-[0-9a-f]{8})-[a-z0-9]{4}`
)

// historyQuery is cores per workload and node, or group of alike nodes, with
// the workload guessed from the pod's name: pods and nodes of the past are
// many, and most of them are gone.
func (p *prometheus) historyQuery(namespaces []string) string {
	q := p.usage(namespaces)
	relabel := func(to, from, value, pattern string) {
		q = fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", q, to, value, from, pattern)
	}
	relabel(labelOwner, "pod", kindStatefulSet+"/$1", podOfStatefulSet)
	relabel(labelOwner, "pod", kindDeployment+"/$1", podOfDeployment)
	relabel(labelNodes, p.cfg.NodeLabel, "$1", "(.*)")
	relabel(labelNodes, p.cfg.NodeLabel, "$1", nodeOfGKE)
	return fmt.Sprintf("sum by (namespace, %s, %s) (%s)", labelOwner, labelNodes, q)
}

// recorded tells whether history may be recorded.
func (p *prometheus) recorded() bool { return p.cfg.RecordedUsage != "" && p.cfg.Matchers == "" }

// recordedQuery is the same by recorded series, which know the pods' owners
// instead of guessing them. The maximum counts two recorders once. A workload that
// was on some nodes for a part of a window only is told there by so many samples
// less: a mean is the sum over as many as it has on any.
func (p *prometheus) recordedQuery(namespaces []string) string {
	matchers := append([]string{labelOwner + `!=""`}, within(namespaces)...)
	if p.means {
		window := fmt.Sprintf("%s{%s}[%s]", p.cfg.RecordedUsage, strings.Join(matchers, ","), model.Duration(p.cfg.RateWindow))
		return fmt.Sprintf("max by (namespace, %s, %s) (sum_over_time(%s)) / on (namespace, %s) group_left () max by (namespace, %s) (count_over_time(%s))",
			labelOwner, labelNodes, window, labelOwner, labelOwner, window)
	}
	return fmt.Sprintf("max by (namespace, %s, %s) (%s{%s})",
		labelOwner, labelNodes, p.cfg.RecordedUsage, strings.Join(matchers, ","))
}

var (
	deploymentPod  = regexp.MustCompile("^" + podOfDeployment + "$")
	statefulSetPod = regexp.MustCompile("^" + podOfStatefulSet + "$")
)

// ownerByName guesses the target from a pod's name, as historyQuery does.
func ownerByName(namespace, pod string) (targetID, bool) {
	if m := deploymentPod.FindStringSubmatch(pod); m != nil {
		return targetID{namespace, kindDeployment, m[1]}, true
	}
	if m := statefulSetPod.FindStringSubmatch(pod); m != nil {
		return targetID{namespace, kindStatefulSet, m[1]}, true
	}
	return targetID{}, false
}

// answer of a range query.
type answer struct {
	series   model.Matrix
	warnings []string
}

// queryRange asks for the steps [from, to].
func (p *prometheus) queryRange(ctx context.Context, query string, from, to int64, timeout time.Duration) (answer, error) {
	return p.queryEvery(ctx, query, from, to, 1, timeout)
}

// queryEvery asks for every stride-th of the steps [from, to], from the first.
func (p *prometheus) queryEvery(ctx context.Context, query string, from, to, stride int64, timeout time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	value, warnings, err := p.api.QueryRange(ctx, query,
		promv1.Range{Start: p.grid.Time(from), End: p.grid.Time(to), Step: time.Duration(stride) * p.grid.Step},
		promv1.WithTimeout(timeout))
	slices.Sort(warnings)
	if err != nil {
		return answer{warnings: warnings}, fmt.Errorf("asking Prometheus for %d steps until %s: %w%s",
			to-from+1, p.grid.Time(to).Format(time.RFC3339), err, detail(err))
	}
	matrix, ok := value.(model.Matrix)
	switch {
	case !ok:
		return answer{}, fmt.Errorf("asking Prometheus: the answer is a %T, not a matrix", value)
	case slices.Contains(matrix, nil):
		return answer{}, errNull
	}
	return answer{matrix, warnings}, nil
}

// instant asks for what a query gives at a time.
func (p *prometheus) instant(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	value, warnings, err := p.api.Query(ctx, query, at, promv1.WithTimeout(p.cfg.QueryTimeout))
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w%s", err, detail(err))
	}
	if why := partial(warnings); why != "" {
		return nil, errors.New(why)
	}
	switch value := value.(type) {
	case model.Vector:
		if slices.Contains(value, nil) {
			return nil, errNull
		}
		return value, nil
	case *model.Scalar:
		return model.Vector{{Value: value.Value, Timestamp: value.Timestamp}}, nil
	}
	return nil, fmt.Errorf("asking Prometheus: the answer is a %T, not a vector", value)
}

// guarded reads what others answered, beside the cycle: what breaks its reader is no answer, and
// not the end of the process.
func (c Config) guarded(what string, of api.Key, read func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		err = fmt.Errorf("reading it %w: %v", errPanicked, value)
		if c.Panicked != nil {
			c.Panicked(what, of, value, debug.Stack())
		}
	}()
	return read()
}

// partial tells whether an answer is only of what could be reached, as Thanos answers while a store is
// away: a sum of it is too small, and a count of what is bad, too. What Prometheus says of the
// query itself is no reason.
func partial(warnings []string) string {
	for _, w := range warnings {
		if !strings.HasPrefix(w, "PromQL ") {
			return "the answer may be of a part only: " + cut(w)
		}
	}
	return ""
}

// detail is the beginning of what Prometheus, or a proxy before it, has said
// with an error status.
func detail(err error) string {
	var e *promv1.Error
	if !errors.As(err, &e) || e.Detail == "" {
		return ""
	}
	return ": " + cut(e.Detail)
}

// cut is the beginning of what others said, in one line.
func cut(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// samples calls yield with the step and value of each sample within [from, to]
// that lies on the grid; others are no answer to what was asked.
func (p *prometheus) samples(values []model.SamplePair, from, to int64, yield func(step int64, v float64)) {
	for _, s := range values {
		at := s.Timestamp.Time()
		step := p.grid.At(at.Add(time.Millisecond))
		if step < from || step > to || at.Sub(p.grid.Time(step)).Abs() > time.Millisecond {
			continue
		}
		yield(step, float64(s.Value))
	}
}

// failure says what a failed query means for the part of history it asked for.
type failure int

const (
	// unreachable: nothing is known about the part asked for.
	unreachable failure = iota
	// refused: this part failed; another may not.
	refused
	// tooMuch: a smaller part may succeed.
	tooMuch
)

func classify(err error) failure {
	if errors.Is(err, errTooLarge) || errors.Is(err, context.DeadlineExceeded) {
		return tooMuch
	}
	if errors.Is(err, errPanicked) {
		return refused
	}
	var e *promv1.Error
	if !errors.As(err, &e) {
		return unreachable
	}
	switch e.Type {
	case promv1.ErrTimeout, promv1.ErrExec:
		return tooMuch
	case promv1.ErrServer, promv1.ErrBadResponse, promv1.ErrBadData:
		// A query that took too long comes with status 503, which the client
		// doesn't look into.
		if strings.Contains(e.Detail, `"errorType":"timeout"`) {
			return tooMuch
		}
		return refused
	}
	return unreachable
}
