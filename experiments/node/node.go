package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kind"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// The node, and the network of its pods, which the host reaches over the bridge
// and nothing else does.
const (
	nodeName = "real-0"
	poolName = "real"
	nodeIP   = "10.253.0.1"
	podRange = "10.253.0.0/24"
)

// containerdSocket is where cAdvisor looks for containerd, whatever the kubelet is
// told: elsewhere, its series have no label container. The folder is the node's
// own (see ownFolders).
const containerdSocket = "/run/containerd/containerd.sock"

// containerd of its own folders and socket; the system's service is left alone.
// restrict_oom_score_adj: in some sandboxes scores can't be lowered, and runc fails.
var containerdConfig = template.Must(template.New("containerd.toml").Parse(`version = 2
root = "{{.Work}}/containerd/root"
state = "{{.Work}}/containerd/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt",
]
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{{.Work}}/cni"
`))

var cniConfig = template.Must(template.New("cni.conflist").Parse(`{"cniVersion": "0.4.0", "name": "mash2-node", "plugins": [{
  "type": "bridge", "bridge": "{{.Bridge}}", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "{{.Work}}/cni-addresses", "ranges": [[{"subnet": "{{.PodRange}}", "gateway": "{{.NodeIP}}"}]]}
}]}
`))

// The kubelet evicts by free disk space in percent unless told otherwise, and a
// machine of somebody's may be quite full.
var kubeletConfig = template.Must(template.New("kubelet.yaml").Parse(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.NodeIP}}
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "{{.Work}}/cluster/pki/ca.crt"}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /{{.Cgroup}}
cpuManagerPolicy: {{.CPUManager}}
containerRuntimeEndpoint: "unix://{{.Socket}}"
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%, imagefs.inodesFree: 1%}
evictionPressureTransitionPeriod: 30s
{{- if .Short}}
evictionSoft: {memory.available: 99%}
evictionSoftGracePeriod: {memory.available: 24h}
{{- end}}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
maxPods: 60
podLogsDir: "{{.Work}}/pod-logs"
providerID: "mash2-node://{{.Node}}"
resolvConf: ""
systemReserved: {cpu: 200m, memory: 512Mi}
volumePluginDir: "{{.Work}}/volume-plugins"
`))

// realNode is a kubelet with containerd, joined to a control plane.
type realNode struct {
	work     string
	cluster  *cluster.Cluster
	client   kubernetes.Interface
	typed    client.Client // knows ManagedWorkloads; set by deploy
	daemons  []*daemon
	kubelet  *daemon // one of them
	kubelets int     // that were started
}

// Policies of the kubelet's CPU manager: with static it gives whole cores to Guaranteed pods,
// and resizes none of their CPU.
const cpuManagerNone, cpuManagerStatic = "none", "static"

// restartKubelet kills the kubelet, does something on the node without, and starts it again.
func (n *realNode) restartKubelet(ctx context.Context, o options, without func() error) error {
	n.daemons = slices.DeleteFunc(n.daemons, func(d *daemon) bool { return d == n.kubelet })
	if err := n.kubelet.cmd.Process.Kill(); err != nil {
		return err
	}
	<-n.kubelet.done
	if err := without(); err != nil {
		return err
	}
	return n.runKubelet(ctx, o)
}

// setCPUManager has the kubelet's next start use a policy, as an administrator does: what the
// last one kept is another policy's.
func setCPUManager(o options, policy string) error {
	err := os.Remove(filepath.Join(o.Work, "kubelet", "cpu_manager_state"))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, configure(o, "kubelet.yaml", kubeletConfig, policy, false))
}

// setShort has the kubelet's next start say that the node is short of memory, as with too much in use. It
// would evict pods a day later.
func setShort(o options, short bool) error {
	return configure(o, "kubelet.yaml", kubeletConfig, cpuManagerNone, short)
}

// configure writes a daemon's configuration.
func configure(o options, name string, t *template.Template, cpuManager string, short bool) error {
	var text bytes.Buffer
	err := t.Execute(&text, map[string]any{
		"Work": o.Work, "Socket": containerdSocket, "Pause": pauseImage, "Bridge": bridge, "PodRange": podRange, "NodeIP": nodeIP, "Node": nodeName,
		"Cgroup": cgroupName, "CPUManager": cpuManager, "Short": short,
	})
	path := filepath.Join(o.Work, name)
	return errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text.Bytes(), 0o644))
}

// startNode starts containerd, a control plane and a kubelet, and returns when
// the node is Ready.
func startNode(ctx context.Context, o options, say func(string, ...any)) (*realNode, error) {
	n := &realNode{work: o.Work}
	for name, t := range map[string]*template.Template{
		"containerd.toml": containerdConfig, "cni/10-mash2.conflist": cniConfig, "kubelet.yaml": kubeletConfig,
	} {
		if err := configure(o, name, t, cpuManagerNone, false); err != nil {
			return nil, err
		}
	}
	say("containerd")
	if err := n.startContainerd(ctx, o); err != nil {
		return nil, err
	}
	say("control plane")
	pki := filepath.Join(o.Work, "cluster", "pki")
	var err error
	n.cluster, err = cluster.Start(ctx, cluster.Options{
		Dir:           filepath.Join(o.Work, "cluster"),
		APIServerArgs: []string{"--kubelet-preferred-address-types=InternalIP"},
		// The kubelet asks for its client certificate by a signing request.
		ControllerManagerArgs: []string{
			"--cluster-signing-cert-file=" + filepath.Join(pki, "ca.crt"), "--cluster-signing-key-file=" + filepath.Join(pki, "ca.key"),
		},
	})
	if err != nil {
		return nil, err
	}
	if n.client, err = kubernetes.NewForConfig(n.cluster.RESTConfig()); err != nil {
		return nil, err
	}
	say("kubelet")
	return n, n.startKubelet(ctx, o)
}

func (n *realNode) startContainerd(ctx context.Context, o options) error {
	d, err := start(o.Logs, "containerd", "containerd", "--config", filepath.Join(o.Work, "containerd.toml"))
	if err != nil {
		return err
	}
	n.daemons = append(n.daemons, d)
	ctr := func(ctx context.Context, args ...string) error {
		out, err := exec.CommandContext(ctx, "ctr", append([]string{"--address", containerdSocket, "--namespace", "k8s.io"}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	if err := wait(ctx, "containerd", n.daemons, func(ctx context.Context) error { return ctr(ctx, "version") }); err != nil {
		return err
	}
	programs := map[string]string{pauseImage: o.Pause, targetImage: o.Target}
	if o.Predict {
		programs[agentImage] = o.Agent
	}
	for name, program := range programs {
		image := filepath.Join(o.Work, filepath.Base(program)+".tar")
		if err := errors.Join(writeImage(image, name, program), ctr(ctx, "images", "import", image)); err != nil {
			return err
		}
	}
	return nil
}

func (n *realNode) startKubelet(ctx context.Context, o options) error {
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", nodeIP + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	roots, err := cgroupRoots(cgroupRoot)
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.Mkdir(filepath.Join(root, cgroupName), 0o755); err != nil {
			return err
		}
	}
	// One process elsewhere has 1,024 shares. With no more than that for all pods
	// together, each waits tens of milliseconds for a CPU while something compiles.
	const shares = "16384"
	if err := os.WriteFile(filepath.Join(cgroupRoot, "cpu", cgroupName, "cpu.shares"), []byte(shares), 0o644); err != nil {
		return err
	}
	return n.runKubelet(ctx, o)
}

// runKubelet starts the kubelet, with a log of its own, and returns when the node is Ready.
func (n *realNode) runKubelet(ctx context.Context, o options) error {
	program, err := cluster.Binary(ctx, "", nil)
	if err != nil {
		return err
	}
	n.kubelets++
	n.kubelet, err = start(o.Logs, fmt.Sprintf("kubelet-%d", n.kubelets), program, "kubelet",
		"--config", filepath.Join(o.Work, "kubelet.yaml"),
		"--root-dir", filepath.Join(o.Work, "kubelet"), "--cert-dir", filepath.Join(o.Work, "kubelet-pki"),
		"--bootstrap-kubeconfig", n.cluster.Kubeconfig, "--kubeconfig", filepath.Join(o.Work, "kubelet.kubeconfig"),
		"--hostname-override", nodeName, "--node-ip", nodeIP,
		"--node-labels", kind.LabelPool+"="+poolName+","+api.LabelNodePool+"="+poolName,
		"--v", "1",
	)
	if err != nil {
		return err
	}
	n.daemons = append(n.daemons, n.kubelet)
	return wait(ctx, "the node", n.daemons, func(ctx context.Context) error {
		node, err := n.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not Ready")
	})
}

// cgroupRoots are the hierarchies that are mounted below root: those of cgroup v1,
// and cgroup v2 beside them.
func cgroupRoots(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		folder := filepath.Join(root, e.Name())
		if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); e.IsDir() && err == nil {
			out = append(out, folder)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "cpu", "cgroup.procs")); err != nil {
		return nil, fmt.Errorf("cgroup v1's controller cpu is not at %s/cpu: this has been written for, and tried with, cgroup v1", root)
	}
	return out, nil
}

// versions of what runs on the node, as it says itself, and what it has.
func (n *realNode) versions(ctx context.Context) (versions, error) {
	node, err := n.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return versions{}, err
	}
	info := node.Status.NodeInfo
	runc, err := exec.CommandContext(ctx, "runc", "--version").Output()
	first, _, _ := strings.Cut(string(runc), "\n")
	load, loadErr := loadAverage()
	return versions{
		Kubelet: info.KubeletVersion, Runtime: info.ContainerRuntimeVersion, Runc: first, Kernel: info.KernelVersion,
		CPUs: node.Status.Capacity.Cpu().Value(), Allocatable: float64(node.Status.Allocatable.Cpu().MilliValue()) / 1000,
		Load: load,
	}, errors.Join(err, loadErr)
}

// loadAverage of the last five minutes.
func loadAverage() (string, error) {
	data, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(data))
	if err == nil && len(fields) < 2 {
		err = fmt.Errorf("/proc/loadavg has no averages: %q", data)
	}
	if err != nil {
		return "", err
	}
	return fields[1], nil
}
