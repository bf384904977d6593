package bandit

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Config is what the owner allows.
type Config struct {
	// Policies to choose among, by name.
	Policies []string
	// Size of a context: how many numbers it has.
	Size int
	// Alpha is the part of the baseline's reward that exploring may cost, above 0 and
	// below 1.
	Alpha float64
	// Delta is the probability, above 0 and below 1, with which the bound may fail.
	Delta float64
	// Noise bounds a reward's noise: it is sub-Gaussian with this deviation, above 0. Rewards
	// from 0 to 1 are so with 0.5, whatever they are.
	Noise float64
	// Ridge λ, above 0.
	Ridge float64
	// Bound of each coefficient's size, above 0. With indicators and rewards from 0 to 1, 1
	// does.
	Bound float64
	// Act lets the learner choose. Without it, it recommends and the baseline is chosen.
	Act bool
	// Except are policies that are known and must not be named, such as those that there
	// are no longer. The baseline is none of them.
	Except []string
	// Free gives up the bound: plain LinUCB, for comparison in a simulator.
	Free bool
}

// Default configuration for a size of context made of indicators and rewards from 0 to 1 whose
// deviation within a context is up to noise.
func Default(policies []string, size int, noise float64) Config {
	return Config{Policies: policies, Size: size, Alpha: 0.1, Delta: 0.05, Noise: noise, Ridge: 0.01, Bound: 1}
}

// Bounds of the work of a round.
const (
	MaxPolicies = 32  // policies to choose among
	MaxSize     = 256 // numbers in a context
)

// Validate returns an error with the name of the field.
func (c Config) Validate() error {
	if len(c.Policies) < 1 || len(c.Policies) > MaxPolicies {
		return fmt.Errorf("policies: %d, want 1 to %d", len(c.Policies), MaxPolicies)
	}
	for i, p := range c.Policies {
		if p == "" || slices.Contains(c.Policies[:i], p) {
			return fmt.Errorf("policies[%d]: %q is empty or there twice", i, p)
		}
	}
	if c.Size < 1 || c.Size > MaxSize {
		return fmt.Errorf("size: is %d, want 1 to %d", c.Size, MaxSize)
	}
	for name, v := range map[string]float64{"alpha": c.Alpha, "delta": c.Delta} {
		if !(v > 0 && v < 1) {
			return fmt.Errorf("%s: is %g, want above 0 and below 1", name, v)
		}
	}
	for name, v := range map[string]float64{"noise": c.Noise, "ridge": c.Ridge, "bound": c.Bound} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: is %g, want above 0", name, v)
		}
	}
	return nil
}

// Arm is what is known of a policy: the Gram matrix of contexts it was tried in, without the
// ridge, row by row, and Σ reward·context.
type Arm struct {
	Gram []float64 `json:"gram"`
	Sum  []float64 `json:"sum"`
	// Rounds that it was learned from.
	Rounds int `json:"rounds"`
}

// State is all that is remembered. It goes to JSON and back.
type State struct {
	Arms map[string]Arm `json:"arms"`
	// Left is, for each policy, the sum of contexts of the rounds in which it was chosen
	// instead of the baseline; Instead, for each baseline, that of the same rounds.
	Left    map[string][]float64 `json:"left,omitempty"`
	Instead map[string][]float64 `json:"instead,omitempty"`
	// Kept is, for each baseline, the sum of contexts of the rounds that kept it.
	Kept map[string][]float64 `json:"kept,omitempty"`
}

// Option is what a policy promises in a context.
type Option struct {
	Policy string `json:"policy"`
	// Expected reward and its bounds.
	Expected float64 `json:"expected"`
	Lower    float64 `json:"lower"`
	Upper    float64 `json:"upper"`
	Rounds   int     `json:"rounds"`
}

// Choice of a round.
type Choice struct {
	// Policy that holds.
	Policy   string `json:"policy"`
	Baseline string `json:"baseline"`
	// Recommended is what the learner would choose if it were allowed to.
	Recommended string `json:"recommended"`
	// Margin is how much reward, at the lower bounds, stays above what the owner allows to
	// lose, if the learner's first wish were followed. Below 0 it is not.
	Margin float64 `json:"margin"`
	// Budget is the same of the rounds so far: what may still be lost, in rewards.
	Budget  float64  `json:"budget"`
	Why     string   `json:"why"`
	Options []Option `json:"options"`
}

// Choose a policy in a context, in which the owner's schedule has the baseline. It returns
// an error for a bad configuration, a baseline that is none of the policies, a context or a
// state that does not fit; the baseline should hold then.
func Choose(c Config, s State, context []float64, baseline string) (Choice, error) {
	out := Choice{Policy: baseline, Baseline: baseline, Recommended: baseline}
	k, err := know(c, s)
	if err != nil {
		return out, err
	}
	if err := c.fits(context); err != nil {
		return out, err
	}
	if !slices.Contains(c.Policies, baseline) {
		return out, fmt.Errorf("the baseline %q is none of the policies", baseline)
	}
	out.Budget = k.margin(s, nil, "", "")
	best := baseline
	for _, p := range c.Policies {
		o := k.option(p, context)
		out.Options = append(out.Options, o)
	}
	at := func(p string) Option { return out.Options[slices.Index(c.Policies, p)] }
	for _, o := range out.Options {
		if o.Upper > at(best).Upper+1e-12 && !slices.Contains(c.Except, o.Policy) {
			best = o.Policy
		}
	}
	if best == baseline {
		out.Why = "the baseline has the highest upper bound"
		return out, nil
	}
	out.Margin = k.margin(s, context, best, baseline)
	if out.Margin < 0 && !c.Free {
		out.Why = fmt.Sprintf("%s might earn up to %.3f; at the worst the loss so far would exceed %g of the baseline's reward by %.3f", best, at(best).Upper, c.Alpha, -out.Margin)
		return out, nil
	}
	out.Recommended = best
	out.Why = fmt.Sprintf("%s has the highest upper bound, %.3f against the baseline's %.3f", best, at(best).Upper, at(baseline).Upper)
	if c.Act {
		out.Policy = best
	} else {
		out.Why += "; it is a recommendation, since acting is not allowed"
	}
	return out, nil
}

// Learn from a round: the policy that held in a context instead of a baseline, and its
// reward from 0 to 1. It returns the state as it was, and an error, for what does not fit.
func Learn(c Config, s State, context []float64, policy, baseline string, reward float64) (State, error) {
	if err := check(c, s); err != nil {
		return s, err
	}
	if err := c.fits(context); err != nil {
		return s, err
	}
	if !(reward >= 0 && reward <= 1) {
		return s, fmt.Errorf("reward: is %g, want 0 to 1", reward)
	}
	for _, p := range []string{policy, baseline} {
		if !slices.Contains(c.Policies, p) {
			return s, fmt.Errorf("%q is none of the policies", p)
		}
	}
	d := c.Size
	out := State{Arms: map[string]Arm{}, Left: copied(s.Left), Instead: copied(s.Instead), Kept: copied(s.Kept)}
	for name, a := range s.Arms {
		out.Arms[name] = a
	}
	old := out.Arms[policy]
	a := Arm{Gram: make([]float64, d*d), Sum: make([]float64, d), Rounds: old.Rounds + 1}
	copy(a.Gram, old.Gram)
	copy(a.Sum, old.Sum)
	for i, v := range context {
		a.Sum[i] += reward * v
		for j, w := range context {
			a.Gram[i*d+j] += v * w
		}
	}
	out.Arms[policy] = a
	if policy == baseline {
		add(out.Kept, baseline, context)
	} else {
		add(out.Left, policy, context)
		add(out.Instead, baseline, context)
	}
	return out, nil
}

// Count a round, or a part of one, in which a policy held instead of a baseline and whose
// reward is not known: nothing is learned, and it counts against the bound. A part of a
// round is that part of its context, since rewards are linear. It returns the state as it
// was, and an error, for what does not fit.
func Count(c Config, s State, context []float64, policy, baseline string) (State, error) {
	if err := check(c, s); err != nil {
		return s, err
	}
	if err := c.fits(context); err != nil {
		return s, err
	}
	for _, p := range []string{policy, baseline} {
		if !slices.Contains(c.Policies, p) {
			return s, fmt.Errorf("%q is none of the policies", p)
		}
	}
	if policy == baseline {
		return s, nil
	}
	out := State{Arms: s.Arms, Left: copied(s.Left), Instead: copied(s.Instead), Kept: s.Kept}
	add(out.Left, policy, context)
	add(out.Instead, baseline, context)
	return out, nil
}

func copied(m map[string][]float64) map[string][]float64 {
	out := map[string][]float64{}
	for k, v := range m {
		out[k] = slices.Clone(v)
	}
	return out
}

func add(m map[string][]float64, key string, x []float64) {
	if m[key] == nil {
		m[key] = make([]float64, len(x))
	}
	for i, v := range x {
		m[key][i] += v
	}
}

// fits reports what is wrong with a context.
func (c Config) fits(context []float64) error {
	if len(context) != c.Size {
		return fmt.Errorf("context: %d numbers, want %d", len(context), c.Size)
	}
	for i, v := range context {
		if v-v != 0 {
			return fmt.Errorf("context[%d]: is %g", i, v)
		}
	}
	return nil
}

// check returns an error for a bad configuration or a state that does not fit it.
func check(c Config, s State) error {
	if err := c.Validate(); err != nil {
		return err
	}
	for _, sums := range []map[string][]float64{s.Left, s.Instead, s.Kept} {
		for name, v := range sums {
			if len(v) != c.Size {
				return fmt.Errorf("state: %s has a sum of %d numbers, want %d", name, len(v), c.Size)
			}
		}
	}
	for _, p := range c.Policies {
		if a, known := s.Arms[p]; known && (len(a.Gram) != c.Size*c.Size || len(a.Sum) != c.Size) {
			return fmt.Errorf("state: arms.%s: of another size than %d", p, c.Size)
		}
	}
	return nil
}

// knowledge is a state with its matrices solved.
type knowledge struct {
	config Config
	rounds map[string]int
	factor map[string]*mat.Cholesky
	theta  map[string]*mat.VecDense
	// radius of the ellipsoid that all coefficients are in.
	radius float64
	// box has, for each policy, the radius of each coefficient alone; nil unless all contexts
	// so far were along one coordinate each.
	box map[string][]float64
}

// know solves a state. It returns an error for a bad configuration or a state that does not
// fit it.
func know(c Config, s State) (knowledge, error) {
	k := knowledge{
		config: c, rounds: map[string]int{}, factor: map[string]*mat.Cholesky{}, theta: map[string]*mat.VecDense{}, box: map[string][]float64{},
	}
	if err := check(c, s); err != nil {
		return k, err
	}
	d, logs, apart := c.Size, 0.0, true
	// Either bound may fail with half of Delta, a coefficient's with its part of that.
	alone := 2 * math.Log(2*float64(len(c.Policies)*d)/c.Delta)
	for _, p := range c.Policies {
		a, known := s.Arms[p]
		v, b := mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)
		for i := range d {
			for j := i; j < d && known; j++ {
				v.SetSym(i, j, a.Gram[i*d+j])
				apart = apart && (i == j || a.Gram[i*d+j] == 0)
			}
			v.SetSym(i, i, v.At(i, i)+c.Ridge)
			if known {
				b.SetVec(i, a.Sum[i])
			}
		}
		f, theta := &mat.Cholesky{}, &mat.VecDense{}
		if !f.Factorize(v) {
			return k, fmt.Errorf("state: arms.%s: its matrix is not positive", p)
		}
		if err := f.SolveVecTo(theta, b); err != nil {
			return k, fmt.Errorf("state: arms.%s: %w", p, err)
		}
		logs += f.LogDet() - float64(d)*math.Log(c.Ridge)
		k.factor[p], k.theta[p], k.rounds[p] = f, theta, a.Rounds
		for i := range d {
			beta := c.Noise*math.Sqrt(alone+math.Log(v.At(i, i)/c.Ridge)) + math.Sqrt(c.Ridge)*c.Bound
			k.box[p] = append(k.box[p], beta/math.Sqrt(v.At(i, i)))
		}
	}
	if !apart {
		k.box = nil
	}
	size := c.Bound * math.Sqrt(float64(len(c.Policies)*d))
	k.radius = c.Noise*math.Sqrt(2*math.Log(2/c.Delta)+logs) + math.Sqrt(c.Ridge)*size
	return k, nil
}

// bounds of the reward that sums of contexts earn, one for each policy: expected, and how far
// the truth may be from it.
func (k knowledge) bounds(v map[string][]float64) (expected, width float64) {
	square, box := 0.0, 0.0
	for _, p := range k.config.Policies {
		x := v[p]
		if x == nil {
			continue
		}
		vec := mat.NewVecDense(len(x), x)
		expected += mat.Dot(vec, k.theta[p])
		var y mat.VecDense
		if err := k.factor[p].SolveVecTo(&y, vec); err != nil {
			return 0, math.Inf(1)
		}
		square += mat.Dot(vec, &y)
		if k.box != nil {
			for i, r := range k.box[p] {
				box += math.Abs(x[i]) * r
			}
		}
	}
	width = k.radius * math.Sqrt(max(square, 0))
	if k.box != nil {
		width = min(width, box)
	}
	return expected, width
}

func (k knowledge) option(policy string, context []float64) Option {
	e, w := k.bounds(map[string][]float64{policy: context})
	return Option{Policy: policy, Expected: e, Lower: e - w, Upper: e + w, Rounds: k.rounds[policy]}
}

// margin is CLUCB2's condition: the lower bound of what all rounds away from the baseline
// earned, this one included, minus (1 − Alpha) of what the baseline would have there, plus
// Alpha of the lower bound of what the baseline earned where it was kept, not below 0.
// Without a context it is that of the rounds so far.
func (k knowledge) margin(s State, context []float64, policy, baseline string) float64 {
	v, less := copied(s.Left), copied(s.Instead)
	if context != nil {
		add(v, policy, context)
		add(less, baseline, context)
	}
	for p, x := range less {
		scaled := slices.Clone(x)
		for i := range scaled {
			scaled[i] *= -(1 - k.config.Alpha)
		}
		add(v, p, scaled)
	}
	e, w := k.bounds(v)
	kept, uncertain := k.bounds(s.Kept)
	return e - w + k.config.Alpha*max(kept-uncertain, 0)
}
