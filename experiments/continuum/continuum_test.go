package continuum

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/mash2-io/mash2/experiments/training"
)

// steady is a day on which each node always takes the same time.
func steady(onCloud, onEdge float64) world {
	var w world
	for range day {
		for p, v := range []float64{onCloud, onEdge} {
			w.use[p], w.took[p] = append(w.use[p], 0.3), append(w.took[p], v)
		}
	}
	return w
}

func TestDecide(t *testing.T) {
	noon, night := 12*60, 2*60
	for name, c := range map[string]struct {
		rule        rule
		took        [places]float64
		at, minute  int
		since       int
		want        int
		wantNowhere bool
	}{
		"better elsewhere":                          {rule{stays: -1}, [places]float64{0.1, 0.09}, cloud, noon, 99, edge, false},
		"better, but not per cost":                  {rule{stays: -1}, [places]float64{0.1, 0.06}, cloud, night, 99, cloud, false},
		"so much better that it is worth its price": {rule{stays: -1}, [places]float64{0.1, 0.04}, cloud, night, 99, edge, false},
		"equal per cost stays":                      {rule{stays: -1}, [places]float64{0.1, 0.1 / 0.9}, cloud, noon, 99, cloud, false},
		"not better by the margin":                  {rule{stays: -1, margin: 0.3}, [places]float64{0.1, 0.09}, cloud, noon, 99, cloud, false},
		"moved a moment ago":                        {rule{stays: -1, stay: 15}, [places]float64{0.1, 0.05}, cloud, noon, 10, cloud, false},
		"no node meets the SLA":                     {rule{stays: -1}, [places]float64{0.3, 0.25}, cloud, noon, 99, cloud, true},
		"the other one breaks it":                   {rule{stays: -1}, [places]float64{0.19, 0.21}, cloud, noon, 99, cloud, false},
		"this one breaks it, at whatever price":     {rule{stays: -1, margin: 9, stay: 15}, [places]float64{0.21, 0.19}, cloud, night, 1, edge, false},
		"one that stays":                            {rule{stays: edge}, [places]float64{0.1, 0.9}, edge, noon, 99, edge, false},
	} {
		c.rule.from = func(_ world, place, _ int) (float64, error) { return c.took[place], nil }
		to, nowhere, err := c.rule.decide(world{}, c.at, c.minute, c.since)
		if err != nil || to != c.want || nowhere != c.wantNowhere {
			t.Errorf("%s: to %d, nowhere %t, %v", name, to, nowhere, err)
		}
	}
}

// TestMovePays by hand: one move from cloud to edge at the first decision. Two minutes are paid twice
// and answered by the cloud, the third is slow.
func TestMovePays(t *testing.T) {
	w := steady(0.1, 0.05)
	// By night the edge is worth 1/(0.05·2) = 10 as the cloud is: equal, so a little better.
	for p := range w.took[edge] {
		w.took[edge][p] = 0.04
	}
	got, err := rule{stays: -1, from: byTruth, margin: 0.1, stay: 15}.run(w)
	if err != nil {
		t.Fatal(err)
	}
	onCloud := float64(window + moving)
	wantTime := (onCloud*0.1 + 0.04*1.5 + (day-onCloud-1)*0.04) / day
	wantCost := onCloud/60 + moving*2.0/60 + (12*60-onCloud)*2.0/60 + 12*0.9
	if got.moves != 1 || math.Abs(got.time-wantTime) > 1e-9 || math.Abs(got.cost-wantCost) > 1e-9 {
		t.Errorf("%+v, want time %g, cost %g", got, wantTime, wantCost)
	}
	still, err := rule{stays: cloud}.run(steady(0.1, 0.05))
	if err != nil || still.moves != 0 || math.Abs(still.cost-24) > 1e-9 || math.Abs(still.time-0.1) > 1e-9 {
		t.Errorf("%+v, %v", still, err)
	}
}

// TestNaiveFlaps: where two nodes are as good as each other and take turns, the naive rule moves at
// nearly every decision and the priced one not at all.
func TestNaiveFlaps(t *testing.T) {
	w := steady(0.1, 0.1)
	for minute := range day {
		// Worth by day and by night is the same on both, but for 5 % that change sides.
		w.took[edge][minute] = 0.1 * price(cloud, minute) / price(edge, minute)
		if minute/every%2 == 0 {
			w.took[edge][minute] *= 0.95
		} else {
			w.took[edge][minute] *= 1.05
		}
	}
	naive, err := rule{stays: -1, from: byTruth}.run(w)
	if err != nil {
		t.Fatal(err)
	}
	priced, err := rule{stays: -1, from: byTruth, margin: margin, stay: stay}.run(w)
	if err != nil {
		t.Fatal(err)
	}
	if naive.moves < 200 || priced.moves != 0 || priced.worth <= naive.worth {
		t.Errorf("naive %+v, priced %+v", naive, priced)
	}
}

// TestEvaluate: the same seed gives the same bytes, and both nodes are the better one at some time: else
// there is nothing to decide.
func TestEvaluate(t *testing.T) {
	var texts [2]string
	var got Evaluation
	for i := range texts {
		var err error
		if got, err = Evaluate(t.Context(), 3, 7, io.Discard); err != nil {
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
	for _, s := range got.Models {
		if s.Name == "priced rule, truth" && s.Moves.Mean < 2 {
			t.Errorf("%+v: nothing to decide", s)
		}
		if s.Name == "cloud only" && (s.AgainstCloud.Mean != 0 || s.Moves.Mean != 0) {
			t.Errorf("%+v", s)
		}
	}
	if _, err := Evaluate(t.Context(), 0, 1, io.Discard); !errors.Is(err, training.ErrInput) {
		t.Errorf("%v", err)
	}
}
