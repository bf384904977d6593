package sensing

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/demand"
	"github.com/mash2-io/mash2/parallel"
)

// Looking at one workload that panics holds that one, with its name and the panic's text
// but no stack, and the others are sensed as ever.
func TestAPanicHoldsItsWorkload(t *testing.T) {
	var told []string
	w := newWorld(t, func(c *Config) {
		c.Panicked = func(what string, workload api.Key, value any, stack []byte) {
			if !strings.Contains(string(stack), "gather") {
				t.Errorf("the stack doesn't tell where: %s", stack)
			}
			told = append(told, workload.Name)
		}
	})
	for _, name := range []string{"a", "b", "c"} {
		mw := managed(name)
		mw.Spec.CountRequests = v1alpha1.CountTemplate
		w.put(mw, deployment(name, 2, "100m"))
	}
	// A record as only a defect makes it.
	sound := w.caches.view().targets[targetID{ns, kindDeployment, "b"}]
	broken := *sound
	broken.template = nil
	store := w.caches.informers[kindDeployment].GetStore()
	if err := store.Update(&broken); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "", "b": HoldPanicked, "c": ""} {
		got, _ := w.workload(name)
		if got.HoldReason != want || got.Replicas != 2 {
			t.Errorf("%s: held for %q, want %q, %d replicas: %s", name, got.HoldReason, want, got.Replicas, got.Hold)
		}
		if want != "" && (!strings.Contains(got.Hold, "sensing panicked: runtime error") || strings.Contains(got.Hold, "goroutine")) {
			t.Errorf("%s: %q", name, got.Hold)
		}
	}
	if strings.Join(told, " ") != "b b b" {
		t.Errorf("told of %v in three looks", told)
	}
	if err := store.Update(sound); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.workload("b"); got.HoldReason != "" {
		t.Errorf("still held for %s: %s", got.HoldReason, got.Hold)
	}
}

// What panics beside the cycle is the cycle's panic, which its loop answers for, and never the
// end of the process; an answer that breaks its reader is none.
func TestAPanicBesideIsTheCycles(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 2)
	w.observe()
	startups := w.Observer.pods
	w.Observer.pods = nil
	func() {
		defer func() {
			value := recover()
			if where := string(parallel.Stack(value)); value == nil || !strings.Contains(where, "podStartups") {
				t.Errorf("recovered %v of\n%s", value, where)
			}
		}()
		w.clock.Step(w.cfg.Step)
		_, err := w.Observe(t.Context())
		t.Errorf("no panic, %v", err)
	}()
	w.Observer.pods = startups
	w.clock.Step(w.cfg.Step)
	if got, s := w.workload("web"); got.DemandStale || got.Usage == nil || !s.Metrics.Reachable {
		t.Errorf("after a panic: %+v, %+v", got, s.Metrics)
	}
	w.clock.Step(w.cfg.Step)
	now := w.clock.Now()
	broken := w.caches.view()
	broken.podAt.place = nil // where an index tells that there are some
	if n := w.Observer.demand.fetch(t.Context(), now, []string{ns}, broken); n.err == nil || !strings.Contains(n.err.Error(), "panicked") {
		t.Errorf("an answer that breaks its reader: %v", n.err)
	}
}

// A series that is null is none, whatever asks for it beside the cycle.
func TestSeriesThatIsNullIsNoAnswer(t *testing.T) {
	w, _, _ := triggered(t, v1alpha1.Trigger{
		Name: "jobs", Type: v1alpha1.TriggerPrometheus, Target: averageValue("5"),
		Prometheus: &v1alpha1.PrometheusTrigger{Query: `sum(jobs_waiting{queue="mail"})`},
	})
	w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if newest := strings.HasPrefix(r.Form.Get("query"), "sum by (namespace, pod"); newest {
			return false
		}
		kind := "matrix"
		if strings.HasSuffix(r.URL.Path, "/query") {
			kind = "vector"
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"status":"success","data":{"resultType":"`+kind+`","result":[null]}}`)
		return true
	})
	const want = "the answer has a series that is null"
	for range 2 { // the second tells what came of the first
		got, s := w.workload("web")
		if missing := got.Triggers[0].Missing; !strings.Contains(missing, want) {
			t.Errorf("of the trigger %q, want %q", missing, want)
		}
		if f := findings(s, ReasonBackfilling); len(f) != 1 || !strings.Contains(f[0].Message, want) {
			t.Errorf("of the history %v, want %q", f, want)
		}
		w.clock.Step(w.cfg.Step)
	}
	if _, err := w.Observer.readings.prom.one(t.Context(), "vector(1)", w.clock.Now()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("of one value %v, want %q", err, want)
	}
}

// What breaks its reader in the background is asked for again, is told with its stack, and ends
// neither the process nor what comes after it.
func TestAPanicInTheBackgroundIsNoAnswer(t *testing.T) {
	var told []string
	w := newWorld(t, func(c *Config) {
		c.BackfillAttempts = 2
		c.Panicked = func(what string, _ api.Key, value any, stack []byte) {
			if !strings.Contains(string(stack), "TestAPanicInTheBackground") {
				t.Errorf("the stack doesn't tell where: %s", stack)
			}
			told = append(told, what)
		}
	})
	w.shop("web", 2)
	w.Observer.demand.backfill.keep = func(targetID, *demand.Folding) { panic("a sample of 1970") }
	for _, want := range []string{ReasonBackfilling, ReasonBackfillIncomplete} {
		if f := findings(w.observe(), want); len(f) != 1 {
			t.Errorf("%d findings %s, want one", len(f), want)
		}
		w.clock.Step(w.cfg.Step)
	}
	if len(told) == 0 || told[0] != "the history of usage" {
		t.Errorf("told of %q", told)
	}
	state, done := &triggerState{busy: true}, make(chan struct{})
	w.Observer.readings.ask(t.Context(), state, trigger{name: "jobs"}, ns, false, func(context.Context) error { panic("no series") }, done)
	<-done
	if state.busy || state.err == nil || !strings.Contains(state.err.Error(), "reading it panicked: no series") {
		t.Errorf("busy %v, %v", state.busy, state.err)
	}
}
