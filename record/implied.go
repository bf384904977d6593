package record

import (
	"math"

	"github.com/mash2-io/mash2/api"
)

// implied is written for a figure of a brief plan that the rest of its record implies:
// a NaN that no computation comes to.
var implied = math.Float64frombits(0x7ff8_6d61_7368_3200)

// isImplied reports whether a figure was left out.
func isImplied(v float64) bool { return math.Float64bits(v) == math.Float64bits(implied) }

// imply leaves out of a brief plan, which is the caller's own, what imply's counterpart,
// restored, finds again: demand, which is the newest sample, and the skill of a forecast,
// which is that of its workload.
func imply(r *api.Record) {
	seen := newestSamples(r.Snapshot)
	leave := func(v *float64, same float64) {
		if math.Float64bits(*v) == math.Float64bits(same) {
			*v = implied
		}
	}
	for i := range r.Cycle.Plan.Workloads {
		w := &r.Cycle.Plan.Workloads[i]
		if f := w.Forecast; f != nil && w.Skill != nil {
			last, seasonal := skills(*w.Skill)
			leave(&f.Skill, last)
			leave(&f.SeasonalSkill, seasonal)
		}
		leave(&w.Demand, seen(i, w.Key))
	}
}

// restored is a record with what was left out of it. It shares with r what it doesn't
// change.
func restored(r api.Record) api.Record {
	if !r.Brief {
		return r
	}
	seen := newestSamples(r.Snapshot)
	was := r.Cycle.Plan.Workloads
	r.Cycle.Plan.Workloads = append(was[:0:0], was...)
	for i := range r.Cycle.Plan.Workloads {
		w := &r.Cycle.Plan.Workloads[i]
		if isImplied(w.Demand) {
			w.Demand = seen(i, w.Key)
		}
		if w.Forecast == nil || w.Skill == nil {
			continue
		}
		f := *w.Forecast
		last, seasonal := skills(*w.Skill)
		if isImplied(f.Skill) {
			f.Skill = last
		}
		if isImplied(f.SeasonalSkill) {
			f.SeasonalSkill = seasonal
		}
		w.Forecast = &f
	}
	return r
}

// skills are those of a workload as a forecast has them.
func skills(s api.ForecastSkill) (last, seasonal float64) {
	last, seasonal = math.NaN(), math.NaN()
	if s.LastValue != nil {
		last = *s.LastValue
	}
	if s.Seasonal != nil {
		seasonal = *s.Seasonal
	}
	return last, seasonal
}

// newestSamples is a function that returns the newest sample of a workload's demand,
// rounded as in a brief plan; implied where there is none. The workload is probably the
// i-th.
func newestSamples(s api.Snapshot) func(i int, key api.Key) float64 {
	var places map[api.Key]int
	return func(i int, key api.Key) float64 {
		if i >= len(s.Workloads) || s.Workloads[i].Key != key {
			if places == nil {
				places = make(map[api.Key]int, len(s.Workloads))
				for k, w := range s.Workloads {
					places[w.Key] = k
				}
			}
			at, ok := places[key]
			if !ok {
				return implied
			}
			i = at
		}
		if v, _, ok := s.Workloads[i].Demand.Last(); ok {
			return round(v, digits)
		}
		return implied
	}
}
