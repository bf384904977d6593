package planning

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

const (
	// burnLimit is the burn rate from which an objective burns: at 14.4 a month's budget
	// is gone in two days. It is that of a page in The Site Reliability Workbook, ch. 5.
	burnLimit = 14.4
	// sure is how many standard deviations a verdict is apart from chance: one side of the
	// interval errs once in 740 times.
	sure = 3
	// stillBurns is by how much bad events must have grown since the first reading that
	// burnt: of a blip that is over they don't.
	stillBurns = 1.1
	// provingCover is the least share of the time to be proven that readings cover.
	provingCover = 0.6
)

// SLOMemory is what is remembered of one objective of a workload.
type SLOMemory struct {
	Name string `json:"name"`
	// Counts of windows that don't overlap, oldest first.
	Counts []SLOCount `json:"counts,omitempty"`
	// Burning is the time of the first of the newest readings that all burn, and First
	// how many bad events that had; zero while the newest doesn't.
	Burning time.Time `json:"burning,omitzero"`
	First   float64   `json:"first,omitempty"`
	// Proven is a time whose plan kept the objective; zero if none is known.
	Proven time.Time `json:"proven,omitzero"`
}

// SLOCount are the events of a window that ended at a time.
type SLOCount struct {
	At     time.Time     `json:"at"`
	Window time.Duration `json:"window"`
	Total  float64       `json:"total"`
	Bad    float64       `json:"bad"`
}

// wilson returns the score interval of a proportion (Wilson 1927, "Probable inference,
// the law of succession, and statistical inference"), sure standard deviations wide.
// Nothing is known of no events.
func wilson(bad, total float64) (low, high float64) {
	if !(total > 0) {
		return 0, 1
	}
	p := min(max(bad/total, 0), 1)
	const zz = sure * sure
	center := p + zz/(2*total)
	half := sure * math.Sqrt(p*(1-p)/total+zz/(4*total*total))
	return max(0, (center-half)/(1+zz/total)), min(1, (center+half)/(1+zz/total))
}

// limitOf is the share of bad events from which an objective burns.
func limitOf(objective float64) float64 {
	budget := 1 - objective
	return min(burnLimit*budget, (1+budget)/2)
}

// judged is what is proven of an objective.
type judged struct {
	api.SLOPlan
	// why says the same as Reason without figures that change with every reading: of
	// those each would be an Event.
	why string
}

func (j *judged) says(why, reason string) { j.why, j.Reason = why, reason }

// judge returns what is remembered of an objective with its newest reading, and what is
// proven now.
func (c Config) judge(m SLOMemory, s api.SLO, now time.Time) (SLOMemory, judged) {
	m.Name = s.Name
	var out judged
	out.SLOPlan = api.SLOPlan{Name: s.Name, Objective: s.Objective, Verdict: api.SLOInconclusive, BurnRate: -1, Proven: m.Proven}
	drop := 0
	for drop < len(m.Counts) && now.Sub(m.Counts[drop].At) > c.SLOPast {
		drop++
	}
	m.Counts = m.Counts[drop:len(m.Counts):len(m.Counts)] // what is appended is copied
	switch age := now.Sub(s.At); {
	case s.Missing != "":
		out.says(s.Missing, s.Missing)
	case !(s.Objective > 0 && s.Objective < 1):
		out.says("its objective says nothing", fmt.Sprintf("an objective of %g says nothing", s.Objective))
	case math.IsNaN(s.Total) || math.IsNaN(s.Bad) || math.IsInf(s.Total, 0) || math.IsInf(s.Bad, 0) || s.Total < 0:
		out.says("the readings can't be", fmt.Sprintf("%g bad ones of %g events can't be", s.Bad, s.Total))
	case age > 2*s.Window || s.Window <= 0:
		out.says("the newest reading is old", fmt.Sprintf("the newest reading is %v old", age.Round(time.Second)))
	}
	if out.Reason != "" {
		m.Burning, m.First = time.Time{}, 0
		return m, out
	}
	limit := limitOf(s.Objective)
	out.Events = s.Total
	if s.Total > 0 {
		out.BurnRate = s.Bad / s.Total / (1 - s.Objective)
	}
	if n := len(m.Counts); n == 0 || !s.At.Add(-s.Window).Before(m.Counts[n-1].At) {
		m.Counts = append(m.Counts, SLOCount{s.At, s.Window, s.Total, s.Bad})
	}
	low, _ := wilson(s.Bad, s.Total)
	switch {
	case low <= limit:
		m.Burning, m.First = time.Time{}, 0
	case m.Burning.IsZero():
		m.Burning, m.First = s.At, s.Bad
		out.says("it burns; one more reading is awaited", burns(out.SLOPlan)+"; one more reading is awaited")
		return m, out
	case s.At.After(m.Burning) && (s.Bad > stillBurns*m.First || s.At.Sub(m.Burning) >= s.Window):
		out.Verdict = api.SLOBurning
		out.says("it burns", burns(out.SLOPlan))
		return m, out
	default:
		out.says("it burns; one more reading is awaited", burns(out.SLOPlan)+"; one more reading is awaited")
		return m, out
	}
	m.prove(&out, limit, now, c.SLOProving)
	return m, out
}

// burns says how an objective burns.
func burns(p api.SLOPlan) string {
	return fmt.Sprintf("%.2g %% of %.0f events are bad, %.3g times what the objective of %.5g %% allows",
		100*p.BurnRate*(1-p.Objective), p.Events, p.BurnRate, 100*p.Objective)
}

// prove finds how far back the newest readings show that the objective is kept: at least
// over the time that a plan must have run.
func (m *SLOMemory) prove(out *judged, limit float64, now time.Time, proving time.Duration) {
	begin := now.Add(-proving)
	var total, bad, lately float64
	var covered time.Duration
	from, enough := now, false
	for _, n := range slices.Backward(m.Counts) {
		start := n.At.Add(-n.Window)
		if enough && !start.After(begin) && n.At.Before(begin) {
			break
		}
		if n.At.After(begin) {
			covered, lately = covered+n.Window, lately+n.Total
			if low, _ := wilson(n.Bad, n.Total); low > limit {
				out.says(fmt.Sprintf("it burnt in the last %v", proving), fmt.Sprintf("it burnt at %s, less than %v ago", n.At.UTC().Format(time.RFC3339), proving))
				return
			}
		}
		total, bad, from = total+n.Total, bad+n.Bad, start
		_, high := wilson(bad, total)
		if enough = high < limit; enough && !from.After(begin) {
			break
		}
	}
	out.Events = total
	switch {
	case !(lately > 0): // where requests get lost before they are counted, too
		why := fmt.Sprintf("no events in the last %v", proving)
		out.says(why, why)
	case !enough:
		out.says(fmt.Sprintf("there are too few events to tell whether %.5g %% are good", 100*out.Objective),
			fmt.Sprintf("%.0f events, of which %.0f bad, are too few to tell whether %.5g %% are good", total, bad, 100*out.Objective))
	case from.After(begin.Add(proving / 10)), float64(covered) < provingCover*float64(proving):
		out.says(fmt.Sprintf("it is not known for the last %v", proving), fmt.Sprintf("known for %v of the last %v", covered.Round(time.Second), proving))
	default:
		if from.After(begin) {
			from = begin
		}
		if from.After(m.Proven) {
			m.Proven = from
		}
		out.Verdict, out.Proven = api.SLOGood, m.Proven
		out.Reason = fmt.Sprintf("%.0f of %.0f events were bad since %s", bad, total, from.UTC().Format(time.RFC3339))
	}
}
