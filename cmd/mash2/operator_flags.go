package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/sensing"
)

// operatorFlags are the settings of mash2 operator. Every duration is a flag;
// --speed divides the defaults of all of them at once.
type operatorFlags struct {
	connection

	speed float64

	// The cycle.
	period, wakeGap, actionTimeout time.Duration

	// Demand.
	prometheus                prometheusFlags
	step, rateWindow          time.Duration
	history, past             time.Duration
	staleAfter, usageInterval time.Duration
	horizon                   time.Duration
	forecaster                string
	downStabilization         time.Duration
	nodeStabilization         time.Duration
	podLead, nodeLead         time.Duration

	// Nodes.
	provider                     providerFlags
	solver                       string
	solverIterations, packings   int
	metricsAddress, probeAddress string
	metricsInsecure, profiling   bool
	leaderElect                  bool
	autoscalerStatus             string
	logFormat                    string
	verbose                      bool
	cycleLog                     string
	kubeQPS                      float32
	kubeBurst                    int
}

// durations lists the duration flags that --speed divides, with their defaults
// at speed 1.
func (o *operatorFlags) durations() []durationFlag {
	sense, plan := sensing.DefaultConfig(), planning.DefaultConfig()
	return []durationFlag{
		{&o.period, "period", plan.CyclePeriod, "time between the starts of cycles"},
		{&o.wakeGap, "wake-gap", time.Second, "least time between two cycles when woken early by a changed policy"},
		{&o.step, "step", sense.Step, "sample step of demand; no finer than the scrape interval"},
		{&o.rateWindow, "rate-window", sense.RateWindow, "window of the CPU usage rate; four scrape intervals are a good choice"},
		{&o.history, "history", sense.History, "how much history of demand to keep and forecast from"},
		{&o.past, "past", sense.Past, "how far back means of ten minutes are read, once, in the background, for seasons of a week; none if no more than --history"},
		{&o.staleAfter, "stale-after", sense.StaleAfter, "age of the newest sample from which demand is stale: then nothing scales down"},
		{&o.usageInterval, "resource-metrics-interval", sense.UsageInterval, "time between two readings of metrics.k8s.io"},
		{&o.horizon, "horizon", plan.Horizon, "how far ahead demand is forecast; covers the node lead"},
		{&o.downStabilization, "downscale-stabilization", plan.Stabilization, "backward stabilization of scale-down where no licensed forecast looks ahead, as the HPA's"},
		{&o.nodeStabilization, "node-stabilization", plan.NodeStabilization, "how long nodes must have been of no use where no licensed forecast looks ahead, as Cluster Autoscaler's unneeded time; less while demand keeps falling"},
		{&o.podLead, "pod-lead", sense.PodLead.P90, "how long a replica takes to become Ready, until it is measured"},
		{&o.nodeLead, "node-lead", sense.BootLead.P90, "how long a node takes to become Ready, until it is measured"},
	}
}

// durationFlag is a flag whose default --speed divides.
type durationFlag struct {
	value *time.Duration
	name  string
	def   time.Duration
	usage string
}

func (o *operatorFlags) register(cmd *cobra.Command) {
	o.flags(cmd)
	f := cmd.Flags()
	f.Float64Var(&o.speed, "speed", 1, "divides the default of every duration, for demonstrations on compressed time")
	for _, d := range o.durations() {
		f.DurationVar(d.value, d.name, d.def, d.usage)
	}
	f.DurationVar(&o.actionTimeout, "action-timeout", 30*time.Second, "bound on one action")
	o.prometheus.register(cmd)
	o.provider.register(cmd)
	f.StringVar(&o.autoscalerStatus, "cluster-autoscaler-status", "kube-system/cluster-autoscaler-status",
		"ConfigMap by which Cluster Autoscaler tells which node groups it resizes, to leave these pools to it; empty to look at none")
	forecasterFlag(cmd, &o.forecaster)
	f.StringVar(&o.solver, "solver", node.Auto, "packing solver: see mash2 version for those of this build")
	f.IntVar(&o.solverIterations, "solver-iterations", 0, "work budget of one packing; 0 is the solver's own")
	f.IntVar(&o.packings, "packings", planning.DefaultConfig().Packings, "work budget of a cycle's search, in packings")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "address of /metrics; 0 turns it off")
	f.BoolVar(&o.metricsInsecure, "metrics-insecure", false, "serve /metrics over plain HTTP without authentication (loopback only)")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns it off")
	f.BoolVar(&o.profiling, "profiling", false, "serve Go's profiles at /debug/pprof/ beside /metrics, to those who may get that non-resource URL")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "only the leader of several replicas acts")
	f.Float32Var(&o.kubeQPS, "kube-api-qps", 200, "requests per second to the Kubernetes API; a change of many workloads at once takes two each")
	f.IntVar(&o.kubeBurst, "kube-api-burst", 400, "requests to the Kubernetes API at once")
	f.StringVar(&o.logFormat, "log-format", "json", "json or text")
	f.BoolVar(&o.verbose, "verbose", false, "log every cycle")
	f.StringVar(&o.cycleLog, "cycle-log", "", "file to append every cycle's record to, one JSON object a line")
}

// forecasterFlag names what forecasts demand.
func forecasterFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "forecaster", forecast.QuickName,
		"what forecasts demand: "+forecast.QuickName+", "+forecast.AutoName+" (the whole portfolio, at more CPU), or one model by the name that mash2 forecast knows it by")
}

// guarded is the forecaster of that name, as a planner may use it.
func guarded(name string) (forecast.Forecaster, error) {
	f, err := forecast.ByName(name)
	if err != nil {
		return nil, usagef("--forecaster: %w", err)
	}
	return forecast.Guarded(f), nil
}

// complete divides defaults by the speed and checks everything.
func (o *operatorFlags) complete(cmd *cobra.Command) error {
	if !(o.speed > 0) {
		return usagef("--speed must be above 0, is %g", o.speed)
	}
	for _, d := range o.durations() {
		if !cmd.Flags().Changed(d.name) {
			*d.value = time.Duration(float64(d.def) / o.speed).Round(time.Millisecond)
		}
		if *d.value < 0 || *d.value == 0 && d.value != &o.past {
			return usagef("--%s must be above 0, is %v", d.name, *d.value)
		}
	}
	if !slices.Contains(node.Solvers(), o.solver) {
		return usagef("--solver %q is not in this build, which has %v", o.solver, node.Solvers())
	}
	if _, err := guarded(o.forecaster); err != nil {
		return err
	}
	if o.solverIterations < 0 || o.packings < 1 {
		return usagef("--solver-iterations must be 0 or more and --packings 1 or more, are %d and %d", o.solverIterations, o.packings)
	}
	if err := o.prometheus.validate(); err != nil {
		return err
	}
	if err := o.provider.validate(); err != nil {
		return err
	}
	if namespace, name, ok := strings.Cut(o.autoscalerStatus, "/"); o.autoscalerStatus != "" && (!ok || namespace == "" || name == "") {
		return usagef("--cluster-autoscaler-status must be NAMESPACE/NAME, is %q", o.autoscalerStatus)
	}
	switch o.logFormat {
	case "json", "text":
	default:
		return usagef("--log-format must be json or text, not %q", o.logFormat)
	}
	if !(o.kubeQPS > 0) || o.kubeBurst < 1 {
		return usagef("--kube-api-qps must be above 0 and --kube-api-burst 1 or more, are %g and %d", o.kubeQPS, o.kubeBurst)
	}
	if o.actionTimeout <= 0 {
		return usagef("--action-timeout must be above 0, is %v", o.actionTimeout)
	}
	if o.horizon < o.nodeLead+o.period {
		return usagef("--horizon %v does not cover the node lead of %v and a cycle", o.horizon, o.nodeLead)
	}
	sense := o.sensing()
	sense.REST = &rest.Config{} // comes with the connection
	if err := sense.Validate(); err != nil {
		return usageError{err}
	}
	if err := o.planning().Validate(); err != nil {
		return usageError{err}
	}
	return nil
}

// sensing is the Observer's configuration, but for its clients.
func (o *operatorFlags) sensing() sensing.Config {
	c := sensing.DefaultConfig().Faster(o.speed)
	c.PrometheusURL, c.Matchers, c.RecordedUsage = o.prometheus.url, o.prometheus.matchers, o.prometheus.recorded
	c.Step, c.RateWindow, c.StaleAfter = o.step, o.rateWindow, o.staleAfter
	c.History, c.Past = o.history, o.past
	c.UsageInterval = o.usageInterval
	c.PoolLabel = o.provider.label()
	c.AutoscalerStatus.Namespace, c.AutoscalerStatus.Name, _ = strings.Cut(o.autoscalerStatus, "/")
	// Where a workload states no behaviour, the Guard's own defaults hold: a
	// licensed forecast looks ahead instead of back.
	c.Behavior = api.Behavior{}
	c.PodLead.P90, c.BootLead.P90 = o.podLead, o.nodeLead
	c.PodLead.P50, c.BootLead.P50 = min(c.PodLead.P50, o.podLead), min(c.BootLead.P50, o.nodeLead)
	return c
}

// planning is the Hierarchy's configuration.
func (o *operatorFlags) planning() planning.Config {
	c := planning.DefaultConfig().Scaled(o.speed)
	c.CyclePeriod, c.Horizon = o.period, o.horizon
	c.Stabilization, c.NodeStabilization = o.downStabilization, o.nodeStabilization
	// A sample is as old as the scrape and half its averaging window.
	c.MetricDelay = o.step/2 + o.rateWindow/2
	c.Packings = o.packings
	c.Solver.Iterations = o.solverIterations
	return c
}
