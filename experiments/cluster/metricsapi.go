package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	metricsNamespace = "kube-system"
	metricsService   = "metrics-server"
	metricsAPI       = "v1beta1.metrics.k8s.io"
	fieldManager     = "mash2-experiments"
)

// RegisterMetricsAPI makes the API server forward metrics.k8s.io/v1beta1 to
// the TLS server at hostPort on this machine, whose certificate is not
// verified, and returns when the API server finds it available. Registering
// again moves it to the new address.
//
// The way there is a Service of type ExternalName, which the aggregator
// follows as it is when it doesn't route to endpoints itself; the port of the
// APIService must therefore be the server's own.
func RegisterMetricsAPI(ctx context.Context, config *rest.Config, hostPort string) error {
	if err := registerMetricsAPI(ctx, config, hostPort); err != nil {
		return fmt.Errorf("registering %s: %w", metricsAPI, err)
	}
	return nil
}

func registerMetricsAPI(ctx context.Context, config *rest.Config, hostPort string) error {
	host, portText, err := net.SplitHostPort(hostPort)
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(portText, 10, 32)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil {
		if !ip.IsLoopback() {
			return fmt.Errorf("%s is not on the loopback interface", hostPort)
		}
		host = "localhost" // an external name must be a name
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	services := client.CoreV1().Services(metricsNamespace)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: metricsService, Namespace: metricsNamespace},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host},
	}
	_, err = services.Create(ctx, service, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		_, err = services.Update(ctx, service, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return err
	}

	// The kube-aggregator's types are not worth a dependency.
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	apiService := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(),
		"kind":       "APIService",
		"metadata":   map[string]any{"name": metricsAPI},
		"spec": map[string]any{
			"group":                 "metrics.k8s.io",
			"version":               "v1beta1",
			"groupPriorityMinimum":  int64(100),
			"versionPriority":       int64(100),
			"insecureSkipTLSVerify": true,
			"service": map[string]any{
				"namespace": metricsNamespace,
				"name":      metricsService,
				"port":      port,
			},
		},
	}}
	_, err = dynamicClient.Resource(resource).Apply(ctx, metricsAPI, apiService,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return err
	}
	return waitServed(ctx, client)
}

// waitServed waits until the API server answers discovery of the metrics API.
func waitServed(ctx context.Context, client kubernetes.Interface) error {
	const timeout = 30 * time.Second
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		var status int
		last = client.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1").
			Do(ctx).StatusCode(&status).Error()
		return last == nil && status == http.StatusOK, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}
