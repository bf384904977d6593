package whatif

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/forecast/seriesfile"
)

// A real Prometheus, filled with a production container's CPU (Alibaba, by the
// minute) as cAdvisor would have counted it, in three pods, beside what must not
// count: a second scraper, the pod's cgroup, another workload.
func TestWhatifOfPrometheus(t *testing.T) {
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("Prometheus is not installed (make deps)")
	}
	trace := filepath.Join(scenarios.DataFolder(), "alibaba-containers", "c_12104.csv.gz")
	if _, err := os.Stat(trace); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no traces in %s; set %s", scenarios.DataFolder(), scenarios.DataEnv)
	}
	got, err := seriesfile.Open(trace, nil, seriesfile.Options{Name: trace, Time: "TIMESTAMP", Value: "CPU_USAGE_ACTUAL"})
	if err != nil {
		t.Fatal(err)
	}
	const minutes = 8 * 60
	used := got.Series.Values[24*60:][:minutes]
	end := time.Now().Add(-2 * time.Hour).Truncate(time.Minute)
	begin := end.Add(-minutes * time.Minute)
	var text strings.Builder
	counter := func(labels string, share float64) {
		var sum float64
		fmt.Fprintf(&text, "container_cpu_usage_seconds_total{%s} 0 %d\n", labels, begin.Unix())
		for i, cores := range used {
			sum += share * cores * 60
			fmt.Fprintf(&text, "container_cpu_usage_seconds_total{%s} %v %d\n", labels, sum, begin.Add(time.Duration(i+1)*time.Minute).Unix())
		}
	}
	text.WriteString("# TYPE container_cpu_usage_seconds counter\n")
	for i, share := range []float64{0.5, 0.3, 0.2} {
		pod := fmt.Sprintf(`namespace="shop",pod="web-%d"`, i)
		counter(pod+`,container="main"`, share)
		counter(pod+`,container="main",job="second"`, share)
		counter(pod+`,container=""`, share)
	}
	counter(`namespace="shop",pod="db-0",container="main"`, 3)
	text.WriteString("# TYPE kube_pod_container_resource_requests gauge\n")
	for _, resource := range []string{`"cpu"} 0.5`, `"memory"} 268435456`} {
		fmt.Fprintf(&text, "kube_pod_container_resource_requests{namespace=\"shop\",pod=\"web-0\",container=\"main\",resource=%s %d\n", resource, end.Unix()-30)
	}
	text.WriteString("# EOF\n")
	prom, err := cluster.StartPrometheus(t.Context(), cluster.PrometheusOptions{History: strings.NewReader(text.String())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prom.Stop() })

	// In slices, it is what the trace says.
	o := History{
		PrometheusURL: prom.URL, Selector: `namespace="shop",pod=~"web-.+"`, From: end.Add(-4 * time.Hour).Format(time.RFC3339), To: end.Format(time.RFC3339),
		Warm: 1, Scale: 1, LoadFactor: 1, pointsPerQuery: 97,
	}
	h, err := o.read(t.Context(), func(string) bool { return true }, bytes.NewBuffer(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.series.Values) != minutes || h.warm != 1 || h.gaps != 0 {
		t.Fatalf("%d samples, %d passes before, gaps %v", len(h.series.Values), h.warm, h.gaps)
	}
	for i := 3; i < minutes; i++ { // a rate over two minutes is their mean
		if want := (used[i-1] + used[i-2]) / 2; math.Abs(h.series.Values[i]/want-1) > 0.01 {
			t.Errorf("minute %d: %v cores, want %v", i, h.series.Values[i], want)
		}
	}
	if h.shape != (podShape{cpuRequest: 0.5, memoryRequest: 256 << 20}) {
		t.Errorf("shape %+v", h.shape)
	}

	// And all of it at once.
	replay := func(change func(*Options)) (Result, error) {
		all := Options{
			History: o,
			World: World{
				RequestCPU: 3 * time.Millisecond, Timeout: 5 * time.Second, SLOP95: 200 * time.Millisecond, SLOFailed: 0.01,
				CPURequest: "200m", MemoryRequest: "128Mi", MinReplicas: 2, PoolNames: []string{"e2-standard-2", "n2-standard-2"}, Boot: 75 * time.Second,
			},
			Policies: []string{"COST_SAVING"}, Rivals: []string{"hpa:70", "static", "oracle"}, Seed: 1, Seeds: 1,
			Given: func(flag string) bool { return flag == "from" || flag == "to" },
		}
		change(&all)
		if err := all.Validate(); err != nil {
			return Result{}, err
		}
		return all.Run(t.Context(), io.Discard)
	}
	out, err := replay(func(*Options) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%q", out.Header())
	for _, row := range out.Rows() {
		t.Logf("%q", row)
	}
	t.Log(out.Sentences())
	if out.History.Prometheus != prom.URL || out.History.Samples != 240 || len(out.Runs) != 4 {
		t.Errorf("%+v, %d runs", out.History, len(out.Runs))
	}
	for _, a := range out.Assumptions {
		if a.Flag == "--cpu-request" && (a.Value != "500m" || a.From != read) || a.Flag == "--cpu-limit" && a.Value != "none" {
			t.Errorf("assumption %+v", a)
		}
	}
	if want := out.History.MeanCores * 4 * 3600 / 0.003; math.Abs(float64(out.Runs[0].Requests)/want-1) > 0.02 {
		t.Errorf("%d requests, want about %.0f", out.Runs[0].Requests, want)
	}
	if _, err := replay(func(o *Options) { o.Selector = `pod="nobody"` }); !errors.Is(err, simulation.ErrInput) || !strings.Contains(err.Error(), "has nothing from") {
		t.Errorf("nobody selected: %v", err)
	}
	if _, err := replay(func(o *Options) { o.Selector = `pod="` }); !errors.Is(err, simulation.ErrInput) || !strings.Contains(err.Error(), "asking Prometheus") {
		t.Errorf("a selector in ruin: %v", err)
	}
}
