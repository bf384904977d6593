package agents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// QoSModel predicts one number from features, as those of package model do.
type QoSModel interface {
	// Features are the names of what Predict reads, in its order.
	Features() []string
	// Predict returns the number for one value of each feature.
	Predict(x []float64) (float64, error)
}

// PredictOptions are those of a Predictor.
type PredictOptions struct {
	// Node is the name of the node that this runs on.
	Node string
	// Models that are asked, by name.
	Models map[string]QoSModel
	// Interval between readings, one to 20 seconds.
	Interval time.Duration
	// Proc reads the node.
	Proc *Proc
	// Application, if not nil, is one whose pods on the node are read, too.
	Application *Application
	// Report, if not nil, is told of what could not be read and of answers that are missing,
	// when it changes. It must not block. What it is told stays on the node.
	Report func(string)
	// Clock; nil is the real one.
	Clock clock.WithTicker
}

// Validate returns an error that names the setting.
func (o PredictOptions) Validate() error {
	switch {
	case o.Node == "":
		return errors.New("node: want its name")
	case len(o.Models) == 0:
		return errors.New("models: want one at least")
	case o.Interval < time.Second || o.Interval > maxPredictInterval:
		return fmt.Errorf("interval: want 1s to %v, is %v", maxPredictInterval, o.Interval)
	case o.Proc == nil:
		return errors.New("proc: want where to read")
	}
	return nil
}

// Answer is all that leaves the node: what a model says, or why it says nothing.
type Answer struct {
	Node  string `json:"node"`
	Model string `json:"model"`
	// Value is a finite number, or absent.
	Value *float64 `json:"value,omitempty"`
	// At is when the oldest of the last readings was made that it is from.
	At time.Time `json:"at,omitzero"`
	// Missing is why there is no value, without any of the figures.
	Missing string `json:"missing,omitempty"`

	reason string
}

// Reasons why an answer is missing, as the metric has them.
const (
	reasonFilling = "window"  // there are too few readings yet
	reasonFeature = "feature" // a feature can't be measured, or was not
	reasonModel   = "model"   // the model gave no finite number
	reasonStale   = "stale"   // the last answer is too old
)

// Predictor reads the node that it runs on each interval, asks models, and keeps their answers.
// The readings stay in its memory.
type Predictor struct {
	o     PredictOptions
	order []string // of models

	// Of the loop.
	window *window
	noApp  error
	said   string

	mu      sync.Mutex
	answers map[string]Answer
	missing map[[2]string]int // by model and reason
}

// NewPredictor makes one that has no answer yet.
func NewPredictor(o PredictOptions) (*Predictor, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	p := &Predictor{o: o, order: slices.Sorted(maps.Keys(o.Models)), window: newWindow(o.Interval), answers: map[string]Answer{}, missing: map[[2]string]int{}}
	return p, nil
}

// Run reads and predicts until the context ends.
func (p *Predictor) Run(ctx context.Context) {
	tick := p.o.Clock.NewTicker(p.o.Interval)
	defer tick.Stop()
	for {
		p.tick(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

// tick reads once and asks every model.
func (p *Predictor) tick(ctx context.Context) {
	now := p.o.Clock.Now()
	values, errs := p.o.Proc.Read(now)
	if a := p.o.Application; a != nil {
		ctx, cancel := context.WithTimeout(ctx, p.o.Interval)
		more, err := a.Read(ctx, now)
		cancel()
		p.noApp = err
		errs = errors.Join(errs, err)
		maps.Copy(values, more)
	}
	p.window.add(now, values)
	var said []string
	if errs != nil {
		said = append(said, errs.Error())
	}
	for _, name := range p.order {
		a, err := p.ask(name, now)
		switch {
		case err != nil:
			said = append(said, fmt.Sprintf("model %s: %v", name, err))
		case a.reason == reasonFeature:
			said = append(said, fmt.Sprintf("model %s: %s", name, a.Missing))
		}
		p.mu.Lock()
		if p.answers[name] = a; a.Missing != "" {
			p.missing[[2]string{name, a.reason}]++
		}
		p.mu.Unlock()
	}
	if text := strings.Join(said, "\n"); text != p.said && p.o.Report != nil {
		p.said = text
		p.o.Report(text)
	}
}

// ask a model. The error says more than the answer, and may have figures.
func (p *Predictor) ask(name string, now time.Time) (Answer, error) {
	m := p.o.Models[name]
	a := Answer{Node: p.o.Node, Model: name}
	features := m.Features()
	x := make([]float64, len(features))
	at, gaps, filling := now, []string(nil), true
	for i, feature := range features {
		v, gap := p.window.feature(feature, now)
		if gap != nil {
			if len(p.window.points[metric(feature)]) == 0 {
				gap.why = p.whyNot(metric(feature))
			}
			gaps = append(gaps, gap.String())
			filling = filling && gap.filling
			continue
		}
		x[i] = v.value
		if v.at.Before(at) {
			at = v.at
		}
	}
	if len(gaps) > 0 {
		a.Missing, a.reason = strings.Join(gaps, "; "), reasonFeature
		if filling {
			a.reason = reasonFilling
		}
		return a, nil
	}
	y, err := safely(m, x)
	if err != nil {
		// The model's own words may have the node's figures in them.
		a.Missing, a.reason = "the model gives no finite number for what is measured", reasonModel
		return a, err
	}
	a.Value, a.At = &y, at
	return a, nil
}

func metric(feature string) string {
	m, _ := metricOf(feature)
	return m
}

// whyNot has a metric no reading.
func (p *Predictor) whyNot(metric string) string {
	a := p.o.Application
	switch {
	case a != nil && (metric == a.Name+ApplicationCPU || metric == a.Name+ApplicationMem):
		if errors.Is(p.noApp, errNoPods) {
			return errNoPods.Error()
		}
	case (metric == NodeReceive || metric == NodeTransmit) && p.o.Proc.Interface == "":
		return "no network interface is set"
	case !slices.Contains(NodeMetrics(), metric):
		return "it is not measured on the node"
	}
	return "it has no reading yet, or can't be read"
}

// safely asks a model that may panic or say what is no number.
func safely(m QoSModel, x []float64) (y float64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked: %v", r)
		}
	}()
	if y, err = m.Predict(x); err == nil && (math.IsNaN(y) || math.IsInf(y, 0)) {
		err = fmt.Errorf("it says %v", y)
	}
	return y, err
}

// Answer of a model as of now: one that is older than three intervals has no value. It is
// false for a model that is not asked.
func (p *Predictor) Answer(name string) (Answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answer(name)
}

func (p *Predictor) answer(name string) (Answer, bool) {
	if p.o.Models[name] == nil {
		return Answer{}, false
	}
	a, ok := p.answers[name]
	switch {
	case !ok:
		return Answer{Node: p.o.Node, Model: name, Missing: "nothing was read yet", reason: reasonFilling}, true
	case a.Value == nil:
		return a, true
	}
	// By the monotonic clock and by the wall: one stands still while the machine sleeps, the
	// other may be set back.
	now := p.o.Clock.Now()
	if limit := freshFor * p.o.Interval; now.Sub(a.At) > limit || now.Round(0).Sub(a.At.Round(0)) > limit {
		return Answer{Node: a.Node, Model: a.Model, Missing: fmt.Sprintf("the last answer is older than %v", limit), reason: reasonStale}, true
	}
	return a, true
}
