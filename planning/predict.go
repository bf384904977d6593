package planning

import (
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/parallel"
)

// After a start nothing is fitted, and until it is the reactive floor plans. So then a cycle
// fits more than FitWork: a coldShare-th of what is left, but no more than mostCold times
// FitWork, nor than so many whole ones of shorter histories, which take nearly as long. Five
// thousand workloads are fitted after eighteen cycles so, within five minutes.
const (
	coldShare = 3
	mostCold  = 8
)

// cold is the work that fitting everything would take that was never fitted.
func (c *cycle) cold() int {
	work := 0
	add := func(key api.Key, series api.Series, fresh bool) {
		if fresh && c.memory.forecasts[key].Fits == 0 {
			work += min(fitWhole, len(series.Values))
		}
	}
	for _, mw := range c.managed {
		w := mw.workload
		if usesCPU(w) {
			add(w.Key, w.Demand, !w.DemandStale && c.s.Metrics.Reachable)
		}
		for _, t := range w.Triggers {
			if t.Known == nil {
				add(ofTrigger(w.Key, t.Name), t.History, t.Missing == "")
			}
		}
	}
	return work
}

// ofTrigger is the key of a trigger's forecast: no workload has a name with a space.
func ofTrigger(of api.Key, trigger string) api.Key {
	return api.Key{Namespace: of.Namespace, Name: of.Name + " " + trigger}
}

// prediction is the forecast of one series: what is asked, and what came of it.
type prediction struct {
	key, workload api.Key // of its state, and of whom it is
	series        api.Series
	// state is the one before, later the one after; steps is how far to look ahead.
	state forecast.State
	steps int
	// unknown: no fresh history. update: it is this one's turn, if a refit is due.
	unknown, update bool
	forecast        api.Forecast
	err             error
	panicked        *panicked
	tell            func(Outlook)
}

// predict fills in the forecasts. Whose turn it is to be fitted is decided one after the
// other; then each is made by itself.
func (c *cycle) predict() {
	if c.Forecaster == nil {
		return
	}
	said := len(c.findings)
	states := make(map[api.Key]forecast.State, len(c.managed))
	c.fits = max(c.Config.FitWork, min(c.cold()/coldShare, mostCold*c.Config.FitWork))
	c.firsts = max(1, mostCold*c.Config.FitWork/fitWhole)
	all := make([]prediction, 0, len(c.managed))
	for i := range c.managed {
		// Begun elsewhere in each cycle, about where the budget of the last one
		// ended, so that everybody's turn comes before anybody's second one.
		turn := c.s.Time.UnixNano() / int64(c.Config.CyclePeriod) * int64(max(1, c.Config.FitWork/fitWhole))
		mw := &c.managed[(int64(i)+turn%int64(len(c.managed))+int64(len(c.managed)))%int64(len(c.managed))]
		w := mw.workload
		if usesCPU(w) {
			all = append(all, c.prediction(w.Key, w.Key, w.Demand, !w.DemandStale && c.s.Metrics.Reachable, func(o Outlook) {
				mw.forecast, mw.trusted, mw.note, mw.skill = o.Forecast, o.Trusted, o.Note, o.Skill
			}))
		} else if state, ok := c.memory.forecasts[w.Key]; ok {
			states[w.Key] = state
		}
		if len(w.Triggers) > 0 {
			mw.outlooks = make([]Outlook, len(w.Triggers))
		}
		for n, s := range w.Triggers {
			if s.Known != nil {
				mw.outlooks[n] = Outlook{Forecast: s.Known, Trusted: true}
				continue
			}
			all = append(all, c.prediction(ofTrigger(w.Key, s.Name), w.Key, s.History, s.Missing == "", func(o Outlook) {
				mw.outlooks[n] = o
				if mw.skill == nil { // of the first trigger where CPU is none
					mw.skill = o.Skill
				}
			}))
		}
	}
	parallel.Each(len(all), func(i int) {
		if p := &all[i]; !p.unknown {
			p.panicked = caught(func() { p.foresee(c.Forecaster, c.p.Quantile) })
		}
	})
	for i := range all {
		states[all[i].key] = all[i].state
		all[i].tell(c.outlook(all[i]))
	}
	c.memory.forecasts = states
	c.predicted = c.findings[said:]
}

// prediction is what is asked of one series, whose state is kept under a key. It takes its
// part of what may be fitted in this cycle.
func (c *cycle) prediction(key, workload api.Key, series api.Series, fresh bool, tell func(Outlook)) prediction {
	state, ok := c.memory.forecasts[key]
	if !ok {
		state = forecast.NewState(key.String())
	}
	state.Level = c.p.Quantile
	p := prediction{key: key, workload: workload, series: series, state: state, tell: tell}
	if p.unknown = !fresh || len(series.Values) == 0 || series.Step <= 0; p.unknown {
		return p
	}
	late := max(0, c.s.Time.Sub(series.End()))
	p.steps = int((c.Config.Horizon+late)/series.Step) + 1
	due := state.Due(series, p.steps)
	if p.update = !due || c.fits > 0 && (state.Fits > 0 || c.firsts > 0); p.update && due {
		c.fits -= min(fitWhole, len(series.Values)) + state.Folded(series)
		c.firsts -= boolToInt(state.Fits == 0)
	}
	return p
}

// foresee makes the forecast, and the state after it.
func (p *prediction) foresee(by forecast.Forecaster, quantile float64) {
	next := p.state
	if p.update {
		if next, p.err = by.Update(p.state, p.series, p.steps); p.err != nil {
			return
		}
	}
	p.state = next
	p.forecast, p.err = by.Forecast(next, p.series, p.steps, levels(quantile))
}

// outlook is what a forecast may be used for.
func (c *cycle) outlook(p prediction) Outlook {
	switch {
	case p.unknown:
		return Outlook{Note: "no fresh history"}
	case p.panicked != nil:
		return Outlook{Note: c.failed("the forecaster", p.workload, p.panicked)}
	case p.err == nil:
		return trust(p.forecast, c.Config)
	}
	c.find(api.Warning, api.WorkloadPlanningAgent, "ForecastFailed", api.WorkloadRef(p.workload), p.err.Error())
	return Outlook{Note: p.err.Error()}
}

// levels of the forecasts asked for: what people look at, and the policy's.
func levels(q float64) []float64 {
	out := []float64{0.1, 0.5, 0.9, 0.95}
	if q > 0 && q < 1 && !slices.Contains(out, q) {
		out = append(out, q)
	}
	slices.Sort(out)
	return out
}
