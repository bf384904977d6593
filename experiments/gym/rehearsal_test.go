package gym

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/mash2-io/mash2/planning/vertical"
	"github.com/mash2-io/mash2/planning/vertical/rehearsal"
)

// service is a world that goes on: its load is split anew every 20 seconds or so.
func service(seed uint64, every int) *world {
	w := &world{}
	w.reset(rand.New(rand.NewPCG(seed, 5)))
	w.Every, w.changes, w.joins, w.leaves = every, [2]int{-1, -1}, -1, -1
	if every > 1 {
		w.Config.Stale = time.Minute
	}
	return w
}

// live lets a planner decide for so many seconds, and returns the mean response time of requests
// by their pods' priority; each tick is recorded before.
func (w *world) live(p vertical.Planner, seconds int, r *rehearsal.Recording) float64 {
	var slow, all float64
	for range seconds {
		if r != nil {
			r.Add(w.Input(), time.Second)
		}
		w.Decide(p)
		if w.Rng.IntN(20) == 0 {
			w.split()
		}
		w.advance()
		for i := range w.States {
			weight := w.States[i].Rate * w.Pods[i].Priority
			slow, all = slow+weight*w.States[i].Response, all+weight
		}
	}
	return slow / max(all, 1e-9)
}

// TestRehearsal: a planner that is better in a world passes the rehearsal that is calibrated to
// it, one that is worse doesn't; and what is foretold is about what happens. The calibration
// sees what a cluster shows: limits and usage.
func TestRehearsal(t *testing.T) {
	const worlds = 60
	for _, c := range []struct {
		name          string
		planner, rule vertical.Planner
		every         int
		least, most   float64 // share that passes
	}{
		{"spread against threshold", vertical.DefaultRule(), vertical.DefaultThreshold(), 1, 0.8, 1},
		{"spread against threshold, readings every 15 s", vertical.DefaultRule(), vertical.DefaultThreshold(), 15, 0.3, 1},
		{"threshold against spread", vertical.DefaultThreshold(), vertical.DefaultRule(), 1, 0, 0.02},
		{"nothing for anybody against spread", starve{}, vertical.DefaultRule(), 1, 0, 0},
		{"the same", same{vertical.DefaultRule()}, vertical.DefaultRule(), 1, 0, 0.2},
	} {
		t.Run(c.name, func(t *testing.T) {
			passed, worse := 0, 0
			var foretold, happened, off, work []float64
			for seed := range uint64(worlds) {
				config := rehearsal.DefaultConfig()
				w, r := service(seed, c.every), &rehearsal.Recording{}
				for !r.Enough(config) {
					w.live(c.rule, 10, r)
				}
				out := rehearsal.Of(config, w.Config, r, c.planner, c.rule, seed)
				// What both do here from now on.
				ours, theirs := service(seed, c.every).live(c.planner, 1200, nil), service(seed, c.every).live(c.rule, 1200, nil)
				gain := 1 - ours/theirs
				foretold, happened, off = append(foretold, out.Gain), append(happened, gain), append(off, math.Abs(out.Error))
				work = append(work, math.Log(out.Work/w.Work))
				if out.Passed {
					if passed++; gain < -0.02 {
						worse++
					}
				}
			}
			share := float64(passed) / worlds
			t.Logf("%d of %d pass, %d of them worse; foretold a gain of %+.0f %%, happened %+.0f %%; correlation %.2f; cost off by %.3f; work of a request: bias ×%.2f",
				passed, worlds, worse, 100*stat.Mean(foretold, nil), 100*stat.Mean(happened, nil), stat.Correlation(foretold, happened, nil), stat.Mean(off, nil), math.Exp(stat.Mean(work, nil)))
			if share < c.least || share > c.most {
				t.Errorf("%.0f %% pass, want %.0f to %.0f %%", 100*share, 100*c.least, 100*c.most)
			}
		})
	}
}

type starve struct{}

func (starve) Name() string                   { return "starve" }
func (starve) Propose(*vertical.View) float64 { return 0 }

// same is a rule that moves what it asks for up or down by a few millicores, for no reason.
type same struct{ vertical.Planner }

func (s same) Propose(v *vertical.View) float64 {
	limit := s.Planner.Propose(v)
	return limit + math.Mod(1000*v.Usage, 7) - 3
}
