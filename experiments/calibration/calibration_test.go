package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// What was made with known parameters is found again.
func TestFitFindsTheParameters(t *testing.T) {
	const offered = 300
	curves := map[float64]curve{}
	for _, v := range []float64{0, 0.75, 2} {
		c, err := setting{offered: offered, servers: 2, variation: v, seed: 1}.curve([]float64{0.9, 0.94, 0.97, 0.99, 1.02})
		if err != nil {
			t.Fatal(err)
		}
		curves[v] = c
	}
	truth, err := setting{offered: offered, servers: 2, variation: 0.75, seed: 99}.curve([]float64{0.91, 0.93, 0.95, 0.98})
	if err != nil {
		t.Fatal(err)
	}
	var rows []observation
	for _, p := range truth {
		rows = append(rows, observation{load: p.served * offered * window, mean: p.mean + 50, p99: p.p99 + 50})
	}
	got, err := fit(rows, offered, curves)
	if err != nil {
		t.Fatal(err)
	}
	if got.Variation != 0.75 {
		t.Errorf("variation = %v, want 0.75", got.Variation)
	}
	if a := judge(rows, offered, got.Base, curves[got.Variation].at); a.mean > 0.25 || a.p99 > 0.25 {
		t.Errorf("errors of %v and %v on another seed", a.mean, a.p99)
	}
	if _, err := fit(nil, offered, curves); err == nil {
		t.Error("nothing was fitted")
	}
}

// The closed form is the mean of a queue that is served in order: the n-th
// request is due at n/λ and answered at n/μ.
func TestBacklogIsTheMeanOfOverload(t *testing.T) {
	const offered = 1000.0
	for _, share := range []float64{0.8, 0.9, 0.99} {
		sum, n := 0.0, 0.0
		for ; n/(offered*share) <= window; n++ {
			sum += n/(offered*share) - n/offered
		}
		if got, want := backlog(share).mean, 1000*sum/n; math.Abs(got-want) > 0.001*want {
			t.Errorf("at %v: %v ms, want %v ms", share, got, want)
		}
	}
	if got := backlog(1.2).mean; got != 0 {
		t.Errorf("without overload it waits %v ms", got)
	}
}

// The more is answered, the less it waits; and what can be served is.
func TestCurveFalls(t *testing.T) {
	c, err := setting{offered: 300, servers: 2, variation: 0.75, seed: 1}.curve([]float64{1.3, 0.8, 0.9, 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(c); i++ {
		if c[i].served < c[i-1].served || c[i].mean > c[i-1].mean || c[i].p99 > c[i-1].p99 {
			t.Errorf("from %+v to %+v", c[i-1], c[i])
		}
	}
	if last := c[len(c)-1]; last.served < 0.98 {
		t.Errorf("%v answered of what could be", last.served)
	}
	middle := c.at((c[0].served + c[1].served) / 2)
	if want := (c[0].mean + c[1].mean) / 2; math.Abs(middle.mean-want) > 1e-9 {
		t.Errorf("in the middle %v, want %v", middle.mean, want)
	}
}

func TestDecodeObservations(t *testing.T) {
	const header = ",load,avg_latency,p99,stddev_latency,allocs,event_start_time,event_end_time\n"
	rows, err := decodeObservations(strings.NewReader(header + "1,300,50,100,3,\"{'a': 1}\",1000,1030.5\n2,300,-1,100,3,{},1000,1030\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0] != (observation{start: 1000, seconds: 30.5, load: 300, mean: 50, p99: 100}) {
		t.Errorf("rows = %+v", rows)
	}
	if _, err := decodeObservations(strings.NewReader(header + "1,many,50,100,3,{},1000,1030\n")); err == nil || !strings.Contains(err.Error(), "line 2: load") {
		t.Errorf("error = %v", err)
	}
	if _, err := decodeObservations(strings.NewReader("load\n1\n")); err == nil {
		t.Error("a file without latencies was read")
	}
}

// On the measurements: held-out hours are predicted to within a fifth.
func TestHeldOutHoursArePredicted(t *testing.T) {
	data := filepath.Join("..", "..", "..", "shared", "data", "cilantro-hotelres")
	if dir := os.Getenv(scenarios.DataEnv); dir != "" {
		data = filepath.Join(dir, "cilantro-hotelres")
	}
	found, err := filepath.Glob(filepath.Join(data, "propfair_*.csv.gz"))
	if err != nil || len(found) != 1 {
		t.Skipf("Cilantro's measurements are not in %s (%s names the folder of traces)", data, scenarios.DataEnv)
	}
	rows, err := readObservations(found[0])
	if err != nil {
		t.Fatal(err)
	}
	offered, err := offeredRate(rows)
	if err != nil {
		t.Fatal(err)
	}
	_, test := split(rows)
	c, err := setting{offered: offered, servers: units, variation: 0.75, seed: 2}.curve([]float64{0.93, 0.95, 0.97, 0.985, 1})
	if err != nil {
		t.Fatal(err)
	}
	if a := judge(saturated(test, offered), offered, 70, c.at); !(a.mean < 0.2 && a.p99 < 0.2) || a.n < 500 {
		t.Errorf("median errors of %d windows: mean %v, p99 %v", a.n, a.mean, a.p99)
	}
}
