package strategy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/google/cel-go/cel"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/strategic/strategy/when"
)

// Bounds on what a strategy may say; those of the definition of the resource, so that a file
// is checked as the API server checks.
const (
	maxSensors    = 16
	maxRules      = 16
	maxActions    = 8
	maxCandidates = 8
	maxNames      = 32
	maxPools      = 16
	maxOutputs    = 16
	maxPriority   = 1000
	maxReplicas   = 100_000
	maxDuration   = 31 * 24 * time.Hour
)

// program is a strategy whose expressions are compiled.
type program struct {
	spec    v1alpha1.StrategySpec
	zone    *time.Location
	when    []*expression // of each rule
	until   []*expression // nil where there is none
	propose map[[2]int]*expression
	score   *expression
	require *expression // nil where there is none
	// features of each candidate, in order of name.
	features [][]feature
	outputs  []feature
	learner  *learner // nil where there is none
}

// feature is a named number.
type feature struct {
	name string
	of   *expression
}

// compiled remembers programs by their spec, and what is wrong with specs that have none: compiling
// takes longer than deciding, and depends on nothing but the spec.
var compiled programs

type compilation struct {
	program *program
	err     error
}

// programs are those asked for since a turn, and those of the turn before. Each decision is a turn, so
// that what is no longer in the cluster is forgotten, and nothing that is.
type programs struct {
	sync.Mutex
	now, before map[string]compilation
	strategies  int // of the last decision
}

// maxCompiled is how many compilations are a turn where nothing is decided.
const maxCompiled = 512

func (c *programs) get(spec string) (compilation, bool) {
	c.Lock()
	defer c.Unlock()
	if found, known := c.now[spec]; known {
		return found, true
	}
	found, known := c.before[spec]
	if known {
		c.put(spec, found)
	}
	return found, known
}

func (c *programs) put(spec string, found compilation) {
	if len(c.now) >= max(maxCompiled, c.strategies) {
		c.turn()
	}
	if c.now == nil {
		c.now = map[string]compilation{}
	}
	c.now[spec] = found
}

func (c *programs) turn() { c.now, c.before = nil, c.now }

// decides begins a decision on so many strategies, which the function returned ends.
func (c *programs) decides(strategies int) (end func()) {
	c.Lock()
	defer c.Unlock()
	c.strategies = strategies
	return func() {
		c.Lock()
		defer c.Unlock()
		c.turn()
	}
}

func compile(spec string) (*program, error) {
	if c, known := compiled.get(spec); known {
		return c.program, c.err
	}
	// It may take seconds, in which those that are compiled are decided on.
	p, err := newProgram(spec)
	if err != nil {
		p = nil
	}
	compiled.Lock()
	defer compiled.Unlock()
	compiled.put(spec, compilation{p, err})
	return p, err
}

// checker collects what is wrong, by path.
type checker struct {
	errs []error
	text int // bytes of all expressions so far
}

func (c *checker) bad(path, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

func (c *checker) most(path string, n, most int) {
	if n > most {
		c.bad(path, "must have at most %d entries, has %d", most, n)
	}
}

func (c *checker) duration(path string, d time.Duration) {
	if d < 0 || d > maxDuration {
		c.bad(path, "must be from 0 to %v, is %v", maxDuration, d)
	}
}

func (c *checker) replicas(path string, n *int32) {
	if n != nil && (*n < 1 || *n > maxReplicas) {
		c.bad(path, "must be from 1 to %d, is %d", maxReplicas, *n)
	}
}

var (
	identifier = regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,62}$`)
	ruleName   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)
)

func newProgram(text string) (*program, error) {
	p := &program{propose: map[[2]int]*expression{}}
	if err := json.Unmarshal([]byte(text), &p.spec); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	s := &p.spec
	c := &checker{}
	if !slices.Contains([]v1alpha1.Mode{"", v1alpha1.ModeOff, v1alpha1.ModeShadow, v1alpha1.ModeFull}, s.Mode) {
		c.bad("spec.mode", "must be Off, Shadow or Full, is %q", s.Mode)
	}
	if s.Priority < -maxPriority || s.Priority > maxPriority {
		c.bad("spec.priority", "must be from %d to %d, is %d", -maxPriority, maxPriority, s.Priority)
	}
	var err error
	if p.zone, err = time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
		c.bad("spec.timeZone", "%q is not an IANA time zone such as Europe/London", s.TimeZone)
		p.zone = time.UTC
	}
	if len(s.Rules) == 0 && s.Choose == nil && s.Learn == nil && len(s.Outputs) == 0 {
		c.bad("spec", "needs rules, choose, learn or outputs")
	}
	names := c.sensors(s.Sensors)
	env, err := newEnv(names, false)
	if err != nil {
		return nil, fmt.Errorf("spec.sensors: %w", err)
	}
	p.rules(c, env)
	p.choose(c, env, names)
	p.learn(c, env)
	c.most("spec.outputs", len(s.Outputs), maxOutputs)
	p.outputs = c.features("spec.outputs", env, s.Outputs, false)
	if err := errors.Join(c.errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// sensors returns their names, those that can be used.
func (c *checker) sensors(list []v1alpha1.Sensor) []string {
	c.most("spec.sensors", len(list), maxSensors)
	var names []string
	for i, s := range list[:min(len(list), maxSensors)] {
		path := fmt.Sprintf("spec.sensors[%d]", i)
		switch {
		case !identifier.MatchString(s.Name):
			c.bad(path+".name", "must begin with a small letter and have letters and digits only, at most 63, is %q", s.Name)
		case slices.Contains(reserved, s.Name):
			c.bad(path+".name", "%q has a meaning of its own in expressions", s.Name)
		case slices.Contains(names, s.Name):
			c.bad(path+".name", "%q is the name of another sensor", s.Name)
		default:
			names = append(names, s.Name)
		}
		sources := 0
		for _, is := range []bool{s.Prometheus != nil, s.HTTP != nil, s.Object != nil, s.Strategy != nil} {
			if is {
				sources++
			}
		}
		switch {
		case sources != 1:
			c.bad(path, "must have one of prometheus, http, object and strategy")
		case s.Prometheus != nil && (s.Prometheus.Query == "" || len(s.Prometheus.Query) > 4096):
			c.bad(path+".prometheus.query", "must have 1 to 4096 bytes, has %d", len(s.Prometheus.Query))
		case s.Strategy != nil && (s.Strategy.Name == "" || s.Strategy.Output == ""):
			c.bad(path+".strategy", "needs name and output")
		case s.Strategy != nil && s.When != nil:
			c.bad(path+".when", "is for what is read: outputs are those of the last cycle")
		case s.HTTP != nil:
			if err := api.CheckURL(s.HTTP.URL); err != nil {
				c.bad(path+".http.url", "%v", err)
			}
			c.jsonPath(path+".http.jsonPath", s.HTTP.JSONPath)
		case s.Object != nil:
			c.object(path+".object", *s.Object)
		}
		if err := when.Check(path+".when", s.When); err != nil {
			c.errs = append(c.errs, err)
		}
		if s.StaleAfter != nil {
			c.duration(path+".staleAfter", s.StaleAfter.Duration)
		}
	}
	return names
}

func (c *checker) expression(path string, env *cel.Env, text v1alpha1.Expression, want kind) *expression {
	before := c.text
	if c.text += len(text); c.text > maxExpressions {
		if before <= maxExpressions {
			c.bad(path, "all expressions together may have %d bytes", maxExpressions)
		}
		return nil
	}
	e, err := newExpression(env, string(text), want)
	if err != nil {
		c.bad(path, "%v", err)
	}
	return e
}

// features are numbers in CEL by name. Those of a candidate may have any name that a model
// gives what it reads.
func (c *checker) features(path string, env *cel.Env, of map[string]v1alpha1.Expression, anyName bool) []feature {
	var out []feature
	for _, name := range slices.Sorted(maps.Keys(of)) {
		switch {
		case anyName && (name == "" || len(name) > maxName || strings.ContainsFunc(name, unicode.IsControl)):
			c.bad(path, "%q must have 1 to %d bytes and no control characters", name, maxName)
		case !anyName && !identifier.MatchString(name):
			c.bad(path, "%q must begin with a small letter and have letters and digits only", name)
		}
		out = append(out, feature{name, c.expression(path+"."+name, env, of[name], aNumber)})
	}
	return out
}

func (p *program) rules(c *checker, env *cel.Env) {
	rules := p.spec.Rules
	c.most("spec.rules", len(rules), maxRules)
	var names []string
	for i, r := range rules[:min(len(rules), maxRules)] {
		path := fmt.Sprintf("spec.rules[%d]", i)
		switch {
		case !ruleName.MatchString(r.Name):
			c.bad(path+".name", "must be of letters, digits and dashes, at most 63, is %q", r.Name)
		case r.Name == choosing || r.Name == learning && p.spec.Learn != nil:
			c.bad(path+".name", "%q has a meaning of its own", r.Name)
		case slices.Contains(names, r.Name):
			c.bad(path+".name", "%q is the name of another rule", r.Name)
		}
		names = append(names, r.Name)
		p.when = append(p.when, c.expression(path+".when", env, r.When, aBool))
		var until *expression
		if r.Until != "" {
			until = c.expression(path+".until", env, r.Until, aBool)
		}
		p.until = append(p.until, until)
		c.duration(path+".for", r.For.Duration)
		c.duration(path+".minStay", r.MinStay.Duration)
		if len(r.Actions) == 0 {
			c.bad(path+".actions", "is required")
		}
		c.most(path+".actions", len(r.Actions), maxActions)
		for j, a := range r.Actions[:min(len(r.Actions), maxActions)] {
			p.action(c, env, fmt.Sprintf("%s.actions[%d]", path, j), [2]int{i, j}, a)
		}
	}
}

func (p *program) action(c *checker, env *cel.Env, path string, at [2]int, a v1alpha1.StrategyAction) {
	kinds := 0
	for _, is := range []bool{a.SetPolicy != nil, a.Move != nil, a.SetBounds != nil, a.ProposeReplicas != nil, a.CallWebhook != nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		c.bad(path, "must have one of setPolicy, move, setBounds, proposeReplicas and callWebhook")
		return
	}
	switch {
	case a.SetPolicy != nil && a.SetPolicy.Policy == "":
		c.bad(path+".setPolicy.policy", "is required")
	case a.Move != nil:
		c.pools(path+".move.pools", a.Move.Pools)
		c.workload(path+".move.workload", a.Move.Workload)
	case a.SetBounds != nil:
		b := a.SetBounds
		if b.Workload == "" {
			c.bad(path+".setBounds.workload", "is required")
		}
		if b.MinReplicas == nil && b.MaxReplicas == nil {
			c.bad(path+".setBounds", "needs minReplicas or maxReplicas")
		}
		c.replicas(path+".setBounds.minReplicas", b.MinReplicas)
		c.replicas(path+".setBounds.maxReplicas", b.MaxReplicas)
		if b.MinReplicas != nil && b.MaxReplicas != nil && *b.MinReplicas > *b.MaxReplicas {
			c.bad(path+".setBounds.minReplicas", "must not be larger than maxReplicas")
		}
	case a.CallWebhook != nil:
		if err := api.CheckURL(a.CallWebhook.URL); err != nil {
			c.bad(path+".callWebhook.url", "%v", err)
		}
	case a.ProposeReplicas != nil:
		if a.ProposeReplicas.Workload == "" {
			c.bad(path+".proposeReplicas.workload", "is required")
		}
		p.propose[at] = c.expression(path+".proposeReplicas.replicas", env, a.ProposeReplicas.Replicas, aNumber)
	}
}

func (c *checker) pools(path string, pools []string) {
	if len(pools) == 0 {
		c.bad(path, "is required")
	}
	c.most(path, len(pools), maxPools)
	for i, pool := range pools {
		if pool == "" || slices.Contains(pools[:i], pool) {
			c.bad(fmt.Sprintf("%s[%d]", path, i), "is empty or there twice")
		}
	}
}

// maxName is how long a name of an object, or of a feature, may be, in bytes.
const maxName = 253

// workload of a move; without one it is of all.
func (c *checker) workload(path, name string) {
	if len(name) > maxName {
		c.bad(path, "must have at most %d bytes, has %d", maxName, len(name))
	}
}

func (p *program) choose(c *checker, env *cel.Env, sensors []string) {
	s := p.spec.Choose
	if s == nil {
		return
	}
	const path = "spec.choose"
	c.workload(path+".workload", s.Workload)
	if n := len(s.Candidates); n < 2 || n > maxCandidates {
		c.bad(path+".candidates", "must have 2 to %d entries, has %d", maxCandidates, n)
		return
	}
	var names []string
	for i, of := range s.Candidates {
		at := fmt.Sprintf("%s.candidates[%d]", path, i)
		if !ruleName.MatchString(of.Name) || slices.Contains(names, of.Name) {
			c.bad(at+".name", "must be of letters, digits and dashes, and not that of another candidate, is %q", of.Name)
		}
		names = append(names, of.Name)
		c.pools(at+".pools", of.Pools)
		c.most(at+".features", len(of.Features), maxNames)
		p.features = append(p.features, c.features(at+".features", env, of.Features, true))
	}
	inner, err := newEnv(sensors, true)
	if err != nil {
		c.bad(path, "%v", err)
		return
	}
	p.score = c.expression(path+".score", inner, s.Score, aNumber)
	if s.Require != "" {
		p.require = c.expression(path+".require", inner, s.Require, aBool)
	}
	for _, e := range []*expression{p.score, p.require} {
		if e != nil && e.predicts && s.Model == nil {
			c.bad(path+".model", "is required, because %q reads predicted", e.text)
		}
	}
	if m := s.MarginPercent; m != nil && (*m < 0 || *m > 1000) {
		c.bad(path+".marginPercent", "must be from 0 to 1000, is %d", *m)
	}
	if s.Model != nil && s.Model.Name == "" {
		c.bad(path+".model.name", "is required")
	}
	c.duration(path+".payback", s.Payback.Duration)
	c.duration(path+".minStay", s.MinStay.Duration)
}
