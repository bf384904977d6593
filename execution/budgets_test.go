package execution

import (
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
)

var (
	web  = api.Key{Namespace: "shop", Name: "web"}
	some = func(v int32) *api.Amount { return &api.Amount{Value: v} }
	part = func(v int32) *api.Amount { return &api.Amount{Value: v, Percent: true} }
)

// budgetOf is one of the namespace shop.
func budgetOf(name string, change func(*api.DisruptionBudget)) api.DisruptionBudget {
	b := api.DisruptionBudget{Key: api.Key{Namespace: "shop", Name: name}}
	change(&b)
	return b
}

// coveredPod is one that budgets cover.
func coveredPod(kind string, budgets ...string) api.Pod {
	return api.Pod{Key: api.Key{Namespace: "shop", Name: "p"}, Phase: "Running", Ready: true, Workload: web, ControllerKind: kind, Budgets: budgets}
}

// TestForbids: what a budget can never allow, for a workload that can surge and for pods that have
// to be evicted.
func TestForbids(t *testing.T) {
	least := func(a *api.Amount) api.DisruptionBudget {
		return budgetOf("a", func(b *api.DisruptionBudget) { b.MinAvailable = a })
	}
	most := func(a *api.Amount) api.DisruptionBudget {
		return budgetOf("a", func(b *api.DisruptionBudget) { b.MaxUnavailable = a })
	}
	second := budgetOf("b", func(b *api.DisruptionBudget) { b.MaxUnavailable = some(1) })
	for name, c := range map[string]struct {
		budgets []api.DisruptionBudget
		surges  string // what is said of a workload of which five are wanted, if it can surge
		evicted string // of one of five pods of another kind
	}{
		"none":                         {},
		"one may be away":              {budgets: []api.DisruptionBudget{most(some(1))}},
		"none may be away":             {[]api.DisruptionBudget{most(some(0))}, "never allows a disruption", "never allows a disruption"},
		"says nothing":                 {budgets: []api.DisruptionBudget{budgetOf("a", func(*api.DisruptionBudget) {})}},
		"four of five":                 {budgets: []api.DisruptionBudget{least(some(4))}},
		"five of five":                 {[]api.DisruptionBudget{least(some(5))}, "", "it covers only 5 pods"},
		"six of five":                  {[]api.DisruptionBudget{least(some(6))}, "only 5 replicas are wanted", "it covers only 5 pods"},
		"all":                          {[]api.DisruptionBudget{least(part(100))}, "never allows a disruption", "never allows a disruption"},
		"a hundred pods":               {[]api.DisruptionBudget{least(some(100))}, "only 5 replicas are wanted", "it covers only 5 pods"},
		"80 % of five":                 {budgets: []api.DisruptionBudget{least(part(80))}},
		"81 % of five, which are all":  {[]api.DisruptionBudget{least(part(81))}, "", "it covers only 5 pods"},
		"99 % of five":                 {[]api.DisruptionBudget{least(part(99))}, "", "it covers only 5 pods"},
		"two, which both allow":        {[]api.DisruptionBudget{most(some(1)), second}, "", "more than one PodDisruptionBudget covers it, and the Eviction API accepts only one: shop/a, shop/b"},
		"two, of which one does never": {[]api.DisruptionBudget{second, most(some(0))}, "never allows a disruption", "more than one"},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, want := range map[string]string{replicaSet: c.surges, statefulSet: c.evicted} {
				s := api.Snapshot{Budgets: c.budgets}
				var names []string
				for _, b := range c.budgets {
					names = append(names, b.Key.Name)
				}
				for range 5 {
					s.Pods = append(s.Pods, coveredPod(kind, names...))
				}
				going := coveredPod(kind, names...) // counts no more
				going.Terminating = true
				s.Pods = append(s.Pods, going)
				for _, acting := range []bool{true, false} {
					v := &view{guards: everyGuard, budgets: newBudgets(s), wanted: map[api.Key]int32{}}
					if acting {
						v.wanted[web] = 5
					} else if kind == replicaSet {
						want = c.evicted // what isn't scaled by us can't surge
					}
					if got := v.forbids(&s.Pods[0]); (got == "") != (want == "") || !strings.Contains(got, want) {
						t.Errorf("%s, scaled %v: %q, want %q", kind, acting, got, want)
					}
					v.guards &^= guardBudgets
					if got := v.forbids(&s.Pods[0]); got != "" {
						t.Errorf("without the guard: %q", got)
					}
				}
			}
		})
	}
	// Of two hundred, 150 is a number and no share.
	v := &view{guards: everyGuard, wanted: map[api.Key]int32{web: 200}}
	large := api.Snapshot{Budgets: []api.DisruptionBudget{least(some(150))}, Pods: []api.Pod{coveredPod(statefulSet, "a")}}
	v.budgets = newBudgets(large)
	if got := v.forbids(&large.Pods[0]); got != "" {
		t.Errorf("150 of 200: %q", got)
	}
	// A workload is to have more pods than there are: as many as the budget will cover.
	s := api.Snapshot{Budgets: []api.DisruptionBudget{least(some(5))}, Pods: []api.Pod{coveredPod(statefulSet, "a")}}
	v = &view{guards: everyGuard, budgets: newBudgets(s), wanted: map[api.Key]int32{web: 6}}
	if got := v.forbids(&s.Pods[0]); got != "" {
		t.Errorf("five of six to come: %q", got)
	}
}

// TestAllow: what the Eviction API allows now, and what is promised of it.
func TestAllow(t *testing.T) {
	unready := func(p api.Pod) api.Pod { p.Ready = false; return p }
	pending := func(p api.Pod) api.Pod { p.Ready, p.Phase = false, "Pending"; return p }
	for name, c := range map[string]struct {
		budget api.DisruptionBudget
		pod    api.Pod
		want   int // of three in turn
	}{
		"two are allowed":                          {budgetOf("a", func(b *api.DisruptionBudget) { b.Allowed = 2 }), coveredPod(replicaSet, "a"), 2},
		"none is allowed":                          {budgetOf("a", func(*api.DisruptionBudget) {}), coveredPod(replicaSet, "a"), 0},
		"of an old status":                         {budgetOf("a", func(b *api.DisruptionBudget) { b.Allowed, b.Stale = 2, true }), coveredPod(replicaSet, "a"), 0},
		"of another pod":                           {budgetOf("b", func(*api.DisruptionBudget) {}), coveredPod(replicaSet, "a"), 3},
		"it does not run":                          {budgetOf("a", func(*api.DisruptionBudget) {}), pending(coveredPod(replicaSet, "a")), 3},
		"it is not Ready, and enough others are":   {budgetOf("a", func(b *api.DisruptionBudget) { b.Healthy, b.Desired = 2, 2 }), unready(coveredPod(replicaSet, "a")), 3},
		"it is Ready, and enough others are":       {budgetOf("a", func(b *api.DisruptionBudget) { b.Healthy, b.Desired = 2, 2 }), coveredPod(replicaSet, "a"), 0},
		"it is not Ready, and too few others are":  {budgetOf("a", func(b *api.DisruptionBudget) { b.Healthy, b.Desired = 1, 2 }), unready(coveredPod(replicaSet, "a")), 0},
		"it is not Ready, and none has to be":      {budgetOf("a", func(*api.DisruptionBudget) {}), unready(coveredPod(replicaSet, "a")), 0},
		"it is not Ready, by an old status":        {budgetOf("a", func(b *api.DisruptionBudget) { b.Healthy, b.Desired, b.Stale = 2, 2, true }), unready(coveredPod(replicaSet, "a")), 0},
		"it is not Ready, which is always allowed": {budgetOf("a", func(b *api.DisruptionBudget) { b.UnhealthyAlways, b.Stale = true, true }), unready(coveredPod(replicaSet, "a")), 3},
		"it is not Ready, and takes nothing":       {budgetOf("a", func(b *api.DisruptionBudget) { b.Allowed, b.UnhealthyAlways = 1, true }), unready(coveredPod(replicaSet, "a")), 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBudgets(api.Snapshot{Budgets: []api.DisruptionBudget{c.budget}, Pods: []api.Pod{c.pod}})
			got := 0
			for range 3 {
				by, ok := b.allow(&c.pod)
				if ok != (by == nil) || by != nil && by.Key != c.budget.Key {
					t.Errorf("allowed %v, by %v", ok, by)
				}
				if ok {
					got++
				}
			}
			if got != c.want {
				t.Errorf("%d of three may go, want %d", got, c.want)
			}
		})
	}
	// Of several each has to allow it, and gives nothing where one doesn't.
	p := coveredPod(replicaSet, "a", "b")
	b := newBudgets(api.Snapshot{Budgets: []api.DisruptionBudget{
		budgetOf("a", func(b *api.DisruptionBudget) { b.Allowed = 1 }), budgetOf("b", func(*api.DisruptionBudget) {}),
	}})
	if by, ok := b.allow(&p); ok || by.Key.Name != "b" || b.left[api.Key{Namespace: "shop", Name: "a"}] != 1 {
		t.Errorf("allowed %v by %v, %v left", ok, by, b.left)
	}
}
