package node

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record/delta"
)

// WarmStart is the last problem of each sort with its packing: what a cycle leaves
// to the next one. It is never written to again: memories of several cycles may hold
// it.
type WarmStart map[string]solved

// WarmStart implements api.WarmStart.
func (WarmStart) WarmStart() {}

// Records keep it, unexported fields included.
func init() { delta.Register("node.WarmStart", WarmStart{}) }

// solved is a problem with its packing, the work that was allowed for it, and the
// patterns that it left.
type solved struct {
	problem    Problem
	packing    Packing
	iterations int
	patterns   Patterns
}

// known is what a cycle knows of packings like those it is asked for: from the
// cycle before, and from its own so far.
type known struct {
	before, now WarmStart
	writing     sync.Mutex // of now
}

// warm is a Solver that starts from patterns: Columns.
type warm interface {
	SolveFrom(Problem, api.Budget, Patterns) (Packing, Patterns, error)
}

// solve starts from the patterns of the last problem of what is packed with the same types
// and, as the pods of a whole cluster are others than the few without a node, about as
// many items. Problems of one of these are solved one after the other.
func (k *known) solve(what string, s Solver, p Problem, b api.Budget) (Packing, error) {
	w, ok := s.(warm)
	if !ok {
		return s.Solve(p, b)
	}
	var sort strings.Builder
	sort.WriteString(what + " ")
	for n := len(p.Items); n > 0; n /= 4 {
		sort.WriteByte('#')
	}
	for _, t := range p.Types {
		sort.WriteString(" " + t.Name)
	}
	last := k.last(sort.String())
	// A cluster in which nothing changes keeps its packing, at no work.
	if last.iterations >= b.Iterations && reflect.DeepEqual(last.problem, p) {
		return k.keep(sort.String(), last), nil
	}
	packing, patterns, err := w.SolveFrom(p, b, last.patterns)
	if err != nil {
		return packing, err
	}
	p.Items = slices.Clone(p.Items)
	return k.keep(sort.String(), solved{p, packing, b.Iterations, patterns}), nil
}

func (k *known) last(sort string) solved {
	k.writing.Lock()
	defer k.writing.Unlock()
	if last, ok := k.now[sort]; ok {
		return last
	}
	return k.before[sort]
}

func (k *known) keep(sort string, s solved) Packing {
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.now == nil {
		k.now = WarmStart{}
	}
	k.now[sort] = s
	return s.packing
}

// after is what the next cycle should know: what this one was not asked for is
// kept.
func (k *known) after() api.WarmStart {
	if len(k.now) == 0 && len(k.before) == 0 {
		return nil
	}
	all := maps.Clone(k.now)
	if all == nil {
		all = WarmStart{}
	}
	for _, sort := range slices.Sorted(maps.Keys(k.before)) {
		if _, ok := all[sort]; !ok && len(all) < mostSorts {
			all[sort] = k.before[sort]
		}
	}
	return all
}

// mostSorts of problems that are kept.
const mostSorts = 64
