// Package slo reads the service level objectives that people have: resources of Sloth
// and Pyrra, OpenSLO v1, and PromQL. Each becomes one and the same [Definition].
package slo

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/mash2-io/mash2/sensing/promql"
)

// Definition of an objective: so many of all events must be good. Bad and Total are PromQL
// in a canonical form with {{.window}} for every range; each gives one series.
type Definition struct {
	// Objective is the share of events that must be good, in (0, 1).
	Objective float64
	Bad       string
	Total     string
	// PerSecond tells that the queries give events per second, not events.
	PerSecond bool
	// SameMetric tells that both read the same metric, and bad events by themselves: then no series of
	// bad events means that there were none, where there are events. All events less the good ones have
	// no series either where there is none of good ones, and all are bad.
	SameMetric bool
}

// window is written for a range; some write blanks.
var window = regexp.MustCompile(`\{\{\s*\.window\s*\}\}`)

const (
	// maxText of a query, in bytes, as its author wrote it.
	maxText = 16 << 10

	placeholder = "{{.window}}"
	// stands is a range that nobody writes, for the placeholder while PromQL is parsed.
	stands = 77777 * time.Second
)

// Over returns the queries for a window.
func (d Definition) Over(w time.Duration) (bad, total string) {
	text := model.Duration(w).String()
	return strings.ReplaceAll(d.Bad, placeholder, text), strings.ReplaceAll(d.Total, placeholder, text)
}

// FromPromQL makes a Definition of an objective in percent and two queries, of bad events
// and of all of them. Ranges are written [{{.window}}], as Sloth has it.
func FromPromQL(objective, bad, total string) (Definition, error) {
	return define(objective, 100, query{text: bad}, query{}, query{text: total})
}

// query is what an author wrote.
type query struct {
	text string
	// raw is the name of a counter with matchers, of which the rate is to be taken.
	raw bool
}

// define checks and canonicalises: of bad and good events one is stated.
func define(objective string, of float64, bad, good, total query) (d Definition, err error) {
	share, err := strconv.ParseFloat(strings.TrimSpace(objective), 64)
	if share /= of; err != nil || !(share > 0 && share < 1) {
		return d, fmt.Errorf("the objective must be above 0 and below %g, is %q", of, objective)
	}
	// 99.9/100 and 0.999 are the same objective.
	if d.Objective, err = strconv.ParseFloat(strconv.FormatFloat(share, 'g', 12, 64), 64); err != nil {
		return d, err
	}
	all, err := total.parse()
	if err != nil {
		return d, fmt.Errorf("of all events: %w", err)
	}
	var wrong parser.Expr
	switch {
	case bad.text != "":
		if wrong, err = bad.parse(); err != nil {
			return d, fmt.Errorf("of bad events: %w", err)
		}
	case good.text != "":
		right, err := good.parse()
		if err != nil {
			return d, fmt.Errorf("of good events: %w", err)
		}
		if wrong = others(all, right); wrong == nil {
			if wrong, err = parser.ParseExpr(fmt.Sprintf("(%s) - (%s)", all, right)); err != nil {
				return d, err
			}
		}
	default:
		return d, errors.New("there is no query of bad events, nor of good ones")
	}
	perSecond, err := kind(all)
	if err != nil {
		return d, fmt.Errorf("of all events: %w", err)
	}
	if bads, err := kind(wrong); err != nil || bads != perSecond {
		return d, errors.Join(errors.New("of bad events: must use the same function as the query of all events: both rate, or both increase"), err)
	}
	d.PerSecond = perSecond
	d.SameMetric = len(metrics(wrong)) == 1 && slices.Equal(slices.Compact(metrics(wrong)), slices.Compact(metrics(all)))
	d.Bad, d.Total = canonical(wrong), canonical(all)
	return d, nil
}

// parse a query with the placeholder's stand-in.
func (q query) parse() (parser.Expr, error) {
	if strings.TrimSpace(q.text) == "" {
		return nil, errors.New("there is no query")
	}
	if len(q.text) > maxText {
		return nil, fmt.Errorf("is longer than %d bytes", maxText)
	}
	text := window.ReplaceAllString(q.text, model.Duration(stands).String())
	if err := promql.Patterns(text); err != nil {
		return nil, err
	}
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	if !q.raw {
		return fixed(expr)
	}
	// A counter is summed over its series, and its rate taken before.
	inner := unwrap(expr)
	if sum, ok := inner.(*parser.AggregateExpr); ok && sum.Op == parser.SUM && len(sum.Grouping) == 0 {
		inner = unwrap(sum.Expr)
	}
	if _, ok := inner.(*parser.VectorSelector); !ok {
		return fixed(expr) // its author has taken the rate
	}
	return parser.ParseExpr(fmt.Sprintf("sum(rate(%s[%s]))", inner, model.Duration(stands)))
}

func unwrap(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

// fixed makes every range the window: one that its author fixed would see what is over.
func fixed(expr parser.Expr) (parser.Expr, error) {
	ranges := 0
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.MatrixSelector:
			n.Range = stands
			ranges++
		case *parser.SubqueryExpr:
			n.Range = stands
			ranges++
		}
		return nil
	})
	if ranges == 0 {
		return nil, fmt.Errorf("%q has no range such as [%s]: it would count all events there ever were", expr, placeholder)
	}
	return expr, nil
}

// kind tells whether events are counted per second. It refuses what does both.
func kind(expr parser.Expr) (perSecond bool, err error) {
	rates, counts := 0, 0
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if call, ok := node.(*parser.Call); ok {
			switch call.Func.Name {
			case "rate", "irate", "deriv":
				rates++
			case "increase", "delta", "sum_over_time", "count_over_time":
				counts++
			}
		}
		return nil
	})
	if rates > 0 && counts > 0 {
		return false, errors.New("has both rates and counts")
	}
	return rates > 0, nil
}

// metrics names those that are read, in order of appearance.
func metrics(expr parser.Expr) (names []string) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	return names
}

func canonical(expr parser.Expr) string {
	return strings.ReplaceAll(expr.String(), model.Duration(stands).String(), placeholder)
}

// inverse of how labels are matched.
var inverse = map[labels.MatchType]labels.MatchType{
	labels.MatchEqual: labels.MatchNotEqual, labels.MatchNotEqual: labels.MatchEqual,
	labels.MatchRegexp: labels.MatchNotRegexp, labels.MatchNotRegexp: labels.MatchRegexp,
}

// others are the events of all that are not good ones, where the two queries are the same
// but for one matcher more of the good ones; nil where they aren't. Two rates that are
// taken from one another would give what neither has.
func others(all, good parser.Expr) parser.Expr {
	wrong, err := parser.ParseExpr(good.String())
	if err != nil {
		return nil
	}
	of, in := selectors(all), selectors(wrong)
	if len(of) != 1 || len(in) != 1 || of[0].Name != in[0].Name {
		return nil
	}
	var more []*labels.Matcher
	kept := make([]*labels.Matcher, 0, len(in[0].LabelMatchers))
	for _, m := range in[0].LabelMatchers {
		if has(of[0].LabelMatchers, m) {
			kept = append(kept, m)
			continue
		}
		more = append(more, m)
	}
	if len(more) != 1 || len(kept) != len(of[0].LabelMatchers) {
		return nil
	}
	turned, err := labels.NewMatcher(inverse[more[0].Type], more[0].Name, more[0].Value)
	if err != nil {
		return nil
	}
	in[0].LabelMatchers = of[0].LabelMatchers
	if wrong.String() != all.String() {
		return nil // of another form
	}
	in[0].LabelMatchers = append(kept, turned)
	return wrong
}

func has(list []*labels.Matcher, m *labels.Matcher) bool {
	for _, other := range list {
		if other.String() == m.String() {
			return true
		}
	}
	return false
}

func selectors(expr parser.Expr) (out []*parser.VectorSelector) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			out = append(out, v)
		}
		return nil
	})
	return out
}
