package scalingops

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/mash2-io/mash2/planning/rl"
)

// InUse is the name of the model that is in use, beside the candidates that learn on from it.
const InUse = "in-use"

// onward is the world as a model in use sees it: what it learned holds for its own scales.
// What a request takes is as in the history of now.
func (w World) onward(from rl.Model) (World, error) {
	same := func(a, b rl.Input) bool { return a.Name == b.Name }
	switch {
	case from.Environment != Environment:
		return w, fmt.Errorf("%w: the model to go on from is of %s, not of %s", ErrOptions, from.Environment, Environment)
	case !slices.EqualFunc(from.Inputs, w.Inputs, same) || !reflect.DeepEqual(from.Policy.Actions, w.Spec().Actions):
		return w, fmt.Errorf("%w: the model to go on from sees or does something else than agents of %s", ErrOptions, Environment)
	}
	w.Inputs = slices.Clone(w.Inputs)
	for i := range w.Inputs {
		w.Inputs[i].Scale = from.Inputs[i].Scale
	}
	return w, nil
}

// adopt names the first candidate of the ranking that is better than the model in use by more
// than chance, on stretches that neither was trained on: fewer pods, and neither late more
// often nor slower; or a higher score, where a weight of saving was stated. Empty is to keep
// what is in use.
func (r *Result) adopt(stated bool) (name, why string) {
	used := r.InUse
	for _, name := range r.Ranking {
		c := r.Candidates[slices.IndexFunc(r.Candidates, func(c Candidate) bool { return c.Name == name })]
		switch {
		case c.Boundary || above(c.late, used.late):
		case stated && above(c.scores, used.scores):
			return name, fmt.Sprintf("%s scores %.2f, the model in use %.2f", name, c.Score.Mean, used.Score.Mean)
		case !stated && above(used.pods, c.pods) && !above(c.delays, used.delays):
			return name, fmt.Sprintf("%s takes %.2f pods, the model in use %.2f, and is not slower", name, c.Pods.Mean, used.Pods.Mean)
		}
	}
	return "", "no candidate is better than the model in use by more than chance: keep it"
}
