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

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
	configMap   = "mash2-policy"
	pool        = "general"
	machineType = "n2-standard-2"
	teams       = 50 // namespaces at most
	labelApp    = "app"
	container   = "main"
	image       = "app"

	scrapeInterval = 15 * time.Second
	rateWindow     = time.Minute // the operator's
	loadPeriod     = time.Hour
)

var zones = []string{"us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f"}

// app is a workload: a Deployment and a ManagedWorkload of the same name.
type app struct {
	namespace, name string
	milliCPU        int64 // request of a pod
	replicas        int32 // at the start
	demand          demand
}

// apps share the pods out. The requests have ten values, as teams copy one
// another's manifests: 150m in the mean, so that ten pods take 88 % of what
// GKE's DaemonSets leave of an n2-standard-2. At the mean of its demand a
// workload's first replicas are used to 72 %.
func (s size) apps() []app {
	out := make([]app, s.Workloads)
	left := s.Pods
	for i := range out {
		replicas := left / (s.Workloads - i)
		left -= replicas
		cpu := int64(105 + 10*(i%10))
		out[i] = app{
			namespace: fmt.Sprintf("team-%d", i%teams), name: fmt.Sprintf("app-%d", i),
			milliCPU: cpu, replicas: int32(replicas),
			demand: demand{
				mean:   0.72 * float64(cpu) / 1000 * float64(replicas),
				phase:  2 * math.Pi * math.Mod(float64(i)*math.Phi, 1), // evenly spread
				period: s.scaled(loadPeriod).Seconds(),
			},
		}
	}
	return out
}

// world is the cluster that the operator is measured on.
type world struct {
	size
	apps       []app
	dir        string
	cluster    *cluster.Cluster
	kube       kubernetes.Interface
	client     client.Client
	gke        *gkesim.Server
	prometheus *cluster.Prometheus
	stops      []func() error
}

func (w *world) stop() error {
	var errs []error
	for _, stop := range slices.Backward(w.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// start sets the world up and returns when every pod is Ready and Prometheus
// has a rate for each. What it returns must be stopped even after an error.
func start(ctx context.Context, s size, progress io.Writer) (*world, error) {
	w := &world{size: s, apps: s.apps()}
	say := func(format string, args ...any) {
		fmt.Fprintf(progress, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
	}
	life, cancel := context.WithCancel(context.Background())
	w.stops = append(w.stops, func() error { cancel(); return nil })
	var err error
	if w.dir, err = os.MkdirTemp("", "mash2-envelope-"); err != nil {
		return w, err
	}
	w.stops = append(w.stops, func() error { return os.RemoveAll(w.dir) })

	say("starting a control plane")
	if err := w.controlPlane(ctx, progress); err != nil {
		return w, err
	}
	say("creating %d nodes", s.Nodes)
	w.gke, err = gkesim.New(gkesim.Config{
		Project: "envelope", Location: "us-central1", Cluster: "envelope", Speed: s.Speed, Seed: 1,
		Pools: []gkesim.Pool{{Name: pool, MachineType: machineType, Zones: zones, Size: int32(s.Nodes / len(zones))}},
	}, w.kube)
	if err != nil {
		return w, err
	}
	w.stops = append(w.stops, w.gke.Close)
	if err := w.gke.Start(life); err != nil {
		return w, err
	}
	say("creating %d workloads", s.Workloads)
	if err := w.objects(ctx); err != nil {
		return w, err
	}
	meter, err := w.watch(ctx, life)
	if err != nil {
		return w, err
	}
	for ready := -1; ready < s.Pods; {
		if err := pause(ctx, 2*time.Second); err != nil {
			return w, err
		}
		if n := len(meter.containers()); n != ready {
			ready = n
			say("%d of %d pods Ready", ready, s.Pods)
		}
	}
	say("starting Prometheus with a past of %v", s.History)
	if err := w.serve(ctx, life, meter); err != nil {
		return w, err
	}
	say("waiting for a rate of every pod")
	return w, w.waitForRates(ctx)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// controlPlane starts it, with clients that have no limits of their own.
func (w *world) controlPlane(ctx context.Context, progress io.Writer) (err error) {
	w.cluster, err = cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(w.dir, "cluster"), Speed: w.Speed, APIQPS: 2000, Progress: progress,
		ControllerManagerArgs: []string{
			"--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
			// On a busy machine kwok may renew a thousand leases late.
			"--node-monitor-grace-period=5m",
		},
	})
	if err != nil {
		return err
	}
	w.stops = append(w.stops, w.cluster.Stop)
	config := w.cluster.RESTConfig()
	config.QPS = -1
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	w.client, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

func (w *world) objects(ctx context.Context) error {
	if _, err := w.cluster.Kubectl(ctx, "apply", "-f", filepath.Join("charts", "mash2", "crds")); err != nil {
		return err
	}
	if _, err := w.cluster.Kubectl(ctx, "wait", "--for=condition=Established", "crd/managedworkloads."+api.Group, "--timeout=60s"); err != nil {
		return err
	}
	first := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: configMap}, Data: map[string]string{
			"policy":        api.CostSaving,
			"policies.yaml": "policies: {COST_SAVING: {nodePools: [" + pool + "]}}",
		}},
	}
	for i := range min(teams, len(w.apps)) {
		first = append(first, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.apps[i].namespace}})
	}
	for _, o := range first {
		if err := w.client.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
		}
	}
	return w.each(func(a app) error {
		return errors.Join(w.client.Create(ctx, a.deployment()), w.client.Create(ctx, a.managedWorkload()))
	})
}

// each calls do for every workload, several at a time.
func (w *world) each(do func(app) error) error {
	const parallel = 8
	errs := make([]error, parallel)
	var group sync.WaitGroup
	for worker := range parallel {
		group.Go(func() {
			for i := worker; i < len(w.apps) && errs[worker] == nil; i += parallel {
				errs[worker] = do(w.apps[i])
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (a app) deployment() *appsv1.Deployment {
	labels := map[string]string{labelApp: a.name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &a.replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: container, Image: image,
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU:    *resource.NewMilliQuantity(a.milliCPU, resource.DecimalSI),
						corev1.ResourceMemory: resource.MustParse("64Mi"),
					}},
				}}},
			},
		},
	}
}

func (a app) managedWorkload() *v1alpha1.ManagedWorkload {
	return &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.name},
		Spec: v1alpha1.ManagedWorkloadSpec{
			TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: a.name},
			MinReplicas: ptr.To[int32](2), MaxReplicas: 2 * a.replicas, Mode: v1alpha1.ModeShadow,
			Metric: v1alpha1.Metric{Type: v1alpha1.MetricCPU},
		},
	}
}

// setMode of every workload.
func (w *world) setMode(ctx context.Context, mode v1alpha1.Mode) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"mode":%q}}`, mode))
	return w.each(func(a app) error { return w.client.Patch(ctx, a.managedWorkload(), patch) })
}

// watch follows the pods.
func (w *world) watch(ctx, life context.Context) (*meter, error) {
	m := &meter{demand: map[string]demand{}}
	for _, a := range w.apps {
		m.demand[a.name] = a.demand
	}
	factory := informers.NewSharedInformerFactoryWithOptions(w.kube, 0, informers.WithTransform(trimmed))
	pods := factory.Core().V1().Pods()
	m.pods = pods.Lister()
	synced := pods.Informer().HasSynced
	factory.Start(life.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return nil, ctx.Err()
	}
	return m, nil
}

// serve offers what a cluster offers: cAdvisor's series to a Prometheus that
// has a past, and metrics.k8s.io.
func (w *world) serve(ctx, life context.Context, m *meter) error {
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	resolution := w.scaled(15 * time.Second)
	usage := exposition.NewResourceMetrics(m.containers, func() []exposition.Node { return nil }, resolution)
	plain, err := w.listen(ctx, exposition.Cadvisor(m.containers), nil)
	if err != nil {
		return err
	}
	secure, err := w.listen(ctx, usage.Handler(), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
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
	if err := cluster.RegisterMetricsAPI(ctx, w.cluster.RESTConfig(), secure); err != nil {
		return err
	}
	o := cluster.PrometheusOptions{
		Jobs: []cluster.ScrapeJob{{Name: "cadvisor", Targets: []string{plain}, MetricsPath: "/", HonorLabels: true}},
		Dir:  filepath.Join(w.dir, "prometheus"), ScrapeInterval: w.scaled(scrapeInterval), LookbackDelta: w.scaled(5 * time.Minute),
	}
	if w.History > 0 {
		nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		names := make([]string, len(nodes.Items))
		for i, n := range nodes.Items {
			names[i] = n.Name
		}
		reader, writer := io.Pipe()
		o.History = reader
		now := time.Now()
		go func() {
			_ = writer.CloseWithError(past(writer, w.apps, names, now.Add(-w.scaled(w.History)), now, 2*w.scaled(scrapeInterval)))
		}()
		defer reader.Close()
	}
	if w.prometheus, err = cluster.StartPrometheus(ctx, o); err != nil {
		return err
	}
	w.stops = append(w.stops, w.prometheus.Stop)
	return nil
}

// listen serves h on a free loopback port until the world is stopped.
func (w *world) listen(ctx context.Context, h http.Handler, config *tls.Config) (address string, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address = l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	w.stops = append(w.stops, server.Close)
	go func() { _ = server.Serve(l) }() // until Close
	return address, nil
}

// waitForRates returns when Prometheus knows what every pod uses.
func (w *world) waitForRates(ctx context.Context) error {
	c, err := promapi.NewClient(promapi.Config{Address: w.prometheus.URL})
	if err != nil {
		return err
	}
	// The operator distrusts demand while more than half of the last two times
	// 45 s is a gap, as it is between the past and the first scrape.
	query := fmt.Sprintf(`count(rate(container_cpu_usage_seconds_total{container!=""}[%s] offset %s))`,
		model.Duration(w.scaled(rateWindow)), model.Duration(w.scaled(90*time.Second)))
	for {
		value, _, err := promv1.NewAPI(c).Query(ctx, query, time.Now())
		if err != nil {
			return err
		}
		if v, ok := value.(model.Vector); ok && len(v) == 1 && int(v[0].Value) >= w.Pods {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}
