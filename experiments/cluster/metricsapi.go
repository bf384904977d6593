package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
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
	fieldManager     = "mash2-experiments"
)

// RegisterMetricsAPI is [RegisterAPI] of metrics.k8s.io/v1beta1.
func RegisterMetricsAPI(ctx context.Context, config *rest.Config, hostPort string) error {
	return RegisterAPI(ctx, config, schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}, hostPort)
}

// RegisterAPI makes the API server forward an API to the TLS server at hostPort on
// this machine, whose certificate is not verified, and returns when the API server
// finds it available. Registering again moves it to the new address.
//
// The way there is a Service of type ExternalName, which the aggregator
// follows as it is when it doesn't route to endpoints itself; the port of the
// APIService must therefore be the server's own.
func RegisterAPI(ctx context.Context, config *rest.Config, api schema.GroupVersion, hostPort string) error {
	if err := registerAPI(ctx, config, api, hostPort); err != nil {
		return fmt.Errorf("registering %s: %w", api, err)
	}
	return nil
}

func registerAPI(ctx context.Context, config *rest.Config, api schema.GroupVersion, hostPort string) error {
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
	serviceName, apiName := strings.ReplaceAll(api.Group, ".", "-"), api.Version+"."+api.Group
	services := client.CoreV1().Services(metricsNamespace)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName, Namespace: metricsNamespace},
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
		"metadata":   map[string]any{"name": apiName},
		"spec": map[string]any{
			"group":                 api.Group,
			"version":               api.Version,
			"groupPriorityMinimum":  int64(100),
			"versionPriority":       int64(100),
			"insecureSkipTLSVerify": true,
			"service": map[string]any{
				"namespace": metricsNamespace,
				"name":      serviceName,
				"port":      port,
			},
		},
	}}
	_, err = dynamicClient.Resource(resource).Apply(ctx, apiName, apiService,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return err
	}
	return waitServed(ctx, client, api)
}

// waitServed waits until the API server answers discovery of the API.
func waitServed(ctx context.Context, client kubernetes.Interface, api schema.GroupVersion) error {
	const timeout = 30 * time.Second
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		var status int
		last = client.Discovery().RESTClient().Get().AbsPath("/apis/" + api.String()).
			Do(ctx).StatusCode(&status).Error()
		return last == nil && status == http.StatusOK, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}
