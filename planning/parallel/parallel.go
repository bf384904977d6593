// Package parallel does independent pieces of one cycle's work on all processors. What
// comes of it depends on nothing but the pieces: each writes what is its own only.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls do(0) to do(n-1), several at a time and in any order, and returns when all
// have. A panic of one is the caller's, once the others that had begun have ended.
func Each(n int, do func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var failed atomic.Pointer[any]
	var group sync.WaitGroup
	work := func() {
		defer func() {
			if value := recover(); value != nil {
				failed.CompareAndSwap(nil, &value)
			}
		}()
		for failed.Load() == nil {
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
	work()
	group.Wait()
	if value := failed.Load(); value != nil {
		panic(*value)
	}
}
