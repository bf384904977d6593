package sizing

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const week = 7 * 24 * time.Hour

const mib = 1 << 20

// known is a container that requests 1 core and 1 GiB, with usage known for two days.
func known(change func(*api.ContainerUse)) api.ContainerUse {
	u := api.ContainerUse{
		Name: "web", Requests: api.Amounts{MilliCPU: 1000, Memory: 1024 * mib},
		Since: now.Add(-48 * time.Hour), Until: now.Add(-5 * time.Minute),
		MemoryPeak: 400 * mib, CPUPeak: 300, CPUMean: 100,
	}
	if change != nil {
		change(&u)
	}
	return u
}

// demand of two days, millicores, the same at all times.
func flat(v float64) api.Series { return shaped(func(int) float64 { return v }) }

func shaped(of func(minute int) float64) api.Series {
	const minutes = 2 * 24 * 60
	s := api.Series{Start: now.Add(-minutes * time.Minute), Step: time.Minute}
	for i := range minutes {
		s.Values = append(s.Values, of(i))
	}
	return s
}

func input(u ...api.ContainerUse) Input {
	guaranteed := !slices.ContainsFunc(u, func(u api.ContainerUse) bool { return u.Limits != u.Requests })
	return Input{
		Time: now, Sizing: api.Sizing{Mode: api.SizingInPlace, Limits: api.LimitsKeep, Containers: u, Guaranteed: guaranteed, Admits: true},
		Demand: flat(200), Least: 2, Most: 20, Headroom: 1 / 0.7, Speed: 1,
		Machines: []Machine{{Room: api.Amounts{MilliCPU: 4000, Memory: 16384 * mib}}}, Prices: DefaultPrices,
	}
}

func plan(t testing.TB, in Input, m Memory) (api.SizingPlan, Memory) {
	t.Helper()
	return Planner{DefaultConfig()}.Plan(in, m)
}

func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		in           func(*Input)
		container    func(*api.ContainerUse)
		wantCPU      int64 // millicores
		wantMemory   int64 // MiB
		wantLimits   api.Amounts
		wantInReason string
	}{
		// 2 replicas of 1 core for 0.2 cores at 70 %: 143m each would do; a quarter of what
		// the author wrote is the least without a bound of theirs. 400 MiB and 15 %.
		"both are lowered to what was used": {wantCPU: 250, wantMemory: 460},
		"as far as the author allows": {
			container: func(u *api.ContainerUse) {
				u.Least = api.Amounts{MilliCPU: 100, Memory: 512 * mib}
			}, wantCPU: 150, wantMemory: 512, // of 145m and 150m the larger, which costs as little
		},
		"no more than the author allows": {
			container: func(u *api.ContainerUse) {
				u.MemoryPeak, u.Most = 3000*mib, api.Amounts{MilliCPU: 2000, Memory: 2048 * mib}
			}, wantCPU: 250, wantMemory: 2048,
		},
		// 500m are allowed; 250m cost as little as they would without that bound.
		"below what the author allows at most, too": {
			container: func(u *api.ContainerUse) { u.Most = api.Amounts{MilliCPU: 500} },
			wantCPU:   250, wantMemory: 460,
		},
		"usage known for an hour lowers nothing": {
			container: func(u *api.ContainerUse) { u.Since = now.Add(-time.Hour) },
			wantCPU:   1000, wantMemory: 1024, wantInReason: "its usage is known for 55m0s of the 24h0m0s that it takes",
		},
		"usage that is known no more lowers nothing": {
			container: func(u *api.ContainerUse) { u.Until = now.Add(-time.Hour) },
			wantCPU:   1000, wantMemory: 1024, wantInReason: "its usage is not known since",
		},
		"usage that is not known lowers nothing": {
			container: func(u *api.ContainerUse) {
				*u = api.ContainerUse{Name: u.Name, Requests: u.Requests}
			}, wantCPU: 1000, wantMemory: 1024, wantInReason: "its usage is not known",
		},
		"stale demand lowers no CPU": {
			in: func(in *Input) { in.Stale = true }, wantCPU: 1000, wantMemory: 460, wantInReason: "demand is not known",
		},
		"memory is raised by one reading": {
			container: func(u *api.ContainerUse) { u.Since, u.MemoryPeak = u.Until, 1100*mib },
			wantCPU:   1000, wantMemory: 1265,
		},
		// A fifth more than 1 GiB is more than 100 MiB more: 1228.8.
		"an OOM kill raises it at once": {
			container: func(u *api.ContainerUse) { u.OOMKilled, u.OOMLimit = now.Add(-time.Minute), 1024*mib },
			wantCPU:   250, wantMemory: 1229, wantInReason: "killed at",
		},
		"an OOM kill raises it where usage isn't known": {
			container: func(u *api.ContainerUse) {
				*u = api.ContainerUse{Name: u.Name, Requests: u.Requests, OOMKilled: now.Add(-time.Minute), OOMLimit: 1024 * mib}
			}, wantCPU: 1000, wantMemory: 1229,
		},
		"an old OOM kill is over": {
			container: func(u *api.ContainerUse) { u.OOMKilled, u.OOMLimit = now.Add(-9*24*time.Hour), 1024*mib },
			wantCPU:   250, wantMemory: 460,
		},
		"a limit stays where it needn't move": {
			container:  func(u *api.ContainerUse) { u.Limits = api.Amounts{MilliCPU: 2000, Memory: 2048 * mib} },
			wantLimits: api.Amounts{MilliCPU: 2000, Memory: 2048 * mib}, wantCPU: 250, wantMemory: 460,
		},
		// 30 % beyond the peak, as the limit follows; the CPU limit not below what was used.
		"Guaranteed stays Guaranteed": {
			container:  func(u *api.ContainerUse) { u.Limits, u.MemoryKnown, u.MemoryTail = u.Requests, week, 450*mib },
			wantLimits: api.Amounts{MilliCPU: 300, Memory: 520 * mib}, wantCPU: 300, wantMemory: 520,
		},
		"a memory limit goes down after a week": {
			container:  func(u *api.ContainerUse) { u.Limits, u.MemoryKnown, u.MemoryTail = u.Requests, week-time.Hour, 450*mib },
			wantLimits: api.Amounts{MilliCPU: 300, Memory: 1024 * mib}, wantCPU: 300, wantMemory: 1024, wantInReason: "for 167h0m0s of the 168h0m0s that it takes for a limit",
		},
		"a memory limit goes down only where its tail is known": {
			container:  func(u *api.ContainerUse) { u.Limits, u.MemoryKnown = u.Requests, week },
			wantLimits: api.Amounts{MilliCPU: 300, Memory: 1024 * mib}, wantCPU: 300, wantMemory: 1024, wantInReason: "that it takes for a limit",
		},
		"a memory limit stays above what usage varies up to": {
			container:  func(u *api.ContainerUse) { u.Limits, u.MemoryKnown, u.MemoryTail = u.Requests, week, 800*mib },
			wantLimits: api.Amounts{MilliCPU: 300, Memory: 800 * mib}, wantCPU: 300, wantMemory: 800, wantInReason: "peak 400 MiB, which varies up to 800 MiB",
		},
		"a memory limit that varies more than it has stays": {
			container:  func(u *api.ContainerUse) { u.Limits, u.MemoryKnown, u.MemoryTail = u.Requests, week, 1500*mib },
			wantLimits: api.Amounts{MilliCPU: 300, Memory: 1024 * mib}, wantCPU: 300, wantMemory: 1024,
		},
		"a request whose limit is far above doesn't wait for it": {
			container:  func(u *api.ContainerUse) { u.Limits, u.MemoryTail = api.Amounts{Memory: 2048 * mib}, 1500*mib },
			wantLimits: api.Amounts{Memory: 2048 * mib}, wantCPU: 250, wantMemory: 460,
		},
		"a memory limit of a Burstable pod stays": {
			container: func(u *api.ContainerUse) {
				u.Limits, u.MemoryKnown, u.MemoryTail = api.Amounts{Memory: 1024 * mib}, week, 450*mib
			},
			wantLimits: api.Amounts{Memory: 1024 * mib}, wantCPU: 250, wantMemory: 460,
		},
		"so does a CPU limit": {
			container:  func(u *api.ContainerUse) { u.Limits = api.Amounts{MilliCPU: 1000} },
			wantLimits: api.Amounts{MilliCPU: 1000}, wantCPU: 250, wantMemory: 460,
		},
		"they rise with the request": {
			container: func(u *api.ContainerUse) {
				u.Limits, u.OOMKilled, u.OOMLimit = api.Amounts{Memory: 1024 * mib}, now.Add(-time.Minute), 1024*mib
			}, wantLimits: api.Amounts{Memory: 1229 * mib}, wantCPU: 250, wantMemory: 1229,
		},
		"limits keep their ratio, and never kill or throttle what was": {
			in: func(in *Input) { in.Sizing.Limits = api.LimitsRatio },
			container: func(u *api.ContainerUse) {
				// The limit is twice the request, so 1000 MiB of tail ask for 500.
				u.Limits, u.MemoryKnown, u.MemoryTail = api.Amounts{MilliCPU: 1100, Memory: 2048 * mib}, week, 1000*mib
			},
			wantLimits: api.Amounts{MilliCPU: 330, Memory: 1040 * mib}, wantCPU: 300, wantMemory: 520,
		},
		"demand that the most replicas can't take makes them larger at once": {
			in: func(in *Input) { in.Demand, in.Most = flat(4000), 4 },
			// 4 cores, 10 % and 70 %: 1571.4 each.
			wantCPU: 1575, wantMemory: 460, wantInReason: "do not fit into 4 replicas",
		},
		"more than a machine can hold is not asked for": {
			in:      func(in *Input) { in.Demand, in.Most, in.Machines[0].Room.MilliCPU = flat(4000), 4, 1200 },
			wantCPU: 1200, wantMemory: 460, wantInReason: "no machine has more than",
		},
		"CPU stays where replicas follow something else": {
			in: func(in *Input) { in.FixedCPU = "CPU requests stay: replicas follow triggers" }, wantCPU: 1000, wantMemory: 460,
			wantInReason: "replicas follow triggers",
		},
		"nothing goes down in doubt": {
			in: func(in *Input) { in.Doubt = "SLO x burns" }, wantCPU: 1000, wantMemory: 1024, wantInReason: "SLO x burns",
		},
		"nothing changes in a hold": {
			in: func(in *Input) { in.Sizing.Hold = "an HPA scales it" }, wantCPU: 1000, wantMemory: 1024,
			wantInReason: "an HPA scales it",
		},
		"what the author keeps is kept": {
			container: func(u *api.ContainerUse) { u.FixedCPU, u.FixedMemory = true, true }, wantCPU: 1000, wantMemory: 1024,
		},
		"a container without requests is left without": {
			container: func(u *api.ContainerUse) { u.Requests = api.Amounts{} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(known(c.container))
			if c.in != nil {
				c.in(&in)
			}
			got, _ := plan(t, in, Memory{})
			is := got.Containers[0]
			if want := (api.Amounts{MilliCPU: c.wantCPU, Memory: c.wantMemory * mib}); is.Requests != want {
				t.Errorf("requests %s, want %s: %s", is.Requests, want, got.Reason)
			}
			if is.Limits != c.wantLimits {
				t.Errorf("limits %s, want %s", is.Limits, c.wantLimits)
			}
			if !strings.Contains(got.Reason, c.wantInReason) {
				t.Errorf("reason %q has no %q", got.Reason, c.wantInReason)
			}
		})
	}
}

// TestTakeBack: what ran while objectives were kept is requested again, where it is more.
func TestTakeBack(t *testing.T) {
	in := input(known(nil))
	smaller, m := plan(t, in, Memory{})
	in.Time = now.Add(time.Minute)
	in.Kept = []api.ContainerPlan{{Name: "web", Requests: api.Amounts{MilliCPU: 900, Memory: 300 * mib}, Template: in.Sizing.Containers[0].Requests}}
	got, _ := plan(t, in, m)
	want := api.Amounts{MilliCPU: 900, Memory: smaller.Containers[0].Requests.Memory}
	if got.Containers[0].Requests != want {
		t.Errorf("requests %s, want %s", got.Containers[0].Requests, want)
	}
}

// TestKillsAreRemembered: the pod that was killed is gone, and its memory is not lowered.
// TestRefused: sizes that the API server refuses are taken back to the author's, also of
// running pods where these grow, and not tried again soon.
func TestRefused(t *testing.T) {
	const limitRange = "minimum cpu usage per Container is 500m, but request is 100m"
	smaller, acted := plan(t, input(known(nil)), Memory{})
	if smaller.Containers[0].Requests.MilliCPU >= 1000 {
		t.Fatalf("there is nothing to take back: %+v", smaller)
	}
	acted.Acted = true
	large := func(in *Input) { in.Sizing.Containers[0].MemoryPeak = 3000 * mib }
	_, more := plan(t, func() Input { in := input(known(nil)); large(&in); return in }(), Memory{})
	more.Acted = true
	for name, c := range map[string]struct {
		memory Memory
		in     func(*Input)
		back   bool
		mode   api.SizingMode
	}{
		"a LimitRange":                       {acted, func(in *Input) { in.Sizing.Refused = limitRange }, true, api.SizingInPlace},
		"while somebody else scales it":      {acted, func(in *Input) { in.Sizing.Refused, in.Sizing.Hold = limitRange, "an HPA scales it" }, true, api.SizingInPlace},
		"in doubt":                           {acted, func(in *Input) { in.Sizing.Refused, in.Doubt = limitRange, "it burns" }, true, api.SizingInPlace},
		"a quota, by pods that request less": {acted, func(in *Input) { in.Sizing.Refused = "exceeded quota: team, requested: requests.cpu=100m" }, false, api.SizingInPlace},
		"a quota, by pods that request more": {more, func(in *Input) { large(in); in.Sizing.Refused = "exceeded quota: team, requested: requests.memory=2Gi" }, true, api.SizingInitialOnly},
		"a limit that is larger, by pods that request less": {
			Memory{Acted: true, Containers: []api.ContainerPlan{{
				Name: "web", Requests: api.Amounts{MilliCPU: 500, Memory: 1024 * mib}, Limits: api.Amounts{Memory: 2000 * mib}, Template: api.Amounts{MilliCPU: 1000, Memory: 1024 * mib},
			}}},
			func(in *Input) {
				in.Sizing.Containers[0].Limits, in.Sizing.Refused = api.Amounts{Memory: 1100 * mib}, limitRange
			}, true, api.SizingInitialOnly,
		},
		"a quota of pods": {more, func(in *Input) {
			large(in)
			in.Sizing.Refused = "exceeded quota: team, requested: pods=1, limited: pods=3"
		}, false, api.SizingInPlace},
		"a pod security standard": {acted, func(in *Input) { in.Sizing.Refused = `violates PodSecurity "restricted:latest": privileged` }, false, api.SizingInPlace},
		"a webhook that says so": {acted, func(in *Input) {
			in.Sizing.Refused = `admission webhook "no.example.com" denied the request: CPU is too low`
		}, true, api.SizingInPlace},
		"a webhook that does not answer": {acted, func(in *Input) {
			in.Sizing.Refused = `failed calling webhook "cpu.example.com": context deadline exceeded`
		}, false, api.SizingInPlace},
		"sizes that no pod was given":             {Memory{Containers: acted.Containers}, func(in *Input) { in.Sizing.Refused = limitRange }, false, api.SizingInPlace},
		"pods that begin as their template":       {acted, func(in *Input) { in.Sizing.Refused, in.Sizing.Admits = limitRange, false }, false, api.SizingInPlace},
		"resources of the pod as a whole":         {acted, func(in *Input) { in.Sizing.AsWritten = "whole" }, true, api.SizingInitialOnly},
		"the same before anything was ever known": {Memory{}, func(in *Input) { in.Sizing.AsWritten = "whole" }, true, api.SizingInitialOnly},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(known(nil))
			in.Time = now.Add(time.Minute)
			c.in(&in)
			p, m := plan(t, in, c.memory)
			is, wrote := p.Containers[0], in.Sizing.Containers[0]
			if back := is.Requests == wrote.Requests && is.Limits == wrote.Limits; back != c.back || p.Mode != c.mode {
				t.Fatalf("back %v: %+v", back, p)
			}
			if !c.back || in.Sizing.Refused == "" {
				return
			}
			if !strings.Contains(p.Reason, in.Sizing.Refused) {
				t.Errorf("the reason is %q", p.Reason)
			}
			// Pods are let in again, and sizes stay.
			m.Acted = true
			later := input(known(func(u *api.ContainerUse) { u.Since, u.Until = now.Add(-48*time.Hour), now.Add(7*24*time.Hour) }))
			later.Time = now.Add(7 * 24 * time.Hour)
			if p, m = plan(t, later, m); p.Containers[0].Requests != wrote.Requests || p.Mode != c.mode {
				t.Errorf("a week later: %+v", p)
			}
			// Another template is another program.
			other := later
			other.Sizing.Containers = []api.ContainerUse{known(func(u *api.ContainerUse) { u.Requests.MilliCPU = 900 })}
			if _, m := plan(t, other, m); !m.Refused.IsZero() {
				t.Error("another template is refused, too")
			}
			later.Time = later.Time.Add(2 * 24 * time.Hour)
			later.Sizing.Containers[0].Until = later.Time
			later.Demand.Start = later.Time.Add(-48 * time.Hour)
			if p, _ = plan(t, later, m); p.Containers[0].Requests == wrote.Requests {
				t.Errorf("nine days later: %+v", p)
			}
		})
	}
}

// TestRestart: what was planned outlives the operator, and another template ends it.
func TestRestart(t *testing.T) {
	in := input(known(nil))
	first, _ := plan(t, in, Memory{})
	in.Sizing.Planned = first.Containers
	in.Sizing.Containers[0].Since, in.Sizing.Containers[0].Until = time.Time{}, time.Time{} // nothing is known yet
	if again, _ := plan(t, in, Memory{}); again.Containers[0].Requests != first.Containers[0].Requests {
		t.Errorf("after a restart %s, want %s", again.Containers[0].Requests, first.Containers[0].Requests)
	}
	in = input(known(func(u *api.ContainerUse) { u.Requests.MilliCPU = 800 }))
	in.Sizing.Planned = first.Containers
	got, m := plan(t, in, Memory{})
	if got.Containers[0].Requests != in.Sizing.Containers[0].Requests {
		t.Errorf("another template requests %s, want its author's %s", got.Containers[0].Requests, in.Sizing.Containers[0].Requests)
	}
	if m.Template != now {
		t.Errorf("the template is of %s, want %s", m.Template, now)
	}
}

// TestCheapest: the request that is chosen costs no more than any other on a fine grid, but
// for what a change must be worth.
func TestCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		base, peak, phase := 50+r.Float64()*2000, r.Float64()*4000, r.Float64()
		in := input(known(func(u *api.ContainerUse) { u.Requests.MilliCPU = 200 + r.Int64N(3000) }))
		in.Demand = shaped(func(i int) float64 {
			return base + peak*math.Max(0, math.Sin(2*math.Pi*(float64(i)/1440+phase)))
		})
		in.Least = 1 + r.Int32N(5)
		in.Most = in.Least + r.Int32N(30)
		c := &chooser{Config: DefaultConfig(), in: in}
		c.start()
		demand := c.past()
		least := demandPerPod(in, demand.values)
		best := c.cheapest(demand, least, in.Sizing.Containers[0].Requests.MilliCPU)
		lower, upper := c.allowed(in.Sizing.Containers[0])
		for try := max(lower.MilliCPU, int64(math.Ceil(least))); try <= min(upper.MilliCPU, max(in.Sizing.Containers[0].Requests.MilliCPU, int64(least))); try += 7 {
			if other := c.costOf(demand, try, requests(c.now).Memory); other < 0.95*best.cost {
				t.Fatalf("%dm costs %v, %dm costs %v", best.request, best.cost, try, other)
			}
		}
	})
}

func demandPerPod(in Input, values []float64) float64 {
	peak := 0.0
	for _, v := range values {
		peak = math.Max(peak, v)
	}
	return peak * peakMargin * in.Headroom / (in.Speed * float64(in.Most))
}

// TestProperties: whatever is read, requests stay within what is allowed, limits are no
// less than requests, the quality of service stays, and nothing is lowered on too little.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string, most int64) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
		u := api.ContainerUse{
			Name:       "web",
			Requests:   api.Amounts{MilliCPU: amount("cpu", 4000), Memory: amount("memory", 4<<30)},
			MemoryTail: amount("tail", 4096*mib), MemoryKnown: time.Duration(amount("known", int64(2*week))),
			Since: now.Add(-time.Duration(amount("since", int64(72*time.Hour)))), Until: now.Add(-time.Duration(amount("until", int64(time.Hour)))),
			MemoryPeak: amount("peak", 8<<30), CPUPeak: amount("cpuPeak", 8000), CPUMean: amount("cpuMean", 2000),
		}
		if u.Until.Before(u.Since) {
			u.Since = u.Until
		}
		if rapid.Bool().Draw(t, "killed") {
			u.OOMKilled, u.OOMLimit = now.Add(-time.Duration(amount("killed", int64(20*24*time.Hour)))), amount("limit", 8<<30)
		}
		switch rapid.IntRange(0, 4).Draw(t, "limits") {
		case 1:
			u.Limits = u.Requests
		case 3:
			u.Limits.MilliCPU = u.Requests.MilliCPU
		case 4:
			u.Limits.Memory = u.Requests.Memory
		case 2:
			u.Limits = api.Amounts{MilliCPU: u.Requests.MilliCPU + amount("cpuLimit", 4000) + 1, Memory: u.Requests.Memory + amount("memoryLimit", 4<<30) + 1}
		}
		in := input(u)
		in.Sizing.Limits = rapid.SampledFrom([]api.SizingLimits{api.LimitsKeep, api.LimitsRatio}).Draw(t, "mode")
		in.Demand = flat(float64(amount("demand", 20_000)))
		in.Stale = rapid.Bool().Draw(t, "stale")
		got, m := Planner{DefaultConfig()}.Plan(in, Memory{})
		is := got.Containers[0]
		if u.Requests.MilliCPU == 0 && is.Requests.MilliCPU != 0 || u.Requests.Memory == 0 && is.Requests.Memory != 0 {
			t.Fatalf("a request out of nothing: %s", is.Requests)
		}
		c := &chooser{Config: DefaultConfig(), in: in}
		least, most := c.allowed(u)
		within := func(v, author, least, most int64) bool { return v == author || v >= least && v <= most }
		if !within(is.Requests.MilliCPU, u.Requests.MilliCPU, least.MilliCPU, most.MilliCPU) || !within(is.Requests.Memory, u.Requests.Memory, least.Memory, most.Memory) {
			t.Fatalf("requests %s, allowed are %s to %s", is.Requests, least, most)
		}
		if u.Limits.MilliCPU > 0 && is.Limits.MilliCPU < is.Requests.MilliCPU || u.Limits.Memory > 0 && is.Limits.Memory < is.Requests.Memory {
			t.Fatalf("limits %s below requests %s", is.Limits, is.Requests)
		}
		if u.Limits == u.Requests && u.Requests.MilliCPU > 0 && u.Requests.Memory > 0 && is.Limits != is.Requests {
			t.Fatalf("Guaranteed became %s with limits %s", is.Requests, is.Limits)
		}
		if in.Sizing.Limits == api.LimitsKeep && u.Limits != u.Requests && (is.Limits.MilliCPU < u.Limits.MilliCPU || is.Limits.Memory < u.Limits.Memory) {
			t.Fatalf("limits of a Burstable pod, %s, became %s", u.Limits, is.Limits)
		}
		unproven := u.Until.Sub(u.Since) < 24*time.Hour || now.Sub(u.Until) > 15*time.Minute
		if unproven && (is.Requests.MilliCPU < u.Requests.MilliCPU || is.Requests.Memory < u.Requests.Memory) {
			t.Fatalf("lowered to %s on too little: %s", is.Requests, got.Reason)
		}
		if is.Limits.Memory < u.Limits.Memory && (is.Limits.Memory < u.MemoryTail || u.MemoryKnown < week) {
			t.Fatalf("a limit of %d became %d, usage may reach %d and is known for %s", u.Limits.Memory, is.Limits.Memory, u.MemoryTail, u.MemoryKnown)
		}
		// Nothing new is known: nothing new is chosen.
		again, _ := Planner{DefaultConfig()}.Plan(in, m)
		if again.Containers[0].Requests != is.Requests {
			t.Fatalf("chosen anew: %s, then %s", is.Requests, again.Containers[0].Requests)
		}
	})
}

// TestNewerDemandCountsMore: of two loads of two weeks each, the one of now decides more.
func TestNewerDemandCountsMore(t *testing.T) {
	chosen := func(before, after float64) int64 {
		in := input(known(nil))
		const step = 10 * time.Minute
		half := int(2 * week / step)
		values := slices.Repeat([]float64{before}, half)
		in.Demand = api.Series{Start: in.Time.Add(-4 * week), Step: step, Values: append(values, slices.Repeat([]float64{after}, half)...)}
		got, _ := plan(t, in, Memory{})
		return got.Containers[0].Requests.MilliCPU
	}
	if fell, rose := chosen(4000, 200), chosen(200, 4000); fell >= rose {
		t.Errorf("%dm where demand fell, %dm where it rose", fell, rose)
	}
}

// TestMemoryKeepsNoCPUWaiting: that memory was changed, or that usage was not known when
// mash2 began, is no reason to choose CPU requests later; having just saved some is.
func TestMemoryKeepsNoCPUWaiting(t *testing.T) {
	in := input(known(func(u *api.ContainerUse) { u.Since = now.Add(-23 * time.Hour) }))
	in.Demand = flat(200)
	first, m := plan(t, in, Memory{})
	if first.Containers[0].Requests != in.Sizing.Containers[0].Requests {
		t.Fatalf("requests %s on 23 hours", first.Containers[0].Requests)
	}
	in.Sizing.Containers[0].MemoryPeak = 1100 * mib
	_, m = plan(t, in, m)
	in.Time = now.Add(2 * time.Hour)
	in.Sizing.Containers[0].Until = in.Time
	got, m := plan(t, in, m)
	if got.Containers[0].Requests.MilliCPU != 250 {
		t.Errorf("requests %s, want 250m: %s", got.Containers[0].Requests, got.Reason)
	}
	in.Sizing.Containers[0].Least.MilliCPU = 50 // its author allows less
	in.Time = in.Time.Add(2 * time.Hour)
	in.Sizing.Containers[0].Until = in.Time
	got, m = plan(t, in, m)
	if got.Containers[0].Requests.MilliCPU != 250 || !strings.Contains(got.Reason, "would cost") {
		t.Errorf("requests %s two hours after a choice: %s", got.Containers[0].Requests, got.Reason)
	}
	in.Time = in.Time.Add(12 * time.Hour)
	in.Sizing.Containers[0].Until = in.Time
	if got, _ = plan(t, in, m); got.Containers[0].Requests.MilliCPU >= 250 {
		t.Errorf("requests %s fourteen hours after a choice: %s", got.Containers[0].Requests, got.Reason)
	}
}
