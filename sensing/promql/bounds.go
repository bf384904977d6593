package promql

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// What a trigger's query may ask of a Prometheus that others use as well. It says
// what demand is now, and is evaluated at each step of the history too.
const (
	// maxQuery is the length of its text, bytes.
	maxQuery = 4096
	// maxQueryRange is how far one evaluation looks back, by a range or a subquery.
	maxQueryRange = time.Hour
	// maxQueryOffset is how far its windows may be shifted: a season back.
	maxQueryOffset = 8 * 24 * time.Hour
	// maxSubqueries, none of which is within another, and minResolution of each.
	// Without one it has the server's evaluation interval, which is no less.
	maxSubqueries = 2
	minResolution = 15 * time.Second
	// maxSelectors of series.
	maxSelectors = 16
	// maxNesting of expressions.
	maxNesting = 32
	// maxTouched are the samples of one series that one evaluation touches, at a scrape interval of
	// minResolution: those of every window, times the evaluations of a subquery.
	maxTouched = 10_000
)

// bounded refuses a query that costs its Prometheus too much, whatever it reads.
func bounded(expr parser.Expr) error {
	var b bounds
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		b.look(node, path)
		return nil
	})
	check := func(ok bool, format string, args ...any) {
		if !ok {
			b.refuse(format, args...)
		}
	}
	check(b.subqueries <= maxSubqueries, "has %d subqueries, at most %d are allowed", b.subqueries, maxSubqueries)
	check(b.selectors <= maxSelectors, "has %d selectors, at most %d are allowed", b.selectors, maxSelectors)
	check(b.depth <= maxNesting, "is nested %d deep, at most %d are allowed", b.depth, maxNesting)
	check(b.samples <= maxTouched, "touches %d samples of a series in one evaluation, at most %d are allowed: shorten its ranges", b.samples, maxTouched)
	return errors.Join(b.refused...)
}

type bounds struct {
	subqueries, selectors, depth int
	samples                      int64
	refused                      []error
}

func (b *bounds) refuse(format string, args ...any) {
	b.refused = append(b.refused, fmt.Errorf(format, args...))
}

func (b *bounds) look(node parser.Node, path []parser.Node) {
	if node != nil {
		b.depth = max(b.depth, len(path)+1)
	}
	switch n := node.(type) {
	case *parser.MatrixSelector:
		b.window("the range", n.Range)
		b.samples += points(n.Range, minResolution) * evaluated(path)
	case *parser.VectorSelector:
		b.selectors++
		b.shift(n.OriginalOffset, n.Timestamp)
		if len(path) == 0 || !isRange(path[len(path)-1]) {
			b.samples += evaluated(path)
		}
	case *parser.SubqueryExpr:
		b.subqueries++
		b.window("the range of a subquery", n.Range)
		b.shift(n.OriginalOffset, n.Timestamp)
		if n.Step != 0 && n.Step < minResolution {
			b.refuse("the resolution of a subquery is %s, less than %s", model.Duration(n.Step), model.Duration(minResolution))
		}
		for _, above := range path {
			if _, ok := above.(*parser.SubqueryExpr); ok {
				b.refuse("has a subquery within a subquery")
				break
			}
		}
		b.samples += evaluated(append(path[:len(path):len(path)], n))
	}
}

func (b *bounds) window(what string, d time.Duration) {
	if d > maxQueryRange {
		b.refuse("%s is %s, more than %s", what, model.Duration(d), model.Duration(maxQueryRange))
	}
}

func (b *bounds) shift(offset time.Duration, at *int64) {
	if offset > maxQueryOffset || offset < 0 {
		b.refuse("offset is %s, must be from 0 to %s", offset, model.Duration(maxQueryOffset))
	}
	if at != nil {
		b.refuse("@ with a time is not allowed: a trigger says what is now")
	}
}

func isRange(n parser.Node) bool {
	_, ok := n.(*parser.MatrixSelector)
	return ok
}

// points of a window.
func points(window, step time.Duration) int64 { return int64(window/step) + 1 }

// evaluated is how often what is below some nodes is evaluated for one step.
func evaluated(path []parser.Node) int64 {
	n := int64(1)
	for _, node := range path {
		if s, ok := node.(*parser.SubqueryExpr); ok {
			n *= points(min(s.Range, 100*maxQueryRange), max(s.Step, minResolution))
		}
	}
	return n
}
