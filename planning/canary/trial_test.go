package canary

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// member of so much CPU, with an objective in percent and so many events in each of the
// newest minutes.
func member(name string, requested, objective float64) Member {
	return Member{
		Key: api.Key{Namespace: "shop", Name: name}, Joined: true, Requested: requested, Replicas: 4,
		Objectives: []Objective{{Target: objective}},
	}
}

// TestMatched: like goes with like, by objective, size and course of demand; only who can
// be acted for is a canary.
func TestMatched(t *testing.T) {
	with := func(m Member, do func(*Member)) Member { do(&m); return m }
	bar := func(m *Member) { m.Bar = "an HPA scales it" }
	control := func(m *Member) { m.Joined = false }
	wave := func(phase float64) func(*Member) {
		return func(m *Member) {
			m.Demand = api.Series{Start: start, Step: time.Minute}
			for i := range 200 {
				m.Demand.Values = append(m.Demand.Values, 100+50*math.Sin(float64(i)/20+phase))
			}
		}
	}
	for name, c := range map[string]struct {
		members []Member
		most    int
		want    []string // canary and control, ? where a coin decides
	}{
		"the sizes decide":                    {[]Member{member("a", 1000, 0.999), member("b", 5000, 0.999), member("c", 1100, 0.999)}, 1, []string{"a?c"}},
		"the objective":                       {[]Member{member("a", 1000, 0.999), member("b", 1000, 0.99), member("c", 1500, 0.999)}, 1, []string{"a?c"}},
		"the course of demand":                {[]Member{with(member("a", 1000, 0.999), wave(0)), with(member("b", 1010, 0.999), wave(3)), with(member("c", 1100, 0.999), wave(0.1))}, 1, []string{"a?c"}},
		"who can't be acted for is a control": {[]Member{with(member("a", 1000, 0.999), bar), member("b", 1000, 0.999)}, 1, []string{"b>a"}},
		"so is who is in Shadow":              {[]Member{member("a", 1000, 0.999), with(member("b", 1000, 0.999), control)}, 1, []string{"a>b"}},
		"none can be acted for":               {[]Member{with(member("a", 1000, 0.999), bar), with(member("b", 1000, 0.999), control)}, 1, nil},
		"too unlike in size":                  {[]Member{member("a", 1000, 0.999), member("b", 10_001, 0.999)}, 1, nil},
		"too unlike in objective":             {[]Member{member("a", 1000, 0.999), member("b", 1000, 0.98)}, 1, nil},
		"no objective":                        {[]Member{member("a", 1000, 0.999), with(member("b", 1000, 0.999), func(m *Member) { m.Objectives = nil })}, 1, nil},
		"alone":                               {[]Member{member("a", 1000, 0.999)}, 1, nil},
		"two pairs":                           {[]Member{member("a", 1000, 0.999), member("b", 3000, 0.999), member("c", 1000, 0.999), member("d", 3100, 0.999)}, 2, []string{"a?c", "b?d"}},
		"one pair at most":                    {[]Member{member("a", 1000, 0.999), member("b", 3000, 0.999), member("c", 1000, 0.999), member("d", 3100, 0.999)}, 1, []string{"a?c"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range matched(c.members, c.most, "seed") {
				a, b := p.Canary.Key.Name, p.Control.Key.Name
				if len(got) < len(c.want) && strings.Contains(c.want[len(got)], "?") {
					got = append(got, min(a, b)+"?"+max(a, b))
				} else {
					got = append(got, a+">"+b)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestCoin: of all names it falls either way as often.
func TestCoin(t *testing.T) {
	heads := 0
	const tosses = 4000
	for i := range tosses {
		if coin(fmt.Sprint(i%7), api.Key{Namespace: "shop", Name: fmt.Sprint("a", i)}, api.Key{Namespace: "shop", Name: fmt.Sprint("b", i)}) {
			heads++
		}
	}
	if d := math.Abs(float64(heads) - tosses/2); d > 4*math.Sqrt(tosses)/2 { // four standard deviations
		t.Errorf("%d heads of %d", heads, tosses)
	}
}

// TestShare: what a member's readings come to.
func TestShare(t *testing.T) {
	at := func(minute int, total, bad float64) Reading {
		return Reading{At: start.Add(time.Duration(minute) * time.Minute), Window: time.Minute, Total: total, Bad: bad}
	}
	for name, c := range map[string]struct {
		objectives []Objective
		want       float64 // negative if not known
	}{
		"of two":                         {[]Objective{{0.999, []Reading{at(1, 1000, 1), at(2, 1000, 0)}}}, 0.5 / 14.4},
		"the window of before is not in": {[]Objective{{0.999, []Reading{at(0, 1000, 1000), at(1, 1000, 1)}}}, 1 / 14.4},
		"no more than everything":        {[]Objective{{0.999, []Reading{at(1, 1000, 500)}}}, 1},
		"the worst of two":               {[]Objective{{0.999, []Reading{at(1, 1000, 1)}}, {0.99, []Reading{at(1, 1000, 20)}}}, 2 / 14.4},
		"one of two is not known":        {[]Objective{{0.999, []Reading{at(1, 1000, 1)}}, {0.99, nil}}, -1},
		"few":                            {[]Objective{{0.999, []Reading{at(1, 69, 0)}}}, -1}, // 1/69 is 14.5 budgets
		"enough":                         {[]Objective{{0.999, []Reading{at(1, 70, 0)}}}, 0},
		"not a number":                   {[]Objective{{0.999, []Reading{at(1, math.NaN(), 0)}}}, -1},
		"bad is not a number":            {[]Objective{{0.999, []Reading{at(1, 1000, math.NaN())}}}, -1},
		"more bad than all":              {[]Objective{{0.999, []Reading{at(1, 1000, 2000)}}}, 1},
		"less than none":                 {[]Objective{{0.999, []Reading{at(1, 1000, -5)}}}, 0},
		"an objective that says nothing": {[]Objective{{1, []Reading{at(1, 1000, 5)}}}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			of, ok := Member{Objectives: c.objectives}.burnt(start)
			got := of.share()
			if !ok {
				got = -1
			}
			if math.Abs(got-c.want) > 1e-9 {
				t.Errorf("%g, want %g", got, c.want)
			}
		})
	}
}

// TestThinIsGathered: events that are too few for a minute are enough in ten.
func TestThinIsGathered(t *testing.T) {
	f := newFleet(1, 2, 12, 15, 0)
	rules := Rules{Block: time.Minute, CanaryPolicy: api.CanaryPolicy{Share: 0.5, Baseline: 5 * time.Hour}}
	var trial Trial
	for n := range 5 * 60 {
		now, members := f.minute(n, func(api.Key) float64 { return 0 })
		trial = trial.Step(now, members, rules)
	}
	if n := trial.Pairs[0].Base.N; n < 20 || n > 60 {
		t.Errorf("%d blocks with evidence in 5 hours", n)
	}
}

// TestPersons: what people do to workloads in the midst of a trial.
func TestPersons(t *testing.T) {
	for name, c := range map[string]struct {
		change func(Trial, *Member)
		want   api.CanaryPhase
	}{
		"the canary is taken out":       {func(t Trial, m *Member) { m.Joined = m.Key != t.Pairs[0].Canary.Key }, api.CanaryBaseline},
		"an HPA for the canary":         {func(t Trial, m *Member) { m.Bar = map[bool]string{true: "an HPA"}[m.Key == t.Pairs[0].Canary.Key] }, api.CanaryBaseline},
		"the control's target is gone":  {func(t Trial, m *Member) { m.Gone = map[bool]string{true: "gone"}[m.Key == t.Pairs[0].Control.Key] }, api.CanaryBaseline},
		"all are gone":                  {func(_ Trial, m *Member) { m.Gone = "gone" }, api.CanaryWaiting},
		"an HPA for the control":        {func(t Trial, m *Member) { m.Bar = map[bool]string{true: "an HPA"}[m.Key == t.Pairs[0].Control.Key] }, api.CanaryRunning},
		"a person starts anew":          {func(t Trial, m *Member) { m.Restarted = t.Since.Add(time.Second) }, api.CanaryBaseline},
		"a person did so before":        {func(t Trial, m *Member) { m.Restarted = t.Since.Add(-time.Second) }, api.CanaryRunning},
		"a person's clock is far ahead": {func(t Trial, m *Member) { m.Restarted = t.Since.Add(1000 * time.Hour) }, api.CanaryRunning},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(1, 4, 2000, 2000, 0)
			rules := Rules{Block: time.Minute, CanaryPolicy: api.CanaryPolicy{Share: 0.25, Baseline: 10 * time.Minute}}
			var trial Trial
			n := 0
			step := func() {
				now, members := f.minute(n, func(api.Key) float64 { return 0 })
				trial = trial.Step(now, members, rules)
				n++
			}
			for trial.Phase != api.CanaryRunning {
				if step(); n > 60 {
					t.Fatalf("%+v", trial)
				}
			}
			step()
			of := trial
			for i := range f.members {
				c.change(of, &f.members[i])
			}
			step()
			if trial.Phase != c.want {
				t.Errorf("%s: %s", trial.Phase, trial.Why)
			}
		})
	}
}

// TestStepLeavesTheTrial: the trial of before is as it was, whatever comes of it.
func TestStepLeavesTheTrial(t *testing.T) {
	f := newFleet(2, 4, 2000, 2000, 0)
	rules := Rules{Block: time.Minute, CanaryPolicy: api.CanaryPolicy{Share: 0.5, Baseline: 10 * time.Minute}}
	var trial Trial
	for n := range 60 {
		now, members := f.minute(n, func(api.Key) float64 { return 0 })
		before := fmt.Sprintf("%+v", trial)
		next := trial.Step(now, members, rules)
		if again := trial.Step(now, members, rules); fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", next) {
			t.Fatal("the same cycle comes out differently")
		}
		if after := fmt.Sprintf("%+v", trial); after != before {
			t.Fatalf("%s\nwas\n%s", after, before)
		}
		trial = next
	}
	if trial.Phase != api.CanaryRunning {
		t.Errorf("%+v", trial)
	}
}

// TestDear: canaries that request far more than their controls for the same demand are not
// promoted, however good their requests are.
func TestDear(t *testing.T) {
	for _, c := range []struct {
		more float64
		want api.CanaryPhase
	}{{1.2, api.CanaryPromoted}, {1.4, api.CanaryRunning}} {
		f := newFleet(3, 2, 20000, 20000, 0)
		rules := Rules{Block: time.Minute, CanaryPolicy: api.CanaryPolicy{Share: 0.5, Baseline: time.Hour, Soak: 6 * time.Hour}}
		var trial Trial
		for n := range 8 * 60 {
			for i := range f.members {
				f.cost[i] = 1.5
				if trial.Phase == api.CanaryRunning && isCanary(trial, f.members[i].Key) {
					f.cost[i] *= c.more
				}
			}
			now, members := f.minute(n, func(api.Key) float64 { return 0 })
			trial = trial.Step(now, members, rules)
		}
		if trial.Phase != c.want || c.want == api.CanaryRunning && !strings.Contains(trial.Why, "40 % more") {
			t.Errorf("%g times as dear: %s: %s", c.more, trial.Phase, trial.Why)
		}
	}
}

// TestHeld: who has passed as far as the test knows, and is not promoted all the same. Of 10,000
// events a minute 10 are bad, a tenth of the error budget; canaries have others while they run.
func TestHeld(t *testing.T) {
	const end = 60 + 24*60 // minutes of the baseline and of the soak
	for name, c := range map[string]struct {
		canary func(pair, minute int) (total, bad float64) // a negative total for no reading
		margin func(minute int) float64                    // worseBy; nil for its default
		clock  func(minute int) time.Duration              // by how much it is wrong; nil for not
		want   api.CanaryPhase
		says   string
	}{
		"nothing is amiss": {
			canary: func(_, _ int) (float64, float64) { return 1e4, 10 }, want: api.CanaryPromoted,
		},
		"two of three have no readings": {
			canary: func(pair, _ int) (float64, float64) { return map[bool]float64{true: 1e4, false: -1}[pair == 0], 10 },
			want:   api.CanaryRunning, says: "too little is known of the SLOs of",
		},
		"no events in 20 minutes of an hour": {
			canary: func(_, minute int) (float64, float64) {
				if minute%60 < 20 {
					return 0, 0
				}
				return 1e4, 10
			}, want: api.CanaryRunning, says: "had no events for 8h",
		},
		"none in the last minutes": {
			canary: func(_, minute int) (float64, float64) {
				if minute > end-5 {
					return 0, 0
				}
				return 1e4, 10
			}, want: api.CanaryRunning, says: "had no events for",
		},
		"none for some minutes": {
			canary: func(_, minute int) (float64, float64) {
				if minute > end-10 && minute < end-5 {
					return 0, 0
				}
				return 1e4, 10
			}, want: api.CanaryPromoted,
		},
		"all bad in one minute of 60": {
			canary: func(_, minute int) (float64, float64) {
				return 1e4, map[bool]float64{true: 1e4, false: 10}[minute%60 == 0]
			}, want: api.CanaryRunning, says: "of all events 1.6",
		},
		"60 % bad in one minute of 90": {
			canary: func(_, minute int) (float64, float64) {
				return 1e4, map[bool]float64{true: 6e3, false: 10}[minute%90 == 0]
			}, want: api.CanaryRunning, says: "most of it in few minutes, and 0.5 are allowed",
		},
		"20 % bad in one minute of 90": {
			canary: func(_, minute int) (float64, float64) {
				return 1e4, map[bool]float64{true: 2e3, false: 10}[minute%90 == 0]
			}, want: api.CanaryPromoted,
		},
		"proven with another margin": {
			canary: func(_, _ int) (float64, float64) { return 1e4, 10 + 300 },
			margin: func(minute int) float64 { return map[bool]float64{true: 5, false: 0.5}[minute < end-2] },
			want:   api.CanaryStopped, says: "by more than the 0.5 error budgets that are allowed",
		},
		"with the same one again": {
			canary: func(_, _ int) (float64, float64) { return 1e4, 10 },
			margin: func(minute int) float64 { return map[bool]float64{true: 5, false: 0.5}[minute < 120] },
			want:   api.CanaryPromoted,
		},
		"bad since a clock was a day ahead": {
			canary: func(_, minute int) (float64, float64) {
				return 1e4, map[bool]float64{true: 5e3, false: 10}[minute > 120]
			},
			clock: func(minute int) time.Duration { return map[bool]time.Duration{true: 24 * time.Hour}[minute == 120] },
			want:  api.CanaryStopped,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var members []Member
			for i := range 6 {
				members = append(members, member(string(rune('a'+i)), 1000, 0.99))
			}
			var trial Trial
			for minute := 0; minute < end+90 && trial.Phase != api.CanaryPromoted && trial.Phase != api.CanaryStopped; minute++ {
				now := start.Add(time.Duration(minute) * time.Minute)
				for i := range members {
					m := &members[i]
					total, bad := 1e4, 10.0
					pair := slices.IndexFunc(trial.Pairs, func(p Pair) bool { return p.Canary.Key == m.Key })
					if trial.Phase == api.CanaryRunning && pair >= 0 {
						total, bad = c.canary(pair, minute)
					}
					readings := slices.Clone(m.Objectives[0].Readings)
					if total >= 0 {
						readings = append(readings[max(0, len(readings)-40):], Reading{now, time.Minute, total, bad})
					}
					m.Objectives = []Objective{{Target: 0.99, Readings: readings}}
					m.Demand = api.Series{Start: now, Step: time.Minute, Values: []float64{700}}
				}
				rules := Rules{Block: time.Minute, CanaryPolicy: api.CanaryPolicy{Share: 0.5}}
				if c.margin != nil {
					rules.WorseBy = c.margin(minute)
				}
				if c.clock != nil {
					now = now.Add(c.clock(minute))
				}
				trial = trial.Step(now, members, rules)
			}
			if trial.Phase != c.want || !strings.Contains(trial.Why, c.says) {
				t.Errorf("%s: %s", trial.Phase, trial.Why)
			}
		})
	}
}

// TestCorrelation against its definition and its limits.
func TestCorrelation(t *testing.T) {
	src := rand.New(rand.NewPCG(1, 1))
	a := api.Series{Start: start, Step: time.Minute}
	for range 100 {
		a.Values = append(a.Values, src.Float64())
	}
	b := api.Series{Start: start.Add(10 * time.Minute), Step: time.Minute}
	for _, x := range a.Values[10:] {
		b.Values = append(b.Values, 3-2*x)
	}
	b.Values[5] = math.NaN()
	if got := correlation(a, b); math.Abs(got+1) > 1e-9 {
		t.Errorf("%g of what is opposite", got)
	}
	if got := correlation(a, a); math.Abs(got-1) > 1e-9 {
		t.Errorf("%g of itself", got)
	}
	a.Values = a.Values[:alike-1]
	if got := correlation(a, a); got != 0 {
		t.Errorf("%g of too little", got)
	}
}
