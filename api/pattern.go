package api

import "regexp/syntax"

// PatternLength is how long a regular expression is, in what it is made of, once its repetitions are
// written out: that of a{1000} is a thousand. It is 0 of a text that is none. Whoever compiles one
// needs time and memory by this length and not by that of its text.
func PatternLength(text string) int {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	return writtenOut(parsed)
}

func writtenOut(r *syntax.Regexp) int {
	switch r.Op {
	case syntax.OpLiteral:
		return len(r.Rune)
	case syntax.OpRepeat:
		return max(r.Min, r.Max, 1) * writtenOut(r.Sub[0])
	}
	n := 1
	for _, sub := range r.Sub {
		n += writtenOut(sub)
	}
	return n
}
