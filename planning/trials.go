package planning

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/canary"
)

// Reasons of findings about trials of workloads in mode Canary.
const (
	ReasonCanaryBegan     = "CanaryBegan"
	ReasonCanaryPromoted  = "CanaryPromoted"
	ReasonCanaryStopped   = "CanaryStopped"
	ReasonCanaryWaiting   = "CanaryWaiting"   // for workloads that can be compared
	ReasonCanaryRestarted = "CanaryRestarted" // by a person, or as no pair is left
)

// trials goes on with those of workloads in mode Canary, one a namespace, and says of each
// workload whether mash2 acts for it.
//
// Nobody has two writers: where somebody else sets the replicas mash2 plans as in Shadow,
// whatever the trial says. Nobody has none either: where they were handed over to mash2,
// and it may not act by a plan of its own, it follows the reactive rule as an HPA would.
func (c *cycle) trials() {
	c.untried = map[api.Key]*KeptScale{}
	for from := 0; from < len(c.managed); {
		namespace := c.managed[from].workload.Key.Namespace
		to := from
		joined := false
		for ; to < len(c.managed) && c.managed[to].workload.Key.Namespace == namespace; to++ {
			joined = joined || c.managed[to].workload.Mode == api.ModeCanary
		}
		if joined {
			c.try(namespace, c.managed[from:to])
		}
		from = to
	}
}

// try goes on with the trial of a namespace.
func (c *cycle) try(namespace string, managed []managed) {
	before := trialOf(c.before.Trials, namespace)
	rules := c.rules()
	trial := before.Step(c.s.Time, members(managed, before.Due(c.s.Time, rules)), rules)
	c.memory.Trials = append(c.memory.Trials, trial) // in order, as workloads are
	look := trial.Look(rules)
	for i := range managed {
		mw := &managed[i]
		key := mw.workload.Key
		plan := look.Plan(key)
		if mw.workload.Mode != api.ModeCanary {
			if plan.Role == api.CanaryControl {
				plan.Acts = false
				mw.trial = plan
			}
			continue
		}
		mw.joined, mw.trial = true, plan
		plan.Acts = plan.Acts && mw.workload.Contested == ""
		switch {
		case mw.trial.Acts:
			mw.workload.Mode = api.ModeFull
		case mw.workload.Contested == "" && (mw.workload.HandedOver || look.Kept(key) > 0):
			mw.workload.Mode = api.ModeFull
			c.untried[key] = &KeptScale{Key: key, Replicas: look.Kept(key)}
		default:
			mw.workload.Mode = api.ModeShadow
		}
		c.tellTrial(mw, before.Phase, trial)
	}
}

// rules of trials now.
func (c *cycle) rules() canary.Rules {
	r := canary.Rules{CanaryPolicy: c.p.Canary, Block: c.Config.CanaryBlock}
	switch {
	case c.p.Canary.Paused:
		r.Paused = "nothing is learnt while mash2 is paused"
	case c.before.Rollback != nil:
		r.Paused = "nothing is learnt while the whole plan is taken back"
	}
	return r
}

// trialOf is the trial of a group, a new one if there is none.
func trialOf(trials []canary.Trial, group string) canary.Trial {
	i, ok := slices.BinarySearchFunc(trials, group, func(t canary.Trial, g string) int { return cmp.Compare(t.Group, g) })
	if !ok {
		return canary.Trial{Group: group}
	}
	return trials[i]
}

// members are the workloads of a namespace as a trial sees them; where they are due with the
// readings of their SLOs, up to the last cycle.
func members(managed []managed, due bool) (out []canary.Member) {
	for i := range managed {
		mw := &managed[i]
		w := mw.workload
		if w.Mode != api.ModeCanary && w.Mode != api.ModeShadow {
			continue
		}
		m := canary.Member{
			Key: w.Key, Joined: w.Mode == api.ModeCanary, Bar: w.Contested, Gone: w.Hold,
			Demand: w.Demand, Replicas: w.Replicas, Restarted: w.CanaryRestarted,
		}
		if w.HoldReason == api.ReasonScaledToZero {
			m.Gone = "" // it may be back in the morning; until then it has no events, which prove nothing
		}
		if w.DemandStale {
			m.Demand = api.Series{}
		}
		for _, pod := range mw.pods {
			if !pod.Terminating && pod.Shape != nil {
				m.Requested += float64(pod.Shape.Requests.MilliCPU)
			}
		}
		for _, s := range w.SLOs {
			o := canary.Objective{Target: s.Objective}
			for _, known := range mw.memory.SLOs {
				if !due || known.Name != s.Name {
					continue
				}
				for _, r := range known.Counts {
					o.Readings = append(o.Readings, canary.Reading(r))
				}
			}
			m.Objectives = append(m.Objectives, o)
		}
		out = append(out, m)
	}
	return out
}

// tellTrial says what people should know of a workload's trial.
func (c *cycle) tellTrial(mw *managed, before api.CanaryPhase, trial canary.Trial) {
	key := mw.workload.Key
	find := func(severity api.FindingSeverity, reason, message string) {
		c.find(severity, api.WorkloadPlanningAgent, reason, api.WorkloadRef(key), message)
	}
	turned := before != trial.Phase
	switch trial.Phase {
	case api.CanaryWaiting:
		find(api.Normal, ReasonCanaryWaiting, "no trial can begin: "+trial.Why)
	case api.CanaryBaseline:
		if turned && (before == api.CanaryRunning || before == api.CanaryPromoted || before == api.CanaryStopped) {
			find(api.Normal, ReasonCanaryRestarted, "another trial begins: a person asked for it, or no pair of the last one was left")
		}
	case api.CanaryRunning:
		if turned {
			find(api.Normal, ReasonCanaryBegan, fmt.Sprintf("the trial of %d pairs runs; the workload's role in it is %s", mw.trial.Pairs, mw.trial.Role))
		}
	case api.CanaryPromoted:
		if turned {
			find(api.Normal, ReasonCanaryPromoted, trial.Why)
		}
		if why := mw.workload.Contested; why != "" {
			find(api.Warning, api.ReasonConflict, "the trial is passed, but mash2 doesn't act for it: "+why+"; hand it over by mash2 adopt take-over")
		}
	case api.CanaryStopped:
		find(api.Warning, ReasonCanaryStopped, fmt.Sprintf(
			"the trial was stopped at %s: %s. mash2 plans nothing for the workloads in mode Canary until a person sets another mode, or the annotation %s to a later time",
			trial.Since.UTC().Format("2006-01-02T15:04:05Z07:00"), trial.Why, api.AnnotationCanaryRestarted))
	}
}

// running reports whether a workload is a canary that is acted for, in a trial that is not
// decided.
func (mw *managed) running() bool {
	return mw.trial != nil && mw.trial.Acts && mw.trial.Phase == api.CanaryRunning
}

// band is by how much a canary may have more than the reactive rule; 0 for no limit.
func (c *cycle) band(mw *managed) float64 {
	if !mw.running() {
		return 0
	}
	return c.p.Canary.Band
}

// alsoBurns names the control of a canary if an objective of it burns as well; empty if
// not, or if the workload is no canary.
func (c *cycle) alsoBurns(key api.Key) string {
	control, ok := trialOf(c.memory.Trials, key.Namespace).ControlOf(key)
	if !ok {
		return ""
	}
	for i := range c.managed {
		mw := &c.managed[i]
		if mw.workload.Key == control && slices.ContainsFunc(mw.slos, func(s api.SLOPlan) bool { return s.Verdict == api.SLOBurning }) {
			return control.Name
		}
	}
	return ""
}

// stopCanary stops the trial of a canary of which an objective burns since something was
// given up, instead of taking everybody's plan back; it reports whether it is one. Canaries
// get what they had before the trial, while the objective was kept, or have now, whichever
// is the most.
func (c *cycle) stopCanary(mw *managed, then RolledBack, why string) bool {
	if !mw.running() {
		return false
	}
	i := slices.IndexFunc(c.memory.Trials, func(t canary.Trial) bool { return t.Group == mw.workload.Key.Namespace })
	trial := &c.memory.Trials[i]
	before := trial.Phase
	trial.Stop(c.s.Time, fmt.Sprintf("SLO of canary %s burns, and that of its control doesn't: %s", mw.workload.Key.Name, why))
	for j := range trial.Kept {
		k := &trial.Kept[j]
		for _, s := range then.Scales {
			if s.Key == k.Key {
				k.Replicas = max(k.Replicas, s.Replicas)
			}
		}
	}
	look := trial.Look(c.rules())
	for j := range c.managed {
		other := &c.managed[j]
		if other.trial == nil || other.workload.Key.Namespace != trial.Group {
			continue
		}
		acted := other.trial.Acts
		other.trial = look.Plan(other.workload.Key)
		if acted { // it is mash2's to write since
			c.untried[other.workload.Key] = &KeptScale{Key: other.workload.Key, Replicas: look.Kept(other.workload.Key)}
		}
		if other.joined {
			c.tellTrial(other, before, *trial)
		}
	}
	return true
}
