package sensing

import (
	"math"
	"net/http"
	"strings"
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

// An operator that begins long after the collapse doubts it from its first cycle on.
func TestCollapseBeforeTheStart(t *testing.T) {
	w := newWorld(t, nil)
	w.cfg.BackfillWait = time.Second
	w.shop("web", 2)
	for i := range w.series {
		w.series[i].rate = func(at time.Time) float64 {
			if at.Before(epoch.Add(-45 * time.Minute)) {
				return 0.4
			}
			return 0.1
		}
	}
	for range 12 {
		got, s := w.workload("web")
		if s.Time.Sub(epoch) >= 30*time.Second && !got.DemandStale { // its history is known
			t.Errorf("%v after the start demand is believed", s.Time.Sub(epoch))
		}
		w.clock.Step(w.cfg.Step)
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

// One sample that no pod could burn, in the newest answer or in the history, is a gap of
// one sample: it neither reaches the demand nor stands in it until the history ends.
func TestImpossibleSamples(t *testing.T) {
	for name, reads := range map[string]float64{"1e300": 1e300, "a thousand times what its node has": 4000, "infinite": math.Inf(1)} {
		for where, c := range map[string]struct {
			at   time.Duration // of the false sample, from the first cycle on
			gaps int
		}{"newest": {0, 1}, "newest of a running operator": {30 * time.Second, 1}, "history": {-30 * time.Minute, 1}} {
			t.Run(name+" "+where, func(t *testing.T) {
				w := newWorld(t, nil)
				w.cfg.BackfillWait = time.Second
				w.shop("web", 1)
				for i := range w.series {
					w.series[i].rate = func(at time.Time) float64 {
						if at.Equal(epoch.Add(c.at)) {
							return reads
						}
						return 0.4
					}
				}
				told := false
				for range 8 {
					got, s := w.workload("web")
					for _, v := range got.Demand.Values {
						if !math.IsNaN(v) && v > 1000 {
							t.Fatalf("%v: demand of %v", s.Time.Sub(epoch), v)
						}
					}
					told = told || len(findings(s, ReasonImplausible)) > 0
					w.clock.Step(w.cfg.Step)
				}
				got, _ := w.workload("web")
				if got.DemandStale {
					t.Error("demand is stale long after the false sample")
				}
				gaps := 0
				for _, v := range got.Demand.Values {
					if math.IsNaN(v) {
						gaps++
					}
				}
				// The history is read in samples a window apart: one gap there is one window.
				if most := int(2 * w.cfg.RateWindow / w.cfg.Step); gaps > most {
					t.Errorf("%d gaps of %d samples", gaps, len(got.Demand.Values))
				}
				if len(got.Demand.Values) < 100 {
					t.Errorf("%d samples only", len(got.Demand.Values))
				}
				if where != "history" && name != "infinite" && !told {
					t.Error("nothing was told")
				}
			})
		}
	}
}

// A ramp that metrics.k8s.io should see and doesn't is doubted, with both figures.
func TestImplausibleRamp(t *testing.T) {
	w := newWorld(t, nil)
	keys := w.shop("web", 2)
	jump := epoch.Add(20 * w.cfg.Step)
	for i := range w.series {
		w.series[i].rate = func(at time.Time) float64 {
			if at.Before(jump) {
				return 0.2
			}
			return 1.5
		}
	}
	w.mu.Lock()
	for _, k := range keys {
		w.usage[k] = 200
	}
	w.mu.Unlock()
	for range 20 {
		if got, s := w.workload("web"); got.DemandStale || len(s.Findings) > 0 {
			t.Fatalf("%v: stale %v, findings %v", s.Time.Sub(epoch), got.DemandStale, s.Findings)
		}
		w.clock.Step(w.cfg.Step)
	}
	var doubted int
	for range 10 {
		got, s := w.workload("web")
		if f := findings(s, ReasonImplausible); got.DemandStale != (len(f) == 1) || len(f) == 1 && !strings.Contains(f[0].Message, "cores, than metrics.k8s.io, 0.") {
			t.Fatalf("%v: stale %v, findings %v", s.Time.Sub(jump), got.DemandStale, s.Findings)
		}
		if got.DemandStale {
			doubted++
		}
		w.clock.Step(w.cfg.Step)
	}
	if doubted < 6 {
		t.Errorf("doubted in %d cycles of 10", doubted)
	}
	w.mu.Lock()
	for _, k := range keys { // the second source sees it as well
		w.usage[k] = 1500
	}
	w.mu.Unlock()
	if got, _ := w.workload("web"); got.DemandStale {
		t.Error("still in doubt, though both sources agree")
	}
}
