package strategy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/strategic/strategy/when"
)

// choosing is the rule by which a choice acts, and learning that by which a learner does.
const (
	choosing = "choose"
	learning = "learn"
)

// Model predicts one number of a candidate.
type Model interface {
	// Features are the names of what Predict reads, in its order.
	Features() []string
	// Predict returns the number for one value of each feature.
	Predict(x []float64) (float64, error)
}

// Input is what strategies are decided from.
type Input struct {
	Time time.Time
	// Policy is the name of the policy in force but for strategies.
	Policy     string
	Strategies []api.Strategy
	// Last is what each strategy was after the last cycle.
	Last []api.StrategyState
	// Models by the name that strategies know them by.
	Models map[string]Model
	// Policies that are defined; nil: whichever are named.
	Policies []string
	// ByHand: a person set the policy, and strategies don't.
	ByHand bool
}

// Output is what strategies want.
type Output struct {
	// States in the order of the strategies, of those that could be read and are not Off; of
	// the others what they have learned.
	States []api.StrategyState
	// Actions in order of precedence. Those that are not done say why.
	Actions  []api.StrategyAction
	Findings []api.Finding
}

// decision is what one strategy comes to.
type decision struct {
	program  *program
	scope    scope
	at       int // of its state in the output
	priority int32
	shadow   bool
	state    api.StrategyState
	actions  []api.StrategyAction
}

// Decide evaluates every strategy. It doesn't fail: one that can't be used is reported and is
// what it was before it was changed, or wants nothing if it never could be used; and a rule that
// can't be evaluated stays what it was.
func Decide(in Input) Output {
	// One that can't be used is remembered beside the one it was before.
	defer compiled.decides(2 * len(in.Strategies))()
	var out Output
	var all []decision
	for _, s := range in.Strategies {
		p, stays, err := in.usable(&s)
		if err != nil {
			out.find("StrategyInvalid", s.Key, err.Error())
		}
		if p == nil {
			in.keepLearned(s.Key, nil, &out)
			continue
		}
		if p.spec.Mode == v1alpha1.ModeOff {
			in.keepLearned(s.Key, p, &out)
			continue
		}
		d := in.one(s, p, &out)
		d.state.Stays = stays
		d.at = len(out.States)
		all = append(all, d)
		out.States = append(out.States, d.state)
	}
	slices.SortStableFunc(all, func(a, b decision) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.state.Key.Namespace, b.state.Key.Namespace), cmp.Compare(a.state.Key.Name, b.state.Key.Name))
	})
	in.learn(all, &out)
	for _, d := range all {
		for _, a := range d.actions {
			if d.shadow {
				a.NotDone = "mode is Shadow"
			}
			out.Actions = append(out.Actions, a)
		}
	}
	out.settle()
	return out
}

// usable is the program of a strategy: of its spec, or, of one that can't be used, of the last one
// that could, which s then has. Off and Shadow count whatever else is wrong. The error is what is
// wrong with the spec.
func (in Input) usable(s *api.Strategy) (p *program, stays bool, err error) {
	p, err = compile(s.Spec)
	if err == nil {
		return p, false, nil
	}
	last := in.last(s.Key).Spec
	mode := ModeOf(s.Spec)
	if last == "" || mode == v1alpha1.ModeOff {
		return nil, false, err
	}
	p, broken := compile(last)
	if broken != nil {
		return nil, false, err
	}
	if mode == v1alpha1.ModeShadow {
		shadow := *p
		shadow.spec.Mode = mode
		p = &shadow
	}
	s.Spec = last
	return p, true, fmt.Errorf("%w; until it can be used, it decides as before it was changed", err)
}

// ModeOf is the mode that a spec says, also one that can't be used; empty if it says none.
func ModeOf(spec string) v1alpha1.Mode {
	var says struct {
		Mode v1alpha1.Mode `json:"mode"`
	}
	if json.Unmarshal([]byte(spec), &says) != nil {
		return ""
	}
	return says.Mode
}

func (o *Output) find(reason string, about api.Key, message string) {
	o.Findings = append(o.Findings, api.Finding{
		Severity: api.Warning, Agent: api.StrategicAgent, Reason: reason, Object: api.StrategyRef(about), Message: message,
	})
}

// settle lets the first of the actions about the same thing win, and says so where others
// want something else. Proposals of replicas don't contradict one another: the largest
// counts; nor do calls.
func (o *Output) settle() {
	first := map[string]*api.StrategyAction{}
	for i := range o.Actions {
		a := &o.Actions[i]
		if a.NotDone != "" || a.Kind == api.ActionProposeReplicas || a.Kind == api.ActionCallWebhook {
			continue
		}
		won := first[a.On()]
		if won == nil {
			first[a.On()] = a
			continue
		}
		if won.What() == a.What() {
			a.NotDone = fmt.Sprintf("%s %s does the same", won.Strategy, won.Rule)
			continue
		}
		a.NotDone = fmt.Sprintf("%s %s comes before it and wants %s", won.Strategy, won.Rule, won.What())
		o.find("StrategiesContradict", a.Strategy, fmt.Sprintf("%s wants %s, but %s", a.Rule, a.What(), a.NotDone))
	}
}

// one evaluates one strategy.
func (in Input) one(s api.Strategy, p *program, out *Output) decision {
	sc := in.scope(s, p)
	d := decision{program: p, scope: sc, priority: p.spec.Priority, shadow: p.spec.Mode == v1alpha1.ModeShadow, state: api.StrategyState{Key: s.Key, Spec: s.Spec}}
	last := in.last(s.Key)
	for i, r := range p.spec.Rules {
		was := api.RuleState{Name: r.Name}
		for _, l := range last.Rules {
			if l.Name == r.Name {
				was = l
			}
		}
		state, err := p.turn(i, was, s.TriggeredAt(api.RuleTarget(r.Name), in.Time), sc, in.Time)
		if err != nil {
			out.find("StrategyHolds", s.Key, fmt.Sprintf("spec.rules[%d] %s: %v", i, r.Name, err))
		}
		state.Proposed = nil
		for j, a := range r.Actions {
			if !state.On {
				break
			}
			action, err := p.wants(a, [2]int{i, j}, s.Key, sc)
			if err != nil {
				replicas, known := proposed(was, a.ProposeReplicas)
				if known {
					err = fmt.Errorf("%w; its last proposal stays, %d", err, replicas)
				}
				out.find("StrategyHolds", s.Key, fmt.Sprintf("spec.rules[%d].actions[%d]: %v", i, j, err))
				if !known {
					continue
				}
				action = proposal(a.ProposeReplicas.Workload, s.Key, replicas)
			}
			if action.Kind == api.ActionProposeReplicas {
				state.Proposed = append(state.Proposed, api.RuleProposal{Workload: action.Workload.Name, Replicas: action.MinReplicas})
			}
			action.Strategy, action.Rule, action.Since, action.Reason = s.Key, r.Name, state.Since, state.Reason
			d.actions = append(d.actions, action)
		}
		d.state.Rules = append(d.state.Rules, state)
	}
	if c := p.spec.Choose; c != nil {
		choice, err := p.chosen(last.Choice, sc, in)
		if err != nil {
			out.find("StrategyHolds", s.Key, fmt.Sprintf("spec.choose: %v", err))
		}
		d.state.Choice = &choice
		for _, of := range c.Candidates {
			if of.Name == choice.Candidate {
				d.actions = append(d.actions, api.StrategyAction{
					Strategy: s.Key, Rule: choosing, Kind: api.ActionMove, Pools: of.Pools, Workload: moved(c.Workload, s.Key),
					Since: choice.Since, Reason: choice.Reason,
				})
			}
		}
	}
	for _, f := range p.outputs {
		v, err := f.of.number(sc)
		if err != nil {
			out.find("StrategyHolds", s.Key, fmt.Sprintf("spec.outputs.%s: %v", f.name, err))
			continue
		}
		d.state.Outputs = append(d.state.Outputs, api.StrategyOutput{Name: f.name, Value: v})
	}
	return d
}

// last is what a strategy was after the last cycle.
func (in Input) last(key api.Key) api.StrategyState {
	for _, l := range in.Last {
		if l.Key == key {
			return l
		}
	}
	return api.StrategyState{Key: key}
}

// scope of a strategy's expressions: its sensors, as far as they can be used.
func (in Input) scope(s api.Strategy, p *program) scope {
	sc := newScope(in.Time, p.zone, in.Policy)
	for _, sensor := range p.spec.Sensors {
		value, why := in.value(s, sensor)
		if why != "" {
			sc.missing[sensor.Name] = why
			continue
		}
		sc.values[sensor.Name] = value
	}
	return sc
}

// value of a sensor, or why it has none.
func (in Input) value(s api.Strategy, sensor v1alpha1.Sensor) (float64, string) {
	if of := sensor.Strategy; of != nil {
		for _, l := range in.Last {
			if l.Key != (api.Key{Namespace: s.Key.Namespace, Name: of.Name}) {
				continue
			}
			for _, o := range l.Outputs {
				if o.Name == of.Output {
					return o.Value, ""
				}
			}
		}
		return 0, fmt.Sprintf("strategy %s had no output %s in the last cycle", of.Name, of.Output)
	}
	for _, r := range s.Readings {
		if r.Sensor != sensor.Name {
			continue
		}
		stale := when.Stale(sensor.When)
		if sensor.StaleAfter != nil {
			stale = sensor.StaleAfter.Duration
		}
		switch {
		case r.Missing != "":
			return 0, r.Missing
		case math.IsNaN(r.Value) || math.IsInf(r.Value, 0):
			return 0, fmt.Sprintf("it reads %g, which is no finite number", r.Value)
		case stale > 0 && in.Time.Sub(r.At) > stale:
			return 0, fmt.Sprintf("its reading of %s is older than %v", r.At.UTC().Format(time.RFC3339), stale)
		}
		return r.Value, ""
	}
	return 0, "it was not read yet"
}

// turn is what a rule becomes of what it was. With an error it stays so. Triggered is when
// a person turned it on, if that still counts; what turns rules off does so afterwards.
func (p *program) turn(i int, was api.RuleState, triggered time.Time, sc scope, now time.Time) (api.RuleState, error) {
	r, e, negate := p.spec.Rules[i], p.when[i], false
	if triggered.After(was.Triggered) {
		was.Triggered = triggered
		if !was.On {
			// Since the trigger: after a restart that forgot it, it is the same turn, and calls
			// of webhooks have the same id.
			since := now
			if triggered.Before(now) {
				since = triggered
			}
			return api.RuleState{Name: r.Name, On: true, Since: since, Triggered: triggered, Reason: "it was triggered by hand at " + stamp(triggered)}, nil
		}
	}
	if was.On {
		if negate = p.until[i] == nil; !negate {
			e = p.until[i]
		}
	}
	turns, err := e.bool(sc)
	if err != nil {
		was.Pending, was.Reason = time.Time{}, fmt.Sprintf("it stays %s: %v", onOff(was.On), err)
		return was, err
	}
	said := fmt.Sprintf("%q is %v", e.text, turns)
	if read := e.read(sc); read != "" {
		said += " (" + read + ")"
	}
	if negate {
		turns = !turns
	}
	if !turns {
		was.Pending, was.Reason = time.Time{}, said
		return was, nil
	}
	if was.Pending.IsZero() || was.Pending.After(now) {
		was.Pending = now
	}
	if wait := was.Pending.Add(r.For.Duration); now.Before(wait) {
		was.Reason = fmt.Sprintf("it stays %s until %s at least, because it must be so for %v: %s", onOff(was.On), stamp(wait), r.For.Duration, said)
		return was, nil
	}
	if stays := was.Since.Add(r.MinStay.Duration); !was.Since.IsZero() && now.Before(stays) {
		was.Reason = fmt.Sprintf("it stays %s until %s at least, although %s", onOff(was.On), stamp(stays), said)
		return was, nil
	}
	return api.RuleState{Name: r.Name, On: !was.On, Since: now, Triggered: was.Triggered, Reason: said}, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// wants is what an action of a rule that is on asks for.
func (p *program) wants(a v1alpha1.StrategyAction, at [2]int, of api.Key, sc scope) (api.StrategyAction, error) {
	switch {
	case a.SetPolicy != nil:
		return api.StrategyAction{Kind: api.ActionSetPolicy, Policy: a.SetPolicy.Policy}, nil
	case a.Move != nil:
		return api.StrategyAction{Kind: api.ActionMove, Pools: a.Move.Pools, Workload: moved(a.Move.Workload, of)}, nil
	case a.SetBounds != nil:
		out := api.StrategyAction{Kind: api.ActionSetBounds, Workload: api.Key{Namespace: of.Namespace, Name: a.SetBounds.Workload}}
		if v := a.SetBounds.MinReplicas; v != nil {
			out.MinReplicas = *v
		}
		if v := a.SetBounds.MaxReplicas; v != nil {
			out.MaxReplicas = *v
		}
		return out, nil
	case a.CallWebhook != nil:
		return api.StrategyAction{Kind: api.ActionCallWebhook, URL: a.CallWebhook.URL}, nil
	}
	v, err := p.propose[at].number(sc)
	if err != nil {
		return api.StrategyAction{}, err
	}
	return proposal(a.ProposeReplicas.Workload, of, int32(math.Ceil(min(max(v, 0), maxReplicas)))), nil
}

func proposal(workload string, by api.Key, replicas int32) api.StrategyAction {
	return api.StrategyAction{
		Kind: api.ActionProposeReplicas, Workload: api.Key{Namespace: by.Namespace, Name: workload}, MinReplicas: replicas,
	}
}

// proposed is what a rule that is on proposed last; false if it proposed nothing, or what is
// asked for is no proposal.
func proposed(was api.RuleState, a *v1alpha1.ProposeReplicas) (replicas int32, known bool) {
	if a == nil {
		return 0, false
	}
	for _, p := range was.Proposed {
		if p.Workload == a.Workload {
			replicas, known = max(replicas, p.Replicas), true
		}
	}
	return replicas, known
}

// moved is the workload of a strategy's namespace that a move is of; the zero key for all.
func moved(workload string, by api.Key) api.Key {
	if workload == "" {
		return api.Key{}
	}
	return api.Key{Namespace: by.Namespace, Name: workload}
}
