package strategy

import (
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic/bandit"
)

// learn lets the learners among strategies, which are in order of precedence, take part: the
// last first, so that what the others want without it is known to each.
func (in Input) learn(all []decision, out *Output) {
	for i := len(all) - 1; i >= 0; i-- {
		d := &all[i]
		if d.program.learner == nil {
			continue
		}
		t := &turning{in: in, p: d.program, learner: d.program.learner, l: d.program.learner.know(in.last(d.state.Key).Learning)}
		held := t.turn(d.scope, in.without(all))
		if held != nil {
			out.find("StrategyHolds", d.state.Key, fmt.Sprintf("spec.learn: %v", held))
		}
		for _, name := range t.learner.policies {
			if !in.defined(name) {
				out.find("StrategyNotDone", d.state.Key, fmt.Sprintf("spec.learn.policies: there is no policy %s, so it is not tried", name))
			}
		}
		if t.l.Failed {
			out.find("RoundNotLearned", d.state.Key, t.l.Last)
		}
		out.States[d.at].Learning = t.l
		if a := t.action(); a != nil {
			a.Strategy = d.state.Key
			d.actions = append(d.actions, *a)
		}
	}
}

// without is the policy that would be in force with the actions that there are so far.
func (in Input) without(all []decision) string {
	if in.ByHand {
		return in.Policy
	}
	for _, d := range all {
		for _, a := range d.actions {
			if a.Kind == api.ActionSetPolicy && a.NotDone == "" && !d.shadow {
				if in.defined(a.Policy) {
					return a.Policy
				}
				return in.Policy // it is refused, and others don't come in its place
			}
		}
	}
	return in.Policy
}

func (in Input) defined(policy string) bool {
	return in.Policies == nil || slices.Contains(in.Policies, policy)
}

// keepLearned keeps what a strategy has learned that is Off, or, without a program, can't
// be used.
func (in Input) keepLearned(key api.Key, p *program, out *Output) {
	last := in.last(key).Learning
	if last == nil || p != nil && p.learner == nil {
		return
	}
	kept := *last
	if last.Round != nil {
		round := *last.Round
		pass(&round, in.Time)
		if round.Broken == "" {
			round.Broken = "it could not be used at " + stamp(in.Time)
		}
		kept.Round = &round
	}
	if p != nil {
		t := &turning{in: in, p: p, learner: p.learner, l: p.learner.know(last)}
		t.off()
		kept = *t.l
	}
	out.States = append(out.States, api.StrategyState{Key: key, Learning: &kept})
}

// turning is a learner in a cycle.
type turning struct {
	in      Input
	p       *program
	learner *learner
	l       *api.Learning
}

// turn ends the round if it is over or can't be learned from, and begins the next one. The
// error says why none can begin.
func (t *turning) turn(sc scope, baseline string) error {
	l, now := t.l, t.in.Time
	if r := l.Round; r != nil {
		seen := r.Seen
		gap := now.Sub(seen)
		pass(r, now)
		switch {
		case gap < 0:
			t.discard("the clock went back from "+stamp(seen)+" to "+stamp(now), false)
		case gap > t.learner.round/2:
			t.discard("nobody looked from "+stamp(seen)+" to "+stamp(now), false)
		case now.Sub(r.Until) > t.learner.round/4:
			t.discard("nobody looked when it ended, until "+stamp(now), false)
		case !now.Before(r.Until):
			t.end(sc)
		case r.Baseline != baseline:
			t.discard(fmt.Sprintf("without it %s would have been in force, and from %s on %s", r.Baseline, stamp(now), baseline), false)
		case !t.in.defined(r.Recommended):
			t.discard("there is no policy "+r.Recommended+" any more", false)
		default:
			return nil
		}
	}
	return t.begin(sc, baseline)
}

// pass notes the time since a round was last looked at.
func pass(r *api.LearningRound, now time.Time) {
	if gap := now.Sub(r.Seen); gap > 0 {
		if r.Done {
			r.Acted += gap
		}
		r.Seen = now
	}
}

// begin a round.
func (t *turning) begin(sc scope, baseline string) error {
	l, now := t.l, t.in.Time
	since := t.p.begins(now)
	until := since.Add(t.learner.round)
	if now.Sub(since) > t.learner.round/4 {
		l.Reason = fmt.Sprintf("it waits for the next round, which begins at %s", stamp(until))
		return nil
	}
	hold := func(err error) error {
		l.Reason = fmt.Sprintf("nothing is recommended: %v", err)
		return err
	}
	if !slices.Contains(t.learner.policies, baseline) {
		return hold(fmt.Errorf("policies: without it %s is in force, which is none of them", baseline))
	}
	context, err := t.learner.contextOf(sc)
	if err != nil {
		return hold(err)
	}
	c := t.learner.config
	for _, name := range t.learner.policies {
		if !t.in.defined(name) && name != baseline {
			c.Except = append(c.Except, name)
		}
	}
	choice, err := bandit.Choose(c, stateOf(l), context, baseline)
	if err != nil {
		return hold(err)
	}
	promise := func(name string) bandit.Option {
		return choice.Options[slices.IndexFunc(choice.Options, func(o bandit.Option) bool { return o.Policy == name })]
	}
	o := promise(choice.Recommended)
	l.Budget = choice.Budget
	l.Round = &api.LearningRound{
		Since: now, Until: until, Seen: now, Context: context, Baseline: baseline, Recommended: choice.Recommended,
		Expected: o.Expected, Lower: o.Lower, Upper: o.Upper, Acts: t.learner.act,
	}
	switch {
	case choice.Recommended != baseline:
		l.Reason = fmt.Sprintf("%s may earn more than %s: %s against %s", choice.Recommended, baseline, said(o), said(promise(baseline)))
	case choice.Margin < 0:
		l.Reason = fmt.Sprintf("%s stays, %s: to try another might cost more than %g %% of what it earns", baseline, said(o), 100*c.Alpha)
	default:
		l.Reason = fmt.Sprintf("%s stays, %s: no other may earn more", baseline, said(o))
	}
	l.Reason += fmt.Sprintf("; learned from %d rounds, not from %d; ", l.Learned, l.Discarded)
	if l.Budget > 0 {
		l.Reason += fmt.Sprintf("a reward of %.3g may be lost", l.Budget)
	} else {
		l.Reason += "nothing may be lost yet"
	}
	return nil
}

// said is what reward is expected of a policy. It is from 0 to 1, whatever the bounds are.
func said(o bandit.Option) string {
	if o.Lower <= 0 && o.Upper >= 1 {
		return "a reward not known yet"
	}
	in := func(v float64) float64 { return min(max(v, 0), 1) }
	return fmt.Sprintf("a reward of %.2f (%.2f to %.2f)", in(o.Expected), in(o.Lower), in(o.Upper))
}

// end a round: learn of the policy that was in force, if one was for all of it.
func (t *turning) end(sc scope) {
	r := t.l.Round
	if r.Broken == "" && r.InForce == "" {
		r.Broken = "it is not known which policy was in force"
	}
	if r.Broken != "" {
		t.discard(r.Broken, false)
		return
	}
	if !slices.Contains(t.learner.policies, r.InForce) {
		t.discard(r.InForce+" was in force, which is none of spec.learn.policies", true)
		return
	}
	reward, err := t.learner.reward.number(sc)
	if err == nil && (reward < 0 || reward > 1) {
		err = fmt.Errorf("it is %.4g, and must be from 0 to 1", reward)
	}
	if err != nil {
		t.discard(fmt.Sprintf("reward: %v", err), true)
		return
	}
	// Where somebody else put the policy in force, it is what was there anyway.
	baseline := r.InForce
	if r.Acted > 0 {
		baseline = r.Baseline
	}
	s, err := bandit.Learn(t.learner.config, stateOf(t.l), r.Context, r.InForce, baseline, reward)
	if err != nil {
		t.discard(err.Error(), true)
		return
	}
	adopt(t.l, s)
	t.l.Learned++
	t.l.Last, t.l.Failed = fmt.Sprintf("the round of %s earned %.2f with %s", stamp(r.Since), reward, r.InForce), false
	t.l.Round = nil
}

// discard a round: nothing is learned of it. As far as the strategy's own choice was in
// force, that counts against the bound all the same.
func (t *turning) discard(why string, failed bool) {
	r := t.l.Round
	if r.Acted > 0 {
		part := min(1, float64(r.Acted)/float64(t.learner.round))
		x := slices.Clone(r.Context)
		for i := range x {
			x[i] *= part
		}
		if s, err := bandit.Count(t.learner.config, stateOf(t.l), x, r.Recommended, r.Baseline); err == nil {
			adopt(t.l, s)
		}
	}
	t.l.Discarded++
	t.l.Last, t.l.Failed = fmt.Sprintf("the round of %s taught nothing: %s", stamp(r.Since), why), failed
	t.l.Round = nil
}

// off ends the round of a strategy that is Off.
func (t *turning) off() {
	if r := t.l.Round; r != nil {
		pass(r, t.in.Time)
		t.discard("the strategy was turned off", false)
	}
	t.l.Failed, t.l.Reason = false, "mode is Off; what was learned is kept"
}

// action of the round; nil where the baseline stays.
func (t *turning) action() *api.StrategyAction {
	r := t.l.Round
	if r == nil || r.Recommended == r.Baseline {
		return nil
	}
	a := &api.StrategyAction{Rule: learning, Kind: api.ActionSetPolicy, Policy: r.Recommended, Since: r.Since, Reason: t.l.Reason}
	switch {
	case !t.learner.act:
		a.NotDone = "it is a recommendation: spec.learn.act is false"
	case !r.Acts:
		a.NotDone = "it was a recommendation when the round began at " + stamp(r.Since)
	}
	return a
}

// held notes for each round which policy is in force from now on, and whether that is its
// strategy's doing.
func (o *Output) held(policy string, paused bool) {
	for _, s := range o.States {
		done := slices.ContainsFunc(o.Actions, func(a api.StrategyAction) bool {
			return a.Strategy == s.Key && a.Rule == learning && a.NotDone == ""
		})
		note(s.Learning, policy, done, paused)
	}
}

// recorded is held where a policy was in force whatever strategies want.
func (o *Output) recorded(policy string) {
	for _, s := range o.States {
		note(s.Learning, policy, false, false)
	}
}

func note(l *api.Learning, policy string, done, paused bool) {
	if l == nil || l.Round == nil {
		return
	}
	r := l.Round
	switch {
	case r.InForce == "":
		r.InForce = policy
	case r.InForce != policy && r.Broken == "":
		r.Broken = fmt.Sprintf("%s was in force, and from %s on %s", r.InForce, stamp(r.Seen), policy)
	}
	if paused && r.Broken == "" {
		r.Broken = "mash2 was paused at " + stamp(r.Seen)
	}
	r.Done = done
}
