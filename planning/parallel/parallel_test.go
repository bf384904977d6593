package parallel

import (
	"runtime"
	"slices"
	"sync"
	"testing"
)

func TestEach(t *testing.T) {
	for _, processors := range []int{1, 2, 7} {
		before := runtime.GOMAXPROCS(processors)
		t.Cleanup(func() { runtime.GOMAXPROCS(before) })
		for _, n := range []int{0, 1, 2, 1000} {
			done := make([]int, n)
			Each(n, func(i int) { done[i]++ })
			if slices.ContainsFunc(done, func(times int) bool { return times != 1 }) {
				t.Errorf("%d processors, %d pieces: done %v times", processors, n, done)
			}
		}
	}
}

// Two pieces that wait for one another end: they run at the same time.
func TestAtTheSameTime(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	var both sync.WaitGroup
	both.Add(2)
	Each(2, func(int) { both.Done(); both.Wait() })
}

func TestAPanicIsTheCallers(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for _, n := range []int{1, 100} {
		func() {
			defer func() {
				if value := recover(); value != "broken" {
					t.Errorf("of %d pieces: recovered %v", n, value)
				}
			}()
			Each(n, func(i int) {
				if i == n/2 {
					panic("broken")
				}
			})
			t.Errorf("of %d pieces: no panic", n)
		}()
	}
}
