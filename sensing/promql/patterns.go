package promql

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"github.com/mash2-io/mash2/api"
)

// maxGrown is by how much the texts of a query may grow, as regular expressions, when their
// repetitions are written out.
const maxGrown = 1000

// Patterns refuses a query whose regular expressions repeat too much. It must be asked before the query
// is parsed: the parser compiles each of them, in minutes where a hundred letters are repeated a thousand
// times. Texts that are no patterns are looked at, too, as label_replace has its own.
func Patterns(query string) error {
	grown := 0
	lexer := parser.Lex(query)
	for {
		var item parser.Item
		lexer.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR: // the parser tells of it
			return nil
		case parser.STRING:
			text, err := strutil.Unquote(item.Val)
			if err != nil {
				continue
			}
			if grown += max(0, api.PatternLength(text)-len(text)); grown > maxGrown {
				return fmt.Errorf("the regular expression %.100q repeats too much: at most %d are allowed in all", text, maxGrown)
			}
		}
	}
}
