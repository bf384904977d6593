package record

import (
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// Brief is a plan as a record keeps it: without the curves of forecasts (their quantiles
// of the peak stay), of the path only where it begins, where it is first at its largest
// and where at its smallest; demand to four digits, skills, needs and quantiles to two.
func Brief(p api.Plan) api.Plan {
	p.Workloads = slices.Clone(p.Workloads)
	for i := range p.Workloads {
		w := &p.Workloads[i]
		w.Demand, w.PeakDemand, w.Need = round(w.Demand, digits), round(w.PeakDemand, digits), round(w.Need, coarse)
		w.Path = turns(w.Path)
		w.Forecast = briefForecast(w.Forecast)
		w.Triggers = slices.Clone(w.Triggers)
		for k := range w.Triggers {
			s := &w.Triggers[k]
			s.Value, s.Load, s.PeakLoad = round(s.Value, digits), round(s.Load, digits), round(s.PeakLoad, digits)
			s.Forecast = briefForecast(s.Forecast)
		}
		if w.Skill != nil {
			skill := *w.Skill
			skill.LastValue, skill.Seasonal = gradeAt(skill.LastValue), gradeAt(skill.Seasonal)
			skill.Coverage = gradeAt(skill.Coverage)
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
	return api.Utility{
		Performance: round(u.Performance, digits), Cost: round(u.Cost, digits), Resilience: round(u.Resilience, digits), Total: round(u.Total, digits),
	}
}

func briefForecast(f *api.Forecast) *api.Forecast {
	if f == nil {
		return nil
	}
	out := *f
	out.Mean, out.Quantiles = nil, nil
	out.PeakQuantiles = slices.Clone(out.PeakQuantiles)
	for i, v := range out.PeakQuantiles {
		out.PeakQuantiles[i] = round(v, coarse)
	}
	out.Skill, out.SeasonalSkill = grade(out.Skill), grade(out.SeasonalSkill)
	out.Coverage = nil // its workload's skill has it
	return &out
}

// turns are the first step of a path, the first of those with the most replicas and the
// first of those with the fewest.
func turns(path []api.PathStep) []api.PathStep {
	if len(path) == 0 {
		return nil
	}
	most, fewest := 0, 0
	for i, s := range path {
		if s.Replicas > path[most].Replicas {
			most = i
		}
		if s.Replicas < path[fewest].Replicas {
			fewest = i
		}
	}
	out := []api.PathStep{path[0]}
	for _, i := range []int{min(most, fewest), max(most, fewest)} {
		if i > 0 {
			out = append(out, path[i])
		}
	}
	for i := range out {
		out[i].Need = 0
	}
	return out
}

// grade is a skill to the second digit after the point: skills are at most 1.
func grade(v float64) float64 {
	const steps = 1 << 8
	if math.IsNaN(v) || math.Abs(v) > math.MaxInt32 {
		return round(v, digits)
	}
	return math.Round(v*steps) / steps
}

func gradeAt(v *float64) *float64 {
	if v == nil {
		return nil
	}
	g := grade(*v)
	return &g
}

// Bits of a float's fraction that a brief plan keeps.
const (
	digits = 12 // one part in 8,192
	coarse = 8  // one part in 512
)

// round keeps the first bits of a number. What is left is short to write.
func round(v float64, kept int) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	cut := 52 - kept
	return math.Float64frombits((math.Float64bits(v) + 1<<(cut-1)) &^ (1<<cut - 1))
}
