package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/clusterapi"
	"github.com/mash2-io/mash2/execution/kind"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// placesAtAdmission installs the chart's policy by which new pods prefer a pool.
func placesAtAdmission(t *testing.T, c *cluster.Cluster, label string) {
	t.Helper()
	text, err := c.Helm(t.Context(), "template", "mash2", "../../charts/mash2", "--kube-version", "1.36.0",
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy", "--show-only", "templates/placement.yaml",
		"--set", "prometheus.url=http://prometheus,provider.name=kind,provider.poolLabel="+label+",strategies.placement=true")
	if err != nil {
		t.Fatal(err)
	}
	applyText(t, c, text)
}

// TestPlacesAtAdmission: the pods that real controllers make prefer the pool that a status
// names, beside what their template prefers, with no operator anywhere.
func TestPlacesAtAdmission(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a whole cluster")
	}
	c := cluster.ForTest(t)
	for _, args := range [][]string{
		{"apply", "-f", "../../charts/mash2/crds"},
		{"wait", "--for=condition=Established", "crd/managedworkloads.mash2.io", "--timeout=60s"},
	} {
		if out, err := c.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	placesAtAdmission(t, c, kind.LabelPool)
	const (
		pool = "100 mash2.io/pool In [edge]"
		own  = "7 disk In [ssd]"
	)
	preferred := "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]"
	n := 0
	for name, tc := range map[string]struct {
		controller, affinity string // of the template
		nodePool             string
		want                 string
	}{
		"a Deployment's pods":                {controller: "Deployment", nodePool: "edge", want: pool},
		"a StatefulSet's":                    {controller: "StatefulSet", nodePool: "edge", want: pool},
		"without a placement none":           {controller: "Deployment"},
		"beside another kind of it":          {controller: "Deployment", affinity: "{podAffinity: {}}", nodePool: "edge", want: pool},
		"beside an empty one":                {controller: "Deployment", affinity: "{nodeAffinity: {}}", nodePool: "edge", want: pool},
		"beside what the template has":       {controller: "Deployment", affinity: "{nodeAffinity: {" + preferred + "}}", nodePool: "edge", want: own + ", " + pool},
		"a name that no pool can have":       {controller: "Deployment", nodePool: "no pool/at all", want: "100 mash2.io/pool In [no pool/at all]"},
		"without one as the template has it": {controller: "Deployment", affinity: "{nodeAffinity: {" + preferred + "}}", want: own},
	} {
		n++
		app := fmt.Sprintf("app-%d", n)
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			service, affinity := "", ""
			if tc.controller == "StatefulSet" {
				service = "serviceName: " + app
			}
			if tc.affinity != "" {
				affinity = "affinity: " + tc.affinity
			}
			applyText(t, c, fmt.Sprintf(`apiVersion: mash2.io/v1alpha1
kind: ManagedWorkload
metadata: {name: %[1]s, namespace: default}
spec:
  targetRef: {apiVersion: apps/v1, kind: %[2]s, name: %[1]s}
  maxReplicas: 5
---
apiVersion: apps/v1
kind: %[2]s
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: 0
  %[3]s
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      %[4]s
      containers: [{name: web, image: web}]
`, app, tc.controller, service, affinity))
			if tc.nodePool != "" {
				patch := fmt.Sprintf(`{"status":{"placement":{"nodePool":%q}}}`, tc.nodePool)
				if out, err := c.Kubectl(ctx, "patch", "mw", app, "--subresource", "status", "--type", "merge", "-p", patch); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			prefers := func() (string, bool) {
				out, err := c.Kubectl(ctx, "get", "pods", "-l", "app="+app, "-o", "json")
				var list corev1.PodList
				if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list.Items) == 0 {
					return "", false
				}
				var terms []string
				if a := list.Items[0].Spec.Affinity; a != nil && a.NodeAffinity != nil {
					for _, term := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
						e := term.Preference.MatchExpressions[0]
						terms = append(terms, fmt.Sprint(term.Weight, " ", e.Key, " ", e.Operator, " ", e.Values))
					}
				}
				return strings.Join(terms, ", "), true
			}
			// The policy's caches follow the API server by a moment: a later pod is made by
			// what the status says.
			for deadline := time.Now().Add(30 * time.Second); ; {
				got := ""
				for _, replicas := range []string{"0", "1"} {
					if out, err := c.Kubectl(ctx, "scale", tc.controller, app, "--replicas", replicas); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
					there := false
					for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
						if got, there = prefers(); there == (replicas == "1") {
							break
						}
					}
					if replicas == "1" && !there {
						out, _ := c.Kubectl(ctx, "get", "events", "--field-selector", "type=Warning", "-o", "jsonpath={.items[*].message}")
						got = "no pod is made: " + out
					}
				}
				if got == tc.want {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("a new pod prefers %q, want %q", got, tc.want)
				}
			}
		})
	}
}

// TestOneWorkloadMoves: on a real control plane a strategy takes a Deployment under load to
// the other pool while a StatefulSet stays where it is, and back when the strategy is
// deleted. No request fails, and no pod of the StatefulSet is touched.
func TestOneWorkloadMoves(t *testing.T) {
	options := steady(t)
	options.StatefulReplicas = 3
	w := newWorld(t, options)
	placesAtAdmission(t, w.Cluster, api.LabelNodePool)
	home, away := w.PoolOf(api.CostSaving), w.PoolOf(api.Performance)
	var policy corev1.ConfigMap
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Data["policies.yaml"] = fmt.Sprintf("policies: {COST_SAVING: {nodePools: [%s, %s]}}", home, away)
	w.update(&policy)
	w.apply(ruled("away", "{move: {workload: "+testbed.WorkloadName+", pools: ["+away+"]}}"))

	// where lists the pools of each workload's pods, and their UIDs.
	where := func() (pools map[string][]string, uids map[string][]string) {
		pools, uids = map[string][]string{}, map[string][]string{}
		var nodes corev1.NodeList
		var pods corev1.PodList
		if err := w.Client.List(t.Context(), &nodes); err != nil {
			t.Fatal(err)
		}
		if err := w.Client.List(t.Context(), &pods, client.InNamespace(testbed.Mash2)); err != nil {
			t.Fatal(err)
		}
		on := map[string]string{}
		for _, n := range nodes.Items {
			on[n.Name] = n.Labels[api.LabelNodePool]
		}
		for _, p := range pods.Items {
			name := testbed.WorkloadName
			if strings.HasPrefix(p.Name, testbed.StatefulName) {
				name = testbed.StatefulName
			}
			uids[name] = append(uids[name], string(p.UID))
			if pool := on[p.Spec.NodeName]; !slices.Contains(pools[name], pool) {
				pools[name] = append(pools[name], pool)
			}
		}
		slices.Sort(uids[testbed.StatefulName])
		return pools, uids
	}
	arrived := func(pool string) func() string {
		return func() string {
			if pools, _ := where(); !slices.Equal(pools[testbed.WorkloadName], []string{pool}) {
				return fmt.Sprint(pools)
			}
			return ""
		}
	}
	_, before := where()
	ready := w.deployment(testbed.Mash2).Status.ReadyReplicas
	o := w.operator("--places-at-admission")
	w.Load.Begin()
	w.eventually("the Deployment to be on the other pool", arrived(away))
	pools, uids := where()
	if !slices.Equal(pools[testbed.StatefulName], []string{home}) || !slices.Equal(uids[testbed.StatefulName], before[testbed.StatefulName]) {
		t.Errorf("the StatefulSet is on %v with pods %v, before %v", pools, uids[testbed.StatefulName], before[testbed.StatefulName])
	}
	if p := w.managed(testbed.WorkloadName).Status.Placement; p == nil || p.NodePool != away {
		t.Errorf("its new pods prefer %+v", p)
	}
	if out, err := w.Cluster.Kubectl(t.Context(), "delete", "strategy", "away", "-n", testbed.Mash2); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.eventually("the Deployment to be back", arrived(home))
	pools, uids = where()
	if !slices.Equal(pools[testbed.StatefulName], []string{home}) || !slices.Equal(uids[testbed.StatefulName], before[testbed.StatefulName]) {
		t.Errorf("in the end the StatefulSet is on %v with pods %v, before %v", pools, uids[testbed.StatefulName], before[testbed.StatefulName])
	}
	w.served(ready)
	w.servedBy(testbed.StatefulName, options.StatefulReplicas)
	w.stop(o)
}

// ledger is a Deployment that needs memory.
const ledger = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ledger, namespace: ` + testbed.Mash2 + `}
spec:
  replicas: 3
  selector: {matchLabels: {app: ledger}}
  template:
    metadata: {labels: {app: ledger}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: ledger, image: ledger, resources: {requests: {cpu: 50m, memory: 2200Mi}}}]
---
apiVersion: mash2.io/v1alpha1
kind: ManagedWorkload
metadata: {name: ledger, namespace: ` + testbed.Mash2 + `}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: ledger}
  minReplicas: 3
  maxReplicas: 3
  mode: Full
`

// podsByPool counts the pods of ledger, or those of the Deployment under load, by the pool of
// their nodes.
func (w *world) podsByPool(app string) (pools map[string]int, uids []string) {
	w.t.Helper()
	var nodes corev1.NodeList
	var all corev1.PodList
	if err := errors.Join(w.Client.List(w.t.Context(), &nodes), w.Client.List(w.t.Context(), &all, client.InNamespace(testbed.Mash2))); err != nil {
		w.t.Fatal(err)
	}
	on := map[string]string{}
	for _, n := range nodes.Items {
		on[n.Name] = n.Labels[api.LabelNodePool]
	}
	pools = map[string]int{}
	for _, p := range all.Items {
		if strings.HasPrefix(p.Name, "ledger") == (app == "ledger") {
			pools[on[p.Spec.NodeName]]++
			uids = append(uids, string(p.UID))
		}
	}
	slices.Sort(uids)
	return pools, uids
}

// TestPoolsAreMixed: on a real control plane a policy mixes pools. A Deployment under load
// leaves for the pool whose cores are cheap; one that needs memory stays where memory is, on
// the pods that it has. No request fails.
func TestPoolsAreMixed(t *testing.T) {
	options := steady(t)
	options.Scenario.Workload.Replicas = scenarios.Bounds{Min: 30, Max: 34}
	zones := options.Scenario.Pools[1].Zones
	options.Scenario.Pools = []scenarios.Pool{
		{Name: "memory", MachineType: "n2-highmem-2", Zones: zones, Nodes: 5, NodesPerZone: scenarios.Bounds{Max: 10}},
		{Name: "cores", MachineType: "n2-highcpu-4", Zones: zones, NodesPerZone: scenarios.Bounds{Max: 10}},
	}
	w := newWorld(t, options)
	placesAtAdmission(t, w.Cluster, api.LabelNodePool)
	w.apply(ledger)
	pods := w.podsByPool
	w.eventually("the one that needs memory to run", func() string {
		if pools, _ := pods("ledger"); pools["memory"] != 3 {
			return fmt.Sprint(pools)
		}
		return ""
	})
	_, before := pods("ledger")
	ready := w.deployment(testbed.Mash2).Status.ReadyReplicas
	var policy corev1.ConfigMap
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Data["policies.yaml"] = "policies: {COST_SAVING: {nodePools: [memory, cores], mixPools: true}}"
	w.update(&policy)
	o := w.operator("--places-at-admission")
	w.Load.Begin()
	w.eventually("each to be on its pool, and no node kept for nobody", func() string {
		web, _ := pods(testbed.WorkloadName)
		ledger, _ := pods("ledger")
		if len(web) != 1 || web["cores"] == 0 || len(ledger) != 1 || ledger["memory"] != 3 || w.instances("memory") > 3 {
			return fmt.Sprintf("%v and %v, %d nodes", web, ledger, w.instances("memory"))
		}
		return ""
	})
	if _, after := pods("ledger"); !slices.Equal(before, after) {
		t.Errorf("the pods of the one that stays were %v, are %v", before, after)
	}
	for name, pool := range map[string]string{testbed.WorkloadName: "cores", "ledger": "memory"} {
		if p := w.managed(name).Status.Placement; p == nil || p.NodePool != pool {
			t.Errorf("new pods of %s prefer %+v, want %s", name, p, pool)
		}
	}
	w.served(ready)
	w.stop(o)
}

// TestChartPlacesPods: the admission policy and the operator's flag come together, where the
// cluster and mash2's owner allow it, with the provider's own label of pools.
func TestChartPlacesPods(t *testing.T) {
	program := os.Getenv(cluster.HelmEnv)
	if program == "" {
		program = filepath.Join("..", "..", ".cache", "bin", "helm")
	}
	const (
		on      = ",strategies.placement=true"
		mutates = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
	)
	for name, c := range map[string]struct{ set, versions, label string }{
		"kind":                    {",provider.name=kind" + on, mutates, kind.LabelPool},
		"Cluster API":             {",provider.name=clusterapi,provider.clusterapi.namespace=n,provider.clusterapi.cluster=c" + on, mutates, clusterapi.LabelPool},
		"GKE":                     {",provider.name=gke,provider.gke.project=p,provider.gke.location=l,provider.gke.cluster=c" + on, mutates, api.LabelNodePool},
		"a label of one's own":    {",provider.name=kind,provider.poolLabel=example.com/pool" + on, mutates, "example.com/pool"},
		"not asked for":           {",provider.name=kind", mutates, ""},
		"an older Kubernetes":     {",provider.name=kind" + on, "v1", ""},
		"without a pool provider": {",provider.name=none" + on, mutates, ""},
	} {
		out, err := exec.CommandContext(t.Context(), program, "template", release, chartFolder, "--kube-version", "1.36.0", "--api-versions", c.versions,
			"--set", "prometheus.url=http://prometheus"+c.set).CombinedOutput()
		if errors.Is(err, os.ErrNotExist) {
			t.Skip("helm is not installed: make helm")
		}
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		flag, policy := strings.Contains(string(out), "- --places-at-admission\n"), strings.Contains(string(out), "key: '"+c.label+"'")
		if want := c.label != ""; flag != want || want && !policy || !want && strings.Contains(string(out), "-placement\n") {
			t.Errorf("%s: the flag is there: %v, and the policy with label %q: %v", name, flag, c.label, policy)
		}
	}
}
