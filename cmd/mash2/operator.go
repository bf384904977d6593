package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"sync/atomic"
	"time"
	_ "time/tzdata" // images have no time zones of their own

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/execution/kube"
	"github.com/mash2-io/mash2/execution/provider"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/sensing"
	"github.com/mash2-io/mash2/serve"
	"github.com/mash2-io/mash2/strategic/configmap"
)

func newOperator() *cobra.Command {
	var o operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Runs the operator, in a cluster or on a kubeconfig",
		Args:  noArgs,
	}
	o.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.complete(cmd); err != nil {
			return err
		}
		return o.run(cmd.Context(), cmd.ErrOrStderr())
	}
	return cmd
}

// wrapActuator lets tests of this package stand between the loop and the
// world, to be killed at a chosen action.
var wrapActuator = func(a mash2.Actuator) mash2.Actuator { return a }

// parallelActions is how many actions are carried out at once: a change of a
// thousand workloads must not take longer than a cycle because each answer of
// the API server is waited for.
const parallelActions = 16

// run wires the rooms to the corridor and walks it until ctx ends.
func (o *operatorFlags) run(ctx context.Context, stderr io.Writer) error {
	logger := o.logger(stderr)
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	klog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	cfg, err := o.rest()
	if err != nil {
		return err
	}
	cfg.UserAgent = "mash2/" + version
	cfg.QPS, cfg.Burst = o.kubeQPS, o.kubeBurst
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	options := ctrl.Options{
		Scheme:                        scheme,
		HealthProbeBindAddress:        o.probeAddress,
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "operator." + api.Group,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
	}
	if !o.metricsInsecure {
		options.Metrics.SecureServing = true
		options.Metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	if o.profiling {
		options.Metrics.ExtraHandlers = profiles()
	}
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}

	// The two ports, and the intent.
	sense := o.sensing()
	sense.REST = cfg
	if sense.PrometheusTransport, err = o.prometheus.transport(); err != nil {
		return err
	}
	nodes, closeNodes, err := o.provider.open(ctx, cfg, client)
	if err != nil {
		return err
	}
	defer func() { _ = closeNodes() }()
	if nodes != nil {
		sense.Pools = nodes
	}
	observer, err := sensing.New(sense)
	if err != nil {
		return err
	}
	pods, err := kube.New(cfg, kube.Options{
		Written: observer.NoteWrite,
		// Refused once, it is asked for again in the next cycle.
		EvictionBackoff: o.period / 2,
	})
	if err != nil {
		return err
	}
	policies := configmap.New(client, o.namespace, o.configMap)

	// The planner.
	packer, err := node.New(node.Config{Solver: o.solver})
	if err != nil {
		return usageError{err}
	}
	forecaster, err := guarded(o.forecaster)
	if err != nil {
		return err
	}
	hierarchy := planning.Hierarchy{
		Config:     o.planning(),
		Planners:   map[string]planning.WorkloadPlanner{planning.DefaultPlanner: horizontal.Planner{}},
		Nodes:      packer,
		Forecaster: forecaster,
	}

	// Who is told.
	gauges, err := serve.NewMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	beat := &heartbeat{limit: max(20*o.period, 5*time.Minute)}
	reporters := serve.Reporters{
		beat,
		gauges,
		&serve.Log{Logger: logger},
		&serve.Status{
			Client: mgr.GetClient(), Events: mgr.GetEventRecorder("mash2"), Logger: logger,
			Policy: types.NamespacedName{Namespace: o.namespace, Name: o.configMap}, Refresh: time.Minute,
		},
	}
	if o.cycleLog != "" {
		file, err := os.OpenFile(o.cycleLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("opening the cycle log: %w", err)
		}
		defer file.Close()
		reporters = append(reporters, cycleLog{json.NewEncoder(file), logger})
	}

	loop := &mash2.Loop{
		Config: mash2.Config{
			Period: o.period, ActionTimeout: o.actionTimeout, Parallel: parallelActions, WakeGap: o.wakeGap, Wake: policies.Changed(),
		},
		Observer: observer,
		Policies: policies,
		Planner:  hierarchy,
		Actuator: wrapActuator(actuator{pods: pods, nodes: nodes}),
		Reporter: reporters,
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		logger.Info("leading", "version", version, "period", o.period, "provider", o.provider.name, "solver", o.solver)
		if err := policies.Start(ctx); err != nil {
			return fmt.Errorf("watching the policy: %w", err)
		}
		if err := observer.Start(ctx); err != nil {
			return fmt.Errorf("filling the caches: %w", err)
		}
		beat.start()
		return loop.Start(ctx)
	}))
	if err != nil {
		return err
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("cycles", beat.check),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// profiles are Go's debug endpoints, by path. They stand behind the same
// authentication and authorization as /metrics.
func profiles() map[string]http.Handler {
	return map[string]http.Handler{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
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

// actuator sends each action to the port it is for.
type actuator struct {
	pods  *kube.Actuator
	nodes provider.Provider // nil without one
}

// Apply implements mash2.Actuator.
func (a actuator) Apply(ctx context.Context, action api.Action) error {
	switch action.(type) {
	case api.ResizePool, api.RemoveNode:
		if a.nodes == nil {
			return fmt.Errorf("no provider is configured that could %s", action)
		}
		if err := a.pods.Vacant(ctx, action); err != nil {
			return err
		}
		return a.nodes.Apply(ctx, action)
	case api.ScaleWorkload:
		return a.pods.Apply(ctx, action)
	default: // moves of pods between nodes
		if _, ok := a.nodes.(provider.ReadOnly); ok {
			return a.nodes.Apply(ctx, action)
		}
		return a.pods.Apply(ctx, action)
	}
}

// heartbeat is the liveness check: a loop that hangs gets the process
// restarted.
type heartbeat struct {
	limit time.Duration
	last  atomic.Int64 // unix nanoseconds; 0 while not leading
}

func (h *heartbeat) start() { h.last.Store(time.Now().UnixNano()) }

// Report implements mash2.Reporter.
func (h *heartbeat) Report(context.Context, api.Cycle) { h.start() }

func (h *heartbeat) check(*http.Request) error {
	last := h.last.Load()
	if last == 0 {
		return nil // waiting to lead is healthy
	}
	if age := time.Since(time.Unix(0, last)); age > h.limit {
		return fmt.Errorf("the last cycle ended %v ago, more than %v", age.Round(time.Second), h.limit)
	}
	return nil
}

// cycleLog appends every record to a file.
type cycleLog struct {
	enc    *json.Encoder
	logger *slog.Logger
}

// Report implements mash2.Reporter.
func (l cycleLog) Report(_ context.Context, c api.Cycle) {
	if err := l.enc.Encode(c); err != nil {
		l.logger.Error("writing the cycle log", "error", err)
	}
}
