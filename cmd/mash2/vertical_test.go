package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// TestVertical: the operator runs the agents that spec.vertical asks for, on a real control
// plane: limits go in place to the budget, by hand of the page they stop and start and get
// another budget, and only for who may patch the ManagedWorkload; nothing restarts, and no
// pod template is written.
func TestVertical(t *testing.T) {
	const users, speed = 10, 10.0
	s := scenario(t, users, scenarios.Stage{Duration: 10 * time.Hour, Target: users})
	s.Workload.Replicas = scenarios.Bounds{Min: 3, Max: 3}
	s.Workload.CPU.Limit.Quantity = resource.MustParse("500m")
	w := newWorld(t, testbed.Options{Scenario: s, Speed: speed})
	key := client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.WorkloadName}
	mw := func() *v1alpha1.ManagedWorkload {
		out := &v1alpha1.ManagedWorkload{}
		if err := w.Client.Get(t.Context(), key, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	limits := func() (all []int64, sum int64) {
		var list corev1.PodList
		if err := w.Client.List(t.Context(), &list, client.InNamespace(testbed.Mash2)); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp != nil {
				continue
			}
			milli := p.Spec.Containers[0].Resources.Limits.Cpu().MilliValue()
			all, sum = append(all, milli), sum+milli
			for _, c := range p.Status.ContainerStatuses {
				if c.RestartCount > 0 {
					t.Errorf("%s was restarted", p.Name)
				}
			}
		}
		return all, sum
	}
	template := w.deployment(testbed.Mash2).Spec.Template.Spec.Containers[0].Resources

	// Replicas counted by what agents change would follow them: that is refused.
	change := func(edit func(*v1alpha1.ManagedWorkloadSpec)) error {
		now := mw()
		old := now.DeepCopy()
		edit(&now.Spec)
		return w.Client.Patch(t.Context(), now, client.MergeFrom(old))
	}
	cpu := func(q string) *resource.Quantity { out := resource.MustParse(q); return &out }
	err := change(func(s *v1alpha1.ManagedWorkloadSpec) { s.Vertical = &v1alpha1.Vertical{CPU: cpu("900m")} })
	if err == nil || !strings.Contains(err.Error(), "must be Template with vertical") {
		t.Errorf("counted by pods: %v", err)
	}
	ip := outerIP(t)
	address := net.JoinHostPort(ip, freePort(t, ip))
	o := w.operator("--page-bind-address", address)
	w.Load.Begin()
	w.eventually("three pods", func() string {
		if all, _ := limits(); len(all) != 3 {
			return fmt.Sprint(all)
		}
		return ""
	})
	err = change(func(s *v1alpha1.ManagedWorkloadSpec) {
		s.CountRequests, s.Vertical = v1alpha1.CountTemplate, &v1alpha1.Vertical{CPU: cpu("900m")}
	})
	if err != nil {
		t.Fatal(err)
	}
	within := func(budget int64) {
		t.Helper()
		w.eventually(fmt.Sprintf("all limits within %dm", budget), func() string {
			all, sum := limits()
			v := mw().Status.Vertical
			if len(all) == 3 && sum <= budget && v != nil && len(v.Pods) == 3 {
				return ""
			}
			return fmt.Sprintf("limits %v, status %+v", all, v)
		})
	}
	within(900)
	if v := mw().Status.Vertical; v.Envelope.CPU.MilliValue() != 900 || v.Decides != "spread" {
		t.Errorf("status.vertical: %+v", v)
	}

	// By the page, with the caller's own rights.
	edit := []rbacv1.PolicyRule{{APIGroups: []string{api.Group}, Resources: []string{"managedworkloads"}, Verbs: []string{"list", "patch"}}}
	see := []rbacv1.PolicyRule{{APIGroups: []string{api.Group}, Resources: []string{"managedworkloads"}, Verbs: []string{"list"}}}
	tokens := map[string]string{}
	for name, rules := range map[string][]rbacv1.PolicyRule{"owner": edit, "viewer": see} {
		w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Namespace, Name: "agents-" + name}})
		w.allow("agents-"+name, testbed.Mash2, rules)
		tokens[name] = w.tokenOf("agents-" + name)
	}
	p := visitor{t, "https://" + address, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	act := func(who, body string, status int) {
		t.Helper()
		if got, text := p.ask("POST", "workloads/"+key.String()+"/agents", tokens[who], body); got != status {
			t.Errorf("%s does %s: %d, want %d: %s", who, body, got, status, text)
		}
	}
	act("viewer", `{"run": false}`, http.StatusForbidden)
	act("owner", `{"run": false}`, http.StatusOK)
	w.eventually("the agents to be stopped", func() string {
		if v := mw().Status.Vertical; v == nil || !strings.Contains(v.Message, "spec.vertical.run is false") {
			return fmt.Sprintf("%+v", v)
		}
		return ""
	})
	before, _ := limits()
	act("owner", `{"cpu": "700m"}`, http.StatusOK)
	w.eventually("the page to show the smaller budget", func() string {
		_, body := p.ask("GET", "workloads/"+key.String(), tokens["viewer"], "")
		if !strings.Contains(body, `"budget":700`) || !strings.Contains(body, `"stopped":true`) {
			return body
		}
		return ""
	})
	if after, _ := limits(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("stopped, limits went from %v to %v", before, after)
	}
	act("owner", `{"run": true}`, http.StatusOK)
	within(700)
	if got := w.deployment(testbed.Mash2).Spec.Template.Spec.Containers[0].Resources; !got.Limits.Cpu().Equal(*template.Limits.Cpu()) || !got.Requests.Cpu().Equal(*template.Requests.Cpu()) {
		t.Errorf("the template has %v now", got)
	}
	if _, body := p.ask("GET", "explain?workload="+key.String(), tokens["viewer"], ""); !strings.Contains(body, `"budget":700`) {
		t.Errorf("explain: %s", body)
	}
	if err := change(func(s *v1alpha1.ManagedWorkloadSpec) { s.Vertical = nil }); err != nil {
		t.Fatal(err)
	}
	w.eventually("no agents", func() string {
		if v := mw().Status.Vertical; v != nil {
			return fmt.Sprintf("%+v", v)
		}
		return ""
	})
	w.stop(o)
}
