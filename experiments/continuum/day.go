package continuum

import (
	"fmt"
	"math/rand/v2"

	"github.com/mash2-io/mash2/strategic/model"
	"github.com/mash2-io/mash2/strategic/model/forest"
)

// SLA is the prediction time that must be met, in seconds.
const SLA = sla

// Margin by what part performance per cost has to be better elsewhere, and Stay the least
// number of minutes between moves, of the priced rule.
const (
	Margin = margin
	Stay   = stay
)

// Place is one of the two nodes.
type Place int

// The places.
const (
	Cloud Place = cloud
	Edge  Place = edge
)

// Day is what happens on a day, for who plays it elsewhere.
type Day struct{ world }

// NewDay is the same as the day of Evaluate with this seed and number.
func NewDay(seed uint64, n int) Day { return Day{newWorld(rand.New(rand.NewPCG(seed, uint64(n))))} }

// Features of a place before a minute of the day, 5 or later, by name: what [Train]'s model
// reads.
func (d Day) Features(p Place, minute int) map[string]float64 {
	out := map[string]float64{placeFeature: float64(p)}
	for i, v := range d.row(int(p), minute) {
		out[features()[i]] = v
	}
	return out
}

// Took is the prediction time in a minute, in seconds.
func (d Day) Took(p Place, minute int) float64 { return d.took[p][minute] }

// Price of a minute, in hours of the cloud node.
func Price(p Place, minute int) float64 { return price(int(p), minute) }

// placeFeature tells the places apart for one model of both.
const placeFeature = "edge"

// Train one forest for both places, from days on which nothing is judged.
func Train(seed uint64) (model.Model, error) {
	names := append([]string{placeFeature}, features()...)
	var x [][]float64
	var y []float64
	for d := range learned {
		w := newWorld(rand.New(rand.NewPCG(seed, uint64(1<<32+d))))
		for minute := window; minute+ahead <= day; minute += every {
			for p := range places {
				x, y = append(x, append([]float64{float64(p)}, w.row(p, minute)...)), append(y, w.truth(p, minute))
			}
		}
	}
	c := forest.Default()
	// Smaller than Evaluate's: records carry it.
	c.Trees, c.Leaf, c.Seed = 30, 20, seed
	f, err := forest.Train(c, names, x, y)
	if err != nil {
		return nil, err
	}
	return f.Forest, nil
}

// Outcome of a rule over some minutes of a day.
type Outcome struct {
	// Time is the mean prediction time in seconds, Worth the mean of performance per cost,
	// 1 ÷ (seconds · price of an hour).
	Time  float64 `json:"seconds"`
	Worth float64 `json:"perCost"`
	Moves int     `json:"moves"`
}

// Play the priced rule, by this model, from a minute to another; it begins in the cloud.
func (d Day) Play(m model.Model, from, to int) (Outcome, error) {
	r := rule{name: "priced", stays: -1, margin: margin, stay: stay, from: func(_ world, place, minute int) (float64, error) {
		return model.Predict(m, d.Features(Place(place), minute))
	}}
	if from < window || to > day || from >= to {
		return Outcome{}, fmt.Errorf("minutes from %d to %d: want %d to %d", from, to, window, day)
	}
	got, err := r.between(d.world, from, to)
	return Outcome{Time: got.time, Worth: got.worth / 60, Moves: got.moves}, err
}

// Stays is what it would have been never to leave a place.
func (d Day) Stays(p Place, from, to int) Outcome {
	got, _ := rule{stays: int(p)}.between(d.world, from, to) // who stays predicts nothing
	return Outcome{Time: got.time, Worth: got.worth / 60}
}
