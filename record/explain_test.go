package record

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// TestFailuresAreToldOnce: what is tried anew each cycle is told when it begins to fail,
// when it fails otherwise, and when it succeeds again.
func TestFailuresAreToldOnce(t *testing.T) {
	resize := func(err, skipped string) api.Outcome {
		return api.Outcome{Kind: "ResizePool", Object: api.PoolRef("n2"), Action: "resize", Error: err, Skipped: skipped}
	}
	cycles := [][]api.Outcome{
		1:  {resize("no machines", "")},
		2:  {resize("no machines", "")},
		3:  {resize("", "asked for again too soon")},
		4:  {resize("no machines", "")},
		5:  {resize("forbidden", ""), {Kind: "ScaleWorkload", Object: api.PoolRef("n2"), Action: "scale", Error: "no machines"}},
		6:  {resize("", "")},
		7:  {resize("", "")},
		8:  {resize("no machines", "")},
		9:  {}, // it isn't wanted any more
		10: {resize("no machines", "")},
	}
	l := storyOf(t, len(cycles), func(m int, c *api.Cycle, _ *float64) { c.Outcomes = cycles[m] })
	a, err := l.Over(Question{Pool: "n2"}, start, start.Add(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	// What fails at the end is told however long ago it began, and gone when it succeeds.
	for minute, want := range map[int]string{4: "resize: no machines since 01", 5: "resize: forbidden since 01, scale: no machines since 05", 6: "", 10: "resize: no machines since 10"} {
		end := start.Add(time.Duration(minute) * time.Minute)
		b, err := l.Over(Question{Pool: "n2"}, end.Add(-time.Minute), end)
		if err != nil {
			t.Fatal(err)
		}
		var failing []string
		for _, f := range b.Failing {
			failing = append(failing, f.Action+": "+f.Error+" since "+f.Since.Format("04"))
		}
		slices.Sort(failing)
		if strings.Join(failing, ", ") != want {
			t.Errorf("at %d: %v, want %s", minute, failing, want)
		}
	}
	if b, err := l.Over(Question{Pool: "other"}, start, start.Add(10*time.Minute)); err == nil && len(b.Failing) > 0 {
		t.Errorf("of another pool: %+v", b.Failing)
	}
	var got []string
	for _, k := range a.Changes {
		got = append(got, k.Time.Format("04 ")+k.Text)
		if k.Warning != strings.Contains(k.Text, "failed: ") {
			t.Errorf("a warning: %v: %s", k.Warning, k.Text)
		}
	}
	want := []string{
		"01 resize: failed: no machines",
		"05 resize: failed: forbidden",
		"05 scale: failed: no machines",
		"06 resize: done; it had failed since 2026-03-09T14:01:00Z",
		"08 resize: failed: no machines",
		"10 resize: failed: no machines",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestPodsOf: pods are counted by pool, those without a node last; of others none.
func TestPodsOf(t *testing.T) {
	web, db := api.Key{Namespace: "shop", Name: "web"}, api.Key{Namespace: "shop", Name: "db"}
	pod := func(of api.Key, node string, ready bool) api.Pod {
		return api.Pod{Workload: of, Node: node, Ready: ready}
	}
	s := api.Snapshot{
		Nodes: []api.Node{{Name: "a", Pool: "old", Cordoned: true}, {Name: "b", Pool: "old"}, {Name: "c", Pool: "new"}},
		Pods: []api.Pod{
			pod(web, "a", true), pod(web, "a", false), pod(web, "b", true), pod(web, "c", true), pod(web, "", false), pod(db, "c", true),
		},
	}
	want := []PodsOn{{Pool: "new", Pods: 1, Ready: 1}, {Pool: "old", Pods: 3, Ready: 2, Leaving: 2}, {Pods: 1}}
	if d := cmp.Diff(want, podsOf(s, web)); d != "" {
		t.Error(d)
	}
}

// TestExplainSaysWhatPoolsWaitFor: a workload's answer has what is found about the pools
// that it is on or is planned on, and of no other.
func TestExplainSaysWhatPoolsWaitFor(t *testing.T) {
	web := api.Key{Namespace: "shop", Name: "web"}
	e := Entry{}
	e.Snapshot = api.Snapshot{Nodes: []api.Node{{Name: "a", Pool: "old"}}, Pods: []api.Pod{{Workload: web, Node: "a"}}}
	e.Cycle.Plan.Workloads = []api.WorkloadPlan{{Key: web, Pools: []api.PoolShare{{Pool: "new", Replicas: 1}}}}
	for _, pool := range []string{"old", "new", "other"} {
		e.Cycle.Findings = append(e.Cycle.Findings, api.Finding{Reason: pool, Object: api.PoolRef(pool)})
	}
	x, err := e.Explain(Question{Workload: "shop/web"})
	if err != nil || len(x.Findings) != 2 || x.Findings[0].Reason != "old" || x.Findings[1].Reason != "new" {
		t.Errorf("%v: %+v", err, x.Findings)
	}
}

// TestDone: what no planned size tells of: a surge and its end, a pool that is resized later, and nodes and pods of a move, those of a
// cycle together. What failed or was left is none of it.
func TestDone(t *testing.T) {
	web := api.Key{Namespace: "shop", Name: "web"}
	var e Entry
	e.Cycle.Plan.Workloads = []api.WorkloadPlan{{Key: web, Scale: api.Scale{Replicas: 23}}}
	add := func(a api.Action, o api.Outcome) {
		e.Actions, e.Cycle.Outcomes = append(e.Actions, a), append(e.Cycle.Outcomes, o)
	}
	add(api.ScaleWorkload{Workload: web, From: 21, To: 38, Reason: "beside those being drained"}, api.Outcome{})
	add(api.ScaleWorkload{Workload: web, From: 21, To: 23, Reason: "planned"}, api.Outcome{})
	add(api.CordonNode{Node: "a", For: "move", Reason: "workloads move"}, api.Outcome{})
	add(api.CordonNode{Node: "b", For: "move", Reason: "workloads move"}, api.Outcome{})
	add(api.CordonNode{Node: "c", For: "move", Reason: "workloads move"}, api.Outcome{Error: "forbidden"})
	add(api.RemoveNode{Node: "d", Pool: "old", Reason: "empty"}, api.Outcome{})
	add(api.ScaleWorkload{Workload: web, From: 38, To: 23, Reason: "moved"}, api.Outcome{})
	e.Cycle.Plan.Nodes.Pools = []api.PoolPlan{{Pool: "old", Nodes: 0}, {Pool: "new", Nodes: 4}}
	add(api.ResizePool{Pool: "old", From: 6, To: 0, Reason: "left"}, api.Outcome{})
	add(api.ResizePool{Pool: "new", From: 3, To: 4, Reason: "planned in this cycle"}, api.Outcome{})
	add(api.EvictPod{Pod: web, Node: "d", Reason: "left"}, api.Outcome{Skipped: "paused"})
	var got []string
	for _, k := range done(e, remembered{replicas: map[api.Key]int32{web: 21}, pools: map[string]int32{"old": 0, "new": 3}}) {
		got = append(got, k.Kind+" "+k.Object.String()+" "+k.Text)
	}
	want := []string{"surge workload shop/web beside those being drained", "surge workload shop/web moved", "move pool old resized 6 → 0 per zone: left", "move cycle 2 nodes cordoned: workloads move", "move node d removed: empty"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
