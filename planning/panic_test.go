package planning_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
)

// panicky plans as the horizontal planner does, but for one workload.
type panicky struct{ name string }

func (p panicky) PlanWorkload(in planning.Input) (planning.Proposal, error) {
	if in.Workload.Key.Name == p.name {
		var path []int
		_ = path[in.Workload.Replicas]
	}
	return horizontal.Planner{}.PlanWorkload(in)
}

// panickyForecaster panics when it is asked to learn or to predict the series of one level.
type panickyForecaster struct {
	forecast.Forecaster
	level   float64
	predict bool
}

func (f panickyForecaster) Update(s forecast.State, series api.Series, horizon int) (forecast.State, error) {
	if !f.predict && series.Values[0] == f.level {
		panic("no fit")
	}
	return f.Forecaster.Update(s, series, horizon)
}

func (f panickyForecaster) Forecast(s forecast.State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if f.predict && series.Values[0] == f.level {
		panic("no prediction")
	}
	return f.Forecaster.Forecast(s, series, horizon, levels)
}

func panics(p api.Plan) []api.Finding {
	return slices.DeleteFunc(slices.Clone(p.Findings), func(f api.Finding) bool { return f.Reason != planning.ReasonPanicked })
}

// A planner that panics about one workload holds that one, is told of once, with the
// workload's name and the panic's text but no stack, and the rest is planned as ever.
func TestAPanicOfAPlannerHoldsItsWorkload(t *testing.T) {
	w := newWorld(t, performance(), nil)
	for _, name := range []string{"a", "b", "c"} {
		w.load(name, 2, 10, 0, constant(1500))
	}
	w.settle()
	w.planner.Planners["horizontal"] = panicky{name: "b"}
	var told []string
	w.planner.Panicked = func(what string, workload api.Key, value any, stack []byte) {
		if !strings.Contains(string(stack), "PlanWorkload") {
			t.Errorf("the stack doesn't tell where: %s", stack)
		}
		told = append(told, workload.Name)
	}
	plan := w.cycle()
	for _, wp := range plan.Workloads {
		switch {
		case wp.Key.Name != "b" && (wp.Held || wp.Replicas <= 2):
			t.Errorf("%s is not planned: %d replicas, held %v: %s", wp.Key, wp.Replicas, wp.Held, wp.Reason)
		case wp.Key.Name == "b" && (!wp.Held || wp.Replicas != 2 || !strings.Contains(wp.Reason, "planner horizontal panicked: runtime error: index out of range [2]")):
			t.Errorf("%s is planned, not held: %d replicas, held %v: %s", wp.Key, wp.Replicas, wp.Held, wp.Reason)
		}
	}
	got := panics(plan)
	if len(got) != 1 || got[0].Object != api.ParseRef("workload web/b") || got[0].Severity != api.Warning || strings.Contains(got[0].Message, "goroutine") ||
		!strings.Contains(got[0].Message, "panicked: runtime error: index out of range [2]") {
		t.Errorf("findings %+v", got)
	}
	if len(told) == 0 || slices.ContainsFunc(told, func(name string) bool { return name != "b" }) {
		t.Errorf("told of %v", told)
	}
	w.planner.Planners["horizontal"] = horizontal.Planner{}
	if plan := w.cycle(); len(panics(plan)) > 0 || slices.ContainsFunc(plan.Workloads, func(wp api.WorkloadPlan) bool { return wp.Held }) {
		t.Errorf("held after the planner was mended: %+v", plan.Workloads)
	}
}

// A forecaster that panics about one workload leaves that one to the reactive floor, as
// one that fails does, and is told of.
func TestAPanicOfAForecasterIsNoForecast(t *testing.T) {
	for name, predict := range map[string]bool{"when it learns": false, "when it predicts": true} {
		t.Run(name, func(t *testing.T) {
			last, err := forecast.ByName("naive")
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, performance(), panickyForecaster{Forecaster: last, level: 1234, predict: predict})
			w.load("a", 2, 10, time.Hour, constant(1500))
			w.load("b", 2, 10, time.Hour, constant(1234))
			w.settle()
			plan := w.cycle()
			for _, wp := range plan.Workloads {
				if wp.Held || wp.Replicas <= 2 {
					t.Errorf("%s: %d replicas, held %v: %s", wp.Key, wp.Replicas, wp.Held, wp.Reason)
				}
			}
			if got := panics(plan); len(got) != 1 || got[0].Object != api.ParseRef("workload web/b") || !strings.Contains(got[0].Message, "forecaster panicked: no ") {
				t.Errorf("findings %+v", got)
			}
		})
	}
}
