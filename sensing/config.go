package sensing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// PoolReader reads the node pools from their provider.
type PoolReader interface {
	// Pools returns every pool of the cluster. An error leaves the last good
	// answer in place, held.
	Pools(ctx context.Context) ([]api.Pool, error)
}

// Membership is what a PoolReader may offer besides: whether a node is of a pool
// that it reads. Without it a provider that was configured for another cluster
// than the one that is watched can't be told from the right one.
type Membership interface {
	// Owns tells whether the machine behind a node's provider id is one of a
	// pool, as far as the last reading of pools knows.
	Owns(pool, providerID string) bool
}

// Config of an Observer. Start from [DefaultConfig].
type Config struct {
	// REST is how the API server is reached. Required.
	REST *rest.Config
	// Pools reads node pools, and may implement Membership; nil when there is no provider: then the
	// snapshot has no pools and every core counts as one of the reference
	// machine.
	Pools PoolReader
	// PoolsTimeout bounds one call of Pools.
	PoolsTimeout time.Duration
	// AutoscalerStatus is the ConfigMap in which the Cluster Autoscaler tells
	// which node groups it resizes; it need not exist. Empty: it is not looked at,
	// nor without Pools.
	AutoscalerStatus api.Key
	// PoolLabel is the node label whose value is the name of the node's pool.
	PoolLabel string
	// Self is the pod that the operator runs in: what it belongs to is never scaled.
	// Zero where it runs in none.
	Self api.Key
	// Clock tells the time of a snapshot.
	Clock clock.Clock
	// Panicked is told of a panic about one workload, with its stack, for the log; nil for
	// nobody.
	Panicked func(what string, workload api.Key, value any, stack []byte)

	// SyncTimeout bounds how long Start waits for the caches to fill.
	SyncTimeout time.Duration
	// CacheWait bounds how long Observe waits for the caches to contain our
	// own last writes, looking every CachePoll.
	CacheWait, CachePoll time.Duration

	// PrometheusURL is the base address of the Prometheus API. Required.
	PrometheusURL string
	// PrometheusTransport adds what reaching it takes (bearer token, CA,
	// tenant header); nil is a plain one.
	PrometheusTransport http.RoundTripper
	// CPUMetric is the cumulative counter of CPU seconds per container.
	CPUMetric string
	// MemoryMetric is the working set in bytes per container.
	MemoryMetric string
	// SizingStep is how often the usage of containers is read where their sizes are to be
	// chosen, and SizingHistory how far back.
	SizingStep, SizingHistory time.Duration
	// SizesAtAdmission is true where new pods are given their planned sizes when they are
	// admitted.
	SizesAtAdmission bool
	// PlacesAtAdmission is true where new pods are made to prefer the pool that their
	// workload's status names when they are admitted.
	PlacesAtAdmission bool
	// Matchers are further label matchers of CPUMetric in PromQL, such as
	// `cluster="prod"`; empty for none.
	Matchers string
	// NodeLabel is the label of CPUMetric that names the node.
	NodeLabel string
	// RecordedUsage is a recorded series of cores by namespace, mash2_owner and
	// mash2_nodes, as the chart's recording rules make it from the pods' owners.
	// History is read from it as far as it reaches, and from CPUMetric where it
	// doesn't. Empty for none; it is not asked for when there are Matchers, of
	// which it knows nothing.
	RecordedUsage string
	// SensorHosts are the hosts that strategies may ask, each [NAMESPACE/]HOST[:PORT]; see
	// api.HostAllowed.
	SensorHosts []string
	// Deliveries tells what became of a strategy's webhooks; nil where there are none.
	Deliveries func(api.Key) []api.Delivery
	// Step between samples of demand. A whole number of milliseconds.
	Step time.Duration
	// RateWindow of the rate() under each sample; four scrape intervals are
	// usual, two are the least.
	RateWindow time.Duration
	// EvaluationDelay is how long after its time a sample is first asked for,
	// so that scrapes have arrived.
	EvaluationDelay time.Duration
	// History is how far back demand is read and kept.
	History time.Duration
	// Past is how far back means over PastStep are read, once, in the background,
	// after all of History; nothing where that is no less.
	Past, PastStep time.Duration
	// Overlap is the number of newest steps asked for again, for samples that
	// arrived late.
	Overlap int
	// NewestSteps is the most steps a cycle's own query asks for; what lies
	// further back is fetched in the background.
	NewestSteps int
	// StaleAfter is the age of the newest sample from which demand counts as
	// stale.
	StaleAfter time.Duration
	// MinCoverage is the least share of a workload's Ready pods that must
	// have a sample, 0–1. Missing pods above it are taken to be like the
	// others; below it the demand is stale.
	MinCoverage float64
	// QueryTimeout bounds a cycle's own query, BackfillTimeout one in the
	// background, BackfillWait how long a cycle waits for those.
	QueryTimeout, BackfillTimeout, BackfillWait time.Duration
	// BackfillAttempts is how often a part of history is asked for before it
	// is given up as a gap.
	BackfillAttempts int
	// MaxPoints is the server's limit of steps per query, MaxSamples its
	// limit of samples in memory: 11,000 and 50,000,000 by default there.
	MaxPoints, MaxSamples int
	// Churn is how many series of the metric there are over a slice of
	// history for each one now, because pods are replaced.
	Churn float64
	// MaxResponseBytes bounds an answer of Prometheus; a larger one is an
	// error.
	MaxResponseBytes int64

	// UsageInterval is the least time between readings of metrics.k8s.io; 0
	// reads each cycle. It must be well under the period of cycles: at the same
	// length a cycle that starts a little early reads nothing, and what it knows
	// is then two periods old.
	UsageInterval time.Duration
	// UsageTimeout bounds one reading.
	UsageTimeout time.Duration
	// UsageStaleAfter is the age from which a pod's reading is ignored.
	UsageStaleAfter time.Duration
	// ImplausibleRatio: demand less than this share of what metrics.k8s.io
	// reads for the same workload is not believed, 0–1.
	ImplausibleRatio float64
	// ImplausibleFor is how long a single workload's two sources must disagree
	// before it is reported; many at once are reported immediately.
	ImplausibleFor time.Duration

	// PodStartup and NodeStartup are the leads assumed until some were measured.
	PodStartup, NodeStartup api.StartupLatency
	// StartupSamples is how many of the newest measurements a lead is taken
	// from.
	StartupSamples int

	// Signals are the policies' signals, and SignalsNamespace is where their ConfigMap is;
	// nil for none.
	Signals          func() []api.Signal
	SignalsNamespace string

	// Agents tells what the agents of a workload's pods do; nil where there are none.
	Agents func(api.Key) *api.AgentsState

	// NamespaceLabel is the label that names a series' namespace: the queries of
	// triggers are confined by it.
	NamespaceLabel string
	// KnownAhead is how far ahead the schedule of a trigger is told: at least the
	// horizon of plans.
	KnownAhead time.Duration

	// Behavior of a workload that doesn't say.
	Behavior api.Behavior
}

// DefaultConfig is for a cluster with a scrape interval of 15 s, the default
// limits of Prometheus and the default behaviour of the HPA. REST and
// PrometheusURL are missing in it.
func DefaultConfig() Config {
	return Config{
		PoolsTimeout: 10 * time.Second,
		PoolLabel:    api.LabelNodePool,
		Clock:        clock.RealClock{},

		SyncTimeout: 2 * time.Minute,
		CacheWait:   5 * time.Second,
		CachePoll:   20 * time.Millisecond,

		CPUMetric:        "container_cpu_usage_seconds_total",
		MemoryMetric:     "container_memory_working_set_bytes",
		SizingStep:       10 * time.Minute,
		SizingHistory:    8 * 24 * time.Hour,
		NodeLabel:        "node",
		RecordedUsage:    "mash2:workload_cpu_usage_cores:rate1m",
		Step:             15 * time.Second,
		RateWindow:       time.Minute,
		EvaluationDelay:  2 * time.Second,
		History:          48 * time.Hour,
		Past:             28 * 24 * time.Hour,
		PastStep:         10 * time.Minute,
		Overlap:          3,
		NewestSteps:      20,
		StaleAfter:       45 * time.Second,
		MinCoverage:      0.9,
		QueryTimeout:     5 * time.Second,
		BackfillTimeout:  60 * time.Second,
		BackfillWait:     time.Second,
		BackfillAttempts: 5,
		MaxPoints:        11_000,
		MaxSamples:       50_000_000,
		Churn:            3,
		MaxResponseBytes: 64 << 20,

		UsageInterval:    7500 * time.Millisecond,
		UsageTimeout:     5 * time.Second,
		UsageStaleAfter:  2 * time.Minute,
		ImplausibleRatio: 0.5,
		ImplausibleFor:   2 * time.Minute,

		PodStartup:     api.StartupLatency{P50: 15 * time.Second, P90: 30 * time.Second},
		NodeStartup:    api.StartupLatency{P50: 75 * time.Second, P90: 120 * time.Second},
		StartupSamples: 100,

		NamespaceLabel: "namespace",
		KnownAhead:     20 * time.Minute,

		Behavior: api.Behavior{
			ScaleUp: api.ScalingRules{
				WindowStated: true,
				SelectPolicy: "Max",
				Policies: []api.ScalingPolicy{
					{Type: "Percent", Value: 100, Period: 15 * time.Second},
					{Type: "Pods", Value: 4, Period: 15 * time.Second},
				},
			},
			ScaleDown: api.ScalingRules{
				StabilizationWindow: 5 * time.Minute,
				WindowStated:        true,
				SelectPolicy:        "Max",
				Policies:            []api.ScalingPolicy{{Type: "Percent", Value: 100, Period: 15 * time.Second}},
			},
			Tolerance: 0.1,
		},
	}
}

// Faster is c for a world that runs speed times faster: whatever is measured
// in the world's time is divided; what bounds the machine's own work stays.
func (c Config) Faster(speed float64) Config {
	if speed <= 0 {
		return c
	}
	div := func(ds ...*time.Duration) {
		for _, d := range ds {
			*d = time.Duration(float64(*d) / speed).Round(time.Millisecond)
		}
	}
	div(&c.Step, &c.RateWindow, &c.EvaluationDelay, &c.History, &c.Past, &c.StaleAfter,
		&c.UsageInterval, &c.UsageStaleAfter, &c.ImplausibleFor, &c.KnownAhead,
		&c.SizingStep, &c.SizingHistory,
		&c.PodStartup.P50, &c.PodStartup.P90, &c.NodeStartup.P50, &c.NodeStartup.P90)
	for _, r := range []*api.ScalingRules{&c.Behavior.ScaleUp, &c.Behavior.ScaleDown} {
		r.Policies = append([]api.ScalingPolicy(nil), r.Policies...)
		div(&r.StabilizationWindow)
		for i := range r.Policies {
			div(&r.Policies[i].Period)
		}
	}
	return c
}

// Validate reports every field that can't be used.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("sensing config: "+format, args...))
		}
	}
	check(c.REST != nil, "REST is required")
	check(c.Clock != nil, "Clock is required")
	check(c.PoolLabel != "", "PoolLabel is required")
	for i, host := range c.SensorHosts {
		err := api.CheckHost(host)
		check(err == nil, "SensorHosts[%d] %v", i, err)
	}
	check(c.RecordedUsage == "" || model.LegacyValidation.IsValidMetricName(c.RecordedUsage), "RecordedUsage must be the name of a series, is %q", c.RecordedUsage)
	check(model.LegacyValidation.IsValidMetricName(c.CPUMetric), "CPUMetric must be the name of a series, is %q", c.CPUMetric)
	check(model.LegacyValidation.IsValidMetricName(c.MemoryMetric), "MemoryMetric must be the name of a series, is %q", c.MemoryMetric)
	check(c.SizingStep%time.Millisecond == 0 && c.SizingHistory > c.SizingStep, "SizingStep must be whole milliseconds and less than SizingHistory, are %v and %v", c.SizingStep, c.SizingHistory)
	check(model.LegacyValidation.IsValidLabelName(c.NamespaceLabel), "NamespaceLabel must be the name of a label, is %q", c.NamespaceLabel)
	check(c.KnownAhead > 0, "KnownAhead must be positive, is %v", c.KnownAhead)
	check(model.LegacyValidation.IsValidLabelName(c.NodeLabel), "NodeLabel must be the name of a label, is %q", c.NodeLabel)
	if u, err := url.Parse(c.PrometheusURL); err != nil {
		check(false, "PrometheusURL: %w", err)
	} else {
		check((u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "PrometheusURL must be an http or https address, is %q", c.PrometheusURL)
	}
	for name, d := range map[string]time.Duration{
		"PoolsTimeout": c.PoolsTimeout, "SyncTimeout": c.SyncTimeout, "CacheWait": c.CacheWait, "CachePoll": c.CachePoll,
		"Step": c.Step, "PastStep": c.PastStep, "SizingStep": c.SizingStep, "RateWindow": c.RateWindow, "StaleAfter": c.StaleAfter,
		"QueryTimeout": c.QueryTimeout, "BackfillTimeout": c.BackfillTimeout,
		"UsageTimeout": c.UsageTimeout, "UsageStaleAfter": c.UsageStaleAfter,
	} {
		check(d > 0, "%s must be positive, is %v", name, d)
	}
	for name, d := range map[string]time.Duration{
		"EvaluationDelay": c.EvaluationDelay, "Past": c.Past, "BackfillWait": c.BackfillWait, "UsageInterval": c.UsageInterval,
		"ImplausibleFor": c.ImplausibleFor, "PodStartup.P50": c.PodStartup.P50, "NodeStartup.P50": c.NodeStartup.P50,
	} {
		check(d >= 0, "%s must not be negative, is %v", name, d)
	}
	check(c.Step%time.Millisecond == 0 && c.RateWindow%time.Millisecond == 0,
		"Step and RateWindow must be whole milliseconds, are %v and %v", c.Step, c.RateWindow)
	check(c.History >= c.Step, "History must be at least one Step, is %v", c.History)
	check(c.PodStartup.P90 >= c.PodStartup.P50 && c.NodeStartup.P90 >= c.NodeStartup.P50, "PodStartup and NodeStartup: P90 must not be less than P50")
	check(c.Overlap >= 0, "Overlap must not be negative, is %d", c.Overlap)
	check(c.NewestSteps > c.Overlap, "NewestSteps must be more than Overlap, is %d", c.NewestSteps)
	check(c.MaxPoints > c.NewestSteps, "MaxPoints must be more than NewestSteps, is %d", c.MaxPoints)
	check(c.MaxSamples > 0 && c.MaxResponseBytes > 0, "MaxSamples and MaxResponseBytes must be positive")
	check(c.BackfillAttempts > 0 && c.StartupSamples > 0, "BackfillAttempts and StartupSamples must be positive")
	check(c.Churn >= 1, "Churn must be at least 1, is %v", c.Churn)
	check(c.MinCoverage > 0 && c.MinCoverage <= 1, "MinCoverage must be in (0, 1], is %v", c.MinCoverage)
	check(c.ImplausibleRatio >= 0 && c.ImplausibleRatio < 1, "ImplausibleRatio must be in [0, 1), is %v", c.ImplausibleRatio)
	return errors.Join(errs...)
}

// steps of the history window.
func (c Config) steps() int { return int(c.History / c.Step) }

// pastSteps are those of the past, 0 when none is read.
func (c Config) pastSteps() int64 {
	if c.Past <= c.History || c.PastStep < c.Step {
		return 0
	}
	return int64(c.Past / c.PastStep)
}

// rules are the fields by which demand is judged.
func (c *Config) rules() demand.Rules {
	return demand.Rules{
		Step: c.Step, RateWindow: c.RateWindow, EvaluationDelay: c.EvaluationDelay, StaleAfter: c.StaleAfter, MinCoverage: c.MinCoverage,
		ImplausibleRatio: c.ImplausibleRatio, ImplausibleFor: c.ImplausibleFor,
	}
}
