package agents

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/mash2-io/mash2/planning/vertical"
	"github.com/mash2-io/mash2/planning/vertical/rehearsal"
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

// slowly reads as metrics-server does: every so many seconds, the mean of a window, late.
type slowly struct {
	*node
	every, window, late, second int
	past                        map[string][]float64
	last                        map[string]Usage
}

// Read implements Meter. It is asked once a second.
func (s *slowly) Read(ctx context.Context, pods []Pod) (map[string]Usage, error) {
	now, err := s.node.Read(ctx, pods)
	for id, u := range now {
		s.past[id] = append(s.past[id], u.MilliCPU)
	}
	if s.second++; s.second%s.every != 0 {
		return s.last, err
	}
	s.last = map[string]Usage{}
	for id, of := range s.past {
		if end := len(of) - s.late; end > s.window {
			s.last[id] = Usage{MilliCPU: stat.Mean(of[end-s.window:end], nil), At: s.clock.Now().Add(-time.Duration(s.late) * time.Second)}
		}
	}
	return s.last, err
}

// times is a mind that gives pods so many times what they use.
type times float64

func (times) Name() string                       { return DDPGMind }
func (m times) Propose(v *vertical.View) float64 { return float64(m) * v.Usage }

// TestTrialWithSlowReadings: however seldom usage is read, a mind that leaves pods hardly more
// than they use is not trusted, and one that leaves them room where the rule leaves less is.
// Each reading counts for who acted while it was made.
func TestTrialWithSlowReadings(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of CPU")
	}
	const runs = 10
	for name, c := range map[string]struct {
		meter   slowly
		mind    times
		hours   int
		trusted int
	}{
		"worse, each second":      {slowly{every: 1, window: 1}, 1.02, 1, 0},
		"worse, each 60 seconds":  {slowly{every: 60, window: 30, late: 10}, 1.02, 4, 0},
		"better, each second":     {slowly{every: 1, window: 1}, 3, 1, runs},
		"better, each 15 seconds": {slowly{every: 15, window: 10, late: 5}, 3, 8, runs},
	} {
		t.Run(name, func(t *testing.T) {
			trusted := 0
			for seed := range uint64(runs) {
				n := &node{}
				n.join("a", 500, 560)
				n.join("b", 500, 10)
				m := c.meter
				m.node, m.past, m.second = n, map[string][]float64{}, int(seed)*m.every/runs
				l := newLoop(t, n, func(o *Options) {
					o.Meter, o.Seed, o.Stale, o.Algorithm = &m, seed, time.Minute, DDPGMind
					o.Minds[DDPGMind], o.PodPriorities = []vertical.Planner{c.mind}, map[string]float64{"b": 0.05}
				})
				l.trial.passed, l.trial.result = true, &rehearsal.Result{Passed: true} // the simulation is not what is tried here
				for s := 0; s < c.hours*3600 && !l.Trusted(); s++ {
					l.ticks(t, n, 1)
				}
				if l.Trusted() {
					trusted++
				}
			}
			if trusted != c.trusted {
				t.Errorf("trusted in %d of %d, want %d", trusted, runs, c.trusted)
			}
		})
	}
}

// TestReadingsCountOnce: a reading counts when half of the pods have a new one, with the limit
// that the pod had when it came.
func TestReadingsCountOnce(t *testing.T) {
	tr := newTrial(1)
	pod := func(id string, limit int64, read int) vertical.Pod {
		return vertical.Pod{ID: id, Limit: limit, At: start.Add(time.Duration(read) * time.Second)}
	}
	for _, c := range []struct {
		pods []vertical.Pod
		want string
	}{
		{[]vertical.Pod{pod("a", 100, 1), pod("b", 100, 1), {ID: "c"}}, "a 100, b 100"},
		{[]vertical.Pod{pod("a", 150, 1), pod("b", 100, 1), pod("c", 100, 2)}, ""},
		{[]vertical.Pod{pod("a", 150, 1), pod("b", 100, 1), pod("c", 200, 2)}, ""},
		{[]vertical.Pod{{ID: "a"}, pod("b", 110, 3), pod("c", 200, 2)}, "b 110, c 100"},
		{[]vertical.Pod{pod("a", 150, 1), pod("b", 120, 3), pod("c", 200, 2)}, ""}, // a's is the old one
		{nil, ""},
	} {
		var got []string
		for _, p := range tr.renewed(c.pods) {
			got = append(got, fmt.Sprintf("%s %d", p.ID, p.Limit))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%v: %q, want %q", c.pods, got, c.want)
		}
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
