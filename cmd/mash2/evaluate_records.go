package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mash2-io/mash2/experiments/whatif"
)

// trialOnly annotates the flags that go with --records only.
const trialOnly = "mash2/trial"

// registerTrial adds the flags of candidates that are compared on records.
func registerTrial(cmd *cobra.Command, o *whatif.Trial) {
	before := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	o.Scale, o.LoadFactor, o.Delimiter = 1, 1, ","
	f := cmd.Flags()
	f.StringVar(&o.Records, "records", "", "folder of an operator's records, on which candidates are compared")
	f.StringVar(&o.Workload, "workload", "", "NAMESPACE/NAME of the ManagedWorkload in --records")
	f.StringVar(&o.Incumbent, "incumbent", "rule:mash2", "rule that candidates are to replace")
	f.StringVar(&o.Policy, "policy", "COST_SAVING", "policy of mash2, for the whole time (default: that of the records' end, if it is built in)")
	f.StringVar(&o.PoliciesFile, "policies-file", "", "policies.yaml as in the policy ConfigMap, with node pools named as in --pool or the records")
	f.DurationVar(&o.Block, "block", 24*time.Hour, "time that counts as one value of the test; the first block is history")
	f.Float64Var(&o.Delta, "delta", 0.05, "highest probability that a candidate is promoted which is no better")
	f.BoolVar(&o.Pods, "pods", false, "compare the cost of what pods request instead of that of nodes")
	f.StringVar(&o.To, "to", "0s", "end of the newest block: RFC 3339, or a duration before the records' end")
	registerWorld(cmd, &o.World)
	f.VisitAll(func(flag *pflag.Flag) {
		if !before[flag.Name] {
			_ = f.SetAnnotation(flag.Name, trialOnly, nil) // it was found just now
		}
	})
}

// trialFlags are the names of these flags.
func trialFlags(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[trialOnly]; ok {
			names = append(names, f.Name)
		}
	})
	return names
}

// verdictText is a table, in the order of the ranking.
func verdictText(v whatif.Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d blocks of %v, the last until %s, of %s, under %s: %.4g %% of minutes are to be within the SLO\n\n",
		v.Blocks, time.Duration(v.BlockSeconds*float64(time.Second)), v.History.To, v.History.Source, v.Policy, 100*v.Objective)
	if v.LeftOut > 0 {
		fmt.Fprintf(&b, "note: %d blocks are left out: pods used about all that they may, or too much is missing, so what they were asked for is not known\n", v.LeftOut)
	}
	for _, n := range v.History.Notes {
		fmt.Fprintln(&b, "note:", n)
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "model\t%s, $\tSLO violated, min\tkeeps it\treplicas\tscalings\tcosts less by\tevidence\tneeded\tpromoted\t\n", v.Cost)
	yes := map[bool]string{true: "yes", false: "no"}
	for _, name := range v.Ranking {
		for _, m := range v.Models {
			if m.Name != name {
				continue
			}
			gain, evidence, needed, promoted := "incumbent", "–", "–", "–"
			if m.Gain != nil {
				gain, evidence = m.Gain.Text(whatif.Less), whatif.Evidence(*m.Wealth)
				needed, promoted = fmt.Sprintf("%.0f", m.Needed), yes[m.Promoted]
			}
			fmt.Fprintf(t, "%s\t%.4f\t%d\t%s\t%.1f\t%d\t%s\t%s\t%s\t%s\t\n",
				m.Name, m.CostUSD, m.SLOViolationMinutes, yes[m.Keeps], m.MeanReplicas, m.ScaleActions, gain, evidence, needed, promoted)
		}
	}
	_ = t.Flush() // into memory
	fmt.Fprintln(&b, "\n"+v.Why)
	if v.RecordsError != nil {
		fmt.Fprintln(&b, v.RecordsError.Sentence())
	}
	fmt.Fprintln(&b, "\nassumptions, because records do not say:")
	for _, a := range v.Assumptions {
		fmt.Fprintln(&b, "  "+a.Text())
	}
	fmt.Fprintln(&b, "\n"+v.KnownError.Sentence())
	header, rows := v.KnownError.Table()
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	_ = t.Flush() // into memory
	return strings.TrimRight(b.String(), "\n")
}
