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
	// Spot is what spot machines would be; nothing on them without a share.
	Spot Spot
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
	if err := o.Spot.validate(); err != nil {
		return err
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
	recorded = "records"
	derived  = "derived"
)

// Assumption is what the history didn't tell.
type Assumption struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is flag, kube-state-metrics, records, derived from the history, or assumed.
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
	policies    string // policies.yaml; empty for the default ones
}

// podLimits are quantities as flags and kube-state-metrics have them; empty is none.
type podLimits struct{ cpuRequest, cpuLimit, memoryRequest, memoryLimit string }

// world joins the history with what it can't tell.
func (o *World) world(h cpuHistory, pools []scenarios.Pool, given func(string) bool) (simulatedWorld, error) {
	j := joining{simulatedWorld{World: *o, history: h, pools: pools}, given}
	if h.recorded != nil {
		j.takeRecorded()
	}
	if err := j.limitPods(); err != nil {
		return j.simulatedWorld, err
	}
	if err := j.boundReplicas(); err != nil {
		return j.simulatedWorld, err
	}
	j.assumeRequests()
	j.assumeNodes()
	j.assumeDemand()
	return j.simulatedWorld, nil
}

// joining is a world while it is joined.
type joining struct {
	simulatedWorld
	given func(flag string) bool
}

func (j *joining) add(name, value, from, flag string) {
	j.assumptions = append(j.assumptions, Assumption{name, value, from, flag})
}

// takeRecorded takes from records what no flag says.
func (j *joining) takeRecorded() {
	if !j.given("measured-on") {
		j.MeasuredOn = referenceMachine
	}
	if !j.given("min-replicas") {
		j.MinReplicas = max(j.history.bounds[0], 1)
	}
	if !j.given("max-replicas") {
		j.MaxReplicas = max(j.history.bounds[1], j.MinReplicas)
	}
	if j.given("boot") {
		for i := range j.pools {
			j.pools[i].BootMedian.Duration = 0
		}
	} else if j.history.boot > 0 {
		j.Boot = j.history.boot
	}
	if j.given("max-nodes") {
		for i := range j.pools {
			j.pools[i].NodesPerZone = scenarios.Bounds{Max: j.MaxNodes}
		}
	}
}

// origin is flag if any of the flags was given, and records for what these tell.
func (j *joining) origin(flags ...string) string {
	told := func(flag string) bool {
		switch flag {
		case "pool":
			return len(j.history.pools) > 0
		case "boot":
			return j.history.boot > 0
		}
		return flag == "min-replicas" || flag == "max-replicas" || flag == "measured-on"
	}
	switch {
	case slices.ContainsFunc(flags, j.given):
		return fromFlag
	case j.history.recorded != nil && slices.ContainsFunc(flags, told):
		return recorded
	}
	return assumed
}

// quantity is that of a flag, of kube-state-metrics, or else the fallback.
func (j *joining) quantity(name, flag, text string, seen float64, asRead func(float64) string, fallback string) string {
	value, from := text, fromFlag
	if !j.given(flag) {
		value, from = fallback, assumed
		if seen > 0 {
			value, from = asRead(seen), read
			if j.history.recorded != nil {
				from = recorded
			}
		}
	}
	if q, err := resource.ParseQuantity(value); err != nil || q.IsZero() {
		value = ""
	}
	j.add(name, cmp.Or(value, "none"), from, "--"+flag)
	return value
}

// limitPods sets what pods request and are limited to.
func (j *joining) limitPods() error {
	cores := func(v float64) string {
		return resource.NewMilliQuantity(int64(math.Round(v*1000)), resource.DecimalSI).String()
	}
	bytes := func(v float64) string { return resource.NewQuantity(int64(v), resource.BinarySI).String() }
	l, shape := &j.limits, j.history.shape
	l.cpuRequest = j.quantity("CPU request of a pod", "cpu-request", j.CPURequest, shape.cpuRequest, cores, j.CPURequest)
	request, err := resource.ParseQuantity(l.cpuRequest)
	if err != nil {
		return fmt.Errorf("--cpu-request: %w", err)
	}
	twice := cores(2 * request.AsApproximateFloat64())
	if shape.cpuRequest > 0 {
		twice = "0" // kube-state-metrics is there, and tells of no limit
	}
	l.cpuLimit = j.quantity("CPU limit of a pod", "cpu-limit", j.CPULimit, shape.cpuLimit, cores, twice)
	l.memoryRequest = j.quantity("memory request of a pod", "memory-request", j.MemoryRequest, shape.memoryRequest, bytes, j.MemoryRequest)
	l.memoryLimit = j.quantity("memory limit of a pod", "memory-limit", j.MemoryLimit, shape.memoryLimit, bytes, "0")
	return nil
}

// measuredOn is the machine type whose cores the history is of.
func (w simulatedWorld) measuredOn() string { return cmp.Or(w.MeasuredOn, w.pools[0].MachineType) }

// boundReplicas sets the speed of the cores that were measured, and how many replicas
// the highest use may take.
func (j *joining) boundReplicas() error {
	request, err := resource.ParseQuantity(j.limits.cpuRequest)
	if err != nil {
		return fmt.Errorf("--cpu-request: %w", err)
	}
	j.speed = speedOf(j.measuredOn())
	slowest := math.Inf(1)
	for _, p := range j.pools {
		slowest = min(slowest, speedOf(p.MachineType))
	}
	highest := slices.Max(j.history.series.Values)
	j.add("minimum replicas", strconv.Itoa(int(j.MinReplicas)), j.origin("min-replicas"), "--min-replicas")
	if j.MaxReplicas != 0 {
		j.add("maximum replicas", strconv.Itoa(int(j.MaxReplicas)), j.origin("max-replicas"), "--max-replicas")
		return nil
	}
	const utilisation, most = 0.3, 5000
	n := math.Ceil(highest * j.speed / (utilisation * slowest * request.AsApproximateFloat64()))
	if n > most {
		return fmt.Errorf("the highest usage of %.1f cores needs %.0f pods of %s, more than can be simulated: check --scale and --cpu-request", highest, n, j.limits.cpuRequest)
	}
	j.MaxReplicas = max(int32(n), j.MinReplicas+1)
	j.add("maximum replicas", fmt.Sprintf("%d, which the highest usage needs at a utilisation of 30 %%", j.MaxReplicas), derived, "--max-replicas")
	return nil
}

// assumeRequests tells what is assumed of requests and those who send them.
func (j *joining) assumeRequests() {
	j.add("a request's CPU time on a core of n2", j.RequestCPU.String()+", exponential", j.origin("request-cpu"), "--request-cpu")
	j.add("a minute is in violation", fmt.Sprintf("above p95 %v or %g %% failed", j.SLOP95, 100*j.SLOFailed), j.origin("slo-p95", "slo-failed"), "--slo-p95, --slo-failed")
	j.add("senders give up a request", "after "+j.Timeout.String(), j.origin("timeout"), "--timeout")
}

// assumeNodes tells what is assumed of machines, pools and boots.
func (j *joining) assumeNodes() {
	j.add("cores of the history", fmt.Sprintf("those of %s, at %g of n2's speed", j.measuredOn(), j.speed), j.origin("measured-on"), "--measured-on")
	var names []string
	for _, p := range j.pools {
		name := p.Name
		if name != p.MachineType {
			name += " of " + p.MachineType
		}
		names = append(names, name)
	}
	bound := "one zone, no maximum"
	switch {
	case j.MaxNodes > 0:
		bound = fmt.Sprintf("one zone, at most %d nodes each", j.MaxNodes)
	case j.origin("pool") == recorded:
		bound = "their zones and bounds"
	}
	j.add("node pools", strings.Join(names, ", ")+", "+bound+", on-demand prices of us-central1", j.origin("pool", "max-nodes"), "--pool, --max-nodes")
	j.add("boot of a node", j.Boot.String()+" in the median", j.origin("boot"), "--boot")
	if j.Spot.Share > 0 {
		j.add("spot machines", fmt.Sprintf("beside each pool, at %g %% of its price, each taken away %g times an hour, none to be had for %v after", 100*j.Spot.PriceRatio, j.Spot.Interruptions, spotOutage),
			j.origin("spot-price", "spot-interruptions"), "--spot-price, --spot-interruptions")
	}
}

// assumeDemand tells what is assumed of the demand behind what was used.
func (j *joining) assumeDemand() {
	if j.Noise > 0 {
		j.add("noise on the history", fmt.Sprintf("%g %%, correlated over 10s", 100*j.Noise), j.origin("noise"), "--noise")
	} else {
		j.add("demand between two samples", fmt.Sprintf("a straight line, samples are %v apart; requests arrive at random", j.history.series.Step), j.origin("noise"), "--noise")
	}
	j.add("demand", "equal to usage; it was higher where pods were throttled or refused requests", assumed, "")
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
	if err := w.writeDemand(filepath.Join(dir, "demand.csv")); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "scenario.yaml")
	return file, os.WriteFile(file, []byte(w.scenario()), 0o644)
}

// writeDemand writes the history as cores and as requests.
func (w simulatedWorld) writeDemand(file string) error {
	demand, err := os.Create(file)
	if err != nil {
		return err
	}
	rows := csv.NewWriter(demand)
	_ = rows.Write([]string{"time", "cores", "requestsPerSecond"}) // told by Error
	h := w.history
	for i, v := range h.series.Values {
		at := h.series.Start.Add(time.Duration(i) * h.series.Step).UTC()
		_ = rows.Write([]string{at.Format(time.RFC3339), eightDigits(v), eightDigits(v * w.speed / w.RequestCPU.Seconds())})
	}
	rows.Flush()
	return errors.Join(rows.Error(), demand.Close())
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
	w.requests(line)
	line("workload:\n  %s", strings.Join(w.podLines(), "\n  "))
	w.nodes(line, 1)
	return b.String()
}

// requests are the lines of a scenario on requests and their service.
func (w simulatedWorld) requests(line func(string, ...any)) {
	if w.Noise > 0 {
		line("noise: {deviation: %g, correlation: 10s}", w.Noise)
	}
	line("request:\n  cpu: {distribution: exponential, mean: %v}\n  timeout: %v", w.RequestCPU, w.Timeout)
	line("slo: {p95Ms: %g, failedRatio: %g}", float64(w.SLOP95)/float64(time.Millisecond), w.SLOFailed)
}

// podLines are the fields of a workload.
func (w simulatedWorld) podLines() []string {
	limited := func(request, limit string) string {
		if limit == "" {
			return "{request: " + request + "}"
		}
		return "{request: " + request + ", limit: " + limit + "}"
	}
	return []string{
		"cpu: " + limited(w.limits.cpuRequest, w.limits.cpuLimit), "memory: " + limited(w.limits.memoryRequest, w.limits.memoryLimit),
		fmt.Sprintf("replicas: {min: %d, max: %d}", w.MinReplicas, w.MaxReplicas), "targetUtilization: 0.8", "preStop: 5s", "terminationGrace: 30s",
	}
}

// nodes are the lines of a scenario on node pools. It begins with two nodes for each of so many
// workloads, in each zone of the first pool.
func (w simulatedWorld) nodes(line func(string, ...any), workloads int) {
	line("bootMedian: %v", w.Boot)
	line("pools:")
	for i, p := range w.pools {
		nodes := 0
		if i == 0 {
			nodes = 2 * workloads
			if most := p.NodesPerZone.Max; most > 0 {
				nodes = min(nodes, int(most))
			}
		}
		nodes = max(nodes, int(p.NodesPerZone.Min))
		zones, boot := p.Zones, ""
		if len(zones) == 0 {
			zones = []string{"us-central1-a"}
		}
		if p.BootMedian.Duration > 0 {
			boot = ", bootMedian: " + p.BootMedian.String()
		}
		line("  - {name: %s, machineType: %s, zones: [%s], nodes: %d, nodesPerZone: {min: %d, max: %d}%s}",
			p.Name, p.MachineType, strings.Join(zones, ", "), nodes, p.NodesPerZone.Min, p.NodesPerZone.Max, boot)
	}
}
