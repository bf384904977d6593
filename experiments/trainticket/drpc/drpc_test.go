package drpc

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mash2-io/mash2/planning/rl"
)

var bounds = Bounds{
	Least: Size{Replicas: 1, MilliCPU: 100, Memory: 64 << 20}, Most: Size{Replicas: 10, MilliCPU: 500, Memory: 256 << 20},
	Step: Size{Replicas: 1, MilliCPU: 50, Memory: 10 << 20},
}

// TestApply is Algorithm 2: a dead zone, steps, bounds, and brownout for optional services only.
func TestApply(t *testing.T) {
	at := Size{Replicas: 3, MilliCPU: 200, Memory: 100 << 20}
	optional := bounds
	optional.Optional = true
	for name, c := range map[string]struct {
		bounds  Bounds
		at      Size
		action  Action
		working int64
		want    Size
	}{
		"dead zone":              {bounds, at, Action{0.5, -0.5, 0.5}, 0, at},
		"none is no number":      {bounds, at, Action{math.NaN(), math.Inf(1), math.Inf(-1)}, 0, at},
		"up":                     {bounds, at, Action{1, 1, 1}, 0, Size{4, 250, 110 << 20}},
		"down":                   {bounds, at, Action{-1, -1, -1}, 0, Size{2, 150, 90 << 20}},
		"a part of a step":       {bounds, at, Action{0.6, 0, 0.6}, 0, Size{4, 230, 100 << 20}},
		"clipped":                {bounds, at, Action{7, 0, -7}, 0, Size{2, 250, 100 << 20}},
		"never below one":        {bounds, Size{1, 100, 64 << 20}, Action{-1, -1, -1}, 0, Size{1, 100, 64 << 20}},
		"never beyond the most":  {bounds, Size{10, 500, 256 << 20}, Action{1, 1, 1}, 0, Size{10, 500, 256 << 20}},
		"brownout":               {optional, Size{1, 100, 64 << 20}, Action{0, 0, -1}, 0, Size{0, 100, 64 << 20}},
		"back from brownout":     {optional, Size{0, 100, 64 << 20}, Action{0, 0, 1}, 0, Size{1, 100, 64 << 20}},
		"not below what is used": {bounds, at, Action{0, -1, 0}, 97 << 20, Size{3, 200, 97 << 20}},
	} {
		if err := c.bounds.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := c.bounds.Apply(c.at, c.action, c.working); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for _, b := range []Bounds{{}, {Most: bounds.Most}, {Least: bounds.Most, Most: bounds.Least}} {
		if b.Validate() == nil {
			t.Errorf("%+v is valid", b)
		}
	}
}

// TestApplyStaysWithinBounds: whatever outputs and sizes there are.
func TestApplyStaysWithinBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		b := bounds
		b.Optional = rng.IntN(2) == 0
		b.Step = Size{Replicas: rng.Int32N(5), MilliCPU: rng.Int64N(400), Memory: rng.Int64N(200 << 20)}
		output := func() float64 { return math.Tan(math.Pi * (rng.Float64() - 0.5)) }
		at := Size{Replicas: 1 + rng.Int32N(10), MilliCPU: 100 + rng.Int64N(401), Memory: 64<<20 + rng.Int64N(192<<20)}
		working := rng.Int64N(400 << 20)
		got := b.Apply(at, Action{output(), output(), output()}, working)
		least := int32(1)
		if b.Optional {
			least = 0
		}
		if got.Replicas < least || got.Replicas > 10 || got.MilliCPU < 100 || got.MilliCPU > 500 || got.Memory > 256<<20 || got.Memory < min(max(working, 64<<20), 256<<20) {
			t.Fatalf("%+v from %+v", got, at)
		}
	}
}

// TestReward has D3's properties: QoS is 1 up to the tolerated time and falls after it, use is
// best at the ideal and falls on either side, and the reward is from 0 to 1.
func TestReward(t *testing.T) {
	if QoS(0.3, 0.4) != 1 || QoS(0.4, 0.4) != 1 || math.Abs(QoS(0.8, 0.4)-math.Exp(-1)) > 1e-12 || QoS(math.Inf(1), 0.4) != 0 {
		t.Errorf("QoS %g %g %g", QoS(0.3, 0.4), QoS(0.8, 0.4), QoS(math.Inf(1), 0.4))
	}
	last := 1.0
	for rt := 0.41; rt < 4; rt += 0.01 {
		if q := QoS(rt, 0.4); q >= last || q < 0 {
			t.Fatalf("QoS(%g) is %g, before it was %g", rt, q, last)
		} else {
			last = q
		}
	}
	for _, ideal := range []float64{0.5, 0.75} {
		best := Reward(0.1, 0.4, Used{ideal, ideal})
		if best != 1 {
			t.Errorf("the ideal is worth %g", best)
		}
		below, above := best, best
		for d := 0.05; d <= 0.5; d += 0.05 {
			b, a := Reward(0.1, 0.4, Used{ideal - d, ideal}), Reward(0.1, 0.4, Used{ideal + d, ideal})
			if b >= below || a >= above || b < 0 || a < 0 {
				t.Errorf("%g below %g is worth %g, above %g", d, ideal, b, a)
			}
			below, above = b, a
		}
	}
	if got := Use(Used{0.25, 0.75}, Used{1, 0.75}); math.Abs(got-(1+(0.125+0.015625)/2)) > 1e-12 {
		t.Errorf("two resources: %g", got)
	}
}

// TestNotifier asks for teaching when a full ring's mean is below the threshold, and not before.
func TestNotifier(t *testing.T) {
	n := Notifier{Threshold: 0.6, Window: 4}
	for i, c := range []struct {
		reward float64
		want   bool
	}{{0, false}, {0, false}, {0, false}, {1, true}, {1, true}, {1, false}, {1, false}, {1, false}, {math.NaN(), false}, {0, true}} {
		if got := n.Note(c.reward); got != c.want {
			t.Errorf("reward %d: %v, want %v", i, got, c.want)
		}
	}
	n.Forget()
	if n.Note(0) {
		t.Error("one reward after teaching asks for it again")
	}
	var none Notifier
	if none.Note(0) {
		t.Error("the zero value asks for teaching")
	}
}

// TestStudentHas643Parameters, decides without allocating, and not at all where it is blind.
func TestStudent(t *testing.T) {
	net, err := rl.NewNetwork(StudentArchitecture())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(net.Params); got != 643 {
		t.Fatalf("%d parameters, the paper has 643", got)
	}
	net.InitKaiming(rand.New(rand.NewPCG(1, 2)))
	s, err := NewStudent(rl.Policy{Network: net, Actions: Actions()})
	if err != nil {
		t.Fatal(err)
	}
	seen := Local{0.5, 0.5, 0.2, 0.4, 0.5}
	if n := testing.AllocsPerRun(100, func() { s.Decide(seen) }); n != 0 {
		t.Errorf("%g allocations for a decision", n)
	}
	if a := s.Decide(seen); a == (Action{}) {
		t.Error("it says nothing")
	}
	for _, blind := range []Local{{CPU: math.NaN()}, {Requests: math.Inf(1)}} {
		if a := s.Decide(blind); a != (Action{}) {
			t.Errorf("%+v of %+v", a, blind)
		}
	}
	other, err := rl.NewNetwork(rl.MLP(4, []int{4}, false, rl.ReLU, 3))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewStudent(rl.Policy{Network: other, Actions: Actions()}); err == nil {
		t.Error("a network of four inputs is a student")
	}
}

// TestImitate: a student comes to do what a teacher does, and goes on from what it knows.
func TestImitate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	rule := func(l [StudentInputs]float32) [3]float32 {
		tanh := func(x float32) float32 { return float32(math.Tanh(float64(x))) }
		return [3]float32{tanh(4 * (l[0] - 0.6)), tanh(2 * (l[1] - 0.5)), tanh(5 * (l[4] - l[3]))}
	}
	var lessons []Lesson
	for range 2000 {
		var l Lesson
		for i := range l.Seen {
			l.Seen[i] = rng.Float32()
		}
		l.Action = rule(l.Seen)
		lessons = append(lessons, l)
	}
	p, loss, err := Imitate(DefaultImitation(), nil, lessons, 1)
	if err != nil || loss > 0.01 {
		t.Fatalf("mean squared error %g, %v", loss, err)
	}
	short := DefaultImitation()
	short.Epochs = 1
	if _, further, err := Imitate(short, &p, lessons, 1); err != nil || further > 3*loss {
		t.Errorf("it began anew: %g, %v", further, err)
	}
	if _, _, err := Imitate(short, nil, nil, 1); err == nil {
		t.Error("a student learned from nothing")
	}
}

func BenchmarkStudent(b *testing.B) {
	net, err := rl.NewNetwork(StudentArchitecture())
	if err != nil {
		b.Fatal(err)
	}
	net.InitKaiming(rand.New(rand.NewPCG(1, 2)))
	s, err := NewStudent(rl.Policy{Network: net, Actions: Actions()})
	if err != nil {
		b.Fatal(err)
	}
	seen := Local{0.5, 0.5, 0.2, 0.4, 0.5}
	b.ReportAllocs()
	for b.Loop() {
		s.Decide(seen)
	}
}
