package baseline

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	certutil "k8s.io/client-go/util/cert"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/experiments/cluster"
)

// stockFor is how long the comparison with the stock controller runs, in the
// time of the scenario.
var stockFor = flag.Duration("stock-for", 6*time.Minute, "scenario time of the comparison with the stock HPA, for each of its cases")

const (
	// stockSpeed divides the controller's periods: pods' times in the API are
	// whole seconds, so that much more would blur them.
	stockSpeed = 5
	request    = 100 // millicores
)

// stockCase is one HPA with its load.
type stockCase struct {
	name     string
	target   int32
	load     func(seconds float64) float64 // millicores of all pods, over scenario time
	behavior *autoscalingv2.HorizontalPodAutoscalerBehavior
	// missing tells whether the n-th pod has no reading.
	missing func(n int, age time.Duration) bool
}

func stockCases() []stockCase {
	const min = 60
	ramp := func(from, to, begin, length float64) func(float64) float64 {
		return func(t float64) float64 {
			return from + (to-from)*math.Max(0, math.Min(1, (t-begin)/length))
		}
	}
	wave := func(mean, amplitude, period float64) func(float64) float64 {
		return func(t float64) float64 { return mean + amplitude*math.Sin(2*math.Pi*t/period) }
	}
	teeth := func(t float64) float64 { return 200 + 1200*math.Mod(t, 3*min)/(3*min) }
	steps := func(t float64) float64 { return []float64{200, 1500, 700, 1800, 300}[int(t/75)%5] }
	percent := func(value int32, period int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: value, PeriodSeconds: period}
	}
	pods := func(value int32, period int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: value, PeriodSeconds: period}
	}
	rules := func(window int32, choose autoscalingv2.ScalingPolicySelect, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, SelectPolicy: &choose, Policies: policies}
	}
	return []stockCase{
		{name: "ramp", target: 80, load: ramp(150, 1800, 30, 4*min)},
		{name: "steps", target: 80, load: steps},
		{name: "teeth", target: 60, load: teeth},
		{name: "wave", target: 50, load: wave(700, 500, 4*min)},
		{name: "near-tolerance", target: 80, load: func(t float64) float64 { return 800 * (1 + 0.13*math.Sin(t/7)*math.Cos(t/41)) }},
		{name: "fall", target: 80, load: ramp(1600, 100, min, min)},
		{name: "missing-young", target: 80, load: teeth, missing: func(_ int, age time.Duration) bool { return age < 8*time.Second }},
		{name: "missing-some", target: 70, load: wave(700, 400, 3*min), missing: func(n int, _ time.Duration) bool { return n%4 == 3 }},
		// Periods of behaviour are in the object: they are divided here.
		{name: "slow-up", target: 80, load: steps, behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp:   rules(0, autoscalingv2.MaxChangePolicySelect, pods(2, 3)),
			ScaleDown: rules(12, autoscalingv2.MaxChangePolicySelect, percent(20, 6)),
		}},
		{name: "smaller-of-two", target: 80, load: teeth, behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp:   rules(6, autoscalingv2.MinChangePolicySelect, pods(3, 6), percent(50, 3)),
			ScaleDown: rules(0, autoscalingv2.MinChangePolicySelect, pods(1, 3), percent(30, 9)),
		}},
		{name: "never-down", target: 80, load: wave(600, 500, 3*min), behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp:   rules(0, autoscalingv2.MaxChangePolicySelect, percent(100, 3), pods(4, 3)),
			ScaleDown: rules(0, autoscalingv2.DisabledPolicySelect),
		}},
		{name: "at-once", target: 80, load: steps, behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleDown: rules(0, autoscalingv2.MaxChangePolicySelect, percent(100, 3)),
		}},
	}
}

// stock is the metrics API that the stock controller reads, and the notebook of
// what it read: each list of a case's pods is one of its syncs.
type stock struct {
	pods        corelisters.PodLister
	deployments appslisters.DeploymentLister
	begun       time.Time

	mu    sync.Mutex
	cases map[string]*stockCase
	syncs map[string][]stockSync
}

// stockSync is what the controller saw in one sync.
type stockSync struct {
	at      time.Duration // of the clock on the wall
	current int32
	pods    []Pod
}

func (s *stock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasSuffix(r.URL.Path, "/pods") {
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.k8s.io/v1beta1",
			APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}}},
		})
		return
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := strings.TrimPrefix(selector.String(), "app=")
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cases[name]
	if c == nil {
		http.Error(w, "no such case", http.StatusNotFound)
		return
	}
	now := time.Now()
	pods, err := s.pods.List(selector)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	ready := 0
	for _, p := range pods {
		if condition(p) == corev1.ConditionTrue && p.DeletionTimestamp == nil {
			ready++
		}
	}
	load := c.load(now.Sub(s.begun).Seconds() * stockSpeed)
	const window = 2 * time.Second
	list := metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: "metrics.k8s.io/v1beta1"}}
	sync := stockSync{at: now.Sub(s.begun)}
	for n, p := range pods {
		seen := podOf(p, s.begun)
		if condition(p) == corev1.ConditionTrue && p.DeletionTimestamp == nil && (c.missing == nil || !c.missing(n, now.Sub(p.Status.StartTime.Time))) {
			seen.HasMetric, seen.Usage, seen.Window = true, int64(math.Min(load/float64(ready), 2*request)), window
			at := now.Truncate(time.Second)
			seen.MetricAt = at.Sub(s.begun)
			list.Items = append(list.Items, metricsv1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
				Timestamp:  metav1.NewTime(at), Window: metav1.Duration{Duration: window},
				Containers: []metricsv1beta1.ContainerMetrics{{Name: "main", Usage: corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewMilliQuantity(seen.Usage, resource.DecimalSI),
				}}},
			})
		}
		sync.pods = append(sync.pods, seen)
	}
	if d, err := s.deployments.Deployments("default").Get(name); err == nil {
		sync.current = *d.Spec.Replicas
		s.syncs[name] = append(s.syncs[name], sync)
	}
	_ = json.NewEncoder(w).Encode(list)
}

func condition(p *corev1.Pod) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// podOf is a pod as the controller sees it.
func podOf(p *corev1.Pod, begun time.Time) Pod {
	out := Pod{Request: request, Pending: p.Status.Phase == corev1.PodPending, Deleted: p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed}
	if t := p.Status.StartTime; t != nil {
		out.HasStarted, out.Started = true, t.Sub(begun)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready, out.ReadyChanged = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Sub(begun)
		}
	}
	return out
}

// TestAgreesWithTheStockController: the same metrics into the HPA of the real
// kube-controller-manager and into ours, decision by decision: at each of its
// syncs ours gets what it saw, and must want what it then set.
func TestAgreesWithTheStockController(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	windows := cluster.StockHPAWindows(stockSpeed)
	c := cluster.ForTest(t, func(o *cluster.Options) { o.Speed, o.HPA = stockSpeed, windows })
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("500"),
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "large", Annotations: map[string]string{cluster.FakeNodeAnnotation: cluster.FakeNodeValue}},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &stock{
		pods: factory.Core().V1().Pods().Lister(), deployments: factory.Apps().V1().Deployments().Lister(), begun: time.Now(),
		cases: map[string]*stockCase{}, syncs: map[string][]stockSync{},
	}
	synced := []cache.InformerSynced{factory.Core().V1().Pods().Informer().HasSynced, factory.Apps().V1().Deployments().Informer().HasSynced}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), synced...) {
		t.Fatal("the caches were not filled")
	}
	if err := cluster.RegisterMetricsAPI(t.Context(), c.RESTConfig(), serveTLS(t, s)); err != nil {
		t.Fatal(err)
	}
	const least, most = 2, 30
	cases := stockCases()
	for i := range cases {
		createStockCase(t, client, &cases[i], least, most)
	}
	s.mu.Lock()
	s.begun = time.Now()
	for i := range cases {
		s.cases[cases[i].name] = &cases[i]
	}
	s.mu.Unlock()
	// Real time must pass here: the controller's own clock is what is compared.
	<-time.After(*stockFor / stockSpeed)
	s.mu.Lock()
	defer s.mu.Unlock()
	var decisions, differences int
	for _, c := range cases {
		h := Default(c.target, least, most)
		h.DownscaleStabilization, h.CPUInitialization, h.InitialReadiness = windows.DownscaleStabilization, windows.CPUInitializationPeriod, windows.InitialReadinessDelay
		h.Behavior = behaviorOf(c.behavior, windows.DownscaleStabilization)
		n, differ, worst, lowest, highest := 0, 0, int32(0), int32(math.MaxInt32), int32(0)
		syncs := s.syncs[c.name]
		for i := 0; i+1 < len(syncs); i++ {
			want := syncs[i+1].current // what the stock controller made of it
			got, err := h.Reconcile(syncs[i].at, syncs[i].current, syncs[i].pods)
			if err != nil {
				got = syncs[i].current
			}
			n++
			lowest, highest = min(lowest, want), max(highest, want)
			if got != want {
				differ++
				worst = max(worst, got-want, want-got)
				t.Logf("%s at %.1f s: %d → stock %d, ours %d", c.name, syncs[i].at.Seconds()*stockSpeed, syncs[i].current, want, got)
			}
		}
		t.Logf("%-16s %4d syncs, %d–%d replicas: %d differ, by at most %d", c.name, n, lowest, highest, differ, worst)
		decisions += n
		differences += differ
		if n < int(*stockFor/(15*time.Second))/2 {
			t.Errorf("%s: only %d syncs in %v", c.name, n, *stockFor)
		}
		if highest <= lowest && c.name != "near-tolerance" {
			t.Errorf("%s: replicas stayed at %d: nothing was compared", c.name, highest)
		}
	}
	t.Logf("%d decisions over %v of scenario time: %.2f %% equal", decisions, time.Duration(len(cases))**stockFor, 100*(1-float64(differences)/float64(decisions)))
	// Whole seconds in pods' times and informers that are a moment apart leave
	// some decisions between two answers.
	if float64(differences) > 0.03*float64(decisions) {
		t.Errorf("%d of %d decisions differ from the stock controller's", differences, decisions)
	}
}

func serveTLS(t *testing.T, h http.Handler) string {
	t.Helper()
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = server.Close() })
	go func() { // until Close
		_ = server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
	}()
	return l.Addr().String()
}

func createStockCase(t *testing.T, client kubernetes.Interface, c *stockCase, least, most int32) {
	t.Helper()
	labels := map[string]string{"app": c.name}
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(least), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(request, resource.DecimalSI)}},
			}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: c.name},
			MinReplicas:    ptr.To(least), MaxReplicas: most, Behavior: c.behavior,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(c.target)},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// behaviorOf translates a behaviour with the defaults that the API server fills
// in (pkg/apis/autoscaling/v2/defaults.go).
func behaviorOf(in *autoscalingv2.HorizontalPodAutoscalerBehavior, downWindow time.Duration) *Behavior {
	if in == nil {
		return nil
	}
	up := Rules{Policies: []Policy{{Value: 4, Period: 15 * time.Second}, {Percent: true, Value: 100, Period: 15 * time.Second}}}
	down := Rules{Stabilization: downWindow, Policies: []Policy{{Percent: true, Value: 100, Period: 15 * time.Second}}}
	for _, x := range []struct {
		from *autoscalingv2.HPAScalingRules
		to   *Rules
	}{{in.ScaleUp, &up}, {in.ScaleDown, &down}} {
		if x.from == nil {
			continue
		}
		if w := x.from.StabilizationWindowSeconds; w != nil {
			x.to.Stabilization = time.Duration(*w) * time.Second
		}
		if x.from.SelectPolicy != nil {
			x.to.Select = string(*x.from.SelectPolicy)
		}
		if len(x.from.Policies) > 0 {
			x.to.Policies = nil
			for _, p := range x.from.Policies {
				x.to.Policies = append(x.to.Policies, Policy{
					Percent: p.Type == autoscalingv2.PercentScalingPolicy, Value: p.Value, Period: time.Duration(p.PeriodSeconds) * time.Second,
				})
			}
		}
	}
	return &Behavior{ScaleUp: up, ScaleDown: down}
}

func (c stockCase) String() string { return fmt.Sprintf("%s at %d %%", c.name, c.target) }
