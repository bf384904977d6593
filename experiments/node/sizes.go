package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	// Cores and MiB of a replica in the days before, as they are by its users now.
	Cores, MiB float64
}

// guesses are a Deployment and a StatefulSet that request several times what they use, and a
// Deployment that needs the CPU of its author for its start only.
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
	}
}

// sizing lets mash2 size running pods of a Deployment and of a StatefulSet under load, kills
// it, makes new pods meanwhile, and starts it again.
func (n *realNode) sizing(ctx context.Context, o options, say func(string, ...any)) (sizedSeen, error) {
	out := sizedSeen{Made: time.Now().UTC()}
	var err error
	if out.Versions, err = n.versions(ctx); err != nil {
		return out, err
	}
	say("workloads whose requests were guessed")
	if err := n.deploySized(ctx); err != nil {
		return out, err
	}
	if err := waitFor(ctx, 5*time.Minute, "all pods", n.daemons, func(ctx context.Context) error { return n.sizedPods(ctx, everyPod(podReady)) }); err != nil {
		return out, err
	}
	say("metrics-server, and a Prometheus that knows %v of these workloads", sizedPast)
	prometheus, err := n.startMetrics(ctx, o, strings.NewReader(sizedHistory(time.Now())))
	if err != nil {
		return out, err
	}
	users, err := n.sizedUsers(ctx, o)
	if err != nil {
		return out, err
	}
	begin := time.Now()
	moment := func(format string, args ...any) {
		m := moment{Seconds: time.Since(begin).Seconds(), What: fmt.Sprintf(format, args...)}
		out.Moments = append(out.Moments, m)
		say("%4.0f s: %s", m.Seconds, m.What)
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	samples := make(chan []sizedSample, 1)
	go func() { samples <- n.watchSized(watched, begin) }()
	pause := func() {
		select {
		case <-ctx.Done():
		case <-time.After(calm):
		}
	}

	pause()
	operator, err := n.startSizing(o, prometheus.URL, "first")
	if err != nil {
		return out, err
	}
	moment("mash2 was started")
	if err := waitFor(ctx, 5*time.Minute, "all pods to be smaller", append(n.daemons, operator), func(ctx context.Context) error { return n.sizedPods(ctx, smaller) }); err != nil {
		return out, err
	}
	moment("all pods had been resized in place")
	if out.Planned, err = n.plannedSizes(ctx); err != nil {
		return out, err
	}
	pause()

	_ = operator.cmd.Process.Kill()
	<-operator.done
	moment("mash2 was killed, and a pod of web and that of slow deleted")
	for _, name := range []string{"web", "slow"} {
		if err := n.renewSized(ctx, name); err != nil {
			return out, err
		}
	}
	err = waitFor(ctx, 5*time.Minute, "new pods of the planned size without mash2", n.daemons, func(ctx context.Context) error {
		return n.sizedPods(ctx, func(g guess, pods []corev1.Pod) error {
			return errors.Join(smallerSpec(g, pods), when(g.Users, everyPod(podReady))(g, pods))
		})
	})
	if err != nil {
		return out, err
	}
	moment("the new pods have the planned size, that of web is Ready")
	pause()

	if operator, err = n.startSizing(o, prometheus.URL, "second"); err != nil {
		return out, err
	}
	moment("mash2 was started again")
	err = waitFor(ctx, 5*time.Minute, "the slow pod's CPU", append(n.daemons, operator), func(ctx context.Context) error { return n.sizedPods(ctx, asWritten) })
	if err != nil {
		return out, errors.Join(err, n.sizedEvents(ctx, &out))
	}
	moment("the pod of slow, which is not Ready, has the CPU that its author wrote")
	if err := waitFor(ctx, 5*time.Minute, "the slow pod", append(n.daemons, operator), func(ctx context.Context) error { return n.sizedPods(ctx, everyPod(podReady)) }); err != nil {
		return out, errors.Join(err, n.sizedEvents(ctx, &out))
	}
	moment("the pod of slow is Ready")
	pause()
	stop()
	out.Samples = <-samples
	if out.K6, out.Latency, err = users.end(begin); err != nil {
		return out, err
	}
	return out, errors.Join(n.sizedEvents(ctx, &out), n.lastOfSized(ctx, &out))
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
	var cpu, memory strings.Builder
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
			}
		}
	}
	return "# TYPE container_cpu_usage_seconds counter\n" + cpu.String() +
		"# TYPE container_memory_working_set_bytes gauge\n" + memory.String() + "# EOF\n"
}

// startSizing starts the operator. It is none of the daemons: it is killed on purpose.
func (n *realNode) startSizing(o options, prometheus, name string) (*daemon, error) {
	return start(o.Logs, "sizing-"+name, o.Mash2, "operator", "--kubeconfig", n.cluster.Kubeconfig,
		"--namespace", systemNamespace, "--policy-configmap", policyConfigMap, "--prometheus-url", prometheus, "--sizes-at-admission",
		"--provider", "kind", "--provider-read-only", "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--log-format", "text", "--verbose", "--cycle-log", filepath.Join(o.Out, "sizing-"+name+".jsonl"))
}

// sizedPods looks at the pods of each workload that are not being deleted.
func (n *realNode) sizedPods(ctx context.Context, look func(guess, []corev1.Pod) error) error {
	for _, g := range guesses() {
		pods, err := n.podsOfGuess(ctx, g)
		if err == nil && len(pods) < int(g.Replicas) {
			err = fmt.Errorf("%s has %d pods", g.Name, len(pods))
		}
		if err == nil {
			err = look(g, pods)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *realNode) podsOfGuess(ctx context.Context, g guess) ([]corev1.Pod, error) {
	list, err := n.client.CoreV1().Pods(sizedSpace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + g.Name})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

func everyPod(look func(*corev1.Pod) error) func(guess, []corev1.Pod) error {
	return func(_ guess, pods []corev1.Pod) error {
		for i := range pods {
			if err := look(&pods[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

func when(is bool, look func(guess, []corev1.Pod) error) func(guess, []corev1.Pod) error {
	if is {
		return look
	}
	return func(guess, []corev1.Pod) error { return nil }
}

// smaller says which pod's kubelet has not given it less than its template says.
func smaller(g guess, pods []corev1.Pod) error {
	for _, p := range pods {
		s := p.Status.ContainerStatuses
		if len(s) == 0 || s[0].Resources == nil || s[0].Resources.Requests.Cpu().Cmp(*g.Requests.Cpu()) >= 0 ||
			s[0].Resources.Requests.Memory().Cmp(*g.Requests.Memory()) >= 0 {
			return fmt.Errorf("pod %s has the size of its template", p.Name)
		}
	}
	return nil
}

// asWritten says which pod that starts slowly has not the CPU that its author wrote.
func asWritten(g guess, pods []corev1.Pod) error {
	for _, p := range pods {
		if s := p.Status.ContainerStatuses; g.Start > 0 && (len(s) == 0 || s[0].Resources == nil || !s[0].Resources.Limits.Cpu().Equal(*g.Limits.Cpu())) {
			return fmt.Errorf("pod %s has less CPU than its author wrote", p.Name)
		}
	}
	return nil
}

// smallerSpec is smaller for what is asked of the kubelet.
func smallerSpec(g guess, pods []corev1.Pod) error {
	for _, p := range pods {
		if r := p.Spec.Containers[0].Resources.Requests; r.Cpu().Cmp(*g.Requests.Cpu()) >= 0 || r.Memory().Cmp(*g.Requests.Memory()) >= 0 {
			return fmt.Errorf("pod %s was made as its template says", p.Name)
		}
	}
	return nil
}

// renewSized deletes a pod of a workload.
func (n *realNode) renewSized(ctx context.Context, name string) error {
	pods, err := n.podsOfGuess(ctx, guess{Name: name})
	if err != nil {
		return err
	}
	return n.client.CoreV1().Pods(sizedSpace).Delete(ctx, pods[0].Name, metav1.DeleteOptions{})
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

// sizedEvents are what mash2 told of sizes.
func (n *realNode) sizedEvents(ctx context.Context, out *sizedSeen) error {
	list, err := n.client.CoreV1().Events(sizedSpace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range list.Items {
		if e.InvolvedObject.APIVersion != api.Group+"/v1alpha1" {
			continue
		}
		switch e.Reason {
		case sensing.ReasonCPULimitTooLow:
			out.Events = append(out.Events, fmt.Sprintf("%s %s: %s", e.Reason, e.InvolvedObject.Name, e.Message))
		}
	}
	slices.Sort(out.Events)
	out.Events = slices.Compact(out.Events)
	return nil
}

// lastOfSized checks what must hold: nobody was restarted, and it was said of the slow pod.
func (n *realNode) lastOfSized(ctx context.Context, out *sizedSeen) error {
	var errs []error
	errs = append(errs, n.sizedPods(ctx, func(_ guess, pods []corev1.Pod) error {
		for _, p := range pods {
			out.Restarts += p.Status.ContainerStatuses[0].RestartCount
		}
		return nil
	}))
	if out.Restarts > 0 {
		errs = append(errs, fmt.Errorf("%d restarts of containers", out.Restarts))
	}
	if !slices.ContainsFunc(out.Events, func(e string) bool { return strings.HasPrefix(e, sensing.ReasonCPULimitTooLow) }) {
		errs = append(errs, errors.New("no Event says that the CPU limit was too low"))
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
