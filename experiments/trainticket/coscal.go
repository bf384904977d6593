package trainticket

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
)

// coscal is a table of Q-values over quantised states, after CoScal (Xu et al. 2022): CPU
// utilisation, the predicted load and the size of replicas in four levels each, and whether
// requests fail; one move a decision of horizontal, vertical scaling or brownout. The table is
// one for all services.
type coscal struct {
	q       *[coscalStates][len(coscalMoves)]float64
	epsilon float64 // exploring
	rng     *rand.Rand
	asked   int
	explore []bool // by service: some do in an episode
	state   []int
	move    []int
}

// coscalMoves are one resource each, in the order of the table's columns.
var coscalMoves = [...]drpc.Action{{}, {Replicas: 1}, {Replicas: -1}, {CPU: 1}, {CPU: -1}}

const (
	coscalStates = 4 * 4 * 4 * 2
	coscalGamma  = 0.9
	// coscalEvery is how many decisions of the others there are to one of its: half a minute,
	// so that what it adds has started when it looks again.
	coscalEvery = 6
)

// level is the quarter of a number from 0 to 1.
func level(x float64) int { return min(max(int(4*x), 0), 3) }

func coscalState(v *view, i int) int {
	l, late := v.local[i], 0
	if v.services[i].Seconds > slower*v.idle[i] {
		late = 1
	}
	size := float64(v.services[i].MilliCPU-leastCPU) / (mostCPU - leastCPU + 1)
	return ((level(l.CPU)*4+level(l.Predicted))*4+level(size))*2 + late
}

func (c *coscal) decide(v *view) []sim.Size {
	if c.asked++; c.asked%coscalEvery != 1 {
		return v.apply(nil, func(int) drpc.Action { return drpc.Action{} })
	}
	if c.state == nil {
		c.state, c.move = make([]int, len(v.services)), make([]int, len(v.services))
		for i := range c.state {
			c.state[i] = -1
			c.explore = append(c.explore, c.epsilon > 0 && c.rng.Float64() < exploring)
		}
	}
	for i := range v.services {
		s := coscalState(v, i)
		best := 0
		for m, q := range c.q[s] {
			if q > c.q[s][best] {
				best = m
			}
		}
		if c.epsilon > 0 {
			if was := c.state[i]; was >= 0 {
				const rate = 0.1
				at := &c.q[was][c.move[i]]
				*at += rate * (v.reward(i) + coscalGamma*c.q[s][best] - *at)
			}
			if c.explore[i] && c.rng.Float64() < c.epsilon {
				best = c.rng.IntN(len(coscalMoves))
			}
		}
		c.state[i], c.move[i] = s, best
	}
	return v.apply(nil, func(i int) drpc.Action { return coscalMoves[c.move[i]] })
}

//go:embed shipped/coscal.json
var shippedCoScal []byte

// shippedTable is what [Train] left of CoScal, as long as the teacher of the model that comes
// with the program had.
func shippedTable() (*[coscalStates][len(coscalMoves)]float64, error) {
	q := &[coscalStates][len(coscalMoves)]float64{}
	return q, json.Unmarshal(shippedCoScal, q)
}

// teachCoScal fills a table in as many episodes as the teacher has.
func teachCoScal(ctx context.Context, episodes int, seed uint64, progress io.Writer) (*[coscalStates][len(coscalMoves)]float64, error) {
	q := &[coscalStates][len(coscalMoves)]float64{}
	rng := rand.New(rand.NewPCG(seed, 17))
	for e := range episodes {
		c := &coscal{q: q, rng: rng, epsilon: 0.02 + 0.4*(1-float64(e)/float64(episodes))}
		if _, err := play(ctx, c, "coscal", seed+uint64(e), AsTrained, nil, nil); err != nil {
			return nil, err
		}
		if (e+1)%100 == 0 {
			fmt.Fprintf(progress, "coscal: %d of %d episodes\n", e+1, episodes)
		}
	}
	return q, nil
}
