package sensing

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
)

// TestStrategies: sensors are read when they are due, confined to their strategy's
// namespace; what can't be read says why, and a strategy that never could be used asks nothing.
// One that is changed to what can't be used asks for what it asked before.
func TestStrategies(t *testing.T) {
	w := newWorld(t, nil)
	value, away := 1.0, false
	asked := map[string]int{}
	w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/query") {
			return false
		}
		asked[r.Form.Get("query")]++
		if away {
			http.Error(rw, "away", http.StatusServiceUnavailable)
			return true
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,"%g"]}]}}`, value)
		return true
	})
	put := func(name, spec string) {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		text := fmt.Sprintf("{apiVersion: mash2.io/v1alpha1, kind: Strategy, metadata: {name: %s, namespace: shop}, spec: %s}", name, spec)
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		w.put(o)
	}
	put("a", `{outputs: {x: '1'}, sensors: [
		{name: often, prometheus: {query: sum(often)}},
		{name: seldom, prometheus: {query: sum(seldom)}, when: {interval: {every: 1m}}},
		{name: once, prometheus: {query: sum(once)}, when: {date: "2020-01-01T00:00:00Z"}},
		{name: later, prometheus: {query: sum(later)}, when: {date: "2999-01-01T00:00:00Z"}},
		{name: year, prometheus: {query: "sum_over_time(x[365d])"}},
		{name: spy, prometheus: {query: 'sum(secret{namespace="bank"})'}},
		{name: other, strategy: {name: b, output: x}}]}`)
	usable := func() {
		put("d", `{outputs: {x: '1'}, sensors: [{name: left, prometheus: {query: sum(left)}}]}`)
	}
	usable()
	put("b", `{mode: "Off", outputs: {x: '1'}, sensors: [{name: off, prometheus: {query: sum(off)}}]}`)
	put("c", `{rules: [{name: r, when: 'nonsense', actions: []}], sensors: [{name: wrong, prometheus: {query: sum(wrong)}}]}`)
	observe := func(want map[string]string) {
		t.Helper()
		got := w.observe().Context.Strategies
		if len(got) != 4 || got[0].Key != (api.Key{Namespace: "shop", Name: "a"}) || len(got[1].Readings)+len(got[2].Readings) != 0 {
			t.Fatalf("%+v", got)
		}
		for _, r := range got[0].Readings {
			said := fmt.Sprint(r.Value)
			if r.Missing != "" {
				said = r.Missing
			}
			if !strings.Contains(said, want[r.Sensor]) || want[r.Sensor] == "" {
				t.Errorf("%s: %s, want %s", r.Sensor, said, want[r.Sensor])
			}
			delete(want, r.Sensor)
		}
		if len(want) > 0 {
			t.Errorf("no reading of %v", want)
		}
	}
	const year, spy = "the range is 1y, more than 1h", "is not of namespace shop"
	observe(map[string]string{"often": "1", "seldom": "1", "once": "1", "later": "it was not read yet", "year": year, "spy": spy})
	for _, spec := range []string{`{rules: [{name: r, when: 'nonsense', actions: []}], sensors: [{name: wrong, prometheus: {query: sum(wrong)}}]}`, `{rules: 1}`} {
		put("d", spec)
		if got := w.observe().Context.Strategies[3].Readings; len(got) != 1 || got[0].Sensor != "left" || got[0].Missing != "" {
			t.Errorf("with spec %s: %+v", spec, got)
		}
	}
	put("d", `{mode: "Off", rules: 1}`)
	if got := w.observe().Context.Strategies[3].Readings; len(got) != 0 {
		t.Errorf("off and not usable: %+v", got)
	}
	value = 2
	w.clock.Step(15 * time.Second)
	observe(map[string]string{"often": "2", "seldom": "1", "once": "1", "later": "it was not read yet", "year": year, "spy": spy})
	away = true
	w.clock.Step(time.Minute)
	observe(map[string]string{"often": "503", "seldom": "503", "once": "1", "later": "it was not read yet", "year": year, "spy": spy})
	away = false
	w.clock.Step(15 * time.Second)
	observe(map[string]string{"often": "2", "seldom": "2", "once": "1", "later": "it was not read yet", "year": year, "spy": spy})
	want := map[string]int{`sum(often{namespace="shop"})`: 7, `sum(left{namespace="shop"})`: 3, `sum(seldom{namespace="shop"})`: 3, `sum(once{namespace="shop"})`: 1}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

// From the first cycle on it is known what became of calls; what a process before made isn't.
func TestCallsAreKnownSinceTheFirstCycle(t *testing.T) {
	s := &strategies{cfg: Config{Deliveries: func(api.Key) []api.Delivery { return nil }}}
	for i := range 2 {
		now := epoch.Add(time.Duration(i) * time.Minute)
		if got := s.observe(t.Context(), t.Context(), now, []*strategyRecord{{}}); len(got) != 1 || !got[0].CallsSince.Equal(epoch) {
			t.Errorf("after %d minutes: %+v", i, got)
		}
	}
}
