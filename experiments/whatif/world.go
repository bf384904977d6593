package whatif

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// World says what a history of CPU usage cannot: what a request costs, what counts
// as good service, pods and nodes. In errors fields have the names of mash2 whatif's
// flags.
type World struct {
	// RequestCPU is the mean CPU time of a request on a core of n2; who sent it gives
	// up after Timeout.
	RequestCPU, Timeout time.Duration
	// SLOP95 and SLOFailed, 0–1, are the bounds beyond which a minute is in violation.
	SLOP95    time.Duration
	SLOFailed float64
	// Quantities of a pod; a limit may be empty.
	CPURequest, CPULimit, MemoryRequest, MemoryLimit string
	// MaxReplicas of 0 is what the highest use needs at a utilisation of 30 %.
	MinReplicas, MaxReplicas int32
	// PoolNames are machine types or NAME=TYPE; rivals have the first. MaxNodes of
	// each, 0 is unlimited.
	PoolNames []string
	MaxNodes  int32
	// Boot is the median time from a node's creation until it is Ready.
	Boot time.Duration
	// MeasuredOn is the machine type whose cores the history is of; the first pool's
	// if empty.
	MeasuredOn string
	// Noise is the standard deviation of what comes on top, as a share.
	Noise float64
}

func (o *World) validate() error {
	switch {
	case o.RequestCPU < 10*time.Microsecond || o.RequestCPU > time.Minute:
		return fmt.Errorf("--request-cpu must be between 10us and 1m, is %v", o.RequestCPU)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout must be positive, is %v", o.Timeout)
	case o.SLOP95 <= 0:
		return fmt.Errorf("--slo-p95 must be positive, is %v", o.SLOP95)
	case !(o.SLOFailed >= 0 && o.SLOFailed <= 1):
		return fmt.Errorf("--slo-failed must be between 0 and 1, is %v", o.SLOFailed)
	case o.MinReplicas < 1:
		return fmt.Errorf("--min-replicas must be 1 or more, is %d", o.MinReplicas)
	case o.MaxReplicas != 0 && o.MaxReplicas < o.MinReplicas:
		return fmt.Errorf("--max-replicas %d is below --min-replicas %d", o.MaxReplicas, o.MinReplicas)
	case o.MaxNodes < 0:
		return fmt.Errorf("--max-nodes must not be negative, is %d", o.MaxNodes)
	case o.Boot < time.Second || o.Boot > time.Hour:
		return fmt.Errorf("--boot must be between 1s and 1h, is %v", o.Boot)
	case !(o.Noise >= 0 && o.Noise <= 2):
		return fmt.Errorf("--noise must be between 0 and 2, is %v", o.Noise)
	}
	for flag, text := range map[string]string{"cpu-request": o.CPURequest, "cpu-limit": o.CPULimit, "memory-request": o.MemoryRequest, "memory-limit": o.MemoryLimit} {
		if text == "" {
			continue
		}
		if q, err := resource.ParseQuantity(text); err != nil || q.Sign() < 0 || q.Sign() == 0 && !strings.HasSuffix(flag, "-limit") {
			return fmt.Errorf("--%s %q is not a quantity such as 250m or 128Mi", flag, text)
		}
	}
	if _, known := gkesim.Machines[o.MeasuredOn]; o.MeasuredOn != "" && !known {
		return fmt.Errorf("--measured-on: machine type %q is not known", o.MeasuredOn)
	}
	return nil
}

// pools of --pool.
func (o *World) pools() ([]scenarios.Pool, error) {
	var out []scenarios.Pool
	for _, text := range o.PoolNames {
		name, machine, named := strings.Cut(text, "=")
		if !named {
			machine = name
		}
		if _, known := gkesim.Machines[machine]; !known {
			return nil, fmt.Errorf("--pool: machine type %q is not known", machine)
		}
		if slices.ContainsFunc(out, func(p scenarios.Pool) bool { return p.Name == name }) {
			return nil, fmt.Errorf("--pool names %s twice", name)
		}
		out = append(out, scenarios.Pool{Name: name, MachineType: machine, NodesPerZone: scenarios.Bounds{Max: o.MaxNodes}})
	}
	if len(out) == 0 {
		return nil, errors.New("--pool must name at least one")
	}
	return out, nil
}

// readPolicies reads and checks --policies-file, if there is one, and that all of
// --policy exist; the text is empty without a file.
func (o *Options) readPolicies(pools []scenarios.Pool) (string, error) {
	text := ""
	if o.PoliciesFile != "" {
		data, err := os.ReadFile(filepath.Clean(o.PoliciesFile))
		if err != nil {
			return "", fmt.Errorf("--policies-file: %w", err)
		}
		text = string(data)
	}
	for _, name := range o.Policies {
		content := map[string]string{configmap.KeyPolicy: name}
		if text != "" {
			content[configmap.KeyPolicies] = text
		}
		spec, err := configmap.Parse(content, nil)
		if err != nil {
			if o.PoliciesFile != "" {
				return "", fmt.Errorf("--policy %s with %s: %w", name, o.PoliciesFile, err)
			}
			return "", fmt.Errorf("--policy %s: %w", name, err)
		}
		if text == "" {
			continue
		}
		allowed := spec.Policies[name].NodePools
		if len(allowed) == 0 {
			return "", fmt.Errorf("%s: policy %s has no nodePools, of those in --pool", o.PoliciesFile, name)
		}
		for _, pool := range allowed {
			if !slices.ContainsFunc(pools, func(p scenarios.Pool) bool { return p.Name == pool }) {
				return "", fmt.Errorf("%s: policy %s names node pool %q, which is none of --pool", o.PoliciesFile, name, pool)
			}
		}
	}
	return text, nil
}

// Where an assumption is from.
const (
	assumed  = "assumed"
	fromFlag = "flag"
	read     = "kube-state-metrics"
	derived  = "derived"
)

// Assumption is what the history didn't tell.
type Assumption struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is flag, kube-state-metrics, derived from the history, or assumed.
	From string `json:"from"`
	Flag string `json:"flag,omitempty"`
}

// simulatedWorld is the scenario that a history makes.
type simulatedWorld struct {
	World
	history     cpuHistory
	assumptions []Assumption
	pools       []scenarios.Pool
	speed       float64 // of the cores that were measured, relative to n2's
	limits      podLimits
}

// podLimits are quantities as flags and kube-state-metrics have them; empty is none.
type podLimits struct{ cpuRequest, cpuLimit, memoryRequest, memoryLimit string }

// world joins the history with what it can't tell.
func (o *World) world(h cpuHistory, pools []scenarios.Pool, given func(string) bool) (simulatedWorld, error) {
	w := simulatedWorld{World: *o, history: h, pools: pools}
	origin := func(flag string) string {
		if given(flag) {
			return fromFlag
		}
		return assumed
	}
	add := func(name, value, from, flag string) {
		w.assumptions = append(w.assumptions, Assumption{name, value, from, flag})
	}
	// A quantity of a flag, of kube-state-metrics, or else of the fallback.
	quantity := func(name, flag, text string, seen float64, asRead func(float64) string, fallback string) string {
		value, from := text, fromFlag
		if !given(flag) {
			value, from = fallback, assumed
			if seen > 0 {
				value, from = asRead(seen), read
			}
		}
		if q, err := resource.ParseQuantity(value); err != nil || q.IsZero() {
			value = ""
		}
		add(name, cmp.Or(value, "none"), from, "--"+flag)
		return value
	}
	cores := func(v float64) string {
		return resource.NewMilliQuantity(int64(math.Round(v*1000)), resource.DecimalSI).String()
	}
	bytes := func(v float64) string { return resource.NewQuantity(int64(v), resource.BinarySI).String() }
	l := &w.limits
	l.cpuRequest = quantity("CPU request of a pod", "cpu-request", o.CPURequest, h.shape.cpuRequest, cores, o.CPURequest)
	request, err := resource.ParseQuantity(l.cpuRequest)
	if err != nil {
		return w, fmt.Errorf("--cpu-request: %w", err)
	}
	twice := cores(2 * request.AsApproximateFloat64())
	if h.shape.cpuRequest > 0 {
		twice = "0" // kube-state-metrics is there, and tells of no limit
	}
	l.cpuLimit = quantity("CPU limit of a pod", "cpu-limit", o.CPULimit, h.shape.cpuLimit, cores, twice)
	l.memoryRequest = quantity("memory request of a pod", "memory-request", o.MemoryRequest, h.shape.memoryRequest, bytes, o.MemoryRequest)
	l.memoryLimit = quantity("memory limit of a pod", "memory-limit", o.MemoryLimit, h.shape.memoryLimit, bytes, "0")

	measured := o.MeasuredOn
	if measured == "" {
		measured = pools[0].MachineType
	}
	w.speed = speedOf(measured)
	slowest := math.Inf(1)
	for _, p := range pools {
		slowest = min(slowest, speedOf(p.MachineType))
	}
	highest := slices.Max(h.series.Values)
	add("least replicas", strconv.Itoa(int(o.MinReplicas)), origin("min-replicas"), "--min-replicas")
	if w.MaxReplicas == 0 {
		const utilisation, most = 0.3, 5000
		n := math.Ceil(highest * w.speed / (utilisation * slowest * request.AsApproximateFloat64()))
		if n > most {
			return w, fmt.Errorf("%.1f cores, the highest use, ask for %.0f pods of %s, more than can be simulated: are --scale and --cpu-request right?", highest, n, l.cpuRequest)
		}
		w.MaxReplicas = max(int32(n), o.MinReplicas+1)
		add("most replicas", fmt.Sprintf("%d, what the highest use needs at a utilisation of 30 %%", w.MaxReplicas), derived, "--max-replicas")
	} else {
		add("most replicas", strconv.Itoa(int(w.MaxReplicas)), fromFlag, "--max-replicas")
	}
	add("a request's CPU time on a core of n2", o.RequestCPU.String()+", exponential", origin("request-cpu"), "--request-cpu")
	add("a minute is in violation", fmt.Sprintf("above p95 %v or %g %% failed", o.SLOP95, 100*o.SLOFailed), origins(origin, "slo-p95", "slo-failed"), "--slo-p95, --slo-failed")
	add("senders give up", "after "+o.Timeout.String(), origin("timeout"), "--timeout")
	add("cores that were measured", fmt.Sprintf("%s's, at %g of n2's speed", measured, w.speed), origin("measured-on"), "--measured-on")
	var names []string
	for _, p := range pools {
		name := p.Name
		if name != p.MachineType {
			name += " of " + p.MachineType
		}
		names = append(names, name)
	}
	bound := "without a bound"
	if o.MaxNodes > 0 {
		bound = fmt.Sprintf("at most %d nodes each", o.MaxNodes)
	}
	add("node pools", strings.Join(names, ", ")+", one zone, "+bound+", on-demand prices of us-central1", origins(origin, "pool", "max-nodes"), "--pool, --max-nodes")
	add("boot of a node", o.Boot.String()+" in the median", origin("boot"), "--boot")
	if o.Noise > 0 {
		add("on top of the history", fmt.Sprintf("noise of %g %%, correlated over 10s", 100*o.Noise), origin("noise"), "--noise")
	} else {
		add("within a step of the history", fmt.Sprintf("demand goes straight from sample to sample, %v apart; requests come at random", h.series.Step), origin("noise"), "--noise")
	}
	add("demand", "what was used is what was asked for: pods that were throttled or refused then asked for more", assumed, "")
	return w, nil
}

// origins is flag if any of the flags was given.
func origins(origin func(string) string, flags ...string) string {
	for _, f := range flags {
		if origin(f) == fromFlag {
			return fromFlag
		}
	}
	return assumed
}

// speedOf a machine type in the simulation.
func speedOf(machineType string) float64 {
	if v, ok := load.DefaultSpeeds()[machineType]; ok {
		return v
	}
	return 1
}

// write the scenario and its demand into a folder; returns the scenario's path,
// which mash2 simulate can run as well.
func (w simulatedWorld) write(dir string) (file string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	demand, err := os.Create(filepath.Join(dir, "demand.csv"))
	if err != nil {
		return "", err
	}
	rows := csv.NewWriter(demand)
	_ = rows.Write([]string{"time", "cores", "requestsPerSecond"}) // told by Error
	h := w.history
	for i, v := range h.series.Values {
		at := h.series.Start.Add(time.Duration(i) * h.series.Step).UTC()
		_ = rows.Write([]string{at.Format(time.RFC3339), eightDigits(v), eightDigits(v * w.speed / w.RequestCPU.Seconds())})
	}
	rows.Flush()
	if err := errors.Join(rows.Error(), demand.Close()); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "scenario.yaml")
	return file, os.WriteFile(file, []byte(w.scenario()), 0o644)
}

func eightDigits(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }

// scenario is the text of the scenario's file.
func (w simulatedWorld) scenario() string {
	h := w.history
	window := h.to.Sub(h.from)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Made by mash2 whatif from %s", strings.Join(strings.Fields(h.source), " "))
	line("name: whatif")
	line("description: CPU used from %s to %s, asked for again as requests of %v each.", h.from.UTC().Format(time.RFC3339), h.to.UTC().Format(time.RFC3339), w.RequestCPU)
	line("arrivals: {csv: demand.csv, column: requestsPerSecond, step: %v, from: %v, length: %v}", h.series.Step, time.Duration(h.warm)*window, window)
	line("warmup: {passes: %d}", h.warm)
	if w.Noise > 0 {
		line("noise: {deviation: %g, correlation: 10s}", w.Noise)
	}
	line("request:\n  cpu: {distribution: exponential, mean: %v}\n  timeout: %v", w.RequestCPU, w.Timeout)
	line("slo: {p95Ms: %g, failedRatio: %g}", float64(w.SLOP95)/float64(time.Millisecond), w.SLOFailed)
	limited := func(request, limit string) string {
		if limit == "" {
			return "{request: " + request + "}"
		}
		return "{request: " + request + ", limit: " + limit + "}"
	}
	line("workload:\n  cpu: %s\n  memory: %s", limited(w.limits.cpuRequest, w.limits.cpuLimit), limited(w.limits.memoryRequest, w.limits.memoryLimit))
	line("  replicas: {min: %d, max: %d}\n  targetUtilization: 0.8\n  preStop: 5s\n  terminationGrace: 30s", w.MinReplicas, w.MaxReplicas)
	line("bootMedian: %v", w.Boot)
	line("pools:")
	for i, p := range w.pools {
		nodes := 0
		if i == 0 {
			nodes = 2
			if w.MaxNodes == 1 {
				nodes = 1
			}
		}
		line("  - {name: %s, machineType: %s, zones: [us-central1-a], nodes: %d, nodesPerZone: {min: 0, max: %d}}", p.Name, p.MachineType, nodes, w.MaxNodes)
	}
	return b.String()
}
