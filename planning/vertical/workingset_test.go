package vertical

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// watched decides for one pod by its working set of each second, MiB; NaN is no reading.
func watched(w *WorkingSets, c MemoryConfig, e Envelope, p Pod, used ...float64) Output {
	var out Output
	for i, u := range used {
		at := start.Add(time.Duration(i) * time.Second)
		p.Usage, p.At = u*MiB, at
		if math.IsNaN(u) {
			p.Usage, p.At = 0, time.Time{}
		}
		out = w.Decide(c, Input{Time: at, Envelope: e, Pods: []Pod{p}})
	}
	return out
}

func constant(n int, v float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestMemoryLimits(t *testing.T) {
	c := DefaultMemoryConfig()
	c.Window = 10 * time.Second
	nan := math.NaN()
	killed := func(ago time.Duration) Pod {
		return Pod{ID: "a", Limit: 100 * MiB, Held: 100 * MiB, Priority: 1, Killed: start.Add(-ago)}
	}
	pending := func(limit, held int64) Pod { return Pod{ID: "a", Limit: limit * MiB, Held: held * MiB, Priority: 1} }
	files := func(limit int64, cached float64) Pod {
		return Pod{ID: "a", Limit: limit * MiB, Held: limit * MiB, Priority: 1, Files: cached * MiB}
	}
	for name, x := range map[string]struct {
		pod     Pod
		used    []float64 // MiB by second
		ceiling int64     // MiB
		want    int64     // MiB
		binding Binding
	}{
		"a pod with headroom stays":                        {pending(100, 100), constant(20, 80), 0, 100, BoundNot},
		"one that has lost more than half of it is raised": {pending(100, 100), constant(1, 92), 0, 115, BoundNot},
		"at once, also before it was watched for long":     {pending(100, 100), []float64{92}, 0, 115, BoundNot},
		"twice what it rose by, where that is more":        {pending(100, 100), []float64{10, 60}, 0, 160, BoundNot},
		"no lower before a window":                         {pending(1000, 1000), constant(10, 80), 0, 1000, BoundNot},
		"lower after it":                                   {pending(1000, 1000), constant(11, 80), 0, 100, BoundNot},
		"to what its peak needs":                           {pending(1000, 1000), append([]float64{80, 160}, constant(9, 80)...), 0, 320, BoundNot},
		"a gap begins the window anew":                     {pending(1000, 1000), append(append(constant(11, 80)[:9:9], constant(12, nan)...), constant(5, 80)...), 0, 1000, BoundNot},
		"not for a tenth":                                  {pending(105, 105), constant(11, 80), 0, 105, BoundNot},
		"no reading, no change":                            {pending(1000, 1000), append(constant(11, 100)[:0:0], constant(20, nan)...), 0, 1000, BoundNoData},
		"a request that stays is a floor":                  {Pod{ID: "a", Limit: 1000 * MiB, Held: 1000 * MiB, Floor: 400 * MiB}, constant(11, 80), 0, 400, BoundNot},
		"the ceiling holds":                                {pending(100, 100), constant(1, 99), 110, 110, BoundCeiling},
		"the ceiling takes nothing that is used":           {pending(200, 200), constant(11, 150), 100, 188, BoundCeiling},
		"a fall under way goes no further":                 {pending(100, 200), constant(11, 10), 0, 100, BoundResize},
		"and is taken back where it must":                  {pending(100, 200), constant(1, 95), 0, 119, BoundNot},
		"a kill before it was watched keeps what there is": {killed(time.Hour), constant(11, 10), 0, 100, BoundKilled},
		"until a day later":                                {killed(25 * time.Hour), constant(11, 10), 0, 13, BoundNot},
		"files are no reason for more":                     {files(100, 60), constant(1, 99), 0, 100, BoundNot},
		"what there is beside them is":                     {files(100, 5), constant(1, 99), 0, 118, BoundNot},
		"less is given where they have room, too":          {files(1000, 70), constant(11, 80), 0, 100, BoundNot},
		"and not where they have none":                     {files(1000, 900), constant(11, 990), 0, 1000, BoundNot},
		"bytes that are none are no reading":               {pending(100, 100), constant(3, math.Inf(1)), 0, 100, BoundNoData},
	} {
		t.Run(name, func(t *testing.T) {
			var w WorkingSets
			e := Envelope{Budget: 4096 * MiB, Floor: MiB, Ceiling: 4096 * MiB, Until: start.Add(time.Hour)}
			if x.ceiling > 0 {
				e.Ceiling = x.ceiling * MiB
			}
			d := watched(&w, c, e, x.pod, x.used...).Decisions[0]
			if d.To != x.want*MiB || d.Binding != x.binding {
				t.Errorf("%.2f MiB by %s, want %d by %s", float64(d.To)/MiB, d.Binding, x.want, x.binding)
			}
		})
	}
}

// TestFilledMemory: a pod that reads files, of which the kernel keeps as many as its limit lets it, takes
// nothing from one that grows.
func TestFilledMemory(t *testing.T) {
	c := DefaultMemoryConfig()
	e := Envelope{Budget: 300 * MiB, Floor: MiB, Ceiling: 4096 * MiB, Until: start.Add(time.Hour)}
	var w WorkingSets
	limits, grown := [2]int64{100 * MiB, 100 * MiB}, 40.0
	for second := range 600 {
		now := start.Add(time.Duration(second) * time.Second)
		if second > 300 {
			grown = min(150, grown+1)
		}
		if grown*MiB > float64(limits[1]) {
			t.Fatalf("after %d s one holds %.0f MiB with a limit of %d, the one that reads files has %d", second, grown, limits[1]/MiB, limits[0]/MiB)
		}
		out := w.Decide(c, Input{Time: now, Envelope: e, Pods: []Pod{
			{ID: "reads", Limit: limits[0], Held: limits[0], Usage: float64(limits[0]), Files: float64(limits[0]) - 20*MiB, At: now, Priority: 1},
			{ID: "grows", Limit: limits[1], Held: limits[1], Usage: grown * MiB, At: now, Priority: 1},
		}})
		limits = [2]int64{out.Decisions[0].To, out.Decisions[1].To}
	}
}

// TestStuckMemory: a limit that the node does not lower, as the kernel keeps files for the pod, goes
// back to what the node gives, and stays for as long as a kill is remembered, whoever lacks memory.
func TestStuckMemory(t *testing.T) {
	c := DefaultMemoryConfig()
	c.Window = 10 * time.Second
	e := Envelope{Budget: 300 * MiB, Floor: MiB, Ceiling: 4096 * MiB, Until: start.Add(48 * time.Hour)}
	var w WorkingSets
	decide := func(after time.Duration, a Pod, other float64) Output {
		a.ID, a.Usage, a.At, a.Priority = "a", 10*MiB, start.Add(after), 1
		b := Pod{ID: "b", Limit: 100 * MiB, Held: 100 * MiB, Usage: other * MiB, At: a.At, Priority: 1}
		return w.Decide(c, Input{Time: a.At, Envelope: e, Pods: []Pod{a, b}})
	}
	if out := decide(0, Pod{Limit: 50 * MiB, Held: 200 * MiB, Stuck: true}, 50); out.Decisions[0].To != 200*MiB || out.Decisions[0].Binding != BoundStuck || out.OverBudget {
		t.Fatalf("decided %+v", out)
	}
	for second := range 100 {
		after := time.Duration(second+1) * time.Second
		if out := decide(after, Pod{Limit: 200 * MiB, Held: 200 * MiB}, 99); out.Decisions[0].To != 200*MiB || out.Decisions[1].To != 100*MiB || out.OverBudget {
			t.Fatalf("after %s decided %+v", after, out)
		}
	}
	for second := range 100 {
		after := 24*time.Hour + time.Duration(second)*time.Second
		if out := decide(after, Pod{Limit: 200 * MiB, Held: 200 * MiB}, 50); out.Decisions[0].To < 200*MiB {
			return
		}
	}
	t.Error("it never falls again")
}

// TestMemoryIsShared: by priority, from what others do not use, and never from what they do.
func TestMemoryIsShared(t *testing.T) {
	c := DefaultMemoryConfig()
	c.Window = 2 * time.Second
	full := func(id string, limit int64, used, priority float64) Pod {
		return Pod{ID: id, Limit: limit * MiB, Held: limit * MiB, Usage: used * MiB, Priority: priority}
	}
	for name, x := range map[string]struct {
		budget int64
		pods   []Pod
		want   string // after each second
		over   bool
	}{
		"one gives, then the other takes":                   {400, []Pod{full("a", 200, 20, 1), full("b", 200, 195, 1)}, "[200 200] [200 200] [25 200] [25 244] [25 244]", false},
		"two that need more share what is":                  {500, []Pod{full("a", 200, 195, 1), full("b", 200, 195, 1)}, "[244 244] [244 244] [244 244] [244 244] [244 244]", false},
		"by priority where it is too little":                {450, []Pod{full("a", 200, 195, 1), full("b", 200, 195, 0.1)}, "[244 206] [244 206] [244 206] [244 206] [244 206]", false},
		"a smaller budget takes no headroom, which is said": {300, []Pod{full("a", 250, 200, 1), full("b", 250, 200, 1)}, "[250 250] [250 250] [250 250] [250 250] [250 250]", true},
	} {
		t.Run(name, func(t *testing.T) {
			var w WorkingSets
			e := Envelope{Budget: x.budget * MiB, Floor: MiB, Ceiling: 4096 * MiB, Until: start.Add(time.Hour)}
			got := ""
			var out Output
			for s := range 5 {
				now := start.Add(time.Duration(s) * time.Second)
				for i := range x.pods {
					x.pods[i].At = now
				}
				out = w.Decide(c, Input{Time: now, Envelope: e, Pods: x.pods})
				var limits []int64
				for i, d := range out.Decisions {
					x.pods[i].Limit, x.pods[i].Held = d.To, d.To
					limits = append(limits, d.To/MiB)
				}
				got += fmt.Sprint(limits) + " "
			}
			if got != x.want+" " || out.OverBudget != x.over {
				t.Errorf("%s, over %v\nwant %s", got, out.OverBudget, x.want)
			}
		})
	}
}

// TestPressed: who lacks memory comes before who had use for it a while ago, whatever the
// weights say; the rest stays with who has it.
func TestPressed(t *testing.T) {
	var w WorkingSets
	c := DefaultMemoryConfig()
	c.Pressed = time.Second
	pods := []Pod{{ID: "a", Limit: 150 * MiB, Priority: 1}, {ID: "b", Limit: 100 * MiB, Priority: 0.1}, {ID: "c", Limit: 50 * MiB, Priority: 1}}
	used := []float64{10, 95, 40}
	e := Envelope{Budget: 300 * MiB, Floor: MiB, Ceiling: 300 * MiB, Until: start.Add(time.Hour)}
	got := ""
	for s := range 4 {
		now := start.Add(time.Duration(s) * time.Second)
		for i := range pods {
			pods[i].Usage, pods[i].At, pods[i].Held = used[i]*MiB, now, pods[i].Limit
		}
		for i, d := range w.Decide(c, Input{Time: now, Envelope: e, Pods: pods}).Decisions {
			pods[i].Limit = d.To
			got += fmt.Sprint(d.To/MiB, " ")
		}
	}
	if want := "150 100 50 131 100 50 131 119 50 131 119 50 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestKilled: each kill raises the limit by a fifth, and it stays so for a day.
func TestKilled(t *testing.T) {
	var w WorkingSets
	c := DefaultMemoryConfig()
	c.Window = 2 * time.Second
	e := Envelope{Budget: 1000 * MiB, Floor: MiB, Ceiling: 1000 * MiB, Until: start.Add(1000 * time.Hour)}
	p := Pod{ID: "a", Limit: 100 * MiB, Held: 100 * MiB, Priority: 1}
	decide := func(at time.Duration, used float64) (int64, Binding) {
		p.Usage, p.At = used*MiB, start.Add(at)
		d := w.Decide(c, Input{Time: start.Add(at), Envelope: e, Pods: []Pod{p}}).Decisions[0]
		p.Limit, p.Held = d.To, d.To
		return d.To / MiB, d.Binding
	}
	decide(0, 85)
	p.Killed = start.Add(time.Second / 2)
	if to, by := decide(time.Second, 1); to != 120 || by != BoundKilled {
		t.Errorf("after a kill %d by %s", to, by)
	}
	for s := 2; s < 60; s++ {
		if to, _ := decide(time.Duration(s)*time.Second, 1); to != 120 {
			t.Fatalf("%d after %d s", to, s)
		}
	}
	p.Killed = start.Add(time.Minute)
	if to, _ := decide(time.Minute+time.Second, 1); to != 144 {
		t.Errorf("after a second kill %d", to)
	}
	day := 24*time.Hour + 2*time.Minute
	for s := range 10 {
		decide(day+time.Duration(s)*time.Second, 1)
	}
	if p.Limit != 2*MiB {
		t.Errorf("%d MiB a day later", p.Limit/MiB)
	}
}

// memoryWorld has pods whose working sets move, resizes that take a while, and readings
// with gaps.
type memoryWorld struct {
	rng     *rand.Rand
	pods    []Pod
	used    []float64 // MiB
	toward  []float64
	due     []time.Time
	kills   int
	changes int
}

func newMemoryWorld(rng *rand.Rand, pods int, limit int64) *memoryWorld {
	w := &memoryWorld{rng: rng}
	for i := range pods {
		w.pods = append(w.pods, Pod{ID: fmt.Sprint(i), Limit: limit, Held: limit, Priority: (1 + float64(rng.IntN(10))) / 10})
		w.used = append(w.used, 20+20*rng.Float64())
		w.toward = append(w.toward, w.used[i])
		w.due = append(w.due, time.Time{})
	}
	return w
}

// step of a second: now and then a pod's working set heads for another value, by a few
// percent a second. All of them together never need more than all MiB.
func (w *memoryWorld) step(now time.Time, all float64) {
	for i := range w.pods {
		p := &w.pods[i]
		if w.rng.Float64() < 1.0/600 {
			rest := all
			for j := range w.toward {
				if j != i {
					rest -= max(w.toward[j], w.used[j])
				}
			}
			w.toward[i] = 10 + w.rng.Float64()*max(0, rest-10)
		}
		switch {
		case w.used[i] < w.toward[i]:
			w.used[i] = min(w.toward[i], w.used[i]*1.03)
		default:
			w.used[i] = max(w.toward[i], w.used[i]*0.9)
		}
		if p.Held != p.Limit && !now.Before(w.due[i]) {
			// The kubelet takes nothing away that is used.
			if float64(p.Limit) > w.used[i]*MiB {
				p.Held = p.Limit
			}
		}
		if w.used[i]*MiB > float64(p.Held) {
			w.kills++
			p.Killed = now
			w.used[i] = 10
		}
		if p.At = now; w.rng.Float64() < 0.02 {
			p.At = now.Add(-time.Minute)
		}
		p.Usage = w.used[i] * MiB
	}
}

func (w *memoryWorld) apply(now time.Time, out Output) {
	for i, d := range out.Decisions {
		if d.To != d.From {
			w.pods[i].Limit, w.due[i] = d.To, now.Add(time.Duration(w.rng.IntN(4))*time.Second)
			w.changes++
		}
	}
}

// TestMemoryBounds plays random worlds: the budget is never exceeded once it was kept, and no
// limit is lowered below what was read within the window, or within Pressed where the budget
// decides.
func TestMemoryBounds(t *testing.T) {
	c := DefaultMemoryConfig()
	c.Window, c.Pressed, c.Every = 30*time.Second, 10*time.Second, 5*time.Second
	for episode := range 2000 {
		rng := rand.New(rand.NewPCG(11, uint64(episode)))
		n := 1 + rng.IntN(5)
		world := newMemoryWorld(rng, n, 100*MiB)
		var w WorkingSets
		e := Envelope{Budget: int64(n) * 110 * MiB, Floor: 8 * MiB, Ceiling: 400 * MiB, Until: start.Add(time.Hour)}
		type reading struct {
			at   time.Time
			used float64
		}
		read := make([][]reading, n)
		kept := true
		for s := range 240 {
			now := start.Add(time.Duration(s) * time.Second)
			if rng.Float64() < 0.01 {
				e.Budget = int64(n) * int64(60+rng.IntN(100)) * MiB
				kept = false
			}
			world.step(now, float64(n)*90)
			var before int64
			for i, p := range world.pods {
				before += max(p.Limit, p.Held)
				if p.At.Equal(now) {
					read[i] = append(read[i], reading{now, p.Usage})
				}
			}
			out := w.Decide(c, Input{Time: now, Envelope: e, Pods: world.pods})
			world.apply(now, out)
			var after int64
			for i, p := range world.pods {
				after += max(p.Limit, p.Held)
				d := out.Decisions[i]
				if d.To >= d.From {
					continue
				}
				for _, r := range read[i] {
					if now.Sub(r.at) <= c.Pressed && float64(d.To) < r.used*(1+c.Headroom) ||
						d.Binding != BoundBudget && now.Sub(r.at) <= c.Window && float64(d.To) < r.used*(1+c.Headroom) {
						t.Fatalf("episode %d, second %d: lowered to %d with %.0f in use %v ago", episode, s, d.To, r.used, now.Sub(r.at))
					}
				}
			}
			if after > max(before, e.Budget) || kept && after > e.Budget {
				t.Fatalf("episode %d, second %d: %d held of %d, %d before", episode, s, after, e.Budget, before)
			}
			kept = kept || after <= e.Budget
		}
	}
}

// TestMemoryMoves: within the same budget, pods whose limits follow their working sets are
// killed far less than those whose limits are equal.
func TestMemoryMoves(t *testing.T) {
	const episodes, seconds, n = 200, 3600, 4
	var fixed, moved, changes int
	for episode := range episodes {
		for _, move := range []bool{false, true} {
			world := newMemoryWorld(rand.New(rand.NewPCG(5, uint64(episode))), n, 128*MiB)
			var w WorkingSets
			e := Envelope{Budget: n * 128 * MiB, Floor: 8 * MiB, Ceiling: n * 128 * MiB, Until: start.Add(24 * time.Hour)}
			for s := range seconds {
				now := start.Add(time.Duration(s) * time.Second)
				world.step(now, 0.6*n*128)
				if move {
					world.apply(now, w.Decide(DefaultMemoryConfig(), Input{Time: now, Envelope: e, Pods: world.pods}))
				}
			}
			if move {
				moved, changes = moved+world.kills, changes+world.changes
			} else {
				fixed += world.kills
			}
		}
	}
	t.Logf("kills in %d hours of %d pods: %d with equal limits, %d with limits that follow, by %.1f writes per pod and hour",
		episodes, n, fixed, moved, float64(changes)/episodes/n)
	if moved*50 > fixed {
		t.Errorf("%d kills, %d with equal limits", moved, fixed)
	}
}
