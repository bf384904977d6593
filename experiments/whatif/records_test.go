package whatif

import (
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/record"
)

// recordsOf simulates flash-sale, so many times, into a folder of records.
func recordsOf(t *testing.T, copies, passes int, changes ...func(*scenarios.Scenario)) string {
	t.Helper()
	s, err := scenarios.Load("flash-sale")
	if err != nil {
		t.Fatal(err)
	}
	s.Copies = copies
	for _, change := range changes {
		change(&s)
	}
	dir := t.TempDir()
	var w *record.Writer
	if _, err := sim.Run(t.Context(), sim.Options{Scenario: s, Scaler: sim.Mash2, Seed: 1, Passes: passes, Record: func(c core.Config) (mash2.Recorder, error) {
		w, err = c.Records(record.Config{Dir: dir})
		return w, err
	}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRecords: whatif over records has the demand that cycles saw, the pods and bounds
// that they knew, and says what was done meanwhile.
func TestRecords(t *testing.T) {
	dir := recordsOf(t, 1, 1)
	options := func(change func(*Options)) Options {
		o := Options{
			History: History{Records: dir, Workload: "mash2/web", From: "10m", To: "0s", Scale: 1, LoadFactor: 1, Delimiter: ","},
			World: World{
				RequestCPU: 3 * time.Millisecond, Timeout: 5 * time.Second, SLOP95: 200 * time.Millisecond, SLOFailed: 0.01, CPURequest: "100m",
				MemoryRequest: "64Mi", MinReplicas: 1, PoolNames: []string{"e2-standard-2"}, Boot: 75 * time.Second,
			},
			Policies: []string{"COST_SAVING"}, Rivals: []string{"hpa:80"}, Seed: 1, Seeds: 1,
			Given: func(flag string) bool { return flag == "boot" },
		}
		change(&o)
		return o
	}
	o := options(func(*Options) {})
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	out, err := o.Run(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	// The same from the records themselves.
	l, err := record.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	from, err := time.Parse(time.RFC3339, out.History.From)
	if err != nil {
		t.Fatal(err)
	}
	highest, scalings, before := 0.0, 0, int32(-1)
	for e, err := range l.Records(time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		w := e.Snapshot.Workloads[0]
		if v, _, ok := w.Demand.Last(); ok {
			highest = max(highest, v/1000)
		}
		if e.Cycle.Time.Before(from) {
			continue
		}
		if before >= 0 && w.Replicas != before {
			scalings++
		}
		before = w.Replicas
	}
	if h := out.History; h.Samples != 10 || h.PeakCores > highest || h.PeakCores < 0.7*highest || h.GapRatio != 0 {
		t.Errorf("%+v, the highest sample is %g cores", h, highest)
	}
	if r := out.Recorded; r == nil || math.Abs(float64(r.Scalings-scalings)) > 1 || r.MeanReplicas < 2 || r.MeanReplicas > 32 || len(r.Modes) != 1 {
		t.Errorf("%+v, want %d scalings", r, scalings)
	}
	told := map[string]string{}
	for _, a := range out.Assumptions {
		told[a.Flag] = a.From + " " + a.Value
	}
	for flag, want := range map[string]string{
		"--cpu-request": "records 200m", "--memory-request": "records 128Mi", "--min-replicas": "records 2", "--max-replicas": "records 32",
		"--measured-on": "records those of n2-standard-2, at 1 of n2's speed",
	} {
		if told[flag] != want {
			t.Errorf("%s: %q, want %q", flag, told[flag], want)
		}
	}
	if pools := told["--pool, --max-nodes"]; !strings.HasPrefix(pools, "records mas-h2-staging-pool of ") {
		t.Errorf("pools: %q, want those of the records", pools)
	}
	// Under two policies no simulation is of that time; before the switch one is, of what a
	// simulation recorded.
	if e := out.RecordsError; e != nil || len(out.Recorded.Policies) != 2 {
		t.Errorf("error on the records: %+v, under %v", e, out.Recorded.Policies)
	}
	early := options(func(o *Options) { o.From, o.To = "14m", "9m" })
	switch r, err := early.Run(t.Context(), io.Discard); {
	case err != nil:
		t.Error(err)
	case r.RecordsError == nil || r.RecordsError.Policy != "COST_SAVING" || r.RecordsError.Planned != r.Recorded.PlannedReplicas || math.Abs(r.RecordsError.Error) > 0.3:
		t.Errorf("error on the records: %+v of %+v", r.RecordsError, r.Recorded)
	}
	if !slices.ContainsFunc(out.Runs, func(r Run) bool { return r.Policy == "COST_SAVING" && r.CostUSD > 0 }) {
		t.Errorf("%+v", out.Runs)
	}

	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"another workload": {func(o *Options) { o.Workload = "mash2/nobody" }, "tell nothing of its demand"},
		"no such folder":   {func(o *Options) { o.Records = dir + "/none" }, "--records"},
		"after the end":    {func(o *Options) { o.From, o.To = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z" }, "where the records end"},
		"of no records":    {func(o *Options) { o.Records, o.Trace = "", "x.csv" }, "--workload and --namespace are of --records"},
		"two sources":      {func(o *Options) { o.Trace = "x.csv" }, "either --records"},
		"before the beginning": {func(o *Options) {
			o.From, o.Given = "48h", func(flag string) bool { return flag == "from" }
		}, "where the records begin"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(c.change)
			err := o.Validate()
			if err == nil {
				_, err = o.Run(t.Context(), io.Discard)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want it to say %q", err, c.says)
			}
		})
	}
}

// TestFleet: without a workload, all of them are replayed as each one would be alone, and
// added up.
func TestFleet(t *testing.T) {
	key := api.Key{Namespace: "shop", Name: "web"}
	plan := api.Plan{Workloads: []api.WorkloadPlan{{Key: key, Sizing: &api.SizingPlan{Saving: 0.01}}, {Key: api.Key{Name: "other"}}}}
	if got := monthly(plan, key); got == nil || math.Abs(*got-7.3) > 1e-9 || monthly(plan, api.Key{Name: "other"}) != nil {
		t.Errorf("saving %v", got)
	}
	o := Options{
		History: History{Records: recordsOf(t, 2, 1), From: "10m", To: "0s", Scale: 1, LoadFactor: 1, Delimiter: ","},
		World: World{
			RequestCPU: 3 * time.Millisecond, Timeout: 5 * time.Second, SLOP95: 200 * time.Millisecond, SLOFailed: 0.01, CPURequest: "100m",
			MemoryRequest: "64Mi", MinReplicas: 1, PoolNames: []string{"e2-standard-2"}, Boot: 75 * time.Second,
		},
		Policies: []string{"COST_SAVING"}, Rivals: []string{"hpa:50", "hpa:60"}, Seed: 1, Seeds: 3,
		Given: func(string) bool { return false },
	}
	if err := o.Validate(); err != nil || !o.Whole() {
		t.Fatal(err)
	}
	all, err := o.RunFleet(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Workloads) != 2 || len(all.Total) != 2 || len(all.Unknown) > 0 || all.Total[1].Scaler != fleetRival {
		t.Fatalf("%d workloads, %+v, %+v", len(all.Workloads), all.Total, all.Unknown)
	}
	var cost, minutes float64
	for _, w := range all.Workloads {
		one := o
		one.Workload, one.Rivals = w.Workload, []string{fleetRival}
		alone, err := one.Run(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		cost += alone.Summary[0].Mean("costUsd")
		minutes += alone.Summary[0].Mean("sloViolationMinutes")
	}
	if got := all.Total[0]; got.Policy != "COST_SAVING" || math.Abs(got.CostUSD-cost) > 1e-9 || got.SLOViolationMinutes != minutes || !(got.PodCostUSD > 0) {
		t.Errorf("%+v, want %g USD and %g minutes", got, cost, minutes)
	}
	// In one cluster they share nodes: about as many pods cost less. Mixing is told beside one pool for all.
	together := all.Together
	if together == nil || together.Workloads != 2 {
		t.Fatalf("together: %+v", together)
	}
	of := func(scaler string) Summary {
		i := slices.IndexFunc(together.Summary, func(s Summary) bool { return s.Scaler == scaler })
		if i < 0 {
			t.Fatalf("%s is not among %+v", scaler, together.Rows())
		}
		return together.Summary[i]
	}
	if rival := of(fleetRival); rival.Mean("costUsd") >= all.Total[1].CostUSD || math.Abs(rival.Mean("podCostUsd")/all.Total[1].PodCostUSD-1) > 0.1 {
		t.Errorf("%s in one cluster: nodes %g and pods %g USD, apart %+v", fleetRival, rival.Mean("costUsd"), rival.Mean("podCostUsd"), all.Total[1])
	}
	m := together.Mixing
	if one, mixed := of(sim.Mash2Any+" COST_SAVING"), of(sim.Mash2Mixed+" COST_SAVING"); m == nil || m.Policy != "COST_SAVING" || math.Abs(m.SavingUSD30Days-(one.CostUSD30Days-mixed.CostUSD30Days)) > 1e-9 {
		t.Errorf("mixing: %+v, of %g and %g USD", m, one.CostUSD30Days, mixed.CostUSD30Days)
	}
	if rows := together.Rows(); len(rows) != 4 || len(rows[0]) != len(together.Header()) || len(together.Sentences()) != 1 {
		t.Errorf("%v %v", rows, together.Sentences())
	}
	if rows := all.Rows(); len(rows) != 3 || rows[2][0] != "all" || len(rows[2]) != len(all.Header()) {
		t.Errorf("%v", rows)
	}
	if all.SizingSavingUSD != nil || strings.Contains(strings.Join(all.Header(), " "), "sizes save") {
		t.Errorf("a saving where nothing is recommended: %v", all.Header())
	}
	all.SizingSavingUSD, all.Workloads[1].SizingSavingUSD = new(12.5), new(12.5)
	if rows := all.Rows(); len(rows[0]) != len(all.Header()) || !slices.Contains(rows[1], "12.50") || !slices.Contains(rows[0], "–") || !slices.Contains(rows[2], "12.50") {
		t.Errorf("%v\n%v", all.Header(), rows)
	}
	o.Namespace = "elsewhere"
	if _, err := o.RunFleet(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "in namespace elsewhere") {
		t.Errorf("a namespace that has none: %v", err)
	}
	o.Namespace = strings.Split(all.Workloads[0].Workload, "/")[0]
	if there, err := o.RunFleet(t.Context(), io.Discard); err != nil || len(there.Workloads) != 2 {
		t.Errorf("%d workloads, %v", len(there.Workloads), err)
	}
	// A rival of the same kind is another one: with the pools that its name says, and no policy of ours.
	o.Rivals, o.Given = []string{sim.Mash2Any}, func(flag string) bool { return flag == "rival" }
	rivals, err := o.RunFleet(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rivals.Together.Rows() {
		t.Log(row)
	}
	if rows := rivals.Together.Rows(); len(rows) != 4 || rows[3][0] != sim.Mash2Any {
		t.Errorf("beside %s: %v", sim.Mash2Any, rows)
	}
	o.Report = t.TempDir()
	if _, err := o.RunFleet(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "name it with --workload") {
		t.Errorf("a report of all: %v", err)
	}
}
