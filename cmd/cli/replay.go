package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/operator/replay"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// replayFlags are the settings of mash2 replay.
type replayFlags struct {
	records, from, to, policies, planner string
	// maxCost is in percent of what was recorded; both limits are empty for none.
	maxCost, maxShort string
	// find is Program.FindForecaster.
	find func(name string) (forecast.Forecaster, error)
}

func newReplay(find func(name string) (forecast.Forecaster, error)) *cobra.Command {
	o := replayFlags{find: find}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Plans recorded cycles again and shows the differences",
		Long: `Plans recorded cycles again, beginning with the keyframe before --from, and compares
policy, plan and actions bit by bit.

Without a change the same program gives the same bytes. If it does not, mash2 replay prints
the first difference and exits with 1. With --policies-file or --planner it prints the plans
that differ. Snapshots stay as recorded: the effects of another plan on the cluster are not
simulated (see mash2 whatif).

A time is RFC 3339 (2026-08-03T12:00:00Z), a time of the last recorded day in UTC (12:00),
or how long before the last recorded cycle (10m).

With --max-cost-increase or --max-short-increase it is a gate for a new policy file or a
new version: it exits with 1 when a limit is exceeded, and names the workload and the time.`,
		Args: NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.records, "records", "", "folder of the records")
	f.StringVar(&o.from, "from", "", "time of the first cycle to compare; all if empty")
	f.StringVar(&o.to, "to", "", "time of the last cycle to compare (default: the last cycle)")
	f.StringVar(&o.policies, "policies-file", "", "policies.yaml that replaces the recorded policies; which of them is active stays as recorded")
	f.StringVar(&o.planner, "planner", "", "planner that replaces every workload's own")
	f.StringVar(&o.maxCost, "max-cost-increase", "", "exit with 1 if planned nodes cost more than recorded by more than this, such as 5%")
	f.StringVar(&o.maxShort, "max-short-increase", "", "exit with 1 if the sum of times with too few replicas for the actual demand exceeds the recorded one by more than this, such as 30m")
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		if _, _, err := o.limits(); err != nil {
			return err
		}
		out, changed, err := o.run(cmd.Context(), ProgressTo(cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		if err := show(out, replayText(out)); err != nil {
			return err
		}
		if gated, err := o.gate(out); gated || err != nil {
			return err
		}
		if !changed && out.Identical != out.Cycles {
			return fmt.Errorf("%d of %d cycles were decided otherwise than recorded, the first at %s", out.Cycles-out.Identical, out.Cycles, out.First.Time.Format(time.RFC3339))
		}
		return nil
	}
	return cmd
}

// openRecords opens the log of --records.
func openRecords(dir string) (*record.Log, error) {
	if dir == "" {
		return nil, Usagef("--records must name the folder of the records: the operator's --records, or that of mash2 simulate --records")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, Usagef("--records %s: there is no such folder; the operator's --records and mash2 simulate --records write one", dir)
	}
	l, err := record.Open(os.DirFS(dir))
	if err != nil {
		return nil, Usage(fmt.Errorf("--records %s: %w", dir, err))
	}
	return l, nil
}

// run replays and tells whether anything was changed.
func (o *replayFlags) run(ctx context.Context, progress io.Writer) (replay.Result, bool, error) {
	var out replay.Result
	l, err := openRecords(o.records)
	if err != nil {
		return out, false, err
	}
	options := replay.Options{Planner: o.planner, FindForecaster: o.find}
	if options.From, err = recordedTime(l, "from", o.from); err != nil {
		return out, false, err
	}
	if options.To, err = until(l, "to", o.to); err != nil {
		return out, false, err
	}
	if o.policies != "" {
		text, err := os.ReadFile(o.policies)
		if err != nil {
			return out, false, Usage(fmt.Errorf("--policies-file: %w", err))
		}
		changed, err := configmap.Parse(map[string]string{"policies.yaml": string(text)}, nil)
		if err != nil {
			return out, false, Usage(fmt.Errorf("--policies-file: %w", err))
		}
		options.Policies = func(was api.PolicySpec) (api.PolicySpec, error) {
			was.Policies = changed.Policies
			if len(changed.Schedule) > 0 {
				was.Schedule = changed.Schedule
			}
			if len(changed.Signals) > 0 {
				was.Signals = changed.Signals // of those recorded, as far as they read the same
			}
			if _, ok := was.Policies[was.Manual]; was.Manual != "" && !ok {
				return was, Usagef("--policies-file: it has no policy %s, which was active", was.Manual)
			}
			return was, nil
		}
	}
	begun, told := time.Now(), time.Now()
	options.Progress = func(at time.Time, cycles int) {
		if time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(progress, "\r%d cycles, to %s, in %v ", cycles, at.Format(time.RFC3339), time.Since(begun).Round(time.Second))
		}
	}
	out, err = replay.Run(ctx, l, options)
	fmt.Fprint(progress, "\r")
	if errors.Is(err, replay.ErrNoPlanner) {
		err = Usage(fmt.Errorf("--planner: %w", err))
	}
	return out, o.policies != "" || o.planner != "", err
}

// replayText is for people: the result first.
func replayText(r replay.Result) string {
	var b strings.Builder
	if r.Identical == r.Cycles {
		fmt.Fprintf(&b, "All %d cycles from %s to %s give the same bytes.\n", r.Cycles, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	} else {
		fmt.Fprintf(&b, "%d of %d cycles differ, from %s to %s.\n", r.Cycles-r.Identical, r.Cycles, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
		fmt.Fprintf(&b, "First: cycle %d, %s\n", r.First.Cycle, r.First.Time.Format(time.RFC3339))
		const most = 10
		for i, d := range r.First.Differences {
			if i == most {
				fmt.Fprintf(&b, "  and %d more; -o json lists them\n", len(r.First.Differences)-most)
				break
			}
			fmt.Fprintf(&b, "  %s\n", d)
		}
	}
	if w := r.Balance; r.Identical != r.Cycles {
		fmt.Fprintf(&b, "Planned nodes: %.3f USD instead of %.3f. Too few replicas for %.1f minutes instead of %.1f.\n", w.Cost.Decided, w.Cost.Recorded, w.Short.Decided, w.Short.Recorded)
	}
	if r.Held > 0 {
		fmt.Fprintf(&b, "%d cycles decided nothing when they were recorded.\n", r.Held)
	}
	lostText(&b, r.Torn)
	return strings.TrimRight(b.String(), "\n")
}

// lostText is what of the records is missing.
func lostText(b *strings.Builder, lost []string) {
	for _, what := range lost {
		fmt.Fprintf(b, "Lost: %s\n", what)
	}
}
