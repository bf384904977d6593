package agents

import (
	"strings"
	"testing"

	"github.com/mash2-io/mash2/planning/vertical"
)

// TestBudgetBesideOthers: pods that take no part have their part of the budget, too. For one that
// is being deleted nobody is lowered, and nobody has its part before it is gone.
func TestBudgetBesideOthers(t *testing.T) {
	const mi = 1 << 20
	for name, c := range map[string]struct {
		refused []Refused
		each    int64 // of two pods at the start
		want    int64 // of both
	}{
		"nobody else":                      {nil, 250, 1000},
		"one that can't take part":         {[]Refused{{CPU: 500}}, 250, 500},
		"one that began meanwhile":         {[]Refused{{CPU: 500}}, 450, 500},
		"one that is being deleted":        {[]Refused{{CPU: 500, Ending: true}}, 250, 500},
		"of little, that is being deleted": {[]Refused{{CPU: 200, Ending: true}}, 250, 800},
		"its successor is there":           {[]Refused{{CPU: 500, Ending: true}}, 450, 900},
		"both":                             {[]Refused{{CPU: 300}, {CPU: 300, Ending: true}}, 250, 500},
		"one that has all of it":           {[]Refused{{CPU: 1200}}, 250, 100},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{refused: c.refused}
			n.join("a", c.each, 900)
			n.join("b", c.each, 900)
			l := newLoop(t, n, func(o *Options) { o.Minds, o.Algorithm = Rules(), SpreadMind })
			l.ticks(t, n, 60)
			if sum := n.pods[0].Limit + n.pods[1].Limit; sum != c.want {
				t.Errorf("%s together, want %d", n.limits(), c.want)
			}
			if len(c.refused) > 0 && !strings.Contains(l.state().Refused[0], "m of the budget are its own") {
				t.Errorf("%q", l.state().Refused)
			}
		})
	}
	pods := []Pod{{Memory: vertical.Pod{Limit: 100 * mi, Held: 120 * mi}}, {Memory: vertical.Pod{Limit: 70 * mi}, MemoryStays: "why"}}
	_, memory := limits(pods, []Refused{{Memory: 30 * mi}, {Memory: 40 * mi, Ending: true}})
	if want := (parts{taking: 120 * mi, ending: 40 * mi, others: 100 * mi}); memory != want || memory.of(300*mi) != 160*mi {
		t.Errorf("%+v, want %+v", memory, want)
	}
}

// TestInfeasible: a pod whose node refuses a resize gets back what it runs with, once, and takes
// part again after a while. A loop that may change nothing leaves it.
func TestInfeasible(t *testing.T) {
	n := &node{most: map[string]int64{"uid-a": 500}}
	n.join("a", 400, 900)
	n.join("b", 400, 900)
	l := newLoop(t, n, func(o *Options) { o.Minds, o.Algorithm, o.Budget = Rules(), SpreadMind, 1600 })
	l.ticks(t, n, 1)
	if n.pods[0].Limit != 550 || n.pods[0].Held != 400 {
		t.Fatalf("%+v", n.pods[0])
	}
	if err := l.change(func(o *Options) { o.Hold = "the plan says so" }); err != nil {
		t.Fatal(err)
	}
	l.ticks(t, n, 2)
	if n.pods[0].Limit != 550 {
		t.Errorf("%d", n.pods[0].Limit)
	}
	if err := l.change(func(o *Options) { o.Hold = "" }); err != nil {
		t.Fatal(err)
	}
	n.applied = nil
	l.ticks(t, n, 2)
	if got := l.state(); n.pods[0].Limit != 400 || len(got.Refused) != 1 || !strings.Contains(got.Refused[0], "a: its node refused a resize: it is asked again at 12:10:03 (400m") {
		t.Errorf("%d, %q", n.pods[0].Limit, got.Refused)
	}
	n.most = nil // the node has grown, say
	l.ticks(t, n, 595)
	writes := 0
	for _, a := range n.applied {
		if strings.HasPrefix(a, "a ") {
			writes++
		}
	}
	if writes != 1 || n.pods[0].Limit != 400 || n.pods[1].Limit > 1200 {
		t.Errorf("%d writes, then %s", writes, n.limits())
	}
	if l.ticks(t, n, 60); n.pods[0].Limit != 800 || len(l.state().Refused) != 0 {
		t.Errorf("%s; %q", n.limits(), l.state().Refused)
	}
}
