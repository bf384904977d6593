package cli

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"
)

func newExplain(find func(name string) (forecast.Forecaster, error)) *cobra.Command {
	var records, at, from, to string
	var q record.Question
	change := replay.Change{FindForecaster: find}
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Says why a recorded cycle decided as it did",
		Long: `Says why a recorded cycle decided as it did: what bound it, the forecast and its
trust, the plans that lost and what each would have cost, what was done. It reads the
record and decides nothing again.

With --from and --to it says what changed between two times, and why.

With --with, --without, --policy or --planner it decides the cycle again, from what was
seen and remembered then, with that change, and says what would have been planned
instead. What would have followed is not told: mash2 whatif simulates that. Fields are
` + strings.Join(replay.Fields(), ", ") + `.`,
		Args: NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&records, "records", "", "folder of the records")
	f.StringVar(&q.Workload, "workload", "", "NAMESPACE/NAME of a ManagedWorkload; all if empty")
	f.StringVar(&q.Pool, "node-pool", "", "name of a node pool")
	f.StringVar(&at, "at", "", "time, RFC 3339: the cycle in force then; the last one if empty")
	f.StringArrayVar(&change.With, "with", nil, "FIELD=VALUE of the policy, or of the workload's bounds: what would have been planned with it")
	f.StringArrayVar(&change.Without, "without", nil, "budget: what would have been planned without limits of money and nodes")
	f.StringVar(&change.Policy, "policy", "", "what would have been planned under this policy")
	f.StringVar(&change.Planner, "planner", "", "what would have been planned by this planner")
	f.StringVar(&from, "from", "", "time, RFC 3339: what changed from then on, and why")
	f.StringVar(&to, "to", "", "time, RFC 3339: until when; the last cycle if empty")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		l, err := openRecords(records)
		if err != nil {
			return err
		}
		changed := len(change.With)+len(change.Without) > 0 || change.Policy != "" || change.Planner != ""
		if from != "" || to != "" {
			if at != "" || changed {
				return Usagef("--from and --to tell what changed between two times; --at, --with, --without, --policy and --planner are of one cycle")
			}
			account, err := over(l, q, from, to)
			if err != nil {
				return err
			}
			return show(account, accountText(account))
		}
		if q.At, err = timeFlag("at", at); err != nil {
			return err
		}
		e, err := l.Explain(q)
		if err != nil {
			return Usage(err)
		}
		if !changed {
			return show(e, explanationText(e))
		}
		change.Workload = q.Workload
		otherwise, err := replay.Otherwise(cmd.Context(), l, q.At, change)
		if errors.Is(err, replay.ErrChange) || errors.Is(err, replay.ErrNoPlanner) {
			return Usage(err)
		}
		if err != nil {
			return err
		}
		return show(struct {
			record.Explanation
			Otherwise replay.Counterfactual `json:"otherwise"`
		}{e, otherwise}, otherwiseText(otherwise)+"\n\nAs it was: "+explanationText(e))
	}
	return cmd
}

// otherwiseText is what would have been decided instead: the result first.
func otherwiseText(o replay.Counterfactual) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Decided again %s\n", o.Summary)
	if !o.Reproduced {
		fmt.Fprintln(&b, "Without the change this program doesn't decide as was recorded: both sides are this program's.")
	}
	for _, w := range o.Workloads {
		fmt.Fprintf(&b, "  %s  %d, by %s: %s\n    was %d, by %s: %s\n", w.Workload, w.Otherwise.Replicas, w.Otherwise.Binding, w.Otherwise.Reason, w.Was.Replicas, w.Was.Binding, w.Was.Reason)
	}
	fmt.Fprintf(&b, "All together: %d replicas on %d nodes, %.3f USD/h; was %d on %d, %.3f USD/h.", o.Otherwise.Replicas, o.Otherwise.Nodes, o.Otherwise.HourlyCost, o.Was.Replicas, o.Was.Nodes, o.Was.HourlyCost)
	return b.String()
}

// explanationText is for who is woken at night: the result first.
func explanationText(e record.Explanation) string {
	var b strings.Builder
	when := fmt.Sprintf("cycle %d, %s", e.Cycle, e.Time.UTC().Format(time.RFC3339))
	if e.Error != "" {
		fmt.Fprintf(&b, "Nothing was changed (%s): %s\n", when, e.Error)
		fmt.Fprintln(&b, "What follows is what was in force before.")
	}
	switch {
	case e.Decided != nil:
		workloadText(&b, e, when)
	case e.Pool == nil:
		fmt.Fprintf(&b, "%s: %d replicas of %s on %d nodes, %.3f USD/h (%s)\n",
			e.Policy.Name, e.Chosen.Replicas, counted(len(e.Workloads), "workload"), e.Chosen.Nodes, e.Chosen.HourlyCost, when)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, w := range e.Workloads {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", w.Key, change(w.Current, w.Replicas), w.Binding, w.Reason)
		}
		_ = t.Flush() // into memory
	}
	if p := e.Pool; p != nil {
		fmt.Fprintf(&b, "Pool %s: %s nodes, %.3f USD/h (%s)\n", p.Pool, change(p.Current, p.Nodes), p.HourlyCost, when)
		fmt.Fprintf(&b, "  %s\n", p.Reason)
		fmt.Fprintf(&b, "  the packing needs %d, zones make it %d; pods need %d per zone now\n", p.Needed, p.Nodes, p.Now)
		if len(p.Surplus) > 0 {
			fmt.Fprintf(&b, "  to go first: %s\n", strings.Join(p.Surplus, ", "))
		}
	}
	if r := e.Nodes.Refusal; r != nil {
		fmt.Fprintf(&b, "Workloads stay on %s instead of %s: %s: %s\n", r.Stay, r.Pool, r.Reason, r.Message)
	}
	for _, u := range e.Nodes.Unplaced {
		fmt.Fprintf(&b, "No place for %d pods of %s: %s\n", u.Count, u.Name, u.Reason)
	}
	fmt.Fprintf(&b, "Policy: %s\n", policyLine(e.Policy))
	actionsText(&b, e)
	candidatesText(&b, e)
	for _, f := range e.Findings {
		if f.Severity == api.Warning {
			fmt.Fprintf(&b, "Warning: %s\n", f)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func change(from, to int32) string {
	if from == to {
		return fmt.Sprintf("%d", to)
	}
	return fmt.Sprintf("%d → %d", from, to)
}

func policyLine(p api.Policy) string {
	s := fmt.Sprintf("%s (%s)", p.Name, p.Source)
	if p.Reason != "" {
		s += ": " + p.Reason
	}
	return s
}

// workloadText is what was decided for one workload, and by what.
func workloadText(b *strings.Builder, e record.Explanation, when string) {
	w := e.Decided
	state := ""
	switch {
	case w.Held:
		state = ", held"
	case w.Shadow:
		state = ", shadow: shown and not written"
	case e.Paused:
		state = ", paused: not written"
	}
	fmt.Fprintf(b, "%s: %s replicas, by %s%s (%s)\n", w.Key, change(w.Current, w.Replicas), w.Binding, state, when)
	fmt.Fprintf(b, "  %s\n", w.Reason)
	if w.Demand >= 0 {
		fmt.Fprintf(b, "Demand: %.0f millicores now, %.0f at the planned peak; %d millicores a replica; needs %.2f replicas now, at least %d (%s)\n",
			w.Demand, w.PeakDemand, w.Request, w.Need, w.Floor, w.FloorSource)
	} else {
		fmt.Fprintf(b, "Demand: not known; at least %d replicas (%s)\n", w.Floor, w.FloorSource)
	}
	if o := e.Observed; o != nil && o.DemandStale {
		fmt.Fprintln(b, "Demand is stale: replicas don't go down.")
	}
	trust := "nothing is forecast"
	if s := e.Trust; s != nil {
		trust = fmt.Sprintf("%s, trust %s, skill over the last value %s, over the season %s", s.Model, s.Trust, skillText(s.LastValue), skillText(s.Seasonal))
		if e.Forecast == nil {
			trust += "; not used"
		}
	}
	fmt.Fprintf(b, "Forecast: %s\n", trust)
	if f := e.Forecast; f != nil && len(f.PeakQuantiles) == len(f.Levels) && len(f.Levels) > 0 {
		var peaks []string
		for i, q := range f.Levels {
			peaks = append(peaks, fmt.Sprintf("%g: %.0f", q, f.PeakQuantiles[i]))
		}
		fmt.Fprintf(b, "  quantiles of the peak, millicores: %s\n", strings.Join(peaks, ", "))
	}
	for _, s := range w.Triggers {
		if s.Missing != "" {
			fmt.Fprintf(b, "Trigger %s: missing: %s\n", s.Name, s.Missing)
			continue
		}
		fmt.Fprintf(b, "Trigger %s: %g, target %g: %d replicas\n", s.Name, s.Value, s.Target, s.Replicas)
	}
	for _, s := range w.SLOs {
		fmt.Fprintf(b, "SLO %s: %s: %s\n", s.Name, s.Verdict, s.Reason)
	}
	fmt.Fprintf(b, "Nodes are planned for %d replicas.\n", w.NodeReplicas)
	if len(w.Pools) == 0 {
		return
	}
	pools := make([]string, len(w.Pools))
	for i, share := range w.Pools {
		pools[i] = fmt.Sprintf("%d on %s", share.Replicas, share.Pool)
	}
	fmt.Fprintf(b, "Replicas by pool: %s.\n", strings.Join(pools, ", "))
}

func skillText(v *float64) string {
	if v == nil {
		return "not known"
	}
	return fmt.Sprintf("%.2f", *v)
}

func actionsText(b *strings.Builder, e record.Explanation) {
	if len(e.Actions) == 0 {
		fmt.Fprintln(b, "Actions: none")
		return
	}
	fmt.Fprintln(b, "Actions:")
	for _, a := range e.Actions {
		fmt.Fprintf(b, "  %s: %s\n", a.Outcome, a.Action)
	}
}

// candidatesText is a table of the plans that lost beneath the chosen one.
func candidatesText(b *strings.Builder, e record.Explanation) {
	if len(e.Candidates) == 0 {
		fmt.Fprintln(b, "No other plan was considered.")
		return
	}
	fmt.Fprintln(b, "Plans considered (all workloads together):")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  pool\treplicas\tnodes\tUSD/h\tutility\t= performance\t− cost\t+ resilience\t")
	row := func(k api.Candidate, why string) {
		u := k.Utility
		fmt.Fprintf(t, "  %s\t%d\t%d\t%.3f\t%.4f\t%.4f\t%.4f\t%.4f\t%s\n", k.Pool, k.Replicas, k.Nodes, k.HourlyCost, u.Total, u.Performance, u.Cost, u.Resilience, why)
	}
	row(e.Chosen, "chosen")
	for _, k := range e.Candidates {
		note := k.Why
		if k.Note != "" && k.Note != k.Why {
			note = k.Note + ": " + note
		}
		row(k.Candidate, note)
	}
	_ = t.Flush() // into memory
}

// counted is a number of things: "1 workload", "2 workloads".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
