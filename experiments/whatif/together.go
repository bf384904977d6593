package whatif

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// Together is what would have been of all workloads of records in one cluster, whose nodes they
// share.
type Together struct {
	// Workloads that are in it; those that can't be replayed aren't.
	Workloads int `json:"workloads"`
	// Summary is by scaler over seeds.
	Summary []Summary `json:"summary"`
	// Mixing is what the first policy would save by running each workload on the pool that suits
	// it (mixPools); nil where there is one pool.
	Mixing *MixingSaving `json:"mixing,omitempty"`
}

// MixingSaving is what a policy that may use every pool saves by mixing them.
type MixingSaving struct {
	Policy string `json:"policy"`
	// Cost of nodes relative to the same policy's with all workloads on whichever pool is the
	// best, −0.1 is a tenth less, with its 95 % interval over seeds; and by how many
	// workload-minutes more violate the SLO, on average.
	Cost                 score.Interval `json:"cost"`
	MoreViolationMinutes float64        `json:"moreViolationMinutes"`
	// SavingUSD30Days is by how much less nodes cost in thirty such days, USD.
	SavingUSD30Days float64 `json:"savingUsd30Days"`
}

// together replays workloads in one cluster: under each policy, beside the rivals, and the first
// policy with every pool, on the best of them and mixed.
func (o *Options) together(ctx context.Context, worlds []simulatedWorld, policies string, progress io.Writer) (*Together, error) {
	dir, err := os.MkdirTemp("", "mash2-whatif-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing to do about it
	file, err := writeFleet(dir, worlds)
	if err != nil {
		return nil, err
	}
	s, err := scenarios.Load(file)
	if err != nil {
		return nil, input(fmt.Errorf("the workloads together are no scenario: %w", err))
	}
	alone := *o
	alone.Spot.Share = 0
	first := o.Policies[0]
	var jobs []job
	for _, j := range alone.jobs() {
		if jobs = append(jobs, j); j.policy != first || j.scaler != sim.Mash2 || len(s.Pools) < 2 {
			continue
		}
		for _, scaler := range []string{sim.Mash2Any, sim.Mash2Mixed} {
			jobs = append(jobs, job{scaler: scaler, policy: first, seed: j.seed})
		}
	}
	fmt.Fprintf(progress, "all %d in one cluster\n", len(worlds))
	if err := runAll(ctx, jobs, s, policies, alone.World.Spot, nil, progress); err != nil {
		return nil, err
	}
	out := Result{Policies: o.Policies}
	for _, j := range jobs {
		r, err := j.run()
		if err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, r)
	}
	runs := out.sumUp()
	t := &Together{Workloads: len(worlds), Summary: out.Summary}
	if len(s.Pools) > 1 {
		one, mixed := out.named(job{scaler: sim.Mash2Any, policy: first}.name()), out.named(job{scaler: sim.Mash2Mixed, policy: first}.name())
		t.Mixing = &MixingSaving{
			Policy:               first,
			Cost:                 score.Relative(runs, mixed.Scaler, one.Scaler, score.MetricNamed("costUsd")),
			MoreViolationMinutes: mixed.Mean("sloViolationMinutes") - one.Mean("sloViolationMinutes"),
			SavingUSD30Days:      one.CostUSD30Days - mixed.CostUSD30Days,
		}
	}
	return t, nil
}

// everywhere are policies of which one may use every pool of a scenario, mixed or the best of
// them.
func everywhere(s scenarios.Scenario, policies, policy string, mixed bool) (string, error) {
	var pools []string
	for _, p := range s.Pools {
		pools = append(pools, p.Name)
	}
	return withPolicy(policies, policy, map[string]any{"nodePools": pools, "mixPools": mixed})
}

// withPolicy sets fields of one policy of a policies.yaml, which may be empty.
func withPolicy(policies, policy string, fields map[string]any) (string, error) {
	all := map[string]any{}
	if err := yaml.Unmarshal([]byte(policies), &all); err != nil {
		return "", fmt.Errorf("%s: %w", configmap.KeyPolicies, err)
	}
	under := func(in map[string]any, key string) map[string]any {
		m, ok := in[key].(map[string]any)
		if !ok {
			m = map[string]any{}
			in[key] = m
		}
		return m
	}
	own := under(under(all, "policies"), policy)
	for key, value := range fields {
		own[key] = value
	}
	text, err := yaml.Marshal(all)
	return string(text), err
}

// writeFleet writes a scenario of several workloads, with load of their own, into a folder.
func writeFleet(dir string, worlds []simulatedWorld) (file string, err error) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	first := worlds[0]
	window := first.history.to.Sub(first.history.from)
	warm := first.history.warm
	for _, w := range worlds {
		warm = min(warm, w.history.warm)
	}
	line("name: whatif")
	line("description: CPU that %d workloads used from %s to %s, asked for again as requests of %v each.",
		len(worlds), first.history.from.UTC().Format(time.RFC3339), first.history.to.UTC().Format(time.RFC3339), first.RequestCPU)
	line("startVUs: 0")
	line("warmup: {passes: %d}", warm)
	first.requests(line)
	var users strings.Builder
	line("workload: {%s}", strings.Join(first.podLines(), ", ")) // which all services replace
	line("services:")
	for i, w := range worlds {
		name := fmt.Sprintf("w%03d", i)
		line("  - {name: %s, %s}", name, strings.Join(w.podLines(), ", "))
		if err := w.writeDemand(filepath.Join(dir, name+".csv")); err != nil {
			return "", err
		}
		fmt.Fprintf(&users, "  - {name: %s, arrivals: {csv: %s.csv, column: requestsPerSecond, step: %v, from: %v, length: %v}, request: {service: %s}}\n",
			name, name, w.history.series.Step, time.Duration(w.history.warm)*window, window, name)
	}
	line("users:\n%s", strings.TrimRight(users.String(), "\n"))
	first.nodes(line, len(worlds))
	file = filepath.Join(dir, "scenario.yaml")
	return file, os.WriteFile(file, []byte(b.String()), 0o644)
}

// sameStretch are the worlds whose history is of the same stretch as the first one's, and the
// names of the others.
func sameStretch(worlds []simulatedWorld) (same []simulatedWorld, others []string) {
	for _, w := range worlds {
		a, b := w.history, worlds[0].history
		if a.from.Equal(b.from) && a.to.Equal(b.to) && slices.EqualFunc(a.pools, b.pools, func(p, q scenarios.Pool) bool { return p.Name == q.Name }) {
			same = append(same, w)
		} else {
			others = append(others, a.source)
		}
	}
	return same, others
}

// Header and Rows of the table.
func (t Together) Header() []string {
	return []string{"scaler, in one cluster", "violated, workload-min", "nodes, $", "of 30 days, $", "pods, $", "scalings"}
}

// Rows are the means over seeds.
func (t Together) Rows() [][]string {
	var out [][]string
	for _, s := range t.Summary {
		row := []string{s.Scaler}
		for _, metric := range []string{"sloViolationMinutes", "costUsd", "", "podCostUsd", "scaleActions"} {
			if metric == "" {
				row = append(row, fmt.Sprintf("%.2f", s.CostUSD30Days))
				continue
			}
			m := score.MetricNamed(metric)
			row = append(row, s.Metrics[m.Name].Text(m))
		}
		out = append(out, row)
	}
	return out
}

// Sentences say what mixing saves.
func (t Together) Sentences() []string {
	m := t.Mixing
	if m == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s with every pool, each workload on the one that suits it (mixPools): its nodes cost %s beside all workloads on the best one, %.2f USD less in 30 days, with %+.1f workload-minutes in violation",
		m.Policy, m.Cost.Text(score.Percent), m.SavingUSD30Days, m.MoreViolationMinutes)}
}
