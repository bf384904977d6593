package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// scenario is the load, and the workload's proportions.
const scenario = "heartbeat"

// experiment puts the scalers on the node and loads both workloads at once,
// equally.
func (n *realNode) experiment(ctx context.Context, o options, r *result, say func(string, ...any)) error {
	s, err := scenarios.Load(scenario)
	if err != nil {
		return err
	}
	say("metrics-server and Prometheus")
	prometheus, err := n.startMetrics(ctx, o, nil)
	if err != nil {
		return err
	}
	say("workloads, and what scales them")
	if err := n.deploy(ctx, o, s); err != nil {
		return err
	}
	proxies := map[string]*proxy{}
	for _, scaler := range o.scalers() {
		if proxies[scaler], err = startProxy(ctx, n.client, scaler, workload); err != nil {
			return err
		}
		if err := wait(ctx, "the pods of "+scaler, n.daemons, proxies[scaler].ready); err != nil {
			return err
		}
	}
	cycles := filepath.Join(o.Out, "cycles.jsonl")
	if err := os.RemoveAll(cycles); err != nil {
		return err
	}
	d, err := start(o.Logs, "operator", o.Mash2, "operator", "--kubeconfig", n.cluster.Kubeconfig,
		"--namespace", systemNamespace, "--policy-configmap", policyConfigMap, "--prometheus-url", prometheus.URL,
		"--provider", "kind", "--provider-read-only", "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--log-format", "text", "--verbose", "--cycle-log", cycles)
	if err != nil {
		return err
	}
	n.daemons = append(n.daemons, d)
	say("waiting until both scalers know the CPU that is used")
	if err := n.scalersSee(ctx, o); err != nil {
		return err
	}
	if err := n.load(ctx, o, s, proxies, r, say); err != nil {
		return err
	}
	return n.keep(ctx, cycles, prometheus.URL, r)
}

// startMetrics starts what reads the kubelet: metrics-server for the HPA, and for
// mash2 a Prometheus with the chart's recording rules, which need pods' owners, and with a
// history in OpenMetrics' text, nil for none.
func (n *realNode) startMetrics(ctx context.Context, o options, history io.Reader) (*cluster.Prometheus, error) {
	if err := n.startMetricsServer(ctx, o); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: ownersHandler(ctx, n.client), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until the end
	rules, err := recordingRules(o.Work)
	if err != nil {
		return nil, err
	}
	identity := &cluster.ScrapeClient{CertFile: filepath.Join(o.Work, "scrape.crt"), KeyFile: filepath.Join(o.Work, "scrape.key")}
	tls := n.cluster.RESTConfig().TLSClientConfig
	if err := errors.Join(os.WriteFile(identity.CertFile, tls.CertData, 0o600), os.WriteFile(identity.KeyFile, tls.KeyData, 0o600)); err != nil {
		return nil, err
	}
	folder := filepath.Join(o.Logs, "prometheus")
	if err := os.RemoveAll(folder); err != nil { // of another run, which is not this one's past
		return nil, err
	}
	return cluster.StartPrometheus(ctx, cluster.PrometheusOptions{
		Dir: folder, Rules: []string{rules}, History: history,
		Jobs: []cluster.ScrapeJob{
			// The label node is what kube-prometheus-stack's relabelling adds.
			{Name: "kubelet", Targets: []string{nodeIP + ":10250"}, MetricsPath: "/metrics/cadvisor", HonorLabels: true,
				Labels: map[string]string{"node": nodeName}, Client: identity},
			{Name: "kube-state-metrics", Targets: []string{listener.Addr().String()}, HonorLabels: true},
		},
	})
}

// recordingRules writes the chart's recording rules as its values make them, and
// returns where.
func recordingRules(folder string) (string, error) {
	chart := filepath.Join("charts", "mash2")
	raw, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return "", fmt.Errorf("the working directory must be the root of the repository: %w", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return "", err
	}
	t, err := template.New("recording.yaml").Option("missingkey=error").ParseFiles(filepath.Join(chart, "rules", "recording.yaml"))
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, map[string]any{"Values": values}); err != nil {
		return "", err
	}
	path := filepath.Join(folder, "recording.yaml")
	return path, os.WriteFile(path, text.Bytes(), 0o644)
}

// scalersSee returns when both scalers have read the CPU of their pods.
func (n *realNode) scalersSee(ctx context.Context, o options) error {
	// metrics-server needs two readings, Prometheus' rate a minute.
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		var last error
		for _, scaler := range o.scalers() {
			if scaler == hpa {
				last = errors.Join(last, n.hpaSees(ctx))
			} else {
				last = errors.Join(last, n.mash2Sees(ctx, scaler))
			}
		}
		if last == nil {
			return nil
		}
		if err := ended(n.daemons); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the scalers know no CPU: %w", last)
		case <-time.After(time.Second):
		}
	}
}

func (n *realNode) hpaSees(ctx context.Context) error {
	h, err := n.client.AutoscalingV2().HorizontalPodAutoscalers(hpa).Get(ctx, workload, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, m := range h.Status.CurrentMetrics {
		if m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			return nil
		}
	}
	return fmt.Errorf("the HPA has no CPU yet: %v", h.Status.Conditions)
}

func (n *realNode) mash2Sees(ctx context.Context, namespace string) error {
	var w v1alpha1.ManagedWorkload
	if err := n.typed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: workload}, &w); err != nil {
		return err
	}
	if meta.IsStatusConditionTrue(w.Status.Conditions, "Ready") {
		return nil
	}
	return fmt.Errorf("mash2 does not plan from fresh data yet: %v", w.Status.Conditions)
}

// dial says whether somebody listens.
func dial(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
