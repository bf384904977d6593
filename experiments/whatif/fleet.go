package whatif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/record"
)

// Fleet is what would have been of all workloads in records: the report of a time in
// Shadow. Each is replayed in a cluster of its own.
type Fleet struct {
	// Workloads in order of key.
	Workloads []FleetWorkload `json:"workloads"`
	// Total over the workloads, by scaler.
	Total []FleetTotal `json:"total"`
	// SizingSavingUSD is what right-sized requests would save together, in USD a month of
	// 730 hours, as the newest plan has it; null if no workload has a recommendation.
	SizingSavingUSD *float64 `json:"sizingSavingUsd"`
	// SpotSavingUSD is what the first policy would save on spot machines, USD in thirty days,
	// each workload on nodes of its own; null if not asked for.
	SpotSavingUSD *float64 `json:"spotSavingUsd"`
	// Together is what would have been in one cluster whose nodes they share; nil with fewer than
	// two of them.
	Together *Together `json:"together"`
	// Unknown are workloads that can't be replayed, and why.
	Unknown []FleetUnknown `json:"unknown,omitempty"`
	// KnownError of the simulation, where it was compared with a real control plane.
	KnownError KnownError `json:"knownError"`
}

// FleetWorkload is one workload of a Fleet.
type FleetWorkload struct {
	Workload string `json:"workload"`
	// SizingSavingUSD is its part of the Fleet's; null without a recommendation.
	SizingSavingUSD *float64 `json:"sizingSavingUsd"`
	Result
}

// FleetTotal is what a scaler would have done for all workloads together.
type FleetTotal struct {
	Scaler string `json:"scaler"`
	Policy string `json:"policy,omitempty"`
	// SLOViolationMinutes are added over the workloads.
	SLOViolationMinutes float64 `json:"sloViolationMinutes"`
	// CostUSD of nodes, which no two workloads share here, and of what pods request of
	// them, which is the same wherever they run.
	CostUSD    float64 `json:"costUsd"`
	PodCostUSD float64 `json:"podCostUsd"`
}

// FleetUnknown is a workload that can't be replayed.
type FleetUnknown struct {
	Workload string `json:"workload"`
	Why      string `json:"why"`
}

// Whole reports whether all workloads of records are asked for, and not one.
func (o *Options) Whole() bool { return o.Records != "" && o.Workload == "" }

// fleetRival is what workloads of records are compared with where nothing is asked for.
const fleetRival = "hpa:80"

// RunFleet replays every workload that was planned in the newest cycle of records.
func (o *Options) RunFleet(ctx context.Context, progress io.Writer) (Fleet, error) {
	out := Fleet{Workloads: []FleetWorkload{}}
	if g := o.Gate; o.Report != "" || g.MaxCostUSD != nil || g.MaxViolationRatio != nil {
		return out, inputf("--report, --max-cost and --max-violation are for one workload: name it with --workload")
	}
	l, err := record.Open(os.DirFS(o.Records))
	if err != nil {
		return out, inputf("--records %s: %w", o.Records, err)
	}
	last, err := l.At(time.Time{})
	if err != nil {
		return out, inputf("--records %s: %w", o.Records, err)
	}
	var worlds []simulatedWorld
	var policies string
	rivals := o.Rivals
	for i := range last.Snapshot.Workloads {
		w := &last.Snapshot.Workloads[i]
		if w.Mode == api.ModeOff || o.Namespace != "" && w.Key.Namespace != o.Namespace {
			continue
		}
		one := *o
		one.Workload = w.Key.String()
		if !o.Given("rival") {
			one.Rivals = []string{fleetRival}
		}
		fmt.Fprintf(progress, "%s, %d of %d\n", one.Workload, i+1, len(last.Snapshot.Workloads))
		r, world, err := one.replay(ctx, progress)
		switch {
		case errors.Is(err, simulation.ErrInput):
			out.Unknown = append(out.Unknown, FleetUnknown{one.Workload, err.Error()})
			continue
		case err != nil:
			return out, fmt.Errorf("%s: %w", one.Workload, err)
		}
		worlds, policies = append(worlds, world), world.policies
		rivals = one.Rivals
		saving := monthly(last.Cycle.Plan, w.Key)
		if saving != nil {
			out.SizingSavingUSD = new(*saving + deref(out.SizingSavingUSD))
		}
		if len(r.Spot) > 0 {
			out.SpotSavingUSD = new(r.Spot[0].SavingUSD30Days + deref(out.SpotSavingUSD))
		}
		out.Workloads, out.KnownError = append(out.Workloads, FleetWorkload{one.Workload, saving, r}), r.KnownError
	}
	if len(out.Workloads) == 0 {
		why := "they have none that is planned"
		if o.Namespace != "" {
			why += " in namespace " + o.Namespace
		}
		if len(out.Unknown) > 0 {
			why = out.Unknown[0].Workload + ": " + out.Unknown[0].Why
		}
		return out, inputf("--records %s: no workload can be replayed: %s", o.Records, why)
	}
	for i, s := range out.Workloads[0].Summary { // the same scalers in the same order for all
		t := FleetTotal{Scaler: s.Scaler, Policy: s.Policy}
		for _, w := range out.Workloads {
			t.SLOViolationMinutes += w.Summary[i].Mean("sloViolationMinutes")
			t.CostUSD += w.Summary[i].Mean("costUsd")
			t.PodCostUSD += w.Summary[i].Mean("podCostUsd")
		}
		out.Total = append(out.Total, t)
	}
	same, others := sameStretch(worlds)
	for _, source := range others {
		fmt.Fprintf(progress, "%s: its history is of another time, it is left out of the one cluster\n", source)
	}
	if len(same) > 1 {
		all := *o
		all.Rivals = rivals
		if out.Together, err = all.together(ctx, same, policies, progress); err != nil {
			return out, fmt.Errorf("all workloads in one cluster: %w", err)
		}
	}
	return out, nil
}

// hoursOfMonth is how clouds count one.
const hoursOfMonth = 730

// monthly is what the sizes of a plan would save of a workload's requests; nil if it has none.
func monthly(p api.Plan, key api.Key) *float64 {
	i := slices.IndexFunc(p.Workloads, func(w api.WorkloadPlan) bool { return w.Key == key })
	if i < 0 || p.Workloads[i].Sizing == nil {
		return nil
	}
	return new(p.Workloads[i].Sizing.Saving * hoursOfMonth)
}

func deref(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// Header of the table.
func (f Fleet) Header() []string {
	out := []string{"workload", "mode", "replicas", "planned", "error, %", "scalings"}
	if f.SizingSavingUSD != nil {
		out = append(out, "sizes save, $ a month")
	}
	if f.SpotSavingUSD != nil {
		out = append(out, "spot machines save, $ in 30 days")
	}
	for _, t := range f.Total {
		out = append(out, t.Scaler+": violated, min", "pods, $", "nodes, $")
	}
	return out
}

// errorText is how far the simulation is from the records, in percent of what was planned.
func (w FleetWorkload) errorText() string {
	if w.RecordsError == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1f", 100*w.RecordsError.Error)
}

// Rows of the table: one for each workload, and their sums.
func (f Fleet) Rows() [][]string {
	number := func(v float64, digits int) string { return fmt.Sprintf("%.*f", digits, v) }
	var out [][]string
	var replicas, planned float64
	scalings := 0
	for _, w := range f.Workloads {
		did := w.Recorded
		mode := ""
		for i, m := range did.Modes {
			if i > 0 {
				mode += ", "
			}
			mode += string(m)
		}
		row := []string{w.Workload, mode, number(did.MeanReplicas, 1), number(did.PlannedReplicas, 1), w.errorText(), fmt.Sprint(did.Scalings)}
		if f.SizingSavingUSD != nil {
			row = append(row, saved(w.SizingSavingUSD))
		}
		if f.SpotSavingUSD != nil {
			row = append(row, saved(&w.Spot[0].SavingUSD30Days))
		}
		replicas, planned, scalings = replicas+did.MeanReplicas, planned+did.PlannedReplicas, scalings+did.Scalings
		for _, s := range w.Summary {
			row = append(row, f.figures(s.Summary.Mean("sloViolationMinutes"), s.Summary.Mean("podCostUsd"), s.Summary.Mean("costUsd"))...)
		}
		out = append(out, row)
	}
	row := []string{"all", "", number(replicas, 1), number(planned, 1), "", fmt.Sprint(scalings)}
	if f.SizingSavingUSD != nil {
		row = append(row, saved(f.SizingSavingUSD))
	}
	if f.SpotSavingUSD != nil {
		row = append(row, saved(f.SpotSavingUSD))
	}
	for _, t := range f.Total {
		row = append(row, f.figures(t.SLOViolationMinutes, t.PodCostUSD, t.CostUSD)...)
	}
	return append(out, row)
}

func saved(x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", *x)
}

func (f Fleet) figures(minutes, pods, nodes float64) []string {
	return []string{fmt.Sprintf("%.1f", minutes), fmt.Sprintf("%.4f", pods), fmt.Sprintf("%.4f", nodes)}
}

// Sentences say what the table doesn't.
func (f Fleet) Sentences() []string {
	first := f.Workloads[0].History
	out := []string{
		fmt.Sprintf("%s to %s: what was done (replicas on average, and how often they were scaled), what mash2 planned meanwhile and how far the simulation of it is off, and what each scaler would have done with the same demand",
			first.From, first.To),
		"each workload is replayed on nodes of its own, so that the sums of nodes are too high for every scaler; what pods cost doesn't depend on that",
	}
	if f.Together != nil {
		out[len(out)-1] += "; the table below is of one cluster whose nodes they share"
	}
	if f.SizingSavingUSD != nil {
		out = append(out, "what sizes save is by how much less the recommended requests cost than those of the templates, at the pools' prices and the demand that is known; nodes cost less only when fewer are needed")
	}
	for _, u := range f.Unknown {
		out = append(out, fmt.Sprintf("not replayed: %s: %s", u.Workload, u.Why))
	}
	return out
}
