package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// built is the test program of a package with mutants in it.
type built struct {
	dir     string // of the package
	program string
	mutants []mutant
	reached map[int][]reach // by mutant
	quiet   []string        // flags that keep failures from leaving files behind
}

// reach is a test that runs through a mutant.
type reach struct {
	test string
	took time.Duration
}

// build compiles the tests of a part's package with mutants asleep in them.
func build(ctx context.Context, o options, p part, work string) (*built, error) {
	files, functions, prices, err := p.selected()
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	b := &built{dir: p.Dir, program: filepath.Join(work, "test"), reached: map[int][]reach{}}
	replace := map[string]string{}
	pkg := ""
	for i, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		changed, mutants, err := instrument(filepath.ToSlash(name), source, len(b.mutants)+1, functions, prices)
		if err != nil {
			return nil, err
		}
		b.mutants = append(b.mutants, mutants...)
		to := filepath.Join(work, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(to, changed, 0o600); err != nil {
			return nil, err
		}
		replace[filepath.Join(root, name)] = to
		if m := regexp.MustCompile(`(?m)^package (\w+)`).FindSubmatch(source); m != nil {
			pkg = string(m[1])
		}
	}
	if len(b.mutants) == 0 {
		return nil, fmt.Errorf("nothing of %s is chosen by files %q and functions %q", p.Dir, p.Files, p.Functions)
	}
	if o.only != nil {
		b.mutants = slices.DeleteFunc(b.mutants, func(m mutant) bool { return !m.in(o.only) })
		if len(b.mutants) == 0 {
			return b, nil
		}
	}
	to := filepath.Join(work, "helper.go")
	if err := os.WriteFile(to, helper(pkg), 0o600); err != nil {
		return nil, err
	}
	replace[filepath.Join(root, p.Dir, "mutants_of_this_run.go")] = to
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	list := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-tags", o.tags, "-overlay", list, "-o", b.program, "./"+p.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling %s with mutants: %w\n%s", p.Dir, err, out)
	}
	return b, b.trace(ctx, o, p, work)
}

// trace finds out which tests reach which mutants.
func (b *built) trace(ctx context.Context, o options, p part, work string) error {
	b.quiet = []string{"-rapid.nofailfile"}
	if _, err := b.test(ctx, nil, "-test.list", "^$"); err != nil {
		b.quiet = nil // no property tests here
	}
	names, err := b.test(ctx, nil, "-test.list", cmp.Or(p.Tests, "^Test"))
	if err != nil {
		return fmt.Errorf("listing tests: %w\n%s", err, names)
	}
	for i, name := range strings.Fields(string(names)) {
		progress("%s: which tests reach what: %d", b.dir, i+1)
		file := filepath.Join(work, "trace")
		os.Remove(file)
		started := time.Now()
		limited, cancel := context.WithTimeout(ctx, o.slow)
		out, err := b.test(limited, []string{"MASH2_MUTANT_TRACE=" + file}, "-test.run", "^"+name+"$")
		slow := limited.Err() != nil
		cancel()
		switch took := time.Since(started); {
		case ctx.Err() != nil:
			return ctx.Err()
		case slow:
			fmt.Fprintf(os.Stderr, "%s: %s takes longer than %v and is left out\n", b.dir, name, o.slow)
		case err != nil:
			return fmt.Errorf("%s fails without a change: %w\n%s", name, err, out)
		default:
			lines, _ := os.ReadFile(file)
			for _, line := range strings.Fields(string(lines)) {
				if id, err := strconv.Atoi(line); err == nil {
					b.reached[id] = append(b.reached[id], reach{name, took})
				}
			}
		}
	}
	return nil
}

// test runs the test program in the package's folder.
func (b *built) test(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.program, append(slices.Clone(b.quiet), args...)...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

// survivors are the mutants that no test notices.
func (b *built) survivors(ctx context.Context, o options) ([]mutant, error) {
	var lock sync.Mutex
	var out []mutant
	next, done := make(chan mutant), 0
	var group sync.WaitGroup
	for range max(o.workers, 1) {
		group.Go(func() {
			for m := range next {
				lived := b.lives(ctx, m)
				lock.Lock()
				done++
				progress("%s: %d of %d changes tried, %d survive", b.dir, done, len(b.mutants), len(out))
				if lived {
					out = append(out, m)
				}
				lock.Unlock()
			}
		})
	}
	for _, m := range b.mutants {
		next <- m
	}
	close(next)
	group.Wait()
	progress("")
	slices.SortFunc(out, func(x, y mutant) int { return cmp.Compare(x.ID, y.ID) })
	return out, ctx.Err()
}

// lives reports whether all tests that reach a mutant pass with it. The quick ones
// are asked first: most mutants don't outlive them.
func (b *built) lives(ctx context.Context, m mutant) bool {
	tests := slices.Clone(b.reached[m.ID])
	slices.SortFunc(tests, func(x, y reach) int { return cmp.Compare(x.took, y.took) })
	const together = time.Second
	for len(tests) > 0 {
		var names []string
		var sum time.Duration
		for len(tests) > 0 && (len(names) == 0 || sum+tests[0].took <= together) {
			names, sum, tests = append(names, tests[0].test), sum+tests[0].took, tests[1:]
		}
		// A change may make a loop endless: that is noticed too.
		limited, cancel := context.WithTimeout(ctx, 10*time.Second+5*sum)
		_, err := b.test(limited, []string{"MASH2_MUTANT=" + strconv.Itoa(m.ID)}, "-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$")
		cancel()
		if err != nil {
			return false
		}
	}
	return true
}

// progress replaces the last line on a terminal; elsewhere it says nothing.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
}
