package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A comment before a fenced block of commands says how a test runs them:
//
//	<!-- run -->             with nothing but the program and files of the repository
//	<!-- run cluster -->     on the cluster of docs/tutorial/first-steps.md
//	<!-- run exit=1 -->      each ends with this exit code
//	<!-- run for=10s -->     those that do not end by themselves are interrupted then
//	<!-- run output -->      what is shown is all of the output, not an excerpt
//	<!-- run D=out -->       D stands for the reader's own: out takes its place
//	<!-- not run: why -->    no test runs them
//
// In a block with prompts the lines after a command are an excerpt of what it prints; so is
// the block that follows under <!-- shown -->.
var (
	runMark    = regexp.MustCompile(`^\s*<!-- run((?: \S+)*) -->$`)
	shownMark  = regexp.MustCompile(`^\s*<!-- shown -->$`)
	notRunMark = regexp.MustCompile(`^\s*<!-- not run: (.+) -->$`)
)

// tools begin the commands of the pages.
var tools = []string{"mash2", "kubectl", "helm", "make", "go", "gcloud", "kind", "docker", "curl", "CGO_ENABLED=0"}

// block is a fenced block of a page without its indentation, and the comment before it.
type block struct {
	where, mark string
	lines       []string
}

func blocksOf(p *page) []block {
	var out []block
	for i := 0; i < len(p.lines); i++ {
		line := p.lines[i]
		if !strings.HasPrefix(strings.TrimSpace(line), "```") {
			continue
		}
		b := block{where: fmt.Sprintf("%s:%d", p.path, i+1)}
		if i > 0 {
			b.mark = p.lines[i-1]
		}
		indent := line[:strings.Index(line, "`")]
		for i++; i < len(p.lines) && !strings.HasPrefix(strings.TrimSpace(p.lines[i]), "```"); i++ {
			b.lines = append(b.lines, strings.TrimPrefix(p.lines[i], indent))
		}
		out = append(out, b)
	}
	return out
}

// example is a command of a page.
type example struct {
	where, command string
	cluster        bool
	exit           int
	// wait ends a command that does not end by itself.
	wait time.Duration
	// shown is what the page shows after it, all of its output if whole.
	shown []string
	whole bool
}

// commands are a block's command lines, each whole, with what is shown after them; none
// where the block has something else.
func (b block) commands() []example {
	prompts := slices.ContainsFunc(b.lines, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	var out []example
	open := false
	for _, line := range b.lines {
		text, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case open:
			out[len(out)-1].command += "\n" + line
		case prompts && !prompt:
			if len(out) > 0 {
				out[len(out)-1].shown = append(out[len(out)-1].shown, line)
			}
			continue
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			continue
		default:
			out = append(out, example{where: b.where, command: text})
		}
		last, _, _ := strings.Cut(out[len(out)-1].command, " # ")
		open = strings.HasSuffix(last, `\`) || strings.HasSuffix(last, "|") || strings.Count(last, "'")%2 == 1
	}
	if len(out) > 0 && slices.Contains(tools, strings.Fields(out[0].command)[0]) {
		return out
	}
	return nil
}

// examplesOf are the commands of a page that its marks have run, on the cluster or without.
func examplesOf(t *testing.T, p *page, cluster bool) []example {
	t.Helper()
	var out []example
	for _, b := range blocksOf(p) {
		if shownMark.MatchString(b.mark) && len(out) > 0 {
			out[len(out)-1].shown = b.lines
			continue
		}
		m := runMark.FindStringSubmatch(b.mark)
		if m == nil {
			continue
		}
		all, pairs := example{}, []string{}
		for _, word := range strings.Fields(m[1]) {
			name, value, _ := strings.Cut(word, "=")
			var err error
			switch name {
			case "cluster":
				all.cluster = true
			case "output":
				all.whole = true
			case "exit":
				all.exit, err = strconv.Atoi(value)
			case "for":
				all.wait, err = time.ParseDuration(value)
			default:
				pairs = append(pairs, name, value)
			}
			if err != nil || word == name && name != "cluster" && name != "output" {
				t.Fatalf("%s: %q of the mark: %v", b.where, word, err)
			}
		}
		commands := b.commands()
		if len(commands) == 0 {
			t.Errorf("%s: there is no command to run", b.where)
		}
		for _, c := range commands {
			c.command, c.cluster, c.exit, c.whole = strings.NewReplacer(pairs...).Replace(c.command), all.cluster, all.exit, all.whole
			c.wait = all.wait
			if c.cluster == cluster {
				out = append(out, c)
			}
		}
	}
	return out
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

// TestCommandsRunOfDocs runs every command that needs no cluster, in the order of the page
// and in one folder that has nothing but the repository's examples. Each must end as the
// page says, say something, and say what the page shows of it.
func TestCommandsRunOfDocs(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ran, compared := 0, 0
	for _, p := range pagesOf(t, "../..") {
		examples := examplesOf(t, p, false)
		if len(examples) == 0 {
			continue
		}
		t.Run(p.path, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, target := range map[string]string{"docs": docs, "mash2": program} {
				if err := os.Symlink(target, name); err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range examples {
				code, stdout, stderr := e.run(t)
				if code != e.exit || stdout+stderr == "" && !strings.Contains(e.command, " > ") {
					t.Fatalf("%s: %s: exit code %d, want %d, %d bytes said: %s", e.where, e.command, code, e.exit, len(stdout), stderr)
				}
				if shown := strings.Join(e.shown, "\n"); e.whole && strings.TrimSpace(stdout) != shown {
					t.Errorf("%s: %s says\n%s\nthe page shows\n%s", e.where, e.command, stdout, shown)
				}
				if missing := lacks(stdout+stderr, e.shown); missing != "" {
					t.Errorf("%s: %s does not say %q, but\n%s", e.where, e.command, missing, stdout+stderr)
				}
				ran++
				if len(e.shown) > 0 {
					compared++
				}
			}
		})
	}
	t.Logf("%d commands were run, and what %d of them say was compared", ran, compared)
	if ran < 40 || compared < 15 {
		t.Errorf("only %d commands were run, %d compared", ran, compared)
	}
}

// run runs the command, by a shell if it asks for one.
func (e example) run(t *testing.T) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if args, plain := strings.CutPrefix(e.command, "mash2 "); plain && !strings.ContainsAny(args, "\"'$|;&<>\\#") && e.wait == 0 {
		code = run(t.Context(), strings.Fields(args), &out, &errs)
		return code, out.String(), errs.String()
	}
	ctx := t.Context()
	if e.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.wait)
		defer cancel()
	}
	c := exec.CommandContext(ctx, "sh", "-c", e.command)
	c.Env = append(os.Environ(), envProgram+"=1", "PATH=.:"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	c.WaitDelay = 10 * time.Second
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && ctx.Err() == nil {
		code = max(1, c.ProcessState.ExitCode())
	}
	return code, out.String(), errs.String()
}

// TestEveryCommandOfDocs: each block of commands is run by a test, or says why it is not.
// What make and go do is checked by name (TestEvidenceOfDocs, TestGoCommandsOfDocs), and
// the generated pages of flags by the commands they are made from.
func TestEveryCommandOfDocs(t *testing.T) {
	ran, skipped := 0, 0
	for _, p := range pagesOf(t, "../..") {
		if p.path == "docs/reference/flags.md" || !strings.HasPrefix(p.path, "docs/") && p.path != "README.md" && p.path != "CONTRIBUTING.md" {
			continue
		}
		for _, b := range blocksOf(p) {
			commands := b.commands()
			byName := !slices.ContainsFunc(commands, func(e example) bool {
				tool := strings.Fields(e.command)[0]
				return tool != "make" && tool != "go"
			})
			switch {
			case runMark.MatchString(b.mark):
				ran += len(commands)
			case notRunMark.MatchString(b.mark):
				skipped += len(commands)
			case !byName:
				t.Errorf("%s: nothing runs %q, and nothing says why", b.where, commands[0].command)
			}
		}
	}
	t.Logf("%d commands are run, %d say why not", ran, skipped)
}
