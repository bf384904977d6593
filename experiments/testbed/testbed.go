// Package testbed puts a whole experiment together on one machine: a real
// control plane, simulated GKE with kwok nodes, a scenario's load, a real
// Prometheus, the policy ConfigMap, a workload for mash2 and, beside it in a
// pool of its own, the same workload for the stock HPA with pool autoscaling, and on
// request another for it with Karpenter.
// What it does not bring is the operator: that is the program under test.
package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Names of what the testbed creates.
const (
	Namespace       = "mash2-system"
	PolicyConfigMap = "mash2-policy"
	Project         = "demo-project"
	Location        = "us-central1"
	ClusterName     = "demo"
	// WorkloadName of the Deployment under load, in each scaler's namespace.
	WorkloadName = "web"
	// BaselinePool is the stock HPA's own, autoscaled by the provider.
	BaselinePool = "baseline-pool"
)

// Scaler names; a workload's namespace has the name of its scaler.
const (
	Mash2    = "mash2"
	Baseline = "hpa"
)

// Options of a Testbed.
type Options struct {
	Scenario scenarios.Scenario
	// Speed divides every duration of the world: load, scrapes, boots, pod
	// starts, the HPA's and the autoscaler's own periods.
	Speed float64
	Seed  uint64
	// Baseline adds the stock HPA at the scenario's target and its pool.
	Baseline bool
	// Karpenter is the path of the program of experiments/karpenter, to add the HPA
	// on nodes of Karpenter's; empty for none.
	Karpenter string
	// WarmupPasses of the scenario come before the measured Passes.
	WarmupPasses, Passes int
	// StatefulReplicas of a StatefulSet beside mash2's Deployment, under the same load
	// and a PodDisruptionBudget; 0 for none.
	StatefulReplicas int32
	// Mode of the ManagedWorkload; Full if empty.
	Mode v1alpha1.Mode
	// Dir is kept after Stop; a temporary one if empty.
	Dir string
	// Scrape are further jobs of Prometheus.
	Scrape []cluster.ScrapeJob
	// History is what Prometheus knows from before the start, as OpenMetrics text; nil for
	// nothing.
	History io.Reader
	// APIServerArgs are further arguments of the API server.
	APIServerArgs []string
	// Progress gets a line at each step; nil for none.
	Progress io.Writer
}

// Testbed is a running experiment.
type Testbed struct {
	Cluster    *cluster.Cluster
	GKE        *gkesim.Server
	Load       *load.Driver
	Prometheus *cluster.Prometheus
	Client     client.Client
	Dir        string

	options   Options
	karpenter *karpenter // nil without
	cancel    context.CancelFunc
	stop      []func() error
}

// Start sets everything up and returns when the workloads' first replicas are
// Ready. Scenario time stands still until Load.Begin. The context is for
// starting; Stop ends the experiment.
func Start(ctx context.Context, o Options) (_ *Testbed, err error) {
	if !(o.Speed > 0) {
		return nil, fmt.Errorf("testbed: speed must be above 0, is %v", o.Speed)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	life, cancel := context.WithCancel(context.Background())
	t := &Testbed{options: o, cancel: cancel, Dir: o.Dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Stop())
		}
	}()
	if t.Dir == "" {
		if t.Dir, err = os.MkdirTemp("", "mash2-testbed-"); err != nil {
			return nil, err
		}
		t.stop = append(t.stop, func() error { return os.RemoveAll(t.Dir) })
	}
	// In this order: each needs what is there by then.
	for _, step := range []func(ctx, life context.Context) error{
		t.startCluster, t.startGKE, t.createObjects, t.startKarpenter, t.startLoad, t.startPrometheus, t.awaitReplicas,
	} {
		if err := step(ctx, life); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Testbed) say(format string, args ...any) {
	fmt.Fprintf(t.options.Progress, format+"\n", args...)
}

// startCluster starts the control plane and makes a client of it.
func (t *Testbed) startCluster(ctx, _ context.Context) (err error) {
	o := t.options
	t.say("starting a control plane: etcd, kube-apiserver, controller-manager, scheduler, kwok")
	t.Cluster, err = cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(t.Dir, "cluster"), Speed: o.Speed, HPA: cluster.StockHPAWindows(o.Speed), Progress: o.Progress,
		APIServerArgs: o.APIServerArgs,
	})
	if err != nil {
		return err
	}
	t.stop = append(t.stop, t.Cluster.Stop)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	t.Client, err = client.New(t.Cluster.RESTConfig(), client.Options{Scheme: scheme})
	return err
}

// startGKE starts what runs the scenario's pools.
func (t *Testbed) startGKE(_, life context.Context) error {
	t.say("starting simulated GKE: %d node pools", len(t.options.Scenario.Pools))
	kube, err := kubernetes.NewForConfig(t.Cluster.RESTConfig())
	if err != nil {
		return err
	}
	if t.GKE, err = gkesim.New(t.gke(), kube); err != nil {
		return err
	}
	if err := t.GKE.Start(life); err != nil {
		return err
	}
	t.stop = append(t.stop, t.GKE.Close)
	return nil
}

// createObjects installs the CRDs and creates what is there from the beginning.
func (t *Testbed) createObjects(ctx, _ context.Context) error {
	if _, err := t.Cluster.Kubectl(ctx, "apply", "-f", filepath.Join(root(), "charts", "mash2", "crds")); err != nil {
		return fmt.Errorf("installing the CRDs: %w", err)
	}
	if _, err := t.Cluster.Kubectl(ctx, "wait", "--for=condition=Established", "crd/managedworkloads."+api.Group, "--timeout=60s"); err != nil {
		return fmt.Errorf("installing the CRDs: %w", err)
	}
	t.say("creating workloads and the policy ConfigMap")
	objects, err := t.objects()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := t.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// workloads are what the load is for, mash2's first.
func (t *Testbed) workloads() []load.Workload {
	deployment := func(namespace string) load.Workload {
		return load.Workload{Namespace: namespace, Name: WorkloadName, Selector: "app=" + WorkloadName}
	}
	out := []load.Workload{deployment(Mash2)}
	if t.options.StatefulReplicas > 0 {
		out = append(out, load.Workload{Namespace: Mash2, Name: StatefulName, Selector: "app=" + StatefulName})
	}
	if t.options.Baseline {
		out = append(out, deployment(Baseline))
	}
	if t.options.Karpenter != "" {
		out = append(out, deployment(Karpenter))
	}
	return out
}

// startLoad starts the users, who wait for Load.Begin, and the metrics API of what
// their requests cost.
func (t *Testbed) startLoad(ctx, life context.Context) (err error) {
	o := t.options
	t.Load, err = load.Start(life, load.Config{
		RESTConfig: t.Cluster.RESTConfig(), Scenario: o.Scenario, Speed: o.Speed, Seed: o.Seed,
		Workloads: t.workloads(), WarmupPasses: o.WarmupPasses, Passes: o.Passes, Hold: true,
	})
	if err != nil {
		return err
	}
	t.stop = append(t.stop, t.Load.Stop)
	return cluster.RegisterMetricsAPI(ctx, t.Cluster.RESTConfig(), t.Load.ResourceMetricsAddr())
}

// startPrometheus starts what scrapes the load's metrics.
func (t *Testbed) startPrometheus(ctx, _ context.Context) (err error) {
	t.say("starting Prometheus")
	t.Prometheus, err = cluster.StartPrometheus(ctx, cluster.PrometheusOptions{
		Jobs: append([]cluster.ScrapeJob{{
			Name: "cadvisor", Targets: []string{t.Load.MetricsAddr()}, MetricsPath: "/metrics/cadvisor", HonorLabels: true,
		}}, t.options.Scrape...),
		ScrapeInterval: t.scaled(15 * time.Second), LookbackDelta: t.scaled(5 * time.Minute),
		History: t.options.History,
		Dir:     filepath.Join(t.Dir, "prometheus"),
	})
	if err != nil {
		return err
	}
	t.stop = append(t.stop, t.Prometheus.Stop)
	return nil
}

// awaitReplicas waits until the first replicas of all workloads are Ready.
func (t *Testbed) awaitReplicas(ctx, _ context.Context) error {
	t.say("waiting for the first replicas")
	for _, w := range t.workloads() {
		kind := "deployment/"
		if w.Name == StatefulName {
			kind = "statefulset/"
		}
		if _, err := t.Cluster.Kubectl(ctx, "-n", w.Namespace, "rollout", "status", kind+w.Name, "--timeout=300s"); err != nil {
			return err
		}
	}
	return nil
}

func (t *Testbed) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / t.options.Speed).Round(time.Millisecond)
}

// Stop ends everything, last first. It may be called once.
func (t *Testbed) Stop() error {
	t.cancel()
	var errs []error
	for _, stop := range slices.Backward(t.stop) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// OperatorArgs are the arguments of mash2 operator on this testbed. Cycle
// records go to CycleLog.
func (t *Testbed) OperatorArgs(extra ...string) []string {
	return append([]string{
		"operator", "--kubeconfig", t.Cluster.Kubeconfig, "--namespace", Namespace, "--policy-configmap", PolicyConfigMap,
		"--speed", strconv.FormatFloat(t.options.Speed, 'g', -1, 64),
		"--prometheus-url", t.Prometheus.URL,
		"--provider", "gke", "--gke-project", Project, "--gke-location", Location, "--gke-cluster", ClusterName,
		"--gke-endpoint", t.GKE.Endpoint(), "--gke-compute-endpoint", t.GKE.ComputeEndpoint(),
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--log-format", "text",
		"--cycle-log", t.CycleLog(),
	}, extra...)
}

// CycleLog is the file to which the operator appends its records.
func (t *Testbed) CycleLog() string { return filepath.Join(t.Dir, "cycles.jsonl") }

// Cycles reads the records written so far. A last line that is still being
// written is left out.
func (t *Testbed) Cycles() ([]api.Cycle, error) {
	file, err := os.Open(t.CycleLog())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var cycles []api.Cycle
	for dec := json.NewDecoder(file); ; {
		var c api.Cycle
		switch err := dec.Decode(&c); {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return cycles, nil
		case err != nil:
			return cycles, fmt.Errorf("reading the cycle log: %w", err)
		}
		cycles = append(cycles, c)
	}
}

// SetPolicy sets the policy by hand, as mash2 policy set does.
func (t *Testbed) SetPolicy(ctx context.Context, name string) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"policy": name}})
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: PolicyConfigMap}}
	return t.Client.Patch(ctx, cm, client.RawPatch(types.MergePatchType, patch))
}

// PoolOf is the pool that a policy names in this testbed.
func (t *Testbed) PoolOf(policy string) string {
	if policy == api.Performance {
		return t.options.Scenario.Pools[1].Name
	}
	return t.options.Scenario.Pools[0].Name
}

func (t *Testbed) gke() gkesim.Config {
	c := gkesim.Config{Project: Project, Location: Location, Cluster: ClusterName, Speed: t.options.Speed, Seed: t.options.Seed}
	for _, p := range t.options.Scenario.Pools {
		c.Pools = append(c.Pools, gkesim.Pool{
			Name: p.Name, MachineType: p.MachineType, Zones: p.Zones, Size: p.Nodes,
			MinPerZone: p.NodesPerZone.Min, MaxPerZone: p.NodesPerZone.Max, Spot: p.Spot != nil,
		})
	}
	if t.options.Baseline {
		// The paper's baseline has one general-purpose pool; it gets the same
		// machines, bounds and first nodes as the pool mash2 starts on.
		first := t.options.Scenario.Pools[0]
		c.Pools = append(c.Pools, gkesim.Pool{
			Name: BaselinePool, MachineType: first.MachineType, Zones: first.Zones, Size: first.Nodes,
			Autoscaling: true, MinPerZone: first.NodesPerZone.Min, MaxPerZone: max(first.NodesPerZone.Max, 1),
			Taints: []corev1.Taint{{Key: baselineTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		})
	}
	return c
}

// root is the repository's root, where the CRDs are: the working directory or
// the nearest folder above that has a chart.
func root() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "charts", "mash2", "crds")); statErr == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return "."
}
