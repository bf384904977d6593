package vertical

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/planning/rl"
)

// network is MARLISE's actor with random weights.
func network(t testing.TB, a Action) *Learned {
	t.Helper()
	n, err := rl.NewNetwork(rl.MLP(Inputs, []int{64, 128, 64}, false, rl.ReLU, a.Space().Outputs()))
	if err != nil {
		t.Fatal(err)
	}
	n.InitKaiming(rand.New(rand.NewPCG(1, 1)))
	l, err := NewLearned("random", a, rl.Policy{Network: n, Actions: a.Space()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestActions(t *testing.T) {
	v := &View{Limit: 200, Budget: 1000}
	for name, c := range map[string]struct {
		action Action
		act    rl.Action
		want   float64
	}{
		"decrease":            {Moves, rl.Action{Discrete: 0}, 175},
		"keep":                {Moves, rl.Action{Discrete: 1}, 200},
		"increase":            {Moves, rl.Action{Discrete: 2}, 225},
		"a change":            {Changes, rl.Action{Continuous: []float32{-0.5}}, 175},
		"a share of a budget": {Levels, rl.Action{Continuous: []float32{0.25}}, 250},
	} {
		if got := c.action.Limit(v, c.act); got != c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

// A network that overflows has no opinion, also one that chooses among moves.
func TestWhatIsNoNumberIsNoOpinion(t *testing.T) {
	for _, a := range []Action{Changes, Levels, Corrections, Moves} {
		n, err := rl.NewNetwork(rl.MLP(Inputs, []int{64}, false, rl.ReLU, a.Space().Outputs()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range n.Params {
			n.Params[i] = math.MaxFloat32
		}
		l, err := NewLearned("overflowing", a, rl.Policy{Network: n, Actions: a.Space()})
		if err != nil {
			t.Fatal(err)
		}
		v := &View{Limit: 200, Budget: 1000, Window: make([]float32, Inputs)}
		for i := range v.Window {
			v.Window[i] = 1
		}
		if got := l.Propose(v); !math.IsNaN(got) {
			t.Errorf("%s: %g", a, got)
		}
	}
}

// TestDeadband: a learned agent of continuous actions leaves a limit that it would hardly
// change, and one of moves moves.
func TestDeadband(t *testing.T) {
	for _, a := range []Action{Changes, Levels, Corrections, Moves} {
		n, err := rl.NewNetwork(rl.MLP(Inputs, []int{64}, false, rl.ReLU, a.Space().Outputs()))
		if err != nil {
			t.Fatal(err)
		}
		n.InitKaiming(rand.New(rand.NewPCG(1, 1)))
		for i := range n.Params {
			n.Params[i] *= 3 // or it asks for small changes only
		}
		l, err := NewLearned("random", a, rl.Policy{Network: n, Actions: a.Space()})
		if err != nil {
			t.Fatal(err)
		}
		kept, moved := 0, 0
		rng := rand.New(rand.NewPCG(3, 3))
		for range 2000 {
			v := &View{Limit: 50 + rng.Int64N(1000), Budget: 1000, Window: make([]float32, Inputs)}
			for i := range v.Window {
				v.Window[i] = rng.Float32()
			}
			wants, now := a.Limit(v, l.actor.Act(v.Window)), float64(v.Limit)
			got := l.Propose(v)
			switch off := math.Abs(wants - now); {
			case a != Moves && off < 25 && off < now/10:
				if kept++; got != now {
					t.Fatalf("%s: from %g to %g, for %g", a, now, got, wants)
				}
			default:
				if moved++; got != wants {
					t.Fatalf("%s: from %g to %g, want %g", a, now, got, wants)
				}
			}
		}
		if moved == 0 || kept == 0 && a != Moves {
			t.Errorf("%s: kept %d times, moved %d times", a, kept, moved)
		}
	}
}

func TestNewLearnedRefuses(t *testing.T) {
	n, err := rl.NewNetwork(rl.MLP(4, []int{8}, false, rl.ReLU, 3))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewLearned("x", Moves, rl.Policy{Network: n, Actions: Moves.Space()}); err == nil || !strings.Contains(err.Error(), "agents see 42") {
		t.Errorf("%v", err)
	}
	fits := network(t, Changes)
	if _, err := NewLearned("x", Levels, rl.Policy{Network: mustNetwork(t, 1), Actions: Changes.Space()}); err == nil || !strings.Contains(err.Error(), "levels") {
		t.Errorf("%v", err)
	}
	if _, err := AlgorithmByName("sarsa"); err == nil || !strings.Contains(err.Error(), "ddmdqn") {
		t.Errorf("%v", err)
	}
	if fits.Name() != "random" {
		t.Error(fits.Name())
	}
}

func mustNetwork(t *testing.T, outputs int) *rl.Network {
	t.Helper()
	n, err := rl.NewNetwork(rl.MLP(Inputs, nil, false, rl.ReLU, outputs))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
