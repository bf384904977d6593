package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/testbed"
)

const (
	release        = "mash2" // and so the name of its objects
	chartFolder    = "../../charts/mash2"
	serviceAccount = "system:serviceaccount:" + testbed.Namespace + ":" + release
)

// auditPolicy logs what the operator asks of the API server.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["` + serviceAccount + `"]
  - level: None
`

// TestChart: installed by helm, the operator runs under exactly the chart's
// ServiceAccount and with exactly the chart's arguments, through a policy
// switch. It is refused nothing, and no rule of its roles is without use.
func TestChart(t *testing.T) {
	dir := t.TempDir()
	policyFile, auditLog := filepath.Join(dir, "audit.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policyFile, []byte(auditPolicy), 0o644); err != nil {
		t.Fatal(err)
	}
	options := steady(t)
	options.APIServerArgs = []string{"--audit-policy-file=" + policyFile, "--audit-log-path=" + auditLog}
	w := newWorld(t, options)
	w.statefulSet()
	w.installVerticals()
	w.installSLOs()
	host := newVisitors(t)
	strategies, webhooks := w.installStrategies(host)
	if out, err := w.Cluster.Kubectl(t.Context(), "label", "namespace", testbed.Namespace, "pod-security.kubernetes.io/enforce=restricted"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	metrics := freeAddress(t)
	_, port, err := net.SplitHostPort(metrics)
	if err != nil {
		t.Fatal(err)
	}
	extra := []string{
		fmt.Sprintf("--speed=%g", options.Speed), "--gke-endpoint=" + w.GKE.Endpoint(), "--gke-compute-endpoint=" + w.GKE.ComputeEndpoint(),
		"--cycle-log=" + w.CycleLog(), "--profiling",
	}
	extra = append(extra, webhooks...)
	installed := time.Now()
	if out, err := w.Cluster.Helm(t.Context(), "install", release, chartFolder, "--namespace", testbed.Namespace, "--wait",
		"--values", filepath.Join(chartFolder, "values-gke.yaml"),
		"--set", "policy.create=false,metrics.dashboard.enabled=true", "--set", "metrics.port="+port+",page.port="+freePort(t, "127.0.0.1"), "--set", "prometheus.url="+w.Prometheus.URL,
		"--set", "provider.gke.project="+testbed.Project+",provider.gke.location="+testbed.Location+",provider.gke.cluster="+testbed.ClusterName,
		"--set", "operator.extraArgs={"+strings.Join(extra, ",")+"}", "--set", strategies,
	); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Its pods have passed admission and run, but nothing is in them here: the
	// process beside has their arguments and their identity.
	var d appsv1.Deployment
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Namespace, Name: release}, &d); err != nil {
		t.Fatal(err)
	}
	args := append(slices.Clone(d.Spec.Template.Spec.Containers[0].Args),
		"--kubeconfig="+w.kubeconfigOf(release), "--health-probe-bind-address="+freeAddress(t), "--verbose",
		// What the container has in a volume: else a run would go on from the one before.
		"--state-dir="+t.TempDir(), "--records="+t.TempDir())
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Without the watch list, which newer API servers offer, as on older ones.
	o, err := w.StartProgram(program, []string{envProgram + "=" + ofImage, "KUBE_FEATURE_WatchListClient=false"}, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Kill)
	first := w.until("a plan", func(c api.Cycle) bool { return len(c.Plan.Workloads) == 2 })
	t.Logf("%.1f s from helm install to the first plan", first.Time.Sub(installed).Seconds())

	w.Load.Begin()
	w.eventually("a scaling of the StatefulSet", func() string {
		var s appsv1.StatefulSet
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: "db"}, &s); err != nil || *s.Spec.Replicas < 2 {
			return fmt.Sprintf("%v replicas, %v", ptr.Deref(s.Spec.Replicas, 0), err)
		}
		return ""
	})
	w.mash2("policy", "set", api.Performance)
	w.eventually("the move to the other pool", func() string { return w.notMovedTo(api.Performance) })
	// The same error twice: the second time its Event is counted, not made.
	for range 2 {
		w.setPolicy("NO_SUCH_POLICY")
		w.eventually("a policy that is refused", func() string { return w.lastFinds("InvalidPolicy", true) })
		w.setPolicy(api.Performance)
		w.eventually("one that is not", func() string { return w.lastFinds("InvalidPolicy", false) })
	}
	testMetricsAccess(t, w.in(t), metrics)
	t.Run("authors", func(t *testing.T) { testAuthors(t, w.in(t)) })
	t.Run("strategies", func(t *testing.T) { testStrategies(t, w.in(t), host) })
	w.stop(o)

	requests := auditedRequests(t, auditLog)
	t.Run("nothing is refused", func(t *testing.T) {
		for _, r := range requests {
			if r.code == http.StatusForbidden {
				t.Errorf("the operator may not %s", r)
			}
		}
	})
	t.Run("every rule is needed", func(t *testing.T) { testRulesNeeded(t, w.in(t), requests) })
	t.Run("uninstall", func(t *testing.T) {
		w.in(t).testTestHook()
		w.in(t).testReleaseHook()
		if out, err := w.Cluster.Helm(t.Context(), "uninstall", release, "--namespace", testbed.Namespace, "--wait"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
}

// testReleaseHook runs what helm runs before it deletes anything, under exactly
// the rights that the hook has, on a cluster that bears every mark of a move.
func (w *world) testReleaseHook() {
	w.t.Helper()
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := errors.Join(w.Client.List(w.t.Context(), &nodes), w.Client.List(w.t.Context(), &pods, client.InNamespace(testbed.Mash2))); err != nil {
		w.t.Fatal(err)
	}
	node, pod := nodes.Items[0].Name, pods.Items[0].Name
	for _, args := range [][]string{
		{"cordon", node},
		{"annotate", "node", node, api.AnnotationCordonedFor + "=" + api.CordonMigration, api.AnnotationParked + "=true"},
		{"annotate", "pod", "-n", testbed.Mash2, pod, api.AnnotationPodDeletionCost + "=-1000", api.AnnotationDeletionCostSet + "=true"},
	} {
		if out, err := w.Cluster.Kubectl(w.t.Context(), args...); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
	}
	args, rights := w.hook("pre-delete")
	w.apply(strings.Join(rights, "\n---\n"))
	var stdout, stderr bytes.Buffer
	args = append(slices.Clone(args), "--kubeconfig="+w.kubeconfigOf(release+"-release"), "--patience=1s")
	before := w.replicas(testbed.Mash2)
	if code := run(w.t.Context(), args, &stdout, &stderr); code != 0 {
		w.t.Fatalf("mash2 %v: exit code %d: %s", args, code, stderr.String())
	}
	w.nothingLeft("before helm uninstall", before)
}

// testTestHook runs what helm test runs, under exactly its rights.
func (w *world) testTestHook() {
	w.t.Helper()
	args, rights := w.hook("test")
	w.apply(strings.Join(rights, "\n---\n"))
	var stdout, stderr bytes.Buffer
	args = append(slices.Clone(args), "--kubeconfig="+w.kubeconfigOf(release+"-test"))
	if code := run(w.t.Context(), args, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "active: "+api.Performance) {
		w.t.Errorf("mash2 %v: exit code %d: %s%s", args, code, stdout.String(), stderr.String())
	}
}

// hook is what helm has for one of its events: the arguments of the program that runs,
// and the objects that give it rights.
func (w *world) hook(event string) (args, rights []string) {
	w.t.Helper()
	hooks, err := w.Cluster.Helm(w.t.Context(), "get", "hooks", release, "--namespace", testbed.Namespace)
	if err != nil {
		w.t.Fatalf("%v: %s", err, hooks)
	}
	for doc := range strings.SplitSeq(hooks, "\n---\n") {
		var o struct {
			metav1.PartialObjectMetadata `json:",inline"`
			Spec                         json.RawMessage `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			w.t.Fatal(err)
		}
		if o.Annotations["helm.sh/hook"] != event {
			continue
		}
		var pod corev1.PodSpec
		switch o.Kind {
		case "Job":
			var job batchv1.JobSpec
			err = json.Unmarshal(o.Spec, &job)
			pod = job.Template.Spec
		case "Pod":
			err = json.Unmarshal(o.Spec, &pod)
		default:
			rights = append(rights, doc)
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		args = pod.Containers[0].Args
	}
	if len(args) == 0 || len(rights) == 0 {
		w.t.Fatalf("there is no hook for %s in\n%s", event, hooks)
	}
	return args, rights
}

// statefulSet adds a second workload, of the other kind, that takes a part of
// the same load.
func (w *world) statefulSet() {
	w.t.Helper()
	web := w.deployment(testbed.Mash2)
	labels := map[string]string{"app": testbed.WorkloadName, "of": "db"}
	template := web.Spec.Template.DeepCopy()
	template.Labels = labels
	for _, o := range []client.Object{
		&appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](1), ServiceName: "db",
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": "db"}}, Template: *template,
			},
		},
		&v1alpha1.ManagedWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "db"},
			Spec: v1alpha1.ManagedWorkloadSpec{
				TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"},
				MinReplicas: ptr.To[int32](2), MaxReplicas: 3, Metric: v1alpha1.Metric{Type: v1alpha1.MetricCPU},
			},
		},
	} {
		if err := w.Client.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// tokenOf is a token of a ServiceAccount in mash2's namespace.
func (w *world) tokenOf(name string) string {
	w.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Namespace, Name: name}}
	if err := w.Client.SubResource("token").Create(w.t.Context(), account, request); err != nil {
		w.t.Fatal(err)
	}
	return request.Status.Token
}

// kubeconfigOf is a file with which a ServiceAccount reaches the cluster.
func (w *world) kubeconfigOf(name string) string {
	w.t.Helper()
	rest := w.Cluster.RESTConfig()
	file := clientcmdapi.NewConfig()
	file.Clusters["local"] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData, CertificateAuthority: rest.CAFile}
	file.AuthInfos["operator"] = &clientcmdapi.AuthInfo{Token: w.tokenOf(name)}
	file.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "operator"}
	file.CurrentContext = "local"
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// testAuthors: who writes a ManagedWorkload must be allowed to scale its target.
func testAuthors(t *testing.T, w *world) {
	const author = "alice"
	kubectl := func(args ...string) {
		t.Helper()
		if out, err := w.Cluster.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	kubectl("create", "role", "author", "-n", testbed.Mash2, "--verb=create,get,patch", "--resource=managedworkloads.mash2.io")
	kubectl("create", "rolebinding", "author", "-n", testbed.Mash2, "--role=author", "--user="+author)
	apply := func(kind, name string, most int) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "mw.yaml")
		object := fmt.Sprintf("apiVersion: mash2.io/v1alpha1\nkind: ManagedWorkload\nmetadata: {name: %s-of-%s, namespace: %s}\n"+
			"spec: {targetRef: {apiVersion: apps/v1, kind: %s, name: %s}, maxReplicas: %d, mode: \"Off\"}\n", name, author, testbed.Mash2, kind, name, most)
		if err := os.WriteFile(path, []byte(object), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Cluster.Kubectl(t.Context(), "apply", "--as="+author, "-f", path); err != nil {
			return err.Error()
		}
		return ""
	}
	refused := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want it refused with %q", what, got, want)
		}
	}
	refused("a target that the author may not scale", apply("Deployment", testbed.WorkloadName, 3), "spec.targetRef: alice may not scale deployments "+testbed.WorkloadName)
	refused("a kind that mash2 may not scale", apply("DaemonSet", "agent", 3), "spec.targetRef: mash2 may not scale daemonsets")
	kubectl("create", "role", "scaler", "-n", testbed.Mash2, "--verb=patch", "--resource=deployments.apps/scale", "--resource-name="+testbed.WorkloadName)
	kubectl("create", "rolebinding", "scaler", "-n", testbed.Mash2, "--role=scaler", "--user="+author)
	w.eventually("the author to be let in", func() string { return apply("Deployment", testbed.WorkloadName, 3) })
	refused("another target than that", apply("Deployment", "till", 3), "may not scale deployments till")

	// Agents resize pods: so must their author be allowed to.
	vertical := `{"spec":{"countRequests":"Template","vertical":{"cpu":"1"}}}`
	if _, err := w.Cluster.Kubectl(t.Context(), "patch", "managedworkload", testbed.WorkloadName+"-of-"+author, "-n", testbed.Mash2, "--as="+author, "--type=merge", "-p", vertical, "--dry-run=server"); err == nil || !strings.Contains(err.Error(), "alice may not resize pods here") {
		t.Errorf("agents whose author may not resize pods: %v", err)
	}

	// Once the right is gone, a change is refused, and what is no change is not.
	kubectl("delete", "rolebinding", "scaler", "-n", testbed.Mash2)
	w.eventually("a change to be refused", func() string {
		if got := apply("Deployment", testbed.WorkloadName, 4); !strings.Contains(got, "may not scale") {
			return "it is let in: " + got
		}
		return ""
	})
	kubectl("annotate", "mw", "--as="+author, "-n", testbed.Mash2, testbed.WorkloadName+"-of-"+author, "note=mine")
	kubectl("delete", "mw", "-n", testbed.Mash2, testbed.WorkloadName+"-of-"+author)
}

// testMetricsAccess: /metrics is only for those who may read it.
func testMetricsAccess(t *testing.T, w *world, address string) {
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(path, token string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+address[strings.LastIndex(address, ":")+1:]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := insecure.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	read := func(token string) int { return get("/metrics", token) }
	if code := get("/debug/pprof/", ""); code != http.StatusUnauthorized {
		t.Errorf("without a token the profiles answer %d", code)
	}
	if code := read(""); code != http.StatusUnauthorized {
		t.Errorf("without a token /metrics answers %d", code)
	}
	if out, err := w.Cluster.Kubectl(t.Context(), "create", "serviceaccount", "-n", testbed.Namespace, "scraper"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	token := w.tokenOf("scraper")
	if code := read(token); code != http.StatusForbidden {
		t.Errorf("to somebody without a role /metrics answers %d", code)
	}
	for _, args := range [][]string{
		{"create", "clusterrole", "metrics-reader", "--verb=get", "--non-resource-url=/metrics"},
		{"create", "clusterrolebinding", "scraper", "--clusterrole=metrics-reader", "--serviceaccount=" + testbed.Namespace + ":scraper"},
	} {
		if out, err := w.Cluster.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	w.eventually("the scraper to be let in", func() string { // answers are kept for a while
		if code := read(token); code != http.StatusOK {
			return fmt.Sprint(code)
		}
		return ""
	})
	if code := get("/debug/pprof/heap", token); code != http.StatusForbidden {
		t.Errorf("to somebody who may read /metrics only, the profiles answer %d", code)
	}
}

// setPolicy writes the key of the policy ConfigMap, whatever it is.
func (w *world) setPolicy(name string) {
	w.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"policy":%q}}`, name))
	if err := w.Client.Patch(w.t.Context(), cm, patch); err != nil {
		w.t.Fatal(err)
	}
}

// lastFinds says how the last cycle differs from having a finding, or having none.
func (w *world) lastFinds(reason string, want bool) string {
	all := w.records()
	if len(all) == 0 {
		return "no cycle yet"
	}
	last := all[len(all)-1]
	if slices.ContainsFunc(last.Findings, func(f api.Finding) bool { return f.Reason == reason }) != want {
		return fmt.Sprintf("findings are %v", last.Findings)
	}
	return ""
}
