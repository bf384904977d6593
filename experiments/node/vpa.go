package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/mash2-io/mash2/experiments/cluster"
)

// vpa is what decides where the VerticalPodAutoscaler does: its own recommender and updater.
// It sees all turns, as it needs a history, and changes pods in its own only.
const vpa = "vpa"

var vpas = schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}

// startVPA starts the VPA of the service, which changes nothing yet. Recommender and updater
// look six times as often as by default, every ten seconds.
func (n *realNode) startVPA(ctx context.Context, o options) error {
	if err := n.startMetricsServer(ctx, o); err != nil {
		return err
	}
	if out, err := n.cluster.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(o.VPADir, "crd.yaml")); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	client, err := dynamic.NewForConfig(n.cluster.RESTConfig())
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
		"metadata": map[string]any{"name": workload},
		"spec": map[string]any{
			"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload},
			"updatePolicy": map[string]any{"updateMode": "Off", "minReplicas": int64(1)},
			"resourcePolicy": map[string]any{"containerPolicies": []any{map[string]any{
				"containerName": "*", "controlledResources": []any{"cpu"}, "controlledValues": "RequestsAndLimits",
				"minAllowed": map[string]any{"cpu": "50m"}, "maxAllowed": map[string]any{"cpu": strconv.Itoa(agentBudget) + "m"},
			}}},
		},
	}}
	err = wait(ctx, "the VPA's CRD", n.daemons, func(ctx context.Context) error {
		_, err := client.Resource(vpas).Namespace(appSpace).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	for _, program := range []struct {
		name string
		args []string
	}{
		{"recommender", []string{"--recommender-interval=10s"}},
		{"updater", []string{"--updater-interval=10s", "--min-replicas=1", "--use-admission-controller-status=false"}},
	} {
		port, err := freePort()
		if err != nil {
			return err
		}
		args := append([]string{"--kubeconfig", n.cluster.Kubeconfig, "--address", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}, program.args...)
		d, err := start(o.Logs, "vpa-"+program.name, filepath.Join(o.VPADir, program.name), args...)
		if err != nil {
			return err
		}
		n.daemons = append(n.daemons, d)
	}
	return nil
}

// letVPA lets the VPA change pods until what is returned is called.
func (n *realNode) letVPA(ctx context.Context) (end func() error, err error) {
	client, err := dynamic.NewForConfig(n.cluster.RESTConfig())
	if err != nil {
		return nil, err
	}
	mode := func(mode string) error {
		patch := fmt.Sprintf(`{"spec":{"updatePolicy":{"updateMode":%q}}}`, mode)
		_, err := client.Resource(vpas).Namespace(appSpace).Patch(ctx, workload, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	return func() error { return mode("Off") }, mode("InPlaceOrRecreate")
}

// startMetricsServer starts metrics-server, which reads the kubelet, as metrics.k8s.io.
func (n *realNode) startMetricsServer(ctx context.Context, o options) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	kubeconfig := n.cluster.Kubeconfig
	d, err := start(o.Logs, "metrics-server", o.MetricsServer,
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--cert-dir", filepath.Join(o.Work, "metrics-server"), "--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(port),
		"--kubelet-insecure-tls", "--kubelet-preferred-address-types", "InternalIP", "--kubelet-use-node-status-port",
		"--metric-resolution", "15s")
	if err != nil {
		return err
	}
	n.daemons = append(n.daemons, d)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := wait(ctx, "metrics-server", n.daemons, dial(address)); err != nil {
		return err
	}
	if err := cluster.RegisterMetricsAPI(ctx, n.cluster.RESTConfig(), address); err != nil {
		return errors.Join(err, ended(n.daemons))
	}
	return nil
}

// forward stands on a loopback port for a pod by its name, which may come and go: k6 knows
// addresses when it starts only.
func (n *realNode) forward(ctx context.Context, pod string) (address string, end func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer in.Close()
				is, err := n.client.CoreV1().Pods(appSpace).Get(ctx, pod, metav1.GetOptions{})
				if err != nil || is.Status.Phase != corev1.PodRunning {
					return // the request fails, as it would
				}
				out, err := net.Dial("tcp", net.JoinHostPort(is.Status.PodIP, "8080"))
				if err != nil {
					return
				}
				defer out.Close()
				go func() {
					_, _ = io.Copy(out, in) // one side has gone
					_ = out.Close()
				}()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return listener.Addr().String(), func() { _ = listener.Close() }, nil
}
