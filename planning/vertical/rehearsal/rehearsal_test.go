package rehearsal

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/planning/vertical"
)

// recorded lets a rule decide for two pods and returns what was read. From the half on, the load
// of the first one is three times what it was.
func recorded(n *Node, seconds, interval int) *Recording {
	n.Rng = rand.New(rand.NewPCG(3, 3))
	n.Cores, n.Config = 4, vertical.DefaultConfig()
	n.Config.Every, n.Config.Stale = time.Duration(interval)*time.Second, time.Minute
	n.Envelope = vertical.Envelope{Budget: 1000, Floor: 50, Ceiling: 1000, Until: epoch.Add(time.Hour)}
	for _, id := range []string{"a", "b"} {
		n.Join(vertical.Pod{ID: id, Limit: 500, Held: 500, Priority: 1})
	}
	r := &Recording{}
	for s := range seconds {
		n.Advance(func(i int) float64 {
			cores := []float64{0.15, 0.2}[i]
			if i == 0 && s >= seconds/2 {
				cores = 0.45
			}
			return cores / n.Work
		})
		if s%interval == 0 {
			r.Add(n.Input(), time.Duration(interval)*time.Second)
			n.Decide(vertical.DefaultRule())
		}
	}
	return r
}

// TestCalibrate: what made the recording is found again.
func TestCalibrate(t *testing.T) {
	for name, c := range map[string]struct {
		node     Node
		interval int
	}{
		"a reading each second":      {Node{Work: 0.008, Slow: 0.3, Gaps: 0.1}, 1},
		"small requests":             {Node{Work: 0.002}, 1},
		"a reading each 15 seconds":  {Node{Work: 0.02, Every: 15}, 1},
		"a decision each 15 seconds": {Node{Work: 0.02, Every: 15}, 15},
	} {
		n := c.node
		w := calibrate(recorded(&n, 1200, c.interval), n.Config)
		if want := max(1, n.Every); w.every != want {
			t.Errorf("%s: a reading each %d s, want %d", name, w.every, want)
		}
		if math.Abs(w.gaps-n.Gaps) > 0.05 || c.interval == 1 && math.Abs(w.slow-n.Slow) > 0.15 {
			t.Errorf("%s: gaps %.2f of %.2f, slow %.2f of %.2f", name, w.gaps, n.Gaps, w.slow, n.Slow)
		}
		if math.Abs(math.Log(w.work/n.Work)) > math.Log(1.6) {
			t.Errorf("%s: a request takes %.4f s, want %.4f", name, w.work, n.Work)
		}
		for _, at := range []struct {
			id         string
			from, to   int
			want, most float64
		}{{"a", 60, 540, 0.15, 0.02}, {"a", 660, 1140, 0.45, 0.05}, {"b", 60, 1140, 0.2, 0.02}} {
			var sum float64
			for s := at.from; s < at.to; s++ {
				sum += w.demand(at.id, s) / float64(at.to-at.from)
			}
			if math.Abs(sum-at.want) > at.most {
				t.Errorf("%s: %s asks for %.3f cores from %d to %d, want %.2f", name, at.id, sum, at.from, at.to, at.want)
			}
		}
	}
}

// TestHeldBack: a pod that used all that it had may have wanted what it used next.
func TestHeldBack(t *testing.T) {
	got := smooth([]level{{1, 0.1, false}, {2, 0.3, true}, {3, 0.3, true}, {4, 0.6, false}, {5, 0.6, false}, {6, 0.1, false}, {7, 0.1, false}})
	for i, want := range []float64{0.1, 0.6, 0.6, 0.6, 0.6, 0.1, 0.1} {
		if got[i].cores != want {
			t.Errorf("%d: %g, want %g", i, got[i].cores, want)
		}
	}
}

// TestRecording: it takes the time and the readings that a rehearsal needs, and begins anew
// after a stop.
func TestRecording(t *testing.T) {
	c := DefaultConfig()
	for name, s := range map[string]struct {
		every, reading time.Duration // of ticks, of readings
		stop           int           // tick before which it was stopped; 0 for none
		want           time.Duration
	}{
		"each second":             {time.Second, time.Second, 0, 5 * time.Minute},
		"readings each half min":  {time.Second, 30 * time.Second, 0, 9*time.Minute + 30*time.Second},
		"ticks each two minutes":  {2 * time.Minute, 30 * time.Second, 0, 38 * time.Minute},
		"stopped at four minutes": {time.Second, time.Second, 240, 5 * time.Minute},
	} {
		r := &Recording{}
		now, begun := time.Unix(999_990, 0), time.Duration(0)
		r.Add(vertical.Input{Time: now}, s.every) // nobody there: nothing begins
		for i := 0; !r.Enough(c); i++ {
			if i > 0 && i == s.stop {
				now = now.Add(time.Hour)
			}
			r.Add(vertical.Input{Time: now, Pods: []vertical.Pod{{ID: "a", Limit: 100, At: now.Truncate(s.reading)}}}, s.every)
			now, begun = now.Add(s.every), begun+s.every
			if begun > 2*time.Hour {
				t.Fatalf("%s: never", name)
			}
		}
		if got := r.Duration(); got != s.want {
			t.Errorf("%s: enough after %v, want %v", name, got, s.want)
		}
	}
	if (&Recording{}).Duration() != 0 {
		t.Error("nothing has a duration")
	}
}

// TestOf: the same planner gains nothing and does not pass, one that starves pods does not, and
// pods that come and go are those of the recording.
func TestOf(t *testing.T) {
	n := Node{Work: 0.01, Slow: 0.2}
	r := recorded(&n, 400, 1)
	c := DefaultConfig()
	same := Of(c, n.Config, r, vertical.DefaultRule(), vertical.DefaultRule(), 1)
	if same.Gain != 0 || same.Passed || math.Abs(same.Error) > 0.05 || same.Over != 399*time.Second {
		t.Errorf("the rule against itself: %+v", same)
	}
	fixed := Of(c, n.Config, r, vertical.Fixed{}, vertical.DefaultThreshold(), 1)
	if text := fixed.String(); !strings.Contains(text, "than the rule (lower bound") || !strings.HasPrefix(text, "in a simulation of the last 7 minutes here") {
		t.Error(text)
	}
	worse := Of(c, n.Config, r, vertical.Threshold{Upper: 2, Lower: 1, Increment: 100}, vertical.DefaultRule(), 1)
	if worse.Passed || worse.Gain >= 0 {
		t.Errorf("one that takes from everybody: %+v", worse)
	}
	// A simulation that is off what was read speaks for nobody.
	for i := range r.ticks {
		for j := range r.ticks[i].Pods {
			r.ticks[i].Pods[j].Limit = 1500 // as if limits had been far above
		}
	}
	c.Error = 0
	if off := Of(c, n.Config, r, vertical.DefaultRule(), vertical.Threshold{Upper: 2, Lower: 1, Increment: 100}, 1); off.Passed || off.Low <= 0 || off.Error == 0 {
		t.Errorf("%+v", off)
	}
	// The second pod is there for the second half only.
	n = Node{Work: 0.01}
	r = recorded(&n, 200, 1)
	for i := range r.ticks[:100] {
		r.ticks[i].Pods = r.ticks[i].Pods[:1]
	}
	w := calibrate(r, n.Config)
	node := Node{Rng: rand.New(rand.NewPCG(1, 1)), Config: n.Config, Work: w.work}
	for _, at := range []struct{ tick, pods int }{{0, 1}, {150, 2}, {50, 1}} {
		if w.prepare(&node, at.tick); len(node.Pods) != at.pods || len(node.States) != at.pods {
			t.Errorf("tick %d has %d pods", at.tick, len(node.Pods))
		}
	}
}

// BenchmarkOf: a rehearsal of five minutes with 3 and with 200 pods.
func BenchmarkOf(b *testing.B) {
	for _, pods := range []int{3, 200} {
		b.Run(strconv.Itoa(pods), func(b *testing.B) {
			r := &Recording{}
			n := Node{Rng: rand.New(rand.NewPCG(1, 1)), Cores: 64, Config: vertical.DefaultConfig(), Work: 0.01}
			n.Envelope = vertical.Envelope{Budget: int64(300 * pods), Floor: 50, Ceiling: 1000, Until: epoch.Add(time.Hour)}
			for i := range pods {
				n.Join(vertical.Pod{ID: strconv.Itoa(i), Limit: 300, Held: 300, Priority: 1})
			}
			for range 301 {
				n.Advance(func(int) float64 { return 15 })
				r.Add(n.Input(), time.Second)
				n.Decide(vertical.DefaultRule())
			}
			for b.Loop() {
				Of(DefaultConfig(), n.Config, r, vertical.DefaultThreshold(), vertical.DefaultRule(), 1)
			}
		})
	}
}
