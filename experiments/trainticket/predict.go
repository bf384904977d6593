package trainticket

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
	"github.com/mash2-io/mash2/forecast/gru"
)

// predictor says what services will be asked for soon: as in DRPC a GRU on utilisation of
// several kinds. One net is for all services, as all that it sees is relative, and each has a
// state of its own.
type predictor struct {
	parts  gru.Parts
	states [][]float64
	before []float64
	x      []float64
	gates  gru.Gates
}

// The net's size. It says by how much requests will differ, as a share of what is usual at
// most.
const predictorInputs, predictorHidden = 5, 16

// ahead is for how many decisions a prediction looks ahead: what a pod needs to be Ready.
const ahead = 6

// predictorFile of a folder is the net.
const predictorFile = "predictor.json"

//go:embed shipped/predictor.json
var shippedPredictor []byte

// newPredictor of the net that comes with the program, for so many services.
func newPredictor(services int) (*predictor, error) {
	var n gru.Net
	if err := json.Unmarshal(shippedPredictor, &n); err != nil {
		return nil, err
	}
	if n.Inputs != predictorInputs || n.Hidden < 1 || len(n.Weights) != gru.Size(n.Inputs, n.Hidden) {
		return nil, fmt.Errorf("%s is no net of %d inputs", predictorFile, predictorInputs)
	}
	return predictorOf(n, services), nil
}

func predictorOf(n gru.Net, services int) *predictor {
	p := &predictor{
		parts: gru.Split(n.Weights, n.Inputs, n.Hidden), before: make([]float64, services),
		x: make([]float64, n.Inputs), gates: gru.NewGates(n.Hidden),
	}
	for range services {
		p.states = append(p.states, make([]float64, n.Hidden))
	}
	return p
}

// predictorSees writes what a net sees of a service that was asked for before.
func predictorSees(x []float64, l drpc.Local, before float64) {
	x[0], x[1], x[2], x[3], x[4] = l.Requests, 10*(l.Requests-before), l.CPU, l.Memory, l.Replicas
}

// see notes what service i sees, and returns its requests in so many decisions, as a share
// like Requests.
func (p *predictor) see(i int, l drpc.Local) float64 {
	if p.before[i] == 0 {
		p.before[i] = l.Requests
	}
	predictorSees(p.x, l, p.before[i])
	p.before[i] = l.Requests
	return math.Max(l.Requests+p.parts.Step(p.x, p.states[i], p.states[i], p.gates), 0)
}

// predictorTraining is how the net learns: sequences are of one service through one episode,
// with Adam at a rate that falls.
type predictorTraining struct {
	epochs, batch int
	rate          float64
}

func defaultPredictorTraining() predictorTraining {
	return predictorTraining{epochs: 12, batch: 40, rate: 4e-3}
}

// lived is what each service saw in so many episodes, scaled by a rule.
func lived(ctx context.Context, episodes int, seed uint64, changed Changed) ([][]drpc.Local, error) {
	var out [][]drpc.Local
	for e := range episodes {
		var each [][]drpc.Local
		if _, err := play(ctx, newJoint(), "the predictor's lessons", seed+uint64(e), changed, nil, func(v *view) {
			for len(each) < len(v.local) {
				each = append(each, nil)
			}
			for i, l := range v.local {
				each[i] = append(each[i], l)
			}
		}); err != nil {
			return nil, err
		}
		out = append(out, each...)
	}
	return out, nil
}

// fitPredictor trains a net by back propagation through time. It returns the mean squared
// error in the last epoch, too.
func fitPredictor(c predictorTraining, lives [][]drpc.Local, seed uint64, progress io.Writer) (gru.Net, float64) {
	rng := rand.New(rand.NewPCG(seed, 31))
	n := gru.Net{Inputs: predictorInputs, Hidden: predictorHidden, Weights: make([]float64, gru.Size(predictorInputs, predictorHidden))}
	p := gru.Split(n.Weights, n.Inputs, n.Hidden)
	for i := range n.Weights {
		n.Weights[i] = rng.NormFloat64() * 0.5 / math.Sqrt(predictorHidden)
	}
	clear(p.V) // it begins as the last value
	clear(p.X)
	p.D[0] = 0
	gradient := make([]float64, len(n.Weights))
	d := gru.Split(gradient, n.Inputs, n.Hidden)
	var through passage
	var adam gru.Adam
	begun, batches, missed := time.Now(), len(lives)/c.batch, 0.0
	for epoch := range c.epochs {
		order, sum, count := rng.Perm(len(lives)), 0.0, 0
		for b := range batches {
			clear(gradient)
			for _, i := range order[b*c.batch:][:c.batch] {
				loss, n := through.learn(p, d, lives[i])
				sum, count = sum+loss, count+n
			}
			for i := range gradient {
				gradient[i] /= float64(c.batch)
			}
			done := float64(epoch*batches+b) / float64(c.epochs*batches)
			adam.Step(n.Weights, gradient, c.rate*(0.025+(1+math.Cos(math.Pi*done))/2))
		}
		missed = sum / float64(count)
		fmt.Fprintf(progress, "predictor: %d of %d epochs, %s, mean squared error %.4f\n", epoch+1, c.epochs, time.Since(begun).Round(time.Second), missed)
	}
	for i, w := range n.Weights {
		n.Weights[i] = float64(float32(w))
	}
	return n, missed
}

// passage of a net through one life, step by step.
type passage struct {
	steps           []predictorStep
	dAfter, dBefore []float64
	dx              []float64
}

type predictorStep struct {
	x, before, after []float64
	gates            gru.Gates
	slope            float64
}

// learn adds the gradient of the mean squared error of a life to d, times ten. It returns the sum of
// squared errors and how many there are.
func (t *passage) learn(p, d gru.Parts, life []drpc.Local) (loss float64, count int) {
	for len(t.steps) < len(life) {
		t.steps = append(t.steps, predictorStep{
			x: make([]float64, predictorInputs), before: make([]float64, predictorHidden),
			after: make([]float64, predictorHidden), gates: gru.NewGates(predictorHidden),
		})
	}
	if t.dx == nil {
		t.dAfter, t.dBefore, t.dx = make([]float64, predictorHidden), make([]float64, predictorHidden), make([]float64, predictorInputs)
	}
	before := life[0].Requests
	for j, l := range life {
		s := &t.steps[j]
		predictorSees(s.x, l, before)
		before = l.Requests
		if j == 0 {
			clear(s.before)
		} else {
			copy(s.before, t.steps[j-1].after)
		}
		y := p.Step(s.x, s.before, s.after, s.gates)
		s.slope = 0
		if j+ahead < len(life) {
			e := life[j+ahead].Requests - l.Requests - y
			s.slope, loss, count = -20*e/float64(len(life)), loss+e*e, count+1
		}
	}
	clear(t.dAfter)
	for j := len(life) - 1; j >= 0; j-- {
		s := &t.steps[j]
		p.Back(d, s.x, s.before, s.after, s.gates, s.slope, t.dAfter, t.dx, t.dBefore)
		copy(t.dAfter, t.dBefore)
	}
	return loss, count
}

// trainPredictor writes the net.
func trainPredictor(ctx context.Context, o Options, c predictorTraining, progress io.Writer) (Result, error) {
	begun := time.Now()
	out := Result{Environment: o.Environment, Algorithm: o.Algorithm, Episodes: o.Steps / decisions}
	out.Steps = out.Episodes * decisions
	lives, err := lived(ctx, out.Episodes, episodeSeed(o.Seed, 2), changedOf(o.Environment))
	if err != nil {
		return out, err
	}
	n, missed := fitPredictor(c, lives, o.Seed, progress)
	out.Prediction, out.Card = missed, filepath.Join(o.Out, predictorFile)
	n.Trained = []string{fmt.Sprintf("%s, %d episodes of seed %d", o.Environment, out.Episodes, o.Seed)}
	out.Seconds = time.Since(begun).Seconds()
	out.StepsPerSecond = float64(out.Steps) / out.Seconds
	text, err := json.Marshal(n)
	if err != nil {
		return out, err
	}
	return out, training.WriteFile(out.Card, append(text, '\n'))
}
