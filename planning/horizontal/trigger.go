package horizontal

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// trigger is what one of the workload's triggers asks for; false when it says
// nothing without pods and there are none.
func (p Planner) trigger(plan *planning.Proposal, in planning.Input, i int) (part, bool) {
	w, s := in.Workload, in.Workload.Triggers[i]
	out := part{floor: floor{source: "none"}, peak: -1}
	told := api.TriggerPlan{Name: s.Name, Value: -1, Target: s.Target, Missing: s.Missing}
	defer func() { plan.Triggers = append(plan.Triggers, told) }()
	if w.Replicas == 0 && !s.Activates {
		told.Value, told.Missing = 0, "" // of no pods
		return part{}, false
	}
	c := supply{utilization: utilization(in), target: s.Target}
	switch {
	case s.Missing != "":
	case !(s.Target > 0) || math.IsInf(s.Target, 0):
		told.Missing = fmt.Sprintf("its target must be positive, is %v", s.Target)
	case !finite(s.Value) || s.Value < 0:
		told.Missing = fmt.Sprintf("its value must not be negative, is %v", s.Value)
	}
	if told.Missing != "" {
		out.doubt = s.Name + ": " + told.Missing
		return out, true
	}
	out.floor = p.triggerFloor(w, s, silent(in))
	if trustedOf(in, i) {
		out.floor = p.passing(out.floor, in, c, forecastOf(in, i))
	}
	out.peak = s.Total(w.ReadyReplicas)
	out.react(in)
	if f := forecastOf(in, i); f != nil {
		p.predict(&out, in, c, f, func(replicas int32, mean, high float64, at string, _ float64) string {
			return fmt.Sprintf("%s: forecast %.4g at %s, %.4g at q=%.2f, needs %d: what is expected at %.4g per replica, the quantile at %.4g",
				s.Name, mean, at, high, in.Policy.Quantile, replicas, s.Target, s.Target/c.utilization)
		})
		out.active = activeSteps(in, s, f)
	}
	told.Value, told.Replicas, told.Active = s.Value, out.floor.replicas, s.Active(s.Value)
	told.Forecast = out.forecast
	expected, peak := s.Total(w.ReadyReplicas), s.Total(w.ReadyReplicas)
	if out.forecast != nil {
		expected, peak = planning.Expected(*out.forecast, in.Time.Add(in.Windows.Pod), expected)
	}
	told.Load, told.PeakLoad = c.full(fleet{}, expected, 1), c.full(fleet{}, peak, 1)
	return out, true
}

// triggerFloor is the HPA's recommendation: for an average value, ⌈total/target⌉;
// for a ratio, ⌈ready·value/target⌉; of pods, that of the mean over the pods that
// were read, those that were not at 0 where it asks for more and at the target
// where it asks for fewer. No change within the tolerance. Where the value is one of
// Ready pods, silent ones are at the target too before it asks for fewer.
func (p Planner) triggerFloor(w api.Workload, s api.Trigger, silent int32) floor {
	total, counted := s.Total(w.ReadyReplicas), w.Replicas
	if s.Ratio || s.Pods > 0 {
		counted = w.ReadyReplicas
	} else {
		silent = 0 // it is not the pods that tell the value
	}
	most := int32(math.MaxInt32)
	if missing := w.ReadyReplicas - s.Pods; s.Pods > 0 && missing > 0 {
		if mean := total / float64(s.Pods); mean < s.Target {
			total += float64(missing) * s.Target
			most = w.Replicas
		} else if total < s.Target*float64(w.ReadyReplicas) {
			// The others would turn more into fewer: nobody knows.
			total = s.Target * float64(w.ReadyReplicas)
		}
	}
	need, tolerance := total/s.Target, p.tolerance(w)
	n := min(hpaReplicas(need, counted, w.Replicas, tolerance), most)
	if n >= w.Replicas {
		silent = 0
	}
	if silent > 0 {
		n = min(hpaReplicas(need+float64(silent), counted+silent, w.Replicas, tolerance), w.Replicas)
	}
	return floor{
		replicas: n, need: need, source: "trigger",
		reason: fmt.Sprintf("%s: %.4g now needs %d at %.4g per replica%s", s.Name, s.Value, n, s.Target, ofSilent(silent)),
	}
}

// forecastOf is what may be used of what is known or forecast of a trigger.
func forecastOf(in planning.Input, i int) *api.Forecast {
	if f := in.Workload.Triggers[i].Known; f != nil {
		return f
	}
	if i < len(in.Outlooks) {
		return in.Outlooks[i].Forecast
	}
	return nil
}

// trustedOf tells whether what is known or forecast of a trigger may lower replicas.
func trustedOf(in planning.Input, i int) bool {
	return in.Workload.Triggers[i].Known != nil || i < len(in.Outlooks) && in.Outlooks[i].Trusted
}

// activeStep tells from when on a trigger is forecast to be active, or not.
type activeStep struct {
	at     time.Time
	active bool
}

// activeSteps of a forecast at the policy's quantile: with q = 0.9 a replica
// waits for work that comes with a chance of one in ten.
func activeSteps(in planning.Input, s api.Trigger, f *api.Forecast) []activeStep {
	var out []activeStep
	for i, v := range f.Quantile(in.Policy.Quantile) {
		at := f.Start.Add(time.Duration(i) * f.Step)
		if at.Add(f.Step).After(in.Time) {
			out = append(out, activeStep{at, s.Active(v)})
		}
	}
	return out
}

// activity tells whether a workload that may have no replicas is asked for: now,
// or soon by what is known or forecast with trust. With replicas soon is
// what would be given up and wanted again.
func activity(in planning.Input) api.Activity {
	w := in.Workload
	if w.MinReplicas > 0 || !slices.ContainsFunc(w.Triggers, func(s api.Trigger) bool { return s.Activates }) {
		return ""
	}
	soon := in.Windows.Pod
	if w.Replicas > 0 {
		soon = max(soon, in.Windows.Trough)
	}
	known := true
	for i, s := range w.Triggers {
		if !s.Activates {
			continue
		}
		if s.Missing != "" || !finite(s.Value) || s.Value < 0 {
			known = false
			continue
		}
		if s.Active(s.Value) {
			return api.Active
		}
		if f := forecastOf(in, i); f != nil && trustedOf(in, i) {
			for _, step := range activeSteps(in, s, f) {
				if step.active && !step.at.After(in.Time.Add(soon)) {
					return api.Active
				}
			}
		}
	}
	if !known {
		return api.ActivityUnknown
	}
	return api.Inactive
}

// quiet takes out of the path what nobody asks for: replicas at times when no
// trigger is active. Those there now are the Guard's to give up.
func quiet(plan *planning.Proposal, in planning.Input, parts []part) {
	now := plan.Activity == api.Active
	var times []time.Time
	foreseen := false
	for _, part := range parts {
		for _, step := range part.active {
			times = append(times, step.at)
		}
		foreseen = foreseen || len(part.active) > 0
	}
	active := func(t time.Time) bool {
		if !foreseen {
			return now
		}
		for _, part := range parts {
			for i := len(part.active) - 1; i >= 0; i-- {
				if !part.active[i].at.After(t) || i == 0 {
					if part.active[i].active {
						return true
					}
					break
				}
			}
		}
		return false
	}
	for _, step := range plan.Path {
		times = append(times, step.At)
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	var path []api.PathStep
	at := 0
	for _, t := range times {
		if t.Before(in.Time) {
			continue
		}
		for at+1 < len(plan.Path) && !plan.Path[at+1].At.After(t) {
			at++
		}
		step := plan.Path[at]
		step.At = t
		first := len(path) == 0
		if keep := active(t) || first && (now || in.Workload.Replicas > 0); !keep {
			step.Replicas, step.Need = 0, 0
		}
		if n := len(path); n == 0 || path[n-1].Replicas != step.Replicas {
			path = append(path, step)
		}
	}
	plan.Path = path
	if !now && in.Workload.Replicas == 0 {
		plan.Replicas, plan.Floor, plan.Need = 0, 0, 0
		plan.Reason = "nothing asks for a replica: " + idle(in)
		plan.Binding = api.BindingInactive
	}
	plan.NodeReplicas = plan.Replicas
	for _, step := range plan.Path {
		if step.At.After(in.Time.Add(in.Windows.Node)) {
			break
		}
		plan.NodeReplicas = max(plan.NodeReplicas, step.Replicas)
	}
}

// idle names what triggers are at.
func idle(in planning.Input) string {
	var out []string
	for _, s := range in.Workload.Triggers {
		switch {
		case !s.Activates:
		case s.Missing != "":
			out = append(out, fmt.Sprintf("%s is not known: %s", s.Name, s.Missing))
		default:
			out = append(out, fmt.Sprintf("%s is %.4g, not above %.4g", s.Name, s.Value, s.Activation))
		}
	}
	return strings.Join(out, ", ")
}

// unknown says why no input is known.
func unknown(in planning.Input, parts []part) string {
	var out []string
	for _, part := range parts {
		if part.doubt != "" {
			out = append(out, part.doubt)
		}
	}
	if len(out) == 0 {
		if !in.UsesCPU() && in.Workload.Replicas == 0 {
			return "there are no pods, and no trigger that tells without"
		}
		return staleness(in)
	}
	return strings.Join(out, "; ")
}
