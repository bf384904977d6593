package clusterapi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/clusterapi"
	"github.com/mash2-io/mash2/execution/provider"
	"github.com/mash2-io/mash2/execution/provider/providertest"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// definitions have of Cluster API what scaling a MachineDeployment needs.
const definitions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: machinedeployments.cluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/cluster-api"}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {plural: machinedeployments, singular: machinedeployment, kind: MachineDeployment, listKind: MachineDeploymentList}
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
      subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: machines.cluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/cluster-api"}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {plural: machines, singular: machine, kind: Machine, listKind: MachineList}
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var (
	deploymentsGVR = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machinedeployments"}
	machinesGVR    = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machines"}
)

const (
	deleteMachine = "cluster.x-k8s.io/delete-machine"
	deploymentOf  = "cluster.x-k8s.io/deployment-name"
	clusterOf     = "cluster.x-k8s.io/cluster-name"
)

// management is a management cluster with a controller that does to Machines
// what MachineSets do: those marked for deletion go first.
type management struct {
	*testing.T
	client    dynamic.Interface
	namespace string
	serial    int
}

func (m *management) deployments() dynamic.ResourceInterface {
	return m.client.Resource(deploymentsGVR).Namespace(m.namespace)
}

func (m *management) machines() dynamic.ResourceInterface {
	return m.client.Resource(machinesGVR).Namespace(m.namespace)
}

func (m *management) add(name string, replicas int, change func(*unstructured.Unstructured)) {
	m.Helper()
	d := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment",
		"metadata": map[string]any{
			"name": name, "labels": map[string]any{clusterOf: "shop"},
			"annotations": map[string]any{
				"capacity.cluster-autoscaler.kubernetes.io/cpu": "2", "capacity.cluster-autoscaler.kubernetes.io/memory": "8Gi",
			},
		},
		"spec": map[string]any{"replicas": int64(replicas), "template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"node-restriction.kubernetes.io/tier": name, "app": "not-on-nodes"}},
			"spec":     map[string]any{"failureDomain": "a", "infrastructureRef": map[string]any{"name": "large"}},
		}},
	}}
	if change != nil {
		change(d)
	}
	if _, err := m.deployments().Create(m.Context(), d, metav1.CreateOptions{}); err != nil {
		m.Fatal(err)
	}
	m.reconcile(m.Context())
}

func (m *management) list(ctx context.Context, in dynamic.ResourceInterface, selector string) []unstructured.Unstructured {
	list, err := in.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		if ctx.Err() == nil {
			m.Error(err)
		}
		return nil
	}
	return list.Items
}

func (m *management) reconcile(ctx context.Context) {
	for _, d := range m.list(ctx, m.deployments(), "") {
		replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
		machines := m.list(ctx, m.machines(), deploymentOf+"="+d.GetName())
		for ; len(machines) > int(replicas); machines = m.list(ctx, m.machines(), deploymentOf+"="+d.GetName()) {
			victim := machines[len(machines)-1]
			for _, candidate := range machines {
				if _, ok := candidate.GetAnnotations()[deleteMachine]; ok {
					victim = candidate
				}
			}
			if err := m.machines().Delete(ctx, victim.GetName(), metav1.DeleteOptions{}); err != nil {
				return
			}
		}
		for range int(replicas) - len(machines) {
			m.serial++
			name := fmt.Sprintf("%s-%d", d.GetName(), m.serial)
			_, err := m.machines().Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
				"metadata": map[string]any{"name": name, "labels": map[string]any{clusterOf: "shop", deploymentOf: d.GetName()}},
				"spec":     map[string]any{"providerID": "cloud://" + name},
				"status":   map[string]any{"nodeRef": map[string]any{"name": "node-" + name}},
			}}, metav1.CreateOptions{})
			if err != nil {
				return
			}
		}
	}
}

// run reconciles until the test ends.
func (m *management) run() {
	ctx, cancel := context.WithCancel(m.Context())
	done := make(chan struct{})
	m.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
			m.reconcile(ctx)
		}
	}()
}

func (m *management) nodes(pool string) []api.RemoveNode {
	var out []api.RemoveNode
	for _, x := range m.list(m.Context(), m.machines(), deploymentOf+"="+pool) {
		id, _, _ := unstructured.NestedString(x.Object, "spec", "providerID")
		out = append(out, api.RemoveNode{Pool: pool, Zone: "a", Node: "node-" + x.GetName(), ProviderID: id})
	}
	return out
}

func TestProvider(t *testing.T) {
	c := cluster.ForTest(t)
	file := filepath.Join(t.TempDir(), "crds.yaml")
	if err := os.WriteFile(file, []byte(definitions), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"apply", "-f", file}, {"wait", "--for=condition=Established", "crd/machines.cluster.x-k8s.io", "crd/machinedeployments.cluster.x-k8s.io"},
	} {
		if out, err := c.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	cfg := c.RESTConfig()
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	worlds := 0
	world := func(t *testing.T) (*management, *clusterapi.Provider, *providertest.Refusals) {
		t.Helper()
		worlds++
		m := &management{T: t, client: client, namespace: fmt.Sprintf("world-%d", worlds)}
		if out, err := c.Kubectl(t.Context(), "create", "namespace", m.namespace); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		refusals := &providertest.Refusals{}
		wrapped := c.RESTConfig()
		wrapped.Wrap(refusals.Wrap)
		wrapped.QPS = -1
		p, err := clusterapi.New(clusterapi.Config{REST: wrapped, Namespace: m.namespace, Cluster: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		return m, p, refusals
	}
	t.Run("conformance", func(t *testing.T) {
		providertest.Run(t, func(t *testing.T) *providertest.World {
			m, p, refusals := world(t)
			m.add("fast", 1, nil)
			m.add("cheap", 1, nil)
			m.run()
			return &providertest.World{Provider: p, Pool: "fast", Other: "cheap", Nodes: m.nodes, Faults: refusals.Faults()}
		})
	})
	t.Run("killed between the mark and the scaling, the next call goes on", func(t *testing.T) {
		m, p, _ := world(t)
		m.add("fast", 3, nil)
		victim := m.nodes("fast")[1]
		body := []byte(`{"metadata":{"annotations":{"` + deleteMachine + `":"true"}}}`)
		name := strings.TrimPrefix(victim.Node, "node-")
		if _, err := m.machines().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // and once more before the controller has done anything
			if err := p.Apply(t.Context(), victim); err != nil {
				t.Fatal(err)
			}
		}
		m.reconcile(t.Context())
		left := m.nodes("fast")
		if len(left) != 2 || left[0].Node == victim.Node || left[1].Node == victim.Node {
			t.Errorf("left: %v, want all but %s", left, victim.Node)
		}
	})
	t.Run("a removal waits for a pool that grows", func(t *testing.T) {
		m, p, _ := world(t)
		m.add("fast", 1, nil)
		if err := p.Apply(t.Context(), api.ResizePool{Pool: "fast", From: 1, To: 3}); err != nil {
			t.Fatal(err)
		}
		if err := p.Apply(t.Context(), m.nodes("fast")[0]); err == nil || !strings.Contains(err.Error(), provider.ErrBusy.Error()) {
			t.Errorf("error = %v, want %v", err, provider.ErrBusy)
		}
	})
	t.Run("an operator that has just begun knows how long nodes have been coming", func(t *testing.T) {
		m, p, _ := world(t)
		m.add("fast", 2, nil)
		at := func(p *clusterapi.Provider) time.Time {
			t.Helper()
			pools, err := p.Pools(t.Context())
			if err != nil || len(pools) != 1 {
				t.Fatalf("%v, %v", pools, err)
			}
			return pools[0].ResizedAt
		}
		if got := at(p); !got.IsZero() {
			t.Errorf("all have nodes: growing since %v", got)
		}
		for _, version := range []string{"conditions", "v1beta2"} {
			conditions := `[{"type":"ScalingUp","status":"True","lastTransitionTime":"2026-03-02T10:00:00Z"}]`
			if version == "v1beta2" {
				conditions = `{"conditions":` + conditions + `}`
			}
			for _, status := range []string{"True", "False"} {
				want := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
				if status == "False" {
					want = time.Time{}
				}
				body := `{"status":{"` + version + `":` + strings.ReplaceAll(conditions, "True", status) + `}}`
				if _, err := m.deployments().Patch(t.Context(), "fast", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
				if got := at(p); !got.Equal(want) {
					t.Errorf("ScalingUp is %s in %s: growing since %v, want %v", status, version, got, want)
				}
			}
		}
		var made []time.Time
		for _, name := range []string{"late-1", "late-2"} {
			time.Sleep(1100 * time.Millisecond) // times are told in seconds
			machine, err := m.machines().Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
				"metadata": map[string]any{"name": name, "labels": map[string]any{clusterOf: "shop", deploymentOf: "fast"}},
			}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, machine.GetCreationTimestamp().Time)
		}
		if got := at(p); !got.Equal(made[1]) {
			t.Errorf("without nodes since %v: growing since %v", made, got)
		}
		// Who has asked knows since when, however often Machines are replaced.
		if err := p.Apply(t.Context(), api.ResizePool{Pool: "fast", From: 2, To: 4}); err != nil {
			t.Fatal(err)
		}
		asked := at(p)
		if asked.Equal(made[1]) || time.Since(asked).Abs() > time.Minute {
			t.Errorf("asked for at %v", asked)
		}
		if err := p.Apply(t.Context(), api.ResizePool{Pool: "fast", From: 2, To: 4}); err != nil {
			t.Fatal(err)
		}
		if got := at(p); !got.Equal(asked) {
			t.Errorf("asked for at %v, and after the same once more at %v", asked, got)
		}
		if out, err := c.Kubectl(t.Context(), "-n", m.namespace, "scale", "machinedeployment/fast", "--replicas=5"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := at(p); !got.Equal(made[1]) {
			t.Errorf("somebody else has asked for more: growing since %v, want %v", got, made[1])
		}
	})
	t.Run("what a MachineDeployment says of itself", func(t *testing.T) {
		m, p, _ := world(t)
		set := func(fields ...string) func(*unstructured.Unstructured) {
			return func(d *unstructured.Unstructured) {
				a := d.GetAnnotations()
				for i := 0; i < len(fields); i += 2 {
					a[fields[i]] = fields[i+1]
				}
				d.SetAnnotations(a)
			}
		}
		m.add("a-plain", 0, set(api.LabelSpot, "true", api.LabelInterruptions, "0.1", clusterapi.AnnotationPrice, "0.5", clusterapi.AnnotationSpeed, "1.5", clusterapi.AnnotationMaxSize, "9",
			"capacity.cluster-autoscaler.kubernetes.io/taints", "dedicated=others:NoSchedule, gpu:NoExecute"))
		m.add("b-autoscaled", 0, set("cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size", "1", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "3"))
		m.add("c-paused", 0, set("cluster.x-k8s.io/paused", ""))
		m.add("d-rolling", 0, func(d *unstructured.Unstructured) {
			d.Object["status"] = map[string]any{"replicas": int64(3), "updatedReplicas": int64(1)}
		})
		m.add("e-failing", 0, nil)
		m.add("z-other-cluster", 0, func(d *unstructured.Unstructured) { d.SetLabels(map[string]string{clusterOf: "till"}) })
		if _, err := m.machines().Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
			"metadata": map[string]any{"name": "e-1", "labels": map[string]any{clusterOf: "shop", deploymentOf: "e-failing"}},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": "InfrastructureReady", "status": "False", "lastTransitionTime": "2026-03-02T10:00:00Z",
				"message": "InsufficientInstanceCapacity: We currently do not have sufficient m5.large capacity",
			}}},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pools, err := p.Pools(t.Context())
		if err != nil || len(pools) != 5 {
			t.Fatalf("%v, %v", pools, err)
		}
		if a := pools[0]; a.Price != 0.5 || a.CPUSpeed != 1.5 || a.MaxPerZone != 9 || a.MachineType != "large" || a.Hold != "" || a.Autoscaled ||
			a.Allocatable.MilliCPU != 2000 || a.Allocatable.Memory != 8<<30 || a.Labels[clusterapi.LabelPool] != "a-plain" ||
			a.Labels["node-restriction.kubernetes.io/tier"] != "a-plain" || a.Labels["app"] != "" {
			t.Errorf("%+v", a)
		}
		if diff := cmp.Diff([]api.Taint{{Key: "dedicated", Value: "others", Effect: "NoSchedule"}, {Key: "gpu", Effect: "NoExecute"}}, pools[0].Taints); diff != "" {
			t.Errorf("taints (-want +got):\n%s", diff)
		}
		if !pools[0].Spot || pools[0].Interruptions != 0.1 || pools[1].Spot {
			t.Errorf("spot %v, %g interruptions an hour; the other one: %v", pools[0].Spot, pools[0].Interruptions, pools[1].Spot)
		}
		if !pools[1].Autoscaled {
			t.Errorf("%+v, want it left to Cluster Autoscaler", pools[1])
		}
		if !strings.Contains(pools[2].Hold, "paused") || !strings.Contains(pools[3].Hold, "rollout") {
			t.Errorf("held by %q and %q", pools[2].Hold, pools[3].Hold)
		}
		if e := pools[4].Error; e == nil || e.Kind != api.PoolStockout || !e.At.Equal(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)) {
			t.Errorf("error is %+v", e)
		}
		if err := p.Apply(t.Context(), api.ResizePool{Pool: "z-other-cluster", To: 1}); err == nil || !strings.Contains(err.Error(), `of cluster "till"`) {
			t.Errorf("another cluster's pool: %v", err)
		}
	})
}
