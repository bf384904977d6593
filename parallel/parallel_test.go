package parallel

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
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

//go:noinline
func breaks() { panic("broken") }

func TestAPanicIsTheCallers(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for _, n := range []int{1, 100} {
		func() {
			defer func() {
				value := recover()
				if fmt.Sprint(value) != "broken" {
					t.Errorf("of %d pieces: recovered %v", n, value)
				}
				if where := string(Stack(value)); !strings.Contains(where, "breaks") {
					t.Errorf("of %d pieces: it is said to come from\n%s", n, where)
				}
			}()
			Each(n, func(i int) {
				if i == n/2 {
					breaks()
				}
			})
			t.Errorf("of %d pieces: no panic", n)
		}()
	}
}

// Who waits for a group has its panic, after all have ended, and the process goes on.
func TestAPanicOfAGroupIsWhoseWaits(t *testing.T) {
	var group Group
	var others sync.WaitGroup
	others.Add(1)
	ended := false
	group.Go(func() { others.Wait(); ended = true })
	group.Go(func() { defer others.Done(); breaks() })
	defer func() {
		value := recover()
		if where := string(Stack(value)); fmt.Sprint(value) != "broken" || !strings.Contains(where, "breaks") || !ended {
			t.Errorf("recovered %v of\n%s; the other has ended: %v", value, where, ended)
		}
	}()
	group.Wait()
	t.Error("no panic")
}
