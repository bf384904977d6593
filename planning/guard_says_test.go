package planning_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

// A bound says why it binds: people read it in status and Events.
func TestGuardSays(t *testing.T) {
	rising := func(age time.Duration, capacity float64) func(*planning.Subject) {
		return func(s *planning.Subject) {
			s.Memory.Ramps = []planning.Recommendation{{From: ago(age), To: ago(age), Capacity: capacity}}
		}
	}
	recent := func(capacity float64) []planning.Recommendation {
		return []planning.Recommendation{{From: ago(time.Minute), To: ago(time.Minute), Capacity: capacity}}
	}
	pods := func(n int32) []api.ScalingPolicy {
		return []api.ScalingPolicy{{Type: "Pods", Value: n, Period: time.Minute}}
	}
	settled := func(of ...planning.Recommendation) func(*planning.Subject) {
		return func(s *planning.Subject) {
			s.Trusted, s.Memory.Margins.Pod, s.Memory.Recommendations = true, forecast.Growth{Factor: 1.2}, of
		}
	}
	asked := func(age time.Duration, capacity float64) planning.Recommendation {
		return planning.Recommendation{From: ago(age), To: ago(age), Capacity: capacity}
	}
	for name, c := range map[string]struct {
		current, need                int32
		change                       func(*planning.Subject)
		wantLo, wantHi               int32
		wantLoBinding, wantHiBinding api.Binding
		wantLoNote, wantHiNote       string
	}{
		"where margins are known a fall is followed until it has ended": {
			current: 10, need: 2, change: settled(asked(6*time.Minute, 9), asked(4*time.Minute, 8)),
			wantLo: 9, wantLoBinding: "stabilization", wantLoNote: "kept at 9: the largest recommendation of the last 7m0s, until 12:01:00", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"then as much as of late is kept": {
			current: 10, need: 2, change: settled(asked(6*time.Minute, 9), asked(4*time.Minute, 8), asked(2*time.Minute, 8)),
			wantLo: 8, wantLoBinding: "stabilization", wantLoNote: "kept at 8: the largest recommendation of the last 5m0s, until 12:03:00", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"or what is needed, if that is as much": {
			current: 10, need: 8, change: settled(asked(6*time.Minute, 9), asked(4*time.Minute, 8)),
			wantLo: 8, wantLoBinding: "forecast", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"a step of a tenth waits for two windows": {
			current: 10, need: 9, change: settled(asked(8*time.Minute, 12)),
			wantLo: 10, wantLoBinding: "stabilization", wantLoNote: "kept at 10: 9 are within the tolerance, and more were recommended within the last 10m0s", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"a larger one doesn't": {
			current: 10, need: 8, change: settled(asked(8*time.Minute, 12)),
			wantLo: 8, wantLoBinding: "forecast", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"a ramp that asked for as much as was needed of late is not named": {
			current: 9, need: 2, change: func(s *planning.Subject) { s.Memory.Recommendations = recent(7); rising(10*time.Second, 7)(s) },
			wantLo: 7, wantLoBinding: "stabilization", wantLoNote: "kept at 7: the largest recommendation of the last 5m0s, until 12:04:00", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"nor what is needed again, if it is as much": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Trusted, s.Memory.Recommendations = true, []planning.Recommendation{asked(10*time.Second, 7)}
				s.Proposal.Path = append(s.Proposal.Path, api.PathStep{At: start.Add(30 * time.Second), Scale: api.Scale{Replicas: 7}, Need: 7})
			},
			wantLo: 7, wantLoBinding: "stabilization", wantLoNote: "kept at 7: the largest recommendation of the last 30s, until 12:00:20", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"a window of none keeps nothing": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleDown.WindowStated, s.Memory.Recommendations = true, []planning.Recommendation{asked(0, 7)}
			},
			wantLo: 2, wantLoBinding: "forecast", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"a canary may have no more than the maximum": {
			current: 4, need: 6, change: func(s *planning.Subject) { s.Proposal.Floor, s.Band = 15, 0.5 },
			wantLo: 15, wantLoBinding: "floor", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"which binds it, if its own limit is as much": {
			current: 4, need: 6, change: func(s *planning.Subject) { s.Proposal.Floor, s.Band = 10, 1 },
			wantLo: 10, wantLoBinding: "floor", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"none go while an SLO is in doubt": {
			current: 2, need: 0, change: func(s *planning.Subject) {
				s.Workload.MinReplicas, s.Policy.ScaleToZero, s.Proposal.Floor = 0, true, 0
				s.Proposal.Activity, s.Memory.IdleSince, s.Doubt = api.Inactive, ago(time.Hour), "latency is not known to be kept"
			},
			wantLo: 2, wantLoBinding: "slo", wantLoNote: "kept at 2: latency is not known to be kept", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"the minimum": {
			current: 4, need: 1, change: func(s *planning.Subject) { s.Workload.MinReplicas = 3 },
			wantLo: 3, wantLoBinding: "minReplicas", wantLoNote: "raised to the least of 3", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"need at the minimum is need": {
			current: 4, need: 3, change: func(s *planning.Subject) { s.Workload.MinReplicas, s.Policy.MinReplicas = 3, 3 },
			wantLo: 3, wantLoBinding: "forecast", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"a policy's minimum that is the author's is the author's": {
			current: 4, need: 1, change: func(s *planning.Subject) { s.Workload.MinReplicas, s.Policy.MinReplicas = 3, 3 },
			wantLo: 3, wantLoBinding: "minReplicas", wantLoNote: "raised to the least of 3", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"a floor at need is need": {
			current: 4, need: 5, change: func(s *planning.Subject) { s.Proposal.Floor = 5 },
			wantLo: 5, wantLoBinding: "forecast", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"in use there is one, with a minimum of none": {
			current: 1, need: 0, change: func(s *planning.Subject) {
				s.Workload.MinReplicas, s.Policy.ScaleToZero, s.Proposal.Floor = 0, true, 0
				s.Proposal.Activity = api.Active
			},
			wantLo: 1, wantLoBinding: "minReplicas", wantLoNote: "raised to the least of 1", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"the maximum": {
			current: 4, need: 30,
			wantLo: 20, wantLoBinding: "maxReplicas", wantLoNote: "limited to maxReplicas 20", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"what was needed of late": {
			current: 9, need: 2, change: func(s *planning.Subject) { s.Memory.Recommendations = recent(7) },
			wantLo: 7, wantLoBinding: "stabilization", wantLoNote: "kept at 7: the largest recommendation of the last 5m0s, until 12:04:00", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"what a ramp asked for": {
			current: 9, need: 2, change: rising(5*time.Second, 6),
			wantLo: 6, wantLoBinding: "stabilization", wantLoNote: "kept at 6: what a ramp asked for within the last", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"what a ramp asked for is not more than there are": {
			current: 4, need: 2, change: rising(5*time.Second, 6),
			wantLo: 4, wantLoBinding: "stabilization", wantLoNote: "kept at 4: what a ramp", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"what a ramp asked for long ago": {
			current: 9, need: 2, change: rising(10*time.Minute, 6),
			wantLo: 2, wantLoBinding: "forecast", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"with a window of none a ramp keeps nothing": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				rising(0, 6)(s)
				s.Workload.Behavior.ScaleDown.WindowStated = true
			},
			wantLo: 2, wantLoBinding: "forecast", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"of what was needed and what a ramp asked for the larger": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				rising(5*time.Second, 6)(s)
				s.Memory.Recommendations = recent(7)
			},
			wantLo: 7, wantLoBinding: "stabilization", wantLoNote: "the largest recommendation", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"needed again soon": {
			current: 9, need: 2, change: func(s *planning.Subject) {
				s.Trusted = true
				s.Proposal.Path = append(s.Proposal.Path, api.PathStep{At: start.Add(50 * time.Second), Scale: api.Scale{Replicas: 6}})
			},
			wantLo: 6, wantLoBinding: "stabilization", wantLoNote: "kept at 6: needed again within 1m0s", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"slowly down": {
			current: 9, need: 2, change: func(s *planning.Subject) { s.Workload.Behavior.ScaleDown.Policies = pods(3) },
			wantLo: 6, wantLoBinding: "scaleDownRate", wantLoNote: "kept at 6 by the scale-down policies", wantHi: 20, wantHiBinding: "maxReplicas",
		},
		"slowly up": {
			current: 4, need: 12, change: func(s *planning.Subject) { s.Workload.Behavior.ScaleUp.Policies = pods(3) },
			wantLo: 7, wantLoBinding: "scaleUpRate", wantLoNote: "limited to 7 by the scale-up policies",
			wantHi: 7, wantHiBinding: "scaleUpRate", wantHiNote: "limited to 7 by the scale-up policies",
		},
		"up when it has lasted": {
			current: 4, need: 12, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleUp.StabilizationWindow = 5 * time.Minute
				s.Memory.Recommendations = recent(6)
			},
			wantLo: 6, wantLoBinding: "stabilization", wantLoNote: "limited to 6: the smallest recommendation of the last 5m0s",
			wantHi: 6, wantHiBinding: "stabilization", wantHiNote: "limited to 6: the smallest recommendation of the last 5m0s",
		},
		"of two limits upwards at the same number the first is told": {
			current: 4, need: 12, change: func(s *planning.Subject) {
				s.Workload.Behavior.ScaleUp.StabilizationWindow = 5 * time.Minute
				s.Workload.Behavior.ScaleUp.Policies = pods(2)
				s.Memory.Recommendations = recent(6)
			},
			wantLo: 6, wantLoBinding: "stabilization", wantLoNote: "the smallest recommendation", wantHi: 6, wantHiBinding: "stabilization", wantHiNote: "the smallest recommendation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(c.current, c.need)
			if c.change != nil {
				c.change(&s)
			}
			r := planning.Guard{Config: planning.DefaultConfig()}.Range(s)
			if r.Lo.Replicas != c.wantLo || r.Hi.Replicas != c.wantHi || r.Lo.Binding != c.wantLoBinding || r.Hi.Binding != c.wantHiBinding {
				t.Errorf("%d (%s) to %d (%s), want %d (%s) to %d (%s)", r.Lo.Replicas, r.Lo.Binding, r.Hi.Replicas, r.Hi.Binding, c.wantLo, c.wantLoBinding, c.wantHi, c.wantHiBinding)
			}
			for _, note := range []struct{ name, got, want string }{{"least", r.Lo.Note, c.wantLoNote}, {"most", r.Hi.Note, c.wantHiNote}} {
				if (note.got == "") != (note.want == "") || !strings.Contains(note.got, note.want) {
					t.Errorf("of the %s it says %q, want %q", note.name, note.got, note.want)
				}
			}
		})
	}
}

// A workload becomes empty only when nothing has asked for it for its cooldown, as
// far as that is known.
func TestGuardEmpties(t *testing.T) {
	const cooldown = 5 * time.Minute
	for name, c := range map[string]struct {
		current int32
		idle    time.Duration // negative: not idle
		change  func(*planning.Subject)
		want    bool
	}{
		"idle for the cooldown":             {current: 1, idle: cooldown, want: true},
		"not idle long enough":              {current: 1, idle: cooldown - time.Second},
		"nobody knows since when":           {current: 1, idle: -1},
		"empty already":                     {current: 0, idle: -1, want: true},
		"idle, but its demand is not fresh": {current: 1, idle: time.Hour, change: func(s *planning.Subject) { s.Stale = true }},
		"its author wants one":              {current: 1, idle: time.Hour, change: func(s *planning.Subject) { s.Workload.MinReplicas = 1 }},
		"the policy wants one":              {current: 1, idle: time.Hour, change: func(s *planning.Subject) { s.Policy.ScaleToZero = false }},
		"unknown, and there are some":       {current: 1, idle: time.Hour, change: func(s *planning.Subject) { s.Proposal.Activity = api.ActivityUnknown }},
		"unknown, and there are none":       {current: 0, idle: time.Hour, change: func(s *planning.Subject) { s.Proposal.Activity = api.ActivityUnknown }, want: true},
		"in use":                            {current: 1, idle: time.Hour, change: func(s *planning.Subject) { s.Proposal.Activity = api.Active }},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(c.current, 0)
			s.Workload.MinReplicas, s.Workload.Cooldown, s.Policy.ScaleToZero = 0, cooldown, true
			s.Workload.Triggers = []api.Trigger{{Name: "queue", Activates: true}}
			s.Proposal.Activity, s.Proposal.Floor = api.Inactive, 0
			if c.idle >= 0 {
				s.Memory.IdleSince = ago(c.idle)
			}
			if c.change != nil {
				c.change(&s)
			}
			r := planning.Guard{Config: planning.DefaultConfig()}.Range(s)
			if got := r.Lo.Binding == "inactive" && r.Lo.Replicas == 0 && r.Hi.Replicas == 0; got != c.want {
				t.Errorf("emptied is %v, want %v: %+v", got, c.want, r)
			}
			if c.want && (r.Lo.Note == "" || r.Lo.Note != r.Hi.Note) {
				t.Errorf("it says %q and %q", r.Lo.Note, r.Hi.Note)
			}
		})
	}
}

func TestTolerance(t *testing.T) {
	g := planning.Guard{Config: planning.DefaultConfig()}
	if got := g.Tolerance(api.Workload{}); got != g.Config.Tolerance || got <= 0 {
		t.Errorf("without one of its own it is %v, want %v", got, g.Config.Tolerance)
	}
	if got := g.Tolerance(api.Workload{Behavior: api.Behavior{Tolerance: 0.3}}); got != 0.3 {
		t.Errorf("its own is %v, want 0.3", got)
	}
}
