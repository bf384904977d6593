package gym

import (
	"math"
	"math/rand/v2"

	"github.com/mash2-io/mash2/planning/vertical"
	"github.com/mash2-io/mash2/planning/vertical/rehearsal"
)

// Service is what requests and owners saw of MARLISE's world, when every pod's agent
// follows one planner.
type Service struct {
	// MeanSeconds and P95Seconds are of response times, over requests; one that fails
	// counts 2 s.
	MeanSeconds float64 `json:"meanSeconds"`
	P95Seconds  float64 `json:"p95Seconds"`
	// Churn is by how many millicores a pod's limit moved in a minute.
	Churn float64 `json:"churn"`
	// Writes is how often a pod's limit changed in a minute.
	Writes float64 `json:"writes"`
	// Allocated is the mean sum of limits, as a share of the budget.
	Allocated float64 `json:"allocated"`
	// ByPriority are mean response times, seconds, of pods of priority up to 0.3, up to
	// 0.7 and above.
	ByPriority [3]Class `json:"byPriority"`
}

// Class is the pods of some priorities.
type Class struct {
	Priorities  string  `json:"priorities"`
	MeanSeconds float64 `json:"meanSeconds"`
	// MilliCPU is the mean limit of a pod.
	MilliCPU float64 `json:"milliCPU"`
}

// classNames of ByPriority.
var classNames = [3]string{"0.1–0.3", "0.4–0.7", "0.8–1.0"}

func classOf(priority float64) int {
	switch {
	case priority <= 0.35:
		return 0
	case priority <= 0.75:
		return 1
	}
	return 2
}

// Played is one episode of a team.
type Played struct {
	// Return is the mean over agents of the sum of rewards.
	Return float64
	// MeanSeconds is the episode's mean response time, over requests.
	MeanSeconds float64
}

// PlayMarlise plays episodes with one planner for all pods; the starts come from seed.
// Planners that are compared with the same seed meet the same worlds.
func PlayMarlise(planner vertical.Planner, episodes int, seed uint64) ([]Played, Service) {
	var all Service
	var requests, slow, moved, writes, podSeconds, held, budget float64
	var classes [3]struct{ requests, slow, limit, seconds float64 }
	var times histogram
	played := make([]Played, episodes)
	var w world
	for e := range played {
		w.reset(rand.New(rand.NewPCG(seed, uint64(e))))
		var epRequests, epSlow float64
		for w.Second <= marliseLimit {
			w.Decide(planner)
			w.advance()
			moved, writes = moved+float64(w.Moved), writes+float64(w.Written)
			budget += float64(w.Envelope.Budget)
			var reward float64
			for i := range w.Pods {
				s, p := &w.States[i], &w.Pods[i]
				reward += w.reward(i)
				c := &classes[classOf(p.Priority)]
				c.requests, c.slow = c.requests+s.Rate, c.slow+s.Rate*s.Response
				c.limit, c.seconds = c.limit+float64(p.Limit), c.seconds+1
				epRequests, epSlow = epRequests+s.Rate, epSlow+s.Rate*s.Response
				held += float64(p.Limit)
				podSeconds++
				times.add(s.Response, s.Rate)
			}
			played[e].Return += reward / float64(len(w.Pods))
		}
		played[e].MeanSeconds = epSlow / max(epRequests, 1e-9)
		requests, slow = requests+epRequests, slow+epSlow
	}
	all.MeanSeconds, all.P95Seconds = slow/max(requests, 1e-9), times.quantile(0.95)
	all.Writes = 60 * writes / max(podSeconds, 1)
	all.Churn, all.Allocated = 60*moved/max(podSeconds, 1), held/max(budget, 1)
	for i, c := range classes {
		all.ByPriority[i] = Class{classNames[i], c.slow / max(c.requests, 1e-9), c.limit / max(c.seconds, 1)}
	}
	return played, all
}

// histogram of response times, in steps of 2 %, from 0.1 ms on.
type histogram struct {
	weights [512]float64
	sum     float64
}

// add requests whose times are exponential around a mean, cut at rehearsal.Loss: by twenty points
// of the distribution.
func (h *histogram) add(mean, weight float64) {
	const points = 20
	for i := range points {
		t := min(-mean*math.Log1p(-(float64(i)+0.5)/points), rehearsal.Loss)
		at := int(math.Log(max(t, 1e-4)/1e-4) / math.Log(1.02))
		h.weights[min(at, len(h.weights)-1)] += weight / points
	}
	h.sum += weight
}

func (h *histogram) quantile(q float64) float64 {
	var sum float64
	for i, v := range h.weights {
		if sum += v; sum >= q*h.sum {
			return 1e-4 * math.Pow(1.02, float64(i)+0.5)
		}
	}
	return rehearsal.Loss
}
