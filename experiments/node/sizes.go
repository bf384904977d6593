package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/sensing"
)

// The world of sizes.
const (
	sizedSpace = "sized"
	// Requests a second on each workload with users, and the CPU time of each, seconds.
	sizedRate, sizedCPU = 20, 0.005
	// sizedPast is how long the workloads ran before, by Prometheus: memory limits go down
	// after a week of readings. It is scraped every pastStep.
	sizedPast, pastStep = 8 * 24 * time.Hour, 30 * time.Second
	// calm is how long is looked at before, between and after what is done.
	calm = time.Minute
	// withoutKubelet is how long the node is without its kubelet: shorter than it takes the
	// control plane to call it NotReady.
	withoutKubelet = 15 * time.Second
	// written is how large a file is that one workload writes, bytes. The kernel keeps it in
	// memory, and the kubelet counts that before it lowers a limit.
	written = 100 << 20
	// more is the memory that a pod is made to hold beyond a lowered limit.
	more = 28 << 20
	// slowStart is the CPU time that pods of one workload need before they listen.
	slowStart = 30 * time.Second
)

// guess is a workload whose requests were guessed.
type guess struct {
	Name, Kind string
	Replicas   int32
	// What a pod requests, and what it is limited to.
	Requests, Limits corev1.ResourceList
	Ratio            bool          // limits keep their ratio
	Users            bool          // it is asked by k6
	Start            time.Duration // CPU time before its pods listen
	Files            bool          // its pods write files
	// Cores and MiB of a replica in the days before, as they are by its users now.
	Cores, MiB float64
}

// guesses are a Deployment and a StatefulSet that request several times what they use, a
// Deployment that needs the CPU of its author for its start only, and one that writes files.
func guesses() []guess {
	each := sizedRate * sizedCPU / 2
	return []guess{
		{
			Name: "web", Kind: "Deployment", Replicas: 2, Users: true, Cores: each, MiB: 24,
			Requests: quantities("250m", "192Mi"), Limits: quantities("500m", "384Mi"), Ratio: true,
		},
		{
			Name: "db", Kind: "StatefulSet", Replicas: 2, Users: true, Cores: each, MiB: 24,
			Requests: quantities("200m", "128Mi"), Limits: quantities("200m", "128Mi"),
		},
		{
			Name: "slow", Kind: "Deployment", Replicas: 1, Start: slowStart, Cores: 0.001, MiB: 24,
			Requests: quantities("400m", "128Mi"), Limits: quantities("400m", "128Mi"),
		},
		{
			Name: "files", Kind: "Deployment", Replicas: 1, Files: true, Cores: 0.001, MiB: 24,
			Requests: quantities("200m", "128Mi"), Limits: quantities("200m", "128Mi"),
		},
	}
}

// deploySized creates the workloads, their Services, and what lets mash2 size them.
func (n *realNode) deploySized(ctx context.Context) error {
	if err := n.prepare(ctx); err != nil {
		return err
	}
	policy, err := n.cluster.Helm(ctx, "template", "mash2", filepath.Join("charts", "mash2"), "--kube-version", "1.36.0",
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy", "--show-only", "templates/sizing.yaml",
		"--set", "prometheus.url=http://prometheus,provider.name=none,sizing.enabled=true")
	if err != nil {
		return err
	}
	file := filepath.Join(n.work, "sizing.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		return err
	}
	if _, err := n.cluster.Kubectl(ctx, "apply", "-f", file); err != nil {
		return err
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sizedSpace}}}
	for _, g := range guesses() {
		labels := map[string]string{"app": g.Name}
		spec := podSpec(g.Requests, g.Limits)
		// A pod that goes is asked until everybody knows of it.
		spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}}
		spec.Containers[0].Args = append(spec.Containers[0].Args, "--start-cpu", g.Start.String())
		if g.Files {
			spec.Containers[0].Args = append(spec.Containers[0].Args, "--file-bytes", strconv.Itoa(written))
		}
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
		selector := &metav1.LabelSelector{MatchLabels: labels}
		object := metav1.ObjectMeta{Namespace: sizedSpace, Name: g.Name}
		if g.Kind == "StatefulSet" {
			objects = append(objects, &appsv1.StatefulSet{ObjectMeta: object, Spec: appsv1.StatefulSetSpec{
				Replicas: &g.Replicas, Selector: selector, ServiceName: g.Name, PodManagementPolicy: appsv1.ParallelPodManagement, Template: template,
			}})
		} else {
			objects = append(objects, &appsv1.Deployment{ObjectMeta: object, Spec: appsv1.DeploymentSpec{
				Replicas: &g.Replicas, Selector: selector, Template: template,
			}})
		}
		limits := v1alpha1.LimitsKeep
		if g.Ratio {
			limits = v1alpha1.LimitsRatio
		}
		objects = append(objects,
			&corev1.Service{ObjectMeta: object, Spec: corev1.ServiceSpec{
				Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
			}},
			&v1alpha1.ManagedWorkload{ObjectMeta: object, Spec: v1alpha1.ManagedWorkloadSpec{
				TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: g.Kind, Name: g.Name},
				MinReplicas: ptr.To(g.Replicas), MaxReplicas: g.Replicas + 2,
				Metric: v1alpha1.Metric{Type: v1alpha1.MetricCPU},
				Sizing: &v1alpha1.Sizing{Mode: v1alpha1.SizingInPlace, Limits: limits},
			}})
	}
	return n.create(ctx, objects)
}

// sizedHistory is what Prometheus would know if the workloads had run before as they do now.
func sizedHistory(now time.Time) string {
	var cpu, memory, resident strings.Builder
	for _, g := range guesses() {
		for i := range g.Replicas {
			pod := fmt.Sprintf("%s-5d4f8c7b9d-x2x4%c", g.Name, 'b'+i)
			if g.Kind == "StatefulSet" {
				pod = fmt.Sprintf("%s-%d", g.Name, i)
			}
			labels := fmt.Sprintf(`{namespace=%q,pod=%q,container="web",node="gone"`, sizedSpace, pod)
			from := now.Add(-sizedPast)
			for at := from; at.Before(now); at = at.Add(pastStep) {
				t := float64(at.UnixMilli()) / 1000
				fmt.Fprintf(&cpu, "container_cpu_usage_seconds_total%s,cpu=\"total\"} %.3f %.3f\n", labels, g.Cores*at.Sub(from).Seconds(), t)
				fmt.Fprintf(&memory, "container_memory_working_set_bytes%s} %.0f %.3f\n", labels, g.MiB*(1<<20), t)
				fmt.Fprintf(&resident, "container_memory_rss%s} %.0f %.3f\n", labels, g.MiB*(1<<20), t)
			}
		}
	}
	return "# TYPE container_cpu_usage_seconds counter\n" + cpu.String() +
		"# TYPE container_memory_working_set_bytes gauge\n" + memory.String() +
		"# TYPE container_memory_rss gauge\n" + resident.String() + "# EOF\n"
}

// startSizing starts the operator. It is none of the daemons: it is killed on purpose.
func (n *realNode) startSizing(o options, prometheus, name string) (*daemon, error) {
	cycles := filepath.Join(o.Out, "sizing-"+name+".jsonl")
	if err := os.RemoveAll(cycles); err != nil {
		return nil, err
	}
	return start(o.Logs, "sizing-"+name, o.Mash2, "operator", "--kubeconfig", n.cluster.Kubeconfig,
		"--namespace", systemNamespace, "--policy-configmap", policyConfigMap, "--prometheus-url", prometheus, "--sizes-at-admission",
		"--provider", "kind", "--provider-read-only", "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--log-format", "text", "--verbose", "--cycle-log", cycles)
}

// plannedSizes are what the statuses say, by workload.
func (n *realNode) plannedSizes(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, g := range guesses() {
		var w v1alpha1.ManagedWorkload
		if err := n.typed.Get(ctx, client.ObjectKey{Namespace: sizedSpace, Name: g.Name}, &w); err != nil {
			return nil, err
		}
		if w.Status.Sizing == nil {
			return nil, fmt.Errorf("%s has no status.sizing", g.Name)
		}
		out[g.Name] = w.Status.Sizing.Reason
	}
	return out, nil
}

// sizedReasons are those of the Events that must be told: of a start that is slow under a lowered
// limit, of a node that is short of memory, and of what a kubelet does not carry out.
var sizedReasons = []string{sensing.ReasonCPULimitTooLow, sensing.ReasonNodeMemoryPressure, execution.ReasonResizeDeferred, execution.ReasonResizeError, execution.ReasonResizeInfeasible}

// sizedEvents are what mash2 told of sizes.
func (n *realNode) sizedEvents(ctx context.Context, out *sizedSeen) error {
	list, err := n.client.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range list.Items {
		of := e.InvolvedObject // of pods kubelets tell the same
		if (of.APIVersion == api.Group+"/v1alpha1" || of.Kind == "Node") && slices.Contains(sizedReasons, e.Reason) {
			out.Events = append(out.Events, fmt.Sprintf("%s %s: %s", e.Reason, e.InvolvedObject.Name, e.Message))
		}
	}
	slices.Sort(out.Events)
	out.Events = slices.Compact(out.Events)
	return nil
}

// check what must hold: sizing restarted nobody, and it was said what stood against it.
func (s sizedSeen) check() error {
	var errs []error
	if s.Restarts > 0 {
		errs = append(errs, fmt.Errorf("%d restarts of containers", s.Restarts))
	}
	for _, reason := range sizedReasons {
		if !slices.ContainsFunc(s.Events, func(e string) bool { return strings.HasPrefix(e, reason) }) {
			errs = append(errs, fmt.Errorf("no Event %s", reason))
		}
	}
	return errors.Join(errs...)
}

// sizedUsers are k6 that asks until it is told to end.
type sizedUsers struct {
	cmd               *exec.Cmd
	log               *os.File
	exported, records string
}

func (n *realNode) sizedUsers(ctx context.Context, o options) (*sizedUsers, error) {
	var plan []asked
	for _, g := range guesses() {
		if !g.Users {
			continue
		}
		p, err := startProxy(ctx, n.client, sizedSpace, g.Name)
		if err != nil {
			return nil, err
		}
		if err := wait(ctx, "the pods of "+g.Name, n.daemons, p.ready); err != nil {
			return nil, err
		}
		plan = append(plan, asked{p.URL, []stage{{sizedRate, 3600}}})
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	u := &sizedUsers{exported: filepath.Join(o.Work, "k6-sizing.json"), records: filepath.Join(o.Work, "k6-sizing.csv")}
	u.cmd, u.log, err = podsK6(ctx, o, plan, "k6-sizing", port, sizedCPU, "--summary-export", u.exported, "--out", "csv="+u.records)
	if err != nil {
		return nil, err
	}
	return u, u.cmd.Start()
}

// end interrupts k6, and returns what it says, and latencies over time.
func (u *sizedUsers) end(begin time.Time) (k6Summary, []latency, error) {
	defer u.log.Close()
	if err := u.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return k6Summary{}, nil, fmt.Errorf("k6 ended by itself: %w; see %s", err, u.log.Name())
	}
	// k6 says by 105 that it was interrupted.
	const interrupted = 105
	var exit *exec.ExitError
	if err := u.cmd.Wait(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != interrupted) {
		return k6Summary{}, nil, fmt.Errorf("k6: %w; see %s", err, u.log.Name())
	}
	data, err := os.ReadFile(u.exported)
	if err != nil {
		return k6Summary{}, nil, err
	}
	summary, err := parseSummary(data)
	if err != nil {
		return summary, nil, err
	}
	records, err := os.Open(u.records)
	if err != nil {
		return summary, nil, err
	}
	defer records.Close()
	var names []string
	for _, g := range guesses() {
		if g.Users {
			names = append(names, g.Name)
		}
	}
	over, err := latencies(records, begin, names)
	return summary, over, err
}
