package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// serviceCIDR is the range of service addresses; nothing routes them here,
// but the API server hands them out.
const serviceCIDR = "10.96.0.0/16"

// podCIDR is where kwok takes pod addresses from when a node has no range of
// its own.
const podCIDR = "10.128.0.0/9"

// cluster is the configuration of one cluster and its running components.
type cluster struct {
	*supervisor
	options     upOptions
	kwokFiles   []string
	ports       map[string]int
	pki         *pki
	serving     pair              // of the API server, the controller-manager and the scheduler
	kubeconfigs map[string]string // by component
	admin       *http.Client
	server      string
	kubeconfig  string
}

// newCluster makes the directories, keys and kubeconfigs.
func newCluster(o upOptions, lease *portLease) (*cluster, error) {
	c := &cluster{
		options:     o,
		ports:       map[string]int{},
		kubeconfigs: map[string]string{},
		kubeconfig:  filepath.Join(o.dir, "kubeconfig"),
	}
	var err error
	if c.kwokFiles, err = kwokDocuments(o.kwokConfig); err != nil {
		return nil, err
	}
	logs, work := filepath.Join(o.dir, "logs"), filepath.Join(o.dir, "work")
	for _, dir := range []string{logs, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	c.supervisor = newSupervisor(logs, work)
	for _, name := range []string{etcdName, "etcd-peer", apiserverName, controllerManagerName, schedulerName, kwokName} {
		if c.ports[name], err = lease.take(); err != nil {
			return nil, err
		}
	}
	c.server = "https://" + loopback(c.ports[apiserverName])

	if c.pki, err = newPKI(filepath.Join(o.dir, "pki")); err != nil {
		return nil, fmt.Errorf("making keys: %w", err)
	}
	// 10.96.0.1 is the first service address, which the API server takes.
	c.serving, err = c.pki.server(apiserverName, []net.IP{net.IPv4(10, 96, 0, 1)},
		"kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return nil, err
	}
	if err := c.pki.kubeconfig(c.kubeconfig, c.server, "kubernetes-admin", "system:masters"); err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	for name, groups := range map[string][]string{
		controllerManagerName: nil,
		schedulerName:         nil,
		kwokName:              {"system:masters"},
	} {
		path := filepath.Join(o.dir, "pki", name+".kubeconfig")
		if err := c.pki.kubeconfig(path, c.server, "system:"+name, groups...); err != nil {
			return nil, fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
		}
		c.kubeconfigs[name] = path
	}
	admin, err := c.pki.client(c.pki.ca, "localkube", "localkube", "system:masters")
	if err != nil {
		return nil, err
	}
	c.admin, err = httpClient(c.pki.ca.file, admin)
	return c, err
}

// startAll starts the components in the order they need each other and
// returns when all are ready.
func (c *cluster) startAll(ctx context.Context) error {
	timeout := c.options.readyTimeout
	if err := c.start(etcdName, c.etcdArgs()...); err != nil {
		return err
	}
	etcd := "http://" + loopback(c.ports[etcdName]) + "/health"
	if err := c.wait(ctx, etcdName, timeout, c.answers(etcd)); err != nil {
		return err
	}
	apiserverArgs, err := c.apiserverArgs()
	if err != nil {
		return err
	}
	if err := c.start(apiserverName, apiserverArgs...); err != nil {
		return err
	}
	if err := c.wait(ctx, apiserverName, timeout, c.answers(c.server+"/readyz")); err != nil {
		return err
	}
	// Only now: started earlier, the controller-manager exits because the
	// roles it reads its authentication configuration with don't exist yet.
	if err := c.start(controllerManagerName, c.controllerManagerArgs()...); err != nil {
		return err
	}
	if err := c.start(schedulerName, c.schedulerArgs()...); err != nil {
		return err
	}
	if len(c.kwokFiles) > 0 {
		args, err := c.kwokArgs()
		if err != nil {
			return err
		}
		if err := c.start(kwokName, args...); err != nil {
			return err
		}
		kwok := "http://" + loopback(c.ports[kwokName]) + "/healthz"
		if err := c.wait(ctx, kwokName, timeout, c.answers(kwok)); err != nil {
			return err
		}
	}
	for _, name := range []string{schedulerName, controllerManagerName} {
		url := "https://" + loopback(c.ports[name]) + "/healthz"
		if err := c.wait(ctx, name, timeout, c.answers(url)); err != nil {
			return err
		}
	}
	// Pods are refused in a namespace until the controller-manager has made
	// its default service account.
	account := c.server + "/api/v1/namespaces/default/serviceaccounts/default"
	return c.wait(ctx, controllerManagerName, timeout, c.answers(account))
}

func (c *cluster) status() upStatus {
	return upStatus{
		Kubeconfig: c.kubeconfig,
		Server:     c.server,
		Dir:        c.options.dir,
		Logs:       c.logDir,
		PID:        os.Getpid(),
		PIDs:       c.pids(),
		Ports:      c.ports,
	}
}

func (c *cluster) etcdArgs() []string {
	client := "http://" + loopback(c.ports[etcdName])
	peer := "http://" + loopback(c.ports["etcd-peer"])
	return []string{
		"--name", "localkube",
		"--data-dir", filepath.Join(c.options.dir, "etcd"),
		"--listen-client-urls", client,
		"--advertise-client-urls", client,
		"--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer,
		"--initial-cluster", "localkube=" + peer,
		"--unsafe-no-fsync", // the data doesn't outlive the cluster
		"--quota-backend-bytes", "8589934592",
		"--log-level", "warn",
	}
}

func (c *cluster) apiserverArgs() ([]string, error) {
	proxy, err := c.pki.client(c.pki.front, "front-proxy-client", "front-proxy-client")
	if err != nil {
		return nil, err
	}
	kubelet, err := c.pki.client(c.pki.ca, "kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return nil, err
	}
	args := []string{
		"--etcd-servers", "http://" + loopback(c.ports[etcdName]),
		"--bind-address", "127.0.0.1",
		"--advertise-address", "127.0.0.1",
		// Endpoints may not hold loopback addresses.
		"--endpoint-reconciler-type", "none",
		"--secure-port", strconv.Itoa(c.ports[apiserverName]),
		"--tls-cert-file", c.serving.cert,
		"--tls-private-key-file", c.serving.key,
		"--client-ca-file", c.pki.ca.file,
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", c.pki.serviceAccountPublicKey(),
		"--service-account-signing-key-file", c.pki.serviceAccountKey(),
		"--service-cluster-ip-range", serviceCIDR,
		"--authorization-mode", "Node,RBAC",
		"--allow-privileged=true",
		"--requestheader-client-ca-file", c.pki.front.file,
		"--requestheader-allowed-names", "front-proxy-client",
		"--requestheader-username-headers", "X-Remote-User",
		"--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", proxy.cert,
		"--proxy-client-key-file", proxy.key,
		"--kubelet-client-certificate", kubelet.cert,
		"--kubelet-client-key", kubelet.key,
		"--v", strconv.Itoa(c.options.verbosity),
	}
	return append(args, c.options.apiserverArgs...), nil
}

// controllerArgs are what the controller-manager and the scheduler share.
func (c *cluster) controllerArgs(name string) []string {
	kubeconfig := c.kubeconfigs[name]
	return []string{
		"--kubeconfig", kubeconfig,
		"--authentication-kubeconfig", kubeconfig,
		"--authorization-kubeconfig", kubeconfig,
		"--bind-address", "127.0.0.1",
		"--secure-port", strconv.Itoa(c.ports[name]),
		"--tls-cert-file", c.serving.cert,
		"--tls-private-key-file", c.serving.key,
		"--leader-elect=false",
		"--kube-api-qps", strconv.Itoa(c.options.apiQPS),
		"--kube-api-burst", strconv.Itoa(2 * c.options.apiQPS),
		"--v", strconv.Itoa(c.options.verbosity),
	}
}

func (c *cluster) controllerManagerArgs() []string {
	args := append(c.controllerArgs(controllerManagerName),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file", c.pki.serviceAccountKey(),
		"--root-ca-file", c.pki.ca.file,
	)
	for flag, value := range map[string]time.Duration{
		"--horizontal-pod-autoscaler-sync-period":               c.options.hpaSyncPeriod,
		"--horizontal-pod-autoscaler-downscale-stabilization":   c.options.hpaDownscaleStabilization,
		"--horizontal-pod-autoscaler-cpu-initialization-period": c.options.hpaCPUInitialization,
		"--horizontal-pod-autoscaler-initial-readiness-delay":   c.options.hpaInitialReadinessDelay,
	} {
		if value > 0 {
			args = append(args, flag, value.String())
		}
	}
	return append(args, c.options.controllerManagerArgs...)
}

func (c *cluster) schedulerArgs() []string {
	return append(c.controllerArgs(schedulerName), c.options.schedulerArgs...)
}

func (c *cluster) kwokArgs() ([]string, error) {
	serving, err := c.pki.server(kwokName, nil)
	if err != nil {
		return nil, err
	}
	port := c.ports[kwokName]
	args := []string{
		"--kubeconfig", c.kubeconfigs[kwokName],
		"--cidr", podCIDR,
		"--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake",
		"--node-ip", "127.0.0.1",
		"--node-port", strconv.Itoa(port),
		"--server-address", loopback(port),
		"--node-lease-duration-seconds", "40",
		"--tls-cert-file", serving.cert,
		"--tls-private-key-file", serving.key,
	}
	for _, file := range c.kwokFiles {
		args = append(args, "--config", file)
	}
	return args, nil
}

// answers returns a check that a GET of url is answered by 200 OK.
func (c *cluster) answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := c.admin.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
		}
		return nil
	}
}

// httpClient trusts the cluster's authority only, and is known to its servers
// by the client certificate.
func httpClient(caFile string, client pair) (*http.Client, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	cert, err := tls.LoadX509KeyPair(client.cert, client.key)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			Certificates: []tls.Certificate{cert},
		},
	}}, nil
}
