package trainticket

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/forecast/seriesfile"
	"github.com/mash2-io/mash2/planning/rl"
)

// Profile says how many requests a second keep the hosts as busy as they are, which makes load
// of traces of machines: DRPC's performance profiling (§V-B), a perceptron of three layers from
// utilisation to requests. The application is profiled with load that rises by stairs.
type Profile struct {
	// Samples it was fitted to: of every other stair. The errors are of the other stairs.
	Samples int `json:"samples"`
	// RMSE is the root mean squared error, requests a second; LineRMSE that of a straight line
	// through the same samples.
	RMSE     float64 `json:"rmse"`
	LineRMSE float64 `json:"lineRmse"`
	// Most is the utilisation of the hosts up to which it is known, 0–1, and MostRequests what
	// it is there: what is busier counts as that.
	Most         float64 `json:"mostUtilisation"`
	MostRequests float64 `json:"mostRequests"`

	pass *rl.Pass
}

// The stairs of profiling: each adds stair requests a second, and what is seen in the last half
// of it counts. DRPC's are of five minutes, as its services take that long to settle.
const (
	stair       = 20
	stairs      = 60
	stairLength = 40 * time.Second
)

// sample is one look at the hosts.
type sample struct {
	utilisation float64 // of all hosts' CPU, 0–1
	requests    float64 // a second
	held        bool    // of a stair that nothing is fitted to
}

// profile the application.
func profile(ctx context.Context, changed Changed, seed uint64) (*Profile, error) {
	samples, err := climb(ctx, changed, seed)
	if err != nil {
		return nil, err
	}
	return fitProfile(samples, seed)
}

// climb runs the application under load that rises by stairs, with replicas that follow it.
func climb(ctx context.Context, changed Changed, seed uint64) ([]sample, error) {
	s, err := world(rand.New(rand.NewPCG(seed, 72)), changed, nil)
	if err != nil {
		return nil, err
	}
	var steps []scenarios.Stage
	for n := range stairs {
		steps = append(steps, scenarios.Stage{Duration: time.Second, Target: stair * (n + 1)}, scenarios.Stage{Duration: stairLength - time.Second, Target: stair * (n + 1)})
	}
	s.Arrivals = scenarios.ArrivalsOf(0, steps)
	most, err := typicalOf()
	if err != nil {
		return nil, err
	}
	params := sim.DefaultParams()
	params.Startup = startup
	v, err := newView(len(most.rate))
	if err != nil {
		return nil, err
	}
	by := &proportional{target: idealCPU}
	var out []sample
	begun := time.Duration(-1)
	_, err = sim.Run(ctx, sim.Options{
		Scenario: s, Scaler: sim.Steered, Seed: seed, Passes: 1, Params: &params,
		Steering: sim.Steering{Every: every, Decide: func(now time.Duration, services []sim.Service, w queueing.Window) []sim.Size {
			if begun < 0 {
				begun = now
			}
			v.update(services, w, most)
			used := 0.0
			for _, of := range services {
				used += of.Used
			}
			// Seen is the time since the look before.
			if n, at := (now-begun)/stairLength, (now-begun)%stairLength; at-every >= stairLength/2 && v.failed == 0 {
				out = append(out, sample{used / (nodes * nodeCores), v.requests, n%2 == 1})
			}
			return by.decide(v)
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("profiling %s: %w", Environment, err)
	}
	return out, nil
}

// fitProfile fits the perceptron to samples that aren't held out, and scores it on those that
// are.
func fitProfile(samples []sample, seed uint64) (*Profile, error) {
	const epochs, rate, decay = 4000, 0.01, 0.999
	p := &Profile{}
	var inputs, outputs []float32
	var sx, sy, sxx, sxy float64
	for _, s := range samples {
		if s.held {
			continue
		}
		p.Samples++
		p.Most, p.MostRequests = math.Max(p.Most, s.utilisation), math.Max(p.MostRequests, s.requests)
		inputs, outputs = append(inputs, float32(s.utilisation)), append(outputs, float32(s.requests/(stair*stairs)))
		sx, sy, sxx, sxy = sx+s.utilisation, sy+s.requests, sxx+s.utilisation*s.utilisation, sxy+s.utilisation*s.requests
	}
	if p.Samples < 10 || !(p.Most > 0) {
		return nil, fmt.Errorf("profiling %s gave %d samples of hosts that did anything, want 10", Environment, p.Samples)
	}
	net, err := rl.NewNetwork(rl.MLP(1, []int{16, 16}, false, rl.Tanh, 1))
	if err != nil {
		return nil, err
	}
	net.InitKaiming(rand.New(rand.NewPCG(seed, 73)))
	pass := net.NewPass(len(inputs))
	adam := &rl.Adam{Rate: rate}
	grads, wrong := make([]float32, len(net.Params)), make([]float32, len(inputs))
	for range epochs {
		for i, y := range pass.Forward(inputs, len(inputs)) {
			wrong[i] = 2 * (y - outputs[i]) / float32(len(inputs))
		}
		clear(grads)
		pass.Backward(wrong, grads)
		adam.Step(net.Params, grads)
		adam.Rate *= decay
	}
	p.pass = net.NewPass(1)
	n := float64(p.Samples)
	slope := (n*sxy - sx*sy) / (n*sxx - sx*sx)
	level := (sy - slope*sx) / n
	held := 0.0
	for _, s := range samples {
		if s.held {
			held++
			own, line := p.Requests(s.utilisation)-s.requests, level+slope*s.utilisation-s.requests
			p.RMSE, p.LineRMSE = p.RMSE+own*own, p.LineRMSE+line*line
		}
	}
	if held == 0 {
		return nil, errors.New("no sample is held out")
	}
	p.RMSE, p.LineRMSE = math.Sqrt(p.RMSE/held), math.Sqrt(p.LineRMSE/held)
	return p, nil
}

// Requests a second at which hosts are so busy; utilisation is of their CPU, 0–1.
func (p *Profile) Requests(utilisation float64) float64 {
	y := p.pass.Forward([]float32{float32(math.Min(utilisation, p.Most))}, 1)
	return math.Max(0, float64(y[0])*stair*stairs)
}

// machines is load by the utilisation of machines, 0–1, a sample every half minute.
type machines struct {
	utilisation []float64
	profile     *Profile
}

// machineStep is the time between two rows of a file of machines.
const machineStep = 30 * time.Second

// machinesOf reads a file and profiles the application.
func machinesOf(ctx context.Context, file string, changed Changed, seed uint64) (*machines, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, training.Inputf("--input: %w", err)
	}
	read, err := seriesfile.Parse(f, seriesfile.Options{Name: file, Step: machineStep, Time: seriesfile.NoTime, Value: "cpu_util_percent"})
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, training.Inputf("--input: %w", err)
	}
	m := &machines{utilisation: read.Series.Values}
	most := 0.0
	for i := range m.utilisation {
		m.utilisation[i] /= 100
		most = math.Max(most, m.utilisation[i]) // not for a gap
	}
	if len(m.utilisation) < int(passLength/machineStep) || most > 1 {
		return nil, training.Inputf("--input: %s has %d rows, the largest of %g %%; want percentages, and %d rows at least", file, len(m.utilisation), 100*most, passLength/machineStep)
	}
	if m.profile, err = profile(ctx, changed, seed); err != nil {
		return nil, err
	}
	return m, nil
}

// arrivals of an episode are those of a stretch of the machines' time.
func (m *machines) arrivals(rng *rand.Rand) *scenarios.Arrivals {
	n := int(passLength / machineStep)
	from := rng.IntN(len(m.utilisation) - n + 1)
	level := m.profile.Requests(m.utilisation[from])
	if math.IsNaN(level) {
		level = 0
	}
	begin := level
	var steps []scenarios.Stage
	for _, u := range m.utilisation[from : from+n] {
		if !math.IsNaN(u) { // in a gap it stays as it was
			level = m.profile.Requests(u)
		}
		steps = append(steps, scenarios.Stage{Duration: machineStep, Target: int(math.Round(level))})
	}
	return scenarios.ArrivalsOf(begin, steps)
}
