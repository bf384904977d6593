package sensing

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/cluster"
)

// counter writes the samples of one series in OpenMetrics' text format: a
// container that uses cores(t) and starts again from zero at every reset.
func counter(w *strings.Builder, labels string, from, to time.Time, every time.Duration, cores float64, resets ...time.Time) {
	var value float64
	for at := from; !at.After(to); at = at.Add(every) {
		for _, r := range resets {
			if at.Equal(r) {
				value = cores * every.Seconds() // started again right after the last sample
			}
		}
		fmt.Fprintf(w, "container_cpu_usage_seconds_total{%s} %v %d\n", labels, value, at.Unix())
		value += cores * every.Seconds()
	}
}

// A real Prometheus with the series a real cAdvisor has: both queries give what
// the pods used, each container once, in reference millicores.
func TestQueriesAgainstPrometheus(t *testing.T) {
	end := time.Now().Add(-3 * time.Hour).Truncate(time.Minute)
	start := end.Add(-2 * time.Hour)
	const every = 15 * time.Second
	pod := func(name, node, container string) string {
		return fmt.Sprintf(`namespace="shop",pod=%q,node=%q,container=%q`, name, node, container)
	}
	const web1, web2 = "web-5d4f8c7b9-bbbbx", "web-5d4f8c7b9-bbbcx"
	var text strings.Builder
	text.WriteString("# TYPE container_cpu_usage_seconds counter\n")
	// web: one pod on a slow node, one on a fast one; the pause container, the
	// pod's cgroup, a second scraper and a single CPU must not count.
	counter(&text, pod(web1, "node-1", "main"), start, end, every, 0.4)
	counter(&text, pod(web1, "node-1", "main")+`,job="second"`, start, end, every, 0.4)
	counter(&text, pod(web1, "node-1", "main")+`,cpu="cpu00"`, start, end, every, 0.2)
	counter(&text, pod(web1, "node-1", "POD"), start, end, every, 0.3)
	counter(&text, pod(web1, "node-1", ""), start, end, every, 0.5)
	counter(&text, pod(web1, "node-1", "sidecar")+`,cpu="total"`, start, end, every, 0.1)
	counter(&text, pod(web2, "gke-demo-n2-0a1b2c3d-abcd", "main"), start, end, every, 0.2, start.Add(100*time.Minute))
	// A pod of the same workload that lived in the first half only.
	counter(&text, pod("web-77b6bdc9f-zzzzx", "gke-demo-n2-0a1b2c3d-dead", "main"), start, start.Add(time.Hour), every, 0.3)
	// Others.
	counter(&text, pod("db-0", "node-1", "main"), start, end, every, 0.9)
	counter(&text, strings.Replace(pod(web1, "node-1", "main"), "shop", "other", 1), start, end, every, 0.9)
	text.WriteString("# EOF\n")
	prom, err := cluster.StartPrometheus(t.Context(), cluster.PrometheusOptions{History: strings.NewReader(text.String())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prom.Stop() })

	for _, finer := range []int{0, 4, 99} { // in one part, in five, and in as many as there are
		t.Run(fmt.Sprintf("%d times as many parts", finer+1), func(t *testing.T) {
			queriesAgainst(t, prom.URL, start, end, finer)
		})
	}
}

func queriesAgainst(t *testing.T, url string, start, end time.Time, finer int) {
	w := newWorld(t, func(c *Config) {
		c.PrometheusURL = url
		c.MaxPoints = 150 // several slices
		c.QueryTimeout = 30 * time.Second
		c.Matchers = `namespace!=""`
	})
	w.demand.parts.finer = finer
	w.clock.SetTime(end)
	w.shop("web", 0)
	w.pools = append(w.pools, w.pools[0])
	w.pools[1].Name, w.pools[1].CPUSpeed = "n2", 1
	for i, node := range []string{"node-1", "gke-demo-n2-0a1b2c3d-abcd"} {
		p := podOn("web", i, node, start)
		w.put(p)
	}
	w.usage = nil

	got, s := w.workload("web")
	if got.DemandStale || !s.Metrics.Reachable {
		t.Fatalf("stale %v, findings %v", got.DemandStale, s.Findings)
	}
	for _, f := range s.Findings {
		if f.Reason != ReasonMetricsAPIUnreachable {
			t.Errorf("finding %v", f)
		}
	}
	for _, c := range []struct {
		at   time.Time
		want float64
	}{
		{end, 0.5*(400+100) + 200},
		{start.Add(90 * time.Minute), 0.5*(400+100) + 200},
		{start.Add(100*time.Minute + 15*time.Second), 0.5*(400+100) + 200}, // across the reset
		{start.Add(30 * time.Minute), 0.5*(400+100) + 200 + 300},
	} {
		i := int(c.at.Sub(got.Demand.Start) / got.Demand.Step)
		if i < 0 || i >= len(got.Demand.Values) {
			t.Fatalf("no sample of %v: %d from %v", c.at, len(got.Demand.Values), got.Demand.Start)
		}
		// rate() extrapolates to the ends of its window; 2 % where a series ends.
		if v := got.Demand.Values[i]; !(math.Abs(v-c.want) <= 0.02*c.want) {
			t.Errorf("demand %v after the start = %v, want %v", c.at.Sub(start), v, c.want)
		}
	}
	gaps := 0
	for _, v := range got.Demand.Values {
		if math.IsNaN(v) {
			gaps++
		}
	}
	if n := len(got.Demand.Values); n < 470 || gaps > 0 {
		t.Errorf("%d samples with %d gaps", n, gaps)
	}
}

// A real Prometheus with a day and a half of history, recorded for its newer half:
// the past is what the pods used in the mean of each ten minutes, those that lived
// for a part of them and nodes that were left meanwhile in proportion.
func TestPastAgainstPrometheus(t *testing.T) {
	end := time.Now().Add(-3 * time.Hour).Truncate(10 * time.Minute)
	start := end.Add(-36 * time.Hour)
	since := end.Add(-18 * time.Hour) // recorded
	const every = 30 * time.Second
	var text strings.Builder
	text.WriteString("# TYPE container_cpu_usage_seconds counter\n")
	pod := func(name string, from, to time.Time, cores float64) {
		counter(&text, fmt.Sprintf(`namespace="shop",pod=%q,node="node-1",container="main"`, name), from, to, every, cores)
	}
	pod("web-5d4f8c7b9-bbbbx", start, end, 0.4)
	// Four minutes of ten: in the mean 0.6 × 0.4.
	shortLived := start.Add(5*time.Hour + 3*time.Minute)
	pod("web-77b6bdc9f-zzzzx", shortLived, shortLived.Add(4*time.Minute), 0.6)
	text.WriteString("# TYPE mash2:recorded_usage:cores gauge\n")
	recorded := func(node string, from, to time.Time, cores float64) {
		for at := from; !at.After(to); at = at.Add(every) {
			fmt.Fprintf(&text, "mash2:recorded_usage:cores{namespace=\"shop\",mash2_owner=\"Deployment/web\",mash2_nodes=%q} %v %d\n", node, cores, at.Unix())
		}
	}
	recorded("node-1", since, end, 0.4)
	moved := end.Add(-10 * time.Hour) // twice as much for five minutes of ten
	recorded("node-2", moved.Add(-5*time.Minute+every), moved, 0.4)
	text.WriteString("# EOF\n")
	prom, err := cluster.StartPrometheus(t.Context(), cluster.PrometheusOptions{History: strings.NewReader(text.String())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prom.Stop() })

	w := newWorld(t, func(c *Config) {
		c.PrometheusURL, c.RecordedUsage = prom.URL, "mash2:recorded_usage:cores"
		c.Step, c.RateWindow, c.Past = every, 2*time.Minute, 48*time.Hour
		c.MaxPoints = 100 // several slices
		c.QueryTimeout = 30 * time.Second
	})
	w.clock.SetTime(end)
	w.shop("web", 0)
	w.put(podOn("web", 0, "node-1", start), node("node-2", "e2"))
	w.usage = nil
	got, cycles := w.untilPast("web", 20)
	past := got.Demand.Past
	if !past.Start.Equal(start) || cycles > 8 {
		t.Errorf("the past begins %v after the start, known in cycle %d", past.Start.Sub(start), cycles)
	}
	for i, v := range past.Values {
		at, want := past.Start.Add(time.Duration(i)*past.Step), 0.5*400
		switch {
		case at.Equal(shortLived.Truncate(past.Step)):
			want += 0.5 * 600 * 0.4
		case at.Equal(moved.Add(-past.Step)):
			want += 0.5 * 400 * 0.5
		}
		// rate() extrapolates to half an interval beyond a series' ends.
		if !(math.Abs(v-want) <= 0.06*want) {
			t.Errorf("the mean of the ten minutes %v after the start is %v, want %v", at.Sub(start), v, want)
		}
	}
}
