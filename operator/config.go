package operator

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
	"github.com/mash2-io/mash2/sensing"
	restapi "github.com/mash2-io/mash2/serve/rest"
)

// Config of the operator. Start from [DefaultConfig]; REST and
// Sensing.PrometheusURL are missing in it.
type Config struct {
	// REST is how the API server is reached. Its QPS and Burst are the budget of
	// all requests, its UserAgent names the operator in audit logs.
	REST *rest.Config
	// Policy is the policy ConfigMap. Its namespace is also that of the Lease
	// which replicas of the operator share.
	Policy types.NamespacedName
	// Core decides.
	Core core.Config
	// Agents are the models by which agents of running pods may decide, by name.
	Agents map[string]agents.Mind
	// Models are what those of Core and Agents were read from, and ReadModels reads them
	// again; nil where they don't change while the operator runs.
	Models     ModelFiles
	ReadModels func() (ModelFiles, error)
	// LeftOut is why models that are there are not among Models; nil if all are.
	LeftOut error
	// WebhookHosts are the hosts that strategies may call, each [NAMESPACE/]HOST[:PORT].
	WebhookHosts []string
	// WebhookKey signs calls of them; none are made without it.
	WebhookKey []byte
	// Sensing observes. REST and Pools are filled in by Run, PoolLabel is the
	// provider's own where it is empty. Core.Planning.MetricDelay follows from its
	// Step and RateWindow.
	Sensing sensing.Config
	// Provider resizes node pools.
	Provider Provider

	// MetricsAddress and ProbeAddress are where /metrics and the probes are
	// served; "0" turns either off.
	MetricsAddress, ProbeAddress string
	// MetricsInsecure serves /metrics over plain HTTP without authentication.
	MetricsInsecure bool
	// PageAddress is where the page and its API are served; empty or "0" for no page.
	PageAddress string
	// PageInsecure serves them over plain HTTP to everybody who reaches PageAddress, which
	// must be one of this machine alone, and only shows.
	PageInsecure bool
	// ExternalAddress is where KEDA's external scaler is served; empty or "0" for none.
	ExternalAddress string
	// ExternalCertDir has tls.crt and tls.key of it and, where clients must have
	// certificates, ca.crt; empty for a certificate made at each start, signed by nobody.
	ExternalCertDir string
	// ExternalInsecure serves it without TLS; ExternalAddress must be one of this machine
	// alone.
	ExternalInsecure bool
	// Speed is how many times faster than real time the world runs, for what the page
	// estimates; 0 is 1.
	Speed float64
	// Profiling serves Go's profiles beside /metrics, behind the same checks.
	Profiling bool
	// LeaderElection lets one of several replicas act.
	LeaderElection bool
	// CycleLog is a file to which every cycle is appended, one JSON object a
	// line; none if empty.
	CycleLog string
	// Records is where every cycle is kept to be replayed and explained; nothing is
	// while its Dir is empty. Its Program and Planners are filled in by Run.
	Records record.Config
	// Knowledge bounds the knowledge base beside the records.
	Knowledge Knowledge
	store     *knowledge.Store // set by Run
	// StateDir is the folder of checkpoints of what a restart can't read from history;
	// none are kept if empty.
	StateDir string
	// StateConfigMap begins the names of the ConfigMaps, beside the policy, in which the
	// same is kept for a leader on another node, as far as it is small; none if empty.
	StateConfigMap string
	// StatusRefresh is the longest time for which an unchanged status is not
	// written again; five times that where there are thousands of them (serve.Status).
	StatusRefresh time.Duration

	// Version is logged. Logger is required.
	Version string
	Logger  *slog.Logger
	// WrapActuator is for tests that stand between the loop and the world; nil
	// for none.
	WrapActuator func(mash2.Actuator) mash2.Actuator
}

// DefaultConfig is what mash2 operator does without flags.
func DefaultConfig() Config {
	return Config{
		Policy:         types.NamespacedName{Namespace: "mash2-system", Name: "mash2-policy"},
		Core:           core.DefaultConfig(),
		Sensing:        Sensing(1),
		MetricsAddress: ":8443",
		ProbeAddress:   ":8081",
		LeaderElection: true,
		StatusRefresh:  time.Minute,
		Knowledge:      Knowledge{MaxAge: knowledge.DefaultMaxAge, MaxBytes: knowledge.DefaultMaxBytes},
	}
}

// Sensing is how the operator observes a world that runs speed times faster than
// real time.
func Sensing(speed float64) sensing.Config {
	c := sensing.DefaultConfig().Faster(speed)
	// Where a workload states no behaviour, the Guard's own defaults hold: a
	// trusted forecast looks ahead instead of back.
	c.Behavior = api.Behavior{}
	c.AutoscalerStatus = api.Key{Namespace: "kube-system", Name: "cluster-autoscaler-status"}
	c.PoolLabel = ""
	return c
}

// Validate reports the first field that can't be used.
func (c Config) Validate() error {
	switch {
	case c.REST == nil:
		return errors.New("operator config: REST is required")
	case c.Policy.Namespace == "" || c.Policy.Name == "":
		return fmt.Errorf("operator config: Policy must name a ConfigMap and its namespace, is %q", c.Policy)
	case c.Logger == nil:
		return errors.New("operator config: Logger is required")
	case c.StatusRefresh <= 0:
		return fmt.Errorf("operator config: StatusRefresh must be positive, is %v", c.StatusRefresh)
	}
	if c.PageInsecure && c.PageAddress != "" && c.PageAddress != "0" && !restapi.LoopbackHost(c.PageAddress) {
		return fmt.Errorf("operator config: PageInsecure needs a PageAddress on the loopback interface, such as 127.0.0.1:8444, not %q", c.PageAddress)
	}
	if c.ExternalInsecure && c.external() && !restapi.LoopbackHost(c.ExternalAddress) {
		return fmt.Errorf("operator config: ExternalInsecure needs an ExternalAddress on the loopback interface, such as 127.0.0.1:9443, not %q", c.ExternalAddress)
	}
	for i, host := range c.WebhookHosts {
		if err := api.CheckHost(host); err != nil {
			return fmt.Errorf("operator config: WebhookHosts[%d] %w", i, err)
		}
	}
	if c.ExternalInsecure && c.ExternalCertDir != "" {
		return errors.New("operator config: ExternalInsecure uses no ExternalCertDir: set one of them")
	}
	if c.Records.Dir != "" {
		if err := c.Records.Validate(); err != nil {
			return err
		}
	}
	if c.Knowledge.MaxAge < 0 || c.Knowledge.MaxBytes < 0 {
		return fmt.Errorf("operator config: Knowledge must have no negative bounds, has %v and %d bytes", c.Knowledge.MaxAge, c.Knowledge.MaxBytes)
	}
	if err := c.core().Validate(); err != nil {
		return err
	}
	if err := c.Provider.Validate(); err != nil {
		return err
	}
	plan := c.Core.Planning
	if lead := c.Sensing.NodeStartup.P90; plan.Horizon < lead+plan.CyclePeriod {
		return fmt.Errorf("operator config: Core.Planning.Horizon %v does not cover Sensing.NodeStartup.P90 of %v and a cycle", plan.Horizon, lead)
	}
	return c.sensing(nil).Validate()
}

// core is what decides, on demand as it is read here.
func (c Config) core() core.Config {
	cfg := c.Core
	cfg.Planning.MetricDelay = core.MetricDelay(c.Sensing.Step, c.Sensing.RateWindow)
	cfg.Planning.Averaging = c.Sensing.RateWindow
	return cfg
}

// sensing is what observes this cluster, with node pools unless pools is nil.
func (c Config) sensing(pools sensing.PoolReader) sensing.Config {
	cfg := c.Sensing
	cfg.REST, cfg.Pools = c.REST, pools
	cfg.PoolLabel = cmp.Or(cfg.PoolLabel, c.Provider.PoolLabel())
	cfg.Panicked, cfg.SignalsNamespace = c.panicked, c.Policy.Namespace
	return cfg
}
