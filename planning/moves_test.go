package planning_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/forecast"
)

// counted counts what is asked of a forecaster, and fails for one series.
type counted struct {
	ahead
	updates, forecasts *int
	fails              string
}

func (c counted) Update(s forecast.State, series api.Series, n int) (forecast.State, error) {
	*c.updates++
	if c.fails != "" && len(series.Values) > 0 && series.Values[0] < 300 {
		return s, errors.New(c.fails)
	}
	return c.ahead.Update(s, series, n)
}

func (c counted) Forecast(s forecast.State, series api.Series, n int, levels []float64) (api.Forecast, error) {
	*c.forecasts++
	return c.ahead.Forecast(s, series, n, levels)
}

// While a move is refused, forecasts are made once a cycle, and the plan is that of
// a policy which has only the pool that workloads stay on.
func TestARefusedMovePredictsOnce(t *testing.T) {
	var updates, forecasts int
	f := counted{ahead: ahead{900}, updates: &updates, forecasts: &forecasts, fails: "no fit"}
	w := newWorld(t, costSaving(), f)
	for name, demand := range map[string]float64{"cart": 700, "shop": 400, "tiny": 100} {
		w.add(name, 5, 20, time.Hour, constant(demand))
	}
	for range 3 {
		w.cycle() // nodes are there
	}
	closed := performance()
	closed.Disruption.Closed = `["0 3 * * *"]`
	s := w.snapshot()

	free, _ := w.planner.Plan(s, closed, w.memory)
	if free.Nodes.Pool != fast {
		t.Fatalf("without a check workloads go to %q, want %s", free.Nodes.Pool, fast)
	}
	only := closed
	only.NodePools, only.MachineType = []string{cheap}, ""
	want, wantMemory := w.planner.Plan(s, only, w.memory)

	w.planner.Moves = execution.Preflight
	updates, forecasts = 0, 0
	got, gotMemory := w.planner.Plan(s, closed, w.memory)
	if updates != 3 || forecasts != 2 {
		t.Errorf("%d updates and %d forecasts of three workloads, one of which fails; want 3 and 2", updates, forecasts)
	}
	r := got.Nodes.Refusal
	if r == nil || r.Reason != execution.RefusedWindow || r.Pool != fast || r.Stay != cheap {
		t.Errorf("refused is %+v, want the window, %s and %s", r, fast, cheap)
	}
	want.Nodes.Refusal = r
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the plan is not that of the pool stayed on (-want +got):\n%s", diff)
	}
	if wantMemory.Hash() != gotMemory.Hash() {
		t.Error("what is remembered is not that of the pool stayed on")
	}
	if n := len(slices.DeleteFunc(slices.Clone(got.Findings), func(f api.Finding) bool { return f.Reason != "ForecastFailed" })); n != 1 {
		t.Errorf("the forecast that failed is told %d times", n)
	}
}
