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

const week = 7 * 24 * time.Hour

// weekly is a load of a day's and a week's season, constant over ten minutes.
func weekly(at time.Time) float64 {
	at = at.Add(-time.Second).Truncate(10 * time.Minute)
	v := 2 + math.Sin(2*math.Pi*float64(at.Unix())/86400)
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		v *= 0.4
	}
	return v
}

// rested waits until the background has ended.
func (w *world) rested() {
	w.t.Helper()
	w.demand.mu.Lock()
	c := w.demand.reading
	w.demand.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case <-c:
	case <-time.After(time.Minute):
		w.t.Fatal("the background does not end")
	}
}

// ofPast tells the queries for the past from those for a history.
func (q rangeQuery) ofPast() bool { return strings.Contains(q.query, "[10m]") }

// pasts are the queries for the past since the last call, and how many others
// there were over history.
func (w *world) pasts() (past []rangeQuery, others int) {
	for _, q := range w.asked() {
		switch {
		case q.ofPast():
			past = append(past, q)
		case q.history():
			others++
		}
	}
	return past, others
}

// pastWorld has one workload of one pod with a weekly load.
func pastWorld(t *testing.T, change func(*Config)) *world {
	w := newWorld(t, func(c *Config) {
		c.Past = 4 * week
		if change != nil {
			change(c)
		}
	})
	w.addWeekly("web")
	return w
}

func (w *world) addWeekly(name string) {
	pod := w.shop(name, 1)[0].Name
	w.series = append(w.series[:len(w.series)-1], rateSeries{ns, pod, "node-1", kindDeployment + "/" + name, weekly})
}

// wantPast checks a past for one of weeks, but for gaps.
func wantPast(t *testing.T, got api.Workload, reach time.Duration) (gaps int) {
	t.Helper()
	p := got.Demand.Past
	if p == nil {
		t.Fatal("there is no past")
	}
	if p.Step != 10*time.Minute || p.End().Before(got.Demand.Start) || epoch.Sub(p.Start) < reach-p.Step || epoch.Sub(p.Start) > reach+p.Step {
		t.Errorf("the past is from %v to %v every %v, want %v up to the history's start %v", p.Start, p.End(), p.Step, reach, got.Demand.Start)
	}
	if size := 8 * cap(p.Values); size > 33<<10 {
		t.Errorf("a past of %d KiB", size>>10)
	}
	for i, v := range p.Values {
		at := p.Start.Add(time.Duration(i) * p.Step)
		if math.IsNaN(v) {
			gaps++
		} else if want := 500 * weekly(at.Add(p.Step)); math.Abs(v-want) > 1e-6 {
			t.Fatalf("the mean of the ten minutes from %v is %v, want %v", at, v, want)
		}
	}
	return gaps
}

// untilPast observes until a workload has its past, for so many cycles at most.
func (w *world) untilPast(name string, most int) (got api.Workload, cycles int) {
	w.t.Helper()
	for cycles = 1; cycles <= most; cycles++ {
		got, _ = w.workload(name)
		if got.Demand.Past != nil {
			return got, cycles
		}
		w.rested()
	}
	w.t.Fatalf("no past after %d cycles", most)
	return got, cycles
}

func TestPast(t *testing.T) {
	t.Run("a query a cycle after all of history, each within the limits", func(t *testing.T) {
		w := pastWorld(t, func(c *Config) { c.MaxPoints = 700 })
		got, _ := w.workload("web")
		if n := len(got.Demand.Values); n != 480 || got.Demand.Past != nil {
			t.Fatalf("%d samples, want 480; past %v", n, got.Demand.Past)
		}
		w.rested()
		var last time.Time
		for cycle := 0; got.Demand.Past == nil; cycle++ {
			past, others := w.pasts()
			if cycle > 0 && others > 0 || len(past) > 1 {
				t.Fatalf("cycle %d asked %d times for the past, %d times for history", cycle, len(past), others)
			}
			for _, q := range past {
				if q.steps > 700 || !last.IsZero() && !q.to.Before(last) {
					t.Errorf("%d steps until %v after those from %v", q.steps, q.to, last)
				}
				last = q.from
			}
			if cycle > 6 { // 4,032 − 12 + 2 steps
				t.Fatal("no past after six cycles")
			}
			got, _ = w.workload("web")
			w.rested()
		}
		if gaps := wantPast(t, got, 4*week); gaps > 0 {
			t.Errorf("%d gaps", gaps)
		}
		w.pasts()
		again, s := w.workload("web")
		w.rested()
		if past, others := w.pasts(); len(past)+others > 0 || again.Demand.Past != got.Demand.Past || len(s.Findings) > 0 {
			t.Errorf("asked again: %v, %d others; findings %v", past, others, s.Findings)
		}
	})
	t.Run("no cycle waits for it", func(t *testing.T) {
		w := pastWorld(t, nil)
		release := make(chan struct{})
		w.answer(func(http.ResponseWriter, *http.Request) bool {
			if w.queries[len(w.queries)-1].ofPast() {
				w.mu.Unlock()
				<-release
				w.mu.Lock()
			}
			return false
		})
		for range 3 { // would wait for ever: the clock stands still
			got, s := w.workload("web")
			if len(got.Demand.Values) != 480 || got.Demand.Past != nil || len(findings(s, ReasonBackfilling)) > 0 {
				t.Errorf("%d samples, findings %v", len(got.Demand.Values), s.Findings)
			}
		}
		close(release)
		got, _ := w.untilPast("web", 3)
		wantPast(t, got, 4*week)
	})
	t.Run("as far back as Prometheus remembers", func(t *testing.T) {
		w := pastWorld(t, nil)
		w.series[0].rate = func(at time.Time) float64 {
			if at.Before(epoch.Add(-2 * week)) {
				return math.NaN()
			}
			return weekly(at)
		}
		got, _ := w.untilPast("web", 3)
		wantPast(t, got, 2*week)
	})
	t.Run("nothing is known of before", func(t *testing.T) {
		w := pastWorld(t, nil)
		w.series[0].rate = func(at time.Time) float64 {
			if at.Before(epoch.Add(-time.Hour)) {
				return math.NaN()
			}
			return weekly(at)
		}
		for range 3 {
			got, _ := w.workload("web")
			if w.rested(); got.Demand.Past != nil {
				t.Errorf("past of %d samples", len(got.Demand.Past.Values))
			}
		}
		w.asked()
		w.observe()
		w.rested()
		if past, _ := w.pasts(); len(past) > 0 {
			t.Errorf("it is still asked for: %v", past)
		}
	})
	t.Run("a part that fails is told, asked for again, and given up", func(t *testing.T) {
		w := pastWorld(t, func(c *Config) { c.MaxPoints, c.BackfillAttempts = 1000, 2 })
		broken := epoch.Add(-2 * week)
		var last api.Snapshot
		told := false
		w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			q := w.queries[len(w.queries)-1]
			if !q.ofPast() || q.from.After(broken) || q.to.Before(broken) {
				return false
			}
			rw.WriteHeader(500)
			_, _ = io.WriteString(rw, `{"status":"error","errorType":"internal","error":"corrupt block"}`)
			return true
		})
		var got api.Workload
		for range 12 {
			got, last = w.workload("web")
			w.rested()
			for _, f := range findings(last, ReasonReadingPast) {
				told = told || strings.Contains(f.Message, "corrupt block")
			}
		}
		if gaps := wantPast(t, got, 4*week); gaps != 1000 || !told {
			t.Errorf("%d gaps, want the 1000 of the broken part; told: %v", gaps, told)
		}
		if len(findings(last, ReasonReadingPast)) > 0 || len(findings(last, ReasonBackfillIncomplete)) != 1 {
			t.Errorf("findings = %v", last.Findings)
		}
	})
	t.Run("a query that is too large is halved until it fits", func(t *testing.T) {
		w := pastWorld(t, nil)
		var refused atomic.Int32
		w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			if q := w.queries[len(w.queries)-1]; !q.ofPast() || q.steps <= 800 {
				return false
			}
			refused.Add(1)
			rw.WriteHeader(422)
			_, _ = io.WriteString(rw, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`)
			return true
		})
		got, _ := w.untilPast("web", 20)
		if gaps := wantPast(t, got, 4*week); gaps > 0 || refused.Load() == 0 {
			t.Errorf("%d gaps, %d queries refused", gaps, refused.Load())
		}
	})
	t.Run("many that come one by one are read together", func(t *testing.T) {
		w := pastWorld(t, func(c *Config) { c.MaxPoints = 700 }) // six queries
		names := []string{"a", "b", "c", "d", "e"}
		total := 0
		for _, name := range names {
			w.observe()
			w.rested()
			w.clock.Step(w.cfg.Step)
			w.addWeekly(name)
		}
		for range 10 {
			w.observe()
			w.rested()
		}
		past, _ := w.pasts()
		total += len(past)
		for _, x := range w.observe().Workloads {
			if x.Demand.Past == nil {
				t.Errorf("%s has no past", x.Key.Name)
			}
		}
		if total > 12 { // of the first, and of all the others
			t.Errorf("%d queries, want 12", total)
		}
	})
	t.Run("recorded series first, the raw ones where there are none", func(t *testing.T) {
		w := pastWorld(t, func(c *Config) { c.RecordedUsage, c.MaxPoints = "mash2:recorded_usage:cores", 1000 })
		w.recorded = map[string]time.Time{"Deployment/web": epoch.Add(-week)}
		got, _ := w.untilPast("web", 20)
		if gaps := wantPast(t, got, 4*week); gaps > 0 {
			t.Errorf("%d gaps", gaps)
		}
		past, _ := w.pasts()
		recorded := 0
		for _, q := range past {
			if q.recorded() {
				recorded++
			}
		}
		if recorded != 1 || len(past) > 6 { // the newest slice, and then no more
			t.Errorf("%d of %d queries for recorded series", recorded, len(past))
		}
	})
	t.Run("none where history reaches as far", func(t *testing.T) {
		w := pastWorld(t, func(c *Config) { c.Past = c.History })
		got, s := w.workload("web")
		w.rested()
		if past, _ := w.pasts(); len(past) > 0 || got.Demand.Past != nil || len(s.Findings) > 0 {
			t.Errorf("asked %v; findings %v", past, s.Findings)
		}
	})
}

// A leader that takes over reads a week of history with the same queries, past or
// not, and knows all that it waits for as early; the past then takes a query a
// cycle. Limits are a hundredth of the default ones for a hundredth of the
// workloads and pods of the failover that is measured (docs/how-to/install.md).
func TestPastDoesNotDelayFailover(t *testing.T) {
	asked := func(past time.Duration) (history, pasts, cycles int) {
		w := newWorld(t, func(c *Config) {
			c.Step, c.RateWindow = 30*time.Second, 2*time.Minute
			c.StaleAfter = 90 * time.Second
			c.History, c.Past = week, past
			c.MaxSamples /= 100
			c.MaxResponseBytes /= 100
		})
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			w.shop(name, 3)
		}
		s := w.observe()
		if len(findings(s, ReasonBackfilling)) > 0 {
			t.Errorf("after the first cycle: %v", s.Findings)
		}
		w.rested()
		of, history := w.pasts()
		pasts = len(of)
		for ; s.Workloads[0].Demand.Past == nil && past > 0; cycles++ {
			if cycles > 40 {
				t.Fatal("no past after 40 cycles, ten minutes")
			}
			s = w.observe()
			w.rested()
			of, others := w.pasts()
			if pasts += len(of); len(of) > 1 || others > 0 {
				t.Errorf("%d queries for the past and %d for history in a cycle", len(of), others)
			}
		}
		return history, pasts, cycles
	}
	without, none, _ := asked(0)
	history, pasts, cycles := asked(4 * week)
	t.Logf("%d queries over history, %d for the past in %d cycles", history, pasts, cycles)
	if history != without || none != 0 {
		t.Errorf("%d queries over history with the past, %d without; %d for no past", history, without, none)
	}
	if pasts == 0 || pasts > 25 {
		t.Errorf("%d queries for three weeks, want about one a day", pasts)
	}
}
