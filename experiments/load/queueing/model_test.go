package queueing

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type exponential float64

func (e exponential) Sample(r *rand.Rand) float64 { return float64(e) * r.ExpFloat64() }

type constant float64

func (c constant) Sample(*rand.Rand) float64 { return float64(c) }

// twoPoint is ten times as much in one of ten cases; its mean is 1.9 times the
// value.
type twoPoint float64

func (p twoPoint) Sample(r *rand.Rand) float64 {
	if r.IntN(10) == 0 {
		return 10 * float64(p)
	}
	return float64(p)
}

// users are there from the beginning to the end.
type users int

func (u users) VUs(time.Duration) int                    { return int(u) }
func (u users) Next(time.Duration) (time.Duration, bool) { return 0, false }

func must(t interface{ Fatal(...any) }, errs ...error) {
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func load(work, think Sampler, to time.Duration) Stream {
	return Stream{Name: "s", Work: work, Think: think, Timeout: to}
}

// cluster is a model with n users of one stream and pods, each on a node of its
// own.
func cluster(t interface{ Fatal(...any) }, population int, s Stream, nodes int, n Node, p Pod) *Model {
	m := New(1)
	for i := range nodes {
		n.Name = fmt.Sprint("n", i)
		must(t, m.SetNode(n))
	}
	p.Stream = s.Name
	must(t, m.AddStream(s))
	for i := range nodes {
		p.ID, p.Node = fmt.Sprint("p", i), fmt.Sprint("n", i)
		must(t, m.AddPod(p))
		m.Join(p.ID, 0)
	}
	// Endpoints before users, who send their first request at once.
	m.Advance(0)
	must(t, m.StartUsers(s.Name, users(population)))
	return m
}

// mva solves the closed network exactly: n users, think time z, k equal
// stations, each visited with probability 1/k, whose service rate with j
// requests is rate(j). It returns throughput and mean response time.
// Mean value analysis for load-dependent stations: Reiser and Lavenberg 1980;
// for processor sharing it holds for any distribution of the work (BCMP).
func mva(n, k int, z, work float64, rate func(j int) float64) (x, r float64) {
	p := make([]float64, n+1) // marginal probabilities of one station
	p[0] = 1
	for users := 1; users <= n; users++ {
		r = 0
		for j := 1; j <= users; j++ {
			r += float64(j) * work / rate(j) * p[j-1]
		}
		x = float64(users) / (z + r) // each request visits exactly one station
		next := make([]float64, n+1)
		sum := 0.0
		for j := 1; j <= users; j++ {
			next[j] = x / float64(k) * work / rate(j) * p[j-1]
			sum += next[j]
		}
		next[0] = max(1-sum, 0)
		p = next
	}
	return x, r
}

// Throughput, mean response time (by Little's law) and CPU of long runs agree
// with exact mean value analysis. 20,000 s at about 10 to 60 requests/s are
// some 10⁵–10⁶ correlated samples; 2 % is above 5 standard errors in all cases
// (spread over 20 seeds was below 0.3 %).
func TestClosedNetworkAgreesWithMeanValueAnalysis(t *testing.T) {
	one := func(int) float64 { return 1 }
	cores := func(c float64) func(int) float64 {
		return func(j int) float64 { return min(float64(j), c) }
	}
	for name, test := range map[string]struct {
		users, pods int
		work        Sampler
		meanWork    float64
		node        Node
		rate        func(int) float64
	}{
		"one core, light load":                      {5, 1, exponential(0.05), 0.05, Node{Cores: 1, Speed: 1}, one},
		"one core, near saturation":                 {20, 1, exponential(0.05), 0.05, Node{Cores: 1, Speed: 1}, one},
		"one core, saturated":                       {60, 1, exponential(0.05), 0.05, Node{Cores: 1, Speed: 1}, one},
		"the distribution of work does not matter":  {20, 1, twoPoint(0.05 / 1.9), 0.05, Node{Cores: 1, Speed: 1}, one},
		"constant work":                             {20, 1, constant(0.05), 0.05, Node{Cores: 1, Speed: 1}, one},
		"two cores":                                 {40, 1, exponential(0.05), 0.05, Node{Cores: 2, Speed: 1}, cores(2)},
		"two half-speed cores":                      {20, 1, exponential(0.05), 0.05, Node{Cores: 2, Speed: 0.5}, func(j int) float64 { return 0.5 * cores(2)(j) }},
		"three pods on three nodes, random routing": {40, 3, exponential(0.05), 0.05, Node{Cores: 1, Speed: 1}, one},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const seconds = 20_000
			m := cluster(t, test.users, load(test.work, exponential(1), time.Hour), test.pods, test.node, Pod{Request: 0.5})
			m.Advance(100 * time.Second) // the transient
			if _, err := m.TakeWindow("s"); err != nil {
				t.Fatal(err)
			}
			before := usage(m)
			m.Advance((100 + seconds) * time.Second)
			w, err := m.TakeWindow("s")
			must(t, err)
			wantX, wantR := mva(test.users, test.pods, 1, test.meanWork, test.rate)
			x := float64(w.Succeeded) / seconds
			near(t, "throughput", x, wantX, 0.02)
			near(t, "response time", float64(test.users)/x-1, wantR, 0.05)
			near(t, "cores used", (usage(m)-before)/seconds, wantX*test.meanWork/test.node.Speed, 0.02)
			if w.Failed() != 0 {
				t.Errorf("failed = %d", w.Failed())
			}
		})
	}
}

func usage(m *Model) float64 {
	var sum float64
	for id := range m.pods {
		s, _ := m.PodState(id)
		sum += s.Usage
	}
	return sum
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s = %.5g, want %.5g ± %g %%", what, got, want, tolerance*100)
	}
}

func TestALimitThrottlesInPeriods(t *testing.T) {
	// One user without thinking, endless work: the pod always wants one core.
	m := cluster(t, 1, load(constant(1e6), constant(1), 100*time.Hour), 1, Node{Cores: 2, Speed: 1}, Pod{Request: 0.1, Limit: 0.4})
	m.Advance(10 * time.Second)
	s, _ := m.PodState("p0")
	// 100 periods, each 40 ms of running and 60 ms of standing still.
	near(t, "core seconds", s.Usage, 4, 1e-6)
	near(t, "throttled seconds", s.Throttled.Seconds(), 6, 1e-6)
	if diff := cmp.Diff([]uint64{100, 100}, []uint64{s.Periods, s.ThrottledPeriods}); diff != "" {
		t.Errorf("periods and throttled periods (-want +got):\n%s", diff)
	}
}

func TestAShortRequestRunsAtFullSpeedWithinTheQuota(t *testing.T) {
	// 30 ms of work against a quota of 40 ms: latency is the work, although
	// the limit is 0.4 cores.
	m := cluster(t, 1, load(constant(0.030), constant(0.970), time.Hour), 1, Node{Cores: 2, Speed: 1}, Pod{Request: 0.1, Limit: 0.4})
	m.Advance(100 * time.Second)
	w, err := m.TakeWindow("s")
	must(t, err)
	p99, _ := w.Latency.Quantile(0.99)
	near(t, "p99 seconds", p99.Seconds(), 0.030, 0.008)
	if s, _ := m.PodState("p0"); s.ThrottledPeriods != 0 {
		t.Errorf("throttled in %d periods", s.ThrottledPeriods)
	}
}

func TestASaturatedNodeIsSharedByRequests(t *testing.T) {
	for name, test := range map[string]struct {
		requests, limits []float64
		want             []float64 // cores, of 1
	}{
		"in proportion":                         {[]float64{0.1, 0.3}, []float64{0, 0}, []float64{0.25, 0.75}},
		"a limit leaves the rest to others":     {[]float64{0.1, 0.3, 0.1}, []float64{0, 0.2, 0}, []float64{0.4, 0.2, 0.4}},
		"no request is two shares":              {[]float64{0, 0.5}, []float64{0, 0}, []float64{2.0 / 514, 512.0 / 514}},
		"alone it may have all there is":        {[]float64{0.1}, []float64{0}, []float64{1}},
		"limits below capacity, nobody starves": {[]float64{0.1, 0.2}, []float64{0.2, 0.4}, []float64{0.2, 0.4}},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(1)
			must(t, m.SetNode(Node{Name: "n", Cores: 1, Speed: 1}))
			for i := range test.requests {
				s := load(constant(1e6), constant(1), 1000*time.Hour)
				s.Name = fmt.Sprint("s", i)
				id := fmt.Sprint("p", i)
				must(t, m.AddStream(s), m.StartUsers(s.Name, later(time.Second)),
					m.AddPod(Pod{ID: id, Stream: s.Name, Node: "n", Request: test.requests[i], Limit: test.limits[i]}))
				m.Join(id, 0)
			}
			m.Advance(1001 * time.Second)
			for i, want := range test.want {
				s, _ := m.PodState(fmt.Sprint("p", i))
				// Quotas are spent in bursts, during which the others get
				// less and after which they get more than in the fluid
				// limit; that costs some per cent.
				near(t, s.ID, s.Usage/1000, want, 0.03)
			}
		})
	}
}

// later has one user from a time on.
type later time.Duration

func (l later) VUs(t time.Duration) int {
	if t >= time.Duration(l) {
		return 1
	}
	return 0
}

func (l later) Next(t time.Duration) (time.Duration, bool) {
	return time.Duration(l), t < time.Duration(l)
}

// One user, 10 s of work, request sent at 1 s: what its one request comes to.
func TestHowRequestsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		before func(m *Model) // at 0 s
		during func(m *Model) // at 2 s
		want   Counts
		wantAt time.Duration // not yet ended 1 ms before
	}{
		"served":                                {want: Counts{Started: 1, Succeeded: 1}, wantAt: 11 * time.Second},
		"no endpoint":                           {before: func(m *Model) { m.Leave("p0", 0) }, want: Counts{Started: 1, Refused: 1}, wantAt: time.Second},
		"an endpoint that closed":               {before: func(m *Model) { m.Close("p0", 0) }, want: Counts{Started: 1, Refused: 1}, wantAt: time.Second},
		"an endpoint that is gone":              {before: func(m *Model) { m.RemovePod("p0", time.Hour) }, want: Counts{Started: 1, Refused: 1}, wantAt: time.Second},
		"closing lets requests finish":          {during: func(m *Model) { m.Close("p0", 0) }, want: Counts{Started: 1, Succeeded: 1}, wantAt: 11 * time.Second},
		"leaving lets requests finish":          {during: func(m *Model) { m.Leave("p0", 0) }, want: Counts{Started: 1, Succeeded: 1}, wantAt: 11 * time.Second},
		"the grace period ends before":          {during: func(m *Model) { m.Kill("p0", 5*time.Second) }, want: Counts{Started: 1, Reset: 1}, wantAt: 5 * time.Second},
		"the pod vanishes":                      {during: func(m *Model) { m.RemovePod("p0", 0) }, want: Counts{Started: 1, Reset: 1}, wantAt: 2 * time.Second},
		"the node is lost":                      {during: func(m *Model) { m.LoseNode("n0") }, want: Counts{Started: 1, TimedOut: 1}, wantAt: 31 * time.Second},
		"the node was lost before":              {before: func(m *Model) { m.LoseNode("n0") }, want: Counts{Started: 1, TimedOut: 1}, wantAt: 31 * time.Second},
		"the pod of a lost node is removed":     {during: func(m *Model) { m.LoseNode("n0"); m.RemovePod("p0", 0) }, want: Counts{Started: 1, TimedOut: 1}, wantAt: 31 * time.Second},
		"routed to the removed pod of the lost": {before: func(m *Model) { m.LoseNode("n0"); m.RemovePod("p0", time.Hour) }, want: Counts{Started: 1, TimedOut: 1}, wantAt: 31 * time.Second},
		"a lost node comes back": {during: func(m *Model) {
			m.LoseNode("n0")
			m.Advance(4 * time.Second)
			must(panics{}, m.SetNode(Node{"n0", 1, 1}))
		}, want: Counts{Started: 1, Succeeded: 1}, wantAt: 13 * time.Second},
		"a resize to half a core doubles what is left": {during: func(m *Model) { m.ResizePod("p0", 0.1, 0.5) }, want: Counts{Started: 1, Succeeded: 1},
			// 9 s of work are left: 179 whole periods of 50 ms, and the last 50 ms.
			wantAt: 2*time.Second + 17950*time.Millisecond},
		"ready again before the change was known": {before: func(m *Model) { m.Leave("p0", time.Second); m.Join("p0", time.Second/2) }, want: Counts{Started: 1, Succeeded: 1}, wantAt: 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(1)
			must(t, m.SetNode(Node{"n0", 1, 1}), m.AddStream(load(constant(10), constant(1e6), 30*time.Second)),
				m.StartUsers("s", later(time.Second)), m.AddPod(Pod{ID: "p0", Stream: "s", Node: "n0", Request: 0.1}))
			m.Join("p0", 0)
			m.Advance(0)
			if test.before != nil {
				test.before(m)
			}
			m.Advance(2 * time.Second)
			if test.during != nil {
				test.during(m)
			}
			m.Advance(test.wantAt - time.Millisecond)
			if w := m.streams["s"].stats.totals(); w.Ended() != 0 && test.wantAt > 2*time.Second {
				t.Errorf("ended before %s", test.wantAt)
			}
			m.Advance(test.wantAt)
			if diff := cmp.Diff(test.want, m.streams["s"].stats.totals()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

type panics struct{}

func (panics) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Whatever happens to pods and nodes, every request started has succeeded,
// failed or is in flight; no counter goes down; no pod exceeds its limit, no
// node its cores; and the same calls give the same state.
func TestRandomChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type call struct {
			op, pod, node int
			wait          time.Duration
		}
		var calls []call
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			calls = append(calls, call{
				op:   rapid.IntRange(0, 9).Draw(t, "op"),
				pod:  rapid.IntRange(0, 5).Draw(t, "pod"),
				node: rapid.IntRange(0, 2).Draw(t, "node"),
				wait: time.Duration(rapid.IntRange(0, 700).Draw(t, "wait")) * time.Millisecond,
			})
		}
		play := func() Counts {
			m := New(7)
			must(t, m.AddStream(load(exponential(0.02), exponential(0.2), 400*time.Millisecond)), m.StartUsers("s", users(30)))
			generation := map[int]int{}
			last := map[string]PodState{}
			for _, c := range calls {
				id := fmt.Sprint(c.pod, "-", generation[c.pod])
				nodeName := fmt.Sprint("n", c.node)
				at := m.Now() + c.wait/2
				switch c.op {
				case 0, 1:
					must(t, m.SetNode(Node{nodeName, 1 + float64(c.node), 0.5}))
				case 2, 3, 4:
					err := m.AddPod(Pod{ID: id, Stream: "s", Node: nodeName, Request: 0.1, Limit: float64(c.pod) * 0.1})
					if err == nil {
						m.Join(id, at)
					} else if !errors.Is(err, ErrExists) && !errors.Is(err, ErrUnknown) {
						t.Fatal(err)
					}
				case 5:
					m.Leave(id, at)
				case 6:
					m.Close(id, at)
				case 7:
					m.Kill(id, at)
				case 8:
					m.RemovePod(id, at)
					generation[c.pod]++
				case 9:
					m.LoseNode(nodeName)
				}
				from := m.Now()
				m.Advance(from + c.wait)
				for id := range m.pods {
					s, _ := m.PodState(id)
					if s.Usage < last[id].Usage || s.Throttled < last[id].Throttled {
						t.Fatalf("a counter of %s went down", id)
					}
					// Within any span a pod can use its quota of the
					// periods touched.
					periods := float64(c.wait/Period) + 2
					if used := s.Usage - last[id].Usage; s.Limit > 0 && last[id].ID != "" && used > periods*s.Limit*Period.Seconds()+1e-6 {
						t.Fatalf("%s used %v of a limit of %v in %s", id, used, s.Limit, c.wait)
					}
					last[id] = s
				}
				for _, n := range m.nodes {
					var rates float64
					for _, p := range n.pods {
						rates += p.rate
					}
					if rates > n.Cores+1e-9 {
						t.Fatalf("node %s gives %v of %v cores", n.Name, rates, n.Cores)
					}
				}
				inFlight := 0
				for _, u := range m.sources["s"].users {
					if u.state == waiting {
						inFlight++
					}
				}
				totals := m.streams["s"].stats.totals()
				if totals.Started != totals.Ended()+uint64(inFlight) {
					t.Fatalf("%d started, %d ended, %d in flight", totals.Started, totals.Ended(), inFlight)
				}
			}
			return m.streams["s"].stats.totals()
		}
		if diff := cmp.Diff(play(), play()); diff != "" {
			t.Fatalf("a second run differs:\n%s", diff)
		}
	})
}

func TestStreamsHaveTheSameUsers(t *testing.T) {
	m := New(3)
	must(t, m.SetNode(Node{"n", 4, 1}), m.SetNode(Node{"o", 4, 1}))
	for _, name := range []string{"a", "b"} {
		s := load(exponential(0.01), exponential(1), time.Hour)
		s.Name = name
		must(t, m.AddStream(s), m.StartUsers(name, users(50)))
	}
	must(t, m.AddPod(Pod{ID: "a", Stream: "a", Node: "n", Request: 1}), m.AddPod(Pod{ID: "b", Stream: "b", Node: "o", Request: 1}))
	m.Join("a", 0)
	m.Join("b", 0)
	m.Advance(time.Hour)
	if diff := cmp.Diff(m.streams["a"].stats.totals(), m.streams["b"].stats.totals()); diff != "" {
		t.Errorf("a and b differ:\n%s", diff)
	}
	a, _ := m.PodState("a")
	b, _ := m.PodState("b")
	if math.Abs(a.Usage-b.Usage) > 1e-9*a.Usage {
		t.Errorf("usage %v and %v", a.Usage, b.Usage)
	}
}

func TestUsersComeAndGo(t *testing.T) {
	m := New(1)
	must(t, m.AddStream(load(constant(1), exponential(0.5), time.Second)), m.StartUsers("s", steps{0: 5, 10: 2, 20: 4, 30: 0}))
	for _, step := range [][2]int{{5, 5}, {15, 2}, {25, 4}, {35, 0}} {
		m.Advance(time.Duration(step[0]) * time.Second)
		s, err := m.StreamState("s")
		must(t, err)
		if s.Users != step[1] {
			t.Errorf("at %d s there are %d users, want %d", step[0], s.Users, step[1])
		}
	}
}

// steps is the number of users from a second on.
type steps map[int]int

func (s steps) VUs(t time.Duration) int {
	at := int(t / time.Second)
	for ; at > 0; at-- {
		if _, ok := s[at]; ok {
			break
		}
	}
	return s[at]
}

func (s steps) Next(t time.Duration) (time.Duration, bool) {
	for at := int(t/time.Second) + 1; at < 100; at++ {
		if _, ok := s[at]; ok {
			return time.Duration(at) * time.Second, true
		}
	}
	return 0, false
}

func TestBadInputIsRefused(t *testing.T) {
	m := New(1)
	must(t, m.SetNode(Node{"n", 1, 1}), m.AddStream(load(constant(1), constant(1), time.Second)), m.AddPod(Pod{ID: "p", Stream: "s", Node: "n"}))
	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"pod twice":       {m.AddPod(Pod{ID: "p", Stream: "s", Node: "n"}), ErrExists},
		"unknown node":    {m.AddPod(Pod{ID: "q", Stream: "s", Node: "m"}), ErrUnknown},
		"unknown stream":  {m.AddPod(Pod{ID: "q", Stream: "r", Node: "n"}), ErrUnknown},
		"users of nobody": {m.StartUsers("r", users(1)), ErrUnknown},
		"stream twice":    {m.AddStream(load(constant(1), constant(1), time.Second)), ErrExists},
	} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(test.err, test.want) {
				t.Errorf("error = %v, want %v", test.err, test.want)
			}
		})
	}
	if m.SetNode(Node{"n", 0, 1}) == nil || m.SetNode(Node{"n", 1, math.NaN()}) == nil {
		t.Error("a node without cores or speed was accepted")
	}
}

// 400 users on 8 pods as in Heartbeat; ns/op is per simulated second.
func BenchmarkHeartbeatSecond(b *testing.B) {
	m := cluster(b, 400, load(exponential(0.003), exponential(1), 5*time.Second), 8, Node{Cores: 2, Speed: 1}, Pod{Request: 0.2, Limit: 0.4})
	b.ResetTimer()
	for i := range b.N {
		m.Advance(time.Duration(i+1) * time.Second)
	}
}
