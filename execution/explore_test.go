package execution

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

var exploreAll = flag.Bool("explore-all", false, "explore with three pods of each workload and three nodes of each pool (make explore)")

// world is what is explored: states by keys that say all that matters of them.
type world interface {
	begins() [][]byte
	// at is what there is to see in a state; moves are put into words if somebody is to
	// be told.
	at(key []byte, told bool) sight
	// show is a state for people.
	show(key []byte) string
}

// sight is what there is to see in a state.
type sight struct {
	happened []string // in the operator's cycle
	wrong    string   // the promise that is broken; empty if none is
	moves    []step
	rest     rest
}

// step is a state that may come next.
type step struct {
	to          []byte
	class       class
	what, wrong string // wrong: what must not happen and did
}

// graph is what an exploration has found: states in order of discovery, and the
// moves between them.
type graph struct {
	world
	states *states
	parent []uint32
	first  []int64 // of each state's moves in to and class
	to     []uint32
	class  []class
	rest   []rest
	// happened counts the states in which the operator said or did something.
	happened map[string]int
}

// explore goes through all states breadth first until a promise is broken, and
// returns how.
func explore(w world) (*graph, string) {
	g := &graph{world: w, states: newStates(), happened: map[string]int{}}
	number := func(key []byte, parent uint32) uint32 {
		n, known := g.states.number(key)
		if !known {
			g.parent = append(g.parent, min(parent, n))
		}
		return n
	}
	for _, key := range w.begins() {
		number(key, math.MaxUint32) // its own parent
	}
	for at := uint32(0); int(at) < g.states.len(); at++ {
		seen := w.at(g.states.key(at), false)
		for _, what := range slices.Compact(slices.Sorted(slices.Values(seen.happened))) {
			g.happened[what]++
		}
		if seen.wrong != "" {
			return g, g.story(at) + seen.wrong
		}
		g.first = append(g.first, int64(len(g.to)))
		for i, m := range seen.moves {
			if m.wrong != "" {
				return g, g.story(at) + w.at(g.states.key(at), true).moves[i].what + "\n" + m.wrong
			}
			g.to, g.class = append(g.to, number(m.to, at)), append(g.class, m.class)
		}
		g.rest = append(g.rest, seen.rest)
	}
	g.first = append(g.first, int64(len(g.to)))
	return g, ""
}

// stuck returns how to come to a state from which moves of these classes alone
// never lead to such rest; empty if there is none.
func (g *graph) stuck(classes class, enough rest) string {
	// Backwards from rest: the states before each one, as lists in two arrays.
	total := g.states.len()
	counts := make([]int64, total+1)
	each := func(do func(from, to uint32)) {
		for from := range total {
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
	before, filled := make([]uint32, counts[total]), make([]int64, total)
	each(func(from, to uint32) {
		before[counts[to]+filled[to]] = from
		filled[to]++
	})
	reaches := make([]bool, total)
	var todo []uint32
	for n, rest := range g.rest {
		if rest >= enough {
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
		out += g.show(g.states.key(n))
	}
	return out
}

// story tells how a state comes about: what it begins with, unless it is the one
// beginning that there is, and one line per move.
func (g *graph) story(n uint32) string {
	var lines []string
	for g.parent[n] != n {
		from := g.parent[n]
		for _, m := range g.at(g.states.key(from), true).moves {
			if bytes.Equal(m.to, g.states.key(n)) {
				lines = append(lines, m.what)
				break
			}
		}
		n = from
	}
	var out strings.Builder
	if len(g.begins()) > 1 {
		out.WriteString(g.show(g.states.key(n)))
	}
	for _, line := range slices.Backward(lines) {
		fmt.Fprintln(&out, line)
	}
	return out.String()
}

func (c cluster) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "web %d replicas; the policy wants %s; sizes %v, late %v, overdue %v, gave up %v, stockout %v; to do %v\n",
		c.web, poolNames[c.target], c.size, c.late, c.overdue, c.gaveUp, c.stockout, c.ops)
	for i, b := range c.nodes {
		if b.phase == absent {
			continue
		}
		var flags []string
		for _, f := range []struct {
			is   bool
			name string
		}{
			{b.phase == dying, "being deleted"},
			{b.cordoned == forMigration, "cordoned"}, {b.cordoned == forShrink, "cordoned for a shrink"}, {b.cordoned == foreign, "cordoned by somebody"},
			{b.kept, "kept"},
		} {
			if f.is {
				flags = append(flags, f.name)
			}
		}
		for _, p := range []struct {
			n    uint8
			name string
		}{
			{b.web[0], "web starting"}, {b.web[marked], "web starting, marked"}, {b.web[isReady], "web Ready"}, {b.web[isReady|marked], "web Ready, marked"},
			{b.fixed[db][0], "db starting"}, {b.fixed[db][1], "db Ready"}, {b.fixed[dns][0], "dns starting"}, {b.fixed[dns][1], "dns Ready"},
		} {
			if p.n > 0 {
				flags = append(flags, fmt.Sprintf("%d %s", p.n, p.name))
			}
		}
		fmt.Fprintf(&out, "  %s: %s\n", nodeName(i), cmp.Or(strings.Join(flags, "; "), "empty"))
	}
	return out.String()
}

// life is a way in which the world may fail for ever, and rest has to be reached
// all the same: by moves of these classes alone.
type life struct {
	name    string
	classes class
}

const always = doing | progress | passing

// lives of a switch, which has a pool to go back to.
var lives = []life{
	{"everything comes in the end", always | boots | ready0 | ready1},
	{"no node boots any more", always | ready0 | ready1},
	{"nothing gets Ready on the new pool", always | boots | ready0},
	{"nothing gets Ready on the old pool", always | boots | ready1},
	{"no node boots and nothing gets Ready on the new pool", always | ready0},
	{"no node boots and nothing gets Ready on the old pool", always | ready1},
}

// livesOfShrink have one pool.
var livesOfShrink = []life{
	{"everything comes in the end", always | boots | ready0},
	{"nothing gets Ready any more", always | boots},
}

// check explores and returns the first counterexample. Pods of nobody's workload
// hold nothing up, so that they may keep a node for ever when some never get
// Ready; and a pod of db that doesn't get Ready in the only pool stays.
func check(r rules) (*graph, string) {
	g, wrong := explore(r)
	if wrong != "" {
		return g, wrong
	}
	all := lives
	if r.surplus {
		all = livesOfShrink
	}
	for i, l := range all {
		enough := resting
		if (r.surplus || r.spare || r.stalls || r.dns > 0) && i > 0 {
			enough = settled
		}
		if wrong := g.stuck(l.classes, enough); wrong != "" {
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
	{"two pods and two nodes, an event within a sequence", rules{pods: 2, nodes: 2, stale: 1, lags: true}, false},
	{"and a maximum that is what is wanted", rules{pods: 2, nodes: 2, stale: 1, tight: true}, false},
	{"three pods and three nodes, and such a maximum", rules{pods: 3, nodes: 3, stale: 1, tight: true}, true},
	{"and a budget that allows two", rules{pods: 2, nodes: 2, stale: 1, loose: true}, true},
	{"and a budget that allows nothing", rules{pods: 2, nodes: 2, stale: 1, forbidden: true}, false},
	{"and pods of nobody's workload", rules{pods: 1, dns: 2, nodes: 2, stale: 1, lags: true}, false},
	{"and nodes that take a while to go, or come too late", rules{pods: 2, nodes: 2, lingers: true}, true},
	{"and a policy that turns round at any time", rules{pods: 2, nodes: 2, turns: true}, true},
	{"and an operator that may be dead for long", rules{pods: 2, nodes: 2, stale: 1, dead: true}, true},
	{"and a new pool with a node too many", rules{pods: 2, nodes: 2, lags: true, spare: true}, true},
	{"and pods of nobody's workload, and a budget that allows two", rules{pods: 1, dns: 2, nodes: 2, stale: 1, loose: true}, false},
	{"two pods of each workload and two of nobody's, three nodes", rules{pods: 2, dns: 2, nodes: 3, stale: 1}, true},
	{"three pods and three nodes", rules{pods: 3, nodes: 3, stale: 1}, true},
	{"three pods and three nodes, and a budget that allows nothing", rules{pods: 3, nodes: 3, stale: 1, forbidden: true}, true},

	{"a node too many", rules{pods: 3, nodes: 3, stale: 1, lags: true, surplus: true, anywhere: true}, false},
	{"a node too many, and a planner that thinks again", rules{pods: 2, nodes: 2, stale: 1, lags: true, surplus: true, anywhere: true, turns: true}, false},
	{"a node too many, and pods of nobody's workload", rules{pods: 2, dns: 2, nodes: 3, stale: 1, lags: true, surplus: true, anywhere: true}, false},
	{"a node too many, pods of nobody's workload, and a planner that thinks again", rules{pods: 1, dns: 2, nodes: 2, stale: 1, lags: true, surplus: true, anywhere: true, turns: true}, true},
	{"a node too many, and a budget that allows nothing", rules{pods: 3, nodes: 3, stale: 1, surplus: true, anywhere: true, forbidden: true, turns: true}, false},
	{"a node too many, and one that somebody has cordoned", rules{pods: 3, nodes: 3, stale: 1, lags: true, surplus: true, anywhere: true, kubectl: true}, false},
	{"two pods, a node too many, and one that somebody has cordoned", rules{pods: 2, nodes: 2, stale: 1, lags: true, surplus: true, anywhere: true, kubectl: true}, false},
	{"a node too many, and a provider that picks which goes", rules{pods: 3, nodes: 3, stale: 1, lags: true, surplus: true, anywhere: true, denies: true}, false},
	{"two pods, a node too many, and a provider that picks which goes", rules{pods: 2, nodes: 2, stale: 1, lags: true, surplus: true, anywhere: true, denies: true}, false},
	{"a node too many, and an operator that may be dead for long", rules{pods: 2, nodes: 2, stale: 1, lags: true, surplus: true, anywhere: true, dead: true, turns: true}, true},
	{"a node too many, pods of nobody's workload, and a watch of pods that stalls", rules{pods: 1, dns: 2, nodes: 2, surplus: true, anywhere: true, stalls: true}, false},
	{"a node too many, and a watch of pods that stalls", rules{pods: 2, nodes: 2, surplus: true, anywhere: true, stalls: true}, true},
	{"one pod and one node, and a watch of pods that stalls", rules{pods: 1, nodes: 1, stalls: true}, false},
	{"a node too many of three, and a planner that thinks again", rules{pods: 3, nodes: 3, surplus: true, anywhere: true, turns: true}, true},
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
			t.Logf("%d states, %d moves, %.1f s; evictions wait for their budget in %d states, emptying is given up in %d",
				g.states.len(), len(g.to), time.Since(began).Seconds(), g.happened[budgetWithheld], g.happened[emptyingGivenUp])
			if wrong != "" {
				t.Error(wrong)
			}
			if e.lags && (!e.surplus || e.turns) && g.happened[budgetWithheld] == 0 {
				t.Error("no budget ever withholds an eviction")
			}
			if e.surplus && g.happened[emptyingGivenUp] == 0 {
				t.Error("emptying a node is never given up")
			}
		})
	}
}
