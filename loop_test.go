package mash2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// world is both ports, the policy source, the planner and the reporter of a
// loop, scripted.
type world struct {
	spec                api.PolicySpec
	observeErr, specErr error
	paused              bool
	snapshot            api.Snapshot
	plan                api.Plan
	applyErr            map[string]error // by object
	applied             []string
	plans               int // asked for

	mu     sync.Mutex // of cycles, which TestStart reads while the loop runs, and of applied
	cycles []api.Cycle
}

func (w *world) Observe(context.Context) (api.Snapshot, error) {
	s := w.snapshot
	s.Time = time.Now()
	return s, w.observeErr
}

func (w *world) Spec(context.Context) (api.PolicySpec, []api.Finding, error) {
	spec := w.spec
	spec.Paused = w.paused
	return spec, nil, w.specErr
}

func (w *world) Plan(_ api.Snapshot, _ api.Policy, m planning.Memory) (api.Plan, planning.Memory) {
	w.plans++
	return w.plan, m
}

func (w *world) Apply(_ context.Context, a api.Action) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applied = append(w.applied, a.Object().String())
	return w.applyErr[a.Object().String()]
}

func (w *world) Report(_ context.Context, c api.Cycle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cycles = append(w.cycles, c)
}

// reported are the cycles so far.
func (w *world) reported() []api.Cycle {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.cycles)
}

func (w *world) loop() *Loop {
	return &Loop{
		Config:   Config{Period: 15 * time.Second, ActionTimeout: time.Second, WakeGap: time.Second},
		Observer: w, Policies: w, Planner: w, Actuator: w, Reporter: w,
	}
}

// two workloads that the plan wants at three replicas each.
func two() *world {
	w := &world{applyErr: map[string]error{}}
	for _, name := range []string{"a", "b"} {
		key := api.Key{Namespace: "shop", Name: name}
		w.snapshot.Workloads = append(w.snapshot.Workloads, api.Workload{
			Key: key, Target: api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: 9, Replicas: 2, ReadyReplicas: 2,
			Shape: &api.PodShape{ID: name, Requests: api.Resources{MilliCPU: 100, Pods: 1}},
		})
		w.plan.Workloads = append(w.plan.Workloads, api.WorkloadPlan{Key: key, Current: 2, Scale: api.Scale{Replicas: 3}, NodeReplicas: 3, Floor: 3})
	}
	return w
}

func TestRunOnce(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		change      func(*world)
		wantApplied []string
		wantErr     bool
		wantSkipped string
		wantFailed  int
		wantFinding string
	}{
		"what is planned is done": {
			change: func(*world) {}, wantApplied: []string{"workload shop/a", "workload shop/b"},
		},
		"one failure does not hold the rest": {
			change:      func(w *world) { w.applyErr["workload shop/a"] = boom },
			wantApplied: []string{"workload shop/a", "workload shop/b"}, wantFailed: 1,
		},
		"what the actuator leaves for later is no failure": {
			change: func(w *world) {
				w.applyErr["workload shop/a"] = fmt.Errorf("evicting: %w", &api.NotTriedError{Why: "too soon"})
				w.applyErr["workload shop/b"] = &api.NotTriedError{Why: "too soon"}
			},
			wantApplied: []string{"workload shop/a", "workload shop/b"}, wantSkipped: "too soon",
		},
		"what the actuator refuses for a reason is a finding": {
			change: func(w *world) {
				w.applyErr["workload shop/a"] = &api.NotTriedError{Why: "a pod is there", Reason: "NodeNotVacant"}
				w.applyErr["workload shop/b"] = &api.NotTriedError{Why: "a pod is there"}
			},
			wantApplied: []string{"workload shop/a", "workload shop/b"}, wantSkipped: "a pod is there", wantFinding: "NodeNotVacant",
		},
		"paused plans and writes nothing": {
			change: func(w *world) { w.paused = true }, wantSkipped: "paused",
		},
		"without a safe picture nothing is changed": {
			change: func(w *world) { w.observeErr = boom }, wantErr: true,
		},
		"without any policy nothing is changed": {
			change: func(w *world) { w.specErr = boom }, wantErr: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := two()
			c.change(w)
			cycle, err := w.loop().RunOnce(t.Context())
			if (err != nil) != c.wantErr || (cycle.Error != "") != c.wantErr {
				t.Fatalf("error %v, in the record %q, want one: %v", err, cycle.Error, c.wantErr)
			}
			if diff := cmp.Diff(c.wantApplied, w.applied); diff != "" {
				t.Error(diff)
			}
			failed := 0
			for _, o := range cycle.Outcomes {
				if o.Skipped != c.wantSkipped {
					t.Errorf("%s: skipped %q, want %q", o.Action, o.Skipped, c.wantSkipped)
				}
				if o.Error != "" {
					failed++
				}
			}
			reasons := map[string]int{}
			for _, f := range cycle.Findings {
				reasons[f.Reason]++
			}
			if c.wantFinding != "" && reasons[c.wantFinding] != 1 {
				t.Errorf("%d findings %s, want 1: %v", reasons[c.wantFinding], c.wantFinding, cycle.Findings)
			}
			if failed != c.wantFailed {
				t.Errorf("%d actions failed in the record, want %d", failed, c.wantFailed)
			}
			if c.wantErr && (len(cycle.Findings) == 0 || cycle.Findings[len(cycle.Findings)-1].Reason != "CycleHeld") {
				t.Errorf("the record does not say that the cycle was held: %v", cycle.Findings)
			}
			if len(w.cycles) != 1 {
				t.Errorf("%d cycles were reported, want 1", len(w.cycles))
			}
		})
	}
}

func TestHeldWorkloadIsAFinding(t *testing.T) {
	w := two()
	w.snapshot.Workloads[0].Hold, w.snapshot.Workloads[0].HoldReason = "HPA web scales it as well", "Conflict"
	cycle, err := w.loop().RunOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := api.Finding{Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: "Conflict", Object: api.ParseRef("workload shop/a"), Message: "HPA web scales it as well"}
	for _, f := range cycle.Findings {
		if f == want {
			return
		}
	}
	t.Errorf("findings %v lack %v", cycle.Findings, want)
}

// Time is simulated: cycles come every period, a wake brings one forward but
// never sooner than the gap, and a cycle that fails is followed by another.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two()
		w.observeErr = errors.New("not yet")
		wake := make(chan struct{}, 1)
		l := w.loop()
		l.Config.Wake = wake
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		began := time.Now()
		go func() { done <- l.Start(ctx) }()
		synctest.Wait()
		wake <- struct{}{}
		synctest.Wait()
		if n := len(w.reported()); n != 1 {
			t.Fatalf("%d cycles before the gap has passed, want 1", n)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		var at []time.Duration
		for _, c := range w.reported() {
			at = append(at, c.Time.Sub(began))
		}
		if diff := cmp.Diff([]time.Duration{0, time.Second, 15 * time.Second, 30 * time.Second}, at); diff != "" {
			t.Errorf("cycles at the wrong times: %s", diff)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	good := Config{Period: time.Second, ActionTimeout: time.Second}
	if err := good.Validate(); err != nil {
		t.Errorf("a good config is refused: %v", err)
	}
	for name, c := range map[string]Config{
		"no period":         {ActionTimeout: time.Second},
		"no action timeout": {Period: time.Second},
		"negative wake gap": {Period: time.Second, ActionTimeout: time.Second, WakeGap: -1},
	} {
		if c.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// gate is an Actuator whose actions wait for one another.
type gate struct {
	mu            sync.Mutex
	running, most int
}

func (g *gate) Apply(_ context.Context, a api.Action) error {
	g.mu.Lock()
	g.running++
	g.most = max(g.most, g.running)
	g.mu.Unlock()
	time.Sleep(time.Second)
	g.mu.Lock()
	g.running--
	g.mu.Unlock()
	return errors.New(a.Object().String())
}

// five are workloads to scale.
func five() *world {
	w := two()
	for _, name := range []string{"c", "d", "e"} {
		more := w.plan.Workloads[0]
		more.Key.Name = name
		w.plan.Workloads = append(w.plan.Workloads, more)
		seen := w.snapshot.Workloads[0]
		seen.Key.Name, seen.Target.Name = name, name
		w.snapshot.Workloads = append(w.snapshot.Workloads, seen)
	}
	return w
}

// Actions are carried out as many at once as allowed, and told of in order.
func TestParallelActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, g := five(), &gate{}
		l := w.loop()
		l.Actuator, l.Config.Parallel, l.Config.ActionTimeout = g, 2, time.Minute
		begun := time.Now()
		c, err := l.RunOnce(t.Context())
		if err != nil || len(c.Outcomes) != 5 {
			t.Fatalf("%d outcomes, %v", len(c.Outcomes), err)
		}
		if took := time.Since(begun); g.most != 2 || took != 3*time.Second {
			t.Errorf("at most %d at once, in %v; want 2 in 3s", g.most, took)
		}
		for i, o := range c.Outcomes {
			if o.Error != o.Object.String() {
				t.Errorf("outcome %d of %s is that of %s", i, o.Object, o.Error)
			}
		}
	})
}

// What can't begin in time is left for the next cycle, and said: the last actions of a
// sequence, one after the other or several at once.
func TestActionsAreLeftToTheNextCycle(t *testing.T) {
	for _, c := range []struct {
		parallel int
		most     time.Duration
		done     int // of five, a second each
	}{
		{1, 0, 5}, {1, 5 * time.Second, 5}, {1, 2500 * time.Millisecond, 3}, {2, 500 * time.Millisecond, 2}, {2, 1500 * time.Millisecond, 4}, {2, 2 * time.Second, 5},
	} {
		t.Run(fmt.Sprintf("%d at once for %v", c.parallel, c.most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := five()
				l := w.loop()
				l.Actuator, l.Config.Parallel, l.Config.ActionTimeout, l.Config.ActFor = &gate{}, c.parallel, time.Minute, c.most
				r, err := l.RunOnce(t.Context())
				if err != nil || len(r.Outcomes) != 5 {
					t.Fatalf("%d outcomes, %v", len(r.Outcomes), err)
				}
				for i, o := range r.Outcomes {
					if left := o.Skipped != ""; left != (i >= c.done) || left == (o.Error != "") {
						t.Errorf("outcome %d of %d to begin: %+v", i, c.done, o)
					}
				}
				i := slices.IndexFunc(r.Findings, func(f api.Finding) bool { return f.Reason == "ActionsLeft" })
				if (i >= 0) != (c.done < 5) || i >= 0 && r.Findings[i].Message != fmt.Sprintf("some actions were not begun within %v, and are decided anew: the API server is slow, or --kube-api-qps is low for so many", c.most) {
					t.Errorf("findings %+v", r.Findings)
				}
			})
		})
	}
}

// A plan whose move is refused says so itself: the loop asks for one plan a cycle.
func TestARefusedMoveIsPlannedOnce(t *testing.T) {
	w := two()
	w.plan.Nodes = api.NodePlan{Refusal: &api.Refusal{
		Pool: "fast", Stay: "cheap", Reason: "OutsideWindow", Message: "outside every maintenance window",
	}}
	c, err := w.loop().RunOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w.plans != 1 {
		t.Errorf("%d plans were asked for in one cycle", w.plans)
	}
	if want := []string{"workload shop/a", "workload shop/b"}; !slices.Equal(w.applied, want) {
		t.Errorf("applied %v, want %v: workloads are scaled where they stay", w.applied, want)
	}
	if !slices.ContainsFunc(c.Findings, func(f api.Finding) bool { return f.Reason == "MoveRefused" }) {
		t.Errorf("findings %v don't say why workloads stay", c.Findings)
	}
}

// A panic in a step changes nothing more in this cycle, is told, and leaves the loop, the
// memory and the next cycle as they were; one in an action fails that action alone.
func TestAPanicHoldsTheCycle(t *testing.T) {
	for name, c := range map[string]struct {
		panics  func(w *world, l *Loop)
		wantErr string
		failed  int
	}{
		"the observer": {panics: func(w *world, l *Loop) { l.Observer = panicking{w, "observe"} }, wantErr: "the cycle panicked: observe"},
		"the planner":  {panics: func(w *world, l *Loop) { l.Planner = panicking{w, "plan"} }, wantErr: "the cycle panicked: plan"},
		"an action":    {panics: func(w *world, l *Loop) { l.Actuator = panicking{w, "act"} }, failed: 2},
		"several actions at once": {
			panics: func(w *world, l *Loop) { l.Actuator, l.Config.Parallel = panicking{w, "act"}, 4 }, failed: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := two()
			l := w.loop()
			var told []string
			var mu sync.Mutex
			l.Panicked = func(what string, value any, stack []byte) {
				mu.Lock()
				defer mu.Unlock()
				if len(stack) == 0 {
					t.Error("no stack")
				}
				told = append(told, fmt.Sprintf("%s: %v", what, value))
			}
			before := l.memory.Hash()
			c.panics(w, l)
			r, err := l.RunOnce(t.Context())
			if got := fmt.Sprint(err); c.wantErr != "" && got != c.wantErr || c.wantErr == "" && err != nil {
				t.Errorf("error = %v, want %q", err, c.wantErr)
			}
			failed := 0
			for _, o := range r.Outcomes {
				if o.Error == "the action panicked: act" {
					failed++
				}
			}
			if failed != c.failed || len(told) != max(1, c.failed) || len(w.applied) > 0 {
				t.Errorf("%d actions failed, %v told, %v applied", failed, told, w.applied)
			}
			if c.wantErr != "" && (l.memory.Hash() != before || !slices.ContainsFunc(r.Findings, func(f api.Finding) bool { return f.Reason == "CycleHeld" })) {
				t.Errorf("memory changed, or nobody is told: %v", r.Findings)
			}
			l.Observer, l.Planner, l.Actuator = w, w, w
			if _, err := l.RunOnce(t.Context()); err != nil || len(w.applied) != 2 {
				t.Errorf("the next cycle: %v, applied %v", err, w.applied)
			}
		})
	}
}

// panicking is a world of which one port panics.
type panicking struct {
	*world
	at string
}

func (p panicking) panic(at string) {
	if p.at == at {
		panic(at)
	}
}

func (p panicking) Observe(ctx context.Context) (api.Snapshot, error) {
	p.panic("observe")
	return p.world.Observe(ctx)
}

func (p panicking) Plan(s api.Snapshot, policy api.Policy, m planning.Memory) (api.Plan, planning.Memory) {
	p.panic("plan")
	return p.world.Plan(s, policy, m)
}

func (p panicking) Apply(ctx context.Context, a api.Action) error {
	p.panic("act")
	return p.world.Apply(ctx, a)
}

func (p panicking) Record(api.Record) []api.Finding   { p.panic("record"); return nil }
func (p panicking) Report(context.Context, api.Cycle) { p.panic("report") }

// What was done is not called undone where only keeping the memory, or telling of it, panics.
func TestAPanicAfterTheActionsIsNoHeldCycle(t *testing.T) {
	for name, c := range map[string]struct {
		panics func(*Loop)
		told   string
		want   string // finding
	}{
		"of checkpoints":  {func(l *Loop) { l.Checkpoints = panickingCheckpoints{} }, "keeping the memory", "StateNotSaved"},
		"of the recorder": {func(l *Loop) { l.Recorder = panicking{at: "record"} }, "recording", "RecordsStopped"},
		"of the reporter": {func(l *Loop) { l.Reporter = panicking{at: "report"} }, "reporting", ""},
	} {
		w := two()
		l := w.loop()
		c.panics(l)
		told := ""
		l.Panicked = func(what string, _ any, _ []byte) { told += what }
		r, err := l.RunOnce(t.Context())
		if err != nil || r.Error != "" || len(w.applied) != 2 || told != c.told {
			t.Errorf("%s: error = %v, cycle's %q, %d applied, told of %q", name, err, r.Error, len(w.applied), told)
		}
		has := func(reason string) bool {
			return slices.ContainsFunc(r.Findings, func(f api.Finding) bool { return f.Reason == reason })
		}
		if c.want != "" && !has(c.want) || has("CycleHeld") {
			t.Errorf("%s: findings: %v", name, r.Findings)
		}
	}
}

// unread are checkpoints that can't be read so many times.
type unread struct {
	times int
	saved int
}

func (u *unread) Load() (planning.Memory, time.Time, []api.Finding, error) {
	if u.times--; u.times >= 0 {
		return planning.Memory{}, time.Time{}, nil, errors.New("etcdserver: request timed out")
	}
	return planning.Memory{}, time.Time{}, nil, nil
}

func (u *unread) Save(planning.Memory, time.Time, bool) []api.Finding { u.saved++; return nil }

// What was learnt before, and can't be read now, is waited for: nothing is done, and nothing takes its place.
// It is not waited for for ever.
func TestWhatWasLearntIsWaitedFor(t *testing.T) {
	for times, held := range map[int]int{0: 0, 3: 3, 1000: 7} {
		w := two()
		l := w.loop()
		c := &unread{times: times}
		l.Checkpoints = c
		for i := range 9 {
			cycle, err := l.RunOnce(t.Context())
			if waits := i < held; waits != (err != nil) || waits && (len(w.applied) > 0 || c.saved > 0 || !strings.Contains(cycle.Error, "learnt before: etcdserver")) {
				t.Errorf("unread %d times, cycle %d: %v; %d actions, %d saved", times, i, err, len(w.applied), c.saved)
			}
		}
		if len(w.applied) == 0 || c.saved != 9-held {
			t.Errorf("unread %d times: %d actions, %d saved", times, len(w.applied), c.saved)
		}
	}
}

type panickingCheckpoints struct{}

func (panickingCheckpoints) Load() (planning.Memory, time.Time, []api.Finding, error) {
	return planning.Memory{}, time.Time{}, nil, nil
}
func (panickingCheckpoints) Save(planning.Memory, time.Time, bool) []api.Finding { panic("save") }
