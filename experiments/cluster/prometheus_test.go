package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestPrometheusScrapesAndComesBackAfterAKill(t *testing.T) {
	var scrapes atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/cadvisor" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, "scrapes_total{job=\"own\"} %d\n", scrapes.Add(1))
	}))
	t.Cleanup(target.Close)

	p := startPrometheus(t, PrometheusOptions{
		ScrapeInterval: 200 * time.Millisecond,
		LookbackDelta:  10 * time.Second,
		Jobs: []ScrapeJob{{
			Name:        "load",
			Targets:     []string{strings.TrimPrefix(target.URL, "http://")},
			MetricsPath: "/cadvisor",
			HonorLabels: true,
		}},
	})
	scraped := func(ctx context.Context) bool { return query(ctx, t, p, `scrapes_total{job="own"}`) > 0 }
	eventually(t, "a scraped sample", scraped)

	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get(p.URL + "/-/ready"); err == nil {
		_ = resp.Body.Close()
		t.Error("a killed Prometheus answers")
	}
	before := scrapes.Load()
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(t.Context()); err == nil {
		t.Error("a running Prometheus was started again")
	}
	eventually(t, "samples after the restart", func(ctx context.Context) bool {
		return query(ctx, t, p, `scrapes_total{job="own"}`) > float64(before)
	})
}

func TestPrometheusKnowsTheHistoryItWasGiven(t *testing.T) {
	start := time.Now().Add(-26 * time.Hour).Truncate(time.Minute)
	var history strings.Builder
	history.WriteString("# TYPE requests counter\n")
	for i := range 25 * 60 {
		fmt.Fprintf(&history, "requests_total{pod=\"web\"} %d %d\n", i*60, start.Add(time.Duration(i)*time.Minute).Unix())
	}
	history.WriteString("# EOF\n")

	p := startPrometheus(t, PrometheusOptions{History: strings.NewReader(history.String())})
	at := start.Add(24 * time.Hour)
	got := query(t.Context(), t, p, fmt.Sprintf(`rate(requests_total[10m] @ %d)`, at.Unix()))
	if got < 0.99 || got > 1.01 { // 60 more each minute
		t.Errorf("rate 24 h into the history = %v, want 1", got)
	}
}

func TestPrometheusOptionsAreChecked(t *testing.T) {
	for name, options := range map[string]PrometheusOptions{
		"a job without targets":    {Jobs: []ScrapeJob{{Name: "x"}}},
		"a job without a name":     {Jobs: []ScrapeJob{{Targets: []string{"127.0.0.1:1"}}}},
		"a negative interval":      {ScrapeInterval: -time.Second},
		"a negative job interval":  {Jobs: []ScrapeJob{{Name: "x", Targets: []string{"a:1"}, Interval: -1}}},
		"history that isn't any":   {History: strings.NewReader("not openmetrics\n")},
		"a program that isn't one": {Binary: "/does/not/exist"},
		"a target that isn't one":  {Jobs: []ScrapeJob{{Name: "x", Targets: []string{"http://a/b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := StartPrometheus(t.Context(), options)
			if err == nil {
				t.Error("started")
				_ = p.Stop()
			}
		})
	}
}

func startPrometheus(t *testing.T, o PrometheusOptions) *Prometheus {
	t.Helper()
	p, err := StartPrometheus(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log := lastLines(filepath.Join(p.Dir, "prometheus.log"), 20)
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log)
		}
	})
	return p
}

// query returns the value of the only series, or -1 if there isn't exactly one.
func query(ctx context.Context, t *testing.T, p *Prometheus, promql string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/query?query="+url.QueryEscape(promql), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Data.Result) != 1 {
		return -1
	}
	var value float64
	if _, err := fmt.Sscan(fmt.Sprint(answer.Data.Result[0].Value[1]), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
