package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/record/knowledge"
)

// oneStrategy is an Actor that has one Strategy; everything else panics.
type oneStrategy struct {
	Actor
	o       *v1alpha1.Strategy
	deleted bool
	// writes that went through.
	writes int
}

func (a *oneStrategy) PutStrategy(_ context.Context, _ *http.Request, key api.Key, spec v1alpha1.StrategySpec) error {
	a.o = &v1alpha1.Strategy{Spec: spec}
	a.o.Namespace, a.o.Name = key.Namespace, key.Name
	a.writes++
	return nil
}

func (a *oneStrategy) ChangeStrategy(_ context.Context, _ *http.Request, key api.Key, change func(*v1alpha1.Strategy) error) error {
	if key.Name != a.o.Name || key.Namespace != a.o.Namespace {
		return errNotThere
	}
	o := a.o.DeepCopy()
	if err := change(o); err != nil {
		return err
	}
	a.o = o
	a.writes++
	return nil
}

func (a *oneStrategy) DeleteStrategy(context.Context, *http.Request, api.Key) error {
	a.deleted = true
	return nil
}

func call(t *testing.T, h http.Handler, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// strategyServer has the strategy shop/crowd, in what was seen and in the cluster.
func strategyServer(t *testing.T) (http.Handler, *oneStrategy) {
	t.Helper()
	r := withStrategy(recordOf(1, "shop", "bank"))
	store := NewStore(Config{Program: "test", Period: 15 * time.Second})
	store.Add(r)
	a := &oneStrategy{o: &v1alpha1.Strategy{}}
	a.o.Namespace, a.o.Name = "shop", "crowd"
	if err := json.Unmarshal([]byte(r.Snapshot.Context.Strategies[1].Spec), &a.o.Spec); err != nil {
		t.Fatal(err)
	}
	return (&Server{Store: store, Actor: a, Auth: asViewer{&as{Viewer: Viewer{Name: "a", Namespaces: map[string]bool{"shop": true}}}}}).Handler(), a
}

// TestStrategiesByREST: sensors and rules are listed, added, removed and triggered; what is
// wrong is refused with the field's path, and changes nothing.
func TestStrategiesByREST(t *testing.T) {
	h, a := strategyServer(t)
	const one = "/api/v1/strategies/shop/crowd"
	const rule = `{"when":"visitors > 9","actions":[{"callWebhook":{"url":"https://x/"}}]}`
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/api/v1/strategies", "", 200, `"trigger":"interval[0:05:00]"`},
		{"GET", one, "", 200, `"missing":"it answers 404"`},
		{"GET", "/api/v1/strategies/bank/broken", "", 404, "you may not see it"},
		{"GET", "/api/v1/strategies/shop/none", "", 404, "no such thing"},
		{"GET", "/api/v1/sensors", "", 200, `"id":"shop/crowd/visitors"`},
		{"GET", "/api/v1/actuators", "", 200, `"notDone":"by hand"`},

		{"PUT", one + "/sensors/load", `{"prometheus":{"query":"sum(l)"},"when":{"interval":{"every":"1m"}}}`, 200, "{}"},
		{"PUT", one + "/sensors/load", `{"prometheus":{"query":"sum(`, 400, "unexpected end of JSON"},
		{"PUT", one + "/sensors/load", `{"prometheus":{"query":"up"},"wen":1}`, 400, `unknown field \"wen\"`},
		{"PUT", one + "/sensors/load", `{"prometheus":{"query":5}}`, 400, "prometheus.query: must be a string, is a number"},
		{"PUT", one + "/sensors/load", `{"prometheus":{"query":"up"},"when":{"interval":{"every":"1ms"}}}`, 400, "spec.sensors[2].when.interval.every: must be from 1s"},
		{"PUT", one + "/sensors/Load", `{"prometheus":{"query":"up"}}`, 400, "spec.sensors[3].name"},
		{"PUT", one + "/sensors/load", `[]`, 400, "must be a"},
		{"POST", one + "/sensors/visitors/read", "", 200, "{}"},
		{"POST", one + "/sensors/nobody/read", "", 404, "no such thing"},
		{"DELETE", one + "/sensors/price", "", 200, "{}"},
		{"DELETE", one + "/sensors/price", "", 404, "no such thing"},
		{"DELETE", one + "/sensors/visitors", "", 400, "spec.rules[0].when: "},

		{"PUT", one + "/rules/tell", rule, 200, "{}"},
		{"PUT", one + "/rules/tell", `{"when":"nobody > 9","actions":[{"callWebhook":{"url":"https://x/"}}]}`, 400, "spec.rules[1].when: "},
		{"PUT", one + "/rules/tell", `{"when":"true","actions":[]}`, 400, "spec.rules[1].actions"},
		{"POST", one + "/rules/tell/trigger", "", 200, "{}"},
		{"DELETE", one + "/rules/nobody", "", 404, "no such thing"},
		{"DELETE", one + "/rules/crowd", "", 200, "{}"},

		{"PUT", "/api/v1/strategies/shop/new", `{"rules":[{"name":"r","when":"true","actions":[{"setPolicy":{"policy":""}}]}]}`, 400, "spec.rules[0].actions[0].setPolicy"},
		{"PUT", "/api/v1/strategies/shop/new", `{"outputs":{"x":"1.0"}}` + strings.Repeat(" ", maxBody), 413, "larger than 256 KiB"},
		{"PUT", "/api/v1/strategies/shop/new", `{"outputs":{"x":"1.0"}}`, 200, "{}"},
		{"DELETE", "/api/v1/strategies/shop/new", "", 200, "{}"},
	} {
		before := a.writes
		status, body := call(t, h, c.method, c.path, c.body, actHeader, "1")
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body[:min(80, len(c.body))], status, body, c.status, c.says)
		}
		if wrote := a.writes > before; wrote != (c.method != "GET" && c.status == 200 && c.method+c.path != "DELETE/api/v1/strategies/shop/new") {
			t.Errorf("%s %s %s: wrote: %v", c.method, c.path, c.body[:min(80, len(c.body))], wrote)
		}
	}
	if len(a.o.Spec.Outputs) != 1 || !a.deleted {
		t.Errorf("%+v", a)
	}
	unknown := &as{}
	unknown.refuse(errBadToken)
	closed := (&Server{Store: storeOf(1, "shop"), Actor: a, Auth: asViewer{unknown}}).Handler()
	for _, method := range []string{"PUT", "DELETE"} {
		if status, body := call(t, closed, method, one, rule, actHeader, "1"); status != http.StatusUnauthorized {
			t.Errorf("%s of somebody unknown: %d %s", method, status, body)
		}
	}
	if status, body := call(t, h, "PUT", one+"/rules/tell", rule); status != 400 || !strings.Contains(body, actHeader) {
		t.Errorf("without the header: %d %s", status, body)
	}
}

// TestTriggers: a trigger is a time on the Strategy; those that no longer count go.
func TestTriggers(t *testing.T) {
	h, a := strategyServer(t)
	old := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	a.o.Annotations = map[string]string{api.AnnotationTriggered: `{"rule/old":"` + old + `"}`}
	for _, path := range []string{"rules/crowd/trigger", "sensors/visitors/read"} {
		if status, body := call(t, h, "POST", "/api/v1/strategies/shop/crowd/"+path, "", actHeader, "1"); status != 200 {
			t.Fatal(status, body)
		}
	}
	var by map[string]time.Time
	if err := json.Unmarshal([]byte(a.o.Annotations[api.AnnotationTriggered]), &by); err != nil {
		t.Fatal(err)
	}
	if len(by) != 2 || by["rule/crowd"].IsZero() || by["sensor/visitors"].IsZero() {
		t.Errorf("%v", by)
	}
}

// TestAlias: the paths, bodies and messages of data-connector.
func TestAlias(t *testing.T) {
	h, a := strategyServer(t)
	const sensor = `{"prometheus":{"query":"sum(l)"},"when":{"interval":{"every":"1m"}}}`
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/sensors/event/", "", 200, `{"Hello":"monitor trigger sensors"}`},
		{"GET", "/sensors/event/get/all", "", 200, `"func_name":"prometheus","trigger_str":"interval[0:05:00]","next_run_time":"2026-03-09T10:05:00Z"}`},
		{"GET", "/sensors/event/get?sensor_id=shop/crowd/price", "", 200, `"trigger_str":"cron[*/5 * * * *]"`},
		{"GET", "/sensors/event/get?sensor_id=bank/broken/x", "", 404, `{"detail":"sensor is not found"}`},
		{"POST", "/sensors/event/add/interval?sensor_name=shop/crowd/load", sensor, 200, `{"detail":"shop/crowd/load has been added"}`},
		{"POST", "/sensors/event/add/cron?sensor_name=shop/crowd/load", sensor, 400, `{"detail":"trigger is not allowed"}`},
		{"POST", "/sensors/event/add/interval?sensor_name=load", sensor, 400, "NAMESPACE/STRATEGY/SENSOR"},
		{"POST", "/sensors/event/add/interval?sensor_name=shop/crowd/load", "{", 400, `{"detail":"`},
		{"POST", "/sensors/shop/crowd/load", `{"args":[],"kwargs":{}}`, 200, "is read in the next cycle"},
		{"DELETE", "/sensors/event/remove?sensor_id=shop/crowd/load", "", 200, `{"detail":"shop/crowd/load has been removed"}`},
		{"DELETE", "/sensors/event/remove?sensor_id=shop/crowd/load", "", 404, `{"detail":"sensor is not found"}`},
		{"DELETE", "/sensors/event/remove/all?strategy=shop/crowd", "", 400, "spec.rules[0].when"},
		{"GET", "/rules/get/all", "", 200, `"id":"shop/crowd/crowd"`},
		{"POST", "/rules/shop/crowd/crowd", "", 200, "is turned on in the next cycle"},
		{"POST", "/actuators/shop/crowd/nobody", "", 404, "detail"},
	} {
		status, body := call(t, h, c.method, c.path, c.body, TokenHeader, "t")
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, status, body, c.status, c.says)
		}
	}
	before := a.writes
	if status, body := call(t, h, "POST", "/rules/shop/crowd/crowd", ""); status != 401 || a.writes != before {
		t.Errorf("without a token: %d %s", status, body)
	}
}

// TestKnowledgeOfOneNamespace: who may see one namespace learns nothing of others, and
// nothing that is of none.
func TestKnowledgeOfOneNamespace(t *testing.T) {
	all := []knowledge.Entry{
		{Kind: knowledge.KindDecision, Time: began, About: knowledge.About{Kind: "strategy", Namespace: "shop", Name: "a"}, Name: "mine"},
		{Kind: knowledge.KindDecision, Time: began, About: knowledge.About{Kind: "strategy", Namespace: "bank", Name: "a"}, Name: "theirs"},
		{Kind: knowledge.KindRun, Time: began, About: knowledge.About{Kind: "operator"}, Name: "everybody"},
	}
	store := storeOf(1, "shop", "bank")
	store.config.Knowledge = func(q knowledge.Query) ([]knowledge.Entry, error) { return knowledge.Select(all, q) }
	names := func(v Viewer, query string) string {
		h := (&Server{Store: store, Auth: asViewer{&as{Viewer: v}}}).Handler()
		status, body := ask(t, h, http.MethodGet, "/api/v1/knowledge"+query)
		var list KnowledgeList
		if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
			return body
		}
		var out []string
		for _, e := range list.Entries {
			out = append(out, e.Name)
		}
		return strings.Join(out, " ")
	}
	one := Viewer{Namespaces: map[string]bool{"shop": true}}
	for _, c := range []struct {
		v           Viewer
		query, want string
	}{
		{one, "", "mine"}, {one, "?about=strategy+bank/a", ""}, {one, "?limit=1", "mine"},
		{Viewer{All: true}, "", "mine theirs everybody"}, {Viewer{All: true}, "?namespace=bank", "theirs"}, {Viewer{All: true}, "?kind=run", "everybody"},
	} {
		if got := names(c.v, c.query); got != c.want {
			t.Errorf("%+v %s: %q, want %q", c.v, c.query, got, c.want)
		}
	}
	for query, want := range map[string]string{"?kind=rumour": "kind: must be one of", "?from=yesterday": "from must be a time", "?limit=0": "limit must be"} {
		if got := names(one, query); !strings.Contains(got, want) {
			t.Errorf("%s: %s", query, got)
		}
	}
}
