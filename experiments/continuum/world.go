// Package continuum is an edge node and a cloud node with other load beside an application,
// and the comparison of rules that move it between them: the experiment of the paper on a
// data-connector agent (§IV-E), in a simulator of its own. The simulator of clusters has no
// load of others that comes and goes on one node, and no distance to a node.
//
// # The world
//
// A step is a minute, an episode a day. The application's prediction time on a node is
//
//	network + service ÷ (1 − u) · noise
//
// with u the node's utilisation by others, up to 0.9, and lognormal noise of deviation 0.1: a
// processor-sharing server of which others take the part u. Cloud: network 25 ms, service
// 30 ms. Edge: 5 ms and 40 ms. u is a level (cloud 0.2, edge 0.15) plus a bow by day, from 8
// to 20 o'clock (0.3, 0.15), plus noise that lasts (an autoregression of 0.95 a minute,
// deviation 0.05), plus bursts: on the cloud 4 a day that add 0.2 for half an hour in the
// mean, on the edge 12 that add 0.4.
// An hour costs 1 on the cloud; on the edge 0.9 by day, 2 from 20 to 8, when energy is dear
// there as in the paper.
//
// A move makes before it breaks: for two minutes both nodes are paid, and the old one
// answers; then, for one minute, the new one answers half as fast again.
//
// The numbers are ours, chosen before the rules were run. The paper does not say its own.
package continuum

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The nodes.
const (
	cloud = iota
	edge
	places
)

const (
	// day has this many minutes.
	day = 24 * 60
	// moving is how long both nodes are paid, and cold how long the new one is slow, in
	// minutes.
	moving, cold = 2, 1
	coldFactor   = 1.5
	jitter       = 0.1
	busiest      = 0.9
)

// node's figures; times in seconds.
type node struct {
	network, service   float64
	level, bow         float64
	burstsADay, height float64
}

var nodes = [places]node{
	cloud: {network: 0.025, service: 0.030, level: 0.2, bow: 0.3, burstsADay: 4, height: 0.2},
	edge:  {network: 0.005, service: 0.040, level: 0.15, bow: 0.15, burstsADay: 12, height: 0.4},
}

// light reports whether it is day: from 8 to 20.
func light(minute int) bool { h := minute % day / 60; return h >= 8 && h < 20 }

// price of a minute on a node.
func price(place, minute int) float64 {
	switch {
	case place == cloud:
		return 1.0 / 60
	case light(minute):
		return 0.9 / 60
	}
	return 2.0 / 60
}

// world is what happens on a day, whatever a rule does.
type world struct {
	// use is each node's utilisation by others, 0–1, and took the prediction time there, in
	// seconds, minute by minute.
	use, took [places][]float64
}

func newWorld(rng *rand.Rand) world {
	var w world
	for p, n := range nodes {
		slow, left := 0.0, 0.0
		for minute := range day {
			slow = 0.95*slow + 0.05*math.Sqrt(1-0.95*0.95)*rng.NormFloat64()
			if left > 0 {
				left--
			} else if rng.Float64() < n.burstsADay/day {
				left = 30 * rng.ExpFloat64()
			}
			u := n.level + slow
			if light(minute) {
				u += n.bow * math.Sin(math.Pi*float64(minute-8*60)/(12*60))
			}
			if left > 0 {
				u += n.height
			}
			u = min(max(u, 0), busiest)
			w.use[p] = append(w.use[p], u)
			w.took[p] = append(w.took[p], n.network+n.service/(1-u)*math.Exp(jitter*rng.NormFloat64()))
		}
	}
	return w
}

// Features of a node that a model reads: utilisation by others in the last minutes.
func features() []string { return []string{"use_mean", "use_last", "use_max", "use_change"} }

const (
	// every is how often a rule decides, window how far features look back and ahead how far
	// is predicted, in minutes: the paper's five.
	every, window, ahead = 5, 5, 5
)

// row of features of a node before a minute.
func (w world) row(place, minute int) []float64 {
	u := w.use[place][minute-window : minute]
	return []float64{mean(u), u[window-1], slices.Max(u), u[window-1] - u[0]}
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// truth is the mean prediction time over the minutes to come.
func (w world) truth(place, minute int) float64 {
	return mean(w.took[place][minute:min(minute+ahead, day)])
}
