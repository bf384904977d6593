package rl

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// corridor is an environment of one number: the place, from 0. Action 1 goes right,
// action 0 stays. It is truncated after limit steps, or terminated at place end.
type corridor struct {
	place, steps, end, limit int
	observation              [1]float32
}

var corridorSpec = Spec{1, Space{N: 2}}

func (c *corridor) Reset(*rand.Rand) []float32 {
	c.place, c.steps = 0, 0
	return c.observe()
}

func (c *corridor) Step(a Action) ([]float32, float64, bool, bool) {
	c.place += a.Discrete
	c.steps++
	return c.observe(), 1, c.place == c.end, c.steps == c.limit
}

func (c *corridor) observe() []float32 {
	c.observation[0] = float32(c.place)
	return c.observation[:]
}

// twoQ is a DQN without hidden layers whose networks' outputs are set: Q(s,·) = biases,
// whatever the state.
func twoQ(t *testing.T, double bool, online, target []float32) *DQN {
	t.Helper()
	c := DefaultDQN(1000)
	c.Hidden, c.Double, c.Batch, c.Gamma = nil, double, 2, 0.5
	d, err := NewDQN(c, corridorSpec, &corridor{end: 3, limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	copy(d.online.Params, append([]float32{0, 0}, online...))
	copy(d.target.Params, append([]float32{0, 0}, target...))
	return d
}

// TestTargets: DQN takes the target network's largest value; double DQN the target
// network's value of the online network's best action. What was terminated has no
// future, what was truncated has.
func TestTargets(t *testing.T) {
	online, target := []float32{7, 3}, []float32{10, 20} // best: 0, 1
	for name, c := range map[string]struct {
		double bool
		want   []float32
	}{
		"DQN":    {false, []float32{1 + 0.5*20, 2}},
		"double": {true, []float32{1 + 0.5*10, 2}},
	} {
		d := twoQ(t, c.double, online, target)
		b := &Batch{2, []float32{0, 0}, []float32{0, 0}, []float32{0, 1}, []float32{1, 2}, []bool{false, true}}
		if d.aim(b); !slices.Equal(d.targets, c.want) {
			t.Errorf("%s: targets %v, want %v", name, d.targets, c.want)
		}
	}
}

// TestDQNKeepsFuture: the last transition of an episode that is truncated is kept as one
// that was not terminated, and leads to the episode's own last observation.
func TestDQNKeepsFuture(t *testing.T) {
	for name, c := range map[string]struct {
		env        corridor
		terminated bool
	}{
		"truncated":  {corridor{end: 1000, limit: 4}, false},
		"terminated": {corridor{end: 1, limit: 1000}, true},
	} {
		config := DefaultDQN(100)
		d, err := NewDQN(config, corridorSpec, &c.env)
		if err != nil {
			t.Fatal(err)
		}
		d.Learn(100)
		some := false
		for i := range d.replay.size {
			some = some || d.replay.terminated[i]
			if step := d.replay.to[i] - d.replay.from[i]; step != d.replay.action[i] {
				t.Fatalf("%s: action %g led from %g to %g", name, d.replay.action[i], d.replay.from[i], d.replay.to[i])
			}
		}
		if some != c.terminated {
			t.Errorf("%s: terminated transitions in the replay: %v", name, some)
		}
	}
}

// TestDuelingAdvantages: the mean of a dueling network's values is the state's value, so
// that the mean advantage is zero, whatever the network's numbers.
func TestDuelingAdvantages(t *testing.T) {
	c := DefaultDQN(1000)
	c.Dueling, c.Hidden = true, []int{8}
	d, err := NewDQN(c, Spec{4, Space{N: 3}}, &fixed{4})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		x := make([]float32, 4)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		q := d.acting.Forward(x, 1)
		value := d.acting.values[len(d.acting.values)-2][0]
		if len(q) != 3 || !near(float64(mean(q)), float64(value), 1e-5) {
			t.Errorf("values %v have the mean %g, the state's is %g", q, mean(q), value)
		}
	}
}

// fixed is an environment that never changes.
type fixed struct{ observations int }

func (f *fixed) Reset(*rand.Rand) []float32 { return make([]float32, f.observations) }
func (f *fixed) Step(Action) ([]float32, float64, bool, bool) {
	return make([]float32, f.observations), 1, false, false
}

// TestTargetUpdates: hard ones copy at their steps only, soft ones go a share of the way.
func TestTargetUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		every int
		tau   float64
		want  [4]float32
	}{
		"hard": {2, 1, [4]float32{0, 1, 1, 1}},
		"soft": {1, 0.5, [4]float32{0.5, 0.75, 0.875, 0.9375}},
	} {
		d := twoQ(t, false, []float32{1, 1}, []float32{0, 0})
		d.config.TargetEvery, d.config.Tau, d.config.Start = c.every, c.tau, 1000
		for i, want := range c.want {
			if d.Learn(1); d.target.Params[2] != want {
				t.Errorf("%s: %g after %d steps, want %g", name, d.target.Params[2], i+1, want)
			}
		}
	}
}

func TestHuber(t *testing.T) {
	for err, want := range map[float32]float32{0: 0, 0.5: 0.5, -0.5: -0.5, 3: 1, -3: -1} {
		if got := huber(err); got != want {
			t.Errorf("slope %g at %g, want %g", got, err, want)
		}
	}
}

func TestSchedule(t *testing.T) {
	s := Schedule{1, 0.2, 100}
	for steps, want := range map[int]float64{0: 1, 50: 0.6, 100: 0.2, 1000: 0.2} {
		if got := s.At(steps); !near(got, want, 1e-12) {
			t.Errorf("%g after %d steps, want %g", got, steps, want)
		}
	}
}

// TestDQNRefuses what makes no sense.
func TestDQNRefuses(t *testing.T) {
	for name, change := range map[string]func(*DQNConfig, *Spec){
		"no batch":           func(c *DQNConfig, _ *Spec) { c.Batch = 0 },
		"a small capacity":   func(c *DQNConfig, _ *Spec) { c.Capacity = 3 },
		"no rate":            func(c *DQNConfig, _ *Spec) { c.Optimiser.Rate = 0 },
		"no interval":        func(c *DQNConfig, _ *Spec) { c.Every = 0 },
		"too much future":    func(c *DQNConfig, _ *Spec) { c.Gamma = 1.1 },
		"continuous actions": func(_ *DQNConfig, s *Spec) { s.Actions = Space{Low: []float32{0}, High: []float32{1}} },
		"a single action":    func(_ *DQNConfig, s *Spec) { s.Actions = Space{N: 1} },
		"no observations":    func(_ *DQNConfig, s *Spec) { s.Observations = 0 },
	} {
		c, spec := DefaultDQN(1000), corridorSpec
		change(&c, &spec)
		if _, err := NewDQN(c, spec, &corridor{end: 3, limit: 9}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestDQNFrom: a learner may begin with what another one has learned, and leaves that alone.
func TestDQNFrom(t *testing.T) {
	c := DefaultDQN(100)
	c.Hidden = []int{8}
	spec := Spec{Observations: 1, Actions: Space{N: 2}}
	net, err := NewNetwork(MLP(1, c.Hidden, false, ReLU, 2))
	if err != nil {
		t.Fatal(err)
	}
	for i := range net.Params {
		net.Params[i] = float32(i) / 100
	}
	before := slices.Clone(net.Params)
	c.From = net
	d, err := NewDQN(c, spec, &corridor{end: 3, limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Policy().Network.Params, before) || !slices.Equal(d.target.Params, before) {
		t.Error("it does not begin with the network")
	}
	d.online.Params[0] = 9
	if !slices.Equal(net.Params, before) {
		t.Error("the network was changed")
	}
	c.Hidden = []int{9}
	if _, err := NewDQN(c, spec, &corridor{end: 3, limit: 5}); err == nil {
		t.Error("another architecture is taken")
	}
}
