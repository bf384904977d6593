package shop

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mash2-io/mash2/experiments/training"
)

// TestWorld: the best policy depends on the hour and on the campaign, so that no fixed one is best,
// and the means are those of what is drawn.
func TestWorld(t *testing.T) {
	m := means()
	best := map[int]bool{}
	for _, v := range m {
		best[largest(v)] = true
	}
	if len(best) != len(Policies) {
		t.Errorf("%d policies are best somewhere, want %d", len(best), len(Policies))
	}
	changes := false
	for of := range 24 {
		changes = changes || largest(m[hour{of, false}]) != largest(m[hour{of, true}])
	}
	if !changes {
		t.Error("a campaign changes no choice: a schedule would be as good as the oracle")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, h := range []hour{{3, false}, {12, false}, {20, false}, {12, true}} {
		for p := range Policies {
			sum, n := 0.0, 20000
			for range n {
				sum += reward(h, p, rng.NormFloat64(), rng.NormFloat64())
			}
			if got := sum / float64(n); math.Abs(got-m[h][p]) > 0.01 {
				t.Errorf("%+v %s: %.3f drawn, %.3f by means", h, Policies[p], got, m[h][p])
			}
		}
	}
}

// TestExpected: how often a campaign runs in an hour is how often it is drawn.
func TestExpected(t *testing.T) {
	count, n := map[int]int{}, 20000
	for _, h := range hours(n, rand.New(rand.NewPCG(2, 2))) {
		if h.campaign {
			count[h.of]++
		}
	}
	m := map[hour][]float64{}
	for of := range 24 {
		m[hour{of, false}], m[hour{of, true}] = make([]float64, 3), []float64{1, 1, 1}
	}
	for of := range 24 {
		if got, want := float64(count[of])/float64(n), expected(m, of, 0.2)[0]; math.Abs(got-want) > 0.008 {
			t.Errorf("hour %d: %.3f drawn, %.3f expected", of, got, want)
		}
	}
}

// TestEvaluate: the same seed gives the same bytes; the oracle has no regret and is never
// below others; the conservative learner keeps its bound.
func TestEvaluate(t *testing.T) {
	var texts [2]string
	var got Evaluation
	for i := range texts {
		var err error
		if got, err = Evaluate(t.Context(), 2, 5, io.Discard); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(b)
	}
	if texts[0] != texts[1] {
		t.Error("two results of one seed")
	}
	if got.Ranking[0] != "oracle" {
		t.Errorf("%v", got.Ranking)
	}
	for _, s := range got.Models {
		switch s.Name {
		case "oracle":
			if s.AgainstOracle[3].Mean != 0 {
				t.Errorf("%+v", s)
			}
		case conservative:
			if s.Below != 0 || s.Gain.Mean <= 0 || s.AgainstOracle[3].Mean >= s.AgainstOracle[0].Mean {
				t.Errorf("%+v", s)
			}
		}
	}
	if _, err := Evaluate(t.Context(), 0, 1, io.Discard); !errors.Is(err, training.ErrInput) {
		t.Errorf("%v", err)
	}
}
