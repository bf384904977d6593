package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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

// A slow API server delays statuses, not cycles: each cycle writes for what is left of its period, and
// goes on where the one before ended, although all change in every cycle.
func TestStatusesOfASlowServerAreWrittenByTurns(t *testing.T) {
	const workloads = 40
	for name, tt := range map[string]struct {
		period time.Duration // a write takes a second
		took   time.Duration // sensing, planning and acting
		each   int           // that a cycle writes
		cycles int           // until all were written
	}{
		"as long as it takes":        {0, time.Hour, workloads, 1},
		"half of a period":           {20 * time.Second, time.Second, 10, 4},
		"just as long as all takes":  {2 * workloads * time.Second, 0, workloads, 1},
		"what is left of the period": {20 * time.Second, 16 * time.Second, 4, 10},
		"an eighth":                  {24 * time.Second, time.Hour, 3, 14},
		"of clocks that went back":   {20 * time.Second, -time.Hour, 10, 4},
		"no time, but for one":       {1, 0, 1, workloads},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			record := cycle(now, nil)
			plan := record.Plan.Workloads[0]
			record.Workloads, record.Plan.Workloads = nil, nil
			var objects []client.Object
			for i := range workloads {
				plan.Key = api.Key{Namespace: "shop", Name: fmt.Sprintf("app-%02d", i)}
				record.Plan.Workloads = append(record.Plan.Workloads, plan)
				objects = append(objects, &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Key.Namespace, Name: plan.Key.Name}})
			}
			slices.Reverse(record.Plan.Workloads) // in no order of their own
			var mu sync.Mutex
			written := map[string]int{}
			count := 0
			c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).Build(), interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					mu.Lock()
					defer mu.Unlock()
					written[o.GetName()]++
					count++
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				},
			})
			clock := now
			s := &Status{
				Client: c, Refresh: time.Minute, Period: tt.period, Logger: slog.New(slog.DiscardHandler),
				Now: func() time.Time { clock = clock.Add(time.Second); return clock },
			}
			for i := range tt.cycles {
				if len(written) == workloads {
					t.Fatalf("all are written after %d cycles, want %d", i, tt.cycles)
				}
				count = 0
				for w := range record.Plan.Workloads {
					record.Plan.Workloads[w].Replicas = int32(10 + i)
				}
				record.Time = record.Time.Add(time.Hour)
				clock = record.Time.Add(tt.took - time.Second) // the first look at it takes one, too
				s.Report(t.Context(), record)
				if count != tt.each {
					t.Fatalf("cycle %d writes %d, want %d", i, count, tt.each)
				}
			}
			if len(written) != workloads {
				t.Errorf("%d of %d are written after %d cycles: %v", len(written), workloads, tt.cycles, written)
			}
		})
	}
}

// Statuses that don't change cost the API server ten writes a second at most, up to 3,000
// workloads, and less than twice as many at 5,000. KEDA learns of each plan in every minute.
func TestManyStatusesAreConfirmedLessOften(t *testing.T) {
	s := &Status{Refresh: time.Minute}
	for workloads, want := range map[int]time.Duration{
		1: time.Minute, 600: time.Minute, 1000: 100 * time.Second, 3000: 5 * time.Minute, 5000: 5 * time.Minute,
	} {
		w := &v1alpha1.ManagedWorkload{}
		if got := s.refresh(w, workloads); got != want {
			t.Errorf("one of %d workloads is confirmed every %v, want %v", workloads, got, want)
		}
		w.Spec.Actuator = v1alpha1.ActuatorKEDA
		if got := s.refresh(w, workloads); got != time.Minute {
			t.Errorf("one of %d that KEDA scales is confirmed every %v", workloads, got)
		}
	}
}

// What KEDA was told to raise is not taken back while data are missing, whichever process
// writes the status.
func TestMissingDataNeverLowerWhatKEDAWasTold(t *testing.T) {
	eight := int32(8)
	for name, tt := range map[string]struct {
		change func(*v1alpha1.ManagedWorkload, *api.Cycle) // of 8 planned before, and 5 now
		want   int32
	}{
		"fresh demand": {func(*v1alpha1.ManagedWorkload, *api.Cycle) {}, 5},
		"stale demand": {func(_ *v1alpha1.ManagedWorkload, c *api.Cycle) { c.Workloads[0].DemandStale = true }, 8},
		"a missing trigger": {func(_ *v1alpha1.ManagedWorkload, c *api.Cycle) {
			c.Plan.Workloads[0].Triggers = []api.TriggerPlan{{Name: "lag", Value: -1, Target: 5, Missing: "no answer"}}
		}, 8},
		"stale demand that still asks for more": {func(w *v1alpha1.ManagedWorkload, c *api.Cycle) {
			w.Status.PlannedReplicas, c.Workloads[0].DemandStale = new(int32(4)), true
		}, 5},
		"one that is held": {func(_ *v1alpha1.ManagedWorkload, c *api.Cycle) {
			c.Workloads[0].DemandStale, c.Plan.Workloads[0].Held = true, true
		}, 5},
		"another spec": {func(w *v1alpha1.ManagedWorkload, c *api.Cycle) {
			w.Status.ObservedGeneration, c.Workloads[0].DemandStale = 2, true
		}, 5},
		"another object with the same names": {func(w *v1alpha1.ManagedWorkload, c *api.Cycle) {
			w.Status, c.Workloads[0].DemandStale = v1alpha1.ManagedWorkloadStatus{}, true
		}, 5},
		"one in Shadow": {func(_ *v1alpha1.ManagedWorkload, c *api.Cycle) {
			c.Workloads[0].Mode, c.Workloads[0].DemandStale = api.ModeShadow, true
		}, 5},
		"one that mash2 scales": {func(w *v1alpha1.ManagedWorkload, c *api.Cycle) {
			w.Spec.Actuator, c.Workloads[0].DemandStale = v1alpha1.ActuatorMash2, true
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			record := cycle(now, nil)
			record.Workloads[0].Mode = api.ModeFull
			w := &v1alpha1.ManagedWorkload{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
				Spec:       v1alpha1.ManagedWorkloadSpec{Actuator: v1alpha1.ActuatorKEDA},
				Status:     v1alpha1.ManagedWorkloadStatus{ObservedGeneration: 3, PlannedReplicas: &eight},
			}
			tt.change(w, &record)
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w).WithStatusSubresource(w).Build()
			s := &Status{Client: c, Refresh: time.Minute, Logger: slog.New(slog.DiscardHandler)}
			s.Report(t.Context(), record)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
				t.Fatal(err)
			}
			if got := *w.Status.PlannedReplicas; got != tt.want {
				t.Errorf("%d planned, want %d", got, tt.want)
			}
		})
	}
}

// What was planned for an object that is gone is not told of one that has its name since.
func TestSuccessorsHaveNoPlanOfTheirPredecessor(t *testing.T) {
	for name, tt := range map[string]struct {
		after time.Duration // the cycle looked
		want  bool
	}{
		"made before":         {-time.Minute, true},
		"made after":          {5 * time.Second, false},
		"made in that second": {0, false}, // times of objects have no more
	} {
		for _, mode := range []api.Mode{api.ModeFull, api.ModeOff} {
			o := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, CreationTimestamp: metav1.NewTime(now.Add(tt.after))}}
			c := writingTo(t, func(context.Context) error { return nil }, o)
			s := &Status{Client: c, Refresh: time.Minute, Logger: slog.New(slog.DiscardHandler)}
			s.Report(t.Context(), cycle(now.Add(900*time.Millisecond), func(c *api.Cycle) {
				if c.Workloads[0].Mode = mode; mode == api.ModeOff {
					c.Plan.Workloads = nil
				}
			}))
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			if got := o.Status.LastCycleTime != nil; got != tt.want {
				t.Errorf("%s, mode %s: written %v, want %v", name, mode, got, tt.want)
			}
		}
	}
}

// After a clock that was ahead statuses are confirmed again, by which KEDA tells how old a plan is.
func TestStatusesAreConfirmedAfterAClockThatWasAhead(t *testing.T) {
	s := &Status{Refresh: time.Minute}
	record := cycle(now.Add(2*time.Hour), nil)
	old := statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{})
	record.Time = now
	if !s.due(web, s.Refresh, old, statusOf(record, record.Plan.Workloads[0], record.Workloads[0], old), now) {
		t.Error("a status of two hours from now is not written again")
	}
}

// A look at the brake, or at a signal, that fails says nothing of the policy and rewrites no
// status, whatever port it failed on.
func TestWhatCannotBeReadRewritesNoStatus(t *testing.T) {
	s := &Status{Refresh: time.Hour}
	at := turn(web, s.Refresh, now)
	record := cycle(at, nil)
	old := statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{})
	for _, f := range []api.Finding{
		{Reason: "BrakeUnreadable", Message: "the pause can't be read, so it stays off as before: slow down"},
		{Reason: "SignalUnreadable", Message: "signals[0] spend: read tcp 10.1.0.7:40001->10.2.0.9:9090: connection reset by peer"},
		{Reason: "SignalUnreadable", Message: "signals[0] spend: read tcp 10.1.0.7:51234->10.2.0.9:9090: connection reset by peer"},
		{Reason: "LastGoodPolicyNotSaved", Message: "this policy or pause is not saved"},
	} {
		f.Severity, f.Agent, f.Object = api.Warning, api.StrategicAgent, api.PolicyRef
		record := cycle(at.Add(15*time.Second), func(c *api.Cycle) { c.Findings = []api.Finding{f} })
		if s.due(web, s.Refresh, old, statusOf(record, record.Plan.Workloads[0], record.Workloads[0], old), record.Time) {
			t.Errorf("it is written again for %s", f.Message)
		}
	}
}
