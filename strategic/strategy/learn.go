package strategy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/strategic/bandit"
)

// Bounds on what a learner may say, and what it takes by default.
const (
	maxLearned = 8 // policies
	maxContext = 16
	minRound   = time.Minute

	defaultNoise, mostNoise = 20, 50 // hundredths
	defaultLoss, mostLoss   = 5, 50  // percent
)

// learner is spec.learn, compiled.
type learner struct {
	policies []string
	round    time.Duration
	act      bool
	context  []feature // in order of name
	reward   *expression
	config   bandit.Config
	// of tells apart what is learned about; what was learned about another is of no use.
	of string
}

func (p *program) learn(c *checker, env *cel.Env) {
	s := p.spec.Learn
	if s == nil {
		return
	}
	const path = "spec.learn"
	if n := len(s.Policies); n < 2 || n > maxLearned {
		c.bad(path+".policies", "must have 2 to %d entries, has %d", maxLearned, n)
		return
	}
	for i, name := range s.Policies {
		if strings.TrimSpace(name) == "" || len(name) > 253 || slices.Contains(s.Policies[:i], name) {
			c.bad(fmt.Sprintf("%s.policies[%d]", path, i), "is empty, too long or there twice")
		}
	}
	if d := s.Round.Duration; d < minRound || d > maxDuration {
		c.bad(path+".round", "must be from %v to %v, is %v", minRound, maxDuration, d)
	}
	if n := len(s.Context); n < 1 || n > maxContext {
		c.bad(path+".context", "must have 1 to %d entries, has %d", maxContext, n)
		return
	}
	percent := func(path string, v *int32, usual, most int32) float64 {
		n := usual
		if v != nil {
			n = *v
		}
		if n < 1 || n > most {
			c.bad(path, "must be from 1 to %d, is %d", most, n)
		}
		return float64(n) / 100
	}
	l := &learner{policies: s.Policies, round: s.Round.Duration, act: s.Act}
	l.context = c.features(path+".context", env, s.Context, false)
	l.reward = c.expression(path+".reward", env, s.Reward, aNumber)
	l.config = bandit.Default(s.Policies, len(s.Context), percent(path+".noisePercent", s.NoisePercent, defaultNoise, mostNoise))
	l.config.Alpha = percent(path+".maxLossPercent", s.MaxLossPercent, defaultLoss, mostLoss)
	l.config.Act = s.Act
	l.of = p.learnedAbout(l)
	p.learner = l
}

// learnedAbout is a sum of all that a context and a reward depend on. When sensors are read
// and how old they may be is no part of it.
func (p *program) learnedAbout(l *learner) string {
	s := p.spec.Learn
	var read []v1alpha1.Sensor
	for _, sensor := range p.spec.Sensors {
		reads := func(e *expression) bool { return e != nil && slices.Contains(e.sensors, sensor.Name) }
		if reads(l.reward) || slices.ContainsFunc(l.context, func(f feature) bool { return reads(f.of) }) {
			sensor.When, sensor.StaleAfter = nil, nil
			read = append(read, sensor)
		}
	}
	text, err := json.Marshal([]any{l.round, p.spec.TimeZone, s.Context, s.Reward, read})
	if err != nil {
		return err.Error() // which data of JSON's own types never give
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// begins is when the round that a time is in began: rounds are as long as they are from
// midnight on.
func (p *program) begins(t time.Time) time.Time {
	_, offset := t.In(p.zone).Zone()
	shift := time.Duration(offset) * time.Second
	return t.UTC().Add(shift).Truncate(p.learner.round).Add(-shift)
}

// know is what was learned before, as far as it fits what is asked for now.
//
// With another length of a round, context or reward everything is forgotten: it was about
// other numbers. With other policies what is known of those that stay is kept, and the
// account of the loss begins anew: that of a policy that is gone can't be kept.
func (l *learner) know(last *api.Learning) *api.Learning {
	out := &api.Learning{Of: l.of}
	for _, name := range l.policies {
		out.Arms = append(out.Arms, api.LearnedArm{Policy: name})
	}
	if last == nil {
		return out
	}
	if last.Of != l.of {
		out.Last = "it begins anew: the round, the context or the reward is another than before"
		return out
	}
	same := len(last.Arms) == len(out.Arms)
	for i, arm := range out.Arms {
		at := slices.IndexFunc(last.Arms, func(a api.LearnedArm) bool { return a.Policy == arm.Policy })
		if same = same && at >= 0; at >= 0 {
			out.Arms[i] = last.Arms[at]
		}
	}
	out.Learned, out.Discarded, out.Budget = last.Learned, last.Discarded, last.Budget
	out.Last, out.Failed, out.Reason = last.Last, last.Failed, last.Reason
	if !same {
		for i := range out.Arms {
			a := &out.Arms[i]
			a.Left, a.Instead, a.Kept = nil, nil, nil
		}
		out.Budget = 0
		out.Last, out.Failed = "the policies are others than before: what is known of those that stay is kept, and the account of the loss begins anew", false
		return out
	}
	if r := last.Round; r != nil {
		round := *r
		out.Round = &round
	}
	return out
}

// stateOf is what was learned as the bandit has it.
func stateOf(l *api.Learning) bandit.State {
	s := bandit.State{Arms: map[string]bandit.Arm{}, Left: map[string][]float64{}, Instead: map[string][]float64{}, Kept: map[string][]float64{}}
	for _, a := range l.Arms {
		if len(a.Gram) > 0 {
			s.Arms[a.Policy] = bandit.Arm{Gram: a.Gram, Sum: a.Sum, Rounds: a.Rounds}
		}
		put := func(sums map[string][]float64, sum []float64) {
			if len(sum) > 0 {
				sums[a.Policy] = sum
			}
		}
		put(s.Left, a.Left)
		put(s.Instead, a.Instead)
		put(s.Kept, a.Kept)
	}
	return s
}

// adopt what the bandit has learned.
func adopt(l *api.Learning, s bandit.State) {
	l.Arms = slices.Clone(l.Arms)
	for i := range l.Arms {
		a := &l.Arms[i]
		arm := s.Arms[a.Policy]
		a.Gram, a.Sum, a.Rounds = arm.Gram, arm.Sum, arm.Rounds
		a.Left, a.Instead, a.Kept = s.Left[a.Policy], s.Instead[a.Policy], s.Kept[a.Policy]
	}
}

// contextOf is the context now.
func (l *learner) contextOf(sc scope) ([]float64, error) {
	var out []float64
	some := false
	for _, f := range l.context {
		v, err := f.of.number(sc)
		if err != nil {
			return nil, fmt.Errorf("context.%s: %w", f.name, err)
		}
		if v < 0 || v > 1 {
			return nil, fmt.Errorf("context.%s is %g, and must be from 0 to 1", f.name, v)
		}
		some = some || v > 0
		out = append(out, v)
	}
	if !some {
		return nil, errors.New("context: all of it is 0, which nothing can be learned from")
	}
	return out, nil
}
