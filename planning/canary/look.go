package canary

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// ControlOf is the control of a canary; false if it has none that counts.
func (t Trial) ControlOf(key api.Key) (api.Key, bool) {
	for _, p := range t.Pairs {
		if p.counts() && p.Canary.Key == key {
			return p.Control.Key, true
		}
	}
	return api.Key{}, false
}

// Excess is by how many error budgets more of the canaries' events were bad than of their
// controls', less what it was before, counting up to Burn error budgets a block.
func (t Trial) Excess() float64 { return t.excess(func(m Mean) float64 { return Burn * m.mean() }) }

// whole is the same where all bad events of the trial count. Those of the baseline don't: it
// is short, and a few bad minutes in it would say what they like.
func (t Trial) whole() float64 { return t.excess(Mean.all) }

func (t Trial) excess(of func(run Mean) float64) float64 {
	var sum float64
	n := 0
	for i := range t.Pairs {
		if p := &t.Pairs[i]; p.Run.N > 0 {
			sum, n = sum+of(p.Run)-Burn*p.Base.mean(), n+1
		}
	}
	return sum / float64(max(n, 1))
}

// thinnest is the pair of which there is the least evidence, of those that count: one does.
func (t Trial) thinnest() Pair {
	return slices.MinFunc(slices.DeleteFunc(slices.Clone(t.Pairs), func(p Pair) bool { return !p.counts() }),
		func(a, b Pair) int { return cmp.Compare(a.Known, b.Known) })
}

// silent is a pair of which the canary was, or is, without events for too long beside a control
// that had some; nil if there is none.
func (t Trial) silent() *Pair {
	for i := range t.Pairs {
		if p := &t.Pairs[i]; p.counts() && (p.Mute || float64(p.Silent) > (p.Quiet+quiet)*float64(t.Known+t.Unknown)) {
			return p
		}
	}
	return nil
}

// off is by how many error budgets what pairs differed by in the baseline may be another.
func (t Trial) off() float64 {
	var sum, n float64
	for _, p := range t.Pairs {
		if p.counts() {
			sum, n = sum+p.Base.apart()*p.Base.apart(), n+1
		}
	}
	return Burn * math.Sqrt(sum) / max(1, n)
}

// Cost is what canaries request for what they use, over the same of their controls, both
// relative to the baseline: the geometric mean over pairs. It is false if not known.
func (t Trial) Cost() (ratio float64, ok bool) {
	var sum float64
	n := 0
	for i := range t.Pairs {
		p := &t.Pairs[i]
		r := p.Canary.dearer() / p.Control.dearer()
		if p.counts() && r > 0 && known(r) {
			sum, n = sum+math.Log(r), n+1
		}
	}
	if n == 0 {
		return 0, false
	}
	return math.Exp(sum / float64(n)), true
}

// dearer is what an arm requests for what it uses, over the same before.
func (a Arm) dearer() float64 {
	return a.Run.Requested / a.Run.Used / (a.Base.Requested / a.Base.Used)
}

// Look is the trial as people see it: what is the same for all of its workloads is worked
// out once.
type Look struct {
	plan  api.CanaryPlan
	roles map[api.Key]role
	kept  map[api.Key]int32
}

type role struct {
	api.CanaryRole
	with string
}

// Look at the trial.
func (t Trial) Look(rules Rules) Look {
	l := Look{
		roles: make(map[api.Key]role, 2*len(t.Pairs)), kept: make(map[api.Key]int32, len(t.Kept)),
		plan: api.CanaryPlan{
			Phase: t.Phase, Role: api.CanaryNone, Since: t.Since, Waits: t.Why, Needed: 1 / rules.Defaulted().Alpha,
			Worse: t.Worse.Wealth(true), Fine: t.Fine.Wealth(false), Excess: t.Excess(), Known: time.Duration(t.Known) * rules.Block,
		},
	}
	for i := range t.Pairs {
		p := &t.Pairs[i]
		if !p.counts() {
			continue
		}
		l.plan.Pairs++
		l.roles[p.Canary.Key] = role{api.CanaryCanary, p.Control.Key.Name}
		l.roles[p.Control.Key] = role{api.CanaryControl, p.Canary.Key.Name}
	}
	for _, k := range t.Kept {
		l.kept[k.Key] = k.Replicas
	}
	if c, ok := t.Cost(); ok {
		l.plan.Cost = &c
	}
	return l
}

// Plan is what is known of the trial, for one of its workloads. It acts where the trial lets
// mash2 act for that.
func (l Look) Plan(key api.Key) *api.CanaryPlan {
	out := l.plan
	if r, ok := l.roles[key]; ok {
		out.Role, out.With = r.CanaryRole, r.with
	}
	out.Acts = out.Phase == api.CanaryPromoted || out.Phase == api.CanaryRunning && out.Role == api.CanaryCanary
	return &out
}

// Kept is what a canary of a trial that was stopped is to have at least; 0 for others.
func (l Look) Kept(key api.Key) int32 { return l.kept[key] }
