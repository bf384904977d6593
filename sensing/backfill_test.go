package sensing

import (
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

func TestBackfill(t *testing.T) {
	t.Run("in slices under the server's limits, newest first", func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.MaxPoints = 100 })
		w.shop("web", 2)
		got, _ := w.workload("web")
		if n := len(got.Demand.Values); n != 480 {
			t.Errorf("%d samples, want 480", n)
		}
		var last time.Time
		for _, q := range w.asked() {
			if !q.history() {
				continue
			}
			if q.steps > 100 {
				t.Errorf("a query of %d steps", q.steps)
			}
			if !last.IsZero() && !q.to.Before(last) {
				t.Errorf("slice until %v after the one from %v", q.to, last)
			}
			last = q.from
		}
	})
	t.Run("a part that fails is asked for again and loses no other", func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.MaxPoints = 100 })
		w.shop("web", 2)
		broken := epoch.Add(-time.Hour)
		var failing atomic.Bool
		failing.Store(true)
		w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			q := w.queries[len(w.queries)-1]
			if !failing.Load() || q.from.After(broken) || q.to.Before(broken) {
				return false
			}
			rw.WriteHeader(500)
			_, _ = io.WriteString(rw, `{"status":"error","errorType":"internal","error":"corrupt block"}`)
			return true
		})
		w.observe()
		s := w.observe()
		got := s.Workloads[0]
		gaps := 0
		for _, v := range got.Demand.Values {
			if math.IsNaN(v) {
				gaps++
			}
		}
		if len(got.Demand.Values) != 480 || gaps != 100 {
			t.Errorf("%d samples with %d gaps, want 480 and the 100 of the broken part", len(got.Demand.Values), gaps)
		}
		f := findings(s, ReasonBackfilling)
		if len(f) != 1 || !strings.Contains(f[0].Message, "corrupt block") {
			t.Errorf("findings = %v", s.Findings)
		}
		failing.Store(false)
		got, s = w.workload("web")
		for i, v := range got.Demand.Values {
			if math.IsNaN(v) {
				t.Fatalf("sample %d is still a gap", i)
			}
		}
		if len(s.Findings) > 0 {
			t.Errorf("findings = %v", s.Findings)
		}
	})
	t.Run("a part that always fails is given up", func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.MaxPoints, c.BackfillAttempts = 100, 2 })
		w.shop("web", 2)
		w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			if !w.queries[len(w.queries)-1].history() {
				return false
			}
			rw.WriteHeader(500)
			return true
		})
		var s api.Snapshot
		for range 30 {
			s = w.observe()
		}
		if len(findings(s, ReasonBackfilling)) > 0 || len(findings(s, ReasonBackfillIncomplete)) != 1 {
			t.Errorf("findings = %v", s.Findings)
		}
		w.asked()
		w.observe()
		if q := w.asked(); len(q) > 0 {
			t.Errorf("it is still asked for: %+v", q)
		}
	})
	t.Run("a query that is too large is halved until it fits", func(t *testing.T) {
		w := newWorld(t, nil)
		w.shop("web", 2)
		w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			if w.queries[len(w.queries)-1].steps <= 40 {
				return false
			}
			rw.WriteHeader(422)
			_, _ = io.WriteString(rw, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`)
			return true
		})
		var got api.Workload
		for range 20 {
			got, _ = w.workload("web")
		}
		if n := len(got.Demand.Values); n != 480 {
			t.Errorf("%d samples, want 480", n)
		}
	})
	t.Run("what is long ago is read at a quarter of the samples", func(t *testing.T) {
		const day = 24 * 240 // steps
		w := newWorld(t, func(c *Config) { c.History, c.MaxPoints = 24*time.Hour, 1000 })
		pod := w.shop("web", 1)[0].Name
		load := func(at time.Time) float64 { return 2 + math.Sin(2*math.Pi*float64(at.Unix())/3600) }
		w.series = []rateSeries{
			// Half of the time on one node, then on the other; for an hour nobody asks.
			{ns, pod, "node-1", kindDeployment + "/web", func(at time.Time) float64 {
				if at.Unix()/120%2 == 0 || at.Before(epoch.Add(-10*time.Hour)) && at.After(epoch.Add(-11*time.Hour)) {
					return math.NaN()
				}
				return load(at)
			}},
			{ns, pod, "node-1b", kindDeployment + "/web", func(at time.Time) float64 {
				if at.Unix()/120%2 == 1 || at.Before(epoch.Add(-10*time.Hour)) && at.After(epoch.Add(-11*time.Hour)) {
					return math.NaN()
				}
				return load(at)
			}},
		}
		w.put(node("node-1b", "e2"))
		got, _ := w.workload("web")
		asked := 0
		for _, q := range w.asked() {
			if q.history() {
				asked += q.steps
			}
		}
		if n := len(got.Demand.Values); n != day || asked > day/4+3*day/16+100 { // six hours of 24 are read whole
			t.Fatalf("%d samples of %d steps asked for, want %d of about %d", n, asked, day, day/4+3*day/16)
		}
		gaps, worst := 0, 0.0
		for i, v := range got.Demand.Values {
			at := got.Demand.Start.Add(time.Duration(i) * got.Demand.Step)
			if math.IsNaN(v) {
				gaps++
				if at.Before(epoch.Add(-11*time.Hour-time.Minute)) || at.After(epoch.Add(-10*time.Hour+time.Minute)) {
					t.Errorf("a gap at %v", at)
				}
				continue
			}
			worst = max(worst, math.Abs(v-500*load(at)))
		}
		// Between two samples 60 s apart a sine of an hour's period is at most
		// (60 s)²/8 · (2π/3600 s)² = 0.0014 off the line.
		if gaps < 239 || worst > 500*0.0014 {
			t.Errorf("%d gaps, want those of an hour; at worst %v millicores off", gaps, worst)
		}
	})
	t.Run("nodes that nobody remembers are told once", func(t *testing.T) {
		w := newWorld(t, nil)
		w.shop("web", 1)
		w.series = append(w.series, rateSeries{ns, "", "long-gone", kindDeployment + "/web", constant(0.1)})
		got, s := w.workload("web")
		if f := findings(s, ReasonUnknownNodeSpeed); len(f) != 1 || !strings.Contains(f[0].Message, "long-gone") {
			t.Errorf("findings = %v", s.Findings)
		}
		if v := got.Demand.Values[0]; math.Abs(v-300) > 1e-9 { // 400 × 0.5 + 100 × 1
			t.Errorf("oldest sample = %v, want 300", v)
		}
		if s := w.observe(); len(s.Findings) > 0 {
			t.Errorf("told again: %v", s.Findings)
		}
	})
	t.Run("a workload that comes later gets its history", func(t *testing.T) {
		w := newWorld(t, nil)
		w.shop("web", 2)
		w.observe()
		w.clock.Step(w.cfg.Step)
		w.shop("late", 2)
		got, _ := w.workload("late")
		if n := len(got.Demand.Values); n != 480 {
			t.Errorf("%d samples, want 480", n)
		}
	})
}
