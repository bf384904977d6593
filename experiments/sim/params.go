package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// Range of a uniform distribution.
type Range struct{ Min, Max time.Duration }

func (r Range) sample(rng *rand.Rand) time.Duration {
	return r.Min + time.Duration(rng.Float64()*float64(r.Max-r.Min))
}

// Params are the delays of the world. The zero value is not of use: start from
// [DefaultParams].
type Params struct {
	// Startup, Readiness and Termination of a pod: see
	// experiments/cluster.DefaultDelays, whose values they are, so that a
	// simulation and an experiment on a real control plane can be compared.
	Startup, Readiness, Termination Range
	// Controller is from a change of spec.replicas until the ReplicaSet
	// controller has written pods; Binding is one scheduling attempt. Both are
	// what a quiet control plane on one machine shows (50 pods Ready in 0.9 s).
	Controller, Binding Range
	// Resize is from a resize in place that the kubelet grants until the pod's
	// cgroup has it: what a kubelet of 1.33 on a quiet node was measured to take.
	Resize Range
	// BootMedian and BootSigma are the log-normal distribution of a node's boot,
	// from the creation of the instance to Ready; Stop is from its deletion until
	// it isn't paid any more; Operation is a resize's own latency. The values are
	// those of experiments/gkesim, where their origin is told.
	BootMedian time.Duration
	BootSigma  float64
	Stop       time.Duration
	Operation  time.Duration
	// NodeGrace is from a node's last sign of life until it is not Ready any more:
	// kube-controller-manager's --node-monitor-grace-period.
	NodeGrace time.Duration
	// PodGC is from the end of a node to that of the pods that were on it.
	PodGC time.Duration

	// ScrapeInterval of Prometheus, Resolution of metrics-server: both 15 s by
	// default there. With the HPA's own period they make its reaction late by
	// 27.5 s on average and 55 s at worst (kubernetes/kubernetes#110317).
	ScrapeInterval, Resolution time.Duration
	// FreshAge is the least age at which metrics-server serves a container that
	// was read once: 10 s of its default resolution.
	FreshAge time.Duration
	// Step, RateWindow and EvaluationDelay are the operator's own way of asking
	// Prometheus; History is how much it keeps.
	Step, RateWindow, EvaluationDelay, History time.Duration
	// StaleAfter is the age of a sample from which the operator takes it for
	// stale, UsageStaleAfter the same of a reading of metrics.k8s.io.
	StaleAfter, UsageStaleAfter time.Duration
	// MinCoverage, ImplausibleRatio and ImplausibleFor are the operator's doubts of
	// what it reads, as in sensing.Config.
	MinCoverage, ImplausibleRatio float64
	ImplausibleFor                time.Duration
	// PodStartup and NodeStartup are assumed until some were measured.
	PodStartup, NodeStartup api.StartupLatency
	StartupSamples          int

	// Cycle is the operator's period, Reaction from the start of a cycle until a
	// scaling of it is written: 0.2 s, of the order of the cycles that the demo's
	// records show.
	Cycle, Reaction time.Duration
}

// DefaultParams are those of the experiments on a real control plane.
func DefaultParams() Params {
	return Params{
		Startup:     Range{1 * time.Second, 3 * time.Second},
		Readiness:   Range{2 * time.Second, 5 * time.Second},
		Termination: Range{2 * time.Second, 5 * time.Second},
		Controller:  Range{20 * time.Millisecond, 100 * time.Millisecond},
		Binding:     Range{10 * time.Millisecond, 40 * time.Millisecond},
		BootMedian:  75 * time.Second, BootSigma: 0.13,
		Stop: 20 * time.Second, Operation: time.Second, PodGC: 5 * time.Second, NodeGrace: 40 * time.Second,

		ScrapeInterval: 15 * time.Second, Resolution: 15 * time.Second, FreshAge: 10 * time.Second,
		Step: 15 * time.Second, RateWindow: time.Minute, EvaluationDelay: 2 * time.Second, History: 48 * time.Hour,
		StaleAfter: 45 * time.Second, UsageStaleAfter: 2 * time.Minute,
		MinCoverage: 0.9, ImplausibleRatio: 0.5, ImplausibleFor: 2 * time.Minute,
		PodStartup:  api.StartupLatency{P50: 15 * time.Second, P90: 30 * time.Second},
		NodeStartup: api.StartupLatency{P50: 75 * time.Second, P90: 120 * time.Second}, StartupSamples: 100,

		Cycle: 15 * time.Second, Reaction: 200 * time.Millisecond,
	}
}

func (p Params) validate() error {
	for name, d := range map[string]time.Duration{
		"BootMedian": p.BootMedian, "ScrapeInterval": p.ScrapeInterval, "Resolution": p.Resolution,
		"Step": p.Step, "RateWindow": p.RateWindow, "History": p.History, "Cycle": p.Cycle,
		"StaleAfter": p.StaleAfter, "UsageStaleAfter": p.UsageStaleAfter, "ImplausibleFor": p.ImplausibleFor,
	} {
		if d <= 0 {
			return fmt.Errorf("sim params: %s must be positive, is %v", name, d)
		}
	}
	return nil
}

// boot draws the duration of a boot.
func (p Params) boot(rng *rand.Rand) time.Duration {
	return time.Duration(float64(p.BootMedian) * math.Exp(p.BootSigma*rng.NormFloat64()))
}

// rules are what the operator judges demand by.
func (p Params) rules() demand.Rules {
	return demand.Rules{
		Step: p.Step, RateWindow: p.RateWindow, EvaluationDelay: p.EvaluationDelay, StaleAfter: p.StaleAfter, MinCoverage: p.MinCoverage,
		ImplausibleRatio: p.ImplausibleRatio, ImplausibleFor: p.ImplausibleFor,
	}
}
