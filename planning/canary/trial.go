package canary

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

const (
	// Burn is up to how many error budgets bad events count: 14.4 is the burn rate of a
	// page in The Site Reliability Workbook, ch. 5.
	Burn = 14.4
	// carried is for how many blocks events of a pair are gathered that are too few.
	carried = 30
	// cover is the least share of the time asked for of which there is evidence.
	cover = 0.6
	// leastBaseline are the fewest blocks from which a pair's difference is known.
	leastBaseline = 5
	// apart is how many standard errors the difference of the baseline may be off.
	apart = 2
	// skew is how far a person's clock may be ahead.
	skew = time.Minute
	// quiet is in which share of the blocks a canary may be without events beside a control
	// that has some, besides those in which it was so in the baseline.
	quiet = 0.01
)

// Trial is what is remembered of a group's trial.
type Trial struct {
	// Group is the namespace.
	Group string          `json:"group"`
	Phase api.CanaryPhase `json:"phase"`
	// Since is when the phase began, and At the newest block.
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
	Pairs []Pair    `json:"pairs,omitempty"`
	// Known and Unknown are the blocks of the phase with evidence of some pair, and
	// without.
	Known   int `json:"known,omitempty"`
	Unknown int `json:"unknown,omitempty"`
	// Worse bets that canaries are worse than they may be, Fine that they are not; both by so
	// many error budgets.
	Worse  Bets    `json:"worse,omitzero"`
	Fine   Bets    `json:"fine,omitzero"`
	Margin float64 `json:"margin,omitempty"`
	// Kept is what canaries are to have, at least, of a trial that was stopped.
	Kept []Kept `json:"kept,omitempty"`
	// Why says what the trial waits for, or why it ended.
	Why string `json:"why,omitempty"`
}

// Kept are replicas of a workload.
type Kept struct {
	Key      api.Key `json:"key"`
	Replicas int32   `json:"replicas"`
}

// Pair is a canary and its control.
type Pair struct {
	Canary  Arm `json:"canary"`
	Control Arm `json:"control"`
	// Distance is how unlike they were, 0 for twins.
	Distance float64 `json:"distance"`
	// Began is when events were last counted anew.
	Began time.Time `json:"began,omitzero"`
	// Base and Run are canary less control, of the baseline and of the trial.
	Base Mean `json:"base,omitzero"`
	Run  Mean `json:"run,omitzero"`
	// Known is of how much of the trial there is evidence.
	Known time.Duration `json:"known,omitempty"`
	// Silent are the blocks of the phase in which the control had events and the canary none,
	// and Mute tells that the newest one is so. Quiet is what share of the baseline was.
	Silent int     `json:"silent,omitempty"`
	Mute   bool    `json:"mute,omitempty"`
	Quiet  float64 `json:"quiet,omitempty"`
	// Lost is why the pair counts no longer; empty if it does.
	Lost string `json:"lost,omitempty"`
}

// Arm is one of a pair.
type Arm struct {
	Key api.Key `json:"key"`
	// Counted is the end of the newest reading that was counted.
	Counted time.Time `json:"counted,omitzero"`
	// Before is how many replicas it had when the trial began to run.
	Before int32 `json:"before,omitempty"`
	// Base and Run are what pods requested over what they used.
	Base Amount `json:"base,omitzero"`
	Run  Amount `json:"run,omitzero"`
}

// Mean of some values.
type Mean struct {
	N       int     `json:"n"`
	Sum     float64 `json:"sum"`
	Squares float64 `json:"squares"`
	// All is the sum of the same in error budgets, of which none are too many to count.
	All float64 `json:"all,omitempty"`
}

func (m Mean) with(x, all float64) Mean {
	return Mean{m.N + 1, m.Sum + x, m.Squares + x*x, m.All + all}
}

func (m Mean) mean() float64 {
	if m.N == 0 {
		return 0
	}
	return m.Sum / float64(m.N)
}

// all is the mean in error budgets.
func (m Mean) all() float64 { return m.All / float64(max(m.N, 1)) }

// apart is how far the mean may be off.
func (m Mean) apart() float64 {
	if m.N < 2 {
		return 1
	}
	n := float64(m.N)
	return apart * math.Sqrt(max(0, m.Squares/n-m.mean()*m.mean())/(n-1))
}

// Amount of CPU that was requested and used, millicores times cycles.
type Amount struct {
	Requested float64 `json:"requested"`
	Used      float64 `json:"used"`
}

// Rules of a trial, and how long a block is.
type Rules struct {
	api.CanaryPolicy
	Block time.Duration
	// Paused is why nothing can be learnt now; empty if it can.
	Paused string
}

// Step is a cycle of the trial: with the members of its group, and those beside it that
// can be controls, in order of key. A group without joined members has no trial.
func (t Trial) Step(now time.Time, members []Member, rules Rules) Trial {
	rules.CanaryPolicy = rules.Defaulted()
	for _, m := range members {
		if m.Joined && m.Restarted.After(t.Since) && !m.Restarted.After(now.Add(skew)) && t.Phase != api.CanaryWaiting && t.Phase != "" {
			t = Trial{Group: t.Group}
			break
		}
	}
	t.At, t.Since = earlier(t.At, now), earlier(t.Since, now)
	switch t.Phase {
	case api.CanaryBaseline, api.CanaryRunning:
		t.Pairs = slices.Clone(t.Pairs)
		for i := range t.Pairs {
			if p := &t.Pairs[i]; p.Began.After(now) {
				p.restart(now)
			}
		}
		if t.Phase == api.CanaryRunning && t.Margin != rules.WorseBy {
			// What is proven of one margin says nothing of another.
			t.Worse, t.Fine, t.Margin = Bets{}, Bets{}, rules.WorseBy
		}
		t.lose(members)
		if !slices.ContainsFunc(t.Pairs, Pair.counts) {
			t = Trial{Group: t.Group} // and another one begins
			break
		}
		t.spend(members, rules)
		if t.Due(now, rules) {
			t.block(now, members, rules)
		}
		t.judge(now, members, rules)
		return t
	case api.CanaryPromoted, api.CanaryStopped:
		return t
	}
	t.begin(now, members, rules)
	return t
}

// earlier is a time, or now where that is earlier: a clock of before was wrong.
func earlier(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// Due reports whether the next step reads the objectives of members.
func (t Trial) Due(now time.Time, rules Rules) bool {
	return (t.Phase == api.CanaryBaseline || t.Phase == api.CanaryRunning) && now.Sub(t.At) >= rules.Block
}

// begin makes pairs, if it can.
func (t *Trial) begin(now time.Time, members []Member, rules Rules) {
	if t.Phase != api.CanaryWaiting {
		t.Phase, t.Since = api.CanaryWaiting, now
	}
	joined := 0
	for _, m := range members {
		if m.Joined {
			joined++
		}
	}
	most := max(1, int(math.Round(rules.Share*float64(joined))))
	t.Pairs = matched(members, most, t.Group+" "+now.UTC().Format(time.RFC3339Nano))
	if len(t.Pairs) == 0 {
		t.Why = waits(members)
		return
	}
	t.Phase, t.Since, t.At = api.CanaryBaseline, now, now
	for i := range t.Pairs {
		t.Pairs[i].restart(now)
	}
	t.Why = fmt.Sprintf("how much canaries and controls differ anyway is measured for %v", rules.Baseline)
}

// waits says why there are no pairs.
func waits(members []Member) string {
	able, measured, bar := 0, 0, ""
	for _, m := range members {
		if m.Gone == "" && m.budget() > 0 {
			measured++
			if canBe(m) {
				able++
			} else if m.Joined && bar == "" {
				bar = fmt.Sprintf("; %s: %s", m.Key.Name, m.Bar)
			}
		}
	}
	switch {
	case measured < 2:
		return fmt.Sprintf("a canary and a control need an SLO each (spec.slos); %d of the workloads in mode Canary or Shadow have one that can be read", measured)
	case able == 0:
		return "no workload in mode Canary with an SLO can be acted on" + bar
	}
	return fmt.Sprintf("no two workloads are alike enough: requests and error budgets may differ by a factor of %d", unlike)
}

// restart counts anew from a time.
func (p *Pair) restart(now time.Time) {
	p.Began, p.Canary.Counted, p.Control.Counted = now, now, now
}

// counts reports whether a pair still counts.
func (p Pair) counts() bool { return p.Lost == "" }

// lose drops pairs of which one is no longer what it was.
func (t *Trial) lose(members []Member) {
	for i := range t.Pairs {
		p := &t.Pairs[i]
		if p.Lost != "" {
			continue
		}
		canary, ok := find(members, p.Canary.Key)
		control, there := find(members, p.Control.Key)
		switch {
		case !ok || !canary.Joined:
			p.Lost = fmt.Sprintf("%s is no longer in mode Canary", p.Canary.Key.Name)
		case canary.Bar != "":
			p.Lost = fmt.Sprintf("%s can't be acted on: %s", p.Canary.Key.Name, canary.Bar)
		case canary.Gone != "":
			p.Lost = fmt.Sprintf("%s: %s", p.Canary.Key.Name, canary.Gone)
		case !there:
			p.Lost = fmt.Sprintf("%s is no longer in mode Canary or Shadow", p.Control.Key.Name)
		case control.Gone != "":
			p.Lost = fmt.Sprintf("%s: %s", p.Control.Key.Name, control.Gone)
		}
	}
}

func find(members []Member, key api.Key) (Member, bool) {
	i, ok := slices.BinarySearchFunc(members, key, func(m Member, k api.Key) int {
		return cmp.Or(cmp.Compare(m.Key.Namespace, k.Namespace), cmp.Compare(m.Key.Name, k.Name))
	})
	if !ok {
		return Member{}, false
	}
	return members[i], true
}

// spend notes what is requested and used, of pairs of which both are known.
func (t *Trial) spend(members []Member, rules Rules) {
	if rules.Paused != "" {
		return
	}
	for i := range t.Pairs {
		p := &t.Pairs[i]
		canary, _ := find(members, p.Canary.Key)
		control, _ := find(members, p.Control.Key)
		a, _, ok := canary.Demand.Last()
		b, _, ok2 := control.Demand.Last()
		if !p.counts() || !ok || !ok2 || !(a > 0) || !(b > 0) {
			continue
		}
		add := func(to *Amount, m Member, used float64) {
			to.Requested, to.Used = to.Requested+m.Requested, to.Used+used
		}
		if t.Phase == api.CanaryBaseline {
			add(&p.Canary.Base, canary, a)
			add(&p.Control.Base, control, b)
		} else {
			add(&p.Canary.Run, canary, a)
			add(&p.Control.Run, control, b)
		}
	}
}

// block takes the events since the last one.
func (t *Trial) block(now time.Time, members []Member, rules Rules) {
	t.At = now
	var value, base, off float64
	n := 0
	for i := range t.Pairs {
		p := &t.Pairs[i]
		if !p.counts() {
			continue
		}
		if rules.Paused != "" {
			p.restart(now)
			continue
		}
		canary, _ := find(members, p.Canary.Key)
		control, _ := find(members, p.Control.Key)
		a, ok := canary.burnt(p.Canary.Counted)
		b, ok2 := control.burnt(p.Control.Counted)
		if p.Mute = ok2 && a.none; p.Mute {
			p.Silent++
		}
		if !ok || !ok2 {
			if now.Sub(p.Began) > carried*rules.Block {
				p.restart(now)
			}
			continue
		}
		p.Began, p.Canary.Counted, p.Control.Counted = now, a.until, b.until
		n++
		differ, all := a.share()-b.share(), a.budgets-b.budgets
		if t.Phase == api.CanaryBaseline {
			p.Base = p.Base.with(differ, all)
			continue
		}
		p.Run, p.Known = p.Run.with(differ, all), p.Known+min(a.of, b.of)
		value, base, off = value+differ, base+p.Base.mean(), off+p.Base.apart()*p.Base.apart()
	}
	if n == 0 {
		t.Unknown++
		return
	}
	t.Known++
	if t.Phase != api.CanaryRunning {
		return
	}
	k := float64(n)
	value, base, off = value/k, base/k, math.Sqrt(off)/k
	margin := rules.WorseBy / Burn
	// A difference is in [-1, 1], which bounds what can be lost. The baseline is taken at
	// the end that proves the less.
	beyond := value - base - off - margin
	t.Worse = t.Worse.Bet(beyond, 1+base+off+margin, true)
	within := margin - off - (value - base)
	if least := 1 - base + off - margin; least > 0 {
		t.Fine = t.Fine.Bet(within, least, false)
	}
}

// burnt is what bad events of a member since a time came to.
type burnt struct {
	budgets float64       // error budgets of the worst of its objectives
	until   time.Time     // the end of what was counted
	of      time.Duration // how long that is
	none    bool          // an objective has no events
}

// share is the same over Burn error budgets and at most 1.
func (b burnt) share() float64 { return min(b.budgets/Burn, 1) }

// burnt is what a member's readings since a time come to. It is false while there are too few
// events: so few that a single bad one would be as many as Burn error budgets.
func (m Member) burnt(since time.Time) (out burnt, ok bool) {
	few := false
	for _, o := range m.Objectives {
		budget := 1 - o.Target
		if !(budget > 0 && budget < 1) {
			continue
		}
		var total, bad float64
		var of time.Duration
		for _, r := range slices.Backward(o.Readings) {
			if r.At.Add(-r.Window).Before(since) {
				break
			}
			total, bad, of = total+r.Total, bad+r.Bad, of+r.Window
			if r.At.After(out.until) {
				out.until = r.At
			}
		}
		few, out.none = few || !known(total) || !known(bad) || !(total*Burn*budget >= 1), out.none || total == 0
		if !ok || of < out.of {
			out.of = of
		}
		out.budgets, ok = max(out.budgets, min(max(bad/total, 0), 1)/budget), true
	}
	return out, ok && !few
}

// judge goes on to the next phase where there is proof.
func (t *Trial) judge(now time.Time, members []Member, rules Rules) {
	if t.Phase == api.CanaryBaseline {
		t.measure(now, members, rules)
		return
	}
	proof := 1 / rules.Alpha
	if t.Worse.Wealth(true) >= proof {
		t.Stop(now, fmt.Sprintf("more events of canaries were bad than of their controls, by more than the %.3g error budgets that are allowed (evidence %.3g of %.3g; over the whole trial by %.3g)",
			rules.WorseBy, t.Worse.Wealth(true), proof, t.Excess()))
		return
	}
	cost, priced := t.Cost()
	least := int(cover * float64(rules.Soak) / float64(rules.Block))
	thin, silent := t.thinnest(), t.silent()
	switch left := t.Since.Add(rules.Soak).Sub(now); {
	case rules.Paused != "":
		t.Why = rules.Paused
	case left > 0:
		t.Why = fmt.Sprintf("it runs until %s at least", t.Since.Add(rules.Soak).UTC().Format(time.RFC3339))
	case t.Known < least:
		t.Why = fmt.Sprintf("too little is known of the SLOs: %v of at least %v", time.Duration(t.Known)*rules.Block, time.Duration(least)*rules.Block)
	case thin.Known < time.Duration(least)*rules.Block:
		t.Why = fmt.Sprintf("too little is known of the SLOs of %s and %s: %v of at least %v", thin.Canary.Key.Name, thin.Control.Key.Name, thin.Known, time.Duration(least)*rules.Block)
	case silent != nil:
		t.Why = fmt.Sprintf("%s had no events for %v in which its control %s had some: nobody knows how it was", silent.Canary.Key.Name, time.Duration(silent.Silent)*rules.Block, silent.Control.Key.Name)
	case t.off() >= rules.WorseBy:
		t.Why = fmt.Sprintf("how much canaries and controls differ anyway is known to %.2g error budgets only, and %.3g are to be told apart: a longer canary.baseline, more pairs or more events", t.off(), rules.WorseBy)
	case t.Fine.Wealth(false) < proof:
		t.Why = fmt.Sprintf("it is not proven yet that canaries are no worse than %.3g error budgets: the evidence is %.3g, needed are %.3g", rules.WorseBy, t.Fine.Wealth(false), proof)
	case t.whole() > rules.WorseBy:
		t.Why = fmt.Sprintf("of all events %.3g error budgets more of the canaries' were bad than of their controls': most of it in few minutes, and %.3g are allowed", t.whole(), rules.WorseBy)
	case !priced:
		t.Why = "what the canaries cost is not known: there is no demand of a pair"
	case cost > 1+rules.DearerBy:
		t.Why = fmt.Sprintf("the canaries request %.0f %% more for their demand than the controls do; %.0f %% are allowed", 100*(cost-1), 100*rules.DearerBy)
	default:
		t.Phase, t.Since = api.CanaryPromoted, now
		t.Why = fmt.Sprintf("canaries are no worse than their controls by %.3g error budgets (evidence %.3g of %.3g), and request %+.0f %% for their demand",
			rules.WorseBy, t.Fine.Wealth(false), proof, 100*(cost-1))
	}
}

// measure ends the baseline once enough is known.
func (t *Trial) measure(now time.Time, members []Member, rules Rules) {
	least := max(leastBaseline, int(cover*float64(rules.Baseline)/float64(rules.Block)))
	fewest := math.MaxInt
	for _, p := range t.Pairs {
		if p.counts() {
			fewest = min(fewest, p.Base.N)
		}
	}
	switch left := t.Since.Add(rules.Baseline).Sub(now); {
	case rules.Paused != "":
		t.Why = rules.Paused
	case left > 0:
		t.Why = fmt.Sprintf("how much canaries and controls differ anyway is measured until %s", t.Since.Add(rules.Baseline).UTC().Format(time.RFC3339))
	case fewest < least:
		t.Why = fmt.Sprintf("too little is known of the SLOs before the trial: %v of at least %v", time.Duration(fewest)*rules.Block, time.Duration(least)*rules.Block)
	default:
		blocks := float64(max(t.Known+t.Unknown, 1))
		t.Phase, t.Since, t.Known, t.Unknown, t.Margin = api.CanaryRunning, now, 0, 0, rules.WorseBy
		t.Why = fmt.Sprintf("it runs until %s at least", now.Add(rules.Soak).UTC().Format(time.RFC3339))
		for i := range t.Pairs {
			p := &t.Pairs[i]
			p.restart(now)
			p.Quiet, p.Silent, p.Mute = float64(p.Silent)/blocks, 0, false
			for _, arm := range []*Arm{&p.Canary, &p.Control} {
				if m, ok := find(members, arm.Key); ok {
					arm.Before = m.Replicas
				}
			}
		}
	}
}

// Stop ends the trial: canaries are to have what they had before it, at least.
func (t *Trial) Stop(now time.Time, why string) {
	t.Phase, t.Since, t.Why = api.CanaryStopped, now, why
	t.Kept = nil
	for _, p := range t.Pairs {
		t.Kept = append(t.Kept, Kept{p.Canary.Key, p.Canary.Before})
	}
}
