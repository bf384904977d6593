package strategy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	celenv "github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/stdlib"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	"github.com/mash2-io/mash2/api"
)

// What one expression may cost: its length, and that of all of a Strategy, bytes; how deep it is nested; and the units of
// CEL's runtime cost of one evaluation, of which an operation is about one. All evaluations of
// a Strategy in a cycle may begin until they have cost maxCosts.
const (
	maxExpression  = 2048
	maxExpressions = 16 << 10
	maxNesting     = 32
	maxCost        = 10_000
	maxCosts       = 200_000
	// maxPattern is how long a regular expression may be, in bytes, and in what it is made of once
	// its repetitions are written out.
	maxPattern = 256
)

// reserved names of expressions, which no sensor has.
var reserved = []string{"now", "hour", "minute", "weekday", "policy", "c", "predicted", "math", "size", "has", "all", "exists", "map", "filter", "type", "in"}

// kind is what an expression gives.
type kind int

const (
	aBool kind = iota
	aNumber
)

// expression is one that is compiled.
type expression struct {
	text    string
	program cel.Program
	sensors []string // that it reads, in order of name
	// predicts: it reads the model's prediction.
	predicts bool
}

// errMissing is of an expression that reads what has no value.
var errMissing = errors.New("has no value")

// newEnv is what expressions know: sensors and the time; of candidates their features too.
func newEnv(sensors []string, candidate bool) (*cel.Env, error) {
	options := []cel.EnvOption{
		ext.Math(), cel.CrossTypeNumericComparisons(true), cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(maxExpression),
		cel.Variable("now", cel.TimestampType), cel.Variable("hour", cel.IntType), cel.Variable("minute", cel.IntType),
		cel.Variable("weekday", cel.IntType), cel.Variable("policy", cel.StringType),
	}
	for _, s := range sensors {
		options = append(options, cel.Variable(s, cel.DoubleType))
	}
	if candidate {
		options = append(options, cel.Variable("c", cel.MapType(cel.StringType, cel.DoubleType)), cel.Variable("predicted", cel.DoubleType))
	}
	return cel.NewEnv(options...)
}

func newExpression(env *cel.Env, text string, want kind) (*expression, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("is required")
	case len(text) > maxExpression:
		return nil, fmt.Errorf("is longer than %d bytes", maxExpression)
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	switch t := ast.OutputType(); {
	case want == aBool && !t.IsExactType(cel.BoolType):
		return nil, fmt.Errorf("must give true or false, gives a %s", t)
	case want == aNumber && !t.IsExactType(cel.DoubleType) && !t.IsExactType(cel.IntType):
		return nil, fmt.Errorf("must give a number, gives a %s", t)
	}
	if err := patterns(ast); err != nil {
		return nil, err
	}
	planned, err := planningEnv(ast)
	if err != nil {
		return nil, err
	}
	program, err := planned.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize), cel.CustomDecorator(finite))
	if err != nil {
		return nil, err
	}
	e := &expression{text: text, program: program}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		switch {
		case ref.Name == "predicted":
			e.predicts = true
		case ref.Name != "" && !slices.Contains(reserved, ref.Name) && identifier.MatchString(ref.Name) && !slices.Contains(e.sensors, ref.Name):
			e.sensors = append(e.sensors, ref.Name)
		}
	}
	slices.Sort(e.sensors)
	return e, nil
}

// knownTypes are CEL's own, the same for all expressions.
var knownTypes = sync.OnceValues(func() (*types.Registry, error) { return types.NewRegistry() })

// planningEnv knows the functions that an expression calls and no others: a program keeps all those of
// its environment, which would be most of what it takes.
func planningEnv(ast *cel.Ast) (*cel.Env, error) {
	registry, err := knownTypes()
	if err != nil {
		return nil, err
	}
	called := map[string]bool{}
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.CallKind {
			called[e.AsCall().FunctionName()] = true
		}
	}))
	standard := celenv.NewLibrarySubset().SetDisableMacros(true)
	for _, f := range stdlib.Functions() {
		if called[f.Name()] {
			standard.AddIncludedFunctions(celenv.NewFunction(f.Name()))
			delete(called, f.Name())
		}
	}
	standard.SetDisabled(len(standard.IncludeFunctions) == 0)
	options := []cel.EnvOption{cel.CustomTypeAdapter(registry), cel.CustomTypeProvider(registry), cel.StdLib(cel.StdLibSubset(standard))}
	if len(called) > 0 {
		options = append(options, ext.Math())
	}
	return cel.NewCustomEnv(options...)
}

// patterns refuses regular expressions that take much memory, or are not known before they are used:
// CEL's cost counts their text, and a{1000} is a thousand times as much.
func patterns(ast *cel.Ast) (err error) {
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		last := args[len(args)-1]
		text, ok := "", last.Kind() == celast.LiteralKind
		if ok {
			text, ok = last.AsLiteral().Value().(string)
		}
		switch {
		case !ok:
			err = errors.New("the pattern of matches must be a text in quotes")
		case len(text) > maxPattern:
			err = fmt.Errorf("a pattern of matches is longer than %d bytes", maxPattern)
		default:
			if api.PatternLength(text) > maxPattern { // what is no pattern is told by CEL
				err = fmt.Errorf("the pattern %q of matches is too large: its repetitions make it more than %d long", text, maxPattern)
			}
		}
	}))
	return err
}

// scope is what an expression sees.
type scope struct {
	values  map[string]any
	missing map[string]string // why a sensor has no value
	spent   *uint64           // what the Strategy's evaluations have cost in this cycle
}

func newScope(now time.Time, zone *time.Location, policy string) scope {
	local := now.In(zone)
	return scope{missing: map[string]string{}, spent: new(uint64), values: map[string]any{
		"now": now, "hour": int64(local.Hour()), "minute": int64(local.Minute()), "weekday": int64(local.Weekday()), "policy": policy,
	}}
}

// eval gives what an expression is. The error wraps errMissing where it reads what has no
// value.
func (e *expression) eval(s scope) (any, error) {
	for _, name := range e.sensors {
		if why, ok := s.missing[name]; ok {
			return nil, fmt.Errorf("%s %w: %s", name, errMissing, why)
		}
	}
	if *s.spent >= maxCosts {
		return nil, fmt.Errorf("%q is not computed: the Strategy's expressions before it cost %d, and %d are the most in a cycle", e.text, *s.spent, maxCosts)
	}
	out, details, err := e.program.Eval(s.values)
	if cost := details.ActualCost(); cost != nil {
		*s.spent += *cost
	} else {
		*s.spent += maxCost
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", e.text, err)
	}
	return out.Value(), nil
}

func (e *expression) bool(s scope) (bool, error) {
	v, err := e.eval(s)
	if err != nil {
		return false, err
	}
	return v.(bool), nil // as its type was checked
}

func (e *expression) number(s scope) (float64, error) {
	v, err := e.eval(s)
	if err != nil {
		return 0, err
	}
	f, ok := v.(float64)
	if !ok {
		f = float64(v.(int64)) // as its type was checked
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q gives %g, which is no finite number", e.text, f)
	}
	return f, nil
}

// values of what an expression reads, for reasons.
func (e *expression) read(s scope) string {
	if len(e.sensors) == 0 {
		return ""
	}
	var parts []string
	for _, name := range e.sensors {
		if v, ok := s.values[name].(float64); ok {
			parts = append(parts, fmt.Sprintf("%s is %.6g", name, v))
		}
	}
	return strings.Join(parts, ", ")
}

// finite makes a division by zero an error also of fractional numbers, of which CEL makes an
// infinity, which is more than anything.
func finite(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	if call, ok := i.(interpreter.InterpretableCall); ok && call.Function() == operators.Divide {
		return division{call}, nil
	}
	return i, nil
}

type division struct{ interpreter.InterpretableCall }

// Eval implements interpreter.Interpretable.
func (d division) Eval(vars interpreter.Activation) ref.Val {
	out := d.InterpretableCall.Eval(vars)
	if v, ok := out.(types.Double); ok && (math.IsInf(float64(v), 0) || math.IsNaN(float64(v))) {
		return types.NewErr("division by zero")
	}
	return out
}
