package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// runMark is before a fenced block whose commands need nothing but the program and files of
// the repository. exit is the exit code of each, 0 without it. In a block with prompts the
// lines after a command are an excerpt of what it prints, or with output all of it.
var runMark = regexp.MustCompile(`^\s*<!-- run(?: exit=(\d+))?( output)? -->$`)

// example is a command of a page.
type example struct {
	where string
	args  []string
	exit  int
	// shown is what the page shows after it, all of its output if whole.
	shown []string
	whole bool
}

// lacks returns the first line of a page's excerpt that an output does not have. Lines are
// in order, "…" stands for anything within one, or for any lines if it is alone, and
// spaces between columns don't count.
func lacks(output string, excerpt []string) string {
	lines := strings.Split(output, "\n")
	for _, want := range excerpt {
		i := slices.IndexFunc(lines, func(line string) bool {
			rest := strings.Join(strings.Fields(line), " ")
			for _, part := range strings.Split(want, "…") {
				_, after, found := strings.Cut(rest, strings.Join(strings.Fields(part), " "))
				if !found {
					return false
				}
				rest = after
			}
			return true
		})
		if i < 0 {
			return want
		}
		if strings.Trim(want, " …") != "" {
			lines = lines[i+1:]
		}
	}
	return ""
}

func TestLacks(t *testing.T) {
	for _, c := range []struct{ excerpt, want string }{
		{"a  b\nd", ""},
		{"a b\n…\nlast", ""},
		{"a b\n\nd", ""},
		{"d\na b", "a b"},
		{"c … 9", ""},
		{"c … 8", "c … 8"},
		{"a b\na b", "a b"},
	} {
		if got := lacks("a    b\n c 5 of 9\nd\nlast\n", strings.Split(c.excerpt, "\n")); got != c.want {
			t.Errorf("%q lacks %q, want %q", c.excerpt, got, c.want)
		}
	}
}

// TestCommandsRunOfDocs runs every command of the blocks that a page marks, in the order of
// the page and in one folder that has nothing but the repository's examples. Each must end
// as the page says, say something, and say what the page shows of it.
func TestCommandsRunOfDocs(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	ran, compared := 0, 0
	for _, p := range pagesOf(t, "../..") {
		examples := examplesOf(t, p)
		if len(examples) == 0 {
			continue
		}
		t.Run(p.path, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.Symlink(docs, "docs"); err != nil {
				t.Fatal(err)
			}
			for _, e := range examples {
				var stdout, stderr bytes.Buffer
				if code := run(t.Context(), e.args, &stdout, &stderr); code != e.exit || stdout.Len() == 0 {
					t.Fatalf("%s: mash2 %q: exit code %d, want %d, %d bytes said: %s", e.where, e.args, code, e.exit, stdout.Len(), stderr.String())
				}
				if shown := strings.Join(e.shown, "\n"); e.whole && strings.TrimSpace(stdout.String()) != shown {
					t.Errorf("%s: mash2 %q says\n%s\nthe page shows\n%s", e.where, e.args, stdout.String(), shown)
				}
				said := stdout.String() + stderr.String()
				if missing := lacks(said, e.shown); missing != "" {
					t.Errorf("%s: mash2 %q does not say %q, but\n%s", e.where, e.args, missing, said)
				}
				ran++
				if len(e.shown) > 0 {
					compared++
				}
			}
		})
	}
	t.Logf("%d commands were run, and what %d of them say was compared", ran, compared)
	if ran < 25 || compared < 10 {
		t.Errorf("only %d commands were run, %d compared", ran, compared)
	}
}

// examplesOf are the commands of a page's marked blocks.
func examplesOf(t *testing.T, p *page) []example {
	t.Helper()
	var out []example
	for i, line := range p.lines {
		m := runMark.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if i+1 >= len(p.lines) || !strings.HasPrefix(strings.TrimSpace(p.lines[i+1]), "```") {
			t.Errorf("%s:%d: no block follows %s", p.path, i+1, line)
			continue
		}
		exit, _ := strconv.Atoi(m[1])
		indent := line[:strings.Index(line, "<")]
		prompts := false
		for n := i + 2; n < len(p.lines) && !strings.HasPrefix(strings.TrimSpace(p.lines[n]), "```"); n++ {
			text := strings.TrimPrefix(p.lines[n], indent)
			prompt := strings.HasPrefix(text, "$ ")
			if prompts = prompts || prompt; prompts && !prompt {
				last := &out[len(out)-1]
				last.shown = append(last.shown, text)
				continue
			}
			args, ok := strings.CutPrefix(strings.TrimPrefix(text, "$ "), "mash2 ")
			if !ok || strings.ContainsAny(args, `"'$|;&<>\`) {
				t.Errorf("%s:%d: %q is no plain command of mash2", p.path, n+1, text)
				continue
			}
			out = append(out, example{where: fmt.Sprintf("%s:%d", p.path, n+1), args: strings.Fields(args), exit: exit, whole: m[2] != ""})
		}
	}
	return out
}
