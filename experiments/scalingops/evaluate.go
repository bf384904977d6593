package scalingops

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mash2-io/mash2/planning/rl"
)

// decider chooses how many replicas follow on a state.
type decider interface {
	begin()
	next(w World, s state) int
}

// agent decides by a policy.
type agent struct {
	actor *rl.Actor
	out   [3]float32
}

func (*agent) begin() {}

func (a *agent) next(w World, s state) int {
	w.observe(s, a.out[:])
	return w.moved(s.replicas, a.actor.Act(a.out[:]).Discrete)
}

// still keeps replicas at one number: an agent that sits at a boundary.
type still int

func (still) begin() {}

func (n still) next(World, state) int { return int(n) }

// hpa is the rule of a HorizontalPodAutoscaler with a target of CPU, millicores a replica:
// 10 % of tolerance, and down only to the most that was asked for of late.
type hpa struct {
	target float64
	window int // steps of downscale stabilization
	asked  []int
}

func (h *hpa) begin() { h.asked = h.asked[:0] }

func (h *hpa) next(w World, s state) int {
	want := s.replicas
	if ratio := s.cpu / h.target; math.Abs(ratio-1) > 0.1 {
		want = int(math.Ceil(ratio*float64(s.replicas) - 1e-9))
	}
	want = min(max(want, w.Least), w.Most)
	h.asked = append(h.asked, want)
	for _, n := range h.asked[max(0, len(h.asked)-h.window):] {
		want = max(want, n)
	}
	return want
}

// Figure is a mean over episodes with its 95 % interval by Student's t; nil for one episode.
type Figure struct {
	Mean     float64     `json:"mean"`
	Interval *[2]float64 `json:"interval"`
}

func figure(of []float64) Figure {
	mean, deviation := stat.MeanStdDev(of, nil)
	f := Figure{Mean: mean}
	if n := len(of); n > 1 {
		half := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975) * deviation / math.Sqrt(float64(n))
		f.Interval = &[2]float64{mean - half, mean + half}
	}
	return f
}

// Outcome of one decider in the environment of evaluation.
type Outcome struct {
	// Score is the mean reward of a step, with the weight that the user gave.
	Score Figure `json:"score"`
	// Pods is the mean number of replicas.
	Pods Figure `json:"meanPods"`
	// Delay in ms, as the fit has it.
	Delay Figure `json:"meanDelay"`
	// Late is the share of steps whose delay is that of the SLA or more, 0–1.
	Late Figure `json:"late"`
	// Unserved is the share of requests beyond what replicas served in the history.
	Unserved Figure `json:"unserved"`
	// AtBoundary is the share of steps with the least or the most replicas, 0–1; Boundary
	// that it hardly ever leaves one of them.
	AtBoundary float64 `json:"atBoundary"`
	Boundary   bool    `json:"boundary"`
	Episodes   int     `json:"episodes"`

	late, delays, pods, scores []float64 // by episode
}

// sits is the share of steps at one bound from which an agent counts as sitting there.
const sits = 0.95

// episodes of an evaluation at most, each a stretch of the history that is held out.
const episodes = 20

// leastEpisode is the shortest stretch.
const leastEpisode = 10

// Evaluate drives a decider by the request rate of a history alone (eq. 6–8), in stretches
// which all begin with as many replicas as the rate needs.
func (w World) evaluate(d decider, h History, saving float64) Outcome {
	length := max(leastEpisode, (len(h)+episodes-1)/episodes)
	var score, pods, late, delays, unserved []float64
	atLeast, atMost, steps := 0, 0, 0
	for from := 0; from < len(h); from += length {
		part := h[from:min(from+length, len(h))]
		if len(part) < leastEpisode && len(pods) > 0 {
			break
		}
		n := min(max(int(math.Ceil(part[0].Requests*w.Replicas/math.Max(w.Requests, 1e-9))), w.Least), w.Most)
		var sum [5]float64
		d.begin()
		for _, r := range part {
			s, missing := w.load(r.Requests, n)
			delay := w.Fit.Delay(s.cpu, s.requests)
			for i, v := range [5]float64{w.Reward(s.cpu, delay, n, saving), float64(n), delay, 0, missing} {
				sum[i] += v
			}
			if delay >= w.SLA {
				sum[3]++
			}
			steps++
			switch n {
			case w.Least:
				atLeast++
			case w.Most:
				atMost++
			}
			n = min(max(d.next(w, s), w.Least), w.Most)
		}
		for i, to := range []*[]float64{&score, &pods, &delays, &late, &unserved} {
			*to = append(*to, sum[i]/float64(len(part)))
		}
	}
	out := Outcome{
		Score: figure(score), Pods: figure(pods), Delay: figure(delays), Late: figure(late), Unserved: figure(unserved),
		AtBoundary: float64(atLeast+atMost) / float64(steps), Episodes: len(pods), late: late, delays: delays, pods: pods, scores: score,
	}
	out.Boundary = w.Least < w.Most && float64(max(atLeast, atMost)) >= sits*float64(steps)
	return out
}

// above reports whether one figure is larger than another in the same stretches by more
// than chance: the 95 % interval of the difference lies above 0.
func above(these, those []float64) bool {
	difference := make([]float64, len(these))
	for i := range difference {
		difference[i] = these[i] - those[i]
	}
	f := figure(difference)
	return f.Interval != nil && f.Interval[0] > 0
}
