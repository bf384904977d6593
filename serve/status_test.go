package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

func TestStatusOf(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*api.Cycle)
		wantStatus metav1.ConditionStatus
		wantReason string
	}{
		"planned":              {nil, metav1.ConditionTrue, "Forecast"},
		"held over a conflict": {func(c *api.Cycle) { c.Workloads[0].HoldReason, c.Plan.Workloads[0].Held = "Conflict", true }, metav1.ConditionFalse, "Conflict"},
		"held by the planner":  {func(c *api.Cycle) { c.Plan.Workloads[0].Held, c.Plan.Workloads[0].Binding = true, "hold" }, metav1.ConditionFalse, "Hold"},
		"paused":               {func(c *api.Cycle) { c.Paused = true }, metav1.ConditionFalse, "Paused"},
		"demand is stale":      {func(c *api.Cycle) { c.Workloads[0].DemandStale = true }, metav1.ConditionFalse, "DemandStale"},
		"it could not be scaled": {func(c *api.Cycle) {
			c.Outcomes[0].Object, c.Outcomes[0].Error = api.ParseRef("workload shop/web"), "deployments.apps is forbidden"
		}, metav1.ConditionFalse, "ScaleWorkloadFailed"},
		"another could not be scaled": {func(c *api.Cycle) {
			c.Outcomes[0].Object, c.Outcomes[0].Error = api.ParseRef("workload shop/api"), "no"
		}, metav1.ConditionTrue, "Forecast"},
		"a reason that is no word": {func(c *api.Cycle) { c.Plan.Workloads[0].Binding = "– " }, metav1.ConditionTrue, "Planned"},
	} {
		t.Run(name, func(t *testing.T) {
			record := cycle(now, c.change)
			got := statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{})
			ready := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Status != c.wantStatus || ready.Reason != c.wantReason {
				t.Errorf("conditions %+v, want Ready %s %s", got.Conditions, c.wantStatus, c.wantReason)
			}
			if got.ObservedGeneration != 3 || *got.CurrentReplicas != 4 || *got.PlannedReplicas != 5 || got.Forecast.Skill != "0.80" || got.Forecast.Peak != "0.90" {
				t.Errorf("status %+v", got)
			}
		})
	}
	t.Run("triggers are shown, and one that is missing is why nothing goes down", func(t *testing.T) {
		record := cycle(now, func(c *api.Cycle) {
			c.Plan.Workloads[0].Triggers = []api.TriggerPlan{
				{Name: "queue", Value: 42.5, Target: 20, Replicas: 3, Active: true},
				{Name: "lag", Value: -1, Target: 5, Missing: "no answer"},
			}
		})
		got := statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{})
		want := []v1alpha1.TriggerStatus{{Name: "queue", Value: "42.5", Replicas: new(int32(3)), Active: true}, {Name: "lag", Message: "no answer"}}
		if diff := cmp.Diff(want, got.Triggers); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		ready := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "TriggerMissing" {
			t.Errorf("condition %+v", ready)
		}
		m, err := NewMetrics(prometheus.NewPedanticRegistry())
		if err != nil {
			t.Fatal(err)
		}
		m.Report(t.Context(), record)
		metrics := `
# HELP mash2_workload_trigger_missing 1 while a trigger can't be read, so that replicas don't go down.
# TYPE mash2_workload_trigger_missing gauge
mash2_workload_trigger_missing{namespace="shop",trigger="lag",workload="web"} 1
mash2_workload_trigger_missing{namespace="shop",trigger="queue",workload="web"} 0
# HELP mash2_workload_trigger_replicas Replicas that a trigger asks for now; absent while it is missing.
# TYPE mash2_workload_trigger_replicas gauge
mash2_workload_trigger_replicas{namespace="shop",trigger="queue",workload="web"} 3
`
		if err := testutil.CollectAndCompare(m, strings.NewReader(metrics), "mash2_workload_trigger_missing", "mash2_workload_trigger_replicas"); err != nil {
			t.Error(err)
		}
	})
	t.Run("a pool that somebody else resizes is a conflict, with a plan for nodes or without", func(t *testing.T) {
		for _, pools := range [][]api.PoolShare{{{Pool: "cheap", Replicas: 5}}, nil} {
			record := cycle(now, func(c *api.Cycle) {
				c.Plan.Workloads[0].Pools = pools
				c.Findings = []api.Finding{
					{Severity: api.Warning, Reason: api.ReasonConflict, Object: api.ParseRef("workload shop/till"), Message: "an HPA"},
					{Severity: api.Warning, Reason: api.ReasonConflict, Object: api.ParseRef("pool cheap"), Message: "Karpenter resizes it"},
				}
			})
			got := meta.FindStatusCondition(statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{}).Conditions, v1alpha1.ConditionMovable)
			const want = "False Conflict: pool cheap: Karpenter resizes it"
			if got == nil || fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message) != want {
				t.Errorf("plan for %v: condition %+v, want %s", pools, got, want)
			}
		}
	})
	t.Run("pods that are refused are said in the condition of their own workload only", func(t *testing.T) {
		for object, want := range map[string]string{
			"workload shop/web":  "False PodsRefused: spec.targetRef: no room; the plan stays: because",
			"workload shop/till": "True Forecast: because",
		} {
			record := cycle(now, func(c *api.Cycle) {
				c.Findings = []api.Finding{{Severity: api.Warning, Reason: api.ReasonPodsRefused, Object: api.ParseRef(object), Message: "spec.targetRef: no room"}}
			})
			got := meta.FindStatusCondition(statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{}).Conditions, v1alpha1.ConditionReady)
			if got == nil || fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message) != want {
				t.Errorf("condition %+v, want %s", got, want)
			}
		}
	})
	t.Run("a move that is refused has a condition that names what forbids it", func(t *testing.T) {
		for want, r := range map[string]*api.Refusal{
			"True NothingForbidsIt: its pods are on pool cheap or move there": nil,
			"False DisruptionBudget: it stays on pool cheap instead of fast: pod shop/web-1: PodDisruptionBudget shop/web never allows it": {
				Pool: "fast", Stay: "cheap", Reason: "DisruptionBudget", Message: "pod shop/web-1: PodDisruptionBudget shop/web never allows it",
			},
		} {
			record := cycle(now, func(c *api.Cycle) { c.Plan.Nodes.Refusal = r })
			got := meta.FindStatusCondition(statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{}).Conditions, v1alpha1.ConditionMovable)
			if got == nil || fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message) != want {
				t.Errorf("condition %+v, want %s", got, want)
			}
		}
	})
	t.Run("what is not acted on is not movable", func(t *testing.T) {
		for want, change := range map[string]func(*api.Cycle){
			"False NotActedOn: its pods stay on the nodes that they are on: it is in Shadow": func(c *api.Cycle) { c.Plan.Workloads[0].Shadow = true },
			"False NotActedOn: its pods stay on the nodes that they are on: an HPA": func(c *api.Cycle) {
				c.Plan.Workloads[0].Held, c.Workloads[0].HoldReason, c.Workloads[0].Hold = true, "Conflict", "an HPA"
			},
		} {
			record := cycle(now, change)
			got := meta.FindStatusCondition(statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{}).Conditions, v1alpha1.ConditionMovable)
			if got == nil || fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message) != want {
				t.Errorf("condition %+v, want %s", got, want)
			}
		}
	})
	t.Run("what is off is not ready, and keeps what was planned", func(t *testing.T) {
		before := cycle(now, func(c *api.Cycle) {
			c.Plan.Workloads[0].Sizing = &api.SizingPlan{Mode: api.SizingInPlace, Containers: []api.ContainerPlan{{Name: "web", TemplateLimits: api.Amounts{MilliCPU: 2000}}}}
		})
		old := statusOf(before, before.Plan.Workloads[0], before.Workloads[0], v1alpha1.ManagedWorkloadStatus{})
		if s := old.Sizing; s.Mode != v1alpha1.SizingInPlace || s.Containers[0].TemplateLimits.CPU.MilliValue() != 2000 {
			t.Errorf("sizes %+v", s)
		}
		off := cycle(now.Add(time.Minute), func(c *api.Cycle) {
			c.Plan.Workloads, c.Workloads[0].Mode, c.Workloads[0].Generation = nil, api.ModeOff, 4
		})
		got := statusOff(off, off.Workloads[0], old)
		ready := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "Off" || ready.ObservedGeneration != 4 {
			t.Errorf("condition %+v", ready)
		}
		if meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionMovable) != nil || *got.PlannedReplicas != 5 || got.ObservedGeneration != 4 {
			t.Errorf("status %+v", got)
		}
		if got.Sizing.Mode != v1alpha1.SizingRecommendOnly || old.Sizing.Mode != v1alpha1.SizingInPlace || len(got.Sizing.Containers) != 1 {
			t.Errorf("sizes that new pods get %+v", got.Sizing)
		}
	})
	t.Run("a skill that is not known is not shown", func(t *testing.T) {
		record := cycle(now, func(c *api.Cycle) {
			c.Plan.Workloads[0].Skill = &api.ForecastSkill{Model: "seasonal", Trust: api.TrustNone}
		})
		got := statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{}).Forecast
		if got.Skill != "" || got.SeasonalSkill != "" || got.Trust != "none" {
			t.Errorf("forecast %+v", got)
		}
	})
	t.Run("the skill of a forecast that may not act is shown", func(t *testing.T) {
		record := cycle(now, func(c *api.Cycle) {
			p := &c.Plan.Workloads[0]
			p.Forecast, p.Skill = nil, &api.ForecastSkill{Model: "level", LastValue: of(-0.4), Seasonal: of(-1.5), Trust: api.TrustNone}
		})
		got := statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{}).Forecast
		want := &v1alpha1.ForecastStatus{Model: "level", Skill: "-0.40", SeasonalSkill: "-1.50", Trust: "none", Licence: "none"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// What is wrong with the policy is told to those who are planned by it; that a pool is stocked
// out, or that the pause or a signal can't be read, is not wrong with the policy.
func TestPolicyAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		finding    api.Finding
		wantStatus metav1.ConditionStatus
		wantReason string
	}{
		"nothing is wrong": {wantStatus: metav1.ConditionTrue, wantReason: "Accepted"},
		"a field is wrong": {
			api.Finding{Severity: api.Warning, Agent: api.StrategicAgent, Reason: "InvalidPolicy", Object: api.PolicyRef, Message: "policies.A.quantile: no"},
			metav1.ConditionFalse, "InvalidPolicy",
		},
		"something else is": {
			api.Finding{Severity: api.Warning, Agent: api.NodePlanningAgent, Reason: "PoolsUnreadable", Object: api.ParseRef("pools"), Message: "down"},
			metav1.ConditionTrue, "Accepted",
		},
		"the pause can't be read": {
			api.Finding{Severity: api.Warning, Agent: api.StrategicAgent, Reason: "BrakeUnreadable", Object: api.PolicyRef, Message: "slow down"},
			metav1.ConditionTrue, "Accepted",
		},
		"a pool is unknown": {
			api.Finding{Severity: api.Warning, Agent: api.StrategicAgent, Reason: "UnknownPool", Object: api.PolicyRef, Message: "policies.A.nodePools[0]"},
			metav1.ConditionFalse, "UnknownPool",
		},
	} {
		t.Run(name, func(t *testing.T) {
			record := cycle(now, func(r *api.Cycle) { r.Findings = append(r.Findings, c.finding) })
			status := statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{})
			got := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPolicyAccepted)
			if got == nil || got.Status != c.wantStatus || got.Reason != c.wantReason {
				t.Fatalf("condition is %+v, want %s %s", got, c.wantStatus, c.wantReason)
			}
			if c.wantStatus == metav1.ConditionFalse && got.Message != c.finding.Message {
				t.Errorf("message is %q", got.Message)
			}
			// Where it was accepted before, and the workload is not planned any more.
			off := statusOff(record, record.Workloads[0], statusOf(cycle(now, nil), record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{}))
			if got := meta.FindStatusCondition(off.Conditions, v1alpha1.ConditionPolicyAccepted); got == nil || got.Status != c.wantStatus || got.Reason != c.wantReason {
				t.Errorf("with spec.mode Off the condition is %+v, want %s %s", got, c.wantStatus, c.wantReason)
			}
		})
	}
}

func TestStatusIsWrittenWhenItMatters(t *testing.T) {
	s := &Status{Refresh: time.Minute}
	var old v1alpha1.ManagedWorkloadStatus
	of := func(at time.Time, change func(*api.Cycle)) v1alpha1.ManagedWorkloadStatus {
		record := cycle(at, change)
		return statusOf(record, record.Plan.Workloads[0], record.Workloads[0], old)
	}
	triggered := func(value float64, missing string) func(*api.Cycle) {
		return func(c *api.Cycle) {
			c.Plan.Workloads[0].Triggers = []api.TriggerPlan{{Name: "queue", Value: value, Target: 2, Missing: missing}}
		}
	}
	held := func(c *api.Cycle, reason, why string) {
		c.Plan.Workloads[0].Held, c.Plan.Workloads[0].Reason = true, why
		c.Workloads[0].HoldReason, c.Workloads[0].Hold = reason, why
	}
	policy := func(why string) func(*api.Cycle) {
		return func(c *api.Cycle) {
			held(c, "InvalidBounds", "it uses 1.5 cores")
			c.Findings = append(c.Findings, api.Finding{Severity: api.Warning, Agent: api.StrategicAgent, Reason: "InvalidPolicy", Object: api.PolicyRef, Message: why})
		}
	}
	old = of(now, policy("policies.A.quantile: must be below 1, is 5"))
	for name, c := range map[string]struct {
		change func(*api.Cycle)
		due    bool
	}{
		"the same error":            {policy("policies.A.quantile: must be below 1, is 5"), false},
		"another one of the policy": {policy("policies.A.quantile: must be below 1, is 7"), true},
		"the same hold, in other figures": {func(c *api.Cycle) {
			policy("policies.A.quantile: must be below 1, is 5")(c)
			held(c, "InvalidBounds", "it uses 1.75 cores")
		}, false},
		"the same hold, for something else": {func(c *api.Cycle) {
			policy("policies.A.quantile: must be below 1, is 5")(c)
			held(c, "InvalidBounds", "spec.maxReplicas")
		}, true},
	} {
		at := now.Add(-now.Sub(turn(web, s.Refresh, now)))
		before := *old.DeepCopy()
		before.LastCycleTime = &metav1.Time{Time: at}
		if got := s.due(web, s.Refresh, before, of(at.Add(15*time.Second), c.change), at.Add(15*time.Second)); got != c.due {
			t.Errorf("%s: due %v, want %v", name, got, c.due)
		}
	}
	old = v1alpha1.ManagedWorkloadStatus{}
	old = of(now, triggered(5, ""))
	for name, c := range map[string]struct {
		want v1alpha1.ManagedWorkloadStatus
		at   time.Time
		due  bool
	}{
		"nothing new":            {of(now.Add(15*time.Second), triggered(5, "")), now.Add(15 * time.Second), false},
		"only another sentence":  {of(now.Add(15*time.Second), func(c *api.Cycle) { triggered(5, "")(c); c.Plan.Workloads[0].Reason = "other" }), now.Add(15 * time.Second), false},
		"other replicas planned": {of(now.Add(15*time.Second), func(c *api.Cycle) { c.Plan.Workloads[0].Replicas = 6 }), now.Add(15 * time.Second), true},
		"a trigger reads more":   {of(now.Add(15*time.Second), triggered(7, "")), now.Add(15 * time.Second), false},
		"a trigger is missing":   {of(now.Add(15*time.Second), triggered(7, "no answer")), now.Add(15 * time.Second), true},
		"held":                   {of(now.Add(15*time.Second), func(c *api.Cycle) { c.Workloads[0].HoldReason = "Conflict" }), now.Add(15 * time.Second), true},
		"a minute has passed":    {of(now.Add(time.Minute), nil), now.Add(time.Minute), true},
	} {
		// As if written at this workload's turn, of which the next is a minute on.
		ago := now.Sub(turn(web, s.Refresh, now))
		old := *old.DeepCopy()
		old.LastCycleTime = &metav1.Time{Time: now.Add(-ago)}
		if got := s.due(web, s.Refresh, old, c.want, c.at.Add(-ago)); got != c.due {
			t.Errorf("%s: due %v, want %v", name, got, c.due)
		}
	}
}

// What keeps a trigger from being read is told at once when it is another thing, and not
// for each new figure in it.
func TestWhatATriggerLacksIsNotOld(t *testing.T) {
	s := &Status{Refresh: time.Minute}
	at := turn(web, s.Refresh, now)
	var old v1alpha1.ManagedWorkloadStatus
	of := func(at time.Time, missing string) v1alpha1.ManagedWorkloadStatus {
		record := cycle(at, func(c *api.Cycle) {
			c.Plan.Workloads[0].Triggers = []api.TriggerPlan{{Name: "queue", Target: 2, Missing: missing}}
		})
		return statusOf(record, record.Plan.Workloads[0], record.Workloads[0], old)
	}
	old = of(at, "connection refused for 15s")
	for missing, due := range map[string]bool{
		"connection refused for 15s":    false,
		"connection refused for 30s":    false,
		"unexpected status: 401":        true,
		"":                              true,
		"no sample for 15s, at the end": true,
	} {
		if got := s.due(web, s.Refresh, old, of(at.Add(15*time.Second), missing), at.Add(15*time.Second)); got != due {
			t.Errorf("%q: due %v, want %v", missing, got, due)
		}
	}
}

// Statuses that were all written in one cycle, and do not change, are confirmed
// once in every Refresh, about as many of them in each cycle.
func TestStatusesTakeTurns(t *testing.T) {
	const workloads, period = 1000, 15 * time.Second
	s := &Status{Refresh: time.Minute}
	type written struct {
		key    api.Key
		status v1alpha1.ManagedWorkloadStatus
	}
	all := make([]written, workloads)
	record := cycle(now, nil)
	for i := range all {
		all[i] = written{api.Key{Namespace: "shop", Name: fmt.Sprintf("app-%d", i)}, statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{})}
	}
	writes := make([]int, 20)
	for n := range writes {
		at := now.Add(time.Duration(n+1) * period)
		for i := range all {
			old := &all[i].status
			want := *old.DeepCopy()
			want.LastCycleTime = &metav1.Time{Time: at}
			if !s.due(all[i].key, s.Refresh, *old, want, at) {
				// A whole Refresh since the last turn, and up to a cycle until it was noticed.
				if age := at.Sub(old.LastCycleTime.Time); age >= s.Refresh+period {
					t.Fatalf("%s was written %v ago", all[i].key, age)
				}
				continue
			}
			*old = want
			writes[n]++
		}
	}
	for n, count := range writes {
		// A quarter of them each, by 6 standard deviations of a fair choice.
		if least, most := 168, 332; count < least || count > most {
			t.Errorf("cycle %d: %d statuses written, want %d to %d; all: %v", n, count, least, most, writes)
		}
	}
}

// Every status is written although each is slow and some fail.
func TestStatusesAreWrittenSideBySide(t *testing.T) {
	const workloads = 100
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	record := cycle(now, func(c *api.Cycle) { c.Workloads, c.Plan.Workloads = nil, nil })
	for i := range workloads {
		key := api.Key{Namespace: "shop", Name: fmt.Sprintf("app-%d", i)}
		objects = append(objects, &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
		record.Workloads = append(record.Workloads, api.WorkloadStatus{Key: key, Replicas: int32(i)})
		record.Plan.Workloads = append(record.Plan.Workloads, api.WorkloadPlan{Key: key, Scale: api.Scale{Replicas: int32(i) + 1}, Binding: "forecast"})
	}
	var now, most atomic.Int32
	c := interceptor.NewClient(
		fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.ManagedWorkload{}).Build(),
		interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Millisecond)
			if o.GetName() == "app-7" {
				return errors.New("no")
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}})
	s := &Status{Client: c, Refresh: time.Minute, Logger: slog.New(slog.DiscardHandler)}
	s.Report(t.Context(), record)
	if n := most.Load(); n < 2 || n > 16 {
		t.Errorf("at most %d writes at a time, want 2 to 16", n)
	}
	var list v1alpha1.ManagedWorkloadList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		i, err := strconv.Atoi(strings.TrimPrefix(o.Name, "app-"))
		if err != nil {
			t.Fatal(err)
		}
		switch p := o.Status.PlannedReplicas; {
		case i == 7 && p != nil:
			t.Errorf("%s: %d replicas planned, its write failed", o.Name, *p)
		case i != 7 && (p == nil || *p != int32(i)+1):
			t.Errorf("%s: planned replicas are %v, want %d", o.Name, p, i+1)
		}
	}
}

// The pools of a workload are listed; the old field names the one there is.
func TestStatusNamesThePools(t *testing.T) {
	share := func(pool string, n int32) api.PoolShare { return api.PoolShare{Pool: pool, Replicas: n} }
	for name, c := range map[string]struct {
		pools     []api.PoolShare
		want      []v1alpha1.NodePoolShare
		wantAlias string
		movable   string
	}{
		"none": {},
		"one": {
			pools: []api.PoolShare{share("cheap", 5)}, want: []v1alpha1.NodePoolShare{{Name: "cheap", Replicas: 5}}, wantAlias: "cheap",
			movable: "its pods are on pool cheap or move there",
		},
		"two": {
			pools:   []api.PoolShare{share("cheap", 3), share("fast", 2)},
			want:    []v1alpha1.NodePoolShare{{Name: "cheap", Replicas: 3}, {Name: "fast", Replicas: 2}},
			movable: "its pods are on pool cheap, fast or move there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			record := cycle(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), func(r *api.Cycle) { r.Plan.Workloads[0].Pools = c.pools })
			got := statusOf(record, record.Plan.Workloads[0], record.Workloads[0], v1alpha1.ManagedWorkloadStatus{})
			if !slices.Equal(got.NodePools, c.want) || got.NodePool != c.wantAlias {
				t.Errorf("pools %+v and %q, want %+v and %q", got.NodePools, got.NodePool, c.want, c.wantAlias)
			}
			said := ""
			if m := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionMovable); m != nil {
				said = m.Message
			}
			if said != c.movable {
				t.Errorf("Movable says %q, want %q", said, c.movable)
			}
		})
	}
}

// New pods prefer a pool where workloads are planned on several, since the plan first said
// so; those of a workload in Shadow prefer none.
func TestStatusPlacesPods(t *testing.T) {
	on := func(pool string) []api.PoolShare { return []api.PoolShare{{Pool: pool, Replicas: 2}} }
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var old v1alpha1.ManagedWorkloadStatus
	for i, c := range []struct {
		pool, other string
		shadow      bool
		want        string
		since       int // minutes
	}{
		{pool: "cloud", other: "cloud"},
		{pool: "edge", other: "cloud", want: "edge", since: 1},
		{pool: "edge", other: "cloud", want: "edge", since: 1},
		{pool: "cloud", other: "edge", want: "cloud", since: 3},
		{pool: "cloud", other: "edge", shadow: true},
		{pool: "edge", other: "cloud", want: "edge", since: 5},
		{pool: "cloud", other: "cloud"},
	} {
		record := cycle(begin.Add(time.Duration(i)*time.Minute), func(r *api.Cycle) {
			r.Plan.Workloads[0].Pools, r.Plan.Workloads[0].Shadow = on(c.pool), c.shadow
			r.Plan.Workloads = append(r.Plan.Workloads, api.WorkloadPlan{Key: api.Key{Namespace: "shop", Name: "other"}, Pools: on(c.other)})
		})
		old = statusOf(record, record.Plan.Workloads[0], record.Workloads[0], old)
		got := old.Placement
		if (got == nil) != (c.want == "") || got != nil && (got.NodePool != c.want || !got.Since.Time.Equal(begin.Add(time.Duration(c.since)*time.Minute))) {
			t.Errorf("%d: %+v, want %q since minute %d", i, got, c.want, c.since)
		}
	}
}

// The note of a take-over stays as long as the mode is Full or Canary, and goes with it:
// whoever sets Full again asks for the replicas anew.
func TestTheNoteOfATakeOverEndsWithFull(t *testing.T) {
	for mode, want := range map[api.Mode]types.UID{api.ModeFull: "target", api.ModeCanary: "target", api.ModeShadow: "", api.ModeOff: ""} {
		o := &v1alpha1.ManagedWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Status:     v1alpha1.ManagedWorkloadStatus{TakenOver: "target"},
		}
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(o).WithStatusSubresource(o).Build()
		s := &Status{Client: c, Refresh: time.Minute, Logger: slog.New(slog.DiscardHandler)}
		s.Report(t.Context(), cycle(now, func(c *api.Cycle) {
			c.Workloads[0].Mode = mode
			if mode == api.ModeOff {
				c.Plan.Workloads = nil
			}
		}))
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if o.Status.ObservedGeneration == 0 || o.Status.TakenOver != want {
			t.Errorf("%s: generation %d is seen, the note is %q, want %q", mode, o.Status.ObservedGeneration, o.Status.TakenOver, want)
		}
	}
}
