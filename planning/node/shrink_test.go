package node

import (
	"testing"

	"pgregory.net/rapid"
)

// TestHostsAreFoundAsOneByOne: the next host with room for a pod is the one that asking all in
// order finds, whatever nodes were given up and pods moved before, and moved back.
func TestHostsAreFoundAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "world").input()
		v, err := newView(in)
		if err != nil {
			t.Fatal(err)
		}
		l := v.begin(v.size, false)
		check := func(when string) {
			for item := range v.items {
				from := rapid.IntRange(0, len(l.hosts)).Draw(t, "from")
				want := -1
				for i := from; i < len(l.hosts) && want < 0; i++ {
					if !l.hosts[i].removed && l.room(item, l.hosts[i]) > 0 {
						want = i
					}
				}
				if got := l.free.next(l, item, from); got != want {
					t.Fatalf("%s: host %d from %d on has room for item %d, want %d", when, got, from, item, want)
				}
			}
		}
		if err := l.finish(func(p Problem) (Packing, error) { return FFD{}.Solve(p, in.Budget) }, in.Budget); err != nil {
			t.Fatal(err)
		}
		check("nodes given up")
		var moves []move
		for _, r := range l.hosts {
			if r.removed || !rapid.Bool().Draw(t, "empty") {
				continue
			}
			l.remove(r, true)
			var ok bool
			if moves, _, ok = l.empty(r, moves); !ok {
				l.remove(r, false)
			}
		}
		check("emptied")
		l.undo(moves)
		check("moved back")
	})
}
