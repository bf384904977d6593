package agents

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// node is a world without a cluster: pods whose limits follow at once, each with a
// demand of its own, millicores.
type node struct {
	mu       sync.Mutex
	clock    *testclock.FakeClock
	pods     []Pod
	demand   map[string]float64
	used     map[string]float64 // bytes
	most     map[string]int64   // that the node gives a pod, millicores
	refused  []Refused
	applied  []string
	fail     error // of writes
	blind    error // of readings
	unlisted error
}

func (n *node) join(name string, limit int64, demand float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = append(n.pods, Pod{
		Pod: vertical.Pod{ID: "uid-" + name, Limit: limit, Held: limit}, Key: api.Key{Namespace: "shop", Name: name},
		Container: "main", Request: limit, Together: true,
	})
	if n.demand == nil {
		n.demand = map[string]float64{}
	}
	n.demand["uid-"+name] = demand
}

func (n *node) Observe(context.Context) ([]Pod, []Refused, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var pods []Pod
	refused := append([]Refused(nil), n.refused...)
	for _, p := range n.pods {
		if most := n.most[p.ID]; most > 0 && p.Limit > most {
			refused = append(refused, Refused{Pod: p.Key, Why: "too large", CPU: p.Held, Infeasible: &p})
		} else {
			pods = append(pods, p)
		}
	}
	return pods, refused, n.unlisted
}

func (n *node) Read(context.Context, []Pod) (map[string]Usage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]Usage{}
	for _, p := range n.pods {
		out[p.ID] = Usage{MilliCPU: math.Min(n.demand[p.ID], float64(p.Held)), Memory: n.used[p.ID], At: n.clock.Now()}
	}
	if n.blind != nil {
		return nil, n.blind
	}
	return out, nil
}

func (n *node) Apply(_ context.Context, a api.Action) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := a.(api.ResizePod)
	if r.Limits.Memory > 0 {
		n.applied = append(n.applied, fmt.Sprintf("%s %s of %s", r.Pod.Name, r.Reason, r.To))
		for i := range n.pods {
			if p := &n.pods[i]; p.ID == r.UID {
				p.Memory.Limit, p.Memory.Held, p.MemoryRequest = r.Limits.Memory, r.Limits.Memory, r.To.Memory
			}
		}
		return n.fail
	}
	n.applied = append(n.applied, fmt.Sprintf("%s %d", r.Pod.Name, r.Limits.MilliCPU))
	if n.fail != nil {
		return n.fail
	}
	for i := range n.pods {
		if p := &n.pods[i]; p.ID == r.UID {
			p.Limit, p.Request = r.Limits.MilliCPU, r.To.MilliCPU
			if most := n.most[p.ID]; most == 0 || p.Limit <= most {
				p.Held = p.Limit
			}
		}
	}
	return nil
}

func (n *node) limits() string {
	var out []string
	for _, p := range n.pods {
		out = append(out, fmt.Sprintf("%s %d", p.Key.Name, p.Limit))
	}
	return strings.Join(out, ", ")
}

func newLoop(t *testing.T, n *node, change func(*Options)) *Loop {
	t.Helper()
	n.clock = testclock.NewFakeClock(start)
	o := Options{
		Observer: n, Meter: n, Actuator: n, Algorithm: ThresholdMind, Budget: 1000, Floor: 50, Interval: time.Second, Clock: n.clock,
		Minds: map[string][]vertical.Planner{ThresholdMind: {vertical.DefaultThreshold()}},
	}
	if change != nil {
		change(&o)
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *Loop) ticks(t *testing.T, n *node, count int) {
	t.Helper()
	for range count {
		l.tick(t.Context())
		n.clock.Step(time.Second)
	}
}

// TestLoop: limits follow the load by MARLISE's rule, pods join and leave, and a budget
// that is cut is taken back in the next tick.
func TestLoop(t *testing.T) {
	n := &node{}
	l := newLoop(t, n, nil)
	n.join("a", 50, 400)
	n.join("b", 300, 20)
	l.ticks(t, n, 60)
	// a: 400 is 60 % of 667; b: 20 is below 30 % of 67, and 50 is the floor.
	if got := n.limits(); got != "a 675, b 50" {
		t.Errorf("limits %s", got)
	}
	n.join("c", 50, 900)
	l.ticks(t, n, 60)
	if got := n.limits(); got != "a 675, b 50, c 275" {
		t.Errorf("with a third: %s", got)
	}
	n.pods = n.pods[1:]
	l.ticks(t, n, 60)
	if got := n.limits(); got != "b 50, c 950" {
		t.Errorf("without the first: %s", got)
	}
	if err := l.SetResources(400); err != nil {
		t.Fatal(err)
	}
	l.ticks(t, n, 1)
	if got := n.limits(); got != "b 50, c 350" {
		t.Errorf("of a smaller budget: %s", got)
	}
}

// TestLoopHolds: without readings nothing is lowered, without a list of pods nothing is
// done, and a write that fails is tried again.
func TestLoopHolds(t *testing.T) {
	n := &node{blind: errors.New("no metrics")}
	l := newLoop(t, n, nil)
	n.join("a", 500, 1)
	l.ticks(t, n, 30)
	if len(n.applied) > 0 || l.last.Err() == nil {
		t.Errorf("blind: %v, error %v", n.applied, l.last.Err())
	}
	n.blind, n.unlisted = nil, errors.New("no API server")
	l.ticks(t, n, 3)
	if len(n.applied) > 0 || l.last.Err() == nil {
		t.Errorf("without pods: %v, error %v", n.applied, l.last.Err())
	}
	n.unlisted, n.fail = nil, errors.New("refused")
	l.ticks(t, n, 2)
	if fmt.Sprint(n.applied) != "[a 475 a 475]" || l.last.Err() == nil {
		t.Errorf("refused: %v, error %v", n.applied, l.last.Err())
	}
	n.fail = nil
	l.ticks(t, n, 1)
	if n.limits() != "a 475" || l.last.Err() != nil {
		t.Errorf("%s, error %v", n.limits(), l.last.Err())
	}
}

// TestDownComesFirst: what is given back is written before what is taken.
func TestDownComesFirst(t *testing.T) {
	n := &node{}
	l := newLoop(t, n, nil)
	n.join("a", 100, 99)
	n.join("b", 100, 1)
	l.ticks(t, n, 1)
	if fmt.Sprint(n.applied) != "[b 75 a 125]" {
		t.Errorf("%v", n.applied)
	}
}

// mind asks for one limit.
type mind float64

func (mind) Name() string                     { return "mind" }
func (m mind) Propose(*vertical.View) float64 { return float64(m) }

// TestPriorities and the number of agents: in the order of names.
func TestPriorities(t *testing.T) {
	n := &node{}
	l := newLoop(t, n, func(o *Options) {
		o.Minds[PPOMind], o.Algorithm, o.Untested, o.Priorities, o.Agents = []vertical.Planner{mind(5000)}, PPOMind, true, []float64{0.25, 1}, 2
	})
	for _, name := range []string{"a", "b", "c"} {
		n.join(name, 50, 50)
	}
	l.ticks(t, n, 60)
	if got := n.limits(); got != "a 200, b 800, c 50" {
		t.Errorf("%s", got)
	}
}

// TestMinds: each agent has its own model where there are several, and keeps it.
func TestMinds(t *testing.T) {
	n := &node{}
	l := newLoop(t, n, func(o *Options) {
		o.Minds[DQNMind], o.Algorithm, o.Untested = []vertical.Planner{mind(100), mind(200)}, DQNMind, true
	})
	n.join("a", 50, 50)
	n.join("b", 50, 50)
	l.ticks(t, n, 5)
	if got := n.limits(); got != "a 100, b 200" {
		t.Errorf("%s", got)
	}
	n.pods = n.pods[1:]
	n.join("c", 50, 50)
	l.ticks(t, n, 5)
	if got := n.limits(); got != "b 200, c 100" {
		t.Errorf("%s", got)
	}
}

func TestHandler(t *testing.T) {
	n := &node{}
	l := newLoop(t, n, func(o *Options) { o.Minds[PPOMind] = []vertical.Planner{mind(100)} })
	n.join("a", 300, 10)
	h := l.Handler()
	for i, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/status", "", 200, `{"status":true}`},
		{"POST", "/start", "", 200, `{"message":"Inference already running"}`},
		{"POST", "/stop", "", 200, `{"message":"Inference stopped"}`},
		{"POST", "/stop", "", 200, `{"message":"Inference not running"}`},
		{"GET", "/status", "", 200, `{"status":false}`},
		{"POST", "/start", "", 200, `{"message":"Inference started"}`},
		{"GET", "/resources", "", 200, `{"resources":1000}`},
		{"POST", "/set_resources", `{"resources": 1500}`, 200, `{"message":"Resources set to 1500"}`},
		{"GET", "/resources", "", 200, `{"resources":1500}`},
		{"POST", "/set_resources", `{"resources": -1}`, 422, `{"detail":"body.resources: budget: want 1 or more, is -1"}`},
		{"POST", "/set_resources", `{"resources": "many"}`, 422, `{"detail":"body.resources: want a whole number, is \"many\""}`},
		{"POST", "/set_resources", `{"resources": null}`, 422, `{"detail":"body.resources: want a whole number, is null"}`},
		{"POST", "/set_resources", `{}`, 422, `{"detail":"body.resources: field required"}`},
		{"POST", "/set_resources", ``, 422, `{"detail":"body.resources: want a JSON object: EOF"}`},
		{"GET", "/resources", "", 200, `{"resources":1500}`},
		{"GET", "/interval", "", 200, `{"interval":1}`},
		{"POST", "/set_interval", `{"interval": 5}`, 200, `{"message":"Interval set to 5"}`},
		{"POST", "/set_interval", `{"interval": 0}`, 422, `{"detail":"body.interval: want 1 to 3600 seconds, is 0"}`},
		{"POST", "/set_interval", `{"interval": 1.5}`, 422, `{"detail":"body.interval: want a whole number, is 1.5"}`},
		{"GET", "/interval", "", 200, `{"interval":5}`},
		{"GET", "/algorithm", "", 200, `{"algorithm":"threshold"}`},
		{"POST", "/set_ppo_algorithm", "", 200, `{"message":"PPO algorithm set"}`},
		{"POST", "/set_ppo_algorithm", "", 200, `{"message":"PPO algorithm already set"}`},
		{"GET", "/algorithm", "", 200, `{"algorithm":"ppo"}`},
		{"POST", "/set_dqn_algorithm", "", 409, `{"detail":"there is no model of dqn: start with one (--load_model)"}`},
		{"POST", "/set_ddpg_algorithm", "", 409, `{"detail":"there is no model of ddpg: start with one (--load_model)"}`},
		{"POST", "/set_default_limits", "", 200, `{"message":"Default limits set"}`},
	} {
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
		if got := strings.TrimSpace(r.Body.String()); r.Code != c.status || got != c.want {
			t.Errorf("%d: %s %s %s: %d %s, want %d %s", i, c.method, c.path, c.body, r.Code, got, c.status, c.want)
		}
	}
	if n.limits() != "a 50" {
		t.Errorf("default limits: %s", n.limits())
	}
	for _, path := range Paths() {
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest("DELETE", path, nil))
		if r.Code != http.StatusMethodNotAllowed {
			t.Errorf("DELETE %s: %d", path, r.Code)
		}
	}
	n.unlisted = errors.New("no API server")
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest("POST", "/set_default_limits", nil))
	if r.Code != http.StatusBadGateway {
		t.Errorf("%d", r.Code)
	}
}

// TestStopped: nothing is written after /stop.
func TestStopped(t *testing.T) {
	n := &node{}
	l := newLoop(t, n, nil)
	n.join("a", 500, 1)
	l.Stop()
	l.ticks(t, n, 5)
	if len(n.applied) > 0 {
		t.Errorf("%v", n.applied)
	}
}

// TestRun ends with its context, and a setting wakes it.
func TestRun(t *testing.T) {
	n := &node{}
	seen := make(chan Tick, 10)
	l := newLoop(t, n, func(o *Options) { o.Report = func(t Tick) { seen <- t }; o.Interval = time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	<-seen
	if err := l.SetResources(500); err != nil {
		t.Error(err)
	}
	<-seen
	cancel()
	<-done
}

// TestMemoryInTheLoop: without a budget memory stays; with one it goes to the pod that needs
// it, from the one that has too much, and a request that is the limit goes with it.
func TestMemoryInTheLoop(t *testing.T) {
	const mi = 1 << 20
	n := &node{used: map[string]float64{"uid-a": 95 * mi, "uid-b": 10 * mi, "uid-c": 10 * mi}}
	for _, name := range []string{"a", "b", "c"} {
		n.join(name, 200, 100)
	}
	n.pods[0].Memory, n.pods[0].MemoryTogether = vertical.Pod{ID: "uid-a", Limit: 100 * mi, Held: 100 * mi}, true
	n.pods[1].Memory, n.pods[1].MemoryRequest = vertical.Pod{ID: "uid-b", Limit: 100 * mi, Held: 100 * mi, Floor: 50 * mi}, 50*mi
	n.pods[2].MemoryStays = "it has no limit"
	var last Tick
	l := newLoop(t, n, func(o *Options) { o.MemoryWindow, o.Report = 5*time.Second, func(t Tick) { last = t } })
	l.ticks(t, n, 10)
	if got := n.pods[0].Memory.Limit; got != 100*mi || len(last.Memory.Decisions) != 0 {
		t.Fatalf("without a budget %d", got)
	}
	if err := l.change(func(o *Options) { o.Memory = api.MemoryBounds{Budget: 200 * mi, Least: 8 * mi} }); err != nil {
		t.Fatal(err)
	}
	n.applied = nil
	l.ticks(t, n, 10)
	want := "[b memory limit 100Mi → 50Mi (proposal) of memory 50Mi a memory limit 100Mi → 119Mi (proposal) of memory 119Mi]"
	if got := fmt.Sprint(n.applied); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	s := l.state()
	if m := s.Pods[0].Memory; m == nil || m.Limit != 119*mi || *m.Used != 95*mi || s.Pods[2].Memory.Stays != "it has no limit" {
		t.Errorf("%+v", s.Pods)
	}
	for name, bad := range map[string]api.MemoryBounds{"negative": {Budget: -1}, "no floor": {Budget: mi}, "most below least": {Budget: mi, Least: 20, Most: 10}} {
		if err := l.change(func(o *Options) { o.Memory = bad }); err == nil || !strings.HasPrefix(err.Error(), "memory: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Nobody knows what is used: nothing is taken.
	n.applied, n.used["uid-b"] = nil, math.NaN()
	n.pods[1].Memory.Limit, n.pods[1].Memory.Held = 80*mi, 80*mi
	l.ticks(t, n, 80)
	if len(n.applied) != 0 {
		t.Errorf("without readings: %v", n.applied)
	}
}

func TestLoadModel(t *testing.T) {
	write := func(dir, algorithm, environment string, a vertical.Action) {
		t.Helper()
		n, err := rl.NewNetwork(rl.MLP(vertical.Inputs, []int{8}, false, rl.ReLU, a.Space().Outputs()))
		if err != nil {
			t.Fatal(err)
		}
		data, err := rl.Encode(rl.Model{Environment: environment, Algorithm: algorithm, Policy: rl.Policy{Network: n, Actions: a.Space()}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, modelFile), data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	one, each, other, mixed := filepath.Join(root, "one"), filepath.Join(root, "each"), filepath.Join(root, "other"), filepath.Join(root, "mixed")
	write(one, "ddpg", environment, vertical.Changes)
	write(filepath.Join(each, "agent_0"), "mdqn", environment, vertical.Moves)
	write(filepath.Join(each, "agent_1"), "mdqn", environment, vertical.Moves)
	write(other, "dqn", "cartpole", vertical.Moves)
	write(filepath.Join(mixed, "agent_0"), "mdqn", environment, vertical.Moves)
	write(filepath.Join(mixed, "agent_1"), "ppo", environment, vertical.Changes)
	for name, c := range map[string]struct {
		path      string
		only      int
		algorithm string
		minds     int
		refused   string
	}{
		"one for all":                  {one, -1, "ddpg", 1, ""},
		"one for each":                 {each, -1, "mdqn", 2, ""},
		"the second's for all":         {each, 1, "mdqn", 1, ""},
		"nobody's":                     {each, 2, "", 0, "agent_2"},
		"another environment's":        {other, -1, "", 0, "cartpole"},
		"agents of several algorithms": {mixed, -1, "", 0, "mdqn and ppo"},
		"nothing there":                {root, -1, "", 0, "agent_0"},
	} {
		t.Run(name, func(t *testing.T) {
			algorithm, minds, err := LoadModel(c.path, c.only)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || algorithm != c.algorithm || len(minds) != c.minds {
				t.Errorf("%s, %d minds, %v", algorithm, len(minds), err)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	ok := Options{Budget: 1000, Floor: 50, Interval: time.Second, Algorithm: ThresholdMind, Minds: map[string][]vertical.Planner{ThresholdMind: {vertical.DefaultThreshold()}}}
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"budget": func(o *Options) { o.Budget = 0 }, "floor": func(o *Options) { o.Floor = 0 }, "ceiling": func(o *Options) { o.Ceiling = 10 },
		"interval": func(o *Options) { o.Interval = time.Millisecond }, "agents": func(o *Options) { o.Agents = -1 },
		"priorities[1]": func(o *Options) { o.Priorities = []float64{1, 1.5} }, "algorithm": func(o *Options) { o.Algorithm = DQNMind },
	} {
		o := ok
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
