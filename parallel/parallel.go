// Package parallel does independent pieces of one cycle's work on all processors. What
// comes of it depends on nothing but the pieces: each writes what is its own only.
package parallel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Panic is what a piece panicked with, and where: the stack of who waits for it says nothing
// of that.
type Panic struct {
	Value any
	Where []byte // the piece's stack
}

// String implements fmt.Stringer: the value alone.
func (p Panic) String() string { return fmt.Sprint(p.Value) }

// Stack is where a value that was recovered comes from. It is called where it was recovered.
func Stack(value any) []byte {
	if p, ok := value.(Panic); ok {
		return p.Where
	}
	return debug.Stack()
}

// Group is work that goes on beside its caller's. Unlike that of a sync.WaitGroup, a panic of
// it does not end the process: it is that of who waits.
type Group struct {
	waits  sync.WaitGroup
	failed atomic.Pointer[Panic]
}

// Go begins a piece of work.
func (g *Group) Go(do func()) { g.waits.Go(func() { g.try(do) }) }

func (g *Group) try(do func()) {
	defer func() {
		if value := recover(); value != nil {
			g.failed.CompareAndSwap(nil, &Panic{value, debug.Stack()})
		}
	}()
	do()
}

// Wait returns when all pieces have ended. The first panic of any is the caller's, as a Panic.
func (g *Group) Wait() {
	g.waits.Wait()
	if p := g.failed.Load(); p != nil {
		panic(*p)
	}
}

// Each calls do(0) to do(n-1), several at a time and in any order, and returns when all
// have. A panic of one is the caller's, as a Panic, once the others that had begun have
// ended.
func Each(n int, do func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var group Group
	work := func() {
		for group.failed.Load() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			do(i)
		}
	}
	for range workers - 1 {
		group.Go(work)
	}
	group.try(work)
	group.Wait()
}
