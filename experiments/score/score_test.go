package score

import (
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/report"
)

func ptr[T any](v T) *T { return &v }

// outcome is one workload over a pass of warm-up and one that is measured, 60 s
// each, in buckets of 30 s: 2 replicas, then 4; one node throughout, one more
// from second 90 on.
func outcome() Outcome {
	bucket := func(i int, replicas, cores float64) load.Bucket {
		return load.Bucket{Start: float64(i) * 30, Seconds: 30, Replicas: replicas, ReadyCores: replicas / 2, CPUCores: cores, RPS: 10 * cores,
			P95Ms: ptr(100.0), PodCostUSD: 0.01, PendingPodSeconds: 3}
	}
	summary := func(requests uint64, violated int, replicas float64) load.Summary {
		return load.Summary{
			SimulatedSeconds: 60, Requests: requests, Failed: 1, P95Ms: ptr(100.0), SLOViolationMinutes: violated, SLOViolationRatio: ptr(float64(violated)),
			CPUSeconds: 30, MaxReplicas: 4, MeanReplicas: &replicas, MinReadyPods: 2, PendingPodSeconds: 6, ScaleActions: 1, PodCostUSD: 0.02,
			WorkloadInterval: record.WorkloadInterval{ReadyCPUSeconds: 60},
		}
	}
	w := load.WorkloadResult{
		Namespace: "mash2", Name: "web", Measured: summary(100, 1, 3),
		ByPass:  []load.PassSummary{{Pass: 0, Warmup: true, Summary: summary(50, 0, 2)}, {Pass: 1, Summary: summary(100, 1, 3)}},
		Buckets: []load.Bucket{bucket(0, 2, 0.5), bucket(1, 2, 0.5), bucket(2, 2, 0.9), bucket(3, 4, 1)},
		Steps:   []record.WorkloadStep{{At: 0, Replicas: 2, Ready: 2}, {At: 90 * time.Second, Replicas: 4, Ready: 4, Pending: 1}},
	}
	nodes := func(i int, n, packed float64) load.PoolBucket {
		return load.PoolBucket{Start: float64(i) * 30, Seconds: 30, ReadyNodes: n, AllocatableCores: 2 * n, PackingEfficiency: packed}
	}
	return Outcome{
		Scaler: "mash2", Seed: 7, PassSeconds: 60, WarmupPasses: 1, Passes: 1, WallSeconds: 4, Workloads: []load.WorkloadResult{w},
		Pools: []load.PoolResult{{Name: "a-pool", Buckets: []load.PoolBucket{nodes(0, 1, 0.1), nodes(1, 1, 0.1), nodes(2, 1, 0.4), nodes(3, 2, 0.7)},
			Steps: []record.PoolStep{{At: 0, Nodes: 1, Ready: 1}, {At: 90 * time.Second, Nodes: 2, Ready: 2}}}},
		Nodes: []Node{
			{Pool: "a-pool", MachineType: "e2-medium", Requested: -120},
			{Pool: "a-pool", MachineType: "e2-medium", Requested: 90, Deleted: ptr(105.0)},
			{Pool: "a-pool", MachineType: "e2-medium", Requested: 10, Deleted: ptr(30.0)}, // in the warm-up
		},
		Plans: []Planned{{At: 15, Workload: "web", Demand: ptr(0.5)}, {At: 30, Workload: "web", Demand: ptr(0.5), Peak: ptr(0.9)}},
	}
}

// A pool that comes later is drawn where it came, not at the beginning.
func TestPoolsThatComeLater(t *testing.T) {
	o := outcome()
	o.Pools = append(o.Pools, load.PoolResult{Name: "b-pool", Buckets: []load.PoolBucket{
		{Start: 60, Seconds: 30, ReadyNodes: 1, AllocatableCores: 2, PackingEfficiency: 0.8},
		{Start: 90, Seconds: 30, ReadyNodes: 2, AllocatableCores: 4, PackingEfficiency: 0.9},
	}})
	over, pairs, err := Figures([]Outcome{o}, nil)
	if err != nil {
		t.Fatal(err)
	}
	packing := over[slices.IndexFunc(over, func(f report.Figure) bool { return f.Title == "Node packing efficiency" })].Series[0].Y
	if want := []float64{10, 10, 60, 80}; !cmp.Equal(packing, want, cmpopts.EquateApprox(1e-9, 0)) {
		t.Errorf("packing efficiency %v, want %v", packing, want)
	}
	nodes := pairs[slices.IndexFunc(pairs, func(f report.Figure) bool { return f.Title == "nodes by replicas" })].Series[0].Y
	if want := []float64{1, 1, 2, 4}; !cmp.Equal(nodes, want) {
		t.Errorf("nodes %v, want %v", nodes, want)
	}
}

func TestRunScoresWhatIsMeasured(t *testing.T) {
	got, err := outcome().Run()
	if err != nil {
		t.Fatal(err)
	}
	const e2medium = 0.03350571 // USD/h, as execution/gke has it; checked below through the cost per hour
	want := Run{
		Scaler: "mash2", Seed: 7, Phase: Warm, Pass: 1, SLOViolationMinutes: 1, SLOViolationRatio: ptr(1.0), P95Ms: ptr(100.0),
		FailedRatio: ptr(0.01), FailedRequests: 1, Requests: 100, MeanCPUUtilization: ptr(0.5), MaxReplicas: 4, MeanReplicas: ptr(3.0),
		NodeHours: 75.0 / 3600, PodCostUSD: 0.02, PendingPodSeconds: 6,
		// 0.4 of two cores and 0.7 of four.
		PackingEfficiency: ptr(0.6), ScaleActions: 1, MinReadyPods: 2, SimulatedSeconds: 60, WallSeconds: 2, UnscheduledStretchSeconds: ptr(0.0),
	}
	if perHour := got.CostUSD / got.NodeHours; math.Abs(perHour-e2medium) > 0.001 {
		t.Errorf("a node-hour costs %v", perHour)
	}
	got.CostUSD = 0
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	first, err := outcome().RunOfPass(0)
	if err != nil {
		t.Fatal(err)
	}
	if first.Phase != Cold || first.Requests != 50 || math.Abs(first.NodeHours-80.0/3600) > 1e-9 {
		t.Errorf("the first pass: %+v", first)
	}
	if _, err := outcome().RunOfPass(2); err == nil {
		t.Error("a pass that never was has a score")
	}
	unknown := outcome()
	unknown.Nodes[0].MachineType = "abacus"
	if _, err := unknown.Run(); err == nil {
		t.Error("a machine without a price has a cost")
	}
}

func TestSeveralWorkloadsAreOneRun(t *testing.T) {
	o := outcome()
	other := o.Workloads[0]
	other.Measured.P95Ms, other.Measured.SLOViolationMinutes, other.Measured.SLOViolationRatio = ptr(250.0), 0, ptr(0.0)
	other.Steps = []record.WorkloadStep{{At: 0, Replicas: 5}, {At: 80 * time.Second, Replicas: 1}}
	o.Workloads = append(o.Workloads, other)
	r, err := o.Run()
	if err != nil {
		t.Fatal(err)
	}
	// 2+5 until second 80, then 2+1, then 4+1.
	if r.MaxReplicas != 7 || *r.MeanReplicas != 6 || r.Requests != 200 || *r.P95Ms != 250 || *r.SLOViolationRatio != 0.5 {
		t.Errorf("run = max %d mean %v requests %d p95 %v violated %v", r.MaxReplicas, *r.MeanReplicas, r.Requests, *r.P95Ms, *r.SLOViolationRatio)
	}
	if got := *r.PeakCPUUtilization; math.Abs(got-0.9) > 1e-9 { // 1.8 of 2 cores in the third bucket
		t.Errorf("peak utilisation = %v", got)
	}
}

// Minutes without traffic count for no workload, whether or not it violated in others.
func TestShareOfViolationIsOfMinutesWithTraffic(t *testing.T) {
	o := outcome()
	o.PassSeconds = 600
	idle := o.Workloads[0]
	o.Workloads[0].Measured.SLOViolationMinutes, o.Workloads[0].Measured.SLOViolationRatio, o.Workloads[0].Measured.Minutes = 6, ptr(0.6), 10
	idle.Measured.SLOViolationMinutes, idle.Measured.SLOViolationRatio, idle.Measured.Minutes = 0, ptr(0.0), 2
	o.Workloads = append(o.Workloads, idle)
	r, err := o.Run()
	if err != nil {
		t.Fatal(err)
	}
	if r.SLOViolationRatio == nil || *r.SLOViolationRatio != 0.5 {
		t.Errorf("6 of 12 minutes with traffic are a share of %v", r.SLOViolationRatio)
	}
}

// The keys of a run are a contract that scripts rely on.
func TestKeysOfARun(t *testing.T) {
	var keys []string
	of := reflect.TypeFor[Run]()
	for i := range of.NumField() {
		tag := of.Field(i).Tag.Get("json")
		if !strings.Contains(tag, ",omitempty") {
			keys = append(keys, tag)
		}
	}
	want := strings.Fields(`scaler seed phase pass sloViolationMinutes sloViolationRatio p50Ms p95Ms p99Ms failedRatio failedRequests requests
		meanCpuUtilization peakCpuUtilization maxReplicas meanReplicas nodeHours costUsd podCostUsd pendingPodSeconds packingEfficiency
		scaleActions podStarts minReadyPods simulatedSeconds wallSeconds resizes oomKills`)
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	data, err := json.Marshal(Run{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"p95Ms":null`) {
		t.Errorf("what is undefined is not null: %s", data)
	}
}

// Student's t at 97.5 % has 4.302653 for two degrees of freedom (any table): of
// 1, 2, 3 the mean is 2 ± 4.302653/√3.
func TestIntervalOf(t *testing.T) {
	for name, test := range map[string]struct {
		values                  []float64
		wantMean, wantHalf      float64
		wantN                   int
		undefined, withoutWidth bool
	}{
		"three values":               {values: []float64{1, 2, 3}, wantMean: 2, wantHalf: 2.484138, wantN: 3},
		"one has no width":           {values: []float64{5}, wantMean: 5, wantN: 1, withoutWidth: true},
		"what is undefined is not 0": {values: []float64{math.NaN(), 1, 3}, wantMean: 2, wantHalf: 12.7062, wantN: 2},
		"nothing":                    {undefined: true, withoutWidth: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := IntervalOf(test.values)
			if test.undefined != (got.Mean == nil) || test.withoutWidth != (got.Low == nil) || got.N != test.wantN {
				t.Fatalf("interval = %+v", got)
			}
			if !test.undefined && math.Abs(*got.Mean-test.wantMean) > 1e-9 || math.Abs(got.Half()-test.wantHalf) > 1e-4 {
				t.Errorf("interval = %v ± %v", *got.Mean, got.Half())
			}
		})
	}
}

// About 95 of a hundred intervals of normal samples hold the true mean.
func TestIntervalsCover(t *testing.T) {
	const runs, seeds = 2000, 5
	state, held := uint64(1), 0
	uniform := func() float64 { // PCG would do as well: this is enough for a mean
		state = state*6364136223846793005 + 1442695040888963407
		return float64(state>>11) / (1 << 53)
	}
	for range runs {
		xs := make([]float64, seeds)
		for i := range xs { // Box–Muller
			xs[i] = 10 + math.Sqrt(-2*math.Log(1-uniform()))*math.Cos(2*math.Pi*uniform())
		}
		if got := IntervalOf(xs); *got.Low <= 10 && 10 <= *got.High {
			held++
		}
	}
	if share := float64(held) / runs; share < 0.93 || share > 0.97 {
		t.Errorf("%.1f %% of intervals hold the mean", 100*share)
	}
}

func summary(scaler string, minutes, usd float64) Summary {
	return Summary{Scaler: scaler, Metrics: map[string]Interval{
		"sloViolationMinutes": IntervalOf([]float64{minutes}), "sloViolationRatio": IntervalOf([]float64{minutes / 10}), "costUsd": IntervalOf([]float64{usd}),
	}}
}

func TestAtEqualSLO(t *testing.T) {
	hpa := []Summary{summary("hpa:90", 5, 1), summary("hpa:70", 2, 2), summary("hpa:50", 1, 3), summary("hpa:30", 1, 4)}
	for name, test := range map[string]struct {
		minutes float64
		want    string
	}{
		"the cheapest that is as good":     {2, "hpa:70"},
		"between two, the better one":      {1.5, "hpa:50"},
		"of two that are as good, cheaper": {1, "hpa:50"},
		"none is as good":                  {0.5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := AtEqualSLO(summary("mash2", test.minutes, 9), hpa)
			if ok != (test.want != "") || got.Scaler != test.want {
				t.Errorf("got %q", got.Scaler)
			}
		})
	}
}

func TestAtEqualCost(t *testing.T) {
	mine := []Summary{summary("mash2:90", 5, 1), summary("mash2", 2, 2), summary("mash2:60", 2, 3), summary("mash2:40", 1, 4)}
	for name, test := range map[string]struct {
		usd  float64
		want string
	}{
		"the best that is affordable":    {2.5, "mash2"},
		"of two as good, the cheaper":    {3, "mash2"},
		"all of them":                    {9, "mash2:40"},
		"as dear as the rival is enough": {1, "mash2:90"},
		"all cost more":                  {0.9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := AtEqualCost(summary("hpa", 9, test.usd), mine)
			if ok != (test.want != "") || got.Scaler != test.want {
				t.Errorf("got %q", got.Scaler)
			}
		})
	}
}

func TestRival(t *testing.T) {
	for scaler, want := range map[string]string{
		"hpa:60": "mash2", "hpa": "mash2", "static": "mash2", "phpa": "mash2", "karpenter": "mash2-any", "karpenter-vpa": "mash2-any", "attune:70": "mash2-any", "autopilot": "mash2-any",
		"mash2": "", "mash2-sized": "", "mash2-mixed": "", "mash2-joint": "", "mash2-agents:150": "", "mash2-rl": "", "mash2-any:90": "", "clairvoyant:90": "", "oracle": "",
	} {
		if got, ok := Rival(scaler); got != want || ok != (want != "") {
			t.Errorf("%s is compared with %q", scaler, got)
		}
	}
}

func TestSummarizeGroupsByScaler(t *testing.T) {
	got := Summarize([]Run{
		{Scaler: "b", CostUSD: 1, P95Ms: ptr(10.0)}, {Scaler: "a", CostUSD: 5}, {Scaler: "b", CostUSD: 3},
		{Scaler: "oracle", CostUSD: 0.5, Bound: true},
	})
	var names []string
	for _, s := range got {
		names = append(names, s.Scaler)
	}
	if diff := cmp.Diff([]string{"b", "a", "oracle"}, names); diff != "" {
		t.Error(diff)
	}
	if *got[0].Metrics["costUsd"].Mean != 2 || got[0].Metrics["p95Ms"].N != 1 || got[1].Metrics["p95Ms"].Mean != nil {
		t.Errorf("b: %+v", got[0].Metrics)
	}
	if got[2].Metrics["pendingPodSeconds"].Mean != nil || *got[2].Metrics["costUsd"].Mean != 0.5 {
		t.Error("a bound has nothing but a cost")
	}
}

// All figures of the paper are there, every one of them can be drawn, and lines
// are where the outcome says.
func TestFigures(t *testing.T) {
	other := outcome()
	other.Scaler = "hpa"
	over, pairs, err := Figures([]Outcome{outcome(), other, {Scaler: "oracle", BoundUSD: ptr(1.0)}}, []Event{{At: 70, Name: "PERFORMANCE"}})
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, f := range over {
		titles = append(titles, f.Title)
		if _, err := f.SVG(); err != nil {
			t.Error(err)
		}
		if len(f.Marks) != 2 || f.Marks[0].X != 70.0/60 || f.Marks[1].X != 1 {
			t.Errorf("%s: marks %v", f.Title, f.Marks)
		}
	}
	want := []string{"Load", "Replicas", "CPU utilisation", "Infrastructure by pool", "Scheduling pressure", "Cumulative pod cost", "Cumulative node cost",
		"CPU waste", "Node packing efficiency", "Response time, 95th percentile", "Demand, and the peak that mash2 planned for", "Demand, and the peak that hpa planned for"}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	if len(pairs) != 10 {
		t.Errorf("%d pair plots of five figures", len(pairs))
	}
	at := func(title string) []float64 {
		return over[slices.Index(titles, title)].Series[0].Y
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	for title, want := range map[string][]float64{
		"Replicas":                {2, 2, 4, 4},
		"CPU waste":               {0.5, 0.5, 0.1, 1},
		"Cumulative pod cost":     {0.01, 0.02, 0.03, 0.04},
		"Node packing efficiency": {10, 10, 40, 70},
		"Infrastructure by pool":  {1, 1, 2, 2},
	} {
		if diff := cmp.Diff(want, at(title), near); diff != "" {
			t.Errorf("%s (-want +got):\n%s", title, diff)
		}
	}
	cost := at("Cumulative node cost")
	run, err := outcome().Run()
	if err != nil {
		t.Fatal(err)
	}
	warmup, err := outcome().RunOfPass(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := cost[len(cost)-1]; math.Abs(got-run.CostUSD-warmup.CostUSD) > 1e-9 {
		t.Errorf("cumulative node cost ends at %v, the passes cost %v and %v", got, warmup.CostUSD, run.CostUSD)
	}
}

func TestParetoJoinsTheSweep(t *testing.T) {
	f := Pareto([]Summary{summary("mash2", 1, 3), summary("hpa:50", 2, 4), summary("hpa", 3, 2)})
	if len(f.Series) != 2 || f.Series[0].Name != "mash2" || f.Series[1].Name != "hpa, by target" {
		t.Fatalf("series: %+v", f.Series)
	}
	sweep := f.Series[1]
	if diff := cmp.Diff([]string{"hpa", "hpa:50"}, sweep.Labels); diff != "" {
		t.Errorf("the sweep is not in order of cost:\n%s", diff)
	}
	if sweep.X[0] != 2 || math.Abs(sweep.Y[0]-30) > 1e-9 {
		t.Errorf("hpa at %v, %v", sweep.X[0], sweep.Y[0])
	}
	if _, err := f.SVG(); err != nil {
		t.Error(err)
	}
}

func TestCompare(t *testing.T) {
	simulated := outcome()
	simulated.Workloads = slices.Clone(simulated.Workloads)
	simulated.Workloads[0].Buckets = slices.Clone(simulated.Workloads[0].Buckets)
	for i := range simulated.Workloads[0].Buckets {
		simulated.Workloads[0].Buckets[i].Replicas++ // 2.5 in the mean becomes 3.5
	}
	simulated.Workloads[0].Measured.PendingPodSeconds = 9
	got, err := Compare([]Outcome{outcome()}, []Outcome{simulated, simulated})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Difference{}
	for _, d := range got {
		by[d.Name] = d
	}
	r := by["replicas"]
	if math.Abs(*r.Error-0.4) > 1e-9 || *r.Distance != 1 || *r.SimulatedSpread != 0 || r.RealSpread != nil {
		t.Errorf("replicas: %+v", r)
	}
	if e := *by["pending time"].Error; math.Abs(e-0.5) > 1e-9 {
		t.Errorf("pending time: %+v", e)
	}
	if e := *by["node cost"].Error; e != 0 {
		t.Errorf("node cost: %v", e)
	}
	if len(DifferenceTable(got, RealAndSimulated).Rows) != len(got) {
		t.Error("a difference is not in the table")
	}
	longer := outcome()
	longer.Passes = 2
	if _, err := Compare([]Outcome{outcome()}, []Outcome{longer}); err == nil {
		t.Error("different passes were compared")
	}
	figures, err := ComparisonFigures([]Outcome{outcome()}, []Outcome{simulated}, nil, RealAndSimulated)
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 7 || len(figures[1].Series) != 2 || figures[1].Series[1].Name != "mash2, simulated" {
		t.Errorf("%d figures, %+v", len(figures), figures[1].Series)
	}
}

func TestRecordingIsReadAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), RecordingFile)
	want := Recording{Scenario: "heartbeat", Speed: 10, Seed: 7, Switches: []Event{{At: 90, Name: "PERFORMANCE"}}, Outcomes: []Outcome{outcome()}}
	if err := want.Write(file); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecording(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recording (-want +got):\n%s", diff)
	}
	if err := (Recording{Scenario: "x"}).Write(file); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecording(file); err == nil {
		t.Error("a recording without outcomes was read")
	}
}

// Steps before the beginning hold at it.
func TestShiftSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var steps []record.WorkloadStep
		at := time.Duration(0)
		for i := range rapid.IntRange(1, 10).Draw(t, "n") {
			steps = append(steps, record.WorkloadStep{At: at, Replicas: int32(i)})
			at += time.Duration(rapid.Int64Range(1, 100).Draw(t, "gap"))
		}
		start := time.Duration(rapid.Int64Range(0, 300).Draw(t, "start"))
		value := func(steps []record.WorkloadStep, at time.Duration) int32 {
			n := int32(-1)
			for _, s := range steps {
				if s.At <= at {
					n = s.Replicas
				}
			}
			return n
		}
		shifted := ShiftSteps(steps, start)
		for later := range time.Duration(400) {
			if got, want := value(shifted, later), value(steps, start+later); got != want {
				t.Fatalf("%d at %d after %d, want %d", got, later, start, want)
			}
		}
	})
}

// Seed by seed: 3 for 2 and 3 for 4 are +50 % and −25 %, 12.5 % in the mean.
func TestRelative(t *testing.T) {
	runs := []Run{
		{Scaler: "a", Seed: 1, CostUSD: 3}, {Scaler: "a", Seed: 2, CostUSD: 3}, {Scaler: "a", Seed: 3, CostUSD: 99},
		{Scaler: "b", Seed: 2, CostUSD: 4}, {Scaler: "b", Seed: 1, CostUSD: 2},
	}
	got := Relative(runs, "a", "b", MetricNamed("costUsd"))
	if got.N != 2 || *got.Mean != 0.125 || *got.Low >= 0 {
		t.Errorf("relative = %+v", got)
	}
	if text := (Interval{Mean: ptr(-0.5), Low: ptr(-0.6), High: ptr(-0.4)}).Text(Percent); text != "-50 % ± 10 %" {
		t.Errorf("text = %q", text)
	}
}

func TestUnscheduledStretch(t *testing.T) {
	steps := func(of ...float64) []record.WorkloadStep {
		var out []record.WorkloadStep
		for i := 0; i < len(of); i += 2 {
			out = append(out, record.WorkloadStep{At: time.Duration(of[i] * float64(time.Second)), Unscheduled: int32(of[i+1])})
		}
		return out
	}
	for name, c := range map[string]struct {
		steps    []record.WorkloadStep
		from, to float64
		want     *float64
	}{
		"never":                         {steps(0, 0, 10, 0), 0, 60, ptr(0.0)},
		"one, then two, then none":      {steps(0, 0, 10, 1, 12, 2, 15, 0), 0, 60, ptr(5.0)},
		"the longer of two":             {steps(0, 1, 3, 0, 10, 1, 14, 0), 0, 60, ptr(4.0)},
		"to the end":                    {steps(0, 0, 50, 1), 0, 60, ptr(10.0)},
		"what was before counts not":    {steps(0, 1, 35, 0), 30, 60, ptr(5.0)},
		"what is after counts not":      {steps(0, 0, 65, 1, 90, 0), 30, 60, ptr(0.0)},
		"before and over the end":       {steps(0, 1), 30, 60, ptr(30.0)},
		"nothing is known without them": {nil, 0, 60, nil},
	} {
		o := Outcome{Workloads: []load.WorkloadResult{{Steps: c.steps}}}
		if diff := cmp.Diff(c.want, o.unscheduledStretch(c.from, c.to)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
