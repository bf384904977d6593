package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Config says what to load and how. Durations are scenario time.
type Config struct {
	// RESTConfig of the cluster whose pods serve the load.
	RESTConfig *rest.Config
	Scenario   scenarios.Scenario
	// Speed divides every duration: at 10, an hour takes six minutes. Default 1.
	Speed float64
	// Seed of all randomness.
	Seed uint64
	// Workloads that are loaded, each by its own, identical virtual users.
	Workloads []Workload
	// WarmupPasses come before those that are measured, without a pause.
	WarmupPasses int
	// Passes that are measured; default the scenario's repeat.
	Passes int
	// Speeds is the reference work that a core of each machine type does per
	// second, by instance type label; machine types not in it count 1. Default
	// DefaultSpeeds.
	Speeds map[string]float64
	// PoolLabel is the node label that names the pool; default GKE's.
	PoolLabel string
	// Resolution of metrics.k8s.io; default metrics-server's 15 s.
	Resolution time.Duration
	// Bucket is the width of the time series in the results. A minute must be
	// a multiple of it. Default 10 s.
	Bucket time.Duration
	// PodPrices of requested resources; default DefaultPodPrices.
	PodPrices *PodPrices
	// MetricsAddr and ResourceMetricsAddr are where to listen; default a free
	// port on loopback.
	MetricsAddr, ResourceMetricsAddr string
	// Hold lets scenario time stand still until Begin is called.
	Hold bool
}

// Workload is a Deployment under load.
type Workload struct {
	Namespace string
	// Name of the Deployment.
	Name string
	// Selector of its pods, as kubectl's -l.
	Selector string
}

func (w Workload) key() string { return w.Namespace + "/" + w.Name }

// DefaultSpeeds of machine types relative to n2: shared-core E2 machines have a
// sustained share of their two vCPUs, of which e2-medium's is one half each
// (cloud.google.com/compute/docs/general-purpose-machines, E2 shared-core).
// Their bursting beyond that is not modelled.
func DefaultSpeeds() map[string]float64 {
	return map[string]float64{
		"e2-micro":  0.125,
		"e2-small":  0.25,
		"e2-medium": 0.5,
	}
}

// PodPrices in USD.
type PodPrices struct {
	CPUHour       float64 // per requested core and hour
	MemoryGiBHour float64
}

// DefaultPodPrices are those of GKE Autopilot's general-purpose pods in
// us-central1 (cloud.google.com/kubernetes-engine/pricing), a market price for
// a pod's requests.
func DefaultPodPrices() PodPrices {
	return PodPrices{CPUHour: 0.0445, MemoryGiBHour: 0.0049225}
}

func (c *Config) setDefaults() {
	if c.Speed == 0 {
		c.Speed = 1
	}
	if c.Passes == 0 {
		c.Passes = c.Scenario.Repeat
	}
	if c.Speeds == nil {
		c.Speeds = DefaultSpeeds()
	}
	if c.PoolLabel == "" {
		c.PoolLabel = api.LabelNodePool
	}
	if c.Resolution == 0 {
		c.Resolution = 15 * time.Second
	}
	if c.Bucket == 0 {
		c.Bucket = 10 * time.Second
	}
	if c.PodPrices == nil {
		prices := DefaultPodPrices()
		c.PodPrices = &prices
	}
	if c.MetricsAddr == "" {
		c.MetricsAddr = "127.0.0.1:0"
	}
	if c.ResourceMetricsAddr == "" {
		c.ResourceMetricsAddr = "127.0.0.1:0"
	}
}

func (c *Config) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.RESTConfig == nil {
		fail("RESTConfig is missing")
	}
	if !(c.Speed > 0) || math.IsInf(c.Speed, 0) {
		fail("speed must be positive")
	}
	if len(c.Scenario.Stages) == 0 || c.Scenario.StartVUs == nil {
		fail("scenario %q has not been parsed", c.Scenario.Name)
	}
	if c.WarmupPasses < 0 || c.Passes < 1 || c.WarmupPasses > math.MaxInt32 || c.Passes > math.MaxInt32 {
		fail("passes must be at least 1, warm-up passes at least 0")
	} else if len(c.Scenario.Stages) > 0 && c.Scenario.StartVUs != nil {
		if d := c.Scenario.PassDuration(); d <= 0 || int64(c.WarmupPasses+c.Passes) > int64(365*24*time.Hour)/int64(d) {
			fail("all passes together must take between 0 and a year")
		}
	}
	for name, speed := range c.Speeds {
		if !(speed > 0) || math.IsInf(speed, 0) {
			fail("speed of %s must be positive", name)
		}
	}
	if c.Resolution <= 0 {
		fail("resolution must be positive")
	}
	if c.Bucket <= 0 || time.Minute%c.Bucket != 0 {
		fail("a minute must be a multiple of the bucket %s", c.Bucket)
	}
	if len(c.Workloads) == 0 {
		fail("no workload to load")
	}
	seen := map[string]bool{}
	for _, w := range c.Workloads {
		if w.Namespace == "" || w.Name == "" || seen[w.key()] {
			fail("workload %q needs a namespace and a name of its own", w.key())
		}
		seen[w.key()] = true
		if s, err := labels.Parse(w.Selector); err != nil {
			fail("selector of %s: %w", w.key(), err)
		} else if s.Empty() {
			fail("selector of %s is empty", w.key())
		}
	}
	return errors.Join(errs...)
}
