package rest

import (
	"testing"

	"github.com/mash2-io/mash2/api"
)

// TestStrategyViews: the sums that are learned by stay in the cycle and are not shown.
func TestStrategyViews(t *testing.T) {
	states := []api.StrategyState{
		{Key: api.Key{Name: "a"}},
		{Key: api.Key{Name: "b"}, Learning: &api.Learning{Reason: "r", Arms: []api.LearnedArm{{Policy: "A", Rounds: 3, Gram: []float64{3}, Sum: []float64{1}, Kept: []float64{3}}}}},
	}
	got := strategyViews(states)
	if l := got[1].Learning; got[0].Learning != nil || l.Reason != "r" || len(l.Arms) != 1 || l.Arms[0].Rounds != 3 || l.Arms[0].Gram != nil || l.Arms[0].Kept != nil {
		t.Errorf("%+v", got)
	}
	if states[1].Learning.Arms[0].Gram == nil {
		t.Error("the cycle was changed")
	}
}
