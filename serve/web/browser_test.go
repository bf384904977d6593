package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/serve/rest"
	"github.com/mash2-io/mash2/serve/web"
)

// browser is one Chromium for a test, whose page may reach this machine and nothing else.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu sync.Mutex
	// said are errors of the page: exceptions, broken rules of its security policy,
	// requests that failed.
	said []string
	// asked are the hosts of its requests.
	asked map[string]bool
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// No name is looked up, whatever the page asks for.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.UserDataDir(t.TempDir()))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, asked: map[string]bool{}}
	b.do(chromedp.EmulateViewport(1280, 900))
	for _, enable := range []error{
		second(chromedp.Call(ctx, network.Enable, network.EnableParams{})), second(chromedp.Call(ctx, cdplog.Enable, cdp.Empty{})),
	} {
		if enable != nil {
			t.Fatal(enable)
		}
	}
	hear(b, runtime.ExceptionThrown, func(e *runtime.EventExceptionThrown) {
		b.said = append(b.said, fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	})
	hear(b, cdplog.EntryAdded, func(e *cdplog.EventEntryAdded) {
		// That a request was refused is what some tests are about.
		if e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			b.said = append(b.said, e.Entry.Text)
		}
	})
	hear(b, network.RequestWillBeSent, func(e *network.EventRequestWillBeSent) {
		if _, host, ok := strings.Cut(e.Request.URL, "://"); ok {
			host, _, _ = strings.Cut(host, "/")
			b.asked[host] = true
		}
	})
	return b
}

func second[T any](_ T, err error) error { return err }

// hear calls told of each event of a kind, one after the other with the browser's lock.
func hear[E any](b *browser, kind cdp.Event[E], told func(*E)) {
	events := chromedp.Events(b.ctx, kind)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			b.mu.Lock()
			told(&e)
			b.mu.Unlock()
		}
	}()
}

// do takes steps, each within a minute.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.shot("failed")
		b.t.Fatalf("%v; the page says %v", err, b.said)
	}
}

// open goes to an address from anew.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(url))
}

// until waits for what a script says to be true.
func (b *browser) until(script string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](script)); err != nil {
		b.shot("failed")
		b.t.Fatalf("waiting for %s: %v; the page says %v and shows %.500s", script, err, b.said, b.text("body"))
	}
}

// value of a script, or of its promise.
func value[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.300s: %v", script, err)
	}
	return v
}

// run is a script for what it does.
func (b *browser) run(script string) {
	b.t.Helper()
	value[bool](b, "("+script+", true)")
}

func (b *browser) text(selector string) string {
	b.t.Helper()
	return value[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// shot keeps a picture where MASH2_SHOTS names a folder.
func (b *browser) shot(name string) {
	dir := os.Getenv("MASH2_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Logf("no picture of %s: %v", name, err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Log(err)
	}
}

// clean fails the test for whatever went wrong in the page, or was asked of elsewhere.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.said {
		b.t.Errorf("the page: %s", s)
	}
	for host := range b.asked {
		if !rest.LoopbackHost(host) {
			b.t.Errorf("the page asked %s for something", host)
		}
	}
}

// axe returns what axe-core finds wrong with the page as it is.
func (b *browser) axe() []string {
	b.t.Helper()
	packed, err := os.ReadFile("testdata/axe.min.js.gz")
	if err != nil {
		b.t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		b.t.Fatal(err)
	}
	source, err := io.ReadAll(z)
	if err != nil {
		b.t.Fatal(err)
	}
	found := value[string](b, string(source)+`;
		axe.run(document).then((r) => JSON.stringify(r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html + " " + n.failureSummary).join("; "))))`)
	var out []string
	if err := json.Unmarshal([]byte(found), &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

// cycle is one of n workloads, the first of which is shop/web-0.
func cycle(id uint64, n int) api.Record {
	at := time.Now().Add(-4 * time.Minute).Add(time.Duration(id) * 15 * time.Second).Round(0)
	policy := api.Policy{Name: api.CostSaving, Source: api.SourceManual, Reason: "COST_SAVING is set by hand", Objective: 0.999, ManagedPools: []string{"general"}}
	r := api.Record{Cycle: api.Cycle{ID: id, Time: at, Policy: policy}}
	r.Spec = api.PolicySpec{Policies: map[string]api.Policy{api.CostSaving: policy, api.Performance: {Name: api.Performance}}}
	shape := &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}}
	r.Snapshot.Time = at
	r.Snapshot.Pools = []api.Pool{{Name: "general", MachineType: "e2-standard-4", Zones: []string{"a"}, Sizes: []int32{int32(n/4 + 2)}, Price: 0.134, Allocatable: api.Resources{MilliCPU: 3920, Memory: 13 << 30, Pods: 110}}}
	for i := range min(n/4+2, 60) {
		r.Snapshot.Nodes = append(r.Snapshot.Nodes, api.Node{Name: fmt.Sprintf("general-%d", i), Pool: "general", Ready: i != 1, Cordoned: i == 2, Allocatable: r.Snapshot.Pools[0].Allocatable})
	}
	for i := range n {
		key := api.Key{Namespace: []string{"shop", "search", "pay"}[i%3], Name: fmt.Sprintf("web-%d", i)}
		replicas := int32(2 + (int(id)+i)%5)
		r.Snapshot.Workloads = append(r.Snapshot.Workloads, api.Workload{
			Key: key, Mode: []api.Mode{api.ModeFull, api.ModeShadow}[i%2], MinReplicas: 1, MaxReplicas: 20, Replicas: replicas, ReadyReplicas: replicas, Shape: shape, SpeedNow: 1,
		})
		if i < 100 {
			r.Snapshot.Pods = append(r.Snapshot.Pods, api.Pod{Key: key, Workload: key, Node: fmt.Sprintf("general-%d", i%2), Shape: shape, Ready: true})
		}
		w := api.WorkloadPlan{
			Key: key, Scale: api.Scale{Replicas: replicas + 1}, Current: replicas, Demand: 600 + float64(100*(id%7)), PeakDemand: 1500, Request: 500, Floor: 2,
			FloorSource: "prometheus", Binding: api.BindingForecast, Pools: []api.PoolShare{{Pool: "general", Replicas: replicas + 1}},
			Reason: "peak 1.50 cores at 14:05 needs 4 × 500m <b>at 80 %</b>", Skill: &api.ForecastSkill{Model: "seasonal", Trust: api.TrustFull},
			Forecast: &api.Forecast{Model: "seasonal", Start: at, Step: time.Minute, Levels: []float64{0.1, 0.5, 0.9}, Quantiles: make([][]float64, 3)},
		}
		for m := range 20 {
			mean := 600 + 50*float64(m)
			w.Forecast.Mean = append(w.Forecast.Mean, mean)
			for q := range 3 {
				w.Forecast.Quantiles[q] = append(w.Forecast.Quantiles[q], mean*(0.8+0.2*float64(q)))
			}
			w.Path = append(w.Path, api.PathStep{At: at.Add(time.Duration(m) * time.Minute), Scale: api.Scale{Replicas: replicas + int32(m)/7}})
		}
		r.Cycle.Plan.Workloads = append(r.Cycle.Plan.Workloads, w)
	}
	if id%2 == 0 { // the plan is taken back
		r.Cycle.Plan.Workloads[0].SLOs = []api.SLOPlan{{
			Name: "availability", Objective: 0.999, Verdict: api.SLOBurning, BurnRate: 50, Events: 9000,
			Reason: "5 % of 9000 events are bad, 50 times what the objective of 99.9 % allows",
		}}
		cost := 0.93
		r.Cycle.Plan.Workloads[0].Canary = &api.CanaryPlan{
			Phase: api.CanaryRunning, Role: api.CanaryControl, Since: at, With: "web-7", Pairs: 2, Worse: 0.0012, Fine: 7.5, Needed: 20, Excess: -0.1,
			Cost: &cost, Waits: "it runs until 2026-08-04T14:00:00Z at least",
		}
		r.Cycle.Plan.Rollback = &api.Rollback{At: at, Until: at.Add(time.Hour), To: at.Add(-5 * time.Minute)}
	}
	if n > 2 {
		usage, memory := 380.0, 228.0*(1<<20)
		r.Cycle.Plan.Workloads[2].Agents = &api.AgentsPlan{
			Agents: api.Agents{Memory: &api.MemoryBounds{Budget: 1 << 30, Least: 64 << 20, Most: 1 << 30}, MilliCPU: 900, Floor: 50, Interval: time.Second, Model: "night", Priorities: map[string]float64{"web-2-b": 0.5}, State: &api.AgentsState{
				Time: at, Mind: "mdqn", Trusted: new(false), Trial: "in a simulation of the last 5 minutes here it answers 6.1 % sooner than the rule (lower bound +2.0 %; the simulation's cost is +0.02 off what was read); now both act here in turn", Models: []string{"night", "other"}, Refused: []string{"web-2-c: container main needs a request and a limit of CPU"},
				Pods: []api.AgentState{
					{Pod: "web-2-a", Limit: 500, Next: 640, Usage: &usage, Priority: 1, Binding: "proposal", Memory: &api.AgentMemory{Limit: 256 << 20, Next: 288 << 20, Used: &memory, Binding: "proposal"}},
					{Pod: "web-2-b", Limit: 300, Next: 260, Priority: 0.5, Binding: "budget", Memory: &api.AgentMemory{Stays: "container main has no request and limit of memory"}},
				},
			}},
			Budget: 900, Least: 50, Most: 900, Until: at.Add(time.Minute),
		}
		r.Cycle.Plan.Workloads[2].Sizing = &api.SizingPlan{
			Mode: api.SizingRecommendOnly, Reason: "CPU and memory by 8 days of usage", Saving: 0.12, Cost: 0.40,
			Containers: []api.ContainerPlan{{Name: "main", Template: api.Amounts{MilliCPU: 500, Memory: 1 << 30}, Requests: api.Amounts{MilliCPU: 250, Memory: 300 << 20}, Reason: "memory by its peak"}},
		}
	}
	r.Cycle.Policy.Signals = []api.SignalState{{Name: "weekend", On: true, Reason: "checkouts are 12, under 20 for 10m0s"}}
	r.Cycle.Policy.StrategyActions = []api.StrategyAction{{Strategy: api.Key{Namespace: "shop", Name: "night"}, Rule: "cheap", Reason: "the cloud is cheaper by 12 %"}}
	r.Cycle.Policy.Strategies = []api.StrategyState{{Key: api.Key{Namespace: "shop", Name: "tries"}, Learning: &api.Learning{Reason: "B may earn more than A", Last: "the round before earned 0.50 with A"}}}
	r.Cycle.Plan.Nodes.Pools = []api.PoolPlan{{Pool: "general", Nodes: int32(n/4 + 3), Current: int32(n/4 + 2), Reason: "1 node more than there are, for the peak at 14:05"}}
	r.Cycle.Plan.Candidates = []api.Candidate{{Pool: "general", Nodes: 9, Replicas: 40, HourlyCost: 1.2, Infeasible: "the pods need 10 nodes"}}
	r.Cycle.Findings = []api.Finding{{Severity: api.Warning, Reason: "Conflict", Object: api.WorkloadRef(api.Key{Namespace: "shop", Name: "web-0"}), Message: `an HPA writes it too <script>alert("x")</script>`}}
	r.Cycle.Steps = []api.StepTime{{Step: "plan", Duration: 12 * time.Millisecond}}
	r.Cycle.Pools, r.Cycle.Workloads = api.Observed(r.Snapshot, policy)
	return r
}

// served is the page over a store, below a path as behind a proxy.
func served(t *testing.T, s *rest.Server) string {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix("/some/proxy", web.Handler(s.Handler())))
	t.Cleanup(server.Close)
	return server.URL + "/some/proxy/"
}

func filled(cycles, n int) *rest.Store {
	s := rest.NewStore(rest.Config{Program: "v1.2.3", Period: 15 * time.Second})
	for id := range cycles {
		s.Add(cycle(uint64(id+1), n))
	}
	return s
}

// TestPage walks through every view, in light and dark, on a desk and a phone, and lets
// axe-core look at each.
func TestPage(t *testing.T) {
	b := newBrowser(t)
	store := filled(12, 24)
	url := served(t, &rest.Server{Store: store, Auth: rest.Everybody{}, Actor: refusing{}})
	views := []struct{ name, path, shows string }{
		{"overview", "#/", "the stock HPA would pay about"},
		{"workloads", "#/workloads", "24 workloads"},
		{"workload", "#/workload/shop/web-0", "peak 1.50 cores at 14:05 needs 4 × 500m <b>at 80 %</b>"},
		{"slo", "#/workload/shop/web-0", "99.9 %: 5 % of 9000 events are bad"},
		{"canary", "#/workload/shop/web-0", "It is a control, with web-7."},
		{"evidence", "#/workload/shop/web-0", "Evidence that canaries are worse: 1.2e-3, that they are not: 7.5; 20 is proof. Worse by -0.10 error budgets, requests for the same demand -7 %."},
		{"phase", "#/workloads", "Running"},
		{"rollback", "#/", "End the rollback"},
		{"signals", "#/", "signal weekend is on: checkouts are 12"},
		{"strategies", "#/", "strategy shop/night, rule cheap: the cloud is cheaper by 12 %"},
		{"what learns", "#/", "strategy shop/tries learns: B may earn more than A; the round before earned 0.50 with A"},
		{"agents", "#/workload/pay/web-2", "0.90 of 0.90 cores are given out"},
		{"agents' memory", "#/workload/pay/web-2", "Of memory 288 MiB of 1024 MiB."},
		{"sizes", "#/workload/pay/web-2", "$0.120/h less than the template's $0.400/h"},
		{"nodes", "#/nodes", "general: 8 nodes"},
		{"timeline", "#/timeline", "pay/web-20"},
		{"nowhere", "#/nowhere", "There is no such page"},
		{"no name", "#/workload/%/x", "There is no such page"},
	}
	for _, look := range []struct {
		name  string
		width int64
		dark  string
	}{{"desk", 1280, "light"}, {"phone", 360, "dark"}} {
		b.do(chromedp.EmulateViewport(look.width, 800))
		if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.dark}},
		}); err != nil {
			t.Fatal(err)
		}
		for _, v := range views {
			if v.name == "phase" && look.name == "phone" {
				continue // the column of modes is for wide screens
			}
			b.open(url + v.path)
			b.until(`document.querySelector("main h1") !== null && document.querySelectorAll("main .chart:not(:has(canvas))").length === 0`)
			if got := b.text("main"); !strings.Contains(got, v.shows) {
				t.Errorf("%s on a %s doesn't show %q: %s", v.name, look.name, v.shows, got)
			}
			b.shot(look.name + "-" + v.name)
			for _, wrong := range b.axe() {
				t.Errorf("%s on a %s: %s", v.name, look.name, wrong)
			}
			if wide := value[int64](b, `document.documentElement.scrollWidth`); wide > look.width {
				t.Errorf("%s on a %s is %d pixels wide", v.name, look.name, wide)
			}
		}
	}
	b.clean()
}

// refusing is an actor who may do nothing.
type refusing struct {
	rest.Actor // of what the page does not do
}

func (refusing) SetPolicy(context.Context, *http.Request, string) error {
	return &rest.RefusedError{Status: 403, Why: "Kubernetes refuses it: no"}
}
func (refusing) Pause(context.Context, *http.Request, bool) error {
	return &rest.RefusedError{Status: 403, Why: "Kubernetes refuses it: no"}
}
func (refusing) EndRollback(context.Context, *http.Request) error {
	return &rest.RefusedError{Status: 403, Why: "Kubernetes refuses it: no"}
}
func (refusing) RestartCanary(context.Context, *http.Request, api.Key) error {
	return &rest.RefusedError{Status: 403, Why: "Kubernetes refuses it: no"}
}

func (refusing) SetAgents(context.Context, *http.Request, api.Key, map[string]any) error {
	return &rest.RefusedError{Status: 403, Why: "Kubernetes refuses it: no"}
}

func (refusing) SetMode(context.Context, *http.Request, api.Key, api.Mode) error {
	return &rest.RefusedError{Status: 403, Why: "Kubernetes refuses it: no"}
}

// TestLive: a new cycle is on the page without a reload, what somebody opened stays open,
// and what somebody does is asked first and answered by Kubernetes.
func TestLive(t *testing.T) {
	b := newBrowser(t)
	store := filled(3, 6)
	url := served(t, &rest.Server{Store: store, Auth: rest.Everybody{}, Actor: refusing{}})
	var told []string
	hear(b, page.JavascriptDialogOpening, func(e *page.EventJavascriptDialogOpening) {
		told = append(told, e.Message)
		if _, err := chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}); err != nil {
			t.Error(err)
		}
	})
	foot := func(text string) string {
		return fmt.Sprintf(`document.getElementById("foot").textContent.includes(%q)`, text)
	}
	b.open(url)
	b.until(foot("cycle 3 "))
	b.until(`document.getElementById("status").textContent === "live"`)
	store.Add(cycle(4, 6))
	b.until(foot("cycle 4 "))

	// By keyboard alone: to the timeline, an entry opened by Enter.
	b.run(`document.querySelector('nav a[href="#/timeline"]').focus()`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("main h1").textContent === "Timeline"`)
	b.run(`document.querySelector("main summary").focus()`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("main details[open]")?.textContent.includes("policy COST_SAVING") === true`)
	store.Add(cycle(5, 6))
	b.until(`document.getElementById("status").textContent.includes("waits while you read")`)
	if !value[bool](b, `document.querySelector("main details[open]") !== null`) {
		t.Error("a new cycle closed what was open")
	}

	b.open(url)
	pause := `[...document.querySelectorAll("button")].find((x) => x.textContent === "Pause")`
	b.until(pause + ` !== undefined`)
	b.run(`setTimeout(() => ` + pause + `.click())`) // a dialog holds whoever waits for it
	b.until(`document.getElementById("status").textContent === "live"`)
	store.Add(cycle(6, 6))
	b.until(foot("cycle 6 "))
	b.mu.Lock()
	if len(told) != 2 || !strings.Contains(told[0], "Stop every write") || told[1] != "Kubernetes refuses it: no" {
		t.Errorf("told: %q", told)
	}
	b.mu.Unlock()
	b.clean()
}

// TestSignIn: without a token nothing is shown; a wrong one is refused with the reason, a
// right one shows the page, and another one is asked for once it is accepted no more.
func TestSignIn(t *testing.T) {
	b := newBrowser(t)
	var token byToken
	url := served(t, &rest.Server{Store: filled(2, 3), Auth: &token, Recheck: 100 * time.Millisecond})
	field := func(token string) {
		b.until(`document.getElementById("login").open`)
		b.run(`document.getElementById("token").focus()`)
		b.do(chromedp.KeyEvent(token + kb.Enter))
	}
	b.open(url)
	b.until(`document.getElementById("login").open`)
	for _, wrong := range b.axe() {
		t.Errorf("signing in: %s", wrong)
	}
	b.shot("sign-in")
	field("wrong")
	b.until(`document.getElementById("login-error").textContent.includes("wrong token")`)
	field("right")
	b.until(`document.getElementById("foot").textContent.includes("you look as somebody")`)
	b.until(`document.getElementById("foot").textContent.includes("times of " + Intl.DateTimeFormat().resolvedOptions().timeZone)`)
	b.until(`document.querySelector("main").textContent.includes("COST_SAVING")`)
	token.expired.Store(true)
	b.until(`document.getElementById("login").open && document.getElementById("login-error").textContent.includes("wrong token")`)
	token.expired.Store(false)
	field("right")
	b.until(`document.getElementById("status").textContent === "live"`)
	b.clean()
}

type byToken struct{ expired atomic.Bool }

func (b *byToken) Viewer(_ context.Context, r *http.Request, _ []string) (rest.Viewer, error) {
	if r.Header.Get(rest.TokenHeader) != "right" || b.expired.Load() {
		return rest.Viewer{}, &rest.RefusedError{Status: 401, Why: "wrong token"}
	}
	return rest.Viewer{Name: "somebody", All: true, Nodes: true}, nil
}

// TestManyWorkloads: of five thousand workloads only those in sight are in the document,
// and finding and sorting reach the others.
func TestManyWorkloads(t *testing.T) {
	const n = 5000
	b := newBrowser(t)
	url := served(t, &rest.Server{Store: filled(3, n), Auth: rest.Everybody{}})
	began := time.Now()
	b.open(url + "#/workloads")
	b.until(`document.querySelectorAll("#rows tbody a").length > 5`)
	t.Logf("%d workloads are usable %v after the address was entered", n, time.Since(began).Round(10*time.Millisecond))
	if rows := value[int](b, `document.querySelectorAll("#rows tbody tr").length`); rows > 120 {
		t.Errorf("%d rows are in the document", rows)
	}
	b.run(`document.getElementById("rows").scrollTop = 1e9`)
	b.until(`document.querySelector("#rows").textContent.includes("shop/web-999")`)
	b.run(`document.querySelector("input[type=search]").focus()`)
	b.do(chromedp.KeyEvent("web-4321"))
	b.until(`document.querySelectorAll("#rows tbody a").length === 1`)
	if got := b.text("#rows tbody"); !strings.Contains(got, "web-4321") {
		t.Errorf("found: %s", got)
	}
	for _, wrong := range b.axe() {
		t.Error(wrong)
	}
	b.clean()
}

// TestSize of the page as it is sent: at most 150 kB compressed.
func TestSize(t *testing.T) {
	size, err := web.Size()
	if err != nil || size == 0 || size > 150_000 {
		t.Errorf("%d bytes, %v", size, err)
	}
	t.Logf("%d bytes", size)
}

// TestFiles: each is served with its type and the page's security policy, and from the
// browser's own copy where nothing changed.
func TestFiles(t *testing.T) {
	h := web.Handler(http.NotFoundHandler())
	for path, kind := range map[string]string{
		"/": "text/html", "/app.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml", "/uplot.LICENSE": "text/plain",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("If-None-Match", w.Header().Get("ETag"))
		again := httptest.NewRecorder()
		if h.ServeHTTP(again, r); again.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", path, again.Code)
		}
	}
	for path, status := range map[string]int{"/../web.go": 404, "/static/app.js": 404, "/api/v1/overview": 404} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); w.Code != status && w.Code != http.StatusMovedPermanently && w.Code != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
