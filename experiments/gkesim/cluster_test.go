package gkesim

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/container/apiv1/containerpb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/experiments/cluster"
)

// eventually waits until cond holds in a real cluster.
func eventually(t *testing.T, what string, cond func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		return cond(ctx), nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// The whole in front of a real control plane, its nodes kept alive by kwok: at
// 30 times the speed a boot takes two to three seconds.
func TestRealClusterGrowsAndShrinks(t *testing.T) {
	c := cluster.ForTest(t)
	kube, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig()
	cfg.Speed = 30
	cfg.Pools[1].Taints = nil
	s, err := New(cfg, kube)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	gke, igm, _ := clients(t, s)

	readyNodes := func(pool string) int {
		n := 0
		for _, node := range nodesOf(t, kube, pool) {
			if ready(&node) && len(node.Spec.Taints) == 0 {
				n++
			}
		}
		return n
	}
	eventually(t, "the first nodes are Ready and untainted", func(context.Context) bool { return readyNodes("mas-h2-staging-pool") == 2 })

	// A resize through GKE's API.
	op, err := gke.SetNodePoolSize(t.Context(), &containerpb.SetNodePoolSizeRequest{Name: clusterPath + "/nodePools/performance-pool", NodeCount: 1})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "one node per zone is Ready", func(context.Context) bool { return readyNodes("performance-pool") == 3 })
	eventually(t, "the operation is DONE", func(ctx context.Context) bool {
		got, err := gke.GetOperation(ctx, &containerpb.GetOperationRequest{Name: "projects/shop/locations/us-central1/operations/" + op.GetName()})
		return err == nil && got.GetStatus() == containerpb.Operation_DONE && got.GetError() == nil
	})
	node := nodesOf(t, kube, "performance-pool")[0]
	if got := node.Status.Allocatable.Cpu().MilliValue(); got != 1930 {
		t.Errorf("allocatable CPU %dm, want 1930m", got)
	}
	eventually(t, "GKE's DaemonSets run on it", func(ctx context.Context) bool {
		pods, err := kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name})
		running := 0
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return err == nil && running == len(systemDaemons)
	})

	// Pods that find no node grow the pool once it is autoscaled.
	createDeployment(t, kube, "web", 5, "1500m")
	if _, err := gke.SetNodePoolAutoscaling(t.Context(), &containerpb.SetNodePoolAutoscalingRequest{
		Name:        clusterPath + "/nodePools/performance-pool",
		Autoscaling: &containerpb.NodePoolAutoscaling{Enabled: true, MinNodeCount: 0, MaxNodeCount: 2},
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all pods run", func(ctx context.Context) bool {
		d, err := kube.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 5
	})
	if got := readyNodes("performance-pool"); got != 5 {
		t.Errorf("%d nodes for 5 pods of 1500m, want 5", got)
	}

	// Exactly the named instance goes, and its pod comes back elsewhere.
	victim := nodesOf(t, kube, "performance-pool")[0]
	zone := victim.Labels[corev1.LabelTopologyZone]
	for _, g := range s.findPool("performance-pool").groups {
		if g.zone != zone {
			continue
		}
		if _, err := igm.DeleteInstances(t.Context(), &computepb.DeleteInstancesInstanceGroupManagerRequest{
			Project: "shop", Zone: zone, InstanceGroupManager: g.name,
			InstanceGroupManagersDeleteInstancesRequestResource: &computepb.InstanceGroupManagersDeleteInstancesRequest{
				Instances: []string{s.computeURL(zone, "instances", victim.Name)},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the node is gone and its pod is back", func(ctx context.Context) bool {
		for _, n := range nodesOf(t, kube, "performance-pool") {
			if n.Name == victim.Name {
				return false
			}
		}
		d, err := kube.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 5
	})

	// Without pods the autoscaler empties the pool.
	if err := kube.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pool is empty", func(context.Context) bool { return len(nodesOf(t, kube, "performance-pool")) == 0 })
	if hours := s.NodeHours()["performance-pool"]; hours <= 0 {
		t.Errorf("node-hours = %v", hours)
	}
}

func createDeployment(t *testing.T, kube kubernetes.Interface, name string, replicas int32, cpu string) {
	t.Helper()
	labels := map[string]string{"app": name}
	_, err := kube.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "nginx",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
				}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
