package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/experiments/verdict/bound"
)

// load is a trace, or a fleet of them, at a size.
type load struct {
	set, name string
	size      float64
	scenario  scenarios.Scenario
}

// figure is what a scaler did on a load with a seed.
type figure struct {
	Size   float64 `json:"size"`
	Set    string  `json:"set"`
	Trace  string  `json:"trace"`
	Scaler string  `json:"scaler"`
	Seed   uint64  `json:"seed"`
	Cost   float64 `json:"costUsd"`
	// Minutes with traffic, of all workloads, and those of them that violate the
	// SLO; Violating has these by workload, minutes since the measured passes began.
	Minutes   int     `json:"minutes"`
	Violated  int     `json:"violated"`
	Violating [][]int `json:"violating"`
	Scalings  int     `json:"scalings"`
	Starts    int     `json:"podStarts"`
	P95Ms     float64 `json:"p95Ms"`
	P99Ms     float64 `json:"p99Ms"`
	Replicas  float64 `json:"meanReplicas"`
	Seconds   float64 `json:"seconds"` // it took
}

// job is one run to be made.
type job struct {
	load   load
	config config
	seed   uint64
}

// run makes all jobs, cheap ones first, as many at a time as there are workers.
func (o options) run(ctx context.Context, jobs []job) ([]figure, error) {
	kept, err := openKeeper(o.keep)
	if err != nil {
		return nil, fmt.Errorf("the figures that are kept: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b job) int { return a.weight() - b.weight() })
	out := make([]figure, len(jobs))
	var mu sync.Mutex
	var failed error
	next, done := 0, 0
	begun := time.Now()
	var group sync.WaitGroup
	for range max(1, o.workers) {
		group.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				over := i >= len(jobs) || failed != nil
				mu.Unlock()
				if over {
					return
				}
				f, err := kept.run(ctx, jobs[i])
				mu.Lock()
				out[i] = f
				if err != nil && failed == nil {
					failed = fmt.Errorf("%s at %g× with %s: %w", jobs[i].load.name, jobs[i].load.size, jobs[i].config, err)
					stop()
				}
				done++
				fmt.Fprintf(o.progress, "%d of %d after %v: %s at %g× with %s, %.1f s\n", done, len(jobs), time.Since(begun).Round(time.Second),
					jobs[i].load.name, jobs[i].load.size, jobs[i].config, f.Seconds)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return out, failed
}

// settled is how long before the measured passes a scaler begins that remembers minutes.
const settled = 2 * time.Hour

// weight orders jobs by what they take: larger sizes later, our own loop last.
func (j job) weight() int {
	w := int(2 * j.load.size * float64(len(j.load.scenario.Deployments())))
	if j.config.own() {
		w *= 8
	}
	return w
}

func (j job) run(ctx context.Context) (figure, error) {
	f := figure{Size: j.load.size, Set: j.load.set, Trace: j.load.name, Scaler: j.config.String(), Seed: j.seed}
	s, err := j.config.on(j.load.scenario)
	if err != nil {
		return f, err
	}
	world := simulation.World{Scenario: s, Passes: max(1, s.Repeat), Tuning: j.config.tuning(), Policies: j.config.Policies, Foresight: j.config.Foresight}
	if !j.config.own() {
		world.Skipped = max(0, time.Duration(s.Warmup.Passes)*s.PassDuration()-settled)
	}
	outcome, err := world.Run(ctx, j.config.scaler(), sim.Fluid, j.seed, false)
	if err != nil {
		return f, err
	}
	r, err := outcome.Run()
	if err != nil {
		return f, err
	}
	f.Cost, f.Violated, f.Scalings, f.Starts, f.Seconds = r.CostUSD, r.SLOViolationMinutes, r.ScaleActions, r.PodStarts, outcome.WallSeconds
	for value, to := range map[*float64]*float64{r.P95Ms: &f.P95Ms, r.P99Ms: &f.P99Ms, r.MeanReplicas: &f.Replicas} {
		if value != nil {
			*to = *value
		}
	}
	for _, w := range outcome.Workloads {
		f.Minutes += w.Measured.Minutes
		f.Violating = append(f.Violating, w.Measured.Violating)
	}
	return f, nil
}

// loads are the traces of a set at the sizes; only, if there are any, names those
// that are wanted.
func loads(folder, set string, sizes []float64, only []string) ([]load, error) {
	files, err := filepath.Glob(filepath.Join(folder, set, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var out []load
	for _, size := range sizes {
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".yaml")
			if len(only) > 0 && !slices.Contains(only, name) {
				continue
			}
			s, err := scenarios.LoadWith(file, scenarios.Changes{Warmup: -1, Scale: size})
			if err != nil {
				return nil, err
			}
			out = append(out, load{set, name, size, s})
		}
	}
	return out, nil
}

// lowest is the bound of a load on cost, USD, of its measured passes. Minute by minute
// the demand is the lowest of any second of it, and no less than the mean by fractions
// of machines; of it go the share that may fail and, of the lowest, the one in twenty
// that may be late.
func (l load) lowest(seed uint64) (float64, error) {
	s := l.scenario
	machines, err := sim.MachinesOf(s)
	if err != nil {
		return 0, err
	}
	var types []bound.Machine
	cheapest := 0.0 // USD per hour and reference core
	for i, m := range machines {
		types = append(types, bound.Machine{Price: m.Price, Capacity: m.Capacity, Pods: m.Pods})
		if per := m.Price / m.Capacity; i == 0 || per < cheapest {
			cheapest = per
		}
	}
	pods := int64(0)
	for _, d := range s.Deployments() {
		pods += int64(d.Replicas.Min) * int64(max(1, s.Copies))
	}
	passes, pass := max(1, s.Repeat), s.PassDuration()
	first := time.Duration(s.Warmup.Passes) * pass
	var demand []func(time.Duration) float64
	for i, u := range s.UserTypes() {
		work := 0.0
		for _, seconds := range u.MeanWork() {
			work += seconds
		}
		for n := range max(1, s.Copies) {
			t := s.TrafficOf(i, s.Warmup.Passes+passes, seed+uint64(n)<<32)
			t.Shift = time.Duration(n) * pass / time.Duration(max(1, s.Copies))
			if !t.Open() {
				return 0, fmt.Errorf("scenario %s: the bound is of arrivals only", s.Name)
			}
			demand = append(demand, func(at time.Duration) float64 { return t.RPS(at) * work * (1 - u.SLO.FailedRatio) })
		}
	}
	const late = 0.05
	var needs []float64
	known := map[int64]float64{}
	for at := first; at < first+time.Duration(passes)*pass; at += time.Minute {
		low, sum, n := 0.0, 0.0, 0
		for second := at; second < at+time.Minute; second += time.Second {
			d := 0.0
			for _, of := range demand {
				d += of(second)
			}
			if n == 0 || d < low {
				low = d
			}
			sum, n = sum+d, n+1
		}
		// Rounded down: so few different covers need to be sought.
		unit := types[0].Capacity / 64
		key := int64(low * (1 - late) / unit)
		cover, ok := known[key]
		if !ok {
			cover = bound.Cover(types, float64(key)*unit, pods)
			known[key] = cover
		}
		needs = append(needs, max(cover, cheapest*sum/float64(n)))
	}
	p := sim.DefaultParams()
	return bound.Cheapest(needs, time.Minute, p.LeastPaid(s)), nil
}

// write makes a file of the verdict's folder.
func write(folder, name string, to func(io.Writer) error) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	if err := to(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
