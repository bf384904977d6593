package rightsizing

import (
	"fmt"
	"math"
	"testing"
	"time"
)

var begin = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// day shows three pods' usage by minute.
func day(observe func(string, time.Time, Size), cpu func(minute int) float64, memory float64) time.Time {
	for minute := range 24 * 60 {
		for pod := range 3 {
			observe(fmt.Sprint(pod), begin.Add(time.Duration(minute)*time.Minute), Size{cpu(minute), memory})
		}
	}
	return begin.Add(24 * time.Hour)
}

// TestAttune: the example of its documentation without a widening (200m at the 95th percentile of
// the busiest hour, 20 %), in steps of half at most, an hour apart; memory is only raised.
func TestAttune(t *testing.T) {
	a := &Attune{}
	if got, ok := a.Next(begin, Size{1, 1}); ok || got != (Size{1, 1}) {
		t.Errorf("%+v before it has seen anything", got)
	}
	now := day(a.Observe, func(minute int) float64 {
		if minute/60 == 14 { // one hour of the day
			return 0.2
		}
		return 0.1
	}, 100<<20)
	for i, c := range [][2]float64{{1, 0.5}, {0.5, 0.25}, {0.25, 0.25}} { // 0.24 is within a tenth of 0.25
		want := c[1]
		got, _ := a.Next(now, Size{c[0], 512 << 20})
		if math.Abs(got.CPU-want) > 1e-9 || got.Memory != 512<<20 {
			t.Errorf("step %d: %+v, want %g", i, got, want)
		}
		if again, ok := a.Next(now.Add(time.Minute), got); i < 2 && (ok || again != got) {
			t.Errorf("step %d: again after a minute", i)
		}
		now = now.Add(time.Hour)
	}
	if got, ok := a.Next(now, Size{0.25, 50 << 20}); !ok || math.Abs(got.Memory-65<<20) > 1 { // by 30 % at most
		t.Errorf("memory: %+v", got)
	}
	for _, c := range []struct{ now, next, want float64 }{{1, 1.05, 1}, {1, 1.2, 1.2}, {1, 3, 1.5}, {1, 0.1, 0.5}, {0, 0.3, 0.3}} {
		if got := change(c.now, c.next, 0.5); got != c.want {
			t.Errorf("change(%g, %g) = %g, want %g", c.now, c.next, got, c.want)
		}
	}
}

// TestAttuneBursts: a peak of eight times the percentile gives 30 % more.
func TestAttuneBursts(t *testing.T) {
	a := &Attune{}
	for i := range 200 {
		x := 0.1
		if i == 50 {
			x = 0.8
		}
		a.samples = append(a.samples, sample{begin.Add(time.Duration(i) * time.Second), Size{x, 0}})
	}
	if got := a.estimate(cpuPercentile, func(s Size) float64 { return s.CPU }); math.Abs(got-0.13) > 1e-9 {
		t.Errorf("%g, want 0.13", got)
	}
}

// TestAutopilot: the load-adjusted percentile weighs a sample by what it used; old ones fade by
// half in twelve hours; the largest of an hour holds.
func TestAutopilot(t *testing.T) {
	// Three in a hundred samples use ten times as much, which is 24 % of all usage: the plain
	// 95th percentile doesn't see them, the load-adjusted one does.
	d := &decaying{}
	for range 97 {
		d.add(begin, cpuHalfLife, 0.1)
	}
	for range 3 {
		d.add(begin, cpuHalfLife, 1)
	}
	if got := d.percentile(0.95); got < 1 || got > 1.06 {
		t.Errorf("%g, want a bucket above 1", got)
	}
	old := &decaying{}
	old.add(begin, cpuHalfLife, 1)
	for range 80 { // two half-lives later: 80·4·0.1 against 1
		old.add(begin.Add(24*time.Hour), cpuHalfLife, 0.1)
	}
	if got := old.percentile(0.95); got > 0.11 {
		t.Errorf("%g: the old peak has not faded", got)
	}
	a := &Autopilot{}
	if _, ok := a.Next(begin, Size{1, 1}); ok {
		t.Error("it recommends before it has seen anything")
	}
	now := day(a.Observe, func(int) float64 { return 0.1 }, 100<<20)
	got, ok := a.Next(now, Size{1, 1 << 30})
	if !ok || got.CPU < 0.115 || got.CPU > 0.125 || got.Memory < 115<<20 || got.Memory > 125<<20 {
		t.Errorf("%+v, want 0.1 cores, 100 MiB and 15 %%, in buckets of 5 %%", got)
	}
	if again, ok := a.Next(now.Add(5*time.Minute), got); ok || again != got {
		t.Errorf("again: %+v", again)
	}
	a.Killed("0", now.Add(6*time.Minute), 4<<30)
	up, _ := a.Next(now.Add(10*time.Minute), got)
	if up.Memory < 4<<30 {
		t.Errorf("after a kill: %+v", up)
	}
}
