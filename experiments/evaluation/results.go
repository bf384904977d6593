package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mash2-io/mash2/experiments/score"
)

// inputs of the page of results; what is empty is left out of the page, which says so.
type inputs struct {
	traces      string // folder of folders of scenario files
	measured    string // folder of folders of what experiments-traces printed
	simulations string // folder of what experiments-sim printed
	real        string // folder of what experiments recorded
	sawtooth    string // what mash2 simulate printed from the third tooth on
	convergence string // what go test -json printed
	k6          string // what k6 printed
	version     string
}

// results writes the page of results, and its pictures beside it. What takes an hour
// of real time is kept from the page that is there where it was not measured again.
func results(in inputs, out string) error {
	before, err := os.ReadFile(filepath.Clean(out))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var b strings.Builder
	groups, performance, err := in.groups()
	if err != nil {
		return err
	}
	var traces []result
	for _, g := range groups {
		if g.title != scenariosTitle {
			traces = append(traces, g.results...)
		}
	}
	fmt.Fprintf(&b, resultsHead, tracesCommand(traces), in.version)
	marks, err := in.marks(groups, performance)
	if err != nil {
		return err
	}
	b.WriteString("## The marks\n\n" + marksText + markTable(marks))
	for _, g := range groups {
		if g.title != scenariosTitle {
			b.WriteString(everybody(g) + rivals(g))
		}
	}
	b.WriteString(besideTable(groups))
	b.WriteString(scenarioText)
	real, err := in.realPlane(filepath.Dir(out))
	if err != nil {
		return err
	}
	plane := realText
	for _, r := range real {
		plane += r.section()
	}
	figures := paper(real)
	if len(real) == 0 {
		plane += "`make experiments` has not been run for this page.\n\n"
		plane, figures = earlier(before, realHeading, plane), earlier(before, paperHeading, figures)
	} else {
		by := recordedBy(real)
		plane, figures = by+plane, by+figures
	}
	b.WriteString(realHeading + plane + paperHeading + figures)
	load, err := k6Summary(in.k6)
	if err != nil {
		return err
	}
	if load == "" {
		load = earlier(before, k6Heading, k6Text+"`make k6-run` has not been run for this page.\n\n")
	} else {
		load = k6Text + load
	}
	b.WriteString(k6Heading + load + resultsTail)
	return os.WriteFile(out, []byte(b.String()), 0o644)
}

// The sections that are of real time.
const (
	realHeading  = "## On the real control plane\n\n"
	paperHeading = "## The paper's figures\n\n"
	k6Heading    = "## k6\n\n"
)

// earlier is what a page has under a heading, said to be so; without that, otherwise.
func earlier(page []byte, heading, otherwise string) string {
	_, section, ok := strings.Cut(string(page), heading)
	if !ok || strings.Contains(string(page), "`make experiments` has not been run") {
		return otherwise
	}
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.TrimRight(section, "\n") + "\n\n"
	if strings.HasPrefix(section, keptText) {
		return section
	}
	return keptText + section
}

const scenariosTitle = "scenarios"

// groups are the traces for development, those held out, and the scenarios; and what
// PERFORMANCE did on traces.
func (in inputs) groups() ([]group, map[string]result, error) {
	var out []group
	performance := map[string]result{}
	for _, set := range sets {
		listed, err := tracesIn(filepath.Join(in.traces, set.folder))
		if err != nil {
			return nil, nil, err
		}
		g := group{title: strings.ToLower(set.title)}
		for _, t := range listed {
			base := filepath.Join(in.measured, set.folder, t.Name)
			r, err := read(base + ".json")
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			g.results = append(g.results, r)
			switch p, err := readOne(base + ".performance.json"); {
			case errors.Is(err, os.ErrNotExist):
			case err != nil:
				return nil, nil, err
			default:
				performance[t.Name] = p
			}
		}
		if len(g.results) == 0 {
			return nil, nil, fmt.Errorf("no results in %s", filepath.Join(in.measured, set.folder))
		}
		out = append(out, g)
	}
	files, err := filepath.Glob(filepath.Join(in.simulations, "*.json"))
	if err != nil {
		return nil, nil, err
	}
	g := group{title: scenariosTitle}
	slices.Sort(files)
	for _, f := range files {
		r, err := read(f)
		if err != nil {
			return nil, nil, err
		}
		g.results = append(g.results, r)
	}
	if len(g.results) > 0 {
		out = append(out, g)
	}
	return out, performance, nil
}

// judged are the mash2s that the marks are asked of: on any pool, as the clairvoyant
// and Karpenter, and on the pool of its policy alone, as the HPA.
var judged = []string{"mash2-any", "mash2"}

func (in inputs) marks(groups []group, performance map[string]result) ([]mark, error) {
	var out []mark
	add := func(m mark, ok bool) {
		if ok {
			out = append(out, m)
		}
	}
	for _, judge := range []func(group, string) (mark, bool){clairvoyantMark, dominationMark} {
		for _, g := range groups {
			for _, scaler := range judged {
				add(judge(g, scaler))
			}
		}
	}
	if in.sawtooth != "" {
		saw, err := readOne(in.sawtooth)
		if err != nil {
			return nil, err
		}
		for _, scaler := range judged {
			add(sawtoothMark(saw, scaler))
		}
	}
	for _, g := range groups {
		add(policyMark(g, performance))
	}
	m, err := convergenceMark(in.convergence)
	if err != nil {
		return nil, err
	}
	return append(out, m), nil
}

// convergenceMark counts the cases of H11's tests in what go test -json printed.
func convergenceMark(file string) (mark, error) {
	m := mark{what: "H11: constant demand ends in no action, noise inside the tolerance makes none, at most one change of direction after a switch", of: "`planning`, every policy, with and without forecasts"}
	in, err := os.Open(filepath.Clean(file))
	if err != nil {
		return m, err
	}
	defer in.Close() //nolint:errcheck // only read
	passed, failed := 0, []string{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Test string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return m, fmt.Errorf("%s: %w", file, err)
		}
		// A test that only starts others is none of them.
		if !strings.Contains(e.Test, "/") {
			continue
		}
		switch e.Action {
		case "pass":
			passed++
		case "fail":
			failed = append(failed, e.Test)
		}
	}
	if err := lines.Err(); err != nil {
		return m, err
	}
	if passed+len(failed) == 0 {
		return m, fmt.Errorf("%s: no test was run", file)
	}
	m.met, m.limits = len(failed) == 0, strings.Join(failed, ", ")
	m.figure = fmt.Sprintf("%d of %d cases", passed, passed+len(failed))
	return m, nil
}

// everybody is the table of all scalers over the traces of a group.
func everybody(g group) string {
	var b strings.Builder
	var scalers []string
	for _, r := range g.results {
		for _, s := range r.scalers() {
			if !slices.Contains(scalers, s) {
				scalers = append(scalers, s)
			}
		}
	}
	fmt.Fprintf(&b, "## Everybody on recorded load: %s\n\n", g.title)
	fmt.Fprintf(&b, everybodyText, len(g.results))
	b.WriteString("| scaler | seeds | node cost / clairvoyant's | node cost / HPA's (80 %) | violating, % | worst trace, % | p95 / HPA's |\n|---|---|---|---|---|---|---|\n")
	for _, s := range scalers {
		var cost, hpa, violating, speed []float64
		var seeds []int
		worst := 0.0
		for _, r := range g.results {
			own := map[uint64]bool{}
			for _, run := range r.Runs {
				if run.Scaler == s {
					own[run.Seed] = true
				}
			}
			if len(own) > 0 {
				seeds = append(seeds, len(own))
			}
			for _, f := range []struct {
				to     *[]float64
				factor score.Interval
			}{{&cost, r.per(s, "clairvoyant", "costUsd")}, {&hpa, r.per(s, "hpa", "costUsd")}, {&speed, r.per(s, "hpa", "p95Ms")}} {
				if f.factor.Mean != nil {
					*f.to = append(*f.to, *f.factor.Mean)
				}
			}
			if v := r.violating(s); v.Mean != nil {
				violating, worst = append(violating, 100**v.Mean), math.Max(worst, 100**v.Mean)
			}
		}
		v := score.IntervalOf(violating)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.2f | %s |\n", s, fromTo(seeds), factor(geometric(cost)), factor(geometric(hpa)),
			v.Text(score.Metric{Format: "%.2f", Scale: 1}), worst, factor(geometric(speed)))
	}
	return b.String() + "\n"
}

// fromTo is the range of some numbers, or the one that all are.
func fromTo(n []int) string {
	least, most := slices.Min(n), slices.Max(n)
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// besideTable is each trace's cost beside the clairvoyant's, taken apart.
func besideTable(groups []group) string {
	var b strings.Builder
	b.WriteString("## Trace by trace, beside the clairvoyant\n\n" + besideText)
	b.WriteString("| set | trace | mash2-any: node cost | its pods | nodes per pod | violating, % | clairvoyant violating, % | mash2 (one pool): node cost | violating, % |\n|---|---|---|---|---|---|---|---|---|\n")
	percent := score.Metric{Format: "%.2f", Scale: 100}
	for _, g := range groups {
		one := map[string]excess{}
		for _, e := range besideClairvoyant(g, "mash2") {
			one[e.trace] = e
		}
		for _, e := range besideClairvoyant(g, "mash2-any") {
			o := one[e.trace]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %.2f | %s | %s | %s | %s |\n", g.title, e.trace, factor(e.cost), factor(e.pods), e.perPod,
				e.violating.Text(percent), e.best.Text(percent), factor(o.cost), o.violating.Text(percent))
		}
	}
	return b.String() + "\n"
}

// k6Summary is what k6 printed of its thresholds and requests; empty where it was not
// run.
func k6Summary(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(data), "THRESHOLDS")
	if !ok {
		return "", fmt.Errorf("%s: not what k6 run prints: it has no THRESHOLDS", file)
	}
	rest, _, _ = strings.Cut(rest, "NETWORK")
	var kept []string
	for line := range strings.Lines(rest) {
		if line = strings.TrimRight(line, " \r\n"); line != "" {
			kept = append(kept, strings.TrimPrefix(line, "    "))
		}
	}
	return "```\n" + strings.Join(kept, "\n") + "\n```\n\n", nil
}
