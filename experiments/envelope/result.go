package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// result of both modes. Durations are in seconds, memory in MiB.
type result struct {
	size
	HistorySeconds float64       `json:"historySeconds"`
	StepSeconds    float64       `json:"stepSeconds"`
	Runs           []measurement `json:"runs,omitempty"`
	Failover       *failover     `json:"failover,omitempty"`
}

// measurement of one operator process.
type measurement struct {
	Mode string `json:"mode"`
	// Steps of a cycle in their order, then report (status, Events, metrics,
	// the record), whole (their sum) and cpu (of the process, from one record
	// to the next, so with all that goes on between cycles).
	Steps []step `json:"steps"`
	// StartSeconds is from the start of the process to the end of its first cycle.
	StartSeconds float64 `json:"startSeconds"`
	// RecordBytes is the mean size of a cycle's record as JSON.
	RecordBytes int `json:"recordBytes"`
	// RSS after the first and the last cycle, the peak, and without files.
	RSSFirst     float64 `json:"rssFirstMiB"`
	RSSLast      float64 `json:"rssLastMiB"`
	RSSPeak      float64 `json:"rssPeakMiB"`
	RSSAnonymous float64 `json:"rssAnonymousMiB"`
	// Actions that were carried out, by kind, of all cycles, and those that failed.
	Actions map[string]int `json:"actions"`
	Failed  int            `json:"failedActions"`
	// Held cycles changed nothing.
	Held int `json:"heldCycles"`
	// Stale and HeldWorkloads of the last cycle.
	Stale         int `json:"staleWorkloads"`
	HeldWorkloads int `json:"heldWorkloads"`
	// Forecasts is the number of workloads by the model that last had a say, in
	// whatever cycle: a forecaster may lose its trust on the way.
	Forecasts map[string]int `json:"forecasts"`
}

// step is a step's time in the first cycle, and in those after it.
type step struct {
	Name  string  `json:"step"`
	First float64 `json:"firstSeconds"`
	P50   float64 `json:"p50Seconds"`
	P95   float64 `json:"p95Seconds"`
	Max   float64 `json:"maxSeconds"`
}

// summarise needs at least two cycles.
func summarise(mode v1alpha1.Mode, cycles []observation, started time.Time) measurement {
	first, last := cycles[0], cycles[len(cycles)-1]
	m := measurement{
		Mode: string(mode), StartSeconds: first.arrived.Sub(started).Seconds(),
		RSSFirst: first.memory.rss, RSSLast: last.memory.rss, RSSAnonymous: last.memory.anonymous,
		Actions: map[string]int{}, Forecasts: map[string]int{},
	}
	var names []string
	durations := map[string][]float64{} // of all cycles, in order
	add := func(name string, seconds float64) {
		if durations[name] == nil {
			names = append(names, name)
		}
		durations[name] = append(durations[name], seconds)
	}
	var before time.Duration
	for _, c := range cycles {
		// The kernel accounts in batches: its peak may be a little under what it
		// itself has said was resident.
		m.RSSPeak = max(m.RSSPeak, c.memory.rss, c.memory.peak)
		whole := c.report()
		for _, s := range c.Steps {
			add(s.Step, s.Duration.Seconds())
			whole += s.Duration
		}
		add("report", c.report().Seconds())
		add("whole", whole.Seconds())
		add("cpu", (c.cpu - before).Seconds())
		before = c.cpu
		m.RecordBytes += c.bytes / len(cycles)
		if c.Error != "" {
			m.Held++
		}
		for _, o := range c.Outcomes {
			switch {
			case o.Error != "":
				m.Failed++
			case o.Skipped == "":
				m.Actions[o.Kind]++
			}
		}
	}
	for _, name := range names {
		d := durations[name]
		after := slices.Sorted(slices.Values(d[1:]))
		m.Steps = append(m.Steps, step{name, d[0], rank(after, 0.5), rank(after, 0.95), after[len(after)-1]})
	}
	for _, w := range last.Workloads {
		if w.DemandStale {
			m.Stale++
		}
	}
	for _, p := range last.Plan.Workloads {
		if p.Held {
			m.HeldWorkloads++
		}
	}
	model := map[api.Key]string{}
	for _, c := range cycles {
		for _, p := range c.Plan.Workloads {
			if p.Forecast != nil {
				model[p.Key] = p.Forecast.Model
			}
		}
	}
	for _, name := range model {
		m.Forecasts[name]++
	}
	return m
}

// rank is the smallest of the sorted values that at least the share q of them
// doesn't exceed.
func rank(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func (r result) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%d ManagedWorkloads, %d nodes, %d pods and %d of DaemonSets; %d cycles after the first; speed %g; a past of %v, a sample each %v\n",
		r.Workloads, r.Nodes, r.Pods, 5*r.Nodes, r.Cycles, r.Speed, time.Duration(r.HistorySeconds*float64(time.Second)), time.Duration(r.StepSeconds*float64(time.Second)))
	for _, m := range r.Runs {
		fmt.Fprintf(t, "\n%s\n", m.Mode)
		fmt.Fprintln(t, "step\tfirst s\tp50 s\tp95 s\tmax s\t")
		for _, s := range m.Steps {
			fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t\n", s.Name, s.First, s.P50, s.P95, s.Max)
		}
		fmt.Fprintf(t, "first cycle done %.1f s after the start of the process; %.0f KiB a record\n", m.StartSeconds, float64(m.RecordBytes)/1024)
		fmt.Fprintf(t, "RSS %.0f MiB after the first cycle, %.0f MiB after the last (%.0f MiB without files), at most %.0f MiB\n",
			m.RSSFirst, m.RSSLast, m.RSSAnonymous, m.RSSPeak)
		fmt.Fprintf(t, "actions: %s, %d failed; cycles held: %d; at the end %d workloads stale, %d held; forecasts: %s\n",
			counts(m.Actions), m.Failed, m.Held, m.Stale, m.HeldWorkloads, counts(m.Forecasts))
	}
	if f := r.Failover; f != nil {
		fmt.Fprintf(t, "\nafter the leader was killed: every workload planned in %.1f s, forecasts as before (%d) in %.1f s, the whole history in %.1f s\n",
			f.FirstCycle, f.Forecasts, f.Forecast, f.Backfilled)
		fmt.Fprintf(t, "by then %d queries, evaluated in %.1f s; %.1f s of CPU for Prometheus, scrapes included\n", f.Queries, f.QuerySeconds, f.PrometheusCPU)
		fmt.Fprintf(t, "by then %.1f s of CPU, at most %.0f MiB resident; %d cycles held, %d workloads held\n", f.CPU, f.RSSPeak, f.Held, f.Workloads)
	}
	return t.Flush()
}

func counts(m map[string]int) string {
	out := ""
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if out != "" {
			out += ", "
		}
		out += fmt.Sprintf("%d %s", m[k], k)
	}
	if out == "" {
		return "none"
	}
	return out
}
