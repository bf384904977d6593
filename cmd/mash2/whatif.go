package main

import (
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

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/simulation"
)

// whatifFlags are the settings of mash2 whatif.
type whatifFlags struct {
	historyFlags
	worldFlags
	policies, rivals []string
	policiesFile     string
	seed             uint64
	seeds            int
	maxCost          float64
	maxViolation     float64
	report           string
}

func newWhatif() *cobra.Command {
	var o whatifFlags
	cmd := &cobra.Command{
		Use:   "whatif",
		Short: "Replays a workload's own history under each policy and each rival",
		Long: `Reads the CPU that a workload has used, from Prometheus or from a file, lets the same
demand come in virtual time, and tells what each policy and each rival would have
done with it: minutes in violation of the SLO, node-hours, money, scalings.

  mash2 whatif --prometheus http://prometheus:9090 \
    --selector 'namespace="shop",pod=~"web-.+"' --from 48h --to 24h --report out/whatif
  mash2 whatif --trace cpu.csv.gz --from 24h --policy COST_SAVING

The stretch from --from to --to is what counts. As much time before it, once or
--warm-passes times, is the history that every scaler has seen.

CPU usage says nothing of what a request costs, of latencies, of pods and of nodes:
these are flags, and whatever isn't given is told as an assumption. Requests and
limits are read from kube-state-metrics where Prometheus has it.

As a gate: --max-cost and --max-violation bound every policy that is asked for; if
one exceeds them the exit code is 1 and a sentence says what did.`,
		Args: cli.NoArgs,
	}
	o.historyFlags.register(cmd)
	o.worldFlags.register(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&o.policies, "policy", []string{"COST_SAVING", "PERFORMANCE"}, "policies to try, each for the whole time")
	f.StringVar(&o.policiesFile, "policies-file", "", "policies.yaml as in the policy ConfigMap, with node pools named as in --pool; without it COST_SAVING has the first pool and PERFORMANCE the last")
	f.StringSliceVar(&o.rivals, "rival", []string{"hpa:50", "hpa:60", "hpa:70", "hpa:80", "hpa:90", "hpa-overprovisioned", "keda-rps", "phpa", "karpenter", "static", "oracle"},
		"what to compare with, as in mash2 simulate --scaler; mash2:PERCENT is the first policy at another target")
	f.Uint64Var(&o.seed, "seed", 1, "of all that is random")
	f.IntVar(&o.seeds, "seeds", 1, "number of seeds, from --seed on; with several, 95 % intervals are shown")
	f.Float64Var(&o.maxCost, "max-cost", 0, "most that the nodes of a policy may cost in the whole stretch, USD")
	f.Float64Var(&o.maxViolation, "max-violation", 0, "most minutes in violation of the SLO that a policy may have, as a share of those with traffic, 0 to 1")
	f.StringVar(&o.report, "report", "", "folder for an HTML report, its figures, and the scenario with its demand")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		g := gate{}
		if cmd.Flags().Changed("max-cost") {
			g.MaxCostUSD = &o.maxCost
		}
		if cmd.Flags().Changed("max-violation") {
			g.MaxViolationRatio = &o.maxViolation
		}
		if err := o.validate(g); err != nil {
			return cli.Usage(err)
		}
		given := func(flag string) bool { return cmd.Flags().Changed(flag) }
		out, err := o.run(cmd.Context(), given, g, cli.ProgressTo(cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		if err := show(out, out.text()); err != nil {
			return err
		}
		if out.Gate != nil && !out.Gate.Passed {
			return errors.New(out.Gate.sentence())
		}
		return nil
	}
	return cmd
}

// validate reports the first flag that can't be used, but for those of history
// and world, which have functions of their own.
func (o *whatifFlags) validate(g gate) error {
	switch {
	case o.seeds < 1:
		return fmt.Errorf("--seeds must be 1 or more, is %d", o.seeds)
	case len(o.policies) == 0:
		return errors.New("--policy must name at least one")
	case g.MaxCostUSD != nil && !(*g.MaxCostUSD >= 0):
		return fmt.Errorf("--max-cost must be 0 or more, is %v", *g.MaxCostUSD)
	case g.MaxViolationRatio != nil && !(*g.MaxViolationRatio >= 0 && *g.MaxViolationRatio <= 1):
		return fmt.Errorf("--max-violation must be between 0 and 1, is %v", *g.MaxViolationRatio)
	}
	for i, name := range o.rivals {
		if _, _, err := sim.ParseScaler(name); err != nil && name != "oracle" {
			return fmt.Errorf("--rival: %w, or oracle", err)
		}
		if name == "mash2" {
			return errors.New("--rival: mash2 itself is what --policy tries")
		}
		if slices.Contains(o.rivals[:i], name) {
			return fmt.Errorf("--rival names %s twice", name)
		}
	}
	for i, name := range o.policies {
		if slices.Contains(o.policies[:i], name) {
			return fmt.Errorf("--policy names %s twice", name)
		}
	}
	if err := o.historyFlags.validate(); err != nil {
		return err
	}
	return o.worldFlags.validate()
}

// run reads the history, simulates everybody and judges.
func (o *whatifFlags) run(ctx context.Context, given func(flag string) bool, g gate, progress io.Writer) (whatif, error) {
	pools, err := o.pools()
	if err != nil {
		return whatif{}, cli.Usage(err)
	}
	policies, err := o.readPolicies(pools)
	if err != nil {
		return whatif{}, cli.Usage(err)
	}
	h, err := o.read(ctx, given, progress)
	if err != nil {
		return whatif{}, err
	}
	w, err := o.world(h, pools, given)
	if err != nil {
		return whatif{}, cli.Usage(err)
	}
	dir := o.report
	if dir == "" {
		if dir, err = os.MkdirTemp("", "mash2-whatif-"); err != nil {
			return whatif{}, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // nothing to do about it
	}
	file, err := w.write(dir)
	if err != nil {
		return whatif{}, err
	}
	s, err := scenarios.Load(file)
	if err != nil {
		return whatif{}, cli.Usage(fmt.Errorf("what the flags make is no scenario: %w", err))
	}
	out := whatif{History: h.summary(), Assumptions: w.assumptions, Policies: o.policies, Seed: o.seed, Fidelity: string(sim.Fluid)}
	if out.KnownError, err = readKnownError(); err != nil {
		return out, err
	}
	jobs, err := o.simulate(ctx, s, policies, progress)
	if err != nil {
		return out, err
	}
	for _, j := range jobs {
		r, err := j.run()
		if err != nil {
			return out, err
		}
		out.Runs = append(out.Runs, r)
	}
	out.sumUp()
	if g.MaxCostUSD != nil || g.MaxViolationRatio != nil {
		g.judge(out)
		out.Gate = &g
	}
	if o.report != "" {
		out.ScenarioFile = filepath.Clean(file)
		if out.Report, err = out.writeReport(o.report, h, jobs); err != nil {
			return out, err
		}
	}
	return out, nil
}

// job is one scaler, with a policy if it is mash2, and one seed.
type job struct {
	scaler, policy string
	seed           uint64
	outcome        score.Outcome
	transcript     []string
}

// name in tables.
func (j job) name() string {
	if j.scaler == "mash2" {
		return "mash2 " + j.policy
	}
	return j.scaler
}

// run scores the job.
func (j job) run() (whatifRun, error) {
	r, err := j.outcome.Run()
	out := whatifRun{Policy: j.policy, Run: r}
	from := float64(j.outcome.WarmupPasses) * j.outcome.PassSeconds
	for _, n := range j.outcome.Nodes {
		if n.Requested >= from {
			out.NodesBooted++
		}
	}
	return out, err
}

// simulate runs all scalers with all seeds, as many at once as there are cores.
func (o *whatifFlags) simulate(ctx context.Context, s scenarios.Scenario, policies string, progress io.Writer) ([]job, error) {
	var jobs []job
	for i := range o.seeds {
		seed := o.seed + uint64(i)
		for _, p := range o.policies {
			jobs = append(jobs, job{scaler: "mash2", policy: p, seed: seed})
		}
		for _, r := range o.rivals {
			j := job{scaler: r, seed: seed}
			if score.Kind(r) == "mash2" {
				j.policy = o.policies[0]
			}
			jobs = append(jobs, j)
		}
	}
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
				err := jobs[i].simulate(ctx, s, policies, o.report != "" && jobs[i].seed == o.seed)
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
	return jobs, failed
}

// simulate runs the job; watched keeps plans and the transcript.
func (j *job) simulate(ctx context.Context, s scenarios.Scenario, policies string, watched bool) error {
	if err := ctx.Err(); err != nil {
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
