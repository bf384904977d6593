package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// request is what the operator asked of the API server.
type request struct {
	verb, group, resource, namespace, name string // resource with its subresource
	code                                   int
}

func (r request) String() string {
	return fmt.Sprintf("%s %s.%s %s/%s", r.verb, r.resource, r.group, r.namespace, r.name)
}

// auditedRequests are the distinct requests in an audit log, names aside.
func auditedRequests(t *testing.T, path string) []request {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []request
	seen := map[request]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(log)); lines.Scan(); {
		var event struct {
			Verb      string
			ObjectRef *struct{ Resource, Subresource, Namespace, Name, APIGroup string }
			Response  struct{ Code int } `json:"responseStatus"`
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		o := event.ObjectRef
		if o == nil {
			continue
		}
		r := request{event.Verb, o.APIGroup, o.Resource, o.Namespace, o.Name, event.Response.Code}
		if o.Subresource != "" {
			r.resource += "/" + o.Subresource
		}
		kind := r
		if r.resource != "configmaps" && r.resource != "leases" { // granted by name
			kind.namespace, kind.name = "", ""
		}
		if !seen[kind] {
			seen[kind] = true
			out = append(out, r)
		}
	}
	return out
}

// testRulesNeeded takes each verb on each resource away, one by one, and looks
// whether that would have refused the operator something it asked for.
func testRulesNeeded(t *testing.T, w *world, requests []request) {
	var cluster rbacv1.ClusterRole
	var local, system rbacv1.Role
	for key, o := range map[client.ObjectKey]client.Object{
		{Name: release}: &cluster,
		{Namespace: testbed.Namespace, Name: release}:                      &local,
		{Namespace: metav1.NamespaceSystem, Name: release + "-autoscaler"}: &system,
	} {
		if err := w.Client.Get(t.Context(), key, o); err != nil {
			t.Fatal(err)
		}
	}
	taken := 0
	for _, role := range []struct {
		object client.Object
		rules  *[]rbacv1.PolicyRule
	}{{&cluster, &cluster.Rules}, {&local, &local.Rules}, {&system, &system.Rules}} {
		whole := slices.Clone(*role.rules)
		for i, rule := range whole {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						at := slices.IndexFunc(requests, func(r request) bool {
							return r.verb == verb && r.group == group && r.resource == resource && r.code != http.StatusForbidden &&
								(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.name))
						})
						if at < 0 && verb == "create" && resource == "configmaps" {
							// An apply that creates is a patch by name, and a create.
							*role.rules = without(whole, i, resource, verb)
							w.update(role.object)
							w.eventually("an apply that would create to be refused", func() string {
								if out, err := w.applyAsOperator(); err == nil {
									return out
								} else if !strings.Contains(err.Error(), "forbidden") {
									return err.Error()
								}
								return ""
							})
							taken++
							continue
						}
						if at < 0 {
							t.Errorf("the operator never did %s %s.%s %v", verb, resource, group, rule.ResourceNames)
							continue
						}
						*role.rules = without(whole, i, resource, verb)
						w.update(role.object)
						w.eventually(fmt.Sprintf("%s to be refused without its rule", requests[at]), func() string {
							if w.allowed(requests[at]) {
								return "another rule allows it too"
							}
							return ""
						})
						taken++
					}
				}
			}
		}
		*role.rules = whole
		w.update(role.object)
	}
	t.Logf("%d verbs on resources taken away, each refused something", taken)
}

// without is rules without one verb on one resource of rule i.
func without(rules []rbacv1.PolicyRule, i int, resource, verb string) []rbacv1.PolicyRule {
	out := slices.Clone(rules)
	others, rest := *rules[i].DeepCopy(), *rules[i].DeepCopy()
	others.Resources = slices.DeleteFunc(others.Resources, func(r string) bool { return r == resource })
	rest.Resources = []string{resource}
	rest.Verbs = slices.DeleteFunc(rest.Verbs, func(v string) bool { return v == verb })
	out = slices.Delete(out, i, i+1)
	for _, r := range []rbacv1.PolicyRule{others, rest} {
		if len(r.Resources) > 0 && len(r.Verbs) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// applyAsOperator tries what the operator does with its first good policy.
func (w *world) applyAsOperator() (string, error) {
	w.t.Helper()
	if out, err := w.Cluster.Kubectl(w.t.Context(), "delete", "configmap", "-n", testbed.Namespace, "--ignore-not-found", testbed.PolicyConfigMap+configmap.LastGoodSuffix); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(w.t.TempDir(), "cm.yaml")
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + testbed.PolicyConfigMap + configmap.LastGoodSuffix + ", namespace: " + testbed.Namespace + "}\n"
	if err := os.WriteFile(file, []byte(object), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return w.Cluster.Kubectl(w.t.Context(), "apply", "--server-side", "--validate=false", "--as="+serviceAccount, "-f", file)
}

func (w *world) update(o client.Object) {
	w.t.Helper()
	if err := w.Client.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// allowed asks whether the operator may make a request.
func (w *world) allowed(r request) bool {
	w.t.Helper()
	resource, subresource, _ := strings.Cut(r.resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   serviceAccount,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + testbed.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: resource, Subresource: subresource, Namespace: r.namespace, Name: r.name,
		},
	}}
	if err := w.Client.Create(w.t.Context(), review); err != nil {
		w.t.Fatal(err)
	}
	return review.Status.Allowed
}
