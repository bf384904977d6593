package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shown is a line of a fenced block or of an indented one, or a span of code in a text.
type shown struct{ where, text string }

// commands are what a page may show as commands. A line that ends in a backslash goes on
// in the next one, a span of code in a text may be in two lines.
func (p *page) commands() []shown {
	var out []shown
	add := func(line int, text string) {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, shown{fmt.Sprintf("%s:%d", p.path, line+1), text})
		}
	}
	for i := 0; i < len(p.lines); {
		first, text := i, ""
		if p.code[i] || strings.HasPrefix(p.lines[i], "    ") {
			for ; i < len(p.lines); i++ {
				part, more := strings.CutSuffix(strings.TrimSpace(p.lines[i]), `\`)
				text += part + " "
				if !more {
					break
				}
			}
			i++
			add(first, text)
			continue
		}
		for ; i < len(p.lines) && !p.code[i] && strings.TrimSpace(p.lines[i]) != ""; i++ {
			text += p.lines[i] + "\n"
		}
		i++
		line := first
		for n, part := range strings.Split(text, "`") {
			if n%2 == 1 {
				add(line, strings.ReplaceAll(part, "\n", " "))
			}
			line += strings.Count(part, "\n")
		}
	}
	return out
}

// TestGoCommandsOfDocs: every command of the go tool that a page shows is about a package
// that is there, and about tests and benchmarks that this package has.
func TestGoCommandsOfDocs(t *testing.T) {
	const root = "../.."
	use := regexp.MustCompile(`(?:^|[ =])go (test|run|build)( .*)`)
	folder := regexp.MustCompile(` (\./[\w./-]*)`)
	pattern := regexp.MustCompile(` -(run|bench) ('[^']*'|"[^"]*"|\S+)`)
	named := 0
	for _, p := range pagesOf(t, root) {
		for _, c := range p.commands() {
			m := use.FindStringSubmatch(c.text)
			if m == nil {
				continue
			}
			dir := folder.FindStringSubmatch(m[2])
			if dir == nil {
				continue // the tool as such
			}
			named++
			path, all := strings.CutSuffix(dir[1], "/...")
			if info, err := os.Stat(filepath.Join(root, path)); err != nil || !info.IsDir() {
				t.Errorf("%s: there is no package %s", c.where, dir[1])
				continue
			}
			if all || m[1] != "test" {
				continue
			}
			for _, f := range pattern.FindAllStringSubmatch(m[2], -1) {
				expr := strings.Trim(f[2], `'"`)
				if expr == "xxx" || expr == "^$" {
					continue // no test, benchmarks only
				}
				kinds := map[string]string{"run": "Test|Fuzz|Example", "bench": "Benchmark"}[f[1]]
				for _, one := range strings.Split(expr, "|") {
					if !declares(t, filepath.Join(root, path), kinds, one) {
						t.Errorf("%s: package %s has no %s that matches %s", c.where, dir[1], kinds, one)
					}
				}
			}
		}
	}
	t.Logf("%d commands of the go tool are named", named)
	if named < 30 {
		t.Errorf("only %d commands in all pages", named)
	}
}

// declares reports whether the tests of a folder have a function of these kinds whose name
// matches.
func declares(t *testing.T, folder, kinds, expr string) bool {
	t.Helper()
	name, err := regexp.Compile(expr)
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return false
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:`+kinds+`)\w+)\(`).FindAllSubmatch(text, -1) {
			if name.Match(m[1]) {
				return true
			}
		}
	}
	return false
}

// TestMakeCommandsOfDocs: every target of make that a page shows is there.
func TestMakeCommandsOfDocs(t *testing.T) {
	const root = "../.."
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	use := regexp.MustCompile(`^(?:\$ )?make ([a-z][a-z0-9-]*)`)
	named := 0
	for _, p := range pagesOf(t, root) {
		for _, c := range p.commands() {
			if m := use.FindStringSubmatch(c.text); m != nil {
				named++
				if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
					t.Errorf("%s: there is no make %s", c.where, m[1])
				}
			}
		}
	}
	t.Logf("%d commands of make are named", named)
	if named < 60 {
		t.Errorf("only %d commands in all pages", named)
	}
}

// TestHelmValuesOfDocs: every value that a page sets with helm is one of the chart's.
func TestHelmValuesOfDocs(t *testing.T) {
	const root = "../.."
	values := chartValues(t)
	set := regexp.MustCompile(` --set ((?:[\w.]+=[^\s,]*,?)+)`)
	key := regexp.MustCompile(`(?:^|,)([\w.]+)=`)
	named := 0
	for _, p := range pagesOf(t, root) {
		for _, c := range p.commands() {
			if !strings.HasPrefix(c.text, "helm ") {
				continue
			}
			for _, m := range set.FindAllStringSubmatch(c.text, -1) {
				for _, k := range key.FindAllStringSubmatch(m[1], -1) {
					named++
					if !has(values, strings.Split(k[1], ".")) {
						t.Errorf("%s: the chart has no value %s", c.where, k[1])
					}
				}
			}
		}
	}
	t.Logf("%d values are set", named)
	if named < 10 {
		t.Errorf("only %d values in all pages", named)
	}
}

// has reports whether values have a key; below an empty object it may be any.
func has(values map[string]any, path []string) bool {
	v, ok := values[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	below, ok := v.(map[string]any)
	return ok && (len(below) == 0 || has(below, path[1:]))
}
