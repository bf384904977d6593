package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/planning/node/instance"
)

func newPack() *cobra.Command {
	var input, solver string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Packs pods onto node types at least cost",
		Long: `Packs pods onto node types at least cost, with a proven lower bound of the cost. The
input is JSON or, with the extension .vbp, an instance of vector bin packing;
package planning/node/instance documents both.

--time-limit is a budget of work, in seconds of a core of 2023. The same input
and limit give the same result on every machine. Only the ILP is limited by the
clock.`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&input, "input", "", "file with the problem, .json or .vbp")
	f.StringVar(&solver, "solver", node.Auto, "one of "+strings.Join(node.Solvers(), ", "))
	f.DurationVar(&limit, "time-limit", 10*time.Second, "work budget of the search")
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
		p, err := instance.Read(input)
		if err != nil {
			return cli.Usage(err)
		}
		out, err := instance.Pack(p, solver, limit)
		if err != nil {
			return err
		}
		if err := show(out, packText(out)); err != nil {
			return err
		}
		if n := len(out.Unplaced); n > 0 {
			return fmt.Errorf("no node type has room for pods of %d shapes", n)
		}
		return nil
	}
	return cmd
}

// packText is what is printed for people.
func packText(p instance.Packed) string {
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
