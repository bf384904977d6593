package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kube"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/planning/vertical"
)

// agentsFlags are the settings of mash2 agents. The first seven, and hack, have the names
// of MARLISE's.
type agentsFlags struct {
	n                int
	resources        int64
	models           []string
	interval         int
	priorities       []float64
	algorithm        string
	debug            bool
	hack             int
	transfer         int
	kubeconfig       string
	namespace        string
	selector         string
	container        string
	floor, ceiling   int64
	memory           string
	memoryFloor      string
	memoryWindow     time.Duration
	usage            string
	cgroupRoot, node string
	kubeletCgroup    string
	untested         bool
	during           time.Duration
	control          string
	predict          predictFlags
}

// Sources of usage.
const (
	usageMetricsAPI = "metrics-api"
	usageCgroup     = "cgroup"
)

func newAgents() *cobra.Command {
	o := agentsFlags{}
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Moves CPU, and memory if asked to, between running pods, within budgets",
		Long: `Gives each pod of a service an agent, which moves the pod's CPU limit up and down
without a restart, every --action_interval seconds. The sum of all limits stays within
--resources. The command writes only the resize subresource of pods.

Without a model a rule decides. A model that mash2 train learned in the
environment marlise acts once it was better than the rule: first in a simulation of these
pods, made of five minutes of readings, then here, where both act in turn. If it gets worse
later, the rule decides alone. --untested lets a model act at once.

  mash2 agents --selector app=localization-api --resources 1000
  mash2 agents --selector app=shop --resources 2000 --algorithm ddpg --load_model D --priorities 1.0 0.5

With --memory, limits of memory follow working sets, by a rule: they rise at once, and fall when
less was used for --memory-window. The sum of all stays within --memory. Where that is too
little, pods keep what they used within a minute and a headroom. It needs Kubernetes 1.34.

  mash2 agents --selector app=shop --resources 2000 --memory 4Gi

A pod takes part if its container has a CPU request and a CPU limit and can be resized
without a restart. The command lists the other pods at the start, each with the reason.

--predict asks models beside the data: it reads this node's metrics on the node, and serves
only what each model of --models predicts from them. Without --selector nothing else is done:
no pod is resized, and the API server is asked for nothing.

  mash2 agents --node edge-1 --models D --predict qos`,
		Args: cobra.ArbitraryArgs, // more priorities
	}
	f := cmd.Flags()
	f.IntVar(&o.n, "n_agents", 0, "largest number of pods that take part, in the order of their names; 0: all")
	f.Int64Var(&o.resources, "resources", 1000, "budget: the largest sum of all CPU limits, in millicores")
	f.StringArrayVar(&o.models, "load_model", nil, "folder that mash2 train wrote, or one with agent_0, agent_1 … for one model per agent; may be repeated, one per family of algorithms")
	f.IntVar(&o.interval, "action_interval", 1, "seconds between decisions")
	f.Float64SliceVar(&o.priorities, "priorities", nil, "priorities of pods in the order of their names, above 0 and up to 1; 1.0 for the rest")
	f.StringVar(&o.algorithm, "algorithm", agents.SpreadMind, "what decides: spread, proportional or threshold, which are rules (with settings: threshold:UPPER:LOWER:INCREMENT, spread:TARGET:TOLERANCE:STABILIZATION), or ppo, ippo, dppo, ddpg, iddpg, mdqn, dmdqn, ddmdqn, td3, residual-ppo, residual-td3 with --load_model")
	f.BoolVar(&o.debug, "debug", false, "print every decision")
	f.IntVar(&o.hack, "hack", -1, "number of the agent whose model all others use too")
	f.IntVar(&o.transfer, "transfer", -1, "the same as --hack")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; default: $KUBECONFIG, then the cluster mash2 runs in, then ~/.kube/config")
	f.StringVar(&o.namespace, "namespace", "default", "namespace of the pods")
	f.StringVar(&o.selector, "selector", "", "labels of the pods (required)")
	f.StringVar(&o.container, "container", "", "container to resize (default: the only one of the pod)")
	f.Int64Var(&o.floor, "floor", 50, "smallest CPU limit of a pod, in millicores")
	f.Int64Var(&o.ceiling, "ceiling", 0, "largest CPU limit of a pod, in millicores; 0: --resources")
	f.StringVar(&o.memory, "memory", "", "budget: the largest sum of all memory limits, such as 4Gi; empty: memory stays as it is")
	f.StringVar(&o.memoryFloor, "memory-floor", "64Mi", "smallest memory limit of a pod")
	f.DurationVar(&o.memoryWindow, "memory-window", vertical.DefaultMemoryConfig().Window, "for how long a pod must have used less before its memory limit falls")
	f.StringVar(&o.usage, "usage", usageMetricsAPI, "source of usage: metrics-api (a sample about every 15 s), or cgroup (exact, on the node itself)")
	f.StringVar(&o.cgroupRoot, "cgroup-root", "/sys/fs/cgroup", "cgroup file system, for --usage cgroup")
	f.StringVar(&o.kubeletCgroup, "kubelet-cgroup", "", "cgroup that the kubelet keeps its pods below, as its --cgroup-root says; empty: the root")
	f.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "only pods of this node; needed by --usage cgroup and --predict (default: $NODE_NAME)")
	f.BoolVar(&o.untested, "untested", false, "let a model act at once, before it has been better than the rule on this service")
	f.DurationVar(&o.during, "for", 0, "end after this time; 0: never")
	f.StringVar(&o.control, "control-address", "", "address of MARLISE's control API (HTTPS), for users whom the API server allows the path; empty: off")
	o.predict.add(f)
	show := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := CheckOutput(cmd); err != nil {
			return err
		}
		for _, a := range args { // MARLISE writes --priorities 1.0 0.5 0.1
			p, err := strconv.ParseFloat(a, 64)
			if err != nil || !cmd.Flags().Changed("priorities") {
				return Usagef("unknown argument %q", a)
			}
			o.priorities = append(o.priorities, p)
		}
		if cmd.Flags().Changed("transfer") {
			o.hack = o.transfer
		}
		ctx := cmd.Context()
		if o.during > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, o.during)
			defer cancel()
		}
		sum := agentsSum{Refused: map[string]string{}}
		err := o.run(ctx, cmd.ErrOrStderr(), &sum)
		if err != nil {
			return err
		}
		if o.selector == "" {
			return show(sum, answersText(sum.Answers))
		}
		return show(sum, fmt.Sprintf("%d ticks, %d resizes, %d errors", sum.Ticks, sum.Resizes, sum.Errors))
	}
	return cmd
}

// agentsSum is what mash2 agents prints at its end.
type agentsSum struct {
	Ticks   int `json:"ticks"`
	Resizes int `json:"resizes"` // that were asked for
	Errors  int `json:"errors"`  // ticks with one
	// Agents and LimitMilliCPU are of the last tick: pods that took part, and the sum of
	// their limits.
	Agents        int   `json:"agents"`
	LimitMilliCPU int64 `json:"limitMilliCPU"`
	// MemoryResizes were asked for, and LimitMemory is the sum of memory limits that may be
	// changed, bytes, of the last tick.
	MemoryResizes int   `json:"memoryResizes,omitempty"`
	LimitMemory   int64 `json:"limitMemoryBytes,omitempty"`
	// Refused are pods that took no part, and why.
	Refused map[string]string `json:"refused"`
	// Answers are the last ones of --predict.
	Answers []agents.Answer `json:"answers,omitempty"`
}

// minds by family, and the family to begin with.
func (o *agentsFlags) minds() (map[string][]vertical.Planner, string, error) {
	minds := agents.Rules()
	start := ""
	var found []string
	for _, path := range o.models {
		algorithm, m, err := agents.LoadModel(path, o.hack)
		if err != nil {
			return nil, "", Usagef("--load_model: %w", err)
		}
		family := agents.FamilyOf(algorithm)
		if minds[family] != nil {
			return nil, "", Usagef("--load_model names two models of %s", family)
		}
		minds[family], found = m, append(found, algorithm)
		if algorithm == o.algorithm {
			start = family
		}
	}
	rule, err := vertical.RuleByName(o.algorithm)
	switch kind, _, settings := strings.Cut(o.algorithm, ":"); {
	case err == nil:
		minds[o.algorithm] = []vertical.Planner{rule}
		return minds, o.algorithm, nil
	case settings && slices.Contains(agents.RuleNames(), kind):
		return nil, "", Usagef("--algorithm: %w", err)
	}
	if _, err := vertical.AlgorithmByName(o.algorithm); err != nil && agents.FamilyOf(o.algorithm) == agents.ThresholdMind {
		return nil, "", Usagef("--algorithm: %w, or %s", err, strings.Join(agents.RuleNames(), " or "))
	}
	if start == "" {
		return nil, "", Usagef("--algorithm %s needs a model of that algorithm; --load_model names %s", o.algorithm, orNone(found))
	}
	return minds, start, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// run the loop until the context ends, and what predicts beside it.
func (o *agentsFlags) run(ctx context.Context, log io.Writer, sum *agentsSum) error {
	predictor, err := o.predictor(log)
	switch {
	case err != nil:
		return err
	case predictor == nil:
		return o.resize(ctx, log, sum)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- o.predict.serve(ctx, predictor, log)
	}()
	if o.selector != "" {
		err = o.resize(ctx, log, sum)
		cancel()
	}
	err = errors.Join(err, <-served)
	for _, name := range o.predict.models {
		if a, ok := predictor.Answer(name); ok {
			sum.Answers = append(sum.Answers, a)
		}
	}
	return err
}

// resize pods until the context ends.
func (o *agentsFlags) resize(ctx context.Context, log io.Writer, sum *agentsSum) error {
	if o.selector == "" {
		return Usagef("--selector must name the pods' labels")
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return Usagef("--selector: %w", err)
	}
	minds, start, err := o.minds()
	if err != nil {
		return err
	}
	memory, err := o.memoryBounds()
	if err != nil {
		return err
	}
	cfg, err := (&connection{kubeconfig: o.kubeconfig}).rest()
	if err != nil {
		return err
	}
	cfg.UserAgent, cfg.QPS, cfg.Burst = "mash2-agents/"+version, 250, 500
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	actuator, err := kube.New(cfg, kube.Options{EvictionBackoff: time.Second, ResizesAs: api.AgentsManager})
	if err != nil {
		return err
	}
	meter, stale, err := o.meter(client)
	if err != nil {
		return err
	}
	loop, err := agents.New(agents.Options{
		Observer: agents.Kubernetes{Client: client, Namespace: o.namespace, Selector: o.selector, Container: o.container, Node: o.node},
		Meter:    meter, Actuator: actuator, Minds: minds, Algorithm: start,
		Budget: o.resources, Floor: o.floor, Ceiling: o.ceiling, Interval: time.Duration(o.interval) * time.Second, Stale: stale,
		Memory: memory, MemoryWindow: o.memoryWindow,
		Agents: o.n, Priorities: o.priorities, Untested: o.untested, Seed: uint64(time.Now().UnixNano()),
		Report: o.reporter(log, sum),
	})
	if err != nil {
		return Usage(err)
	}
	if o.control == "" {
		loop.Run(ctx)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- serveControl(ctx, cfg, o.control, loop, log)
	}()
	loop.Run(ctx)
	return <-served
}

// memoryBounds of the flags; zero without --memory.
func (o *agentsFlags) memoryBounds() (out api.MemoryBounds, err error) {
	if o.memory == "" {
		return out, nil
	}
	for _, f := range []struct {
		name, text string
		into       *int64
	}{{"memory", o.memory, &out.Budget}, {"memory-floor", o.memoryFloor, &out.Least}} {
		q, err := resource.ParseQuantity(f.text)
		if err != nil || q.Value() <= 0 {
			return out, Usagef("--%s: want a size above 0, such as 512Mi, is %q", f.name, f.text)
		}
		*f.into = q.Value()
	}
	return out, nil
}

// meter of usage, and how old its readings may be.
func (o *agentsFlags) meter(client kubernetes.Interface) (agents.Meter, time.Duration, error) {
	switch o.usage {
	case usageMetricsAPI:
		return agents.MetricsAPI{Client: client, Namespace: o.namespace, Selector: o.selector}, time.Minute, nil
	case usageCgroup:
		if o.node == "" {
			return nil, 0, Usagef("--usage cgroup needs --node, the name of the node that this runs on")
		}
		return &agents.Cgroups{FS: os.DirFS(o.cgroupRoot), Root: o.kubeletCgroup, Now: time.Now}, 3 * time.Duration(o.interval) * time.Second, nil
	}
	return nil, 0, Usagef("--usage must be %s or %s, is %q", usageMetricsAPI, usageCgroup, o.usage)
}

// serveControl serves MARLISE's API as the operator serves metrics: by HTTPS, asking the API
// server who calls and whether they may.
func serveControl(ctx context.Context, cfg *rest.Config, address string, loop *agents.Loop, log io.Writer) error {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	handlers := map[string]http.Handler{}
	for _, path := range agents.Paths() {
		handlers[path] = loop.Handler()
	}
	options := metricsserver.Options{BindAddress: address, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization, ExtraHandlers: handlers}
	server, err := metricsserver.NewServer(options, cfg, client)
	if err != nil {
		return fmt.Errorf("--control-address: %w", err)
	}
	return server.Start(ctx)
}

// reporter of ticks to a terminal or log: refusals and errors when they change, and with
// --debug every decision.
func (o *agentsFlags) reporter(log io.Writer, sum *agentsSum) func(agents.Tick) {
	said := ""
	return func(t agents.Tick) {
		sum.Ticks++
		sum.Agents, sum.LimitMilliCPU = len(t.Pods), 0
		for _, d := range t.Decisions {
			sum.LimitMilliCPU += d.To
			if d.To != d.From {
				sum.Resizes++
			}
		}
		sum.LimitMemory = 0
		for _, d := range t.Memory.Decisions {
			sum.LimitMemory += d.To
			if d.To != d.From {
				sum.MemoryResizes++
			}
		}
		if t.Err() != nil {
			sum.Errors++
		}
		text := o.text(t, sum)
		if text != said {
			fmt.Fprint(log, text)
			said = text
		}
		if !o.debug {
			return
		}
		for i, d := range t.Decisions {
			p := &t.Pods[i]
			fmt.Fprintf(log, "%s %s %s: uses %.0fm of %dm → %dm (%s, proposed %.0f)\n", t.Time.UTC().Format(time.RFC3339), t.Mind, p.Key, p.Usage, d.From, d.To, d.Binding, d.Proposed)
		}
		for _, d := range t.Memory.Decisions {
			i := slices.IndexFunc(t.Pods, func(p agents.Pod) bool { return p.ID == d.ID })
			p := &t.Pods[i]
			fmt.Fprintf(log, "%s memory %s: uses %.0f Mi of %s → %s (%s)\n", t.Time.UTC().Format(time.RFC3339), p.Key, p.Memory.Usage/vertical.MiB, bytesText(d.From), bytesText(d.To), d.Binding)
		}
	}
}

// text of what stays the same for many ticks.
func (o *agentsFlags) text(t agents.Tick, sum *agentsSum) string {
	clear(sum.Refused)
	var lines []string
	for _, r := range t.Refused {
		sum.Refused[r.Pod.String()] = r.Why
		lines = append(lines, fmt.Sprintf("pod %s takes no part: %s", r.Pod, r.Why))
	}
	for i := range t.Pods {
		if p := &t.Pods[i]; o.memory != "" && p.MemoryStays != "" {
			lines = append(lines, fmt.Sprintf("the memory of pod %s stays: %s", p.Key, p.MemoryStays))
		}
	}
	sort.Strings(lines)
	first := fmt.Sprintf("%d pods take part", len(t.Pods))
	if len(t.Pods)+len(t.Refused) == 0 && t.Err() == nil {
		first += fmt.Sprintf(": namespace %s has no running pod with %s (--namespace, --selector)", o.namespace, o.selector)
	}
	lines = append([]string{first}, lines...)
	if t.Trial != "" {
		lines = append(lines, "trial of the model: "+t.Trial)
	}
	if t.Held != "" {
		lines = append(lines, "nothing is changed: "+t.Held)
	}
	if t.OverBudget {
		lines = append(lines, fmt.Sprintf("the floors of all pods are above --resources %d: all are at their floors", o.resources))
	}
	if t.Memory.OverBudget {
		lines = append(lines, fmt.Sprintf("what pods use of memory, and its headroom, is above --memory %s: no limit rises, and those that have it keep it", o.memory))
	}
	if err := t.Err(); err != nil {
		lines = append(lines, "error: "+err.Error())
	}
	return strings.Join(lines, "\n") + "\n"
}
