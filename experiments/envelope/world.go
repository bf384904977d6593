package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/experiments/load/exposition"
)

const (
	namespace   = "mash2-system"
	pool        = "general"
	machineType = "n2-standard-2"
	teams       = 10 // namespaces
	// speed of boots and pod starts while the world is set up.
	speed = 30
)

// world is the cluster that the operator is measured on.
type world struct {
	size
	dir        string
	cluster    *cluster.Cluster
	gke        *gkesim.Server
	prometheus *cluster.Prometheus
	stops      []func() error
}

func (w *world) cycleLog() string { return filepath.Join(w.dir, "cycles.jsonl") }

func (w *world) arguments() []string {
	return []string{
		"operator", "--kubeconfig", w.cluster.Kubeconfig, "--namespace", namespace, "--leader-elect=false",
		"--prometheus-url", w.prometheus.URL, "--provider", "gke",
		"--gke-project", "envelope", "--gke-location", "us-central1", "--gke-cluster", "envelope",
		"--gke-endpoint", w.gke.Endpoint(), "--gke-compute-endpoint", w.gke.ComputeEndpoint(),
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--cycle-log", w.cycleLog(),
	}
}

func (w *world) stop() error {
	var errs []error
	for _, stop := range slices.Backward(w.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// start sets the world up and waits until every pod is Ready and Prometheus has
// a rate for it.
func start(ctx context.Context, s size, progress io.Writer) (w *world, err error) {
	w = &world{size: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "mash2-envelope-"); err != nil {
		return w, err
	}
	w.stops = append(w.stops, func() error { return os.RemoveAll(w.dir) })
	say := func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) }

	say("starting a control plane")
	w.cluster, err = cluster.Start(ctx, cluster.Options{Dir: filepath.Join(w.dir, "cluster"), Speed: speed, APIQPS: 1000, Progress: progress})
	if err != nil {
		return w, err
	}
	w.stops = append(w.stops, w.cluster.Stop)
	kube, err := kubernetes.NewForConfig(w.cluster.RESTConfig())
	if err != nil {
		return w, err
	}
	say("%d nodes", s.Nodes)
	zones := []string{"us-central1-a", "us-central1-b", "us-central1-c"}
	perZone := int32(math.Ceil(float64(s.Nodes) / float64(len(zones))))
	w.gke, err = gkesim.New(gkesim.Config{
		Project: "envelope", Location: "us-central1", Cluster: "envelope", Speed: speed, Seed: 1,
		Pools: []gkesim.Pool{{Name: pool, MachineType: machineType, Zones: zones, Size: perZone, MaxPerZone: 2 * perZone}},
	}, kube)
	if err != nil {
		return w, err
	}
	life, cancel := context.WithCancel(context.Background())
	w.stops = append(w.stops, func() error { cancel(); return nil })
	if err := w.gke.Start(life); err != nil {
		return w, err
	}
	w.stops = append(w.stops, w.gke.Close)

	say("%d workloads", s.Workloads)
	if err := w.objects(ctx); err != nil {
		return w, err
	}
	factory := informers.NewSharedInformerFactory(kube, 0)
	pods := factory.Core().V1().Pods()
	synced := pods.Informer().HasSynced
	factory.Start(life.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return w, ctx.Err()
	}
	meter := &meter{pods: pods.Lister(), since: time.Now()}
	if err := w.serve(ctx, life, meter); err != nil {
		return w, err
	}
	for ready := -1; ready < s.Pods; {
		select {
		case <-ctx.Done():
			return w, ctx.Err()
		case <-time.After(5 * time.Second):
		}
		if n := len(meter.containers()); n != ready {
			ready = n
			say("%d of %d pods Ready", ready, s.Pods)
		}
	}
	const settle = 90 * time.Second // a rate's window, and a scrape before it
	say("%v for Prometheus to have rates", settle)
	select {
	case <-ctx.Done():
		return w, ctx.Err()
	case <-time.After(settle):
	}
	return w, nil
}

func (w *world) objects(ctx context.Context) error {
	if _, err := w.cluster.Kubectl(ctx, "apply", "-f", filepath.Join("charts", "mash2", "crds")); err != nil {
		return err
	}
	if _, err := w.cluster.Kubectl(ctx, "wait", "--for=condition=Established", "crd/managedworkloads."+api.Group, "--timeout=60s"); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	c, err := client.New(w.cluster.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mash2-policy"}, Data: map[string]string{
			"policy":        api.CostSaving,
			"policies.yaml": "policies: {COST_SAVING: {nodePools: [" + pool + "]}}",
		}},
	}
	for i := range teams {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-%d", i)}})
	}
	left := w.Pods
	for i := range w.Workloads {
		replicas := int32(left / (w.Workloads - i))
		left -= int(replicas)
		objects = append(objects, w.workload(i, replicas)...)
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

func (w *world) workload(i int, replicas int32) []client.Object {
	ns, name := fmt.Sprintf("team-%d", i%teams), fmt.Sprintf("app-%d", i)
	labels := map[string]string{"app": name}
	// Ten shapes, as teams copy one another's manifests.
	cpu := resource.MustParse(fmt.Sprintf("%dm", 50+10*(i%10)))
	return []client.Object{
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						TerminationGracePeriodSeconds: ptr.To[int64](1),
						Containers: []corev1.Container{{
							Name: "main", Image: "app",
							Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
								corev1.ResourceCPU: cpu, corev1.ResourceMemory: resource.MustParse("64Mi"),
							}},
						}},
					},
				},
			},
		},
		&v1alpha1.ManagedWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec: v1alpha1.ManagedWorkloadSpec{
				TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
				MinReplicas: 2, MaxReplicas: 2 * replicas, Metric: v1alpha1.Metric{Type: v1alpha1.MetricCPU},
			},
		},
	}
}

// serve offers what a cluster offers: cAdvisor's series to a Prometheus, and
// metrics.k8s.io.
func (w *world) serve(ctx, life context.Context, m *meter) error {
	plain, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secure, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	const resolution = 15 * time.Second
	usage := exposition.NewResourceMetrics(m.containers, func() []exposition.Node { return nil }, resolution)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics/cadvisor", exposition.Cadvisor(m.containers))
	for l, h := range map[net.Listener]http.Handler{
		plain: mux,
		tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}): usage.Handler(),
	} {
		server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		w.stops = append(w.stops, server.Close)
		go func() { _ = server.Serve(l) }() // until Close
	}
	go func() {
		tick := time.NewTicker(resolution)
		defer tick.Stop()
		for {
			select {
			case <-life.Done():
				return
			case <-tick.C:
				usage.Read(time.Now())
			}
		}
	}()
	if err := cluster.RegisterMetricsAPI(ctx, w.cluster.RESTConfig(), secure.Addr().String()); err != nil {
		return err
	}
	w.prometheus, err = cluster.StartPrometheus(ctx, cluster.PrometheusOptions{
		Jobs: []cluster.ScrapeJob{{Name: "cadvisor", Targets: []string{plain.Addr().String()}, MetricsPath: "/metrics/cadvisor", HonorLabels: true}},
		Dir:  filepath.Join(w.dir, "prometheus"),
	})
	if err != nil {
		return err
	}
	w.stops = append(w.stops, w.prometheus.Stop)
	return nil
}

// meter is the CPU that Ready pods use: 60 % of their requests, swinging by a
// third over ten minutes, each workload with a phase of its own.
type meter struct {
	pods  corelisters.PodLister
	since time.Time

	mu   sync.Mutex
	used map[string]*used // by UID
}

type used struct {
	seconds float64
	until   time.Time
}

func (m *meter) containers() []exposition.Container {
	pods, err := m.pods.List(labels.Everything())
	if err != nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used == nil {
		m.used = map[string]*used{}
	}
	now := time.Now()
	var out []exposition.Container
	for _, p := range pods {
		if len(p.Spec.Containers) != 1 || p.Labels["app"] == "" || !ready(p) {
			continue
		}
		u := m.used[string(p.UID)]
		if u == nil {
			u = &used{until: p.Status.StartTime.Time}
			m.used[string(p.UID)] = u
		}
		var phase float64
		for _, c := range p.Labels["app"] {
			phase = phase*31 + float64(c)
		}
		const period = 600.0
		share := 0.6 + 0.2*math.Sin(2*math.Pi*now.Sub(m.since).Seconds()/period+phase)
		u.seconds += share * p.Spec.Containers[0].Resources.Requests.Cpu().AsApproximateFloat64() * now.Sub(u.until).Seconds()
		u.until = now
		out = append(out, exposition.Container{
			Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Labels: p.Labels, Name: p.Spec.Containers[0].Name, Image: "app",
			Node: p.Spec.NodeName, Started: p.Status.StartTime.Time, CPU: u.seconds, Memory: 32 << 20,
		})
	}
	return out
}

func ready(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.StartTime != nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
