package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/planning/node/instance"
)

// iterationsPerSecond turns --time-limit into a budget of work, so that a result
// does not depend on the machine: what a core of 2023 does in a second.
const iterationsPerSecond = 4500

// packed is the result of mash2 pack.
type packed struct {
	Nodes       []packedNodes      `json:"nodes"`
	Assignments []packedAssignment `json:"assignments"`
	Cost        float64            `json:"cost"`       // USD/h
	LowerBound  float64            `json:"lowerBound"` // USD/h
	Gap         *float64           `json:"gap"`        // 0–1
	Optimal     bool               `json:"optimal"`
	Unplaced    []packedPods       `json:"unplaced"`
	Solver      string             `json:"solver"`
	Fallback    string             `json:"fallback,omitempty"`
	Seconds     float64            `json:"seconds"`
}

type packedNodes struct {
	Type  string `json:"type"`
	Count int32  `json:"count"`
}

type packedAssignment struct {
	Type  string           `json:"type"`
	Count int32            `json:"count"`
	Pods  map[string]int32 `json:"pods"`
}

type packedPods struct {
	Name  string `json:"name"`
	Count int32  `json:"count"`
}

func newPack() *cobra.Command {
	var input, solver string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Packs pods onto node types at least cost",
		Long: `Packs pods onto node types at least cost, with a bound below which no packing
can cost. The input is JSON or, with the extension .vbp, an instance of vector
bin packing; package planning/node/instance documents both.

--time-limit is a budget of work, counted in what a core of 2023 does in a
second: the same input and limit give the same result on every machine. The ILP
alone is bounded by the clock.`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&input, "input", "", "file with the problem, .json or .vbp")
	f.StringVar(&solver, "solver", node.Auto, "one of "+strings.Join(node.Solvers(), ", "))
	f.DurationVar(&limit, "time-limit", 10*time.Second, "how long to look for something better")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		if input == "" {
			return cli.Usagef("--input is required")
		}
		if limit <= 0 {
			return cli.Usagef("--time-limit must be above 0, is %v", limit)
		}
		if !slices.Contains(node.Solvers(), solver) {
			return cli.Usagef("--solver %q is not in this build, which has %v", solver, node.Solvers())
		}
		p, err := readProblem(input)
		if err != nil {
			return cli.Usage(err)
		}
		out, err := pack(p, solver, limit)
		if err != nil {
			return err
		}
		if err := show(out, out.text()); err != nil {
			return err
		}
		if n := len(out.Unplaced); n > 0 {
			return fmt.Errorf("no node type has room for pods of %d shapes", n)
		}
		return nil
	}
	return cmd
}

// readProblem reads by extension: .vbp, everything else as JSON.
func readProblem(file string) (node.Problem, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return node.Problem{}, err
	}
	read := instance.JSON
	if strings.HasSuffix(file, ".vbp") {
		read = instance.VBP
	}
	p, err := read(text)
	if err != nil {
		return node.Problem{}, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

func pack(p node.Problem, name string, limit time.Duration) (packed, error) {
	solver, err := node.NewSolver(name, node.Limits{Time: limit})
	if err != nil {
		return packed{}, err
	}
	start := time.Now()
	k, err := solver.Solve(p, api.Budget{Iterations: max(1, int(limit.Seconds()*iterationsPerSecond))})
	if err != nil {
		return packed{}, err
	}
	seconds := time.Since(start).Seconds()
	if err := p.Check(k); err != nil {
		return packed{}, errors.Join(errors.New("the packing breaks its problem's rules, which is a bug"), err)
	}
	out := packed{
		Nodes: []packedNodes{}, Assignments: []packedAssignment{}, Unplaced: []packedPods{},
		Cost: k.Cost, LowerBound: k.LowerBound, Optimal: k.Optimal, Solver: k.Solver, Fallback: k.Fallback, Seconds: seconds,
	}
	if k.Cost > 0 {
		gap := (k.Cost - k.LowerBound) / k.Cost
		out.Gap = &gap
	}
	for t, typ := range p.Types {
		if n := k.Nodes(t); n > 0 {
			out.Nodes = append(out.Nodes, packedNodes{typ.Name, n})
		}
	}
	for _, l := range k.Loads {
		a := packedAssignment{Type: p.Types[l.Type].Name, Count: l.Nodes, Pods: map[string]int32{}}
		for _, s := range l.Pods {
			a.Pods[p.Items[s.Item].Name] = s.Count
		}
		out.Assignments = append(out.Assignments, a)
	}
	for i, n := range k.Unplaced {
		if n > 0 {
			out.Unplaced = append(out.Unplaced, packedPods{p.Items[i].Name, n})
		}
	}
	return out, nil
}

func (p packed) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "nodes\ttype")
	for _, n := range p.Nodes {
		fmt.Fprintf(w, "%d\t%s\n", n.Count, n.Type)
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(w, "%d\tpods of %s not placed\n", u.Count, u.Name)
	}
	_ = w.Flush() // into memory
	fmt.Fprintf(&b, "cost %.6g, at least %.6g", p.Cost, p.LowerBound)
	switch {
	case p.Optimal:
		b.WriteString(": optimal")
	case p.Gap != nil:
		fmt.Fprintf(&b, ": within %.3g %%", 100**p.Gap)
	}
	fmt.Fprintf(&b, " (%s, %.3g s)", p.Solver, p.Seconds)
	if p.Fallback != "" {
		fmt.Fprintf(&b, "\n%s", p.Fallback)
	}
	return b.String()
}
