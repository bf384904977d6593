// Package core builds the deciding half of mash2 from a Config: the planners and
// the loop that asks them. It knows no client, so that the simulator and the
// tests decide by the very same code and the very same defaults as the operator.
package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/strategic/model"
	"github.com/mash2-io/mash2/strategic/model/dense"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// Config of what decides. Start from [DefaultConfig].
type Config struct {
	// Planning configures the Hierarchy; its CyclePeriod is the loop's period.
	Planning planning.Config
	// Forecaster of demand by name, one of forecast.Names; empty forecasts nothing,
	// and the reactive floor alone decides.
	Forecaster string
	// FindForecaster, if not nil, finds Forecaster in the place of forecast.ByName: for
	// experiments, which know more of them. It is not recorded.
	FindForecaster func(name string) (forecast.Forecaster, error) `json:"-"`
	// Solver that packs pods onto nodes, one of node.Solvers; empty is node.Auto.
	Solver string

	// Models that workloads may be planned by, as rl.Encode writes them, by name, besides
	// the one that comes with the program (learned.Shipped). Records have these and not that
	// one: a version with another one decides otherwise on replay.
	Models map[string][]byte `json:",omitempty"`

	// QoS are models that choices of users' strategies may ask, as model.Encode or
	// dense.Encode writes them, by name.
	QoS map[string][]byte `json:",omitempty"`

	// WakeGap is the least time between the starts of two cycles when a changed
	// policy wakes the loop early.
	WakeGap time.Duration
	// ActionTimeout bounds one action.
	ActionTimeout time.Duration
	// Parallel is how many actions are carried out at once; 0 and 1 are one after
	// the other.
	Parallel int
}

// The operator's way of asking Prometheus by default: the step between samples
// of demand, and the window of the rate under each. Both are sensing's defaults.
const (
	defaultStep       = 15 * time.Second
	defaultRateWindow = time.Minute
)

// parallelActions is how many actions are carried out at once by default: a
// change of a thousand workloads must not take longer than a cycle because each
// answer of the API server is waited for.
const parallelActions = 16

// DefaultConfig is for real time, with cycles every 15 s.
func DefaultConfig() Config {
	c := Config{
		Planning:      planning.DefaultConfig(),
		Forecaster:    forecast.QuickName,
		Solver:        node.Auto,
		WakeGap:       time.Second,
		ActionTimeout: 30 * time.Second,
		Parallel:      parallelActions,
	}
	c.Planning.MetricDelay = MetricDelay(defaultStep, defaultRateWindow)
	c.Planning.Averaging = defaultRateWindow
	return c
}

// MetricDelay is how old demand is when a cycle sees it: a sample is as old as
// half the step between samples and half the window it averages over.
func MetricDelay(step, rateWindow time.Duration) time.Duration { return step/2 + rateWindow/2 }

// Faster is c for a world that runs speed times faster: whatever is measured in
// the world's time is divided. ActionTimeout bounds the machine's own work and
// stays.
func (c Config) Faster(speed float64) Config {
	c.Planning = c.Planning.Scaled(speed)
	c.WakeGap = time.Duration(float64(c.WakeGap) / speed)
	return c
}

// Validate reports the first field that can't be used.
func (c Config) Validate() error {
	if err := c.Planning.Validate(); err != nil {
		return err
	}
	if c.Forecaster != "" {
		if _, err := c.forecaster(); err != nil {
			return fmt.Errorf("core config: Forecaster: %w", err)
		}
	}
	if c.Solver != "" && !slices.Contains(node.Solvers(), c.Solver) {
		return fmt.Errorf("core config: Solver %q is not in this build, which has %v", c.Solver, node.Solvers())
	}
	if _, err := c.models(); err != nil {
		return fmt.Errorf("core config: Models: %w", err)
	}
	if _, err := c.StrategyModels(); err != nil {
		return fmt.Errorf("core config: QoS: %w", err)
	}
	return c.loop().Validate()
}

// models reads them.
func (c Config) models() (map[string]rl.Model, error) {
	out := make(map[string]rl.Model, len(c.Models)+1)
	add := func(name string, data []byte) error {
		m, err := rl.Decode(data)
		if err == nil {
			err = learned.Check(m)
		}
		if err == nil && out[name].Policy.Network != nil {
			err = errors.New("that is the name of the model that comes with the program: give yours another one")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out[name] = m
		return nil
	}
	shipped, _ := learned.ShippedModel()
	if err := add(learned.Shipped, shipped); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		if err := add(name, c.Models[name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// StrategyModels reads those of QoS.
func (c Config) StrategyModels() (map[string]strategy.Model, error) {
	out := make(map[string]strategy.Model, len(c.QoS))
	for name, data := range c.QoS {
		network, err := dense.Decode(data)
		if err == nil {
			out[name] = network
			continue
		}
		if !errors.Is(err, dense.ErrNoNetwork) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m, err := model.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = m
	}
	return out, nil
}

// forecaster is the one that is named.
func (c Config) forecaster() (forecast.Forecaster, error) {
	if c.FindForecaster != nil {
		return c.FindForecaster(c.Forecaster)
	}
	return forecast.ByName(c.Forecaster)
}

// loop is the loop's own configuration.
func (c Config) loop() mash2.Config {
	return mash2.Config{Period: c.Planning.CyclePeriod, ActionTimeout: c.ActionTimeout, Parallel: c.Parallel, WakeGap: c.WakeGap}
}

// Hierarchy returns the planners. The error is of a Config that Validate refuses.
func (c Config) Hierarchy() (planning.Hierarchy, error) {
	if err := c.Validate(); err != nil {
		return planning.Hierarchy{}, err
	}
	packer, err := node.New(node.Config{Solver: c.Solver})
	if err != nil {
		return planning.Hierarchy{}, err
	}
	models, err := c.models()
	if err != nil {
		return planning.Hierarchy{}, err
	}
	h := planning.Hierarchy{
		Config: c.Planning,
		Planners: map[string]planning.WorkloadPlanner{
			planning.DefaultPlanner: horizontal.Planner{},
			learned.Name:            learned.Planner{Floor: horizontal.Planner{}, Models: models},
		},
		Nodes: packer,
		Moves: execution.Preflight,
	}
	if c.Forecaster != "" {
		f, err := c.forecaster()
		if err != nil {
			return planning.Hierarchy{}, err
		}
		h.Forecaster = forecast.Guarded(f)
	}
	return h, nil
}

// Text is c as records have it.
func (c Config) Text() (json.RawMessage, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	return text, nil
}

// Records opens a log for what c decides: replay takes the configuration from it.
func (c Config) Records(r record.Config) (*record.Writer, error) {
	var err error
	if r.Planners, err = c.Text(); err != nil {
		return nil, err
	}
	return record.NewWriter(r)
}

// Ports are where the loop meets the world. All are required but Recorder, Checkpoints and Wake.
type Ports struct {
	Observer mash2.Observer
	Policies mash2.PolicySource
	Actuator mash2.Actuator
	Reporter mash2.Reporter
	// Recorder keeps every cycle; nil for none.
	Recorder mash2.Recorder
	// Checkpoints keep the planner's memory for the next process; nil for none.
	Checkpoints mash2.Checkpoints
	// Wake starts a cycle ahead of its time; nil for none.
	Wake <-chan struct{}
}

// Loop returns the loop that walks from a world to that world. Planner is what
// Hierarchy returned, or something around it.
func (c Config) Loop(p mash2.Planner, ports Ports) *mash2.Loop {
	cfg := c.loop()
	cfg.Wake = ports.Wake
	models, _ := c.StrategyModels() // Validate has read them
	return &mash2.Loop{
		Config: cfg, Observer: ports.Observer, Policies: ports.Policies, Planner: p, Models: models, Actuator: ports.Actuator, Reporter: ports.Reporter,
		Recorder: ports.Recorder, Checkpoints: ports.Checkpoints,
	}
}
