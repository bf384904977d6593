package queueing

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// chain is a model with one pod for each service, each on a node of its own.
func chain(t interface{ Fatal(...any) }, request Call, timeout time.Duration, services ...string) *Model {
	m := New(1)
	for _, name := range services {
		must(t, m.SetNode(Node{Name: name, Cores: 1, Speed: 1}), m.AddStream(Stream{Name: name}),
			m.AddPod(Pod{ID: name, Stream: name, Node: name}))
		m.Join(name, 0)
	}
	must(t, m.AddSource(Source{Name: "users", Think: constant(1), Timeout: timeout, Request: request}))
	m.Advance(0)
	return m
}

func visiting(service string, ms float64, below ...Call) Call {
	return Call{Stream: service, Work: constant(ms / 1000), Calls: below}
}

// One user alone: a request takes what its visits take.
func TestChainTakesWhatItsVisitsTake(t *testing.T) {
	parallel := visiting("front", 10, visiting("a", 5), visiting("b", 8, visiting("c", 4)))
	parallel.Parallel = true
	twice := visiting("a", 5)
	twice.Times = 2
	for name, test := range map[string]struct {
		request Call
		ms      float64
	}{
		"one visit":            {visiting("front", 10), 10},
		"one after the other":  {visiting("front", 10, twice, visiting("b", 3)), 23},
		"at once":              {parallel, 22},
		"the same service too": {visiting("front", 10, visiting("front", 5)), 15},
	} {
		m := chain(t, test.request, time.Minute, "front", "a", "b", "c")
		must(t, m.StartUsers("users", users(1)))
		m.Advance(100 * time.Second)
		w, err := m.TakeWindow("front")
		must(t, err)
		got, _ := w.Latency.Quantile(0.5)
		if ms := float64(got) / float64(time.Millisecond); w.Failed() > 0 || math.Abs(ms/test.ms-1) > 0.01 {
			t.Errorf("%s: takes %.2f ms, want %v; %+v", name, ms, test.ms, w.Counts)
		}
	}
}

func TestChainFails(t *testing.T) {
	request := visiting("front", 10, visiting("a", 50), visiting("b", 5))
	request.Parallel = true
	m := chain(t, request, time.Minute, "front", "a", "b")
	m.RemovePod("b", 0)
	must(t, m.StartUsers("users", users(1)))
	m.Advance(10 * time.Second)
	w, err := m.TakeWindow("front")
	must(t, err)
	if w.Refused == 0 || w.Succeeded > 0 {
		t.Errorf("without one of its services: %+v", w.Counts)
	}
	// What was begun for a request that has failed is given up.
	if a, _ := m.PodState("a"); a.InFlight != 0 || a.Usage > 1e-6 {
		t.Errorf("the other service goes on: %+v", a)
	}

	m = chain(t, visiting("front", 10, visiting("a", 500)), 100*time.Millisecond, "front", "a")
	must(t, m.StartUsers("users", users(1)))
	m.Advance(10500 * time.Millisecond)
	w, err = m.TakeWindow("front")
	must(t, err)
	if w.TimedOut == 0 || w.Succeeded > 0 {
		t.Errorf("longer than the timeout: %+v", w.Counts)
	}
	if a, _ := m.PodState("a"); math.Abs(a.Usage/float64(w.TimedOut)-0.09) > 0.005 {
		t.Errorf("a worked for %.3f s on %d requests, want the 0.09 s until each timeout", a.Usage, w.TimedOut)
	}

	m = chain(t, visiting("front", 10, visiting("a", 500)), time.Minute, "front", "a")
	must(t, m.StartUsers("users", users(1)))
	m.Advance(100 * time.Millisecond)
	m.RemovePod("a", 0)
	if w, err := m.TakeWindow("front"); err != nil || w.Reset != 1 {
		t.Errorf("a pod that vanishes: %+v, %v", w.Counts, err)
	}
}

// An optional call is left out while its service has no endpoint, and made again with one.
func TestOptionalCall(t *testing.T) {
	optional := visiting("a", 40)
	optional.Optional = true
	m := chain(t, visiting("front", 10, optional), time.Minute, "front", "a")
	must(t, m.StartUsers("users", users(1)))
	median := func() float64 {
		m.Advance(m.now + 20*time.Second)
		w, err := m.TakeWindow("front")
		must(t, err)
		if w.Failed() > 0 {
			t.Errorf("%+v", w.Counts)
		}
		d, _ := w.Latency.Quantile(0.5)
		return d.Seconds()
	}
	if with := median(); math.Abs(with-0.05) > 0.001 {
		t.Errorf("takes %.4f s with the call, want 0.05", with)
	}
	m.Leave("a", m.now)
	m.Advance(m.now + time.Second)
	_, _ = m.TakeWindow("front")
	if without := median(); math.Abs(without-0.01) > 0.001 {
		t.Errorf("takes %.4f s without, want 0.01", without)
	}
}

func TestProbabilityOfACall(t *testing.T) {
	sometimes := visiting("a", 1)
	sometimes.Probability = 0.25
	m := chain(t, visiting("front", 1, sometimes), time.Minute, "front", "a")
	must(t, m.StartUsers("users", users(20)))
	m.Advance(500 * time.Second)
	front, _ := m.PodState("front")
	a, _ := m.PodState("a")
	if ratio := a.Usage / front.Usage; math.Abs(ratio-0.25) > 0.02 {
		t.Errorf("called in %.3f of the requests, want 0.25", ratio)
	}
	for _, bad := range []Call{{Stream: "nobody", Work: constant(1)}, {Stream: "a"}, {Stream: "a", Work: constant(1), Probability: 2}} {
		if err := m.AddSource(Source{Name: "bad", Think: constant(1), Timeout: 1, Request: bad}); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// Whatever comes and goes, each request ends once, and nobody works for those
// that have ended.
func TestChainsConserveRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		services := []string{"front", "a", "b", "c"}
		var draw func(depth int) Call
		draw = func(depth int) Call {
			c := visiting(rapid.SampledFrom(services).Draw(t, "service"), rapid.Float64Range(0.5, 40).Draw(t, "ms"))
			c.Probability = rapid.Float64Range(0.1, 1).Draw(t, "p")
			c.Times = rapid.IntRange(1, 2).Draw(t, "times")
			c.Parallel = rapid.Bool().Draw(t, "parallel")
			if depth < 2 {
				for range rapid.IntRange(0, 2).Draw(t, "calls") {
					c.Calls = append(c.Calls, draw(depth+1))
				}
			}
			return c
		}
		m := chain(t, draw(0), time.Duration(rapid.IntRange(20, 500).Draw(t, "timeout"))*time.Millisecond, services...)
		must(t, m.StartUsers("users", users(rapid.IntRange(1, 8).Draw(t, "users"))))
		for i := range 6 {
			m.Advance(m.Now() + time.Duration(rapid.IntRange(1, 900).Draw(t, "ms"))*time.Millisecond)
			name := rapid.SampledFrom(services).Draw(t, "victim")
			switch {
			case i%2 == 0:
				m.RemovePod(name, m.Now())
			case rapid.Bool().Draw(t, "node"):
				m.LoseNode(name)
			}
		}
		m.Advance(m.Now() + 3*time.Second)
		inFlight, open := 0, 0
		for _, s := range m.sources {
			for _, u := range s.users {
				open += len(u.open)
				if u.state == waiting {
					inFlight++
				} else if len(u.open) > 0 {
					t.Fatalf("%d pods work for a user without a request", len(u.open))
				}
			}
		}
		jobs := 0
		for _, p := range m.pods {
			jobs += len(p.jobs)
		}
		var c Counts
		for _, s := range m.streams {
			c = c.Plus(s.stats.totals())
		}
		if c.Started != c.Ended()+uint64(inFlight) || jobs != open {
			t.Fatalf("%+v with %d waiting; pods have %d visits, users %d", c, inFlight, jobs, open)
		}
	})
}
