package gym

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/planning/vertical"
)

// meanResponse of all requests, in milliseconds, in ten minutes of 100 worlds in which usage
// is read every so many seconds, as metrics.k8s.io does it; the load is split anew twice.
func meanResponse(p vertical.Planner, every int) float64 {
	var requests, slow float64
	var w world
	for e := range 100 {
		w.reset(rand.New(rand.NewPCG(9, uint64(e))))
		w.every, w.config.Stale = every, 2*time.Minute
		w.changes, w.joins, w.leaves = [2]int{200, 400}, -1, -1
		for w.second <= 600 {
			w.decide(p)
			w.advance()
			for i := range w.state {
				requests, slow = requests+w.state[i].rate, slow+w.state[i].rate*w.state[i].response
			}
		}
	}
	return 1000 * slow / requests
}

// TestRuleAtAnySampling: with readings every second as with readings every half a minute the
// default rule answers sooner than the threshold rule, and than equal limits.
func TestRuleAtAnySampling(t *testing.T) {
	for _, every := range []int{1, 5, 15, 30} {
		fixed, threshold, rule := meanResponse(vertical.Fixed{}, every), meanResponse(vertical.DefaultThreshold(), every), meanResponse(vertical.DefaultRule(), every)
		t.Logf("every %2d s: %.0f ms with equal limits, %.0f by the threshold rule, %.0f by the default rule", every, fixed, threshold, rule)
		if rule > 0.95*threshold || rule > 0.95*fixed {
			t.Errorf("every %d s: %.0f ms, with equal limits %.0f, by the threshold rule %.0f", every, rule, fixed, threshold)
		}
	}
}
