package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// sample is what there was at one moment.
type sample struct {
	Seconds float64           `json:"seconds"` // since the load began
	Of      map[string]series `json:"of"`      // by scaler
}

// series are the figures of one scaler's workload.
type series struct {
	Users    int   `json:"users"` // k6's own count
	Replicas int32 `json:"replicas"`
	Ready    int32 `json:"ready"`
	// Cores is the CPU time that the pods' cgroups used since the last sample,
	// over that time; Quota the sum of their limits.
	Cores float64 `json:"cores"`
	Quota float64 `json:"quota"`
	// Resized is how many pods' limits have changed since the last sample.
	Resized int `json:"resized"`
	// Throttled and Periods count the pods' scheduling periods since the last
	// sample in which they ran, and those where they used up their quota.
	Throttled int64 `json:"throttled"`
	Periods   int64 `json:"periods"`
}

// pass is one run of k6 against one scaler's workload.
type pass struct {
	Scaler  string    `json:"scaler"`
	Pass    int       `json:"pass"`
	Begin   float64   `json:"begin"` // seconds since the load began
	End     float64   `json:"end"`
	Summary k6Summary `json:"k6"`
	SLOMet  bool      `json:"sloMet"` // k6's thresholds, over the whole pass
}

// k6Summary is what k6 itself says at its end; latencies in milliseconds.
type k6Summary struct {
	Requests    float64 `json:"requests"`
	FailedRatio float64 `json:"failedRatio"`
	Mean        float64 `json:"meanMs"`
	Median      float64 `json:"medianMs"`
	P95         float64 `json:"p95Ms"`
	P99         float64 `json:"p99Ms"`
	Max         float64 `json:"maxMs"`
}

// load runs k6 against both workloads, pass after pass, and samples meanwhile.
func (n *realNode) load(ctx context.Context, o options, s scenarios.Scenario, proxies map[string]*proxy, r *result, say func(string, ...any)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now()
	r.Began = begin.UTC()
	consoles := map[string]string{}
	for _, scaler := range o.scalers() {
		port, err := freePort()
		if err != nil {
			return err
		}
		consoles[scaler] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	length := time.Duration(float64(s.PassDuration()) * o.TimeScale)
	say("k6: %d passes of %v, %g of %s's users on each workload at once", o.Passes, length, o.Scale, scenario)
	var wait sync.WaitGroup
	var mu sync.Mutex
	for _, scaler := range o.scalers() {
		wait.Go(func() {
			for i := range o.Passes {
				p := pass{Scaler: scaler, Pass: i + 1, Begin: time.Since(begin).Seconds()}
				var err error
				if p.Summary, p.SLOMet, err = runK6(ctx, o, p, proxies[scaler].URL, consoles[scaler]); err != nil {
					cancel(err)
					return
				}
				p.End = time.Since(begin).Seconds()
				mu.Lock()
				r.Passes = append(r.Passes, p)
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	watch := sampler{node: n, scalers: o.scalers(), consoles: consoles, last: map[types.UID]podCgroup{}, at: begin}
	// A cgroup's time is read often enough that little is lost of a pod that goes.
	const every, told = 2 * time.Second, 30 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	var next time.Duration
	for {
		select {
		case <-done:
			return context.Cause(ctx)
		case <-tick.C:
			if err := ended(n.daemons); err != nil {
				return err
			}
			is, err := watch.sample(ctx)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			is.Seconds = watch.at.Sub(begin).Seconds()
			r.Samples = append(r.Samples, is)
			if since := time.Since(begin); since >= next {
				next += told
				say("%4.0f s  %3d users each%s", is.Seconds, is.Of[mash2].Users, is.text(o.scalers()))
			}
		}
	}
}

// text says how each scaler's workload is.
func (s sample) text(scalers []string) string {
	var b strings.Builder
	for _, scaler := range scalers {
		of := s.Of[scaler]
		fmt.Fprintf(&b, "   %s %2d replicas %2d ready, %.2f of %.2f cores", scaler, of.Replicas, of.Ready, of.Cores, of.Quota)
	}
	return b.String()
}

// runK6 runs one pass. Everything of it is on loopback.
func runK6(ctx context.Context, o options, p pass, target, console string) (summary k6Summary, met bool, err error) {
	name := fmt.Sprintf("k6-%s-%d", p.Scaler, p.Pass)
	exported := filepath.Join(o.Work, name+".json")
	log, err := os.Create(filepath.Join(o.Out, name+".txt"))
	if err != nil {
		return summary, false, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, o.K6, "run", "--quiet", "--no-usage-report", "--address", console, "--summary-export", exported,
		"-e", "TARGET="+target, "-e", "VU_SCALE="+strconv.FormatFloat(o.Scale, 'g', -1, 64),
		"-e", "TIME_SCALE="+strconv.FormatFloat(o.TimeScale, 'g', -1, 64),
		filepath.Join("experiments", "k6", scenario+".js"))
	cmd.Stdout, cmd.Stderr = log, log
	// k6 says by 99 that a threshold was crossed.
	const crossed = 99
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != crossed) {
		return summary, false, fmt.Errorf("k6: %w; see %s", err, log.Name())
	}
	data, err := os.ReadFile(exported)
	if err != nil {
		return summary, false, err
	}
	summary, err = parseSummary(data)
	return summary, exit == nil, err
}

// parseSummary reads what k6 run --summary-export writes.
func parseSummary(data []byte) (k6Summary, error) {
	var all struct {
		Metrics map[string]map[string]any `json:"metrics"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return k6Summary{}, fmt.Errorf("k6's summary: %w", err)
	}
	var errs []error
	number := func(metric, field string) float64 {
		v, ok := all.Metrics[metric][field].(float64)
		if !ok {
			errs = append(errs, fmt.Errorf("k6's summary has no %s of %s", field, metric))
		}
		return v
	}
	const duration = "http_req_duration"
	s := k6Summary{
		Requests: number("http_reqs", "count"), FailedRatio: number("http_req_failed", "value"),
		Mean: number(duration, "avg"), Median: number(duration, "med"),
		P95: number(duration, "p(95)"), P99: number(duration, "p(99)"), Max: number(duration, "max"),
	}
	return s, errors.Join(errs...)
}

// sampler reads cgroups, the API and k6.
type sampler struct {
	node     *realNode
	scalers  []string
	consoles map[string]string
	last     map[types.UID]podCgroup
	at       time.Time
}

func (w *sampler) sample(ctx context.Context) (sample, error) {
	now := time.Now()
	elapsed := now.Sub(w.at)
	w.at = now
	s := sample{Of: map[string]series{}}
	for _, scaler := range w.scalers {
		d, err := w.node.client.AppsV1().Deployments(scaler).Get(ctx, workload, metav1.GetOptions{})
		if err != nil {
			return s, err
		}
		one := series{Replicas: *d.Spec.Replicas, Ready: d.Status.ReadyReplicas, Users: users(ctx, w.consoles[scaler])}
		pods, err := w.node.client.CoreV1().Pods(scaler).List(ctx, metav1.ListOptions{LabelSelector: "app=" + workload})
		if err != nil {
			return s, err
		}
		var used time.Duration
		for _, p := range pods.Items {
			is, err := readPod(cgroupRoot, p.UID)
			if errors.Is(err, os.ErrNotExist) {
				continue // not begun, or gone
			}
			if err != nil {
				return s, err
			}
			was := w.last[p.UID]
			w.last[p.UID] = is
			if was.cores() > 0 && was.cores() != is.cores() {
				one.Resized++
			}
			used += is.Used - was.Used
			one.Throttled += max(0, is.Throttled-was.Throttled)
			one.Periods += max(0, is.Periods-was.Periods)
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				one.Quota += is.cores()
			}
		}
		one.Cores = used.Seconds() / elapsed.Seconds()
		s.Of[scaler] = one
	}
	return s, nil
}

// users is what k6 says of itself; 0 between two passes.
func users(ctx context.Context, console string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+console+"/v1/status", nil)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var status struct {
		Data struct {
			Attributes struct {
				VUs int `json:"vus"`
			} `json:"attributes"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return 0
	}
	return status.Data.Attributes.VUs
}
