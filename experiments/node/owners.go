package main

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// owners serves who owns pods and ReplicaSets, with the names and labels of
// kube-state-metrics, which the chart's recording rules read. The real one isn't
// run because it is not to be had as a Go module everywhere.
type owners struct {
	ctx    context.Context // of the listing at a scrape, which brings none
	client kubernetes.Interface
}

var (
	podOwner        = prometheus.NewDesc("kube_pod_owner", "The owner of a pod.", ownerLabels("pod"), nil)
	replicaSetOwner = prometheus.NewDesc("kube_replicaset_owner", "The owner of a ReplicaSet.", ownerLabels("replicaset"), nil)
)

func ownerLabels(object string) []string {
	return []string{"namespace", object, "owner_kind", "owner_name", "owner_is_controller"}
}

func ownersHandler(ctx context.Context, client kubernetes.Interface) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(owners{ctx, client})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// Describe implements prometheus.Collector.
func (owners) Describe(ch chan<- *prometheus.Desc) {
	ch <- podOwner
	ch <- replicaSetOwner
}

// Collect implements prometheus.Collector.
func (o owners) Collect(ch chan<- prometheus.Metric) {
	collect := func(desc *prometheus.Desc, object metav1.Object) {
		for _, r := range object.GetOwnerReferences() {
			controller := r.Controller != nil && *r.Controller
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1,
				object.GetNamespace(), object.GetName(), r.Kind, r.Name, strconv.FormatBool(controller))
		}
	}
	pods, err := o.client.CoreV1().Pods(metav1.NamespaceAll).List(o.ctx, metav1.ListOptions{})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(podOwner, err)
		return
	}
	for i := range pods.Items {
		collect(podOwner, &pods.Items[i])
	}
	sets, err := o.client.AppsV1().ReplicaSets(metav1.NamespaceAll).List(o.ctx, metav1.ListOptions{})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(replicaSetOwner, err)
		return
	}
	for i := range sets.Items {
		collect(replicaSetOwner, &sets.Items[i])
	}
}
