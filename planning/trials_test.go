package planning_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// trialWorld has five workloads in mode Canary, of which so many have 100 events a second,
// and of these a share that is bad.
func trialWorld(t *testing.T, bad func(name string, now time.Time) float64) *world {
	w := newWorld(t, costSaving(), nil)
	w.policy.Canary = api.CanaryPolicy{Baseline: 10 * time.Minute, Soak: time.Hour}
	for i := range 5 {
		name := fmt.Sprintf("w%d", i)
		l := w.load(name, 8, 20, 2*time.Hour, constant(500+10*float64(i)))
		l.Mode = api.ModeCanary
		l.objective(100, func(now time.Time) float64 { return bad(name, now) })
	}
	w.settle()
	return w
}

func (w *world) trial() *api.CanaryPlan { return w.lastPlan.Workloads[0].Canary }

// acting names the workloads that mash2 acts for.
func (w *world) acting() (names []string) {
	for _, p := range w.lastPlan.Workloads {
		if p.Canary != nil && p.Canary.Acts {
			names = append(names, p.Key.Name)
		}
		if p.Canary != nil && p.Canary.Acts && p.Shadow {
			w.t.Errorf("%s is acted for in Shadow", p.Key)
		}
	}
	return names
}

// phase runs until a trial is in a phase, and returns for how long it ran.
func (w *world) phase(want api.CanaryPhase, within time.Duration) time.Duration {
	w.t.Helper()
	from := w.now
	for w.cycle(); w.trial().Phase != want; w.cycle() {
		if w.now.Sub(from) > within {
			w.t.Fatalf("after %v it is %s: %s", within, w.trial().Phase, w.trial().Waits)
		}
	}
	return w.now.Sub(from)
}

func none(string, time.Time) float64 { return 0 }

// TestCanaryPromoted: nobody acts in the baseline, one of five in the trial, all of them
// after it; whoever is not acted for keeps the replicas that it has.
func TestCanaryPromoted(t *testing.T) {
	w := trialWorld(t, none)
	w.cycle()
	if got := w.trial(); got.Phase != api.CanaryBaseline || len(w.acting()) != 0 {
		t.Fatalf("%+v, acting: %v", got, w.acting())
	}
	if took := w.phase(api.CanaryRunning, 15*time.Minute); took < 9*time.Minute {
		t.Errorf("a baseline of %v", took)
	}
	w.cycle()
	canaries := w.acting()
	if len(canaries) != 1 {
		t.Fatalf("acting for %v", canaries)
	}
	turns := 0
	for w.trial().Phase == api.CanaryRunning {
		before := w.memory
		plan := w.cycle()
		if w.memory.Turned(before) {
			turns++
		}
		for _, l := range w.loads {
			if l.Key.Name != canaries[0] && l.Replicas != 8 && plan.Workloads[0].Canary.Phase == api.CanaryRunning {
				t.Fatalf("%s has %d replicas", l.Key, l.Replicas)
			}
		}
		if w.now.Sub(start) > 6*time.Hour {
			t.Fatalf("not promoted: %s", w.trial().Waits)
		}
	}
	t.Logf("promoted after %v: %s", w.now.Sub(w.trial().Since)+w.trial().Since.Sub(start), w.trial().Waits)
	if got := w.trial(); got.Phase != api.CanaryPromoted || len(w.acting()) != 5 || turns != 1 {
		t.Errorf("%+v, acting for %v, %d turns", got, w.acting(), turns)
	}
	if message(w.lastPlan, planning.ReasonCanaryPromoted) == "" {
		t.Error("nobody is told")
	}
}

// TestCanaryStopped: errors of canaries only stop the trial, and they get back what they
// had; the others were never touched. Another leader knows, and only a person starts again.
func TestCanaryStopped(t *testing.T) {
	w := burningCanary(t)
	w.phase(api.CanaryRunning, 15*time.Minute)
	w.cycle()
	canary := w.acting()[0]
	took := w.phase(api.CanaryStopped, 45*time.Minute)
	t.Logf("stopped %v after it began: %s", took, w.trial().Waits)
	w.cycle()
	for _, l := range w.loads {
		if l.Replicas < 8 {
			t.Errorf("%s has %d replicas", l.Key, l.Replicas)
		}
	}
	for _, p := range w.lastPlan.Workloads {
		if p.Shadow != (p.Key.Name != canary) || p.Canary.Acts {
			t.Errorf("%s: shadow %v", p.Key, p.Shadow)
		}
		if p.Key.Name == canary && p.Binding != api.BindingCanary {
			t.Errorf("bound by %s: %s", p.Binding, p.Reason)
		}
	}
	if w.lastPlan.Rollback != nil {
		t.Error("everybody's plan was taken back")
	}
	// The next leader, a week later.
	body, err := json.Marshal(w.memory)
	if err != nil {
		t.Fatal(err)
	}
	var m planning.Memory
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	w.memory = m.Resumed(w.now, w.now.Add(7*24*time.Hour))
	w.cycle()
	if got := w.trial(); got.Phase != api.CanaryStopped || message(w.lastPlan, planning.ReasonCanaryStopped) == "" {
		t.Fatalf("the next leader: %+v", got)
	}
	w.loads[3].CanaryRestarted = w.now
	w.cycle()
	if got := w.trial(); got.Phase != api.CanaryBaseline {
		t.Errorf("after a person's word: %+v", got)
	}
	w.phase(api.CanaryRunning, 20*time.Minute)
}

// burningCanary is a world in which the SLO of a canary burns after twelve minutes.
func burningCanary(t *testing.T) (w *world) {
	w = trialWorld(t, func(name string, now time.Time) float64 {
		for _, p := range w.lastPlan.Workloads {
			if p.Key.Name == name && p.Canary.Acts && now.Sub(p.Canary.Since) > 12*time.Minute {
				return 0.05
			}
		}
		return 0
	})
	return w
}

// TestCanarySizes: sizes are chosen for canaries only, as replicas are, and only while the trial
// runs. Whoever was handed over, or was a canary, requests what its author wrote.
func TestCanarySizes(t *testing.T) {
	w := burningCanary(t)
	for _, l := range w.loads {
		l.HandedOver = true
		reads := l.change
		l.change = func(l *load, now time.Time) {
			reads(l, now)
			l.Sizing = &api.Sizing{Mode: api.SizingInPlace, Limits: api.LimitsKeep, Admits: true, Containers: []api.ContainerUse{{
				Name: "web", Requests: api.Amounts{MilliCPU: 250, Memory: 1 << 30}, MemoryPeak: 100 << 20, CPUPeak: 80, CPUMean: 60,
				Since: now.Add(-9 * 24 * time.Hour), Until: now,
			}}}
		}
	}
	sized := func() (n int) {
		for _, p := range w.lastPlan.Workloads {
			if acts := p.Sizing.Acts(); acts && !p.Canary.Acts || !acts && p.Sizing.Mode != api.SizingRecommendOnly {
				t.Fatalf("%s, %s in the phase %s: sizes %s", p.Key, p.Canary.Role, p.Canary.Phase, p.Sizing.Mode)
			} else if acts {
				n++
			}
		}
		return n
	}
	for w.cycle(); w.trial().Phase == api.CanaryBaseline; w.cycle() {
		sized()
	}
	canaries := 0
	for ; w.trial().Phase == api.CanaryRunning; w.cycle() {
		canaries = max(canaries, sized())
	}
	if canaries != 1 || w.trial().Phase != api.CanaryStopped || sized() != 0 {
		t.Errorf("%s, after %d canaries with sizes", w.trial().Phase, canaries)
	}
}

// TestTrialOfAgents: what agents left pods less of than their author wrote, pods get back where a trial
// does not let mash2 act.
func TestTrialOfAgents(t *testing.T) {
	w := burningCanary(t)
	for _, l := range w.loads {
		l.HandedOver = true
		reads := l.change
		l.change = func(l *load, now time.Time) {
			reads(l, now)
			l.Agents = &api.Agents{MilliCPU: 900, Floor: 50, Selector: "app=web"}
			l.Sizing = &api.Sizing{Mode: api.SizingOff, Containers: []api.ContainerUse{{Name: "web", Requests: api.Amounts{MilliCPU: 250}, Limits: api.Amounts{MilliCPU: 500}}}}
		}
	}
	acted := 0
	for cycle := range 400 {
		if cycle > 0 && w.trial().Phase == api.CanaryStopped {
			break
		}
		w.cycle()
		for _, p := range w.lastPlan.Workloads {
			if p.Canary.Acts {
				acted++
			}
			if (p.Sizing != nil) == p.Canary.Acts {
				t.Fatalf("%s, %s in the phase %s, acts %t: sizes %+v", p.Key, p.Canary.Role, p.Canary.Phase, p.Canary.Acts, p.Sizing)
			} else if p.Sizing != nil && p.Sizing.Containers[0].Limits.MilliCPU != 500 {
				t.Fatalf("%s gets back %+v", p.Key, p.Sizing.Containers)
			}
		}
	}
	if acted == 0 || w.trial().Phase != api.CanaryStopped {
		t.Errorf("%s, %d canaries acted", w.trial().Phase, acted)
	}
}

// TestCanaryBurns: where mash2 has given something up of a canary, and its objective burns
// while its control's does not, the trial is stopped within a minute, and nobody else's plan
// is taken back. Where the control burns too, no plan is the cause.
func TestCanaryBurns(t *testing.T) {
	for name, all := range map[string]bool{"the canary only": false, "both": true} {
		t.Run(name, func(t *testing.T) {
			var w *world
			var burns time.Time
			w = trialWorld(t, func(name string, now time.Time) float64 {
				if burns.IsZero() || now.Before(burns) || now.Sub(burns) > 30*time.Minute {
					return 0
				}
				for _, p := range w.lastPlan.Workloads {
					if p.Key.Name == name && (all || p.Canary.Acts) {
						return 0.05
					}
				}
				return 0
			})
			w.phase(api.CanaryRunning, 15*time.Minute)
			w.cycle()
			canary := w.acting()[0]
			var shop *load
			for _, l := range w.loads {
				if l.Key.Name == canary {
					shop = l
				}
			}
			for shop.Replicas == 8 {
				if w.cycle(); w.trial().Phase != api.CanaryRunning {
					t.Fatalf("%+v", w.trial())
				}
			}
			burns = w.now
			for w.now.Sub(burns) < 90*time.Minute {
				plan := w.cycle()
				if plan.Rollback != nil {
					t.Fatal("everybody's plan was taken back")
				}
				if w.trial().Phase != api.CanaryRunning {
					break
				}
				if all && w.now.Sub(burns) > 2*time.Minute && w.now.Sub(burns) < 20*time.Minute &&
					!strings.Contains(fmt.Sprint(plan.Findings), "burns as well: no plan is the cause") {
					t.Fatalf("nobody is told: %v", plan.Findings)
				}
			}
			got := w.trial()
			t.Logf("after %v %s: %s", w.now.Sub(burns), got.Phase, got.Waits)
			if all {
				if got.Phase == api.CanaryStopped {
					t.Errorf("mash2 is blamed: %s", got.Waits)
				}
				return
			}
			if got.Phase != api.CanaryStopped || w.now.Sub(burns) > time.Minute+w.period || shop.Replicas < 8 {
				t.Errorf("%v after the errors began: %+v, %d replicas", w.now.Sub(burns), got, shop.Replicas)
			}
		})
	}
}

// TestCanaryHolds: without readings, with too few events, and without a demand that tells
// what canaries cost, nobody is promoted.
func TestCanaryHolds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *load, now time.Time)
		phase  api.CanaryPhase
		says   string
	}{
		"no SLOs":        {func(l *load, _ time.Time) { l.SLOs = nil }, api.CanaryWaiting, "need an SLO each"},
		"missing":        {func(l *load, _ time.Time) { l.SLOs[0].Missing = "gone" }, api.CanaryBaseline, "too little is known of the SLOs before the trial"},
		"too few events": {func(l *load, _ time.Time) { l.SLOs[0].Total = 1 }, api.CanaryBaseline, "too little is known of the SLOs before the trial"},
		"contested":      {func(l *load, _ time.Time) { l.Contested = "an HPA scales it" }, api.CanaryWaiting, "no workload in mode Canary with an SLO can be acted on; w0: an HPA scales it"},
		"missing later on": {func(l *load, now time.Time) {
			if now.After(start.Add(20 * time.Minute)) {
				l.SLOs[0].Missing = "gone"
			}
		}, api.CanaryRunning, "too little is known of the SLOs: "},
		"of no demand": {func(l *load, _ time.Time) { l.DemandStale = true; l.Demand.Values[len(l.Demand.Values)-1] = 0 }, api.CanaryRunning, "what the canaries cost is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			w := trialWorld(t, none)
			for _, l := range w.loads {
				reads := l.change
				l.change = func(l *load, now time.Time) {
					reads(l, now)
					c.change(l, now)
				}
				if name == "of no demand" {
					l.demand = constant(0)
				}
			}
			w.until(start.Add(5 * time.Hour))
			if got := w.trial(); got.Phase != c.phase || !strings.Contains(got.Waits, c.says) {
				t.Errorf("%s: %s", got.Phase, got.Waits)
			}
		})
	}
}

// TestCanaryAtNight: a control that is switched off for the night is its canary's control in the
// morning, and the trial goes on where it was.
func TestCanaryAtNight(t *testing.T) {
	w := trialWorld(t, none)
	off := ""
	for _, l := range w.loads {
		reads := l.change
		l.change = func(l *load, now time.Time) {
			reads(l, now)
			l.Hold, l.HoldReason = "", ""
			if l.Key.Name == off {
				l.Hold, l.HoldReason = "Deployment has 0 replicas", api.ReasonScaledToZero
				l.SLOs[0].Total, l.SLOs[0].Bad = 0, 0
			}
		}
	}
	w.phase(api.CanaryRunning, 15*time.Minute)
	w.cycle()
	canary := w.acting()[0]
	for _, p := range w.lastPlan.Workloads {
		if p.Key.Name == canary {
			off = p.Canary.With
		}
	}
	since := w.trial().Since
	w.until(w.now.Add(2 * time.Hour)) // past its soak
	if got := w.trial(); got.Phase != api.CanaryRunning || !got.Since.Equal(since) || !strings.Contains(got.Waits, "too little is known") {
		t.Fatalf("at night it is %s since %v: %s", got.Phase, got.Since, got.Waits)
	}
	off = ""
	w.phase(api.CanaryPromoted, 3*time.Hour)
}

// TestCanaryPaused: while nothing is written nothing is learnt, and nobody is promoted or
// stopped.
func TestCanaryPaused(t *testing.T) {
	w := trialWorld(t, func(_ string, now time.Time) float64 {
		return map[bool]float64{true: 0.05}[now.After(start.Add(time.Hour))]
	})
	w.phase(api.CanaryRunning, 15*time.Minute)
	w.policy.Canary.Paused = true
	known := w.trial().Known
	w.until(start.Add(6 * time.Hour))
	if got := w.trial(); got.Phase != api.CanaryRunning || !strings.Contains(got.Waits, "paused") || got.Known > known+time.Minute {
		t.Errorf("%+v", got)
	}
}

// TestCanaryWriters: nobody has two writers, and none has none. Who is scaled by somebody
// else is never acted for, passed or not; who was handed over follows the reactive rule.
func TestCanaryWriters(t *testing.T) {
	w := trialWorld(t, none)
	contested, handed := w.loads[0], w.loads[1]
	contested.Contested = "an HPA scales it"
	handed.HandedOver = true
	handed.demand = func(now time.Time) float64 {
		if now.After(start.Add(30 * time.Minute)) {
			return 1400
		}
		return 500
	}
	for w.now.Before(start.Add(5 * time.Hour)) {
		plan := w.cycle()
		if p := plan.Workloads[0]; !p.Shadow || p.Canary.Acts || p.Canary.Role == api.CanaryCanary {
			t.Fatalf("%v: contested, and acted for: %+v", w.now, p.Canary)
		}
		if p := plan.Workloads[1]; p.Shadow || !p.Canary.Acts && p.Replicas < p.Floor {
			t.Fatalf("%v: handed over, and left alone: %d of %d replicas, %+v", w.now, p.Replicas, p.Floor, p.Canary)
		}
	}
	if w.trial().Phase != api.CanaryPromoted || handed.Replicas <= 8 || contested.Replicas != 8 {
		t.Errorf("%s; %d and %d replicas", w.trial().Phase, handed.Replicas, contested.Replicas)
	}
	if !strings.Contains(message(w.lastPlan, api.ReasonConflict), "an HPA scales it; hand it over by mash2 adopt") {
		t.Errorf("nobody is told of the conflict: %v", w.lastPlan.Findings)
	}
}

// TestCanaryBand: a canary has no more than so much above the reactive rule.
func TestCanaryBand(t *testing.T) {
	w := trialWorld(t, none)
	w.policy.Canary.Band, w.policy.MinReplicas = 0.25, 1
	w.policy.Weights = api.Weights{Performance: 1} // would have as many as it may
	w.policy.MaxNodesPerPool = 0
	w.phase(api.CanaryRunning, 15*time.Minute)
	w.until(w.now.Add(30 * time.Minute))
	for _, p := range w.lastPlan.Workloads {
		if p.Canary.Acts {
			if most := (5*p.Floor + 3) / 4; p.Replicas > most || p.Replicas < p.Floor {
				t.Errorf("%s: %d replicas, the reactive rule has %d: %s", p.Key, p.Replicas, p.Floor, p.Reason)
			}
		} else if p.Replicas <= (5*p.Floor+3)/4 {
			t.Errorf("%s: %d replicas without a band, the reactive rule has %d: the band is not tested", p.Key, p.Replicas, p.Floor)
		}
	}
}
