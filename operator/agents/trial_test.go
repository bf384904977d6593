package agents

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/planning/vertical"
)

// TestTrialInTheLoop: a model that starves its pods is stopped by the simulation and never
// touches one. One that is better than the rule passes it, acts in turn with the rule, and is
// trusted.
func TestTrialInTheLoop(t *testing.T) {
	for name, c := range map[string]struct {
		mind    mind
		demand  float64
		trusted bool
		says    []string
	}{
		"one that starves":  {0, 400, false, []string{"readings are recorded,", "later than the rule"}},
		"one that is ahead": {1000, 560, true, []string{"readings are recorded,", "now both act here in turn", "it acts"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{}
			l := newLoop(t, n, func(o *Options) {
				o.Minds[DDPGMind], o.Algorithm = []vertical.Planner{c.mind}, DDPGMind
				o.PodPriorities = map[string]float64{"b": 0.05}
			})
			n.join("a", 300, c.demand)
			n.join("b", 300, 10) // whose part of the rest the rule gives it, too
			acted := map[string]int{}
			says := c.says
			for s := range 12_000 {
				if s%10 == 0 { // load that changes again and again
					n.demand["uid-a"] = c.demand * (0.1 + 0.9*float64(s/10%2))
				}
				l.ticks(t, n, 1)
				if acted[l.last.Mind]++; s < 300 && acted[DDPGMind] > 0 {
					t.Fatalf("the model acted in tick %d", s)
				}
				if len(says) > 0 && strings.Contains(l.last.Trial, says[0]) && l.state().Trial != "" {
					says = says[1:]
				}
			}
			if l.Trusted() != c.trusted || acted["rule:spread"] == 0 || acted[DDPGMind] > 0 != c.trusted {
				t.Errorf("trusted %v, acted %v", l.Trusted(), acted)
			}
			if len(says) > 0 {
				t.Errorf("it never said %q; now %s", says, l.state().Trial)
			}
		})
	}
}

// TestTrialBeginsAnew where a trusted model is demoted: it is simulated again before it acts.
func TestTrialBeginsAnew(t *testing.T) {
	tr := newTrial(1)
	tr.config.Duration, tr.config.Readings = 5*time.Second, 1
	tr.passed = true
	in := vertical.Input{Time: time.Unix(0, 0), Pods: []vertical.Pod{{ID: "a", Limit: 100, Priority: 1}}}
	tick := func(usage float64) bool {
		in.Time = in.Time.Add(time.Second)
		in.Pods[0].Usage, in.Pods[0].At = usage, in.Time
		return tr.learned(in, time.Second)
	}
	learned, was := false, false
	for range 200_000 {
		cost := 95.0 // by the rule
		if learned {
			if cost = 60; was { // until it is trusted, better than the rule; then worse
				cost = 100
			}
		}
		learned = tick(cost)
		was = was || tr.online.Trusted()
		if was && !tr.passed {
			break
		}
	}
	if !was || tr.passed || tr.online.Trusted() {
		t.Fatalf("trusted at some time: %v; it passed: %v", was, tr.passed)
	}
	if tick(95) || !strings.Contains(tr.text(), "readings are recorded,") {
		t.Errorf("it says %q", tr.text())
	}
}

// TestTooManyPods for a recording: the rule goes on, and it is said.
func TestTooManyPods(t *testing.T) {
	tr := newTrial(1)
	in := vertical.Input{Time: time.Unix(0, 0), Pods: make([]vertical.Pod, 1000)}
	for range 250 {
		in.Time = in.Time.Add(time.Second)
		if tr.learned(in, time.Second) {
			t.Fatal("the model acts")
		}
	}
	if got := tr.text(); !strings.Contains(got, "too many pods") {
		t.Error(got)
	}
}
