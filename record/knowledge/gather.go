package knowledge

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

const (
	// betweenReadings is the least time between two entries of a sensor that has a value.
	betweenReadings = time.Minute
	// betweenScores of a workload's forecasts, if nothing turns meanwhile.
	betweenScores = 24 * time.Hour
)

// Gatherer tells what each record has that those before it had not. The zero value has
// seen none. It is pure: the same records give the same entries.
type Gatherer struct {
	compare    record.Comparer
	readings   map[subject]told
	strategies map[api.Key]map[string]string // the state of each rule and choice
	actions    map[string]string
	scores     map[api.Key]told
	trials     map[api.Key]api.CanaryPhase
	learning   map[api.Key]*api.Learning
}

type subject struct {
	about About
	name  string
}

// told is what was told last of something, and when.
type told struct {
	at   time.Time
	text string
}

// Next returns the entries of a record, given each in order of time.
func (g *Gatherer) Next(r api.Record) []Entry {
	if g.readings == nil {
		*g = Gatherer{readings: map[subject]told{}, strategies: map[api.Key]map[string]string{}, actions: map[string]string{}, scores: map[api.Key]told{}, trials: map[api.Key]api.CanaryPhase{}, learning: map[api.Key]*api.Learning{}}
	}
	var out []Entry
	c := r.Cycle
	for _, k := range g.compare.Next(c) {
		if name, ok := decided(k); ok {
			out = append(out, Entry{Kind: KindDecision, Time: c.Time, About: about(k.Object), Name: name, Text: k.Text})
		}
	}
	if c.Error != "" {
		return out
	}
	seen := map[subject]bool{}
	read := func(of About, name string, value *float64, at time.Time, missing string) {
		s := subject{of, name}
		seen[s] = true
		was, known := g.readings[s]
		if value != nil && !finite(*value) {
			value, missing = nil, fmt.Sprintf("it is %g", *value)
		}
		switch {
		case value == nil && known && was.text == missing,
			value != nil && (!at.After(was.at) || was.text == "" && at.Sub(was.at) < betweenReadings):
			return
		case value == nil:
			at = c.Time
		}
		g.readings[s] = told{at, missing}
		out = append(out, Entry{Kind: KindReading, Time: at, About: of, Name: name, Value: value, Text: missing})
	}
	for _, s := range r.Snapshot.Context.Strategies {
		for _, v := range s.Readings {
			value := &v.Value
			if v.Missing != "" {
				value = nil
			}
			read(about(api.StrategyRef(s.Key)), v.Sensor, value, v.At, v.Missing)
		}
	}
	for s := range g.readings {
		if !seen[s] {
			delete(g.readings, s)
		}
	}
	out = append(out, g.decisions(c, r.Snapshot.Time)...)
	out = append(out, g.learned(c)...)
	return append(out, g.graded(c)...)
}

// decided is whether a change of the timeline is a decision that is kept here, and its name.
func decided(k record.Change) (string, bool) {
	switch k.Kind {
	case record.PolicyChanged, record.PausedChanged, record.CycleHeld:
		return k.Kind, true
	case record.FindingAppeared:
		reason, _, _ := strings.Cut(k.Text, ":")
		return reason, strings.HasPrefix(reason, "RolledBack") || strings.HasPrefix(reason, "Strateg")
	}
	return "", false
}

// decisions of strategies: rules that turned, candidates that were chosen, and what became
// of what they want. Seen is the time of the snapshot: what turned before the first record
// that is seen was told then.
func (g *Gatherer) decisions(c api.Cycle, seen time.Time) []Entry {
	var out []Entry
	tell := func(of api.Key, name, text string) {
		out = append(out, Entry{Kind: KindDecision, Time: c.Time, About: about(api.StrategyRef(of)), Name: name, Text: text})
	}
	before := g.actions
	g.actions = map[string]string{}
	now := map[api.Key]map[string]string{}
	for _, s := range c.Policy.Strategies {
		was, warm := g.strategies[s.Key]
		is := map[string]string{}
		turned := func(name, state, reason string, since time.Time) {
			if is[name] = state; was[name] != state && !since.IsZero() && (warm || !since.Before(seen)) {
				tell(s.Key, name, state+": "+reason)
			}
		}
		for _, r := range s.Rules {
			state := "off"
			if r.On {
				state = "on"
			}
			turned(r.Name, state, r.Reason, r.Since)
		}
		if s.Choice != nil {
			turned("choose", s.Choice.Candidate, s.Choice.Reason, s.Choice.Since)
		}
		now[s.Key] = is
	}
	g.strategies = now
	for _, a := range c.Policy.StrategyActions {
		key := fmt.Sprintf("%s %s %s", a.Strategy, a.Rule, a.What())
		g.actions[key] = a.NotDone
		if was, known := before[key]; a.NotDone != "" && (!known || was != a.NotDone) {
			tell(a.Strategy, a.Rule, fmt.Sprintf("%s: not done: %s", a.What(), a.NotDone))
		}
	}
	return out
}

// learned are rounds of strategies that learn: what each began with is a decision, what
// came of it a score.
func (g *Gatherer) learned(c api.Cycle) []Entry {
	var out []Entry
	before := g.learning
	g.learning = map[api.Key]*api.Learning{}
	for _, s := range c.Policy.Strategies {
		l := s.Learning
		if l == nil {
			continue
		}
		g.learning[s.Key] = l
		was := before[s.Key]
		if was == nil {
			continue // what an earlier process told
		}
		of := about(api.StrategyRef(s.Key))
		if n := l.Learned + l.Discarded; n != was.Learned+was.Discarded && l.Last != "" {
			out = append(out, Entry{
				Kind: KindScore, Time: c.Time, About: of, Name: "round", Text: l.Last,
				Metrics: map[string]float64{"learned": float64(l.Learned), "discarded": float64(l.Discarded), "budget": l.Budget},
			})
		}
		if r := l.Round; r != nil && (was.Round == nil || !was.Round.Since.Equal(r.Since)) {
			out = append(out, Entry{
				Kind: KindDecision, Time: c.Time, About: of, Name: "learn", Text: l.Reason,
				Params:  map[string]string{"recommended": r.Recommended, "baseline": r.Baseline, "acts": strconv.FormatBool(r.Acts)},
				Metrics: map[string]float64{"expected": r.Expected, "lower": r.Lower, "upper": r.Upper},
			})
		}
	}
	for i := range out {
		maps.DeleteFunc(out[i].Metrics, func(_ string, v float64) bool { return !finite(v) })
	}
	return out
}

// graded are scores: how good forecasts of a workload are, and how trials stand when they
// go on to another phase.
func (g *Gatherer) graded(c api.Cycle) []Entry {
	var out []Entry
	scores, trials := map[api.Key]told{}, map[api.Key]api.CanaryPhase{}
	for _, w := range c.Plan.Workloads {
		if k := w.Skill; k != nil {
			was, known := g.scores[w.Key]
			text := k.Model + " " + string(k.Trust)
			metrics := map[string]float64{}
			if k.LastValue != nil && finite(*k.LastValue) {
				metrics["skillOverLastValue"] = *k.LastValue
			}
			if k.Seasonal != nil && finite(*k.Seasonal) {
				metrics["skillOverSeasonal"] = *k.Seasonal
			}
			scores[w.Key] = was
			if len(metrics) > 0 && (!known || was.text != text || c.Time.Sub(was.at) >= betweenScores) {
				scores[w.Key] = told{c.Time, text}
				out = append(out, Entry{
					Kind: KindScore, Time: c.Time, About: about(api.WorkloadRef(w.Key)), Name: "forecast",
					Params: map[string]string{"model": k.Model, "trust": string(k.Trust)}, Metrics: metrics,
				})
			}
		}
		if t := w.Canary; t != nil {
			trials[w.Key] = t.Phase
			if was := g.trials[w.Key]; was != t.Phase {
				metrics := map[string]float64{"worse": t.Worse, "fine": t.Fine, "needed": t.Needed, "excess": t.Excess, "pairs": float64(t.Pairs)}
				if t.Cost != nil {
					metrics["cost"] = *t.Cost
				}
				maps.DeleteFunc(metrics, func(_ string, v float64) bool { return !finite(v) })
				out = append(out, Entry{
					Kind: KindScore, Time: c.Time, About: about(api.WorkloadRef(w.Key)), Name: "canary", Text: fmt.Sprintf("%s: %s", t.Phase, t.Waits),
					Params: map[string]string{"phase": string(t.Phase), "role": string(t.Role)}, Metrics: metrics,
				})
			}
		}
	}
	g.scores, g.trials = scores, trials
	return out
}

// Of are the entries of a log's records from a time on, without a knowledge base.
func Of(l *record.Log, from time.Time) ([]Entry, error) {
	var g Gatherer
	var out []Entry
	for e, err := range l.Records(from) {
		if err != nil {
			return out, err
		}
		out = append(out, g.Next(e.Record)...)
	}
	return out, nil
}
