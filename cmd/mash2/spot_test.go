package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// TestSpotOnCluster: on a real control plane with a simulated GKE a policy puts a part of a
// Deployment under load on spot machines. Then these are taken away, one after the other.
// Once the policy's floor is Ready off spot machines it stays so, pods come back onto spot
// machines, and the share is kept in the end.
func TestSpotOnCluster(t *testing.T) {
	options := steady(t)
	options.Scenario.Workload.Replicas = scenarios.Bounds{Min: 10, Max: 15}
	machine := options.Scenario.Pools[1].MachineType
	zones := options.Scenario.Pools[1].Zones
	options.Scenario.Pools = []scenarios.Pool{
		{Name: "steady", MachineType: machine, Zones: zones, Nodes: 2, NodesPerZone: scenarios.Bounds{Max: 10}},
		{Name: "spot", MachineType: machine, Zones: zones, NodesPerZone: scenarios.Bounds{Max: 10}, Spot: &scenarios.SpotMachines{PriceRatio: 0.4}},
	}
	w := newWorld(t, options)
	placesAtAdmission(t, w.Cluster, api.LabelNodePool)
	var policy corev1.ConfigMap
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}, &policy); err != nil {
		t.Fatal(err)
	}
	const floor, share = 3, 0.5
	policy.Data["policies.yaml"] = fmt.Sprintf("policies: {COST_SAVING: {nodePools: [steady, spot], spot: {maxShare: %g, floor: %d}, disruption: {retryAfter: 1m}}}", share, floor)
	w.update(&policy)

	// ready are the Ready pods on and off spot machines, and the nodes of the spot ones.
	emptying := false // some node is
	ready := func() (off, on int, nodes []string) {
		var all corev1.NodeList
		var pods corev1.PodList
		if err := w.Client.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		if err := w.Client.List(t.Context(), &pods, client.InNamespace(testbed.Mash2)); err != nil {
			t.Fatal(err)
		}
		spot := map[string]bool{}
		emptying = false
		for _, n := range all.Items {
			emptying = emptying || n.Spec.Unschedulable
			spot[n.Name] = n.Labels["cloud.google.com/gke-spot"] == "true"
		}
		for _, p := range pods.Items {
			isReady := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			switch {
			case !isReady || p.DeletionTimestamp != nil:
			case spot[p.Spec.NodeName]:
				on++
				if !slices.Contains(nodes, p.Spec.NodeName) {
					nodes = append(nodes, p.Spec.NodeName)
				}
			default:
				off++
			}
		}
		return off, on, nodes
	}
	divided := func() string {
		off, on, _ := ready()
		if on == 0 || off < floor || float64(on) > share*float64(on+off)+1e-9 || emptying {
			return fmt.Sprintf("%d pods are Ready off spot machines, %d on them; a node is being emptied: %v", off, on, emptying)
		}
		return ""
	}
	o := w.operator("--places-at-admission")
	w.Load.Begin()
	w.eventually("half of the pods to be on spot machines", divided)
	if status := w.managed(testbed.WorkloadName).Status; len(status.NodePools) != 2 || status.Placement == nil {
		t.Errorf("status says %+v, placement %+v", status.NodePools, status.Placement)
	}
	for range 2 {
		_, _, nodes := ready()
		if len(nodes) == 0 {
			t.Fatal("no pod is on a spot machine")
		}
		if err := w.GKE.Interrupt(t.Context(), nodes[0]); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			if off, on, _ := ready(); off < floor {
				t.Fatalf("%d pods are Ready off spot machines, %d on them", off, on)
			}
		}
		w.eventually("pods to be back on spot machines", divided)
	}
	if out, err := w.Cluster.Kubectl(t.Context(), "get", "events", "-A", "-o", "jsonpath={.items[*].reason}"); err != nil || strings.Contains(out, "SpotNotUsed") {
		t.Errorf("events %s, %v", out, err)
	}
	w.stop(o)
}

// TestMixedPoolsWithSpot: on a real control plane a policy mixes pools, one of them of spot
// machines. A Deployment under load leaves a pool whose memory it doesn't need: a part of it for
// spot machines, and the rest, its floor at least, for machines that stay. The one that needs
// memory has no replica to spare for spot machines and keeps its pods. No request fails.
func TestMixedPoolsWithSpot(t *testing.T) {
	const floor, share, replicas = 3, 0.5, 30
	options := steady(t)
	options.Scenario.Workload.Replicas = scenarios.Bounds{Min: replicas, Max: replicas + 4}
	zones := options.Scenario.Pools[1].Zones
	options.Scenario.Pools = []scenarios.Pool{
		{Name: "memory", MachineType: "n2-highmem-2", Zones: zones, Nodes: 5, NodesPerZone: scenarios.Bounds{Max: 10}},
		{Name: "cores", MachineType: "n2-highcpu-4", Zones: zones, NodesPerZone: scenarios.Bounds{Max: 10}},
		{Name: "spot", MachineType: "n2-highcpu-4", Zones: zones, NodesPerZone: scenarios.Bounds{Max: 10}, Spot: &scenarios.SpotMachines{PriceRatio: 0.4}},
	}
	w := newWorld(t, options)
	placesAtAdmission(t, w.Cluster, api.LabelNodePool)
	w.apply(ledger)
	w.eventually("the one that needs memory to run", func() string {
		if pools, _ := w.podsByPool("ledger"); pools["memory"] != floor {
			return fmt.Sprint(pools)
		}
		return ""
	})
	_, before := w.podsByPool("ledger")
	ready := w.deployment(testbed.Mash2).Status.ReadyReplicas
	var policy corev1.ConfigMap
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Data["policies.yaml"] = fmt.Sprintf("policies: {COST_SAVING: {nodePools: [memory, cores, spot], mixPools: true, spot: {maxShare: %g, floor: %d}}}", share, floor)
	w.update(&policy)
	o := w.operator("--places-at-admission")
	w.Load.Begin()
	w.eventually("each to be on its pools, and no node kept for nobody", func() string {
		web, _ := w.podsByPool(testbed.WorkloadName)
		ledger, _ := w.podsByPool("ledger")
		all := web["cores"] + web["spot"]
		if web["memory"] > 0 || all < replicas || web["cores"] < floor || web["spot"] == 0 || float64(web["spot"]) > share*float64(all) || ledger["memory"] != floor || w.instances("memory") > 3 {
			return fmt.Sprintf("%v and %v, %d nodes for memory", web, ledger, w.instances("memory"))
		}
		return ""
	})
	if _, after := w.podsByPool("ledger"); !slices.Equal(before, after) {
		t.Errorf("the pods of the one that stays were %v, are %v", before, after)
	}
	w.served(ready)
	w.stop(o)
}
