package mash2

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// camelCase is what a reason looks like.
var camelCase = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// reasonsOf collects from a file of Go every text that is given as the reason of a
// finding, an Event or a condition: constants named so, fields named Reason, and the
// arguments of the functions that make findings.
func reasonsOf(file *ast.File, add func(string)) {
	text := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && camelCase.MatchString(s) {
				add(s)
			}
		}
	}
	named := regexp.MustCompile(`^([Rr]eason|Hold|Refused)[A-Z]?`)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if named.MatchString(name.Name) && i < len(n.Values) {
					text(n.Values[i])
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				text(n.Value)
			}
		case *ast.CallExpr:
			name := ""
			switch f := n.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			if slices.Contains([]string{"note", "warn", "say", "find", "fallback"}, name) {
				for _, arg := range n.Args {
					text(arg)
				}
			}
		}
		return true
	})
}

// TestReasonsAreDocumented: docs/reference/events.md has a row for every reason that the
// product gives, for every constraint that decides and for every action, and no other.
func TestReasonsAreDocumented(t *testing.T) {
	const page = "docs/reference/events.md"
	given := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if name := d.Name(); err == nil && (name == "experiments" || name == "cmd" || name == "testdata" || name == "out" || strings.HasPrefix(name, ".") && path != ".") {
				return filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		reasonsOf(file, func(s string) { given[s] = path })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, pattern := range map[string]string{
		"api/plan.go":   `Binding\w+ +Binding = "(\w+)"`,
		"api/action.go": `func \(\w+\) Kind\(\) string +{ return "(\w+)" }`,
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s has nothing like %s", path, pattern)
		}
		for _, m := range found {
			given[strings.ToUpper(string(m[1][:1]))+string(m[1][1:])] = path
		}
	}
	if len(given) < 80 {
		t.Errorf("only %d reasons were found", len(given))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows, named := map[string]int{}, map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		for _, m := range regexp.MustCompile("`([A-Z]\\w+)`").FindAllStringSubmatch(line, -1) {
			named[m[1]] = true
		}
		if m := regexp.MustCompile("^\\| `([A-Z]\\w+)` \\|").FindStringSubmatch(line); m != nil {
			rows[m[1]] = i + 1
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(given)) {
		if !named[reason] {
			t.Errorf("%s:1: %s of %s is not named", page, reason, given[reason])
		}
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		if condition := slices.Contains([]string{"Ready", "Movable", "PolicyAccepted"}, row); given[row] == "" && !condition {
			t.Errorf("%s:%d: the program gives no reason %s", page, rows[row], row)
		}
	}
}
