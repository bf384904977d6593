package rl

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var boxSpec = Spec{1, Space{Low: []float32{-2}, High: []float32{6}}}

// someDDPG has networks without hidden layers.
func someDDPG(t *testing.T, c DDPGConfig) *DDPG {
	t.Helper()
	c.Hidden, c.Batch = nil, 2
	d, err := NewDDPG(c, boxSpec, &fixed{1})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func someBatch() *Batch {
	return &Batch{2, []float32{1, -1}, []float32{1, -1}, []float32{0.5, -0.5}, []float32{1, 2}, []bool{false, true}}
}

// TestTwinTargets: TD3 takes the smaller of two critics' values, DDPG has one. What was
// terminated has no future.
func TestTwinTargets(t *testing.T) {
	for name, c := range map[string]struct {
		config DDPGConfig
		values []float32
		want   []float32
	}{
		"DDPG":                   {DefaultDDPG(), []float32{10}, []float32{1 + 0.5*10, 2}},
		"TD3, the first is less": {DefaultTD3(), []float32{10, 20}, []float32{1 + 0.5*10, 2}},
		"TD3, the second is":     {DefaultTD3(), []float32{20, 10}, []float32{1 + 0.5*10, 2}},
	} {
		c.config.Gamma = 0.5
		d := someDDPG(t, c.config)
		if len(d.critics) != len(c.values) {
			t.Fatalf("%s: %d critics, want %d", name, len(d.critics), len(c.values))
		}
		for i, v := range c.values {
			copy(d.critics[i].target.Params, []float32{0, 0, v}) // weights of observation and action, bias
		}
		if d.aim(someBatch()); !slices.Equal(d.targets, c.want) {
			t.Errorf("%s: targets %v, want %v", name, d.targets, c.want)
		}
	}
}

// TestTargetPolicySmoothing: with a critic that returns the action, targets vary with
// noise that is cut, and stay within the space; DDPG's don't vary.
func TestTargetPolicySmoothing(t *testing.T) {
	for name, c := range map[string]struct {
		config DDPGConfig
		smooth bool
	}{"DDPG": {DefaultDDPG(), false}, "TD3": {DefaultTD3(), true}} {
		c.config.Gamma = 1
		if c.smooth {
			c.config.Smooth = 1 // so that many are cut
		}
		d := someDDPG(t, c.config)
		clear(d.actorTarget.Params) // the action is 0
		for _, q := range d.critics {
			copy(q.target.Params, []float32{0, 1, 0})
		}
		seen := map[float32]int{}
		for range 200 {
			b := someBatch()
			d.aim(b)
			seen[d.targets[0]-1]++
		}
		for v := range seen {
			if v < -0.5001 || v > 0.5001 {
				t.Errorf("%s: noise %g, want it cut to ±0.5", name, v)
			}
		}
		if c.smooth != (len(seen) > 20) || !c.smooth && seen[0] != 200 {
			t.Errorf("%s: %d different targets", name, len(seen))
		}
		if c.smooth && (seen[0.5] < 20 || seen[-0.5] < 20) { // each in 31 % of draws
			t.Errorf("%s: noise was cut %d times above, %d below", name, seen[0.5], seen[-0.5])
		}
	}
}

// TestSmoothedActionsStayWithin the space.
func TestSmoothedActionsStayWithin(t *testing.T) {
	c := DefaultTD3()
	c.Gamma, c.Smooth = 1, 1
	d := someDDPG(t, c)
	copy(d.actorTarget.Params, []float32{0, 10}) // tanh 10: the upper bound
	for _, q := range d.critics {
		copy(q.target.Params, []float32{0, 1, 0})
	}
	for range 100 {
		if d.aim(someBatch()); d.targets[0] > 2.0001 || d.targets[0] < 1.4999 {
			t.Fatalf("a target of an action %g, want it within 0.5 and 1", d.targets[0]-1)
		}
	}
}

// TestDelayedPolicy: TD3's actor and all targets change at every other gradient step,
// DDPG's at each; critics change at each.
func TestDelayedPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		config DDPGConfig
		want   [4]bool
	}{
		"DDPG": {DefaultDDPG(), [4]bool{true, true, true, true}},
		"TD3":  {DefaultTD3(), [4]bool{false, true, false, true}},
	} {
		d := someDDPG(t, c.config)
		for i, want := range c.want {
			actor, target := d.actor.Clone(), d.actorTarget.Clone()
			critic, critical := d.critics[0].online.Clone(), d.critics[0].target.Clone()
			d.improve(someBatch())
			for what, changed := range map[string]bool{
				"actor":           !slices.Equal(actor.Params, d.actor.Params),
				"actor's target":  !slices.Equal(target.Params, d.actorTarget.Params),
				"critic's target": !slices.Equal(critical.Params, d.critics[0].target.Params),
			} {
				if changed != want {
					t.Errorf("%s, step %d: %s changed: %v, want %v", name, i+1, what, changed, want)
				}
			}
			if slices.Equal(critic.Params, d.critics[0].online.Params) {
				t.Errorf("%s, step %d: the critic did not change", name, i+1)
			}
		}
	}
}

// TestActorGradient compares the derivatives of −mean Q(s, π(s)) with differences.
func TestActorGradient(t *testing.T) {
	c := DefaultTD3()
	c.Hidden, c.Batch = []int{6}, 3
	d, err := NewDDPG(c, Spec{2, Space{Low: []float32{-1, -1}, High: []float32{1, 1}}}, &fixed{2})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	b := d.replay.NewBatch(3)
	for i := range b.From {
		b.From[i] = float32(rng.NormFloat64())
	}
	d.ascend(b)
	grads := slices.Clone(d.actorGrads)
	loss := func() (sum float64) {
		for _, q := range d.critics[0].pass.Forward(d.join(b.From, d.pass.Forward(b.From, 3), 3), 3) {
			sum -= float64(q) / 3
		}
		return sum
	}
	const h = 3e-3
	bad, some := 0, false
	for i := range d.actor.Params {
		old := d.actor.Params[i]
		d.actor.Params[i] = old + h
		up := loss()
		d.actor.Params[i] = old - h
		down := loss()
		d.actor.Params[i] = old
		want := (up - down) / (2 * h)
		some = some || math.Abs(want) > 1e-3
		if math.Abs(want-float64(grads[i])) > 1e-3 {
			bad++ // as where a difference goes over a kink of ReLU
		}
	}
	if bad > 1 || !some {
		t.Errorf("%d of %d derivatives are not those of differences; some are not zero: %v", bad, len(grads), some)
	}
}

// TestDDPGActs within the space's bounds, whose middle is what 0 stands for.
func TestDDPGActs(t *testing.T) {
	d := someDDPG(t, DefaultDDPG())
	for bias, want := range map[float32]float32{0: 2, 20: 6, -20: -2} {
		copy(d.actor.Params, []float32{0, bias})
		if got := d.Policy().NewActor().Act([]float32{1}).Continuous[0]; !near(float64(got), float64(want), 1e-4) {
			t.Errorf("bias %g: action %g, want %g", bias, got, want)
		}
	}
}

func TestDDPGRefuses(t *testing.T) {
	for name, change := range map[string]func(*DDPGConfig, *Spec){
		"discrete actions": func(_ *DDPGConfig, s *Spec) { s.Actions = Space{N: 2} },
		"no delay":         func(c *DDPGConfig, _ *Spec) { c.Delay = 0 },
		"negative noise":   func(c *DDPGConfig, _ *Spec) { c.Noise = -1 },
		"no tau":           func(c *DDPGConfig, _ *Spec) { c.Tau = 0 },
		"bounds swapped":   func(_ *DDPGConfig, s *Spec) { s.Actions.Low, s.Actions.High = s.Actions.High, s.Actions.Low },
	} {
		c, spec := DefaultTD3(), boxSpec
		change(&c, &spec)
		if _, err := NewDDPG(c, spec, &fixed{1}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLearnFromOthers: who explores by Explore and tells by Observe comes to the same network as
// Learn in the same environment.
func TestLearnFromOthers(t *testing.T) {
	c := DefaultTD3()
	c.Seed, c.Hidden, c.Batch, c.Start, c.Norm = 3, []int{8}, 8, 20, true
	alone, err := NewDDPG(c, boxSpec, &fixed{1})
	if err != nil {
		t.Fatal(err)
	}
	alone.Learn(60)
	told, err := NewDDPG(c, boxSpec, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := newInteraction(&fixed{1}, source(c.Seed, forEnv))
	action, moved := make([]float32, 1), make([]float32, 1)
	for range 60 {
		told.Explore(x.at, action)
		told.actions.scale(action, moved)
		next, reward, terminated, truncated := x.step(Action{Continuous: moved})
		told.Observe(x.before, action, reward, next, terminated)
		if terminated || truncated {
			x.renew()
		}
		told.Improve()
	}
	if !slices.Equal(alone.actor.Params, told.actor.Params) {
		t.Error("it learned something else")
	}
	if _, err := told.State(); err != nil {
		t.Error(err)
	}
}

// TestFollow: an actor that was a policy acts from the first step on, and changes only once its
// new critics know something.
func TestFollow(t *testing.T) {
	c := DefaultTD3()
	c.Hidden, c.Batch, c.Start, c.Noise = []int{8}, 8, 10, 0
	teacher, err := NewDDPG(c, boxSpec, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := teacher.Policy()
	d, err := NewDDPG(c, boxSpec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.actor.Params {
		d.actor.Params[i] = 0
	}
	if err := d.Follow(p); err != nil {
		t.Fatal(err)
	}
	seen, did := []float32{0.5}, make([]float32, 1)
	if d.Explore(seen, did); did[0] != cut(p.Network.NewPass(1).Forward(seen, 1)[0], 1) {
		t.Errorf("it does %g", did[0])
	}
	changed := 0
	for d.gradients < critical+10 {
		d.Explore(seen, did)
		d.Observe(seen, did, float64(did[0]), seen, false)
		d.Improve()
		if !slices.Equal(d.actor.Params, p.Network.Params) {
			if changed++; d.gradients <= critical {
				t.Fatalf("it changed after %d steps of the critics", d.gradients)
			}
		}
	}
	if changed == 0 {
		t.Error("it never learned on")
	}
	c.Hidden = []int{4}
	other, err := NewDDPG(c, boxSpec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Follow(p); err == nil {
		t.Error("it follows a policy of another architecture")
	}
}
