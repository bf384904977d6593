package planning

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestWilson against values worked out by hand from the formula, and its limits.
func TestWilson(t *testing.T) {
	for _, c := range []struct{ bad, total, low, high float64 }{
		{0, 0, 0, 1},
		{0, 616, 0, 0.014400},
		{50, 100, 0.356327, 0.643673},
		{100, 100, 0.917431, 1},
		{5, 100, 0.014337, 0.159975},
	} {
		low, high := wilson(c.bad, c.total)
		if math.Abs(low-c.low) > 1e-5 || math.Abs(high-c.high) > 1e-5 {
			t.Errorf("%g of %g: %.6f to %.6f, want %g to %g", c.bad, c.total, low, high, c.low, c.high)
		}
	}
}

// TestJudge: what a verdict takes.
func TestJudge(t *testing.T) {
	const window = 45 * time.Second
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	c := DefaultConfig()
	for name, x := range map[string]struct {
		readings []api.SLO // a window apart, the last one now
		want     api.SLOVerdict
	}{
		"nothing":            {[]api.SLO{{Missing: "no answer"}}, api.SLOInconclusive},
		"no time":            {[]api.SLO{good(10_000, 0)}, api.SLOInconclusive},
		"long enough":        {repeat(good(10_000, 0), 8), api.SLOGood},
		"thin":               {repeat(good(10, 0), 8), api.SLOInconclusive},
		"thin for an hour":   {repeat(good(10, 0), 79), api.SLOGood},
		"too thin":           {repeat(good(1, 0), 79), api.SLOInconclusive},
		"one that burns":     {append(repeat(good(10_000, 0), 8), good(10_000, 500)), api.SLOInconclusive},
		"two that burn":      {append(repeat(good(10_000, 0), 8), good(10_000, 500), good(10_000, 500)), api.SLOBurning},
		"over":               {append(repeat(good(10_000, 500), 2), good(10_000, 0)), api.SLOInconclusive},
		"gaps":               {append(repeat(good(10_000, 0), 1), append(repeat(api.SLO{Missing: "gone"}, 6), good(10_000, 0))...), api.SLOInconclusive},
		"no such objective":  {[]api.SLO{{Objective: 1, Total: 100, Window: window}}, api.SLOInconclusive},
		"not a number":       {append(repeat(good(10_000, 0), 8), good(math.NaN(), 0)), api.SLOInconclusive},
		"more bad than all":  {append(repeat(good(100, 200), 2), good(100, 200)), api.SLOBurning},
		"no events":          {append(repeat(good(10_000, 0), 8), good(0, 0)), api.SLOGood},
		"no events any more": {append(repeat(good(10_000, 0), 8), repeat(good(0, 0), 8)...), api.SLOInconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			var m SLOMemory
			var plan judged
			for i, r := range x.readings {
				at := now.Add(-time.Duration(len(x.readings)-1-i) * window)
				r.Name, r.At, r.Window = "x", at, window
				m, plan = c.judge(m, r, at)
			}
			if plan.Verdict != x.want || plan.Reason == "" || plan.Verdict != api.SLOGood && plan.why == "" {
				t.Errorf("%s: %s", plan.Verdict, plan.Reason)
			}
			if plan.Verdict == api.SLOGood && (plan.Proven.IsZero() || plan.Proven.After(now.Add(-c.SLOProving))) {
				t.Errorf("proven at %v", plan.Proven)
			}
		})
	}
}

func good(total, bad float64) api.SLO { return api.SLO{Objective: 0.999, Total: total, Bad: bad} }

func repeat(s api.SLO, n int) (out []api.SLO) {
	for range n {
		out = append(out, s)
	}
	return out
}

// TestAt: what ran at a time, and how long that is remembered. Before what was seen first,
// that is the best there is: an objective may be known for longer.
func TestAt(t *testing.T) {
	at0 := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	var past []PastScale
	for i := range 5 {
		past = append(past, PastScale{From: at0.Add(time.Duration(i) * time.Minute), Replicas: int32(10 - i)})
	}
	for after, want := range map[time.Duration]int32{
		-time.Hour: 10, 0: 10, 59 * time.Second: 10, time.Minute: 9, 150 * time.Second: 8, time.Hour: 6,
	} {
		if got, ok := at(past, at0.Add(after), PastScale.from); !ok || got.Replicas != want {
			t.Errorf("after %v: %d, %v; want %d", after, got.Replicas, ok, want)
		}
	}
	if _, ok := at(nil, at0, PastScale.from); ok {
		t.Error("something ran of which nothing is known")
	}
	// The state that ruled at the oldest time stays.
	if got := trim(past, at0.Add(150*time.Second), PastScale.from); len(got) != 3 || got[0].Replicas != 8 {
		t.Errorf("trimmed to %v", got)
	}
	var long []PastScale
	for i := range 3 * maxPast {
		long = append(long, PastScale{From: at0.Add(time.Duration(i) * time.Second)})
	}
	if got := trim(long, time.Time{}, PastScale.from); len(got) != maxPast {
		t.Errorf("%d are kept", len(got))
	}
}

// BenchmarkObjectives is a cycle's part of 5,000 workloads with an SLO each and an hour of
// readings.
func BenchmarkObjectives(b *testing.B) {
	c := &cycle{Hierarchy: Hierarchy{Config: DefaultConfig()}}
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	for i := range 5000 {
		mw := managed{workload: api.Workload{Key: api.Key{Namespace: "a", Name: string(rune('a' + i))}, Mode: api.ModeFull}}
		mw.memory.Key = mw.workload.Key
		c.managed = append(c.managed, mw)
	}
	look := func() {
		now = now.Add(15 * time.Second)
		c.s.Time, c.findings, c.before = now, nil, c.memory
		for i := range c.managed {
			mw := &c.managed[i]
			mw.workload.SLOs = []api.SLO{{Name: "x", Objective: 0.999, At: now, Window: 45 * time.Second, Total: 4500}}
			mw.slos, mw.whys, mw.doubt = nil, nil, ""
		}
		c.watch()
	}
	for range 4 * 60 {
		look()
	}
	b.ReportAllocs()
	for b.Loop() {
		look()
	}
}
