package promql

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

const ns = "shop"

func TestConfine(t *testing.T) {
	for name, c := range map[string]struct{ query, want, err string }{
		"a selector":                {query: `up`, want: `up{namespace="shop"}`},
		"its own matcher stays":     {query: `up{job="x"}`, want: `up{job="x",namespace="shop"}`},
		"the same namespace":        {query: `up{namespace="shop"}`, want: `up{namespace="shop",namespace="shop"}`},
		"a pattern that has it":     {query: `up{namespace=~"s.*"}`, want: `up{namespace="shop",namespace=~"s.*"}`},
		"both sides":                {query: `sum(a) / on () sum(b)`, want: `sum(a{namespace="shop"}) / on () sum(b{namespace="shop"})`},
		"ranges and subqueries":     {query: `max_over_time(rate(a[1m])[5m:15s])`, want: `max_over_time(rate(a{namespace="shop"}[1m])[5m:15s])`},
		"no name at all":            {query: `sum({__name__=~".+"})`, want: `sum({__name__=~".+",namespace="shop"})`},
		"a scalar":                  {query: `sum(a) or vector(0)`, want: `sum(a{namespace="shop"}) or vector(0)`},
		"offset and @":              {query: `a offset 5m`, want: `a{namespace="shop"} offset 5m`},
		"absent":                    {query: `absent(a)`, want: `absent(a{namespace="shop"})`},
		"another namespace":         {query: `a{namespace="bank"}`, err: `namespace="bank" is not of namespace shop`},
		"every namespace but it":    {query: `a{namespace!="shop"}`, err: "is not of namespace shop"},
		"one of many that is not":   {query: `sum(a) + sum(b{namespace=~"bank|post"})`, err: "is not of namespace shop"},
		"a label made afterwards":   {query: `label_replace(a, "namespace", "bank", "", "")`, want: `label_replace(a{namespace="shop"}, "namespace", "bank", "", "")`},
		"a matcher closed too soon": {query: `a{x="\"} or b{y=\""}`, want: `a{namespace="shop",x="\"} or b{y=\""}`},
		"a comment":                 {query: "a # }\n+ b", want: `a{namespace="shop"} + b{namespace="shop"}`},
		"a string":                  {query: `"a"`, err: "must be an instant vector or a scalar"},
		"a range":                   {query: `a[5m]`, err: "must be an instant vector or a scalar"},
		"nothing":                   {query: ``, err: "no expression"},
		"too much":                  {query: strings.Repeat("(", 5000), err: "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Confine(c.query, "namespace", ns, "")
			if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
	if got, err := Confine("a", "namespace", ns, `cluster="prod"`); err != nil || got != `a{cluster="prod",namespace="shop"}` {
		t.Errorf("with the operator's matchers: %s, %v", got, err)
	}
}

// TestExpensiveQueriesAreRefused: what one namespace asks must not keep a shared
// Prometheus from the others, whether or not it reads a series at all.
func TestExpensiveQueriesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ query, err string }{
		"a year by the second of a constant": {`sum_over_time(vector(1)[365d:1s])`, "the range of a subquery is 1y, more than 1h"},
		"its resolution alone":               {`sum_over_time(vector(1)[1h:1s])`, "the resolution of a subquery is 1s, less than 15s"},
		"a subquery of a millisecond":        {`sum_over_time(a[5m:1ms])`, "the resolution of a subquery is 1ms"},
		"a year of series":                   {`sum(rate(a[1y]))`, "the range is 1y, more than 1h"},
		"a day of series":                    {`max_over_time(a[1d])`, "the range is 1d"},
		"a subquery without resolution":      {`max_over_time(a[30d:])`, "the range of a subquery is 30d"},
		"a subquery within a subquery":       {`max_over_time(sum_over_time(a[5m:15s])[5m:15s])`, "a subquery within a subquery"},
		"deeper within": {`max_over_time(
			sum(avg_over_time(sum(max_over_time(a[1h:15s]))[1h:15s]))[1h:15s])`, "a subquery within a subquery"},
		"many subqueries":       {`sum_over_time(a[5m:1m]) + sum_over_time(b[5m:1m]) + sum_over_time(c[5m:1m])`, "has 3 subqueries, at most 2"},
		"an hour of hours":      {`max_over_time(rate(a[1h])[1h:15s])`, "touches 58322 samples of a series in one evaluation"},
		"an hour 41 times":      {strings.Repeat("sum(rate(a[1h])) + ", 15) + "sum(max_over_time(rate(a[30m])[30m:15s]))", "samples of a series in one evaluation"},
		"many selectors":        {strings.Repeat("a + ", 20) + "a", "has 21 selectors, at most 16"},
		"brackets":              {strings.Repeat("(", 100) + "a" + strings.Repeat(")", 100), "is nested 101 deep"},
		"functions":             {strings.Repeat("abs(", 40) + "a" + strings.Repeat(")", 40), "deep, at most 32"},
		"signs":                 {strings.Repeat("-", 60) + "a", "deep, at most 32"},
		"an offset of years":    {`a offset 10y`, "offset is 87600h0m0s, must be from 0 to"},
		"the future":            {`a offset -5m`, "offset is -5m0s"},
		"a subquery's offset":   {`max_over_time(a[5m:1m] offset 1y)`, "offset is 8760h0m0s"},
		"a fixed time":          {`a @ 1700000000`, "@ with a time is not allowed"},
		"a fixed time of a sub": {`max_over_time(a[5m:1m] @ 1700000000)`, "@ with a time is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Confine(c.query, "namespace", ns, "")
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want a refusal with %q", got, err, c.err)
			}
		})
	}
	for _, q := range []string{
		`sum(rate(http_requests_total[5m]))`, `sum(increase(jobs_total[1h]))`, `max_over_time(sum(rate(a[1m]))[30m:1m])`,
		`sum(rate(a[5m])) and sum(rate(a[5m] offset 1w))`, `histogram_quantile(0.95, sum by (le) (rate(a_bucket[5m])))`,
		`quantile_over_time(0.9, queue_length[1h])`, `max_over_time(a[5m:])`, `a @ end()`,
		`sum(a) / sum(b) + sum(c) / sum(d) or vector(0)`,
	} {
		if _, err := Confine(q, "namespace", ns, ""); err != nil {
			t.Errorf("%s is refused: %v", q, err)
		}
	}
}

// TestPatternsThatRepeatAreRefused: a query is read at once, whatever its regular expressions are.
func TestPatternsThatRepeatAreRefused(t *testing.T) {
	much := strings.Repeat("a{1000}", 20)
	for name, query := range map[string]string{
		"a matcher":            `sum(a{b=~"` + much + `"})`,
		"one that excludes":    `sum(a{b!~"` + much + `"})`,
		"in other quotes":      "sum(a{b=~`" + much + "`})",
		"escaped":              `sum(a{b=~"` + strings.ReplaceAll(much, "a", `\x61`) + `"})`,
		"several matchers":     `sum(a{` + strings.Repeat(`b=~"a{900}",`, 20) + `})`,
		"of no label":          `sum(label_replace(a, "b", "$1", "c", "` + much + `"))`,
		"before what is wrong": `sum(a{b=~"` + much + `"}) "`,
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := Confine(query, "namespace", ns, "")
			if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "repeats too much") || took > time.Second {
				t.Errorf("%v after %v, want a refusal at once", err, took)
			}
		})
	}
	for _, query := range []string{
		`sum(a{pod=~"web-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}",b!~"x{0,100}"})`,
		`sum(a{pod=~"` + strings.Repeat("one-of-many|", 300) + `last"})`,
		`sum(label_replace(a, "b", "$1", "c", "(.*)-[0-9]{1,5}"))`,
	} {
		if _, err := Confine(query, "namespace", ns, ""); err != nil {
			t.Errorf("%.100s is refused: %v", query, err)
		}
	}
}

// FuzzConfine: whatever is accepted has the matcher in every selector, and
// confining it again changes nothing but doubles it.
func FuzzConfine(f *testing.F) {
	for _, q := range []string{"a", `sum by (x) (rate(a{b="c"}[1m])) or vector(0)`, `a{namespace!="shop"}`, "a # }", `{__name__="a"} @ end()`, "a[1m:]"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		out, err := Confine(q, "namespace", ns, "")
		if err != nil {
			return
		}
		for _, s := range selectorsOf(t, out) {
			if !strings.Contains(s, `namespace="shop"`) {
				t.Fatalf("%q became %q: %s sees other namespaces", q, out, s)
			}
		}
	})
}

// selectorsOf a query that was confined, as text.
func selectorsOf(t *testing.T, query string) []string {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Fatalf("%q can't be read again: %v", query, err)
	}
	var out []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			var all []string
			for _, m := range s.LabelMatchers {
				all = append(all, m.String())
			}
			out = append(out, strings.Join(all, ","))
		}
		return nil
	})
	return out
}
