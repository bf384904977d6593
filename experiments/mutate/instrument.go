package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
)

// mutant is one small change of the program that a test should notice.
type mutant struct {
	ID       int    // from 1; the number that switches it on
	File     string // relative to the module
	Function string // "Guard.Range"
	Line     int
	Change   string // "a < b → a >= b"
}

// name tells a mutant from others of its file for as long as its function is not
// changed there: it has no line number. Equal changes in one function are counted.
func (m mutant) name() string { return m.File + ": " + m.Function + ": " + m.Change }

// in reports whether a list has the mutant, as a report prints it or without a line.
func (m mutant) in(list []byte) bool {
	for line := range bytes.Lines(list) {
		if rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(m.name())); ok && (len(rest) == 0 || bytes.HasPrefix(rest, []byte(" (line "))) {
			return true
		}
	}
	return false
}

// instrument returns a source file with mutants built into some functions, each
// asleep until mutantOn(ID) is true, and the mutants, numbered from first. Nothing about types
// is known, so that only changes are made that compile whatever they are; but fields
// that match prices must be floats.
func instrument(name string, source []byte, first int, functions, prices *regexp.Regexp) ([]byte, []mutant, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	in := &instrumenter{
		set: set, name: name, source: source, prices: prices, next: first,
		seen: map[string]int{}, targets: map[ast.Node]bool{},
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if in.function = functionName(f); functions.MatchString(in.function) {
			in.block(f.Body)
		}
	}
	slices.SortStableFunc(in.edits, func(a, b edit) int { return a.at - b.at })
	return in.apply(), in.mutants, nil
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// edit inserts text at an offset of the source. Edits nest: what opens before
// closes after.
type edit struct {
	at   int
	text string
}

type instrumenter struct {
	set      *token.FileSet
	name     string
	source   []byte
	function string
	prices   *regexp.Regexp
	next     int
	edits    []edit
	mutants  []mutant
	seen     map[string]int
	targets  map[ast.Node]bool // what is assigned to, or whose address is taken
}

func (in *instrumenter) offset(p token.Pos) int { return in.set.Position(p).Offset }

func (in *instrumenter) text(n ast.Node) string {
	return string(bytes.Join(bytes.Fields(in.source[in.offset(n.Pos()):in.offset(n.End())]), []byte(" ")))
}

// add notes a mutant at a node and returns its number.
func (in *instrumenter) add(n ast.Node, change string) int {
	key := in.function + change
	if in.seen[key]++; in.seen[key] > 1 {
		change += fmt.Sprintf(" (%d)", in.seen[key])
	}
	in.mutants = append(in.mutants, mutant{
		ID: in.next, File: in.name, Function: in.function, Line: in.set.Position(n.Pos()).Line, Change: change,
	})
	in.next++
	return in.next - 1
}

// around puts text before and after a node. Of two around the same node the one
// that was asked for first is outside.
func (in *instrumenter) around(n ast.Node, before, after string) {
	in.edits = append(in.edits, edit{in.offset(n.Pos()), before})
	// Closing texts at one place are in the reverse order of their opening ones.
	end := in.offset(n.End())
	i := slices.IndexFunc(in.edits, func(e edit) bool { return e.at == end && e.text != "" })
	if i < 0 {
		i = len(in.edits)
	}
	in.edits = slices.Insert(in.edits, i, edit{end, after})
}

func (in *instrumenter) apply() []byte {
	var out bytes.Buffer
	last := 0
	for _, e := range in.edits {
		out.Write(in.source[last:e.at])
		out.WriteString(e.text)
		last = e.at
	}
	out.Write(in.source[last:])
	return out.Bytes()
}

func on(id int) string { return "mutantOn(" + strconv.Itoa(id) + ")" }

// short is a node's text, cut where it is long.
func (in *instrumenter) short(n ast.Node) string {
	const longest = 70
	t := []rune(in.text(n))
	if len(t) > longest {
		return string(t[:longest]) + "…"
	}
	return string(t)
}

// block looks for mutants in statements.
func (in *instrumenter) block(body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			in.statements(n.List)
		case *ast.CaseClause:
			in.statements(n.Body)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, clause := range n.Body.List {
					for _, cond := range clause.(*ast.CaseClause).List {
						in.condition(cond)
					}
				}
			}
		case *ast.IfStmt:
			in.condition(n.Cond)
		case *ast.BinaryExpr:
			in.binary(n)
		case *ast.ReturnStmt:
			for _, r := range n.Results {
				if id, ok := r.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
					m := in.add(n, fmt.Sprintf("%s → the opposite", in.short(n)))
					in.around(id, "("+on(m)+" != ", ")")
				}
			}
		case *ast.CallExpr:
			in.extremum(n)
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				in.targets[left] = true
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				in.targets[n.X] = true
			}
		case *ast.SelectorExpr:
			in.price(n)
		}
		return true
	})
}

// price makes one half as high, and half as high again.
func (in *instrumenter) price(n *ast.SelectorExpr) {
	if in.targets[n] || !in.prices.MatchString(in.text(n)) {
		return
	}
	for _, by := range []string{"0.5", "1.5"} {
		m := in.add(n, fmt.Sprintf("%s → %s × %s", in.short(n), by, in.short(n)))
		in.around(n, fmt.Sprintf("mutantTimes(%d, %s, ", m, by), ")")
	}
}

// condition negates one that no other mutant changes.
func (in *instrumenter) condition(cond ast.Expr) {
	switch cond.(type) {
	case *ast.Ident, *ast.CallExpr, *ast.SelectorExpr, *ast.UnaryExpr, *ast.IndexExpr:
		m := in.add(cond, fmt.Sprintf("if %s → if not", in.short(cond)))
		in.around(cond, "("+on(m)+" != (", "))")
	}
}

// opposite and boundary of comparisons.
var (
	opposite = map[token.Token]string{
		token.LSS: ">=", token.LEQ: ">", token.GTR: "<=", token.GEQ: "<", token.EQL: "!=", token.NEQ: "==",
	}
	boundary = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
)

func (in *instrumenter) binary(n *ast.BinaryExpr) {
	x, y := in.text(n.X), in.text(n.Y)
	switch n.Op {
	case token.LAND, token.LOR:
		// One side counts for nothing.
		for _, side := range []ast.Expr{n.X, n.Y} {
			m := in.add(side, fmt.Sprintf("%s: without %s", in.short(n), in.short(side)))
			if n.Op == token.LAND {
				in.around(side, "("+on(m)+" || (", "))")
			} else {
				in.around(side, "(!"+on(m)+" && (", "))")
			}
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
		m := in.add(n, fmt.Sprintf("%s → %s", in.short(n), opposite[n.Op]))
		in.around(n, "("+on(m)+" != (", "))")
		if b, ok := boundary[n.Op]; ok && !in.lines(n) {
			m := in.add(n, fmt.Sprintf("%s → %s", in.short(n), b))
			in.around(n, fmt.Sprintf("(%s && (%s %s %s) || !%s && (", on(m), x, b, y, on(m)), "))")
		}
	}
}

// lines reports whether a node's text goes over several lines, or has a comment,
// and can't be written twice.
func (in *instrumenter) lines(n ast.Node) bool {
	text := in.source[in.offset(n.Pos()):in.offset(n.End())]
	return bytes.Contains(text, []byte("\n")) || bytes.Contains(text, []byte("//"))
}

// extremum exchanges min and max.
func (in *instrumenter) extremum(call *ast.CallExpr) {
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Name != "min" && id.Name != "max" || len(call.Args) < 2 || call.Ellipsis.IsValid() {
		return
	}
	other := map[string]string{"min": "max", "max": "min"}[id.Name]
	if in.lines(call) {
		return
	}
	m := in.add(call, fmt.Sprintf("%s → %s", in.short(call), other))
	rest := in.source[in.offset(call.Lparen):in.offset(call.End())]
	in.around(call, fmt.Sprintf("mutantPick(%d, ", m), fmt.Sprintf(", %s%s)", other, rest))
}

// statements are left out one by one.
func (in *instrumenter) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
			if id, ok := s.Lhs[0].(*ast.Ident); ok && id.Name == "_" {
				continue
			}
		case *ast.IncDecStmt:
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && in.text(call.Fun) == "panic" {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok != token.CONTINUE || s.Label != nil {
				continue
			}
		default:
			continue
		}
		m := in.add(s, fmt.Sprintf("without %s", in.short(s)))
		in.around(s, "if !"+on(m)+" { ", " }")
	}
}

// helper is the file that every package with mutants gets.
func helper(pkg string) []byte {
	out, err := format.Source([]byte("package " + pkg + `

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantActive, _ = strconv.Atoi(os.Getenv("MASH2_MUTANT"))
	mutantTrace     = os.Getenv("MASH2_MUTANT_TRACE")
	mutantReached   [1 << 16]atomic.Bool
)

// mutantOn reports whether a mutant is awake. With a trace it notes instead which
// mutants are reached.
func mutantOn(id int) bool {
	if mutantTrace != "" && !mutantReached[id].Load() {
		if !mutantReached[id].Swap(true) {
			f, err := os.OpenFile(mutantTrace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				f.WriteString(strconv.Itoa(id) + "\n")
				f.Close()
			}
		}
	}
	return id == mutantActive
}

func mutantPick[T any](id int, own, other T) T {
	if mutantOn(id) {
		return other
	}
	return own
}

func mutantTimes(id int, by, own float64) float64 {
	if mutantOn(id) {
		return by * own
	}
	return own
}
`))
	if err != nil {
		panic(err) // the text above is no Go
	}
	return out
}
