package margins

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
)

// Environment is the name that commands take.
const Environment = learned.MarginEnvironment

// Algorithm is the only one: the derivative of what an episode costs along its own path, as
// nothing that is decided changes demand. Madeka et al. 2022, "Deep inventory management"
// (DirectBackprop); Alvo et al. 2023, "Neural inventory control in networks via hindsight
// differentiable policy optimization".
const Algorithm = "pathwise"

// A step of training is a batch of windows of so many minutes, each a decision.
const (
	batch  = 24
	window = 300
)

// Training.
const (
	rate = 2e-3
	// price is what a share of 1 − objective of what is lacking costs at first, in costs of
	// the planner; it rises while more minutes violate than by the planner's own margins.
	price, priceRate = 0.3, 0.02
	// remembered of the mean of the steps before.
	remembered = 0.99
	// defaultWorkloads are drawn where nobody says how many.
	defaultWorkloads = 1500
	// recordings of each input are read with noise of their own.
	recordings = 4
	// days of a drawn workload.
	days = 3
)

// DefaultSteps are those of the model that comes with the program.
const DefaultSteps = 8000 * batch * window

// MaxSteps bounds what can be asked for.
const MaxSteps = 10_000_000_000

// Options of a training.
type Options struct {
	// Steps are decisions: of a minute of a workload each.
	Steps int
	Seed  uint64
	// Inputs are scenarios whose recorded load is learned from as well.
	Inputs []string
	// Out is the folder for the model.
	Out     string
	Version string

	workloads int
}

// Result of a training.
type Result struct {
	Environment string `json:"environment"`
	Algorithm   string `json:"algorithm"`
	Steps       int    `json:"steps"`
	// Workloads that it learned from, drawn and recorded ones.
	Workloads int     `json:"workloads"`
	Seconds   float64 `json:"seconds"`
	// Curve has minus the mean cost beside the planner's own margins.
	Curve []training.Point `json:"curve"`
	// Cost of the last steps beside the planner's, and the shares of time in violation of
	// the model and of the planner.
	Cost      float64 `json:"cost"`
	Violating float64 `json:"violating"`
	Before    float64 `json:"before"`
	Card      string  `json:"card"`
}

// Train learns from drawn workloads, and from recorded ones, what part of its margins a
// workload needs, at no more minutes in violation, and writes the model to a folder.
func Train(ctx context.Context, o Options, progress io.Writer) (Result, error) {
	if o.Steps < batch*window || o.Steps > MaxSteps {
		return Result{}, training.Inputf("--steps must be from %d to %d, is %d", batch*window, MaxSteps, o.Steps)
	}
	if o.Out == "" {
		return Result{}, training.Inputf("--out must name a folder")
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return Result{}, training.Inputf("--out: %w", err)
	}
	begun := time.Now()
	if o.workloads == 0 {
		o.workloads = defaultWorkloads
	}
	var ofInputs []trace
	for _, file := range o.Inputs {
		got, err := recorded(file, recordings, rand.New(rand.NewPCG(o.Seed, 41)))
		if err != nil {
			return Result{}, training.Inputf("--input: %w", err)
		}
		ofInputs = append(ofInputs, got...)
	}
	traces, err := workloads(ctx, o.workloads, o.Seed, progress)
	if err != nil {
		return Result{}, err
	}
	traces = append(traces, ofInputs...)
	net, err := rl.NewNetwork(architecture())
	if err != nil {
		return Result{}, err
	}
	rng := rand.New(rand.NewPCG(o.Seed, 43))
	net.InitOrthogonal(rng, 0.01) // it takes the margins as they are
	out := Result{Environment: Environment, Algorithm: Algorithm, Workloads: len(traces)}
	c := newCourse(net, traces)
	steps := o.Steps / (batch * window)
	for k := range steps {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		c.step(rate*(1-float64(k)/float64(steps)), rng)
		if out.Steps += batch * window; (k+1)%max(1, steps/40) == 0 || k == steps-1 {
			out.Cost, out.Violating, out.Before = c.means()
			if math.IsNaN(out.Cost) {
				return out, fmt.Errorf("training diverged at step %d", out.Steps)
			}
			out.Curve = append(out.Curve, training.Point{Step: out.Steps, Return: -out.Cost})
			fmt.Fprintf(progress, "%d of %d decisions: cost %.4f of the planner's, violating %.4f %% of the time, the planner's %.4f %%\n",
				out.Steps, steps*batch*window, out.Cost, 100*out.Violating, 100*out.Before)
		}
	}
	out.Seconds = time.Since(begun).Seconds()
	out.Card, err = training.Save(o.Out, rl.Model{
		Environment: Environment, Algorithm: Algorithm,
		Policy: rl.Policy{Network: net, Actions: rl.Space{Low: []float32{-1}, High: []float32{1}}},
	}, training.Card{
		Seed: o.Seed, Steps: out.Steps, BestStep: out.Steps, Return: -out.Cost, Episodes: len(traces), Curve: out.Curve, Seconds: out.Seconds, Version: o.Version,
		Limits: []string{
			"It learned from drawn and recorded demand by the minute, with an objective of 99.9 % of minutes and holds of ten minutes: with others it is a guess.",
			"Its return is minus the mean cost beside the planner's own margins, on what it learned from: evaluate it with another seed.",
			"It sees CPU usage only. Where that is no measure of demand, or its history too short for margins, the planner plans without it.",
		},
	})
	return out, err
}

// architecture of the policy: what it sees of a workload's last day is its memory.
func architecture() rl.Architecture {
	a := rl.MLP(learned.MarginInputs, []int{64, 64}, false, rl.Tanh, 1)
	a.Layers = append(a.Layers, rl.Layer{Kind: rl.Tanh})
	return a
}

// course is a training.
type course struct {
	net     *rl.Network
	traces  []trace
	players []*player
	adam    rl.Adam
	grads   []float32
	price   float64
	// sums of what is remembered: relative cost, violations and the planner's, and their weight.
	cost, violating, before, weight float64
}

func newCourse(net *rl.Network, traces []trace) *course {
	c := &course{net: net, traces: traces, adam: rl.Adam{Decay: 0.001}, grads: make([]float32, len(net.Params)), price: price}
	for range runtime.GOMAXPROCS(0) {
		c.players = append(c.players, newPlayer(net))
	}
	return c
}

// means of the last steps.
func (c *course) means() (cost, violating, before float64) {
	return c.cost / c.weight, c.violating / c.weight, c.before / c.weight
}

// step learns from a batch. Equal seeds give equal policies whatever the number of cores:
// gradients are added in the order of windows.
func (c *course) step(rate float64, rng *rand.Rand) {
	type lesson struct {
		t     *trace
		s     size
		from  int
		grads []float32
		relative
	}
	lessons := make([]lesson, batch)
	for i := range lessons {
		t := &c.traces[rng.IntN(len(c.traces))]
		lessons[i] = lesson{t: t, s: t.draw(rng), from: rng.IntN(t.minutes() - window + 1), grads: make([]float32, len(c.grads))}
	}
	parallel(len(c.players), batch, func(worker, i int) {
		l := &lessons[i]
		l.relative = c.players[worker].learn(l.t, l.s, l.from, window, c.price, l.grads)
	})
	clear(c.grads)
	for _, x := range []*float64{&c.cost, &c.violating, &c.before, &c.weight} {
		*x *= remembered
	}
	for _, l := range lessons {
		for i, g := range l.grads {
			c.grads[i] += g / batch
		}
		c.cost, c.violating, c.before, c.weight = c.cost+l.cost, c.violating+l.violating, c.before+l.before, c.weight+1
	}
	rl.ClipNorm(c.grads, 1)
	c.adam.Rate = rate
	c.adam.Step(c.net.Params, c.grads)
	_, violating, before := c.means()
	const least = 1e-5 // of minutes: less is none
	c.price *= math.Exp(priceRate * math.Min(math.Max((violating+least)/(before+least)-1, -1), 1))
}

// relative outcome of a model: its cost beside the planner's, and minutes in violation of both.
type relative struct{ cost, violating, before float64 }

// player plays windows with a network. It is for one goroutine.
type player struct {
	pass        *rl.Pass
	seen, slope []float32
	parts, ones []float64
	bends       []float64 // derivatives of the parts by what the network says
	e           episode
}

// longest window of a player, minutes.
const longest = 24 * 60

func newPlayer(net *rl.Network) *player {
	p := &player{pass: net.NewPass(longest), slope: make([]float32, longest), ones: make([]float64, longest)}
	for i := range p.ones {
		p.ones[i] = 1
	}
	return p
}

// decide what part of the margins each minute of a window takes.
func (p *player) decide(t *trace, s size, from, minutes int) []float64 {
	p.seen, p.parts, p.bends = p.seen[:0], p.parts[:0], p.bends[:0]
	for m := from; m < from+minutes; m++ {
		p.seen = t.see(m, s, p.seen)
	}
	for _, y := range p.pass.Forward(p.seen, minutes) {
		part, slope := learned.MarginPart(float64(y))
		p.parts, p.bends = append(p.parts, part), append(p.bends, part*slope)
	}
	return p.parts
}

// learn writes the gradient of a window.
func (p *player) learn(t *trace, s size, from, minutes int, price float64, grads []float32) relative {
	before := p.e.play(t, s, from, p.ones[:minutes], false)
	got := p.e.play(t, s, from, p.decide(t, s, from, minutes), false)
	for m, bend := range p.bends {
		p.slope[m] = float32(bend * (p.e.cost[m]/before.Cost + price*p.e.risk[m]/(1-objective)))
	}
	p.pass.Backward(p.slope[:minutes], grads)
	return relative{got.Cost / before.Cost, got.Violating, before.Violating}
}

// parallel does n things by so many workers.
func parallel(workers, n int, do func(worker, i int)) {
	var done sync.WaitGroup
	next := make(chan int)
	for w := range workers {
		done.Go(func() {
			for i := range next {
				do(w, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	done.Wait()
}
