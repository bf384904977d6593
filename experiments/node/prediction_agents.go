package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/strategic/model"
)

// application is a pod that spends CPU on what it is asked.
func (n *realNode) application(ctx context.Context) (*corev1.Pod, error) {
	for _, name := range []string{appSpace, systemNamespace} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == systemNamespace {
			// The DaemonSet asks for no more than what the strictest standard allows.
			ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
		}
		if _, err := n.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	pods := n.client.CoreV1().Pods(appSpace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: workload, Labels: map[string]string{"app": workload}},
		Spec:       podSpec(quantities("100m", "64Mi"), quantities("1", "128Mi")),
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return pod, wait(ctx, "the application", n.daemons, func(ctx context.Context) error {
		is, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		*pod = *is
		return podReady(pod)
	})
}

// startDaemonSet applies what the chart makes of agents.node, and returns where it answers, its
// process and its pod.
func (n *realNode) startDaemonSet(ctx context.Context) (answers string, pid int, uid types.UID, err error) {
	data, err := model.Encode(nodeLine)
	if err != nil {
		return "", 0, "", err
	}
	models := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "models"}, Data: map[string]string{"line.json": string(data)}}
	if _, err := n.client.CoreV1().ConfigMaps(systemNamespace).Create(ctx, models, metav1.CreateOptions{}); err != nil {
		return "", 0, "", err
	}
	repository, tag, _ := strings.Cut(agentImage, ":")
	text, err := n.cluster.Helm(ctx, "template", "mash2", filepath.Join("charts", "mash2"), "--namespace", systemNamespace, "--kube-version", "1.36.0",
		"--show-only", "templates/node.yaml", "--set", "prometheus.url=http://prometheus,models.configMap=models,agents.node.enabled=true,agents.node.predict={line}",
		"--set", "image.repository="+repository+",image.pullPolicy=Never", "--set-string", "image.tag="+tag)
	if err != nil {
		return "", 0, "", err
	}
	file := filepath.Join(n.work, "node.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", 0, "", err
	}
	if _, err := n.cluster.Kubectl(ctx, "apply", "-f", file); err != nil {
		return "", 0, "", err
	}
	err = wait(ctx, "the DaemonSet's pod", n.daemons, func(ctx context.Context) error {
		list, err := n.client.CoreV1().Pods(systemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=mash2-node"})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d pods of it", len(list.Items))
		}
		pod := &list.Items[0]
		answers, uid = fmt.Sprintf("http://%s:%d%sline", pod.Status.PodIP, agentPort, agents.PredictionPath), pod.UID
		return podReady(pod)
	})
	if err != nil {
		return "", 0, "", err
	}
	pid, err = processOf(uid, "agents")
	return answers, pid, uid, err
}

// processOf a pod that has an argument: one of its cgroup.
func processOf(uid types.UID, argument string) (int, error) {
	files, err := filepath.Glob(filepath.Join(cgroupRoot, "cpuacct", cgroupName, "kubepods", "*", "pod"+string(uid), "*", "cgroup.procs"))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		for pid := range strings.FieldsSeq(string(data)) {
			line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
			if err == nil && strings.Contains(string(line), "\x00"+argument+"\x00") {
				return strconv.Atoi(pid)
			}
		}
	}
	return 0, fmt.Errorf("no process of pod %s has the argument %s", uid, argument)
}

// startAgent starts mash2 agents on the node by a user without rights, who may list the pods of
// the application's namespace.
func (n *realNode) startAgent(ctx context.Context, o options) (*daemon, string, error) {
	kubeconfig, err := n.lister(ctx)
	if err != nil {
		return nil, "", err
	}
	folder := "/run/mash2-agent" // the node's own; what is in Work only root sees
	models := filepath.Join(folder, "models")
	data, err := model.Encode(appLine)
	config, names := filepath.Join(folder, "kubeconfig"), appModel
	err = errors.Join(err, os.MkdirAll(models, 0o755), os.WriteFile(filepath.Join(models, appModel+".json"), data, 0o644),
		os.WriteFile(config, kubeconfig, 0o600), os.Chown(config, nobody, nobody))
	if o.Model != "" {
		trained, readErr := os.ReadFile(o.Model)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(models, trainedModel+".json"), trained, 0o644))
		names += "," + trainedModel
	}
	if err != nil {
		return nil, "", err
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	cmd := exec.Command(o.Agent, "agents", "--kubeconfig", config, "--node", nodeName, "--models", models, "--predict", names, "--predict-address", address,
		"--namespace", appSpace, "--application", "pipelines_server=app="+workload, "--kubelet-cgroup", cgroupName)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Env = []string{"HOME=/nowhere"}
	d, err := startCommand(o.Logs, "agent", cmd)
	if err != nil {
		return nil, "", err
	}
	n.daemons = append(n.daemons, d)
	return d, "http://" + address + agents.PredictionPath + appModel, nil
}

// lister is a kubeconfig for what the chart's Role with agents.node.application allows.
func (n *realNode) lister(ctx context.Context) ([]byte, error) {
	for _, args := range [][]string{
		{"create", "serviceaccount", "agent", "-n", appSpace},
		{"create", "role", "agent", "-n", appSpace, "--verb=list", "--resource=pods"},
		{"create", "rolebinding", "agent", "-n", appSpace, "--role=agent", "--serviceaccount=" + appSpace + ":agent"},
	} {
		if _, err := n.cluster.Kubectl(ctx, args...); err != nil {
			return nil, err
		}
	}
	token, err := n.cluster.Kubectl(ctx, "create", "token", "agent", "-n", appSpace)
	if err != nil {
		return nil, err
	}
	c := n.cluster.RESTConfig()
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "agent",
		"clusters": []any{map[string]any{"name": "node", "cluster": map[string]any{"server": c.Host, "certificate-authority-data": c.CAData}}},
		"users":    []any{map[string]any{"name": "agent", "user": map[string]any{"token": strings.TrimSpace(token)}}},
		"contexts": []any{map[string]any{"name": "agent", "context": map[string]any{"cluster": "node", "user": "agent"}}},
	})
}

// cycleLog is the operator's, in the folder of the run.
const cycleLog = "cycles.jsonl"

// policy of the operator's last cycle that is written.
func (n *realNode) policy() (string, error) {
	data, err := os.ReadFile(filepath.Join(n.work, cycleLog))
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(data), "\n") // the last one is empty or torn
	if len(lines) < 2 {
		return "", errors.New("no cycle is written")
	}
	var c api.Cycle
	err = json.Unmarshal([]byte(lines[len(lines)-2]), &c)
	return c.Policy.Name, err
}

// startReader starts the operator with a strategy whose sensor reads an answer.
func (n *realNode) startReader(ctx context.Context, o options, url string) error {
	prometheus, err := cluster.StartPrometheus(ctx, cluster.PrometheusOptions{Dir: filepath.Join(o.Logs, "prometheus")})
	if err != nil {
		return err
	}
	policies := fmt.Sprintf("default: "+api.CostSaving+"\npolicies:\n  %s: {nodePools: [%s]}\n  %s: {nodePools: [%s]}\n", api.CostSaving, poolName, api.Performance, poolName)
	strategy := fmt.Sprintf(`apiVersion: mash2.io/v1alpha1
kind: Strategy
metadata: {name: beside, namespace: %s}
spec:
  sensors:
    - name: latency
      http: {url: %q, jsonPath: "{.value}"}
      when: {interval: {every: 1s}}
  rules:
    - name: busy
      when: latency > %g
      actions: [{setPolicy: {policy: %s}}]
`, appSpace, url, busyAbove, api.Performance)
	file := filepath.Join(n.work, "strategy.yaml")
	policy := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: policyConfigMap},
		Data:       map[string]string{"policies.yaml": policies}, // none is set by hand, which would come first
	}
	_, err = n.client.CoreV1().ConfigMaps(systemNamespace).Create(ctx, policy, metav1.CreateOptions{})
	if err := errors.Join(err, os.WriteFile(file, []byte(strategy), 0o600)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join("charts", "mash2", "crds")},
		{"wait", "--for=condition=Established", "crd/managedworkloads." + api.Group, "crd/strategies." + api.Group, "--timeout=60s"},
		{"apply", "-f", file},
	} {
		if _, err := n.cluster.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	d, err := start(o.Logs, "operator", o.Agent, "operator", "--kubeconfig", n.cluster.Kubeconfig, "--sensor-host", appSpace+"/"+host,
		"--namespace", systemNamespace, "--policy-configmap", policyConfigMap, "--prometheus-url", prometheus.URL, "--period", "5s",
		"--provider", "kind", "--provider-read-only", "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--log-format", "text", "--verbose", "--cycle-log", filepath.Join(n.work, cycleLog))
	if err != nil {
		return err
	}
	n.daemons = append(n.daemons, d)
	return nil
}

// strategyIs waits until the strategy's rule is on or off with a reading, and returns why.
func (n *realNode) strategyIs(ctx context.Context, on bool, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, max(patience, time.Minute))
	defer cancel()
	for {
		text, err := n.cluster.Kubectl(ctx, "get", "strategy", "beside", "-n", appSpace, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}|{.status.active}|{.status.reason}`)
		if err == nil {
			parts := strings.SplitN(strings.TrimSpace(text), "|", 3)
			if len(parts) == 3 && parts[0] == "True" && strings.Contains(parts[1], "busy") == on {
				return parts[2], nil
			}
		}
		if gone := ended(n.daemons); gone != nil {
			return "", gone
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for the strategy's rule to be on (%t): it is %q, %w", on, text, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
