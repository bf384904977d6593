package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// kedaPrograms are KEDA's own operator and metrics server, which make keda builds from its
// module, and the folder of its CRDs.
func kedaPrograms(t *testing.T) (operator, adapter, crds string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".cache", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	operator, adapter, crds = filepath.Join(dir, "keda-operator"), filepath.Join(dir, "keda-adapter"), filepath.Join(dir, "keda-crds")
	for _, path := range []string{operator, adapter, crds} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("KEDA is not built (make keda, a quarter of an hour): %v", err)
		}
	}
	return operator, adapter, crds
}

// TestKEDA: the real KEDA asks the operator, by push and over TLS, and scales from zero to
// every planned number and back. mash2 writes no replicas; without it nothing changes.
func TestKEDA(t *testing.T) {
	operator, adapter, crds := kedaPrograms(t)
	w := newWorld(t, testbed.Options{
		Scenario: scenario(t, 1, scenarios.Stage{Duration: 10 * time.Hour, Target: 1}), Speed: 10, Mode: v1alpha1.ModeShadow,
	})
	keys := t.TempDir()
	ca := writeKeys(t, keys)
	w.startKEDA(operator, adapter, crds, keys)

	// 1. KEDA is to scale it; a trigger that is edited is its demand.
	demand := func(n int) {
		t.Helper()
		w.edit(func(mw *v1alpha1.ManagedWorkload) {
			mw.Spec.Actuator, mw.Spec.Mode, mw.Spec.Metric.Type = v1alpha1.ActuatorKEDA, v1alpha1.ModeFull, v1alpha1.MetricNone
			mw.Spec.MinReplicas, mw.Spec.MaxReplicas, mw.Spec.CooldownSeconds = ptr.To[int32](0), 60, ptr.To[int32](0)
			exactly := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](0), Tolerance: resource.NewMilliQuantity(1, resource.DecimalSI)}
			mw.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: exactly, ScaleDown: exactly}
			mw.Spec.Triggers = []v1alpha1.Trigger{{
				Name: "jobs", Type: v1alpha1.TriggerPrometheus, Prometheus: &v1alpha1.PrometheusTrigger{Query: fmt.Sprintf("vector(%d)", n)},
				Target: &v1alpha1.TriggerTarget{AverageValue: resource.NewQuantity(1, resource.DecimalSI)},
			}}
		})
	}
	demand(0)
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	o := w.operator("--external-scaler-bind-address="+address, "--external-scaler-cert-dir="+keys)
	w.apply(scaledObject("localhost:"+port, ca))

	// 2. From zero, to numbers which differ by one beyond the HPA's usual tolerance, and back.
	for _, n := range []int{0, 7, 30, 31, 29, 28, 0} {
		demand(n)
		began := time.Now()
		w.eventually(fmt.Sprintf("%d replicas", n), func() string {
			mw := w.managed(testbed.WorkloadName)
			planned, now := ptr.Deref(mw.Status.PlannedReplicas, -1), w.replicas(testbed.Mash2)
			if mw.Status.ObservedGeneration != mw.Generation || planned < int32(n) || n == 0 && planned != 0 || now != planned {
				return fmt.Sprintf("%d planned, %d there: %s", planned, now, mw.Status.Reason)
			}
			return ""
		})
		t.Logf("demand %d: %d replicas after %.1f s", n, w.replicas(testbed.Mash2), time.Since(began).Seconds())
	}
	demand(4)
	w.eventually("replicas again", func() string {
		if now := w.replicas(testbed.Mash2); now < 4 {
			return fmt.Sprint(now)
		}
		return ""
	})
	if slices.ContainsFunc(w.deployment(testbed.Mash2).ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == api.FieldManager }) {
		t.Errorf("mash2 has written to what KEDA scales: %v", w.deployment(testbed.Mash2).ManagedFields)
	}
	for _, c := range w.records() {
		for _, done := range c.Outcomes {
			if done.Object.Kind == api.KindWorkload {
				t.Errorf("cycle %d: %s", c.ID, done.Action)
			}
		}
	}

	// 3. Without the operator nothing changes: its HPA says that it gets no metric.
	before := w.replicas(testbed.Mash2)
	w.stop(o)
	w.eventually("the HPA to miss its metric", func() string {
		var hpa autoscalingv2.HorizontalPodAutoscaler
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: "keda-hpa-" + testbed.WorkloadName}, &hpa); err != nil {
			return err.Error()
		}
		for _, c := range hpa.Status.Conditions {
			if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse {
				return ""
			}
		}
		return fmt.Sprintf("%+v", hpa.Status.Conditions)
	})
	if now := w.replicas(testbed.Mash2); now != before {
		t.Errorf("%d → %d replicas without the operator", before, now)
	}
}

// edit changes the workload's ManagedWorkload.
func (w *world) edit(change func(*v1alpha1.ManagedWorkload)) {
	w.t.Helper()
	w.eventually("an edit", func() string {
		mw := w.managed(testbed.WorkloadName)
		change(mw)
		if err := w.Client.Update(w.t.Context(), mw); err != nil {
			return err.Error()
		}
		return ""
	})
}

// startKEDA runs KEDA's operator and, behind the API server, its metrics server, with the
// keys of a folder between them.
func (w *world) startKEDA(operator, adapter, crds, keys string) {
	w.t.Helper()
	if out, err := w.Cluster.Kubectl(w.t.Context(), "apply", "--server-side", "-f", crds); err != nil {
		w.t.Fatalf("installing KEDA's CRDs: %v: %s", err, out)
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "keda"}})
	metrics, serves := freeAddress(w.t), freeAddress(w.t)
	_, port, err := net.SplitHostPort(serves)
	if err != nil {
		w.t.Fatal(err)
	}
	w.beside("keda-operator", operator, "--metrics-service-bind-address="+metrics, "--cert-dir="+keys,
		"--enable-prometheus-metrics=false", "--health-probe-bind-address=0")
	_, scraped, err := net.SplitHostPort(freeAddress(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	w.beside("keda-adapter", adapter, "--metrics-service-address="+metrics, "--metrics-service-grpc-authority=localhost", "--cert-dir="+keys,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--port="+scraped, "--tls-cert-file="+filepath.Join(keys, "tls.crt"), "--tls-private-key-file="+filepath.Join(keys, "tls.key"),
		"--lister-kubeconfig="+w.Cluster.Kubeconfig, "--authentication-kubeconfig="+w.Cluster.Kubeconfig, "--authorization-kubeconfig="+w.Cluster.Kubeconfig)
	if err := cluster.RegisterAPI(w.t.Context(), w.Cluster.RESTConfig(), v1beta1.SchemeGroupVersion, serves); err != nil {
		w.t.Fatal(err)
	}
}

// beside runs a program with the administrator's kubeconfig until the test ends, and shows
// the end of its log when that fails.
func (w *world) beside(name, program string, args ...string) {
	w.t.Helper()
	log, err := os.Create(filepath.Join(w.Dir, name+".log"))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Cluster.Kubeconfig, "WATCH_NAMESPACE=", "POD_NAMESPACE=keda", "KEDA_CLUSTER_OBJECT_NAMESPACE=keda")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if w.t.Failed() {
			w.t.Logf("%s ends with:\n%s", name, testbed.Tail(log.Name(), 40))
		}
	})
}

// scaledObject is that of the workload, with what KEDA checks the server's certificate by.
func scaledObject(address, ca string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: mash2-ca, namespace: %[1]s}
stringData:
  ca.crt: |
    %[3]s
  tls.crt: |
    %[4]s
  tls.key: |
    %[5]s
---
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: mash2-ca, namespace: %[1]s}
spec:
  secretTargetRef:
    - {parameter: caCert, name: mash2-ca, key: ca.crt}
    - {parameter: tlsClientCert, name: mash2-ca, key: tls.crt}
    - {parameter: tlsClientKey, name: mash2-ca, key: tls.key}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  scaleTargetRef: {name: %[2]s}
  minReplicaCount: 0
  maxReplicaCount: 60
  cooldownPeriod: 0
  pollingInterval: 2
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {tolerance: "0", stabilizationWindowSeconds: 0}
        scaleDown: {tolerance: "0", stabilizationWindowSeconds: 0}
  triggers:
    - type: external-push
      metadata: {scalerAddress: %[6]q, enableTLS: "true"}
      authenticationRef: {name: mash2-ca}
`, testbed.Mash2, testbed.WorkloadName, indented(ca, "ca.crt"), indented(ca, "tls.crt"), indented(ca, "tls.key"), address)
}

// indented is a file of a folder for a block of YAML.
func indented(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ")
}

// writeKeys puts an authority and a certificate of localhost, for both sides of a
// connection, into a folder with the names that Secrets have, and returns the folder.
func writeKeys(t *testing.T, dir string) string {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	var made [2]*ecdsa.PrivateKey
	for i := range made {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = key
	}
	put := func(name, kind string, der []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &made[0].PublicKey, made[0])
	put("ca.crt", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, authority, &made[1].PublicKey, made[0])
	put("tls.crt", "CERTIFICATE", der, err)
	der, err = x509.MarshalECPrivateKey(made[1])
	put("tls.key", "EC PRIVATE KEY", der, err)
	return dir
}
