package sensing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// Each pod is in one part, whatever it is called and in however many parts it is asked.
func TestEachPodIsInOnePart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, len(endings)).Draw(t, "parts")
		pod := rapid.OneOf(
			rapid.StringMatching(`[a-z]{1,8}-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}`),
			rapid.StringMatching(`[a-z]{1,8}-[0-9]{1,3}`), rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`),
		).Draw(t, "pod")
		in := 0
		for i := range n {
			if podsAsked(nil, (&prometheus{cfg: Config{CPUMetric: "cpu", NodeLabel: "node", RateWindow: 60e9}}).newestQuery(nil, partOfPods(i, n)...))(pod) {
				in++
			}
		}
		if in != 1 {
			t.Fatalf("%s is in %d of %d parts", pod, in, n)
		}
	})
}

// crowd is a Deployment of so many pods with names that end in all ways.
func (w *world) crowd(n int) {
	w.shop("web", 0)
	w.put(deployment("web", int32(n), "100m"))
	for i := range n {
		p := podOn("web", i, "node-1", epoch.Add(-time.Hour))
		p.Name = strings.TrimSuffix(p.Name, "x") + endings[i%len(endings):][:1]
		p.UID = types.UID(p.Name)
		w.put(p)
		w.series = append(w.series, rateSeries{ns, p.Name, "node-1", kindDeployment + "/web", constant(0.4)})
		w.usage[api.Key{Namespace: ns, Name: p.Name}] = 400
	}
}

// refuses answers for more than so many pods as Prometheus does when it takes too long.
func (w *world) refuses(most int) {
	w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
		q := w.queries[len(w.queries)-1]
		asked, n := podsAsked(w.t, q.query), 0
		for _, s := range w.series {
			if asked(s.pod) {
				n++
			}
		}
		if n <= most || q.history() {
			return false
		}
		rw.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(rw, `{"status":"error","errorType":"timeout","error":"query timed out"}`)
		return true
	})
}

// newestAsked are the cycle's own queries of those asked.
func (w *world) newestAsked() []rangeQuery {
	return slices.DeleteFunc(w.asked(), rangeQuery.history)
}

// An answer that would be too large is asked for in parts, and is the same.
func TestLargeAnswersAreAskedForInParts(t *testing.T) {
	var whole []float64
	for _, c := range []struct {
		name      string
		most      int64
		wantParts int
	}{
		{"small enough", 64 << 20, 1},
		{"four times an eighth", 8 * 200 * (bytesOfPod + 20*bytesOfSample) / 3, 4},
		{"as many as there are", 1 << 14, len(endings)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(cfg *Config) { cfg.MaxResponseBytes = c.most })
			w.crowd(200)
			got, s := w.workload("web")
			if asked := w.newestAsked(); len(asked) != c.wantParts {
				t.Errorf("asked in %d parts, want %d", len(asked), c.wantParts)
			}
			if got.DemandStale || !s.Metrics.Reachable {
				t.Fatalf("stale %v, %+v", got.DemandStale, s.Metrics)
			}
			newest := got.Demand.Values[len(got.Demand.Values)-20:]
			if whole == nil {
				whole = newest
			}
			if !slices.Equal(newest, whole) {
				t.Errorf("demand is %v, want %v", newest, whole)
			}
		})
	}
}

// Where Prometheus takes too long for all pods, it is asked in more parts until it
// doesn't, and the demand is known again; an hour later in fewer.
func TestAQueryThatTakesTooLongIsAskedInParts(t *testing.T) {
	w := newWorld(t, nil)
	w.crowd(200)
	w.refuses(60)
	got, s := w.workload("web")
	if s.Metrics.Reachable || !got.DemandStale {
		t.Fatalf("nothing was too much: %+v", s.Metrics)
	}
	if want := "asked in one part and is asked in more"; !strings.Contains(s.Metrics.Error, want) {
		t.Errorf("it says %q, want %q in it", s.Metrics.Error, want)
	}
	cycles := 0
	for ; got.DemandStale; cycles++ {
		if cycles == 6 {
			t.Fatalf("demand is still not known: %s", s.Metrics.Error)
		}
		w.clock.Step(w.cfg.Step)
		got, s = w.workload("web")
	}
	if last := len(got.Demand.Values) - 1; got.Demand.Values[last] != 200*0.4*1000*0.5 {
		t.Errorf("demand is %v", got.Demand.Values[last])
	}
	w.asked()
	w.refuses(1000)
	w.clock.Step(w.cfg.Step)
	w.observe()
	before := len(w.newestAsked())
	for range goodCycles {
		w.clock.Step(w.cfg.Step)
		w.observe()
	}
	w.asked()
	w.clock.Step(w.cfg.Step)
	if got, _ = w.workload("web"); got.DemandStale {
		t.Error("demand is stale an hour later")
	}
	if after := len(w.newestAsked()); before < 4 || after != before/2 {
		t.Errorf("asked in %d parts, an hour later in %d, want half as many", before, after)
	}
}

// A part that is not answered leaves no demand of some pods only.
func TestAPartThatFailsIsNoAnswer(t *testing.T) {
	w := newWorld(t, nil)
	w.crowd(200)
	w.demand.parts.finer = 3
	last := regexp.MustCompile(`pod!~`)
	w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
		if !last.MatchString(w.queries[len(w.queries)-1].query) {
			return false
		}
		http.Error(rw, "no", http.StatusInternalServerError)
		return true
	})
	got, s := w.workload("web")
	if s.Metrics.Reachable || !got.DemandStale {
		t.Errorf("a part of the pods counts as all of them: %+v, %v", s.Metrics, fmt.Sprint(got.Demand.Last()))
	}
}

// metrics.k8s.io is read in the form that it has.
func TestUsageIsReadInEitherForm(t *testing.T) {
	for _, protobuf := range []bool{false, true} {
		w := newWorld(t, nil)
		w.protobuf = protobuf
		w.shop("web", 3)
		got, s := w.workload("web")
		if got.Usage == nil || got.Usage.Pods != 3 || got.Usage.MilliCPU != 600 || !s.ResourceMetrics.Reachable {
			t.Errorf("protobuf %v: usage is %+v, %+v", protobuf, got.Usage, s.ResourceMetrics)
		}
		if (w.inProtobuf > 0) != protobuf {
			t.Errorf("protobuf %v: answered so %d times", protobuf, w.inProtobuf)
		}
	}
}

// Pods are in order of key, whichever come and go, and each is found at its place.
func TestPodOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var order podOrder
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,4}`), 0, 12, rapid.ID[string])
		for range rapid.IntRange(1, 5).Draw(t, "looks") {
			var pods []*podRecord
			for _, name := range names.Draw(t, "names") {
				pods = append(pods, &podRecord{identity: identity{key: api.Key{Namespace: ns, Name: name}}})
			}
			want := slices.SortedFunc(slices.Values(pods), func(a, b *podRecord) int { return compareKeys(a.key, b.key) })
			at := order.sort(pods)
			if !slices.Equal(pods, want) {
				t.Fatalf("not in order: %v", pods)
			}
			for i, p := range pods {
				if got, there := at.of(p.key); !there || got != int32(i) {
					t.Fatalf("%s is at %d (%v), not %d", p.key, got, there, i)
				}
			}
		}
	})
}

// What follows from an answer that was not read, and from many that were.
func TestParts(t *testing.T) {
	for pods, want := range map[int]int{0: 1, 10_000: 1, 50_000: 2, 150_000: 6, 1_000_000: len(endings)} {
		if got := (&parts{}).count(pods, 4, 64<<20); got != want {
			t.Errorf("four steps of %d pods in %d parts, want %d", pods, got, want)
		}
	}
	late := fmt.Errorf("asking: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		before, after parts
		asked         int
		err           error
		wantText      bool
	}{
		"too much":                        {parts{0, 7}, parts{1, 0}, 1, late, true},
		"too much again":                  {parts{1, 0}, parts{3, 0}, 2, late, true},
		"too large":                       {parts{0, 0}, parts{1, 0}, 4, fmt.Errorf("asking: %w", errTooLarge), true},
		"one fewer than there are":        {parts{3, 0}, parts{7, 0}, len(endings) - 1, late, true},
		"in as many parts as there are":   {parts{3, 5}, parts{0, 0}, len(endings), late, true},
		"it is not there":                 {parts{1, 9}, parts{1, 0}, 2, errors.New("connection refused"), false},
		"many good cycles, whole":         {parts{0, goodCycles - 1}, parts{0, 0}, 1, nil, false},
		"many good cycles, twice as many": {parts{1, goodCycles - 1}, parts{0, 0}, 2, nil, false},
		"many good cycles, four times":    {parts{3, goodCycles - 1}, parts{1, 0}, 4, nil, false},
		"not enough of them":              {parts{3, goodCycles - 2}, parts{3, goodCycles - 1}, 4, nil, false},
	} {
		p, text := c.before, ""
		if c.err != nil {
			text = p.failed(newest{parts: c.asked, err: c.err})
		} else {
			p.held()
		}
		if p != c.after || (text != "") != c.wantText {
			t.Errorf("%s: %+v, %q; want %+v", name, p, text, c.after)
		}
	}
}

// Warnings of several parts are told once, and where nobody is managed nothing is asked.
func TestWarningsOfParts(t *testing.T) {
	w := newWorld(t, nil)
	w.demand.parts.finer = 3
	w.observe()
	if asked := w.asked(); len(asked) > 0 {
		t.Errorf("asked %v without a workload", asked)
	}
	w.crowd(20)
	w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
		which := ""
		if strings.Contains(w.queries[len(w.queries)-1].query, "pod!~") {
			which = `,"another one"`
		}
		_, _ = io.WriteString(rw, `{"status":"success","warnings":["a warning"`+which+`],"data":{"resultType":"matrix","result":[]}}`)
		return true
	})
	w.clock.Step(w.cfg.Step)
	got := findings(w.observe(), ReasonPrometheusWarning)
	if len(got) != 1 || got[0].Message != "a warning; another one" {
		t.Errorf("findings %v", got)
	}
}

// inFlight counts requests that are not answered yet.
type inFlight struct{ now, most atomic.Int32 }

func (f *inFlight) RoundTrip(r *http.Request) (*http.Response, error) {
	n := f.now.Add(1)
	defer f.now.Add(-1)
	for most := f.most.Load(); n > most && !f.most.CompareAndSwap(most, n); most = f.most.Load() {
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Not all parts are asked for at once, nor for as long as each may take together.
func TestPartsTakeTheirTurns(t *testing.T) {
	flight := &inFlight{}
	w := newWorld(t, func(c *Config) {
		c.PrometheusTransport = flight
		c.QueryTimeout = time.Second
	})
	w.crowd(100)
	w.demand.parts.finer = 99
	slow := false
	w.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if slow {
			select {
			case <-time.After(80 * time.Millisecond): // two at a time: four seconds for all
			case <-r.Context().Done():
			}
		}
		return false
	})
	if s := w.observe(); !s.Metrics.Reachable {
		t.Fatal(s.Metrics.Error)
	}
	if most := flight.most.Load(); most != partsAtOnce {
		t.Errorf("%d were asked for at once, want %d", most, partsAtOnce)
	}
	slow = true
	w.clock.Step(w.cfg.Step)
	if s := w.observe(); s.Metrics.Reachable {
		t.Error("all parts together, none of which takes long, take longer than two may")
	}
}

// TestClockAhead: the clock is an hour ahead for one cycle.
func TestClockAhead(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 2)
	truth := epoch
	for i := range w.series {
		w.series[i].rate = func(at time.Time) float64 {
			if at.After(truth) {
				return math.NaN()
			}
			return 0.4
		}
	}
	w.observe()
	truth = epoch.Add(15 * time.Second)
	w.clock.SetTime(truth.Add(time.Hour))
	w.observe()
	for range 20 { // five minutes with the right time
		truth = truth.Add(15 * time.Second)
		w.clock.SetTime(truth)
		w.observe()
	}
	w.asked()
	truth = truth.Add(15 * time.Second)
	w.clock.SetTime(truth)
	got, _ := w.workload("web")
	asked := slices.ContainsFunc(w.asked(), func(q rangeQuery) bool { return !q.history() })
	if _, at, _ := got.Demand.Last(); got.DemandStale || !asked {
		t.Errorf("five minutes after the clock was right again: asked %t, stale %t, newest sample of %v at %v", asked, got.DemandStale, at, truth)
	}
}
