package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// writingTo has some objects, and calls before each write of a status, which fails with what
// that returns.
func writingTo(t *testing.T, before func(context.Context) error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).Build(),
		interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := before(ctx); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}})
}

// An API server that doesn't answer, or a client whose own limit lets nothing more through,
// holds no cycle for more than half of its period, and all statuses are written once it answers.
func TestServerThatDoesNotAnswerHoldsNoCycle(t *testing.T) {
	const period, objects = time.Second, 40
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	limited := func(context.Context) error {
		return errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline")
	}
	workloads := func(t *testing.T, before func(context.Context) error) (report func(at time.Time), unwritten func() int) {
		record := cycle(now, nil)
		plan := record.Plan.Workloads[0]
		record.Workloads, record.Plan.Workloads = nil, nil
		var all []client.Object
		for i := range objects {
			plan.Key = api.Key{Namespace: "shop", Name: fmt.Sprintf("app-%02d", i)}
			record.Plan.Workloads = append(record.Plan.Workloads, plan)
			all = append(all, &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Key.Namespace, Name: plan.Key.Name}})
		}
		c := writingTo(t, before, all...)
		s := &Status{Client: c, Refresh: time.Hour, Period: period, Logger: slog.New(slog.DiscardHandler)}
		return func(at time.Time) { record.Time = at; s.Report(t.Context(), record) }, func() (n int) {
			var list v1alpha1.ManagedWorkloadList
			if err := c.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				if o.Status.PlannedReplicas == nil {
					n++
				}
			}
			return n
		}
	}
	strategies := func(t *testing.T, before func(context.Context) error) (report func(at time.Time), unwritten func() int) {
		var policy api.Policy
		var all []client.Object
		for i := range objects {
			key := api.Key{Namespace: "shop", Name: fmt.Sprintf("s-%02d", i)}
			policy.Strategies = append(policy.Strategies, api.StrategyState{Key: key, Rules: []api.RuleState{{Name: "r", On: true}}})
			all = append(all, &v1alpha1.Strategy{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
		}
		c := writingTo(t, before, all...)
		s := &Strategies{Client: c, Period: period, Logger: slog.New(slog.DiscardHandler)}
		return func(at time.Time) { s.Report(t.Context(), api.Cycle{Time: at, Policy: policy}) }, func() (n int) {
			var list v1alpha1.StrategyList
			if err := c.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				if o.Status.Active == "" {
					n++
				}
			}
			return n
		}
	}
	for name, tt := range map[string]struct {
		of     func(*testing.T, func(context.Context) error) (func(time.Time), func() int)
		server func(context.Context) error
	}{
		"statuses of workloads, no answer":  {workloads, silent},
		"statuses of workloads, limited":    {workloads, limited},
		"statuses of strategies, no answer": {strategies, silent},
		"statuses of strategies, limited":   {strategies, limited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answers atomic.Bool
			var begun atomic.Int32
			report, unwritten := tt.of(t, func(ctx context.Context) error {
				begun.Add(1)
				if answers.Load() {
					return nil
				}
				return tt.server(ctx)
			})
			began := time.Now()
			report(began)
			if took := time.Since(began); took > period*3/4 {
				t.Errorf("of a period of %v statuses took %v", period, took)
			}
			if n := begun.Load(); n > 20 { // sixteen at once
				t.Errorf("%d writes were begun of which none could be", n)
			}
			answers.Store(true)
			for range 20 { // each writes what it has time for
				report(time.Now())
				if unwritten() == 0 {
					return
				}
			}
			t.Errorf("%d statuses were never written", unwritten())
		})
	}
}
