package cli

import (
	"context"
	"errors"
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
	"github.com/mash2-io/mash2/execution/webhook"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/operator"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
	"github.com/mash2-io/mash2/sensing"
)

func newOperator(wrap func(mash2.Actuator) mash2.Actuator) *cobra.Command {
	var o operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Runs the operator, in a cluster or with a kubeconfig",
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
	evaluationDelay           time.Duration
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
	externalAddress              string
	externalCertDir              string
	externalInsecure             bool
	leaderElect                  bool
	autoscalerStatus             string
	logFormat                    string
	verbose                      bool
	cycleLog                     string
	records                      record.Config
	knowledge                    operator.Knowledge
	stateDir, stateConfigMap     string
	memoryMetric                 string
	sizesAtAdmission             bool
	placesAtAdmission            bool
	modelsDir                    string
	files                        operator.ModelFiles
	leftOut                      error             // why other files of --models are not among these
	models                       map[string][]byte // of files, those that decide of replicas
	agents                       map[string]agents.Mind
	sensorHosts, webhookHosts    []string
	webhookKeyFile               string
	webhookKey                   []byte
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
		{&o.wakeGap, "wake-gap", def.Core.WakeGap, "shortest time between two cycles when a changed policy starts one early"},
		{&o.step, "step", sense.Step, "sample step of demand; no finer than the scrape interval"},
		{&o.rateWindow, "rate-window", sense.RateWindow, "window of the CPU usage rate; four scrape intervals are a good choice"},
		{&o.history, "history", sense.History, "how much demand history to keep and to forecast from"},
		{&o.past, "past", sense.Past, "how far back ten-minute means are read, once and in the background, for weekly seasons; none if not longer than --history"},
		{&o.evaluationDelay, "evaluation-delay", sense.EvaluationDelay, "how long after its time a sample is asked for: as long as samples may take to reach Prometheus"},
		{&o.staleAfter, "stale-after", sense.StaleAfter, "demand is stale when its newest sample is older than this, three steps at least; stale workloads do not scale down"},
		{&o.usageInterval, "resource-metrics-interval", sense.UsageInterval, "time between two readings of metrics.k8s.io"},
		{&o.horizon, "horizon", plan.Horizon, "how far ahead demand is forecast; should cover the node startup latency"},
		{&o.downStabilization, "downscale-stabilization", plan.Stabilization, "stabilization window of scale-down where no forecast is trusted, as in the HPA; with an objective no less than --node-stabilization"},
		{&o.nodeStabilization, "node-stabilization", plan.NodeStabilization, "how long a node must be unneeded before it goes where no forecast is trusted, as in Cluster Autoscaler; shorter while demand keeps falling, and with an objective up to six times as long where that is cheaper"},
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
	f.Float64Var(&o.speed, "speed", 1, "speed-up: divides the default of every duration, for demonstrations in compressed time")
	for _, d := range o.durations() {
		f.DurationVar(d.value, d.name, d.def, d.usage)
	}
	f.DurationVar(&o.actionTimeout, "action-timeout", operator.DefaultConfig().Core.ActionTimeout, "timeout of one action")
	o.prometheus.register(cmd)
	o.provider.register(cmd)
	f.StringVar(&o.autoscalerStatus, "cluster-autoscaler-status", "kube-system/cluster-autoscaler-status",
		"NAMESPACE/NAME of the ConfigMap in which Cluster Autoscaler lists its node groups; mash2 does not resize these pools; empty: none")
	ForecasterFlag(cmd, &o.forecaster)
	f.StringVar(&o.solver, "solver", node.Auto, "packing solver; mash2 version lists those of this build")
	f.IntVar(&o.solverIterations, "solver-iterations", 0, "work budget of one packing (0: the solver's default)")
	f.IntVar(&o.packings, "packings", operator.DefaultConfig().Core.Planning.Packings, "work budget of a cycle's search, in packings")
	f.BoolVar(&o.sizesAtAdmission, "sizes-at-admission", false, "an admission policy gives new pods their planned requests; the chart sets this where it installs that policy")
	f.BoolVar(&o.placesAtAdmission, "places-at-admission", false, "an admission policy has new pods prefer the node pool in their workload's status, as a move of one workload takes; the chart sets this where it installs that policy")
	f.StringVar(&o.memoryMetric, "memory-metric", sensing.DefaultConfig().MemoryMetric, "metric of each container's working set in bytes, from which memory requests are planned")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "address of /metrics; 0 turns it off")
	f.BoolVar(&o.metricsInsecure, "metrics-insecure", false, "serve /metrics over plain HTTP without authentication (loopback only)")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns it off")
	f.BoolVar(&o.profiling, "profiling", false, "serve Go's profiles at /debug/pprof/ beside /metrics, for users with the right to get that non-resource URL")
	f.StringVar(&o.pageAddress, "page-bind-address", "0", "address of the page and its API, over TLS, for users whose token may list ManagedWorkloads; 0 turns it off")
	f.BoolVar(&o.pageInsecure, "page-insecure", false, "serve the page read-only, over plain HTTP without authentication; loopback addresses only")
	f.StringVar(&o.externalAddress, "external-scaler-bind-address", "0", "address of the external scaler for KEDA (gRPC over TLS), for workloads with spec.actuator KEDA; 0 turns it off")
	f.StringVar(&o.externalCertDir, "external-scaler-cert-dir", "", "folder with tls.crt and tls.key of the external scaler, and with ca.crt if clients need a certificate (default: a self-signed certificate, new at each start)")
	f.BoolVar(&o.externalInsecure, "external-scaler-insecure", false, "serve the external scaler without TLS; loopback addresses only")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "only the leader of several replicas acts")
	f.Float32Var(&o.kubeQPS, "kube-api-qps", 200, "requests per second to the Kubernetes API; a change of many workloads needs two for each")
	f.IntVar(&o.kubeBurst, "kube-api-burst", 400, "burst of requests to the Kubernetes API")
	f.StringVar(&o.logFormat, "log-format", "json", "json or text")
	f.BoolVar(&o.verbose, "verbose", false, "log every cycle")
	f.StringVar(&o.records.Dir, "records", "", "folder in which every cycle is recorded, for mash2 replay and mash2 explain; empty: no records")
	f.Int64Var(&o.records.MaxBytes, "records-max-bytes", 1<<30, "largest size of the records in bytes; the oldest are deleted; 0: no limit")
	f.DurationVar(&o.records.MaxAge, "records-max-age", 7*24*time.Hour, "records older than this are deleted; 0: no limit")
	f.DurationVar(&o.knowledge.MaxAge, "knowledge-max-age", knowledge.DefaultMaxAge, "entries of the knowledge base, which is kept beside the records, are deleted when they are older than this; 0: no limit")
	f.Int64Var(&o.knowledge.MaxBytes, "knowledge-max-bytes", knowledge.DefaultMaxBytes, "largest size of the knowledge base's entries in bytes; 0: no knowledge base")
	f.StringVar(&o.modelsDir, "models", "", "folder of learned models, read at the start and again when they change: NAME.rl or NAME/model.rl for workloads with spec.planner rl and for agents (spec.vertical.model); NAME.json, NAME.txt, NAME.onnx with NAME.features, NAME/model.json or NAME/model.onnx with NAME/model.features for choices of strategies")
	f.StringSliceVar(&o.sensorHosts, "sensor-host", nil, "host that sensors of strategies may ask, [NAMESPACE/]HOST[:PORT]; may be repeated; none without it")
	f.StringSliceVar(&o.webhookHosts, "webhook-host", nil, "host that strategies may call, [NAMESPACE/]HOST[:PORT]; may be repeated; none without it")
	f.StringVar(&o.webhookKeyFile, "webhook-key-file", "", "file with the key that signs calls of webhooks, as Standard Webhooks write it: whsec_ and base64 of 24 to 64 bytes; no calls without it")
	f.StringVar(&o.stateDir, "state-dir", "", "folder for checkpoints of trust in forecasts, stabilization and cooldowns, which history can't restore after a restart; empty: no checkpoints")
	f.StringVar(&o.stateConfigMap, "state-configmap", "", "name prefix of ConfigMaps with the same checkpoints, for a leader on another node, written at most once a minute; empty: none")
	f.StringVar(&o.cycleLog, "cycle-log", "", "file to which every cycle's record is appended, one JSON object a line")
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
		"forecaster of demand: "+forecast.QuickName+", "+forecast.AutoName+" (all models, at a higher CPU cost), or the name of one model, as in mash2 forecast")
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
	if err := o.takeModels(); err != nil {
		return Usagef("--models: %w", err)
	}
	if o.webhookKeyFile != "" {
		text, err := os.ReadFile(o.webhookKeyFile)
		if err != nil {
			return Usagef("--webhook-key-file: %w", err)
		}
		if o.webhookKey, err = webhook.ParseKey(string(text)); err != nil {
			return Usagef("--webhook-key-file: %s %w", o.webhookKeyFile, err)
		}
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
	c.ExternalAddress, c.ExternalCertDir, c.ExternalInsecure = o.externalAddress, o.externalCertDir, o.externalInsecure
	c.ProbeAddress, c.LeaderElection = o.probeAddress, o.leaderElect
	c.CycleLog, c.Version, c.Agents = o.cycleLog, version, o.agents
	c.LeftOut = o.leftOut
	if c.Models = o.files; o.modelsDir != "" {
		c.ReadModels = o.readModels
	}
	c.WebhookHosts, c.WebhookKey = o.webhookHosts, o.webhookKey
	c.Records, c.Knowledge, c.StateDir, c.StateConfigMap = o.records, o.knowledge, o.stateDir, o.stateConfigMap
	return c
}

// takeModels reads those of --models that can be used. One bad file is no reason to scale nothing:
// it is left out, and said so.
func (o *operatorFlags) takeModels() error {
	files, refused, err := usableModels(o.modelsDir, maxModel, checkModels)
	if err != nil {
		return err
	}
	o.files, o.leftOut = operator.ModelFiles{Learned: files.rl, Strategies: files.qos}, errors.Join(refused...)
	o.agents, o.models, err = agents.Minds(o.files.Learned)
	return err
}

// checkModels is the reason why something that decides can't use models.
func checkModels(files modelFiles) error {
	_, replicas, err := agents.Minds(files.rl)
	if err != nil {
		return err
	}
	c := core.DefaultConfig()
	c.Models, c.QoS = replicas, files.qos
	return c.Validate()
}

// readModels reads those of --models.
func (o *operatorFlags) readModels() (operator.ModelFiles, error) {
	files, err := readModels(o.modelsDir)
	return operator.ModelFiles{Learned: files.rl, Strategies: files.qos}, err
}

// core is what decides.
func (o *operatorFlags) core() core.Config {
	c := core.DefaultConfig().Faster(o.speed)
	c.Forecaster, c.Solver, c.Models, c.QoS = o.forecaster, o.solver, o.models, o.files.Strategies
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
	c.SensorHosts = o.sensorHosts
	c.PrometheusURL, c.Matchers, c.RecordedUsage = o.prometheus.URL, o.prometheus.Matchers, o.prometheus.Recorded
	c.MemoryMetric, c.SizesAtAdmission, c.PlacesAtAdmission = o.memoryMetric, o.sizesAtAdmission, o.placesAtAdmission
	c.Step, c.RateWindow, c.EvaluationDelay = o.step, o.rateWindow, o.evaluationDelay
	c.StaleAfter = max(o.staleAfter, 3*o.step)
	c.History, c.Past = o.history, o.past
	c.UsageInterval = o.usageInterval
	c.PoolLabel = o.provider.poolLabel
	c.AutoscalerStatus = api.Key{}
	c.AutoscalerStatus.Namespace, c.AutoscalerStatus.Name, _ = strings.Cut(o.autoscalerStatus, "/")
	c.PodStartup.P90, c.NodeStartup.P90 = o.podStartup, o.nodeStartup
	c.PodStartup.P50, c.NodeStartup.P50 = min(c.PodStartup.P50, o.podStartup), min(c.NodeStartup.P50, o.nodeStartup)
	return c
}
