// Command scale measures the pure steps of a cycle in process, at growing sizes of a
// cluster, and prints one JSON line per size and step. A time on one machine says little
// about another one, so that each is also told as a ratio to a fixed loop of sorting and
// looking up in the same run: of processor time, which other processes change little. It
// exits 1 when a ratio leaves the range that was calibrated for it.
package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning"
)

// line is what is printed of a step at a size.
type line struct {
	Nodes     int     `json:"nodes"`
	Pods      int     `json:"pods"`
	Workloads int     `json:"workloads"`
	Step      string  `json:"step"`
	P50Ms     float64 `json:"p50Ms"`
	P99Ms     float64 `json:"p99Ms"`
	RSSMiB    float64 `json:"rssMiB"` // of the whole process, after a collection
	// Ratio of the processor time of a run to that of the reference loop: of the least of each,
	// or the mean of runs that differ in what there is to do.
	Ratio float64 `json:"ratio"`
}

// key of a line's range.
func (l line) key() string { return fmt.Sprintf("%d/%s", l.Nodes, l.Step) }

// options of a run.
type options struct {
	sizes       string // in nodes, with commas between
	podsPerNode int
	workloads   int    // as many as nodes if 0
	steps       string // by name, with commas between; all if empty
	runs        int
	calibrate   string // file
	growth      string // file
}

// usual is the shape that ranges are of.
var usual = options{sizes: "100,300,1000", podsPerNode: 30, runs: 20}

// slack is how much more than the largest calibrated ratio is still let pass.
const slack = 0.15

//go:embed ranges.json
var calibrated []byte

func main() {
	var o options
	flag.StringVar(&o.sizes, "nodes", usual.sizes, "sizes, in nodes")
	flag.IntVar(&o.podsPerNode, "pods-per-node", usual.podsPerNode, "pods on each node; there are no ranges for other numbers than the default")
	flag.IntVar(&o.workloads, "workloads", usual.workloads, "workloads, of which nodes must be a multiple; as many as nodes if 0")
	flag.IntVar(&o.runs, "runs", usual.runs, "times that each step is run")
	flag.StringVar(&o.steps, "steps", usual.steps, "steps to run, by name, with commas between; all if empty")
	flag.StringVar(&o.calibrate, "calibrate", usual.calibrate, "file to write the largest ratio of each step to; what it has already is kept where larger")
	flag.StringVar(&o.growth, "growth", usual.growth, "PNG file to draw how steps grow with the size; then the exponents are printed, too")
	flag.Parse()
	ok, err := run(os.Stdout, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

func run(out io.Writer, o options) (ok bool, err error) {
	most := map[string]float64{}
	if err := json.Unmarshal(calibrated, &most); err != nil {
		return false, fmt.Errorf("ranges.json: %w", err)
	}
	if o.podsPerNode != usual.podsPerNode || o.workloads != usual.workloads {
		if clear(most); o.calibrate != "" {
			return false, errors.New("--calibrate: ranges are of the default --pods-per-node and --workloads")
		}
	}
	if o.calibrate != "" {
		clear(most)
		switch text, err := os.ReadFile(o.calibrate); {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return false, err
		default:
			if err := json.Unmarshal(text, &most); err != nil {
				return false, fmt.Errorf("--calibrate: %s: %w", o.calibrate, err)
			}
		}
	}
	if o.runs < 1 {
		return false, fmt.Errorf("--runs: must be 1 or more, is %d", o.runs)
	}
	if o.podsPerNode < 1 || o.podsPerNode > 110 {
		return false, fmt.Errorf("--pods-per-node: must be from 1 to 110, is %d", o.podsPerNode)
	}
	var lines []line
	for _, text := range strings.Split(o.sizes, ",") {
		nodes, err := strconv.Atoi(text)
		if err != nil || nodes < 10 {
			return false, fmt.Errorf("--nodes: %q is not a size of 10 or more", text)
		}
		s := size{nodes, o.podsPerNode, cmp.Or(o.workloads, nodes)}
		if s.workloads < 1 || nodes%s.workloads > 0 {
			return false, fmt.Errorf("--workloads: %d nodes are no multiple of %d", nodes, s.workloads)
		}
		of, err := measure(s, o.runs, o.steps)
		for again := 0; err == nil && o.calibrate == "" && again < 2 && len(leaves(of, most)) > 0; again++ {
			err = repeat(of, s, o.runs, most)
		}
		if err != nil {
			return false, err
		}
		for _, l := range of {
			if err := json.NewEncoder(out).Encode(l); err != nil {
				return false, err
			}
		}
		lines = append(lines, of...)
	}
	if o.growth != "" {
		for _, g := range grows(lines) {
			if err := json.NewEncoder(out).Encode(g); err != nil {
				return false, err
			}
		}
		if err := drawGrowth(o.growth, lines); err != nil {
			return false, err
		}
	}
	if o.calibrate != "" {
		for _, l := range lines {
			most[l.key()] = max(most[l.key()], l.Ratio)
		}
		text, err := json.MarshalIndent(most, "", "  ")
		if err != nil {
			return false, err
		}
		return true, os.WriteFile(o.calibrate, append(text, '\n'), 0o644)
	}
	left := leaves(lines, most)
	for _, why := range left {
		fmt.Fprintln(os.Stderr, why)
	}
	return len(left) == 0, nil
}

// repeat measures steps that leave their ranges once more, and keeps the lower ratio: a
// step that has become slower is slow each time.
func repeat(lines []line, of size, runs int, most map[string]float64) error {
	for i, l := range lines {
		if len(leaves(lines[i:i+1], most)) == 0 {
			continue
		}
		again, err := measure(of, runs, l.Step)
		if err != nil {
			return err
		}
		if again[0].Ratio < l.Ratio {
			lines[i] = again[0]
		}
	}
	return nil
}

// leaves says which lines leave their range; sizes that were never calibrated have none.
func leaves(lines []line, most map[string]float64) []string {
	var out []string
	for _, l := range lines {
		if top, ok := most[l.key()]; ok && l.Ratio > top*(1+slack) {
			out = append(out, fmt.Sprintf("%d nodes, %s: %.3g times the reference loop, the largest calibrated is %.3g", l.Nodes, l.Step, l.Ratio, top))
		}
	}
	return out
}

// step is what is measured; it fails when it has not done what it is for.
type step struct {
	name  string
	do    func() error
	moves bool // from one run to the next
}

// measure runs steps at a size, all if none are named. The reference loop is run before every step's run:
// what else the machine does, it does to both.
func measure(of size, runs int, only string) ([]line, error) {
	all, pods, err := stepsOf(of)
	if err != nil {
		return nil, err
	}
	if only != "" {
		names := strings.Split(only, ",")
		if all = slices.DeleteFunc(all, func(s step) bool { return !slices.Contains(names, s.name) }); len(all) != len(names) {
			return nil, fmt.Errorf("--steps: %q names a step that there is not", only)
		}
	}
	out := make([]line, 0, len(all))
	for _, s := range all {
		runtime.GC()
		if err := s.do(); err != nil { // warm
			return nil, fmt.Errorf("%d nodes, %s: %w", of.nodes, s.name, err)
		}
		var times, spent, reference []time.Duration
		for range runs {
			_, cpu := timed(refer)
			reference = append(reference, cpu)
			var err error
			wall, cpu := timed(func() { err = s.do() })
			times, spent = append(times, wall), append(spent, cpu)
			if err != nil {
				return nil, fmt.Errorf("%d nodes, %s: %w", of.nodes, s.name, err)
			}
		}
		debug.FreeOSMemory()
		cost := quantile(spent, 0) // what else the machine does only adds to it
		if s.moves {
			cost = mean(spent)
		}
		out = append(out, line{
			Nodes: of.nodes, Pods: pods, Workloads: of.workloads, Step: s.name,
			P50Ms: ms(quantile(times, 0.5)), P99Ms: ms(quantile(times, 0.99)), RSSMiB: resident(),
			Ratio: float64(cost) / float64(quantile(reference, 0)),
		})
	}
	runtime.KeepAlive(all)
	return out, nil
}

// stepsOf are a plan in the steady state, a minute after the one before, one half an hour
// after load has begun to fall, the first one after a start, in which the most forecasts are
// made, the first one after a policy switch and one in the midst of its move, one with half
// of all pods on spot machines and one of copies that are spread over zones, the actions
// of the steady state, of a shrink by a tenth and in the midst of that move, and a plan of a
// cluster in which each workload has requests of its own.
func stepsOf(of size) (all []step, pods int, err error) {
	hierarchy, err := core.DefaultConfig().Hierarchy()
	if err != nil {
		return nil, 0, err
	}
	planned := func(s api.Snapshot, p api.Policy, m planning.Memory) (planning.Memory, error) {
		plan, m := hierarchy.Plan(s, p, m)
		if len(plan.Workloads) != of.workloads {
			return m, fmt.Errorf("%d of %d workloads are planned", len(plan.Workloads), of.workloads)
		}
		return m, nil
	}
	// known is a world's memory once all forecasts are made, of which a cycle makes some.
	known := func(w world) (m planning.Memory) {
		for range 25 {
			_, m = hierarchy.Plan(w.snapshot, w.policy, m)
		}
		return m
	}
	// moving plans a minute after the plan before.
	moving := func(of func() (world, planning.Memory)) func() error {
		later, m := 0, planning.Memory{}
		return func() (err error) {
			w, first := of()
			if later == 0 || later == after {
				later, m = 0, first
			}
			later++
			m, err = planned(w.at(later), w.policy, m)
			return err
		}
	}
	w := steady(of, false)
	still, policy := w.snapshot, w.policy
	memory := known(w)
	plan, _ := hierarchy.Plan(still, policy, memory)
	sized := sync.OnceValues(func() (world, planning.Memory) { // when its turn comes: it is as large again
		s := steady(of, true)
		return s, known(s)
	})
	fallen := sync.OnceValues(func() (world, planning.Memory) {
		f, m := w.falling(), memory
		for later := range 30 {
			_, m = hierarchy.Plan(f.at(later+1), policy, m)
		}
		return f, m
	})
	spot, zonal := sync.OnceValue(w.spot), sync.OnceValue(w.zonal)
	small, shrunk := shrinking(still)
	moved, target, to := switching(still)
	acts := func(s api.Snapshot, p api.Plan, policy api.Policy, least int) func() error {
		return func() error {
			if actions, findings := execution.Sequence(s, p, policy); len(actions)+len(findings) < least {
				return fmt.Errorf("%d actions and %d findings, at least %d were to be", len(actions), len(findings), least)
			}
			return nil
		}
	}
	return []step{
		{name: "plan", do: moving(func() (world, planning.Memory) { return w, memory }), moves: true},
		{name: "falling", do: func() error {
			f, m := fallen()
			_, err := planned(f.at(31), policy, m)
			return err
		}},
		{name: "cold", do: func() error {
			_, err := planned(still, policy, planning.Memory{})
			return err
		}},
		{name: "plan switch", do: func() error { // the first one of another policy
			_, err := planned(still, to, memory)
			return err
		}},
		{name: "plan move", do: func() error {
			_, err := planned(moved, to, memory)
			return err
		}},
		{name: "plan spot", do: func() error {
			s := spot()
			_, err := planned(s.snapshot, s.policy, memory)
			return err
		}},
		{name: "plan zones", do: func() error {
			z := zonal()
			_, err := planned(z.snapshot, z.policy, memory)
			return err
		}},
		{name: "sequence", do: acts(still, plan, policy, 0)},
		{name: "shrink", do: acts(small, shrunk, policy, of.nodes/10)},
		{name: "switch", do: acts(moved, target, to, 1)},
		{name: "plan sized", do: moving(sized), moves: true},
	}, len(still.Pods), nil
}

// refer is the loop that others are compared with: sorting, and looking up.
func refer() {
	const n = 100_000
	numbers := make([]uint32, n)
	index := make(map[uint32]int, n)
	x := uint32(1)
	for i := range numbers {
		x = x*1664525 + 1013904223
		numbers[i], index[x] = x, i
	}
	slices.Sort(numbers)
	sum := 0
	for _, v := range numbers {
		sum += index[v]
	}
	runtime.KeepAlive(sum)
}

// timed says how long do took, and how much time of processors this process used
// meanwhile. Other processes make the first longer, and hardly the second.
func timed(do func()) (wall, cpu time.Duration) {
	began, used := time.Now(), processorTime()
	do()
	return time.Since(began), processorTime() - used
}

// processorTime that this process has used since it began, on all processors.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // not for this process
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// quantile q of times, the next larger one of them.
func quantile(times []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func mean(times []time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, t := range times {
		sum += t
	}
	return sum / time.Duration(len(times))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// resident is the process' memory in MiB as Linux counts it; 0 elsewhere.
func resident() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}
