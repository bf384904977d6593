package cli

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

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
		Short: "Explains the decisions of a recorded cycle",
		Long: `Explains the decisions of a recorded cycle: the constraint that decided, the forecast and
its trust, the plans that were not chosen with their costs, and the actions. It reads the
record and plans nothing again.

With --from and --to it explains what changed between two times.

A time is RFC 3339 (2026-08-03T12:00:00Z), a time of the last recorded day in UTC (12:00),
or how long before the last recorded cycle (10m).

Figures are planned ones, and "Now" what was there. floor is what the usage of now needs; q
the quantile of a forecast; a machine's speed is 1 for a core of n2; "packed anew" is a
packing of all pods onto empty nodes; skill is by how much a forecast beats the last value.

With --with, --without, --policy or --planner it plans the cycle again with that change, from
the recorded snapshot and memory, and shows what the plan would have been. It does not show
what would have happened afterwards: mash2 whatif simulates that. The fields are
` + strings.Join(replay.Fields(), ", ") + `.`,
		Example: `  mash2 explain --records D --workload shop/web                          # why so many, now
  mash2 explain --records D --workload shop/web --at 2026-08-03T12:00:00Z  # and then
  mash2 explain --records D --from 12:00 --to 12:10                # what changed, and why
  mash2 explain --records D --node-pool general                          # why these nodes
  mash2 explain --records D --workload shop/web --with quantile=0.99     # and otherwise?
  mash2 explain --records D --workload shop/web --with workload.maxReplicas=50`,
		Args: NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&records, "records", "", "folder of the records: the operator's --records, or that of mash2 simulate")
	f.StringVar(&q.Workload, "workload", "", "NAMESPACE/NAME of a ManagedWorkload, or its NAME where there is one of that name; all if empty")
	f.StringVar(&q.Pool, "node-pool", "", "name of a node pool")
	f.StringVar(&at, "at", "", "time: the cycle in force then (default: the last cycle)")
	f.StringArrayVar(&change.With, "with", nil, "plan again with FIELD=VALUE in the policy or in the workload's bounds; may be repeated")
	f.StringArrayVar(&change.Without, "without", nil, "plan again without something: budget removes the limits of money and nodes")
	f.StringVar(&change.Policy, "policy", "", "plan again under this policy")
	f.StringVar(&change.Planner, "planner", "", "plan again with this planner")
	f.StringVar(&from, "from", "", "time: explain the changes from then on")
	f.StringVar(&to, "to", "", "time: end of the changes to explain (default: the last cycle)")
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
		if q.Workload, err = workloadFlag(l, q.Workload); err != nil {
			return err
		}
		if from != "" || to != "" {
			if at != "" || changed {
				return Usagef("--from and --to explain the changes between two times, so they exclude --at, --with, --without, --policy and --planner, which are about one cycle")
			}
			account, err := over(l, q, from, to)
			if err != nil {
				return err
			}
			return show(account, accountText(account))
		}
		if q.At, err = until(l, "at", at); err != nil {
			return err
		}
		e, err := l.Explain(q)
		if err != nil {
			return Usage(err)
		}
		if !changed {
			return show(e, outside(q.At, e.Time)+explanationText(e))
		}
		if change.Workload = q.Workload; change.Workload == "" {
			if change.Workload, err = onlyWorkload(l); err != nil {
				return err
			}
		}
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
		}{e, otherwise}, outside(q.At, e.Time)+otherwiseText(otherwise)+"\n\nAs it was: "+explanationText(withoutCandidates(e)))
	}
	return cmd
}

// outsideAfter is how long after a cycle it is no more taken for the one in force.
const outsideAfter = 5 * time.Minute

// outside says that the cycle explained is not of the time that was asked for; empty if
// it is.
func outside(asked, found time.Time) string {
	switch {
	case asked.IsZero():
		return ""
	case found.After(asked):
		return fmt.Sprintf("No cycle is recorded by %s. This is the first one.\n", asked.UTC().Format(time.RFC3339))
	case asked.Sub(found) > outsideAfter:
		return fmt.Sprintf("No cycle is recorded in the %s before %s. This is the last one before.\n",
			asked.Sub(found).Round(time.Second), asked.UTC().Format(time.RFC3339))
	}
	return ""
}

// withoutCandidates leaves out the plans that lost: beside another decision they are too much.
func withoutCandidates(e record.Explanation) record.Explanation {
	e.Candidates = nil
	return e
}

// otherwiseText is what would have been decided instead: the result first.
func otherwiseText(o replay.Counterfactual) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Decided again %s\n", o.Summary)
	if o.Note != "" {
		fmt.Fprintf(&b, "  %s\n", o.Note)
	}
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
		fmt.Fprintf(&b, "%s: %d replicas of %s on %s, %.3f USD/h planned (%s)\n",
			e.Policy.Name, e.Chosen.Replicas, counted(len(e.Workloads), "workload"), counted(int(e.Chosen.Nodes), "node"), e.Chosen.HourlyCost, when)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, w := range e.Workloads {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", w.Key, change(w.Current, w.Replicas), w.Binding, w.Reason)
		}
		_ = t.Flush() // into memory
		if now := e.Now; now != nil {
			fmt.Fprintf(&b, "Now: %s, %d Ready; %s asked for, %d Ready\n", counted(now.Pods, "pod"), now.Ready, counted(now.Nodes, "node"), now.ReadyNodes)
		}
	}
	if p := e.Pool; p != nil {
		fmt.Fprintf(&b, "Pool %s: %s nodes, %.3f USD/h planned (%s)\n", p.Pool, change(p.Current, p.Nodes), p.HourlyCost, when)
		fmt.Fprintf(&b, "  %s\n", p.Reason)
		fmt.Fprintf(&b, "  the pods need %d, %d in whole zones; %d per zone now\n", p.Needed, p.Nodes, p.Now)
		if m := e.Machines; m != nil {
			fmt.Fprintf(&b, "  %s\n", machinesText(*m))
		}
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
	for _, warning := range []bool{true, false} {
		for _, f := range e.Findings {
			if (f.Severity == api.Warning) == warning {
				fmt.Fprintf(&b, "%s: %s\n", map[bool]string{true: "Warning", false: "Note"}[warning], f)
			}
		}
	}
	lostText(&b, e.Lost)
	return strings.TrimRight(b.String(), "\n")
}

// machinesText says what a pool's machines are, and what is on each of them.
func machinesText(m record.Machines) string {
	text := fmt.Sprintf("machines: %s, %.3f USD/h each", m.Type, m.Price)
	if m.Spot {
		text += fmt.Sprintf(", spot, taken away %.3g times an hour", m.Interruptions)
	}
	text += fmt.Sprintf("; DaemonSets and static pods request %dm of one", m.Standing)
	if m.StandingUsage != nil {
		return text + fmt.Sprintf(" and use %.0fm", *m.StandingUsage)
	}
	return text + "; what they use is not known"
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
	if len(p.NodePools) > 0 {
		s += "; its pools: " + strings.Join(p.NodePools, ", ")
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
		peak := ""
		if e.Forecast != nil && w.PeakDemand >= 0 {
			peak = fmt.Sprintf(", up to %.2f in the whole forecast", w.PeakDemand/1000)
		}
		fmt.Fprintf(b, "Demand: %.2f cores now%s; %d millicores a replica; needs %.2f replicas before rounding, at least %d for what is used now (%s)\n",
			w.Demand/1000, peak, w.Request, w.Need, w.Floor, w.FloorSource)
	} else {
		fmt.Fprintf(b, "Demand: not known; at least %d replicas (%s)\n", w.Floor, w.FloorSource)
	}
	if o := e.Observed; o != nil && o.DemandStale {
		fmt.Fprintln(b, "Demand is stale: replicas don't go down.")
	}
	podsText(b, e.Pods)
	trust := "none"
	if s := e.Trust; s != nil {
		trust = fmt.Sprintf("model %s, trust %s, skill over the last value %s, over the season %s", s.Model, s.Trust, skillText(s.LastValue), skillText(s.Seasonal))
		if s.Coverage != nil {
			trust += fmt.Sprintf(", %.0f %% within its interval of 90 %%", 100**s.Coverage)
		}
		if e.Forecast == nil {
			trust = "not used; " + trust
		}
	}
	fmt.Fprintf(b, "Forecast: %s\n", trust)
	if f := e.Forecast; f != nil && len(f.PeakQuantiles) == len(f.Levels) && len(f.Levels) > 0 {
		var peaks []string
		for i, q := range f.Levels {
			peaks = append(peaks, fmt.Sprintf("%.2f at q=%g", f.PeakQuantiles[i]/1000, q))
		}
		fmt.Fprintf(b, "  the largest demand in the whole forecast, cores: %s\n", strings.Join(peaks, ", "))
	}
	for _, s := range w.Triggers {
		if s.Missing != "" {
			fmt.Fprintf(b, "Trigger %s: missing: %s\n", s.Name, s.Missing)
			continue
		}
		fmt.Fprintf(b, "Trigger %s: %g, target %g: %d replicas\n", s.Name, s.Value, s.Target, s.Replicas)
	}
	if p := w.Canary; p != nil {
		fmt.Fprintf(b, "canary: %s, role %s", p.Phase, p.Role)
		if p.With != "" {
			fmt.Fprintf(b, " with %s", p.With)
		}
		fmt.Fprintf(b, ": %s\n  evidence that canaries are worse %.3g, that they are not %.3g, either is proven at %.3g; they were worse by %.3g error budgets",
			p.Waits, p.Worse, p.Fine, p.Needed, p.Excess)
		if p.Cost != nil {
			fmt.Fprintf(b, ", and requested %+.0f %% for their demand", 100*(*p.Cost-1))
		}
		fmt.Fprintln(b)
	}
	for _, s := range w.SLOs {
		fmt.Fprintf(b, "SLO %s: %s: %s\n", s.Name, s.Verdict, s.Reason)
	}
	if p := w.Sizing; p != nil {
		fmt.Fprintf(b, "Sizes (%s): %s; the requests cost $%.4f an hour less than the template's $%.4f\n", p.Mode, p.Reason, p.Saving, p.Cost)
	}
	if p := w.Agents; p != nil {
		agentsText(b, p)
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

// agentsText is what the agents of running pods may do, and did.
func agentsText(b *strings.Builder, p *api.AgentsPlan) {
	fmt.Fprintf(b, "Agents share %dm of CPU between running pods, %dm to %dm each", p.Budget, p.Least, p.Most)
	if m := p.Memory; m != nil {
		fmt.Fprintf(b, ", and %s of memory, %s to %s each", bytesText(m.Budget), bytesText(m.Least), bytesText(m.Most))
	}
	if p.Hold != "" {
		fmt.Fprintf(b, "; they change nothing: %s", p.Hold)
	}
	fmt.Fprintln(b)
	s := p.State
	if s == nil {
		return
	}
	for _, text := range []string{s.Error, s.Waits} {
		if text != "" && text != p.Hold {
			fmt.Fprintf(b, "  %s\n", text)
		}
	}
	if s.Trial != "" {
		fmt.Fprintf(b, "  trial of the model: %s\n", s.Trial)
	}
	for _, pod := range s.Pods {
		used := "usage not known"
		if pod.Usage != nil {
			used = fmt.Sprintf("uses %.0fm", *pod.Usage)
		}
		fmt.Fprintf(b, "  %s: limit %dm → %dm by %s (%s), %s\n", pod.Pod, pod.Limit, pod.Next, s.Mind, pod.Binding, used)
		if m := pod.Memory; m != nil && m.Stays != "" {
			fmt.Fprintf(b, "    its memory stays: %s\n", m.Stays)
		} else if m != nil {
			used = "use not known"
			if m.Used != nil {
				used = "uses " + bytesText(int64(*m.Used)>>20<<20)
			}
			fmt.Fprintf(b, "    memory: limit %s → %s (%s), %s\n", bytesText(m.Limit), bytesText(m.Next), m.Binding, used)
		}
	}
	for _, text := range s.Refused {
		fmt.Fprintf(b, "  takes no part: %s\n", text)
	}
}

// bytesText is as kubectl shows memory: 128Mi.
func bytesText(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// podsText is where the pods of a workload are now; the plan may be ahead of them.
func podsText(b *strings.Builder, pods []record.PodsOn) {
	if len(pods) == 0 {
		return
	}
	all, ready := 0, 0
	var on []string
	for _, p := range pods {
		all, ready = all+p.Pods, ready+p.Ready
		text := fmt.Sprintf("%d on %s", p.Pods, p.Pool)
		if p.Pool == "" {
			text = fmt.Sprintf("%d on no pool yet", p.Pods)
		}
		if p.Leaving > 0 {
			text += fmt.Sprintf(" (%d on nodes that are being left)", p.Leaving)
		}
		on = append(on, text)
	}
	fmt.Fprintf(b, "Pods now: %d, %d Ready: %s\n", all, ready, strings.Join(on, ", "))
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
		return
	}
	fmt.Fprintln(b, "Plans considered (all workloads together):")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	w := e.Policy.Weights
	fmt.Fprintf(t, "  pool\treplicas\tnodes\tUSD/h\tutility\t= %g × performance\t− %g × cost\t+ %g × resilience\t\n", w.Performance, w.Cost, w.Resilience)
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
