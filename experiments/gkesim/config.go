package gkesim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// Config says what the simulated cluster is. Durations are scenario time.
type Config struct {
	// Project, Location (a region or a zone) and Cluster name the cluster:
	// projects/P/locations/L/clusters/C.
	Project, Location, Cluster string
	// Version of control plane and nodes. Default 1.36.3-gke.1000.
	Version string
	// Pools of the cluster; at least one.
	Pools []Pool
	// Autopilot says of the cluster that Google manages its nodes. Nothing else
	// of Autopilot is simulated.
	Autopilot bool

	// Speed divides every duration. Default 1.
	Speed float64
	// Seed of all that is random: boot and stop delays, names, victims.
	Seed uint64

	// BootMedian and BootSigma state the log-normal distribution of the time
	// from the creation of an instance to its registered node. Default 75 s and
	// 0.13: nine in ten between 60 and 93 s.
	BootMedian time.Duration
	BootSigma  float64
	// StopMedian is the median time from the deletion of an instance until its
	// node is gone, log-normal with BootSigma. Default 20 s.
	StopMedian time.Duration
	// PodGCDelay is the time from the end of a node to that of the pods bound to
	// it. Default 5 s; kube-controller-manager's own collector waits a minute.
	PodGCDelay time.Duration
	// OperationLatency is how long an operation stays PENDING, and how long it
	// takes to notice that its work is done. Default 1 s.
	OperationLatency time.Duration
	// GiveUpAfter is how long a resize waits for instances that can't be
	// created before its operation ends in an error. Default 30 s.
	GiveUpAfter time.Duration
	// RegisterTimeout is how long a resize waits for nodes that don't register
	// before its operation ends in an error. Default 10 min.
	RegisterTimeout time.Duration
	// RetryInterval is the pause between an instance group's attempts to create
	// an instance that was refused. Default 60 s.
	RetryInterval time.Duration

	// CPUQuota is the regional quota of vCPUs. 0 is unlimited.
	CPUQuota int64
	// Autoscaler configures the pools' autoscaling.
	Autoscaler AutoscalerConfig

	// NodeAddress overrides the InternalIP of every node, so that the API server
	// reaches the kubelet that kwok plays. Default: 10.128.0.2, .3, …
	NodeAddress string
	// ListenAddress and ComputeListenAddress are where gRPC and REST are served.
	// Default 127.0.0.1:0.
	ListenAddress, ComputeListenAddress string
	// Clock is the time. Default: the real one.
	Clock clock.Clock
}

// Pool is a node pool: equal nodes, spread over zones.
type Pool struct {
	Name string
	// MachineType is a key of Machines.
	MachineType string
	// Zones the pool spans.
	Zones []string
	// Size is the number of nodes per zone at the start; they are there at once.
	Size int32
	// Autoscaling, and its bounds per zone.
	Autoscaling            bool
	MinPerZone, MaxPerZone int32
	// DiskGiB is the size of the boot disk. Default 100.
	DiskGiB int64
	Labels  map[string]string
	Taints  []corev1.Taint
	// Spot machines may be taken away: see Server.Interrupt.
	Spot bool
}

// withDefaults returns c with its zero values filled in.
func (c Config) withDefaults() Config {
	def(&c.Version, "1.36.3-gke.1000")
	def(&c.Speed, 1)
	def(&c.BootMedian, 75*time.Second)
	def(&c.BootSigma, 0.13)
	def(&c.StopMedian, 20*time.Second)
	def(&c.PodGCDelay, 5*time.Second)
	def(&c.OperationLatency, time.Second)
	def(&c.GiveUpAfter, 30*time.Second)
	def(&c.RegisterTimeout, 10*time.Minute)
	def(&c.RetryInterval, time.Minute)
	def(&c.ListenAddress, "127.0.0.1:0")
	def(&c.ComputeListenAddress, "127.0.0.1:0")
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	c.Autoscaler = c.Autoscaler.withDefaults()
	c.Pools = slices.Clone(c.Pools)
	for i := range c.Pools {
		def(&c.Pools[i].DiskGiB, 100)
		c.Pools[i].Zones = slices.Clone(c.Pools[i].Zones)
		slices.Sort(c.Pools[i].Zones)
	}
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate reports everything that is wrong with c, defaults applied.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for field, value := range map[string]string{"Project": c.Project, "Location": c.Location, "Cluster": c.Cluster} {
		if value == "" {
			bad("%s is empty", field)
		}
	}
	if !(c.Speed > 0) || math.IsInf(c.Speed, 0) {
		bad("Speed is %v, must be positive", c.Speed)
	}
	if !(c.BootSigma >= 0) || math.IsInf(c.BootSigma, 0) {
		bad("BootSigma is %v, must not be negative", c.BootSigma)
	}
	for field, d := range map[string]time.Duration{
		"BootMedian": c.BootMedian, "StopMedian": c.StopMedian, "PodGCDelay": c.PodGCDelay,
		"OperationLatency": c.OperationLatency, "GiveUpAfter": c.GiveUpAfter,
		"RegisterTimeout": c.RegisterTimeout, "RetryInterval": c.RetryInterval,
	} {
		if d < 0 {
			bad("%s is %v, must not be negative", field, d)
		}
	}
	if c.CPUQuota < 0 {
		bad("CPUQuota is %d, must not be negative", c.CPUQuota)
	}
	if err := c.Autoscaler.validate(); err != nil {
		bad("Autoscaler: %w", err)
	}
	if len(c.Pools) == 0 {
		bad("Pools is empty")
	}
	names := map[string]bool{}
	for i, p := range c.Pools {
		if err := p.validate(); err != nil {
			bad("Pools[%d] %q: %w", i, p.Name, err)
		}
		if names[p.Name] {
			bad("Pools[%d] %q: name is taken", i, p.Name)
		}
		names[p.Name] = true
	}
	return errors.Join(errs...)
}

func (p Pool) validate() error {
	switch {
	case p.Name == "":
		return errors.New("it has no Name")
	case len(p.Zones) == 0:
		return errors.New("it has no Zones")
	case len(slices.Compact(slices.Clone(p.Zones))) != len(p.Zones):
		return errors.New("a zone is named twice in Zones")
	case p.Size < 0:
		return fmt.Errorf("the Size is %d, must not be negative", p.Size)
	case p.DiskGiB < 10:
		return fmt.Errorf("the DiskGiB is %d, must be at least 10", p.DiskGiB)
	case p.MinPerZone < 0 || p.Autoscaling && p.MaxPerZone < max(1, p.MinPerZone):
		return fmt.Errorf("MinPerZone %d and MaxPerZone %d are no bounds", p.MinPerZone, p.MaxPerZone)
	}
	if _, ok := Machines[p.MachineType]; !ok {
		return fmt.Errorf("MachineType %q is not in the catalogue", p.MachineType)
	}
	return nil
}
