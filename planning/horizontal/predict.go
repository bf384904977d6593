package horizontal

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/choice"
)

// predict raises what an input asks for to its forecast's path. Tell says in a
// sentence why the forecast asks for so many replicas now.
func (p Planner) predict(o *part, in planning.Input, c supply, f *api.Forecast, tell func(replicas int32, mean, high float64, at string, speed float64) string) {
	quantile := f.Quantile(in.Policy.Quantile)
	if len(quantile) == 0 || f.Step <= 0 || len(f.Mean) != len(quantile) || !usable(quantile) || !usable(f.Mean) {
		o.reason += "; the forecast has no usable quantiles"
		return
	}
	n := needs{supply: c, told: 1, tolerance: p.tolerance(in.Workload)}
	if in.Trusted { // it decides alone what nodes there are
		n.told = math.Max(c.margins.Told, 1)
	}
	w := n.along(f, quantile, in)
	w.nodes = max(w.nodes, o.floor.replicas)
	// The quantile of the whole horizon's maximum is above the maximum of the
	// steps' quantiles; nodes that must last the whole horizon are sized by it.
	o.peak = math.Max(o.peak, w.peak)
	if peak := f.Peak(in.Policy.Quantile); !math.IsNaN(peak) && peak > o.peak {
		o.peak = peak
		if end := f.Start.Add(time.Duration(len(quantile)) * f.Step); !in.Time.Add(in.Windows.Node).Before(end) {
			_, most := n.of(0, peak, in.Speed, false, false)
			w.nodes = max(w.nodes, most)
		}
	}

	if c.margins.Known() {
		w.replicas = p.near(w.need, in.Workload, false)
	}
	o.forecast = f
	o.path = w.path
	if w.replicas >= o.floor.replicas {
		o.replicas, o.binding = w.replicas, api.BindingForecast
		o.reason = tell(w.replicas, w.mean, w.high, w.at.UTC().Format(time.TimeOnly), slowest(in))
	} else {
		o.reason += fmt.Sprintf("; forecast (q=%.2f) needs %d", in.Policy.Quantile, w.replicas)
	}
	o.need = math.Max(o.need, w.need)
	o.nodes = max(w.nodes, o.replicas)
}

// slowest is the speed that replicas needed now run at: where the pods are now, until they
// have moved to a faster pool.
func slowest(in planning.Input) float64 { return math.Min(in.Speed, speedNow(in)) }

// needs tells what steps of a forecast need.
type needs struct {
	supply
	// told is the factor of a trusted forecast's quantile, 1 of others.
	told      float64
	tolerance float64
}

// of is what a step needs, at the target and in whole replicas. While demand is passing
// that is what the floor won't ask more than.
func (n needs) of(mean, quantile, speed float64, near, passing bool) (need float64, replicas int32) {
	fleet := n.later
	if near {
		fleet = n.near
	}
	if n.margins.Known() {
		need := n.covering(fleet, math.Max(n.margins.Foreseen(mean, math.Min(quantile*n.told, n.margins.Most), !near), mean), speed)
		return need, choice.Ceil(need)
	}
	need, high := n.atTarget(fleet, mean, speed), n.full(fleet, quantile, speed)
	if passing {
		need = math.Max(need, math.Min(need*(1+n.tolerance), n.atTarget(fleet, quantile, speed)))
	}
	return math.Max(need, high), max(choice.Ceil(need/(1+n.tolerance)), choice.Ceil(high))
}

// walk is what the steps of a forecast need.
type walk struct {
	path []api.PathStep
	// replicas are the most that a step needs which is too near for others to start in
	// time, at is the first such step, and mean and high are its forecast; need is the
	// largest of their needs.
	replicas   int32
	at         time.Time
	mean, high float64
	need       float64
	nodes      int32   // the most that a step needs which is too near for nodes to start
	peak       float64 // the largest quantile
}

// along walks a forecast's steps, of the same quantile, from now to the horizon.
func (n needs) along(f *api.Forecast, quantile []float64, in planning.Input) walk {
	soon, boot := in.Windows.Pod, in.Windows.Node
	if n.margins.Known() {
		soon, boot = soon+in.Windows.Late, boot+in.Windows.Late
	}
	var w walk
	for i, d := range quantile {
		at := f.Start.Add(time.Duration(i) * f.Step)
		if i+1 < len(quantile) && !at.Add(f.Step).After(in.Time) {
			continue // wholly in the past
		}
		if at.Before(in.Time) {
			at = in.Time
		}
		ahead := at.Sub(in.Time)
		if ahead > in.Windows.Horizon && len(w.path) > 0 {
			break
		}
		d, mean := math.Max(d, 0), math.Max(f.Mean[i], 0)
		passing := passes(f, i, in.Windows.Node, n.tolerance)
		step := api.PathStep{At: at}
		step.Need, step.Replicas = n.of(mean, d, in.Speed, false, passing)
		if ahead <= soon || len(w.path) == 0 {
			step.Need, step.Replicas = n.of(mean, d, slowest(in), true, passing)
			if step.Replicas > w.replicas || w.at.IsZero() {
				w.replicas, w.at, w.mean, w.high = step.Replicas, at, mean, d
			}
			w.need = math.Max(w.need, step.Need)
		}
		if ahead <= boot {
			w.nodes = max(w.nodes, step.Replicas)
		}
		w.peak = math.Max(w.peak, d)
		if last := len(w.path) - 1; last >= 0 && w.path[last].Replicas == step.Replicas {
			w.path[last].Need = math.Max(w.path[last].Need, step.Need)
		} else {
			w.path = append(w.path, step)
		}
	}
	if w.path[0].At.After(in.Time) {
		w.path[0].At = in.Time
	}
	return w
}

// passes tells whether the demand of a step is expected to be down, by more than the
// tolerance, when nodes would be there that are asked for no sooner than it is.
func passes(f *api.Forecast, i int, lead time.Duration, tolerance float64) bool {
	then := i + int((lead+f.Step-1)/f.Step)
	return then < len(f.Mean) && f.Mean[then]*(1+tolerance) < f.Mean[i]
}

// merge makes the plan of what the inputs ask for: at every time the most of
// them. One that isn't known keeps the replicas that there are.
func (p Planner) merge(plan *planning.Proposal, in planning.Input, parts []part) {
	w := in.Workload
	best, nodes, steady := -1, int32(0), int32(0)
	var kept []string
	for i, part := range parts {
		if part.doubt != "" {
			kept = append(kept, part.doubt)
		}
		if part.floor.source == "none" {
			continue
		}
		if best < 0 || part.replicas > parts[best].replicas {
			best = i
		}
		if !part.ramp {
			steady = max(steady, part.replicas)
		}
		plan.Need = math.Max(plan.Need, part.need)
		nodes = max(nodes, part.nodes)
	}
	plan.Ramp = parts[best].replicas - steady
	plan.Replicas, plan.NodeReplicas = parts[best].replicas, nodes
	plan.Binding, plan.Reason = parts[best].binding, parts[best].reason
	plan.Path = merged(parts)
	if w.MinReplicas == 0 && plan.Activity != "" {
		quiet(plan, in, parts)
	}
	if len(kept) > 0 && w.Replicas > plan.Replicas {
		plan.Replicas, plan.Binding, plan.Ramp = w.Replicas, api.BindingStale, 0
		plan.Reason = fmt.Sprintf("kept at %d: %s; %s", w.Replicas, strings.Join(kept, "; "), plan.Reason)
		plan.Path[0].Replicas = plan.Replicas
	}
	plan.NodeReplicas = max(plan.NodeReplicas, plan.Replicas)
}

// merged is the most of all paths at every time that one of them changes.
func merged(parts []part) []api.PathStep {
	var paths [][]api.PathStep
	var times []time.Time
	for _, part := range parts {
		if part.floor.source == "none" {
			continue
		}
		paths = append(paths, part.path)
		for _, step := range part.path {
			times = append(times, step.At)
		}
	}
	if len(paths) == 1 {
		return paths[0]
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	at := make([]int, len(paths))
	var out []api.PathStep
	for _, t := range times {
		most := api.PathStep{At: t}
		for i, path := range paths {
			for at[i]+1 < len(path) && !path[at[i]+1].At.After(t) {
				at[i]++
			}
			most.Replicas = max(most.Replicas, path[at[i]].Replicas)
			most.Need = math.Max(most.Need, path[at[i]].Need)
		}
		if n := len(out); n > 0 && out[n-1].Replicas == most.Replicas {
			out[n-1].Need = math.Max(out[n-1].Need, most.Need)
			continue
		}
		out = append(out, most)
	}
	return out
}
