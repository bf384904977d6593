package demand

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Reasons of findings.
const (
	ReasonStale       = "DemandStale"
	ReasonPartial     = "DemandPartial"
	ReasonImplausible = "Implausible"
)

// Rules by which demand is judged.
type Rules struct {
	// Step between samples, each a rate over RateWindow, first asked for
	// EvaluationDelay after its time.
	Step, RateWindow, EvaluationDelay time.Duration
	// StaleAfter is the age of the newest sample from which demand is stale.
	StaleAfter time.Duration
	// MinCoverage is the least share of the Ready pods that must have a sample, 0–1.
	MinCoverage float64
	// ImplausibleRatio: where one source reads less than this share of what the other
	// reads, they disagree, 0–1. One workload's disagreement that lasts for
	// ImplausibleFor is reported, many at once immediately.
	ImplausibleRatio float64
	ImplausibleFor   time.Duration
}

// Input is what the verdict on a workload's demand depends on.
type Input struct {
	Now      time.Time
	Demand   api.Series // reference millicores
	Coverage Coverage   // by the newest sample
	// Usage from metrics.k8s.io, the second source; nil without.
	Usage *api.Usage
	// Ignored: nothing is planned by this demand.
	Ignored bool
}

// Doubt is why demand must not be acted on.
type Doubt string

// The doubts, in the order in which they are looked for; Fresh is none.
const (
	Fresh Doubt = ""
	// Partial: too few of the Ready pods have a sample.
	Partial  Doubt = "Partial"
	NoSample Doubt = "NoSample"
	Old      Doubt = "Old"
	// Gaps: more than half of the newest samples are missing.
	Gaps Doubt = "Gaps"
	// Decline: the second source reads much more.
	Decline Doubt = "Decline"
	// Ramp: the second source does not bear out a ramp.
	Ramp Doubt = "Ramp"
)

// Verdict on a workload's demand.
type Verdict struct {
	Doubt Doubt
	// Disagreement of the two sources, acted on or not; nil if they agree.
	Disagreement *Disagreement
}

// Stale reports whether the demand must not be acted on.
func (v Verdict) Stale() bool { return v.Doubt != Fresh }

// Fresh is the verdict as far as the first source alone tells: [Judge.Verdict] is the
// whole of it.
func (r Rules) Fresh(in Input) Verdict {
	if in.Ignored {
		return Verdict{}
	}
	_, at, ok := in.Demand.Last()
	switch {
	case in.Coverage.Low(r.MinCoverage):
		return Verdict{Doubt: Partial}
	case !ok:
		return Verdict{Doubt: NoSample}
	case in.Now.Sub(at) > r.StaleAfter:
		return Verdict{Doubt: Old}
	case r.gaps(in) > 0.5:
		return Verdict{Doubt: Gaps}
	}
	return Verdict{}
}

// gaps is the share of steps without a sample, 0–1, within twice StaleAfter before the
// newest step, counted from the first sample on.
func (r Rules) gaps(in Input) float64 {
	g := Grid{r.Step}
	first, newest := g.At(in.Demand.Start), g.At(in.Now.Add(-r.EvaluationDelay))
	var gaps, steps float64
	for step := max(first, newest-2*int64(r.StaleAfter/r.Step)); step < newest; step++ {
		i := step - first
		if i >= int64(len(in.Demand.Values)) || math.IsNaN(in.Demand.Values[i]) {
			gaps++
		}
		steps++
	}
	return gaps / max(steps, 1)
}

// Finding says why a workload's demand is stale by the first source; false if it isn't.
// The metric is named where it has a name.
func (v Verdict) Finding(key api.Key, in Input, metric string) (api.Finding, bool) {
	f := api.Finding{Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Object: api.WorkloadRef(key), Reason: ReasonStale}
	of := ""
	if metric != "" {
		of = " of " + metric
	}
	switch v.Doubt {
	case NoSample:
		f.Message = "there is no sample" + of
	case Old, Gaps:
		_, at, _ := in.Demand.Last()
		f.Message = fmt.Sprintf("the newest sample%s is of %s", of, at.Format(time.RFC3339))
	case Partial:
		f.Reason = ReasonPartial
		f.Message = fmt.Sprintf("only %d of %d Ready pods have a sample%s", in.Coverage.Seen, in.Coverage.Expected, of)
	default:
		return api.Finding{}, false
	}
	return f, true
}
