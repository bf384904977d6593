package gkesim

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	labelPool          = "cloud.google.com/gke-nodepool"
	labelMachineFamily = "cloud.google.com/machine-family"

	// annotationKwok makes kwok play the kubelet of a node.
	annotationKwok = "kwok.x-k8s.io/node"
)

// node is the node of an instance of g as its kubelet registers it. The API
// server's admission adds the not-ready taint, the node lifecycle controller
// takes it away once kwok reports Ready.
func (s *Server) node(g *group, name, address string) *corev1.Node {
	p := g.pool
	labels := map[string]string{
		labelPool:                              p.Name,
		"cloud.google.com/gke-boot-disk":       "pd-balanced",
		"cloud.google.com/gke-os-distribution": "cos",
		"cloud.google.com/gke-provisioning":    "standard",
		labelMachineFamily:                     p.machine.Family,
		corev1.LabelArchStable:                 "amd64",
		corev1.LabelOSStable:                   "linux",
		corev1.LabelHostname:                   name,
		corev1.LabelInstanceTypeStable:         p.MachineType,
		corev1.LabelTopologyZone:               g.zone,
		corev1.LabelTopologyRegion:             region(g.zone),
		corev1.LabelFailureDomainBetaZone:      g.zone,
		corev1.LabelFailureDomainBetaRegion:    region(g.zone),
		corev1.LabelInstanceType:               p.MachineType,
	}
	if p.Spot {
		labels["cloud.google.com/gke-spot"], labels["cloud.google.com/gke-provisioning"] = "true", "spot"
	}
	maps.Copy(labels, p.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      labels,
			Annotations: map[string]string{annotationKwok: "fake"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: s.providerID(g.zone, name),
			Taints:     append([]corev1.Taint(nil), p.Taints...),
		},
		Status: corev1.NodeStatus{
			Capacity:    p.machine.Capacity(p.DiskGiB),
			Allocatable: p.machine.Allocatable(p.DiskGiB),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture:            "amd64",
				OperatingSystem:         "linux",
				KubeletVersion:          "v" + s.cfg.Version,
				ContainerRuntimeVersion: "containerd://2.1.5",
				OSImage:                 "Container-Optimized OS from Google",
			},
		},
	}
}

func (s *Server) providerID(zone, name string) string {
	return fmt.Sprintf("gce://%s/%s/%s", s.cfg.Project, zone, name)
}

// createNode registers the node of inst. One that exists is fine: the kubelet
// registers again too.
func (s *Server) createNode(ctx context.Context, inst *instance) error {
	node := s.node(inst.group, inst.name, inst.address)
	if _, err := s.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating node %s: %w", inst.name, err)
	}
	return nil
}

// adoptNodes makes instances of the nodes that an earlier server left.
func (s *Server) adoptNodes(ctx context.Context) error {
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labelPool})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	for _, node := range nodes.Items {
		p := s.findPool(node.Labels[labelPool])
		if p == nil {
			continue
		}
		for _, g := range p.groups {
			if !strings.HasPrefix(node.Name, g.base+"-") || node.Spec.ProviderID != s.providerID(g.zone, node.Name) {
				continue
			}
			inst := &instance{group: g, name: node.Name, id: s.nextID(), address: s.nextAddress(), created: now}
			s.names[node.Name] = true
			g.instances = append(g.instances, inst)
			s.recordRequest(inst, now)
			s.recordBoot(inst, now)
		}
	}
	return nil
}

// region is the region of a zone: us-central1 of us-central1-a.
func region(zone string) string {
	if i := strings.LastIndexByte(zone, '-'); i > 0 {
		return zone[:i]
	}
	return zone
}
