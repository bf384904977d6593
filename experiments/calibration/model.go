package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// window is how long wrk2 ran, seconds.
const window = 30.0

// setting is what a curve is made for.
type setting struct {
	offered   float64 // requests per second
	servers   int     // pods of the busiest service, one core each
	variation float64 // standard deviation over mean of a request's work
	seed      uint64
}

// point of a curve: what the queueing model answers when it can serve only a
// part of what is offered.
type point struct {
	served    float64 // of what was offered in the window, 0–1
	mean, p99 float64 // ms, of the requests answered in the window
}

// work of a request of which the servers can do a share of those offered.
func (s setting) work(share float64) scenarios.Distribution {
	mean := float64(s.servers) / (s.offered * share)
	d := scenarios.Distribution{Kind: scenarios.Constant, Mean: seconds(mean)}
	if s.variation > 0 {
		d.Kind, d.Deviation = scenarios.LogNormal, seconds(mean*s.variation)
	}
	return d
}

func seconds(x float64) scenarios.Duration {
	return scenarios.Duration{Duration: time.Duration(x * float64(time.Second))}
}

// steady is a constant rate of arrivals.
type steady float64

func (r steady) RPS(time.Duration) float64    { return float64(r) }
func (r steady) MaxRPS(time.Duration) float64 { return float64(r) }

// simulate runs package queueing, the model of every experiment, for one window
// from empty.
func (s setting) simulate(share float64) (point, error) {
	m := queueing.New(s.seed)
	if err := m.AddStream(queueing.Stream{Name: "s", Work: s.work(share), Think: s.work(share), Timeout: time.Hour}); err != nil {
		return point{}, err
	}
	for i := range s.servers {
		node, pod := fmt.Sprintf("n%d", i), fmt.Sprintf("p%d", i)
		if err := m.SetNode(queueing.Node{Name: node, Cores: 1, Speed: 1}); err != nil {
			return point{}, err
		}
		if err := m.AddPod(queueing.Pod{ID: pod, Stream: "s", Node: node, Request: 1}); err != nil {
			return point{}, err
		}
		m.Join(pod, 0)
	}
	m.Advance(time.Millisecond)
	if err := m.StartArrivals("s", steady(s.offered)); err != nil {
		return point{}, err
	}
	var all queueing.Histogram
	for range int(window) {
		m.Advance(m.Now() + time.Second)
		w, err := m.TakeWindow("s")
		if err != nil {
			return point{}, err
		}
		all.Add(w.Latency)
	}
	p99, ok := all.Quantile(0.99)
	if !ok {
		return point{}, fmt.Errorf("nothing was answered at a share of %g", share)
	}
	mean := 0.0
	const quantiles = 1000
	for i := range quantiles {
		q, _ := all.Quantile((float64(i) + 0.5) / quantiles)
		mean += q.Seconds() * 1000 / quantiles
	}
	return point{
		served: min(1, float64(all.Count())/(s.offered*window)), mean: mean, p99: p99.Seconds() * 1000,
	}, nil
}

// curve is latency by the share served, in order of it.
type curve []point

// curveOf simulates the shares between which observations lie.
func (s setting) curve(shares []float64) (curve, error) {
	var out curve
	for _, share := range shares {
		p, err := s.simulate(share)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b point) int {
		switch {
		case a.served < b.served:
			return -1
		case a.served > b.served:
			return 1
		}
		return 0
	})
	return out, nil
}

// at interpolates the curve, beyond its ends it is that of the end.
func (c curve) at(served float64) point {
	i := slices.IndexFunc(c, func(p point) bool { return p.served >= served })
	switch {
	case i == 0:
		return c[0]
	case i < 0:
		return c[len(c)-1]
	}
	a, b := c[i-1], c[i]
	w := (served - a.served) / (b.served - a.served)
	return point{served: served, mean: a.mean + w*(b.mean-a.mean), p99: a.p99 + w*(b.p99-a.p99)}
}

// backlog is the closed form of overload: served at rate μ < λ, what is answered
// at time t has waited t(1−μ/λ), on average T/2·(1−μ/λ). It is what the fluid
// model moves; it takes latencies for exponential, whose 99th percentile is
// ln 100 of the mean.
func backlog(served float64) point {
	mean := 1000 * window / 2 * max(0, 1-served)
	return point{served: served, mean: mean, p99: math.Log(100) * mean}
}
