package operator

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
	"github.com/mash2-io/mash2/record"
)

// corner is a world of one workload that a model is to plan.
type corner struct{ now time.Time }

func (w *corner) Observe(context.Context) (api.Snapshot, error) {
	w.now = w.now.Add(15 * time.Second)
	demand := api.Series{Start: w.now.Add(-time.Minute), Step: 15 * time.Second, Values: []float64{150, 150, 150, 150}}
	return api.Snapshot{
		Time: w.now, Metrics: api.SourceHealth{Reachable: true, LastOK: w.now},
		Workloads: []api.Workload{{
			Key: api.Key{Namespace: "shop", Name: "web"}, Target: api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Mode: api.ModeFull, Planner: learned.Name, Model: "mine", MinReplicas: 1, MaxReplicas: 20, Replicas: 2, ReadyReplicas: 2,
			Shape: &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 100, Pods: 1}}, Demand: demand, SpeedNow: 1,
		}},
	}, nil
}

func (*corner) Spec(context.Context) (api.PolicySpec, []api.Finding, error) {
	p := api.Policy{Name: "P", TargetUtilization: 0.8, Quantile: 0.9, Weights: api.Weights{Cost: 1}}
	return api.PolicySpec{Default: "P", Policies: map[string]api.Policy{"P": p}}, nil, nil
}

func (*corner) Apply(context.Context, api.Action) error { return nil }

func (*corner) Report(context.Context, api.Cycle) {}

// modelThat always chooses an action: 0 for one replica less, 2 for one more.
func modelThat(t *testing.T, action int) []byte {
	t.Helper()
	net, err := rl.NewNetwork(rl.MLP(3, []int{4}, false, rl.ReLU, 3))
	if err != nil {
		t.Fatal(err)
	}
	clear(net.Params)
	net.Params[len(net.Params)-3+action] = 1 // the output layer's biases come last
	data, err := rl.Encode(rl.Model{
		Environment: "test", Algorithm: "test", Policy: rl.Policy{Network: net, Actions: rl.Space{N: 3}},
		Inputs: []rl.Input{{Name: learned.InputCPU, Scale: 100}, {Name: learned.InputRequests, Scale: 50, Millicores: 4}, {Name: learned.InputReplicas, Scale: 10}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestModelsAreRenewed: models that change decide from the next cycle on, those that can't
// be used change nothing and are told of, and all cycles replay to the same bytes.
func TestModelsAreRenewed(t *testing.T) {
	c := Config{Core: core.DefaultConfig(), Logger: slog.New(slog.DiscardHandler), Records: record.Config{Dir: t.TempDir()}}
	c.Sensing.Step, c.Sensing.RateWindow = 15*time.Second, time.Minute
	var files ModelFiles
	var unreadable error
	panics := false
	c.ReadModels = func() (ModelFiles, error) {
		if panics {
			panic("a file like no other")
		}
		return files, unreadable
	}
	hierarchy, err := c.core().Hierarchy()
	if err != nil {
		t.Fatal(err)
	}
	world := &corner{now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	loop := c.core().Loop(hierarchy, core.Ports{Observer: world, Policies: world, Actuator: world, Reporter: world})
	log, err := c.keep(loop)
	if err != nil {
		t.Fatal(err)
	}
	r := &renewal{config: c, fleet: &agents.Fleet{}}
	loop.Renew = func() []api.Finding { return r.take(loop, log) }
	cycles := 0
	cycle := func(want, said string) {
		t.Helper()
		cycles++
		got, err := loop.RunOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if w := got.Plan.Workloads[0]; !strings.Contains(w.Reason, want) {
			t.Errorf("cycle %d: %d replicas, %s, want %q", cycles, w.Replicas, w.Reason, want)
		}
		var told []string
		for _, f := range got.Findings {
			if f.Object.Kind == "models" {
				told = append(told, f.Reason+": "+f.Message)
			}
		}
		if got := strings.Join(told, "\n"); said == "" && got != "" || !strings.Contains(got, said) {
			t.Errorf("cycle %d: told %q, want %q", cycles, got, said)
		}
	}
	const none, decides = `no model "mine"`, "mine"
	cycle(none, "")
	r.look()
	cycle(none, "") // nothing has changed
	files.Learned = map[string][]byte{"mine": modelThat(t, 2)}
	cycle(none, "") // nobody has looked
	r.look()
	cycle(decides, "ModelsRenewed: changed models decide from now on: mine")
	cycle(decides, "")
	for _, damaged := range []ModelFiles{
		{Learned: map[string][]byte{"mine": []byte("not a model")}},
		{Learned: files.Learned, Strategies: map[string][]byte{"qos": []byte("{}")}},
	} {
		good := files
		files = damaged
		r.look()
		cycle(decides, "ModelsRefused: models have changed and can't be used, so those of before go on deciding")
		cycle(decides, "ModelsRefused")
		files = good
	}
	unreadable = errors.New("no such folder")
	r.look()
	cycle(decides, "no such folder")
	unreadable, panics = nil, true
	r.look()
	cycle(decides, "ModelsRefused: models have changed and can't be used, so those of before go on deciding: reading them panicked: a file like no other")
	panics = false
	r.look()
	cycle(decides, "")
	// One of agents and one that decides otherwise: two looks before the loop comes to it.
	ofAgents, _ := vertical.ShippedModel()
	files.Learned = map[string][]byte{"mine": files.Learned["mine"], "pods": ofAgents}
	r.look()
	files.Learned = map[string][]byte{"mine": modelThat(t, 0), "pods": ofAgents}
	r.look()
	cycle(decides, "ModelsRenewed: changed models decide from now on: mine, pods")
	if _, ok := r.fleet.Minds["pods"]; !ok {
		t.Errorf("agents have %v", r.fleet.Minds)
	}
	files.Learned = nil
	r.look()
	cycle(none, "ModelsRenewed")
	c.closeLog(log)

	kept, err := record.Open(os.DirFS(c.Records.Dir))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(kept.Segments); got != 4 {
		t.Errorf("%d segments, want one for each set of models", got)
	}
	again, err := replay.Run(t.Context(), kept, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Cycles != cycles || again.Identical != cycles {
		t.Errorf("%d of %d cycles are decided as they were: %+v", again.Identical, cycles, again.First)
	}
}

// TestWhoBeginsToLeadReadsModels: they may have changed since the process began.
func TestWhoBeginsToLeadReadsModels(t *testing.T) {
	c := Config{Core: core.DefaultConfig(), Logger: slog.New(slog.DiscardHandler)}
	mine := modelThat(t, 2)
	c.ReadModels = func() (ModelFiles, error) { return ModelFiles{Learned: map[string][]byte{"mine": mine}}, nil }
	loop := c.core().Loop(nil, core.Ports{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c.renewing(ctx, loop, nil, &agents.Fleet{})
	if told := loop.Renew(); len(told) != 1 || told[0].Reason != ReasonModelsRenewed {
		t.Errorf("told %v", told)
	}
	if loop.Planner == nil {
		t.Error("no planner")
	}
	c.ReadModels = nil
	other := c.core().Loop(nil, core.Ports{})
	if c.renewing(ctx, other, nil, &agents.Fleet{}); other.Renew != nil {
		t.Error("models that don't change are read again")
	}
}

// TestModelsLeftOut: what could not be used at the start is told of until it is mended.
func TestModelsLeftOut(t *testing.T) {
	c := Config{Core: core.DefaultConfig(), Logger: slog.New(slog.DiscardHandler), LeftOut: errors.New("mine.rl: torn")}
	bad := map[string][]byte{"mine": []byte("not a model")}
	files := ModelFiles{Learned: bad}
	c.ReadModels = func() (ModelFiles, error) { return files, nil }
	r := &renewal{config: c, fleet: &agents.Fleet{}}
	loop := c.core().Loop(nil, core.Ports{})
	for _, step := range []struct {
		learned map[string][]byte
		want    string
	}{
		{bad, "ModelsRefused models can't be used and were left out at the start, so what names them waits: "},
		{map[string][]byte{"mine": modelThat(t, 2)}, "ModelsRenewed changed models decide from now on: mine"},
		{bad, "ModelsRefused models have changed and can't be used, so those of before go on deciding: "},
	} {
		files.Learned = step.learned
		r.look()
		if told := r.take(loop, nil); len(told) != 1 || !strings.HasPrefix(told[0].Reason+" "+told[0].Message, step.want) {
			t.Errorf("told %v, want %q", told, step.want)
		}
	}
}

func TestDiffering(t *testing.T) {
	a := map[string][]byte{"same": {1}, "other": {1}, "gone": {1}}
	b := map[string][]byte{"same": {1}, "other": {2}, "new": {1}}
	if got := differing(a, b); !slices.Equal(got, []string{"gone", "new", "other"}) {
		t.Errorf("%v", got)
	}
	if got := union(differing(nil, nil), nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
