// Package operator builds mash2 from one Config and runs it in a cluster: what
// observes, what decides, what acts and what tells, under leader election.
//
// What decides is built by package core alone, so that simulations decide by the
// same code and defaults without a cluster.
package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
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
	"github.com/mash2-io/mash2/execution/webhook"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/sensing"
	"github.com/mash2-io/mash2/serve"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// Run runs the operator until ctx ends. Errors of a Config that Validate refuses
// come before anything is reached.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c.store = c.knowledge()
	// 1. The planners.
	hierarchy, err := c.core().Hierarchy()
	if err != nil {
		return err
	}
	hierarchy.Panicked = c.panicked
	// 2. What is shared by all that runs: the API server's client, leader election,
	// the servers of metrics and probes.
	self, err := identity()
	if err != nil {
		return err
	}
	mgr, err := c.manager(self)
	if err != nil {
		return err
	}
	// 3. The ports to the world.
	w, err := c.open(ctx, self)
	if err != nil {
		return err
	}
	defer w.close()
	// 4. Who is told.
	beat := newHeartbeat(c.Core.Planning.CyclePeriod)
	reporters, closeReporters, err := c.reporters(mgr, beat)
	if err != nil {
		return err
	}
	defer closeReporters()
	page, err := c.page(ctx, mgr)
	if err != nil {
		return err
	}
	if err := c.serveExternal(mgr); err != nil {
		return err
	}
	// 5. The loop, while this process leads.
	ports := core.Ports{
		Observer: w.observer, Policies: w.policies, Actuator: w.actuator, Reporter: append(reporters, w.fleet), Wake: w.policies.Changed(),
	}
	loop := c.core().Loop(hierarchy, ports)
	loop.Config.ActFor = c.actFor()
	loop.Panicked = func(what string, value any, stack []byte) { c.panicked(what, api.Key{}, value, stack) }
	lead := manager.RunnableFunc(func(ctx context.Context) error {
		c.Logger.Info("leading", "version", c.Version, "period", c.Core.Planning.CyclePeriod, "provider", c.Provider.name(), "solver", c.Core.Solver)
		if err := w.start(ctx); err != nil {
			return err
		}
		log, err := c.keep(loop)
		if err != nil {
			return err
		}
		defer c.closeLog(log)
		c.renewing(ctx, loop, log, w.fleet)
		past := c.past() // before the loop begins a segment of its own
		closeKnowledge, err := c.learn(ctx, loop, self, past)
		if err != nil {
			return err
		}
		defer closeKnowledge()
		page.tap(loop, c, past)
		defer w.fleet.Start(ctx)()
		beat.start()
		return loop.Start(ctx)
	})
	if err := errors.Join(
		mgr.Add(lead),
		mgr.AddHealthzCheck("cycles", beat.check),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// panicked logs a panic about one workload, which is held for it.
func (c Config) panicked(what string, workload api.Key, value any, stack []byte) {
	c.Logger.Error("panicked", "what", what, "workload", workload.String(), "panic", value, "stack", string(stack))
}

// manager holds the API server's cached client, leader election and the servers
// of metrics and probes.
func (c Config) manager(self string) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	options := ctrl.Options{
		Scheme:                        scheme,
		HealthProbeBindAddress:        c.ProbeAddress,
		Metrics:                       metricsserver.Options{BindAddress: c.MetricsAddress},
		LeaderElection:                c.LeaderElection,
		LeaderElectionReleaseOnCancel: true,
	}
	if c.LeaderElection {
		// A request that hangs must not make a leader miss its renewal.
		rest := *c.REST
		rest.Timeout = 5 * time.Second
		client, err := kubernetes.NewForConfig(&rest)
		if err != nil {
			return nil, err
		}
		if options.LeaderElectionResourceLockInterface, err = lock(client, c.Policy.Namespace, self); err != nil {
			return nil, fmt.Errorf("setting up leader election: %w", err)
		}
	}
	if !c.MetricsInsecure {
		options.Metrics.SecureServing = true
		options.Metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	if c.Profiling {
		options.Metrics.ExtraHandlers = profiles()
	}
	mgr, err := ctrl.NewManager(c.REST, options)
	if err != nil {
		return nil, fmt.Errorf("setting up: %w", err)
	}
	return mgr, nil
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

// world is where the loop meets the cluster, its provider and its policies.
type world struct {
	observer *sensing.Observer
	policies *configmap.Source
	actuator mash2.Actuator
	fleet    *agents.Fleet // of agents of running pods
	close    func()
}

// open makes the ports. They read nothing yet but the provider's pools.
func (c Config) open(ctx context.Context, self string) (*world, error) {
	client, err := kubernetes.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	nodes, closeNodes, err := c.Provider.open(ctx, c.REST, client)
	if err != nil {
		return nil, err
	}
	w := &world{
		policies: configmap.New(client, c.Policy.Namespace, c.Policy.Name),
		close:    func() { _ = closeNodes() }, // at the end of the process
	}
	var pools sensing.PoolReader
	if nodes != nil {
		pools = nodes
	}
	senses := c.sensing(pools)
	senses.Signals = w.policies.Signals
	w.fleet = &agents.Fleet{
		Client: client, Minds: c.Agents, Stale: time.Minute, Panicked: c.panicked,
	}
	senses.Agents = w.fleet.State
	calls := webhook.New(c.WebhookHosts, c.WebhookKey, clock.RealClock{})
	senses.Deliveries = calls.Deliveries
	if w.observer, err = sensing.New(senses); err != nil {
		w.close()
		return nil, err
	}
	pods, err := kube.New(c.REST, kube.Options{
		Written: w.observer.NoteWrite,
		// Refused once, it is asked for again in the next cycle.
		EvictionBackoff: c.Core.Planning.CyclePeriod / 2,
	})
	if err != nil {
		w.close()
		return nil, err
	}
	w.actuator = actuator{pods: pods, nodes: nodes, calls: calls}
	if c.LeaderElection {
		w.actuator = &fence{
			Actuator: w.actuator, leases: client.CoordinationV1().Leases(c.Policy.Namespace), self: self, now: time.Now,
		}
	}
	if c.WrapActuator != nil {
		w.actuator = c.WrapActuator(w.actuator)
	}
	w.fleet.Actuator = w.actuator
	return w, nil
}

// start fills the caches.
func (w *world) start(ctx context.Context) error {
	if err := w.policies.Start(ctx); err != nil {
		return fmt.Errorf("watching the policy: %w", err)
	}
	if err := w.observer.Start(ctx); err != nil {
		return fmt.Errorf("filling the caches: %w", err)
	}
	return nil
}

// actFor is for how long a cycle begins actions: its period, and no less where the world is made
// to run faster, as the API server does not.
func (c Config) actFor() time.Duration {
	return max(c.Core.Planning.CyclePeriod, core.DefaultConfig().Planning.CyclePeriod)
}

// reporters are told every cycle. The function returned closes their files.
func (c Config) reporters(mgr manager.Manager, beat *heartbeat) (serve.Reporters, func(), error) {
	gauges, err := serve.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, nil, err
	}
	out := serve.Reporters{
		beat,
		gauges,
		&serve.Log{Logger: c.Logger},
		&serve.Status{
			Client: mgr.GetClient(), Events: mgr.GetEventRecorder("mash2"), Logger: c.Logger,
			Policy: c.Policy, Refresh: c.StatusRefresh, Period: c.actFor(),
		},
		&serve.Strategies{Client: mgr.GetClient(), Logger: c.Logger, Period: c.actFor()},
	}
	if c.CycleLog == "" {
		return out, func() {}, nil
	}
	file, err := os.OpenFile(c.CycleLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the cycle log: %w", err)
	}
	closeFile := func() {
		if err := file.Close(); err != nil {
			c.Logger.Error("closing the cycle log", "error", err)
		}
	}
	return append(out, newCycleLog(file, c.Logger)), closeFile, nil
}
