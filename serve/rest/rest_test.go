package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

var began = time.Date(2026, 3, 9, 10, 0, 0, 0, time.UTC)

// recordOf is a cycle of workloads of several namespaces on one node each. What is of a
// namespace has its name in every text.
func recordOf(id uint64, namespaces ...string) api.Record {
	at := began.Add(time.Duration(id) * 15 * time.Second)
	policy := api.Policy{Name: api.CostSaving, Source: api.SourceDefault, ManagedPools: []string{"pool-of-all"}, NodePools: []string{"pool-of-all"}}
	r := api.Record{Cycle: api.Cycle{ID: id, Time: at, Policy: policy}}
	r.Spec = api.PolicySpec{Policies: map[string]api.Policy{api.CostSaving: policy}}
	shape := &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}}
	r.Snapshot = api.Snapshot{Time: at, Pools: []api.Pool{{
		Name: "pool-of-all", MachineType: "e2", Zones: []string{"z"}, Sizes: []int32{int32(len(namespaces))}, Price: 0.1,
		Allocatable: api.Resources{MilliCPU: 2000, Memory: 8 << 30, Pods: 100},
	}}}
	c := &r.Cycle
	for i, ns := range namespaces {
		key := api.Key{Namespace: ns, Name: "web-" + ns}
		node := fmt.Sprintf("node-%d-%s", i, ns)
		replicas := int32(2 + id%3)
		r.Snapshot.Workloads = append(r.Snapshot.Workloads, api.Workload{
			Key: key, Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: 20, Replicas: 2, ReadyReplicas: 2, Shape: shape, SpeedNow: 1,
		})
		r.Snapshot.Nodes = append(r.Snapshot.Nodes, api.Node{Name: node, Pool: "pool-of-all", Ready: true, Allocatable: api.Resources{MilliCPU: 2000, Memory: 8 << 30}})
		r.Snapshot.Pods = append(r.Snapshot.Pods, api.Pod{Key: api.Key{Namespace: ns, Name: "pod-" + ns}, Workload: key, Node: node, Shape: shape, Ready: true})
		c.Plan.Workloads = append(c.Plan.Workloads, api.WorkloadPlan{
			Key: key, Scale: api.Scale{Replicas: replicas}, Current: 2, Demand: 600, PeakDemand: 700, Request: 500, Floor: 1, Binding: api.BindingForecast,
			Reason: "because of " + ns, Pools: []api.PoolShare{{Pool: "pool-of-all", Replicas: replicas}},
			Path: []api.PathStep{{At: at, Scale: api.Scale{Replicas: replicas}}},
			Forecast: &api.Forecast{
				Model: "model-" + ns, Start: at, Step: time.Minute, Mean: []float64{1, 2}, Levels: []float64{0.1, 0.9}, Quantiles: [][]float64{{1, 1}, {2, 3}},
			},
		})
		action := api.ScaleWorkload{Workload: key, To: replicas}
		r.Actions = append(r.Actions, action, api.CordonNode{Node: node})
		c.Outcomes = append(c.Outcomes, api.Outcome{Object: api.WorkloadRef(key), Action: "scale " + key.String(), Error: "no luck with " + ns})
		c.Outcomes = append(c.Outcomes, api.Outcome{Object: api.NodeRef(node), Action: "cordon " + node + " of " + ns})
		c.Findings = append(c.Findings,
			api.Finding{Severity: api.Warning, Reason: "Conflict", Object: api.WorkloadRef(key), Message: "somebody writes " + ns},
			api.Finding{Severity: api.Warning, Reason: "Lost", Object: api.PodRef(api.Key{Namespace: ns, Name: "pod-" + ns}), Message: "pod of " + ns},
			api.Finding{Severity: api.Warning, Reason: "NotReady", Object: api.NodeRef(node), Message: "node of " + ns},
			api.Finding{Severity: api.Warning, Reason: "All", Object: api.CycleRef, Message: "cycle tells of " + ns},
			api.Finding{Severity: api.Warning, Reason: "Bad", Object: api.PolicyRef, Message: "the policy names " + ns})
		of := api.Key{Namespace: ns, Name: "strategy-" + ns}
		r.Snapshot.Context.Strategies = append(r.Snapshot.Context.Strategies, api.Strategy{Key: of, Spec: `{"sensors":[{"name":"s","http":{"url":"http://` + ns + `/","jsonPath":"{.x}"}}],"outputs":{"x":"s"}}`})
		c.Policy.Strategies = append(c.Policy.Strategies, api.StrategyState{Key: of, Outputs: []api.StrategyOutput{{Name: "of-" + ns, Value: 1}}})
		c.Policy.StrategyActions = append(c.Policy.StrategyActions, api.StrategyAction{Strategy: of, Kind: api.ActionMove, Pools: []string{"pool-" + ns}, Reason: "because of " + ns, NotDone: ns})
		c.Plan.Candidates = append(c.Plan.Candidates, api.Candidate{Pool: "pool-of-all", Note: key.String() + " −1 replica"})
		c.Plan.Nodes.Unplaced = append(c.Plan.Nodes.Unplaced, api.Unplaced{Name: key.String(), Count: 1, Reason: "no room for " + ns})
	}
	// Set by the last namespace's strategy.
	last := namespaces[len(namespaces)-1]
	c.Policy.Reason = fmt.Sprintf("strategy %s/strategy-%s, r: because of %s", last, last, last)
	c.Plan.Nodes.Pools = []api.PoolPlan{{
		Pool: "pool-of-all", Nodes: int32(len(namespaces)), Surplus: []string{r.Snapshot.Nodes[0].Name}, SurplusSince: []time.Time{at}, Reason: "for " + strings.Join(namespaces, ", "),
	}}
	c.Plan.Nodes.Refusal = &api.Refusal{Pool: "x", Stay: "pool-of-all", Message: "pods of " + strings.Join(namespaces, ", ")}
	c.Pools, c.Workloads = api.Observed(r.Snapshot, policy)
	return r
}

func storeOf(cycles int, namespaces ...string) *Store {
	s := NewStore(Config{Program: "test", Period: 15 * time.Second})
	for id := range cycles {
		s.Add(recordOf(uint64(id+1), namespaces...))
	}
	return s
}

// as lets a viewer in whatever the request says, until told otherwise.
type as struct {
	Viewer Viewer
	err    atomic.Pointer[error]
}

func (a *as) refuse(err error) { a.err.Store(&err) }

type asViewer struct{ *as }

func (a asViewer) Viewer(context.Context, *http.Request, []string) (Viewer, error) {
	if err := a.err.Load(); err != nil {
		return Viewer{}, *err
	}
	return a.as.Viewer, nil
}

func ask(t *testing.T, h http.Handler, method, path string, headers ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// paths of everything that can be read, about two namespaces.
func paths(mine, other string) []string {
	var out []string
	for _, ns := range []string{mine, other} {
		name := ns + "/web-" + ns
		out = append(out, "workloads/"+name, "changes?workload="+name, "explain?workload="+name,
			"explain?workload="+name+"&at=2026-03-09T10:01:00Z", "explain?workload="+name+"&pool=pool-of-all")
	}
	for _, ns := range []string{mine, other} {
		out = append(out, "strategies/"+ns+"/strategy-"+ns)
	}
	return append(out, "strategies", "sensors", "actuators", "knowledge", "overview", "workloads", "changes", "changes?limit=1000", "cycles", "cycles/1", "cycles/5", "cycles/10", "explain",
		"explain?pool=pool-of-all", "explain?at=2026-03-09T10:01:00Z", "nodes", "nodes?pool=pool-of-all", "overview?namespace="+other, "nothing")
}

// TestExplanationOfOneNamespace: what all have together, and what a pool is refused, is
// nobody's of one namespace.
func TestExplanationOfOneNamespace(t *testing.T) {
	r := recordOf(1, "alpha", "zz")
	r.Actions = append(r.Actions, api.ResizePool{Pool: "pool-of-all", To: 9, Reason: "too small"})
	r.Cycle.Outcomes = append(r.Cycle.Outcomes, api.Outcome{Kind: "ResizePool", Object: api.PoolRef("pool-of-all"), Action: "resize", Error: "no machines"})
	s := NewStore(Config{Program: "test", Period: 15 * time.Second})
	s.Add(r)
	q := record.Question{Workload: "alpha/web-alpha"}
	all, err := s.explain(Viewer{All: true, Nodes: true}, q)
	if err != nil || len(all.Actions) != 2 || all.Now == nil || all.Now.Pods != 2 {
		t.Errorf("who sees all: %v, %+v, %+v", err, all.Actions, all.Now)
	}
	own, err := s.explain(Viewer{Namespaces: map[string]bool{"alpha": true}}, q)
	if err != nil || len(own.Actions) != 1 || own.Actions[0].Object != api.WorkloadRef(api.Key{Namespace: "alpha", Name: "web-alpha"}) || own.Now != nil {
		t.Errorf("who sees one namespace: %v, %+v, %+v", err, own.Actions, own.Now)
	}
}

// TestNamespaces: who may see one namespace sees not one byte of another, nor of what is
// all of theirs; and sees all of their own.
func TestNamespaces(t *testing.T) {
	const mine, other = "alpha", "zz-secret"
	s := &Server{Store: storeOf(10, mine, other), Auth: asViewer{&as{Viewer: Viewer{Name: "a", Namespaces: map[string]bool{mine: true}}}}}
	h := s.Handler()
	seen := ""
	for _, path := range paths(mine, other) {
		status, body := ask(t, h, "GET", "/api/v1/"+path)
		for _, secret := range []string{other, "pool-of-all", "node-0", "node-1"} {
			// What was asked for may come back in the message that there is none; a
			// workload's own pool is its own.
			if secret == "pool-of-all" && strings.Contains(path, mine) || secret == "pool-of-all" && status == 200 && (path == "workloads" || strings.HasPrefix(path, "cycles/")) {
				continue
			}
			if strings.Contains(body, secret) {
				t.Errorf("%s: %d tells of %s: %s", path, status, secret, body)
			}
		}
		if status == http.StatusOK {
			seen += body
		}
	}
	for _, own := range []string{"web-" + mine, "because of " + mine, "model-" + mine, "somebody writes " + mine, "no luck with " + mine, "pod of " + mine} {
		if !strings.Contains(seen, own) {
			t.Errorf("their own %q is not shown", own)
		}
	}

	// Who sees all sees it; node names only with the right to.
	for _, c := range []struct {
		viewer Viewer
		nodes  bool
	}{{Viewer{All: true}, false}, {Viewer{All: true, Nodes: true}, true}} {
		h := (&Server{Store: s.Store, Auth: asViewer{&as{Viewer: c.viewer}}}).Handler()
		all := ""
		for _, path := range paths(mine, other) {
			_, body := ask(t, h, "GET", "/api/v1/"+path)
			all += body
		}
		for _, text := range []string{"somebody writes " + other, "pool-of-all", "no room for", "because of " + other, "cycle tells of"} {
			if !strings.Contains(all, text) {
				t.Errorf("%+v: %q is not shown", c.viewer, text)
			}
		}
		if strings.Contains(all, "node-0") != c.nodes {
			t.Errorf("%+v: names of nodes shown: %t", c.viewer, !c.nodes)
		}
	}
}

func TestStatuses(t *testing.T) {
	all := asViewer{&as{Viewer: Viewer{All: true, Nodes: true}}}
	full := (&Server{Store: storeOf(3, "a"), Auth: all}).Handler()
	for _, c := range []struct {
		name, method, path string
		handler            http.Handler
		headers            []string
		status             int
		says               string
	}{
		{"what is there", "GET", "overview", full, nil, 200, `"policy"`},
		{"no such workload", "GET", "workloads/a/b", full, nil, 404, "no such thing"},
		{"no such cycle", "GET", "cycles/99", full, nil, 404, "no such thing"},
		{"no number", "GET", "cycles/x", full, nil, 400, "a cycle has a number"},
		{"no time", "GET", "explain?at=yesterday", full, nil, 400, "at must be a time"},
		{"no limit", "GET", "changes?limit=0", full, nil, 400, "limit must be"},
		{"before all", "GET", "explain?at=2020-01-01T00:00:00Z", full, nil, 404, "there are no records"},
		{"no such path", "GET", "passwords", full, nil, 404, "there is no GET"},
		{"nothing to act by", "POST", "pause", full, []string{actHeader, "1"}, 403, "only shows"},
		{"a standby", "GET", "overview", (&Server{Store: storeOf(0), Auth: all}).Handler(), nil, 503, "doesn't lead"},
		{"by another name", "GET", "overview", (&Server{Store: storeOf(1, "a"), Auth: all, Loopback: true}).Handler(), []string{"Host", "evil.example"}, 403, "this machine"},
		{"by its own name", "GET", "overview", (&Server{Store: storeOf(1, "a"), Auth: all, Loopback: true}).Handler(), []string{"Host", "127.0.0.1:8444"}, 200, `"policy"`},
		{"no header", "POST", "pause", (&Server{Store: storeOf(1, "a"), Auth: all, Actor: ClusterActor{}}).Handler(), nil, 400, actHeader},
		{"no such mode", "POST", "workloads/a/b/mode", (&Server{Store: storeOf(1, "a"), Auth: all, Actor: ClusterActor{}}).Handler(), []string{actHeader, "1"}, 400, "Off, Shadow, Canary or Full"},
		{"nothing of agents", "POST", "workloads/a/b/agents", (&Server{Store: storeOf(1, "a"), Auth: all, Actor: ClusterActor{}}).Handler(), []string{actHeader, "1"}, 400, "name what to change"},
		{"no policy", "POST", "policy", (&Server{Store: storeOf(1, "a"), Auth: all, Actor: ClusterActor{}}).Handler(), []string{actHeader, "1"}, 400, "the name of a policy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := ask(t, c.handler, c.method, "/api/v1/"+c.path, c.headers...)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%d, want %d with %q: %s", status, c.status, c.says, body)
			}
			if !json.Valid([]byte(body)) {
				t.Errorf("no JSON: %s", body)
			}
		})
	}
}

// A stream tells of each cycle, and ends when who listens may not any more.
func TestStream(t *testing.T) {
	who := &as{Viewer: Viewer{All: true}}
	store := storeOf(1, "a")
	server := httptest.NewServer((&Server{Store: store, Auth: asViewer{who}, Recheck: time.Millisecond}).Handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	next := func(prefix string) string {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("the stream ended before %q: %v", prefix, lines.Err())
		return ""
	}
	if got := next("data: "); got != `{"cycle":1}` {
		t.Errorf("first: %s", got)
	}
	store.Add(recordOf(2, "a"))
	if got := next("data: "); got != `{"cycle":2}` {
		t.Errorf("second: %s", got)
	}
	who.refuse(errBadToken)
	next("event: end")
	if rest, err := io.ReadAll(response.Body); err != nil || strings.Contains(string(rest), "cycle") {
		t.Errorf("after its end: %q, %v", rest, err)
	}
}

// What the page shows of a cycle in memory is what mash2 explain says of it.
func TestExplainIsTheRecords(t *testing.T) {
	s := storeOf(5, "a", "b")
	h := (&Server{Store: s, Auth: asViewer{&as{Viewer: Viewer{All: true, Nodes: true}}}}).Handler()
	for id := uint64(1); id <= 5; id++ {
		at := recordOf(id, "a", "b").Cycle.Time.Add(time.Second)
		_, body := ask(t, h, "GET", "/api/v1/explain?workload=b/web-b&at="+at.Format(time.RFC3339))
		var x struct {
			Cycle    uint64
			Binding  string
			Decided  api.WorkloadPlan
			Observed *api.WorkloadStatus
			Actions  []struct{ Outcome string }
		}
		if err := json.Unmarshal([]byte(body), &x); err != nil {
			t.Fatal(err)
		}
		want := recordOf(id, "a", "b").Cycle.Plan.Workloads[1]
		if x.Cycle != id || x.Decided.Replicas != want.Replicas || x.Binding != "forecast" || x.Observed == nil || x.Observed.ReadyReplicas != 2 || len(x.Actions) != 1 || x.Actions[0].Outcome != "failed: no luck with b" {
			t.Errorf("cycle %d: %s", id, body)
		}
	}
}

// A workload that is off is shown as it is and as it was, so that it can be turned on again where it
// was turned off.
func TestAWorkloadThatIsOff(t *testing.T) {
	s := NewStore(Config{Program: "test", Period: 15 * time.Second})
	s.Add(recordOf(1, "shop", "bank"))
	off := func(id uint64, namespaces ...string) {
		r := recordOf(id, namespaces...)
		r.Snapshot.Workloads[0].Mode = api.ModeOff
		r.Cycle.Plan.Workloads = r.Cycle.Plan.Workloads[1:]
		r.Cycle.Pools, r.Cycle.Workloads = api.Observed(r.Snapshot, r.Cycle.Policy)
		s.Add(r)
	}
	off(2, "shop", "bank")
	h := (&Server{Store: s, Auth: asViewer{&as{Viewer: Viewer{Namespaces: map[string]bool{"shop": true}}}}}).Handler()
	status, body := ask(t, h, "GET", "/api/v1/workloads/shop/web-shop")
	var d WorkloadDetail
	if err := json.Unmarshal([]byte(body), &d); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v: %s", status, err, body)
	}
	if d.Mode != api.ModeOff || d.Replicas != 2 || d.Reason != "it is not planned" || d.Bounds != [2]int32{1, 20} || len(d.Past.Times) != 1 || len(d.Past.Planned) != 1 || d.Observed == nil {
		t.Errorf("%s", body)
	}
	for _, path := range []string{"workloads/bank/web-bank", "workloads/shop/web"} {
		if status, body := ask(t, h, "GET", "/api/v1/"+path); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	// One that was never planned has a past without points, and no null in its place.
	off(3, "new", "bank")
	h = (&Server{Store: s, Auth: asViewer{&as{Viewer: Viewer{All: true}}}}).Handler()
	if status, body := ask(t, h, "GET", "/api/v1/workloads/new/web-new"); status != http.StatusOK || !strings.Contains(body, `"past":{"times":[],"demand":[],"peak":[],`) {
		t.Errorf("%d %s", status, body)
	}
}

// TestPathIsWithinTheLeast: a path is what demand asks for, which may be nothing; the page
// shows no less than minReplicas.
func TestPathIsWithinTheLeast(t *testing.T) {
	r := recordOf(1, "shop")
	plan := &r.Cycle.Plan.Workloads[0]
	plan.Path = []api.PathStep{{At: r.Cycle.Time, Scale: api.Scale{Replicas: 0}}, {At: r.Cycle.Time.Add(time.Minute), Scale: api.Scale{Replicas: 7}}}
	s := NewStore(Config{Program: "test", Period: 15 * time.Second})
	s.Add(r)
	d, ok := s.workload(Viewer{All: true}, plan.Key)
	if !ok || len(d.Path) != 2 || d.Path[0].Replicas != 1 || d.Path[1].Replicas != 7 {
		t.Errorf("%v, %+v", ok, d.Path)
	}
}
