package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTestsOfDocsExist: every test, fuzz target and make target that a page
// names as evidence is there.
func TestTestsOfDocsExist(t *testing.T) {
	const root = "../.."
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "out" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	named := 0
	evidence := regexp.MustCompile("`(Test\\w+|Fuzz\\w+|make [a-z0-9-]+)")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range evidence.FindAllSubmatch(text, -1) {
			named++
			name := string(m[1])
			target, isMake := strings.CutPrefix(name, "make ")
			if isMake && !regexp.MustCompile(`(?m)^`+target+`:`).Match(makefile) || !isMake && !there[name] {
				t.Errorf("%s names %s, which there isn't", filepath.Base(page), name)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d names in all pages", named)
	}
}
