package learned

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/rl"
)

// MarginEnvironment is the world that models of margins come from.
const MarginEnvironment = "margins"

// MarginInputs is the length of what a model of margins sees.
const MarginInputs = 44

// What part of its margin a model may ask for, at least and at most. It learns from what more than
// all of it costs; no more than all is taken, see [planning.Yield].
const (
	MarginLeast = 0.25
	MarginMost  = 1.5
)

// minutesSeen is how much of the past a model of margins sees: a day, and what came then.
const minutesSeen = 24*60 + 1

// MarginPart is the part of the growth that margins have, that an output of a model from −1
// to 1 stands for, 1 for 0, and the derivative of its logarithm by the output.
func MarginPart(output float64) (part, slope float64) {
	output = math.Min(math.Max(output, -1), 1)
	slope = math.Log(MarginMost)
	if output < 0 {
		slope = -math.Log(MarginLeast)
	}
	return math.Exp(slope * output), slope
}

// checkMargins returns an error for a model that can't say what part of margins is needed.
func checkMargins(m rl.Model) error {
	a := m.Policy.Actions
	if n := m.Policy.Network.Architecture.Inputs; n != MarginInputs || len(a.Low) != 1 || a.Low[0] != -1 || a.High[0] != 1 {
		return fmt.Errorf("it sees %d numbers and has %d outputs: a model of margins sees %d, and has one from -1 to 1", n, a.Outputs(), MarginInputs)
	}
	return nil
}

// takeMargins plans with the part of the margins that a model says. Where it can't see, base
// is what is planned.
func (p Planner) takeMargins(in planning.Input, base planning.Proposal, m rl.Model) (planning.Proposal, error) {
	w := in.Workload
	past, ok := PastOf(w.Demand)
	missing := ""
	switch {
	case w.DemandStale || !in.Metrics.Reachable:
		missing = "its CPU usage is not known"
	case !in.UsesCPU():
		missing = "its CPU usage is no measure of its demand"
	case in.Policy.Objective == 0 || w.TargetUtilization > 0:
		missing = "there is no objective to keep"
	case !in.Margins.Known():
		missing = "its history is too short for margins"
	case !ok || len(past.Mean) == 0:
		missing = "its usage is known too rarely, a model sees it by the minute"
	}
	if missing != "" {
		base.Reason += "; planned without the model: " + missing
		return base, nil
	}
	actor := m.Policy.NewActor()
	output := float64(actor.Act(past.See(len(past.Mean)-1, factsOf(in), nil)).Continuous[0])
	if !actor.Known() {
		base.Reason += "; planned without the model: what it says is no number"
		return base, nil
	}
	asks, _ := MarginPart(output)
	part := in.Margins.Yield.Part(asks)
	in.Margins = in.Margins.Taking(part)
	out, err := p.Floor.PlanWorkload(in)
	out.Part = part
	out.Reason += fmt.Sprintf("; model %s takes %.2f times the margin", w.Model, part)
	if asks < 1 && part-asks >= 0.005 {
		out.Reason += fmt.Sprintf(", not %.2f: too little served lately", asks)
	}
	return out, err
}

// Past is a workload's demand by the minute, the newest last. Its minutes end with the
// newest sample, wherever in a minute that is.
type Past struct {
	// Mean of each minute. Minutes of which nothing is known have that of the one before.
	Mean []float64
	// Wobble is the deviation of the samples of each minute, relative to their mean.
	Wobble []float64
	// grew is the logarithm of the largest growth within growthSeen minutes after each.
	grew []float64
}

// growthSeen is for how many minutes ahead a model sees what demand grew by in the past:
// about what new nodes take.
const growthSeen = 4

// PastOf is a series by the minute, no more of it than a model sees. It returns false
// where its samples are further apart than that.
func PastOf(s api.Series) (Past, bool) {
	per := int(time.Minute / max(s.Step, 1))
	if s.Step <= 0 || per < 1 {
		return Past{}, false
	}
	values := s.Values
	if most := minutesSeen * per; len(values) > most {
		values = values[len(values)-most:]
	}
	return Minutes(values, per), true
}

// Minutes are a series by the minute, so many samples each, counted from the end, and all of it:
// for who looks at many of its minutes.
func Minutes(values []float64, per int) Past {
	n := len(values) / per
	p := Past{Mean: make([]float64, n), Wobble: make([]float64, n)}
	rest, before := values[len(values)-n*per:], 0.0
	for i := range n {
		var sum, squares, known float64
		for _, v := range rest[i*per:][:per] {
			if v >= 0 && !math.IsInf(v, 0) {
				sum, squares, known = sum+v, squares+v*v, known+1
			}
		}
		if known > 0 {
			before = sum / known
			if before > 0 {
				p.Wobble[i] = math.Sqrt(math.Max(squares/known-before*before, 0)) / before
			}
		}
		p.Mean[i] = before
	}
	p.grew = make([]float64, n)
	for i := range p.grew {
		for j := i + 1; j <= i+growthSeen && j < n; j++ {
			p.grew[i] = math.Max(p.grew[i], p.ratio(j, i))
		}
	}
	return p
}

// ratio is the logarithm of what a minute has of another, within ±3; minutes before the
// first count as the first. A thousandth of a core is nothing.
func (p Past) ratio(i, j int) float64 {
	const least = 1 // millicore
	i, j = max(i, 0), max(j, 0)
	return math.Min(math.Max(math.Log((p.Mean[i]+least)/(p.Mean[j]+least)), -3), 3)
}

// MarginFacts are what a model sees beside demand.
type MarginFacts struct {
	// Pod and Node are the factors of the margins of now, nodes' the larger one; Most is the
	// most demand that they allow for, reference millicores.
	Pod, Node, Most float64
	// Replica is what one supplies, reference millicores.
	Replica float64
}

// lags are how many minutes ago what demand was is seen, phases after how long a job may
// come again.
var (
	lags   = [...]int{1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720}
	phases = [...]int{30, 60, 120, 180, 240, 1440}
)

// See appends what a model sees at a minute. All of it is without a unit, so that the same
// load looks the same at every size but for how many replicas there are.
func (p Past) See(i int, f MarginFacts, to []float32) []float32 {
	add := func(v float64) {
		if math.IsNaN(v) {
			v = 0
		}
		to = append(to, float32(math.Min(math.Max(v, -3), 3)))
	}
	now, begin := math.Max(p.Mean[i], 1), len(to)
	add(math.Log(math.Max(f.Pod, 1)) / 2)
	add(math.Log(math.Max(f.Node, 1)) / 2)
	add(math.Log(math.Max(f.Most/now, 1)) / 2)
	to = append(to, 0, 0)
	SeeSize(p.Mean[i], f, to[begin:])
	for _, k := range lags {
		add(p.ratio(i-k, i))
	}
	for _, k := range phases {
		if i-k < 0 {
			add(0)
			continue
		}
		add(p.grew[i-k])
	}
	day := 24 * 60
	if i >= day {
		add(p.ratio(i-day+10, i-day))
		add(p.ratio(i-day, i))
	} else {
		add(0)
		add(0)
	}
	for _, over := range [...]int{10, 60, 360} {
		add(10 * p.restless(i, over))
	}
	for _, over := range [...]int{60, 240, day} {
		add(p.largest(i, over))
	}
	add(math.Log1p(float64(p.since(i, day, math.Log(math.Max(f.Pod, 1.1))/2))) / 4)
	add(10 * p.Wobble[i])
	for _, over := range [...]int{10, 60, day} {
		high, _ := p.span(i, over)
		add(p.ratio(high, i))
	}
	_, low := p.span(i, day)
	add(p.ratio(i, low))
	return to
}

// SeeSize writes those numbers of what a model sees of demand of now, reference millicores,
// that depend on the size of a replica: how many replicas demand takes, and what is left of
// them with its margin.
func SeeSize(demand float64, f MarginFacts, seen []float32) {
	n := math.Max(demand, 1) / math.Max(f.Replica, 1e-3)
	whole := n * math.Max(f.Pod, 1)
	seen[3], seen[4] = float32(math.Min(math.Max(math.Log(n)/4, -3), 3)), float32(math.Min(math.Ceil(whole)/whole-1, 1))
}

// largest growth that was seen to its end in so many minutes before.
func (p Past) largest(i, over int) float64 {
	most := 0.0
	for k := growthSeen; k <= min(i, over); k++ {
		most = math.Max(most, p.grew[i-k])
	}
	return most
}

// since is how many minutes ago demand last grew by as much, and over if it did not.
func (p Past) since(i, over int, by float64) int {
	for k := growthSeen; k <= min(i, over); k++ {
		if p.grew[i-k] > by {
			return k
		}
	}
	return over
}

// span is the minute of the most, and of the least, of so many before and of now.
func (p Past) span(i, over int) (high, low int) {
	high, low = i, i
	for k := 1; k <= min(i, over); k++ {
		if p.Mean[i-k] > p.Mean[high] {
			high = i - k
		}
		if p.Mean[i-k] < p.Mean[low] {
			low = i - k
		}
	}
	return high, low
}

// restless is the deviation of the logarithm of demand from minute to minute in so many
// before.
func (p Past) restless(i, over int) float64 {
	var sum, squares, n float64
	for k := range min(over, i) {
		d := p.ratio(i-k, i-k-1)
		sum, squares, n = sum+d, squares+d*d, n+1
	}
	if n < 2 {
		return 0
	}
	return math.Sqrt(math.Max(squares/n-sum*sum/n/n, 0))
}

// factsOf what is planned.
func factsOf(in planning.Input) MarginFacts {
	m := in.Margins
	pod := m.Pod.At(in.Time)
	f := MarginFacts{Pod: pod, Node: math.Max(pod, m.Node.At(in.Time)), Most: m.Most}
	if in.Workload.Shape != nil {
		f.Replica = float64(in.Workload.Shape.Requests.MilliCPU) * in.Speed
	}
	return f
}
