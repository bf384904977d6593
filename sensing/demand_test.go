package sensing

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
)

func TestDemandIsReadOnceAndThenOnlyTheNewestSteps(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 3)

	got, s := w.workload("web")
	// 3 pods × 0.4 cores × 1000 × speed 0.5.
	const want = 600.0
	if n := len(got.Demand.Values); n != 480 { // 2 h of 15 s
		t.Errorf("%d samples after the first cycle, want the whole history of 480", n)
	}
	for i, v := range got.Demand.Values {
		if math.Abs(v-want) > 1e-9 {
			t.Fatalf("sample %d = %v, want %v", i, v, want)
		}
	}
	if !got.Demand.End().Equal(epoch) || got.DemandStale {
		t.Errorf("end %v stale %v, want %v and fresh", got.Demand.End(), got.DemandStale, epoch)
	}
	if !s.Metrics.Reachable || !s.Metrics.LastOK.Equal(epoch) {
		t.Errorf("metrics health = %+v", s.Metrics)
	}
	if got.Usage == nil || got.Usage.MilliCPU != want || got.Usage.Pods != 3 {
		t.Errorf("usage = %+v, want %v millicores of 3 pods", got.Usage, want)
	}
	if got.SpeedNow != 0.5 || got.ReadyReplicas != 3 || got.Replicas != 3 {
		t.Errorf("speed %v ready %d replicas %d", got.SpeedNow, got.ReadyReplicas, got.Replicas)
	}

	w.asked()
	w.clock.Step(w.cfg.Step)
	got, _ = w.workload("web")
	if q := w.asked(); len(q) != 1 || q[0].steps != 1+w.cfg.Overlap {
		t.Errorf("second cycle asked %+v, want one query of %d steps", q, 1+w.cfg.Overlap)
	}
	if want := epoch.Add(w.cfg.Step); !got.Demand.End().Equal(want) {
		t.Errorf("end = %v, want %v", got.Demand.End(), want)
	}
	w.clock.Step(w.cfg.Step / 3)
	w.observe()
	if q := w.asked(); len(q) != 0 {
		t.Errorf("a cycle within the same step asked %+v", q)
	}
}

// What Prometheus may do wrong: the cycle goes on, says so, and no workload is
// taken for idle.
func TestPrometheusFaults(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	matrix := func(series string) string {
		return `{"status":"success","data":{"resultType":"matrix","result":[` + series + `]}}`
	}
	tests := map[string]struct {
		prometheus func(http.ResponseWriter, *http.Request) bool
		wantReason string
		wantInText string
	}{
		"it refuses our credentials":     {answer(401, "who are you"), ReasonPrometheusUnreachable, "401"},
		"a proxy answers for it":         {answer(200, "<html>please log in</html>"), ReasonPrometheusUnreachable, ""},
		"it answers an object":           {answer(200, `{"status":"success","data":{}}`), ReasonPrometheusUnreachable, ""},
		"it answers nothing":             {answer(200, ``), ReasonPrometheusUnreachable, ""},
		"it answers null":                {answer(200, `null`), ReasonPrometheusUnreachable, ""},
		"it answers a scalar":            {answer(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`), ReasonPrometheusUnreachable, ""},
		"it answers a vector":            {answer(200, `{"status":"success","data":{"resultType":"vector","result":[]}}`), ReasonPrometheusUnreachable, ""},
		"the answer is cut":              {answer(200, `{"status":"success","data":{"resultType":"matrix","result":[{"met`), ReasonPrometheusUnreachable, ""},
		"its query engine is overloaded": {answer(503, `{"status":"error","errorType":"timeout","error":"query timed out"}`), ReasonPrometheusUnreachable, "timed out"},
		"the answer is enormous": {func(w http.ResponseWriter, _ *http.Request) bool {
			for range 64 {
				_, _ = io.WriteString(w, strings.Repeat(" ", 64<<10))
			}
			return true
		}, ReasonPrometheusUnreachable, "larger than allowed"},
		"it hangs up": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, ReasonPrometheusUnreachable, ""},
		"it never answers": {func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, ReasonPrometheusUnreachable, "deadline"},
		"the metric is gone": {answer(200, matrix("")), ReasonDemandPartial, "0 of 2"},
		"every value is NaN": {answer(200, matrix(`{"metric":{"namespace":"shop","pod":"web-5d4f8c7b9-bbbbx","node":"node-1"},"values":[[1795262400,"NaN"]]}`)),
			ReasonDemandPartial, "0 of 2"},
		"values are infinite or negative": {answer(200, matrix(
			`{"metric":{"namespace":"shop","pod":"web-5d4f8c7b9-bbbbx","node":"node-1"},"values":[[1795262400,"+Inf"]]},`+
				`{"metric":{"namespace":"shop","pod":"web-5d4f8c7b9-bbbcx","node":"node-1"},"values":[[1795262400,"-3"]]}`)),
			ReasonDemandPartial, "0 of 2"},
		"times are not those asked for": {answer(200, matrix(
			`{"metric":{"namespace":"shop","pod":"web-5d4f8c7b9-bbbbx","node":"node-1"},"values":[[17,"1"],[1795262407,"1"],[99999999999,"1"]]}`)),
			ReasonDemandPartial, "0 of 2"},
		"labels are missing": {answer(200, matrix(`{"metric":{},"values":[[1795262400,"1"]]}`)), ReasonDemandPartial, "0 of 2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) {
				c.MaxResponseBytes = 1 << 20
				if name == "it never answers" {
					c.QueryTimeout, c.BackfillTimeout = 50*time.Millisecond, 50*time.Millisecond
				}
			})
			w.shop("web", 2)
			w.answer(tt.prometheus)
			got, s := w.workload("web")
			if !got.DemandStale {
				t.Error("demand is not stale")
			}
			for _, v := range got.Demand.Values {
				if !math.IsNaN(v) {
					t.Errorf("demand = %v, want no samples", got.Demand.Values)
					break
				}
			}
			if got.Usage == nil || got.Usage.MilliCPU != 400 {
				t.Errorf("usage = %+v, want the second source's 400", got.Usage)
			}
			f := findings(s, tt.wantReason)
			if len(f) != 1 || !strings.Contains(f[0].Message, tt.wantInText) {
				t.Errorf("findings = %v, want one %s with %q", s.Findings, tt.wantReason, tt.wantInText)
			}
			if s.Metrics.Reachable != (tt.wantReason != ReasonPrometheusUnreachable) {
				t.Errorf("health = %+v", s.Metrics)
			}
			if got.HoldReason != "" {
				t.Errorf("held: %s", got.Hold)
			}

			// It comes back, and nothing is lost.
			w.answer(nil)
			for range 3 {
				w.clock.Step(w.cfg.Step)
				got, s = w.workload("web")
			}
			// What it did answer, but empty, is a gap for ever.
			whole := tt.wantReason != ReasonPrometheusUnreachable || len(got.Demand.Values) == 480
			if got.DemandStale || !whole || len(s.Findings) > 0 {
				t.Errorf("after it came back: stale %v, %d samples, findings %v", got.DemandStale, len(got.Demand.Values), s.Findings)
			}
		})
	}
}

func TestDemandOutlivesAnOutage(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 2)
	w.observe()
	down := func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
	w.answer(down)
	stale := -1
	for i := range 40 { // ten minutes
		w.clock.Step(w.cfg.Step)
		got, _ := w.workload("web")
		if got.DemandStale && stale < 0 {
			stale = i
		}
		if got.DemandStale != (time.Duration(i+1)*w.cfg.Step > w.cfg.StaleAfter) {
			t.Errorf("after %v: stale = %v", time.Duration(i+1)*w.cfg.Step, got.DemandStale)
		}
	}
	w.answer(nil)
	w.clock.Step(w.cfg.Step)
	got, _ := w.workload("web")
	if got.DemandStale {
		t.Error("still stale after Prometheus came back")
	}
	for i, v := range got.Demand.Values {
		if math.Abs(v-400) > 1e-9 {
			t.Fatalf("sample %d of %d = %v, want 400: the outage was not read afterwards", i, len(got.Demand.Values), v)
		}
	}
}

func TestPartialAnswers(t *testing.T) {
	tests := map[string]struct {
		pods      int
		seen      int
		young     int // of pods, Ready for less than the window of the rate
		wantStale bool
		want      float64 // of the newest sample; NaN for a gap
	}{
		"all pods":                           {pods: 10, seen: 10, want: 2000},
		"one of ten is missing":              {pods: 10, seen: 9, want: 2000},
		"two of ten are missing":             {pods: 10, seen: 8, wantStale: true, want: 2000},
		"one of two is missing":              {pods: 2, seen: 1, wantStale: true, want: 400},
		"most are missing":                   {pods: 10, seen: 4, wantStale: true, want: math.NaN()},
		"none is there":                      {pods: 10, seen: 0, wantStale: true, want: math.NaN()},
		"the missing ones have just started": {pods: 10, seen: 6, young: 4, want: 1200},
		"all have just started":              {pods: 3, young: 3, seen: 0, wantStale: true, want: math.NaN()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.NewestSteps, c.Overlap, c.History = 1, 0, c.Step })
			w.shop("web", tt.pods)
			for i := range tt.young {
				w.put(podOn("web", tt.pods-1-i, "node-1", epoch.Add(-30*time.Second)))
			}
			w.series = w.series[:tt.seen]
			w.usage = nil
			got, _ := w.workload("web")
			if got.DemandStale != tt.wantStale {
				t.Errorf("stale = %v, want %v", got.DemandStale, tt.wantStale)
			}
			v, _, ok := got.Demand.Last()
			if !ok {
				v = math.NaN()
			}
			if !(math.Abs(v-tt.want) < 1e-9) && math.IsNaN(v) != math.IsNaN(tt.want) || math.Abs(v-tt.want) > 1e-9 {
				t.Errorf("newest sample = %v, want %v", v, tt.want)
			}
		})
	}
}

func TestTwoScrapersCountOnce(t *testing.T) {
	w := newWorld(t, nil)
	keys := w.shop("web", 1)
	// A second scraper that names no node; with one that does, the query
	// itself takes the maximum.
	w.series = append(w.series, rateSeries{ns, keys[0].Name, "", "", constant(0.4)})
	got, _ := w.workload("web")
	if v, _, _ := got.Demand.Last(); v != 200 {
		t.Errorf("newest sample = %v, want 200", v)
	}
}

func TestPodsThatAreGoneStillCount(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	w.series = append(w.series,
		rateSeries{ns, "web-77b6bdc9f-zzzzx", "gke-demo-e2-0a1b2c3d-abcd", "", constant(0.2)}, // by its name
		rateSeries{ns, "webbing-77b6bdc9f-zzzzx", "node-1", "", constant(5)},                  // of somebody else
		rateSeries{"other", "web-77b6bdc9f-zzzzx", "node-1", "", constant(5)},                 // of another namespace
		rateSeries{ns, "web-0", "node-1", "", constant(5)},                                    // of a StatefulSet
		rateSeries{ns, "migration", "node-1", "", constant(5)},                                // of nobody
	)
	got, s := w.workload("web")
	if v, _, _ := got.Demand.Last(); math.Abs(v-300) > 1e-9 {
		t.Errorf("newest sample = %v, want 200 and 100 of the pod that is gone", v)
	}
	if f := findings(s, ReasonUnknownNodeSpeed); len(f) > 0 {
		t.Errorf("findings = %v", f)
	}
}

func TestNodeLabelThatIsNoNode(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	w.series[0].node = "10.0.0.1:10250"
	got, _ := w.workload("web")
	if v, _, _ := got.Demand.Last(); v != 200 {
		t.Errorf("newest sample = %v, want 200 by the speed of the pod's own node", v)
	}
}

// Whatever Prometheus answers, a cycle survives it, and no sample is made up.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		``, `null`, `[]`, `{"status":"success"}`, `{"status":"error","errorType":"x"}`,
		`{"status":"success","data":{"resultType":"matrix","result":null}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"shop","pod":"web-5d4f8c7b9-bbbbx","node":"node-1"},"values":[[1795262400,"0.4"]]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"shop","mash2_owner":"Deployment/web","mash2_nodes":"x"},"values":[[1795262400,"1e308"],[1e300,"0x1p-2"]]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1795262400.0004,"NaN"]],"histograms":[[1,{}]]}]},"warnings":["partial"]}`,
	} {
		f.Add(200, body)
	}
	f.Add(422, `{"status":"error","errorType":"execution","error":"too many"}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		w := newWorld(t, func(c *Config) { c.History = 30 * c.Step })
		w.shop("web", 1)
		w.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			if status >= 200 && status < 600 {
				rw.WriteHeader(status)
			}
			_, _ = rw.Write([]byte(body))
			return true
		})
		got, s := w.workload("web")
		if s.Metrics.Reachable != (s.Metrics.Error == "") {
			t.Errorf("health = %+v", s.Metrics)
		}
		for _, v := range got.Demand.Values {
			if v < 0 || math.IsInf(v, 0) {
				t.Errorf("sample %v", v)
			}
		}
		if len(got.Demand.Values) > 30 {
			t.Errorf("%d samples", len(got.Demand.Values))
		}
	})
}

func TestFoldingKeepsOrderOutOfIt(t *testing.T) {
	newOne := func() api.Series {
		w := newWorld(t, nil)
		w.shop("web", 7)
		for i := range w.series {
			w.series[i].rate = constant(0.1 + float64(i)/3)
		}
		got, _ := w.workload("web")
		return got.Demand
	}
	a, b := newOne(), newOne()
	if diff := cmp.Diff(a.Values, b.Values); diff != "" {
		t.Errorf("the same answers give different samples:\n%s", diff)
	}
}

// Usage of pods at their CPU limits is a lower bound of demand, and told as such;
// usage of pods that have room, or no limit, is demand.
func TestUsageAtTheLimitIsABound(t *testing.T) {
	for name, c := range map[string]struct {
		limits []string // of the pods, which use 0.4 cores each
		want   bool
	}{
		"no limits":                    {[]string{"", "", ""}, false},
		"room to the limit":            {[]string{"500m", "500m", "500m"}, false},
		"all at the limit":             {[]string{"410m", "410m", "410m"}, true},
		"most at the limit":            {[]string{"410m", "410m", "500m"}, true},
		"one at the limit":             {[]string{"410m", "500m", "500m"}, false},
		"at the limit, others without": {[]string{"410m", "", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 3)
			for i, limit := range c.limits {
				p := podOn("web", i, "node-1", epoch.Add(-1))
				if limit != "" {
					p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
				}
				w.put(p)
			}
			w.workload("web")
			w.clock.Step(w.cfg.Step)
			got, _ := w.workload("web")
			end := got.Demand.End()
			if got.Demand.Bound(end) != c.want || got.Demand.Bound(end.Add(-w.cfg.Step)) != c.want {
				t.Errorf("the newest two samples are bounds: %v and %v, want %v; %v", got.Demand.Bound(end), got.Demand.Bound(end.Add(-w.cfg.Step)), c.want, got.Demand.Censored)
			}
			if n := len(got.Demand.Censored); c.want && n != 1 || !c.want && n != 0 {
				t.Errorf("stretches %v", got.Demand.Censored)
			}
		})
	}
}

// What a pod uses until it is Ready is no demand, nor what is left of that in its rates after.
func TestStartingPodsAreNoDemand(t *testing.T) {
	running := func(at time.Time) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}
	}
	const ago = time.Second
	for name, c := range map[string]struct {
		ready     bool
		changed   time.Duration // ago, of Ready
		began     time.Duration // ago, of its container; 0 if it isn't running
		restarted bool
		ended     bool    // its container has, and hasn't been started again
		want      float64 // of it, beside 200 of each of the others
		usage     float64 // the same by metrics.k8s.io
	}{
		"it starts":                            {changed: 30 * ago, began: 25 * ago},
		"its init containers run":              {changed: 30 * ago},
		"it has just become Ready":             {ready: true, changed: 5 * ago, began: 40 * ago, want: 17},
		"it is Ready for half of the window":   {ready: true, changed: 30 * ago, began: 60 * ago, want: 100, usage: 1000},
		"it starts again, long after it died":  {changed: 120 * ago, began: 25 * ago, restarted: true},
		"it was noted late that it died":       {changed: 120 * ago, began: 123 * ago, restarted: true},
		"it died a moment ago":                 {changed: 20 * ago, began: 10 * ago, restarted: true, want: 200},
		"it has ended":                         {changed: 20 * ago, ended: true, want: 1000, usage: 1000},
		"it is dead":                           {changed: 20 * ago, restarted: true, want: 1000, usage: 1000},
		"it was Ready, and answers no more":    {changed: 20 * ago, began: 3600 * ago, want: 1000, usage: 1000},
		"it recovers":                          {ready: true, changed: 20 * ago, began: 3600 * ago, want: 1000, usage: 1000},
		"it has been Ready for all the window": {ready: true, changed: 90 * ago, began: 120 * ago, want: 1000, usage: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.shop("web", 3)
			p := podOn("web", 3, "node-1", w.clock.Now().Add(-30*time.Second))
			status := corev1.ContainerStatus{}
			if c.began > 0 {
				status.State = running(w.clock.Now().Add(-c.began))
			}
			if c.restarted {
				status.RestartCount = 1
			}
			if c.ended {
				status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
			}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
			p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(w.clock.Now().Add(-c.changed))
			if !c.ready {
				p.Status.Conditions[1].Status = corev1.ConditionFalse
			}
			w.put(p)
			w.series = append(w.series, rateSeries{ns, p.Name, "node-1", "", constant(2)})
			w.usage[api.Key{Namespace: ns, Name: p.Name}] = 2000
			got, _ := w.workload("web")
			if v, _, ok := got.Demand.Last(); !ok || math.Abs(v-600-c.want) > 1e-9+100/4 {
				t.Errorf("demand %v (%v), want %v", v, ok, 600+c.want)
			}
			if got.Usage == nil || math.Abs(got.Usage.MilliCPU-600-c.usage) > 1e-9 {
				t.Errorf("usage %+v, want %v", got.Usage, 600+c.usage)
			}
		})
	}
}
