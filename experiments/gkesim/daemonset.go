package gkesim

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// systemDaemons are the pods that GKE runs on every node of a Standard cluster
// with its default add-ons. fluentbit-gke's requests are those that `kubectl
// describe node` shows on GKE 1.29 (cryptnono/cryptnono#34); kube-proxy's are
// Kubernetes' own for GCE (cluster/gce/gci/configure-helper.sh, KUBEPROXY_CPU);
// the others are typical, they vary by some millicores from release to release.
// On GKE kube-proxy is a static pod; here it is a DaemonSet, which takes the
// same room.
var systemDaemons = []struct{ name, cpu, memory string }{
	{"fluentbit-gke", "105m", "230Mi"},
	{"gke-metrics-agent", "6m", "110Mi"},
	{"kube-proxy", "100m", ""},
	{"netd", "2m", "30Mi"},
	{"pdcsi-node", "10m", "20Mi"},
}

// createDaemonSets creates GKE's own DaemonSets in kube-system.
func (s *Server) createDaemonSets(ctx context.Context) error {
	for _, d := range systemDaemons {
		requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(d.cpu)}
		if d.memory != "" {
			requests[corev1.ResourceMemory] = resource.MustParse(d.memory)
		}
		labels := map[string]string{"k8s-app": d.name}
		ds := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: d.name, Namespace: metav1.NamespaceSystem, Labels: labels},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						PriorityClassName: "system-node-critical",
						HostNetwork:       true,
						NodeSelector:      map[string]string{corev1.LabelOSStable: "linux"},
						Tolerations:       []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
						Containers: []corev1.Container{{
							Name:      d.name,
							Image:     "gke.gcr.io/" + d.name,
							Resources: corev1.ResourceRequirements{Requests: requests},
						}},
					},
				},
			},
		}
		_, err := s.kube.AppsV1().DaemonSets(ds.Namespace).Create(ctx, ds, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating DaemonSet %s: %w", ds.Name, err)
		}
	}
	return nil
}
