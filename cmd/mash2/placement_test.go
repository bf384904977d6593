package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/experiments/cluster"
)

// placesAtAdmission installs the chart's policy by which new pods prefer a pool.
func placesAtAdmission(t *testing.T, c *cluster.Cluster, provider string) {
	t.Helper()
	text, err := c.Helm(t.Context(), "template", "mash2", "../../charts/mash2", "--kube-version", "1.36.0",
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy", "--show-only", "templates/placement.yaml",
		"--set", "prometheus.url=http://prometheus,provider.name="+provider+",strategies.placement=true")
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
	placesAtAdmission(t, c, "kind")
	const (
		pool = "100 mash2.io/pool In [edge]"
		own  = "7 disk In [ssd]"
	)
	preferred := "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]"
	n := 0
	for name, tc := range map[string]struct {
		kind, affinity string // of the template
		nodePool       string
		want           string
	}{
		"a Deployment's pods":                {kind: "Deployment", nodePool: "edge", want: pool},
		"a StatefulSet's":                    {kind: "StatefulSet", nodePool: "edge", want: pool},
		"without a placement none":           {kind: "Deployment"},
		"beside another kind of it":          {kind: "Deployment", affinity: "{podAffinity: {}}", nodePool: "edge", want: pool},
		"beside an empty one":                {kind: "Deployment", affinity: "{nodeAffinity: {}}", nodePool: "edge", want: pool},
		"beside what the template has":       {kind: "Deployment", affinity: "{nodeAffinity: {" + preferred + "}}", nodePool: "edge", want: own + ", " + pool},
		"a name that no pool can have":       {kind: "Deployment", nodePool: "no pool/at all", want: "100 mash2.io/pool In [no pool/at all]"},
		"without one as the template has it": {kind: "Deployment", affinity: "{nodeAffinity: {" + preferred + "}}", want: own},
	} {
		n++
		app := fmt.Sprintf("app-%d", n)
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			service, affinity := "", ""
			if tc.kind == "StatefulSet" {
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
`, app, tc.kind, service, affinity))
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
					if out, err := c.Kubectl(ctx, "scale", tc.kind, app, "--replicas", replicas); err != nil {
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
