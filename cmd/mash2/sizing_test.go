package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// sizesAtAdmission installs the chart's policy that sizes new pods.
func sizesAtAdmission(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	text, err := c.Helm(t.Context(), "template", "mash2", "../../charts/mash2", "--kube-version", "1.36.0",
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy", "--show-only", "templates/sizing.yaml",
		"--set", "prometheus.url=http://prometheus,provider.name=none,sizing.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	applyText(t, c, text)
}

func applyText(t *testing.T, c *cluster.Cluster, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Kubectl(t.Context(), "apply", "-f", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestSizesAtAdmission: the pods that real controllers make get what a status says, with no
// operator anywhere, and nothing that a status can say keeps a pod from being made.
func TestSizesAtAdmission(t *testing.T) {
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
	sizesAtAdmission(t, c)
	applyText(t, c, `apiVersion: v1
kind: Namespace
metadata: {name: ranged}
---
apiVersion: v1
kind: LimitRange
metadata: {name: small, namespace: ranged}
spec: {limits: [{type: Container, defaultRequest: {memory: 64Mi}}]}
`)
	const (
		web      = `{"name":"web","requests":{"cpu":"250m","memory":"300Mi"},"template":{"cpu":"1000m","memory":"1024Mi"}}`
		side     = `{"name":"side","requests":{"cpu":"20m"},"template":{"cpu":"0.1"}}`
		template = "1/1Gi/2Gi 100m//"
	)
	n := 0
	for name, tc := range map[string]struct {
		kind, mode string
		namespace  string // default
		spec       string // more of the ManagedWorkload's
		turned     string // what becomes of its spec after its status
		pod        string // more of the pod's spec
		memory     string // that web requests; 1Gi
		containers string // of the status
		want       string // cpu/memory/memory limit of the containers
	}{
		"a Deployment's pods are sized":      {kind: "Deployment", mode: "InPlace", containers: web + "," + side, want: "250m/300Mi/2Gi 20m//"},
		"a StatefulSet's are":                {kind: "StatefulSet", mode: "InitialOnly", containers: web, want: "250m/300Mi/2Gi 100m//"},
		"a recommendation is none of theirs": {kind: "Deployment", mode: "RecommendOnly", containers: web, want: template},
		"limits move with it": {
			kind: "Deployment", mode: "InPlace", want: "1/3Gi/4Gi 100m//",
			containers: `{"name":"web","requests":{"cpu":"1","memory":"3Gi"},"limits":{"memory":"4Gi"},"template":{"cpu":"1","memory":"1Gi"}}`,
		},
		"more than the limit is not asked for": {
			kind: "Deployment", mode: "InPlace", want: template,
			containers: `{"name":"web","requests":{"cpu":"1","memory":"3Gi"},"template":{"cpu":"1","memory":"1Gi"}}`,
		},
		"another template is left alone": {
			kind: "Deployment", mode: "InPlace", want: template,
			containers: `{"name":"web","requests":{"cpu":"250m","memory":"300Mi"},"template":{"cpu":"900m","memory":"1Gi"}}`,
		},
		"so are other limits": {
			kind: "Deployment", mode: "InPlace", want: template,
			containers: `{"name":"web","requests":{"cpu":"250m","memory":"300Mi"},"limits":{"memory":"300Mi"},"template":{"cpu":"1","memory":"1Gi"},"templateLimits":{"memory":"1Gi"}}`,
		},
		"so is a limit that is there no more": {
			kind: "Deployment", mode: "InPlace", want: template,
			containers: `{"name":"web","requests":{"cpu":"250m","memory":"300Mi"},"limits":{"cpu":"1","memory":"2Gi"},"template":{"cpu":"1","memory":"1Gi"},"templateLimits":{"cpu":"1","memory":"2Gi"}}`,
		},
		"not the limits of the template": {
			kind: "Deployment", mode: "InPlace", want: "250m/300Mi/600Mi 100m//",
			containers: `{"name":"web","requests":{"cpu":"250m","memory":"300Mi"},"limits":{"memory":"600Mi"},"template":{"cpu":"1","memory":"1Gi"},"templateLimits":{"memory":"2147483648"}}`,
		},
		"of memory that is no whole number of bytes the next one is meant": {
			kind: "Deployment", mode: "InPlace", memory: "1.2Gi", want: "250m/300Mi/2Gi 100m//",
			containers: `{"name":"web","requests":{"cpu":"250m","memory":"300Mi"},"template":{"cpu":"1","memory":"1288490189"},"templateLimits":{"memory":"2Gi"}}`,
		},
		"nothing is sized with mode Off":              {kind: "Deployment", mode: "InPlace", spec: "mode: \"Off\"", containers: web, want: template},
		"nothing is sized with mode Shadow":           {kind: "Deployment", mode: "InPlace", spec: "mode: Shadow", containers: web, want: template},
		"nothing is sized with sizing turned off":     {kind: "Deployment", mode: "InPlace", turned: `{"sizing":{"mode":"Off"}}`, containers: web, want: template},
		"nor with sizes that are recommended only":    {kind: "Deployment", mode: "InPlace", turned: `{"sizing":{"mode":"RecommendOnly"}}`, containers: web, want: template},
		"nor without sizing":                          {kind: "Deployment", mode: "InPlace", turned: `{"sizing":null}`, containers: web, want: template},
		"sizes of new pods only are as good for them": {kind: "Deployment", mode: "InPlace", turned: `{"sizing":{"mode":"InitialOnly"}}`, containers: web, want: "250m/300Mi/2Gi 100m//"},
		"a container that isn't there is not added": {
			kind: "Deployment", mode: "InPlace", containers: `{"name":"gone","requests":{"cpu":"1"},"template":{"cpu":"1"}}`, want: template,
		},
		"requests that the template lacks are not added": {
			kind: "Deployment", mode: "InPlace", containers: `{"name":"side","requests":{"cpu":"20m","memory":"10Mi"},"template":{"cpu":"100m","memory":"10Mi"}}`, want: template,
		},
		"what the pod requests as a whole is not exceeded": {
			kind: "Deployment", mode: "InPlace", pod: "resources: {requests: {cpu: 1200m, memory: 1536Mi}}", want: template,
			containers: `{"name":"web","requests":{"cpu":"1","memory":"2Gi"},"template":{"cpu":"1","memory":"1Gi"}}`,
		},
		"without a status no size": {kind: "Deployment", want: template},
		"beside what a LimitRange adds": {
			kind: "Deployment", mode: "InPlace", namespace: "ranged", containers: web + "," + side, want: "250m/300Mi/2Gi 20m/64Mi/",
		},
	} {
		n++
		app := fmt.Sprintf("app-%d", n)
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			namespace := cmp.Or(tc.namespace, "default")
			service := ""
			if tc.kind == "StatefulSet" {
				service = "serviceName: " + app
			}
			applyText(t, c, fmt.Sprintf(`apiVersion: mash2.io/v1alpha1
kind: ManagedWorkload
metadata: {name: %[1]s, namespace: %[7]s}
spec:
  targetRef: {apiVersion: apps/v1, kind: %[2]s, name: %[1]s}
  maxReplicas: 5
  sizing: {mode: InPlace}
  %[5]s
---
apiVersion: apps/v1
kind: %[2]s
metadata: {name: %[1]s, namespace: %[7]s}
spec:
  replicas: 0
  %[3]s
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      %[4]s
      containers:
        - {name: web, image: web, resources: {requests: {cpu: "1", memory: %[6]s}, limits: {memory: 2Gi}}}
        - {name: side, image: side, resources: {requests: {cpu: 100m}}}
`, app, tc.kind, service, tc.pod, tc.spec, cmp.Or(tc.memory, "1Gi"), namespace))
			if tc.mode != "" {
				patch := fmt.Sprintf(`{"status":{"sizing":{"mode":%q,"containers":[%s]}}}`, tc.mode, tc.containers)
				if out, err := c.Kubectl(ctx, "-n", namespace, "patch", "mw", app, "--subresource", "status", "--type", "merge", "-p", patch); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if tc.turned != "" {
				if out, err := c.Kubectl(ctx, "-n", namespace, "patch", "mw", app, "--type", "merge", "-p", `{"spec":`+tc.turned+`}`); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			// The policy's caches follow the API server by a moment: a later pod is made by
			// what the status says.
			deadline := time.Now().Add(30 * time.Second)
			for {
				got := ""
				for _, replicas := range []string{"0", "1"} {
					if out, err := c.Kubectl(ctx, "-n", namespace, "scale", tc.kind, app, "--replicas", replicas); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
					for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
						out, err := c.Kubectl(ctx, "-n", namespace, "get", "pods", "-l", "app="+app, "-o",
							`jsonpath={range .items[0].spec.containers[*]}{.resources.requests.cpu}/{.resources.requests.memory}/{.resources.limits.memory} {end}`)
						if got = strings.TrimSpace(out); err == nil && (got == "") == (replicas == "0") || err != nil && replicas == "0" {
							break
						}
					}
				}
				if got == tc.want {
					return
				}
				if time.Now().After(deadline) || tc.want == template && got != "" {
					t.Fatalf("the pod requests %q, want %q", got, tc.want)
				}
			}
		})
	}
}

// usage of replicas before the start, as Prometheus has it: cores and MiB of one of them.
func usage(from, to time.Time, step time.Duration, cores, mebibytes float64) string {
	var cpu, memory strings.Builder
	for _, pod := range []string{"web-5d4f8c7b9d-x2x4z", "web-5d4f8c7b9d-q7k9w"} {
		labels := fmt.Sprintf(`{namespace=%q,pod=%q,container="nginx",node="gone"`, testbed.Mash2, pod)
		for at := from; at.Before(to); at = at.Add(step) {
			t := float64(at.UnixMilli()) / 1000
			fmt.Fprintf(&cpu, "container_cpu_usage_seconds_total%s,cpu=\"total\"} %.3f %.3f\n", labels, cores*at.Sub(from).Seconds(), t)
			fmt.Fprintf(&memory, "container_memory_working_set_bytes%s} %.0f %.3f\n", labels, mebibytes*(1<<20), t)
		}
	}
	return "# TYPE container_cpu_usage_seconds counter\n" + cpu.String() +
		"# TYPE container_memory_working_set_bytes gauge\n" + memory.String() + "# EOF\n"
}

// sizedWorld has a workload with a day of usage, whose pods mash2 is to resize in place. It returns what
// their template requests.
func sizedWorld(t *testing.T) (*world, client.ObjectKey, corev1.ResourceList) {
	t.Helper()
	const users, speed = 10, 10.0
	s := scenario(t, users, scenarios.Stage{Duration: 10 * time.Hour, Target: users})
	s.Workload.Replicas = scenarios.Bounds{Min: 2, Max: 15}
	day := time.Duration(float64(26*time.Hour) / speed)
	now := time.Now()
	w := newWorld(t, testbed.Options{Scenario: s, Speed: speed, History: strings.NewReader(usage(now.Add(-day), now, 1500*time.Millisecond, 0.01, 48))})
	sizesAtAdmission(t, w.Cluster)
	template := w.deployment(testbed.Mash2).Spec.Template.Spec.Containers[0].Resources.Requests
	key := client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.WorkloadName}
	w.sizingMode(key, v1alpha1.SizingInPlace)
	return w, key, template
}

// sizingMode changes spec.sizing.mode.
func (w *world) sizingMode(key client.ObjectKey, mode v1alpha1.SizingMode) {
	w.t.Helper()
	var mw v1alpha1.ManagedWorkload
	if err := w.Client.Get(w.t.Context(), key, &mw); err != nil {
		w.t.Fatal(err)
	}
	old := mw.DeepCopy()
	mw.Spec.Sizing = &v1alpha1.Sizing{Mode: mode}
	if err := w.Client.Patch(w.t.Context(), &mw, client.MergeFrom(old)); err != nil {
		w.t.Fatal(err)
	}
}

// TestSizing: on a real control plane with a real Prometheus that knows the past, pods of a
// Deployment whose requests were guessed far too large are resized in place, without a
// restart, and more of them run where that costs less; new pods arrive sized, in a rollout and with the
// operator dead too; sizes keep to a LimitRange; and a deleted ManagedWorkload leaves pods as
// their template says.
func TestSizing(t *testing.T) {
	w, key, template := sizedWorld(t)
	var mw v1alpha1.ManagedWorkload
	o := w.operator("--sizes-at-admission")
	w.Load.Begin()

	pods := func() (all []corev1.Pod) {
		var list corev1.PodList
		if err := w.Client.List(t.Context(), &list, client.InNamespace(testbed.Mash2)); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && strings.HasPrefix(p.Name, testbed.WorkloadName) {
				all = append(all, p)
			}
		}
		return all
	}
	requests := func(p corev1.Pod) *corev1.ResourceList { return &p.Spec.Containers[0].Resources.Requests }
	w.eventually("all pods to be resized in place", func() string {
		for _, p := range pods() {
			if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].Resources == nil {
				return p.Name + " has no status"
			}
			is := p.Status.ContainerStatuses[0].Resources.Requests
			if is.Cpu().Cmp(*template.Cpu()) >= 0 || is.Memory().Cmp(*template.Memory()) >= 0 {
				cycles := w.records()
				if len(cycles) == 0 || cycles[len(cycles)-1].Plan.Workloads[0].Sizing == nil {
					return p.Name + " is as its template says; no plan of sizes"
				}
				return p.Name + ": " + cycles[len(cycles)-1].Plan.Workloads[0].Sizing.Reason
			}
		}
		return ""
	})
	if err := w.Client.Get(t.Context(), key, &mw); err != nil {
		t.Fatal(err)
	}
	if mw.Status.Sizing == nil || len(mw.Status.Sizing.Containers) != 1 {
		t.Fatalf("status.sizing is %+v", mw.Status.Sizing)
	}
	planned := mw.Status.Sizing.Containers[0].Requests
	t.Logf("the template requests %s and %s; planned %s and %s, saving $%s an hour: %s", template.Cpu(), template.Memory(),
		planned.CPU, planned.Memory, mw.Status.Sizing.HourlySaving, mw.Status.Sizing.Reason)
	for _, p := range pods() {
		if p.Status.ContainerStatuses[0].RestartCount > 0 {
			t.Errorf("%s was restarted", p.Name)
		}
	}
	if got := w.deployment(testbed.Mash2).Spec.Template.Spec.Containers[0].Resources.Requests; !got.Cpu().Equal(*template.Cpu()) || !got.Memory().Equal(*template.Memory()) {
		t.Errorf("the template now requests %v", got)
	}

	// The pods of a rollout begin as those that they replace.
	d := w.deployment(testbed.Mash2)
	before := d.DeepCopy()
	d.Spec.MinReadySeconds = 10
	d.Spec.Template.Annotations = map[string]string{"version": "2"}
	if err := w.Client.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	w.eventually("the end of a rollout", func() string {
		cycles := w.records()
		for _, c := range cycles {
			if c.Time.After(since) && !c.Plan.Workloads[0].Sizing.Acts() {
				t.Fatalf("in a rollout %+v", c.Plan.Workloads[0].Sizing)
			}
		}
		if s := w.deployment(testbed.Mash2).Status; s.AvailableReplicas < s.Replicas || s.UpdatedReplicas < s.Replicas {
			return fmt.Sprintf("%d of %d pods are available", s.AvailableReplicas, s.Replicas)
		}
		for _, p := range pods() {
			if p.Annotations["version"] != "2" {
				return p.Name + " is of before"
			}
			if requests(p).Cpu().Cmp(*template.Cpu()) >= 0 || requests(p).Memory().Cmp(*template.Memory()) >= 0 {
				t.Fatalf("a pod of the rollout requests %v", requests(p))
			}
		}
		return ""
	})

	// renewed deletes a pod and returns what takes its place.
	renewed := func() corev1.Pod {
		t.Helper()
		before := map[string]bool{}
		all := pods()
		for _, p := range all {
			before[p.Name] = true
		}
		if err := w.Client.Delete(t.Context(), &all[0]); err != nil {
			t.Fatal(err)
		}
		var out corev1.Pod
		w.eventually("a pod in place of the deleted one", func() string {
			for _, p := range pods() {
				if !before[p.Name] {
					out = p
					return ""
				}
			}
			return "none"
		})
		return out
	}
	o.Kill()
	if p := renewed(); !requests(p).Cpu().Equal(*planned.CPU) || !requests(p).Memory().Equal(*planned.Memory) {
		t.Errorf("with the operator dead a new pod requests %v, want %s and %s", requests(p), planned.CPU, planned.Memory)
	}

	said := func(words string) {
		t.Helper()
		w.eventually("the status to say "+words, func() string {
			if err := w.Client.Get(t.Context(), key, &mw); err != nil {
				return err.Error()
			}
			if strings.Contains(mw.Status.Sizing.Reason, words) {
				return ""
			}
			return mw.Status.Sizing.Reason
		})
	}
	// Sizes keep to a LimitRange.
	least := *resource.NewMilliQuantity((planned.CPU.MilliValue()+template.Cpu().MilliValue())/2, resource.DecimalSI)
	limits := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "large"},
		Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceCPU: least}}}},
	}
	w.create(limits)
	o = w.operator("--sizes-at-admission")
	w.eventually("pods to be as large as a LimitRange wants them", func() string {
		for _, p := range pods() {
			if cpu := requests(p).Cpu(); cpu.Cmp(least) < 0 || cpu.Cmp(*template.Cpu()) >= 0 {
				return p.Name + " requests " + cpu.String()
			}
		}
		return ""
	})
	if p := renewed(); requests(p).Cpu().Cmp(least) < 0 || requests(p).Cpu().Cmp(*template.Cpu()) >= 0 {
		t.Errorf("a new pod requests %v, want %s at least and less than %v", requests(p), &least, template)
	}
	said("as LimitRange large allows")
	if err := w.Client.Delete(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	o.Kill()

	// What doesn't let pods of that size in gets them as their author wrote them.
	here := map[string]string{corev1.LabelMetadataName: testbed.Mash2}
	w.create(&admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "large"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("object.spec.containers.all(c, quantity(c.resources.requests.cpu).compareTo(quantity('%s')) >= 0)", template.Cpu()),
				Message:    "a minimum of cpu is asked for here",
			}},
		},
	})
	w.create(&admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "large"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "large", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: here}},
		},
	})
	w.operator("--sizes-at-admission")
	w.eventually("pods as large as a policy wants them", func() string {
		all, large := pods(), 0
		for _, p := range all {
			if requests(p).Cpu().Equal(*template.Cpu()) {
				large++
			}
		}
		if large > 0 {
			return ""
		}
		// The API server reads policies now and then: what comes too early is let in.
		if len(all) > 1 {
			if err := w.Client.Delete(t.Context(), &all[0]); err != nil {
				return err.Error()
			}
		}
		if err := w.Client.Get(t.Context(), key, &mw); err != nil {
			return err.Error()
		}
		return mw.Status.Sizing.Reason
	})
	said("a minimum of cpu is asked for here")
	w.eventually("the others to grow in place", func() string {
		for _, p := range pods() {
			if !requests(p).Cpu().Equal(*template.Cpu()) {
				return p.Name + " requests " + requests(p).Cpu().String()
			}
		}
		return ""
	})

	if err := w.Client.Delete(t.Context(), &mw); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // the policy's caches
	if p := renewed(); !requests(p).Cpu().Equal(*template.Cpu()) {
		t.Errorf("without a ManagedWorkload a new pod requests %v, want %v", requests(p), template)
	}
}
