package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// metricsAdapter serves one metric of each API, as KEDA's metrics server or
// prometheus-adapter do behind the API server.
type metricsAdapter struct {
	mu              sync.Mutex
	queue, requests int64
	down            bool
	users           map[string]map[string]bool // by metric, who has asked through the API server
}

func (a *metricsAdapter) set(queue, requests int64, down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue, a.requests, a.down = queue, requests, down
}

// askedBy is how many different users have asked for a metric.
func (a *metricsAdapter) askedBy(metric string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.users[metric])
}

const (
	queueSelector = "queue=orders"
	frontend      = "front" // the Service that requests are counted of
)

// ServeHTTP implements http.Handler.
func (a *metricsAdapter) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const inNamespace = "/namespaces/" + testbed.Mash2 + "/"
	external, custom := "/apis/"+v1beta1.SchemeGroupVersion.String(), "/apis/"+v1beta2.SchemeGroupVersion.String()
	var answer any
	metric := ""
	switch r.URL.Path {
	case external, custom: // discovery
		answer = metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.TrimPrefix(r.URL.Path, "/apis/"),
		}
	case external + inNamespace + "queue":
		metric = "queue"
		list := v1beta1.ExternalMetricValueList{TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: v1beta1.SchemeGroupVersion.String()}}
		if r.URL.Query().Get("labelSelector") == queueSelector {
			for _, part := range []int64{a.queue / 3, a.queue - a.queue/3} { // of two brokers
				list.Items = append(list.Items, v1beta1.ExternalMetricValue{
					MetricName: metric, Timestamp: metav1.Now(), Value: *resource.NewQuantity(part, resource.DecimalSI),
				})
			}
		}
		answer = list
	case custom + inNamespace + "services/" + frontend + "/requests":
		metric = "requests"
		answer = v1beta2.MetricValueList{
			TypeMeta: metav1.TypeMeta{Kind: "MetricValueList", APIVersion: v1beta2.SchemeGroupVersion.String()},
			Items: []v1beta2.MetricValue{{
				DescribedObject: corev1.ObjectReference{Kind: "Service", Namespace: testbed.Mash2, Name: frontend},
				Metric:          v1beta2.MetricIdentifier{Name: metric}, Timestamp: metav1.Now(), Value: *resource.NewQuantity(a.requests, resource.DecimalSI),
			}},
		}
	default:
		http.NotFound(rw, r)
		return
	}
	if by := r.Header.Get("X-Remote-User"); metric != "" && by != "" { // the aggregator says for whom it asks
		if a.users[metric] == nil {
			a.users[metric] = map[string]bool{}
		}
		a.users[metric][by] = true
	}
	if a.down && metric != "" {
		http.Error(rw, "the broker is gone", http.StatusServiceUnavailable)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(answer)
}

// TestAggregatedMetrics: external.metrics.k8s.io and custom.metrics.k8s.io are
// served by an adapter behind the API server. A real HPA with both metrics scales
// the target; the ManagedWorkload in Shadow has them as triggers, and sees the
// same values and asks for the same replicas, on the way up and down, and says
// like the HPA when the adapter fails.
func TestAggregatedMetrics(t *testing.T) {
	w := newWorld(t, testbed.Options{
		Scenario: scenario(t, 1, scenarios.Stage{Duration: 10 * time.Hour, Target: 1}), Speed: 10, Mode: v1alpha1.ModeShadow,
	})
	a := &metricsAdapter{queue: 50, requests: 150, users: map[string]map[string]bool{}}
	server := httptest.NewTLSServer(a)
	t.Cleanup(server.Close)
	for _, gv := range []schema.GroupVersion{v1beta1.SchemeGroupVersion, v1beta2.SchemeGroupVersion} {
		if err := cluster.RegisterAPI(t.Context(), w.Cluster.RESTConfig(), gv, server.Listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	queue := autoscalingv2.MetricIdentifier{Name: "queue", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"queue": "orders"}}}
	requests := autoscalingv2.MetricIdentifier{Name: "requests"}
	front := autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: frontend}
	perReplica := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
	average := func(n int64) autoscalingv2.MetricTarget {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: perReplica(n)}
	}
	const queuePer, requestsPer = 20, 100
	mw := &v1alpha1.ManagedWorkload{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.WorkloadName}, mw); err != nil {
		t.Fatal(err)
	}
	mw.Spec.Metric.Type = v1alpha1.MetricNone
	mw.Spec.Triggers = []v1alpha1.Trigger{
		{Name: "queue", Type: v1alpha1.TriggerExternal, External: &v1alpha1.MetricTrigger{Metric: queue}, Target: &v1alpha1.TriggerTarget{AverageValue: perReplica(queuePer)}},
		{Name: "requests", Type: v1alpha1.TriggerObject, Object: &v1alpha1.ObjectTrigger{DescribedObject: front, Metric: requests}, Target: &v1alpha1.TriggerTarget{AverageValue: perReplica(requestsPer)}},
	}
	w.update(mw)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "beside"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: testbed.WorkloadName},
			MinReplicas:    ptr.To(*mw.Spec.MinReplicas), MaxReplicas: mw.Spec.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{
				{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: queue, Target: average(queuePer)}},
				{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{DescribedObject: front, Metric: requests, Target: average(requestsPer)}},
			},
		},
	}
	w.create(hpa)
	o := w.operator()

	for _, c := range []struct {
		queue, requests int64
		want            int32 // 1/20 of the queue or 1/100 of the requests, whichever is more, rounded up
	}{{130, 150, 7}, {130, 1150, 12}, {50, 210, 3}} {
		a.set(c.queue, c.requests, false)
		w.eventually(fmt.Sprintf("%d replicas for a queue of %d and %d requests", c.want, c.queue, c.requests), func() string {
			for _, o := range []client.Object{mw, hpa} {
				if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
			}
			planned := ptr.Deref(mw.Status.PlannedReplicas, -1)
			if seen := mw.Status.Triggers; planned != c.want || hpa.Status.DesiredReplicas != c.want || len(seen) != 2 ||
				seen[0].Value != fmt.Sprint(c.queue) || seen[1].Value != fmt.Sprint(c.requests) {
				return fmt.Sprintf("mash2 plans %d by %+v, the HPA wants %d", planned, seen, hpa.Status.DesiredReplicas)
			}
			return ""
		})
	}
	for _, metric := range []string{"queue", "requests"} {
		if n := a.askedBy(metric); n < 2 {
			t.Errorf("%d users have asked for %s through the API server, want the HPA's controller and mash2", n, metric)
		}
	}

	a.set(0, 0, true)
	w.eventually("both to say that the adapter fails", func() string {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(hpa), hpa); err != nil {
			t.Fatal(err)
		}
		for _, c := range hpa.Status.Conditions {
			if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse {
				return w.condition(metav1.ConditionFalse, "TriggerMissing", "")
			}
		}
		return fmt.Sprintf("the HPA: %+v", hpa.Status.Conditions)
	})
	if now := w.replicas(testbed.Mash2); now != 3 {
		t.Errorf("%d replicas without the metrics, want the 3 there were", now)
	}
	a.set(50, 210, false)
	w.eventually("mash2 to see them again", func() string { return w.condition(metav1.ConditionTrue, "", "") })
	w.stop(o)
}
