package trainticket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
	"github.com/mash2-io/mash2/planning/rl"
)

// TestWorld: forty services and four types of users, from 200 to 800 requests a second within a
// minute, and enough machines for that.
func TestWorld(t *testing.T) {
	for seed := range uint64(20) {
		s, err := world(rand.New(rand.NewPCG(seed, 71)), Changed(seed%2), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Services) != 40 || len(s.Users) != 4 || s.PassDuration() != passLength {
			t.Fatalf("%d services, %d types of users, passes of %v", len(s.Services), len(s.Users), s.PassDuration())
		}
		var shares, fastest float64
		for _, u := range s.Users {
			shares += u.Share
		}
		all := func(at time.Duration) (sum float64) {
			for i := range s.Users {
				sum += s.TrafficOf(i, 1, 1).RPS(at)
			}
			return sum
		}
		for at := time.Duration(0); at < passLength-time.Minute; at += time.Second {
			fastest = math.Max(fastest, all(at+time.Minute)-all(at))
		}
		if math.Abs(shares-1) > 1e-9 || all(0) < 179 || all(0) > 221 || fastest < 500 {
			t.Errorf("shares %g, from %g requests a second, at most %g more within a minute", shares, all(0), fastest)
		}
	}
}

// watch a decider, and fail where a size is out of bounds.
type watch struct {
	decider
	t *testing.T
}

func (w watch) decide(v *view) []sim.Size {
	out := w.decider.decide(v)
	for i, size := range out {
		s := v.services[i]
		least := s.Min
		if s.Optional {
			least = 0
		}
		if size.Replicas < least || size.Replicas > s.Max || size.MilliCPU < leastCPU || size.MilliCPU > mostCPU || size.Memory < leastMemory || size.Memory > mostMemory {
			w.t.Fatalf("%s of %+v", s.Name, size)
		}
	}
	return out
}

// random outputs, also beyond what a policy may say.
type random struct{ rng *rand.Rand }

func (r random) decide(v *view) []sim.Size {
	return v.apply(nil, func(int) drpc.Action {
		return drpc.Action{CPU: 3 * r.rng.NormFloat64(), Memory: 3 * r.rng.NormFloat64(), Replicas: math.Inf(1 - 2*r.rng.IntN(2))}
	})
}

// TestWithinBounds: no decider leaves what all may use.
func TestWithinBounds(t *testing.T) {
	s, err := application()
	if err != nil {
		t.Fatal(err)
	}
	q := &[coscalStates][len(coscalMoves)]float64{}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range q {
		for m := range q[i] {
			q[i][m] = rng.Float64()
		}
	}
	for name, d := range map[string]decider{
		"random": random{rng}, ruleFIRM: newFIRM(s), ruleJoint: newJoint(), ruleProportional: &proportional{target: 0.75}, ruleCoScal: &coscal{q: q},
	} {
		if _, err := play(t.Context(), watch{d, t}, name, 3, AsTrained, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestAgentsGrowPods: with mash2's agents, pods grow in place until replicas are Ready. Where
// machines are scaled too, there is room for it: users wait less than with the plan alone, and
// nodes cost less than with an HPA.
func TestAgentsGrowPods(t *testing.T) {
	for environment, episodes := range map[string]int{Environment: 2, NodesEnvironment: 1} {
		fixed := environment == Environment
		e, err := Evaluate(t.Context(), []string{rulePlan, ruleAgents, "rule:hpa:60", "rule:hpa:60:3"}, environment, "", episodes, 41, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		plan, agents, hpa := e.Models[0], e.Models[1], e.Models[2]
		if tuned := e.Models[3].CostUSD.Mean; fixed != (tuned == hpa.CostUSD.Mean) || tuned > hpa.CostUSD.Mean {
			t.Errorf("%s: $%.3f an hour where nodes are left sooner, %.3f by default", environment, tuned, hpa.CostUSD.Mean)
		}
		if p99 := agents.P99Ms.Mean; p99 > 0.7*plan.P99Ms.Mean {
			t.Errorf("%s: p99 is %.0f ms, with the plan alone %.0f", environment, p99, plan.P99Ms.Mean)
		}
		if cost := agents.CostUSD.Mean; fixed && cost != plan.CostUSD.Mean || fixed != (cost == hpa.CostUSD.Mean) || !fixed && cost > 0.8*hpa.CostUSD.Mean {
			t.Errorf("%s: $%.3f an hour, the plan alone %.3f, the HPA %.3f", environment, cost, plan.CostUSD.Mean, hpa.CostUSD.Mean)
		}
	}
	for _, name := range []string{"rule:agents:1", "rule:agents:1:0", "rule:agents:a:b"} {
		if _, err := competitorOf(name); err == nil || !strings.Contains(err.Error(), "rule:agents:SECONDS:FLOOR") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRules: what the rivals are about. Those that see without delay and resize in place keep
// nearly all requests where an HPA loses some.
func TestRules(t *testing.T) {
	e, err := Evaluate(t.Context(), []string{ruleHPA, "rule:hpa:50", ruleFIRM, ruleJoint, rulePlan}, Environment, "", 3, 40, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Score{}
	for _, s := range e.Models {
		by[s.Name] = s
		if s.Cores.Mean < 5 || s.Cores.Mean > 40 || s.P99Ms.Mean < s.P50Ms.Mean || s.Return < 0 || s.Return > 1 || s.Retrain != nil {
			t.Errorf("%+v", s)
		}
	}
	hpa := by[ruleHPA]
	for _, name := range []string{ruleFIRM, ruleJoint} {
		if s := by[name]; s.FailedRatio.Mean > hpa.FailedRatio.Mean/2 || s.Return < hpa.Return {
			t.Errorf("%s: %+v, the HPA's %+v", name, s.FailedRatio, hpa.FailedRatio)
		}
	}
	if s := by["rule:hpa:50"]; s.Cores.Mean <= hpa.Cores.Mean || s.FailedRatio.Mean >= hpa.FailedRatio.Mean {
		t.Errorf("at 50 %%: %+v", s)
	}
	if e.Promote != nil || !strings.Contains(e.Why, "one model") {
		t.Errorf("promotes %v: %s", e.Promote, e.Why)
	}
}

// TestCritical: of calls at once only the slowest is on the path, of calls one after the other
// all are.
func TestCritical(t *testing.T) {
	s, err := application()
	if err != nil {
		t.Fatal(err)
	}
	f := newFIRM(s)
	v := &view{services: make([]sim.Service, len(s.Services))}
	for i := range v.services {
		v.services[i].Seconds = 0.001
	}
	v.services[f.index["train"]].Seconds = 0.1
	on := f.critical(v)
	for name, want := range map[string]bool{"ui": true, "basic": true, "train": true, "seat": true, "station": false} {
		if on[f.index[name]] != want {
			t.Errorf("%s on the critical path: %v", name, !want)
		}
	}
}

// TestTrain: a training is the same for the same seed, its model comes back from its folder, and
// a folder that was changed is refused.
func TestTrain(t *testing.T) {
	dir := t.TempDir()
	train := func(name, from string, seed uint64) (Result, []byte) {
		t.Helper()
		out := filepath.Join(dir, name)
		r, err := Train(t.Context(), Options{Environment: Environment, Steps: decisions, Seed: seed, From: from, Out: out, lessons: syllabus{2, 1, 2}}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(out, ModelFile))
		if err != nil {
			t.Fatal(err)
		}
		return r, data
	}
	r, one := train("one", "", 1)
	if r.Episodes != 1 || len(r.Curve) != 1 || !(r.Curve[0].Reward > 0 && r.Curve[0].Reward <= 1) || r.Imitation <= 0 {
		t.Errorf("%+v", r)
	}
	if _, again := train("again", "", 1); !bytes.Equal(one, again) {
		t.Error("the same seed gives another model")
	}
	if _, other := train("other", filepath.Join(dir, "one"), 1); bytes.Equal(one, other) {
		t.Error("it learned on and is the same")
	}
	e, err := Evaluate(t.Context(), []string{filepath.Join(dir, "one"), ruleJoint}, OtherEnvironment, "", 2, 9, io.Discard)
	if err != nil || e.Promote == nil || e.Models[0].Retrain == nil || e.Models[0].Algorithm != Residual {
		t.Errorf("%+v, %v", e, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "one", ModelFile), one[:len(one)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		filepath.Join(dir, "one"): "another model", filepath.Join(dir, "nowhere"): "no such file", "rule:best": "unknown rule",
		"rule:hpa:x": "unknown rule", "rule:joint:60": "unknown rule", "builtin:agents": "no such file",
	} {
		if _, err := Evaluate(t.Context(), []string{name}, Environment, "", 1, 1, io.Discard); !errors.Is(err, training.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for says, o := range map[string]Options{
		"--algorithm": {Algorithm: "dqn", Steps: decisions, Out: dir}, "--steps": {Steps: 1, Out: dir}, "--out": {Steps: decisions}, "--from": {Steps: decisions, Out: dir, From: "nowhere"},
	} {
		o.Environment = Environment
		if _, err := Train(t.Context(), o, io.Discard); !errors.Is(err, training.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// TestStages is Algorithm 1: students that do harm are noticed, they learn from the teacher, and
// then nobody asks for teaching any more.
func TestStages(t *testing.T) {
	net, err := rl.NewNetwork(drpc.StudentArchitecture())
	if err != nil {
		t.Fatal(err)
	}
	net.InitKaiming(rand.New(rand.NewPCG(1, 643)))
	for i := range 3 {
		net.Params[len(net.Params)-1-i] = -1.5 // always less of everything
	}
	policies := make([]rl.Policy, 40)
	for i := range policies {
		policies[i] = rl.Policy{Network: net, Actions: drpc.Actions()}
	}
	shipped, err := open(Builtin)
	if err != nil {
		t.Fatal(err)
	}
	expert, err := newTeacher(1, fromRule, &shipped.Teacher)
	if err != nil {
		t.Fatal(err)
	}
	_, stages, err := operate(t.Context(), expert, policies, 2, 1, syllabus{3, 2, 40}, 901, AsTrained, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", stages)
	if !stages[0].Teaching || stages[1].Teaching || stages[1].Reward <= stages[0].Reward {
		t.Errorf("%+v", stages)
	}
}

// TestToldOfUsers: teaching is due where users wait or fail, though nearly all services do well.
func TestToldOfUsers(t *testing.T) {
	used := sim.Service{Ready: 1, Used: 0.06, Seconds: 0.001, WorkingSet: idealMemory, Size: sim.Size{Replicas: 1, MilliCPU: 100, Memory: 1}}
	v := &view{p99: 0.1, services: make([]sim.Service, 40), idle: make([]float64, 40), local: make([]drpc.Local, 40)}
	for i := range v.services {
		v.services[i], v.idle[i], v.local[i] = used, 0.001, drpc.Local{CPU: idealCPU, Memory: idealMemory}
	}
	if r := v.told(); r < drpc.Threshold {
		t.Errorf("%g where all are well", r)
	}
	v.services[0].Seconds, v.p99, v.failed = 2, 2, 0.14
	if r := v.told(); r >= drpc.Threshold || v.mean() < drpc.Threshold {
		t.Errorf("%g where users wait for 2 s, the mean of services is %g", r, v.mean())
	}
}

// TestSkippedVisits: a service that is left out still sees what is asked of it, or nobody would
// bring it back.
func TestSkippedVisits(t *testing.T) {
	most := typical{rate: []float64{100}, idle: []float64{0.001}}
	v, err := newView(1)
	if err != nil {
		t.Fatal(err)
	}
	window := queueing.Window{Counts: queueing.Counts{Succeeded: 500}}
	v.update([]sim.Service{{Optional: true, Ready: 1, Visits: 40, Size: sim.Size{Replicas: 1, MilliCPU: 100, Memory: 1}}}, window, most)
	v.update([]sim.Service{{Optional: true, Size: sim.Size{MilliCPU: 100, Memory: 1}}}, window, most)
	if v.skipped[0] != 40 || v.local[0].Requests != 0.4 {
		t.Errorf("%g visits were left out, it sees %g", v.skipped[0], v.local[0].Requests)
	}
}

// TestShipped: in episodes that it was not trained in, the model's users wait for less than half
// as long as with an HPA, at p99, and no longer than with the scaler of the critical path, at no
// more cores than either by more than a tenth.
func TestShipped(t *testing.T) {
	e, err := Evaluate(t.Context(), []string{Builtin, ruleHPA, ruleFIRM}, Environment, "", 5, 50, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	m, hpa, firm := e.Models[0], e.Models[1], e.Models[2]
	if m.P99Ms.Mean > hpa.P99Ms.Mean/2 || m.P50Ms.Mean > 1.02*firm.P50Ms.Mean || m.FailedRatio.Mean > hpa.FailedRatio.Mean/4 || m.Cores.Mean > 1.1*firm.Cores.Mean {
		t.Errorf("%+v\n%+v\n%+v", m, hpa, firm)
	}
	if *m.Retrain != 0 {
		t.Errorf("it asks to be taught again in %g of the episodes that it was trained for", *m.Retrain)
	}
}

// TestMachines: the load of an episode keeps the hosts as busy as a file's machines, by a
// profile that is right on stairs that it was not fitted to.
func TestMachines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machines.csv")
	var rows strings.Builder
	rows.WriteString("cpu_util_percent,mem_util_percent\n")
	for i := range 40 {
		fmt.Fprintf(&rows, "%d,87\n", 10+i%20)
	}
	if err := os.WriteFile(file, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := machinesOf(t.Context(), file, AsTrained, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := m.profile
	if !(p.RMSE < 0.02*p.MostRequests) || !(p.LineRMSE < 0.02*p.MostRequests) || p.Samples < 50 {
		t.Errorf("%+v", p)
	}
	for u, before := 0.02, 0.0; u < p.Most; u += 0.02 {
		r := p.Requests(u)
		if !(r > before) {
			t.Errorf("%g requests a second at %g, %g at less", r, u, before)
		}
		before = r
	}
	if p.Requests(1) != p.Requests(p.Most) {
		t.Error("it says something of hosts that are busier than any that it saw")
	}
	used, looks := 0.0, 0
	s, err := world(rand.New(rand.NewPCG(5, 71)), AsTrained, m)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.PassDuration(); got != passLength {
		t.Errorf("a pass of %v, want %v", got, passLength)
	}
	_, err = play(t.Context(), &proportional{target: idealCPU}, "hosts", 5, AsTrained, m, func(v *view) {
		looks++
		for _, of := range v.services {
			used += of.Used / (nodes * nodeCores)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	// The file's machines are 19.5 % busy on average, at any ten minutes of it.
	if mean := used / float64(looks); math.Abs(mean-0.195) > 0.02 {
		t.Errorf("hosts are %.3f busy, the machines are 0.195", mean)
	}
	e, err := Evaluate(t.Context(), []string{ruleJoint}, Environment, file, 1, 1, io.Discard)
	if err != nil || e.Profile == nil || e.Profile.Samples != p.Samples {
		t.Errorf("%+v, %v", e, err)
	}
	for text, says := range map[string]string{
		"": "--input", "cpu_util_percent\n10\n": "rows", "mem_util_percent\n10\n": "cpu_util_percent",
		"cpu_util_percent\n" + strings.Repeat("120\n", 30): "percentages",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Evaluate(t.Context(), []string{ruleJoint}, Environment, file, 1, 1, io.Discard); !errors.Is(err, training.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
	if _, err := fitProfile([]sample{{0.1, 100, false}}, 1); err == nil {
		t.Error("a profile of one sample")
	}
}
