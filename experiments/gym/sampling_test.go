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
		w.Every, w.Config.Stale = every, 2*time.Minute
		w.changes, w.joins, w.leaves = [2]int{200, 400}, -1, -1
		for w.Second <= 600 {
			w.Decide(p)
			w.advance()
			for i := range w.States {
				requests, slow = requests+w.States[i].Rate, slow+w.States[i].Rate*w.States[i].Response
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

// told is a planner that is told what each pod's load truly is, as of so many seconds ago, without
// noise, and what waits; it gives that out as the default rule does.
type told struct {
	w    *world
	late int
	past []map[string]float64 // by second: millicores that each pod needs
}

func (*told) Name() string { return "told" }

// Propose implements vertical.Planner.
func (p *told) Propose(v *vertical.View) float64 {
	if len(p.past) < p.w.Second { // the first pod of this second
		now, sum := map[string]float64{}, 0.0
		for _, weight := range p.w.weights {
			sum += weight
		}
		for i := range p.w.Pods {
			now[p.w.Pods[i].ID] = 1000 * (p.w.load*p.w.weights[i]/sum*p.w.Work + p.w.States[i].Backlog)
		}
		p.past = append(p.past, now)
	}
	rule := vertical.DefaultRule()
	knows := p.past[max(0, len(p.past)-1-p.late)]
	needs, ok := knows[v.ID]
	if !ok {
		return rule.Propose(v)
	}
	var all float64
	for _, x := range knows {
		all += x
	}
	return needs/rule.Target + max(0, float64(v.Budget)-all/rule.Target)/float64(len(knows))
}

// TestLittleIsLeftToLearn: whoever would know the true loads of a second ago, which is as soon as
// they can be read, answers no sooner than the default rule. What is left is to know a
// change of load before it comes.
func TestLittleIsLeftToLearn(t *testing.T) {
	play := func(planner func(*world) vertical.Planner) float64 {
		var requests, slow float64
		var w world
		for e := range 1000 {
			w.reset(rand.New(rand.NewPCG(41, uint64(e))))
			p := planner(&w)
			for w.Second <= marliseLimit {
				w.Decide(p)
				w.advance()
				for i := range w.States {
					requests, slow = requests+w.States[i].Rate, slow+w.States[i].Rate*w.States[i].Response
				}
			}
		}
		return 1000 * slow / requests
	}
	rule := play(func(*world) vertical.Planner { return vertical.DefaultRule() })
	var late [3]float64
	for i := range late {
		late[i] = play(func(w *world) vertical.Planner { return &told{w: w, late: i} })
	}
	t.Logf("the default rule %.0f ms; told the truth at once %.0f ms, a second late %.0f, two %.0f", rule, late[0], late[1], late[2])
	if rule > 1.05*late[1] {
		t.Errorf("the rule takes %.0f ms, who knows the loads of a second ago %.0f", rule, late[1])
	}
}
