package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestEvidenceOfDocs: every test, fuzz target and make target that a page
// names as evidence is there.
func TestEvidenceOfDocs(t *testing.T) {
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
	named := 0
	evidence := regexp.MustCompile("`(Test\\w+|Fuzz\\w+|make [a-z0-9-]+)")
	for _, p := range pagesOf(t, root) {
		for i, line := range p.lines {
			for _, m := range evidence.FindAllStringSubmatch(line, -1) {
				named++
				target, isMake := strings.CutPrefix(m[1], "make ")
				if isMake && !regexp.MustCompile(`(?m)^`+target+`:`).Match(makefile) || !isMake && !there[m[1]] {
					t.Errorf("%s:%d: there is no %s", p.path, i+1, m[1])
				}
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d names in all pages", named)
	}
}

// readmeWords is how long the README may be: what a stranger reads in five minutes.
const readmeWords = 800

// page is a page of the docs, by its path from the root of the repository.
type page struct {
	path  string
	lines []string
	// code says of each line whether it is inside a fenced block.
	code    []bool
	anchors map[string]bool
}

// hidden is what a page does not show.
var hidden = regexp.MustCompile(`(?s)<!--.*?-->`)

var heading = regexp.MustCompile(`^#+ +(.*)$`)

// anchor is the name that GitHub gives a heading.
func anchor(title string) string {
	title = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(title, "$1")
	title = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`).ReplaceAllString(strings.ToLower(title), "")
	return strings.ReplaceAll(strings.TrimSpace(title), " ", "-")
}

func pagesOf(t *testing.T, root string) map[string]*page {
	t.Helper()
	out := map[string]*page{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "experiments/*/*.md", "execution/testdata/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p := &page{lines: strings.Split(string(text), "\n"), anchors: map[string]bool{}}
			p.path, _ = filepath.Rel(root, path)
			fenced, seen := false, map[string]int{}
			for _, line := range p.lines {
				fence := strings.HasPrefix(strings.TrimSpace(line), "```")
				p.code = append(p.code, fenced || fence)
				if fence {
					fenced = !fenced
				}
				if m := heading.FindStringSubmatch(line); m != nil && !fenced {
					a := anchor(m[1])
					if seen[a]++; seen[a] > 1 {
						a = fmt.Sprintf("%s-%d", a, seen[a]-1)
					}
					p.anchors[a] = true
				}
			}
			out[p.path] = p
		}
	}
	return out
}

// askHosts has links to other hosts followed, which a machine without a way out can't.
var askHosts = flag.Bool("ask-hosts", false, "follow the links of the docs to other hosts")

// answers reports what is wrong with a page of another host, if it is asked.
func answers(ctx context.Context, address string) error {
	if !*askHosts || !strings.HasPrefix(address, "https:") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answers %s", address, answer.Status)
	}
	return nil
}

// TestLinksOfDocs: every page, picture and heading that a page leads to is there, and
// every page is led to from the index. Of links to other hosts it sees the form alone,
// unless it is told to ask (-ask-hosts).
func TestLinksOfDocs(t *testing.T) {
	const root = "../.."
	pages := pagesOf(t, root)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links, outside, indexed := 0, 0, map[string]bool{}
	for _, p := range pages {
		for i, line := range p.lines {
			if p.code[i] {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], ":") {
					outside++
					if u, err := url.Parse(m[1]); err != nil || u.Scheme != "mailto" && (u.Scheme != "https" || u.Host == "") {
						t.Errorf("%s:%d: %s is no address of a page", p.path, i+1, m[1])
					} else if err := answers(t.Context(), m[1]); err != nil {
						t.Errorf("%s:%d: %v", p.path, i+1, err)
					}
					continue
				}
				links++
				file, fragment, _ := strings.Cut(m[1], "#")
				target := p.path
				if file != "" {
					target = filepath.Join(filepath.Dir(p.path), file)
				}
				if p.path == "docs/README.md" {
					indexed[target] = true
				}
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s:%d: %s isn't there", p.path, i+1, m[1])
				} else if to := pages[target]; fragment != "" && to != nil && !to.anchors[fragment] {
					t.Errorf("%s:%d: %s has no heading #%s", p.path, i+1, target, fragment)
				}
			}
		}
	}
	t.Logf("%d links within the repository, %d to other hosts", links, outside)
	if links < 200 {
		t.Errorf("only %d links in all pages", links)
	}
	for path := range pages {
		if strings.HasPrefix(path, "docs/") && path != "docs/README.md" && !indexed[path] {
			t.Errorf("docs/README.md:1: %s is not in the index", path)
		}
	}
}

// TestCommandsOfDocs: every command of mash2 that a page names is there, with the flags
// that the page gives it.
func TestCommandsOfDocs(t *testing.T) {
	root := program().Root()
	use := regexp.MustCompile(`^(?:\$ )?(?:bin/)?mash2 ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?( .*)?$`)
	flag := regexp.MustCompile(`(?:^|[\s\[(])--([a-z][a-z0-9_-]*)`)
	named := 0
	for _, p := range pagesOf(t, "../..") {
		for _, span := range p.commands() {
			m := use.FindStringSubmatch(span.text)
			if m == nil {
				continue
			}
			named++
			cmd, _, err := root.Find(m[1:2])
			if err != nil || cmd == root {
				t.Errorf("%s: there is no mash2 %s", span.where, m[1])
				continue
			}
			if sub, _, err := cmd.Find(m[2:3]); err == nil && m[2] != "" {
				cmd = sub
			}
			for _, f := range flag.FindAllStringSubmatch(m[3], -1) {
				if !knows(cmd, f[1]) {
					t.Errorf("%s: %s has no --%s", span.where, cmd.CommandPath(), f[1])
				}
			}
		}
	}
	t.Logf("%d commands of mash2 are named", named)
	if named < 150 {
		t.Errorf("only %d commands in all pages", named)
	}
}

// knows reports whether a command, or one below it, has a flag.
func knows(cmd *cobra.Command, name string) bool {
	if name == "help" || cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil {
		return true
	}
	return slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return knows(c, name) })
}

// TestGuidesNameNoTests: who follows a guide wants to do something; what shows that its
// claims hold is in comments that a page does not show.
func TestGuidesNameNoTests(t *testing.T) {
	for _, p := range pagesOf(t, "../..") {
		if dir := filepath.Dir(p.path); dir != "docs/how-to" && dir != "docs/tutorial" && p.path != "README.md" {
			continue
		}
		text := hidden.ReplaceAllString(strings.Join(p.lines, "\n"), "")
		if m := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+|go test`).FindString(text); m != "" {
			t.Errorf("%s: %q: name it in a comment, <!-- shown by … -->", p.path, m)
		}
	}
}

func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := hidden.ReplaceAllString(string(text), "")
	if n := len(strings.Fields(shown)); n > readmeWords {
		t.Errorf("README.md:1: %d words, more than %d", n, readmeWords)
	}
	for _, command := range []string{"make demo", "make test"} {
		if !strings.Contains(string(text), "\n"+command+" ") {
			t.Errorf("README.md:1: %s is not among its commands", command)
		}
	}
}
