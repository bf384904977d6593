// Package promql lets a query of PromQL see one namespace only, and cost no more than it may.
package promql

import (
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Confine returns a query that reads no series but those of a namespace: every
// selector in it gets the matcher, besides those it has. Matchers are further
// ones, in PromQL, such as `cluster="prod"`; empty for none.
//
// A selector that names another namespace is refused rather than left to find
// nothing, and so is info(), which adds labels of series that no selector names, and
// whatever is beyond the bounds of what one query may cost.
func Confine(query, label, namespace, matchers string) (string, error) {
	return rewrite(query, label, namespace, matchers)
}

// Bound returns a query that may read every series, within the bounds of what one query may
// cost: for who may read all of them anyway. Matchers are as in Confine.
func Bound(query, matchers string) (string, error) { return rewrite(query, "", "", matchers) }

// rewrite confines a query to a namespace, to none in particular where label is empty.
func rewrite(query, label, namespace, matchers string) (string, error) {
	if len(query) > maxQuery {
		return "", fmt.Errorf("is longer than %d bytes", maxQuery)
	}
	if err := Patterns(query); err != nil {
		return "", err
	}
	expr, err := parser.ParseExpr(query)
	if err != nil {
		return "", err
	}
	switch expr.Type() {
	case parser.ValueTypeVector, parser.ValueTypeScalar:
	default:
		return "", fmt.Errorf("must be an instant vector or a scalar, is a %s", parser.DocumentedType(expr.Type()))
	}
	if err := bounded(expr); err != nil {
		return "", err
	}
	var also []*labels.Matcher
	if label != "" {
		also = append(also, labels.MustNewMatcher(labels.MatchEqual, label, namespace))
	}
	if matchers != "" {
		more, err := parser.ParseMetricSelector("{" + matchers + "}")
		if err != nil {
			return "", fmt.Errorf("the operator's matchers: %w", err)
		}
		also = append(also, more...)
	}
	var refused error
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.Call:
			if n.Func.Name == "info" {
				refused = errors.Join(refused, errors.New("info() is not allowed"))
			}
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				if label != "" && m.Name == label && !m.Matches(namespace) {
					refused = errors.Join(refused, fmt.Errorf("%s is not of namespace %s", m, namespace))
				}
			}
			n.LabelMatchers = append(n.LabelMatchers, also...)
		}
		return nil
	})
	if refused != nil {
		return "", refused
	}
	return expr.String(), nil
}
