package vertical

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// says proposes by a function.
type says func(*View) float64

func (says) Name() string              { return "says" }
func (s says) Propose(v *View) float64 { return s(v) }

func pod(id string, limit int64, usage, priority float64) Pod {
	return Pod{ID: id, Limit: limit, Held: limit, Usage: usage, At: start, Priority: priority}
}

func envelope(budget int64) Envelope {
	return Envelope{Budget: budget, Floor: 50, Ceiling: 1000, Until: start.Add(time.Hour)}
}

func TestTick(t *testing.T) {
	threshold := DefaultThreshold()
	ask := func(limit float64) Planner { return says(func(*View) float64 { return limit }) }
	pending := pod("a", 200, 150, 1)
	pending.Held = 400
	waits := pod("a", 500, 150, 1)
	waits.Held = 200
	waitsAbove := waits
	waitsAbove.Floor = 300
	old := pod("a", 200, 10, 1)
	old.At = start.Add(-time.Minute)
	for name, c := range map[string]struct {
		planner  Planner
		envelope Envelope
		pods     []Pod
		want     []int64
		binding  Binding // of the first
		held     bool
		over     bool
	}{
		"the rule adds an increment above 60 %":            {threshold, envelope(1000), []Pod{pod("a", 100, 61, 1)}, []int64{125}, BoundNot, false, false},
		"and none at 60 %":                                 {threshold, envelope(1000), []Pod{pod("a", 100, 60, 1)}, []int64{100}, BoundNot, false, false},
		"it gives one back below 30 %":                     {threshold, envelope(1000), []Pod{pod("a", 100, 29, 1)}, []int64{75}, BoundNot, false, false},
		"but not below the floor":                          {threshold, envelope(1000), []Pod{pod("a", 60, 1, 1)}, []int64{50}, BoundFloor, false, false},
		"nor what the budget has not":                      {threshold, envelope(120), []Pod{pod("a", 100, 90, 1)}, []int64{100}, BoundNot, false, false},
		"a step is bounded upwards":                        {ask(1e9), envelope(2000), []Pod{pod("a", 100, 90, 1)}, []int64{250}, BoundStep, false, false},
		"and downwards":                                    {ask(-1e9), envelope(2000), []Pod{pod("a", 500, 90, 1)}, []int64{350}, BoundStep, false, false},
		"the ceiling holds":                                {ask(1e9), envelope(5000), []Pod{pod("a", 950, 90, 1)}, []int64{1000}, BoundCeiling, false, false},
		"not a number keeps the limit":                     {ask(math.NaN()), envelope(1000), []Pod{pod("a", 300, 1, 1)}, []int64{300}, BoundNaN, false, false},
		"infinity is a step":                               {ask(math.Inf(1)), envelope(1000), []Pod{pod("a", 300, 1, 1)}, []int64{450}, BoundStep, false, false},
		"a panic keeps the limit":                          {says(func(*View) float64 { panic("bad") }), envelope(1000), []Pod{pod("a", 300, 1, 1)}, []int64{300}, BoundPanic, false, false},
		"an old reading keeps the limit":                   {ask(0), envelope(1000), []Pod{old}, []int64{200}, BoundNoData, false, false},
		"a resize under way is waited for":                 {ask(0), envelope(1000), []Pod{pending}, []int64{200}, BoundResize, false, false},
		"a rise without room is needed":                    {ask(201), envelope(1000), []Pod{waits}, []int64{500}, BoundResize, false, false},
		"and taken back by who needs it no more":           {says(func(v *View) float64 { return float64(v.Limit) }), envelope(1000), []Pod{waits}, []int64{200}, BoundNot, false, false},
		"to what its node holds, and no further":           {ask(0), envelope(1000), []Pod{waits}, []int64{200}, BoundNot, false, false},
		"nor below a request that stays":                   {ask(0), envelope(1000), []Pod{waitsAbove}, []int64{300}, BoundNot, false, false},
		"nor by who doesn't know":                          {ask(math.NaN()), envelope(1000), []Pod{waits}, []int64{500}, BoundResize, false, false},
		"what the node still holds counts":                 {ask(1e9), envelope(620), []Pod{pod("b", 200, 10, 1), pending}, []int64{220, 200}, BoundBudget, false, false},
		"a budget that was cut is taken back at once":      {ask(1e9), envelope(300), []Pod{pod("a", 500, 10, 1), pod("b", 500, 10, 1)}, []int64{150, 150}, BoundBudget, false, false},
		"by priority":                                      {ask(1e9), envelope(300), []Pod{pod("a", 500, 10, 1), pod("b", 500, 10, 0.5)}, []int64{200, 100}, BoundBudget, false, false},
		"not below floors, which is said":                  {ask(1e9), envelope(70), []Pod{pod("a", 500, 10, 1), pod("b", 500, 10, 0.5)}, []int64{50, 50}, BoundBudget, false, true},
		"the important one waits for what the other gives": {ask(1e9), envelope(1000), []Pod{pod("a", 500, 10, 1), pod("b", 500, 10, 0.1)}, []int64{500, 350}, BoundBudget, false, false},
		"and takes it then":                                {ask(1e9), envelope(1000), []Pod{pod("a", 500, 10, 1), pod("b", 350, 10, 0.1)}, []int64{650, 350}, BoundStep, false, false},
		"a request that stays is a floor":                  {ask(0), envelope(900), []Pod{{ID: "a", Limit: 300, Held: 300, Floor: 200, Usage: 5, At: start, Priority: 1}}, []int64{200}, BoundFloor, false, false},
		"and not taken back":                               {ask(0), envelope(300), []Pod{{ID: "a", Limit: 300, Held: 300, Floor: 200, Usage: 5, At: start, Priority: 0.1}, pod("b", 300, 10, 1)}, []int64{200, 100}, BoundFloor, false, false},
		"an envelope that ended holds":                     {ask(1e9), Envelope{1000, 50, 1000, start}, []Pod{pod("a", 500, 10, 1)}, []int64{500}, BoundStale, true, false},
		"an envelope that allows nothing holds":            {ask(1e9), Envelope{0, 50, 1000, start.Add(time.Hour)}, []Pod{pod("a", 500, 10, 1)}, []int64{500}, BoundStale, true, false},
		"one without a reading is taken back last":         {ask(1e9), envelope(900), []Pod{old, pod("b", 500, 10, 1), pod("c", 200, 10, 1)}, []int64{200, 350, 200}, BoundNoData, false, false},
		"a pod below the floor is raised":                  {ask(0), envelope(900), []Pod{pod("a", 10, 5, 1)}, []int64{50}, BoundFloor, false, false},
		"a pod above the ceiling is lowered to it":         {ask(1e9), envelope(9000), []Pod{pod("a", 4000, 5, 1)}, []int64{1000}, BoundCeiling, false, false},
		"a priority that is none counts least, not NaN":    {ask(1e9), envelope(1000), []Pod{pod("a", 500, 10, math.NaN()), pod("b", 500, 10, 1)}, []int64{350, 500}, BoundBudget, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			out := m.Tick(DefaultConfig(), c.planner, Input{Time: start, Envelope: c.envelope, Pods: c.pods})
			var got []int64
			for _, d := range out.Decisions {
				got = append(got, d.To)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) || out.Decisions[0].Binding != c.binding || (out.Held != "") != c.held || out.OverBudget != c.over {
				t.Errorf("got %v by %s, held %q, over %v; want %v by %s", got, out.Decisions[0].Binding, out.Held, out.OverBudget, c.want, c.binding)
			}
		})
	}
}

// TestRate: a pod is written at most once in Every, and taken back at any time.
func TestRate(t *testing.T) {
	var m Memory
	c := DefaultConfig()
	c.Every = 3 * time.Second
	limit := int64(100)
	var writes []int
	for s := range 10 {
		now := start.Add(time.Duration(s) * time.Second)
		p := pod("a", limit, 95, 1)
		p.At = now
		e := envelope(1000)
		if s == 7 { // right after the write at 6
			e.Budget = 120
		}
		out := m.Tick(c, DefaultThreshold(), Input{Time: now, Envelope: e, Pods: []Pod{p}})
		if d := out.Decisions[0]; d.To != d.From {
			writes, limit = append(writes, s), d.To
		}
	}
	if fmt.Sprint(writes) != "[0 3 6 7]" || limit != 120 {
		t.Errorf("written at %v, limit %d", writes, limit)
	}
}

// TestWindow: what an agent sees, by MARLISE's definition, and that a new pod's window
// is filled with its first observation.
func TestWindow(t *testing.T) {
	var m Memory
	in := Input{Time: start, Envelope: envelope(1000), Pods: []Pod{pod("a", 200, 100, 1), pod("b", 400, 100, 0.5), pod("c", 100, 75, 0.3)}}
	m.Tick(DefaultConfig(), Fixed{}, in)
	want := []float32{0.2, 0.1, 0.3, 0.5, 0.5, 1, 0.4} // others: (25 % + 75 %)/2; (0.5 + 0.3)/2
	got := m.Observation("a")
	if len(got) != Inputs {
		t.Fatalf("%d numbers", len(got))
	}
	for i, v := range got {
		if math.Abs(float64(v-want[i%Features])) > 1e-6 {
			t.Errorf("number %d is %g, want %g", i, v, want[i%Features])
		}
	}
	in.Pods[0].Usage = 150
	m.Tick(DefaultConfig(), Fixed{}, in)
	got = m.Observation("a")
	if old, now := got[Inputs-2*Features+ofUtilisation], got[Inputs-Features+ofUtilisation]; old != 0.5 || now != 0.75 {
		t.Errorf("utilisation %g, then %g", old, now)
	}
	in.Pods = in.Pods[1:]
	m.Tick(DefaultConfig(), Fixed{}, in)
	if m.Observation("a") != nil {
		t.Error("a pod that left is remembered")
	}
}

// TestOneDecisionAReading: an agent is not asked twice about the same sample, which a
// slow source repeats.
func TestOneDecisionAReading(t *testing.T) {
	var m Memory
	asked := 0
	p := says(func(v *View) float64 { asked++; return float64(v.Limit) })
	in := Input{Time: start, Envelope: envelope(1000), Pods: []Pod{pod("a", 100, 90, 1)}}
	m.Tick(DefaultConfig(), p, in)
	in.Time = start.Add(2 * time.Second)
	if d := m.Tick(DefaultConfig(), p, in).Decisions[0]; d.Binding != BoundDecided || asked != 1 {
		t.Errorf("%+v, asked %d times", d, asked)
	}
	in.Pods[0].At = in.Time
	if m.Tick(DefaultConfig(), p, in); asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// minds are the planners that must not do harm, by name.
func minds(rng *rand.Rand) map[string]Planner {
	up := false
	return map[string]Planner{
		"always 0":        says(func(*View) float64 { return 0 }),
		"always the most": says(func(*View) float64 { return math.MaxFloat64 }),
		"oscillating": says(func(v *View) float64 {
			if up = !up; up {
				return float64(v.Limit + 1000)
			}
			return float64(v.Limit - 1000)
		}),
		"random":       says(func(v *View) float64 { return (rng.Float64()*3 - 1) * float64(v.Budget) }),
		"not a number": says(func(*View) float64 { return math.NaN() }),
		"hostile":      hostile{},
		"trained":      harmful(),
		"panicking":    says(func(*View) float64 { panic("hostile") }),
	}
}

// hostile gives to those who need nothing and takes from those who need it.
type hostile struct{}

func (hostile) Name() string { return "hostile" }

func (hostile) Propose(v *View) float64 {
	if v.Utilisation() < 0.3 {
		return float64(v.Limit) * 1e6
	}
	return -math.MaxFloat64
}

// TestGuard plays episodes in which pods come and go, readings and resizes are late, and
// the budget is cut and raised, with planners that would do harm. What they wanted never
// matters to the bounds.
func TestGuard(t *testing.T) {
	const episodes, ticks = 10_000, 12
	for name := range minds(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(7, uint64(len(name))))
			planner := minds(rng)[name]
			for episode := range episodes {
				if why := play(rng, planner, ticks); why != "" {
					t.Fatalf("episode %d: %s", episode, why)
				}
			}
		})
	}
}

// play an episode, and say what was violated.
func play(rng *rand.Rand, planner Planner, ticks int) string {
	var m Memory
	c := Config{Step: 1 + rng.Int64N(200), Deadband: rng.Int64N(4), Every: time.Duration(rng.IntN(3)) * time.Second, Stale: 2 * time.Second}
	e := Envelope{Floor: 20 + rng.Int64N(40), Ceiling: 200 + rng.Int64N(800), Until: start.Add(time.Hour)}
	n := 0
	join := func(limit int64) Pod {
		n++
		return Pod{ID: fmt.Sprint(n), Limit: limit, Held: limit, Priority: rng.Float64()}
	}
	var pods []Pod
	var sum int64
	for range 1 + rng.IntN(5) {
		p := join(e.Floor + rng.Int64N(e.Ceiling-e.Floor+1))
		pods, sum = append(pods, p), sum+p.Limit
	}
	e.Budget = sum + rng.Int64N(500)
	written := map[string]time.Time{}
	for s := range ticks {
		now := start.Add(time.Duration(s) * time.Second)
		switch rng.IntN(8) {
		case 0:
			e.Budget = max(1, e.Budget/2)
		case 1:
			e.Budget += rng.Int64N(1000)
		case 2:
			pods = append(pods, join(e.Floor))
		case 3:
			if len(pods) > 1 {
				i := rng.IntN(len(pods))
				pods = append(pods[:i], pods[i+1:]...)
			}
		}
		var held int64
		for i := range pods {
			p := &pods[i]
			if rng.IntN(4) > 0 {
				p.Usage, p.At = rng.Float64()*1.2*float64(p.Limit), now
			}
			if rng.IntN(3) > 0 {
				p.Held = p.Limit
			}
			held += max(p.Limit, p.Held)
		}
		out := m.Tick(c, planner, Input{Time: now, Envelope: e, Pods: pods})
		var total, wanted, floors int64
		for i, d := range out.Decisions {
			p := &pods[i]
			total, wanted, floors = total+max(d.To, p.Held), wanted+d.To, floors+e.Floor
			forced := held > e.Budget // the budget is below what there is: somebody must give
			switch {
			case d.ID != p.ID || d.From != p.Limit:
				return fmt.Sprintf("tick %d: decision %+v of pod %+v", s, d, *p)
			case d.To < e.Floor || d.To > max(e.Ceiling, p.Limit):
				return fmt.Sprintf("tick %d: %+v, floor %d, ceiling %d", s, d, e.Floor, e.Ceiling)
			case !forced && (d.To > d.From+c.Step || d.To < d.From-c.Step):
				return fmt.Sprintf("tick %d: %+v, step %d", s, d, c.Step)
			case d.To > d.From+c.Step:
				return fmt.Sprintf("tick %d: %+v, step %d, upwards", s, d, c.Step)
			case d.To > d.From && p.At.Before(now.Add(-c.Stale)):
				return fmt.Sprintf("tick %d: %+v without a reading", s, d)
			case !forced && d.To < d.From && p.At.Before(now.Add(-c.Stale)):
				return fmt.Sprintf("tick %d: %+v down without a reading", s, d)
			}
			if d.To != d.From {
				if last, ok := written[d.ID]; ok && !forced && now.Sub(last) < c.Every {
					return fmt.Sprintf("tick %d: %+v, %v after the last write", s, d, now.Sub(last))
				}
				written[d.ID] = now
				p.Limit = d.To
			}
		}
		if wanted > max(e.Budget, floors) {
			return fmt.Sprintf("tick %d: limits of %d, budget %d, floors %d", s, wanted, e.Budget, floors)
		}
		if total > max(e.Budget, held) {
			return fmt.Sprintf("tick %d: %d held of a budget of %d, %d before", s, total, e.Budget, held)
		}
		if out.OverBudget != (floors > e.Budget) {
			return fmt.Sprintf("tick %d: over %v, floors %d, budget %d", s, out.OverBudget, floors, e.Budget)
		}
	}
	return ""
}

// TestGuardSees: the checks above find a loop without bounds.
func TestGuardSees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	c := DefaultConfig()
	for name, p := range minds(rng) {
		if name == "not a number" || name == "panicking" || name == "trained" {
			continue
		}
		var bad bool
		for range 100 {
			limit := 50 + rng.Int64N(500)
			v := View{Limit: limit, Usage: rng.Float64() * float64(limit), Budget: 1000, Floor: 50, Window: make([]float32, Inputs)}
			if to := p.Propose(&v); to < 50 || to > float64(limit+c.Step) {
				bad = true
			}
		}
		if !bad {
			t.Errorf("%s proposes nothing that is bad", name)
		}
	}
}

// BenchmarkTick is the whole tick of so many agents, by the rule.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{10, 100, 200} {
		b.Run(fmt.Sprintf("rule/%d", n), func(b *testing.B) { tick(b, n, DefaultThreshold()) })
		b.Run(fmt.Sprintf("network/%d", n), func(b *testing.B) { tick(b, n, network(b, Changes)) })
	}
}

func tick(b *testing.B, n int, p Planner) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := Input{Time: start, Envelope: envelope(int64(n) * 200)}
	for i := range n {
		in.Pods = append(in.Pods, pod(fmt.Sprint(i), 200, 200*rng.Float64(), 1-0.9*rng.Float64()))
	}
	var m Memory
	b.ReportAllocs()
	for b.Loop() {
		in.Time = in.Time.Add(time.Second)
		for i := range in.Pods {
			in.Pods[i].At = in.Time
		}
		in.Envelope.Until = in.Time.Add(time.Minute)
		m.Tick(DefaultConfig(), p, in)
	}
}
