package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// service is pods on a real control plane, with a metrics.k8s.io of our own.
type service struct {
	*testing.T
	*cluster.Cluster
	client kubernetes.Interface

	mu    sync.Mutex
	usage map[string]int64 // millicores by pod
	used  map[string]int64 // MiB by pod
}

// TestAgents: the command against a real API server. CPU goes in place to the pod that
// needs it, within the budget; a pod that joins gets its part; one that may not be
// resized is named; and the control API answers those whom the API server allows it.
func TestAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a whole cluster")
	}
	c := cluster.ForTest(t, func(o *cluster.Options) { o.Speed = 10 })
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &service{T: t, Cluster: c, client: client, usage: map[string]int64{"a": 400, "b": 10}, used: map[string]int64{"a": 120, "b": 20}}
	s.serveMetrics()
	s.node()
	s.pod("a", "200m", "200m")
	s.pod("b", "500m", "500m")
	s.pod("open", "100m", "") // no limit
	s.ready(3)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address := freeAddress(t)
	var stdout, stderr lockedBuffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{
			"agents", "--kubeconfig", c.Kubeconfig, "--selector", "app=shop", "--resources", "900", "--priorities", "1.0", "0.5",
			"--memory", "300Mi", "--memory-floor", "32Mi", "--memory-window", "3s",
			"--control-address", address, "--debug", "-o", "json",
		}, &stdout, &stderr)
	}()
	// 400 m is 80 % of 500, 10 m of 12. Of the 388 m that are left of 900 a quarter goes to a, and
	// the rest to b: 597 and 303, within a tenth of that.
	s.eventually("a to have what it needs", func() bool { return s.limit("a") >= 540 && s.limit("b") <= 334 })
	// Of 128 Mi each, a uses 120 and b 20: a quarter more than that.
	s.eventually("memory to follow what is used", func() bool { return s.memory("a") == 150<<20 && s.memory("b") == 32<<20 })
	s.set("b", 0)
	s.set("c", 90)
	s.pod("c", "50m", "50m")
	// 90 m is 80 % of 112: with what goes to those with the least b and c have 176 each, a 548.
	s.eventually("c to have what it needs", func() bool { return s.limit("c") >= 158 && s.limit("b") <= 194 })
	for _, p := range s.pods() {
		if p.Status.ContainerStatuses[0].RestartCount != 0 || p.Name == "open" && len(p.Spec.Containers[0].Resources.Limits) != 0 {
			t.Errorf("pod %s: %d restarts, %v", p.Name, p.Status.ContainerStatuses[0].RestartCount, p.Spec.Containers[0].Resources)
		}
		// By this an operator tells them from what it resized itself.
		for _, e := range p.ManagedFields {
			if e.Subresource == "resize" && e.Manager != api.AgentsManager {
				t.Errorf("pod %s was resized by %s", p.Name, e.Manager)
			}
		}
	}

	// Who has no token, or not the right, is refused.
	if got := s.call(address, http.MethodGet, "/status", "", ""); got != "401 Unauthorized" {
		t.Errorf("without a token: %s", got)
	}
	stranger, friend := s.token("stranger", false), s.token("friend", true)
	if got := s.call(address, http.MethodPost, "/stop", "", stranger); !strings.HasPrefix(got, "403 ") {
		t.Errorf("a stranger: %s", got)
	}
	if got := s.call(address, http.MethodPost, "/set_resources", `{"resources": 700}`, friend); got != `200 {"message":"Resources set to 700"}` {
		t.Errorf("a friend: %s", got)
	}
	s.eventually("the smaller budget", func() bool { return s.limit("a")+s.limit("b")+s.limit("c") <= 700 })
	if got := s.call(address, http.MethodPost, "/stop", "", friend); got != `200 {"message":"Inference stopped"}` {
		t.Errorf("stop: %s", got)
	}
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
	var sum struct {
		Resizes, Agents int
		Refused         map[string]string
	}
	if err := json.Unmarshal([]byte(stdout.String()), &sum); err != nil {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	if sum.Resizes < 8 || sum.Agents != 3 || !strings.Contains(sum.Refused["default/open"], "a limit of CPU") {
		t.Errorf("%+v", sum)
	}
}

// TestAgentsRefuses bad flags before a cluster is asked.
func TestAgentsRefuses(t *testing.T) {
	model := trained(t, "cartpole", "dqn")
	with := func(args ...string) []string { return append([]string{"agents", "--selector", "app=x"}, args...) }
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no selector":              {[]string{"agents"}, "--selector"},
		"a selector that is none":  {[]string{"agents", "--selector", "a in"}, "--selector"},
		"no such algorithm":        {with("--algorithm", "sarsa"), "sarsa"},
		"a rule's odd settings":    {with("--algorithm", "threshold:30:60:25"), "threshold:UPPER:LOWER:INCREMENT"},
		"an algorithm, no model":   {with("--algorithm", "ddpg"), "--load_model names none"},
		"a model of a game":        {with("--algorithm", "mdqn", "--load_model", model), "cartpole"},
		"an argument that is none": {with("--priorities", "1.0", "x"), `"x"`},
		"priorities nobody asked":  {with("0.5"), `"0.5"`},
		"memory that is none":      {with("--memory", "lots"), "--memory"},
		"no floor of memory":       {with("--memory", "1Gi", "--memory-floor", "0"), "--memory-floor"},
		"an odd source of usage":   {with("--usage", "guess", "--kubeconfig", "nowhere"), "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), c.args, &stdout, &stderr); code != cli.ExitUsage || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("exit %d: %s", code, stderr.String())
			}
		})
	}
}

func (s *service) eventually(what string, condition func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, 3*time.Minute, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		s.Fatalf("waiting for %s: %v; limits a %d, b %d, c %d", what, err, s.limit("a"), s.limit("b"), s.limit("c"))
	}
}

func (s *service) set(pod string, usage int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage[pod] = usage
}

func (s *service) pods() []corev1.Pod {
	list, err := s.client.CoreV1().Pods("default").List(s.Context(), metav1.ListOptions{LabelSelector: "app=shop"})
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// limit of a pod, millicores; 0 of one that is not there.
func (s *service) limit(name string) int64 {
	for _, p := range s.pods() {
		if p.Name == name {
			return p.Spec.Containers[0].Resources.Limits.Cpu().MilliValue()
		}
	}
	return 0
}

// memory limit of a pod, bytes; 0 of one that is not there.
func (s *service) memory(name string) int64 {
	for _, p := range s.pods() {
		if p.Name == name {
			return p.Spec.Containers[0].Resources.Limits.Memory().Value()
		}
	}
	return 0
}

func (s *service) node() {
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")}
	_, err := s.client.CoreV1().Nodes().Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Annotations: map[string]string{cluster.FakeNodeAnnotation: cluster.FakeNodeValue}},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *service) pod(name, request, limit string) {
	c := corev1.Container{Name: "main", Image: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}}}
	memory := resource.MustParse("128Mi")
	if limit != "" {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit), corev1.ResourceMemory: memory}
		c.Resources.Requests[corev1.ResourceMemory] = memory
	}
	_, err := s.client.CoreV1().Pods("default").Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "shop"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *service) ready(count int) {
	s.eventually("the pods to run", func() bool {
		running := 0
		for _, p := range s.pods() {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == count
	})
}

// serveMetrics registers a metrics.k8s.io that says what pods use now: their demand, as
// far as their limits let them.
func (s *service) serveMetrics() {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/metrics.k8s.io/v1beta1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1",
				"resources":[{"name":"pods","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]}]}`)
		case "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods":
			list, err := s.client.CoreV1().Pods("default").List(r.Context(), metav1.ListOptions{})
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			var items []string
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, p := range list.Items {
				used := min(s.usage[p.Name], max(p.Spec.Containers[0].Resources.Limits.Cpu().MilliValue(), 1))
				items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default"},"timestamp":%q,"window":"1s","containers":[{"name":"main","usage":{"cpu":"%dm","memory":"%dMi"}}]}`,
					p.Name, time.Now().UTC().Format(time.RFC3339), used, max(s.used[p.Name], 10)))
			}
			_, _ = fmt.Fprintf(w, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[%s]}`, strings.Join(items, ","))
		default:
			http.NotFound(w, r)
		}
	}))
	s.Cleanup(server.Close)
	if err := cluster.RegisterMetricsAPI(s.Context(), s.RESTConfig(), server.Listener.Addr().String()); err != nil {
		s.Fatal(err)
	}
}

// token of a ServiceAccount that may call the control API, or may not.
func (s *service) token(name string, may bool) string {
	s.Helper()
	_, err := s.client.CoreV1().ServiceAccounts("default").Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if may {
		_, err = s.client.RbacV1().ClusterRoles().Create(s.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/set_resources", "/stop"}, Verbs: []string{"post"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		_, err = s.client.RbacV1().ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: "default"}},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
	}
	t, err := s.client.CoreV1().ServiceAccounts("default").CreateToken(s.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return t.Status.Token
}

// call the control API: status and body.
func (s *service) call(address, method, path, body, token string) string {
	s.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // its certificate is its own
	var got string
	s.eventually("an answer to "+path, func() bool {
		r, err := http.NewRequestWithContext(s.Context(), method, "https://"+address+path, strings.NewReader(body))
		if err != nil {
			s.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(r)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return false
		}
		got = fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(text)))
		return true
	})
	return got
}

// lockedBuffer is written and read at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
