package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/sensing"
)

// defaultHistory is how much an operator keeps.
const defaultHistory = 48 * time.Hour

// failover of a leader that is killed, to one that waited and knows nothing.
// Durations are in seconds from the kill.
type failover struct {
	HistorySeconds float64 `json:"historySeconds"`
	// FirstCycle is the end of the first cycle that planned every workload.
	FirstCycle float64 `json:"firstCycleSeconds"`
	// Forecast is the end of the first cycle in which nine tenths as many workloads
	// have a forecast as had before: trust comes and goes with the noise. 0: none
	// of so many cycles that it is not worth waiting any longer.
	Forecast float64 `json:"forecastSeconds"`
	// Backfilled is the end of the first cycle with the whole history.
	Backfilled float64 `json:"backfilledSeconds"`
	// Forecasts is how many workloads had one before.
	Forecasts int `json:"forecasts"`
	// Queries that Prometheus answered by then, how long it evaluated them, one
	// after another, and its CPU, scrapes included.
	Queries       int     `json:"queries"`
	QuerySeconds  float64 `json:"querySeconds"`
	PrometheusCPU float64 `json:"prometheusCpuSeconds"`
	// CPU and memory of the new leader by then.
	CPU     float64 `json:"cpuSeconds"`
	RSSPeak float64 `json:"rssPeakMiB"`
	// Held cycles changed nothing; of Workloads so many were held in the last.
	Held      int `json:"heldCycles"`
	Workloads int `json:"heldWorkloads"`
}

// failover kills a leader, and watches the next one until it knows everything.
func (r runner) failover(ctx context.Context, w *world) (failover, error) {
	const patience = 30 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result := failover{HistorySeconds: w.History.Seconds()}
	elected := []string{"--leader-elect=true", "--metrics-bind-address", "0"}
	log, err := os.Create(filepath.Join(w.dir, "failover.log"))
	if err != nil {
		return result, err
	}
	defer log.Close()
	first, second := filepath.Join(w.dir, "first.jsonl"), filepath.Join(w.dir, "second.jsonl")
	old, oldEnded, err := r.start(log, append(w.arguments(first), elected...)...)
	if err != nil {
		return result, err
	}
	const patient = 20 // cycles: what the first leader knows by then is what the next one has to match
	before, err := r.until(ctx, first, old.Process.Pid, oldEnded, func(out []observation) bool {
		last := out[len(out)-1].Cycle
		return len(out) >= patient || knowsAll(last) && forecastsOf(last) == w.size.Workloads
	})
	if err != nil {
		_ = old.Process.Kill()
		return result, fmt.Errorf("the first leader: %w: %s", err, tail(log.Name()))
	}
	forecasts := forecastsOf(before[len(before)-1].Cycle)
	next, ended, err := r.start(log, append(w.arguments(second), elected...)...)
	if err != nil {
		_ = old.Process.Kill()
		return result, err
	}
	if err := pause(ctx, 5*time.Second); err != nil { // for it to stand by
		return result, errors.Join(err, old.Process.Kill(), next.Process.Kill())
	}
	if err := old.Process.Kill(); err != nil {
		return result, err
	}
	killed := time.Now()
	result.Forecasts = forecasts
	begun, err := w.answered(ctx)
	if err != nil {
		return result, errors.Join(err, next.Process.Kill())
	}
	fmt.Fprintf(r.progress, "%s killed the leader, which had forecasts of %d workloads\n", killed.Format(time.TimeOnly), forecasts)
	cycles, err := r.until(ctx, second, next.Process.Pid, ended, func(out []observation) bool {
		c := out[len(out)-1]
		since := c.arrived.Sub(killed).Seconds()
		if result.FirstCycle == 0 && c.Error == "" && len(c.Plan.Workloads) == w.size.Workloads {
			result.FirstCycle = since
		}
		if result.Forecast == 0 && 10*forecastsOf(c.Cycle) >= 9*forecasts {
			result.Forecast = since
		}
		if result.Backfilled == 0 && knowsAll(c.Cycle) {
			result.Backfilled = since
		}
		return result.Backfilled > 0 && result.FirstCycle > 0 && (result.Forecast > 0 || len(out) >= 3*patient)
	})
	if err := errors.Join(err, end(next, ended, log.Name())); err != nil {
		return result, err
	}
	by, err := w.answered(ctx)
	if err != nil {
		return result, err
	}
	result.Queries = int(by["count"] - begun["count"])
	result.QuerySeconds = by["sum"] - begun["sum"]
	result.PrometheusCPU = by["cpu"] - begun["cpu"]
	last := cycles[len(cycles)-1]
	result.CPU, result.RSSPeak = last.cpu.Seconds(), last.memory.peak
	for _, c := range cycles {
		if c.Error != "" {
			result.Held++
		}
	}
	for _, p := range last.Plan.Workloads {
		if p.Held {
			result.Workloads++
		}
	}
	return result, nil
}

// answered is what Prometheus tells of itself: the count of queries it has
// evaluated, the sum of seconds that took, and the seconds of cpu it has used.
func (w *world) answered(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.prometheus.URL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	names := map[string]string{
		`prometheus_engine_query_duration_seconds_count{slice="inner_eval"}`: "count",
		`prometheus_engine_query_duration_seconds_sum{slice="inner_eval"}`:   "sum",
		`process_cpu_seconds_total`:                                          "cpu",
	}
	out := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if as, ok := names[name]; ok {
			if out[as], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, fmt.Errorf("what Prometheus tells, %s: %w", name, err)
			}
		}
	}
	if err := lines.Err(); err != nil || len(out) != len(names) {
		return nil, errors.Join(fmt.Errorf("of itself Prometheus tells %v, want %d figures", out, len(names)), err)
	}
	return out, nil
}

// knowsAll tells whether nothing of history is missing any more.
func knowsAll(c api.Cycle) bool {
	return c.Error == "" && len(c.Plan.Workloads) > 0 &&
		!slices.ContainsFunc(c.Findings, func(f api.Finding) bool { return f.Reason == sensing.ReasonBackfilling })
}

func forecastsOf(c api.Cycle) int {
	n := 0
	for _, p := range c.Plan.Workloads {
		if p.Forecast != nil {
			n++
		}
	}
	return n
}
