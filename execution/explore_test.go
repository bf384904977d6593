package execution

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var exploreAll = flag.Bool("explore-all", false, "explore with three pods of each workload and three nodes of each pool (make explore)")

// graph is what an exploration has found: states in order of discovery, and the
// moves between them.
type graph struct {
	rules
	states  []cluster
	numbers map[string]uint32
	parent  []uint32
	first   []int64 // of each state's moves in to and class
	to      []uint32
	class   []class
	rest    []bool
}

// explore goes through all states breadth first until a promise is broken, and
// returns how.
func explore(r rules) (*graph, string) {
	g := &graph{rules: r, numbers: map[string]uint32{}}
	number := func(c cluster, parent uint32) uint32 {
		c, key := c.key()
		n, known := g.numbers[key]
		if !known {
			n = uint32(len(g.states))
			g.numbers[key] = n
			g.states, g.parent = append(g.states, c), append(g.parent, parent)
		}
		return n
	}
	number(r.begin(), 0)
	for at := uint32(0); int(at) < len(g.states); at++ {
		c := g.states[at]
		if wrong := r.violated(c); wrong != "" {
			return g, g.story(at) + wrong
		}
		g.first = append(g.first, int64(len(g.to)))
		for _, m := range r.moves(c) {
			if m.wrong != "" {
				return g, g.story(at) + m.what + "\n" + m.wrong
			}
			g.to, g.class = append(g.to, number(m.to, at)), append(g.class, m.class)
		}
		g.rest = append(g.rest, r.atRest(c))
	}
	g.first = append(g.first, int64(len(g.to)))
	return g, ""
}

// stuck returns how to come to a state from which moves of these classes alone
// never lead to rest; empty if there is none.
func (g *graph) stuck(classes class) string {
	// Backwards from rest: the states before each one, as lists in two arrays.
	counts := make([]int64, len(g.states)+1)
	each := func(do func(from, to uint32)) {
		for from := range g.states {
			for i := g.first[from]; i < g.first[from+1]; i++ {
				if g.class[i]&classes != 0 {
					do(uint32(from), g.to[i])
				}
			}
		}
	}
	each(func(_, to uint32) { counts[to+1]++ })
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	before, filled := make([]uint32, counts[len(g.states)]), make([]int64, len(g.states))
	each(func(from, to uint32) {
		before[counts[to]+filled[to]] = from
		filled[to]++
	})
	reaches := make([]bool, len(g.states))
	var todo []uint32
	for n, rest := range g.rest {
		if rest {
			reaches[n] = true
			todo = append(todo, uint32(n))
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range before[counts[n]:counts[n+1]] {
			if !reaches[from] {
				reaches[from] = true
				todo = append(todo, from)
			}
		}
	}
	for n, ok := range reaches {
		if !ok {
			return g.trap(uint32(n), classes)
		}
	}
	return ""
}

// trap tells of states that moves of these classes go round in, or end in, some
// time after a state.
func (g *graph) trap(n uint32, classes class) string {
	ahead := func(n uint32) []uint32 {
		seen, out := map[uint32]bool{n: true}, []uint32{n}
		for at := 0; at < len(out); at++ {
			for i := g.first[out[at]]; i < g.first[out[at]+1]; i++ {
				if to := g.to[i]; g.class[i]&classes != 0 && !seen[to] {
					seen[to] = true
					out = append(out, to)
				}
			}
		}
		return out
	}
	states := ahead(n)
	for {
		further := ahead(states[len(states)-1])
		if len(further) == len(states) {
			break
		}
		states = further
	}
	slices.Sort(states)
	out := g.story(states[0]) + fmt.Sprintf("from here %d states follow, none of them at rest:\n", len(states))
	for _, n := range states[:min(len(states), 4)] {
		out += g.states[n].String()
	}
	return out
}

// story tells how a state comes about, one line per move.
func (g *graph) story(n uint32) string {
	var lines []string
	for n != 0 {
		from := g.parent[n]
		_, want := g.states[n].key()
		for _, m := range g.moves(g.states[from]) {
			if _, key := m.to.key(); key == want {
				lines = append(lines, m.what)
				break
			}
		}
		n = from
	}
	var out strings.Builder
	for i := len(lines) - 1; i >= 0; i-- {
		fmt.Fprintln(&out, lines[i])
	}
	return out.String()
}

func (c cluster) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "web %d replicas; the policy wants %s; sizes %v, late %v, overdue %v, gave up %v, stockout %v; to do %v\n",
		c.web, poolNames[c.target], c.size, c.late, c.overdue, c.gaveUp, c.stockout, c.ops)
	for i, b := range c.nodes {
		if b.phase != absent {
			fmt.Fprintf(&out, "  %s dying=%v cordoned=%d: web %d starting, %d marked, %d Ready, %d Ready and marked; db %d starting, %d Ready\n",
				nodeName(i), b.phase == dying, b.cordoned, b.web[0], b.web[marked], b.web[isReady], b.web[isReady|marked], b.db[0], b.db[1])
		}
	}
	return out.String()
}

// life is a way in which the world may fail for ever, and rest has to be reached
// all the same: by moves of these classes alone.
type life struct {
	name    string
	classes class
}

var lives = []life{
	{"everything comes in the end", doing | progress | boots | ready0 | ready1 | passing},
	{"no node boots any more", doing | progress | ready0 | ready1 | passing},
	{"nothing gets Ready on the new pool", doing | progress | boots | ready0 | passing},
	{"nothing gets Ready on the old pool", doing | progress | boots | ready1 | passing},
	{"no node boots and nothing gets Ready on the new pool", doing | progress | ready0 | passing},
	{"no node boots and nothing gets Ready on the old pool", doing | progress | ready1 | passing},
}

// check explores and returns the first counterexample.
func check(r rules) (*graph, string) {
	g, wrong := explore(r)
	if wrong != "" {
		return g, wrong
	}
	for _, l := range lives {
		if r.surplus && l.classes&ready0 == 0 {
			continue // there is no other pool to go back to
		}
		if wrong := g.stuck(l.classes); wrong != "" {
			return g, l.name + ":\n" + wrong
		}
	}
	return g, ""
}

// explorations are what is gone through by default, and what `make explore` adds.
var explorations = []struct {
	name string
	rules
	all bool
}{
	{"two pods and two nodes, an event within a sequence", rules{pods: 2, nodes: 2, stale: 1}, false},
	{"and nodes that take a while to go", rules{pods: 2, nodes: 2, lingers: true}, true},
	{"and a budget that allows nothing", rules{pods: 2, nodes: 2, stale: 1, forbidden: true}, false},
	{"and a pool with a node too many", rules{pods: 2, nodes: 2, stale: 1, surplus: true}, false},
	{"and a policy that turns round at any time", rules{pods: 2, nodes: 2, turns: true}, true},
	{"and an operator that may be dead for long", rules{pods: 2, nodes: 2, stale: 1, dead: true}, true},
	{"three pods and three nodes", rules{pods: 3, nodes: 3, stale: 1}, true},
	{"three pods and three nodes, and a budget that allows nothing", rules{pods: 3, nodes: 3, stale: 1, forbidden: true}, true},
}

// TestExplore goes through every state that a policy switch can come to,
// whatever boots fail, pods don't get Ready, evictions are refused, policies
// turn back and operators die between any two actions: Ready pods never fall
// under what is promised, no Ready pod dies with its node, and from everywhere a
// way leads to rest, wholly on the old or wholly on the new pool.
func TestExplore(t *testing.T) {
	for _, e := range explorations {
		if e.all && !*exploreAll {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			e.guards = everyGuard
			began := time.Now()
			g, wrong := check(e.rules)
			t.Logf("%d states, %d moves, %.1f s", len(g.states), len(g.to), time.Since(began).Seconds())
			if wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// TestEveryGuardIsNeeded takes the guards away one by one: each time there is a
// way to break a promise. The ways are kept in testdata to be read; run with
// -update to record them again.
func TestEveryGuardIsNeeded(t *testing.T) {
	const file = "testdata/counterexamples.md"
	var out strings.Builder
	out.WriteString("What goes wrong without each guard of a move, as the exploration finds it: the shortest way there, with two pods of each workload on two nodes of each pool.\n")
	for _, c := range []struct {
		name  string
		guard guards
		rules
	}{
		{"a pod whose budget can never allow it is not moved, and nothing is cordoned for it", guardBudgets, rules{forbidden: true}},
		{"nothing is cordoned before the Ready nodes of the target hold all that must move", guardRoom, rules{}},
		{"nothing surges while its new pods could land on a node being left", guardShut, rules{}},
		{"old pods stay until as many as wanted are Ready elsewhere", guardReady, rules{}},
		{"a surge ends only when all pods that are to go are seen to bear their cost", guardMarked, rules{}},
		{"a node is removed only when nothing is on it", guardEmpty, rules{surplus: true}},
		{"a pool is resized down only when all of its nodes are empty", guardAllEmpty, rules{}},
		{"what can't surge loses a pod only while all others are Ready", guardOneByOne, rules{}},
		{"the nodes of the old pool are kept until every workload has left it", guardTogether, rules{}},
		{"cordons that nothing calls for any more are taken back", guardRelease, rules{}},
		{"deletion costs of pods that stay are taken back", guardCosts, rules{}},
		{"a node that is being deleted is no room and not uncordoned", guardDying, rules{lingers: true, turns: true}},
		{"a move that takes too long is given up", guardOverdue, rules{}},
		{"a move that was given up is not tried again at once", guardGaveUp, rules{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pods, c.nodes, c.guards = 2, 2, everyGuard&^c.guard
			found, wrong := check(c.rules)
			if wrong == "" {
				t.Fatalf("in %d states nothing goes wrong without it", len(found.states))
			}
			fmt.Fprintf(&out, "\n## Without: %s\n\nFound after %d states.\n\n```\n%s\n```\n", c.name, len(found.states), strings.TrimSpace(wrong))
		})
	}
	if t.Failed() {
		return
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(recorded), out.String()); diff != "" {
		t.Errorf("counterexamples (-recorded +found):\n%s", diff)
	}
}
