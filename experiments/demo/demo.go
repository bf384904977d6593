// Package demo runs a scenario on a real local control plane, with simulated nodes and
// load, and scores what its scalers did.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// Options of a run.
type Options struct {
	Scenario scenarios.Scenario
	// Speed divides load, scrapes, sync periods and boots.
	Speed float64
	// Seed of all that is random.
	Seed uint64
	// Warm is how many passes come between the cold one and the one with the switch.
	Warm int
	// Switch adds a pass in which the policy switches to PERFORMANCE, for a scenario
	// that doesn't switch by itself.
	Switch bool
	// Baseline runs the stock HPA and an autoscaled pool beside mash2.
	Baseline bool
	// Karpenter is the program of experiments/karpenter, or empty.
	Karpenter string
	// Program is the mash2 whose operator runs.
	Program string
	// Report is the folder for the page, the cycles' records and the operator's log.
	Report string
	// Records is the folder that the operator keeps its records in, or empty.
	Records string
	// Progress gets a line at each step.
	Progress io.Writer
}

// Result is what mash2 demo prints as JSON.
type Result struct {
	Scenario     string      `json:"scenario"`
	Speed        float64     `json:"speed"`
	Runs         []score.Run `json:"runs"`
	MinReadyPods int32       `json:"minReadyPods"` // of mash2's workload, at any moment
	Report       string      `json:"report"`
}

// run is a demo that goes on.
type run struct {
	Options
	bed      *testbed.Testbed
	operator *testbed.Operator
	// passes in all; switched is the one with the added switch, -1 without.
	passes, switched int
}

// Run plays the scenario. What came of it is told to done while the cluster, which
// a kubeconfig leads to, still stands; it ends when done returns.
func (o Options) Run(ctx context.Context, done func(r Result, kubeconfig string) error) (err error) {
	if err := os.MkdirAll(o.Report, 0o755); err != nil {
		return err
	}
	r := run{Options: o, passes: 1 + o.Warm, switched: -1}
	s := o.Scenario
	// The scenario's own switches rule; else one is added in a last pass.
	if len(s.Policy.Switches) == 0 && o.Switch {
		r.switched = r.passes
		r.passes++
	}
	total := time.Duration(r.passes) * s.PassDuration()
	fmt.Fprintf(o.Progress, "%s: %d passes of %v at %g× real time: %v, plus a start of about 20 s\n",
		s.Name, r.passes, s.PassDuration(), o.Speed, (time.Duration(float64(total) / o.Speed)).Round(time.Second))
	r.bed, err = testbed.Start(ctx, testbed.Options{
		Scenario: s, Speed: o.Speed, Seed: o.Seed, Baseline: o.Baseline, Karpenter: o.Karpenter, Passes: r.passes, Progress: o.Progress,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.bed.Stop()) }()
	page, err := freeAddress()
	if err != nil {
		return err
	}
	args := []string{"--verbose", "--page-bind-address=" + page, "--page-insecure"}
	if o.Records != "" {
		dir, err := filepath.Abs(o.Records)
		if err != nil {
			return err
		}
		args = append(args, "--records="+dir)
	}
	if r.operator, err = r.bed.StartOperator(o.Program, nil, args...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.operator.Stop()) }()
	start, cancel := context.WithTimeout(ctx, 2*time.Minute)
	err = r.bed.WaitLeading(start, r.operator, time.Time{})
	cancel()
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Progress, "the operator's page, until the demo ends: http://%s/\n", page)
	r.bed.Load.Begin()
	marks, err := r.play(ctx)
	if err != nil {
		return err
	}
	result, err := r.finish(marks)
	if err != nil {
		return err
	}
	return done(result, r.bed.Cluster.Kubeconfig)
}

// freeAddress of this machine alone.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// play waits for the scenario's end, switches policies at their times and says
// where it is.
func (r run) play(ctx context.Context) ([]score.Event, error) {
	bed, s := r.bed, r.Scenario
	switches := bed.Load.Switches(false)
	if r.switched >= 0 {
		switches = append(switches, simulation.AddedSwitch(s, r.switched))
	}
	var marks []score.Event
	done := make(chan error, 1)
	go func() { done <- bed.Load.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	said := time.Time{}
	active := s.Policy.Initial
	for {
		select {
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		case <-r.operator.Done():
			return nil, fmt.Errorf("the operator ended: %w; its log ends with:\n%s", r.operator.Err(), testbed.Tail(bed.OperatorLog(), 20))
		case err := <-done:
			return marks, err
		case now := <-tick.C:
			t := bed.Load.ScenarioTime(now)
			for len(switches) > 0 && t >= switches[0].At.Duration {
				sw := switches[0]
				switches = switches[1:]
				if sw.Policy == active {
					continue
				}
				active = sw.Policy
				if err := bed.SetPolicy(ctx, sw.Policy); err != nil {
					return nil, err
				}
				marks = append(marks, score.Event{At: t.Seconds(), Name: sw.Policy})
				fmt.Fprintf(r.Progress, "%8s  policy set to %s\n", t.Round(time.Second), sw.Policy)
			}
			if now.Sub(said) >= 5*time.Second {
				said = now
				line, err := r.status(t)
				if err != nil {
					return nil, err
				}
				fmt.Fprintln(r.Progress, line)
			}
		}
	}
}

// status is a line on where the scenario is, and on the plan in force.
func (r run) status(t time.Duration) (string, error) {
	cycles, err := r.bed.Cycles()
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%8s  pass %d of %d", t.Round(time.Second), min(int(t/r.Scenario.PassDuration())+1, r.passes), r.passes)
	for _, c := range slices.Backward(cycles) {
		if c.Error != "" || len(c.Plan.Workloads) == 0 {
			continue
		}
		w := c.Plan.Workloads[0]
		model := "reactive"
		if w.Forecast != nil {
			model = w.Forecast.Model
		}
		line += fmt.Sprintf("  %-11s replicas %2d → %2d  pool %s  $%.3f/h  %-8s  %s",
			c.Policy.Name, w.Current, w.Replicas, strings.Join(c.Plan.PoolsInUse(), " + "), c.Plan.Nodes.HourlyCost, model, w.Binding)
		break
	}
	return line, nil
}
