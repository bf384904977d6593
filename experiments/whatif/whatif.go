// Package whatif replays a workload's own history of CPU usage in virtual time, under
// each policy of mash2 and each of its rivals, and tells what they would have done
// with it.
package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/simulation"
)

// input marks an error as simulation.ErrInput: of what was asked for.
func input(err error) error { return simulation.Input(err) }

func inputf(format string, args ...any) error { return input(fmt.Errorf(format, args...)) }

// Options of a replay. In errors fields have the names of mash2 whatif's flags.
type Options struct {
	History
	World
	// Policies to try, each for the whole time, and rivals to compare with, as
	// sim.ParseScaler knows them, or oracle.
	Policies, Rivals []string
	// PoliciesFile is a policies.yaml; without it COST_SAVING has the first pool and
	// PERFORMANCE the last.
	PoliciesFile string
	// Seed of all that is random, and the number of seeds from it on.
	Seed  uint64
	Seeds int
	// Gate bounds every policy, where its bounds aren't nil.
	Gate Gate
	// Report is a folder for a page, its figures and the scenario; none if empty.
	Report string
	// Given reports whether an option was asked for by its flag's name: what wasn't is
	// told as an assumption.
	Given func(flag string) bool
}

// Validate reports the first option that can't be used.
func (o *Options) Validate() error {
	g := o.Gate
	switch {
	case o.Seeds < 1:
		return fmt.Errorf("--seeds must be 1 or more, is %d", o.Seeds)
	case len(o.Policies) == 0:
		return errors.New("--policy must name at least one")
	case g.MaxCostUSD != nil && !(*g.MaxCostUSD >= 0):
		return fmt.Errorf("--max-cost must be 0 or more, is %v", *g.MaxCostUSD)
	case g.MaxViolationRatio != nil && !(*g.MaxViolationRatio >= 0 && *g.MaxViolationRatio <= 1):
		return fmt.Errorf("--max-violation must be between 0 and 1, is %v", *g.MaxViolationRatio)
	}
	for i, name := range o.Rivals {
		if _, _, err := sim.ParseScaler(name); err != nil && name != "oracle" {
			return fmt.Errorf("--rival: %w, or oracle", err)
		}
		if name == "mash2" {
			return errors.New("--rival: mash2 itself is what --policy tries")
		}
		if slices.Contains(o.Rivals[:i], name) {
			return fmt.Errorf("--rival names %s twice", name)
		}
	}
	for i, name := range o.Policies {
		if slices.Contains(o.Policies[:i], name) {
			return fmt.Errorf("--policy names %s twice", name)
		}
	}
	if err := o.History.validate(); err != nil {
		return err
	}
	return o.World.validate()
}

// Run reads the history, simulates everybody and judges.
func (o *Options) Run(ctx context.Context, progress io.Writer) (Result, error) {
	out, _, err := o.replay(ctx, progress)
	return out, err
}

// replay also returns the world that the history makes, with the text of its policies.
func (o *Options) replay(ctx context.Context, progress io.Writer) (Result, simulatedWorld, error) {
	dir := o.Report
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "mash2-whatif-"); err != nil {
			return Result{}, simulatedWorld{}, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // nothing to do about it
	}
	s, w, policies, file, err := o.load(ctx, dir, progress)
	if err != nil {
		return Result{}, simulatedWorld{}, err
	}
	h := w.history
	out := Result{History: h.summary(), Assumptions: w.assumptions, Recorded: h.recorded, Policies: o.Policies, Seed: o.Seed, Fidelity: string(sim.Fluid)}
	if out.KnownError, err = readKnownError(); err != nil {
		return out, w, err
	}
	jobs := o.jobs()
	watched := func(j job) bool { return o.Report != "" && j.seed == o.Seed }
	if err := runAll(ctx, jobs, s, policies, o.World.Spot, watched, progress); err != nil {
		return out, w, err
	}
	for _, j := range jobs {
		r, err := j.run()
		if err != nil {
			return out, w, err
		}
		out.Runs = append(out.Runs, r)
	}
	out.spots(out.sumUp(), o.Spot, cmp.Or(o.Spot.Floor, w.MinReplicas))
	out.RecordsError = out.recordsError()
	if g := o.Gate; g.MaxCostUSD != nil || g.MaxViolationRatio != nil {
		g.judge(out)
		out.Gate = &g
	}
	if o.Report != "" {
		out.ScenarioFile = filepath.Clean(file)
		if out.Report, err = out.writeReport(o.Report, h, jobs); err != nil {
			return out, w, err
		}
	}
	w.policies = policies
	return out, w, nil
}

// load reads the history and makes a scenario of it in a folder, with policies.yaml's text.
func (o *Options) load(ctx context.Context, dir string, progress io.Writer) (s scenarios.Scenario, w simulatedWorld, policies, file string, err error) {
	pools, err := o.pools()
	if err != nil {
		return s, w, "", "", input(err)
	}
	h, err := o.read(ctx, o.Given, progress)
	if err != nil {
		return s, w, "", "", err
	}
	if len(h.pools) > 0 && !o.Given("pool") {
		pools = h.pools
	}
	if policies, err = o.readPolicies(pools); err != nil {
		return s, w, "", "", input(err)
	}
	if w, err = o.world(h, pools, o.Given); err != nil {
		return s, w, "", "", input(err)
	}
	if file, err = w.write(dir); err != nil {
		return s, w, "", "", err
	}
	if s, err = scenarios.Load(file); err != nil {
		return s, w, "", "", input(fmt.Errorf("what the flags make is no scenario: %w", err))
	}
	return s, w, policies, file, nil
}

// job is one scaler, with a policy if it is mash2, and one seed.
type job struct {
	scaler, policy string
	spot           float64 // the share on spot machines; 0 without any
	seed           uint64
	outcome        score.Outcome
	transcript     []string
}

// name in tables.
func (j job) name() string {
	if j.spot > 0 {
		return fmt.Sprintf("mash2 %s, %g %% on spot", j.policy, 100*j.spot)
	}
	if j.policy != "" && score.Kind(j.scaler) == j.scaler {
		return j.scaler + " " + j.policy
	}
	return j.scaler
}

// everywhere reports whether the policy may use every pool, whatever it says itself.
func (j job) everywhere() bool {
	return j.policy != "" && (j.scaler == sim.Mash2Any || j.scaler == sim.Mash2Mixed)
}

// run scores the job.
func (j job) run() (Run, error) {
	r, err := j.outcome.Run()
	out := Run{Policy: j.policy, Run: r}
	from := float64(j.outcome.WarmupPasses) * j.outcome.PassSeconds
	for _, n := range j.outcome.Nodes {
		if n.Requested >= from {
			out.NodesBooted++
		}
	}
	return out, err
}

// jobs are all scalers with all seeds.
func (o *Options) jobs() (jobs []job) {
	for i := range o.Seeds {
		seed := o.Seed + uint64(i)
		for _, p := range o.Policies {
			jobs = append(jobs, job{scaler: sim.Mash2, policy: p, seed: seed})
			if o.Spot.Share > 0 {
				jobs = append(jobs, job{scaler: sim.Mash2, policy: p, spot: o.Spot.Share, seed: seed})
			}
		}
		for _, r := range o.Rivals {
			j := job{scaler: r, seed: seed}
			if score.Kind(r) == sim.Mash2 {
				j.policy = o.Policies[0]
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// runAll runs jobs, as many at once as there are cores; those of which watched says so keep plans
// and the transcript.
func runAll(ctx context.Context, jobs []job, s scenarios.Scenario, policies string, spot Spot, watched func(job) bool, progress io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu     sync.Mutex
		failed error
		ended  int
		wait   sync.WaitGroup
		next   = make(chan int)
		begun  = time.Now()
	)
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wait.Go(func() {
			for i := range next {
				err := jobs[i].simulate(ctx, s, policies, spot, watched != nil && watched(jobs[i]))
				mu.Lock()
				if err != nil && failed == nil {
					failed = fmt.Errorf("simulating %s, seed %d: %w", jobs[i].name(), jobs[i].seed, err)
					cancel()
				}
				ended++
				fmt.Fprintf(progress, "%d of %d simulated: %s seed %d, after %v\n", ended, len(jobs), jobs[i].name(), jobs[i].seed, time.Since(begun).Round(time.Second))
				mu.Unlock()
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	wait.Wait()
	return failed
}

// simulate runs the job; watched keeps plans and the transcript.
func (j *job) simulate(ctx context.Context, s scenarios.Scenario, policies string, spot Spot, watched bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	switch {
	case j.spot > 0:
		s, policies, err = spot.beside(s, policies, j.policy)
	case j.everywhere():
		policies, err = everywhere(s, policies, j.policy, j.scaler == sim.Mash2Mixed)
	}
	if err != nil {
		return err
	}
	if j.policy != "" {
		s.Policy.Initial = j.policy
	}
	w := simulation.World{Scenario: s, Passes: 1, Policies: policies}
	outcome, err := w.Run(ctx, j.scaler, sim.Fluid, j.seed, watched && j.scaler == "mash2")
	if err != nil {
		return err
	}
	outcome.Scaler = j.name()
	j.outcome, j.transcript = outcome, w.Transcript
	return nil
}
