package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/experiments/score"
)

// Karpenter is the scaler that is the stock HPA with Karpenter instead of an
// autoscaled pool, and the name of its NodePool.
const Karpenter = "karpenter"

const (
	karpenterTaint = "example.com/karpenter"
	// karpenterBoot is the median of simulated GKE's boots; Karpenter's provider
	// has one delay for all nodes.
	karpenterBoot = 75 * time.Second
	// consolidateAfter is that of the simulation (experiments/sim).
	consolidateAfter = time.Minute
	// bootDisk is that of simulated GKE's pools, GiB.
	bootDisk = 100
)

// karpenter is a running Karpenter and what it launched.
type karpenter struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	nodes map[string]*machine // by NodeClaim
	order []string
	err   error // of the last look at the cluster
}

// machine is the paid life of a node of Karpenter's, on the wall: from the
// NodeClaim, with which its provider begins to boot it, until that is gone.
type machine struct {
	machineType        string
	requested, deleted time.Time
}

// startKarpenter installs Karpenter's CRDs, says what it may launch and runs it, if
// it is asked for.
func (t *Testbed) startKarpenter(ctx, life context.Context) error {
	if t.options.Karpenter == "" {
		return nil
	}
	t.say("starting Karpenter")
	program, err := filepath.Abs(t.options.Karpenter)
	if err != nil {
		return err
	}
	if err := t.installKarpenter(ctx, program); err != nil {
		return err
	}
	types, err := t.karpenterTypes()
	if err != nil {
		return err
	}
	typesFile := filepath.Join(t.Dir, "karpenter-types.json")
	if err := os.WriteFile(typesFile, types, 0o644); err != nil {
		return err
	}
	if err := t.runKarpenter(program, typesFile); err != nil {
		return err
	}
	go t.watchKarpenter(life)
	return nil
}

// installKarpenter creates its CRDs, which the program prints, and its NodePool.
func (t *Testbed) installKarpenter(ctx context.Context, program string) error {
	crds := filepath.Join(t.Dir, "karpenter-crds.json")
	data, err := exec.CommandContext(ctx, program, "crds").Output()
	if err != nil {
		return fmt.Errorf("asking %s for its CRDs: %w", program, err)
	}
	if err := os.WriteFile(crds, data, 0o644); err != nil {
		return err
	}
	if _, err := t.Cluster.Kubectl(ctx, "apply", "--server-side", "-f", crds); err != nil {
		return fmt.Errorf("installing Karpenter's CRDs: %w", err)
	}
	if _, err := t.Cluster.Kubectl(ctx, "wait", "--for=condition=Established", "crd/nodeclaims.karpenter.sh", "crd/nodepools.karpenter.sh", "crd/kwoknodeclasses.karpenter.kwok.sh", "--timeout=60s"); err != nil {
		return fmt.Errorf("installing Karpenter's CRDs: %w", err)
	}
	objects := filepath.Join(t.Dir, "karpenter.json")
	if data, err = json.Marshal(t.karpenterObjects()); err != nil {
		return err
	}
	if err := os.WriteFile(objects, data, 0o644); err != nil {
		return err
	}
	if _, err := t.Cluster.Kubectl(ctx, "apply", "-f", objects); err != nil {
		return fmt.Errorf("creating Karpenter's NodePool: %w", err)
	}
	return nil
}

// runKarpenter starts the program with the machine types of a file.
func (t *Testbed) runKarpenter(program, typesFile string) error {
	log, err := os.Create(filepath.Join(t.Dir, "karpenter.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	k := &karpenter{done: make(chan struct{}), nodes: map[string]*machine{}}
	k.cmd = exec.Command(program)
	k.cmd.Env = append(os.Environ(), "KUBECONFIG="+t.Cluster.Kubeconfig, "INSTANCE_TYPES_FILE_PATH="+typesFile,
		"DISABLE_LEADER_ELECTION=true", "SYSTEM_NAMESPACE=kube-system", "METRICS_PORT=0", "HEALTH_PROBE_PORT=0")
	k.cmd.Stdout, k.cmd.Stderr = log, log
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := k.cmd.Start(); err != nil {
		return fmt.Errorf("starting Karpenter: %w", err)
	}
	go func() {
		_ = k.cmd.Wait() // ended is ended
		close(k.done)
	}()
	t.karpenter = k
	t.stop = append(t.stop, k.stop)
	return nil
}

func (k *karpenter) stop() error {
	select {
	case <-k.done:
		return errors.New("karpenter ended before the experiment; see karpenter.log")
	default:
	}
	_ = k.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-k.done:
	case <-time.After(10 * time.Second):
		_ = k.cmd.Process.Kill()
		<-k.done
	}
	return nil
}

// karpenterTypes are the machine types of the scenario's pools, as the provider
// reads them: on demand, in one zone, of the price and room that they have in GKE.
func (t *Testbed) karpenterTypes() ([]byte, error) {
	type requirement struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	}
	type offering struct {
		Price        float64
		Available    bool
		Requirements []requirement
	}
	type instance struct {
		Name             string              `json:"name"`
		Offerings        []offering          `json:"offerings"`
		Architecture     string              `json:"architecture"`
		OperatingSystems []string            `json:"operatingSystems"`
		Resources        corev1.ResourceList `json:"resources"`
	}
	var out []instance
	for _, p := range t.options.Scenario.Pools {
		known, ok := gke.LookupMachineType(p.MachineType)
		simulated, ok2 := gkesim.Machines[p.MachineType]
		if !ok || !ok2 {
			return nil, fmt.Errorf("machine type %s is not known", p.MachineType)
		}
		// What the provider takes for the kubelet of every machine is added, so that
		// what is left is what GKE leaves.
		room := simulated.Allocatable(bootDisk)
		for name, more := range map[corev1.ResourceName]string{corev1.ResourceCPU: "100m", corev1.ResourceMemory: "10Mi"} {
			q := room[name]
			q.Add(resource.MustParse(more))
			room[name] = q
		}
		out = append(out, instance{
			Name: p.MachineType, Architecture: "amd64", OperatingSystems: []string{"linux"}, Resources: room,
			Offerings: []offering{{Price: known.Price, Available: true, Requirements: []requirement{
				{"karpenter.sh/capacity-type", "In", []string{"on-demand"}},
				{corev1.LabelTopologyZone, "In", p.Zones[:1]},
			}}},
		})
	}
	return json.Marshal(out)
}

// karpenterObjects are its NodePool, of the same label as GKE's pools, and its class.
func (t *Testbed) karpenterObjects() map[string]any {
	in := func(key string, values ...string) map[string]any {
		return map[string]any{"key": key, "operator": "In", "values": values}
	}
	var types []string
	for _, p := range t.options.Scenario.Pools {
		types = append(types, p.MachineType)
	}
	boot := t.scaled(karpenterBoot).Round(time.Second)
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{
		map[string]any{
			"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": map[string]any{"name": Karpenter},
			"spec": map[string]any{"nodeRegistrationDelay": fmt.Sprintf("%ds", int(boot.Seconds()))},
		},
		map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": Karpenter},
			"spec": map[string]any{
				"template": map[string]any{
					"metadata": map[string]any{"labels": map[string]string{"cloud.google.com/gke-nodepool": Karpenter}},
					"spec": map[string]any{
						"nodeClassRef": map[string]string{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": Karpenter},
						"taints":       []any{map[string]string{"key": karpenterTaint, "value": "true", "effect": "NoSchedule"}},
						"requirements": []any{
							in(corev1.LabelInstanceTypeStable, types...), in("karpenter.sh/capacity-type", "on-demand"),
							in(corev1.LabelArchStable, "amd64"), in(corev1.LabelOSStable, "linux"),
						},
						"expireAfter": "Never",
					},
				},
				"disruption": map[string]any{
					"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": t.scaled(consolidateAfter).String(),
					"budgets": []any{map[string]string{"nodes": "10%"}},
				},
			},
		},
	}}
}

// watchKarpenter looks every half second which machines there are, and gives the
// nodes the capacity that their machines have: the provider reports what was asked
// for instead, which would be the cores that pods run on.
func (t *Testbed) watchKarpenter(life context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case now := <-tick.C:
			err := t.lookAtKarpenter(life, now)
			if life.Err() == nil {
				t.karpenter.mu.Lock()
				t.karpenter.err = err
				t.karpenter.mu.Unlock()
			}
		}
	}
}

func (t *Testbed) lookAtKarpenter(ctx context.Context, now time.Time) error {
	claims := &unstructured.UnstructuredList{}
	claims.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"})
	if err := t.Client.List(ctx, claims); err != nil {
		return err
	}
	k := t.karpenter
	k.mu.Lock()
	seen := map[string]bool{}
	for _, c := range claims.Items {
		name := c.GetName()
		machineType := c.GetLabels()[corev1.LabelInstanceTypeStable]
		if machineType == "" {
			continue // not launched yet
		}
		seen[name] = true
		if k.nodes[name] == nil {
			k.nodes[name] = &machine{machineType: machineType, requested: c.GetCreationTimestamp().Time}
			k.order = append(k.order, name)
		}
	}
	for name, m := range k.nodes {
		if !seen[name] && m.deleted.IsZero() {
			m.deleted = now
		}
	}
	k.mu.Unlock()
	nodes := &corev1.NodeList{}
	if err := t.Client.List(ctx, nodes, client.MatchingLabels{"karpenter.sh/nodepool": Karpenter}); err != nil {
		return err
	}
	var errs []error
	for i := range nodes.Items {
		n := &nodes.Items[i]
		want := gkesim.Machines[n.Labels[corev1.LabelInstanceTypeStable]].Capacity(bootDisk)
		if n.Status.Capacity.Cpu().Cmp(*want.Cpu()) == 0 {
			continue
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": want}})
		if err == nil {
			err = t.Client.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, client.RawPatch("application/strategic-merge-patch+json", patch))
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}

// lives are the machines that Karpenter launched, in the order of their requests.
func (k *karpenter) lives(seconds func(time.Time) float64) ([]score.Node, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return nil, fmt.Errorf("looking at Karpenter's nodes: %w", k.err)
	}
	var out []score.Node
	for _, name := range k.order {
		m := k.nodes[name]
		n := score.Node{Pool: Karpenter, MachineType: m.machineType, Requested: seconds(m.requested)}
		if !m.deleted.IsZero() {
			deleted := seconds(m.deleted)
			n.Deleted = &deleted
		}
		out = append(out, n)
	}
	return out, nil
}
