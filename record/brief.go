package record

import (
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// Brief is a plan as a record that is no keyframe keeps it: without the curves of
// forecasts (their quantiles of the peak stay), of the path only the steps at which
// replicas change, and figures to four digits.
func Brief(p api.Plan) api.Plan {
	p.Workloads = slices.Clone(p.Workloads)
	for i := range p.Workloads {
		w := &p.Workloads[i]
		w.Demand, w.PeakDemand, w.Need = round(w.Demand), round(w.PeakDemand), round(w.Need)
		w.Path = turns(w.Path)
		w.Forecast = briefForecast(w.Forecast)
		w.Signals = slices.Clone(w.Signals)
		for k := range w.Signals {
			s := &w.Signals[k]
			s.Value, s.Load, s.PeakLoad = round(s.Value), round(s.Load), round(s.PeakLoad)
			s.Forecast = briefForecast(s.Forecast)
		}
		if w.Skill != nil {
			skill := *w.Skill
			skill.LastValue, skill.Seasonal = roundAt(skill.LastValue), roundAt(skill.Seasonal)
			w.Skill = &skill
		}
	}
	p.Utility = briefUtility(p.Utility)
	p.Candidates = slices.Clone(p.Candidates)
	for i := range p.Candidates {
		p.Candidates[i].Utility = briefUtility(p.Candidates[i].Utility)
	}
	return p
}

func briefUtility(u api.Utility) api.Utility {
	return api.Utility{Performance: round(u.Performance), Cost: round(u.Cost), Resilience: round(u.Resilience), Total: round(u.Total)}
}

func briefForecast(f *api.Forecast) *api.Forecast {
	if f == nil {
		return nil
	}
	out := *f
	out.Mean, out.Quantiles = nil, nil
	out.PeakQuantiles = slices.Clone(out.PeakQuantiles)
	for i, v := range out.PeakQuantiles {
		out.PeakQuantiles[i] = round(v)
	}
	out.Skill, out.SeasonalSkill = round(out.Skill), round(out.SeasonalSkill)
	return &out
}

// turns are the steps of a path at which replicas change.
func turns(path []api.PathStep) []api.PathStep {
	var out []api.PathStep
	for i, s := range path {
		if i == 0 || s.Replicas != path[i-1].Replicas {
			s.Need = 0
			out = append(out, s)
		}
	}
	return out
}

func roundAt(v *float64) *float64 {
	if v == nil {
		return nil
	}
	r := round(*v)
	return &r
}

// kept are the bits of a float's fraction that a brief plan keeps: one part in
// 16,384.
const kept = 13

// round keeps the first bits of a number. What is left is short to write.
func round(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	const cut = 52 - kept
	return math.Float64frombits((math.Float64bits(v) + 1<<(cut-1)) &^ (1<<cut - 1))
}
