package sensing

import (
	"net/http"
	"testing"
	"time"
)

func TestImplausibleCollapse(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"a", "b", "c"} {
		w.shop(name, 2)
	}
	collapse := epoch.Add(20 * w.cfg.Step)
	for i := range w.series {
		w.series[i].rate = func(at time.Time) float64 {
			if at.Before(collapse) {
				return 0.4
			}
			return 0
		}
	}
	for !w.clock.Now().Equal(collapse) {
		s := w.observe()
		if len(s.Findings) > 0 {
			t.Fatalf("before the collapse: %v", s.Findings)
		}
		w.clock.Step(w.cfg.Step)
	}
	for range 400 { // longer than any memory of how it was before
		s := w.observe()
		if n := len(findings(s, ReasonImplausible)); n != 3 {
			t.Fatalf("%v: %d findings, want one per workload: %v", s.Time.Sub(collapse), n, s.Findings)
		}
		for _, x := range s.Workloads {
			if !x.DemandStale {
				t.Fatalf("%v: demand of %s is believed", s.Time.Sub(collapse), x.Key)
			}
		}
		w.clock.Step(w.cfg.Step)
	}
	// The other source agrees: the load is gone indeed.
	for key := range w.usage {
		w.usage[key] = 1
	}
	s := w.observe()
	for _, x := range s.Workloads {
		if x.DemandStale {
			t.Errorf("demand of %s is stale though both sources agree", x.Key)
		}
	}
	if f := findings(s, ReasonImplausible); len(f) > 0 {
		t.Errorf("findings = %v", f)
	}
}

// A ramp that the second source, with its shorter window, sees earlier.
func TestRampIsNotImplausible(t *testing.T) {
	w := newWorld(t, nil)
	keys := w.shop("web", 2)
	ramp := func(at time.Time) float64 { // +10 % of the start per step
		return 0.1 * (1 + 0.1*max(0, at.Sub(epoch).Seconds()/15))
	}
	for i := range w.series {
		w.series[i].rate = ramp
	}
	for range 20 {
		w.mu.Lock()
		for _, k := range keys {
			w.usage[k] = int64(2500 * ramp(w.clock.Now()))
		}
		w.mu.Unlock()
		got, s := w.workload("web")
		if s.Time.Sub(epoch) < 2*w.cfg.RateWindow && (got.DemandStale || len(s.Findings) > 0) {
			t.Errorf("after %v: stale %v, findings %v", s.Time.Sub(epoch), got.DemandStale, s.Findings)
		}
		if s.Time.Sub(epoch) >= w.cfg.ImplausibleFor && (!got.DemandStale || len(findings(s, ReasonImplausible)) != 1) {
			t.Errorf("after %v, too long for a ramp: stale %v, findings %v", s.Time.Sub(epoch), got.DemandStale, s.Findings)
		}
		w.clock.Step(w.cfg.Step)
	}
}

// A load that was low for a while and comes back: the second source, with its
// shorter window, sees it first, however recent the fall.
func TestReturnOfLoadIsNotImplausible(t *testing.T) {
	w := newWorld(t, nil)
	keys := w.shop("web", 2)
	low, back := epoch.Add(20*w.cfg.Step), epoch.Add(26*w.cfg.Step)
	load := func(at time.Time) float64 {
		if at.Before(low) || !at.Before(back) {
			return 0.4
		}
		return 0.01
	}
	for i := range w.series {
		w.series[i].rate = func(at time.Time) float64 { return load(at.Add(-w.cfg.RateWindow / 2)) }
	}
	for now := w.clock.Now(); now.Before(back.Add(10 * w.cfg.Step)); now = w.clock.Now() {
		w.mu.Lock()
		for _, k := range keys {
			w.usage[k] = int64(1000 * load(now))
		}
		w.mu.Unlock()
		got, s := w.workload("web")
		if got.DemandStale || len(s.Findings) > 0 {
			t.Errorf("%v after the load is back: stale %v, findings %v", now.Sub(back), got.DemandStale, s.Findings)
		}
		w.clock.Step(w.cfg.Step)
	}
}

// While Prometheus is away its old samples say nothing against it.
func TestOldSamplesAreNotImplausible(t *testing.T) {
	w := newWorld(t, nil)
	keys := w.shop("web", 2)
	w.observe()
	w.clock.Step(w.cfg.Step)
	w.observe()
	w.prometheus = func(rw http.ResponseWriter, _ *http.Request) bool {
		http.Error(rw, "gone", http.StatusBadGateway)
		return true
	}
	for range 40 {
		w.mu.Lock()
		for _, k := range keys {
			w.usage[k] = 5000
		}
		w.mu.Unlock()
		w.clock.Step(w.cfg.Step)
		got, s := w.workload("web")
		if f := findings(s, ReasonImplausible); len(f) > 0 && s.Time.Sub(epoch) > w.cfg.StaleAfter+2*w.cfg.Step {
			t.Fatalf("%v: %v", s.Time.Sub(epoch), f)
		}
		if s.Time.Sub(epoch) > 2*w.cfg.StaleAfter && !got.DemandStale {
			t.Errorf("%v: demand is believed", s.Time.Sub(epoch))
		}
	}
}
