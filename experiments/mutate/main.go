// Command mutate asks whether tests notice when the program is wrong. It makes
// small changes, one at a time (a comparison turned round, a condition left out, a
// statement skipped), runs the tests that reach each change, and tells which
// changes no test noticed.
//
// A package is compiled once with all its changes asleep in it; an environment
// variable wakes one. Changes that make no difference are listed in
// equivalent.txt, each with its reason. It exits 1 when a change survives in a
// part of the program where none may.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	var o options
	names := flag.String("targets", "", "names of targets, separated by commas; empty is all")
	flag.StringVar(&o.tags, "tags", "lpsolve", "build tags")
	flag.IntVar(&o.workers, "workers", 2, "changes that are tried at once")
	flag.DurationVar(&o.slow, "slow", 20*time.Second, "tests that take longer are left out")
	only := flag.String("only", "", "a file: only changes that it has, one to a line, are tried, such as those that survived the last time")
	asJSON := flag.Bool("json", false, "one JSON object per target")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var ok bool
	var err error
	if *only != "" {
		o.only, err = os.ReadFile(*only)
	}
	if err == nil {
		ok, err = run(ctx, o, *names, *asJSON)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

type options struct {
	tags    string
	workers int
	slow    time.Duration
	only    []byte // names of changes; nil for all
}

// report of one target.
type report struct {
	Target     string   `json:"target"`
	Strict     bool     `json:"strict"`
	Mutants    int      `json:"mutants"`
	Killed     int      `json:"killed"`
	Equivalent int      `json:"equivalent"`
	Survivors  []string `json:"survivors"`
}

func run(ctx context.Context, o options, names string, asJSON bool) (bool, error) {
	allowed, err := readEquivalent(filepath.Join("experiments", "mutate", "equivalent.txt"))
	if err != nil {
		return false, fmt.Errorf("%w: run this at the root of the module", err)
	}
	wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ',' })
	for _, name := range wanted {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.Name == name }) {
			return false, fmt.Errorf("there is no target %q", name)
		}
	}
	good := true
	for _, t := range targets {
		if len(wanted) > 0 && !slices.Contains(wanted, t.Name) {
			continue
		}
		r, err := try(ctx, o, t, allowed)
		if err != nil {
			return false, fmt.Errorf("%s: %w", t.Name, err)
		}
		good = good && (!t.Strict || len(r.Survivors) == 0)
		if asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
				return false, err
			}
			continue
		}
		fmt.Printf("%s: %d of %d changes noticed, %d make no difference, %d survive\n", r.Target, r.Killed, r.Mutants, r.Equivalent, len(r.Survivors))
		for _, s := range r.Survivors {
			fmt.Println("  " + s)
		}
	}
	return good, nil
}

// try puts one target to the proof.
func try(ctx context.Context, o options, t target, allowed map[string]bool) (report, error) {
	r := report{Target: t.Name, Strict: t.Strict, Survivors: []string{}}
	for _, p := range t.Parts {
		work, err := os.MkdirTemp("", "mutate")
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(work)
		b, err := build(ctx, o, p, work)
		if err != nil {
			return r, err
		}
		survivors, err := b.survivors(ctx, o)
		if err != nil {
			return r, err
		}
		r.Mutants += len(b.mutants)
		r.Killed += len(b.mutants) - len(survivors)
		for _, m := range survivors {
			if allowed[m.name()] {
				r.Equivalent++
				continue
			}
			r.Survivors = append(r.Survivors, fmt.Sprintf("%s (line %d)", m.name(), m.Line))
		}
	}
	return r, nil
}

// readEquivalent reads the changes that make no difference: a name and, behind
// two spaces and a #, why.
func readEquivalent(path string) (map[string]bool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for n, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, ok := strings.Cut(line, "  # ")
		if !ok || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("%s:%d: no reason behind \"  # \"", path, n+1)
		}
		out[strings.TrimSpace(name)] = true
	}
	return out, nil
}

// selected are the files of a part, which of their functions get mutants, and which
// fields are prices.
func (p part) selected() (out []string, functions, prices *regexp.Regexp, err error) {
	files, err := whole(p.Files)
	if err != nil {
		return nil, nil, nil, err
	}
	if functions, err = whole(p.Functions); err != nil {
		return nil, nil, nil, err
	}
	if prices, err = regexp.Compile("^(?:" + p.Prices + ")$"); err != nil {
		return nil, nil, nil, err
	}
	all, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
	if err != nil {
		return nil, nil, nil, err
	}
	for _, f := range all {
		if !strings.HasSuffix(f, "_test.go") && files.MatchString(filepath.Base(f)) {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil, nil, nil, errors.New("no file of " + p.Dir + " matches " + p.Files)
	}
	return out, functions, prices, nil
}

func whole(expression string) (*regexp.Regexp, error) {
	if expression == "" {
		expression = ".*"
	}
	return regexp.Compile("^(?:" + expression + ")$")
}
