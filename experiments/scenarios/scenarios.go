// Package scenarios describes experiments: the load that virtual users put on
// a workload, the workload itself, what counts as good service, and when the
// business changes its mind. A scenario is a YAML file, strictly decoded; some
// are built in, and a user's own file works the same way.
//
// All times are scenario time: an experiment that runs at speed s lets
// scenario time pass s times as fast as the clock on the wall.
package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Scenario is one experiment.
type Scenario struct {
	// Name identifies the scenario in reports.
	Name        string `yaml:"name"`
	Description string `yaml:"description,omitempty"`
	// Base is a scenario, built in or a file beside this one, whose fields hold
	// where this one has none; load of another kind displaces the base's.
	Base string `yaml:"base,omitempty"`
	// StartVUs is the number of virtual users at time zero of a pass; k6's
	// default is 1.
	StartVUs *int `yaml:"startVUs,omitempty"`
	// Stages of one pass, "duration:target" as k6 writes them.
	Stages []Stage `yaml:"stages,omitempty"`
	// Arrivals replace stages and thinking: open-loop load.
	Arrivals *Arrivals `yaml:"arrivals,omitempty"`
	// Users are types of users that share this load or have their own, and say
	// which services a request goes through; none is one type that asks the one
	// workload.
	Users []UserType `yaml:"users,omitempty"`
	// Noise of the load, of virtual users or arrivals.
	Noise *Noise `yaml:"noise,omitempty"`
	// Events change the world for a while, in every pass.
	Events []Event `yaml:"events,omitempty"`
	// Warmup is what comes before that which is measured.
	Warmup Warmup `yaml:"warmup,omitempty"`
	// Repeat is how many passes are measured, one after the other without a
	// pause; default 1.
	Repeat int `yaml:"repeat,omitempty"`
	// ThinkTime is what a virtual user waits between a response and its next
	// request, in seconds; default exponential with mean 1 s.
	ThinkTime Distribution `yaml:"thinkTime,omitempty"`
	Request   Request      `yaml:"request"`
	SLO       SLO          `yaml:"slo"`
	Workload  Workload     `yaml:"workload"`
	// Services are Deployments that take from workload and request what they
	// leave out; none is one workload.
	Services []Service `yaml:"services,omitempty"`
	// Copies of the workload, each with load of its own: the same, begun a part
	// of the pass later, with other noise. Default 1; more can be simulated only.
	Copies int `yaml:"copies,omitempty"`
	// EndpointPropagation is the delay, in seconds, until a change of a pod's
	// readiness reaches the proxies that route requests.
	EndpointPropagation Distribution `yaml:"endpointPropagation,omitempty"`
	Policy              Policy       `yaml:"policy,omitempty"`
	// BootMedian overrides how long a node takes to boot.
	BootMedian Duration `yaml:"bootMedian,omitempty"`
	// Pools of nodes the cluster starts with; an experiment that brings its
	// own cluster may ignore them.
	Pools []Pool `yaml:"pools,omitempty"`
}

// Request is what one request asks of a pod.
type Request struct {
	// CPU is the work of one request in CPU seconds on a core of the
	// reference machine (n2).
	CPU Distribution `yaml:"cpu"`
	// Timeout after which the virtual user gives up; the request has failed.
	Timeout Duration `yaml:"timeout"`
}

// SLO is what counts as good service in a minute.
type SLO struct {
	P95Ms       float64 `yaml:"p95Ms"`
	FailedRatio float64 `yaml:"failedRatio"` // 0–1
}

// Workload is the scaled Deployment.
type Workload struct {
	CPU    CPU    `yaml:"cpu"`
	Memory Memory `yaml:"memory"`
	// Replicas bounds every scaler alike.
	Replicas Bounds `yaml:"replicas"`
	// TargetUtilization of the CPU request that the HPA baseline aims at, 0–1.
	TargetUtilization float64 `yaml:"targetUtilization"`
	// Priority is the value of its PriorityClass: a pod that finds no room ends
	// pods of lower priority. Below −10 a pod is expendable to the pool's
	// autoscaler. Default 0.
	Priority int32 `yaml:"priority,omitempty"`
	// StartupCPU is the CPU time, on a core of the reference machine, that a container takes
	// until it is Ready, as fast as its limit and its node let it: loading, compiling, filling
	// caches. Default 0; more can be simulated only.
	StartupCPU Duration `yaml:"startupCPU,omitempty"`
	// PreStop is how long a terminating pod goes on accepting connections
	// while proxies still route to it, as a preStop sleep does.
	PreStop Duration `yaml:"preStop,omitempty"`
	// TerminationGrace is how long a terminating pod may finish what it has.
	TerminationGrace Duration `yaml:"terminationGrace,omitempty"`
}

// CPU of one pod.
type CPU struct {
	Request Quantity `yaml:"request"`
	Limit   Quantity `yaml:"limit,omitempty"` // none: limited by the node only
	// Base is what a pod that has started uses without any request, on a core of the reference
	// machine: its runtime, sidecars, health checks. Default 0; more can be simulated only.
	Base Quantity `yaml:"base,omitempty"`
}

// Memory of one pod.
type Memory struct {
	Request Quantity `yaml:"request"`
	Limit   Quantity `yaml:"limit,omitempty"`
	// Base is the working set of an idle pod, PerRequest what each request in
	// flight adds.
	Base       Quantity `yaml:"base,omitempty"`
	PerRequest Quantity `yaml:"perRequest,omitempty"`
	// Spread is the standard deviation of the logarithm of what an idle pod has, over times
	// of Correlation (default 30 minutes). In a scenario where a workload has one, containers above
	// their limit are killed, and on a full machine those that are the most above their request.
	Spread      float64  `yaml:"spread,omitempty"`
	Correlation Duration `yaml:"correlation,omitempty"`
}

// Bounds of replicas or nodes.
type Bounds struct {
	Min int32 `yaml:"min"`
	Max int32 `yaml:"max"`
}

// Policy is which business policy is in force when.
type Policy struct {
	// Initial policy at time zero of every pass; default COST_SAVING.
	Initial string `yaml:"initial,omitempty"`
	// Switches within a pass, times increasing.
	Switches []Switch `yaml:"switches,omitempty"`
	// Spot is what both policies say of spot machines, where they allow several pools; nil
	// for nothing.
	Spot *Spot `yaml:"spot,omitempty"`
}

// Spot bounds what of a workload runs on spot machines.
type Spot struct {
	MaxShare float64 `yaml:"maxShare"`
	Floor    int32   `yaml:"floor"`
}

// Switch makes a policy active at a time of the pass.
type Switch struct {
	At     Duration `yaml:"at"`
	Policy string   `yaml:"policy"`
}

// Pool is a set of identical nodes.
type Pool struct {
	Name        string   `yaml:"name"`
	MachineType string   `yaml:"machineType"`
	Zones       []string `yaml:"zones"`
	// Nodes per zone at the start.
	Nodes int32 `yaml:"nodes"`
	// NodesPerZone bounds the size; a max of 0 is unlimited.
	NodesPerZone Bounds `yaml:"nodesPerZone,omitempty"`
	// BootMedian overrides the scenario's for this pool.
	BootMedian Duration `yaml:"bootMedian,omitempty"`
	// Spot is what the provider may do with the pool's machines; nil for nothing.
	Spot *SpotMachines `yaml:"spot,omitempty"`
}

// SpotMachines are cheaper, and taken away by their provider at random.
type SpotMachines struct {
	// PriceRatio is what one costs of a like one on demand.
	PriceRatio float64 `yaml:"priceRatio"`
	// InterruptionsPerHour of each, on average; the time until then is exponential.
	InterruptionsPerHour float64 `yaml:"interruptionsPerHour"`
	// Outage is how long, on average, its zone has no more such machines after one was
	// taken away; exponential, 0 for not at all.
	Outage Duration `yaml:"outage,omitempty"`
}

// Duration is a time.Duration written as Go writes it.
type Duration struct{ time.Duration }

// UnmarshalText parses a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s or 1m30s", text)
	}
	d.Duration = v
	return nil
}

// MarshalText writes the duration as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Quantity is a Kubernetes resource quantity.
type Quantity struct{ resource.Quantity }

// UnmarshalText parses a quantity such as 250m or 128Mi.
func (q *Quantity) UnmarshalText(text []byte) error {
	v, err := resource.ParseQuantity(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a quantity such as 250m or 128Mi", text)
	}
	q.Quantity = v
	return nil
}

// MarshalText writes the quantity in its canonical form.
func (q Quantity) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

//go:embed *.yaml
var builtin embed.FS

// ErrUnknown is returned by Load for a name that is neither built in nor a file.
var ErrUnknown = errors.New("unknown scenario")

// Names of the built-in scenarios, sorted.
func Names() []string {
	files, err := fs.Glob(builtin, "*.yaml")
	if err != nil { // only a malformed pattern
		return nil
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".yaml")
	}
	slices.Sort(files)
	return files
}

// Load returns the built-in scenario of that name or, failing that, the one in
// the file of that name, with the traces that it names. The error wraps
// ErrUnknown when there is neither.
func Load(nameOrFile string) (Scenario, error) { return LoadWith(nameOrFile, Changes{Warmup: -1}) }

// Changes to a scenario before its traces are read.
type Changes struct {
	// Trace replaces the file of arrivals; empty leaves it.
	Trace string
	// Warmup replaces the passes of the warm-up; negative leaves them.
	Warmup int
	// Scale multiplies load, replicas' bounds and pools' bounds alike; 0 and 1
	// leave them.
	Scale float64
}

// LoadWith is Load with changes.
func LoadWith(nameOrFile string, change Changes) (Scenario, error) {
	file, data, err := readAny(nameOrFile, "")
	if err != nil {
		return Scenario{}, err
	}
	s, err := parse(file, data, readAny)
	if err != nil {
		return Scenario{}, err
	}
	if change.Warmup >= 0 {
		s.Warmup.Passes = change.Warmup
	}
	if csv := change.Trace; csv != "" {
		if s.Arrivals == nil {
			return Scenario{}, fmt.Errorf("%s: arrivals: there are none that %s could replace", file, csv)
		}
		if s.Arrivals.CSV, err = filepath.Abs(csv); err != nil {
			return Scenario{}, fmt.Errorf("reading arrivals: %w", err)
		}
	}
	if change.Scale != 0 && change.Scale != 1 {
		if err := s.scale(change.Scale); err != nil {
			return Scenario{}, fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := s.readTraces(file); err != nil {
		return Scenario{}, err
	}
	return s, nil
}

// Describe is the description of a built-in scenario.
func Describe(name string) (string, error) {
	file, data, err := readBuiltIn(name, "")
	if err != nil {
		return "", err
	}
	s, err := Parse(file, data)
	return s.Description, err
}

// readBuiltIn reads a built-in scenario.
func readBuiltIn(name, _ string) (string, []byte, error) {
	if !slices.Contains(Names(), name) {
		return "", nil, fmt.Errorf("%w %q: built in are only %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	data, err := builtin.ReadFile(name + ".yaml")
	if err != nil {
		return "", nil, fmt.Errorf("reading scenario: %w", err)
	}
	return name + ".yaml", data, nil
}

// readAny reads a built-in scenario or a file, relative to the one it is named
// in.
func readAny(nameOrFile, from string) (string, []byte, error) {
	if slices.Contains(Names(), nameOrFile) {
		return readBuiltIn(nameOrFile, from)
	}
	file := filepath.Clean(nameOrFile)
	if from != "" && !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(from), file)
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%w %q: no such file, and built in are only %s",
			ErrUnknown, nameOrFile, strings.Join(Names(), ", "))
	}
	if err != nil {
		return "", nil, fmt.Errorf("reading scenario: %w", err)
	}
	return file, data, nil
}

// PolicyAt is the policy in force at time t of a pass.
func (s Scenario) PolicyAt(t time.Duration) string {
	name := s.Policy.Initial
	for _, sw := range s.Policy.Switches {
		if sw.At.Duration > t {
			break
		}
		name = sw.Policy
	}
	return name
}
