package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLatencies: k6's records as k6 v1 writes them.
func TestLatencies(t *testing.T) {
	const head = "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,service,status,subproto,tls_version,url,extra_tags,metadata\n"
	row := func(metric, at, value, scenario, status string) string {
		return strings.Join([]string{metric, at, value, "", "", "", "true", "", "GET", "u", "HTTP/1.1", scenario, "", status, "", "", "u", "", ""}, ",") + "\n"
	}
	begin := time.Unix(1000, 0)
	got, err := latencies(strings.NewReader(head+
		row("http_reqs", "1001", "1", "pod0", "200")+
		row("http_req_duration", "1001", "5.5", "pod0", "200")+
		row("http_req_duration", "1002", "7.5", "pod0", "200")+
		row("http_req_duration", "1003", "40", "pod1", "502")+
		row("http_req_duration", "1011", "9", "pod0", "0")), begin, []string{"web", "db"})
	if err != nil {
		t.Fatal(err)
	}
	want := []latency{
		{Workload: "db", Seconds: 5, Requests: 1, Failed: 1, P95: 40},
		{Workload: "web", Seconds: 5, Requests: 2, P95: 7.5},
		{Workload: "web", Seconds: 15, Requests: 1, Failed: 1, P95: 9},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for name, text := range map[string]string{
		"no head":          "",
		"another head":     "metric,time\n",
		"no time":          head + row("http_req_duration", "now", "5", "pod0", "200"),
		"no value":         head + row("http_req_duration", "1001", "", "pod0", "200"),
		"nobody's request": head + row("http_req_duration", "1001", "5", "pod7", "200"),
		"a default one":    head + row("http_req_duration", "1001", "5", "default", "200"),
	} {
		if _, err := latencies(strings.NewReader(text), begin, []string{"web", "db"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestSizedHistory: what Prometheus is given reaches to now, for each replica of each workload.
func TestSizedHistory(t *testing.T) {
	text := sizedHistory(time.Now())
	for _, g := range guesses() {
		rows := strings.Count(text, `namespace="sized",pod="`+g.Name+"-")
		if want := 3 * int(g.Replicas) * int(sizedPast/pastStep); rows != want {
			t.Errorf("%s has %d samples, want %d", g.Name, rows, want)
		}
	}
	if !strings.HasSuffix(text, "# EOF\n") {
		t.Error("it has no end")
	}
}
