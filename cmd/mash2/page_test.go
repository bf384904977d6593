package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/serve/rest"
)

// TestPage serves the page of a running operator over TLS and asks the real API server
// who may see and do what: by token, by namespace, until a token is revoked; and through
// the API server's own proxy by mash2 ui.
func TestPage(t *testing.T) {
	w := newWorld(t, rising(t))
	ctx := t.Context()
	client, err := kubernetes.NewForConfig(w.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	const secret = "zz-secret"
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secret}})
	w.create(&v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret, Name: "hidden-" + secret},
		Spec:       v1alpha1.ManagedWorkloadSpec{TargetRef: v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "hidden"}, MaxReplicas: 3},
	})
	see := []rbacv1.PolicyRule{
		{APIGroups: []string{api.Group}, Resources: []string{"managedworkloads"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}},
	}
	edit := []rbacv1.PolicyRule{{APIGroups: []string{api.Group}, Resources: []string{"managedworkloads"}, Verbs: []string{"list", "patch"}}}
	all := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	tokens := map[string]string{}
	for name, c := range map[string]struct {
		rules     []rbacv1.PolicyRule
		namespace string
	}{"viewer": {see, ""}, "tenant": {edit, testbed.Mash2}, "admin": {all, ""}, "nobody": {nil, ""}} {
		w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Namespace, Name: "page-" + name}})
		w.allow("page-"+name, c.namespace, c.rules)
		tokens[name] = w.tokenOf("page-" + name)
	}
	ip := outerIP(t)
	address := net.JoinHostPort(ip, freePort(t, ip))
	records := t.TempDir()
	o := w.operator("--page-bind-address", address, "--records", records)
	p := visitor{t, "https://" + address, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	w.eventually("the first cycle on the page", func() string {
		if status, body := p.ask("GET", "overview", tokens["viewer"], ""); status != http.StatusOK {
			return fmt.Sprintf("%d: %s", status, body)
		}
		return ""
	})
	web := testbed.Mash2 + "/" + testbed.WorkloadName

	t.Run("seeing", func(t *testing.T) {
		for _, c := range []struct {
			who, path string
			status    int
			says      string
		}{
			{"viewer", "overview", 200, `"everything":true`},
			{"viewer", "workloads", 200, "hidden-" + secret},
			{"viewer", "nodes", 200, `"milliCPU"`},
			{"viewer", "explain?workload=" + web, 200, `"decided"`},
			{"viewer", "cycles", 200, `"actions"`},
			{"tenant", "overview", 200, `"everything":false`},
			{"tenant", "workloads", 200, testbed.WorkloadName},
			{"tenant", "workloads/" + web, 200, `"past"`},
			{"tenant", "explain?workload=" + web, 200, `"decided"`},
			{"tenant", "explain", 404, "name a workload"},
			{"tenant", "workloads/" + secret + "/hidden-" + secret, 404, "may not see it"},
			{"tenant", "explain?workload=" + secret + "/x", 404, "may not see it"},
			{"tenant", "cycles", 404, "may not see it"},
			{"tenant", "nodes", 404, "may not see it"},
			{"nobody", "overview", 403, "in none of the namespaces"},
			{"", "overview", 401, "a bearer token is needed"},
			{"forger", "overview", 401, "doesn't accept"},
		} {
			token := tokens[c.who]
			if c.who == "forger" {
				token = tokens["viewer"] + "x"
			}
			status, body := visitor{t, p.address, p.client}.ask("GET", c.path, token, "")
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%s asks %s: %d, want %d with %q: %.300s", c.who, c.path, status, c.status, c.says, body)
			}
			if c.who == "tenant" && c.status == 200 && strings.Contains(body, secret) {
				t.Errorf("%s tells a tenant of another namespace: %s", c.path, body)
			}
		}
		if status, body := p.raw("GET", "/", "", ""); status != 200 || !strings.Contains(body, "<!doctype html>") {
			t.Errorf("the page itself: %d", status)
		}
	})

	t.Run("acting", func(t *testing.T) {
		for _, c := range []struct {
			who, path, body string
			status          int
			says            string
		}{
			{"tenant", "pause", "", 403, "Kubernetes refuses it"},
			{"viewer", "pause", "", 403, "Kubernetes refuses it"},
			{"", "pause", "", 403, "Kubernetes refuses it"}, // as anybody
			{"tenant", "rollback/end", "", 403, "Kubernetes refuses it"},
			{"viewer", "rollback/end", "", 403, "Kubernetes refuses it"},
			{"admin", "rollback/end", "", 200, ""},
			{"tenant", "policy", `{"policy":"PERFORMANCE"}`, 403, "Kubernetes refuses it"},
			{"viewer", "workloads/" + web + "/mode", `{"mode":"Off"}`, 403, "Kubernetes refuses it"},
			{"tenant", "workloads/" + web + "/mode", `{"mode":"Shadow"}`, 200, ""},
			{"admin", "policy", `{"policy":"NO_SUCH"}`, 400, "NO_SUCH"},
			{"admin", "policy", `{"policy":"PERFORMANCE"}`, 200, ""},
			{"admin", "pause", "", 200, ""},
		} {
			if status, body := p.ask("POST", c.path, tokens[c.who], c.body); status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%q does %s %s: %d, want %d: %s", c.who, c.path, c.body, status, c.status, body)
			}
		}
		w := w.in(t)
		if got := w.mash2("policy", "get"); !strings.Contains(got, "active: PERFORMANCE") || !strings.Contains(got, "paused") {
			t.Errorf("policy get: %s", got)
		}
		w.eventually("the page to show it", func() string {
			_, body := p.ask("GET", "overview", tokens["viewer"], "")
			var o rest.Overview
			if err := json.Unmarshal([]byte(body), &o); err != nil {
				t.Fatal(err)
			}
			if o.Policy.Name != api.Performance || !o.Paused || o.Shadow != 1 {
				return body
			}
			return ""
		})
		if status, body := p.ask("POST", "resume", tokens["admin"], ""); status != 200 {
			t.Errorf("resume: %d %s", status, body)
		}
	})

	t.Run("strategies", func(t *testing.T) { strategiesByREST(t, w.in(t), p, tokens, records) })

	t.Run("mash2 ui", func(t *testing.T) {
		w := w.in(t)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Namespace, Name: "the-operator"},
			Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "operator", Image: "mash2"}}},
		}
		w.create(pod)
		pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		pod.Status.Phase = corev1.PodRunning
		if err := w.Client.Status().Update(ctx, pod); err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(ctx)
		r, out := io.Pipe()
		done := make(chan int, 1)
		go func() {
			done <- run(ctx, []string{
				"ui", "--kubeconfig", w.Cluster.Kubeconfig, "--pod", "the-operator", "--port", port, "--service-account", testbed.Namespace + "/page-viewer",
			}, out, os.Stderr)
			_ = out.Close()
		}()
		line, err := bufio.NewReader(r).ReadString('\n')
		if err != nil {
			t.Fatalf("mash2 ui prints no address: %v", err)
		}
		ui := visitor{t, strings.TrimSuffix(strings.TrimSpace(line), "/"), http.DefaultClient}
		if status, body := ui.raw("GET", "/", "", ""); status != 200 || !strings.Contains(body, "<!doctype html>") {
			t.Errorf("the page: %d %.200s", status, body)
		}
		if status, body := ui.raw("GET", "/app.js", "", ""); status != 200 || !strings.Contains(body, "import") {
			t.Errorf("its program: %d %.200s", status, body)
		}
		if status, body := ui.ask("GET", "overview", "", ""); status != 200 || !strings.Contains(body, `"everything":true`) || !strings.Contains(body, "page-viewer") {
			t.Errorf("overview: %d %.300s", status, body)
		}
		// The viewer may not; whose kubeconfig it is may.
		if status, body := ui.ask("POST", "policy", "", `{"policy":"COST_SAVING"}`); status != 200 {
			t.Errorf("policy: %d %s", status, body)
		}
		if got := w.mash2("policy", "get"); !strings.Contains(got, "active: COST_SAVING") {
			t.Errorf("policy get: %s", got)
		}
		// What leads out of the page, or pretends to be somebody, doesn't reach the API server.
		for _, path := range []string{"/../../../../secrets", "/..%2f..%2fpods", "/api/v1/%2e%2e/%2e%2e/pods"} {
			if status, body := ui.raw("GET", path, "", ""); status != 404 || strings.Contains(body, "apiVersion") {
				t.Errorf("%s: %d %.200s", path, status, body)
			}
		}
		if status, _ := ui.raw("PATCH", "/api/v1/overview", "", ""); status != 405 {
			t.Errorf("PATCH: %d", status)
		}
		// What can be put and deleted is, with the kubeconfig's rights.
		const one = "/api/v1/strategies/" + testbed.Mash2 + "/by-ui"
		if status, body := ui.raw("PUT", one, "", `{"outputs":{"x":"1.0"}}`); status != 200 {
			t.Errorf("PUT: %d %s", status, body)
		}
		if status, body := ui.raw("DELETE", one, "", ""); status != 200 {
			t.Errorf("DELETE: %d %s", status, body)
		}
		if status, body := ui.as("GET", "/api/v1/overview", http.Header{"Impersonate-User": {"nobody"}, "Authorization": {"Bearer x"}}); status != 200 || !strings.Contains(body, "page-viewer") {
			t.Errorf("impersonating: %d %.200s", status, body)
		}
		root, _, _ := strings.Cut(strings.TrimPrefix(ui.address, "http://"), "/")
		if status, _ := (visitor{t, "http://" + root, http.DefaultClient}).raw("GET", "/", "", ""); status != 404 {
			t.Errorf("without the part that can't be guessed: %d", status)
		}
		stop()
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
	})

	t.Run("a revoked token", func(t *testing.T) {
		r, err := http.NewRequestWithContext(ctx, "GET", p.address+"/api/v1/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(rest.TokenHeader, tokens["tenant"])
		response, err := p.client.Do(r)
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("%v, %v", response, err)
		}
		defer response.Body.Close()
		if err := client.CoreV1().ServiceAccounts(testbed.Namespace).Delete(ctx, "page-tenant", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		rest, err := io.ReadAll(response.Body) // until it is cut off
		t.Logf("cut off after %v", time.Since(began).Round(time.Second))
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(rest)), "event: end\ndata: {}") {
			t.Errorf("%v: it ends with %q", err, rest[max(0, len(rest)-60):])
		}
		if status, _ := p.ask("GET", "overview", tokens["tenant"], ""); status != 401 {
			t.Errorf("then: %d", status)
		}
	})
	w.stop(o)
}

// visitor asks a page.
type visitor struct {
	t       *testing.T
	address string
	client  *http.Client
}

func (p visitor) ask(method, path, token, body string) (int, string) {
	p.t.Helper()
	return p.raw(method, "/api/v1/"+path, token, body)
}

func (p visitor) raw(method, path, token, body string) (int, string) {
	p.t.Helper()
	h := http.Header{"X-Mash2-Act": {"1"}}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return p.send(method, path, h, body)
}

func (p visitor) as(method, path string, h http.Header) (int, string) {
	p.t.Helper()
	return p.send(method, path, h, "")
}

func (p visitor) send(method, path string, h http.Header, body string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.address+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header = h
	response, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// outerIP is an address of this machine that an API server may proxy to: not loopback.
func outerIP(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this machine has no address but loopback, which no API server proxies to")
	return ""
}

func freePort(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// allow gives a ServiceAccount of mash2's namespace some rights, in a namespace or all.
func (w *world) allow(account, namespace string, rules []rbacv1.PolicyRule) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Name: account, Namespace: namespace}
	who := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: testbed.Namespace, Name: account}}
	if namespace == "" {
		w.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account}})
		return
	}
	w.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
	w.create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account}})
}
