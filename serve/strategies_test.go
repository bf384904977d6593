package serve

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestStrategies: a status is written when something other than figures changed, and says
// what is wrong, or that it is switched off.
func TestStrategies(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	o := &v1alpha1.Strategy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", Generation: 3}}
	writes := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(o).WithStatusSubresource(o).Build(),
		interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}})
	s := &Strategies{Client: c, Logger: slog.New(slog.DiscardHandler)}
	key := api.Key{Namespace: "shop", Name: "s"}
	state := func(on bool, reason string) api.Policy {
		return api.Policy{Strategies: []api.StrategyState{{Key: key, Rules: []api.RuleState{{Name: "r", On: on, Reason: reason}}}}}
	}
	wrong := func(reason, message string) []api.Finding {
		return []api.Finding{{Severity: api.Warning, Reason: reason, Object: api.StrategyRef(key), Message: message}}
	}
	for i, step := range []struct {
		mode       v1alpha1.Mode
		cycle      api.Cycle
		wantWrites int
		wantActive string
		wantReason string // of Ready
	}{
		{"", api.Cycle{}, 0, "", ""},
		{"", api.Cycle{Policy: state(true, "load is 6")}, 1, "r", "Decided"},
		{"", api.Cycle{Policy: state(true, "load is 7")}, 1, "r", "Decided"},
		{"", api.Cycle{Policy: state(true, "stock is 7")}, 2, "r", "Decided"},
		{"", api.Cycle{Error: "held"}, 2, "r", "Decided"},
		{"", api.Cycle{Policy: state(true, "holds"), Findings: wrong("StrategyHolds", "load has no value: 1")}, 3, "r", "StrategyHolds"},
		{"", api.Cycle{Policy: state(true, "holds"), Findings: wrong("StrategyHolds", "load has no value: 2")}, 3, "r", "StrategyHolds"},
		{"", api.Cycle{Policy: state(true, "holds"), Findings: wrong("StrategyHolds", "stock has no value: 2")}, 4, "r", "StrategyHolds"},
		{v1alpha1.ModeOff, api.Cycle{}, 5, "", "Off"},
		{v1alpha1.ModeOff, api.Cycle{}, 5, "", "Off"},
		{"", api.Cycle{}, 5, "", "Off"}, // newer than the cycle
		{"", api.Cycle{Policy: state(false, "load is 1")}, 6, "", "Decided"},
		{v1alpha1.ModeOff, api.Cycle{Findings: wrong("StrategyInvalid", "spec.rules[0].when: no")}, 7, "", "StrategyInvalid"},
		{"", api.Cycle{Findings: wrong("StrategyInvalid", "spec.rules[1].when: no")}, 8, "", "StrategyInvalid"},
	} {
		var got v1alpha1.Strategy
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), &got); err != nil {
			t.Fatal(err)
		}
		got.Spec.Mode = step.mode
		if err := c.Update(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		s.Report(t.Context(), step.cycle)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), &got); err != nil {
			t.Fatal(err)
		}
		ready := ""
		if r := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady); r != nil {
			ready = r.Reason
		}
		if writes != step.wantWrites || got.Status.Active != step.wantActive || ready != step.wantReason {
			t.Errorf("step %d: %d writes, active %q, %s; want %+v", i, writes, got.Status.Active, ready, step)
		}
	}
}

// TestLearningStatus: the status says what is recommended or chosen and why, and is written
// once a round.
func TestLearningStatus(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	o := &v1alpha1.Strategy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", Generation: 3}}
	writes := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(o).WithStatusSubresource(o).Build(),
		interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}})
	s := &Strategies{Client: c, Logger: slog.New(slog.DiscardHandler)}
	key := api.Key{Namespace: "shop", Name: "s"}
	began := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		after      time.Duration
		learning   api.Learning
		wantWrites int
		wantActive string
		wantReason string
	}{
		{0, api.Learning{Reason: "why", Round: &api.LearningRound{Since: began, Recommended: "A"}}, 1, "recommends A", "recommends A: why"},
		{time.Minute, api.Learning{Reason: "figures", Round: &api.LearningRound{Since: began, Recommended: "A"}}, 1, "recommends A", "recommends A: why"},
		{time.Hour, api.Learning{Reason: "new", Last: "it earned 0.5", Round: &api.LearningRound{Since: began.Add(time.Hour), Recommended: "A"}}, 2, "recommends A", "recommends A: new; it earned 0.5"},
		{2 * time.Hour, api.Learning{Reason: "acts", Round: &api.LearningRound{Since: began.Add(2 * time.Hour), Recommended: "B", Done: true}}, 3, "B", "B: acts"},
		{3 * time.Hour, api.Learning{Reason: "it waits", Last: "nobody looked"}, 4, "", "it waits; nobody looked"},
	} {
		learning := step.learning
		s.Report(t.Context(), api.Cycle{Time: began.Add(step.after), Policy: api.Policy{Strategies: []api.StrategyState{{Key: key, Learning: &learning}}}})
		var got v1alpha1.Strategy
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), &got); err != nil {
			t.Fatal(err)
		}
		if writes != step.wantWrites || got.Status.Active != step.wantActive || got.Status.Reason != step.wantReason {
			t.Errorf("step %d: %d writes, %+v; want %+v", i, writes, got.Status, step)
		}
	}
}
