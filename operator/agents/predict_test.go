package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// fake is a model.
type fake struct {
	names []string
	says  func(x []float64) (float64, error)
}

func (f fake) Features() []string                   { return f.names }
func (f fake) Predict(x []float64) (float64, error) { return f.says(x) }

// sum of its features.
func sum(names ...string) fake {
	return fake{names, func(x []float64) (float64, error) {
		y := 0.0
		for _, v := range x {
			y += v
		}
		return y, nil
	}}
}

// beside is a Predictor beside a node that the test makes.
type beside struct {
	*Predictor
	t     *testing.T
	clock *testclock.FakeClock
	files fstest.MapFS
	// busy and idle ticks since the start.
	busy, idle int
	reports    []string
}

func newBeside(t *testing.T, interval time.Duration, models map[string]QoSModel) *beside {
	b := &beside{t: t, clock: testclock.NewFakeClock(start), files: proc(someStat, someLoad, someMem, someNet)}
	var err error
	b.Predictor, err = NewPredictor(PredictOptions{
		Node: "edge-1", Models: models, Interval: interval, Proc: &Proc{FS: b.files}, Clock: b.clock,
		Report: func(text string) { b.reports = append(b.reports, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// run n intervals in which so many of its ten CPUs' worth of ticks are busy.
func (b *beside) run(n int, cores float64) {
	for range n {
		b.busy += int(100 * cores)
		b.idle += int(100 * (10 - cores))
		text := fmt.Sprintf("cpu %d 0 0 %d 0 0 0 0 0 0\n", b.busy, b.idle)
		for i := range 10 {
			text += fmt.Sprintf("cpu%d 0 0 0 0 0 0 0 0 0 0\n", i)
		}
		b.files["stat"] = &fstest.MapFile{Data: []byte(text)}
		b.tick(b.t.Context())
		b.clock.Step(b.o.Interval)
	}
}

// says whether a model's answer has this value, or this in why it is missing.
func (b *beside) says(name string, value float64, missing string) {
	b.t.Helper()
	a, ok := b.Answer(name)
	switch {
	case !ok:
		b.t.Errorf("%s is not asked", name)
	case missing != "":
		if a.Value != nil || !strings.Contains(a.Missing, missing) {
			b.t.Errorf("%s: %+v, want it missing: %s", name, a, missing)
		}
	case a.Value == nil || math.Abs(*a.Value-value) > 1e-9 || a.Missing != "":
		b.t.Errorf("%s: %+v, want %g", name, a, value)
	}
}

// TestPredictor: features are those of a minute, as mash2 train makes them, and an answer is
// missing until they are there.
func TestPredictor(t *testing.T) {
	b := newBeside(t, time.Second, map[string]QoSModel{
		"last": sum(NodeCPU + "_last"), "plain": sum(NodeCPU), "mean": sum(NodeCPU + "_mean"), "memory": sum(NodeMem+"_mean", NodeMemFree),
		"far": sum(NodeCPU, NodeReceive+"_mean", "moon_phase_last"),
	})
	b.says("mean", 0, "nothing was read yet")
	b.run(1, 2)
	b.says("last", 0, "node_cpu_usage_last: it has no reading yet")
	b.run(1, 2)
	b.says("last", 2, "")
	b.says("plain", 2, "")
	b.says("mean", 0, "node_cpu_usage_mean: 1 of the 45 readings")
	b.says("far", 0, "node_network_receive_mean: no network interface is set; moon_phase_last: it is not measured on the node")
	b.run(43, 2)
	b.says("mean", 0, "44 of the 45 readings")
	b.run(1, 8)
	b.says("mean", (44*2+8)/45.0, "")
	b.says("last", 8, "")
	b.says("memory", 1024<<10, "")
	// Sixty readings are a minute: what is older does not count.
	b.run(60, 4)
	b.says("mean", 4, "")
	if _, ok := b.Answer("other"); ok {
		t.Error("a model that is not asked answers")
	}
	a, _ := b.Answer("mean")
	if want := b.clock.Now().Add(-time.Second); !a.At.Equal(want) {
		t.Errorf("it is of %v, the last reading of %v", a.At, want)
	}
}

// TestStaleAnswer: one that is older than three intervals is not served, whether the loop stands
// still, the files can't be read or the wall clock jumps.
func TestStaleAnswer(t *testing.T) {
	b := newBeside(t, 2*time.Second, map[string]QoSModel{"m": sum(NodeCPU)})
	b.run(3, 3)
	b.clock.Step(4 * time.Second) // six since the reading
	b.says("m", 3, "")
	b.clock.Step(time.Millisecond)
	b.says("m", 0, "older than 6s")
	if text := b.metrics(); strings.Contains(text, "mash2_node_prediction{") {
		t.Errorf("it is in the metrics:\n%s", text)
	}
	b.run(2, 3)
	b.says("m", 3, "")
	delete(b.files, "stat")
	for range 2 {
		b.tick(t.Context())
		b.clock.Step(2 * time.Second)
	}
	b.says("m", 3, "") // of the last reading, six seconds ago
	b.tick(t.Context())
	b.clock.Step(time.Second)
	b.says("m", 0, "older than")
	b.clock.Step(time.Second)
	b.tick(t.Context())
	b.says("m", 0, "node_cpu_usage: its last reading is too old")
	b.clock.Step(time.Hour)
	b.tick(t.Context())
	b.says("m", 0, "it has no reading yet, or can't be read")
	if len(b.reports) == 0 || !strings.Contains(strings.Join(b.reports, "\n"), "stat") {
		t.Errorf("the log does not say which file: %q", b.reports)
	}
}

// TestNoNumber: a model that says NaN or Inf, fails or panics has no value, and no word of what
// it was given leaves the node.
func TestNoNumber(t *testing.T) {
	say := func(y float64, err error) fake {
		return fake{[]string{NodeCPU}, func([]float64) (float64, error) { return y, err }}
	}
	models := map[string]QoSModel{
		"nan": say(math.NaN(), nil), "inf": say(math.Inf(1), nil), "below": say(math.Inf(-1), nil),
		"fails":  fake{[]string{NodeCPU}, func(x []float64) (float64, error) { return 0, fmt.Errorf("can't take %g", x[0]) }},
		"panics": fake{[]string{NodeCPU}, func(x []float64) (float64, error) { return x[5], nil }},
		"fine":   sum(NodeCPU),
	}
	b := newBeside(t, time.Second, models)
	b.run(2, 3)
	for name := range models {
		if name != "fine" {
			b.says(name, 0, "no finite number")
		}
	}
	b.says("fine", 3, "")
	text := b.metrics()
	for _, never := range []string{"NaN", "Inf", "can't take", "out of range"} {
		if strings.Contains(text, never) {
			t.Errorf("%s is in\n%s", never, text)
		}
	}
	if !strings.Contains(text, `mash2_node_prediction_missing_total{node="edge-1",model="panics",reason="model"} 1`) ||
		!strings.Contains(text, `mash2_node_prediction{node="edge-1",model="fine"} 3`) || !strings.Contains(text, `mash2_node_prediction_timestamp_seconds{node="edge-1",model="fine"} 17778`) {
		t.Errorf("%s", text)
	}
}

// TestPredictOptions: what is not set is refused by name.
func TestPredictOptions(t *testing.T) {
	good := PredictOptions{Node: "n", Models: map[string]QoSModel{"m": sum("a")}, Interval: time.Second, Proc: &Proc{}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*PredictOptions){
		"node":     func(o *PredictOptions) { o.Node = "" },
		"models":   func(o *PredictOptions) { o.Models = nil },
		"interval": func(o *PredictOptions) { o.Interval = time.Minute },
		"proc":     func(o *PredictOptions) { o.Proc = nil },
	} {
		o := good
		change(&o)
		if _, err := NewPredictor(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// wire is a listener that keeps every byte which is written to its connections.
type wire struct {
	net.Listener
	mu   sync.Mutex
	sent bytes.Buffer
}

func (w *wire) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tapped{c, w}, nil
}

type tapped struct {
	net.Conn
	wire *wire
}

func (c *tapped) Write(b []byte) (int, error) {
	c.wire.mu.Lock()
	c.wire.sent.Write(b)
	c.wire.mu.Unlock()
	return c.Conn.Write(b)
}

// qosNames are the features of a model that mash2 train --environment qos made.
var qosNames = []string{
	"node_cpu_usage_mean", "node_cpu_usage_last", "node_mem_usage_mean", "node_mem_usage_last",
	"pipelines_server_cpu_usage_mean", "pipelines_server_cpu_usage_last", "pipelines_server_mem_usage_mean", "pipelines_server_mem_usage_last",
}

// TestOnlyTheAnswerLeaves: of all bytes that a node sends, whatever it is asked, none is of its
// metrics. It says how many bytes an answer has, and how many the figures it is from would have.
func TestOnlyTheAnswerLeaves(t *testing.T) {
	b := newBeside(t, time.Second, map[string]QoSModel{
		"qos":     fake{qosNames, func([]float64) (float64, error) { return 0.0712, nil }},
		"blind":   sum("moon_phase"),
		"talking": fake{[]string{NodeCPU}, func(x []float64) (float64, error) { return 0, fmt.Errorf("%v of %w", x, errTotal) }},
	})
	b.files["meminfo"] = &fstest.MapFile{Data: []byte("MemTotal: 73918467 kB\nMemAvailable: 31415926 kB\n")}
	b.files["loadavg"] = &fstest.MapFile{Data: []byte("27.18 28.18 28.45 99/1234 56789\n")}
	cpu := 0
	b.o.Application = &Application{Name: "pipelines_server", Pods: func(context.Context) ([]string, error) { return []string{"a"}, nil }, Cgroups: &Cgroups{FS: b.files}}
	for range 60 {
		cpu += 876543
		b.files["kubepods/poda/cpu.stat"] = &fstest.MapFile{Data: fmt.Appendf(nil, "usage_usec %d\n", cpu)}
		b.files["kubepods/poda/memory.current"] = &fstest.MapFile{Data: []byte("806178816\n")}
		b.files["kubepods/poda/memory.stat"] = &fstest.MapFile{Data: []byte("inactive_file 1234567\nactive_file 0\n")}
		b.run(1, 5.67)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: listener}
	server := &http.Server{Handler: b.Handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(w) }()
	t.Cleanup(func() { _ = server.Close() })
	ask := func(method, path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+path, strings.NewReader("tell me all"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(bufio.NewReader(answer.Body))
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	status, answer := ask("GET", PredictionPath+"qos")
	want := `{"node":"edge-1","model":"qos","value":0.0712,"at":"2026-05-04T12:00:59Z"}` + "\n"
	if status != http.StatusOK || answer != want {
		t.Errorf("%d %s want %s", status, answer, want)
	}
	if status, text := ask("GET", PredictionPath+"blind"); status != http.StatusServiceUnavailable || text != `{"node":"edge-1","model":"blind","missing":"moon_phase: it is not measured on the node"}`+"\n" {
		t.Errorf("%d %s", status, text)
	}
	for path, want := range map[string]int{PredictionPath + "talking": 503, PredictionPath + "x": 404, PredictionPath: 404, "/metrics": 200, "/healthz": 200, "/": 404, "/proc/stat": 404, "/debug/pprof/": 404, PredictionPath + "..%2f..%2fproc": 404} {
		if status, text := ask("GET", path); status != want {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
		if status, _ := ask("POST", path); status < 400 {
			t.Errorf("POST %s: %d", path, status)
		}
	}
	// What the node measured, in any of the ways that it could be written.
	w.mu.Lock()
	sent := w.sent.String()
	w.mu.Unlock()
	raw := []string{"0.567", "5.67", "73918467", "31415926", "75692510208", "42502541", "27.18", "28.18", "28.45", "99/1234", "806178816", "804944249", "0.876543", "876543"}
	figures := map[string]float64{}
	for _, name := range qosNames {
		v, gap := b.window.feature(name, b.clock.Now())
		if gap != nil {
			t.Fatal(gap)
		}
		figures[name] = v.value
		raw = append(raw, fmt.Sprintf("%g", v.value), fmt.Sprintf("%.3f", v.value))
	}
	for _, text := range raw {
		// As a number of its own: "12." may be in a time.
		if regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(text)).MatchString(sent) {
			t.Errorf("%q left the node", text)
		}
	}
	features, err := json.Marshal(map[string]any{"node": "edge-1", "at": start, "features": figures})
	if err != nil {
		t.Fatal(err)
	}
	series := map[string][]float64{}
	for _, name := range qosNames {
		for _, p := range b.window.points[metric(name)] {
			series[metric(name)] = append(series[metric(name)], p.value)
		}
	}
	minute, err := json.Marshal(map[string]any{"node": "edge-1", "at": start, "series": series})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("an answer has %d bytes, its eight features %d (%.1f times as many), the minute of readings they are from %d (%.1f times)",
		len(answer), len(features), float64(len(features))/float64(len(answer)), len(minute), float64(len(minute))/float64(len(answer)))
	if len(features) <= 2*len(answer) || len(minute) < 10*len(answer) {
		t.Error("there is little that is saved")
	}
}

// errTotal is an error with a figure of the node's in it.
var errTotal = errors.New("73918467")

// TestPredictorRuns: by its own clock, while others ask.
func TestPredictorRuns(t *testing.T) {
	b := newBeside(t, time.Second, map[string]QoSModel{"m": sum(NodeLoad1)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 100 {
				b.clock.Step(100 * time.Millisecond)
				b.Answer("m")
				b.metrics()
			}
		})
	}
	wait.Wait()
	for range 1000 {
		if a, _ := b.Answer("m"); a.Value != nil {
			break
		}
		b.clock.Step(time.Second)
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if a, ok := b.answers["m"]; !ok || a.Value == nil || *a.Value != 1.25 {
		t.Errorf("%+v", a)
	}
}
