package horizontal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
)

// tenPods of a workload, an hour old, of which the first are Ready; change is made to the others.
func tenPods(in planning.Input, ready int, change func(*api.Pod)) (out []api.Pod) {
	for i := range 10 {
		p := api.Pod{
			Key: api.Key{Namespace: "web", Name: fmt.Sprint("shop-", i)}, Phase: "Running", Ready: i < ready,
			Created: now.Add(-time.Hour), Shape: in.Workload.Shape,
		}
		if change != nil && !p.Ready {
			change(&p)
		}
		out = append(out, p)
	}
	return out
}

// TestSilentPods: of ten pods some crash, or are cut off, and have no usage. What the others use is no reason
// for fewer replicas, as little as it is to the HPA (replica_calculator.go, missingPods).
func TestSilentPods(t *testing.T) {
	for name, c := range map[string]struct {
		usage  float64 // millicores, of the Ready ones
		ready  int
		change func(*api.Pod)
		want   int32
		// margins is the floor where margins decide.
		margins int32
	}{
		"all are Ready, and few are needed":                  {usage: 500, ready: 10, want: 3, margins: 4},
		"four use all they may, and six crash":               {usage: 4 * 250, ready: 4, want: 10, margins: 10},
		"one is idle, as what it asks is away like the rest": {usage: 20, ready: 1, want: 10, margins: 10},
		"one crashes, and counts as one that is busy":        {usage: 500, ready: 9, want: 5, margins: 5},
		"they are starting":                                  {usage: 500, ready: 5, change: func(p *api.Pod) { p.Created = now.Add(-50 * time.Second) }, want: 3, margins: 4},
		"they find no node":                                  {usage: 500, ready: 5, change: func(p *api.Pod) { p.Phase = "Pending" }, want: 3, margins: 4},
		"they are going":                                     {usage: 500, ready: 5, change: func(p *api.Pod) { p.Terminating = true }, want: 3, margins: 4},
		"more are needed than there are":                     {usage: 2500, ready: 4, want: 15, margins: 17},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.usage)
			in.Workload.Replicas, in.Workload.ReadyReplicas = 10, int32(c.ready)
			in.Workload.Usage = &api.Usage{At: now, Window: 15 * time.Second, MilliCPU: c.usage, Pods: int32(c.ready)}
			in.Pods = tenPods(in, c.ready, c.change)
			got, err := horizontal.Planner{}.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			if got.Floor != c.want {
				t.Errorf("floor %d, want %d: %s", got.Floor, c.want, got.Reason)
			}
			if told := strings.Contains(got.Reason, "not Ready"); told != (c.ready < 10 && c.change == nil && c.want <= 10) {
				t.Errorf("reason %q", got.Reason)
			}
			in.Policy.Objective = 0.999
			in.Margins = planning.Margins{Objective: 0.999, Pod: growth(1.4), Node: growth(1.4), Most: 1e6}
			if got, err = (horizontal.Planner{}).PlanWorkload(in); err != nil {
				t.Fatal(err)
			}
			if got.Floor != c.margins {
				t.Errorf("with margins floor %d, want %d: %s", got.Floor, c.margins, got.Reason)
			}
		})
	}
}

// TestSilentPodsOfTriggers: the mean of the pods that are Ready says nothing of the others, nor does a ratio
// of what they serve. The length of a queue does not come from pods.
func TestSilentPodsOfTriggers(t *testing.T) {
	for name, c := range map[string]struct {
		trigger api.Trigger
		ready   int
		change  func(*api.Pod)
		want    int32
	}{
		"all are Ready, and few are needed":        {trigger: api.Trigger{Value: 500, Pods: 10}, ready: 10, want: 5},
		"one is half idle, the others crash":       {trigger: api.Trigger{Value: 50, Pods: 1}, ready: 1, want: 10},
		"one has too much to do, the others crash": {trigger: api.Trigger{Value: 200, Pods: 1}, ready: 1, want: 10},
		"one crashes, and counts as at the target": {trigger: api.Trigger{Value: 450, Pods: 9}, ready: 9, want: 6},
		"they are starting": {
			trigger: api.Trigger{Value: 250, Pods: 5}, ready: 5, want: 3,
			change: func(p *api.Pod) { p.Created = now.Add(-50 * time.Second) },
		},
		"a ratio of those that are left": {trigger: api.Trigger{Value: 50, Ratio: true}, ready: 1, want: 10},
		"more are needed than there are": {trigger: api.Trigger{Value: 2000, Pods: 8}, ready: 8, want: 20},
		"a queue is as long as it is":    {trigger: api.Trigger{Value: 250, Activates: true}, ready: 1, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			in := queue(0)
			c.trigger.Name, c.trigger.Target, c.trigger.At = "load", 100, now
			in.Workload.Triggers[0] = c.trigger
			in.Workload.Replicas, in.Workload.ReadyReplicas = 10, int32(c.ready)
			in.Pods = tenPods(in, c.ready, c.change)
			got, err := horizontal.Planner{}.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			if got.Floor != c.want {
				t.Errorf("floor %d, want %d: %s", got.Floor, c.want, got.Reason)
			}
		})
	}
}
