package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/operator"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/sensing"
)

func newOperator(wrap func(mash2.Actuator) mash2.Actuator) *cobra.Command {
	var o operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Runs the operator, in a cluster or on a kubeconfig",
		Args:  NoArgs,
	}
	o.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.complete(cmd); err != nil {
			return err
		}
		return o.run(cmd.Context(), cmd.ErrOrStderr(), wrap)
	}
	return cmd
}

// operatorFlags are the settings of mash2 operator. Every duration is a flag;
// --speed divides the defaults of all of them at once.
type operatorFlags struct {
	connection

	speed float64

	// The cycle.
	period, wakeGap, actionTimeout time.Duration

	// Demand.
	prometheus                PrometheusFlags
	step, rateWindow          time.Duration
	history, past             time.Duration
	staleAfter, usageInterval time.Duration
	horizon                   time.Duration
	forecaster                string
	downStabilization         time.Duration
	nodeStabilization         time.Duration
	podStartup, nodeStartup   time.Duration

	// Nodes.
	provider                     providerFlags
	solver                       string
	solverIterations, packings   int
	metricsAddress, probeAddress string
	metricsInsecure, profiling   bool
	pageAddress                  string
	pageInsecure                 bool
	leaderElect                  bool
	autoscalerStatus             string
	logFormat                    string
	verbose                      bool
	cycleLog                     string
	records                      record.Config
	stateDir, stateConfigMap     string
	kubeQPS                      float32
	kubeBurst                    int
}

// memoryVariable has the container's memory limit in bytes; the chart sets it.
const memoryVariable = "MASH2_MEMORY_LIMIT"

// memoryLimit is what the garbage collector keeps the process within, in bytes: nine tenths
// of the container's limit, the rest being for what is not on the heap. It is 0, none,
// where that is not known or GOMEMLIMIT states one.
func memoryLimit(stated, container string) (int64, error) {
	if stated != "" || container == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(container, 10, 64)
	if err != nil || n <= 0 {
		return 0, Usagef("%s must be a number of bytes, is %q", memoryVariable, container)
	}
	return n / 10 * 9, nil
}

// run runs the operator until ctx ends.
func (o *operatorFlags) run(ctx context.Context, stderr io.Writer, wrap func(mash2.Actuator) mash2.Actuator) error {
	limit, err := memoryLimit(os.Getenv("GOMEMLIMIT"), os.Getenv(memoryVariable))
	if err != nil {
		return err
	}
	if limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	cfg := o.config()
	cfg.WrapActuator = wrap
	cfg.Logger = o.logger(stderr)
	ctrl.SetLogger(logr.FromSlogHandler(cfg.Logger.Handler()))
	klog.SetLogger(logr.FromSlogHandler(cfg.Logger.Handler()))
	if cfg.REST, err = o.rest(); err != nil {
		return err
	}
	cfg.REST.UserAgent = "mash2/" + version
	cfg.REST.QPS, cfg.REST.Burst = o.kubeQPS, o.kubeBurst
	if cfg.Sensing.PrometheusTransport, err = o.prometheus.Transport(); err != nil {
		return err
	}
	if cfg.Provider.ClusterAPI.REST, err = o.provider.management(); err != nil {
		return err
	}
	return operator.Run(ctx, cfg)
}

func (o *operatorFlags) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if o.verbose {
		options.Level = slog.LevelDebug
	}
	if o.logFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// durations lists the duration flags that --speed divides, with their defaults
// at speed 1.
func (o *operatorFlags) durations() []durationFlag {
	def := operator.DefaultConfig()
	sense, plan := def.Sensing, def.Core.Planning
	return []durationFlag{
		{&o.period, "period", plan.CyclePeriod, "time between the starts of cycles"},
		{&o.wakeGap, "wake-gap", def.Core.WakeGap, "least time between two cycles when woken early by a changed policy"},
		{&o.step, "step", sense.Step, "sample step of demand; no finer than the scrape interval"},
		{&o.rateWindow, "rate-window", sense.RateWindow, "window of the CPU usage rate; four scrape intervals are a good choice"},
		{&o.history, "history", sense.History, "how much history of demand to keep and forecast from"},
		{&o.past, "past", sense.Past, "how far back means of ten minutes are read, once, in the background, for seasons of a week; none if no more than --history"},
		{&o.staleAfter, "stale-after", sense.StaleAfter, "age of the newest sample from which demand is stale: then nothing scales down"},
		{&o.usageInterval, "resource-metrics-interval", sense.UsageInterval, "time between two readings of metrics.k8s.io"},
		{&o.horizon, "horizon", plan.Horizon, "how far ahead demand is forecast; covers the node startup latency"},
		{&o.downStabilization, "downscale-stabilization", plan.Stabilization, "backward stabilization of scale-down where no trusted forecast looks ahead, as the HPA's"},
		{&o.nodeStabilization, "node-stabilization", plan.NodeStabilization, "how long nodes must have been of no use where no trusted forecast looks ahead, as Cluster Autoscaler's unneeded time; less while demand keeps falling"},
		{&o.podStartup, "pod-startup", sense.PodStartup.P90, "how long a replica takes to become Ready, until it is measured"},
		{&o.nodeStartup, "node-startup", sense.NodeStartup.P90, "how long a node takes to become Ready, until it is measured"},
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
	f.SetNormalizeFunc(oldNames)
	f.Float64Var(&o.speed, "speed", 1, "divides the default of every duration, for demonstrations on compressed time")
	for _, d := range o.durations() {
		f.DurationVar(d.value, d.name, d.def, d.usage)
	}
	f.DurationVar(&o.actionTimeout, "action-timeout", operator.DefaultConfig().Core.ActionTimeout, "bound on one action")
	o.prometheus.register(cmd)
	o.provider.register(cmd)
	f.StringVar(&o.autoscalerStatus, "cluster-autoscaler-status", "kube-system/cluster-autoscaler-status",
		"ConfigMap by which Cluster Autoscaler tells which node groups it resizes, to leave these pools to it; empty to look at none")
	ForecasterFlag(cmd, &o.forecaster)
	f.StringVar(&o.solver, "solver", node.Auto, "packing solver: see mash2 version for those of this build")
	f.IntVar(&o.solverIterations, "solver-iterations", 0, "work budget of one packing; 0 is the solver's own")
	f.IntVar(&o.packings, "packings", operator.DefaultConfig().Core.Planning.Packings, "work budget of a cycle's search, in packings")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "address of /metrics; 0 turns it off")
	f.BoolVar(&o.metricsInsecure, "metrics-insecure", false, "serve /metrics over plain HTTP without authentication (loopback only)")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns it off")
	f.BoolVar(&o.profiling, "profiling", false, "serve Go's profiles at /debug/pprof/ beside /metrics, to those who may get that non-resource URL")
	f.StringVar(&o.pageAddress, "page-bind-address", "0", "address of the page and its API, over TLS, to who has a token that may list ManagedWorkloads; 0 turns it off")
	f.BoolVar(&o.pageInsecure, "page-insecure", false, "serve the page over plain HTTP without authentication, to look only; loopback addresses only")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "only the leader of several replicas acts")
	f.Float32Var(&o.kubeQPS, "kube-api-qps", 200, "requests per second to the Kubernetes API; a change of many workloads at once takes two each")
	f.IntVar(&o.kubeBurst, "kube-api-burst", 400, "requests to the Kubernetes API at once")
	f.StringVar(&o.logFormat, "log-format", "json", "json or text")
	f.BoolVar(&o.verbose, "verbose", false, "log every cycle")
	f.StringVar(&o.records.Dir, "records", "", "folder to keep every cycle in, for mash2 replay and mash2 explain; nothing is kept if empty")
	f.Int64Var(&o.records.MaxBytes, "records-max-bytes", 1<<30, "bytes that records may take; the oldest are deleted; 0 for no bound")
	f.DurationVar(&o.records.MaxAge, "records-max-age", 7*24*time.Hour, "age from which records are deleted; 0 for no bound")
	f.StringVar(&o.stateDir, "state-dir", "", "folder for checkpoints of what a restart can't read from history: trust in forecasts, stabilization, cooldowns; none are kept if empty")
	f.StringVar(&o.stateConfigMap, "state-configmap", "", "beginning of the names of the ConfigMaps in which the same is kept for a leader on another node, at most once a minute; none are if empty")
	f.StringVar(&o.cycleLog, "cycle-log", "", "file to append every cycle's record to, one JSON object a line")
}

// oldNames are flags' names of the release before, which still work for this one.
func oldNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "pod-lead":
		name = "pod-startup"
	case "node-lead":
		name = "node-startup"
	}
	return pflag.NormalizedName(name)
}

// ForecasterFlag names what forecasts demand.
func ForecasterFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "forecaster", forecast.QuickName,
		"what forecasts demand: "+forecast.QuickName+", "+forecast.AutoName+" (the whole portfolio, at more CPU), or one model by the name that mash2 forecast knows it by")
}

// CheckForecaster refuses a name that --forecaster doesn't take.
func CheckForecaster(name string) error {
	if _, err := forecast.ByName(name); err != nil {
		return Usagef("--forecaster: %w", err)
	}
	return nil
}

// complete divides defaults by the speed and checks everything.
func (o *operatorFlags) complete(cmd *cobra.Command) error {
	if !(o.speed > 0) {
		return Usagef("--speed must be above 0, is %g", o.speed)
	}
	for _, d := range o.durations() {
		if !cmd.Flags().Changed(d.name) {
			*d.value = time.Duration(float64(d.def) / o.speed).Round(time.Millisecond)
		}
		if *d.value < 0 || *d.value == 0 && d.value != &o.past {
			return Usagef("--%s must be above 0, is %v", d.name, *d.value)
		}
	}
	if !slices.Contains(node.Solvers(), o.solver) {
		return Usagef("--solver %q is not in this build, which has %v", o.solver, node.Solvers())
	}
	if err := CheckForecaster(o.forecaster); err != nil {
		return err
	}
	if o.solverIterations < 0 || o.packings < 1 {
		return Usagef("--solver-iterations must be 0 or more and --packings 1 or more, are %d and %d", o.solverIterations, o.packings)
	}
	if err := o.prometheus.Validate(); err != nil {
		return err
	}
	if err := o.provider.validate(); err != nil {
		return err
	}
	if namespace, name, ok := strings.Cut(o.autoscalerStatus, "/"); o.autoscalerStatus != "" && (!ok || namespace == "" || name == "") {
		return Usagef("--cluster-autoscaler-status must be NAMESPACE/NAME, is %q", o.autoscalerStatus)
	}
	switch o.logFormat {
	case "json", "text":
	default:
		return Usagef("--log-format must be json or text, not %q", o.logFormat)
	}
	if !(o.kubeQPS > 0) || o.kubeBurst < 1 {
		return Usagef("--kube-api-qps must be above 0 and --kube-api-burst 1 or more, are %g and %d", o.kubeQPS, o.kubeBurst)
	}
	if o.actionTimeout <= 0 {
		return Usagef("--action-timeout must be above 0, is %v", o.actionTimeout)
	}
	if o.horizon < o.nodeStartup+o.period {
		return Usagef("--horizon %v does not cover the node startup latency of %v and a cycle", o.horizon, o.nodeStartup)
	}
	// Clients come with the connection.
	cfg := o.config()
	cfg.REST, cfg.Logger = &rest.Config{}, slog.New(slog.DiscardHandler)
	if err := cfg.Validate(); err != nil {
		return Usage(err)
	}
	return nil
}

// config is the operator's, but for its clients.
func (o *operatorFlags) config() operator.Config {
	c := operator.DefaultConfig()
	c.Policy = types.NamespacedName{Namespace: o.namespace, Name: o.configMap}
	c.Core, c.Sensing = o.core(), o.sensing()
	if host, err := os.Hostname(); err == nil {
		c.Sensing.Self = api.Key{Namespace: o.namespace, Name: host} // a pod's name, where it runs in one
	}
	c.Provider = o.provider.provider()
	c.MetricsAddress, c.MetricsInsecure, c.Profiling = o.metricsAddress, o.metricsInsecure, o.profiling
	c.PageAddress, c.PageInsecure, c.Speed = o.pageAddress, o.pageInsecure, o.speed
	c.ProbeAddress, c.LeaderElection = o.probeAddress, o.leaderElect
	c.CycleLog, c.Version = o.cycleLog, version
	c.Records, c.StateDir, c.StateConfigMap = o.records, o.stateDir, o.stateConfigMap
	return c
}

// core is what decides.
func (o *operatorFlags) core() core.Config {
	c := core.DefaultConfig().Faster(o.speed)
	c.Forecaster, c.Solver = o.forecaster, o.solver
	c.WakeGap, c.ActionTimeout = o.wakeGap, o.actionTimeout
	p := &c.Planning
	p.CyclePeriod, p.Horizon = o.period, o.horizon
	p.Stabilization, p.NodeStabilization = o.downStabilization, o.nodeStabilization
	p.Packings, p.Solver.Iterations = o.packings, o.solverIterations
	return c
}

// sensing is what observes.
func (o *operatorFlags) sensing() sensing.Config {
	c := operator.Sensing(o.speed)
	c.PrometheusURL, c.Matchers, c.RecordedUsage = o.prometheus.URL, o.prometheus.Matchers, o.prometheus.Recorded
	c.Step, c.RateWindow, c.StaleAfter = o.step, o.rateWindow, o.staleAfter
	c.History, c.Past = o.history, o.past
	c.UsageInterval = o.usageInterval
	c.PoolLabel = o.provider.poolLabel
	c.AutoscalerStatus = api.Key{}
	c.AutoscalerStatus.Namespace, c.AutoscalerStatus.Name, _ = strings.Cut(o.autoscalerStatus, "/")
	c.PodStartup.P90, c.NodeStartup.P90 = o.podStartup, o.nodeStartup
	c.PodStartup.P50, c.NodeStartup.P50 = min(c.PodStartup.P50, o.podStartup), min(c.NodeStartup.P50, o.nodeStartup)
	return c
}
