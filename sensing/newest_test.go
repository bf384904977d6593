package sensing

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
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
				if at[p.key] != int32(i) {
					t.Fatalf("%s is at %d, not %d", p.key, at[p.key], i)
				}
			}
		}
	})
}
